"""`follow`: run a kernel once, keep what its ops did, and walk from an element along its moves."""

from __future__ import annotations

import re
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.calls.arrays import on_device, unwrapped
from cute_py.emulate.arguments import Arguments, plan_and_leaves
from cute_py.emulate.cohorts import Cohort, Run, Signal
from cute_py.emulate.effort import require_room
from cute_py.emulate.program import KEEPERS, Program, program_of
from cute_py.emulate.progress import kept, require_progress
from cute_py.emulate.running import quietly, run_batches
from cute_py.emulate.spans import LANES, Array, Span
from cute_py.emulate.timeline import Timeline
from cute_py.emulate.ways.cells import Cells
from cute_py.emulate.ways.moves import RULES, Flow, Seen, capture
from cute_py.emulate.ways.way import Side, Way
from cute_py.errors import CuteError, refusal, shorten, suggestion
from cute_py.plan import ops
from cute_py.plan.walk import arrays, blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cute_py.emulate.storages import Global, Place, Vectors

MEMORY = 1 << 30  # bytes of the state of blocks that run together
WRITTEN = re.compile(r"\s*(.+?)\s*\[([^\[\]]*)\]\s*")


def follow(kernel: Any, *args: Any, element: Any, **named: Any) -> Way:
    """Follow one element of an array through one run of a kernel on the emulator.

    Forwards, the way lists every move of the value that the element has before the run: which
    thread copies it, by which line, to which byte and bank; who reads it into which register; which
    products of which matrix instructions use it; and which elements are made of it. Backwards, it
    lists what the value was made of that the element has after the run.

    Law: forwards and backwards are one relation: y is in the `becomes` of x if and only if x is in
    the `made_of` of y. Copies, shuffles and matrix products are followed exactly. All other
    arithmetic joins its operands, and so do atomics and ops that combine the lanes of a warp, those
    of `Wmma` with its opaque fragments among them. An address and a condition are no operands: what
    they are computed from is not followed.

    Args:
        kernel: the kernel, or a plan.
        args: its arguments, as of `cute.emulate`. The arrays are as before after the call.
        element: an array and a coordinate: ("A", (5, 17)) or "A[5,17]".
        named: arguments of the kernel by name.

    Returns:
        The way. `print` shows it, `as_data` returns it as JSON, `show` draws it across memories,
        and `of` returns the way of another element in the same run.

    Raises:
        LayoutError: a name that no array has, an element outside of it, or arrays of a GPU.
        EmulationError: what `cute.emulate` finds wrong with the kernel.

    >>> import numpy as np
    >>> import cute_py as cute
    >>> @cute.kernel
    ... def turn(x, y):
    ...     cute.launch(grid=1, block=32)
    ...     y[cute.thread_idx()] = cute.shuffle(x[cute.thread_idx()], 1, kind="bfly")
    >>> x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    >>> way = cute.follow(turn, x, y, element=("x", 4))
    >>> way.becomes, way.of("y[5]").made_of
    ([('y', (5,))], [('x', (4,))])
    """
    try:
        _require_host((*args, *named.values()))
        plan, leaves = plan_and_leaves(kernel, args, named, "cute.follow")
        with quietly(), plan.trusted("cute.follow"):
            return Trail(Arguments(plan, leaves)).way(element)
    except CuteError as error:
        shorten(error)
        raise


def _require_host(args: Iterable[Any]) -> None:
    """Refuse arrays of a GPU: the emulator runs on those of the host."""
    for x in map(unwrapped, args):
        if on_device(x):
            raise refusal("follow-device", operation="cute.follow", value=type(x).__name__)


