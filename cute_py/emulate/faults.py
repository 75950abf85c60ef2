"""Refusals of the emulator: what a kernel did, where, and by which thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.errors import CuteError, refusal

if TYPE_CHECKING:
    from cute_py.emulate.spans import Array, Span
    from cute_py.plan.ops import Op
    from cute_py.plan.plan import Plan


def line_of(op: Op) -> str:
    """Return `gemm.py:31` of an op, or what it is."""
    return op.where or op.call


class Faults:
    """Makes the errors of a batch: it knows the shape of the grid, and the batch's first block."""

    def __init__(self, plan: Plan, grid: tuple[int, int, int] = (1, 1, 1), first: int = 0) -> None:
        """Keep the plan, the blocks of the grid, and the number of the batch's first block."""
        self.plan, self.grid, self.first = plan, grid, first

    def block(self, b: int) -> tuple[int, int, int]:
        """Return (x, y, z) of a block of the batch."""
        b += self.first
        x, y, _ = self.grid
        return b % x, b // x % y, b // (x * y)

    def fault(self, code: str, op: Op, **facts: object) -> CuteError:
        """Return an error that no one thread causes."""
        return refusal(code, operation=self.plan.name, where=line_of(op), line=op.line, **facts)

    def at(
        self, code: str, op: Op, span: Span, where: tuple[int, ...], **facts: object
    ) -> CuteError:
        """Return the error of the thread at `where`: row of block, of warp, and perhaps lane."""
        block = self.block(int(span.B[where[0]]))
        warp = int(span.W[where[1]])
        facts = {"block": block, "warp": warp, **facts}
        if len(where) > 2:
            facts |= {"lane": where[2], "thread": 32 * warp + where[2]}
            who = f"block {block}, warp {warp}, lane {where[2]} (thread {32 * warp + where[2]})"
        else:
            who = f"block {block}, warp {warp}"
        return self.fault(code, op, who=who, **facts)


def first(bad: Array, span: Span) -> tuple[int, ...]:
    """Return the indices of the first entry that is set, of an array that broadcasts to threads."""
    shape = np.broadcast_shapes(bad.shape, (*span.shape, *(1,) * (bad.ndim - 3)))
    where = np.unravel_index(int(np.argmax(np.broadcast_to(bad, shape))), shape)
    return tuple(int(i) for i in where)
