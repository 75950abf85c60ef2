"""Functions of register tensors, element by element, by their NumPy names.

What is said of a GPU is about f32, and f16 and bf16, which are computed in f32. In f64 sqrt, rsqrt
and rcp are rounded as on the emulator, and the others are within 2 ulp.
"""

from __future__ import annotations

from cute_py.trace.arithmetic import apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.tensor.tensor import Tensor


def where(condition: object, a: object, b: object) -> Tensor:
    """Return a where the condition (b1 registers, or a condition of integers) holds, else b."""
    return apply("where", condition, a, b)


def maximum(a: object, b: object) -> Tensor:
    """Return the greater of a and b; of a number and NaN, the number (PTX max)."""
    return apply("max", a, b)


def minimum(a: object, b: object) -> Tensor:
    """Return the lesser of a and b; of a number and NaN, the number (PTX min)."""
    return apply("min", a, b)


def fma(a: object, b: object, c: object) -> Tensor:
    """Return a*b + c, rounded once."""
    return apply("fma", a, b, c)


def exp2(x: Tensor) -> Tensor:
    """Return 2**x; on a GPU ex2.approx, 2 ulp."""
    return apply("exp2", x)


def exp(x: Tensor) -> Tensor:
    """Return e**x; on a GPU by ex2.approx of x*log2(e)."""
    return apply("exp", x)


def log2(x: Tensor) -> Tensor:
    """Return the logarithm to base 2; on a GPU lg2.approx."""
    return apply("log2", x)


def log(x: Tensor) -> Tensor:
    """Return the natural logarithm; on a GPU by lg2.approx."""
    return apply("log", x)


def sqrt(x: Tensor) -> Tensor:
    """Return the square root, rounded to nearest."""
    return apply("sqrt", x)


def rsqrt(x: Tensor) -> Tensor:
    """Return 1/sqrt(x); on a GPU rsqrt.approx."""
    return apply("rsqrt", x)


def rcp(x: Tensor) -> Tensor:
    """Return 1/x; on a GPU rcp.approx."""
    return apply("rcp", x)


def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent; on a GPU tanh.approx, about 2**-11."""
    return apply("tanh", x)


def sin(x: Tensor) -> Tensor:
    """Return the sine; on a GPU sin.approx."""
    return apply("sin", x)


def cos(x: Tensor) -> Tensor:
    """Return the cosine; on a GPU cos.approx."""
    return apply("cos", x)


def erf(x: Tensor) -> Tensor:
    """Return the error function; on a GPU within 2 ulp."""
    return apply("erf", x)
