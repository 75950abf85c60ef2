"""Lowering: the elements of a kernel's tensor as `Access` and `Reg` records.

This is the only place where layouts become addresses. A tensor is enumerated in colexicographic
order. Offsets that depend on the thread, the block or a loop go to the bases, static ones to the
table.
"""

from __future__ import annotations

from cute_py.errors import LayoutError, refusal_here
from cute_py.integers import ints
from cute_py.integers.polynomial import Symbol
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.layout import Layout
from cute_py.layout.tuples import flatten
from cute_py.plan.access import Access, Bound
from cute_py.plan.conditions import Compare, Reg
from cute_py.trace.engines import GlobalMemory, Guarded, KernelEngine, Register, SharedMemory
from cute_py.trace.runtime_integers import Condition, bare, compare
from cute_py.trace.state import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.dtypes.table import Dtype
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf
    from cute_py.plan.conditions import Cond, Scalar
    from cute_py.tensor.tensor import Tensor
    from cute_py.trace.engines import Asserted


# -- a layout, enumerated: its flat modes, and the offsets of their indices


def count_of(layout: AnyLayout, operation: str) -> int:
    """Return the number of elements; refuse one that is known only at run time."""
    count = layout.size()
    if count.__class__ is not int:
        raise refusal_here("kernel-size", operation=operation, layout=layout)
    return int(count)


def modes_of(layout: Layout, operation: str) -> list[tuple[int, Any]]:
    """Return (extent, stride) of the flat modes of extent above 1; refuse run-time sizes."""
    modes = list(zip(layout._s, layout._d, strict=True))
    for extent, _stride in modes:
        if extent.__class__ is not int:
            raise refusal_here("kernel-size", operation=operation, layout=layout)
    return [(extent, stride) for extent, stride in modes if extent != 1]


def sums_of(modes: list[tuple[int, int]]) -> list[int]:
    """Return the offset of every index of flat modes, the first one fastest."""
    offsets = [0]
    for extent, stride in reversed(modes):
        # starting from the slowest mode: each offset is repeated for the next faster mode
        offsets = [o + i * stride for o in offsets for i in range(extent)]
    return offsets


def base_of(origin: Leaf, digits: tuple[int, ...], moving: list[Any]) -> Leaf:
    """Return the origin moved by `digits` steps along (position, extent, stride) modes."""
    total = origin
    for digit, (_k, _e, stride) in zip(digits, moving, strict=True):
        total = ints.add(total, ints.mul(digit, stride))
    return total


# -- registers

COPY = "copy it there first: cute.copy(src, dst)"


def register(tensor: Tensor, operation: str) -> Reg:
    """Return the elements of a register tensor, in order; refuse other spaces and stale values."""
    engine = tensor.engine
    if not isinstance(engine, Register):
        raise refusal_here(
            "kernel-space", operation=operation, tensor=tensor, wanted="registers (rmem)", how=COPY
        )
    engine.scope.require_open(tensor)
    offsets = static_offsets(tensor.layout, operation)
    origin = engine.offset
    index = tuple([origin + o for o in offsets])
    if min(index) < 0 or max(index) >= engine.count:
        raise refusal_here("register-range", operation=operation, tensor=tensor, count=engine.count)
    return Reg(engine.name, engine.dtype, index)


def static_offsets(layout: Alike, operation: str) -> list[int]:
    """Return the offsets of a layout with static sizes and strides."""
    if layout.__class__ is Layout and all(d.__class__ is int for d in layout._d):
        return sums_of(modes_of(layout, operation))
    if layout.__class__ is not Layout and layout.offset.__class__ is int:
        return [int(layout(i)) for i in range(count_of(layout, operation))]
    raise refusal_here("register-index", operation=operation, index=layout)


# -- memory


