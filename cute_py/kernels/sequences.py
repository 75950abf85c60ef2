"""The sequences of arrays that hold several, one after the other: who computes which rows.

Where a sequence starts is read from memory in the kernel, so the host need not know it. Blocks of
queries are numbered sequence by sequence, of 32 sequences at a time those with the most keys first;
of one sequence head by head, and of a head from its last queries on. A warp finds the sequence of a
number: each lane has one, and a sum over the lanes before says where its blocks begin.

Source: T. Dao, flash-attention, hopper/tile_scheduler.hpp (the search by a warp).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cute_py as cute

WARP = 32
MOST = 2**31 - 1  # rows, blocks


class Item(NamedTuple):
    """A block of queries of a head of a sequence.

    Attributes:
        b: the number of the sequence.
        head: of queries.
        block: the number of the block in the sequence.
        query: the first row of the sequence.
        queries: its rows; 0: there are no blocks left.
        key: the first row of its keys.
        keys: how many there are.
    """

    b: Any
    head: Any
    block: Any
    query: Any
    queries: Any
    key: Any
    keys: Any


def most_blocks(rows: Any, sequences: Any, tile: int) -> Any:
    """Return how many blocks of `tile` rows there are at most, of all sequences.

    >>> most_blocks(100, 3, 64)  # of lengths 1, 1 and 98: 1 + 1 + 2
    4
    """
    return (rows + sequences * (tile - 1)) // tile


class Sequences:
    """Where sequences start, and their blocks; each thread of a warp has its own state."""

    def __init__(
        self, starts: tuple[Any, Any], rows: tuple[Any, Any], heads: Any, tile: int
    ) -> None:
        """Read nothing yet.

        Args:
            starts: of queries and of keys, s32 (sequences + 1).
            rows: of all queries, and of all keys.
            heads: of queries.
            tile: queries of a block.

        """
        self.starts, self.ends, self.heads, self.tile = starts, rows, heads, tile
        self.count = starts[0].shape[0] - 1
        self.before, self.here = (cute.var(0, 0, MOST, uniform="block") for _i in range(2))
        self.next = cute.var(0, 0, MOST, uniform="block")  # the first sequence not yet read
        self.first, self.length = cute.rmem("s32", 2), cute.rmem("s32", 2)  # of the lane's
        self.number, self.until = cute.rmem("s32", 1), cute.rmem("s32", 1)
        for x in (self.first, self.length, self.number, self.until):
            x.fill(0)

    @property
    def seen(self) -> Any:
        """How many blocks the sequences have that were read: all, if a number was beyond them."""
        return self.before.get() + self.here.get()

    def find(self, number: Any) -> Item:
        """Return a block by its number, which is no less than at the last call; by whole warps."""
        before, here = self.before, self.here

        def is_behind() -> Any:
            behind = number - before.get() >= here.get()
            return behind & (self.next.get() < self.count)

        with cute.while_(is_behind):
            before.set(before.get() + here.get())
            self._read(self.next.get())
            self.next.set(self.next.get() + WARP)
        left = number - before.get()
        passed = cute.popc(cute.vote("ballot", self.until <= left.to("s32")))
        exists, lane = passed < WARP, _int(cute.minimum(passed.to("s32"), WARP - 1), WARP - 1)
        first, length, b, until = (
            cute.shuffle(x, lane) for x in (self.first, self.length, self.number, self.until)
        )
        queries = _int(cute.where(exists, length[0], 0))
        blocks = cute.max_(cute.ceil_div(_int(length[0]), self.tile), 1)
        later = cute.max_(_int(until) - 1 - left, 0)  # blocks of the sequence behind this one
        head = self.heads - 1 - cute.min_(later // blocks, self.heads - 1)
        rest = _int(b), _within(head), _within(later % blocks)
        return Item(*rest, _int(first[0]), queries, _int(first[1]), _int(length[1]))

    def _read(self, sequence: Any) -> None:
        """Read 32 sequences, one a lane, from this one on: those with the most keys first."""
        at, held = sequence + cute.lane_idx(), []
        for starts, end in zip(self.starts, self.ends, strict=True):
            last = starts.shape[0] - 1
            a, b = (starts[cute.min_(at + i, last)] for i in (0, 1))
            _require(a, b, end, at, last)
            a, b = (cute.minimum(cute.maximum(x, 0), end.to("s32")) for x in (a, b))
            held += [a, cute.maximum(b - a, 0)]
        query, queries, key, keys, number = by_size(held[3], (*held, at.to("s32")))
        self.first[0], self.first[1] = query, key
        self.length[0], self.length[1] = queries, keys
        self.number[...] = number
        blocks = cute.ceil_div(_int(queries, uniform="thread"), self.tile) * self.heads
        self.until[...] = sum_before(blocks.to("s32"))
        self.here.set(_int(cute.shuffle(self.until, WARP - 1)))


def _require(a: Any, b: Any, end: Any, at: Any, last: Any) -> None:
    """State that starts rise from 0 to the end, as the emulator checks; on a GPU they are cut."""
    begins, ends = (cute.as_int(x) for x in (a, b))
    cute.assume((begins <= ends) & (begins >= 0) & (ends <= end))
    with cute.when(at == 0):
        cute.assume(begins == 0)
    with cute.when(at + 1 == last):
        cute.assume(ends == end)


def _int(x: Any, most: int = MOST, uniform: str = "block") -> Any:
    return cute.as_int(x, 0, most, uniform=uniform)


def _within(x: Any) -> Any:
    return cute.var(x, 0, MOST, uniform="block").get()


def by_size(size: Any, values: tuple[Any, ...]) -> list[Any]:  # registers
    """Return values of the lanes of a warp in another order: that of the greatest size first."""
    rank, source, lane = (cute.rmem("s32", 1) for _i in range(3))
    rank.fill(0)
    source.fill(0)
    lane[...] = cute.lane_idx().to("s32")
    for i in range(WARP):
        other = cute.shuffle(size, i)
        before = (other > size) | ((other == size) & (lane > i))
        rank[...] = rank + cute.where(before, 1, 0)
    for i in range(WARP):
        source[...] = cute.where(cute.shuffle(rank, i) == lane, i, source)
    place = _int(source, WARP - 1, "thread")
    return [cute.shuffle(x, place) for x in values]


def sum_before(x: Any) -> Any:  # registers
    """Return the sum of the values of this lane and those before."""
    lane = cute.rmem("s32", 1)
    lane[...] = cute.lane_idx().to("s32")
    for i in range(5):
        x = x + cute.where(lane >= 1 << i, cute.shuffle(x, 1 << i, "up"), 0)
    return x


def rows_of(x: Any, first: Any, count: Any, sequences: Any) -> Any:  # a tensor
    """Return the rows of a sequence in an array (1,heads,rows,...), as the array (sequences,heads,
    count,...) that has the same elements for each number of the first mode.
    """
    shape = sequences, x.shape[1], cute.max_(count, 1), *x.shape[3:]
    layout = cute.Layout(shape, (0, *x.stride[1:]))
    return cute.make_tensor(x.data.moved(first * x.stride[2]), layout)
