"""Suggestions for a tile: the copy with the widest accesses, and the permutation of an MMA for wide
ldmatrix.
"""

from __future__ import annotations

from cute_py.atoms.copy import Copy_Atom, value_type
from cute_py.atoms.registry import get_copy
from cute_py.errors import LayoutError, refusal
from cute_py.integers import ints
from cute_py.layout import tuples
from cute_py.layout.layout import Layout
from cute_py.tiled.tiled_copy import TiledCopy, make_tiled_copy
from cute_py.tiled.tiled_mma import TiledMMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.atoms.copy import Copy_Op
    from cute_py.dtypes.table import DtypeLike
    from cute_py.layout.types import IntTuple

_WIDTHS = (128, 64, 32, 16, 8)  # widths of one access (bits)
_MATRIX = 8 * 128  # bits of one 8x8 matrix of ldmatrix


def suggest_tiled_copy(
    tile: IntTuple,
    dtype: DtypeLike | int,
    threads: int,
    major: int | str = "K",
    vector_bits: int | None = None,
    op: Copy_Op | str = "UniversalCopy",
) -> TiledCopy:
    """Return the copy of a tile of two modes by all threads, with the widest accesses, threads
    along the contiguous mode first.

    Args:
        tile: (M, K) (elements).
        dtype: the element type, or its width in bits.
        threads: the number of threads; each makes the same number of accesses.
        major: the mode that is contiguous in memory: its index, or "K" for the last and "MN" for
            the first.
        vector_bits: the width of one access; None: the widest that divides tile and threads.
        op: the instruction, such as SM80_CP_ASYNC_CACHEALWAYS; or its name without the width.

    Law: the tile of the result divides `tile`, and its `coverage` is exact. Raises LayoutError if
    the threads do not divide the accesses of the tile.

    >>> print(suggest_tiled_copy((128, 32), "f16", 128).get_layoutS_TV())
    ((4,32),(8,1)):((256,1),(32,0))
    >>> suggest_tiled_copy((128, 32), "f16", 128).tile_shape
    (32, 32)
    """
    name = "suggest_tiled_copy"
    extents = tuple([_number(extent) for extent in tuples.wrap(tile)])
    threads, value = _number(threads), value_type(dtype, name)
    mode = major_mode(name, extents, major)
    if len(extents) != 2:
        raise refusal("suggest-major", operation="suggest_tiled_copy", major=major, tile=extents)
    widths = _WIDTHS if vector_bits is None else (_number(vector_bits),)
    for bits in widths:
        across = lanes_across(extents[mode], extents[1 - mode], threads, bits, value.bits)
        atom = None if across is None else _atom(op, bits, value)
        if across is not None and atom is not None:
            rows, vector = threads // across, bits // value.bits
            thr = Layout((rows, across), (across, 1)) if mode else Layout((across, rows))
            return make_tiled_copy(atom, thr, Layout((1, vector) if mode else (vector, 1)))
    raise refusal(
        "suggest-copy",
        operation="suggest_tiled_copy",
        tile=extents,
        dtype=value,
        threads=threads,
        widths=" or ".join(str(bits) for bits in widths),
    )


def major_mode(operation: str, extents: tuple[int, ...], major: int | str) -> int:
    """Return the index of the contiguous mode of a tile: an index, "K" or "MN".

    >>> major_mode("suggest_tiled_copy", (128, 64), "K")
    1
    """
    names = {"K": len(extents) - 1, "MN": 0}
    mode = names.get(major) if isinstance(major, str) else major
    if type(mode) is not int or not 0 <= mode < len(extents):
        raise refusal("suggest-major", operation=operation, major=major, tile=extents)
    return mode


def _number(x: object) -> int:
    """Return a number of elements, threads or bits."""
    return ints.as_int(ints.normalize(x, "suggest_tiled_copy"), "suggest_tiled_copy")


def lanes_across(row: int, rows: int, threads: int, bits: int, unit: int) -> int | None:
    """Return the most threads along a row so that all threads have whole accesses and rows."""
    if min(row, rows, threads, bits) < 1 or bits % unit or row % (bits // unit):
        return None
    accesses = row // (bits // unit)
    for across in range(min(accesses, threads), 0, -1):
        if accesses % across == 0 and threads % across == 0 and rows % (threads // across) == 0:
            return across
    return None


def _atom(op: Copy_Op | str, bits: int, value: DtypeLike) -> Copy_Atom | None:
    """Return the atom that moves `bits`, None if the instruction does not have this width."""
    try:
        row = get_copy(op, bits) if isinstance(op, str) else op
    except LayoutError as error:
        if error.code == "copy-unknown":
            raise
        return None
    atom = Copy_Atom(row, value)
    return atom if row.src_bits == row.dst_bits == bits else None


def suggest_permutation(mma: TiledMMA, matrices: int = 4) -> tuple[int, int, int]:
    """Return the (M, N, K) permutation with which each warp's part of A and of B has as many 8x8
    matrices as one ldmatrix loads.

    Args:
        mma: a TiledMMA of whole warps, with A and B in registers.
        matrices: the matrices of one ldmatrix: 1, 2 or 4.

    Law: with the result, make_tiled_copy_A and _B of that ldmatrix exist and are exact. M or N grow
    by whole atoms; K stays. Raises LayoutError for atoms without 8 rows of 128 bits in A and B.

    >>> from cute_py.tiled.tiled_mma import make_tiled_mma
    >>> suggest_permutation(make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1)))
    (32, 32, 16)
    """
    if mma.__class__ is not TiledMMA:
        raise refusal("tiled-kind", operation="suggest_permutation", value=mma, kind="TiledMMA")
    if type(matrices) is not int or matrices not in (1, 2, 4):
        raise refusal("suggest-matrices", operation="suggest_permutation", matrices=matrices)
    atom, sizes = mma.atom, mma.tile_shape
    grown = []
    for i, dtype, memory in ((0, atom.a_type, atom.a_memory), (1, atom.b_type, atom.b_memory)):
        bits = atom.shape_mnk[i] * atom.shape_mnk[2] * dtype.bits
        whole = bits % _MATRIX == 0 and atom.shape_mnk[i] % 8 == 0
        if memory != "rmem" or atom.num_threads != 32 or not whole:
            raise refusal("suggest-atom", operation="suggest_permutation", atom=atom)
        atoms = atom.shape_mnk[i] * int(mma.thr_layout_vmnk[i + 1].size())
        grown.append(_multiple(sizes[i], atoms * max(1, matrices * _MATRIX // bits)))
    return grown[0], grown[1], sizes[2]


def _multiple(size: int, least: int) -> int:
    """Return `size` if it is a multiple of `least`, else `least`."""
    return size if size % least == 0 else least
