"""SM100 (Blackwell) rows, as data for exploration: no PTX text, not runnable.

Two are pairs of multiply-adds of f32 by one thread. The others, of tcgen05, are templates over
types, M, N and majors; A comes from shared (SS) or tensor memory (TS), C stays in tensor memory.
One CTA (1SM) or a pair (2x1SM), which the thread layout counts, shares the tile: halves of M for A
and C, halves of N for B. Source: cutlass include/cute/atom/mma_traits_sm100.hpp; PTX ISA,
"TensorCore 5th Generation Family Instructions".
"""

from __future__ import annotations

from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.table import dtype
from cute_py.errors import refusal
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.atoms.mma import Argument
    from cute_py.dtypes.table import Dtype

# kind -> K, default types of A, B and C, whether blocks are scaled
_KINDS = {
    "TF32": (8, "tf32 tf32 f32", False),
    "F16BF16": (16, "f16 f16 f32", False),
    "S8": (32, "s8 s8 s32", False),
    "F8F6F4": (32, "e4m3 e4m3 f32", False),
    "MXF8F6F4": (32, "e4m3 e4m3 f32", True),
    "MXF4": (64, "e2m1 e2m1 f32", True),
}
_ROWS = {
    f"SM100_MMA_{kind}_{pair}{source}": (kind, bool(pair), source)
    for kind, (_, _, scaled) in _KINDS.items()
    for pair in ("", "2x1SM_")
    for source in (("SS",) if scaled else ("SS", "TS"))
}
_PAIRS = {
    "SM100_2x1x1_F32F32F32F32": (2, 1, 1),
    "SM100_1x2x1_F32F32F32F32": (1, 2, 1),
}
NAMES = (*_ROWS, *_PAIRS)


def parameters(name: str) -> tuple[str, ...]:
    """Return the template parameters of a row, in CuTe's order.

    >>> parameters("SM100_MMA_MXF4_SS")
    ('a', 'b', 'c', 'sf', 'M', 'N', 'VS', 'a_major', 'b_major')
    """
    if name in _PAIRS:
        return ()
    kind = _ROWS[name][0]
    scale = ("sf",) if _KINDS[kind][2] else ()
    vector = ("VS",) if kind == "MXF4" else ()
    return ("a", "b", "c", *scale, "M", "N", *vector, "a_major", "b_major")


def row(name: str, **given: Argument | Dtype) -> MMA_Atom:
    """Return the row for these template arguments.

    Args:
        name: CuTe's name.
        given: a, b, c, sf: dtypes or their names; M, N: of the whole tile; VS: elements that share
            a scale; a_major, b_major: "K" or "MN".

    >>> print(row("SM100_MMA_F16BF16_2x1SM_SS", M=256, N=64).b_tv)
    (2,(32,16)):(32,(1,64))
    """
    if name in _PAIRS:
        return _multiply_adds(name, _PAIRS[name])
    kind, pair, source = _ROWS[name]
    k, types, _ = _KINDS[kind]
    defaults = dict(zip("abc", types.split(), strict=True))
    numbers = {"sf": "ue8m0", "M": 256 if pair else 128, "N": 128, "VS": 32}
    bound = {**defaults, **numbers, "a_major": "K", "b_major": "K", **given}
    a, b, c = (dtype(bound[each]) for each in "abc")  # type: ignore[arg-type]
    m, n = _extent(name, "M", bound["M"]), _extent(name, "N", bound["N"])
    ctas = 2 if pair else 1
    return MMA_Atom(
        name,
        (m, n, k),
        Layout(2) if pair else Layout(1, 0),
        (_split(ctas, m, k), _split(ctas, n, k), _split(ctas, m, n)),
        (c, a, b, c),
        args=tuple(_plain(bound[each]) for each in parameters(name)),
        min_arch="sm_100a",
        source="cute/atom/mma_traits_sm100.hpp",
        runnable=False,
        memories=("smem" if source == "SS" else "tmem", "smem", "tmem"),
        majors=(str(bound["a_major"]), str(bound["b_major"])),
    )


def _multiply_adds(name: str, shape: tuple[int, int, int]) -> MMA_Atom:
    """Return the row of two multiply-adds in one instruction, fma.rn.f32x2."""
    m, n, k = shape
    values = tuple(Layout((1, count), (0, int(count > 1))) for count in (m * k, n * k, m * n))
    return MMA_Atom(
        name,
        shape,
        Layout(1, 0),
        values,  # type: ignore[arg-type]
        (dtype("f32"),) * 4,
        min_arch="sm_100",
        source="cute/arch/mma_sm100.hpp, atom/mma_traits_sm100.hpp",
        runnable=False,
    )


def _split(ctas: int, rows: int, columns: int) -> Layout:
    """Return (CTA, value) -> row + rows * column, each CTA with its share of the rows."""
    part = rows // ctas
    return Layout((ctas, (part, columns)), (part if ctas > 1 else 0, (1, rows)))


def _extent(name: str, parameter: str, value: Argument | Dtype) -> int:
    if isinstance(value, int) and value > 0 and value % 8 == 0:
        return value
    allowed = "a positive multiple of 8"
    raise refusal(
        "atom-argument", operation=name, parameter=parameter, value=value, allowed=allowed
    )


def _plain(value: Argument | Dtype) -> Argument:
    return value if isinstance(value, (int, str)) else value.name
