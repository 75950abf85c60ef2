"""2x2 transposes between the registers of two threads, by warp shuffles.

Source: cutlass include/cute/arch/copy_sm50.hpp, atom/copy_traits_sm50.hpp; PTX ISA, "shfl.sync".
"""

from __future__ import annotations

from cute_py.atoms.copy import WARP, Copy_Op
from cute_py.atoms.mma import Operand
from cute_py.layout.layout import Layout

_REGISTER = Operand(1, "b32", vector=False)

# Of the two threads that face each other across the bit `mask` of the lane, the upper one gives its
# first register and the lower one its second.
_PTX = """{{{{
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
        ptx=_PTX.format(mask=mask),
        operands=tuple((name, _REGISTER) for name in ("dst0", "dst1", "src0", "src1")),
        note="several instructions; CuTe says sm_50, shfl.sync on all lanes at will is sm_70",
    )


SM50_Shuffle_U32_2x2Trans_XOR1 = _transpose(1, Layout(((2, 16), (32, 2)), ((32, 128), (1, 64))))
SM50_Shuffle_U32_2x2Trans_XOR4 = _transpose(
    4, Layout(((4, 2, 4), (32, 2)), ((64, 32, 512), (1, 256)))
)

ROWS = {row.name: row for row in (SM50_Shuffle_U32_2x2Trans_XOR1, SM50_Shuffle_U32_2x2Trans_XOR4)}
