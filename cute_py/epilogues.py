"""`cute.epilogues`: what may follow a product, by name: functions as you could write them.

Each is what `epilogue=` of `cute.ops.gemm` takes. They take registers, so that a function of your
own may call them: `lambda sums, bias: cute.epilogues.relu(sums + bias)`. Parameters with a default
may be left out; those without are numbers or arrays of the call, spread over the result: (M,N),
(N), (M,1) or (), with batch modes or without. Gradients follow from the functions.
"""

from __future__ import annotations

from typing import Any

import cute_py as cute

__all__ = (
    "SCALE_TYPES",
    "clamp",
    "geglu",
    "gelu",
    "gelu_tanh",
    "hardswish",
    "leaky_relu",
    "linear_combination",
    "no_beta_scaling",
    "nothing",
    "only_alpha_scaling",
    "quantized",
    "quantized_with_amax",
    "relu",
    "sigmoid",
    "silu",
    "swiglu",
    "tanh",
)

# -- linear combinations: the functors of CUTLASS 2.x, `epilogue/thread/linear_combination.h`


def linear_combination(
    sums: Any,
    alpha: Any = 1,
    beta: Any = 0,
    c: Any = None,
    alpha_ptr: Any = None,
    beta_ptr: Any = None,
    alpha_ptr_array: Any = None,
    beta_ptr_array: Any = None,
) -> Any:
    """Return alpha * sums + beta * c; a factor is a number, or an array: of no modes, one for each
    column (N), or one for each matrix of a batch (L,1,1).

    Args:
        sums: of the product.
        alpha: factor of the sums.
        beta: factor of c. Where it is 0, c has no part in the result, even if it is NaN or inf; a
            number 0 leaves c unread.
        c: what is added.
        alpha_ptr: goes before alpha, as in CUTLASS.
        beta_ptr: goes before beta.
        alpha_ptr_array: goes before both others.
        beta_ptr_array: alike.

    The derivative by beta is c, also where beta is 0.

    >>> a, b = [[1.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]]
    >>> cute.ops.gemm(a, b, [[1.0, 1.0]], 2.0, -1.0, epilogue=cute.epilogues.linear_combination)
    array([[7., 7.]])
    """
    scaled = sums * _first(alpha_ptr_array, alpha_ptr, alpha)
    if c is None:
        return scaled
    factor = _first(beta_ptr_array, beta_ptr, beta)
    return scaled + cute.where(factor == 0, 0, c * factor)


def _first(*given: Any) -> Any:
    return next(x for x in given if x is not None)


def no_beta_scaling(sums: Any, c: Any, alpha: Any = 1) -> Any:
    """Return alpha * sums + c.

    >>> a, b = [[1.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]]
    >>> cute.ops.gemm(a, b, [[1.0, 1.0]], alpha=2.0, epilogue=cute.epilogues.no_beta_scaling)
    array([[9., 9.]])
    """
    return sums * alpha + c


def only_alpha_scaling(sums: Any, alpha: Any = 1) -> Any:
    """Return alpha * sums.

    >>> a, b = [[1.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]]
    >>> cute.ops.gemm(a, b, alpha=[1.0, 2.0], epilogue=cute.epilogues.only_alpha_scaling)
    array([[4., 8.]])
    """
    return sums * alpha


def nothing(sums: Any) -> Any:
    """Return the sums.

    >>> a, b = [[1.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.nothing)
    array([[4., 4.]])
    """
    return sums


# the kinds of `ScaleType` in CUTLASS; channels are columns, whose factors are arrays (N)
SCALE_TYPES = {
    "Default": linear_combination,
    "NoBetaScaling": no_beta_scaling,
    "OnlyAlphaScaling": only_alpha_scaling,
    "PerChannelScaling": linear_combination,
    "OnlyAlphaPerChannelScaling": only_alpha_scaling,
    "Nothing": nothing,
}

# -- activations


def relu(sums: Any, threshold: Any = 0) -> Any:
    """Return the greater of the sums and a threshold; NaN stays.

    >>> a, b = [[1.0, 1.0]], [[2.0, -1.0], [2.0, -1.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.relu)
    array([[4., 0.]])
    """
    return cute.where(sums < threshold, threshold, sums)


def leaky_relu(sums: Any, slope: Any = 0.01) -> Any:
    """Return the sums, and slope * sums where they are negative.

    >>> a, b = [[1.0, 1.0]], [[2.0, -1.0], [2.0, -1.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.leaky_relu, slope=0.5)
    array([[ 4., -1.]])
    """
    return cute.where(sums < 0, sums * slope, sums)


