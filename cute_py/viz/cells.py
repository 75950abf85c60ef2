"""Cells of pictures: grids from the values of a layout, and the threads of each element of a tile.

An element that several threads have shows all of them: `T0,64 V1` is value 1 of threads 0 and 64,
`T0-127 V5` value 5 of all threads from 0 to 127, `T0-240/16 V0` value 0 of every 16th thread. The
colour is that of the first thread, modulo 8, as in CuTe's own pictures.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain
from operator import mul
from typing import NamedTuple

from cute_py.errors import refusal
from cute_py.layout import tuples
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import INTS, Layout
from cute_py.layout.queries import is_static, size
from cute_py.plan.collector import uncollected
from cute_py.records import Record
from cute_py.viz.picture import COLOURS, Cell, Facts, Grid, Picture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeAlias

    from cute_py.layout.types import AnyLayout, IntTuple, Tiler

    Grids: TypeAlias = tuple[tuple[Grid, ...], ...]
    Labels: TypeAlias = Sequence[str]
    Holders: TypeAlias = list[dict[int, list[int]]]  # of each element: value -> threads

MOST_CELLS = 1 << 18
MOST_PAIRS = 1 << 22  # threads often share elements: 128 share each of a warpgroup's A
MOST_MODES = 4
COLUMNS = 16  # cells in a line of a rank-1 layout
BANKS, BANK_BITS = 32, 32  # of shared memory


class Cells(NamedTuple):
    """A sequence of cells: the lines of each, the index of its colour, and what it shows, as in
    `Facts`.
    """

    lines: tuple[tuple[str, ...], ...]
    colours: tuple[int | None, ...]
    facts: tuple[Any, ...]

    def part(self, where: slice) -> Cells:
        """Return some of the cells."""
        return Cells(self.lines[where], self.colours[where], self.facts[where])


def is_layout(x: object) -> bool:
    """Return whether x is a layout of any kind."""
    return x.__class__ in (Layout, ComposedLayout, F2Layout)


def require_numbers(layout: AnyLayout, operation: str) -> None:
    """Refuse a layout with symbols."""
    if layout.__class__ is not F2Layout and not is_static(layout):
        raise refusal("tools-symbols", operation=operation, layout=layout)


def require_small(x: object, count: int, what: str = "cells", most: int = 0) -> None:
    """Refuse more cells, or more pairs of thread and value, than a picture may have."""
    most = most or (MOST_CELLS if what == "cells" else MOST_PAIRS)
    if count > most:
        raise refusal(
            "viz-size", operation="picture_of", value=x, count=count, what=what, most=most
        )


def values_of(layout: AnyLayout) -> list[Any]:
    """Return the values of the layout, in colexicographical order."""
    if layout.__class__ is Layout and layout._kind == INTS:
        return _offsets(layout._s, layout._d)
    if layout.__class__ is Layout and is_flat(layout(0)):
        return _coordinates(layout)
    if layout.__class__ is ComposedLayout:
        inner, outer, offset = values_of(layout.inner), layout.outer, layout.offset
        if inner[0].__class__ is offset.__class__ is int:
            offsets = [offset + value for value in inner]
            if outer.__class__ is Swizzle:
                return swizzled(outer, offsets)
            return [outer(each) for each in offsets]
    return [layout(i) for i in range(size(layout))]


def _offsets(extents: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the offsets of flat modes by outer sums, without importing NumPy."""
    offsets = [0]
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        terms = [i * stride for i in range(extent)]
        offsets = [offset + term for offset in offsets for term in terms]
    return offsets


def is_flat(value: object) -> bool:
    """Return whether a value is a coordinate of integers."""
    return value.__class__ is tuple and all(entry.__class__ is int for entry in value)


def _coordinates(layout: Layout) -> list[tuple[int, ...]]:
    """Return the coordinates that a layout yields, entry by entry; it is linear in each mode."""
    starts = accumulate(layout._s[:-1], mul, initial=1)
    steps = [
        layout(start) if extent > 1 else layout(0)
        for start, extent in zip(starts, layout._s, strict=True)
    ]
    return list(
        zip(*[_offsets(layout._s, entries) for entries in zip(*steps, strict=True)], strict=True)
    )


def swizzled(swizzle: Swizzle, offsets: list[int]) -> list[int]:
    """Return the swizzled offsets; the XOR is computed once for equal source bits."""
    read = swizzle.yyy_msk
    change = {bits: swizzle(bits) ^ bits for bits in {offset & read for offset in offsets}}
    return [offset ^ change[offset & read] for offset in offsets]


