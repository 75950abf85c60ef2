"""new here: registers that accumulate in a run-time loop, `warp_reduce`, and a sum across warps.

One block sums one row: its threads add columns, the lanes of a warp combine in a butterfly, and the
warps through shared memory. `row_sum` loads its part of a row in vectors, all at once, and adds
them up afterwards; `sum_any` uses it where a row fits in the registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cute_py as cute
from cute_py.kernels.arrays import row_copy

THREADS = 128
WARPS = THREADS // 32


@cute.kernel
def sum_rows(A: cute.Tensor, out: cute.Tensor) -> None:
    """out[m] = the sum of A[m, :], added up in the type of `out`."""
    M, N = A.shape
    cute.launch(grid=M, block=THREADS)
    row, tid = cute.block_idx(), cute.thread_idx()
    total = cute.rmem(out.dtype, 1)
    total.fill(0)
    for j in cute.range(tid, N, THREADS):
        total += A[row, j].to(out.dtype)
    total = block_sum(total, cute.smem(out.dtype, WARPS))
    with cute.when(tid == 0):
        out[row] = total


def block_sum(x: cute.Tensor, partial: cute.Tensor) -> cute.Tensor:
    """Return the sum of x over the threads of a block; every thread gets it.

    Args:
        x: one element in registers.
        partial: shared memory, an element for each warp.

    """
    x = cute.warp_reduce("add", x)
    with cute.when(cute.lane_idx() == 0):
        partial[cute.warp_idx()] = x
    cute.syncthreads()
    held = cute.rmem(x.dtype, partial.shape)  # (WARPS)
    cute.copy(partial, held)
    return cute.reduce("add", held)


@cute.kernel
def row_sum(A: cute.Tensor, out: cute.Tensor, tile: Any, copy: cute.TiledCopy) -> None:
    """out[m] = the sum of A[m, :], added up in the type of `out`; a block keeps a row."""
    cute.launch(grid=A.shape[0], block=copy.size())
    row, tid = cute.block_idx(), cute.thread_idx()
    part = copy.get_slice(tid).partition_S(cute.local_tile(A, tile, (row, 0)))  # (CPY,1,CPY_N)
    held = cute.make_rmem_tensor(part.shape, A.dtype)
    cute.copy(part, held)
    total = cute.reduce("add", held.to(out.dtype))
    total = block_sum(total, cute.smem(out.dtype, copy.size() // 32))
    with cute.when(tid == 0):
        out[row] = total


def sum_any(A: Any, out: Any) -> None:
    """out[m] = the sum of A[m, :], added up in the type of `out`."""
    chosen = row_copy(A)
    if chosen is None:
        sum_rows(A, out)
    else:
        row_sum(A, out, *chosen)


def check() -> None:
    """Sum rows of integers, which is exact."""
    a = np.random.default_rng(0).integers(-9, 10, (33, 257)).astype(np.float32)
    out = np.full(33, np.nan, np.float32)
    sum_rows(a, out)
    assert (out == a.sum(1)).all()
    out.fill(np.nan)
    sum_any(a, out)
    assert (out == a.sum(1)).all()


if __name__ == "__main__":
    check()
