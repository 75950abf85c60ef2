"""`Tensor`: an engine and a layout, a map from coordinates to elements.

Operations of the algebra that rename coordinates (group, flatten, divide, compose ...) act on the
layout and keep the engine. Slices add the offset of the fixed coordinate to the engine. A tensor
that the user builds must be in bounds. A derived tensor may over-cover, as a tile that does not
divide does: then each access is checked. Source: cutlass include/cute/tensor_impl.hpp.
"""

from __future__ import annotations

import sys

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import AbstractTensor, tuples
from cute_py.layout.basis import add_coordinates
from cute_py.layout.build import fragment_layout, make_identity_layout, make_layout_like
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.coords import check_coordinate, crd2idx, inside
from cute_py.layout.layout import Layout
from cute_py.layout.modes import slice_and_offset
from cute_py.layout.queries import coprofile, inner_of
from cute_py.layout.tuples import has_underscore, show
from cute_py.records import Record
from cute_py.tensor.elements import require_inside, require_offset, yields_coordinates
from cute_py.tensor.engine import Coordinates, Engine, Memory, Pointer
from cute_py.tensor.host_engine import HostViews
from cute_py.tensor.operators import Operators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, overload

    from numpy.typing import ArrayLike

    from cute_py.dtypes.table import Array, DtypeLike
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, LayoutLike, Leaf

_set = object.__setattr__

# set by the tracer: (name, dtype, count) -> the registers of the kernel being traced, or None
register_allocators: list[Callable[[str, DtypeLike, Leaf], Engine | None]] = []
# set by the tracer: (dtype, address, align) -> the global memory there, None if no kernel is traced
pointer_makers: list[Callable[[DtypeLike, Leaf, int | None], Engine | None]] = []


