"""Python's operators on tensors, implemented by the engine.

Registers of a kernel compute element by element; other engines refuse, with a fix.
"""

from __future__ import annotations

import operator
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeAlias

    from cute_py.dtypes.table import DtypeLike
    from cute_py.tensor.engine import Engine

    Unary: TypeAlias = Callable[[Any], Any]
    Binary: TypeAlias = Callable[[Any, object], Any]


def _of_one(name: str) -> Unary:
    """Return a unary operator."""
    return lambda self: self._operate(name, self)


def _of_two(name: str) -> Binary:
    """Return a binary operator."""
    return lambda self, other: self._operate(name, self, other)


def _forms(name: str) -> tuple[Binary, Binary, Binary]:
    """Return the forms of an operator: `x + y`, the reflected `y + x`, and `x += y`."""
    return (
        _of_two(name),
        lambda self, other: self._operate(name, other, self),
        lambda self, other: self._in_place(name, other),
    )


# the operators by NumPy's names: the name here, and Python's function
UFUNCS = {
    "add": ("add", operator.add),
    "subtract": ("sub", operator.sub),
    "multiply": ("mul", operator.mul),
    "divide": ("div", operator.truediv),
    "floor_divide": ("floordiv", operator.floordiv),
    "remainder": ("mod", operator.mod),
    "bitwise_and": ("and", operator.and_),
    "bitwise_or": ("or", operator.or_),
    "bitwise_xor": ("xor", operator.xor),
    "left_shift": ("shl", operator.lshift),
    "right_shift": ("shr", operator.rshift),
    "less": ("lt", operator.lt),
    "less_equal": ("le", operator.le),
    "greater": ("gt", operator.gt),
    "greater_equal": ("ge", operator.ge),
    "not_equal": ("ne", operator.ne),
    "equal": ("eq", operator.eq),
}


# attributes of arrays, and what a kernel writes
_TURNED = "cute.make_tensor(x.data, cute.select(x.layout, (1, 0)))"
_INSTEAD = {
    "sum": "cute.reduce('add', x)",
    "prod": "cute.reduce('mul', x)",
    "max": "cute.reduce('max', x)",
    "min": "cute.reduce('min', x)",
    "mean": "cute.reduce('add', x) / n",
    "astype": "x.to(dtype)",
    "item": "x itself, a register; cute.as_int(x) for an index",
    "T": _TURNED,
    "transpose": _TURNED,
    "reshape": "cute.make_tensor(x.data, layout)",
    "view": "cute.make_tensor(x.data, layout)",
    "ndim": "cute.rank(x)",
    "numel": "cute.size(x)",
    "clip": "cute.minimum(cute.maximum(x, low), high)",
    "clamp": "cute.minimum(cute.maximum(x, low), high)",
    "abs": "abs(x)",
    "pow": "x * x, or cute.exp2(y * cute.log2(x))",
    "float": "x.to('f32')",
    "half": "x.to('f16')",
    "double": "x.to('f64')",
    "int": "x.to('s32')",
    "copy": "copy.copy(x), of registers",
    "clone": "copy.copy(x), of registers",
}


