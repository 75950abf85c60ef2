"""Inverses of a layout: right_inverse, left_inverse, and nullspace.

Each mode extent:stride of a layout, with the product `prefix` of the extents before it, carries
index prefix*i to offset stride*i; an inverse carries it back. Coordinate strides are inverted
component by component, and the inverse is nested like the coordinates. Source: cutlass
include/cute/layout.hpp; Cecka, arXiv 2603.02298; for coordinates NVIDIA's cutlass_compiler, tests
`right_inverse.mlir` and `left_inverse.mlir`.
"""

from __future__ import annotations

from math import gcd, prod

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import AbstractComposed, special
from cute_py.layout.algebra.carries import digits
from cute_py.layout.algebra.coalesce import coalesced, merged
from cute_py.layout.algebra.complement import by_stride, components
from cute_py.layout.coords import compact_col_major
from cute_py.layout.layout import (
    INTS,
    SYMBOLS,
    Layout,
    made,
    nested_in,
    of_modes,
    raw_flat,
    require_layout,
)
from cute_py.layout.tuples import unwrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.layout.algebra.complement import Moving
    from cute_py.layout.types import AnyLayout, Same

    Modes = list[tuple[Any, Any]]  # (extent, stride)


NOWHERE = raw_flat([1], [0])  # the inverse of a layout that stays at 0


def right_inverse(layout: Same) -> Same:
    """Return the largest layout R with layout(R(k)) == k for every k < size(R).

    R covers the offsets 0, 1, ... as far as modes of the layout continue each other; 1:0 if no mode
    has stride 1. With symbols it extends as far as the strides are known to continue. With
    coordinate strides k is a coordinate, and R is nested like it. Every swizzled bijection of
    powers of two has its inverse. Each R(k) is an index of the layout. Raises LayoutError where a
    swizzled layout does not reach offset 0.

    >>> print(right_inverse(Layout((4, 8), (8, 1))), right_inverse(Layout((4, 8), (1, 5))))
    (8,4):(4,1) 4:1
    >>> from cute_py import E
    >>> print(right_inverse(Layout((4, 5), (E(1), E(0)))))
    (5,4):(4,1)
    """
    if layout.__class__ is not Layout:
        return special.inverse_composed("right_inverse", layout)
    result = _plain_right(layout) if layout._kind == INTS else None
    result = right_body(layout, []) if result is None else result
    return made(Layout(1, 0) if result is NOWHERE else result, "right_inverse", layout)


def right_body(layout: Layout, told: list[str]) -> Layout:
    """Return right_inverse(layout), for leaves of every kind; `told` receives the decisions."""
    steps = [d for s, d in zip(layout._s, layout._d, strict=True) if not ints.is_one(s)]
    leaves = (layout._s, layout._d) if _differ(steps) else coalesced(layout)
    # CuTe sorts broadcasts, too
    parts = components(layout, "right_inverse", leaves, zeros=layout._kind == INTS)
    return _by_component(layout, parts, _run_from_zero, told)


def _plain_right(layout: Layout) -> Layout | None:
    """The fast path for ints of different strides; None if the general path must decide."""
    place: dict[int, tuple[int, int]] = {}
    prefix = 1
    for extent, stride in zip(layout._s, layout._d):  # noqa: B905 (hot; equal lengths)
        if extent != 1 and stride > 0:
            if stride in place:
                return None
            place[stride] = (extent, prefix)
        prefix *= extent
    s, d, offset = [1], [0], 1
    while offset in place:
        extent, prefix = place[offset]
        offset *= extent
        if s[-1] * d[-1] == prefix:
            s[-1] *= extent
        else:
            s.append(extent)
            d.append(prefix)
    return raw_flat(s[1:] or s, d[1:] or d, INTS)


def _differ(steps: list[Any]) -> bool:
    """Return whether no two strides are known to be equal; zeros are ignored."""
    moving = [step for step in steps if not ints.is_zero(getattr(step, "value", step))]
    if all(getattr(step, "value", step).__class__ is int for step in moving):
        return len(set(moving)) == len(moving)
    return not any(ints.same(a, b) for k, a in enumerate(moving) for b in moving[:k])


def _run_from_zero(layout: Layout, modes: Moving, told: list[str]) -> Modes:
    """Return the modes that count 0, 1, 2, ..., each starting where the previous one ends; of
    several candidates, the first in CuTe's exchange sort by stride.
    """
    modes = list(modes)
    for i in range(len(modes)):
        for j in range(i + 1, len(modes)):
            if ints.less(modes[j][1], modes[i][1]):
                modes[i], modes[j] = modes[j], modes[i]
    run: Modes = []
    offset: Any = 1
    while True:
        found = next((mode for mode in modes if ints.same(mode[1], offset)), None)
        if found is None:
            ahead = [(stride, offset) for _, stride, _ in modes]
            told += stops(f"no other mode is known to have stride {offset}", ahead)
            return run
        run.append((found[0], found[2]))
        modes.remove(found)
        offset = ints.mul(offset, found[0])
        told.append(f"the mode {found[0]}:{found[1]} goes on: offsets below {offset} are reached")


