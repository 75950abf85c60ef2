"""ldmatrix: 8x8 matrices of 16-bit elements from shared memory to the registers of a warp.

Lane 8i + r gives the address of row r of matrix i, 128 bits. In bits counted row by row through all
matrices, a lane of the plain form gets bits 32l to 32l+31 of each matrix, two neighbours of row
l // 4; of the transposed form one element each of rows 2(l % 4) and 2(l % 4) + 1, in column l // 4.
Source: PTX ISA, "ldmatrix", "movmatrix"; cutlass include/cute/arch/copy_sm75.hpp,
atom/copy_traits_sm75.hpp.
"""

from __future__ import annotations

from cute_py.atoms.copy import ADDRESS_32, WARP, Copy_Op
from cute_py.atoms.mma import Operand
from cute_py.layout.layout import Layout

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


def _ldmatrix(matrices: int, transposed: bool) -> Copy_Op:
    register_tv = (REGISTER_TV_T if transposed else REGISTER_TV_N)[matrices]
    form = f"x{matrices}.trans" if transposed else f"x{matrices}"
    return Copy_Op(
        name=f"SM75_U16x{2 * matrices}_LDSM_T" if transposed else f"SM75_U32x{matrices}_LDSM_N",
        thr_id=WARP,
        src_tv=ROW_TV[matrices],
        dst_tv=register_tv,
        ref_tv=register_tv,
        src_space="smem",
        dst_space="rmem",
        alignment_bits=128,
        min_arch="sm_75",
        source=SOURCE,
        ptx=f"ldmatrix.sync.aligned.{form}.m8n8.shared.b16 {{dst}}, [{{src}}];",
        operands=(("dst", Operand(matrices, "b32")), ("src", ADDRESS_32)),
    )


SM75_U32x1_LDSM_N = _ldmatrix(1, transposed=False)
SM75_U32x2_LDSM_N = _ldmatrix(2, transposed=False)
SM75_U32x4_LDSM_N = _ldmatrix(4, transposed=False)
SM75_U16x2_LDSM_T = _ldmatrix(1, transposed=True)
SM75_U16x4_LDSM_T = _ldmatrix(2, transposed=True)
SM75_U16x8_LDSM_T = _ldmatrix(4, transposed=True)

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
    operands=tuple((name, Operand(1, "b32", vector=False)) for name in ("dst", "src")),
    runnable=False,
    note="CuTe's layouts leave the transpose out: lane l really receives the elements of "
    + str(REGISTER_TV_T[1]),
)

ROWS = {
    row.name: row
    for row in (
        SM75_U32x1_LDSM_N,
        SM75_U32x2_LDSM_N,
        SM75_U32x4_LDSM_N,
        SM75_U16x2_LDSM_T,
        SM75_U16x4_LDSM_T,
        SM75_U16x8_LDSM_T,
        SM75_U32x1_MOVM_T,
    )
}
