"""Rounding on integer bit images: the arithmetic of `convert`, exact for every pair of types.

A number is split into (-1)^negative * mantissa * 2^exponent with a 64-bit integer mantissa, so that
every conversion rounds once, directly from the exact value. (A conversion through f32, as in
ml_dtypes from f64, rounds twice.) All functions work on one-dimensional NumPy arrays.
"""

from __future__ import annotations

from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Array, Dtype

# CUTLASS's FloatRoundStyle without its "round_"; the PTX modifier that is its other name, if any.
ROUNDINGS = {
    "indeterminate": "",  # free to choose; here as to_nearest
    "toward_zero": "rz",
    "to_nearest": "rn",  # ties to even
    "to_nearest_satfinite": "",  # to_nearest with saturate=True
    "toward_infinity": "rp",
    "toward_neg_infinity": "rm",
    "half_ulp_truncate": "rna",  # add half an ulp to the magnitude, truncate: ties away
    "half_ulp_trunc_dntz": "",  # the same, but subnormal results are truncated
}
_MODES = {
    **{name: name for name in ROUNDINGS},
    **{f"round_{name}": name for name in ROUNDINGS},
    **{ptx: name for name, ptx in ROUNDINGS.items() if ptx},
    "rd": "toward_neg_infinity",  # CUDA's suffixes for rm and rp
    "ru": "toward_infinity",
}


def rounding_mode(name: str | None, operation: str, source: Dtype, to: Dtype) -> str:
    """Return the key of `ROUNDINGS` for a name: the key itself, or the name in CUTLASS, PTX or
    CUDA. Without a name, floats become integers toward zero, as in C, and all else to nearest.

    Raises:
        DtypeError: there is no such rounding.

    >>> from cute_py.dtypes.table import f32, s32
    >>> rounding_mode("rna", "to", f32, s32), rounding_mode("round_toward_zero", "to", s32, f32)
    ('half_ulp_truncate', 'toward_zero')
    >>> rounding_mode(None, "to", f32, s32), rounding_mode(None, "to", s32, f32)
    ('toward_zero', 'to_nearest')
    """
    if name is None:
        return "toward_zero" if source.is_float and to.is_integer else "to_nearest"
    given: object = name  # from a user, so of any type
    mode = _MODES.get(given) if isinstance(given, str) else None
    if mode is not None:
        return mode
    raise refusal("rounding-unknown", operation=operation, value=name, fix=_nearest(name))


def _nearest(name: object) -> str:
    from difflib import get_close_matches

    near = get_close_matches(str(name).lower(), _MODES, n=1)
    return f"say {near[0]!r}" if near else "leave it out: ties to even, and toward zero to integers"


class Parts:
    """Split numbers: (-1)^negative * mantissa * 2^exponent, unless nan or inf is set.

    Attributes:
        negative: bool array.
        mantissa: uint64 array.
        exponent: int64 array.
        nan: bool array.
        inf: bool array.

    """

    __slots__ = ("exponent", "inf", "mantissa", "nan", "negative")

    def __init__(
        self, negative: Array, mantissa: Array, exponent: Array, nan: Array, inf: Array
    ) -> None:
        self.negative = negative
        self.mantissa = mantissa
        self.exponent = exponent
        self.nan = nan
        self.inf = inf


def split_float(image: Array, source: Dtype) -> Parts:
    """Split the bit images (unsigned array) of a floating-point type."""
    import numpy as np

    m, e = source.mantissa_bits, source.exponent_bits
    image = image.astype(np.uint64) >> padding(source)
    magnitude = image & ((1 << m + e) - 1)
    field = magnitude >> m
    normal = field != 0
    return Parts(
        negative=(image >> (m + e)) != 0,
        mantissa=(magnitude & ((1 << m) - 1)) | (normal.astype(np.uint64) << m),
        exponent=np.maximum(field.astype(np.int64), 1) - (source.bias + m),
        nan=magnitude > (source.inf_bits if source.special == "ieee" else source.max_bits),
        inf=(magnitude == source.inf_bits) & (source.special == "ieee"),
    )


def split_integer(values: Array) -> Parts:
    """Split an integer or bool array."""
    import numpy as np

    negative = values < 0
    wide = values if values.dtype == np.uint64 else values.astype(np.int64).view(np.uint64)
    none = np.zeros(values.shape, np.bool_)
    return Parts(
        negative, np.where(negative, ~wide + 1, wide), np.zeros(values.shape, np.int64), none, none
    )


def split_big(value: int) -> Parts:
    """Split one Python int of any size: its top 64 bits, with a sticky lowest bit."""
    import numpy as np

    size = abs(value)
    shift = max(size.bit_length() - 64, 0)
    sticky = int(size & ((1 << shift) - 1) != 0)
    none = np.zeros(1, np.bool_)
    return Parts(
        none | (value < 0),
        np.array([size >> shift | sticky], np.uint64),
        np.array([shift], np.int64),
        none,
        none,
    )


