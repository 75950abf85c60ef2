"""`Barriers`: those of every block, and those of its cluster: who has arrived, and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.clocks import LOW, Acting
from cute_py.emulate.faults import line_of
from cute_py.emulate.spans import LANES, Array

if TYPE_CHECKING:
    from cute_py.emulate.clocks import Clocks
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.spans import Clusters, Span
    from cute_py.errors import CuteError
    from cute_py.plan import ops


class Barriers:
    """The 16 barriers of every block of a batch, and those of its clusters.

    Barriers of a block and of a cluster do not wait for threads that have returned. Source: PTX
    ISA, barrier.cluster ("all the non-exited threads").
    """

    COUNT = 16

    def __init__(
        self,
        ended: Array,
        clocks: Clocks | None,
        clusters: Clusters,
        faults: Faults,
        phases: bool = True,
    ) -> None:
        """Begin; `ended` tells which warps [block, warp] have ended; `phases`: whether to refuse
        arrivals that might count for the phase before.
        """
        self.phases = phases
        blocks, self.warps = ended.shape
        self.ended, self.clocks, self.clusters, self.faults = ended, clocks, clusters, faults
        self.left = np.zeros_like(ended)  # the warps of which all threads have returned
        self.arrived = np.zeros((blocks, self.COUNT), np.int64)  # threads
        self.phase = np.zeros((blocks, self.COUNT), np.int64)
        self.members = np.zeros((blocks, self.COUNT, self.warps), np.bool_)  # those who wait
        self.counts = np.zeros((blocks, self.COUNT), np.int64)  # threads that the first one expects
        self.ops: dict[tuple[int, int], ops.Op] = {}
        self.cluster_arrived = np.zeros(blocks, np.int64)
        self.cluster_phase = np.zeros(blocks, np.int64)
        self.cluster_seen = np.zeros((blocks, self.warps), np.int64)
        if clocks is not None:
            one = clocks.clock.shape[2:]
            for name in ("barriers", "phases"):  # who arrived, and in the phase before
                clocks.messages[name] = np.full((blocks, self.COUNT, *one), LOW, np.int64)
            for name in ("cluster", "clusters"):
                clocks.messages[name] = np.full((blocks, *one), LOW, np.int64)

    def everyone(self, B: Array) -> Array:
        """Return how many threads barriers of whole blocks wait for, whole warps counted."""
        threads: Array = LANES * (self.warps - self.left[B].sum(axis=1))
        return threads

    def whole(self, span: Span, number: int, threads: Array) -> bool:
        """Tell whether all threads that a barrier waits for come at once, and nobody waits."""
        alone = not self.arrived[span.B, number].any()
        return alone and not (span.nW * LANES < threads).any()

    def require_one(self, span: Span, op: ops.Op) -> None:
        """Refuse a barrier of the block that parts of it reach at different lines."""
        for row, b in enumerate(span.B.tolist()):
            other = self.ops.get((b, 0))
            if self.arrived[b, 0] and other is not None and other is not op:
                others = f"warps {np.flatnonzero(self.members[b, 0]).tolist()} wait at "
                raise self.faults.at(
                    "emulate-barrier-divergent", op, span, (row, 0), others=others + line_of(other)
                )
            self.ops[b, 0] = op

    def arrive(
        self, span: Span, who: Acting | None, ids: Array, threads: Array, waits: bool, op: ops.Op
    ) -> Array:
        """Arrive with all warps of a span at a barrier of each block; return the phases that
        are complete once all have arrived.

        Args:
            span: the warps.
            who: their threads.
            ids: the number of the barrier for each block.
            threads: how many complete it, for each block.
            waits: whether the warps wait.
            op: the op, for errors.
        """
        B, W = span.B, span.W
        self._require_count(span, ids, threads, op)
        self.arrived[B, ids] += LANES * len(W)
        clocks = self.clocks
        if clocks is not None and who is not None:
            if self.phases:
                self._require_next(span, who, ids, op)
            rows, together = clocks.joined(who, clocks.release(who))
            held = clocks.messages["barriers"]
            held[rows, ids] = np.maximum(held[rows, ids], together)
        if waits:
            self.members[B[:, None], ids[:, None], W] = True
        wanted: Array = self.phase[B, ids] + 1
        over = self.arrived[B, ids] > threads
        if over.any():
            row = int(np.argmax(over))
            given = f"{int(self.arrived[B[row], ids[row]])} threads"
            raise self._count(span, row, ids, threads, op, given)
        met = self.arrived[B, ids] == threads
        self._complete(B[met], ids[met])
        return wanted

    def _require_count(self, span: Span, ids: Array, threads: Array, op: ops.Op) -> None:
        """Refuse to arrive with another count than those who have arrived already."""
        B = span.B
        expected = np.where(self.arrived[B, ids] == 0, threads, self.counts[B, ids])
        differs = (expected != threads) & (ids != 0)  # who returns, changes that of the block
        if differs.any():
            row = int(np.argmax(differs))
            given = f"a count of {int(threads[row])} threads"
            raise self._count(span, row, ids, expected, op, given)
        self.counts[B, ids] = threads

    def _require_next(self, span: Span, who: Acting, ids: Array, op: ops.Op) -> None:
        """Refuse to arrive where nothing orders that after the phase before: in another order it
        would count there.
        """
        clocks = self.clocks
        assert clocks is not None
        rows: Array = np.searchsorted(span.B, who.rows)
        before = clocks.messages["phases"][who.rows, ids[rows]]
        early = (before > clocks.present(who)).reshape(len(rows), -1).any(axis=1)
        if early.any():
            k = int(np.argmax(early))
            row, warp = int(rows[k]), int(np.searchsorted(span.W, clocks.warp[who.parts[k]]))
            number = int(ids[row])
            raise self.faults.at("emulate-barrier-phase", op, span, (row, warp), id=number)

    def _count(
        self, span: Span, row: int, ids: Array, threads: Array, op: ops.Op, given: str
    ) -> CuteError:
        facts = {"id": int(ids[row]), "threads": int(threads[row]), "given": given}
        return self.faults.at("emulate-barrier-count", op, span, (row, 0), **facts)

    def _complete(self, B: Array, ids: Array) -> None:
        """Let those who wait for barriers of blocks go on."""
        if not len(B):
            return
        self.arrived[B, ids] = 0
        self.phase[B, ids] += 1
        waiting = self.members[B, ids]
        self.members[B, ids] = False
        clocks = self.clocks
        if clocks is None:
            return
        held = clocks.messages["barriers"]
        alike = bool((waiting == waiting[:1]).all())
        for k in [slice(None)] if alike else [slice(i, i + 1) for i in range(len(B))]:
            parts = clocks.of_warps(np.flatnonzero(waiting[k][0]))
            rows = B[k]
            if len(parts):
                who = Acting(np.repeat(rows, len(parts)), np.tile(parts, len(rows)), len(rows))
                clocks.acquire(who, np.repeat(held[rows, ids[k]], len(parts), axis=0))
        clocks.messages["phases"][B, ids] = held[B, ids]
        held[B, ids] = LOW

    # -- threads that return, and clusters

    def leave(self, span: Span, stays: Array) -> None:
        """Wait no more for warps [block, warp] of which no thread stays."""
        self.left[span.B[:, None], span.W] |= ~stays
        B = span.B
        met = (self.arrived[B, 0] > 0) & (self.arrived[B, 0] == self.everyone(B))
        self._complete(B[met], np.zeros(int(met.sum()), np.int64))
        if self.clusters.size > 1:
            self.settle_clusters(np.unique(self.clusters.of[B]))

    def arrive_cluster(self, span: Span, who: Acting | None) -> None:
        """Arrive with all warps of a span at the barriers of their clusters."""
        of = self.clusters.of[span.B]
        self.cluster_seen[span.B[:, None], span.W] = self.cluster_phase[of][:, None]
        clocks = self.clocks
        if clocks is not None and who is not None:
            clocks.apart()
            rows, together = clocks.joined(who, clocks.release(who))
            np.maximum.at(clocks.messages["cluster"], self.clusters.of[rows], together)
        np.add.at(self.cluster_arrived, of, LANES * span.nW)
        self.settle_clusters(np.unique(of))

    def settle_clusters(self, of: Array) -> None:
        """Complete the barriers of clusters that nobody is missing from."""
        for cluster in of.tolist():
            arrived = self.cluster_arrived[cluster]
            if (
                arrived
                and arrived == self.everyone(np.flatnonzero(self.clusters.of == cluster)).sum()
            ):
                self.cluster_phase[cluster] += 1
                self.cluster_arrived[cluster] = 0
                if self.clocks is not None:
                    held = self.clocks.messages
                    held["clusters"][cluster] = held["cluster"][cluster]
                    held["cluster"][cluster] = LOW
