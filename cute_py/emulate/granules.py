"""The granules of global memory: 16 bytes each for the last plain write, and the last access since.

A mark says which op of which block it was, a stamp which agent of the block, and in which of its
epochs. Both take 4 bytes, and 8 where the numbers are too large for that.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from cute_py.emulate.clocks import EPOCH, SEVERAL, WHO
from cute_py.emulate.spans import Array

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
