"""Grids of cells from the values of a layout, and from cells in colexicographical order."""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout import tuples
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import INTS, Layout
from cute_py.layout.queries import is_static, size
from cute_py.viz.palette import COLOURS
from cute_py.viz.picture import Cell, Grid

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


def is_layout(x: object) -> bool:
    """Return whether x is a layout of any kind."""
    return x.__class__ in (Layout, ComposedLayout) or (hasattr(x, "bases") and hasattr(x, "shape"))


def require_numbers(layout: AnyLayout, operation: str) -> None:
    """Refuse a layout with symbols."""
    if not (hasattr(layout, "bases") or is_static(layout)):
        raise refusal("viz-symbols", operation=operation, layout=layout)


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
            return [outer(offset + value) for value in inner]
    return [layout(i) for i in range(size(layout))]


def _offsets(layout: Layout) -> list[int]:
    """Return the offsets of an all-int layout by outer sums, without NumPy and its loading time."""
    offsets = [0]
    modes = list(zip(tuples.leaves(layout.shape), tuples.leaves(layout.stride), strict=True))
    for extent, stride in reversed(modes):
        terms = [i * stride for i in range(extent)]
        offsets = [offset + term for offset in offsets for term in terms]
    return offsets


def value_cells(values: list[Any]) -> list[Cell]:
    """Return the cells of offsets or of coordinates."""
    if values[0].__class__ is int:
        return [Cell((str(value),), value % len(COLOURS)) for value in values]
    colours = [sum(tuples.leaves(value)) % len(COLOURS) for value in values]
    return [Cell((tuples.show(each),), c) for each, c in zip(values, colours, strict=True)]


def slabs(x: object, cells: list[Cell], shape: tuple[int, ...], labels: list[list[str]]) -> Grids:
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
        table(_slab_title(rest, k), cells[area * k : area * (k + 1)], *labels[:2])
        for k in range(depth * slabs)
    ]
    return tuple(tuple(grids[k::depth]) for k in range(depth))


def _slab_title(rest: list[int], index: int) -> str:
    if not rest:
        return ""
    if len(rest) == 1:
        return f"(_,_,{index})"
    return f"(_,_,{index % rest[0]},{index // rest[0]})"


def table(title: str, cells: list[Cell], rows: Labels, columns: Labels) -> Grid:
    """Return the grid of cells that come column by column."""
    height = len(rows)
    by_row = tuple([tuple(cells[i::height]) for i in range(height)])
    return Grid(title, by_row, tuple(rows), tuple(columns))


def _line(cells: list[Cell], labels: Labels) -> Grid:
    """Return the grid of one mode: a line, or lines of 16 cells, each labelled by its first."""
    width = min(COLUMNS, len(cells)) if len(cells) > 2 * COLUMNS else len(cells)
    starts = range(0, len(cells), width)
    padded = cells + [Cell()] * (-len(cells) % width)
    rows = tuple(tuple(padded[i : i + width]) for i in starts)
    names = tuple(labels[i] for i in starts) if len(starts) > 1 else ("",)
    columns = tuple(numbered(width)) if len(starts) > 1 else tuple(labels)
    return Grid("", rows, names, columns)


def numbered(n: int) -> list[str]:
    """Return the labels 0 to n - 1."""
    return [str(i) for i in range(n)]
