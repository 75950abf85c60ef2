"""Optimisations of a plan that NVVM and ptxas do not do.

A rewrite takes a plan and an architecture, and returns a plan. Law: the emulator gives the same
results for both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cute_py.atoms.arch import holds
from cute_py.codegen.arch import NEEDS, overlaps
from cute_py.plan import ops
from cute_py.plan.walk import every, named, rebuilt

if TYPE_CHECKING:
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan

PAIRS = ("f16", "bf16")  # the types of which one atomic addition takes two elements


# -- for older architectures


def without_waits(plan: Plan, arch: str) -> Plan:
    """Return the plan without its waits for earlier grids, if grids never overlap on the
    architecture.
    """
    return plan if overlaps(arch) else replace(plan, body=rebuilt(plan.body, _dropped))


def _dropped(op: Op) -> Block:
    return () if isinstance(op, ops.GridDep) else (op,)


def with_short_sums(plan: Plan, arch: str) -> Plan:
    """Return the plan with its atomic sums of vectors split into those that the architecture has:
    pairs of 16-bit elements, and single ones.

    Law: each element is combined atomically either way.
    """
    if holds(NEEDS["red.add"].archs, arch):
        return plan
    return replace(plan, body=rebuilt(plan.body, _split))


def _split(op: Op) -> Block:
    if not isinstance(op, ops.Atomic) or op.dst.vector_bits <= 32:
        return (op,)
    x, width = op.dst, 2 if op.dst.dtype.name in PAIRS else 1
    if x.width == width:
        return (op,)
    each = range(0, x.width, width)
    short = replace(
        x,
        width=width,
        table=tuple([(base, offset + k) for base, offset in x.table for k in each]),
        masks=tuple([mask for mask in x.masks for _k in each]),
    )
    return (replace(op, dst=short),)


# -- what the passes share


def names_in(plan: Plan) -> set[str]:
    """Return the names that a plan uses."""
    found = {x.name for x in (plan, *plan.params, *plan.storages, *plan.shared)}
    return found.union(*(named(op) for op in every(plan.body)))
