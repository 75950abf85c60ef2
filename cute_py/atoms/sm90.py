"""SM90 (Hopper): f64 16x8x4, 16x8x8 and 16x8x16 by a warp, and their complex forms.

Later GPUs split them into 8x8x4. Source: PTX ISA, "Matrix Fragments for mma.m16n8k4" and its
neighbours; cutlass include/cute/arch/mma_sm90.hpp, atom/mma_traits_sm90.hpp.
"""

from __future__ import annotations

from cute_py.atoms.arch import only
from cute_py.atoms.complex_types import complex_row
from cute_py.atoms.fragments import mma_sync

_REAL = tuple(
    mma_sync("SM90", (16, 8, k), "f64 f64 f64 f64", counts, min_arch="sm_90", native=only(90))
    for k, counts in ((4, "4 2 1 4"), (8, "4 4 2 4"), (16, "4 8 4 4"))
)
ROWS = (*_REAL, *(complex_row(real) for real in _REAL))
