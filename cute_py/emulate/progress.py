"""Whether blocks that wait come to their end however few of them run at once.

A GPU begins blocks in rising order of their number, and the later ones may begin when earlier ones
have ended. So a wait that only a block of a higher number ends, or none that has begun, may last
forever, unless `cute.launch(..., resident=True)` has the launch see to it that all of them run at
once. That is no matter of the order in which an emulation happens to run them: before it, blocks
run one by one, or cluster by cluster, without checks, and their memory is as before.
Source: CUDA C++ Programming Guide, "Thread Hierarchy" ("thread blocks are required to execute
independently"); Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back
(2016).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from cute_py.emulate.batch import Grid, batch_of
from cute_py.emulate.machine import Machine
from cute_py.emulate.program import Program, program_of
from cute_py.plan import ops
from cute_py.plan.walk import every, rebuilt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.emulate.arguments import Arguments


def require_progress(program: Program, given: Arguments, shape: tuple[int, int, int]) -> None:
    """Refuse a grid of this shape of which a block waits for one that has not begun, where they run
    one by one.
    """
    plan, traffic = program.plan, program.resources.traffic
    total = shape[0] * shape[1] * shape[2]
    if plan.launch.resident or not traffic.waits or total <= program.resources.cluster:
        return
    silent = plan
    if any(isinstance(op, ops.Print) for op in every(plan.body)):
        body = rebuilt(plan.body, lambda op: () if isinstance(op, ops.Print) else (op,))
        silent = replace(plan, body=body)
    alone = program_of(silent, checks=False)
    with kept(given):
        batch = batch_of(Grid(alone.resources, given, shape, None, None, {}), total, 0)
        Machine(alone, batch, "forward", resident=1).run()


@contextmanager
def kept(given: Arguments) -> Iterator[None]:
    """Leave the memory of arrays as it was."""
    arrays = [array for array in given.arrays.values() if array.writable]
    before = [array.data.copy() for array in arrays]
    try:
        yield
    finally:
        for array, data in zip(arrays, before, strict=True):
            array.data[...] = data
