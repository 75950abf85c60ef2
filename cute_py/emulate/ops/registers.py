"""Registers: fills, functions of elements, conversions, reductions, shuffles and votes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as combined
from typing import Any

import numpy as np

from cute_py.dtypes.table import b1, from_numpy
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.cohorts import Cohort, Run
from cute_py.emulate.faults import Faults, first
from cute_py.emulate.numerics import converted, function
from cute_py.emulate.ops.order import require_lanes
from cute_py.emulate.program import Program, handles
from cute_py.emulate.spans import LANES, Array
from cute_py.plan import ops
from cute_py.plan.functions import FUNCTIONS


@handles(ops.Fill)
def fill(program: Program, op: ops.Fill) -> Run:
    """Give each element a number; undefined ones keep what they have, and may be read."""
    dst = program.view(op.dst)
    if op.value is None:
        return lambda c: dst.put(c, dst.get(c).copy())
    value = converted(np.asarray(op.value), _own(op.value), op.dst.dtype)
    held = np.asarray(value, numpy_type(op.dst.dtype)).reshape(1, 1, 1, 1)
    return lambda c: dst.put(c, held)


def _own(value: Any) -> Any:
    return from_numpy(np.asarray(value).dtype)


@handles(ops.Map)
def map_(program: Program, op: ops.Map) -> Run:
    """Compute element by element."""
    if op.fn == "where":
        sources = _selected(program, op)
    else:
        sources = [program.operand(s, op.dtype, op, k) for k, s in enumerate(op.sources)]
    compute, dst = function(op.fn, op.dtype), program.view(op.dst)
    assert (
        FUNCTIONS[op.fn].compares or op.dst.dtype is op.dtype or op.dst.dtype.bits == op.dtype.bits
    )
    if len(sources) == 1:
        (a,) = sources
        return lambda c: dst.put(c, compute(a(c)))
    if len(sources) == 2:
        a, b = sources
        return lambda c: dst.put(c, compute(a(c), b(c)))
    return lambda c: dst.put(c, compute(*[source(c) for source in sources]))


def _selected(program: Program, op: ops.Map) -> list[Callable[[Cohort], Array]]:
    """Return the operands of `where`; those that it does not select need not fit the type."""
    flag, a, b = op.sources
    test = program.operand(flag, b1, op)

    def not_test(c: Cohort) -> Array:
        return np.logical_not(test(c))

    chosen = ((1, a, test), (2, b, not_test))
    return [test, *[program.operand(x, op.dtype, op, k, of) for k, x, of in chosen]]


@handles(ops.Convert)
def convert(program: Program, op: ops.Convert) -> Run:
    """Convert element by element."""
    read, dst = program.reader(op.src, op), program.view(op.dst)
    source, target, how = op.src.dtype, op.dst.dtype, (op.rounding, op.saturate)
    return lambda c: dst.put(c, converted(read(c), source, target, *how))


@handles(ops.Reduce)
def reduce(program: Program, op: ops.Reduce) -> Run:
    """Combine runs of elements, from left to right."""
    read, dst = program.reader(op.src, op), program.view(op.dst)
    combine, n = function(op.fn, op.src.dtype), len(op.src) // len(op.dst)

    def run(c: Cohort) -> None:
        values = read(c)
        values = values.reshape(*values.shape[:3], -1, n)
        result = values[..., 0]
        for k in range(1, n):
            result = combine(result, values[..., k])
        dst.put(c, result)

    return run


def source_lanes(program: Program, op: ops.Shuffle) -> Callable[[Cohort], Array]:
    """Compile the lane that each lane takes elements of: [lane], or [block, warp, lane]."""
    lane = program.scalar(op.lane)
    own = np.arange(LANES)
    start = own // op.width * op.width
    last = start + op.width - 1

    def source(c: Cohort) -> Any:
        by = lane(c)
        if op.kind == "idx":
            return start + by % op.width
        if op.kind == "bfly":
            other = own ^ by
            return np.where(other > last, own, other)
        other = own - by if op.kind == "up" else own + by
        return np.where((other < start) | (other > last), own, other)

    return source


@handles(ops.Shuffle)
def shuffle(program: Program, op: ops.Shuffle) -> Run:
    """Take elements of another lane of the warp."""
    read, dst, source = program.reader(op.src, op), program.view(op.dst), source_lanes(program, op)

    def run(c: Cohort) -> None:
        values, lanes = read(c), source(c)
        _require_active(program, op, c, lanes)
        require_lanes(program, op, c)
        if lanes.ndim == 1:
            dst.put(c, values[:, :, lanes])
            return
        index = np.broadcast_to(lanes, c.span.shape)[..., None]
        dst.put(c, np.take_along_axis(values, index, axis=2))

    return run


def _require_active(program: Program, op: ops.Op, c: Cohort, lanes: Array) -> None:
    """Refuse to read from a lane that takes no part."""
    if c.mask is None or "convergence" not in program.checks:
        return
    active = np.broadcast_to(c.mask, c.span.shape)
    index = np.broadcast_to(lanes, c.span.shape)
    bad = active & ~np.take_along_axis(active, index, axis=2)
    if bad.any():
        where = first(bad, c.span)
        source = int(index[where])
        raise c.fault("emulate-shuffle", op, where, source=source)


@handles(ops.Vote)
def vote(program: Program, op: ops.Vote) -> Run:
    """Ask the lanes of the warp that take part."""
    read, dst = program.reader(op.src, op), program.view(op.dst)
    place = np.uint32(1) << np.arange(LANES, dtype=np.uint32)[:, None]

    def run(c: Cohort) -> None:
        require_lanes(program, op, c)
        values = read(c).astype(np.bool_)
        if c.mask is not None:
            lanes = c.mask[..., None]
            values = values | ~lanes if op.kind == "all" else values & lanes
        if op.kind == "ballot":
            found = (values * place).sum(2, keepdims=True, dtype=np.uint32)
            dst.put(c, found.astype(numpy_type(op.dst.dtype)))
        else:
            test = np.all if op.kind == "all" else np.any
            dst.put(c, test(values, axis=2, keepdims=True))

    return run


@handles(ops.Redux)
def redux(program: Program, op: ops.Redux) -> Run:
    """Combine the lanes of the warp that have not ended: all come, as the instruction waits."""
    read, dst, kind = program.reader(op.src, op), program.view(op.dst), op.src.dtype
    combine = function(op.fn, kind)
    number = {"and": -1, "min": kind.max, "max": kind.min}.get(op.fn, 0)
    neutral = np.asarray(int(number)).astype(numpy_type(kind))

    def run(c: Cohort) -> None:
        require_lanes(program, op, c)
        values = read(c)
        if c.mask is not None:
            values = np.where(c.mask[..., None], values, neutral)
        dst.put(c, combined(combine, np.moveaxis(values, 2, 0))[:, :, None])

    return run


@handles(ops.InlinePtx)
def inline_ptx(program: Program, op: ops.InlinePtx) -> Run:
    """Run the function that the kernel gives, on rows of 32 lanes."""
    call, name = op.emulation.function, op.emulation.name
    if call is None:
        raise Faults(program.plan).fault("emulate-inline", op, name=name)
    readers = [program.reader(x, op) for x in op.inputs]
    views = [program.view(x) for x in op.outputs]
    count, together = len(op.outputs[0]), op.group == "warp"

    def run(c: Cohort) -> None:
        if together:
            require_lanes(program, op, c)
        whole = (*c.span.shape, count)
        given = [np.moveaxis(np.broadcast_to(read(c), whole), 3, 2) for read in readers]
        shape = (c.span.shape[0] * c.span.shape[1] * count, LANES)
        found = call(*[x.reshape(shape).copy() for x in given])
        results = found if isinstance(found, tuple) else (found,)
        wanted = [(numpy_type(x.dtype), shape) for x in op.outputs]
        made = [(getattr(x, "dtype", type(x).__name__), np.shape(x)) for x in results]
        if made != wanted:
            texts = [", ".join(f"{kind} of shape {n}" for kind, n in x) for x in (made, wanted)]
            raise c.fault(
                "emulate-inline-result", op, (0, 0), name=name, given=texts[0], wanted=texts[1]
            )
        for view, values in zip(views, results, strict=True):
            rows = values.reshape(*c.span.shape[:2], count, LANES)
            view.put(c, np.moveaxis(rows, 2, 3))

    return run
