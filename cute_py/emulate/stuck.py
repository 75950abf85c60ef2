"""Deadlocks in words: who waits for what, who would end each wait, and the circle that they form.

Who would end a wait is read from the plan: a thread that has not ended, and has before it, on paths
that it may still take, an arrival at that mbarrier, a store to that flag, or that barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.faults import line_of
from cute_py.emulate.observed import target, writes_to
from cute_py.errors import ranges
from cute_py.plan import ops
from cute_py.plan.walk import blocks_of, reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cute_py.emulate.batch import Batch
    from cute_py.emulate.cohorts import Cohort, Frame
    from cute_py.emulate.machine import Residents
    from cute_py.emulate.program import Program
    from cute_py.emulate.spans import Array
    from cute_py.errors import CuteError

Ender = tuple["Cohort", ops.Op]  # who would end a wait, and by which op


def stuck(program: Program, batch: Batch, cohorts: list[Cohort], residents: Residents) -> CuteError:
    """Return the error that says who waits for what."""
    waits = [f"{_who(batch, c)}: {_what(c)}" for c in cohorts]
    for c in cohorts:
        if c.wait is not None and c.wait.whole and not _held_up(c, cohorts):
            return _divergent(batch, c, [w for k, w in zip(cohorts, waits, strict=True) if k != c])
    for c in cohorts:
        wrong = None if c.wait is None else c.wait.mismatch(c)
        if wrong is not None and c.wait is not None:
            return batch.faults.at(
                "emulate-mbarrier-bytes", c.wait.op, c.span, wrong.pop("where"), **wrong
            )
    lead = min(cohorts, key=lambda c: c.position)
    text = "; ".join(waits) + residents.missing() + _circle(program, batch, cohorts)
    later = residents.later and not batch.faults.plan.launch.resident
    code = "emulate-not-resident" if later else "emulate-deadlock"
    return batch.faults.fault(code, _op(lead), waits=text)


def _op(c: Cohort) -> ops.Op:
    found: ops.Op = c.op if c.wait is None else c.wait.op
    return found


def _who(batch: Batch, c: Cohort) -> str:
    blocks = [batch.faults.block(int(b)) for b in c.span.B[:3]]
    more = f" and {c.span.nB - 3} more" if c.span.nB > 3 else ""
    of = f"of block {', '.join(map(str, blocks))}{more}"
    name = batch.faults.plan.launch.role_of(int(min(c.span.W)), int(max(c.span.W)) + 1)
    of = f"(role {name!r}) {of}" if name else of
    if c.divided:
        return f"lanes {ranges(np.flatnonzero(c.active()))} of warp {ranges(c.span.W)} {of}"
    return f"{_warps(c.span.W)} {of}"


def _warps(numbers: Array) -> str:
    text = ranges(numbers)
    return f"warp {text}" if text.isdecimal() else f"warps {text}"


def _what(c: Cohort) -> str:
    what = "a loop that changes nothing" if c.wait is None else c.wait.describe(c)
    return f"{what} ({line_of(_op(c))})"


def _held_up(c: Cohort, cohorts: list[Cohort]) -> bool:
    """Tell whether others of its blocks wait for what is no barrier: a flag, an mbarrier."""
    waits = [x.wait for x in cohorts if np.isin(x.span.B, c.span.B).any()]
    return any(w is None or w.reason for w in waits)


def _divergent(batch: Batch, c: Cohort, waits: list[str]) -> CuteError:
    b = int(c.span.B[0])
    assert c.wait is not None
    ended = np.flatnonzero(batch.ended[b] & ~batch.barriers.left[b])
    others = [f"{_warps(ended)} had ended"] if len(ended) else []
    text = "; ".join([*others, *waits]) or "no other warp will come"
    return batch.faults.at("emulate-barrier-divergent", c.wait.op, c.span, (0, 0), others=text)


# -- who would end a wait


def _circle(program: Program, batch: Batch, cohorts: list[Cohort]) -> str:
    """Return a circle of waits in words, or the wait that nobody is left to end; "" if neither."""
    enders = {id(c): list(_enders(program, c, cohorts)) for c in cohorts}
    for c in cohorts:
        circle = _from(c, enders)
        if circle:
            steps = [
                f"{_who(batch, waiting)} at {line_of(_op(waiting))} for {_who(batch, ender)} to "
                f"come to {line_of(op)}"
                for waiting, (ender, op) in circle
            ]
            return f"; a circle of waits: {', and '.join(steps)}"
    alone = next((c for c in cohorts if not enders[id(c)]), None)
    return "" if alone is None else f"; no other thread would end the wait of {_who(batch, alone)}"


def _from(c: Cohort, enders: dict[int, list[Ender]]) -> list[tuple[Cohort, Ender]]:
    """Return the shortest circle of waits that a cohort is in."""
    paths: list[list[tuple[Cohort, Ender]]] = [[]]
    seen: set[int] = set()
    while paths:
        path = paths.pop(0)
        last = path[-1][1][0] if path else c
        for ender in enders[id(last)]:
            longer = [*path, (last, ender)]
            if ender[0] is c:
                return longer
            if id(ender[0]) not in seen:
                seen.add(id(ender[0]))
                paths.append(longer)
    return []


def _enders(program: Program, c: Cohort, cohorts: list[Cohort]) -> Iterator[Ender]:
    """Yield the others that would end the wait of a cohort, each with the first op that does."""
    ends = _loop_ends(c) if c.wait is None else c.wait.ended_by
    clusters, by_memory = c.batch.clusters.of, c.wait is None or target(c.wait.op) is not None
    for other in cohorts:
        near = by_memory or np.isin(clusters[other.span.B], clusters[c.span.B]).any()
        if other is not c and near:
            found = next((op for op in _ahead(program, other) if ends(op)), None)
            if found is not None:
                yield other, found


def _loop_ends(c: Cohort) -> Callable[[ops.Op], bool]:
    """Return whether an op may end the loop in which a cohort looks at memory."""
    looked = {access.storage for op in _of_loop(c) if (access := target(op)) is not None}
    return lambda op: writes_to(op, looked, takes=False)


def _of_loop(c: Cohort) -> Iterator[ops.Op]:
    """Yield the ops of the innermost loop that a cohort is in."""
    for k in range(len(c.frames) - 1, 0, -1):
        if c.frames[k].again is not None:
            outer = c.frames[k - 1]
            yield from _taken(None, c, (outer.steps[outer.pc].op,))
            return


def _ahead(program: Program, c: Cohort) -> Iterator[ops.Op]:
    """Yield the ops that a cohort may come to, the next ones first."""
    for frame in reversed(c.frames):
        begin = frame.pc + (frame is not c.frames[-1])
        yield from _taken(program, c, _ops(frame, begin))
        if frame.again is not None:
            yield from _taken(program, c, _ops(frame, 0))
        if frame.pending is not None:
            yield from _taken(program, c, (step.op for step in frame.other))


def _ops(frame: Frame, begin: int) -> list[ops.Op]:
    steps: Sequence[object] = frame.steps[begin:]
    return [step.op for step in steps]  # type: ignore[attr-defined]


def _taken(program: Program | None, c: Cohort, block: Iterable[ops.Op]) -> Iterator[ops.Op]:
    """Yield ops and those of their blocks, without branches that a cohort surely does not take."""
    for op in block:
        yield op
        inside = blocks_of(op)
        if program is not None and isinstance(op, ops.If):
            inside = tuple(b for b, yes in zip(inside, _ways(program, c, op), strict=True) if yes)
        for inner in inside:
            yield from _taken(program, c, inner)


def _ways(program: Program, c: Cohort, op: ops.If) -> tuple[bool, bool]:
    """Return whether a cohort may take each way of a branch; registers may change before it."""
    if reads(op):
        return True, True
    try:
        value = np.asarray(program.condition(op.cond)(c))
    except KeyError:  # of an integer that it has not come to
        return True, True
    return bool(value.any()), not bool(value.all())
