"""new here: atomics, on shared memory for a block, and one on global memory for each bin.

Threads load vectors, and add to the bins of their block. The blocks go through the values together,
so that few of them add to global memory.
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py.kernels.arrays import require, require_kind

THREADS, BLOCKS = 256, 264  # two blocks for each multiprocessor of an H100


@cute.kernel
def histogram(x: cute.Tensor, counts: cute.Tensor, bins: int, width: int) -> None:
    """Counts (bins) += how often each number is in x (N), where all are below `bins`."""
    cute.assume_shapes("N B", x, counts)
    rule = "as many elements as a thread loads at a time, from 1 to 64"
    require(1 <= width <= 64, "histogram", "width", width, rule)
    require_kind("histogram", ("s32", "u32"), counts=counts)
    require(x.dtype.is_integer, "histogram", "x", f"an array of {x.dtype}", "an array of integers")
    require(hasattr(bins, "__index__"), "histogram", "bins", bins, "a number of bins")
    cute.assume(counts.shape[0] == bins)
    (N,), tile = x.shape, THREADS * width
    tiles = cute.ceil_div(N, tile)
    blocks = cute.min_(tiles, BLOCKS)
    cute.launch(grid=blocks, block=THREADS)
    tid, held = cute.thread_idx(), cute.rmem(x.dtype, width)
    own = cute.smem("s32", bins)
    for i in cute.range(tid, bins, THREADS):
        own[i] = 0
    cute.syncthreads()
    for k in cute.range(cute.block_idx(), tiles, BLOCKS):
        first = (k * THREADS + tid) * width
        cute.copy(cute.local_tile(x, (width,), (k * THREADS + tid,)), held)
        for i in range(width):
            with cute.when(first + i < N):
                value = cute.as_int(held[i], 0, bins - 1)
                cute.atomic("add", cute.local_tile(own, (1,), (value,)), 1)
    cute.syncthreads()
    for i in cute.range(tid, bins, THREADS):
        cute.atomic("add", cute.local_tile(counts, (1,), (i,)), own[i])


def check() -> None:
    """Count random bytes."""
    x = np.random.default_rng(0).integers(0, 256, 10_000, np.uint8)
    counts = np.zeros(256, np.int32)
    histogram(x, counts, 256, 16)
    assert (counts == np.bincount(x, minlength=256)).all()


if __name__ == "__main__":
    check()
