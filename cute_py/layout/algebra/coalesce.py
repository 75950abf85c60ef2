"""Simplify a layout without changing it as a function of the index: coalesce, filter, filter_zeros.

Source: cutlass include/cute/layout.hpp `coalesce`, `coalesce_x`, `filter`; Cecka, arXiv 2603.02298,
section 3.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.layout import INTS, Layout, made, make_layout, on_inner, operation, raw_flat
from cute_py.layout.modes import modes_of
from cute_py.layout.tuples import mismatch, repeat_like, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.layout.types import Alike, IntTuple, Kind

    Leaves = tuple[list[Any], list[Any]]


def coalesce(layout: Kind, profile: IntTuple = None) -> Kind:
    """Return the layout with the fewest modes that computes the same function of the index.

    Args:
        layout: a Layout or ComposedLayout (whose inner layout is coalesced).
        profile: an int tuple; if it is a tuple, the modes are kept and coalesced one by one.

    Law: result(i) == layout(i) for 0 <= i < size, size and cosize stay the same, and depth is at
    most 1 below the profile. Raises LayoutError when the profile has more modes than the layout.
    Source: cutlass layout.hpp `coalesce`.

    >>> layout = Layout((2, (1, 6)), (1, (6, 2)))
    >>> print(coalesce(layout), coalesce(layout, (0, 0)))
    12:1 (2,6):(1,2)
    """
    if layout.__class__ is not Layout:
        return on_inner("coalesce", lambda inner: coalesce(inner, profile), layout)
    if profile.__class__ is tuple:
        return by_profile("coalesce", coalesce, layout, profile)
    kind = layout._kind  # type: ignore[attr-defined]
    return made(raw_flat(*coalesced(layout), kind), "coalesce", layout)


@operation
def filter_zeros(layout: Kind, profile: IntTuple = None) -> Kind:
    """Return the layout with every stride-0 mode (or every mode whose entry in `profile` is 0)
    shrunk to extent 1.

    Law: same image; size(result) is the size without broadcasting. Source: cutlass layout.hpp
    `filter_zeros`.

    >>> print(filter_zeros(Layout((4, 2), (0, 1))), filter_zeros(Layout((4, 2), (2, 1)), (1, 0)))
    (1,2):(0,1) (4,1):(2,1)
    """
    guide = layout.stride if profile is None else profile
    return Layout(_without(guide, layout.shape), layout.stride)


def _without(guide: IntTuple, shape: IntTuple) -> IntTuple:
    if guide.__class__ is tuple:
        if shape.__class__ is not tuple or len(shape) != len(guide):
            raise mismatch("filter_zeros", guide, shape)
        return tuple([_without(g, s) for g, s in zip(guide, shape, strict=True)])
    guide = guide.value if guide.__class__ is ScaledBasis else guide
    return repeat_like(shape, 1) if ints.settle(ints.same, guide, 0, "filter_zeros") else shape


@operation
def filter(layout: Kind, profile: IntTuple = None) -> Kind:
    """Return the layout without its stride-0 and extent-1 modes, coalesced; `1:0` if nothing is
    left.

    Law: same image as `layout`. Source: cutlass layout.hpp `filter`.

    >>> print(filter(Layout((4, 2, 1, 3), (0, 1, 7, 2))))
    6:1
    """
    if profile.__class__ is tuple:
        return by_profile("filter", filter, layout, profile)
    return coalesce(filter_zeros(layout))


def by_profile(name: str, change: Callable[..., Any], layout: Alike, profile: IntTuple) -> Layout:
    """Apply `change(mode, part of the profile)` to the modes that the profile names; keep the
    others.
    """
    if len(profile) > len(layout):
        raise refusal("profile-rank", operation=name, profile=show(profile), layout=layout)
    whole = modes_of(layout)
    modes = [change(mode, part) for mode, part in zip(whole, profile, strict=False)]
    return make_layout(*modes, *whole[len(profile) :]) if modes else layout


def coalesced(layout: Alike) -> Leaves:
    """Return the leaves of coalesce(layout): extents and strides, never empty."""
    return merged(layout._s, layout._d, layout._kind)


def coalesced_beyond(layout: Layout) -> Leaves:
    """Return the leaves of a layout equal to `layout` on all indices, also beyond its size.

    There the last mode is unbounded even if its extent is 1: it stays, and extent 2 means
    "unbounded".
    """
    s, d = layout._s, layout._d
    if s and ints.is_one(s[-1]):
        return merged([*s[:-1], 2], d, layout._kind)
    return merged(s, d, layout._kind)


def merged(s: list[Any], d: list[Any], kind: int) -> Leaves:
    """Return the leaves coalesced, never empty; `kind` is that of their layout."""
    if kind != INTS:
        return _merge_leaves(s, d)
    extents: list[int] = []
    strides: list[int] = []
    extent, stride = 1, 0
    for x, y in zip(s, d):  # noqa: B905 (hot; lengths agree by construction)
        if x == 1:
            continue
        if extent == 1:
            extent, stride = x, y
        elif extent * stride == y:
            extent *= x
        else:
            extents.append(extent)
            strides.append(stride)
            extent, stride = x, y
    extents.append(extent)
    strides.append(stride)
    return extents, strides


def _merge_leaves(s: list[Any], d: list[Any]) -> Leaves:
    extents: list[Any] = []
    strides: list[Any] = []
    for x, y in zip(s, d, strict=True):
        if ints.is_one(x):
            continue
        if extents and ints.same(ints.mul(extents[-1], strides[-1]), y):
            extents[-1] = ints.mul(extents[-1], x)
        else:
            extents.append(x)
            strides.append(y)
    return (extents, strides) if extents else ([1], [0])
