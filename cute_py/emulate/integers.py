"""Integers of a plan: signed, of 64 bits, as on a GPU.

Where all threads agree on a value it is a Python integer, which has no end; else NumPy's int64. So
a Python integer is wrapped around wherever a GPU would see more than its lower 64 bits: in what is
divided, compared, shifted and kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.emulate.spans import Value

BITS = 64
_LEAST, _END = -(1 << (BITS - 1)), 1 << (BITS - 1)


def wrapped(x: Value) -> Value:
    """Return the signed integer with the same lower 64 bits; arrays are int64 already.

    >>> wrapped(2**63), wrapped(-1)
    (-9223372036854775808, -1)
    """
    if isinstance(x, np.ndarray) or _LEAST <= x < _END:
        return x
    return (int(x) - _LEAST) % (1 << BITS) + _LEAST


def floor(a: Value, b: Value) -> Value:
    """Return a // b, rounded down."""
    return wrapped(wrapped(a) // wrapped(b))


def rest(a: Value, b: Value) -> Value:
    """Return a % b, with the sign of b."""
    return wrapped(a) % wrapped(b)


def least(*values: Value) -> Value:
    """Return the least, entry by entry."""
    held = [wrapped(value) for value in values]
    if any(isinstance(value, np.ndarray) for value in held):
        result = held[0]
        for value in held[1:]:
            result = np.minimum(result, value)
        return result
    return min(held)


def greatest(*values: Value) -> Value:
    """Return the greatest, entry by entry."""
    return -least(*(-value for value in values))


def ceil_div(a: Value, b: Value) -> Value:
    """Return a / b, rounded up."""
    return floor(a + b - 1, b)


def _shl(a: Value, b: Value) -> Value:
    """Return a << b; 0 for counts outside of 0 to 63, as in registers."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.left_shift(*_arrays(a, b))
    return wrapped(a << b) if 0 <= b < BITS else 0


def _shr(a: Value, b: Value) -> Value:
    """Return a >> b with the sign of a; 0 or -1 for counts outside of 0 to 63."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.right_shift(*_arrays(a, b))
    return a >> (b if 0 <= b < BITS else BITS)


def _arrays(a: Value, b: Value) -> tuple[Value, Value]:
    return np.asarray(a, np.int64), np.asarray(b, np.int64)


BITWISE: dict[str, Callable[[Value, Value], Value]] = {
    "xor": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "shl": _shl,
    "shr": _shr,
}
