"""`TiledMMA`: an MMA atom repeated over warps (atom layout) and values (permutation), and a
thread's part of A, B and C.

Source: cutlass include/cute/atom/mma_atom.hpp.
"""

from __future__ import annotations

from functools import lru_cache

from cute_py.atoms.mma import MMA_Atom
from cute_py.errors import CuteError, refusal, shorten
from cute_py.integers import ints
from cute_py.layout import tuples
from cute_py.layout.algebra.complement import complement
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.divide import logical_divide, zipped_divide
from cute_py.layout.algebra.inverse import right_inverse
from cute_py.layout.algebra.product import tiled_product
from cute_py.layout.layout import INTS, Layout, make_layout, on_inner
from cute_py.layout.modes import append, get, slice_
from cute_py.layout.queries import cosize, rank, size
from cute_py.layout.tuples import _, is_underscore
from cute_py.records import Record, Value
from cute_py.tiled import fragments
from cute_py.tiled.fragments import checked_mode, make_fragment, on_layout, part_at
from cute_py.tiled.tiles import apart, checked_tile, require_divides, thread_vmnk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, LayoutLike, Leaf, Tiler
    from cute_py.tensor.tensor import Tensor

# operand -> its two modes in MNK, and the thread modes of ThrLayoutVMNK that split them
_MODES = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}


