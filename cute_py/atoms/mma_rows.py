"""The MMA rows that are listed one by one: SM61's dot products, `mma.sync` from SM70 to SM90, and
UniversalFMA.

`min_arch` is that of the PTX ISA: shapes that Turing already has say sm_75, although CuTe names
them SM80. Rows that are built from their names, such as most templates, are in other files.
"""

from __future__ import annotations

from cute_py.atoms.arch import ARCHS, only
from cute_py.atoms.fragments import mma_sync, operands, read_types, type_code
from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.table import Dtype, dtype
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


# -- SM61: dot products of packed bytes by one thread. Source: PTX ISA, "Integer Arithmetic
# Instructions: dp4a, dp2a"; cutlass include/cute/arch/mma_sm61.hpp


def _dot(name: str, depth: int, types: str, ptx: str | None) -> MMA_Atom:
    dtypes = read_types(types)
    packed = Layout((1, depth))
    return MMA_Atom(
        name,
        (1, 1, depth),
        Layout(1, 0),
        (packed, packed, Layout((1, 1), (0, 0))),
        dtypes,
        ptx=ptx,
        registers=operands("1 1 1 1", dtypes, vector=False) if ptx else (),
        min_arch="sm_61",
        source="PTX ISA, Integer Arithmetic Instructions: dp4a, dp2a; cute/arch/mma_sm61.hpp",
        runnable=ptx is not None,
    )


_SM61 = (
    _dot("SM61_DP4A", 4, "s32 s8 s8 s32", "dp4a.s32.s32 {d}, {a}, {b}, {c};"),
    # Data only: in CuTe, B has two 16-bit values, but PTX's dp2a multiplies two 16-bit values of A
    # by the two lower (.lo) or upper (.hi) of four bytes of B; CuTe's text lacks the suffix.
    _dot("SM61_DP2A", 2, "s32 s16 s16 s32", None),
)


# -- SM70 (Volta): 8x8x4 by a quad pair, such as the threads 0-3 and 16-19 of a warp. With one
# instruction, each of a warp's four quad pairs computes an 8x8x4, so a row describes eight
# threads. Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type"; cutlass
# include/cute/atom/mma_traits_sm70.hpp

QUAD_PAIR = Layout((4, 2), (1, 16))
# (thread, value) -> row + 8 k: each thread has a row of 4 k, or for one k 4 rows of its half.
_ROW = Layout((8, 4), (1, 8))
_COL = Layout(((4, 2), 4), ((8, 4), 1))
_ACCUMULATORS = {
    "f16": Layout((8, 8), (1, 8)),
    "f32": Layout(((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32))),
}
_QUAD_PAIR_COUNTS = {"f16": "4 2 2 4", "f32": "8 2 2 8"}


def _quad_pair_mma(accumulator: str, transposes: str) -> MMA_Atom:
    """Return the row for "TN", "NT", "NN" or "TT": T is row-major for A and column-major for B."""
    dtypes = read_types(f"{accumulator} f16 f16 {accumulator}")
    major_a = "row" if transposes[0] == "T" else "col"
    major_b = "col" if transposes[1] == "N" else "row"
    return MMA_Atom(
        f"SM70_8x8x4_{''.join(type_code(dtype) for dtype in dtypes)}_{transposes}",
        (8, 8, 4),
        QUAD_PAIR,
        (
            _ROW if major_a == "row" else _COL,
            _ROW if major_b == "col" else _COL,
            _ACCUMULATORS[accumulator],
        ),
        dtypes,
        ptx=f"mma.sync.aligned.m8n8k4.{major_a}.{major_b}.{accumulator}.f16.f16.{accumulator} "
        "{d}, {a}, {b}, {c};",
        registers=operands(_QUAD_PAIR_COUNTS[accumulator], dtypes),
        min_arch="sm_70",
        native=only(70, 75),
        source="PTX ISA, Matrix Fragments for mma.m8n8k4 with .f16 floating point type; "
        "cute/arch/mma_sm70.hpp",
    )


_SM70 = tuple(
    _quad_pair_mma(accumulator, transposes)
    for accumulator in ("f16", "f32")
    for transposes in ("TN", "NT", "NN", "TT")
)


# -- SM75 (Turing): 16x8x8 of f16, 8x8x16 of s8, 8x8x32 of s4. The s4 and the saturating rows are
# named in CuTe's style; CuTe itself has these instructions as SM80 rows.
# Source: PTX ISA, "Matrix Fragments for mma.m16n8k8", "... mma.m8n8k16", "... mma.m8n8k32"; cutlass
# include/cute/arch/mma_sm75.hpp

