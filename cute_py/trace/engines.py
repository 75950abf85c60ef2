"""The memories of a kernel as engines: parameters, shared storages, registers.

Reading an element records a load, and writing one records a store. A `Guarded` engine addresses a
parameter by coordinates, so accesses beyond its extents are predicated automatically.
"""

from __future__ import annotations

from cute_py.dtypes.packing import PACKED
from cute_py.dtypes.table import Dtype
from cute_py.errors import is_own, refusal_here
from cute_py.integers import ints
from cute_py.layout.basis import add_coordinates, make_basis_like
from cute_py.layout.coords import crd2idx
from cute_py.layout.layout import Layout
from cute_py.layout.queries import size
from cute_py.layout.tuples import flatten, is_underscore, product, show
from cute_py.plan.functions import FUNCTIONS
from cute_py.plan.params import Registers
from cute_py.tensor.engine import Engine
from cute_py.tensor.tensor import derived
from cute_py.trace.naming import called, variable
from cute_py.trace.numpy_words import instead_of
from cute_py.trace.state import Scope, current, text_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, Self

    from cute_py.dtypes.table import DtypeLike
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf
    from cute_py.plan.conditions import Reg
    from cute_py.tensor.tensor import Tensor

    Bounded = tuple[tuple[int, ...], Leaf, Leaf]  # mode, index, extent
    Asserted = tuple[Bounded, ...]


class KernelEngine(Engine):
    """Base of the memories of a kernel: the name of a storage, and the offset of the origin."""

    __slots__ = ("name", "scope")
    records = True
    name: str
    scope: Scope  # the block of the trace that made it

    def _set(self, **parts: object) -> None:
        """Set the parts of a new memory."""
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    def _with(self, **parts: Any) -> Self:
        """Return the memory with other parts."""
        names = self.__match_args__
        return type(self)(*[parts[n] if n in parts else getattr(self, n) for n in names])

    def read(self, offset: IntTuple) -> Any:  # a Tensor of one register
        """Record a load of one element to a new register, and return it."""
        return current().record.load_element(self, offset)

    def write(self, offset: IntTuple, value: object) -> None:
        """Record a store of one element."""
        current().record.store_element(self, offset, value)

    def assign(self, tensor: Tensor, value: object) -> None:
        """Record a copy to memory, or a store of one number to all elements."""
        current().record.store_all(tensor, value)

    def require_known(self, tensor: Tensor, use: str, instead: str = "") -> None:
        """Refuse: the content of a kernel's memory is known only at run time."""
        raise refusal_here(
            "trace-python",
            operation="kernel",
            value=tensor,
            use=use,
            instead=instead
            or "with cute.when(x > 0): ... , cute.where(condition, a, b), cute.minimum, "
            "cute.maximum, p&q, p|q, ~p; cute.sqrt and the like; cute.as_int(x) for an index",
        )

    def require_numpy(self, tensor: Any, name: str) -> None:
        """Refuse a function of NumPy: a kernel has its own."""
        self.require_known(tensor, f"numpy.{name}", instead_of(name))

    def operate(self, name: str, *operands: object) -> Alike:
        """Refuse: memory is not an operand."""
        raise refusal_here("engine-arithmetic", operation=name, engine=self)

    def described(self, tensor: Any, form: str, asker: FrameType) -> str:
        """Return the text of a tensor; for messages with the name of its variable."""
        plain = super().described(tensor, form, asker)
        name = variable(tensor) if form == "format" and is_own(asker) else ""
        return plain if name in ("", self.name) else f"{name}, {plain}"

    def __str__(self) -> str:
        moved = "" if ints.is_zero(self.offset) else f"+{self.offset}"
        return f"{self.space}_ptr[{self.dtype.bits}b]({self.name}{moved})"


