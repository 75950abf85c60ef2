"""`check_orders`: whether a kernel does the same in every order of its threads, for its arguments."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from cute_py.emulate.arguments import Arguments, plan_and_leaves
from cute_py.emulate.effort import require_room
from cute_py.emulate.faults import line_of
from cute_py.emulate.observed import lines_that_round
from cute_py.emulate.orders.found import Orders, Result
from cute_py.emulate.orders.search import Cut, Search, TooLong
from cute_py.emulate.orders.witness import Choice, Witness
from cute_py.emulate.program import program_of
from cute_py.emulate.progress import kept, require_progress
from cute_py.emulate.running import quietly, run_batches
from cute_py.errors import CuteError, EmulationError, place_text, refusal, shorten
from cute_py.plan import ops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.emulate.turns import Event

MEMORY, BATCH = 1 << 32, 1 << 30  # bytes of state: at most, and of blocks that no order concerns
WORDS = {"read": "a read", "write": "a write", "update": "an atomic"}


def check_orders(
    kernel: Any,
    *args: Any,
    most: int = 1000,
    seconds: float = 60,
    resident: int | None = None,
    **named: Any,
) -> Orders:
    """Find out whether a kernel is well in every order in which its threads may run.

    One run proves all orders where all that threads learn of each other is ordered: then there is
    one class of orders. Where atomics, releases, acquires and waits for values meet at a place and
    nothing orders them, one order of each class is run. The arrays are left as they were.

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
    ... def tickets(count, first):
    ...     cute.launch(grid=2, block=32)
    ...     with cute.when(cute.thread_idx() == 0):
    ...         ticket = cute.as_int(cute.atomic("add", count, 1, old=True))
    ...         with cute.when(ticket == 0):
    ...             first[0] = cute.block_idx()
    >>> found = check_orders(tickets, np.zeros(1, np.int32), np.zeros(1, np.int32))
    >>> found.proved, found.classes, [int(x.arrays["first"][0]) for x in found.results]
    (True, 2, [0, 1])
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
        if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:  # type: ignore[arg-type, operator]
            raise refusal("orders-bound", operation="cute.check_orders", name=name, value=value)
    if resident is not None and not (isinstance(resident, int) and resident >= 1):
        raise refusal("emulate-resident", operation="cute.check_orders", resident=resident)


