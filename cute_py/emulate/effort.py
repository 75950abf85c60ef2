"""What the emulator takes on: sizes are refused before memory is taken, or time is spent.

A GPU runs 2^40 threads in minutes, and counts to 2^30 in a second. The emulator would take days; in
a plan from a file such a number is more likely wrong, or meant to stop the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.errors import refusal
from cute_py.plan import ops
from cute_py.plan.walk import every

if TYPE_CHECKING:
    from cute_py.emulate.cohorts import Cohort
    from cute_py.emulate.program import Program

MOST_THREADS = 1 << 28  # of a grid
MOST_TURNS = 1 << 24  # of a loop and those around it, one after another
MOST_STATE = 1 << 32  # bytes, or `memory`: of blocks that run together, as they may wait


def require_room(program: Program, blocks: int, together: int, memory: int) -> None:
    """Refuse a grid of so many blocks, of which so many run together, with a state in `memory`."""
    plan = program.plan
    threads, state = blocks * plan.launch.threads, together * program.resources.bytes_per_block()
    most, found = MOST_THREADS, f"{threads} threads"
    if threads <= most:
        most = max(MOST_STATE, memory)
        found = f"{state} bytes of state of {together} blocks together"
        if state <= most or not blocks:
            return
    raise refusal("emulate-large", operation=f"emulate({plan.name})", found=found, most=most)


def require_resident(resident: object, operation: str) -> None:
    """Refuse a number of blocks that run at a time that is none."""
    if resident is not None and not (isinstance(resident, int) and resident >= 1):
        raise refusal("emulate-resident", operation=operation, resident=resident)


def may_leave(op: ops.Loop) -> bool:
    """Return whether a loop may end before its last turn."""
    return any(isinstance(x, ops.Leave) for x in every(op.body))


def turns(c: Cohort, op: ops.Op, count: int) -> int:
    """Return the turns of a loop times those of the loops around it; refuse too many."""
    outer = next((f.turns for f in reversed(c.frames) if f.turns > 1), 1)
    if count * outer > MOST_TURNS:
        facts: dict[str, Any] = {"found": f"{count * outer} turns of loops", "most": MOST_TURNS}
        raise c.batch.faults.fault("emulate-large", op, **facts)
    return count * outer
