"""Global and shared memory and registers as arrays, and the places where accesses touch them.

An array of the caller is seen through all of its strides as one run of elements from its first one,
so that reads and writes are the caller's. Shared memory holds the packed bytes of every block of a
batch. Of registers there is one array [block, warp, lane, element] for each storage; where reads
are checked, every piece of it is known to be written by all threads, or a flag for each thread says
whether it is. A storage that all threads have written costs nothing more.
"""

from __future__ import annotations

from copy import copy
from math import gcd, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.calls.arrays import (
    Table,
    TypedArray,
    extents_of,
    require_plain_values,
    unwrapped,
)
from cute_py.dtypes.conversion import strided
from cute_py.dtypes.table import u8
from cute_py.emulate.bits import item_type, numpy_type
from cute_py.emulate.spans import LANES, Array
from cute_py.errors import refusal
from cute_py.plan.params import admits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.dtypes.table import Dtype
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Reg, Scalar
    from cute_py.plan.ops import Op
    from cute_py.plan.params import Registers, Shared, TensorParam
    from cute_py.plan.plan import Plan

ALIGN = 128  # bytes


class Global:
    """An array that the kernel is given.

    Attributes:
        data: the elements as one run; of packed elements, the bytes.
        size: the number of elements in the run.
        bits: from one element to the next; nbytes: of the run.
        inside: which elements belong to the array; None if all do.
    """

    def __init__(self, param: TensorParam, arg: Any, plan: Plan) -> None:
        self.name, self.dtype, self.param = param.name, param.dtype, param
        array = self._array(arg, plan)
        require_plain_values(array, param.name)
        steps = zip(array.shape, array.strides, strict=True)
        if any(n > 1 and (s < 0 or s % array.itemsize) for n, s in steps):
            raise self._wrong(
                plan,
                f"strides of {array.strides} bytes",
                "strides of whole elements that are not negative",
            )
        self.shape, self.strides = extents_of(arg)
        self._require_modes(plan)
        steps = zip(self.shape, self.strides, strict=True)
        self.size = 1 + sum((n - 1) * s for n, s in steps) if array.size else 0
        self.itemsize = 1 if param.packed else array.itemsize
        self.bits = param.dtype.bits if param.packed else 8 * self.itemsize
        self.writable = array.flags.writeable
        self._take(array)

    def _take(self, array: Array) -> None:
        """Read and write the memory of an array."""
        count = -(-self.size * self.bits // (8 * array.itemsize))
        run: Any = strided(array, (count,), (array.itemsize,))
        self.data: Any = run.view(np.uint8 if self.param.packed else array.dtype)[: self.nbytes]
        self.address: int = array.__array_interface__["data"][0]
        self.inside = self._inside()
        self.items: dict[int, Array] = {}
        self.recasts: dict[Any, Global] = {}

    def over(self, array: Array | None) -> Global:
        """Return the same on the memory of another array, of the same type, shape, strides and
        flags, which are not read again; or on none.
        """
        found = copy(self)
        if array is None:
            found.data, found.inside, found.items, found.recasts = None, None, {}, {}
        else:
            found._take(array)
        return found

    def _array(self, arg: Any, plan: Plan) -> Array:
        """Return the NumPy array of an argument: elements, or words that pack them."""
        array, param, held = unwrapped(arg), self.param, numpy_type(self.param.dtype)
        given = arg.members if isinstance(arg, Table) else None
        if (given is None) != (param.members is None):
            raise self._wrong(plan, type(arg).__name__, f"what the plan was traced for: {param}")
        if param.members is not None and not param.members.admits(given):
            raise self._wrong(plan, f"arrays of {given}", f"arrays of {param.members}")
        if param.packed:
            packed = isinstance(arg, TypedArray) and arg.packed and arg.dtype is param.dtype
            if not packed or not isinstance(array, np.ndarray):
                given = f"{type(array).__name__} of {getattr(array, 'dtype', 'no dtype')}"
                wanted = f"NumPy words, as cute.typed(words, {str(param.dtype)!r}, packed=True)"
                raise self._wrong(plan, given, wanted)
        elif not isinstance(array, np.ndarray) or array.dtype != held:
            given = f"{type(array).__name__} of {getattr(array, 'dtype', 'no dtype')}"
            raise self._wrong(plan, given, f"a NumPy array of {held}")
        return array

    def _require_modes(self, plan: Plan) -> None:
        """Refuse another shape, or other strides, than the plan was traced for."""
        param, shape = self.param, self.shape
        if len(shape) != len(param.shape):
            raise self._wrong(plan, f"an array of shape {shape}", f"{len(param.shape)} modes")
        if not all(map(admits, param.shape, shape)):
            wanted = "shape " + _shown(param.shape)
            raise self._wrong(plan, f"an array of shape {shape}", wanted)
        modes = zip(shape, param.stride, self.strides, strict=True)
        if prod(shape) and not all(n == 1 or admits(traced, given) for n, traced, given in modes):
            wanted = "strides " + _shown(param.stride)
            raise self._wrong(plan, f"an array of strides {self.strides}", wanted)

    @property
    def nbytes(self) -> int:
        """The bytes of the run."""
        return -(-self.size * self.bits // 8)

    def as_(self, dtype: Dtype) -> Global:
        """Return the same bytes as elements of another type, those that are whole."""
        if dtype is self.dtype:
            return self
        found = self.recasts.get(dtype)
        if found is None:
            found = self.recasts[dtype] = self._recast(dtype)
        return found

    def from_byte(self, lead: int, dtype: Dtype) -> Global:
        """Return the bytes from number `lead` on as elements of a type."""
        if not lead and dtype is self.dtype:
            return self
        found = self.recasts.get((lead, dtype))
        if found is None:
            octets = self._recast(u8)
            octets.data, octets.size = octets.data[lead:], octets.size - lead
            octets.inside = None if octets.inside is None else octets.inside[lead:]
            octets.address += lead
            found = self.recasts[lead, dtype] = octets._recast(dtype)
        return found

    def _recast(self, dtype: Dtype) -> Global:
        packed = dtype.bits < 8
        held = np.dtype(np.uint8) if packed else numpy_type(dtype)
        found = copy(self)
        found.dtype, found.itemsize, found.items, found.recasts = dtype, held.itemsize, {}, {}
        found.bits = dtype.bits if packed else 8 * held.itemsize
        found.size = self.size * self.bits // found.bits
        run: Any = self.data.view(f"V{self.itemsize}")
        whole: Any = run.view(np.uint8)[: found.size * found.bits // 8]
        found.data = whole.view(f"V{held.itemsize}").view(held)
        if self.inside is not None:
            unit = gcd(self.bits, found.bits)
            each: Any = np.repeat(self.inside, self.bits // unit)
            each = each[: found.size * found.bits // unit].reshape(found.size, -1)
            found.inside = each.all(-1)
        return found

    def _wrong(self, plan: Plan, given: str, required: str) -> Exception:
        return refusal(
            "emulate-argument",
            operation=f"emulate({plan.name})",
            name=self.name,
            value=given,
            wanted=required,
        )

    def _inside(self) -> Array | None:
        """Return which elements of the run belong to the array; None if all do."""
        if self.size <= prod(self.shape):
            return None
        inside = np.zeros(self.size, np.bool_)
        np.lib.stride_tricks.as_strided(inside, self.shape, self.strides)[...] = True
        return inside

    def coordinate(self, offset: int) -> str:
        """Return the coordinate of an element in words; "" in an array of one mode."""
        found = self.position(offset)
        return f" ({','.join(map(str, found))})" if len(found) > 1 else ""

    def position(self, offset: int) -> list[int]:
        """Return the coordinate of an element of the run, an entry for each mode."""
        found = [0] * len(self.shape)
        for mode in sorted(range(len(found)), key=lambda mode: -self.strides[mode]):
            if self.shape[mode] > 1 and self.strides[mode]:
                found[mode], offset = divmod(offset, self.strides[mode])
        return found

    def wide(self, width: int) -> Array:
        """Return the run as items of `width` elements, those that are whole."""
        if width not in self.items:
            lead = self.lead(width)
            count = max(0, self.size - lead) // width
            whole = self.data[lead : lead + count * width]
            self.items[width] = whole.view(item_type(self.itemsize * width))
        return self.items[width]

    def lead(self, width: int) -> int:
        """Return the first element at which an aligned vector of `width` elements starts."""
        return -self.address % (self.itemsize * width) // self.itemsize


def _shown(extents: tuple[Scalar, ...]) -> str:
    """Return extents as text; of symbols, what their values are multiples of, and the least."""
    words = [str(x) if isinstance(x, int) else repr(x) for x in extents]
    return f"({','.join(words)})"


class SharedMemory:
    """The bytes of all shared storages, for every block of a batch: not yet written."""

    def __init__(self, blocks: int, stride: int) -> None:
        self.data: Array = np.zeros((blocks, stride), np.uint8)
        self.items: dict[int, Array] = {}

    def wide(self, nbytes: int) -> Array:
        """Return [block, item] with items of so many bytes."""
        if nbytes not in self.items:
            self.items[nbytes] = self.data.view(item_type(nbytes))
        return self.items[nbytes]


def shared_stride(rows: Iterable[Shared]) -> int:
    """Return the bytes from one block's shared memory to the next one's."""
    used = max((row.offset + row.bytes for row in rows), default=0)
    return -(-used // ALIGN) * ALIGN


class Storage:
    """A register storage: what every thread has, and how it is watched."""

    def __init__(self, row: Registers, unit: int, checks: bool) -> None:
        """Keep the row; `unit` divides the width of whatever the storage is read as (bits)."""
        self.name, self.dtype, self.count = row.name, row.dtype, row.count
        self.unit, self.checks = unit, checks
        self.units = -(-row.count * row.dtype.bits // unit)
        size = numpy_type(self.dtype).itemsize
        self.padded = -(-self.count * size // 16) * 16 // size
        self.bytes_per_thread = self.padded * size + self.units * checks  # flags included
        self.watched = False

    def watch(self) -> None:
        """Keep track of registers in flight, where reads are checked."""
        self.watched = self.checks


class RegisterFile:
    """The registers of one storage, for all threads of a batch: undefined."""

    def __init__(self, storage: Storage, blocks: int, warps: int) -> None:
        self.storage, self.shape = storage, (blocks, warps, LANES)
        held = numpy_type(storage.dtype)
        self.views: dict[Any, Array] = {held: np.zeros((*self.shape, storage.padded), held)}
        self.flags: Array | None = None
        self.known = np.zeros(storage.units, np.bool_)
        self.open = storage.units if storage.checks else 0
        self.flight: Array | None = None  # [block, warp, unit]: the group of wgmma that holds it
        self.role: Array | None = None  # [block, warp, unit]: what that wgmma holds it as
        self.dirty: Array | None = None  # [block, warp, unit]: not fenced, or written since
        if storage.watched:
            self.flight = np.zeros((blocks, warps, storage.units), np.int32)
            self.role = np.zeros((blocks, warps, storage.units), np.int32)
            self.dirty = np.ones((blocks, warps, storage.units), np.bool_)

    def as_(self, held: np.dtype[Any]) -> Array:
        """Return all of the storage, read as another NumPy type of whole bytes."""
        found = self.views.get(held)
        if found is None:
            found = self.views[held] = self.views[numpy_type(self.storage.dtype)].view(held)
        return found

    def settle(self, index: Any) -> None:
        """Know that all threads have written these units."""
        self.known[index] = True
        self.open = self.storage.units - int(np.count_nonzero(self.known))


def storages(rows: tuple[Registers, ...], regs: Iterable[Reg], checks: bool) -> dict[str, Storage]:
    """Return the storages by name; `regs` are all that a plan reads and writes."""
    units = {row.name: row.dtype.bits for row in rows}
    for reg in regs:
        units[reg.storage] = gcd(units[reg.storage], reg.dtype.bits)
    return {row.name: Storage(row, units[row.name], checks) for row in rows}


# -- where accesses touch them


def _shares(row: Shared, shared: dict[str, Shared]) -> bool:
    """Return whether a storage overlaps others, or has words as mbarriers do."""
    end = row.offset + row.bytes
    others = [x for x in shared.values() if x is not row]
    overlap = any(x.offset < end and row.offset < x.offset + x.bytes for x in others)
    return overlap or row.dtype.name == "u64"


class Vectors:
    """The vectors of an access of an op: what is known of them before any thread runs.

    Attributes:
        bits: of a vector; nbytes: at least 1.
        start: of the storage in the block's shared memory (bytes); 0 in global memory.
        shares: whether mbarriers may be in that memory: other storages are, or its own words.
        packed: whether elements of shared memory are narrower than a byte.
        bytewise: whether elements of global memory are packed in bytes.
        keeps: whether tables of addresses are kept.
    """

    def __init__(self, access: Access, op: Op, shared: dict[str, Shared]) -> None:
        self.access, self.op = access, op
        self.width, self.dtype, self.count = access.width, access.dtype, len(access.table)
        self.bits = access.width * access.dtype.bits
        self.nbytes = max(1, self.bits // 8)
        self.smem = access.space == "smem"
        row = shared[access.storage] if self.smem else None
        self.start = row.offset if row else 0
        self.shares = row is not None and _shares(row, shared)
        self.limit = row.count * row.dtype.bits // access.dtype.bits if row else 0
        self.packed = self.smem and access.dtype.bits < 8
        self.bytewise = access.packed
        self.keeps = True


class Place:
    """Where the threads of a cohort touch a storage.

    Attributes:
        offsets: [block, warp, lane, vector] of first elements; axes of 1 broadcast.
        guard: where the guards hold, broadcast to `offsets`; None: everywhere.
        active: `guard` and the lanes that take part; None: everywhere.
        items: `offsets` in items of a vector (gmem), or of a block's bytes (smem); 0 where
            inactive.
        blocks: [block, warp, lane, 1], whose shared memory it is; None: the thread's own block's.
        extra: tables that others keep with the place.
    """

    __slots__ = ("active", "blocks", "extra", "guard", "items", "offsets")

    def __init__(self, offsets: Array, guard: Array | None, active: Array | None) -> None:
        self.offsets, self.guard, self.active = offsets, guard, active
        self.items = offsets
        self.blocks: Array | None = None
        self.extra: dict[Any, Any] = {}
