"""`choose_config`: which instruction, tile and copies a product gets, by the rules below."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import CuteError, refusal
from cute_py.kernels.gemm import GemmConfig, Side
from cute_py.layout.tuples import ceil_div

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype, DtypeLike

VECTOR_BYTES = 16  # the widest load, and the chunk of a swizzle
K_BYTES = {"f64": 128, "f32": 32}  # of a tile's K: of FMA all of it is in registers; others 64
LARGEST = {8: 64}  # bytes of an accumulator -> most of M and N; others 128

FLOATS = ("f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2")
KNOWN = (*FLOATS, "s8", "u8")
_NARROW = ({"s8", "u8"}, {"e4m3", "e5m2"})  # these mix


def choose_config(
    M: int,
    N: int,
    K: int,
    dtype: DtypeLike | tuple[DtypeLike, DtypeLike],
    majors: tuple[str, str] = ("K", "K"),
    alignment: int | tuple[int, int] = VECTOR_BYTES,
) -> GemmConfig:
    """Return the configuration for D (M,N) = A (M,K) B (N,K)^T; its `explain()` lists the rules.

    Args:
        M: rows of A and D.
        N: rows of B, columns of D.
        K: columns of A and B.
        dtype: of the operands, or one for each.
        majors: which mode of A and of B is contiguous: "K", or "MN".
        alignment: what divides the address of every row of A and of B (bytes), or one number for
            both.

    Raises DtypeError where no instruction multiplies these types.

    >>> print(choose_config(512, 512, 512, "bf16"))
    SM80_16x8x16_F32BF16BF16F32_TN tile=128x128x32 warps=2x2 stages=4 A=Kx8 B=Kx8 cp.async
    """
    kinds = dtype if isinstance(dtype, tuple) else (dtype, dtype)
    a, b = (as_dtype(kind) for kind in kinds)
    aligned = alignment if isinstance(alignment, tuple) else (alignment, alignment)
    atom, why_atom = _atom(a, b)
    simt = atom.startswith("UniversalFMA")
    tile, why_tile = _tile(M, N, a)
    sides = [_side(*parts, simt) for parts in zip((a, b), majors, aligned, strict=True)]
    vectors = [side.vector * kind.bits // 8 for side, kind in zip(sides, (a, b), strict=True)]
    asynchronous = min(vectors) >= 4
    stages, why_stages = _stages(ceil_div(max(K, 1), tile[2]), asynchronous)
    reasons = (
        why_atom,
        why_tile,
        _why_copies(sides, vectors, asynchronous),
        why_stages,
    )
    return GemmConfig(
        atom, tile, _warps(tile, simt), stages, sides[0], sides[1], asynchronous, reasons
    )


def _atom(a: Dtype, b: Dtype) -> tuple[str, str]:
    pair = {a.name, b.name}
    mixes = len(pair) == 1 or any(pair <= group for group in _NARROW)
    if not mixes or not pair <= set(KNOWN):
        known = ", ".join(KNOWN)
        raise refusal("ops-dtype", operation="cute.ops.gemm", a=a, b=b, known=known)
    names = f"{a.name}{b.name}".upper()
    if a.name == "f32":
        return "UniversalFMA<f32,f32,f32,f32>", "f32: no matrix instruction keeps 24 bits, so FMA"
    if a.name == "f64":
        name = "SM80_8x8x4_F64F64F64F64_TN"
    elif a.name == "tf32":
        name = "SM80_16x8x8_F32TF32TF32F32_TN"
    elif not a.is_float:
        name = f"SM80_16x8x32_S32{names}S32_TN"
    else:
        name = f"SM{80 if a.bits == 16 else 89}_16x8x{256 // a.bits}_F32{names}F32_TN"
    return name, f"{a}, {b}: the largest mma.sync of these types"


def _tile(M: int, N: int, kind: Dtype) -> tuple[tuple[int, int, int], str]:
    most = LARGEST.get(kind.bits // 8, 128)
    m, n = (next(t for t in (32, 64, 128) if extent <= t or t == most) for extent in (M, N))
    k = K_BYTES.get(kind.name, 64) * 8 // kind.bits
    why = f"tile: M={M} and N={N} get the least of 32, 64, 128 that holds them, at most {most}"
    return (m, n, k), f"{why}; K {k * kind.bits // 8} bytes"


def _warps(tile: tuple[int, int, int], simt: bool) -> tuple[int, int]:
    """Return 2 x 2 warps; or threads of 8 x 8 elements each, a warp at least."""
    if not simt:
        return 2, 2
    m, n, _k = tile
    return (8, 8) if m == n == 32 else (m // 8, n // 8)


def _side(kind: Dtype, major: str, alignment: int, simt: bool) -> Side:
    if simt and major == "K":
        return Side("K", 1)
    vector = gcd(alignment, VECTOR_BYTES) * 8 // kind.bits
    return Side("K" if major == "K" else "MN", max(vector, 1))


def _why_copies(sides: list[Side], vectors: list[int], asynchronous: bool) -> str:
    found = ", ".join(
        f"{name} along {s.major} by {v} bytes"
        for name, s, v in zip("AB", sides, vectors, strict=True)
    )
    how = "cp.async" if asynchronous else "through registers: cp.async moves at least 4 bytes"
    return f"copies: {found}, what alignment allows; {how}"


def _stages(tiles: int, asynchronous: bool) -> tuple[int, str]:
    if not asynchronous:
        return 2, "stages: 2, the next tile waits in registers"
    stages = 2 if tiles <= 2 else 3 if tiles < 8 else 4
    return stages, f"stages: {stages} for {tiles} tiles of K"


_PARTS = {
    "tile": 3,
    "warps": 2,
    "stages": 1,
    "band": 1,
    "store": 1,
    "min_blocks": 1,
    "spill_bytes": 1,
    "stmatrix": 1,
    "pdl": 1,
    "prefetch": 1,
}


def changed(config: GemmConfig, text: str) -> GemmConfig:
    """Return a configuration with parts given as text: `tile=64x64x32,stages=3`.

    >>> print(changed(choose_config(512, 512, 512, "f16"), "tile=64x128x32,stages=3"))
    SM80_16x8x16_F32F16F16F32_TN tile=64x128x32 warps=2x2 stages=3 A=Kx8 B=Kx8 cp.async
    """
    parts: dict[str, object] = {}
    for word in text.split(","):
        name, _, value = word.strip().partition("=")
        numbers = value.split("x")
        wanted = _PARTS.get(name)
        if wanted != len(numbers) or not all(n.isdecimal() for n in numbers):
            raise refusal("gemm-config-text", operation="config", text=text)
        parts[name] = tuple(map(int, numbers)) if wanted > 1 else int(value)
    try:
        return replace(config, **parts, reasons=(*config.reasons, f"given: {text}"))  # type: ignore[arg-type]
    except CuteError as error:
        raise error.inside(f"config({text})") from None
