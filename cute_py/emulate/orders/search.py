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

from cute_py.emulate.faults import line_of
from cute_py.emulate.orders.witness import candidates, usual
from cute_py.emulate.turns import Chooser

if TYPE_CHECKING:
    from cute_py.emulate.agreements import MaxNReg
    from cute_py.emulate.batch import Batch
    from cute_py.emulate.turns import At, Event, Turn, Who

Clock: TypeAlias = "dict[Who, int]"  # the last operation of each that comes before
MOST_EVENTS, MOST_SETS = 4000, 256  # of a run; of operations that a wait may do without


class Cut(Exception):  # no error: the run is not needed
    """Each choice leads to a class that has been seen."""


@dataclass(slots=True)
class Node:
    """A state: who stands before what, and can go on (the others wait for a value, or would find
    the same again); whose turn it is if nothing else is said; who need not go first; whose turn
    will be, is and has been tried.
    """

    events: dict[Who, Event]
    able: set[Who]
    usual: Who
    asleep: dict[Who, Event]
    todo: set[Who]
    chosen: Who
    done: dict[Who, Event] = field(default_factory=dict)


@dataclass(slots=True)
class Step:
    """An operation of the present run: which it is, and what.

    Attributes:
        clock: what comes before it, itself included.
        before, after: the integer at its place, if it is one.
    """

    index: int
    turn: Turn
    event: Event
    clock: Clock
    before: int | None
    after: int | None = None

    def precedes(self, clock: Clock) -> bool:
        """Return whether it comes before what has a clock."""
        return clock.get(self.event.who, -1) >= self.index

    def added(self) -> int | None:
        """Return what a sum has added to its place; None of others, and of what is no integer."""
        is_sum = self.event.effect.startswith("add ")
        known = is_sum and self.before is not None and self.after is not None
        return self.after - self.before if known else None  # type: ignore[operator]


