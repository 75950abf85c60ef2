"""Who touched shared memory last: the stamps of the last accesses of every granule.

Of each granule the last write is kept, and the last reads. A read must be ordered after the write,
a write after the write and all reads; the clocks say whether it is. A matrix
instruction touches as the whole warp, whichever lane gives the address. The check proves the
executed order of this run only: other orders of the same kernel may race elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.clocks import COPY, EPOCH, LOW, SEVERAL, THREAD, WHO, WHOLE, through
from cute_py.emulate.faults import line_of
from cute_py.emulate.readers import Readers
from cute_py.emulate.spans import LANES, Array, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.emulate.clocks import Clocks
    from cute_py.emulate.faults import Faults
    from cute_py.emulate.storages import Place, Vectors
    from cute_py.errors import CuteError
    from cute_py.plan.ops import Op

READ, WRITE, ATOMIC = "a read by", "a write by", "an atomic of"


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """What an access touches: entries, each once, as arrays that broadcast.

    Attributes:
        span: who touches; vectors: the access; place: its addresses.
        rows: of the blocks.
        parts: of the warps; lanes: those of the part, as bits.
        granules: what they touch.
        writers: all lanes of the warp that touch it, as bits; who: the first one's agent, with the
            flags of a stamp.
    """

    span: Span
    vectors: Vectors
    place: Place
    rows: Array
    parts: Array
    lanes: Array
    granules: Array
    writers: Array
    who: Array

    @property
    def entries(self) -> tuple[Array, ...]:
        """The arrays."""
        return self.rows, self.parts, self.lanes, self.granules, self.writers, self.who


class Grain:
    """How finely shared memory is watched: in granules of `size` bytes, atomics apart."""

    def __init__(self, size: int, stride: int, atomics: bool) -> None:
        """Keep the size; `stride` is a block's shared memory (bytes)."""
        self.size, self.atomics = size, atomics
        self.granules = max(1, stride // size)

    def bytes_per_block(self, readers: int) -> int:
        """Return how much memory a block needs if all of them differ."""
        return self.granules * 12 * (1 + readers * (2 if self.atomics else 1))


class Shadow:
    """The last accesses of the shared memory of a batch: nothing written."""

    def __init__(self, clocks: Clocks, grain: Grain, faults: Faults) -> None:
        self.clocks, self.faults, self.agents = clocks, faults, clocks.agents
        self.granule, self.granules = grain.size, grain.granules
        self.last = np.zeros((clocks.rows, self.granules), np.int64)
        self.reads = Readers(clocks, grain.granules, engines=True)
        self.atomics = Readers(clocks, grain.granules, engines=False) if grain.atomics else None
        self.writers: Array | None = None  # the lanes of stamps with the flag SEVERAL, as bits
        self.wrote = np.zeros(self.last.shape, np.int32)  # the ops that did it
        self.opaque: Array | None = None  # the stamps of the last inits and invals of mbarriers
        self.ops: list[Op] = []
        self.numbers: dict[int, int] = {}
        self.known: dict[tuple[Vectors, int], Array] = {}  # the granules of elements
        # what else judges each access: where a plan accesses shared memory of other blocks
        self.judge: Callable[[Touch, str], None] = lambda touch, kind: None
        clocks.by_row.append(self)

    def apart(self, blocks: int) -> None:
        """Give every block a row of its own."""
        for name in ("last", "writers", "wrote", "opaque"):
            array = getattr(self, name)
            if array is not None:
                setattr(self, name, np.repeat(array, blocks, axis=0))

    def number(self, op: Op) -> int:
        """Return the number of an op."""
        found = self.numbers.get(id(op))
        if found is None:
            found = self.numbers[id(op)] = len(self.ops)
            self.ops.append(op)
        return found

    # -- what is touched

    def granules_of(self, vectors: Vectors, offsets: Array) -> Array:
        """Return the granules of elements; those of the same elements are found once."""
        key = vectors, hash(offsets.tobytes())
        found = self.known.get(key)
        if found is None:
            start = vectors.start + offsets.reshape(-1) * vectors.dtype.bits // 8
            count = max(1, vectors.bits // 8 // self.granule)
            found = np.unique(start[:, None] // self.granule + np.arange(count))
            self.known[key] = found
        return found

    def touch(self, span: Span, vectors: Vectors, place: Place, whole: bool) -> Touch:
        """Return what an access touches; `whole`: as the whole warp."""
        key = "granules", vectors.nbytes, whole, self.clocks.parts
        found = place.extra.get(key)
        if found is None:
            found = place.extra[key] = self._touch(span, vectors, place, whole)
        together, entries = found
        rows = self.clocks.rows_of(span, together)
        if not together:
            rows = rows[entries[0]] if len(rows) > 1 else rows[:1][np.zeros_like(entries[0])]
        elif len(rows) > 1:
            rows, entries = rows[:, None], tuple([each[None] for each in entries])
        return Touch(span, vectors, place, rows, *entries[1:])

    def _touch(
        self, span: Span, vectors: Vectors, place: Place, whole: bool
    ) -> tuple[bool, tuple[Array, ...]]:
        """Return whether all blocks touch the same, and the entries; rows are those of the span."""
        clocks = self.clocks
        offsets, active = place.offsets, place.active
        start = vectors.start + offsets * vectors.dtype.bits // 8
        count = -(-vectors.bits // 8 // self.granule) or 1
        g = start[..., None] // self.granule + np.arange(count)
        together = g.shape[0] == 1 and (active is None or active.shape[0] == 1)
        rows = np.arange(1 if together else span.nB)[:, None, None]
        if whole:
            number, who = clocks.warps, span.W[:, None]
        else:
            number, who = clocks.parts, clocks.of[span.W]
        base = (rows * number + who) * self.granules
        shape = (len(rows), span.nW, LANES, *g.shape[3:])
        keys = np.broadcast_to(base[..., None, None] + g, shape)
        bits = np.broadcast_to((np.int64(1) << np.arange(LANES))[:, None, None], shape)
        if active is not None:
            chosen = np.broadcast_to(active[..., None], shape)
            keys, lanes = keys[chosen], bits[chosen]
        else:
            keys, lanes = keys.reshape(-1), bits.reshape(-1)
        if whole:
            keys = np.unique(keys)
        else:
            keys, lanes = self._merged(keys, lanes)
        rest, g = np.divmod(keys, self.granules)
        b, p = np.divmod(rest, number)
        if whole:
            b, p, g = self._all_parts(b, p, g)
            lanes = clocks.lanes[p]
        return together, self._entries(b, p, lanes, g, WHOLE if whole else 0)

    @staticmethod
    def _merged(keys: Array, lanes: Array) -> tuple[Array, Array]:
        """Return each key once, with all of its lanes; in their order if they are distinct."""
        if len(keys) < 2:
            return keys, lanes
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        begins = ranked[1:] != ranked[:-1]
        if begins.all():
            return keys, lanes
        starts = np.flatnonzero(np.r_[True, begins])
        return ranked[starts], np.bitwise_or.reduceat(lanes[order], starts)

    def _all_parts(self, b: Array, w: Array, g: Array) -> tuple[Array, Array, Array]:
        """Return what warps touch as what all of their parts touch."""
        if not self.clocks.divided:
            return b, w, g
        entry, p = np.nonzero(w[:, None] == self.clocks.warp)
        return b[entry], p, g[entry]

    def _entries(self, b: Array, p: Array, lanes: Array, g: Array, flag: int) -> tuple[Array, ...]:
        """Return entries, with those who write if it is a write."""
        clocks, writers = self.clocks, lanes
        warps = clocks.warp[p]
        if clocks.divided and len(g):
            keys = (b * clocks.warps + warps) * self.granules + g
            each, index = np.unique(keys, return_inverse=True)
            union = np.zeros(len(each), np.int64)
            np.bitwise_or.at(union, index, lanes)
            writers = union[index]
        lowest = writers & -writers
        who = warps * LANES + np.log2(np.maximum(lowest, 1)).astype(np.int64)
        who |= np.where(writers != lowest, SEVERAL, 0) | flag
        return b, p, lanes, g, writers, who

    # -- accesses

    def read(self, span: Span, vectors: Vectors, place: Place, whole: bool = False) -> None:
        """Check a read, and remember it."""
        touch = self.touch(span, vectors, place, whole)
        at = touch.rows * self.granules + touch.granules
        written = self.last.reshape(-1).take(at)
        if not written.all():
            self._unwritten(touch, written == 0)
        if self.opaque is not None and vectors.shares:
            bad = self.opaque.reshape(-1).take(at) == written
            if bad.any():
                self._unwritten(touch, bad)
        ordered = self._ordered(written, touch, at)
        if not ordered.all():
            self._race(touch, ~ordered, "read", written)
        if self.atomics is not None:
            self._against(self.atomics, touch, "read")
        self.judge(touch, READ)
        self._remember(self.reads, touch)

    def hide(self, row: int, granules: Array) -> None:
        """Remember that nobody can read what was written last there: an mbarrier, or its end."""
        if self.opaque is None:
            self.opaque = np.full_like(self.last, -1)
        self.opaque[row, granules] = self.last[row, granules]

    def holds(self, row: int, granules: Array | int) -> Array:
        """Return which granules hold data: something wrote it, and no mbarrier is or was there."""
        written = self.last[row, granules]
        hidden = False if self.opaque is None else written == self.opaque[row, granules]
        held: Array = (written != 0) & ~np.asarray(hidden)
        return held

    def since(self, row: int, granule: int) -> str:
        """Return since when a granule without data has none, "" if from the beginning."""
        if not self.last[row, granule]:
            return ""
        return f" since an mbarrier was there ({line_of(self.ops[self.wrote[row, granule]])})"

    def _ordered(self, written: Array, touch: Touch, at: Array, writes: bool = False) -> Array:
        writers = None if self.writers is None else self.writers.reshape(-1).take(at)
        by = touch.rows, touch.parts, touch.lanes
        return self.clocks.ordered(written, by, writers, self.clocks.memory, writes)

    def _remember(self, readers: Readers, touch: Touch) -> None:
        clocks = self.clocks
        stamp = clocks.now(touch.rows, clocks.columns_of(THREAD, touch.parts)) << EPOCH
        at, by = (touch.rows, touch.granules), (touch.parts, touch.writers)
        readers.remember(at, by, clocks.warp[touch.parts], stamp, self.number(touch.vectors.op))

    def write(
        self,
        span: Span,
        vectors: Vectors,
        place: Place,
        kind: int = THREAD,
        atomic: bool = False,
        whole: bool = False,
    ) -> None:
        """Check a write by threads, or by their copies, and remember it."""
        touch = self.touch(span, vectors, place, whole)
        at = touch.rows * self.granules + touch.granules
        written = self.last.reshape(-1).take(at)
        ordered = self._ordered(written, touch, at, writes=True)
        if not ordered.all():
            self._race(touch, ~ordered, "write", written)
        self._against(self.reads, touch, "write")
        self.judge(touch, ATOMIC if atomic else WRITE)
        if atomic:
            assert self.atomics is not None
            self._remember(self.atomics, touch)
            if not written.all():  # an atomic needs a value to begin with
                self._unwritten(touch, written == 0)
            return
        if self.atomics is not None:
            self._against(self.atomics, touch, "write")
        if vectors.packed:
            self._halves(touch)
        stamp = self.clocks.stamps(touch.rows, touch.who + kind * self.agents.threads)
        last = self.last.reshape(-1)
        last[at] = stamp
        self.wrote.reshape(-1)[at] = self.number(vectors.op)
        if self.writers is not None or (touch.who & SEVERAL).any():
            if self.writers is None:
                self.writers = np.zeros(self.last.shape, np.int64)
            self.writers.reshape(-1)[at] = touch.writers
        again = last.take(at)
        if not np.array_equal(again, np.broadcast_to(stamp, again.shape)):
            self._race(touch, again != stamp, "write", again)

    def _against(self, readers: Readers, touch: Touch, access: str) -> None:
        """Require that the reads, or atomics, are ordered before this access."""
        late = readers.late(touch.rows, touch.parts, touch.lanes, touch.granules)
        if late is not None:
            warps = self.clocks.warp[touch.parts]
            elsewhere = late & (readers.warps_of() != warps[..., None])  # tell of these first
            chosen = np.where(elsewhere.any(-1), elsewhere.argmax(-1), late.argmax(-1))
            self._race(touch, late.any(-1), access, chosen, readers)

    def _halves(self, touch: Touch) -> None:
        """Refuse that lanes write different parts of one byte at once."""
        span, vectors, place = touch.span, touch.vectors, touch.place
        if vectors.bits % 8 == 0 or not (touch.who & SEVERAL).any():
            return
        shape = (*span.shape, vectors.count)
        items = np.broadcast_to(place.items, shape)
        active = np.broadcast_to(True if place.active is None else place.active, shape)
        for b, w in np.ndindex(*shape[:2]):
            held = items[b, w][active[b, w]]
            each, first = np.unique(held, return_index=True)
            _, bytes_ = np.unique(each // 8, return_index=True)
            lanes = np.broadcast_to(np.arange(LANES)[:, None], shape[2:])[active[b, w]]
            for k in np.setdiff1d(np.arange(len(each)), bytes_):
                lane = int(lanes[first[k]])
                other = lanes[held // 8 == each[k] // 8]
                if (other != lane).any():
                    raise self._fault(
                        "emulate-race",
                        touch,
                        (b, w, lane),
                        access="write",
                        offset=int(each[k] - vectors.start * 8) // vectors.dtype.bits,
                        other="another lane's write of the same byte",
                        fix="give each lane whole bytes",
                    )

    # -- errors

    def _first(self, touch: Touch, bad: Array) -> tuple[tuple[int, ...], int, dict[str, int]]:
        """Return the thread of the first bad entry, the element, and the entry: its number, row and
        granule.
        """
        span, vectors, place = touch.span, touch.vectors, touch.place
        entries = np.broadcast_arrays(*touch.entries)
        k = int(np.argmax(np.broadcast_to(bad, entries[0].shape)))
        b, p, lanes, g, _, who = (int(each.flat[k]) for each in entries)
        row = int(np.flatnonzero(b == span.B)[0]) if self.clocks.rows > 1 else 0
        warp = int(np.flatnonzero(self.clocks.warp[p] == span.W)[0])
        offsets = np.broadcast_to(place.offsets, (*span.shape, vectors.count))[row, warp]
        starts = (vectors.start + offsets * vectors.dtype.bits // 8) // self.granule
        count = -(-vectors.bits // 8 // self.granule) or 1
        touches = (starts <= g) & (g < starts + count)
        if place.active is not None:
            touches &= np.broadcast_to(place.active, (*span.shape, vectors.count))[row, warp]
        own = touches & ((lanes >> np.arange(LANES)) & 1 != 0)[:, None]
        touches = own if own.any() else touches
        lane, vector = np.unravel_index(int(np.argmax(touches)), touches.shape)
        where = (row, warp) if who & WHOLE else (row, warp, int(lane))
        return where, int(offsets[lane, vector]), {"entry": k, "row": b, "granule": g}

    def _fault(self, code: str, touch: Touch, where: tuple[int, ...], **facts: Any) -> CuteError:
        op, storage = touch.vectors.op, touch.vectors.access.storage
        return self.faults.at(code, op, touch.span, where, storage=storage, **facts)

    def late(self, touch: Touch, k: int, other: str, fix: str, access: str) -> CuteError:
        """Return the error of an entry that another block's access is not ordered before."""
        shape = np.broadcast_shapes(*[each.shape for each in touch.entries])
        bad = np.arange(int(np.prod(shape))).reshape(shape) == k
        where, offset, _ = self._first(touch, bad)
        facts = {"offset": offset, "access": access, "other": other, "fix": fix}
        return self._fault("emulate-race", touch, where, **facts)

    def _unwritten(self, touch: Touch, bad: Array) -> None:
        where, offset, at = self._first(touch, bad)
        since = self.since(at["row"], at["granule"])
        raise self._fault("emulate-smem-unwritten", touch, where, offset=offset, since=since)

    def _race(
        self, touch: Touch, bad: Array, access: str, others: Array, readers: Readers | None = None
    ) -> None:
        """Refuse an access after others: stamps of writes, or readers."""
        if readers is None:
            warps = (others & WHO) % self.agents.threads // LANES
            elsewhere = bad & (warps != self.clocks.warp[touch.parts])
            bad = elsewhere if elsewhere.any() else bad  # tell of another warp first
        where, offset, at = self._first(touch, bad)
        other = int(np.broadcast_to(others, bad.shape).flat[at["entry"]])
        row, g = at["row"], at["granule"]
        if readers is None:
            verb, who = WRITE, other & WHO
            lanes = 0 if other & (SEVERAL | WHOLE) else 1 << who % LANES
            op = self.ops[int(self.wrote[row, g])]
        else:
            verb, who, lanes, op = self.earlier(readers, (row, g), other)
        warp = int(touch.span.W[where[1]])
        code, facts = self.told(who, lanes, op, verb, warp)
        if code == "emulate-copy-pending":
            facts |= self.wait_of(row, other >> EPOCH, who, warp, access)
        raise self._fault(code, touch, where, offset=offset, access=access, **facts)

    def earlier(
        self, readers: Readers, at: tuple[int, int], reader: int
    ) -> tuple[str, int, int, Op]:
        """Return the last read of a granule, or atomic, by a reader: in words, whose, by which
        lanes (as bits), and the op.
        """
        verb = ATOMIC if readers is self.atomics else READ
        lanes = int(readers.table[(*at, reader)]) & LOW
        return verb, readers.agent(reader), lanes, self.ops[int(readers.by[(*at, reader)])]

    def told(
        self, who: int, lanes: int, op: Op, verb: str, warp: int | None
    ) -> tuple[str, dict[str, Any]]:
        """Return the code of a fault and the facts of the earlier access: by an agent, of these
        lanes (as bits; 0: of several), that an op made; `warp`: of the later one.
        """
        agents, since = self.agents, line_of(op)
        facts: dict[str, Any] = {"agent": who, "since": since}
        kind = agents.kind(who)
        if kind == COPY:
            return "emulate-copy-pending", facts | {"owner": agents.warp(who)}
        if kind != THREAD:
            facts["engine"], facts["fix"] = agents.engine(who)
            return "emulate-async-pending", facts
        own = agents.warp(who)
        lane = f", lane {lanes.bit_length() - 1}" if lanes and lanes & (lanes - 1) == 0 else ""
        facts["other"] = f"{verb} warp {own}{lane} ({since})"
        facts["fix"] = f"put cute.{'syncwarp' if own == warp else 'syncthreads'}() between the two"
        return "emulate-race", facts

    def wait_of(self, row: int, group: int, who: int, warp: int, access: str) -> dict[str, Any]:
        """Return the facts of a copy that is used too early: its group, and the right wait."""
        clocks, owner = self.clocks, self.agents.warp(who)
        part, column = clocks.of[owner, who % LANES], clocks.column[who]
        closed = clocks.closed[COPY][row, part]
        waited = clocks.own[row, 0, column] >= through(np.int64(group))
        own = owner == warp
        if group > closed[0]:
            fix = "close the group with cute.cp_async_fence(), then call cute.cp_async_wait(0)"
        elif waited:
            meet = "cute.syncwarp()" if own else "a barrier"
            fix = f"put {meet} between cute.cp_async_wait of warp {owner} and this {access}"
        else:
            later = int(np.count_nonzero(closed > group))
            fix = f"wait with cute.cp_async_wait({later}) before this line"
            fix += "" if own else f" in warp {owner}, and put a barrier after it"
        return {"group": group, "fix": fix}
