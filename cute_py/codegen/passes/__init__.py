"""Optimisations of a plan that NVVM and ptxas do not do.

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
    """Return the plan without its waits for earlier grids, if grids never overlap on the
    architecture.
    """
    return plan if overlaps(arch) else replace(plan, body=rebuilt(plan.body, _dropped))


def _dropped(op: Op) -> Block:
    return () if isinstance(op, ops.GridDep) else (op,)


def names_in(plan: Plan) -> set[str]:
    """Return the names that a plan uses."""
    found = {x.name for x in (plan, *plan.params, *plan.storages, *plan.shared)}
    return found.union(*(named(op) for op in every(plan.body)))
