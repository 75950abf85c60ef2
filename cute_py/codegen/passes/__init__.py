"""What is made cheaper before a kernel is printed: the optimisations that NVVM and ptxas leave.

A rewrite takes a plan and an architecture, and returns a plan. Law: the emulator gives the same
results for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cute_py.plan.walk import every, named

if TYPE_CHECKING:
    from cute_py.plan.plan import Plan


def names_in(plan: Plan) -> set[str]:
    """Return the names that stand for something in a plan."""
    found = {x.name for x in (plan, *plan.params, *plan.storages, *plan.shared)}
    return found.union(*(named(op) for op in every(plan.body)))
