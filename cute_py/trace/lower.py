"""Lowering: what a tensor of a kernel names, as `Access` and `Reg` records.

This is the only place where layouts become addresses. A tensor is enumerated in colexicographic
order; what depends on the thread, the block or a loop goes to the bases, all else to the table.
"""

from __future__ import annotations

from cute_py.calls.places import where
from cute_py.errors import LayoutError, refusal
from cute_py.integers import ints
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.layout import Layout
from cute_py.plan.access import Access
from cute_py.plan.conditions import Reg
from cute_py.trace.engines import GlobalMemory, Guarded, KernelEngine, Register, SharedMemory
from cute_py.trace.enumeration import base_of, count_of, modes_of, sums_of
from cute_py.trace.guards import by_coordinates
from cute_py.trace.runtime_integers import bare
from cute_py.trace.state import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.dtypes.table import Dtype
    from cute_py.layout.types import Alike
    from cute_py.plan.conditions import Scalar
    from cute_py.tensor.tensor import Tensor


# -- registers


def register(tensor: Tensor, operation: str) -> Reg:
    """Return the elements of a register tensor, in order; refuse other memories and old values."""
    engine = tensor.engine
    if not isinstance(engine, Register):
        raise refusal(
            "kernel-space",
            operation=operation,
            tensor=tensor,
            wanted="registers (rmem)",
            where=where(),
        )
    engine.scope.require_open(tensor)
    offsets = static_offsets(tensor.layout, operation)
    origin = engine.offset
    index = tuple([origin + o for o in offsets])
    if min(index) < 0 or max(index) >= engine.count:
        raise refusal(
            "register-range", operation=operation, tensor=tensor, count=engine.count, where=where()
        )
    return Reg(engine.name, engine.dtype, index)


def static_offsets(layout: Alike, operation: str) -> list[int]:
    """Return the offsets of a layout whose sizes and strides are numbers."""
    if layout.__class__ is Layout and all(d.__class__ is int for d in layout._d):
        return sums_of(modes_of(layout, operation))
    if layout.__class__ is not Layout and layout.offset.__class__ is int:
        return [int(layout(i)) for i in range(count_of(layout, operation))]
    raise refusal("register-index", operation=operation, index=layout, where=where())


# -- memory


def access(tensor: Tensor, width: int, operation: str, **more: Any) -> Access:  # noqa: ANN401
    """Return the vectors of `width` elements that a tensor in memory names.

    Raises LayoutError where the elements of a vector are not neighbours, where its address may be
    misaligned, or where a part of it may lie outside of the extents.
    """
    engine = tensor.engine
    if isinstance(engine, KernelEngine):
        engine.scope.require_open(tensor)
    count = count_of(tensor.layout, operation)
    if count % width:
        raise refusal("vector-count", operation=operation, count=count, width=width, where=where())
    if isinstance(engine, Guarded):
        found = by_coordinates(tensor, engine, width, operation)
        name, space = engine.name, "gmem"
    elif isinstance(engine, (GlobalMemory, SharedMemory)):
        found = _by_offsets(tensor, width, operation)
        name, space = engine.name, engine.space
    else:
        raise refusal(
            "kernel-space",
            operation=operation,
            tensor=tensor,
            wanted="gmem or smem",
            where=where(),
        )
    result = Access(space=space, storage=name, dtype=engine.dtype, width=width, **found, **more)
    _require_aligned(result, operation)
    return result


def _by_offsets(tensor: Tensor, width: int, operation: str) -> dict[str, Any]:
    layout, origin = tensor.layout, tensor.engine.offset
    if layout.__class__ is Layout:
        fixed, moving = _split(modes_of(layout, operation))
        vectors = _vectors(fixed, moving, layout, width, operation)
        bases: dict[tuple[int, ...], int] = {}
        table = [(bases.setdefault(digits, len(bases)), o) for digits, o in vectors]
        return {
            "bases": tuple([bare(base_of(origin, digits, moving)) for digits in bases]),
            "table": tuple(table),
        }
    return _swizzled(tensor, width, operation)


def _split(modes: list[tuple[int, Any]]) -> tuple[list[Any], list[Any]]:
    """Return the modes with static strides, and the strides that are known at run time only; each
    with its place.
    """
    fixed = [(k, e, d) for k, (e, d) in enumerate(modes) if d.__class__ is int]
    moving = [(k, e, d) for k, (e, d) in enumerate(modes) if d.__class__ is not int]
    return fixed, moving


