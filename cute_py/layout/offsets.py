"""All offsets of a layout at once, as a NumPy array, and the set that they form.

The offsets of s:d are sums of one term for each mode, so they are outer sums of ever longer arrays:
one addition for each coordinate, at memory bandwidth. Arrays are int64. Offsets that do not fit
in int64, and more than `MOST` coordinates, are refused; nothing wraps around.
"""

from __future__ import annotations

from functools import cache

from cute_py.errors import LayoutError, refusal
from cute_py.layout import AbstractComposed, AbstractF2, Mapped, tuples
from cute_py.layout.algebra.coalesce import coalesced, coalesced_beyond
from cute_py.layout.basis import make_basis_like
from cute_py.layout.layout import BASIS, INTS, Layout, raw_flat
from cute_py.layout.queries import at_path, coshape, is_static

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cute_py.dtypes.table import Array
    from cute_py.layout.types import Alike, AnyLayout, OffsetMap

    Table = Alike  # a list of ints, or a NumPy array of them

MOST = 1 << 27  # the most coordinates that are tabulated: 1 GiB of int64
RANGE = 1 << 63  # magnitudes of offsets are below
LISTED = 1 << 16  # the most coordinates of a list, where there is no NumPy
ROW = 512  # from this many entries on, an outer sum runs at memory bandwidth
PIECE = 1 << 14  # entries processed at a time
COLUMNS = 16  # rows so short that they are written column by column


def offsets(layout: Alike) -> Array:
    """Return the offsets of all coordinates, as a NumPy int64 array in colexicographical order.

    Args:
        layout: a Layout, ComposedLayout or F2Layout.

    Law: offsets(L)[i] == L(i) for every index i. Where the layout yields coordinates instead of
    offsets (coordinate strides), the array has a second axis: the leaves of the coordinate, flat.
    Raises LayoutError for symbols, for more than 2**27 coordinates (1 GiB) and beyond int64. Where
    NumPy is not installed, up to 65536 coordinates give a list of the same entries.

    >>> offsets(Layout((2, 3), (3, 1)))
    array([0, 3, 1, 4, 2, 5])
    >>> from cute_py import make_identity_layout
    >>> offsets(make_identity_layout((1, 2))).tolist()
    [[0, 0], [0, 1]]
    """
    if isinstance(layout, Mapped) and not has_numpy():
        return _in_lists(layout)
    if layout.__class__ is Layout:
        return _of_layout(layout)
    if isinstance(layout, AbstractComposed):
        return _of_composed(layout)
    if isinstance(layout, AbstractF2):
        _require_countable(layout, layout.size())
        require_range(layout, layout.cosize())
        return xor_table(layout.offset, layout.bases)
    raise refusal("not-a-layout", operation="offsets", value=layout, type=type(layout).__name__)


@cache
def has_numpy() -> bool:
    """Return whether NumPy can be imported."""
    try:
        import numpy  # noqa: F401
    except ImportError:  # in a browser
        return False
    return True


def _in_lists(layout: Alike) -> list[Any]:
    """Return the offsets of a few coordinates, each the leaves of a coordinate or an integer."""
    if not is_static(layout):
        raise refusal("tools-symbols", operation="offsets", layout=layout)
    if layout.size() > LISTED:
        facts = {"layout": layout, "size": layout.size(), "limit": LISTED}
        raise refusal("tools-size", operation="offsets", **facts)
    values = [layout(index) for index in range(layout.size())]
    require_range(layout, 1 + max([abs(leaf) for each in values for leaf in tuples.leaves(each)]))
    return [list(tuples.leaves(x)) if x.__class__ is tuple else x for x in values]


SMALL = 4096  # from this many coordinates on, arrays are worth their import
QUESTIONED = 1 << 21  # coordinates that are tabulated to answer a question, within a second


def values_at_all(layout: Alike, operation: str) -> Table:
    """Return the layout's values at all indices: a list if there are few, otherwise `offsets`.

    Raises LayoutError for more than QUESTIONED indices, and whatever `offsets` raises.
    """
    if not isinstance(layout, Mapped) or not is_static(layout):
        return offsets(layout)
    size = layout.size()
    if size > QUESTIONED:
        facts = {"layout": layout, "size": size, "limit": QUESTIONED}
        raise refusal("tools-size", operation=operation, **facts)
    return [layout(index) for index in range(size)] if size < SMALL else offsets(layout)


