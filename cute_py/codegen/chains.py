"""Addresses that go on from one op to the next.

Copies of a loop's body that read rows of one array are steps away from each other, and the steps
stay the same. One register pair then walks along the rows, from op to op, in place of a pair for
each op that lives through the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cute_py.codegen.scalars import varies
from cute_py.layout import ints
from cute_py.trace import ops
from cute_py.trace.walk import blocks_of, every

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.trace.access import Access
    from cute_py.trace.conditions import Scalar
    from cute_py.trace.ops import Block, Op
    from cute_py.trace.plan import Plan


@dataclass(frozen=True)
class Chain:
    """The part of an op in a chain.

    Attributes:
        name: of the variable that holds the address.
        before: the offset (elements) that it stands for when the op begins; None: the op is the
            first.
    """

    name: str
    before: Scalar | None


def source_of(op: Op) -> Access | None:
    """Return what an op reads of global memory, if it can be a part of a chain."""
    if not isinstance(op, (ops.CpAsync, ops.Load)) or op.src.space != "gmem":
        return None
    return op.src if op.src.dtype.bits >= 8 else None


def chains(plan: Plan, name_for: Callable[[str], str]) -> dict[int, Chain]:
    """Return the parts of all chains of two ops and more, by the identity of the op."""
    found: dict[int, Chain] = {}
    inner = [block for op in every(plan.body) for block in blocks_of(op)]
    for block in inner:
        for run in _runs(block):
            if len(run) > 1:
                _name(run, name_for, found)
    return found


def _name(run: list[Op], name_for: Callable[[str], str], found: dict[int, Chain]) -> None:
    first = source_of(run[0])
    assert first is not None
    name, before = name_for(f"{first.storage}_at"), None
    for op in run:
        found[id(op)] = Chain(name, before)
        x = source_of(op)
        assert x is not None
        before = x.bases[-1]


def _runs(block: Block) -> list[list[Op]]:
    """Return the ops of a block that walk along one array, array by array."""
    last: dict[str, list[Op]] = {}
    runs: list[list[Op]] = []
    for op in block:
        x = source_of(op)
        if x is None or not varies(x.bases[0]):
            continue
        run = last.get(x.storage)
        if run is None or not _follows(run[-1], x):
            run = last[x.storage] = []
            runs.append(run)
        run.append(op)
    return runs


def _follows(op: Op, x: Access) -> bool:
    before = source_of(op)
    assert before is not None
    step: Any = ints.sub(x.bases[0], before.bases[-1])
    return not varies(step)
