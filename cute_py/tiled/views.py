"""How tiled operations look at their operands: a Tensor is changed through its layout, a Layout is
changed itself.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.slicing import slice_and_offset
from cute_py.layout.tuples import _, show
from cute_py.tensor.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.layout.types import Alike, AnyLayout, IntTuple


def on_layout(change: Callable[[AnyLayout], AnyLayout], x: AnyLayout) -> Alike:
    """Return `change` of a layout, or the tensor with its layout changed."""
    return x.with_layout(change(x.layout)) if isinstance(x, Tensor) else change(x)


def part_at(coord: IntTuple, x: AnyLayout) -> Alike:
    """Return what `coord` leaves free: a tensor of a tensor, (layout, offset) of a layout."""
    return x[coord] if isinstance(x, Tensor) else slice_and_offset(coord, x)


def whole(rank: int) -> IntTuple:
    """Return the coordinate that leaves all of `rank` modes free: `_` itself for one mode, as
    CuTe's repeat<1>.
    """
    return (_,) * rank if rank > 1 else _


def checked_mode(mode: object, extents: tuple[int, ...], operation: str) -> int:
    """Return the index of a mode of a tile; refuse one that it does not have."""
    index = ints.as_int(ints.normalize(mode, operation), operation)
    if not 0 <= index < len(extents):
        raise refusal(
            "mode-range",
            operation=operation,
            mode=mode,
            layout=f"the tile {show(extents)}",
            rank=len(extents),
            last=len(extents) - 1,
        )
    return index
