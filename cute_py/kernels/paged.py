"""new here: rows of keys and values in caches, which are in pages, or one after the other.

A warp copies tiles of rows to a ring in shared memory of its own. A page is looked up once for a
tile, or for each of its rows where a tile has several pages. What is appended to a cache is copied
there, and its tiles are read from where it was: no block reads what another one writes.
"""

from __future__ import annotations

from typing import Any

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import narrowed

WARP = 32


def copy_of_rows(tile: Any, dtype: cute.Dtype, threads: int, vector: int) -> cute.TiledCopy:
    """Return the copy of a tile of rows to shared memory, with vectors of at most some bits."""
    bits = narrowed(vector, tile, dtype, threads)
    name = f"SM80_CP_ASYNC_CACHE{'GLOBAL' if bits == 128 else 'ALWAYS'}_ZFILL"
    op = name if bits > 16 else "UniversalCopy"
    return cute.suggest_tiled_copy(tile, dtype, threads, "K", bits, op)


class Pages:
    """The numbers of pages of a sequence. They are values in memory: the emulator refuses those
    outside of the pool, on a GPU they are clamped.

    Args:
        table: (B,pages) of s32.
        b: which sequence.
        pool: how many pages there are.
        page: rows of a page.

    """

    def __init__(self, table: Any, b: Any, pool: Any, page: int) -> None:
        self.row, self.pool, self.page = table[b, _], pool, page

    def read(self, held: Any, key: Any) -> None:
        """Read the entry of a key, or the last one if the key is behind the table."""
        entry = cute.min_(key // self.page, self.row.shape[0] - 1)
        cute.copy(cute.local_tile(self.row, (1,), (entry,)), held)

    def number(self, held: Any, exists: Any) -> Any:
        """Return the page that was read for a key; `exists`: whether there is one."""
        found = cute.as_int(held)
        with cute.when(exists):  # known in this branch alone: the clamp stays
            cute.assume((found >= 0) & (found < self.pool))
        return cute.max_(cute.min_(found, self.pool - 1), 0)


class Ring:
    """The tiles of rows that a warp has in shared memory.

    Args:
        cache: (B,heads,rows,columns), or pages (P,heads,page,columns).
        more: what is appended (B,heads,new,columns), or None.
        at: the number of the sequence and of the head.
        stages: memory of the warp (rows,columns,stages).
        vector: the most bits of a copy.

    """

    def __init__(
        self, cache: Any, more: Any, at: tuple[Any, Any], stages: Any, vector: int
    ) -> None:
        b, head = at
        self.cache = cache[_, head, _, _]  # (B or P,rows,columns)
        self.more: Any = None if more is None else more[b, head, _, _]  # (new,columns)
        self.tile = tuple([cute.size(stages, i) for i in range(2)])
        self.load = copy_of_rows(self.tile, cache.dtype, WARP, vector)
        self.lane = self.load.get_slice(cute.lane_idx())
        self.own = self.lane.partition_S(cute.make_identity_tensor(self.tile))  # (CPY,CPY_N,CPY_D)
        self.stages = self.lane.partition_D(stages)  # (CPY,CPY_N,CPY_D,stages)
        self.rows = [self.own[0, i, 0][0] for i in range(cute.size(self.own, 1))]  # of the lane

    def fill(self, rows: Any, n: Any, stage: Any, left: Any) -> None:
        """Start to copy tile n of a matrix of rows, of which `left` are there; others are zeros."""
        source = self.lane.partition_S(cute.local_tile(rows, self.tile, (n, 0)))
        cute.copy(self.load, source, self.stages[_, _, _, stage], pred=self._there(left), fill=0)

    def gather(self, places: list[tuple[Any, Any]], stage: Any, left: Any) -> None:
        """Start to copy a tile with each row at its place, (page, row in the page)."""
        there, width = self._there(left), cute.size(self.own, 0)
        for i, (page, row) in enumerate(places):
            rows = self.cache[page, _, _]
            for j in range(cute.size(self.own, 2)):
                at = row, self.own[0, i, j][1] // width
                source = cute.local_tile(rows, (1, width), at)
                target = self.stages[_, i, j, stage]
                cute.copy(self.load, source, target, pred=there[i, j], fill=0)

    def _there(self, left: Any) -> Any:  # a Tensor
        """Return which vectors of the lane are there."""
        start, columns = self.own[0][0], self.cache.shape[2]
        left = (left - start).to("s32")  # the other rows have static distances from the first
        found = cute.rmem("b1", self.own.shape[1:])  # (CPY_N,CPY_D)
        for i in range(cute.size(self.own, 1)):
            for j in range(cute.size(self.own, 2)):
                row, column = self.own[0, i, j]
                found[i, j] = cute.where(column < columns, left, 0) > row - start
        return found

    def append(self, row: Any, page: Any, at: Any) -> None:
        """Write a row of what is appended to row `at` of a page, or of a sequence."""
        width, rows = cute.size(self.own, 0), self.cache[page, _, _]
        for i in range(0, self.tile[1], WARP * width):
            held, vector = cute.rmem(self.cache.dtype, (1, width)), i // width + cute.lane_idx()
            cute.copy(cute.local_tile(self.more, (1, width), (row, vector)), held)
            cute.copy(held, cute.local_tile(rows, (1, width), (at, vector)))


class Tiles:
    """The tiles of keys and values of a warp, number i in stage i % stages.

    Args:
        rings: of keys and values.
        b: the number of the sequence.
        pages: those of the sequence; None: caches are not in pages.
        old: how many rows of the cache there are.
        span: the first tile of a block, and the end.
        warps: of a block: tile n has a part for each.
        stages: of a ring.

    """

    def __init__(
        self,
        rings: tuple[Ring, Ring],
        b: Any,
        pages: Pages | None,
        old: Any,
        span: tuple[Any, Any],
        warps: int,
        stages: int,
    ) -> None:
        self.rings, self.b, self.pages = rings, b, pages
        self.old, (self.begin, self.end), self.warps, self.stages = old, span, warps, stages
        self.width = rings[0].tile[0]
        self.new = None if rings[0].more is None else rings[0].more.shape[0]
        if pages is None:
            self.sequences = [ring.cache[b, _, _] for ring in rings]
        self.cached = cute.ceil_div(old, self.width * warps)  # tiles of a block
        self.whole = pages is None or pages.page % self.width == 0
        own = rings[: 1 if rings[0].tile == rings[1].tile else 2]  # a lane has the same of both
        found = [row for ring in own for row in ring.rows]
        self.rows = [0] if self.whole else found  # of which pages are looked up

    def number(self, i: Any) -> Any:
        """Return the number of tile i among those of all warps."""
        return (self.begin + i) * self.warps + cute.warp_idx()

    def look_up(self, i: Any) -> Any:  # a Tensor
        """Read the pages of tile i."""
        held = cute.rmem("s32", len(self.rows))
        self.look_up_again(held, i)
        return held

    def look_up_again(self, held: Any, i: Any) -> None:
        """Read the pages of tile i to where others were."""
        if self.pages is not None:
            for r, row in enumerate(self.rows):
                one = cute.local_tile(held, (1,), (r,))
                self.pages.read(one, self.number(i) * self.width + row)

    def fill(self, held: Any, i: Any) -> None:
        """Start to copy tile i, whose pages were read; behind the last one, zeros."""
        n, stage, is_mine = self.number(i), i % self.stages, self.begin + i < self.end
        if self.new is None:
            self._fill_cached(held, n, stage, is_mine)
        else:
            with cute.when(self.begin + i < self.cached):
                self._fill_cached(held, n, stage, is_mine)
            with cute.otherwise():
                n, end = n - self.cached * self.warps, cute.where(is_mine, self.new, 0)
                for ring in self.rings:
                    ring.fill(ring.more, n, stage, end - n * self.width)
        cute.cp_async_fence()

    def _fill_cached(self, held: Any, n: Any, stage: Any, is_mine: Any) -> None:
        """Do so for tile n of the caches."""
        first, pages = n * self.width, self.pages
        left = cute.where(is_mine, self.old, 0) - first
        if pages is None:
            for ring, rows in zip(self.rings, self.sequences, strict=True):
                ring.fill(rows, n, stage, left)
            return
        places = [
            (pages.number(held[r], first + row < self.old), (first + row) % pages.page)
            for r, row in enumerate(self.rows)
        ]
        for ring in self.rings:
            if self.whole:
                tile = n % (pages.page // self.width)
                ring.fill(ring.cache[places[0][0], _, _], tile, stage, left)
            else:
                ring.gather(places[: len(ring.rows)], stage, left)
                places = places[len(ring.rows) :] or places

    def keys(self, i: Any) -> tuple[Any, Any]:
        """Return the number of the first key of tile i, and the end of those that it may have."""
        n = self.number(i)
        if self.new is None:
            return n * self.width, self.old
        is_cached = self.begin + i < self.cached
        first = cute.where(is_cached, 0, self.old - self.cached * self.warps * self.width)
        return first + n * self.width, cute.where(is_cached, self.old, self.old + self.new)

    def append(self) -> None:
        """Write what is appended to the caches, a row for each warp."""
        for i in cute.range(cute.warp_idx(), self.new, self.warps):
            page, at = self.b, self.old + i
            if self.pages is not None:
                held = cute.rmem("s32", 1)
                self.pages.read(held, at)
                page, at = self.pages.number(held, cute.lane_idx() == 0), at % self.pages.page
            for ring in self.rings:
                ring.append(i, page, at)
