"""Asynchronous engines of a block: their numbers as agents, mbarriers, and what they touch.

Agents are, in this order: warps, the cp.async engine of each warp, the TMA loads of each mbarrier,
the wgmma engine of each warpgroup, and the TMA stores of each warp. Here all of them work at once
when they are asked; that their results count only after the right wait is judged by the clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.shadow import AGENT, EPOCH
from cute_py.emulate.spans import Array, Cohort
from cute_py.plan import ops

if TYPE_CHECKING:
    from cute_py.emulate.access import Located
    from cute_py.emulate.build import Build

ASYNC = (
    *(ops.MbarInit, ops.MbarArrive, ops.MbarWait, ops.CpArrive),
    *(ops.TmaLoad, ops.TmaStore, ops.Wgmma),
)


class Engines:
    """The engines and mbarriers of a batch."""

    def __init__(self, build: Build, every: list[ops.Op]) -> None:
        """Number the agents; storages that ops name as mbarriers get slots of 8 bytes."""
        self.build = build
        self.first_slot: dict[str, int] = {}
        self.slots = 0
        rows = {row.name: row for row in build.plan.shared}
        for op in every:
            bar = getattr(op, "bar", None)
            if bar is not None and bar.storage not in self.first_slot:
                self.first_slot[bar.storage] = self.slots
                self.slots += -(-rows[bar.storage].bytes // 8)
        used = any(isinstance(op, ASYNC) for op in every)
        W = build.warps
        self.tma = 2 * W
        self.wgmma = self.tma + self.slots
        self.bulk = self.wgmma + (-(-W // 4) if used else 0)
        self.agents = self.bulk + (W if used else 0)
        x, y, z = build.plan.launch.cluster
        self.cluster = x * y * z

    def begin(self) -> None:
        """Begin a batch: no mbarrier is initialised."""
        shape = self.build.blocks, self.slots
        self.count, self.pending, self.bytes, self.phase = (
            np.zeros(shape, np.int64) for _ in range(4)
        )
        self.arriving = np.zeros((*shape, 2 * self.agents), np.int32)
        self.complete = np.zeros((*shape, 2 * self.agents), np.int32)
        self.granules: dict[tuple[Located, int], Array] = {}
        self.clusters()

    # -- clusters

    def clusters(self) -> None:
        """Number the blocks of the batch by cluster and by rank in it."""
        gx, gy, _ = self.build.grid
        cx, cy, cz = self.build.plan.launch.cluster
        n = np.arange(self.build.blocks) + self.build.faults.first
        x, y, z = n % max(gx, 1), n // max(gx, 1) % max(gy, 1), n // max(gx * gy, 1)
        self.rank = x % cx + cx * (y % cy + cy * (z % cz))
        across = -(-gx // cx), -(-gy // cy)
        self.cluster_of = x // cx + across[0] * (y // cy + across[1] * (z // cz))
        order = np.lexsort((self.rank, self.cluster_of))
        self.members: dict[int, Array] = {}
        for b in order.tolist():
            known = self.members.get(int(self.cluster_of[b]), np.zeros(0, np.int64))
            self.members[int(self.cluster_of[b])] = np.append(known, b)

    def block_of(self, b: int, rank: int) -> int:
        """Return the block of a rank in the cluster of block b."""
        return int(self.members[int(self.cluster_of[b])][rank])

    # -- mbarriers

    def slot(self, located: Located, offsets: Array) -> Array:
        """Return the slots of mbarriers at these offsets of a storage."""
        first = self.first_slot[located.access.storage]
        slots: Array = first + offsets * located.dtype.bits // 64
        return slots

    def name(self, slot: int) -> str:
        """Return an mbarrier in words."""
        for storage, first in reversed(list(self.first_slot.items())):
            if slot >= first:
                return f"mbarrier {storage}[{slot - first}]"
        return f"mbarrier {slot}"

    def settle(self, b: int, slot: int) -> None:
        """Complete the phase if nothing is missing."""
        if self.pending[b, slot] == 0 and self.bytes[b, slot] == 0:
            self.pending[b, slot] = self.count[b, slot]
            self.phase[b, slot] += 1
            self.complete[b, slot] = self.arriving[b, slot]
            self.arriving[b, slot] = 0

    def land(self, b: int, slot: int, nbytes: int) -> None:
        """Take bytes of a TMA load into account."""
        shadow = self.build.shadow
        if shadow is not None:
            agent = self.tma + slot
            self.arriving[b, slot, agent] = shadow.epoch[b, agent]
        self.bytes[b, slot] -= nbytes
        phase = self.phase[b, slot]
        self.settle(b, slot)
        if shadow is not None and self.phase[b, slot] != phase:
            shadow.epoch[b, self.tma + slot] += 1

    # -- who touches shared memory

    def touch(
        self,
        op: ops.Op,
        c: Cohort,
        located: Located,
        issue: tuple[int, int, int],
        offsets: Array,
        agent: int,
        writes: bool,
        target: int | None = None,
    ) -> None:
        """Judge and remember that an engine reads or writes elements of a block's storage.

        Args:
            op: the op.
            c: the cohort that issues it.
            located: the storage.
            issue: row of block, of warp, and lane that issue it.
            offsets: the elements.
            agent: the engine.
            writes: whether it writes.
            target: the block, if that is another one of the cluster; then only later accesses are
                judged.
        """
        shadow = self.build.shadow
        if shadow is None:
            return
        shadow.apart()
        own = int(c.span.B[issue[0]])
        b = own if target is None else target
        g = self._granules(located, offsets, shadow.granule)
        written = shadow.last[b, g]
        if b == own:
            self._judge(op, c, located, issue, g, written, writes)
        if writes:
            shadow.last[b, g] = agent << AGENT | int(shadow.epoch[b, agent])
        else:
            shadow.reads[b, g, agent] = shadow.epoch[b, agent]

    def _granules(self, located: Located, offsets: Array, granule: int) -> Array:
        """Return the granules of elements; those of the same elements are found once."""
        key = located, hash(offsets.tobytes())
        found = self.granules.get(key)
        if found is None:
            start = located.start + offsets.reshape(-1) * located.dtype.bits // 8
            count = max(1, located.bits // 8 // granule)
            found = np.unique(start[:, None] // granule + np.arange(count))
            self.granules[key] = found
        return found

    def _judge(
        self,
        op: ops.Op,
        c: Cohort,
        located: Located,
        issue: tuple[int, int, int],
        g: Array,
        written: Array,
        writes: bool,
    ) -> None:
        shadow = self.build.shadow
        assert shadow is not None
        b, w, A = int(c.span.B[issue[0]]), int(c.span.W[issue[1]]), shadow.agents
        clock, who = shadow.clock[b, w], written >> AGENT
        late = (written & EPOCH) > clock[who]
        if writes:
            readers = shadow.reads[b, g] > clock[:A]
            who = np.where(late, who, readers.argmax(-1))
            verb = np.where(late, "write", "read")
            late = late | readers.any(-1)
        else:
            verb = np.full(len(g), "write")
            if not written.all():
                k = int(np.argmin(written != 0))
                offset = self._element(located, int(g[k]))
                raise self.build.faults.at(
                    "emulate-smem-unwritten",
                    op,
                    c,
                    issue,
                    storage=located.access.storage,
                    offset=offset,
                )
        facts: dict[str, object] = {
            "storage": located.access.storage,
            "access": "write" if writes else "read",
        }
        if late.any():
            k = int(np.argmax(late))
            agent = int(who[k])
            facts |= {"offset": self._element(located, int(g[k])), "agent": agent}
            if agent >= shadow.warps:
                engine, fix = self.words(agent)
                facts |= {"engine": engine, "fix": fix}
                raise self.build.faults.at("emulate-async-pending", op, c, issue, **facts)
            facts["other"] = f"a {verb[k]} by {shadow.name(agent)}"
            raise self.build.faults.at("emulate-race", op, c, issue, **facts)
        writer = written >> AGENT
        generic = (writer < 2 * shadow.warps) & (written != 0)
        hidden = generic & ((written & EPOCH) > clock[A + writer])
        if hidden.any():
            k = int(np.argmax(hidden))
            facts |= {"offset": self._element(located, int(g[k])), "agent": int(writer[k])}
            facts["other"] = shadow.name(int(writer[k]))
            raise self.build.faults.at(
                "emulate-proxy-fence", op, c, issue, op_name=type(op).__name__, **facts
            )

    def _element(self, located: Located, granule: int) -> int:
        shadow = self.build.shadow
        assert shadow is not None
        start = granule * shadow.granule - located.start
        return max(0, start * 8 // located.dtype.bits)

    def words(self, agent: int) -> tuple[str, str]:
        """Return an engine in words, and what waits for it."""
        if agent >= self.bulk:
            return f"a TMA store of warp {agent - self.bulk}", "wait for it with BulkWait first"
        if agent >= self.wgmma:
            return f"wgmma of warpgroup {agent - self.wgmma}", "wait for it with WgWait first"
        if agent >= self.tma:
            name = self.name(agent - self.tma)
            return f"a TMA load that completes on {name}", f"wait for {name} first, with its phase"
        warps = self.build.warps
        return f"cp.async of warp {agent - warps}", "wait for it with CpWait and a barrier"
