"""The regions of global memory that are watched in a run: who touched their granules last.

A region is cut into granules. For each are kept, in 16 bytes, the last plain write and the last
access since, as a mark and a stamp. A mark says which op of which block it was, a stamp which agent
of the block, and in which of its epochs. They take 4 bytes each, and 8 where the numbers are too
large for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cute_py.emulate.clocks import EPOCH, SEVERAL, WHO
from cute_py.emulate.resources import STRONG_WRITE
from cute_py.emulate.spans import LANES, Array

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.emulate.report import Report
    from cute_py.emulate.resources import Traffic
    from cute_py.emulate.spans import Span
    from cute_py.emulate.storages import Global
    from cute_py.plan.ops import Op

THREADS = 16  # bits of a thread's number in the `ids` of a touch
MANY, CLOSED = -1, -2  # marks: several readers; of two blocks, where no block is ordered

# the accesses of a granule: block, kind, agent and epoch -> mark and stamp
Kept: TypeAlias = dict[tuple[int, int, int, int], tuple[int, int]]


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


class Region:
    """Arrays whose memory overlaps: the marks and stamps of its granules.

    Attributes:
        low: the address of its first granule; granule: bytes.
        wrote, writer: mark and stamp of the last plain write.
        read, reader: of the access since then, if it is one thread's; MANY: `many` has them.
        strong: whether an atomic or a release was among these.
    """

    def __init__(self, low: int, size: int, granule: int, marks: Any, agents: int) -> None:
        self.low, self.granule = low, granule
        count = -(-size // granule)
        self.wrote: Array = np.zeros(count, marks)
        self.read: Array = np.zeros(count, marks)
        self.writer, self.reader = Stamps(count, agents), Stamps(count, agents)
        self.many: dict[int, Kept] = {}
        self.strong = False


@dataclass(slots=True)
class Touch:
    """What the threads of a cohort touch by one op, an entry for each granule of each thread.

    Attributes:
        ids: (block of the batch) << 16 | thread of the block.
        stamps: of the agents that access; marks: of block and op.
        same: gives for each entry whether the bits to be written are there already.
    """

    span: Span
    region: Region
    storage: str
    op: Op
    kind: int
    g: Array
    ids: Array
    stamps: Array
    marks: Array
    same: Callable[[], Array] | None = None


class Regions:
    """The regions of a run, over all of its batches: of the arrays that the plan writes.

    Attributes:
        of: the region of an array, by its name.
    """

    def __init__(
        self,
        traffic: Traffic,
        held: dict[str, Global],
        report: Report | None,
        agents: int,
        blocks: int,
    ) -> None:
        """Watch the arrays that are written; `agents`: of a block; `blocks`: of the grid."""
        self.traffic, self.report, self.agents = traffic, report, agents
        small = (blocks + 1) << traffic.bits < 1 << 31
        self.marks: Any = np.int32 if small else np.int64
        self.arrays = held
        self.of: dict[str, Region] = {}
        for names in _overlapping(held):
            if traffic.watches(names):
                self._watch(names)

    def _watch(self, names: list[str]) -> None:
        held = [self.arrays[name] for name in names]
        low = min(array.address for array in held) // LANES * LANES
        high = max(array.address + array.nbytes for array in held)
        region = Region(low, high - low, gcd(*map(self._grain, held)), self.marks, self.agents)
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
            none = (region.wrote[at] == 0) & ~self._strongly_written(region, at)
            if array.inside is not None:
                none &= array.inside
            found[name] = int(np.count_nonzero(none))
        return found

    def _strongly_written(self, region: Region, at: Array) -> Array:
        marks = region.read[at]
        done = (marks > 0) & (self.traffic.kinds[self.ops_of(np.maximum(marks, 0))] == STRONG_WRITE)
        for k in np.flatnonzero(marks < 0).tolist():
            done[k] = STRONG_WRITE in {key[1] for key in region.many[int(at[k])]}
        return done


def _overlapping(arrays: dict[str, Global]) -> list[list[str]]:
    """Return the names of arrays in groups whose memory overlaps."""
    groups: list[list[str]] = []
    end = -1
    for name, array in sorted(arrays.items(), key=lambda row: row[1].address):
        if array.address >= end:
            groups.append([])
        groups[-1].append(name)
        end = max(end, array.address + array.nbytes)
    return groups
