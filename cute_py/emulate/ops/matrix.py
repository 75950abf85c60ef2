"""Matrix instructions of threads, warps and warpgroups, all of a cohort and all steps at once.

What one instruction computes: the products of a row of A and a column of B and their sum over the
instruction's K in float64 (integers: exactly), added to C in float64, and rounded once, to nearest
even, to the type of D. Hardware sums in an order of its own and with fewer bits; where all products
and sums are integers that the types hold, both are exact. The lane maps are the atom's.

The numbers of `Wgmma`, whose results count after WgWait, are those of `Mma`. A tile in shared
memory is read through the offsets of its access, in the colexicographic order of the atom's (M or
N, K); the fields of the descriptor are for the GPU alone. An instruction is executed when it is
issued.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.conversion import convert
from cute_py.dtypes.table import Dtype, f32
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.clocks import through
from cute_py.emulate.cohorts import Cohort, Run
from cute_py.emulate.divergence import are_groups
from cute_py.emulate.numerics import fma, numeric, widened
from cute_py.emulate.ops.order import of_whole_warps, require_warps
from cute_py.emulate.program import Program, handles
from cute_py.emulate.registers import View, selection
from cute_py.emulate.spans import LANES, Array
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Reg

WARPS = 4  # of a warpgroup
THREADS = WARPS * LANES
Steps = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Round:
    """Steps with different fragments of D, that can run at once: all pairs of `js` and `ks`, or,
    where `grid` is False, the steps one after the other.
    """

    js: tuple[int, ...]
    ks: tuple[int, ...]
    ds: tuple[int, ...]  # of a grid: fragment for j * len(ks) + k
    grid: bool


@lru_cache(maxsize=256)
def rounds(steps: Steps) -> tuple[Round, ...]:
    """Return the steps in rounds, those for one fragment of D in their order."""
    seen: dict[int, int] = {}
    groups: dict[int, list[tuple[int, int, int]]] = {}
    for step in steps:
        rank = seen[step[0]] = seen.get(step[0], -1) + 1
        groups.setdefault(rank, []).append(step)
    found = []
    for group in groups.values():
        js, ks = (
            tuple(dict.fromkeys(s[1] for s in group)),
            tuple(dict.fromkeys(s[2] for s in group)),
        )
        pairs = {(j, k): i for i, j, k in group}
        if len(group) == len(js) * len(ks) == len(pairs):
            found.append(Round(js, ks, tuple(pairs[j, k] for j in js for k in ks), True))
            continue
        columns = zip(*group, strict=True)
        i, j, k = (tuple(column) for column in columns)
        found.append(Round(j, k, i, False))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """Where a warp's registers hold the tiles of an atom, for each group of threads.

    Attributes:
        groups: threads [group, thread of the atom] as lanes.
        a: [group, M, K] -> lane * values + value, for A; b: [group, N, K] for B.
        c: [lane, value] -> group, m * N + n of C, as one number.
    """

    groups: Array
    a: Array
    b: Array
    c: Array
    values: tuple[int, int, int]


@lru_cache(maxsize=64)
def lanes_of(atom: MMA_Atom) -> Lanes:
    """Return the lane maps of an atom of one warp, or of a part of it."""
    M, N, K = atom.shape_mnk
    threads = np.array(atom.threads)
    groups, free = [], set(range(LANES))
    while free:
        group = min(free) + threads
        free -= set(group.tolist())
        groups.append(group)
    lanes = np.array(groups)
    grids, values = [atom.table(operand) for operand in "abc"], atom.values
    inverse = []
    for grid, rows, n in zip(grids[:2], (M, N), values, strict=False):
        held = np.zeros((len(groups), rows * K), np.int64)
        for v in range(n):
            held[:, grid[:, v]] = lanes * n + v
        inverse.append(held.reshape(len(groups), K, rows).swapaxes(1, 2))
    c = np.empty((LANES, values[2]), np.int64)
    m, n = grids[2] % M, grids[2] // M
    for g, group in enumerate(lanes):
        c[group] = g * M * N + m * N + n
    return Lanes(lanes, inverse[0], inverse[1], c, values)


@handles(ops.Mma)
def mma(program: Program, op: ops.Mma) -> Run:
    """Multiply and accumulate."""
    atom = op.atom
    if atom.num_threads == 1:
        return _mma_of_thread(program, op)
    a, b = program.reader(op.a, op), program.reader(op.b, op)
    d, read_d = program.view(op.d), program.reader(op.d, op)
    products = [(tuple(sorted(r.ds)), _product(atom, r)) for r in rounds(op.steps)]
    n = atom.values[2]

    def run(c: Cohort) -> None:
        require_warps(op, c)
        left, right = a(c), b(c)
        total = read_d(c)
        for ds, product in products:
            sums = product(left, right)  # block, warp, lane, fragment of the round, value
            after = accumulated(_fragments(total, ds, n), sums, atom)
            if len(ds) * n == total.shape[-1]:
                total = after.reshape(total.shape)
            else:
                total = np.array(total)
                whole = total.reshape(*total.shape[:3], -1, n)
                whole[:, :, :, list(ds)] = after
        d.put(c, total)

    return run


def _fragments(values: Array, which: tuple[int, ...], n: int) -> Array:
    parts = values.reshape(*values.shape[:3], -1, n)
    if which == tuple(range(parts.shape[3])):
        return parts
    return parts[:, :, :, list(which)]


def _product(atom: MMA_Atom, r: Round) -> Any:
    """Return the function that gives the sums of products of a round in the order of C's
    registers: [block, warp, lane, fragment, value], fragments of D ascending.
    """
    M, N, K = atom.shape_mnk
    lanes = lanes_of(atom)
    va, vb, _ = lanes.values
    G = len(lanes.groups)
    J, I, order = len(r.js), len(r.ks), np.argsort(r.ds)  # noqa: E741

    def index(table: Array, which: tuple[int, ...], n: int, total: int) -> Array:
        lane, v = table // n, table % n  # group, row, k
        each = [lane * total + j * n + v for j in which]
        return np.stack(each, 1)  # group, fragment, row, k

    tables: dict[tuple[int, int], tuple[Array, Array, Array]] = {}

    def tabled(na: int, nb: int) -> tuple[Array, Array, Array]:
        if (na, nb) not in tables:
            ia = index(lanes.a, r.js, va, na)
            ib = index(lanes.b, r.ks, vb, nb)
            g, mn = lanes.c // (M * N), lanes.c % (M * N)
            m, n = mn // N, mn % N
            if r.grid:
                j, k = np.divmod(order, I)
                rows = J * M, I * N
                m = j[None, :, None] * M + m[:, None]
                n = k[None, :, None] * N + n[:, None]
                back = (g[:, None] * rows[0] + m) * rows[1] + n
                ia = ia.reshape(G, J * M, K)
                ib = ib.reshape(G, I * N, K)
            else:
                step = order[None, :, None]
                back = ((g[:, None] * J + step) * M + m[:, None]) * N + n[:, None]
            tables[na, nb] = ia, ib, back
        return tables[na, nb]

    def product(left: Array, right: Array) -> Array:
        ia, ib, back = tabled(left.shape[-1], right.shape[-1])
        shape = left.shape[:2]
        x = numbers(left, atom.a_type).reshape(*shape, -1).take(ia, axis=2)
        y = numbers(right, atom.b_type).reshape(*shape, -1).take(ib, axis=2)
        sums = multiplied(x, y, atom)
        return sums.reshape(*shape, -1).take(back, axis=2)

    return product


def numbers(values: Array, dtype: Dtype) -> Array:
    """Return operands as float64, which holds all narrow types and the products' sums."""
    return numeric(values, dtype) if dtype.is_float else values.astype(np.float64)


