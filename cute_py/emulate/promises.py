"""`Promises`: whether threads that promise to have the same value do.

Threads need not get to a promise together. So the n-th value of a thread is compared with the n-th
of every other thread of the scope. Where all threads of the scope get there at once, nothing is
kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cute_py.emulate.spans import LANES

if TYPE_CHECKING:
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.spans import Array, Clusters, Span, Value
    from cute_py.plan.ops import Promise

# promise, count -> the values of groups of threads, and the threads that came first
Shared: TypeAlias = dict[tuple[int, int], tuple["Array", "Array"]]


class Promises:
    """The values that threads of a batch have promised to share; `grid`: those of the whole grid,
    which all batches of a run keep together.
    """

    def __init__(
        self, grid: Shared, faults: Faults, clusters: Clusters, blocks: int, warps: int
    ) -> None:
        self.grid, self.faults, self.clusters = grid, faults, clusters
        self.blocks, self.warps = blocks, warps
        # promise -> how often each thread got there [block, warp, lane]
        self.counts: dict[int, Array] = {}
        self.kept: Shared = {}

    def check(self, span: Span, active: Array, op: Promise, value: Value) -> None:
        """Compare the values of lanes with each other, and with those of lanes before."""
        shape, first = (self.blocks, self.warps, LANES), self.faults.first
        counts = self.counts.setdefault(id(op), np.zeros(shape, np.int64))
        groups, total = self._groups(span, op.scope)
        held = np.broadcast_to(np.asarray(value, np.int64), span.shape)
        times = counts[span.B[:, None], span.W]
        own = (span.B[:, None, None] * self.warps + span.W[None, :, None]) * LANES
        threads = own + np.arange(LANES)
        whole = bool(active.all()) and self._whole(span, op.scope)
        kept = self.grid if op.scope == "grid" else self.kept
        for n in np.unique(times[active]).tolist():
            here = active & (times == n)
            none = np.full(total, -1), np.full(total, -1)  # values, threads
            values, witness = none if whole else kept.setdefault((id(op), n), none)
            g, v, t = groups[here], held[here], threads[here] + first * self.warps * LANES
            new = witness[g] < 0
            values[g[new]], witness[g[new]] = v[new], t[new]
            if (values[g] != v).any():
                at = np.argmax(here & (values[groups] != held))
                where = tuple(int(i) for i in np.unravel_index(at, span.shape))
                group = groups[where]
                raise self._fault(op, span, where, held[where], values[group], witness[group])
        counts[span.B[:, None], span.W] += active

    def _fault(
        self,
        op: Promise,
        span: Span,
        where: tuple[int, ...],
        value: Array,
        other: Array,
        thread: Array,
    ) -> Exception:
        block, thread = divmod(int(thread), self.warps * LANES)
        others = f"block {self.faults.block(block - self.faults.first)}, thread {thread}"
        facts = {"name": str(op.value), "value": int(value), "other": int(other)}
        more = {"scope": op.scope, "others": others}
        return self.faults.at("emulate-uniform", op, span, where, **facts, **more)

    def _groups(self, span: Span, scope: str) -> tuple[Array, int]:
        """Return the number of each thread's group in the batch, and the number of groups."""
        blocks, warps = span.B[:, None, None], span.W[None, :, None]
        if scope == "grid":
            groups, total = np.zeros_like(blocks), 1
        elif scope == "cluster":
            of = self.clusters.of
            groups, total = of[blocks], int(of.max()) + 1
        elif scope == "block":
            groups, total = blocks, self.blocks
        else:
            wide = 4 if scope == "warpgroup" else 1
            count = -(-self.warps // wide)
            groups, total = blocks * count + warps // wide, self.blocks * count
        return np.broadcast_to(groups, span.shape), total

    def _whole(self, span: Span, scope: str) -> bool:
        """Return whether a span has all threads of each group that it has a thread of."""
        if scope in ("grid", "cluster"):
            return False
        return scope == "warp" or span.nW == self.warps
