"""Memory: loads and stores, matrices, atomics, cp.async, and TMA."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cute_py.atoms.copy import Copy_Op
from cute_py.atoms.tensor_map import MOST_EXTENT, unreachable
from cute_py.emulate.access import Located, slots_of
from cute_py.emulate.bits import from_bytes, numpy_type, recast, to_bytes
from cute_py.emulate.clocks import BULK, BULK_WRITE, COPY, SEVERAL, THREAD
from cute_py.emulate.cohorts import Cohort, Run
from cute_py.emulate.numerics import function
from cute_py.emulate.observed import rounds
from cute_py.emulate.ops.order import require_warps, threads_of, value_at
from cute_py.emulate.pointers import define
from cute_py.emulate.program import Program, handles
from cute_py.emulate.regions import THREADS
from cute_py.emulate.releases import places_of, shared_places
from cute_py.emulate.resources import PLAIN
from cute_py.emulate.spans import LANES, Array
from cute_py.emulate.storages import Place
from cute_py.emulate.values import lanes_that_differ
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.emulate.registers import View
    from cute_py.emulate.storages import Global


@handles(ops.MakePtr)
def pointer(program: Program, op: ops.MakePtr) -> Run:
    """Name the memory at an address."""
    return define(op, program.scalar(op.address), "promises" in program.checks)


@handles(ops.Load)
def load(program: Program, op: ops.Load) -> Run:
    """Load vectors to registers."""
    located, dst = program.access(op.src, op), program.view(op.dst)
    own, target, fill = op.src.dtype, op.dst.dtype, op.src.fill
    acquires = op.order == "acquire"

    def run(c: Cohort) -> None:
        place = located(c)
        touch = located.judge_read(c, place)
        if acquires and touch is not None and c.batch.releases is not None:
            c.batch.releases.acquire(places_of(touch))
        values = located.load(c, place)
        if place.guard is not None:
            guard = _by_element(place.guard, located)
            if fill is None:
                dst.put(c, recast(values, own, target), _recount(guard, located, dst))
                return
            values = np.where(guard, values, numpy_type(own).type(fill))
        dst.put(c, values if own is target else recast(values, own, target))

    return run


def _by_element(guard: Array, located: Located) -> Array:
    """Return a guard of vectors for the elements of the vectors."""
    if located.width == 1 or guard.shape[-1] == 1:
        return guard
    return np.repeat(guard, located.width, axis=-1)


def _recount(guard: Array, located: Located, dst: View) -> Array:
    """Return a guard of elements of an access for the elements of a register operand."""
    n = located.count * located.width
    if guard.shape[-1] == 1 or n == dst.count:
        return guard
    if n > dst.count:
        return guard[..., :: n // dst.count]
    return np.repeat(guard, dst.count // n, axis=-1)


@handles(ops.Store)
def store(program: Program, op: ops.Store) -> Run:
    """Store registers to vectors."""
    located, read = program.access(op.dst, op), program.reader(op.src, op)
    own, target = op.src.dtype, op.dst.dtype

    def run(c: Cohort) -> None:
        place = located(c)
        values = read(c)
        if own is not target:
            values = recast(np.ascontiguousarray(values), own, target)
        if located.smem:
            _write(located, place, c, values)
            located.judge_write(c, place)
        else:
            located.put(c, place, values)

    return run


def _write(located: Located, place: Place, c: Cohort, values: Array) -> None:
    """Write values, and refuse where lanes of one warp write different ones to one address, or such
    that are equal by chance.
    """
    written = located.store(c, place, values)
    if "shared" not in located.checks or not located.smem or located.packed:
        return
    found = lanes_that_differ(c, located, place) if _may_meet(located, place, c) else None
    if found is None:
        return
    where, other = found
    items = np.broadcast_to(place.items, written.shape)
    now = located.take(c, items, located.nbytes, place.blocks)
    bits = [np.ascontiguousarray(x[where]).view(np.uint8) for x in (now, written)]
    raise c.fault(
        "emulate-lanes",
        located.op,
        where[:3],
        values="values, equal here by chance,"
        if (bits[0] == bits[1]).all()
        else "different values",
        other=other,
        storage=located.access.storage,
        offset=int(np.broadcast_to(place.offsets, written.shape)[where]),
    )


def _may_meet(located: Located, place: Place, c: Cohort) -> bool:
    """Tell whether lanes of a warp may store to one address of shared memory."""
    shadow = c.batch.shadow
    if (
        shadow is None
        or place.blocks is not None
        or isinstance(located.op, (ops.StMatrix, ops.WmmaStore))
    ):
        return True
    return bool((shadow.touch(c.span, located, place, whole=False).who & SEVERAL).any())


WMMA_BYTES = 32  # the alignment of a tile


@handles(ops.WmmaLoad)
def wmma_load(program: Program, op: ops.WmmaLoad) -> Run:
    """Load the elements of a fragment, in the emulator's order: the whole warp reads them."""
    tile = program.access(op.tile, op, unit=WMMA_BYTES, counted=False)
    cells, dst = program.access(op.cells, op), program.view(op.dst)

    def run(c: Cohort) -> None:
        require_warps(op, c)
        tile(c)
        place = cells(c)
        cells.judge_read(c, place, whole=True)
        dst.put(c, recast(cells.load(c, place), op.cells.dtype, op.dst.dtype))

    return run


