"""Debugging: printing, and conditions that must hold."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from cute_py.dtypes.table import f32
from cute_py.emulate.cohorts import Cohort, Run
from cute_py.emulate.faults import first
from cute_py.emulate.numerics import widened
from cute_py.emulate.program import Program, handles
from cute_py.emulate.scalars import as_lanes
from cute_py.emulate.spans import Array
from cute_py.plan import ops
from cute_py.plan.conditions import Reg


@handles(ops.Print)
def print_(program: Program, op: ops.Print) -> Run:
    """Print a line for each thread."""
    readers = [
        program.reader(value, op) if isinstance(value, Reg) else _spread(program, value)
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


def _spread(program: Program, value: Any) -> Any:
    if isinstance(value, bool | float):
        return lambda c: np.full((1, 1, 1, 1), value)
    evaluate = program.scalar(value)

    def read(c: Cohort) -> Array:
        found = np.asarray(evaluate(c))
        return found.reshape((1,) * (3 - found.ndim) + found.shape)[..., None]

    return read


@handles(ops.Assert)
def assert_(program: Program, op: ops.Assert) -> Run:
    """Stop unless the condition holds."""
    cond = program.condition(op.cond)

    def run(c: Cohort) -> None:
        value = cond(c)
        _, every = as_lanes(value, c.mask)
        if not every and "promises" in program.checks:
            bad = c.active() & ~np.broadcast_to(np.asarray(value), c.span.shape)
            raise c.fault("emulate-assert", op, first(bad, c.span), text=op.text, cond=op.cond)

    return run
