"""The GEMM behind `cute.ops.gemm`: D = f(A B^T), any types.

One kernel for tensor cores and for plain multiply-adds, for operands that are contiguous along
either mode, and for batches. `GemmConfig` says how, `Epilogue` what happens to the sums. A is
(M,K,L), B (N,K,L), D (M,N,L); L counts the batch.
"""

from __future__ import annotations

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import assume_product
from cute_py.kernels.config import MultistageConfig
from cute_py.kernels.epilogue import (
    Epilogue,
    Terms,
    converted,
    finished,
    given,
    product_kernel,
)
from cute_py.kernels.pairs import as_taken, columns_of, stored_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.tensor.tensor import Tensor


@product_kernel
def gemm(
    A: Any,
    B: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    config: MultistageConfig,
    epilogue: Epilogue,
) -> None:
    """Compute the outputs (D, ...) = f(A B^T, *arrays, *numbers), batch by batch.

    Args:
        A: (M,K) or (M,K,L).
        B: (N,K) or (N,K,L).
        arrays: by name what the epilogue reads: matrices (M,N), rows (N), columns (M) or one
            element (1), all with or without a mode L.
        outputs: by name D, and others like it: (M,N) or (M,N,L).
        numbers: those of the epilogue.
        config: how it is computed.
        epilogue: f.

    """
    arrays = given(arrays, epilogue, "gemm")
    assume_product(A, B, arrays, outputs, epilogue)
    terms = arrays, outputs, numbers
    sizes = sizes_of(outputs["D"], columns_of(B, outputs, epilogue))
    multiplied(config, sizes, lambda: BlockTiles(A, B, config, epilogue, terms))


def sizes_of(D: Tensor, N: Any) -> tuple[Any, Any, Any]:
    """Return M, N and how many products there are: 1 of D (M,N), a run-time integer of (M,N,L)."""
    return D.shape[0], N, D.shape[2] if cute.rank(D) > 2 else 1


def multiplied(
    config: MultistageConfig, sizes: tuple[Any, Any, Any], make: Callable[[], BlockTiles]
) -> None:
    """Launch blocks that have all of K, and compute all tiles of D; `sizes`: those of `sizes_of`,
    `make`: makes what a block has.
    """
    bx, by, first = _launched(config, sizes)
    block = make()
    if config.batches and config.pdl:
        _follow()
    for bz in _products(config, sizes[2], first):
        a, b = block.operands((bx, by, bz))
        acc = block.sums()
        if config.batches:
            cute.syncthreads()  # all have read the tiles before
        elif config.pdl:
            _prefetch(config, a, b)  # while the previous kernel is running
            _follow()
        cute.mainloop(block.mma, acc, a, b)
        block.finish((bx, by, bz), acc)


def _follow() -> None:
    """Wait for the previous kernel, and let the next one begin."""
    cute.griddepcontrol_wait()
    cute.griddepcontrol_launch_dependents()


def _products(config: MultistageConfig, L: Any, first: Any) -> Iterator[Any]:
    """Yield the products of a batch that a block computes, from its first one on."""
    if not config.batches:
        yield first
        return
    yield from cute.range(first, L, config.batches)


