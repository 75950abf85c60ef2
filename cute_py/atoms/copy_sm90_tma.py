"""TMA: a box of a tensor in global memory, to or from shared memory, issued by one thread.

There is one row for each rank, since the instruction lists so many coordinates, the innermost
first. The tensor map, which holds sizes, strides, box and swizzle, is an operand; `tma.TmaAtom`
derives what it says. Source: PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor";
cutlass include/cute/arch/copy_sm90_tma.hpp, atom/copy_traits_sm90_tma.hpp.
"""

from __future__ import annotations

from functools import lru_cache

from cute_py.atoms.copy import ADDRESS_32, ADDRESS_64, Copy_Op
from cute_py.atoms.copy_sm90 import one_thread_bulk
from cute_py.atoms.mma import Operand
from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SOURCE = "PTX ISA, {}; cutlass arch/copy_sm90_tma.hpp, atom/copy_traits_sm90_tma.hpp"

_LOAD = (
    "cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    "{multicast} [{{dst}}], [{{src}}, {{coord}}], [{{mbarrier}}]{mask};"
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
    operands = _load_operands(rank, "SM90_TMA_LOAD")
    ptx = _LOAD.format(rank=rank, multicast="", mask="")
    return _load(f"SM90_TMA_LOAD_{rank}D", bits, ptx, operands)


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
    operands = (
        *_load_operands(rank, "SM90_TMA_LOAD_MULTICAST"),
        ("mask", Operand(1, "b16", vector=False)),
    )
    ptx = _LOAD.format(rank=rank, multicast=".multicast::cluster", mask=", {mask}")
    return _load(f"SM90_TMA_LOAD_MULTICAST_{rank}D", bits, ptx, operands)


@lru_cache(maxsize=None, typed=True)
def SM90_TMA_STORE(bits: int, rank: int) -> Copy_Op:
    """Return the store of a box; what lies outside of the tensor is dropped.

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
    """Return the addition of a box to what lies in global memory.

    Args:
        bits: bits of the box, a multiple of 128.
        rank: 1 to 5.

    Raises LayoutError for other arguments.

    >>> print(SM90_TMA_REDUCE_ADD(65536, 2))
    SM90_TMA_REDUCE_ADD_2D<65536>
    """
    return _store("SM90_TMA_REDUCE_ADD", bits, rank, _REDUCE, "cp.reduce.async.bulk.tensor")


def _coordinates(rank: int, operation: str) -> tuple[str, Operand]:
    if type(rank) is not int or not 1 <= rank <= 5:
        raise refusal("tma-rank", operation=operation, rank=rank)
    return ("coord", Operand(rank, "b32"))


def _load_operands(rank: int, operation: str) -> tuple[tuple[str, Operand], ...]:
    return (
        ("dst", ADDRESS_32),
        ("src", ADDRESS_64),
        _coordinates(rank, operation),
        ("mbarrier", ADDRESS_32),
    )


def _load(name: str, bits: int, ptx: str, operands: tuple[tuple[str, Operand], ...]) -> Copy_Op:
    source = _SOURCE.format("cp.async.bulk.tensor")
    return one_thread_bulk(name, bits, ptx, operands, ("gmem", "smem", "mbarrier"), source)


def _store(name: str, bits: int, rank: int, ptx: str, section: str) -> Copy_Op:
    operands = (("dst", ADDRESS_64), ("src", ADDRESS_32), _coordinates(rank, name))
    spaces = ("smem", "gmem", "bulk_group")
    text = ptx.format(rank=rank)
    return one_thread_bulk(f"{name}_{rank}D", bits, text, operands, spaces, _SOURCE.format(section))


def _of_rank(make: Callable[[int, int], Copy_Op], rank: int) -> Callable[[int], Copy_Op]:
    return lambda bits: make(bits, rank)


FAMILIES = {
    f"{make.__name__}_{rank}D": (_of_rank(make, rank), ((128,),))
    for make in (SM90_TMA_LOAD, SM90_TMA_LOAD_MULTICAST, SM90_TMA_STORE, SM90_TMA_REDUCE_ADD)
    for rank in range(1, 6)
}
