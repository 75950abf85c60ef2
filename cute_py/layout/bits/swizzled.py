"""The algebra of swizzled layouts, f o offset o inner for an F2 map f.

Source: cutlass include/cute/swizzle_layout.hpp for the operations; the method is our own derivation
(see `conjugate`).
"""

from __future__ import annotations

from math import gcd

from cute_py.errors import CuteError, LayoutError, refusal
from cute_py.integers import ints
from cute_py.layout.algebra.coalesce import merged
from cute_py.layout.bits import gf2
from cute_py.layout.bits.conjugate import (
    involved_bits,
    is_clear,
    mask_of,
    passed,
    set_bits,
    span,
)
from cute_py.layout.bits.f2 import TRIED, F2Map
from cute_py.layout.bits.f2_convert import from_f2, linear_or_reason
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle, f2_map
from cute_py.layout.composed import ComposedLayout, composed, require_composed
from cute_py.layout.layout import INTS, Layout, make_layout, nested, require_layout
from cute_py.layout.queries import inner_of
from cute_py.layout.tuples import product

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf, Tiler


# -- a map before a layout as a map after it


def through(layout: Layout, f: F2Map, count: Leaf) -> Alike:
    """Return the layout of k -> layout(f(k)) for k < count, of the shape of `layout` if that has
    `count` indices; its last mode is unbounded.

    The first form that exists: Swizzle o layout, Swizzle o offset o another layout, F2Map o layout,
    or layout o 0 o f o 0 o shape.
    """
    g = passed(layout, f, count)
    try:
        cut = layout if ints.same(layout.size(), count) else _composition(layout, Layout(count, 1))
    except CuteError:  # its modes cannot be cut there
        cut, g = Layout(count), None
    return _shortest(g, 0, cut, ComposedLayout(layout, 0, composed(f, 0, Layout(cut.shape))))


def _shortest(g: F2Map | None, offset: Leaf, inner: Layout, whole: ComposedLayout) -> Alike:
    """Return g o offset o inner or another form of `whole`, a swizzled layout if there is one."""
    if g.__class__ is not Swizzle:
        linear = _linear(whole)
        short = whole if linear is None else from_f2(linear)
        if short.__class__ is not F2Layout and short is not whole:
            return short
    return whole if g is None else composed(g, offset, inner)


def _linear(x: ComposedLayout) -> F2Layout | None:
    """Return x as an F2Layout, None if it is not one."""
    found = linear_or_reason(x)
    return found if found.__class__ is F2Layout else None


def _matrix(x: ComposedLayout, operation: str) -> F2Layout:
    """Return x as an F2Layout, the only form that has an inverse; refuse it if it is not one."""
    linear = _linear(x)
    if linear is None:
        raise refusal("inverse-offset", operation=operation, layout=x)
    return linear


# -- composition


def composed_after(a: Layout, b: ComposedLayout) -> Alike:
    """Return composition(a, b): g o offset o layout where a map passes a, else a o 0 o b."""
    whole = ComposedLayout(a, 0, b)
    if not isinstance(b.outer, F2Map) or not ints.is_leaf(b.offset):
        return whole
    if b.inner.__class__ is not Layout:
        g = passed(a, b.outer, b.inner.cosize()) if ints.is_zero(b.offset) else None
        return composed(g, 0, _composition(a, b.inner)) if g.__class__ is Swizzle else whole
    try:
        offset, inner = _moved(a, b.offset, b.inner)
    except CuteError:  # no layout is a(offset + inner(c))
        return _shortest(None, 0, a, whole)
    reach = ints.add(b.inner.cosize(), b.offset)
    g = passed(a, b.outer, reach, mask_of(b.offset, b.inner))
    return _shortest(g, offset, inner, whole)


def _composition(a: Layout, b: Tiler) -> Alike:
    from cute_py.layout.algebra.composition import composition

    return composition(a, b)


def _moved(a: Layout, offset: Leaf, inner: Layout) -> tuple[Leaf, Layout]:
    """Return (a(offset), layout) whose sum is a(offset + inner(c)) for every c; raise LayoutError
    if no layout does this.
    """
    if ints.is_zero(offset):
        return 0, _composition(a, inner)
    both = _composition(a, make_layout(inner, Layout(2, offset)))
    return both._d[-1], both[0]


def is_swizzled(x: object) -> bool:
    """Return whether x is an F2 map of offset + Layout."""
    return (
        x.__class__ is ComposedLayout
        and isinstance(x.outer, F2Map)
        and x.inner.__class__ is Layout
        and ints.is_leaf(x.offset)
    )


# -- inverses


