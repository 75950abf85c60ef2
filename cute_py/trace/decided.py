"""`Decided`: an integer of a kernel that is known while the kernel is traced, such as `t % 1`."""

from __future__ import annotations

import sys

from cute_py.errors import is_own
from cute_py.trace.state import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.tensor.tensor import Tensor


class Decided(int):
    """An int that has what run-time integers have, so that it is used where one is expected."""

    __slots__ = ()

    def to(self, *how: Any, **named: Any) -> Tensor:
        """Return the number in a register of a type; see `Int.to`."""
        return current().record.integer(int(self), *how, **named)

    def is_integer(self) -> bool:
        """Return True, as `int.is_integer` does from Python 3.12 on."""
        return True


def _stays_decided(name: str) -> Any:  # a method
    function = getattr(int, name)

    def method(self: int, *others: object) -> Any:
        found = function(self, *others)
        return Decided(found) if found.__class__ is int else found

    return method


_FORMS = ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")
for _name in (*_FORMS, *[f"r{name}" for name in _FORMS], "neg", "abs", "pos", "invert"):
    setattr(Decided, f"__{_name}__", _stays_decided(f"__{_name}__"))


def decided(x: Any) -> Any:
    """Return the result of a function as its caller's caller gets it: a number as `Decided` if that
    is the user's code.
    """
    if x.__class__ is int and not is_own(sys._getframe(2)):
        return Decided(x)
    return x