def to_float(parts: Parts, to: Dtype, mode: str, saturate: bool) -> Array:
    """Return the bit images (uint64) of the numbers rounded to the floating-point type `to`.

    NaN becomes the quiet NaN of `to` with the sign kept; for a type without NaN, its largest
    number, as PTX cvt does.
    """
    import numpy as np

    m, e = to.mantissa_bits, to.exponent_bits
    smallest = 1 - to.bias - m  # exponent of the smallest subnormal
    ulp = np.maximum(bit_length(parts.mantissa) + parts.exponent - (m + 1), smallest)
    kept = rounded(parts, ulp, mode, 1 << m)
    # The kept part of a normal number includes the implicit bit, which makes its exponent field ulp
    # - smallest + 1, and a carry out of the fraction increments the exponent field.
    image = (np.minimum(ulp - smallest, 1 << e).astype(np.uint64) << m) + kept
    beyond = (image > to.max_bits) | parts.inf
    limit = to.max_bits if saturate else _overflow(parts, to, mode)
    image = np.where(beyond, np.asarray(limit, np.uint64), image)
    negative = parts.negative & ~parts.nan if to.special == "finite" else parts.negative
    image = np.where(parts.nan, np.uint64(to.nan_bits), image)
    image |= negative.astype(np.uint64) << (m + e)
    return image << padding(to)


def to_integer(parts: Parts, to: Dtype, mode: str, nan_image: int) -> Array:
    """Return the two's complement images (uint64) of the numbers, rounded and clamped."""
    import numpy as np

    up_to = np.where(parts.negative, np.uint64(-to.min), np.uint64(to.max))
    size = rounded(parts, np.zeros_like(parts.exponent), mode, 0)
    beyond = (bit_length(parts.mantissa) + parts.exponent > 64) | parts.inf
    size = np.where(beyond, up_to, np.minimum(size, up_to))
    image = np.where(parts.negative, ~size + 1, size) & ((1 << to.bits) - 1)
    return np.where(parts.nan, np.uint64(nan_image), image)


def rounded(parts: Parts, ulp: Array, mode: str, normal: int) -> Array:
    """Return the magnitudes in units of 2^ulp, rounded to integers (uint64).

    A result that does not fit in 64 bits is garbage, which callers detect with `bit_length`.

    Args:
        parts: the numbers.
        ulp: exponent of the unit (int64 array).
        mode: a key of `ROUNDINGS`.
        normal: results below this many units are subnormal.

    """
    import numpy as np

    shift = ulp - parts.exponent
    # 63 stands for all larger shifts: for a float's mantissa (at most 53 bits) they are the same.
    left = np.clip(-shift, 0, 63).astype(np.uint64)
    right = np.clip(shift, 0, 63).astype(np.uint64)
    one = np.uint64(1)
    kept = (parts.mantissa << left) >> right
    rest = parts.mantissa & ((one << right) - one)
    half = np.maximum(
        (one << right) >> one, one
    )  # at least 1: without a shift, rest is 0, below half
    nearest: Array = kept + _rounds_up(parts, kept, rest, half, mode, normal)
    return nearest


def _rounds_up(
    parts: Parts, kept: Array, rest: Array, half: Array, mode: str, normal: int
) -> Array:
    """Return which magnitudes are rounded up, from the kept and the truncated bits."""
    import numpy as np

    if mode == "toward_zero":
        up = np.zeros(kept.shape, np.bool_)
    elif mode == "toward_infinity":
        up = (rest != 0) & ~parts.negative
    elif mode == "toward_neg_infinity":
        up = (rest != 0) & parts.negative
    elif mode == "half_ulp_truncate":
        up = rest >= half
    elif mode == "half_ulp_trunc_dntz":
        up = (rest >= half) & (kept >= np.uint64(normal))
    else:  # to nearest: a tie (rest == half) goes up from odd to even
        up = rest + (kept & np.uint64(1)) > half
    return up


def _overflow(parts: Parts, to: Dtype, mode: str) -> Array | int:
    """Return the magnitude image of a number beyond the range; directed rounding may stop short."""
    import numpy as np

    if mode == "toward_zero":
        stops = ~parts.inf
    elif mode == "toward_infinity":
        stops = parts.negative & ~parts.inf
    elif mode == "toward_neg_infinity":
        stops = ~parts.negative & ~parts.inf
    else:
        return to.inf_bits
    return np.where(stops, np.uint64(to.max_bits), np.uint64(to.inf_bits))


def bit_length(x: Array) -> Array:
    """Return `int.bit_length` of each uint64, as int64; -1022 for 0, so that its ulp is least."""
    import numpy as np

    wide = (x >> 53) != 0  # float64 would round these
    narrow = np.where(wide, x >> 11, x).astype(np.float64)
    length: Array = (narrow.view(np.int64) >> 52) - 1022 + 11 * wide
    return length


def padding(row: Dtype) -> int:
    """Return the number of unused low bits in the storage of a type: 13 for tf32, else 0."""
    return 13 if row.name == "tf32" else 0
