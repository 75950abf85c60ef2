"""Queries, and operations that treat a layout as a tuple of modes: get, select, group, slice, zip
...

All of them keep the function up to the renaming of coordinates; none touches a stride. A
ComposedLayout is handled through its inner layout. Source: cutlass include/cute/layout.hpp.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout import ints, tuples
from cute_py.layout.coords import crd2idx, idx2crd
from cute_py.layout.layout import Layout, made
from cute_py.layout.tuples import is_underscore, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.layout.types import AnyLayout, IntTuple, Leaf, Mode


# -- queries


def shape(x: AnyLayout, mode: Mode = ()) -> AnyLayout:
    """Return the shape of a layout (or an int tuple itself), or of the mode at a path.

    >>> shape(Layout((4, (2, 3))), (1, 0))
    2
    """
    return _at_path(tuples.shape_of(x), mode, x)


def stride(layout: AnyLayout, mode: Mode = ()) -> AnyLayout:
    """Return the stride of a layout, or of the mode at a path.

    >>> stride(Layout((4, 8), (8, 1)), 0)
    8
    """
    return _at_path(layout.stride, mode, layout)


def size(x: AnyLayout, mode: Mode = ()) -> AnyLayout:
    """Return the number of coordinates of a layout or shape (elements), or of the mode at a path.

    >>> size(Layout((4, 8))), size((4, (2, 3)), 1)
    (32, 6)
    """
    return tuples.product(shape(x, mode))


def rank(x: AnyLayout, mode: Mode = ()) -> int:
    """Return the number of modes of a layout or int tuple, or of the mode at a path; an integer has
    rank 1.

    >>> rank(Layout((4, (2, 3)))), rank(Layout((4, (2, 3))), 1)
    (2, 2)
    """
    return tuples.rank(shape(x, mode))


def depth(x: AnyLayout, mode: Mode = ()) -> int:
    """Return how deep a layout or int tuple nests: 0 for an integer, 1 for a flat tuple.

    >>> depth(Layout((4, (2, 3)))), depth(7)
    (2, 0)
    """
    return tuples.depth(shape(x, mode))


def coshape(layout: AnyLayout, mode: Mode = ()) -> AnyLayout:
    """Return the smallest coordinate that is above every offset the strides can reach, taken in
    magnitude.

    Law: product(coshape(L)) == cosize(L). Source: cutlass layout.hpp `coshape`.

    >>> from cute_py import make_identity_layout
    >>> coshape(Layout((4, 8), (8, 1))), coshape(make_identity_layout((4, 8)))
    (32, (4, 8))
    """
    if layout.__class__ is not Layout:
        return query_composed("coshape", layout, mode)
    from cute_py.layout.basis import sum_steps

    part = get(layout, mode)
    reach = [(ints.sub(s, 1), _magnitude(d)) for s, d in zip(part._s, part._d, strict=True)]
    return tuples.transform_leaf(lambda c: ints.add(c, 1), sum_steps(reach))


def _magnitude(step: Leaf) -> AnyLayout:
    if hasattr(step, "path"):
        return step.__class__(ints.abs_(step.value), step.path)
    return ints.abs_(step)


def cosize(layout: AnyLayout, mode: Mode = ()) -> AnyLayout:
    """Return one more than the largest offset that the strides can reach, taken in magnitude
    (elements).

    With strides >= 0 that is max(offsets) + 1, what an allocation needs. For a ComposedLayout CuTe
    gives the inner layout's cosize; here it is what the whole layout reaches. Source: cutlass
    layout.hpp `cosize`.

    >>> cosize(Layout((4, 8), (8, 1))), cosize(Layout((4, 2), (-1, 4)))
    (32, 8)
    """
    if layout.__class__ is not Layout:
        return query_composed("cosize", layout, mode)
    return tuples.product(coshape(layout, mode))


def coprofile(layout: AnyLayout, mode: Mode = ()) -> AnyLayout:
    """Return zeros in the profile of what the layout yields: 0 for offsets, a tuple for
    coordinates.

    >>> from cute_py import make_identity_layout
    >>> coprofile(Layout((4, 8))), coprofile(make_identity_layout((4, (2, 3))))
    (0, (0, (0, 0)))
    """
    return tuples.repeat_like(coshape(layout, mode), 0)


def is_static(x: AnyLayout) -> bool:
    """Return whether every leaf of an int tuple or layout is known, that is, holds no symbol.

    >>> is_static(Layout((4, 8)))
    True
    """
    if x.__class__ is Layout:
        return all(ints.is_static(leaf) for leaf in (*x._s, *x._d))
    if hasattr(x, "inner"):
        return is_static(x.inner) and ints.is_static(x.offset)
    return all(is_underscore(leaf) or ints.is_static(leaf) for leaf in tuples.leaves(x))


# -- choosing and arranging modes


def get(x: AnyLayout, mode: Mode) -> AnyLayout:
    """Return the mode at an index or path, as a layout (or int tuple).

    >>> print(get(Layout((4, (2, 3)), (6, (1, 2))), (1, 0)))
    2:1
    """
    if x.__class__ is Layout:
        if mode == ():
            return x
        return made(Layout(_at_path(x.shape, mode, x), _at_path(x.stride, mode, x)), "get", x, mode)
    return _through(x, lambda part: get(part, mode), lambda part: _at_path(part, mode, x))


def _at_path(part: IntTuple, mode: Mode, whole: IntTuple) -> AnyLayout:
    for step in mode if mode.__class__ is tuple else (mode,):
        modes = part if part.__class__ is tuple else (part,)
        if step.__class__ is not int or not -len(modes) <= step < len(modes):
            text = tuples.show(whole) if whole.__class__ is tuple else str(whole)
            raise refusal(
                "mode-range",
                operation="get",
                mode=mode,
                layout=text,
                rank=len(modes),
                last=len(modes) - 1,
            )
        part = modes[step]
    return part


def take(x: AnyLayout, begin: int, end: int) -> AnyLayout:
    """Return modes begin to end - 1.

    >>> print(take(Layout((2, 3, 4)), 1, 3))
    (3,4):(2,6)
    """
    _interval("take", x, begin, end)
    return select(x, list(range(begin, end)))


def select(x: AnyLayout, modes: Mode) -> AnyLayout:
    """Return the modes of the given indices, in that order.

    >>> print(select(Layout((2, 3, 4)), [2, 0]))
    (4,2):(6,1)
    """
    return _each(x, "select", lambda part: tuple([_at_path(part, i, x) for i in modes]), modes)


def group_modes(x: AnyLayout, begin: int, end: int | None = None) -> AnyLayout:
    """Return the layout with modes begin to end - 1 gathered into one; `end` left out means all
    that follow.

    >>> print(group_modes(Layout((2, 3, 4)), 0, 2))
    ((2,3),4):((1,2),6)
    """
    stop = rank(x) if end is None else end
    _interval("group_modes", x, begin, stop)

    def group(part: IntTuple) -> AnyLayout:
        modes = tuples.wrap(part)
        return (*modes[:begin], modes[begin:stop], *modes[stop:])

    return _each(x, "group_modes", group, begin, stop)


def flatten(x: AnyLayout) -> AnyLayout:
    """Return the layout (or int tuple) with all leaves at top level.

    >>> print(flatten(Layout((2, (3, 4)))))
    (2,3,4):(1,2,6)
    """
    return _each(x, "flatten", tuples.flatten)


def unflatten(x: AnyLayout, profile: IntTuple) -> AnyLayout:
    """Return the flat layout (or int tuple) nested as `profile` is.

    >>> print(unflatten(Layout((2, 3, 4)), ((0, 0), 0)))
    ((2,3),4):((1,2),6)
    """
    return _each(x, "unflatten", lambda part: tuples.unflatten(part, profile), profile)


def append(x: AnyLayout, mode: Mode = None, up_to_rank: int | None = None) -> AnyLayout:
    """Return the layout with `mode` (default 1:0) added at the end, once, or as often as reaches a
    rank.

    >>> print(append(Layout(4)), append(Layout((2, 3)), Layout(1, 0), 4))
    (4,1):(1,0) (2,3,1,1):(1,2,0,0)
    """
    return _extend("append", x, mode, up_to_rank, front=False)


def prepend(x: AnyLayout, mode: Mode = None, up_to_rank: int | None = None) -> AnyLayout:
    """Return the layout with `mode` (default 1:0) added in front, once, or as often as reaches a
    rank.

    >>> print(prepend(Layout((2, 3))))
    (1,2,3):(0,1,2)
    """
    return _extend("prepend", x, mode, up_to_rank, front=True)


def _extend(name: str, x: AnyLayout, mode: Mode, target: int | None, *, front: bool) -> AnyLayout:
    mode = Layout(1, 0) if mode is None and not isinstance(x, (int, tuple)) else mode
    count = 1 if target is None else target - rank(x)
    if count < 0:
        raise refusal("rank-target", operation=name, rank=target, layout=x, has=rank(x))
    if count == 0 or target == 1:
        return x

    def extend(part: IntTuple, extra: AnyLayout) -> AnyLayout:
        more = (extra,) * count
        return more + tuples.wrap(part) if front else tuples.wrap(part) + more

    return _pair(x, mode, name, extend)


def replace(x: AnyLayout, index: int, mode: Mode) -> AnyLayout:
    """Return the layout with mode `index` replaced.

    >>> print(replace(Layout((2, 3)), 1, Layout(5, 7)))
    (2,5):(1,7)
    """
    _at_path(tuples.shape_of(x), index, x)

    def swap(part: IntTuple, other: AnyLayout) -> AnyLayout:
        modes = list(tuples.wrap(part))
        modes[index] = other
        return tuple(modes)

    return _pair(x, mode, "replace", swap)


def zip_(x: AnyLayout, other: AnyLayout = None) -> AnyLayout:
    """Return the transpose of two levels of modes: ((a,b),(c,d)) becomes ((a,c),(b,d)); two layouts
    are paired first.

    Source: cutlass layout.hpp `zip`.

    >>> print(zip_(Layout((2, 3), (1, 2)), Layout((4, 5), (6, 24))))
    ((2,4),(3,5)):((1,6),(2,24))
    """
    if other is not None:
        return _pair(x, other, "zip_", lambda a, b: _transpose((a, b)))
    return _each(x, "zip_", _transpose)


def _transpose(part: IntTuple) -> AnyLayout:
    if part.__class__ is not tuple:
        return part
    if part[0].__class__ is not tuple:
        return (part,)
    if any(mode.__class__ is not tuple or len(mode) != len(part[0]) for mode in part):
        raise refusal("profile-mismatch", operation="zip_", a=show(part[0]), b=show(part))
    return tuple([tuple(modes) for modes in zip(*part, strict=True)])


# -- slicing


def slice_(coord: IntTuple, x: AnyLayout) -> AnyLayout:
    """Return the modes that `coord` leaves free (`_` or None), from whatever depth, side by side.

    Source: cutlass underscore.hpp `slice`. For the offset that the fixed part adds, see
    `slice_and_offset`.

    >>> from cute_py.layout.tuples import _
    >>> print(slice_((_, (1, _)), Layout((4, (2, 3)))))
    (4,3):(1,8)
    """
    if x.__class__ is Layout or isinstance(x, (int, tuple)):
        return _each(x, "slice_", lambda part: _keep(coord, part, free=True), coord)
    return slice_and_offset(coord, x)[0]


def dice(coord: IntTuple, x: AnyLayout) -> AnyLayout:
    """Return the modes that `coord` fixes: what `slice_` drops.

    >>> from cute_py.layout.tuples import _
    >>> print(dice((_, 1), Layout((4, 8))))
    (8):(4)
    """
    return _each(x, "dice", lambda part: _keep(coord, part, free=False), coord)


def _keep(coord: IntTuple, part: IntTuple, *, free: bool) -> AnyLayout:
    if coord.__class__ is not tuple:
        return part if is_underscore(coord) is free else ()
    return tuple(_kept(coord, part, free))


def _kept(coord: IntTuple, part: IntTuple, free: bool) -> list[Any]:
    if coord.__class__ is not tuple:
        return [part] if is_underscore(coord) is free else []
    if part.__class__ is not tuple or len(part) != len(coord):
        raise refusal("coordinate-profile", operation="slice_", coord=show(coord), shape=show(part))
    return [kept for pair in zip(coord, part, strict=True) for kept in _kept(*pair, free)]


def slice_and_offset(coord: IntTuple, x: AnyLayout) -> tuple[Any, Any]:
    """Return the sublayout that `coord` leaves free, and the offset that its fixed part adds.

    Law: layout(c with x for _) == sub(x) + offset. For a swizzled layout see
    `composed.slice_and_offset`. Raises CoordinateError where the fixed part lies outside of the
    shape.

    >>> from cute_py.layout.tuples import _
    >>> sub, offset = slice_and_offset((2, _), Layout((4, 8), (8, 1)))
    >>> print(sub, offset)
    (8):(1) 16
    """
    if x.__class__ is not Layout:
        from cute_py.layout.composed import slice_composed

        return slice_composed(coord, x)
    fixed = _with_zeros(check_coordinate(coord, x.shape))
    return slice_(coord, x), crd2idx(fixed, x.shape, x.stride)


def _with_zeros(coord: IntTuple) -> AnyLayout:
    if coord.__class__ is tuple:
        return tuple([_with_zeros(c) for c in coord])
    return 0 if is_underscore(coord) else coord


def domain_offset(coord: IntTuple, layout: AnyLayout) -> tuple[Any, Any]:
    """Return the layout and the offset of its origin moved to `coord`; a composed layout keeps the
    offset inside.

    >>> print(*domain_offset((1, 2), Layout((4, 8))))
    (4,8):(1,4) 9
    """
    if layout.__class__ is not Layout:
        from cute_py.layout.composed import offset_composed

        return offset_composed(coord, layout)
    return layout, layout(coord)


def inner_of(layout: AnyLayout) -> AnyLayout:
    """Return the inner layout of a composed layout, and a plain layout as it is."""
    return layout.inner if hasattr(layout, "inner") else layout


def check_coordinate(coord: IntTuple, shape: IntTuple) -> AnyLayout:
    """Return `coord` normalised; refuse one that is negative, out of range or of another profile.

    A whole index may run past the size, a part of a tuple may not.
    """
    if coord.__class__ is tuple or is_underscore(coord):
        return _check_part(coord, shape, coord, shape, ())
    index = ints.normalize(coord, "layout", ", or tuples of these, or _")
    if ints.less(index, 0):
        _refuse_coordinate(coord, shape, index, (), shape)
    return index


def _check_part(
    coord: IntTuple, part: IntTuple, whole: IntTuple, shape: IntTuple, mode: tuple[int, ...]
) -> AnyLayout:
    if coord.__class__ is tuple:
        if part.__class__ is not tuple or len(part) != len(coord):
            raise refusal(
                "coordinate-profile", operation="layout", coord=show(whole), shape=show(shape)
            )
        return tuple(
            [
                _check_part(c, p, whole, shape, (*mode, i))
                for i, (c, p) in enumerate(zip(coord, part, strict=True))
            ]
        )
    if is_underscore(coord):
        return coord
    index = ints.normalize(coord, "layout", ", or tuples of these, or _")
    if ints.less(index, 0) or ints.leq(tuples.product(part), index):
        _refuse_coordinate(whole, shape, index, mode, part)
    return index


def _refuse_coordinate(
    coord: IntTuple, shape: IntTuple, value: Leaf, mode: tuple[int, ...], part: IntTuple
) -> None:
    raise refusal(
        "coordinate-range",
        operation="layout",
        coord=show(coord),
        shape=show(shape),
        value=value,
        mode=mode,
        size=tuples.product(part),
    )


# -- the inverse direction, for compact layouts


def get_hier_coord(layout: Layout, index: Leaf) -> AnyLayout:
    """Return the coordinate congruent to the shape with layout(coordinate) == index.

    Raises LayoutError when that is not so, that is, when the layout is not compact.
    Source: cutlass layout.hpp `get_hier_coord`.

    >>> get_hier_coord(Layout((4, (2, 4)), (8, (4, 1))), 11)
    (1, (0, 3))
    """
    coord = idx2crd(index, layout.shape, layout.stride) if _compact(layout) else None
    if coord is None or ints.same(crd2idx(coord, layout.shape, layout.stride), index) is False:
        raise refusal("not-compact", operation="get_hier_coord", layout=layout, index=index)
    return coord


def _compact(layout: Layout) -> bool:
    return all(
        ints.is_zero(d) is not True or ints.is_one(s)
        for s, d in zip(layout._s, layout._d, strict=True)
    )


def get_flat_coord(layout: Layout, index: Leaf) -> AnyLayout:
    """Return the coordinate with one index per top-level mode and layout(coordinate) == index.

    >>> get_flat_coord(Layout((4, (2, 4)), (8, (4, 1))), 11)
    (1, 6)
    """
    coord = get_hier_coord(layout, index)
    modes = zip(tuples.wrap(coord), tuples.wrap(layout.shape), strict=True)
    flat = tuple([crd2idx(c, s) for c, s in modes])
    return flat if len(flat) > 1 else flat[0]


def get_1d_coord(layout: Layout, index: Leaf) -> AnyLayout:
    """Return the index i with layout(i) == index.

    >>> get_1d_coord(Layout((4, 8), (8, 1)), 11)
    13
    """
    return crd2idx(get_hier_coord(layout, index), layout.shape)


# -- how they apply to layouts, int tuples and composed layouts alike


def _interval(name: str, x: AnyLayout, begin: int, end: int) -> None:
    if not 0 <= begin < end <= rank(x):
        raise refusal("mode-interval", operation=name, begin=begin, end=end, layout=x, rank=rank(x))


def _each(x: AnyLayout, name: str, change: Callable[[Any], Any], *operands: AnyLayout) -> AnyLayout:
    """Apply `change` to shape and stride alike."""
    if x.__class__ is Layout:
        return made(Layout(change(x.shape), change(x.stride)), name, x, *operands)
    return _through(x, lambda part: _each(part, name, change, *operands), change)


def _pair(
    x: AnyLayout, other: AnyLayout, name: str, change: Callable[[Any, Any], Any]
) -> AnyLayout:
    """Apply `change` to the shapes and to the strides of two layouts."""
    if x.__class__ is Layout:
        other = other if other.__class__ is Layout else Layout(other)
        result = Layout(change(x.shape, other.shape), change(x.stride, other.stride))
        return made(result, name, x, other)
    return _through(
        x, lambda part: _pair(part, other, name, change), lambda part: change(part, other)
    )


def _through(
    x: AnyLayout, on_layout: Callable[[Any], Any], on_tuple: Callable[[Any], Any]
) -> AnyLayout:
    if isinstance(x, (int, tuple)) or ints.is_leaf(x):
        return on_tuple(x)
    from cute_py.layout.composed import on_inner

    return on_inner("modes", on_layout, x)


def query_composed(name: str, layout: AnyLayout, mode: Mode) -> AnyLayout:
    """Return `name` of a composed layout, which enumerates it."""
    from cute_py.layout import composed

    return composed.query_composed(name, layout, mode)