class Tensor(HostViews, Operators, Record, AbstractTensor):
    """The map from coordinates to elements: layout(coord) counts elements of the engine.

    Args:
        engine: an `Engine`, or a NumPy array, whose memory the tensor shares.
        layout: a Layout or ComposedLayout, or a shape (compact, leftmost mode fastest).

    Law: tensor[c] is the element at offset layout(c), and tensor[c with `_`][x] == tensor[c with x
    for `_`]. len(tensor) is an error: `cute.rank` counts modes, `cute.size` elements. Raises
    CoordinateError, naming the first coordinate, if the layout is out of the bounds of the memory.

    >>> import numpy as np
    >>> from cute_py import _
    >>> array = np.arange(32, dtype=np.int32).reshape(4, 8)
    >>> tensor = make_tensor(array)
    >>> print(tensor.layout, tensor[2, 5], tensor.dtype)
    (4,8):(8,1) 21 s32
    >>> tensor[2, 5] = -1
    >>> print(array[2, 5], tensor[2, _].to_numpy())
    -1 [16 17 18 19 20 -1 22 23]
    """

    __slots__ = ("engine", "layout")
    __match_args__ = ("engine", "layout")
    engine: Engine
    layout: Alike  # a Layout or a ComposedLayout

    def __init__(self, engine: Engine | Array, layout: LayoutLike) -> None:
        source = engine if isinstance(engine, Engine) else _engine_of(engine, None)[0]
        layout = as_layout(layout, "Tensor")
        if isinstance(source, Coordinates):
            from cute_py.layout.queries import coprofile

            source.moved(coprofile(layout))  # refuses another profile
        elif yields_coordinates(layout):
            raise refusal("tensor-codomain", operation="Tensor", layout=layout, engine=source)
        require_inside(source, layout, "Tensor")
        self.engine = source.unbounded()
        self.layout = layout

    def __reduce__(self) -> tuple[object, ...]:
        return derived, (self.engine, self.layout)

    def __eq__(self, other: object) -> Any:  # a bool, or a Tensor
        """Return whether other is the same view of the same memory; see `tensor_equals` for the
        elements. In a kernel, registers are compared element by element.
        """
        if self.engine.computes:
            return self._operate("eq", self, other)
        if other.__class__ is not Tensor:
            return NotImplemented
        return bool(self.engine == other.engine and self.layout == other.layout)

    def __hash__(self) -> int:
        """Return the hash of engine and layout; registers, which == compares by element, have
        none.
        """
        if self.engine.computes:
            self.engine.require_known(self, "a set, a dict or hash()", "cute.when and ==")
        return Record.__hash__(self)

    def __copy__(self) -> Tensor:
        """Return a copy of the elements, as NumPy does."""
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, object]) -> Tensor:
        """Return a copy of the elements: registers of a kernel in new registers. Refuse for other
        memory of a kernel, which cute.copy moves.
        """
        if self.engine.computes:
            return self._operate("copy", self)  # type: ignore[no-any-return]
        instead = "r = cute.make_fragment_like(x), and cute.copy(x, r)"
        self.engine.require_known(self, "copy.copy or copy.deepcopy", instead)
        from copy import deepcopy

        return derived(deepcopy(self.engine, memo), self.layout)

    def __str__(self) -> str:
        return self.engine.described(self, "str", sys._getframe(1))

    def __repr__(self) -> str:
        return self.engine.described(self, "repr", sys._getframe(1))

    # -- its parts

    @property
    def shape(self) -> IntTuple:
        """The shape of the layout."""
        return self.layout.shape

    @property
    def stride(self) -> IntTuple:
        """The stride of the layout; a ComposedLayout has none and is refused."""
        return self.layout.stride

    @property
    def dtype(self) -> Any:  # Dtype, or None for coordinates
        """The type of the elements; None for coordinates."""
        return self.engine.dtype

    @property
    def data(self) -> Engine:
        """The engine, CuTe's `tensor.data()`: make_tensor(tensor.data, layout) is another view."""
        return self.engine

    @property
    def space(self) -> str:
        """Where the elements are: host, gmem, smem, rmem or coordinates."""
        return self.engine.space

    @property
    def element_bits(self) -> int:
        """How far apart elements are stored (bits), 4 for packed s4."""
        return self.engine.element_bits

    def host_memory(self) -> tuple[Any, int, tuple[tuple[int, ...], tuple[int, ...]]] | None:
        """Return the memory of a tensor on the host, one array of elements or of words of packed
        ones; the first element; and the extents and strides of its modes. None for tensors of other
        memory, and for layouts with nested modes.
        """
        layout, memory = self.layout, getattr(self.engine, "memory", None)
        if memory is None or layout.__class__ is not Layout:
            return None
        shape, strides = [
            y if isinstance(y, tuple) else (y,) for y in (layout.shape, layout.stride)
        ]
        if self.space != "host" or not all(n.__class__ is int for n in (*shape, *strides)):
            return None
        return memory, self.engine.offset, (shape, strides)

    def __len__(self) -> NoReturn:
        """Refuse: the first extent, as in NumPy, or the number of modes could be meant."""
        raise refusal("tensor-length", operation="Tensor", tensor=self)

    def __contains__(self, value: object) -> NoReturn:
        """Refuse: elements of a kernel are not known, and those on the host are an array's."""
        raise refusal("tensor-iteration", operation="Tensor", tensor=self)

    def __reversed__(self) -> NoReturn:
        """Refuse, as iteration does."""
        raise refusal("tensor-iteration", operation="Tensor", tensor=self)

    def size(self) -> Leaf:
        """Return the number of elements."""
        return self.layout.size()

    def cosize(self) -> Leaf:
        """Return one more than the largest offset of the layout; see `cosize`."""
        return self.layout.cosize()

    def with_layout(self, layout: AnyLayout, operation: str = "") -> Tensor:
        """Return the tensor of the same engine with another layout; each access is checked.

        Raises LayoutError for products, which need more memory than the tensor has.
        """
        if operation.endswith("product") or operation == "tile_to_shape":
            raise refusal("tensor-product", operation=operation, tensor=self)
        return derived(self.engine, layout)

    def changed(self, change: Callable[[AnyLayout], AnyLayout], operation: str) -> Tensor:
        """Return the tensor with `change` applied to its layout; an engine with known extents (a
        kernel argument) guards the elements that the new layout adds.
        """
        guarded = self.engine.guarded(self.layout, change)
        if guarded is not None:
            return derived(*guarded)
        return self.with_layout(change(self.layout), operation)

    # -- elements and parts

    def __getitem__(self, coord: IntTuple) -> Any:  # an element, or a Tensor
        """Return the element at a coordinate or index; with `_`, the tensor of the free modes."""
        if has_underscore(coord):
            return self.slice(coord)
        offset = self._offset(coord)
        return self.engine.within(coord, self.shape).read(offset)

    def __call__(self, *coord: IntTuple) -> Any:
        """Return tensor[coord]."""
        return self[coord[0] if len(coord) == 1 else coord]

    def __setitem__(self, coord: IntTuple, value: Any) -> None:
        """Store an element; if the coordinate has `_` (or is `...`), all elements of that slice:
        from an array of its shape, a tensor, or one value for all.
        """
        if coord is Ellipsis:
            self.copy_(value)
        elif has_underscore(coord):
            self.slice(coord).copy_(value)
        elif self.engine.records:
            offset = self._offset(coord)
            self.engine.within(coord, self.shape).write(offset, value)
        else:
            from cute_py.tensor.elements import stored

            offset = self._offset(coord)
            scalar = stored(value, self.dtype, self.engine)
            if scalar.ndim:
                raise refusal("values-scalar", operation="Tensor", shape=scalar.shape)
            self.engine.write(offset, scalar[()])

    def __iter__(self) -> NoReturn:
        """Refuse: modes or elements could be meant."""
        raise refusal("tensor-iteration", operation="Tensor", tensor=self)

    def slice(self, coord: IntTuple) -> Tensor:
        """Return the modes that `coord` leaves free, with the origin at the fixed coordinate."""
        layout, offset = slice_and_offset(coord, self.layout)
        return derived(self.engine.within(coord, self.shape).moved(offset), layout)

    def domain_offset(self, coord: IntTuple) -> Tensor:
        """Return the tensor with its origin at `coord`, which may be outside the shape; see
        `domain_offset`.
        """
        coord = tuples.canonical(coord, "domain_offset")
        layout = self.layout
        shifted = self.engine.shifted(layout, coord)
        if shifted is not None:
            return derived(*shifted)
        engine = self.engine.unbounded()
        if layout.__class__ is not Layout:
            inner = layout.inner
            if inner.__class__ is Layout:
                moved = add_coordinates(layout.offset, crd2idx(coord, inner.shape, inner.stride))
                return derived(engine, ComposedLayout(layout.outer, moved, inner))
            return derived(engine, ComposedLayout(layout.outer, layout.offset, inner))
        return derived(engine.moved(crd2idx(coord, layout.shape, layout.stride)), layout)

    def _offset(self, coord: IntTuple) -> IntTuple:
        coord = check_coordinate(coord, self.shape)
        if coord.__class__ is not tuple and ints.leq(self.size(), coord):
            raise refusal(
                "coordinate-range",
                operation="Tensor",
                coord=coord,
                shape=show(self.shape),
                value=coord,
                mode=(),
                size=self.size(),
                how=inside(coord),
            )
        offset = self.layout(coord)
        require_offset(self.engine, self.layout, coord, offset)
        return offset

    # -- all elements at once

    def to_numpy(self) -> Any:  # an array of the dtype
        """Return a copy of the elements as an array with one axis for each top-level mode.

        Coordinates take one more axis for their flat leaves. Raises LayoutError for device memory.
        """
        from cute_py.tensor.elements import to_numpy

        return to_numpy(self)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Any:
        """Return the elements for `numpy.asarray`."""
        self.engine.require_known(self, "a number or an array of NumPy", "x.to('f32') and the like")
        from cute_py.tensor.elements import as_array

        return as_array(self, dtype, copy)

    def copy_(self, source: Tensor | ArrayLike) -> Tensor:
        """Store all elements: those of a tensor or array of the same shape, or one value for all.

        Floating-point values are rounded to nearest even. Integers must be in the range of the
        dtype. If the layout maps two coordinates to one offset, both must get the same value.
        Returns the tensor itself.
        """
        from cute_py.tensor.elements import assign

        if self.engine.records:
            self.engine.assign(self, source)
        else:
            assign(self, source)
        return self

    def fill(self, value: object) -> Tensor:
        """Store one value in all elements, and return the tensor itself."""
        return self.copy_(value)  # type: ignore[arg-type]