def access(tensor: Tensor, width: int, operation: str, **more: Any) -> Access:
    """Return a tensor in memory as vectors of `width` elements.

    Raises LayoutError if the elements of a vector are not contiguous, if its address may be
    misaligned, or if it may be partly outside of the extents.
    """
    engine = tensor.engine
    if isinstance(engine, KernelEngine):
        engine.scope.require_open(tensor)
    count = count_of(tensor.layout, operation)
    if count % width:
        raise refusal_here("vector-count", operation=operation, count=count, width=width)
    packed = is_packed(tensor)
    if packed and width * engine.dtype.bits % 8:
        raise refusal_here("vector-byte", operation=operation, width=width, dtype=engine.dtype)
    if isinstance(engine, Guarded):
        found = by_coordinates(tensor, engine, width, operation)
        name, space, asserted = engine.name, "gmem", engine.memory.asserted
    elif isinstance(engine, (GlobalMemory, SharedMemory)):
        found = _by_offsets(tensor, width, operation)
        name, space, asserted = engine.name, engine.space, engine.asserted
        if isinstance(engine, SharedMemory) and engine.rank is not None:
            found["rank"] = bare(engine.rank, "cute.mapa")
    else:
        how = f"{COPY}; x[i] is a copy in registers, cute.local_tile(x, (1,), (i,)) is the element"
        if getattr(engine, "copied", False):  # its place in memory is not known any more
            how = "pass the element itself, cute.local_tile(x, (1,), (i,)); x[i] is a copy of it"
        facts = {"tensor": tensor, "wanted": "gmem or smem", "how": how}
        raise refusal_here("kernel-space", operation=operation, **facts)
    if asserted:
        found["asserted"] = _asserted(asserted)
    found |= {"packed": packed, **more}
    result = Access(space=space, storage=name, dtype=engine.dtype, width=width, **found)
    _require_aligned(result, operation)
    return result


def require_own(tensor: Tensor, operation: str, instead: str) -> None:
    """Refuse the shared memory of another block, which only loads, stores and atomics access."""
    if getattr(tensor.engine, "rank", None) is not None:
        raise refusal_here("mapa-operand", operation=operation, value=tensor, instead=instead)


def is_packed(tensor: Tensor) -> bool:
    """Return whether the elements of a tensor in global memory are packed: several in a byte."""
    engine = tensor.engine
    memory = engine.memory if isinstance(engine, Guarded) else engine
    return isinstance(memory, GlobalMemory) and memory.packed


def _asserted(bounds: Asserted) -> tuple[Bound, ...]:
    """Return the bounds of coordinates that neither ranges nor the launch prove."""
    return tuple(
        [
            Bound(mode, bare(index), bare(extent))
            for mode, index, extent in bounds
            if not (surely(compare("le", 0, index)) and surely(compare("lt", index, extent)))
        ]
    )


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
    """Return the modes with static and those with run-time strides, each with its position."""
    fixed = [(k, e, d) for k, (e, d) in enumerate(modes) if d.__class__ is int]
    moving = [(k, e, d) for k, (e, d) in enumerate(modes) if d.__class__ is not int]
    return fixed, moving