class BoundedEngine(KernelEngine):
    """A memory whose tensors are indexed by mode.

    `asserted`: the coordinates that were written down, as far as nothing proves them; None once a
    tensor has a layout of its own, such as a window or a recast, which the storage alone bounds.
    """

    __slots__ = ("asserted",)
    asserted: Asserted | None

    def _key(self) -> tuple[Any, ...]:
        return self.name, self.dtype, self.offset, id(self.scope)  # whatever was asserted

    def at(self, offset: IntTuple) -> Self:
        """Return the memory with its origin at `offset` elements."""
        return self._with(offset=offset)

    def within(self, coord: IntTuple, shape: IntTuple) -> Self:
        """Return the memory that remembers which coordinates must be inside of a shape."""
        if self.asserted is None:
            return self
        more = tuple([b for b in _open_bounds(coord, shape, ()) if not _is_in(b, self.asserted)])
        return self._with(asserted=(*self.asserted, *more)) if more else self

    def unbounded(self) -> Self:
        """Return the memory for a layout of its own."""
        return self if self.asserted is None else self._with(asserted=None)


def _open_bounds(coord: IntTuple, shape: IntTuple, mode: tuple[int, ...]) -> list[Bounded]:
    """Return (mode, index, extent) of the parts of a coordinate that nothing proves to be inside of
    a shape; an integer may stand for a nest of modes, or for all.
    """
    if coord.__class__ is tuple:
        pairs = enumerate(zip(coord, shape, strict=True))
        return [b for i, (c, s) in pairs for b in _open_bounds(c, s, (*mode, i))]
    if is_underscore(coord):
        return []
    index, extent = ints.normalize(coord, "tensor"), product(shape)
    inside = ints.leq(0, index) is True and ints.less(index, extent) is True
    return [] if inside else [(mode, index, extent)]


def _is_in(bound: Bounded, asserted: Asserted) -> bool:
    """Tell whether the same integers were asserted of the same mode."""
    mode, *parts = bound
    return any(
        mode == x[0] and all(ints.same(*pair) is True for pair in zip(parts, x[1:], strict=True))
        for x in asserted
    )


class GlobalMemory(BoundedEngine):
    """The memory of an array parameter.

    Attributes:
        name: the name of the parameter.
        alignment: the alignment of its first element (bytes).
        offset: the offset of the origin (elements).
        packed: whether elements narrower than a byte are packed; False if each takes a byte.
    """

    __slots__ = ("alignment", "packed")
    __match_args__ = ("name", "dtype", "alignment", "scope", "offset", "asserted", "packed")
    space = "gmem"
    alignment: int
    packed: bool

    def __init__(
        self,
        name: str,
        dtype: Dtype,
        alignment: int,
        scope: Scope,
        offset: Leaf = 0,
        asserted: Asserted | None = (),
        packed: bool = False,
    ) -> None:
        self._set(name=name, dtype=dtype, alignment=alignment, scope=scope)
        self._set(offset=offset, asserted=asserted, packed=packed)

    def recast(self, dtype: Dtype, offset: Leaf) -> GlobalMemory:
        """Return the parameter in elements of `dtype`, packed if they are narrower than a byte;
        refuse to read elements that take a byte each as others.
        """
        alone = self.dtype.bits < 8 and not self.packed
        if dtype is not self.dtype and (alone or (dtype.bits < 8 and dtype.bits not in PACKED)):
            raise refusal_here("kernel-recast", operation="recast", a=self, dtype=dtype)
        packed = dtype.bits < 8 and not alone
        return self._with(dtype=dtype, offset=offset, asserted=None, packed=packed)

    def guarded(
        self, layout: AnyLayout, change: Callable[[AnyLayout], AnyLayout]
    ) -> tuple[Engine, AnyLayout] | None:
        """Return a guarded engine and its layout if the change cuts tiles: the last tile, or the
        index of a tile, may exceed the extents.
        """
        if layout.__class__ is not Layout:
            return None
        changed = change(layout)
        if changed.__class__ is not Layout or changed._s == layout._s:
            return None
        if ints.less(size(changed), size(layout)):
            return None  # a composition that picks some of the elements
        shape, stride = layout.shape, layout.stride
        if shape.__class__ is not tuple:
            layout, shape, stride = Layout((shape,), (stride,)), (shape,), (stride,)
        coordinates = change(Layout(layout.shape, make_basis_like(layout.shape)))
        return Guarded(self, shape, stride, _zeros(shape)), coordinates

    def shifted(self, layout: AnyLayout, coord: IntTuple) -> tuple[Engine, AnyLayout] | None:
        """Return a guarded engine and its layout, with the origin at `coord`."""
        moves = any(ints.is_zero(c) is not True for c in flatten((coord,)))
        if layout.__class__ is not Layout or not moves:
            return None
        shape, stride = layout.shape, layout.stride
        if shape.__class__ is not tuple:
            layout, shape, stride = Layout((shape,), (stride,)), (shape,), (stride,)
            coord = coord if coord.__class__ is tuple else (coord,)
        steps = make_basis_like(shape)
        origin = add_coordinates(_zeros(shape), crd2idx(coord, shape, steps))
        return Guarded(self, shape, stride, origin), Layout(shape, steps)


