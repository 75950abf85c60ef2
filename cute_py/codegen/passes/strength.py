"""Addresses that go on from one op to the next, and from one pass of a loop to the next.

Copies of a loop's body that read rows of one array are steps away from each other, and the steps
stay the same. One register pair then walks along the rows, from op to op, in place of a pair for
each op that lives through the loop. Where the step from the last row back to the first one of the
next pass stays the same, too, the pair is carried around the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cute_py.codegen.passes import names_in
from cute_py.errors import CuteError
from cute_py.integers import ints
from cute_py.integers.polynomial import symbols_of
from cute_py.integers.polynomial import value as value_of
from cute_py.integers.symbol_forms import substitute
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan import ops
from cute_py.plan.walk import blocks_of, every, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.integers.polynomial import Symbol
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan


@dataclass(frozen=True)
class Chain:
    """The part of an op in a chain.

    Attributes:
        name: of the variable that holds the address.
        before: the offset (elements) that it stands for when the op begins; None: the op is the
            first.
        moves: whether it stands for the op's last address afterwards; it stays where a branch may
            leave the op out.
    """

    name: str
    before: Scalar | None
    moves: bool = True


@dataclass(frozen=True)
class Walk:
    """A chain that is carried around a loop.

    Attributes:
        name: of the variable that holds the address.
        source: what the first op of the chain reads or writes.
        begin: the offset (elements) of the first pass.
        step: from the end of a pass to the begin of the next (elements).
    """

    name: str
    source: Access
    begin: Scalar
    step: Scalar


def walked(op: Op) -> Access | None:
    """Return what an op reads or writes of global memory, if it can be a part of a chain."""
    x = op.moved
    return x if x is not None and x.space == "gmem" and x.dtype.bits >= 8 else None


class Chains:
    """All chains of a plan; they hold for its very ops, and not for equal ones.

    Attributes:
        plan: whose they are.
        parts: of an op in its chain, by the identity of the op.
        walks: the chains that a loop carries, by the identity of the loop.
    """

    def __init__(self, plan: Plan) -> None:
        """Find chains of two ops and more, and those that go around a loop."""
        self.plan, self.taken = plan, names_in(plan)
        self.parts: dict[int, Chain] = {}
        self.walks: dict[int, list[Walk]] = {}
        for op in every(plan.body):
            loop = op if isinstance(op, ops.Loop) else None
            for block in blocks_of(op):
                for run in _runs(block):
                    self._add(run, loop)
            if loop is not None:
                for run in _left_out(loop.body):
                    self._anchor(run, loop)

    def __str__(self) -> str:
        """Return a line for each loop with its walks (elements), and each op with its chain."""
        lines = []
        for op in every(self.plan.body):
            for walk in self.walks.get(id(op), []):
                way = f"from {walk.begin}, {walk.step} a pass"
                lines.append(f"{walk.name} around {op}: {way}  # {op.where}")
            chain = self.parts.get(id(op))
            if chain is not None:
                start = "first" if chain.before is None else f"from {chain.before}"
                lines.append(f"{chain.name} in {op.word}: {start}  # {op.where}")
        return "\n".join(lines)

    def _name(self, first: Access) -> str:
        """Return a name that stands for nothing else in the plan."""
        name = f"{first.storage}_at"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _add(self, run: list[tuple[Op, Access]], loop: ops.Loop | None) -> None:
        """Let an address walk from op to op, and around the loop that the ops are the body of;
        unless a loop further out has anchored them.
        """
        (_op, first), (_op, last) = run[0], run[-1]
        ends = None if loop is None else _around(loop, first.bases[0], last.bases[-1])
        if id(run[0][0]) in self.parts or (ends is None and len(run) == 1):
            return
        name, before = self._name(first), None
        if loop is not None and ends is not None:
            self._carry(loop, name, first, ends)
            before = first.bases[0]
        for op, x in run:
            self.parts[id(op)] = Chain(name, before)
            before = x.bases[-1]

    def _anchor(self, run: list[tuple[Op, Access]], loop: ops.Loop) -> None:
        """Let an address walk around a loop, and ops that a branch may leave out start from it."""
        first = run[0][1]
        head: Any = first.bases[0]
        ends = _around(loop, head, head)
        steps: list[Any] = [ints.sub(x.bases[0], head) for _op, x in run]
        if ends is None or any(map(varies, steps)):
            return
        name = self._name(first)
        self._carry(loop, name, first, ends)
        for op, _x in run:
            self.parts[id(op)] = Chain(name, head, moves=False)

    def _carry(self, loop: ops.Loop, name: str, first: Access, ends: tuple[Scalar, Scalar]) -> None:
        """Let a loop carry an address: of bases, as what is swizzled may need the loop's names."""
        walk = Walk(name, replace(first, inner=0), *ends)
        self.walks.setdefault(id(loop), []).append(walk)


