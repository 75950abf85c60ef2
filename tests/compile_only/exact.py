"""What PTX says of conversions and fma, on bit images and in fractions: no code of cute_py.

Sources: PTX ISA, cvt and fma; IEEE 754; OCP 8-bit Floating Point Specification (e4m3, e5m2).
"""

from fractions import Fraction
from functools import cache, partial

FORMATS = {  # bits of the exponent, bits of the mantissa
    "f64": (11, 52),
    "f32": (8, 23),
    "tf32": (8, 10),
    "f16": (5, 10),
    "bf16": (8, 7),
    "e5m2": (5, 2),
    "e4m3": (4, 3),
    "e2m1": (2, 1),
}
INFINITY = float("inf")


def bias(kind):
    return (1 << FORMATS[kind][0] - 1) - 1


def is_negative(image, kind):
    return image >> sum(FORMATS[kind]) & 1


def value(image, kind):
    """Return the number of an image: a Fraction, an infinity, or None for NaN."""
    width, m = FORMATS[kind]
    sign = -1 if is_negative(image, kind) else 1
    x, f = image >> m & ((1 << width) - 1), image & ((1 << m) - 1)
    if kind == "e4m3":
        if (x, f) == (15, 7):
            return None
    elif kind == "e2m1":
        pass
    elif x == (1 << width) - 1:
        return None if f else sign * INFINITY
    whole = f if x == 0 else f + (1 << m)
    return sign * whole * Fraction(2) ** (max(x, 1) - bias(kind) - m)


def rounded(x, rounding, negative):
    """Return a Fraction that is not negative, with a sign beside it, as an integer."""
    n, rest = divmod(x, 1)
    half = Fraction(1, 2)
    up = {
        "rn": rest > half or (rest == half and n % 2),
        "rna": rest >= half,
        "rz": False,
        "rd": rest and negative,
        "ru": rest and not negative,
    }
    return int(n) + bool(up[rounding])


def ends(kind):
    """Return the images of the greatest number, of what is beyond, and of NaN."""
    width, m = FORMATS[kind]
    if kind == "e4m3":
        return 0x7E, 0x7F, 0x7F
    if kind == "e2m1":
        return 7, 7, 7
    infinity = ((1 << width) - 1) << m
    return infinity - 1, infinity, infinity | ((1 << m) - 1)


def image(x, kind, rounding="rn", finite=False, negative=None):
    """Return the image of a number; what is beyond stays finite where asked."""
    width, m = FORMATS[kind]
    most, beyond, nan = ends(kind)
    if x is None:
        return nan
    negative = x < 0 if negative is None else negative
    sign = int(negative) << (width + m)
    if x in (INFINITY, -INFINITY):
        return sign | (most if finite else beyond)
    x = abs(x)
    least = 1 - bias(kind)
    exponent = least
    if x:
        exponent = max(least, x.numerator.bit_length() - x.denominator.bit_length() - 1)
        exponent += x >= Fraction(2) ** (exponent + 1)
    found = rounded(x / Fraction(2) ** (exponent - m), rounding, negative)
    found += (exponent - least) << m  # a carry goes into the exponent
    if found <= most:
        return sign | found
    inward = {"rz": True, "rd": not negative, "ru": negative}.get(rounding, False)
    return sign | (most if finite or inward else beyond)


@cache
def float_to_float(source, target, rounding, x, finite=False):
    found = value(x, source)
    return image(found, target, rounding, finite, bool(is_negative(x, source)))


def float_to_integer(source, target, rounding, x):
    """NaN is 0, but from and to 64 bits the highest bit: measured, the PTX ISA does not tell."""
    bits, found = int(target[1:]), value(x, source)
    low, high = (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if target[0] == "s" else (0, (1 << bits) - 1)
    )
    if found is None:
        n = 1 << bits - 1 if source == "f64" or bits == 64 else 0
    elif found in (INFINITY, -INFINITY):
        n = high if found > 0 else low
    else:
        n = rounded(abs(found), rounding, found < 0) * (-1 if found < 0 else 1)
        n = min(max(n, low), high)
    return n % (1 << max(32, bits))


def integer_to_float(source, target, rounding, x):
    bits = int(source[1:])
    n = x % (1 << bits)
    n -= (source[0] == "s" and n >> bits - 1) << bits
    return image(Fraction(n), target, rounding)


def fma(kind, a, b, c):
    x, y, z = (value(i, kind) for i in (a, b, c))
    minus = is_negative(a, kind) != is_negative(b, kind)
    if None in (x, y, z):
        return image(None, kind)
    if any(abs(i) == INFINITY for i in (x, y)):
        product = None if 0 in (x, y) else -INFINITY if minus else INFINITY
        clash = product is None or z == -product
        return image(None if clash else product, kind)
    if abs(z) == INFINITY:
        return image(z, kind)
    total = x * y + z
    both = minus and is_negative(c, kind)  # a sum of zeros is negative where both are
    return image(total, kind, negative=bool(both) if total == 0 else None)


