"""Register storages that one op defines as a whole, before all that read them.

Such a storage is a variable that is assigned once. It needs no value before, which the compiler
would have to carry through loops and branches.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cute_py.codegen.storage import is_loose
from cute_py.plan import ops
from cute_py.plan.walk import blocks_of, every, reads, writes

if TYPE_CHECKING:
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan, Registers

COMPUTED = (ops.Map, ops.Convert)  # ops that write all elements of their result


def defined_once(plan: Plan) -> frozenset[str]:
    """Return the names of the storages that are written once and whole, before all reads."""
    counts = Counter(name for op in every(plan.body) for name in {x.storage for x in writes(op)})
    found = {r.name: r for r in plan.storages if counts[r.name] == 1 and not is_loose(r)}
    early: set[str] = set()
    _visit(plan.body, found, set(), early)
    return frozenset(found) - early


def _visit(block: Block, found: dict[str, Registers], known: set[str], early: set[str]) -> None:
    """Add the storages that are not known where they are used, or are not defined as a whole."""
    for op in block:
        early |= {x.storage for x in reads(op)} - known
        for name in {x.storage for x in writes(op)} & set(found):
            if _is_whole(op, found[name]):
                known.add(name)
            else:
                early.add(name)
        for inner in blocks_of(op):
            _visit(inner, found, set(known), early)


def _is_whole(op: Op, storage: Registers) -> bool:
    if not isinstance(op, COMPUTED):
        return False
    bits = len(set(op.dst.index)) * op.dst.dtype.bits
    return bool(bits == storage.count * storage.dtype.bits)
