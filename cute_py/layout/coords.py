"""Coordinates and indices, and the compact strides that connect them.

An integer index of a shape is its position in colexicographical order. Past the shape the last mode
is unbounded, as in CuTe; `Layout.__call__` checks the range. Source: cutlass
include/cute/stride.hpp.
"""

from __future__ import annotations

from functools import cmp_to_key

from cute_py.errors import CuteError, refusal
from cute_py.integers import ints
from cute_py.integers.ints import add, div, mod, mul
from cute_py.layout.basis import ScaledBasis, make_basis_like, sum_steps
from cute_py.layout.tuples import (
    congruent,
    is_shaped,
    is_underscore,
    leaves,
    mismatch,
    nested_like,
    product,
    product_like,
    read,
    show,
    transform_leaf,
    wrong_argument,
)
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cute_py.layout import Mapped
    from cute_py.layout.types import Alike, AnyInt, IntTuple, Leaf, Nest, Number


class Major(Value):
    """The order of compact strides: `LayoutLeft` (column-major) or `LayoutRight` (row-major)."""

    __slots__ = ("name",)
    __match_args__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name


LayoutLeft = Major("LayoutLeft")
LayoutRight = Major("LayoutRight")
GenColMajor = LayoutLeft
GenRowMajor = LayoutRight


def crd2idx(coord: IntTuple, shape: IntTuple, stride: IntTuple = None) -> AnyInt:
    """Return the offset of `coord` in shape:stride, or its index in `shape` if there is no stride.

    A part of the coordinate may be an integer where the shape is a tuple: it is split
    colexicographically and its last mode is unbounded. A negative index is the mirror image,
    -crd2idx(-index), as C++'s truncating division makes it. Raises LayoutError when the profiles do
    not match. Source: cutlass stride.hpp `crd2idx`.

    >>> crd2idx((1, 2), (4, 8), (8, 1)), crd2idx(9, (4, 8), (8, 1)), crd2idx((1, 2), (4, 8))
    (10, 10, 9)
    """
    if is_shaped(shape):
        shape, stride = shape.shape, shape.stride
    coord, shape = read(coord, "crd2idx"), read(shape, "crd2idx")
    if stride is None:
        return _horner(coord, shape, "crd2idx")
    return ints.given(offset_at(coord, shape, _strides(stride, shape, "crd2idx")))


def odd_coordinate(operation: str, coord: IntTuple, shape: IntTuple) -> CuteError:
    """Return the refusal of a coordinate that does not have the profile of the shape."""
    return refusal("coordinate-profile", operation=operation, coord=show(coord), shape=show(shape))


def _strides(stride: IntTuple, shape: IntTuple, operation: str) -> IntTuple:
    """Return a stride as an int tuple; refuse one with another profile than the shape."""
    stride = read(stride, operation)
    if not congruent(stride, shape):
        raise refusal(
            "not-congruent", operation=operation, shape=show(shape), stride=show(stride), at=""
        )
    return stride


def offset_at(coord: IntTuple, shape: IntTuple, stride: IntTuple) -> IntTuple:
    """Return crd2idx of parts that are int tuples already."""
    steps: list[tuple[Any, Any]] = []
    _steps(coord, shape, stride, steps)
    return sum_steps(steps)


def _horner(coord: IntTuple, shape: IntTuple, operation: str) -> IntTuple:
    if coord.__class__ is not tuple:
        return coord
    extents = list(leaves(_facing(coord, shape, operation)))
    index: Any = 0
    for part, extent in zip(reversed(list(leaves(coord))), reversed(extents), strict=True):
        index = add(part, mul(extent, index))
    return index


def _facing(coord: IntTuple, shape: IntTuple, operation: str) -> IntTuple:
    try:
        return product_like(shape, coord)
    except CuteError as error:
        raise odd_coordinate(operation, coord, shape) from error


def _steps(
    coord: IntTuple, shape: IntTuple, stride: IntTuple, steps: list[tuple[Any, Any]]
) -> None:
    if coord.__class__ is tuple:
        if shape.__class__ is not tuple or len(coord) != len(shape):
            raise odd_coordinate("crd2idx", coord, shape)
        for parts in zip(coord, shape, stride, strict=True):
            _steps(*parts, steps)
    elif shape.__class__ is not tuple:
        steps.append((coord, stride))
    elif coord.__class__ is int and coord < 0:
        mirrored: list[tuple[Any, Any]] = []
        _steps(-coord, shape, stride, mirrored)
        steps.extend((ints.neg(part), step) for part, step in mirrored)
    elif shape:
        for extent, step in zip(shape[:-1], stride[:-1], strict=True):
            size = product(extent)
            _steps(mod(coord, size), extent, step, steps)
            coord = div(coord, size)
        _steps(coord, shape[-1], stride[-1], steps)


