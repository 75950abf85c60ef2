"""`Swizzle(B, M, S)`: the XOR functor on offsets, and what the algebra makes of it.

    0bxxxxxxxYYYxxxxZZZxxxx     M bits are kept, then Z and Y are B bits wide, Y is |S| bits above Z
    (S > 0) or below it (S < 0); 0bxxxxxxxYYYxxxxAAAxxxx     A = Z ^ Y

Source: cutlass include/cute/swizzle.hpp, swizzle_layout.hpp.
"""

from __future__ import annotations

from cute_py.errors import LayoutError, refusal
from cute_py.integers import ints
from cute_py.layout.layout import Layout
from cute_py.layout.tuples import index_of
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf


class Swizzle(Value):
    """The map x -> x ^ shift_right(x & yyy_msk, S) of offsets (elements): a bijection and its own
    inverse.

    Args:
        num_bits: B, how many bits are XORed; 0 is the identity.
        num_base: M, how many low bits stay untouched: 2**M elements stay contiguous.
        num_shft: S, by how many bits Y lies above Z (below it if negative); |S| >= B.

    Law: s(s(x)) == x, and s permutes every aligned run of 2**(M+B+|S|) offsets. Raises LayoutError
    where B or M is negative or |S| < B (Y and Z would overlap).

    >>> s = Swizzle(2, 0, 3)
    >>> print(s, [s(x) for x in (0, 8, 9, 16, 24)])
    Sw<2,0,3> [0, 9, 8, 18, 27]
    """

    __slots__ = ("num_base", "num_bits", "num_shft")
    __match_args__ = ("num_bits", "num_base", "num_shft")
    num_bits: int
    num_base: int
    num_shft: int

    def __init__(self, num_bits: int, num_base: int, num_shft: int) -> None:
        b, m, s = (
            ints.as_int(ints.normalize(x, "Swizzle"), "Swizzle")
            for x in (num_bits, num_base, num_shft)
        )
        if b < 0 or m < 0 or abs(s) < b:
            raise refusal("swizzle-parameters", operation="Swizzle", bits=b, base=m, shift=s)
        self.num_bits = b
        self.num_base = m
        self.num_shft = s

    def __str__(self) -> str:
        return f"Sw<{self.num_bits},{self.num_base},{self.num_shft}>"

    @property
    def yyy_msk(self) -> int:
        """The bits that are read."""
        return ((1 << self.num_bits) - 1) << (self.num_base + max(0, self.num_shft))

    @property
    def zzz_msk(self) -> int:
        """The bits that are changed."""
        return ((1 << self.num_bits) - 1) << (self.num_base - min(0, self.num_shft))

    @property
    def swizzle_code(self) -> int:
        """All bits that take part."""
        return self.yyy_msk | self.zzz_msk

    @property
    def period(self) -> int:
        """The length of the aligned runs of offsets that the swizzle permutes, 2**(M+B+|S|)."""
        return 1 << (self.num_base + self.num_bits + abs(self.num_shft)) if self.num_bits else 1

    def __call__(self, offset: Leaf) -> IntTuple:
        """Return the swizzled offset; `offset` is an int, or a NumPy integer array."""
        active = offset & self.yyy_msk
        shift = self.num_shft
        return offset ^ (active >> shift if shift >= 0 else active << -shift)


def make_swizzle(yyy_msk: int, zzz_msk: int) -> Swizzle:
    """Return the swizzle that XORs the bits `yyy_msk` onto the bits `zzz_msk`.

    Raises LayoutError unless both masks are runs of equally many bits that do not overlap; a mask
    of 0 gives Sw<0,...>. Source: cutlass swizzle.hpp `make_swizzle`.

    >>> print(make_swizzle(0b1000, 0b0100), make_swizzle(0b11000000, 0b00000110))
    Sw<1,2,1> Sw<2,1,5>
    """
    yyy_msk, zzz_msk = index_of(yyy_msk, "make_swizzle"), index_of(zzz_msk, "make_swizzle")
    bits = yyy_msk.bit_count()
    low_y, low_z = _trailing_zeros(yyy_msk), _trailing_zeros(zzz_msk)
    base, shift = min(low_y, low_z) % 32, low_y - low_z
    valid = bits == zzz_msk.bit_count() and abs(shift) >= bits
    if valid and Swizzle(bits, base, shift).swizzle_code == yyy_msk | zzz_msk:
        return Swizzle(bits, base, shift)
    raise refusal("swizzle-masks", operation="make_swizzle", y=bin(yyy_msk), z=bin(zzz_msk))


def _trailing_zeros(mask: int) -> int:
    return (mask & -mask).bit_length() - 1 if mask else 32


# -- other element sizes (dispatched by `recast`)


