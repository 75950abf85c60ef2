"""Which blocks of a batch run at once: they begin in rising order of their number, as on a GPU.

Blocks that do not communicate all run together, in step. Those that do may wait for each other in
any order, so that each, or each cluster, is a cohort of its own; no more of them have begun at once
than multiprocessors hold.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.cohorts import Cohort, Frame
from cute_py.emulate.spans import LANES, Array

if TYPE_CHECKING:
    from cute_py.emulate.batch import Batch, Resources
    from cute_py.emulate.program import Program

MULTIPROCESSORS = 132  # of an H100
THREADS, BLOCKS, SHARED = 2048, 32, 228 * 1024  # that one holds
RESERVED = 1024  # bytes of shared memory that each block takes besides its own


def most_resident(needs: Resources) -> int:
    """Return how many blocks run at once, by their threads and shared memory."""
    by_threads = THREADS // (needs.warps * LANES)
    each = min(by_threads, BLOCKS, SHARED // (needs.stride + RESERVED))
    return MULTIPROCESSORS * max(1, each)


class Residents:
    """The blocks of a batch that have begun, and those that begin later."""

    def __init__(self, program: Program, batch: Batch, resident: int | None) -> None:
        self.program, self.batch = program, batch
        self.most = resident or most_resident(program.resources)
        self.running = np.zeros(0, np.int64)
        self.later: deque[Array] = deque([np.arange(batch.blocks)])
        if program.communicates:
            clusters = batch.engines.clusters.of
            firsts = np.unique(clusters, return_index=True)[1]
            groups = [np.flatnonzero(clusters == clusters[b]) for b in np.sort(firsts)]
            self.later = deque(groups)

    def begin(self) -> list[Cohort]:
        """Return the cohorts of blocks for which there is room now."""
        made = []
        self.running = self.running[~self.batch.ended[self.running].all(1)]
        alone = not self.program.communicates
        while self.later:
            blocks, running = self.later[0], len(self.running)
            if not alone and running and running + len(blocks) > self.most:
                break
            self.later.popleft()
            self.running = np.concatenate([self.running, blocks])
            mask = self.program.resources.mask
            span = self.batch.spans.of(blocks, np.arange(self.batch.warps))
            frames = [Frame(self.program.body, "body", mask)]
            made.append(Cohort(self.batch, span, mask, frames, {}))
        return made

    def missing(self) -> str:
        """Return which blocks have not begun, in words; "" if all have."""
        if not self.later:
            return ""
        first = self.batch.faults.block(int(self.later[0][0]))
        count = sum(map(len, self.later))
        return f"; block {first} and {count - 1} more have not begun: {self.most} run at once"
