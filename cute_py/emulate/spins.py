"""Loops that wait: is there still anything that could end them?

Cohorts that go round a loop give way to all others. If a whole round of them changes nothing, no
byte of memory and of registers and no variable, the next one will not either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from cute_py.emulate.batch import Batch
    from cute_py.emulate.cohorts import Cohort
    from cute_py.emulate.spans import Array

MOST_ROUNDS = 1 << 14
STEPS = 64  # iterations of a loop in a round, where blocks do not communicate


class Spins:
    """Counts the rounds in which all cohorts that can run do nothing but go round loops."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.rounds = 0
        self.seen: int | None = None

    def moved(self) -> None:
        """Begin to count again: somebody has left a loop, or ended."""
        self.rounds = 0

    def is_idle(self, cohorts: list[Cohort]) -> bool:
        """Count a round; return whether it, and so each later one, changes nothing, or whether
        there were too many.
        """
        self.rounds += 1
        looks = self.rounds & (self.rounds - 1) == 0  # 1, 2, 4, ...: looking takes time
        known, self.seen = self.seen, self._state(cohorts) if looks or self.seen else None
        if known is not None and self.seen == known:
            return True
        if not looks:
            self.seen = None
        return self.rounds > MOST_ROUNDS

    def _state(self, cohorts: list[Cohort]) -> int:
        """Return a number that differs where memory, registers or variables do."""
        batch = self.batch
        total = crc32(batch.smem.data)
        for array in batch.arrays.values():
            if array.writable:
                total = crc32(_bytes(array.data), total)
        for registers in batch.registers.values():
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