def right_inverse_of(x: ComposedLayout) -> Alike:
    """Return the largest R that is known with x(R(k)) == k: the right inverse of the inner layout
    after the inverse of the map, or that of the matrix of x. See `right_inverse`.
    """
    from cute_py.layout.algebra.inverse import right_inverse

    if not is_swizzled(x):
        return from_f2(_matrix(x, "right_inverse").right_inverse())
    plain, kept, back = Layout(1, 0), 0, x.outer
    if ints.is_zero(x.offset) and x.outer.is_bijective():
        back = x.outer.inverse()
        plain = right_inverse(x.inner)
        kept = _kept(back, plain)
    linear = None if ints.same(kept, x.size()) else _linear(x)
    if linear is not None:
        whole = linear.right_inverse()
        if ints.less(kept, whole.size()):
            return from_f2(whole)
    if ints.is_zero(kept):
        raise refusal("inverse-offset", operation="right_inverse", layout=x)
    return Layout(1, 0) if ints.is_one(kept) else through(plain, back, kept)


def left_inverse_of(x: ComposedLayout) -> Alike:
    """Return R with R(x(i)) == i, up to broadcast modes: the left inverse of the inner layout after
    the inverse of the map, or that of the matrix of x. See `left_inverse`.
    """
    from cute_py.layout.algebra.inverse import left_inverse

    if not is_swizzled(x) or not x.outer.is_bijective():
        return from_f2(_matrix(x, "left_inverse").left_inverse())
    back = x.outer.inverse()
    try:
        plain = left_inverse(x.inner)
    except CuteError:
        linear = _linear(x)
        if linear is None:
            raise
        return from_f2(linear.left_inverse())
    runs = ints.ceil_div(ints.add(x.inner.cosize(), x.offset), back.period)
    count = ints.mul(runs, back.period)
    g = None
    if ints.is_zero(x.offset):
        used = mask_of(0, x.inner)
        used = used if used < 0 else used | gf2.union(x.outer.columns, used)
        reach = _reach(x)
        g = passed(plain, back, count if reach is None else reach, used)
    if g.__class__ is Swizzle:
        return composed(g, 0, plain)
    linear = _linear(x)
    if linear is not None and not gf2.eliminate(linear.bases)[1]:
        short = from_f2(linear.left_inverse())
        if short.__class__ is not F2Layout or g is None:
            return short
    if g is not None:
        return composed(g, 0, plain)
    return ComposedLayout(plain, ints.neg(x.offset), composed(back, 0, Layout(count)))


def _kept(back: F2Map, plain: Layout) -> Leaf:
    """Return the largest known n such that back(k) is an index of `plain` for every k < n."""
    size = plain.size()
    if ints.divides(back.period, size):
        return size
    if size.__class__ is not int:  # the first modes alone are known
        known = [extent.__class__ is int for extent in plain._s]
        size = product(tuple(plain._s[: known.index(False)]))
    whole, rest = divmod(size, back.period)
    kept = 0
    for bit in reversed(range(back.bits)):
        pivots = gf2.eliminate(back.columns[:bit])[0]
        if gf2.largest(pivots, back(kept)) < rest:
            kept += 1 << bit
    return whole * back.period + kept


# -- common runs of two layouts


def common_layout(a: Alike, b: Alike, operation: str = "max_common_layout") -> Alike:
    """Return `max_common_layout` where a or b is swizzled: that of the inner layouts, before the
    inverse of the map that both have, or cut to the run that neither map moves.
    """
    from cute_py.layout.algebra.common import max_common_layout

    common = max_common_layout(*_inner_layouts(a, b, operation))
    for x in (a, b):
        if x.__class__ is ComposedLayout and not (
            ints.is_leaf(x.offset) and ints.is_zero(x.offset)
        ):
            raise refusal("inverse-offset", operation=operation, layout=x)
    alike = _alike(a, b)
    if not alike or not isinstance(a.outer, F2Map) or not a.outer.is_bijective():
        limit = 1 if alike else _unmoved(a, b)
        while limit < common.size():
            try:
                return _composition(common, Layout(limit, 1))
            except CuteError:  # its modes cannot be cut there
                limit //= 2
        return common
    back = a.outer.inverse()
    kept = _kept(back, common)
    below = (1 << (kept - 1).bit_length()) - 1 if kept.__class__ is int else -1
    moves = involved_bits(back, below & back.period - 1)
    return through(common, back if moves else Swizzle(0, 0, 0), kept)


def common_vector(a: Alike, b: Alike) -> int:
    """Return `max_common_vector` where a or b is swizzled: the size of what they have in common;
    for different maps with offsets, the run that both leave contiguous.
    """
    from cute_py.layout.algebra.common import max_common_vector

    if _alike(a, b) or all(ints.is_zero(getattr(x, "offset", 0)) for x in (a, b)):
        return common_layout(a, b, "max_common_vector").size()
    vector: int = max_common_vector(*_inner_layouts(a, b, "max_common_vector"))
    return min(vector, _unmoved(a, b))


