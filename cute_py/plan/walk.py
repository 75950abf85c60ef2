"""Reading plans: the ops of nested blocks, and the registers that each names."""

from __future__ import annotations

from dataclasses import fields, replace

from cute_py.integers.polynomial import Symbol
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare, Logic, Not, Reg, Test
from cute_py.plan.ops import If, Let, Loop, Map, Op, Set, Tile, While

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cute_py.plan.conditions import Scalar
    from cute_py.plan.ops import Block


def blocks_of(op: Op) -> tuple[Block, ...]:
    """Return the blocks that an op holds."""
    if isinstance(op, Loop):
        return (op.body,)
    if isinstance(op, While):
        return op.test, op.body
    if isinstance(op, If):
        return op.then, op.other
    return ()


def every(block: Block) -> Iterator[Op]:
    """Give all ops of a block, those of nested blocks after the one that holds them."""
    for op in block:
        yield op
        for inner in blocks_of(op):
            yield from every(inner)


def rebuilt(block: Block, rule: Callable[[Op], Block]) -> Block:
    """Return a block in which each op is what a rule makes of it, the ops that it holds first."""
    return tuple(new for op in block for new in rule(_with_blocks(op, rule)))


def _with_blocks(op: Op, rule: Callable[[Op], Block]) -> Op:
    if isinstance(op, Loop):
        return replace(op, body=rebuilt(op.body, rule))
    if isinstance(op, While):
        return replace(op, test=rebuilt(op.test, rule), body=rebuilt(op.body, rule))
    if isinstance(op, If):
        return replace(op, then=rebuilt(op.then, rule), other=rebuilt(op.other, rule))
    return op


def registers_in(x: object) -> Iterator[Reg]:
    """Give the registers that a field of an op names."""
    if isinstance(x, Reg):
        yield x
    elif isinstance(x, Test):
        yield x.reg
    elif isinstance(x, Not):
        yield from registers_in(x.term)
    elif isinstance(x, Logic):
        for term in x.terms:
            yield from registers_in(term)
    elif isinstance(x, tuple):
        for part in x:
            if not isinstance(part, (Op, Compare, int)):
                yield from registers_in(part)
    elif hasattr(x, "guards"):
        yield from registers_in(x.guards)


def accesses(op: Op) -> Iterator[Access]:
    """Give the accesses of memory that an op makes."""
    for f in fields(op):
        value = getattr(op, f.name)
        if isinstance(value, Access):
            yield value
        elif isinstance(value, Tile):
            yield value.access


def integers_in(x: object) -> Iterator[Scalar]:
    """Give the integers of an op: expressions, and numbers in comparisons, bounds of loops and
    variables; not those of nested blocks, nor numbers for registers.
    """
    if isinstance(x, SymInt):
        yield x
    elif isinstance(x, Compare):
        yield from (x.a, x.b)
    elif isinstance(x, Not):
        yield from integers_in(x.term)
    elif isinstance(x, Logic):
        yield from integers_in(x.terms)
    elif isinstance(x, Tile):
        yield from integers_in(x.access)
    elif isinstance(x, Access):
        yield from integers_in((*x.bases, x.inner, *x.guards))
    elif isinstance(x, Map):
        yield from (v for v in x.sources if isinstance(v, SymInt))
    elif isinstance(x, (Let, Set, Loop)):
        found = (x.start, x.stop) if isinstance(x, Loop) else _operands(x)
        yield from (v for v in found if isinstance(v, (int, SymInt)))
    elif isinstance(x, Op):
        for f in fields(x):
            yield from integers_in(getattr(x, f.name))
    elif isinstance(x, tuple):
        for part in x:
            if not isinstance(part, (Op, int)):
                yield from integers_in(part)


def _operands(op: Let | Set) -> tuple[object, ...]:
    return op.operands if isinstance(op, Let) else (op.value,)


def symbols_of(block: Block) -> dict[str, Symbol]:
    """Return the symbols of a block's integers, by name."""
    found = {id(x): x for op in every(block) for x in integers_in(op) if isinstance(x, SymInt)}
    return {s.name: s for x in found.values() for m in terms_of(x) for a in m for s in a.symbols}


def computed_with(block: Block) -> set[str]:
    """Return the names of the symbols that a block does more with than to move them to registers
    as they are.
    """
    found = set()
    for op in every(block):
        for x in integers_in(op):
            symbols = {s.name for m in terms_of(x) for a in m for s in a.symbols}
            if not (isinstance(op, Map) and str(x) in symbols):
                found |= symbols
    return found


_WRITTEN = {"dst", "d", "old"}
_BOTH = {"d"}  # an accumulator is read, too


def reads(op: Op) -> Iterator[Reg]:
    """Give the registers that an op reads."""
    for f in fields(op):
        writes = f.name in _WRITTEN and f.name not in _BOTH
        if f.name not in ("line", "body", "then", "other", "test"):
            value = getattr(op, f.name)
            if not (writes and isinstance(value, Reg)):
                yield from registers_in(value)


def writes(op: Op) -> Iterator[Reg]:
    """Give the registers that an op writes."""
    for f in fields(op):
        value = getattr(op, f.name)
        if f.name in _WRITTEN and isinstance(value, Reg):
            yield value


def storages(block: Block) -> set[str]:
    """Return the names of all register storages that a block uses."""
    return {reg.storage for op in every(block) for reg in (*reads(op), *writes(op))}
