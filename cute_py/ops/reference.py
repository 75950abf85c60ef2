"""What a product should be, in NumPy's float64, and how far from that it may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.dtypes.conversion import convert
from cute_py.dtypes.table import Dtype
from cute_py.kernels.activations import ACTIVATIONS

if TYPE_CHECKING:
    from cute_py.dtypes.table import Array
    from cute_py.ops.call import Call
    from cute_py.ops.product import Product

EPILOGUE = 8  # roundings of the epilogue, functions included


@dataclass(frozen=True, slots=True)
class Error:
    """How far a result is from the reference; equal inf and NaN count as no error.

    Attributes:
        absolute: the largest difference.
        relative: the Frobenius norm of the difference by that of the reference.
        within: whether each element is within `bound`; None if that was not checked.
    """

    absolute: float
    relative: float
    within: bool | None = None

    def __str__(self) -> str:
        bound = {None: "", True: ", within the bound", False: ", OUTSIDE OF THE BOUND"}[self.within]
        return f"max abs {self.absolute:.3g}, relative {self.relative:.3g} (Frobenius){bound}"


def values(
    a: Array,
    b: Array,
    c: Array | None = None,
    bias: Array | None = None,
    *,
    alpha: float = 1,
    beta: float = 0,
    activation: str | None = None,
    **_named: Any,
) -> Array:
    """Return a product of numbers, as `cute.ops.gemm` takes its arguments."""
    return combined(a @ b, c, bias, alpha=alpha, beta=beta, activation=activation)


def combined(
    sums: Array,
    c: Array | None = None,
    bias: Array | None = None,
    *,
    alpha: float = 1,
    beta: float = 0,
    activation: str | None = None,
) -> Array:
    """Return what the epilogue of `gemm` makes of sums."""
    x = alpha * sums
    if c is not None and beta != 0:
        x = x + beta * c.astype(np.float64)
    if bias is not None:
        x = x + bias.astype(np.float64)
    return x if activation is None else np.asarray(ACTIVATIONS[activation].model(x))


def reference(product: Product) -> Array:
    """Return what the result should be: computed in float64, rounded to its type."""
    a, b = (_numbers(x, t) for x, t in zip((product.a, product.b), product.kinds, strict=True))
    with np.errstate(all="ignore"):
        x = product.values(a, b, product.terms, product.factors)
        return np.asarray(convert(x, product.kind, "to_nearest", saturate=product.kind.bits == 8))


def _numbers(x: Array, kind: Dtype) -> Array:
    if kind.name == "tf32":  # the low bits are ignored
        image = np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)
        x = image.view(np.float32)
    return x.astype(np.float64)


def bound(call: Call, expected: Array) -> Array:
    """Return how far each element may be from the reference.

    With u half an ulp of 1 in the type of the sums, and n instructions one after the other,
    s (n + 8) u (|alpha| |A| |B| + |beta C| + |bias|), the slope of the steepest activation times
    the roundings; and one ulp of the result's type.
    """
    product = call.inputs
    a, b = (
        np.abs(_numbers(x, t)) for x, t in zip((product.a, product.b), product.kinds, strict=True)
    )
    terms = {name: np.abs(x.astype(np.float64)) for name, x in product.terms.items()}
    factors = {name: abs(x) for name, x in product.factors.items()}
    size = values(a, b, terms.get("C"), terms.get("bias"), **factors)
    steps = product.K / call.config.mma_atom.shape_mnk[2] + EPILOGUE
    unit = 2.0**-53 if product.compute.name == "f64" else 2.0**-24
    if product.compute.name == "s32":
        unit = 0.0
    rounded = max(x.slope for x in ACTIVATIONS.values()) * steps * unit * (size + 1)
    return np.asarray(rounded + _ulp(expected, product.kind))


def _ulp(x: Array, kind: Dtype) -> Any:
    if not kind.is_float:
        return 1.0  # halves round to even
    values = np.abs(x.astype(np.float64))
    least = 2.0 ** (2 - 2 ** (kind.exponent_bits - 1) - kind.mantissa_bits)
    return np.maximum(values * 2.0**-kind.mantissa_bits, least)


def error_of(result: Array, call: Call, judge: bool = False) -> Error:
    """Return how far a result is from the reference, and with `judge` whether within the bound."""
    wanted = reference(call.inputs)
    x, y = result.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        difference = np.where(same, 0.0, np.abs(x - y))
        norm = float(np.linalg.norm(np.where(np.isfinite(y), y, 0.0)))
        far = float(np.linalg.norm(difference))
        within = bool((same | (difference <= bound(call, wanted))).all()) if judge else None
    relative = far if norm == 0 else far / norm
    return Error(float(difference.max(initial=0)), relative, within)
