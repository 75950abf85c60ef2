"""`cute.tune` on a GPU: it measures, and calls in other processes use what won."""

import os
import subprocess
import sys
from pathlib import Path

from tests.gpu.harness import require_gpu

require_gpu()

ROOT = Path(__file__).parents[2]
COMMON = """
import sys
import torch
import cute_py as cute

M, N, K = 1032, 776, 520
a, b = torch.randn(M, K).to("cuda", torch.bfloat16), torch.randn(N, K).to("cuda", torch.bfloat16).T
config = cute.ops.gemm_config(a, b)
"""
TUNE = """
best = cute.tune(cute.ops.gemm, a, b)
assert cute.ops.gemm_config(a, b) == best
times = [line.split(" us, ")[0] for line in best.reasons]
assert len(times) > 3 and all(x.startswith("measured: ") for x in times), best.reasons
"""
RIGHT = """
error = (cute.ops.gemm(a, b).double() - a.double() @ b.double()).norm() / (a @ b).double().norm()
assert error < 3e-3, error
"""


def run(text, cache):
    """Run a program with a folder of cached kernels; return the configuration that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", COMMON + text],
        cwd=ROOT,
        env=os.environ | {"CUTE_PY_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_other_processes_use_what_won(tmp_path):
    tmp_path.chmod(0o700)
    best = run(TUNE + RIGHT + "print(repr(best))", tmp_path)
    stored = "print(repr(config)); assert config.reasons[-1] == 'stored by cute.tune'"
    assert run(RIGHT + stored, tmp_path) == best
    (tuned,) = tmp_path.glob("tuned/*")
    tuned.unlink()
    assert run("print(config.reasons[-1])", tmp_path) != "stored by cute.tune"
