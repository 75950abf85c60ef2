"""Phases of mbarriers: which arrivals and waits belong to which phase, in every order of threads.

An mbarrier counts an arrival in the phase that is open when it comes, and a wait knows a phase by
its parity alone. So an arrival must come after the end of the phase before its own. A wait must,
too, and must come before the end of the next phase. Otherwise they may belong to other phases in
another order. What counts is what has run: TMA loads run after their thread, and a wgmma after all
warps of its warpgroup, though neither orders memory. Source: PTX ISA, "Phase of the mbarrier
object", mbarrier.try_wait.

Arrivals without bytes are equal tokens. Where lanes arrive at several mbarriers, one after the
other, with nothing in between (a stage is released in all blocks of a cluster), each of these is as
good as made from the first on: another arrival that comes after the first, and counts in the place
of a later one, tells all that the later one would. docs/emulator.md has the argument.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cute_py.emulate.clocks import EPOCH, ORDER, RUN, WHO
from cute_py.emulate.spans import LANES

if TYPE_CHECKING:
    from cute_py.emulate.clocks import Clocks
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.spans import Array, Span, Thread
    from cute_py.plan.ops import Op

At = tuple[int, int]  # block and slot of an mbarrier
UNORDERED = {
    "arrive": (
        "an arrival",
        "nothing orders it after the phase before, in which it may count",
        "wait for the phase before this line, or synchronise with a thread that has waited",
    ),
    "load": (
        "a TMA load",
        "nothing orders it after the phase before, in which its bytes may count",
        "wait for the phase before this line, or synchronise with a thread that has waited",
    ),
    "early": (
        "a wait",
        "nothing orders it after the phase before, and while that one is open, it returns at once",
        "wait for each phase in turn, or synchronise with a thread that has waited for the one "
        "before",
    ),
    "late": (
        "a wait",
        "nothing orders it before the end of the next phase, and then it waits for the one after",
        "let those who have waited arrive, or reach a barrier, before others arrive for the next "
        "phase",
    ),
}


class Event(NamedTuple):
    """What lanes of a warp did together: their block, a stamp of each part of the warp, and whether
    it was one lane.
    """

    block: int
    stamps: tuple[int, ...]
    alone: bool


class Phases:
    """The arrivals and waits of the mbarriers of a batch. Lanes that execute one instruction
    together are taken to do so at one time.
    """

    def __init__(self, clocks: Clocks, faults: Faults) -> None:
        self.clocks, self.agents, self.faults = clocks, clocks.agents, faults
        self.came: dict[At, list[Event]] = defaultdict(list)  # of the open phase
        self.ended: dict[At, list[Event]] = {}  # of the phase before it
        self.before: dict[At, list[Event]] = {}  # of the one before that
        # for the phase before, with the place of each wait
        self.waited: dict[At, list[tuple[Event, Op, Span, Thread]]] = defaultdict(list)
        self.runs: dict[tuple[int, int, bytes], Event] = {}  # block, warp, lanes: their last run

    def begin(self, at: At) -> None:
        """Forget the phases of an mbarrier that is initialised."""
        for held in (self.came, self.ended, self.before, self.waited):
            held.pop(at, None)

    def arrive(
        self, op: Op, span: Span, thread: Thread, lanes: Array, at: At, again: bool = False
    ) -> None:
        """Require that lanes of a warp arrive after the phase before, and remember it; `again`:
        they have arrived just before, and done nothing since.
        """
        event = self._event(span, thread, lanes)
        if not self._follows(event, self.ended.get(at)):
            self._refuse("arrive", op, span, thread, at)
        run = event.block, int(span.W[thread[1]]), lanes.tobytes()
        if not again or run not in self.runs:
            self.runs[run] = event
        self.came[at].append(self.runs[run])

    def passed(self, op: Op, span: Span, thread: Thread, lanes: Array, at: At) -> None:
        """Require that lanes have waited after the end of the phase before the one that they waited
        for, the last one that has ended. Remember it.
        """
        event = self._event(span, thread, lanes)
        if not self._follows(event, self.before.get(at)):
            self._refuse("early", op, span, thread, at)
        self.waited[at].append((event, op, span, thread))

    def load(self, op: Op, span: Span, thread: Thread, at: At) -> None:
        """Require that a TMA load is issued after the phase before that which counts its bytes."""
        event = self._event(span, thread, np.arange(LANES) == thread[2])
        if not self._follows(event, self.ended.get(at)):
            self._refuse("load", op, span, thread, at)

    def issue(self, block: int, warp: int, lane: int) -> Array:
        """Return what has run before a copy that a lane issues [rank, column]."""
        clocks = self.clocks
        ran: Array = clocks.ran(clocks.lanes_of(block, warp, np.arange(LANES) == lane))[0]
        return ran

    def land(self, at: At, epoch: int) -> None:
        """Remember that bytes of TMA loads have come, in an epoch of their engine."""
        event = Event(at[0], (epoch << EPOCH | self.agents.tma + at[1],), False)
        if self.came[at][-1:] != [event]:
            self.came[at].append(event)

    def end(self, at: At, arriving: Array) -> None:
        """End a phase: those who have arrived, who know `arriving` [rank, half, column] together,
        must know of all who waited for the phase before.
        """
        clocks = self.clocks
        ran = arriving[int(clocks.rank[at[0]]) % len(arriving), (ORDER, RUN)].max(0)
        for event, op, span, thread in self.waited.pop(at, ()):
            stamps = np.array(event.stamps)
            if (stamps > ran[clocks.column[stamps & WHO]]).all():
                self._refuse("late", op, span, thread, at)
        if at in self.ended:
            self.before[at] = self.ended[at]
        self.ended[at] = self.came.pop(at, [])

    def _event(self, span: Span, thread: Thread, lanes: Array) -> Event:
        clocks = self.clocks
        block, warp = int(span.B[thread[0]]), int(span.W[thread[1]])
        acts = np.flatnonzero(lanes)
        _, leads = np.unique(clocks.of[warp][acts], return_index=True)
        row = np.array([block if clocks.rows > 1 else 0])
        stamps = clocks.stamps(row, warp * LANES + acts[leads]).tolist()
        return Event(block, tuple(stamps), len(acts) == 1)

    def _follows(self, event: Event, phase: list[Event] | None) -> bool:
        """Return whether lanes know all arrivals of a phase: one of them, each of these."""
        knows = self.clocks.knows
        threads = [(event.block, *divmod(stamp & WHO, LANES)) for stamp in event.stamps]
        return all(
            any(
                knows(who, other.block, stamp, event.alone and other.alone, what=RUN)
                for who in threads
                for stamp in other.stamps
            )
            for other in phase or ()
        )

    def _refuse(self, how: str, op: Op, span: Span, thread: Thread, at: At) -> None:
        what, why, fix = UNORDERED[how]
        facts = {"what": what, "why": why, "name": self.agents.mbarrier(at[1])}
        raise self.faults.at("emulate-mbarrier-phase", op, span, thread, fix=fix, **facts)
