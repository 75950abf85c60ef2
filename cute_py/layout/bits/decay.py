"""When a slice of a swizzled layout is linear after all: the plain layout that it decays to.

If no two bits of the fixed offset and of the free modes coincide, sums are XORs, and the swizzle,
linear over bits, acts on each part alone. A bit of Z then only changes sign where its Y bit is set
in the offset, and a bit of Y drags its Z bit along. Source: cutlass include/cute/swizzle_layout.hpp
`slice_and_offset` (the idea; masks and proof are our own).
"""

from __future__ import annotations

from cute_py.errors import LayoutError
from cute_py.layout.algebra.composition import composition
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def decay(swizzle: Swizzle, total: int, free: Layout) -> tuple[Any, int]:
    """Return (sublayout, offset) of c -> swizzle(total + free(c)), a plain Layout where that is
    linear.
    """
    from cute_py.layout.composed import composed

    masks = [bit_mask(s, d) for s, d in zip(free._s, free._d, strict=True)]
    if total < 0 or free._kind or not _disjoint([total, *masks]):
        return composed(swizzle, total, free), 0
    inside = total & swizzle.swizzle_code
    outside = total ^ inside
    active = sum(masks) & swizzle.swizzle_code  # type: ignore[arg-type]
    if active & ~swizzle(active):
        return composed(swizzle, inside, free), outside
    try:
        linear = composition(_linear_form(swizzle, inside), free)
    except LayoutError:
        return composed(swizzle, inside, free), outside
    return linear, swizzle(inside) + outside


def bit_mask(extent: int, stride: int) -> int | None:
    """Return the bits that i*stride can set for i < extent, or a few more; None for a negative
    stride.
    """
    if stride < 0:
        return None
    if extent == 1 or stride == 0:
        return 0
    low = (stride & -stride).bit_length() - 1
    high = ((extent - 1) * stride).bit_length()
    return (1 << high) - (1 << low)


def _disjoint(masks: list[int | None]) -> bool:
    seen = 0
    for mask in masks:
        if mask is None or mask & seen:
            return False
        seen |= mask
    return True


def _linear_form(swizzle: Swizzle, offset: int) -> Layout:
    """Return the layout x -> swizzle(offset ^ x) - swizzle(offset) on single bits x: its strides,
    bit by bit.
    """
    bits, base, gap = swizzle.num_bits, swizzle.num_base, abs(swizzle.num_shft)
    origin = swizzle(offset)

    def steps(first: int) -> tuple[int, ...]:
        return tuple([swizzle(offset ^ (1 << (first + i))) - origin for i in range(bits)])

    shape = (1 << base, (2,) * bits, 1 << (gap - bits), (2,) * bits, 1)
    stride = (1, steps(base), 1 << (base + bits), steps(base + gap), 1 << (base + bits + gap))
    return Layout(shape, stride)
