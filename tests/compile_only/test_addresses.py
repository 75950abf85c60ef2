"""The addresses and guards of printed kernels are those of the law of `Access`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.integers import ints
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare, Logic, Not

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from tests.compile_only.on_host import prepared, wanted
from tests.compile_only.plans import (
    ALL,
    COLUMNS,
    FEW,
    ROWS,
    TID,
    X,
    Y,
    accesses,
    check,
    environments,
    load,
    near,
    numbers,
    plan_of,
    scalars,
)


@given(accesses("gmem"), environments)
def test_addresses_in_global_memory(x, environments):
    check(plan_of([load(x)]), environments)


@given(accesses("smem"), environments)
def test_addresses_in_shared_memory(x, environments):
    check(plan_of([load(x)]), environments)


near_by = st.builds(ints.add, st.just(TID) | st.integers(-9, 300), st.just(0) | st.just(FEW))


@given(accesses("smem", dtypes=(cute.s4,), scalars=near_by), environments)
def test_addresses_of_half_bytes_in_shared_memory(x, environments):
    """Offsets count elements: those of storages, far below 2**31."""
    check(plan_of([load(x)]), environments)


# -- guards


@st.composite
def guards(draw):
    """Draw rows of comparisons that share `extent - start`, and some other conditions."""
    start, extent = draw(scalars), draw(st.sampled_from((ROWS, COLUMNS, X)) | scalars)
    tests = st.sampled_from(("lt", "le", "lt", "ne", "eq"))
    rows = st.builds(
        lambda test, more: Compare(test, ints.add(start, more), extent), tests, near | numbers
    )
    other = st.builds(Compare, tests, scalars, scalars)
    other |= other.map(Not) | st.builds(
        lambda test, *terms: Logic(test, terms), st.sampled_from(("and", "or")), other, rows
    )
    found = draw(st.lists(rows, min_size=2, max_size=5)) + draw(st.lists(other, max_size=2))
    return tuple(dict.fromkeys(found))


@given(guards().flatmap(lambda found: accesses("gmem", found)), environments)
def test_guards(x, environments):
    check(plan_of([load(x)]), environments)


@pytest.mark.parametrize("constant", [2**31 - 2, 2**31 - 1, 2**31, -(2**31), -(2**31) + 1, 2**40])
def test_guards_at_the_ends_of_32_bits(constant):
    """What they share is clamped to 32 bits: a threshold at an end is not one of them."""
    starts = [ints.add(Y, constant + i) for i in (-1, 0, 1)]
    rows = [Compare(test, x, ROWS) for x in starts for test in ("lt", "le")]
    table = tuple((0, i) for i in range(6))
    masks = tuple((i,) for i in range(6))
    x = Access("gmem", "A", cute.f32, (Y,), table, guards=tuple(rows), masks=masks)
    run = prepared(plan_of([load(x)]))
    for more in range(-3, 4):
        for extent in (1, 2**31, 2**32, 2**41):
            env = dict.fromkeys(map(str, ALL), 0) | dict.fromkeys(("bid_y", "bid_z", "smem"), 0)
            env |= {"A": 0, "B": 0, "A_shape0": extent, "y": extent - constant + more}
            assert run(env) == wanted(plan_of([load(x)]), env)
