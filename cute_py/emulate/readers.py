"""The last reads of every granule of shared memory: by each warp, its TMA stores, each warpgroup.

Of a warp there is one entry, the epoch and the lanes that read. Those lanes among them that read in
an earlier epoch, and that nothing orders before the later reads, are kept apart (`older`): whoever
writes must know of each lane by its own epoch. Atomics are kept in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.clocks import BULK, EPOCH, LOW, THREAD
from cute_py.emulate.spans import LANES, Array

if TYPE_CHECKING:
    from cute_py.emulate.clocks import Clocks


class Readers:
    """Who read every granule last: readers are warps, TMA stores by warp, wgmmas by warpgroup."""

    def __init__(self, clocks: Clocks, granules: int, engines: bool) -> None:
        """Begin, nothing read; `engines`: whether they read too."""
        self.clocks, self.agents = clocks, clocks.agents
        self.granules, self.warps = granules, clocks.warps
        self.stores = engines and BULK in clocks.place
        self.groups = clocks.fixed - self.agents.slots if engines else 0
        self.first_group = self.warps * (2 if self.stores else 1)
        self.count = self.first_group + self.groups
        self.table = np.zeros((clocks.rows, granules, self.count), np.int64)
        self.by = np.zeros(self.table.shape, np.int32)  # the numbers of the ops
        # place in the table -> the epoch of its entry, and (epoch, lanes) of older reads
        self.older: dict[int, tuple[int, list[tuple[int, int]]]] = {}
        clocks.by_row.append(self)

    def apart(self, blocks: int) -> None:
        """Give every block a row of its own."""
        size, older = self.table.size, self.older.items()
        self.table = np.repeat(self.table, blocks, axis=0)
        self.by = np.repeat(self.by, blocks, axis=0)
        self.older = {key + b * size: kept for key, kept in older for b in range(blocks)}

    def reader(self, who: int) -> int:
        """Return the reader that an agent is."""
        if who >= self.agents.wgmma:
            return self.first_group + who - self.agents.wgmma
        warps = self.warps if self.agents.kind(who) == BULK else 0
        return warps + self.agents.warp(who)

    def agent(self, reader: int) -> int:
        """Return an agent of a reader."""
        if reader >= self.first_group:
            return self.agents.wgmma + reader - self.first_group
        kind, warp = divmod(reader, self.warps)
        return (BULK if kind else THREAD) * self.agents.threads + warp * LANES

    def warps_of(self) -> Array:
        """Return the warp of each reader; -1 for warpgroups."""
        own = np.tile(np.arange(self.warps), self.first_group // self.warps)
        return np.concatenate([own, np.full(self.groups, -1)])

    def known(self, rows: Array, parts: Array) -> Array:
        """Return [entry, reader]: the bounds up to which parts know all lanes of readers."""
        clocks = self.clocks
        ranks = clocks.rank[rows] if clocks.clock.shape[2] > 1 else 0
        clock = clocks.clock[rows, parts, ranks, 0]
        found = [self._of_warps(clock, THREAD)]
        if self.stores:
            found.append(self._of_warps(clock, BULK))
        if self.groups:
            found.append(clock[..., self.agents.slots : clocks.fixed])
        return found[0] if len(found) == 1 else np.concatenate(found, axis=-1)

    def _of_warps(self, clock: Array, kind: int) -> Array:
        clocks = self.clocks
        each: Array = clock[..., clocks.fixed + clocks.place[kind] :: clocks.kinds]
        if not clocks.divided:
            return each
        return np.minimum.reduceat(each[..., clocks.by_warp], clocks.warp_starts, axis=-1)

    # -- reads

    def remember(
        self,
        at: tuple[Array, Array],
        by: tuple[Array, Array],
        reader: Array,
        stamp: Array,
        op: int,
    ) -> None:
        """Remember reads.

        Args:
            at: rows and granules.
            by: parts that read, and all lanes of their warp that do, as bits.
            reader: what they are.
            stamp: their epochs, shifted.
            op: the number of the op.
        """
        (rows, granules), (parts, lanes) = at, by
        index = (rows * self.granules + granules) * self.count + reader
        held = self.table.reshape(-1)
        before = held.take(index)
        self.by.reshape(-1)[index] = op
        lasting = before > self._own(rows, parts, reader)
        if not (lasting.any() or self.older):
            held[index] = stamp | lanes
            return
        if self.clocks.divided:  # all parts of a warp make one entry
            each, entry = np.unique(index, return_inverse=True)
            every = np.ones(len(each), np.bool_)
            np.logical_and.at(every, entry.reshape(-1), lasting.reshape(-1))
            lasting = every[entry].reshape(lasting.shape)
        kept = np.where(lasting, before & LOW, 0)
        apart = (before < stamp) & (kept & ~lanes != 0)
        if self.older or apart.any():
            self._keep_older(index, before, lasting, lanes, stamp, apart)
        held[index] = stamp | lanes | kept

    def engine_reads(
        self, at: tuple[int, Array], by: tuple[int, int], who: int, stamp: int, op: int
    ) -> None:
        """Remember that an engine reads granules of a row, asked by one lane of a part."""
        (row, granules), (part, lanes), reader = at, by, self.reader(who)
        if reader >= self.first_group:
            self.table[row, granules, reader], self.by[row, granules, reader] = stamp, op
            return
        one = np.ones(len(granules), np.int64)
        mine, places = (part * one, lanes * one), (row * one, granules)
        self.remember(places, mine, reader * one, stamp * one, op)

    def _own(self, rows: Array, parts: Array, reader: Array) -> Array:
        """Return what parts know of all lanes of their warp, as readers."""
        clocks = self.clocks
        if not clocks.divided:
            kind = BULK if self.stores and bool((reader >= self.warps).any()) else THREAD
            return clocks.seen(rows, parts, clocks.columns_of(kind, parts))
        known = self.known(rows, parts)
        which = np.broadcast_to(np.asarray(reader)[..., None], (*known.shape[:-1], 1))
        return np.take_along_axis(known, which, axis=-1)[..., 0]

    def _keep_older(self, *arrays: Array) -> None:
        """Keep the lanes that read in an earlier epoch, of entries that get a later one."""
        index, before, lasting, lanes, stamp, apart = (
            each.reshape(-1) for each in np.broadcast_arrays(*arrays)
        )
        chosen = apart | np.isin(index, list(self.older))
        _, first = np.unique(index[chosen], return_index=True)
        for i in np.flatnonzero(chosen)[first]:
            key, epoch = int(index[i]), int(before[i]) >> EPOCH
            _, older = self.older.pop(key, (0, []))
            if not lasting[i]:
                continue
            if before[i] < stamp[i]:
                rest = int(before[i]) & LOW
                for _, some in older:
                    rest &= ~some
                older = [*older, (epoch, rest)]
            left = [(e, some & ~int(lanes[i])) for e, some in older]
            left = [(e, some) for e, some in left if some]
            if left:
                self.older[key] = int(stamp[i]) >> EPOCH, left

    # -- writes

    def late(self, rows: Array, parts: Array, lanes: Array, granules: Array) -> Array | None:
        """Return [entry, reader]: whose reads are not ordered before writes by lanes (as bits) of
        parts; None where all are.
        """
        clocks = self.clocks
        held = self.table[rows, granules]
        late: Array = held > self.known(rows, parts)
        if not late.any():
            return None
        alone = (lanes & (lanes - 1)) == 0
        for kind in (THREAD, BULK)[: 1 + self.stores]:  # what the same thread did, is done
            reader = clocks.warp[parts] + self.warps * (kind == BULK)
            reader = np.broadcast_to(reader[..., None], (*late.shape[:-1], 1))
            own = np.take_along_axis(held, reader, axis=-1)[..., 0]
            mine = alone & (own & LOW == lanes)
            if kind == BULK:
                mine &= own <= clocks.own[rows, 0, clocks.columns_of(kind, parts)]
            still = np.take_along_axis(late, reader, axis=-1)[..., 0] & ~mine
            np.put_along_axis(late, reader, still[..., None], axis=-1)
        if (clocks.divided or self.older) and late.any():
            shape = late.shape[:-1]
            rows, parts, lanes, granules = (
                np.broadcast_to(each, shape) for each in (rows, parts, lanes, granules)
            )
            for where in np.argwhere(late):
                i, who = tuple(where[:-1]), int(where[-1])
                by = int(rows[i]), int(parts[i]), int(lanes[i])
                late[tuple(where)] = self.unknown(by, (int(rows[i]), int(granules[i])), who)
        return late if late.any() else None

    def unknown(
        self, by: tuple[int, int, int], at: tuple[int, int], reader: int, rank: int | None = None
    ) -> bool:
        """Return whether lanes do not know of the last reads of a granule by a reader.

        Args:
            by: row, part, and the lanes as bits.
            at: row and granule.
            reader: who read.
            rank: of the block of the granule in the cluster, where that is another block.
        """
        clocks, (row, part, lanes) = self.clocks, by
        entry = int(self.table[(*at, reader)])
        ranks = clocks.clock.shape[2]
        own = rank is None
        place = (int(clocks.rank[row]) if ranks > 1 else 0) if rank is None else rank
        clock = clocks.clock[row, part, place, 0]
        if reader >= self.first_group:
            return bool(entry > clock[self.agents.slots + reader - self.first_group])
        kind, warp = divmod(reader, self.warps)
        kind = BULK if kind else THREAD
        key = (at[0] * self.granules + at[1]) * self.count + reader
        epoch, some = entry >> EPOCH, entry & LOW
        top, older = self.older.get(key, (0, []))
        reads = list(older) if top == epoch else []
        for _, those in reads:
            some &= ~those
        alone = own and lanes & (lanes - 1) == 0 and clocks.warp[part] == warp
        for e, those in [*reads, (epoch, some)]:
            waited = (
                kind == THREAD or (e << EPOCH) <= clocks.own[row, 0, clocks.columns_of(kind, part)]
            )
            left = those & ~lanes if alone and waited else those
            for other in np.flatnonzero(clocks.warp == warp):
                column = clocks.columns_of(kind, other)
                if left & int(clocks.lanes[other]) and (e << EPOCH) > clock[column]:
                    return True
        return False