class TiledMMA(Value):
    """An MMA atom tiled over threads and values.

    Args:
        atom: the MMA_Atom.
        atom_layout_mnk: the number of atoms in M, N and K, each on its own threads (warps for
            mma.sync).
        permutation_mnk: per mode of MNK the tile as an integer or a layout, or `_` for atom extent
            times atoms.

    Raises LayoutError if the permutation is not a multiple of the extent of all atoms.
    """

    __slots__ = ("atom", "atom_layout_mnk", "permutation_mnk", "thr_layout_vmnk")
    __match_args__ = ("atom", "atom_layout_mnk", "permutation_mnk")
    atom: MMA_Atom
    atom_layout_mnk: Layout
    permutation_mnk: tuple[Tiler, Tiler, Tiler]
    thr_layout_vmnk: Layout

    def __init__(
        self,
        atom: MMA_Atom,
        atom_layout_mnk: LayoutLike = (1, 1, 1),
        permutation_mnk: Tiler = (_, _, _),
    ) -> None:
        """Tile the atom; see `make_tiled_mma`."""
        if atom.__class__ is not MMA_Atom:
            raise refusal("mma-atom", operation="make_tiled_mma", value=atom)
        atoms, permutation = _in_mnk(atom_layout_mnk, permutation_mnk)
        self.atom = atom
        self.atom_layout_mnk = atoms
        if not apart(atoms):
            raise refusal("tiled-overlap", operation="make_tiled_mma", atoms=atoms)
        self.thr_layout_vmnk = tiled_product(atom.thr_id, atoms)
        m, n, k = permutation
        self.permutation_mnk = self._tile(0, m), self._tile(1, n), self._tile(2, k)

    def _tile(self, i: int, permutation: Tiler) -> Tiler:
        atoms = self.atom.shape_mnk[i] * size(self.thr_layout_vmnk, i + 1)
        if is_underscore(permutation):
            return atoms
        tile = checked_tile(permutation, "make_tiled_mma", "MNK"[i])
        if not ints.settle(ints.divides, atoms, size(tile), "make_tiled_mma"):
            raise refusal(
                "tiled-permutation",
                operation="make_tiled_mma",
                atom=self.atom,
                mode="MNK"[i],
                permutation=tuples.show(tile),
                atoms=atoms,
            )
        return tile

    def __str__(self) -> str:
        lines = [
            "TiledMMA",
            f"  ThrLayoutVMNK:  {self.thr_layout_vmnk}",
            f"  PermutationMNK: {tuples.show(self.permutation_mnk)}",
            f"  {self.atom}",
        ]
        return "\n".join(lines)

    # -- sizes

    def size(self) -> int:
        """Return the number of threads."""
        return size(self.thr_layout_vmnk)

    @property
    def tile_shape(self) -> tuple[int, int, int]:
        """The (M, N, K) of the tile that all threads compute at once (elements)."""
        m, n, k = (size(tile) for tile in self.permutation_mnk)
        return m, n, k

    def tile_size(self, mode: int) -> int:
        """Return the tile's extent in mode 0 (M), 1 (N) or 2 (K) (elements)."""
        return self.tile_shape[checked_mode(mode, self.tile_shape, "tile_size")]

    def columns_C(self, part: Tensor, first: int, count: int) -> Tensor:
        """Return some columns of a thread's part of C: of accumulators, or of a partition.

        Args:
            part: (V,M,N), as partition_C and make_fragment_C return it.
            first: the first of the columns of the tile.
            count: their number.

        Law: columns_C(partition_C(c), first, count) has the elements of partition_C(c) in columns
        first ... first + count - 1, in order. So an epilogue copies a tile of 152 columns in parts
        of 64, 64, 16 and 8, by make_tiled_copy_C_atom. Raises LayoutError for columns that are no
        whole steps of a thread's values, which are 8 columns of a warpgroup instruction.

        >>> from cute_py.tensor.tensor import make_identity_tensor
        >>> mma = make_tiled_mma("SM90_64x152x16_F32F16F16_SS")
        >>> part = mma.get_slice(1).partition_C(make_identity_tensor((64, 152)))
        >>> print(part)
        ArithTuple(0,2) o ((2,2,19),1,1):((1@1,8@0,8@1),0,0)
        >>> print(mma.columns_C(part, 128, 16))
        ArithTuple(0,130) o ((2,2,2),1,1):((1@1,8@0,8@1),0,0)
        """
        return fragments.columns_C(self, part, first, count)

    def rows_C(self, part: Tensor) -> Tensor:
        """Return a thread's part of C as a matrix of its rows: (rows,columns), each in order.

        Args:
            part: (V,M,N), as partition_C and make_fragment_C return it.

        Law: all elements of a row of rows_C(partition_C(c)) are in one row of the tile. So
        `cute.reduce(fn, mma.rows_C(acc), mode=1)` combines what a thread has of each row. Raises
        LayoutError for a part of another shape.

        >>> from cute_py.tensor.tensor import make_identity_tensor
        >>> mma = make_tiled_mma("SM90_64x16x16_F32F16F16_SS")
        >>> print(mma.rows_C(mma.get_slice(1).partition_C(make_identity_tensor((64, 16)))))
        ArithTuple(0,2) o ((2,1),(2,2,1)):((8@0,0),(1@1,8@1,0))
        """
        return fragments.rows_C(self, part)

    def spread_C(self, x: Tensor, part: Tensor) -> Tensor:
        """Return numbers of rows as a tensor of the shape of a part of C, stride 0 along columns.

        Args:
            x: a number for each row of the thread, in the order of `rows_C`.
            part: (V,M,N), as partition_C and make_fragment_C return it.

        Law: rows_C(spread_C(x, part))[i, j] is x[i]. So `acc * mma.spread_C(x, acc)` scales rows.
        Raises LayoutError for other numbers of rows.
        """
        return fragments.spread_C(self, x, part)

    def as_A(self, part: Tensor) -> Tensor:
        """Return accumulators of a product as fragments (V,M,K) of A of this one: K is their N.

        Args:
            part: (V,M,N) of an atom with tiles of 8 columns of C, in the type of A.

        A thread has the same rows and pairs of columns in both, so nothing moves. Law:
        mma.as_A(first.partition_C(x)) has the elements of mma.partition_A(x) in order, where both
        have the same threads along M. Raises LayoutError for atoms of which that is not so.
        """
        return fragments.as_A(self, part)

    # -- the whole tile, by threads and values

    def thrfrg_A(self, a: AnyLayout) -> Alike:
        """Return (M,K,...) as ((ThrV,(ThrM,ThrK)),(FrgV,(RestM,RestK,...)))."""
        return self._thrfrg("A", a)

    def thrfrg_B(self, b: AnyLayout) -> Alike:
        """Return (N,K,...) as ((ThrV,(ThrN,ThrK)),(FrgV,(RestN,RestK,...)))."""
        return self._thrfrg("B", b)

    def thrfrg_C(self, c: AnyLayout) -> Alike:
        """Return (M,N,...) as ((ThrV,(ThrM,ThrN)),(FrgV,(RestM,RestN,...)))."""
        return self._thrfrg("C", c)

    def _thrfrg(self, operand: str, x: AnyLayout) -> Alike:
        try:
            return on_layout(lambda layout: self._thrfrg_layout(operand, layout), x)
        except CuteError as error:
            shorten(error)
            raise

    def _thrfrg_layout(self, operand: str, layout: AnyLayout) -> Alike:
        if layout.__class__ is not Layout:
            return on_inner(f"thrfrg_{operand}", lambda x: self._thrfrg_layout(operand, x), layout)
        if len(layout) < 2:
            raise refusal("partition-rank", operation=f"thrfrg_{operand}", layout=layout)
        modes = _MODES[operand]
        atom_tv = {"A": self.atom.a_tv, "B": self.atom.b_tv, "C": self.atom.c_tv}[operand]
        tiles, names = zip(*[(self.permutation_mnk[i], "MNK"[i]) for i in modes], strict=True)
        require_divides(f"partition_{operand}", tuples.wrap(layout.shape), tiles, names)
        permuted = logical_divide(layout, tiles)
        atom_tile = tuple([self.atom.shape_mnk[i] for i in modes])
        by_atom = zipped_divide(permuted, atom_tile)  # ((AtomX,AtomY),(RestX,RestY,...))
        by_thread = composition(by_atom, (atom_tv, _))  # ((ThrV,FrgV),(RestX,RestY,...))
        threads = tuple([tuples.product(self.thr_layout_vmnk.shape[i + 1]) for i in modes])
        return _regroup(by_thread, zipped_divide(get(by_thread, 1), threads))

    # -- one thread

    def get_slice(self, thread: Leaf) -> ThrMMA:
        """Return the view of one thread: an index from 0 to size() - 1.

        Raises CoordinateError for a thread that is not part of the tiled operation.
        """
        return ThrMMA(self, thread)

    def get_thread_slice(self, thread: Leaf) -> ThrMMA:
        """Return `get_slice(thread)`."""
        return ThrMMA(self, thread)

    def partition_shape_A(self, shape_mk: IntTuple) -> IntTuple:
        """Return the shape (FrgV,RestM,RestK) of a thread's part of A."""
        return self._partition_shape("A", shape_mk)

    def partition_shape_B(self, shape_nk: IntTuple) -> IntTuple:
        """Return the shape (FrgV,RestN,RestK) of a thread's part of B."""
        return self._partition_shape("B", shape_nk)

    def partition_shape_C(self, shape_mn: IntTuple) -> IntTuple:
        """Return the shape (FrgV,RestM,RestN) of a thread's part of C."""
        return self._partition_shape("C", shape_mn)

    def _partition_shape(self, operand: str, shape: IntTuple) -> IntTuple:
        layout = self._thrfrg(operand, Layout(shape))
        return slice_((0, (_, (_,) * len(tuples.wrap(shape)))), layout).shape

    # -- (thread, value) -> index in the tile

    def get_layoutA_TV(self) -> Layout:
        """Return (thread, value) -> m + M*k in the tile; threads along N read the same elements."""
        return self._layout_tv("A")

    def get_layoutB_TV(self) -> Layout:
        """Return (thread, value) -> n + N*k in the tile; threads along M read the same elements."""
        return self._layout_tv("B")

    def get_layoutC_TV(self) -> Layout:
        """Return (thread, value) -> m + M*n over the tile; threads along K hold partial sums of the
        same elements.
        """
        return self._layout_tv("C")

    def _layout_tv(self, operand: str) -> Layout:
        modes = _MODES[operand]
        reference = Layout(tuple([self.tile_size(i) for i in modes]))
        layout = self._thrfrg(operand, reference)
        if operand != "C" or size(self.thr_layout_vmnk, 3) > 1:
            layout = composition(layout, ((_, self._broadcast(operand)), _))
        return composition(layout, (_thread_to_vmnk(self.thr_layout_vmnk), _))  # type: ignore[no-any-return]

    def _broadcast(self, operand: str) -> tuple[Tiler, Tiler]:
        """Return a tiler that turns the operand's two thread modes into (ThrM,ThrN,ThrK), with
        stride 0 along the missing one.
        """
        m, n, k = (size(self.thr_layout_vmnk, i) for i in (1, 2, 3))
        if operand == "C":
            return _, Layout((n, k), (1, 0))
        return Layout((m, n), (1, 0) if operand == "A" else (0, 1)), _


