"""`emulate(progress=...)`: called after each batch of blocks, and in between by its loops."""

import numpy as np
import pytest

import cute_py as cute


@cute.kernel
def double(A):
    cute.launch(grid=cute.ceil_div(A.shape[0], 32), block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    with cute.when(i < A.shape[0]):
        A[i] = A[i] + A[i]


@pytest.mark.parametrize("order", ["forward", "reversed"])
def test_progress_counts_the_blocks_of_each_batch(order):
    a, seen = np.ones(100, np.float32), []
    plan = cute.trace(double, a)
    cute.emulate(plan, a, memory=1, order=order, progress=lambda *x: seen.append(x))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert (a == 2).all()
    cute.emulate(plan, a, progress=lambda *x: seen.append(x))
    assert seen[4:] == [(4, 4)]


@cute.kernel
def sums(A, B):
    cute.launch(grid=2, block=32)
    t = cute.block_idx() * 32 + cute.thread_idx()
    for i in cute.range(A.shape[0]):
        for _ in cute.range(2):
            B[t] = B[t] + A[i]
    for _ in cute.range(3):
        B[t] = B[t] + A[0]


def test_progress_grows_with_the_outermost_loop():
    a, b, seen = np.ones(8, np.float32), np.zeros(64, np.float32), []
    plan = cute.trace(sums, a, b)
    cute.emulate(plan, a, b, memory=1, progress=lambda *x: seen.append(x))
    assert (b == 19).all()
    parts = [i / 8 for i in range(1, 8)]
    assert seen == [*[(part, 2) for part in parts], (1, 2), *[(1 + x, 2) for x in parts], (2, 2)]