@handles(ops.WmmaStore)
def wmma_store(program: Program, op: ops.WmmaStore) -> Run:
    """Store the elements of a fragment, in the emulator's order: the whole warp writes them."""
    tile = program.access(op.tile, op, unit=WMMA_BYTES, counted=False)
    cells, read = program.access(op.cells, op), program.reader(op.src, op)

    def run(c: Cohort) -> None:
        require_warps(op, c)
        tile(c)
        place = cells(c)
        values = recast(np.ascontiguousarray(read(c)), op.src.dtype, op.cells.dtype)
        _write(cells, place, c, values)
        cells.judge_write(c, place, whole=True)

    return run


@handles(ops.SharedAddress)
def shared_address(program: Program, op: ops.SharedAddress) -> Run:
    """Return where the element is in the shared memory of the block."""
    located, dst = program.access(op.src, op, unit=1, counted=False), program.view(op.dst)

    def run(c: Cohort) -> None:
        offsets = located(c).offsets * op.src.dtype.bits // 8 + located.start
        dst.put(c, np.broadcast_to(offsets, (*c.span.shape, 1)).astype(np.uint32))

    return run


@handles(ops.Prefetch)
def prefetch(program: Program, op: ops.Prefetch) -> Run:
    """Change nothing: a prefetch of any address is allowed."""
    return lambda c: None


# -- ldmatrix and stmatrix


def matrix_rows(atom: Copy_Op, side: str) -> tuple[Array, int]:
    """Return for each lane and 16-bit element of its registers row * 8 + column, and the rows."""
    bits = atom.table(side)[:, ::16] // 16
    return bits, int(bits.max()) // 8 + 1


