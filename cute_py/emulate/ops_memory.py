"""Memory ops of the threads: loads, stores, matrices, atomics, cp.async."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.atoms.copy import Copy_Op
from cute_py.emulate.access import Located, Place
from cute_py.emulate.bits import from_bytes, numpy_type, recast, to_bytes
from cute_py.emulate.build import Build, Run, handles
from cute_py.emulate.faults import first
from cute_py.emulate.numerics import function
from cute_py.emulate.spans import LANES, Array, Cohort
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.emulate.registers import View


@handles(ops.Load)
def load(build: Build, op: ops.Load) -> Run:
    """Load vectors to registers."""
    located, dst = build.access(op.src, op), build.view(op.dst)
    shadow = build.shadow if located.smem else None
    own, target, fill = op.src.dtype, op.dst.dtype, op.src.fill

    def run(c: Cohort) -> None:
        place = located(c)
        if shadow is not None:
            shadow.read(c, located, place)
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
def store(build: Build, op: ops.Store) -> Run:
    """Store registers to vectors."""
    located, read = build.access(op.dst, op), build.reader(op.src, op)
    shadow = build.shadow if located.smem else None
    own, target = op.src.dtype, op.dst.dtype

    def run(c: Cohort) -> None:
        place = located(c)
        values = read(c)
        if own is not target:
            values = recast(np.ascontiguousarray(values), own, target)
        _write(build, located, place, c, values)
        if shadow is not None:
            shadow.write(c, located, place)

    return run


def _write(build: Build, located: Located, place: Place, c: Cohort, values: Array) -> None:
    """Write values, and refuse where lanes of one warp write different ones to one address."""
    written = located.store(c, place, values)
    if not build.checks or not located.smem or located.packed:
        return
    items = np.broadcast_to(place.items, written.shape)
    now = located.take(c, items, located.nbytes)
    same = now.view(np.uint8) == np.ascontiguousarray(written).view(np.uint8)
    if same.all():
        return
    differs = ~same.reshape(*written.shape, -1).all(-1)
    if place.active is not None:
        differs &= place.active
    for where in np.argwhere(differs):
        b, w, lane, v = (int(i) for i in where)
        mine = items[b, w] == items[b, w, lane, v]
        if place.active is not None:
            mine = mine & np.broadcast_to(place.active, written.shape)[b, w]
        mine[lane, v] = False
        if mine.any():
            other = int(np.argwhere(mine)[-1][0])
            offset = int(np.broadcast_to(place.offsets, written.shape)[b, w, lane, v])
            raise build.faults.at(
                "emulate-lanes",
                located.op,
                c,
                (b, w, lane),
                other=other,
                storage=located.access.storage,
                offset=offset,
            )


@handles(ops.Prefetch)
def prefetch(build: Build, op: ops.Prefetch) -> Run:
    """Change nothing: a prefetch of any address is allowed."""
    return lambda c: None


# -- ldmatrix and stmatrix


def _rows(atom: Copy_Op, side: str) -> tuple[Array, int]:
    """Return for each lane and 16-bit element of its registers row * 8 + column, and the rows."""
    bits = atom.table(side)[:, ::16] // 16
    return bits, int(bits.max()) // 8 + 1


@handles(ops.LdMatrix)
def ldmatrix(build: Build, op: ops.LdMatrix) -> Run:
    """Load 8x8 matrices; lanes 0 to 8n-1 give the addresses of rows."""
    located, dst = build.access(op.src, op, unit=16), build.view(op.dst)
    shadow = build.shadow
    place_of, rows = _rows(op.atom, "dst")
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
        place = _givers(build, located, c, rows)
        if shadow is not None:
            shadow.read(c, located, place)
        data = np.ascontiguousarray(located.take(c, items(place), size)).view(np.uint8)
        dst.put(c, from_bytes(data, op.dst.dtype))

    return run


def _givers(build: Build, located: Located, c: Cohort, rows: int) -> Place:
    """Return the place of a matrix instruction, whose addresses come from the first lanes alone."""
    require_warps(build, located.op, c)
    if rows == LANES:
        return located(c)
    key = located, "givers", tuple(c.env[n] for n in located.names or ())
    found = c.span.cache.get(key) if located.names == () else None
    if found is None:
        mask, lanes = c.mask, np.arange(LANES).reshape(1, 1, LANES) < rows
        try:
            c.mask = lanes
            found = located(c)
        finally:
            c.mask = mask
        found.active = np.broadcast_to(lanes[..., None], (1, 1, LANES, 1))
        if located.names == ():
            c.span.cache[key] = found
    return found


def require_warps(build: Build, op: ops.Op, c: Cohort) -> None:
    """Refuse a warp instruction under a mask of lanes."""
    if c.mask is not None and not c.mask.all():
        raise build.faults.at("emulate-warp-divergent", op, c, first(~c.mask, c), name=_name(op))


def _name(op: ops.Op) -> str:
    return type(op).__name__


@handles(ops.StMatrix)
def stmatrix(build: Build, op: ops.StMatrix) -> Run:
    """Store 8x8 matrices: the inverse of ldmatrix."""
    located, read = build.access(op.dst, op, unit=16), build.reader(op.src, op)
    shadow = build.shadow
    place_of, rows = _rows(op.atom, "src")
    back = np.argsort(place_of.reshape(-1), kind="stable")  # row * 8 + column -> lane, element

    def run(c: Cohort) -> None:
        place = _givers(build, located, c, rows)
        values = to_bytes(np.ascontiguousarray(read(c)), op.src.dtype)
        halves = np.ascontiguousarray(values).view(np.uint16)
        nB, nW = halves.shape[:2]
        halves = halves.reshape(nB, nW, LANES, located.count, -1)
        halves = np.moveaxis(halves, 3, 2).reshape(nB, nW, located.count, -1)[..., back]
        matrix = halves.reshape(nB, nW, located.count, rows, 8)
        lines = np.zeros((nB, nW, LANES, located.count, 8), np.uint16)
        lines[:, :, :rows] = np.moveaxis(matrix, 2, 3)
        data = lines.reshape(nB, nW, LANES, -1).view(np.uint8)
        _write(build, located, place, c, from_bytes(data, op.dst.dtype))
        if shadow is not None:
            shadow.write(c, located, place)

    return run


# -- atomics


@handles(ops.Atomic)
def atomic(build: Build, op: ops.Atomic) -> Run:
    """Combine with memory, one thread after the other in the order of blocks, warps and lanes."""
    located, read = build.access(op.dst, op), build.reader(op.src, op)
    old = None if op.old is None else build.view(op.old)
    shadow = build.shadow if located.smem else None
    combine = (lambda x, y: y) if op.fn == "exch" else function(op.fn, op.dst.dtype)

    def run(c: Cohort) -> None:
        place = located(c)
        if shadow is not None:
            shadow.write(c, located, place, atomic=True)
        shape = (*c.span.shape, located.count * located.width)
        active = np.broadcast_to(
            True if place.active is None else _by_element(place.active, located), shape
        )
        values = np.broadcast_to(read(c), shape)[active]
        data, index = _elements(build, located, c, place, active)
        before = _combined(data, index, values, combine)
        if old is not None:
            result = np.zeros(shape, before.dtype)
            result[active] = before
            old.put(c, result, None if place.guard is None else active)

    return run


def _elements(
    build: Build, located: Located, c: Cohort, place: Place, active: Array
) -> tuple[Array, Array]:
    """Return the memory as one run of elements, and the element of each active thread."""
    offsets = place.offsets[..., None] + np.arange(located.width)
    offsets = offsets.reshape(*offsets.shape[:3], -1)
    if not located.smem:
        if not located.array.writable:
            raise build.faults.fault(
                "emulate-read-only", located.op, storage=located.access.storage
            )
        return located.array.data, np.broadcast_to(offsets, active.shape)[active]
    whole = build.smem.data.reshape(-1).view(numpy_type(located.dtype))
    size = whole.itemsize
    base = (c.span.B * build.smem.stride + located.start)[:, None, None, None] // size
    return whole, np.broadcast_to(base + offsets, active.shape)[active]


def _combined(data: Array, index: Array, values: Array, combine: object) -> Array:
    """Combine values into data in order; return what each found."""
    assert callable(combine)
    before = np.empty(index.shape, data.dtype)
    order = np.argsort(index, kind="stable")
    ranked = index[order]
    starts = np.r_[True, ranked[1:] != ranked[:-1]] if len(ranked) else np.zeros(0, np.bool_)
    begin = np.maximum.accumulate(np.where(starts, np.arange(len(ranked)), 0))
    rank = np.arange(len(ranked)) - begin
    for r in range(int(rank.max(initial=-1)) + 1):
        now = order[rank == r]
        found = data[index[now]]
        before[now] = found
        data[index[now]] = combine(found, values[now])
    return before


# -- cp.async


@handles(ops.CpAsync)
def cp_async(build: Build, op: ops.CpAsync) -> Run:
    """Copy vectors of global memory to shared memory; what is read before CpWait is an error."""
    source, target = build.access(op.src, op), build.access(op.dst, op)
    shadow = build.shadow
    zero_fill = op.src.fill is not None
    fill = numpy_type(op.src.dtype).type(op.src.fill or 0)

    def run(c: Cohort) -> None:
        read, write = source(c), target(c)
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
        _write(build, target, write, c, values)
        if shadow is not None:
            shadow.write(c, target, write, engine=build.warps)

    return run


def _narrowed(place: Place, guard: Array) -> Place:
    """Return a place where a further guard holds."""
    active = guard if place.active is None else place.active & guard
    narrow = Place(place.offsets, guard, active)
    narrow.items = place.items
    return narrow


@handles(ops.CpCommit)
def cp_commit(build: Build, op: ops.CpCommit) -> Run:
    """Close a group."""
    shadow = build.shadow
    if shadow is None:
        return lambda c: None
    return shadow.commit


@handles(ops.CpWait)
def cp_wait(build: Build, op: ops.CpWait) -> Run:
    """Wait for all but the latest n groups."""
    shadow = build.shadow
    if shadow is None:
        return lambda c: None
    return lambda c: shadow.wait(c, op.n)
