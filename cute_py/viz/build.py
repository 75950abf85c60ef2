"""Pictures of layouts, tensors, maps of bits, MMA and copy atoms, tiled operations and tuples."""

from __future__ import annotations

from dataclasses import replace

from cute_py.errors import refusal
from cute_py.layout import tuples
from cute_py.layout.algebra.explain import Derivation
from cute_py.layout.layout import Layout
from cute_py.viz import replay
from cute_py.viz.cells import (
    Cells,
    grid_of,
    held,
    numbered,
    picture_owners,
    picture_tv,
    require_numbers,
    require_small,
    slabs,
    swizzled,
    table,
    tile_of,
    value_cells,
    values_of,
)
from cute_py.viz.picture import COLOURS, Facts, Grid, Picture, mode_sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from cute_py.atoms.copy import Copy_Atom
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.layout.bits.f2 import F2Map
    from cute_py.layout.bits.swizzle import Swizzle
    from cute_py.layout.types import AnyLayout, IntTuple
    from cute_py.tensor.tensor import Tensor
    from cute_py.tiled.tiled_mma import ThrMMA, TiledMMA
    from cute_py.viz.cells import Grids

    Drawable: TypeAlias = Any  # what `picture_of` takes
    Places: TypeAlias = tuple[tuple[Grid | None, ...], ...]

# operand -> the names of its two modes, and their places in MNK
_OPERANDS = {"A": ("mk", (0, 2)), "B": ("nk", (1, 2)), "C": ("mn", (0, 1))}


def picture_of(x: Drawable, by: str | None = None, bits: int = 16) -> Picture:
    """Return the picture of a layout, map of bits, atom, tiled operation, tensor or configuration.

    Args:
        x: a layout of rank 1 to 4, which may yield offsets or coordinates; a Tensor, whose elements
            are shown where they are known; a Swizzle or F2Map; an MMA_Atom, TiledMMA or ThrMMA; a
            Copy_Atom, TiledCopy or ThrCopy; a GemmConfig; a tuple of these; the text of a layout or
            swizzle, or the name of an MMA atom; or a Picture, which is returned unchanged.
        by: what the colours tell apart. For offsets "offset" (modulo 8) or "bank" of shared memory
            (four banks a colour), for threads "thread" or "value" (modulo 8), for both "tile": the
            blocks inside of heavy lines. The first is the default.
        bits: the bits of an element, for banks.

    Raises LayoutError for symbolic layouts, ranks above 4, more than 2**18 cells, a `by` that does
    not apply and `bits` that are no positive integer; ParseError for other texts; LeafTypeError for
    anything else.

    >>> from cute_py import Swizzle
    >>> [grid.title for grid in picture_of(Swizzle(2, 0, 3)).grids[0]]
    ['before', 'after']
    """
    if type(bits) is not int or bits < 1:
        raise refusal("viz-bits", operation="picture_of", bits=bits)
    x = named(x)
    if x.__class__ is tuple:
        return _panels(x, by, bits)
    kind = next((base.__name__ for base in type(x).__mro__ if base.__name__ in DRAWN), "")
    if not kind:
        reason = reason_of(x)
        name = type(x).__name__
        raise refusal("viz-type", operation="picture_of", value=x, type=name, reason=reason)
    draw, allowed = DRAWN[kind]
    if by not in (None, *allowed):
        raise refusal("viz-by", operation="picture_of", by=by, value=x, allowed=", ".join(allowed))
    drawn = draw(x, by or allowed[0], bits)
    return _by_tile(drawn) if by == "tile" else drawn


def reason_of(x: object) -> str:
    """Return why a value has no picture: its entry in UNDRAWN, if there is one."""
    usual = "pass one of these; print_tv draws a thread-value layout over its tile"
    return next((UNDRAWN[c.__name__] for c in type(x).__mro__ if c.__name__ in UNDRAWN), usual)


def named(x: Drawable) -> Drawable:
    """Return the MMA atom of a name, the layout of a derivation or of another text, what a row of
    `cute.layouts` has a picture of, and anything else as it is.
    """
    if isinstance(x, Derivation):
        return x.step.layout
    if type(x).__name__ == "Row":  # of a layer above
        return x.drawn()
    if not isinstance(x, str):
        return x
    from cute_py.atoms import registry
    from cute_py.layout.notation.parse import parse_layout

    return registry.get(x) if x.isidentifier() else parse_layout(x)


# -- several values, and colours by tile


