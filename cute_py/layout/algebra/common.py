"""Operations on two layouts: max_common_layout, max_common_vector, domain_distribute, layout_add,
make_layout_tv.

Source: cutlass include/cute/layout.hpp; `layout_add` after NVlabs/CuTe's description (own
derivation).
"""

from __future__ import annotations

from itertools import accumulate
from math import gcd, prod
from operator import mul

from cute_py.errors import LayoutError, refusal
from cute_py.integers import ints
from cute_py.layout import special
from cute_py.layout.algebra.coalesce import coalesce, coalesced, merged
from cute_py.layout.algebra.composition import compose_or_none, composition
from cute_py.layout.algebra.inverse import right_body, right_inverse, stops
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.coords import compact_col_major
from cute_py.layout.layout import INTS, Layout, made, of_modes, offset_of, require_layout
from cute_py.layout.tuples import flatten, is_shaped, read, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import AnyLayout, IntTuple


TRIED = 1 << 12  # indices of layouts with symbols that are tried


def max_common_layout(a: AnyLayout, b: AnyLayout) -> Layout:
    """Return the layout R of the longest contiguous run that a and b share: a(R(i)) == b(R(i)) ==
    i.

    Of two layouts under one swizzle R is the run after that swizzle, swizzled itself where needed.
    Raises LayoutError for a swizzled layout with an offset, which no index takes to 0.
    Source: cutlass layout.hpp `max_common_layout`.

    >>> print(max_common_layout(Layout((4, 8), (8, 1)), Layout((4, 8), (16, 1))))
    8:4
    """
    if a.__class__ is not Layout or b.__class__ is not Layout:
        return special.common_layout(a, b)
    inverse, run = common_run("max_common_layout", a, b)
    return made(composition(inverse, Layout(run)), "max_common_layout", a, b)


def max_common_vector(a: AnyLayout, b: AnyLayout) -> int:
    """Return how many elements are contiguous and in the same order in both a and b, from index 0
    on (elements).

    Law: it is the size of `max_common_layout(a, b)`. Under different swizzles, of which one has an
    offset, it is the run that both leave contiguous. Raises what `max_common_layout` raises.
    Source: cutlass layout.hpp `max_common_vector`.

    >>> max_common_vector(Layout((4, 8), (8, 1)), Layout((4, 8), (16, 1)))
    8
    """
    if a.__class__ is not Layout or b.__class__ is not Layout:
        return special.common_vector(a, b)
    return common_run("max_common_vector", a, b)[1]


def require_offsets(operation: str, *layouts: Layout) -> None:
    """Refuse layouts that yield coordinates."""
    for layout in layouts:
        for stride in layout._d:
            if stride.__class__ is ScaledBasis:
                raise refusal(
                    "coordinate-strides", operation=operation, layout=layout, stride=stride
                )


def common_run(
    operation: str, a: Layout, b: Layout, told: list[str] | None = None
) -> tuple[Layout, IntTuple]:
    """Return R = right_inverse(b), and the largest known n for which R(i) is an index of a and
    a(R(i)) == i for all i < n; `told` receives the decisions.
    """
    require_offsets(operation, a, b)
    words = [] if told is None else told
    inverse = right_inverse(b) if told is None else right_body(b, told)
    words.append(f"right_inverse(b) is {inverse}")
    try:
        both = composition(a, inverse)
    except LayoutError as error:  # no layout computes a o inverse, but its first values exist
        if error.code == "undecided":
            raise
        run = _first_values(a, inverse)
        words.append(f"no layout is a o right_inverse(b), which starts with 0 to {run - 1}")
        return inverse, _inside(a, inverse, run, words)
    extents, strides = coalesced(both)
    run = extents[0] if ints.is_one(strides[0]) else 1
    ahead = strides[1:2] if ints.is_one(strides[0]) else strides[:1]
    words += stops(f"a o right_inverse(b) = {both} counts to {run}", [(d, run) for d in ahead])
    return inverse, _inside(a, inverse, run, words)


def _inside(a: Layout, inverse: Layout, run: IntTuple, told: list[str]) -> IntTuple:
    """Return the largest known n <= run such that inverse(i) is an index of a for all i < n."""
    size = a.size()
    modes = list(zip(inverse._s, inverse._d, strict=True))
    if a._kind == INTS == inverse._kind:
        if sum([(extent - 1) * step for extent, step in modes]) < size:
            return run
        n = _first_beyond(modes, size)
    else:
        if ints.leq(inverse.cosize(), size):
            return run
        while len(modes) > 1 and not ints.leq(of_modes(modes).cosize(), size):
            modes.pop()
        inside = of_modes(modes)
        n = inside.size() if ints.leq(inside.cosize(), size) else 1
    if ints.leq(run, n):
        return run
    told.append(f"right_inverse(b) leaves the {size} indices of a after {n}")
    return n if ints.leq(n, run) else 1


