"""new here: tables of pointers, `cute.TensorArray`: many products of different sizes in one launch.

The groups may differ in size: a block beyond the tiles of its group does nothing. The main loop is
that of gemm_08, since extents from a table are uniform.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import require
from cute_py.kernels.config import MultistageConfig, choose


@cute.kernel
def gemm_array(
    A: Any,
    B: Any,
    C: Any,
    M: Annotated[cute.s32, cute.s32(min=1)],
    N: Annotated[cute.s32, cute.s32(min=1)],
    cfg: MultistageConfig,
) -> None:
    """C[g] (m,n) = A[g] (m,k) * B[g] (n,k) transposed for every g, where A, B and C are tables
    (`cute.TensorArray`); no m exceeds M, no n N.
    """
    for name, x in (("A", A), ("B", B), ("C", C)):
        require(hasattr(x, "count"), "gemm_array", name, type(x).__name__, "a cute.TensorArray")
    cute.assume((A.count == C.count) & (B.count == C.count))
    bM, bN, bK = cfg.tile
    mma, (of_a, of_b) = cfg.tiled_mma(), cfg.operands()
    grid = cute.ceil_div(M, bM), cute.ceil_div(N, bN), C.count
    cute.launch(grid=grid, block=cfg.threads, allow_emulated=cfg.emulated)
    (bx, by, group), tid = cute.block_idx(), cute.thread_idx()
    a, b, c = A[group], B[group], C[group]
    cute.assume_shapes("MK NK MN", a, b, c)
    cute.assume((c.shape[0] <= M) & (c.shape[1] <= N))
    cute.return_if((bx * bM >= c.shape[0]) | (by * bN >= c.shape[1]))
    gA = cute.local_tile(a, (bM, bK), (bx, _))  # (BM,BK,k)
    gB = cute.local_tile(b, (bN, bK), (by, _))  # (BN,BK,k)
    sA = cute.smem(a.dtype, of_a.smem)  # (BM,BK,stages)
    sB = cute.smem(b.dtype, of_b.smem)  # (BN,BK,stages)
    tCgC = mma.get_slice(tid).partition_C(cute.local_tile(c, (bM, bN), (bx, by)))
    acc = mma.get_slice(tid).make_fragment_C(tCgC)  # (MMA,MMA_M,MMA_N)
    acc.fill(0)
    op_a = cute.Operand(gA, sA, of_a.g2s, cute.make_tiled_copy_A(of_a.s2r, mma))
    op_b = cute.Operand(gB, sB, of_b.g2s, cute.make_tiled_copy_B(of_b.s2r, mma))
    cute.mainloop(mma, acc, op_a, op_b)
    cute.copy(acc.to(c.dtype), tCgC)


def check() -> None:
    """Multiply groups of several sizes, of small integers."""
    rng = np.random.default_rng(0)
    sizes = [(70, 40, 64), (1, 100, 8), (130, 64, 136)]
    a, b = (
        [rng.integers(-4, 5, (size[i], size[2])).astype(np.float16) for size in sizes]
        for i in (0, 1)
    )
    c = [np.full((m, n), np.nan, np.float32) for m, n, _k in sizes]
    parts = [cute.TensorArray(x) for x in (a, b, c)]
    gemm_array(*parts, 130, 100, choose(a[0], b[0], (64, 64)))
    for x, y, z in zip(a, b, c, strict=True):
        assert (z == x.astype(np.float32) @ y.astype(np.float32).T).all()


if __name__ == "__main__":
    check()
