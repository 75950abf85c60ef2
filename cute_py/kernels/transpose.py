"""new here: shared memory, `syncthreads`, and a layout that keeps accesses apart in its banks.

Reading rows and writing columns is slow on one side (`transpose_naive`). Through shared memory both
sides are rows. There a column of the tile must not lie in one bank: pad its rows, or swizzle them.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute

TILE = 32

PLAIN = cute.Layout((TILE, TILE), (TILE, 1))  # a column lies in one bank: 32 wavefronts
PADDED = cute.Layout((TILE, TILE), (TILE + 1, 1))
SWIZZLED = cute.composition(cute.Swizzle(5, 0, 5), PLAIN)


@cute.kernel
def transpose_naive(A: cute.Tensor, B: cute.Tensor) -> None:
    """B (N,M) = transposed A (M,N), straight from global memory to global memory."""
    M, N = A.shape
    cute.launch(grid=(cute.ceil_div(N, TILE), cute.ceil_div(M, 8)), block=(TILE, 8))
    (bx, by), (tx, ty) = cute.block_idx(), cute.thread_idx()
    m, n = by * 8 + ty, bx * TILE + tx
    with cute.when((m < M) & (n < N)):
        B[n, m] = A[m, n]


@cute.kernel
def transpose_shared(A: cute.Tensor, B: cute.Tensor, layout: cute.Layout) -> None:
    """B (N,M) = transposed A (M,N), through a tile in shared memory of the given layout."""
    M, N = A.shape
    cute.launch(grid=(cute.ceil_div(M, TILE), cute.ceil_div(N, TILE)), block=(TILE, 8))
    (bx, by), (tx, ty) = cute.block_idx(), cute.thread_idx()
    s = cute.smem(A.dtype, layout)  # (TILE,TILE)
    gA = cute.local_tile(A, (TILE, TILE), (bx, by))  # (TILE,TILE)
    gB = cute.local_tile(B, (TILE, TILE), (by, bx))  # (TILE,TILE)
    for i in range(0, TILE, 8):
        s[ty + i, tx] = gA[ty + i, tx]
    cute.syncthreads()
    for i in range(0, TILE, 8):
        gB[ty + i, tx] = s[tx, ty + i]


def check() -> None:
    """Transpose a ragged matrix in every way."""
    a = np.arange(70 * 45, dtype=np.float32).reshape(70, 45)
    b = np.full((45, 70), np.nan, np.float32)
    transpose_naive(a, b)
    assert (b == a.T).all()
    for layout in (PLAIN, PADDED, SWIZZLED):
        b = np.full((45, 70), np.nan, np.float32)
        transpose_shared(a, b, layout)
        assert (b == a.T).all()


if __name__ == "__main__":
    check()
