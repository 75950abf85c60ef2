"""Engines in the memory of this process: NumPy arrays, and packed sub-byte elements in words.

`ArrayEngine` numbers the elements of an array's memory, from its lowest address to its highest, so
a tensor over it shares memory with the array. `PackedEngine` numbers sub-byte elements in words of
8, 16 or 32 bits, low element first, as `dtypes.packing` does. `HostViews` are the methods by which
a tensor over them has a copy on a GPU.
"""

from __future__ import annotations

from cute_py.dtypes.conversion import decode, strided
from cute_py.dtypes.packing import SubbyteReference, exact_image, storage_bytes
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.dtypes.table import from_numpy
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.tensor.engine import Engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.dtypes.packing import SubbyteReference
    from cute_py.dtypes.table import Array, Dtype, DtypeLike
    from cute_py.layout.types import IntTuple, LayoutLike, Leaf
    from cute_py.tensor.tensor import Tensor


class _HostEngine(Engine):
    """A one-dimensional NumPy array of elements or words, `memory`, and the origin in it."""

    __slots__ = ("memory",)
    __match_args__ = ("memory", "dtype", "offset")
    memory: Any
    space = "host"

    def __init__(self, memory: Array, dtype: Dtype, offset: int = 0) -> None:
        self.memory = memory
        self.dtype = dtype
        self.offset = offset

    def _key(self) -> tuple[Any, ...]:
        """Two engines are equal if they view the same memory in the same way."""
        memory = self.memory
        return memory.ctypes.data, memory.size, memory.dtype, self.dtype, self.offset

    def __repr__(self) -> str:
        words = f"<{self.memory.size} x {self.memory.dtype}>"
        return f"{type(self).__name__}({words}, {self.dtype!r}, {self.offset})"

    def __str__(self) -> str:
        return f"host_ptr[{self.dtype.bits}b]({self.offset})"

    def at(self, offset: IntTuple) -> _HostEngine:
        """Return the same memory with its origin at `offset`."""
        return type(self)(self.memory, self.dtype, offset)

    def recast(self, dtype: Dtype, offset: Leaf) -> Engine:
        """Return the same memory in elements of `dtype`; a partial last element is dropped."""
        if self.element_bits != self.dtype.bits:
            raise refusal("recast-unpacked", operation="recast", to=self.dtype)
        octets = self.memory.view("uint8")
        if dtype.is_subbyte:
            return PackedEngine(octets, dtype, offset)
        size = dtype.numpy.itemsize
        return ArrayEngine(octets[: len(octets) // size * size].view(dtype.numpy), dtype, offset)

    def _place(self, offset: IntTuple) -> int:
        return self.offset + ints.as_int(offset, "Tensor")  # type: ignore[no-any-return]

    def require_writeable(self) -> None:
        """Refuse to write to read-only memory."""
        if not self.memory.flags.writeable:
            raise refusal("words-read-only", operation="Tensor")


class ArrayEngine(_HostEngine):
    """The memory of a NumPy array, in NumPy's elements.

    A bool array is b1; its elements take a byte each, like those of ml_dtypes' int4.
    """

    __slots__ = ()

    @property
    def size(self) -> int:
        """The number of elements of the memory."""
        return self.memory.size  # type: ignore[no-any-return]

    @property
    def element_bits(self) -> int:
        """The distance from one element to the next (bits)."""
        return 8 * self.memory.itemsize  # type: ignore[no-any-return]

    def read(self, offset: IntTuple) -> Any:  # a NumPy scalar
        """Return the element, a NumPy scalar."""
        return self.memory[self._place(offset)]

    def write(self, offset: IntTuple, value: object) -> None:
        """Store one value of the dtype."""
        self.require_writeable()
        self.memory[self._place(offset)] = value

    def gather(self, offsets: Array) -> Array:
        """Return the elements at all offsets."""
        return self.memory[offsets + self.offset]  # type: ignore[no-any-return]

    def scatter(self, offsets: Array, values: Array) -> None:
        """Store the elements at all offsets."""
        self.require_writeable()
        self.memory[offsets + self.offset] = values


class PackedEngine(_HostEngine):
    """Sub-byte elements, packed in words: with E elements per word, element i is in word i // E,
    from bit (i % E) * bits. Source: cutlass subbyte_reference.h.
    """

    __slots__ = ()

    @property
    def per_word(self) -> int:
        """The number of elements per word."""
        return 8 * self.memory.itemsize // self.dtype.bits  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """The number of elements in all words."""
        return self.memory.size * self.per_word  # type: ignore[no-any-return]

    def reference(self, offset: IntTuple) -> SubbyteReference:
        """Return the reference to one element."""
        return SubbyteReference(self.memory, self._place(offset), self.dtype)

    def read(self, offset: IntTuple) -> Any:  # int, bool or float, by the dtype
        """Return the element, a Python number."""
        return self.reference(offset).get()

    def write(self, offset: IntTuple, value: Any) -> None:
        """Store one value of the dtype; the other bits of its word do not change."""
        self.reference(offset).set(value)

    def gather(self, offsets: Array) -> Array:
        """Return the elements at all offsets."""
        word, place = self._places(offsets)
        mask = (1 << self.dtype.bits) - 1
        return decode(self.memory[word] >> place & mask, self.dtype)  # type: ignore[no-any-return]

    def scatter(self, offsets: Array, values: Array) -> None:
        """Store elements at distinct offsets; the other bits of their words do not change."""
        import numpy as np

        self.require_writeable()
        word, place = self._places(offsets)
        kind = self.memory.dtype
        image = exact_image(values, self.dtype, "Tensor").astype(kind)
        mask = np.left_shift(kind.type((1 << self.dtype.bits) - 1), place, dtype=kind)
        np.bitwise_and.at(self.memory, word, ~mask)
        np.bitwise_or.at(self.memory, word, np.left_shift(image, place, dtype=kind))

    def _places(self, offsets: Array) -> tuple[Array, Array]:
        """Return the word of every element, and its first bit in that word."""
        import numpy as np

        word, place = np.divmod(offsets + self.offset, self.per_word)
        return word, (place * self.dtype.bits).astype(self.memory.dtype)


# -- from arrays, and new


def array_engine(array: Array, dtype: DtypeLike | None) -> tuple[Engine, Any]:
    """Return the engine over the memory of an array, origin at its first element, and its strides
    (elements; None for packed words).
    """
    row = from_numpy(array.dtype) if dtype is None else as_dtype(dtype)
    if not array.size:
        raise refusal("array-empty", operation="make_tensor", name="an array", shape=array.shape)
    if dtype is not None and array.dtype.name in ("uint8", "uint16", "uint32") and row.is_subbyte:
        return packed_engine(array, row), None
    held = array if dtype is None else _reread(array, row)
    size = held.itemsize
    axes = list(zip(held.shape, held.strides, strict=True))
    steps = [step if extent > 1 or step % size == 0 else 0 for extent, step in axes]
    for axis, step in enumerate(steps):
        if step % size:
            raise refusal("array-strides", operation="make_tensor", step=step, axis=axis, size=size)
    before = sum([(n - 1) * -d for n, d in zip(held.shape, steps, strict=True) if d < 0])
    reach = sum([(n - 1) * abs(d) for n, d in zip(held.shape, steps, strict=True)])
    memory = _between(held, before // size, reach // size + 1)
    return ArrayEngine(memory, row, before // size), tuple([step // size for step in steps])


def _reread(array: Array, row: Dtype) -> Array:
    """Return the array as one of `row`: its own values, or words with their bits."""
    if array.dtype == row.numpy and 8 * array.itemsize == row.bits:
        return array
    if array.dtype.kind == "u" and 8 * array.itemsize == row.bits:
        return array.view(row.numpy)
    raise refusal("array-dtype", operation="make_tensor", given=array.dtype, to=row)


def _between(array: Array, before: int, count: int) -> Array:
    """Return `count` elements of the array's memory, from `before` elements before its first."""
    ends = tuple([slice(None, None, -1 if step < 0 else 1) for step in array.strides])
    lowest = array[ends] if before else array
    return strided(lowest, (count,), (array.itemsize,))


def packed_engine(words: Array, row: Dtype) -> PackedEngine:
    """Return the engine over packed words; refuse words that cannot be addressed."""
    SubbyteReference(words, 0, row)  # has the checks of words and width
    if not words.flags.c_contiguous:
        step, size = words.strides[0], words.itemsize
        raise refusal("words-apart", operation="make_tensor", step=step, size=size)
    return PackedEngine(words, row)


def allocate(dtype: DtypeLike, count: int) -> Engine:
    """Return an engine over `count` new zeros, packed if they are narrower than a byte."""
    import numpy as np

    row = as_dtype(dtype)
    if row.is_subbyte:
        return packed_engine(np.zeros(storage_bytes(row, count), np.uint8), row)
    return ArrayEngine(np.zeros(count, row.numpy), row)


# -- the copy on a GPU; source: cutlass util/host_tensor.h


def _memory() -> Any:  # the module
    from importlib import import_module  # a tensor loads no driver

    return import_module("cute_py.codegen.device_memory")


class HostViews:
    """Methods of tensors in host memory, as `make_host_tensor` returns them.

    Without a GPU, the memory of the host stands in for that of a device, as the emulator does for
    the GPU: `device_view` is the tensor, and the syncs do nothing.

    >>> from cute_py import make_host_tensor
    >>> tensor = make_host_tensor(4, "f32", [1, 2, 3, 4])
    >>> tensor.sync_host()  # what a kernel wrote to tensor.device_view()
    >>> print(tensor.to_numpy())
    [1. 2. 3. 4.]
    """

    __slots__ = ()

    def host_view(self: Any) -> Tensor:
        """Return the tensor itself, over the memory of this process.

        >>> from cute_py import make_host_tensor
        >>> print(make_host_tensor((2, 2), "f32", 1).host_view().to_numpy().sum())
        4.0
        """
        self._require_host("host_view")
        return self  # type: ignore[no-any-return]

    def device_view(self: Any) -> Any:  # an array, or the tensor
        """Return an array on the GPU for kernels, a copy of this tensor's memory that all views of
        that memory share. It is made, with what is on the host, the first time, and freed with the
        memory of the host.

        Raises LayoutError for tensors of other memory, and for layouts with nested modes.
        """
        return _memory().device_view(self)

    @property
    def device_backed(self: Any) -> bool:
        """Whether there is a copy of the tensor's memory on a GPU.

        >>> from cute_py import make_host_tensor
        >>> make_host_tensor((2, 2), "f32").device_backed
        False
        """
        self._require_host("device_backed")
        return bool(_memory().on_device(self) is not None)

    def sync_device(self: Any) -> None:
        """Copy the whole memory of the tensor to the GPU, after all work there is done."""
        _memory().sync_device(self)

    def sync_host(self: Any) -> None:
        """Copy the memory back from the GPU, after all work there is done; without a copy there, do
        nothing.
        """
        _memory().sync_host(self)

    def reset(self: Any, layout: LayoutLike) -> Tensor:
        """Return a tensor of another layout, over the same memory where it is large enough, else
        over new zeros.

        >>> from cute_py import make_host_tensor
        >>> tensor = make_host_tensor((4, 6), "f32", 1)
        >>> print(tensor.reset((3, 8)), tensor.reset((3, 8)).to_numpy().sum())
        host_ptr[32b](0) o (3,8):(1,3) 24.0
        >>> print(tensor.reset((5, 5)).to_numpy().sum())
        0.0
        """
        from cute_py.tensor.tensor import Tensor, as_layout

        self._require_host("reset")
        found = as_layout(layout, "reset")
        needed = ints.as_int(found.cosize(), "reset")
        start = self.engine.at(0)
        return Tensor(start if needed <= start.size else allocate(self.dtype, needed), found)

    def reserve(self: Any, count: int) -> Tensor:
        """Return a tensor of the same layout over memory of at least `count` elements: its own
        where that is large enough, else new zeros.

        >>> from cute_py import make_host_tensor
        >>> tensor = make_host_tensor((2, 2), "s4", -1).reserve(7)
        >>> tensor.engine.memory.nbytes, tensor.engine.size
        (4, 8)
        """
        from cute_py.tensor.tensor import Tensor

        self._require_host("reserve")
        needed = ints.as_int(ints.normalize(count, "reserve"), "reserve")
        if needed <= self.engine.size:
            return self  # type: ignore[no-any-return]
        return Tensor(allocate(self.dtype, max(needed, int(self.cosize()))), self.layout)

    def _require_host(self: Any, operation: str) -> None:
        if self.space != "host":
            raise refusal("host-only", operation=operation, tensor=self)
