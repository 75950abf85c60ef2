"""The requests of a copy without NumPy, for a Python that has none, such as that of a browser:
lists in place of the arrays of `requests`, with the same entries.
"""

from __future__ import annotations

from itertools import product

from cute_py.errors import refusal
from cute_py.layout.offsets import offsets
from cute_py.layout.queries import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.layout.types import AnyLayout

    Grid = list[list[list[int]]]  # [thread][value][tile] -> offset


def grid_of(by_thread: AnyLayout) -> Grid:
    """Return the offsets of a layout of threads, values and tiles; the last tile mode is fastest,
    as in an array.
    """
    table = offsets(by_thread)
    threads, values, *rest = [size(by_thread, k) for k in range(len(by_thread.shape))]
    tiles = []
    for coord in product(*map(range, rest)):
        at, step = 0, threads * values
        for c, extent in zip(coord, rest, strict=True):
            at, step = at + c * step, step * extent
        tiles.append(at)
    return [
        [[table[t + threads * v + at] for at in tiles] for v in range(values)]
        for t in range(threads)
    ]


def widest(grid: Grid, most: int) -> tuple[Grid, int]:
    """Return [thread, access, tile] starts of the widest vectors, and their elements."""
    order = sorted(range(len(grid[0])), key=lambda v: grid[0][v][0])
    ordered = [[row[v] for v in order] for row in grid]
    count = 1
    while 2 * count <= most and _are_vectors(ordered, 2 * count):
        count *= 2
    return [row[::count] for row in ordered], count


def _are_vectors(grid: Grid, count: int) -> bool:
    if len(grid[0]) % count:
        return False
    starts = (start for row in grid for each in row[::count] for start in each)
    return first_apart(grid, count) is None and all(start % count == 0 for start in starts)


def first_apart(grid: Grid, count: int) -> tuple[int, int, int, int] | None:
    """Return the thread, the start, the value and the offset of the first element that does not
    follow the start of its access; None if all do.
    """
    for thread, row in enumerate(grid):
        for step in range(0, len(row), count):
            for value in range(count):
                for start, offset in zip(row[step], row[step + value], strict=True):
                    if offset - start != value:
                        return thread, start, value, offset
    return None


def require_aligned(operation: str, starts: Grid, count: int, layout: AnyLayout) -> None:
    """Refuse starts that are no multiples of a vector's elements."""
    for start in (start for row in starts for each in row for start in each):
        if start % count:
            raise refusal(
                "access-aligned", operation=operation, layout=layout, count=count, start=start
            )


def by_warp(starts: Grid, lanes: int) -> tuple[list[list[int]], list[int]]:
    """Return one row of lanes for each warp, access and tile, and the number of its warp."""
    flat = [[start for each in row for start in each] for row in starts]
    rows, warps = [], []
    for first in range(0, len(flat), lanes):
        warp = flat[first : first + lanes]
        for k in range(len(flat[0])):
            own = [row[k] for row in warp]
            rows.append(own + [-1] * (lanes - len(own)))
            warps.append(first // lanes)
    return rows, warps


def changed(starts: list[list[int]], change: Callable[[int], int]) -> list[list[int]]:
    """Return the starts with the offsets changed."""
    return [[-1 if start < 0 else change(start) for start in row] for row in starts]
