"""`Cohort`: threads at one program position, the steps that they run, and what they wait for.

Values of a cohort are ints, or arrays [block or 1, warp or 1, lane or 1] that broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cute_py.emulate.spans import Array, Span, Thread, Value

if TYPE_CHECKING:
    from cute_py.emulate.batch import Batch
    from cute_py.errors import CuteError
    from cute_py.plan.ops import Op


class Signal(Enum):
    """What a cohort does after an op, other than to go on."""

    PUSHED = auto()  # a frame was put on the stack
    BLOCKED = auto()  # `wait` is set; the op is done once it is over
    JUMPED = auto()  # the frames were changed: look again
    ENDED = auto()  # no thread is left


Run: TypeAlias = Callable[["Cohort"], "Signal | list[Cohort] | None"]


@dataclass(slots=True, eq=False)
class Step:
    """One op, compiled. `run` returns None where the cohort goes on to the next op."""

    op: Op
    run: Run
    strong: bool = False  # others may run before it, and after: what they see depends on it
    whole: bool = False  # all lanes of a warp execute it together
    loud: bool = True  # it may touch memory or wait: more than integers, control and arrivals
    meets: bool = False  # those who come to it know of each other after it


class Wait:
    """Something that a cohort waits for."""

    whole = False  # whether all warps of a block must come
    reason = True  # whether it may be why others wait at a barrier that whole blocks must reach

    def __init__(self, op: Op) -> None:
        self.op = op

    def ready(self, c: Cohort) -> bool | Array:
        """Return whether it is over: for all, or for each [block or 1, warp or 1]."""
        raise NotImplementedError

    def describe(self, c: Cohort) -> str:
        """Return what is waited for, in words."""
        raise NotImplementedError

    def lanes(self, c: Cohort) -> Array | None:
        """Return the lanes [block, warp, lane] whose wait is over; None if all end at once."""
        return None

    def wake(self, c: Cohort) -> None:
        """Take what the end of the wait brings."""

    def ended_by(self, op: Op) -> bool:
        """Return whether an op of others may end it."""
        return False

    def mismatch(self, c: Cohort) -> dict[str, Any] | None:
        """Return the facts of a wrong count of bytes; None where that is not what is wrong."""
        return None


@dataclass(slots=True, eq=False)
class Frame:
    """A block of ops that runs.

    Attributes:
        steps: the ops, compiled.
        pc: the next of them.
        kind: body, then, other, loop, test or while.
        saved: the lanes that run when the frame is left.
        pending: of `then`, the lanes that run `other` next.
        other: the ops of these.
        again: what runs at the end of the steps instead of leaving, as a loop does.
        count: of a loop, the present value or round.
        bounds: of a loop whose lanes differ, its start and stop.
        turns: of a loop, times those of the loops around it; 1 where that is not known.
        calm: of arrivals alone, in a loop or a branch: others do not run after it.
    """

    steps: tuple[Step, ...]
    kind: str
    saved: Array | None
    pc: int = 0
    pending: Array | None = None
    other: tuple[Step, ...] = ()
    again: Any = None
    count: int = 0
    bounds: tuple[Value, Value] = (0, 0)
    turns: int = 1
    calm: bool = False

    def copy(self) -> Frame:
        """Return a copy that runs on its own."""
        return replace(self)

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands, for an order in which loops and both branches go forward."""
        return self.count, int(self.kind in ("other", "while")), self.pc


