"""Pictures of layouts, swizzles, MMA and copy atoms, and tiled operations."""

from __future__ import annotations

from dataclasses import replace

from cute_py.errors import refusal
from cute_py.layout import tuples
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.viz.cells import (
    Cells,
    grid_of,
    held,
    is_layout,
    numbered,
    require_numbers,
    require_small,
    slabs,
    swizzled,
    table,
    tile_of,
    value_cells,
    values_of,
)
from cute_py.viz.picture import COLOURS, Facts, Grid, Picture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from cute_py.atoms.copy import Copy_Atom
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.layout.layout import Layout
    from cute_py.layout.types import AnyLayout
    from cute_py.tiled.tiled_copy import TiledCopy
    from cute_py.tiled.tiled_mma import TiledMMA
    from cute_py.viz.cells import Grids

    Drawable: TypeAlias = Any  # what `picture_of` takes

# operand -> the names of its two modes, and their places in MNK
_OPERANDS = {"A": ("mk", (0, 2)), "B": ("nk", (1, 2)), "C": ("mn", (0, 1))}


def picture_of(x: Drawable) -> Picture:
    """Return the picture of a layout, swizzle, MMA or copy atom, or tiled operation.

    Args:
        x: a layout of rank 1 to 4, which may yield offsets or coordinates; a tensor of coordinates;
            a Swizzle; an MMA_Atom or TiledMMA; a Copy_Atom or TiledCopy; the text of a layout or
            swizzle, or the name of an MMA atom; or a Picture, which is returned unchanged.

    Raises LayoutError for symbolic layouts, ranks above 4 and more than 2**18 cells; ParseError for
    other texts; LeafTypeError for anything else.

    >>> from cute_py import Swizzle
    >>> [grid.title for grid in picture_of(Swizzle(2, 0, 3)).grids[0]]
    ['before', 'after']
    """
    x = named(x)
    kind = type(x).__name__  # atoms and tiled operations are imported only to draw one
    if isinstance(x, Picture):
        return x
    if isinstance(x, Swizzle):
        return _swizzle(x)
    if kind in ("MMA_Atom", "TiledMMA"):
        return _mma(x)
    if kind == "Copy_Atom":
        return _copy_atom(x)
    if kind == "TiledCopy":
        return _tiled_copy(x)
    if is_layout(x):
        return _layout(x, x)
    if kind == "Tensor" and x.engine.space == "coordinates":
        return _layout(x.layout, x)
    raise refusal("viz-type", operation="picture_of", value=x, type=kind)


def named(x: Drawable) -> Drawable:
    """Return the MMA atom of a name, the layout of a text, and anything else as it is."""
    if not isinstance(x, str):
        return x
    from cute_py.atoms import registry
    from cute_py.layout.notation.parse import parse_layout

    return registry.get(x) if x.isidentifier() else parse_layout(x)


# -- layouts


def _layout(layout: AnyLayout, x: Drawable) -> Picture:
    """Return the picture of the values of x, a layout or a tensor of coordinates."""
    require_numbers(layout, "picture_of")
    shape = tuples.product_each(tuples.wrap(layout.shape))
    require_small(x, tuples.product(shape))
    values = values_of(x) if x is layout else [x[i] for i in range(tuples.product(shape))]
    return Picture(str(x), slabs(x, value_cells(values), shape, [numbered(n) for n in shape]))


# -- swizzles


def _swizzle(swizzle: Swizzle) -> Picture:
    """Return the offsets of one period before and after the swizzle.

    A cell is a run of 2**M offsets that stay together, labelled with the first; the row is the
    higher of the two bit fields.
    """
    bits, base, shift = swizzle.num_bits, swizzle.num_base, abs(swizzle.num_shft)
    rows, columns = 1 << bits, 1 << (shift if bits else 0)
    require_small(swizzle, 2 * rows * columns)
    run = 1 << base
    offsets = [run * (i * columns + j) for j in range(columns) for i in range(rows)]
    names = numbered(rows), [str(run * j) for j in range(columns)]
    grids = tuple(
        table(title, _runs(values, run), *names)
        for title, values in (("before", offsets), ("after", swizzled(swizzle, offsets)))
    )
    unit = "one offset" if run == 1 else f"the first of {run} offsets"
    return Picture(f"{swizzle}: each cell is {unit}", (grids,))


