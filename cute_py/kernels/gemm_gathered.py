"""new here: rows that indices name: those of A are gathered, those of D are scattered.

`GatheredRows` is an operand of the main loop: it reads the index of each of its rows once, and
copies vectors of these rows tile by tile.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import require
from cute_py.kernels.config import MultistageConfig, choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# of the sums of a thread
PAIRS = "a type whose sums are pairs of columns: f16, bf16, or f32 as cute.typed(A, 'tf32')"


class GatheredRows:
    """The tiles (BM,BK) of rows of X (R,K), contiguous along K.

    Args:
        X: the matrix.
        rows: the row of X for each row of the product (M).
        g2s: how a tile is copied.
        shared: its stages (BM,BK,stages).
        block: which tile of rows.
    """

    def __init__(self, X: Any, rows: Any, g2s: Any, shared: Any, block: Any) -> None:
        self.X, self.g2s = X, g2s
        part, bM = g2s.get_slice(cute.thread_idx()), cute.size(shared, 0)
        self.bK = cute.size(shared, 1)
        self.stored = part.partition_D(shared)  # (CPY,CPY_M,CPY_K,stages)
        self.own = part.partition_S(cute.make_identity_tensor((bM, self.bK)))  # (CPY,CPY_M,CPY_K)
        self.count = cute.ceil_div(X.shape[1], self.bK)
        self.rows = []
        for i in range(cute.size(self.own, 1)):
            row, _column = self.own[0, i, 0]
            self.rows.append(_index(rows, block * bM + row, X.shape[0]))

    def begin(self, tile: Any) -> None:
        """Move to a tile."""
        self.tile = tile

    def fill(self, stage: Any) -> None:
        """Copy the vectors of the thread; rows and columns outside of X are zeros."""
        width = cute.size(self.own, 0)
        for i, row in enumerate(self.rows):
            for j in range(cute.size(self.own, 2)):
                _row, column = self.own[0, 0, j]
                vector = (self.tile * self.bK + column) // width
                source = cute.local_tile(self.X, (1, width), (row, vector))
                cute.copy(self.g2s, source, self.stored[_, i, j, stage])


def _index(rows: Any, at: Any, end: Any) -> Any:
    """Return an element of an array of indices below an end, 0 beyond the last one."""
    held = cute.rmem(rows.dtype, 1)
    cute.copy(cute.local_tile(rows, (1,), (at,)), held)
    index = cute.as_int(held, 0)
    with cute.when(at < rows.shape[0]):  # known in this branch alone: accesses keep their guards
        cute.assume(index < end)
    return index


@cute.kernel
def gemm_gathered(
    A: cute.Tensor,
    B: cute.Tensor,
    D: cute.Tensor,
    sources: cute.Tensor,
    targets: cute.Tensor,
    cfg: MultistageConfig,
) -> None:
    """D[targets[m]] (N) = A[sources[m]] (K) * B (N,K) transposed, by an instruction of tensor
    cores whose sums are pairs of columns: those of f16, bf16 or tf32. The targets are distinct.

    Indices are values in memory: the emulator refuses those outside of A and D; on a GPU a row
    outside of A counts as zeros, and one outside of D is not stored.
    """
    cute.assume_shapes("RK NK QN M M", A, B, D, sources, targets)
    (M,), (N, _k) = sources.shape, B.shape
    bM, bN, bK = cfg.tile
    mma, (of_a, of_b) = cfg.tiled_mma(), cfg.operands()
    grid = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    cute.launch(grid=grid, block=cfg.threads, allow_emulated=cfg.emulated)
    (bx, by), thread = cute.block_idx(), mma.get_slice(cute.thread_idx())
    sA = cute.smem(A.dtype, of_a.smem)  # (BM,BK,stages)
    sB = cute.smem(B.dtype, of_b.smem)  # (BN,BK,stages)
    gB = cute.local_tile(B, (bN, bK), (by, _))  # (BN,BK,k)
    own = thread.partition_C(cute.make_identity_tensor((bM, bN)))  # (MMA,MMA_M,MMA_N)
    require(own.shape[0] == (2, 2), "gemm_gathered", "A", f"an array of {A.dtype}", PAIRS)
    acc = thread.make_fragment_C(own)  # (MMA,MMA_M,MMA_N)
    acc.fill(0)
    gathered = GatheredRows(A, sources, of_a.g2s, sA, bx)
    a = cute.Operand(gathered, sA, None, cute.make_tiled_copy_A(of_a.s2r, mma))
    b = cute.Operand(gB, sB, of_b.g2s, cute.make_tiled_copy_B(of_b.s2r, mma))
    cute.mainloop(mma, acc, a, b)
    result = acc.to(D.dtype)  # ((2,2),MMA_M,MMA_N): pairs of columns, of two rows
    for half in range(2):
        for i in range(cute.size(own, 1)):
            row, _column = own[(0, half), i, 0]
            target = _index(targets, bx * bM + row, D.shape[0])
            with cute.when(bx * bM + row < M):
                for j in range(cute.size(own, 2)):
                    _row, column = own[(0, half), i, j]
                    pair = cute.local_tile(D, (1, 2), (target, (by * bN + column) // 2))
                    cute.copy(result[(_, half), i, j], pair)


def check() -> None:
    """Multiply rows in a random order, and put them in another one."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 72)).astype(np.float16) for n in (200, 66))
    d = np.zeros((150, 66), np.float32)
    sources, targets = rng.integers(0, 200, 130), rng.permutation(150)[:130]
    gemm_gathered(a, b, d, sources, targets, choose(a, b, (64, 64)))
    wanted = np.zeros_like(d)
    wanted[targets] = a[sources].astype(np.float32) @ b.astype(np.float32).T
    assert (d == wanted).all()


if __name__ == "__main__":
    check()
