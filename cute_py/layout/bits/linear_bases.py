"""Layouts as Triton's linear layouts list them: for every mode the images of 1, 2, 4, ...

Source: Zhou et al., "Linear Layouts" (arXiv 2505.23819).
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout.bits.f2 import images as checked_images
from cute_py.layout.bits.f2_convert import f2_columns, from_f2, require_powers, to_f2
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.coords import crd2idx, idx2crd
from cute_py.layout.slicing import check_coordinate
from cute_py.layout.tuples import product, show, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from cute_py.layout.types import Alike, AnyLayout, IntTuple


def to_linear_bases(
    layout: AnyLayout, names: Sequence[Any] | None = None, coshape: IntTuple = None
) -> dict[Any, list[Any]]:
    """Return, for every top-level mode, the images of its coordinates 1, 2, 4, ..., as Triton's
    linear layouts list them.

    Args:
        layout: what `to_f2` takes.
        names: one key for each mode, e.g. ("lane", "register"); left out, the mode's index.
        coshape: powers of two; images are then coordinates in it (colexicographical), not offsets.

    Raises what `f2_matrix` raises; LayoutError for a wrong count of names or offsets past coshape.

    >>> from cute_py import Layout
    >>> to_linear_bases(Layout((4, 2), (2, 1)), names=("lane", "register"))
    {'lane': [2, 4], 'register': [1]}
    """
    f2 = F2Layout(to_f2(layout).shape, f2_columns(layout, "to_linear_bases"))
    keys = range(len(f2)) if names is None else names
    if len(keys) != len(f2):
        raise refusal(
            "f2-names", operation="to_linear_bases", count=len(keys), layout=layout, rank=len(f2)
        )
    if coshape is not None:
        _require_reach(f2, coshape)
    images = [[_split(image, coshape) for image in mode.bases] for mode in f2]
    return dict(zip(keys, images, strict=True))


def _require_reach(f2: F2Layout, coshape: IntTuple) -> None:
    require_powers(coshape, "to_linear_bases")
    if f2.cosize() > product(coshape):
        raise refusal(
            "f2-coshape",
            operation="to_linear_bases",
            layout=f2,
            offset=f2.cosize() - 1,
            coshape=show(coshape),
        )


def _split(offset: int, coshape: IntTuple) -> IntTuple:
    return offset if coshape is None else idx2crd(offset, coshape)


def from_linear_bases(
    bases: Mapping[Any, Iterable[Any]] | Iterable[tuple[Any, Iterable[Any]]],
    coshape: IntTuple = None,
) -> Alike:
    """Return the layout of linear-layout bases: one mode for each entry, in the order given.

    Args:
        bases: a dict (or pairs) from names to the images of 1, 2, 4, ...: offsets or coordinates.
        coshape: the shape of the coordinates; left out, the smallest powers of two that hold them.

    Coordinates become offsets colexicographically: the first entry is the fastest. Returns a Layout
    if there is one, else Swizzle o Layout, else an F2Layout. Raises LayoutError for images that do
    not fit in coshape.

    >>> print(from_linear_bases({"lane": [(1, 0), (2, 0)], "register": [(0, 1)]}))
    (4,2):(1,4)
    """
    modes = [list(mode) for _, mode in (bases.items() if hasattr(bases, "items") else bases)]
    points = [_as_tuple(image) for mode in modes for image in mode]
    if coshape is None and any(point.__class__ is tuple for point in points):
        coshape = _smallest_coshape(points)
    if coshape is not None:
        require_powers(coshape, "from_linear_bases")
    flat = points if coshape is None else [_flattened(point, coshape) for point in points]
    extents = tuple([1 << len(mode) for mode in modes])
    return from_f2(F2Layout(extents[0] if len(extents) == 1 else extents, flat))


def _as_tuple(image: IntTuple) -> IntTuple:
    if isinstance(image, (list, tuple)):
        return tuple([_as_tuple(part) for part in image])
    return checked_images([image], "from_linear_bases")[0]


def _smallest_coshape(points: list[IntTuple]) -> IntTuple:
    ranks = {len(wrap(point)) for point in points}
    if len(ranks) > 1 or any(part.__class__ is tuple for p in points for part in wrap(p)):
        raise refusal("f2-points", operation="from_linear_bases", points=show(tuple(points)))
    return tuple([1 << max(part).bit_length() for part in zip(*map(wrap, points), strict=True)])


def _flattened(point: IntTuple, coshape: IntTuple) -> int:
    index: int = crd2idx(check_coordinate(point, coshape), coshape)
    if index >= product(coshape):
        raise refusal("f2-points", operation="from_linear_bases", points=show(point))
    return index
