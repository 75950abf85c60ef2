"""Order: barriers of warps, blocks and clusters, mbarriers, fences, waits for memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.access import Located
from cute_py.emulate.cohorts import Cohort, Run, Signal, Wait, split
from cute_py.emulate.faults import first
from cute_py.emulate.program import Program, handles
from cute_py.emulate.scalars import TESTS, uniform
from cute_py.emulate.spans import LANES, Array, Value
from cute_py.emulate.storages import Place
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.emulate.scalars import Evaluated

# -- barriers of a block


class BarrierWait(Wait):
    """A wait for a barrier of the block."""

    def __init__(self, op: ops.Barrier, c: Cohort, ids: Array, phases: Array, threads: int) -> None:
        """Remember which phase of which barrier each block of the cohort waits for."""
        super().__init__(op)
        self.whole, self.threads = op.scope == "block", threads
        self.wanted = {
            int(b): (int(number), int(phase))
            for b, number, phase in zip(c.span.B, ids, phases, strict=True)
        }

    def ready(self, c: Cohort) -> bool | Array:
        """Return which blocks have met."""
        wanted = [(b, *self.wanted[b]) for b in c.span.B.tolist()]
        phases = c.batch.barriers.phase
        done = np.array([bool(phases[b, number] >= phase) for b, number, phase in wanted])
        return bool(done[0]) if done.all() or not done.any() else done[:, None]

    def describe(self, c: Cohort) -> str:
        """Return the barrier and who has come."""
        b = int(c.span.B[0])
        number = self.wanted[b][0]
        arrived = int(c.batch.barriers.arrived[b, number])
        return f"barrier {number}, where {arrived} of {self.threads} threads have arrived"


@handles(ops.Barrier)
def barrier(program: Program, op: ops.Barrier) -> Run:
    """Meet, arrive at, or wait for a barrier."""
    if op.scope == "warp":
        return lambda c: require_lanes(program, op, c)
    if op.scope == "cluster":
        return _cluster_barrier(program, op)
    number = program.scalar(op.id)
    threads = op.threads if op.scope == "named" else program.warps * LANES
    base = program.resources.mask

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        if c.mask is not None:
            _require_whole(op, c, base)
        ids = uniform(number(c), None)
        if isinstance(ids, np.ndarray):
            per_warp = np.broadcast_to(ids, c.span.shape)[..., 0]
            if (per_warp != per_warp[:, :1]).any():
                return split(c, per_warp)
        rows = np.broadcast_to(ids, c.span.shape)[:, 0, 0]
        barriers = c.batch.barriers
        whole = op.kind == "sync" and threads == program.warps * LANES
        if whole and not isinstance(ids, np.ndarray) and barriers.meet_whole(c.span, ids):
            return None
        if op.scope == "block":
            barriers.require_one(c.span, op)
        phases = barriers.arrive(c.span, rows, threads, op.kind != "arrive", op)
        if op.kind == "arrive":
            return None
        c.wait = BarrierWait(op, c, rows, phases, threads)
        return Signal.BLOCKED

    return run


def _require_whole(op: ops.Op, c: Cohort, base: Array | None) -> None:
    """Refuse a barrier that some lanes of a warp do not reach."""
    assert c.mask is not None
    exist = np.ones((1, 1, LANES), np.bool_) if base is None else base[:, c.span.W]
    bad = exist & ~c.mask
    if bad.any():
        where = first(bad, c.span)
        others = f"lane {where[2]} and others of the warp took another branch or have ended"
        raise c.batch.faults.at("emulate-barrier-divergent", op, c.span, where[:2], others=others)


def require_warps(op: ops.Op, c: Cohort) -> None:
    """Refuse a warp instruction under a mask of lanes."""
    if c.mask is not None and not c.mask.all():
        where, name = first(~c.mask, c.span), type(op).__name__
        raise c.batch.faults.at("emulate-warp-divergent", op, c.span, where, name=name)


def require_lanes(program: Program, op: ops.Op, c: Cohort) -> None:
    """Refuse an op that waits for all lanes of the warp where some neither come nor have ended."""
    if c.mask is None or not program.checks:
        return
    running = c.frames[0].saved
    bad = ~c.mask if running is None else running & ~c.mask
    if bad.any():
        where, name = first(bad, c.span), type(op).__name__
        raise c.batch.faults.at("emulate-warp-divergent", op, c.span, where, name=name)


# -- the barrier of all blocks of a cluster


class ClusterWait(Wait):
    """A wait for all blocks of a cluster."""

    def ready(self, c: Cohort) -> bool | Array:
        """Return the warps whose arrival is complete."""
        barriers = c.batch.barriers
        phases = barriers.cluster_phase[c.batch.engines.cluster_of[c.span.B]]
        done = phases[:, None] > barriers.cluster_seen[c.span.B[:, None], c.span.W]
        return bool(done.flat[0]) if done.all() or not done.any() else done

    def describe(self, c: Cohort) -> str:
        """Return who has come."""
        cluster = int(c.batch.engines.cluster_of[c.span.B[0]])
        arrived = int(c.batch.barriers.cluster_arrived[cluster])
        return f"the barrier of its cluster, where {arrived} threads have arrived"

    def wake(self, c: Cohort) -> None:
        """Join the clocks of the block."""
        shadow = c.batch.shadow
        if shadow is not None:
            shadow.apart()
            shadow.take(c.span.B, c.span.W, c.batch.barriers.cluster_clocks[c.span.B])


def _cluster_barrier(program: Program, op: ops.Barrier) -> Run:
    """Compile a barrier of a cluster."""
    threads = program.resources.cluster * program.warps * LANES
    wait, kind = ClusterWait(op), op.kind

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        barriers, shadow = c.batch.barriers, c.batch.shadow
        if kind != "wait":
            clusters = c.batch.engines.cluster_of[c.span.B]
            seen = barriers.cluster_phase[clusters]
            barriers.cluster_seen[c.span.B[:, None], c.span.W] = seen[:, None]
            if shadow is not None:
                shadow.apart()
                now = shadow.present(c.span.B, c.span.W).max(axis=1)
                clocks = barriers.cluster_clocks
                clocks[c.span.B] = np.maximum(clocks[c.span.B], now)
                shadow.epoch[c.span.B[:, None], c.span.W] += 1
            np.add.at(barriers.cluster_arrived, clusters, LANES * c.span.nW)
            met = barriers.cluster_arrived == threads
            barriers.cluster_phase[met] += 1
            barriers.cluster_arrived[met] = 0
        if kind == "arrive":
            return None
        ready = wait.ready(c)
        if ready is True:
            wait.wake(c)
            return None
        c.wait = wait
        return Signal.BLOCKED

    return run


# -- mbarriers


def threads_of(c: Cohort, place: Place) -> Iterator[tuple[int, int, int]]:
    """Yield row of block, row of warp and lane of each thread that takes part."""
    active = c.active()
    if place.guard is not None:
        active = active & place.guard[..., 0]
    for b, w, lane in np.argwhere(active):
        yield int(b), int(w), int(lane)


def value_at(value: Value, where: tuple[int, int, int], shape: tuple[int, int, int]) -> int:
    """Return a value of one thread."""
    return int(np.broadcast_to(np.asarray(value), shape)[where])


def slots_of(located: Located, c: Cohort, place: Place) -> Array:
    """Return the slots [block, warp, lane] of an mbarrier operand."""
    return np.broadcast_to(c.batch.agents.slot(located, place.offsets[..., 0]), c.span.shape)


def require_ready(op: ops.Op, c: Cohort, where: tuple[int, int, int], b: int, slot: int) -> None:
    """Refuse an mbarrier that nothing has initialised."""
    if c.batch.engines.count[b, slot] == 0:
        name = c.batch.agents.mbarrier(slot)
        raise c.batch.faults.at("emulate-mbarrier-unset", op, c.span, where, name=name)


@handles(ops.MbarInit)
def mbar_init(program: Program, op: ops.MbarInit) -> Run:
    """Make an mbarrier."""
    located = program.access(op.bar, op, unit=8, counted=False)

    def run(c: Cohort) -> None:
        place = located(c)
        slots, engines = slots_of(located, c, place), c.batch.engines
        for where in threads_of(c, place):
            b, slot = int(c.span.B[where[0]]), int(slots[where])
            engines.count[b, slot] = engines.pending[b, slot] = op.count
            engines.bytes[b, slot] = engines.phase[b, slot] = 0
        located.judge_write(c, place)

    return run


@handles(ops.MbarArrive)
def mbar_arrive(program: Program, op: ops.MbarArrive) -> Run:
    """Arrive, each thread once, and announce bytes."""
    located = program.access(op.bar, op, unit=8, counted=False)
    rank = None if op.cluster_rank is None else program.scalar(op.cluster_rank)

    def run(c: Cohort) -> None:
        place, engines = located(c), c.batch.engines
        slots = slots_of(located, c, place)
        ranks = None if rank is None else rank(c)
        for where in threads_of(c, place):
            own = int(c.span.B[where[0]])
            b = own
            if ranks is not None:
                b = engines.block_of(own, value_at(ranks, where, c.span.shape))
            arrive(op, c, where, b, int(slots[where]), op.bytes)
        if c.batch.shadow is not None:
            c.batch.shadow.apart()
            c.batch.shadow.epoch[c.span.B[:, None], c.span.W] += 1

    return run


def arrive(
    op: ops.Op,
    c: Cohort,
    where: tuple[int, int, int],
    b: int,
    slot: int,
    nbytes: int,
    engine: bool = False,
) -> None:
    """Let one thread arrive at an mbarrier of block b."""
    engines, shadow = c.batch.engines, c.batch.shadow
    require_ready(op, c, where, b, slot)
    if engines.pending[b, slot] == 0:
        raise c.batch.faults.at(
            "emulate-mbarrier-arrivals",
            op,
            c.span,
            where,
            name=c.batch.agents.mbarrier(slot),
            count=int(engines.count[b, slot]),
        )
    own, w = int(c.span.B[where[0]]), int(c.span.W[where[1]])
    if shadow is not None and own == b:
        shadow.apart()
        now = shadow.present(np.array([b]), np.array([w]))[0, 0]
        if engine:
            now[shadow.warps + w] = shadow.epoch[b, shadow.warps + w]
        engines.arriving[b, slot] = np.maximum(engines.arriving[b, slot], now)
    engines.pending[b, slot] -= 1
    engines.bytes[b, slot] += nbytes
    phase = engines.phase[b, slot]
    engines.settle(b, slot)
    if shadow is not None and engines.phase[b, slot] != phase:
        shadow.epoch[b, c.batch.agents.tma + slot] += 1


@handles(ops.CpArrive)
def cp_arrive(program: Program, op: ops.CpArrive) -> Run:
    """Arrive when the thread's cp.asyncs are complete."""
    located = program.access(op.bar, op, unit=8, counted=False)

    def run(c: Cohort) -> None:
        place = located(c)
        slots = slots_of(located, c, place)
        for where in threads_of(c, place):
            b = int(c.span.B[where[0]])
            arrive(op, c, where, b, int(slots[where]), 0, engine=True)
        if c.batch.shadow is not None:
            c.batch.shadow.epoch[c.span.B[:, None], c.batch.warps + c.span.W] += 1
            c.batch.shadow.epoch[c.span.B[:, None], c.span.W] += 1

    return run