@lru_cache(maxsize=256)  # A, B and C use the same one
def _thread_to_vmnk(threads: Layout) -> Layout:
    """Return thread index -> index in (ThrV,ThrM,ThrN,ThrK).

    Raises LayoutError if no layout does that: the thread indices have holes.
    """
    inverse = right_inverse(make_layout(threads, complement(threads)))
    if inverse.size() < cosize(threads):
        raise refusal("tiled-holes", operation="get_layout_TV", layout=threads)
    return composition(Layout((threads.size(), 1), (1, 0)), inverse)


def _regroup(by_thread: Layout, rest: Layout) -> Layout:
    """Join ((ThrV,FrgV),...) and ((ThrX,ThrY),(RestX,RestY,...)) to
    ((ThrV,(ThrX,ThrY)),(FrgV,(RestX,RestY,...))).
    """
    (thr_v, frg_v), (thr, rests) = get(by_thread, 0), rest
    return make_layout(make_layout(thr_v, thr), make_layout(frg_v, rests))


class ThrMMA(Record):
    """One thread of a TiledMMA: its parts of A, B and C, and the register fragments for them."""

    __slots__ = ("thr_idx", "thr_vmnk", "tiled_mma")
    __match_args__ = ("tiled_mma", "thr_idx")
    tiled_mma: TiledMMA
    thr_idx: Leaf
    thr_vmnk: tuple[Leaf, Leaf, Leaf, Leaf]

    def __init__(self, tiled_mma: TiledMMA, thr_idx: Leaf) -> None:
        """Locate the thread in (ThrV,ThrM,ThrN,ThrK)."""
        self.tiled_mma = tiled_mma
        self.thr_idx, self.thr_vmnk = thread_vmnk(thr_idx, tiled_mma.thr_layout_vmnk)

    def __repr__(self) -> str:
        return f"{self.tiled_mma!r}.get_slice({self.thr_idx!r})"

    def partition_A(self, a: AnyLayout) -> Alike:
        """Return this thread's (FrgV,RestM,RestK,...) of A (M,K,...): a tensor, or (layout, offset)
        of a layout.
        """
        return self._partition("A", a)

    def partition_B(self, b: AnyLayout) -> Alike:
        """Return this thread's (FrgV,RestN,RestK,...) of B (N,K,...): a tensor, or (layout, offset)
        of a layout.
        """
        return self._partition("B", b)

    def partition_C(self, c: AnyLayout) -> Alike:
        """Return this thread's (FrgV,RestM,RestN,...) of C (M,N,...): a tensor, or (layout, offset)
        of a layout.
        """
        return self._partition("C", c)

    def _partition(self, operand: str, x: AnyLayout) -> Alike:
        v, *mnk = self.thr_vmnk
        thread = (v, tuple([mnk[i] for i in _MODES[operand]]))
        layout = self.tiled_mma._thrfrg(operand, x)
        return part_at((thread, (_, (_,) * rank(x))), layout)

    def make_fragment_A(self, part: AnyLayout) -> Alike:
        """Return registers for a part of A; for an atom that reads A from shared memory the pair
        (descriptor, layout of the others in 16 bytes) of `gmma_fragment`.
        """
        return self._fragment("A", part)

    def make_fragment_B(self, part: AnyLayout) -> Alike:
        """Return registers for a part of B; for an atom that reads B from shared memory the pair
        (descriptor, layout of the others in 16 bytes) of `gmma_fragment`.
        """
        return self._fragment("B", part)

    def make_fragment_C(self, part: AnyLayout) -> Alike:
        """Return registers for a part of C: compact, in column-major order."""
        return self._fragment("C", part)

    def _fragment(self, operand: str, part: AnyLayout) -> Alike:
        return make_fragment(self.tiled_mma.atom, operand, part)

    def partition_fragment_A(self, a: AnyLayout) -> Alike:
        """Return make_fragment_A(partition_A(a))."""
        return self._partition_fragment("A", a)

    def partition_fragment_B(self, b: AnyLayout) -> Alike:
        """Return make_fragment_B(partition_B(b))."""
        return self._partition_fragment("B", b)

    def partition_fragment_C(self, c: AnyLayout) -> Alike:
        """Return make_fragment_C(partition_C(c))."""
        return self._partition_fragment("C", c)

    def _partition_fragment(self, operand: str, x: AnyLayout) -> Alike:
        return self._fragment(operand, self._partition(operand, x))


