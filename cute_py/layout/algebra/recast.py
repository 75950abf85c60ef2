"""The same memory in other element sizes: upcast, downcast, recast_layout, max_alignment.

Source: cutlass include/cute/layout.hpp, swizzle_layout.hpp.
"""

from __future__ import annotations

from math import gcd

from cute_py.errors import LayoutError, refusal
from cute_py.integers import ints
from cute_py.layout import special
from cute_py.layout.algebra.coalesce import coalesce
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.layout import Layout, made, nested
from cute_py.layout.queries import leaf_path
from cute_py.layout.tuples import transform_leaf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.bits.swizzle import Swizzle
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf, Same


def upcast(x: Same, n: int) -> Same:
    """Return the layout in elements n times as large: offsets divided by n, runs of contiguous
    elements merged.

    Args:
        x: Layout, ComposedLayout, Swizzle or offset, in elements.
        n: how many old elements make a new one.

    Law: upcast(L, n)(c // group) == (L(c) + o) // n for every c, where group is, mode by mode, the
    number of neighbours that share a new element, and o is how far strides below 0 lead back in the
    element of offset 0, which without them is 0. Raises LayoutError, naming the mode, where a
    stride neither divides n nor is a multiple of it, and where the parts below n of several modes
    add up to n or more. Source: cutlass layout.hpp `upcast`.

    >>> print(upcast(Layout((8, 4), (1, 8)), 4), upcast(Layout((8, 4), (4, 1)), 2))
    (2,4):(1,2) (8,2):(2,1)
    """
    n = _factor(n, "upcast")
    if x.__class__ is not Layout:
        return _special("upcast", x, n)
    used = 0
    for k, (extent, step) in enumerate(zip(x._s, x._d, strict=True)):
        used += _below(x, k, extent, getattr(step, "value", step), n)
    if used >= n:
        raise refusal("upcast-overlap", operation="upcast", layout=x, n=n, used=used)
    shape = transform_leaf(lambda s, d: _coarser_extent(s, d, n), x.shape, x.stride)
    stride = transform_leaf(lambda d: _coarser_stride(d, n), x.stride)
    return made(Layout(shape, stride), "upcast", x, n)


def _below(layout: Layout, leaf: int, extent: Leaf, step: Leaf, n: int) -> int:
    """Return the largest part of an offset below n that this mode adds; refuse a stride that does
    not fit n.
    """
    if ints.is_zero(step) or ints.is_one(extent):
        return 0
    step = ints.abs_(step)
    if ints.divides(n, step):
        return 0
    if not ints.settle(ints.divides, step, n, "upcast"):
        if ints.is_one(extent) is None:
            ints.settle(ints.less, 1, extent, "upcast")
        raise refusal(
            "upcast-stride",
            operation="upcast",
            layout=layout,
            n=n,
            stride=step,
            mode=leaf_path(layout.shape, leaf),
            alignment=gcd(n, ints.as_int(step, "upcast")),
        )
    run = ints.min_(extent, ints.div(n, step))
    return ints.as_int(ints.mul(ints.sub(run, 1), step), "upcast")


def _coarser_extent(extent: Leaf, step: Leaf, n: int) -> IntTuple:
    step = getattr(step, "value", step)
    if ints.is_zero(step) or ints.divides(n, step):
        return extent
    return ints.ceil_div(extent, ints.ceil_div(n, ints.abs_(step)))


def _coarser_stride(step: Leaf, n: int) -> IntTuple:
    if step.__class__ is ScaledBasis:
        return step.__class__(_coarser_stride(step.value, n), step.path)
    if ints.is_zero(step) or ints.divides(n, step):
        return ints.div(step, n)
    return 1 if ints.settle(ints.less, 0, step, "upcast") else -1


def downcast(x: Same, n: int) -> Same:
    """Return the layout in elements n times as small: the mode of stride 1 grows, all other strides
    are multiplied.

    Args:
        x: Layout, ComposedLayout, Swizzle or offset, in elements.
        n: into how many new elements an old one is split.

    Law: downcast(L, n) at (n*c + j) in the stride-1 mode is n*L(c) + j for j < n. A mode of stride
    -1 becomes two: the parts of an element are in rising order, the elements in falling order.
    Raises LayoutError where no mode, or more than one mode of more than one element, has stride 1
    or -1. Source: cutlass layout.hpp `downcast`.

    >>> print(downcast(Layout((8, 4), (4, 1)), 2), downcast(Layout((4, 2), (-1, 4)), 2))
    (8,8):(8,1) ((2,4),2):((1,-2),8)
    """
    n = _factor(n, "downcast")
    if x.__class__ is not Layout:
        return _special("downcast", x, n)
    units = _units(x)
    several = n > 1 and len(units) > 1
    wide = [k for k in units if several and ints.settle(ints.less, 1, x._s[k], "downcast")]
    if not units or len(wide) > 1:
        raise refusal("downcast-unit", operation="downcast", layout=x, n=n, count=len(units))
    leaf = (wide or units)[0]
    modes = [[(s, ints.mul(d, n))] for s, d in zip(x._s, x._d, strict=True)]
    modes[leaf] = _split_unit(x._s[leaf], x._d[leaf], n)
    return made(nested(x, modes), "downcast", x, n)