def _around(loop: ops.Loop, first: Scalar, last: Scalar) -> tuple[Scalar, Scalar] | None:
    """Return the offset (elements) of the first pass and the step to the next one, if it is the
    same in all passes.
    """
    inside = {name for op in every(loop.body) for name in named(op)}
    head, tail = apart(first)[0], apart(last)[0]
    moved, left = symbols_of(terms_of(head)), symbols_of(terms_of(tail))
    k = next((s for s in moved if s.name == loop.var), None)
    if k is None or k.multiple_of != 1 or inside & {s.name for s in (*moved, *left)}:
        return None
    following: Any = ints.add(SymInt({(k,): 1}), loop.step)
    try:
        begin = _at(head, k, loop.start)
        step: Any = ints.sub(_at(head, k, following), tail)
    except CuteError:  # a division by k, which may be 0 after the last pass
        return None
    return None if varies(step) else (begin, step)


def _at(x: Scalar, k: Symbol, value: Scalar) -> Any:  # a Scalar
    """Return x at another value of a loop's variable."""
    p = substitute(terms_of(x), {k: terms_of(value)})
    number = value_of(p)
    return SymInt(p) if number is None else number


def _runs(block: Block) -> list[list[tuple[Op, Access]]]:
    """Return the ops of a block that walk along one array, with their accesses."""
    last: dict[str, list[tuple[Op, Access]]] = {}
    runs: list[list[tuple[Op, Access]]] = []
    for op in block:
        x = walked(op)
        if x is None or not varies(x.bases[0]):
            continue
        run = last.get(x.storage)
        if run is None or not _follows(run[-1][1], x):
            run = last[x.storage] = []
            runs.append(run)
        run.append((op, x))
    return runs


def _follows(before: Access, x: Access) -> bool:
    if before.dtype.bits != x.dtype.bits:
        return False  # of a recast array: offsets count other elements
    step: Any = ints.sub(x.bases[0], before.bases[-1])
    return not varies(step)


def _left_out(block: Block) -> Iterator[list[tuple[Op, Access]]]:
    """Give the runs that stand in branches of a block, not those of loops in it."""
    for op in block:
        if isinstance(op, ops.If):
            for part in blocks_of(op):
                yield from _runs(part)
                yield from _left_out(part)


# -- what loops change


def in_loop(name: str) -> bool:
    """Tell whether a symbol is a loop variable, or a `Let`."""
    return name[0] in "kn" and name[1:].isdigit()


def varies(x: Scalar) -> bool:
    """Tell whether a scalar may change from one iteration of a run-time loop to the next."""
    return any(in_loop(s.name) for s in symbols_of(terms_of(x)))


def apart(x: Scalar) -> tuple[Scalar, int]:
    """Return a scalar as what varies and a constant, which goes into the instruction: addresses
    that differ by constants then share a register.
    """
    if isinstance(x, int):
        return 0, x
    constant = terms_of(x).get((), 0)
    rest: Any = ints.sub(x, constant)
    return rest, constant