def gelu(sums: Any) -> Any:
    """Return x times the normal distribution of x (GELU with erf; arXiv:1606.08415).

    >>> a, b = [[1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.gelu)
    array([[0., 0.]])
    """
    return cute.gelu(sums)


def gelu_tanh(sums: Any) -> Any:
    """Return the form of GELU with tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, as
    `torch.nn.functional.gelu(x, approximate="tanh")`.

    >>> a, b = [[1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.gelu_tanh)
    array([[0., 0.]])
    """
    inner = (sums + sums * sums * sums * 0.044715) * 0.7978845608028654
    return sums * 0.5 * (cute.tanh(inner) + 1)


def silu(sums: Any) -> Any:
    """Return x * sigmoid(x) (arXiv:1606.08415, section 2).

    >>> a, b = [[1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.silu)
    array([[0., 0.]])
    """
    return sums * sigmoid(sums)


def sigmoid(sums: Any) -> Any:
    """Return 1 / (1 + exp(-x)).

    >>> a, b = [[1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.sigmoid)
    array([[0.5, 0.5]])
    """
    return cute.rcp(cute.exp(-sums) + 1)


def tanh(sums: Any) -> Any:
    """Return the hyperbolic tangent.

    >>> a, b = [[1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.tanh)
    array([[0., 0.]])
    """
    return cute.tanh(sums)


def hardswish(sums: Any) -> Any:
    """Return x times min(max(x + 3, 0), 6) / 6 (arXiv:1905.02244, section 5.2).

    >>> a, b = [[1.0, 1.0]], [[2.0, -1.0], [2.0, -1.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.hardswish)
    array([[ 4.        , -0.33333333]])
    """
    return sums * clamp(sums + 3, 0, 6) * (1 / 6)


# -- gates: the columns of the product are gate, up, gate, up, ...; the result has half as many


def swiglu(sums: Any) -> Any:
    """Return silu(gate) * up of neighbouring columns (arXiv:2002.05202): (M,N/2).

    >>> a, b = [[1.0, 1.0]], [[0.0, 3.0], [0.0, 3.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.swiglu)
    array([[0.]])
    """
    gate, up = cute.pairs(sums)
    return silu(gate) * up


def geglu(sums: Any) -> Any:
    """Return gelu_tanh(gate) * up of neighbouring columns (arXiv:2002.05202): (M,N/2).

    >>> a, b = [[1.0, 1.0]], [[0.0, 3.0], [0.0, 3.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.geglu)
    array([[0.]])
    """
    gate, up = cute.pairs(sums)
    return gelu_tanh(gate) * up


# -- ranges


def clamp(sums: Any, low: Any, high: Any) -> Any:
    """Return the sums, or the bound that they are beyond; NaN stays. An integer type has the bounds
    `s4.min` and `s4.max`; a result of integers is rounded afterwards.

    >>> a, b = [[1.0, 1.0]], [[75.0, -2.0], [75.0, -2.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.clamp, low=-8, high=7, out_dtype="s8")
    array([[ 7, -4]], dtype=int8)
    """
    found = cute.maximum(sums, low, nan="propagate")
    return cute.minimum(found, high, nan="propagate")


def quantized(sums: Any, scale: Any) -> Any:
    """Return scale * sums for a result in 8 bits: it is rounded to nearest even, and clamped to the
    finite range of its type.

    >>> a, b = [[1.0, 1.0]], [[1.5, 200.0], [1.5, 200.0]]
    >>> cute.ops.gemm(a, b, epilogue=cute.epilogues.quantized, scale=0.5, out_dtype="s8")
    array([[  2, 127]], dtype=int8)
    """
    return sums * scale


def quantized_with_amax(sums: Any, scale: Any) -> Any:
    """Return the same as D, and `amax`: of each row the greatest absolute value of the sums, from
    which the scale of the next step may follow.

    >>> a, b = [[1.0, 1.0]], [[1.5, -200.0], [1.5, -200.0]]
    >>> function = cute.epilogues.quantized_with_amax
    >>> cute.ops.gemm(a, b, epilogue=function, scale=0.25, out_dtype="s8")
    {'D': array([[   1, -100]], dtype=int8), 'amax': array([400.])}
    """
    return {"D": quantized(sums, scale), "amax": cute.reduce("max", abs(sums), mode=1)}
