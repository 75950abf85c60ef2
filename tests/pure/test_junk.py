"""Whatever is passed to the algebra, only CuteError, or TypeError about a signature, leaves it."""

import random
from inspect import signature
from itertools import islice, product

import pytest

import cute_py as cute
from cute_py import E, Layout, parse_layout, sym

NAMES = [
    each.partition("=")[0]
    for home, names in cute._HOME.items()
    if home.startswith("layout.")
    for each in names.split()
]
FUNCTIONS = {
    name: getattr(cute, name)
    for name in NAMES
    if callable(getattr(cute, name)) and name not in ("Underscore", "transform_leaf")
}
ROW = Layout((4, 8), (8, 1))
METHODS = (
    "compose",
    "with_shape",
    "tile",
    "get_hier_coord",
    "get_flat_coord",
    "get_1d_coord",
    "fit",
)
FUNCTIONS |= {f"Layout.{name}": getattr(ROW, name) for name in METHODS}
FUNCTIONS |= {"Layout()": ROW, "Layout[]": ROW.__getitem__}
GOOD = (ROW, 4, (2, 4), Layout(4, 2))


class Odd:
    """A class of which nothing is known."""


JUNK = (
    *(None, "3", "(4,8):(8,1)", 3.5, True, (), (4, 8), [4, 8], {}, {1: 2}, Odd(), Layout, b"x", 1j),
    *(-1, 0, 10**30, (None,), ("a",), (4, (8, "x")), float("nan"), range(3), lambda x: x, cute._),
    *(Layout(4), ROW, sym("N"), Layout((sym("N"), 4)), E(0), (E(0), E(1)), cute.Swizzle(2, 0, 3)),
    *map(parse_layout, ("Sw<2,0,3> o 0 o (8,8):(8,1)", "(4,5):(1@0,1@1)")),
    cute.to_f2(ROW),
)
OPERANDS = [
    *product(JUNK),
    *product(JUNK, GOOD),
    *product(GOOD, JUNK),
    *product(GOOD, GOOD, JUNK),
]


def leak(function, operands):
    """Return what other than a CuteError, or a TypeError about the signature, a call raises."""
    try:
        signature(function).bind(*operands)
        fits = True
    except TypeError:
        fits = False
    try:
        answer = function(*operands)
        if hasattr(answer, "__next__"):
            list(islice(answer, 3))
    except cute.CuteError:
        return None
    except Exception as error:
        return error if fits or not isinstance(error, TypeError) else None
    return None


@pytest.mark.parametrize("count", [800, pytest.param(None, marks=pytest.mark.slow)])
def test_nothing_but_refusals_leaves_the_algebra(count):
    calls = list(product(FUNCTIONS, OPERANDS))
    if count:
        calls = random.Random(14).sample(calls, count)
    leaks = [(name, operands, leak(FUNCTIONS[name], operands)) for name, operands in calls]
    found = [f"{name}{operands}: {error!r}" for name, operands, error in leaks if error]
    assert not found, f"{len(found)} of {len(calls)}:\n" + "\n".join(found[:20])


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("is_bijective", ((4, 8),)),
        ("append", (ROW, ROW, "3")),
        ("make_layout_tv", (Layout(4), 4)),
        ("append", (ROW, ROW, 10**30)),
        ("transform_leaf", (None, 4)),
        ("increment", ((1, 2), (4, 8), "3")),
        ("idx2crd", (4, 4, 0)),
        ("crd2idx", ((1, 2), (4, 8), 3)),
        ("substitute", (sym("N"), 4)),
        ("zip_", ((), None)),
        ("make_layout", (4, ROW, None)),
        ("overlaps", (ROW, 255)),
    ],
)
def test_junk_is_refused_or_answered(name, operands):
    assert leak(getattr(cute, name), operands) is None
