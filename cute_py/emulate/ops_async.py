"""mbarriers, TMA, and clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from cute_py.emulate.access import Located, Place
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.build import Build, Run, Signal, handles
from cute_py.emulate.numerics import function
from cute_py.emulate.spans import LANES, Array, Cohort, Value, split
from cute_py.trace import ops


def threads_of(c: Cohort, place: Place) -> Iterator[tuple[int, int, int]]:
    """Yield row of block, row of warp and lane of each thread that takes part."""
    active = c.active()
    if place.guard is not None:
        active = active & place.guard[..., 0]
    for b, w, lane in np.argwhere(active):
        yield int(b), int(w), int(lane)


def _at(value: Value, where: tuple[int, int, int], shape: tuple[int, int, int]) -> int:
    """Return a value of one thread."""
    return int(np.broadcast_to(np.asarray(value), shape)[where])


def _slots(build: Build, located: Located, c: Cohort, place: Place) -> Array:
    """Return the slots [block, warp, lane] of an mbarrier operand."""
    return np.broadcast_to(build.engines.slot(located, place.offsets[..., 0]), c.span.shape)


def _require_ready(
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
        slots, engines = _slots(build, located, c, place), build.engines
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
        slots = _slots(build, located, c, place)
        ranks = None if rank is None else rank(c)
        for where in threads_of(c, place):
            own = int(c.span.B[where[0]])
            b = own if ranks is None else engines.block_of(own, _at(ranks, where, c.span.shape))
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
    _require_ready(build, op, c, where, b, slot)
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
        slots = _slots(build, located, c, place)
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
        slots = _slots(self.build, self.located, c, self.located(c))
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
        slots = _slots(build, located, c, place)
        counts = build.engines.count[c.span.B[:, None, None], slots]
        if (counts == 0).any():
            for where in threads_of(c, place):
                b = int(c.span.B[where[0]])
                _require_ready(build, op, c, where, b, int(slots[where]))
        ready = wait.ready(c)
        if isinstance(ready, np.ndarray):
            return split(c, build.spans, ready)
        if ready:
            wait.wake(c)
            return None
        c.wait = wait
        return Signal.BLOCKED

    return run


# -- TMA


class Box:
    """A box of a tensor in global memory."""

    def __init__(self, build: Build, op: ops.TmaLoad | ops.TmaStore) -> None:
        """Compile the coordinates."""
        self.array = build.arrays[op.tensor]
        self.coord = [build.scalar(x) for x in op.coord]
        n = len(op.box)
        index = np.indices(op.box[::-1]).reshape(n, -1)[::-1]  # the first mode is the fastest
        self.inside = index
        self.bytes = prod(op.box) * self.array.dtype.bits // 8

    def at(self, c: Cohort, where: tuple[int, int, int]) -> tuple[Array, Array]:
        """Return the elements of the box for one thread, and which lie in the tensor."""
        exists = np.ones(self.inside.shape[1], np.bool_)
        index = np.zeros(self.inside.shape[1], np.int64)
        for k, coord in enumerate(self.coord):
            x = _at(coord(c), where, c.span.shape) + self.inside[k]
            exists &= (x >= 0) & (x < self.array.shape[k])
            index += x * self.array.strides[k]
        return np.where(exists, index, 0), exists


@handles(ops.TmaLoad)
def tma_load(build: Build, op: ops.TmaLoad) -> Run:
    """Copy a box to shared memory of one or several blocks; its bytes complete the mbarrier."""
    target, bar = (
        build.access(op.dst, op, counted=False),
        build.access(op.bar, op, unit=8, counted=False),
    )
    box, multicast = Box(build, op), build.scalar(op.multicast)

    def run(c: Cohort) -> None:
        place, bars = target(c), bar(c)
        slots, engines = _slots(build, bar, c, bars), build.engines
        offsets = np.broadcast_to(place.offsets, (*c.span.shape, target.count))
        chosen = multicast(c)
        for where in threads_of(c, bars):
            own, slot = int(c.span.B[where[0]]), int(slots[where])
            index, exists = box.at(c, where)
            values = np.zeros(len(index), box.array.data.dtype)
            values[exists] = box.array.data[index[exists]]
            ranks = _at(chosen, where, c.span.shape)
            blocks = [own]
            if ranks:
                bits = [r for r in range(engines.cluster) if ranks >> r & 1]
                blocks = [engines.block_of(own, r) for r in bits]
            for b in blocks:
                _require_ready(build, op, c, where, b, slot)
                agent = engines.tma + slot
                other = None if b == own else b
                engines.touch(op, c, target, where, offsets[where], agent, True, other)
                _put(build, target, b, offsets[where], values)
                engines.land(b, slot, box.bytes)
                if build.report is not None:
                    build.report.moved(op, box.bytes)

    return run


def _put(build: Build, located: Located, b: int, offsets: Array, values: Array) -> None:
    memory = build.smem.data[b].view(numpy_type(located.dtype))
    first = located.start // memory.itemsize
    each = first + offsets.reshape(-1, 1) + np.arange(located.width)
    memory[each.reshape(-1)] = values


@handles(ops.TmaStore)
def tma_store(build: Build, op: ops.TmaStore) -> Run:
    """Copy shared memory to a box, or combine it with what is there."""
    source, box = build.access(op.src, op, counted=False), Box(build, op)
    combine: Callable[..., Array] | None = function(op.reduce, op.src.dtype) if op.reduce else None

    def run(c: Cohort) -> None:
        place, engines = source(c), build.engines
        offsets = np.broadcast_to(place.offsets, (*c.span.shape, source.count))
        for where in threads_of(c, place):
            b, w = int(c.span.B[where[0]]), int(c.span.W[where[1]])
            index, exists = box.at(c, where)
            engines.touch(op, c, source, where, offsets[where], engines.bulk + w, False)
            memory = build.smem.data[b].view(numpy_type(source.dtype))
            each = source.start // memory.itemsize + offsets[where].reshape(-1, 1)
            values = memory[(each + np.arange(source.width)).reshape(-1)][exists]
            at = index[exists]
            if build.report is not None:
                build.report.moved(op, box.bytes)
            if not box.array.writable:
                raise build.faults.fault("emulate-read-only", op, storage=op.tensor)
            data = box.array.data
            data[at] = values if combine is None else combine(data[at], values)

    return run


@handles(ops.BulkCommit)
def bulk_commit(build: Build, op: ops.BulkCommit) -> Run:
    """Close a group of TMA stores."""

    def run(c: Cohort) -> None:
        if build.shadow is not None:
            build.shadow.apart()
            build.shadow.epoch[c.span.B[:, None], build.engines.bulk + c.span.W] += 1

    return run


@handles(ops.BulkWait)
def bulk_wait(build: Build, op: ops.BulkWait) -> Run:
    """Wait for all but the latest n groups of TMA stores."""

    def run(c: Cohort) -> None:
        if build.shadow is not None:
            wait_for(build, c, build.engines.bulk + c.span.W, op.n)

    return run


def wait_for(build: Build, c: Cohort, agents: Array, n: int) -> None:
    """Order all but the latest n groups of engines, one for each warp, before what comes next."""
    shadow = build.shadow
    assert shadow is not None
    shadow.apart()
    B, W = c.span.B[:, None], c.span.W
    done = shadow.epoch[B, agents] - 1 - n
    shadow.clock[B, W, agents] = np.maximum(shadow.clock[B, W, agents], done)


# -- clusters


class ClusterWait:
    """A wait for all blocks of a cluster."""

    def __init__(self, build: Build, op: ops.Op) -> None:
        """Keep the op."""
        self.build, self.op = build, op

    def ready(self, c: Cohort) -> bool | Array:
        """Return the warps whose arrival is complete."""
        barriers = self.build.barriers
        phases = barriers.cluster_phase[self.build.engines.cluster_of[c.span.B]]
        done = phases[:, None] > barriers.cluster_seen[c.span.B[:, None], c.span.W]
        return bool(done.flat[0]) if done.all() or not done.any() else done

    def describe(self, c: Cohort) -> str:
        """Return who has come."""
        cluster = int(self.build.engines.cluster_of[c.span.B[0]])
        arrived = int(self.build.barriers.cluster_arrived[cluster])
        return f"the barrier of its cluster, where {arrived} threads have arrived"

    def wake(self, c: Cohort) -> None:
        """Join the clocks of the block."""
        shadow = self.build.shadow
        if shadow is not None:
            shadow.apart()
            shadow.take(c.span.B, c.span.W, self.build.barriers.cluster_clocks[c.span.B])


def cluster_barrier(build: Build, op: ops.Barrier, kind: str) -> Run:
    """Compile a barrier of a cluster."""
    threads = build.engines.cluster * build.warps * LANES
    wait = ClusterWait(build, op)

    def run(c: Cohort) -> Signal | list[Cohort] | None:
        barriers, shadow = build.barriers, build.shadow
        if kind != "wait":
            clusters = build.engines.cluster_of[c.span.B]
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
