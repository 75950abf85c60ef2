"""`Build`: a plan and its arguments, made ready: every op compiled once to a function of a cohort.

`HANDLERS` says how, one function for each type of op. A compiled op returns None where the cohort
goes on to the next op, or a signal of `Signal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cute_py.dtypes.conversion import convert
from cute_py.dtypes.table import Dtype, f32, f64
from cute_py.emulate.access import Located
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.engines import Engines
from cute_py.emulate.faults import Reporter, first
from cute_py.emulate.memory import SharedMemory, bind
from cute_py.emulate.registers import View, storages
from cute_py.emulate.scalars import Condition, Evaluated, Statics, condition, scalar
from cute_py.emulate.shadow import Shadow, granule_of
from cute_py.emulate.spans import LANES, Array, Cohort, Spans, Value
from cute_py.errors import refusal
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Reg
from cute_py.plan.node import Node
from cute_py.plan.plan import Plan
from cute_py.plan.walk import symbols_of

if TYPE_CHECKING:
    from cute_py.emulate.report import Report


class Signal(Enum):
    """What a cohort does after an op, other than to go on."""

    PUSHED = auto()  # a frame was put on the stack
    BLOCKED = auto()  # `wait` is set; the op is done once it is over
    JUMPED = auto()  # the frames were changed: look again
    ENDED = auto()  # no thread is left


Run: TypeAlias = Callable[[Cohort], "Signal | list[Cohort] | None"]


@dataclass(slots=True, eq=False)
class Step:
    """One op, compiled."""

    op: ops.Op
    run: Run


Handler: TypeAlias = Callable[["Build", Any], Run]
BULK = (ops.TmaLoad, ops.TmaStore, ops.Wgmma)
HANDLERS: dict[type[ops.Op], Handler] = {}


def handles(kind: type[ops.Op]) -> Callable[[Handler], Handler]:
    """Register the function that compiles a type of op."""

    def register(handler: Handler) -> Handler:
        HANDLERS[kind] = handler
        return handler

    return register


class Build:
    """What compiled ops share: memory, registers, checks, and the batch that runs."""

    def __init__(
        self, plan: Plan, args: tuple[Any, ...], checks: bool, report: Report | None
    ) -> None:
        """Bind the arguments and compile all ops."""
        self.plan, self.checks, self.report = plan, checks, report
        self.faults = Reporter(plan)
        self.arrays, self.sizes, self.scalars = bind(plan, args)
        self.threads = plan.launch.threads
        self.warps = -(-self.threads // LANES)
        self.grid = self._grid()
        self.faults.grid = self.grid
        self.blocks = 0  # of the batch
        every = list(walk(plan.body))
        self.symbols = symbols_of(plan.body)
        self._require_handlers(every)
        self.smem = SharedMemory(plan.shared)
        self.registers = storages(plan.storages, regs_of(every), checks)
        for storage in self.registers.values():
            storage.refuse = self.require_landed
        self.engines = Engines(self, every)
        self.shadow = self._shadow(every) if checks and plan.shared else None
        self.statics = Statics(self._symbols(1, 0))
        self.blocking = {id(op) for op in every if _blocks(op)}
        self.barriers: Any = None  # of the batch (waits.Barriers)
        self.body = self.block(plan.body)

    def _grid(self) -> tuple[int, int, int]:
        from cute_py.emulate.scalars import FUNCTIONS

        extents = tuple(
            int(eval(str(n), dict(FUNCTIONS), dict(self.sizes))) for n in self.plan.launch.grid
        )
        if min(extents) < 0:
            raise refusal("emulate-grid", operation=f"emulate({self.plan.name})", grid=extents)
        return extents[0], extents[1], extents[2]

    def _require_handlers(self, every: list[ops.Op]) -> None:
        for op in every:
            if type(op) not in HANDLERS:
                raise self.faults.fault("emulate-op", op, name=type(op).__name__)

    def _shadow(self, every: list[ops.Op]) -> Shadow:
        sizes = []
        bulk = accesses_of([op for op in every if isinstance(op, BULK)])
        for access in accesses_of([op for op in every if not isinstance(op, BULK)]):
            if access.space == "smem":
                start = self.smem.rows[access.storage].offset
                sizes += [max(1, access.vector_bits // 8), start or 16]
        sizes += [16] * bool(bulk)  # TMA and wgmma touch whole rows of 16 bytes
        atomics = any(isinstance(op, ops.Atomic) and op.dst.space == "smem" for op in every)
        return Shadow(self, granule_of(sizes), atomics)

    # -- batches

    def _symbols(self, blocks: int, start: int) -> dict[str, Value]:
        """Return the values of all symbols for the threads of a batch."""
        b = np.arange(start, start + blocks)[:, None, None]
        x, y, z = self.grid
        found: dict[str, Value] = {
            "tid": np.arange(self.warps * LANES).reshape(1, self.warps, LANES),
            "bid_x": b % max(x, 1) if x > 1 else 0,
            "bid_y": b // max(x, 1) % max(y, 1) if y > 1 else 0,
            "bid_z": b // max(x * y, 1) if z > 1 else 0,
        }
        return found | self.sizes

    def begin(self, blocks: int, start: int) -> None:
        """Make the state of a batch of blocks."""
        self.blocks, self.faults.first = blocks, start
        self.spans = Spans(blocks, self.warps)
        self.statics.symbols = self._symbols(blocks, start)
        self.smem.allocate(blocks)
        for storage in self.registers.values():
            storage.allocate(blocks, self.warps)
        if self.shadow is not None:
            self.shadow.allocate(blocks, self.warps)
        self.engines.begin()

    def bytes_per_block(self) -> int:
        """Return how much memory the state of a block takes."""
        threads = self.warps * LANES
        registers = sum(s.bytes_per_thread() for s in self.registers.values()) * threads
        shadow = self.shadow.bytes_per_block() if self.shadow is not None else 0
        return int(registers + self.smem.stride + shadow + 64 * threads)

    # -- parts of ops

    def block(self, block: ops.Block) -> tuple[Step, ...]:
        """Compile a block of ops."""
        steps = []
        for op in block:
            run = HANDLERS[type(op)](self, op)
            if self.report is not None:
                run = self.report.counting(op, run)
            steps.append(Step(op, run))
        return tuple(steps)

    def blocks_in(self, *blocks: ops.Block) -> bool:
        """Return whether any op in these blocks may have to wait for other threads."""
        return any(id(op) in self.blocking for op in walk(sum(blocks, ())))

    def scalar(self, x: Any) -> Evaluated:  # noqa: ANN401
        """Compile a scalar."""
        return scalar(self.statics, x)

    def condition(self, cond: Any) -> Condition:  # noqa: ANN401
        """Compile a condition."""
        return condition(self.statics, cond, self.test)

    def view(self, reg: Reg) -> View:
        """Compile a register operand."""
        return View(self.registers[reg.storage], reg)

    def reader(self, reg: Reg, op: ops.Op | None = None) -> Callable[[Cohort], Array]:
        """Compile the read of a register operand, checked."""
        view = self.view(reg)
        if not self.checks:
            return view.get
        storage = view.storage

        def read(c: Cohort) -> Array:
            if storage.open:
                self.require_written(view, c, op)
            return view.get(c)

        return read

    def require_written(self, view: View, c: Cohort, op: ops.Op | None) -> None:
        """Refuse registers that are read before they are written."""
        missing = view.unwritten(c)
        if missing is not None:
            where = first(missing, c)
            element = f"{view.reg.storage}[{view.reg.index[where[3]]}]"
            raise self.faults.at(
                "emulate-register-unwritten", op or c.op, c, where[:3], element=element
            )

    def require_landed(self, view: View, c: Cohort, held: Array) -> None:
        """Refuse registers that wgmma still uses: their groups [block, warp], 0 for none."""
        if self.shadow is None:
            return
        agents = self.engines.wgmma + c.span.W // 4
        done = self.shadow.clock[c.span.B[:, None], c.span.W, agents]
        flying = held > done
        if flying.any():
            row, warp = (int(k) for k in np.argwhere(flying)[0])
            epoch = int(self.shadow.epoch[c.span.B[row], agents[warp]])
            left = epoch - 1 - int(held[row, warp])
            fix = (
                f"put WgWait({left}) before this line"
                if left >= 0
                else ("close the group with WgCommit, then wait for it with WgWait(0)")
            )
            raise self.faults.at(
                "emulate-wgmma-pending", c.op, c, (row, warp), registers=view.reg, fix=fix
            )

    def test(self, reg: Reg) -> Evaluated:
        """Compile the look of a condition into a register of one element."""
        read = self.reader(reg)
        return lambda c: read(c)[..., 0].astype(np.bool_)

    def access(
        self, access: Access, op: ops.Op, unit: int | None = None, counted: bool = True
    ) -> Located:
        """Compile an access; `counted` if the report counts its requests."""
        return Located(self, access, op, unit, counted)

    def operand(self, value: Any, dtype: Any, op: ops.Op) -> Callable[[Cohort], Any]:  # noqa: ANN401
        """Compile a value of `Map`: an array [block, warp, lane, element] that broadcasts."""
        if isinstance(value, Reg):
            return self.reader(value, op)
        if isinstance(value, bool | float | np.floating) or type(value) is int:
            fixed = elements(np.asarray(value), dtype).reshape(1, 1, 1, 1)
            return lambda c: fixed
        name = value if isinstance(value, str) else str(getattr(value, "name", value))
        if name in self.scalars:
            given = elements(np.asarray(self.scalars[name][1]), dtype).reshape(1, 1, 1, 1)
            return lambda c: given
        evaluate = self.scalar(value)

        def computed(c: Cohort) -> Array:
            found = np.asarray(evaluate(c))
            if found.ndim < 3:
                found = found.reshape(1, 1, 1)
            return elements(found[..., None], dtype)

        return computed


def elements(values: Array, dtype: Dtype) -> Array:
    """Return numbers as elements of a type: rounded once, integers wrapped around at its width; a
    flag is whether a number is not 0.
    """
    plain = dtype.bits >= 8 if dtype.is_integer else dtype in (f32, f64)
    return values.astype(numpy_type(dtype)) if plain else np.asarray(convert(values, dtype))


# -- looking through a plan


def walk(block: ops.Block) -> Iterator[ops.Op]:
    """Yield all ops of a block, nested ones included."""
    for op in block:
        yield op
        for field in fields(op):
            value = getattr(op, field.name)
            if isinstance(value, tuple) and value and isinstance(value[0], ops.Op):
                yield from walk(value)


def _parts(x: object) -> Iterator[object]:
    yield x
    if isinstance(x, tuple):
        if x and isinstance(x[0], tuple):  # a table of numbers
            return
        for each in x:
            if not isinstance(each, ops.Op):
                yield from _parts(each)
    elif isinstance(x, Node):
        for field in fields(x):
            yield from _parts(getattr(x, field.name))


def regs_of(every: list[ops.Op]) -> list[Reg]:
    """Return all register operands."""
    return [part for op in every for part in _parts(op) if isinstance(part, Reg)]


def accesses_of(every: list[ops.Op]) -> list[Access]:
    """Return all accesses."""
    return [part for op in every for part in _parts(op) if isinstance(part, Access)]


def _blocks(op: ops.Op) -> bool:
    if isinstance(op, ops.Barrier):
        return op.scope != "warp"
    return isinstance(op, ops.MbarWait | ops.WaitUntil)
