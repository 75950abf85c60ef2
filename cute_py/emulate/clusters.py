"""The barrier of all blocks of a cluster."""

from __future__ import annotations

import numpy as np

from cute_py.emulate.build import Build, Run, Signal
from cute_py.emulate.spans import LANES, Array, Cohort
from cute_py.plan import ops


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
