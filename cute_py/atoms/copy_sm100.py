"""SM100 (Blackwell) copies between shared memory and registers, and from shared to tensor memory.

Rows of data for exploration, not runnable. Source: PTX ISA, "ldmatrix", "stmatrix", "tcgen05.cp";
cutlass include/cute/arch/copy_sm100.hpp, atom/copy_traits_sm100.hpp.
"""

from __future__ import annotations

from cute_py.atoms.copy import ADDRESS_32, ADDRESS_64, ONE_THREAD, WARP, Copy_Op
from cute_py.atoms.copy_sm80 import REGISTER_TV_N, ROW_TV
from cute_py.atoms.mma import Operand
from cute_py.layout.layout import Layout

SOURCE = "{}; cutlass arch/copy_sm100.hpp, atom/copy_traits_sm100.hpp"

_SWAPPED = (
    "the registers come in another order than in CuTe's layout; CuTe swaps them after the load"
)
_PADDED = "the layouts count padded rows of 128 bits"

# 16x8 matrices of bytes, transposed: registers -> (lane, bit of its registers) -> bit
_BYTES_T = {
    1: Layout(((4, 8), (8, 2, 2)), ((256, 8), (1, 128, 64))),
    2: Layout(((4, 8), (8, 2, 2, 2)), ((256, 8), (1, 128, 64, 1024))),
    4: Layout(((4, 8), (8, 2, 2, 4)), ((256, 8), (1, 128, 64, 1024))),
}
# 16x16 matrices of bytes: registers -> (lane, bit of a row) -> bit
_BYTE_ROWS = {
    2: Layout(((2, 2, 4, 2), 128), ((128, 1024, 256, 0), 1)),
    4: Layout(((2, 2, 4, 2), 128), ((128, 1024, 256, 2048), 1)),
}


def _load(name: str, count: int, src_tv: Layout, dst_tv: Layout, form: str, note: str) -> Copy_Op:
    return Copy_Op(
        name=name,
        thr_id=WARP,
        src_tv=src_tv,
        dst_tv=dst_tv,
        ref_tv=dst_tv,
        src_space="smem",
        dst_space="rmem",
        alignment_bits=128,
        min_arch="sm_100a",
        source=SOURCE.format("PTX ISA, ldmatrix"),
        ptx=f"ldmatrix.sync.aligned.{form} {{dst}}, [{{src}}];",
        operands=(("dst", Operand(count, "b32")), ("src", ADDRESS_32)),
        runnable=False,
        note=note,
    )


def _load_bytes(count: int) -> Copy_Op:
    form = f"m16n16.x{count // 2}.trans.shared.b8"
    return _load(
        f"SM100_U8x{4 * count}_LDSM_T", count, _BYTE_ROWS[count], _BYTES_T[count], form, _SWAPPED
    )


def _load_padded(bits: int, count: int) -> Copy_Op:
    packed = {4: "b4x16_p64", 6: "b6x16_p32"}[bits]
    form = f"m8n16.x{count}.shared.b8x16.{packed}"
    name = f"SM100_SU{bits}_DU8x16_x{count}_LDSM_N"
    return _load(name, count, ROW_TV[count], REGISTER_TV_N[count], form, _PADDED)


def _store_bytes(count: int) -> Copy_Op:
    return Copy_Op(
        name=f"SM100_U8x{4 * count}_STSM_T",
        thr_id=WARP,
        src_tv=_BYTES_T[count],
        dst_tv=ROW_TV[count],
        ref_tv=_BYTES_T[count],
        src_space="rmem",
        dst_space="smem",
        alignment_bits=128,
        min_arch="sm_100a",
        source=SOURCE.format("PTX ISA, stmatrix"),
        ptx=f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [{{dst}}], {{src}};",
        operands=(("dst", ADDRESS_32), ("src", Operand(count, "b32"))),
        runnable=False,
    )


def _vector(name: str, ptx: str, spaces: tuple[str, str]) -> Copy_Op:
    """Return the 256-bit load or store that allocates no line in L1."""
    tv = Layout((1, 256), (0, 1))
    registers, load = Operand(8, "b32"), spaces[1] == "rmem"
    return Copy_Op(
        name=name,
        thr_id=ONE_THREAD,
        src_tv=tv,
        dst_tv=tv,
        ref_tv=tv,
        src_space=spaces[0],
        dst_space=spaces[1],
        alignment_bits=256,
        min_arch="sm_100",
        source=SOURCE.format("PTX ISA, ld, st"),
        ptx=ptx,
        operands=(
            ("dst", registers if load else ADDRESS_64),
            ("src", ADDRESS_64 if load else registers),
        ),
        runnable=False,
    )


# shape of tcgen05.cp -> (PTX text, parts of a source bit, of a destination bit)
_TENSOR_COPIES = {
    "128dp256bit": ("128x256b", (32768, 1), (32768, 1)),
    "128dp128bit": ("128x128b", (16384, 1), (16384, 1)),
    "4dp256bit": ("4x256b", ((4, 256), (32, 128)), ((4, 256), (32, 128))),
    "4x32dp128bit": ("32x128b.warpx4", ((32, 128, 4), (1, 32, 0)), (16384, 1)),
    "2x64dp128bitlw0213": ("64x128b.warpx2::02_13", ((64, 128, 2), (1, 64, 0)), (16384, 1)),
    "2x64dp128bitlw0123": (
        "64x128b.warpx2::01_23",
        ((32, 128, 2, 2), (1, 32, 4096, 0)),
        (16384, 1),
    ),
}


def _tensor_copy(shape: str, ctas: int) -> Copy_Op:
    text, src, dst = _TENSOR_COPIES[shape]
    dst_tv = Layout((ctas, dst[0]), (0, dst[1]))
    return Copy_Op(
        name=f"SM100_UTCCP_{shape}_{ctas}cta",
        thr_id=Layout(ctas, 1 if ctas > 1 else 0),
        src_tv=Layout((ctas, src[0]), (0, src[1])),
        dst_tv=dst_tv,
        ref_tv=dst_tv,
        src_space="smem",
        dst_space="tmem",
        alignment_bits=128,
        min_arch="sm_100a",
        source=SOURCE.format("PTX ISA, tcgen05.cp"),
        ptx=f"tcgen05.cp.cta_group::{ctas}.{text} [{{dst}}], {{src}};",
        operands=(("dst", ADDRESS_32), ("src", ADDRESS_64)),
        completion="tcgen05",
        runnable=False,
        note="a thread of the layouts is a CTA; src is a shared-memory descriptor",
    )


ROWS = {
    row.name: row
    for row in (
        _vector(
            "SM100_LOAD_256bit_CACHE_NOALLOCATION",
            "ld.global.L1::no_allocate.v8.f32 {dst}, [{src}];",
            ("gmem", "rmem"),
        ),
        _vector(
            "SM100_STORE_256bit_CACHE_NOALLOCATION",
            "st.global.L1::no_allocate.v8.f32 [{dst}], {src};",
            ("rmem", "gmem"),
        ),
        *(_load_bytes(count) for count in (2, 4)),
        *(_load_padded(bits, count) for count in (1, 2, 4) for bits in (4, 6)),
        *(_store_bytes(count) for count in (1, 2, 4)),
        *(_tensor_copy(shape, ctas) for shape in _TENSOR_COPIES for ctas in (1, 2)),
    )
}
