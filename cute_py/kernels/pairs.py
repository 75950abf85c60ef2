"""Pairs of neighbouring columns in the registers of a thread, for epilogues that combine them.

A thread of every tiled MMA holds both: next to each other in the accumulators of tensor cores, as
neighbours along N with plain multiply-adds. A matrix with a column for each pair is seen as one in
which each column appears twice (a stride of 0); a thread takes the first of both.
"""

from __future__ import annotations

from typing import Any

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.tensor.tensor import Tensor


def in_pairs(part: Any) -> Any:
    """Return a thread's part (MMA, MMA_M, MMA_N) of a tile, a tensor or a layout, as ((2, ...), M,
    N): the two of a pair first.
    """
    given = "an odd number of columns of a thread"
    require(cute.size(part) % 2 == 0, "gemm", "config", given, "pairs of columns")
    if isinstance(part.shape[0], tuple) and part.shape[0][0] == 2:
        return part
    own, n = cute.size(part, 0), cute.size(part, 2)
    require((n if own == 1 else own) % 2 == 0, "gemm", "config", given, "pairs of columns")
    if own == 1:  # neighbours are along N
        halves = cute.logical_divide(part, (_, _, 2))  # (1, MMA_M, (2, MMA_N / 2))
        part = cute.select(_sliced(halves, (0, _, (_, _))), (1, 0, 2))
    return cute.logical_divide(part, (2,))


def half(x: Any, which: int = 0) -> Any:
    """Return the first, or the second, of each pair of `in_pairs`."""
    more = len(x.shape[0]) - 1
    found = _sliced(x, ((which, *(_,) * more), *(_,) * (cute.rank(x) - 1)))
    return cute.group_modes(found, 0, more) if more > 1 else found


def _sliced(x: Any, coord: Any) -> Any:
    return cute.slice_(coord, x) if isinstance(x, cute.Layout) else x[coord]


def partitions(partition: Callable[[Any], Any]) -> tuple[Callable[[Any], Any], ...]:
    """Return a thread's partition of tiles whose columns are those of the sums, in pairs, and that
    of tiles in which each column appears twice, the first of both.
    """

    def whole(x: Any) -> Any:
        found = partition(x)
        return (in_pairs(found[0]), found[1]) if isinstance(found, tuple) else in_pairs(found)

    def halves(x: Any) -> Any:
        found = whole(x)
        return (half(found[0]), found[1]) if isinstance(found, tuple) else half(found)

    return whole, halves


def twice(tile: tuple[int, int], mode_m: int = 1) -> cute.Layout:
    """Return the tile (BLK_M, BLK_N) as places in one of BLK_N / 2 columns, in which each appears
    twice; `mode_m`: 0 where all rows are one.
    """
    m, n = tile
    return cute.Layout((m, (2, n // 2)), (mode_m, (0, m if mode_m else 1)))


def tile_of_pairs(x: Tensor, tile: tuple[int, int], place: Any) -> Tensor:
    """Return the tile of a matrix that has a column for each pair, with each twice."""
    found = cute.local_tile(x, (tile[0], tile[1] // 2), place)
    return cute.composition(found, twice(tile))


def joined(first: Tensor, second: Tensor, shape: Any) -> Tensor:
    """Return registers of a shape of `in_pairs` with the two of each pair."""
    made = cute.make_rmem_tensor(shape, first.dtype)
    half(made, 0)[...] = first
    half(made, 1)[...] = second
    return made


# -- as an `Epilogue` says


def columns_of(B: Tensor, outputs: dict[str, Tensor], epilogue: Any) -> Any:
    """Return N, of D where it has so many columns, else of B (N,K)."""
    return outputs["D"].shape[1] if epilogue.is_wide() else B.shape[0]


def by_spread(partition: Any, spread: str, epilogue: Any) -> Any:
    """Return how a thread's part of a tile is found, for an array of a spread: in pairs, or for
    each pair, where neighbouring columns are combined.
    """
    if not epilogue.in_pairs:
        return partition
    return partitions(partition)[spread not in ("matrix", "row")]


def shape_of(sums: Tensor, spread: str, epilogue: Any) -> Any:
    """Return the shape of what a thread has of an array for its sums."""
    pairs = epilogue.in_pairs and spread not in ("matrix", "row")
    return half(sums).shape if pairs else sums.shape


def stored_to(
    partition: Any, epilogue: Any, output: int, x: Tensor, tile: tuple[int, int], place: Any
) -> Any:
    """Return a thread's part of a tile of an output, by its number, as `finished` has it."""
    if epilogue.is_wide(output):
        return by_spread(partition, "matrix", epilogue)(cute.local_tile(x, tile, place))
    return by_spread(partition, "matrix of pairs", epilogue)(tile_of_pairs(x, tile, place))


def as_taken(sums: Tensor, epilogue: Any) -> Any:
    """Return accumulators as `finished` takes them."""
    return in_pairs(sums) if epilogue.in_pairs else sums
