"""Wgmma: matrix instructions of a warpgroup, whose results count after WgWait.

The numbers are those of `Mma`. A tile in shared memory is read through the offsets of its access,
in the colexicographic order of the atom's (M or N, K); the fields of the descriptor are for the GPU
alone. Here an instruction is executed when it is issued.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from cute_py.atoms.mma import MMA_Atom
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.build import Build, Run, handles
from cute_py.emulate.ops_matrix import accumulated, multiplied, numbers
from cute_py.emulate.ops_memory import require_warps
from cute_py.emulate.ops_tma import wait_for
from cute_py.emulate.registers import View
from cute_py.emulate.spans import LANES, Array, Cohort
from cute_py.plan import ops
from cute_py.plan.conditions import Reg

WARPS = 4  # of a warpgroup
THREADS = WARPS * LANES


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
def wgmma(build: Build, op: ops.Wgmma) -> Run:
    """Multiply and accumulate; accumulators and A in registers are in flight until WgWait."""
    atom = op.atom
    M, N, _ = atom.shape_mnk
    place_a, place_c = tables(atom)
    d = build.view(op.d)
    n = place_c.shape[1]
    from_a = _operand(build, op, op.a, M, place_a)
    from_b = _operand(build, op, op.b, N, place_a)
    held = [view for view in (d, build.view(op.a) if isinstance(op.a, Reg) else None) if view]
    for view in held:
        view.storage.watch()

    def run(c: Cohort) -> None:
        _require_groups(build, op, c)
        for view in held:
            unfenced = view.unfenced(c)
            if unfenced is not None:
                row, warp = (int(k) for k in np.argwhere(unfenced)[0])
                raise build.faults.at("emulate-wgmma-fence", op, c, (row, warp), registers=view.reg)
        fragment_a, fragment_b = from_a(c), from_b(c)
        groups = c.span.nB, c.span.nW // WARPS
        total = np.array(d.raw(c)).reshape(*groups, THREADS, -1)
        if not op.accumulate:
            for i in {i for i, _, _ in op.steps}:
                total[..., i * n : (i + 1) * n] = 0
        elif build.checks and d.storage.open:
            build.require_written(d, c, op)
        for i, j, k in op.steps:
            sums = multiplied(fragment_a(j), fragment_b(k), atom)
            part = slice(i * n, (i + 1) * n)
            sums = sums.reshape(*groups, -1)[..., place_c]
            total[..., part] = accumulated(total[..., part], sums, atom)
        d.put_raw(c, total.reshape(*c.span.shape, -1))
        _fly(build, c, held)

    return run


def _operand(
    build: Build, op: ops.Wgmma, source: Reg | ops.Tile, rows: int, place: Array
) -> Callable[[Cohort], Callable[[int], Array]]:
    """Compile an operand: a function of a cohort that gives fragments [block, group, row, K]."""
    K = op.atom.shape_mnk[2]
    if isinstance(source, Reg):
        view = build.view(source)
        n = place.size // THREADS

        def registers(c: Cohort) -> Callable[[int], Array]:
            if build.checks and view.storage.open:
                build.require_written(view, c, op)
            values = numbers(np.ascontiguousarray(view.raw(c)), source.dtype)
            values = values.reshape(c.span.nB, c.span.nW // WARPS, THREADS, -1)
            lane, v = place // n, place % n
            return lambda j: values[:, :, lane, j * n + v]

        return registers
    located, tile = build.access(source.access, op, counted=False), source.access

    def shared(c: Cohort) -> Callable[[int], Array]:
        place = located(c)
        offsets = np.broadcast_to(place.offsets, (*c.span.shape, located.count))[:, ::WARPS, 0]
        if build.shadow is not None:
            for b in range(c.span.nB):
                for g in range(offsets.shape[1]):
                    agent = build.engines.wgmma + int(c.span.W[g * WARPS]) // WARPS
                    issue = b, g * WARPS, 0
                    build.engines.touch(op, c, located, issue, offsets[b, g], agent, False)
        memory = build.smem.data.view(numpy_type(tile.dtype))
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


def _require_groups(build: Build, op: ops.Op, c: Cohort) -> None:
    """Refuse a warpgroup instruction that part of a warpgroup executes."""
    require_warps(build, op, c)
    W = c.span.W
    if len(W) % WARPS == 0:
        groups = W.reshape(-1, WARPS)
        if (groups == groups[:, :1] // WARPS * WARPS + np.arange(WARPS)).all():
            return
    raise build.faults.at("emulate-warp-divergent", op, c, (0, 0), name=type(op).__name__)


def _groups_of(c: Cohort, build: Build) -> Array:
    """Return the wgmma engine of each warp."""
    agents: Array = build.engines.wgmma + c.span.W // WARPS
    return agents


def _fly(build: Build, c: Cohort, views: list[View]) -> None:
    """Remember that registers are in flight."""
    shadow = build.shadow
    if shadow is None:
        return
    shadow.apart()
    group = shadow.epoch[c.span.B[:, None], _groups_of(c, build)]
    for view in views:
        view.fly(c, group)


@handles(ops.WgFence)
def wg_fence(build: Build, op: ops.WgFence) -> Run:
    """Order register accesses before the Wgmmas that follow."""

    def run(c: Cohort) -> None:
        _require_groups(build, op, c)
        for storage in build.registers.values():
            if storage.dirty is not None:
                storage.dirty[c.span.key] = False

    return run


@handles(ops.WgCommit)
def wg_commit(build: Build, op: ops.WgCommit) -> Run:
    """Close a group of Wgmmas."""

    def run(c: Cohort) -> None:
        _require_groups(build, op, c)
        if build.shadow is not None:
            build.shadow.apart()
            leads = build.engines.wgmma + c.span.W[::WARPS] // WARPS
            build.shadow.epoch[c.span.B[:, None], leads] += 1

    return run


@handles(ops.WgWait)
def wg_wait(build: Build, op: ops.WgWait) -> Run:
    """Wait for all but the latest n groups of Wgmmas."""

    def run(c: Cohort) -> None:
        _require_groups(build, op, c)
        if build.shadow is not None:
            wait_for(build, c, _groups_of(c, build), op.n)

    return run
