"""What is made cheaper before a kernel is printed: the optimisations that NVVM and ptxas leave.

A rewrite takes a plan and an architecture, and returns a plan. Law: the emulator gives the same
results for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cute_py.plan import ops
from cute_py.plan.walk import every

if TYPE_CHECKING:
    from cute_py.plan.plan import Plan


def names_in(plan: Plan) -> set[str]:
    """Return the names that stand for something in a plan."""
    found = {x.name for x in (plan, *plan.params, *plan.storages, *plan.shared)}
    named = (ops.Loop, ops.Let, ops.Set)
    return found | {op.var for op in every(plan.body) if isinstance(op, named)}
