"""What a plan requires of the sizes and numbers that it is launched with: the promises at its
beginning that are about these alone. The host tests them at each launch, here and on a GPU.
"""

from __future__ import annotations

import re

from cute_py.errors import refusal
from cute_py.integers.code import FUNCTIONS, function, together, tree
from cute_py.integers.polynomial import symbols_of as symbols_in
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import Compare, Logic, Not
from cute_py.plan.ops import Promise
from cute_py.plan.ops.control import Leave
from cute_py.plan.params import ScalarParam, TensorParam
from cute_py.plan.walk import every

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from cute_py.integers.polynomial import Symbol
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.plan import Plan


class Requirements:
    """The conditions that every launch of a plan must meet.

    Attributes:
        names: the sizes and numbers that they are about.
    """

    def __init__(self, plan: Plan) -> None:
        """Find and compile the conditions of a plan."""
        self.operation = plan.name
        self.arrays = [p.name for p in plan.params if isinstance(p, TensorParam)]
        self.promises = tuple(_promises(plan))
        sides = [x for op in self.promises for test in _compares(op.value) for x in _sides(test)]
        self.names = sorted({s.name for x in sides for s in symbols_in(terms_of(x))})
        if sides:
            self.values = function(self.names, together([tree(x) for x in sides]), FUNCTIONS)

    def test(self, sizes: Mapping[str, int]) -> None:
        """Refuse sizes and numbers, by name, for which a condition is false."""
        if not self.promises:
            return
        found = iter(self.values(*[sizes[name] for name in self.names]))
        for op in self.promises:
            if not _holds(op.value, found):
                named = {s.name for x in _compares(op.value) for s in _names(x)}
                listed = [f"{self._worded(name)} = {sizes[name]}" for name in sorted(named)]
                raise refusal(
                    "plan-requirement",
                    operation=self.operation,
                    where=op.where or None,
                    cond=self._worded(str(op.value)),
                    values=", ".join(listed),
                )

    def _worded(self, text: str) -> str:
        """Return text with sizes as a kernel writes them: A.shape[0]."""
        names = "|".join(map(re.escape, sorted(self.arrays, key=len, reverse=True)))
        return re.sub(rf"\b({names})_(shape|stride)(\d+)\b", r"\1.\2[\3]", text)


def _promises(plan: Plan) -> Iterator[Promise]:
    """Yield the promises that all threads make, of what the host knows."""
    known = {name for p in plan.params for name in _known(p)}
    for op in plan.body:
        if any(isinstance(x, Leave) for x in every((op,))):
            return  # what follows holds for the threads that are left
        if isinstance(op, Promise) and not op.scope:
            compares = list(_compares(op.value))
            if None not in compares and all(s.name in known for x in compares for s in _names(x)):
                yield op


def _known(p: TensorParam | ScalarParam) -> list[str]:
    if isinstance(p, ScalarParam):
        return [] if p.dtype.is_float else [p.name]
    return [f"{p.name}_{fact}{k}" for fact in ("shape", "stride") for k in range(len(p.shape))]


def _compares(cond: Any) -> Iterator[Compare | None]:
    """Yield the comparisons of a condition, in order; None for what the host cannot test."""
    if isinstance(cond, Compare):
        yield cond
    elif isinstance(cond, Logic):
        for term in cond.terms:
            yield from _compares(term)
    elif isinstance(cond, Not):
        yield from _compares(cond.term)
    else:
        yield None


def _sides(test: Compare | None) -> tuple[Scalar, ...]:
    return () if test is None else (test.a, test.b)


def _names(test: Compare | None) -> list[Symbol]:
    return [s for x in _sides(test) for s in symbols_in(terms_of(x))]


def _holds(cond: Any, values: Iterator[int]) -> bool:
    """Return whether a condition is true, for the values of the sides of its comparisons."""
    if isinstance(cond, Not):
        return not _holds(cond.term, values)
    if isinstance(cond, Logic):
        found = [_holds(term, values) for term in cond.terms]
        return all(found) if cond.test == "and" else any(found)
    a, b = next(values), next(values)
    return {"lt": a < b, "le": a <= b, "eq": a == b, "ne": a != b}[cond.test]
