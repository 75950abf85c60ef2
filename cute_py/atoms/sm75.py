"""SM75 (Turing): 16x8x8 of f16, 8x8x16 of s8, 8x8x32 of s4.

The rows of s4 and the saturating ones carry the names that CuTe would give them; CuTe itself has
these instructions as SM80 rows. Source: PTX ISA, "Matrix Fragments for mma.m16n8k8",
"... mma.m8n8k16", "... mma.m8n8k32"; cutlass include/cute/arch/mma_sm75.hpp.
"""

from __future__ import annotations

from cute_py.atoms.fragments import mma_sync

ROWS = (
    mma_sync("SM75", (16, 8, 8), "f16 f16 f16 f16", "2 2 1 2", min_arch="sm_75"),
    mma_sync("SM75", (16, 8, 8), "f32 f16 f16 f32", "4 2 1 4", min_arch="sm_75"),
    *(
        mma_sync(
            "SM75",
            (8, 8, depth),
            f"s32 {ab} {ab} s32",
            "2 1 1 2",
            min_arch="sm_75",
            saturate=saturate,
        )
        for depth, ab in ((16, "s8"), (32, "s4"))
        for saturate in (False, True)
    ),
)
