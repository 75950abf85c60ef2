"""Loop variables modulo a number: the stage of a pipeline in each iteration.

`k % 3` of a loop variable costs 64-bit multiplications in each iteration. An induction variable
that counts 0, 1, 2, 0, ... costs an addition and a comparison. Powers of two stay: their remainder
is the lowest bits.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from cute_py.codegen.passes import names_in
from cute_py.integers import ints
from cute_py.integers.polynomial import FloorDiv, Symbol, plus, scaled, value
from cute_py.integers.symbol_forms import substitute
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.op import Node
from cute_py.plan.walk import accesses, every, rebuilt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.plan.conditions import Scalar
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan


def with_counters(plan: Plan, _arch: str) -> Plan:
    """Return the plan with a counter for each remainder of a loop variable in its addresses."""
    return replace(plan, body=rebuilt(plan.body, _Counters(names_in(plan)).op))


class _Counters:
    """Rewrites loops; `taken` are the names in use."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken

    def name(self, stem: str) -> str:
        number = next(n for n in count() if f"{stem}{n}" not in self.taken)
        self.taken.add(f"{stem}{number}")
        return f"{stem}{number}"

    def op(self, op: Op) -> Block:
        """Return an op, with the counters of a loop in front of it."""
        if not isinstance(op, ops.Loop):
            return (op,)
        loop, before = self.loop(op)
        return (*before, loop)

    def loop(self, loop: ops.Loop) -> tuple[ops.Loop, Block]:
        """Return a loop that counts the remainders, and the ops that initialise the counters."""
        before: list[Op] = []
        for d in sorted(set(_divisors(loop))):
            rest = SymInt({(Symbol(self.name("n"), 1, 0, d - 1),): 1})
            body = tuple(_rewritten(op, loop.var, d, rest) for op in loop.body)
            if body == loop.body:
                continue
            turn, line = self.name("turn"), loop.line
            first: Any = ints.mod(loop.start, d)
            later: Any = ints.mod(ints.add(rest, loop.step % d), d)
            before.append(ops.Set(turn, first, line=line))
            now = ops.Let(str(rest), "var", (turn,), line=line)
            loop = replace(loop, body=(now, *body, ops.Set(turn, later, line=line)))
        return loop, tuple(before)


def _divisors(loop: ops.Loop) -> Iterator[int]:
    """Yield the numbers, except powers of two, by which addresses divide the loop variable."""
    for op in every(loop.body):
        for access in accesses(op):
            for x in (*access.bases, access.inner):
                for floor in _floors(x, loop.var):
                    d = value(floor.divisor)
                    if d is not None and d & (d - 1):
                        yield d


def _floors(x: Scalar, var: str) -> list[FloorDiv]:
    atoms = {atom for m in terms_of(x) for atom in m}
    return [a for a in atoms if isinstance(a, FloorDiv) and any(s.name == var for s in a.symbols)]


def _rewritten(x: Any, var: str, d: int, rest: SymInt) -> Any:
    """Return an op, an access or a block of ops with the remainder in its addresses."""
    if isinstance(x, Access):
        bases = tuple(_by_remainder(base, var, d, rest) for base in x.bases)
        return replace(x, bases=bases, inner=_by_remainder(x.inner, var, d, rest))
    if isinstance(x, Node):
        new = {f.name: _rewritten(getattr(x, f.name), var, d, rest) for f in fields(x)}
        return replace(x, **new)
    if isinstance(x, tuple) and any(isinstance(part, ops.Op) for part in x):
        return tuple(_rewritten(part, var, d, rest) for part in x)
    return x


def _by_remainder(x: Scalar, var: str, d: int, rest: SymInt) -> Scalar:
    """Return a scalar in which the variable is d * quotient + rest, if the quotient drops out."""
    floors = _floors(x, var)
    if not any(value(floor.divisor) == d for floor in floors):
        return x
    (k,) = {s for floor in floors for s in floor.symbols if s.name == var}
    quotient = Symbol("quotient", 1, None, None)
    image = plus(scaled({(quotient,): 1}, d), terms_of(rest))
    p = substitute(terms_of(x), {k: image if k.multiple_of == 1 else {(k,): 1}})
    if any(s in (k, quotient) for m in p for atom in m for s in atom.symbols):
        return x
    number = value(p)
    return SymInt(p) if number is None else number
