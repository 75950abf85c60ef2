"""The checks of the constructors of tiled operations: tiles, threads and maps; and `retile`.

The tile of a mode is an integer, a shape, or a layout that picks the tile's elements out of the
mode. A layout with gaps is filled by its own copies: it divides an extent if its period does. The
checks refuse a map that leaves the tile, or covers it in another way than it says.
"""

from __future__ import annotations

from cute_py.atoms.copy import Copy_Atom
from cute_py.errors import LayoutError, refusal
from cute_py.integers import ints
from cute_py.layout import tuples
from cute_py.layout.algebra.coalesce import coalesce, filter
from cute_py.layout.algebra.complement import complement
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.divide import zipped_divide
from cute_py.layout.algebra.inverse import left_inverse, right_inverse
from cute_py.layout.algebra.product import logical_product
from cute_py.layout.algebra.recast import upcast
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.coords import crd2idx
from cute_py.layout.layout import INTS, Layout, make_layout, on_inner
from cute_py.layout.modes import prepend, replace, slice_
from cute_py.layout.properties import is_injective, is_surjective
from cute_py.layout.queries import cosize, get_flat_coord, size
from cute_py.layout.tuples import _
from cute_py.tensor.elements import reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import CuteError
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf, Tiler
    from cute_py.tiled.tiled_copy import TiledCopy


def checked_tile(tile: Tiler, operation: str, name: str) -> Tiler:
    """Return the tile of a mode; refuse a tile that cannot be repeated over a mode without overlap.

    Args:
        tile: an integer, a shape or a layout.
        operation: the public name, for the refusal.
        name: the name of the mode, for the refusal.

    Raises LeafTypeError for anything but a tile, and LayoutError for extents below 1, and for
    layouts that overlap, have negative strides, or have gaps that their own copies do not fill.
    """
    if tile.__class__ is tuple and tile:
        return tuple([checked_tile(part, operation, name) for part in tile])
    if tile.__class__ is not Layout:
        return _extent(tile, operation, name)
    if (
        tile._kind != INTS
        or min(tile._d, default=0) < 0
        or not is_injective(tile)
        or not _repeats(tile)
    ):
        raise refusal("tile-layout", operation=operation, tile=tile, mode=name)
    return tile


def _extent(tile: object, operation: str, name: str) -> Leaf:
    if isinstance(tile, ScaledBasis):
        raise refusal("tiler-type", operation=operation, value=tile)
    extent = ints.normalize(tile, operation, ", or layouts")
    if ints.less(extent, 1):
        raise refusal("extent-not-positive", operation=operation, value=extent, mode=name)
    return extent


def _repeats(tile: Layout) -> bool:
    """Return whether the tile and its copies fill an interval without holes."""
    gaps = complement(tile)
    return bool(cosize(make_layout(tile, gaps)) == size(tile) * size(gaps))


def period(tile: Tiler) -> Leaf:
    """Return the extent that a tile fills together with the copies in its gaps (elements).

    >>> period(32), period(Layout((4, 4, 2), (1, 8, 4))), period(Layout((8, 2), (1, 16)))
    (32, 32, 32)
    """
    count: Leaf = size(tile)
    return count * size(complement(tile)) if tile.__class__ is Layout else count


