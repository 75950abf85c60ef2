"""Checks of a kernel by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.codegen.storage import I32
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.codegen.emit import Emit


def assert_(e: Emit, op: ops.Assert) -> None:
    """Trap where the condition fails: the launch ends with an error."""
    e.emit("trap", guard=e.b.zext(e.scalars.holds(op.cond), I32), unless=True)


EMIT: dict[type[ops.Op], Any] = {ops.Assert: assert_}
