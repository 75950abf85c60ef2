"""The GEMMs of `cute.ops.gemm` on Hopper: TMA loads tiles, warpgroups multiply them by wgmma.

D = activation(alpha * A B^T + beta * C + bias), as in `gemm.py`. Blocks are persistent: each computes
every `blocks`-th tile of D, and one warp loads tile after tile ahead of the warpgroups that multiply.
In `gemm_cooperative` these share a tile. In `gemm_pingpong` each of two has a tile of its own, so one
stores while the other multiplies. A D that TMA cannot write is stored from registers.
"""

from __future__ import annotations

import cute_py as cute
from cute_py import _
from cute_py.kernels.config import GemmConfig
from cute_py.kernels.epilogue import Epilogue, activated, converted, loaded, loaded_row, row_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.tensor.tensor import Tensor

WARPGROUP = 128
MOST = 2**30  # tiles of D
Count = cute.s32(min=1, max=2**16)


@cute.kernel
def gemm_cooperative(
    A: Any,
    B: Any,
    C: Any,
    bias: Any,
    D: Any,
    alpha: cute.f64,
    beta: cute.f64,
    blocks: Count,
    band: Count,
    config: GemmConfig,
    epilogue: Epilogue,
) -> None:
    """D = activation(alpha * A B^T + beta * C + bias), batch by batch."""
    cute.launch(blocks, config.threads, config.cluster, pdl=bool(config.pdl))
    block, end = _Block(config, A, B, D), _End(config, epilogue, (C, bias, D), (alpha, beta))
    block.begin()
    with cute.when(cute.warp_idx() // 4 == config.consumers):
        block.load(blocks, band)
    with cute.otherwise():
        _registers(config, 1)
        for i, t in block.tiles(blocks):
            end.store(block.multiply(i), block.place(t, band))
        end.drain()


@cute.kernel
def gemm_pingpong(
    A: Any,
    B: Any,
    C: Any,
    bias: Any,
    D: Any,
    alpha: cute.f64,
    beta: cute.f64,
    blocks: Count,
    band: Count,
    config: GemmConfig,
    epilogue: Epilogue,
) -> None:
    """The same; the warpgroups take turns with the tensor cores, tile by tile."""
    cute.launch(blocks, config.threads, config.cluster, pdl=bool(config.pdl))
    block, end = _Block(config, A, B, D), _End(config, epilogue, (C, bias, D), (alpha, beta))
    turns = cute.mbarriers(2)  # of the two: it may multiply
    block.begin(turns)
    with cute.when(cute.warp_idx() // 4 == config.consumers):
        block.load(blocks, band)
    with cute.otherwise():
        _registers(config, 1)
        group, leader = cute.warp_idx() // 4, cute.thread_idx() % WARPGROUP == 0

        def hand_over() -> None:
            with cute.when(leader):
                turns.arrive(1 - group)

        for i, t in block.tiles(blocks):
            with cute.when(i % 2 == group):
                turns.wait(group, (i // 2 + 1 - group) % 2)  # the first turn begins at once
                end.store(block.multiply(i, hand_over), block.place(t, band))
        end.drain()


KERNELS = {"cooperative": gemm_cooperative, "pingpong": gemm_pingpong}


class _Block:
    """What all warps of a block know: its tiles in shared memory, and the barriers of each stage:
    `full` ends a phase when the tiles have arrived, `empty` when all that read them have released
    them. Blocks of a cluster load a part of A each, for all.
    """

    def __init__(self, config: GemmConfig, A: Tensor, B: Tensor, D: Tensor) -> None:
        self.config, self.mma, self.D = config, config.tiled_mma(), D
        self.depth = cute.ceil_div(A.shape[1], config.tile[2])
        m, n = (cute.ceil_div(x, t) for x, t in zip(D.shape[:2], config.tile, strict=False))
        self.tiles_mn = m, cute.ceil_div(n, config.cluster)  # those of the same A are one
        self.sources = [cute.tma_tensor(x) for x in (A, B)]
        self.shared = [
            cute.smem(x.dtype, layout, 1024, name=name)
            for x, layout, name in zip((A, B), config.smem_layouts(), ("sA", "sB"), strict=True)
        ]  # (BLK_M or BLK_N, BLK_K, stages)
        self.bytes = sum(config.tile[:2]) * config.tile[2] * A.dtype.bits // 8
        self.full, self.empty = cute.mbarriers(config.stages), cute.mbarriers(config.stages)
        tile = self.mma.get_slice(0).partition_C(cute.make_identity_tensor(config.tile[:2]))
        self.sums = self.mma.get_slice(0).make_fragment_C(tile)
        self.parts = cute.make_fragment_like(self.sums) if config.two_level else self.sums

    def begin(self, turns: Any = None) -> None:
        """Initialize the barriers, wait for the previous kernel, and let the next one begin."""
        config = self.config
        with cute.when(cute.thread_idx() == 0):
            self.full.init(1)
            self.empty.init(config.warpgroups * config.cluster)
            if turns:
                turns.init(1)
            cute.fence_mbarrier_init()
        self.synchronize()
        if config.pdl:
            cute.griddepcontrol_wait()
            cute.griddepcontrol_launch_dependents()

    def synchronize(self) -> None:
        """Wait for all threads of the block, or of the cluster."""
        cute.cluster_sync() if self.config.cluster > 1 else cute.syncthreads()

    def count(self, blocks: Any) -> Any:
        """Return how many tiles of D a block computes."""
        L = self.D.shape[2] if cute.rank(self.D) > 2 else 1
        all, cluster = _bounded(self.tiles_mn[0] * self.tiles_mn[1] * L), self.config.cluster
        return cute.ceil_div(all - cute.block_idx() // cluster, self._step(blocks))

    def _step(self, blocks: Any) -> Any:
        cluster = self.config.cluster
        return blocks if cluster == 1 else _bounded(blocks // cluster, 1)

    def tiles(self, blocks: Any) -> Iterator[tuple[Any, Any]]:
        """Yield (0, 1, ...; the number of a tile of D) for the tiles of a block."""
        step = self._step(blocks)
        for i in cute.range(self.count(blocks)):
            yield i, _bounded(cute.block_idx() // self.config.cluster + i * step)

    def place(self, t: Any, band: Any) -> tuple[Any, Any, Any]:
        """Return a tile of D as that of M, of N, and of the batch. Those that run together cover
        `band` tiles of M.
        """
        (m, n), batch, cluster = self.tiles_mn, 0, self.config.cluster
        if cute.rank(self.D) > 2:
            t, batch = t % (m * n), t // (m * n)
        whole = _bounded(band * n, 1)
        top, t = t // whole * band, t % whole
        rows = _bounded(cute.min_(band, m - top), 1)
        return top + t % rows, t // rows * cluster + cute.block_idx() % cluster, batch

    def load(self, blocks: Any, band: Any) -> None:
        """Load the tiles of K of all tiles of D; one thread does."""
        _registers(self.config, 0)
        with cute.when(cute.thread_idx() == self.config.consumers * WARPGROUP):
            for i, t in self.tiles(blocks):
                m, n, batch = self.place(t, band)
                boxes, first = self._boxes(m, n, batch), _bounded(i * self.depth)
                for k in cute.range(self.depth):
                    stage = self._emptied(first + k)
                    self.full.arrive_expect_tx(stage, self.bytes)
                    for source, target, mask in boxes:
                        into = target[_, _, stage]
                        cute.tma_load(source[_, _, k], into, self.full, stage, multicast=mask)
            if self.config.cluster > 1:  # stay until the others have released all stages
                end = _bounded(self.count(blocks) * self.depth)
                for k in range(self.config.stages):
                    self._emptied(end + k)

    def _emptied(self, at: Any) -> Any:
        """Wait until a stage may be filled for the `at`-th time, counting all stages; return it."""
        stages = self.config.stages
        self.empty.wait(at % stages, (at // stages + 1) % 2)
        return at % stages

    def _boxes(self, m: Any, n: Any, batch: Any) -> list[tuple[Tensor, Tensor, int]]:
        """Return tiles (BLK, BLK_K, k) of A and B, their stages (BLK, BLK_K, stages), and for which
        blocks of the cluster they are.
        """
        config = self.config
        bM, bN, bK = config.tile
        gA, gB = (_matrix(x, batch) for x in self.sources)
        sA, sB = self.shared
        gB = cute.local_tile(gB, (bN, bK), (n, _))
        if config.cluster == 1:
            return [(cute.local_tile(gA, (bM, bK), (m, _)), sA, 0), (gB, sB, 0)]
        part, rank = bM // config.cluster, cute.block_idx() % config.cluster
        gA = cute.local_tile(gA, (part, bK), (m * config.cluster + rank, _))
        return [
            (gA, cute.local_tile(sA, (part, bK), (rank, 0)), 2**config.cluster - 1),
            (gB, sB, 0),
        ]

    def release(self, stage: Any, condition: Any = True) -> None:
        """Tell all blocks of the cluster that a warpgroup has read a stage."""
        thread = cute.thread_idx() % WARPGROUP
        if self.config.cluster == 1:
            with cute.when((thread == 0) & condition):
                self.empty.arrive(stage)
            return
        with cute.when((thread % 32 == 0) & (thread < 32 * self.config.cluster) & condition):
            self.empty.arrive(stage, cluster_rank=thread // 32)

    def multiply(self, i: Any, issued: Callable[[], None] = lambda: None) -> Tensor:
        """Return the sums (MMA, MMA_M, MMA_N) of the i-th tile of a block. `issued` is called after
        the last product has been issued. One is in flight while the next one is issued, so a stage
        is released an iteration later; with sums of two levels, at once.
        """
        stages = self.config.stages
        thr = self.mma.get_slice(cute.thread_idx() % (self.config.warpgroups * WARPGROUP))
        tCsA, tCsB = thr.partition_A(self.shared[0]), thr.partition_B(self.shared[1])
        acc, part = self.sums, self.parts
        two_level = bool(self.config.two_level)
        first = _bounded(i * self.depth)
        if two_level:
            acc.fill(0)
        for k in cute.range(self.depth):
            at = first + k
            stage = at % stages
            self.full.wait(stage, at // stages % 2)
            cute.warpgroup_fence()
            a, b = tCsA[_, _, _, stage], tCsB[_, _, _, stage]
            cute.warpgroup_gemm(self.mma, part, a, b, False if two_level else k > 0)
            cute.warpgroup_commit()
            cute.warpgroup_wait(0 if two_level else 1)
            if two_level:
                self.release(stage)
                acc += part
            else:
                self.release((at + stages - 1) % stages, k > 0)
        issued()
        if not two_level:
            cute.warpgroup_wait(0)
            self.release((first + self.depth + stages - 1) % stages)
        return acc


class _End:
    """The epilogue: sums to D, a fragment of 64 rows and some columns at a time."""

    def __init__(self, config: GemmConfig, epilogue: Epilogue, arrays: Any, factors: Any) -> None:
        self.config, self.epilogue = config, epilogue
        (self.C, self.bias, self.D), self.factors = arrays, factors
        self.target = cute.tma_tensor(self.D) if config.store else self.D
        self.parts = config.store_parts(self.D.dtype)
        self.shared = {
            width: cute.smem(self.D.dtype, layout, 1024, name=f"sD{width}")
            for width, layout in config.store_layouts(self.D.dtype).items()
        }  # (rows, width, buffers)

    def store(self, acc: Tensor, place: tuple[Any, Any, Any]) -> None:
        """Store the sums of a tile."""
        config = self.config
        group, thread = cute.warp_idx() // 4, cute.thread_idx() % WARPGROUP
        passes = [(i, parts) for i in range(cute.size(acc, 1)) for parts in self.parts]
        for step, (i, parts) in enumerate(passes):
            row = 64 * (i * config.warpgroups + (group if config.warpgroups > 1 else 0))
            buffer = step % config.buffers
            if config.store:
                with cute.when(thread == 0):
                    pending = config.buffers - 1 if step or not len(passes) % config.buffers else 0
                    cute.tma_store_wait(pending, read=True)
                cute.named_barrier(1 + group, WARPGROUP)
            for column, width, slot in parts:
                thr, x = self._finished(acc, i, (row, column, width), place)
                if config.store:
                    self._to_shared(thr, x, self._staged(width, slot, buffer, group))
                else:
                    cute.copy(x, thr.partition_C(self._part(self.D, (row, column, width), place)))
            if config.store:
                cute.fence_proxy_async()
                cute.named_barrier(1 + group, WARPGROUP)
                with cute.when(thread == 0):
                    for column, width, slot in parts:
                        target = self._part(self.target, (row, column, width), place)
                        cute.tma_store(self._staged(width, slot, buffer, group), target)
                    cute.tma_store_commit()

    def drain(self) -> None:
        """Wait until all of D is written."""
        if self.config.store:
            with cute.when(cute.thread_idx() % WARPGROUP == 0):
                cute.tma_store_wait(0)

    def _finished(self, acc: Tensor, i: int, at: Any, place: Any) -> Any:
        """Return the thread's slice of a part (64, width) of a tile, and its elements of D."""
        _row, column, width = at
        mma = cute.make_tiled_mma(f"SM90_64x{width}x16_F32F16F16_SS")
        thr, epilogue = mma.get_slice(cute.thread_idx() % WARPGROUP), self.epilogue
        x = converted(_columns(acc, i, column, width), epilogue.compute)
        if epilogue.alpha:
            x = x * self.factors[0].to(epilogue.compute)
        if epilogue.source:
            part = thr.partition_C(self._part(self.C, at, place))
            x = x + loaded(part, epilogue.compute) * self.factors[1].to(epilogue.compute)
        if epilogue.bias:
            row = cute.local_tile(self.bias, self.config.tile[1:2], (place[1],))
            row = row_part(thr, cute.domain_offset((column,), row), (64, width), 0)
            x = x + loaded_row(row, (_, _, _), x)
        return thr, converted(activated(x, epilogue.activation), self.D.dtype)

    def _part(self, x: Tensor, at: Any, place: Any) -> Any:
        """Return a part (64, width) of the block's tile of a matrix."""
        row, column, width = at
        tile = cute.local_tile(_matrix(x, place[2]), self.config.tile[:2], place[:2])
        return cute.local_tile(cute.domain_offset((row, column), tile), (64, width), (0, 0))

    def _staged(self, width: int, slot: int, buffer: int, group: Any) -> Any:
        """Return where a part is in shared memory."""
        slots = cute.local_tile(self.shared[width], (64, width), (group, 0, _))
        count = cute.size(slots, 2) // self.config.buffers
        return slots[_, _, buffer * count + slot]

    def _to_shared(self, thr: Any, x: Tensor, target: Tensor) -> None:
        if x.dtype.bits != 16:
            cute.copy(x, thr.partition_C(target))
            return
        matrices = "SM90_U32x4_STSM_N" if target.shape[1] % 16 == 0 else "SM90_U32x2_STSM_N"
        copy = cute.make_tiled_copy_C(cute.Copy_Atom(matrices, x.dtype), thr.tiled_mma)
        mine = copy.get_slice(cute.thread_idx() % WARPGROUP)
        cute.copy(copy, mine.retile_S(x), mine.partition_D(target))


def _registers(config: GemmConfig, consumes: int) -> None:
    """Move registers from the loading warpgroup to those that multiply."""
    if config.registers:
        cute.setmaxnreg(config.registers[consumes], ("dec", "inc")[consumes])


def _columns(acc: Tensor, i: int, column: int, width: int) -> Tensor:
    """Return columns of the i-th 64-row fragment of the sums, as a fragment (MMA, 1, 1)."""
    row = cute.size(acc, 0)
    layout = cute.Layout((((2, 2, width // 8), 1, 1), cute.size(acc) // 4), (((1, 2, 4), 0, 0), 4))
    return acc.with_layout(layout)[(_, _, _), (i * row + column // 2) // 4]


def _bounded(x: Any, low: int = 0) -> Any:
    """Return an integer of 31 bits: a division of it is one of 32 bits."""
    return cute.var(x, low, MOST).get()


def _matrix(x: Tensor, batch: Any) -> Tensor:
    """Return one matrix of a batch; a tensor of two modes is one already."""
    return x if cute.rank(x) == 2 else x[_, _, batch]
