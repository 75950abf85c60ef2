"""Pictures as SVG, one path for each colour and one text for each line of a row.

There is no element for a single cell, so a 128x128 layout takes milliseconds to draw and to show.
A row is one string in a monospaced font, padded so that its columns line up; `textLength` ensures
that for any font width. The padding consists of figure spaces, as wide as a digit, so that columns
of digits line up in other fonts too. There is no background, and what is outside of the cells is of
a grey that both light and dark pages show.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape
from textwrap import wrap
from typing import NamedTuple

from cute_py.viz.build import picture_of
from cute_py.viz.picture import MOST_TEXTS, RGB, Grid, Picture, block_label, mode_sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cute_py.layout.types import IntTuple
    from cute_py.viz.build import Drawable

# all in pixels
WIDEST = 900  # a larger picture is scaled down
FONT = 10
CHAR = 6  # the width of a character
LINE = 11  # the height of a line of text
BASE = 9  # from the top of a line to its baseline
MARGIN = 10
GAP = 24  # between grids
SQUARE = 30  # cells with wider texts are not square
LEAST, MOST = 3, 12  # the side of a cell without text
CROWDED = 16  # blocks that are smaller have no heavy lines
TALL = 64  # rows of a narrow grid that is continued to the right
BLANK = "\N{FIGURE SPACE}"
FAMILY = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
LABEL, INK, HEAVY = "#767676", "#000", "#333"


def to_svg(x: Drawable, *, by: str | None = None, bits: int = 16) -> str:
    """Return the picture of x as an SVG document, at most 900 pixels wide.

    A picture of more than 4096 cells has colours and labels, but no texts in its cells.

    Args:
        x: an argument of `picture_of`, or a Picture.
        by: what the colours tell apart; see `picture_of`.
        bits: the bits of an element, for banks.

    >>> from cute_py import Layout
    >>> to_svg(Layout((128, 128), (128, 1))).count("<path")  # 8 colours and the frame
    9
    """
    drawn = picture_of(x, by, bits)
    plan = _arranged(drawn if drawn.cells > MOST_TEXTS else _stacked(drawn))
    body = [_text(MARGIN, MARGIN + i * LINE + BASE, line) for i, line in enumerate(plan.title)]
    body[:0] = [f'<g fill="{LABEL}">']
    body.append("</g>")
    for row, top in zip(plan.grids, plan.tops, strict=True):
        for grid, left in zip(row, plan.lefts, strict=True):
            if grid is not None:
                body += _grid(grid, left, top, plan)
    return "\n".join([*_head(drawn.title, plan.width, plan.height), *body, "</g></svg>", ""])


def _head(title: str, width: int, height: int) -> list[str]:
    wide = min(width, WIDEST)
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{height * wide // width}" '
        f'viewBox="0 0 {width} {height}" style="max-width:100%;height:auto">',
        f"<title>{escape(title)}</title>",
        f'<g font-family="{FAMILY}" font-size="{FONT}" xml:space="preserve">',
    ]


# -- where the parts of a picture are


class Arranged(NamedTuple):
    """A picture with the places of its parts (pixels)."""

    title: list[str]
    grids: tuple[tuple[Grid | None, ...], ...]
    has_texts: bool
    across: int  # the width of a cell
    down: int  # its height
    lefts: list[int]  # of the columns of grids, where their cells begin
    tops: list[int]  # of the rows of grids, where their cells begin
    width: int
    height: int


def _stacked(drawn: Picture) -> Picture:
    """Return the picture with values under their threads, so that cells are about square."""
    stacked: dict[tuple[str, ...], tuple[str, ...]] = {}

    def cell(lines: tuple[str, ...]) -> tuple[str, ...]:
        if lines not in stacked:
            stacked[lines] = tuple([part for line in lines for part in line.split(" ")])
        return stacked[lines]

    def grid(old: Grid | None) -> Grid | None:
        return old and replace(old, lines=tuple([tuple(map(cell, row)) for row in old.lines]))

    return replace(drawn, grids=tuple([tuple(map(grid, row)) for row in drawn.grids]))


def _arranged(drawn: Picture) -> Arranged:
    """Return the grids as they are if they fit, else one above the other if their places allow."""
    first = _placed(drawn, drawn.grids)
    row = drawn.grids[0]
    if len(drawn.grids) == 1 and len(row) == 1 and row[0] is not None:
        return _continued(drawn, row[0], first)
    if first.width <= WIDEST or any(grid is None for row in drawn.grids for grid in row):
        return first
    return _placed(drawn, tuple([(grid,) for row in drawn.grids for grid in row]))


def _continued(drawn: Picture, grid: Grid, whole: Arranged) -> Arranged:
    """Return a tall and narrow grid in parts, each to the right of the rows above it."""
    if grid.rows < TALL or grid.columns * 4 > grid.rows:
        return whole
    sizes = mode_sizes(grid.row_shape) or tuple([1 << i for i in range(5, grid.rows.bit_length())])
    for size in sizes:
        if size >= 16 and size < grid.rows and grid.rows <= size * grid.rows // size:
            starts = range(0, grid.rows, size)
            parts = tuple([_rows(grid, start, size) for start in starts])
            placed = _placed(drawn, (parts,))
            if placed.width <= WIDEST:
                return placed
    return whole


def _rows(grid: Grid, start: int, count: int) -> Grid:
    """Return some rows of a grid."""
    where = slice(start, start + count)
    return replace(
        grid,
        lines=grid.lines[where],
        colours=grid.colours[where],
        row_labels=grid.row_labels[where],
        row_shape=1,
    )


def _placed(drawn: Picture, grids: tuple[tuple[Grid | None, ...], ...]) -> Arranged:
    """Return where the grids are if they are arranged so."""
    columns = [[grid for grid in column if grid] for column in zip(*grids, strict=True)]
    rows = [[grid for grid in row if grid] for row in grids]
    has_texts = drawn.cells <= MOST_TEXTS
    across, down = _cell_size(columns, rows, has_texts)
    lefts, right = [], MARGIN
    for column in columns:
        left = right + max(map(_labels_width, column))
        lefts.append(left)
        ends = [max(each.columns * across, CHAR * len(each.title)) for each in column]
        right = left + max(ends) + GAP
    width = right - GAP + MARGIN
    title = wrap(drawn.title, max(60, min(width, WIDEST) // CHAR - 4), break_on_hyphens=False)
    width = max([width, *[CHAR * len(line) + 2 * MARGIN for line in title]])
    tops, bottom = [], MARGIN + LINE * len(title) + LINE // 2
    for row in rows:
        top = bottom + max(map(_heads_height, row))
        tops.append(top)
        bottom = top + max(grid.rows for grid in row) * down + GAP
    height = bottom - GAP + MARGIN
    return Arranged(title, grids, has_texts, across, down, lefts, tops, width, height)


def _cell_size(
    columns: list[list[Grid]], rows: list[list[Grid]], has_texts: bool
) -> tuple[int, int]:
    """Return width and height of all cells: square unless the texts are wide."""
    if not has_texts:
        labels = sum(max(map(_labels_width, column)) + GAP for column in columns)
        count = sum(max(grid.columns for grid in column) for column in columns)
        side = (WIDEST - labels - 2 * MARGIN) // count
        return (max(LEAST, min(MOST, side)),) * 2
    grids = [grid for row in rows for grid in row]
    cells = {cell for grid in grids for line in grid.lines for cell in line}
    widest = max([len(line) for cell in cells for line in cell], default=0)
    heads = max(len(label) for grid in grids for label in grid.column_labels)
    tallest = max([len(cell) for cell in cells], default=1)
    down = LINE * max(1, tallest) + 2
    across = max(CHAR * (max(widest, heads) + 1), -(-down // CHAR) * CHAR)
    return across, max(down, min(across, SQUARE))


def _labels_width(grid: Grid) -> int:
    """Return the width of what is to the left of the cells: labels of rows and of blocks."""
    own = max(map(len, grid.row_labels))
    return CHAR * (own + 1) + CHAR * _blocks_width(grid.row_shape)


def _blocks_width(shape: IntTuple) -> int:
    """Return the width of the labels of blocks (characters), 0 without blocks."""
    sizes = mode_sizes(shape)
    return len(block_label(shape, sizes[0], 0)) + 3 if sizes else 0


def _heads_height(grid: Grid) -> int:
    """Return the height of what is above the cells: title, labels of blocks and of columns."""
    return LINE * (1 + bool(grid.title) + bool(mode_sizes(grid.column_shape))) + 3


# -- one grid


def _grid(grid: Grid, x: int, y: int, plan: Arranged) -> Iterator[str]:
    """Yield the elements of a grid whose cells begin at (x, y): colours, lines, labels, texts."""
    across, down = plan.across, plan.down
    # the colours are strokes along the rows, in units of a cell
    yield f'<g transform="translate({x} {y + down / 2:g}) scale({across} {down})" fill="none">'
    for colour, path in sorted(_colours(grid).items()):
        yield f'<path stroke="#{RGB[colour % len(RGB)]}" d="{path}"/>'
    yield "</g>"
    yield from _lines(grid, x, y, plan)
    yield f'<g fill="{LABEL}">'
    if grid.title:
        yield _text(x, y - _heads_height(grid) + BASE, grid.title)
    yield from _labels(grid, x, y, plan)
    if plan.has_texts:
        yield from _texts(grid, x, y, plan, False)
        yield f'</g><g fill="{INK}">'
        yield from _texts(grid, x, y, plan, True)
    yield "</g>"


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


def _lines(grid: Grid, x: int, y: int, plan: Arranged) -> Iterator[str]:
    """Yield the lines between cells, where these have texts, and heavy ones between modes."""
    across, down = plan.across, plan.down
    wide, high = grid.columns * across, grid.rows * down
    rows, columns = grid.rows, grid.columns
    steps = (1, 1) if plan.has_texts else (rows, columns)
    thin = [f"M{x} {y + i * down}h{wide}" for i in range(0, rows + 1, steps[0])]
    thin += [f"M{x + j * across} {y}v{high}" for j in range(0, columns + 1, steps[1])]
    yield f'<path stroke="#888" shape-rendering="crispEdges" fill="none" d="{"".join(thin)}"/>'
    downwards = [size for size in mode_sizes(grid.row_shape) if size * down >= CROWDED]
    sideways = [size for size in mode_sizes(grid.column_shape) if size * across >= CROWDED]
    heavy = [f"M{x} {y + i * down}h{wide}" for i in _cuts(downwards, rows)]
    heavy += [f"M{x + j * across} {y}v{high}" for j in _cuts(sideways, columns)]
    if heavy:
        yield f'<path stroke="{HEAVY}" stroke-width="2" fill="none" d="{"".join(heavy)}"/>'


def _cuts(sizes: list[int], count: int) -> list[int]:
    """Return where blocks of these sizes end, but for the last."""
    return sorted({at for size in sizes for at in range(size, count, size)})


def _labels(grid: Grid, x: int, y: int, plan: Arranged) -> Iterator[str]:
    """Yield the labels of rows and columns that have room, and of the blocks of their modes."""
    across, down, left = plan.across, plan.down, x - CHAR // 2
    step = _step(down, LINE)
    for i in range(0, grid.rows, step):
        yield _text(left, y + i * down + _middle(down), grid.row_labels[i], "end")
    step = _step(across, CHAR * (1 + max(map(len, grid.column_labels))))
    centres = [x + j * across + across // 2 for j in range(0, grid.columns, step)]
    yield _centred(centres, y - 4, grid.column_labels[::step])
    for size, label, at in _blocks(grid.row_shape, grid.rows, down, LINE):
        edge = left - CHAR * (max(map(len, grid.row_labels)) + 1)
        yield _text(edge, y + at * down + _middle(size * down), label, "end")
    for size, label, at in _blocks(grid.column_shape, grid.columns, across, 0):
        middle = x + at * across + size * across // 2
        yield _text(middle, y - 4 - LINE, label, "middle")


def _middle(height: int) -> int:
    """Return the baseline of a text in the middle of a height."""
    return height // 2 + FONT // 3


def _step(side: int, room: int) -> int:
    """Return how many cells of this side there are from one label to the next, a power of two."""
    step = 1
    while step * side < room:
        step *= 2
    return step


def _blocks(shape: IntTuple, count: int, side: int, room: int) -> Iterator[tuple[int, str, int]]:
    """Yield size, label and start of the blocks of the smallest size that has room for labels."""
    for size in mode_sizes(shape):
        labels = [block_label(shape, size, k) for k in range(count // size)]
        if size * side >= (room or CHAR * (max(map(len, labels)) + 1)):
            yield from ((size, label, size * k) for k, label in enumerate(labels))
            return


def _centred(xs: Sequence[int], y: int, texts: Sequence[str]) -> str:
    """Return texts that are centred at their places, as one element."""
    spans = [
        f'<tspan x="{x}">{escape(t, quote=False)}</tspan>' for x, t in zip(xs, texts, strict=True)
    ]
    return f'<text y="{y}" text-anchor="middle">{"".join(spans)}</text>' if any(texts) else ""


def _texts(grid: Grid, x: int, y: int, plan: Arranged, coloured: bool) -> Iterator[str]:
    """Yield the lines of text of the cells that have a colour, or of those that have none."""
    width = plan.across // CHAR
    for row, colours in enumerate(grid.colours):
        own = [(colour is not None) is coloured for colour in colours]
        if not any(own):
            continue
        cells = [cell if mine else () for cell, mine in zip(grid.lines[row], own, strict=True)]
        count = max(map(len, cells))
        top = y + row * plan.down + (plan.down - count * LINE) // 2 + BASE
        for line in range(count):
            texts = [cell[line] if line < len(cell) else "" for cell in cells]
            joined = (f"{{:^{width}}}" * len(texts)).format(*texts).replace(" ", BLANK)
            yield _padded(x, top + line * LINE, joined)


def _padded(x: int, y: int, text: str) -> str:
    """Return a text that starts at x, with blanks, as long as it is in a monospaced font."""
    bare = text.strip()
    if not bare:
        return ""
    x += CHAR * (len(text) - len(text.lstrip()))
    wide = f' textLength="{CHAR * len(bare)}"' if len(bare) > 1 else ""
    return f'<text x="{x}" y="{y}"{wide}>{escape(bare, quote=False)}</text>'


def _text(x: int, y: int, text: str, anchor: str = "") -> str:
    """Return one label."""
    anchor = anchor and f' text-anchor="{anchor}"'
    return f'<text x="{x}" y="{y}"{anchor}>{escape(text, quote=False)}</text>' if text else ""
