"""`F2Map`: a linear map of the bits of an offset, what two swizzles compose into when no `Swizzle`
fits.

A `Swizzle` is the matrix with ones on the diagonal and on a piece of one other diagonal.
Source: Zhou et al., "Linear Layouts" (arXiv 2505.23819), for layouts as matrices over F2.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.bits import gf2
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeGuard

    from cute_py.dtypes.table import Array
    from cute_py.layout.types import IntTuple, Leaf


ARRAY_BITS = 63  # of int64, the sign left out


class F2Map(Value):
    """The map of offsets that sends bit b to `columns[b]` and adds by XOR; higher bits stay.

    Args:
        columns: the image of 1, 2, 4, ... (offsets of at least 0). Left out bits stay as they are.

    Law: m(x ^ y) == m(x) ^ m(y) for all integers x and y, negative ones in two's complement.
    Equal maps have equal columns, one for each bit that takes part. Raises LayoutError for images
    below 0.

    >>> gray = F2Map((1, 3, 6))
    >>> print(gray, [gray(x) for x in range(9)], gray.inverse()(7))
    F2[3x3: 1,3,6] [0, 1, 3, 2, 6, 7, 5, 4, 8] 5
    """

    __slots__ = ("_moves", "columns")
    __match_args__ = ("columns",)
    columns: tuple[int, ...]
    _moves: tuple[tuple[int, int], ...]

    def __init__(self, columns: Iterable[int]) -> None:
        given = images(columns, "F2Map")
        self.columns = _trimmed(given)
        self._moves = _moves(self.columns)

    def __str__(self) -> str:
        text = ",".join([str(column) for column in self.columns])
        return f"F2[{self.bits}x{self.bits}: {text}]"

    @property
    def bits(self) -> int:
        """How many low bits take part: the map permutes or collapses aligned runs of 2**bits."""
        return len(self.columns)

    def __call__(self, offset: Leaf) -> IntTuple:
        """Return the image of an int, or of a NumPy integer array entry by entry."""
        if hasattr(offset, "dtype"):
            offset = self._widened(offset)
        else:
            offset = ints.as_int(ints.normalize(offset, "F2Map", ", or NumPy arrays"), "F2Map")
        image = offset
        for mask, shift in self._moves:
            active = offset & mask
            image = image ^ (active >> shift if shift >= 0 else active << -shift)
        return image

    def _widened(self, offset: Array) -> Array:
        """Return the array with 64 bits an entry, so that no shift loses bits."""
        if offset.dtype.kind not in "iu":
            also = ", or NumPy arrays of them"
            kind = f"array of {offset.dtype}"
            raise refusal("leaf-type", operation="F2Map", value=offset, type=kind, also=also)
        if self.bits > ARRAY_BITS:
            raise refusal("f2-wide", operation="F2Map", map=self, bits=self.bits, limit=ARRAY_BITS)
        return offset if offset.dtype.itemsize == 8 else offset.astype("int64")

    def inverse(self) -> F2Map:
        """Return the map that undoes this one: m.inverse()(m(x)) == x.

        Raises LayoutError, naming two offsets with one image, where the map is not one-to-one.
        """
        pivots, kernel = gf2.eliminate(self.columns)
        if kernel:
            raise refusal("f2-singular", operation="inverse", map=self, other=kernel[0])
        return F2Map(gf2.left_inverse(pivots, self.bits))


def images(values: Iterable[Leaf], operation: str) -> list[int]:
    """Return the images of bits as ints; refuse negative ones, which have no end of set bits."""
    checked = []
    for value in values:
        image = ints.as_int(ints.normalize(value, operation), operation)
        if image < 0:
            raise refusal("f2-negative", operation=operation, value=image)
        checked.append(image)
    return checked


def _trimmed(columns: list[int]) -> tuple[int, ...]:
    """Return the fewest columns such that all higher bits neither change nor are reached."""
    count = len(columns)
    while count and columns[count - 1] == 1 << (count - 1):
        count -= 1
    bits = max([count, *[column.bit_length() for column in columns[:count]]])
    return (*columns[:count], *[1 << bit for bit in range(count, bits)])


def _moves(columns: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return (bits, right shift) of the diagonals to XOR onto an offset, as in a swizzle."""
    masks: dict[int, int] = {}
    for bit, column in enumerate(columns):
        change = column ^ (1 << bit)
        while change:
            row = change.bit_length() - 1
            masks[bit - row] = masks.get(bit - row, 0) | 1 << bit
            change ^= 1 << row
    return tuple([(mask, shift) for shift, mask in sorted(masks.items())])


# -- maps of offsets: a Swizzle or an F2Map


def is_map(x: object) -> TypeGuard[Swizzle | F2Map]:
    """Return whether x is a map of offsets that is linear over F2: a Swizzle or an F2Map."""
    return x.__class__ is Swizzle or x.__class__ is F2Map


def compose_maps(outer: Swizzle | F2Map, inner: Swizzle | F2Map) -> Swizzle | F2Map:
    """Return the map x -> outer(inner(x)) of two maps of offsets: a Swizzle where one fits.

    Args:
        outer: Swizzle or F2Map, applied last.
        inner: Swizzle or F2Map, applied first.

    Two maps that cancel give Sw<0,0,0>. Raises LeafTypeError for operands of other kinds.
    Source: cutlass swizzle.hpp `composition(Swizzle, Swizzle)` merges swizzles of equal S by their
    masks; matrices cover the rest.

    >>> print(compose_maps(Swizzle(1, 0, 3), Swizzle(1, 1, 3)))
    Sw<2,0,3>
    >>> print(compose_maps(Swizzle(1, 0, 1), Swizzle(1, 1, 1)))
    F2[3x3: 1,3,7]
    """
    for operand in (outer, inner):
        if not is_map(operand):
            kind = type(operand).__name__
            raise refusal("f2-no-map", operation="composition", value=operand, type=kind)
    bits = max(bits_of(outer), bits_of(inner))
    product = F2Map([outer(inner(1 << bit)) for bit in range(bits)])
    swizzle = as_swizzle(product)
    return product if swizzle is None else swizzle


def compose_swizzles(a: Swizzle, b: Swizzle) -> Swizzle | F2Map:
    """Return the map x -> a(b(x)): a Swizzle where one fits, else an F2Map; see `compose_maps`.

    >>> print(compose_swizzles(Swizzle(2, 0, 3), Swizzle(2, 0, 3)))
    Sw<0,0,0>
    """
    return compose_maps(a, b)


def bits_of(x: Swizzle | F2Map) -> int:
    """Return how many low bits of an offset the map reads or changes."""
    return x.swizzle_code.bit_length() if x.__class__ is Swizzle else x.bits  # type: ignore[union-attr]


def moves_of(x: Swizzle | F2Map) -> tuple[tuple[int, int], ...]:
    """Return (bits, right shift) of what the map XORs onto an offset."""
    return ((x.yyy_msk, x.num_shft),) if x.__class__ is Swizzle else x._moves  # type: ignore[union-attr]


def as_swizzle(x: F2Map) -> Swizzle | None:
    """Return the Swizzle that is this map, or None.

    It is one if what bits add to themselves is a run of single bits on one diagonal, from a run of
    bits that is disjoint from it.
    """
    if not x._moves:
        return Swizzle(0, 0, 0)
    mask, shift = x._moves[0]
    base = (mask & -mask).bit_length() - 1
    bits = mask.bit_count()
    if len(x._moves) > 1 or bits > abs(shift) or mask >> base != (1 << bits) - 1:
        return None
    return Swizzle(bits, base - max(0, shift), shift)
