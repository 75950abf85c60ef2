"""K split over the blocks of a cluster, which add their sums through shared memory.

Each block has a part of the tiles of K of a tile of D, and leaves its sums where B was. Then each
adds those of the others for some columns of the tile, in a fixed order, and stores these. The next
tile is loaded when all have been read.

So results are equal in every run, sums take no global memory, and no block waits for one that has
not begun: the blocks of a cluster run together.
"""

from __future__ import annotations

from contextlib import contextmanager

import cute_py as cute
from cute_py import _

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from cute_py.kernels.config_sm90 import WarpgroupConfig
    from cute_py.layout.layout import Layout
    from cute_py.tensor.tensor import Tensor

WARPGROUP = 128  # threads
BARRIER = 4  # the named barrier of all that multiply; those before it are of their stores
MOST = 2**31 - 1  # tiles of K


def sums_layout(config: WarpgroupConfig) -> Layout:
    """Return the layout of the sums of a tile in shared memory: (4, columns / 8, threads)."""
    (m, n, _k), threads = config.tile, config.warpgroups * WARPGROUP
    return cute.Layout((4, m * n // threads // 4, threads), (1, 4 * threads, 4))


class SplitK:
    """The part of K of a block, and the sums of the blocks of its cluster.

    All threads of the cluster construct the object. Those that multiply call `share` for each tile,
    `summed` for all of its columns, and `release`; in the end `tail`. The one that loads calls
    `acquire` before each tile.
    """

    def __init__(self, config: WarpgroupConfig, shared: Tensor) -> None:
        """Begin; `shared` is memory for the sums of a tile, with the layout `sums_layout`."""
        self.parts, self.shared = config.split, shared
        self.part, self.warp, self.thread = cute.cluster_rank(), cute.warp_idx(), cute.thread_idx()
        self.threads = config.warpgroups * WARPGROUP
        warps = self.threads // 32
        # the sums of a warp are there in all blocks; all warps have read those of all blocks
        self.full, self.empty = cute.mbarriers(warps), cute.mbarriers(1)
        with cute.elect("block"):
            self.full.init(self.parts)
            self.empty.init(self.parts * warps)
            cute.fence_mbarrier_init()
        cute.cluster_sync()
        self.phase = cute.var(0, 0, 1)

    def tiles_of_k(self, depth: Any) -> tuple[Any, Any]:
        """Return the first tile of K and the end, of `depth`."""
        first, end = (
            cute.var(depth * (self.part + i) // self.parts, 0, MOST, uniform="block").get()
            for i in (0, 1)
        )
        return first, end

    def share(self, sums: Tensor) -> None:
        """Leave the sums of a tile, when no warp multiplies any more, and wait for the others."""
        self.tail()  # a part without tiles of K has loaded nothing
        cute.named_barrier(BARRIER, self.threads)
        flat = cute.composition(sums, cute.Layout((4, cute.size(sums) // 4)))
        cute.copy(flat, self.shared[_, _, self.thread])
        self._arrive(self.full, self.warp)
        self.full.wait(self.warp, self.phase.get())

    def _arrive(self, bars: Any, index: Any) -> None:
        """Arrive at a barrier in each block, for the warp."""
        cute.syncwarp()
        with cute.when(cute.lane_idx() < self.parts):
            bars.arrive(index, cute.lane_idx() % self.parts)

    @contextmanager
    def summed(self, number: int, columns: Sequence[tuple[int, Tensor]]) -> Iterator[None]:
        """Run the body in the block that stores some columns, with the sums of all blocks.

        Args:
            number: which of the stores of a tile it is; the blocks take turns.
            columns: of each piece, its first column and the thread's own sums.

        """
        with cute.when(self.part == number % self.parts):
            for k in cute.range(1, self.parts):
                there = cute.mapa(self.shared, (self.part + k) % self.parts)[_, _, self.thread]
                for column, sums in columns:
                    shape = 4, cute.size(sums) // 4
                    more = cute.make_rmem_tensor(shape, sums.dtype)
                    cute.copy(cute.local_tile(there, shape, (0, column // 8 // shape[1])), more)
                    own = cute.composition(sums, cute.Layout(shape))
                    own += more
            yield

    def release(self) -> None:
        """Tell all blocks that the thread's warp has read their sums."""
        cute.fence_proxy_async()  # TMA writes there next
        self._arrive(self.empty, 0)
        self.phase.set(1 - self.phase.get())

    def acquire(self) -> None:
        """Wait until all blocks have read the sums of the tile before."""
        self.tail()
        self.phase.set(1 - self.phase.get())

    def tail(self) -> None:
        """Wait until all blocks have read the last sums: shared memory must outlive that."""
        self.empty.wait(0, 1 - self.phase.get())
