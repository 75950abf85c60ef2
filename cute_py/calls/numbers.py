"""Numbers of Python and NumPy as elements of a type."""

from __future__ import annotations

from math import isfinite

from cute_py.calls.places import where
from cute_py.dtypes.table import b1
from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype


def number(x: object, kind: Dtype, name: str) -> int | float | bool:
    """Return a Python or NumPy number as one of a type; refuse what the type cannot hold."""
    if getattr(x, "ndim", 0):
        raise refusal("kernel-number", operation=name, value=x, dtype=kind, where=where())
    if hasattr(x, "item"):
        x = x.item()
    if kind is b1 and isinstance(x, bool):
        return x
    real = isinstance(x, (int, float)) and not isinstance(x, bool)
    if kind.is_float and real and _fits(x, kind):  # type: ignore[arg-type]
        return float(x)  # type: ignore[arg-type]
    if not kind.is_float and hasattr(x, "__index__") and not isinstance(x, bool):
        value = int(x)
        if kind.min <= value <= kind.max:
            return value
    raise refusal("kernel-number", operation=name, value=x, dtype=kind, where=where())


def _fits(x: float, kind: Dtype) -> bool:
    """Tell whether a number is infinite or NaN, or rounds to one that the type can hold."""
    return not isfinite(x) or abs(x) <= kind.max * (1 + 2**-25)
