"""stmatrix, the reverse of ldmatrix, bulk copies of contiguous bytes, and TMA copies of boxes.

Source: PTX ISA, "stmatrix", "cp.async.bulk", "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor";
cutlass include/cute/arch/copy_sm90.hpp, copy_sm90_tma.hpp, atom/copy_traits_sm90.hpp,
copy_traits_sm90_tma.hpp.
"""

from __future__ import annotations

from functools import lru_cache

from cute_py.atoms.copy import ADDRESS_32, ADDRESS_64, NUMBER_32, ONE_THREAD, Copy_Op, of_one_thread
from cute_py.atoms.copy_sm80 import of_halves
from cute_py.atoms.mma import Operand
from cute_py.errors import refusal
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


_STMATRIX = "PTX ISA, stmatrix; cutlass arch/copy_sm90.hpp, atom/copy_traits_sm90.hpp"
STORES = of_halves("SM90", "STSM", "sm_90", _STMATRIX)


@lru_cache(maxsize=None, typed=True)
def SM90_BULK_COPY_G2S(bits: int) -> Copy_Op:
    """Return the bulk copy of `bits` contiguous bits from global to shared memory.

    Args:
        bits: a multiple of 128 (16 bytes). The byte count is an operand of the instruction.

    Raises LayoutError for other widths.

    >>> print(SM90_BULK_COPY_G2S(4096).src_tv)
    (1,4096):(0,1)
    """
    return _bulk(
        "SM90_BULK_COPY_G2S",
        bits,
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[{dst}], [{src}], {bytes}, [{mbarrier}];",
        (("dst", ADDRESS_32), ("src", ADDRESS_64), ("bytes", NUMBER_32), ("mbarrier", ADDRESS_32)),
        ("gmem", "smem", "mbarrier"),
    )


@lru_cache(maxsize=None, typed=True)
def SM90_BULK_COPY_S2G(bits: int) -> Copy_Op:
    """Return the bulk copy of `bits` contiguous bits from shared to global memory.

    Args:
        bits: a multiple of 128 (16 bytes). The byte count is an operand of the instruction.

    Raises LayoutError for other widths.

    >>> SM90_BULK_COPY_S2G(4096).completion
    'bulk_group'
    """
    return _bulk(
        "SM90_BULK_COPY_S2G",
        bits,
        "cp.async.bulk.global.shared::cta.bulk_group [{dst}], [{src}], {bytes};",
        (("dst", ADDRESS_64), ("src", ADDRESS_32), ("bytes", NUMBER_32)),
        ("smem", "gmem", "bulk_group"),
    )


def _bulk(
    name: str,
    bits: int,
    ptx: str,
    operands: tuple[tuple[str, Operand], ...],
    spaces: tuple[str, str, str],
) -> Copy_Op:
    return one_thread_bulk(
        name, bits, ptx, operands, spaces, "PTX ISA, cp.async.bulk; cutlass arch/copy_sm90_tma.hpp"
    )


def one_thread_bulk(
    name: str,
    bits: int,
    ptx: str,
    operands: tuple[tuple[str, Operand], ...],
    spaces: tuple[str, str, str],  # source, destination, completion
    source: str,
) -> Copy_Op:
    """Return the row of a bulk instruction, which one thread issues for `bits` bits."""
    if type(bits) is not int or bits < 128 or bits % 128:
        raise refusal("copy-bulk-bits", operation=name, bits=bits)
    return of_one_thread(
        name,
        bits,
        spaces[:2],
        "sm_90",
        source,
        alignment_bits=128,
        ptx=ptx,
        operands=operands,
        completion=spaces[2],
    )


_ANY_LENGTH = Layout((1, 1), (0, 0))
SM90_BULK_COPY_AUTO = Copy_Op(
    name="SM90_BULK_COPY_AUTO",
    thr_id=ONE_THREAD,
    src_tv=_ANY_LENGTH,
    dst_tv=_ANY_LENGTH,
    ref_tv=_ANY_LENGTH,
    src_space="any",
    dst_space="any",
    alignment_bits=128,
    min_arch="sm_90",
    source="cutlass atom/copy_traits_sm90_tma.hpp",
    note="one of the two above, as wide as the longest contiguous vector of both tensors",
)


