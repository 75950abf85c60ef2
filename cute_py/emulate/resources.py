"""`Resources`: what a plan uses of a block, and how many blocks run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.clocks import Agents
from cute_py.emulate.regions import Traffic
from cute_py.emulate.shadow import Grain
from cute_py.emulate.spans import LANES, Array
from cute_py.emulate.storages import shared_stride, storages
from cute_py.plan.walk import accesses, mbarriers, reads, writes

if TYPE_CHECKING:
    from cute_py.plan import ops
    from cute_py.plan.plan import Plan

MULTIPROCESSORS = 132  # of an H100
THREADS, BLOCKS, SHARED = 2048, 32, 228 * 1024  # that one holds
RESERVED = 1024  # bytes of shared memory that each block takes besides its own


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

    def __init__(self, plan: Plan, checks: frozenset[str]) -> None:
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
        self.traffic = Traffic(plan)
        self.pointers = self.traffic.pointers
        self.shared = {row.name: row for row in plan.shared}
        self.stride = shared_stride(plan.shared)
        self.peers = any(x.rank is not None for op in every for x in accesses(op))
        regs = (reg for op in every for reg in (*reads(op), *writes(op)))
        self.registers = storages(plan.storages, regs, "registers" in checks)
        bars = [bar.storage for op in every for bar in mbarriers(op)]
        self.agents = Agents(plan, self.warps, self.mask, bars)
        self.grain = self._grain(every) if "shared" in checks and plan.shared else None

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
        shadow = self.grain.bytes_per_block(self.agents.readers) if self.grain is not None else 0
        return int(registers + self.stride + shadow + 64 * threads)

    def most_resident(self) -> int:
        """Return how many blocks run at once, by their threads and shared memory."""
        by_threads = THREADS // (self.warps * LANES)
        each = min(by_threads, BLOCKS, SHARED // (self.stride + RESERVED))
        return MULTIPROCESSORS * max(1, each)
