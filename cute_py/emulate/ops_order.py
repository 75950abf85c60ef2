"""Order: barriers of blocks and warps, fences, waits for memory."""

from __future__ import annotations

import numpy as np

from cute_py.emulate.build import Build, Run, Signal, handles
from cute_py.emulate.clusters import cluster_barrier
from cute_py.emulate.faults import first
from cute_py.emulate.machine import base_mask
from cute_py.emulate.scalars import TESTS, uniform
from cute_py.emulate.spans import LANES, Array, Cohort, split
from cute_py.emulate.waits import BarrierWait, ValueWait
from cute_py.plan import ops


@handles(ops.Barrier)
def barrier(build: Build, op: ops.Barrier) -> Run:
    """Meet, arrive at, or wait for a barrier."""
    if op.scope == "warp":
        return lambda c: None
    if op.scope == "cluster":
        return cluster_barrier(build, op, op.kind)
    number = build.scalar(op.id)
    threads = op.threads if op.scope == "named" else build.warps * LANES
    base = base_mask(build)

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        if c.mask is not None:
            _require_whole(build, op, c, base)
        ids = uniform(number(c), None)
        if isinstance(ids, np.ndarray):
            per_warp = np.broadcast_to(ids, c.span.shape)[..., 0]
            if (per_warp != per_warp[:, :1]).any():
                return split(c, build.spans, per_warp)
        rows = np.broadcast_to(ids, c.span.shape)[:, 0, 0]
        barriers = build.barriers
        whole = op.kind == "sync" and threads == build.warps * LANES
        if whole and not isinstance(ids, np.ndarray) and barriers.meet_whole(c, ids):
            return None
        if op.scope == "block":
            barriers.require_one(c, op)
        phases = barriers.arrive(c, rows, threads, op.kind != "arrive", op)
        if op.kind == "arrive":
            return None
        wait = BarrierWait(build, op, rows, phases, threads).keep(c)
        c.wait = wait
        return Signal.BLOCKED

    return run


def _require_whole(build: Build, op: ops.Op, c: Cohort, base: Array | None) -> None:
    """Refuse a barrier that some lanes of a warp do not reach."""
    assert c.mask is not None
    exist = np.ones((1, 1, LANES), np.bool_) if base is None else base[:, c.span.W]
    bad = exist & ~c.mask
    if bad.any():
        where = first(bad, c)
        others = f"lane {where[2]} and others of the warp took another branch or have ended"
        raise build.faults.at("emulate-barrier-divergent", op, c, where[:2], others=others)


@handles(ops.Fence)
def fence(build: Build, op: ops.Fence) -> Run:
    """Order memory: stores are seen at once here, so that only proxy fences matter."""
    if op.kind == "proxy_async" and build.shadow is not None:
        return build.shadow.fence
    return lambda c: None


@handles(ops.GridDep)
def grid_dep(build: Build, op: ops.GridDep) -> Run:
    """Change nothing: kernels run one after the other here."""
    return lambda c: None


@handles(ops.SetMaxNReg)
def set_max_nreg(build: Build, op: ops.SetMaxNReg) -> Run:
    """Change nothing: registers are not counted here."""
    return lambda c: None


@handles(ops.WaitUntil)
def wait_until(build: Build, op: ops.WaitUntil) -> Run:
    """Wait until an element of memory compares."""
    located, value, test = build.access(op.src, op), build.scalar(op.value), TESTS[op.test]
    located.keeps = False
    signs = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        place = located(c)
        wanted = value(c)
        seen = _look(located.load(c, place)[..., 0], place.active)

        if bool(np.all(_over(test(seen, wanted), c))):
            return None
        warps = np.broadcast_to(_over(test(seen, wanted), c), c.span.shape).all(-1)
        if warps.any():
            return split(c, build.spans, warps)
        words = f"{op.src.storage} {signs[op.test]} {wanted if np.ndim(wanted) == 0 else op.value}"
        span = c.span

        def look(now: Cohort) -> Array:
            here = located(now)
            return np.asarray(test(_look(located.load(now, here)[..., 0], here.active), value(now)))

        words += f", which is {int(np.broadcast_to(seen, span.shape).flat[0])}"
        c.wait = ValueWait(op, look, words)
        return Signal.BLOCKED

    return run


def _look(values: Array, active: Array | None) -> Array:
    return values


def _over(holds: Array, c: Cohort) -> Array:
    return np.asarray(holds) if c.mask is None else np.asarray(holds) | ~c.mask
