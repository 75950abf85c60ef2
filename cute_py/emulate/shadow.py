"""Who touched shared memory last, and what orders it: happens-before by vector clocks.

Agents of a block are its warps, the cp.async engine of each warp, and further ones. Each agent
counts its epochs; an access is remembered as (agent, epoch). It is ordered before what a warp does
now if the warp's clock of that agent has reached the epoch. Barriers join the clocks of those who
meet; CpWait lifts the warp's clock of its own engine. Of every granule the last write and the last
read of each agent are kept.

As long as all blocks did the same, one row stands for all of them. What one warp does is in program
order. The check proves the executed order of this run only: other orders of the same kernel may
race elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.spans import LANES, Array, Span

if TYPE_CHECKING:
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.storages import Place, Vectors
    from cute_py.errors import CuteError
    from cute_py.plan.plan import Plan

SELF = 1 << 23  # a warp's clock of itself: all that it did is ordered
EPOCH = 0xFFFFFF
AGENT = 24  # a write is agent << 24 | epoch; 0: not written


@dataclass(slots=True, eq=False)
class Touch:
    """The granules that an access touches.

    Attributes:
        span: who touches them.
        vectors: the access.
        place: its addresses.
        b, w, g: of each granule that a warp touches: row of its block (or 0), warp, granule.
    """

    span: Span
    vectors: Vectors
    place: Place
    b: Array
    w: Array
    g: Array


class Agents:
    """The numbers of the agents of a block, in this order: warps, the cp.async engine of each warp,
    the TMA loads of each mbarrier, the wgmma engine of each warpgroup, the TMA stores of each warp.
    """

    def __init__(self, plan: Plan, warps: int, bars: list[str], engines: bool) -> None:
        """Number them; `bars` are the storages of mbarriers, which get slots of 8 bytes, and
        `engines` tells whether wgmma and TMA are used.
        """
        self.warps = warps
        self.first_slot: dict[str, int] = {}
        self.slots = 0
        rows = {row.name: row for row in plan.shared}
        for bar in dict.fromkeys(bars):
            self.first_slot[bar] = self.slots
            self.slots += -(-rows[bar].bytes // 8)
        self.tma = 2 * warps
        self.wgmma = self.tma + self.slots
        self.bulk = self.wgmma + (-(-warps // 4) if engines else 0)
        self.count = self.bulk + (warps if engines else 0)

    def slot(self, bar: Vectors, offsets: Array) -> Array:
        """Return the slots of mbarriers at these offsets of a storage."""
        first = self.first_slot[bar.access.storage]
        slots: Array = first + offsets * bar.dtype.bits // 64
        return slots

    def mbarrier(self, slot: int) -> str:
        """Return an mbarrier in words."""
        for storage, first in reversed(list(self.first_slot.items())):
            if slot >= first:
                return f"mbarrier {storage}[{slot - first}]"
        return f"mbarrier {slot}"

    def name(self, agent: int) -> str:
        """Return an agent in words."""
        return f"warp {agent}" if agent < self.warps else self.engine(agent)[0]

    def engine(self, agent: int) -> tuple[str, str]:
        """Return an engine in words, and what waits for it."""
        if agent >= self.bulk:
            return f"a TMA store of warp {agent - self.bulk}", "wait for it with BulkWait first"
        if agent >= self.wgmma:
            return f"wgmma of warpgroup {agent - self.wgmma}", "wait for it with WgWait first"
        if agent >= self.tma:
            name = self.mbarrier(agent - self.tma)
            return f"a TMA load that completes on {name}", f"wait for {name} first, with its phase"
        return f"cp.async of warp {agent - self.warps}", "wait for it with CpWait and a barrier"


class Grain:
    """How finely shared memory is watched: in granules of `size` bytes, atomics apart."""

    def __init__(self, size: int, stride: int, atomics: bool) -> None:
        """Keep the size; `stride` is a block's shared memory (bytes)."""
        self.size, self.atomics = size, atomics
        self.granules = max(1, stride // size)

    def bytes_per_block(self, agents: int) -> int:
        """Return how much memory a block needs if all of them differ."""
        return self.granules * 4 * (1 + agents * (2 if self.atomics else 1))


class Shadow:
    """The clocks and the last accesses of a batch: nothing written."""

    def __init__(self, agents: Agents, grain: Grain, blocks: int, faults: Faults) -> None:
        self.words, self.faults, self.blocks = agents, faults, blocks
        self.warps, self.agents = agents.warps, agents.count
        self.granule, self.granules = grain.size, grain.granules
        self.rows = 1
        self.last = np.zeros((1, self.granules), np.int32)
        self.reads = np.zeros((1, self.granules, self.agents), np.int32)
        self.atomic = np.zeros_like(self.reads) if grain.atomics else None
        self.epoch = np.ones((1, self.agents), np.int32)
        self.clock = np.zeros((1, self.warps, 2 * self.agents), np.int32)
        each = np.arange(self.warps)
        self.clock[:, each, each] = SELF

    def apart(self) -> None:
        """Give every block a row of its own."""
        if self.rows < self.blocks:
            self.rows = self.blocks
            for name in ("last", "reads", "atomic", "epoch", "clock"):
                array = getattr(self, name)
                if array is not None:
                    setattr(self, name, np.repeat(array, self.blocks, axis=0))

    def rows_of(self, span: Span, together: bool) -> Array:
        """Return the rows of a cohort's blocks; one for all if they do the same."""
        if self.rows == 1:
            if together and span.nB == self.blocks:
                return np.zeros(1, np.int64)
            self.apart()
            if self.rows == 1:
                return np.zeros(1, np.int64)
        return span.B

    # -- accesses

    def touch(self, span: Span, vectors: Vectors, place: Place) -> Touch:
        """Return the granules that each warp touches."""
        key = "granules", vectors.nbytes
        found = place.extra.get(key)
        if found is None:
            found = place.extra[key] = self._granules(span, vectors, place)
        b, w, g = found
        rows = self.rows_of(span, together=b is None)
        if b is not None:
            b = rows[b] if len(rows) > 1 else rows[:1][np.zeros_like(b)]
        elif len(rows) == 1:
            b = rows
        else:
            b, w, g = rows[:, None], w[None], g[None]
        return Touch(span, vectors, place, b, w, g)

    def _granules(
        self, span: Span, vectors: Vectors, place: Place
    ) -> tuple[Array | None, Array, Array]:
        offsets, active = place.offsets, place.active
        bits = vectors.dtype.bits
        start = vectors.start + offsets * bits // 8
        count = -(-vectors.bits // 8 // self.granule) or 1
        g = start[..., None] // self.granule + np.arange(count)
        together = g.shape[0] == 1 and (active is None or active.shape[0] == 1)
        shape = (1 if together else span.nB, span.nW, LANES, *g.shape[3:])
        g = np.broadcast_to(g, shape)
        w = np.broadcast_to(span.W[None, :, None, None, None], shape)
        b = np.broadcast_to(np.arange(shape[0])[:, None, None, None, None], shape)
        if active is not None:
            chosen = np.broadcast_to(active[..., None], shape)
            b, w, g = b[chosen], w[chosen], g[chosen]
        else:
            b, w, g = b.reshape(-1), w.reshape(-1), g.reshape(-1)
        if vectors.keeps and len(g) > 1:
            merged = (b * self.warps + w) * self.granules + g
            distinct = np.unique(merged)
            if len(distinct) < len(merged):
                b, rest = np.divmod(distinct, self.warps * self.granules)
                w, g = np.divmod(rest, self.granules)
        return (None if together else b), w, g

    def _ordered(self, written: Array, touch: Touch) -> Array:
        """Return where the writes come before what the warps do."""
        at = (touch.b * self.warps + touch.w) * 2 * self.agents + (written >> AGENT)
        return (written & EPOCH) <= self.clock.reshape(-1).take(at)

    def read(self, span: Span, vectors: Vectors, place: Place) -> None:
        """Check a read, and remember it."""
        touch = self.touch(span, vectors, place)
        at = touch.b * self.granules + touch.g
        written = self.last.reshape(-1).take(at)
        if not written.all():
            self._unwritten(touch, written == 0)
        ordered = self._ordered(written, touch)
        if not ordered.all():
            self._race(touch, ~ordered, "read", written >> AGENT)
        if self.atomic is not None:
            self._against(self.atomic, touch, "read", "an atomic of")
        self.reads.reshape(-1)[at * self.agents + touch.w] = self.epoch[touch.b, touch.w]

    def write(
        self, span: Span, vectors: Vectors, place: Place, engine: int = 0, atomic: bool = False
    ) -> None:
        """Check a write by warps, or by agents so many after them, and remember it."""
        touch = self.touch(span, vectors, place)
        b, w = touch.b, touch.w
        at = b * self.granules + touch.g
        written = self.last.reshape(-1).take(at)
        ordered = self._ordered(written, touch)
        if not ordered.all():
            self._race(touch, ~ordered, "write", written >> AGENT)
        self._against(self.reads, touch, "write", "a read by")
        if atomic:
            assert self.atomic is not None
            self.atomic.reshape(-1)[at * self.agents + w] = self.epoch[b, w]
            if not written.all():  # an atomic needs a value to begin with
                self._unwritten(touch, written == 0)
            return
        if self.atomic is not None:
            self._against(self.atomic, touch, "write", "an atomic of")
        agent = w + engine
        stamp = (agent << AGENT | self.epoch[b, agent]).astype(np.int32)
        last = self.last.reshape(-1)
        last[at] = stamp
        again = last.take(at)
        if not np.array_equal(again, np.broadcast_to(stamp, again.shape)):
            self._race(touch, again != stamp, "write", again >> AGENT)

    def _against(self, table: Array, touch: Touch, access: str, other: str) -> None:
        late = table[touch.b, touch.g] > self.clock[touch.b, touch.w, : self.agents]
        if late.any():
            self._race(touch, late.any(-1), access, late.argmax(-1), other)

    # -- errors

    def _thread(self, touch: Touch, bad: Array) -> tuple[tuple[int, ...], int, int]:
        """Return the first thread of the bad entries, the entry, and the element."""
        span, vectors, place = touch.span, touch.vectors, touch.place
        shape = np.broadcast_shapes(touch.b.shape, touch.w.shape, touch.g.shape)
        bad = np.broadcast_to(bad, shape)
        k = int(np.argmax(bad))
        b, w, g = (
            int(np.broadcast_to(each, bad.shape).flat[k]) for each in (touch.b, touch.w, touch.g)
        )
        row = int(np.flatnonzero(b == span.B)[0]) if self.rows > 1 else 0
        warp = int(np.flatnonzero(w == span.W)[0])
        offsets = np.broadcast_to(place.offsets, (*span.shape, vectors.count))[row, warp]
        starts = (vectors.start + offsets * vectors.dtype.bits // 8) // self.granule
        count = -(-vectors.bits // 8 // self.granule) or 1
        touches = (starts <= g) & (g < starts + count)
        if place.active is not None:
            touches &= np.broadcast_to(place.active, (*span.shape, vectors.count))[row, warp]
        lane, vector = np.unravel_index(int(np.argmax(touches)), touches.shape)
        return (row, warp, int(lane)), k, int(offsets[lane, vector])

    def _fault(self, code: str, touch: Touch, where: tuple[int, ...], **facts: Any) -> CuteError:
        op, storage = touch.vectors.op, touch.vectors.access.storage
        return self.faults.at(code, op, touch.span, where, storage=storage, **facts)

    def _unwritten(self, touch: Touch, bad: Array) -> None:
        where, _, offset = self._thread(touch, bad)
        raise self._fault("emulate-smem-unwritten", touch, where, offset=offset)

    def _race(self, touch: Touch, bad: Array, access: str, agents: Array, other: str = "") -> None:
        where, k, offset = self._thread(touch, bad)
        agent = int(np.broadcast_to(agents, np.broadcast_shapes(bad.shape, agents.shape)).flat[k])
        facts: dict[str, Any] = {"offset": offset, "access": access, "agent": agent}
        if agent >= 2 * self.warps:
            facts["engine"], facts["fix"] = self.words.engine(agent)
            raise self._fault("emulate-async-pending", touch, where, **facts)
        if self.warps <= agent < 2 * self.warps:
            raise self._copy_pending(touch, where, k, facts)
        if agent == int(touch.span.W[where[1]]) and not other:
            other = "another lane's write by"
        facts["other"] = f"{other or 'a write by'} {self.words.name(agent)}"
        raise self._fault("emulate-race", touch, where, **facts)

    def _copy_pending(
        self, touch: Touch, where: tuple[int, ...], k: int, facts: dict[str, Any]
    ) -> CuteError:
        """Return the error of cp.async data that is used too early, with the wait that is right."""
        rows, _w, granules = np.broadcast_arrays(touch.b, touch.w, touch.g)
        row, agent = int(rows.flat[k]), facts["agent"]
        owner = agent - self.warps
        epoch = int(self.last[row, int(granules.flat[k])] & EPOCH)
        committed = int(self.epoch[row, agent]) - 1
        waited = int(self.clock[row, owner, agent])
        own = owner == int(touch.span.W[where[1]])
        if epoch > committed:
            fix = "close the group with CpCommit, then wait for it with CpWait(0)"
        elif waited >= epoch:
            fix = f"put a barrier between CpWait of warp {owner} and this {facts['access']}"
        else:
            fix = f"wait with CpWait({committed - epoch}) before this line"
            fix += "" if own else f" in warp {owner}, and put a barrier after it"
        return self._fault(
            "emulate-copy-pending", touch, where, owner=owner, group=epoch, fix=fix, **facts
        )

    # -- order

    def commit(self, span: Span) -> None:
        """Close the groups of the warps' cp.async engines."""
        rows = self.rows_of(span, together=True)
        self.epoch[rows[:, None], self.warps + span.W] += 1

    def wait(self, span: Span, n: int) -> None:
        """Order all but the latest n groups before what the warps do next."""
        rows, engines = self.rows_of(span, together=True)[:, None], self.warps + span.W
        done = self.epoch[rows, engines] - 1 - n
        reached = np.maximum(self.clock[rows, span.W, engines], done)
        self.clock[rows, span.W, engines] = reached

    def present(self, rows: Array, W: Array) -> Array:
        """Return the clocks [row, warp, agent] of warps, their own epoch in the place of SELF.

        The second half of the agents axis is what proxy fences have made visible to TMA and wgmma.
        """
        clocks = self.clock[rows[:, None], W]
        clocks[:, np.arange(len(W)), W] = self.epoch[rows[:, None], W]
        return clocks

    def meet(self, rows: Array, W: Array) -> None:
        """Join the clocks of warps that met at a barrier."""
        self.take(rows, W, self.present(rows, W).max(axis=1))
        self.epoch[rows[:, None], W] += 1

    def take(self, rows: Array, W: Array, clocks: Array) -> None:
        """Lift the clocks of warps to clocks [row, agent], or [row, warp, agent]."""
        at = rows[:, None]
        clocks = clocks[:, None, :] if clocks.ndim == 2 else clocks
        self.clock[at, W] = np.maximum(self.clock[at, W], clocks)
        self.clock[at, W, W] = SELF

    def fence(self, span: Span) -> None:
        """Make what the warps know of visible to TMA and wgmma."""
        rows = self.rows_of(span, together=True)[:, None]
        W, A = span.W, self.agents
        seen = self.present(rows[:, 0], W)[..., :A]
        self.clock[rows, W, A:] = np.maximum(self.clock[rows, W, A:], seen)
        self.epoch[rows, W] += 1
