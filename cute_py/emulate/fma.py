"""a*b + c of f64, rounded once: NumPy has no such function.

Product and sums are taken apart into what is rounded and the exact rest; the rests are added by
rounding to odd. Source: S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums:
proved algorithms using rounding to odd". Where a rest may be too small or too large for f64, the
sum is computed in fractions.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np

from cute_py.emulate.spans import Array

_SPLIT = 134217729.0  # 2**27 + 1
_LEAST, _MOST = 2.0**-900, 2.0**900  # of numbers whose rests are exact


def fma_double(a: Array, b: Array, c: Array) -> Array:
    """Return a*b + c of arrays of f64 with one rounding."""
    a, b, c = np.broadcast_arrays(*[np.asarray(x, np.float64) for x in (a, b, c)])
    with np.errstate(all="ignore"):
        high, low = _product(a, b)
        found = high + c
        none = (a == 0) | (b == 0)
        open_ = ((low != 0) | _far(high) | (high == 0)) & ~none
        if not open_.any():  # the product is exact
            return found
        middle, rest = _sum(c, low)
        top, below = _sum(high, middle)
        once = top + _odd_sum(below, rest)
        open_ &= np.isfinite(a) & np.isfinite(b)
        found = np.where(open_ & np.isfinite(c), once, np.where(open_, c, found))
        open_ &= np.isfinite(c) & (_far(a) | _far(b) | _far(c) | _far(high) | (high == 0))
    for where in map(tuple, np.argwhere(open_)):
        found[where] = _by_fractions(*[float(x[where]) for x in (a, b, c)])
    return found


def _far(x: Array) -> Array:
    size = np.abs(x)
    return (size > _MOST) | (size < _LEAST) & (size != 0)


def _sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a + b, and what it was rounded by."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a * b, and what it was rounded by; a number is split into two of 26 bits each."""
    p = a * b
    (x, u), (y, v) = _halves(a), _halves(b)
    return p, u * v - (((p - x * y) - u * y) - x * v)


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = _SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def _odd_sum(a: Array, b: Array) -> Array:
    """Return a + b rounded to odd: of an inexact sum the neighbour with an odd last bit."""
    s, error = _sum(a, b)
    image = np.array(s).view(np.int64)
    change = (error != 0) & (image & 1 == 0)
    image += np.where(change, np.where((error > 0) == (s > 0), 1, -1), 0)
    return image.view(np.float64)


def _by_fractions(a: float, b: float, c: float) -> float:
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return a * b + c
    try:
        return float(total)
    except OverflowError:
        return inf if total > 0 else -inf
