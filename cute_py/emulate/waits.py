"""What a cohort waits for, and the barriers of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from cute_py.emulate.faults import line_of
from cute_py.emulate.spans import LANES, Array, Cohort, Value

if TYPE_CHECKING:
    from cute_py.emulate.build import Build
    from cute_py.plan.ops import Op


class Wait(Protocol):
    """Something that a cohort waits for."""

    op: Op

    def ready(self, c: Cohort) -> bool | Array:
        """Return whether it is over: for all, or for each [block or 1, warp or 1]."""

    def describe(self, c: Cohort) -> str:
        """Return what is waited for, in words."""

    def wake(self, c: Cohort) -> None:
        """Take what the end of the wait brings."""


class Barriers:
    """The 16 barriers of every block of a batch."""

    COUNT = 16

    def __init__(self, build: Build) -> None:
        """Begin a batch: nobody has arrived."""
        self.build = build
        blocks, warps = build.blocks, build.warps
        self.arrived = np.zeros((blocks, self.COUNT), np.int64)  # threads
        self.phase = np.zeros((blocks, self.COUNT), np.int64)
        self.members = np.zeros((blocks, self.COUNT, warps), np.bool_)  # those who wait
        self.ops: dict[tuple[int, int], Op] = {}
        self.cluster_arrived = np.zeros(blocks, np.int64)
        self.cluster_phase = np.zeros(blocks, np.int64)
        self.cluster_seen = np.zeros((blocks, warps), np.int64)
        shadow = build.shadow
        self.cluster_clocks = np.zeros((blocks, 2 * shadow.agents if shadow else 0), np.int32)
        self.clocks: Array | None = None
        if shadow is not None:
            self.clocks = np.zeros((blocks, self.COUNT, 2 * shadow.agents), np.int32)

    def meet_whole(self, c: Cohort, number: int) -> bool:
        """Let a cohort of all warps pass at once; False where someone has arrived already."""
        if c.span.nW < self.build.warps or self.arrived[c.span.B, number].any():
            return False
        self.phase[c.span.B, number] += 1
        shadow = self.build.shadow
        if shadow is not None:
            shadow.meet(shadow.rows_of(c, together=True), c.span.W)
        return True

    def require_one(self, c: Cohort, op: Op) -> None:
        """Refuse a barrier of the block that parts of it reach at different lines."""
        for row, b in enumerate(c.span.B.tolist()):
            other = self.ops.get((b, 0))
            if self.arrived[b, 0] and other is not None and other is not op:
                others = f"warps {np.flatnonzero(self.members[b, 0]).tolist()} wait at "
                raise self.build.faults.at(
                    "emulate-barrier-divergent", op, c, (row, 0), others=others + line_of(other)
                )
            self.ops[b, 0] = op

    def arrive(self, c: Cohort, ids: Array, threads: int, waits: bool, op: Op) -> Array:
        """Arrive with all warps of a cohort at a barrier of each block; return the phases that
        are complete once all have arrived.

        Args:
            c: the cohort.
            ids: the number of the barrier for each block.
            threads: how many complete it.
            waits: whether the warps wait.
            op: the op, for errors.
        """
        B, W = c.span.B, c.span.W
        self.arrived[B, ids] += LANES * len(W)
        shadow = self.build.shadow
        if shadow is not None and self.clocks is not None:
            shadow.apart()
            self.clocks[B, ids] = np.maximum(self.clocks[B, ids], shadow.present(B, W).max(axis=1))
            shadow.epoch[B[:, None], W] += 1
        if waits:
            self.members[B[:, None], ids[:, None], W] = True
        wanted: Array = self.phase[B, ids] + 1
        over = self.arrived[B, ids] > threads
        if over.any():
            row = int(np.argmax(over))
            raise self.build.faults.at(
                "emulate-barrier-count",
                op,
                c,
                (row, 0),
                id=int(ids[row]),
                arrived=int(self.arrived[B[row], ids[row]]),
                threads=threads,
            )
        for met in np.flatnonzero(self.arrived[B, ids] == threads):
            self._complete(int(B[met]), int(ids[met]))
        return wanted

    def _complete(self, b: int, number: int) -> None:
        self.arrived[b, number] = 0
        self.phase[b, number] += 1
        W = np.flatnonzero(self.members[b, number])
        self.members[b, number] = False
        shadow = self.build.shadow
        if shadow is not None and self.clocks is not None:
            if len(W):
                shadow.take(np.array([b]), W, self.clocks[b, number][None])
            self.clocks[b, number] = 0


class BarrierWait:
    """A wait for a barrier of the block."""

    def __init__(self, build: Build, op: Op, ids: Array, phases: Array, threads: int) -> None:
        """Keep the phase of each block's barrier that is waited for."""
        self.build, self.op, self.threads = build, op, threads
        self.by_block = (ids, phases)
        self.wanted: dict[int, tuple[int, int]] = {}

    def keep(self, c: Cohort) -> BarrierWait:
        """Remember what each block of the cohort waits for."""
        ids, phases = self.by_block
        for b, number, phase in zip(c.span.B, ids, phases, strict=True):
            self.wanted[int(b)] = int(number), int(phase)
        return self

    def ready(self, c: Cohort) -> bool | Array:
        """Return which blocks have met."""
        barriers = self.build.barriers
        done = np.array([self._met(barriers, int(b)) for b in c.span.B])
        return bool(done[0]) if done.all() or not done.any() else done[:, None]

    def _met(self, barriers: Barriers, b: int) -> bool:
        number, phase = self.wanted[b]
        return bool(barriers.phase[b, number] >= phase)

    def describe(self, c: Cohort) -> str:
        """Return the barrier and who has come."""
        b = int(c.span.B[0])
        number = self.wanted[b][0]
        arrived = int(self.build.barriers.arrived[b, number])
        return f"barrier {number}, where {arrived} of {self.threads} threads have arrived"

    def wake(self, c: Cohort) -> None:
        """Nothing: the clocks were joined when the barrier was complete."""


class ValueWait:
    """A wait for a value in memory."""

    def __init__(self, op: Op, look: Value, words: str) -> None:
        """Keep the look, which gives [block, warp, lane]: where the wait is over."""
        self.op, self.look, self.words = op, look, words

    def ready(self, c: Cohort) -> bool | Array:
        """Return the warps whose lanes all see the value."""
        done = np.broadcast_to(self.look(c), c.span.shape)
        if c.mask is not None:
            done = done | ~c.mask
        warps = done.all(-1)
        return bool(warps.flat[0]) if warps.all() or not warps.any() else warps

    def describe(self, c: Cohort) -> str:
        """Return the condition."""
        return self.words

    def wake(self, c: Cohort) -> None:
        """Nothing to take."""
