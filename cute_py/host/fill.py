"""Fill host tensors: one value, a sequence, random values with a chosen number of fractional bits.

Random values are those of `random_numbers`, by the number of the element in colexicographical
order: the same seed gives the same tensor for every layout. What is no `Tensor`, an array of NumPy
or of a GPU, is filled by a kernel, with the same values. Source: cutlass
reference/host/tensor_fill.h, reference/device/tensor_fill.h.
"""

from __future__ import annotations

from operator import index

from cute_py.dtypes.conversion import convert
from cute_py.errors import refusal
from cute_py.host.random_numbers import LOW, RULES, pair
from cute_py.integers import ints
from cute_py.tensor.elements import axes
from cute_py.tensor.tensor import Tensor, require_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from cute_py.dtypes.table import Dtype

    T = TypeVar("T")  # a Tensor, or an array

MOST_BITS = 52  # fractional bits of a double
MOST_NUMBER = 2.0**970  # of parameters: differences and numbers with `MOST_BITS` are finite, too
WORD = (1 << 64) - 1
CHUNK = 1 << 13  # elements whose numbers are computed at a time, in the caches of a processor


def tensor_fill(tensor: T, value: object) -> T:
    """Store one value in every element, and return the tensor; of an array, by a kernel. Source:
    cutlass `TensorFill`.

    >>> from cute_py import make_host_tensor
    >>> print(tensor_fill(make_host_tensor((2, 3), "f16"), 1.5).to_numpy())
    [[1.5 1.5 1.5]
     [1.5 1.5 1.5]]
    """
    if _is_array(tensor):
        _kernels().filled(tensor, value)
    else:
        require_tensor(tensor, "tensor_fill").fill(value)
    return tensor


def tensor_fill_sequential(tensor: Tensor, start: int = 0, step: int = 1) -> Tensor:
    """Store start, start + step, ... in colexicographical order, and return the tensor.

    Floats are rounded to the dtype. Raises DtypeError for values that an integer type does not
    hold, as `tensor_fill` does; `tensor_modulus` of a wider tensor brings them into its range.
    Source: cutlass `TensorFillSequential`.

    >>> from cute_py import make_host_tensor
    >>> print(tensor_fill_sequential(make_host_tensor((2, 3), "s8"), 1).to_numpy())
    [[1 3 5]
     [2 4 6]]
    """
    require_tensor(tensor, "tensor_fill_sequential")
    return _in_order(tensor, _sequence(start, step, _count(tensor), tensor.dtype))


def _sequence(start: int, step: int, count: int, dtype: Dtype | None) -> Any:  # an array
    """Return start + step * i for i below `count`, exactly where they are integers."""
    import numpy as np

    if not type(start) is type(step) is int:
        return start + step * np.arange(count)
    low, high = sorted((start, start + step * (count - 1)))
    kind = np.iinfo(np.int64 if low < 0 else np.uint64)
    for end in (low, high):
        if not kind.min <= end <= kind.max:
            operation = "tensor_fill_sequential"
            raise refusal("values-not-of", operation=operation, value=end, to=dtype)
    first, by = (np.uint64(x & WORD) for x in (start, step))  # modulo 2**64
    return (first + by * np.arange(count, dtype=np.uint64)).view(kind.dtype)


def tensor_fill_random_uniform(
    tensor: T, seed: int, high: float = 1.0, low: float = 0.0, fraction_bits: int | None = None
) -> T:
    """Store uniform random values, and return the tensor.

    Args:
        tensor: the tensor to fill; an array of NumPy or of a GPU is filled by a kernel, with the
            same values.
        seed: an int of 64 bits; the same one gives the same values.
        high: the upper bound.
        low: the lower bound.
        fraction_bits: the number of bits to keep after the binary point, rounding halves away from
            zero, within the bounds: sums and products of the values are then exact in a wide enough
            type. By default all bits; integer tensors keep none.

    Raises LayoutError if low >= high, if no such value is in between, or for bounds that are no
    finite numbers of the dtype, if it is a float. Values are rounded to
    the dtype, and clamped if it is an integer type. Source: cutlass `TensorFillRandomUniform`.

    >>> from cute_py import make_host_tensor
    >>> values = tensor_fill_random_uniform(make_host_tensor(1000, "f16"), 7, 4, -4, 2).to_numpy()
    >>> bool((values * 4 == (values * 4).round()).all()), float(values.min()), float(values.max())
    (True, -4.0, 4.0)
    """
    if not low < high:
        raise refusal("random-range", operation="tensor_fill_random_uniform", low=low, high=high)
    _random(tensor, "tensor_fill_random_uniform", seed, (low, high), fraction_bits)
    return tensor