def multiplied(x: Array, y: Array, atom: MMA_Atom) -> Array:
    """Return the sums over k, exact for integers: they are far below 2**53."""
    if atom.scale_a * atom.scale_b < 0:
        x = -x
    sums: Array = x @ y.swapaxes(-1, -2)
    if atom.operation == "xor.popc":
        sums = x.sum(-1)[..., :, None] + y.sum(-1)[..., None, :] - 2 * sums
    return sums


def accumulated(before: Array, sums: Array, atom: MMA_Atom) -> Array:
    """Return C + sums, rounded once to the type of D; integers wrap or saturate."""
    if atom.d_type.is_float:
        if atom.c_type is f32 or atom.c_type.bits == 64:
            sums += before
        else:
            sums += widened(before, atom.c_type)
        if atom.d_type.bits >= 16 and atom.d_type.name != "bf16":
            return sums.astype(numpy_type(atom.d_type))
        return np.asarray(convert(sums, atom.d_type))
    total = before.astype(np.int64) + sums.astype(np.int64)
    if atom.saturate:
        total = np.clip(total, int(atom.d_type.min), int(atom.d_type.max))
    return total.astype(numpy_type(atom.d_type))


def _mma_of_thread(program: Program, op: ops.Mma) -> Run:
    """Compile an atom of one thread: a multiply-add for each step."""
    atom = op.atom
    if atom.shape_mnk != (1, 1, 1):
        return _dot_of_thread(program, op)
    a, b, d = program.reader(op.a, op), program.reader(op.b, op), program.view(op.d)
    read_d = program.reader(op.d, op)
    each = rounds(op.steps)
    floating = atom.d_type.is_float

    def run(c: Cohort) -> None:
        left, right = (
            (widened(a(c), atom.a_type), widened(b(c), atom.b_type)) if floating else (a(c), b(c))
        )
        total = read_d(c)
        for r in each:
            js, ks, ds = selection(r.js), selection(r.ks), selection(r.ds)
            x, y = left[..., js], right[..., ks]
            if r.grid:
                x, y = x[..., :, None], y[..., None, :]
            before = total[..., ds]
            shape = before.shape
            before = before.reshape(*shape[:-1], len(r.js), -1) if r.grid else before
            after = _multiply_add(x, y, before, atom).reshape(shape)
            if len(r.ds) == total.shape[-1] and isinstance(ds, slice):
                total = after
            else:
                total = np.array(total)
                total[..., ds] = after
        d.put(c, total)

    return run


