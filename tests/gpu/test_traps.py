"""What traps on a GPU: each in a process of its own, whose context a trap ends."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from tests.gpu.harness import launched, require_gpu

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120


@cute.kernel
def picked(x, out):
    """A table of 4 entries, by an index from memory."""
    cute.launch(grid=1, block=32)
    table = cute.make_table([x.shape[0] + k for k in range(4)])
    out[cute.thread_idx()] = table[cute.as_int(x[cute.thread_idx()])].to("s32")


@cute.kernel
def asserted(x, out):
    cute.launch(grid=1, block=32)
    value = x[cute.thread_idx()]
    cute.assert_(value < 4, "at least 4")  # noqa: PT009
    out[cute.thread_idx()] = value + 32


def main(name, value):
    """Run a kernel with one value that traps, or none."""
    x, out = np.arange(32, dtype=np.int32) % 4, np.zeros(32, np.int32)
    x[17] = int(value)
    found = launched(cute.trace(globals()[name], x, out), x, out)[1]
    assert (found == x + 32).all()
    print("ran")


@pytest.mark.parametrize("name", ["picked", "asserted"])
@pytest.mark.parametrize(("value", "traps"), [(3, False), (4, True), (2**30, True)])
def test_the_launch_ends_with_an_error(name, value, traps):
    require_gpu()
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.test_traps", name, str(value)],
        cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert ("ran" in done.stdout) == (done.returncode == 0) == (not traps), done.stderr[-2000:]
    assert not traps or "CUDA" in done.stderr


if __name__ == "__main__":
    main(*sys.argv[1:])
