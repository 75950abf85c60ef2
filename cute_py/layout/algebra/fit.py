"""The inverse problem: which layout has these offsets?

A coalesced layout can be read off its offsets: its first mode is the longest linear run from index
0, and the rest is the layout of the entries that start a run. Modes are read one by one and the
whole table is compared with what they give, so a fit is unique and never wrong. Swizzles undo
themselves: a table is Swizzle o offset o Layout if the swizzled table is offset + layout, and there
are few swizzles.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout.algebra.tables import BOUND, read_table
from cute_py.layout.bits.f2_convert import (
    from_f2,
    merged,
    swizzled,
    swizzles_within,
    table_bases,
    table_misfit,
)
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.coords import idx2crd
from cute_py.layout.layout import Layout, _offset, raw_flat
from cute_py.layout.offsets import look_up, outer_sums
from cute_py.layout.tuples import leaves, transform_leaf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Array
    from cute_py.errors import CuteError
    from cute_py.layout.types import Alike, IntTuple

    Modes = list[tuple[int, int]]  # (extent, stride)

PROBED = 16  # entries of a run that are compared at first
BLOCK = 256  # entries of a table that are compared at first
GROWTH = 8  # by how much more next

IDENTITY = Swizzle(0, 0, 0)


def fit(table: object, shape: IntTuple = None, coshape: IntTuple = None) -> Alike:
    """Return the layout that has the offsets of a table: a Layout, else Swizzle o offset o Layout,
    else an F2Layout.

    Args:
        table: offsets (elements, negative ones too): a flat list or NumPy array in
            colexicographical order; an n-d one, whose axes are the modes, axis 0 the fastest; a
            dict from coordinates to offsets; or a function of one argument for each mode.
        shape: the shape of a flat table or a function; the result's shape refines it.
        coshape: with it, entries are coordinates in coshape (a last axis, or tuples), and the
            offset of one is its colexicographical index.

    Law: offsets(fit(table)) is the table. The modes are coalesced within the modes of the shape. A
    first entry other than 0 becomes the offset: Sw<0,0,0> o offset o Layout. Of several swizzles
    the smallest is taken (by B, then M, then |S|), of those that stay within the bits that entries
    have set. Raises LayoutError, with the first index at which no layout goes on, both values
    and what was tried, where there is no such form; and for tables that are empty, ragged,
    incomplete, beyond 2**27 entries or 2**61 in magnitude.

    >>> print(fit([0, 4, 1, 5, 2, 6, 3, 7]), fit([0, 1, 3, 2]), fit([[0, 1, 2], [4, 5, 6]]))
    (2,4):(4,1) Sw<1,0,1> o 0 o 4:1 (2,3):(4,1)
    >>> print(fit(lambda lane, v: (lane // 4 + v // 2 * 8, lane % 4 * 2 + v % 2), (32, 4), (16, 8)))
    ((4,8),(2,2)):((32,1),(16,8))
    """
    values, profile = read_table(table, shape, coshape)
    extents = list(leaves(profile))
    modes = _modes(values, extents, IDENTITY)
    if _fits(values, modes, extents, IDENTITY):
        return _built(profile, modes, IDENTITY, int(values[0]))
    powers = all(extent & (extent - 1) == 0 for extent in extents)
    if powers and int(values.min()) >= 0 and table_misfit(values) is None:
        origin, bases = table_bases(values)
        return from_f2(F2Layout(profile, bases, origin))
    found = _swizzled_fit(values, extents)
    if found is None:
        raise _no_form(values, profile, modes)
    swizzle, modes = found
    return _built(profile, modes, swizzle, swizzle(int(values[0])))


def _built(profile: IntTuple, modes: list[Modes], swizzle: Swizzle, origin: int) -> Alike:
    """Return swizzle o origin o layout of the modes found for each leaf of the profile."""
    rest = iter(modes)
    parts = transform_leaf(lambda _: _flat(next(rest)), profile)
    shape = transform_leaf(lambda part: part.shape, parts)
    stride = transform_leaf(lambda part: part.stride, parts)
    return swizzled(swizzle, origin, Layout(shape, stride))


def _flat(modes: Modes) -> Layout:
    s, d = _split(modes)
    return raw_flat(s, d)


def _split(modes: Modes) -> tuple[list[int], list[int]]:
    """Return extents and strides, those of 1:0 for no modes."""
    return ([s for s, _ in modes], [d for _, d in modes]) if modes else ([1], [0])


# -- reading modes off a table


def _modes(values: Array, extents: list[int], swizzle: Swizzle) -> list[Modes]:
    """Return the modes of each axis, read along it with the other axes at 0."""
    modes = []
    step = 1
    for extent in extents:
        modes.append(_axis_modes(values[: step * extent : step], swizzle))
        step *= extent
    return modes


def _axis_modes(entries: Array, swizzle: Swizzle) -> Modes:
    """Return the modes of a coalesced layout with these entries; a last mode that does not divide
    what is left shows that there is none.
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


def _run(entries: Array, swizzle: Swizzle, origin: int, stride: int) -> int:
    """Return how many entries from the start are origin + i*stride."""
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


def _fits(values: Array, modes: list[Modes], extents: list[int], swizzle: Swizzle) -> bool:
    """Return whether the modes give every entry, in ever larger parts of the table.

    int64 may wrap in the sums without harm: an entry that has one smaller digit is checked before
    and below 2**62 from the first, and so is one step, so that no first mismatch hides.
    """
    if any(_size(part) != extent for part, extent in zip(modes, extents, strict=True)):
        return False
    s, d = _split([mode for part in modes for mode in part])
    origin = swizzle(int(values[0]))
    size, checked = 1, BLOCK
    for k, extent in enumerate(s, 1):
        size *= extent
        if size < checked and k < len(s):
            continue
        if (swizzle(values[:size]) - origin != outer_sums(s[:k], d[:k])).any():
            return False
        checked = size * GROWTH
    return True


def _swizzled_fit(values: Array, extents: list[int]) -> tuple[Swizzle, list[Modes]] | None:
    """Return the smallest swizzle under which the table is a layout, and its modes."""
    heads = _heads(values, extents)
    for swizzle in swizzles_within(_used_bits(values)):
        if all(_may_begin(head, extent, swizzle) for head, extent in heads):
            modes = _modes(values, extents, swizzle)
            if _fits(values, modes, extents, swizzle):
                return swizzle, modes
    return None


def _used_bits(values: Array) -> int:
    """Return the bits that are set in any entry; of the endless sign bits of negative ones, one."""
    import numpy as np

    used = int(np.bitwise_or.reduce(values))
    if used < 0:
        bits = max(int(values.max()), ~int(values.min())).bit_length() + 1
        used &= min(1 << bits, BOUND) - 1
    return used


def _heads(values: Array, extents: list[int]) -> list[tuple[list[int], int]]:
    """Return the first four entries, and the extent, of every axis that has four."""
    heads, step = [], 1
    for extent in extents:
        if extent >= 4:
            heads.append((values[: 4 * step : step].tolist(), extent))
        step *= extent
    return heads


def _may_begin(head: list[int], extent: int, swizzle: Swizzle) -> bool:
    """Return whether an axis can start like this: with a run of two, of three, or of four or more.

    It rules out nearly all swizzles in a microsecond.
    """
    first, second, third, fourth = [swizzle(entry) for entry in head]
    step = second - first
    if third - second == step:
        return fourth - third == step or extent % 3 == 0
    return fourth - third == step and extent % 2 == 0


# -- refusing


def _no_form(values: Array, profile: IntTuple, modes: list[Modes]) -> CuteError:
    """Return the refusal: the first index at which the modes found, the last running on, depart."""
    extents = list(leaves(profile))
    origin = int(values[0])
    wrong = _run_on(extents, modes) + origin != values
    index = int(wrong.argmax())
    coord = idx2crd(index, tuple(extents))
    parts = [_offset(c, *_split(part)) for c, part in zip(coord, modes, strict=True)]
    fitted = sum(parts) + origin
    seen = [_seen(c, part) for c, part in zip(coord, modes, strict=True)]
    layout = str(_built(profile, seen, IDENTITY, 0))
    return refusal(
        "fit-no-form",
        operation="fit",
        count=len(values),
        layout=f"{origin} + {layout}" if origin else layout,
        index=index,
        got=int(values[index]),
        fitted=fitted,
        tried=_tried(values, extents),
        repair=_repair(wrong, extents, modes, fitted),
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


def _run_on(extents: list[int], modes: list[Modes]) -> Alike:
    """Return what the modes give at every index, the last one of each axis running on."""
    import numpy as np

    total = np.zeros(1, dtype=np.int64)
    for extent, part in zip(extents, modes, strict=True):
        axis = look_up(*_split(part), np.arange(extent, dtype=np.int64))
        total = np.add.outer(axis, total).reshape(-1)
    return total


def _tried(values: Array, extents: list[int]) -> str:
    """Say why the other two forms do not fit either."""
    bits = _used_bits(values).bit_length()
    swizzles = f"no swizzle of the {bits} offset bits makes it a layout"
    odd = next((extent for extent in extents if extent & (extent - 1)), None)
    if odd is not None:
        return f"{swizzles}; for F2, extent {odd} is no power of two"
    if int(values.min()) < 0:
        return f"{swizzles}; F2 needs offsets of at least 0"
    index, got, fitted = table_misfit(values) or (0, 0, 0)
    return f"{swizzles}; over F2, index {index} has {got} where the XOR of its bits is {fitted}"


def _repair(wrong: Array, extents: list[int], modes: list[Modes], fitted: int) -> str:
    """Return a change that was checked: of one entry, or of the length of a flat table."""
    index = int(wrong.argmax())
    if int(wrong.sum()) == 1:
        return f"that entry alone is off: put {fitted} there"
    if len(extents) > 1:
        return "fit the modes one at a time to see which one bends, or keep the array"
    *inner, (_, stride) = _seen(index, modes[0])
    rows = index // _size(inner)
    start = merged([*inner, (rows, stride)])
    return f"fit the first {start.size()} entries alone, {start}, or keep the array"


def _size(modes: Modes) -> int:
    size = 1
    for extent, _ in modes:
        size *= extent
    return size
