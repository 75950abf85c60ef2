"""`cute.ops.gemm` on a Hopper GPU against float64: each group of products in a process of its own,
with a timeout, so that a kernel that hangs fails alone.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.harness import require_gpu, torch

require_gpu()
from tests.gpu.hopper_gemm import GROUPS  # noqa: E402 (needs torch)

if torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300  # of a group: most of it compiles
EACH = 48  # products of a process


def run(*words):
    """Run a group in a process of its own; return what it printed."""
    command = [sys.executable, "-m", "tests.gpu.hopper_gemm", *map(str, words)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def shards(name, each=EACH):
    """Return (group, first product, how many) for all of a group."""
    count = len(list(GROUPS[name]()))
    assert count
    return [(name, first, min(each, count - first)) for first in range(0, count, each)]


@pytest.mark.parametrize(
    "shard",
    [x for name in GROUPS if name not in ("one", "some") for x in shards(name)],
    ids=lambda x: f"{x[0]}-{x[1]}",
)
def test_products_are_those_of_float64(shard):
    name, _first, count = shard
    assert f"{name}: {count} right" in run(*shard)


@pytest.mark.parametrize(("name", "count"), [("repeated", 6), ("graphs", 5), ("measured", 3)])
def test_products_repeat_in_graphs_and_as_measured(name, count):
    assert f"{name}: {count} right" in run(name)


@pytest.mark.slow
@pytest.mark.parametrize("shard", shards("some"), ids=lambda x: str(x[1]))
def test_random_products_are_those_of_float64(shard):
    assert f"some: {shard[2]} right" in run(*shard)
