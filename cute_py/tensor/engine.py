"""Engines: the storage of a tensor, whose elements its offsets count.

    Pointer      elements at a device address            gmem_ptr[16b](0x7f00)
    Memory       elements of a named storage             smem_ptr[16b](sA)
    Coordinates  steps from a start coordinate           ArithTuple(0,0)
    ArrayEngine, PackedEngine (`host_engine`)            host_ptr[32b](0)

An engine is frozen: its storage, the dtype of its elements and an origin, `offset`, in elements.
Moving the origin gives a new engine of the same storage, which is what a slice of a tensor needs.
Source: cutlass include/cute/pointer.hpp, numeric/arithmetic_tuple.hpp (`ArithmeticTupleIterator`).
"""

from __future__ import annotations

from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.basis import add_coordinates
from cute_py.layout.tuples import canonical, show
from cute_py.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from cute_py.dtypes.table import Array, Dtype, DtypeLike
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf

SPACES = ("gmem", "smem", "rmem")


class Engine(Record):
    """The base of all engines: `dtype` (None for coordinates), `offset` of the origin (elements),
    `space`, and `size`, the number of elements of the storage (None if that is not known).

    Offsets are given from the origin; `Tensor` checks them before it reads or writes.
    """

    __slots__ = ("dtype", "offset")
    dtype: Any
    offset: Any
    space: str
    computes = False  # whether operators record arithmetic in a kernel
    records = False  # whether a kernel records reads and writes

    @property
    def size(self) -> Leaf:
        """The number of elements of the storage, None if that is not known."""
        return None

    @property
    def element_bits(self) -> int:
        """The distance from one element to the next (bits)."""
        return self.dtype.bits  # type: ignore[no-any-return]

    def __add__(self, by: object) -> Engine:
        """Return the engine with its origin moved by an integer (elements), as a pointer in C."""
        if not (ints.is_leaf(by) or hasattr(by, "__index__")):
            return NotImplemented
        return self.unbounded().moved(ints.normalize(by, "Engine"))

    __radd__ = __add__

    def moved(self, by: IntTuple) -> Engine:
        """Return the engine with its origin moved by `by` elements."""
        if by.__class__ is int and by == 0:
            return self
        return self.at(ints.add(self.offset, by))

    def require_numpy(self, _tensor: object, _name: str) -> None:
        """Refuse a function of NumPy on elements that are known only at run time."""

    def as_fragment(self, _role: str) -> Engine:
        """Return the engine as the fragment of an operand of an MMA, which registers remember."""
        return self

    def at(self, offset: IntTuple) -> Engine:
        """Return the engine with its origin at `offset` of the storage."""
        raise NotImplementedError

    def recast(self, dtype: Dtype, offset: Leaf) -> Engine:
        """Return the same storage in elements of `dtype`, with the origin at `offset` of these."""
        raise refusal("recast-engine", operation="recast", engine=self)

    def within(self, coord: IntTuple, shape: IntTuple) -> Engine:
        """Return the engine that remembers that a coordinate must be inside of a shape, where that
        is known only when a kernel runs.
        """
        return self

    def described(self, tensor: Any, form: str, asker: FrameType) -> str:
        """Return the text of a tensor, as `str`, `format` or `repr` asks for it in a frame."""
        return Record.__repr__(tensor) if form == "repr" else f"{self} o {tensor.layout}"

    def unbounded(self) -> Engine:
        """Return the engine for a tensor with a layout of its own: the storage alone bounds it."""
        return self

    def read(self, offset: IntTuple) -> IntTuple:
        """Return the element at an offset in bounds."""
        raise refusal("engine-unreadable", operation="Tensor", engine=self)

    def write(self, offset: IntTuple, value: object) -> None:
        """Store an element at an offset in bounds."""
        raise refusal("engine-unreadable", operation="Tensor", engine=self)

    def gather(self, offsets: Array) -> Array:
        """Return the elements at a NumPy array of offsets in bounds."""
        raise refusal("engine-unreadable", operation="Tensor", engine=self)

    def guarded(
        self, layout: AnyLayout, change: Callable[[AnyLayout], AnyLayout]
    ) -> tuple[Engine, AnyLayout] | None:
        """Return engine and layout that check each access against the extents of `layout`, if the
        changed layout reaches past them; None if that is not needed, or the extents are not known.
        """
        return None

    def shifted(self, layout: AnyLayout, coord: IntTuple) -> tuple[Engine, AnyLayout] | None:
        """Return engine and layout of `domain_offset` that check each access against the extents of
        `layout`; None if they are not known.
        """
        return None

    def operate(self, name: str, *operands: object) -> Alike:
        """Apply an operator to tensors element by element; registers of a kernel can do this."""
        raise refusal("engine-arithmetic", operation=name, engine=self)

    def require_known(self, tensor: Alike, use: str, instead: str = "") -> None:
        """Refuse a use of a tensor's values in Python if they are known only when a kernel runs."""

    def assign(self, tensor: Alike, value: object) -> None:
        """Record the assignment of all elements of a tensor, in a kernel."""
        raise refusal("engine-unreadable", operation="Tensor", engine=self)

    def convert(self, tensor: Alike, dtype: DtypeLike, how: tuple[Any, ...]) -> Alike:
        """Convert the elements of a tensor to another type; registers of a kernel can do this."""
        raise refusal("engine-arithmetic", operation="to", engine=self)

    def scatter(self, offsets: Array, values: Array) -> None:
        """Store elements at a NumPy array of distinct offsets in bounds."""
        raise refusal("engine-unreadable", operation="Tensor", engine=self)