def derived(engine: Engine, layout: AnyLayout) -> Tensor:
    """Return the tensor of an engine and a layout that may be out of its bounds."""
    tensor = Tensor.__new__(Tensor)
    _set(tensor, "engine", engine)
    _set(tensor, "layout", layout)
    return tensor


def as_layout(layout: LayoutLike, operation: str) -> Alike:
    """Return a layout unchanged, or the compact layout of a shape."""
    if layout.__class__ is Layout or layout.__class__ is ComposedLayout:
        return layout
    if isinstance(layout, tuple) or ints.is_leaf(layout) or hasattr(layout, "__index__"):
        return Layout(layout)
    raise refusal("not-a-layout", operation=operation, value=layout)


def _engine_of(source: object, dtype: DtypeLike | None) -> tuple[Engine, Any]:
    """Return the engine of an argument of make_tensor, and the strides of an array."""
    if isinstance(source, Engine):
        if dtype is not None:
            raise refusal("tensor-dtype", operation="make_tensor", engine=source)
        return source, None
    if isinstance(source, tuple):
        return Coordinates(source), None
    if type(source).__module__ == "numpy" and hasattr(source, "strides"):
        from cute_py.tensor.host_engine import array_engine

        return array_engine(source, dtype)  # type: ignore[arg-type]
    raise refusal("tensor-source", operation="make_tensor", type=type(source).__name__)