def _inner_layouts(a: Alike, b: Alike, operation: str) -> list[Layout]:
    parts = [inner_of(x) for x in (a, b)]
    for part in parts:
        require_layout(part, operation)
    return parts


def _alike(a: Alike, b: Alike) -> bool:
    """Return whether both are the same map of different inner layouts."""
    both = a.__class__ is ComposedLayout and b.__class__ is ComposedLayout
    return both and a.outer == b.outer and a.offset == b.offset


def _unmoved(a: Alike, b: Alike) -> int:
    """Return how many elements stay contiguous under the maps of both."""
    run = gcd(
        *[
            1 << x.outer.num_base if x.outer.__class__ is Swizzle else 1
            for x in (a, b)
            if x.__class__ is ComposedLayout
        ]
    )
    for x in (a, b):
        while x.__class__ is ComposedLayout and x.offset % run:
            run //= 2
    return run


# -- complements and products


def complement_of(x: AnyLayout, target: IntTuple) -> Alike:
    """Return the complement of the inner layout where the map leaves it free (see `complement`)."""
    from cute_py.layout.algebra.complement import complement

    x = require_composed(x, "complement")
    result = complement(x.inner, x.inner.cosize() if target is None else target)
    moves = list(zip(result._s, result._d, strict=True)) if result.__class__ is Layout else []
    if is_swizzled(x) and x.outer.is_bijective():
        mask = mask_of(x.offset, x.inner)
        image = mask if mask < 0 else gf2.union(x.outer.columns, mask) | mask
        if is_clear(moves, (x.outer.period - 1) if image < 0 else image):
            return result
    count = x.size() * result.size()
    require_tried("complement", x, count)
    starts = [result(j) for j in range(result.size())]
    found = {x(i) for i in range(x.size())}
    if len({offset + start for offset in found for start in starts}) < len(found) * len(starts):
        raise refusal("complement-swizzle", operation="complement", layout=x)
    return result


def require_tried(operation: str, layout: AnyLayout, size: Leaf) -> None:
    """Refuse to try more than TRIED indices."""
    if ints.as_int(size, operation) > TRIED:
        raise refusal("tools-size", operation=operation, layout=layout, size=size, limit=TRIED)


def product_over(block: Layout, tiler: ComposedLayout) -> Alike:
    """Return logical_product(block, tiler) for swizzled positions: the map acts on whole blocks.

    Law: result(b, t) == block(b) + hull(tiler(t)). Raises LayoutError where no map of the product
    does that. Source: cutlass swizzle_layout.hpp `logical_product(Layout, ComposedLayout)`.
    """
    from cute_py.layout.algebra.complement import hull

    if not is_swizzled(tiler):
        raise refusal("swizzle-through", operation="logical_product", block=block, tiler=tiler)
    f, inner, offset = tiler.outer, tiler.inner, tiler.offset
    reach = ints.add(inner.cosize(), offset)
    positions = hull(block, ints.mul(ints.ceil_div(reach, f.period), f.period))
    modes = list(zip(block._s, block._d, strict=True))
    used = mask_of(offset, inner)
    reads = [f(1 << bit) if used >> bit & 1 else 1 << bit for bit in range(f.bits)]
    g = passed(positions, f2_map(reads), reach, used, modes)
    if g is None:
        raise refusal("swizzle-through", operation="logical_product", block=block, tiler=tiler)
    moved, places = _moved(hull(block, reach), offset, inner)
    return composed(g, moved, make_layout(block, places))


# -- how far a swizzled layout reaches


def reach_of(x: ComposedLayout, operation: str) -> IntTuple:
    """Return one more than the largest |offset|.

    A map stays within aligned runs of its period, so the largest value is the image of one in the
    last run that the inner layout reaches, and few indices map into it.
    """
    if is_swizzled(x):
        linear = _linear(x)
        if linear is not None:
            return linear.cosize()
        reach = _reach(x)
        if reach is not None:
            return reach
    size = x.size()
    require_tried(operation, x, size)
    return 1 + max([abs(x(i)) for i in range(size)])


