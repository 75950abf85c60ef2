"""`Batch`: the state of blocks that run together, and `Resources`: what a plan uses of a block.

A plan is compiled once, and its steps run on any batch, several at a time: all state of a run is in
its batches.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.clocks import LOW, Acting, Agents, Clocks
from cute_py.emulate.engines import Engines
from cute_py.emulate.faults import CLOCKED, Faults, line_of
from cute_py.emulate.global_memory import GlobalMemory
from cute_py.emulate.peers import Peers
from cute_py.emulate.promises import Promises
from cute_py.emulate.regions import Traffic
from cute_py.emulate.releases import Releases
from cute_py.emulate.shadow import Grain, Shadow
from cute_py.emulate.spans import LANES, Array, Clusters, Span, Spans, Value
from cute_py.emulate.storages import RegisterFile, SharedMemory, shared_stride, storages
from cute_py.plan import ops
from cute_py.plan.setmaxnreg import registers_at_launch
from cute_py.plan.walk import (
    accesses,
    arrives_at_peers,
    cluster_barriers,
    mbarriers,
    reads,
    writes,
)

if TYPE_CHECKING:
    from cute_py.emulate.arguments import Arguments
    from cute_py.emulate.regions import Regions
    from cute_py.emulate.report import Report
    from cute_py.errors import CuteError
    from cute_py.plan.plan import Plan

INDICES = ("tid", "bid_x", "bid_y", "bid_z")


class Resources:
    """What a plan uses of a block, found once.

    Attributes:
        threads, warps: of a block; `mask`: the lanes that exist [1, warp, lane], None if all do.
        cluster: blocks of a cluster.
        shared: the shared storages by name; stride: their bytes, from block to block.
        registers: the register storages by name.
        agents: who touches shared memory.
        grain: how it is watched; None where it is not.
    """

    def __init__(self, plan: Plan, checks: frozenset[str]) -> None:
        self.plan, self.checks = plan, checks
        self.threads = plan.launch.threads
        self.warps = -(-self.threads // LANES)
        self.mask: Array | None = None
        if self.threads % LANES:
            lanes = np.arange(self.warps * LANES).reshape(1, self.warps, LANES)
            self.mask = lanes < self.threads
        x, y, z = plan.launch.cluster
        self.cluster = x * y * z
        every = plan.ops
        self.traffic = Traffic(plan)
        self.pointers = self.traffic.pointers
        self.shared = {row.name: row for row in plan.shared}
        self.stride = shared_stride(plan.shared)
        self.peers = any(x.rank is not None for op in every for x in accesses(op))
        regs = (reg for op in every for reg in (*reads(op), *writes(op)))
        self.registers = storages(plan.storages, regs, "registers" in checks)
        bars = [bar.storage for op in every for bar in mbarriers(op)]
        self.agents = Agents(plan, self.warps, self.mask, bars)
        self.grain = self._grain(every) if "shared" in checks and plan.shared else None

    def _grain(self, every: tuple[ops.Op, ...]) -> Grain:
        """Return the granule that all accesses are whole numbers of."""
        sizes = []
        for op in every:
            touched = [access for access in accesses(op) if access.space == "smem"]
            if op.bulk:
                sizes += [16] * bool(touched)  # TMA and wgmma touch whole rows of 16 bytes
                continue
            for access in touched:
                start = self.shared[access.storage].offset
                sizes += [max(1, access.vector_bits // 8), start or 16]
        atomics = any(op.atomic and x.space == "smem" for op in every for x in accesses(op))
        return Grain(int(np.gcd.reduce(sizes)) if sizes else 16, self.stride, atomics)

    def bytes_per_block(self) -> int:
        """Return how much memory the state of a block takes."""
        threads = self.warps * LANES
        registers = sum(s.bytes_per_thread for s in self.registers.values()) * threads
        shadow = self.grain.bytes_per_block(self.agents.readers) if self.grain is not None else 0
        return int(registers + self.stride + shadow + 64 * threads)


class Batch:
    """The state of `blocks` blocks from the block number `first` on, all resident together."""

    def __init__(
        self,
        needs: Resources,
        given: Arguments,
        grid: tuple[int, int, int],
        report: Report | None,
        blocks: int,
        first: int,
        regions: Regions | None = None,
        promises: Promises | None = None,
    ) -> None:
        self.promises = promises or Promises()
        self.blocks, self.warps, self.report = blocks, needs.warps, report
        self.arrays, self.numbers = given.arrays, given.numbers
        self.reachable, self.nowhere = given.reachable, given.nowhere
        self.agents = agents = needs.agents
        self.faults = Faults(needs.plan, grid, first)
        self.spans = Spans(
            blocks, needs.warps, _symbols(needs, grid, blocks, first) | given.symbols
        )
        self.smem = SharedMemory(blocks, needs.stride)
        self.registers = {
            name: RegisterFile(storage, blocks, needs.warps)
            for name, storage in needs.registers.items()
        }
        self.ended = np.zeros((blocks, needs.warps), np.bool_)
        # of divided warps (block, warp): the lanes [1, 1, lane] that have not returned
        self.alive: dict[tuple[int, int], Array] = {}
        clusters = Clusters(blocks, first, grid, needs.plan.launch.cluster)
        self.clocks: Clocks | None = None
        if needs.checks & CLOCKED:
            body = needs.plan.body
            weak = arrives_at_peers(body) and not cluster_barriers(body)
            self.clocks = Clocks(agents, blocks, clusters.size, clusters.rank, weak)
        self.releases: Releases | None = None
        if needs.traffic.releases and self.clocks is not None:
            self.releases = Releases(self.clocks, clusters)
        self.globals: GlobalMemory | None = None
        if regions is not None and self.clocks is not None:
            self.globals = GlobalMemory(regions, self.clocks, clusters, self.faults, self.releases)
        self.shadow: Shadow | None = None
        if needs.grain is not None and self.clocks is not None:
            self.shadow = Shadow(self.clocks, needs.grain, self.faults)
        self.engines = Engines(
            agents, self.clocks, self.shadow, self.faults, clusters, self.ended, needs.checks
        )
        if needs.peers:
            self.engines.peers = Peers(self.shadow, self.engines)
            if self.shadow is not None:
                self.shadow.peers = self.engines.peers
        self.maxnreg = MaxNReg(needs.warps, self.clocks, self.faults)
        self.barriers = Barriers(
            self.ended, self.clocks, clusters, self.faults, "convergence" in needs.checks
        )


def _symbols(
    needs: Resources, grid: tuple[int, int, int], blocks: int, first: int
) -> dict[str, Value]:
    """Return thread and block for the threads of a batch."""
    b = np.arange(first, first + blocks)[:, None, None]
    x, y, z = grid
    values = (
        np.arange(needs.warps * LANES).reshape(1, needs.warps, LANES),
        b % max(x, 1) if x > 1 else 0,
        b // max(x, 1) % max(y, 1) if y > 1 else 0,
        b // max(x * y, 1) if z > 1 else 0,
    )
    return dict(zip(INDICES, values, strict=True))


FIXES = {
    "apart": "branch on the warpgroup: with cute.when(cute.warp_idx() // 4 == 0): ...",
    "kind": 'name the other one, "inc" or "dec"; cute.role(..., registers=) chooses it',
    "again": "put cute.named_barrier(id, 128) between the two",
}


class MaxNReg:
    """What the warps of every block asked for by setmaxnreg, one number after the other, and the
    registers of a thread that they have.
    """

    def __init__(self, warps: int, clocks: Clocks | None, faults: Faults) -> None:
        self.warps, self.clocks, self.faults = warps, clocks, faults
        self.first = registers_at_launch(self.faults.plan.launch)
        self.asked: dict[tuple[int, int], list[tuple[ops.SetMaxNReg, int]]] = {}  # with stamps
        self.held: dict[tuple[int, int], int] = {}

    def fits(self, b: int, warps: list[int], n: int) -> bool:
        """Tell whether a block has released enough for these warps to have n each."""
        each = [n if w in warps else self.held.get((b, w), self.first) for w in range(self.warps)]
        return sum(each) <= self.first * self.warps

    def take(self, span: Span, n: int) -> None:
        """Let warps have n registers."""
        self.held.update(dict.fromkeys(product(span.B.tolist(), span.W.tolist()), n))

    def ask(self, span: Span, op: ops.SetMaxNReg) -> None:
        """Let warps ask; refuse another number than others of the warpgroup asked for, one that is
        on the wrong side of what they have, and warps that have not synchronised since the last.
        """
        for row, b in enumerate(span.B.tolist()):
            for column, w in enumerate(span.W.tolist()):
                where, held = (row, column), self.held.get((b, w), self.first)
                if op.n < held if op.kind == "inc" else op.n > held:
                    why = f"{op.kind} from {held}"
                    raise self._refusal(op, span, where, why, FIXES["kind"])
                own = self.asked.setdefault((b, w), [])
                for other in self._others(w):
                    theirs = self.asked.get((b, other), [])
                    if len(theirs) > len(own) and theirs[len(own)][0].n != op.n:
                        raise self._apart(op, span, where, other, theirs[len(own)][0].n)
                    if other != w and own:
                        self._require_known(op, span, where, other, theirs[len(own) - 1 :])
                own.append((op, self._stamp(b, w)))

    def _stamp(self, b: int, w: int) -> int:
        clocks = self.clocks
        assert clocks is not None  # the check needs them
        row = np.array([b if clocks.rows > 1 else 0])
        return int(clocks.stamps(row, np.array([w * LANES]))[0])

    def _require_known(
        self,
        op: ops.SetMaxNReg,
        span: Span,
        where: tuple[int, int],
        other: int,
        last: list[tuple[ops.SetMaxNReg, int]],
    ) -> None:
        """Refuse to ask again before it is known that another warp has asked: `last`, if it has."""
        who = int(span.B[where[0]]), int(span.W[where[1]]), 0
        clocks = self.clocks
        assert clocks is not None
        if not last or not clocks.knows(who, who[0], last[0][1], alone=False, half=2):
            why = f"which nothing orders after the one before of warp {other}"
            raise self._refusal(op, span, where, why, FIXES["again"])

    def require_together(self, spans: Spans) -> None:
        """Refuse, once all threads have ended, what some warps of a warpgroup did not come to."""
        for (b, w), own in self.asked.items():
            for other in self._others(w):
                if len(self.asked.get((b, other), [])) < len(own):
                    span = spans.of(np.array([b]), np.array([w]))
                    raise self._apart(own[-1][0], span, (0, 0), other, "no number")

    def _others(self, w: int) -> range:
        first = w // 4 * 4
        return range(first, min(first + 4, self.warps))

    def _apart(
        self, op: ops.SetMaxNReg, span: Span, where: tuple[int, int], other: int, theirs: int | str
    ) -> Exception:
        why = f"while warp {other} of its warpgroup asked for {theirs}"
        return self._refusal(op, span, where, why, FIXES["apart"])

    def _refusal(
        self, op: ops.SetMaxNReg, span: Span, where: tuple[int, int], why: str, fix: str
    ) -> Exception:
        return self.faults.at("emulate-setmaxnreg", op, span, where, count=op.n, why=why, fix=fix)


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
