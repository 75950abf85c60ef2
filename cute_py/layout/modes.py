"""Operations that treat a layout as a tuple of modes: get, select, flatten, append, slice ...

They rearrange coordinates, or fix a part of them, and change no stride. A ComposedLayout is handled
through its inner layout. Source: cutlass include/cute/layout.hpp, underscore.hpp.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import AbstractComposed, AbstractTensor, Mapped, special, tuples
from cute_py.layout.coords import check_coordinate, odd_coordinate, offset_at
from cute_py.layout.layout import INTS, Layout, kind_of, made, on_inner, raw
from cute_py.layout.queries import at_path, rank
from cute_py.layout.tuples import is_underscore, mismatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, overload

    from cute_py.layout.types import (
        Alike,
        AnyInt,
        AnyLayout,
        IntTuple,
        Kind,
        LayoutLike,
        Mode,
        Nest,
        Number,
        TensorKind,
    )


MOST_MODES = 1 << 16  # that append and prepend add


def get(x: Kind | Number | Nest, mode: Mode) -> Kind:
    """Return the mode at an index or path, as a layout (or int tuple).

    >>> print(get(Layout((4, (2, 3)), (6, (1, 2))), (1, 0)))
    2:1
    """
    if x.__class__ is Layout:
        if mode.__class__ is tuple and not mode:
            return x
        shape, stride = at_path(x.shape, mode, x), at_path(x.stride, mode, x)
        if shape.__class__ is int and x._kind == INTS:
            return made(raw(shape, stride, [shape], [stride]), "get", x, mode)
        return made(Layout(shape, stride), "get", x, mode)
    return _through(x, lambda part: get(part, mode), lambda part: at_path(part, mode, x))


def modes_of(layout: Layout) -> list[Layout]:
    """Return the modes of a layout; a layout of an integer shape is its only mode."""
    if layout.shape.__class__ is not tuple:
        return [layout]
    if layout._kind == INTS and tuple not in map(type, layout.shape):
        return [raw(s, d, [s], [d]) for s, d in zip(layout._s, layout._d, strict=True)]
    modes, first = [], 0
    for shape, stride in zip(layout.shape, layout.stride, strict=True):
        last = first + tuples.count(shape)
        s, d = layout._s[first:last], layout._d[first:last]
        modes.append(raw(shape, stride, s, d, kind_of(s, d) if layout._kind else INTS))
        first = last
    return modes


def take(x: Kind | Number | Nest, begin: int, end: int) -> Kind:
    """Return modes begin to end - 1.

    >>> print(take(Layout((2, 3, 4)), 1, 3))
    (3,4):(2,6)
    """
    begin, end = tuples.index_of(begin, "take"), tuples.index_of(end, "take")
    _interval("take", x, begin, end)
    return select(x, list(range(begin, end)))


def select(x: Kind | Number | Nest, modes: Mode) -> Kind:
    """Return the modes of the given indices, in that order.

    >>> print(select(Layout((2, 3, 4)), [2, 0]))
    (4,2):(6,1)
    """
    if not isinstance(modes, (list, tuple, range)):
        raise refusal("mode-list", operation="select", value=modes, type=type(modes).__name__)
    return each(x, "select", lambda part: tuple([at_path(part, i, x) for i in modes]), modes)


def group_modes(x: Kind | Number | Nest, begin: int, end: int | None = None) -> Kind:
    """Return the layout with modes begin to end - 1 gathered into one; by default `end` is the
    rank.

    >>> print(group_modes(Layout((2, 3, 4)), 0, 2))
    ((2,3),4):((1,2),6)
    """
    begin = tuples.index_of(begin, "group_modes")
    stop = rank(x) if end is None else tuples.index_of(end, "group_modes")
    _interval("group_modes", x, begin, stop)

    def group(part: IntTuple) -> IntTuple:
        modes = tuples.wrap(part)
        return (*modes[:begin], modes[begin:stop], *modes[stop:])

    return each(x, "group_modes", group, begin, stop)


def flatten(x: Kind | Number | Nest) -> Kind:
    """Return the layout (or int tuple) with all leaves at top level.

    >>> print(flatten(Layout((2, (3, 4)))))
    (2,3,4):(1,2,6)
    """
    return each(x, "flatten", tuples.flatten)


def unflatten(x: Kind | Number | Nest, profile: IntTuple) -> Kind:
    """Return the flat layout (or int tuple) nested as `profile` is.

    >>> print(unflatten(Layout((2, 3, 4)), ((0, 0), 0)))
    ((2,3),4):((1,2),6)
    """
    return each(x, "unflatten", lambda part: tuples.unflatten(part, profile), profile)


def append(x: Kind | Number | Nest, mode: Mode = None, up_to_rank: int | None = None) -> Kind:
    """Return the layout with `mode` (default 1:0) added at the end, once, or repeatedly up to a
    rank.

    >>> print(append(Layout(4)), append(Layout((2, 3)), Layout(1, 0), 4))
    (4,1):(1,0) (2,3,1,1):(1,2,0,0)
    """
    return _extend("append", x, mode, up_to_rank, front=False)


def prepend(x: Kind | Number | Nest, mode: Mode = None, up_to_rank: int | None = None) -> Kind:
    """Return the layout with `mode` (default 1:0) added in front, once, or repeatedly up to a rank.

    >>> print(prepend(Layout((2, 3))))
    (1,2,3):(0,1,2)
    """
    return _extend("prepend", x, mode, up_to_rank, front=True)


def _extend(name: str, x: LayoutLike, mode: Mode, target: int | None, *, front: bool) -> Alike:
    target = None if target is None else tuples.index_of(target, name)
    count = 1 if target is None else target - rank(x)
    if count > MOST_MODES:
        raise refusal("tools-size", operation=name, layout=x, size=target, limit=MOST_MODES)
    if count < 0:
        raise refusal("rank-target", operation=name, rank=target, layout=x, has=rank(x))
    if count == 0 or target == 1:
        return x
    mode = Layout(1, 0) if mode is None and not isinstance(x, (int, tuple)) else mode

    def extend(part: IntTuple, extra: LayoutLike) -> IntTuple:
        more = (extra,) * count
        return more + tuples.wrap(part) if front else tuples.wrap(part) + more

    return _pair(x, mode, name, extend)


def replace(x: Kind | Number | Nest, index: int, mode: Mode) -> Kind:
    """Return the layout with mode `index` replaced.

    >>> print(replace(Layout((2, 3)), 1, Layout(5, 7)))
    (2,5):(1,7)
    """
    at_path(tuples.shape_of(x), index, x)

    def swap(part: IntTuple, other: LayoutLike) -> IntTuple:
        modes = list(tuples.wrap(part))
        modes[index] = other
        return tuple(modes)

    return _pair(x, mode, "replace", swap)


def zip_(x: Kind | Number | Nest, other: LayoutLike | None = None) -> Kind:
    """Return the transpose of two levels of modes: ((a,b),(c,d)) becomes ((a,c),(b,d)); two layouts
    are paired first.

    Source: cutlass layout.hpp `zip`.

    >>> print(zip_(Layout((2, 3), (1, 2)), Layout((4, 5), (6, 24))))
    ((2,4),(3,5)):((1,6),(2,24))
    """
    if other is not None:
        return _pair(x, other, "zip_", lambda a, b: _transpose((a, b)))
    return each(x, "zip_", _transpose)


def _transpose(part: IntTuple) -> IntTuple:
    if part.__class__ is not tuple or not part:
        return part
    if part[0].__class__ is not tuple:
        return (part,)
    if any(mode.__class__ is not tuple or len(mode) != len(part[0]) for mode in part):
        raise mismatch("zip_", part[0], part)
    return tuple([tuple(modes) for modes in zip(*part, strict=True)])


# -- slices: fix part of a coordinate, keep the rest


if TYPE_CHECKING:

    @overload
    def slice_(coord: IntTuple, x: AbstractComposed) -> Mapped: ...
    @overload
    def slice_(coord: IntTuple, x: Kind | Nest) -> Kind: ...


def slice_(coord: IntTuple, x: LayoutLike) -> Alike:
    """Return the modes that `coord` leaves free (`_` or None), from any depth, side by side;
    of a tensor, that part of it.

    Source: cutlass underscore.hpp `slice`. For the offset that the fixed part adds, see
    `slice_and_offset`.

    >>> from cute_py.layout.tuples import _
    >>> print(slice_((_, (1, _)), Layout((4, (2, 3)))))
    (4,3):(1,8)
    """
    if x.__class__ is Layout or isinstance(x, (int, tuple)):
        return each(x, "slice_", lambda part: _keep(coord, part, free=True), coord)
    if isinstance(x, AbstractTensor):
        return x.slice(coord)
    return slice_and_offset(coord, x)[0]


def dice(coord: IntTuple, x: Kind | Nest) -> Kind:
    """Return the modes that `coord` fixes, which `slice_` drops.

    >>> from cute_py.layout.tuples import _
    >>> print(dice((_, 1), Layout((4, 8))))
    (8):(4)
    """
    return each(x, "dice", lambda part: _keep(coord, part, free=False), coord)


def _keep(coord: IntTuple, part: IntTuple, *, free: bool) -> IntTuple:
    if coord.__class__ is not tuple:
        return part if _is_free(coord) is free else ()
    return tuple(_kept(coord, part, free))


def _is_free(coord: IntTuple) -> bool:
    """Return whether the coordinate is `_`; refuse anything that is neither `_` nor an integer."""
    if is_underscore(coord):
        return True
    ints.normalize(coord, "slice_", ", or tuples of these, or _")
    return False


def _kept(coord: IntTuple, part: IntTuple, free: bool) -> list[Any]:
    if coord.__class__ is not tuple:
        return [part] if _is_free(coord) is free else []
    if part.__class__ is not tuple or len(part) != len(coord):
        raise odd_coordinate("slice_", coord, part)
    return [kept for pair in zip(coord, part, strict=True) for kept in _kept(*pair, free)]


if TYPE_CHECKING:

    @overload
    def slice_and_offset(coord: IntTuple, x: Layout) -> tuple[Layout, AnyInt]: ...
    @overload
    def slice_and_offset(coord: IntTuple, x: AnyLayout) -> tuple[Mapped, AnyInt]: ...


def slice_and_offset(coord: IntTuple, x: AnyLayout) -> tuple[Any, Any]:
    """Return the sublayout that `coord` leaves free, and the offset that its fixed part adds.

    Law: layout(c with x for _) == sub(x) + offset. For a swizzled layout see
    `composed.slice_and_offset`. Raises CoordinateError where the fixed part is outside the
    shape.

    >>> from cute_py.layout.tuples import _
    >>> sub, offset = slice_and_offset((2, _), Layout((4, 8), (8, 1)))
    >>> print(sub, offset)
    (8):(1) 16
    """
    if x.__class__ is not Layout:
        return special.slice_composed(coord, x)
    if coord.__class__ is tuple and x._kind == INTS:
        shape: list[Any] = []
        stride: list[Any] = []
        offset = _split_inside(coord, x.shape, x.stride, shape, stride)
        if offset is not None:
            free = tuple(shape), tuple(stride)
            result = raw(*free, list(tuples.leaves(free[0])), list(tuples.leaves(free[1])))
            return made(result, "slice_", x, coord), offset
    fixed = with_zeros(check_coordinate(coord, x.shape))
    return slice_(coord, x), offset_at(fixed, x.shape, x.stride)


def _split_inside(
    coord: tuple[Any, ...], shape: IntTuple, stride: IntTuple, free: list[Any], steps: list[Any]
) -> int | None:
    """Collect the modes that a coordinate leaves free, and return the offset of its ints; None
    unless these are inside of the shape.
    """
    if shape.__class__ is not tuple or len(coord) != len(shape):
        return None
    offset = 0
    for c, extent, step in zip(coord, shape, stride):  # noqa: B905 (hot; equal lengths)
        if is_underscore(c):
            free.append(extent)
            steps.append(step)
        elif c.__class__ is int:
            if not 0 <= c < tuples.product(extent):
                return None
            offset += c * step if extent.__class__ is int else offset_at(c, extent, step)
        else:
            part = _split_inside(c, extent, step, free, steps) if c.__class__ is tuple else None
            if part is None:
                return None
            offset += part
    return offset


def with_zeros(coord: IntTuple) -> IntTuple:
    """Return a coordinate with 0 in place of `_`."""
    if coord.__class__ is tuple:
        return tuple([with_zeros(c) for c in coord])
    return 0 if is_underscore(coord) else coord


if TYPE_CHECKING:

    @overload
    def domain_offset(coord: IntTuple, layout: TensorKind) -> TensorKind: ...
    @overload
    def domain_offset(coord: IntTuple, layout: Kind) -> tuple[Kind, AnyInt]: ...


def domain_offset(coord: IntTuple, layout: AnyLayout) -> Any:
    """Return (layout, offset) of a layout whose origin is moved to `coord`; a composed layout keeps
    the offset inside. For a tensor, returns the moved tensor, even outside its shape.

    >>> print(*domain_offset((1, 2), Layout((4, 8))))
    (4,8):(1,4) 9
    """
    if isinstance(layout, AbstractTensor):
        return layout.domain_offset(coord)
    if layout.__class__ is not Layout:
        return special.offset_composed(coord, layout)
    return layout, layout(coord)


# -- how they apply to layouts, int tuples and composed layouts alike


def _interval(name: str, x: LayoutLike, begin: int, end: int) -> None:
    if not 0 <= begin < end <= rank(x):
        raise refusal("mode-interval", operation=name, begin=begin, end=end, layout=x, rank=rank(x))


def each(x: LayoutLike, name: str, change: Callable[[Any], Any], *operands: object) -> Alike:
    """Apply `change` to both shape and stride."""
    if x.__class__ is Layout:
        shape, stride = change(x.shape), change(x.stride)
        s, d = list(tuples.leaves(shape)), list(tuples.leaves(stride))
        kind = kind_of(s, d) if x._kind else INTS
        return made(raw(shape, stride, s, d, kind), name, x, *operands)
    return _through(x, lambda part: each(part, name, change, *operands), change)


def _pair(x: LayoutLike, other: LayoutLike, name: str, change: Callable[[Any, Any], Any]) -> Alike:
    """Apply `change` to the shapes and to the strides of two layouts."""
    if x.__class__ is Layout:
        other = other if other.__class__ is Layout else Layout(other)
        result = Layout(change(x.shape, other.shape), change(x.stride, other.stride))
        return made(result, name, x, other)
    return _through(
        x, lambda part: _pair(part, other, name, change), lambda part: change(part, other)
    )


def _through(
    x: LayoutLike, on_layout: Callable[[Any], Any], on_tuple: Callable[[Any], Any]
) -> Alike:
    if isinstance(x, (int, tuple)) or ints.is_leaf(x):
        return on_tuple(tuples.read(x, "modes"))
    return on_inner("modes", on_layout, x)
