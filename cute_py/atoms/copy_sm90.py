"""stmatrix, the reverse of ldmatrix, and bulk copies of contiguous bytes.

Source: PTX ISA, "stmatrix", "cp.async.bulk"; cutlass include/cute/arch/copy_sm90.hpp,
copy_sm90_tma.hpp, atom/copy_traits_sm90.hpp, copy_traits_sm90_tma.hpp.
"""

from __future__ import annotations

from functools import lru_cache

from cute_py.atoms.copy import ADDRESS_32, ADDRESS_64, NUMBER_32, ONE_THREAD, WARP, Copy_Op
from cute_py.atoms.copy_sm80 import REGISTER_TV_N, REGISTER_TV_T, ROW_TV
from cute_py.atoms.mma import Operand
from cute_py.errors import refusal
from cute_py.layout.layout import Layout


def _stmatrix(matrices: int, transposed: bool) -> Copy_Op:
    register_tv = (REGISTER_TV_T if transposed else REGISTER_TV_N)[matrices]
    form = f"x{matrices}.trans" if transposed else f"x{matrices}"
    return Copy_Op(
        name=f"SM90_U16x{2 * matrices}_STSM_T" if transposed else f"SM90_U32x{matrices}_STSM_N",
        thr_id=WARP,
        src_tv=register_tv,
        dst_tv=ROW_TV[matrices],
        ref_tv=register_tv,
        src_space="rmem",
        dst_space="smem",
        alignment_bits=128,
        min_arch="sm_90",
        source="PTX ISA, stmatrix; cutlass arch/copy_sm90.hpp, atom/copy_traits_sm90.hpp",
        ptx=f"stmatrix.sync.aligned.{form}.m8n8.shared.b16 [{{dst}}], {{src}};",
        operands=(("dst", ADDRESS_32), ("src", Operand(matrices, "b32"))),
    )


SM90_U32x1_STSM_N = _stmatrix(1, transposed=False)
SM90_U32x2_STSM_N = _stmatrix(2, transposed=False)
SM90_U32x4_STSM_N = _stmatrix(4, transposed=False)
SM90_U16x2_STSM_T = _stmatrix(1, transposed=True)
SM90_U16x4_STSM_T = _stmatrix(2, transposed=True)
SM90_U16x8_STSM_T = _stmatrix(4, transposed=True)


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
        (
            ("dst", ADDRESS_32),
            ("src", ADDRESS_64),
            ("bytes", NUMBER_32),
            ("mbarrier", ADDRESS_32),
        ),
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
    tv = Layout((1, bits), (0, 1))
    return Copy_Op(
        name=name,
        args=(bits,),
        thr_id=ONE_THREAD,
        src_tv=tv,
        dst_tv=tv,
        ref_tv=tv,
        src_space=spaces[0],
        dst_space=spaces[1],
        alignment_bits=128,
        min_arch="sm_90",
        source=source,
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
    note="one of the two above, as long as the contiguous vector that both tensors share",
)

FAMILIES = {
    "SM90_BULK_COPY_G2S": (SM90_BULK_COPY_G2S, ((128,),)),
    "SM90_BULK_COPY_S2G": (SM90_BULK_COPY_S2G, ((128,),)),
}
ROWS = {
    row.name: row
    for row in (
        SM90_BULK_COPY_AUTO,
        SM90_U32x1_STSM_N,
        SM90_U32x2_STSM_N,
        SM90_U32x4_STSM_N,
        SM90_U16x2_STSM_T,
        SM90_U16x4_STSM_T,
        SM90_U16x8_STSM_T,
    )
}
