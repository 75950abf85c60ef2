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
from cute_py.integers.polynomial import FloorDiv, Symbol, plus, scaled, symbols_of, value
from cute_py.integers.symbol_forms import substitute
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare
from cute_py.plan.op import Node
from cute_py.plan.walk import accesses, every, integers_in, rebuilt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.integers.polynomial import Polynomial
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
            rest, last = (SymInt({(Symbol(self.name("n"), 1, 0, d - 1),): 1}) for _ in range(2))
            step, line = loop.step % d, loop.line
            body = tuple(_rewritten(op, loop.var, (d, step), (rest, last)) for op in loop.body)
            if body == loop.body:
                continue
            turn = self.name("turn")
            first: Any = ints.mod(loop.start, d)
            before.append(ops.Set(turn, first, line=line))
            head: Block = (ops.Let(str(rest), "var", (turn,), line=line),)
            later = self._later(rest, step, d, line)
            tail: Block = (later, ops.Set(turn, _symbol(later.var, d), line=line))
            if str(last) in {s.name for op in every(body) for x in integers_in(op)
                             for s in symbols_of(terms_of(x))}:  # fmt: skip
                old = self.name("turn")
                earlier: Any = ints.mod(ints.sub(loop.start, step), d)
                before.append(ops.Set(old, earlier, line=line))
                head = (*head, ops.Let(str(last), "var", (old,), line=line))
                tail = (*tail, ops.Set(old, rest, line=line))
            loop = replace(loop, body=(*head, *body, *tail))
        return loop, tuple(before)

    def _later(self, rest: SymInt, step: int, d: int, line: tuple[str, int]) -> ops.Let:
        """Return the remainder of the next iteration, for a step from 0 to d - 1."""
        ahead: Any = ints.add(rest, step)
        wraps = Compare("le", d, ahead)
        around: Any = 0 if step == 1 else ints.sub(ahead, d)
        return ops.Let(self.name("n"), "where", (wraps, around, ahead), line=line)


def _symbol(name: str, d: int) -> SymInt:
    return SymInt({(Symbol(name, 1, 0, d - 1),): 1})


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


def _rewritten(x: Any, var: str, count: tuple[int, int], rests: tuple[SymInt, SymInt]) -> Any:
    """Return an op, an access or a block of ops with the remainder in its addresses.

    Args:
        x: what to rewrite.
        var: the loop variable.
        count: its divisor, and its step modulo the divisor.
        rests: the remainders in this iteration and in the one before.

    """
    if isinstance(x, Access):
        bases = tuple(_by_remainder(base, var, count, rests) for base in x.bases)
        return replace(x, bases=bases, inner=_by_remainder(x.inner, var, count, rests))
    if isinstance(x, Node):
        new = {f.name: _rewritten(getattr(x, f.name), var, count, rests) for f in fields(x)}
        return replace(x, **new)
    if isinstance(x, tuple) and any(isinstance(part, ops.Op) for part in x):
        return tuple(_rewritten(part, var, count, rests) for part in x)
    return x


def _by_remainder(
    x: Scalar, var: str, count: tuple[int, int], rests: tuple[SymInt, SymInt]
) -> Scalar:
    """Return a scalar with a remainder in place of the variable, if its quotient drops out. The
    stage that is filled in a pipeline is the one that was read in the iteration before.
    """
    (d, step), (rest, last) = count, rests
    floors = [floor for floor in _floors(x, var) if value(floor.divisor) == d]
    if not floors:
        return x
    ahead = floors[0].numerator.get((), 0)
    if step and all((f.numerator.get((), 0) + step) % d == 0 for f in floors):
        found = _replaced(x, var, d, plus(terms_of(last), {(): ahead}, -1))
        if found is not x:
            return found
    return _replaced(x, var, d, terms_of(rest))


def _replaced(x: Scalar, var: str, d: int, rest: Polynomial) -> Scalar:
    """Return x with d * quotient + rest in place of the variable, if the quotient drops out."""
    floors = _floors(x, var)
    (k,) = {s for floor in floors for s in floor.symbols if s.name == var}
    quotient = Symbol("quotient", 1, None, None)
    image = plus(scaled({(quotient,): 1}, d), rest)
    p = substitute(terms_of(x), {k: image if k.multiple_of == 1 else {(k,): 1}})
    if any(s in (k, quotient) for m in p for atom in m for s in atom.symbols):
        return x
    number = value(p)
    return SymInt(p) if number is None else number
