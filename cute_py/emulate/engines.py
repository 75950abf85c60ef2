"""Asynchronous engines of a batch: what they touch in shared memory, and for how long.

The emulator runs an engine's operation at once; the clocks check that its results are used only
after the right wait. Shared memory lives until the last thread of its block has ended: what reaches
it from elsewhere must be over by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.clocks import BULK, EPOCH, FENCED, SEVERAL, WHO, WHOLE
from cute_py.emulate.faults import line_of
from cute_py.emulate.peers import Actor
from cute_py.emulate.shadow import WRITE
from cute_py.emulate.spans import LANES, Array, Span, Thread

if TYPE_CHECKING:
    from cute_py.emulate.clocks import Clocks
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.peers import Peers
    from cute_py.emulate.shadow import Shadow
    from cute_py.emulate.spans import Clusters
    from cute_py.emulate.storages import Vectors
    from cute_py.errors import CuteError
    from cute_py.plan.ops import Op


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What a thread asks of an engine.

    Attributes:
        op, span, thread: where it is issued.
        vectors: the storage.
        by: whose it is.
        shadow: who touched the memory before.
        block, granules: what is touched.
        writes: whether it is written.
    """

    op: Op
    span: Span
    thread: Thread
    vectors: Vectors
    by: Actor
    shadow: Shadow
    block: int
    granules: Array
    writes: bool


