"""The blocks of a grid, run batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.batch import Grid, batch_of
from cute_py.emulate.machine import Machine
from cute_py.emulate.regions import Regions

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.emulate.arguments import Arguments
    from cute_py.emulate.program import Program
    from cute_py.emulate.regions import Footprint
    from cute_py.emulate.report import Report
    from cute_py.emulate.turns import Chooser


def quietly() -> np.errstate:
    """Return a context in which arithmetic does as on a GPU, without a word."""
    return np.errstate(all="ignore")


def run_batches(
    program: Program,
    given: Arguments,
    shape: tuple[int, int, int],
    together: int,
    order: str | int | Chooser = "forward",
    resident: int | None = None,
    counts: Report | None = None,
    progress: Callable[[float, int], None] | None = None,
    footprint: Footprint | None = None,
) -> None:
    """Run all blocks of a grid of this shape, so many together.

    Args:
        program: the compiled plan.
        given: its arguments.
        shape: the blocks in (x, y, z).
        together: the blocks of a batch.
        order: as that of `emulate`, or who chooses.
        resident: as that of `emulate`.
        counts: what counts, if anything does.
        progress: as that of `emulate`.
        footprint: what takes note of which blocks touch what, if anything does.
    """
    needs, total = program.resources, shape[0] * shape[1] * shape[2]
    watch = None
    if "global" in program.checks and needs.traffic.written:
        agents = needs.agents.count
        watch = Regions(needs.traffic, given.arrays, counts, agents, total, footprint)
    starts, grid = list(range(0, total, together)), Grid(needs, given, shape, counts, watch, {})
    for batch, start in enumerate(reversed(starts) if order == "reversed" else starts, 1):
        blocks = min(together, total - start)
        state = batch_of(grid, blocks, start)
        before = (batch - 1) * together
        part = _part_of(progress, before, blocks, total)
        Machine(program, state, order, part, resident).run()
        state.maxnreg.require_together(state.spans)
        if progress is not None:
            progress(min(before + together, total), total)
    if counts is not None and watch is not None:
        counts.unwritten = watch.unwritten()


def _part_of(
    progress: Callable[[float, int], None] | None, before: int, blocks: int, total: int
) -> Callable[[float], None] | None:
    """Return what tells the part of a batch that is done (0 to 1) as blocks of the whole grid."""
    if progress is None:
        return None
    return lambda part: progress(before + blocks * part, total)
