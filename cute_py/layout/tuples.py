"""Int tuples: integers and nested tuples of integers, read colexicographically (the leftmost mode
is fastest).

Shapes, strides and coordinates are int tuples. A leaf is an int, a NumPy int (normalised), a
symbol, or, in strides, a coordinate stride; leaves are combined only through `ints`. Source:
cutlass include/cute/int_tuple.hpp, stride.hpp, underscore.hpp.
"""

from __future__ import annotations

from math import prod

from cute_py.errors import CuteError, readable, refusal, shorten
from cute_py.integers import ints
from cute_py.integers.ints import add, divides, less, mul, same
from cute_py.layout import Mapped, special
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from cute_py.layout.types import Alike, AnyInt, IntTuple, Leaf, Nest, Number

MAX_DEPTH = 64


class Underscore(Value):
    """The whole mode: keep it free in a coordinate, keep it untouched in a tiler. `None` means the
    same.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"

    def __reduce__(self) -> str:
        return "_"


_ = Underscore()


def is_underscore(x: object) -> bool:
    """Return whether `x` selects a whole mode (`_` or None)."""
    return x is _ or x is None


def has_underscore(x: object) -> bool:
    """Return whether `_` or None occurs anywhere in `x`."""
    if x.__class__ is tuple:
        return any(has_underscore(mode) for mode in x)
    return x is _ or x is None


def canonical(x: IntTuple, operation: str, level: int = 0) -> IntTuple:
    """Return `x` with NumPy ints converted to ints; refuse anything but int tuples, and nests
    deeper than MAX_DEPTH.
    """
    if isinstance(x, tuple):
        if level >= MAX_DEPTH:
            raise refusal("too-deep", operation=operation, limit=MAX_DEPTH)
        if x.__class__ is tuple and set(map(type, x)) == {int}:
            return x
        try:
            return tuple([canonical(mode, operation, level + 1) for mode in x])
        except CuteError as error:
            shorten(error)  # of a deep tuple, the traceback would be hundreds of lines
            raise
    return ints.normalize(x, operation, ", or tuples of these")


def leaves(x: IntTuple) -> Iterator[Any]:
    """Yield the leaves of `x` from left to right."""
    if x.__class__ is not tuple:
        return iter((x,))
    if tuple not in map(type, x):
        return iter(x)
    found: list[Any] = []
    _collect(x, found)
    return iter(found)


def _collect(x: tuple[Any, ...], found: list[Any]) -> None:
    for mode in x:
        if mode.__class__ is tuple:
            _collect(mode, found)
        else:
            found.append(mode)


def count(x: IntTuple) -> int:
    """Return the number of leaves."""
    if x.__class__ is not tuple:
        return 1
    return sum(map(count, x)) if tuple in map(type, x) else len(x)


def rank(x: IntTuple) -> int:
    """Return the number of top-level modes of an int tuple; an integer has rank 1.

    >>> rank((2, (3, 4))), rank(5)
    (2, 1)
    """
    return len(x) if x.__class__ is tuple else 1


def depth(x: IntTuple) -> int:
    """Return the nesting depth of `x`: 0 for an integer, 1 for a flat tuple.

    >>> depth(5), depth((2, 3)), depth((2, (3, 4)))
    (0, 1, 2)
    """
    if x.__class__ is tuple:
        return 1 + max((depth(mode) for mode in x), default=0)
    return 0


def product(x: IntTuple) -> AnyInt:
    """Return the product of the leaves, the number of elements of a shape.

    >>> product((2, (3, 4))), product(())
    (24, 1)
    """
    if x.__class__ is int:
        return x
    if x.__class__ is tuple and x and set(map(type, x)) == {int}:
        return prod(x)
    total: Any = 1
    for leaf in leaves(read(x, "product")):
        total = mul(total, leaf)
    return total


def product_each(x: IntTuple) -> tuple[AnyInt, ...]:
    """Return the flat tuple of the sizes of the top-level modes.

    >>> product_each(((2, 3), 4))
    (6, 4)
    """
    x = read(x, "product_each")
    return tuple([product(mode) for mode in wrap(x)])


def product_like(x: Number | Nest | Mapped, guide: IntTuple) -> Number:
    """Return `x` with every part that corresponds to a leaf of `guide` replaced by its product.

    >>> product_like(((2, 3), (4, 5)), (0, (0, 0)))
    (6, (4, 5))
    """
    x = read(x, "product_like")
    return transform_leaf(lambda _leaf, part: product(part), guide, x)


def inner_product(a: IntTuple, b: IntTuple) -> AnyInt:
    """Return the sum of the products of corresponding leaves.

    Raises LayoutError when the ranks differ.

    >>> inner_product((1, (2, 3)), (4, (5, 6)))
    32
    """
    a, b = read(a, "inner_product"), read(b, "inner_product")
    if a.__class__ is tuple and b.__class__ is tuple:
        total: Any = 0
        for x, y in _paired("inner_product", a, b):
            total = add(total, inner_product(x, y))
        return total
    if a.__class__ is tuple or b.__class__ is tuple:
        raise mismatch("inner_product", a, b)
    return mul(a, b)


def wrap(x: IntTuple) -> tuple[Any, ...]:
    """Return `x` if it is a tuple, otherwise the rank-1 tuple (x,).

    >>> wrap(4), wrap((4, 2))
    ((4,), (4, 2))
    """
    return x if x.__class__ is tuple else (x,)


def unwrap(x: IntTuple) -> IntTuple:
    """Return the only mode of a rank-1 tuple, however often wrapped; anything else as it is.

    >>> unwrap(((4,),)), unwrap((4, 2))
    (4, (4, 2))
    """
    while x.__class__ is tuple and len(x) == 1:
        x = x[0]
    return x


def flatten(x: IntTuple) -> IntTuple:
    """Return the leaves as a flat tuple; an integer stays an integer.

    >>> flatten((2, ((3, 4), 5))), flatten(7)
    ((2, 3, 4, 5), 7)
    """
    x = read(x, "flatten")
    return tuple(leaves(x)) if x.__class__ is tuple else x


def unflatten(flat: IntTuple, profile: IntTuple) -> IntTuple:
    """Return the modes of the flat tuple `flat`, nested as `profile` is.

    Law: flatten(unflatten(t, p)) == t, and the result is congruent to p. Raises LayoutError when
    the counts differ.

    >>> unflatten((2, 3, 4), ((0, 0), 0))
    ((2, 3), 4)
    """
    modes = wrap(flat)
    if len(modes) != count(profile):
        raise mismatch("unflatten", flat, profile)
    return nested_like(profile, modes)


def nested_like(shape: IntTuple, parts: Sequence[Any]) -> IntTuple:
    """Return the parts, one for each leaf, nested like the shape."""
    if shape.__class__ is not tuple:
        return parts[0]
    if len(shape) == len(parts) and tuple not in map(type, shape):
        return tuple(parts)
    rest = iter(parts)

    def visit(part: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([visit(x) if x.__class__ is tuple else next(rest) for x in part])

    return visit(shape)


def transform_leaf(f: Alike, x: IntTuple, *operands: IntTuple) -> IntTuple:
    """Return the profile of x with `f` of the matching parts of x and the operands at its leaves.

    Raises LayoutError when a matching part has another rank.

    >>> transform_leaf(lambda a, b: a * b, (1, (2, 3)), (4, (5, 6)))
    (4, (10, 18))
    """
    if not callable(f):
        wanted, remedy = "a function of the corresponding leaves", "pass a function, or a lambda"
        raise wrong_argument("transform_leaf", f, wanted, remedy)
    return _transformed(f, (x, *operands))


def _transformed(f: Callable[..., Any], operands: tuple[IntTuple, ...]) -> IntTuple:
    first = operands[0]
    if first.__class__ is not tuple:
        return f(*operands)
    for other in operands[1:]:
        if other.__class__ is not tuple or len(other) != len(first):
            raise mismatch("transform_leaf", first, other)
    return tuple([_transformed(f, parts) for parts in zip(*operands, strict=True)])


def wrong_argument(operation: str, value: object, wanted: str, remedy: str) -> CuteError:
    """Return the refusal of an argument that is not an operand: a function, a mapping, an order."""
    kind = type(value).__name__
    return refusal(
        "wrong-argument", operation=operation, value=value, type=kind, wanted=wanted, remedy=remedy
    )


def repeat_like(x: Number | Nest | Mapped, value: Leaf) -> Number:
    """Return the profile of `x` with `value` at every leaf.

    >>> repeat_like((2, (3, 4)), 0)
    (0, (0, 0))
    """
    return transform_leaf(lambda _leaf: value, x)


def prefix_product(x: Number | Nest | Mapped, start: IntTuple = 1) -> Number:
    """Return the exclusive products from the left: the compact column-major strides with pycute's
    size-1 convention.

    >>> prefix_product((2, (3, 4)))
    (1, (2, 6))
    """
    x = read(x, "prefix_product")
    strides: list[Any] = []
    for leaf in leaves(x):
        strides.append(start)
        start = mul(start, leaf)
    return nested_like(x, strides)


def ceil_div(a: Number | Nest | Mapped, b: IntTuple) -> Number:
    """Return how many `b` cover `a`, rounded up, mode by mode (missing modes of b count as 1).

    An integer b is used up from the left: ceil_div((8,4), 16) is (1,2). What a mode leaves of it is
    rounded up, too: ceil_div((5,8), 8) is (1,4), for tiles that reach over 5 of 8 rows, 2 columns
    each. A Layout b gives the shape
    of its complement in a. Raises LayoutError when b has more modes than a, or leaves some of a in
    no tile. Source: cutlass
    int_tuple.hpp, layout.hpp `ceil_div`.

    >>> ceil_div(9, 4), ceil_div((8, 4), 16), ceil_div((9, 8), (4, 2))
    (3, (1, 2), (3, 4))
    """
    if is_shaped(b):
        return special.tiles_over(b, read(a, "ceil_div")).shape
    a, b = read(a, "ceil_div"), read(b, "ceil_div")
    if a.__class__ is tuple and b.__class__ is tuple:
        return tuple([ceil_div(x, y) for x, y in _paired("ceil_div", a, b, fill=True)])
    if a.__class__ is tuple:
        return _fold_division(ceil_div, a, b)
    return ints.given(ints.ceil_div(a, _divisor(a, b, "ceil_div")))  # type: ignore[arg-type]


def _fold_division(
    divide: Callable[[Any, Any], Any], a: tuple[Any, ...], b: IntTuple
) -> tuple[Any, ...]:
    modes = []
    for mode in a:
        modes.append(divide(mode, b))
        b = divide(b, mode)
    return tuple(modes)


def round_up(a: Number | Nest | Mapped, b: IntTuple) -> Number:
    """Return the smallest multiple of `b` that is at least `a`, mode by mode.

    Raises LayoutError when the profiles do not match.

    >>> round_up(134, 16), round_up((5, 9), (4, 3))
    (144, (8, 9))
    """
    a, b = read(a, "round_up"), read(b, "round_up")
    if a.__class__ is tuple and b.__class__ is tuple:
        return tuple([round_up(x, y) for x, y in _paired("round_up", a, b, fill=True)])
    if a.__class__ is tuple or b.__class__ is tuple:
        raise mismatch("round_up", a, b)
    return ints.given(mul(ints.ceil_div(a, _divisor(a, b, "round_up")), b))  # type: ignore[arg-type]


def shape_div(a: Number | Nest | Mapped, b: IntTuple) -> Number:
    """Return a divided by b where one divides the other, rounded up to 1; an integer b is used up
    from the left.

    Raises LayoutError when neither divides the other. Source: cutlass int_tuple.hpp `shape_div`.

    >>> shape_div((4, 5, 6), 40), shape_div(2, 24)
    ((1, 1, 3), 1)
    """
    a, b = read(a, "shape_div"), read(b, "shape_div")
    if a.__class__ is tuple and b.__class__ is tuple:
        return tuple([shape_div(x, y) for x, y in _paired("shape_div", a, b)])
    if a.__class__ is tuple:
        return _fold_division(shape_div, a, b)
    b = _divisor(a, b, "shape_div")
    down, up = divides(b, a), divides(a, b)  # type: ignore[arg-type]
    if down is False and up is False:
        raise refusal("not-divisible", operation="shape_div", a=a, b=b)
    if not down and not up:
        ints.settle(divides, b, a, "shape_div")  # type: ignore[arg-type]
    return ints.div(a, b) if down else 1  # type: ignore[arg-type]


def elem_scale(a: Number | Nest | Mapped, b: IntTuple) -> Number:
    """Return a with every leaf multiplied by the size of the corresponding part of b.

    >>> elem_scale((2, 3), ((2, 2), 5))
    (8, 15)
    """
    a, b = read(a, "elem_scale"), read(b, "elem_scale")
    return transform_leaf(lambda x, y: mul(x, product(y)), a, b)


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Return whether a and b have the same profile.

    >>> congruent((2, (3, 4)), (1, (0, 5))), congruent((2, 3), 6)
    (True, False)
    """
    return _refines("congruent", a, b, lambda _leaf, part: part.__class__ is not tuple)


