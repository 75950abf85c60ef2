"""Divides: split a layout into tiles and the rest that iterates over them.

Source: cutlass include/cute/layout.hpp; Cecka, arXiv 2603.02298.
"""

from __future__ import annotations

from itertools import chain

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.algebra.coalesce import coalesced
from cute_py.layout.algebra.complement import rest_of
from cute_py.layout.algebra.composition import composition
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.layout import INTS, SYMBOLS, Layout, make_layout, operation, raw, with_strides
from cute_py.layout.modes import modes_of
from cute_py.layout.tuples import is_underscore, mismatch, product, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.layout.types import Alike, IntTuple, Kind, Tiler

    Pair = tuple[Layout, Layout]  # tile and rest, or block and copies


@operation
def logical_divide(layout: Kind, tiler: Tiler) -> Kind:
    """Return (tile, rest): composition(layout, (tiler, complement(tiler, size(layout)))).

    Args:
        layout: Layout or ComposedLayout.
        tiler: a layout; an integer n (n:1); `_` (leave the mode as it is); or a by-mode tiler,
            which divides mode by mode, giving ((tile0, rest0), (tile1, rest1), ...).

    Law: result(t, r) == layout(tiler(t) + complement(r)). A tile that does not divide covers more
    than the layout, whose last mode is unbounded. Raises what `complement` and `composition` raise.
    Source: cutlass layout.hpp `logical_divide`.

    >>> print(logical_divide(Layout((8, 4), (4, 1)), Layout(4, 2)))
    (4,(2,4)):(8,(4,1))
    """
    pair = by_ints(layout, tiler)
    if pair is None:
        return by_mode("logical_divide", layout, tiler, _divided)
    tile, rest = pair
    n = len(tile._s)
    shape = *zip(tile._s, rest._s, strict=False), *rest._s[n:]
    stride = *zip(tile._d, rest._d, strict=False), *rest._d[n:]
    s, d = [[*chain(*part[:n]), *part[n:]] for part in (shape, stride)]
    return raw(shape, stride, s, d)


def by_mode(
    operation: str, layout: Alike, tiler: Tiler, split: Callable[[Layout, Tiler], Layout]
) -> Layout:
    """Return the layout with each mode that has a tiler replaced by `split(mode, its tiler)`."""
    if tiler.__class__ is not tuple:
        return layout if is_underscore(tiler) else split(layout, tiler)
    check_rank(operation, layout, tiler)
    modes = modes_of(layout)
    parts = [
        by_mode(operation, mode, part, split) for mode, part in zip(modes, tiler, strict=False)
    ]
    return gathered([*parts, *modes[len(tiler) :]])


def zipped(
    operation: str,
    layout: Layout,
    tiler: Tiler,
    split: Callable[[Layout, Tiler], Pair],
    whole: Callable[[Layout], Pair],
) -> Pair:
    """Return `split(mode, its tiler)`, or `whole(mode)` where the tiler is `_`: the first halves
    gathered in one layout, the second halves and the other modes in another.
    """
    if tiler.__class__ is not tuple:
        return whole(layout) if is_underscore(tiler) else split(layout, tiler)
    check_rank(operation, layout, tiler)
    modes = modes_of(layout)
    facing = zip(modes, tiler, strict=False)
    pairs = [zipped(operation, mode, part, split, whole) for mode, part in facing]
    return gathered([p[0] for p in pairs]), gathered([p[1] for p in pairs] + modes[len(tiler) :])


def gathered(modes: list[Layout]) -> Layout:
    """Return the layout of these modes, which may be none."""
    return make_layout(*modes) if modes else raw((), (), [], [])


def halves(layout: Layout) -> Pair:
    """Return the two modes of a layout."""
    first, second = modes_of(layout)
    return first, second


def _divided(layout: Layout, tiler: Tiler) -> Layout:
    """Return composition(layout, (tiler, complement))."""
    if layout.shape.__class__ is int and layout._kind == INTS:
        return make_layout(*_tile_and_rest(layout, tiler))
    tiler = tiler if tiler.__class__ is Layout else as_layout(tiler, "logical_divide")
    return composition(layout, make_layout(tiler, rest_beyond(layout, tiler)))


