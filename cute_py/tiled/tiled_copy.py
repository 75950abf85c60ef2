"""`TiledCopy`: a copy atom repeated over threads and values, and a thread's part of source and
destination.

Source: cutlass include/cute/atom/copy_atom.hpp.
"""

from __future__ import annotations

from itertools import chain

from cute_py.atoms.copy import Copy_Atom
from cute_py.errors import LayoutError, refusal
from cute_py.layout import tuples
from cute_py.layout.algebra.coalesce import coalesce, merged
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.divide import by_ints, halves, logical_divide, zipped_divide
from cute_py.layout.algebra.inverse import left_inverse, right_inverse
from cute_py.layout.algebra.product import raked_product
from cute_py.layout.layout import INTS, Layout, make_layout, on_inner, raw, raw_flat
from cute_py.layout.modes import get, modes_of, slice_
from cute_py.layout.queries import cosize, rank, size
from cute_py.layout.tuples import _
from cute_py.records import Record, Value
from cute_py.tensor.elements import reach
from cute_py.tiled.fragments import checked_mode, on_layout, part_at, whole
from cute_py.tiled.tiled_mma import TiledMMA
from cute_py.tiled.tiles import (
    active_part,
    checked_atom,
    checked_tiler,
    checked_tv,
    index_map,
    not_one_to_one,
    require_divides,
    require_inside,
    require_one_writer,
    require_thread,
    require_whole_atoms,
    retile_layout,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from cute_py.layout.algebra.divide import Pair
    from cute_py.layout.types import Alike, AnyLayout, LayoutLike, Leaf, Tiler

    Tiled = TypeVar("Tiled")


class TiledCopy(Value):
    """A copy atom tiled over threads and values.

    Args:
        atom: the Copy_Atom.
        layout_tv: (thread, value) -> index in the tile.
        tiler_mn: the tile: a shape, or a tuple of layouts that pick its elements out of each mode.

    Raises LayoutError if the threads or values are not a multiple of the atom's, if layout_tv
    reaches outside the tile, and if it gives an element several writers although the
    instruction writes memory. Reading an element several times is legal (stride 0 of
    `make_tiled_copy_A` along N).
    """

    __slots__ = ("_places", "atom", "layout_tv", "tiler_mn")
    __match_args__ = ("atom", "layout_tv", "tiler_mn")
    atom: Copy_Atom
    layout_tv: Layout
    tiler_mn: tuple[Tiler, ...]
    _places: _Places

    def __init__(self, atom: Copy_Atom, layout_tv: Layout, tiler_mn: Tiler) -> None:
        """Check that the maps stay in the tile, and that the atom divides them."""
        name = "make_tiled_copy"
        tv, tiler = checked_tv(layout_tv, name), checked_tiler(tiler_mn, name)
        require_whole_atoms(checked_atom(atom, name), tv, name)
        require_inside(tv, tiler, name)
        require_one_writer(atom, tv, name)
        self.atom = atom
        self.layout_tv = tv
        self.tiler_mn = tiler
        self._places = _Places(atom, tv)

    def __str__(self) -> str:
        lines = [
            "TiledCopy",
            f"  Tiler_MN:       {tuples.show(self.tiler_mn)}",
            f"  TiledLayout_TV: {self.layout_tv}",
            f"  {self.atom}",
        ]
        return "\n".join(lines)

    # -- sizes

    def size(self) -> int:
        """Return the number of threads."""
        return size(self.layout_tv, 0)

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The extents of the tile that all threads move at once (elements)."""
        return tuple([size(part) for part in self.tiler_mn])

    def tile_size(self, mode: int) -> int:
        """Return the tile's extent in one mode (elements)."""
        return self.tile_shape[checked_mode(mode, self.tile_shape, "tile_size")]

    # -- the whole tile, by threads and values

    def tidfrg_S(self, source: AnyLayout) -> Alike:
        """Return the source (M,N,...) as (Thr,(FrgV,FrgX),(RestM,RestN,...))."""
        return self._tidfrg("S", source)

    def tidfrg_D(self, destination: AnyLayout) -> Alike:
        """Return the destination (M,N,...) as (Thr,(FrgV,FrgX),(RestM,RestN,...))."""
        return self._tidfrg("D", destination)

    def _tidfrg(self, side: str, x: AnyLayout) -> Alike:
        return on_layout(lambda layout: self._tidfrg_layout(side, layout), x)

    def _tidfrg_layout(self, side: str, layout: AnyLayout) -> Alike:
        if layout.__class__ is not Layout:
            return on_inner(f"partition_{side}", lambda x: self._tidfrg_layout(side, x), layout)
        tiles = self.tiler_mn
        if len(layout) < len(tiles):
            raise refusal("partition-rank", operation=f"partition_{side}", layout=layout)
        names = tuple([f"mode {k}" for k in range(len(tiles))])
        require_divides(f"partition_{side}", tuples.wrap(layout.shape), self.tiler_mn, names)
        tile, rest = by_ints(layout, tiles) or halves(zipped_divide(layout, tiles))
        return self._tile_to_threads(side, tile, rest)

    def _tile_to_threads(self, side: str, tile: Layout, rest: Layout) -> Layout:
        """Return (TileM,TileN,...) and Rest as (Thr,(FrgV,FrgX),Rest)."""
        placed = composition(tile, self._places[side])
        shape, stride = (*placed.shape, rest.shape), (*placed.stride, rest.stride)
        kind = max(placed._kind, rest._kind)
        return raw(shape, stride, placed._s + rest._s, placed._d + rest._d, kind)

    def get_layoutS_TV(self) -> Layout:
        """Return (thread, value) -> index in the tile, as the source is read."""
        return self._layout_tv("S")

    def get_layoutD_TV(self) -> Layout:
        """Return (thread, value) -> index in the tile, as the destination is written."""
        return self._layout_tv("D")

    def _layout_tv(self, side: str) -> Layout:
        shape = tuple([tuples.shape_of(part) for part in self.tiler_mn])
        by_thread = self._tile_to_threads(side, Layout(shape), Layout(1, 0))
        return slice_((_, _, 0), by_thread)

    # -- one thread

    def get_slice(self, thread: Leaf) -> ThrCopy:
        """Return the view of one thread: an index from 0 to size() - 1.

        Raises CoordinateError for a thread that is not part of the tiled operation.
        """
        return ThrCopy(self, thread)

    def get_thread_slice(self, thread: Leaf) -> ThrCopy:
        """Return `get_slice(thread)`."""
        return ThrCopy(self, thread)

    def retile(self, fragment: AnyLayout) -> Alike:
        """Return a fragment of registers (V,RestM,RestN,...) in the order in which this copy moves
        them; moves no data.

        The first size(V) values of the thread-value layout must be those of the fragment.
        """
        return on_layout(lambda layout: retile_layout(self, layout), fragment)


class _Places(dict[str, Layout]):
    """Side -> ((thr,rest_thr),(val,rest_val)) -> index in the tile, made when it is first asked."""

    def __init__(self, atom: Copy_Atom, layout_tv: Layout) -> None:
        super().__init__()
        self.atom = atom
        self.layout_tv = layout_tv

    def __missing__(self, side: str) -> Layout:
        atom = self.atom
        threads, values = modes_of(self.layout_tv)
        thr, rest_thr = _split(threads, atom.num_threads)
        val, rest_val = _split(values, atom.num_values)
        part = atom.val_src_tv if side == "S" else atom.val_dst_tv
        inverse = right_inverse(atom.val_ref_tv)
        if part != atom.val_ref_tv or inverse.size() != part.size():
            to_reference = composition(inverse, part)
            thr, val = modes_of(composition(make_layout(thr, val), to_reference))
        by_value = make_layout(_coalesced(val), _coalesced(rest_val))
        self[side] = make_layout(_coalesced(thr, rest_thr), by_value)
        return self[side]


def _coalesced(*modes: Layout) -> Layout:
    """Return coalesce(make_layout(*modes)) of layouts of ints."""
    s, d = [[*chain(*parts)] for parts in zip(*[(mode._s, mode._d) for mode in modes], strict=True)]
    return raw_flat(*merged(s, d, INTS), INTS)


def _split(mode: Layout, count: int) -> Pair:
    """Return logical_divide(mode, count), which changes nothing for one element or all."""
    one = raw_flat([1], [0])
    if count in (1, mode.size()):
        return (one, mode) if count == 1 else (mode, one)
    return halves(logical_divide(mode, count))


class ThrCopy(Record):
    """One thread of a TiledCopy: its parts of source and destination."""

    __slots__ = ("thr_idx", "tiled_copy")
    __match_args__ = ("tiled_copy", "thr_idx")
    tiled_copy: TiledCopy
    thr_idx: Leaf

    def __init__(self, tiled_copy: TiledCopy, thr_idx: Leaf) -> None:
        self.tiled_copy = tiled_copy
        end = tuples.product(tiled_copy.layout_tv.shape[0])
        if thr_idx.__class__ is not int or not 0 <= thr_idx < end:
            thr_idx = require_thread(thr_idx, end, get(tiled_copy.layout_tv, 0))
        self.thr_idx = thr_idx

    def __repr__(self) -> str:
        return f"{self.tiled_copy!r}.get_slice({self.thr_idx!r})"

    def partition_S(self, source: AnyLayout) -> Alike:
        """Return this thread's (CPY,CPY_M,CPY_N,...) of the source: a tensor, or (layout, offset)
        of a layout.
        """
        return self._partition("S", source)

    def partition_D(self, destination: AnyLayout) -> Alike:
        """Return this thread's (CPY,CPY_M,CPY_N,...) of the destination: a tensor, or (layout,
        offset) of a layout.
        """
        return self._partition("D", destination)

    def _partition(self, side: str, x: AnyLayout) -> Alike:
        by_thread = self.tiled_copy._tidfrg(side, x)
        return part_at((self.thr_idx, _, whole(rank(x))), by_thread)

    def retile_S(self, fragment: AnyLayout) -> Alike:
        """Return the fragment in the order in which the copy reads it; see `TiledCopy.retile`."""
        return self.tiled_copy.retile(fragment)

    def retile_D(self, fragment: AnyLayout) -> Alike:
        """Return the fragment in the order in which the copy writes it; see `TiledCopy.retile`."""
        return self.tiled_copy.retile(fragment)


# -- ways to make one


def make_tiled_copy(
    atom: Copy_Atom, thr_layout: LayoutLike = 1, val_layout: LayoutLike = 1
) -> TiledCopy:
    """Return the copy of a tile with threads arranged by `thr_layout` and `val_layout` values per
    thread.

    Both map a coordinate (m,n) of the tile to a thread or value index, one to one onto 0 to size -
    1; their raked product is the tile. Indices may be left out where the copies of the other layout
    fill them, so that the raked product is one to one as in CuTe. Raises LayoutError if it is not,
    and if threads or values are not a multiple of the atom's. Source: cutlass copy_atom.hpp
    `make_tiled_copy`.

    >>> from cute_py.atoms.copy import Copy_Atom
    >>> atom = Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL", 16)
    >>> copy = make_tiled_copy(atom, Layout((32, 4), (4, 1)), Layout((1, 8)))
    >>> copy.tile_shape, copy.get_slice(5).partition_S(Layout((128, 32), (32, 1)))[1]
    ((32, 32), 40)
    """
    threads = index_map(thr_layout, "make_tiled_copy", "thread")
    values = index_map(val_layout, "make_tiled_copy", "value")
    try:
        layout_mn = raked_product(threads, values)
    except LayoutError:
        raise not_one_to_one(threads, values, "make_tiled_copy") from None
    inverse = right_inverse(layout_mn)
    if inverse.size() != layout_mn.size():
        raise not_one_to_one(threads, values, "make_tiled_copy")
    count, held = threads.size(), values.size()
    by_thread = Layout((count, held), (int(count > 1), count if held > 1 else 0))
    layout_tv = composition(inverse, by_thread)
    return TiledCopy(atom, layout_tv, tuples.product_each(layout_mn.shape))


def make_tiled_copy_tv(atom: Copy_Atom, layout_tv: Layout, tiler_mn: Tiler) -> TiledCopy:
    """Return the copy whose thread-value layout, (thread, value) -> index in the tile, is given.

    >>> from cute_py.atoms.copy import Copy_Atom
    >>> atom = Copy_Atom("UniversalCopy<32>", 32)
    >>> copy = make_tiled_copy_tv(atom, Layout((32, 4), (4, 1)), (128,))
    >>> copy.size(), copy.tile_shape
    (32, (128,))
    """
    return TiledCopy(atom, layout_tv, tiler_mn)


def make_tiled_copy_A(atom: Copy_Atom, mma: TiledMMA) -> TiledCopy:
    """Return the copy of the elements of A that `mma` assigns to each thread.

    >>> from cute_py.atoms.copy import Copy_Atom
    >>> from cute_py.tiled.tiled_mma import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> make_tiled_copy_A(Copy_Atom("SM75_U32x4_LDSM_N", 16), mma).tile_shape
    (32, 16)
    """
    mma = _checked(mma, TiledMMA, "make_tiled_copy_A")
    return TiledCopy(atom, mma.get_layoutA_TV(), (mma.tile_size(0), mma.tile_size(2)))


def make_tiled_copy_B(atom: Copy_Atom, mma: TiledMMA) -> TiledCopy:
    """Return the copy of the elements of B that `mma` assigns to each thread.

    >>> from cute_py.atoms.copy import Copy_Atom
    >>> from cute_py.tiled.tiled_mma import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> make_tiled_copy_B(Copy_Atom("SM75_U32x4_LDSM_N", 16), mma).tile_shape
    (32, 16)
    """
    mma = _checked(mma, TiledMMA, "make_tiled_copy_B")
    return TiledCopy(atom, mma.get_layoutB_TV(), (mma.tile_size(1), mma.tile_size(2)))


def make_tiled_copy_C(atom: Copy_Atom, mma: TiledMMA) -> TiledCopy:
    """Return the copy of the elements of C that `mma` assigns to each thread.

    >>> from cute_py.atoms.copy import Copy_Atom
    >>> from cute_py.tiled.tiled_mma import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> make_tiled_copy_C(Copy_Atom("SM90_U32x4_STSM_N", 16), mma).tile_shape
    (32, 32)
    """
    mma = _checked(mma, TiledMMA, "make_tiled_copy_C")
    return TiledCopy(atom, mma.get_layoutC_TV(), (mma.tile_size(0), mma.tile_size(1)))


def make_tiled_copy_C_atom(atom: Copy_Atom, mma: TiledMMA) -> TiledCopy:
    """Return the smallest copy that can retile the C of `mma`: for epilogues that store it in
    parts.

    >>> from cute_py.atoms.copy import Copy_Atom
    >>> from cute_py.tiled.tiled_mma import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> make_tiled_copy_C_atom(Copy_Atom("SM90_U32x2_STSM_N", 16), mma).tile_shape
    (32, 16)
    """
    atom = checked_atom(atom, "make_tiled_copy_C_atom")
    mma = _checked(mma, TiledMMA, "make_tiled_copy_C_atom")
    whole = mma.get_layoutC_TV()
    if atom.num_val_src > size(whole, 1):
        raise refusal(
            "copy-values",
            operation="make_tiled_copy_C_atom",
            atom=atom,
            values=size(whole, 1),
            needed=atom.num_val_src,
        )
    layout_tv = composition(whole, Layout((size(whole, 0), atom.num_val_src)))
    return TiledCopy(atom, *active_part(layout_tv, (mma.tile_size(0), mma.tile_size(1))))


def make_cotiled_copy(atom: Copy_Atom, atom_tv: Layout, data: Layout) -> TiledCopy:
    """Return the copy whose (thread, value) -> address layout is given, for data of that layout.

    Raises LayoutError if an address does not exist in `data`. Source: cutlass copy_atom.hpp
    `make_cotiled_copy`.

    >>> from cute_py.atoms.copy import Copy_Atom
    >>> atom = Copy_Atom("UniversalCopy<32>", 32)
    >>> make_cotiled_copy(atom, Layout((32, 2), (2, 1)), Layout((16, 4), (4, 1))).tile_shape
    (16, 4)
    """
    name = "make_cotiled_copy"
    atom_tv = checked_tv(atom_tv, name)
    if data.__class__ is not Layout:
        raise refusal("not-a-layout", operation=name, value=data)
    low, high = reach(atom_tv)
    if low < 0 or high >= cosize(data):
        raise refusal("copy-codomain", operation=name, tv=atom_tv, data=data)
    inverse = make_layout(left_inverse(data), Layout(1, 0))  # address -> coordinate
    layout_tv = composition(inverse, atom_tv)
    padded = make_layout(data, Layout(1, 0))
    if coalesce(composition(padded, layout_tv)) != coalesce(atom_tv):
        raise refusal("copy-codomain", operation=name, tv=atom_tv, data=data)
    return TiledCopy(atom, *active_part(layout_tv, tuples.wrap(tuples.product_each(data.shape))))


def make_tiled_copy_S(atom: Copy_Atom, tiled_copy: TiledCopy) -> TiledCopy:
    """Return the copy with the thread-value layout of the source of `tiled_copy`.

    >>> from cute_py.atoms.copy import Copy_Atom
    >>> copy = make_tiled_copy(Copy_Atom("UniversalCopy<32>", 32), Layout(32), Layout(4))
    >>> make_tiled_copy_S(copy.atom, copy).layout_tv == copy.get_layoutS_TV()
    True
    """
    tiled_copy = _checked(tiled_copy, TiledCopy, "make_tiled_copy_S")
    return TiledCopy(atom, tiled_copy.get_layoutS_TV(), tiled_copy.tiler_mn)


def make_tiled_copy_D(atom: Copy_Atom, tiled_copy: TiledCopy) -> TiledCopy:
    """Return the copy with the thread-value layout of the destination of `tiled_copy`.

    >>> from cute_py.atoms.copy import Copy_Atom
    >>> copy = make_tiled_copy(Copy_Atom("UniversalCopy<32>", 32), Layout(32), Layout(4))
    >>> make_tiled_copy_D(copy.atom, copy).layout_tv == copy.get_layoutD_TV()
    True
    """
    tiled_copy = _checked(tiled_copy, TiledCopy, "make_tiled_copy_D")
    return TiledCopy(atom, tiled_copy.get_layoutD_TV(), tiled_copy.tiler_mn)


def _checked(tiled: Tiled, kind: type[Tiled], operation: str) -> Tiled:
    """Return a tiled operation of a class; refuse anything else."""
    if tiled.__class__ is not kind:
        raise refusal("tiled-kind", operation=operation, value=tiled, kind=kind.__name__)
    return tiled
