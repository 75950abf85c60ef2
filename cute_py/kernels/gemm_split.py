"""The GEMM of all GPUs where blocks split K: they leave sums for each other in memory.

`gemm` with a schedule of `splits.py` around it: blocks add in turn (serial split K), or have equal
shares of the last tiles (stream-K). Sums are added in the order of K, in every run alike, and the
block that has all runs the epilogue. Any types, batches and epilogues, as `gemm` takes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cute_py as cute
from cute_py.kernels.arrays import assume_product, require, require_kind
from cute_py.kernels.config import MultistageConfig, choose_config
from cute_py.kernels.epilogue import Epilogue, LinearCombination, given, product_kernel
from cute_py.kernels.gemm import BlockTiles, sizes_of
from cute_py.kernels.pairs import columns_of
from cute_py.kernels.splits import SCHEDULES, SETS, SHARES, Locks, Split, Sums, workspace_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.dtypes.table import Dtype
    from cute_py.tensor.tensor import Tensor


@product_kernel
def gemm_split(
    A: Any,
    B: Any,
    partial: Any,
    flags: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    config: MultistageConfig,
    epilogue: Epilogue,
) -> None:
    """Compute the outputs (D, ...) = f(A B^T, *arrays, *numbers), as `gemm` does.

    Args:
        A: (M,K) or (M,K,L).
        B: (N,K) or (N,K,L).
        partial: sums (slots, elements) of the type of the accumulators, as `workspace_of` says.
        flags: a lock (slots) for each, s32: zeros before and after.
        arrays: by name what the epilogue reads, as `gemm` takes it.
        outputs: by name D, and others like it: (M,N) or (M,N,L).
        numbers: those of the epilogue.
        config: how it is computed, with a split of K in memory.
        epilogue: f.

    """
    arrays = given(arrays, epilogue, "gemm_split")
    assume_product(A, B, arrays, outputs, epilogue)
    terms = arrays, outputs, numbers
    sizes = *sizes_of(outputs["D"], columns_of(B, outputs, epilogue)), A.shape[1]
    make = lambda: BlockTiles(A, B, config, epilogue, terms)  # noqa: E731
    multiplied_in_parts(config, sizes, (partial, flags), make)


def multiplied_in_parts(
    config: MultistageConfig,
    sizes: tuple[Any, Any, Any, Any],
    workspace: tuple[Tensor, Tensor],
    make: Callable[[], BlockTiles],
) -> None:
    """Launch blocks that have parts of K, and compute the tiles of D.

    Args:
        config: with a split of K in memory.
        sizes: those of `sizes_of`, and K.
        workspace: sums and locks.
        make: what a block has.

    """
    (M, N, L, K), (partial, flags) = sizes, workspace
    split = required(config.parts, config.mma_atom.c_type, partial, flags, "gemm_split")
    bM, bN, bK = config.tile
    m, n = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    schedule = SCHEDULES[split.how](split, m * n * L, K, bK, Locks(flags))
    assume_room(split, partial, flags, (m * n * L, bM * bN))
    how: Any = {"min_blocks": config.min_blocks, "spill_bytes": config.spill_bytes}
    how |= {"pdl": bool(config.pdl), "allow_emulated": config.emulated}
    cute.launch(grid=schedule.grid, block=config.threads, **how)
    if config.pdl:
        cute.griddepcontrol_wait()
        cute.griddepcontrol_launch_dependents()
    block = make()
    sums = Sums(block.mma, partial, partial.dtype)
    for span in schedule.spans():
        place = place_of(span.tile, m, n, L)
        acc = block.sums()
        cute.syncthreads()  # all have read the tiles before
        cute.mainloop(block.mma, acc, *block.operands(place), span.first, span.count)
        with schedule.whole(span, acc, sums):
            block.finish(place, acc)


def required(split: Split, kind: Dtype, partial: Tensor, flags: Tensor, operation: str) -> Split:
    """Return the split of K; refuse others, and memory of other types than that of the sums."""
    fits = split.in_memory and split.count is not None
    require(fits, operation, "config", split, "a split of K by blocks of one kernel")
    require_kind(operation, (kind.name,), partial=partial)
    require_kind(operation, ("s32",), flags=flags)
    return split


def place_of(tile: Any, m: Any, n: Any, L: Any) -> tuple[Any, Any, Any]:
    """Return where a tile is along M, N and the batch; tiles along M come first."""
    of_n = tile // m
    return tile % m, *((of_n, 0) if isinstance(L, int) else (of_n % n, of_n // n))


def assume_room(split: Split, partial: Tensor, flags: Tensor, tiles: tuple[Any, int]) -> None:
    """State that there is memory for what blocks leave of tiles (how many, elements of one)."""
    count, each = tiles
    slots, sets = (split.count, SETS) if split.how == SHARES else (count, 1)
    cute.assume_shapes("SE S", partial, flags)
    cute.assume((partial.shape[0] >= slots) & (partial.shape[1] == sets * each))
    cute.assume_compact(partial)


def check() -> None:
    """Multiply ragged matrices of small integers, by both schedules."""
    from dataclasses import replace

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 200)).astype(np.float16) for n in (70, 40))
    for split in (Split("serial", 3), Split("stream", 2)):
        shape = tuple(workspace_of(split, (32, 64, 32), 3) or ())
        config = replace(choose_config(70, 40, 200, "f16"), tile=(32, 64, 32), parts=split)
        partial, flags = np.full(shape, np.nan, np.float32), np.zeros(shape[0], np.int32)
        d = np.full((70, 40), np.nan, np.float32)
        gemm_split(a, b, partial, flags, None, None, d, 1.0, 0.0, config, LinearCombination())
        assert (d == a.astype(np.float32) @ b.astype(np.float32).T).all()
        assert not flags.any()


if __name__ == "__main__":
    check()