def require_divides(
    operation: str, shape: IntTuple, tiles: tuple[Tiler, ...], names: tuple[str, ...]
) -> None:
    """Refuse a shape whose extents the tiles are not known to divide, mode by mode."""
    for mode, tile, name in zip(shape, tiles, names, strict=False):
        if tile.__class__ is tuple and mode.__class__ is tuple:
            require_divides(operation, mode, tile, (name,) * len(tile))
            continue
        extent, whole = tuples.product(mode), period(tile)
        if not ints.settle(ints.divides, whole, extent, operation):
            gaps = "" if size(tile) == whole else f" ({size(tile)} of them in {tile})"
            raise refusal(
                "partition-divides",
                operation=operation,
                mode=name,
                extent=extent,
                tile=f"{whole}{gaps}",
                padded=-(-extent // whole) * whole,
            )


# -- threads: the check of `get_slice`


def require_thread(thread: Leaf, end: int, layout: Layout) -> Leaf:
    """Return a thread index as a leaf; refuse one that may be outside 0 to end - 1.

    Args:
        thread: the index: an integer, or a symbol whose declared bounds are in range.
        end: one more than the largest thread index.
        layout: the thread layout, for the refusal.

    Raises CoordinateError if the thread is outside, UndecidedError with the assumption that would
    decide it if it may be.
    """
    thread = ints.normalize(thread, "get_slice")
    if ints.settle(ints.leq, 0, thread, "get_slice") and ints.settle(
        ints.less, thread, end, "get_slice"
    ):
        return thread
    raise _no_thread(thread, layout)


def thread_vmnk(thread: Leaf, layout: Layout) -> tuple[Leaf, tuple[Leaf, Leaf, Leaf, Leaf]]:
    """Return a thread index as a leaf, and its coordinate in (ThrV,ThrM,ThrN,ThrK).

    Law: layout(coordinate) == thread. Raises CoordinateError, or UndecidedError for a symbol, if
    the thread is outside or in a hole of the layout.
    """
    end = cosize(layout)
    thread = require_thread(thread, end, layout)
    try:
        coord = get_flat_coord(layout, thread)
    except LayoutError:
        raise _no_thread(thread, layout) from None
    if size(layout) < end:  # holes: an index is a thread if its coordinate maps back to it
        back = crd2idx(coord, layout.shape, layout.stride)
        if not ints.settle(ints.same, back, thread, "get_slice"):
            raise _no_thread(thread, layout)
    return thread, coord


def apart(layout: Layout) -> bool:
    """Return whether each stride of a layout of threads is beyond the reach of the smaller ones:
    then a thread index determines its coordinate.

    >>> apart(Layout((32, 2, 2), (1, 64, 32))), apart(Layout((3, 3), (3, 2)))
    (True, False)
    """
    filled = 0  # the greatest index that the modes below reach
    for stride, extent in sorted(zip(layout._d, layout._s, strict=True)):
        if extent > 1:
            if stride <= filled:
                return False
            filled += stride * (extent - 1)
    return True


def _no_thread(thread: Leaf, layout: Layout) -> CuteError:
    return refusal(
        "tiled-thread", operation="get_slice", thread=thread, threads=size(layout), layout=layout
    )


# -- the maps of a TiledCopy: thread and value layouts, thread-value layouts, tiles

MEMORIES = ("gmem", "smem")


def checked_atom(atom: object, operation: str) -> Copy_Atom:
    """Return a Copy_Atom; refuse anything else."""
    if atom.__class__ is not Copy_Atom:
        raise refusal("copy-atom", operation=operation, value=atom)
    return atom


def index_map(x: AnyLayout, operation: str, name: str) -> Layout:
    """Return a layout of thread or value indices, or the compact layout of a shape.

    Raises LayoutError for indices below 0.
    """
    layout = x if x.__class__ is Layout else Layout(x)
    _require_integers(layout, operation)
    if min(layout._d, default=0) < 0:
        raise _no_map(layout, operation, name)
    return layout


def not_one_to_one(threads: Layout, values: Layout, operation: str) -> CuteError:
    """Return the refusal of layouts of indices that leave some out or give some twice: of the first
    that does.
    """
    if is_surjective(threads, size(threads)):
        return _no_map(values, operation, "value")
    return _no_map(threads, operation, "thread")


def _no_map(layout: Layout, operation: str, name: str) -> CuteError:
    last = size(layout) - 1
    return refusal("copy-map", operation=operation, name=name, layout=layout, last=last)


def checked_tv(layout_tv: object, operation: str) -> Layout:
    """Return a thread-value layout; refuse a layout without the two modes threads and values."""
    if layout_tv.__class__ is not Layout:
        raise refusal("not-a-layout", operation=operation, value=layout_tv)
    if len(layout_tv) != 2 or layout_tv.shape.__class__ is not tuple:
        raise refusal("copy-tv", operation=operation, tv=layout_tv)
    _require_integers(layout_tv, operation)
    return layout_tv


def _require_integers(layout: Layout, operation: str) -> None:
    if layout._kind != INTS:
        raise refusal("tiled-static", operation=operation, layout=layout)


def checked_tiler(tiler: Tiler, operation: str) -> tuple[Tiler, ...]:
    """Return the tile as a tuple with one entry per mode."""
    modes = tiler if tiler.__class__ is tuple else (tiler,)
    if not modes:
        raise refusal("tiler-type", operation=operation, value=tiler, type="an empty tuple")
    return tuple([checked_tile(mode, operation, f"{k}") for k, mode in enumerate(modes)])


def require_whole_atoms(atom: Copy_Atom, layout_tv: Layout, operation: str) -> None:
    """Refuse threads or values that are not a multiple of the atom's."""
    threads, values = tuples.product_each(layout_tv.shape)
    if threads % atom.num_threads:
        needed = atom.num_threads
        raise refusal(
            "copy-threads", operation=operation, atom=atom, threads=threads, needed=needed
        )
    if values % atom.num_values:
        needed = atom.num_values
        raise refusal("copy-values", operation=operation, atom=atom, values=values, needed=needed)


def require_inside(layout_tv: Layout, tiler: tuple[Tiler, ...], operation: str) -> None:
    """Refuse a thread-value layout that reaches an index outside the tile."""
    count = tuples.product(tuple([size(part) for part in tiler]))
    low, high = reach(layout_tv)
    if low < 0 or high >= count:
        raise refusal(
            "copy-outside",
            operation=operation,
            tv=layout_tv,
            tile=tuples.show(tiler),
            index=low if low < 0 else high,
            last=count - 1,
        )


def require_one_writer(atom: Copy_Atom, layout_tv: Layout, operation: str) -> None:
    """Refuse elements with several writers if the instruction writes memory."""
    if atom.op.dst_space in MEMORIES and not is_injective(layout_tv):
        raise refusal("copy-writers", operation=operation, atom=atom, tv=layout_tv)


# -- the part of a shape that a thread-value layout reaches


def active_part(layout_tv: Layout, shape: tuple[int, ...]) -> tuple[Layout, tuple[Layout, ...]]:
    """Return (thread, value) -> index in the part of `shape` that layout_tv reaches, and the tiler
    of that part.
    """
    zeros = tuples.repeat_like(shape, 0)
    modes = [Layout(shape, replace(zeros, i, 1)) for i in range(len(shape))]
    tiler = tuple([filter(composition(mode, layout_tv)) for mode in modes])
    to_tile = left_inverse(composition(Layout(shape), tiler))
    return composition(to_tile, layout_tv), tiler


# -- registers in the order in which a copy moves them. Source: cutlass copy_atom.hpp


def retile_layout(copy: TiledCopy, layout: AnyLayout) -> Alike:
    """Return a fragment (V,RestM,RestN,...) in the order in which `copy` moves it.

    Law: a fragment from `partition_fragment_C` of an MMA, retiled by `make_tiled_copy_C` of the
    MMA, has its values in the order of partition_S and partition_D of the copy. Raises LayoutError
    if a thread moves the blocks of its fragment in another order than that of their coordinates
    (CuTe's map ignores the permutation of an MMA and would mix them up), if its values neither
    divide those of a thread of the copy nor are a multiple, or if the rest is not whole tiles.
    """
    if layout.__class__ is not Layout:
        return on_inner("retile", lambda inner: retile_layout(copy, inner), layout)
    values, held = size(layout, 0), size(copy.layout_tv, 1)
    if len(layout) <= len(copy.tiler_mn) or (held % values and values % held):
        raise _not_whole(copy, layout)
    shape = tuple([tuples.shape_of(part) for part in copy.tiler_mn])
    by_tile = upcast(right_inverse(copy.layout_tv).with_shape(shape), copy.size() * values)
    blocks = coalesce(right_inverse(by_tile))
    if blocks != Layout(size(blocks)) and size(blocks) > 1:
        raise refusal("retile-order", operation="retile", tv=copy.layout_tv, layout=layout)
    order = logical_product(Layout(values), blocks)
    by_atom = zipped_divide(order, Layout(copy.atom.num_values))
    tile = prepend(tuples.product_each(by_tile.shape), values)
    try:
        moved = composition(zipped_divide(layout, tile), (by_atom, _))
    except LayoutError:
        raise _not_whole(copy, layout) from None
    if size(moved) != size(layout):
        raise _not_whole(copy, layout)
    return slice_((_, (0, *[_] * (len(layout) - 1))), moved)


def _not_whole(copy: TiledCopy, layout: AnyLayout) -> CuteError:
    return refusal(
        "retile-values",
        operation="retile",
        layout=layout,
        atom=copy.atom,
        held=size(copy.layout_tv, 1),
        rank=1 + len(copy.tiler_mn),
    )
