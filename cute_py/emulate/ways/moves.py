"""What each op moves: which cells each cell that it writes is made of.

`Seen` is one execution of an op by a cohort, kept while a kernel runs. `moves(cells, seen)` says
afterwards what it did, as stages of `Flow`: each cell of `dst` is made of all cells of `src` in the
same row. That is exact for copies, shuffles and products; other arithmetic joins its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.dtypes.table import u8
from cute_py.emulate.access import Located
from cute_py.emulate.cohorts import Cohort
from cute_py.emulate.ops.matrix import THREADS, WARPS, lanes_of
from cute_py.emulate.ops.memory import Box, givers, matrix_rows, ranks
from cute_py.emulate.ops.order import threads_of, value_at
from cute_py.emulate.ops.registers import source_lanes
from cute_py.emulate.program import Program
from cute_py.emulate.spans import LANES, Array
from cute_py.emulate.storages import Place
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Reg
from cute_py.plan.walk import parts

if TYPE_CHECKING:
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.emulate.storages import Global
    from cute_py.emulate.ways.cells import Cells


@dataclass(slots=True, eq=False)
class Seen:
    """An op that a cohort has executed.

    Attributes:
        step: its number in the run.
        threads: [block, warp, lane], their numbers in the grid; first: the first block that runs.
        active: the lanes that took part, [block, warp, lane].
        loops: the values of the loop variables around it.
        event: its number in the timeline of the first block, if it is there.
        got: what only the run knows: places of accesses by field, lanes, boxes.
    """

    step: int
    op: ops.Op
    threads: Array
    first: int
    active: Array
    loops: dict[str, Any]
    event: int | None
    got: Any

    def of(self, rows: Array) -> Seen:
        """Return what some of the blocks did, by their rows."""
        cut = partial(_cut, rows=rows)
        got, threads = self.got, self.threads[rows]
        if isinstance(got, list):
            got = [box for box in got if (threads == box.who).any()]
        elif isinstance(got, dict):
            got = {name: cut(x) for name, x in got.items()}
        else:
            got = cut(got)
        loops = {name: cut(x) for name, x in self.loops.items()}
        return replace(self, threads=threads, active=self.active[rows], loops=loops, got=got)


def _cut(x: Any, rows: Array) -> Any:
    """Return the rows of values [block or 1, ...], of places among them, too."""
    if isinstance(x, tuple):
        return tuple([_cut(each, rows) for each in x])
    if isinstance(x, Place):
        found = Place(*[_cut(each, rows) for each in (x.offsets, x.guard, x.active)])
        found.blocks = _cut(x.blocks, rows)
        return found
    return x[rows] if isinstance(x, np.ndarray) and len(x) > 1 else x


@dataclass(slots=True, eq=False)
class Moved:
    """A box that a thread copies.

    Attributes:
        who: the thread, by its number in the grid.
        blocks: whose shared memory it is.
        tile: the access to that.
        array: the tensor.
        index, places: the elements, and where they are in the tile.
        exists: which of them lie in the tensor.
    """

    who: int
    blocks: Array
    tile: Located
    array: Global
    index: Array
    places: Array
    exists: Array


@dataclass(slots=True, eq=False)
class Flow:
    """Cells [row, ...] that are made of others.

    Attributes:
        src, dst: the cells; 0 for a constant.
        who: the thread [row] that does it, by its number in the grid.
        product: of matrix instructions, which products the cells are in.
    """

    src: Array
    dst: Array
    who: Array
    product: Product | None = None

    def of(self, rows: Array) -> Flow:
        """Return some of the rows."""
        product = self.product
        part = product and replace(product, row=product.row[rows])
        return Flow(self.src[rows], self.dst[rows], self.who[rows], part)


@dataclass(slots=True, eq=False)
class Product:
    """The products of rows of one operand.

    Attributes:
        operand: "a" or "b"; row [row]: m, or n for B.
        steps: the instructions of the op that multiply this fragment, by number.
        wide: the cells of an element of the operand, and of the accumulator.
        across: N for A, M for B.
    """

    operand: str
    row: Array
    steps: tuple[int, ...]
    wide: tuple[int, int]
    across: int


Stage = tuple[list[Flow], bool]  # flows at once, and whether the cells also keep what they have
Rule = Callable[["Cells", Seen], Iterator[Stage]]
Capture = Callable[[Cohort], Any]
RULES: dict[type[ops.Op], Rule] = {}


def moves(*kinds: type[ops.Op]) -> Callable[[Rule], Rule]:
    """Register what types of ops move."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


