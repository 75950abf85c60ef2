"""An emulation that is interrupted stops at once, and leaves nothing behind."""

import numpy as np
import pytest

import cute_py as cute


@cute.kernel
def doubled(x, y):
    cute.launch(grid=cute.ceil_div(x.shape[0], 32), block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        y[i] = x[i] + x[i]


def test_an_interrupt_stops_cleanly():
    x = np.arange(1 << 15, dtype=np.float32)
    y = np.zeros_like(x)
    plan = cute.trace(doubled, x, y)
    seen = []

    def interrupt(done, total):
        seen.append((done, total))
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cute.emulate(plan, x, y, progress=interrupt, memory=1 << 16)
    assert 0 < seen[-1][0] < seen[-1][1]  # in the middle
    doubled(x, y)
    np.testing.assert_array_equal(y, 2 * x)
