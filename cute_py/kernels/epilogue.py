"""What happens to the sums of a GEMM on their way to D: scaled, added, activated, rounded."""

from __future__ import annotations

from dataclasses import dataclass

import cute_py as cute
from cute_py.kernels.activations import ACTIVATIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.layout import Layout
    from cute_py.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What happens to the sums; each step rounds to `compute`.

    Attributes:
        compute: type of the steps: f32, f64 or s32.
        alpha: whether the sums are multiplied by alpha.
        source: whether beta * C is added.
        bias: whether bias is added, one number a column.
        activation: a name of `ACTIVATIONS`, or None.
    """

    compute: str = "f32"
    alpha: bool = False
    source: bool = False
    bias: bool = False
    activation: str | None = None

    @property
    def is_light(self) -> bool:
        """Tell whether the activation, if any, takes less time than one special function."""
        return self.activation is None or ACTIVATIONS[self.activation].is_light

    @property
    def is_in_place(self) -> bool:
        """Tell whether an element needs few registers next to its sum; bias needs those of one row
        for all.
        """
        if self.source or self.activation is None:
            return not self.source
        few = self.compute == "f32" and ACTIVATIONS[self.activation].formula.held == 1
        return few or self.is_light


def activated(x: Any, name: str | None) -> Any:  # a Tensor in registers
    """Return an activation of x, element by element."""
    return x if name is None else ACTIVATIONS[name].function(x)


def converted(x: Tensor, dtype: Any) -> Tensor:
    """Return x in another type, rounded to nearest even, and clamped to its finite range if that
    has 8 bits.
    """
    kind = cute.dtype(dtype)
    return x if x.dtype is kind else x.to(kind, "to_nearest", saturate=kind.bits == 8)


def loaded(part: Tensor, dtype: Any) -> Tensor:
    """Return elements of memory in registers, in another type."""
    held = cute.make_rmem_tensor(part.shape, part.dtype)
    cute.copy(part, held)
    return converted(held, dtype)


def row_part(thr: Any, row: Tensor, tile: tuple[int, int], by: Any) -> tuple[Tensor, Layout]:
    """Return a row that all rows of a tile of D share, from a thread's first element on, and where
    its accumulators (MMA, MMA_M, MMA_N) are in it.

    Args:
        thr: the thread's slice of the tiled MMA.
        row: of N elements in global memory.
        tile: BLK_M and BLK_N.
        by: which tile of N.

    """
    columns, first = thr.partition_C(cute.Layout(tile, (0, 1)))  # rows do not move
    return cute.domain_offset(first, cute.local_tile(row, tile[1:], (by,))), columns


def loaded_row(part: tuple[Tensor, Layout], coord: Any, like: Tensor) -> Tensor:
    """Return what accumulators need of a `row_part`, each element loaded once.

    Args:
        part: the row, and where all accumulators of the thread are in it.
        coord: which of them.
        like: these accumulators, whose shape and type the result has.

    """
    columns, first = cute.slice_and_offset(coord, part[1])
    once = cute.composition(cute.domain_offset(first, part[0]), cute.filter_zeros(columns))
    places = cute.composition(cute.make_layout_like(columns), cute.Layout(like.shape))
    return loaded(once, like.dtype).with_layout(places)