# -- what only the run knows


def capture(program: Program, op: ops.Op) -> Capture:
    """Compile what is kept of an op, before it is executed."""
    if isinstance(op, ops.TmaLoad | ops.TmaStore):
        return _boxes(program, op)
    if isinstance(op, ops.Shuffle):
        lanes = source_lanes(program, op)
        return lambda c: np.broadcast_to(lanes(c), c.span.shape)
    found: dict[str, Callable[[Cohort], tuple[Located, Global | None, Place]]] = {}
    for name in ("src", "dst", "a", "b"):
        held = getattr(op, name, None)
        access = held.access if isinstance(held, ops.Tile) else held
        if isinstance(access, Access):
            found[name] = _place(program, op, access)
    if not isinstance(op, ops.Wgmma):
        return lambda c: {name: place(c) for name, place in found.items()}
    given = op.accumulate
    keeps = (lambda c: given) if isinstance(given, bool) else program.condition(given)

    def of_wgmma(c: Cohort) -> dict[str, Any]:
        kept = np.broadcast_to(np.asarray(keeps(c)), c.span.shape)
        return {"kept": kept, **{name: place(c) for name, place in found.items()}}

    return of_wgmma


def _place(program: Program, op: ops.Op, access: Access) -> Callable[[Cohort], Any]:
    located = program.access(access, op, unit=1, counted=False)
    if isinstance(op, ops.LdMatrix | ops.StMatrix):
        _, rows = matrix_rows(op.atom, "dst" if isinstance(op, ops.LdMatrix) else "src")
        return lambda c: (located, None, givers(located, c, rows))
    return lambda c: (located, None if located.smem else located.array(c), located(c))


def _boxes(program: Program, op: ops.TmaLoad | ops.TmaStore) -> Capture:
    """Compile the boxes that threads copy: thread, blocks, elements of the tensor and the tile."""
    loads = isinstance(op, ops.TmaLoad)
    tile = program.access(op.box.tile, op, unit=1, counted=False)
    bar = program.access(op.bar, op, unit=8, counted=False) if loads else tile
    box, multicast = Box(program, op), program.scalar(op.multicast if loads else 0)

    def boxes(c: Cohort) -> list[Moved]:
        at, place, found, first = bar(c), tile(c), [], c.batch.faults.first
        starts = np.broadcast_to(place.offsets, (*c.span.shape, tile.count))
        for where in threads_of(c, at):
            copied = box.copied(c, where)
            if not (copied or loads):
                continue
            index, exists = box.at(c, where)
            ranks = value_at(multicast(c), where, c.span.shape)
            own, warp, lane = c.span.thread(where)
            blocks = [c.peer(op, where, r) for r in range(64) if ranks >> r & 1] or [own]
            who = ((own + first) * program.warps + warp) * LANES + lane
            places = starts[where] + box.order
            sides = box.array(c), index, places, exists & copied
            found.append(Moved(who, np.array(blocks) + first, tile, *sides))
        return found

    return boxes


