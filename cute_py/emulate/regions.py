"""The regions of global memory that are watched in a run, and what a plan does to global memory.

A region is cut into granules, 16 bytes of ours for each: for the last plain write, and the last
access since. A mark says which op of which block it was, a stamp which agent of the block, and in
which of its epochs. Both take 4 bytes, and 8 where the numbers are too large for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cute_py.emulate.clocks import EPOCH, SEVERAL, WHO
from cute_py.emulate.spans import LANES, Array
from cute_py.plan import ops
from cute_py.plan.walk import accesses, arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cute_py.emulate.report import Report
    from cute_py.emulate.spans import Span
    from cute_py.emulate.storages import Global
    from cute_py.plan.plan import Plan

FENCES = ("block", "gpu", "system")  # of threads
PLAIN, STRONG_READ, STRONG_WRITE = range(3)
THREADS = 16  # bits of a thread's number in the `ids` of a touch
MANY, CLOSED = -1, -2  # marks: several readers; of two blocks, where no block is ordered

# the accesses of a granule: block, kind, agent and epoch -> mark and stamp
Kept: TypeAlias = dict[tuple[int, int, int, int], tuple[int, int]]


class Traffic:
    """What a plan does to global memory, found once.

    Attributes:
        written: the arrays that it writes, and the pointers.
        pointers: the pointers; pointed: what the bytes of their accesses are multiples of.
        grains: what the bytes of all accesses of an array are multiples of, by array.
        boxed: the arrays that TMA accesses, by elements.
        bits: of an op's number in a mark, which is (block of the grid + 1) << bits | op.
        ops, numbers, kinds: the ops that access global memory, their numbers, and what they are.
        communicates: whether a block may learn of another one while both run.
        releases: whether threads may learn of each other by memory, be it in a block.
    """

    def __init__(self, plan: Plan) -> None:
        every = plan.ops
        self.written = {name for op in every for name in arrays(op, written=True)}
        self.pointers = {op.name for op in every if isinstance(op, ops.MakePtr)}
        self.ops = [op for op in every if arrays(op)]
        self.numbers = {id(op): n for n, op in enumerate(self.ops)}
        self.bits = len(self.ops).bit_length()  # of an op's number in a mark
        self.kinds = np.array([_kind(op) for op in self.ops] or [PLAIN])
        self.communicates = any(_learns(op) for op in self.ops)
        atomics = any(isinstance(op, ops.Atomic) and op.old is not None for op in every)
        fences = any(isinstance(op, ops.Fence) and op.kind in FENCES for op in every)
        self.releases = self.communicates or (atomics and fences)
        self.grains: dict[str, int] = {}
        self.boxed: set[str] = set()
        for op in self.ops:
            for x in accesses(op):
                if x.space == "gmem":
                    whole = x.packed or x.dtype.bits >= 8
                    size = max(1, x.width * x.dtype.bits // 8) if whole else 1
                    self.grains[x.storage] = gcd(self.grains.get(x.storage, 0), size & -size)
            if isinstance(op, ops.TmaLoad | ops.TmaStore):
                self.boxed.add(op.tensor)
        self.pointed = gcd(*[self.grains.get(name, 0) for name in self.pointers])

    def watches(self, names: Collection[str]) -> bool:
        """Return whether any of these arrays may be written, be it through a pointer."""
        return not self.written.isdisjoint({*names, *self.pointers})

    def changes(self, names: Collection[str]) -> bool:
        """Return whether what these arrays and pointers lead to may be written."""
        through = not self.pointers.isdisjoint(names) and bool(self.written)
        return through or self.watches(names)


def _kind(op: ops.Op) -> int:
    if isinstance(op, ops.Atomic) or (isinstance(op, ops.TmaStore) and op.reduce):
        return STRONG_WRITE
    if isinstance(op, ops.Store) and op.order != "weak":
        return STRONG_WRITE
    strong = isinstance(op, ops.WaitUntil) or (isinstance(op, ops.Load) and op.order != "weak")
    return STRONG_READ if strong else PLAIN


def is_strong(op: ops.Op) -> bool:
    """Tell whether an op accesses global memory in a way that may order it with others."""
    return bool(arrays(op)) and _kind(op) != PLAIN


def _learns(op: ops.Op) -> bool:
    """Tell whether the threads of an op see what others did in global memory, in order."""
    atomic = isinstance(op, ops.Atomic) and op.old is not None and op.dst.space == "gmem"
    return atomic or _kind(op) == STRONG_READ


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
    op: ops.Op
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

    def ops(self, marks: Any) -> Any:
        """Return the numbers of the ops that marks name."""
        return marks & ((1 << self.traffic.bits) - 1)

    def blocks(self, marks: Any) -> Any:
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
        done = (marks > 0) & (self.traffic.kinds[self.ops(np.maximum(marks, 0))] == STRONG_WRITE)
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