def _first_beyond(modes: list[tuple[int, int]], size: int) -> int:
    """Return the least index at which modes of strides >= 0 reach `size`, which they do reach."""
    below, index = prod([extent for extent, _ in modes]), 0
    reach = sum([(extent - 1) * step for extent, step in modes])
    for extent, step in reversed(modes):
        below //= extent
        reach -= (extent - 1) * step
        if size > reach:
            steps = -((reach - size) // step)
            index, size = index + steps * below, size - steps * step
    return index


def _first_values(a: Layout, inverse: Layout) -> int:
    """Return the largest n with a(inverse(i)) == i for all i < n, digit by digit of n: the first m
    steps of a mode are right if the layout of the modes below it, m steps and the digits above it
    is composed to the identity. Layouts with symbols are tried index by index.
    """
    if a._kind != INTS or inverse._kind != INTS:
        tried = range(1, TRIED)
        ends = (n for n in tried if ints.leq(inverse.size(), n) or a(inverse(n)) != n)
        return next(ends, TRIED)
    count, origin = 0, 0  # n so far, and inverse(n)
    modes = list(zip(inverse._s, inverse._d, strict=True))
    for k in reversed(range(len(modes))):
        extent, step = modes[k]
        below = list(accumulate(inverse._s[:k], mul, initial=1))
        steps, most = 0, extent
        while steps < most:
            m = (steps + most + 1) // 2
            box = of_modes([*modes[:k], (m, step), (2, origin)])
            got = compose_or_none(a, box)
            if got is not None and coalesced(got) == merged(box._s, [*below, count], INTS):
                steps = m
            else:
                most = m - 1
        count, origin = count + steps * below[-1], origin + steps * step
    return count


def domain_distribute(a: AnyLayout, n: int) -> Layout:
    """Return a layout of n elements (or the largest count that divides) taken evenly from the shape
    of a.

    Law: the result increases strictly, divides a's shape, and its size divides n. Source: cutlass
    layout.hpp `domain_distribute`.

    >>> print(domain_distribute((15, 14), 6))
    (3,2):(1,15)
    """
    extents = wrap(flatten(read(a, "domain_distribute")))
    rest = ints.as_int(ints.normalize(n, "domain_distribute"), "domain_distribute")
    parts = []
    for extent in extents:
        part = gcd(ints.as_int(extent, "domain_distribute"), rest)
        parts.append(part)
        rest //= part
    return coalesce(Layout(tuple(parts), compact_col_major(extents)))


def layout_add(a: Layout, b: Layout) -> Layout:
    """Return the layout R with R(i) == a(i) + b(i), of a shape that refines both; a and b must have
    the same size.

    Raises LayoutError, with the first index that departs, where no layout computes the sum.

    >>> print(layout_add(Layout((4, 8), (8, 1)), Layout((4, 8), (0, 32))))
    (4,8):(8,33)
    """
    require_layout(a, "layout_add")
    require_layout(b, "layout_add")
    if ints.settle(ints.same, a.size(), b.size(), "layout_add") is False:
        raise refusal(
            "size-mismatch", operation="layout_add", a=a, b=b, left=a.size(), right=b.size()
        )
    refined = common_refinement(a, b)
    if refined is not None:
        first, second = (composition(x, Layout(refined)) for x in (a, b))
        stride = tuple([ints.add(x, y) for x, y in zip(first._d, second._d, strict=True)])
        return made(coalesce(Layout(refined, stride)), "layout_add", a, b)
    return made(_fitted_sum(a, b), "layout_add", a, b)


def common_refinement(a: Layout, b: Layout) -> tuple[Any, ...] | None:
    """Return the flat shape whose boundaries are those of both coalesced layouts, or None if they
    do not nest.

    >>> common_refinement(Layout((4, 6), (6, 1)), Layout((8, 3), (3, 1)))
    (4, 2, 3)
    """
    require_layout(a, "common_refinement")
    require_layout(b, "common_refinement")
    left, right = list(coalesced(a)[0]), list(coalesced(b)[0])
    extents = []
    while left and right:
        x, y = left[0], right[0]
        step = x if ints.divides(x, y) else y if ints.divides(y, x) else None
        if step is None:
            return None
        extents.append(step)
        for modes, size in ((left, x), (right, y)):
            modes[0] = ints.div(size, step)
            if ints.is_one(modes[0]):
                del modes[0]
    return tuple(extents) or (1,)


def _fitted_sum(a: Layout, b: Layout) -> Layout:
    from cute_py.layout.algebra.fit import axis_modes, wrong_entries

    count = ints.as_int(a.size(), "layout_add")
    values = [a(i) + b(i) for i in range(count)]
    modes = axis_modes(values)
    wrong = wrong_entries(values, [count], [modes])
    if wrong:
        s, d = [m[0] for m in modes], [m[1] for m in modes]
        raise refusal(
            "layout-add",
            operation="layout_add",
            a=a,
            b=b,
            index=wrong[0],
            got=values[wrong[0]],
            fitted=offset_of(wrong[0], s, d),
        )
    return coalesce(of_modes(modes))


def make_layout_tv(thr: Layout, val: Layout) -> tuple[Any, Layout]:
    """Return (tiler, TV layout) of threads `thr` that each hold values `val`: (thread, value) ->
    index in the tile.

    Law: the TV layout is a one-to-one map of (size(thr), size(val)) onto the tile. Raises
    LayoutError where threads and values leave elements of the tile out or share some. Source:
    cutlass copy_atom.hpp `make_tiled_copy`.

    >>> tiler, tv = make_layout_tv(Layout((4, 8), (8, 1)), Layout((2, 1)))
    >>> print(tiler, tv)
    (8, 8) ((8,4),2):((8,2),1)
    """
    from cute_py.layout.algebra.product import raked_product
    from cute_py.layout.tuples import product_each

    for layout in (thr, val):
        if not is_shaped(layout):
            require_layout(layout, "make_layout_tv")
        if layout.__class__ is Layout:
            require_offsets("make_layout_tv", layout)
    mn = raked_product(thr, val)
    inverse = right_inverse(mn)
    if ints.same(inverse.size(), mn.size()) is False:
        facts = {"count": inverse.size(), "size": mn.size()}
        raise refusal("tv-map", operation="make_layout_tv", thr=thr, val=val, **facts)
    return product_each(mn.shape), inverse.with_shape((thr.size(), val.size()))
