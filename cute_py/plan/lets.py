"""The bounds of integers that `Let` names, from those of their operands."""

from __future__ import annotations

from cute_py.integers.symbol_bounds import bounds
from cute_py.integers.symbols import terms_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.plan.conditions import Scalar

BITS = 64  # of the integers of a plan, which are signed
MOST = (1 << (BITS - 1)) - 1


def bounds_of(x: Scalar) -> tuple[int | None, int | None]:
    """Return the least and the greatest value of a scalar, None for no bound."""
    return (x, x) if isinstance(x, int) else bounds(terms_of(x))


def let_bounds(kind: str, a: Scalar, b: Scalar) -> tuple[int | None, int | None]:
    """Return bounds of `a kind b`; none where it may leave 64 bits, and so wrap around.

    >>> let_bounds("xor", 5, 9), let_bounds("and", 12, 7), let_bounds("shl", 1, 63)
    ((0, 15), (0, 7), (None, None))
    """
    (low_a, high_a), (low_b, high_b) = bounds_of(a), bounds_of(b)
    if low_a is None or low_b is None or low_a < 0 or low_b < 0:
        return None, None
    if kind == "and":
        known = [high for high in (high_a, high_b) if high is not None]
        return 0, min(known, default=None)
    if kind == "shl":
        if high_a is None or high_b is None or high_b >= BITS or high_a << high_b > MOST:
            return None, None
        return low_a << low_b, high_a << high_b
    if high_a is None or high_b is None:
        return 0, None
    if kind == "shr":
        return low_a >> high_b, high_a >> low_b
    return 0, (1 << max(high_a, high_b).bit_length()) - 1