class PhaseWait(Wait):
    """A wait for a phase of an mbarrier."""

    def __init__(self, op: ops.Op, located: Located, parity: Evaluated) -> None:
        super().__init__(op)
        self.located, self.parity = located, parity

    def _warps(self, c: Cohort) -> tuple[Array, Array]:
        """Return slot and parity [block, warp], those of each warp's first lane."""
        slots = slots_of(self.located, c, self.located(c))
        parity = np.broadcast_to(np.asarray(self.parity(c)), c.span.shape)
        lead = c.active().argmax(-1)[..., None]
        return (
            np.take_along_axis(slots, lead, 2)[..., 0],
            np.take_along_axis(parity, lead, 2)[..., 0],
        )

    def ready(self, c: Cohort) -> bool | Array:
        """Return the warps whose phase is complete."""
        slots, parity = self._warps(c)
        done = (c.batch.engines.phase[c.span.B[:, None], slots] & 1) != parity & 1
        return bool(done.flat[0]) if done.all() or not done.any() else done

    def describe(self, c: Cohort) -> str:
        """Return what the mbarrier still needs."""
        slots, parity = self._warps(c)
        b, slot, engines = int(c.span.B[0]), int(slots[0, 0]), c.batch.engines
        missing = f"{int(engines.pending[b, slot])} of {int(engines.count[b, slot])} arrivals"
        left = int(engines.bytes[b, slot])
        if left:
            missing += f" and {left} bytes" if left > 0 else f" and has {-left} bytes too many"
        name = c.batch.agents.mbarrier(slot)
        return f"phase {int(parity[0, 0]) & 1} of {name}, which lacks {missing}"

    def mismatch(self, c: Cohort) -> dict[str, Any] | None:
        """Return the facts of a wrong count of bytes: all have arrived, and bytes are left."""
        slots, _ = self._warps(c)
        engines = c.batch.engines
        b = c.span.B[:, None]
        left = np.where(engines.pending[b, slots] == 0, engines.bytes[b, slots], 0)
        if not left.any():
            return None
        row, warp = (int(k) for k in np.argwhere(left)[0])
        n = int(left[row, warp])
        what = f"waits for {n} bytes more" if n > 0 else f"got {-n} bytes more"
        return {
            "where": (row, warp),
            "name": c.batch.agents.mbarrier(int(slots[row, warp])),
            "what": what,
        }

    def wake(self, c: Cohort) -> None:
        """Take the clocks of those who arrived."""
        shadow = c.batch.shadow
        if shadow is not None:
            slots, _ = self._warps(c)
            shadow.apart()
            clocks = c.batch.engines.complete[c.span.B[:, None], slots]
            shadow.take(c.span.B, c.span.W, clocks)


