"""Whether anything can still end a loop, where all threads that can run go round loops."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from cute_py.emulate.batch import Batch
    from cute_py.emulate.cohorts import Cohort
    from cute_py.emulate.spans import Array

MOST_ROUNDS = 1 << 14  # in which memory does not change
MOST_CHANGES = 1 << 22  # rounds in which it does
LOOKS = 1 << 12  # rounds from one look to the next, after looks at 1, 2, 4, 8, ...


class Spins:
    """Counts the rounds in which all cohorts that can run do nothing but go round loops. If a whole
    round changes no byte of memory or registers and no variable, the next one will not either.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.rounds = self.changed = 0
        self.memory = self.seen = -1

    def moved(self) -> None:
        """Begin to count again: somebody has left a loop, or ended."""
        self.rounds = self.changed = 0
        self.seen = -1

    def is_idle(self, cohorts: list[Cohort]) -> bool:
        """Count a round; return whether it, and so each later one, changes nothing, or whether
        there were too many.
        """
        self.rounds += 1
        looks = self.rounds & (self.rounds - 1) == 0 or self.rounds % LOOKS == 0
        known = self.seen
        if looks or known >= 0:
            memory = self._memory()
            self.seen = self._registers(cohorts, memory)
            if self.seen == known:
                return True
            if memory != self.memory:
                self.memory, self.changed = memory, self.rounds
        self.seen = self.seen if looks else -1
        return self.rounds - self.changed > MOST_ROUNDS or self.rounds > MOST_CHANGES

    def _memory(self) -> int:
        """Return a number that differs where memory does."""
        total = crc32(self.batch.smem.data)
        for array in self.batch.given.arrays.values():
            if array.writable:
                total = crc32(_bytes(array.data), total)
        return total

    def _registers(self, cohorts: list[Cohort], total: int) -> int:
        """Return a number that differs where registers, variables or places in the program do."""
        for registers in self.batch.registers.values():
            total = crc32(_bytes(next(iter(registers.views.values()))), total)
        for c in sorted(cohorts, key=lambda c: (tuple(c.span.B), tuple(c.span.W))):
            for name in sorted(c.env):
                total = crc32(_bytes(np.asarray(c.env[name])), crc32(name.encode(), total))
            place = [(frame.kind, frame.pc, id(frame.steps)) for frame in c.frames]
            total = crc32(repr((place, c.wait is None)).encode(), total)
            if c.mask is not None:
                total = crc32(_bytes(c.mask), total)
        return total


def _bytes(array: Array) -> Array:
    held = np.ascontiguousarray(array)
    return held.reshape(-1).view(np.uint8) if held.size else b""
