"""A thread's part of an operand: a slice, registers, or descriptors of shared memory; and views of
its part of C: some columns, its rows, and as operand A of a product that follows.
"""

from __future__ import annotations

from cute_py.atoms.gmma import gmma_fragment
from cute_py.errors import LayoutError, UndecidedError, refusal
from cute_py.integers import ints
from cute_py.layout import Mapped, tuples
from cute_py.layout.algebra.coalesce import coalesce
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.divide import logical_divide
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.layout import Layout, make_layout
from cute_py.layout.modes import domain_offset, get, slice_and_offset
from cute_py.layout.queries import rank, size
from cute_py.layout.tuples import _, show
from cute_py.tensor.tensor import (
    Tensor,
    derived,
    make_fragment_like,
    make_rmem_tensor,
    make_tensor,
    require_tensor,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.atoms.mma import MMA_Atom
    from cute_py.dtypes.table import Dtype
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf
    from cute_py.tiled.tiled_mma import TiledMMA

PAIRS = 8  # columns of C that four threads hold in pairs


def on_layout(change: Callable[[AnyLayout], AnyLayout], x: AnyLayout) -> Alike:
    """Apply `change` to a layout, or to the layout of a tensor."""
    return x.with_layout(change(x.layout)) if isinstance(x, Tensor) else change(x)


def part_at(coord: IntTuple, x: AnyLayout) -> Alike:
    """Return the modes that `coord` leaves free: a tensor, or (layout, offset) for a layout."""
    return x[coord] if isinstance(x, Tensor) else slice_and_offset(coord, x)


def whole(rank: int) -> IntTuple:
    """Return the coordinate that leaves all of `rank` modes free: `_` itself for one mode, as
    CuTe's repeat<1>.
    """
    return (_,) * rank if rank > 1 else _


def checked_mode(mode: object, extents: tuple[int, ...], operation: str) -> int:
    """Return the index of a mode of a tile; refuse one that it does not have."""
    index = ints.as_int(ints.normalize(mode, operation), operation)
    if not 0 <= index < len(extents):
        raise refusal(
            "mode-range",
            operation=operation,
            mode=mode,
            layout=f"the tile {show(extents)}",
            rank=len(extents),
            last=len(extents) - 1,
        )
    return index


def make_fragment(atom: MMA_Atom, operand: str, part: AnyLayout) -> Alike:
    """Return the fragment for a part of operand "A", "B" or "C": for a tensor, a tensor of
    registers; for a layout or (layout, offset), their layout; for an operand that the atom reads
    from shared memory, descriptors.
    """
    layout, dtype = layout_of(part, f"make_fragment_{operand}"), _dtype(atom, operand)
    if operand != "C" and getattr(atom, f"{operand.lower()}_memory") == "smem":
        return _descriptors(atom, operand, part, layout)
    unordered = operand == "C" or _is_in_coordinates(layout)
    try:
        compact = Layout(layout.shape) if unordered else make_fragment_like(layout)
    except UndecidedError as error:
        facts = {**error.facts, "operation": f"make_fragment_{operand}"}
        raise refusal(error.code, **facts) from None  # type: ignore[arg-type]
    if not isinstance(part, Tensor):
        return compact
    held = make_rmem_tensor(compact, dtype)
    return derived(held.engine.as_fragment(operand), held.layout)


def holds(held: Dtype, wanted: Dtype) -> bool:
    """Return whether an instruction on `wanted` accepts elements of `held`: the same type, f32 for
    tf32, or the bits of a floating-point number as an unsigned word.

    >>> from cute_py.dtypes import dtype
    >>> holds(dtype("u8"), dtype("e4m3")), holds(dtype("bf16"), dtype("f16"))
    (True, False)
    """
    if held is wanted or (held.name, wanted.name) == ("f32", "tf32"):
        return True
    return held.bits == wanted.bits and held.kind == "uint" and wanted.kind == "float"


def layout_of(part: Alike, operation: str) -> Alike:
    """Return the layout of a part: a tensor, (layout, offset) or (descriptor, layout)."""
    if part.__class__ is tuple and len(part) == 2:
        part = part[1] if isinstance(part[1], Mapped) else part[0]
    layout = part.layout if isinstance(part, Tensor) else part
    if not isinstance(layout, Mapped):
        raise refusal("not-a-layout", operation=operation, value=part)
    return layout


def _is_in_coordinates(layout: AnyLayout) -> bool:
    """Return whether strides are basis elements, as for arrays in a kernel: these have no order."""
    plain = layout.__class__ is Layout
    return plain and any(x.__class__ is ScaledBasis for x in tuples.leaves(layout.stride))


def _dtype(atom: MMA_Atom, operand: str) -> Dtype:
    dtype: Dtype = getattr(atom, f"{operand.lower()}_type")
    return dtype


def _descriptors(atom: MMA_Atom, operand: str, part: AnyLayout, layout: AnyLayout) -> Alike:
    """Return `gmma_fragment`; refuse elements of another width, and name the major if that is the
    only fault.
    """
    dtype, major = _dtype(atom, operand), getattr(atom, f"major_{operand.lower()}")
    facts: Any = {"operation": f"make_fragment_{operand}", "atom": atom, "operand": operand}
    held = getattr(part, "dtype", None)
    if held is not None and not holds(held, dtype):
        raise refusal("operand-dtype", **facts, held=held, dtype=dtype)
    try:
        return gmma_fragment(layout, dtype, major)
    except LayoutError:
        other = "MN" if major == "K" else "K"
        if not _is_canonical(layout, dtype, other):
            raise
    raise refusal("operand-major", **facts, layout=layout, given=other, major=major)


def _is_canonical(layout: AnyLayout, dtype: Dtype, major: str) -> bool:
    try:
        gmma_fragment(layout, dtype, major)
    except LayoutError:
        return False
    return True


# -- views of a thread's part of C


def columns_C(mma: TiledMMA, part: Tensor, first: Leaf, count: Leaf) -> Tensor:
    """Return `mma.columns_C(part, first, count)`."""
    require_tensor(part, "columns_C")
    first, count = (
        ints.as_int(ints.normalize(x, "columns_C"), "columns_C") for x in (first, count)
    )
    n, unit = mma.atom.shape_mnk[1], _columns_of_a_step(mma.atom)
    shape: Alike = tuple(part.layout.shape) if rank(part.layout) == 3 else (1, 1, 0)
    origin: Alike
    inside = 0 <= first < first + count <= n * size(shape[2]) and mma.tile_size(1) == n
    if inside and first % n == count % n == 0:
        origin, shape = (0, 0, first // n), (*shape[:2], count // n)
    elif inside and first % unit == count % unit == 0 and first % n + count <= n:
        values = shape[0]
        origin = ((*[0] * (len(values) - 1), first % n // unit), 0, first // n)
        shape = (*values[:-1], count // unit), shape[1], 1
    else:
        raise refusal(
            "mma-columns",
            operation="columns_C",
            atom=mma.atom,
            part=part.layout,
            first=first,
            last=first + count - 1,
            unit=min(unit, n),
        )
    return composition(domain_offset(origin, part), shape)


def rows_C(mma: TiledMMA, part: Tensor) -> Tensor:
    """Return `mma.rows_C(part)`."""
    rows, columns = _by_rows(mma, part, "rows_C")
    return make_tensor(part.data, make_layout(rows, columns))


def spread_C(mma: TiledMMA, x: Tensor, part: Tensor) -> Tensor:
    """Return `mma.spread_C(x, part)`."""
    rows, _columns = _by_rows(mma, part, "spread_C")
    require_tensor(x, "spread_C")
    if coalesce(x.layout) != Layout(size(rows)):
        given = f"numbers {x.layout} for {size(rows)} rows of a thread"
        wanted = "a number for each row, one after the other: cute.rmem('f32', rows)"
        raise refusal("mma-views", operation="spread_C", given=given, wanted=wanted)
    shape, step = part.layout.shape, 1
    strides: list[Alike] = []
    for n, is_row in zip(tuples.wrap(shape[0]), _are_rows(mma.atom), strict=True):
        strides.append(step if is_row else 0)
        step *= n if is_row else 1
    along = tuples.prefix_product(shape[1], step), tuples.repeat_like(shape[2], 0)
    return make_tensor(x.data, Layout(shape, (tuples.nested_like(shape[0], strides), *along)))


def as_A(mma: TiledMMA, part: Tensor) -> Tensor:
    """Return `mma.as_A(part)`."""
    require_tensor(part, "as_A")
    layout, atom = part.layout, mma.atom
    pairs = rank(layout) == 3 and tuples.wrap(layout.shape[0])[:2] == (2, 2)
    if not pairs or not _reads_pairs(atom):
        wanted = "accumulators of tiles of 8 columns, ((2,2),M,N) or ((2,2,n),M,N), and an atom"
        wanted += " whose A has 16 columns of 16 bits"
        given = f"a part {layout} of C as A of {atom}"
        raise refusal("mma-views", operation="as_A", given=given, wanted=wanted)
    values = get(layout, 0)
    eights = [get(values, i) for i in range(2, len(values))] + [get(layout, 2)]
    halves = logical_divide(make_layout(*eights) if len(eights) > 1 else eights[0], 2)
    fragment = make_layout(get(values, 0), get(values, 1), get(halves, 0))
    return make_tensor(part.data, make_layout(fragment, get(layout, 1), get(halves, 1)))


def _by_rows(mma: TiledMMA, part: Tensor, operation: str) -> tuple[Layout, Layout]:
    """Return the layouts of the rows and of the columns of a part."""
    require_tensor(part, operation)
    layout, are_rows = part.layout, _are_rows(mma.atom)
    values = get(mma.atom.c_tv, 1).shape
    if rank(layout) != 3 or not tuples.congruent(layout.shape[0], values):
        wanted = f"a thread's part ({tuples.show(values)},M,N) of C, as partition_C returns it"
        given = f"a part {layout} of {mma.atom}"
        raise refusal("mma-views", operation=operation, given=given, wanted=wanted)
    modes = [get(get(layout, 0), i) for i in range(len(are_rows))]
    rows = [x for x, is_row in zip(modes, are_rows, strict=True) if is_row]
    columns = [x for x, is_row in zip(modes, are_rows, strict=True) if not is_row]
    return make_layout(*rows, get(layout, 1)), make_layout(*columns, get(layout, 2))


def _are_rows(atom: MMA_Atom) -> list[bool]:
    """Return for each mode of a thread's values of C whether it steps over rows."""
    return [d % atom.shape_mnk[0] != 0 for d in get(atom.c_tv, 1)._d]


def _reads_pairs(atom: MMA_Atom) -> bool:
    """Return whether a thread's fragment of A is what it has of two tiles of 8 columns of C."""
    m = atom.shape_mnk[0]
    threads, values = get(atom.a_tv, 0), get(atom.a_tv, 1)
    quads = threads.shape[:2] == (4, 8) and threads.stride[:2] == (2 * m, 1)
    return quads and values == Layout((2, 2, 2), (m, 8, PAIRS * m))


def _columns_of_a_step(atom: MMA_Atom) -> int:
    """Return the columns that the last mode of a thread's values of C steps over."""
    values, (m, n, _k) = get(atom.c_tv, 1), atom.shape_mnk
    step, odd = divmod(values._d[-1], m)
    return n if odd or step * values._s[-1] != n else step
