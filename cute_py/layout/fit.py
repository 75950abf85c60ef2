"""The inverse problem: which layout has these offsets?

A coalesced layout can be read off its offsets: its first mode is the longest linear run from index
0, and the rest is the layout of the entries that start a run. Modes are read one by one and the whole table is
compared with what they give, so a fit is unique and never wrong. Swizzles undo themselves: a table
is Swizzle o offset o Layout if the swizzled table is offset + layout, and there are few swizzles.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout.coords import idx2crd
from cute_py.layout.f2_convert import from_f2, swizzled, swizzles_within, table_bases, table_misfit
from cute_py.layout.f2_layout import F2Layout
from cute_py.layout.layout import Layout, _offset, raw_flat
from cute_py.layout.offsets import look_up, outer_sums
from cute_py.layout.swizzle import Swizzle
from cute_py.layout.tables import read_table
from cute_py.layout.tuples import leaves, show, transform_leaf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from cute_py.layout.types import AnyLayout, IntTuple

    Modes = list[tuple[int, int]]  # (extent, stride)

PROBED = 16  # entries of a run that are compared at first
BLOCK = 256  # entries of a table that are compared at first
GROWTH = 8  # by how much more next

IDENTITY = Swizzle(0, 0, 0)


def fit(table: object, shape: IntTuple = None, coshape: IntTuple = None) -> AnyLayout:
    """Return the layout that has the offsets of a table: a Layout, else Swizzle o offset o Layout,
    else an F2Layout.

    Args:
        table: offsets (elements, negative ones too): a flat list or NumPy array in
            colexicographical order; an n-d one, whose axes are the modes, axis 0 the fastest; a
            dict from coordinates to offsets; or a function of one argument for each mode.
        shape: the shape that a flat table or a function is read with; the result's shape refines it.
        coshape: with it, entries are coordinates in coshape (a last axis, or tuples), and the
            offset of one is its colexicographical index.

    Law: offsets(fit(table)) is the table. The modes are coalesced within the modes of the shape. A
    first entry other than 0 becomes the offset: Sw<0,0,0> o offset o Layout. Of several swizzles
    the smallest is taken (by B, then M, then |S|), of those that stay within the bits of the
    largest entry. Raises LayoutError, with the first index at which no layout goes on, both values
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
    if int(values.min()) >= 0:
        powers = all(extent & (extent - 1) == 0 for extent in extents)
        if powers and table_misfit(values) is None:
            origin, bases = table_bases(values)
            return from_f2(F2Layout(profile, bases, origin))
        found = _swizzled_fit(values, extents)
        if found is not None:
            return _built(profile, found[1], found[0], found[0](int(values[0])))
    _refuse(values, profile, modes)


def _built(profile: IntTuple, modes: list[Modes], swizzle: Swizzle, origin: int) -> AnyLayout:
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


def _modes(values: AnyLayout, extents: list[int], swizzle: Swizzle) -> list[Modes]:
    """Return the modes of each axis, read along it with the other axes at 0."""
    modes = []
    step = 1
    for extent in extents:
        modes.append(_axis_modes(values[: step * extent : step], swizzle))
        step *= extent
    return modes


def _axis_modes(entries: AnyLayout, swizzle: Swizzle) -> Modes:
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


def _run(entries: AnyLayout, swizzle: Swizzle, origin: int, stride: int) -> int:
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


def _fits(
    values: AnyLayout, modes: list[Modes], extents: list[int], swizzle: Swizzle
) -> bool:
    """Return whether the modes give every entry, in ever larger parts of the table.

    int64 may wrap in the sums without harm: an entry that has one smaller digit is checked before
    and below 2**62 from the first, and so is one step, so that no first mismatch hides.
    """
    for part, extent in zip(modes, extents, strict=True):
        size = 1
        for run, _ in part:
            size *= run
        if size != extent:
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


def _swizzled_fit(values: AnyLayout, extents: list[int]) -> tuple[Swizzle, list[Modes]] | None:
    """Return the smallest swizzle under which the table is a layout, and its modes."""
    import numpy as np

    for swizzle in swizzles_within(int(np.bitwise_or.reduce(values))):
        modes = _modes(values, extents, swizzle)
        if _fits(values, modes, extents, swizzle):
            return swizzle, modes
    return None


# -- refusing


def _refuse(values: AnyLayout, profile: IntTuple, modes: list[Modes]) -> NoReturn:
    origin = int(values[0])
    guess = _guess(values, list(leaves(profile)), modes) + origin
    wrong = guess != values
    index = int(wrong.argmax())
    fitted = transform_leaf(lambda _, part: part, profile, profile)
    raise refusal(
        "fit-no-form",
        operation="fit",
        count=len(values),
        shape=show(profile),
        index=index,
        got=int(values[index]),
        fitted=int(guess[index]),
    )
