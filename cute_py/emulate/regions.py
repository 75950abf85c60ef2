"""The regions of global memory that are watched in a run: who touched their granules last.

A region is cut into granules. For each are kept, in 16 bytes, the last plain write and the last
access since, as a mark and a stamp. A mark says which op of which block it was, a stamp which agent
of the block, and in which of its epochs. They take 4 bytes each, and 8 where the numbers are too
large for that, and 12 more where stores of one value are. Where there are several accesses of which
none comes after the others, a dict has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cute_py.emulate.clocks import EPOCH, SEVERAL, WHO
from cute_py.emulate.resources import ALIKE, STRONG_WRITE
from cute_py.emulate.spans import LANES, Array
from cute_py.plan.walk import arrays

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.emulate.report import Report
    from cute_py.emulate.resources import Traffic
    from cute_py.emulate.spans import Span
    from cute_py.emulate.storages import Global
    from cute_py.plan.ops import Op

THREADS = 16  # bits of a thread's number in the `ids` of a touch
MANY, CLOSED = -1, -2  # marks: several accesses; of two clusters, where no cluster is ordered

# the accesses of a granule: block, kind and agent -> epoch -> mark and stamp
Kept: TypeAlias = dict[tuple[int, int, int], dict[int, tuple[int, int]]]
# granule, block, warp and epoch of accesses
LanesOf: TypeAlias = tuple[int, int, int, int]
NONE: Array = np.zeros(0, np.int64)


class Stamps:
    """A stamp of each granule: epoch, agent, and whether several lanes share it."""

    def __init__(self, count: int, agents: int) -> None:
        self.held: Array = np.zeros(count, np.int32)
        self.bits = agents.bit_length()  # of an agent; the next one is SEVERAL, then the epoch
        self.epochs = 1 << (30 - self.bits)

    def take(self, g: Array | int) -> Array:
        """Return the stamps of granules."""
        held = self.held.take(g)
        if held.dtype == np.int64:
            return held
        wide, n = held.astype(np.int64), self.bits
        several = (wide & (1 << n)) << (31 - n)
        stamps: Array = (wide >> (n + 1) << EPOCH) | several | (wide & ((1 << n) - 1))
        return stamps

    def put(self, g: Array, stamps: Array) -> None:
        """Set the stamps of granules."""
        if self.held.dtype == np.int32:
            epochs = stamps >> EPOCH
            if epochs.max(initial=0) < self.epochs:
                n = self.bits
                several = (stamps & SEVERAL) >> (31 - n)
                self.held[g] = (epochs << (n + 1)) | several | (stamps & WHO)
                return
            self.held = self.take(np.arange(len(self.held)))
        self.held[g] = stamps

    def copy(self, g: Array, other: Stamps) -> None:
        """Set the stamps of granules to those of others of as many agents."""
        if self.held.dtype == other.held.dtype:
            self.held[g] = other.held.take(g)
        else:
            self.put(g, other.take(g))


class Accesses:
    """The accesses of each granule that are kept.

    Attributes:
        marks, stamps: of the access, if there is one; mark 0: none; MANY, CLOSED: `many` has them.
    """

    def __init__(self, count: int, marks: Any, agents: int) -> None:
        self.marks: Array = np.zeros(count, marks)
        self.stamps = Stamps(count, agents)
        self.many: dict[int, Kept] = {}

    def clear(self, g: Array) -> None:
        """Keep no access of granules."""
        self.marks[g] = 0
        for granule in self.many.keys() & set(g.tolist()) if self.many else ():
            del self.many[granule]

    def rows(self, g: Array) -> tuple[Array, Array, Array]:
        """Return the accesses of granules: the entry of `g` that each belongs to, and its mark and
        stamp.
        """
        marks: Array = self.marks.take(g)
        if not marks.any():
            return NONE, NONE, NONE
        entries, stamps = np.flatnonzero(marks > 0), self.stamps.take(g)
        rows = [
            (k, *kept)
            for k in (np.flatnonzero(marks < 0).tolist() if self.many else ())
            for epochs in self.many[int(g[k])].values()
            for kept in epochs.values()
        ]
        marks, stamps = marks[entries], stamps[entries]
        if not rows:
            return entries, marks, stamps
        more = np.array(rows, np.int64)
        found = zip((entries, marks, stamps), more.T, strict=True)
        entries, marks, stamps = (np.concatenate(each) for each in found)
        return entries, marks, stamps


class Region:
    """Arrays whose memory overlaps: the accesses of its granules.

    Attributes:
        low: the address of its first granule; granule: bytes.
        last: what all accesses must be ordered after: the last plain write.
        since: the accesses since then, of which none conflicts with another one.
        strong: whether an atomic or a release was among these.
        alike: what identifies the value that stores among these store, 0 for none; None: no store
            of the plan has such values.
        lanes: of a granule, block, warp and epoch: the lanes (as bits) that took part in all
            instructions by which several lanes stored there.
        entries: numbers of entries of a touch, for a moment.
        loaded: whether threads load from it.
    """

    def __init__(
        self, low: int, size: int, granule: int, marks: Any, agents: int, loaded: bool = True
    ) -> None:
        self.low, self.granule, self.loaded = low, granule, loaded
        count = -(-size // granule)
        self.last = Accesses(count, marks, agents)
        self.since = Accesses(count, marks, agents)
        self.strong = False
        self.alike: Array | None = None
        self.lanes: dict[LanesOf, int] = {}
        self.entries: Array | None = None

    def first(self, granule: int) -> tuple[int, int] | None:
        """Return mark and stamp of the first access of a granule, if there are several."""
        many = self.since.many.get(granule, {})
        return next((kept for epochs in many.values() for kept in epochs.values()), None)

    def begin(self, g: Array) -> None:
        """Let all later accesses of granules be ordered after those since the last write, too: all
        of these are ordered before the one that comes now, which conflicts with all of them.
        """
        last, since = self.last, self.since
        marks = since.marks.take(g)
        last.clear(g)
        last.marks[g] = np.where(marks == CLOSED, MANY, marks)
        last.stamps.copy(g, since.stamps)
        for granule in g[marks < 0].tolist():
            last.many[granule] = since.many[granule]
        since.clear(g)


@dataclass(slots=True)
class Touch:
    """What the threads of a cohort touch by one op, an entry for each granule of each thread.

    Attributes:
        ids: (block of the batch) << 16 | thread of the block.
        stamps: of the agents that access; marks: of block and op.
        values: what identifies the values to be stored, if the kind of the op is ALIKE.
        same: gives for each entry whether the bits to be written are there already.
    """

    span: Span
    region: Region
    storage: str
    op: Op
    kind: int
    g: Array  # granules
    ids: Array
    stamps: Array
    marks: Array
    values: Array | None = None
    same: Callable[[], Array] | None = None


class Footprint:
    """Which blocks have touched the granules of regions, over several runs of a kernel.

    Attributes:
        held: by the address of a region and for each of its granules, the least and the greatest
            block, and whether it was touched by a store, by an atomic, and by anything but atomics.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.held: dict[int, tuple[Array, Array, Array, Array, Array]] = {}

    def add(self, t: Touch, blocks: Array) -> None:
        """Take note of a touch of granules by blocks of the grid."""
        if t.region.low not in self.held:
            size = len(t.region.last.marks)
            least, most = np.full(size, np.iinfo(np.int64).max), np.full(size, -1, np.int64)
            stored, summed, plain = (np.zeros(size, np.bool_) for _ in range(3))
            self.held[t.region.low] = least, most, stored, summed, plain
        least, most, stored, summed, plain = self.held[t.region.low]
        np.minimum.at(least, t.g, blocks)
        np.maximum.at(most, t.g, blocks)
        is_strong = t.kind == STRONG_WRITE
        (summed if is_strong else plain)[t.g] = True
        if not is_strong and arrays(t.op, written=True):
            stored[t.g] = True

    def meets(self) -> bool:
        """Tell whether two blocks have touched a granule, not both by atomics, nor by reads."""
        return any(
            bool(((least < most) & (stored | (summed & plain))).any())
            for least, most, stored, summed, plain in self.held.values()
        )