def checked_space(space: str, operation: str) -> str:
    """Return the name of a memory space; refuse any other name."""
    if space not in SPACES:
        raise refusal("memory-space", operation=operation, value=space)
    return space


class Pointer(Engine):
    """A device address as an engine; the host never reads through it.

    Args:
        dtype: the type of the elements.
        base: the address (bytes), a multiple of the element's size.
        space: "gmem", "smem" or "rmem".
        offset: the origin (elements from `base`).

    >>> pointer = Pointer("f16", 0x7F00)
    >>> print(pointer, pointer.moved(8), Pointer("u4", 0x7F00).moved(3))
    gmem_ptr[16b](0x7f00) gmem_ptr[16b](0x7f10) subptr[4b](0x7f01.4)
    """

    __slots__ = ("base", "space")
    __match_args__ = ("dtype", "base", "space", "offset")
    base: Any

    def __init__(self, dtype: DtypeLike, base: Leaf, space: str = "gmem", offset: Leaf = 0) -> None:
        row = as_dtype(dtype)
        address = ints.normalize(base, "Pointer")
        size = max(row.bits // 8, 1)
        if ints.less(address, 0) or ints.divides(size, address) is False:
            raise refusal("pointer-address", operation="Pointer", value=base, to=row, size=size)
        self.dtype = row
        self.base = address
        self.space = checked_space(space, "Pointer")
        self.offset = ints.normalize(offset, "Pointer")

    @property
    def bit_address(self) -> Leaf:
        """The address of the origin (bits)."""
        return ints.add(ints.mul(self.base, 8), ints.mul(self.offset, self.dtype.bits))

    def __str__(self) -> str:
        bits = self.bit_address
        if bits.__class__ is not int:
            return f"{self.space}_ptr[{self.dtype.bits}b](unset)"
        if self.dtype.is_subbyte:
            return f"subptr[{self.dtype.bits}b]({bits // 8:#x}.{bits % 8})"
        return f"{self.space}_ptr[{self.dtype.bits}b]({bits // 8:#x})"

    def at(self, offset: IntTuple) -> Pointer:
        """Return the pointer with its origin at `offset` elements from `base`."""
        return Pointer(self.dtype, self.base, self.space, offset)

    def recast(self, dtype: Dtype, offset: Leaf) -> Pointer:
        """Return the pointer to elements of `dtype`; a misaligned address is an error."""
        return Pointer(dtype, self.base, self.space, offset)


class Memory(Engine):
    """A named storage that a kernel will have: symbolic, so the host never reads it.

    Args:
        name: the name of the storage, unique in the kernel.
        dtype: the type of the elements.
        count: the number of elements; None if that is not known.
        space: "gmem", "smem" or "rmem".
        offset: the origin (elements).

    >>> memory = Memory("sA", "f16", 4096)
    >>> print(memory, memory.moved(64), memory.size)
    smem_ptr[16b](sA) smem_ptr[16b](sA+64) 4096
    """

    __slots__ = ("_count", "name", "space")
    __match_args__ = ("name", "dtype", "_count", "space", "offset")
    name: str
    _count: Any

    def __init__(
        self, name: str, dtype: DtypeLike, count: Leaf = None, space: str = "smem", offset: Leaf = 0
    ) -> None:
        if not str(name).isidentifier():
            raise refusal("symbol-name", operation="Memory", name=name)
        size = None if count is None else ints.normalize(count, "Memory", ", or None")
        if size is not None and ints.less(size, 1):
            raise refusal("extent-not-positive", operation="Memory", value=size, mode=())
        self.name = str(name)
        self.dtype = as_dtype(dtype)
        self._count = size
        self.space = checked_space(space, "Memory")
        self.offset = ints.normalize(offset, "Memory")

    @property
    def size(self) -> Leaf:
        """The number of elements of the storage, None if that is not known."""
        return self._count

    def __str__(self) -> str:
        moved = "" if ints.is_zero(self.offset) else f"+{self.offset}"
        return f"{self.space}_ptr[{self.dtype.bits}b]({self.name}{moved})"

    def at(self, offset: IntTuple) -> Memory:
        """Return the storage with its origin at `offset` elements."""
        return Memory(self.name, self.dtype, self._count, self.space, offset)

    def recast(self, dtype: Dtype, offset: Leaf) -> Memory:
        """Return the storage in elements of `dtype`; a partial last element is dropped."""
        count = self._count
        if count is not None:
            count = ints.div(ints.mul(count, self.dtype.bits), dtype.bits)
        return Memory(self.name, dtype, count, self.space, offset)


class Coordinates(Engine):
    """Coordinates as elements: reading the offset `o` returns start + o.

    Args:
        start: the coordinate of the origin, a nested tuple of ints, or an int.

    >>> print(Coordinates((0, (0, 0))).read((1, (2,))), Coordinates((4, 8)).moved((1, 0)))
    (1, (2, 0)) ArithTuple(5,8)
    """

    __slots__ = ()
    __match_args__ = ("offset",)
    space = "coordinates"

    def __init__(self, start: IntTuple) -> None:
        self.dtype = None
        self.offset = canonical(start, "Coordinates")

    def __str__(self) -> str:
        if self.offset.__class__ is tuple:
            return f"ArithTuple{show(self.offset)}"
        return f"counting_iter({self.offset})"

    def moved(self, by: IntTuple) -> Coordinates:
        """Return the coordinates with the start moved by a coordinate."""
        return Coordinates(add_coordinates(self.offset, by))

    def read(self, offset: IntTuple) -> IntTuple:
        """Return start + offset."""
        return add_coordinates(self.offset, offset)