def _reach(x: ComposedLayout) -> Leaf:
    """Return one more than the largest offset by the values in the last run of the period; None
    where values may be negative, where these are not known, or where there are too many.
    """
    offset, steps = x.offset, []
    for extent, step in zip(x.inner._s, x.inner._d, strict=True):
        ends = ints.mul(ints.sub(extent, 1), step)
        if ints.leq(0, step) is None:
            return None
        offset = ints.add(offset, ends) if ints.less(step, 0) else offset
        if not (ints.is_zero(step) or ints.is_one(extent)):
            steps.append((extent, ints.abs_(step)))
    if ints.leq(0, offset) is not True:
        return None
    top = offset
    for extent, step in steps:
        top = ints.add(top, ints.mul(ints.sub(extent, 1), step))
    depth = ints.mod(top, x.outer.period)
    if depth.__class__ is not int:
        return None
    values = {depth}  # of the last run, counted down from the largest one
    for extent, step in steps:
        if ints.less(depth, step):
            continue
        if step.__class__ is not int:
            return None
        most = depth // step + 1
        count = most if ints.leq(most, extent) else extent
        if count.__class__ is not int or count * len(values) > TRIED:
            return None
        values = {v - j * step for v in values for j in range(count) if v >= j * step}
    return ints.add(ints.sub(top, depth), 1 + max([x.outer(value) for value in values]))


# -- slices


def sliced(f: Swizzle, total: int, free: Layout) -> tuple[Any, int]:
    """Return (sublayout, offset) of c -> f(total + free(c)), a plain Layout where that is linear.

    If no two bits of the fixed offset and of the free modes coincide, sums are XORs, and the map
    acts on each part alone. Where the images of the free bits do not overlap either, each of them
    adds or subtracts its change to the image of the offset.
    """
    steps = [(s, d) for s, d in zip(free._s, free._d, strict=True) if d and not ints.is_one(s)]
    if total < 0 or free._kind != INTS or min(free._d, default=0) < 0:
        return composed(f, total, free), 0
    masks = [span(d & -d, (s - 1) * d) for s, d in steps]
    if not gf2.disjoint([total, *masks]):
        return composed(f, total, free), 0
    inside = total & f.swizzle_code
    outside = total ^ inside
    active = sum(masks) & f.swizzle_code
    if not gf2.disjoint([f(1 << bit) for bit in set_bits(active)]):
        return composed(f, inside, free), outside
    origin = f(inside)
    plain = _bit_by_bit(f, inside, origin, free)
    if plain is not None:
        return plain, origin + outside
    steps = [f(inside ^ 1 << bit) - origin for bit in range(f.bits)]
    form = Layout((*[2] * f.bits, 1), (*steps, f.period))
    try:
        linear = _composition(form, free)
    except LayoutError:
        return composed(f, inside, free), outside
    return linear, origin + outside


def _bit_by_bit(f: F2Map, inside: int, origin: int, free: Layout) -> Layout | None:
    """The shortcut of `sliced` for extents and strides of powers of two; None for others."""
    modes, code = [], f.masks[1]
    for extent, step in zip(free._s, free._d, strict=True):
        if step & (step - 1) or extent & (extent - 1) or (step and extent == 1):
            return None
        if not (extent - 1) * step & code:
            modes.append([(extent, step)])
            continue
        steps = [f(inside ^ step << k) - origin for k in range(extent.bit_length() - 1)]
        modes.append(list(zip(*merged([2] * len(steps), steps, INTS), strict=True)))
    return nested(free, modes, INTS)


# -- other element sizes


def recast_special(operation: str, x: Alike, n: int) -> Alike:
    """Return the map, offset or composed layout in elements n times as large (`upcast`) or as small
    (`downcast`).

    A map of larger elements acts on whole elements in the same way: f(x) // n == result(x // n).
    """
    if isinstance(x, F2Map):
        if n.bit_count() != 1:
            raise refusal("swizzle-factor", operation=operation, swizzle=x, n=n)
        shift = n.bit_length() - 1
        result = x.recast(shift if operation == "upcast" else -shift)
        return result if result.__class__ is Swizzle else f2_map(result.columns)
    if ints.is_leaf(x):
        if operation == "downcast":
            return ints.mul(x, n)
        if not ints.settle(ints.divides, n, x, operation):
            raise refusal("upcast-offset", operation=operation, offset=x, n=n)
        return ints.div(x, n)
    from cute_py.layout.algebra import recast

    change = getattr(recast, operation)
    x = require_composed(x, operation)
    return ComposedLayout(change(x.outer, n), change(x.offset, n), change(x.inner, n))


def alignment_of(x: Alike) -> int:
    """Return how many elements a map, an offset or a composed layout always keeps contiguous (0 for
    offset 0: all).
    """
    from cute_py.layout.algebra.recast import max_alignment

    if isinstance(x, F2Map):
        return 1 << x.num_base if x.__class__ is Swizzle else 1
    if ints.is_leaf(x) or hasattr(x, "__index__"):
        return abs(ints.as_int(ints.normalize(x, "max_alignment"), "max_alignment"))
    x = require_composed(x, "max_alignment")
    if x.outer.__class__ is not Swizzle:
        return 1
    return gcd(*[alignment_of(part) for part in (x.outer, x.offset)], max_alignment(x.inner))
