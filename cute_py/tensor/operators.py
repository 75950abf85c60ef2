"""Python's operators on tensors: what the engine makes of them.

Registers of a kernel compute element by element; other engines refuse, and say what to do.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from cute_py.dtypes.table import DtypeLike
    from cute_py.tensor.engine import Engine


class Operators:
    """`+ - * / // % & | ^ << >>`, their in-place forms, `-x ~x abs(x)`, and `< <= > >= !=`."""

    __slots__ = ()
    __array_priority__ = 1000.0  # NumPy's numbers leave the operators to this class
    engine: Engine

    def _operate(self, name: str, *operands: object) -> Any:  # a Tensor
        return self.engine.operate(name, *operands)

    def _in_place(self, name: str, other: object) -> Any:
        self.engine.operate(f"i{name}", self, other)
        return self

    def to(self, dtype: DtypeLike, rounding: str = "rn", saturate: bool = False) -> Any:
        """Return the elements in another type, in new registers of a kernel.

        Args:
            dtype: the new type.
            rounding: rn, rz, rd or ru, where the new type is narrower.
            saturate: clamp to the finite range of the new type.

        """
        return self.engine.convert(self, dtype, (rounding, saturate))

    def __bool__(self) -> bool:
        """Refuse for memory of a kernel, whose values are not known yet; else a tensor is true."""
        self.engine.require_known(self, "Python's if, while, assert, and, or, not, min, max")
        return True

    def __int__(self) -> int:
        return self._number("int()")

    def __float__(self) -> float:
        return self._number("float(), math.sqrt() and the like")

    def __round__(self, digits: object = None) -> Any:
        return self._number("round()", "x.to(dtype), which rounds as it is told")

    def __pow__(self, other: object) -> Any:
        return self._number("**", "x * x, or cute.exp2(y * cute.log2(x))")

    __rpow__ = __pow__

    def __matmul__(self, other: object) -> Any:
        return self._number("@", "cute.gemm on fragments")

    __rmatmul__ = __matmul__

    def _number(self, use: str, instead: str = "") -> NoReturn:
        self.engine.require_known(self, use, instead)
        raise TypeError(f"a tensor is no number in {use}: read one element, tensor[coord]")

    def __ne__(self, other: object) -> Any:
        """Return the negation of `==`."""
        if self.engine.computes:
            return self._operate("ne", self, other)
        return not self == other

    def __divmod__(self, other: object) -> Any:
        return self._operate("floordiv", self, other), self._operate("mod", self, other)

    def __pos__(self) -> Any:
        return self._operate("copy", self)

    def __neg__(self) -> Any:
        return self._operate("neg", self)

    def __invert__(self) -> Any:
        return self._operate("not", self)

    def __abs__(self) -> Any:
        return self._operate("abs", self)

    def __lt__(self, other: object) -> Any:
        return self._operate("lt", self, other)

    def __le__(self, other: object) -> Any:
        return self._operate("le", self, other)

    def __gt__(self, other: object) -> Any:
        return self._operate("gt", self, other)

    def __ge__(self, other: object) -> Any:
        return self._operate("ge", self, other)

    def __add__(self, other: object) -> Any:
        return self._operate("add", self, other)

    def __radd__(self, other: object) -> Any:
        return self._operate("add", other, self)

    def __iadd__(self, other: object) -> Any:
        return self._in_place("add", other)

    def __sub__(self, other: object) -> Any:
        return self._operate("sub", self, other)

    def __rsub__(self, other: object) -> Any:
        return self._operate("sub", other, self)

    def __isub__(self, other: object) -> Any:
        return self._in_place("sub", other)

    def __mul__(self, other: object) -> Any:
        return self._operate("mul", self, other)

    def __rmul__(self, other: object) -> Any:
        return self._operate("mul", other, self)

    def __imul__(self, other: object) -> Any:
        return self._in_place("mul", other)

    def __truediv__(self, other: object) -> Any:
        return self._operate("div", self, other)

    def __rtruediv__(self, other: object) -> Any:
        return self._operate("div", other, self)

    def __itruediv__(self, other: object) -> Any:
        return self._in_place("div", other)

    def __floordiv__(self, other: object) -> Any:
        return self._operate("floordiv", self, other)

    def __rfloordiv__(self, other: object) -> Any:
        return self._operate("floordiv", other, self)

    def __ifloordiv__(self, other: object) -> Any:
        return self._in_place("floordiv", other)

    def __mod__(self, other: object) -> Any:
        return self._operate("mod", self, other)

    def __rmod__(self, other: object) -> Any:
        return self._operate("mod", other, self)

    def __imod__(self, other: object) -> Any:
        return self._in_place("mod", other)

    def __and__(self, other: object) -> Any:
        return self._operate("and", self, other)

    def __rand__(self, other: object) -> Any:
        return self._operate("and", other, self)

    def __iand__(self, other: object) -> Any:
        return self._in_place("and", other)

    def __or__(self, other: object) -> Any:
        return self._operate("or", self, other)

    def __ror__(self, other: object) -> Any:
        return self._operate("or", other, self)

    def __ior__(self, other: object) -> Any:
        return self._in_place("or", other)

    def __xor__(self, other: object) -> Any:
        return self._operate("xor", self, other)

    def __rxor__(self, other: object) -> Any:
        return self._operate("xor", other, self)

    def __ixor__(self, other: object) -> Any:
        return self._in_place("xor", other)

    def __lshift__(self, other: object) -> Any:
        return self._operate("shl", self, other)

    def __rlshift__(self, other: object) -> Any:
        return self._operate("shl", other, self)

    def __ilshift__(self, other: object) -> Any:
        return self._in_place("shl", other)

    def __rshift__(self, other: object) -> Any:
        return self._operate("shr", self, other)

    def __rrshift__(self, other: object) -> Any:
        return self._operate("shr", other, self)

    def __irshift__(self, other: object) -> Any:
        return self._in_place("shr", other)
