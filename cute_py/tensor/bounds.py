"""Whether the offsets of a layout lie inside of the memory of an engine.

The extremes of an all-int layout are sums of its strides, those of a swizzled one lie in the
swizzle periods around them, so the check costs a few additions. Only what may lie outside is
enumerated, to name the first coordinate that does.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout.coords import idx2crd
from cute_py.layout.layout import BASIS, INTS, Layout
from cute_py.layout.tuples import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.composed import ComposedLayout
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf
    from cute_py.tensor.engine import Engine


def require_inside(engine: Engine, layout: AnyLayout, operation: str) -> None:
    """Refuse a layout that reaches outside of the engine's memory, naming the first coordinate.

    Where the size of the memory or the offsets are not known yet (symbols), nothing is refused:
    each access is checked.
    """
    size, origin = engine.size, engine.offset
    if size.__class__ is not int or origin.__class__ is not int:
        return
    ends = extremes(layout)
    if ends is None or (ends[0] >= -origin and ends[1] < size - origin):
        return
    index = _first_outside(layout, -origin, size - origin)
    if index is not None:
        coord = idx2crd(index, layout.shape)
        refuse_offset(engine, layout, coord, layout(coord), operation)


def require_offset(engine: Engine, layout: AnyLayout, coord: IntTuple, offset: Leaf) -> None:
    """Refuse the offset of one coordinate if it is known to lie outside of the engine's memory."""
    size, origin = engine.size, engine.offset
    known = size.__class__ is int and origin.__class__ is int and offset.__class__ is int
    if known and not 0 <= origin + offset < size:
        refuse_offset(engine, layout, coord, offset, "Tensor")


def refuse_offset(
    engine: Engine, layout: AnyLayout, coord: IntTuple, offset: Leaf, operation: str
) -> None:
    """Refuse the offset that a coordinate has."""
    raise refusal(
        "tensor-bounds",
        operation=operation,
        layout=layout,
        engine=engine,
        coord=show(coord),
        offset=offset,
        low=-engine.offset,
        high=engine.size - engine.offset - 1,
    )


def extremes(layout: Alike) -> tuple[int, int] | None:
    """Return bounds (low, high) of the offsets, tight for a plain layout; None where symbols or
    coordinates leave them open.

    >>> extremes(Layout((4, 8), (-1, 4)))
    (-3, 28)
    """
    if layout.__class__ is Layout:
        if layout._kind != INTS:
            return None
        reach = [(s - 1) * d for s, d in zip(layout._s, layout._d, strict=True)]
        return sum([r for r in reach if r < 0]), sum([r for r in reach if r > 0])
    inner = extremes(layout.inner)
    if inner is None or layout.offset.__class__ is not int:
        return None
    low, high = inner[0] + layout.offset, inner[1] + layout.offset
    period = getattr(layout.outer, "period", None)
    if low >= 0 and period is not None:
        return low // period * period, (high // period + 1) * period - 1
    return _enumerated(layout)


def _enumerated(layout: ComposedLayout) -> tuple[int, int]:
    table = layout.offsets()
    return int(table.min()), int(table.max())


def _first_outside(layout: Alike, low: int, high: int) -> int | None:
    """Return the first index whose offset is not in low ... high - 1, or None; of a layout too
    large to enumerate, the index of an extreme offset.
    """
    from cute_py.layout.offsets import MOST

    if layout.__class__ is Layout and layout.size() > MOST:
        highest = extremes(layout)[1] >= high  # type: ignore[index]
        return _corner(layout, 1 if highest else -1)
    table = layout.offsets()
    outside = (table < low) | (table >= high)
    return int(outside.argmax()) if outside.any() else None


def _corner(layout: Layout, sign: int) -> int:
    """Return the index at which every mode with a stride of this sign is at its end."""
    index, size = 0, 1
    for extent, step in zip(layout._s, layout._d, strict=True):
        index += (extent - 1) * size if step * sign > 0 else 0
        size *= extent
    return index


def yields_coordinates(layout: AnyLayout) -> bool:
    """Return whether the layout gives coordinates instead of offsets."""
    return layout.__class__ is Layout and layout._kind == BASIS
