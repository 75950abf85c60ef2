"""Happens-before: vector clocks of the threads of a block and of its asynchronous engines.

An agent accesses memory in its own program order: a thread, the cp.async copies or the TMA
stores of a thread, the TMA loads that one mbarrier counts, the wgmmas of a warpgroup. Each counts
epochs: threads their releases, copies and stores their groups, loads the phases of the mbarrier. A
stamp says which agent accessed memory, and in which of its epochs. A clock holds a bound for each
agent: the stamps up to the bound are ordered before whatever comes next.

Threads of a warp that have synchronised alike so far are one part of it, and share a clock. It says
what each of them knows of all others. What a thread did itself is ordered before what it does next
without a word (`own`). A warp is one part until some of its lanes alone arrive, wait, commit or
fence; then it is divided, and so is what others know of it. Parts are those of all blocks.

Only release and acquire order memory: barriers for those who meet, bar.warp.sync for the lanes of a
warp, mbarriers from those who arrive to those who wait. Source: PTX ISA, Memory Consistency Model,
"Causality order" and "Proxy-preserved base causality order".

A proxy fence makes what a thread knows of visible to TMA and wgmma. It counts for a store if the
thread that stored executes it, or a thread of the block that issues the asynchronous access, after
it acquired the store. That of a third block does not: an asynchronous proxy is that of a block.
Source: PTX ISA, "Proxy-preserved base causality order" (the same proxy "by the same thread block"),
"Async proxy", fence.proxy.async. How the fence became known, by whatever barrier, makes no
difference.

As long as all blocks did the same, one row stands for all of them. Nothing here knows what memory
is: who accesses it keeps the stamps, and asks whether they are ordered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.spans import LANES, Array, Span, Thread
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.emulate.storages import Vectors
    from cute_py.plan.plan import Plan

EPOCH = 32  # a stamp is epoch << 32 | flags | agent
LOW = (1 << EPOCH) - 1
SEVERAL = 1 << 31  # lanes of one warp wrote the same bits at once; the agent is the first of them
WHOLE = 1 << 30  # the warp wrote as one: none of its lanes knows what the others wrote
WHO = WHOLE - 1
# what an agent of a thread is; agents are numbered kind by kind. TMA stores are two: they read
# shared memory, which `tma_store_wait(read=True)` waits for, and write global memory later
THREAD, COPY, BULK, BULK_WRITE = range(4)
KINDS = 4
ORDER, FENCED, RUN = range(3)  # what is known of an access


def through(epoch: Array) -> Array:
    """Return the bound of all stamps of an epoch and those before it."""
    return (epoch << EPOCH) | LOW


class Agents:
    """The numbers of the agents of a block: threads, their copies, their TMA stores; then the TMA
    loads of each mbarrier, and the wgmmas of each warpgroup.
    """

    def __init__(
        self, plan: Plan, warps: int, exist: Array | None, bars: list[str], early: bool = False
    ) -> None:
        """Number them; `exist` are the lanes that exist [1, warp, lane], None for all, and `bars`
        the storages of mbarriers, which get slots of 8 bytes; `early`: whether the kernels before
        may still run, which get the last slot.
        """
        self.warps, self.threads = warps, warps * LANES
        whole = np.ones((warps, LANES), np.bool_)
        self.exist: Array = whole if exist is None else exist[0]
        self.first_slot: dict[str, int] = {}
        self.slots = 0
        rows = {row.name: row for row in plan.shared}
        for bar in dict.fromkeys(bars):
            self.first_slot[bar] = self.slots
            self.slots += -(-rows[bar].bytes // 8)
        self.before = self.slots
        self.slots += early
        every = plan.ops
        groups = any(isinstance(op, ops.Wgmma | ops.WgCommit | ops.WgWait) for op in every)
        self.tma = KINDS * self.threads
        self.wgmma = self.tma + self.slots
        self.fixed = self.slots + (-(-warps // 4) if groups else 0)
        copies = any(isinstance(op, ops.CpAsync) for op in every)
        stores = any(isinstance(op, ops.TmaStore) for op in every)
        self.kinds = (THREAD, *[COPY] * copies, *[BULK, BULK_WRITE] * stores)
        waits = [op.n for op in every if isinstance(op, ops.CpWait | ops.BulkWait)]
        self.depth = 1 + max(waits, default=0)  # groups that a wait may leave open
        self.columns = self.fixed + len(self.kinds) * warps
        self.readers = self.fixed - self.slots + warps * (1 + stores)  # of shared memory

    @property
    def count(self) -> int:
        """How many agents a block has."""
        return KINDS * self.threads + self.fixed

    def slot(self, bar: Vectors, offsets: Array) -> Array:
        """Return the slots of mbarriers at these offsets of a storage."""
        first = self.first_slot[bar.access.storage]
        slots: Array = first + offsets * bar.dtype.bits // 64
        return slots

    def mbarrier(self, slot: int) -> str:
        """Return an mbarrier in words."""
        for storage, first in reversed(list(self.first_slot.items())):
            if slot >= first:
                return f"mbarrier {storage}[{slot - first}]"
        return f"mbarrier {slot}"

    def kind(self, who: int) -> int:
        """Return what an agent of a thread is; KINDS for other agents."""
        return min(who // self.threads, KINDS)

    def warp(self, who: int) -> int:
        """Return the warp of an agent of a thread."""
        return who % self.threads // LANES

    def engine(self, who: int) -> tuple[str, str]:
        """Return an engine in words, and what waits for it."""
        if who >= self.wgmma:
            return (
                f"wgmma of warpgroup {who - self.wgmma}",
                "wait for it with cute.warpgroup_wait first",
            )
        if who >= self.tma:
            name = self.mbarrier(who - self.tma)
            return f"a TMA load that completes on {name}", f"wait for {name} first, with its phase"
        warp = self.warp(who)
        if self.kind(who) in (BULK, BULK_WRITE):
            read = "" if self.kind(who) == BULK else ", without read=True,"
            return (
                f"a TMA store of warp {warp}",
                f"wait for it with cute.tma_store_wait{read} first",
            )
        return f"cp.async of warp {warp}", "wait for it with cute.cp_async_wait and a barrier"


@dataclass(frozen=True, slots=True)
class Acting:
    """Who does something: entries of a row of blocks and a part, flat.

    `grid` is the number of rows where each of them has the same parts, in order; 0 where not.
    """

    rows: Array
    parts: Array
    grid: int


class Clocks:
    """The parts, epochs and clocks of a batch.

    Attributes:
        of: [warp, lane] -> part; warp: part -> warp; lanes: part -> its lanes, as bits.
        column: agent -> its column of a clock.
        epoch: [row, column], the present epoch of each agent; equal for all parts of a warp.
        clock: [row, part, rank in the cluster, half, column], bounds: what is ordered before what
            the part does next, and of that, what a proxy fence has made visible to TMA and wgmma
            that the first block of the cluster issues. Where there are mbarriers, also what has run
            by then, but orders no memory. Where arrivals at mbarriers of peers order no memory
            (PTX: scope .cta), also what is ordered without them. Where there are fences, also what
            is visible to TMA and wgmma of each other block of the cluster.
        visible: [block], which half says what is visible to TMA and wgmma that the block issues.
        memory: which of these says what is ordered in memory that threads read and write.
        own: [row, 2, column], the same of a thread and of its own copies and stores.
        closed: [row, part, k] for copies and stores: the epoch of the k-th last group.
        messages: clocks that wait for someone to take them, by name: [..., rank, half, column].
        by_row: what is set apart with the blocks; tables: what is divided with the parts, too.
    """

    def __init__(
        self,
        agents: Agents,
        blocks: int,
        cluster: int,
        rank: Array,
        weak: bool = False,
        fences: bool = True,
    ) -> None:
        """Begin; `rank` is the rank of each block in its cluster of so many blocks; `weak`: whether
        arrivals at mbarriers of peers order no memory; `fences`: whether there are proxy fences.
        """
        self.agents, self.blocks, self.rank = agents, blocks, rank
        self.warps, self.kinds, self.fixed = agents.warps, len(agents.kinds), agents.fixed
        self.place = {kind: k for k, kind in enumerate(agents.kinds)}
        self.rows = 1 if cluster == 1 else blocks
        parts, columns = self.warps, agents.columns
        self.of = np.repeat(np.arange(self.warps)[:, None], LANES, axis=1)
        self.epoch = np.ones((self.rows, columns), np.int64)
        self.memory = 3 if weak else 0
        halves = 4 if weak else 3 if agents.slots else 2
        self.visible = np.full(blocks, 1)
        if fences and cluster > 1:
            self.visible = np.where(rank == 0, 1, halves - 1 + rank)
            halves += cluster - 1
        self.fenced = frozenset(self.visible.tolist())
        self.clock = np.full((self.rows, parts, cluster, halves, columns), LOW, np.int64)
        self.own = np.full((self.rows, 2, columns), LOW, np.int64)
        self.closed = {
            kind: np.zeros((self.rows, parts, agents.depth), np.int64) for kind in agents.kinds
        }
        self.messages: dict[str, Array] = {}
        self.by_row: list[Any] = []
        self.tables: list[Any] = []
        self._number()
        threads = self.columns_of(THREAD, np.arange(parts))
        self.own[:, 0, threads] = through(self.epoch[:, threads])

    # -- parts

    def _number(self) -> None:
        """Set what follows from the parts."""
        self.parts = int(self.of.max()) + 1
        bits = np.int64(1) << np.arange(LANES)
        exist = np.where(self.agents.exist, bits, 0)
        self.lanes = np.zeros(self.parts, np.int64)
        np.bitwise_or.at(self.lanes, self.of, exist)
        self.warp = np.zeros(self.parts, np.int64)
        self.warp[self.of] = np.arange(self.warps)[:, None]
        self.by_warp = np.argsort(self.warp, kind="stable")
        self.warp_starts = np.searchsorted(self.warp[self.by_warp], np.arange(self.warps))
        self.lead = np.zeros(self.parts, np.int64)  # a lane of it that exists
        order = np.argsort(self.agents.exist, axis=1, kind="stable")
        for w in range(self.warps):
            self.lead[self.of[w, order[w]]] = order[w]
        each = self.of.reshape(-1)
        kinds = [self.columns_of(k, each) if k in self.place else 0 * each for k in range(KINDS)]
        self.column = np.concatenate([*kinds, np.arange(self.fixed)])

    def columns_of(self, kind: int, parts: Array) -> Array:
        """Return the columns of agents of the threads of parts."""
        columns: Array = self.fixed + self.kinds * parts + self.place[kind]
        return columns

    @property
    def divided(self) -> bool:
        """Whether some warp has several parts."""
        return self.parts > self.warps

    def divide(self, W: Array, lanes: Array) -> None:
        """Divide the parts of warps of which some lanes act and others do not.

        Args:
            W: the warps.
            lanes: [row, warp, lane], those that act.
        """
        lead = self.lead[self.of[W]]
        acts = np.take_along_axis(lanes, np.broadcast_to(lead, lanes.shape), axis=2)
        mixed = (acts != lanes) & self.agents.exist[W]
        if not mixed.any():
            return
        made: list[int] = []  # the part that each new one comes from
        for k in np.flatnonzero(mixed.any((0, 2))):
            w = int(W[k])
            for some in np.unique(lanes[:, k], axis=0):
                for part in np.unique(self.of[w]):
                    here = (self.of[w] == part) & self.agents.exist[w]
                    if (here & some).any() and (here & ~some).any():
                        self.of[w, here & some] = self.parts + len(made)
                        made.append(int(part))
        self._grow(made)

    def _grow(self, made: list[int]) -> None:
        """Let new parts know, and be known, as much as the parts that they come from."""
        old, each = self.parts, np.arange(self.kinds)
        roots: list[int] = []
        for part in made:
            roots.append(part if part < old else roots[part - old])
        columns = (self.columns_of(self.agents.kinds[0], np.array(roots))[:, None] + each).ravel()

        def known(table: Array) -> Array:
            return np.concatenate([table, table[..., columns]], axis=-1)

        self.clock = known(np.concatenate([self.clock, self.clock[:, roots]], axis=1))
        self.own, self.epoch = known(self.own), known(self.epoch)
        for kind, table in self.closed.items():
            self.closed[kind] = np.concatenate([table, table[:, roots]], axis=1)
        for name, table in self.messages.items():
            self.messages[name] = known(table)
        self._number()
        for new, part in enumerate(made, old):
            first = self.fixed + self.kinds * part
            for table in self.tables:
                columns_of_part = slice(first, first + self.kinds)
                table.divide(columns_of_part, self.lanes[part], self.lanes[new])

    # -- rows

    def apart(self) -> None:
        """Give every block a row of its own."""
        if self.rows < self.blocks:
            self.rows = self.blocks
            for name in ("epoch", "clock", "own"):
                setattr(self, name, np.repeat(getattr(self, name), self.blocks, axis=0))
            for kind, table in self.closed.items():
                self.closed[kind] = np.repeat(table, self.blocks, axis=0)
            for table in (*self.by_row, *self.tables):
                table.apart(self.blocks)

    def rows_of(self, span: Span, together: bool) -> Array:
        """Return the rows of a cohort's blocks; one for all if they do the same."""
        if self.rows == 1:
            if together and span.nB == self.blocks:
                return np.zeros(1, np.int64)
            self.apart()
            if self.rows == 1:
                return np.zeros(1, np.int64)
        return span.B

    def acting(self, span: Span, mask: Array | None) -> Acting:
        """Return who acts: the threads of a span that a mask [block or 1, warp or 1, lane] chooses;
        parts of which only some do are divided.
        """
        if mask is None:
            rows = self.rows_of(span, together=True)
            parts = self.of_warps(span.W)
            return Acting(np.repeat(rows, len(parts)), np.tile(parts, len(rows)), len(rows))
        lanes = np.broadcast_to(mask, (mask.shape[0], span.nW, LANES))
        if len(lanes) > 1 and (lanes == lanes[:1]).all():
            lanes = lanes[:1]
        self.divide(span.W, lanes)
        rows = self.rows_of(span, together=len(lanes) == 1)
        parts = self.of_warps(span.W)
        acts = lanes[:, np.searchsorted(span.W, self.warp[parts]), self.lead[parts]]
        if len(acts) == 1:
            parts = parts[acts[0]]
            return Acting(np.repeat(rows, len(parts)), np.tile(parts, len(rows)), len(rows))
        b, p = np.nonzero(acts)
        return Acting(rows[b] if len(rows) > 1 else rows[0 * b], parts[p], 0)

    def of_warps(self, W: Array) -> Array:
        """Return the parts of warps, of each warp those next to each other."""
        if not (self.divided and len(W)):
            return W
        return np.concatenate([np.unique(self.of[w][self.agents.exist[w]]) for w in W])

    def lanes_of(self, b: int, w: int, lanes: Array) -> Acting:
        """Return who acts: some lanes [lane] of one warp of one block."""
        self.apart()
        self.divide(np.array([w]), lanes[None, None])
        parts = np.unique(self.of[w][lanes])
        return Acting(np.full(len(parts), b), parts, 1)

    # -- release and acquire

    def present(self, who: Acting) -> Array:
        """Return the clocks [entry, rank, 2, column], those who act themselves included."""
        rows, parts = who.rows, who.parts
        clocks: Array = self.clock[rows, parts]
        each = np.arange(len(rows))
        rank = self.rank[rows] if clocks.shape[1] > 1 else 0
        for kind in self.agents.kinds:
            column = self.columns_of(kind, parts)
            for half in range(clocks.shape[2]):
                known, own = (
                    clocks[each, rank, half, column],
                    self.own[rows, int(half in self.fenced), column],
                )
                clocks[each, rank, half, column] = np.maximum(known, own)
        return clocks

    def bump(self, who: Acting) -> None:
        """Begin a new epoch: what these threads do from now on comes after their release."""
        rows, column = self._of_their_warps(who, THREAD)
        self.epoch[rows, column] += 1
        self.own[rows, 0, column] = through(self.epoch[rows, column])

    def _of_their_warps(self, who: Acting, kind: int) -> tuple[Array, Array]:
        """Return the rows and columns of all parts of the warps of those who act."""
        rows, parts = who.rows, who.parts
        if self.divided:
            entry, parts = np.nonzero(self.warp[parts][:, None] == self.warp)
            rows = rows[entry]
        return rows, self.columns_of(kind, parts)

    def release(self, who: Acting) -> Array:
        """Return what each of those who act knows, and let them go on."""
        clocks = self.present(who)
        self.bump(who)
        return clocks

    def acquire(self, who: Acting, clocks: Array) -> None:
        """Take clocks: one for each entry, or for all of them."""
        at = who.rows, who.parts
        self.clock[at] = np.maximum(self.clock[at], clocks)

    def joined(self, who: Acting, clocks: Array) -> tuple[Array, Array]:
        """Return the rows of those who act, each once, and what they know together."""
        if who.grid:
            each = clocks.reshape(who.grid, -1, *clocks.shape[1:])
            return who.rows[:: each.shape[1]], each.max(axis=1)
        rows, index = np.unique(who.rows, return_inverse=True)
        together = np.full((len(rows), *clocks.shape[1:]), LOW, np.int64)
        np.maximum.at(together, index, clocks)
        return rows, together

    def meet(self, who: Acting) -> None:
        """Let those who act in one row know all of each other."""
        rows, together = self.joined(who, self.release(who))
        self.acquire(who, together[np.searchsorted(rows, who.rows)])

    def meet_warps(self, who: Acting) -> None:
        """Let those who act in one warp know all of each other."""
        clocks = self.release(who)
        if self.divided:
            keys = who.rows * self.warps + self.warp[who.parts]
            each, index = np.unique(keys, return_inverse=True)
            together = np.full((len(each), *clocks.shape[1:]), LOW, np.int64)
            np.maximum.at(together, index, clocks)
            clocks = together[index]
        self.acquire(who, clocks)

    def wait_for_kernels(self, who: Acting) -> None:
        """Let those who act know that the kernels before have ended."""
        rows, parts = who.rows, who.parts
        rank = self.rank[rows] if self.clock.shape[2] > 1 else 0
        for half in (ORDER, self.memory):
            self.clock[rows, parts, rank, half, self.agents.before] = through(np.int64(1))

    def know_of_kernels(self, who: Acting) -> Array:
        """Return which of those who act know that the kernels before have ended."""
        known = self.clock[who.rows, who.parts, :, self.memory, self.agents.before]
        ended: Array = known.max(axis=1) > LOW
        return ended

    def ran(self, who: Acting) -> Array:
        """Return what has run before those who act, each of them [entry, rank, column], and let
        them go on. Only of plans with mbarriers.
        """
        clocks = self.release(who)
        found: Array = np.maximum(clocks[:, :, 0], clocks[:, :, 2])
        return found

    def run_together(self, who: Acting, groups: Array) -> None:
        """Let those of a group [entry] know what has run before all of them."""
        _, index = np.unique(groups, return_inverse=True)
        each = self.ran(who)
        together = np.full((int(index.max()) + 1, *each.shape[1:]), LOW, np.int64)
        np.maximum.at(together, index, each)
        at = who.rows, who.parts, slice(None), 2
        self.clock[at] = np.maximum(self.clock[at], together[index])

    def fence(self, who: Acting) -> None:
        """Make what these threads know of visible to TMA and wgmma of their block, and what they
        did themselves to those of all blocks.
        """
        rows, parts = who.rows, who.parts
        ordered, half = self.clock[rows, parts, :, ORDER], self.visible[rows]
        self.clock[rows, parts, :, half] = np.maximum(self.clock[rows, parts, :, half], ordered)
        for kind in self.agents.kinds:
            column = self.columns_of(kind, parts)
            self.own[rows, 1, column] = self.own[rows, 0, column]
        self.bump(who)

    # -- groups of copies and of TMA stores

    def commit(self, who: Acting, kind: int) -> None:
        """Close the groups of those who act."""
        if kind not in self.place:
            return
        column = self.columns_of(kind, who.parts)
        closed = self.closed[kind][who.rows, who.parts]
        closed[:, 1:] = closed[:, :-1]
        closed[:, 0] = self.epoch[who.rows, column]
        self.closed[kind][who.rows, who.parts] = closed
        self.advance(who, kind)

    def advance(self, who: Acting, kind: int) -> None:
        """Begin a new epoch of the copies or stores of those who act, and of their warps."""
        self.epoch[self._of_their_warps(who, kind)] += 1

    def wait(self, who: Acting, kind: int, n: int) -> None:
        """Order all but the latest n groups of each thread before what it does next."""
        if kind not in self.place:
            return
        column = self.columns_of(kind, who.parts)
        done = through(self.closed[kind][who.rows, who.parts, n])
        self.own[who.rows, 0, column] = np.maximum(self.own[who.rows, 0, column], done)

    # -- what is ordered

    def seen(self, rows: Array, parts: Array, columns: Array, half: int = 0) -> Array:
        """Return the bounds that parts know of agents of their own block, by column."""
        _, _, ranks, halves, count = self.clock.shape
        at = parts * (ranks * halves * count) + columns
        if self.rows > 1:
            at = at + rows * (self.parts * ranks * halves * count)
        if ranks > 1:
            at = at + self.rank[rows] * (halves * count)
        return self.clock.reshape(-1).take(at + half * count if half else at)

    def ordered(
        self,
        stamps: Array,
        by: tuple[Array, Array, Array],
        writers: Array | None = None,
        half: int = 0,
        writes: bool = False,
    ) -> Array:
        """Return which stamps are ordered before what lanes do now.

        Args:
            stamps: of accesses.
            by: rows, parts, and of these parts the lanes (as bits) that act.
            writers: the lanes of stamps with the flag SEVERAL.
            half: `memory` for data of threads.
            writes: whether they write: lanes that read may read what several of them wrote at once,
                but who writes then is not ordered with the others.
        """
        rows, parts, lanes = by
        columns = self.column.take(stamps & WHO)
        ordered: Array = stamps <= self.seen(rows, parts, columns, half)
        spread = self.divided and bool((stamps & SEVERAL).any())
        if ordered.all() and not spread:
            return ordered
        several, who = (stamps & SEVERAL) != 0, stamps & WHO
        thread = who % self.agents.threads
        bits = np.where(several, 0 if writers is None else writers, np.int64(1) << thread % LANES)
        if spread:
            ordered = ordered & self._all_parts(stamps, rows, parts, bits, half)
        mine = (thread // LANES == self.warp[parts]) & (lanes & ~bits == 0)
        mine &= (who < KINDS * self.agents.threads) & (stamps & WHOLE == 0)
        mine &= ~(several & writes)
        waited = (who < self.agents.threads) | (stamps <= self.own[rows, 0, columns])
        return ordered | (mine & waited)

    def _all_parts(self, stamps: Array, rows: Array, parts: Array, bits: Array, half: int) -> Array:
        """Return where all parts that wrote are known, of stamps of several lanes."""
        stamps, rows, parts, bits = np.broadcast_arrays(stamps, rows, parts, bits)
        known = np.ones(stamps.shape, np.bool_)
        kind = (stamps & WHO) // self.agents.threads
        plain = ((stamps & SEVERAL) != 0) & (kind == THREAD)
        for where in np.argwhere(plain):
            at = tuple(where)
            warp = (stamps[at] & WHO) // LANES
            others = np.flatnonzero((self.warp == warp) & (self.lanes & bits[at] != 0))
            columns = self.columns_of(THREAD, others)
            known[at] = (stamps[at] <= self.seen(rows[at], parts[at], columns, half)).all()
        return known

    def knows(
        self, who: Thread, source: int, stamp: int, alone: bool = True, what: int = ORDER
    ) -> bool:
        """Return whether a thread (block, warp, lane) knows of a stamp of a block's thread.

        `alone`: it acts without other lanes of its warp; `what`: that it comes before, is visible
        to TMA, or has run.
        """
        b, w, lane = who
        row, column = b if self.rows > 1 else 0, self.column[stamp & WHO]
        mine = alone and source == b and stamp & WHO == w * LANES + lane
        if mine and (what != FENCED or stamp <= self.own[row, FENCED, column]):
            return True
        known = self.clock[row, self.of[w, lane]]
        rank = int(self.rank[source]) if len(known) > 1 else 0
        if what == RUN:  # what is ordered has run
            return bool(stamp <= known[rank, ORDER : RUN + 1 : RUN, column].max())
        return bool(stamp <= known[rank, self.visible[b] if what == FENCED else what, column])

    def stamps(self, rows: Array, who: Array) -> Array:
        """Return the stamps of agents now; `who` may have flags."""
        return (self.now(rows, self.column.take(who & WHO)) << EPOCH) | who

    def now(self, rows: Array, columns: Array) -> Array:
        """Return the present epochs of columns."""
        at = columns if self.rows == 1 else rows * self.epoch.shape[1] + columns
        return self.epoch.reshape(-1).take(at)
