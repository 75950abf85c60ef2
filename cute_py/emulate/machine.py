"""The machine: cohorts run, wait, diverge and reconverge until all threads have ended.

A cohort runs until it ends, waits, or diverges. The order chooses among those that can run:
"forward" takes the least advanced one, so that diverged cohorts reconverge; "reversed" the most
advanced one; a seed any. Cohorts at the same position are joined, but none waits for that:
reconvergence at the end of a branch is not a barrier.

Blocks begin in rising order of their number. Those that do not communicate all run together, in
step. Those that do may wait for each other in any order, so that each, or each cluster, is a cohort
of its own; no more of them have begun at once than multiprocessors hold.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from cute_py.emulate.cohorts import Cohort, Frame, Signal, joined, split
from cute_py.emulate.divergence import divided, force, gather, merged, wait_for_others
from cute_py.emulate.stuck import stuck
from cute_py.emulate.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.emulate.batch import Batch
    from cute_py.emulate.program import Program
    from cute_py.emulate.spans import Array
    from cute_py.emulate.turns import Chooser
    from cute_py.plan.ops import Op

MOST_ROUNDS = 1 << 14  # in which memory does not change
MOST_CHANGES = 1 << 22  # rounds in which it does
LOOKS = 1 << 12  # rounds from one look to the next, after looks at 1, 2, 4, 8, ...


class Machine:
    """Runs the blocks of a batch together; `progress` is told the part of it that is done."""

    def __init__(
        self,
        program: Program,
        batch: Batch,
        order: str | int | Chooser,
        progress: Callable[[float], None] | None = None,
        resident: int | None = None,
    ) -> None:
        self.program, self.batch, self.progress = program, batch, progress
        self.turns: Turns | None = None
        if not isinstance(order, str | int):
            self.turns, order = Turns(program, batch, order), "forward"
        self.order = order
        self.part = 0.0  # that is done, as the outermost loop tells it
        self.random = random.Random(order if isinstance(order, int) else 0)
        self.apart = program.communicates  # whether blocks stay cohorts of their own
        self.residents, self.spins = Residents(program, batch, resident), Spins(batch)
        self.cohorts = self.residents.begin()

    def run(self) -> None:
        """Run until all threads have ended."""
        while self.cohorts:
            self._advance(self._choose())
        self.batch.mbarriers.require_kept()
        if self.batch.engines is not None:
            self.batch.engines.require_over()

    # -- choosing

    def _choose(self) -> Cohort:
        first = self.cohorts[0]
        if len(self.cohorts) == 1 and first.wait is None and not first.spun:
            return first
        runnable = [c for c in self.cohorts if c.wait is None and not c.spun]
        if not runnable:
            runnable = self._next_round()
        if self.order == "forward":
            return min(runnable, key=lambda c: c.position)
        if self.order == "reversed":
            return max(runnable, key=lambda c: (c.position, tuple(c.span.B), tuple(c.span.W)))
        return self.random.choice(runnable)

    def _next_round(self) -> list[Cohort]:
        """Return who can run once nobody does anything but wait or go round loops; refuse where
        that changes nothing any more.
        """
        spins = any(c.spun for c in self.cohorts)
        woken, batch = gather(self.cohorts) | self._wake(), self.batch
        if not woken and (not spins or self.spins.is_idle(self.cohorts)):
            if self.turns is not None and self.turns.take(self.cohorts):
                self.spins.moved()
                return [c for c in self.cohorts if c.wait is None]
            if not self._divide() and not force(self.cohorts):
                raise stuck(self.program, batch, self.cohorts, self.residents)
            self.spins.moved()
        for c in self.cohorts:
            c.spun = False
        return [c for c in self.cohorts if c.wait is None] or self._next_round()

    def _divide(self) -> bool:
        """Let lanes run that have not had their turn; return whether there are any."""
        parts = [(c, divided(c)) for c in self.cohorts]
        for c, each in parts:
            if each != [c]:
                self._replace(c, each)
        return any(each != [c] for c, each in parts)

    def _wake(self) -> bool:
        """End the waits that are over; return whether any is."""
        woken: list[Cohort] = []
        for c in list(self.cohorts):
            if c.wait is None:
                continue
            ready = c.wait.ready(c)
            if isinstance(ready, np.ndarray):
                self.cohorts.remove(c)
                parts = split(c, ready)
                self.cohorts += parts
                woken += [part for part in parts if part.wait is not None and part.wait.ready(part)]
            elif ready:
                woken.append(c)
        for c in woken:
            assert c.wait is not None
            c.wait.wake(c)
            c.wait = None
        self._join()
        return bool(woken)

    def _join(self) -> None:
        """Join cohorts that can run and stand at the same position."""
        places: dict[object, list[Cohort]] = {}
        for c in self.cohorts:
            if c.wait is None and not c.spun:
                place = (c.position, int(c.span.B[0])) if self.apart else c.position
                places.setdefault(place, []).append(c)
        for here in places.values():
            while len(here) > 1 and self._join_two(here):
                pass

    def _join_two(self, here: list[Cohort]) -> bool:
        """Join the first two of a list that fit together; return whether there were any."""
        for i, a in enumerate(here):
            for b in here[i + 1 :]:
                one = merged(a, b) if a.is_beside(b) else joined(a, b)
                if one is not None:
                    for old in (a, b):
                        here.remove(old)
                        self.cohorts.remove(old)
                    here.append(one)
                    self.cohorts.append(one)
                    return True
        return False

    # -- running

    def _advance(self, c: Cohort) -> None:
        """Run a cohort until it ends, waits, diverges, or leaves a frame that others stay in."""
        alone = len(self.cohorts) == 1
        while True:
            frame = c.frames[-1]
            steps, count, pc = frame.steps, len(frame.steps), frame.pc
            signal: Signal | list[Cohort] | None = None
            while pc < count:
                step = steps[pc]
                c.op = step.op
                if step.strong and self._stops(c, step.op):
                    return
                if step.whole and (wait := wait_for_others(c, step)) is not None:
                    c.wait = wait
                    return
                signal = step.run(c)
                if step.loud:
                    c.done += 1
                    c.met = c.done if step.meets else c.met
                if signal is not None:
                    break
                pc = frame.pc = pc + 1
                if step.strong and self.turns is not None:
                    self.turns.done()
                    return
                if step.strong and not alone:
                    return
            if signal is None:
                parts = self._leave(c, frame)
                if parts is not None:
                    self._replace(c, parts)
                    return
                if not c.frames:
                    self._end(c)
                    return
                if not (alone or frame.calm) or c.spun:
                    self._join()
                    return
            elif signal is Signal.BLOCKED:
                frame.pc += 1
                return
            elif signal is Signal.ENDED:
                self._end(c)
                return
            elif isinstance(signal, list):
                self._replace(c, signal)
                return

    def _stops(self, c: Cohort, op: Op) -> bool:
        """Set warps, and blocks that may be chosen, apart before a strong operation; return whether
        others are to run first.
        """
        span = c.span
        if span.nW > 1 or (span.nB > 1 and self.turns is not None):
            each = np.arange(span.nB * span.nW).reshape(span.nB, span.nW)
            parts = each % span.nW if self.turns is None else each
            if c.mask is not None:  # those that do nothing here go on together
                parts = np.where(c.mask.any(-1), parts, -1)
            if (parts != parts[0, 0]).any():
                self._replace(c, split(c, parts))
                return True
        return self.turns is not None and self.turns.stops(c, op)

    def _leave(self, c: Cohort, frame: Frame) -> list[Cohort] | None:
        """Go round a loop again, to the other branch, or back to the frame outside."""
        if frame.again is not None:
            goes_on = frame.again(c, frame)
            if isinstance(goes_on, list):
                return goes_on
            if goes_on:
                if self.progress is not None:
                    self._tell(c, frame)
                return None
        if frame.pending is not None and frame.pending.any():
            c.mask, frame.pending = frame.pending, None
            frame.steps, frame.pc, frame.kind = frame.other, 0, "other"
            return None
        if frame.kind == "test":
            self.spins.moved()
        c.frames.pop()
        c.mask = frame.saved
        if c.frames:
            c.frames[-1].pc += 1
        return None

    def _tell(self, c: Cohort, frame: Frame) -> None:
        """Tell how far the outermost loop is, where all threads have the same bounds."""
        if frame.kind != "loop" or any(outer.kind == "loop" for outer in c.frames[:-1]):
            return
        first, last = frame.bounds
        if self.progress is None or isinstance(first, np.ndarray) or isinstance(last, np.ndarray):
            return
        part = (frame.count - first) / (last - first)
        if part > self.part:  # several loops follow each other, and cohorts differ
            self.part = part
            self.progress(part)

    def _replace(self, c: Cohort, parts: list[Cohort]) -> None:
        self.cohorts.remove(c)
        self.cohorts += parts

    def _end(self, c: Cohort) -> None:
        self.cohorts.remove(c)
        if not any(map(c.is_beside, self.cohorts)):
            self.batch.ended[c.span.B[:, None], c.span.W] = True
        self.spins.moved()
        if self.residents.later:
            self.cohorts += self.residents.begin()


# -- which blocks have begun


class Residents:
    """The blocks of a batch that have begun, and those that begin later."""

    def __init__(self, program: Program, batch: Batch, resident: int | None) -> None:
        self.program, self.batch = program, batch
        self.most = resident or program.resources.most_resident()
        self.running = np.zeros(0, np.int64)
        self.later: deque[Array] = deque([np.arange(batch.spans.blocks)])
        if program.communicates:
            clusters = batch.clusters.of
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
            span = self.batch.spans.of(blocks, np.arange(self.batch.spans.warps))
            frames = [Frame(self.program.body, "body", mask)]
            made.append(Cohort(self.batch, span, mask, frames, {}))
        return made

    def missing(self) -> str:
        """Return which blocks have not begun, in words; "" if all have."""
        if not self.later:
            return ""
        first = self.batch.faults.block(int(self.later[0][0]))
        count = sum(map(len, self.later))
        which = f"{first} and {count - 1} more have" if count > 1 else f"{first} has"
        return f"; block {which} not begun: {self.most} run at once"


# -- whether anything can still end a loop


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
