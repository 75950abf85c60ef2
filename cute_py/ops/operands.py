"""Arrays made ready for a kernel: checked, converted, batched, and copied where strides forbid."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.calls.arrays import TypedArray, address_of, strides_of
from cute_py.dtypes.conversion import convert
from cute_py.dtypes.table import Dtype, from_numpy
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import DtypeError, refusal

if TYPE_CHECKING:
    from cute_py.dtypes.table import Array, DtypeLike
    from cute_py.errors import CuteError

OPERATION = "cute.ops.gemm"


def read(x: object, name: str, dtype: DtypeLike | None = None) -> tuple[Array, Dtype]:
    """Return an array of the host, not yet converted, and `dtype`; without that, its own."""
    kind = x.dtype if isinstance(x, TypedArray) else None
    array = np.asarray(x.array if isinstance(x, TypedArray) else x)
    if array.dtype.hasobject or array.dtype.kind in "USMmc":
        given = f"{type(x).__name__} of {array.dtype}"
        raise refusal("ops-array", operation=OPERATION, name=name, value=given)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if dtype is not None:
        return array, as_dtype(dtype)
    try:
        return array, kind or from_numpy(array.dtype)
    except DtypeError:
        raise refusal("ops-array", operation=OPERATION, name=name, value=array.dtype) from None


def converted(array: Array, kind: Dtype) -> Array:
    """Return an array in another type, in the order that it has in memory."""
    if array.dtype == kind.numpy and kind.name != "tf32":
        return array
    if array.ndim > 1 and abs(array.strides[-2]) < abs(array.strides[-1]):
        return np.asarray(convert(array.swapaxes(-1, -2), kind)).swapaxes(-1, -2)
    return np.asarray(convert(array, kind))


def batch_of(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the batch modes of the product of shapes (..., M, K) and (..., K, N).

    >>> batch_of((4, 1, 3, 5), (2, 5, 6))
    (4, 2)
    """
    try:
        if a[-1] != b[-2]:
            raise ValueError
        return np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise unfit(a, b) from None


def unfit(a: tuple[int, ...], b: tuple[int, ...]) -> CuteError:
    """Return the refusal of the shapes of two operands."""
    return refusal("ops-shapes", operation=OPERATION, a=shown(a), b=shown(b))


def batched(array: Array, batch: tuple[int, ...]) -> Array:
    """Return [batch, rows, columns] with the batch modes as one, of stride 0 where they repeat."""
    rows, columns = array.shape[-2:]
    if array.ndim == 2 or all(n == 1 for n in array.shape[:-2]):
        one = array.reshape(rows, columns) if array.ndim > 2 else array
        count = int(np.prod(batch, dtype=np.int64))
        return np.broadcast_to(one, (count, rows, columns))
    whole = np.broadcast_to(array, (*batch, rows, columns))
    return whole.reshape(-1, rows, columns)


def ready(array: Array, margin: int = 0) -> Array:
    """Return an array [batch, rows, columns] as it is if a kernel can read it, else a copy.

    One of the last two modes must be contiguous, the other one may not overlap it, and nothing may
    run backwards.
    """
    size = array.dtype.itemsize
    batch, rows, columns = array.shape
    by_batch, by_row, by_column = array.strides
    row_major = by_column == size and (by_row >= columns * size or rows == 1)
    column_major = by_row == size and (by_column >= rows * size or columns == 1)
    whole = all(d % size == 0 and d >= 0 for d in array.strides) and array.flags.aligned
    if whole and (row_major or column_major):
        return array
    if by_batch == 0 and batch > 1:
        return np.broadcast_to(np.ascontiguousarray(array[0]), array.shape)
    return np.array(array, order="C")


def modes(array: Array) -> Array:
    """Return [batch, rows, columns] as a kernel counts it: (rows, columns, batch)."""
    return array.transpose(1, 2, 0)


# -- arrays of any library


def major_of(x: Any) -> str:  # noqa: ANN401
    """Return which of the modes [batch, rows, K] is contiguous: "K" or "MN"."""
    return "K" if strides_of(x)[-1] == 1 else "MN"


def alignment_of(x: Any) -> int:  # noqa: ANN401
    """Return what divides the address of every run of contiguous elements, and its length
    (bytes), at most 16.
    """
    size, strides = bytes_each(x), strides_of(x)
    along, across = (2, 1) if major_of(x) == "K" else (1, 2)
    return gcd(16, address_of(x), x.shape[along] * size, strides[across] * size, strides[0] * size)


def bytes_each(x: Any) -> int:  # noqa: ANN401
    """Return the size of an element (bytes)."""
    return int(x.itemsize if hasattr(x, "itemsize") else x.element_size())


def shown(x: Any) -> str:  # noqa: ANN401  (a shape)
    """Return a shape as text.

    >>> shown((3, 4)), shown((5,))
    ('(3,4)', '(5)')
    """
    return "(" + ",".join(map(str, x)) + ")"
