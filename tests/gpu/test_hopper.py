"""Asynchronous instructions on a Hopper GPU: each set of kernels in a process of its own, with a
timeout, so that a kernel that hangs fails alone.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from cute_py.plan import ops
from tests.coverage import covers
from tests.gpu.harness import require_gpu, torch
from tests.hopper_kernels import CASES

require_gpu()
if torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120  # of a set of cases: most of it starts the process and compiles


@covers(ops.TmaLoad, ops.TmaStore, ops.BulkCommit, ops.BulkWait, ops.MbarInit, ops.MbarArrive)
@covers(ops.MbarWait, ops.SetMaxNReg, ops.Wgmma, ops.WgFence, ops.WgCommit, ops.WgWait)
@pytest.mark.parametrize("name", CASES)
def test_kernels_give_the_exact_results(name):
    command = [sys.executable, "-m", "tests.hopper_kernels", name]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout.count(": right") == len(list(CASES[name]()))
