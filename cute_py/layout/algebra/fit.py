"""The inverse problem: which layout has these offsets?

A coalesced layout can be read off its offsets: its first mode is the longest linear run from index
0, and the rest is the layout of the entries that start a run. Modes are read one by one and the
whole table is compared with their offsets, so a fit is unique and never wrong. A swizzle is its own
inverse: a table is Swizzle o offset o Layout if the swizzled table is offset + layout, and there
are few swizzles.
"""

from __future__ import annotations

from itertools import islice
from math import prod

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import Mapped, tuples
from cute_py.layout.algebra.coalesce import coalesced
from cute_py.layout.bits.f2_convert import from_f2, table_bases, table_misfit
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout, composed
from cute_py.layout.coords import coordinates, idx2crd
from cute_py.layout.layout import Layout, nested, of_modes, offset_of, raw_flat
from cute_py.layout.notation.tables import offsets_of
from cute_py.layout.offsets import MOST, SMALL, look_up, offsets, outer_sums, sums_of
from cute_py.layout.queries import is_static
from cute_py.layout.tuples import canonical, leaves, product, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from cute_py.dtypes.table import Array
    from cute_py.errors import CuteError
    from cute_py.layout.types import Alike, IntTuple

    Modes = list[tuple[int, int]]  # (extent, stride)
    Table = Any  # of entries in colexicographical order: a list of ints, or a NumPy array

SHOWN = 64  # entries of a table that a repair writes out
PROBED = 16  # entries of a run that are compared at first
BLOCK = 256  # entries of a table that are compared at first
GROWTH = 8  # by how much more next

IDENTITY = Swizzle(0, 0, 0)


def fit(
    table: object, shape: IntTuple = None, coshape: IntTuple = None
) -> Layout | ComposedLayout | F2Layout:
    """Return the layout that has the offsets of a table: a Layout, else Swizzle o offset o Layout,
    else an F2Layout.

    Args:
        table: offsets (elements, negative ones too): a flat list or NumPy array in
            colexicographical order; an n-d one, whose axes are the modes, axis 0 the fastest; a
            dict from coordinates to offsets; a function of one argument for each mode; or a text:
            numbers, each line a row, or what a `print_layout` or `print_latex` printed.
        shape: the shape of a flat table or a function; the result's shape refines it.
        coshape: with it, entries are coordinates in coshape (a last axis, or tuples), and the
            offset of one is its colexicographical index.

    Law: offsets(fit(table)) is the table. The modes are coalesced within the modes of the shape. A
    first entry other than 0 becomes the offset: Sw<0,0,0> o offset o Layout. Of several swizzles
    that only use bits set in the entries the smallest is taken (by B, then M, then |S|). Raises
    LayoutError, with the first index at which no layout continues, both values and the forms tried,
    if none fits; and for tables that are empty, ragged, incomplete, beyond 2**27 entries or 2**61
    in magnitude.

    >>> print(fit([0, 4, 1, 5, 2, 6, 3, 7]), fit([0, 1, 3, 2]), fit([[0, 1, 2], [4, 5, 6]]))
    (2,4):(4,1) Sw<1,0,1> o 0 o 4:1 (2,3):(4,1)
    >>> print(fit("0 1 2"), fit("0 1 2 | 4 5 6".replace("|", chr(10))))
    3:1 (2,3):(4,1)
    >>> print(fit(lambda lane, v: (lane // 4 + v // 2 * 8, lane % 4 * 2 + v % 2), (32, 4), (16, 8)))
    ((4,8),(2,2)):((32,1),(16,8))
    """
    values, profile = read_table(table, shape, coshape)
    extents = list(leaves(profile))
    modes = _modes(values, extents, IDENTITY)
    if _fits(values, modes, extents, IDENTITY):
        return _built(profile, modes, IDENTITY, int(values[0]))
    powers = all(extent & (extent - 1) == 0 for extent in extents)
    if powers and _least(values) >= 0 and table_misfit(values) is None:
        origin, bases = table_bases(values)
        return from_f2(F2Layout(profile, bases, origin))
    found = _swizzled_fit(values, extents)
    if found is None:
        raise _no_form(values, profile, modes)
    swizzle, modes = found
    return _built(profile, modes, swizzle, swizzle(int(values[0])))


def _least(values: Table) -> int:
    return min(values) if values.__class__ is list else int(values.min())


def _built(profile: IntTuple, modes: list[Modes], swizzle: Swizzle, origin: int) -> Alike:
    """Return swizzle o origin o layout of the modes found for each leaf of the profile."""
    return composed(swizzle, origin, nested(Layout(profile), [part or [(1, 0)] for part in modes]))


