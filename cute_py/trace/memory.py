"""The memory of a kernel: its storages, accesses of single elements, and global memory at addresses
that are known only at run time: pointers, and tables of them.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

from cute_py.dtypes.packing import PACKED
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.dtypes.table import s64
from cute_py.errors import kernel_line, refusal_here
from cute_py.integers import ints
from cute_py.layout.layout import Layout
from cute_py.layout.queries import cosize
from cute_py.layout.tuples import _
from cute_py.plan.conditions import Reg, uniformity
from cute_py.plan.launch import MOST_SHARED
from cute_py.plan.ops import Let, Load, MakePtr, Store
from cute_py.plan.params import MOST_ALIGNMENT, Shared
from cute_py.tensor.tensor import Tensor, as_layout, derived
from cute_py.trace.arithmetic import assign, is_register, new_registers
from cute_py.trace.copying import copy
from cute_py.trace.engines import GlobalMemory, SharedMemory, allocate_registers, copied_element
from cute_py.trace.lower import access, register
from cute_py.trace.runtime_integers import Int, bare, new_symbol
from cute_py.trace.state import current, emit, number_within, tracing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.layout.types import IntTuple, LayoutLike, Leaf
    from cute_py.trace.engines import KernelEngine


def smem(dtype: DtypeLike, layout: LayoutLike, alignment: int = 128, name: str = "s") -> Tensor:
    """Allocate a tensor in shared memory.

    Args:
        dtype: the type of the elements.
        layout: a Layout, a ComposedLayout (swizzled), or a shape.
        alignment: the alignment of the first element (bytes), a power of two up to 1024, which TMA
            needs with the widest swizzle.
        name: the stem of the storage's name in the plan.

    """
    trace = current()
    kind = as_dtype(dtype)
    layout = as_layout(layout, "cute.smem")
    count = cosize(layout)
    if count.__class__ is not int:
        raise refusal_here("register-count", operation="cute.smem", count=count)
    aligned = number_within(alignment, "cute.smem", 1, MOST_ALIGNMENT)
    if aligned & (aligned - 1):
        powers = "1, 2, 4 ... 1024"
        raise refusal_here("kernel-choice", operation="cute.smem", value=alignment, choices=powers)
    label = trace.name_for(name)
    offset = trace.place(aligned)
    trace.shared[label] = shared = Shared(label, kind, count, offset, aligned, layout)
    if offset + shared.bytes > MOST_SHARED:  # early: a kernel with many stages is slow to trace
        size = offset + shared.bytes
        raise refusal_here("plan-shared", operation=trace.name, bytes=size, most=MOST_SHARED)
    trace.take(offset + shared.bytes)
    return derived(SharedMemory(label, kind, count, trace.root), layout)


@contextmanager
def union() -> Iterator[None]:
    """`with cute.union():` allocates the storages inside at the same offset.

    They overlap, so only one may be live at a time; the emulator finds a read of memory that
    another one has overwritten, without a barrier in between.
    """
    trace = current()
    start = trace.place(1)
    trace.unions.append([start, start])
    try:
        yield
    finally:
        trace.take(trace.unions.pop()[1])


@contextmanager
def struct() -> Iterator[None]:
    """`with cute.struct():` inside of a union makes consecutive storages one member."""
    trace = current()
    start, (unions, top) = trace.place(1), (trace.unions, trace.top)
    trace.unions, trace.top = [], start
    try:
        yield
    finally:
        end, trace.unions, trace.top = trace.top, unions, top
        trace.take(end)


def rmem(dtype: DtypeLike, layout: LayoutLike, name: str = "r") -> Tensor:
    """Allocate a tensor in registers; every thread has its own.

    Args:
        dtype: the type of the elements.
        layout: a Layout, or a shape (compact).
        name: the stem of the storage's name in the plan.

    """
    layout = as_layout(layout, "cute.rmem")
    return derived(allocate_registers(name, as_dtype(dtype), cosize(layout)), layout)


def registers_of(name: str, dtype: DtypeLike, count: int) -> KernelEngine | None:
    """Return registers of the kernel that is traced, for `make_rmem_tensor`, or None."""
    return None if tracing() is None else allocate_registers(name, as_dtype(dtype), count)


# -- single elements


def load_element(engine: KernelEngine, offset: IntTuple) -> Tensor:
    """Record the load of one element to a register, and return it."""
    src = access(_element(engine, offset), 1, "tensor[coord]")
    held = new_registers(_kind(engine), 1, "x")
    emit(Load, register(held, "tensor[coord]"), src)
    element: Tensor = copied_element(held)
    return element


def store_element(engine: KernelEngine, offset: IntTuple, value: object) -> None:
    """Record the store of one element."""
    dst = access(_element(engine, offset), 1, "tensor[coord] = value")
    src = element_register(value, _kind(engine), "tensor[coord] = value")
    emit(Store, dst, src)


def element_register(value: object, kind: Dtype, operation: str) -> Reg:
    """Return a value in a register of one element of a type."""
    if is_register(value):
        if value.dtype is not kind:  # type: ignore[attr-defined]
            raise refusal_here(
                "kernel-types",
                operation=operation,
                a=kind,
                b=value.dtype,  # type: ignore[attr-defined]
            )
        return register(value, operation)  # type: ignore[arg-type]
    held = new_registers(kind, 1, "x")
    assign(held, value)
    return register(held, operation)


def _element(engine: KernelEngine, offset: IntTuple) -> Tensor:
    return derived(engine.moved(offset), Layout(1, 0))


def _kind(engine: KernelEngine) -> Dtype:
    kind: Dtype = engine.dtype
    return kind


# -- global memory at run-time addresses


def memory_at(dtype: DtypeLike, address: Leaf, align: int | None = None) -> GlobalMemory | None:
    """Return the global memory at a run-time address, for `make_ptr`; None for other addresses."""
    if tracing() is None or not isinstance(address, Int):
        return None
    kind = as_dtype(dtype)
    alignment = max(kind.bits // 8, 1) if align is None else ints.as_int(align, "make_ptr")
    fits = kind.bits in (*PACKED, 8, 16, 32, 64)
    if not fits or alignment < kind.bits // 8 or alignment & (alignment - 1):
        raise refusal_here("pointer-type", operation="make_ptr", dtype=kind, align=align)
    return _memory(kind, address, alignment)


def _memory(kind: Dtype, address: Leaf, alignment: int) -> GlobalMemory:
    trace = current()
    name = trace.name_for("ptr")
    op = MakePtr(name, bare(address), kind, alignment, line=kernel_line())
    trace.emit(op)
    trace.pointers[name] = op
    return GlobalMemory(name, kind, alignment, trace.scope, packed=op.packed)


class Tensors:
    """The arrays of a `TensorArray` in a kernel: `arrays[i]` is the tensor of one of them.

    Address, extents and strides are read from the table; threads agree on them where they agree on
    the index. `count` is the number of arrays.
    """

    __slots__ = ("_members", "_table")

    def __init__(self, table: Tensor, members: Any) -> None:  # ArrayFacts
        self._table, self._members = table, members

    @property
    def count(self) -> Leaf:
        """The number of arrays."""
        return self._table.shape[0]

    @property
    def dtype(self) -> Dtype:
        """The type of the elements."""
        kind: Dtype = self._members.dtype
        return kind

    def __len__(self) -> NoReturn:
        self._refuse("len()", "arrays.count")

    def __iter__(self) -> NoReturn:
        self._refuse("iteration", "for i in cute.range(arrays.count): arrays[i]")

    def __getitem__(self, index: Leaf) -> Tensor:
        """Read a row of the table, and return the tensor that it describes."""
        index = ints.normalize(index, "TensorArray")
        facts = self._members
        values = iter(self._values(index))
        address = next(values)(facts.alignment, 0)
        shape = tuple([next(values)(m, 1) if n is None else n for m, n in facts.extents])
        stride = tuple([next(values)(m, 0) if n is None else n for m, n in facts.strides])
        return derived(_memory(facts.dtype, address, facts.alignment), Layout(shape, stride))

    def _values(self, index: Leaf) -> list[Any]:
        """Return for each number of a row a function from its divisor and lower bound to a run-time
        integer.
        """
        row = self._table[index, _]
        held = new_registers(s64, row.shape, "row")
        copy(row, held)
        whole = register(held, "TensorArray")
        scope = uniformity(current().uniform, bare(index))

        def value(i: int, divisor: int, low: int) -> Leaf:
            trace = current()
            name = trace.integer_name()
            emit(Let, name, "reg", (Reg(whole.storage, s64, (whole.index[i],)),))
            return new_symbol(trace, name, divisor, low, None, scope)

        return [partial(value, i) for i in range(len(whole))]

    def _refuse(self, use: str, instead: str) -> NoReturn:
        raise refusal_here(
            "trace-python", operation="kernel", value="arrays", use=use, instead=instead
        )
