"""Tiles of D whose rows are anywhere in memory: how a thread finds and writes its elements.

`gemm` writes a tile of a matrix, whose rows are at one distance. The rows of `Scattered` are
pixels of D (N,P,Q,K) of any strides: of every second line of the gradient of a strided convolution,
for example. A thread computes where its rows are, and writes pairs of columns, or single ones.
"""

from __future__ import annotations

from typing import Any

import cute_py as cute
from cute_py import _
from cute_py.integers import ints
from cute_py.kernels.epilogue import converted, finished, loaded_part, of_batch, spread_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cute_py.kernels.epilogue import Epilogue
    from cute_py.tensor.tensor import Tensor


MOST = 1 << 30  # lines: above all that there are, and below OUTSIDE


class Scattered:
    """A thread's part of a tile of X, whose rows are anywhere.

    Args:
        x: where the rows are: the array of one batch, and `pixel` and `has` as `Images` have them.
        own: coordinates (row, column) of the thread's accumulators (MMA,MMA_M,MMA_N).
        first: the first row and column of the tile.
    """

    def __init__(self, x: Any, own: Tensor, first: tuple[Any, Any]) -> None:
        self.X, self.own, (row, self.column) = x.X, own, first
        values = own.shape[0]
        paired = isinstance(values, tuple) and values[0] == 2
        *steps, unit = self.X.stride
        even = all(ints.divides(2, n) is True for n in (*steps, self.X.shape[3]))
        # neighbours of a row, and what names them among the accumulators
        self.together = 2 if paired and even and unit == 1 else 1
        self.which: list[Any] = list(range(cute.size(own, 0)))
        if self.together == 2:
            self.which = [(_, i) for i in range(cute.size(own, 0) // 2)]
        self.rows = {}
        for v, first_of in enumerate(self._firsts()):
            for i in range(cute.size(own, 1)):
                part = x.pixel(row + own[first_of, i, 0][0], 1)
                self.rows[v, i] = part.at, part.line < MOST

    def _firsts(self) -> list[Any]:
        return [(0, *x[1:]) if isinstance(x, tuple) else x for x in self.which]

    def pieces(self, j: int) -> Iterator[tuple[Any, Tensor, Any]]:
        """Yield for the accumulators (MMA,MMA_M) of column j: coordinates of neighbours among them,
        where these are in memory, and whether they are.
        """
        for v, (which, first) in enumerate(zip(self.which, self._firsts(), strict=True)):
            for i in range(cute.size(self.own, 1)):
                at, there = self.rows[v, i]
                column = self.column + self.own[first, i, j][1]
                place = self.X.data.moved(at + column * self.X.stride[3])
                inside = there & (column < self.X.shape[3])
                yield (which, i), cute.make_tensor(place, cute.Layout(self.together)), inside


def finish(
    epilogue: Epilogue,
    thread: Any,
    acc: Tensor,
    arrays: list[Any],
    D: Scattered,
    numbers: tuple[Any, ...],
) -> None:
    """Write what an epilogue makes of the sums of a tile, a column of instructions at a time.

    Args:
        epilogue: with one output.
        thread: the thread's slice of the tiled MMA.
        acc: its sums (MMA,MMA_M,MMA_N).
        arrays: from `terms`.
        D: where the results go.
        numbers: those of the epilogue.

    """
    compute = epilogue.compute
    with cute.when(thread.thr_vmnk[3] < 1):  # warps along K have the same sums
        for j in range(cute.size(acc, 2)):
            sums = acc[_, _, j]  # (MMA,MMA_M)
            load = _loader(arrays, sums, j, compute)
            (result,) = finished(epilogue, sums, load, numbers)
            result = converted(result, D.X.dtype)
            for which, there, inside in D.pieces(j):
                cute.copy(_piece(result, which), there, pred=(inside,))


def _loader(arrays: list[Any], sums: Tensor, j: int, compute: str) -> Callable[[int], Tensor]:
    """Return what loads the elements of an array, by its number, for sums of a column."""

    def load(i: int) -> Tensor:
        x = arrays[i]
        if not isinstance(x, Scattered):
            return loaded_part(x, (_, _, j), sums.shape, compute)
        held = cute.make_rmem_tensor(sums.shape, x.X.dtype)
        held.fill(0)
        for which, there, inside in x.pieces(j):
            cute.copy(there, _piece(held, which), pred=(inside,))
        return converted(held, compute)

    return load


def _piece(x: Tensor, which: Any) -> Tensor:
    """Return neighbours among registers (MMA,MMA_M), or one of them."""
    of_value, i = which
    return x[which] if isinstance(of_value, tuple) else cute.local_tile(x, (1, 1), (of_value, i))


def terms(
    epilogue: Epilogue,
    thread: Any,
    arrays: dict[str, Tensor],
    scattered: Callable[[Tensor], Scattered],
    tile: tuple[int, int],
    place: tuple[Any, Any, Any],
) -> list[Any]:
    """Return the arrays of an epilogue as `finish` takes them: matrices have D's modes, and rows
    are those of a matrix; `scattered`: what makes a part of an array.
    """
    found: list[Any] = []
    for x, spread in zip(arrays.values(), epilogue.arrays, strict=True):
        if spread == "matrix":
            found.append(scattered(x))
        else:
            row = of_batch(x, spread, place[2])
            found.append(spread_part(thread.partition_C, row, tile, place[1]))
    return found
