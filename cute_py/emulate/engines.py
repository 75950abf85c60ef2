"""Asynchronous engines of a batch: its mbarriers and clusters, and what the engines touch.

The emulator runs an engine's operation at once; the clocks check that its results are used only
after the right wait. The lifetime of an mbarrier begins with its init: each use must be ordered
after it, and use by TMA also after a fence (`fence_mbarrier_init`). Shared memory lives
until the last thread of its block has ended: what reaches it from elsewhere must be over by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.clocks import (
    BULK,
    COPY,
    EPOCH,
    LOW,
    SEVERAL,
    WHO,
    WHOLE,
    Acting,
    Agents,
    Clocks,
    through,
)
from cute_py.emulate.faults import line_of
from cute_py.emulate.peers import Actor
from cute_py.emulate.phases import Phases
from cute_py.emulate.spans import LANES, Array, Clusters, Span, Thread

if TYPE_CHECKING:
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.peers import Peers
    from cute_py.emulate.shadow import Shadow
    from cute_py.emulate.storages import Vectors
    from cute_py.errors import CuteError
    from cute_py.plan.ops import Op


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What a thread asks of an engine.

    Attributes:
        op, span, thread: where it is issued.
        vectors: the storage.
        own, warp, part, lanes: whose it is: the block, the warp, its part, and the lanes (as bits).
        block, granules: what is touched.
        writes: whether it is written.
    """

    op: Op
    span: Span
    thread: Thread
    vectors: Vectors
    own: int
    warp: int
    part: int
    lanes: int
    block: int
    granules: Array
    writes: bool


