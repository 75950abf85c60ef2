"""`cute.tiles`: the tiles of a matrix that a block computes, one after the other, and their order.

Blocks that run at the same time should compute neighbouring tiles, which share rows of A and B in
the L2 cache. Source: cutlass include/cutlass/gemm/kernel/sm90_tile_scheduler.hpp (swizzle, raster
order); Osama et al., Stream-K (2023), arXiv 2301.03598.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.layout.queries import rank
from cute_py.layout.tuples import wrap
from cute_py.plan.conditions import uniformity
from cute_py.tensor.tensor import Tensor
from cute_py.trace.arithmetic import as_int
from cute_py.trace.control import Var, break_if, range_
from cute_py.trace.runtime_integers import bare, choose, compare
from cute_py.trace.state import at_least, current, number_within, require_choice
from cute_py.trace.threads import cluster_idx, launched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.errors import CuteError
    from cute_py.layout.types import AnyInt, Leaf
    from cute_py.trace.runtime_integers import Int
    from cute_py.trace.work_queue import WorkQueue

MOST = 2**31 - 1  # tiles
ORDERS = ("grouped", "snake", "rows", "columns")


def fewest_blocks(tiles: Leaf, most: Leaf) -> AnyInt:
    """Return the fewest blocks that compute tiles in as many waves as `most` blocks.

    Args:
        tiles: the number of tiles, at least 1.
        most: the number of blocks that a GPU runs at the same time.

    Blocks without work would still take power. Raises LayoutError for less than one of them.

    >>> fewest_blocks(512, 132), fewest_blocks(100, 132)
    (128, 100)
    """
    tiles, most = (at_least(x, 1, "cute.fewest_blocks") for x in (tiles, most))
    return _ceil(tiles, _ceil(tiles, most))  # type: ignore[no-any-return]


def _ceil(a: Leaf, b: Leaf) -> Leaf:
    """Return the quotient rounded up; the sign of a divisor may be known only at run time."""
    return -(-a // b)


def hilbert_order(m: int, n: int) -> list[tuple[int, int]]:
    """Return the tiles (i, j) of m by n in the order of a Hilbert curve, on the host: the table
    that `cute.tiles` takes as an array of s32, (tiles, 2).

    Args:
        m: the tiles along the first mode.
        n: the tiles along the second mode.

    Law: it contains every tile once. Source: Hilbert (1891); J. K. Lawder, Calculation of Mappings
    Between One and n-dimensional Values Using the Hilbert Space-filling Curve (2000).

    >>> hilbert_order(2, 2), hilbert_order(1, 3)
    ([(0, 0), (0, 1), (1, 1), (1, 0)], [(0, 0), (0, 1), (0, 2)])
    """
    m, n = (number_within(x, "cute.hilbert_order", 0) for x in (m, n))
    side = 1 << (max(m, n, 1) - 1).bit_length()
    found = []

    def visit(first: int, size: int) -> None:
        """Visit a square of size^2 points, from the one with this number on, inside of m by n."""
        i, j = _on_curve(first, side)
        if i // size * size >= m or j // size * size >= n:
            return
        if size == 1:
            found.append((i, j))
            return
        for quarter in range(4):
            visit(first + quarter * size * size // 4, size // 2)

    visit(0, side)
    return found


def _on_curve(at: int, side: int) -> tuple[int, int]:
    """Return the point of a Hilbert curve that fills a square of a power of 2."""
    x = y = 0
    size = 1
    while size < side:
        right, up = 1 & at // 2, 1 & (at ^ at // 2)
        if not up:
            if right:
                x, y = size - 1 - x, size - 1 - y
            x, y = y, x
        x, y, at, size = x + size * right, y + size * up, at // 4, size * 2
    return x, y


def tiles(
    m: Leaf,
    n: Leaf,
    schedule: str | Tensor = "grouped",
    *,
    group: Leaf = 8,
    start: Leaf | None = None,
    step: Leaf | None = None,
    depth: Leaf | None = None,
    extra: Leaf = 0,
    queue: WorkQueue | None = None,
) -> Iterator[tuple[Int, ...]]:
    """`for i, j in cute.tiles(m, n):` loops over the tiles of the block, out of m by n.

    Args:
        m: how many tiles there are along M.
        n: how many tiles there are along N.
        schedule: their order: "grouped" by `group` tiles of M, in which M is fastest; "snake", the
            same, with every second group from the last N to the first; "rows" (N fastest) and
            "columns" (M fastest); or a table (tiles, 2) of s32 in global memory, such as
            `hilbert_order` makes.
        group: the tiles of M in a group.
        start: the number of the first tile; None: the number of the block, or of its cluster.
        step: from one tile to the next; None: the number of blocks, or of clusters.
        depth: the number of tiles of K: then each block, or cluster, has an equal share of all
            tiles of K, and each item is (i, j, first, count), the tiles of K from `first` on
            (stream-K).
        extra: after all others come this many tiles (0, n), (1, n) ... of one more column.
        queue: whose numbers these are: a warp runs `queue.deal(counter, m * n + extra)`.

    Law: the blocks of a grid have every tile once; with `depth`, every tile of K once. Raises
    LayoutError for another schedule, and for arguments that exclude each other.

    >>> # in a kernel: for i, j in cute.tiles(cute.ceil_div(M, 128), cute.ceil_div(N, 256)): ...
    """
    if isinstance(schedule, Tensor):
        _require_table(schedule)
    else:
        require_choice(schedule, (*ORDERS, "a table of s32 in global memory"), "cute.tiles")
    if queue is not None and (start, step, depth) != (None, None, None):
        raise _both("queue with start, step or depth", "queue alone")
    here, blocks = place_in_grid()
    start, step = here if start is None else start, blocks if step is None else step
    counts = (m, 0), (n, 0), (group, 1), (start, 0), (step, 1), (extra, 0)
    m, n, group, start, step, extra = (at_least(x, low, "cute.tiles") for x, low in counts)
    depth = depth if depth is None else at_least(depth, 1, "cute.tiles")
    scope = uniformity(current().uniform, *[bare(x) for x in (m, n, group, start, step)])
    order, total = _Order((m, n), schedule, group, scope), m * n + extra
    if step is not blocks and compare("le", 1, step) is not True:
        step = order.promised(step, 1)  # with a step of 0 no tile would be computed
    if not ints.is_zero(extra):
        if depth is not None:
            raise _both("extra and depth", "extra or depth")
        order = _Order((m, ints.max_(n, 1)), schedule, group, scope, (m * n, n))
    if queue is not None:
        yield from _queued(order, queue)
    elif depth is not None:
        yield from _shares(order, depth, start, step)
    else:
        yield from _stepped(order, total, start, step)


def _both(given: str, choices: str) -> CuteError:
    """Return the refusal of arguments that exclude each other."""
    facts = {"value": given, "choices": choices}
    return refusal_here("kernel-choice", operation="cute.tiles", **facts)


def _stepped(order: _Order, total: Leaf, start: Leaf, step: Leaf) -> Iterator[tuple[Leaf, Leaf]]:
    """Yield the tiles whose numbers are a step apart."""
    if step.__class__ is int:
        for tile in range_(start, total, step):
            yield order.place(tile)
    else:
        total = order.promised(total, 0)
        for turn in range_(_ceil(total - start, step)):
            yield order.place(order.promised(start + turn * step, 0))


def _queued(order: _Order, queue: WorkQueue) -> Iterator[tuple[Leaf, Leaf]]:
    """Yield the tiles whose numbers come from a queue: each + 1, and 0 at the end."""
    for _turn in range_(MOST):
        (number,) = queue.get()
        break_if(number < 1)
        yield order.place(order.promised(number - 1, 0))


def _require_table(table: Tensor) -> None:
    """Refuse what is no table (tiles, 2) of integers."""
    whole = table.dtype.is_integer and table.engine.space == "gmem"
    if not whole or rank(table.layout) != 2:
        facts = {"value": str(table), "choices": "a table (tiles, 2) of s32 in global memory"}
        raise refusal_here("kernel-choice", operation="cute.tiles", **facts)


def _shares(
    order: _Order, depth: Leaf, block: Leaf, blocks: Leaf
) -> Iterator[tuple[Leaf, Leaf, Leaf, Leaf]]:
    """Yield the tiles of which a block has some K tiles: an equal share of all, in a row."""
    units = order.extents[0] * order.extents[1] * depth
    begin, end = (units * (block + i) // blocks for i in (0, 1))
    for tile in range_(begin // depth, _ceil(end, depth)):
        before = tile * depth
        first = order.promised(ints.max_(begin - before, 0), 0)
        stop = order.promised(ints.min_(end - before, depth), 1)
        i, j = order.place(tile)
        yield i, j, first, stop - first


def place_in_grid() -> tuple[Leaf, Leaf]:
    """Return the number of the cluster in the grid, x fastest, and how many there are."""
    shape, here = launched("cute.tiles"), wrap(cluster_idx())
    counts = [g // c for g, c in zip(shape.grid, shape.cluster, strict=True)]
    number: Leaf = 0
    for x, extent in reversed([*zip(here, counts, strict=False)]):
        number = number * extent + x
    return number, prod(counts[1:], start=counts[0])


@dataclass(frozen=True, slots=True)
class _Order:
    """The order of tiles (M, N), and the threads that agree on their numbers.

    `extra`: the number of the first extra tile, and their column.
    """

    extents: tuple[Leaf, Leaf]
    schedule: str | Tensor
    group: Leaf
    scope: str
    extra: tuple[Leaf, Leaf] | None = None

    def promised(self, x: Leaf, low: int, high: int = MOST) -> Leaf:
        """Return x, which is between two numbers and the same in the threads of the scope."""
        if x.__class__ is int:
            return x
        return Var(x, low, high, uniform=self.scope).get()

    def place(self, tile: Leaf) -> tuple[Leaf, Leaf]:
        """Return the coordinates of a tile by its number."""
        if self.extra is None:
            return self._inside(tile)
        first, column = self.extra
        beyond = compare("le", first, tile)
        i, j = self._inside(self.promised(choose(beyond, 0, tile), 0))
        i, j = choose(beyond, tile - first, i), choose(beyond, column, j)
        return self.promised(i, 0), self.promised(j, 0)

    def _inside(self, tile: Leaf) -> tuple[Leaf, Leaf]:
        m, n = self.extents
        if isinstance(self.schedule, Tensor):
            i, j = (as_int(self.schedule[tile, a], 0, MOST, uniform=self.scope) for a in range(2))
            return i, j
        if self.schedule == "columns":
            return tile % m, tile // m
        if self.schedule == "rows":
            return tile // n, tile % n
        area = n * self.group
        number = tile // area
        first, inside = number * self.group, tile % area
        most = self.group if self.group.__class__ is int else MOST
        rows = ints.min_(m - first, self.group)  # fewer in the last group
        rows = self.promised(rows, 1, most)
        i, j = first + inside % rows, inside // rows
        if self.schedule == "snake":
            j = choose(compare("eq", number % 2, 0), j, n - 1 - j)  # type: ignore[assignment]
        return self.promised(i, 0), self.promised(j, 0)  # short parts of many coordinates
