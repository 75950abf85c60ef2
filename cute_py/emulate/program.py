"""`Program`: a plan made ready: every op compiled once to a function of a cohort.

`HANDLERS` says how, one function for each type of op. What a function does depends on the plan
alone: it finds arrays, registers and clocks with the cohort (`c.batch`), so that one program serves
all runs of its plan, in several threads, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cute_py.dtypes.conversion import convert
from cute_py.dtypes.table import Dtype, b1, f32, f64
from cute_py.emulate.access import Located
from cute_py.emulate.arguments import symbols_of
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.cohorts import Cohort, Run, Signal, Step
from cute_py.emulate.faults import Faults, chosen, first
from cute_py.emulate.observed import target
from cute_py.emulate.pointers import by_array
from cute_py.emulate.registers import View, flag, reader
from cute_py.emulate.resources import Resources
from cute_py.emulate.scalars import Statics, condition, of_sizes, scalar
from cute_py.emulate.spans import INDICES, LANES
from cute_py.emulate.timeline import recording
from cute_py.plan import ops
from cute_py.plan.conditions import Reg, bounds_of
from cute_py.plan.functions import integers_of
from cute_py.plan.launch import require_launch
from cute_py.plan.params import ScalarParam
from cute_py.plan.requirements import Requirements
from cute_py.plan.walk import arrays, every
from cute_py.plan.walk import symbols_of as symbols_in

if TYPE_CHECKING:
    from cute_py.emulate.scalars import Condition, Evaluated
    from cute_py.emulate.spans import Array, Value
    from cute_py.plan.access import Access
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.plan import Plan

# ops that neither touch memory nor wait, and arrivals: the others do within their blocks
QUIET = (ops.Let, ops.Set, ops.Promise, ops.Leave, ops.If, ops.Loop, ops.While, ops.MbarArrive)
KEPT = 64  # programs that are kept, the last ones asked for

Required: TypeAlias = Callable[[Cohort, Any], None]  # of the values that threads have
Handler: TypeAlias = Callable[["Program", Any], Run]
HANDLERS: dict[type[ops.Op], Handler] = {}
# the word of `counted` -> what wraps a compiled op that a timeline records, too
KEEPERS: dict[str, Callable[[Program, ops.Op, Run], Run]] = {"timeline": lambda p, op, run: run}


def handles(kind: type[ops.Op]) -> Callable[[Handler], Handler]:
    """Register the function that compiles a type of op."""

    def register(handler: Handler) -> Handler:
        HANDLERS[kind] = handler
        return handler

    return register


class Program:
    """The compiled ops of a plan; nothing in it changes once it is made.

    Attributes:
        resources: what the plan uses of a block.
        body: the steps.
        together: whether blocks may wait for each other, so that all must be resident.
    """

    def __init__(self, plan: Plan, checks: frozenset[str], counted: bool | str) -> None:
        """Compile; `checks`: names of checks; `counted`: for a report, or a word of `KEEPERS`."""
        self.plan, self.checks, self.counted = plan, checks, counted
        for op in plan.ops:
            if type(op) not in HANDLERS:
                raise Faults(plan).fault("emulate-op", op, name=op.call)
        self.resources = Resources(plan, checks)
        self.warps = self.resources.warps
        self.pointers = self.resources.pointers
        self.symbols = symbols_in(plan.body)
        sizes = [name for param in plan.params for name in symbols_of(param)]
        self.statics = Statics((*INDICES, *sizes))
        self.numbers = {param.name for param in plan.params if isinstance(param, ScalarParam)}
        self.communicates = self.resources.traffic.communicates
        self.together = self.communicates or self.resources.cluster > 1
        self.extents = [of_sizes(n) for n in plan.launch.grid]
        self.counts = [of_sizes(n) for n in plan.launch.counts]
        self.requirements = Requirements(plan)
        self.body = self.block(plan.body)

    def grid(self, sizes: dict[str, int]) -> tuple[int, int, int]:
        """Return the blocks of the grid in (x, y, z), for these values of the symbols."""
        x, y, z = [extent(sizes) for extent in self.extents]
        launch = self.plan.launch
        launch.require_counts(self.plan.name, [count(sizes) for count in self.counts])
        require_launch(replace(launch, grid=(x, y, z)), f"emulate({self.plan.name})")
        self.requirements.test(sizes)
        return x, y, z

    # -- parts of ops

    def block(self, block: ops.Block) -> tuple[Step, ...]:
        """Compile a block of ops."""
        steps = []
        for op in block:
            if isinstance(op, ops.Promise) and op in self.requirements.promises:  # they hold
                continue
            run = by_array(self.pointers, op, HANDLERS[type(op)](self, op))
            if id(op) in self.resources.early:
                run = _after_kernels(op, run)
            run = self.reported(op, run)
            whole, loud = op.group != "thread", not isinstance(op, QUIET)
            meets = isinstance(op, ops.Barrier) and op.kind == "sync"
            steps.append(Step(op, run, self.strong(op), whole, loud, meets))
        return tuple(steps)

    def strong(self, op: ops.Op) -> bool:
        """Tell whether others may run before and after an op, as what it finds depends on that."""
        access = target(op)
        return access is not None and access.storage in self.resources.observed

    def reported(self, op: ops.Op, run: Run) -> Run:
        """Return a compiled op that also tells the report of the run, if there is one."""
        run = _counting(op, run) if self.counted else run
        keeper = KEEPERS.get(str(self.counted))
        if keeper is None:
            return run
        bar: Access | None = getattr(op, "bar", None)
        located = None if bar is None else self.access(bar, op, unit=8, counted=False)
        parity = self.scalar(op.phase) if isinstance(op, ops.MbarWait) else None
        return keeper(self, op, recording(op, run, located, parity))

    def blocks_in(self, *blocks: ops.Block) -> bool:
        """Return whether any op in these blocks may have to wait for other threads, be it in a loop
        that looks at memory.
        """
        return any(op.waits or self.spins(op) for block in blocks for op in every(block))

    def spins(self, op: ops.Op) -> bool:
        """Tell whether an op is a loop that may wait for what others do to memory."""
        return isinstance(op, ops.While) and any(map(self._looks, every((op,))))

    def _looks(self, op: ops.Op) -> bool:
        """Tell whether an op looks at memory that others may change."""
        changes = self.resources.traffic.changes
        return isinstance(op, ops.Atomic) or (isinstance(op, ops.Load) and changes(arrays(op)))

    def scalar(self, x: Any) -> Evaluated:
        """Compile a scalar."""
        return scalar(self.statics, x)

    def condition(self, cond: Any) -> Condition:
        """Compile a condition."""
        return condition(self.statics, cond, lambda reg: flag(self.resources, reg))

    def view(self, reg: Reg) -> View:
        """Compile a register operand."""
        return View(self.resources.registers[reg.storage], reg)

    def reader(self, reg: Reg, op: ops.Op) -> Callable[[Cohort], Array]:
        """Compile the read of a register operand, checked."""
        return reader(self.resources, reg, op)

    def access(
        self, access: Access, op: ops.Op, unit: int | None = None, counted: bool = True
    ) -> Located:
        """Compile an access; `counted` if the report counts its requests."""
        return Located(self.resources, self.statics, access, op, unit, counted)

    def operand(
        self,
        value: Any,
        dtype: Dtype,
        op: ops.Map,
        place: int = 0,
        chosen: Callable[[Cohort], Array] | None = None,
    ) -> Callable[[Cohort], Array]:
        """Compile a value of `Map`: an array [block, warp, lane, element] that broadcasts.

        `place` is its number among the operands. `chosen` gives the elements for which it counts,
        all if None: an integer of these must fit.
        """
        if isinstance(value, Reg):
            return self.reader(value, op)
        if isinstance(value, bool | float | np.floating) or type(value) is int:
            fixed = elements(np.asarray(value), dtype).reshape(1, 1, 1, 1)
            return lambda c: fixed
        name = str(value)
        require = fitting(value, dtype, op, integers_of(dtype, op.fn, place), chosen)
        if name in self.numbers:
            return lambda c: _given(c, name, dtype, require)
        evaluate = self.scalar(value)

        def computed(c: Cohort) -> Array:
            found = np.asarray(evaluate(c))
            if found.ndim < 3:
                found = found.reshape(1, 1, 1)
            if require is not None:
                require(c, found)
            return elements(found[..., None], dtype)

        return computed


def _counting(op: ops.Op, run: Run) -> Run:
    """Return a compiled op that counts itself."""

    def counted(c: Cohort) -> Signal | list[Cohort] | None:
        report, span, mask = c.batch.report, c.span, c.mask
        assert report is not None
        signal = run(c)
        if not isinstance(signal, list):  # parts of the cohort execute it again
            report.executed(op, span, mask)
        return signal

    return counted


def _given(c: Cohort, name: str, dtype: Dtype, require: Required | None) -> Array:
    """Return a number that the kernel is given, as an element."""
    kept, number = c.span.cache, c.batch.given.numbers[name]
    if require is not None:
        require(c, number)
    if (name, dtype) not in kept:
        kept[name, dtype] = elements(np.asarray(number), dtype).reshape(1, 1, 1, 1)
    return kept[name, dtype]


def fitting(
    value: Scalar,
    dtype: Dtype,
    op: ops.Op,
    ends: tuple[int, int],
    chosen: Callable[[Cohort], Array] | None = None,
) -> Required | None:
    """Return a function that refuses values of an integer that become elements of a type and are
    not between two ends; None for one that always is, for flags, which are whether it is not 0, and
    for floats.
    """
    (low, high), (least, most) = bounds_of(value), ends
    inside = low is not None and high is not None and least <= low and high <= most
    if inside or dtype.is_float or dtype is b1:
        return None

    def require(c: Cohort, found: Value) -> None:
        bad = np.asarray((found < least) | (found > most))
        if not bad.any():
            return
        bad = bad & c.active()
        if chosen is not None:
            bad = bad & chosen(c).any(-1)
        if bad.any():
            where = first(bad, c.span)
            number = int(np.broadcast_to(found, bad.shape)[where])
            facts = {"value": value, "dtype": dtype, "found": number, "low": least, "high": most}
            raise c.fault("emulate-fit", op, where, **facts)

    return require


def elements(values: Array, dtype: Dtype) -> Array:
    """Return numbers as elements of a type: rounded once, integers that fit as they are; a flag is
    whether a number is not 0.
    """
    plain = dtype.bits >= 8 if dtype.is_integer else dtype in (f32, f64)
    return values.astype(numpy_type(dtype)) if plain else np.asarray(convert(values, dtype))


# -- kept programs


class _Same:
    """A plan as a key: itself, since equal plans may have come from other lines."""

    __slots__ = ("plan",)

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __hash__(self) -> int:
        return id(self.plan)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.plan is other.plan


def _after_kernels(op: ops.Op, run: Run) -> Run:
    """Refuse an op by threads that do not know that the kernels before have ended."""

    def checked(c: Cohort) -> Any:
        clocks, releases = c.batch.clocks, c.batch.releases
        assert clocks is not None
        who = clocks.acting(c.span, c.mask)
        for k in np.flatnonzero(~clocks.know_of_kernels(who)).tolist():
            b, part = int(who.rows[k]), int(who.parts[k])
            w, lane = int(clocks.warp[part]), int(clocks.lead[part])
            if releases is None or not releases.knows_of_kernels(b, w * LANES + lane):
                where = int(np.searchsorted(c.span.B, b)), int(np.searchsorted(c.span.W, w)), lane
                raise c.fault("emulate-pdl", op, where, name=op.call)
        return run(c)

    return checked


def program_of(
    plan: Plan, checks: bool | str | Iterable[str] = True, counted: bool | str = False
) -> Program:
    """Return the program of a plan, compiled once for each choice."""
    return _compiled(_Same(plan), chosen(checks), counted)


@lru_cache(maxsize=KEPT)
def _compiled(key: _Same, checks: frozenset[str], counted: bool | str) -> Program:
    return Program(key.plan, checks, counted)
