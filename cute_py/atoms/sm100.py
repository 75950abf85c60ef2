"""SM100 and SM120 (Blackwell) rows, as data for exploration: not runnable. Most are templates.

Source: cutlass include/cute/atom/mma_traits_sm100.hpp, mma_traits_sm120.hpp and
mma_traits_sm120_sparse.hpp; PTX ISA, "TensorCore 5th Generation Family Instructions".
"""

from __future__ import annotations

from cute_py.atoms.fragments import WARP, fragment
from cute_py.atoms.mma import MMA_Atom
from cute_py.atoms.sparse import metadata, stored
from cute_py.dtypes.table import dtype, u4, u8
from cute_py.errors import refusal
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.atoms.mma import Argument
    from cute_py.dtypes.table import Dtype

# -- SM100: two multiply-adds of f32 by one thread, in one instruction


def _pair(m: int, n: int) -> MMA_Atom:
    pair, one = Layout((1, 2), (0, 1)), Layout((1, 1), (0, 0))
    return MMA_Atom(
        f"SM100_{m}x{n}x1_F32F32F32F32",
        (m, n, 1),
        Layout(1, 0),
        (pair if m == 2 else one, pair if n == 2 else one, pair),
        (dtype("f32"),) * 4,
        min_arch="sm_100",
        source="cute/arch/mma_sm100.hpp, atom/mma_traits_sm100.hpp",
        runnable=False,
    )


_PAIRS = {row.name: row for row in (_pair(2, 1), _pair(1, 2))}


# -- SM100: tcgen05, without PTX text. A comes from shared (SS) or tensor memory (TS), C stays in
# tensor memory. One CTA (1SM) or a pair (2x1SM), which the thread layout counts, shares the tile:
# halves of M for A and C, halves of N for B

# kind -> K, default types of A, B and C, whether blocks are scaled
_KINDS = {
    "TF32": (8, "tf32 tf32 f32", False),
    "F16BF16": (16, "f16 f16 f32", False),
    "S8": (32, "s8 s8 s32", False),
    "F8F6F4": (32, "e4m3 e4m3 f32", False),
    "MXF8F6F4": (32, "e4m3 e4m3 f32", True),
    "MXF4": (64, "e2m1 e2m1 f32", True),
}
_TCGEN05_ROWS = {
    f"SM100_MMA_{kind}_{pair}{source}": (kind, bool(pair), source)
    for kind, (_, _, scaled) in _KINDS.items()
    for pair in ("", "2x1SM_")
    for source in (("SS",) if scaled else ("SS", "TS"))
}


def _tcgen05_parameters(name: str) -> tuple[str, ...]:
    """Return the template parameters of a row, in CuTe's order."""
    kind = _TCGEN05_ROWS[name][0]
    scale = ("sf",) if _KINDS[kind][2] else ()
    vector = ("VS",) if kind == "MXF4" else ()
    return ("a", "b", "c", *scale, "M", "N", *vector, "a_major", "b_major")


def _tcgen05_row(name: str, **given: Argument | Dtype) -> MMA_Atom:
    """Return the row for these template arguments; see `row`."""
    kind, pair, source = _TCGEN05_ROWS[name]
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
        args=tuple(_plain(bound[each]) for each in _tcgen05_parameters(name)),
        min_arch="sm_100a",
        source="cute/atom/mma_traits_sm100.hpp",
        runnable=False,
        memories=("smem" if source == "SS" else "tmem", "smem", "tmem"),
        majors=(str(bound["a_major"]), str(bound["b_major"])),
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


# -- SM120: `mma.sync` of 8-, 6- and 4-bit floats. CuTe's value types of A and B are the containers,
# u8 or u4; the template arguments are the element types. `extra` holds the layouts of the block
# scales ("sfa_tv", "sfb_tv"), and of the metadata and the stored half of a sparse A ("e_tv",
# "stored_tv")


# name -> K, default types of A and B
_WARP_ROWS = {
    "SM120_16x8x32_TN": (32, "e4m3"),
    "SM120_16x8x32_TN_VS": (32, "e4m3"),
    "SM120_16x8x64_TN_VS": (64, "e2m1"),
    "SM120_SPARSE_16x8x64_TN": (64, "e4m3"),
}


def _warp_parameters(name: str) -> tuple[str, ...]:
    """Return the template parameters of a row, in CuTe's order."""
    return ("a", "b", "c", "sf", "VS") if name.endswith("_VS") else ("a", "b", "c")


def _warp_row(name: str, **given: Argument | Dtype) -> MMA_Atom:
    """Return the row for these template arguments; see `row`."""
    k, default = _WARP_ROWS[name]
    bound = {"a": default, "b": default, "c": "f32", "sf": "ue8m0", "VS": 32, **given}
    c = dtype(bound["c"])  # type: ignore[arg-type]
    container = u4 if name.startswith("SM120_16x8x64") else u8
    sparse = "SPARSE" in name
    return MMA_Atom(
        name,
        (16, 8, k),
        WARP,
        # For a sparse A, 16 bits in a lane stand for 4 adjacent elements.
        (fragment(16, k, k // 8), _b_tv(k, sparse), fragment(16, 8, 2)),
        (c, container, container, c),
        args=tuple(_plain(bound[each]) for each in _warp_parameters(name)),
        min_arch="sm_120a",
        source="cute/atom/mma_traits_sm120.hpp",
        runnable=False,
        extra=_extra(name, k),
    )


def _b_tv(k: int, sparse: bool) -> Layout:
    return fragment(8, k, 4 if sparse else k // 8)


def _extra(name: str, k: int) -> tuple[tuple[str, Layout], ...]:
    if "SPARSE" in name:
        return (("e_tv", metadata(16, k, u8)), ("stored_tv", stored(16, k, u8)))
    if not name.endswith("_VS"):
        return ()
    return (
        ("sfa_tv", Layout(((2, 2, 8), k), ((8, 0, 1), 16))),
        ("sfb_tv", Layout(((4, 8), k), ((0, 1), 8))),
    )


# -- the interface of the registry

NAMES = (*_PAIRS, *_TCGEN05_ROWS, *_WARP_ROWS)


def parameters(name: str) -> tuple[str, ...]:
    """Return the template parameters of a row, in CuTe's order.

    >>> parameters("SM100_MMA_MXF4_SS")
    ('a', 'b', 'c', 'sf', 'M', 'N', 'VS', 'a_major', 'b_major')
    >>> parameters("SM120_16x8x64_TN_VS")
    ('a', 'b', 'c', 'sf', 'VS')
    """
    if name in _PAIRS:
        return ()
    return _tcgen05_parameters(name) if name in _TCGEN05_ROWS else _warp_parameters(name)


def row(name: str, **given: Argument | Dtype) -> MMA_Atom:
    """Return the row for these template arguments.

    Args:
        name: CuTe's name.
        given: a, b, c, sf: dtypes or their names; VS: elements that share a scale; for SM100 also
            M, N: extents of the whole tile; a_major, b_major: "K" or "MN".

    >>> print(row("SM100_MMA_F16BF16_2x1SM_SS", M=256, N=64).b_tv)
    (2,(32,16)):(32,(1,64))
    >>> print(row("SM120_16x8x32_TN", a="e2m1", b="e5m2"))
    SM120_16x8x32_TN<e2m1,e5m2,f32>
    """
    if name in _PAIRS:
        return _PAIRS[name]
    return _tcgen05_row(name, **given) if name in _TCGEN05_ROWS else _warp_row(name, **given)
