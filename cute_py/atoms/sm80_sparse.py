"""SM80 `mma.sp`: 16x8 by a warp with a sparse A, as data: not runnable.

Templates over the sparsity selector. CuTe has no such rows; the names follow its
`SM120_SPARSE_16x8x64_TN`. The text is that of PTX 8.5; older versions know `mma.sp` without
`::ordered_metadata`. Source: PTX ISA, "Multiply-and-Accumulate Instruction: mma.sp"; cutlass
include/cutlass/arch/mma_sparse_sm80.h.
"""

from __future__ import annotations

from cute_py.atoms.arch import between
from cute_py.atoms.fragments import (
    WARP,
    adjacent_values,
    fragment,
    operands,
    read_types,
    type_code,
)
from cute_py.atoms.mma import MMA_Atom, require_argument
from cute_py.atoms.sparse import METADATA, metadata, selectors, stored, whole

_FLOATS = ("f16 f16 f16 f16", "f32 f16 f16 f32", "f32 bf16 bf16 f32", "f32 tf32 tf32 f32")
_INTEGERS = tuple(f"s32 {a}{bits} {b}{bits} s32" for bits in (8, 4) for a in "su" for b in "su")
_BITS_OF_K = (256, 512)  # the bits of a row of A, stored and left out


def _names() -> dict[str, tuple[int, str, bool]]:
    """Return name -> (K, types of D A B C, saturating)."""
    table = {}
    for types in (*_FLOATS, *_INTEGERS):
        dtypes = read_types(types)
        code = "".join(type_code(dtype) for dtype in dtypes)
        for bits in _BITS_OF_K:
            k = bits // dtypes[1].bits
            for saturate in (False, True) if types in _INTEGERS else (False,):
                name = f"SM80_SPARSE_16x8x{k}_{code}_TN{'_SATURATE' * saturate}"
                table[name] = (k, types, saturate)
    return table


_ROWS = _names()
NAMES = tuple(_ROWS)


def parameters(name: str) -> tuple[str, ...]:
    """Return the template parameters of a row.

    >>> parameters("SM80_SPARSE_16x8x32_F32F16F16F32_TN")
    ('spsel',)
    """
    return ("spsel",)


def row(name: str, *, spsel: int = 0) -> MMA_Atom:
    """Return the row of a sparse `mma.sp`.

    Args:
        name: its name.
        spsel: which lane or pair of lanes of four gives the metadata.

    Raises:
        LayoutError: a selector that the shape does not have.

    >>> print(row("SM80_SPARSE_16x8x16_F32F16F16F32_TN", spsel=3).ptx.partition(" ")[2])
    {d}, {a}, {b}, {c}, {e}, 3;
    """
    k, types, saturate = _ROWS[name]
    dtypes = d, a, b, _ = read_types(types)
    require_argument(name, "spsel", spsel, selectors(k, a))
    words = k * a.bits // 128  # of each lane, for the stored half of A and for B
    accumulators = 2 if d.bits == 16 else 4
    types_text = ".".join(dtype.ptx for dtype in dtypes)
    return MMA_Atom(
        name,
        (16, 8, k),
        WARP,
        (whole(16, k, a), fragment(8, k, adjacent_values(b)), fragment(16, 8, 2)),
        dtypes,
        args=(spsel,) if spsel else (),
        ptx=f"mma.sp::ordered_metadata.sync.aligned.m16n8k{k}.row.col{'.satfinite' * saturate}."
        f"{types_text} {{d}}, {{a}}, {{b}}, {{c}}, {{e}}, {spsel};",
        registers=(
            *operands(f"{accumulators} {words} {words} {accumulators}", dtypes),
            METADATA,
        ),
        min_arch="sm_80",
        native=between("sm_80", "sm_89") if a.bits == 4 else None,  # as ptxas 13.0: seen in SASS
        source=f"PTX ISA, Matrix Fragments for sparse mma.m16n8k{k}; "
        "cutlass/arch/mma_sparse_sm80.h",
        runnable=False,
        saturate=saturate,
        extra=(("e_tv", metadata(16, k, a)), ("stored_tv", stored(16, k, a))),
    )
