"""`show` and `diff`: several values side by side, linked in a live picture, and what has moved."""

from __future__ import annotations

from dataclasses import replace

from cute_py.errors import refusal
from cute_py.layout import tuples
from cute_py.trace.shown import noted
from cute_py.viz.build import named, picture_of
from cute_py.viz.cells import is_layout
from cute_py.viz.operations import operation, operation_of
from cute_py.viz.picture import Facts, Picture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol, TypeVar, overload

    from cute_py.layout.types import AnyLayout
    from cute_py.viz.build import Drawable
    from cute_py.viz.picture import Grid

    Differences = TypeVar("Differences", covariant=True)

    class Table(Protocol[Differences]):
        """A table that compares itself with another one, such as `Layouts` of a layer above."""

        def diff(self, other: object, /) -> Differences:
            """Return what differs."""


LINKS = ("thread", "element", "offset")


def show(*values: Drawable, by: str | None = None, bits: int = 16, link: str = "") -> Picture:
    """Return the pictures of values side by side, which a notebook shows live.

    Args:
        values: arguments of `picture_of`, such as layouts, or a tuple of several; or what
            `analysis.bank_conflicts`, `analysis.coalescing` or `emulate(..., report="timeline")`
            returned.
        by: what the colours tell apart; see `picture_of`.
        bits: the width of an element, for bytes and banks (bits).
        link: what a click selects in all pictures: "thread"; "element", the cells of one index; or
            "offset". By default, of two layouts and what an operation makes of them, as in
            `show(a, b, composition(a, b))`, each cell and what it was made of; else the first that
            the values share. Linked elements have the colour that they have in the first picture,
            unless `by` is given.

    In a kernel, the pictures are shown after it is traced, with their line; those of a partition
    are of who holds which element, see `cute.layouts`.

    Raises LayoutError for another `link`, and what `picture_of` raises.

    >>> from cute_py import Layout
    >>> show(Layout((2, 2)), Layout((2, 2), (2, 1)))
    (2,2):(1,2), (2,2):(2,1)
    (2,2):(1,2)   (2,2):(2,1)
        0  1          0  1
      +------       +------
    0 | 0  2      0 | 0  1
    1 | 1  3      1 | 2  3
    """
    if link and link not in LINKS:
        raise refusal("viz-link", operation="show", link=link)
    if len(values) == 1 and isinstance(values[0], tuple) and len(values[0]) > 1:
        values = values[0]
    if noted("show", values):
        return Picture("shown when the kernel has been traced", ())
    if len(values) == 1:
        drawn = picture_of(values[0], by, bits)
        return replace(drawn, link=link or drawn.link)
    if not link and (name := operation_of(values)):
        linked = operation(name, values[:-1], values[-1], by, bits)
        if linked is not None:
            return replace(linked, title=", ".join(map(str, values)))
    drawn = picture_of(values, by, bits)
    sizes = [_size(x) for x in values]
    if not link and all(sizes) and len(set(sizes)) == 1:
        link = "element"
    if link == "element" and by is None:
        drawn = _coloured_alike(drawn)
    return replace(drawn, title=", ".join(map(str, values)), link=link, bits=bits)


def _size(x: Drawable) -> int:
    """Return the number of elements of a layout or of its text, 0 for anything else."""
    x = named(x)
    return tuples.product(x.shape) if is_layout(x) else 0


def _grids(drawn: Picture) -> Iterator[Grid]:
    """Yield the grids, each column of places from the top."""
    return (grid for column in zip(*drawn.grids, strict=True) for grid in column if grid)


def _mapped(drawn: Picture, change: Any) -> tuple[tuple[Grid | None, ...], ...]:
    return tuple([tuple([grid and change(grid) for grid in row]) for row in drawn.grids])


def _places(grid: Grid) -> Iterator[tuple[int, int, int]]:
    """Yield the index of each cell that shows a number, its row and its column."""
    facts: Any = grid.facts
    for k in range(len(facts.cells) if facts else 0):
        across, down = divmod(k, grid.columns), divmod(k, grid.rows)
        yield facts.start + k, *(across if facts.across else down[::-1])


