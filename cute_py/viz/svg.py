"""Pictures as SVG, one path for each colour and one text for each line of a row.

There is no element for a single cell, so a 128x128 layout takes milliseconds to draw and to show.
A row is one string in a monospaced font, padded so that its columns line up; `textLength` ensures
that for any font width. The padding consists of figure spaces, as wide as a digit, so that columns
of digits line up in other fonts too. There is no background, and what is outside the cells is of
a grey that both light and dark pages show.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape
from itertools import pairwise
from textwrap import wrap
from typing import NamedTuple

from cute_py.viz.build import picture_of
from cute_py.viz.picture import (
    MOST_TEXTS,
    RGB,
    Grid,
    Picture,
    block_label,
    mode_ends,
    mode_sizes,
    rewritten,
    stacked,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from cute_py.layout.types import IntTuple
    from cute_py.viz.build import Drawable

    Places: TypeAlias = tuple[tuple[Grid | None, ...], ...]

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
PART = 32  # rows of such a part, at least
NUDGE = 2  # to the right: padding cannot centre texts better than to half a character
BLANK = "\N{FIGURE SPACE}"
FAMILY = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
FITS = ' style="max-width:100%;height:auto"'  # of its page
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
    plan = _arranged(drawn if drawn.cells > MOST_TEXTS else stacked(drawn))
    size = f' font-size="{FONT * plan.unit:g}"' if plan.unit > 1 else ""
    body = [f'<g fill="{LABEL}"{size}>']
    for i, line in enumerate(plan.title):
        body.append(_text(MARGIN, MARGIN + (i * LINE + BASE) * plan.unit, line))
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
        f'viewBox="0 0 {width} {height}"{FITS}>',
        f"<title>{escape(title)}</title>",
        f'<g font-family="{FAMILY}" font-size="{FONT}" xml:space="preserve">',
    ]


# -- where the parts of a picture are


class Arranged(NamedTuple):
    """A picture with the places of its parts (pixels)."""

    title: list[str]
    grids: Places
    has_texts: bool
    unit: float  # how much larger labels are, so that they can be read in a picture scaled down
    across: int  # the width of a cell
    down: int  # its height
    lefts: list[int]  # of the columns of grids, where their cells begin
    tops: list[int]  # of the rows of grids, where their cells begin
    width: int
    height: int


def _narrow(drawn: Picture) -> Picture:
    """Return the stacked picture without the letter of threads, a line for each part of a list."""
    bare = rewritten(drawn, lambda line: line.removeprefix("T").replace(",", ",\n").split("\n"))
    return drawn if bare == drawn else replace(bare, title=f"{drawn.title} (threads over values)")


def _arranged(drawn: Picture) -> Arranged:
    """Return the grids as they are if they fit, else in rows that fit if their places allow."""
    first = _placed(drawn, drawn.grids)
    is_single = len(first.lefts) == len(first.tops) == 1
    if first.width <= WIDEST and not is_single:
        return first
    others = _continued(drawn.grids[0][0]) if is_single else _flowed(drawn, first)
    for each in others:
        placed = _placed(drawn, each)
        if placed.width <= WIDEST:
            return placed
    if first.width <= WIDEST:
        return first
    narrow = _narrow(drawn) if first.has_texts else drawn
    places = [narrow.grids, *_flowed(narrow, first)]
    tried = [_placed(narrow, each, is_square=narrow is drawn) for each in places]
    return min(tried, key=lambda each: max(each.width, WIDEST))


def _flowed(drawn: Picture, first: Arranged) -> Iterator[Places]:
    """Yield the grids in rows of as many as fit, if no place is empty."""
    grids = [grid for row in drawn.grids for grid in row]
    if None in grids or len(drawn.grids[0]) == 1:
        return
    pitch = max(b - a for a, b in pairwise([*first.lefts, first.width]))
    fitting = (WIDEST - 2 * MARGIN + GAP) // pitch
    tried = fitting + 1, fitting, fitting - 1, 1  # labels are narrower where the picture is
    for columns in sorted({min(max(1, each), len(grids)) for each in tried}, reverse=True):
        padded = [*grids, *[None] * (-len(grids) % columns)]
        starts = range(0, len(padded), columns)
        yield tuple([tuple(padded[start : start + columns]) for start in starts])


def _continued(grid: Grid | None) -> Iterator[Places]:
    """Yield a tall and narrow grid in parts, each to the right of the rows above it."""
    if grid is None or grid.rows < TALL or grid.columns * 4 > grid.rows:
        return
    powers = [1 << i for i in range(grid.rows.bit_length())]
    for size in mode_sizes(grid.row_shape) or powers:
        if PART <= size < grid.rows:
            yield (tuple([_rows(grid, start, size) for start in range(0, grid.rows, size)]),)


def _rows(grid: Grid, start: int, count: int) -> Grid:
    """Return some rows of a grid."""
    where = slice(start, start + count)
    return replace(
        grid,
        lines=grid.lines[where],
        colours=grid.colours[where],
        row_labels=grid.row_labels[where],
        first_row=start,
    )


def _placed(drawn: Picture, grids: Places, is_square: bool = True) -> Arranged:
    """Return where the grids are if they are arranged so."""
    columns = [[grid for grid in column if grid] for column in zip(*grids, strict=True)]
    rows = [[grid for grid in row if grid] for row in grids]
    has_texts = drawn.cells <= MOST_TEXTS
    across, down = _cell_size(columns, has_texts, is_square)
    cells = across * sum(max(grid.columns for grid in column) for column in columns)
    unit = max(1.0, cells / (WIDEST - 60))
    lefts, right = [], MARGIN
    for column in columns:
        left = right + max([_labels_width(grid, unit) for grid in column])
        lefts.append(left)
        ends = [max(each.columns * across, _wide(each.title, unit)) for each in column]
        right = left + max(ends) + GAP
    width = right - GAP + MARGIN
    room = max(60, int(width / unit) // CHAR - 4)
    title = wrap(drawn.title, room, break_on_hyphens=False)
    width = max([width, *[_wide(line, unit) + 2 * MARGIN for line in title]])
    tops, bottom = [], MARGIN + int(unit * LINE * (len(title) + 0.5))
    for row in rows:
        top = bottom + max([_heads_height(grid, unit) for grid in row])
        tops.append(top)
        bottom = top + max(grid.rows for grid in row) * down + GAP
    height = bottom - GAP + MARGIN
    return Arranged(title, grids, has_texts, unit, across, down, lefts, tops, width, height)


def _wide(text: str, unit: float) -> int:
    """Return the width of a label."""
    return int(CHAR * len(text) * unit + 0.5)


def _cell_size(columns: list[list[Grid]], has_texts: bool, is_square: bool) -> tuple[int, int]:
    """Return width and height of all cells: square unless the texts are wide."""
    if not has_texts:
        labels = sum(max([_labels_width(grid, 1) for grid in column]) + GAP for column in columns)
        count = sum(max(grid.columns for grid in column) for column in columns)
        side = (WIDEST - labels - 2 * MARGIN) // count
        return (max(LEAST, min(MOST, side)),) * 2
    grids = [grid for column in columns for grid in column]
    cells = {cell for grid in grids for line in grid.lines for cell in line}
    widest = max([len(line) for cell in cells for line in cell], default=0)
    heads = max(len(label) for grid in grids for label in grid.column_labels)
    tallest = max([len(cell) for cell in cells], default=1)
    down = LINE * max(1, tallest) + 2
    across = CHAR * (max(widest, heads) + 1)
    if not is_square:
        return across, down
    across = max(across, -(-down // CHAR) * CHAR)
    return across, max(down, min(across, SQUARE))


def _labels_width(grid: Grid, unit: float) -> int:
    """Return the width of what is to the left of the cells: labels of rows and of blocks."""
    sizes = mode_sizes(grid.row_shape)
    blocks = len(block_label(grid.row_shape, sizes[0], 0)) + 3 if sizes else 0
    return int(CHAR * unit * (max(map(len, grid.row_labels)) + 1 + blocks))


def _heads_height(grid: Grid, unit: float) -> int:
    """Return the height of what is above the cells: title, labels of blocks and of columns."""
    return int(LINE * unit * (1 + bool(grid.title) + bool(mode_sizes(grid.column_shape)))) + 3


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
    size = f' font-size="{FONT * plan.unit:g}"' if plan.unit > 1 else ""
    yield f'<g fill="{LABEL}"{size}>'
    yield _text(x, y - _heads_height(grid, plan.unit) + BASE * plan.unit, grid.title)
    yield from _labels(grid, x, y, plan)
    if plan.has_texts:
        yield f'</g><g fill="{LABEL}">'
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
    heavy = [f"M{x} {y + i * down}h{wide}" for i in mode_ends(downwards, rows)]
    heavy += [f"M{x + j * across} {y}v{high}" for j in mode_ends(sideways, columns)]
    if heavy:
        yield f'<path stroke="{HEAVY}" stroke-width="2" fill="none" d="{"".join(heavy)}"/>'


def _labels(grid: Grid, x: int, y: int, plan: Arranged) -> Iterator[str]:
    """Yield the labels of rows and columns that have room, and of the blocks of their modes."""
    across, down, unit = plan.across, plan.down, plan.unit
    line, char, middle = LINE * unit, CHAR * unit, FONT * unit / 3
    left, above = x - char / 2, y - 4
    for i in range(0, grid.rows, _step(down, 1.6 * line)):
        yield _text(left, y + (i + 0.5) * down + middle, grid.row_labels[i], "end")
    step = _step(across, char * (1 + max(map(len, grid.column_labels))))
    centres = [x + (j + 0.5) * across for j in range(0, grid.columns, step)]
    yield _centred(centres, above, grid.column_labels[::step])
    edge = left - char * (max(map(len, grid.row_labels)) + 1)
    rows, columns = range(grid.first_row, grid.first_row + grid.rows), range(grid.columns)
    for size, label, at in _blocks(grid.row_shape, rows, lambda _: line / down):
        yield _text(edge, y + (at + size / 2) * down + middle, label, "end")
    for size, label, at in _blocks(
        grid.column_shape, columns, lambda label: char * (len(label) + 1) / across
    ):
        yield _text(x + (at + size / 2) * across, above - line, label, "middle")


def _step(side: int, room: float) -> int:
    """Return how many cells of this side there are from one label to the next, a power of two."""
    step = 1
    while step * side < room:
        step *= 2
    return step


def _blocks(
    shape: IntTuple, cells: range, room: Callable[[str], float]
) -> Iterator[tuple[int, str, int]]:
    """Yield size, label and start of the smallest blocks that have room for labels, in cells."""
    for size in mode_sizes(shape):
        numbers = range(cells.start // size, cells.stop // size)
        labels = [block_label(shape, size, k) for k in numbers]
        if labels and size >= max(map(room, labels)):
            yield from ((size, label, size * k) for k, label in enumerate(labels))
            return


def _centred(xs: Sequence[float], y: float, texts: Sequence[str]) -> str:
    """Return texts that are centred at their places, as one element."""
    spans = [f'<tspan x="{x:g}">{escape(text, quote=False)}</tspan>' for x, text in zip(xs, texts)]  # noqa: B905
    return f'<text y="{y:g}" text-anchor="middle">{"".join(spans)}</text>' if any(texts) else ""


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
            yield _padded(x + NUDGE, top + line * LINE, joined)


def _padded(x: int, y: int, text: str) -> str:
    """Return a text that starts at x, with blanks, as long as it is in a monospaced font."""
    bare = text.strip()
    if not bare:
        return ""
    x += CHAR * (len(text) - len(text.lstrip()))
    wide = f' textLength="{CHAR * len(bare)}"' if len(bare) > 1 else ""
    return f'<text x="{x}" y="{y}"{wide}>{escape(bare, quote=False)}</text>'


def _text(x: float, y: float, text: str, anchor: str = "") -> str:
    """Return one label."""
    anchor = anchor and f' text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}"{anchor}>{escape(text, quote=False)}</text>' if text else ""
