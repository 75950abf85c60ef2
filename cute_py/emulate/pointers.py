"""Accesses through pointers: addresses are resolved to arrays that the run was given.

The address of a pointer chooses the array; all accesses through it must be inside of that array.
An op whose threads have pointers into several arrays runs once for each of them, under a mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.cohorts import split
from cute_py.emulate.faults import first
from cute_py.emulate.scalars import uniform
from cute_py.plan import ops
from cute_py.plan.walk import accesses

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.emulate.cohorts import Cohort, Run, Signal
    from cute_py.emulate.program import Program
    from cute_py.emulate.spans import Value
    from cute_py.emulate.storages import Global

LEADS = 16  # the first byte of an element counts from the array's address modulo its size
NOWHERE = -1


class Reachable:
    """The arrays that pointers of a run may point into.

    A slot is the number of an array times LEADS, plus where the pointer's elements begin in it
    (bytes, less than an element).
    """

    def __init__(self, arrays: Iterable[Global]) -> None:
        self.arrays = list(arrays)
        self.known: dict[tuple[int, int], int] = {}

    def slot(self, address: int, size: int) -> int:
        """Return the slot of an address, for elements of `size` bytes; NOWHERE if it is in none."""
        found = self.known.get((address, size))
        if found is None:
            held = [
                (array.address == address, array.nbytes - (address - array.address), -k)
                for k, array in enumerate(self.arrays)
                if array.address <= address < array.address + array.nbytes
            ]
            found = NOWHERE
            if held:  # of several, the one that begins there, and of these the longest
                k = -max(held)[2]
                found = k * LEADS + (address - self.arrays[k].address) % size
            self.known[address, size] = found
        return found

    def nearest(self, address: int) -> str:
        """Return the array next to an address, in words."""
        if not self.arrays:
            return "no array"

        def distance(array: Global) -> int:
            end = array.address + array.nbytes
            return max(array.address - address, address - end + 1, 0)

        near = min(self.arrays, key=distance)
        return f"{near.name}, from {near.address:#x} to {near.address + near.nbytes:#x}"


def slot_of(name: str) -> str:
    """Return the name under which a cohort keeps the slots of a pointer."""
    return f"array of {name}"


def define(program: Program, op: ops.MakePtr) -> Run:
    """Keep the address of a pointer, and the slots of its threads."""
    address, size = program.scalar(op.address), max(1, op.dtype.bits // 8)

    def run(c: Cohort) -> None:
        value = address(c)
        loose = np.asarray(value) % op.alignment != 0
        if "promises" in program.checks and (loose & c.active()).any():
            where = first(loose & c.active(), c.span)
            found = int(np.broadcast_to(value, c.span.shape)[where])
            facts = {"address": f"{found:#x}", "alignment": op.alignment}
            raise c.fault("emulate-pointer-alignment", op, where, **facts)
        reachable = c.batch.reachable
        slots: Value
        if isinstance(value, np.ndarray):
            each, back = np.unique(value, return_inverse=True)
            known = np.array([reachable.slot(int(x), size) for x in each], np.int64)
            slots = uniform(known[back].reshape(value.shape), c.mask)
        else:
            slots = reachable.slot(value, size)
        c.env[op.name], c.env[slot_of(op.name)] = value, slots

    return run


def by_array(program: Program, op: ops.Op, run: Run) -> Run:
    """Return an op that runs for one array of each of its pointers at a time."""
    names = [slot_of(x.storage) for x in accesses(op) if x.storage in program.pointers]
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