def _panels(values: tuple[Drawable, ...], by: str | None, bits: int) -> Picture:
    """Return the pictures of the parts of a tuple side by side; integers are only in the title."""
    parts = [picture_of(x, by, bits) for x in values if x.__class__ is not int]
    if not parts:
        reason = "a tuple of numbers is a text: print it"
        raise refusal("viz-type", operation="picture_of", value=values, type="tuple", reason=reason)
    require_small("a tuple", sum(part.cells for part in parts))
    height = max(len(part.grids) for part in parts)
    blocks = [_titled(part) for part in parts]
    empty = [((None,) * len(block[0]),) * (height - len(block)) for block in blocks]
    padded = [block + spare for block, spare in zip(blocks, empty, strict=True)]
    title = tuples.show(values)
    return Picture(title, tuple(sum(row, ()) for row in zip(*padded, strict=True)))


def _titled(part: Picture) -> Places:
    """Return the grids of a picture, the first with the title of the picture."""
    places, *rows = map(list, part.grids)
    i, first = next((i, grid) for i, grid in enumerate(places) if grid)
    places[i] = replace(first, title=f"{part.title} {first.title}".strip())
    return tuple(map(tuple, [places, *rows]))


def _by_tile(drawn: Picture) -> Picture:
    """Return the picture with one colour for each block inside of heavy lines."""
    grids = [tuple([grid and _tiled_grid(grid) for grid in row]) for row in drawn.grids]
    return replace(drawn, grids=tuple(grids))