def weakly_congruent(a: IntTuple, b: IntTuple) -> bool:
    """Return whether b has the profile of a or a finer one: a partial order on profiles.

    >>> weakly_congruent(2, (2, 1)), weakly_congruent((2, 1), 2)
    (True, False)
    """
    return _refines("weakly_congruent", a, b, lambda _leaf, _part: True)


def compatible(a: IntTuple, b: IntTuple) -> bool:
    """Return whether b refines a: same size at every leaf of a, so that any coordinate of a is one
    of b.

    >>> compatible(24, (4, 6)), compatible((4, 6), 24), compatible((4, 6), ((2, 2), 6))
    (True, False, True)
    """
    name = "compatible"
    return _refines(name, a, b, lambda x, part: ints.settle(same, x, product(part), name))


def weakly_compatible(a: IntTuple, b: IntTuple) -> bool:
    """Return whether a's size divides b's at every leaf of a: b is some number of copies of a.

    >>> weakly_compatible(6, (4, 6)), weakly_compatible((4, 5), ((2, 4), 6))
    (True, False)
    """
    name = "weakly_compatible"
    return _refines(name, a, b, lambda x, part: ints.settle(divides, x, product(part), name))


def _refines(name: str, a: IntTuple, b: IntTuple, fits: Callable[[Any, Any], bool]) -> bool:
    """Return whether b has the profile of a or a finer one, and each part of it fits a's leaf."""
    a, b = read(a, name), read(b, name)
    if a.__class__ is not tuple:
        return fits(a, b)
    if b.__class__ is not tuple or len(a) != len(b):
        return False
    return all(_refines(name, x, y, fits) for x, y in zip(a, b, strict=True))


