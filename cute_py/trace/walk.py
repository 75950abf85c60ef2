"""Reading plans: the ops of nested blocks, and the registers that each names."""

from __future__ import annotations

from dataclasses import fields, replace

from cute_py.trace.access import Access
from cute_py.trace.conditions import Compare, Logic, Not, Reg, Test
from cute_py.trace.ops import If, Loop, Op, Tile, While

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cute_py.trace.ops import Block


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