def _multiply_add(x: Array, y: Array, before: Array, atom: MMA_Atom) -> Array:
    if atom.d_type.is_float:
        return fma(x, y, widened(before, atom.c_type), atom.d_type)
    held = numpy_type(atom.d_type)
    return np.asarray(x.astype(held) * y.astype(held) + before.astype(held))


def _dot_of_thread(program: Program, op: ops.Mma) -> Run:
    """Compile an atom of one thread with several products, such as dp4a."""
    atom = op.atom
    a, b, d = program.reader(op.a, op), program.reader(op.b, op), program.view(op.d)
    read_d = program.reader(op.d, op)
    M, N, K = atom.shape_mnk

    order = {operand: np.argsort(atom.table(operand)[0]) for operand in "ab"}
    (place_c,) = atom.table("c")

    def fragment(values: Array, k: int, rows: int, operand: str) -> Array:
        own = values[..., k * rows * K : (k + 1) * rows * K]
        return own[..., order[operand]].reshape(*own.shape[:-1], K, rows).swapaxes(-1, -2)

    def run(c: Cohort) -> None:
        left, right, total = numbers(a(c), atom.a_type), numbers(b(c), atom.b_type), None
        total = np.array(read_d(c))
        for i, j, k in op.steps:
            sums = multiplied(fragment(left, j, M, "a"), fragment(right, k, N, "b"), atom)
            sums = sums[..., place_c % M, place_c // M]
            part = slice(i * M * N, (i + 1) * M * N)
            total[..., part] = accumulated(total[..., part], sums, atom)
        d.put(c, total)

    return run


# -- of warpgroups


@lru_cache(maxsize=64)
def tables(atom: MMA_Atom) -> tuple[Array, Array]:
    """Return [M, K] -> thread * values + value of A, and [thread, value] -> m * N + n of C."""
    M, N, K = atom.shape_mnk
    a = atom.table("a")
    held = np.zeros(M * K, np.int64)
    if atom.a_memory == "rmem":
        held[a] = np.arange(a.size).reshape(a.shape)
    c = atom.table("c")
    return held.reshape(K, M).T, c % M * N + c // M


@handles(ops.Wgmma)
def wgmma(program: Program, op: ops.Wgmma) -> Run:
    """Multiply and accumulate; accumulators and A in registers are in flight until WgWait."""
    atom = op.atom
    M, N, _ = atom.shape_mnk
    place_a, place_c = tables(atom)
    d = program.view(op.d)
    n = place_c.shape[1]
    from_a = _operand(program, op, op.a, M, place_a)
    from_b = _operand(program, op, op.b, N, place_a)
    left = [program.view(op.a)] if isinstance(op.a, Reg) else []
    held = [*[(view, np.zeros(1, np.int32)) for view in left], (d, _role(atom.shape_mnk, d, n))]
    given = op.accumulate
    accumulate = (lambda c: given) if isinstance(given, bool) else program.condition(given)
    for view, _ in held:
        view.storage.watch()

    def run(c: Cohort) -> None:
        _require_groups(op, c)
        for view, role in held:
            view.require_landed(c, role)
            unfenced = view.unfenced(c)
            if unfenced is not None:
                row, warp = (int(k) for k in np.argwhere(unfenced)[0])
                raise c.fault("emulate-wgmma-fence", op, (row, warp), registers=view.reg)
        fragment_a, fragment_b = from_a(c), from_b(c)
        groups = c.span.nB, c.span.nW // WARPS
        total = np.array(d.raw(c)).reshape(*groups, THREADS, -1)
        kept = np.broadcast_to(np.asarray(accumulate(c)), c.span.shape).reshape(*groups, THREADS)
        _require_agreement(op, c, kept)
        for i in {i for i, _, _ in op.steps}:
            total[~kept, i * n : (i + 1) * n] = 0
        if "registers" in program.checks and kept.any():
            d.require_written(c, op, kept.reshape(c.span.shape))
        for i, j, k in op.steps:
            sums = multiplied(fragment_a(j), fragment_b(k), atom)
            part = slice(i * n, (i + 1) * n)
            sums = sums.reshape(*groups, -1)[..., place_c]
            total[..., part] = accumulated(total[..., part], sums, atom)
        d.put_raw(c, total.reshape(*c.span.shape, -1))
        _fly(c, held)

    return of_whole_warps(run)


def _operand(
    program: Program, op: ops.Wgmma, source: Reg | ops.Tile, rows: int, place: Array
) -> Callable[[Cohort], Callable[[int], Array]]:
    """Compile an operand: a function of a cohort that gives fragments [block, group, row, K]."""
    K = op.atom.shape_mnk[2]
    if isinstance(source, Reg):
        view = program.view(source)
        n = place.size // THREADS

        def registers(c: Cohort) -> Callable[[int], Array]:
            if "registers" in program.checks:
                view.require_written(c, op)
            values = numbers(np.ascontiguousarray(view.raw(c)), source.dtype)
            values = values.reshape(c.span.nB, c.span.nW // WARPS, THREADS, -1)
            lane, v = place // n, place % n
            return lambda j: values[:, :, lane, j * n + v]

        return registers
    located, tile = program.access(source.access, op, counted=False), source.access

    def shared(c: Cohort) -> Callable[[int], Array]:
        place = located(c)
        every = np.broadcast_to(place.offsets, (*c.span.shape, located.count))
        if place.offsets[..., 0].size > 1:  # one descriptor for all threads
            _require_one_address(op, c, tile, every[..., :: rows * K])
        offsets = every[:, ::WARPS, 0]
        engines = c.batch.engines
        if c.batch.shadow is not None and engines is not None:
            for b in range(c.span.nB):
                for warp in range(c.span.nW):  # each of them must know what it reads
                    agent = c.batch.agents.wgmma + int(c.span.W[warp]) // WARPS
                    issue, held = (b, warp, 0), offsets[b, warp // WARPS]
                    engines.touch(op, c.span, located, issue, held, agent, False, lane=False)
        memory = c.batch.smem.data.view(numpy_type(tile.dtype))
        first = located.start // memory.itemsize
        index = (first + offsets[..., None] + np.arange(tile.width)).reshape(
            *offsets.shape[:2], -1, K, rows
        )
        blocks = c.span.B[:, None, None, None]

        def fragment(j: int) -> Array:
            values = memory[blocks, index[:, :, j]]
            return numbers(values, tile.dtype).swapaxes(-1, -2)

        return fragment

    return shared


def _require_groups(op: ops.Op, c: Cohort) -> None:
    """Refuse a warpgroup instruction that part of a warpgroup executes."""
    require_warps(op, c)
    if not are_groups(c.span.W):
        raise c.fault("emulate-warp-divergent", op, (0, 0), name=op.call)


def _require_agreement(op: ops.Wgmma, c: Cohort, kept: Array) -> None:
    """Refuse a condition on which the threads of a warpgroup do not agree."""
    differs = kept != kept[..., :1]
    if differs.any():
        row, group, thread = (int(k) for k in np.argwhere(differs)[0])
        where = row, group * WARPS + thread // LANES, thread % LANES
        value = bool(kept[row, group, thread])
        raise c.fault("emulate-wgmma-start", op, where, condition=op.accumulate, value=value)


def _require_one_address(op: ops.Wgmma, c: Cohort, tile: Access, starts: Array) -> None:
    """Refuse an operand whose fragments begin at other places in some threads of a warpgroup.
    Source: PTX ISA, wgmma.mma_async, "Matrix descriptor".
    """
    by_group = starts.reshape(c.span.nB, -1, THREADS, starts.shape[-1])
    differs = by_group != by_group[:, :, :1]
    if differs.any():
        row, group, thread, i = (int(k) for k in np.argwhere(differs)[0])
        where = row, group * WARPS + thread // LANES, thread % LANES
        found, first = (int(by_group[row, group, k, i]) for k in (thread, 0))
        facts = {"name": tile.storage, "found": found, "first": first}
        raise c.fault("emulate-wgmma-address", op, where, **facts)


def _columns_of(c: Cohort, W: Array) -> Array:
    """Return the columns of clocks for the wgmmas of warps."""
    assert c.batch.clocks is not None
    columns: Array = c.batch.clocks.column[c.batch.agents.wgmma + W // WARPS]
    return columns


def _role(shape: tuple[int, int, int], d: View, values: int) -> Array:
    """Return what registers are to an instruction that adds to `values` of them [unit]: those of
    the same shape may follow each other, one register in one place, without a wait. Source: PTX
    ISA, wgmma.fence ("accumulator register accesses across multiple ... of the same shape").
    """
    _m, n, k = shape  # at most 256, as the registers of a fragment
    each = values * d.unit_count // d.count
    role: Array = (n << 20 | k << 10) + np.arange(d.unit_count) % each
    return role


def _fly(c: Cohort, views: list[tuple[View, Array]]) -> None:
    """Remember that registers are in flight."""
    clocks = c.batch.clocks
    if clocks is None:
        return
    clocks.apart()
    group = clocks.epoch[c.span.B[:, None], _columns_of(c, c.span.W)]
    for view, role in views:
        view.fly(c, group, role)
    if c.batch.mbarriers.phases is not None:
        who = clocks.acting(c.span, c.mask)
        clocks.run_together(who, who.rows * c.batch.agents.warps + clocks.warp[who.parts] // WARPS)


@handles(ops.WgFence)
def wg_fence(program: Program, op: ops.WgFence) -> Run:
    """Order register accesses before the Wgmmas that follow."""

    def run(c: Cohort) -> None:
        _require_groups(op, c)
        for storage in c.batch.registers.values():
            if storage.dirty is not None:
                storage.dirty[c.span.key] = False

    return of_whole_warps(run)


@handles(ops.WgCommit)
def wg_commit(program: Program, op: ops.WgCommit) -> Run:
    """Close a group of Wgmmas."""

    def run(c: Cohort) -> None:
        _require_groups(op, c)
        clocks = c.batch.clocks
        if clocks is not None:
            clocks.apart()
            clocks.epoch[c.span.B[:, None], _columns_of(c, c.span.W[::WARPS])] += 1

    return of_whole_warps(run)


@handles(ops.WgWait)
def wg_wait(program: Program, op: ops.WgWait) -> Run:
    """Wait for all but the latest n groups of Wgmmas; the registers `after` must have values."""
    read = None if op.after is None else program.reader(op.after, op)

    def run(c: Cohort) -> None:
        _require_groups(op, c)
        if read is not None:
            read(c)
        clocks = c.batch.clocks
        if clocks is not None:
            clocks.apart()
            who = clocks.acting(c.span, c.mask)
            column = _columns_of(c, clocks.warp[who.parts])
            bound = through(clocks.epoch[who.rows, column] - 1 - op.n)
            rank = clocks.rank[who.rows] if clocks.clock.shape[2] > 1 else 0
            at = who.rows, who.parts, rank, 0, column
            clocks.clock[at] = np.maximum(clocks.clock[at], bound)

    return of_whole_warps(run)
