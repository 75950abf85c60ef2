"""Every public function of the algebra on random operands: right by its oracle, or refused."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import Layout, parse_layout
from tests.oracles import ORACLES, Calls, bits, judge, layouts, pairs, tuples
from tests.sampling import each

# decided by symbols, texts and classes, and not by tables: each has a test of its own
WITHOUT_TABLES = {
    *("explain", "formula", "parse_layout", "substitute"),
    *("prove_bijective", "prove_divides", "prove_equal"),
}
FUNCTIONS = {
    name
    for home, names in cute._HOME.items()
    if home.startswith("layout.")
    for name in names.split()
    if callable(getattr(cute, name)) and not isinstance(getattr(cute, name), type)
}


def test_every_function_has_an_oracle():
    assert {bits, layouts, pairs, tuples}
    assert set(ORACLES) | WITHOUT_TABLES == FUNCTIONS


@pytest.mark.parametrize("count", [12, pytest.param(4000, marks=pytest.mark.slow)])
def test_functions_are_right_or_refuse(count):
    """About 2,000 calls, and 650,000 in a slow run."""
    calls = Calls(0)
    found = [judge(name, seed, calls) for name in ORACLES for seed in range(count)]
    wrong = [text for text in found if text]
    assert not wrong, f"{len(wrong)} of {len(found)}:\n" + "\n".join(wrong[:20])
    assert calls.answered > 9 * calls.refused


def table(x):
    return [x(i) for i in range(cute.size(x))]


@each(
    [
        ("right_inverse", "Sw<1,0,-2> o 0 o 4:1"),
        ("right_inverse", "Sw<2,0,-2> o 0 o 2:1"),
        ("max_common_layout", "Sw<1,0,-2> o 0 o 4:1"),
    ]
)
def test_inverses_have_indices_as_values(case):
    name, text = case
    layout = parse_layout(text)
    result = getattr(cute, name)(*[layout] * (1 if name == "right_inverse" else 2))
    assert max(table(result)) < layout.size()


# -- operands that are no operands

BAD = (np.float32(2), np.float64(2.5), np.bool_(True), True, 2.5, "4", None, np.array([1, 2]))


def test_integers_of_numpy_are_integers():
    layout = Layout((4, (2, 3)), (6, (1, 2)))
    for kind in (np.int8, np.int32, np.int64, np.uint8, np.uint64):
        for k in (0, 1):
            for name in ("shape", "stride", "size", "rank", "depth", "cosize", "coshape", "get"):
                function = getattr(cute, name)
                assert function(layout, kind(k)) == function(layout, k), (name, kind, k)
        assert cute.overlaps(layout, layout, kind(3)) == cute.overlaps(layout, layout, 3)


@each(
    [
        ("overlaps", lambda x: (x, Layout(4))),
        ("overlaps", lambda x: (Layout(4), x)),
        ("contains", lambda x: (x, Layout(4))),
        ("contains", lambda x: (Layout(4), x)),
        ("equivalent", lambda x: (x, Layout(4))),
        ("overlaps", lambda x: (Layout(4), Layout(4), x)),
        ("cosize", lambda x: (Layout(4), x)),
        ("coshape", lambda x: (Layout((4, 8)), x)),
    ],
    name=lambda case: case[0],
)
def test_what_is_no_operand_is_refused(case):
    name, operands = case
    for x in BAD:
        with pytest.raises(cute.CuteError):
            getattr(cute, name)(*operands(x))
