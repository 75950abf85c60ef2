"""Strength reduction of addresses: from op to op, and from one iteration of a loop to the next.

The copies of an unrolled body read rows of one array, at a distance that is loop-invariant. One
register pair then steps from row to row, instead of one pair per op that is live through the loop.
If the step from the last row back to the first row of the next iteration is loop-invariant too, the
loop carries the pair as an induction variable.
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
from cute_py.plan.params import TensorParam
from cute_py.plan.walk import arrays, blocks_of, every, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.integers.polynomial import Symbol
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan


@dataclass(frozen=True)
class Chain:
    """An op's link in a chain of addresses.

    Attributes:
        name: the variable that holds the address.
        before: the offset (elements) in that variable before the op; None for the first op.
        moves: whether the variable holds the op's last address afterwards. It does not change if
            a branch may skip the op.
        small: whether the variable holds a 32-bit offset (elements) instead of an address.
    """

    name: str
    before: Scalar | None
    moves: bool = True
    small: bool = False


@dataclass(frozen=True)
class Induction:
    """An address that a loop carries.

    Attributes:
        name: the variable that holds the address.
        source: the access of the first op of the chain.
        begin: the offset (elements) in the first iteration.
        step: from the end of one iteration to the start of the next (elements).
        small: whether it is a 32-bit offset (elements) instead of an address.
    """

    name: str
    source: Access
    begin: Scalar
    step: Scalar
    small: bool = False


def chainable(op: Op) -> Access | None:
    """Return the global memory access of an op, if it can be part of a chain."""
    x = op.moved
    if x is None or x.space != "gmem":
        return None
    return x if x.dtype.bits >= 8 or x.packed else None


def small_arrays(plan: Plan) -> frozenset[str]:
    """Return the names of the arrays whose offsets fit 32 bits. Those that cp.async reads in a loop
    of FFMA are none: the instruction that scales offsets and adds addresses, IMAD.WIDE, takes turns
    with FFMA (f32 of 4096^3 on an H200: 5 % slower).
    """
    small = frozenset(
        p.name for p in plan.params if isinstance(p, TensorParam) and p.small and p.dtype.bits >= 8
    )
    loops = [list(every(x.body)) for x in every(plan.body) if isinstance(x, ops.Loop)]
    multiplying = [x for x in loops if any(map(_is_multiply_add, x))]
    copies = [x for inside in multiplying for x in inside if isinstance(x, ops.CpAsync)]
    return small.difference(*map(arrays, copies))


def _is_multiply_add(op: Op) -> bool:
    return isinstance(op, ops.Mma) and op.atom.ptx is None


class Chains:
    """All chains of a plan. Ops are told apart by identity, not by equality.

    Attributes:
        plan: the plan.
        parts: the link of an op in its chain, by the identity of the op.
        inductions: the addresses that a loop carries, by the identity of the loop.
    """

    def __init__(self, plan: Plan) -> None:
        """Find chains of at least two ops, and addresses that a loop carries."""
        self.plan, self.taken = plan, names_in(plan)
        self.small = small_arrays(plan)
        self.parts: dict[int, Chain] = {}
        self.inductions: dict[int, list[Induction]] = {}
        for op in every(plan.body):
            loop = op if isinstance(op, ops.Loop) else None
            for block in blocks_of(op):
                for run in _runs(block):
                    self._add(run, loop)
            if loop is not None:
                for run in _in_branches(loop.body):
                    self._anchor(run, loop)

    def __str__(self) -> str:
        """Return a line for each address that a loop carries, and for each op in a chain."""
        lines = []
        for op in every(self.plan.body):
            for induction in self.inductions.get(id(op), []):
                way = f"from {induction.begin}, {induction.step} per iteration"
                lines.append(f"{induction.name} around {op}: {way}  # {op.where}")
            chain = self.parts.get(id(op))
            if chain is not None:
                start = "first" if chain.before is None else f"from {chain.before}"
                lines.append(f"{chain.name} in {op.word}: {start}  # {op.where}")
        return "\n".join(lines)

    def _name(self, first: Access) -> str:
        """Return a name that the plan does not use."""
        name = f"{first.storage}_at"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _add(self, run: list[tuple[Op, Access]], loop: ops.Loop | None) -> None:
        """Chain the addresses of a run of ops, and carry them around the loop that the ops are in,
        unless an outer loop has anchored them.
        """
        (_op, first), (_op, last) = run[0], run[-1]
        ends = None
        if loop is not None and first.storage not in _defined(loop):
            ends = _around(loop, first.bases[0], last.bases[-1])
        if id(run[0][0]) in self.parts or (ends is None and len(run) == 1):
            return
        name, before = self._name(first), None
        if loop is not None and ends is not None:
            self._carry(loop, name, first, ends)
            before = first.bases[0]
        for op, x in run:
            self.parts[id(op)] = Chain(name, before, small=first.storage in self.small)
            before = x.bases[-1]

    def _anchor(self, run: list[tuple[Op, Access]], loop: ops.Loop) -> None:
        """Carry an address around a loop; ops that a branch may skip start from it."""
        first = run[0][1]
        head: Any = first.bases[0]
        ends = None if first.storage in _defined(loop) else _around(loop, head, head)
        steps: list[Any] = [ints.sub(x.bases[0], head) for _op, x in run]
        if ends is None or any(map(varies, steps)):
            return
        name = self._name(first)
        self._carry(loop, name, first, ends)
        for op, _x in run:
            self.parts[id(op)] = Chain(name, head, False, first.storage in self.small)

    def _carry(self, loop: ops.Loop, name: str, first: Access, ends: tuple[Scalar, Scalar]) -> None:
        """Let a loop carry the address of a base; the swizzled part may depend on names that are
        defined in the loop.
        """
        small = first.storage in self.small
        induction = Induction(name, replace(first, inner=0), *ends, small=small)
        self.inductions.setdefault(id(loop), []).append(induction)


def _defined(loop: ops.Loop) -> set[str]:
    """Return the names of integers and pointers that a loop defines in its body."""
    return {name for op in every(loop.body) for name in named(op)}


def _around(loop: ops.Loop, first: Scalar, last: Scalar) -> tuple[Scalar, Scalar] | None:
    """Return the offset (elements) in the first iteration and the step to the next iteration, or
    None if the step is not loop-invariant.
    """
    inside = _defined(loop)
    head, tail = split_constant(first)[0], split_constant(last)[0]
    moved, left = symbols_of(terms_of(head)), symbols_of(terms_of(tail))
    k = next((s for s in moved if s.name == loop.var), None)
    if k is None or k.multiple_of != 1 or inside & {s.name for s in (*moved, *left)}:
        return None
    following: Any = ints.add(SymInt({(k,): 1}), loop.step)
    try:
        begin = _at(head, k, loop.start)
        step: Any = ints.sub(_at(head, k, following), tail)
    except CuteError:  # a division by k, which may be 0 after the last iteration
        return None
    return None if varies(step) else (begin, step)


def _at(x: Scalar, k: Symbol, value: Scalar) -> Any:  # a Scalar
    """Return x for another value of the loop variable."""
    p = substitute(terms_of(x), {k: terms_of(value)})
    number = value_of(p)
    return SymInt(p) if number is None else number


def _runs(block: Block) -> list[list[tuple[Op, Access]]]:
    """Return the runs of ops of a block that step along one array, with their accesses."""
    last: dict[str, list[tuple[Op, Access]]] = {}
    runs: list[list[tuple[Op, Access]]] = []
    for op in block:
        x = chainable(op)
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


def _in_branches(block: Block) -> Iterator[list[tuple[Op, Access]]]:
    """Yield the runs in branches of a block, but not in its loops."""
    for op in block:
        if isinstance(op, ops.If):
            for part in blocks_of(op):
                yield from _runs(part)
                yield from _in_branches(part)


# -- what loops change


def in_loop(name: str) -> bool:
    """Return whether a symbol is a loop variable, or a `Let` in a loop."""
    return name[0] in "kn" and name[1:].isdigit()


def varies(x: Scalar) -> bool:
    """Return whether a scalar may change from one iteration of a run-time loop to the next."""
    return any(in_loop(s.name) for s in symbols_of(terms_of(x)))


def split_variant(x: Scalar) -> tuple[Scalar, Scalar]:
    """Split a scalar into its loop-invariant and its loop-variant terms."""
    if isinstance(x, int) or not varies(x):
        return x, 0
    moving = {m: c for m, c in terms_of(x).items() if varies(SymInt({m: c}))}
    variant = SymInt(moving)
    fixed: Any = ints.sub(x, variant)
    return fixed, variant


def split_constant(x: Scalar) -> tuple[Scalar, int]:
    """Split a scalar into its varying part and a constant. The constant becomes the immediate
    offset of the instruction, so that addresses that differ by constants share a register.
    """
    if isinstance(x, int):
        return 0, x
    constant = terms_of(x).get((), 0)
    rest: Any = ints.sub(x, constant)
    return rest, constant
