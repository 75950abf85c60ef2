"""`convert`, `encode` and `decode`: between dtypes, and between values and bit images.

Source: cutlass numeric_conversion.h (FloatRoundStyle, NumericConverter, NumericArrayConverter); PTX
ISA, instruction cvt.
"""

from __future__ import annotations

from cute_py.dtypes import rounding as rounding_
from cute_py.dtypes.table import Dtype, f64, from_numpy, u64
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import DtypeError, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import ArrayLike

    from cute_py.dtypes.table import Array, DtypeLike

BLOCK = 1 << 15  # values per block: the temporaries stay in the CPU's cache


def convert(
    x: ArrayLike, dtype: DtypeLike, rounding: str | None = None, saturate: bool = False
) -> Any:  # a NumPy array, or a NumPy scalar for a scalar
    """Return x converted to dtype, each value rounded once from its exact value.

    Float to float follows `rounding`, by default to nearest even; overflow becomes inf (e4m3: NaN),
    or the largest number if the direction of rounding says so. Float to integer truncates, as in C
    and NumPy, or rounds as `rounding` says (`to_nearest` is cvt.rni, `toward_zero` cvt.rzi), and
    clamps, as PTX cvt always does; NaN gives 0, or 1 << (bits - 1) from f64 or to a 64-bit type.
    Integer to integer keeps the low bits (9 as s4 is -7), or clamps if `saturate`. Anything to b1
    is x != 0.

    Args:
        x: a Python or NumPy scalar, a NumPy (or ml_dtypes) array of any shape, or a list of
            numbers. tf32 values are float32 values.
        dtype: the type of the result.
        rounding: a key of `ROUNDINGS`, CUTLASS's enumerator (`round_to_nearest`) or the PTX
            modifier (`rn`, `rz`, `rp`, `rm`, `rna`). None: `toward_zero` from floats to integers,
            else `to_nearest`.
        saturate: float to float: inf and overflow become the largest number (PTX .satfinite).
            Integer to integer: clamp (PTX .sat).

    Law: convert(convert(x, wider), dtype of x) == x if wider represents every value of x's dtype.
    Raises DtypeError for an unknown dtype or rounding, and for void and ue8m0; LeafTypeError if x
    does not contain numbers.
    Source: cutlass numeric_conversion.h; PTX ISA, instruction cvt (integer notes: clamping, NaN;
    .satfinite).

    >>> float(convert(65520.0, "f16")), float(convert(65520.0, "f16", "rz"))
    (inf, 65504.0)
    >>> print(convert([1.7, -1.7, -300.0], "s8"), convert([1.7, 2.5], "s8", "to_nearest"))
    [   1   -1 -128] [2 2]
    >>> print(convert(9, "s4"), convert(9, "s4", saturate=True))
    -7 7
    >>> float(convert(1 + 2**-11, "tf32", "rna")) == 1 + 2**-10
    True
    """
    import numpy as np

    to = as_dtype(dtype)
    image = np.asarray(encoded(x, to, rounding, saturate, "convert"))
    return _values(image.reshape(-1), to).reshape(image.shape)[()]


def encode(
    x: ArrayLike, dtype: DtypeLike, rounding: str | None = None, saturate: bool = False
) -> Any:  # a NumPy array, or a NumPy scalar for a scalar
    """Return the bit images of x converted to dtype, in the smallest unsigned type that fits.

    Arguments and errors as for `convert`. The image of a negative integer is its two's complement
    in dtype.bits bits.

    >>> encode([0, 7, -8, -1], "s4"), hex(encode(1.5, "bf16"))
    (array([ 0,  7,  8, 15], dtype=uint8), '0x3fc0')
    """
    return encoded(x, as_dtype(dtype), rounding, saturate, "encode")


def decode(image: ArrayLike, dtype: DtypeLike) -> Any:  # array or scalar, as image is
    """Return the values of dtype with these bit images.

    Args:
        image: integers from 0 to 2^dtype.bits - 1, any shape. The 13 unused bits of a tf32 image
            are ignored.
        dtype: their type.

    Law: decode(encode(x, dtype), dtype) == convert(x, dtype).
    Raises LeafTypeError for images that are not integers, DtypeError for images out of range and
    for void.
    Source: cutlass integer_subbyte.h: (x ^ sign_mask) - sign_mask.

    >>> decode([0, 7, 8, 15], "s4"), float(decode(0x7E, "e4m3"))
    (array([ 0,  7, -8, -1], dtype=int8), 448.0)
    """
    to = as_dtype(dtype)
    if to.kind == "void":
        raise refusal("dtype-void", operation="decode")
    images, kind = read_values(image, "decode")
    if images.size and not kind.is_integer:
        raise refusal("image-type", operation="decode", dtype=images.dtype)
    top = (1 << to.bits) - 1
    for end in (images.min(), images.max()) if images.size else ():
        if not 0 <= end <= top:
            raise refusal(
                "image-range", operation="decode", value=int(end), bits=to.bits, to=to, top=top
            )
    return _values(images.astype(storage(to)).reshape(-1), to).reshape(images.shape)[()]


def storage(row: Dtype) -> np.dtype[Any]:
    """Return the smallest unsigned NumPy dtype that holds one bit image of row."""
    import numpy as np

    return np.dtype(f"u{row.bits + 7 >> 3}")


