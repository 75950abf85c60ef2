"""Few cases out of many: every two choices meet in a quick run, all choices in a slow one."""

from itertools import combinations, product

import pytest
from hypothesis import settings


def pairwise(*axes):
    """Return rows in which every two values of two axes meet, greedily few, always the same.

    Args:
        axes: the values of each place of a row.

    """
    axes = [list(axis) for axis in axes]
    places = [[(i, k) for k in range(len(axis))] for i, axis in enumerate(axes)]
    unmet = dict.fromkeys(
        frozenset(pair) for x, y in combinations(places, 2) for pair in product(x, y)
    )
    rows = []
    while unmet:
        row = list(next(iter(unmet)))
        for i in sorted(set(range(len(axes))) - {place for place, _ in row}):
            turned = places[i][len(rows) % len(axes[i]) :] + places[i]
            row.append(max(turned, key=lambda x: sum(frozenset((x, y)) in unmet for y in row)))
        for pair in combinations(row, 2):
            unmet.pop(frozenset(pair), None)
        rows.append(tuple(axes[i][k] for i, k in sorted(row)))
    return rows


def in_turn(*axes):
    """Return rows in which every value of every axis occurs: as many as the longest axis has."""
    axes = [list(axis) for axis in axes]
    return [tuple(axis[n % len(axis)] for axis in axes) for n in range(max(map(len, axes)))]


def fewer(part):
    """Return settings with one of `part` of the profile's examples, for costly ones."""
    return settings(max_examples=max(settings().max_examples // part, 1))


def quick(rows, *axes):
    """Return all rows of the product of the axes for `parametrize`: slow but for those given."""
    return [
        pytest.param(*row, marks=() if row in rows else pytest.mark.slow) for row in product(*axes)
    ]


def each(*axes, name=str):
    """Decorate what checks one case: it becomes one test of all cases, see `check_each`. Of several
    axes the cases are the product; what takes several arguments gets the parts of a case.

    It stands for hundreds of small tests, each of which would cost more than its check.
    """
    (cases,) = axes if len(axes) == 1 else (list(product(*axes)),)

    def test_of(check):
        several = check.__code__.co_argcount > 1

        def test():
            check_each((lambda case: check(*case)) if several else check, cases, name)

        for kept in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(test, kept, getattr(check, kept))
        return test

    return test_of


def check_each(check, cases, name=str):
    """Call `check` with each case; fail with the names of all that fail, and why."""
    cases, failed = list(cases), []
    assert cases
    for case in cases:
        try:
            check(case)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            failed.append(f"{name(case)}: {type(error).__name__}: {error}")
    assert not failed, f"{len(failed)} of {len(cases)} fail:\n" + "\n".join(failed)
