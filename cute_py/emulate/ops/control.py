"""Control: loops, branches, leaving them, and run-time integers.

Where the threads of a cohort disagree, it is split by warps if what follows may wait for other
threads, or if whole warps were promised to agree; else both ways run in turn under lane masks.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from cute_py.emulate.cohorts import Cohort, Frame, Run, Signal, split
from cute_py.emulate.divergence import running
from cute_py.emulate.effort import may_leave, turns
from cute_py.emulate.faults import first
from cute_py.emulate.program import Program, handles
from cute_py.emulate.scalars import BITWISE, as_lanes, uniform
from cute_py.emulate.spans import Array, Value
from cute_py.plan import ops
from cute_py.plan.conditions import MOST, Reg

STEPS = 64  # iterations of a loop in a round, where it looks at nothing that others write


def only_arrives(*blocks: ops.Block) -> bool:
    """Tell whether blocks do nothing but arrive at mbarriers."""
    moving = [op for block in blocks for op in block if not isinstance(op, ops.Let | ops.Set)]
    return bool(moving) and all(isinstance(op, ops.MbarArrive) for op in moving)


def lanes_where(c: Cohort, value: Array) -> Array:
    """Return the lanes that take part and where a condition holds."""
    return value if c.mask is None else c.mask & value


def lanes_left(c: Cohort, value: Array) -> Array:
    """Return the lanes that take part and where a condition does not hold."""
    return ~value if c.mask is None else c.mask & ~value


def by_warp(c: Cohort, value: Array) -> Array:
    """Return for each warp 1 if some lane holds, plus 2 if some lane does not."""
    some = np.broadcast_to(lanes_where(c, value), c.span.shape).any(-1)
    others = np.broadcast_to(lanes_left(c, value), c.span.shape).any(-1)
    return some + 2 * others


@handles(ops.If)
def branch(program: Program, op: ops.If) -> Run:
    """Run `then` where the condition holds, `other` elsewhere."""
    cond = program.condition(op.cond)
    then, other = program.block(op.then), program.block(op.other)
    masks = op.scope == "thread" and not program.blocks_in(op.then, op.other)
    calm = only_arrives(op.then, op.other)

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        value = cond(c)
        some, every = as_lanes(value, c.mask)
        if every or not some:
            steps = then if every else other
            if not steps:
                return None
            c.frames.append(Frame(steps, "then" if every else "other", c.mask, calm=calm))
            return Signal.PUSHED
        if not masks:
            pattern = by_warp(c, value)
            if (pattern != pattern.flat[0]).any():
                return split(c, pattern)
        left = lanes_left(c, value)
        pending = left if other else None
        frame = Frame(then, "then", c.mask, pending=pending, other=other, calm=calm)
        c.frames.append(frame)
        c.mask = lanes_where(c, value)
        return Signal.PUSHED

    return run


@handles(ops.Loop)
def loop(program: Program, op: ops.Loop) -> Run:
    """Count a variable from start to stop."""
    start, stop, step = program.scalar(op.start), program.scalar(op.stop), op.step
    body, var = program.block(op.body), op.var
    splits = op.scope != "thread" or program.blocks_in(op.body)
    goes_on: Callable[[Any, Any], Any] = operator.lt if step > 0 else operator.gt
    leaves, calm = may_leave(op), only_arrives(op.body)

    def again(c: Cohort, frame: Frame) -> bool:
        if c.mask is not None and not c.mask.any():
            return False
        value = frame.count + step
        if not goes_on(value, frame.bounds[1]):
            return False
        frame.count = c.env[var] = value
        frame.pc = 0
        if leaves:
            turns(c, op, (value - frame.bounds[0]) // step)
        return True

    def again_apart(c: Cohort, frame: Frame) -> bool:
        first, last = frame.bounds
        value = first + (frame.count + 1) * step
        holds = np.asarray(goes_on(value, last))
        mask = lanes_where(c, holds.reshape((1,) * (3 - holds.ndim) + holds.shape))
        if not mask.any():
            return False
        frame.count += 1
        if leaves:
            turns(c, op, frame.count)
        c.env[var], c.mask = value, mask
        frame.pc = 0
        return True

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        first, last = uniform(start(c), c.mask), uniform(stop(c), c.mask)
        if not isinstance(first, np.ndarray) and not isinstance(last, np.ndarray):
            if goes_on(first, last):
                c.env[var] = first
                frame = Frame(body, "loop", c.mask, again=again, count=first, bounds=(first, last))
                frame.turns = 1 if leaves else turns(c, op, -((first - last) // step))
                frame.calm = calm
                c.frames.append(frame)
                return Signal.PUSHED
            return None
        if splits:
            pattern = _alike_warps(c, first, last)
            if pattern is not None:
                return split(c, pattern)
        frame = Frame(body, "loop", c.mask, again=again_apart, count=-1, bounds=(first, last))
        most = np.where(c.active(), -((first - last) // step), 0).max()
        frame.turns = 1 if leaves else turns(c, op, int(most))
        if again_apart(c, frame):
            c.frames.append(frame)
            return Signal.PUSHED
        return None

    return run


def _alike_warps(c: Cohort, first: Value, last: Value) -> Array | None:
    """Return a number for each warp, alike where its bounds are, and one for those whose lanes
    differ; None where all are alike.
    """
    active = c.active()
    lead = active.argmax(-1)[..., None]
    numbers = np.zeros(c.span.shape[:2], np.int64)
    mixed = np.zeros(c.span.shape[:2], np.bool_)
    for bound in (first, last):
        full = np.broadcast_to(np.asarray(bound, np.int64), c.span.shape)
        own = np.take_along_axis(full, lead, axis=-1)
        mixed |= ((full != own) & active).any(-1)
        _, ids = np.unique(own[..., 0], return_inverse=True)
        numbers = numbers * (ids.max() + 1) + ids.reshape(numbers.shape)
    numbers[mixed] = -1
    return numbers if (numbers != numbers.flat[0]).any() else None


@handles(ops.While)
def while_(program: Program, op: ops.While) -> Run:
    """Run test and body until the condition fails."""
    test, body, cond = program.block(op.test), program.block(op.body), program.condition(op.cond)
    waits = program.spins(op)
    masks = op.scope == "thread" and not waits and not program.blocks_in(op.test, op.body)
    each = 1 if waits else STEPS

    def again(c: Cohort, frame: Frame) -> bool | list[Cohort]:
        if frame.kind == "while":
            frame.kind, frame.steps, frame.pc = "test", test, 0
            frame.count += 1
            turns(c, op, frame.count)
            c.spun = frame.count % each == 0
            return True
        value = cond(c)
        some, every = as_lanes(value, c.mask)
        if not some:
            return False
        if not every:
            if not masks:
                pattern = by_warp(c, value)
                if (pattern != pattern.flat[0]).any():
                    return split(c, pattern)
            c.mask = lanes_where(c, value)
        frame.kind, frame.steps, frame.pc = "while", body, 0
        return True

    def run(c: Cohort) -> Signal:
        c.frames.append(Frame(test, "test", c.mask, again=again))
        return Signal.PUSHED

    return run


@handles(ops.Leave)
def leave(program: Program, op: ops.Leave) -> Run:
    """Leave the innermost loop, or the kernel, where the condition holds."""
    cond = program.condition(op.cond)

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        value = cond(c)
        some, every = as_lanes(value, c.mask)
        if not some:
            return None
        if not every and op.scope != "thread":
            pattern = by_warp(c, value)
            if (pattern != pattern.flat[0]).any():
                return split(c, pattern)
        depth = len(c.frames)
        while op.target == "loop" and c.frames[depth - 1].again is None:
            depth -= 1
        if every and _is_whole(c, depth, op.target):
            if op.target == "kernel":
                _return(c, c.active())
            return _jump(c, depth, op.target)
        if not isinstance(value, np.ndarray):
            value = np.full((1, 1, 1), value)
        gone = lanes_where(c, value)
        for frame in c.frames[depth if op.target == "loop" else 0 :]:
            saved = np.ones((1, 1, 1), np.bool_) if frame.saved is None else frame.saved
            frame.saved = saved & ~gone
        now = np.ones((1, 1, 1), np.bool_) if c.mask is None else c.mask
        c.mask = now & ~gone
        if op.target == "kernel":
            _return(c, gone)
        return None

    return run


def _return(c: Cohort, gone: Array) -> None:
    """Let lanes return from the kernel: barriers wait for them no more."""
    stays = running(c) & c.batch.agents.exist[c.span.W] & ~gone
    if c.divided:
        c.batch.alive[int(c.span.B[0]), int(c.span.W[0])] = stays
    c.batch.barriers.leave(c.span, np.broadcast_to(stays, c.span.shape).any(-1))


def _is_whole(c: Cohort, depth: int, target: str) -> bool:
    """Return whether the lanes that run are all that are inside of the loop, or of the kernel."""
    frames = c.frames[depth if target == "loop" else 1 :]
    return all(f.saved is c.mask and f.pending is None for f in frames)


def _jump(c: Cohort, depth: int, target: str) -> Signal:
    if target == "kernel":
        return Signal.ENDED
    frame = c.frames[depth - 1]
    del c.frames[depth:]
    c.mask = frame.saved
    c.frames.pop()
    c.frames[-1].pc += 1
    return Signal.JUMPED


@handles(ops.Let)
def let(program: Program, op: ops.Let) -> Run:
    """Name an integer."""
    var = op.var
    if op.kind == "reg":
        assert not isinstance(op.operands[0], int | str)
        read = program.reader(op.operands[0], op)  # type: ignore[arg-type]
        require = _promise(program, op)

        def from_register(c: Cohort) -> None:
            held = read(c)[..., 0]
            if held.dtype == np.uint64:
                _require_signed(op, c, held)
            c.env[var] = value = uniform(held.astype(np.int64), c.mask)
            require(c, value)

        return from_register
    if op.kind == "var":
        name = str(op.operands[0])
        require = _promise(program, op)

        def present(c: Cohort) -> None:
            c.env[var] = value = c.env[_slot(name)]
            require(c, value)

        return present
    if op.kind == "where":
        return _chosen(program, op)
    if op.kind == "table":
        return _entry(program, op)
    a, b = (program.scalar(operand) for operand in op.operands)
    compute = BITWISE[op.kind]

    def computed(c: Cohort) -> None:
        c.env[var] = compute(a(c), b(c))

    return computed


def _chosen(program: Program, op: ops.Let) -> Run:
    """Name one of two integers, by a condition."""
    cond = program.condition(op.operands[0])
    a, b = (program.scalar(operand) for operand in op.operands[1:])

    def chosen(c: Cohort) -> None:
        test, x, y = cond(c), a(c), b(c)
        c.env[op.var] = np.where(test, x, y) if isinstance(test, np.ndarray) else x if test else y

    return chosen


def _entry(program: Program, op: ops.Let) -> Run:
    """Name an entry of a table of the launch; refuse an index outside of it."""
    number, place = op.operands
    row = program.plan.launch.tables[number]  # type: ignore[index]
    entries, at = [program.scalar(x) for x in row], program.scalar(place)

    def entry(c: Cohort) -> None:
        index = at(c)
        outside = np.asarray((index < 0) | (index >= len(entries)))
        bad = c.active() & outside if outside.any() else outside
        if bad.any():
            where = first(bad, c.span)
            found = int(np.broadcast_to(index, bad.shape)[where])
            raise c.fault("emulate-table", op, where, index=found, count=len(entries))
        kept = c.span.cache.get(("table", number))
        if kept is None:
            values = [int(x(c)) for x in entries]
            kept = c.span.cache["table", number] = np.array(values, np.int64)
        found = kept[np.clip(index, 0, len(entries) - 1)]
        c.env[op.var] = found if isinstance(index, np.ndarray) else int(found)

    return entry


def _require_signed(op: ops.Let, c: Cohort, held: Array) -> None:
    """Refuse elements of u64 that are no integers of a kernel, which are signed."""
    bad = c.active() & (held > MOST)
    if bad.any():
        where = first(bad, c.span)
        found = int(np.broadcast_to(held, bad.shape)[where])
        raise c.fault("emulate-unsigned", op, where, value=found)


def _promise(program: Program, op: ops.Let) -> Callable[[Cohort, Value], None]:
    """Return a check of the bounds that the kernel told of an integer."""
    symbol = program.symbols.get(op.var)
    if "promises" not in program.checks or symbol is None:
        return lambda c, value: None
    unit, reg = symbol.multiple_of, op.operands[0]
    ends = symbol.lo, symbol.hi
    known: list[tuple[int | None, int | None]] = [(None, None)]  # what is true of all values
    if isinstance(reg, Reg) and reg.dtype.bits <= 32:
        known.append((int(reg.dtype.min), int(reg.dtype.max)))
    if unit == 1 and ends in known:
        return lambda c, value: None
    low = -math.inf if symbol.lo is None else symbol.lo * unit
    high = math.inf if symbol.hi is None else symbol.hi * unit
    what = f"a multiple of {unit}" if unit > 1 else "an integer"
    what += f" from {low} to {high}" if (symbol.lo, symbol.hi) != (None, None) else ""

    def require(c: Cohort, value: Value) -> None:
        held = np.asarray(value)
        outside = (held < low) | (held > high) | (held % unit != 0)
        bad = c.active() & outside if outside.any() else outside
        if bad.any():
            where = first(bad, c.span)
            found = int(np.broadcast_to(held, bad.shape)[where])
            ends = {"what": what, "low": low, "high": high}
            raise c.fault("emulate-promise", op, where, name=op.var, value=found, **ends)

    return require


@handles(ops.Promise)
def promise(program: Program, op: ops.Promise) -> Run:
    """Check that a condition is true, or that the threads of a scope have the same value."""
    if "promises" not in program.checks:
        return lambda c: None
    if op.scope:
        value = program.scalar(op.value)
        return lambda c: c.batch.promises.check(c.span, c.active(), op, value(c))
    cond = program.condition(op.value)

    def run(c: Cohort) -> None:
        value = cond(c)
        if as_lanes(value, c.mask)[1]:
            return
        bad = lanes_left(c, np.full((1, 1, 1), value) if np.ndim(value) == 0 else value)
        where = first(np.broadcast_to(bad, c.span.shape), c.span)
        raise c.fault("emulate-assume", op, where, cond=str(op.value))

    return run


def _slot(name: str) -> str:
    return f"var {name}"


@handles(ops.Set)
def set_(program: Program, op: ops.Set) -> Run:
    """Give a variable a value, for the lanes that take part."""
    value, slot = program.scalar(op.value), _slot(op.var)

    def run(c: Cohort) -> None:
        new = value(c)
        if c.mask is not None:
            old = c.env.get(slot, 0)
            if isinstance(new, np.ndarray) or isinstance(old, np.ndarray) or new != old:
                new = np.where(c.mask, new, old)
        c.env[slot] = new

    return run