class BlockTiles:
    """What a block has to compute tiles of D, one after the other: its shared memory, the part of
    a thread, and what the epilogue reads and writes. A place is the number of the tile of M, of N,
    and of the batch.
    """

    def __init__(
        self,
        A: Tensor,
        B: Tensor,
        config: MultistageConfig,
        epilogue: Epilogue,
        terms: tuple[dict[str, Any], dict[str, Any], tuple[Any, ...]],
    ) -> None:
        """Begin; `terms`: the arrays, outputs and numbers of the epilogue."""
        self.A, self.B, self.config, self.epilogue = A, B, config, epilogue
        self.arrays, self.outputs, self.numbers = terms
        self.mma, self.how = config.tiled_mma(along_k=True), config.operands()
        self.thr = self.mma.get_slice(cute.thread_idx())
        D = self.outputs["D"]
        with cute.union():
            with cute.struct():
                self.shared = [
                    cute.smem(x.dtype, how.smem, name=name)
                    for x, how, name in zip((A, B), self.how, ("sA", "sB"), strict=True)
                ]
            self.sD: Any = None
            if config.store and epilogue.is_wide():
                self.sD = cute.smem(D.dtype, config.store_layout(D.dtype))

    def operands(self, place: tuple[Any, Any, Any]) -> tuple[cute.Operand, cute.Operand]:
        """Return the operands of the main loop: tiles (BLK, BLK_K, k) and how they are copied."""
        found = []
        for i, make in enumerate((cute.make_tiled_copy_A, cute.make_tiled_copy_B)):
            source, g2s = self.source(i, place)
            # plain loads take neighbours together
            s2r = make(self.how[i].s2r, self.mma) if self.how[i].by_matrix else None
            found.append(cute.Operand(source, self.shared[i], g2s, s2r))
        return found[0], found[1]

    def source(self, i: int, place: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        """Return the tiles of A or B, by its number, at a place, and the tiled copy of them; an
        iterator has none.
        """
        x, tile = (self.A, self.B)[i], (self.config.tile[i], self.config.tile[2])
        return cute.local_tile(_matrix(x, place[2]), tile, (place[i], _)), self.how[i].g2s

    def sums(self) -> Tensor:
        """Return accumulators (MMA, MMA_M, MMA_N), zeros."""
        tile = cute.make_identity_tensor(self.config.tile[:2])
        acc: Tensor = self.thr.make_fragment_C(self.thr.partition_C(tile))
        acc.fill(0)
        return acc

    def finish(self, place: tuple[Any, Any, Any], acc: Tensor) -> None:
        """Write what the epilogue makes of the sums."""
        config, epilogue, partition = self.config, self.epilogue, self.thr.partition_C
        tile, by_rows = config.tile[:2], self.sD is not None
        if by_rows:
            cute.syncthreads()  # all have read the tiles that D takes the place of
        terms = Terms(partition, epilogue, self.arrays, tile, place)
        results = [_matrix(x, place[2]) for x in self.outputs.values()]  # (M, N)
        parts = [
            stored_to(partition, epilogue, i, x, tile, place[:2]) for i, x in enumerate(results)
        ]  # (MMA, MMA_M, MMA_N)
        if by_rows:
            parts[0] = as_taken(partition(self.sD), epilogue)
        acc = as_taken(acc, epilogue)
        D = results[0]
        by_matrix = config.stores_matrices and D.dtype.bits == 16
        with cute.when(self.thr.thr_vmnk[3] < 1):  # warps along K have the same sums
            # all at once, or a column of atoms at a time: few registers next to acc
            for j in (_,) if epilogue.is_in_place else range(cute.size(acc, 2)):
                sums = acc[_, _, j]  # (MMA, MMA_M)
                x, *rest = finished(epilogue, sums, terms.at((_, _, j), sums), self.numbers)
                for each, part in zip(rest, parts[1:], strict=True):
                    cute.copy(converted(each, part.dtype), part[_, _, j])
                x = converted(x, D.dtype)
                if by_matrix and j is _:
                    _store_matrices(self.mma, x, self.sD)
                else:
                    cute.copy(x, parts[0][_, _, j])
        if by_rows:
            cute.syncthreads()
            _write_rows(config, self.sD, cute.local_tile(D, tile, place[:2]))


def _prefetch(config: MultistageConfig, *operands: cute.Operand) -> None:
    """Prefetch the first tiles of K to L2, but of operands that are gathered."""
    for x in operands:
        if x.g2s is None:
            continue
        mine = x.g2s.get_slice(cute.thread_idx()).partition_S(x.source)  # (CPY, CPY_MN, CPY_K, k)
        for k in range(config.prefetch):
            cute.prefetch(mine[_, _, _, k])


def _launched(config: MultistageConfig, sizes: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """State the launch shape, and return the block's tile of M, of N, and of the batch."""
    (bM, bN, _bK), (M, N, L) = config.tile, sizes
    m, n = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    L = config.batches or L
    how: Any = {"min_blocks": config.min_blocks, "spill_bytes": config.spill_bytes}
    how |= {"pdl": bool(config.pdl), "allow_emulated": config.emulated}
    if not config.band:
        return _block_of((m, n, L), config, how)
    bands = cute.ceil_div(m, config.band)  # the last one may extend past M: nothing is stored there
    x, y, z = _block_of((config.band, n, bands * L), config, how)
    one = isinstance(sizes[2], int) and not config.batches
    band, batch = (z, 0) if one else (z % bands, z // bands)
    return band * config.band + x, y, batch


def _block_of(
    grid: tuple[Any, Any, Any], config: MultistageConfig, how: Any
) -> tuple[Any, Any, Any]:
    """Launch a grid, as one mode if it is flat, and return the place of the block in it."""
    if not config.flat:
        cute.launch(grid=grid, block=config.threads, **how)
        return cute.block_idx()  # type: ignore[return-value]
    x, y, z = grid
    cute.launch(grid=x * y * z, block=config.threads, **how)
    i = cute.block_idx()
    return i % x, i // x % y, i // (x * y)


def _matrix(x: Tensor, batch: Any) -> Tensor:  # an integer
    """Return one matrix of a batch; a tensor of two modes is one already."""
    return x if cute.rank(x) == 2 else x[_, _, batch]


def _store_matrices(mma: Any, x: Tensor, sD: Tensor) -> None:  # a TiledMMA
    """Store accumulators (MMA, MMA_M, MMA_N) of 16 bits to a tile of D, 8x8 matrices at a time."""
    copy = cute.make_tiled_copy_C(cute.Copy_Atom("SM90_U32x4_STSM_N", x.dtype), mma)
    mine = copy.get_slice(cute.thread_idx())
    cute.copy(copy, mine.retile_S(x), mine.partition_D(sD))


def _write_rows(config: MultistageConfig, sD: Tensor, gD: Tensor) -> None:
    """Copy a tile (BLK_M, BLK_N) from shared to global memory, a vector of a row at a time."""
    copy = config.store_copy(gD.dtype).get_slice(cute.thread_idx())
    tDsD, tDgD = copy.partition_S(sD), copy.partition_D(gD)  # (CPY, CPY_M, CPY_N)
    held = cute.make_rmem_tensor(tDsD.shape, gD.dtype)  # takes no more registers than the sums
    cute.copy(tDsD, held)
    cute.copy(held, tDgD)
