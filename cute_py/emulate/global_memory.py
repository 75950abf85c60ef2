"""Who touched global memory last, and what orders it: happens-before between threads and blocks.

Only arrays that the plan writes are watched; those whose memory overlaps are one region. Of every
granule of a region the last plain write is kept, and who has accessed it since: one thread, or
several of which none comes after the other. Two accesses of one granule, of which one writes, must
be ordered. In a block the clocks say so; between blocks only what one has released and the other
acquired (`releases`), and nothing where a plan never acquires: then no two blocks are ordered.

Atomics, releases and acquires are strong: they do not race with each other, but with plain accesses
that nothing orders. Equal bits that one op of the plan writes several times are no error; a report
counts them. Source: PTX ISA, Memory Consistency Model, "Conflict and Data-races", "Morally strong
operations"; the marks of a granule are those of FastTrack (Flanagan and Freund, 2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.clocks import EPOCH, SEVERAL, THREAD, WHO
from cute_py.emulate.faults import line_of
from cute_py.emulate.regions import CLOSED, MANY, THREADS, Kept, Region, Regions, Touch
from cute_py.emulate.resources import PLAIN, STRONG_READ, STRONG_WRITE
from cute_py.emulate.spans import LANES, Array
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.emulate.clocks import Clocks
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.releases import Releases
    from cute_py.emulate.spans import Clusters, Span
    from cute_py.emulate.storages import Global, Place, Vectors

EPOCHS = 8  # of one warp in which it accessed a granule, kept apart


class GlobalMemory:
    """What the threads of a batch do to the regions of its run."""

    def __init__(
        self,
        regions: Regions,
        clocks: Clocks,
        clusters: Clusters,
        faults: Faults,
        releases: Releases | None,
    ) -> None:
        """Begin; `releases`: where threads may learn of each other by memory."""
        self.regions, self.traffic = regions, regions.traffic
        self.clocks, self.clusters, self.faults = clocks, clusters, faults
        self.releases = releases

    # -- what threads touch

    def touch(
        self, span: Span, located: Vectors, place: Place, array: Global, agent: int = THREAD
    ) -> Touch | None:
        """Return what threads of a span touch; None where nobody watches, or nobody does."""
        region = self.regions.of.get(array.name)
        if region is None:
            return None
        found = place.extra.get("global")
        if found is None:
            found = place.extra["global"] = _entries(span, located, place, array, region)
        g, ids = found
        return self.touched(span, region, array.name, located.op, g, ids, agent)

    def touched(
        self,
        span: Span,
        region: Region,
        storage: str,
        op: ops.Op,
        g: Array,
        ids: Array,
        agent: int = THREAD,
        who: int | None = None,
    ) -> Touch | None:
        """Return the touch of granules by threads; `who`: the agent, where it is no thread's."""
        if not len(g):
            return None
        clocks, n = self.clocks, self.traffic.numbers[id(op)]
        b = ids >> THREADS
        rows = b if clocks.rows > 1 else np.zeros_like(b)
        agents = (ids & ((1 << THREADS) - 1)) + agent * clocks.agents.threads
        stamps = clocks.stamps(rows, agents if who is None else np.full_like(agents, who))
        marks = (b + (self.faults.first + 1)) << self.traffic.bits | n
        kind = int(self.traffic.kinds[n])
        return Touch(span, region, storage, op, kind, g, ids, stamps, marks)

    # -- reads and writes

    def read(self, t: Touch) -> None:
        """Require that a read, or a strong access, is ordered after what it sees, and remember it.

        Strong accesses are kept among the reads: none of them conflicts with another one.
        """
        region, g = t.region, t.g
        wrote, access = region.wrote.take(g), _WORDS[t.kind]
        if wrote.any():
            writers = region.writer.take(g)
            self._require(t, access, "write", wrote, writers)
            self._require_one_proxy(t, access, wrote, writers)
        if t.kind == STRONG_WRITE or (region.strong and t.kind == PLAIN):
            self._after_others(t, access)
        self._remember(t)
        region.strong |= t.kind == STRONG_WRITE

    def write(self, t: Touch) -> bool:
        """Require that a plain write is ordered after all accesses before, and remember it; return
        whether some granule is written several times at once.
        """
        region, g = t.region, t.g
        wrote = region.wrote.take(g)
        if wrote.any():
            writers = region.writer.take(g)
            self._require(t, "write", "write", wrote, writers)
            self._require_one_proxy(t, "write", wrote, writers)
            self.regions.count(t, "rewritten", int(np.count_nonzero(wrote)))
        if region.read.take(g).any():
            self._after_others(t, "write")
            region.read[g] = 0
            for granule in region.many.keys() & set(g.tolist()) if region.many else ():
                del region.many[granule]
        if self.releases is not None:
            self.releases.forget(t)
        region.wrote[g] = t.marks
        region.writer.put(g, t.stamps)
        several = (region.writer.take(g) != t.stamps) | (region.wrote.take(g) != t.marks)
        if not several.any():
            return False
        self.regions.count(t, "rewritten", int(np.count_nonzero(several)))
        region.writer.put(g[several], region.writer.take(g[several]) | SEVERAL)
        return True

    def require_equal(self, t: Touch) -> None:
        """Refuse threads that wrote different bits to one granule at once."""
        assert t.same is not None
        lost = ~t.same()
        region = t.region
        if lost.any():
            k = int(np.argmax(lost))
            mark, stamp = int(region.wrote[t.g[k]]), int(region.writer.take(t.g[k]))
            raise self._race(t, k, "write", "write of other bits", mark, stamp & ~SEVERAL)
        several = (region.writer.take(t.g) ^ t.stamps) & ~SEVERAL != 0
        several |= region.wrote.take(t.g) != t.marks
        self.regions.count(t, "equal", int(np.count_nonzero(several)))

    # -- what orders them

    def _require(self, t: Touch, access: str, other: str, marks: Array, stamps: Array) -> None:
        """Refuse the first entry that is not ordered after marked accesses of its granule."""
        bad = self._unordered(t, np.arange(len(t.g)), marks, stamps, wrote=True)
        if access == other == "write" and t.same is not None and bad.any():
            maybe = bad & (self.regions.ops_of(marks) == self.regions.ops_of(t.marks))
            if maybe.any():
                equal = maybe & t.same()
                self.regions.count(t, "equal", int(np.count_nonzero(equal)))
                bad &= ~equal
        if bad.any():
            k = int(np.argmax(bad))
            raise self._race(t, k, access, other, int(marks[k]), int(stamps[k]))

    def _require_one_proxy(self, t: Touch, access: str, marks: Array, stamps: Array) -> None:
        """Refuse TMA where threads stored: no op here orders the two proxies in global memory."""
        if not isinstance(t.op, ops.TmaLoad | ops.TmaStore):
            return
        stored = (marks != 0) & (stamps & WHO < self.clocks.agents.threads)
        if stored.any():
            k = int(np.argmax(stored))
            marked = int(marks[k]), int(stamps[k]) & ~SEVERAL
            raise self._race(t, k, access, "write", *marked, code="emulate-proxy-global")

    def _after_others(self, t: Touch, access: str) -> None:
        """Refuse what is not ordered after the reads and the strong accesses since the last write:
        a write after all, a read after those that write, an atomic after plain reads.
        """
        region = t.region
        marks: Array = region.read.take(t.g)
        entries, stamps = np.flatnonzero(marks > 0), region.reader.take(t.g)
        marks, stamps = marks[entries], stamps[entries]
        rows = [
            (k, *kept)
            for k in np.flatnonzero(region.read.take(t.g) < 0).tolist()
            for kept in region.many[int(t.g[k])].values()
        ]
        if rows:
            more = np.array(rows, np.int64)
            entries = np.concatenate([entries, more[:, 0]])
            marks = np.concatenate([marks, more[:, 1]])
            stamps = np.concatenate([stamps, more[:, 2]])
        kinds = self.traffic.kinds[self.regions.ops_of(marks)]
        if access != "write":
            chosen = kinds == (STRONG_WRITE if t.kind == PLAIN else PLAIN)
            entries, marks, stamps, kinds = (x[chosen] for x in (entries, marks, stamps, kinds))
        bad = self._unordered(t, entries, marks, stamps)
        if bad.any():
            j = int(np.argmax(bad))
            verb = _WORDS[int(kinds[j])]
            raise self._race(t, int(entries[j]), access, verb, int(marks[j]), int(stamps[j]))

    def _unordered(
        self, t: Touch, entries: Array, marks: Array, stamps: Array, wrote: bool = False
    ) -> Array:
        """Return which marked accesses are not ordered before entries of a touch; `wrote`: they are
        plain writes. Where lanes of a warp made one with the same bits, each of them may read it.
        """
        clocks, ids, first = self.clocks, t.ids[entries], self.faults.first
        mine = (stamps ^ t.stamps[entries]) & (SEVERAL | WHO) == 0  # the same thread alone
        mine &= (self.regions.blocks_of(marks) == self.regions.blocks_of(t.marks[entries])) & (
            stamps & WHO < clocks.agents.threads
        )
        bad = (marks != 0) & ~mine
        b = ids >> THREADS
        near = np.flatnonzero(bad & (self.regions.blocks_of(marks) - 1 == b + first))
        if len(near):
            thread = ids[near] & ((1 << THREADS) - 1)
            lane = thread % LANES
            rows = b[near] if clocks.rows > 1 else np.zeros_like(near)
            by = rows, clocks.of[thread // LANES, lane], np.int64(1) << lane
            held = stamps[near] & ~SEVERAL if wrote else stamps[near]
            bad[near] = ~clocks.ordered(held, by, half=clocks.memory)
            if wrote and t.same is None:
                alike = (stamps[near] & SEVERAL != 0) & ((held & WHO) // LANES == thread // LANES)
                bad[near[alike]] = False
        if self.clusters.size > 1 and bad.any():
            self._in_clusters(t, bad, entries, marks, stamps)
        if self.releases is not None and bad.any():
            far = np.flatnonzero(bad)
            blocks = self.regions.blocks_of(marks[far]) - 1 - first
            bad[far] = ~self.releases.known(t, entries[far], blocks, stamps[far])
        return bad

    def _in_clusters(
        self, t: Touch, bad: Array, entries: Array, marks: Array, stamps: Array
    ) -> None:
        """Leave out accesses of other blocks of the cluster that the clocks order before."""
        clocks, clusters = self.clocks, self.clusters
        near = np.flatnonzero(bad)
        b = t.ids[entries[near]] >> THREADS
        theirs = self.regions.blocks_of(marks[near]) - 1 - self.faults.first
        inside = (theirs >= 0) & (theirs < len(clusters.of))
        near, b, theirs = near[inside], b[inside], theirs[inside]
        same = clusters.of[b] == clusters.of[theirs]
        near, b, theirs = near[same], b[same], theirs[same]
        thread = t.ids[entries[near]] & ((1 << THREADS) - 1)
        parts = clocks.of[thread // LANES, thread % LANES]
        columns = clocks.column.take(stamps[near] & WHO)
        known = clocks.clock[b, parts, clusters.rank[theirs], clocks.memory, columns]
        bad[near] = stamps[near] > known

    def _remember(self, t: Touch) -> None:
        """Keep who reads, or accesses in a strong way: the last one, or several."""
        region, g = t.region, t.g
        marks = region.read.take(g)
        if marks.any():
            t = self._without_ordered(t, marks)
            region, g = t.region, t.g
            if not len(g):
                return
        region.read[g] = t.marks
        region.reader.put(g, t.stamps)
        differs = (region.reader.take(g) != t.stamps) | (region.read.take(g) != t.marks)
        if differs.any():
            self._remember_several(t, differs)

    def _without_ordered(self, t: Touch, marks: Array) -> Touch:
        """Keep entries of which others read the granule, too, in `many`; return the others."""
        region = t.region
        stamps = region.reader.take(t.g)
        kinds = self.traffic.kinds[self.regions.ops_of(np.maximum(marks, 0))]
        later = marks == 0
        if not self.clocks.divided:  # lanes of one warp, in one epoch
            again = (
                (stamps >> EPOCH == t.stamps >> EPOCH)
                & (self.regions.blocks_of(marks) == self.regions.blocks_of(t.marks))
                & (kinds == t.kind)
                & (marks > 0)
            )
            again &= (stamps ^ t.stamps) & WHO & -LANES == 0
            lanes = again & ((stamps ^ t.stamps) & (SEVERAL | WHO) != 0)
            t.stamps = np.where(lanes, t.stamps | SEVERAL, t.stamps)
            later |= again
        # an access replaces those that conflict with no more than it does: a plain read conflicts
        # with atomics, an atomic with plain reads, a strong read with neither
        less = (kinds == t.kind) | (kinds == STRONG_READ)
        check = np.flatnonzero(~later & (marks > 0) & less)
        later[check] = ~self._unordered(t, check, marks[check], stamps[check])
        self._add(t, np.flatnonzero(~later & (marks != CLOSED)))
        # what came to `many` just now stays there with all of its entries
        return _chosen(t, np.flatnonzero(later & (region.read.take(t.g) >= 0)))

    def _remember_several(self, t: Touch, differs: Array) -> None:
        """Keep entries of one touch that read one granule: lanes of a warp, or more."""
        region, g = t.region, t.g
        lanes = np.zeros(len(g), np.bool_)
        if not self.clocks.divided:
            apart = (region.reader.take(g) ^ t.stamps) & ~SEVERAL & -LANES
            lanes = differs & (region.read.take(g) == t.marks) & (apart == 0)
            region.reader.put(g[lanes], region.reader.take(g[lanes]) | SEVERAL)
        self._add(t, np.flatnonzero(differs & ~lanes))

    def _add(self, t: Touch, entries: Array) -> None:
        """Add accesses to those of their granules, one for each warp while its lanes agree."""
        if len(entries) and not self.traffic.communicates:
            entries = self._close(t, entries)
        if not len(entries):
            return
        region, agent = t.region, WHO if self.clocks.divided else WHO & -LANES
        whole = np.stack([t.g[entries], t.marks[entries], t.stamps[entries] & agent], 1)
        _, first, count = np.unique(whole, axis=0, return_index=True, return_counts=True)
        for k, n in zip(entries[first].tolist(), count.tolist(), strict=True):
            granule, mark, stamp = int(t.g[k]), int(t.marks[k]), int(t.stamps[k])
            known = region.many.get(granule)
            if known is None:
                known = region.many[granule] = {}
                old = int(region.read[granule])
                if old > 0:
                    before = int(region.reader.take(granule))
                    kind = int(self.traffic.kinds[self.regions.ops_of(old)])
                    key = self.regions.blocks_of(old), kind, before & agent, before >> EPOCH
                    known[key] = old, before
                region.read[granule] = MANY
            warp = self.regions.blocks_of(mark), t.kind, stamp & agent
            self._keep(t, k, known, warp, (mark, stamp | (SEVERAL if n > 1 else 0)))

    def _keep(
        self, t: Touch, k: int, known: Kept, warp: tuple[int, int, int], row: tuple[int, int]
    ) -> None:
        """Add an access (mark and stamp) of entry k to those of its granule. What a warp accessed
        in one epoch is one of them; what is ordered before the new one is left out.
        """
        mark, stamp = row
        epoch, same = stamp >> EPOCH, [key for key in known if key[:3] == warp]
        for key in same:
            old, before = known[key]
            if key[3] == epoch or len(same) > EPOCHS:
                stamp |= SEVERAL if (before ^ stamp) & (SEVERAL | WHO) else 0
            elif self._unordered(t, np.array([k]), np.array([old]), np.array([before])).any():
                continue
            del known[key]
        known[(*warp, epoch)] = mark, stamp

    def _close(self, t: Touch, entries: Array) -> Array:
        """Keep two blocks of granules that several access, as no block is ordered with another;
        return the entries of other granules.
        """
        region = t.region
        g, marks = t.g[entries], t.marks[entries]
        held = region.read.take(g)
        for k in np.flatnonzero(held == MANY).tolist():
            held[k] = next(iter(region.many[int(g[k])].values()))[0]
        apart = (held > 0) & (self.regions.blocks_of(held) != self.regions.blocks_of(marks))
        granules, first = np.unique(g[apart], return_index=True)
        others = entries[np.flatnonzero(apart)[first]]
        for granule, k in zip(granules.tolist(), others.tolist(), strict=True):
            kept = region.many.get(granule)
            if kept is None:
                row = int(region.read[granule]), int(region.reader.take(granule))
            else:
                row = next(iter(kept.values()))
            two = (row, (int(t.marks[k]), int(t.stamps[k])))
            region.many[granule] = {
                (self.regions.blocks_of(m), t.kind, s & WHO, s >> EPOCH): (m, s) for m, s in two
            }
            region.read[granule] = CLOSED
        rest: Array = entries[region.read.take(g) != CLOSED]
        return rest

    # -- errors and counts

    def _race(
        self,
        t: Touch,
        k: int,
        access: str,
        other: str,
        mark: int,
        stamp: int,
        code: str = "emulate-global-race",
    ) -> Exception:
        """Return the error of entry k, with who is not ordered before it."""
        faults, region = self.faults, t.region
        span, agents = t.span, self.clocks.agents
        b, thread = int(t.ids[k]) >> THREADS, int(t.ids[k]) & ((1 << THREADS) - 1)
        where = (
            int(np.searchsorted(span.B, b)),
            int(np.searchsorted(span.W, thread // LANES)),
            thread % LANES,
        )
        array = self.regions.arrays[t.storage]
        start = region.low + int(t.g[k]) * region.granule - array.address
        offset = start * 8 // array.bits
        theirs, who = self.regions.blocks_of(mark) - 1, stamp & WHO
        mine = theirs == b + faults.first
        block = faults.block(theirs - faults.first)
        fix = _FIXES[(who // LANES == thread // LANES) if mine else None]
        if who < agents.threads:
            name = f"block {block}, warp {who // LANES}, lane {who % LANES} (thread {who})"
        else:
            engine, wait = agents.engine(who)
            name, fix = f"{engine} of block {block}", wait if mine else fix
        line = line_of(self.traffic.ops[self.regions.ops_of(mark)])
        return faults.at(
            code,
            t.op,
            span,
            where,
            access=f"an {access}" if access[0] == "a" else f"a {access}",
            offset=max(offset, 0),
            coordinate=array.coordinate(max(offset, 0)),
            storage=t.storage,
            other=f"{other} by {name}",
            other_line=line,
            **({"fix": fix} if code == "emulate-global-race" else {"op_name": t.op.call}),
        )


_WORDS = {PLAIN: "read", STRONG_READ: "acquire", STRONG_WRITE: "atomic or release"}
_FIXES: dict[bool | None, str] = {
    True: "put cute.syncwarp() between the two, or let one lane do both",
    False: "put cute.syncthreads() between the two",
    None: "let each block write elements of its own, use an atomic, or order the blocks: "
    "cute.syncthreads() and cute.store_release() here, cute.wait_until() and cute.syncthreads() "
    "there",
}


def _entries(
    span: Span, located: Vectors, place: Place, array: Global, region: Region
) -> tuple[Array, Array]:
    """Return granule, and block and thread, of each granule that each thread touches."""
    start = place.offsets * array.bits // 8 + (array.address - region.low)
    count = located.width * array.bits // 8 // region.granule
    g = start // region.granule
    g = g[..., None] + np.arange(count) if count > 1 else g[..., None]
    threads = (span.W * LANES)[:, None] + np.arange(LANES)
    ids = (span.B << THREADS)[:, None, None] | threads
    shape = (*span.shape, located.count, max(count, 1))
    g, ids = np.broadcast_to(g, shape), np.broadcast_to(ids[..., None, None], shape)
    if place.active is None:
        return g.reshape(-1), ids.reshape(-1)
    chosen = np.broadcast_to(place.active[..., None], shape)
    return g[chosen], ids[chosen]


def _chosen(t: Touch, entries: Array) -> Touch:
    """Return some entries of a touch."""
    if len(entries) == len(t.g):
        return t
    parts = [x[entries] for x in (t.g, t.ids, t.stamps, t.marks)]
    return Touch(t.span, t.region, t.storage, t.op, t.kind, *parts)
