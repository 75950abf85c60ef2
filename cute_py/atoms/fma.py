"""UniversalFMA: one multiply-add by one thread, of any dtypes; a template over D, A, B and C.

Source: cutlass include/cute/arch/mma.hpp and atom/mma_traits.hpp (`UniversalFMA`).
"""

from __future__ import annotations

from cute_py.atoms.arch import ARCHS
from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.table import dtype
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype

_ONE = Layout((1, 1), (0, 0))
NAMES = ("UniversalFMA",)
PARAMETERS = ("d", "a", "b", "c")


def parameters(name: str) -> tuple[str, ...]:
    """Return the template parameters of a row, in CuTe's order.

    >>> parameters("UniversalFMA")
    ('d', 'a', 'b', 'c')
    """
    return PARAMETERS


def row(name: str, **types: Dtype | str) -> MMA_Atom:
    """Return UniversalFMA for these dtypes.

    Args:
        name: "UniversalFMA".
        types: dtypes or their names: d (f32 if left out), a (d), b (a), c (d).

    >>> print(row("UniversalFMA", d="f32", a="f16").b_type, row("UniversalFMA"))
    f16 UniversalFMA<f32,f32,f32,f32>
    """
    d = dtype(types.get("d", "f32"))
    a = dtype(types.get("a", d))
    b = dtype(types.get("b", a))
    c = dtype(types.get("c", d))
    return MMA_Atom(
        name,
        (1, 1, 1),
        Layout(1, 0),
        (_ONE, _ONE, _ONE),
        (d, a, b, c),
        args=(d.name, a.name, b.name, c.name),
        min_arch=ARCHS[0],
        source="cute/arch/mma.hpp",
    )