def stops(reason: str, pairs: list[tuple[Any, Any]]) -> list[str]:
    """Return why a run ends, in words, with the assumptions under which it would go on: that one
    of the pairs is equal, where this is not known.
    """
    unknown = [ints.assumption("same", a, b) for a, b in pairs if ints.same(a, b) is None]
    more = f"; not known: {' or '.join(unknown)}, which would give more" if unknown else ""
    return [f"{reason}: stop{more}"]


def _by_component(
    layout: Layout,
    parts: dict[tuple[int, ...], Moving],
    invert: Callable[[Layout, Moving, list[str]], Modes],
    told: list[str],
) -> Layout:
    """Return the modes that `invert` gives for each component of the layout's coordinates,
    coalesced and nested like these.
    """
    inverses = {}
    for path, modes in parts.items():
        inverse = coalesced(of_modes(invert(layout, modes, told) or [(1, 0)]))
        inverses[path] = list(zip(*inverse, strict=True))
    return nested_in(inverses) if inverses else NOWHERE


def left_inverse(layout: Same) -> Same:
    """Return the layout R with R(layout(i)) == i for an injective layout, and an inverse up to
    broadcast modes otherwise.

    Law: layout(R(layout(i))) == layout(i) for every i; with no stride-0 mode R(layout(i)) == i.
    At offsets that the layout does not reach, R is whatever its strides give. Raises LayoutError,
    naming the modes, where modes overlap or no layout is a left inverse; for swizzled layouts of
    powers of two, where two indices have the same offset. Source: cutlass layout.hpp
    `left_inverse`.

    >>> print(left_inverse(Layout((4, 8), (8, 1))), left_inverse(Layout((4, 2), (1, 16))))
    (8,4):(4,1) (16,2):(1,4)
    >>> print(left_inverse(Layout((2, 3), (3, 2))))
    (2,4):(-1,2)
    """
    if layout.__class__ is not Layout:
        return special.inverse_composed("left_inverse", layout)
    result = _plain_left(layout) if layout._kind == INTS else None
    result = left_body(layout, []) if result is None else result
    return made(Layout(layout.size(), 0) if result is NOWHERE else result, "left_inverse", layout)


def left_body(layout: Layout, told: list[str]) -> Layout:
    """Return left_inverse(layout), for leaves of every kind; `told` receives the decisions."""
    parts = components(layout, "left_inverse", coalesced(layout))
    return _by_component(layout, parts, _filled_up, told)


