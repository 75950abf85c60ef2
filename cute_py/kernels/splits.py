"""How K is split among blocks, and how they add their sums: in turn, or as shares of all tiles.

A schedule says which tiles of D a block computes, for which tiles of K, and runs the epilogue in
the block that has the whole sum. Blocks wait for blocks of lower numbers alone, which a GPU starts
first: so no launch has to fit a GPU at once, and kernels on two streams do not stop each other.

Sources: cutlass gemm/kernel/gemm.h and semaphore.h (serial), epilogue_base_streamk.h; Osama et al.,
Stream-K (2023), arXiv 2301.03598.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import cute_py as cute
from cute_py import _

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cute_py.tensor.tensor import Tensor

MOST = 2**31 - 1  # tiles
MOST_PARTS, MOST_BLOCKS = 256, 65535  # of K; that share tiles
PRODUCTS, TURNS, SHARES, SLICES = HOW = "parallel", "serial", "stream", "slice"
SETS = 2  # of the sums of a block: those that begin a tile, and others
VECTOR_BITS = 128
TOGETHER = 8  # vectors that a thread reads at a time


def blocks_of_cluster(text: str) -> int | None:
    """Return how many blocks of a cluster share K: "2" or "cluster:2"; None for other text.

    >>> blocks_of_cluster("2"), blocks_of_cluster("cluster:4"), blocks_of_cluster("serial:4")
    (2, 4, None)
    """
    count = text.removeprefix("cluster:")
    return int(count) if count.isdecimal() and len(count) < 10 else None


@dataclass(frozen=True, slots=True)
class Split:
    """How K is split among blocks that are no cluster.

    Attributes:
        how: "none"; "parallel": parts are products of their own, whose sums a second kernel adds;
            "serial": blocks of a tile add to the sums of others in turn; "stream": all blocks have
            equal shares of the last tiles; "slice": warps of a block share each tile of K.
        count: how many parts, or with "stream" how many blocks; None: as many as the rule finds.

    >>> Split.of("parallel:8"), str(Split("serial", 3)), Split.of("8")
    (Split(how='parallel', count=8), 'serial:3', None)
    """

    how: str = "none"
    count: int | None = 1

    @staticmethod
    def of(text: str) -> Split | None:
        """Return what text means; None for other text."""
        how, colon, count = text.partition(":")
        if text == "none":
            return NO_SPLIT
        if how not in HOW or (colon and not count.isdecimal()):
            return None
        return Split(how, int(count[:10]) if colon else None)

    def __str__(self) -> str:
        return self.how if self.how == "none" or self.count is None else f"{self.how}:{self.count}"

    @property
    def products(self) -> int:
        """How many products of their own the parts are."""
        return self.count or 1 if self.how == PRODUCTS else 1

    @property
    def slices(self) -> int:
        """How many times as many warps of a block share each tile of K."""
        return self.count or 1 if self.how == SLICES else 1

    def is_of_products(self) -> bool:
        """Return whether K is not split, or the parts are products of their own."""
        return self.how in ("none", PRODUCTS)

    def is_among_blocks(self) -> bool:
        """Return whether K is not split among the warps of a block."""
        return self.how != SLICES

    @property
    def in_memory(self) -> bool:
        """Whether blocks of one kernel leave sums for each other in memory."""
        return self.how in (TURNS, SHARES)

    @property
    def rule(self) -> tuple[str, bool]:
        """What must hold of it, and whether it does not."""
        most: int = MOST_BLOCKS if self.how == SHARES else MOST_PARTS
        known = self.how in ("none", *HOW) and (self.count is None or type(self.count) is int)
        fits = known and (self.count is None or 1 <= self.count <= most)
        return f"from 1 to {most} parts of K, added in a way that is known", not fits


NO_SPLIT = Split()


class Workspace(NamedTuple):
    """What blocks leave for each other.

    Attributes:
        slots: how many blocks, or tiles, have sums and a lock of their own.
        elements: of the sums of one.
    """

    slots: int
    elements: int


def workspace_of(split: Split, tile: tuple[int, int, int], tiles: int) -> Workspace | None:
    """Return the sums and locks that a split of K takes for some tiles of D; None for none.

    >>> found = workspace_of(Split("stream", 8), (128, 128, 32), 35)
    >>> found, found.elements * 4  # bytes of a block, of f32
    (Workspace(slots=8, elements=32768), 131072)
    """
    if not split.in_memory:
        return None
    (m, n, _k), count = tile, split.count or 1
    return Workspace(tiles, m * n) if split.how == TURNS else Workspace(count, SETS * m * n)


class Sums:
    """The sums of tiles in global memory, in vectors of 16 bytes, those of all threads side by
    side: number i of thread t is at T i + t.
    """

    def __init__(self, mma: Any, partial: Tensor, kind: Any) -> None:
        self.partial, self.kind, self.thread = partial, kind, cute.thread_idx()
        warps = mma.size()  # others along K have the same sums
        self.threads = warps // cute.size(mma.thr_layout_vmnk, 3)
        self.first = mma.get_slice(self.thread).thr_vmnk[3] < 1

    def _at(self, sums: Tensor, slot: Any, number: Any) -> tuple[Tensor, Tensor]:
        """Return the thread's sums as (vector, vectors), and those of a slot and a set."""
        count, threads = cute.size(sums), self.threads
        width = gcd(count, VECTOR_BITS // self.kind.bits)
        shape, pitch = (width, count // width), self.partial.stride[0]
        layout = cute.Layout(
            (*shape, threads, SETS, self.partial.shape[0]),
            (1, width * threads, width, threads * count, pitch),
        )
        all_sums = cute.make_tensor(self.partial.data, layout)
        there = all_sums[_, _, self.thread % threads, number, slot]
        return cute.composition(sums, cute.Layout(shape)), there

    def share(self, sums: Tensor, slot: Any, number: Any = 0) -> None:
        """Write the sums of a tile to a slot, in one of its sets."""
        mine, there = self._at(sums, slot, number)
        cute.copy(mine, there, pred=self.first)

    def add(self, sums: Tensor, slot: Any, end: Any = None) -> None:
        """Add to sums in registers those of a slot, which begin the tile, and of the slots after it
        before `end`, which do not. They are added up first, a piece at a time: few registers.
        """
        mine, first = self._at(sums, slot, 0)
        count = cute.size(mine, 1)
        piece = (cute.size(mine, 0), gcd(count, TOGETHER))
        for i in range(count // piece[1]):
            total = self._read(cute.local_tile(first, piece, (0, i)))
            for other in () if end is None else cute.range(slot + 1, end):
                _mine, there = self._at(sums, other, 1)
                total += self._read(cute.local_tile(there, piece, (0, i)))
            own = cute.local_tile(mine, piece, (0, i))
            own += total

    def _read(self, there: Tensor) -> Tensor:
        """Return sums of memory in registers."""
        held = cute.make_rmem_tensor(there.shape, self.kind)
        cute.copy(there, held)
        return held


@dataclass(frozen=True, slots=True)
class Locks:
    """The locks of blocks.

    Attributes:
        flags: s32, one for each.
        together: waits for all threads of a block that add sums, thread 0 among them.
    """

    flags: Tensor
    together: Callable[[], None] = cute.syncthreads

    def put(self, at: Any, value: Any) -> None:
        """Set a lock to a value, after all writes of the block."""
        self.together()
        with cute.when(cute.thread_idx() == 0):
            cute.store_release(cute.local_tile(self.flags, (1,), (at,)), value)

    def wait(self, at: Any, value: Any) -> None:
        """Wait until a lock has a value; what was written before that is there for the block."""
        with cute.when(cute.thread_idx() == 0):
            cute.wait_until(cute.local_tile(self.flags, (1,), (at,)), "eq", value)
        self.together()

    def clear(self, at: Any) -> None:
        """Set a lock to 0, for the next launch."""
        with cute.when(cute.thread_idx() == 0):
            self.flags[at] = 0


class Span(NamedTuple):
    """A tile of D and the tiles of K that a block has of it, from `first` on; `last` of all that
    there are: the block that has these runs the epilogue.
    """

    tile: Any
    first: Any
    count: Any


def _within(x: Any, low: int = 0) -> Any:
    return cute.var(x, low, MOST, uniform="block").get()


class Turns:
    """Blocks (tile, slice) of a grid: slice z adds the sums of the slices before to its own, and
    leaves them to the next one. Slices without tiles of K take their turn, too.
    """

    def __init__(self, split: Split, tiles: Any, K: Any, depth: int, locks: Locks) -> None:
        self.slices = split.count or 1
        self.grid = tiles, self.slices
        self.K, self.depth, self.locks = K, depth, locks

    def spans(self) -> Iterator[Span]:
        """Yield the tile of the block."""
        self.tile, self.z = cute.block_idx()
        first, end = cute.k_partition(self.K, self.depth, self.slices, self.z)
        tiles = [_within(cute.ceil_div(x, self.depth)) for x in (first, end)]
        yield Span(self.tile, tiles[0], _within(tiles[1] - tiles[0]))

    @contextmanager
    def whole(self, span: Span, acc: Tensor, sums: Sums) -> Iterator[None]:
        """Run the body in the block with the last slice, with the sums of all."""
        self.locks.wait(span.tile, self.z)
        with cute.when(self.z > 0):
            sums.add(acc, span.tile)
        with cute.when(self.z + 1 < self.slices):
            sums.share(acc, span.tile)
            self.locks.put(span.tile, self.z + 1)
        with cute.otherwise():
            self.locks.clear(span.tile)
            yield


class Shares:
    """Blocks that have an equal share of the tiles of K of the last one or two waves of tiles, and
    whole tiles of those before. A block goes through its share from the end: what it begins of a
    tile is there long before the block that ends the tile adds it up.
    """

    def __init__(self, split: Split, tiles: Any, K: Any, depth: int, locks: Locks) -> None:
        self.grid = self.blocks = split.count or 1
        self.tiles, self.depth, self.locks = tiles, cute.ceil_div(K, depth), locks
        rest = tiles % self.blocks
        wave = cute.where((rest > 0) & (tiles > self.blocks), self.blocks, 0)
        self.shared = _within(rest + wave)  # tiles; the others are whole
        self.units = _within(self.shared * self.depth)  # tiles of K
        self.sharers = _within(cute.min_(self.blocks, cute.max_(self.units, 1)), 1)

    def spans(self) -> Iterator[Span]:
        """Yield what the block has of each tile: of those that are shared, then whole ones."""
        depth, block = self.depth, cute.block_idx()
        begin, end = (
            _within(cute.min_(self.units * (block + i) // self.sharers, self.units)) for i in (0, 1)
        )
        beyond = _within(cute.ceil_div(end, depth))
        some = _within(cute.where(begin < end, beyond - begin // depth, 0))
        whole = cute.ceil_div(cute.max_(self.tiles - self.shared - block, 0), self.blocks)
        for i in cute.range(some + whole):
            far = self.shared + block + (i - some) * self.blocks
            tile = _within(cute.where(i < some, beyond - 1 - i, far))
            first = _within(cute.max_(begin - tile * depth, 0))
            stop = _within(cute.where(i < some, cute.min_(end - tile * depth, depth), depth))
            first = _within(cute.where(i < some, first, 0))
            yield Span(tile, first, _within(stop - first))

    @contextmanager
    def whole(self, span: Span, acc: Tensor, sums: Sums) -> Iterator[None]:
        """Run the body in the block with the last tile of K, with the sums of all blocks."""
        block, end = cute.block_idx(), span.first + span.count
        with cute.when(end < self.depth):
            sums.share(acc, block, cute.where(span.first < 1, 0, 1))
            self.locks.put(block, 1)
        with cute.otherwise():
            with cute.when(span.first > 0):
                self._reduce(span, acc, sums)
            yield

    def _reduce(self, span: Span, acc: Tensor, sums: Sums) -> None:
        """Add the sums of the blocks before, in the order of K: the first has begun the tile."""
        block, first_unit = cute.block_idx(), span.tile * self.depth
        first = _within(((first_unit + 1) * self.sharers - 1) // cute.max_(self.units, 1))
        for peer in cute.range(first, block):
            self.locks.wait(peer, 1)
            self.locks.clear(peer)
        sums.add(acc, first, block)


SCHEDULES = {TURNS: Turns, SHARES: Shares}
