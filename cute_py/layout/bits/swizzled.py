"""What the algebra makes of swizzled layouts, f o offset o inner for an F2 map f.

Two facts carry all of it. A map of period P commutes with multiples of P, f(x + k*P) == f(x) + k*P,
so modes that step by whole periods take no part and may have any extent, symbols too. And where a
layout takes the bits of an index to bits of an offset that do not overlap, it is a matrix there:
f before the layout is another map g after it, g(layout(k)) == layout(f(k)).

Source: cutlass include/cute/swizzle_layout.hpp for what the operations are; the split and the
matrices are our own.
"""

from __future__ import annotations

from math import gcd

from cute_py.errors import CuteError, LayoutError, refusal
from cute_py.integers import ints
from cute_py.layout.bits import gf2
from cute_py.layout.bits.f2 import F2Map
from cute_py.layout.bits.f2_convert import TRIED, from_f2, linear_or_reason, to_f2
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle, f2_map, swizzle_of
from cute_py.layout.composed import ComposedLayout, composed, require_composed
from cute_py.layout.coords import crd2idx
from cute_py.layout.layout import INTS, Layout, make_layout, require_layout
from cute_py.layout.queries import inner_of
from cute_py.layout.tuples import product

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf, Tiler

    Modes = list[tuple[Any, Any]]  # (extent, stride)


# -- a map before a layout as a map after it


def through(layout: Layout, f: F2Map, count: Leaf) -> Alike:
    """Return the layout of k -> layout(f(k)) for k < count, of the shape of `layout` if that has
    `count` indices; its last mode runs on.

    It is Swizzle o layout where a swizzle does it, else Swizzle o offset o another layout, else
    F2Map o layout, and where no map does it, layout o 0 o f o 0 o shape.
    """
    g = passed(layout, f, count)
    cut = layout if ints.same(layout.size(), count) else _composition(layout, Layout(count, 1))
    return _shortest(g, 0, cut, ComposedLayout(layout, 0, composed(f, 0, Layout(cut.shape))))


def _shortest(g: F2Map | None, offset: Leaf, inner: Layout, whole: ComposedLayout) -> Alike:
    """Return g o offset o inner or another form of `whole`, a swizzled layout if there is one."""
    if g.__class__ is not Swizzle:
        linear = _linear(whole)
        short = whole if linear is None else from_f2(linear)
        if short.__class__ is not F2Layout and short is not whole:
            return short
    return whole if g is None else composed(g, offset, inner)


def passed(
    layout: Layout, f: F2Map, count: Leaf, used: int = -1, beside: Modes | None = None
) -> F2Map | None:
    """Return the map g with g(layout(k) + x) == layout(f(k)) + x; None where no map is known.

    Args:
        layout: a Layout, whose last mode runs on.
        f: the map that comes first.
        count: for all k below it.
        used: and of these for those with bits in this mask alone.
        beside: modes whose values are the x; 0 alone if left out.

    """
    below = (1 << (count - 1).bit_length()) - 1 if count.__class__ is int else -1
    bits = below & used
    others = list(beside or [])
    images, above = _index_bits(layout, max(f.bits, 0 if bits < 0 else bits.bit_length()), count)
    if bits < 0 or bits.bit_length() > len(images):  # what is above is not made of bits
        images, above = _index_bits(layout, f.bits, count)
        bits, others = bits & (1 << f.bits) - 1, [*others, *([(2, -1)] if above is None else above)]
    named = _named(layout, f)
    if named is not None and (
        _serves(named, images, f, bits, others)
        or (not beside and _holds(named, layout, f, count, used))
    ):
        return named
    g = _conjugate(images, f, bits)
    return g if g is not None and _serves(g, images, f, bits, others) else None


def _holds(g: F2Map, layout: Layout, f: F2Map, count: Leaf, used: int) -> bool:
    """Try all indices, if they are few."""
    if count.__class__ is not int or count > TRIED or layout._kind != INTS:
        return False
    return all(g(layout(k)) == layout(f(k)) for k in range(count) if not k & ~used)