def touched(cells: Cells, seen: Seen, marks: Array) -> Array:
    """Return which blocks, by their rows, may touch a marked cell of global memory."""
    blocks = seen.threads[:, 0, 0] // cells.threads
    found = np.zeros(len(blocks), np.bool_)
    if isinstance(seen.got, list):
        whose = [x.who for x in seen.got if marks[cells.of_array(x.array, x.index)].any()]
        return found | np.isin(blocks, np.array(whose, np.int64) // cells.threads)
    for held in seen.got.values() if isinstance(seen.got, dict) else ():
        if isinstance(held, tuple) and held[1] is not None:
            located, array, place = held
            each = cells.of_array(array, place.offsets[..., None] + np.arange(located.width))
            found |= marks[each].any((1, 2, 3, 4, 5))
    return found


# -- cells of operands: [block, warp, lane, element, unit]


def _registers(cells: Cells, seen: Seen, reg: Reg) -> Array:
    """Return the cells of registers."""
    part = cells.registers[reg.storage]
    return cells.of_threads(part, seen.threads, reg.dtype, np.array(reg.index))


def _operands(cells: Cells, seen: Seen, *values: object) -> list[Array]:
    """Return the cells of the registers, and of the integers with names, in some values."""
    found = list(parts(values))
    names = {s.name for x in found if isinstance(x, SymInt) for s in _symbols(x)}
    held = [cells.integers[name] for name in sorted(names & cells.integers.keys())]
    integers = [cells.of_threads(part, seen.threads, u8, np.zeros(1, int)) for part in held]
    return [_registers(cells, seen, x) for x in found if isinstance(x, Reg)] + integers


def _symbols(x: SymInt) -> Iterator[Any]:
    return (s for m in terms_of(x) for atom in m for s in atom.symbols)


def _memory(cells: Cells, seen: Seen, name: str) -> tuple[Array, Array, Array | None]:
    """Return the cells of the access in a field, which elements [block, warp, lane, element] are
    touched, and where its guards hold.
    """
    located, array, place = seen.got[name]
    spread = (*seen.threads.shape, located.count, located.width)

    def each(values: Array) -> Array:
        return np.broadcast_to(values, spread).reshape(*seen.threads.shape, -1)

    offsets = each(place.offsets[..., None] + np.arange(located.width))
    if array is not None:
        found = cells.of_array(array, offsets)
    else:
        blocks = (seen.threads // cells.threads)[..., None]
        if place.blocks is not None:
            blocks = place.blocks + seen.first
        found = cells.of_shared(blocks, located.start, located.dtype, offsets)
    active = seen.active[..., None, None] if place.active is None else place.active[..., None]
    guard = None if place.guard is None else each(place.guard[..., None])
    return found, each(active), guard


def _flow(src: Array, dst: Array, seen: Seen, active: Array) -> Flow:
    """Return a flow of rows [block, warp, lane, row, cell], of those that are active."""
    shape = np.broadcast_shapes(src.shape[:4], dst.shape[:4])
    chosen = np.broadcast_to(active, shape)
    who = np.broadcast_to(seen.threads[..., None], shape)[chosen]
    sides = [np.broadcast_to(x, (*shape, x.shape[-1]))[chosen] for x in (src, dst)]
    return Flow(*sides, who)


def _moved(src: Array, dst: Array, seen: Seen, active: Array) -> Flow:
    """Return the flow of cells one by one; `active`: of elements of either, or of lanes."""
    shape = seen.threads.shape
    src, dst = (x.reshape(*shape, -1, 1) for x in (src, dst))
    each = np.repeat(active, src.shape[3] // active.shape[-1], axis=-1)
    return _flow(src, dst, seen, each)


def _joined(sources: list[Array], dst: Array, seen: Seen, active: Array | None = None) -> Flow:
    """Return the flow of elements: each is made of those at its place in all sources."""
    whole = dst.shape[:4]
    each = [np.broadcast_to(x, (*whole, x.shape[-1])) for x in sources]
    src = np.concatenate(each, -1) if each else np.zeros((*whole, 1), np.int64)
    return _flow(src, dst, seen, seen.active[..., None] if active is None else active)


# -- memory


@moves(ops.Load)
def load(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Vectors to registers; a constant where a guard does not hold."""
    src, active, guard = _memory(cells, seen, "src")
    if guard is not None and seen.op.src.fill is not None:
        src, active = np.where(guard[..., None], src, 0), seen.active[..., None]
    yield [_moved(src, _registers(cells, seen, seen.op.dst), seen, active)], False


@moves(ops.Store)
def store(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Registers to vectors."""
    dst, active, _ = _memory(cells, seen, "dst")
    yield [_moved(_registers(cells, seen, seen.op.src), dst, seen, active)], False


@moves(ops.CpAsync)
def cp_async(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Vectors of global memory to shared memory."""
    (src, _, guard), (dst, active, _) = (_memory(cells, seen, name) for name in ("src", "dst"))
    if guard is not None:
        if seen.op.src.fill is None:
            guard = np.repeat(guard, active.shape[-1] // guard.shape[-1], axis=-1)
            active = active & guard
        else:
            src = np.where(guard[..., None], src, 0)
    yield [_moved(src, dst, seen, active)], False


@moves(ops.LdMatrix)
def ldmatrix(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Rows of matrices to registers."""
    src = _matrix(cells, seen, "src", "dst")
    yield [_moved(src, _registers(cells, seen, seen.op.dst), seen, seen.active[..., None])], False


@moves(ops.StMatrix)
def stmatrix(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Registers to rows of matrices."""
    dst = _matrix(cells, seen, "dst", "src")
    yield [_moved(_registers(cells, seen, seen.op.src), dst, seen, seen.active[..., None])], False


def _matrix(cells: Cells, seen: Seen, name: str, side: str) -> Array:
    """Return the cells in memory of each lane's registers, in their order."""
    place, _ = matrix_rows(seen.op.atom, side)
    found, _, _ = _memory(cells, seen, name)
    rows = found.reshape(*seen.threads.shape, seen.got[name][0].count, 8, -1)
    own = np.moveaxis(rows, 3, 2)[:, :, :, place // 8, place % 8]  # matrix, lane, element, unit
    return np.moveaxis(own, 2, 3)


@moves(ops.Atomic)
def atomic(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Memory is joined with registers, one thread after the other; each gets what was there."""
    op = seen.op
    dst, active, _ = _memory(cells, seen, "dst")
    sources = _operands(cells, seen, op.src, op.compare or ())
    flows = [_joined(sources if op.fn == "exch" else [dst, *sources], dst, seen, active)]
    if op.old is not None:
        flows.append(_joined([dst], _registers(cells, seen, op.old), seen, active))
    turns = ranks(flows[0].dst[:, 0])
    for turn in range(turns.max(initial=-1) + 1):
        rows = np.flatnonzero(turns == turn)
        yield [flow.of(rows) for flow in flows], False


@moves(ops.TmaLoad, ops.TmaStore)
def tma(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Boxes of a tensor to shared memory, or back."""
    loads, flows = isinstance(seen.op, ops.TmaLoad), []
    for box in seen.got:
        outer = cells.of_array(box.array, box.index)
        inner = cells.of_shared(box.blocks[:, None], box.tile.start, box.tile.dtype, box.places)
        outer = np.where(box.exists[:, None], outer, 0)
        outer, inner = (np.broadcast_to(x, inner.shape).reshape(-1, 1) for x in (outer, inner))
        chosen = slice(None) if loads else outer[:, 0] > 0
        src, dst = (outer, inner) if loads else (inner[chosen], outer[chosen])
        src = np.concatenate([src, dst], -1) if getattr(seen.op, "reduce", "") else src
        flows.append(Flow(src, dst, np.full(len(src), box.who)))
    yield flows, False


# -- registers


@moves(ops.Fill)
def fill(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """A constant."""
    if seen.op.value is not None:
        yield [_joined([], _registers(cells, seen, seen.op.dst), seen)], False


@moves(ops.Map, ops.Convert)
def computed(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Element by element."""
    values = seen.op.sources if isinstance(seen.op, ops.Map) else seen.op.src
    made = _registers(cells, seen, seen.op.dst)
    yield [_joined(_operands(cells, seen, _expressions(values)), made, seen)], False


def _expressions(values: object) -> tuple[object, ...]:
    whole = values if isinstance(values, tuple) else (values,)
    return tuple([x for x in whole if isinstance(x, Reg | SymInt)])


@moves(ops.Reduce)
def reduced(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Runs of elements."""
    src, dst = (_registers(cells, seen, reg) for reg in (seen.op.src, seen.op.dst))
    runs = src.reshape(*dst.shape[:4], -1)
    yield [_joined([runs], dst, seen)], False


@moves(ops.Shuffle)
def shuffled(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Elements of another lane."""
    src, dst = (_registers(cells, seen, reg) for reg in (seen.op.src, seen.op.dst))
    src = np.take_along_axis(src, seen.got[..., None, None], axis=2)
    yield [_moved(src, dst, seen, seen.active[..., None])], False


@moves(ops.Vote, ops.Redux)
def combined(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """The lanes of a warp."""
    src, dst = (_registers(cells, seen, reg) for reg in (seen.op.src, seen.op.dst))
    yield [_joined([_of_lanes(src, seen)], dst, seen)], False


def _of_lanes(src: Array, seen: Seen) -> Array:
    """Return the cells of all lanes that take part, for each lane."""
    own = np.where(seen.active[..., None, None], src, 0)
    whole = np.moveaxis(own, 2, 3).reshape(*src.shape[:2], 1, src.shape[3], -1)
    return np.broadcast_to(whole, (*src.shape[:4], whole.shape[-1]))


@moves(ops.InlinePtx)
def inline(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Element by element, or of all lanes where they communicate."""
    op = seen.op
    sources = _operands(cells, seen, op.inputs)
    if op.group == "warp":
        sources = [_of_lanes(x, seen) for x in sources]
    yield [_joined(sources, _registers(cells, seen, reg), seen) for reg in op.outputs], False


@moves(ops.Let, ops.Set)
def integer(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """An integer that is read from registers, or computed from others."""
    op = seen.op
    values = op.operands if isinstance(op, ops.Let) else (op.value,)
    sources = _operands(cells, seen, values)
    if isinstance(op, ops.Let) and op.kind == "var":
        sources = [_integer(cells, seen, str(op.operands[0]))]
    yield [_joined(sources, _integer(cells, seen, op.var), seen)], False


def _integer(cells: Cells, seen: Seen, name: str) -> Array:
    return cells.of_threads(cells.integers[name], seen.threads, u8, np.zeros(1, int))


# -- products


@moves(ops.Mma, ops.Wgmma)
def products(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """A row of A and a column of B to each element of D, which keeps what it has."""
    op, atom = seen.op, seen.op.atom
    d = _registers(cells, seen, op.d)
    sums = _fragments(d, atom, "c")
    if isinstance(op, ops.Wgmma) and not seen.got["kept"].all():
        anew = seen.active & ~seen.got["kept"]
        first = np.unique([i * atom.values[2] for i, _, _ in op.steps])
        index = (first[:, None] + np.arange(atom.values[2])).reshape(-1)
        yield [_joined([], d[..., index, :], seen, anew[..., None])], False
    whole = _whole(atom, seen.threads)[..., 0], _whole(atom, seen.active).any(-1)
    flows = []
    for k, operand in enumerate("ab"):
        factor = _factor(cells, seen, operand)
        for one in {step[k + 1] for step in op.steps}:
            steps = tuple(n for n, step in enumerate(op.steps) if step[k + 1] == one)
            each = sums[:, :, [op.steps[n][0] for n in steps]]
            flows.append(_product(factor[:, :, one], each, operand, steps, whole))
    yield flows, True


def _product(
    factor: Array, sums: Array, operand: str, steps: tuple[int, ...], whole: tuple[Array, Array]
) -> Flow:
    """Return the flow of rows [block, group, row] of one fragment of an operand, to all sums
    [block, group, step, m, n, unit] that it is multiplied for.
    """
    rows = np.moveaxis(sums, 3 if operand == "a" else 4, 2)  # row, step, across, unit
    shape = factor.shape[:3]
    (who, active), wide = whole, (factor.shape[-1], sums.shape[-1])
    chosen = np.broadcast_to(active[..., None], shape)
    row = np.broadcast_to(np.arange(shape[2]), shape)[chosen]
    src, dst = factor.reshape(*shape, -1)[chosen], rows.reshape(*shape, -1)[chosen]
    product = Product(operand, row, steps, wide, rows.shape[4])
    return Flow(src, dst, np.broadcast_to(who[..., None], shape)[chosen], product)


def _whole(atom: MMA_Atom, each: Array) -> Array:
    """Return values of threads [block, group, thread], for the groups that execute an atom."""
    if atom.num_threads == THREADS:
        return each.reshape(each.shape[0], -1, THREADS, *each.shape[3:])
    lanes = lanes_of(atom).groups
    return each[:, :, lanes].reshape(each.shape[0], -1, lanes.shape[1], *each.shape[3:])


def _fragments(cells: Array, atom: MMA_Atom, operand: str) -> Array:
    """Return the cells [block, group, fragment, row, column, unit] of registers of an operand."""
    values = atom.values["abc".index(operand)]
    m, n, k = atom.shape_mnk
    rows, columns = {"a": (m, k), "b": (n, k), "c": (m, n)}[operand]
    own = _whole(atom, cells)  # block, group, thread, element, unit
    own = own.reshape(*own.shape[:3], -1, values, own.shape[-1])
    own = np.moveaxis(own, 2, 3)
    own = own.reshape(*own.shape[:3], -1, own.shape[-1])
    place = np.zeros(rows * columns, np.int64)
    table = atom.table(operand)
    place[table] = np.arange(table.size).reshape(table.shape)
    found = own[..., place, :].reshape(*own.shape[:3], columns, rows, own.shape[-1])
    return found.swapaxes(3, 4)


def _factor(cells: Cells, seen: Seen, operand: str) -> Array:
    """Return the cells [block, group, fragment, row, K, unit] of A or B."""
    op, held = seen.op, getattr(seen.op, operand)
    if isinstance(held, Reg):
        return _fragments(_registers(cells, seen, held), op.atom, operand)
    m, n, k = op.atom.shape_mnk
    found = _memory(cells, seen, operand)[0][:, ::WARPS, 0]
    rows = m if operand == "a" else n
    shape = (*found.shape[:2], -1, k, rows, found.shape[-1])
    return found.reshape(shape).swapaxes(3, 4)
