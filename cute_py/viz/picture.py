"""The model of a picture: grids of cells, with titles and labels, side by side.

It is independent of layouts and output formats; lengths are in characters of a monospaced font.
`build` makes pictures; `text`, `svg` and `latex` render them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import accumulate, chain, zip_longest
from operator import mul
from typing import NamedTuple

from cute_py.layout import tuples
from cute_py.records import Shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from cute_py.layout.types import IntTuple

# The colours of cells, by index modulo 8: light enough for black text, adjacent ones distinct;
# (red green blue) for SVG and LaTeX, and the nearest background of a 256-colour terminal
COLOURS = (
    ("a6cee3", 153),
    ("fdd49e", 223),
    ("b2df8a", 150),
    ("fbb4c4", 218),
    ("d9d0f0", 189),
    ("f5f08b", 228),
    ("9fe3d6", 122),
    ("d4d4d4", 252),
)
RGB = tuple(rgb for rgb, _ in COLOURS)
TERMINAL = tuple(number for _, number in COLOURS)


PAD = 2  # characters between the texts of adjacent cells
MOST_TEXTS = 1 << 12  # cells whose texts SVG and LaTeX draw


class Cell(NamedTuple):
    """One cell: its lines of text, and the index of its colour (None: no colour)."""

    lines: tuple[str, ...] = ()
    colour: int | None = None


class Facts(NamedTuple):
    """What the cells of a grid show, as numbers.

    Attributes:
        cells: for each cell, in the order of their indices, an offset, a coordinate, or the threads
            of each value: {value: threads}.
        shape: the shape that the indices count, nested as in the layout.
        start: the index of the first cell.
        across: whether the indices run along the rows, not down the columns.
        notes: for each cell, what a reader is told who points at it, in place of all this.
        marked: the cells with a frame.
        keys: for each cell, the number that links it to cells of other grids, in place of its
            offset.

    """

    cells: tuple[Any, ...]
    shape: IntTuple
    start: int = 0
    across: bool = False
    notes: tuple[str, ...] = ()
    marked: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class Grid:
    """A table of cells, whose rows all have the same length.

    Attributes:
        title: what the table shows.
        lines: for each row, top to bottom, the lines of text of each cell.
        colours: for each row the index of the colour of each cell (None: no colour).
        row_labels: one text for each row.
        column_labels: one text for each column.
        row_shape: the shape of the rows, whose modes heavy lines part; 1 for rows without modes.
        column_shape: the shape of the columns.
        facts: what the cells show, as numbers; None: texts only.
        first_row: the number of the first row, in a part of a larger grid.

    """

    title: str
    lines: tuple[tuple[tuple[str, ...], ...], ...]
    colours: tuple[tuple[int | None, ...], ...]
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    row_shape: IntTuple = 1
    column_shape: IntTuple = 1
    facts: Facts | None = field(default=None, compare=False, repr=False)
    first_row: int = 0

    @cached_property
    def cells(self) -> tuple[tuple[Cell, ...], ...]:
        """The cells, row by row, created on demand: large pictures are drawn without them."""
        rows = zip(self.lines, self.colours, strict=True)
        return tuple([tuple(map(Cell, *row)) for row in rows])

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.lines)

    @property
    def columns(self) -> int:
        """The number of columns."""
        return len(self.column_labels)

    def texts(self, row: int, height: int) -> Iterator[tuple[str, list[str]]]:
        """Yield the lines of a row: its label (on the first line), and a text for each cell.

        Args:
            row: the number of the row.
            height: the number of lines of each row.

        """
        columns = (self.row_labels[row],), *self.lines[row], ("",) * height
        for label, *texts, _ in zip_longest(*columns, fillvalue=""):
            yield label, texts

    def runs(self, row: int) -> Iterator[tuple[int, int, int]]:
        """Yield the runs of one colour in a row: colour, first column, number of columns."""
        start, colour = 0, None
        for column, own in enumerate(self.colours[row]):
            if own != colour:
                if colour is not None:
                    yield colour, start, column - start
                start, colour = column, own
        if colour is not None:
            yield colour, start, self.columns - start


def mode_sizes(shape: IntTuple) -> tuple[int, ...]:
    """Return the sizes of the blocks that the modes of one axis make, smallest first.

    >>> mode_sizes((2, (4, 3))), mode_sizes(8), mode_sizes((8, 1))
    ((2, 8), (), ())
    """
    sizes = list(accumulate(tuples.leaves(shape), mul))
    return tuple(sorted({size for size in sizes if 1 < size < sizes[-1]}))


def mode_ends(sizes: Iterable[int], count: int) -> list[int]:
    """Return where blocks of these sizes end in an axis of `count` cells, except at its end."""
    return sorted({at for size in sizes for at in range(size, count, size)})


def block_label(shape: IntTuple, size: int, index: int) -> str:
    """Return the coordinate of a block of `size` along one axis, with `_` for the modes inside.

    >>> block_label((2, (4, 3)), 2, 5), block_label((2, (4, 3)), 8, 2)
    ('(_,(1,1))', '(_,(_,2))')
    """
    parts = []
    for extent in tuples.leaves(shape):
        if size > 1 and size % extent == 0:
            parts.append("_")
            size //= extent
        else:
            parts.append(str(index % extent))
            index //= extent
    return _nested(shape, iter(parts))


def _nested(shape: IntTuple, entries: Iterator[object]) -> str:
    if shape.__class__ is tuple:
        return f"({','.join([_nested(mode, entries) for mode in shape])})"
    return str(next(entries))


class Size(NamedTuple):
    """The common size of the grids in one column or row of places (characters)."""

    label: int  # width of the row labels
    cell: int  # width of a cell's text, or its height in lines
    extent: int  # columns, or rows, of the largest grid


@dataclass(frozen=True, slots=True, repr=False)
class Picture(Shown):
    """Grids side by side.

    Attributes:
        title: what the picture shows.
        grids: rows of places, each with a grid or empty (None). Grids in one row of places have the
            same height of cells, grids in one column of places the same width, so that their rows
            and columns line up.
        link: what a click on a live picture selects in all grids: "thread", "element" or "offset";
            "": the first of them that the grids have in common.
        steps: whether a live picture shows the grids one after the other.
        bits: the width of an element, for the bytes and banks of offsets.

    >>> from cute_py import Layout
    >>> from cute_py.viz.build import picture_of
    >>> drawn = picture_of(Layout((2, 3), (3, 1)))
    >>> drawn.grids[0][0].cells[1][2]
    Cell(lines=('5',), colour=5)
    """

    title: str
    grids: tuple[tuple[Grid | None, ...], ...]
    link: str = field(default="", compare=False)
    steps: bool = field(default=False, compare=False)
    bits: int = field(default=16, compare=False)

    def __repr__(self) -> str:
        from cute_py import to_text  # the public function: pictures do not import renderers

        return to_text(self) if self.cells <= MOST_TEXTS else f"{self.title}: {self.cells} cells"

    def __str__(self) -> str:
        from cute_py import to_text  # the public function: pictures do not import renderers

        return str(to_text(self))

    def column_sizes(self) -> list[Size]:
        """Return the size of each column of places."""
        columns = zip(*self.grids, strict=True)
        return [_width([grid for grid in column if grid]) for column in columns]

    def row_sizes(self) -> list[Size]:
        """Return the size of each row of places."""
        return [_height([grid for grid in row if grid]) for row in self.grids]

    def as_data(self) -> dict[str, Any]:
        """Return the picture as dicts, lists, texts and ints, for JSON.

        >>> from cute_py import Layout
        >>> from cute_py.viz.build import picture_of
        >>> picture_of(Layout(2)).as_data()["grids"][0][0]["cells"]
        [[{'lines': ['0'], 'colour': 0}, {'lines': ['1'], 'colour': 1}]]
        """
        grids = [[grid and _grid_data(grid) for grid in row] for row in self.grids]
        return {"title": self.title, "grids": grids}

    @property
    def cells(self) -> int:
        """The number of cells of all grids."""
        return sum(grid.rows * grid.columns for row in self.grids for grid in row if grid)


def _grid_data(grid: Grid) -> dict[str, Any]:
    cells = [
        [{"lines": list(cell.lines), "colour": cell.colour} for cell in row] for row in grid.cells
    ]
    labels = {"row_labels": list(grid.row_labels), "column_labels": list(grid.column_labels)}
    return {"title": grid.title, **labels, "cells": cells}


def _width(grids: list[Grid]) -> Size:
    label = max(len(text) for grid in grids for text in grid.row_labels)
    heads = max(len(text) for grid in grids for text in grid.column_labels)
    cells = max(map(len, chain.from_iterable(_lines(grids))), default=0)
    return Size(label, max(heads, cells), max(grid.columns for grid in grids))


def _height(grids: list[Grid]) -> Size:
    cells = max(map(len, _lines(grids)))
    return Size(0, max(cells, 1), max(grid.rows for grid in grids))


def _lines(grids: list[Grid]) -> Iterator[tuple[str, ...]]:
    """Return the lines of each cell."""
    return chain.from_iterable([row for grid in grids for row in grid.lines])


def stacked(drawn: Picture) -> Picture:
    """Return the picture with values under their threads, so that cells are about square."""
    return rewritten(drawn, lambda line: line.split(" "))


def rewritten(drawn: Picture, lines_of: Callable[[str], list[str]]) -> Picture:
    """Return the picture with each line of its cells replaced by some lines."""

    @cache  # many cells have the same lines
    def cell(lines: tuple[str, ...]) -> tuple[str, ...]:
        return tuple([part for line in lines for part in lines_of(line)])

    def grid(old: Grid | None) -> Grid | None:
        return old and replace(old, lines=tuple([tuple(map(cell, row)) for row in old.lines]))

    return replace(drawn, grids=tuple([tuple(map(grid, row)) for row in drawn.grids]))
