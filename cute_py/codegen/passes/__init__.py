"""What is made cheaper before a kernel is printed: the optimisations that NVVM and ptxas leave.

A rewrite takes a plan and an architecture, and returns a plan. Law: the emulator gives the same
results for both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cute_py.codegen.arch import overlaps
from cute_py.plan import ops
from cute_py.plan.walk import every, named, rebuilt

if TYPE_CHECKING:
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan


def without_waits(plan: Plan, arch: str) -> Plan:
    """Return the plan without its waits for earlier grids, if no grid begins before the one before
    it has ended on the architecture.
    """
    return plan if overlaps(arch) else replace(plan, body=rebuilt(plan.body, _dropped))


def _dropped(op: Op) -> Block:
    return () if isinstance(op, ops.GridDep) else (op,)


def names_in(plan: Plan) -> set[str]:
    """Return the names that stand for something in a plan."""
    found = {x.name for x in (plan, *plan.params, *plan.storages, *plan.shared)}
    return found.union(*(named(op) for op in every(plan.body)))
