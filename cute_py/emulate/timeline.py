"""`Timeline`: what the warps of the first block did, in order, and which copies were in flight.

It shows an order, not time: the emulator runs asynchronous copies at once, and warps in an order of
its own. A copy is in flight from its issue to the wait that needed it: the wait for its group
(cp.async, TMA stores, wgmma), or for the phase of its mbarrier (TMA loads).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cute_py.emulate.access import slots_of, taking_part
from cute_py.emulate.cohorts import Cohort, Run, Signal
from cute_py.emulate.report import Report
from cute_py.errors import place_text
from cute_py.plan import ops
from cute_py.records import Shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cute_py.emulate.access import Located
    from cute_py.emulate.scalars import Evaluated
    from cute_py.plan.plan import Plan

MOST_EVENTS = 2000
LONGEST = 64  # events of a repetition that the text folds
# op that starts work -> the ops that close a group of it, and that wait for groups
_GROUPS: dict[type[ops.Op], tuple[type[ops.Op], type[ops.Op]]] = {
    ops.CpAsync: (ops.CpCommit, ops.CpWait),
    ops.TmaStore: (ops.BulkCommit, ops.BulkWait),
    ops.Wgmma: (ops.WgCommit, ops.WgWait),
}
_COMMITS = {commit: start for start, (commit, _) in _GROUPS.items()}
_WAITS = {wait: start for start, (_, wait) in _GROUPS.items()}
_SHOWN = ("copies", "products", "waits")


@dataclass(frozen=True, slots=True)
class Event:
    """An op that warps executed together: the warps, its name, and its line of the kernel."""

    warps: tuple[int, ...]
    name: str
    line: tuple[str, int]

    @property
    def where(self) -> str:
        """The line as text."""
        return place_text(self.line) if self.line[1] else ""


Mark: TypeAlias = tuple[int, int]  # a slot for mbarriers, and its phase


@dataclass(slots=True)
class Flight:
    """Asynchronous work: the events of its issue and of the wait that needed it.

    Attributes:
        warp: the warp that issued it.
        name: the op.
        issued: the number of the event.
        waited: the number of the event; None if nothing has waited for it.
    """

    warp: int
    name: str
    issued: int
    waited: int | None = None


class Timeline(Shown, Report):
    """The events of the first block in order, and the work in flight; also the counts of a report.

    Attributes:
        events: at most 2,000 events.
        flights: the stages: groups of copies or products, and the loads of an mbarrier's phase.
        complete: whether there were no more events.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.events: list[Event] = []
        self.flights: list[Flight] = []
        self.complete = True
        self._open: dict[tuple[int, type[ops.Op]], Flight] = {}
        self._groups: dict[tuple[int, type[ops.Op]], list[Flight | None]] = {}
        self._phases: dict[tuple[int, int], Flight] = {}  # slot and phase of an mbarrier
        self._blocked: dict[int, tuple[ops.Op, list[Mark]]] = {}  # warp -> the wait that it is in

    # -- recording

    def goes_on(self, warps: list[int]) -> None:
        """Record the waits that are over, now that these warps execute another op."""
        for warp in warps:
            if warp in self._blocked:
                op, marks = self._blocked[warp]
                together = [w for w in warps if self._blocked.get(w, (None,))[0] is op]
                for w in together:
                    del self._blocked[w]
                self._record(op, together, marks)

    def ran(self, op: ops.Op, c: Cohort, warps: list[int], marks: list[Mark]) -> None:
        """Record an op that these warps have executed, or in which they wait."""
        if c.wait is not None and c.wait.op is op:
            self._blocked.update(dict.fromkeys(warps, (op, marks)))
        else:
            self._record(op, warps, marks)

    def finish(self) -> None:
        """Record the waits that were the last op of their warps."""
        self.goes_on(list(self._blocked))

    def _record(self, op: ops.Op, warps: list[int], marks: list[Mark]) -> None:
        if op.share not in _SHOWN:
            return
        if len(self.events) == MOST_EVENTS:
            self.complete = False
            return
        number = len(self.events)
        self.events.append(Event(tuple(warps), op.word, op.line))
        for warp in warps:
            self._group(op, warp, number)
        for mark in marks:
            self._mark(op, warps, mark, number)

    def _group(self, op: ops.Op, warp: int, number: int) -> None:
        """Issue, close or complete groups of a warp."""
        kind = type(op)
        if kind in _GROUPS:
            self._open.setdefault((warp, kind), Flight(warp, op.word, number))
        elif kind in _COMMITS:
            key = warp, _COMMITS[kind]
            self._groups.setdefault(key, []).append(self._closed(*key))  # None: an empty group
        elif isinstance(op, ops.CpWait | ops.BulkWait | ops.WgWait):
            groups = self._groups.get((warp, _WAITS[kind]), [])
            done = max(0, len(groups) - op.n)
            for flight in groups[:done]:
                if flight is not None:
                    flight.waited = number
            del groups[:done]

    def _closed(self, warp: int, kind: type[ops.Op]) -> Flight | None:
        """Return the work that a warp has issued since the last group."""
        flight = self._open.pop((warp, kind), None)
        if flight is not None:
            self.flights.append(flight)
        return flight

    def _mark(self, op: ops.Op, warps: list[int], mark: Mark, number: int) -> None:
        """Issue loads of a phase of an mbarrier, or wait for a phase."""
        if isinstance(op, ops.TmaLoad) and mark not in self._phases:
            self._phases[mark] = Flight(warps[0], op.word, number)
            self.flights.append(self._phases[mark])
        elif isinstance(op, ops.CpArrive):
            for warp in warps:
                flight = self._closed(warp, ops.CpAsync)
                if flight is not None:
                    self._phases.setdefault(mark, flight)
        elif isinstance(op, ops.MbarWait) and mark in self._phases:
            flight = self._phases[mark]
            flight.waited = number if flight.waited is None else flight.waited

    # -- showing

    def rows(self) -> list[tuple[str, list[int], list[int]]]:
        """Return warps that executed the same events: their name and role, their numbers, the
        events.
        """
        own: dict[int, list[int]] = {}
        for number, event in enumerate(self.events):
            for warp in event.warps:
                own.setdefault(warp, []).append(number)
        roles: dict[tuple[int, ...], list[int]] = {}
        for warp in sorted(own):
            roles.setdefault(tuple(own[warp]), []).append(warp)
        return [(self._named(warps), warps, list(events)) for events, warps in roles.items()]

    def _named(self, warps: list[int]) -> str:
        """Return warps as text, with the role that they are in."""
        names = [
            name
            for name, start, stop in self.plan.launch.roles
            if start <= warps[0] and warps[-1] < stop
        ]
        return ", ".join([*names, _warps(warps)])

    def in_flight(self) -> list[int]:
        """Return after each event how many stages of the warp that has most are in flight."""
        steps: dict[int, list[int]] = {}
        for flight in self.flights:
            counts = steps.setdefault(flight.warp, [0] * len(self.events))
            end = len(self.events) if flight.waited is None else flight.waited
            for number in range(flight.issued, end):
                counts[number] += 1
        return [max(column) for column in zip(*steps.values(), strict=True)] or [0] * len(
            self.events
        )

    def __str__(self) -> str:
        more = "" if self.complete else "the first "
        lines = [f"order, not time: {more}{len(self.events)} events of block (0,0,0)"]
        shown = [
            f"  {_warps(event.warps):<12}  {count:>2} in flight  {event.name} {event.where}"
            for event, count in zip(self.events, self.in_flight(), strict=True)
        ]
        for start, period, times in folded(shown):
            lines += [f"{k:>4}{shown[k]}" for k in range(start, start + period)]
            if times > 1:
                what = "this event" if period == 1 else f"these {period} events"
                lines.append(f"      {what} {times} times, to {start + period * times - 1}")
        return "\n".join(lines)


