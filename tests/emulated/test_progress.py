"""`emulate(progress=...)`: called after each batch of blocks."""

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
