"""What a plan uses, found once: `Resources` of a block, and `Traffic` to global memory."""

from __future__ import annotations

from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from cute_py.atoms.arch import CHIPS, DEVICES
from cute_py.emulate.clocks import Agents
from cute_py.emulate.observed import observed
from cute_py.emulate.shadow import Grain
from cute_py.emulate.spans import LANES, Array
from cute_py.emulate.storages import shared_stride, storages
from cute_py.plan import ops
from cute_py.plan.origins import Origins
from cute_py.plan.waits import unordered
from cute_py.plan.walk import accesses, arrays, every, mbarriers, reads, writes

if TYPE_CHECKING:
    from collections.abc import Collection

    from cute_py.plan.plan import Plan

MULTIPROCESSORS, LIMITS = CHIPS["sm_90"].multiprocessors, DEVICES["sm_90"]  # of an H100
FENCES = ("block", "gpu", "system")  # of threads
# what an access to global memory is; ALIKE: a plain store of a value that has an origin
PLAIN, STRONG_READ, STRONG_WRITE, ALIKE = range(4)


class Resources:
    """What a plan uses of a block.

    Attributes:
        threads, warps: of a block; `mask`: the lanes that exist [1, warp, lane], None if all do.
        cluster: blocks of a cluster.
        shared: the shared storages by name; stride: their bytes, from block to block.
        registers: the register storages by name.
        agents: who touches shared memory.
        grain: how it is watched; None where it is not.
        observed: the storages at which the order of strong operations may be seen.
        early: the ops that the kernels before may not have ended at, by identity.
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
        judged = plan.launch.pdl and "global" in checks
        self.observed = observed(plan)
        self.early = unordered(plan.body) if judged else frozenset()
        self.agents = Agents(plan, self.warps, self.mask, bars, bool(self.early))
        self.grain = self._grain(every) if "shared" in checks and plan.shared else None

    @cached_property
    def origins(self) -> Origins:
        """What the values are made of that the plan stores to shared memory."""
        return Origins(self.plan, "smem")

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
        by_shared = LIMITS.shared // (self.stride + LIMITS.shared_reserved)
        each = min(LIMITS.warps // self.warps, LIMITS.blocks, by_shared)
        return MULTIPROCESSORS * max(1, each)


class Traffic:
    """What a plan does to global memory.

    Attributes:
        written: the arrays that it writes, and the pointers.
        pointers: the pointers; pointed: what the bytes of their accesses are multiples of.
        grains: what the bytes of all accesses of an array are multiples of, by array.
        boxed: the arrays that TMA accesses, by elements.
        bits: of an op's number in a mark, which is (block of the grid + 1) << bits | op.
        ops, numbers, kinds: the ops that access global memory, their numbers, and what they are.
        stores: which of them are plain stores of threads.
        communicates: whether a block may learn of another one while both run.
        waits: whether one may wait for another one.
        releases: whether threads may learn of each other by memory, be it in a block.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, every = plan, plan.ops
        self.written = {name for op in every for name in arrays(op, written=True)}
        self.pointers = {op.name for op in every if isinstance(op, ops.MakePtr)}
        self.ops = [op for op in every if arrays(op)]
        self.numbers = {id(op): n for n, op in enumerate(self.ops)}
        self.bits = len(self.ops).bit_length()  # of an op's number in a mark
        self.kinds = np.array([_kind(op) for op in self.ops] or [PLAIN])
        plain = [isinstance(op, ops.Store) and op.order == "weak" for op in self.ops]
        self.stores = np.array(plain or [False])
        self.communicates = any(_learns(op) for op in self.ops)
        self.waits = any(map(_waits, every))
        atomics = any(isinstance(op, ops.Atomic) and op.old is not None for op in every)
        fences = any(isinstance(op, ops.Fence) and op.kind in FENCES for op in every)
        self.releases = self.communicates or (atomics and fences)
        self.grains: dict[str, int] = {}
        self.boxed: set[str] = set()
        for op in self.ops:
            for x in accesses(op):
                if x.space == "gmem":
                    whole = x.packed or x.dtype.bits >= 8
                    size = max(1, x.width * x.dtype.bits // 8) if whole else 1
                    self.grains[x.storage] = gcd(self.grains.get(x.storage, 0), size & -size)
            if isinstance(op, ops.TmaLoad | ops.TmaStore):
                self.boxed.add(op.tensor)
        self.pointed = gcd(*[self.grains.get(name, 0) for name in self.pointers])

    @cached_property
    def origins(self) -> Origins:
        """What the values are made of that the plan stores to global memory."""
        return Origins(self.plan, "gmem")

    def watches(self, names: Collection[str]) -> bool:
        """Return whether any of these arrays may be written, be it through a pointer."""
        return not self.written.isdisjoint({*names, *self.pointers})

    def loads(self, names: Collection[str]) -> bool:
        """Return whether threads load from any of these arrays, be it through a pointer."""
        loaded = {op.src.storage for op in self.ops if isinstance(op, ops.Load)}
        return not loaded.isdisjoint({*names, *self.pointers})

    def changes(self, names: Collection[str]) -> bool:
        """Return whether what these arrays and pointers lead to may be written."""
        through = not self.pointers.isdisjoint(names) and bool(self.written)
        return through or self.watches(names)


def _kind(op: ops.Op) -> int:
    if isinstance(op, ops.Atomic) or (isinstance(op, ops.TmaStore) and op.reduce):
        return STRONG_WRITE
    if isinstance(op, ops.Store) and op.order != "weak":
        return STRONG_WRITE
    strong = isinstance(op, ops.WaitUntil) or (isinstance(op, ops.Load) and op.order != "weak")
    return STRONG_READ if strong else PLAIN


def _waits(op: ops.Op) -> bool:
    """Tell whether an op may last until another block stores to global memory."""
    inside = every((op,)) if isinstance(op, ops.While | ops.WaitUntil) else ()
    return any(_learns(x) and arrays(x) for x in inside)


def _learns(op: ops.Op) -> bool:
    """Tell whether the threads of an op see what others did in global memory, in order."""
    atomic = isinstance(op, ops.Atomic) and op.old is not None and op.dst.space == "gmem"
    return atomic or _kind(op) == STRONG_READ