def folded(rows: Sequence[object]) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a sequence in which rows repeat: start, how many rows, how many times. Of
    the repetitions that begin at a row, the one that saves most is taken.

    >>> list(folded("abababc"))
    [(0, 2, 3), (6, 1, 1)]
    """
    at = 0
    while at < len(rows):
        period, times = 1, 1
        for length in range(1, min(LONGEST, (len(rows) - at) // 2) + 1):
            first, count = rows[at : at + length], 1
            while rows[at + count * length : at + (count + 1) * length] == first:
                count += 1
            if (count - 1) * length > (times - 1) * period:
                period, times = length, count
        yield at, period, times
        at += period * times


def _warps(warps: Sequence[int]) -> str:
    if len(warps) > 1 and warps[-1] - warps[0] == len(warps) - 1:
        return f"warps {warps[0]}-{warps[-1]}"
    return ("warp " if len(warps) == 1 else "warps ") + ",".join(map(str, warps))


def recording(op: ops.Op, run: Run, located: Located | None, parity: Evaluated | None) -> Run:
    """Return a compiled op that a timeline records.

    Args:
        op: the op.
        run: what it does.
        located: the mbarriers that it names, if any.
        parity: of the phases that it waits for, if it waits for any.
    """

    def marks_of(c: Cohort, row: int) -> list[Mark]:
        """Return the mbarriers of the first block that the op names, and their phases."""
        if located is None:
            return []
        place = located(c)
        lanes = taking_part(c, place)[row]
        slots = slots_of(located, c, place)[row]
        now = c.batch.mbarriers.phase[int(c.span.B[row])]
        marks = {(int(slot), int(now[slot])) for slot in slots[lanes]}
        if parity is None:
            return sorted(marks)
        wanted = np.broadcast_to(np.asarray(parity(c)), c.span.shape)[row]
        # the phase of that parity which is complete, or which is to complete next
        pairs = {(int(s), int(p) & 1) for s, p in zip(slots[lanes], wanted[lanes], strict=True)}
        return sorted((s, int(now[s]) - (int(now[s]) + p & 1)) for s, p in pairs)

    def recorded(c: Cohort) -> Signal | list[Cohort] | None:
        timeline = c.batch.report
        assert isinstance(timeline, Timeline)
        rows = np.flatnonzero(c.span.B + c.batch.faults.first == 0)
        if not len(rows):
            return run(c)
        row = int(rows[0])
        warps = c.span.W[c.active()[row].any(-1)].tolist()
        timeline.goes_on(warps)
        marks = marks_of(c, row)
        signal = run(c)
        if not isinstance(signal, list):  # parts of the cohort execute it again
            timeline.ran(op, c, warps, marks)
        return signal

    return recorded