def strided(array: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Return a view of an array's memory from its first element on; strides are in bytes. NumPy's
    `as_strided` finds types by their letter, which e5m2 shares with a float of one byte.
    """
    from numpy.lib.stride_tricks import as_strided

    raw = array.view(f"V{array.itemsize}")
    return as_strided(raw, shape, strides).view(array.dtype)


def read_values(x: ArrayLike, operation: str) -> tuple[Array, Dtype]:
    """Return x as an array with the dtype of its values, or refuse.

    Raises:
        LeafTypeError: x does not contain numbers of any dtype, or no single dtype represents all.

    """
    import numpy as np

    try:
        values = np.asarray(x)
    except ValueError:  # a list of lists of different lengths
        raise refusal("values-ragged", operation=operation, value=x) from None
    try:
        source = from_numpy(values.dtype)
    except DtypeError:
        raise refusal("values-type", operation=operation, dtype=values.dtype) from None
    if isinstance(x, list | tuple) and source.is_float and values.size:
        return _exact(x, values, operation)
    return values, source


def _exact(x: ArrayLike, floats: Array, operation: str) -> tuple[Array, Dtype]:
    """Return a list that NumPy converts to floats as an array with all its integers exact."""
    import numpy as np

    leaves = np.asarray(x, object)
    integers = [leaf for leaf in leaves.flat if isinstance(leaf, int | np.integer)]
    if len(integers) == leaves.size and min(integers) >= 0:  # NumPy reads [0, 1 << 63] as floats
        return leaves.astype(np.uint64), u64
    for leaf in integers:
        if int(float(leaf)) != leaf:
            raise refusal("values-mixed", operation=operation, value=int(leaf))
    return floats, from_numpy(floats.dtype)


def encoded(
    x: ArrayLike, to: Dtype, rounding: str | None, saturate: bool, operation: str
) -> Any:  # array or scalar, as x is
    """Return `encode` of x for a `Dtype`; refusals name `operation`."""
    import numpy as np

    _require_convertible(to, operation)
    scalar: object = x
    if isinstance(scalar, int) and not -(1 << 63) <= scalar < 1 << 64:
        mode, saturate = _how(rounding, saturate, operation, u64, to)
        return _encode_big(scalar, to, mode, saturate).astype(storage(to))[0]
    values, source = read_values(x, operation)
    mode, saturate = _how(rounding, saturate, operation, source, to)
    _require_convertible(source, operation)
    flat = values.reshape(-1)
    image = np.empty(flat.shape, storage(to))
    for start in range(0, flat.size, BLOCK):
        block = slice(start, start + BLOCK)
        image[block] = _encode_block(flat[block], source, to, mode, saturate)
    return image.reshape(values.shape)[()]


def _how(
    rounding: str | None, saturate: bool, operation: str, source: Dtype, to: Dtype
) -> tuple[str, bool]:
    """Return the key of `ROUNDINGS`, and whether to clamp."""
    mode = rounding_.rounding_mode(rounding, operation, source, to)
    return mode, saturate or mode == "to_nearest_satfinite"


def _encode_block(values: Array, source: Dtype, to: Dtype, mode: str, saturate: bool) -> Array:
    if to.kind == "bool":  # on images: comparing a signaling NaN warns
        image = values.view(storage(source))
        size = image & ((1 << source.bits - 1) - 1) if source.is_float else image
        nonzero: Array = size != 0
        return nonzero
    if not source.is_float and not to.is_float:
        return _integer_image(values, to, saturate)
    if source is to and not saturate:  # only inf may change
        return values.view(storage(to))
    parts = (
        rounding_.split_float(values.view(storage(source)), source)
        if source.is_float
        else rounding_.split_integer(values)
    )
    if to.is_float:
        return rounding_.to_float(parts, to, mode, saturate)
    nan = 1 << to.bits - 1 if source is f64 or to.bits == 64 else 0
    return rounding_.to_integer(parts, to, mode, nan)


def _encode_big(value: int, to: Dtype, mode: str, saturate: bool) -> Array:
    """Return the image of a Python int that does not fit in 64 bits."""
    import numpy as np

    if to.is_float:
        return rounding_.to_float(rounding_.split_big(value), to, mode, saturate)
    if to.kind == "bool":
        return np.ones(1, np.uint64)
    if saturate:
        value = int(min(max(value, to.min), to.max))
    return np.array([value & ((1 << to.bits) - 1)], np.uint64)


def _integer_image(values: Array, to: Dtype, saturate: bool) -> Array:
    import numpy as np

    if saturate and values.dtype != np.bool_:
        info = np.iinfo(values.dtype)
        values = np.clip(values, max(int(to.min), info.min), min(int(to.max), info.max))
    if values.dtype != np.uint64:
        values = values.astype(np.int64).view(np.uint64)
    return values & ((1 << to.bits) - 1)


def _values(image: Array, to: Dtype) -> Array:
    """Return the values of one-dimensional bit images that are in range and in storage(to)."""
    unused = rounding_.padding(to)
    if unused:
        image = image >> unused << unused
    if to.kind == "int" and to.is_subbyte:
        sign = 1 << to.bits - 1
        image = (image ^ sign) - sign
    return image.view(to.numpy)


def _require_convertible(row: Dtype, operation: str) -> None:
    if row.kind == "void":
        raise refusal("dtype-void", operation=operation)
    if row.name == "ue8m0":
        raise refusal("dtype-scale", operation=operation)