def _runs(offsets: list[int], run: int) -> Cells:
    """Return the cells of runs of offsets, each labelled with the first."""
    colours = tuple([offset // run % len(COLOURS) for offset in offsets])
    return Cells(tuple(zip(map(str, offsets))), colours, tuple(offsets))


# -- MMA


def _mma(mma: MMA_Atom | TiledMMA | str) -> Picture:
    """Return A on the left, B on the top and C in the corner, so that row m of A and column n of B
    intersect in C(m, n).
    """
    tiled = _tiled_mma(mma)
    a, b, c = (_operand(tiled, operand) for operand in "ABC")
    return Picture(_mma_title(tiled), ((None, _transposed(b, "B: k down, n right")), (a, c)))


def picture_operand(mma: MMA_Atom | TiledMMA | str, operand: str) -> Picture:
    """Return one operand of an MMA atom (or its name) or TiledMMA: the thread of each element.

    Args:
        mma: the atom or tiled operation.
        operand: "A" (m downwards, k to the right), "B" (n, k) or "C" (m, n).

    Raises LayoutError for another operand.

    >>> picture_operand("SM80_16x8x16_F32BF16BF16F32_TN", "C").grids[0][0].cells[8][1].lines
    ('T0 V3',)
    """
    if operand not in _OPERANDS:
        raise refusal("viz-operand", operation="picture_operand", operand=operand)
    tiled = _tiled_mma(mma)
    return Picture(_mma_title(tiled), ((_operand(tiled, operand),),))


def _tiled_mma(mma: MMA_Atom | TiledMMA | str) -> TiledMMA:
    from cute_py.tiled.tiled_mma import TiledMMA, make_tiled_mma

    return mma if mma.__class__ is TiledMMA else make_tiled_mma(mma)  # type: ignore[arg-type]


def _mma_title(tiled: TiledMMA) -> str:
    atoms = f"atoms {tiled.atom_layout_mnk}, " if tiled.atom_layout_mnk.size() > 1 else ""
    tile = tuples.show(tiled.permutation_mnk)
    return f"{tiled.atom}: {atoms}tile {tile}, {_threads(tiled.size())}"


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _operand(tiled: TiledMMA, operand: str) -> Grid:
    names, modes = _OPERANDS[operand]
    shape = tuple(tiled.tile_size(i) for i in modes)
    tv = getattr(tiled, f"get_layout{operand}_TV")()
    require_small(tv, tuples.product(shape))
    require_small(tv, tv.size(), "pairs of thread and value")
    threads = {t: t for t in sorted(set(values_of(tiled.thr_layout_vmnk)))}
    title = f"{operand}: {names[0]} down, {names[1]} right"
    return table(title, held(tv, threads, shape), *map(numbered, shape))


def _transposed(grid: Grid, title: str) -> Grid:
    lines, colours = (tuple(zip(*each, strict=True)) for each in (grid.lines, grid.colours))
    facts = grid.facts and grid.facts._replace(across=True)
    return Grid(title, lines, colours, grid.column_labels, grid.row_labels, facts)


# -- copies


def _tiled_copy(copy: TiledCopy) -> Picture:
    """Return the tile as the source is read, and as the destination is written."""
    shape, labels = tile_of(copy.tiler_mn)
    threads = {t: t for t in range(copy.size())}
    sides = [
        slabs(copy, held(tv, threads, shape), shape, labels)
        for tv in (copy.get_layoutS_TV(), copy.get_layoutD_TV())
    ]
    title = f"{copy.atom}: tile {tuples.show(copy.tiler_mn)}, {_threads(copy.size())}"
    return _side_by_side(title, *sides)


def _copy_atom(atom: Copy_Atom) -> Picture:
    """Return the values that one instruction moves; a line has consecutive values of a thread."""
    sides = (atom.src_tv, atom.dst_tv)
    for tv in sides:
        require_small(atom, tv.size(), "pairs of thread and value")
    threads = {t: atom.thr_id(t) for t in range(atom.num_threads)}
    elements = 1 + max(max(values_of(tv)) for tv in sides)
    width = max(_row(tv) for tv in sides)
    if elements % width:
        width = elements
    names = [str(width * i) for i in range(elements // width)], numbered(width)
    drawn = []
    for tv in sides:
        cells = held(tv, threads, (elements,))
        parts = [cells.part(slice(i, i + width)) for i in range(0, elements, width)]
        facts = Facts(cells.facts, (elements,), across=True)
        drawn.append(((replace(grid_of("", parts, *names), facts=facts),),))
    title = f"{atom}: {elements} values, {_threads(atom.num_threads)}"
    return _side_by_side(title, *drawn)


def _row(tv: Layout) -> int:
    """Return how many values of a thread are consecutive; 1 if all threads have all values."""
    threads, values = values_of(tv[0]), values_of(tv[1])
    if len(threads) > 1 and not any(threads):
        return 1
    return next((v for v in range(1, len(values)) if values[v] != values[0] + v), len(values))


def _side_by_side(title: str, source: Grids, destination: Grids) -> Picture:
    sides = (_named("source", source), _named("destination", destination))
    return Picture(title, tuple(left + right for left, right in zip(*sides, strict=True)))


def _named(side: str, grids: Grids) -> Grids:
    return tuple(
        tuple(replace(grid, title=f"{side} {grid.title}".rstrip()) for grid in row) for row in grids
    )
