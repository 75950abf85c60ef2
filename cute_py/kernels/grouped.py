"""new here: a grouped GEMM, many products of different sizes that are in memory, in one launch.

The tiles of all groups are numbered one after the other, and each block takes every n-th of them:
`tile` counts from the first tile of the group that the loop is at. Sizes are read on the GPU, so
the host needs not know them; `uniform="block"` promises that all threads read the same.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import require_count, require_kind
from cute_py.kernels.config import MultistageConfig, choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@cute.kernel
def gemm_grouped(
    A: cute.Tensor,
    B: cute.Tensor,
    C: cute.Tensor,
    sizes: cute.Tensor,
    starts: cute.Tensor,
    blocks: int,
    cfg: MultistageConfig,
) -> None:
    """C_g (M,N) = A_g (M,K) * B_g (N,K) transposed, for each group g.

    The matrices are parts of the vectors A, B and C, compact and along their rows: `sizes` (groups,
    3) has M, N and K of each group, `starts` (groups, 3) its first elements in A, B and C. K, and
    the starts in A and B, are multiples of 8. Sizes may be 0: with K = 0, C_g is 0.
    """
    cute.assume_shapes("A B C GX GX", A, B, C, sizes, starts)
    cute.assume_compact(A, B, C)
    cute.assume(sizes.shape[1] == 3)
    require_kind("gemm_grouped", ("s32", "s64", "u32"), sizes=sizes, starts=starts)
    require_count("gemm_grouped", blocks=blocks)
    bM, bN, bK = cfg.tile
    cute.launch(grid=blocks, block=cfg.threads)
    tid = cute.thread_idx()
    mma, (of_a, of_b) = cfg.tiled_mma(), cfg.operands()
    sA, sB = cute.smem(A.dtype, of_a.smem), cute.smem(B.dtype, of_b.smem)  # (BM or BN,BK,stages)
    s2r_a, s2r_b = cute.make_tiled_copy_A(of_a.s2r, mma), cute.make_tiled_copy_B(of_b.s2r, mma)
    tile = cute.var(cute.block_idx(), 0, uniform="block")
    for g in cute.range(sizes.shape[0]):
        M, N, K = (_number(sizes[g, i], unit) for i, unit in enumerate((1, 1, 8)))
        m, n = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
        mA, mB, mC = (
            _matrix(x.data, _number(starts[g, i], unit), shape, unit)
            for i, (x, unit, shape) in enumerate(((A, 8, (M, K)), (B, 8, (N, K)), (C, 1, (M, N))))
        )
        with cute.while_(_below(tile, m * n)):
            x, y = tile.get() % _at_least(m, 1), tile.get() // _at_least(m, 1)
            tCgC = mma.get_slice(tid).partition_C(cute.local_tile(mC, (bM, bN), (x, y)))
            acc = mma.get_slice(tid).make_fragment_C(tCgC)  # (MMA,MMA_M,MMA_N)
            acc.fill(0)
            gA = cute.local_tile(mA, (bM, bK), (x, _))  # (BM,BK,k)
            gB = cute.local_tile(mB, (bN, bK), (y, _))  # (BN,BK,k)
            a, b = cute.Operand(gA, sA, of_a.g2s, s2r_a), cute.Operand(gB, sB, of_b.g2s, s2r_b)
            cute.syncthreads()  # all have read the stages of the tile before
            cute.mainloop(mma, acc, a, b, count=cute.ceil_div(K, bK))
            cute.copy(acc.to(C.dtype), tCgC)
            tile.set(tile.get() + blocks)
        tile.set(tile.get() - m * n)


def _number(element: cute.Tensor, unit: int) -> Any:
    """Return a size, or the start of a matrix, that all threads of the block read."""
    return cute.as_int(element, 0, multiple_of=unit, uniform="block")


def _matrix(data: Any, start: Any, shape: tuple[Any, Any], unit: int) -> cute.Tensor:
    """Return a matrix in a vector; of one with an extent of 0 nothing is read."""
    extents = _at_least(shape[0], 1), _at_least(shape[1], unit)
    return cute.make_tensor(data.moved(start), cute.Layout(extents, (shape[1], 1)))


def _at_least(x: Any, least: int) -> Any:
    """Return x, or `least` if that is more."""
    opposite: Any = cute.min_(-x, -least)
    return -opposite


def _below(x: Any, end: Any) -> Any:  # a function
    """Return the condition of a loop: a variable is below an end."""
    return lambda: x.get() < end


def check() -> None:
    """Multiply matrices of small integers of four sizes."""
    rng = np.random.default_rng(0)
    sizes = np.array([(70, 40, 72), (1, 130, 8), (0, 8, 8), (64, 64, 0), (9, 3, 200)], np.int32)
    areas = np.array([(m * k, n * k, m * n) for m, n, k in sizes])
    starts = np.cumsum(np.concatenate([np.zeros((1, 3), int), areas]), 0).astype(np.int32)
    a, b = (rng.integers(-4, 5, starts[-1, i]).astype(np.float16) for i in range(2))
    c = np.full(starts[-1, 2], np.nan, np.float32)
    config = choose(np.zeros((8, 8), a.dtype), np.zeros((8, 8), a.dtype), (64, 64))
    gemm_grouped(a, b, c, sizes, starts[:-1].copy(), 3, config)
    for (m, n, k), start, end in zip(sizes, starts[:-1], starts[1:], strict=True):
        x, y, z = (v[s:e].astype(np.float32) for v, s, e in zip((a, b, c), start, end, strict=True))
        assert (z.reshape(m, n) == x.reshape(m, k) @ y.reshape(n, k).T).all()


if __name__ == "__main__":
    check()
