"""`check_orders`: whether a kernel is correct in every order of its threads, for its arguments."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING, Any

from cute_py.emulate.arguments import Arguments, plan_and_leaves
from cute_py.emulate.effort import require_room
from cute_py.emulate.faults import line_of
from cute_py.emulate.observed import rounds
from cute_py.emulate.orders.found import Orders, Result, choice_of, reasons_of
from cute_py.emulate.orders.search import Cut, Search, TooLong
from cute_py.emulate.orders.witness import Witness, usual
from cute_py.emulate.program import program_of
from cute_py.emulate.progress import kept, require_progress
from cute_py.emulate.regions import Footprint
from cute_py.emulate.report import Report
from cute_py.emulate.running import quietly, run_batches
from cute_py.errors import CuteError, EmulationError, place_text, refusal, shorten
from cute_py.plan import ops
from cute_py.plan.walk import symbols_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.emulate.turns import Who

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
    if resident is not None and not (isinstance(resident, int) and resident >= 1):
        raise refusal("emulate-resident", operation="cute.check_orders", resident=resident)


class Checked:
    """The runs of a kernel, with the same arguments each time."""

    def __init__(
        self, given: Arguments, resident: int | None, search: Search | None = None
    ) -> None:
        self.given, self.resident = given, resident
        self.program = program = program_of(given.plan)
        needs = program.resources
        alike = needs.cluster == 1 and not symbols_of(given.plan.body).keys() & BLOCKS
        apart = not program.together and needs.observed <= needs.shared.keys()
        self.search = search or Search(alike=alike, apart=apart)
        self.footprint = Footprint() if self.search.apart else None
        self.shape = self.program.grid(given.symbols)
        self.total = self.shape[0] * self.shape[1] * self.shape[2]
        fit = BATCH // needs.bytes_per_block()
        meet = bool(program.together or needs.observed)
        self.together = max(1, self.total if meet else min(fit, self.total))
        self.runs = self.classes = 0
        self.first: int | None = None
        self.report = Report(given.plan) if any(map(rounds, given.plan.ops)) else None
        self.limits: list[str] = []
        self.results: dict[Any, tuple[Result, int]] = {}
        self.witness: Witness | None = None

    def orders(self, most: int, seconds: float) -> Orders:
        """Run one order of each class, within bounds."""
        begin = perf_counter()
        require_room(self.program, self.total, self.together, MEMORY)
        try:
            require_progress(self.program, self.given, self.shape)
        except EmulationError as error:
            self.runs, self.classes = 1, 1
            self._add(error)
            return self._found()
        while True:
            self._run()
            if not (self.search.next() or self._meet()):
                break
            if self.runs >= most:
                self.limits.append(f"more than {most} runs (most=)")
                break
            if perf_counter() - begin > seconds:
                self.limits.append(f"what takes longer than {seconds} seconds (seconds=)")
                break
        return self._found()

    def _meet(self) -> bool:
        """Begin a search through the orders of all blocks, if those that were searched one by one
        have met in global memory; return whether there is one.
        """
        is_right = self.witness is None and bool(self.search.races)
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
                run_batches(
                    self.program,
                    self.given,
                    self.shape,
                    self.together,
                    self.search,
                    self.resident,
                    self.report,
                    footprint=self.footprint,
                )
            except Cut:
                return
            except TooLong:
                limit = f"orders of more than {len(self.search.steps)} strong operations"
                self.limits += [limit] if limit not in self.limits else []
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
        """Keep a result, and the shortest witness of a refusal."""
        arrays: dict[str, Any] = {}
        if error is None:
            held = [(n, x) for n, x in self.given.arrays.items() if x.writable and self._writes(n)]
            arrays = {name: x.data.copy() for name, x in held}
            key: Any = tuple((name, x.tobytes()) for name, x in arrays.items())
        else:
            key = error.code, error.facts.get("where")
            self.first = self.first or self.runs
            witness = self._witness(error)
            if self.witness is None or len(witness.choices) < len(self.witness.choices):
                self.witness = witness
        code, message = (None, "") if error is None else (error.code, str(error))
        result, classes = self.results.get(key, (Result(code, message, arrays, 0), 0))
        self.results[key] = result, classes + 1

    def _writes(self, name: str) -> bool:
        """Tell whether the kernel may write to an array."""
        traffic = self.program.resources.traffic
        return name in traffic.written or not traffic.pointers.isdisjoint(traffic.written)

    def _witness(self, error: EmulationError) -> Witness:
        """Return the order of the last run, cut to what matters for how it ended."""
        search, names = self.search, self.given.arrays
        launch = self.given.plan.launch
        choices = [choice_of(search.steps[k], names, launch) for k in _matter(search)]
        turns: list[tuple[int, Who]] = []
        counts: dict[Who, int] = {}
        for k, step in enumerate(search.steps):
            who = step.event.who
            if usual(search.stack[k].able, counts) != who:
                turns.append((k, who))
            counts[who] = counts.get(who, 0) + 1
        return Witness(str(error), dict.fromkeys(choices), turns, self.resident)

    def _found(self) -> Orders:
        bounded = [*self.limits, *dict.fromkeys(self._not_tried())]
        results = [Result(r.code, r.message, r.arrays, n) for r, n in self.results.values()]
        proved = not bounded and all(result.code is None for result in results)
        if self.report is not None and self.report.rounded:
            lines = ", ".join(map(place_text, sorted(self.report.rounded)))
            bounded.append(f"the rounding of sums of floats by atomics ({lines})")
        reasons = reasons_of(self.search.races, self.given.arrays)
        return Orders(
            proved, self.classes, results, bounded, self.witness, reasons, self.runs, self.first
        )

    def _not_tried(self) -> Iterator[str]:
        """Yield what no run has tried."""
        search, needs = self.search, self.program.resources
        raced = [event for pair in search.races for event in pair if event.several]
        for event in [*search.meet, *raced]:
            yield f"other orders of the lanes of one operation ({line_of(event.op)})"
        for a, b in search.lanes:
            lines = dict.fromkeys((line_of(a.op), line_of(b.op)))
            if search.races or a.depends(b):
                yield f"other orders of lanes of one warp ({', '.join(lines)})"
        if search.strays:
            yield "what else a kernel may do that does not do the same each time"
        if search.divided:
            yield "other orders of lanes of one warp that wait for each other"
        for op in search.again:
            yield f"other orders in which warps get and give registers ({line_of(op)})"
        for event in search.spun:
            yield f"more rounds of the loop that waits at {line_of(event.op)}"
        for event in search.wide:
            yield f"other orders of what the wait at {line_of(event.op)} may come before"
        most = self.resident or needs.most_resident()
        if self.program.communicates and most < self.total:
            yield f"other orders in which blocks begin and end: {most} of {self.total} run at once"
        for op in self.given.plan.ops:
            if isinstance(op, ops.TmaStore) and op.reduce and op.tensor in needs.observed:
                yield f"other orders of reductions by TMA ({line_of(op)})"
        yield from self._shared()

    def _shared(self) -> Iterator[str]:
        """Yield arrays that share memory with those at which an order may be seen."""
        arrays, seen = list(self.given.arrays.values()), self.program.resources.observed
        for x, y in product(arrays, arrays):
            apart = x.address + x.nbytes <= y.address or y.address + y.nbytes <= x.address
            if x.name in seen and y.name not in seen and not apart and self._writes(y.name):
                yield f"other orders of what {x.name} and {y.name} share"


def _matter(search: Search) -> list[int]:
    """Return the operations of a run that matter for how it ends: of those that race, the ones
    before the last operation, or before those that wait, and those that these wait for.
    """
    waiting = search.waiting
    clocks = [search.clocks.get(turn.event.who, {}) for turn in waiting]
    clocks = clocks or [step.clock for step in search.steps[-1:]]
    races = {event for pair in search.races for event in pair}
    return [
        k
        for k, step in enumerate(search.steps)
        if step.event in races
        and (
            any(clock.get(step.event.who, -1) >= k for clock in clocks)
            or any(turn.event.depends(step.event) for turn in waiting)
        )
    ]
