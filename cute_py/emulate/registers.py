"""`View`: a register operand, compiled: what is read and written of its storage, checked."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.bits import from_bits, numpy_type, to_bits
from cute_py.emulate.clocks import EPOCH
from cute_py.emulate.faults import first

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.dtypes.table import Dtype
    from cute_py.emulate.cohorts import Cohort
    from cute_py.emulate.resources import Resources
    from cute_py.emulate.spans import Array
    from cute_py.emulate.storages import RegisterFile, Storage
    from cute_py.plan.conditions import Reg
    from cute_py.plan.ops import Op


class View:
    """A `Reg`, compiled: what is read and written of its storage."""

    def __init__(self, storage: Storage, reg: Reg) -> None:
        self.storage, self.reg, self.dtype, self.own = storage, reg, reg.dtype, storage.dtype
        self.count = len(reg.index)
        own = storage.dtype
        self.packed = own is not reg.dtype and (own.bits < 8 or reg.dtype.bits < 8)
        self.held = numpy_type(own if self.packed else reg.dtype)
        each = reg.dtype.bits // storage.unit
        units: list[int] = []
        for i in reg.index:
            units += range(i * each, (i + 1) * each)
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

    def file(self, c: Cohort) -> RegisterFile:
        """Return the registers of the batch that a cohort belongs to."""
        return c.batch.registers[self.storage.name]

    def get(self, c: Cohort) -> Array:
        """Return the values [block, warp, lane, element]; perhaps a view of the registers."""
        if self.storage.watched:
            self.require_landed(c)
        return self.raw(c)

    def checked(self, c: Cohort, op: Op | None) -> Array:
        """Return the values that an op reads, all of them written."""
        self.require_written(c, op)
        return self.get(c)

    def raw(self, c: Cohort) -> Array:
        """Return the values, in flight or not."""
        span = c.span
        whole = self.file(c).as_(self.held)
        own: Array = (whole if span.full else whole[span.key])[..., self.index]
        if not self.packed:
            return own
        bits = to_bits(np.ascontiguousarray(own), self.own)
        return from_bits(bits[..., self.bit_index], self.dtype)

    def put(self, c: Cohort, values: Any, where: Array | None = None) -> None:
        """Write values (broadcast) for the lanes that take part, and of these where `where` holds.

        `where` is an array [block, warp, lane, element], broadcast.
        """
        if self.storage.watched:
            self.require_landed(c)
            self._soil(c)
        self.put_raw(c, values, where)

    def put_raw(self, c: Cohort, values: Any, where: Array | None = None) -> None:
        """Write values, in flight or not."""
        file = self.file(c)
        if file.open:
            self._define(c, file, where)
        if c.mask is not None:
            lanes = c.mask[..., None]
            where = lanes if where is None else where & lanes
        if self.packed:
            values, where = self._widened(c, values, where)
        span, whole = c.span, file.as_(self.held)
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

    def _widened(self, c: Cohort, values: Any, where: Array | None) -> tuple[Array, Array | None]:
        """Return values of the storage's own type with these bits put in."""
        span = c.span
        own = self.file(c).as_(self.held)[span.key][..., self.index]
        bits = to_bits(np.ascontiguousarray(own), self.own)
        shape = (*span.shape, self.count)
        values = np.ascontiguousarray(np.broadcast_to(values, shape)).astype(
            numpy_type(self.dtype), copy=False
        )
        new = to_bits(values, self.dtype)
        if where is not None:
            lanes = np.repeat(np.broadcast_to(where, shape), self.dtype.bits, axis=-1)
            new = np.where(lanes, new, bits[..., self.bit_index])
        bits[..., self.bit_index] = new
        return from_bits(bits, self.own), None

    # -- registers in flight

    def fly(self, c: Cohort, group: Array, role: Array) -> None:
        """Remember that groups [block, warp] of wgmma use the registers, each in a role [unit]."""
        file = self.file(c)
        for table, values in ((file.flight, group[..., None]), (file.role, role)):
            if table is not None:
                held = table[c.span.key]
                held[..., self.unit_index] = values
                table[c.span.key] = held

    def _soil(self, c: Cohort) -> None:
        dirty = self.file(c).dirty
        assert dirty is not None
        held = dirty[c.span.key]
        held[..., self.unit_index] = True
        dirty[c.span.key] = held

    def unfenced(self, c: Cohort) -> Array | None:
        """Return [block, warp]: where registers were written since the last fence of wgmma."""
        dirty = self.file(c).dirty
        if dirty is None:
            return None
        found = dirty[c.span.key][..., self.unit_index].any(-1)
        return found if found.any() else None

    def require_landed(self, c: Cohort, role: Array | None = None) -> None:
        """Refuse registers that wgmma still uses, in other roles than these [unit]."""
        file, batch, B = self.file(c), c.batch, c.span.B
        if file.flight is None or file.role is None:
            return
        held = file.flight[c.span.key][..., self.unit_index]  # the groups; 0 for none
        if role is not None:
            held = np.where(file.role[c.span.key][..., self.unit_index] == role, 0, held)
        held = held.max(-1)
        clocks = batch.clocks
        if not held.any() or clocks is None:
            return
        columns = clocks.column[batch.agents.wgmma + c.span.W // 4]
        flying = held > clocks.seen(B[:, None], clocks.of[c.span.W, 0], columns) >> EPOCH
        if flying.any():
            row, warp = (int(k) for k in np.argwhere(flying)[0])
            left = int(clocks.epoch[B[row], columns[warp]]) - 1 - int(held[row, warp])
            fix = (
                f"put cute.warpgroup_wait({left}) before this line"
                if left >= 0
                else "close the group with cute.warpgroup_commit(), "
                "then call cute.warpgroup_wait(0)"
            )
            raise batch.faults.at(
                "emulate-wgmma-pending", c.op, c.span, (row, warp), registers=self.reg, fix=fix
            )

    # -- which registers hold values

    def _define(self, c: Cohort, file: RegisterFile, where: Array | None) -> None:
        index = self.unit_index
        if file.known[index].all():
            return
        if c.span.full and c.mask is None and where is None:
            file.settle(index)
            return
        if file.flags is None:
            file.flags = np.zeros((*file.shape, self.storage.units), np.bool_)
        wrote: Any = True
        if where is not None and where.shape[-1] > 1:
            where = np.repeat(where, self.unit_count // self.count, axis=-1)
        for part in (c.mask if c.mask is None else c.mask[..., None], where):
            if part is not None:
                wrote = part if wrote is True else wrote & part
        flags = file.flags[c.span.key]
        flags[..., index] |= wrote
        if not c.span.slices:
            file.flags[c.span.key] = flags

    def require_written(self, c: Cohort, op: Op | None, lanes: Array | None = None) -> None:
        """Refuse registers that are read before they are written, by these lanes or by all."""
        file = self.file(c)
        missing = self._unwritten(c, file) if file.open else None
        if missing is not None and lanes is not None:
            missing = missing & lanes[..., None]
        if missing is not None and missing.any():
            where = first(missing, c.span)
            element = f"{self.reg.storage}[{self.reg.index[where[3]]}]"
            raise c.fault("emulate-register-unwritten", op or c.op, where[:3], element=element)

    def _unwritten(self, c: Cohort, file: RegisterFile) -> Array | None:
        """Return [block, warp, lane, element]: where an element is read before it is written."""
        index = self.unit_index
        if file.known[index].all():
            return None
        holds = np.broadcast_to(file.known[index], (*c.span.shape, self.unit_count))
        if file.flags is not None:
            holds = holds | file.flags[c.span.key][..., index]
        missing = ~holds
        if c.mask is not None:
            missing &= c.mask[..., None]
        if missing.any():
            return missing.reshape(*c.span.shape, self.count, -1).any(-1)
        if c.span.full and c.mask is None:
            file.settle(index)
        return None


def reader(resources: Resources, reg: Reg, op: Op | None = None) -> Callable[[Cohort], Array]:
    """Compile the read of a register operand, checked."""
    view = View(resources.registers[reg.storage], reg)
    if "registers" not in resources.checks:
        return view.get
    return lambda c: view.checked(c, op)


def flag(resources: Resources, reg: Reg) -> Callable[[Cohort], Array]:
    """Compile the look of a condition into a register of one element."""
    read = reader(resources, reg)
    return lambda c: read(c)[..., 0].astype(np.bool_)


def selection(index: tuple[int, ...]) -> Any:
    """Return a slice for evenly ascending numbers, else an array."""
    if len(index) == 1:
        return slice(index[0], index[0] + 1)
    steps = {b - a for a, b in pairwise(index)}
    if len(steps) == 1 and (step := steps.pop()) > 0:
        return slice(index[0], index[-1] + 1, step)
    return np.array(index)