class Trail(Timeline):
    """What the ops of one run did, in order; its timeline is that of the first block.

    Attributes:
        seen: the executions of ops that move something.
        cells: the numbers of what they move.
        blocks: of the grid.
    """

    def __init__(self, given: Arguments) -> None:
        """Run the plan; arrays are as before afterwards."""
        super().__init__(given.plan)
        self.given, self.seen = given, list[Seen]()
        program = program_of(given.plan, counted="moves")
        shape = program.grid(given.symbols)
        self.cells = Cells(program.resources, given, shape)
        self.blocks = total = prod(shape)
        together = max(1, MEMORY // program.resources.bytes_per_block())
        together = max(1, total) if program.together else together
        require_room(program, total, min(together, total), MEMORY)
        with kept(given):
            require_progress(program, given, shape)
            run_batches(program, given, shape, together, counts=self)
        self.finish()

    def keep(self, op: ops.Op, c: Cohort, *what: Any) -> None:
        """Keep an execution: the lanes that took part, the loops around it, what the run knew."""
        first, span, step = c.batch.faults.first, c.span, len(self.seen)
        known = op.share in ("copies", "products") and span.B[0] + first == 0 and self.complete
        event = len(self.events) - 1 if known else None
        own = span.W[:, None] * LANES + np.arange(LANES)
        threads = (span.B + first)[:, None, None] * self.cells.threads + own
        self.seen.append(Seen(step, event, op, threads, first, *what))

    def access(self, span: Span, vectors: Vectors, place: Place, start: int) -> None:
        """Count nothing: a way does not show it."""

    def way(self, element: Any) -> Way:
        """Return the way of an element: ("A", (5, 17)) or "A[5,17]"."""
        array, coord = self._element(element)
        offset = sum(x * stride for x, stride in zip(coord, array.strides, strict=True))
        start = self.cells.of_array(array, np.array(offset))
        return Way(self, (array.name, coord), start)

    def walk(self, start: Array, backwards: bool) -> Side:
        """Walk from some cells through all that ops did, to the elements of arrays at the end."""
        marks, ends = (np.zeros(self.cells.count, np.bool_) for _ in range(2))
        marks[start] = True
        live = np.full(self.blocks, self.cells.needs.cluster > 1)  # blocks that hold marks
        found = []
        for seen in reversed(self.seen) if backwards else self.seen:
            near = live[seen.threads[:, 0, 0] // self.cells.threads]
            near = near if near.all() else near | seen.touches(self.cells, marks)
            if not near.any():
                continue
            part = seen if near.all() else seen.of(np.flatnonzero(near))
            stages = RULES[type(seen.op)](self.cells, part)
            for flows, keeps in reversed(list(stages)) if backwards else stages:
                for flow, src, dst in _step(marks, flows, keeps, backwards):
                    ends[src if backwards else dst] = True
                    live[flow.who // self.cells.threads] = True
                    found.append((part, flow, src, dst))
        limit, plan = self.cells.shared.first, self.given.plan
        names = frozenset(x for op in plan.ops for x in arrays(op, written=not backwards))
        held = self.cells.elements(np.flatnonzero(marks[1:limit] & ends[1:limit]) + 1, names)
        order = list(self.given.arrays)
        last = sorted((order.index(x["name"]), x["name"], tuple(x["coord"])) for x in held)
        found = found[::-1] if backwards else found
        return Side(self.cells, found, [(name, coord) for _, name, coord in last])

    def _element(self, element: Any) -> tuple[Global, tuple[int, ...]]:
        """Return the array and the coordinate that an element is named by."""
        found = WRITTEN.fullmatch(element) if isinstance(element, str) else None
        if found is not None:
            words = [word.strip() for word in found[2].split(",")]
            element = found[1], tuple([int(x) if x.isdecimal() else x for x in words])
        if not isinstance(element, tuple) or len(element) != 2:
            raise refusal("follow-element", operation="cute.follow", value=element)
        name, coord = element
        known = self.given.arrays
        if name not in known:
            hint = suggestion(str(name), known) or "name one of these"
            facts = {"name": name, "known": ", ".join(known), "hint": hint}
            raise refusal("follow-name", operation="cute.follow", **facts)
        array, coord = known[name], coord if isinstance(coord, tuple) else (coord,)
        coord = tuple(
            [index(x) if hasattr(x, "__index__") and x.__class__ is not bool else x for x in coord]
        )  # of NumPy, too
        sizes = zip(coord, array.shape, strict=False)
        inside = len(coord) == len(array.shape) and all(
            x.__class__ is int and 0 <= x < n for x, n in sizes
        )
        if not inside:
            facts = {"coord": coord, "name": name, "shape": array.shape}
            raise refusal("follow-outside", operation="cute.follow", **facts)
        return array, coord


def _step(
    marks: Array, flows: list[Flow], keeps: bool, backwards: bool
) -> Iterator[tuple[Flow, Array, Array]]:
    """Move marks through flows at once, from sources to what is made of them or back; yield each
    flow that has any, its sources and what is made, 0 where that is not marked.
    """
    ends = [(x.dst, x.src) if backwards else (x.src, x.dst) for x in flows]
    held = [marks[near] for near, _ in ends]
    for flow in () if keeps else flows:
        marks[flow.dst] = False
    for flow, (near, far), on in zip(flows, ends, held, strict=True):
        rows = np.flatnonzero(on.any(-1))
        if len(rows):
            marks[far[rows]] = True
            marks[0] = False
            sides = np.where(on[rows], near[rows], 0), far[rows]
            yield flow.of(rows), *(sides[::-1] if backwards else sides)


# -- while the kernel runs


def _keeper(program: Program, op: ops.Op, run: Run) -> Run:
    """Return a compiled op that a trail keeps, if it moves anything."""
    if type(op) not in RULES:
        return run
    ask, loops = capture(program, op), _loops(program.plan.body).get(id(op), ())

    def keeping(c: Cohort) -> Signal | list[Cohort] | None:
        trail, active = c.batch.report, c.active()
        assert isinstance(trail, Trail)
        around = {name: c.env[name] for name in loops}
        got = ask(c, trail.cells)
        signal = run(c)
        if not isinstance(signal, list):  # parts of the cohort execute it again
            trail.keep(op, c, active, around, got)
        return signal

    return keeping


KEEPERS["moves"] = _keeper


def _loops(body: ops.Block, around: tuple[str, ...] = ()) -> dict[int, tuple[str, ...]]:
    """Return the variables of the loops around each op, by its identity."""
    found: dict[int, tuple[str, ...]] = {}
    for op in body:
        found[id(op)] = around
        inner = (*around, op.var) if isinstance(op, ops.Loop) else around
        for block in blocks_of(op):
            found |= _loops(block, inner)
    return found
