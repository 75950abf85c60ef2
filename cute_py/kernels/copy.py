"""new here: a kernel, its launch shape, `cute.when`, and a tile copied by all threads of a block.

`copy_elements` gives each thread one element. `copy_tiles` gives each thread a part of a tile, in
vectors; tiles that extend past the array are predicated automatically. `copy_vectors` gives it
several vectors, all loaded before the first is stored, so the thread waits for memory once.
`copy_any` chooses tile and vectors for any two arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cute_py as cute
from cute_py.kernels.arrays import facts_of, next_power, tile_copy

ROWS, COLUMNS = 8, 32  # the threads of a block of copy_elements
THREADS, BYTES = 256, 64  # of a block of copy_vectors, and of a thread's part


@cute.kernel
def copy_elements(A: cute.Tensor, B: cute.Tensor) -> None:
    """B = A for arrays (M,N), an element for each thread."""
    cute.assume_shapes("MN MN", A, B)
    M, N = A.shape
    cute.launch(grid=(cute.ceil_div(N, COLUMNS), cute.ceil_div(M, ROWS)), block=(COLUMNS, ROWS))
    (bx, by), (tx, ty) = cute.block_idx(), cute.thread_idx()
    m, n = by * ROWS + ty, bx * COLUMNS + tx
    with cute.when((m < M) & (n < N)):
        B[m, n] = A[m, n]


@cute.kernel
def copy_tiles(A: cute.Tensor, B: cute.Tensor, copy: cute.TiledCopy) -> None:
    """B = A for arrays (M,N), a tile for each block."""
    cute.assume_shapes("MN MN", A, B)
    M, N = A.shape
    bM, bN = copy.tile_shape
    cute.launch(grid=(cute.ceil_div(M, bM), cute.ceil_div(N, bN)), block=copy.size())
    gA = cute.local_tile(A, (bM, bN), cute.block_idx())  # (BM,BN)
    gB = cute.local_tile(B, (bM, bN), cute.block_idx())  # (BM,BN)
    thread = copy.get_slice(cute.thread_idx())
    tAgA = thread.partition_S(gA)  # (CPY,CPY_M,CPY_N)
    tBgB = thread.partition_D(gB)  # (CPY,CPY_M,CPY_N)
    cute.copy(copy, tAgA, tBgB)


@cute.kernel
def copy_vectors(
    A: cute.Tensor, B: cute.Tensor, tile: tuple[int, int], copy: cute.TiledCopy
) -> None:
    """B = A for arrays (M,N), a tile (BM,BN) for each block, which the copy divides."""
    cute.assume_shapes("MN MN", A, B)
    (M, N), (bM, bN) = A.shape, tile
    across = cute.ceil_div(N, bN)
    cute.launch(grid=cute.ceil_div(M, bM) * across, block=copy.size())
    bid, thread = cute.block_idx(), copy.get_slice(cute.thread_idx())
    gA = cute.local_tile(A, tile, (bid // across, bid % across))  # (BM,BN)
    gB = cute.local_tile(B, tile, (bid // across, bid % across))  # (BM,BN)
    tAgA, tBgB = thread.partition_S(gA), thread.partition_D(gB)  # (CPY,CPY_M,CPY_N)
    held = cute.make_rmem_tensor(tAgA.shape, A.dtype)  # (CPY,CPY_M,CPY_N)
    cute.copy(copy, tAgA, held)
    cute.copy(copy, held, tBgB)


def choose(A: Any, B: Any) -> tuple[tuple[int, int], cute.TiledCopy]:
    """Return the tile of `copy_vectors` for two arrays, long along the contiguous mode, and how
    its threads share it.
    """
    dtype, mode, _bits = facts_of(A)
    total = THREADS * BYTES * 8 // dtype.bits
    along = min(total, next_power(A.shape[mode]))
    tile = (total // along, along) if mode else (along, total // along)
    return tile, tile_copy(tile, THREADS, A, B)


def copy_any(A: Any, B: Any) -> None:
    """B = A for arrays (M,N) of one shape and type."""
    copy_vectors(A, B, *choose(A, B))


def check() -> None:
    """Copy a ragged matrix each way."""
    a = np.arange(130 * 44, dtype=np.float32).reshape(130, 44)
    b, c, d = (np.full_like(a, np.nan) for _ in range(3))
    copy_elements(a, b)
    copy_tiles(a, c, tile_copy((32, 32), 128, a, c))
    assert (a == b).all()
    assert (a == c).all()
    copy_any(a, d)
    assert (a == d).all()


if __name__ == "__main__":
    check()
