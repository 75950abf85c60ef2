"""Pictures as plain text, and the functions that print them."""

from __future__ import annotations

from dataclasses import replace

from cute_py.records import Text
from cute_py.viz.build import named, picture_of
from cute_py.viz.cells import picture_tv
from cute_py.viz.picture import PAD, TERMINAL, rewritten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.atoms.copy import Copy_Atom
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.layout.types import AnyLayout, Tiler
    from cute_py.tiled.tiled_copy import TiledCopy
    from cute_py.tiled.tiled_mma import TiledMMA
    from cute_py.viz.build import Drawable
    from cute_py.viz.picture import Grid, Picture, Size

GAP = "   "  # between grids
COLUMNS = 132  # the width of a wide terminal


def to_text(
    x: Drawable,
    *,
    ansi: bool = False,
    columns: int | None = COLUMNS,
    by: str | None = None,
    bits: int = 16,
) -> Text:
    """Return the picture of x as lines of text.

    Args:
        x: an argument of `picture_of`, or a Picture.
        ansi: colour the cells with escape sequences of a 256-colour terminal.
        columns: the width to stay within if possible: a wider picture has cells such as `T31V3`,
            one blank apart, or else `31:3`. None: always `T31 V3`, two blanks apart.
        by: what the colours tell apart; see `picture_of`.
        bits: the bits of an element, for banks.

    >>> from cute_py import Swizzle
    >>> print(to_text(Swizzle(1, 0, 1)))
    Sw<1,0,1>: each cell is one offset
    before      after
        0  1        0  1
      +------     +------
    0 | 0  1    0 | 0  1
    1 | 2  3    1 | 3  2
    """
    drawn, pad = _fitted(picture_of(x, by, bits), columns)
    widths = drawn.column_sizes()
    lines = [drawn.title] if drawn.title else []
    for row, height in zip(drawn.grids, drawn.row_sizes(), strict=True):
        blocks = [_block(*each, height, pad, ansi) for each in zip(row, widths, strict=True)]
        if len(drawn.grids) > 1:
            lines.append("")
        joined = [GAP.join(parts).rstrip() for parts in zip(*blocks, strict=True)]
        lines += joined if joined[0] else joined[1:]
    return Text("\n".join(lines))


def _fitted(drawn: Picture, columns: int | None) -> tuple[Picture, int]:
    """Return the first form of the picture that fits, or the narrowest, and the blanks between its
    cells.
    """
    if columns is None or _columns(drawn, PAD) <= columns:
        return drawn, PAD
    tight = rewritten(drawn, lambda line: [line.replace(" V", "V")])
    if tight == drawn or _columns(tight, 1) <= columns:
        return tight, 1
    bare = rewritten(drawn, lambda line: [line.removeprefix("T").replace(" V", ":")])
    return replace(bare, title=f"{bare.title} (thread:value)"), 1


def _columns(drawn: Picture, pad: int) -> int:
    """Return the width of the grids (characters)."""
    sizes = drawn.column_sizes()
    return sum(size.label + 2 + size.extent * (size.cell + pad) for size in sizes) + len(GAP) * (
        len(sizes) - 1
    )


def _block(grid: Grid | None, width: Size, height: Size, pad: int, ansi: bool) -> list[str]:
    """Return a grid as lines of equal length: title, column labels, a rule, the rows."""
    across = width.extent * (width.cell + pad)
    left = width.label + 2
    title = "" if grid is None else grid.title
    total = max(left + across, len(title) if width.extent else 0)
    count = 3 + height.extent * height.cell
    if grid is None:
        return [" " * total] * count
    heads = "".join([_cell(text, width.cell, pad) for text in grid.column_labels])
    rule = " " * (left - 1) + "+" + "-" * len(heads)
    lines = [title.ljust(total), (" " * left + heads).ljust(total), rule.ljust(total)]
    for row in range(grid.rows):
        for label, texts in grid.texts(row, height.cell):
            cells = [_cell(text, width.cell, pad) for text in texts]
            spare = " " * (total - left - len(heads))
            if ansi:
                cells = [_coloured(*each) for each in zip(cells, grid.colours[row], strict=True)]
            lines.append(f"{label:>{width.label}} |{''.join(cells)}{spare}")
    return lines + [" " * total] * (count - len(lines))


def _cell(text: str, width: int, pad: int) -> str:
    return f" {text:>{width}}{' ' * (pad - 1)}"


def _coloured(text: str, colour: int | None) -> str:
    if colour is None:
        return text
    return f"\x1b[30;48;5;{TERMINAL[colour % len(TERMINAL)]}m{text}\x1b[0m"


# -- printing


def print_layout(layout: AnyLayout | str, *, ansi: bool = False) -> None:
    """Print the offsets of a layout of rank 1 to 4, or a swizzle before and after; or of its text.

    >>> from cute_py import Layout
    >>> print_layout(Layout((2, 2, 2), (4, 2, 1)))
    (2,2,2):(4,2,1)
    <BLANKLINE>
    (_,_,0)
        0  1
      +------
    0 | 0  2
    1 | 4  6
    <BLANKLINE>
    (_,_,1)
        0  1
      +------
    0 | 1  3
    1 | 5  7
    """
    print(to_text(layout, ansi=ansi))


def print_tv(tv: AnyLayout | str, tile: Tiler | None = None, *, ansi: bool = False) -> None:
    """Print a tile with the threads and values of each element.

    Args:
        tv: (thread, value) -> index in the tile, or its text; or the owners of a tensor of a
            kernel, see `cute.layouts`, which know their tile.
        tile: its shape, of 1 to 4 modes (elements).
        ansi: colour the cells.

    >>> from cute_py import Layout
    >>> print_tv(Layout(((2, 2), 2), ((0, 1), 2)), (2, 2))
    ((2,2),2):((0,1),2) over (2,2)
              0        1
      +------------------
    0 | T0,1 V0  T0,1 V1
    1 | T2,3 V0  T2,3 V1
    """
    print(to_text(tv if tile is None else picture_tv(named(tv), tile), ansi=ansi))


def print_mma(mma: MMA_Atom | TiledMMA | str, *, ansi: bool = False) -> None:
    """Print the threads and values of A (left), B (top) and C (corner) of an MMA atom or TiledMMA,
    or of the atom of a name.

    A picture wider than 132 columns is printed in a narrower form: see `to_text`.

    >>> from cute_py import atoms
    >>> print_mma(atoms.SM61_DP4A)
    SM61_DP4A: tile (1,1,4), 1 thread
    <BLANKLINE>
                                      B: k down, n right
                                              0
                                        +-------
                                      0 | T0 V0
                                      1 | T0 V1
                                      2 | T0 V2
                                      3 | T0 V3
    <BLANKLINE>
    A: m down, k right                C: m down, n right
            0      1      2      3            0
      +----------------------------     +-------
    0 | T0 V0  T0 V1  T0 V2  T0 V3    0 | T0 V0
    """
    print(to_text(mma, ansi=ansi))


def print_copy(copy: Copy_Atom | TiledCopy, *, ansi: bool = False) -> None:
    """Print the threads and values of source and destination of a Copy_Atom or TiledCopy.

    >>> from cute_py.atoms.copy import Copy_Atom
    >>> print_copy(Copy_Atom("UniversalCopy<32>", "f16"))
    Copy_Atom(UniversalCopy<32>, f16): 2 values, 1 thread
    source              destination
            0      1            0      1
      +--------------     +--------------
    0 | T0 V0  T0 V1    0 | T0 V0  T0 V1
    """
    print(to_text(copy, ansi=ansi))