# -- TMA: a box of a tensor, issued by one thread. There is one row for each rank, since the
# instruction lists that many coordinates, the innermost first. The tensor map, which holds sizes,
# strides, box and swizzle, is an operand; `tma.TmaAtom` derives it

_SOURCE = "PTX ISA, {}; cutlass arch/copy_sm90_tma.hpp, atom/copy_traits_sm90_tma.hpp"

_LOAD = (
    "cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes"
    "{multicast} [{{dst}}], [{{src}}, {{coord}}], [{{mbarrier}}]{more};"
)
_STORE = (
    "cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group "
    "[{{dst}}, {{coord}}], [{{src}}];"
)
_REDUCE = (
    "cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.tile.bulk_group "
    "[{{dst}}, {{coord}}], [{{src}}];"
)


@lru_cache(maxsize=None, typed=True)
def SM90_TMA_LOAD(bits: int, rank: int) -> Copy_Op:
    """Return the load of a box of `bits` bits of a tensor of `rank` dimensions.

    Args:
        bits: bits of the box, a multiple of 128.
        rank: 1 to 5.

    Operands: the tensor map is `src`, the coordinates of the box's first element `coord`, counted
    in elements, the innermost dimension first. Raises LayoutError for other arguments.

    >>> print(SM90_TMA_LOAD(65536, 2), SM90_TMA_LOAD(65536, 2).dst_tv)
    SM90_TMA_LOAD_2D<65536> (1,65536):(0,1)
    """
    return _load("SM90_TMA_LOAD", bits, rank)


@lru_cache(maxsize=None, typed=True)
def SM90_TMA_LOAD_MULTICAST(bits: int, rank: int) -> Copy_Op:
    """Return the load of a box into the shared memory of several CTAs of the cluster.

    Args:
        bits: bits of the box, a multiple of 128.
        rank: 1 to 5.

    Operand `mask` has bit i set for each CTA of rank i that receives the box, at the same offset of
    its shared memory. Raises LayoutError for other arguments.

    >>> print(SM90_TMA_LOAD_MULTICAST(65536, 2))
    SM90_TMA_LOAD_MULTICAST_2D<65536>
    """
    return _load("SM90_TMA_LOAD_MULTICAST", bits, rank)


@lru_cache(maxsize=None, typed=True)
def SM90_TMA_LOAD_IM2COL(bits: int, rank: int) -> Copy_Op:
    """Return the load of pixels of a tensor of `rank` dimensions, in im2col mode.

    Args:
        bits: bits of the box, a multiple of 128.
        rank: 3 to 5.

    Operands: as for SM90_TMA_LOAD, and `offset`, the offsets of the filter's tap, the innermost
    spatial dimension first. Raises LayoutError for other arguments.

    >>> print(SM90_TMA_LOAD_IM2COL(65536, 4))
    SM90_TMA_LOAD_IM2COL_4D<65536>
    """
    return _load("SM90_TMA_LOAD_IM2COL", bits, rank)


@lru_cache(maxsize=None, typed=True)
def SM90_TMA_LOAD_IM2COL_MULTICAST(bits: int, rank: int) -> Copy_Op:
    """Return the load of pixels into the shared memory of several CTAs of the cluster.

    Args:
        bits: bits of the box, a multiple of 128.
        rank: 3 to 5.

    Raises LayoutError for other arguments.

    >>> print(SM90_TMA_LOAD_IM2COL_MULTICAST(65536, 3))
    SM90_TMA_LOAD_IM2COL_MULTICAST_3D<65536>
    """
    return _load("SM90_TMA_LOAD_IM2COL_MULTICAST", bits, rank)