@handles(ops.MbarWait)
def mbar_wait(program: Program, op: ops.MbarWait) -> Run:
    """Wait for a phase."""
    located = program.access(op.bar, op, unit=8, counted=False)
    wait = PhaseWait(op, located, program.scalar(op.phase))

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        place = located(c)
        slots = slots_of(located, c, place)
        counts = c.batch.engines.count[c.span.B[:, None, None], slots]
        if (counts == 0).any():
            for where in threads_of(c, place):
                b = int(c.span.B[where[0]])
                require_ready(op, c, where, b, int(slots[where]))
        ready = wait.ready(c)
        if isinstance(ready, np.ndarray):
            return split(c, ready)
        if ready:
            wait.wake(c)
            return None
        c.wait = wait
        return Signal.BLOCKED

    return run


# -- fences and waits for memory


@handles(ops.Fence)
def fence(program: Program, op: ops.Fence) -> Run:
    """Order memory: stores are seen at once here, so that only proxy fences matter."""
    if op.kind != "proxy_async":
        return lambda c: None

    def run(c: Cohort) -> None:
        if c.batch.shadow is not None:
            c.batch.shadow.fence(c.span)

    return run


@handles(ops.GridDep)
def grid_dep(program: Program, op: ops.GridDep) -> Run:
    """Change nothing: kernels run one after the other here."""
    return lambda c: None


