"""Order between blocks: releases to a place in memory, and acquires of them.

A release keeps at its place what its thread knows: of its own block, and of others as far as it has
acquired. Who acquires there knows it, too. store_release releases; wait_until and load_acquire
acquire. An atomic does both between two threadfences: it passes on what its
thread knew at its last fence, and what it finds is known after the next one. Fences of a block are
for threads of that block. A plain write ends what was released at a place.

What is known of a block is one clock of it, and what single threads of it did themselves; all of it
is kept sparsely. What somebody has acquired stands in the log of its block with the stamp of who
did, so that others of the block know it as soon as they know of that.
Source: PTX ISA, Memory Consistency Model, "Release and Acquire Patterns", "Causality order".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cute_py.emulate.clocks import LOW, ORDER, WHO
from cute_py.emulate.regions import THREADS
from cute_py.emulate.spans import LANES, Array

if TYPE_CHECKING:
    from cute_py.emulate.clocks import Acting, Clocks
    from cute_py.emulate.regions import Touch
    from cute_py.emulate.spans import Clusters, Span

# "at", a region of global memory or the shared memory of block -1 - b, and where in it
Place: TypeAlias = tuple[str, int, int]
Each: TypeAlias = list[tuple[Place, int, int]]  # a place, and the block and thread that touch it
Known: TypeAlias = dict[Any, Any]
# block -> its clock [2, column], (block, agent) -> the bounds of its stamps [2]: what is ordered,
# and what a proxy fence has made visible to TMA and wgmma of the block; Place -> version

KEPT = 64  # acquires of one thread that are kept


def merged(*parts: Known) -> Known:
    """Return what several know together."""
    total: Known = {}
    for part in parts:
        for key, value in part.items():
            old = total.get(key)
            total[key] = value if old is None or old is value else np.maximum(old, value)
    return total


class Record:
    """What was released at a place, by block: for all, and by fences of a block for that block."""

    __slots__ = ("everyone", "inside", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.everyone: dict[int, Known] = {}
        self.inside: dict[int, Known] = {}

    def copy(self) -> Record:
        """Return what stands there now."""
        now = Record(self.version)
        now.everyone, now.inside = dict(self.everyone), dict(self.inside)
        return now

    def add(self, block: int, known: Known, scope: str) -> None:
        """Add what a thread of a block releases."""
        target = self.inside if scope == "block" else self.everyone
        target[block] = merged(target.get(block, {}), known)

    def for_block(self, block: int, scope: str) -> Known:
        """Return what a thread of a block acquires."""
        mine = [kept[block] for kept in (self.inside, self.everyone) if block in kept]
        others = [known for b, known in self.everyone.items() if b != block]
        return merged(*mine, *(others if scope != "block" else ()))


class Releases:
    """The places that threads of a batch released to, and what its blocks have acquired."""

    def __init__(self, clocks: Clocks, clusters: Clusters) -> None:
        self.clocks, self.clusters = clocks, clusters
        self.threads = clocks.agents.threads
        self.places: dict[Place, Record] = {}
        self.log: dict[int, list[tuple[int, int, Known]]] = {}  # block: thread, stamp, what
        self.fences: dict[tuple[int, int], tuple[Known, str]] = {}  # block, thread
        self.found: dict[tuple[int, int], list[tuple[Place, Record]]] = {}
        self.together: dict[tuple[int, ...], Known] = {}
        self.taken: list[Known] = []
        clocks.tables.append(self)
        clocks.apart()  # blocks that communicate do not do the same

    # -- what threads know

    def of(self, b: int, thread: int) -> Known:
        """Return what a thread has acquired, by itself or from others of its block."""
        rows = self.log.get(b)
        if not rows:
            return {}
        clocks, lane = self.clocks, thread % LANES
        part = clocks.of[thread // LANES, lane]
        stamps = np.array([stamp for _, stamp, _ in rows], np.int64)
        by = np.full(len(rows), b), np.full(len(rows), part), np.full(len(rows), 1 << lane)
        last = {  # of each thread: what it acquired later holds what it had before
            who: known
            for (who, _, known), yes in zip(rows, clocks.ordered(stamps, by), strict=True)
            if yes
        }
        if len(last) < 2:
            return next(iter(last.values()), {})
        key = tuple(map(id, last.values()))
        if key not in self.together:
            self.together[key] = merged(*last.values())
        return self.together[key]

    def known(
        self, t: Touch, entries: Array, blocks: Array, stamps: Array, written: Array
    ) -> Array:
        """Return which stamps of blocks of the batch entries of a touch know of; `written`: which
        are of atomics and releases, of which the value that was acquired at a place tells, too.
        """
        g, ids, agents = t.g[entries], t.ids[entries], stamps & WHO
        result = np.zeros(len(ids), np.bool_)
        columns = self.clocks.column.take(agents)
        alike: dict[tuple[int, int], Known] = {}  # lanes of a part that acquired nothing themselves
        for one in np.unique(ids).tolist():
            b, thread = one >> THREADS, one & ((1 << THREADS) - 1)
            alone = any(who == thread for who, _, _ in self.log.get(b, ()))
            key = b, -1 - thread if alone else int(self.clocks.of[thread // LANES, thread % LANES])
            if key not in alike:
                alike[key] = self.of(b, thread)
            known = alike[key]
            for k in np.flatnonzero(ids == one).tolist() if known else ():
                block, stamp, place = int(blocks[k]), stamps[k], _place(t, int(g[k]))
                clock, single = known.get(block), known.get((block, int(agents[k])))
                result[k] = (
                    (clock is not None and stamp <= clock[ORDER, columns[k]])
                    or (single is not None and stamp <= single[ORDER])
                    or (
                        bool(written[k])
                        and place in known
                        and self.places[place].version <= known[place]
                    )
                )
        return result

    def knows_of_kernels(self, b: int, thread: int) -> bool:
        """Return whether a thread has acquired that the kernels before have ended."""
        before = self.clocks.agents.before
        of_blocks = (clock for key, clock in self.of(b, thread).items() if isinstance(key, int))
        return any(clock[ORDER, before] > LOW for clock in of_blocks)

    def _present(self, b: int, thread: int) -> Known:
        """Return all that a thread knows, of itself included."""
        clocks = self.clocks
        own: Known = {}
        for kind in clocks.agents.kinds:
            agent = kind * self.threads + thread
            own[b, agent] = clocks.own[b, :, clocks.column[agent]].copy()
        part = clocks.of[thread // LANES, thread % LANES]
        for peer, rank in self._cluster(b):
            own[peer] = clocks.clock[b, part, rank, (clocks.memory, clocks.visible[peer])]
        return merged(self.of(b, thread), own)

    def _cluster(self, b: int) -> list[tuple[int, int]]:
        """Return the blocks of a block's cluster, and their ranks in its clocks."""
        if self.clusters.size == 1:
            return [(b, 0)]
        peers = np.flatnonzero(self.clusters.of == self.clusters.of[b])
        return [(int(peer), int(self.clusters.rank[peer])) for peer in peers]

    def _rank(self, b: int) -> int:
        return int(self.clocks.rank[b]) if self.clocks.clock.shape[2] > 1 else 0

    # -- releases and acquires

    def release(self, each: Each, who: Acting) -> None:
        """Let threads release to places, which hold nothing else from now on."""
        for place, b, thread in each:
            old = self.places.get(place)
            record = self.places[place] = Record(1 if old is None else old.version + 1)
            record.add(b, self._present(b, thread), "gpu")
        self.clocks.bump(who)

    def acquire(self, each: Each) -> None:
        """Let threads acquire what was released at places."""
        for place, b, thread in each:
            record = self.places.get(place)
            if record is not None:
                self._take(record.for_block(b, "gpu"), {place: record.version}, b, thread)

    def update(self, each: Each, finds: bool) -> None:
        """Let atomics, one after the other, pass on what is at a place with what their threads knew
        at their last fence; `finds`: whether they return what they find, so that their threads may
        acquire it.
        """
        for place, b, thread in each:
            record = self.places.get(place)
            if record is None:
                record = self.places[place] = Record(0)
            record.version += 1
            if (b, thread) in self.fences:
                record.add(b, *self.fences[b, thread])
            if finds:
                self.found.setdefault((b, thread), []).append((place, record.copy()))

    def fence(self, ids: Array, scope: str, who: Acting) -> None:
        """Acquire what threads have found, and keep what they know for their next atomics."""
        for one in ids.tolist():
            b, thread = one >> THREADS, one & ((1 << THREADS) - 1)
            for place, record in self.found.pop((b, thread), ()):
                self._take(record.for_block(b, scope), {place: record.version}, b, thread)
            self.fences[b, thread] = self._present(b, thread), scope
        self.clocks.bump(who)

    def _take(self, known: Known, at: Known, b: int, thread: int) -> None:
        """Let a thread know what it acquired."""
        clocks, self.taken = self.clocks, [known]  # as this may divide its warp
        self._take_own(known, b, thread)
        stamp = int(clocks.stamps(np.array([b]), np.array([thread]))[0])
        rows = self.log.setdefault(b, [])
        rows.append((thread, stamp, merged(self.of(b, thread), known, at)))
        mine = [k for k, (who, _, _) in enumerate(rows) if who == thread]
        if len(mine) > KEPT:
            del rows[mine[0]]
            self.together.clear()

    def _take_own(self, known: Known, b: int, thread: int) -> None:
        """Let a thread know what it acquired of its own block: that orders shared memory, too."""
        clocks, bounds = self.clocks, []
        for key, bound in known.items():
            if isinstance(key, tuple) and key[0] == b and key[1] != thread and len(key) == 2:
                bounds.append((key[1], bound))
        if b not in known and not bounds:
            return
        part, halves = clocks.of[thread // LANES, thread % LANES], (ORDER, clocks.visible[b])
        seen = clocks.clock[b, part, self._rank(b), halves]
        bounds = [x for x in bounds if (x[1] > seen[:, clocks.column[x[0]]]).any()]
        if not bounds and (b not in known or (known[b] <= seen).all()):
            return
        for who, _ in bounds:  # what a single lane of a warp released is known of that lane
            self._alone(b, who % self.threads)
        acts = self._alone(b, thread)
        clock = np.full(clocks.clock.shape[2:], LOW, np.int64)
        rank = self._rank(b)
        if b in known:
            clock[rank, halves] = known[b]
        for who, bound in bounds:
            column = clocks.column[who]
            clock[rank, halves, column] = np.maximum(clock[rank, halves, column], bound)
        clock[rank, clocks.memory] = clock[rank, ORDER]
        clocks.acquire(acts, clock[None])

    def _alone(self, b: int, thread: int) -> Acting:
        lanes = np.zeros(LANES, np.bool_)
        lanes[thread % LANES] = True
        return self.clocks.lanes_of(b, thread // LANES, lanes)

    def forget(self, t: Touch) -> None:
        """End what was released at places that are written."""
        if self.places:
            written = set(t.g.tolist())
            for place in list(self.places):
                if place[1] == id(t.region) and place[2] in written:
                    old = self.places[place]
                    self.places[place] = Record(old.version + 1)

    # -- the clocks change

    def divide(self, columns: slice, old: int, new: int) -> None:
        """Give the agents of a new part columns of their own."""
        seen: set[int] = set()
        for known in self._all():
            if id(known) not in seen:
                seen.add(id(known))
                for key, clock in known.items():
                    if isinstance(key, int):
                        known[key] = np.concatenate([clock, clock[:, columns]], axis=1)

    def _all(self) -> list[Known]:
        held = [known for rows in self.log.values() for _, _, known in rows]
        held += [known for known, _ in self.fences.values()]
        held += [*self.together.values(), *self.taken]
        records = [*self.places.values(), *(r for rows in self.found.values() for _, r in rows)]
        for record in records:
            held += [*record.everyone.values(), *record.inside.values()]
        return held

    def apart(self, blocks: int) -> None:
        """Change nothing: all that is kept is of single blocks."""


def _place(t: Touch, granule: int) -> Place:
    return "at", id(t.region), granule


def places_of(t: Touch) -> Each:
    """Return place, block and thread of each entry of a touch of global memory."""
    low = (1 << THREADS) - 1
    rows = zip(t.g.tolist(), t.ids.tolist(), strict=True)
    return [(_place(t, g), one >> THREADS, one & low) for g, one in rows]


def shared_places(span: Span, start: int, offsets: Array, active: Array) -> Each:
    """Return place, block and thread of elements [block, warp, lane, element] of shared memory that
    threads touch.
    """
    shape = np.broadcast_shapes(offsets.shape, active.shape, (*span.shape, 1))
    offsets = np.broadcast_to(offsets, shape)
    return [
        (
            ("at", -1 - int(span.B[b]), start + int(offsets[b, w, lane, k])),
            int(span.B[b]),
            int(span.W[w]) * LANES + int(lane),
        )
        for b, w, lane, k in np.argwhere(np.broadcast_to(active, shape)).tolist()
    ]
