"""Whether the integers of a kernel fit the types that they become elements of.

A value that does not fit is never cut off: the emulator refuses the first one. What no run of the
kernel can make right is refused here, while it is traced.
"""

from __future__ import annotations

from cute_py.dtypes.table import b1
from cute_py.errors import refusal_here
from cute_py.integers.polynomial import constant, evaluate, symbols_of
from cute_py.integers.symbol_proofs import exception_to_leq
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import bounds_of
from cute_py.plan.functions import integers_of
from cute_py.trace.state import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype
    from cute_py.integers.polynomial import Polynomial
    from cute_py.plan.conditions import Scalar


def require_fit(value: Scalar, kind: Dtype, operation: str, place: int = 0) -> None:
    """Refuse an integer that becomes an element of a type whose range it surely leaves: by its
    bounds always, or for indices that all occur, where all threads come. Not all come to what
    `where` selects. A flag is whether an integer is not 0.

    Args:
        value: the integer.
        kind: the type.
        operation: a function of registers, or in words what takes the element.
        place: the number of the operand.

    """
    least, most = integers_of(kind, operation, place)
    low, high = bounds_of(value)
    inside = low is not None and high is not None and least <= low and high <= most
    if inside or kind is b1:
        return
    if high is not None and high < least:
        found = f"at most {high}"
    elif low is not None and low > most:
        found = f"at least {low}"
    else:
        found = "" if operation == "where" else _occurring(terms_of(value), least, most)
    if found:
        facts = {"value": value, "dtype": kind, "found": found, "low": least, "high": most}
        keep = "" if kind.is_float else f'x.to("{kind}", wrap=True) keeps the low bits, and '
        facts |= {"wide": '"f64"' if kind.is_float else '"s64"', "keep": keep}
        raise refusal_here("kernel-fit", operation=operation, **facts)


def _occurring(p: Polynomial, least: int, most: int) -> str:
    """Return a value out of range that a thread surely has, and where; "" if none is known."""
    trace = current()
    if not trace.scope.whole or any(s.name not in trace.every for s in symbols_of(p)):
        return ""
    for a, b in ((constant(least), p), (p, constant(most))):
        point = exception_to_leq(a, b)
        if point is not None:
            at = ", ".join(f"{s.name}={point[s.name] * s.multiple_of}" for s in symbols_of(p))
            return f"{evaluate(p, point)} for {at}"
    return ""