@handles(ops.SetMaxNReg)
def set_max_nreg(program: Program, op: ops.SetMaxNReg) -> Run:
    """Remember who asked for how many: warpgroups must do so together."""

    def run(c: Cohort) -> None:
        require_warps(op, c)
        if program.checks:
            c.batch.maxnreg.ask(c.span, op)

    return run


class ValueWait(Wait):
    """A wait for a value in memory."""

    def __init__(self, op: ops.Op, look: Evaluated, words: str) -> None:
        """Keep the look, which gives [block, warp, lane]: where the wait is over."""
        super().__init__(op)
        self.look, self.words = look, words

    def ready(self, c: Cohort) -> bool | Array:
        """Return the warps whose lanes all see the value."""
        done = np.broadcast_to(self.look(c), c.span.shape)
        if c.mask is not None:
            done = done | ~c.mask
        warps = done.all(-1)
        return bool(warps.flat[0]) if warps.all() or not warps.any() else warps

    def describe(self, c: Cohort) -> str:
        """Return the condition."""
        return self.words


@handles(ops.WaitUntil)
def wait_until(program: Program, op: ops.WaitUntil) -> Run:
    """Wait until an element of memory compares."""
    located, value, test = program.access(op.src, op), program.scalar(op.value), TESTS[op.test]
    located.keeps = False
    signs = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        place = located(c)
        wanted = value(c)
        seen = located.load(c, place)[..., 0]
        if bool(np.all(_over(test(seen, wanted), c))):
            return None
        warps = np.broadcast_to(_over(test(seen, wanted), c), c.span.shape).all(-1)
        if warps.any():
            return split(c, warps)
        words = f"{op.src.storage} {signs[op.test]} {wanted if np.ndim(wanted) == 0 else op.value}"
        span = c.span

        def look(now: Cohort) -> Array:
            return np.asarray(test(located.load(now, located(now))[..., 0], value(now)))

        words += f", which is {int(np.broadcast_to(seen, span.shape).flat[0])}"
        c.wait = ValueWait(op, look, words)
        return Signal.BLOCKED

    return run


def _over(holds: Array, c: Cohort) -> Array:
    return np.asarray(holds) if c.mask is None else np.asarray(holds) | ~c.mask
