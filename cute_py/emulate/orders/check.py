"""`check_orders`: whether a kernel is correct in every order of its threads, for its arguments."""

from __future__ import annotations

from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from time import perf_counter
from typing import TYPE_CHECKING, Any

from cute_py.emulate.arguments import Arguments, plan_and_leaves
from cute_py.emulate.effort import require_resident, require_room
from cute_py.emulate.faults import line_of
from cute_py.emulate.observed import rounds, touched
from cute_py.emulate.orders.found import Orders, Result, choice_of, reasons_of
from cute_py.emulate.orders.search import Cut, Search
from cute_py.emulate.orders.witness import Witness
from cute_py.emulate.program import program_of
from cute_py.emulate.progress import kept, require_progress
from cute_py.emulate.regions import Footprint, overlapping
from cute_py.emulate.report import Report
from cute_py.emulate.running import quietly, run_batches
from cute_py.errors import CuteError, EmulationError, place_text, refusal, shorten
from cute_py.plan import ops
from cute_py.plan.walk import symbols_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.emulate.orders.search import Step

BLOCKS = {"bid_x", "bid_y", "bid_z"}
MEMORY, BATCH = 1 << 32, 1 << 30  # bytes of state: at most, and of blocks that no order concerns


def check_orders(
    kernel: Any,
    *args: Any,
    most: int = 1000,
    seconds: float = 60,
    resident: int | None = None,
    **named: Any,
) -> Orders:
    """Find out whether a kernel is correct in every order in which its threads may run.

    One run proves all orders where all that threads learn of each other is ordered: then there is
    one class of orders. Where atomics, releases, acquires and waits for values meet at a place and
    nothing orders them, one order of each class is run. The arrays are left as they were, and
    nothing is printed.

    Args:
        kernel: the kernel, or its plan.
        args: its arguments, as of `cute.emulate`.
        most: the most runs.
        seconds: after which no run begins.
        resident: the number of communicating blocks that run at a time, as of `cute.emulate`.
        named: arguments by name.

    Raises:
        LayoutError: the arguments do not fit, or an option is none. What the kernel does wrong is
            not raised: `witness` is an order in which it does.

    Source: docs/emulator.md, "Every order", with the theorem and its proof.

    >>> import numpy as np
    >>> import cute_py as cute
    >>> @cute.kernel
    ... def queue(count, order):
    ...     cute.launch(grid=2, block=1)
    ...     next_one = cute.local_tile(count, (1,), (0,))
    ...     order[cute.as_int(cute.atomic("add", next_one, 1, old=True))] = cute.block_idx()
    >>> found = check_orders(queue, np.zeros(1, np.int32), np.zeros(2, np.int32))
    >>> found.proved, found.classes, [x.arrays["order"].tolist() for x in found.results]
    (True, 2, [[0, 1], [1, 0]])
    """
    try:
        _require(most, seconds, resident)
        plan, leaves = plan_and_leaves(kernel, args, named, "cute.check_orders")
        with quietly(), plan.trusted("cute.check_orders"):
            return Checked(Arguments(plan, leaves), resident).orders(most, seconds)
    except CuteError as error:
        shorten(error)
        raise


def _require(most: object, seconds: object, resident: object) -> None:
    """Refuse bounds that are none."""
    for name, value, kinds in (("most", most, int), ("seconds", seconds, (int, float))):
        if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:
            raise refusal("orders-bound", operation="cute.check_orders", name=name, value=value)
    require_resident(resident, "cute.check_orders")