def _vectors(
    fixed: list[Any], moving: list[Any], layout: Layout, width: int, operation: str
) -> list[tuple[tuple[int, ...], int]]:
    """Return (digits of the run-time modes, static offset) of every vector; refuse vectors whose
    elements are not contiguous.
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
                raise refusal_here(
                    "vector-neighbours",
                    operation=operation,
                    layout=layout,
                    width=width,
                    offsets=[o for _digits, o in entries[v : v + width]],
                )
    return entries[::width]


def _swizzled(tensor: Tensor, width: int, operation: str) -> dict[str, Any]:
    layout, swizzle = tensor.layout, tensor.layout.outer
    if swizzle.__class__ is not Swizzle or layout.inner.__class__ is not Layout:
        raise refusal_here("kernel-layout", operation=operation, layout=layout)
    fixed, moving = _split(modes_of(layout.inner, operation))
    if moving:
        raise refusal_here("kernel-layout", operation=operation, layout=layout)
    vectors = _vectors(fixed, moving, layout.inner, width, operation)
    outside, inside = _outside(bare(layout.offset), swizzle.period)
    chunk = 2**swizzle.num_base
    starts = ints.divides(width, inside) is True and not any(o % width for _digits, o in vectors)
    if width > 1 and (chunk % width or not starts):
        raise refusal_here(
            "vector-swizzle", operation=operation, layout=layout, width=width, chunk=chunk
        )
    return {
        "bases": (bare(ints.add(tensor.engine.offset, outside)),),
        "inner": inside,
        "table": tuple([(0, o) for _digits, o in vectors]),
        "swizzle": (swizzle.num_bits, swizzle.num_base, swizzle.num_shft),
    }


def _outside(offset: Scalar, period: int) -> tuple[Scalar, Scalar]:
    """Split an offset into the terms that are multiples of the swizzle's period, and the others:
    swizzle(x + n*period) == swizzle(x) + n*period.
    """
    if isinstance(offset, int):
        return offset // period * period, offset % period
    terms = terms_of(offset)
    outer = {m: c for m, c in terms.items() if c % period == 0}
    inner = {m: c for m, c in terms.items() if c % period}
    return _scalar(outer), _scalar(inner)


def _scalar(terms: Any) -> Scalar:  # a polynomial
    if not terms or set(terms) == {()}:
        return int(terms.get((), 0))
    return SymInt(terms)


# -- alignment


def _require_aligned(x: Access, operation: str) -> None:
    """Refuse vectors whose address is not provably a multiple of their size."""
    if x.width == 1:
        return
    alignment = alignment_of(x.space, x.storage)
    bits = x.vector_bits
    offsets = [*x.bases, *[o for _b, o in x.table]] if x.swizzle is None else list(x.bases)
    loose = next((o for o in offsets if ints.divides(x.width, o) is not True), None)
    if alignment * 8 % bits or loose is not None:
        raise refusal_here(
            "vector-alignment",
            operation=operation,
            bits=bits,
            storage=x.storage,
            alignment=alignment,
            offset=0 if loose is None else loose,
            width=x.width,
            dtype=x.dtype,
        )


def alignment_of(space: str, storage: str) -> int:
    """Return the alignment of a storage's first element (bytes)."""
    trace = current()
    if space != "gmem":
        return int(trace.shared[storage].alignment)
    known = trace.params.get(storage) or trace.pointers[storage]
    return int(known.alignment)


