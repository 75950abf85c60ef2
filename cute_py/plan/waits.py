"""Kernels that may start before others have ended (`pdl=True`): what comes after a wait for these.

A thread may use global memory once it has waited, or has learnt of a thread that has: by a barrier,
an mbarrier or a flag. So one role of a kernel may wait for all, who store what came through its
ring, or each role waits for itself. What a plan cannot tell, the emulator checks. Source: PTX ISA,
griddepcontrol; Memory Consistency Model, causality order.
"""

from __future__ import annotations

from enum import IntEnum

from cute_py.errors import place_text, refusal
from cute_py.integers import ints
from cute_py.integers.polynomial import symbols_of
from cute_py.integers.symbols import terms_of
from cute_py.plan import ops
from cute_py.plan.walk import arrays, blocks_of, every, integers_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.plan.ops import Block


_BLOCKS = ("bid_x", "bid_y", "bid_z")


class After(IntEnum):
    """Whether threads come after a wait: not so far, perhaps, or certainly."""

    NO, PERHAPS, YES = range(3)


def require_wait(body: Block, name: str) -> None:
    """Refuse a kernel that may start before others have ended, and whose threads use memory, or
    end, before any wait that they may know of. Where nobody waits, the kernel may end before the
    preceding kernels, and the next one would not wait for these.
    """
    early = _Walk(body).early
    if early:
        raise refusal("plan-pdl", operation="kernel", where=place_text(early[0].line))
    if not _waits(body):
        raise refusal("plan-pdl", operation=name, where="its end")


def unordered(body: Block) -> frozenset[int]:
    """Return the ops, by identity, of which only a run tells whether a wait comes before: none
    where there is no wait, as in kernels for architectures on which they run one after another.
    """
    return frozenset(map(id, _Walk(body).perhaps)) if _waits(body) else frozenset()


def runs(op: ops.Loop) -> bool:
    """Return whether a loop certainly runs at least once."""
    a, b = (op.start, op.stop) if op.step > 0 else (op.stop, op.start)
    return ints.less(a, b) is True


def _is_wait(op: ops.Op) -> bool:
    return isinstance(op, ops.GridDep) and op.kind == "wait"


def _waits(block: Block) -> bool:
    """Return whether some thread of the grid waits in a block of ops: in a branch by thread or
    block, or in all branches.
    """
    for op in block:
        inside = [_waits(inner) for inner in blocks_of(op)]
        if isinstance(op, ops.If):
            names = {s.name for x in integers_in(op) for s in symbols_of(terms_of(x))}
            apart = op.scope != "block" or not names.isdisjoint(_BLOCKS)
            found = any(inside) if apart else all(inside)
        elif isinstance(op, ops.Loop):
            found = runs(op) and all(inside)
        else:
            found = _is_wait(op) or any(inside[:1])  # the test of a while is done
        if found:
            return True
    return False


def _learns(op: ops.Op) -> bool:
    """Return whether a thread may learn by an op what others have done."""
    if isinstance(op, ops.Barrier):
        return op.kind != "arrive"
    if isinstance(op, ops.Load):
        return op.order != "weak"
    return isinstance(op, (ops.MbarWait, ops.WaitUntil, ops.Fence)) or op.atomic


class _Walk:
    """What is known at each op of a body that uses global memory or ends threads: the ops that
    surely come `early`, and those that do so `perhaps`.
    """

    def __init__(self, body: Block) -> None:
        self.early: list[ops.Op] = []
        self.perhaps: list[ops.Op] = []
        self.block(body, After.NO, False)

    def block(self, block: Block, known: After, others: bool) -> After:
        """Return what is known after a block; `others`: whether other threads may have waited."""
        for op in block:
            inside = any(map(_is_wait, every((op,))))
            if _is_wait(op):
                known = After.YES
            elif isinstance(op, ops.If):
                then, other = (any(map(_is_wait, every(inner))) for inner in (op.then, op.other))
                known = min(
                    self.block(op.then, known, others or other),
                    self.block(op.other, known, others or then),
                )
            elif isinstance(op, (ops.Loop, ops.While)):
                known = self.loop(op, known, others or inside)
            else:
                self.use(op, known)
                if known == After.NO and others and _learns(op):
                    known = After.PERHAPS
            others |= inside
        return known

    def loop(self, op: ops.Loop | ops.While, known: After, others: bool) -> After:
        """Return what is known after a loop: of one that may not run, what was known before, or may
        have been learnt in it.
        """
        if isinstance(op, ops.While):
            known = self.block(op.test, known, others)
        end = self.block(op.body, known, others)
        if isinstance(op, ops.Loop) and runs(op):
            return end
        return max(known, end) if end == After.PERHAPS else known

    def use(self, op: ops.Op, known: After) -> None:
        """Keep a use of memory, or an end of threads, that may come before a wait."""
        ends = isinstance(op, ops.Leave) and op.target != "loop"
        if known == After.NO and (arrays(op) or ends):
            self.early.append(op)
        elif known == After.PERHAPS and arrays(op):
            self.perhaps.append(op)
