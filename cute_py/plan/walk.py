"""Reading plans: the ops of nested blocks, and what each op is made of."""

from __future__ import annotations

from dataclasses import replace

from cute_py.integers.polynomial import Symbol
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan.access import Access
from cute_py.plan.conditions import Reg
from cute_py.plan.op import Node, roles_of
from cute_py.plan.ops.registers import Map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.plan.conditions import Scalar
    from cute_py.plan.op import Block, Op


def blocks_of(op: Op) -> tuple[Block, ...]:
    """Return the blocks that an op holds."""
    return tuple([getattr(op, name) for name in op.blocks])


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
    if not op.blocks:
        return op
    held: Any = {name: rebuilt(getattr(op, name), rule) for name in op.blocks}
    return replace(op, **held)


def parts(x: object) -> Iterator[Node | Scalar]:
    """Give all that an op, or a part of one, is made of: registers, accesses, conditions, and the
    integers of the plan; not nested blocks, nor the numbers that registers are given.
    """
    if isinstance(x, tuple):
        for each in x:
            yield from parts(each)
    elif isinstance(x, Node):
        yield x
        for name, role in roles_of(x):
            held = getattr(x, name)
            if role == "elements":
                held = _expressions(held)
            yield from parts(held)
    elif isinstance(x, SymInt) or x.__class__ is int:
        yield x


def _expressions(values: object) -> tuple[object, ...]:
    whole = values if isinstance(values, tuple) else (values,)
    return tuple([x for x in whole if isinstance(x, (Node, SymInt))])


def accesses(op: Op) -> list[Access]:
    """Return the accesses of memory that an op makes."""
    return [part for part in parts(op) if isinstance(part, Access)]


def reads(op: Op) -> list[Reg]:
    """Return the registers that an op reads, those of its conditions and guards included."""
    held = [getattr(op, name) for name, role in roles_of(op) if role != "written"]
    return [part for part in parts(tuple(held)) if isinstance(part, Reg)]


def writes(op: Op) -> list[Reg]:
    """Return the registers that an op writes."""
    roles = ("written", "updated")
    held = [getattr(op, name) for name, role in roles_of(op) if role in roles]
    return [reg for reg in held if isinstance(reg, Reg)]


def arrays(op: Op, written: bool = False) -> set[str]:
    """Return the names of the arrays of global memory that an op reads or writes; or writes."""
    found: set[str] = set()
    for name, role in roles_of(op):
        if role == "neared" or (written and role != "stored"):
            continue
        held = getattr(op, name)
        accesses = [x for x in parts(held) if isinstance(x, Access)]
        found |= {x.storage for x in accesses if x.space == "gmem"}
        found |= {held} if isinstance(held, str) and role in ("loaded", "stored") else set()
    return found


def mbarriers(op: Op) -> list[Access]:
    """Return the mbarriers that an op uses."""
    return [getattr(op, name) for name, role in roles_of(op) if role == "mbarrier"]


def named(op: Op) -> list[str]:
    """Return the names of the integers that an op gives a value, those of its blocks left out."""
    return [getattr(op, name) for name, role in roles_of(op) if role == "named"]


def integers_in(op: Op) -> list[Scalar]:
    """Return the integers of an op, expressions and numbers; not those of nested blocks."""
    return [part for part in parts(op) if not isinstance(part, Node)]


def holds_numbers(op: Op) -> bool:
    """Tell whether an op may hold floats, so that equal ones may differ: 0.0 equals -0.0."""
    return bool(accesses(op)) or any(role == "elements" for _name, role in roles_of(op))


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


def storages(block: Block) -> set[str]:
    """Return the names of all register storages that a block uses."""
    return {reg.storage for op in every(block) for reg in (*reads(op), *writes(op))}
