"""Shared memory of other blocks of a cluster: who touched it last, and whether that is ordered.

`Shadow` keeps what the threads of a block do in their own shared memory. What threads of other
blocks do there is kept here, granule by granule, as marks: an access by lanes of a warp of a block,
in one of its epochs. Accesses by the block itself, its engines included, are compared with these
marks too. A block must have begun before others access it, and the last access must be ordered
before its end. Source: PTX ISA, mapa; Memory Consistency Model; CUDA C++ Programming Guide,
"Distributed Shared Memory".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.clocks import EPOCH, FENCED, LOW, ORDER, SEVERAL, THREAD, WHO, WHOLE
from cute_py.emulate.faults import line_of
from cute_py.emulate.shadow import ATOMIC, READ, WRITE
from cute_py.emulate.spans import LANES, Array, Span, Thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.emulate.clocks import Clocks
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.shadow import Shadow, Touch
    from cute_py.emulate.spans import Clusters
    from cute_py.emulate.storages import Place, Vectors
    from cute_py.errors import CuteError
    from cute_py.plan.ops import Op

SYNC = "put cute.cluster_sync() between the two"


@dataclass(frozen=True, slots=True)
class Mark:
    """An access: its kind, block, warp, lanes (as bits) and epoch, and the op that made it."""

    kind: str
    block: int
    warp: int
    lanes: int
    epoch: int
    op: Op


@dataclass(frozen=True, slots=True)
class Actor:
    """Who accesses memory now: a block, a warp, a part of it, and some lanes (as bits)."""

    block: int
    warp: int
    part: int
    lanes: int


class Peers:
    """The accesses of a batch to shared memory of other blocks: none yet."""

    def __init__(
        self,
        clocks: Clocks,
        shadow: Shadow | None,
        clusters: Clusters,
        faults: Faults,
        ended: Array,
        lifetimes: bool,
    ) -> None:
        """Begin; `ended` will tell which warps [block, warp] have; `lifetimes`: whether to refuse
        accesses to blocks that may not have begun, or may have ended.
        """
        self.clocks, self.shadow, self.agents = clocks, shadow, clocks.agents
        self.clusters, self.faults = clusters, faults
        self.ended, self.lifetimes = ended, lifetimes
        self.marks: dict[tuple[int, int], list[Mark]] = {}  # block and granule
        self.marked: Array | None = None  # [block, granule]
        self.last: dict[tuple[int, int, int], list[Mark]] = {}  # of block, by block and warp
        if shadow is not None:
            self.marked = np.zeros((len(ended), shadow.granules), np.bool_)
            shadow.judge = self.local

    # -- what is known

    def _bound(self, actor: Actor, block: int, column: int, half: int = ORDER) -> int:
        """Return the bound up to which a part knows an agent of a block."""
        known = self.clocks.clock[actor.block, actor.part, int(self.clusters.rank[block]), half]
        return int(known[column])

    def _knows(self, actor: Actor, mark: Mark, what: int = ORDER) -> bool:
        """Return whether a mark is ordered before what an actor does now, or fenced."""
        clocks, epoch = self.clocks, mark.epoch << EPOCH
        own = (mark.block, mark.warp) == (actor.block, actor.warp)
        if own and mark.lanes == actor.lanes and mark.lanes & (mark.lanes - 1) == 0:
            column = clocks.columns_of(THREAD, np.array(actor.part))
            if what == ORDER or epoch <= clocks.own[actor.block, FENCED, column]:
                return True
        half = int(clocks.visible[actor.block]) if what == FENCED else ORDER
        return all(
            self._bound(actor, mark.block, int(clocks.columns_of(THREAD, part)), half) >= epoch
            for part in np.flatnonzero(clocks.warp == mark.warp)
            if mark.lanes & int(clocks.lanes[part])
        )

    def _mark(self, actor: Actor, kind: str, op: Op) -> Mark:
        clocks = self.clocks
        epoch = int(clocks.epoch[actor.block, clocks.columns_of(THREAD, np.array(actor.part))])
        return Mark(kind, actor.block, actor.warp, actor.lanes, epoch, op)

    # -- accesses of other blocks

    def access(self, span: Span, lanes: Array, vectors: Vectors, place: Place, kind: str) -> None:
        """Judge and remember an access of lanes [block, warp, lane] at a place in other blocks."""
        if place.blocks is None:
            return
        clocks, op = self.clocks, vectors.op
        clocks.apart()
        shape = (*span.shape, vectors.count)
        blocks = np.broadcast_to(place.blocks, shape)
        offsets = np.broadcast_to(place.offsets, shape)
        active = np.broadcast_to(True if place.active is None else place.active, shape)
        active = active & lanes[..., None]
        for b, w in np.argwhere(active.any((2, 3))).tolist():
            # by part and block: the lanes, and of each granule the lanes and an element
            found: dict[tuple[int, int], tuple[list[int], dict[int, list[int]]]] = {}
            for lane, v in np.argwhere(active[b, w]).tolist():
                key = int(clocks.of[span.W[w], lane]), int(blocks[b, w, lane, v])
                all_lanes, granules = found.setdefault(key, ([], {}))
                all_lanes.append(lane)
                for g in self._granules(vectors, int(offsets[b, w, lane, v])):
                    held = granules.setdefault(g, [0, int(offsets[b, w, lane, v])])
                    held[0] |= 1 << lane
            for (part, block), (all_lanes, granules) in found.items():
                bits = sum(1 << lane for lane in set(all_lanes))
                actor = Actor(int(span.B[b]), int(span.W[w]), part, bits)
                lane = (bits & -bits).bit_length() - 1
                self._reach(span, op, (b, w, lane), actor, block)
                self._judge(span, vectors, (b, w), actor, block, granules, kind)

    def _granules(self, vectors: Vectors, offset: int) -> Iterable[int]:
        if self.shadow is None:
            return ()
        size = self.shadow.granule
        start = vectors.start + offset * vectors.dtype.bits // 8
        return range(start // size, start // size + max(1, vectors.nbytes // size))

    def _reach(self, span: Span, op: Op, where: Thread, actor: Actor, block: int) -> None:
        """Require that a block has begun and not ended, and remember who was there."""
        if block == actor.block or not self.lifetimes:
            return
        name = self.faults.block(block)
        known = self.clocks.clock[actor.block, actor.part, int(self.clusters.rank[block]), 0]
        if known.max() <= LOW:
            raise self.faults.at("emulate-peer-begin", op, span, where, block=name)
        if self.ended[block].all():
            raise self.faults.ending(op, block, "has ended, and a thread of another block uses")
        mark = self._mark(actor, "", op)
        kept = self.last.setdefault((block, actor.block, actor.warp), [])
        older = [Mark(m.kind, m.block, m.warp, m.lanes & ~mark.lanes, m.epoch, m.op) for m in kept]
        kept[:] = [mark, *[m for m in older if m.lanes]]

    def _judge(
        self,
        span: Span,
        vectors: Vectors,
        at: tuple[int, int],
        actor: Actor,
        block: int,
        granules: dict[int, list[int]],
        kind: str,
    ) -> None:
        shadow = self.shadow
        if shadow is None or self.marked is None:
            return
        number = shadow.number(vectors.op)
        for g, (lanes, offset) in granules.items():
            mine = Actor(actor.block, actor.warp, actor.part, lanes)
            where = (*at, (lanes & -lanes).bit_length() - 1)
            facts = {"storage": vectors.access.storage, "offset": offset}
            self._after_owner(span, vectors.op, where, mine, (block, g), kind, facts)
            kept = self.marks.setdefault((block, g), [])
            late = self._late(mine, kept, kind)
            if late is not None:
                raise self._race(span, vectors.op, where, late, kind, facts)
            mark = self._mark(mine, kind, vectors.op)
            if kind == WRITE:
                kept[:] = [mark]
                shadow.last[block, g] = 1  # in epoch 0, which everybody knows: the marks say more
                shadow.wrote[block, g] = number
            elif mark not in kept:
                kept[:] = [*[m for m in kept if m.kind != kind or not self._knows(mine, m)], mark]
            self.marked[block, g] = True

    def _late(self, actor: Actor, kept: list[Mark], kind: str) -> Mark | None:
        """Return a mark that conflicts with an access and is not ordered before it, or None."""
        for mark in kept:
            if (kind == mark.kind and kind != WRITE) or self._knows(actor, mark):
                continue
            return mark
        return None

    def _after_owner(
        self,
        span: Span,
        op: Op,
        where: Thread,
        actor: Actor,
        at: tuple[int, int],
        kind: str,
        facts: dict[str, Any],
    ) -> None:
        """Require that what the block did itself, or its engines, is ordered before an access."""
        shadow, clocks = self.shadow, self.clocks
        assert shadow is not None
        (block, _), written = at, int(shadow.last[at])
        if kind != WRITE and not shadow.holds(*at):
            facts = facts | {"since": shadow.since(*at)}
            raise self.faults.at("emulate-smem-unwritten", op, span, where, **facts)
        who, warp = written & WHO, self.agents.warp(written & WHO)
        lanes = 1 << who % LANES
        if written & (SEVERAL | WHOLE) and self.agents.kind(who) == THREAD:
            every = -1 if written & WHOLE or shadow.writers is None else int(shadow.writers[at])
            lanes = every & LOW
        if self.agents.kind(who) == THREAD:
            earlier = Mark(WRITE, block, warp, lanes, written >> EPOCH, op)
            late = written > LOW and not self._knows(actor, earlier)
        else:
            late = written > self._bound(actor, block, int(clocks.column[who]))
        if late:
            lanes = 0 if lanes & (lanes - 1) else lanes
            raise self._of(
                span,
                op,
                where,
                (who, lanes, shadow.ops[int(shadow.wrote[at])]),
                (WRITE, block, kind),
                facts,
            )
        rank = None if block == actor.block else int(self.clusters.rank[block])
        by = actor.block, actor.part, actor.lanes
        for readers in (
            shadow.reads if kind != READ else None,
            shadow.atomics if kind != ATOMIC else None,
        ):
            if readers is None:
                continue
            for reader in np.flatnonzero(readers.table[at]).tolist():
                if readers.unknown(by, at, reader, rank):
                    verb, who, some, by_op = shadow.earlier(readers, at, reader)
                    raise self._of(span, op, where, (who, some, by_op), (verb, block, kind), facts)

    # -- accesses of the block itself

    def local(self, touch: Touch, kind: str) -> None:
        """Judge an access of threads to their own shared memory, after those of other blocks."""
        if self.marked is None or not self.marks:
            return
        rows, parts, lanes, granules = np.broadcast_arrays(*touch.entries[:4])
        for k in np.flatnonzero(self.marked[rows, granules]).tolist():
            b, part, g = int(rows.flat[k]), int(parts.flat[k]), int(granules.flat[k])
            actor = Actor(b, int(self.clocks.warp[part]), part, int(lanes.flat[k]))
            late = self._late(actor, self.marks.get((b, g), []), kind)
            if late is not None:
                assert self.shadow is not None
                raise self.shadow.late(touch, k, *self.told(late), self._access(kind))
            if kind == WRITE:
                self.marks.pop((b, g), None)
                self.marked[b, g] = False

    def engine(
        self, actor: Actor, block: int, granules: Array, writes: bool
    ) -> tuple[int, Mark, bool] | None:
        """Judge an access of an engine to shared memory of a block, for an actor that issues it,
        after those of other blocks. Return the number of the first granule that it comes too early
        to, the mark, and whether only a fence is missing; None where it is right.
        """
        if self.marked is None or not self.marks:
            return None
        kind = WRITE if writes else READ
        for k in np.flatnonzero(self.marked[block, granules]).tolist():
            g = int(granules[k])
            kept = self.marks[block, g]
            late = self._late(actor, kept, kind)
            if late is not None:
                return k, late, False
            for mark in kept:
                if mark.kind != READ and not self._knows(actor, mark, FENCED):
                    return k, mark, True
            if writes:
                del self.marks[block, g]
                self.marked[block, g] = False
        return None

    # -- the end

    def require_over(self) -> None:
        """Refuse blocks that ended while others still accessed their shared memory."""
        clocks = self.clocks
        if not self.lifetimes:
            return
        for (block, source, warp), kept in self.last.items():
            known = clocks.clock[block, :, int(self.clusters.rank[source]), 0].max(axis=0)
            for mark in kept:
                parts = np.flatnonzero((clocks.warp == warp) & (clocks.lanes & mark.lanes != 0))
                bounds = known[clocks.columns_of(THREAD, parts)]
                if (bounds < mark.epoch << EPOCH).any():
                    use = f"block {self.faults.block(source)} accesses ({line_of(mark.op)})"
                    raise self.faults.ending(mark.op, block, use)

    # -- errors

    @staticmethod
    def _access(kind: str) -> str:
        return {READ: "read", WRITE: "write", ATOMIC: "write"}[kind]

    def told(self, mark: Mark) -> tuple[str, str]:
        """Return an earlier access in words, and the fix."""
        lanes = mark.lanes
        lane = f", lane {lanes.bit_length() - 1}" if lanes & (lanes - 1) == 0 else ""
        block = self.faults.block(mark.block)
        return f"{mark.kind} warp {mark.warp}{lane} of block {block} ({line_of(mark.op)})", SYNC

    def _race(
        self,
        span: Span,
        op: Op,
        where: Thread,
        late: Mark,
        kind: str,
        facts: dict[str, Any],
    ) -> CuteError:
        other, fix = self.told(late)
        facts = facts | {"access": self._access(kind), "other": other, "fix": fix}
        return self.faults.at("emulate-race", op, span, where, **facts)

    def _of(
        self,
        span: Span,
        op: Op,
        where: Thread,
        earlier: tuple[int, int, Op],
        how: tuple[str, int, str],
        facts: dict[str, Any],
    ) -> CuteError:
        """Return the error of an access after one by the block itself."""
        assert self.shadow is not None
        verb, block, kind = how
        code, more = self.shadow.told(*earlier, verb, None)
        if code == "emulate-copy-pending":  # of another block: no wait of this one helps
            code, more = "emulate-race", {"other": f"a copy by cp.async ({line_of(earlier[2])})"}
        if "other" in more:
            more |= {"other": f"{more['other']} of block {self.faults.block(block)}", "fix": SYNC}
        return self.faults.at(code, op, span, where, access=self._access(kind), **facts, **more)