def evenly_divides(a: IntTuple, b: IntTuple) -> bool:
    """Return whether tiling shape `a` by tiler `b` leaves no remainder.

    Source: cutlass int_tuple.hpp `evenly_divides`.

    >>> evenly_divides((8, 6), (4, 3)), evenly_divides(8, 3)
    (True, False)
    """
    if b.__class__ is tuple:
        if len(b) > rank(a):
            return False
        return all(evenly_divides(x, y) for x, y in zip(wrap(a), b, strict=False))
    a = read(a, "evenly_divides")
    tiles = product(ceil_div(a, b))
    return ints.settle(same, product(a), mul(product(b), tiles), "evenly_divides")


def _elementwise(
    name: str, test: Callable[[Any, Any], bool | None], a: IntTuple, b: IntTuple
) -> bool:
    if a.__class__ is tuple and b.__class__ is tuple:
        if len(a) > len(b):
            return False
        return all(_elementwise(name, test, x, y) for x, y in zip(a, b, strict=False))
    if a.__class__ is tuple or b.__class__ is tuple:
        raise mismatch(name, a, b)
    return ints.settle(test, a, b, name)


def elem_less(a: IntTuple, b: IntTuple) -> bool:
    """Return whether every element of a is less than that of b: a partial order, used for bounds.

    Raises LayoutError when an integer corresponds to a tuple.

    >>> elem_less((1, 5), (2, 6)), elem_less((1, 5), (2, 4))
    (True, False)
    """
    a, b = read(a, "elem_less"), read(b, "elem_less")
    return _elementwise("elem_less", less, a, b)


