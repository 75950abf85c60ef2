"""SM80 (Ampere): f16, bf16, tf32, f64, 8-bit, 4-bit and 1-bit `mma.sync`, and complex f64.

`min_arch` is the PTX ISA's, so the shapes that Turing has already say sm_75 although CuTe names
them SM80. Source: PTX ISA, "Multiply-and-Accumulate Instruction: mma"; cutlass
include/cute/arch/mma_sm80.hpp, atom/mma_traits_sm80.hpp.
"""

from __future__ import annotations

from cute_py.atoms.complex_types import complex_row
from cute_py.atoms.fragments import mma_sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.atoms.mma import MMA_Atom

# (M, N, K), types of D A B C, their register counts, first architecture
_FLOATS = (
    ((16, 8, 8), "f16 f16 f16 f16", "2 2 1 2", "sm_75"),
    ((16, 8, 16), "f16 f16 f16 f16", "2 4 2 2", "sm_80"),
    ((16, 8, 8), "f32 f16 f16 f32", "4 2 1 4", "sm_75"),
    ((16, 8, 16), "f32 f16 f16 f32", "4 4 2 4", "sm_80"),
    ((16, 8, 8), "f32 bf16 bf16 f32", "4 2 1 4", "sm_80"),
    ((16, 8, 16), "f32 bf16 bf16 f32", "4 4 2 4", "sm_80"),
    ((16, 8, 4), "f32 tf32 tf32 f32", "4 2 1 4", "sm_80"),
    ((16, 8, 8), "f32 tf32 tf32 f32", "4 4 2 4", "sm_80"),
    ((8, 8, 4), "f64 f64 f64 f64", "2 1 1 2", "sm_80"),
)
# (M, N, K of bytes), register counts, first architecture; K doubles for 4-bit values
_INTEGERS = (
    ((8, 8, 16), "2 1 1 2", "sm_75"),
    ((16, 8, 16), "4 2 1 4", "sm_80"),
    ((16, 8, 32), "4 4 2 4", "sm_80"),
)


def _integer_rows(bits: int) -> Iterator[MMA_Atom]:
    """Yield all signs of A and B, wrapping and saturating."""
    for a, b in ((a, b) for a in "su" for b in "su"):
        for (m, n, k), counts, arch in _INTEGERS:
            shape, types = (m, n, k * 8 // bits), f"s32 {a}{bits} {b}{bits} s32"
            for saturate in (False, True):
                yield mma_sync("SM80", shape, types, counts, min_arch=arch, saturate=saturate)


def _bit_rows() -> Iterator[MMA_Atom]:
    """Yield D = C + popcount of (a xor b), and of (a and b), which Turing lacks."""
    for operation, first in (("and.popc", "sm_80"), ("xor.popc", "sm_75")):
        for (m, n, k), counts, arch in _INTEGERS:
            yield mma_sync(
                "SM80",
                (m, n, k * 8),
                "s32 b1 b1 s32",
                counts,
                min_arch=max(first, arch),
                operation=operation,
            )


_DENSE = [mma_sync("SM80", shape, *form, min_arch=arch) for shape, *form, arch in _FLOATS]
ROWS = (
    *_DENSE,
    complex_row(_DENSE[-1]),
    complex_row(_DENSE[-1], gauss=True),
    *_integer_rows(8),
    *_integer_rows(4),
    *_bit_rows(),
)
