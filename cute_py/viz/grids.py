"""Grids of cells from the values of a layout, and from cells in colexicographical order."""

from __future__ import annotations

from typing import NamedTuple

from cute_py.errors import refusal
from cute_py.layout import tuples
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import INTS, Layout
from cute_py.layout.queries import is_static, size
from cute_py.viz.palette import COLOURS
from cute_py.viz.picture import Grid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from cute_py.layout.types import AnyLayout

    Grids: TypeAlias = tuple[tuple[Grid, ...], ...]
    Labels: TypeAlias = Sequence[str]

MOST_CELLS = 1 << 18
MOST_PAIRS = 1 << 22  # threads often share elements: 128 hold each of a warpgroup's A
MOST_MODES = 4
COLUMNS = 16  # cells in a line of a rank-1 layout


class Cells(NamedTuple):
    """Cells one after the other: the lines of each, and the index of the colour of each."""

    lines: tuple[tuple[str, ...], ...]
    colours: tuple[int | None, ...]

    def part(self, where: slice) -> Cells:
        """Return some of the cells."""
        return Cells(self.lines[where], self.colours[where])


def is_layout(x: object) -> bool:
    """Return whether x is a layout of any kind."""
    return x.__class__ in (Layout, ComposedLayout, F2Layout)


def require_numbers(layout: AnyLayout, operation: str) -> None:
    """Refuse a layout with symbols."""
    if layout.__class__ is not F2Layout and not is_static(layout):
        raise refusal("tools-symbols", operation=operation, layout=layout)


def require_small(x: object, count: int, what: str = "cells") -> None:
    """Refuse more cells, or more pairs of thread and value, than a picture may have."""
    most = MOST_CELLS if what == "cells" else MOST_PAIRS
    if count > most:
        raise refusal(
            "viz-size", operation="picture_of", value=x, count=count, what=what, most=most
        )


def values_of(layout: AnyLayout) -> list[Any]:
    """Return what the layout yields, in colexicographical order."""
    if layout.__class__ is Layout and layout._kind == INTS:
        return _offsets(layout)
    if layout.__class__ is ComposedLayout:
        inner, outer, offset = values_of(layout.inner), layout.outer, layout.offset
        if inner[0].__class__ is int:
            offsets = [offset + value for value in inner]
            if outer.__class__ is Swizzle:
                return swizzled(outer, offsets)
            return [outer(each) for each in offsets]
    return [layout(i) for i in range(size(layout))]


def _offsets(layout: Layout) -> list[int]:
    """Return the offsets of an all-int layout by outer sums, without NumPy and its loading time."""
    offsets = [0]
    modes = list(zip(tuples.leaves(layout.shape), tuples.leaves(layout.stride), strict=True))
    for extent, stride in reversed(modes):
        terms = [i * stride for i in range(extent)]
        offsets = [offset + term for offset in offsets for term in terms]
    return offsets


def swizzled(swizzle: Swizzle, offsets: list[int]) -> list[int]:
    """Return the swizzled offsets; all that agree in the bits that are read change alike."""
    read = swizzle.yyy_msk
    change = {bits: swizzle(bits) ^ bits for bits in {offset & read for offset in offsets}}
    return [offset ^ change[offset & read] for offset in offsets]


def value_cells(values: list[Any]) -> Cells:
    """Return the cells of offsets or of coordinates."""
    whole = values[0].__class__ is int
    texts = map(str if whole else tuples.show, values)
    sums = values if whole else [sum(tuples.leaves(value)) for value in values]
    return Cells(tuple(zip(texts)), tuple([each % len(COLOURS) for each in sums]))


def slabs(x: object, cells: Cells, shape: tuple[int, ...], labels: list[list[str]]) -> Grids:
    """Return one grid, or one for each coordinate of modes 2 (downwards) and 3 (to the right).

    Args:
        x: what is drawn, for refusals.
        cells: in colexicographical order.
        shape: one extent for each mode.
        labels: of each mode, one text for each coordinate.

    """
    if len(shape) > MOST_MODES:
        raise refusal("viz-rank", operation="picture_of", value=x, rank=len(shape), most=MOST_MODES)
    if len(shape) < 2:
        return ((_line(cells, labels[0] if labels else [""]),),)
    rows, columns, *rest = shape
    depth, slabs = (*rest, 1, 1)[:2]
    area = rows * columns
    grids = [
        table(_slab_title(rest, k), cells.part(slice(area * k, area * (k + 1))), *labels[:2])
        for k in range(depth * slabs)
    ]
    return tuple(tuple(grids[k::depth]) for k in range(depth))


def _slab_title(rest: list[int], index: int) -> str:
    if not rest:
        return ""
    if len(rest) == 1:
        return f"(_,_,{index})"
    return f"(_,_,{index % rest[0]},{index // rest[0]})"


def table(title: str, cells: Cells, rows: Labels, columns: Labels) -> Grid:
    """Return the grid of cells that come column by column."""
    height = len(rows)
    parts = [cells.part(slice(i, None, height)) for i in range(height)]
    return grid_of(title, parts, rows, columns)


def grid_of(title: str, parts: list[Cells], rows: Labels, columns: Labels) -> Grid:
    """Return the grid of these rows of cells."""
    lines, colours = zip(*parts, strict=True)
    return Grid(title, lines, colours, tuple(rows), tuple(columns))


def _line(cells: Cells, labels: Labels) -> Grid:
    """Return the grid of one mode: a line, or lines of 16 cells, each labelled by its first."""
    count = len(labels)
    width = COLUMNS if count > 2 * COLUMNS else count
    starts = range(0, count, width)
    spare = -count % width
    padded = Cells(cells.lines + ((),) * spare, cells.colours + (None,) * spare)
    parts = [padded.part(slice(i, i + width)) for i in starts]
    if len(starts) == 1:
        return grid_of("", parts, [""], labels)
    return grid_of("", parts, [labels[i] for i in starts], numbered(width))


def numbered(n: int) -> list[str]:
    """Return the labels 0 to n - 1."""
    return [str(i) for i in range(n)]
