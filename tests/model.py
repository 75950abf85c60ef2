"""The brute-force model: layouts as tables of offsets, straight from the definitions.

Nothing here uses cute_py. A layout is anything with `.shape` and `.stride`, or a pair of int
tuples; all that is read of it are its leaves, and every question is settled by trying all
coordinates.
"""

from fractions import Fraction
from itertools import accumulate
from math import prod
from operator import mul
from typing import NamedTuple

# -- layouts as tables


def leaves(x):
    """Return the leaves of an int tuple as a flat list."""
    return [leaf for mode in x for leaf in leaves(mode)] if isinstance(x, tuple) else [x]


def modes(layout):
    """Return the (extent, stride) pairs of the leaves of a layout, or of a (shape, stride) pair."""
    shape, stride = layout if isinstance(layout, tuple) else (layout.shape, layout.stride)
    return list(zip(leaves(shape), leaves(stride), strict=True))


def size(layout):
    """Return the number of coordinates."""
    return prod(extent for extent, _ in modes(layout))


def table(layout):
    """Return all offsets, the leftmost mode fastest."""
    return sums(modes(layout))


def sums(pairs):
    """Return all offsets of flat modes."""
    offsets = [0]
    for extent, stride in pairs:
        offsets = [offset + i * stride for i in range(extent) for offset in offsets]
    return offsets


def value(pairs, index):
    """Return the offset of an index: the last mode runs on, a negative index mirrors."""
    if index < 0:
        return -value(pairs, -index)
    if not pairs:
        return 0
    offset = 0
    for extent, stride in pairs[:-1]:
        index, digit = divmod(index, extent)
        offset += digit * stride
    return offset + index * pairs[-1][1]


def refines(shape, coarse):
    """Return whether every leaf of `coarse` faces that size, whole or split into several modes."""
    if not isinstance(coarse, tuple):
        return prod(leaves(shape)) == coarse
    if not isinstance(shape, tuple) or len(shape) != len(coarse):
        return False
    return all(refines(*pair) for pair in zip(shape, coarse, strict=True))


# -- layouts from tables


class Departure(NamedTuple):
    """Where values stop being a layout: coordinate number, value there, value that would fit."""

    index: int
    got: int
    fitted: int


def fit(values):
    """Return the flat modes whose table is `values` (which starts with 0), or the first Departure.

    The first mode of a layout without splits is its longest linear run from 0, and every run-th
    value is again a table of a layout. So the fit is the only candidate.
    """
    pairs, rest = [], values
    while len(rest) > 1:
        step = rest[1]
        run = next((i for i, x in enumerate(rest) if x != i * step), len(rest))
        pairs.append((run, step))
        if len(rest) % run:
            break
        rest = rest[::run]
    for i, x in enumerate(values):
        if value(pairs, i) != x:
            return Departure(i, x, value(pairs, i))
    return pairs


def fit_any(values):
    """Return the modes of the fewest whose table is that of a layout."""
    pairs = fit(values)
    assert not isinstance(pairs, Departure)
    return pairs


def composed_table(a, b):
    """Return a(b(c)) for every coordinate c of b."""
    pairs = modes(a)
    return [value(pairs, index) for index in table(b)]


def exists_composition(a, b):
    """Return, leaf by leaf of b, the modes of the layout that computes a(b(c)), or the Departure.

    A layout that refines b's shape restricts to one mode per leaf of b, whose fit is unique; and it
    is their sum. So it exists if and only if every leaf fits and the sum of the fits is a(b(c)).
    """
    pairs, fits, below = modes(a), [], 1
    for extent, stride in modes(b):
        fitted = fit([value(pairs, i * stride) for i in range(extent)])
        if isinstance(fitted, Departure):
            return fitted._replace(index=fitted.index * below)
        fits.append(fitted)
        below *= extent
    expected = sums([mode for fitted in fits for mode in fitted])
    for i, (got, fitted) in enumerate(zip(composed_table(a, b), expected, strict=True)):
        if got != fitted:
            return Departure(i, got, fitted)
    return fits


def largest_right_inverse(layout):
    """Return the size of the largest layout R with layout(R(k)) == k, of an injective layout."""
    place = {offset: index for index, offset in enumerate(table(layout))}
    values = []
    while len(values) in place:
        values.append(place[len(values)])
    return next(n for n in range(len(values), 0, -1) if not isinstance(fit(values[:n]), Departure))


# -- properties


def dense(layout):
    """Return the modes that move: without extent 1 and stride 0."""
    return [(extent, stride) for extent, stride in modes(layout) if extent > 1 and stride]


def is_injective(pairs):
    """Return whether no two coordinates of flat modes share an offset."""
    offsets = sums(pairs)
    return len(set(offsets)) == len(offsets)


def is_chain(pairs):
    """Return whether, sorted by stride, extent*stride of each mode divides the next stride.

    Modes of extent 1 and stride 0 do not count. This is the class for which complements fill
    without holes: Shah, "A note on the algebra of CuTe layouts".
    """
    moving = sorted((stride, extent) for extent, stride in pairs if extent > 1 and stride)
    filled = 1
    for stride, extent in moving:
        if stride < filled or stride % filled:
            return False
        filled = stride * extent
    return True


def is_staircase(pairs):
    """Return whether, sorted by stride, each stride reaches past the mode below and is a multiple
    of its stride.

    Modes of extent 1 and stride 0 do not count. This is the class that left_inverse answers for.
    """
    moving = sorted((stride, extent) for extent, stride in pairs if extent > 1 and stride)
    below = filled = 1
    for stride, extent in moving:
        if stride < filled or stride % below:
            return False
        below, filled = stride, stride * extent
    return True


def compact_strides(shape):
    """Return the column-major strides of a flat shape."""
    return tuple(accumulate(shape[:-1], mul, initial=1))


# -- left inverses


def is_undone(layout):
    """Return whether some layout gives the index of every offset of an injective layout.

    All mixed radices of primes are tried, down to single offsets; their strides solve linear
    equations, one an offset.
    """
    values = {offset: index for index, offset in enumerate(table(layout))}
    top = max(values)

    def search(radices, size):
        if _has_solution([(_digits(x, radices), index) for x, index in values.items()]):
            return True
        primes = [n for n in range(2, top // size + 1) if all(n % k for k in range(2, n))]
        return any(search([*radices, prime], size * prime) for prime in primes)

    return search([], 1)


def _digits(x, radices):
    digits = []
    for radix in radices:
        x, digit = divmod(x, radix)
        digits.append(digit)
    return [*digits, x]


def _has_solution(equations):
    """Return whether rationals x solve sum(a * x) == b for each (a, b)."""
    rows = [[Fraction(x) for x in (*left, right)] for left, right in equations]
    for column in range(len(rows[0]) - 1):
        pivot = next((row for row in rows if row[column]), None)
        if pivot is not None:
            rows = [
                [x - row[column] / pivot[column] * y for x, y in zip(row, pivot, strict=True)]
                for row in rows
                if row is not pivot
            ]
    return not any(row[-1] for row in rows)
