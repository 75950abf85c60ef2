"""SM89 (Ada): 8-bit floating point; on Hopper emulated with f16, where warpgroup rows have it.

Source: PTX ISA, "Matrix Fragments for mma.m16n8k32"; cutlass include/cute/arch/mma_sm89.hpp.
"""

from __future__ import annotations

from cute_py.atoms.fragments import mma_sync

_COUNTS = {"f32": "4 4 2 4", "f16": "2 4 2 2"}

ROWS = tuple(
    mma_sync("SM89", (16, 8, 32), f"{d} {a} {b} {d}", _COUNTS[d], min_arch="sm_89")
    for d in ("f32", "f16")
    for a in ("e4m3", "e5m2")
    for b in ("e4m3", "e5m2")
)
