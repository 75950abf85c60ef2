"""The GEMMs of `cute.ops.gemm` on Hopper: TMA loads tiles, warpgroups multiply them by wgmma.

The outputs are (D, ...) = f(A B^T), as in `gemm.py`, for K of at least 1. Blocks are persistent:
each computes tile after tile of D, and one warp loads ahead of the warpgroups that multiply. In
`gemm_cooperative` these share a tile; blocks of a cluster may share its tiles of K. In
`gemm_pingpong` each of two has a tile of its own, and one stores while the other multiplies.
`config.store` says how D leaves: by TMA, or from registers where TMA cannot write it.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, TypeAlias

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import assume_product
from cute_py.kernels.config import LINE
from cute_py.kernels.config_sm90 import (
    FEW_ROWS,
    WarpgroupConfig,
    row_mma,
    store_layouts,
    store_parts,
)
from cute_py.kernels.epilogue import (
    Epilogue,
    converted,
    finished,
    given,
    loaded,
    loaded_part,
    of_batch,
    product_kernel,
    spread_part,
)
from cute_py.kernels.pairs import as_taken, by_spread, columns_of, shape_of, twice
from cute_py.kernels.split_k import SplitK, sums_layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.tensor.tensor import Tensor

WARPGROUP = 128  # threads
MANY = 180  # sums of a thread, of 240 registers
Range: TypeAlias = "tuple[Any, Any] | None"  # the first tile of K and the end; None: the block's
Count: TypeAlias = Annotated[cute.s32, cute.s32(min=1, max=2**16 - 1)]


@product_kernel
def gemm_cooperative(
    A: Any,
    B: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    blocks: Count,
    band: Count,
    config: WarpgroupConfig,
    epilogue: Epilogue,
) -> None:
    """Compute the outputs (D, ...) = f(A B^T, *arrays, *numbers), batch by batch; arguments are
    those of `gemm`. Blocks that run together compute `band` tiles of M. As many as `config.split`
    share the tiles of K of a tile.
    """
    arrays = given(arrays, epilogue, "gemm_cooperative")
    assume_product(A, B, arrays, outputs, epilogue)
    cute.launch(blocks, config.threads, config.cluster * config.split, pdl=bool(config.pdl))
    inputs = Inputs(config, A, B)
    tiles = Tiles(config, outputs["D"], columns_of(B, outputs, epilogue), band, inputs.split)
    output = Output(config, epilogue, arrays, outputs, numbers, inputs.split)
    if config.pdl:
        tiles.overlap((A, B))
    warps, registers = 4 * config.consumers, config.registers
    with cute.role("multiply", range(warps), registers[1]):
        for place in tiles.of_block():
            inputs.multiply(meanwhile=lambda k: output.load(k, inputs.depth, place))  # noqa: B023
            output.store(inputs.sums, place)
        output.tail()
    with cute.role("load", range(warps, warps + 4), registers[0]), cute.elect("role"):
        for place in tiles.of_block():
            inputs.load(place, tiles.n)
        if config.cluster > 1:
            inputs.ring.tail()


@product_kernel
def gemm_pingpong(
    A: Any,
    B: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    blocks: Count,
    band: Count,
    config: WarpgroupConfig,
    epilogue: Epilogue,
) -> None:
    """The same, with all of K in a block; two warpgroups take turns with the tensor cores, tile by
    tile.
    """
    arrays = given(arrays, epilogue, "gemm_pingpong")
    assume_product(A, B, arrays, outputs, epilogue)
    cute.launch(blocks, config.threads, pdl=bool(config.pdl))
    tiles = Tiles(config, outputs["D"], columns_of(B, outputs, epilogue), band)
    inputs = Inputs(config, A, B)
    output = Output(config, epilogue, arrays, outputs, numbers)
    turns = initialized(2, arrivals=4)  # a warpgroup may multiply
    if config.pdl:
        tiles.overlap((A, B))
    with cute.role("multiply", range(8), config.registers[1]):
        take_turns(inputs, tiles, output, turns, blocks)
    with cute.role("load", range(8, 12), config.registers[0]), cute.elect("role"):
        for place in tiles.of_block():
            inputs.load(place, tiles.n)


def take_turns(inputs: Inputs, tiles: Tiles, output: Output, turns: Any, blocks: Any) -> None:
    """Multiply and store the tiles of one of two warpgroups, which take turns."""
    me, ring = cute.warp_idx() // 4, inputs.ring
    turn = cute.var(1 - me, 0, 1)  # the first turn begins at once
    with cute.when(me == 1):
        ring.skip(inputs.depth)

    def hand_over() -> None:
        with cute.elect("warp"):  # each: a warp behind the others does not miss its turn
            turns.arrive(1 - me)

    for place in tiles.of_block(cute.block_idx() + me * blocks, 2 * blocks):
        turns.wait(me, turn.get())
        turn.set(1 - turn.get())
        inputs.multiply(hand_over)
        ring.skip(inputs.depth)  # the tile of the other one
        output.store(inputs.sums, place)
    output.tail()


KERNELS = {"cooperative": gemm_cooperative, "pingpong": gemm_pingpong}


def initialized(count: int, arrivals: int = 1) -> Any:  # Mbarriers
    """Return mbarriers with this number of arrivals per phase."""
    bars = cute.mbarriers(count)
    with cute.elect("block"):
        bars.init(arrivals)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    return bars


class Tiles:
    """The tiles of D. Those of a cluster are next to each other along N, and share tiles of A; in
    the last column of an odd number, along M. `split` is None where each block has all of K.
    """

    def __init__(
        self, config: WarpgroupConfig, D: Tensor, N: Any, band: Any, split: SplitK | None = None
    ) -> None:
        (bM, bN, _bK), self.cluster, self.band = config.tile, config.cluster, band
        self.config, self.split = config, split
        self.L = D.shape[2] if cute.rank(D) > 2 else 1
        self.m, self.n = cute.ceil_div(D.shape[0], bM), cute.ceil_div(N, bN)

    def of_block(self, start: Any = None, step: Any = None) -> Iterator[tuple[Any, Any, Any]]:
        """Yield the tiles of a block or warpgroup: the coordinates along M, N and the batch."""
        order: Any = {"group": self.band, "start": start, "step": step}
        if self.cluster > 1:
            yield from self._of_cluster(order)
            return
        for i, j in cute.tiles(self.m, self.n * self.L, **order):
            yield i, *self._of_batch(j, self.n)

    def overlap(self, operands: tuple[Tensor, Tensor]) -> None:
        """Prefetch to L2 what the stages will have of the first tiles, then wait for the previous
        kernel, and let the next one begin. Blocks divide the lines that they share.
        """
        block = cute.block_idx() if self.split is None else cute.cluster_idx()
        place = block % self.m, *self._of_batch(block // self.m, self.n)
        inside = block < self.m * self.n * self.L
        for i, others in enumerate((self.n, self.m)):
            self._prefetch(operands[i], i, place, others, inside)
        cute.griddepcontrol_wait()
        cute.griddepcontrol_launch_dependents()

    def _prefetch(
        self, x: Tensor, i: int, place: tuple[Any, Any, Any], others: Any, inside: Any
    ) -> None:
        """Prefetch A (i = 0) or B (1) by one warpgroup, a line of 128 bytes a thread, if there is a
        tile.
        """
        config, thread = self.config, cute.thread_idx() - i * WARPGROUP
        (rows, depth), wide = (config.tile[i], config.tile[2]), LINE // x.dtype.bits
        tile = cute.local_tile(_matrix(x, place[2]), (rows, depth), (place[i], _))
        line, lines = thread * others + place[1 - i], rows * depth // wide
        k, at = line // lines, line % lines
        if self.split is not None:
            k += self.split.tiles_of_k(cute.ceil_div(x.shape[1], depth))[0]
        first = (at, 0)
        if (config.a, config.b)[i].major == "MN":
            first = at % (rows // wide) * wide, at // (rows // wide)
        mine = cute.thread_idx() // WARPGROUP == i
        # one condition: after a branch of whole blocks, ptxas 13.0 takes no warp to be uniform
        with cute.when(mine & inside & (line < lines * config.stages)):
            one = cute.domain_offset(first, tile[_, _, k])
            cute.prefetch(cute.local_tile(one, (1, 1), (0, 0)))

    def _of_cluster(self, order: Any) -> Iterator[tuple[Any, Any, Any]]:
        pairs, rows, rank = self.n // 2, cute.ceil_div(self.m, 2), cute.block_idx() % 2
        extra = self.n % 2 * rows * self.L
        for i, j in cute.tiles(self.m, pairs * self.L, extra=extra, **order):
            alone = pairs * self.L <= j
            row, of_column = self._of_batch(i, rows)
            column, batch = self._of_batch(j, cute.max_(pairs, 1))
            yield (
                cute.where(alone, row * 2 + rank, i),
                cute.where(alone, self.n - 1, column * 2 + rank),
                cute.where(alone, of_column, batch),
            )

    def _of_batch(self, j: Any, count: Any) -> tuple[Any, Any]:
        return (j, 0) if isinstance(self.L, int) else (j % count, j // count)


class Inputs:
    """The stages of A and B in shared memory, and the sums of a warpgroup."""

    def __init__(self, config: WarpgroupConfig, A: Tensor, B: Tensor) -> None:
        self.config, self.mma = config, config.tiled_mma()
        self.rows, self.depth = A.shape[0], cute.ceil_div(A.shape[1], config.tile[2])
        self.sources = [cute.tma_tensor(x) for x in (A, B)]
        layouts = config.smem_layouts()  # (BLK_M or BLK_N, BLK_K, stages)
        self.shared = [cute.smem(A.dtype, layouts[0], 1024, name="sA")]
        with cute.union():
            self.shared.append(cute.smem(B.dtype, layouts[1], 1024, name="sB"))
            if config.split > 1:
                kind = config.mma_atom.c_type
                sums = cute.smem(kind, sums_layout(config), 1024, name="sums")
        self.split = SplitK(config, sums) if config.split > 1 else None
        of_ring: Any = {"tiles": self.shared, "count": config.warpgroups, "cluster": config.cluster}
        self.ring = cute.pipeline(config.stages, consumers="warpgroup", **of_ring)
        self.thr = self.mma.get_slice(cute.thread_idx() % (config.warpgroups * WARPGROUP))
        tile = self.thr.partition_C(cute.make_identity_tensor(config.tile[:2]))
        self.sums = self.thr.make_fragment_C(tile)  # (MMA, MMA_M, MMA_N)
        self.parts = cute.make_fragment_like(self.sums) if config.two_level else self.sums

    def _of_k(self, given: Range) -> tuple[Any, Any]:
        """Return the first tile of K of the block, and the end."""
        if given is not None:
            return given
        return (0, self.depth) if self.split is None else self.split.tiles_of_k(self.depth)

    def load(self, place: tuple[Any, Any, Any], columns: Any, of_k: Range = None) -> None:
        """Load the tiles of K of a tile of D, or some of them; one thread does. Each block of a
        cluster loads half of A for both: of the tile that they share, or, in a last column without
        a neighbour, of either's own. So a stage that is full in one block has been empty in both.
        """
        (bM, bN, bK), count = self.config.tile, self.config.cluster
        m, n, batch = place
        (tA, tB), (sA, sB) = (_matrix(x, batch) for x in self.sources), self.shared
        gA = cute.local_tile(tA, (bM // count, bK), (_, _))  # (all or half of BLK_M, BLK_K, m, k)
        gB = cute.local_tile(tB, (bN, bK), (n, _))  # (BLK_N, BLK_K, k)
        # no boxes wholly outside, as there are where M or N is contiguous
        edges = ["skip" if x.major == "MN" else "zero" for x in (self.config.a, self.config.b)]
        rank = cute.block_idx() % count if count > 1 else 0
        sA = cute.local_tile(sA, (bM // count, bK), (rank, 0))
        first, end = self._of_k(of_k)
        if self.split is not None:
            with cute.when(first < end):
                self.split.acquire()
        for k in cute.range(first, end):
            stage = self.ring.acquire()
            if count == 1 and bM == 64 and edges[0] == "zero":
                self._load_few(tA, m, k, stage)
            elif count == 1:
                self.ring.load(gA[_, _, m, k], sA[_, _, stage], outside=edges[0])
            else:
                with cute.when((n % 2 == 1) | (n < columns - 1)):
                    self.ring.load(gA[_, _, 2 * m + rank, k], sA[_, _, stage], 3)
                with cute.otherwise():
                    for i in range(2):
                        part = gA[_, _, 2 * (m - rank + i) + rank, k]
                        self.ring.load(part, sA[_, _, stage], 1 << i)
            self.ring.load(gB[_, _, k], sB[_, _, stage], outside=edges[1])
            self.ring.commit()

    def _load_few(self, tA: Tensor, m: Any, k: Any, stage: Any) -> None:
        """Load 64 rows of A, or those that there are, some at a time."""
        bK = self.config.tile[2]
        whole, sA = (m + 1) * 64 <= self.rows, self.shared[0]
        with cute.when(whole):
            self.ring.load(cute.local_tile(tA, (64, bK), (m, k)), sA[_, _, stage])
        with cute.otherwise():
            for i in range(64 // FEW_ROWS):
                part = cute.local_tile(tA, (FEW_ROWS, bK), (m * (64 // FEW_ROWS) + i, k))
                staged = cute.local_tile(sA[_, _, stage], (FEW_ROWS, bK), (i, 0))
                self.ring.load(part, staged, outside="skip")

    def _accumulates(self, k: Any, fills: bool) -> Any:
        """Return whether products of tile k of K are added to the sums."""
        return not self.config.two_level and (fills or k > 0)

    def multiply(
        self,
        issued: Callable[[], None] = lambda: None,
        meanwhile: Callable[[Any], None] = lambda _k: None,
        of_k: Range = None,
    ) -> None:
        """Sum up a tile, or some tiles of its K. `issued` is called after the last product has been
        issued, `meanwhile` in each iteration. One product is in flight while the next one is
        issued, so a stage is released an iteration later; with sums of two levels, at once.
        """
        two_level, sums, ring = bool(self.config.two_level), self.sums, self.ring
        tCsA, tCsB = (
            self.thr.partition_A(self.shared[0]),  # (MMA, MMA_M, MMA_K, stages)
            self.thr.partition_B(self.shared[1]),  # (MMA, MMA_N, MMA_K, stages)
        )
        fills = self.split is not None or of_k is not None  # there may be no tile of K
        if two_level or fills:
            sums.fill(0)
        for k in cute.range(*self._of_k(of_k)):
            stage = ring.wait()
            a, b = tCsA[_, _, _, stage], tCsB[_, _, _, stage]
            cute.warpgroup_fence()
            cute.warpgroup_gemm(self.mma, self.parts, a, b, self._accumulates(k, fills))
            cute.warpgroup_commit()
            if two_level:
                cute.warpgroup_wait(0)
                ring.release()
                sums += self.parts
            else:
                cute.warpgroup_wait(1)
                ring.release(behind=1)
            meanwhile(k)
        issued()
        if not two_level:
            cute.warpgroup_wait(0)
            ring.release_rest()


class Output:
    """The epilogue: sums to D, 64 rows of a warpgroup and some columns at a time."""

    def __init__(
        self,
        config: WarpgroupConfig,
        epilogue: Epilogue,
        arrays: Any,
        outputs: Any,
        numbers: tuple[Any, ...],
        split: SplitK | None = None,
    ) -> None:
        self.config, self.epilogue, self.split = config, epilogue, split
        self.arrays, (self.D, *self.more) = list(arrays.values()), outputs.values()
        self.numbers = numbers
        self.parts = store_parts(config, self.D.dtype)
        self.me, self.thread = cute.warp_idx() // 4, cute.thread_idx() % WARPGROUP
        self.targets: list[Tensor | None] = [None for _x in self.more]
        self.by_tma = bool(config.store) and epilogue.is_wide()
        if self.by_tma:
            self.target = cute.tma_tensor(self.D)
            self.targets = [
                cute.tma_tensor(x) if x.dtype is self.D.dtype and epilogue.is_wide(i) else None
                for i, x in enumerate(self.more, 1)
            ]
            self.ring = cute.PipelineTmaStore(1, WARPGROUP, 1 + self.me, self.thread)
            self.shared = {
                width: cute.smem(self.D.dtype, layout, 1024, name=f"sD{width}")
                for width, layout in store_layouts(config, self.D.dtype).items()
            }  # width -> (64, width, slots, warpgroups)
        if self.loads_source:
            self.source, self.full = self._source(), initialized(config.consumers)
            self.parity = cute.var(1, 0, 1)

    @property
    def loads_source(self) -> bool:
        """Whether TMA loads the first matrix, C, to the shared memory of D."""
        return bool(self.config.prefetch) and self.epilogue.has_source

    def _source(self) -> Tensor:
        """Return C for TMA."""
        return cute.tma_tensor(self.arrays[self.epilogue.arrays.index("matrix")])

    def load(self, k: Any, depth: Any, place: tuple[Any, Any, Any]) -> None:
        """Load C of a tile, in iteration k of its products. A part at every second one: all at once
        would delay A and B.
        """
        if not self.loads_source:
            return
        row, bits = 64 * self.me, 64 * self.config.tile[1] * self.D.dtype.bits
        for i, (column, width, slot) in enumerate(self.parts[0]):
            with cute.when((k == cute.min_(2 * i + 1, depth - 1)) & (self.thread == 0)):
                if i == 0:
                    cute.tma_store_wait(0, read=True)
                    self.full.arrive_expect_tx(self.me, bits // 8)
                part = self._part(self.source, (row, column), (64, width), place)
                cute.tma_load(part, self.shared[width][_, _, slot, self.me], self.full, self.me)

    def _acquire(self) -> None:
        """Wait until shared memory is free, or has C."""
        if self.loads_source:
            self.parity.set(1 - self.parity.get())
            self.full.wait(self.me, self.parity.get())
        elif self.by_tma:
            self.ring.acquire()

    def store(self, sums: Tensor, place: tuple[Any, Any, Any]) -> None:
        """Store the sums (MMA, MMA_M, MMA_N) of a tile."""
        together, rows = self.config.warpgroups, cute.logical_divide(sums, (_, 1))
        if self.split is not None:
            self.split.share(sums)
        for i in range(cute.size(sums, 1)):
            row = 64 * (i * together + (self.me if together > 1 else 0))
            for number, parts in enumerate(self.parts):
                part = rows[_, (_, i), _]
                with self._summed(number, part, parts):
                    self._store(part, row, parts, place)
        if self.split is not None:
            self.split.release()

    def _summed(self, number: int, sums: Tensor, parts: Any) -> Any:
        """Return a context in which some columns have the sums of all of K."""
        if self.split is None:
            return nullcontext()
        mma = row_mma(self.config)
        pieces = [(column, mma.columns_C(sums, column, width)) for column, width, _slot in parts]
        return self.split.summed(number, pieces)

    def _store(self, sums: Tensor, row: Any, parts: Any, place: tuple[Any, Any, Any]) -> None:
        """Store some columns of 64 rows, which leave together."""
        self._acquire()
        stores, later = [], []
        for column, width, slot in parts:
            at, size, staged = (row, column), (64, width), None
            if self.by_tma:
                staged = self.shared[width][_, _, slot, self.me]
                stores.append((staged, self._part(self.target, at, size, place)))
            later.append((staged, at, width, self._write(sums, at, width, place, staged)))
        if self.by_tma:
            self.ring.commit(*stores)
        for i, target in enumerate(self.targets):
            if target is not None:
                self._store_next(i, target, later, place)

    def _store_next(self, i: int, target: Tensor, held: list[Any], place: Any) -> None:
        """Store the same part of another output, which is in registers, by way of the same shared
        memory.
        """
        self.ring.acquire()
        stores = []
        for staged, at, width, pieces in held:
            for thr, column, columns, more in pieces:
                part = cute.local_tile(staged, (64, columns), (0, column // columns))
                _to_shared(thr, more[i], part)
            stores.append((staged, self._part(target, at, (64, width), place)))
        self.ring.commit(*stores)

    def _write(
        self, sums: Tensor, at: Any, width: int, place: Any, staged: Tensor | None
    ) -> list[Any]:
        """Write a part (64, width) of a tile to shared memory, or to D; return what leaves next: of
        some columns the slice of the MMA, the first, how many, and the other outputs. An epilogue
        that needs many registers takes few columns at a time.
        """
        (row, column), mma = at, row_mma(self.config)
        step = self._columns(width)
        thr = row_mma(self.config, step).get_slice(self.thread)
        if self.arrays:
            cute.syncwarp()  # loads of the next part would take registers
        later = []
        for j in range(0, width, step):
            x = mma.columns_C(sums, column + j, step)
            part = None if staged is None else cute.local_tile(staged, (64, step), (0, j // step))
            x, *more = self._finished(thr, x, (row, column + j), place, part)
            more = [converted(y, to.dtype) for y, to in zip(more, self.more, strict=True)]
            for i, (y, target) in enumerate(zip(more, self.targets, strict=True), 1):
                if target is None:
                    self._write_directly(thr, i, y, (row, column + j), step, place)
            later.append((thr, j, step, more))
            x = converted(x, self.D.dtype)
            if part is not None:
                if self.loads_source:
                    cute.syncwarp()  # lanes have read C where others write D
                _to_shared(thr, x, part)
            else:
                self._write_directly(thr, 0, x, (row, column + j), step, place)
        return later

    def _write_directly(
        self, thr: Any, output: int, x: Tensor, at: Any, columns: int, place: Any
    ) -> None:
        """Write a part of a tile of an output from registers, by its number."""
        target = (self.D, *self.more)[output]
        spread = "matrix" if self.epilogue.is_wide(output) else "matrix of pairs"
        part = self._part(target, at, (64, columns), place, spread)
        cute.copy(x, by_spread(thr.partition_C, spread, self.epilogue)(part))

    def _columns(self, width: int) -> int:
        """Return how many columns to take at a time: all, or few where registers are few."""
        (m, n, _k), epilogue = self.config.tile, self.epilogue
        sums = m * n // self.config.warpgroups // WARPGROUP  # of a thread
        if epilogue.is_plain:
            return width
        alone = self.config.schedule == "cooperative" and self.config.split == 1
        light = alone and epilogue.is_light
        if sums <= 128 and (light or epilogue.is_in_place):
            return width
        return min(width, 16 if sums > MANY else 32)

    def tail(self) -> None:
        """Wait until all of D is written, and the sums of this block are read."""
        if self.by_tma:
            self.ring.tail()
        if self.split is not None:
            self.split.tail()

    def _finished(
        self, thr: Any, sums: Tensor, at: Any, place: Any, shared: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Return the elements of the outputs for the sums of a part of a tile; `shared` may have
        those of C.
        """
        size, compute = (64, thr.tiled_mma.tile_size(1)), self.epilogue.compute
        first = self.epilogue.arrays.index("matrix") if self.loads_source else None

        sums = as_taken(sums, self.epilogue)

        def load(i: int) -> Tensor:
            spread = self.epilogue.arrays[i]
            partition = by_spread(thr.partition_C, spread, self.epilogue)
            if spread.startswith("matrix"):
                part = shared if i == first else self._part(self.arrays[i], at, size, place, spread)
                return loaded(partition(part), compute)
            x = of_batch(self.arrays[i], spread, place[2])
            if spread == "one":
                return loaded(x, compute)
            mode, pairs = int(spread != "column"), spread == "row of pairs"
            each = 2 if pairs else 1
            tile = cute.local_tile(x, (self.config.tile[mode] // each,), (place[mode],))
            tile = cute.domain_offset((at[mode] // each,), tile)
            mine = spread_part(partition, tile, size, 0, mode, pairs)
            return loaded_part(mine, (_, _, _), shape_of(sums, spread, self.epilogue), compute)

        return finished(self.epilogue, sums, load, self.numbers)

    def _part(self, x: Tensor, at: Any, size: Any, place: Any, spread: str = "matrix") -> Tensor:
        """Return a part (64, width) of the block's tile of a matrix; each column twice where it has
        one for each pair.
        """
        each = 2 if spread == "matrix of pairs" else 1
        (m, n, _k), (row, column), (rows, columns) = self.config.tile, at, size
        tile = cute.local_tile(_matrix(x, place[2]), (m, n // each), place[:2])
        tile = cute.domain_offset((row, column // each), tile)
        part = cute.local_tile(tile, (rows, columns // each), (0, 0))
        return part if each == 1 else cute.composition(part, twice(size))


def _to_shared(thr: Any, x: Tensor, target: Tensor) -> None:
    """Write a part (64, width), by stmatrix if its elements have 16 bits."""
    if x.dtype.bits != 16:
        cute.copy(x, thr.partition_C(target))
        return
    wide = cute.Copy_Atom(f"SM90_U32x{2 if cute.size(target, 1) == 8 else 4}_STSM_N", x.dtype)
    copy = cute.make_tiled_copy_C(wide, thr.tiled_mma)
    mine = copy.get_slice(cute.thread_idx() % WARPGROUP)
    cute.copy(copy, mine.retile_S(x), mine.partition_D(target))


def _matrix(x: Tensor, batch: Any) -> Tensor:
    """Return one matrix of a batch; a tensor of two modes is one already."""
    return x if cute.rank(x) == 2 else x[_, _, batch]
