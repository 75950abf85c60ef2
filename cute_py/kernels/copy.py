"""new here: a kernel, its launch shape, `cute.when`, and a tile copied by all threads of a block.

`copy_elements` gives each thread one element. `copy_tiles` gives each thread a part of a tile, in
vectors; tiles that reach past the array are predicated by themselves.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py.kernels.config import tile_copy

ROWS, COLUMNS = 8, 32  # the threads of a block of copy_elements


@cute.kernel
def copy_elements(A: cute.Tensor, B: cute.Tensor) -> None:
    """B = A for arrays (M,N), an element for each thread."""
    M, N = A.shape
    cute.launch(grid=(cute.ceil_div(N, COLUMNS), cute.ceil_div(M, ROWS)), block=(COLUMNS, ROWS))
    (bx, by), (tx, ty) = cute.block_idx(), cute.thread_idx()
    m, n = by * ROWS + ty, bx * COLUMNS + tx
    with cute.when((m < M) & (n < N)):
        B[m, n] = A[m, n]


@cute.kernel
def copy_tiles(A: cute.Tensor, B: cute.Tensor, copy: cute.TiledCopy) -> None:
    """B = A for arrays (M,N), a tile for each block."""
    M, N = A.shape
    bM, bN = copy.tile_shape
    cute.launch(grid=(cute.ceil_div(M, bM), cute.ceil_div(N, bN)), block=copy.size())
    gA = cute.local_tile(A, (bM, bN), cute.block_idx())  # (BM,BN)
    gB = cute.local_tile(B, (bM, bN), cute.block_idx())  # (BM,BN)
    thread = copy.get_slice(cute.thread_idx())
    tAgA = thread.partition_S(gA)  # (CPY,CPY_M,CPY_N)
    tBgB = thread.partition_D(gB)  # (CPY,CPY_M,CPY_N)
    cute.copy(copy, tAgA, tBgB)


def check() -> None:
    """Copy a ragged matrix both ways."""
    a = np.arange(130 * 44, dtype=np.float32).reshape(130, 44)
    b, c = np.full_like(a, np.nan), np.full_like(a, np.nan)
    copy_elements(a, b)
    copy_tiles(a, c, tile_copy((32, 32), 128, a, c))
    assert (a == b).all()
    assert (a == c).all()


if __name__ == "__main__":
    check()
