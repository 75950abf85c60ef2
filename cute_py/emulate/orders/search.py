"""`Search`: one run of each class of orders, where classes differ in who comes first at some place.

Two orders that differ in neighbours that do not depend on each other are one class (Mazurkiewicz
trace). Each run begins anew with the choices of the last one up to a point, and chooses otherwise
there. After each operation, and for those that still wait, an earlier one that it depends on, and
that nothing else orders before it, is a race: the other order is left to be tried. Source sets say
whose turn that needs, sleep sets whose turn would only repeat a class that has been seen.
Source: Abdulla, Aronis, Jonsson, Sagonas, Optimal Dynamic Partial Order Reduction (2014);
Godefroid, Partial-Order Methods (1996).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from cute_py.emulate.orders.waits import last_of, left_out
from cute_py.emulate.orders.witness import candidates, usual

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.emulate.batch import Batch
    from cute_py.emulate.turns import At, Event, Turn, Who
    from cute_py.plan.ops import Op

Clock: TypeAlias = "dict[Who, int]"  # the last operation of each that comes before
MOST_EVENTS = 4000  # of a run


class Cut(Exception):  # no error: the run is not needed
    """Each choice leads to a class that has been seen."""


class TooLong(Exception):
    """A run has more strong operations than the bound."""


@dataclass(slots=True)
class Node:
    """A state: who can go on, whose turn has been or will be tried, and who need not go first."""

    able: dict[Who, Event]
    asleep: dict[Who, Event]
    blocked: dict[Who, Event]  # those that wait for a value, or would find the same again
    todo: set[Who]
    done: dict[Who, Event] = field(default_factory=dict)
    chosen: Who = (-1, -1, -1)


@dataclass(slots=True)
class Step:
    """An operation of the present run.

    Attributes:
        turn: it; clock: what comes before it, itself included.
        before, after: the integer at its place, if it is one.
        found: what stood there, in words.
    """

    turn: Turn
    clock: Clock
    before: int | None
    after: int | None = None

    @property
    def event(self) -> Event:
        """What it does."""
        return self.turn.event


class Search:
    """A search through the classes of orders of a kernel; `brute`: through all orders.

    Blocks that do the same, whatever their number (`alike`), may exchange their roles as long as
    none has begun: one of them stands for all. Those that learn nothing of each other (`apart`) are
    searched one by one: the orders of one are the same in all orders of the others.

    Attributes:
        stack: the states of the present run, as far as others may be tried there.
        steps: its operations.
        races: pairs of operations, with who does them, that nothing orders: why there is a search.
        meet: operations whose lanes would find other values in another order of these.
        lanes: pairs of operations of lanes of one warp that nothing orders: the emulator runs one
            branch after the other.
        spun: operations that have been taken to repeat themselves.
        wide: waits that might be over without too many sets of operations.
        again: the setmaxnregs that a warp has come to after another one.
        strays: whether a run has not done the same as the one before, up to where it should.
        divided: whether lanes went on though nobody had a turn, as their warp was divided.
    """

    def __init__(self, brute: bool = False, alike: bool = False, apart: bool = False) -> None:
        self.brute, self.alike, self.apart = brute, alike, apart
        self.block = -1  # that is searched, where blocks are apart; -1: none yet
        self.blocks: set[int] = set()  # that are to be
        self.repeats = False  # whether the run is the first one of another block, once more
        self.stack: list[Node] = []
        self.races: dict[tuple[Event, Event], None] = {}
        self.lanes: dict[tuple[Event, Event], None] = {}
        self.meet: set[Event] = set()
        self.spun: set[Event] = set()
        self.wide: set[Event] = set()
        self.again: set[Op] = set()
        self.divided = self.strays = False
        self.begin()

    def begin(self) -> None:
        """Begin a run."""
        self.steps: list[Step] = []
        self.clocks: dict[Who, Clock] = {}  # after the last operation of each
        self.known: dict[Who, tuple[Turn, Clock]] = {}  # before the next one
        self.by: dict[Who, list[int]] = {}  # the operations of each
        self.at: dict[At, list[int]] = {}  # and at each place
        self.anywhere: list[int] = []
        self.warps: dict[tuple[int, int], Event] = {}  # the last one of each warp
        self.fresh = len(self.stack) - 1  # the first state that the last run did not have
        self.turns: list[Turn] = []  # those that there were at last
        self.waiting: list[Turn] = []  # they, where nobody could go on
        self.batch: Batch | None = None

    def next(self) -> bool:
        """Prepare the next run; return whether there is one."""
        self.repeats = False
        while self.stack:
            node = self.stack[-1]
            node.done[node.chosen] = node.able[node.chosen]
            left = [w for w in node.todo if w not in node.done and w not in node.asleep]
            if left:
                node.chosen = min(left)
                return True
            self.stack.pop()
        self.repeats = any(block > self.block for block in self.blocks)
        self.block = min((b for b in self.blocks if b > self.block), default=self.block)
        return self.repeats

    # -- a run

    def enter(self, batch: Batch) -> None:
        """Take note of the blocks that run."""
        self.batch = batch

    def end(self) -> None:
        """Take note of what a run has done."""
        asked = self.batch.maxnreg.asked if self.batch is not None else {}
        self.again |= {op for each in asked.values() for op, _ in each[1:]}

    def choose(self, turns: list[Turn]) -> Turn | None:
        """Return whose turn it is; None where nobody can go on."""
        depth, able = len(self.steps), candidates(turns)
        self.divided = self.divided or bool(self.waiting and able)
        self.waiting, self.turns = [], turns
        self.spun |= {t.event for t in turns if t.spins and not t.exact and t.event.who not in able}
        fresh = depth >= self.fresh
        if fresh and not self.brute:
            for turn in turns:
                self._blocked_races(turn, able)
        if not able:
            self.waiting = turns
            return None
        if depth == len(self.stack):
            self.stack.append(self._node(turns, able))
        node = self.stack[depth]
        if node.chosen not in able:
            self.strays = True
            raise Cut
        turn = able[node.chosen]
        if fresh and not self.brute:
            self._races(turn)
        self._take(turn)
        return turn

    def done(self, turn: Turn) -> None:
        """Take note of what an operation has left."""
        self.steps[-1].after = turn.number()

    def refused(self) -> None:
        """End a run that is refused: those that still had a turn might have come before."""
        if not self.brute and len(self.steps) > self.fresh:
            for turn in self.turns:
                if not self.steps or turn is not self.steps[-1].turn:
                    self._races(turn)

    def _node(self, turns: list[Turn], able: dict[Who, Turn]) -> Node:
        """Return a new state."""
        events = {who: turn.event for who, turn in able.items()}
        asleep: dict[Who, Event] = {}
        if self.stack and not self.brute:
            up = self.stack[-1]
            last = up.able[up.chosen]
            quiet = {**up.asleep, **up.done}
            asleep = {w: e for w, e in quiet.items() if w != up.chosen and not e.depends(last)}
        awake = [who for who in events if who not in asleep]
        if not awake:
            raise Cut
        if len(self.stack) >= MOST_EVENTS:
            raise TooLong
        first = usual(awake, {who: len(steps) for who, steps in self.by.items()})
        blocked = {t.event.who: t.event for t in turns if t.event.who not in able}
        node = Node(events, asleep, blocked, set(events) if self.brute else {first})
        node.chosen = first
        return node

    def _take(self, turn: Turn) -> None:
        """Add an operation to the run."""
        event, index = turn.event, len(self.steps)
        mine = self._before(turn)
        clock = dict(mine)
        last = self.warps.get(event.who[:2])
        if last is not None and last.who not in clock:
            self.lanes[last, event] = None
        for j in last_of(self.steps, self._among(event)):
            _join(clock, self.steps[j].clock)
        clock[event.who] = index
        self.steps.append(Step(turn, clock, turn.number()))
        self.clocks[event.who], self.warps[event.who[:2]] = clock, event
        self.by.setdefault(event.who, []).append(index)
        for place in event.places or ():
            self.at.setdefault(place, []).append(index)
        if event.places is None:
            self.anywhere.append(index)
        if event.meet:
            self.meet.add(event)

    def _before(self, turn: Turn) -> Clock:
        """Return what comes before an operation without its place: what its thread has done, and
        what that knows by barriers and mbarriers.
        """
        held = self.known.get(turn.event.who)
        if held is not None and held[0] is turn:
            return held[1]
        clock = dict(self.clocks.get(turn.event.who, {}))
        for steps in self.by.values():  # who knows one of these knows those before, too
            known = bisect_left(steps, True, key=lambda j: not turn.knows(self.steps[j].turn))
            if known:
                _join(clock, self.steps[steps[known - 1]].clock)
        self.known[turn.event.who] = turn, clock
        return clock

    # -- races

    def _blocked_races(self, turn: Turn, able: dict[Who, Turn]) -> None:
        """Find the races of one that cannot go on: where it has just come, or where what it waits
        for has changed, as it might have gone on before.
        """
        event, depth = turn.event, len(self.steps)
        if event.who in able or not depth:
            return
        before = self.stack[depth - 1]
        is_new = event.who == before.chosen or event.who not in {*before.able, *before.blocked}
        if is_new or event.depends(self.steps[-1].event):
            self._races(turn)

    def _races(self, turn: Turn) -> None:
        """Let the other order of an operation and each that it races with be tried."""
        mine = self._before(turn)
        for left in self._reversed(turn, mine):
            j = left[0]
            self.races[self.steps[j].event, turn.event] = None
            if self.apart and turn.event.who[0] != self.block:
                self.blocks.add(turn.event.who[0])
                continue
            node = self.stack[j]
            able = {self._of_all(w, j) for w in self._initials(left, turn, mine) & set(node.able)}
            if not able:
                node.todo |= {self._of_all(who, j) for who in node.able}
            elif not able & (node.todo | set(node.asleep)):
                node.todo.add(min(able))

    def _of_all(self, who: Who, j: int) -> Who:
        """Return who stands for a thread at the j-th state: that of the first block that has done
        nothing yet, of one such.
        """
        begun = {step.event.who[0] for step in self.steps[:j]}
        if not self.alike or who[0] in begun:
            return who
        return min(w for w in self.stack[j].able if w[0] not in begun and w[1:] == who[1:])

    def _reversed(self, turn: Turn, mine: Clock) -> list[tuple[int, ...]]:
        """Return what an operation might come before: each time operations that it depends on, that
        its thread does not know of, and without which it could be done.

        A wait could not where it is false without them, nor one more round of a loop that waits.
        """
        event, known = turn.event, dict(mine)
        among = self._among(event)
        for j in among:
            if self.steps[j].event.who[:2] == event.who[:2]:
                _join(known, self.steps[j].clock)
        free = [j for j in among if j > known.get(self.steps[j].event.who, -1)]
        last = last_of(self.steps, free)
        if turn.look is not None:
            sets = left_out(turn, self.steps, among, free)
            self.wide |= {event} if sets is None else set()
            return [(j,) for j in last] if sets is None else sets
        own = self.clocks.get(event.who, {}).get(event.who, -1)
        if len(last) == 1 and own < last[0] and self.stack[last[0]].blocked.get(event.who) == event:
            return []
        return [(j,) for j in last]

    def _among(self, event: Event) -> list[int]:
        """Return the operations of the run that one depends on, in order."""
        here = {j for place in event.places or () for j in self.at.get(place, ())}
        meet = here.union(self.anywhere) if event.places else range(len(self.steps))
        return [j for j in sorted(meet) if event.depends(self.steps[j].event)]

    def _initials(self, left: tuple[int, ...], turn: Turn, mine: Clock) -> set[Who]:
        """Return who may begin what comes before an operation and does not need those left out."""
        event = turn.event
        after = range(left[0] + 1, len(self.steps))
        apart = [k for k in after if not self._needs(self.steps[k].clock, left)]
        able, seen = set(), set()
        for k in apart:
            step = self.steps[k]
            if step.event.who not in seen:
                seen.add(step.event.who)
                if not self._needs(step.clock, [e for e in apart if e < k]):
                    able.add(step.event.who)
        free = event.who not in seen and not self._needs(mine, apart)
        if free and not any(event.depends(self.steps[e].event) for e in apart):
            able.add(event.who)
        return able

    def _needs(self, clock: Clock, among: Iterable[int]) -> bool:
        """Return whether any of these operations comes before a clock."""
        return any(clock.get(self.steps[e].event.who, -1) >= e for e in among)


def _join(clock: Clock, other: Clock) -> None:
    """Let a clock know what another one does."""
    for who, index in other.items():
        if index > clock.get(who, -1):
            clock[who] = index
