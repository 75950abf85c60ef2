"""mbarriers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cute_py.emulate.access import Located, Place
from cute_py.emulate.build import Build, Run, Signal, handles
from cute_py.emulate.spans import Array, Cohort, Value, split
from cute_py.plan import ops


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


def slots_of(build: Build, located: Located, c: Cohort, place: Place) -> Array:
    """Return the slots [block, warp, lane] of an mbarrier operand."""
    return np.broadcast_to(build.engines.slot(located, place.offsets[..., 0]), c.span.shape)


def require_ready(
    build: Build, op: ops.Op, c: Cohort, where: tuple[int, int, int], b: int, slot: int
) -> None:
    """Refuse an mbarrier that nothing has initialised."""
    if build.engines.count[b, slot] == 0:
        name = build.engines.name(slot)
        raise build.faults.at("emulate-mbarrier-unset", op, c, where, name=name)


@handles(ops.MbarInit)
def mbar_init(build: Build, op: ops.MbarInit) -> Run:
    """Make an mbarrier."""
    located = build.access(op.bar, op, unit=8, counted=False)

    def run(c: Cohort) -> None:
        place = located(c)
        slots, engines = slots_of(build, located, c, place), build.engines
        for where in threads_of(c, place):
            b, slot = int(c.span.B[where[0]]), int(slots[where])
            engines.count[b, slot] = engines.pending[b, slot] = op.count
            engines.bytes[b, slot] = engines.phase[b, slot] = 0
        if build.shadow is not None:
            build.shadow.write(c, located, place)

    return run


@handles(ops.MbarArrive)
def mbar_arrive(build: Build, op: ops.MbarArrive) -> Run:
    """Arrive, each thread once, and announce bytes."""
    located = build.access(op.bar, op, unit=8, counted=False)
    rank = None if op.cluster_rank is None else build.scalar(op.cluster_rank)

    def run(c: Cohort) -> None:
        place, engines = located(c), build.engines
        slots = slots_of(build, located, c, place)
        ranks = None if rank is None else rank(c)
        for where in threads_of(c, place):
            own = int(c.span.B[where[0]])
            b = own
            if ranks is not None:
                b = engines.block_of(own, value_at(ranks, where, c.span.shape))
            arrive(build, op, c, where, b, int(slots[where]), op.bytes)
        if build.shadow is not None:
            build.shadow.apart()
            build.shadow.epoch[c.span.B[:, None], c.span.W] += 1

    return run


def arrive(
    build: Build,
    op: ops.Op,
    c: Cohort,
    where: tuple[int, int, int],
    b: int,
    slot: int,
    nbytes: int,
    engine: bool = False,
) -> None:
    """Let one thread arrive at an mbarrier of block b."""
    engines, shadow = build.engines, build.shadow
    require_ready(build, op, c, where, b, slot)
    if engines.pending[b, slot] == 0:
        raise build.faults.at(
            "emulate-mbarrier-arrivals",
            op,
            c,
            where,
            name=engines.name(slot),
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
        shadow.epoch[b, engines.tma + slot] += 1


@handles(ops.CpArrive)
def cp_arrive(build: Build, op: ops.CpArrive) -> Run:
    """Arrive when the thread's cp.asyncs are complete."""
    located = build.access(op.bar, op, unit=8, counted=False)

    def run(c: Cohort) -> None:
        place = located(c)
        slots = slots_of(build, located, c, place)
        for where in threads_of(c, place):
            b = int(c.span.B[where[0]])
            arrive(build, op, c, where, b, int(slots[where]), 0, engine=True)
        if build.shadow is not None:
            build.shadow.epoch[c.span.B[:, None], build.warps + c.span.W] += 1
            build.shadow.epoch[c.span.B[:, None], c.span.W] += 1

    return run


class PhaseWait:
    """A wait for a phase of an mbarrier."""

    def __init__(self, build: Build, op: ops.Op, located: Located, parity: Any) -> None:  # noqa: ANN401
        """Keep the operands."""
        self.build, self.op, self.located, self.parity = build, op, located, parity

    def _warps(self, c: Cohort) -> tuple[Array, Array]:
        """Return slot and parity [block, warp], those of each warp's first lane."""
        slots = slots_of(self.build, self.located, c, self.located(c))
        parity = np.broadcast_to(np.asarray(self.parity(c)), c.span.shape)
        lead = c.active().argmax(-1)[..., None]
        return (
            np.take_along_axis(slots, lead, 2)[..., 0],
            np.take_along_axis(parity, lead, 2)[..., 0],
        )

    def ready(self, c: Cohort) -> bool | Array:
        """Return the warps whose phase is complete."""
        slots, parity = self._warps(c)
        done = (self.build.engines.phase[c.span.B[:, None], slots] & 1) != parity & 1
        return bool(done.flat[0]) if done.all() or not done.any() else done

    def describe(self, c: Cohort) -> str:
        """Return what the mbarrier still needs."""
        slots, parity = self._warps(c)
        b, slot, engines = int(c.span.B[0]), int(slots[0, 0]), self.build.engines
        missing = f"{int(engines.pending[b, slot])} of {int(engines.count[b, slot])} arrivals"
        left = int(engines.bytes[b, slot])
        if left:
            missing += f" and {left} bytes" if left > 0 else f" and has {-left} bytes too many"
        return f"phase {int(parity[0, 0]) & 1} of {engines.name(slot)}, which lacks {missing}"

    def mismatch(self, c: Cohort) -> dict[str, Any] | None:
        """Return the facts of a wrong count of bytes: all have arrived, and bytes are left."""
        slots, _ = self._warps(c)
        engines = self.build.engines
        b = c.span.B[:, None]
        left = np.where(engines.pending[b, slots] == 0, engines.bytes[b, slots], 0)
        if not left.any():
            return None
        row, warp = (int(k) for k in np.argwhere(left)[0])
        n = int(left[row, warp])
        what = f"waits for {n} bytes more" if n > 0 else f"got {-n} bytes more"
        return {"where": (row, warp), "name": engines.name(int(slots[row, warp])), "what": what}

    def wake(self, c: Cohort) -> None:
        """Take the clocks of those who arrived."""
        shadow = self.build.shadow
        if shadow is not None:
            slots, _ = self._warps(c)
            shadow.apart()
            clocks = self.build.engines.complete[c.span.B[:, None], slots]
            shadow.take(c.span.B, c.span.W, clocks)


@handles(ops.MbarWait)
def mbar_wait(build: Build, op: ops.MbarWait) -> Run:
    """Wait for a phase."""
    located = build.access(op.bar, op, unit=8, counted=False)
    wait = PhaseWait(build, op, located, build.scalar(op.phase))

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        place = located(c)
        slots = slots_of(build, located, c, place)
        counts = build.engines.count[c.span.B[:, None, None], slots]
        if (counts == 0).any():
            for where in threads_of(c, place):
                b = int(c.span.B[where[0]])
                require_ready(build, op, c, where, b, int(slots[where]))
        ready = wait.ready(c)
        if isinstance(ready, np.ndarray):
            return split(c, build.spans, ready)
        if ready:
            wait.wake(c)
            return None
        c.wait = wait
        return Signal.BLOCKED

    return run
