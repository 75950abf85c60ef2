"""Pictures as LaTeX: a standalone document with one TikZ picture."""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.viz.build import picture_of
from cute_py.viz.picture import MOST_TEXTS, PAD, RGB, mode_ends, mode_sizes, stacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cute_py.viz.build import Drawable
    from cute_py.viz.picture import Grid, Size

# in TikZ units: x counts characters, y lines, downwards
GAP = 3
HEAD = 2  # lines for the title and the column labels of a grid

_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "_": r"\_",
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "^": r"\^{}",
        "~": r"\~{}",
    }
)


def to_latex(x: Drawable, *, by: str | None = None, bits: int = 16) -> str:
    r"""Return the picture of x as a LaTeX document of class standalone, drawn with TikZ.

    Args:
        x: an argument of `picture_of`, or a Picture.
        by: what the colours tell apart; see `picture_of`.
        bits: the bits of an element, for banks.

    Raises LayoutError for more than 4096 cells, for which TeX runs out of memory.

    >>> from cute_py import Layout
    >>> print(to_latex(Layout((2, 2))).splitlines()[14])
    \node at (1,4.75) {0};
    """
    drawn = picture_of(x, by, bits)
    if drawn.cells > MOST_TEXTS:
        count, most = drawn.cells, MOST_TEXTS
        raise refusal("viz-latex", operation="to_latex", title=drawn.title, count=count, most=most)
    drawn = stacked(drawn)
    columns, rows = drawn.column_sizes(), drawn.row_sizes()
    lines = [*_head(), rf"\node[anchor=west] at (0,0) {{{_escaped(drawn.title)}}};"]
    top = HEAD
    for row, height in zip(drawn.grids, rows, strict=True):
        left = 0
        for grid, width in zip(row, columns, strict=True):
            if grid is not None:
                lines += _grid(grid, left + width.label + 1, top + HEAD, width, height)
            left += width.label + 1 + width.extent * (width.cell + PAD) + GAP
        top += HEAD + height.extent * _down(height) // 2 + GAP
    return "\n".join([*lines, r"\end{tikzpicture}", r"\end{document}", ""])


def _head() -> Iterator[str]:
    yield r"\documentclass[tikz,border=4pt]{standalone}"
    yield r"\begin{document}"
    for i, rgb in enumerate(RGB):
        yield rf"\definecolor{{c{i}}}{{HTML}}{{{rgb.upper()}}}"
    yield r"\begin{tikzpicture}[x=0.55em,y=-1.2em,font=\ttfamily\footnotesize,inner sep=0pt]"


def _down(size: Size) -> int:
    """Return the height of a row, in half lines."""
    return 2 * size.cell + 1


def _grid(grid: Grid, x: int, y: int, width: Size, height: Size) -> Iterator[str]:
    """Yield the commands of a grid whose first cell has its corner at (x, y)."""
    across, down = width.cell + PAD, _down(height) / 2
    if grid.title:
        yield rf"\node[anchor=west] at ({x},{y - 1.5:g}) {{{_escaped(grid.title)}}};"
    for row in range(grid.rows):
        at = y + row * down
        for colour, start, length in grid.runs(row):
            corner = f"({x + start * across},{at:g})"
            yield rf"\fill[c{colour % len(RGB)}] {corner} rectangle +({length * across},{down:g});"
        middle = at + down / 2
        yield from _nodes(x - 0.5 - width.label / 2, middle, 0, [grid.row_labels[row]])
        yield from _nodes(x + across / 2, middle, across, map(_cell, grid.lines[row]))
    yield from _nodes(x + across / 2, y - 0.5, across, grid.column_labels)
    yield from _lines(grid, x, y, across, down)


def _cell(lines: tuple[str, ...]) -> str:
    """Return the text of a cell. A node for each line would take more memory than TeX has."""
    text = r"\\".join(map(_escaped, lines))
    return rf"\shortstack{{{text}}}" if len(lines) > 1 else text


def _nodes(x: float, y: float, step: int, texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts, centred at (x, y) and at steps to the right."""
    for j, text in enumerate(texts):
        if text:
            yield rf"\node at ({x + j * step:g},{y:g}) {{{text}}};"


def _lines(grid: Grid, x: int, y: int, across: int, down: float) -> Iterator[str]:
    """Yield the lines between cells, and heavy ones between modes."""
    wide, high = grid.columns * across, grid.rows * down
    rows, columns = mode_sizes(grid.row_shape), mode_sizes(grid.column_shape)
    for style, levels, uprights in (
        ("gray", range(grid.rows + 1), range(grid.columns + 1)),
        ("very thick", mode_ends(rows, grid.rows), mode_ends(columns, grid.columns)),
    ):
        lines = [f"({x},{y + i * down:g}) -- +({wide},0)" for i in levels]
        lines += [f"({x + j * across},{y}) -- +(0,{high:g})" for j in uprights]
        if lines:
            yield rf"\draw[{style}] {' '.join(lines)};"


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)
