"""`cute.var`, the integers that a kernel changes while it runs, and waiting for one in memory."""

from __future__ import annotations

from cute_py.calls.places import kernel_line, where
from cute_py.errors import refusal
from cute_py.plan.ops import Let, Set, WaitUntil
from cute_py.tensor.tensor import require_tensor
from cute_py.trace.lower import access
from cute_py.trace.runtime_integers import bare, new_symbol
from cute_py.trace.state import current, require_choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from cute_py.layout.types import Leaf
    from cute_py.tensor.tensor import Tensor


class Var:
    """A run-time integer variable: `x.get()` and `x.set(value)`. Every thread has its own.

    `low` and `high` bound it for proofs; the emulator checks them.
    """

    __slots__ = ("high", "low", "name", "scope")

    def __init__(self, value: Leaf, low: int | None = None, high: int | None = None) -> None:
        """Declare a variable with its first value."""
        trace = current()
        self.name = trace.name_for("v")
        self.low, self.high = low, high
        self.scope = trace.scope
        trace.emit(Set(self.name, bare(value, "cute.var"), line=kernel_line()))

    def get(self) -> Leaf:
        """Return the present value."""
        trace = current()
        self.scope.require_open(self)
        name = trace.name_for("n")
        trace.emit(Let(name, "var", (self.name,), line=kernel_line()))
        return new_symbol(trace, name, 1, self.low, self.high, "thread")

    def set(self, value: Leaf) -> None:
        """Give it a new value."""
        self.scope.require_open(self)
        current().emit(Set(self.name, bare(value, "cute.var"), line=kernel_line()))

    def __str__(self) -> str:
        return f"the variable {self.name}"

    def __bool__(self) -> bool:
        self._refuse()

    def _refuse(self, *operands: object) -> NoReturn:
        raise refusal("kernel-variable", operation="cute.var", name=self.name, where=where())


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift")
_OTHERS = ("rshift", "lt", "le", "gt", "ge", "eq", "ne", "neg", "index", "int")
for _name in (*_OTHERS, *[f"{side}{name}" for side in ("", "r", "i") for name in _BINARY]):
    setattr(Var, f"__{_name}__", Var._refuse)


def wait_until(element: Tensor, test: str, value: Leaf) -> None:
    """Wait until an element of memory compares `eq`, `ne`, `ge`, `gt`, `le` or `lt` to a value.

    The element is read again and again with acquire order: what was written before the release that
    made the comparison true is visible after it.
    """
    require_choice(test, ("eq", "ne", "ge", "gt", "le", "lt"), "wait_until")
    src = access(require_tensor(element, "wait_until"), 1, "wait_until")
    current().emit(WaitUntil(src, test, bare(value, "wait_until"), line=kernel_line()))