def _zeros(shape: IntTuple) -> IntTuple:
    return tuple([_zeros(s) for s in shape]) if shape.__class__ is tuple else 0


class Guarded(KernelEngine):
    """A parameter in coordinates: element c is at offset inner_product(c, stride), if c < shape.

    Attributes:
        memory: the parameter, with its origin at coordinate 0.
        shape, stride: the extents and strides (elements) of the coordinates.
        offset: the coordinate of the origin.
    """

    __slots__ = ("memory", "shape", "stride")
    __match_args__ = ("memory", "shape", "stride", "offset")
    space = "gmem"
    memory: GlobalMemory
    shape: IntTuple
    stride: IntTuple

    def __init__(
        self, memory: GlobalMemory, shape: IntTuple, stride: IntTuple, offset: IntTuple
    ) -> None:
        self._set(memory=memory, dtype=memory.dtype, name=memory.name, scope=memory.scope)
        self._set(shape=shape, stride=stride, offset=offset)

    def __add__(self, by: object) -> Engine:
        """Refuse: its origin is a coordinate."""
        raise refusal_here("engine-arithmetic", operation="kernel", engine=self)

    __radd__ = __add__

    def __str__(self) -> str:
        return f"{self.memory}[{show(self.offset)} of {show(self.shape)}]"

    def moved(self, by: IntTuple) -> Guarded:
        """Return the engine with its origin moved by a coordinate."""
        return self.at(add_coordinates(self.offset, by))

    def within(self, coord: IntTuple, shape: IntTuple) -> Guarded:
        """Return the engine that remembers which coordinates must be inside of a shape, where they
        lead to elements of the parameter: past its extents nothing is accessed.
        """
        memory = self.memory.within(coord, shape)
        return self if memory is self.memory else self._with(memory=memory)

    def at(self, offset: IntTuple) -> Guarded:
        """Return the engine with its origin at a coordinate."""
        return self._with(offset=offset)


class Storage(BoundedEngine):
    """A storage that the kernel allocates.

    Attributes:
        name: the name of the storage.
        count: its size in elements of `dtype`.
        offset: the offset of the origin (elements).
        scope: the block of the trace that made it.
    """

    __slots__ = ("count",)
    __match_args__ = ("name", "dtype", "count", "scope", "offset", "asserted")
    count: int

    def __init__(
        self,
        name: str,
        dtype: Dtype,
        count: int,
        scope: Scope,
        offset: Leaf = 0,
        asserted: Asserted | None = (),
    ) -> None:
        self._set(name=name, dtype=dtype, count=count, scope=scope)
        self._set(offset=offset, asserted=asserted)

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), self.count)

    @property
    def size(self) -> Leaf:
        """The size of the storage (elements)."""
        return self.count

    def recast(self, dtype: Dtype, offset: Leaf) -> Self:
        """Return the storage in elements of `dtype`."""
        count = self.count * self.dtype.bits // dtype.bits
        return self._with(dtype=dtype, count=count, offset=offset, asserted=None)


