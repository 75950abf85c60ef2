"""Registers: one array [block, warp, lane, element] for each storage, and views for each `Reg`.

Where reads are checked, every piece of a storage is known to be written by all threads, or a flag
for each thread says whether it is. A storage that all threads have written costs nothing more.
"""

from __future__ import annotations

from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np

from cute_py.dtypes.table import Dtype
from cute_py.emulate.bits import from_bits, numpy_type, to_bits
from cute_py.emulate.spans import LANES, Array, Cohort
from cute_py.plan.conditions import Reg
from cute_py.plan.plan import Registers


class Storage:
    """The registers of one name, for all threads of a batch."""

    def __init__(self, row: Registers, unit: int, checks: bool) -> None:
        """Keep the row; `unit` divides the width of whatever the storage is read as (bits)."""
        self.name, self.dtype, self.count = row.name, row.dtype, row.count
        self.unit, self.checks = unit, checks
        self.units = -(-row.count * row.dtype.bits // unit)
        self.views: dict[Any, Array] = {}
        self.flags: Array | None = None
        self.open = 0
        self.known = np.zeros(self.units, np.bool_)
        self.flight: Array | None = None  # [block, warp, unit]: the group of wgmma that holds it
        self.dirty: Array | None = None  # [block, warp, unit]: written since the last wgmma fence
        self.watched = False
        self.refuse: Any = None  # called where registers in flight are touched

    def watch(self) -> None:
        """Keep track of registers in flight, where reads are checked."""
        self.watched = self.checks

    def bytes_per_thread(self) -> int:
        """Return what a thread needs (bytes), flags included."""
        return self._padded() * numpy_type(self.dtype).itemsize + self.units * self.checks

    def _padded(self) -> int:
        size = numpy_type(self.dtype).itemsize
        return -(-self.count * size // 16) * 16 // size

    def allocate(self, blocks: int, warps: int) -> None:
        """Make undefined registers for a batch."""
        self.shape = blocks, warps, LANES
        held = numpy_type(self.dtype)
        self.views = {held: np.zeros((*self.shape, self._padded()), held)}
        self.flags = None
        self.flight = np.zeros((blocks, warps, self.units), np.int32) if self.watched else None
        self.dirty = np.zeros((blocks, warps, self.units), np.bool_) if self.watched else None
        self.known[:] = False
        self.open = self.units if self.checks else 0

    def as_(self, held: np.dtype[Any]) -> Array:
        """Return all of the storage, read as another NumPy type of whole bytes."""
        found = self.views.get(held)
        if found is None:
            found = self.views[held] = self.views[numpy_type(self.dtype)].view(held)
        return found


class View:
    """A `Reg`, compiled: what is read and written of its storage."""

    def __init__(self, storage: Storage, reg: Reg) -> None:
        """Compile the index."""
        self.storage, self.reg, self.dtype = storage, reg, reg.dtype
        self.count = len(reg.index)
        own = storage.dtype
        self.packed = own is not reg.dtype and (own.bits < 8 or reg.dtype.bits < 8)
        self.held = numpy_type(own if self.packed else reg.dtype)
        first = reg.dtype.bits // storage.unit
        units: list[int] = []
        for i in reg.index:
            units += range(i * first, (i + 1) * first)
        self.unit_index = selection(tuple(units))
        self.unit_count = len(units)
        if self.packed:
            self._pack(own, reg)
        else:
            self.index = selection(reg.index)

    def _pack(self, own: Dtype, reg: Reg) -> None:
        """Prepare a view of other bits than the storage's elements have."""
        bits = [i * reg.dtype.bits + b for i in reg.index for b in range(reg.dtype.bits)]
        elements = sorted({bit // own.bits for bit in bits})
        place = {e: k for k, e in enumerate(elements)}
        self.index = selection(tuple(elements))
        self.bit_index = np.array([place[b // own.bits] * own.bits + b % own.bits for b in bits])

    def get(self, c: Cohort) -> Array:
        """Return the values [block, warp, lane, element]; perhaps a view of the registers."""
        if self.storage.flight is not None:
            self._require_landed(c)
        return self.raw(c)

    def raw(self, c: Cohort) -> Array:
        """Return the values, in flight or not."""
        span = c.span
        whole = self.storage.as_(self.held)
        own: Array = (whole if span.full else whole[span.key])[..., self.index]
        if not self.packed:
            return own
        return from_bits(
            to_bits(np.ascontiguousarray(own), self.storage.dtype)[..., self.bit_index], self.dtype
        )

    def put(self, c: Cohort, values: Any, where: Array | None = None) -> None:  # noqa: ANN401
        """Write values (broadcast) for the lanes that take part, and of these where `where` holds.

        `where` is an array [block, warp, lane, element], broadcast.
        """
        if self.storage.flight is not None:
            self._require_landed(c)
            self._soil(c)
        self.put_raw(c, values, where)

    def put_raw(self, c: Cohort, values: Any, where: Array | None = None) -> None:  # noqa: ANN401
        """Write values, in flight or not."""
        if self.storage.open:
            self._define(c, where)
        if c.mask is not None:
            lanes = c.mask[..., None]
            where = lanes if where is None else where & lanes
        if self.packed:
            values, where = self._widened(c, values, where)
        span, whole = c.span, self.storage.as_(self.held)
        if span.slices:
            own = whole if span.full else whole[span.key]
            if where is None:
                own[..., self.index] = values
            elif isinstance(self.index, slice):
                np.copyto(own[..., self.index], values, where=where)
            else:
                own[..., self.index] = np.where(where, values, own[..., self.index])
            return
        own = whole[span.key]
        if where is not None:
            values = np.where(where, values, own[..., self.index])
        own[..., self.index] = values
        whole[span.key] = own

    def _widened(self, c: Cohort, values: Any, where: Array | None) -> tuple[Array, Array | None]:  # noqa: ANN401
        """Return values of the storage's own type with these bits put in."""
        storage, span = self.storage, c.span
        own = storage.as_(self.held)[span.key][..., self.index]
        bits = to_bits(np.ascontiguousarray(own), storage.dtype)
        shape = (*span.shape, self.count)
        values = np.ascontiguousarray(np.broadcast_to(values, shape)).astype(
            numpy_type(self.dtype), copy=False
        )
        new = to_bits(values, self.dtype)
        if where is not None:
            lanes = np.repeat(np.broadcast_to(where, shape), self.dtype.bits, axis=-1)
            new = np.where(lanes, new, bits[..., self.bit_index])
        bits[..., self.bit_index] = new
        return from_bits(bits, storage.dtype), None

    # -- registers in flight

    def fly(self, c: Cohort, group: Array) -> None:
        """Remember that groups [block, warp] of wgmma use the registers."""
        flight = self.storage.flight
        if flight is not None:
            held = flight[c.span.key]
            held[..., self.unit_index] = group[..., None]
            flight[c.span.key] = held

    def _soil(self, c: Cohort) -> None:
        dirty = self.storage.dirty
        assert dirty is not None
        held = dirty[c.span.key]
        held[..., self.unit_index] = True
        dirty[c.span.key] = held

    def unfenced(self, c: Cohort) -> Array | None:
        """Return [block, warp]: where registers were written since the last fence of wgmma."""
        dirty = self.storage.dirty
        if dirty is None:
            return None
        found = dirty[c.span.key][..., self.unit_index].any(-1)
        return found if found.any() else None

    def _require_landed(self, c: Cohort) -> None:
        flight = self.storage.flight
        assert flight is not None
        held = flight[c.span.key][..., self.unit_index].max(-1)
        if held.any():
            self.storage.refuse(self, c, held)

    # -- which registers hold values

    def _define(self, c: Cohort, where: Array | None) -> None:
        storage, index = self.storage, self.unit_index
        if c.span.full and c.mask is None and where is None:
            known = storage.known[index]
            if not known.all():
                storage.known[index] = True
                storage.open = storage.units - int(np.count_nonzero(storage.known))
            return
        if storage.known[index].all():
            return
        if storage.flags is None:
            storage.flags = np.zeros((*storage.shape, storage.units), np.bool_)
        wrote: Any = True
        if where is not None and where.shape[-1] > 1:
            where = np.repeat(where, self.unit_count // self.count, axis=-1)
        for part in (c.mask if c.mask is None else c.mask[..., None], where):
            if part is not None:
                wrote = part if wrote is True else wrote & part
        flags = storage.flags[c.span.key]
        flags[..., index] |= wrote
        if not c.span.slices:
            storage.flags[c.span.key] = flags

    def unwritten(self, c: Cohort) -> Array | None:
        """Return [block, warp, lane, element]: where an element is read before it is written."""
        storage, index = self.storage, self.unit_index
        if not storage.open or storage.known[index].all():
            return None
        holds = np.broadcast_to(storage.known[index], (*c.span.shape, self.unit_count))
        if storage.flags is not None:
            holds = holds | storage.flags[c.span.key][..., index]
        missing = ~holds
        if c.mask is not None:
            missing &= c.mask[..., None]
        if missing.any():
            return missing.reshape(*c.span.shape, self.count, -1).any(-1)
        if c.span.full and c.mask is None:
            storage.known[index] = True
            storage.open = storage.units - int(np.count_nonzero(storage.known))
        return None


def selection(index: tuple[int, ...]) -> Any:  # noqa: ANN401
    """Return a slice for evenly ascending numbers, else an array."""
    if len(index) == 1:
        return slice(index[0], index[0] + 1)
    steps = {b - a for a, b in pairwise(index)}
    if len(steps) == 1 and (step := steps.pop()) > 0:
        return slice(index[0], index[-1] + 1, step)
    return np.array(index)


def storages(rows: tuple[Registers, ...], regs: list[Reg], checks: bool) -> dict[str, Storage]:
    """Return the storages by name; `regs` are all that a plan reads and writes."""
    units = {row.name: row.dtype.bits for row in rows}
    for reg in regs:
        units[reg.storage] = gcd(units[reg.storage], reg.dtype.bits)
    return {row.name: Storage(row, units[row.name], checks) for row in rows}
