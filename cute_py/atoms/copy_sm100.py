"""SM100 (Blackwell) copies between shared memory, tensor memory and registers.

Rows of data for exploration, not runnable. Source: PTX ISA, "ldmatrix", "stmatrix", "tcgen05.cp",
"tcgen05.ld", "tcgen05.st"; cutlass include/cute/arch/copy_sm100.hpp, atom/copy_traits_sm100.hpp.
"""

from __future__ import annotations

from cute_py.atoms.copy import ADDRESS_32, ADDRESS_64, WARP, Copy_Op, between, of_one_thread
from cute_py.atoms.copy_sm80 import REGISTER_TV_N, ROW_TV, of_matrices
from cute_py.atoms.mma import Operand
from cute_py.layout.layout import Layout, make_layout
from cute_py.layout.modes import append

SOURCE = "{}; cutlass arch/copy_sm100.hpp, atom/copy_traits_sm100.hpp"

_SWAPPED = (
    "the registers are in another order than in CuTe's layout; CuTe swaps them after the load"
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


def _of_matrices(
    name: str, count: int, form: str, tvs: tuple[Layout, Layout], note: str = ""
) -> Copy_Op:
    source = SOURCE.format("PTX ISA, ldmatrix" if "_LDSM_" in name else "PTX ISA, stmatrix")
    more = {"min_arch": "sm_100a", "runnable": False, "note": note}
    return of_matrices(name, count, form, tvs, source, **more)


def _load_bytes(count: int) -> Copy_Op:
    form = f"m16n16.x{count // 2}.trans.shared.b8"
    tvs = _BYTE_ROWS[count], _BYTES_T[count]
    return _of_matrices(f"SM100_U8x{4 * count}_LDSM_T", count, form, tvs, _SWAPPED)


def _load_padded(bits: int, count: int) -> Copy_Op:
    packed = {4: "b4x16_p64", 6: "b6x16_p32"}[bits]
    form = f"m8n16.x{count}.shared.b8x16.{packed}"
    name = f"SM100_SU{bits}_DU8x16_x{count}_LDSM_N"
    return _of_matrices(name, count, form, (ROW_TV[count], REGISTER_TV_N[count]), _PADDED)


def _store_bytes(count: int) -> Copy_Op:
    form = f"m16n8.x{count}.trans.shared.b8"
    return _of_matrices(
        f"SM100_U8x{4 * count}_STSM_T", count, form, (ROW_TV[count], _BYTES_T[count])
    )


def _vector(name: str, ptx: str, spaces: tuple[str, str]) -> Copy_Op:
    """Return the 256-bit load or store that does not allocate a line in L1."""
    return of_one_thread(
        name,
        256,
        spaces,
        "sm_100",
        SOURCE.format("PTX ISA, ld, st"),
        args=(),
        ptx=ptx,
        operands=between(Operand(8, "b32"), ADDRESS_64, load=spaces[1] == "rmem"),
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


# -- tensor memory and the registers of a warp: tcgen05.ld and .st. In CuTe's layouts every thread
# has all the tensor memory of the instruction (stride 0), and its part of the registers


# shape -> (PTX shape, 32-bit registers per repetition, most repetitions)
_SHAPES = {
    "16dp256b": ("16x256b", 4, 32),
    "16dp128b": ("16x128b", 2, 64),
    "16dp64b": ("16x64b", 1, 128),
    "16dp32b": ("16x32bx2", 1, 128),
    "32dp32b": ("32x32b", 1, 128),
}


def _register_tv(shape: str, times: int) -> Layout:
    """Return (lane, bit of its registers) -> bit, in the order of tensor memory."""
    r = times
    if shape == "32dp32b":
        return Layout((32, 32 * r), (32 * r, 1))
    if shape == "16dp32b":  # two halves of the lanes take two runs of columns
        return Layout(((16, 2), 32 * r), ((64 * r, 32 * r), 1))
    if shape == "16dp64b":
        return _repeated(Layout((2, 2, 8), (512 * r, 32, 64 * r)), Layout(32), Layout(r, 64))
    if shape == "16dp128b":
        value = Layout((32, 2), (1, 1024 * r))
        return _repeated(Layout((4, 8), (32, 128 * r)), value, Layout(r, 128))
    value = Layout((64, 2), (1, 2048 * r))
    return _repeated(Layout((4, 8), (64, 256 * r)), value, Layout(r, 256))


def _repeated(threads: Layout, value: Layout, repetitions: Layout) -> Layout:
    if repetitions.size() > 1:
        value = append(value, repetitions)
    return make_layout(threads, value)


def _tensor_memory(kind: str, shape: str, times: int, halves: bool) -> Copy_Op:
    """Return the row of a load or a store of `times` repetitions of a shape."""
    ptx_shape, per_repetition, _ = _SHAPES[shape]
    register_tv = _register_tv(shape, times)
    memory_tv = Layout((32, 32 * register_tv[1].size()), (0, 1))
    registers, load = Operand(per_repetition * times, "b32"), kind != "STORE"
    return Copy_Op(
        name=f"SM100_TMEM_{kind}_{shape}{times}x{'_16b' if halves else ''}",
        thr_id=WARP,
        src_tv=memory_tv if load else register_tv,
        dst_tv=register_tv if load else memory_tv,
        ref_tv=memory_tv,
        src_space="tmem" if load else "rmem",
        dst_space="rmem" if load else "tmem",
        alignment_bits=32,
        min_arch="sm_100a",
        source=SOURCE.format(f"PTX ISA, tcgen05.{'ld' if load else 'st'}"),
        ptx=None if kind == "LOAD_STAT" else _ptx(load, ptx_shape, times, halves),
        operands=() if kind == "LOAD_STAT" else between(registers, ADDRESS_32, load),
        completion="tcgen05",
        runnable=False,
        note="16-bit values, two to a register" if halves else "",
    )


def _ptx(load: bool, shape: str, times: int, halves: bool) -> str:
    # 16x32bx2 takes the distance of its two halves (columns); CuTe makes them adjacent
    columns = 2 * times if halves else times
    apart = f", {columns}" if shape == "16x32bx2" else ""
    if load:
        packing = ".pack::16b" if halves else ""
        return f"tcgen05.ld.sync.aligned.{shape}.x{times}{packing}.b32 {{dst}}, [{{src}}]{apart};"
    packing = ".unpack::16b" if halves else ""
    return f"tcgen05.st.sync.aligned.{shape}.x{times}{packing}.b32 [{{dst}}]{apart}, {{src}};"


def _repetitions(shape: str) -> list[int]:
    return [1 << i for i in range(8) if 1 << i <= _SHAPES[shape][2]]


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
        *(
            _tensor_memory(kind, shape, times, halves)
            for kind in ("LOAD", "STORE")
            for shape in _SHAPES
            for times in _repetitions(shape)
            for halves in (False, True)
        ),
        # loads that also reduce over the columns, of later headers
        *(
            _tensor_memory("LOAD_STAT", "32dp32b", times, False)
            for times in (2, 4, 8, 16, 32, 64, 128)
        ),
    )
}
