"""Inverses of a layout: right_inverse, left_inverse, and nullspace.

Source: cutlass include/cute/layout.hpp; Cecka, arXiv 2603.02298.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.algebra.coalesce import coalesce, coalesced
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.composed import inverse_composed, require_composed
from cute_py.layout.layout import INTS, Layout, made, make_layout, raw_flat
from cute_py.layout.tuples import is_underscore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import Alike, AnyLayout


def right_inverse(layout: AnyLayout) -> Alike:
    """Return the largest layout R with layout(R(k)) == k for every k < size(R).

    R covers the offsets 0, 1, ... as far as modes of the layout continue each other; 1:0 if no mode
    has stride 1. With symbols it goes as far as the strides are known to continue. Every swizzled
    bijection of powers of two has its inverse. R of a swizzled layout may lie past its size, where
    its last mode runs on. Raises LayoutError where a swizzled layout hits no offset 0.

    >>> print(right_inverse(Layout((4, 8), (8, 1))), right_inverse(Layout((4, 8), (1, 5))))
    (8,4):(4,1) 4:1
    """
    if layout.__class__ is not Layout:
        return layout if is_underscore(layout) else inverse_composed("right_inverse", layout)
    if layout._kind != INTS:
        return made(_right_inverse_leaves(layout), "right_inverse", layout)
    place: dict[int, tuple[int, int]] = {}
    prefix = 1
    for extent, stride in zip(layout._s, layout._d):  # noqa: B905 (hot; equal lengths)
        if extent != 1 and stride > 0:
            if stride in place:
                place = _tied_places(layout)
                break
            place[stride] = (extent, prefix)
        prefix *= extent
    extents: list[int] = []
    strides: list[int] = []
    offset = 1
    while offset in place:
        extent, prefix = place[offset]
        if strides and extents[-1] * strides[-1] == prefix:
            extents[-1] *= extent
        else:
            extents.append(extent)
            strides.append(prefix)
        offset *= extent
    return made(raw_flat(extents or [1], strides or [0]), "right_inverse", layout)


def _tied_places(layout: Layout) -> dict[int, tuple[int, int]]:
    """Return stride -> (extent, prefix product) where modes share a stride: the mode that CuTe's
    exchange sort puts first.
    """
    extents, strides = coalesced(layout)
    modes = []
    prefix = 1
    for extent, stride in zip(extents, strides, strict=True):
        modes.append((stride, extent, prefix))
        prefix *= extent
    for i in range(len(modes)):
        for j in range(i + 1, len(modes)):
            if modes[j][0] < modes[i][0]:
                modes[i], modes[j] = modes[j], modes[i]
    place: dict[int, tuple[int, int]] = {}
    for stride, extent, prefix in modes:
        place.setdefault(stride, (extent, prefix))
    return place


def _right_inverse_leaves(layout: Layout) -> Layout:
    modes = _with_prefixes(layout, "right_inverse")
    parts: list[Layout] = []
    offset: Any = 1
    while True:
        found = next((k for k, mode in enumerate(modes) if ints.same(mode[1], offset)), None)
        if found is None:
            return coalesce(make_layout(*parts)) if parts else Layout(1, 0)
        extent, _, prefix = modes.pop(found)
        parts.append(Layout(extent, prefix))
        offset = ints.mul(offset, extent)


def _with_prefixes(layout: Layout, operation: str) -> list[tuple[Any, Any, Any]]:
    """Return (extent, stride, prefix product) of the coalesced modes, without stride-0 and extent-1
    ones.
    """
    extents, strides = coalesced(layout)
    modes = []
    prefix: Any = 1
    for extent, stride in zip(extents, strides, strict=True):
        if stride.__class__ is ScaledBasis:
            raise refusal("coordinate-strides", operation=operation, layout=layout, stride=stride)
        if not ints.is_zero(stride) and not ints.is_one(extent):
            modes.append((extent, stride, prefix))
        prefix = ints.mul(prefix, extent)
    return modes


def left_inverse(layout: AnyLayout) -> Alike:
    """Return the layout R with R(layout(i)) == i for an injective layout, up to broadcast modes for
    the others.

    Law: layout(R(layout(i))) == layout(i) for every i; with no stride-0 mode R(layout(i)) == i.
    Between the offsets that the layout hits, R is whatever its strides give. Raises LayoutError,
    naming the modes, where modes overlap or a stride is no multiple of the one below; of swizzled
    layouts of powers of two, where two indices have one offset. Source: cutlass layout.hpp
    `left_inverse`.

    >>> print(left_inverse(Layout((4, 8), (8, 1))), left_inverse(Layout((4, 2), (1, 16))))
    (8,4):(4,1) (16,2):(1,4)
    """
    if layout.__class__ is not Layout:
        return layout if is_underscore(layout) else inverse_composed("left_inverse", layout)
    from cute_py.layout.algebra.complement import by_stride

    modes = _with_prefixes(layout, "left_inverse")
    if not modes:
        return made(Layout(layout.size(), 0), "left_inverse", layout)
    ordered = by_stride(modes) if layout._kind != INTS else sorted(modes, key=lambda m: m[1])
    below: Any = 1  # the stride, and the offsets filled, of the modes so far
    filled: Any = 1
    extents: list[Any] = []
    strides: list[Any] = [0]
    for mode in ordered:
        extent, stride, prefix = mode
        fits = ints.settle(ints.divides, below, stride, "left_inverse")
        if not fits or not ints.settle(ints.leq, filled, stride, "left_inverse"):
            raise refusal(
                "left-inverse",
                operation="left_inverse",
                layout=layout,
                stride=stride,
                below=below,
                filled=filled,
            )
        extents.append(ints.div(stride, below))
        strides.append(prefix)
        below, filled = stride, ints.mul(stride, extent)
    extents.append(ordered[-1][0])
    return made(coalesce(Layout(tuple(extents), tuple(strides))), "left_inverse", layout)


def nullspace(layout: AnyLayout) -> Alike:
    """Return the layout of the indices that broadcast modes reach: layout(R(i)) == 0 for every i <
    size(R).

    Law: size(R) * size(filter_zeros(layout)) == size(layout). Source: cutlass layout.hpp
    `nullspace`.

    >>> print(nullspace(Layout((2, 4, 3), (1, 0, 2))), nullspace(Layout(4, 1)))
    4:2 1:0
    """
    if layout.__class__ is not Layout:
        require_composed(layout, "nullspace")
        return Layout(1, 0)  # what cancels in a composed layout is not looked for, as in CuTe
    from cute_py.layout.coords import compact_col_major
    from cute_py.layout.tuples import unwrap

    prefixes = compact_col_major(tuple(layout._s))
    free = [k for k, step in enumerate(layout._d) if ints.is_zero(step)]
    if not free:
        return made(Layout(1, 0), "nullspace", layout)
    shape = unwrap(tuple([layout._s[k] for k in free]))
    stride = unwrap(tuple([prefixes[k] for k in free]))
    return made(Layout(shape, stride), "nullspace", layout)