class Engines:
    """The engines of a batch: nothing has been touched."""

    def __init__(
        self,
        clocks: Clocks,
        shadow: Shadow | None,
        peers: Peers | None,
        faults: Faults,
        clusters: Clusters,
        ended: Array,
        lifetimes: bool,
    ) -> None:
        """Begin; `ended` will tell which warps [block, warp] have; `lifetimes`: whether to refuse
        blocks that end while their shared memory is in use, and uses of it from then on.
        """
        self.clocks, self.agents, self.shadow, self.faults = clocks, clocks.agents, shadow, faults
        self.clusters, self.ended, self.peers = clusters, ended, peers
        self.lifetimes = lifetimes
        self.reached: list[tuple[int, int, int, Op]] = []  # block, source, stamp, op
        self.reading: dict[tuple[int, int], tuple[int, Op]] = {}  # block, agent: last

    # -- who touches shared memory

    def touch(
        self,
        op: Op,
        span: Span,
        vectors: Vectors,
        issue: Thread,
        offsets: Array,
        agent: int,
        writes: bool,
        target: int | None = None,
        lane: bool = True,
    ) -> None:
        """Judge and remember that an engine reads or writes elements of a block's storage.

        Args:
            op: the op.
            span: where it is issued.
            vectors: the storage.
            issue: row of block, of warp, and lane that issue it.
            offsets: the elements.
            agent: the engine.
            writes: whether it writes.
            target: the block, if that is another one of the cluster.
            lane: whether the lane issues it, not the warp as one.
        """
        shadow, clocks = self.shadow, self.clocks
        clocks.apart()
        own, w, thread = span.thread(issue)
        b = own if target is None else target
        if not writes and (self.agents.kind(agent) == BULK or agent >= self.agents.wgmma):
            epoch = int(clocks.epoch[b, int(clocks.column[agent])]) << EPOCH
            self.reading[b, agent] = epoch, op
        if shadow is None:
            return
        g = shadow.granules_of(vectors, offsets)
        part = int(clocks.of[w, thread])
        lanes = 1 << thread if lane else int(clocks.lanes[part])
        by = Actor(own, w, part, lanes)
        asked = Request(op, span, issue, vectors, by, shadow, b, g, writes)
        self._after_writes(asked)
        if self.peers is not None:
            self._after_peers(self.peers, asked)
        column, number = int(clocks.column[agent]), shadow.number(op)
        epoch = int(clocks.epoch[b, column]) << EPOCH
        self._fenced_writes(asked)
        if writes:
            self._after_readers(asked)
            shadow.last[b, g], shadow.wrote[b, g] = epoch | agent, number
            return
        shadow.reads.engine_reads((b, g), (part, 1 << thread), agent, epoch, number)

    def _after_writes(self, asked: Request) -> None:
        """Require that what wrote the granules is ordered before."""
        shadow, clocks, by = asked.shadow, self.clocks, asked.by
        b, g, own = asked.block, asked.granules, by.block
        written = shadow.last[b, g]
        if b == own:
            writers = None if shadow.writers is None else shadow.writers[b, g]
            each = np.full(len(g), own), np.full(len(g), by.part), np.full(len(g), by.lanes)
            late = ~clocks.ordered(written, each, writers)
        else:
            clock = clocks.clock[own, by.part, int(self.clusters.rank[b]), 0]
            late = written > clock[clocks.column[written & WHO]]
        if late.any():
            who = written & WHO
            elsewhere = late & (who % self.agents.threads // LANES != by.warp)
            k = int(np.argmax(elsewhere if elsewhere.any() else late))
            lanes = 0 if written[k] & (SEVERAL | WHOLE) else 1 << int(who[k]) % LANES
            op = shadow.ops[int(shadow.wrote[b, g[k]])]
            raise self._fault(asked, k, int(who[k]), lanes, op, WRITE)
        held = shadow.holds(b, g) if asked.vectors.shares else written != 0
        if not asked.writes and not held.all():
            k = int(np.argmin(held))
            since = shadow.since(b, int(g[k]))
            raise self._refusal("emulate-smem-unwritten", asked, k, since=since)

    def _after_peers(self, peers: Peers, asked: Request) -> None:
        """Require that what threads of other blocks did to the granules is ordered before."""
        found = peers.engine(asked.by, asked.block, asked.granules, asked.writes)
        if found is None:
            return
        k, mark, is_ordered = found
        if is_ordered:
            other = f"warp {mark.warp} of block {self.faults.block(mark.block)}"
            raise self._unfenced(asked, k, f"{other} ({line_of(mark.op)})", mark.warp * LANES)
        other, fix = peers.told(mark)
        raise self._refusal("emulate-race", asked, k, other=other, fix=fix)

    def _fenced_writes(self, asked: Request) -> None:
        """Require that what threads wrote to the granules is fenced."""
        shadow, clocks, by = asked.shadow, self.clocks, asked.by
        b, g, own = asked.block, asked.granules, by.block
        written = shadow.last[b, g]
        who, several = written & WHO, (written & (SEVERAL | WHOLE)) != 0
        columns, lane = clocks.column[who], np.int64(1) << who % LANES
        warps = who % self.agents.threads // LANES
        mine = (b == own) & (warps == by.warp) & (by.lanes == lane) & ~several
        rank = int(self.clusters.rank[b]) if clocks.clock.shape[2] > 1 else 0
        known = clocks.clock[own, by.part, rank, clocks.visible[own]][columns]
        known = np.where(mine, np.maximum(known, clocks.own[own, FENCED, columns]), known)
        hidden = (who < BULK * self.agents.threads) & (written > known)
        if hidden.any():
            k = int(np.argmax(hidden))
            since = line_of(shadow.ops[int(shadow.wrote[b, g[k]])])
            raise self._unfenced(asked, k, f"warp {int(warps[k])} ({since})", int(who[k]))

    def _unfenced(self, asked: Request, k: int, other: str, who: int) -> CuteError:
        """Return the error of a request for a granule that an agent wrote without a fence."""
        facts = {"agent": who, "other": other, "op_name": asked.op.call}
        return self._refusal("emulate-proxy-fence", asked, k, **facts)

    def _after_readers(self, asked: Request) -> None:
        """Require that the readers of the granules are ordered before."""
        shadow, own, part = asked.shadow, asked.by.block, asked.by.part
        b, g = asked.block, asked.granules
        rank = None if b == own else int(self.clusters.rank[b])
        by = own, part, asked.by.lanes
        for readers in (shadow.reads, shadow.atomics):
            if readers is None:
                continue
            known: Array = np.zeros(readers.count, np.int64)  # of another block, ask for each
            if rank is None:
                known = readers.known(np.array([own]), np.array([part]))
            for k, reader in np.argwhere(readers.table[b, g] > known).tolist():
                if readers.unknown(by, (b, int(g[k])), reader, rank):
                    verb, who, lanes, op = shadow.earlier(readers, (b, int(g[k])), reader)
                    raise self._fault(asked, k, who, lanes, op, verb)

    def _fault(self, asked: Request, k: int, who: int, lanes: int, op: Op, verb: str) -> CuteError:
        """Return the error of a request that comes too early after an agent's access."""
        shadow, by, b = asked.shadow, asked.by, asked.block
        near = by.warp if b == by.block else None
        code, facts = shadow.told(who, lanes, op, verb, near)
        if code == "emulate-copy-pending":
            group = int(shadow.last[b, asked.granules[k]]) >> EPOCH
            facts |= shadow.wait_of(b, group, who, by.warp, "write" if asked.writes else "read")
        if b != by.block and "other" in facts:
            facts["other"] += f" of block {self.faults.block(b)}"
        return self._refusal(code, asked, k, **facts)

    def _refusal(self, code: str, asked: Request, k: int, **facts: object) -> CuteError:
        """Return the error of a request at its k-th granule, with the element that begins there."""
        vectors = asked.vectors
        start = int(asked.granules[k]) * asked.shadow.granule - vectors.start
        facts |= {"offset": max(0, start * 8 // vectors.dtype.bits)}
        facts |= {"storage": vectors.access.storage, "access": "write" if asked.writes else "read"}
        return self.faults.at(code, asked.op, asked.span, asked.thread, **facts)

    # -- the end of a block

    def reach(self, op: Op, span: Span, thread: Thread, b: int, agent: int = -1) -> None:
        """Remember that another block of the cluster reaches shared memory of block b, by a thread
        or by the TMA loads of an mbarrier there.
        """
        if not self.lifetimes:
            return
        if self.ended[b].all():
            raise self.faults.ending(op, b, "has ended, and a thread of another block uses", "meet")
        own, w, lane = span.thread(thread)
        source, who = (own, w * LANES + lane) if agent < 0 else (b, agent)
        stamp = self.clocks.stamps(np.array([source]), np.array([who]))[0]
        self.reached.append((b, source, int(stamp), op))

    def require_over(self) -> None:
        """Refuse blocks that have all ended while shared memory of them was still used."""
        clocks = self.clocks
        if not self.lifetimes:
            return
        for (b, agent), (epoch, op) in self.reading.items():
            column = int(clocks.column[agent])
            if agent >= self.agents.wgmma:
                rank = int(self.clusters.rank[b]) if clocks.clock.shape[2] > 1 else 0
                if epoch > clocks.clock[b, :, rank, 0, column].max():
                    use = f"{self.agents.engine(agent)[0]} ({line_of(op)}) still reads"
                    raise self.faults.ending(op, b, use, "wgmma")
            elif epoch > int(clocks.own[b, 0, column]):
                part = clocks.of[self.agents.warp(agent), agent % LANES]
                committed = epoch >> EPOCH <= int(clocks.closed[BULK][b, part, 0])
                fix = "wait" if committed else "commit, and wait"
                raise self.faults.ending(op, b, f"a TMA store ({line_of(op)}) still reads", fix)
        self._require_loads_over()
        for b, source, stamp, op in self.reached:
            rank = int(self.clusters.rank[source])
            known = clocks.clock[b, :, rank, 0, clocks.column[stamp & WHO]].max()
            if stamp > known:
                what = f"block {self.faults.block(source)} arrives at"
                if stamp & WHO >= self.agents.tma:
                    what = "a TMA load of another block writes"
                raise self.faults.ending(op, b, f"{what} ({line_of(op)})", "meet")
        if self.peers is not None:
            self.peers.require_over()

    def _require_loads_over(self) -> None:
        """Refuse TMA loads that no thread of the block has waited for. The cp.asyncs of a thread
        are its own accesses, and PTX does not say that they outlive it.
        """
        shadow, clocks, agents = self.shadow, self.clocks, self.agents
        if shadow is None:
            return
        for row, last in enumerate(shadow.last):
            stamps, first = np.unique(last, return_index=True)
            who = stamps & WHO
            loads = (who >= agents.tma) & (who < agents.wgmma)
            stamps, first, columns = stamps[loads], first[loads], clocks.column[who[loads]]
            rank = int(clocks.rank[row]) if clocks.clock.shape[2] > 1 else 0
            late = stamps > clocks.clock[row, :, rank, 0][:, columns].max(axis=0, initial=0)
            if late.any():
                k = int(np.argmax(late))
                op = shadow.ops[int(shadow.wrote[row, first[k]])]
                engine, _ = agents.engine(int(stamps[k]) & WHO)
                raise self.faults.ending(op, row, f"{engine} ({line_of(op)}) still writes", "load")