class SharedMemory(Storage):
    """A storage in shared memory; `rank`: of the block that has it, None for the thread's own."""

    __slots__ = ("rank",)
    __match_args__ = (*Storage.__match_args__, "rank")
    space = "smem"
    rank: Leaf | None

    def __init__(
        self,
        name: str,
        dtype: Dtype,
        count: int,
        scope: Scope,
        offset: Leaf = 0,
        asserted: Asserted | None = (),
        rank: Leaf | None = None,
    ) -> None:
        super().__init__(name, dtype, count, scope, offset, asserted)
        self._set(rank=rank)

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), self.rank)

    def of(self, rank: Leaf | None) -> Self:
        """Return the storage of the block of a rank in the cluster."""
        return self if rank is None else self._with(rank=rank)

    def __str__(self) -> str:
        there = "" if self.rank is None else f"@{self.rank}"
        return f"{super().__str__()}{there}"


class Register(Storage):
    """A register storage: every thread has its own; indices are static.

    `role`: the operand of an MMA, A, B or C, that it was made for as a fragment, else "". `copied`:
    whether it is the copy of one element that tensor[coord] returned.
    """

    __slots__ = ("copied", "role")
    __match_args__ = (*Storage.__match_args__, "role")
    space = "rmem"
    computes = True
    copied: bool
    role: str

    def __init__(
        self,
        name: str,
        dtype: Dtype,
        count: int,
        scope: Scope,
        offset: Leaf = 0,
        asserted: Asserted | None = None,
        role: str = "",
        copied: bool = False,
    ) -> None:
        super().__init__(name, dtype, count, scope, offset, None)  # its indices are static
        self._set(copied=copied, role=role)

    def as_fragment(self, role: str) -> Self:
        """Return the storage as the fragment of an operand."""
        return self if role == self.role else self._with(role=role)

    def at(self, offset: IntTuple) -> Self:
        """Return the storage with its origin at `offset` elements."""
        if offset.__class__ is not int:
            raise refusal_here("register-index", operation="Tensor", index=offset)
        return super().at(offset)

    def read(self, offset: IntTuple) -> Any:
        """Return a copy of one element: later writes to the storage do not change it."""
        return copied_element(current().record.apply("copy", self.element(offset)))

    def write(self, offset: IntTuple, value: object) -> None:
        """Record the assignment of one element."""
        if self.copied:
            raise refusal_here("kernel-element", operation="tensor")
        current().record.assign(self.element(offset), value)

    def described(self, tensor: Any, form: str, asker: FrameType) -> str:
        """Return the text of a tensor: for messages what the user's code calls it. Refuse to give
        it to the user's code, but by `repr`.
        """
        plain = super().described(tensor, "str", asker)
        if form == "repr" and not is_own(asker):
            return f"<run-time registers {plain}>"
        text = plain if form == "str" and is_own(asker) else called(tensor)
        return text_for(asker, text)

    def element(self, offset: IntTuple) -> Any:
        """Return the tensor of one element, which aliases the storage."""
        return derived(self.moved(offset), Layout(1))

    def operate(self, name: str, *operands: Any) -> Alike:
        """Record a function, element by element, and return its result in new registers."""
        record = current().record
        if name.startswith("i") and name[1:] in FUNCTIONS:
            return record.apply_in_place(name[1:], *operands)
        return record.apply(name, *operands)

    def assign(self, tensor: Tensor, value: object) -> None:
        """Record the assignment of a whole tensor."""
        current().record.assign(tensor, value)

    def convert(self, tensor: Tensor, dtype: DtypeLike, how: tuple[Any, ...]) -> Alike:
        """Record a conversion, and return its result in new registers."""
        return current().record.convert(tensor, dtype, *how)

    def as_test(self, tensor: Tensor) -> Reg:
        """Return the single element of a b1 tensor as the register of a condition."""
        return current().record.as_test(tensor)


def copied_element(tensor: Any) -> Any:  # a Tensor
    """Return a register tensor of one element as the copy that tensor[coord] returns."""
    x = tensor.engine
    held = Register(x.name, x.dtype, x.count, x.scope, x.offset, copied=True)
    return derived(held, tensor.layout)


def allocate_registers(name: str, dtype: Dtype, count: int) -> Register:
    """Return new registers of the kernel that is traced."""
    trace = current()
    if count.__class__ is not int:
        raise refusal_here("register-count", operation="cute.rmem", count=count)
    label = trace.name_for(name)
    trace.registers[label] = Registers(label, dtype, count)
    return Register(label, dtype, count, trace.scope)
