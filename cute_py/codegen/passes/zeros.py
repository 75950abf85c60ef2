"""Sums of warpgroup products that start from zero: the first product does not read them.

`acc.fill(0)` before a loop costs an instruction for each pair of registers, and a register that
something else wrote has to be waited for. wgmma starts from zero if its operand scale-d is false.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cute_py.integers.polynomial import Symbol
from cute_py.integers.symbols import SymInt
from cute_py.plan import ops
from cute_py.plan.conditions import Compare, bounds_of
from cute_py.plan.walk import every, reads, writes

if TYPE_CHECKING:
    from cute_py.plan.conditions import Reg
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan


def with_scale_d(plan: Plan, _arch: str) -> Plan:
    """Return the plan with sums that the first warpgroup product of a loop starts from zero, in
    place of a fill before the loop. A loop of no iterations leaves zeros: it keeps the fill. Sums
    whose first product decides at run time get unknown values before it.
    """
    products = [op for op in plan.ops if isinstance(op, ops.Wgmma)]
    if not products:
        return plan
    body = plan.body
    whole = {r.name: r.count for r in plan.storages}
    for sums in {op.d.storage: op.d for op in products if op.accumulate is not True}.values():
        if set(sums.index) == set(range(whole[sums.storage])):
            body = _unknown_before_use(body, sums)
    return replace(plan, body=_rewritten(body))


def _unknown_before_use(block: Block, sums: Reg) -> Block:
    """Return a block whose first use of sums finds unknown values there, if that is a product."""
    place = next(i for i, op in enumerate(block) if _uses(op, sums.storage))
    op = block[place]
    if isinstance(op, ops.If):
        sides: Any = {name: getattr(op, name) for name in op.blocks}
        inner: Any = {
            name: _unknown_before_use(side, sums)
            for name, side in sides.items()
            if any(_uses(each, sums.storage) for each in side)
        }
        return (*block[:place], replace(op, **inner), *block[place + 1 :])
    first = next(each for each in every((op,)) if _uses_itself(each, sums.storage))
    if not isinstance(first, ops.Wgmma) or first.accumulate is True:
        return block
    return (*block[:place], ops.Fill(sums, None, line=op.line), *block[place:])


def _rewritten(block: Block) -> Block:
    found: list[Op] = []
    zeros: dict[int, Op] = {}  # place in the block -> what follows the op there
    for place, op in enumerate(block):
        inner: Any = {name: _rewritten(getattr(op, name)) for name in op.blocks}
        new = replace(op, **inner) if inner else op
        filled = _fill_of(found, new) if isinstance(new, ops.Loop) else None
        if filled is not None and isinstance(new, ops.Loop):
            fill: Any = found[filled]
            empty, unknown = Compare("le", *_sides(new)), replace(fill, value=None)
            end = _wait_after(block, place, fill.dst.storage)
            if end is None:
                found[filled:] = [*found[filled + 1 :], _zeros(new, empty, fill, unknown)]
            else:
                found[filled] = unknown
                zeros[end] = _zeros(new, empty, fill)
            new = replace(new, body=_from_zero(new))
        found.append(new)
        found += [zeros[place]] if place in zeros else []
    return tuple(found)


def _zeros(loop: ops.Loop, empty: Compare, fill: Op, *others: Op) -> Op:
    """Return the branch that fills the sums of a loop of no iterations."""
    return ops.If(empty, (fill,), others, loop.scope, line=fill.line)


def _wait_after(block: Block, loop: int, storage: str) -> int | None:
    """Return the place of the wait for the products of a loop that are in flight at its end. The
    zeros of an empty loop follow it: before, ptxas would find them among products.
    """
    for place in range(loop + 1, len(block)):
        op = block[place]
        if isinstance(op, ops.WgWait) and op.n == 0:
            return place
        if _uses(op, storage) or any(isinstance(x, ops.WgWait) for x in every((op,))):
            return None
    return None


def _sides(loop: ops.Loop) -> tuple[Any, Any]:
    return (loop.stop, loop.start) if loop.step > 0 else (loop.start, loop.stop)


def _fill_of(before: list[Op], loop: ops.Loop) -> int | None:
    """Return the place of the fill whose zeros only the first product of a loop reads."""
    product = next((op for op in loop.body if isinstance(op, ops.Wgmma)), None)
    if product is None or product.accumulate is not True:
        return None
    storage = product.d.storage
    earlier = loop.body[: loop.body.index(product)]
    leaves = any(isinstance(op, ops.Leave) for op in every(loop.body))
    if leaves or any(_uses(op, storage) for op in earlier):
        return None
    for place in reversed(range(len(before))):
        if _uses(before[place], storage):
            return place if _is_zero(before[place], product) else None
    return None


def _uses(op: Op, storage: str) -> bool:
    return any(_uses_itself(each, storage) for each in every((op,)))


def _uses_itself(op: Op, storage: str) -> bool:
    """Return whether an op uses a storage, apart from its blocks."""
    return any(reg.storage == storage for reg in (*reads(op), *writes(op)))


def _is_zero(op: Op, product: ops.Wgmma) -> bool:
    """Return whether an op fills the sums of a product, and nothing else, with zeros."""
    if not isinstance(op, ops.Fill) or op.value is None or str(float(op.value)) != "0.0":
        return False
    each = product.atom.values[2]
    summed = {product.d.index[i * each + k] for i, _a, _b in product.steps for k in range(each)}
    return op.dst.dtype is product.d.dtype and set(op.dst.index) == summed


def _from_zero(loop: ops.Loop) -> Block:
    """Return the body of a loop whose first product starts from zero in the first iteration."""
    (low, _), (_, high) = bounds_of(loop.start), bounds_of(loop.stop)
    counter = SymInt({(Symbol(loop.var, 1, low if loop.step > 0 else None, high),): 1})
    place = next(i for i, op in enumerate(loop.body) if isinstance(op, ops.Wgmma))
    first: Any = loop.body[place]
    first = replace(first, accumulate=Compare("ne", counter, loop.start))
    return (*loop.body[:place], first, *loop.body[place + 1 :])
