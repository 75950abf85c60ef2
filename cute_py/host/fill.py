"""Fill host tensors: one value, a sequence, random values with a chosen number of fractional bits.

Random values come from NumPy's Generator (PCG64), element by element in colexicographical order:
the same seed gives the same tensor for every layout. Source: cutlass
reference/host/tensor_fill.h.
"""

from __future__ import annotations

from cute_py.dtypes.conversion import convert
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.tensor.elements import axes
from cute_py.tensor.tensor import Tensor, require_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.dtypes.table import Array

MOST_BITS = 52  # fractional bits of a double


def tensor_fill(tensor: Tensor, value: object) -> Tensor:
    """Store one value in every element, and return the tensor. Source: cutlass `TensorFill`.

    >>> from cute_py import make_host_tensor
    >>> print(tensor_fill(make_host_tensor((2, 3), "f16"), 1.5).to_numpy())
    [[1.5 1.5 1.5]
     [1.5 1.5 1.5]]
    """
    return require_tensor(tensor, "tensor_fill").fill(value)


def tensor_fill_sequential(tensor: Tensor, start: int = 0, step: int = 1) -> Tensor:
    """Store start, start + step, ... in colexicographical order, and return the tensor.

    Source: cutlass `TensorFillSequential`.

    >>> from cute_py import make_host_tensor
    >>> print(tensor_fill_sequential(make_host_tensor((2, 3), "s8"), 1).to_numpy())
    [[1 3 5]
     [2 4 6]]
    """
    import numpy as np

    require_tensor(tensor, "tensor_fill_sequential")
    return _in_order(tensor, start + step * np.arange(_count(tensor)))


def tensor_fill_random_uniform(
    tensor: Tensor, seed: int, high: float = 1.0, low: float = 0.0, fraction_bits: int | None = None
) -> Tensor:
    """Store uniform random values, and return the tensor.

    Args:
        tensor: the tensor to fill.
        seed: the same seed gives the same values.
        high: the upper bound.
        low: the lower bound.
        fraction_bits: the number of bits to keep after the binary point, rounding halves away from
            zero, within the bounds: sums and products of the values are then exact in a wide enough
            type. By default all bits; integer tensors keep none.

    Raises LayoutError if low >= high, or if no such value is in between. Values are rounded to
    the dtype, and clamped if it is an integer type. Source: cutlass `TensorFillRandomUniform`.

    >>> from cute_py import make_host_tensor
    >>> values = tensor_fill_random_uniform(make_host_tensor(1000, "f16"), 7, 4, -4, 2).to_numpy()
    >>> bool((values * 4 == (values * 4).round()).all()), float(values.min()), float(values.max())
    (True, -4.0, 4.0)
    """
    import numpy as np

    require_tensor(tensor, "tensor_fill_random_uniform")
    if not low < high:
        raise refusal("random-range", operation="tensor_fill_random_uniform", low=low, high=high)
    values = np.random.default_rng(seed).uniform(low, high, _count(tensor))
    bits = _fraction_bits(tensor, fraction_bits)
    if bits is not None:
        least, most = np.ceil(low * 2.0**bits), np.floor(high * 2.0**bits)
        if least > most:
            operation = "tensor_fill_random_uniform"
            raise refusal("random-bits", operation=operation, low=low, high=high, bits=bits)
        values = np.clip(_rounded(values * 2.0**bits), least, most) / 2.0**bits
    return _in_order(tensor, values)


def tensor_fill_random_gaussian(
    tensor: Tensor,
    seed: int,
    mean: float = 0.0,
    stddev: float = 1.0,
    fraction_bits: int | None = None,
) -> Tensor:
    """Store normally distributed random values, and return the tensor.

    Args:
        tensor: the tensor to fill.
        seed: the same seed gives the same values.
        mean: the mean of the distribution.
        stddev: the standard deviation, at least 0.
        fraction_bits: as for `tensor_fill_random_uniform`.

    Source: cutlass `TensorFillRandomGaussian`.

    >>> from cute_py import make_host_tensor
    >>> tensor = make_host_tensor(10000, "f32")
    >>> values = tensor_fill_random_gaussian(tensor, 7, 0.5, 2.0, 2).to_numpy()
    >>> bool((values * 4 == (values * 4).round()).all()), round(float(values.std()))
    (True, 2)
    """
    import numpy as np

    require_tensor(tensor, "tensor_fill_random_gaussian")
    if not stddev >= 0:
        raise refusal("random-stddev", operation="tensor_fill_random_gaussian", value=stddev)
    values = np.random.default_rng(seed).normal(mean, stddev, _count(tensor))
    bits = _fraction_bits(tensor, fraction_bits)
    if bits is not None:
        values = _rounded(values * 2.0**bits) / 2.0**bits
    return _in_order(tensor, values)


def _fraction_bits(tensor: Tensor, bits: int | None) -> int | None:
    """Return the number of fractional bits to keep, None for all."""
    if bits is None:
        return None if tensor.dtype is None or tensor.dtype.is_float else 0
    if type(bits) is not int or not 0 <= bits <= MOST_BITS:
        raise refusal("fraction-bits", operation="tensor_fill_random", value=bits, most=MOST_BITS)
    return bits


def _rounded(values: Array) -> Array:
    """Return the values rounded to integers, halves away from zero, as C's llround does."""
    import numpy as np

    whole = np.trunc(values)
    return whole + np.sign(values) * (np.abs(values - whole) >= 0.5)  # type: ignore[no-any-return]


def _count(tensor: Tensor) -> int:
    return ints.as_int(tensor.size(), "tensor_fill")


def _in_order(tensor: Tensor, values: Any) -> Tensor:
    """Store values given in colexicographical order, converted to the dtype."""
    if tensor.dtype is not None:
        values = convert(values, tensor.dtype, "to_nearest")
    return tensor.copy_(values.reshape(axes(tensor), order="F"))