class Search(Chooser):
    """A search through the classes of orders of a kernel.

    Blocks that do the same, whatever their number (`alike`), may exchange their roles as long as
    none has begun: one of them stands for all. Those that learn nothing of each other (`apart`) are
    searched one by one: the orders of one are the same in all orders of the others.

    Attributes:
        stack: the states of the present run, as far as others may be tried there.
        steps: its operations.
        races: pairs of operations, with who does them, that nothing orders: why there is a search.
        untried: what no run has tried, in words.
        lanes: the same, of lanes of one warp: where there are races, they matter.
    """

    def __init__(self, alike: bool = False, apart: bool = False) -> None:
        self.alike, self.apart = alike, apart
        self.block = -1  # that is searched, where blocks are apart; -1: none yet
        self.blocks: set[int] = set()  # that are to be
        self.repeats = False  # whether the run is the first one of another block, once more
        self.stack: list[Node] = []
        self.races: dict[tuple[Event, Event], None] = {}
        self.untried: dict[str, None] = {}
        self.lanes: dict[str, None] = {}
        self.begin()

    def begin(self) -> None:
        """Begin a run."""
        self.steps: list[Step] = []
        self.known: dict[Turn, Clock] = {}  # what comes before each that there was
        self.by: dict[Who, list[int]] = {}  # the operations of each
        self.at: dict[At | None, list[int]] = {}  # and at each place; None: anywhere
        self.fresh = len(self.stack) - 1  # the first state that the last run did not have
        self.turns: list[Turn] = []  # those that there were at last
        self.stuck = False  # whether none of them could go on
        self.registers: list[MaxNReg] = []  # of all batches

    def next(self) -> bool:
        """Prepare the next run; return whether there is one."""
        self.repeats = False
        while self.stack:
            node = self.stack[-1]
            node.done[node.chosen] = node.events[node.chosen]
            left = [w for w in node.todo if w not in node.done and w not in node.asleep]
            if left:
                node.chosen = min(left)
                return True
            self.stack.pop()
        later = [block for block in self.blocks if block > self.block]
        self.repeats, self.block = bool(later), min(later, default=self.block)
        return self.repeats

    # -- a run

    def enter(self, batch: Batch) -> None:
        """Take note of the blocks that run."""
        self.registers.append(batch.maxnreg)

    def end(self) -> None:
        """Take note of what a run has done."""
        for op in (op for x in self.registers for each in x.asked.values() for op, _ in each[1:]):
            self._skips(f"other orders in which warps get and give registers ({line_of(op)})")

    def choose(self, turns: list[Turn]) -> Turn | None:
        """Return whose turn it is; None where nobody can go on."""
        depth, able = len(self.steps), candidates(turns)
        if self.stuck and able:
            self._skips("other orders of lanes of one warp that wait for each other")
        self.turns, self.stuck, fresh = turns, not able, depth >= self.fresh
        for turn in turns:
            if turn.spins and not turn.exact and turn.event.who not in able:
                self._skips(f"more rounds of the loop that waits at {line_of(turn.op)}")
            if fresh and turn.event.who not in able and self._is_new(turn):
                self._races(turn)
        if not able:
            return None
        if depth == len(self.stack):
            self.stack.append(self._node(turns, able))
        node = self.stack[depth]
        turn = able[node.chosen]
        if fresh:
            self._races(turn)
        self._take(turn)
        return turn

    def done(self, turn: Turn) -> None:
        """Take note of what an operation has left."""
        self.steps[-1].after = turn.number()

    def refused(self) -> None:
        """End a run that is refused: those that still had a turn might have come before."""
        for turn in self.turns if len(self.steps) > self.fresh else ():
            if not self.steps or turn is not self.steps[-1].turn:
                self._races(turn)

    def _skips(self, what: str) -> None:
        self.untried[what] = None

    def _node(self, turns: list[Turn], able: dict[Who, Turn]) -> Node:
        """Return a new state."""
        asleep = self._asleep() if self.stack else {}
        awake = [who for who in able if who not in asleep]
        if not awake:
            raise Cut
        if len(self.stack) >= MOST_EVENTS:
            self._skips(f"orders of more than {MOST_EVENTS} strong operations")
            raise Cut
        events = {turn.event.who: turn.event for turn in turns}
        counts = {who: len(steps) for who, steps in self.by.items()}
        first = usual(awake, counts)
        return Node(events, {*able}, usual(able, counts), asleep, {first}, first)

    def _asleep(self) -> dict[Who, Event]:
        """Return whose turn has been tried before what was done last, and does not depend on it."""
        up = self.stack[-1]
        last, quiet = up.events[up.chosen], {**up.asleep, **up.done}
        return {w: e for w, e in quiet.items() if w != up.chosen and not e.depends(last)}

    def _take(self, turn: Turn) -> None:
        """Add an operation to the run."""
        event, index = turn.event, len(self.steps)
        clock, among = dict(self.before(turn)), self._among(event)
        self._lanes(turn, [j for j in among if not self.steps[j].precedes(clock)])
        for j in _last_of(self.steps, among):
            _join(clock, self.steps[j].clock)
        clock[event.who] = index
        self.steps.append(Step(index, turn, event, clock, turn.number()))
        self.by.setdefault(event.who, []).append(index)
        for place in event.places or (None,):
            self.at.setdefault(place, []).append(index)

    def _lanes(self, turn: Turn, free: list[int]) -> None:
        """Take note of lanes whose order may matter, where an operation depends on those in `free`,
        which its threads do not know of: the emulator runs them one after the other.
        """
        event, others = turn.event, [self.steps[j].event for j in free]
        parts = [other for other in others if other.several]
        if event.meet or (others and event.several):
            parts.append(event)
        for part in parts:
            self._skips(f"other orders of the lanes of one operation ({line_of(part.op)})")
        ours = [other for other in others if other.who[:2] == event.who[:2]]
        last = next((s for s in reversed(self.steps) if s.event.who[:2] == event.who[:2]), None)
        if last is not None and last.event.who != event.who:
            if last.event.who not in self.before(turn):
                self.lanes[_lanes_of(last.event, event)] = None
        elif last is not None and not last.event.effect == event.effect == "read":
            ours += [] if turn.knows(last.turn) else [last.event]
        for other in ours:
            self._skips(_lanes_of(other, event))

    def before(self, turn: Turn) -> Clock:
        """Return what comes before an operation without its place: what its threads have done, and
        what all of them know by barriers and mbarriers.
        """
        if turn in self.known:
            return self.known[turn]
        clock, who = self.known.setdefault(turn, {}), turn.event.who
        for by, steps in self.by.items():
            if by == who:
                _join(clock, self.steps[steps[-1]].clock)
            elif by[:2] == who[:2] and {*who[2:]} < {*by[2:]}:  # with lanes that may be late
                own = self.steps[steps[-1]].clock
                _join(clock, {other: index for other, index in own.items() if other != by})
            # who knows one of these knows those before, too
            count = bisect_left(steps, True, key=lambda j: not turn.knows(self.steps[j].turn))
            if count:
                _join(clock, self.steps[steps[count - 1]].clock)
        return clock

    # -- races

    def _is_new(self, turn: Turn) -> bool:
        """Tell whether one that cannot go on has just come, or what it waits for has changed, as it
        might have gone on before.
        """
        return turn not in self.known or turn.event.depends(self.steps[-1].event)

    def _races(self, turn: Turn) -> None:
        """Let the other order of an operation and each that it races with be tried."""
        for left in self._reversed(turn):
            j = left[0]
            self.races[self.steps[j].event, turn.event] = None
            if self.apart and turn.event.who[0] != self.block:
                self.blocks.add(turn.event.who[0])
                continue
            node, first = self.stack[j], self._initials(left, turn)
            if not first <= node.events.keys():
                self._skips(_lanes_of(self.steps[j].event, turn.event))
            able = {self._of_all(who, j) for who in first & node.able}
            if not able:
                node.todo |= {self._of_all(who, j) for who in node.able}
            elif not able & (node.todo | {*node.asleep}):
                node.todo.add(min(able))

    def _of_all(self, who: Who, j: int) -> Who:
        """Return who stands for a thread at the j-th state: that of the first block that has done
        nothing yet, of one such.
        """
        begun = {step.event.who[0] for step in self.steps[:j]}
        if not self.alike or who[0] in begun:
            return who
        return min(w for w in self.stack[j].able if w[0] not in begun and w[1:] == who[1:])

    def _reversed(self, turn: Turn) -> list[tuple[int, ...]]:
        """Return what an operation might come before: each time operations that it depends on, that
        its thread does not know of, and without which it could be done.

        A wait could not where it is false without them, nor one more round of a loop that waits.
        """
        event, known = turn.event, dict(self.before(turn))
        among = self._among(event)
        for j in among:
            if self.steps[j].event.who[:2] == event.who[:2]:
                _join(known, self.steps[j].clock)
        free = [j for j in among if not self.steps[j].precedes(known)]
        last = _last_of(self.steps, free)
        if turn.look is not None:
            sets = _left_out(turn, self.steps, among, free)
            if sets is not None:
                return sets
            self._skips(f"other orders of what the wait at {line_of(event.op)} may come before")
        own = self.by.get(event.who, [-1])[-1]
        if turn.once and len(last) == 1 and own < last[0]:
            node = self.stack[last[0]]
            last = last if event.who in node.able or node.events.get(event.who) != event else []
        return [(j,) for j in last]

    def _among(self, event: Event) -> list[int]:
        """Return the operations of the run that one depends on, in order."""
        places = self.at if event.places is None else (*event.places, None)
        here = {j for place in places for j in self.at.get(place, ())}
        return [j for j in sorted(here) if event.depends(self.steps[j].event)]

    def _initials(self, left: tuple[int, ...], turn: Turn) -> set[Who]:
        """Return who may begin what comes before an operation and does not need those left out."""
        out, known = [self.steps[j] for j in left], self.before(turn)
        apart = [s for s in self.steps[left[0] + 1 :] if not any(x.precedes(s.clock) for x in out)]
        first = {
            step.event.who
            for n, step in enumerate(apart)
            if not any(x.precedes(step.clock) for x in apart[:n])
        }
        needs = any(x.precedes(known) or turn.event.depends(x.event) for x in apart)
        return first if needs else {*first, turn.event.who}


