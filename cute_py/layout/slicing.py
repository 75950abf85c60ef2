"""Slices: fix part of a coordinate, keep the rest. Source: cutlass include/cute/underscore.hpp,
layout.hpp.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import AbstractTensor, special
from cute_py.layout.coords import check_coordinate, offset_at
from cute_py.layout.layout import Layout
from cute_py.layout.modes import each
from cute_py.layout.tuples import is_underscore, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import Alike, AnyLayout, IntTuple


def slice_(coord: IntTuple, x: AnyLayout) -> Alike:
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


def dice(coord: IntTuple, x: AnyLayout) -> Alike:
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
        raise refusal("coordinate-profile", operation="slice_", coord=show(coord), shape=show(part))
    return [kept for pair in zip(coord, part, strict=True) for kept in _kept(*pair, free)]


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
        return special.slice_composed(coord, x)  # type: ignore[no-any-return]
    fixed = _with_zeros(check_coordinate(coord, x.shape))
    return slice_(coord, x), offset_at(fixed, x.shape, x.stride)


def _with_zeros(coord: IntTuple) -> IntTuple:
    if coord.__class__ is tuple:
        return tuple([_with_zeros(c) for c in coord])
    return 0 if is_underscore(coord) else coord


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