class Engines:
    """The engines and mbarriers of a batch: none is initialised."""

    def __init__(
        self,
        agents: Agents,
        clocks: Clocks | None,
        shadow: Shadow | None,
        peers: Peers | None,
        faults: Faults,
        clusters: Clusters,
        ended: Array,
        checks: frozenset[str],
    ) -> None:
        """Begin; `ended` will tell which warps [block, warp] have; `checks`: those to make."""
        self.checks = checks
        self.agents, self.clocks, self.shadow, self.faults = agents, clocks, shadow, faults
        self.clusters, self.ended, self.peers = clusters, ended, peers
        shape = len(ended), agents.slots
        self.count, self.pending, self.bytes, self.phase = (
            np.zeros(shape, np.int64) for _ in range(4)
        )
        self.born = np.zeros(shape, np.int64)  # the stamp of the init
        self.fenced = np.zeros(shape, np.int64)  # the stamp of the fence after it
        self.made: dict[tuple[int, int], Op] = {}  # the init of each, or its inval
        # block, slot, block and thread that uses it -> its last stamp, whether it did so alone, op
        self.used: dict[tuple[int, int, int, int], tuple[int, bool, Op]] = {}
        self.reached: list[tuple[int, int, int, Op]] = []  # block, source, stamp, op
        self.reading: dict[tuple[int, int], tuple[int, Op]] = {}  # block, agent: last
        self.granules: dict[tuple[Vectors, int], Array] = {}
        self.marks: dict[tuple[int, int], tuple[Array, Array]] = {}  # of the memory of mbarriers
        self.phases: Phases | None = None
        if clocks is not None:
            if agents.slots and "mbarriers" in checks:
                self.phases = Phases(clocks, faults)
            held = (*shape, *clocks.clock.shape[2:])
            for name in ("arriving", "complete"):
                clocks.messages[name] = np.full(held, LOW, np.int64)

    def peer(self, op: Op, span: Span, thread: Thread, rank: int) -> int:
        """Return the block of a rank in the cluster of a thread."""
        if not 0 <= rank < self.clusters.size:
            facts = {"rank": rank, "size": self.clusters.size, "name": op.call}
            raise self.faults.at("emulate-cluster-rank", op, span, thread, **facts)
        return self.clusters.block(int(span.B[thread[0]]), rank)

    # -- mbarriers

    def settle(self, b: int, slot: int) -> None:
        """Complete the phase if nothing is missing."""
        if self.pending[b, slot] == 0 and self.bytes[b, slot] == 0:
            self.pending[b, slot] = self.count[b, slot]
            self.phase[b, slot] += 1
            if self.clocks is not None:
                held = self.clocks.messages
                if self.phases is not None:
                    self.phases.end((b, slot), held["arriving"][b, slot])
                held["complete"][b, slot] = held["arriving"][b, slot]
                held["arriving"][b, slot] = LOW
                self.clocks.epoch[b if self.clocks.rows > 1 else 0, slot] += 1

    def release(self, who: Acting, at: tuple[int, int], copies: bool) -> None:
        """Let those who wait for an mbarrier know what lanes of a warp know that arrive there;
        `copies`: and that their cp.asyncs are complete.
        """
        clocks = self.clocks
        assert clocks is not None
        clock = clocks.release(who)
        if copies and COPY in clocks.place:
            column = clocks.columns_of(COPY, who.parts)
            rank = int(self.clusters.rank[who.rows[0]]) if clock.shape[1] > 1 else 0
            each = np.arange(len(column))
            done = through(clocks.epoch[who.rows, column])
            clock[each, rank, 0, column] = clock[each, rank, clocks.memory, column] = done
            clocks.advance(who, COPY)
        if clocks.memory and int(who.rows[0]) != at[0]:
            clock[:, :, clocks.memory] = LOW
        arriving = clocks.messages["arriving"]
        arriving[at] = np.maximum(arriving[at], clock.max(axis=0))

    def land(self, b: int, slot: int, nbytes: int, ran: Array | None = None) -> None:
        """Take bytes of a TMA load into account; `ran`: what has run before it [rank, column]."""
        clocks = self.clocks
        if clocks is not None:
            arriving = clocks.messages["arriving"][b, slot]
            mine = arriving[self.clusters.rank[b] % len(arriving)]
            mine[0, slot] = mine[clocks.memory, slot] = through(clocks.epoch[b, slot])
            if self.phases is not None and ran is not None:
                arriving[:, 2] = np.maximum(arriving[:, 2], ran)
                self.phases.land((b, slot), int(clocks.epoch[b, slot]))
        self.bytes[b, slot] -= nbytes
        self.settle(b, slot)

    def init(self, op: Op, span: Span, thread: Thread, slot: int, count: int) -> None:
        """Make an mbarrier; refuse one where a valid one is, which PTX leaves undefined."""
        b, clocks = int(span.B[thread[0]]), self.clocks
        if clocks is not None:
            if self.phases is not None:
                if self.count[b, slot]:
                    facts = {
                        "name": self.agents.mbarrier(slot),
                        "other": line_of(self.made[b, slot]),
                    }
                    raise self.faults.at("emulate-mbarrier-again", op, span, thread, **facts)
                self.phases.begin((b, slot))
            who = int(span.W[thread[1]]) * LANES + thread[2]
            row = b if clocks.rows > 1 else 0
            self.born[b, slot] = clocks.stamps(np.array([row]), np.array([who]))[0]
            self.fenced[b, slot] = 0
        self.made[b, slot] = op
        self.count[b, slot] = self.pending[b, slot] = count
        self.bytes[b, slot] = self.phase[b, slot] = 0

    def inval(self, op: Op, span: Span, thread: Thread, slot: int) -> None:
        """End an mbarrier; refuse one that others may use."""
        b = int(span.B[thread[0]])
        self.use(op, span, thread, 1 << thread[2], (b, slot))
        if self.phases is not None:
            self._require_idle(op, span, thread, slot)
        self.count[b, slot] = 0
        self.made[b, slot] = op
        self.marks.pop((b, slot), None)

    def keep(self, b: int, slot: int, vectors: Vectors, is_new: bool = True) -> None:
        """Remember which access wrote the memory of a new mbarrier, or of one that has ended."""
        if self.shadow is not None and self.phases is not None:
            place = np.array([slot - self.agents.first_slot[vectors.access.storage]])
            granules = self._granules(vectors, place, self.shadow.granule)
            self.shadow.hide(b if len(self.shadow.last) > 1 else 0, granules)
            if is_new:
                self.marks[b, slot] = granules, self._marked(b, granules)

    def _marked(self, b: int, granules: Array) -> Array:
        """Return who wrote granules last, and by which op."""
        shadow = self.shadow
        assert shadow is not None
        row = b if len(shadow.last) > 1 else 0
        return np.array([shadow.last[row, granules], shadow.wrote[row, granules]])

    def _overwritten(self, at: tuple[int, int]) -> Op | None:
        """Return what has written the memory of an mbarrier since its init."""
        if at not in self.marks or self.shadow is None:
            return None
        granules, marked = self.marks[at]
        now = self._marked(at[0], granules)
        differ = now != marked
        if not differ.any():
            return None
        return self.shadow.ops[int(now[1, int(np.argmax(differ.any(0)))])]

    def _require_kept(self, op: Op, span: Span, thread: Thread, at: tuple[int, int]) -> None:
        """Refuse an mbarrier whose memory was written since its init."""
        other = self._overwritten(at)
        if other is not None:
            facts = {"name": self.agents.mbarrier(at[1]), "other": line_of(other)}
            raise self.faults.at("emulate-mbarrier-lost", op, span, thread, what="use", **facts)

    def _require_ended(self) -> None:
        """Refuse memory that was written while an mbarrier was there, though nobody used it."""
        for at in self.marks:
            other = self._overwritten(at)
            if other is not None:
                name, who = self.agents.mbarrier(at[1]), f"block {self.faults.block(at[0])}"
                facts = {"what": "end", "name": name, "who": who, "other": line_of(other)}
                raise self.faults.fault("emulate-mbarrier-lost", other, **facts)

    def _require_idle(self, op: Op, span: Span, thread: Thread, slot: int) -> None:
        """Refuse to end an mbarrier while somebody may use it."""
        b, who, clocks = int(span.B[thread[0]]), self._thread(span, thread), self.clocks
        assert clocks is not None
        use = "TMA loads that it counts are not complete" if self.bytes[b, slot] else ""
        for key in [key for key in self.used if key[:2] == (b, slot)]:
            stamp, alone, by = self.used.pop(key)
            if by is not op and not clocks.knows(who, key[2], stamp, alone):
                use = f"nothing orders its use before ({line_of(by)})"
        if use:
            name = self.agents.mbarrier(slot)
            raise self.faults.at("emulate-mbarrier-busy", op, span, thread, name=name, use=use)

    def fence_inits(self, who: Acting) -> None:
        """Let TMA and other blocks know of the mbarriers that these threads have initialised."""
        clocks = self.clocks
        if clocks is None or not self.agents.slots:
            return
        for row, part in zip(who.rows.tolist(), who.parts.tolist(), strict=True):
            for b in range(len(self.born)) if clocks.rows == 1 else (row,):
                for slot in np.flatnonzero(self.born[b]).tolist():
                    thread = int(self.born[b, slot]) & WHO
                    if clocks.of[thread // LANES, thread % LANES] == part:
                        now = clocks.stamps(np.array([row]), np.array([thread]))
                        self.fenced[b, slot] = self.fenced[b, slot] or now[0]
        clocks.bump(who)

    def use(
        self,
        op: Op,
        span: Span,
        thread: Thread,
        lanes: int,
        at: tuple[int, int],
        tma: bool = False,
    ) -> None:
        """Require that lanes of a warp know of the init of an mbarrier, and remember the use.

        Args:
            op: the op.
            span: where it is issued.
            thread: the first of them.
            lanes: they, as bits.
            at: the block whose mbarrier it is, and the slot.
            tma: whether TMA counts bytes there.
        """
        b, slot = at
        name = self.agents.mbarrier(slot)
        if self.count[b, slot] == 0:
            ended = self.made.get(at)
            state = "nothing has initialised" if ended is None else f"has ended ({line_of(ended)})"
            facts = {"name": name, "state": state}
            raise self.faults.at("emulate-mbarrier-unset", op, span, thread, **facts)
        clocks = self.clocks
        if clocks is None or self.phases is None:
            return
        self._require_kept(op, span, thread, at)
        own, w, lane = who = self._thread(span, thread)
        alone = lanes == 1 << lane
        missing = ""
        if not clocks.knows(who, b, int(self.born[b, slot]), alone):
            missing = "its init" if b == own else "the init by another block of the cluster"
            missing = f"a barrier after {missing}"
        elif tma and not self._fenced(clocks, who, b, slot):
            missing = "a fence after its init"
        if missing:
            raise self.faults.at(
                "emulate-mbarrier-early", op, span, thread, name=name, missing=missing
            )
        row = own if clocks.rows > 1 else 0
        stamp = int(clocks.stamps(np.array([row]), np.array([w * LANES + lane]))[0])
        self.used[b, slot, own, w * LANES + lane] = stamp, alone, op

    def _fenced(self, clocks: Clocks, who: Thread, b: int, slot: int) -> bool:
        """Return whether a thread knows of a fence after the init of an mbarrier."""
        fenced = int(self.fenced[b, slot])
        if fenced and clocks.knows(who, b, fenced):
            return True
        return clocks.knows(who, b, int(self.born[b, slot]), half=1)

    def _thread(self, span: Span, thread: Thread) -> tuple[int, int, int]:
        return int(span.B[thread[0]]), int(span.W[thread[1]]), thread[2]

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
        if clocks is None:
            return
        clocks.apart()
        own, w, thread = self._thread(span, issue)
        b = own if target is None else target
        if not writes and (self.agents.kind(agent) == BULK or agent >= self.agents.wgmma):
            epoch = int(clocks.epoch[b, int(clocks.column[agent])]) << EPOCH
            self.reading[b, agent] = epoch, op
        if shadow is None:
            return
        g = self._granules(vectors, offsets, shadow.granule)
        part = int(clocks.of[w, thread])
        lanes = 1 << thread if lane else int(clocks.lanes[part])
        asked = Request(op, span, issue, vectors, own, w, part, lanes, b, g, writes)
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

    def _granules(self, vectors: Vectors, offsets: Array, granule: int) -> Array:
        """Return the granules of elements; those of the same elements are found once."""
        key = vectors, hash(offsets.tobytes())
        found = self.granules.get(key)
        if found is None:
            start = vectors.start + offsets.reshape(-1) * vectors.dtype.bits // 8
            count = max(1, vectors.bits // 8 // granule)
            found = np.unique(start[:, None] // granule + np.arange(count))
            self.granules[key] = found
        return found

    def _after_writes(self, asked: Request) -> None:
        """Require that what wrote the granules is ordered before."""
        shadow, clocks = self.shadow, self.clocks
        assert shadow is not None
        assert clocks is not None
        b, g, own = asked.block, asked.granules, asked.own
        written = shadow.last[b, g]
        if b == own:
            writers = None if shadow.writers is None else shadow.writers[b, g]
            by = np.full(len(g), own), np.full(len(g), asked.part), np.full(len(g), asked.lanes)
            late = ~clocks.ordered(written, by, writers)
        else:
            clock = clocks.clock[own, asked.part, int(self.clusters.rank[b]), 0]
            late = written > clock[clocks.column[written & WHO]]
        if late.any():
            who = written & WHO
            elsewhere = late & (who % self.agents.threads // LANES != asked.warp)
            k = int(np.argmax(elsewhere if elsewhere.any() else late))
            lanes = 0 if written[k] & (SEVERAL | WHOLE) else 1 << int(who[k]) % LANES
            op = shadow.ops[int(shadow.wrote[b, g[k]])]
            raise self._fault(asked, k, int(who[k]), lanes, op, "a write by")
        held = shadow.holds(b, g) if asked.vectors.shares else written != 0
        if not asked.writes and not held.all():
            k = int(np.argmin(held))
            facts = {"storage": asked.vectors.access.storage, "offset": self._element(asked, k)}
            facts["since"] = shadow.since(b, int(g[k]))
            raise self.faults.at(
                "emulate-smem-unwritten", asked.op, asked.span, asked.thread, **facts
            )

    def _after_peers(self, peers: Peers, asked: Request) -> None:
        """Require that what threads of other blocks did to the granules is ordered before."""
        actor = Actor(asked.own, asked.warp, asked.part, asked.lanes)
        found = peers.engine(actor, asked.block, asked.granules, asked.writes)
        if found is None:
            return
        k, mark, is_ordered = found
        if is_ordered:
            other = f"warp {mark.warp} of block {self.faults.block(mark.block)}"
            raise self._unfenced(asked, k, f"{other} ({line_of(mark.op)})", mark.warp * LANES)
        other, fix = peers.told(mark)
        facts = {"storage": asked.vectors.access.storage, "offset": self._element(asked, k)}
        facts |= {"access": "write" if asked.writes else "read", "other": other, "fix": fix}
        raise self.faults.at("emulate-race", asked.op, asked.span, asked.thread, **facts)

    def _fenced_writes(self, asked: Request) -> None:
        """Require that what threads wrote to the granules is fenced."""
        shadow, clocks = self.shadow, self.clocks
        assert shadow is not None
        assert clocks is not None
        b, g, own = asked.block, asked.granules, asked.own
        written = shadow.last[b, g]
        who, several = written & WHO, (written & (SEVERAL | WHOLE)) != 0
        columns, lane = clocks.column[who], np.int64(1) << who % LANES
        warps = who % self.agents.threads // LANES
        mine = (b == own) & (warps == asked.warp) & (asked.lanes == lane) & ~several
        rank = int(self.clusters.rank[b]) if clocks.clock.shape[2] > 1 else 0
        clock = clocks.clock[own, asked.part, rank, 1]
        known = np.where(mine, clocks.own[own, 1, columns], clock[columns])
        hidden = (who < BULK * self.agents.threads) & (written > known)
        if hidden.any():
            k = int(np.argmax(hidden))
            since = line_of(shadow.ops[int(shadow.wrote[b, g[k]])])
            raise self._unfenced(asked, k, f"warp {int(warps[k])} ({since})", int(who[k]))

    def _unfenced(self, asked: Request, k: int, other: str, who: int) -> CuteError:
        """Return the error of a request for a granule that an agent wrote without a fence."""
        facts: dict[str, Any] = {"storage": asked.vectors.access.storage}
        facts["access"] = "write" if asked.writes else "read"
        facts |= {"offset": self._element(asked, k), "agent": who}
        facts |= {"other": other, "op_name": asked.op.call}
        return self.faults.at("emulate-proxy-fence", asked.op, asked.span, asked.thread, **facts)

    def _after_readers(self, asked: Request) -> None:
        """Require that the readers of the granules are ordered before."""
        shadow = self.shadow
        assert shadow is not None
        b, g, own = asked.block, asked.granules, asked.own
        rank = None if b == own else int(self.clusters.rank[b])
        by = own, asked.part, asked.lanes
        for readers in (shadow.reads, shadow.atomics):
            if readers is None:
                continue
            known: Array = np.zeros(readers.count, np.int64)  # of another block, ask for each
            if rank is None:
                known = readers.known(np.array([own]), np.array([asked.part]))
            for k, reader in np.argwhere(readers.table[b, g] > known).tolist():
                if readers.unknown(by, (b, int(g[k])), reader, rank):
                    verb, who, lanes, op = shadow.earlier(readers, (b, int(g[k])), reader)
                    raise self._fault(asked, k, who, lanes, op, verb)

    def _fault(self, asked: Request, k: int, who: int, lanes: int, op: Op, verb: str) -> CuteError:
        """Return the error of a request that comes too early after an agent's access."""
        shadow, b = self.shadow, asked.block
        assert shadow is not None
        access = "write" if asked.writes else "read"
        near = asked.warp if b == asked.own else None
        code, facts = shadow.told(who, lanes, op, verb, near)
        if code == "emulate-copy-pending":
            group = int(shadow.last[b, asked.granules[k]]) >> EPOCH
            facts |= shadow.wait_of(b, group, who, asked.warp, access)
        if b != asked.own and "other" in facts:
            facts["other"] += f" of block {self.faults.block(b)}"
        facts |= {"storage": asked.vectors.access.storage, "offset": self._element(asked, k)}
        return self.faults.at(code, asked.op, asked.span, asked.thread, access=access, **facts)

    def _element(self, asked: Request, k: int) -> int:
        """Return the element that the k-th granule of a request begins with."""
        shadow, vectors = self.shadow, asked.vectors
        assert shadow is not None
        start = int(asked.granules[k]) * shadow.granule - vectors.start
        return max(0, start * 8 // vectors.dtype.bits)

    # -- the end of a block

    def reach(self, op: Op, span: Span, thread: Thread, b: int, agent: int = -1) -> None:
        """Remember that another block of the cluster reaches shared memory of block b, by a thread
        or by the TMA loads of an mbarrier there.
        """
        clocks = self.clocks
        if clocks is None or "lifetimes" not in self.checks:
            return
        if self.ended[b].all():
            raise self.faults.ending(op, b, "has ended, and a thread of another block uses", "meet")
        own, w, lane = self._thread(span, thread)
        source, who = (own, w * LANES + lane) if agent < 0 else (b, agent)
        stamp = clocks.stamps(np.array([source]), np.array([who]))[0]
        self.reached.append((b, source, int(stamp), op))

    def require_over(self) -> None:
        """Refuse blocks that have all ended while shared memory of them was still used."""
        self._require_ended()
        clocks = self.clocks
        if clocks is None or "lifetimes" not in self.checks:
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
        if shadow is None or clocks is None:
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