def _split_unit(extent: Leaf, step: Leaf, n: int) -> list[tuple[Leaf, Leaf]]:
    """Return the modes of the parts of elements of stride 1 or -1."""
    unit = step.value if step.__class__ is ScaledBasis else step
    if n == 1 or not ints.less(unit, 0):
        return [(ints.mul(extent, n), step)]
    parts = (n, ints.neg(step))
    return [parts] if ints.is_one(extent) else [parts, (extent, ints.mul(step, n))]


def _units(layout: Layout) -> list[int]:
    """Return the leaves of stride 1 or -1. A stride that may be 1 is decided, unless its mode
    continues the mode of stride 1: then both ways to split are the same map.
    """
    units: list[int] = []
    for k, step in enumerate(layout._d):
        step = step.value if step.__class__ is ScaledBasis else step
        unit = ints.same(step, -1) if ints.less(step, 0) else ints.is_one(step)
        if unit is None and not _runs_on(layout, units, k, step):
            unit = not ints.settle(ints.less, 1, step, "downcast")
        if unit:
            units.append(k)
    return units


def _runs_on(layout: Layout, units: list[int], leaf: int, step: Leaf) -> bool:
    if not units or layout._d[leaf].__class__ is ScaledBasis:
        return False
    between = layout._s[units[-1] + 1 : leaf]
    return bool(ints.same(step, layout._s[units[-1]])) and all(map(ints.is_one, between))


def recast_layout(x: Same, old: object, new: object) -> Same:
    """Return the layout of the same memory read in elements of `new` bits instead of `old` bits.

    Args:
        x: Layout, ComposedLayout or Swizzle, in elements of `old`.
        old: bits of an element (or a dtype).
        new: bits of an element (or a dtype).

    Law: upcast by new/old, downcast by old/new, or both (upcast first) where neither divides the
    other. Raises what `upcast` and `downcast` raise. Source: cutlass layout.hpp `recast_layout`.

    >>> layout = Layout((8, 4), (1, 8))
    >>> print(recast_layout(layout, 16, 32), recast_layout(layout, 16, 8))
    (4,4):(1,4) (16,4):(1,16)
    """
    old_bits, new_bits = (_factor(getattr(b, "bits", b), "recast_layout") for b in (old, new))
    common = gcd(old_bits, new_bits)
    up, down = new_bits // common, old_bits // common
    if up > 1:
        x = upcast(x, up)
    return downcast(x, down) if down > 1 else x


def max_alignment(x: AnyLayout | Swizzle | int) -> int:
    """Return the largest n for which upcast(x, n) keeps every element whole: how many elements are
    always contiguous.

    Source: cutlass layout.hpp `max_alignment`; for a swizzle 2**M, for Swizzle o offset o layout
    the gcd of the three.

    >>> max_alignment(Layout((8, 4), (1, 8))), max_alignment(Layout((8, 4), (1, 12)))
    (32, 4)
    """
    if x.__class__ is not Layout:
        return _special("max_alignment", x, None)
    from cute_py.layout.algebra.common import require_offsets
    from cute_py.layout.algebra.divide import logical_divide
    from cute_py.layout.algebra.inverse import right_inverse

    require_offsets("max_alignment", x)
    flat = coalesce(x)
    contiguous = right_inverse(flat)
    if contiguous.size() == flat.size():
        return ints.as_int(contiguous.size(), "max_alignment")
    steps = [contiguous.size(), *logical_divide(flat, contiguous)[1]._d]
    n = gcd(*[ints.as_int(step, "max_alignment") for step in steps])
    # (2,2,3):(1,3,2) has runs of 3 elements, but no mode ends with one: not all n can be upcast by
    return next(m for m in range(n, 0, -1) if n % m == 0 and (m == 1 or _keeps_whole(x, m)))


def _keeps_whole(layout: Layout, n: int) -> bool:
    """Return whether upcast by n accepts the layout."""
    try:
        upcast(layout, n)
    except LayoutError:
        return False
    return True


def _factor(n: Leaf, operation: str) -> int:
    value = ints.as_int(ints.normalize(n, operation), operation)
    if value < 1:
        raise refusal("extent-not-positive", operation=operation, value=value, mode=())
    return value


def _special(name: str, x: Alike, n: Leaf) -> Alike:
    return special.alignment_of(x) if n is None else special.recast_special(name, x, n)