@dataclass(slots=True, eq=False)
class Cohort:
    """Threads of a batch at one program position: a span, the lanes that take part, the frames.

    Attributes:
        op: the one that runs, for errors.
        spun: whether it went round a loop, and others are to run first.
        divided: whether other lanes of its warp, the only one, are another cohort.
        forced: whether the next op is executed without these.
        done: how many loud steps its threads have done, or more; met: the last where they met.
    """

    batch: Batch
    span: Span
    mask: Array | None
    frames: list[Frame]
    env: dict[str, Value]
    wait: Wait | None = None
    op: Any = None
    spun: bool = False
    divided: bool = False
    forced: bool = False
    done: int = 0
    met: int = -1

    @property
    def position(self) -> tuple[tuple[int, int, int], ...]:
        """Where it stands: the smaller comes first in the program."""
        return tuple(frame.place for frame in self.frames)

    def is_beside(self, other: Cohort) -> bool:
        """Tell whether they are parts of one divided warp."""
        return self.divided and other.divided and self.span is other.span

    def active(self) -> Array:
        """Return the lanes that take part, as an array [block, warp, lane]."""
        if self.mask is None:
            return np.ones(self.span.shape, np.bool_)
        return np.broadcast_to(self.mask, self.span.shape)

    def fault(self, code: str, op: Op, where: tuple[int, ...], **facts: object) -> CuteError:
        """Return the error of the thread at `where`: row of block, of warp, and perhaps lane."""
        return self.batch.faults.at(code, op, self.span, where, **facts)

    def peer(self, op: Op, where: Thread, rank: int) -> int:
        """Return the block of a rank in the cluster of a thread; refuse ranks that it lacks."""
        clusters = self.batch.clusters
        if not 0 <= rank < clusters.size:
            facts = {"rank": rank, "size": clusters.size, "name": op.call}
            raise self.fault("emulate-cluster-rank", op, where, **facts)
        return clusters.block(int(self.span.B[where[0]]), rank)

    def part(self, b: Array, w: Array) -> Cohort:
        """Return the part of these rows of the span's blocks and warps, as a cohort of its own."""

        def cut(value: Value) -> Value:
            if not isinstance(value, np.ndarray):
                return value
            value = value[b] if value.shape[0] > 1 else value
            return value[:, w] if value.shape[1] > 1 else value

        frames = []
        for frame in self.frames:
            twin = frame.copy()
            twin.saved, twin.pending = cut(frame.saved), cut(frame.pending)
            twin.bounds = cut(frame.bounds[0]), cut(frame.bounds[1])
            frames.append(twin)
        env = {name: cut(value) for name, value in self.env.items()}
        span = self.batch.spans.of(self.span.B[b], self.span.W[w])
        mask = cut(self.mask)
        if mask is not None and mask.all():
            mask = None
        one = Cohort(self.batch, span, mask, frames, env, self.wait, divided=self.divided)
        one.done, one.met = self.done, self.met
        return one


def split(cohort: Cohort, pattern: Array) -> list[Cohort]:
    """Return the parts of a cohort with equal numbers in `pattern` [block or 1, warp or 1].

    Parts are products of blocks and warps, so that one number may give several.
    """
    span = cohort.span
    pattern = np.broadcast_to(pattern, (span.nB, span.nW))
    rows, which = np.unique(pattern, axis=0, return_inverse=True)
    which = which.reshape(-1)
    parts = []
    for k, row in enumerate(rows):
        b = np.flatnonzero(which == k)
        parts += [cohort.part(b, np.flatnonzero(row == n)) for n in np.unique(row)]
    return parts


# -- joining


def joined(a: Cohort, b: Cohort) -> Cohort | None:
    """Return two cohorts that stand at one position as one, or None where that is no product."""
    if a.divided or b.divided:
        return None
    p, q = a.span, b.span
    same_W, same_B = np.array_equal(p.W, q.W), np.array_equal(p.B, q.B)
    if not (same_W or same_B) or not _alike(a, b):
        return None
    axis = 0 if same_W else 1
    numbers = np.concatenate([p.B, q.B] if same_W else [p.W, q.W])
    order = np.argsort(numbers)
    spans = a.batch.spans
    span = spans.of(numbers[order], p.W) if same_W else spans.of(p.B, numbers[order])

    def join(x: Value, y: Value) -> Value:
        if not isinstance(x, np.ndarray) and not isinstance(y, np.ndarray) and x == y:
            return x
        x, y = np.asarray(x), np.asarray(y)
        if x.shape == y.shape and x.ndim == 3 and x.shape[axis] == 1 and np.array_equal(x, y):
            return x
        rows = [np.broadcast_to(each, s.shape) for each, s in ((x, p), (y, q))]
        return np.take(np.concatenate(rows, axis=axis), order, axis=axis)

    def lanes(x: Array | None, y: Array | None) -> Array | None:
        if x is None and y is None:
            return None
        return np.asarray(join(True if x is None else x, True if y is None else y))

    frames = []
    for f, g in zip(a.frames, b.frames, strict=True):
        frame = f.copy()
        frame.saved = lanes(f.saved, g.saved)
        if f.pending is not None or g.pending is not None:
            none = np.zeros((1, 1, 1), np.bool_)
            frame.pending = lanes(
                none if f.pending is None else f.pending, none if g.pending is None else g.pending
            )
        frames.append(frame)
    env = {name: join(a.env[name], b.env[name]) for name in a.env if name in b.env}
    return Cohort(a.batch, span, lanes(a.mask, b.mask), frames, env, done=max(a.done, b.done) + 1)


def _alike(a: Cohort, b: Cohort) -> bool:
    if len(a.frames) != len(b.frames):
        return False
    for f, g in zip(a.frames, b.frames, strict=True):
        if f.steps is not g.steps or f.place != g.place or f.kind != g.kind:
            return False
        for x, y in zip(f.bounds, g.bounds, strict=True):
            if isinstance(x, np.ndarray) or isinstance(y, np.ndarray) or x != y:
                return False
    return True
