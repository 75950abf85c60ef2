"""Sparse A: half of each chunk of a row is stored, and metadata says which half; rows of `mma.sp`.

A chunk is 4 adjacent elements of 16 or 8 bits, 2 of 32 bits or 8 of 4 bits, and 4 bits of metadata
(operand E) describe it: two increasing 2-bit indices of the quarters that are stored, the lower one
in the lower bits. So 2 of 4 elements are stored, 1 of 2 (0b0100 the first, 0b1110 the second), or 2
of 4 adjacent pairs. E is one 32-bit register per lane, with the chunk of the lowest k lowest.

As in CuTe, `a_tv` and `e_tv` map to elements of the whole M x K tile: the elements that a lane's
registers stand for, and those that its metadata describes. The PTX ISA shows the latter in figures;
for SM80 each row was confirmed with each selector by a run on sm_90. Source: PTX ISA,
"Sparse matrix storage" and "Matrix Fragments for sparse mma.m16n8k16 ..." of mma.sp, "Sparse matrix
storage" of wgmma; cutlass include/cute/atom/mma_traits_sm90_gmma_sparse.hpp,
mma_traits_sm120_sparse.hpp.
"""

from __future__ import annotations

from cute_py.atoms.arch import between
from cute_py.atoms.fragments import WARP, adjacent_values, fragment, operands, read_types, type_code
from cute_py.atoms.mma import MMA_Atom, Operand, require_argument
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype

METADATA = Operand(1, "b32", vector=False)
_CHUNK = {32: 2, 16: 4, 8: 4, 4: 8}


def chunk(dtype: Dtype) -> int:
    """Return the number of adjacent elements that 4 bits of metadata describe; half are stored.

    >>> from cute_py.dtypes.table import bf16, s4, tf32
    >>> chunk(tf32), chunk(bf16), chunk(s4)
    (2, 4, 8)
    """
    return _CHUNK[dtype.bits]


def selectors(depth: int, dtype: Dtype) -> tuple[int, ...]:
    """Return the sparsity selectors: the lane, or pair of lanes, of four with the metadata.

    >>> from cute_py.dtypes.table import f16, s8
    >>> selectors(16, f16), selectors(32, f16), selectors(64, s8)
    ((0, 1, 2, 3), (0, 1), (0,))
    """
    return tuple(range(4 // _contributing(depth, dtype)))


def _contributing(depth: int, dtype: Dtype) -> int:
    """Return how many lanes of four provide metadata; four lanes describe two rows."""
    return 2 * depth // (8 * chunk(dtype))


def whole(rows: int, depth: int, dtype: Dtype, warps: int = 1) -> Layout:
    """Return `a_tv` of a sparse A in registers: the elements that each value stands for.

    A stored value stands for two adjacent elements, one of which it is; a 4-bit value for four.

    >>> from cute_py.dtypes.table import f16
    >>> print(whole(16, 32, f16))
    ((4,8),(4,2,2)):((64,1),(16,8,256))
    """
    return fragment(rows, depth, 2 * adjacent_values(dtype), warps)


def stored(rows: int, depth: int, dtype: Dtype, warps: int = 1) -> Layout:
    """Return (thread, value) -> row + rows * column of the stored half, a tile of depth / 2.

    >>> from cute_py.dtypes.table import f16
    >>> print(stored(16, 32, f16))
    ((4,8),(2,2,2)):((32,1),(16,8,128))
    """
    return fragment(rows, depth // 2, adjacent_values(dtype), warps)


def metadata(rows: int, depth: int, dtype: Dtype, warps: int = 1) -> Layout:
    """Return `e_tv`, (thread, value) -> row + rows * k: the elements described by a lane's 32 bits.

    For 16 and 32 bits, a lane describes the halves of two rows 8 apart, the lower one in its lower
    16 bits; for 8 and 4 bits, one row. In the mode of the selector, the stride is 0.

    >>> from cute_py.dtypes.table import f16, s8
    >>> print(metadata(16, 32, f16))
    ((2,2,8),(16,2)):((256,0,1),(16,8))
    >>> print(metadata(16, 64, s8))
    ((2,2,8),32):((8,512,1),16)
    """
    places, lanes = 8 * chunk(dtype), _contributing(depth, dtype)
    shape: tuple[int, ...] | int
    stride: tuple[int, ...] | int
    if dtype.bits >= 16:
        shape, stride = (places // 2, 2), (rows, 8)
        pair, pairs = (rows * places // 2 if lanes == 2 else 0), 0
    else:
        shape, stride = ((places,), (rows,)) if warps > 1 else (places, rows)  # as CuTe brackets
        pair, pairs = 8, (rows * places if lanes == 4 else 0)
    if warps == 1:
        return Layout(((2, 2, 8), shape), ((pair, pairs, 1), stride))
    return Layout(((2, 2, 8, warps), shape), ((pair, pairs, 1, 16), stride))


# -- SM80 `mma.sp`: 16x8 by a warp with a sparse A, as data: not runnable. Templates over the
# sparsity selector. CuTe has no such rows; the names follow its `SM120_SPARSE_16x8x64_TN`. The text
# is that of PTX 8.5; older versions know `mma.sp` without `::ordered_metadata`. Source: PTX ISA,
# "Multiply-and-Accumulate Instruction: mma.sp"; cutlass include/cutlass/arch/mma_sparse_sm80.h

_FLOATS = ("f16 f16 f16 f16", "f32 f16 f16 f32", "f32 bf16 bf16 f32", "f32 tf32 tf32 f32")
_INTEGERS = tuple(f"s32 {a}{bits} {b}{bits} s32" for bits in (8, 4) for a in "su" for b in "su")
_BITS_OF_K = (256, 512)  # the bits of a whole row of A, half of which is stored


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
        spsel: the lane, or pair of lanes, of four that provides the metadata.

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
        registers=(*operands(f"{accumulators} {words} {words} {accumulators}", dtypes), METADATA),
        min_arch="sm_80",
        native=between("sm_80", "sm_89") if a.bits == 4 else None,  # as ptxas 13.0: seen in SASS
        source=f"PTX ISA, Matrix Fragments for sparse mma.m16n8k{k}; "
        "cutlass/arch/mma_sparse_sm80.h",
        runnable=False,
        saturate=saturate,
        extra=(("e_tv", metadata(16, k, a)), ("stored_tv", stored(16, k, a))),
    )
