"""Allocation of a kernel's storages, and accesses of single elements."""

from __future__ import annotations

from contextlib import contextmanager

from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal_here
from cute_py.layout.layout import Layout
from cute_py.layout.queries import cosize
from cute_py.plan.conditions import Reg
from cute_py.plan.ops import Load, Store
from cute_py.plan.plan import MOST_ALIGNMENT, Shared
from cute_py.plan.verify import MOST_SHARED
from cute_py.tensor.tensor import Tensor, as_layout, derived
from cute_py.trace.arithmetic import assign, is_register, new_registers
from cute_py.trace.engines import SharedMemory, allocate_registers, copied_element
from cute_py.trace.lower import access, register
from cute_py.trace.state import current, emit, number_within, tracing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.layout.types import IntTuple, LayoutLike
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
    trace.shared[label] = shared = Shared(label, kind, count, offset, aligned)
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
