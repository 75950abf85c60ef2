"""Atomic sums of vectors on architectures that add fewer elements at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cute_py.atoms.arch import holds
from cute_py.codegen.arch import NEEDS
from cute_py.plan import ops
from cute_py.plan.walk import rebuilt

if TYPE_CHECKING:
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan

PAIRS = ("f16", "bf16")  # the types of which an atom adds two elements


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