def _lanes_of(a: Event, b: Event) -> str:
    lines = ", ".join(dict.fromkeys((line_of(a.op), line_of(b.op))))
    return f"other orders of lanes of one warp ({lines})"


def _join(clock: Clock, other: Clock) -> None:
    """Let a clock know what another one does."""
    for who, index in other.items():
        if index > clock.get(who, -1):
            clock[who] = index


# -- waits


def _left_out(
    turn: Turn, steps: list[Step], here: list[int], free: list[int]
) -> list[tuple[int, ...]] | None:
    """Return the smallest sets of operations without which a wait would be over, or may be; None if
    there are too many to look at.

    Args:
        turn: before the wait.
        steps: the operations of the run.
        here: those that the wait depends on, in order.
        free: those of them that its thread does not know of.
    """
    if _never_holds(turn, [steps[j] for j in free]):
        return []
    found: list[tuple[int, ...]] = []
    looked, sets = 0, set[tuple[int, ...]]({()})
    while sets:
        rest = {left: _last_of(steps, [k for k in free if k not in left]) for left in sets}
        more = {tuple(sorted((*left, j))) for left, last in rest.items() for j in last}
        sets = {x for x in more if not any({*known} <= {*x} for known in found)}
        looked += len(sets)
        if looked > MOST_SETS:
            return None
        values = {left: _value(turn, steps, here, left) for left in sorted(sets)}
        over = [left for left, n in values.items() if n is None or turn.holds(turn.wrapped(n))]
        found, sets = found + over, sets.difference(over)
    return found


def _last_of(steps: list[Step], among: list[int]) -> list[int]:
    """Return those of some operations that none of the others comes after, the last one first."""
    found: list[int] = []
    for j in reversed(among):
        if not any(steps[j].precedes(steps[k].clock) for k in found):
            found.append(j)
    return found


def _value(turn: Turn, steps: list[Step], here: list[int], left: tuple[int, ...]) -> int | None:
    """Return what a wait would find without some of the operations, where that is known: what was
    there before the first of them, and the sums since then.
    """
    number = None if turn.number() is None else steps[left[0]].before
    for j in here[here.index(left[0]) :]:
        same = steps[j].event.places == turn.event.places
        more = steps[j].added() if j not in left else 0
        number = None if number is None or more is None or not same else number + more
    return number


def _never_holds(turn: Turn, free: list[Step]) -> bool:
    """Tell whether a wait is surely not over without any of several sums."""
    now, sums = turn.number(), {step.event.who: [0] for step in free}
    if now is None:
        return False
    for step in reversed(free):
        more, each = step.added(), sums[step.event.who]
        if more is None or step.event.places != turn.event.places:
            return False
        each.append(each[-1] + more)
    values = {(now, False)}  # what may be left, and whether anything is left out
    for each in sums.values():
        values = {(v - s, out or k > 0) for v, out in values for k, s in enumerate(each)}
        if len(values) > MOST_SETS:
            return False
    return not any(out and turn.holds(turn.wrapped(v)) for v, out in values)