def check_coordinate(coord: IntTuple, shape: IntTuple) -> IntTuple:
    """Return `coord` normalised; refuse one that is negative, out of range or of another profile.

    A whole index may exceed the size, an entry of a tuple may not.
    """
    if coord.__class__ is tuple or is_underscore(coord):
        return _check_part(coord, shape, coord, shape, ())
    index = ints.normalize(coord, "layout", ", or tuples of these, or _")
    if ints.less(index, 0):
        _refuse_coordinate(coord, shape, index, (), shape)
    return index


def _check_part(
    coord: IntTuple, part: IntTuple, whole: IntTuple, shape: IntTuple, mode: tuple[int, ...]
) -> Alike:
    if coord.__class__ is tuple:
        if part.__class__ is not tuple or len(part) != len(coord):
            raise odd_coordinate("layout", whole, shape)
        return tuple(
            [
                _check_part(c, p, whole, shape, (*mode, i))
                for i, (c, p) in enumerate(zip(coord, part, strict=True))
            ]
        )
    if is_underscore(coord):
        return coord
    index = ints.normalize(coord, "layout", ", or tuples of these, or _")
    if ints.less(index, 0) or ints.leq(product(part), index):
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
        size=product(part),
        how=inside(value),
    )


def inside(value: Leaf) -> str:
    """Return how an entry of a coordinate that is outside of its mode comes inside."""
    if ints.less(value, 0):
        return (
            "count from the end with the extent n: n - 1 is the last entry (x.shape[i] of a "
            "tensor's mode, cute.size(x) of an index)"
        )
    return "stay inside the shape, or use crd2idx, whose last mode is unbounded"


def idx2crd(index: Leaf, shape: Number | Nest | Mapped, stride: IntTuple = None) -> Number:
    """Return the coordinate of `index` in `shape` (colexicographical), or in the compact layout
    shape:stride.

    Without a stride the last mode is unbounded: idx2crd(9, (4,2)) is (1,2). With a stride every
    mode gives (index // stride) % extent, which is correct for compact layouts only. Raises
    LayoutError when the profiles do not match. Source: cutlass stride.hpp `idx2crd`.

    >>> idx2crd(9, (4, 8)), idx2crd(9, (4, 8), (8, 1)), idx2crd((3, 5), (4, (2, 4)))
    ((1, 2), (1, 1), (3, (1, 2)))
    """
    index, shape = read(index, "idx2crd"), read(shape, "idx2crd")
    stride = None if stride is None else _strides(stride, shape, "idx2crd")
    if index.__class__ is tuple:
        if shape.__class__ is not tuple or len(index) != len(shape):
            raise odd_coordinate("idx2crd", index, shape)
        strides = (None,) * len(shape) if stride is None else stride
        return tuple([idx2crd(*parts) for parts in zip(index, shape, strides, strict=True)])
    if stride is None:
        return ints.given(_split(index, shape))
    return ints.given(transform_leaf(lambda s, d: _digit(index, s, d), shape, stride))


def _split(index: Leaf, shape: IntTuple) -> IntTuple:
    if shape.__class__ is not tuple:
        return index
    parts: list[Any] = []
    for mode in shape[:-1]:
        size = product(mode)
        parts.append(_split(mod(index, size), mode))
        index = div(index, size)
    return (*parts, _split(index, shape[-1])) if shape else ()


def _digit(index: Leaf, extent: Leaf, stride: IntTuple) -> IntTuple:
    if ints.is_one(extent):
        return 0
    if ints.is_zero(stride):
        raise refusal("divide-by-zero", operation="idx2crd", a=index, b=stride)
    return mod(div(index, stride), extent)


def crd2crd(coord: IntTuple, source: IntTuple, target: Number | Nest | Mapped) -> Number:
    """Return the coordinate in shape `target` that has the same index as `coord` has in shape
    `source`.

    Law: crd2crd(c, s, t) == idx2crd(crd2idx(c, s), t). Raises LayoutError when the coordinate does
    not have the profile of `source` or a coarser one. Source: cutlass stride.hpp `crd2crd`, which
    goes mode by mode; that is the same where the modes have the same sizes.

    >>> crd2crd((1, 5), (3, 6), (9, 2)), crd2crd(13, (4, 8), (2, (4, 4)))
    ((7, 1), (1, (2, 1)))
    """
    coord, source, target = (read(x, "crd2crd") for x in (coord, source, target))
    return _split(_horner(coord, source, "crd2crd"), target)


def increment(coord: Number | Nest, shape: IntTuple, order: IntTuple = None) -> Number:
    """Return the coordinate after `coord` in `shape`, leftmost mode first, or in the given order of
    modes.

    `order` is a tuple of coordinate strides E(...), the fastest first. The last coordinate wraps
    around to the first. Source: cutlass stride.hpp `increment`.

    >>> increment((1, (0, 2)), (2, (3, 4))), increment((1, 3), (2, 4))
    ((0, (1, 2)), (0, 0))
    """
    coord, shape = read(coord, "increment"), read(shape, "increment")
    if not congruent(coord, shape) or _has_basis(coord) or _has_basis(shape):
        raise odd_coordinate("increment", coord, shape)
    paths = [_path(leaf) for leaf in leaves(make_basis_like(shape))]
    values = dict(zip(paths, leaves(coord), strict=True))
    extents = dict(zip(paths, leaves(shape), strict=True))
    for path in paths if order is None else _order(order, paths):
        values[path] += 1
        if values[path] < extents[path]:
            break
        values[path] = 0
    return nested_like(coord, [values[path] for path in paths])


