"""Random numbers of element i, from i and a seed alone: the same on the host and in kernels.

Words are those of Philox4x32-10. Numbers are made of them by operations that IEEE 754 rounds
correctly, on NumPy arrays or on registers of a kernel: both give the same bits. Source: Salmon et
al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011; Box and Muller, 1958.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROUNDS = 10
FACTORS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85  # of the key, from round to round
LOW = 0xFFFFFFFF
TWO_PI = 6.283185307179586
LOG_2 = 0.6931471805599453
LOG_TERMS = 17  # of the series of atanh, for arguments up to 1/3: below 2**-53
SINE_TERMS = 11  # of the series of the sine, up to pi/2: below 2**-53


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[int | Any, Any]) -> tuple[Any, ...]:
    """Return the four 32-bit words of Philox4x32-10, all in unsigned 64-bit integers.

    Args:
        counter: four words, numbers, arrays or registers of u64.
        key: two words.

    >>> import numpy as np
    >>> zero = np.zeros(1, np.uint64)
    >>> [hex(int(word[0])) for word in philox((zero,) * 4, (zero, zero))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    a, b, c, d = counter
    k, m = key
    for i in range(ROUNDS):
        if i:
            k, m = (k + STEPS[0]) & LOW, (m + STEPS[1]) & LOW
        p, q = a * FACTORS[0], c * FACTORS[1]
        a, b, c, d = (q >> 32) ^ b ^ k, q & LOW, (p >> 32) ^ d ^ m, p & LOW
    return a, b, c, d


def pair(index: Any, key: tuple[Any, Any], to_f64: Any) -> tuple[Any, Any]:
    """Return two numbers of [0, 1), multiples of 2**-53, of the elements `index` (u64).

    Args:
        index: numbers of elements.
        key: the two words of the seed, like `index`.
        to_f64: converts integers below 2**53 to f64.
    """
    none = index - index
    a, b, c, d = philox((index & LOW, index >> 32, none, none), key)
    words = (a << 21) ^ (b >> 11), (c << 21) ^ (d >> 11)
    return to_f64(words[0]) * 2.0**-53, to_f64(words[1]) * 2.0**-53


def normal(u: Any, v: Any, by: Any) -> Any:
    """Return a normally distributed number of two uniform ones (Box and Muller).

    Args:
        u: of [0, 1).
        v: of [0, 1).
        by: what has `where` and `sqrt`: numpy, or cute.
    """
    radius = by.sqrt(_log(1.0 - u, by) * -2.0)
    turn = v - 0.5
    quarter = 0.25 - by.where(turn < 0.0, -turn, turn)
    return radius * _sine(quarter * TWO_PI)


def _log(x: Any, by: Any) -> Any:
    """Return the logarithm of x in [2**-53, 1], by 2 atanh((x - 1) / (x + 1)) of [1/2, 1]."""
    shift = x - x
    for bits in (32, 16, 8, 4, 2, 1):
        small = x < 2.0**-bits
        x, shift = by.where(small, x * 2.0**bits, x), by.where(small, shift + bits, shift)
    s = (x - 1.0) / (x + 1.0)
    return s * _series([2.0 / (2 * k + 1) for k in range(LOG_TERMS)], s * s) - shift * LOG_2


def _sine(x: Any) -> Any:
    """Return the sine of x in [-pi/2, pi/2]."""
    factor, factors = 1.0, []
    for k in range(SINE_TERMS):
        factors.append(factor)
        factor /= -(2 * k + 2) * (2 * k + 3)
    return x * _series(factors, x * x)


def _series(factors: list[float], x: Any) -> Any:
    """Return the sum of factors[k] * x**k, by Horner's rule."""
    total = x * 0.0 + factors[-1]
    for factor in reversed(factors[:-1]):
        total = total * x + factor
    return total


def rounded(x: Any, bits: int, by: Any) -> Any:
    """Return x with so many fractional bits, halves away from zero.

    >>> import numpy as np
    >>> [float(x) for x in rounded(np.array([0.4, -0.375, 0.125]), 2, np)]
    [0.5, -0.5, 0.25]
    """
    scaled = x * 2.0**bits
    size = by.where(scaled < 0.0, -scaled, scaled)
    whole = by.floor(size)
    near = by.where(size - whole >= 0.5, whole + 1.0, whole)
    return by.where(scaled < 0.0, -near, near) * 2.0**-bits


def _uniform(u: Any, _v: Any, low: Any, high: Any, bits: int | None, by: Any) -> Any:
    """Return numbers from `low` to `high` of a number of [0, 1)."""
    values = u * (high - low) + low
    if bits is None:
        return values
    unit = 2.0**-bits
    least, most = by.floor(low * -(2.0**bits)) * -unit, by.floor(high * 2.0**bits) * unit
    values = rounded(values, bits, by)
    values = by.where(values < least, least, values)
    return by.where(values > most, most, values)


def _gaussian(u: Any, v: Any, mean: Any, stddev: Any, bits: int | None, by: Any) -> Any:
    """Return numbers of a mean and a standard deviation of two numbers of [0, 1)."""
    values = normal(u, v, by) * stddev + mean
    return values if bits is None else rounded(values, bits, by)


# operation -> its numbers: of a pair, two parameters, fractional bits (None: all), numpy or cute
RULES = {"tensor_fill_random_uniform": _uniform, "tensor_fill_random_gaussian": _gaussian}
