"""The emulator: a plan runs on NumPy arrays, exactly; what is undefined on a GPU is refused.

This package is also the function `cute.emulate(plan, ...)`. `program` compiles each op to a
function of a cohort, once per plan; `machine` runs these functions on the state of a `batch`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.batch import Batch
from cute_py.emulate.global_memory import GlobalMemory
from cute_py.emulate.machine import Machine
from cute_py.emulate.ops import HANDLERS
from cute_py.emulate.program import program_of
from cute_py.emulate.report import Report
from cute_py.emulate.storages import Arguments
from cute_py.errors import CuteError, refusal, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.plan.plan import Plan

MEMORY = 1 << 30


def emulate(
    plan: Plan,
    *args: Any,
    checks: bool = True,
    report: bool = False,
    order: str | int = "forward",
    memory: int = MEMORY,
    resident: int | None = None,
    progress: Callable[[float, int], None] | None = None,
) -> Report | None:
    """Run a plan on NumPy arrays, which it reads and writes in place.

    Blocks that communicate run one by one, `resident` of them at a time, and begin in rising order
    of their number; all others run together, in batches whose state fits into `memory`.

    Args:
        plan: what to run.
        args: an array for each `TensorParam`, a number for each `ScalarParam`, in order. Types
            narrower than a byte come as one value per element.
        checks: refuse races, reads of what is not written, and divergent barriers; without them
            only addresses are checked.
        report: whether to count.
        order: who goes first where several could, warps, and blocks that communicate: "forward",
            "reversed", or a seed.
        memory: for the state of the blocks that run together (bytes).
        resident: how many blocks run at once where they may wait for each other; left out, what
            their threads and shared memory allow on the 132 multiprocessors of an H100.
        progress: called with (blocks done, blocks in all) after each batch, and after each
            iteration of a loop of the kernel with the part of its batch that is done by then.

    Raises:
        EmulationError: what the kernel did is no defined behaviour on a GPU.
    """
    _require_choices(order, resident)
    counts = Report(plan) if report else None
    with np.errstate(all="ignore"):
        given = Arguments(plan, args)
        program = program_of(plan, checks, report)
        traffic = program.resources.traffic
        watch = GlobalMemory(traffic, given, counts) if checks and traffic.written else None
        grid = program.grid(given.symbols)
        total = grid[0] * grid[1] * grid[2]
        together = max(1, memory // program.resources.bytes_per_block())
        if program.together:
            together = max(total, 1)
        starts = list(range(0, total, together))
        for batch, start in enumerate(reversed(starts) if order == "reversed" else starts, 1):
            blocks = min(together, total - start)
            state = Batch(program.resources, given, grid, counts, blocks, start, watch)
            before = (batch - 1) * together
            part = _part_of(progress, before, blocks, total)
            Machine(program, state, order, part, resident).run()
            state.maxnreg.require_together(state.spans)
            if progress is not None:
                progress(min(before + together, total), total)
        if counts is not None and watch is not None:
            counts.unwritten = watch.unwritten()
    return counts


def _require_choices(order: object, resident: object) -> None:
    """Refuse an unknown order, and a number of resident blocks that is none."""
    if order not in ("forward", "reversed") and not isinstance(order, int):
        raise refusal("emulate-order", operation="emulate", order=order)
    if resident is not None and not (isinstance(resident, int) and resident >= 1):
        raise refusal("emulate-resident", operation="emulate", resident=resident)


def _part_of(
    progress: Callable[[float, int], None] | None, before: int, blocks: int, total: int
) -> Callable[[float], None] | None:
    """Return what tells the part of a batch that is done (0 to 1) as blocks of the whole grid."""
    if progress is None:
        return None
    return lambda part: progress(before + blocks * part, total)


__all__ = ["HANDLERS", "Report", "emulate"]


class _Door(ModuleType):
    def __call__(self, plan: Plan, *args: Any, **named: Any) -> Report | None:
        """Run a plan on NumPy arrays; see `emulate`."""
        try:
            return emulate(plan, *args, **named)
        except CuteError as error:
            shorten(error)
            raise


sys.modules[__name__].__class__ = _Door
