"""Registers of warpgroup products that may be in flight at a wait."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cute_py.plan import ops
from cute_py.plan.conditions import Reg
from cute_py.plan.walk import blocks_of, every

if TYPE_CHECKING:
    from cute_py.plan.ops import Block
    from cute_py.plan.plan import Plan


def in_flight(plan: Plan) -> dict[int, tuple[Reg, ...]]:
    """Return, for each WgWait by its identity, the accumulators and the fragments of A that its
    threads may have in flight: not those of the other branch of an If.
    """
    found: dict[int, tuple[Reg, ...]] = {}
    _visit(plan.body, _uses(plan.body), found)
    return found


def _uses(block: Block) -> Counter[Reg]:
    """Count the uses of each storage by products, as its first element."""
    products = [op for op in every(block) if isinstance(op, ops.Wgmma)]
    regs = [x for op in products for x in (op.d, op.a) if isinstance(x, Reg)]
    return Counter(Reg(x.storage, x.dtype, (0,)) for x in regs)


def _visit(block: Block, uses: Counter[Reg], found: dict[int, tuple[Reg, ...]]) -> None:
    for op in block:
        if isinstance(op, ops.WgWait):
            found[id(op)] = tuple(reg for reg, n in uses.items() if n > 0)
        elif isinstance(op, ops.If):
            _visit(op.then, uses - _uses(op.other), found)
            _visit(op.other, uses - _uses(op.then), found)
        else:
            for inner in blocks_of(op):
                _visit(inner, uses, found)
