"""new here: a kernel that is given its arithmetic, a formula traced before (`cute_py.trace`).

An activation and its derivative are such formulas. A thread loads its vectors of all arrays before
it computes: of 16 bytes of the narrowest type.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

import cute_py as cute
from cute_py.dtypes.table import Dtype, f32, f64
from cute_py.kernels.activations import ACTIVATIONS, Activation
from cute_py.kernels.epilogue import converted, loaded
from cute_py.plan.formula import Formula
from cute_py.trace.formulas import formula, replayed

if TYPE_CHECKING:
    from collections.abc import Sequence

THREADS = 256  # of a block


@cute.kernel
def elementwise(X: Any, G: Any, Y: Any, function: Formula, copy: cute.TiledCopy) -> None:
    """Y = function(X), or function(X, X, G) for a derivative, element by element.

    Args:
        X: (1,N), of floats.
        G: (1,N), of floats; None: the function has one input.
        Y: the result (1,N), of floats.
        function: of f32 or f64, the type in which it is computed.
        copy: how the threads share a tile (1,BN).

    """
    cute.assume_shapes("MN MN? MN", X, G, Y)
    cute.assume(Y.shape[0] == 1)
    cute.launch(grid=cute.ceil_div(Y.shape[1], copy.tile_shape[1]), block=copy.size())
    thread, at = copy.get_slice(cute.thread_idx()), (0, cute.block_idx())

    def part(array: cute.Tensor) -> Any:  # a Tensor
        return thread.partition_S(cute.local_tile(array, copy.tile_shape, at))  # (CPY,1,CPY_N)

    x = loaded(part(X), function.dtype)
    given = (x,) if G is None else (x, x, loaded(part(G), function.dtype))
    cute.copy(converted(replayed(function, *given), Y.dtype), part(Y))


def function_of(row: Activation, is_gradient: bool, kinds: Sequence[Dtype]) -> Formula:
    """Return an activation, or its derivative, for arrays of some types."""
    found = formula(row.function, "f64" if f64 in kinds else "f32")
    return found.derivative() if is_gradient else found


@lru_cache(maxsize=1024)
def tile_copy_of(kinds: tuple[Dtype, ...], places: tuple[int, ...], length: int) -> cute.TiledCopy:
    """Return how threads share a tile, by the types and the alignments (bytes) of the arrays, and
    what divides their length.
    """
    vectors = [place * 8 // kind.bits for kind, place in zip(kinds, places, strict=True)]
    narrow = min(kinds, key=lambda kind: kind.bits)
    return _copy(narrow, max(gcd(n, length) for n in vectors))


def _copy(dtype: cute.Dtype, width: int) -> cute.TiledCopy:
    """Return how a block shares a tile: each thread has one vector of the narrowest type."""
    atom = cute.Copy_Atom(f"UniversalCopy<{width * dtype.bits}>", dtype)
    return cute.make_tiled_copy(atom, cute.Layout((1, THREADS)), cute.Layout((1, width)))


def check() -> None:
    """Compare with NumPy in f64."""
    x = np.random.default_rng(0).normal(0, 4, (1, 1001)).astype(np.float32)
    y = np.full_like(x, np.nan)
    for name, row in ACTIVATIONS.items():
        elementwise(
            x, None, y, function_of(row, False, (f32,)), tile_copy_of((f32, f32), (4, 4), 1)
        )
        assert np.abs(y - row.model(x.astype(np.float64))).max() < 1e-5, name


if __name__ == "__main__":
    check()
