"""Divides: split a layout into tiles and the rest that iterates over them.

Source: cutlass include/cute/layout.hpp; Cecka, arXiv 2603.02298.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.algebra.coalesce import coalesced
from cute_py.layout.algebra.complement import complement, require_gapless
from cute_py.layout.algebra.composition import composition
from cute_py.layout.layout import Layout, made, make_layout, step
from cute_py.layout.tuples import is_underscore, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Tiler


def logical_divide(layout: AnyLayout, tiler: Tiler) -> Alike:
    """Return (tile, rest): composition(layout, (tiler, complement(tiler, size(layout)))).

    Args:
        layout: Layout or ComposedLayout.
        tiler: a layout; an integer n (n:1); `_` (leave the mode as it is); or a by-mode tiler,
            which divides mode by mode, giving ((tile0, rest0), (tile1, rest1), ...).

    Law: result(t, r) == layout(tiler(t) + complement(r)). A tile that does not divide covers more
    than the layout, whose last mode runs on. Raises what `complement` and `composition` raise.
    Source: cutlass layout.hpp `logical_divide`.

    >>> print(logical_divide(Layout((8, 4), (4, 1)), Layout(4, 2)))
    (4,(2,4)):(8,(4,1))
    """
    if layout.__class__ is not Layout:
        return through_inner(logical_divide, layout, tiler)
    if tiler.__class__ is Layout:
        return step("logical_divide", (layout, tiler), lambda: _divided(layout, tiler))
    if tiler.__class__ is tuple:
        check_rank("logical_divide", layout, tiler)
        return step("logical_divide", (layout, tiler), lambda: _divided_by_mode(layout, tiler))
    if is_underscore(tiler):
        return layout
    return logical_divide(layout, as_layout(tiler, "logical_divide"))


def _divided(layout: Layout, tiler: Layout) -> Layout:
    target = _target(layout)
    require_gapless(tiler, target)
    pair = make_layout(tiler, complement(tiler, target))
    return composition(layout, pair)  # type: ignore[no-any-return]


def _divided_by_mode(layout: Layout, tiler: tuple[Tiler, ...]) -> Layout:
    parts = [logical_divide(m, t) for m, t in zip(layout, tiler, strict=False)]
    return make_layout(*parts, *list(layout)[len(tiler) :])


def _target(layout: Layout) -> IntTuple:
    """Return what the complement has to cover: the coalesced shape, which CuTe rounds up mode by
    mode.
    """
    extents = coalesced(layout)[0]
    return extents[0] if len(extents) == 1 else tuple(extents)


def as_layout(tiler: Tiler, operation: str) -> Layout:
    """Return the compact layout of an integer n; refuse what is no tiler."""
    if not ints.is_leaf(tiler) and not hasattr(tiler, "__index__"):
        raise refusal("tiler-type", operation=operation, value=tiler, type=type(tiler).__name__)
    return Layout(ints.normalize(tiler, operation))


def check_rank(operation: str, layout: Layout, tiler: tuple[Any, ...]) -> None:
    """Refuse a by-mode tiler with more entries than the layout has modes."""
    if len(tiler) > len(layout):
        raise refusal(
            "tiler-rank", operation=operation, tiler=len(tiler), layout=layout, rank=len(layout)
        )


def zipped_divide(layout: AnyLayout, tiler: Tiler) -> Alike:
    """Return ((tile0, tile1, ...), (rest0, rest1, ...)): logical_divide with tiles and rests
    gathered.

    A `_` in the tiler takes the whole mode as tile and leaves 1:0 as rest. Source: cutlass
    layout.hpp `zipped_divide`.

    >>> print(zipped_divide(Layout((8, 6)), (4, 3)))
    ((4,3),(2,2)):((1,8),(4,24))
    """
    if layout.__class__ is not Layout:
        return through_inner(zipped_divide, layout, tiler)
    return step("zipped_divide", (layout, tiler), lambda: _zipped(layout, tiler))


def _zipped(layout: Layout, tiler: Tiler) -> Layout:
    divided = _with_whole_modes(logical_divide(layout, tiler), tiler)
    return tile_unzip(divided, tiler)  # type: ignore[no-any-return]


def tiled_divide(layout: AnyLayout, tiler: Tiler) -> Alike:
    """Return ((tile0, tile1, ...), rest0, rest1, ...): zipped_divide with the rests side by side.

    >>> print(tiled_divide(Layout((8, 6)), (4, 3)))
    ((4,3),2,2):((1,8),4,24)
    """
    if layout.__class__ is not Layout:
        return through_inner(tiled_divide, layout, tiler)
    return step("tiled_divide", (layout, tiler), lambda: _unzipped(layout, tiler, flat=False))


def _unzipped(layout: Layout, tiler: Tiler, *, flat: bool) -> Layout:
    tiles, rests = zipped_divide(layout, tiler)
    return make_layout(*(unpacked(tiles) if flat else [tiles]), *unpacked(rests))


def flat_divide(layout: AnyLayout, tiler: Tiler) -> Alike:
    """Return (tile0, tile1, ..., rest0, rest1, ...): zipped_divide with everything side by side.

    >>> print(flat_divide(Layout((8, 6)), (4, 3)))
    (4,3,2,2):(1,8,4,24)
    """
    if layout.__class__ is not Layout:
        return through_inner(flat_divide, layout, tiler)
    return step("flat_divide", (layout, tiler), lambda: _unzipped(layout, tiler, flat=True))


def unpacked(part: Layout) -> list[Layout]:
    """Return the modes; a mode of rank 1 counts as one mode, brackets and all, as in CuTe."""
    return list(part) if len(part) > 1 else [part]


def _with_whole_modes(divided: Layout, tiler: Tiler) -> Layout:
    """Give every mode that faces `_` the rest 1:0, so that the whole mode is the tile."""
    if is_underscore(tiler):
        return make_layout(divided, Layout(1, 0))
    if tiler.__class__ is not tuple:
        return divided
    modes = list(divided)
    for k, part in enumerate(tiler):
        modes[k] = _with_whole_modes(modes[k], part)
    return make_layout(*modes)


def tile_unzip(layout: AnyLayout, tiler: Tiler) -> Alike:
    """Return the layout with the pairs that face the leaves of `tiler` gathered: ((A,a),(B,b),c) ->
    ((A,B),(a,b,c)).

    Source: cutlass layout.hpp `tile_unzip`, tuple_algorithms.hpp `zip2_by`.

    >>> print(tile_unzip(logical_divide(Layout((8, 6)), (4, 3)), (4, 3)))
    ((4,3),(2,2)):((1,8),(4,24))
    """
    if layout.__class__ is not Layout:
        return through_inner(tile_unzip, layout, tiler)
    shape, stride = (_unzip(part, tiler) for part in (layout.shape, layout.stride))
    return made(Layout(shape, stride), "tile_unzip", layout, tiler)


def _unzip(part: IntTuple, guide: Tiler) -> Alike:
    if guide.__class__ is not tuple:
        if part.__class__ is not tuple or len(part) != 2:
            raise refusal("profile-mismatch", operation="tile_unzip", a=part, b=guide)
        return part
    modes = wrap(part)
    pairs = [_unzip(mode, g) for mode, g in zip(modes, guide, strict=False)]
    return tuple([p[0] for p in pairs]), (*[p[1] for p in pairs], *modes[len(guide) :])


def through_inner(operation: Callable[[Any, Any], Any], layout: AnyLayout, tiler: Tiler) -> Alike:
    """Divide the inner layout of a ComposedLayout; refuse anything else."""
    from cute_py.layout.composed import on_inner

    return on_inner(operation.__name__, lambda inner: operation(inner, tiler), layout)
