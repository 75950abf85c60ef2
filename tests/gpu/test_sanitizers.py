"""Kernels under the tools of compute-sanitizer, each in a process of its own with a timeout."""

import pytest

from tests.gpu.harness import require_gpu, torch
from tests.gpu.sanitize import HOPPER, RUNS, check, sanitizer

require_gpu()
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("tool", "name"), RUNS)
def test_no_tool_finds_anything(tool, name):
    path = sanitizer()
    if path is None:
        pytest.skip("needs compute-sanitizer")
    if name in HOPPER and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("needs a Hopper GPU")
    assert not check(path, tool, name)