@lru_cache(maxsize=None, typed=True)
def SM90_TMA_STORE(bits: int, rank: int) -> Copy_Op:
    """Return the store of a box; elements outside the tensor are dropped.

    Args:
        bits: bits of the box, a multiple of 128.
        rank: 1 to 5.

    Raises LayoutError for other arguments.

    >>> print(SM90_TMA_STORE(65536, 3))
    SM90_TMA_STORE_3D<65536>
    """
    return _store("SM90_TMA_STORE", bits, rank, _STORE, "cp.async.bulk.tensor")


@lru_cache(maxsize=None, typed=True)
def SM90_TMA_REDUCE_ADD(bits: int, rank: int) -> Copy_Op:
    """Return the addition of a box to global memory.

    Args:
        bits: bits of the box, a multiple of 128.
        rank: 1 to 5.

    Raises LayoutError for other arguments.

    >>> print(SM90_TMA_REDUCE_ADD(65536, 2))
    SM90_TMA_REDUCE_ADD_2D<65536>
    """
    return _store("SM90_TMA_REDUCE_ADD", bits, rank, _REDUCE, "cp.reduce.async.bulk.tensor")


def _coordinates(rank: int, operation: str, least: int = 1) -> tuple[str, Operand]:
    if type(rank) is not int or not least <= rank <= 5:
        raise refusal("tma-rank", operation=operation, rank=rank)
    return ("coord", Operand(rank, "b32"))


def _load(name: str, bits: int, rank: int) -> Copy_Op:
    """Return the load of a name: of a box, or with IM2COL of pixels; with MULTICAST to several."""
    im2col, several = "IM2COL" in name, "MULTICAST" in name
    coordinates = _coordinates(rank, name, 3 if im2col else 1)
    more = [("offset", Operand(rank - 2, "b16"))] if im2col else []
    more += [("mask", Operand(1, "b16", vector=False))] if several else []
    ptx = _LOAD.format(
        rank=rank,
        mode="im2col" if im2col else "tile",
        multicast=".multicast::cluster" if several else "",
        more="".join([f", {{{operand}}}" for operand, _ in more]),
    )
    operands = (("dst", ADDRESS_32), ("src", ADDRESS_64), coordinates, ("mbarrier", ADDRESS_32))
    spaces, source = ("gmem", "smem", "mbarrier"), _SOURCE.format("cp.async.bulk.tensor")
    return one_thread_bulk(f"{name}_{rank}D", bits, ptx, (*operands, *more), spaces, source)


def _store(name: str, bits: int, rank: int, ptx: str, section: str) -> Copy_Op:
    operands = (("dst", ADDRESS_64), ("src", ADDRESS_32), _coordinates(rank, name))
    spaces = ("smem", "gmem", "bulk_group")
    text = ptx.format(rank=rank)
    return one_thread_bulk(f"{name}_{rank}D", bits, text, operands, spaces, _SOURCE.format(section))


def _of_rank(make: Callable[[int, int], Copy_Op], rank: int) -> Callable[[int], Copy_Op]:
    return lambda bits: make(bits, rank)


FAMILIES = {
    "SM90_BULK_COPY_G2S": (SM90_BULK_COPY_G2S, ((128,),)),
    "SM90_BULK_COPY_S2G": (SM90_BULK_COPY_S2G, ((128,),)),
    **{
        f"{make.__name__}_{rank}D": (_of_rank(make, rank), ((128,),))
        for make in (SM90_TMA_LOAD, SM90_TMA_LOAD_MULTICAST, SM90_TMA_STORE, SM90_TMA_REDUCE_ADD)
        for rank in range(1, 6)
    },
    **{
        f"{make.__name__}_{rank}D": (_of_rank(make, rank), ((128,),))
        for make in (SM90_TMA_LOAD_IM2COL, SM90_TMA_LOAD_IM2COL_MULTICAST)
        for rank in range(3, 6)
    },
}
ROWS = {row.name: row for row in (SM90_BULK_COPY_AUTO, *STORES)}
