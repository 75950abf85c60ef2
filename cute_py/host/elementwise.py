"""Element-wise operations of host tensors whose layouts may differ: compare, add, divide, map.

Source: cutlass reference/host/tensor_compare.h, tensor_elementwise.h.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.tensor.elements import axes
from cute_py.tensor.tensor import Tensor, make_tensor_like, require_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.dtypes.table import Array


def tensor_equals(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors have the same shape, mode by mode, and equal elements everywhere.

    Padding does not count, layouts and dtypes may differ. NaN equals nothing. Source: cutlass
    `TensorEquals`.

    >>> from cute_py import Layout, LayoutRight, make_host_tensor
    >>> a = make_host_tensor((2, 2), "f32", [[1, 2], [3, 4]])
    >>> b = make_host_tensor(Layout((2, 2), LayoutRight), "f16", [[1, 2], [3, 4]])
    >>> tensor_equals(a, b)
    True
    """
    for tensor in (a, b):
        require_tensor(tensor, "tensor_equals")
    return axes(a) == axes(b) and bool((a.to_numpy() == b.to_numpy()).all())


def tensor_map2(
    f: Callable[[Any, Any], Any], a: Tensor, b: Tensor, out: Tensor | None = None
) -> Tensor:
    """Store f(a[c], b[c]) for every coordinate c, and return `out`, or a new tensor like a.

    Args:
        f: a NumPy ufunc, applied to arrays, or any function of two elements (Python numbers).
        a: the first operand.
        b: the second operand, of the same shape mode by mode.
        out: where to store; it may be a or b.

    The results are converted to the dtype of `out`: floats rounded once to nearest even; integers
    keep their low bits, as in NumPy. Source: cutlass `TensorFuncBinaryOp`.

    >>> from math import gcd
    >>> from cute_py import make_host_tensor
    >>> a, b = (make_host_tensor(3, "s32", values) for values in ([12, 18, 7], [8, 12, 5]))
    >>> print(tensor_map2(gcd, a, b).to_numpy())
    [4 6 1]
    """
    import numpy as np

    from cute_py.dtypes.conversion import convert

    target = make_tensor_like(a) if out is None else out
    shapes = [axes(require_tensor(tensor, "tensor_map2")) for tensor in (a, b, target)]
    if len(set(shapes)) > 1:
        raise refusal("tensor-shapes", operation="tensor_map2", shapes=shapes)
    x, y = a.to_numpy(), b.to_numpy()
    values = f(x, y) if isinstance(f, np.ufunc) else _one_by_one(f, x, y)
    if target.dtype is not None:
        values = convert(values, target.dtype)
    return target.copy_(values)


def _one_by_one(f: Callable[[Any, Any], Any], x: Array, y: Array) -> Array:
    import numpy as np

    values = [f(p, q) for p, q in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)]
    return np.array(values).reshape(x.shape)


def tensor_add(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Store a + b; arguments as for `tensor_map2`. Source: cutlass `TensorAdd`.

    >>> from cute_py import make_host_tensor
    >>> print(tensor_add(*(make_host_tensor(3, "s8", [1, 2, 3]) for _ in "ab")).to_numpy())
    [2 4 6]
    """
    import numpy as np

    return tensor_map2(np.add, a, b, out)


def tensor_sub(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Store a - b; arguments as for `tensor_map2`. Source: cutlass `TensorSub`.

    >>> from cute_py import make_host_tensor
    >>> a, b = make_host_tensor(3, "f32", [1, 2, 3]), make_host_tensor(3, "f32", 0.5)
    >>> print(tensor_sub(a, b).to_numpy())
    [0.5 1.5 2.5]
    """
    import numpy as np

    return tensor_map2(np.subtract, a, b, out)


def tensor_mul(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Store a * b; arguments as for `tensor_map2`. Source: cutlass `TensorMul`.

    >>> from cute_py import make_host_tensor
    >>> a = make_host_tensor(3, "s16", [1, 2, 3])
    >>> print(tensor_mul(a, a).to_numpy())
    [1 4 9]
    """
    import numpy as np

    return tensor_map2(np.multiply, a, b, out)


def tensor_div(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Store a / b, of integers the floor, as NumPy has it; arguments as for `tensor_map2`.

    Raises LayoutError for an integer divided by 0. Source: cutlass `TensorDiv`.

    >>> from cute_py import make_host_tensor
    >>> a, b = (make_host_tensor(2, "s32", values) for values in ([7, -7], [2, 2]))
    >>> print(tensor_div(a, b).to_numpy())
    [ 3 -4]
    """
    import numpy as np

    whole = _integers(a, b, "tensor_div")
    with np.errstate(divide="ignore", invalid="ignore"):
        return tensor_map2(np.floor_divide if whole else np.true_divide, a, b, out)


def tensor_modulus(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Store the remainder of a / b, with the sign of b, as NumPy has it; arguments as for
    `tensor_map2`.

    Raises LayoutError for an integer divided by 0. Source: cutlass `TensorModulus`.

    >>> from cute_py import make_host_tensor
    >>> a, b = (make_host_tensor(2, "s32", values) for values in ([7, -7], [4, 4]))
    >>> print(tensor_modulus(a, b).to_numpy())
    [3 1]
    """
    import numpy as np

    _integers(a, b, "tensor_modulus")
    with np.errstate(divide="ignore", invalid="ignore"):
        return tensor_map2(np.remainder, a, b, out)


def _integers(a: Tensor, b: Tensor, operation: str) -> bool:
    """Return whether both tensors hold integers; refuse a divisor 0 among them."""
    import numpy as np

    rows = [require_tensor(tensor, operation).dtype for tensor in (a, b)]
    if any(row is None or row.is_float for row in rows):
        return False
    zeros = b.to_numpy() == 0
    if zeros.any():
        where = tuple([int(i) for i in np.argwhere(zeros)[0]])
        raise refusal("tensor-divisor", operation=operation, coord=where)
    return True