def widest_access(a: Tensor, most_bits: int, operation: str, **more: Any) -> Access:
    """Return the `access` of the widest vectors of at most `most_bits` that there is."""
    count, bits, found = count_of(a.layout, operation), element_bits(a), None
    width = max(1, 8 // bits) if is_packed(a) and count % max(1, 8 // bits) == 0 else 1
    while width * 2 * bits <= most_bits and count % (width * 2) == 0:
        try:
            found = access(a, width * 2, operation, **more)
        except LayoutError:
            break
        width *= 2
    return access(a, width, operation, **more) if found is None else found


def element_bits(tensor: Tensor) -> int:
    """Return the width of an element (bits)."""
    dtype: Dtype = tensor.engine.dtype
    return dtype.bits


# -- tensors in coordinates of a parameter: offsets, and guards where they may be outside of its
# extents


def by_coordinates(tensor: Tensor, engine: Guarded, width: int, operation: str) -> dict[str, Any]:
    """Return bases, table and guards of a tensor in coordinates of a parameter."""
    layout = tensor.layout
    starts, strides, extents = (
        list(flatten(x)) for x in (engine.offset, engine.stride, engine.shape)
    )
    axis = {path: j for j, path in enumerate(_paths(engine.shape))}
    modes = [(e, *_axis(d, axis, layout, operation)) for e, d in modes_of(layout, operation)]
    entries = [(0,) * len(starts)]
    for extent, j, step in reversed(modes):
        entries = [
            (*c[:j], c[j] + i * step, *c[j + 1 :]) if step else c
            for c in entries
            for i in range(extent)
        ]
    bases: dict[tuple[int, ...], int] = {}
    guards: dict[Any, int] = {}
    known: dict[tuple[int, int], tuple[int, ...]] = {}  # the guards of each (axis, coordinate)
    table, masks = [], []
    for v in range(0, len(entries), width):
        coord = entries[v]
        _require_neighbours(entries[v : v + width], strides, layout, width, operation)
        moving = tuple(
            [0 if d.__class__ is int else x for x, d in zip(coord, strides, strict=True)]
        )
        static = sum([x * d for x, d in zip(coord, strides, strict=True) if d.__class__ is int])
        table.append((bases.setdefault(moving, len(bases)), static))
        mask: list[int] = []
        for j, x in enumerate(coord):
            if (j, x) not in known:
                start, wide = ints.add(starts[j], x), width if _is_one(strides[j]) else 1
                tests = _guards(start, extents[j], wide, operation)
                known[j, x] = tuple([guards.setdefault(t, len(guards)) for t in tests])
            mask.extend(known[j, x])
        masks.append(tuple(mask))
    origin = engine.memory.offset
    for x, d in zip(starts, strides, strict=True):
        origin = ints.add(origin, ints.mul(x, d))
    first = [(0, 0, d) for d in strides]
    found: dict[str, Any] = {
        "bases": tuple([bare(base_of(origin, digits, first)) for digits in bases]),
        "table": tuple(table),
    }
    if guards:
        found |= {"guards": tuple(guards), "masks": tuple(masks)}
    return found


def _paths(shape: IntTuple, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    if shape.__class__ is tuple:
        return [p for i, s in enumerate(shape) for p in _paths(s, (*path, i))]
    return [path]


def _axis(
    stride: Any,  # a stride
    axis: dict[tuple[int, ...], int],
    layout: AnyLayout,
    operation: str,
) -> tuple[int, int]:
    """Return (axis, step) of the coordinate that a stride moves."""
    if stride.__class__ is int and stride == 0:
        return 0, 0
    step = getattr(stride, "value", None)
    if step.__class__ is not int:
        raise refusal_here("kernel-layout", operation=operation, layout=layout)
    return axis[stride.path], step


def _require_neighbours(
    coords: list[tuple[int, ...]], strides: list[Any], layout: AnyLayout, width: int, operation: str
) -> None:
    if width == 1:
        return
    first = coords[0]
    units = [j for j, d in enumerate(strides) if _is_one(d)]
    for j in units:
        if coords == [(*first[:j], first[j] + i, *first[j + 1 :]) for i in range(width)]:
            return
    raise refusal_here(
        "vector-neighbours", operation=operation, layout=layout, width=width, offsets=coords
    )


def _is_one(stride: object) -> bool:
    return stride.__class__ is int and stride == 1


def _guards(start: Leaf, extent: Leaf, width: int, operation: str) -> list[Cond]:
    """Return the conditions for the elements of a vector to be inside of an extent."""
    if width > 1:
        _require_whole(start, extent, width, operation)
    both = compare("le", 0, start), compare("lt", start, extent)
    open_ = [inside for inside in both if not surely(inside)]
    return [x.cond if isinstance(x, Condition) else Compare("lt", 1, 0) for x in open_]


def surely(inside: bool | Condition) -> bool:
    """Return whether a comparison is true for all values of its symbols."""
    return inside is True or (isinstance(inside, Condition) and _stays_below(inside.cond))


def _stays_below(test: Cond) -> bool:
    """Return whether a < b follows from the upper limits of the symbols of a: the extents of the
    grid, or the stop of a loop.
    """
    if not isinstance(test, Compare) or test.test != "lt":
        return False
    most: Leaf = test.a
    for name, limit in current().limits.items():
        most = _at_most(most, name, limit)
    return most is not test.a and ints.less(most, test.b) is True


def _at_most(x: Leaf, name: str, limit: Leaf) -> Leaf:
    """Return x with the greatest value of a symbol, if x is linear and increasing in it."""
    if not isinstance(x, SymInt):
        return x
    alone = [m for m in x._terms if any(s.name == name for atom in m for s in atom.symbols)]
    if len(alone) != 1 or len(alone[0]) != 1 or not isinstance(alone[0][0], Symbol):
        return x
    factor = x._terms[alone[0]]
    if factor < 0:
        return x
    step = ints.sub(ints.sub(limit, 1), SymInt({alone[0]: 1}))
    return ints.add(x, ints.mul(factor, step))


def _require_whole(start: Leaf, extent: Leaf, width: int, operation: str) -> None:
    """Refuse vectors that may be partly outside of an extent."""
    if ints.divides(width, extent) and ints.divides(width, start):
        return
    last = ints.add(start, width - 1)
    if not (surely(compare("le", 0, start)) and surely(compare("lt", last, extent))):
        raise refusal_here(
            "vector-extent", operation=operation, extent=extent, start=start, width=width
        )