def _vectors(
    fixed: list[Any], moving: list[Any], layout: Layout, width: int, operation: str
) -> list[tuple[tuple[int, ...], int]]:
    """Return (digits of the moving modes, static offset) of every vector; refuse elements that are
    not neighbours.
    """
    modes: list[tuple[int, int, int]] = [(0, 0, 0)] * (len(fixed) + len(moving))
    for k, e, d in fixed:
        modes[k] = (e, d, -1)
    for j, (k, e, _d) in enumerate(moving):
        modes[k] = (e, 0, j)
    entries: list[tuple[tuple[int, ...], int]] = [((0,) * len(moving), 0)]
    for extent, stride, which in reversed(modes):
        if which < 0:
            entries = [(digits, o + i * stride) for digits, o in entries for i in range(extent)]
        else:
            entries = [
                ((*digits[:which], i, *digits[which + 1 :]), o)
                for digits, o in entries
                for i in range(extent)
            ]
    if width > 1:
        for v in range(0, len(entries), width):
            digits, first = entries[v]
            if entries[v : v + width] != [(digits, first + i) for i in range(width)]:
                raise refusal(
                    "vector-neighbours",
                    operation=operation,
                    layout=layout,
                    width=width,
                    offsets=[o for _digits, o in entries[v : v + width]],
                    where=where(),
                )
    return entries[::width]


def _swizzled(tensor: Tensor, width: int, operation: str) -> dict[str, Any]:
    layout, swizzle = tensor.layout, tensor.layout.outer
    if swizzle.__class__ is not Swizzle or layout.inner.__class__ is not Layout:
        raise refusal("kernel-layout", operation=operation, layout=layout, where=where())
    fixed, moving = _split(modes_of(layout.inner, operation))
    if moving:
        raise refusal("kernel-layout", operation=operation, layout=layout, where=where())
    vectors = _vectors(fixed, moving, layout.inner, width, operation)
    outside, inside = _outside(bare(layout.offset), swizzle.period)
    chunk = 2**swizzle.num_base
    starts = ints.divides(width, inside) is True and not any(o % width for _digits, o in vectors)
    if width > 1 and (chunk % width or not starts):
        raise refusal(
            "vector-swizzle",
            operation=operation,
            layout=layout,
            width=width,
            chunk=chunk,
            where=where(),
        )
    return {
        "bases": (bare(ints.add(tensor.engine.offset, outside)),),
        "inner": inside,
        "table": tuple([(0, o) for _digits, o in vectors]),
        "swizzle": (swizzle.num_bits, swizzle.num_base, swizzle.num_shft),
    }


def _outside(offset: Scalar, period: int) -> tuple[Scalar, Scalar]:
    """Return the terms of an offset that are multiples of the swizzle's period, and the others:
    swizzle(x + n*period) == swizzle(x) + n*period.
    """
    if isinstance(offset, int):
        return offset // period * period, offset % period
    terms = terms_of(offset)
    outer = {m: c for m, c in terms.items() if c % period == 0}
    inner = {m: c for m, c in terms.items() if c % period}
    return _scalar(outer), _scalar(inner)


def _scalar(terms: Any) -> Scalar:  # noqa: ANN401  (a polynomial)
    if not terms or set(terms) == {()}:
        return int(terms.get((), 0))
    return SymInt(terms)


# -- alignment


def _require_aligned(x: Access, operation: str) -> None:
    """Refuse vectors whose address is not known to be a multiple of their size."""
    if x.width == 1:
        return
    alignment = alignment_of(x.space, x.storage)
    bits = x.vector_bits
    offsets = [*x.bases, *[o for _b, o in x.table]] if x.swizzle is None else list(x.bases)
    loose = next((o for o in offsets if ints.divides(x.width, o) is not True), None)
    if alignment * 8 % bits or loose is not None:
        raise refusal(
            "vector-alignment",
            operation=operation,
            bits=bits,
            storage=x.storage,
            alignment=alignment,
            offset=0 if loose is None else loose,
            width=x.width,
            dtype=x.dtype,
            where=where(),
        )


def alignment_of(space: str, storage: str) -> int:
    """Return the alignment of a storage's first element (bytes)."""
    trace = current()
    owner = trace.params if space == "gmem" else trace.shared
    return int(owner[storage].alignment)


def vector_width(a: Tensor, most_bits: int, operation: str) -> int:
    """Return the widest vector (elements) that `access` accepts, of at most so many bits."""
    count, bits = count_of(a.layout, operation), element_bits(a)
    width = 1
    while width * 2 * bits <= most_bits and count % (width * 2) == 0:
        try:
            access(a, width * 2, operation)
        except LayoutError:
            break
        width *= 2
    return width


def element_bits(tensor: Tensor) -> int:
    """Return the width of an element (bits)."""
    dtype: Dtype = tensor.engine.dtype
    return dtype.bits
