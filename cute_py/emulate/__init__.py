"""The emulator: a plan runs on NumPy arrays, exactly, and what a GPU would punish is refused.

`cute.emulate(plan, ...)` is the door: this package is also that function. `build` compiles each op
to a function of a cohort, `machine` runs them.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate import (
    ops_control,
    ops_matrix,
    ops_mbarrier,
    ops_memory,
    ops_order,
    ops_register,
    ops_tma,
    ops_wgmma,
)
from cute_py.emulate.build import HANDLERS, Build
from cute_py.emulate.machine import Machine, is_together
from cute_py.emulate.report import Report
from cute_py.errors import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.plan.plan import Plan

_OPS = (
    ops_control,
    ops_matrix,
    ops_mbarrier,
    ops_memory,
    ops_order,
    ops_register,
    ops_tma,
    ops_wgmma,
)

MEMORY = 1 << 30


def emulate(
    plan: Plan,
    *args: Any,  # noqa: ANN401
    checks: bool = True,
    report: bool = False,
    order: str | int = "forward",
    memory: int = MEMORY,
    progress: Callable[[int, int], None] | None = None,
) -> Report | None:
    """Run a plan on NumPy arrays, which it reads and writes in place.

    All blocks are resident at once where they may wait for each other; else in batches whose state
    fits into `memory`.

    Args:
        plan: what to run.
        args: an array for each `TensorParam`, a number for each `ScalarParam`, in order. Types
            narrower than a byte come as one value per element.
        checks: refuse races, reads of what is not written, and divergent barriers; without them
            only addresses are checked.
        report: whether to count.
        order: who goes first where several could: "forward", "reversed", or a seed.
        memory: for the state of the blocks that run together (bytes).
        progress: called with (blocks done, blocks in all) after each batch.

    Raises:
        EmulationError: what the kernel did is no defined behaviour on a GPU.
    """
    if order not in ("forward", "reversed") and not isinstance(order, int):
        raise refusal("emulate-order", operation="emulate", order=order)
    counts = Report(plan) if report else None
    with np.errstate(all="ignore"):
        build = Build(plan, args, checks, counts)
        total = build.grid[0] * build.grid[1] * build.grid[2]
        together = max(1, memory // build.bytes_per_block())
        if is_together(plan.body) or build.engines.cluster > 1:
            together = max(total, 1)
        starts = list(range(0, total, together))
        for batch, start in enumerate(reversed(starts) if order == "reversed" else starts, 1):
            Machine(build, order).run(min(together, total - start), start)
            if progress is not None:
                progress(min(batch * together, total), total)
    return counts


__all__ = ["HANDLERS", "Report", "emulate"]


class _Door(ModuleType):
    def __call__(self, plan: Plan, *args: Any, **named: Any) -> Report | None:  # noqa: ANN401
        """Run a plan on NumPy arrays; see `emulate`."""
        return emulate(plan, *args, **named)


sys.modules[__name__].__class__ = _Door