def make_tiled_mma(
    atom: MMA_Atom | str,
    atom_layout_mnk: LayoutLike = (1, 1, 1),
    permutation_mnk: Tiler = (_, _, _),
) -> TiledMMA:
    """Return the atom tiled over atom_layout_mnk threads and permutation_mnk values.

    Args:
        atom: an MMA_Atom, or its name.
        atom_layout_mnk: a layout or shape of atoms in M, N, K (missing modes count as 1).
        permutation_mnk: per mode an integer, a layout or `_`.

    Raises LayoutError if the permutation is not a multiple of the extent of all atoms.
    Source: cutlass mma_atom.hpp `make_tiled_mma`.

    >>> mma = make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> mma.size(), mma.tile_shape, mma.partition_shape_C((128, 128))
    (128, (32, 32, 16), ((2, 2), 4, 8))
    """
    if isinstance(atom, str):
        from cute_py.atoms.registry import get as get_atom

        atom = get_atom(atom)
    return TiledMMA(atom, atom_layout_mnk, permutation_mnk)


def _in_mnk(atom_layout: LayoutLike, permutation: Tiler) -> tuple[Layout, tuple[Tiler, ...]]:
    """Return atom layout and permutation with three modes; refuse more."""
    layout = atom_layout if atom_layout.__class__ is Layout else Layout(atom_layout)
    permutation = tuples.wrap(permutation)
    if len(layout) > 3 or len(permutation) > 3:
        raise refusal(
            "tiled-rank",
            operation="make_tiled_mma",
            layout=layout,
            permutation=tuples.show(permutation),
        )
    if layout._kind != INTS:
        raise refusal("tiled-static", operation="make_tiled_mma", layout=layout)
    return append(layout, Layout(1, 0), 3), (*permutation, *[_] * (3 - len(permutation)))
