"""Sparse A: half of each chunk of a row is stored, and metadata says which half.

A chunk is 4 adjacent elements of 16 or 8 bits, 2 of 32 bits or 8 of 4 bits, and 4 bits of metadata
(operand E) describe it: two increasing 2-bit indices of the quarters that are stored, the lower one
in the lower bits. So 2 of 4 elements are stored, 1 of 2 (0b0100 the first, 0b1110 the second), or 2
of 4 adjacent pairs. E is one 32-bit register of each lane, the chunk of the lowest k lowest.

As in CuTe, `a_tv` and `e_tv` map to places of the whole M x K tile: the places that a lane's
registers stand for, and those that its metadata describes. PTX draws the latter in figures; what
is here for SM80 was confirmed by running each row with each selector on sm_90. Source: PTX ISA,
"Sparse matrix storage" and "Matrix Fragments for sparse mma.m16n8k16 ..." of mma.sp, "Sparse matrix
storage" of wgmma; cutlass include/cute/atom/mma_traits_sm90_gmma_sparse.hpp,
mma_traits_sm120_sparse.hpp.
"""

from __future__ import annotations

from cute_py.atoms.fragments import adjacent_values, fragment
from cute_py.atoms.mma import Operand
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype

METADATA = Operand(1, "b32", vector=False)
_CHUNK = {32: 2, 16: 4, 8: 4, 4: 8}


def chunk(dtype: Dtype) -> int:
    """Return how many adjacent elements of a row 4 bits of metadata describe; half are stored.

    >>> from cute_py.dtypes.table import bf16, s4, tf32
    >>> chunk(tf32), chunk(bf16), chunk(s4)
    (2, 4, 8)
    """
    return _CHUNK[dtype.bits]


def selectors(depth: int, dtype: Dtype) -> tuple[int, ...]:
    """Return the sparsity selectors: which lane, or pair of lanes, of four gives the metadata.

    >>> from cute_py.dtypes.table import f16, s8
    >>> selectors(16, f16), selectors(32, f16), selectors(64, s8)
    ((0, 1, 2, 3), (0, 1), (0,))
    """
    return tuple(range(4 // _contributing(depth, dtype)))


def _contributing(depth: int, dtype: Dtype) -> int:
    """Return how many lanes of four it takes: these four describe two rows."""
    return 2 * depth // (8 * chunk(dtype))


def whole(rows: int, depth: int, dtype: Dtype, warps: int = 1) -> Layout:
    """Return `a_tv` of a sparse A in registers: the places that each value stands for.

    A stored value stands for two adjacent places, one of which it may have; of 4 bits, for 4.

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
    """Return `e_tv`, (thread, value) -> row + rows * k: the places that 32 bits of a lane describe.

    Of 16 and 32 bits, a lane describes the halves of two rows 8 apart, the lower one in its lower
    16 bits; of 8 and 4 bits, one row. Where the selector picks the lanes, the stride is 0.

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