class Checked:
    """The runs of a kernel, with the same arguments each time."""

    def __init__(self, given: Arguments, resident: int | None, search: Search | None = None) -> None:
        self.given, self.resident, self.search = given, resident, search or Search()
        self.program = program_of(given.plan)
        self.shape = self.program.grid(given.symbols)
        self.total = self.shape[0] * self.shape[1] * self.shape[2]
        fit = BATCH // self.program.resources.bytes_per_block()
        apart = self.program.together or self.program.resources.observed
        self.together = max(1, self.total if apart else min(fit, self.total))
        self.runs = self.classes = 0
        self.first: int | None = None
        self.complete = True
        self.limits: list[str] = []
        self.results: dict[Any, tuple[Result, int]] = {}
        self.witness: Witness | None = None

    def orders(self, most: int, seconds: float) -> Orders:
        """Run one order of each class, within bounds."""
        begin = perf_counter()
        require_room(self.program, self.total, self.together, MEMORY)
        error = self._progress()
        if error is not None:
            self.runs, self.classes = 1, 1
            self._add(error)
            return self._found()
        while True:
            self._run()
            if not self.search.next():
                break
            if self.runs >= most:
                self.limits.append(f"more than {most} runs (most=)")
                break
            if perf_counter() - begin > seconds:
                self.limits.append(f"what takes longer than {seconds} seconds (seconds=)")
                break
        return self._found()

    def _progress(self) -> EmulationError | None:
        try:
            require_progress(self.program, self.given, self.shape)
        except EmulationError as error:
            return error
        return None

    def _run(self) -> None:
        """Run one order, and keep what it leads to."""
        self.runs += 1
        self.search.begin()
        error: EmulationError | None = None
        with kept(self.given):
            try:
                run_batches(
                    self.program, self.given, self.shape, self.together, self.search, self.resident
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

    # -- a witness

    def _witness(self, error: EmulationError) -> Witness:
        """Return the order of the last run, cut to what matters for how it ended."""
        search = self.search
        steps = search.steps
        matter = _past(search)
        choices = [
            Choice(s.event.who, line_of(s.event.op), _what(s.event, self.given), _seen(s.before))
            for k, s in enumerate(steps)
            if k in matter
        ]
        turns = [(k, s.event.who) for k, s in enumerate(steps)]
        return Witness(str(error), choices, turns, self.resident)

    # -- what is told

    def _found(self) -> Orders:
        rounds = [place_text(line) for line in lines_that_round(self.given.plan.ops)]
        bounded = [*self.limits, *dict.fromkeys(self._not_tried())]
        results = [
            Result(r.code, r.message, r.arrays, classes) for r, classes in self.results.values()
        ]
        proved = not bounded and all(r.code is None for r in results)
        if rounds:
            bounded.append(f"the rounding of sums of floats by atomics ({', '.join(rounds)})")
        reasons = dict.fromkeys(_reason(a, b, self.given) for a, b in self.search.races)
        return Orders(
            proved, self.classes, results, bounded, self.witness, reasons, self.runs, self.first
        )

    def _not_tried(self) -> Iterator[str]:
        """Yield what no run has tried."""
        search, plan, needs = self.search, self.given.plan, self.program.resources
        raced = [event for pair in search.races for event in pair if event.several]
        for event in [*search.meet, *raced]:
            yield f"other orders of the lanes of one operation ({line_of(event.op)})"
        for a, b in search.lanes:
            lines = dict.fromkeys((line_of(a.op), line_of(b.op)))
            if search.races or a.depends(b):
                yield f"other orders of lanes of one warp ({', '.join(lines)})"
        if search.divided:
            yield "other orders of lanes of one warp that wait for each other"
        for event in search.spun:
            yield f"more rounds of the loop that waits at {line_of(event.op)}"
        most = self.resident or needs.most_resident()
        if self.program.communicates and most < self.total:
            yield f"other orders in which blocks begin and end: {most} of {self.total} run at once"
        for op in plan.ops:
            if isinstance(op, ops.TmaStore) and op.reduce and op.tensor in needs.observed:
                yield f"other orders of reductions by TMA ({line_of(op)})"
        arrays = [x for x in self.given.arrays.values() if x.name in needs.observed]
        for x in arrays:
            for y in self.given.arrays.values():
                apart = x.address + x.nbytes <= y.address or y.address + y.nbytes <= x.address
                if x is not y and not apart and y.name not in needs.observed:
                    yield f"other orders of what {x.name} and {y.name} share"


def _past(search: Search) -> set[int]:
    """Return the operations that matter for how a run ends: those before the last one of the thread
    that is refused, or before any thread that waits; all where nobody knows.
    """
    clocks = [search.clocks.get(t.event.who, {}) for t in search.waiting]
    if not clocks and search.steps:
        clocks = [search.steps[-1].clock]
    races = {event for pair in search.races for event in pair}
    matter = set()
    for k, step in enumerate(search.steps):
        before = any(clock.get(step.event.who, -1) >= k for clock in clocks)
        waited = any(t.event.depends(step.event) for t in search.waiting)
        if (before or waited) and step.event in races:
            matter.add(k)
    return matter


def _what(event: Event, given: Arguments) -> str:
    """Return an operation in words: an atomic add of count[0]."""
    op = event.op
    if isinstance(op, ops.Atomic):
        return f"atomic {op.fn} of {_place(event, given)}"
    word = {"Store": "store_release to", "WaitUntil": "wait_until of", "Load": "load_acquire of"}
    return f"{word[type(op).__name__]} {_place(event, given)}"


def _place(event: Event, given: Arguments) -> str:
    """Return the elements of an operation in words."""
    access = event.op.dst if isinstance(event.op, ops.Atomic | ops.Store) else event.op.src  # type: ignore[attr-defined]
    if event.places is None:
        return str(access.storage)
    size, first = max(1, access.dtype.bits // 8), min(event.places)
    array = given.arrays.get(access.storage)
    if first[0] < 0 and array is not None:
        return f"{access.storage}[{(first[1] - array.address) // size}]"
    return str(access.storage)


def _seen(number: int | None) -> str:
    return "what is no integer" if number is None else str(number)


def _reason(a: Event, b: Event, given: Arguments) -> str:
    """Return a pair of operations that nothing orders, in words."""
    first, last = a.who, b.who
    who = f"warps {first[1]} and {last[1]}" if first[0] == last[0] else ""
    who = who or f"blocks {first[0]} and {last[0]}"
    if a.op is b.op:
        return f"{line_of(a.op)}: {_what(a, given)} by {who}, nothing orders them"
    return (
        f"{line_of(a.op)}: {_what(a, given)}, and {line_of(b.op)}: {_what(b, given)}, "
        f"by {who}, nothing orders them"
    )