def make_tensor(
    source: Engine | Array | tuple[Any, ...],
    layout: LayoutLike = None,
    dtype: DtypeLike | None = None,
) -> Tensor:
    """Return the tensor over an engine or the memory of a NumPy array.

    Args:
        source: an engine (`Pointer`, `Memory`, or another tensor's `data`), a NumPy array, or a
            coordinate (a tuple of ints), the start of a tensor of coordinates.
        layout: a Layout, ComposedLayout or shape. Offset 0 is the array's first element. Default:
            the array's shape and strides (elements).
        dtype: the type of an array's elements, if it is not the array's dtype: a type of the same
            size, stored as unsigned words, or a sub-byte type, packed in uint8, uint16 or uint32.

    The tensor shares the array's memory: a write through one is visible through the other. Raises
    CoordinateError if the layout is out of the bounds of the array's memory (from its lowest to its
    highest element). Source: cutlass tensor_impl.hpp `make_tensor`.

    >>> import numpy as np
    >>> array = np.zeros((4, 6), np.float32)
    >>> print(make_tensor(array).layout, make_tensor(array[::-1, ::2]).layout)
    (4,6):(6,1) (4,3):(-6,2)
    >>> words = np.array([0x76543210], np.uint32)
    >>> print(make_tensor(words, (2, 4), "u4").to_numpy())
    [[0 2 4 6]
     [1 3 5 7]]
    """
    engine, strides = _engine_of(source, dtype)
    if layout is None:
        if strides is not None:
            layout = Layout(source.shape, strides)  # type: ignore[union-attr]
        elif engine.space == "host" and engine.size is not None and not isinstance(source, Engine):
            layout = Layout(engine.size)
        else:
            raise refusal("tensor-layout", operation="make_tensor", engine=engine)
    return Tensor(engine.as_fragment(""), layout)  # in another order than a fragment has


def make_coord_tensor(layout: LayoutLike) -> Tensor:
    """Return the tensor whose elements are the values of a layout: coordinates, or plain offsets.

    Source: cutlass tensor_impl.hpp `make_coord_tensor`.

    >>> print(make_coord_tensor(make_identity_layout((4, 8)))[2, 5])
    (2, 5)
    >>> print(make_coord_tensor(Layout(4, 3))[2])
    6
    """
    return Tensor(Coordinates(coprofile(layout)), layout)


def make_identity_tensor(shape: IntTuple) -> Tensor:
    """Return the tensor that maps every coordinate of `shape` to itself.

    Partitioned like the data, it gives each thread the coordinates of its elements, for predicates.
    Source: cutlass tensor_impl.hpp `make_identity_tensor`.

    >>> from cute_py import _
    >>> tensor = make_identity_tensor((4, 8))
    >>> print(tensor, tensor[9], tensor[1, _], tensor[1, _][5])
    ArithTuple(0,0) o (4,8):(1@0,1@1) (1, 2) ArithTuple(1,0) o (8):(1@1) (1, 5)
    """
    return make_coord_tensor(make_identity_layout(shape))


def make_ptr(
    dtype: DtypeLike, address: Leaf, space: str = "gmem", align: int | None = None
) -> Engine:
    """Return the pointer to elements of `dtype` at an address (bytes), as the engine of a tensor.

    In a kernel the address may be a run-time integer, such as one read from memory: then the engine
    is global memory that is read and written like that of an argument.

    Args:
        dtype: the type of the elements; those narrower than a byte are packed.
        address: the address (bytes), a multiple of `align`.
        space: "gmem", "smem" or "rmem".
        align: the alignment of the address (bytes), a power of two; by default that of an element.
            It is a promise, which the emulator checks: vectors are no wider.

    >>> print(make_tensor(make_ptr("bf16", 0x7F00), (64, 8)))
    gmem_ptr[16b](0x7f00) o (64,8):(1,64)
    """
    if space == "gmem":
        for make in pointer_makers:
            found = make(dtype, address, align)
            if found is not None:
                return found
    pointer = Pointer(dtype, address, space)
    if align is not None and ints.divides(align, pointer.base) is False:
        facts = {"value": address, "to": pointer.dtype, "size": align}
        raise refusal("pointer-address", operation="make_ptr", **facts)
    return pointer