def _path(step: Leaf) -> tuple[int, ...]:
    return step.path if step.__class__ is ScaledBasis else ()


def _has_basis(x: IntTuple) -> bool:
    return any(leaf.__class__ is ScaledBasis for leaf in leaves(x))


def _order(order: object, paths: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the paths that an order of coordinate strides names."""
    steps = list(order) if isinstance(order, (tuple, list)) else [order]
    named = [_path(step) if isinstance(step, (int, ScaledBasis)) else None for step in steps]
    if any(path not in paths for path in named):
        wanted = "coordinate strides that name modes of the shape"
        raise wrong_argument("increment", order, wanted, "write (E(1), E(0)) for mode 1 first")
    return named


def coordinates(shape: IntTuple) -> Iterator[Any]:
    """Yield every coordinate of `shape`, congruent to it, in colexicographical order.

    >>> list(coordinates((2, (1, 2))))
    [(0, (0, 0)), (1, (0, 0)), (0, (0, 1)), (1, (0, 1))]
    """
    shape = read(shape, "coordinates")
    for index in range(ints.as_int(product(shape), "coordinates")):
        yield _split(index, shape)


def compact_major(
    shape: Number | Nest | Mapped, current: IntTuple = 1, major: Major = LayoutLeft
) -> Number:
    """Return the strides that pack `shape` densely from `current` on; modes of extent 1 get stride
    0.

    A tuple `current` gives each corresponding mode its own start. Source: cutlass stride.hpp
    `compact_major`.

    >>> compact_major((2, (3, 1), 4)), compact_major((2, (3, 4)), major=LayoutRight)
    ((1, (2, 0), 6), (12, (4, 1)))
    """
    shape, current = read(shape, "compact_major"), read(current, "compact_major")
    if current.__class__ is tuple:
        if shape.__class__ is not tuple or len(shape) != len(current):
            raise mismatch("compact_major", shape, current)
        return tuple([compact_major(s, c, major) for s, c in zip(shape, current, strict=True)])
    return packed_strides(shape, current, major)


def packed_strides(shape: IntTuple, current: Leaf, major: Major) -> IntTuple:
    """Return compact_major of a shape that is an int tuple already."""
    extents = list(leaves(shape))
    strides: list[Any] = [0] * len(extents)
    for i in range(len(extents)) if major is LayoutLeft else reversed(range(len(extents))):
        if not ints.is_one(extents[i]):
            strides[i] = current
            current = mul(current, extents[i])
    return nested_like(shape, strides)


def compact_col_major(shape: Number | Nest | Mapped, current: IntTuple = 1) -> Number:
    """Return compact strides, leftmost mode fastest.

    >>> compact_col_major((4, 8))
    (1, 4)
    """
    return compact_major(shape, current, LayoutLeft)


def compact_row_major(shape: Number | Nest | Mapped, current: IntTuple = 1) -> Number:
    """Return compact strides, rightmost mode fastest.

    >>> compact_row_major((4, 8))
    (8, 1)
    """
    return compact_major(shape, current, LayoutRight)


def compact_order(shape: Number | Nest | Mapped, order: IntTuple) -> Number:
    """Return compact strides in the order that the leaves of `order` give: the smallest leaf is the
    fastest mode.

    Of leaves of equal order the leftmost is the fastest; CuTe starts them all at one stride, where
    their elements would have the same offsets. Raises LayoutError unless `order` is weakly
    congruent to `shape`. Source: cutlass stride.hpp `compact_order`.

    >>> compact_order((2, 3, 4, 5), (0, 2, 3, 1))
    (1, 10, 30, 2)
    """
    if isinstance(order, Major):
        return compact_major(shape, 1, order)
    shape, order = read(shape, "compact_order"), read(order, "compact_order")
    extents, ranks = list(leaves(product_like(shape, order))), list(leaves(order))
    starts: list[Any] = [1] * len(ranks)
    current: Any = 1
    for k in _ascending(ranks):
        starts[k] = current
        current = mul(current, extents[k])
    return compact_major(shape, nested_like(order, starts))


def _ascending(ranks: list[Any]) -> list[int]:
    """Return the places of the ranks, the smallest first and the leftmost of equal ones."""

    def above(i: int, j: int) -> bool:
        return ints.settle(ints.less, ranks[j], ranks[i], "compact_order")

    def compare(i: int, j: int) -> int:
        return above(i, j) - above(j, i)

    if all(rank.__class__ is int for rank in ranks):
        return sorted(range(len(ranks)), key=ranks.__getitem__)
    return sorted(range(len(ranks)), key=cmp_to_key(compare))
