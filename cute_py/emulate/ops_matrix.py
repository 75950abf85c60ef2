"""`Mma`: matrix instructions of threads and warps, all of a cohort and all steps at once.

What one instruction computes: the products of a row of A and a column of B and their sum over the
instruction's K in float64 (integers: exactly), added to C in float64, and rounded once, to nearest
even, to the type of D. Hardware sums in an order of its own and with fewer bits; where all products
and sums are integers that the types hold, both are exact. The lane maps are the atom's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.conversion import convert
from cute_py.dtypes.table import Dtype, f32
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.build import Build, Run, handles
from cute_py.emulate.numerics import fma, numeric, widened
from cute_py.emulate.ops_memory import require_warps
from cute_py.emulate.spans import LANES, Array, Cohort
from cute_py.plan import ops

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
def mma(build: Build, op: ops.Mma) -> Run:
    """Multiply and accumulate."""
    atom = op.atom
    if atom.num_threads == 1:
        return _mma_of_thread(build, op)
    a, b = build.reader(op.a, op), build.reader(op.b, op)
    d, read_d = build.view(op.d), build.reader(op.d, op)
    products = [_product(atom, r) for r in rounds(op.steps)]
    n = lanes_of(atom).values[2]

    def run(c: Cohort) -> None:
        require_warps(build, op, c)
        left, right = a(c), b(c)
        total = read_d(c)
        for r, product in zip(rounds(op.steps), products, strict=True):
            sums = product(left, right)  # block, warp, lane, fragment of the round, value
            before = _fragments(total, r.ds, n)
            after = accumulated(before, sums, atom)
            if len(r.ds) * n == total.shape[-1] and r.ds == tuple(range(len(r.ds))):
                total = after.reshape(total.shape)
            else:
                total = np.array(total)
                whole = total.reshape(*total.shape[:3], -1, n)
                whole[:, :, :, list(r.ds)] = after
        d.put(c, total)

    return run


def _fragments(values: Array, which: tuple[int, ...], n: int) -> Array:
    parts = values.reshape(*values.shape[:3], -1, n)
    if which == tuple(range(parts.shape[3])):
        return parts
    return parts[:, :, :, list(which)]


def _product(atom: MMA_Atom, r: Round) -> Any:  # noqa: ANN401
    """Return the function that gives the sums of products of a round in the order of C's
    registers: [block, warp, lane, fragment, value].
    """
    M, N, K = atom.shape_mnk
    lanes = lanes_of(atom)
    va, vb, _ = lanes.values
    G = len(lanes.groups)
    J, I = len(r.js), len(r.ks)  # noqa: E741

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
                j, k = np.divmod(np.arange(J * I), I)
                rows = J * M, I * N
                m = j[None, :, None] * M + m[:, None]
                n = k[None, :, None] * N + n[:, None]
                back = (g[:, None] * rows[0] + m) * rows[1] + n
                ia = ia.reshape(G, J * M, K)
                ib = ib.reshape(G, I * N, K)
            else:
                step = np.arange(J)[None, :, None]
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


def _mma_of_thread(build: Build, op: ops.Mma) -> Run:
    """Compile an atom of one thread: a multiply-add for each step."""
    atom = op.atom
    if atom.shape_mnk != (1, 1, 1):
        return _dot_of_thread(build, op)
    a, b, d = build.reader(op.a, op), build.reader(op.b, op), build.view(op.d)
    read_d = build.reader(op.d, op)
    each = rounds(op.steps)
    floating = atom.d_type.is_float

    def run(c: Cohort) -> None:
        left, right = (
            (widened(a(c), atom.a_type), widened(b(c), atom.b_type)) if floating else (a(c), b(c))
        )
        total = read_d(c)
        for r in each:
            js, ks, ds = _index(r.js), _index(r.ks), _index(r.ds)
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


def _index(which: tuple[int, ...]) -> Any:  # noqa: ANN401
    from cute_py.emulate.registers import selection

    return selection(which)


def _dot_of_thread(build: Build, op: ops.Mma) -> Run:
    """Compile an atom of one thread with several products, such as dp4a."""
    atom = op.atom
    a, b, d = build.reader(op.a, op), build.reader(op.b, op), build.view(op.d)
    read_d = build.reader(op.d, op)
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