def elem_leq(a: IntTuple, b: IntTuple) -> bool:
    """Return whether every element of a is at most that of b (not the negation of
    elem_gtr).

    >>> elem_leq((1, 6), (2, 6))
    True
    """
    a, b = read(a, "elem_leq"), read(b, "elem_leq")
    return _elementwise("elem_leq", ints.leq, a, b)


def elem_gtr(a: IntTuple, b: IntTuple) -> bool:
    """Return `not elem_leq(a, b)`, as CUTLASS's Coord defines it.

    >>> elem_gtr((1, 5), (2, 4)), elem_gtr((2, 4), (1, 5))
    (True, True)
    """
    return not elem_leq(a, b)


def elem_geq(a: IntTuple, b: IntTuple) -> bool:
    """Return `not elem_less(a, b)`, as CUTLASS's Coord defines it.

    >>> elem_geq((1, 5), (2, 5))
    True
    """
    return not elem_less(a, b)


def is_shaped(x: object) -> bool:
    """Return whether x is a layout or tensor."""
    return isinstance(x, Mapped)


def shape_of(x: IntTuple) -> IntTuple:
    """Return the shape of a layout, and anything else as it is."""
    return x.shape if is_shaped(x) else x


def read(x: IntTuple, operation: str) -> IntTuple:
    """Return an operand as an int tuple: the shape of a layout, NumPy ints made ints.

    Refuses anything but int tuples, and nests that are too deep. Every public function reads its
    operands with it.
    """
    if x.__class__ is int:
        return x
    return x.shape if is_shaped(x) else canonical(x, operation)


