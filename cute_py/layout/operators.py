"""Python's operators on tensors: what the engine makes of them.

Registers of a kernel compute element by element; other engines refuse, and say what to do.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from cute_py.dtypes.table import DtypeLike
    from cute_py.layout.engine import Engine


class Operators:
    """`+ - * / // % & | ^ << >>`, `-x`, `~x`, `abs(x)` and `< <= > >= !=`, element by element."""

    __slots__ = ()
    __array_priority__ = 1000.0  # NumPy's numbers leave the operators to this class
    engine: Engine

    def _operate(self, name: str, *operands: object) -> Any:  # noqa: ANN401  (a Tensor)
        return self.engine.operate(name, *operands)

    def __ne__(self, other: object) -> Any:  # noqa: ANN401
        """Return the negation of `==`."""
        if self.engine.computes:
            return self._operate("ne", self, other)
        return not self == other

    def to(self, dtype: DtypeLike, rounding: str = "rn", saturate: bool = False) -> Any:  # noqa: ANN401
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

    def _number(self, use: str) -> NoReturn:
        self.engine.require_known(self, use)
        raise TypeError(f"a tensor is no number in {use}: read one element, tensor[coord]")

    def __neg__(self) -> Any:  # noqa: ANN401
        return self._operate("neg", self)

    def __invert__(self) -> Any:  # noqa: ANN401
        return self._operate("not", self)

    def __abs__(self) -> Any:  # noqa: ANN401
        return self._operate("abs", self)


def _in_place(name: str) -> Any:  # noqa: ANN401
    def method(self: Operators, other: object) -> Any:  # noqa: ANN401
        self._operate(f"i{name}", self, other)
        return self

    return method


def _binary(name: str, *, reflected: bool = False) -> Any:  # noqa: ANN401
    def method(self: Operators, other: object) -> Any:  # noqa: ANN401
        return self._operate(name, *((other, self) if reflected else (self, other)))

    return method


_NAMES = {
    **{name: name for name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor")},
    **{"truediv": "div", "lshift": "shl", "rshift": "shr"},
}
for _python, _name in _NAMES.items():
    setattr(Operators, f"__{_python}__", _binary(_name))
    setattr(Operators, f"__i{_python}__", _in_place(_name))
    setattr(Operators, f"__r{_python}__", _binary(_name, reflected=True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Operators, f"__{_name}__", _binary(_name))
