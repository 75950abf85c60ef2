"""20,000 random swizzled layouts of powers of two for each law: 0 wrong, 0 refused inverses."""

import pytest

from tests.swizzled_layouts import LAWS, broken

pytestmark = pytest.mark.slow

LAYOUTS = 20_000


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law_holds_for_many_swizzled_layouts(law):
    found = [what for what in (broken(law, seed) for seed in range(LAYOUTS)) if what]
    assert not found, f"{len(found)} of {LAYOUTS}:\n" + "\n".join(found[:20])
