"""A map of offsets before a layout as a map after it: g(layout(k)) == layout(f(k)).

Where a layout maps the bits of an index to disjoint bits of an offset, it is a matrix, and g is f
in other coordinates. A map preserves all values that it does not touch: multiples of its period,
f(x + k*P) == f(x) + k*P, and sums that have no bit in common with what it reads and changes. So
modes with these values may have any extent, including symbols.
"""

from __future__ import annotations

from cute_py.integers import ints
from cute_py.layout.algebra.coalesce import coalesced_beyond
from cute_py.layout.bits import gf2
from cute_py.layout.bits.swizzle import Swizzle, f2_map, swizzle_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cute_py.layout.bits.f2 import F2Map
    from cute_py.layout.layout import Layout
    from cute_py.layout.types import Leaf

    Modes = list[tuple[Any, Any]]  # (extent, stride)


def passed(
    layout: Layout, f: F2Map, count: Leaf, used: int = -1, added: Modes | None = None
) -> F2Map | None:
    """Return the map g with g(layout(k) + x) == layout(f(k)) + x; None if no map is known.

    Args:
        layout: a Layout, whose last mode is unbounded.
        f: the map that is applied first.
        count: for all k below it.
        used: and only for k with bits within this mask.
        added: modes whose values are the x; by default x is 0.

    """
    below = (1 << (count - 1).bit_length()) - 1 if count.__class__ is int else -1
    bits = below & used
    others = list(added or [])
    images, above = _index_bits(layout, max(f.bits, 0 if bits < 0 else bits.bit_length()), count)
    if bits < 0 or bits.bit_length() > len(images):  # what is above is not made of bits
        images, above = _index_bits(layout, f.bits, count)
        bits, others = bits & (1 << f.bits) - 1, [*others, *([(2, -1)] if above is None else above)]
    for g in (named_by_masks(layout, f), _conjugate(images, f, bits)):
        if g is not None and _serves(g, images, f, bits, others):
            return g
    return None


def _index_bits(layout: Layout, bits: int, count: Leaf) -> tuple[list[int], Modes | None]:
    """Return the offsets of the indices 1, 2, 4, ... below 2**bits, as far as modes are made of
    whole bits, and the modes of all indices above; None where the bits end before.
    """
    images: list[int] = []
    above: Modes = []
    s, d = coalesced_beyond(layout)
    last = len(s) - 1
    rest = count
    for k, (extent, step) in enumerate(zip(s, d, strict=True)):
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


def named_by_masks(layout: Layout, f: F2Map) -> F2Map | None:
    """Return the swizzle of the images of all bits that a swizzle reads and of those that it
    changes, as CuTe names the result.
    """
    if f.__class__ is not Swizzle:
        return None
    y, z = layout(f.yyy_msk), layout(f.zzz_msk)
    return swizzle_of(y, z) if y.__class__ is z.__class__ is int and min(y, z) >= 0 else None


def _conjugate(images: list[int], f: F2Map, bits: int) -> F2Map | None:
    """Return the map that acts on the images of the bits of `bits` as f acts on these bits."""
    involved = involved_bits(f, bits)
    if involved.bit_length() > len(images):
        return None
    parts = [images[bit] for bit in set_bits(involved)]
    if min(parts, default=0) < 0:
        return None
    columns = [1 << bit for bit in range(sum(parts).bit_length())]
    for bit in set_bits(bits & involved):
        change = gf2.apply(images, f(1 << bit)) ^ images[bit]
        if not change:
            continue
        if not images[bit]:
            return None
        columns[next(set_bits(images[bit]))] ^= change
    return f2_map(columns)


def involved_bits(f: F2Map, bits: int) -> int:
    """Return which bits f reads or changes when only those of `bits` may be set."""
    involved = 0
    for bit in set_bits(bits):
        column = f(1 << bit)
        involved |= column | 1 << bit if column != 1 << bit else 0
    return involved


def _serves(g: F2Map, images: list[int], f: F2Map, bits: int, others: Modes) -> bool:
    """Return whether g is known to act on the images of the bits of `bits` as f acts on these bits,
    and to preserve the values of `others`.

    Images that share no bit with another one are a matrix, which is compared; no sum of the rest
    may set or carry into a bit of these.
    """
    involved = involved_bits(f, bits)
    if not involved and not g.bits:
        return True
    if max(involved, bits).bit_length() > len(images):
        return False
    idle = {bit: images[bit] for bit in set_bits(bits & ~involved)}
    reads, touched = g.masks
    if not involved and is_clear([*[(2, image) for image in idle.values()], *others], reads):
        return True
    apart = [images[bit] for bit in set_bits(involved)]
    once = shared = 0
    for image in [*apart, *idle.values()]:
        once, shared = once | image, shared | once & image
    for bit, image in list(idle.items()):
        if not image & shared:
            involved |= 1 << bit
            apart.append(idle.pop(bit))
    rest = [*[(2, image) for image in idle.values()], *others]
    return (
        gf2.disjoint(apart)
        and is_clear(rest, touched | sum(apart))
        and all(g(images[k]) == gf2.apply(images, f(1 << k)) for k in set_bits(involved & bits))
    )


def is_clear(modes: Modes, touched: int) -> bool:
    """Return whether sums of these modes are known to leave the bits of `touched` clear."""
    mask = bits_of(modes, touched.bit_length())
    return mask >= 0 and not mask & touched


def bits_of(modes: Modes, period: int) -> int:
    """Return the bits below `period` that sums of these modes can set, or more; -1 if that is not
    known. Where two modes share bits, a sum can carry into all bits up to the largest.
    """
    groups: list[tuple[int, int]] = []  # (lowest bit, largest sum)
    taken = 0
    for extent, step in modes:
        if ints.is_one(extent) or ints.divides(1 << period, step):
            continue
        if extent.__class__ is not int or step.__class__ is not int or step < 0:
            return -1
        low, top = step & -step, (extent - 1) * step
        while span(low, top) & taken:
            met = next(group for group in groups if span(low, top) & span(*group))
            groups.remove(met)
            taken &= ~span(*met)
            low, top = min(low, met[0]), top + met[1]
        groups.append((low, top))
        taken |= span(low, top)
    return sum([span(*group) for group in groups])


def span(low: int, top: int) -> int:
    """Return the bits from that of `low` on that numbers up to `top` can have."""
    return (1 << top.bit_length()) - low


def mask_of(offset: Leaf, inner: Layout) -> int:
    """Return the bits that offset + inner(c) can set, or more; -1, all, if that is not known."""
    if offset.__class__ is not int or inner._kind:
        return -1
    modes = [*zip(inner._s, inner._d, strict=True), (2, offset)]
    return bits_of([mode for mode in modes if mode[1]], inner.cosize().bit_length() + 64)


def set_bits(mask: int) -> Iterator[int]:
    """Yield the set bits of a mask, the lowest first."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
