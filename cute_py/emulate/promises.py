"""`Promises`: whether threads that promise to have the same value do.

Threads need not get to a promise together. So the n-th value of a thread is compared with the n-th
of every other thread of the scope. Where all threads of the scope get there at once, nothing is
kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.spans import LANES

if TYPE_CHECKING:
    from cute_py.emulate.cohorts import Cohort
    from cute_py.emulate.spans import Array, Span, Value
    from cute_py.plan.ops import Promise


class Promises:
    """The values that threads of a run have promised to share."""

    def __init__(self) -> None:
        # promise, first block of the batch -> how often each thread got there [block, warp, lane]
        self.counts: dict[tuple[int, int], Array] = {}
        # promise, count, first block of the batch (-1: the grid) -> the groups' values, and threads
        self.kept: dict[tuple[int, int, int], tuple[Array, Array]] = {}

    def check(self, c: Cohort, op: Promise, value: Value) -> None:
        """Compare the values of a cohort with each other, and with those of earlier cohorts."""
        batch, span, active = c.batch, c.span, c.active()
        start = batch.faults.first
        shape = batch.blocks, batch.warps, LANES
        counts = self.counts.setdefault((id(op), start), np.zeros(shape, np.int64))
        groups, total = _groups(c, op.scope)
        held = np.broadcast_to(np.asarray(value, np.int64), span.shape)
        times = counts[span.B[:, None], span.W]
        own = (span.B[:, None, None] * batch.warps + span.W[None, :, None]) * LANES
        threads = own + np.arange(LANES)
        whole = bool(active.all()) and _whole(c, op.scope)
        for n in np.unique(times[active]).tolist():
            here = active & (times == n)
            key = (id(op), n, -1 if op.scope == "grid" else start)
            first = np.full(total, -1), np.full(total, -1)  # values, threads
            values, witness = first if whole else self.kept.setdefault(key, first)
            g, v, t = groups[here], held[here], threads[here] + start * shape[1] * LANES
            new = witness[g] < 0
            values[g[new]], witness[g[new]] = v[new], t[new]
            if (values[g] != v).any():
                at = np.argmax(here & (values[groups] != held))
                where = tuple(int(i) for i in np.unravel_index(at, span.shape))
                group = groups[where]
                raise self._fault(c, op, where, int(held[where]), values[group], witness[group])
        counts[span.B[:, None], span.W] += active

    @staticmethod
    def _fault(
        c: Cohort, op: Promise, where: tuple[int, ...], value: int, other: Array, thread: Array
    ) -> Exception:
        block, thread = divmod(int(thread), c.batch.warps * LANES)
        others = f"block {c.batch.faults.block(block - c.batch.faults.first)}, thread {thread}"
        facts = {"name": str(op.value), "value": value, "other": int(other), "scope": op.scope}
        return c.fault("emulate-uniform", op, where, others=others, **facts)


def _groups(c: Cohort, scope: str) -> tuple[Array, int]:
    """Return the number of each thread's group in the batch, and the number of groups."""
    batch, span = c.batch, c.span
    blocks, warps = span.B[:, None, None], span.W[None, :, None]
    if scope == "grid":
        groups, total = np.zeros_like(blocks), 1
    elif scope == "cluster":
        of = batch.engines.clusters.of
        groups, total = of[blocks], int(of.max()) + 1
    elif scope == "block":
        groups, total = blocks, batch.blocks
    else:
        wide = 4 if scope == "warpgroup" else 1
        count = -(-batch.warps // wide)
        groups, total = blocks * count + warps // wide, batch.blocks * count
    return np.broadcast_to(groups, span.shape), total


def _whole(c: Cohort, scope: str) -> bool:
    """Return whether a cohort has all threads of each group that it has a thread of."""
    span: Span = c.span
    if scope in ("grid", "cluster"):
        return False
    return scope == "warp" or span.nW == c.batch.warps