def tensor_fill_random_gaussian(
    tensor: T,
    seed: int,
    mean: float = 0.0,
    stddev: float = 1.0,
    fraction_bits: int | None = None,
) -> T:
    """Store normally distributed random values, and return the tensor.

    Args:
        tensor: as for `tensor_fill_random_uniform`.
        seed: an int of 64 bits; the same one gives the same values.
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
    if not stddev >= 0:
        raise refusal("random-stddev", operation="tensor_fill_random_gaussian", value=stddev)
    _random(tensor, "tensor_fill_random_gaussian", seed, (mean, stddev), fraction_bits)
    return tensor


def _random(
    tensor: Any, operation: str, seed: int, parameters: tuple[float, float], bits: int | None
) -> None:
    """Fill a tensor, or an array by a kernel, by the rule of an operation."""
    import numpy as np

    words = _words(seed, operation)
    if _is_array(tensor):
        _kernels().random(tensor, operation, words, parameters, bits)
        return
    require_tensor(tensor, operation)
    kept = kept_bits(tensor.dtype, operation, parameters, bits)
    key, count = (np.uint64(words[0]), np.uint64(words[1])), _count(tensor)
    values = np.empty(count)
    for first in range(0, count, CHUNK):
        own = np.arange(first, min(first + CHUNK, count), dtype=np.uint64)
        found = pair(own, key, lambda x: x.astype(np.float64))
        values[first : first + CHUNK] = RULES[operation](*found, *parameters, kept, np)
    if tensor.dtype is not None:
        values = convert(values, tensor.dtype, "to_nearest")
    _in_order(tensor, values)


def _words(seed: int, operation: str) -> tuple[int, int]:
    """Return the two words of a seed; refuse what 64 bits do not hold."""
    number = index(seed) if hasattr(seed, "__index__") else None
    if number is None or not -(1 << 63) <= number <= WORD:
        raise refusal("random-seed", operation=operation, value=seed)
    return number & LOW, number >> 32 & LOW


def kept_bits(
    dtype: Dtype | None, operation: str, parameters: tuple[float, float], bits: int | None
) -> int | None:
    """Return the number of fractional bits to keep, None for all; refuse bounds without a value,
    and parameters that are no finite numbers of the dtype.
    """
    if bits is None:
        bits = None if dtype is None or dtype.is_float else 0
    elif type(bits) is not int or not 0 <= bits <= MOST_BITS:
        raise refusal("fraction-bits", operation="tensor_fill_random", value=bits, most=MOST_BITS)
    most = MOST_NUMBER if dtype is None or not dtype.is_float else min(dtype.max, MOST_NUMBER)
    if not all(-most <= x <= most for x in parameters):
        first, second = parameters
        facts: dict[str, Any] = {"first": first, "second": second, "most": most}
        raise refusal("random-finite", operation=operation, dtype=dtype or "f64", **facts)
    if bits is None or operation != "tensor_fill_random_uniform":
        return bits
    low, high = parameters
    if -(-low * 2.0**bits // 1) > high * 2.0**bits // 1:
        raise refusal("random-bits", operation=operation, low=low, high=high, bits=bits)
    return bits


def _is_array(x: object) -> bool:
    """Return whether x is an array of a library, on the host or on a GPU, and no `Tensor`."""
    return x.__class__ is not Tensor and hasattr(x, "shape") and hasattr(x, "dtype")


def _kernels() -> Any:  # the module
    from importlib import import_module  # tensors are filled without the tracer

    return import_module("cute_py.kernels.fill")


def _count(tensor: Tensor) -> int:
    return ints.as_int(tensor.size(), "tensor_fill")


def _in_order(tensor: Tensor, values: Any) -> Tensor:
    """Store values given in colexicographical order."""
    return tensor.copy_(values.reshape(axes(tensor), order="F"))