def _index_bits(layout: Layout, bits: int, count: Leaf) -> tuple[list[int], Modes | None]:
    """Return the offsets of the indices 1, 2, 4, ... below 2**bits, as far as modes are made of
    whole bits, and the modes of all indices above; None where the bits end before.
    """
    images: list[int] = []
    above: Modes = []
    last = len(layout._s) - 1
    rest = count
    for k, (extent, step) in enumerate(zip(layout._s, layout._d, strict=True)):
        extent = rest if k == last else extent
        room = bits - len(images)
        if room and step.__class__ is not int:
            return images, None
        if k < last and extent.__class__ is int and extent.bit_count() == 1:
            room = min(room, extent.bit_length() - 1)
        elif k < last and ints.divides(1 << room, extent) is not True:
            return images, None
        images += [step << bit for bit in range(room)]
        above.append((ints.ceil_div(extent, 1 << room), ints.mul(step, 1 << room)))
        rest = ints.ceil_div(rest, extent)
    return images, above if len(images) == bits else None


def _named(layout: Layout, f: F2Map) -> F2Map | None:
    """Return the swizzle of the images of all bits that a swizzle reads and of those that it
    changes, as CuTe names the result.
    """
    if f.__class__ is not Swizzle:
        return None
    y, z = [crd2idx(mask, layout.shape, layout.stride) for mask in (f.yyy_msk, f.zzz_msk)]
    return swizzle_of(y, z) if y.__class__ is z.__class__ is int and min(y, z) >= 0 else None


def _conjugate(images: list[int], f: F2Map, bits: int) -> F2Map | None:
    """Return the map that does to the images of the bits of `bits` what f does to these bits."""
    involved = _involved(f, bits)
    if involved.bit_length() > len(images):
        return None
    parts = [images[bit] for bit in _set_bits(involved)]
    if min(parts, default=0) < 0:
        return None
    columns = [1 << bit for bit in range(sum(parts).bit_length())]
    for bit in _set_bits(bits & involved):
        change = gf2.apply(images, f(1 << bit)) ^ images[bit]
        for source, target in _pairs(images[bit], change):
            columns[source] ^= target
    return f2_map(columns)


def _involved(f: F2Map, bits: int) -> int:
    """Return which bits f reads or changes when only those of `bits` may be set."""
    involved = 0
    for bit in _set_bits(bits):
        column = f(1 << bit)
        involved |= column | 1 << bit if column != 1 << bit else 0
    return involved


def _serves(g: F2Map, images: list[int], f: F2Map, bits: int, others: Modes) -> bool:
    """Return whether g is known to do to the images of the bits of `bits` what f does to these
    bits, and to leave alone what `others` add.

    Images that share no bit with another one are a matrix, which is compared; no sum of the rest
    may set or carry into a bit of these.
    """
    involved = _involved(f, bits)
    if max(involved, bits).bit_length() > len(images):
        return not involved and not g.bits
    idle = {bit: images[bit] for bit in _set_bits(bits & ~involved)}
    reads, touched = g.masks
    if not involved and _is_clear([*[(2, image) for image in idle.values()], *others], reads):
        return True
    apart = [images[bit] for bit in _set_bits(involved)]
    for bit, image in list(idle.items()):
        if not any(image & other for other in [*apart, *[idle[k] for k in idle if k != bit]]):
            involved |= 1 << bit
            apart.append(idle.pop(bit))
    rest = [*[(2, image) for image in idle.values()], *others]
    return (
        gf2.disjoint(apart)
        and _is_clear(rest, touched | sum(apart))
        and all(g(images[k]) == gf2.apply(images, f(1 << k)) for k in _set_bits(involved & bits))
    )


def _pairs(image: int, change: int) -> list[tuple[int, int]]:
    """Return (bit, what it changes) such that all bits of the image together change `change`: bit
    by bit if there are as many, as a swizzle does.
    """
    sources, targets = list(_set_bits(image)), list(_set_bits(change))
    if len(sources) == len(targets):
        return [(s, 1 << t) for s, t in zip(sources, targets, strict=True)]
    return [(sources[0], change)] if image and change else []


def _is_clear(modes: Modes, touched: int) -> bool:
    """Return whether sums of these modes are known to leave the bits of `touched` alone."""
    mask = _bits_of(modes, touched.bit_length())
    return mask >= 0 and not mask & touched


def _bits_of(modes: Modes, period: int) -> int:
    """Return the bits below `period` that sums of these modes can set, or more; -1 if that is not
    known. Where two modes share bits, a sum can carry into all of those up to the largest.
    """
    groups: list[tuple[int, int]] = []  # (lowest bit, largest sum)
    for extent, step in modes:
        if ints.is_one(extent) or ints.divides(1 << period, step):
            continue
        if extent.__class__ is not int or step.__class__ is not int or step < 0:
            return -1
        low, top = step & -step, (extent - 1) * step
        while met := [group for group in groups if _span(low, top) & _span(*group)]:
            groups.remove(met[0])
            low, top = min(low, met[0][0]), top + met[0][1]
        groups.append((low, top))
    return sum([_span(*group) for group in groups])