_SM75 = (
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


# -- complex f64: no instruction. C64 is four f64 ones on real and imaginary parts, GC64 three by
# Gauss's rule with sums t0 = Re Re, t1 = Im Im, t2 = (Re + Im)(Re + Im). Source: cutlass
# include/cute/arch/mma_sm80.hpp (`SM80_8x8x4_C64C64C64C64_TN`, `GaussComplex`)

_NONE = (0, 0, "")
complex_f64 = Dtype(
    "c128", "complex", 128, _NONE, ("complex128", "complex128", "", "complex<double>")
)
gauss_f64 = Dtype("gc192", "complex", 192, _NONE, ("", "", "", "GaussComplex"))


def _complex_row(real: MMA_Atom, gauss: bool = False) -> MMA_Atom:
    """Return the complex row with the layouts of a real f64 row, as data; with `gauss`, the
    accumulators are Gauss's three sums.
    """
    accumulator, code = (gauss_f64, "GC64") if gauss else (complex_f64, "C64")
    return MMA_Atom(
        real.name.replace("F64F64F64F64", f"{code}C64C64{code}"),
        real.shape_mnk,
        real.thr_id,
        (real.a_tv, real.b_tv, real.c_tv),
        (accumulator, complex_f64, complex_f64, accumulator),
        min_arch=real.min_arch,
        native=(),
        source=real.source.rpartition("; ")[2],
        runnable=False,
    )


# -- SM80 (Ampere): f16, bf16, tf32, f64, 8-bit, 4-bit and 1-bit. Source: PTX ISA, "Multiply-and-
# Accumulate Instruction: mma"; cutlass include/cute/arch/mma_sm80.hpp, atom/mma_traits_sm80.hpp

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
_SM80 = (
    *_DENSE,
    _complex_row(_DENSE[-1]),
    _complex_row(_DENSE[-1], gauss=True),
    *_integer_rows(8),
    *_integer_rows(4),
    *_bit_rows(),
)


# -- SM89 (Ada): 8-bit floating point; emulated with f16 on Hopper, which has it in warpgroup rows.
# Source: PTX ISA, "Matrix Fragments for mma.m16n8k32"; cutlass include/cute/arch/mma_sm89.hpp

_FP8_COUNTS = {"f32": "4 4 2 4", "f16": "2 4 2 2"}
_SM89 = tuple(
    mma_sync("SM89", (16, 8, 32), f"{d} {a} {b} {d}", _FP8_COUNTS[d], min_arch="sm_89")
    for d in ("f32", "f16")
    for a in ("e4m3", "e5m2")
    for b in ("e4m3", "e5m2")
)


# -- SM90 (Hopper): f64 16x8x4, 16x8x8 and 16x8x16 by a warp, which later GPUs split into 8x8x4.
# Source: PTX ISA, "Matrix Fragments for mma.m16n8k4" and the next sections; cutlass
# include/cute/arch/mma_sm90.hpp, atom/mma_traits_sm90.hpp

_REAL = tuple(
    mma_sync("SM90", (16, 8, k), "f64 f64 f64 f64", counts, min_arch="sm_90", native=only(90))
    for k, counts in ((4, "4 2 1 4"), (8, "4 4 2 4"), (16, "4 8 4 4"))
)
_SM90 = (*_REAL, *(_complex_row(real) for real in _REAL))


# -- UniversalFMA: one fused multiply-add by one thread, a template over D, A, B and C. Source:
# cutlass include/cute/arch/mma.hpp and atom/mma_traits.hpp


def _fma(**types: Dtype | str) -> MMA_Atom:
    """Return UniversalFMA for these dtypes.

    Args:
        types: dtypes or their names: d (by default f32), a (d), b (a), c (d).
    """
    one = Layout((1, 1), (0, 0))
    d = dtype(types.get("d", "f32"))
    a = dtype(types.get("a", d))
    b = dtype(types.get("b", a))
    c = dtype(types.get("c", d))
    return MMA_Atom(
        "UniversalFMA",
        (1, 1, 1),
        Layout(1, 0),
        (one, one, one),
        (d, a, b, c),
        args=(d.name, a.name, b.name, c.name),
        min_arch=ARCHS[0],
        source="cute/arch/mma.hpp",
    )


# -- the interface of the registry

ROWS = {row.name: row for row in (*_SM61, *_SM70, *_SM75, *_SM80, *_SM89, *_SM90)}
NAMES = ("UniversalFMA", *ROWS)


def parameters(name: str) -> tuple[str, ...]:
    """Return the template parameters of a row, in CuTe's order.

    >>> parameters("UniversalFMA"), parameters("SM61_DP4A")
    (('d', 'a', 'b', 'c'), ())
    """
    return ("d", "a", "b", "c") if name == "UniversalFMA" else ()


def row(name: str, **types: Dtype | str) -> MMA_Atom:
    """Return the row of a name; UniversalFMA for these dtypes.

    >>> print(row("UniversalFMA", d="f32", a="f16").b_type, row("UniversalFMA"))
    f16 UniversalFMA<f32,f32,f32,f32>
    """
    return _fma(**types) if name == "UniversalFMA" else ROWS[name]