def _split(modes: Modes) -> tuple[list[int], list[int]]:
    """Return extents and strides, those of 1:0 for no modes."""
    return ([s for s, _ in modes], [d for _, d in modes]) if modes else ([1], [0])


# -- reading modes off a table: a list of ints, or, from SMALL entries on, a NumPy array


def _modes(values: Table, extents: list[int], swizzle: Swizzle) -> list[Modes]:
    """Return the modes of each axis, read along it with the other axes at 0."""
    modes = []
    step = 1
    for extent in extents:
        modes.append(axis_modes(values[: step * extent : step], swizzle))
        step *= extent
    return modes


def axis_modes(entries: Table, swizzle: Swizzle = IDENTITY) -> Modes:
    """Return the modes of a coalesced layout with these entries; a last mode that does not divide
    what is left shows that no fit exists.
    """
    count = len(entries)
    origin = swizzle(int(entries[0]))
    modes: Modes = []
    hop = 1
    while hop < count:
        stride = swizzle(int(entries[hop])) - origin
        run = _run(entries[::hop], swizzle, origin, stride)
        modes.append((run, stride))
        if count // hop % run:
            break
        hop *= run
    return modes


def _run(entries: Table, swizzle: Swizzle, origin: int, stride: int) -> int:
    """Return how many entries from the start are origin + i*stride."""
    if entries.__class__ is list:
        pairs = enumerate(entries)
        wrong = (i for i, entry in pairs if swizzle(entry) != origin + i * stride)
        return next(wrong, len(entries))
    import numpy as np

    start, width = 2, PROBED
    while start < len(entries):
        part = swizzle(entries[start : start + width])
        wrong = part != np.arange(start, start + len(part)) * stride + origin
        if wrong.any():
            return start + int(wrong.argmax())
        start += width
        width *= GROWTH
    return len(entries)


def _fits(values: Table, modes: list[Modes], extents: list[int], swizzle: Swizzle) -> bool:
    """Return whether the modes give every entry, in ever larger parts of the table.

    int64 may wrap in the sums without harm: an entry that has one smaller digit is checked before
    and below 2**62 from the first, and so is one step, so that no first mismatch hides.
    """
    if any(_size(part) != extent for part, extent in zip(modes, extents, strict=True)):
        return False
    s, d = _split([mode for part in modes for mode in part])
    origin = swizzle(int(values[0]))
    if values.__class__ is list:
        terms = zip(s, d, strict=True)
        sums = sums_of([[i * step for i in range(extent)] for extent, step in terms])
        return all(swizzle(x) - origin == y for x, y in zip(values, sums, strict=True))
    size, checked = 1, BLOCK
    for k, extent in enumerate(s, 1):
        size *= extent
        if size < checked and k < len(s):
            continue
        if (swizzle(values[:size]) - origin != outer_sums(s[:k], d[:k])).any():
            return False
        checked = size * GROWTH
    return True


def _swizzled_fit(values: Table, extents: list[int]) -> tuple[Swizzle, list[Modes]] | None:
    """Return the smallest swizzle under which the table is a layout, and its modes."""
    heads = _heads(values, extents)
    for swizzle in _swizzles_within(_used_bits(values)):
        if all(_may_begin(head, extent, swizzle) for head, extent in heads):
            modes = _modes(values, extents, swizzle)
            if _fits(values, modes, extents, swizzle):
                return swizzle, modes
    return None


