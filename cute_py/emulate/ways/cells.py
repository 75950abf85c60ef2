"""`Cells`: all state of a run, numbered, so that what an op moves are pairs of numbers.

A cell is so many bits as everything that a plan moves is whole numbers of. Cell 0 is a constant.
The others are those of global memory, of each block's shared memory, of each thread's registers,
and of the integers that the plan names, one for each thread.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import gcd, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.resources import Resources
from cute_py.emulate.spans import LANES, Array
from cute_py.plan import ops
from cute_py.plan.walk import accesses, named

if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype
    from cute_py.emulate.arguments import Arguments
    from cute_py.emulate.storages import Global, Storage
    from cute_py.plan.params import Shared

WORD, BANKS = 4, 32  # bytes of a bank of shared memory, and of a register


@dataclass(frozen=True, slots=True)
class Part:
    """Cells of one kind.

    Attributes:
        memory: global, shared, registers or integers.
        name: of the storage; "" for memory that several have.
        first: the first cell; each: those of an owner: of the grid, a block or a thread.
        address: of global memory (bytes).
    """

    memory: str
    name: str
    first: int
    each: int
    address: int = 0


class Cells:
    """The cells of a run.

    Attributes:
        unit: the bits of a cell.
        count: how many there are.
        threads: of a block, those included that fill its last warp.
    """

    def __init__(self, needs: Resources, given: Arguments, shape: tuple[int, int, int]) -> None:
        self.needs, self.shape, self.arrays = needs, shape, given.arrays
        self.threads, self.count = needs.warps * LANES, 1
        self.flags = {x.name for x in needs.registers.values() if x.dtype.bits == x.unit == 1}
        self.unit = self._unit()
        self.parts: list[Part] = []
        self.runs = [self._global(low, end) for low, end in _runs(given)]
        blocks = prod(shape)
        self.shared = self._part("shared", "", needs.stride * 8 // self.unit, blocks)
        self.registers = {x.name: self._registers(x, blocks) for x in needs.registers.values()}
        names = dict.fromkeys(name for op in needs.plan.ops for name in named(op))
        threads = blocks * self.threads
        self.integers = {name: self._part("integers", name, 1, threads) for name in names}
        self.firsts = [part.first for part in self.parts]
        self.tables: dict[str, dict[int, list[int]]] = {}
        self.known: dict[tuple[int, frozenset[str]], dict[str, Any]] = {}
        self.same: dict[str, dict[str, Any]] = {}

    def _unit(self) -> int:
        """Return the bits that all moves are whole numbers of."""
        sizes = [array.bits for array in self.arrays.values()]
        sizes += [x.unit for x in self.needs.registers.values() if x.name not in self.flags]
        every = self.needs.plan.ops
        sizes += [x.dtype.bits for op in every for x in accesses(op) if x.space == "smem"]
        sizes += [16 for op in every if isinstance(op, ops.LdMatrix | ops.StMatrix)]
        sizes += [8] if self.needs.pointers else []
        return gcd(*sizes, *[8 * array.address for array in self.arrays.values()], 128)

    def _part(self, memory: str, name: str, each: int, owners: int, address: int = 0) -> Part:
        part = Part(memory, name, self.count, each, address)
        self.parts.append(part)
        self.count += each * owners
        return part

    def _global(self, low: int, end: int) -> Part:
        return self._part("global", "", (end - low) * 8 // self.unit, 1, low)

    def _registers(self, storage: Storage, blocks: int) -> Part:
        each = storage.count * self.width(storage.dtype)
        return self._part("registers", storage.name, each, blocks * self.threads)

    def width(self, dtype: Dtype) -> int:
        """Return the cells of an element: a flag in a register has one."""
        return max(1, dtype.bits // self.unit)

    def of_array(self, array: Global, offsets: Array) -> Array:
        """Return the cells [..., unit] of elements of global memory."""
        part = next(x for x in reversed(self.runs) if x.address <= array.address)
        first = part.first + (array.address - part.address) * 8 // self.unit
        starts = first + offsets * array.bits // self.unit
        found: Array = starts[..., None] + np.arange(self.width(array.dtype))
        return found

    def of_shared(self, blocks: Array, start: int, dtype: Dtype, offsets: Array) -> Array:
        """Return the cells [..., unit] of elements of a storage that starts at a byte."""
        first = self.shared.first + blocks * self.shared.each + start * 8 // self.unit
        found: Array = (first + offsets * dtype.bits // self.unit)[..., None]
        return found + np.arange(self.width(dtype))

    def of_threads(self, part: Part, threads: Array, dtype: Dtype, index: Array) -> Array:
        """Return the cells [..., element, unit] of registers of threads, or of integers."""
        each = self.width(dtype) if part.memory == "registers" else 1
        own = index[:, None] * each + np.arange(each)
        found: Array = part.first + threads[..., None, None] * part.each + own
        return found

    # -- which element a cell belongs to

    def storages(self) -> dict[str, dict[str, Any]]:
        """Return what has elements, by name, as JSON."""
        found: dict[str, dict[str, Any]] = {}
        for array in self.arrays.values():
            kind = {"memory": "global", "dtype": str(array.dtype)}
            found[array.name] = {**kind, "shape": list(array.shape)}
        for row in self.needs.plan.shared:
            kind = {"memory": "shared", "dtype": str(row.dtype)}
            sizes = None if row.layout is None else extents(row.layout.shape)
            found[row.name] = {**kind, "shape": sizes, "byte": row.offset, "bytes": row.bytes}
        for x in self.needs.registers.values():
            found[x.name] = {"memory": "registers", "dtype": str(x.dtype), "count": x.count}
        return found

    def elements(self, cells: Array, names: frozenset[str]) -> list[dict[str, Any]]:
        """Return the elements that cells are part of, each once, as JSON; `names`: the storages
        that are meant where several are in one place. Cell 0 is none.
        """
        found: dict[int, dict[str, Any]] = {}
        for cell in cells[cells > 0].tolist():
            key = cell, names
            if key not in self.known:
                element = self._element(cell, names)
                self.known[key] = self.same.setdefault(str(element), element)
            element = self.known[key]
            found[id(element)] = element
        return list(found.values())

    def _element(self, cell: int, names: frozenset[str]) -> dict[str, Any]:
        part = self.parts[bisect_right(self.firsts, cell) - 1]
        owner, own = divmod(cell - part.first, part.each)
        if part.memory == "global":
            return self._in_global(part.address * 8 + own * self.unit, names)
        if part.memory == "shared":
            return self._in_shared(owner, own * self.unit, names)
        found: dict[str, Any] = {"memory": part.memory, "name": part.name, **self.thread(owner)}
        if part.memory == "integers":
            return found
        dtype = self.needs.registers[part.name].dtype
        element = own // self.width(dtype)
        return {**found, "element": element, "register": element * dtype.bits // (8 * WORD)}

    def _in_global(self, bit: int, names: frozenset[str]) -> dict[str, Any]:
        held = [x for x in self.arrays.values() if 0 <= bit - 8 * x.address < max(8, 8 * x.nbytes)]
        array = next((x for x in held if x.name in names), held[0])
        offset = (bit - 8 * array.address) // array.bits
        found = {"memory": "global", "name": array.name, "coord": list(array.position(offset))}
        return {**found, "byte": offset * array.bits // 8}

    def _in_shared(self, block: int, bit: int, names: frozenset[str]) -> dict[str, Any]:
        rows = self.needs.plan.shared
        held = [x for x in rows if x.offset * 8 <= bit < (x.offset + x.bytes) * 8]
        row = next((x for x in held if x.name in names), held[0])
        offset = (bit - row.offset * 8) // row.dtype.bits
        byte = row.offset + offset * row.dtype.bits // 8
        if row.name not in self.tables:
            self.tables[row.name] = coordinates(row)
        coord = self.tables[row.name].get(offset)
        found = {"memory": "shared", "name": row.name, "block": self.block(block), "byte": byte}
        stage = coord[2] if coord is not None and len(coord) == 3 else None
        return {**found, "bank": byte // WORD % BANKS, "coord": coord, "stage": stage}

    def block(self, number: int) -> list[int]:
        """Return (x, y, z) of a block."""
        x, y, _ = self.shape
        return [number % x, number // x % y, number // (x * y)]

    def thread(self, number: int) -> dict[str, Any]:
        """Return the block, the warp and the lane of a thread of the grid."""
        block, thread = divmod(number, self.threads)
        return {"block": self.block(block), "warp": thread // LANES, "lane": thread % LANES}


def _runs(given: Arguments) -> list[tuple[int, int]]:
    """Return (first byte, end) of the runs of memory that arrays lie in, in order."""
    found: list[tuple[int, int]] = []
    for low, end in sorted((x.address, x.address + x.nbytes) for x in given.arrays.values()):
        if found and low < found[-1][1]:
            low, end = found[-1][0], max(end, found[-1][1])
            found.pop()
        found.append((low, end))
    return found


def coordinates(row: Shared) -> dict[int, list[int]]:
    """Return the coordinate, an entry for each mode, of every offset of a shared tensor; {} where
    its layout is not known.
    """
    if row.layout is None:
        return {}
    sizes = extents(row.layout.shape)
    places = np.indices(sizes[::-1]).reshape(len(sizes), -1)[::-1].T.tolist()
    return dict(zip(row.layout.offsets().tolist(), places, strict=True))


def extents(shape: Any) -> list[int]:
    """Return the size of each mode of a shape, which may be nested."""
    return [_size(mode) for mode in (shape if isinstance(shape, tuple) else (shape,))]


def _size(mode: Any) -> int:
    return prod(map(_size, mode)) if isinstance(mode, tuple) else int(mode)
