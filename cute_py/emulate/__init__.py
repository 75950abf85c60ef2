"""The emulator: a plan runs on NumPy arrays, exactly; what is undefined on a GPU is refused.

This package is also the function `cute.emulate(plan, ...)`. `program` compiles each op to a
function of a cohort, once per plan; `machine` runs these functions on the state of a `batch`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cute_py.emulate.arguments import Arguments, plan_and_leaves
from cute_py.emulate.effort import require_resident, require_room
from cute_py.emulate.faults import CHECKS
from cute_py.emulate.ops import HANDLERS
from cute_py.emulate.orders.witness import Witness
from cute_py.emulate.program import program_of
from cute_py.emulate.progress import require_progress
from cute_py.emulate.report import Report
from cute_py.emulate.running import quietly, run_batches
from cute_py.emulate.timeline import Timeline
from cute_py.errors import CuteError, refusal, shorten
from cute_py.plan.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cute_py.emulate.program import Program

MEMORY = 1 << 30


def emulate(
    plan: Any,  # a Plan, or a Kernel
    *args: Any,
    checks: bool | str | Iterable[str] = True,
    report: bool | str = False,
    order: str | int | Witness = "forward",
    memory: int = MEMORY,
    resident: int | None = None,
    progress: Callable[[float, int], None] | None = None,
    arrays: Sequence[Any] = (),
    **named: Any,
) -> Report | None:
    """Run a plan or a kernel on NumPy arrays as a GPU would, and refuse undefined behaviour.

    The kernel reads and writes the arrays in place. Blocks that communicate are interleaved: they
    start in the order of their numbers, at most `resident` of them at a time. All other blocks run
    together, in batches whose state fits into `memory`.

    Args:
        plan: the plan to run, from `cute.trace`, or a kernel, which is traced for its arguments.
        args: the kernel's arguments; of a plan the arrays and numbers among them, in order. An
            array of a type narrower than a byte has one element per value.
        checks: True for all checks, False for none, or the names of the checks to make, as an
            iterable or as text ("shared, global"); `CHECKS` lists them. Addresses are always
            checked.
        report: True returns counts by line; "timeline" also what the first block did, in order.
        order: which of several runnable warps, or communicating blocks, goes first: "forward",
            "reversed", or a seed; or the witness of `cute.check_orders`, which repeats an order.
        memory: the limit for the state of the blocks that run together (bytes).
        resident: the number of communicating blocks that run at a time. By default, as many as
            the 132 multiprocessors of an H100 hold with these threads and this shared memory.
        progress: a function of (blocks done, blocks in total). It is called after each batch and
            after each iteration of an outermost loop of the kernel.
        arrays: more than arguments that pointers of the kernel (`make_ptr`) may point into.
        named: arguments of a kernel by name. One that has the name of an option above must be
            given by position.

    Raises:
        EmulationError: the kernel does something that is undefined on a GPU.
        LayoutError: the arguments do not fit the plan, or an option is unknown.

    >>> import numpy as np
    >>> import cute_py as cute
    >>> @cute.kernel
    ... def double(x):
    ...     cute.launch(grid=1, block=32)
    ...     x[cute.thread_idx()] = x[cute.thread_idx()] * 2.0
    >>> x = np.arange(32, dtype=np.float32)
    >>> emulate(cute.trace(double, x), x, checks=("global", "coordinates"))
    >>> x[:4].tolist()
    [0.0, 2.0, 4.0, 6.0]
    """
    _require_choices(order, resident, report)
    plan, args = plan_and_leaves(plan, args, named, "cute.emulate")
    with quietly(), plan.trusted("cute.emulate"):
        given = Arguments(plan, args, arrays)
        program = program_of(plan, checks, report)
        return _run(program, given, order, memory, resident, progress)


class Prepared:
    """A plan made ready for arguments: a function of NumPy's arrays of the same types, shapes,
    strides and flags, which are not read again, and of numbers. It keeps no memory.
    """

    def __init__(self, plan: Plan, args: Sequence[Any], checks: bool | str | Iterable[str]) -> None:
        self.given, self.checks = Arguments(plan, tuple(args)).bare(), checks

    def __call__(
        self,
        args: Sequence[Any],
        report: bool | str = False,
        order: str | int | Witness = "forward",
        memory: int = MEMORY,
        resident: int | None = None,
        progress: Callable[[float, int], None] | None = None,
    ) -> Report | None:
        """Run the plan; the options are those of `emulate`."""
        _require_choices(order, resident, report)
        with quietly():
            program = program_of(self.given.plan, self.checks, report)
            return _run(program, self.given.over(args), order, memory, resident, progress)


def _run(
    program: Program,
    given: Arguments,
    order: str | int | Witness,
    memory: int,
    resident: int | None,
    progress: Callable[[float, int], None] | None,
) -> Report | None:
    """Run all blocks of the grid, batch by batch."""
    timeline, counts = program.counted == "timeline", None
    if program.counted:
        counts = (Timeline if timeline else Report)(program.plan)
    shape = program.grid(given.symbols)
    total = shape[0] * shape[1] * shape[2]
    together = max(1, memory // program.resources.bytes_per_block())
    chooser: Any = order
    if isinstance(order, Witness):
        chooser, resident = order.replay(), resident or order.resident
    if program.together or isinstance(order, Witness):
        together = max(total, 1)
    require_room(program, total, min(together, total), memory)
    require_progress(program, given, shape)
    run_batches(program, given, shape, together, chooser, resident, counts, progress)
    if isinstance(counts, Timeline):
        counts.finish()
    return counts


def _require_choices(order: object, resident: object, report: object) -> None:
    """Refuse an unknown order or report, and a number of resident blocks that is none."""
    if isinstance(report, str) and report != "timeline":
        raise refusal("emulate-report", operation="emulate", report=report)
    if not isinstance(order, int | Witness) and order not in ("forward", "reversed"):
        raise refusal("emulate-order", operation="emulate", order=order)
    require_resident(resident, "emulate")


__all__ = ["CHECKS", "HANDLERS", "Prepared", "Report", "emulate"]


class _CallableModule(ModuleType):
    def __call__(self, plan: Any, *args: Any, **named: Any) -> Report | None:
        """Run a plan or a kernel on NumPy arrays; see `emulate`."""
        try:
            return emulate(plan, *args, **named)
        except CuteError as error:
            shorten(error)
            raise


sys.modules[__name__].__class__ = _CallableModule
