"""Reference functions over host tensors whose layouts may differ: compare, add, divide, map, and
multiply matrices with sums in a chosen type.

Source: cutlass reference/host/tensor_compare.h, tensor_elementwise.h, gemm.h.
"""

from __future__ import annotations

from cute_py.dtypes.conversion import convert
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.tensor.elements import axes
from cute_py.tensor.tensor import Tensor, make_host_tensor, make_tensor_like, require_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.dtypes.table import Array, Dtype, DtypeLike


def tensor_equals(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors have the same shape, mode by mode, and equal elements everywhere.

    Padding is ignored; layouts and dtypes may differ. NaN is not equal to anything. Source: cutlass
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
        out: the tensor to store to; it may be a or b.

    The results are converted to the dtype of `out` as by `convert`: floats rounded once to nearest
    even, or toward zero to integers; integers keep their low bits, as in NumPy. Source: cutlass
    `TensorFuncBinaryOp`.

    >>> from math import gcd
    >>> from cute_py import make_host_tensor
    >>> a, b = (make_host_tensor(3, "s32", values) for values in ([12, 18, 7], [8, 12, 5]))
    >>> print(tensor_map2(gcd, a, b).to_numpy())
    [4 6 1]
    """
    import numpy as np

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
    """Store a / b, for integers the floor, as in NumPy; arguments as for `tensor_map2`.

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
    """Store a % b, with the sign of b, as in NumPy; arguments as for `tensor_map2`.

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
    """Return whether both tensors have integers; refuse an integer divisor of 0."""
    import numpy as np

    rows = [require_tensor(tensor, operation).dtype for tensor in (a, b)]
    if any(row is None or row.is_float for row in rows):
        return False
    zeros = b.to_numpy() == 0
    if zeros.any():
        where = tuple([int(i) for i in np.argwhere(zeros)[0]])
        raise refusal("tensor-divisor", operation=operation, coord=where)
    return True


# -- matrix products


def reference_gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    alpha: float = 1,
    beta: float = 0,
    accumulate: DtypeLike | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return D = alpha * A * B^T + beta * C, with A (M,K), B (N,K), and C and D (M,N), as in CuTe.

    Args:
        a: A.
        b: B.
        c: C, by default zeros.
        alpha: factor of the product.
        beta: factor of C. With beta == 0, C is not read.
        accumulate: the type of the sums; by default f64 for f64, f32 for other floats, s64 for
            integers. Floats: for k = 0, 1, ... the product is rounded to that type, then the sum.
            Integers: the low bits of the exact sum, as in hardware.
        out: the tensor D (may be C); by default a new tensor of the accumulation type.

    alpha * sum + beta * C is computed in the accumulation type, with rounding at each step; for
    integers with float factors, in f64. D is the result rounded to nearest even, and clamped if D
    has integers. Law: for integers in range, the result is exactly that of NumPy's int64. Raises
    LayoutError if the shapes do not match.

    >>> from cute_py import make_host_tensor
    >>> a = make_host_tensor((2, 3), "s8", [[1, 2, 3], [4, 5, 6]])
    >>> b = make_host_tensor((1, 3), "s8", [[1, 0, -1]])
    >>> print(reference_gemm(a, b, alpha=10).to_numpy())
    [[-20]
     [-20]]
    """
    m, n = _check_shapes(a, b, c, out)
    row = _accumulator(a, b) if accumulate is None else as_dtype(accumulate)
    sums = _float_sums(a, b, row) if row.is_float else _integer_sums(a, b, row)
    old = None if c is None or beta == 0 else c.to_numpy()
    values = _scaled(sums, alpha, old, beta, row)
    target = make_host_tensor((m, n), row) if out is None else out
    return target.copy_(_final(values, target.dtype))


def _check_shapes(a: Tensor, b: Tensor, *others: Tensor | None) -> tuple[int, int]:
    """Return (M, N); refuse operands whose shapes do not match."""
    operands = [a, b, *[x for x in others if x is not None]]
    shapes = [axes(require_tensor(tensor, "reference_gemm")) for tensor in operands]
    fit = all(len(shape) == 2 for shape in shapes) and shapes[0][1] == shapes[1][1]
    if not fit or any(shape != (shapes[0][0], shapes[1][0]) for shape in shapes[2:]):
        raise refusal("gemm-shapes", operation="reference_gemm", shapes=shapes)
    return shapes[0][0], shapes[1][0]


def _accumulator(a: Tensor, b: Tensor) -> Dtype:
    rows = [tensor.dtype for tensor in (a, b)]
    if any(row is None for row in rows):
        raise refusal("engine-unreadable", operation="reference_gemm", engine=a.engine)
    if not any(row.is_float for row in rows):
        return as_dtype("s64")
    return as_dtype("f64" if any(row.name == "f64" for row in rows) else "f32")


def _float_sums(a: Tensor, b: Tensor, row: Dtype) -> Array:
    import numpy as np

    x, y = (convert(tensor.to_numpy(), row) for tensor in (a, b))
    sums = np.zeros((len(x), len(y)), row.numpy)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(x.shape[1]):
            product = convert(x[:, k, None] * y[None, :, k], row)
            sums = convert(sums + product, row)
    return sums


def _integer_sums(a: Tensor, b: Tensor, row: Dtype) -> Array:
    import numpy as np

    tables = []
    for tensor in (a, b):
        if tensor.dtype.is_float:
            raise refusal("gemm-accumulate", operation="reference_gemm", given=tensor.dtype, to=row)
        tables.append(tensor.to_numpy().astype(np.int64))  # sums wrap as the low 64 bits do
    return convert(tables[0] @ tables[1].T, row)  # type: ignore[no-any-return]


def _scaled(sums: Array, alpha: float, old: Array | None, beta: float, row: Dtype) -> Array:
    """Return alpha * sums + beta * old in the type `row`, or exactly if all are integers."""
    import numpy as np

    terms = [(alpha, sums)] + ([] if old is None else [(beta, old)])
    if row.is_float:
        total: Any = None
        with np.errstate(over="ignore", invalid="ignore"):
            for factor, table in terms:
                term = convert(convert(factor, row) * convert(table, row), row)
                total = term if total is None else convert(total + term, row)
        return total  # type: ignore[no-any-return]
    exact = all(float(x).is_integer() and table.dtype.kind in "iub" for x, table in terms)
    kind = object if exact else np.float64
    return sum(  # type: ignore[return-value]
        [(int(factor) if exact else factor) * table.astype(kind) for factor, table in terms]
    )


def _final(values: Array, row: Dtype) -> Array:
    """Return the results as values of `row`: floats rounded, integers clamped."""
    import numpy as np

    if values.dtype == object:
        if row.is_float:
            return convert(values.astype(np.float64), row)  # type: ignore[no-any-return]
        return np.clip(values, int(row.min), int(row.max)).astype(row.numpy)
    return convert(values, row, "to_nearest", saturate=not row.is_float)  # type: ignore[no-any-return]
