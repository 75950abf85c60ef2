"""new here: sums of parts of K, added in a fixed order, and the epilogue of the product.

A product whose K is long and D small is computed in parts, as a batch whose matrices are parts of K
(parallel split K). This kernel adds up the parts of each element of D, from the first to the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import assume_words, require
from cute_py.kernels.epilogue import (
    Epilogue,
    LinearCombination,
    Terms,
    converted,
    finished,
    given,
    loaded,
    of_batch,
    product_kernel,
)
from cute_py.kernels.pairs import as_taken, stored_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.tensor.tensor import Tensor

TOGETHER = 16  # loads of a thread that are on the way


@product_kernel
def sum_parts(
    P: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    count: int,
    copy: cute.TiledCopy,
    epilogue: Epilogue,
) -> None:
    """Compute the outputs (D, ...) = f(sum of P along its last mode, *arrays, *numbers).

    Args:
        P: sums of parts (M,N,count), of f32.
        arrays: by name what the epilogue reads, as `gemm` takes it.
        outputs: by name D, and others like it: (M,N) or (M,N,1).
        numbers: those of the epilogue.
        count: how many parts there are.
        copy: how the threads of a block share a tile of D, as `parts_copy` makes it.
        epilogue: f, in f32.

    """
    require(type(count) is int and count >= 1, "sum_parts", "count", count, "a number from 1 on")
    require(isinstance(copy, cute.TiledCopy), "sum_parts", "copy", copy, "a TiledCopy")
    arrays, (D, *_others) = given(arrays, epilogue, "sum_parts"), outputs.values()
    assume_words([("MNS", P)], arrays, outputs, epilogue)
    cute.assume(P.shape[2] == count)
    if cute.rank(D) > 2:
        cute.assume(D.shape[2] == 1)
    bM, bN = copy.tile_shape
    cute.launch(
        grid=(cute.ceil_div(P.shape[1], bN), cute.ceil_div(D.shape[0], bM)),
        block=copy.size(),
        pdl=True,
    )
    cute.griddepcontrol_wait()
    cute.griddepcontrol_launch_dependents()
    thread, (bx, by) = copy.get_slice(cute.thread_idx()), cute.block_idx()

    tile, place = (bM, bN), (by, bx)

    def part(x: Tensor) -> Any:  # a Tensor
        return thread.partition_S(cute.local_tile(x, tile, place))  # (CPY, CPY_M, CPY_N)

    total: Any = None
    for first in range(0, count, TOGETHER):
        ahead = range(first, min(first + TOGETHER, count))
        for x in [loaded(part(P[_, _, s]), "f32") for s in ahead]:
            total = x if total is None else total + x
    terms = Terms(thread.partition_S, epilogue, arrays, tile, (*place, 0))
    total = as_taken(total, epilogue)
    found = finished(epilogue, total, terms.at((_, _, _), total), numbers)
    for i, (x, to) in enumerate(zip(found, outputs.values(), strict=True)):
        to = of_batch(to, "matrix", 0)
        target = stored_to(thread.partition_S, epilogue, i, to, tile, place)
        cute.copy(converted(x, to.dtype), target)


def parts_copy(N: int) -> cute.TiledCopy:
    """Return how a block of 128 threads shares a tile: 4 columns a thread, in rows of 128, or in
    shorter ones where D has few columns.
    """
    columns = min(32, max(1, 1 << (-(-N // 4) - 1).bit_length()))  # threads along a row
    atom = cute.Copy_Atom("UniversalCopy<32>", "f32")
    lanes = cute.Layout((128 // columns, columns), (columns, 1))
    return cute.make_tiled_copy(atom, lanes, cute.Layout((1, 4)))


def check() -> None:
    """Add up parts, with a bias and an activation."""
    rng = np.random.default_rng(0)
    P, C = rng.integers(-9, 9, (5, 33, 20)), rng.integers(-9, 9, (33, 20))
    bias, D = rng.integers(-9, 9, 20).astype(np.float32), np.zeros((33, 20), np.float32)
    last = LinearCombination(alpha=True, source=True, bias=True, activation="relu")
    parts, c = P.astype(np.float32).transpose(1, 2, 0), C.astype(np.float16)
    sum_parts(parts, c, bias, D, 2.0, 3.0, 5, parts_copy(20), last)
    np.testing.assert_array_equal(D, np.maximum(2 * P.sum(0) + 3 * C + bias, 0))


if __name__ == "__main__":
    check()
