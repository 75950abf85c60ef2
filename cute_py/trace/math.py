"""`cute.math`: element-wise functions of register tensors, with NumPy's names.

Each is a public row of `plan.functions`. The texts on GPUs apply to f32, and to f16 and bf16, which
are computed in f32. In f64 sqrt, rsqrt and rcp are rounded as on the emulator, and the others are
within 2 ulp.
"""

from __future__ import annotations

from typing import Any

from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.integers.ints import is_leaf
from cute_py.plan.functions import FUNCTIONS, PUBLIC, Function
from cute_py.trace.arithmetic import apply, common_type
from cute_py.trace.runtime_integers import choose
from cute_py.trace.state import require_choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.tensor.tensor import Tensor


def _of_one(fn: str) -> Callable[..., Tensor]:
    def function(x: object) -> Tensor:
        return apply(fn, x)

    return function


def _of_two(fn: str) -> Callable[..., Tensor]:
    def function(a: object, b: object) -> Tensor:
        return apply(fn, a, b)

    return function


def _of_three(fn: str) -> Callable[..., Tensor]:
    def function(a: object, b: object, c: object) -> Tensor:
        return apply(fn, a, b, c)

    return function


def _extreme(fn: str) -> Callable[..., Tensor]:
    def function(a: object, b: object, nan: str = "ignore") -> Tensor:
        require_choice(nan, ("ignore", "propagate"), f"cute.{FUNCTIONS[fn].public}")
        floats = common_type(fn, (a, b)).is_float
        return apply(f"{fn}_nan" if nan == "propagate" and floats else fn, a, b)

    return function


def _where(fn: str) -> Callable[..., Tensor]:
    def function(condition: object, a: Any, b: Any) -> Any:  # an integer if a and b are
        if is_leaf(a) and is_leaf(b):
            return ints.given(choose(condition, a, b))
        return apply(fn, condition, a, b)

    return function


def _field(fn: str) -> Callable[..., Tensor]:
    def function(x: object, pos: object, len: object) -> Tensor:
        return apply(fn, x, pos, len)

    return function


def _insert(fn: str) -> Callable[..., Tensor]:
    def function(x: object, y: object, pos: object, len: object) -> Tensor:
        return apply(fn, x, y, pos, len)

    return function


def _permute(fn: str) -> Callable[..., Tensor]:
    def function(a: object, b: object, selector: object) -> Tensor:
        return apply(fn, a, b, selector)

    return function


def _logic(fn: str) -> Callable[..., Tensor]:
    def function(a: object, b: object, c: object, table: object) -> Tensor:
        if table.__class__ is not int or not 0 <= table < 256:
            choices = "the numbers 0 to 255"
            raise refusal_here("kernel-choice", operation="cute.lop3", value=table, choices=choices)
        return apply(fn, a, b, c, table)

    return function


_SPECIAL = {
    "where": _where,
    "max": _extreme,
    "min": _extreme,
    "bfe": _field,
    "bfi": _insert,
    "prmt": _permute,
    "lop3": _logic,
}
_BY_ARITY = {1: _of_one, 2: _of_two, 3: _of_three}


def _recording(name: str, row: Function) -> Callable[..., Tensor]:
    """Return the function that records a row."""
    make = _SPECIAL.get(row.name) or _BY_ARITY[row.arity]
    function: Any = make(row.name)
    function.__code__ = function.__code__.replace(co_name=name)  # the name that a refusal shows
    function.__name__ = function.__qualname__ = name
    function.__doc__ = row.text
    return function  # type: ignore[no-any-return]


globals().update({name: _recording(name, row) for name, row in PUBLIC.items()})


def __getattr__(name: str) -> Any:
    """Refuse an unknown function. Type checkers take the type of the functions from here."""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the functions."""
    return sorted(PUBLIC)
