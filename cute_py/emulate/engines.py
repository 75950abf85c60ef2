"""Asynchronous engines of a batch: its mbarriers and clusters, and what the engines touch.

Here all engines work at once when they are asked; that their results count only after the right
wait is judged by the clocks of `shadow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.shadow import AGENT, EPOCH, Agents, Shadow
from cute_py.emulate.spans import Array, Span

if TYPE_CHECKING:
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.storages import Vectors
    from cute_py.plan.ops import Op


class Engines:
    """The engines and mbarriers of a batch: none is initialised."""

    def __init__(
        self,
        agents: Agents,
        shadow: Shadow | None,
        faults: Faults,
        blocks: int,
        cluster: tuple[int, int, int],
    ) -> None:
        """Make the tables; `cluster` is its shape (blocks)."""
        self.agents, self.shadow, self.faults = agents, shadow, faults
        shape = blocks, agents.slots
        self.count, self.pending, self.bytes, self.phase = (
            np.zeros(shape, np.int64) for _ in range(4)
        )
        self.arriving = np.zeros((*shape, 2 * agents.count), np.int32)
        self.complete = np.zeros((*shape, 2 * agents.count), np.int32)
        self.granules: dict[tuple[Vectors, int], Array] = {}
        self._number(blocks, cluster)

    # -- clusters

    def _number(self, blocks: int, cluster: tuple[int, int, int]) -> None:
        """Number the blocks of the batch by cluster and by rank in it."""
        gx, gy, _ = self.faults.grid
        cx, cy, cz = cluster
        n = np.arange(blocks) + self.faults.first
        x, y, z = n % max(gx, 1), n // max(gx, 1) % max(gy, 1), n // max(gx * gy, 1)
        self.rank = x % cx + cx * (y % cy + cy * (z % cz))
        across = -(-gx // cx), -(-gy // cy)
        self.cluster_of = x // cx + across[0] * (y // cy + across[1] * (z // cz))

    def block_of(self, b: int, rank: int) -> int:
        """Return the block of a rank in the cluster of block b."""
        members = np.flatnonzero(self.cluster_of == self.cluster_of[b])
        return int(members[np.argsort(self.rank[members])][rank])

    # -- mbarriers

    def settle(self, b: int, slot: int) -> None:
        """Complete the phase if nothing is missing."""
        if self.pending[b, slot] == 0 and self.bytes[b, slot] == 0:
            self.pending[b, slot] = self.count[b, slot]
            self.phase[b, slot] += 1
            self.complete[b, slot] = self.arriving[b, slot]
            self.arriving[b, slot] = 0

    def land(self, b: int, slot: int, nbytes: int) -> None:
        """Take bytes of a TMA load into account."""
        shadow = self.shadow
        if shadow is not None:
            agent = self.agents.tma + slot
            self.arriving[b, slot, agent] = shadow.epoch[b, agent]
        self.bytes[b, slot] -= nbytes
        phase = self.phase[b, slot]
        self.settle(b, slot)
        if shadow is not None and self.phase[b, slot] != phase:
            shadow.epoch[b, self.agents.tma + slot] += 1

    # -- who touches shared memory

    def touch(
        self,
        op: Op,
        span: Span,
        vectors: Vectors,
        issue: tuple[int, int, int],
        offsets: Array,
        agent: int,
        writes: bool,
        target: int | None = None,
    ) -> None:
        """Judge and remember that an engine reads or writes elements of a block's storage.

        Args:
            op: the op.
            span: where it is issued.
            vectors: the storage.
            issue: row of block, of warp, and lane that issue it.
            offsets: the elements.
            agent: the engine.
            writes: whether it writes.
            target: the block, if that is another one of the cluster; then only later accesses are
                judged.
        """
        shadow = self.shadow
        if shadow is None:
            return
        shadow.apart()
        own = int(span.B[issue[0]])
        b = own if target is None else target
        g = self._granules(vectors, offsets, shadow.granule)
        written = shadow.last[b, g]
        if b == own:
            self._judge(op, span, vectors, issue, g, written, writes)
        if writes:
            shadow.last[b, g] = agent << AGENT | int(shadow.epoch[b, agent])
        else:
            shadow.reads[b, g, agent] = shadow.epoch[b, agent]

    def _granules(self, vectors: Vectors, offsets: Array, granule: int) -> Array:
        """Return the granules of elements; those of the same elements are found once."""
        key = vectors, hash(offsets.tobytes())
        found = self.granules.get(key)
        if found is None:
            start = vectors.start + offsets.reshape(-1) * vectors.dtype.bits // 8
            count = max(1, vectors.bits // 8 // granule)
            found = np.unique(start[:, None] // granule + np.arange(count))
            self.granules[key] = found
        return found

    def _judge(
        self,
        op: Op,
        span: Span,
        vectors: Vectors,
        issue: tuple[int, int, int],
        g: Array,
        written: Array,
        writes: bool,
    ) -> None:
        shadow = self.shadow
        assert shadow is not None
        b, w, A = int(span.B[issue[0]]), int(span.W[issue[1]]), shadow.agents
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
                offset = self._element(vectors, int(g[k]))
                raise self.faults.at(
                    "emulate-smem-unwritten",
                    op,
                    span,
                    issue,
                    storage=vectors.access.storage,
                    offset=offset,
                )
        facts: dict[str, object] = {
            "storage": vectors.access.storage,
            "access": "write" if writes else "read",
        }
        if late.any():
            k = int(np.argmax(late))
            agent = int(who[k])
            facts |= {"offset": self._element(vectors, int(g[k])), "agent": agent}
            if agent >= shadow.warps:
                engine, fix = self.agents.engine(agent)
                facts |= {"engine": engine, "fix": fix}
                raise self.faults.at("emulate-async-pending", op, span, issue, **facts)
            facts["other"] = f"a {verb[k]} by {self.agents.name(agent)}"
            raise self.faults.at("emulate-race", op, span, issue, **facts)
        writer = written >> AGENT
        generic = (writer < 2 * shadow.warps) & (written != 0)
        hidden = generic & ((written & EPOCH) > clock[A + writer])
        if hidden.any():
            k = int(np.argmax(hidden))
            facts |= {"offset": self._element(vectors, int(g[k])), "agent": int(writer[k])}
            facts["other"] = self.agents.name(int(writer[k]))
            raise self.faults.at(
                "emulate-proxy-fence", op, span, issue, op_name=type(op).__name__, **facts
            )

    def _element(self, vectors: Vectors, granule: int) -> int:
        shadow = self.shadow
        assert shadow is not None
        start = granule * shadow.granule - vectors.start
        return max(0, start * 8 // vectors.dtype.bits)
