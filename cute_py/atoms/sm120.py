"""SM120 (Blackwell) `mma.sync` of 8-, 6- and 4-bit floats, as data for exploration: not runnable.

CuTe's value types of A and B are the containers, u8 or u4; the template arguments are the types
proper. `extra` holds the layouts of the block scales ("sfa_tv", "sfb_tv"), and of the metadata and
the stored half of a sparse A ("e_tv", "stored_tv"). Source: cutlass include/cute/atom/
mma_traits_sm120.hpp and mma_traits_sm120_sparse.hpp.
"""

from __future__ import annotations

from cute_py.atoms.fragments import WARP, fragment
from cute_py.atoms.mma import MMA_Atom
from cute_py.atoms.sparse import metadata, stored
from cute_py.dtypes.table import dtype, u4, u8
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.atoms.mma import Argument
    from cute_py.dtypes.table import Dtype

# name -> K, default types of A and B
_ROWS = {
    "SM120_16x8x32_TN": (32, "e4m3"),
    "SM120_16x8x32_TN_VS": (32, "e4m3"),
    "SM120_16x8x64_TN_VS": (64, "e2m1"),
    "SM120_SPARSE_16x8x64_TN": (64, "e4m3"),
}
NAMES = tuple(_ROWS)


def parameters(name: str) -> tuple[str, ...]:
    """Return the template parameters of a row, in CuTe's order.

    >>> parameters("SM120_16x8x64_TN_VS")
    ('a', 'b', 'c', 'sf', 'VS')
    """
    return ("a", "b", "c", "sf", "VS") if name.endswith("_VS") else ("a", "b", "c")


def row(name: str, **given: Argument | Dtype) -> MMA_Atom:
    """Return the row for these template arguments.

    Args:
        name: CuTe's name.
        given: a, b, c, sf: dtypes or their names; VS: elements that share a scale.

    >>> print(row("SM120_16x8x32_TN", a="e2m1", b="e5m2"))
    SM120_16x8x32_TN<e2m1,e5m2,f32>
    """
    k, default = _ROWS[name]
    bound = {"a": default, "b": default, "c": "f32", "sf": "ue8m0", "VS": 32, **given}
    c = dtype(bound["c"])  # type: ignore[arg-type]
    container = u4 if name.startswith("SM120_16x8x64") else u8
    sparse = "SPARSE" in name
    return MMA_Atom(
        name,
        (16, 8, k),
        WARP,
        # Of a sparse A, the lanes hold the places of 4 adjacent elements in 16 bits.
        (fragment(16, k, k // 8), _b_tv(k, sparse), fragment(16, 8, 2)),
        (c, container, container, c),
        args=tuple(_plain(bound[each]) for each in parameters(name)),
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


def _plain(value: Argument | Dtype) -> Argument:
    return value if isinstance(value, (int, str)) else dtype(value).name
