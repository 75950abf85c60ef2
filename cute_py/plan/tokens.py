"""Runs of arrivals at mbarriers: where threads arrive directly after they have arrived, or met.

What a thread did last is followed through branches and loops. Integers and variables do not count.
"""

from __future__ import annotations

from enum import Enum, auto

from cute_py.plan import ops
from cute_py.plan.walk import every

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.plan.ops import Block


class Last(Enum):
    """What a thread did last: it arrived at an mbarrier, met others at a barrier, or else."""

    ARRIVED = auto()
    MET = auto()
    OTHER = auto()


_QUIET = (ops.Let, ops.Set, ops.Leave, ops.Promise)
_States = frozenset[Last]
_OTHER: _States = frozenset({Last.OTHER})


class Before:
    """What threads did last before each arrival: in the first iteration of the innermost loop, or
    outside of loops, and in later ones. `runs`: whether any may come directly after another one.
    """

    def __init__(self, body: Block) -> None:
        self.found: dict[tuple[int, bool], _States] = {}
        self._block(body, _OTHER, False)
        self.runs = any(Last.ARRIVED in last for last in self.found.values())

    def of(self, op: ops.MbarArrive, later: bool) -> Last:
        """Return what threads did last before an arrival; OTHER where that depends on the path."""
        states = self.found.get((id(op), later), _OTHER)
        return next(iter(states)) if len(states) == 1 else Last.OTHER

    def _block(self, block: Iterable[ops.Op], last: _States, later: bool) -> _States:
        """Return what may be the last that threads did at the end of a block."""
        for op in block:
            if isinstance(op, ops.MbarArrive):
                known = self.found.get((id(op), later), frozenset())
                self.found[id(op), later] = known | last
                last = frozenset({Last.ARRIVED})
            elif op.blocks and not any(isinstance(x, ops.MbarArrive) for x in every((op,))):
                last = _OTHER
            elif isinstance(op, ops.If):
                last = self._block(op.then, last, later) | self._block(op.other, last, later)
            elif isinstance(op, ops.Loop):
                first = self._block(op.body, last, False)
                again = self._block(op.body, first, True)
                leaves = any(isinstance(x, ops.Leave) for x in every(op.body))
                last = _OTHER if leaves else last | first | again
            elif isinstance(op, ops.While):
                self._block(op.test, _OTHER, False)
                self._block(op.body, _OTHER, False)
                last = _OTHER
            elif isinstance(op, ops.Barrier) and op.kind == "sync":
                last = frozenset({Last.MET})
            elif not isinstance(op, _QUIET):
                last = _OTHER
        return last


def only_arrives(*blocks: Block) -> bool:
    """Tell whether blocks do nothing but arrive at mbarriers."""
    moving = [op for block in blocks for op in block if not isinstance(op, (ops.Let, ops.Set))]
    return bool(moving) and all(isinstance(op, ops.MbarArrive) for op in moving)
