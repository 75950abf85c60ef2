"""On a GPU: products of warpgroups whose tiles begin at any row of a swizzled storage."""

import pytest

from tests.emulated.test_shifted_rows import MODES, SHIFTS, arrays, shifted, wanted
from tests.gpu.harness import require_gpu, torch

require_gpu()
pytestmark = pytest.mark.sm90


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("side", ["A", "B"])
def test_all_shifts(mode, major, side):
    a = arrays(major)
    for shift in SHIFTS:
        given = torch.from_numpy(a).cuda()
        d = torch.full((64, 64), float("nan"), device="cuda")
        shifted(given, d, mode, major, side, shift)
        assert (d.cpu().numpy() == wanted(a, major, side, shift)).all(), shift
