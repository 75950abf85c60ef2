"""`Swizzle(B, M, S)`: the short name of an F2 map that XORs one run of bits onto another.

    0bxxxxxxxYYYxxxxZZZxxxx     M bits are kept, then Z and Y are B bits wide, Y is |S| bits above Z
    (S > 0) or below it (S < 0); 0bxxxxxxxYYYxxxxAAAxxxx     A = Z ^ Y

Source: cutlass include/cute/swizzle.hpp.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.bits.f2 import F2Map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.layout.types import IntTuple, Leaf


MOST = 4096  # bits of the offsets that a swizzle maps


class Swizzle(F2Map):
    """The map x -> x ^ shift_right(x & yyy_msk, S) of offsets (elements): a bijection and its own
    inverse.

    Args:
        num_bits: B, how many bits are XORed; 0 is the identity.
        num_base: M, how many low bits stay untouched: 2**M elements stay contiguous.
        num_shft: S, by how many bits Y is above Z (below it if negative); |S| >= B.

    Law: s(s(x)) == x, and s permutes every aligned run of 2**(M+B+|S|) offsets. Raises LayoutError
    where B or M is negative or |S| < B (Y and Z would overlap).

    >>> s = Swizzle(2, 0, 3)
    >>> print(s, [s(x) for x in (0, 8, 9, 16, 24)])
    Sw<2,0,3> [0, 9, 8, 18, 27]
    """

    __slots__ = ("_reads", "num_base", "num_bits", "num_shft")
    __match_args__ = ("num_bits", "num_base", "num_shft")
    num_bits: int
    num_base: int
    num_shft: int
    _reads: int

    def __init__(self, num_bits: int, num_base: int, num_shft: int) -> None:
        b, m, s = (
            ints.as_int(ints.normalize(x, "Swizzle"), "Swizzle")
            for x in (num_bits, num_base, num_shft)
        )
        if b < 0 or m < 0 or abs(s) < b or b + m + abs(s) > MOST:
            raise refusal("swizzle-parameters", operation="Swizzle", bits=b, base=m, shift=s)
        self.num_bits = b
        self.num_base = m
        self.num_shft = s
        self._reads = ((1 << b) - 1) << (m + max(0, s))

    def __str__(self) -> str:
        return f"Sw<{self.num_bits},{self.num_base},{self.num_shft}>"

    @property
    def yyy_msk(self) -> int:
        """The bits that are read."""
        return self._reads

    @property
    def zzz_msk(self) -> int:
        """The bits that are changed."""
        return ((1 << self.num_bits) - 1) << (self.num_base - min(0, self.num_shft))

    @property
    def swizzle_code(self) -> int:
        """All bits that take part."""
        return self.yyy_msk | self.zzz_msk

    @property
    def bits(self) -> int:
        """How many low bits take part, M+B+|S|, or 0 for the identity."""
        return self.num_base + self.num_bits + abs(self.num_shft) if self.num_bits else 0

    @property
    def columns(self) -> tuple[int, ...]:  # type: ignore[override]
        """The images of 1, 2, 4, ..., one for each bit that takes part."""
        return tuple([self(1 << bit) for bit in range(self.bits)])

    @property
    def _moves(self) -> tuple[tuple[int, int], ...]:  # type: ignore[override]
        return ((self.yyy_msk, self.num_shft),) if self.num_bits else ()

    def __call__(self, offset: Leaf) -> IntTuple:
        """Return the swizzled offset; `offset` is an integer, or a NumPy integer array."""
        if offset.__class__ is not int and not hasattr(offset, "__and__"):
            return self._of_leaf(offset)
        active = offset & self._reads
        shift = self.num_shft
        return offset ^ (active >> shift if shift >= 0 else active << -shift)

    def is_bijective(self) -> bool:
        """Return True: a swizzle is its own inverse."""
        return True

    def inverse(self) -> Swizzle:
        """Return the swizzle itself."""
        return self

    def recast(self, shift: int) -> F2Map:
        """Return the swizzle of elements 2**shift times as large, with the same S."""
        base = self.num_base - shift
        if base < 0 and self.num_shft < 0 and shift < self.bits:
            return super().recast(shift)
        return Swizzle(max(self.num_bits + min(base, 0), 0), max(base, 0), self.num_shft)


def make_swizzle(yyy_msk: int, zzz_msk: int) -> Swizzle:
    """Return the swizzle that XORs the bits `yyy_msk` onto the bits `zzz_msk`.

    Raises LayoutError unless both masks are runs of equally many bits that do not overlap; a mask
    of 0 gives Sw<0,...>. Source: cutlass swizzle.hpp `make_swizzle`.

    >>> print(make_swizzle(0b1000, 0b0100), make_swizzle(0b11000000, 0b00000110))
    Sw<1,2,1> Sw<2,1,5>
    """
    operation = "make_swizzle"
    y, z = [ints.as_int(ints.normalize(x, operation), operation) for x in (yyy_msk, zzz_msk)]
    found = swizzle_of(y, z)
    if found is None:
        raise refusal("swizzle-masks", operation=operation, y=bin(y), z=bin(z))
    return found


def swizzle_of(yyy_msk: int, zzz_msk: int) -> Swizzle | None:
    """Return the swizzle of two masks, None if no swizzle has them."""
    bits = yyy_msk.bit_count()
    low_y, low_z = _trailing_zeros(yyy_msk), _trailing_zeros(zzz_msk)
    base, shift = min(low_y, low_z) % 32, low_y - low_z
    valid = bits == zzz_msk.bit_count() and abs(shift) >= bits
    if valid and Swizzle(bits, base, shift).swizzle_code == yyy_msk | zzz_msk:
        return Swizzle(bits, base, shift)
    return None


def _trailing_zeros(mask: int) -> int:
    return (mask & -mask).bit_length() - 1 if mask else 32


def f2_map(columns: Iterable[int]) -> F2Map:
    """Return the map with these columns: a Swizzle where one fits.

    A Swizzle fits if the bits that are XORed onto others form a single diagonal, from one run of
    bits to a disjoint run.
    """
    x = F2Map(columns)
    if not x._moves:
        return Swizzle(0, 0, 0)
    mask, shift = x._moves[0]
    base = (mask & -mask).bit_length() - 1
    bits = mask.bit_count()
    if len(x._moves) > 1 or bits > abs(shift) or mask >> base != (1 << bits) - 1:
        return x
    return Swizzle(bits, base - max(0, shift), shift)


def compose_swizzles(a: F2Map, b: F2Map) -> F2Map:
    """Return the map x -> a(b(x)) of two maps of offsets: a Swizzle where one fits, else an
    F2Map.

    Args:
        a: Swizzle or F2Map, applied last.
        b: Swizzle or F2Map, applied first.

    Two maps that cancel give Sw<0,0,0>. Raises LeafTypeError for operands of other kinds.
    Source: cutlass swizzle.hpp `composition(Swizzle, Swizzle)` merges swizzles of equal S by their
    masks; matrices cover the rest.

    >>> print(compose_swizzles(Swizzle(1, 0, 3), Swizzle(1, 1, 3)))
    Sw<2,0,3>
    >>> print(compose_swizzles(Swizzle(1, 0, 1), Swizzle(1, 1, 1)))
    F2[3x3: 1,3,7]
    """
    operands: tuple[object, ...] = (a, b)
    for operand in operands:
        if not isinstance(operand, F2Map):
            kind = type(operand).__name__
            raise refusal("f2-no-map", operation="composition", value=operand, type=kind)
    bits = max(a.bits, b.bits)
    return f2_map([a(b(1 << bit)) for bit in range(bits)])
