"""Turns: the one place at which somebody else chooses who goes first, before strong operations.

All that runs between these is the same in all orders, or refused in all of them. So threads run
until each waits, has ended, or stands before a strong operation at a place where its order may be
seen. Then a `Chooser` is asked: a search through orders, or a witness that repeats one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from cute_py.emulate.clocks import RUN
from cute_py.emulate.cohorts import Wait
from cute_py.emulate.observed import effect, target, writes_to
from cute_py.emulate.ops.order import ValueWait
from cute_py.emulate.spans import LANES
from cute_py.plan import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.emulate.access import Located
    from cute_py.emulate.batch import Batch
    from cute_py.emulate.cohorts import Cohort
    from cute_py.emulate.program import Program
    from cute_py.emulate.spans import Array
    from cute_py.emulate.storages import Place

Who: TypeAlias = tuple[int, int, int]  # block, warp, and the first lane
At: TypeAlias = tuple[int, int]  # a byte: the block whose shared memory it is, or -1, and where


@dataclass(frozen=True, slots=True)
class Event:
    """A strong operation of a thread, or of lanes of a warp at once.

    Attributes:
        who: that does it; op: what.
        effect: read, write, update, or the function of an atomic that commutes.
        places: the bytes; None: anywhere in global memory.
        several: whether lanes may do it one after the other, with others in between.
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
            same again; `exact`: nothing that the thread holds has changed, either.
        stamp: of the thread, by which others know what it did before.
    """

    able = spins = exact = False

    def __init__(self, c: Cohort, event: Event, located: Located, look: ValueWait | None) -> None:
        super().__init__(event.op)
        self.c, self.event, self.located, self.look = c, event, located, look
        self.place: Place = located(c)
        self.stamp = _stamp(c, event.who)

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
        """Return whether the thread knows, by barriers and mbarriers, what another one did."""
        clocks, b, theirs = self.c.batch.clocks, self.event.who[0], other.event.who
        clusters, first = self.c.batch.clusters.of, self.c.batch.faults.first
        if clocks is None or clusters[b - first] != clusters[theirs[0] - first]:
            return False
        who, alone = (b - first, *self.event.who[1:]), bool(self.c.active().sum() == 1)
        return clocks.knows(who, theirs[0] - first, other.stamp, alone, what=RUN)


def _stamp(c: Cohort, who: Who) -> int:
    clocks = c.batch.clocks
    if clocks is None:
        return 0
    row = who[0] - c.batch.faults.first if clocks.rows > 1 else 0
    return int(clocks.stamps(np.array([row]), np.array([who[1] * LANES + who[2]]))[0])


class Chooser(Protocol):
    """What is asked who goes first."""

    def enter(self, batch: Batch) -> None:
        """Take note of the blocks that run."""

    def choose(self, turns: list[Turn]) -> Turn | None:
        """Return whose turn it is, of those that stand before a strong operation; None: nobody's,
        as none is able.
        """

    def done(self, turn: Turn) -> None:
        """Take note that an operation has been done."""


class Turns:
    """Those of a batch: threads stop before strong operations, and a chooser lets one go on."""

    def __init__(self, program: Program, batch: Batch, chooser: Chooser) -> None:
        self.program, self.batch, self.chooser = program, batch, chooser
        chooser.enter(batch)
        self.located: dict[int, Located] = {}
        self.waits: dict[int, Callable[[], ValueWait]] = {}
        self.granted: Turn | None = None
        # who -> what it did last: the op, where, what it found, what it held, how often in a row
        self.last: dict[Who, tuple[Any, ...]] = {}

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
        lanes = np.flatnonzero(c.active()[0, 0])
        who = int(c.span.B[0]) + self.batch.faults.first, int(c.span.W[0]), int(lanes[0])
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
        several = starts.size * at.width > 1 and not isinstance(op, ops.WaitUntil)
        places = frozenset((b, start + k) for b, start in each for k in range(at.nbytes))
        return Event(who, op, does, places, several, meet)

    def _judge(self, turn: Turn) -> None:
        """Find out whether a turn is able, or spins."""
        turn.able = turn.look is None or turn.look.ready(turn.c) is True
        last = self.last.get(turn.event.who)
        turn.spins = turn.exact = False
        if turn.able and last is not None and last[0] is turn.op and turn.event.places is not None:
            here = turn.event.places, turn.found()
            if last[1:3] == here and self._loops(turn.c):
                turn.exact = last[3] == _held(turn.c)
                turn.spins = turn.exact or last[4] >= ROUNDS

    def _remember(self, turn: Turn) -> None:
        event, found = turn.event, turn.found()
        last = self.last.get(event.who)
        same = last is not None and (*last[:3],) == (event.op, event.places, found)
        times = last[4] + 1 if same and last is not None else 0
        held = _held(turn.c) if self._loops(turn.c) else b""
        self.last[event.who] = event.op, event.places, found, held, times

    @staticmethod
    def _loops(c: Cohort) -> bool:
        return any(frame.kind in ("test", "while") for frame in c.frames)


ROUNDS = 3  # of a loop with something of its own that changes, such as a counter


def _held(c: Cohort) -> tuple[object, ...]:
    """Return what the threads of a cohort hold, and where they stand."""
    rows = c.span.B[:, None], c.span.W
    registers = [next(iter(r.views.values()))[rows].tobytes() for r in c.batch.registers.values()]
    env = [(name, np.asarray(c.env[name]).tobytes()) for name in sorted(c.env)]
    frames = [(frame.kind, frame.pc, id(frame.steps)) for frame in c.frames]
    return (*registers, *env, *frames, None if c.mask is None else c.mask.tobytes())
