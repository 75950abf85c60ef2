"""Register ops: Fill, Map, Convert, Reduce, Shuffle, Vote; and Print and Assert."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from cute_py.dtypes.table import b1, f32
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.build import Build, Run, handles
from cute_py.emulate.faults import first
from cute_py.emulate.numerics import COMPARISONS, converted, function, widened
from cute_py.emulate.scalars import as_lanes
from cute_py.emulate.spans import LANES, Array, Cohort
from cute_py.plan import ops
from cute_py.plan.conditions import Reg


@handles(ops.Fill)
def fill(build: Build, op: ops.Fill) -> Run:
    """Give each element a number; undefined ones keep what they have, and may be read."""
    dst = build.view(op.dst)
    if op.value is None:
        return lambda c: dst.put(c, dst.get(c).copy())
    value = converted(np.asarray(op.value), _own(op.value), op.dst.dtype)
    held = np.asarray(value, numpy_type(op.dst.dtype)).reshape(1, 1, 1, 1)
    return lambda c: dst.put(c, held)


def _own(value: Any) -> Any:  # noqa: ANN401
    from cute_py.dtypes.table import from_numpy

    return from_numpy(np.asarray(value).dtype)


@handles(ops.Map)
def map_(build: Build, op: ops.Map) -> Run:
    """Compute element by element."""
    types = [op.dtype] * len(op.sources)
    if op.fn == "where":
        types[0] = b1
    sources = [build.operand(s, t, op) for s, t in zip(op.sources, types, strict=True)]
    compute, dst = function(op.fn, op.dtype), build.view(op.dst)
    assert op.fn in COMPARISONS or op.dst.dtype is op.dtype or op.dst.dtype.bits == op.dtype.bits
    if len(sources) == 1:
        (a,) = sources
        return lambda c: dst.put(c, compute(a(c)))
    if len(sources) == 2:
        a, b = sources
        return lambda c: dst.put(c, compute(a(c), b(c)))
    return lambda c: dst.put(c, compute(*[source(c) for source in sources]))


@handles(ops.Convert)
def convert(build: Build, op: ops.Convert) -> Run:
    """Convert element by element."""
    read, dst = build.reader(op.src, op), build.view(op.dst)
    source, target, how = op.src.dtype, op.dst.dtype, (op.rounding, op.saturate)
    return lambda c: dst.put(c, converted(read(c), source, target, *how))


@handles(ops.Reduce)
def reduce(build: Build, op: ops.Reduce) -> Run:
    """Combine runs of elements, from left to right."""
    read, dst = build.reader(op.src, op), build.view(op.dst)
    combine, n = function(op.fn, op.src.dtype), len(op.src) // len(op.dst)

    def run(c: Cohort) -> None:
        values = read(c)
        values = values.reshape(*values.shape[:3], -1, n)
        result = values[..., 0]
        for k in range(1, n):
            result = combine(result, values[..., k])
        dst.put(c, result)

    return run


@handles(ops.Shuffle)
def shuffle(build: Build, op: ops.Shuffle) -> Run:
    """Take elements of another lane of the warp."""
    read, dst, lane = build.reader(op.src, op), build.view(op.dst), build.scalar(op.lane)
    own = np.arange(LANES)
    start = own // op.width * op.width
    last = start + op.width - 1

    def source(by: Any) -> Any:  # noqa: ANN401
        if op.kind == "idx":
            return start + by % op.width
        if op.kind == "bfly":
            other = own ^ by
            return np.where(other > last, own, other)
        other = own - by if op.kind == "up" else own + by
        return np.where((other < start) | (other > last), own, other)

    def run(c: Cohort) -> None:
        values, lanes = read(c), source(lane(c))
        _require_active(build, op, c, lanes)
        if lanes.ndim == 1:
            dst.put(c, values[:, :, lanes])
            return
        index = np.broadcast_to(lanes, c.span.shape)[..., None]
        dst.put(c, np.take_along_axis(values, index, axis=2))

    return run


def _require_active(build: Build, op: ops.Op, c: Cohort, lanes: Array) -> None:
    """Refuse to read from a lane that takes no part."""
    if c.mask is None or not build.checks:
        return
    active = np.broadcast_to(c.mask, c.span.shape)
    index = np.broadcast_to(lanes, c.span.shape)
    bad = active & ~np.take_along_axis(active, index, axis=2)
    if bad.any():
        where = first(bad, c)
        source = int(index[where])
        raise build.faults.at("emulate-shuffle", op, c, where, source=source)


@handles(ops.Vote)
def vote(build: Build, op: ops.Vote) -> Run:
    """Ask the lanes of the warp that take part."""
    read, dst = build.reader(op.src, op), build.view(op.dst)
    place = np.uint32(1) << np.arange(LANES, dtype=np.uint32)[:, None]

    def run(c: Cohort) -> None:
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


# -- debug


@handles(ops.Print)
def print_(build: Build, op: ops.Print) -> Run:
    """Print a line for each thread."""
    readers = [
        build.reader(value, op) if isinstance(value, Reg) else _spread(build, value)
        for value in op.values
    ]
    types = [value.dtype if isinstance(value, Reg) else None for value in op.values]

    def run(c: Cohort) -> None:
        shown = []
        for read, dtype in zip(readers, types, strict=True):
            found = read(c)
            found = widened(found, dtype) if dtype is not None and dtype is not f32 else found
            shown.append(np.broadcast_to(found, (*c.span.shape, found.shape[-1])))
        for where in np.argwhere(c.active()):
            values = [each[tuple(where)].tolist() for each in shown]
            plain = [value[0] if len(value) == 1 else value for value in values]
            sys.stdout.write(op.text.format(*plain) + "\n")

    return run


def _spread(build: Build, value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, bool | float):
        return lambda c: np.full((1, 1, 1, 1), value)
    evaluate = build.scalar(value)

    def read(c: Cohort) -> Array:
        found = np.asarray(evaluate(c))
        return found.reshape((1,) * (3 - found.ndim) + found.shape)[..., None]

    return read


@handles(ops.Assert)
def assert_(build: Build, op: ops.Assert) -> Run:
    """Stop unless the condition holds."""
    cond = build.condition(op.cond)

    def run(c: Cohort) -> None:
        value = cond(c)
        _, every = as_lanes(value, c.mask)
        if not every and build.checks:
            bad = c.active() & ~np.broadcast_to(np.asarray(value), c.span.shape)
            raise build.faults.at(
                "emulate-assert", op, c, first(bad, c), text=op.text, cond=op.cond
            )

    return run
