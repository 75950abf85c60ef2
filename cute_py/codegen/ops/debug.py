"""Assertions in a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cute_py.codegen.emit import emits
from cute_py.codegen.storage import I32
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit


@emits(ops.Assert)
def assert_(e: Emit, op: ops.Assert) -> None:
    """Trap if the condition is false: the launch ends with an error."""
    e.emit("trap", guard=e.b.zext(e.scalars.holds(op.cond), I32), unless=True)
