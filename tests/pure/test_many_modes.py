"""Thousands of modes, and numbers of thousands of digits: an answer or a refusal, soon."""

import contextlib
from random import Random
from time import process_time

import pytest

import cute_py as cute
from cute_py import Layout, Swizzle
from tests.sampling import each

SECONDS = 3  # of processor time; without the shortcuts these took 8 to 100


def compact(n):
    return Layout((2,) * n, tuple(2**i for i in range(n)))


def reverse(n):
    return Layout((2,) * n, tuple(2**i for i in reversed(range(n))))


def gaps(n):
    return Layout((2,) * n, tuple(3**i for i in range(n)))


def broadcast(n):
    return Layout((2,) * n, (0,) * n)


def falling(n):
    return Layout((2,) * n, tuple((-2) ** i for i in range(n)))


def swizzled(n):
    return cute.make_composed_layout(Swizzle(2, 0, 3), 0, compact(n))


FAMILIES = (compact, reverse, gaps, broadcast, falling, swizzled)
ONE = """coalesce complement cosize filter filter_zeros flatten hash is_bijective is_injective
    is_permutation is_surjective left_inverse make_layout_like max_alignment nullspace
    right_inverse size str to_linear_bases"""
TWO = "contains equivalent overlaps layout_add max_common_layout max_common_vector composition"
OF_A_TILE = "logical_divide zipped_divide tiled_divide flat_divide logical_product"


def calls(layout):
    """Return operations with their operands, by name."""
    operands = {ONE: (layout,), TWO: (layout, layout), OF_A_TILE: (layout, 4)}
    return {name: given for names, given in operands.items() for name in names.split()}


def function(name):
    return {"hash": hash, "str": str}.get(name) or getattr(cute, name)


def slow_calls(n, families, chosen=lambda _name: True):
    """Return what takes longer than it may, in each of three tries."""
    found = []
    for family in families:
        for name, operands in calls(family(n)).items():
            if chosen(name) and all(seconds(name, operands) > SECONDS for _ in range(3)):
                found.append((family.__name__, name))
    return found


def seconds(name, operands):
    start = process_time()
    with contextlib.suppress(cute.CuteError):
        function(name)(*operands)
    return process_time() - start


def test_whether_thousands_of_modes_are_one_to_one_is_soon_known():
    assert not slow_calls(4000, (compact, reverse, gaps), lambda name: name == "is_injective")
    assert cute.is_injective(reverse(4000))
    assert cute.is_injective(gaps(4000))
    assert not cute.is_injective(Layout((2,) * 4000, tuple(range(1, 4001))))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_operations_on_thousands_of_modes_end(family):
    # of modes that do not divide, each digit is fitted by itself
    costly = {gaps: ("composition", "layout_add"), falling: ("layout_add",)}.get(family, ())
    assert not slow_calls(2000, [family], lambda name: name not in costly)


def fibonacci(n):
    a, b = 1, 2
    for _ in range(n):
        a, b = b, a + b
    return a, b


HUGE = [
    ("steps that Euclid's scheme halves thousands of times", lambda: _carried(*fibonacci(3000))),
    ("a refusal that shows thousands of digits", lambda: cute.is_injective(_undecided())),
    ("a shape of thousands of digits", lambda: Layout(16**4000, 3)(-(16**4000))),
]


def _carried(a, b):
    return cute.composition(Layout((b, 2), (1, 5)), Layout(7, a))


def _undecided():
    rng = Random(0)
    return Layout((8,) * 40, tuple(rng.randrange(2**15000, 2**15001) for _ in range(40)))


@each(HUGE, name=lambda case: case[0])
def test_numbers_of_thousands_of_digits_are_answered_or_refused(case):
    with contextlib.suppress(cute.CuteError):
        case[1]()