def _span(low: int, top: int) -> int:
    return (1 << top.bit_length()) - low


def _mask_of(offset: Leaf, inner: Layout) -> int:
    """Return the bits that offset + inner(c) can set, or more; -1, all, if that is not known."""
    if offset.__class__ is not int or inner._kind != INTS:
        return -1
    modes = [*zip(inner._s, inner._d, strict=True), (2, offset)]
    return _bits_of([mode for mode in modes if mode[1]], inner.cosize().bit_length() + 64)


def _set_bits(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def _linear(x: ComposedLayout) -> F2Layout | None:
    """Return x as an F2Layout, None where it is none."""
    found = linear_or_reason(x)
    return found if found.__class__ is F2Layout else None


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
    g = passed(a, b.outer, reach, _mask_of(b.offset, b.inner))
    return _shortest(g, offset, inner, whole)


def _composition(a: Layout, b: Tiler) -> Alike:
    from cute_py.layout.algebra.composition import composition

    return composition(a, b)


def _moved(a: Layout, offset: Leaf, inner: Layout) -> tuple[Leaf, Layout]:
    """Return (a(offset), layout) whose sum is a(offset + inner(c)) for every c; raise LayoutError
    where there is none.
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
        return from_f2(to_f2(x).right_inverse())
    plain, kept, back = Layout(1, 0), 0, x.outer
    if ints.is_zero(x.offset) and x.outer.is_bijective():
        back = x.outer.inverse()
        plain = right_inverse(x.inner)
        kept = _kept(back, plain, x.inner)
    linear = None if ints.same(kept, x.size()) else _linear(x)
    if linear is not None:
        whole = linear.right_inverse()
        if ints.less(kept, whole.size()):
            return from_f2(whole)
    if ints.is_zero(kept):
        raise refusal("inverse-offset", operation="right_inverse", layout=x)
    return through(plain, back, kept)


def left_inverse_of(x: ComposedLayout) -> Alike:
    """Return R with R(x(i)) == i, up to broadcast modes: the left inverse of the inner layout after
    the inverse of the map, or that of the matrix of x. See `left_inverse`.
    """
    from cute_py.layout.algebra.inverse import left_inverse

    if not is_swizzled(x) or not x.outer.is_bijective():
        return from_f2(to_f2(x).left_inverse())
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
        used = _mask_of(0, x.inner)
        used = used if used < 0 else used | gf2.union(x.outer.columns, used)
        top = _top_run(x)
        g = passed(plain, back, count if top is None else _top(x, *top), used)
        named = _named(plain, back)
        if named is not None and named != g and _undoes(named, plain, x):
            g = named
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


def _undoes(g: F2Map, plain: Layout, x: ComposedLayout) -> bool:
    """Return whether g(plain(x(i))) is an index of x with the same offset, for every i; tried where
    they are few.
    """
    size = x.size()
    if size.__class__ is not int or size > TRIED or x.inner._kind != INTS:
        return False
    values = [x(i) for i in range(size)]
    indices = [g(plain(value)) for value in values]
    return max(indices) < size and [x(i) for i in indices] == values


def _kept(back: F2Map, plain: Layout, *layouts: Layout) -> Leaf:
    """Return the largest known n such that layout(plain(back(k))) == back(k) for every k < n: for
    back(k) below the size of `plain`, and beyond where both run on.
    """
    size = plain.size()
    if ints.divides(back.period, size):
        return size
    if size.__class__ is not int:  # the first modes alone are known
        known = [extent.__class__ is int for extent in plain._s]
        size = product(tuple(plain._s[: known.index(False)]))
    elif size <= TRIED and all(x._kind == INTS for x in layouts):
        values = [back(k) for k in range(size)]
        if all(x(plain(value)) == value for x in layouts for value in values):
            return size
    whole, rest = divmod(size, back.period)
    kept = 0
    for bit in reversed(range(back.bits)):
        pivots = gf2.eliminate(back.columns[:bit])[0]
        if gf2.largest(pivots, back(kept)) < rest:
            kept += 1 << bit
    return whole * back.period + kept


# -- what two layouts share


def common_layout(a: Alike, b: Alike) -> Alike:
    """Return `max_common_layout` where a or b is swizzled: that of the inner layouts, before the
    inverse of the map that both have, or cut to the run that neither map moves.
    """
    from cute_py.layout.algebra.common import max_common_layout

    common = max_common_layout(*_inner_layouts(a, b, "max_common_layout"))
    for x in (a, b):
        if x.__class__ is Layout:
            continue
        if not (is_swizzled(x) and ints.is_zero(x.offset) and x.outer.is_bijective()):
            raise refusal("inverse-offset", operation="max_common_layout", layout=x)
    if not _alike(a, b):
        limit = _unmoved(a, b)
        return common if limit >= common.size() else _composition(common, Layout(limit, 1))
    back = a.outer.inverse()
    kept = _kept(back, common, a.inner, b.inner)
    below = (1 << (kept - 1).bit_length()) - 1 if kept.__class__ is int else -1
    moves = _involved(back, below & back.period - 1)
    return through(common, back if moves else Swizzle(0, 0, 0), kept)


def common_vector(a: Alike, b: Alike) -> int:
    """Return `max_common_vector` where a or b is swizzled: that of the inner layouts, cut to what
    stays contiguous.
    """
    from cute_py.layout.algebra.common import max_common_vector

    vector: int = max_common_vector(*_inner_layouts(a, b, "max_common_vector"))
    return vector if _alike(a, b) else min(vector, _unmoved(a, b))


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
        mask = _mask_of(x.offset, x.inner)
        image = mask if mask < 0 else gf2.union(x.outer.columns, mask) | mask
        if _is_clear(moves, (x.outer.period - 1) if image < 0 else image):
            return result
    count = x.size() * result.size()
    require_tried("complement", x, count)
    starts = [result(j) for j in range(result.size())]
    found = {x(i) for i in range(x.size())}
    if len({offset + start for offset in found for start in starts}) < len(found) * len(starts):
        raise refusal("complement-swizzle", operation="complement", layout=x)
    return result


def require_tried(operation: str, layout: AnyLayout, size: Leaf) -> None:
    """Refuse to run through more than TRIED indices."""
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
    used = _mask_of(offset, inner)
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
    last run that the inner layout reaches, and few indices lead there.
    """
    if is_swizzled(x):
        linear = _linear(x)
        if linear is not None:
            return linear.cosize()
        top = _top_run(x)
        if top is not None:
            return _top(x, *top)
    size = x.size()
    require_tried(operation, x, size)
    return 1 + max([abs(x(i)) for i in range(size)])


def _top(x: ComposedLayout, start: Leaf, values: set[int]) -> Leaf:
    return ints.add(ints.add(start, max([x.outer(value) for value in values])), 1)


def _top_run(x: ComposedLayout) -> tuple[Leaf, set[int]] | None:
    """Return the start of the last run of the period that offset + inner reaches, and what lies in
    it; None where values may be negative, that is not known, or there are too many.
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
    return ints.sub(top, depth), values


# -- slices


def sliced(f: Swizzle, total: int, free: Layout) -> tuple[Any, int]:
    """Return (sublayout, offset) of c -> f(total + free(c)), a plain Layout where that is linear.

    If no two bits of the fixed offset and of the free modes coincide, sums are XORs, and the map
    acts on each part alone. Where the images of the free bits do not overlap either, each of them
    adds or takes away what it changes of the image of the offset.
    """
    steps = [(s, d) for s, d in zip(free._s, free._d, strict=True) if d and not ints.is_one(s)]
    if total < 0 or free._kind != INTS or min(free._d, default=0) < 0:
        return composed(f, total, free), 0
    masks = [_span(d & -d, (s - 1) * d) for s, d in steps]
    if not gf2.disjoint([total, *masks]):
        return composed(f, total, free), 0
    inside = total & f.swizzle_code
    outside = total ^ inside
    active = sum(masks) & f.swizzle_code
    if not gf2.disjoint([f(1 << bit) for bit in _set_bits(active)]):
        return composed(f, inside, free), outside
    origin = f(inside)
    steps = [f(inside ^ 1 << bit) - origin for bit in range(f.bits)]
    form = Layout((*[2] * f.bits, 1), (*steps, f.period))
    try:
        linear = _composition(form, free)
    except LayoutError:
        return composed(f, inside, free), outside
    return linear, origin + outside


# -- other element sizes


def recast_special(operation: str, x: Alike, n: int) -> Alike:
    """Return the map, offset or composed layout in elements n times as large (`upcast`) or as small
    (`downcast`).

    A map of larger elements keeps what it does to whole elements: f(x) // n == result(x // n).
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
