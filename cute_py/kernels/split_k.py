"""new here: K split over blocks of a cluster, which add their sums through shared memory.

Groups of `parts` blocks share the tiles of K of a tile of D. Each leaves its sums in its own shared
memory, in f32 or s32. Then each adds those of the others for some columns of the tile, in a fixed
order, and stores these. So sums are equal in every run, no memory is needed for them but that of the
blocks, and no block waits for one that does not run: the blocks of a cluster run together.
"""

from __future__ import annotations

from contextlib import contextmanager

import cute_py as cute
from cute_py import _

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cute_py.kernels.config import GemmConfig
    from cute_py.tensor.tensor import Tensor

WARPGROUP = 128  # threads


def _below(x: Any, most: int = 2**31 - 1) -> Any:
    """Return a number of the block, from 0 to `most`."""
    return cute.var(x, 0, most, uniform="block").get()



class SplitK:
    """The part of K of a block, and the sums of its group.

    All threads of the cluster construct the object. Those that multiply call `share` for each tile,
    then `summed` for all of its columns, `release`, and `tail` in the end.
    """

    def __init__(self, config: GemmConfig, parts: Any, blocks: Any) -> None:
        """Allocate room for the sums of a tile. `parts` divides `config.split`; `blocks`: of the
        grid.
        """
        (m, n, _k), self.size, self.parts, self.blocks = config.tile, config.split, parts, blocks
        rank = cute.cluster_rank()
        self.part = _below(rank % parts, self.size - 1)
        self.first = rank - self.part  # of the group
        self.warp, self.thread = cute.warp_idx(), cute.thread_idx()
        threads = config.warpgroups * WARPGROUP
        each = m * n // threads // 4
        layout = cute.Layout((4, each, threads), (1, 4 * threads, 4))
        kind = config.mma_atom.c_type
        self.shared = cute.smem(kind, layout, 16, name="sums")  # (4, columns / 8, threads)
        # for each warp: the sums of a group are there; a group has read them
        self.full, self.empty = (cute.mbarriers(threads // 32) for _ in range(2))
        with cute.elect("block"):
            for bars in (self.full, self.empty):
                bars.init(self.size)
            cute.fence_mbarrier_init()
        cute.cluster_sync()
        self.phase = cute.var(0, 0, 1)

    @property
    def group(self) -> Any:
        """The number of the group in the grid: that of its first tile of D."""
        return cute.block_idx() // self.parts

    def tiles(self, count: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the tiles of D of the group by their numbers, out of `count`, and whether there is
        one: the groups of a cluster have as many turns.
        """
        block, size = cute.block_idx(), self.size
        units = _below(cute.ceil_div(count * self.parts, size) * size)
        for turn in cute.range(cute.ceil_div(units - block, self.blocks)):
            tile = _below(block + turn * self.blocks) // self.parts
            inside = tile < count
            yield _below(cute.where(inside, tile, 0)), inside

    def tiles_of_k(self, depth: Any, inside: Any = True) -> tuple[Any, Any]:
        """Return the first tile of K and the end, of `depth`; none where there is no tile of D."""
        first, end = (depth * (self.part + i) // self.parts for i in (0, 1))
        first = _below(first)
        return first, _below(end if inside is True else cute.where(inside, end, first))

    def share(self, sums: Tensor) -> None:
        """Wait until the group has read the sums before, leave new ones, and wait for its others."""
        self.empty.wait(self.warp, 1 - self.phase.get())
        flat = cute.composition(sums, cute.Layout((4, cute.size(sums) // 4)))
        cute.copy(flat, self.shared[_, _, self.thread])
        self._arrive(self.full)
        self.full.wait(self.warp, self.phase.get())

    def _arrive(self, bars: Any) -> None:
        """Arrive at the barrier of the warp in each block of the group, as often as there are
        groups: so each barrier has one arrival for each block of the cluster.
        """
        cute.syncwarp()
        lane = cute.lane_idx()
        with cute.when(lane < self.size):
            bars.arrive(self.warp, self.first + lane % self.parts)

    @contextmanager
    def summed(
        self, columns: list[tuple[int, Tensor]], number: int, inside: Any
    ) -> Iterator[None]:
        """Run the body in the block of the group that stores some columns, with the sums of all.

        Args:
            columns: the first of these columns and the thread's own sums, of each piece.
            number: which of the stores of a tile it is: blocks take turns.
            inside: whether there is a tile.

        """
        with cute.when(inside & (self.part == number % self.parts)):
            for k in cute.range(1, self.parts):
                peer = self.first + (self.part + k) % self.parts
                there = cute.mapa(self.shared, peer)[_, _, self.thread]
                for column, sums in columns:
                    count = cute.size(sums) // 4
                    more = cute.make_rmem_tensor((4, count), sums.dtype)
                    cute.copy(cute.local_tile(there, (4, count), (0, column // 8 // count)), more)
                    own = cute.composition(sums, cute.Layout((4, count)))
                    own += more
            yield

    def release(self) -> None:
        """Tell the group that the thread's warp has read its sums."""
        self._arrive(self.empty)
        self.phase.set(1 - self.phase.get())

    def tail(self) -> None:
        """Wait until the group has read the last sums: shared memory must outlive that."""
        self.empty.wait(self.warp, 1 - self.phase.get())
