"""Accesses through pointers: the address chooses one of the arrays that the run was given.

All accesses through a pointer must be inside that array. An op whose threads have pointers into
several arrays runs once for each of them, under a mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.arguments import slot_of
from cute_py.emulate.cohorts import split
from cute_py.emulate.faults import first
from cute_py.emulate.scalars import uniform
from cute_py.plan import ops
from cute_py.plan.walk import accesses

if TYPE_CHECKING:
    from collections.abc import Collection

    from cute_py.emulate.cohorts import Cohort, Run, Signal
    from cute_py.emulate.scalars import Evaluated
    from cute_py.emulate.spans import Value


def define(op: ops.MakePtr, address: Evaluated, promised: bool) -> Run:
    """Keep the address of a pointer, and the slots of its threads; `promised`: check what the
    kernel promises of it.
    """
    size = max(1, op.dtype.bits // 8)

    def run(c: Cohort) -> None:
        value = address(c)
        loose = np.asarray(value) % op.alignment != 0
        if promised and (loose & c.active()).any():
            where = first(loose & c.active(), c.span)
            found = int(np.broadcast_to(value, c.span.shape)[where])
            facts = {"address": f"{found:#x}", "alignment": op.alignment}
            raise c.fault("emulate-pointer-alignment", op, where, **facts)
        reachable = c.batch.given.reachable
        slots: Value
        if isinstance(value, np.ndarray):
            each, back = np.unique(value, return_inverse=True)
            known = np.array([reachable.slot(int(x), size) for x in each], np.int64)
            slots = uniform(known[back].reshape(value.shape), c.mask)
        else:
            slots = reachable.slot(value, size)
        c.env[op.name], c.env[slot_of(op.name)] = value, slots

    return run


def by_array(pointers: Collection[str], op: ops.Op, run: Run) -> Run:
    """Return an op that runs for one array of each of its pointers at a time."""
    names = [slot_of(x.storage) for x in accesses(op) if x.storage in pointers]
    names = list(dict.fromkeys(names))
    if not names:
        return run

    def each(c: Cohort, left: list[str]) -> Signal | list[Cohort] | None:
        apart = next((n for n in left if isinstance(c.env[n], np.ndarray)), None)
        if apart is None:
            return run(c)
        slots, mask, active = c.env[apart], c.mask, c.active()
        if op.waits:  # such an op has a cohort for each array
            whole = np.broadcast_to(slots, c.span.shape)
            lead = np.take_along_axis(whole, active.argmax(-1)[..., None], axis=-1)
            if (active & (slots != lead)).any():
                raise c.batch.faults.fault("emulate-op", op, name=f"{op.word} of several arrays")
            c.env[apart] = lead
            pattern = lead[..., 0]
            if (pattern != pattern.flat[0]).any():
                return split(c, pattern)
            c.env[apart] = int(pattern.flat[0])
            return run(c)
        for slot in np.unique(np.broadcast_to(slots, c.span.shape)[active]).tolist():
            c.env[apart], c.mask = slot, active & (slots == slot)
            each(c, left)
        c.env[apart], c.mask = slots, mask
        return None

    return lambda c: each(c, names)