def upcast_special(x: AnyLayout | Swizzle | int, n: int) -> Alike:
    """Return the swizzle, offset or composed layout in elements n times as large (see
    `recast.upcast`).

    A swizzle of larger elements keeps what it does to whole elements: s(x) // n == result(x // n).
    With S < 0 the bits that would fall below an element drive bits that stay, so there is no such
    swizzle and it is refused.
    """
    if x.__class__ is Swizzle:
        base = x.num_base - _log2(n, "upcast", x)
        if base >= 0:
            return Swizzle(x.num_bits, base, x.num_shft)
        if x.num_shft < 0 and x.num_bits:
            raise refusal(
                "upcast-swizzle", operation="upcast", swizzle=x, n=n, largest=1 << x.num_base
            )
        return Swizzle(max(x.num_bits + base, 0), 0, x.num_shft)
    if x.__class__ is int:
        if x % n:
            raise refusal("upcast-offset", operation="upcast", offset=x, n=n)
        return x // n
    return _each_part("upcast", x, n)


def downcast_special(x: AnyLayout | Swizzle | int, n: int) -> Alike:
    """Return the swizzle, offset or composed layout in elements n times as small (see
    `recast.downcast`).
    """
    if x.__class__ is Swizzle:
        return Swizzle(x.num_bits, x.num_base + _log2(n, "downcast", x), x.num_shft)
    if x.__class__ is int:
        return x * n
    return _each_part("downcast", x, n)


def _each_part(name: str, x: object, n: int) -> Alike:
    from cute_py.layout.algebra import recast
    from cute_py.layout.composed import ComposedLayout, require_composed

    change = getattr(recast, name)
    x = require_composed(x, name)
    return ComposedLayout(change(x.outer, n), change(x.offset, n), change(x.inner, n))


def _log2(n: int, operation: str, swizzle: Swizzle) -> int:
    if n & (n - 1):
        raise refusal("swizzle-factor", operation=operation, swizzle=swizzle, n=n)
    return n.bit_length() - 1


def max_alignment_special(x: AnyLayout | Swizzle | int) -> int:
    """Return how many elements a swizzle, an offset or a composed layout always keeps contiguous (0
    for offset 0: all).
    """
    from math import gcd

    from cute_py.layout.algebra.recast import max_alignment
    from cute_py.layout.composed import require_composed

    if x.__class__ is Swizzle:
        return 1 << x.num_base
    if hasattr(x, "__index__"):
        return abs(index_of(x, "max_alignment"))
    x = require_composed(x, "max_alignment")
    if x.outer.__class__ is not Swizzle:
        return 1
    return gcd(1 << x.outer.num_base, abs(x.offset), max_alignment(x.inner))


# -- common vectors (dispatched by `common`)


def _inner_layouts(a: AnyLayout, b: AnyLayout, operation: str) -> tuple[AnyLayout, AnyLayout]:
    from cute_py.layout.layout import require_layout
    from cute_py.layout.queries import inner_of

    for x in (a, b):
        require_layout(inner_of(x), operation)
    return inner_of(a), inner_of(b)


def max_common_layout_special(a: AnyLayout, b: AnyLayout) -> Alike:
    """Return `max_common_layout` where a or b is swizzled: that of the inner layouts, cut to what
    stays contiguous.
    """
    from cute_py.layout.algebra.common import max_common_layout
    from cute_py.layout.algebra.composition import composition
    from cute_py.layout.layout import Layout

    common = max_common_layout(*_inner_layouts(a, b, "max_common_layout"))
    limit = _contiguous(a, b)
    return (
        common if limit is None or limit >= common.size() else composition(common, Layout(limit, 1))
    )


def max_common_vector_special(a: AnyLayout, b: AnyLayout) -> int:
    """Return `max_common_vector` where a or b is swizzled: that of the inner layouts, cut to what
    stays contiguous.
    """
    from cute_py.layout.algebra.common import max_common_vector

    vector: int = max_common_vector(*_inner_layouts(a, b, "max_common_vector"))
    limit = _contiguous(a, b)
    return vector if limit is None else min(vector, limit)


def _contiguous(a: AnyLayout, b: AnyLayout) -> int | None:
    """Return how many elements stay contiguous under both swizzles; None, all of them, if both are
    the same map.
    """
    from cute_py.layout.composed import ComposedLayout

    parts = [x for x in (a, b) if x.__class__ is ComposedLayout]
    if len(parts) == 2 and parts[0].outer == parts[1].outer and parts[0].offset == parts[1].offset:
        return None
    limits = [_kept_run(part) for part in parts]
    return min(limits)


def _kept_run(part: IntTuple) -> int:
    if part.outer.__class__ is not Swizzle:
        return 1
    run = 1 << part.outer.num_base
    while part.offset % run:
        run //= 2
    return run


# -- when a slice of a swizzled layout is linear after all. If no two bits of the fixed offset and
# of the free modes coincide, sums are XORs, and the swizzle, linear over bits, acts on each part
# alone. A bit of Z then only changes sign where its Y bit is set in the offset, and a bit of Y
# drags its Z bit along. Source: cutlass include/cute/swizzle_layout.hpp `slice_and_offset` (the
# idea; masks and proof are our own)


def decay(swizzle: Swizzle, total: int, free: Layout) -> tuple[Any, int]:
    """Return (sublayout, offset) of c -> swizzle(total + free(c)), a plain Layout where that is
    linear.
    """
    from cute_py.layout.algebra.composition import composition
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