class Operators:
    """`+ - * / // % & | ^ << >>`, their in-place forms, `-x ~x abs(x)`, and `< <= > >= !=`."""

    __slots__ = ()
    __array_priority__ = 1000.0  # NumPy's numbers leave the operators to this class
    engine: Engine

    def __getattr__(self, name: str) -> Any:
        """Refuse an attribute that a tensor does not have; name what does what an array's does."""
        hint = _INSTEAD.get(name, "")
        if not hint and not name.startswith("_"):
            from cute_py import math as functions

            hint = f"cute.{name}(x)" if name in dir(functions) else ""
        said = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(f"{said}; write {hint}" if hint else said, name=name, obj=self)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **options: Any
    ) -> Any:  # a Tensor, or an array
        """Answer a function of NumPy: an operator as Python's; any other from the elements of a
        host tensor, refused in a kernel, which has functions of its own.
        """
        name, _function = UFUNCS.get(ufunc.__name__, ("", None))
        plain = method == "__call__" and not options
        if name and plain and (self.engine.records or not isinstance(inputs[0], Operators)):
            return self._operate(name, *inputs) if name != "eq" else False
        self.engine.require_numpy(self, ufunc.__name__)
        arrays = [x.__array__() if isinstance(x, Operators) else x for x in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        """Answer a function of NumPy that is no ufunc, such as numpy.where: the same."""
        self.engine.require_numpy(self, function.__name__)
        return function._implementation(*args, **named)

    def _operate(self, name: str, *operands: object) -> Any:  # a Tensor
        return self.engine.operate(name, *operands)

    def _in_place(self, name: str, other: object) -> Any:
        self.engine.operate(f"i{name}", self, other)
        return self

    def to(
        self,
        dtype: DtypeLike,
        rounding: str | None = None,
        saturate: bool = False,
        wrap: bool = False,
    ) -> Any:
        """Return the elements in another type, in new registers of a kernel.

        Integers keep their low bits, and floats become integers toward zero, clamped, as in C and
        by `cute.convert`.

        Args:
            dtype: the new type.
            rounding: how what the new type does not hold is rounded: a name of `cute.ROUNDINGS`, or
                its name in CUTLASS, PTX or CUDA. None: `toward_zero` from floats to integers, else
                `to_nearest`. `half_ulp_trunc_dntz` is refused: no instruction rounds so.
            saturate: clamp to the finite range of the new type.
            wrap: say that the low bits of integers are meant, as `i.to(dtype, wrap=True)` of an
                integer that is no element must; for integers that become integers.

        """
        return self.engine.convert(self, dtype, (rounding, saturate, wrap))

    def __bool__(self) -> bool:
        """Refuse memory of a kernel, whose values are not known yet; any other tensor is true."""
        self.engine.require_known(self, "Python's if, while, assert, and, or, not, min, max")
        return True

    def __format__(self, spec: str) -> str:
        try:
            return format(self.engine.described(self, "format", sys._getframe(1)), spec)
        except ValueError:
            self.engine.require_known(self, f"the format {spec!r}", "cute.print")
            raise

    def __int__(self) -> int:
        return self._number("int()", "x.to('s32'); cute.as_int(x) for an index")

    def __float__(self) -> float:
        return self._number("float(), math.sqrt() and the like", "x.to('f32'); cute.sqrt(x)")

    def __round__(self, digits: object = None) -> Any:
        return self._number("round()", "x.to(dtype, 'to_nearest'), which rounds")

    def __pow__(self, other: object) -> Any:
        return self._number("**", "x * x, or cute.exp2(y * cute.log2(x))")

    __rpow__ = __pow__

    def __matmul__(self, other: object) -> Any:
        return self._number("@", "cute.gemm on fragments")

    __rmatmul__ = __matmul__

    def _number(self, use: str, instead: str = "") -> NoReturn:
        self.engine.require_known(self, use, instead)
        raise TypeError(f"a tensor is not a number in {use}: read one element, tensor[coord]")

    def __ne__(self, other: object) -> Any:
        """Return the negation of `==`."""
        if self.engine.computes:
            return self._operate("ne", self, other)
        return not self == other

    def __divmod__(self, other: object) -> Any:
        return self._operate("floordiv", self, other), self._operate("mod", self, other)

    __pos__, __neg__, __invert__, __abs__ = map(_of_one, ("copy", "neg", "not", "abs"))
    __lt__, __le__, __gt__, __ge__ = map(_of_two, ("lt", "le", "gt", "ge"))

    __add__, __radd__, __iadd__ = _forms("add")
    __sub__, __rsub__, __isub__ = _forms("sub")
    __mul__, __rmul__, __imul__ = _forms("mul")
    __truediv__, __rtruediv__, __itruediv__ = _forms("div")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _forms("floordiv")
    __mod__, __rmod__, __imod__ = _forms("mod")
    __and__, __rand__, __iand__ = _forms("and")
    __or__, __ror__, __ior__ = _forms("or")
    __xor__, __rxor__, __ixor__ = _forms("xor")
    __lshift__, __rlshift__, __ilshift__ = _forms("shl")
    __rshift__, __rrshift__, __irshift__ = _forms("shr")