def _tile_and_rest(layout: Layout, tiler: Tiler) -> Pair:
    """Return the two modes of `_divided`; one mode of ints only scales tiler and complement."""
    if layout.shape.__class__ is not int or layout._kind != INTS:
        return halves(_divided(layout, tiler))
    extent, stride = layout.shape, layout.stride
    if tiler.__class__ is int and tiler > 0:
        step, count = stride if tiler > 1 else 0, -(-extent // tiler)
        hop = tiler * stride if count > 1 else 0
        return raw(tiler, step, [tiler], [step]), raw(count, hop, [count], [hop])
    tiler = tiler if tiler.__class__ is Layout else as_layout(tiler, "logical_divide")
    pair = tiler, rest_beyond(layout, tiler)
    if tiler._kind != INTS:
        return halves(composition(layout, make_layout(*pair)))
    return tuple([with_strides(x, [d * stride for d in x._d], INTS) for x in pair])


def by_ints(layout: Alike, tiler: Tiler) -> Pair | None:
    """The shortcut of `zipped` for flat modes of ints and a tuple of ints; None for others."""
    s, d = layout._s, layout._d
    flat = not layout._kind and layout.shape.__class__ is tuple and len(s) == len(layout.shape)
    if not flat or tuple in map(type, layout.shape) or tiler.__class__ is not tuple:
        return None
    n = len(tiler)
    if not 0 < n <= len(s) or not all(t.__class__ is int and t > 0 for t in tiler):
        return None
    counts = [-(-extent // t) for extent, t in zip(s, tiler, strict=False)]
    hops = [t * x if c > 1 else 0 for t, x, c in zip(tiler, d, counts, strict=False)]
    steps = [x if t > 1 else 0 for t, x in zip(tiler, d, strict=False)]
    counts, hops = counts + s[n:], hops + d[n:]
    tile = raw(tiler, tuple(steps), list(tiler), steps)
    return tile, raw(tuple(counts), tuple(hops), counts, hops)


def rest_beyond(layout: Layout, tiler: Layout) -> Layout:
    """Return the complement of the tiler in the shape that it must cover: the coalesced shape,
    which CuTe rounds up mode by mode, or the shape itself if tiles are coordinates.
    """
    if any(step.__class__ is ScaledBasis for step in tiler._d):
        return rest_of(tiler, wrap(layout.shape))
    extents, strides = coalesced(layout)
    rest = rest_of(tiler, extents[0] if len(extents) == 1 else tuple(extents))
    if layout._kind == SYMBOLS and len(extents) > 1:
        whole = rest_of(tiler, product(tuple(extents)))
        if not ints.same(rest.size(), whole.size()):
            _require_parted(extents, strides)
    return rest


def _require_parted(extents: list[Any], strides: list[Any]) -> None:
    """Refuse modes that may coalesce into one: these would be rounded up together."""
    for k in range(1, len(extents)):
        for j in reversed(range(k)):
            if j < k - 1 and ints.is_one(extents[j + 1]) is False:
                break
            if strides[k].__class__ is not ScaledBasis and strides[j].__class__ is not ScaledBasis:
                ints.settle(
                    ints.same, ints.mul(extents[j], strides[j]), strides[k], "logical_divide"
                )


def as_layout(tiler: Tiler, operation: str) -> Layout:
    """Return the compact layout of an integer n; refuse anything that is not a tiler."""
    if not ints.is_leaf(tiler) and not hasattr(tiler, "__index__"):
        raise refusal("tiler-type", operation=operation, value=tiler, type=type(tiler).__name__)
    return Layout(ints.normalize(tiler, operation))


def check_rank(operation: str, layout: Layout, tiler: tuple[Any, ...]) -> None:
    """Refuse a by-mode tiler with more entries than the layout has modes."""
    if len(tiler) > len(layout):
        raise refusal(
            "tiler-rank", operation=operation, tiler=len(tiler), layout=layout, rank=len(layout)
        )


@operation
def zipped_divide(layout: Kind, tiler: Tiler) -> Kind:
    """Return ((tile0, tile1, ...), (rest0, rest1, ...)): logical_divide with tiles and rests
    gathered.

    A `_` in the tiler takes the whole mode as tile and leaves 1:0 as rest. Source: cutlass
    layout.hpp `zipped_divide`.

    >>> print(zipped_divide(Layout((8, 6)), (4, 3)))
    ((4,3),(2,2)):((1,8),(4,24))
    """
    return make_layout(*_zipped(layout, tiler))


def _zipped(layout: Alike, tiler: Tiler) -> Pair:
    def whole(mode: Layout) -> Pair:
        return mode, raw(1, 0, [1], [0])

    plain = by_ints(layout, tiler)
    return plain or zipped("logical_divide", layout, tiler, _tile_and_rest, whole)


@operation
def tiled_divide(layout: Kind, tiler: Tiler) -> Kind:
    """Return ((tile0, tile1, ...), rest0, rest1, ...): zipped_divide with the rests side by side.

    >>> print(tiled_divide(Layout((8, 6)), (4, 3)))
    ((4,3),2,2):((1,8),4,24)
    """
    return side_by_side(_zipped(layout, tiler))


@operation
def flat_divide(layout: Kind, tiler: Tiler) -> Kind:
    """Return (tile0, tile1, ..., rest0, rest1, ...): zipped_divide with everything side by side.

    >>> print(flat_divide(Layout((8, 6)), (4, 3)))
    (4,3,2,2):(1,8,4,24)
    """
    return side_by_side(_zipped(layout, tiler), flat=True)


def side_by_side(pair: Pair, *, flat: bool = False) -> Layout:
    """Return (first, seconds...), or the modes of both. A part of rank 1 counts as one mode, with
    its brackets, as in CuTe.
    """
    first, second = pair

    def joined(one: IntTuple, other: IntTuple) -> IntTuple:
        front = one if flat and len(first) > 1 else (one,)
        return (*front, *(other if len(second) > 1 else (other,)))

    shape, stride = joined(first.shape, second.shape), joined(first.stride, second.stride)
    kind = max(first._kind, second._kind)
    return raw(shape, stride, first._s + second._s, first._d + second._d, kind)


@operation
def tile_unzip(layout: Kind, tiler: Tiler) -> Kind:
    """Return the layout with the pairs that correspond to the leaves of `tiler` gathered:
    ((A,a),(B,b),c) -> ((A,B),(a,b,c)).

    Source: cutlass layout.hpp `tile_unzip`, tuple_algorithms.hpp `zip2_by`.

    >>> print(tile_unzip(logical_divide(Layout((8, 6)), (4, 3)), (4, 3)))
    ((4,3),(2,2)):((1,8),(4,24))
    """
    return Layout(_unzip(layout.shape, tiler), _unzip(layout.stride, tiler))


def _unzip(part: IntTuple, guide: Tiler) -> Alike:
    if guide.__class__ is not tuple:
        if part.__class__ is not tuple or len(part) != 2:
            raise mismatch("tile_unzip", part, guide)
        return part
    modes = wrap(part)
    pairs = [_unzip(mode, g) for mode, g in zip(modes, guide, strict=False)]
    return tuple([p[0] for p in pairs]), (*[p[1] for p in pairs], *modes[len(guide) :])
