"""What each op moves: which cells each cell that it writes is made of.

`Seen` is one execution of an op by a cohort, kept while a kernel runs. `RULES` say afterwards what
it did, in stages: flows at once, and whether cells also keep what they have. It is exact for
copies, shuffles and products; all other arithmetic joins its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cute_py.dtypes.table import u8
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
from cute_py.plan.functions import FUNCTIONS
from cute_py.plan.walk import parts, writes

if TYPE_CHECKING:
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.emulate.ways.cells import Cells

OPERANDS = ("src", "compare", "sources", "inputs", "operands", "value")  # fields of ops
MATRICES = {ops.LdMatrix: "dst", ops.StMatrix: "src"}  # the side of the atom with registers


@dataclass(slots=True, eq=False)
class Seen:
    """An op that a cohort has executed.

    Attributes:
        step: its number in the run; event: that in the timeline of the first block, if it is there.
        threads: [block, warp, lane], their numbers in the grid; first: the first block that runs.
        active: the lanes that took part.
        loops: the values of the loop variables around it.
        got: what only the run knows, by name: (access, array, place) of a field, lanes, boxes.
    """

    step: int
    event: int | None
    op: Any  # a record of `plan.ops`
    threads: Array
    first: int
    active: Array
    loops: dict[str, Any]
    got: dict[str, Any]

    def of(self, rows: Array) -> Seen:
        """Return what some of the blocks did, by their rows."""
        threads, active, loops, got = (
            _cut(x, rows) for x in (self.threads, self.active, self.loops, self.got)
        )
        return replace(self, threads=threads, active=active, loops=loops, got=got)

    def touches(self, cells: Cells, marks: Array) -> Array:
        """Return which blocks, by their rows, may touch a marked cell of global memory."""
        found = np.zeros(len(self.threads), np.bool_)
        for name, held in self.got.items():
            if name == "boxes":
                found[[box.row for box in held if marks[box.outer].any()]] = True
            elif isinstance(held, tuple) and held[1] is not None:
                vectors, array, place = held
                each = place.offsets[..., None] + np.arange(vectors.width)
                found |= marks[cells.of_array(array, each)].any((1, 2, 3, 4, 5))
        return found


def _cut(x: Any, rows: Array) -> Any:
    """Return the rows of values [block or 1, ...], and of all that are held in others."""
    if isinstance(x, dict):
        return {name: _cut(each, rows) for name, each in x.items()}
    if isinstance(x, list):
        return [box for box in x if box.row in rows]
    if isinstance(x, Place):
        found = Place(*[_cut(each, rows) for each in (x.offsets, x.guard, x.active)])
        found.blocks = _cut(x.blocks, rows)
        return found
    if type(x) is tuple:
        return tuple([_cut(each, rows) for each in x])
    return x[rows] if isinstance(x, np.ndarray) and len(x) > 1 else x


class Copied(NamedTuple):
    """A box that a thread copies: the row of its block, the thread, and the cells of elements in
    the tensor [element, unit], 0 outside of it, and in the tile [block, element, unit].
    """

    row: int
    who: int
    outer: Array
    inner: Array


@dataclass(slots=True, eq=False)
class Flow:
    """Cells [row, ...] of which those of `dst` are made of those of `src`; 0 for a constant.

    Attributes:
        src, dst: the cells.
        who: the thread [row] that does it, by its number in the grid.
        product: of matrix instructions, which products the cells are in.
        line: of them, m [row], or n for B.
    """

    src: Array
    dst: Array
    who: Array
    product: Product | None = None
    line: Array | None = None

    def of(self, rows: Array) -> Flow:
        """Return some of the rows."""
        line = None if self.line is None else self.line[rows]
        return Flow(self.src[rows], self.dst[rows], self.who[rows], self.product, line)


class Product(NamedTuple):
    """The products of one fragment of A or B.

    Attributes:
        operand: a or b; across: N, or M for B.
        steps: the instructions of the op that multiply it, by number.
        wide: the cells of an element of the operand, and of a sum.
    """

    operand: str
    across: int
    steps: tuple[int, ...]
    wide: tuple[int, int]


Stage = tuple[list[Flow], bool]
Rule = Callable[["Cells", Seen], Iterator[Stage]]
RULES: dict[type[ops.Op], Rule] = {}


def moves(*kinds: type[ops.Op]) -> Callable[[Rule], Rule]:
    """Register what types of ops move."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


# -- what only the run knows