def _plain_left(layout: Layout) -> Layout | None:
    """The fast path for ints whose strides are multiples of each other; otherwise None."""
    modes, prefix = [], 1
    for extent, stride in zip(layout._s, layout._d):  # noqa: B905 (hot; equal lengths)
        if extent != 1 and stride:
            modes.append((stride, extent, prefix))
        prefix *= extent
    s, d, below, filled = [], [0], 1, 1
    for stride, extent, prefix in sorted(modes):
        if stride < filled or stride % below:
            return None
        s.append(stride // below)
        d.append(prefix)
        below, filled = stride, stride * extent
    return raw_flat(*merged([*s, filled // below], d, INTS), INTS) if modes else None


def _filled_up(layout: Layout, modes: Moving, told: list[str]) -> Modes:
    """Return the modes by rising stride, each filled up to the next stride; where strides are not
    multiples of each other, search for another layout.
    """
    below: Any = 1  # the stride, and the offsets filled, of the modes so far
    filled: Any = 1
    found: Modes = [(1, 0)]
    for extent, stride, prefix in by_stride(modes):
        fits = ints.settle(ints.divides, below, stride, "left_inverse")
        if not fits or not ints.settle(ints.leq, filled, stride, "left_inverse"):
            if layout._kind == SYMBOLS:
                question = f"some layout inverts {layout}"
                ints.require(None, "left_inverse", question, "numbers stand for its symbols")
            other = _searched(modes)
            if other is not None:
                told.append("strides are not multiples of each other: strides are solved for")
                return other
            facts = {"stride": stride, "below": below, "filled": filled}
            raise refusal("left-inverse", operation="left_inverse", layout=layout, **facts)
        found[-1] = (ints.div(stride, below), found[-1][1])
        found.append((extent, prefix))
        told.append(f"offset {stride} goes back to index {prefix}, up to the next stride")
        below, filled = stride, ints.mul(stride, extent)
    return found


# -- the left inverse of modes whose strides are not multiples of each other

SEARCHED = 4096  # offsets of which a layout must give the index
TRIED = 1 << 9  # mixed radices that are tried, fewer for more than LONG offsets
LONG = 1 << 8
SMALL_RADIX = 64  # every prime up to it is tried; beyond it, only primes that divide a stride


def _searched(modes: Moving) -> Modes | None:
    """Return modes that carry each offset of the given ones to its index, or None.

    The digits of an offset depend on the extents of the inverse. Once these are fixed, the strides
    solve linear equations, one per offset. Extents are primes; the last one is unbounded.
    """
    if prod(extent for extent, _, _ in modes) > SEARCHED or any(step < 0 for _, step, _ in modes):
        return None
    table = {0: 0}
    for extent, stride, prefix in modes:
        moves = [(i * stride, i * prefix) for i in range(extent)]
        found = {x + dx: value + dv for x, value in table.items() for dx, dv in moves}
        if len(found) < len(table) * extent:
            return None  # two indices have the same offset
        table = found
    return _Radices(table, [stride for _, stride, _ in modes]).search([])


class _Radices:
    """A depth-first search for extents for which the strides have a solution."""

    def __init__(self, table: dict[int, int], strides: list[int]) -> None:
        self.table = sorted(table.items())
        self.left = TRIED * LONG // max(LONG, len(table))
        self.radices = _radices(strides)

    def search(self, extents: list[int]) -> Modes | None:
        """Return the modes that begin with these extents, or None."""
        self.left -= 1
        below = prod(extents)
        top = self.table[-1][0] // below
        strides = _solved([(_digits(x, extents), value) for x, value in self.table])
        if strides is not None:
            return list(zip([*extents, top + 1], strides, strict=True))
        for radix in self.radices:
            if radix > top:
                break
            # offsets that agree beyond a digit must differ as the digits do
            if self.left <= 0:
                return None
            if self._consistent([*extents, radix]):
                found = self.search([*extents, radix])
                if found is not None:
                    return found
        return None

    def _consistent(self, extents: list[int]) -> bool:
        first: dict[int, tuple[list[int], int]] = {}
        equations = []
        for x, value in self.table:
            *below, beyond = _digits(x, extents)
            other, known = first.setdefault(beyond, (below, value))
            difference = [a - b for a, b in zip(below, other, strict=True)]
            if any(difference) or value != known:
                equations.append((difference, value - known))
        return _solved(equations) is not None if equations else True


def _digits(x: int, extents: list[int]) -> list[int]:
    """Return the digits of x, the last of which is unbounded."""
    return [*digits(x, extents), x // prod(extents)]


def _radices(strides: list[int]) -> list[int]:
    """Return the small primes and the factors of the strides; a factor of larger primes is not
    split.
    """
    primes = [n for n in range(2, 1 << 8) if all(n % k for k in range(2, n))]
    found = {n for n in primes if n <= SMALL_RADIX or any(d % n == 0 for d in strides)}
    for stride in strides:
        for n in primes:
            while stride % n == 0:
                stride //= n
        found |= {stride} - {1}
    return sorted(found)


def _solved(equations: list[tuple[list[int], int]]) -> list[int] | None:
    """Return integers x with sum(a * x) == b for each equation (a, b), 0 where they are free, or
    None where elimination finds none.
    """
    rows: dict[int, list[int]] = {}  # by the unknown that a row gives: coefficients, then the sum
    for coefficients, total in equations:
        row = [*coefficients, total]
        for pivot, known in rows.items():
            if row[pivot]:
                row = _without(row, known, pivot)
        lead = next((k for k, x in enumerate(row[:-1]) if x), None)
        if lead is None:
            if row[-1]:
                return None
            continue
        for pivot, known in rows.items():
            if known[lead]:
                rows[pivot] = _without(known, row, lead)
        rows[lead] = row
    values = [0] * len(equations[0][0])
    for lead, row in rows.items():
        values[lead], rest = divmod(row[-1], row[lead])
        if rest:
            return None
    return values


def _without(row: list[int], known: list[int], lead: int) -> list[int]:
    """Return a row that does not have an unknown, by one that does."""
    a, b = known[lead], row[lead]
    row = [a * x - b * y for x, y in zip(row, known, strict=True)]
    common = gcd(*row)
    return [x // common for x in row] if common > 1 else row


# -- broadcasts


def nullspace(layout: AnyLayout) -> Layout:
    """Return the layout of the indices that broadcast modes reach: layout(R(i)) == 0 for every i <
    size(R).

    Law: size(R) * size(filter_zeros(layout)) == size(layout). Source: cutlass layout.hpp
    `nullspace`.

    >>> print(nullspace(Layout((2, 4, 3), (1, 0, 2))), nullspace(Layout(4, 1)))
    4:2 1:0
    """
    if layout.__class__ is not Layout:
        if not isinstance(layout, AbstractComposed):
            require_layout(layout, "nullspace")
        return Layout(1, 0)  # cancellation in a composed layout is not searched for, as in CuTe
    prefixes = compact_col_major(tuple(layout._s))
    values = [getattr(step, "value", step) for step in layout._d]
    free = [k for k, step in enumerate(values) if ints.settle(ints.same, step, 0, "nullspace")]
    if not free:
        return made(Layout(1, 0), "nullspace", layout)
    shape = unwrap(tuple([layout._s[k] for k in free]))
    stride = unwrap(tuple([prefixes[k] for k in free]))
    return made(Layout(shape, stride), "nullspace", layout)