def _coloured_alike(drawn: Picture) -> Picture:
    """Return the picture where equal indices have the colour that they have first."""
    first: dict[int, int | None] = {}
    for grid in _grids(drawn):
        for k, i, j in _places(grid):
            first.setdefault(k, grid.colours[i][j])

    def change(grid: Grid) -> Grid:
        rows = [list(row) for row in grid.colours]
        for k, i, j in _places(grid):
            rows[i][j] = first[k]
        return replace(grid, colours=tuple(map(tuple, rows)))

    return replace(drawn, grids=_mapped(drawn, change))


if TYPE_CHECKING:

    @overload
    def diff(a: Table[Differences], b: object, *, bits: int = ...) -> Differences: ...
    @overload
    def diff(a: AnyLayout | str, b: AnyLayout | str, *, bits: int = ...) -> Picture: ...


def diff(a: Any, b: Any, *, bits: int = 16) -> Any:
    """Return both layouts side by side, with colours and frames only for the cells that moved.

    Args:
        a: a layout, or its text; or a table of `cute.layouts`.
        b: a layout of as many elements; or a table, of which the rows that differ are returned.
        bits: the width of an element, for bytes and banks (bits).

    Law: a cell is marked where `a(i) != b(i)`. Raises LayoutError for different sizes, and what
    `picture_of` raises.

    >>> from cute_py import Layout
    >>> diff(Layout((2, 2)), Layout((2, 2), (2, 1))).title
    '(2,2):(1,2) to (2,2):(2,1): 2 of 4 elements moved'
    """
    if type(a).__name__ == "Layouts":  # of a layer above
        return a.diff(b)
    if type(b).__name__ == "Layouts":
        return b.diff(a)  # an error, which says what a table is compared with
    a, b = named(a), named(b)
    for x in (a, b):
        if not is_layout(x):
            kind = type(x).__name__
            raise refusal("viz-type", operation="diff", value=x, type=kind, reason="")
    drawn = show(a, b, bits=bits, link="element")
    sizes = _size(a), _size(b)
    if sizes[0] != sizes[1]:
        raise refusal("viz-diff", operation="diff", a=a, b=b, m=sizes[0], n=sizes[1])
    values: dict[int, set[Any]] = {}
    for grid in _grids(drawn):
        for (k, _, _), value in zip(_places(grid), grid.facts.cells, strict=True):  # type: ignore[union-attr]
            values.setdefault(k, set()).add(value)
    moved = {k for k, found in values.items() if len(found) > 1}

    def change(grid: Grid) -> Grid:
        rows: list[list[int | None]] = [[None] * grid.columns for _ in range(grid.rows)]
        marked = []
        for n, (k, i, j) in enumerate(_places(grid)):
            if k in moved:
                rows[i][j] = grid.colours[i][j]
                marked.append(n)
        facts: Facts = grid.facts  # type: ignore[assignment]
        return replace(
            grid, colours=tuple(map(tuple, rows)), facts=facts._replace(marked=tuple(marked))
        )

    title = f"{a} to {b}: {len(moved)} of {sizes[0]} elements moved"
    return replace(drawn, title=title, grids=_mapped(drawn, change))


def before_and_after(
    before: tuple[str, Any], after: tuple[str, Any], by: str | None, bits: int
) -> Picture:
    """Return two values, each with its name, side by side: as `diff` shows two layouts of one size,
    unless the colours are chosen; else as `show`.

    >>> from cute_py import Layout
    >>> before_and_after(("a", Layout(4)), ("b", Layout(4, 2)), None, 16).title
    '4:1 to 4:2: 3 of 4 elements moved'
    """
    a, b = before[1], after[1]
    if by is None and is_layout(a) and is_layout(b) and _size(a) == _size(b):
        changed: Picture = diff(a, b, bits=bits)
        return changed
    return replace(show(a, b, by=by, bits=bits), title=f"{before[0]} to {after[0]}")
