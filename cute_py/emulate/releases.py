"""What blocks know of each other: releases to a place in memory, and acquires of them.

A release keeps at its place what its thread knows: of the threads of its own block, and of other
blocks as far as it has acquired. Who acquires there knows it, too. store_release releases, wait_until
and load_acquire acquire. An atomic is both where threadfence stands before and after it: it passes
on what its thread knew at its last fence, and what it finds is known after the next one. Fences of
a block are for threads of that block. A plain write ends what was released at a place.

What is known of a block is one clock of it, kept sparsely by block. What a block has acquired is
kept with the stamp of who did, so that threads of the block know of it as soon as they know of that.
Source: PTX ISA, Memory Consistency Model, "Release and Acquire Patterns", "Causality order".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cute_py.emulate.clocks import LOW, WHO
from cute_py.emulate.spans import LANES, Array

if TYPE_CHECKING:
    from cute_py.emulate.clocks import Acting, Clocks

Place: TypeAlias = tuple[Any, int]  # a region of memory, and the granule
Known: TypeAlias = dict[Any, Any]  # block of the batch -> its clock [column]; Place -> version

BLOCK = "block"


def merged(*parts: Known) -> Known:
    """Return what several know together."""
    if len(parts) == 1:
        return parts[0]
    total: Known = {}
    for part in parts:
        for key, value in part.items():
            old = total.get(key)
            total[key] = value if old is None else np.maximum(old, value)
    return total


class Record:
    """What was released at a place: for all, and by fences of a block for that block alone."""

    __slots__ = ("everyone", "inside", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.everyone: dict[int, Known] = {}  # by releasing block
        self.inside: dict[int, Known] = {}

    def add(self, block: int, known: Known, scope: str) -> None:
        """Add what a thread of a block releases."""
        target = self.inside if scope == BLOCK else self.everyone
        target[block] = merged(target[block], known) if block in target else known

    def for_block(self, block: int, scope: str) -> Known:
        """Return what a thread of a block acquires."""
        parts = [self.inside[block]] if block in self.inside else []
        if scope == BLOCK:
            parts += [self.everyone[block]] if block in self.everyone else []
        else:
            parts += self.everyone.values()
        return merged(*parts) if parts else {}


class Releases:
    """The places that threads of a batch released to, and what its blocks have acquired."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.places: dict[Place, Record] = {}
        self.log: dict[int, list[tuple[int, Known]]] = {}  # block -> stamp of who acquired, what
        self.fences: dict[tuple[int, int], tuple[Known, str]] = {}  # block, thread
        self.found: dict[tuple[int, int], list[tuple[Place, Record]]] = {}
        clocks.tables.append(self)

    # -- what a thread knows

    def of(self, b: int, thread: int) -> Known:
        """Return what a thread has acquired, by itself or from others of its block."""
        rows = self.log.get(b)
        if not rows:
            return {}
        clocks, lane = self.clocks, thread % LANES
        part = clocks.of[thread // LANES, lane]
        stamps = np.array([stamp for stamp, _ in rows], np.int64)
        by = np.full(len(rows), b), np.full(len(rows), part), np.full(len(rows), 1 << lane)
        ordered = clocks.ordered(stamps, by)
        parts = [known for (_, known), yes in zip(rows, ordered, strict=True) if yes]
        if len(parts) == len(rows) and len(rows) > 1:  # all know all: one row for them
            self.log[b] = [(int(stamps.max()), merged(*parts))] if self._alike(stamps) else rows
        return merged(*parts) if parts else {}

    @staticmethod
    def _alike(stamps: Array) -> bool:
        """Tell whether one agent made all stamps, so that the last stands for all."""
        return bool((stamps & WHO == stamps[0] & WHO).all())

    def known(self, region: Any, g: Array, ids: Array, blocks: Array, stamps: Array) -> Array:
        """Return which stamps of other blocks (numbers in the batch, plus 1) threads know of."""
        result = np.zeros(len(ids), np.bool_)
        columns = self.clocks.column.take(stamps & WHO)
        for one in np.unique(ids).tolist():
            b, thread = one >> 16, one & 0xFFFF
            known = self.of(b, thread)
            if not known:
                continue
            for k in np.flatnonzero(ids == one).tolist():
                clock = known.get(int(blocks[k]) - 1)
                at = known.get((id(region), int(g[k])))
                result[k] = (clock is not None and stamps[k] <= clock[columns[k]]) or (
                    at is not None and self._is_last(region, int(g[k]), at)
                )
        return result

    def _is_last(self, region: Any, g: int, version: int) -> bool:
        record = self.places.get((id(region), g))
        return record is None or record.version <= version

    # -- releases and acquires

    def snapshot(self, b: int, thread: int) -> Known:
        """Return what a thread knows, and let it go on."""
        who = self.clocks.one(b, thread // LANES, thread % LANES)
        own: Array = self.clocks.release(who)[0, self._rank(b), 0]
        return merged(self.of(b, thread), {b: own})

    def _rank(self, b: int) -> int:
        return int(self.clocks.rank[b]) if self.clocks.clock.shape[2] > 1 else 0

    def release(self, place: Place, b: int, thread: int) -> None:
        """Release to a place, which holds nothing else from now on."""
        old = self.places.get(place)
        record = self.places[place] = Record(1 if old is None else old.version + 1)
        record.add(b, self.snapshot(b, thread), "gpu")

    def acquire(self, place: Place, b: int, thread: int) -> None:
        """Acquire what was released at a place."""
        record = self.places.get(place)
        if record is not None:
            self._take(record.for_block(b, "gpu"), {place: record.version}, b, thread)

    def _take(self, known: Known, at: Known, b: int, thread: int) -> None:
        clocks, w, lane = self.clocks, thread // LANES, thread % LANES
        who = clocks.one(b, w, lane)
        if b in known:  # of its own block: what orders shared memory, too
            clock = np.full(clocks.clock.shape[2:], LOW, np.int64)
            clock[self._rank(b), 0] = known[b]
            clocks.acquire(who, clock[None])
        stamp = clocks.stamps(who.rows, np.array([thread]))[0]
        self.log.setdefault(b, []).append((int(stamp), merged(known, at)))

    def update(self, place: Place, b: int, thread: int) -> None:
        """Let an atomic find what is at a place, and pass it on with its thread's last fence."""
        record = self.places.get(place)
        if record is None:
            record = self.places[place] = Record(0)
        record.version += 1
        fence = self.fences.get((b, thread))
        if fence is not None:
            record.add(b, *fence)
        self.look(place, b, thread)

    def look(self, place: Place, b: int, thread: int) -> None:
        """Let a strong read find what is at a place: the next fence of its thread acquires it."""
        record = self.places.get(place)
        if record is not None:
            held = Record(record.version)
            held.everyone, held.inside = dict(record.everyone), dict(record.inside)
            self.found.setdefault((b, thread), []).append((place, held))

    def fence(self, b: int, thread: int, scope: str) -> None:
        """Acquire what the thread has found, and keep what it knows for its next atomics."""
        for place, record in self.found.pop((b, thread), ()):
            self._take(record.for_block(b, scope), {place: record.version}, b, thread)
        self.fences[b, thread] = self.snapshot(b, thread), scope

    def forget(self, region: Any, g: Array) -> None:
        """End what was released at places that are written."""
        if self.places:
            written = set(g.tolist())
            for place in [p for p in self.places if p[0] == id(region) and p[1] in written]:
                del self.places[place]

    # -- the clocks change

    def divide(self, columns: slice, old: int, new: int) -> None:
        """Give new agents of divided parts their columns."""
        seen: set[int] = set()
        for known in self._all():
            if id(known) in seen:
                continue
            seen.add(id(known))
            for key, clock in known.items():
                if isinstance(key, int):
                    known[key] = np.concatenate([clock, clock[columns]])

    def _all(self) -> list[Known]:
        held = [known for rows in self.log.values() for _, known in rows]
        held += [known for known, _ in self.fences.values()]
        records = [*self.places.values(), *(r for rows in self.found.values() for _, r in rows)]
        for record in records:
            held += [*record.everyone.values(), *record.inside.values()]
        return held

    def apart(self, blocks: int) -> None:
        """Change nothing: what is kept is of single blocks."""