def packed(kind, high, low):
    """cvt.satfinite of two f32 to a pair of 8 bits each."""
    high, low = (float_to_float("f32", kind, "rn", x, finite=True) for x in (high, low))
    return high << 8 | low


def unpacked(kind, pair):
    """cvt of a pair of 8 bits each to one of f16."""
    high, low = (float_to_float(kind, "f16", "rn", x) for x in (pair >> 8 & 0xFF, pair & 0xFF))
    return high << 16 | low


def pairs(function):
    """A function of images, on both halves of words."""

    def both(*words):
        high, low = (function(*(w >> shift & 0xFFFF for w in words)) for shift in (16, 0))
        return high << 16 | low

    return both


def arithmetic(kind, fn):
    """Sums, differences and products of images as fma: a*1 + b, b*-1 + a, a*b + -0."""
    minus = 1 << sum(FORMATS[kind])
    one = bias(kind) << FORMATS[kind][1]
    return {
        "add": lambda a, b: fma(kind, a, one, b),
        "sub": lambda a, b: fma(kind, b, one | minus, a),
        "mul": lambda a, b: fma(kind, a, b, minus),
        "min": lambda a, b: least(kind, a, b, min),
        "max": lambda a, b: least(kind, a, b, max),
        "min_nan": lambda a, b: least(kind, a, b, min, propagate=True),
        "max_nan": lambda a, b: least(kind, a, b, max, propagate=True),
    }[fn]


def least(kind, a, b, chosen, propagate=False):
    """The lesser or greater of two; a number rather than NaN or, with .NaN, NaN; -0 below 0."""
    x, y = value(a, kind), value(b, kind)
    if propagate and None in (x, y):
        return image(None, kind)
    if x is None or y is None:
        return image(None, kind) if x is y else b if x is None else a
    return chosen((x, -is_negative(a, kind), a), (y, -is_negative(b, kind), b))[2]


def paired(kind, fn):
    return pairs(partial(fma, kind) if fn == "fma" else arithmetic(kind, fn))


def pair_of(kind, high, low):
    """cvt of two f32 to a pair of 16 bits each."""
    high, low = (float_to_float("f32", kind, "rn", x) for x in (high, low))
    return high << 16 | low


def permuted(a, b, selector):
    """prmt of two words; the top bit of a digit repeats the sign of its byte."""
    found = 0
    for i in range(4):
        digit = selector >> 4 * i & 15
        byte = (b << 32 | a) >> 8 * (digit & 7) & 0xFF
        found |= (0xFF * (byte >> 7) if digit & 8 else byte) << 8 * i
    return found


def logic(table, *words):
    """lop3: of each three bits, the bit of the table."""
    found = 0
    for i in range(32):
        a, b, c = (w >> i & 1 for w in words)
        found |= (table >> (a << 2 | b << 1 | c) & 1) << i
    return found


def instruction(name, modes):
    """Return the function of a row of instructions on images; None where there is none here."""
    found = {
        "cvt.f32.f16": lambda: partial(float_to_float, "f16", "f32", "rn"),
        "cvt.f32.f64": lambda: partial(float_to_float, "f64", "f32", modes["rounding"]),
        "cvt.f16": lambda: partial(float_to_float, modes["src"], "f16", modes["rounding"]),
        "cvt.bf16.f32": lambda: partial(float_to_float, "f32", "bf16", modes["rounding"]),
        "cvt.rna.tf32.f32": lambda: lambda x: float_to_float("f32", "tf32", "rna", x) << 13,
        "cvt.satfinite.e4m3x2.f32": lambda: partial(packed, modes["type"]),
        "cvt.f16x2.e4m3x2": lambda: partial(unpacked, modes["type"]),
        "cvt.float.int": lambda: partial(
            integer_to_float, modes["src"], modes["dst"], modes["rounding"]
        ),
        "cvt.int.float": lambda: partial(
            float_to_integer, modes["src"], modes["dst"], modes["rounding"]
        ),
        "fma": lambda: partial(fma, modes["type"]),
        "fma.bf16": lambda: partial(fma, "bf16"),
        "cvt.pair.f32": lambda: partial(pair_of, modes["type"]),
        "min.nan": lambda: arithmetic("f32", f"{modes['fn']}_nan"),
        "lop3": lambda: partial(logic, modes["table"]),
        "prmt": lambda: permuted,
        **{
            f"{fn}.{kind}x2": partial(paired, kind, modes.get("fn", fn))
            for kind in ("f16", "bf16")
            for fn in ("add", "min", "fma")
        },
    }.get(name)
    return None if found is None else found()
