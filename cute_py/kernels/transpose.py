"""new here: shared memory, `syncthreads`, and a layout without bank conflicts.

Reading rows and writing columns is slow on one side (`transpose_naive`). Through shared memory both
sides are rows. There a column of the tile must not be in one bank: pad the rows, or swizzle them.
`transpose_vectors` reads and writes 16 bytes at a time, and swizzles as much at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import facts_of, require, require_threads

TILE = 32

PLAIN = cute.Layout((TILE, TILE), (TILE, 1))  # a column is in one bank: 32 wavefronts
PADDED = cute.Layout((TILE, TILE), (TILE + 1, 1))
SWIZZLED = cute.composition(cute.Swizzle(5, 0, 5), PLAIN)


@cute.kernel
def transpose_naive(A: cute.Tensor, B: cute.Tensor) -> None:
    """B (N,M) = transposed A (M,N), straight from global memory to global memory."""
    cute.assume_shapes("MN NM", A, B)
    M, N = A.shape
    cute.launch(grid=(cute.ceil_div(N, TILE), cute.ceil_div(M, 8)), block=(TILE, 8))
    (bx, by), (tx, ty) = cute.block_idx(), cute.thread_idx()
    m, n = by * 8 + ty, bx * TILE + tx
    with cute.when((m < M) & (n < N)):
        B[n, m] = A[m, n]


@cute.kernel
def transpose_shared(A: cute.Tensor, B: cute.Tensor, layout: cute.Layout) -> None:
    """B (N,M) = transposed A (M,N), through a tile in shared memory of the given layout.

    With three modes, those of a batch: each matrix (M,N,l).
    """
    _assume_transposed(A, B)
    A, B, (bx, by) = of_block(A, B, TILE, (TILE, 8))
    tx, ty = cute.thread_idx()
    s = cute.smem(A.dtype, layout)  # (TILE,TILE)
    gA = cute.local_tile(A, (TILE, TILE), (bx, by))  # (TILE,TILE)
    gB = cute.local_tile(B, (TILE, TILE), (by, bx))  # (TILE,TILE)
    for i in range(0, TILE, 8):
        s[ty + i, tx] = gA[ty + i, tx]
    cute.syncthreads()
    for i in range(0, TILE, 8):
        gB[ty + i, tx] = s[tx, ty + i]


@cute.kernel
def transpose_vectors(A: cute.Tensor, B: cute.Tensor, threads: int) -> None:
    """B (N,M) = transposed A (M,N), elements of 1 to 8 bytes, by vectors of 16 bytes.

    With three modes, those of a batch: each matrix (M,N,l).
    """
    _assume_transposed(A, B)
    require_threads("transpose_vectors", threads)
    rule = "an array of 1 to 8 bytes an element"
    side, width = side_of(A.dtype.bits), 128 // A.dtype.bits
    require(side > 0, "transpose_vectors", "A", f"an array of {A.dtype}", rule)
    A, B, (bx, by) = of_block(A, B, side, threads)
    # vectors of a row are permuted by the group of rows that a vector of a column covers
    swizzle = cute.Swizzle(3, width.bit_length() - 1, side.bit_length() - 1)
    s = cute.smem(A.dtype, cute.composition(swizzle, cute.Layout((side, side), (side, 1))))
    turned = s.with_layout(cute.composition(swizzle, cute.Layout((side, side))))  # (SIDE,SIDE)
    lanes = cute.Layout((threads // 8, 8), (8, 1))  # 8 write 128 bytes
    atom = cute.Copy_Atom("UniversalCopy<128>", A.dtype)
    copy = cute.make_tiled_copy(atom, lanes, cute.Layout((1, width)))
    thread = copy.get_slice(cute.thread_idx())
    tAgA = thread.partition_S(cute.local_tile(A, (side, side), (bx, by)))  # (CPY,CPY_M,CPY_N)
    tBgB = thread.partition_D(cute.local_tile(B, (side, side), (by, bx)))  # (CPY,CPY_N,CPY_M)
    held, column = (cute.make_rmem_tensor(tAgA.shape, A.dtype) for _ in range(2))
    cute.copy(tAgA, held)
    cute.copy(held, thread.partition_D(s))
    cute.syncthreads()
    cute.copy(thread.partition_S(turned), column)
    cute.copy(column, tBgB)


def side_of(bits: int) -> int:
    """Return the side of a tile by vectors, of elements of some bits; 0 if there is none."""
    return {8: 128, 16: 64, 32: 64, 64: 32}.get(bits, 0)


def _assume_transposed(A: Any, B: Any) -> None:
    many = A is not None and cute.rank(A) > 2
    cute.assume_shapes("MNL NML" if many else "MN NM", A, B)


def of_block(A: cute.Tensor, B: cute.Tensor, side: int, threads: Any) -> tuple[Any, Any, Any]:
    """Launch a block for each tile of A; return the matrices of the block's tile, and its place.
    The grid of a batch has one mode: the others are limited to 65,535 blocks.
    """
    m, n = (cute.ceil_div(x, side) for x in A.shape[:2])
    if cute.rank(A) == 2:
        cute.launch(grid=(m, n), block=threads)
        return A, B, cute.block_idx()
    cute.launch(grid=m * n * A.shape[2], block=threads)
    i = cute.block_idx()
    batch = i // (m * n)
    return A[_, _, batch], B[_, _, batch], (i % m, i // m % n)


def transpose_any(A: Any, B: Any) -> None:
    """B (N,M) = transposed A (M,N): by vectors where rows of both are made of whole ones."""
    if all(facts_of(x)[1:] == (1, 128) for x in (A, B)):
        transpose_vectors(A, B, 256)
    else:
        transpose_shared(A, B, SWIZZLED)


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
    a, b = a[:68, :44].copy(), np.full((44, 68), np.nan, np.float32)
    transpose_vectors(a, b, 256)
    assert (b == a.T).all()


if __name__ == "__main__":
    check()
