"""Copies of SM50 to SM80: transposes by warp shuffles; cp.async, 4, 8 or 16 bytes per thread from
global to shared memory; ldmatrix, 8x8 matrices of 16-bit elements from shared memory to the
registers of a warp.

Source: PTX ISA, "shfl.sync", "cp.async", "ldmatrix", "movmatrix"; cutlass
include/cute/arch/copy_sm50.hpp, copy_sm75.hpp, copy_sm80.hpp and the corresponding files of atom/.
"""

from __future__ import annotations

from functools import lru_cache

from cute_py.atoms.copy import (
    ADDRESS_32,
    ADDRESS_64,
    NUMBER_32,
    WARP,
    Copy_Op,
    between,
    of_one_thread,
    require_width,
)
from cute_py.atoms.mma import Operand
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# -- 2x2 transposes between the registers of two threads, by warp shuffles

_REGISTER = Operand(1, "b32", vector=False)

# Two threads whose lanes differ in the bit `mask` exchange registers: the upper one sends its first
# register, the lower one its second.
_TRANSPOSE = """{{{{
.reg .pred upper; .reg .b32 lane, given, taken, second;
mov.u32 lane, %laneid;
and.b32 lane, lane, {mask};
setp.ne.b32 upper, lane, 0;
selp.b32 given, {{src0}}, {{src1}}, upper;
shfl.sync.bfly.b32 taken, given, {mask}, 31, -1;
selp.b32 second, {{src1}}, taken, upper;
selp.b32 {{dst0}}, taken, {{src0}}, upper;
mov.b32 {{dst1}}, second;
}}}}"""


def _transpose(mask: int, dst_tv: Layout) -> Copy_Op:
    src_tv = Layout((32, 64), (64, 1))
    return Copy_Op(
        name=f"SM50_Shuffle_U32_2x2Trans_XOR{mask}",
        thr_id=WARP,
        src_tv=src_tv,
        dst_tv=dst_tv,
        ref_tv=src_tv,
        src_space="rmem",
        dst_space="rmem",
        alignment_bits=32,
        min_arch="sm_70",
        source="cutlass arch/copy_sm50.hpp, atom/copy_traits_sm50.hpp",
        ptx=_TRANSPOSE.format(mask=mask),
        operands=tuple((name, _REGISTER) for name in ("dst0", "dst1", "src0", "src1")),
        note="several instructions; CuTe says sm_50, but shfl.sync in divergent code needs sm_70",
    )


TRANSPOSES = (
    _transpose(1, Layout(((2, 16), (32, 2)), ((32, 128), (1, 64)))),
    _transpose(4, Layout(((4, 2, 4), (32, 2)), ((64, 32, 512), (1, 256)))),
)


# -- cp.async. CACHEALWAYS (.ca) caches the line in L1 and L2, CACHEGLOBAL (.cg) in L2 only. The
# ZFILL forms have one more operand, the number of bytes to read: 0 reads nothing and fills zeros

ALWAYS_WIDTHS = (32, 64, 128)
GLOBAL_WIDTHS = (128,)


@lru_cache(maxsize=None, typed=True)
def SM80_CP_ASYNC_CACHEALWAYS(bits: int) -> Copy_Op:
    """Return cp.async.ca of 32, 64 or 128 bits. Raises LayoutError for other widths.

    >>> SM80_CP_ASYNC_CACHEALWAYS(32).ptx
    'cp.async.ca.shared.global.L2::128B [{dst}], [{src}], 4;'
    """
    return _cp_async("ca", bits, ALWAYS_WIDTHS, zfill=False)


@lru_cache(maxsize=None, typed=True)
def SM80_CP_ASYNC_CACHEGLOBAL(bits: int = 128) -> Copy_Op:
    """Return cp.async.cg of 128 bits. Raises LayoutError for other widths.

    >>> SM80_CP_ASYNC_CACHEGLOBAL().ptx
    'cp.async.cg.shared.global.L2::128B [{dst}], [{src}], 16;'
    """
    return _cp_async("cg", bits, GLOBAL_WIDTHS, zfill=False)


@lru_cache(maxsize=None, typed=True)
def SM80_CP_ASYNC_CACHEALWAYS_ZFILL(bits: int) -> Copy_Op:
    """Return cp.async.ca of 32, 64 or 128 bits with zero fill. Raises LayoutError for other widths.

    >>> SM80_CP_ASYNC_CACHEALWAYS_ZFILL(64).ptx
    'cp.async.ca.shared.global.L2::128B [{dst}], [{src}], 8, {src_bytes};'
    """
    return _cp_async("ca", bits, ALWAYS_WIDTHS, zfill=True)


@lru_cache(maxsize=None, typed=True)
def SM80_CP_ASYNC_CACHEGLOBAL_ZFILL(bits: int = 128) -> Copy_Op:
    """Return cp.async.cg of 128 bits with zero fill. Raises LayoutError for other widths.

    >>> SM80_CP_ASYNC_CACHEGLOBAL_ZFILL().ptx
    'cp.async.cg.shared.global.L2::128B [{dst}], [{src}], 16, {src_bytes};'
    """
    return _cp_async("cg", bits, GLOBAL_WIDTHS, zfill=True)


def _cp_async(cache_operator: str, bits: int, widths: tuple[int, ...], zfill: bool) -> Copy_Op:
    kind = {"ca": "CACHEALWAYS", "cg": "CACHEGLOBAL"}[cache_operator]
    name = f"SM80_CP_ASYNC_{kind}{'_ZFILL' if zfill else ''}"
    require_width(name, bits, widths)
    operands = (("dst", ADDRESS_32), ("src", ADDRESS_64))
    text = f"cp.async.{cache_operator}.shared.global.L2::128B [{{dst}}], [{{src}}], {bits // 8}"
    return of_one_thread(
        name,
        bits,
        ("gmem", "smem"),
        "sm_80",
        "PTX ISA, cp.async; cutlass arch/copy_sm80.hpp, atom/copy_traits_sm80.hpp",
        ptx=f"{text}, {{src_bytes}};" if zfill else f"{text};",
        operands=(*operands, ("src_bytes", NUMBER_32)) if zfill else operands,
        completion="cp_async",
    )