def capture(program: Program, op: Any) -> Callable[[Cohort, Cells], dict[str, Any]]:
    """Compile what is kept of an op, before it is executed."""
    known: dict[str, Callable[[Cohort, Cells], Any]] = {}
    for name in ("src", "dst", "cells", "a", "b"):
        held = getattr(op, name, None)
        held = held.access if isinstance(held, ops.Tile) else held
        if isinstance(held, Access):
            known[name] = _place(program, op, held)
    if isinstance(op, ops.TmaLoad | ops.TmaStore):
        known["boxes"] = _boxes(program, op)
    elif isinstance(op, ops.Shuffle):
        lanes = source_lanes(program, op)
        known["lanes"] = lambda c, cells: np.broadcast_to(lanes(c), c.span.shape)
    elif isinstance(op, ops.Wgmma):
        given = op.accumulate
        keeps = (lambda c: given) if isinstance(given, bool) else program.condition(given)
        known["keeps"] = lambda c, cells: np.broadcast_to(np.asarray(keeps(c)), c.span.shape)
    return lambda c, cells: {name: ask(c, cells) for name, ask in known.items()}


def _place(program: Program, op: Any, access: Access) -> Callable[[Cohort, Cells], Any]:
    located = program.access(access, op, unit=1, counted=False)
    if type(op) in MATRICES:
        rows = matrix_rows(op.atom, MATRICES[type(op)])[1]
        return lambda c, cells: (located, None, givers(located, c, rows))
    return lambda c, cells: (located, None if located.smem else located.array(c), located(c))


def _boxes(program: Program, op: Any) -> Callable[[Cohort, Cells], list[Copied]]:
    loads = isinstance(op, ops.TmaLoad)
    tile = program.access(op.box.tile, op, unit=1, counted=False)
    bar = program.access(op.bar, op, unit=1, counted=False) if loads else tile
    box, multicast = Box(program, op), program.scalar(op.multicast if loads else 0)

    def boxes(c: Cohort, cells: Cells) -> list[Copied]:
        place, found, first = tile(c), [], c.batch.faults.first
        starts = np.broadcast_to(place.offsets, (*c.span.shape, 1))
        for where in threads_of(c, bar(c)):
            copied = box.copied(c, where)
            if not (copied or loads):
                continue
            index, exists = box.at(c, where)
            ranked = value_at(multicast(c), where, c.span.shape)
            block, warp, lane = c.span.thread(where)
            peers = [c.peer(op, where, r) for r in range(64) if ranked >> r & 1] or [block]
            who = (block + first) * cells.threads + warp * LANES + lane
            outer = cells.of_array(box.array(c), index) * (exists & copied)[:, None]
            blocks = np.array(peers)[:, None] + first
            inner = cells.of_shared(blocks, tile.start, tile.dtype, starts[where] + box.order)
            found.append(Copied(where[0], who, outer, inner))
        return found

    return boxes


# -- cells of operands: [block, warp, lane, element, unit]


def _registers(cells: Cells, seen: Seen, reg: Reg) -> Array:
    return cells.of_threads(
        cells.registers[reg.storage], seen.threads, reg.dtype, np.array(reg.index)
    )


def _integer(cells: Cells, seen: Seen, name: str) -> Array:
    return cells.of_threads(cells.integers[name], seen.threads, u8, np.zeros(1, np.int64))


def _read(cells: Cells, seen: Seen) -> list[Array]:
    """Return the cells of the registers, and of the named integers, that an op computes with."""
    op = seen.op
    values = list(parts(tuple([getattr(op, name, None) for name in OPERANDS])))
    terms = [m for x in values if isinstance(x, SymInt) for m in terms_of(x)]
    names = {s.name for m in terms for atom in m for s in atom.symbols}
    if isinstance(op, ops.Let) and op.kind == "var":
        names.add(str(op.operands[0]))
    integers = [_integer(cells, seen, name) for name in sorted(names & cells.integers.keys())]
    return [_registers(cells, seen, x) for x in values if isinstance(x, Reg)] + integers


def _side(cells: Cells, seen: Seen, name: str) -> tuple[Array, Array]:
    """Return the cells of the registers or of the access in a field, and which elements [block,
    warp, lane, element or 1] take part.
    """
    held = getattr(seen.op, name)
    if isinstance(held, Reg):
        return _registers(cells, seen, held), seen.active[..., None]
    vectors, array, place = seen.got[name]
    spread = (*seen.threads.shape, vectors.count, vectors.width)

    def each(values: Array) -> Array:
        return np.broadcast_to(values, spread).reshape(*seen.threads.shape, -1)

    offsets = each(place.offsets[..., None] + np.arange(vectors.width))
    if array is not None:
        found = cells.of_array(array, offsets)
    else:
        own = seen.threads[..., None] // cells.threads
        blocks = own if place.blocks is None else place.blocks + seen.first
        found = cells.of_shared(blocks, vectors.start, vectors.dtype, offsets)
    if type(seen.op) in MATRICES:
        return _matrix(found, seen, vectors.count), seen.active[..., None]
    active = seen.active[..., None] if place.active is None else place.active
    return found, each(active[..., None])


