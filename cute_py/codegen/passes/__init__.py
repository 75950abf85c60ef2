"""From the plan of a kernel to the plan that is printed for an architecture."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cute_py.codegen.arch import overlaps
from cute_py.codegen.passes.counters import turned
from cute_py.plan import ops
from cute_py.plan.walk import rebuilt

if TYPE_CHECKING:
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan


def lowered(plan: Plan, arch: str | None = None) -> Plan:
    """Return a plan with what is cheaper for a GPU; None stands for the newest architecture.

    Law: the emulator gives the same results for both.
    """
    if arch is not None and not overlaps(arch):
        plan = replace(plan, body=rebuilt(plan.body, _alone))
    return turned(plan)


def _alone(op: Op) -> Block:
    """Return an op of a kernel that begins when the one before has ended."""
    return () if isinstance(op, ops.GridDep) else (op,)
