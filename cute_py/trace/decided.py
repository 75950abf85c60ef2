"""`Decided`: an integer of a kernel that is known while the kernel is traced, such as `t % 1`."""

from __future__ import annotations

import sys

from cute_py.errors import is_own, refusal
from cute_py.integers import ints
from cute_py.trace.state import current, tracing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from cute_py.errors import CuteError
    from cute_py.tensor.tensor import Tensor


class Decided(int):
    """An int that has what run-time integers have, so that it is used where one is expected."""

    __slots__ = ()

    def __getitem__(self, index: object) -> NoReturn:
        raise one_number("[...]", self)

    def __iter__(self) -> NoReturn:
        raise one_number("iteration or unpacking", self)

    def __len__(self) -> NoReturn:
        raise one_number("len()", self)

    def to(self, *how: Any, **named: Any) -> Tensor:
        """Return the number in a register of a type; see `Int.to`."""
        return current().record.integer(int(self), *how, **named)

    def is_integer(self) -> bool:
        """Return True, as `int.is_integer` does from Python 3.12 on."""
        return True


def one_number(use: str, value: object) -> CuteError:
    """Return the refusal of what an integer of a kernel does not have."""
    instead = "the number itself; thread_idx() and block_idx() are tuples where launch got tuples"
    if use.startswith(".") and use not in (".x", ".y", ".z"):
        instead = "cute.local_tile for a view of elements, x.to(dtype) for registers"
    return refusal("trace-one-number", operation="kernel", use=use, value=value, instead=instead)


def _marked(x: Any) -> Any:
    if x.__class__ is tuple:
        return tuple([_marked(part) for part in x])
    return Decided(x) if x.__class__ is int else x


def _stays_decided(name: str) -> Any:  # a method
    function = getattr(int, name)

    def method(self: int, *others: object) -> Any:
        return _marked(function(self, *others))

    return method


_FORMS = (
    *("add", "sub", "mul", "floordiv", "mod", "divmod", "pow", "and", "or", "xor"),
    *("lshift", "rshift"),
)
for _name in (*_FORMS, *[f"r{name}" for name in _FORMS], "neg", "abs", "pos", "invert"):
    setattr(Decided, f"__{_name}__", _stays_decided(f"__{_name}__"))


def decided(x: Any) -> Any:
    """Return the result of a function as its caller's caller gets it: a number as `Decided` if that
    is the user's code.
    """
    return x if is_own(sys._getframe(2)) else _marked(x)


def _decided_in_kernels(x: Any) -> Any:
    """Return the same, of a function that is called outside of kernels, too."""
    return x if tracing() is None or is_own(sys._getframe(2)) else _marked(x)


ints.given = _decided_in_kernels