def _matrix(found: Array, seen: Seen, count: int) -> Array:
    """Return the cells of each lane's registers, in their order, in rows [lane, instruction]."""
    place = matrix_rows(seen.op.atom, MATRICES[type(seen.op)])[0]
    rows = np.moveaxis(found.reshape(*seen.threads.shape, count, 8, -1), 3, 2)
    own = rows[:, :, :, place // 8, place % 8]  # block, warp, instruction, lane, element, unit
    return np.moveaxis(own, 2, 3)


def _flow(src: Array, dst: Array, who: Array, active: Array) -> Flow:
    """Return a flow of rows [..., cell], of those that are active; `who` and `active` broadcast."""
    shape = np.broadcast_shapes(src.shape[:-1], dst.shape[:-1])
    chosen = np.broadcast_to(active, shape)
    src, dst = (np.broadcast_to(x, (*shape, x.shape[-1]))[chosen] for x in (src, dst))
    return Flow(src, dst, np.broadcast_to(who, shape)[chosen])


def _joined(sources: list[Array], dst: Array, seen: Seen, active: Array | None = None) -> Flow:
    """Return the flow of elements: each is made of those at its place in all sources."""
    each = [np.broadcast_to(x, (*dst.shape[:4], x.shape[-1])) for x in sources]
    src = np.concatenate(each, -1) if each else np.zeros((1,) * 5, np.int64)
    active = seen.active[..., None] if active is None else active
    return _flow(src, dst, seen.threads[..., None], active)


# -- copies


@moves(ops.Load, ops.Store, ops.CpAsync, ops.LdMatrix, ops.StMatrix, ops.Shuffle)
@moves(ops.WmmaLoad, ops.WmmaStore)
def copied(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Bits one by one; where a guard of a source does not hold, a constant or nothing."""
    ends = [name if hasattr(seen.op, name) else "cells" for name in ("src", "dst")]  # of Wmma
    (src, reads), (dst, writes) = (_side(cells, seen, name) for name in ends)
    if "lanes" in seen.got:
        src = np.take_along_axis(src, seen.got["lanes"][..., None, None], axis=2)
    src, dst = (x.reshape(*seen.threads.shape, -1, 1) for x in (src, dst))
    reads, writes = (np.repeat(x, src.shape[3] // x.shape[-1], axis=-1) for x in (reads, writes))
    if getattr(getattr(seen.op, ends[0]), "fill", None) is not None:
        src, reads = np.where(reads[..., None], src, 0), writes
    yield [_flow(src, dst, seen.threads[..., None], reads & writes)], False


@moves(ops.TmaLoad, ops.TmaStore)
def boxes(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Boxes of a tensor to shared memory, or back, combined with what is there or not."""
    flows = []
    for box in seen.got["boxes"]:
        src, inner = (np.broadcast_to(x, box.inner.shape).reshape(-1, 1) for x in box[2:])
        dst, who = inner, np.full(len(src), box.who)
        if isinstance(seen.op, ops.TmaStore):
            dst, src = src, np.concatenate([inner, src], -1) if seen.op.reduce else inner
        flows.append(Flow(src, dst, who).of(np.flatnonzero(dst[:, 0])))
    yield flows, False


@moves(ops.Atomic)
def atomic(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Memory joined with registers, one thread after the other; each gets what was there."""
    op, (dst, active) = seen.op, _side(cells, seen, "dst")
    sources = _read(cells, seen)
    flows = [_joined(sources if op.fn == "exch" else [dst, *sources], dst, seen, active)]
    if op.old is not None:
        flows.append(_joined([dst], _registers(cells, seen, op.old), seen, active))
    turns = ranks(flows[0].dst[:, 0])
    for turn in range(turns.max(initial=-1) + 1):
        rows = np.flatnonzero(turns == turn)
        yield [flow.of(rows) for flow in flows], False


# -- registers


@moves(ops.Fill, ops.Map, ops.Convert, ops.Reduce, ops.Vote, ops.Redux, ops.InlinePtx)
def computed(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """Element by element; runs of elements, and those of all lanes, where these are combined."""
    op, flows = seen.op, []
    if isinstance(op, ops.Fill) and op.value is None:
        return
    for reg in writes(op):
        made, sources = _registers(cells, seen, reg), _read(cells, seen)
        if isinstance(op, ops.Reduce):
            sources = [x.reshape(*made.shape[:4], -1) for x in sources]
        if op.group == "warp":
            sources = [_of_lanes(x, seen) for x in sources]
        if isinstance(op, ops.Map) and FUNCTIONS[op.fn].moves:
            sources = [_by_cell(x, made) for x in sources]
            made = made.reshape(*made.shape[:3], -1, 1)
        flows.append(_joined(sources, made, seen))
    yield flows, False


def _of_lanes(src: Array, seen: Seen) -> Array:
    """Return the cells of all lanes that take part, for each lane."""
    own = np.where(seen.active[..., None, None], src, 0)
    return np.moveaxis(own, 2, 3).reshape(*src.shape[:2], 1, src.shape[3], -1)


def _by_cell(src: Array, made: Array) -> Array:
    """Return the cells of a source for each cell that is made, where elements keep their bits."""
    whole = np.broadcast_to(src, (*made.shape[:4], src.shape[-1]))
    alike = src.shape[-1] == made.shape[-1]
    return whole.reshape(*made.shape[:3], -1, 1) if alike else whole.repeat(made.shape[-1], 3)


@moves(ops.Let, ops.Set)
def integer(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """An integer that is read from a register, or computed from others."""
    yield [_joined(_read(cells, seen), _integer(cells, seen, seen.op.var), seen)], False


# -- products


@moves(ops.Mma, ops.Wgmma)
def products(cells: Cells, seen: Seen) -> Iterator[Stage]:
    """A row of A and a column of B to each element of D, which keeps what it has."""
    op, atom = seen.op, seen.op.atom
    d, n, flows = _registers(cells, seen, op.d), op.atom.values[2], []
    anew = seen.active & np.logical_not(seen.got.get("keeps", True))
    if anew.any():
        first = np.unique([i * n for i, _, _ in op.steps])
        index = (first[:, None] + np.arange(n)).reshape(-1)
        yield [_joined([], d[..., index, :], seen, anew[..., None])], False
    sums = _fragments(d, atom, "c")
    who, active = _groups(seen.threads, atom)[..., 0], _groups(seen.active, atom).any(-1)
    for place, operand in enumerate("ab", 1):
        factors = _factors(cells, seen, operand)
        for one in {step[place] for step in op.steps}:
            steps = tuple(k for k, step in enumerate(op.steps) if step[place] == one)
            each = np.moveaxis(sums[:, :, [op.steps[k][0] for k in steps]], 2 + place, 2)
            shape, wide = factors.shape[:2] + each.shape[2:3], (factors.shape[-1], each.shape[-1])
            src, dst = factors[:, :, one].reshape(*shape, -1), each.reshape(*shape, -1)
            flow = _flow(src, dst, who[..., None], active[..., None])
            flow.product = Product(operand, each.shape[4], steps, wide)
            flow.line = np.tile(np.arange(shape[2]), np.count_nonzero(active))
            flows.append(flow)
    yield flows, True


def _groups(each: Array, atom: MMA_Atom) -> Array:
    """Return values of threads [block, group, thread], for the groups that execute an atom."""
    if atom.num_threads == THREADS:
        return each.reshape(len(each), -1, THREADS, *each.shape[3:])
    lanes = lanes_of(atom).groups
    return each[:, :, lanes].reshape(len(each), -1, lanes.shape[1], *each.shape[3:])


def _fragments(cells: Array, atom: MMA_Atom, operand: str) -> Array:
    """Return the cells [block, group, fragment, row, column, unit] of registers of an operand."""
    m, n, k = atom.shape_mnk
    rows, columns = {"a": (m, k), "b": (n, k), "c": (m, n)}[operand]
    values = atom.values["abc".index(operand)]
    own = _groups(cells, atom)  # block, group, thread, element, unit
    own = np.moveaxis(own.reshape(*own.shape[:3], -1, values, own.shape[-1]), 2, 3)
    own = own.reshape(*own.shape[:3], -1, own.shape[-1])
    table, place = atom.table(operand), np.zeros(rows * columns, np.int64)
    place[table] = np.arange(table.size).reshape(table.shape)
    return own[..., place, :].reshape(*own.shape[:3], columns, rows, -1).swapaxes(3, 4)


def _factors(cells: Cells, seen: Seen, operand: str) -> Array:
    """Return the cells [block, group, fragment, row, K, unit] of A or B."""
    held, (m, n, k) = getattr(seen.op, operand), seen.op.atom.shape_mnk
    if isinstance(held, Reg):
        return _fragments(_registers(cells, seen, held), seen.op.atom, operand)
    vectors, _, place = seen.got[operand]
    shape = (*seen.threads.shape, vectors.count)
    starts = np.broadcast_to(place.offsets, shape)[:, ::WARPS, 0]  # one descriptor for all threads
    blocks = seen.threads[:, ::WARPS, 0, None, None] // cells.threads
    offsets = starts[..., None] + np.arange(vectors.width)
    found = cells.of_shared(blocks, vectors.start, vectors.dtype, offsets)
    rows = m if operand == "a" else n
    return found.reshape(*starts.shape[:2], -1, k, rows, found.shape[-1]).swapaxes(3, 4)
