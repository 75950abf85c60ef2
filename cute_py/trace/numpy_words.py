"""What a kernel says in place of NumPy's functions, which know no values at run time."""

from __future__ import annotations

from cute_py.plan.functions import FUNCTIONS

# NumPy's names where a kernel's differ
_INSTEAD = {
    "absolute": "abs(x)",
    "fabs": "abs(x)",
    "fmax": "cute.maximum(x, y)",
    "fmin": "cute.minimum(x, y)",
    "maximum": "cute.maximum(x, y)",
    "minimum": "cute.minimum(x, y)",
    "clip": "cute.minimum(cute.maximum(x, low), high)",
    "where": "cute.where(condition, a, b)",
    "power": "x * x, or cute.exp2(y * cute.log2(x))",
    "square": "x * x",
    "reciprocal": "cute.rcp(x)",
    "log1p": "cute.log(x + 1)",
    "log10": "cute.log(x) * 0.4342944819",
    "expm1": "cute.exp(x) - 1",
    "hypot": "cute.sqrt(x * x + y * y)",
    "sign": "cute.where(x > 0, 1.0, cute.where(x < 0, -1.0, 0.0))",
    "isnan": "x != x",
    "logical_and": "p & q",
    "logical_or": "p | q",
    "logical_not": "~p",
    "sum": "cute.reduce('add', x)",
    "prod": "cute.reduce('mul', x)",
    "max": "cute.reduce('max', x)",
    "amax": "cute.reduce('max', x)",
    "min": "cute.reduce('min', x)",
    "amin": "cute.reduce('min', x)",
    "matmul": "cute.gemm on fragments",
    "dot": "cute.gemm on fragments, or cute.reduce('add', x * y)",
}
_OF_INTEGERS = {
    "maximum": "cute.max_(n, m)",
    "minimum": "cute.min_(n, m)",
    "clip": "cute.min_(cute.max_(n, low), high)",
    "where": "cute.where(condition, n, m)",
}


def instead_of(name: str) -> str:
    """Return what to write in place of a function of NumPy on registers.

    >>> instead_of("sqrt"), instead_of("square")
    ('cute.sqrt(x)', 'x * x')
    """
    if name in FUNCTIONS and name not in _INSTEAD:
        return f"cute.{name}(x)"
    known = "operators, cute.where, and the functions of cute.math: cute.sqrt and the like"
    return _INSTEAD.get(name, known)


def instead_of_integers(name: str) -> str:
    """Return the same for run-time integers: registers compute what integers do not.

    >>> instead_of_integers("sqrt"), instead_of_integers("minimum")
    ("x = n.to('f32'), then cute.sqrt(x)", 'cute.min_(n, m)')
    """
    return _OF_INTEGERS.get(name) or f"x = n.to('f32'), then {instead_of(name)}"
