"""Matrix fragments in the registers of warps and warpgroups, and the builder of `mma.sync` rows.

From SM75 on, every fragment consists of *core matrices* of 8 rows by 128 bits: lane 4 r + q holds
the q-th 32 bits of row r (or one 64-bit value). The PTX ISA has a figure for each shape; here it is
one function. Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and the
next sections, "Register Fragments and Shared Memory Matrix Layouts" (wgmma).
"""

from __future__ import annotations

from cute_py.atoms.arch import between, holds, only, since
from cute_py.atoms.mma import MMA_Atom, Operand
from cute_py.dtypes.table import NAMES
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.dtypes.table import Dtype

WARP = Layout(32)
WARPGROUP = Layout(128)

# Architectures whose tensor cores have a type; on others ptxas 13.0 converts it (seen in SASS).
_FOUR_BITS = between("sm_75", "sm_89")
_FP8 = only(89, 120, 121)
_HARDWARE = {"s4": _FOUR_BITS, "u4": _FOUR_BITS, "e4m3": _FP8, "e5m2": _FP8}
_BITWISE = {"xor.popc": between("sm_75", "sm_89"), "and.popc": between("sm_80", "sm_90")}

_REGISTER_TYPE = {"f32": "f32", "f64": "f64", "s32": "s32"}


def fragment(rows: int, depth: int, values: int, warps: int = 1) -> Layout:
    """Return (thread, value) -> row + rows * column of a fragment made of core matrices.

    Args:
        rows: rows of the tile, 8 or 16 per warp (elements).
        depth: columns of the tile (elements): along K for A and B, along N for C.
        values: adjacent columns in one lane: 32 bits of the operand, 2 accumulators, 1 of 64 bits.
        warps: the number of warps along the rows.

    Law: a bijection of 32 * warps threads and their values onto the tile. A mode of extent 1 is
    dropped, as in CuTe's headers.

    >>> print(fragment(16, 8, 2))
    ((4,8),(2,2)):((32,1),(16,8))
    >>> print(fragment(64, 16, 2, warps=4))
    ((4,8,4),(2,2,2)):((128,1,16),(64,8,512))
    """
    modes = ((values, rows), (rows // 8 // warps, 8), (depth // (4 * values), 4 * values * rows))
    threads = ((4, values * rows), (8, 1), (warps, 16))[: 3 if warps > 1 else 2]
    kept = [mode for mode in modes if mode[0] > 1] or [(1, 0)]
    # CuTe brackets a single mode only for eight 4-bit values.
    held = _zip(kept) if len(kept) > 1 or values == 8 else kept[0]
    (thread_shape, thread_stride), (shape, stride) = _zip(threads), held
    return Layout((thread_shape, shape), (thread_stride, stride))


def _zip(modes: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape, stride = zip(*modes, strict=True)
    return shape, stride


def adjacent_values(dtype: Dtype) -> int:
    """Return the number of adjacent values of an A or B operand in a lane.

    >>> from cute_py.dtypes.table import bf16, f64, s4
    >>> adjacent_values(bf16), adjacent_values(f64), adjacent_values(s4)
    (2, 1, 8)
    """
    return max(32 // dtype.bits, 1)


def read_types(types: str) -> tuple[Dtype, Dtype, Dtype, Dtype]:
    """Return the dtypes of D, A, B and C from their names.

    >>> read_types("f32 bf16 bf16 f32")
    (cute.f32, cute.bf16, cute.bf16, cute.f32)
    """
    d, a, b, c = (NAMES[name] for name in types.split())
    return d, a, b, c


def operands(counts: str, types: tuple[Dtype, ...], vector: bool = True) -> tuple[Operand, ...]:
    """Return the operands from their register counts, in 32-bit registers or typed ones.

    >>> operands("4 4 2 4", read_types("f32 bf16 bf16 f32"))
    (Operand(4, 'f32'), Operand(4, 'b32'), Operand(2, 'b32'), Operand(4, 'f32'))
    """
    return tuple(
        Operand(int(count), _REGISTER_TYPE.get(dtype.name, "b32"), vector)
        for count, dtype in zip(counts.split(), types, strict=True)
    )


def type_code(dtype: Dtype) -> str:
    """Return the name of a dtype in the name of an atom; b1 is U1.

    >>> from cute_py.dtypes.table import b1, bf16
    >>> type_code(bf16), type_code(b1)
    ('BF16', 'U1')
    """
    return "U1" if dtype.name == "b1" else dtype.name.upper()


def mma_sync(
    family: str,
    shape_mnk: tuple[int, int, int],
    types: str,
    counts: str,
    *,
    min_arch: str,
    native: tuple[str, ...] | None = None,
    saturate: bool = False,
    operation: str = "fma",
) -> MMA_Atom:
    """Return the row of a warp's `mma.sync` with row-major A and column-major B (TN).

    Args:
        family: the prefix of CuTe's name, "SM80".
        shape_mnk: (M, N, K).
        types: the names of the types of D, A, B and C.
        counts: the numbers of their registers.
        min_arch: the first architecture.
        native: the architectures with hardware for it; None: those with hardware for its types.
        saturate: the form with `.satfinite`.
        operation: "fma", "xor.popc" or "and.popc".

    Source: PTX ISA, "Multiply-and-Accumulate Instruction: mma".

    >>> atom = mma_sync("SM80", (16, 8, 8), "f32 f16 f16 f32", "4 2 1 4", min_arch="sm_80")
    >>> print(atom, atom.ptx)
    SM80_16x8x8_F32F16F16F32_TN mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {d}, {a}, {b}, {c};
    """
    m, n, k = shape_mnk
    dtypes = _, a, b, _ = read_types(types)
    bitwise = operation != "fma"
    if native is None:
        hardware = _BITWISE.get(operation) or _HARDWARE.get(a.name) or since(min_arch)
        native = tuple(arch for arch in since(min_arch) if holds(hardware, arch))
    suffix = "_SATURATE" * saturate + f"_{operation.replace('.', '').upper()}" * bitwise
    modifiers = ".satfinite" * saturate + f".{operation}" * bitwise
    types_text = ".".join(dtype.ptx for dtype in dtypes)
    return MMA_Atom(
        f"{family}_{m}x{n}x{k}_{''.join(type_code(dtype) for dtype in dtypes)}_TN{suffix}",
        shape_mnk,
        WARP,
        (fragment(m, k, adjacent_values(a)), fragment(n, k, adjacent_values(b)), fragment(m, n, 2)),
        dtypes,
        ptx=f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{types_text}{modifiers} "
        "{d}, {a}, {b}, {c};",
        registers=operands(counts, dtypes),
        min_arch=min_arch,
        native=native,
        source=f"PTX ISA, Matrix Fragments for mma.m{m}n{n}k{k}; "
        f"cute/arch/mma_{family.lower()}.hpp",
        saturate=saturate,
        operation=operation,
    )
