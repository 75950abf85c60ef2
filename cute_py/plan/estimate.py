"""How many registers a thread will need: an estimate from the life times of storages."""

from __future__ import annotations

from cute_py.plan.walk import blocks_of, reads, writes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.plan.op import Block
    from cute_py.plan.plan import Plan

ADDRESSES = 24  # registers for indices, addresses and predicates: what such kernels use beside


def register_estimate(plan: Plan) -> int:
    """Return the most 32-bit registers that storages hold at one time, and some for addresses.

    A storage lives from its first to its last use; one that is used in a loop and outside of it, or
    read before it is written there, lives through the whole loop. Values narrower than 32 bits are
    packed.
    """
    spans: dict[str, list[int]] = {}
    end = _number(plan.body, 0, spans)
    words = {r.name: -(-r.count * r.dtype.bits // 32) for r in plan.storages}
    change = [0] * (end + 2)
    for name, (first, last) in spans.items():
        change[first] += words[name]
        change[last + 1] -= words[name]
    most = total = 0
    for step in change:
        total += step
        most = max(most, total)
    return most + ADDRESSES


def _number(block: Block, at: int, spans: dict[str, list[int]]) -> int:
    """Extend the span of each storage over the ops of a block; return the next position."""
    for op in block:
        for reg in (*reads(op), *writes(op)):
            span = spans.setdefault(reg.storage, [at, at])
            span[1] = at
        begin, at = at, at + 1
        before = set(spans)
        for inner in blocks_of(op):
            at = _number(inner, at, spans)
        if op.repeats:
            for name in before:
                if spans[name][1] > begin:
                    spans[name][1] = at
    return at