class Checked:
    """The runs of a kernel, with the same arguments each time."""

    def __init__(
        self, given: Arguments, resident: int | None, search: Search | None = None
    ) -> None:
        self.given, self.resident = given, resident
        self.program = program = program_of(given.plan)
        needs = program.resources
        alike = apart = False
        if needs.observed:
            alike = needs.cluster == 1 and not symbols_of(given.plan.body).keys() & BLOCKS
            apart = not program.together and needs.observed <= needs.shared.keys()
        self.search = search or Search(alike=alike, apart=apart)
        self.footprint = Footprint() if self.search.apart else None
        self.shape = self.program.grid(given.symbols)
        self.total = self.shape[0] * self.shape[1] * self.shape[2]
        meet, fit = program.together or needs.observed, BATCH // needs.bytes_per_block()
        self.together = max(1, self.total if meet else min(fit, self.total))
        self.runs = self.classes = 0
        self.report = Report(given.plan) if any(map(rounds, given.plan.ops)) else None
        self.limits: list[str] = []
        self.results: dict[Any, Result] = {}
        self.witnesses: list[Witness] = []

    def orders(self, most: int, seconds: float) -> Orders:
        """Run one order of each class, within bounds."""
        begin = perf_counter()
        require_room(self.program, self.total, self.together, MEMORY)
        while not self.limits:
            self._run()
            if not (self.search.next() or self._meet()):
                break
            if self.runs >= most:
                self.limits.append(f"more than {most} runs (most=)")
            elif perf_counter() - begin > seconds:
                self.limits.append(f"what takes longer than {seconds} seconds (seconds=)")
        return self._found()

    def _meet(self) -> bool:
        """Begin a search through the orders of all blocks, if those that were searched one by one
        have met in global memory; return whether there is one.
        """
        is_right = not self.witnesses and bool(self.search.races)
        if self.footprint is None or not is_right or not self.footprint.meets():
            return False
        self.search, self.footprint = Search(alike=self.search.alike), None
        self.classes, self.results = 0, {}
        return True

    def _run(self) -> None:
        """Run one order, and keep what it leads to."""
        self.runs += 1
        self.search.begin()
        error: EmulationError | None = None
        with kept(self.given), redirect_stdout(StringIO()):
            try:
                if self.runs == 1:
                    require_progress(self.program, self.given, self.shape)
                what = self.program, self.given, self.shape, self.together, self.search
                run_batches(*what, self.resident, self.report, footprint=self.footprint)
            except Cut:
                return
            except EmulationError as refused:
                error = refused
                self.search.refused()
            self.search.end()
            if self.search.repeats:
                return
            self.classes += 1
            self._add(error)

    def _add(self, error: EmulationError | None) -> None:
        """Keep a result, and the witness of a refusal."""
        if error is None:
            watches = self.program.resources.traffic.watches
            held = [(n, x) for n, x in self.given.arrays.items() if x.writable and watches([n])]
            new = Result(None, "", {name: x.data.copy() for name, x in held}, 0)
            key: Any = tuple((name, x.tobytes()) for name, x in new.arrays.items())
        else:
            new, key = Result(error.code, str(error), {}, 0), (error.code, error.facts.get("where"))
            self.witnesses.append(self._witness(error))
        old = self.results.get(key, new)
        self.results[key] = replace(old, classes=old.classes + 1)

    def _witness(self, error: EmulationError) -> Witness:
        """Return the order of the last run, cut to what matters for how it ended."""
        search, given = self.search, self.given
        choices = [choice_of(x, given.arrays, given.plan.launch) for x in _matter(search)]
        each = [(step.index, step.event.who) for step in search.steps]
        turns = tuple((k, who) for k, who in each if who != search.stack[k].usual)
        return Witness(str(error), tuple(dict.fromkeys(choices)), turns, self.resident)

    def _found(self) -> Orders:
        bounded = tuple(dict.fromkeys(self._not_tried()))
        results = tuple(self.results.values())
        proved = not bounded and all(result.code is None for result in results)
        if self.report is not None and self.report.rounded:
            lines = ", ".join(map(place_text, sorted(self.report.rounded)))
            bounded += (f"the rounding of sums of floats by atomics ({lines})",)
        reasons = reasons_of(self.search.races, self.given.arrays)
        witness = min(self.witnesses, key=lambda x: len(x.choices), default=None)
        return Orders(proved, self.classes, results, bounded, witness, reasons, self.runs)

    def _not_tried(self) -> Iterator[str]:
        """Yield what no run has tried."""
        needs, plan = self.program.resources, self.given.plan
        yield from self.limits
        most = self.resident or needs.most_resident()
        if self.program.communicates and most < self.total:
            yield f"other orders in which blocks begin and end: {most} of {self.total} run at once"
        yield from (*self.search.untried, *(self.search.lanes if self.search.races else ()))
        for op in plan.ops:
            if isinstance(op, ops.TmaStore) and op.reduce and op.tensor in needs.observed:
                yield f"other orders of reductions by TMA ({line_of(op)})"
        strong = {*map(touched, plan.ops)}
        for names in overlapping(self.given.arrays):
            shared = [name for name in names if name in strong]
            if len(shared) > 1 and not needs.observed.issuperset(shared):
                yield f"other orders of what {' and '.join(shared)} share"


def _matter(search: Search) -> list[Step]:
    """Return the operations of a run that matter for how it ends: of those that race, the ones
    before the last operation, or before those that wait, and those that these wait for.
    """
    waiting = search.turns if search.stuck else []
    clocks = [search.before(turn) for turn in waiting] or [x.clock for x in search.steps[-1:]]
    races = {event for pair in search.races for event in pair}

    def matters(step: Step) -> bool:
        ended = any(turn.event.depends(step.event) for turn in waiting)
        return step.event in races and (ended or any(map(step.precedes, clocks)))

    return list(filter(matters, search.steps))
