"""Phases of mbarriers: which arrivals and waits belong to which phase, in every order of threads.

An mbarrier counts an arrival in the phase that is open when it comes, and a wait knows a phase by
its parity alone. So an arrival must come after the end of the phase before its own. A wait must,
too, and must come before the end of the next phase. Otherwise they may belong to other phases in
another order. What counts is what has run: TMA loads run after their thread, and a wgmma after all
warps of its warpgroup, though neither orders memory. Source: PTX ISA, "Phase of the mbarrier
object", mbarrier.try_wait.

Arrivals without bytes are equal tokens. Where lanes arrive directly after another arrival, or after
a barrier that they meet at, they tell what the first of them, or any, tells. So another arrival
that comes after that one may count in their place. docs/emulator.md, "Tokens", has the argument.
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
APART = -2  # what threads have done before an arrival that is in no run
UNORDERED = {
    "arrive": (
        "an arrival",
        "nothing orders it after the previous phase, in which it may count",
        "wait for that phase before this line, or synchronise with a thread that has waited",
    ),
    "load": (
        "a TMA load",
        "nothing orders it after the previous phase, in which its bytes may count",
        "wait for that phase before this line, or synchronise with a thread that has waited",
    ),
    "early": (
        "a wait",
        "nothing orders it after the previous phase, and while that is open, it returns at once",
        "wait for each phase in turn, or synchronise with a thread that has waited for the "
        "previous one",
    ),
    "late": (
        "a wait",
        "nothing orders it before the end of the next phase, after which it waits for one more",
        "let the threads that have waited arrive, or reach a barrier, before others arrive for "
        "the next phase",
    ),
}


class Event(NamedTuple):
    """What lanes of a warp did together: their block, a stamp of each part of the warp, and whether
    it was one lane.
    """

    block: int
    stamps: tuple[int, ...]
    alone: bool


class Arrival(NamedTuple):
    """An arrival, and the first one of its run, which tells as much."""

    event: Event
    token: Event


class Phases:
    """The arrivals and waits of the mbarriers of a batch. Lanes that execute one instruction
    together are taken to do so at one time.
    """

    def __init__(self, clocks: Clocks, faults: Faults) -> None:
        self.clocks, self.agents, self.faults = clocks, clocks.agents, faults
        self.came: dict[At, list[Arrival]] = defaultdict(list)  # of the open phase
        self.ended: dict[At, list[Arrival]] = {}  # of the phase before it
        self.before: dict[At, list[Arrival]] = {}  # of the one before that
        # for the phase before, with the place of each wait
        self.waited: dict[At, list[tuple[Event, Op, Span, Thread]]] = defaultdict(list)
        # block, warp, lanes -> the beginning of their run of arrivals, and what they had done then
        self.runs: dict[tuple[int, int, bytes], tuple[Event, int]] = {}
        # of those who arrive now: what they have done, and lanes of one warp that have just met
        self.done = -1
        self.together: dict[tuple[int, int], Event] = {}

    def begin(self, at: At) -> None:
        """Forget the phases of an mbarrier that is initialised."""
        for held in (self.came, self.ended, self.before, self.waited):
            held.pop(at, None)

    def begin_arrivals(self, span: Span, lanes: Array, done: int, met: bool) -> None:
        """Take note of lanes [block, warp, lane] that are about to arrive, each at its mbarrier.
        They have `done` so many steps; `met`: that was a barrier, just before.
        """
        self.done, self.together = done, {}
        if met:
            for b, w in np.argwhere(lanes.sum(-1) > 1).tolist():
                key = int(span.B[b]), int(span.W[w])
                if self._alike(*key, lanes[b, w]):
                    lead = int(lanes[b, w].argmax())
                    event = self._event(span, (b, w, lead), lanes[b, w], each=True)
                    self.together[key] = event

    def _alike(self, block: int, warp: int, lanes: Array) -> bool:
        """Tell whether lanes of a warp know the same."""
        parts = np.unique(self.clocks.of[warp][lanes])
        known = self.clocks.clock[block if self.clocks.rows > 1 else 0, parts]
        return bool((known == known[:1]).all())

    def arrive(
        self, op: Op, span: Span, thread: Thread, lanes: Array, at: At, more: bool = False
    ) -> None:
        """Require that lanes of a warp arrive after the phase before, and remember it; `more`: they
        announce bytes, or come with copies.
        """
        event, ended = self._event(span, thread, lanes), self.ended.get(at, ())
        if not self._follows(event, [x.event if more else x.token for x in ended]):
            self._refuse("arrive", op, span, thread, at)
        token = self._token(event, int(span.W[thread[1]]), lanes, more)
        self.came[at].append(Arrival(event, token))

    def _token(self, event: Event, warp: int, lanes: Array, more: bool) -> Event:
        """Return what tells as much as an arrival of lanes: the first one of their run, or that of
        any lane which met the others of its warp before; itself if it does `more`.
        """
        key = event.block, warp, lanes.tobytes()
        token, done = self.runs.get(key, (event, -1))
        if more or done != self.done:
            token = event if more else self.together.get((event.block, warp), event)
        self.runs[key] = token, self.done
        return token

    def passed(self, op: Op, span: Span, thread: Thread, lanes: Array, at: At) -> None:
        """Require that lanes have waited after the end of the phase before the one that they waited
        for, the last one that has ended. Remember it.
        """
        event = self._event(span, thread, lanes)
        if not self._follows(event, [x.event for x in self.before.get(at, ())]):
            self._refuse("early", op, span, thread, at)
        self.waited[at].append((event, op, span, thread))

    def load(self, op: Op, span: Span, thread: Thread, at: At) -> None:
        """Require that a TMA load is issued after the phase before that which counts its bytes."""
        event = self._event(span, thread, np.arange(LANES) == thread[2])
        if not self._follows(event, [x.event for x in self.ended.get(at, ())]):
            self._refuse("load", op, span, thread, at)

    def issue(self, block: int, warp: int, lane: int) -> Array:
        """Return what has run before a copy that a lane issues [rank, column]."""
        clocks = self.clocks
        ran: Array = clocks.ran(clocks.lanes_of(block, warp, np.arange(LANES) == lane))[0]
        return ran

    def land(self, at: At, epoch: int) -> None:
        """Remember that bytes of TMA loads have come, in an epoch of their engine."""
        event = Event(at[0], (epoch << EPOCH | self.agents.tma + at[1],), False)
        if self.came[at][-1:] != [(event, event)]:
            self.came[at].append(Arrival(event, event))

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

    def _event(self, span: Span, thread: Thread, lanes: Array, each: bool = False) -> Event:
        """Return what lanes do now; `each`: by a stamp of each lane, not of each part."""
        clocks = self.clocks
        block, warp = int(span.B[thread[0]]), int(span.W[thread[1]])
        acts = np.flatnonzero(lanes)
        if not each:
            acts = acts[np.unique(clocks.of[warp][acts], return_index=True)[1]]
        row = np.full(len(acts), block if clocks.rows > 1 else 0)
        stamps = clocks.stamps(row, warp * LANES + acts).tolist()
        return Event(block, tuple(stamps), int(lanes.sum()) == 1)

    def _follows(self, event: Event, phase: list[Event]) -> bool:
        """Return whether lanes know all arrivals of a phase: one of them, each of these."""
        knows = self.clocks.knows
        threads = [(event.block, *divmod(stamp & WHO, LANES)) for stamp in event.stamps]
        return all(
            any(
                knows(who, other.block, stamp, event.alone and other.alone, what=RUN)
                for who in threads
                for stamp in other.stamps
            )
            for other in phase
        )

    def _refuse(self, how: str, op: Op, span: Span, thread: Thread, at: At) -> None:
        what, why, fix = UNORDERED[how]
        facts = {"what": what, "why": why, "name": self.agents.mbarrier(at[1])}
        raise self.faults.at("emulate-mbarrier-phase", op, span, thread, fix=fix, **facts)
