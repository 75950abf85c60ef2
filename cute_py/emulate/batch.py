"""`Batch`: the state of blocks that run together, and `Resources`: what a plan uses of a block.

A plan is compiled once, and its steps run on any batch, several at a time: what one run writes
stands in its batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.engines import Engines
from cute_py.emulate.faults import Faults, line_of
from cute_py.emulate.shadow import Agents, Grain, Shadow
from cute_py.emulate.spans import LANES, Array, Span, Spans, Value
from cute_py.emulate.storages import RegisterFile, SharedMemory, shared_stride, storages
from cute_py.plan import ops
from cute_py.plan.walk import accesses, mbarriers, reads, writes

if TYPE_CHECKING:
    from cute_py.emulate.report import Report
    from cute_py.emulate.storages import Arguments
    from cute_py.plan.plan import Plan

INDICES = ("tid", "bid_x", "bid_y", "bid_z")


class Resources:
    """What a plan uses of a block, found once.

    Attributes:
        threads, warps: of a block; `mask`: the lanes that exist [1, warp, lane], None if all do.
        cluster: blocks of a cluster.
        shared: the shared storages by name; stride: their bytes, from block to block.
        registers: the register storages by name.
        agents: who touches shared memory.
        grain: how it is watched; None where it is not.
    """

    def __init__(self, plan: Plan, checks: bool) -> None:
        self.plan, self.checks = plan, checks
        self.threads = plan.launch.threads
        self.warps = -(-self.threads // LANES)
        self.mask: Array | None = None
        if self.threads % LANES:
            lanes = np.arange(self.warps * LANES).reshape(1, self.warps, LANES)
            self.mask = lanes < self.threads
        x, y, z = plan.launch.cluster
        self.cluster = x * y * z
        every = plan.ops
        self.shared = {row.name: row for row in plan.shared}
        self.stride = shared_stride(plan.shared)
        regs = (reg for op in every for reg in (*reads(op), *writes(op)))
        self.registers = storages(plan.storages, regs, checks)
        bars = [bar.storage for op in every for bar in mbarriers(op)]
        engines = bool(bars) or any(op.bulk for op in every)
        self.agents = Agents(plan, self.warps, bars, engines)
        self.grain = self._grain(every) if checks and plan.shared else None

    def _grain(self, every: tuple[ops.Op, ...]) -> Grain:
        """Return the granule that all accesses are whole numbers of."""
        sizes = []
        for op in every:
            touched = [access for access in accesses(op) if access.space == "smem"]
            if op.bulk:
                sizes += [16] * bool(touched)  # TMA and wgmma touch whole rows of 16 bytes
                continue
            for access in touched:
                start = self.shared[access.storage].offset
                sizes += [max(1, access.vector_bits // 8), start or 16]
        atomics = any(op.atomic and x.space == "smem" for op in every for x in accesses(op))
        return Grain(int(np.gcd.reduce(sizes)) if sizes else 16, self.stride, atomics)

    def bytes_per_block(self) -> int:
        """Return how much memory the state of a block takes."""
        threads = self.warps * LANES
        registers = sum(s.bytes_per_thread for s in self.registers.values()) * threads
        shadow = self.grain.bytes_per_block(self.agents.count) if self.grain is not None else 0
        return int(registers + self.stride + shadow + 64 * threads)


class Batch:
    """The state of `blocks` blocks from the block number `first` on, all resident together."""

    def __init__(
        self,
        needs: Resources,
        given: Arguments,
        grid: tuple[int, int, int],
        report: Report | None,
        blocks: int,
        first: int,
    ) -> None:
        self.blocks, self.warps, self.report = blocks, needs.warps, report
        self.arrays, self.numbers = given.arrays, given.numbers
        self.agents = agents = needs.agents
        self.faults = Faults(needs.plan, grid, first)
        self.spans = Spans(
            blocks, needs.warps, _symbols(needs, grid, blocks, first) | given.symbols
        )
        self.smem = SharedMemory(blocks, needs.stride)
        self.registers = {
            name: RegisterFile(storage, blocks, needs.warps)
            for name, storage in needs.registers.items()
        }
        self.shadow: Shadow | None = None
        if needs.grain is not None:
            self.shadow = Shadow(agents, needs.grain, blocks, self.faults)
        cluster = needs.plan.launch.cluster
        self.engines = Engines(agents, self.shadow, self.faults, blocks, cluster)
        self.maxnreg = MaxNReg(needs.warps, self.faults)
        self.barriers = Barriers(blocks, needs.warps, agents.count, self.shadow, self.faults)


def _symbols(
    needs: Resources, grid: tuple[int, int, int], blocks: int, first: int
) -> dict[str, Value]:
    """Return thread and block for the threads of a batch."""
    b = np.arange(first, first + blocks)[:, None, None]
    x, y, z = grid
    values = (
        np.arange(needs.warps * LANES).reshape(1, needs.warps, LANES),
        b % max(x, 1) if x > 1 else 0,
        b // max(x, 1) % max(y, 1) if y > 1 else 0,
        b // max(x * y, 1) if z > 1 else 0,
    )
    return dict(zip(INDICES, values, strict=True))


class MaxNReg:
    """What the warps of every block asked for by setmaxnreg, one number after the other."""

    def __init__(self, warps: int, faults: Faults) -> None:
        self.warps, self.faults = warps, faults
        self.asked: dict[tuple[int, int], list[ops.SetMaxNReg]] = {}

    def ask(self, span: Span, op: ops.SetMaxNReg) -> None:
        """Let warps ask; refuse another number than others of the warpgroup asked for."""
        for row, b in enumerate(span.B.tolist()):
            for column, w in enumerate(span.W.tolist()):
                own = self.asked.setdefault((b, w), [])
                for other in self._others(w):
                    theirs = self.asked.get((b, other), [])[len(own) : len(own) + 1]
                    if theirs and theirs[0].n != op.n:
                        raise self._apart(op, span, (row, column), other, str(theirs[0].n))
                own.append(op)

    def require_together(self, spans: Spans) -> None:
        """Refuse, once all threads have ended, what some warps of a warpgroup did not come to."""
        for (b, w), own in self.asked.items():
            for other in self._others(w):
                if len(self.asked.get((b, other), [])) < len(own):
                    span = spans.of(np.array([b]), np.array([w]))
                    raise self._apart(own[-1], span, (0, 0), other, "no number")

    def _others(self, w: int) -> range:
        first = w // 4 * 4
        return range(first, min(first + 4, self.warps))

    def _apart(
        self, op: ops.SetMaxNReg, span: Span, where: tuple[int, int], other: int, theirs: str
    ) -> Exception:
        return self.faults.at(
            "emulate-setmaxnreg", op, span, where, count=op.n, other=other, theirs=theirs
        )


class Barriers:
    """The 16 barriers of every block of a batch."""

    COUNT = 16

    def __init__(
        self, blocks: int, warps: int, agents: int, shadow: Shadow | None, faults: Faults
    ) -> None:
        self.warps, self.shadow, self.faults = warps, shadow, faults
        self.arrived = np.zeros((blocks, self.COUNT), np.int64)  # threads
        self.phase = np.zeros((blocks, self.COUNT), np.int64)
        self.members = np.zeros((blocks, self.COUNT, warps), np.bool_)  # those who wait
        self.ops: dict[tuple[int, int], ops.Op] = {}
        self.cluster_arrived = np.zeros(blocks, np.int64)
        self.cluster_phase = np.zeros(blocks, np.int64)
        self.cluster_seen = np.zeros((blocks, warps), np.int64)
        agents = 0 if shadow is None else agents
        self.cluster_clocks = np.zeros((blocks, 2 * agents), np.int32)
        self.clocks = np.zeros((blocks, self.COUNT, 2 * agents), np.int32)

    def meet_whole(self, span: Span, number: int) -> bool:
        """Let all warps pass at once; False where someone has arrived already."""
        if span.nW < self.warps or self.arrived[span.B, number].any():
            return False
        self.phase[span.B, number] += 1
        shadow = self.shadow
        if shadow is not None:
            shadow.meet(shadow.rows_of(span, together=True), span.W)
        return True

    def require_one(self, span: Span, op: ops.Op) -> None:
        """Refuse a barrier of the block that parts of it reach at different lines."""
        for row, b in enumerate(span.B.tolist()):
            other = self.ops.get((b, 0))
            if self.arrived[b, 0] and other is not None and other is not op:
                others = f"warps {np.flatnonzero(self.members[b, 0]).tolist()} wait at "
                raise self.faults.at(
                    "emulate-barrier-divergent", op, span, (row, 0), others=others + line_of(other)
                )
            self.ops[b, 0] = op

    def arrive(self, span: Span, ids: Array, threads: int, waits: bool, op: ops.Op) -> Array:
        """Arrive with all warps of a span at a barrier of each block; return the phases that
        are complete once all have arrived.

        Args:
            span: the warps.
            ids: the number of the barrier for each block.
            threads: how many complete it.
            waits: whether the warps wait.
            op: the op, for errors.
        """
        B, W = span.B, span.W
        self.arrived[B, ids] += LANES * len(W)
        shadow = self.shadow
        if shadow is not None:
            shadow.apart()
            self.clocks[B, ids] = np.maximum(self.clocks[B, ids], shadow.present(B, W).max(axis=1))
            shadow.epoch[B[:, None], W] += 1
        if waits:
            self.members[B[:, None], ids[:, None], W] = True
        wanted: Array = self.phase[B, ids] + 1
        over = self.arrived[B, ids] > threads
        if over.any():
            row = int(np.argmax(over))
            raise self.faults.at(
                "emulate-barrier-count",
                op,
                span,
                (row, 0),
                id=int(ids[row]),
                arrived=int(self.arrived[B[row], ids[row]]),
                threads=threads,
            )
        for met in np.flatnonzero(self.arrived[B, ids] == threads):
            self._complete(int(B[met]), int(ids[met]))
        return wanted

    def _complete(self, b: int, number: int) -> None:
        self.arrived[b, number] = 0
        self.phase[b, number] += 1
        W = np.flatnonzero(self.members[b, number])
        self.members[b, number] = False
        shadow = self.shadow
        if shadow is not None:
            if len(W):
                shadow.take(np.array([b]), W, self.clocks[b, number][None])
            self.clocks[b, number] = 0