def value_cells(values: list[Any], bank_bits: int = 0) -> Cells:
    """Return the cells of offsets or of coordinates.

    Args:
        values: the values, in colexicographical order.
        bank_bits: the bits of an element, to show under each offset its bank of shared memory, with
            one colour for four banks; 0: no banks.

    """
    if bank_bits:
        banks = [value * bank_bits // BANK_BITS % BANKS for value in values]
        lines = tuple([(str(v), f"b{bank}") for v, bank in zip(values, banks, strict=True)])
        colours = tuple([bank * len(COLOURS) // BANKS for bank in banks])
        return Cells(lines, colours, tuple(values))
    whole = values[0].__class__ is int
    texts = map(str if whole else coordinate_text, values)
    sums = values if whole else [sum(tuples.leaves(value)) for value in values]
    colours = tuple([each % len(COLOURS) for each in sums])
    return Cells(tuple(zip(texts)), colours, tuple(values))


def coordinate_text(value: IntTuple) -> str:
    """Return a coordinate as text; one of integers alone, the usual case, is fast."""
    return f"({','.join(map(str, value))})" if is_flat(value) else tuples.show(value)


def slabs(x: object, cells: Cells, modes: IntTuple, labels: Sequence[Labels] = ()) -> Grids:
    """Return one grid, or one for each coordinate of modes 2 (downwards) and 3 (to the right).

    Args:
        x: the object to draw, for refusals.
        cells: the cells, in colexicographical order.
        modes: the shape, whose modes may be nested.
        labels: for each mode, one text for each coordinate; by default their numbers.

    """
    modes = tuples.wrap(modes)
    shape = tuples.product_each(modes)
    labels = labels or [numbered(n) for n in shape]
    if len(shape) > MOST_MODES:
        raise refusal("viz-rank", operation="picture_of", value=x, rank=len(shape), most=MOST_MODES)
    if len(shape) < 2:
        return ((_line(cells, labels[0] if labels else [""], modes[0] if modes else 1),),)
    rows, columns, *rest = shape
    depth, slabs = (*rest, 1, 1)[:2]
    area = rows * columns
    grids = []
    for k in range(depth * slabs):
        part = cells.part(slice(area * k, area * (k + 1)))
        grid = table(_slab_title(rest, k), part, labels, modes)
        grids.append(replace(grid, facts=Facts(part.facts, modes, area * k)))
    return tuple(tuple(grids[k::depth]) for k in range(depth))


def _slab_title(rest: Sequence[int], index: int) -> str:
    if not rest:
        return ""
    if len(rest) == 1:
        return f"(_,_,{index})"
    return f"(_,_,{index % rest[0]},{index // rest[0]})"


def table(title: str, cells: Cells, labels: Sequence[Labels], modes: IntTuple = (1, 1)) -> Grid:
    """Return the grid of cells in column-major order.

    Args:
        title: what it shows.
        cells: the cells.
        labels: one text for each row, and one for each column.
        modes: the shape of the rows and the shape of the columns.

    """
    height = len(labels[0])
    parts = [cells.part(slice(i, None, height)) for i in range(height)]
    facts = Facts(cells.facts, modes if modes != (1, 1) else (height, len(labels[1])))
    return replace(grid_of(title, parts, labels, modes), facts=facts)


def grid_of(
    title: str, parts: list[Cells], labels: Sequence[Labels], modes: IntTuple = (1, 1)
) -> Grid:
    """Return the grid of these rows of cells; see `table`."""
    lines, colours, _ = zip(*parts, strict=True)
    rows, columns = map(tuple, labels[:2])
    return Grid(title, lines, colours, rows, columns, *modes[:2])


def _line(cells: Cells, labels: Labels, mode: IntTuple) -> Grid:
    """Return the grid of one mode: a line, or lines of 16 cells, each labelled by its first."""
    count = len(labels)
    width = COLUMNS if count > 2 * COLUMNS else count
    starts = range(0, count, width)
    spare = -count % width
    padded = Cells(cells.lines + ((),) * spare, cells.colours + (None,) * spare, cells.facts)
    parts = [padded.part(slice(i, i + width)) for i in starts]
    facts = Facts(cells.facts, (mode,), across=True)
    if len(starts) == 1:
        return replace(grid_of("", parts, ([""], labels), (1, mode)), facts=facts)
    names = [labels[i] for i in starts], numbered(width)
    return replace(grid_of("", parts, names), facts=facts)


def numbered(n: int) -> list[str]:
    """Return the labels 0 to n - 1."""
    return [str(i) for i in range(n)]


# -- the cells of a thread-value layout over a tile

NOBODY = Cell(("-",))  # an element that no thread has


def picture_tv(tv: AnyLayout, tile: Tiler, by: str = "thread") -> Picture:
    """Return the tile with the threads and values of each element.

    Args:
        tv: (thread, value) -> index in the tile, the first mode of the tile fastest; or ->
            coordinate in the tile, as in a partition of an identity layout.
        tile: its shape, of 1 to 4 modes (elements); a mode may be a layout, whose values label it.
        by: what the colours tell apart, "thread" or "value".

    Law: for coordinates, the picture is that of the indices of these coordinates. Raises
    LayoutError for a `tv` of another rank, and if it leaves the tile.

    >>> from cute_py import Layout
    >>> picture_tv(Layout((2, 2), (1, 2)), (2, 2)).grids[0][0].cells[1]
    (Cell(lines=('T1 V0',), colour=1), Cell(lines=('T1 V1',), colour=1))
    >>> from cute_py import E
    >>> by_coordinate = Layout((2, 2), (E(0), E(1)))
    >>> picture_tv(by_coordinate, (2, 2)).grids == picture_tv(Layout((2, 2)), (2, 2)).grids
    True
    """
    threads = _require_tv(tv)
    modes, labels = tile_of(tile)
    cells = held(tv, {t: t for t in range(threads)}, modes, by)
    return Picture(f"{tv} over {tuples.show(tile)}", slabs(tv, cells, modes, labels))


class TileTV(Record):
    """A thread-value layout over its tile, as a value that `picture_of` takes; see `picture_tv`."""

    __slots__ = __match_args__ = ("tv", "tile")
    tv: AnyLayout
    tile: Tiler

    def __init__(self, tv: AnyLayout, tile: Tiler) -> None:
        self.tv, self.tile = tv, tile
        picture_tv(tv, tile)  # refuses what does not fit

    def __str__(self) -> str:
        return str(picture_tv(self.tv, self.tile))


def _require_tv(tv: AnyLayout) -> int:
    """Return the number of threads of a static thread-value layout."""
    if not is_layout(tv):
        reason = "pass a layout (thread, value) -> index in the tile"
        kind = type(tv).__name__
        raise refusal("viz-type", operation="picture_tv", value=tv, type=kind, reason=reason)
    require_numbers(tv, "picture_tv")
    if tuples.rank(tv.shape) != 2:
        raise refusal("viz-tv", operation="picture_tv", layout=tv, rank=tuples.rank(tv.shape))
    return size(tv, 0)


def tile_of(tile: Tiler) -> tuple[IntTuple, list[Labels]]:
    """Return the shape of a tile, and the coordinates of each mode."""
    modes = tuples.wrap(tile)
    shape = tuple([mode.shape if mode.__class__ is Layout else mode for mode in modes])
    sizes = tuples.product_each(shape)
    require_small(tile, tuples.product(sizes))
    return shape, [
        [tuples.show(mode(i)) for i in range(n)] if mode.__class__ is Layout else numbered(n)
        for mode, n in zip(modes, sizes, strict=True)
    ]


def held(tv: AnyLayout, threads: Mapping[int, int], shape: IntTuple, by: str = "thread") -> Cells:
    """Return the cell of each element of a tile.

    Args:
        tv: (thread, value) -> index or coordinate in the tile.
        threads: thread coordinate of tv -> number of the thread; others are left out.
        shape: the shape of the tile; nested modes mean nested coordinates.
        by: "value" for the colour of the first value in place of that of the first thread.

    """
    elements = tuples.product(shape)
    require_small(tv, elements)
    require_small(tv, size(tv), "pairs of thread and value")
    indices = values_of(tv)
    count = size(tv, 0)
    holders: Holders = [{} for _ in range(elements)]
    for value in range(size(tv, 1)):
        for t, thread in threads.items():
            place = indices[t + count * value]
            index = place if place.__class__ is int else _index(place, shape)
            if not 0 <= index < elements:
                raise refusal(
                    "viz-tile",
                    operation="picture_tv",
                    layout=tv,
                    shape=tuples.show(shape),
                    thread=thread,
                    value=value,
                    index=tuples.show(place),
                )
            holders[index].setdefault(value, []).append(thread)
    return _held_cells(holders, by)


def _held_cells(holders: Holders, by: str) -> Cells:
    """Return the cells of elements, each with the threads of each value that holds it."""
    cells = [_holder_cell(each, by) for each in holders]
    lines, colours = zip(*cells, strict=True)
    return Cells(lines, colours, tuple(holders))


def picture_owners(owners: Any, by: str = "thread") -> Picture:  # `Owners` of the layer `see`
    """Return the whole with the threads and values of each element, as `picture_tv` does."""
    modes, labels = tile_of(owners.shape)
    elements = tuples.product(modes)
    require_small(owners, elements)
    require_small(owners, owners.table.size, "pairs of thread and value")
    alike: dict[bytes, list[int]] = {}  # rows of threads that have the same elements
    for k, row in enumerate(owners.table):
        alike.setdefault(row.tobytes(), []).append(k)
    holders: Holders = [{} for _ in range(elements)]
    with uncollected():
        for rows in alike.values():
            threads = [owners.threads[k] for k in rows]
            for value, index in zip(owners.numbers, owners.table[rows[0]].tolist(), strict=True):
                if index >= 0:
                    holders[index].setdefault(value, []).extend(threads)
        if len(alike) < len(owners.threads):
            for held in chain.from_iterable([each.values() for each in holders]):
                held.sort()
        grids = slabs(owners, _held_cells(holders, by), modes, labels)
    return Picture(owners.title, grids)


def _index(coord: IntTuple, shape: IntTuple) -> int:
    """Return the index of a coordinate in a tile, -1 outside the tile.

    The coordinate may have fewer modes than the shape: E(0) alone moves along mode 0.
    """
    if coord.__class__ is int:
        return coord if 0 <= coord < tuples.product(shape) else -1
    if shape.__class__ is int or tuples.rank(coord) > tuples.rank(shape):
        return -1
    index, step = 0, 1
    for entry, extent in zip(coord, shape, strict=False):
        inner = _index(entry, extent)
        if inner < 0:
            return -1
        index, step = index + step * inner, step * tuples.product(extent)
    return index


def _holder_cell(values: dict[int, list[int]], by: str) -> Cell:
    """Return the cell of an element, a line for each set of threads that has it."""
    if not values:
        return NOBODY
    if len(values) == 1:
        ((value, threads),) = values.items()
        if len(threads) == 1:  # the usual case, fast
            first = value if by == "value" else threads[0]
            return Cell((f"T{threads[0]} V{value}",), first % len(COLOURS))
    groups = by_threads(values)
    lines = tuple(f"T{_spans(threads)} V{spans(held)}" for threads, held in groups)
    numbers = values if by == "value" else [min(threads) for threads, _ in groups]
    return Cell(lines, min(numbers) % len(COLOURS))


def by_threads(values: Mapping[int, list[int]]) -> list[tuple[tuple[int, ...], list[int]]]:
    """Return the sets of threads that have an element, each with its values."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for value, threads in values.items():
        groups.setdefault(tuple(threads), []).append(value)
    return list(groups.items())


def spans(numbers: Sequence[int]) -> str:
    """Return numbers as text, with ranges for three or more.

    >>> spans([0, 64]), spans([0, 1, 2, 3, 8, 9]), spans(range(0, 256, 16))
    ('0,64', '0-3,8,9', '0-240/16')
    """
    if len(numbers) == 1:
        return str(numbers[0])
    parts = []
    start = 0
    while start < len(numbers):
        end = _run(numbers, start)
        step = numbers[start + 1] - numbers[start] if end > start + 1 else 0
        if step and end - start >= (3 if step == 1 else 5):
            parts.append(f"{numbers[start]}-{numbers[end - 1]}" + (f"/{step}" if step > 1 else ""))
            start = end
        else:
            parts.append(str(numbers[start]))
            start += 1
    return ",".join(parts)


_spans = lru_cache(1 << 10)(spans)  # many elements have the same threads


def _run(numbers: Sequence[int], start: int) -> int:
    """Return the end of the run of equal positive steps that begins at `start`."""
    end = start + 1
    if end < len(numbers) and numbers[end] > numbers[start]:
        step = numbers[end] - numbers[start]
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
    return end
