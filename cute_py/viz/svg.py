"""Pictures as SVG, one path for each colour and one text for each line of a row; also in a
notebook.

There is no element for a single cell, so a 128x128 layout takes milliseconds to draw and to show.
A row is one string in a monospaced font, padded so that its columns line up; `textLength` ensures
that for any font width. The padding consists of figure spaces, as wide as a digit, so that columns
of digits line up in other fonts too.
"""

from __future__ import annotations

from html import escape

from cute_py.errors import CuteError
from cute_py.viz.build import picture_of
from cute_py.viz.picture import PAD, RGB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Protocol

    from cute_py.viz.build import Drawable
    from cute_py.viz.picture import Grid, Size

    class Formatter(Protocol):
        """IPython's formatter for one format."""

        def for_type_by_name(self, module: str, name: str, function: Callable[..., Any]) -> object:
            """Use `function` for the type of this name, now or once it is loaded."""

    class DisplayFormatter(Protocol):
        """IPython's formatters, by MIME type."""

        formatters: dict[str, Formatter]

    class Shell(Protocol):
        """The IPython shell."""

        display_formatter: DisplayFormatter


# all in pixels
FONT = 10
CHAR = 6  # the width of a character
LINE = 12  # the height of a line of text
ROW_PAD = 6  # the height of a row in addition to its lines
BASE = 10  # from the top of a line to its baseline
MARGIN = 10
GAP = 24  # between grids
BLANK = "\N{FIGURE SPACE}"
FAMILY = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def to_svg(x: Drawable) -> str:
    """Return the picture of x as an SVG document.

    Args:
        x: an argument of `picture_of`, or a Picture.

    >>> from cute_py import Layout
    >>> to_svg(Layout((128, 128), (128, 1))).count("<path")  # 8 colours and the lines
    9
    """
    drawn = picture_of(x)
    columns, rows = drawn.column_sizes(), drawn.row_sizes()
    lefts = _places([_grid_width(size) for size in columns], MARGIN)
    tops = _places([_grid_height(size) for size in rows], MARGIN + 2 * LINE)
    body = [_text(MARGIN, MARGIN + BASE, drawn.title)]
    for row, height, top in zip(drawn.grids, rows, tops, strict=False):
        for grid, width, left in zip(row, columns, lefts, strict=False):
            if grid is not None:
                body += _grid(grid, left, top, width, height)
    right = max(lefts[-1] - GAP, MARGIN + CHAR * len(drawn.title))
    head = _head(drawn.title, right + MARGIN, tops[-1] - GAP + MARGIN)
    return "\n".join([*head, *body, "</g></svg>", ""])


def _places(sizes: list[int], start: int) -> list[int]:
    """Return the start of each grid, and of one more."""
    places = [start]
    for size in sizes:
        places.append(places[-1] + size + GAP)
    return places


def _head(title: str, width: int, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<g font-family="{FAMILY}" font-size="{FONT}" fill="#000" xml:space="preserve">',
    ]


def _cell_width(size: Size) -> int:
    return CHAR * (size.cell + PAD)


def _cell_height(size: Size) -> int:
    return LINE * size.cell + ROW_PAD


def _label_width(size: Size) -> int:
    return CHAR * (size.label + 1)


def _grid_width(size: Size) -> int:
    return _label_width(size) + size.extent * _cell_width(size)


def _grid_height(size: Size) -> int:
    return 2 * LINE + size.extent * _cell_height(size)  # title and column labels above the cells


