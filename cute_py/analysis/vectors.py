"""`vector_width`: how many bits one access can move, read off the layouts of both sides."""

from __future__ import annotations

from cute_py.atoms.copy import value_type
from cute_py.errors import refusal
from cute_py.layout.offsets import one_axis
from cute_py.tiled.tiled_copy import TiledCopy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from cute_py.dtypes.table import DtypeLike
    from cute_py.layout.types import AnyLayout

    Array: TypeAlias = Any  # a NumPy array


def vector_width(
    *operands: TiledCopy | AnyLayout, dtype: DtypeLike | int | None = None, most: int = 128
) -> int:
    """Return the widest access (bits) with which a copy between tensors of these layouts can run.

    Args:
        operands: layouts of one tensor each, of the same size, in elements: all elements are moved
            by one thread. With a TiledCopy first, the elements of each of its threads: then the
            layouts are source and destination, whose extents its tile divides.
        dtype: the element type, or its width in bits; None: that of the copy.
        most: the widest access to consider (bits).

    Law: in each layout, all vectors of the result lie side by side, in the same order, and start at
    a multiple of their width from the first element. An element wider than `most` gives its width.
    Raises LayoutError for layouts of different sizes.

    >>> from cute_py import Layout
    >>> vector_width(Layout((8, 4), (1, 8)), Layout((8, 4), (1, 12)), dtype="f16")
    64
    >>> vector_width(Layout((8, 4), (1, 8)), Layout((8, 4), (4, 1)), dtype="f16")
    16
    """
    copy = operands[0] if operands and operands[0].__class__ is TiledCopy else None
    layouts: Any = operands[1:] if copy is not None else operands
    if not layouts:
        raise refusal("access-layout", operation="vector_width", access=copy or "no operands")
    if copy is not None:
        from cute_py.analysis.requests import touched

        sides = "SD" if len(layouts) > 1 else "S"
        grids = [touched(copy, x, side) for x, side in zip(layouts, sides, strict=True)]
        dtype = copy.atom.dtype if dtype is None else dtype
    else:
        grids = [one_axis(x, "vector_width")[None, :, None] for x in layouts]
    if any(grid.shape != grids[0].shape for grid in grids):
        raise refusal("vector-sizes", operation="vector_width", layouts=_listed(layouts))
    if dtype is None:
        raise refusal("vector-dtype", operation="vector_width", layouts=_listed(layouts))
    unit = value_type(dtype, "vector_width").bits
    return in_vectors(grids, most // unit)[1] * unit


def _listed(layouts: tuple[Any, ...]) -> str:
    return " and ".join(str(layout) for layout in layouts)


def in_vectors(grids: list[Array], most: int) -> tuple[list[Array], int]:
    """Return [thread, value, tile] grids with their values in an order in which runs of n values
    are vectors in all of them, and the largest such n (a power of two, at most `most`, at least 1).

    The order is that of the first thread's offsets in the first grid.
    """
    import numpy as np

    order = np.argsort(grids[0][0, :, 0], kind="stable")
    ordered = [grid[:, order, :] for grid in grids]
    count = 1
    while 2 * count <= most and all(_are_vectors(grid, 2 * count) for grid in ordered):
        count *= 2
    return ordered, count


def _are_vectors(grid: Array, count: int) -> bool:
    """Return whether runs of `count` values lie side by side and start aligned."""
    import numpy as np

    threads, values, tiles = grid.shape
    if values % count:
        return False
    runs = grid.reshape(threads, values // count, count, tiles)
    first = runs[:, :, :1, :]
    together = runs - first == np.arange(count)[None, None, :, None]
    return bool(together.all() and (first % count == 0).all())
