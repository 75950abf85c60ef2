"""The emission of ops: a rule for each kind, in files that are named as those of `plan.ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.codegen.ops import debug, matrix, memory, order, registers

if TYPE_CHECKING:
    from cute_py.plan.ops import Op

RULES: dict[type[Op], Any] = {
    **registers.EMIT,
    **memory.EMIT,
    **matrix.EMIT,
    **order.EMIT,
    **debug.EMIT,
}