def in_arrays(*tables: Table) -> list[Array]:
    """Return tables as NumPy arrays."""
    import numpy as np

    return [np.asarray(table) for table in tables]


def table_of(layout: Alike, operation: str) -> Table:
    """Return the offsets of all indices as `values_at_all` does; refuse coordinates."""
    table = values_at_all(layout, operation)
    if table[0].__class__ is tuple or getattr(table, "ndim", 1) > 1:
        raise refusal("tools-basis", operation=operation, layout=layout)
    return table


def sums_of(axes: Sequence[Sequence[int]]) -> list[int]:
    """Return the sums of one term of each axis, the first axis the fastest."""
    sums = [0]
    for terms in axes:
        sums = [total + term for term in terms for total in sums]
    return sums


def offset_grid(layout: AnyLayout) -> Array:
    """Return the offsets of all coordinates as a NumPy array with one axis for each top-level mode.

    Law: offset_grid(L)[c] == L(c) for every coordinate c with one index for each mode. Coordinates,
    where the layout yields them, are along one more axis. Raises what `offsets` raises.

    >>> offset_grid(Layout((2, 3), (3, 1))).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    table: Any = offsets(layout)
    axes = tuples.product_each(layout.shape)
    if table.__class__ is list:
        return _nested(table, list(tuples.wrap(axes)))
    import numpy as np

    if table.ndim == 1:
        return table.reshape(axes, order="F")
    return np.stack([part.reshape(axes, order="F") for part in table.T], axis=-1)


def _nested(table: list[Any], axes: list[int]) -> list[Any]:
    """Return colexicographical entries as lists in lists, one level for each axis."""
    if len(axes) == 1:
        return table
    return [_nested(table[i :: axes[0]], axes[1:]) for i in range(axes[0])]


def image(layout: AnyLayout) -> Array:
    """Return the distinct offsets of the layout, ascending, as a NumPy int64 array.

    >>> image(Layout((2, 3), (4, 1)))
    array([0, 1, 2, 4, 5, 6])
    """
    return distinct(offsets(layout))


def distinct(table: Table) -> Any:
    """Return the distinct entries (or rows) of a table, ascending."""
    if table.__class__ is list:
        ordered = sorted(table)
        return [x for k, x in enumerate(ordered) if not k or ordered[k - 1] != x]
    import numpy as np

    if table.ndim > 1:
        return np.unique(table, axis=0)
    low, high = int(table.min()), int(table.max())
    if high - low >= 16 * len(table):
        return np.unique(table)
    return np.flatnonzero(marks(table, low, high + 1 - low)) + low


def marks(table: Array, low: int, count: int) -> Array:
    """Return `count` bools: whether low, low + 1, ... occur in a NumPy array of integers."""
    import numpy as np

    hit = np.zeros(count, dtype=bool)
    hit[table[(table >= low) & (table < low + count)] - low] = True
    return hit


def holes(layout: AnyLayout) -> Array:
    """Return the offsets from 0 to cosize - 1 that the layout does not reach, ascending, as a NumPy
    int64 array.

    Raises LayoutError for coordinate strides, symbols, and sizes or cosizes above 2**27.

    >>> holes(Layout((2, 3), (4, 1)))
    array([3])
    """
    table: Any = one_axis(layout, "holes")
    most = max(map(abs, table)) if table.__class__ is list else abs(table).max()
    cosize = layout.cosize() if layout.__class__ is Layout else 1 + int(most)
    if cosize > MOST:
        raise refusal("tools-size", operation="holes", layout=layout, size=cosize, limit=MOST)
    if table.__class__ is list:
        return sorted({*range(cosize)}.difference(table))
    import numpy as np

    return np.flatnonzero(~marks(table, 0, cosize))


def one_axis(layout: AnyLayout, operation: str) -> Array:
    """Return the offsets; refuse a layout that yields coordinates."""
    table: Any = offsets(layout)
    if table[0].__class__ is list or getattr(table, "ndim", 1) > 1:
        raise refusal("tools-basis", operation=operation, layout=layout)
    return table


# -- layouts


def _of_layout(layout: Layout) -> Array:
    if layout._kind != INTS:
        if layout._kind != BASIS:
            raise refusal("tools-symbols", operation="offsets", layout=layout)
        return _of_components(layout)
    _require_countable(layout, layout.size())
    s, d = coalesced(layout)
    require_range(layout, reach(s, d) + 1)
    return outer_sums(s, d)


def reach(s: list[int], d: list[int]) -> int:
    """Return the sum of (extent - 1) * |stride|, above any offset in magnitude."""
    return sum([(extent - 1) * abs(step) for extent, step in zip(s, d, strict=True)])


def outer_sums(s: list[int], d: list[int]) -> Array:
    """Return the offsets of s:d, of one mode or more, the first mode fastest."""
    import numpy as np

    if len(s) == 1:
        terms = np.arange(s[0], dtype=np.int64)
        terms *= d[0]
        return terms
    split, row = 1, s[0]
    while row < ROW and split < len(s) - 1:
        row *= s[split]
        split += 1
    low, high = outer_sums(s[:split], d[:split]), outer_sums(s[split:], d[split:])
    if row >= COLUMNS:
        return np.add.outer(high, low).reshape(-1)
    sums = np.empty((len(high), row), dtype=np.int64)
    for k in range(row):
        np.add(high, low[k], out=sums[:, k])
    return sums.reshape(-1)


def xor_table(origin: int, bases: Sequence[int]) -> Array:
    """Return origin ^ (XOR of the bases at i's bits) for every i, as a NumPy int64 array."""
    import numpy as np

    table = np.full(1 << len(bases), origin, dtype=np.int64)
    for bit, image in enumerate(bases):
        np.bitwise_xor(table[: 1 << bit], image, out=table[1 << bit : 2 << bit])
    return table


def components(layout: Layout, operation: str) -> list[Layout]:
    """Return one integer layout for each leaf of the layout's coordinates; an offset is a single
    leaf.

    Raises LayoutError for symbols.
    """
    if layout._kind == INTS:
        return [layout]
    if layout._kind != BASIS:
        raise refusal("tools-symbols", operation=operation, layout=layout)
    parts = []
    for leaf in tuples.leaves(make_basis_like(coshape(layout))):
        path = getattr(leaf, "path", ())
        d = [step.value if getattr(step, "path", ()) == path else 0 for step in layout._d]
        parts.append(raw_flat(layout._s, d))
    return parts


def _of_components(layout: Layout) -> Array:
    import numpy as np

    parts = components(layout, "offsets")
    _require_countable(layout, layout.size() * len(parts))
    return np.stack([_of_layout(part) for part in parts], axis=-1)


# -- composed layouts


def _of_composed(layout: Alike) -> Array:
    """Return outer(offset + inner) for all coordinates."""
    values = offsets(layout.inner)
    if any(leaf.__class__ is not int for leaf in tuples.leaves(layout.offset)):
        raise refusal("tools-symbols", operation="offsets", layout=layout)
    if values.ndim > 1 or layout.offset.__class__ is tuple:
        found = _at_coordinates(layout, values)
        if found is not None:
            return found
        return _one_by_one(layout, range(len(values)), layout)
    if layout.inner.__class__ is Layout:
        largest = reach(layout.inner._s, layout.inner._d)
    else:
        largest = int(abs(values).max())
    require_range(layout, largest + abs(layout.offset) + 1)
    values += layout.offset
    return _applied(layout.outer, values, layout)


def _at_coordinates(layout: Alike, values: Array) -> Array | None:
    """Return outer(offset + coordinate) for rows of coordinates, component by component; None where
    the outer map is no layout of ints, or the coordinates are not its own.
    """
    outer, inner = layout.outer, layout.inner
    if outer.__class__ is not Layout or outer._kind != INTS or inner.__class__ is not Layout:
        return None
    extents, offset = coshape(inner), layout.offset
    if extents.__class__ is not tuple or not tuples.congruent(extents, offset or extents):
        return None
    total = values[:, 0] * 0
    shifts = tuples.leaves(offset or tuples.repeat_like(extents, 0))
    for column, shift, unit in zip(
        values.T, shifts, tuples.leaves(make_basis_like(extents)), strict=True
    ):
        try:
            mode = Layout(
                *[at_path(part, unit.path, outer) for part in (outer.shape, outer.stride)]
            )
        except LayoutError:
            return None
        at = column + shift  # a negative index is the mirror image
        total = total + _looked_up(mode, abs(at), layout) * ((at > 0) - 1 * (at < 0))
    return total


def _applied(outer: Alike, values: Array, whole: AnyLayout) -> Array:
    """Return the outer map of every entry, by arrays if the map accepts them; `values` may
    be overwritten.
    """
    from cute_py.layout.bits.f2 import ARRAY_BITS, F2Map

    if isinstance(outer, F2Map) and outer.bits <= ARRAY_BITS:
        return _xored(outer._moves, values)
    if isinstance(outer, AbstractComposed) and outer.offset.__class__ is int:
        shifted = _applied(outer.inner, values, whole)
        require_range(whole, abs(outer.offset) + int(abs(shifted).max()) + 1)
        return _applied(outer.outer, shifted + outer.offset, whole)
    if int(values.min()) >= 0:
        if outer.__class__ is Layout and outer._kind == INTS:
            return _looked_up(outer, values, whole)
        if isinstance(outer, AbstractF2) and int(values.max()) < outer.size() <= MOST:
            return offsets(outer)[values]
    return _one_by_one(outer, values.tolist(), whole)


def _xored(moves: tuple[tuple[int, int], ...], values: Array) -> Array:
    """Return the values with bits XORed onto others, in place and in pieces that stay in cache."""
    import numpy as np

    for start in range(0, len(values), PIECE):
        piece = values[start : start + PIECE]
        source = piece.copy() if len(moves) > 1 else piece
        for mask, shift in moves:
            active = source & mask
            active = np.right_shift(active, shift, out=active) if shift >= 0 else active << -shift
            piece ^= active
    return values


def _looked_up(outer: Layout, values: Array, whole: AnyLayout) -> Array:
    """Return outer(x) for every x of at least 0; the last mode is unbounded."""
    s, d = coalesced_beyond(outer)
    top = int(values.max()) // tuples.product(tuple(s[:-1]))
    require_range(whole, reach([*s[:-1], top + 1], d) + 1)
    return look_up(s, d, values)


def look_up(s: list[int], d: list[int], values: Array) -> Array:
    """Return the offset of every index in a NumPy array; the last mode of s:d is unbounded."""
    import numpy as np

    total = np.zeros_like(values)
    for extent, step in zip(s[:-1], d[:-1], strict=True):
        values, digit = np.divmod(values, extent)
        total += digit * step
    return total + values * d[-1]


def _one_by_one(function: OffsetMap, arguments: Sequence[int], whole: AnyLayout) -> Array:
    """Return the values of a function that takes one index at a time."""
    import numpy as np

    values = [function(x) for x in arguments]
    flat = [leaf for value in values for leaf in tuples.leaves(value)]
    if any(leaf.__class__ is not int for leaf in flat):
        raise refusal("tools-symbols", operation="offsets", layout=whole)
    require_range(whole, 1 + max(map(abs, flat)))
    table = np.array(flat, dtype=np.int64)
    return table if values[0].__class__ is int else table.reshape(len(values), -1)


# -- limits


def _require_countable(layout: AnyLayout, size: int) -> None:
    if size.__class__ is not int:
        raise refusal("tools-symbols", operation="offsets", layout=layout)
    if size > MOST:
        raise refusal("tools-size", operation="offsets", layout=layout, size=size, limit=MOST)


def require_range(layout: AnyLayout, bound: int) -> None:
    """Refuse offsets whose magnitudes do not fit in int64; they are below `bound`."""
    if bound > RANGE:
        raise refusal("tools-range", operation="offsets", layout=layout, reach=bound - 1)
