"""Who touched global memory last, and what orders it: happens-before between threads and blocks.

Only arrays that the plan writes are watched; those whose memory overlaps are one region. Of every
granule of a region the last plain write is kept, and who has accessed it since: one thread, or
several of which none comes after the other. Two accesses of one granule, of which one writes, must
be ordered. In a block the clocks say so; between blocks only what one has released and the other
acquired (`releases`), and nothing where a plan never acquires: then no two blocks are ordered.

Two kinds of writes do not race with each other, but with all else that nothing orders. Atomics,
releases and acquires are strong. Stores of one op are alike if they store one value, whatever the
arrays hold (`plan.origins`); equal bits alone are chance. A read races with a store of its value,
too, but for lanes that took part in the instruction: that is their own store.

Source: PTX ISA, Memory Consistency Model, "Conflict and Data-races", "Morally strong operations";
the marks of a granule are those of FastTrack (Flanagan and Freund, 2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.clocks import EPOCH, LOW, SEVERAL, THREAD, WHO
from cute_py.emulate.faults import line_of
from cute_py.emulate.regions import (
    CLOSED,
    MANY,
    THREADS,
    Accesses,
    Kept,
    LanesOf,
    Region,
    Regions,
    Touch,
)
from cute_py.emulate.resources import ALIKE, PLAIN, STRONG_READ, STRONG_WRITE
from cute_py.emulate.spans import LANES, Array
from cute_py.plan import ops
from cute_py.plan.walk import arrays

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
        kind = int(self.regions.kinds[n])
        touch = Touch(span, region, storage, op, kind, g, ids, stamps, marks)
        if self.regions.footprint is not None:
            self.regions.footprint.add(touch, b + self.faults.first)
        return touch

    # -- reads and writes

    def access(self, t: Touch) -> None:
        """Require that a read, a strong access, or a store of a value that others may store, is
        ordered after what it conflicts with, and remember it. Those of which none conflicts with
        another one are kept together: stores of one value, or no stores.
        """
        region, g, alike = t.region, t.g, t.region.alike
        self._require_one_proxy(t)
        self._require_ordered(t, region.last)
        if alike is None:
            if region.strong or t.kind != PLAIN:
                self._require_ordered(t, region.since)
        elif region.since.marks.take(g).any():
            held = alike.take(g)
            joins = np.zeros(len(g), np.bool_) if t.values is None else held == t.values
            self._count_equal(t, joins)
            self._require_ordered(_chosen(t, np.flatnonzero(~joins)), region.since)
            old = ~joins & (region.since.marks.take(g) != 0)
            if t.values is None:
                old &= held != 0
            if old.any():
                region.begin(g[old])
        if alike is not None:
            alike[g] = 0 if t.values is None else t.values
        self._remember(t)
        region.strong |= t.kind == STRONG_WRITE

    def store(self, t: Touch) -> None:
        """Require that plain stores of threads do not race, and remember them."""
        if t.values is None:
            self.write(t)
            return
        region = t.region
        if region.alike is None:
            region.alike = np.zeros(len(region.last.marks), np.int64)
            region.entries = np.zeros(len(region.last.marks), np.int32)
        again = self._again(t)
        self._count_rewritten(t, again)
        if region.loaded and (again.any() or region.lanes):
            self._keep_lanes(t, again)
        self.access(t)
        if self.releases is not None:
            self.releases.forget(t)

    def write(self, t: Touch) -> None:
        """Require that a plain write is ordered after all accesses before, and remember it."""
        region, g = t.region, t.g
        self._require_one_proxy(t)
        self._require_ordered(t, region.last, write=True)
        self._require_ordered(t, region.since, write=True)
        self._count_rewritten(t)
        if self.releases is not None:
            self.releases.forget(t)
        region.since.clear(g)
        if region.alike is not None:
            region.alike[g] = 0
        last = region.last
        last.clear(g)
        last.marks[g] = t.marks
        last.stamps.put(g, t.stamps)
        several = (last.stamps.take(g) != t.stamps) | (last.marks.take(g) != t.marks)
        if several.any():
            k = int(np.argmax(several))
            raise self._race(t, k, int(last.marks[g[k]]), int(last.stamps.take(g[k])))

    def _again(self, t: Touch) -> Array:
        """Return which entries of stores of values another thread stores to at once, after them;
        refuse those that store another value.
        """
        region, each = t.region, np.arange(len(t.g))
        assert t.values is not None
        assert region.entries is not None
        region.entries[t.g] = each
        winner = region.entries.take(t.g)
        again: Array = winner != each
        if again.any():
            again &= (t.stamps[winner] != t.stamps) | (t.marks[winner] != t.marks)
            differs = t.values[winner] != t.values
            bad = again & (np.isin(t.g, t.g[differs]) if differs.any() else False)
            if bad.any():
                k = int(np.argmax(bad))
                raise self._race(t, k, int(t.marks[winner[k]]), int(t.stamps[winner[k]]))
        return again

    def _count_rewritten(self, t: Touch, again: Array | bool = False) -> None:
        """Count granules that somebody has written, in the report if there is one; `again`: which
        several threads write now, with equal bits.
        """
        if self.regions.report is not None:
            written = (t.region.last.marks.take(t.g) != 0) | again
            if t.region.alike is not None:
                written |= t.region.alike.take(t.g) != 0
            self.regions.count(t, "rewritten", int(np.count_nonzero(written)))
            self.regions.count(t, "equal", int(np.count_nonzero(again)))

    def _count_equal(self, t: Touch, joins: Array) -> None:
        """Count the granules to which others, in no order, have stored the same value."""
        if self.regions.report is not None and joins.any():
            joining = _chosen(t, np.flatnonzero(joins))
            entries, marks, stamps = t.region.since.rows(joining.g)
            bad = self._unordered(joining, entries, marks, stamps)
            self.regions.count(t, "equal", len(np.unique(entries[bad])))

    def _keep_lanes(self, t: Touch, again: Array) -> None:
        """Keep which lanes took part in all instructions of an epoch of their warp by which several
        lanes stored to a granule.
        """
        region = t.region
        chosen = np.isin(t.g, t.g[again]) | np.isin(t.g, [key[0] for key in region.lanes])
        at = np.flatnonzero(chosen)
        blocks, who = self.regions.blocks_of(t.marks[at]), t.stamps[at] & WHO
        rows = np.stack([t.g[at], blocks, who // LANES, t.stamps[at] >> EPOCH])
        each, index = np.unique(rows, axis=1, return_inverse=True)
        bits = np.zeros(each.shape[1], np.int64)
        np.bitwise_or.at(bits, index.reshape(-1), np.int64(1) << who % LANES)
        found = dict(zip(map(tuple, each.T.tolist()), bits.tolist(), strict=True))
        for key, lanes in found.items():
            if key in region.lanes:
                region.lanes[key] &= lanes
            elif lanes & (lanes - 1):
                before = zip(*region.since.rows(np.array(key[:1]))[1:], strict=True)
                alone = [(m, s) for m, s in before if self._lanes_of(key[0], m, s) == key]
                for _, stamp in alone:
                    lanes &= 0 if stamp & SEVERAL else 1 << (stamp & WHO) % LANES
                region.lanes[key] = lanes

    def _lanes_of(self, granule: int, mark: int, stamp: int) -> LanesOf:
        """Return granule, block, warp and epoch of an access."""
        return granule, self.regions.blocks_of(mark), (stamp & WHO) // LANES, stamp >> EPOCH

    # -- what orders them

    def _require_ordered(self, t: Touch, held: Accesses, write: bool = False) -> None:
        """Refuse the first entry that is not ordered after accesses of its granule that it
        conflicts with: all of the last ones, and all of those since if it is a plain write.

        Args:
            t: the touch.
            held: the last accesses, or those since.
            write: whether it is a plain write.
        """
        entries, marks, stamps = held.rows(t.g)
        if not len(entries):
            return
        kinds = self.regions.kinds_of(marks)
        if held is t.region.since and not write:
            chosen = _CONFLICTS[t.kind][kinds]
            entries, marks, stamps, kinds = (x[chosen] for x in (entries, marks, stamps, kinds))
        bad = self._unordered(t, entries, marks, stamps)
        for j in np.flatnonzero(bad).tolist():
            k, mark, stamp = int(entries[j]), int(marks[j]), int(stamps[j])
            if kinds[j] != ALIKE or not self._is_own(t, k, mark, stamp):
                raise self._race(t, k, mark, stamp)

    def _is_own(self, t: Touch, k: int, mark: int, stamp: int) -> bool:
        """Tell whether entry k is a read of what lanes of its warp stored, it among them, in one
        instruction.
        """
        block, thread = int(t.ids[k]) >> THREADS, int(t.ids[k]) & ((1 << THREADS) - 1)
        key = granule, theirs, warp, _ = self._lanes_of(int(t.g[k]), mark, stamp)
        assert granule == t.g[k]
        mine = theirs - 1 == block + self.faults.first and warp == thread // LANES
        lanes = t.region.lanes.get(key, 0) if isinstance(t.op, ops.Load) and mine else 0
        return bool(lanes >> thread % LANES & 1)

    def _require_one_proxy(self, t: Touch) -> None:
        """Refuse TMA where threads stored: no op here orders the two proxies in global memory."""
        if not isinstance(t.op, ops.TmaLoad | ops.TmaStore):
            return
        for held in (t.region.last, t.region.since):
            entries, marks, stamps = held.rows(t.g)
            stored = self.regions.stores[self.regions.ops_of(marks)]
            if stored.any():
                j = int(np.argmax(stored))
                marked = int(marks[j]), int(stamps[j])
                raise self._race(t, int(entries[j]), *marked, code="emulate-proxy-global")

    def _unordered(self, t: Touch, entries: Array, marks: Array, stamps: Array) -> Array:
        """Return which marked accesses are not ordered before entries of a touch."""
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
            # which lanes there were is not kept: all parts of their warp must be known
            lanes = np.full(len(near), LOW)
            bad[near] = ~clocks.ordered(stamps[near], by, lanes, clocks.memory, writes=True)
        if self.clusters.size > 1 and bad.any():
            self._in_clusters(t, bad, entries, marks, stamps)
        if self.releases is not None and bad.any():
            far = np.flatnonzero(bad)
            blocks = self.regions.blocks_of(marks[far]) - 1 - first
            written = self.regions.kinds_of(marks[far]) == STRONG_WRITE
            bad[far] = ~self.releases.known(t, entries[far], blocks, stamps[far], written)
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
        marks = region.since.marks.take(g)
        if marks.any():
            t = self._without_ordered(t, marks)
            region, g = t.region, t.g
            if not len(g):
                return
        region.since.marks[g] = t.marks
        region.since.stamps.put(g, t.stamps)
        differs = (region.since.stamps.take(g) != t.stamps) | (
            region.since.marks.take(g) != t.marks
        )
        if differs.any():
            self._remember_several(t, differs)

    def _without_ordered(self, t: Touch, marks: Array) -> Touch:
        """Keep entries of which others read the granule, too, in `many`; return the others."""
        region = t.region
        stamps = region.since.stamps.take(t.g)
        kinds = self.regions.kinds_of(marks)
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
        less = (kinds == t.kind) | ((kinds == STRONG_READ) & (t.kind != ALIKE))
        check = np.flatnonzero(~later & (marks > 0) & less)
        later[check] = ~self._unordered(t, check, marks[check], stamps[check])
        self._add(t, np.flatnonzero(~later & (marks != CLOSED)))
        # what came to `many` just now stays there with all of its entries
        return _chosen(t, np.flatnonzero(later & (region.since.marks.take(t.g) >= 0)))

    def _remember_several(self, t: Touch, differs: Array) -> None:
        """Keep entries of one touch that read one granule: lanes of a warp, or more."""
        region, g = t.region, t.g
        lanes = np.zeros(len(g), np.bool_)
        if not self.clocks.divided:
            apart = (region.since.stamps.take(g) ^ t.stamps) & ~SEVERAL & -LANES
            lanes = differs & (region.since.marks.take(g) == t.marks) & (apart == 0)
            region.since.stamps.put(g[lanes], region.since.stamps.take(g[lanes]) | SEVERAL)
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
            known = region.since.many.get(granule)
            if known is None:
                known = region.since.many[granule] = {}
                old = int(region.since.marks[granule])
                if old > 0:
                    before = int(region.since.stamps.take(granule))
                    kind = int(self.regions.kinds[self.regions.ops_of(old)])
                    key = self.regions.blocks_of(old), kind, before & agent
                    known[key] = {before >> EPOCH: (old, before)}
                region.since.marks[granule] = MANY
            warp = self.regions.blocks_of(mark), t.kind, stamp & agent
            self._keep(t, k, known, warp, (mark, stamp | (SEVERAL if n > 1 else 0)))

    def _keep(
        self, t: Touch, k: int, known: Kept, warp: tuple[int, int, int], row: tuple[int, int]
    ) -> None:
        """Add an access (mark and stamp) of entry k to those of its granule. What a warp accessed
        in one epoch is one of them; what is ordered before the new one is left out.
        """
        mark, stamp = row
        own = known.setdefault(warp, {})
        full = len(own) > EPOCHS
        for epoch, (old, before) in list(own.items()):
            if epoch == stamp >> EPOCH or full:
                stamp |= SEVERAL if (before ^ stamp) & (SEVERAL | WHO) else 0
            elif self._unordered(t, np.array([k]), np.array([old]), np.array([before])).any():
                continue
            del own[epoch]
        own[stamp >> EPOCH] = mark, stamp

    def _close(self, t: Touch, entries: Array) -> Array:
        """Keep blocks of two clusters of granules that several access, as no cluster is ordered
        with another; return the entries of other granules.
        """
        region = t.region
        g, marks = t.g[entries], t.marks[entries]
        held = region.since.marks.take(g)
        for k in np.flatnonzero(held == MANY).tolist():
            held[k] = (region.first(int(g[k])) or (0,))[0]
        apart = (held > 0) & (self._cluster_of(held) != self._cluster_of(marks))
        granules, first = np.unique(g[apart], return_index=True)
        at = np.flatnonzero(apart)[first]
        before = held[at].tolist(), region.since.stamps.take(granules).tolist()
        now = marks[at].tolist(), t.stamps[entries[at]].tolist()
        for granule, *two in zip(
            granules.tolist(), zip(*before, strict=True), zip(*now, strict=True), strict=True
        ):
            two[0] = region.first(granule) or two[0]
            region.since.many[granule] = {
                (self.regions.blocks_of(m), t.kind, s & WHO): {s >> EPOCH: (m, s)} for m, s in two
            }
        region.since.marks[granules] = CLOSED
        rest: Array = entries[region.since.marks.take(g) != CLOSED]
        return rest

    def _cluster_of(self, marks: Array) -> Array:
        """Return the clusters of the blocks that marks name; -1 for those of other batches."""
        blocks, of = self.regions.blocks_of(marks) - 1 - self.faults.first, self.clusters.of
        inside = (blocks >= 0) & (blocks < len(of))
        clusters: Array = np.where(inside, of.take(blocks, mode="clip"), -1)
        return clusters

    # -- errors and counts

    def _race(
        self, t: Touch, k: int, mark: int, stamp: int, code: str = "emulate-global-race"
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
        op = self.traffic.ops[self.regions.ops_of(mark)]
        access, other = self._word(t.op), self._word(op)
        if op is t.op and isinstance(op, ops.Store) and access == "write":
            fix = _ONE_STORES
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
            other_line=line_of(op),
            **({"fix": fix} if code == "emulate-global-race" else {"op_name": t.op.call}),
        )

    def _word(self, op: ops.Op) -> str:
        """Return what an op does to global memory, in a word."""
        n = self.traffic.numbers[id(op)]
        writes = bool(arrays(op, written=True))
        return (
            _WORDS[int(self.traffic.kinds[n])] if self.traffic.kinds[n] or not writes else "write"
        )


_WORDS = {PLAIN: "read", STRONG_READ: "acquire", STRONG_WRITE: "atomic or release"}
# which kinds conflict with each other, those of a touch with those that are kept; an ALIKE store
# with another one unless it joins it
_CONFLICTS = np.array([[0, 0, 1, 1], [0, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]], np.bool_)
_ONE_STORES = (
    "let one thread store it: with cute.when((cute.block_idx() == 0) & (cute.thread_idx() == 0)): "
    "...; several may, if their value is made of numbers, arguments, and the same elements of "
    "arrays that the kernel does not write"
)
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