def _swizzles_within(used: int) -> Iterator[Swizzle]:
    """Yield the swizzles that could matter to offsets in which only bits of `used` are set, the
    smallest first, Sw<0,0,0> before all.

    The lowest and the highest bit that the swizzle reads are used, otherwise a smaller one has the
    same effect, and it changes no bit above.
    """
    yield Swizzle(0, 0, 0)
    top = used.bit_length()
    read = [bit for bit in range(top) if used >> bit & 1]
    for bits in range(1, top // 2 + 1):
        lowest = [bit for bit in read if used >> (bit + bits - 1) & 1]
        for base in range(top - 2 * bits + 1):
            for shift in range(bits, top - bits - base + 1):
                if base + shift in lowest:
                    yield Swizzle(bits, base, shift)
                if base in lowest:
                    yield Swizzle(bits, base, -shift)


def _used_bits(values: Table) -> int:
    """Return the bits that are set in any entry; of the endless sign bits of negative ones, one."""
    if values.__class__ is list:
        used = 0
        for value in values:
            used |= value
    else:
        import numpy as np

        used = int(np.bitwise_or.reduce(values))
    if used < 0:
        bits = max(int(max(values)), ~int(min(values))).bit_length() + 1
        used &= min(1 << bits, BOUND) - 1
    return used


def _heads(values: Table, extents: list[int]) -> list[tuple[list[int], int]]:
    """Return the first four entries, and the extent, of every axis that has four."""
    heads, step = [], 1
    for extent in extents:
        if extent >= 4:
            heads.append(([int(entry) for entry in values[: 4 * step : step]], extent))
        step *= extent
    return heads


def _may_begin(head: list[int], extent: int, swizzle: Swizzle) -> bool:
    """Return whether an axis can start like this: with a run of two, of three, or of four or more.

    It excludes nearly all swizzles in a microsecond.
    """
    first, second, third, fourth = [swizzle(entry) for entry in head]
    step = second - first
    if third - second == step:
        return fourth - third == step or extent % 3 == 0
    return fourth - third == step and extent % 2 == 0


# -- refusing


def _no_form(values: Table, profile: IntTuple, modes: list[Modes]) -> CuteError:
    """Return the refusal: the first index at which the modes found, the last unbounded, depart."""
    extents = list(leaves(profile))
    origin = int(values[0])
    wrong = wrong_entries(values, extents, modes)
    index = wrong[0]
    coord = idx2crd(index, tuple(extents))
    parts = [offset_of(c, *_split(part)) for c, part in zip(coord, modes, strict=True)]
    fitted = sum(parts) + origin
    seen = [_seen(c, part) for c, part in zip(coord, modes, strict=True)]
    layout = str(_built(profile, seen, IDENTITY, 0))
    repair, expressions = _repair(values, wrong, extents, modes, fitted)
    return refusal(
        "fit-no-form",
        operation="fit",
        count=len(values),
        layout=f"{origin} + {layout}" if origin else layout,
        index=index,
        got=int(values[index]),
        fitted=fitted,
        tried=_tried(values, extents),
        repair=repair,
        expressions=expressions,
    )


def _seen(coord: int, modes: Modes) -> Modes:
    """Return the modes that a coordinate has a digit in, and those below."""
    size, seen = 1, []
    for extent, stride in modes:
        if size > coord:
            break
        seen.append((extent, stride))
        size *= extent
    return seen


def wrong_entries(values: Table, extents: list[int], modes: list[Modes]) -> list[int]:
    """Return the indices of the first entries, two at most, that differ from the modes' values, the
    last mode of each axis unbounded.
    """
    origin = int(values[0])
    if values.__class__ is list:
        axes = [
            [offset_of(c, *_split(part)) for c in range(extent)]
            for extent, part in zip(extents, modes, strict=True)
        ]
        pairs = enumerate(zip(values, sums_of(axes), strict=True))
        return list(islice((i for i, (x, y) in pairs if x != y + origin), 2))
    import numpy as np

    total = np.zeros(1, dtype=np.int64)
    for extent, part in zip(extents, modes, strict=True):
        axis = look_up(*_split(part), np.arange(extent, dtype=np.int64))
        total = np.add.outer(axis, total).reshape(-1)
    return np.flatnonzero(total + origin != values)[:2].tolist()


def _tried(values: Table, extents: list[int]) -> str:
    """Return why the other two forms do not fit either."""
    bits = _used_bits(values).bit_length()
    swizzles = f"no swizzle of the {bits} offset bits makes it a layout"
    odd = next((extent for extent in extents if extent & (extent - 1)), None)
    if odd is not None:
        return f"{swizzles}; for F2, extent {odd} is not a power of two"
    if _least(values) < 0:
        return f"{swizzles}; F2 needs offsets of at least 0"
    index, got, fitted = table_misfit(values) or (0, 0, 0)
    return f"{swizzles}; over F2, index {index} has {got} where the XOR of its bits is {fitted}"


def _repair(
    values: Table, wrong: list[int], extents: list[int], modes: list[Modes], fitted: int
) -> tuple[str, tuple[str, ...]]:
    """Return a change that was checked, of one entry, or of the length of a flat table: as text and
    as expressions.
    """
    index = wrong[0]
    flat = len(extents) == 1 and len(values) <= SHOWN
    if len(wrong) == 1:
        entries = [fitted if i == index else int(x) for i, x in enumerate(values)] if flat else []
        expressions = (f"fit({show(tuple(entries))})",) if flat else ()
        return f"only that entry differs: put {fitted} there", expressions
    if len(extents) > 1:
        text = "fit the modes one at a time to see which one is not linear, or keep the array"
        return text, ()
    *inner, (_, stride) = _seen(index, modes[0])
    rows = index // _size(inner)
    start = raw_flat(*coalesced(of_modes([*inner, (rows, stride)])))
    text = f"fit the first {start.size()} entries alone, {start}, or keep the array"
    return text, (str(start),)


def _size(modes: Modes) -> int:
    return prod([extent for extent, _ in modes])


# -- what is accepted as a table of offsets, read into one flat table and its shape

BOUND = 1 << 61  # entries are below in magnitude, so that sums of two differences stay in int64


def read_table(table: object, shape: IntTuple, coshape: IntTuple) -> tuple[Table, IntTuple]:
    """Return the entries in colexicographical order and the shape; see `fit`.

    Raises LayoutError for empty, ragged and incomplete tables, shapes of another size and entries
    of 2**61 or more; LeafTypeError for entries that are not integers.
    """
    shape, coshape = _extents(shape), _extents(coshape)
    values, own = _read(table, shape, coshape)
    profile = own if shape is None else shape
    if coshape is not None:
        values = _flattened(values, coshape)
    if _has_rows(values):
        raise refusal("fit-coordinates", operation="fit", entry=_row_text(values))
    if len(values) != product(profile):
        raise refusal("fit-shape", operation="fit", count=len(values), shape=show(profile))
    if values.__class__ is list:
        _require_bounded(min(values), max(values))
    else:
        _require_bounded(int(values.min()), int(values.max()))
    return values, profile


def _has_rows(values: Table) -> bool:
    return values[0].__class__ is list if values.__class__ is list else values.ndim > 1


def _row_text(values: Table) -> str:
    row = values[0] if values.__class__ is list else values[0].tolist()
    return show(tuple(row))


def _extents(shape: IntTuple) -> IntTuple:
    if shape is None:
        return None
    return tuples.transform_leaf(lambda x: ints.as_int(x, "fit"), canonical(shape, "fit"))


def _read(
    table: Any, shape: IntTuple, coshape: IntTuple
) -> tuple[Table, IntTuple]:  # what a user has
    if isinstance(table, Mapped):
        count = table.size()
        if count.__class__ is int and count < SMALL and is_static(table):
            return _entries([table(i) for i in range(count)]), table.shape
        return offsets(table), table.shape
    if hasattr(table, "keys"):
        return _of_mapping(table)
    if table.__class__ is str:
        return _of_mapping(offsets_of(table))
    if callable(table):
        return _of_function(table, shape), shape
    return _of_array(table, coshape)


# -- functions and dicts


def _of_function(function: Callable[..., Any], shape: IntTuple) -> Table:
    """Return the values at all coordinates; the function takes one argument for each mode."""
    if shape is None:
        raise refusal("fit-function", operation="fit", function=function)
    _require_count(product(shape))
    try:
        values = [function(*tuples.wrap(coord)) for coord in coordinates(shape)]
    except TypeError as error:
        if _takes(function, tuples.rank(shape)):
            raise
        wanted = f"a function of {tuples.rank(shape)} arguments"
        raise tuples.wrong_argument("fit", function, wanted, "take one for each mode") from error
    return _entries(values)


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with so many arguments."""
    from inspect import signature

    try:
        signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


def _of_mapping(table: Mapping[IntTuple, Any]) -> tuple[Table, IntTuple]:
    """Return the values by coordinate; the largest coordinates give the shape."""
    keys = {canonical(key, "fit"): key for key in table}
    shape = _spanned(list(keys))
    _require_count(product(shape))
    missing = next((coord for coord in coordinates(shape) if coord not in keys), None)
    if missing is not None:
        facts = {"missing": show(missing), "shape": show(shape)}
        raise refusal("fit-incomplete", operation="fit", count=len(keys), **facts)
    return _entries([table[keys[coord]] for coord in coordinates(shape)]), shape


def _spanned(coords: list[IntTuple]) -> IntTuple:
    """Return the smallest shape with these coordinates."""
    if not coords:
        raise refusal("fit-empty", operation="fit")
    shape = tuples.repeat_like(coords[0], 1)
    for coord in coords:
        if not tuples.congruent(coord, shape) or any(not _is_index(c) for c in leaves(coord)):
            raise refusal("fit-key", operation="fit", key=show(coord), first=show(coords[0]))
        shape = tuples.transform_leaf(lambda extent, c: max(extent, c + 1), shape, coord)
    return shape


def _is_index(c: object) -> bool:
    return isinstance(c, int) and c >= 0


def _entries(values: list[Any]) -> Table:
    """Return values as a table; coordinates as flat rows."""
    if any(value.__class__ is tuple for value in values):
        values = [list(leaves(value)) for value in values]
    return _of_array(values, values[0] if values else None)[0]


# -- nests of lists, and arrays


def _of_array(table: Any, coshape: object) -> tuple[Table, IntTuple]:  # what a user has
    """Return an n-d table's entries: its axes are the modes, the first the fastest; coordinates are
    along one more axis.
    """
    if isinstance(table, (list, tuple, range)):
        axes = _axes_of(table)
        _require_count(tuples.product(axes))
        _require_no_bool(table)
        if tuples.product(axes) < SMALL:
            row = coshape is not None and len(axes) > 1
            axes = axes[:-1] if row else axes
            flat = _colexicographical(table, len(axes))
            return [_entry(x) for x in flat], axes[0] if len(axes) == 1 else axes
    array = _integers(table)
    rows = array.shape[-1:] if coshape is not None and array.ndim > 1 else ()
    axes = array.shape[: array.ndim - len(rows)]
    values = array.reshape(-1, *rows, order="F")
    values = values.tolist() if array.size < SMALL else values
    return values, axes[0] if len(axes) == 1 else axes


def _axes_of(table: Any) -> tuple[int, ...]:
    """Return the extents of a nest of lists."""
    if not isinstance(table, (list, tuple, range)):
        return getattr(table, "shape", ())
    if not table:
        raise refusal("fit-empty", operation="fit")
    inner = _axes_of(table[0])
    if any(_axes_of(part) != inner for part in table):
        raise refusal("fit-ragged", operation="fit")
    return len(table), *inner


def _colexicographical(table: Any, depth: int) -> list[Any]:
    if depth <= 1:
        return list(table)
    parts = [_colexicographical(part, depth - 1) for part in table]
    return [entry for entries in zip(*parts, strict=True) for entry in entries]


def _entry(x: Any) -> Any:
    if isinstance(x, (list, tuple, range)):
        return [_entry(part) for part in x]
    entry = ints.normalize(x, "fit", ", in tables of one length")
    return ints.as_int(entry, "fit")


def _integers(table: Any) -> Array:  # what a user has
    """Return a NumPy int64 array; refuse all but integers that fit in it."""
    import numpy as np

    array = np.asarray(table)
    if array.size == 0 or array.ndim == 0:
        raise refusal("fit-empty", operation="fit")
    _require_count(array.size)
    if array.dtype.kind not in "iu":
        for entry in np.asarray(table, dtype=object).flat:
            ints.as_int(ints.normalize(entry, "fit", ", in tables of one length"), "fit")
        array = np.asarray(table, dtype=object)
    if array.dtype.kind != "i":
        _require_bounded(int(array.min()), int(array.max()))
    return array.astype(np.int64, copy=False)


def _require_no_bool(table: object) -> None:
    if isinstance(table, (list, tuple)):
        kinds = set(map(type, table))
        if any(kind.__name__ in ("bool", "bool_") for kind in kinds):
            raise refusal("leaf-type", operation="fit", value=table, type="with bools", also="")
        if kinds & {list, tuple}:
            for part in table:
                _require_no_bool(part)


def _flattened(values: Table, coshape: IntTuple) -> Table:
    """Return the colexicographical index in coshape of every row."""
    extents = list(leaves(coshape))
    steps = list(leaves(tuples.prefix_product(coshape)))
    if not _has_rows(values) or len(values[0]) != len(extents):
        entry = _row_text(values) if _has_rows(values) else int(values[0])
        raise refusal("fit-entry", operation="fit", entry=entry, coshape=show(coshape))
    if values.__class__ is list:
        inside = [all(0 <= x < n for x, n in zip(row, extents, strict=True)) for row in values]
        outside = inside.index(False) if False in inside else None
    else:
        wrong = ((values < 0) | (values >= extents)).any(axis=1)
        outside = int(wrong.argmax()) if wrong.any() else None
    if outside is not None:
        entry = _row_text(values[outside : outside + 1])
        raise refusal("fit-entry", operation="fit", entry=entry, coshape=show(coshape))
    _require_bounded(0, product(coshape) - 1)
    if values.__class__ is list:
        return [sum([x * step for x, step in zip(row, steps, strict=True)]) for row in values]
    return (values * steps).sum(axis=1)


# -- limits


def _require_count(count: int) -> None:
    if count > MOST:
        raise refusal("fit-size", operation="fit", count=count, limit=MOST)


def _require_bounded(low: int, high: int) -> None:
    if max(-low, high) >= BOUND:
        raise refusal("fit-range", operation="fit", value=high if high >= BOUND else low)