def index_of(x: IntTuple, operation: str) -> int:
    """Return an operand that counts modes or elements as an int."""
    return ints.as_int(ints.normalize(x, operation), operation)


def _divisor(a: Leaf, b: IntTuple, operation: str) -> Leaf:
    divisor = product(b)
    if ints.is_zero(divisor):
        raise refusal("divide-by-zero", operation=operation, a=a, b=divisor)
    return divisor


def show(x: IntTuple) -> str:
    """Return an int tuple (or tiler) as CuTe prints it: no spaces, coordinate strides as `1@0`.

    >>> show((2, (3, 4))), show((2,))
    ('(2,(3,4))', '(2)')
    """
    if x.__class__ is tuple:
        return "(" + ",".join([show(mode) for mode in x]) + ")"
    try:
        return "_" if x is None else str(x)
    except ValueError:  # Python writes integers of some thousand digits only
        return str(readable(x))


def _paired(
    operation: str, a: tuple[Any, ...], b: tuple[Any, ...], *, fill: bool = False
) -> Iterator[tuple[Any, Any]]:
    """Return the pairs of modes of tuples of one rank; with `fill`, modes that b lacks are 1."""
    if len(a) < len(b) or (len(a) > len(b) and not fill):
        raise mismatch(operation, a, b)
    return zip(a, b + (1,) * (len(a) - len(b)), strict=True)


def mismatch(operation: str, a: IntTuple, b: IntTuple) -> CuteError:
    """Return the refusal of int tuples whose profiles do not match."""
    return refusal("profile-mismatch", operation=operation, a=show(a), b=show(b))
