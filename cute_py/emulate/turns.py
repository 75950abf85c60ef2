"""Turns: the one place at which somebody else chooses who goes first, before strong operations.

All that runs between these is the same in all orders, or refused in all of them. So threads run
until each waits, has ended, or stands before a strong operation at a place where its order may be
seen. Then a `Chooser` is asked: a search through orders, or a witness that repeats one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cute_py.emulate.clocks import ORDER, RUN, WHO
from cute_py.emulate.cohorts import Wait
from cute_py.emulate.observed import effect, target, writes_to
from cute_py.emulate.ops.order import ValueWait
from cute_py.emulate.spans import LANES
from cute_py.plan import ops
from cute_py.plan.walk import every

if TYPE_CHECKING:
    from cute_py.emulate.access import Located
    from cute_py.emulate.batch import Batch
    from cute_py.emulate.cohorts import Cohort
    from cute_py.emulate.program import Program
    from cute_py.emulate.spans import Array
    from cute_py.emulate.storages import Place

Who: TypeAlias = tuple[int, ...]  # block, warp, and lanes
At: TypeAlias = tuple[int, int]  # a byte: the block whose shared memory it is, or -1, and where


@dataclass(frozen=True, slots=True)
class Event:
    """A strong operation of a thread, or of lanes of a warp at once.

    Attributes:
        who: that does it; op: what.
        effect: read, write, update, or the function and type of an atomic that commutes.
        places: the bytes; None: anywhere in global memory.
        several: whether it is done in parts, by lanes or for elements, between which others may
            come; not of a wait at one place, which is over for all if it is for the first.
        meet: whether lanes would find, or leave, other values in another order of these alone.
    """

    who: Who
    op: ops.Op
    effect: str
    places: frozenset[At] | None
    several: bool = False
    meet: bool = False

    def depends(self, other: Event) -> bool:
        """Return whether the two may not be exchanged: they meet, and are not both reads, or both
        the same function of what is there.
        """
        if self.effect == other.effect and self.effect not in ("write", "update"):
            return False
        if self.places is None or other.places is None:
            return True
        return not self.places.isdisjoint(other.places)


class Turn(Wait):
    """A wait for one's turn, before a strong operation.

    Attributes:
        event: it.
        able: whether the operation can be done now, and would do something.
        spins: whether it is one more round of a loop that has changed nothing, and would find the
            same again; `exact`: nothing that the thread holds has changed, either; `once`: it looks
            at nothing else in a round.
        stamps: of its threads, by which others know what they did before.
    """

    able = spins = exact = once = False

    def __init__(self, c: Cohort, event: Event, located: Located, look: ValueWait | None) -> None:
        super().__init__(event.op)
        self.c, self.event, self.located, self.look = c, event, located, look
        self.place: Place = located(c)
        self.stamps = _stamps(c, event.who)

    def ready(self, c: Cohort) -> bool:
        """Return False: a `Chooser` ends it."""
        return False

    def describe(self, c: Cohort) -> str:
        """Return what is waited for."""
        return "a loop that changes nothing" if self.look is None else self.look.describe(c)

    def ended_by(self, op: ops.Op) -> bool:
        """Return whether an op writes to the storage."""
        return writes_to(op, {self.located.access.storage}, takes=self.look is not None)

    def found(self) -> bytes:
        """Return what stands at its places now."""
        if self.event.places is None:
            return b""
        values: Array = self.located.load(self.c, self.place)
        each = np.broadcast_to(values, (*self.c.span.shape, values.shape[-1]))
        return bytes(each[self.c.active()].tobytes())

    def number(self) -> int | None:
        """Return the integer at its place; None for floats, and for several places."""
        dtype = self.located.dtype
        if self.event.places is None or len(self.event.places) * 8 != dtype.bits or dtype.is_float:
            return None
        return int.from_bytes(self.found()[: dtype.bits // 8], "little", signed=dtype.is_signed)

    def wrapped(self, number: int) -> int:
        """Return an integer as its place holds it."""
        dtype = self.located.dtype
        low: int = number % 2**dtype.bits
        return low - 2**dtype.bits if dtype.is_signed and low >> (dtype.bits - 1) else low

    def holds(self, number: int) -> bool:
        """Return whether a wait would be over if this number were there."""
        assert self.look is not None
        self.look.seen(self.c)
        return bool((self.look.test(number, self.look.wanted) | ~self.c.active()).all())

    def knows(self, other: Turn) -> bool:
        """Return whether all of its threads know, by what they have done themselves, barriers and
        mbarriers, what all of another one did.
        """
        clocks, first = self.c.batch.clocks, self.c.batch.faults.first
        (b, w, *lanes), (theirs, warp, *others) = self.event.who, other.event.who
        clusters, ranks = self.c.batch.clusters.of, self.c.batch.clusters.rank
        if clocks is None or clusters[b - first] != clusters[theirs - first]:
            return False
        known = clocks.clock[b - first if clocks.rows > 1 else 0, clocks.of[w, lanes]]
        rank = int(ranks[theirs - first]) if known.shape[1] > 1 else 0
        bounds = known[:, rank, ORDER : RUN + 1 : RUN].max(1)
        knows = other.stamps <= bounds[:, clocks.column[other.stamps & WHO]]
        if (b, w) == (theirs, warp):
            knows = knows | (np.array(lanes)[:, None] == others)
        return bool(knows.all())


def _stamps(c: Cohort, who: Who) -> Array:
    clocks, (b, w, *lanes) = c.batch.clocks, who
    if clocks is None:
        return np.zeros(len(lanes), np.int64)
    rows = np.full(len(lanes), b - c.batch.faults.first if clocks.rows > 1 else 0)
    return clocks.stamps(rows, w * LANES + np.array(lanes))


class Chooser:
    """What is asked who goes first."""

    def enter(self, batch: Batch) -> None:
        """Take note of the blocks that run."""

    def choose(self, turns: list[Turn]) -> Turn | None:
        """Return whose turn it is, of those that stand before a strong operation; None: nobody's,
        as none is able.
        """
        raise NotImplementedError

    def done(self, turn: Turn) -> None:
        """Take note that an operation has been done."""


@dataclass(slots=True)
class Look:
    """What a thread did in a loop.

    Attributes:
        turn: before it; found: what it found there, and left.
        round: the loop, the rounds of those around it, and its own.
        held: what it held before; None: it does more in the loop than to look.
        times: how often it has found the same in a row before.
    """

    turn: Turn
    found: bytes
    round: Round
    held: tuple[object, ...] | None
    times: int = 0

    def repeats(self, turn: Turn) -> bool:
        """Return whether a turn is before the same operation at the same place."""
        return self.turn.op is turn.op and self.turn.event.places == turn.event.places


class Turns:
    """Those of a batch: threads stop before strong operations, and a chooser lets one go on."""

    def __init__(self, program: Program, batch: Batch, chooser: Chooser) -> None:
        self.program, self.batch, self.chooser = program, batch, chooser
        chooser.enter(batch)
        self.located: dict[int, Located] = {}
        self.granted: Turn | None = None
        self.looks: dict[Who, list[Look]] = {}  # since they changed something, the last few
        self.pure: dict[int, bool] = {}  # loops that do nothing but look, by identity

    def stops(self, c: Cohort, op: ops.Op) -> bool:
        """Let lanes of one warp wait for their turn; return False where it is theirs."""
        if self.granted is not None and self.granted.c is c:
            return False
        if c.active().any():
            c.wait = self._turn(c, op)
            return True
        return False

    def done(self) -> None:
        """Note that the operation has been done."""
        if self.granted is not None:
            turn, self.granted = self.granted, None
            looks = self.looks.get(turn.event.who)
            if looks and looks[-1].found != turn.found():
                looks.clear()
            self.chooser.done(turn)

    def take(self, cohorts: list[Cohort]) -> bool:
        """Let one go on; return whether there is any. Where there is none, waits for values become
        such as lanes of a warp may end for each other.
        """
        turns = [c.wait for c in cohorts if isinstance(c.wait, Turn)]
        for turn in turns:
            self._judge(turn)
        chosen = self.chooser.choose(turns) if turns else None
        if chosen is None:
            for turn in turns:
                if turn.look is not None:
                    turn.c.wait = turn.look
                    turn.c.frames[-1].pc += 1
            return False
        self.granted, chosen.c.wait = chosen, None
        self._remember(chosen)
        return True

    # -- one turn

    def _turn(self, c: Cohort, op: ops.Op) -> Turn:
        access = target(op)
        assert access is not None
        at = self.located.get(id(op))
        if at is None:
            at = self.located[id(op)] = self.program.access(access, op, counted=False)
            at.keeps = False
        look = None
        if isinstance(op, ops.WaitUntil):
            look = ValueWait(op, at, self.program.scalar(op.value))
        return Turn(c, self._event(c, op, at), at, look)

    def _event(self, c: Cohort, op: ops.Op, at: Located) -> Event:
        lanes = np.flatnonzero(c.active()[0, 0]).tolist()
        who = int(c.span.B[0]) + self.batch.faults.first, int(c.span.W[0]), *lanes
        does = effect(op)
        if at.pointer and isinstance(c.env.get(f"array of {at.pointer}"), np.ndarray):
            return Event(who, op, does, None, several=True, meet=True)
        place = at(c)
        shape = (*c.span.shape, at.count)
        active = c.active()[..., None] if place.active is None else place.active
        chosen = np.broadcast_to(active, shape)
        starts = np.broadcast_to(place.offsets, shape)[chosen] * at.dtype.bits // 8
        if at.smem:
            own = int(c.span.B[0]) if place.blocks is None else place.blocks
            blocks = np.broadcast_to(own, shape)[chosen] + self.batch.faults.first
            starts = starts + at.start
        else:
            blocks, starts = np.full(starts.shape, -1), starts + at.array(c).address
        each = {*zip(blocks.tolist(), starts.tolist(), strict=True)}
        meet = len(each) < starts.size and does in ("write", "update")
        several = starts.size * at.width > 1
        several = several and not (len(each) == 1 and isinstance(op, ops.WaitUntil))
        places = frozenset((b, start + k) for b, start in each for k in range(at.nbytes))
        return Event(who, op, does, places, several, meet)

    def _judge(self, turn: Turn) -> None:
        """Find out whether a turn is able, or spins."""
        turn.able = turn.look is None or turn.look.ready(turn.c) is True
        turn.spins = turn.exact = False
        here, looks = _round(turn.c), self.looks.get(turn.event.who, [])
        last = next((k for k in reversed(range(len(looks))) if looks[k].repeats(turn)), -1)
        if not turn.able or last < 0 or here is None:
            return
        old, turn.once = looks[last], last == len(looks) - 1
        if all(look.found == look.turn.found() for look in looks[last:]):
            next_one = (*old.round[:2], old.round[2] + 1) == here
            turn.exact = next_one and old.held is not None and old.held == self._held(turn.c)
            turn.spins = turn.exact or (turn.once and old.times >= ROUNDS)

    def _remember(self, turn: Turn) -> None:
        """Keep what a thread in a loop is about to do; of what else it does, nothing is known."""
        here, looks = _round(turn.c), self.looks.setdefault(turn.event.who, [])
        if here is None or turn.event.places is None:
            looks.clear()
            return
        new = Look(turn, turn.found(), here, self._held(turn.c))
        if looks and looks[-1].repeats(turn) and looks[-1].found == new.found:
            new.times = looks[-1].times + 1
        self.looks[turn.event.who] = [*looks[1 - KEPT :], new]

    def _held(self, c: Cohort) -> tuple[object, ...] | None:
        """Return what the threads of a cohort hold, and where they stand; None where they do more
        in the loop that they are in than to look.
        """
        here = _round(c)
        if here is None or not self._looks(here[0]):
            return None
        rows = c.span.B[:, None], c.span.W
        registers = [
            next(iter(r.views.values()))[rows].tobytes() for r in c.batch.registers.values()
        ]
        env = [(name, np.asarray(c.env[name]).tobytes()) for name in sorted(c.env)]
        frames = [(frame.kind, frame.pc, id(frame.steps)) for frame in c.frames]
        return (*registers, *env, *frames, None if c.mask is None else c.mask.tobytes())

    def _looks(self, loop: ops.Op) -> bool:
        """Tell whether a loop does nothing but look: what it leaves is in registers."""
        if id(loop) not in self.pure:
            self.pure[id(loop)] = all(
                isinstance(op, LOOKS) or op.rejoins or self.program.strong(op)
                for op in every((loop,))
            )
        return self.pure[id(loop)]


ROUNDS = 3  # of a loop with something of its own that changes, such as a counter
KEPT = 16  # looks of a thread
LOOKS = (  # ops that touch nothing but registers, and loads
    ops.Let, ops.Set, ops.Promise, ops.If, ops.Loop, ops.While, ops.Leave, ops.Load, ops.Fill,
    ops.Map, ops.Convert, ops.Reduce, ops.Shuffle, ops.Vote, ops.Redux, ops.Fence, ops.Assert,
)  # fmt: skip
Round: TypeAlias = tuple[ops.Op, tuple[int, ...], int]


def _round(c: Cohort) -> Round | None:
    """Return the innermost loop with a condition that a cohort is in, where each frame around it
    stands in its own, and the loop's round; None if there is none.
    """
    depth = max((k for k, f in enumerate(c.frames) if f.kind in ("test", "while")), default=0)
    outer = c.frames[depth - 1]
    around = tuple(frame.count for frame in c.frames[:depth])
    return (outer.steps[outer.pc].op, around, c.frames[depth].count) if depth else None
