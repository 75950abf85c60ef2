"""TMA: copies of boxes of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from cute_py.emulate.access import Located
from cute_py.emulate.bits import numpy_type
from cute_py.emulate.build import Build, Run, handles
from cute_py.emulate.numerics import function
from cute_py.emulate.ops_mbarrier import require_ready, slots_of, threads_of, value_at
from cute_py.emulate.spans import Array, Cohort
from cute_py.plan import ops


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
            x = value_at(coord(c), where, c.span.shape) + self.inside[k]
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
        slots, engines = slots_of(build, bar, c, bars), build.engines
        offsets = np.broadcast_to(place.offsets, (*c.span.shape, target.count))
        chosen = multicast(c)
        for where in threads_of(c, bars):
            own, slot = int(c.span.B[where[0]]), int(slots[where])
            index, exists = box.at(c, where)
            values = np.zeros(len(index), box.array.data.dtype)
            values[exists] = box.array.data[index[exists]]
            ranks = value_at(chosen, where, c.span.shape)
            blocks = [own]
            if ranks:
                bits = [r for r in range(engines.cluster) if ranks >> r & 1]
                blocks = [engines.block_of(own, r) for r in bits]
            for b in blocks:
                require_ready(build, op, c, where, b, slot)
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