def _grid(grid: Grid, left: int, top: int, width: Size, height: Size) -> Iterator[str]:
    """Yield the elements of a grid: title, colours, lines, and its texts row by row."""
    x, y = left + _label_width(width), top + 2 * LINE
    across, down = _cell_width(width), _cell_height(height)
    if grid.title:
        yield _text(x, top + BASE, grid.title)
    # the colours are strokes along the rows, in units of a cell
    yield f'<g transform="translate({x} {y + down // 2}) scale({across} {down})" fill="none">'
    for colour, path in sorted(_colours(grid).items()):
        yield f'<path stroke="#{RGB[colour % len(RGB)]}" d="{path}"/>'
    yield "</g>"
    lines = _lines(grid, x, y, across, down)
    yield f'<path stroke="#888" shape-rendering="crispEdges" d="{lines}"/>'
    yield _row(left, top + LINE + BASE, "", grid.column_labels, width)
    for i in range(grid.rows):
        for line, (label, texts) in enumerate(grid.texts(i, height.cell)):
            yield _row(left, y + i * down + ROW_PAD // 2 + line * LINE + BASE, label, texts, width)


def _colours(grid: Grid) -> dict[int, str]:
    """Return for each colour the path along its cells.

    The path of rows with the same colours is computed once. A layout has at most 8 kinds of rows:
    the offset of (i, j) is that of (i, 0) plus that of (0, j), and the colour is the offset
    modulo 8.
    """
    paths: dict[int, list[str]] = {}
    seen: dict[tuple[int | None, ...], dict[int, str]] = {}
    for row, colours in enumerate(grid.colours):
        if colours not in seen:
            seen[colours] = _steps(grid.runs(row))
        for colour, steps in seen[colours].items():
            paths.setdefault(colour, []).append(steps % row)
    return {colour: "".join(steps) for colour, steps in paths.items()}


def _steps(runs: Iterable[tuple[int, int, int]]) -> dict[int, str]:
    """Return for each colour the path along its runs in a row, with %d for the row's number."""
    steps: dict[int, list[str]] = {}
    ends: dict[int, int] = {}  # colour -> the column where its path ends
    for colour, start, length in runs:
        if colour in ends:
            steps[colour].append(f"m{start - ends[colour]} 0h{length}")
        else:
            steps[colour] = [f"M{start} %dh{length}"]
        ends[colour] = start + length
    return {colour: "".join(parts) for colour, parts in steps.items()}


def _lines(grid: Grid, x: int, y: int, across: int, down: int) -> str:
    wide, high = grid.columns * across, grid.rows * down
    levels = [f"M{x} {y + i * down}h{wide}" for i in range(grid.rows + 1)]
    uprights = [f"M{x + j * across} {y}v{high}" for j in range(grid.columns + 1)]
    return "".join(levels + uprights)


def _row(x: int, y: int, label: str, texts: tuple[str, ...] | list[str], width: Size) -> str:
    """Return the label and the texts of a row, centred in their cells to half a character."""
    cells = (f"{{:^{width.cell + PAD}}}" * len(texts)).format(*texts)
    return _text(x, y, f"{label:>{width.label}} {cells}".replace(" ", BLANK))


def _text(x: int, y: int, text: str) -> str:
    """Return a text that starts at x, without leading blanks."""
    bare = text.strip()
    if not bare:
        return ""
    x += CHAR * (len(text) - len(text.lstrip()))
    wide = f' textLength="{CHAR * len(bare)}"' if len(bare) > 1 else ""
    return f'<text x="{x}" y="{y}"{wide}>{escape(bare, quote=False)}</text>'


# -- in a notebook: `%load_ext cute_py.viz` registers a picture for each of our types in IPython's
# table of formatters, so layouts and atoms do not depend on pictures

MOST_CELLS = 1 << 14  # a notebook stores its outputs
TYPES = (
    ("cute_py.layout.layout", "Layout"),
    ("cute_py.layout.composed", "ComposedLayout"),
    ("cute_py.layout.bits.f2_layout", "F2Layout"),
    ("cute_py.layout.bits.swizzle", "Swizzle"),
    ("cute_py.tensor.tensor", "Tensor"),  # of coordinates; the others are shown as text
    ("cute_py.atoms.mma", "MMA_Atom"),
    ("cute_py.atoms.copy", "Copy_Atom"),
    ("cute_py.tiled.tiled_mma", "TiledMMA"),
    ("cute_py.tiled.tiled_copy", "TiledCopy"),
)


def register(shell: Shell) -> None:
    """Register pictures of layouts, swizzles, atoms and tiled operations with an IPython shell."""
    formatter = shell.display_formatter.formatters["image/svg+xml"]
    for module, name in TYPES:
        formatter.for_type_by_name(module, name, _svg)


def _svg(x: object) -> str | None:
    """Return the picture; None, for text, if there is none or it is too large."""
    try:
        drawn = picture_of(x)
    except CuteError:
        return None
    grids = [grid for row in drawn.grids for grid in row if grid]
    small = sum(grid.rows * grid.columns for grid in grids) <= MOST_CELLS
    return to_svg(drawn) if small else None