@handles(ops.LdMatrix)
def ldmatrix(program: Program, op: ops.LdMatrix) -> Run:
    """Load 8x8 matrices; lanes 0 to 8n-1 give the addresses of rows."""
    located, dst = program.access(op.src, op, unit=16), program.view(op.dst)
    place_of, rows = matrix_rows(op.atom, "dst")
    row, column = place_of // 8, place_of % 8
    pairs = bool((column[:, ::2] % 2 == 0).all() and (column[:, 1::2] == column[:, ::2] + 1).all())
    pairs = pairs and bool((row[:, ::2] == row[:, 1::2]).all())
    size = 4 if pairs else 2
    if pairs:
        row, column = row[:, ::2], column[:, ::2] // 2

    def items(place: Place) -> Array:
        found = place.extra.get("matrix")
        if found is None:
            rows_at = place.items // 128 if located.packed else place.items  # packed ones are bits
            starts = np.broadcast_to(rows_at, (*rows_at.shape[:2], LANES, located.count))
            found = starts[:, :, row] * (16 // size)  # block, warp, lane, element, instruction
            found = np.moveaxis(found, -1, -2) + column[:, None, :] * 1
            found = place.extra["matrix"] = found.reshape(*found.shape[:3], -1)
        return found

    def run(c: Cohort) -> None:
        place = givers(located, c, rows)
        located.judge_read(c, place, whole=True)
        data = np.ascontiguousarray(located.take(c, items(place), size)).view(np.uint8)
        dst.put(c, from_bytes(data, op.dst.dtype))

    return run


def givers(located: Located, c: Cohort, rows: int) -> Place:
    """Return the place of a matrix instruction, whose addresses come from the first lanes alone."""
    require_warps(located.op, c)
    if rows == LANES:
        return located(c)
    fixed = located.names == () and c.mask is None
    key = located, "givers"
    found = c.span.cache.get(key) if fixed else None
    if found is None:
        mask, lanes = c.mask, np.arange(LANES).reshape(1, 1, LANES) < rows
        if mask is not None:
            lanes = lanes & mask
        try:
            c.mask = lanes
            found = located(c)
        finally:
            c.mask = mask
        found.active = np.broadcast_to(lanes[..., None], (*lanes.shape, 1))
        if fixed:
            c.span.cache[key] = found
    return found


@handles(ops.StMatrix)
def stmatrix(program: Program, op: ops.StMatrix) -> Run:
    """Store 8x8 matrices: the inverse of ldmatrix."""
    located, read = program.access(op.dst, op, unit=16), program.reader(op.src, op)
    place_of, rows = matrix_rows(op.atom, "src")
    back = np.argsort(place_of.reshape(-1), kind="stable")  # row * 8 + column -> lane, element

    def run(c: Cohort) -> None:
        place = givers(located, c, rows)
        values = to_bytes(np.ascontiguousarray(read(c)), op.src.dtype)
        halves = np.ascontiguousarray(values).view(np.uint16)
        nB, nW = halves.shape[:2]
        halves = halves.reshape(nB, nW, LANES, located.count, -1)
        halves = np.moveaxis(halves, 3, 2).reshape(nB, nW, located.count, -1)[..., back]
        matrix = halves.reshape(nB, nW, located.count, rows, 8)
        lines = np.zeros((nB, nW, LANES, located.count, 8), np.uint16)
        lines[:, :, :rows] = np.moveaxis(matrix, 2, 3)
        data = lines.reshape(nB, nW, LANES, -1).view(np.uint8)
        _write(located, place, c, from_bytes(data, op.dst.dtype))
        located.judge_write(c, place, whole=True)

    return run


# -- atomics


@handles(ops.Atomic)
def atomic(program: Program, op: ops.Atomic) -> Run:
    """Combine with memory, one thread after the other in the order of blocks, warps and lanes."""
    located, read = program.access(op.dst, op), program.reader(op.src, op)
    old = None if op.old is None else program.view(op.old)
    compare = None if op.compare is None else program.reader(op.compare, op)
    combine = _COMBINED.get(op.fn) or function(op.fn, op.dst.dtype)
    rounded = rounds(op)

    def run(c: Cohort) -> None:
        place = located(c)
        if located.smem:
            located.judge_write(c, place, atomic=True)
            if c.batch.releases is not None and place.blocks is None:
                chosen = c.active()[..., None] if place.active is None else place.active
                each = shared_places(c.span, located.start, place.offsets, chosen)
                c.batch.releases.update(each, old is not None)
        else:
            touch = located.judge_read(c, place)
            if touch is not None and c.batch.releases is not None:
                c.batch.releases.update(places_of(touch), old is not None)
        shape = (*c.span.shape, located.count * located.width)
        active = np.broadcast_to(
            True if place.active is None else _by_element(place.active, located), shape
        )
        given = [np.broadcast_to(read(c), shape)[active]]
        if compare is not None:
            given.append(np.broadcast_to(compare(c), shape)[active])
        data, index = _elements(located, c, place, active)
        if rounded and c.batch.report is not None:
            c.batch.report.adds(op, data, index)
        before = _combined(data, index, given, combine)
        if old is not None:
            result = np.zeros(shape, before.dtype)
            result[active] = before
            old.put(c, result, None if place.guard is None else active)

    return run


def _elements(located: Located, c: Cohort, place: Place, active: Array) -> tuple[Array, Array]:
    """Return the memory as one run of elements, and the element of each active thread."""
    offsets = place.offsets[..., None] + np.arange(located.width)
    offsets = offsets.reshape(*offsets.shape[:3], -1)
    if not located.smem:
        return located.writable(c).data, np.broadcast_to(offsets, active.shape)[active]
    whole = c.batch.smem.data.reshape(-1).view(numpy_type(located.dtype))
    size = whole.itemsize
    blocks = c.span.B[:, None, None, None] if place.blocks is None else place.blocks
    base = (blocks * c.batch.smem.data.shape[1] + located.start) // size
    return whole, np.broadcast_to(base + offsets, active.shape)[active]


def _exchanged(x: Array, value: Array, compare: Array) -> Array:
    """Return the values where x has the bits of `compare`, else x."""
    bits = [np.ascontiguousarray(y).view(f"u{y.dtype.itemsize}") for y in (x, compare)]
    return np.where(bits[0] == bits[1], value, x)


_COMBINED: dict[str, Callable[..., Array]] = {"exch": lambda x, y: y, "cas": _exchanged}


def _combined(
    data: Array, index: Array, given: list[Array], combine: Callable[..., Array]
) -> Array:
    """Combine values into data in order; return what each found."""
    before, rank = np.empty(index.shape, data.dtype), ranks(index)
    order = np.argsort(rank, kind="stable")  # the first of each element, the second of each, ...
    ends = np.cumsum(np.bincount(rank))
    for now in np.split(order, ends[:-1]):
        found = data[index[now]]
        before[now] = found
        data[index[now]] = combine(found, *[values[now] for values in given])
    return before


def ranks(index: Array) -> Array:
    """Return for each entry how many of the same number come before it."""
    order = np.argsort(index, kind="stable")
    ranked = index[order]
    starts = np.r_[True, ranked[1:] != ranked[:-1]][: len(ranked)]
    begin = np.maximum.accumulate(np.where(starts, np.arange(len(ranked)), 0))
    found = np.empty(len(ranked), np.int64)
    found[order] = np.arange(len(ranked)) - begin
    return found


# -- cp.async


@handles(ops.CpAsync)
def cp_async(program: Program, op: ops.CpAsync) -> Run:
    """Copy vectors of global memory to shared memory; what is read before CpWait is an error."""
    source, target = program.access(op.src, op), program.access(op.dst, op)
    zero_fill = op.src.fill is not None
    fill = numpy_type(op.src.dtype).type(op.src.fill or 0)

    def run(c: Cohort) -> None:
        read, write = source(c), target(c)
        source.judge_read(c, read, kind=COPY)
        values = source.load(c, read)
        if read.guard is not None:
            if zero_fill:
                values = np.where(_by_element(read.guard, source), values, fill)
            else:
                write = _narrowed(write, read.guard)
        if op.src.dtype is not op.dst.dtype:
            shape = (*c.span.shape, source.count * source.width)
            whole = np.ascontiguousarray(np.broadcast_to(values, shape))
            values = recast(whole, op.src.dtype, op.dst.dtype)
        _write(target, write, c, values)
        target.judge_write(c, write, COPY)

    return run


def _narrowed(place: Place, guard: Array) -> Place:
    """Return a place where a further guard holds."""
    active = guard if place.active is None else place.active & guard
    narrow = Place(place.offsets, guard, active)
    narrow.items = place.items
    return narrow


@handles(ops.CpCommit)
@handles(ops.BulkCommit)
def commit(program: Program, op: ops.CpCommit | ops.BulkCommit) -> Run:
    """Close a group of cp.async, or of TMA stores."""
    kinds = (COPY,) if isinstance(op, ops.CpCommit) else (BULK, BULK_WRITE)

    def run(c: Cohort) -> None:
        clocks = c.batch.clocks
        if clocks is not None:
            who = clocks.acting(c.span, c.mask)
            for kind in kinds:
                clocks.commit(who, kind)

    return run


@handles(ops.CpWait)
@handles(ops.BulkWait)
def wait(program: Program, op: ops.CpWait | ops.BulkWait) -> Run:
    """Wait for all but the latest n groups of cp.async, or of TMA stores."""
    kinds = (COPY,) if isinstance(op, ops.CpWait) else (BULK, BULK_WRITE)[: 2 - op.read]

    def run(c: Cohort) -> None:
        clocks = c.batch.clocks
        if clocks is not None:
            who = clocks.acting(c.span, c.mask)
            for kind in kinds:
                clocks.wait(who, kind, op.n)

    return run


# -- TMA: copies of boxes of a tensor

POISON = 0xFF  # the bytes of shared memory that a load leaves undefined: NaN, or -1


class Box:
    """A box of a tensor in global memory."""

    def __init__(self, program: Program, op: ops.TmaLoad | ops.TmaStore) -> None:
        self.op, self.name, box = op, op.tensor, op.box
        self.known: Global | None = None  # the last tensor that TMA can address
        coord = [program.scalar(x) for x in op.coord]
        self.coord = [(mode, coord[mode]) for mode in box.modes]
        n = len(box.extents)
        self.inside = np.indices(box.extents[::-1]).reshape(n, -1)[::-1]  # the first is the fastest
        self.order = np.fromiter(box.order(), np.int64)
        self.dtype, self.bytes = box.tile.dtype, box.bytes
        self.im2col = op.im2col if isinstance(op, ops.TmaLoad) else None
        self.offsets = [program.scalar(x) for x in getattr(op, "offsets", ())]
        guard = op.guard
        self.guard = (lambda c: True) if guard is None else program.condition(guard)

    def array(self, c: Cohort) -> Global:
        """Return the tensor of this run; refuse one that TMA cannot address."""
        array = c.batch.given.arrays[self.name].as_(self.dtype)
        if array is not self.known:
            extents, strides = (
                [x[mode] for mode, _ in self.coord] for x in (array.shape, array.strides)
            )
            sides = zip(extents[1:], strides[1:], strict=True)
            pitches = [stride * array.itemsize for extent, stride in sides if extent > 1]
            wrong = unreachable(extents, pitches, array.itemsize, array.address)
            if extents[0] > 1 and strides[0] != 1:
                wrong = f"a stride of {strides[0]} elements along mode {self.coord[0][0]}"
            if self.im2col is not None:
                corners = zip(extents[1:], self.im2col.lower, self.im2col.upper, strict=False)
                counts = [extent + upper - lower for extent, lower, upper in corners]
                if min(counts) < 1:
                    wrong = f"a bounding box of {counts} pixels: a filter that fits nowhere"
            if wrong:
                facts = {"name": self.name, "found": wrong}
                raise c.batch.faults.fault("emulate-map", self.op, **facts)
            self.known = array
        return array

    def copied(self, c: Cohort, where: tuple[int, int, int]) -> bool:
        """Return whether one thread copies the box."""
        return bool(value_at(self.guard(c), where, c.span.shape))

    def at(self, c: Cohort, where: tuple[int, int, int]) -> tuple[Array, Array]:
        """Return the elements of the box for one thread, and which lie in the tensor."""
        exists = np.ones(self.inside.shape[1], np.bool_)
        index, array = np.zeros(self.inside.shape[1], np.int64), self.array(c)
        starts = [value_at(coord(c), where, c.span.shape) for _, coord in self.coord]
        for start, (mode, _) in zip(starts, self.coord, strict=True):
            if not -MOST_EXTENT - 1 <= start <= MOST_EXTENT:
                facts = {"value": int(start), "mode": mode, "name": self.name}
                raise c.fault("emulate-coordinate", self.op, where, **facts)
        places = [x + inside for x, inside in zip(starts, self.inside, strict=True)]
        if self.im2col is not None:
            offsets = [value_at(x(c), where, c.span.shape) for x in self.offsets]
            shape = [array.shape[mode] for mode, _ in self.coord]
            places = [
                places[0],
                *pixels(self.im2col, shape[1:], starts[1:], offsets, self.inside[1]),
            ]
        for x, (mode, _) in zip(places, self.coord, strict=True):
            exists &= (x >= 0) & (x < array.shape[mode])
            index += x * array.strides[mode]
        return np.where(exists, index, 0), exists

    def judge(
        self,
        c: Cohort,
        where: tuple[int, int, int],
        index: Array,
        op: ops.TmaLoad | ops.TmaStore,
        agent: int = THREAD,
        who: int | None = None,
    ) -> None:
        """Refuse a read or a write of elements that nothing orders; by an engine."""
        watch = c.batch.globals
        region = None if watch is None else watch.regions.of.get(self.name)
        if watch is None or region is None:
            return
        array = self.array(c)
        g = (array.address - region.low + index * array.itemsize)[:, None] // region.granule
        g = (g + np.arange(array.itemsize // region.granule)).reshape(-1)
        thread = int(c.span.W[where[1]]) * LANES + where[2]
        ids = np.full(len(g), (int(c.span.B[where[0]]) << THREADS) | thread)
        touch = watch.touched(c.span, region, self.name, op, g, ids, agent, who)
        if touch is None:
            return
        if touch.kind == PLAIN and isinstance(op, ops.TmaStore):
            watch.write(touch)
        else:
            watch.access(touch)


def pixels(
    walk: ops.Im2col, shape: list[int], start: list[int], offsets: list[int], index: Array
) -> list[Array]:
    """Return the coordinates of pixels: of the spatial modes, the innermost first, and of N.

    Args:
        walk: the bounding box, and the steps in it.
        shape: the extents of these modes.
        start: the coordinates of pixel 0.
        offsets: what is added to the spatial ones.
        index: the numbers of the pixels.
    """
    found, left = [], index
    sides = zip(walk.lower, walk.upper, walk.step, shape, start, offsets, strict=False)
    for lower, upper, step, extent, first, offset in sides:
        count = (extent - 1 + upper - lower) // step + 1
        at = (first - lower) // step + left
        found.append(lower + at % count * step + offset)
        left = at // count
    return [*found, start[-1] + left]


@handles(ops.TmaLoad)
def tma_load(program: Program, op: ops.TmaLoad) -> Run:
    """Copy a box to shared memory of one or several blocks; its bytes complete the mbarrier."""
    target, bar = (
        program.access(op.box.tile, op, unit=op.box.period, counted=False),
        program.access(op.bar, op, unit=8, counted=False),
    )
    box, multicast = Box(program, op), program.scalar(op.multicast)
    alone = op.multicast.__class__ is int and op.multicast == 0

    def run(c: Cohort) -> None:
        place, at = target(c), bar(c)
        slots, engines, bars = slots_of(bar, c, at), c.batch.engines, c.batch.mbarriers
        offsets = np.broadcast_to(place.offsets, (*c.span.shape, target.count))
        chosen, data = multicast(c), box.array(c).data
        for where in threads_of(c, at):
            own, slot = int(c.span.B[where[0]]), int(slots[where])
            index, exists = box.at(c, where)
            values = np.zeros(len(index), data.dtype)
            if box.copied(c, where):
                box.judge(c, where, index[exists], op, who=c.batch.agents.tma + slot)
                values[box.order[exists]] = data[index[exists]]
            else:
                values.view(np.uint8)[:] = POISON
            ranks, ran = value_at(chosen, where, c.span.shape), None
            if bars.phases is not None:
                ran = bars.phases.issue(own, int(c.span.W[where[1]]), where[2])
            blocks = [own]
            if not alone:
                if not ranks:
                    raise c.fault("emulate-multicast", op, where, mask=op.multicast)
                bits = [r for r in range(64) if int(ranks) >> r & 1]
                blocks = [c.peer(op, where, r) for r in bits]
            for b in blocks:
                bars.use(op, c.span, where, 1 << where[2], (b, slot), tma=True)
                agent = c.batch.agents.tma + slot
                other = None if b == own else b
                if engines is not None:
                    engines.touch(op, c.span, target, where, offsets[where], agent, True, other)
                    if other is not None:
                        engines.reach(op, c.span, where, b, agent)
                if bars.phases is not None:
                    bars.phases.load(op, c.span, where, (b, slot))
                _put(c, target, b, offsets[where], values)
                bars.land(b, slot, box.bytes, ran)
                if c.batch.report is not None:
                    c.batch.report.moved(op, box.bytes)

    return run


def _put(c: Cohort, located: Located, b: int, offsets: Array, values: Array) -> None:
    memory = c.batch.smem.data[b].view(numpy_type(located.dtype))
    first = located.start // memory.itemsize
    each = first + offsets.reshape(-1, 1) + np.arange(located.width)
    memory[each.reshape(-1)] = values


@handles(ops.TmaStore)
def tma_store(program: Program, op: ops.TmaStore) -> Run:
    """Copy shared memory to a box, or combine it with what is there."""
    source = program.access(op.box.tile, op, unit=op.box.period, counted=False)
    box = Box(program, op)
    combine: Callable[..., Array] | None = function(op.reduce, box.dtype) if op.reduce else None

    def run(c: Cohort) -> None:
        place, engines = source(c), c.batch.engines
        offsets = np.broadcast_to(place.offsets, (*c.span.shape, source.count))
        for where in threads_of(c, place):
            if not box.copied(c, where):
                continue
            b, w = int(c.span.B[where[0]]), int(c.span.W[where[1]])
            index, exists = box.at(c, where)
            agent = BULK * c.batch.agents.threads + w * LANES + where[2]
            if engines is not None:
                engines.touch(op, c.span, source, where, offsets[where], agent, False)
            memory = c.batch.smem.data[b].view(numpy_type(source.dtype))
            each = source.start // memory.itemsize + offsets[where].reshape(-1, 1)
            values = memory[(each + box.order).reshape(-1)][exists]
            at = index[exists]
            if c.batch.report is not None:
                c.batch.report.moved(op, box.bytes)
            array = box.array(c)
            if not array.writable:
                raise c.batch.faults.fault("emulate-read-only", op, storage=op.tensor)
            data = array.data
            if rounds(op) and c.batch.report is not None:
                c.batch.report.adds(op, data, at)
            result = values if combine is None else combine(data[at], values)
            box.judge(c, where, at, op, agent=BULK_WRITE)
            data[at] = result

    return run
