"""Configurations: which instruction, tile, copies and shared-memory layouts fit some arrays.

The rules, in order: the instruction by the types (`ATOMS`); vectors as wide as the rows of the
array allow, along its contiguous mode; cp.async from 4 bytes on, else through registers; ldmatrix
for rows along K, its transposing form for 2-byte elements along M or N, else loads of single
elements. Print a configuration to see what was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

import cute_py as cute
from cute_py.calls.arguments import Spec, array_facts
from cute_py.errors import refusal

if TYPE_CHECKING:
    Number = cute.Tensor  # what a kernel gets: one register
else:
    Number = cute.f64  # the annotation of a run-time number

# types of A and B -> the instruction
ATOMS = {
    ("f16", "f16"): "SM80_16x8x16_F32F16F16F32_TN",
    ("bf16", "bf16"): "SM80_16x8x16_F32BF16BF16F32_TN",
    ("tf32", "tf32"): "SM80_16x8x8_F32TF32TF32F32_TN",
    ("f64", "f64"): "SM80_8x8x4_F64F64F64F64_TN",
    ("b1", "b1"): "SM80_16x8x256_S32U1U1S32_TN_ANDPOPC",
    **{
        (a, b): f"SM80_16x8x32_S32{a.upper()}{b.upper()}S32_TN"
        for a in ("s8", "u8")
        for b in ("s8", "u8")
    },
    **{
        (a, b): f"SM80_16x8x64_S32{a.upper()}{b.upper()}S32_TN"
        for a in ("s4", "u4")
        for b in ("s4", "u4")
    },
    **{
        (a, b): f"SM89_16x8x32_F32{a.upper()}{b.upper()}F32_TN"
        for a in ("e4m3", "e5m2")
        for b in ("e4m3", "e5m2")
    },
    ("f32", "f32"): "UniversalFMA<f32,f32,f32,f32>",
}
K_BYTES = 64  # of a row of a tile along K
CHUNK = 128  # bits that a swizzle moves as one: a row of ldmatrix
LINE = 1024  # bits: all banks, once
HELD_BITS = 1024  # of a row, in the registers of a thread


@dataclass(frozen=True, slots=True)
class Operand:
    """How the tiles of A or B travel.

    Attributes:
        smem: the layout in shared memory (BLK_MN,BLK_K,stages).
        g2s: the copy of a tile from global to shared memory.
        s2r: the instruction from shared memory to registers.
    """

    smem: Any
    g2s: cute.TiledCopy
    s2r: cute.Copy_Atom

    def __str__(self) -> str:
        return f"{self.g2s.atom.op} -> {self.smem} -> {self.s2r.op}"


@dataclass(frozen=True, slots=True)
class Config:
    """What a GEMM kernel is built from.

    Attributes:
        mma: the tiled MMA; its size is the number of threads.
        tile: (BM,BN,BK) of a block (elements).
        stages: tiles of A and B in shared memory at a time.
        a: how tiles of A travel.
        b: how tiles of B travel.
    """

    mma: cute.TiledMMA
    tile: tuple[int, int, int]
    stages: int
    a: Operand
    b: Operand

    def __str__(self) -> str:
        m, n, k = self.tile
        lines = [
            f"tile {m}x{n}x{k}, {self.stages} stages, {self.mma.size()} threads",
            f"  {self.mma.atom} in {self.mma.atom_layout_mnk.shape}",
            f"  A: {self.a}",
            f"  B: {self.b}",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Output:
    """How results leave a block.

    Attributes:
        smem: the layout of the accumulators in shared memory (BM,BN).
        out: the copy of a tile between there and C and D.
        activation: one of `epilogue.ACTIVATIONS`, or None.
    """

    smem: Any
    out: cute.TiledCopy
    activation: str | None = None


# -- what arrays allow


def facts_of(array: Any) -> tuple[cute.Dtype, int, int]:  # any array
    """Return (type, contiguous mode, bits of the widest vectors) of an array of two modes.

    Every vector of a row must be whole and aligned, in every row.

    >>> import numpy as np
    >>> facts_of(np.zeros((4, 6), np.float32))
    (cute.f32, 1, 64)
    """
    facts = array_facts(array, Spec(), "array")
    modes = [i for i, (_divisor, fixed) in enumerate(facts.strides) if fixed == 1]
    if not modes:
        return facts.dtype, len(facts.strides) - 1, facts.dtype.bits
    mode = modes[-1]
    whole = gcd(facts.extents[mode][0], min(facts.alignment, 16) * 8 // facts.dtype.bits)
    for i, (divisor, _fixed) in enumerate(facts.strides):
        whole = whole if i == mode else gcd(whole, divisor)
    return facts.dtype, mode, whole * facts.dtype.bits


def tile_copy(tile: tuple[int, int], threads: int, *arrays: Any) -> cute.TiledCopy:
    """Return the copy of a tile between arrays, in vectors that all of them allow."""
    found = [facts_of(array) for array in arrays]
    dtype, mode, bits = found[0]
    if any(other != mode for _dtype, other, _bits in found):
        bits = dtype.bits
    return _copy(tile, dtype, threads, mode, min(bits, *[each for *_rest, each in found]), False)


def next_power(n: int) -> int:
    """Return the least power of two that is n or more.

    >>> [next_power(n) for n in (1, 33, 64)]
    [1, 64, 64]
    """
    return 1 << (n - 1).bit_length()


def row_copy(*arrays: Any) -> tuple[tuple[int, int], cute.TiledCopy] | None:
    """Return a tile (1,BN) that holds a row of arrays (M,N), and how a block shares it so that the
    row stays in registers; None where it is too long for them.

    >>> import numpy as np
    >>> tile, copy = row_copy(np.zeros((4, 1000), np.float32))
    >>> tile, copy.size()
    ((1, 1024), 32)
    """
    found = [facts_of(array) for array in arrays]
    width = min(bits // dtype.bits if mode else 1 for dtype, mode, bits in found)
    dtype, columns = found[0][0], arrays[0].shape[1]
    most = HELD_BITS // max(dtype.bits, 32)  # elements of a thread, in f32 at least
    threads = min(max(next_power(-(-columns // most)), 32), 1024)
    step = threads * width
    tile = (1, -(-columns // step) * step)
    if tile[1] > threads * max(most, width):
        return None
    atom = cute.Copy_Atom(f"UniversalCopy<{width * dtype.bits}>", dtype)
    return tile, cute.make_tiled_copy(atom, cute.Layout((1, threads)), cute.Layout((1, width)))


def _copy(
    tile: tuple[int, int],
    dtype: cute.Dtype,
    threads: int,
    mode: int,
    bits: int,
    asynchronous: bool,
) -> cute.TiledCopy:
    """Return the widest copy of at most `bits` whose accesses the threads can share evenly."""
    while bits > dtype.bits and tile[0] * tile[1] * dtype.bits % (bits * threads):
        bits //= 2
    op = "UniversalCopy"
    if asynchronous and bits >= 32:
        op = f"SM80_CP_ASYNC_CACHE{'GLOBAL' if bits == 128 else 'ALWAYS'}_ZFILL"
    return cute.suggest_tiled_copy(tile, dtype, threads, mode, bits, op)


# -- operands


def smem_atom(dtype: cute.Dtype, mode: int, extent: int, swizzled: bool = True) -> Any:  # a layout
    """Return a layout of 8 rows that `tile_to_shape` repeats, of a tile contiguous along `mode`.

    Swizzled, by as many bits as a row has chunks of 16 bytes: ldmatrix reads its rows without bank
    conflicts, and 16-byte stores are none either. Lanes load elements of 8 bytes, and of 4 along
    mode 0, themselves; full rows of these are swizzled by 32 bytes.

    Args:
        dtype: of the elements.
        mode: that is contiguous.
        extent: of the tile along it.
        swizzled: whether it is.

    >>> from cute_py.dtypes import f16
    >>> print(smem_atom(f16, 1, 32), "|", smem_atom(f16, 1, 64))
    Sw<2,3,3> o 0 o (8,32):(32,1) | Sw<3,3,3> o 0 o (8,64):(64,1)
    """
    row = min(extent, LINE // dtype.bits)
    layout = cute.Layout((8, row), (row, 1)) if mode else cute.Layout((row, 8), (1, row))
    if not swizzled:
        return layout
    chunk = (CHUNK // dtype.bits).bit_length() - 1
    by_lanes = dtype.bits == 64 or (dtype.bits == 32 and mode == 0)
    if by_lanes and row * dtype.bits == LINE:
        return cute.composition(cute.Swizzle(2, chunk + 1, 2), layout)
    bits = (row * dtype.bits // CHUNK).bit_length() - 1
    return cute.composition(cute.Swizzle(bits, chunk, 3), layout)


def reader_of(dtype: cute.Dtype, mode: int, values: int) -> cute.Copy_Atom:
    """Return the ldmatrix that gives a thread `values` elements, or the greatest part of them; a
    load of one element where there is none.
    """
    words = gcd(values * dtype.bits // 32, 4)
    if dtype.bits > 32 or not values or (mode == 0 and dtype.bits != 16):
        return cute.Copy_Atom(f"UniversalCopy<{dtype.bits}>", dtype)
    name = f"SM75_U32x{words}_LDSM_N" if mode else f"SM75_U16x{2 * words}_LDSM_T"
    return cute.Copy_Atom(name, dtype)


def operand(
    array: Any,  # any array
    tile: tuple[int, int],
    stages: int,
    threads: int,
    values: int = 0,
    swizzled: bool = True,
    asynchronous: bool = True,
) -> Operand:
    """Return how tiles of an array travel.

    Args:
        array: A (M,K) or B (N,K).
        tile: its tile (elements).
        stages: tiles in shared memory.
        threads: of the block.
        values: elements that a thread of the MMA holds of a tile of the MMA; 0: no ldmatrix.
        swizzled: whether the layout in shared memory is swizzled.
        asynchronous: whether to use cp.async.

    """
    dtype, mode, bits = facts_of(array)
    if dtype.bits < 8 and (mode == 0 or bits < 8):
        raise refusal("config-bits", operation="kernels.config", dtype=dtype, mode=mode, bits=bits)
    atom = smem_atom(dtype, mode, tile[mode], swizzled)
    return Operand(
        cute.tile_to_shape(atom, (*tile, stages)),
        _copy(tile, dtype, threads, mode, bits, asynchronous),
        reader_of(dtype, mode, values),
    )


# -- GEMM


def tiled_mma(
    a: cute.Dtype, b: cute.Dtype, atoms: tuple[int, int, int] = (2, 2, 1)
) -> cute.TiledMMA:
    """Return the instruction for two types on atoms[0] x atoms[1] warps, with permutations for
    ldmatrix of four matrices; or on 16x8 threads where there is none for them.
    """
    name = ATOMS.get((a.name, b.name))
    if name is None:
        known = ", ".join([f"{x}*{y}" for x, y in ATOMS])
        raise refusal("config-types", operation="kernels.config", a=a, b=b, known=known)
    if name.startswith("UniversalFMA"):
        return cute.make_tiled_mma(name, (8 * atoms[0], 4 * atoms[1], atoms[2]))
    mma = cute.make_tiled_mma(name, atoms)
    return mma if a.bits > 32 else cute.make_tiled_mma(name, atoms, cute.suggest_permutation(mma))


def choose(
    A: Any,  # any array
    B: Any,
    tile: tuple[int, int] = (128, 128),
    stages: int = 3,
    atoms: tuple[int, int, int] = (2, 2, 1),
    ldmatrix: bool = True,
    asynchronous: bool = True,
) -> Config:
    """Return a configuration for arrays A (M,K) and B (N,K).

    Args:
        A: an array, contiguous along M or K.
        B: an array, contiguous along N or K.
        tile: (BM,BN); BK is 64 bytes of the wider type.
        stages: tiles in shared memory at a time.
        atoms: instructions side by side in M, N and K.
        ldmatrix: whether to use it, and swizzled layouts.
        asynchronous: whether to use cp.async.

    """
    (a, *_), (b, *_) = facts_of(A), facts_of(B)
    mma = tiled_mma(a, b, atoms)
    k = max(K_BYTES * 8 // max(a.bits, b.bits), mma.tile_size(2))
    values = [int(cute.size(tv, 1)) for tv in (mma.get_layoutA_TV(), mma.get_layoutB_TV())]
    if not ldmatrix or mma.atom.num_threads == 1:
        values = [0, 0]
    m, n = tile
    options = {"swizzled": ldmatrix, "asynchronous": asynchronous}
    return Config(
        mma,
        (m, n, k),
        stages,
        operand(A, (m, k), stages, mma.size(), values[0], **options),
        operand(B, (n, k), stages, mma.size(), values[1], **options),
    )


def flagship(dtype: str = "f16", stages: int = 3) -> Config:
    """Return tile 128x128x32 on 2x2 warps, for 2-byte types in rows along K of whole 16 bytes."""
    name = f"SM80_16x8x16_F32{dtype.upper()}{dtype.upper()}F32_TN"
    mma = cute.make_tiled_mma(name, (2, 2, 1), (32, 32, 16))
    g2s = cute.make_tiled_copy(
        cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>", dtype),
        cute.Layout((32, 4), (4, 1)),
        cute.Layout((1, 8)),
    )
    smem = cute.tile_to_shape(smem_atom(cute.dtype(dtype), 1, 32), (128, 32, stages))
    both = Operand(smem, g2s, cute.Copy_Atom("SM75_U32x4_LDSM_N", dtype))
    return Config(mma, (128, 128, 32), stages, both, both)


def epilogue(cfg: Config, *outputs: Any, activation: str = "") -> Output:
    """Return the epilogue for arrays C and D: vectors that both allow; rows of shared memory are
    padded, which keeps the fragments' pairs of eight rows in different banks.
    """
    m, n, _k = cfg.tile
    out = tile_copy((m, n), cfg.mma.size(), *outputs)
    pad = CHUNK // cfg.mma.atom.d_type.bits
    along_rows = facts_of(outputs[0])[1]
    stride = (n + pad, 1) if along_rows else (1, m + pad)
    return Output(cute.Layout((m, n), stride), out, activation or None)
