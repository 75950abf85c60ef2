"""The samples that quick runs take: every two choices meet, and what fails is named."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sampling import check_each, each, in_turn, pairwise, quick

AXES = st.lists(st.integers(1, 5).map(range), min_size=2, max_size=5)


@given(AXES)
def test_every_two_values_of_two_axes_meet(axes):
    rows = pairwise(*axes)
    for i, j in combinations(range(len(axes)), 2):
        assert {(row[i], row[j]) for row in rows} == set(product(axes[i], axes[j]))
    assert len(rows) == len(set(rows))
    assert pairwise(*axes) == rows


def test_a_sample_of_pairs_is_small():
    assert len(pairwise(range(4), range(4), range(4), range(9), range(4))) <= 44
    assert len(pairwise(*[range(2)] * 10)) <= 12


@given(AXES)
def test_every_value_has_its_turn(axes):
    rows = in_turn(*axes)
    assert [set(column) for column in zip(*rows, strict=True)] == [set(axis) for axis in axes]


def test_what_is_not_in_the_sample_is_slow():
    rows = quick([(1, "a")], (1, 2), "ab")
    assert [row.values for row in rows] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert [bool(row.marks) for row in rows] == [False, True, True, True]


@each([1, 2, 3])
def test_each_case_is_checked(n):
    assert n > 0


def test_one_test_of_each_case_fails_for_all():
    def check(n):
        """Say no."""
        assert n > 1

    test = each([1, 2, 0], name=lambda n: f"case {n}")(check)
    assert (test.__name__, test.__doc__) == ("check", "Say no.")
    with pytest.raises(AssertionError, match=r"(?s)2 of 3 fail:\ncase 1: .*\ncase 0: "):
        test()


def test_all_that_fails_is_named():
    def check(n):
        if n > 2:
            raise ValueError(f"{n} is large")
        assert n != 2

    check_each(check, [0, 1])
    with pytest.raises(
        AssertionError, match=r"(?s)2 of 3 fail:\n2: AssertionError.*3: ValueError: 3 is"
    ):
        check_each(check, [1, 2, 3])
    with pytest.raises(AssertionError):
        check_each(check, [])
