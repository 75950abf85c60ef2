"""Waits for earlier grids, where there is nothing to wait for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cute_py.codegen.arch import overlaps
from cute_py.plan import ops
from cute_py.plan.walk import rebuilt

if TYPE_CHECKING:
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan


def without_waits(plan: Plan, arch: str) -> Plan:
    """Return the plan without its waits if the architecture runs one kernel after another."""
    return plan if overlaps(arch) else replace(plan, body=rebuilt(plan.body, _dropped))


def _dropped(op: Op) -> Block:
    return () if isinstance(op, ops.GridDep) else (op,)