def make_rmem_tensor(layout: LayoutLike, dtype: DtypeLike, name: str = "fragment") -> Tensor:
    """Return a tensor in registers of a kernel, as many as the cosize of the layout.

    Args:
        layout: a Layout, or a shape (compact).
        dtype: the type of the elements.
        name: the name of the registers.

    >>> print(make_rmem_tensor((4, 2), "f32", "acc"))
    rmem_ptr[32b](acc) o (4,2):(1,4)
    """
    layout = as_layout(layout, "make_rmem_tensor")
    for allocate in register_allocators:
        engine = allocate(name, dtype, layout.cosize())
        if engine is not None:
            return Tensor(engine, layout)
    return Tensor(Memory(name, dtype, layout.cosize(), "rmem"), layout)


def make_tensor_like(tensor: Tensor, dtype: DtypeLike | None = None) -> Tensor:
    """Return a new compact tensor with the shape of `tensor` and its order of strides.

    For a tensor in host memory it is a host tensor of zeros, otherwise registers of a kernel.
    Broadcast modes (stride 0) keep stride 0. Source: cutlass tensor_impl.hpp `make_tensor_like`.

    Args:
        tensor: the tensor to imitate.
        dtype: the type of the elements, by default that of `tensor`.

    >>> import numpy as np
    >>> print(make_tensor_like(make_tensor(np.ones((4, 8))[:, ::2])))
    host_ptr[64b](0) o (4,4):(4,1)
    """
    require_tensor(tensor, "make_tensor_like")
    return _owned_like(tensor, make_layout_like, dtype, "make_tensor_like")


def make_host_tensor(
    layout: LayoutLike, dtype: DtypeLike, values: ArrayLike | None = None
) -> Tensor:
    """Return a tensor over new host memory of the layout's cosize; sub-byte elements are packed.

    Args:
        layout: a Layout, ComposedLayout or shape (compact).
        dtype: the type of the elements.
        values: an array of the tensor's shape, one axis for each top-level mode, or one value for
            all; by default zeros.

    Source: cutlass util/host_tensor.h.

    >>> tensor = make_host_tensor((2, 3), "s4", [[0, -1, 2], [3, -4, 5]])
    >>> print(tensor, tensor[1, 1], [hex(word) for word in tensor.data.memory])
    host_ptr[4b](0) o (2,3):(1,2) -4 ['0x30', '0xcf', '0x52']
    """
    from cute_py.tensor.host_engine import allocate

    layout = as_layout(layout, "make_host_tensor")
    tensor = Tensor(allocate(dtype, ints.as_int(layout.cosize(), "make_host_tensor")), layout)
    return tensor if values is None else tensor.copy_(values)


if TYPE_CHECKING:

    @overload
    def make_fragment_like(layout: Tensor, dtype: DtypeLike | None = ...) -> Tensor: ...
    @overload
    def make_fragment_like(layout: LayoutLike, dtype: DtypeLike | None = ...) -> Layout: ...


def make_fragment_like(layout: AnyLayout, dtype: DtypeLike | None = None) -> Alike:
    """Return the compact layout of registers for `layout`: mode 0 dense and column-major, the
    others in their order. For a tensor, return a new tensor of that layout, as `make_tensor_like`
    does; `dtype` is then the type of its elements, by default that of the tensor.

    Source: cutlass layout.hpp `make_fragment_like`.

    >>> print(make_fragment_like(Layout((2, 4, 3), (8, 1, 4))))
    (2,4,3):(1,2,8)
    """
    if layout.__class__ is Tensor:
        return _owned_like(layout, make_fragment_like, dtype, "make_fragment_like")
    inner = inner_of(layout)
    return fragment_layout(inner) if inner.__class__ is Layout else Layout(inner)


def _owned_like(
    tensor: Tensor, like: Callable[[AnyLayout], Layout], dtype: DtypeLike | None, operation: str
) -> Tensor:
    """Return a new tensor in host memory if `tensor` is there, else in registers. For coordinates,
    which have no order in memory, the layout is compact, leftmost mode fastest.
    """
    row = tensor.dtype if dtype is None else dtype
    if row is None:
        raise refusal("coordinates-dtype", operation=operation, tensor=tensor)
    unordered = yields_coordinates(tensor.layout)
    layout = Layout(tensor.shape) if unordered else like(tensor.layout)
    if tensor.space == "host":
        return make_host_tensor(layout, row)
    return make_rmem_tensor(layout, row)


def require_tensor(x: object, operation: str) -> Tensor:
    """Return x if it is a Tensor, else refuse it."""
    if x.__class__ is not Tensor:
        raise refusal("not-a-tensor", operation=operation, value=x)
    return x