def _tiled_grid(grid: Grid) -> Grid:
    high, wide = [(mode_sizes(s) or (0,))[-1] for s in (grid.row_shape, grid.column_shape)]
    count = -(-grid.columns // wide) if wide else 1
    colours = [
        tuple(
            [
                None
                if old is None
                else ((i // high if high else 0) * count + (j // wide if wide else 0))
                % len(COLOURS)
                for j, old in enumerate(row)
            ]
        )
        for i, row in enumerate(grid.colours)
    ]
    return replace(grid, colours=tuple(colours))


# -- layouts and tensors


def _layout(layout: AnyLayout, by: str, bits: int) -> Picture:
    """Return the picture of the values of a layout."""
    require_numbers(layout, "picture_of")
    require_small(layout, tuples.product(layout.shape))
    values = values_of(layout)
    whole = values[0].__class__ is int
    if by == "bank" and not whole:
        raise refusal("viz-by", operation="picture_of", by=by, value=layout, allowed="offset, tile")
    cells = value_cells(values, bits if by == "bank" else 0)
    return Picture(str(layout), slabs(layout, cells, layout.shape), bits=bits)


def _tensor(tensor: Tensor, by: str, bits: int) -> Picture:
    """Return the elements of a tensor in the colours of their offsets, or else its layout."""
    layout = tensor.layout
    require_numbers(layout, "picture_of")
    require_small(tensor, tensor.size())
    if tensor.space == "coordinates":
        cells = value_cells([tensor.engine.read(offset) for offset in values_of(layout)])
        return Picture(str(tensor), slabs(tensor, cells, layout.shape))
    drawn = _layout(layout, by, tensor.element_bits)
    if tensor.space == "host" and by != "bank":
        texts = [(_number(value),) for value in tensor.to_numpy().reshape(-1, order="F").tolist()]
        cells = value_cells(values_of(layout))._replace(lines=tuple(texts))
        return Picture(str(tensor), slabs(tensor, cells, layout.shape), bits=drawn.bits)
    return replace(drawn, title=str(tensor))


def _number(value: float) -> str:
    return f"{value:.4g}" if value.__class__ is float else str(value)


# -- maps of bits


def _bits(f2map: F2Map, by: str, bits: int) -> Picture:
    """Return the bit matrix of a map: a column for each bit of the offset, its image downwards."""
    require_small(f2map, f2map.bits**2)
    columns, n = f2map.columns, max(1, f2map.bits)
    columns = columns or (1,)
    rows = range(n)
    ones = [[column >> i & 1 for column in columns] for i in rows]
    parts = [
        Cells(
            tuple([(str(x),) for x in row]),
            tuple([i % len(COLOURS) if x else None for x in row]),
            (),
        )
        for i, row in enumerate(ones)
    ]
    title = f"{f2map}: the bits of an offset right, those of its image down"
    return Picture(title, ((grid_of("", parts, (numbered(n), numbered(n))),),))


# -- swizzles


def _swizzle(swizzle: Swizzle, by: str, bits: int) -> Picture:
    """Return the offsets of one period before and after the swizzle.

    A cell is a run of 2**M offsets that stay together, labelled with the first; the row is the
    higher of the two bit fields.
    """
    turned, base, shift = swizzle.num_bits, swizzle.num_base, abs(swizzle.num_shft)
    rows, columns = 1 << turned, 1 << (shift if turned else 0)
    require_small(swizzle, 2 * rows * columns)
    run = 1 << base
    offsets = [run * (i * columns + j) for j in range(columns) for i in range(rows)]
    names = numbered(rows), [str(run * j) for j in range(columns)]
    grids = tuple(
        table(title, _runs(values, run, bits if by == "bank" else 0), names)
        for title, values in (("before", offsets), ("after", swizzled(swizzle, offsets)))
    )
    unit = "one offset" if run == 1 else f"the first of {run} offsets"
    return Picture(f"{swizzle}: each cell is {unit}", (grids,))


def _runs(offsets: list[int], run: int, bank_bits: int) -> Cells:
    """Return the cells of runs of offsets, each labelled with the first."""
    cells = value_cells(offsets, bank_bits)
    if bank_bits:
        return cells
    return cells._replace(colours=tuple([offset // run % len(COLOURS) for offset in offsets]))


# -- MMA


def _mma(mma: MMA_Atom | TiledMMA | ThrMMA, by: str, bits: int) -> Picture:
    """Return A on the left, B on the top and C in the corner, so that row m of A and column n of B
    intersect in C(m, n).
    """
    thread = getattr(mma, "thr_idx", None)
    tiled = _tiled_mma(getattr(mma, "tiled_mma", mma))  # type: ignore[arg-type]
    a, b, c = (_operand(tiled, operand, by, thread) for operand in "ABC")
    title = _mma_title(tiled) + ("" if thread is None else f": thread {thread}")
    return Picture(title, ((None, _transposed(b, "B: k down, n right")), (a, c)))


def picture_operand(mma: MMA_Atom | TiledMMA | str, operand: str, by: str = "thread") -> Picture:
    """Return one operand of an MMA atom (or its name) or TiledMMA: the thread of each element.

    Args:
        mma: the atom or tiled operation.
        operand: "A" (m downwards, k to the right), "B" (n, k) or "C" (m, n).
        by: what the colours tell apart, "thread" or "value".

    Raises LayoutError for another operand.

    >>> picture_operand("SM80_16x8x16_F32BF16BF16F32_TN", "C").grids[0][0].cells[8][1].lines
    ('T0 V3',)
    """
    if operand not in _OPERANDS:
        raise refusal("viz-operand", operation="picture_operand", operand=operand)
    tiled = _tiled_mma(mma)
    return Picture(_mma_title(tiled), ((_operand(tiled, operand, by),),))


def _tiled_mma(mma: MMA_Atom | TiledMMA | str) -> TiledMMA:
    from cute_py.tiled.tiled_mma import TiledMMA, make_tiled_mma

    return mma if mma.__class__ is TiledMMA else make_tiled_mma(mma)  # type: ignore[arg-type]


def _mma_title(tiled: TiledMMA) -> str:
    atoms = f"atoms {tiled.atom_layout_mnk}, " if tiled.atom_layout_mnk.size() > 1 else ""
    tile = tuples.show(tiled.permutation_mnk)
    return f"{tiled.atom}: {atoms}tile {tile}, {_threads(tiled.size())}"


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _operand(tiled: TiledMMA, operand: str, by: str, thread: int | None = None) -> Grid:
    names, modes = _OPERANDS[operand]
    shape = tuple(tiled.tile_size(i) for i in modes)
    tv = getattr(tiled, f"get_layout{operand}_TV")()
    require_small(tv, tuples.product(shape))
    require_small(tv, tv.size(), "pairs of thread and value")
    threads = {t: t for t in sorted(set(values_of(tiled.thr_layout_vmnk)))}
    if thread is not None:
        threads = {t: t for t in threads if t == thread}
    title = f"{operand}: {names[0]} down, {names[1]} right"
    axes = tuple(_atoms_along(tiled, i) for i in modes)
    return table(title, held(tv, threads, shape, by), [numbered(n) for n in shape], axes)


def _atoms_along(tiled: TiledMMA, mode: int) -> IntTuple:
    """Return the shape of one side of the tile, atom by atom; its extent if the tile permutes."""
    size, extent = tiled.tile_size(mode), tiled.atom.shape_mnk[mode]
    whole = not isinstance(tiled.permutation_mnk[mode], Layout)
    return (extent, size // extent) if whole and extent < size else size


def _transposed(grid: Grid, title: str) -> Grid:
    lines, colours = (tuple(zip(*each, strict=True)) for each in (grid.lines, grid.colours))
    labels = grid.column_labels, grid.row_labels
    facts = grid.facts and grid.facts._replace(across=True)
    return Grid(title, lines, colours, *labels, grid.column_shape, grid.row_shape, facts)


# -- copies


def _tiled_copy(copy: Any, by: str, bits: int) -> Picture:  # a TiledCopy or ThrCopy
    """Return the tile as the source is read, and as the destination is written."""
    thread = getattr(copy, "thr_idx", None)
    copy = getattr(copy, "tiled_copy", copy)
    modes, labels = tile_of(copy.tiler_mn)
    threads = {t: t for t in range(copy.size()) if thread in (None, t)}
    sides = [
        slabs(copy, held(tv, threads, modes, by), modes, labels)
        for tv in (copy.get_layoutS_TV(), copy.get_layoutD_TV())
    ]
    who = _threads(copy.size()) + ("" if thread is None else f": thread {thread}")
    return _side_by_side(f"{copy.atom}: tile {tuples.show(copy.tiler_mn)}, {who}", *sides)


def _copy_atom(atom: Copy_Atom, by: str, bits: int) -> Picture:
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
        cells = held(tv, threads, (elements,), by)
        parts = [cells.part(slice(i, i + width)) for i in range(0, elements, width)]
        facts = Facts(cells.facts, (elements,), across=True)
        drawn.append(((replace(grid_of("", parts, names), facts=facts),),))
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


# -- configurations


def _config(config: Any, by: str, bits: int) -> Picture:  # a GemmConfig: kernels are a layer above
    """Return one stage of A and B in shared memory, and the threads of the sums."""
    from cute_py.layout.modes import select

    parts = []
    for name, layout in zip("AB", config.smem_layouts(), strict=True):
        drawn = picture_of(select(layout, [0, 1]), "offset")
        parts.append(replace(drawn, title=f"{name} in shared memory"))
    parts.append(replace(picture_operand(config.tiled_mma(along_k=True), "C"), title=""))
    return replace(_panels(tuple(parts), None, bits), title=str(config))


# -- which types have pictures

BY = ("offset", "bank", "thread", "value", "tile")  # what colours may tell apart
OFFSETS, THREADS = ("offset", "bank", "tile"), ("thread", "value", "tile")
DRAWN: dict[str, tuple[Callable[..., Picture], tuple[str, ...]]] = {
    "Picture": (lambda x, by, bits: x, ("", "tile")),
    "Layout": (_layout, OFFSETS),
    "ComposedLayout": (_layout, OFFSETS),
    "F2Layout": (_layout, OFFSETS),
    "Tensor": (_tensor, OFFSETS),
    "Swizzle": (_swizzle, OFFSETS[:2]),
    "F2Map": (_bits, ("bit",)),
    "TileTV": (lambda x, by, bits: picture_tv(x.tv, x.tile, by), THREADS),
    "Owners": (lambda x, by, bits: picture_owners(x, by), THREADS),
    "MMA_Atom": (_mma, THREADS),
    "TiledMMA": (_mma, THREADS),
    "ThrMMA": (_mma, THREADS),
    "Copy_Atom": (_copy_atom, THREADS[:2]),
    "TiledCopy": (_tiled_copy, THREADS),
    "ThrCopy": (_tiled_copy, THREADS),
    "GemmConfig": (_config, ("offset",)),
    "BankConflicts": (replay.banks, ("wavefront",)),
    "Coalescing": (replay.sectors, ("sector",)),
    "Timeline": (replay.timeline, ("op",)),
    "Way": (replay.way, ("element",)),
}
# the other public types, and why they have no picture; a subclass has the reason of its base
UNDRAWN = {
    "CuteError": "an error is a text",
    "Plan": "a plan is a text, a line for each op: print it",
    "Kernel": "a kernel has a plan for each kind of arguments: print cute.trace(kernel, ...)",
    "Compiled": "compiled code is a text: print its source, ptx or sass",
    "Gemm": "a prepared product is a call: print cute.ops.gemm_config(a, b).explain()",
    "Status": "a status is a name and a text",
    "Report": "a report is a table of counts, which notebooks show as one",
    "Copy_Op": "an instruction moves bits: Copy_Atom(op, dtype) has a picture",
    "Operand": "an operand is a part of an MMA atom, which has a picture",
    "TensorArray": "its matrices differ in size: draw one of them",
    "Engine": "memory has no shape: a tensor over it has a picture",
    "Dtype": "a type is a name and a number of bits",
    "SubbyteReference": "it is one element",
    "SymInt": "a symbol is a number that is not known",
    "Proof": "a proof is a text",
    "ScaledBasis": "it is one stride",
    "Underscore": "it is one coordinate",
    "Access": "an access is one request: bank_conflicts and coalescing judge it",
    "Occupancy": "it is a handful of numbers",
    "Registers": "it is a handful of numbers",
    "Wave": "it is a handful of numbers",
    "DeviceLimits": "it is a handful of numbers",
    "SmemSolution": "draw its layout",
    "Cell": "a cell is a part of a picture",
    "Grid": "a grid is a part of a picture",
}