# -- ldmatrix, movmatrix. Lane 8i + r provides the address of row r of matrix i, 128 bits. Bits are
# numbered row by row through all matrices. In the plain form lane l gets bits 32l to 32l+31 of each
# matrix, two adjacent elements of row l // 4; in the transposed form the elements of rows 2(l % 4)
# and 2(l % 4) + 1 in column l // 4

SOURCE = "PTX ISA, ldmatrix; cutlass arch/copy_sm75.hpp, atom/copy_traits_sm75.hpp"

# matrices -> (lane, bit of a row) -> bit; the lanes beyond 8 per matrix repeat the addresses
ROW_TV = {
    1: Layout(((8, 4), 128), ((128, 0), 1)),
    2: Layout(((16, 2), 128), ((128, 0), 1)),
    4: Layout((32, 128), (128, 1)),
}
# matrices -> (lane, bit of its registers) -> bit
REGISTER_TV_N = {
    1: Layout((32, 32), (32, 1)),
    2: Layout((32, (32, 2)), (32, (1, 1024))),
    4: Layout((32, (32, 4)), (32, (1, 1024))),
}
REGISTER_TV_T = {
    1: Layout(((4, 8), (16, 2)), ((256, 16), (1, 128))),
    2: Layout(((4, 8), (16, 2, 2)), ((256, 16), (1, 128, 1024))),
    4: Layout(((4, 8), (16, 2, 4)), ((256, 16), (1, 128, 1024))),
}


def of_matrices(
    name: str, count: int, form: str, tvs: tuple[Layout, Layout], source: str, **more: Any
) -> Copy_Op:
    """Return the row of an ldmatrix, or of its reverse, stmatrix.

    Args:
        name: the name of the row; one with LDSM is a load.
        count: 32-bit registers per lane.
        form: the end of the instruction's name, from the number of matrices on.
        tvs: (lane, bit of a row) -> bit in memory, and (lane, bit of its registers) -> bit.
        source: the source of the row.
        more: the other fields.

    """
    rows, registers = tvs
    load = "_LDSM_" in name
    return Copy_Op(
        name=name,
        thr_id=WARP,
        src_tv=rows if load else registers,
        dst_tv=registers if load else rows,
        ref_tv=registers,
        src_space="smem" if load else "rmem",
        dst_space="rmem" if load else "smem",
        alignment_bits=128,
        source=source,
        ptx=f"ldmatrix.sync.aligned.{form} {{dst}}, [{{src}}];"
        if load
        else f"stmatrix.sync.aligned.{form} [{{dst}}], {{src}};",
        operands=between(Operand(count, "b32"), ADDRESS_32, load),
        **more,
    )


def of_halves(arch: str, word: str, min_arch: str, source: str) -> tuple[Copy_Op, ...]:
    """Return the rows of 8x8 matrices of 16-bit elements, plain and transposed.

    Args:
        arch: the prefix of CuTe's names.
        word: the word in the names: LDSM or STSM.
        min_arch: the oldest architecture that has the instructions.
        source: the source of the rows.

    """
    return tuple(
        of_matrices(
            f"{arch}_U16x{2 * n}_{word}_T" if transposed else f"{arch}_U32x{n}_{word}_N",
            n,
            f"x{n}{'.trans' * transposed}.m8n8.shared.b16",
            (ROW_TV[n], (REGISTER_TV_T if transposed else REGISTER_TV_N)[n]),
            source,
            min_arch=min_arch,
        )
        for transposed in (False, True)
        for n in (1, 2, 4)
    )


SM75_U32x1_MOVM_T = Copy_Op(
    name="SM75_U32x1_MOVM_T",
    thr_id=WARP,
    src_tv=REGISTER_TV_N[1],
    dst_tv=REGISTER_TV_N[1],
    ref_tv=REGISTER_TV_N[1],
    src_space="rmem",
    dst_space="rmem",
    alignment_bits=32,
    min_arch="sm_75",
    source="PTX ISA, movmatrix; cutlass arch/copy_sm75.hpp, atom/copy_traits_sm75.hpp",
    ptx="movmatrix.sync.aligned.m8n8.trans.b16 {dst}, {src};",
    operands=(("dst", _REGISTER), ("src", _REGISTER)),
    runnable=False,
    note="CuTe's layouts omit the transpose: lane l in fact receives the elements of "
    + str(REGISTER_TV_T[1]),
)

LOADS = of_halves("SM75", "LDSM", "sm_75", SOURCE)
ROWS = {row.name: row for row in (*TRANSPOSES, *LOADS, SM75_U32x1_MOVM_T)}
FAMILIES = {
    "SM80_CP_ASYNC_CACHEALWAYS": (SM80_CP_ASYNC_CACHEALWAYS, ((32,), (64,), (128,))),
    "SM80_CP_ASYNC_CACHEGLOBAL": (SM80_CP_ASYNC_CACHEGLOBAL, ((128,),)),
    "SM80_CP_ASYNC_CACHEALWAYS_ZFILL": (SM80_CP_ASYNC_CACHEALWAYS_ZFILL, ((32,), (64,), (128,))),
    "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL": (SM80_CP_ASYNC_CACHEGLOBAL_ZFILL, ((128,),)),
}
