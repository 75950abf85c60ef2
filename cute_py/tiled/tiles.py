"""Tiles of tiled operations: what may stand for the tile of a mode, and which extents it divides.

The tile of a mode is an integer, a shape, or a layout that picks the tile's elements out of the
mode. A layout with gaps is filled by its own copies: it divides what its period divides.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import tuples
from cute_py.layout.algebra.complement import complement
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.layout import INTS, Layout, make_layout
from cute_py.layout.queries import cosize, size
from cute_py.layout.tools import is_injective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.types import IntTuple, Leaf, Tiler


def checked_tile(tile: Tiler, operation: str, name: str) -> Tiler:
    """Return the tile of a mode; refuse what cannot be repeated over a mode without overlap.

    Args:
        tile: an integer, a shape or a layout.
        operation: the public name, for the refusal.
        name: of the mode, for the refusal.

    Raises LeafTypeError for what is no tile, and LayoutError for extents below 1, and for layouts
    that overlap, run backwards, or have gaps that their own copies do not fill.
    """
    if tile.__class__ is tuple and tile:
        return tuple([checked_tile(part, operation, name) for part in tile])
    if tile.__class__ is not Layout:
        return _extent(tile, operation, name)
    if (
        tile._kind != INTS
        or min(tile._d, default=0) < 0
        or not is_injective(tile)
        or not _repeats(tile)
    ):
        raise refusal("tile-layout", operation=operation, tile=tile, mode=name)
    return tile


def _extent(tile: object, operation: str, name: str) -> Leaf:
    if isinstance(tile, ScaledBasis):
        raise refusal("tiler-type", operation=operation, value=tile, type=type(tile).__name__)
    extent = ints.normalize(tile, operation, ", or layouts")
    if ints.less(extent, 1):
        raise refusal("extent-not-positive", operation=operation, value=extent, mode=name)
    return extent


def _repeats(tile: Layout) -> bool:
    """Return whether the tile and its copies fill an interval without holes."""
    gaps = complement(tile)
    return bool(cosize(make_layout(tile, gaps)) == size(tile) * size(gaps))


def period(tile: Tiler) -> Leaf:
    """Return the extent that a tile fills together with the copies in its gaps (elements).

    >>> period(32), period(Layout((4, 4, 2), (1, 8, 4))), period(Layout((8, 2), (1, 16)))
    (32, 32, 32)
    """
    count: Leaf = size(tile)
    return count * size(complement(tile)) if tile.__class__ is Layout else count


def require_divides(
    operation: str, shape: IntTuple, tiles: tuple[Tiler, ...], names: tuple[str, ...]
) -> None:
    """Refuse a shape whose extents the tiles are not known to divide, mode by mode."""
    for mode, tile, name in zip(shape, tiles, names, strict=False):
        if tile.__class__ is tuple and mode.__class__ is tuple:
            require_divides(operation, mode, tile, (name,) * len(tile))
            continue
        extent, whole = tuples.product(mode), period(tile)
        if not ints.settle(ints.divides, whole, extent, operation):
            gaps = "" if size(tile) == whole else f" ({size(tile)} of them in {tile})"
            raise refusal(
                "partition-divides",
                operation=operation,
                mode=name,
                extent=extent,
                tile=f"{whole}{gaps}",
                padded=-(-extent // whole) * whole,
            )
