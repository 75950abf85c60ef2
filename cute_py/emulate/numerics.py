"""Arithmetic as the GPU rounds it: the functions of `Map` and `Reduce`, and conversions.

f32 and f64 are NumPy's own. f16 and bf16 are computed in f32 and rounded to nearest even after each
operation, which is exact for + - * / and sqrt; but products of bf16, the least of which f32 would
round before, are computed in f64. fma rounds once. The approximate functions (exp2,
tanh, rsqrt ...) are those of NumPy, closer than the GPU's special-function unit.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import erf, erfc, inf
from typing import Any

import numpy as np

from cute_py.dtypes.conversion import convert
from cute_py.dtypes.table import Dtype, bf16, f16, f32, f64
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.spans import Array
from cute_py.plan.functions import FUNCTIONS

_NARROW = 0x1FFFFFFF, 0x10000000  # of a float64: the bits that f32 drops, and the tie among them


def widened(values: Array, dtype: Dtype) -> Array:
    """Return bf16 or f16 values (or narrower floats) as f32; others as they are."""
    if dtype is bf16:
        image = values.view(np.uint16).astype(np.uint32)
        image <<= np.uint32(16)
        return image.view(np.float32)
    return values.astype(np.float32) if dtype.is_float and dtype.bits < 32 else values


def converted(
    values: Array, source: Dtype, target: Dtype, rounding: str = "rn", saturate: bool = False
) -> Array:
    """Return values of one dtype in another, each rounded once."""
    if source is target and not saturate:
        return values
    if target is f32 and source in (f16, bf16) and not saturate:
        return widened(values, source)
    fast = rounding == "rn" and not saturate and source is f32 and target in (f16, bf16)
    if fast and not np.isnan(values).any():
        return values.astype(numpy_type(target))
    return np.asarray(convert(values, target, rounding, saturate))


def numeric(values: Array, dtype: Dtype) -> Array:
    """Return values as float64 for a matrix instruction; of tf32 the low 13 bits are ignored."""
    if dtype.name == "tf32":
        values = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return widened(values, dtype).astype(np.float64)


def fma(a: Array, b: Array, c: Array, dtype: Dtype) -> Array:
    """Return a*b + c with one rounding, for float arrays in f32 (also for f16, bf16) or f64.

    The product of two f32 is exact in f64, the sum is rounded there. Rounding that again differs
    from rounding once only where the sum was inexact and looks like a tie; those are made odd.
    """
    if dtype is f64:
        return fma_double(a, b, c)
    p = np.multiply(a, b, dtype=np.float64)
    s = p + c
    if dtype.bits == 32:  # tf32, too: its arithmetic is that of f32
        if ((s.view(np.int64) & _NARROW[0]) == _NARROW[1]).any():
            s = _odd(s, p, c)
        return s.astype(np.float32)
    return np.asarray(convert(_odd(s, p, c), dtype))


def _odd(s: Array, p: Array, c: Array) -> Array:
    """Return s = p + c rounded to odd: of an inexact sum the neighbour with an odd last bit."""
    c = np.asarray(c, np.float64)
    t = s - p
    error = (p - (s - t)) + (c - t)
    image = s.view(np.int64).copy()
    away = (error > 0) == (s > 0)
    even = (error != 0) & np.isfinite(s) & (image & 1 == 0)
    image += np.where(even, np.where(away, 1, -1), 0)
    return image.view(np.float64)


# -- a*b + c of f64, rounded once: NumPy has no such function
#
# Product and sums are taken apart into what is rounded and the exact rest; the rests are added by
# rounding to odd. Source: S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums:
# proved algorithms using rounding to odd". Where a rest may be too small or too large for f64, the
# sum is computed in fractions.

_SPLIT = 134217729.0  # 2**27 + 1
_LEAST, _MOST = 2.0**-900, 2.0**900  # of numbers whose rests are exact


def fma_double(a: Array, b: Array, c: Array) -> Array:
    """Return a*b + c of arrays of f64 with one rounding."""
    a, b, c = np.broadcast_arrays(*[np.asarray(x, np.float64) for x in (a, b, c)])
    with np.errstate(all="ignore"):
        high, low = _split_product(a, b)
        found = high + c
        none = (a == 0) | (b == 0)
        open_ = ((low != 0) | _far(high) | (high == 0)) & ~none
        if not open_.any():  # the product is exact
            return found
        middle, rest = _two_sum(c, low)
        top, below = _two_sum(high, middle)
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


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a + b, and what it was rounded by."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _split_product(a: Array, b: Array) -> tuple[Array, Array]:
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
    s, error = _two_sum(a, b)
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


# -- the functions of Map and Reduce


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(erf, 1, 1)(x), x.dtype)


def _gelu(x: Array) -> Array:
    wide = x.astype(np.float64)
    tail = np.asarray(np.frompyfunc(erfc, 1, 1)(wide * -(0.5**0.5)), np.float64)
    return np.asarray(wide * tail / 2, x.dtype)


def _where(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


def _rcp(x: Array) -> Array:
    return x.dtype.type(1) / x


def _rsqrt(x: Array) -> Array:
    return x.dtype.type(1) / np.sqrt(x)


def _least(a: Array, b: Array) -> Array:
    """Return the lesser; of zeros the negative one. Source: PTX ISA, min: -0.0 < +0.0."""
    found = np.asarray(np.fmin(a, b))
    if found.dtype.kind == "f" and (found == 0).any():
        zeros = (np.asarray(a) == 0) & (np.asarray(b) == 0)
        found = np.where(zeros & np.signbit(a), a, found)
        return np.where(zeros & np.signbit(b), b, found)
    return found


def _greatest(a: Array, b: Array) -> Array:
    """Return the greater; of zeros the positive one."""
    found = np.asarray(np.fmax(a, b))
    if found.dtype.kind == "f" and (found == 0).any():
        zeros = (np.asarray(a) == 0) & (np.asarray(b) == 0)
        found = np.where(zeros & ~np.signbit(a), a, found)
        return np.where(zeros & ~np.signbit(b), b, found)
    return found


def _or_nan(rule: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), a + b, rule(a, b))


def _bits(x: Array, bits: int) -> Array:
    """Return the bits of integers along a new last mode, the lowest first."""
    held = np.asarray(x).astype(np.int64)[..., None].view(np.uint8)
    return np.unpackbits(held, axis=-1, count=bits, bitorder="little")


def _popc(x: Array, bits: int) -> Array:
    return np.asarray(_bits(x, bits).sum(-1)).astype(x.dtype)


def _clz(x: Array, bits: int) -> Array:
    return np.asarray((np.cumsum(_bits(x, bits)[..., ::-1], -1) == 0).sum(-1)).astype(x.dtype)


def _brev(x: Array, bits: int) -> Array:
    places = np.uint64(1) << np.arange(bits, dtype=np.uint64)
    return np.asarray((_bits(x, bits)[..., ::-1] * places).sum(-1)).astype(x.dtype)


# NumPy's shifts by the width or more give 0, or the sign


def _bfe(x: Array, pos: Array, count: Array, bits: int) -> Array:
    wide = x.astype(np.int64 if x.dtype.kind == "i" else np.uint64)
    first, n = (each.astype(np.int64) & 255 for each in (pos, count))
    away = np.maximum(64 - n, 0).astype(wide.dtype)
    return (wide >> first.astype(wide.dtype) << away >> away).astype(x.dtype)


def _bfi(x: Array, y: Array, pos: Array, count: Array, bits: int) -> Array:
    first, n = (each.astype(np.uint64) & np.uint64(255) for each in (pos, count))
    mask = (np.uint64(1) << n) - np.uint64(1) << first
    kept = y.astype(np.uint64) & ~mask
    return (kept | x.astype(np.uint64) << first & mask).astype(y.dtype)


def _prmt(a: Array, b: Array, selector: Array) -> Array:
    both = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    found = np.zeros(np.broadcast_shapes(both.shape, selector.shape), np.uint32)
    for i in range(4):
        chosen = selector.astype(np.uint64) >> np.uint64(4 * i)
        byte = (both >> np.uint64(8) * (chosen & np.uint64(7))).astype(np.uint8)
        sign = (byte.view(np.int8) >> 7).view(np.uint8)
        byte = np.where(chosen & np.uint64(8), sign, byte)
        found |= byte.astype(np.uint32) << np.uint32(8 * i)
    return found.view(a.dtype)


def _lop3(a: Array, b: Array, c: Array, table: Array) -> Array:
    found = np.zeros_like(a & b & c)
    for i in range(8):
        chosen = [x if i & bit else ~x for x, bit in ((a, 4), (b, 2), (c, 1))]
        found |= np.where(table >> i & 1, chosen[0] & chosen[1] & chosen[2], found.dtype.type(0))
    return found


RULES: dict[str, Callable[..., Any]] = {
    "copy": lambda x: x,
    "neg": np.negative,
    "abs": np.abs,
    "not": np.invert,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "fma": lambda a, b, c: np.asarray(a * b + c),
    "min": _least,
    "max": _greatest,
    "min_nan": _or_nan(_least),
    "max_nan": _or_nan(_greatest),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "where": _where,
    "sqrt": np.sqrt,
    "exp2": np.exp2,
    "exp": np.exp,
    "log2": np.log2,
    "log": np.log,
    "tanh": np.tanh,
    "rsqrt": _rsqrt,
    "rcp": _rcp,
    "sin": np.sin,
    "cos": np.cos,
    "erf": _erf,
    "gelu": _gelu,
    "floor": np.floor,
    "ceil": np.ceil,
    "popc": _popc,
    "clz": _clz,
    "brev": _brev,
    "bfe": _bfe,
    "bfi": _bfi,
    "prmt": _prmt,
    "lop3": _lop3,
}


def function(name: str, dtype: Dtype) -> Callable[..., Array]:
    """Return a function of `functions.FUNCTIONS` on arrays of one dtype."""
    if name == "fma" and dtype.is_float:
        return _fma_of(dtype)
    rule, row = RULES[name], FUNCTIONS[name]
    if row.sized:
        rule = partial(rule, bits=dtype.bits)
    if row.moves or dtype.bits >= 32 or (dtype.is_integer and dtype.bits >= 8):
        return rule
    if dtype.is_integer:
        return _wrapping(rule, dtype, name)
    if dtype.is_float:
        return _narrow(rule, dtype, name)
    return np.logical_not if name == "not" else rule


def _fma_of(dtype: Dtype) -> Callable[..., Array]:
    return lambda a, b, c: fma(widened(a, dtype), widened(b, dtype), widened(c, dtype), dtype)


def _narrow(rule: Callable[..., Any], dtype: Dtype, name: str) -> Callable[..., Array]:
    if FUNCTIONS[name].compares:
        return lambda *values: np.asarray(rule(*(widened(value, dtype) for value in values)))
    if name == "mul" and dtype is bf16:
        return lambda a, b: converted(widened(a, dtype) * np.float64(widened(b, dtype)), f64, dtype)
    return lambda *values: converted(
        np.asarray(rule(*(widened(value, dtype) for value in values))), f32, dtype
    )


def _wrapping(rule: Callable[..., Any], dtype: Dtype, name: str) -> Callable[..., Array]:
    if FUNCTIONS[name].compares:
        return rule
    return lambda *values: np.asarray(convert(rule(*values), dtype))