class Regions:
    """The regions of a run, over all of its batches: of the arrays that the plan writes.

    Attributes:
        footprint: takes note of what is touched, over several runs; None: nobody asks.
        of: the region of an array, by its name.
        kinds: what the ops that access global memory are, by number; stores: which are stores of
            threads.
    """

    def __init__(
        self,
        traffic: Traffic,
        held: dict[str, Global],
        report: Report | None,
        agents: int,
        blocks: int,
        footprint: Footprint | None = None,
    ) -> None:
        """Watch the arrays that are written; `agents`: of a block; `blocks`: of the grid."""
        self.traffic, self.report, self.agents = traffic, report, agents
        small = (blocks + 1) << traffic.bits < 1 << 31
        self.marks: Any = np.int32 if small else np.int64
        self.arrays = held
        self.footprint = footprint
        self.of: dict[str, Region] = {}
        for names in overlapping(held):
            if traffic.watches(names):
                self._watch(names)
        self.stores, self.kinds = traffic.stores, self._kinds()

    def _kinds(self) -> Array:
        """Return what the ops that access global memory are: ALIKE, if their values are made of
        what nothing in this run writes.
        """
        kinds = self.traffic.kinds.copy()
        for n in np.flatnonzero(self.traffic.stores).tolist():
            op = self.traffic.ops[n]
            stored = self.traffic.origins.of(op)
            if stored is not None and stored.arrays.isdisjoint(self.of):
                kinds[n] = ALIKE
        return kinds

    def kinds_of(self, marks: Array) -> Array:
        """Return what the ops are that marks name."""
        found: Array = self.kinds[self.ops_of(np.maximum(marks, 0))]
        return found

    def _watch(self, names: list[str]) -> None:
        held = [self.arrays[name] for name in names]
        low = min(array.address for array in held) // LANES * LANES
        high = max(array.address + array.nbytes for array in held)
        grain, loaded = gcd(*map(self._grain, held)), self.traffic.loads(names)
        region = Region(low, high - low, grain, self.marks, self.agents, loaded)
        for name in names:
            self.of[name] = region

    def _grain(self, array: Global) -> int:
        known = gcd(self.traffic.grains.get(array.name, 0), self.traffic.pointed)
        return gcd(known, array.itemsize) if array.name in self.traffic.boxed else known

    def ops_of(self, marks: Any) -> Any:
        """Return the numbers of the ops that marks name."""
        return marks & ((1 << self.traffic.bits) - 1)

    def blocks_of(self, marks: Any) -> Any:
        """Return the blocks of the grid that marks name, plus 1."""
        return marks >> self.traffic.bits

    def count(self, t: Touch, name: str, granules: int) -> None:
        """Count elements of so many granules of a touch in the report, if there is one."""
        if self.report is not None and granules:
            bits = self.arrays[t.storage].bits
            counts = self.report.of(t.op)
            more = max(1, granules * t.region.granule * 8 // bits)
            setattr(counts, name, getattr(counts, name) + more)

    def unwritten(self) -> dict[str, int]:
        """Return how many elements of each written array nobody has written."""
        found = {}
        for name in sorted(self.traffic.written - self.traffic.pointers):
            array, region = self.arrays[name], self.of[name]
            start = array.address - region.low
            at = (start + np.arange(array.size) * array.bits // 8) // region.granule
            none = (region.last.marks[at] == 0) & ~self._stored_since(region, at)
            if array.inside is not None:
                none &= array.inside
            found[name] = int(np.count_nonzero(none))
        return found

    def _stored_since(self, region: Region, at: Array) -> Array:
        """Return which granules atomics, or stores of one value, have written since."""
        entries, marks, _ = region.since.rows(at)
        kinds = self.kinds_of(marks)
        done = np.zeros(len(at), np.bool_)
        done[entries[(kinds == STRONG_WRITE) | (kinds == ALIKE)]] = True
        return done


def overlapping(held: dict[str, Global]) -> list[list[str]]:
    """Return the names of arrays in groups whose memory overlaps."""
    groups: list[list[str]] = []
    end = -1
    for name, array in sorted(held.items(), key=lambda row: row[1].address):
        if array.address >= end:
            groups.append([])
        groups[-1].append(name)
        end = max(end, array.address + array.nbytes)
    return groups
