"""`F2Map`: a linear map of the bits of an offset, the outer map of every swizzled layout.

A `Swizzle` is the short name of the maps whose matrix has ones on the diagonal and on a piece of
one other diagonal. Source: Zhou et al., "Linear Layouts" (arXiv 2505.23819), for layouts as
matrices over F2.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.bits import gf2
from cute_py.layout.tuples import wrong_argument
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cute_py.dtypes.table import Array
    from cute_py.layout.types import IntTuple, Leaf


ARRAY_BITS = 63  # of int64, the sign left out
TRIED = 1 << 16  # the most indices that a check tries


class F2Map(Value):
    """The map of offsets that sends bit b to `columns[b]` and adds by XOR; higher bits stay.

    Args:
        columns: the image of 1, 2, 4, ... (offsets of at least 0). Other bits stay as they are.

    Law: m(x ^ y) == m(x) ^ m(y) for all integers x and y, negative ones in two's complement, and
    m(x + k * period) == m(x) + k * period, which is how symbols are mapped. Equal maps have equal
    columns, one for each bit that takes part. Raises LayoutError for images below 0, and
    UndecidedError for a symbol whose remainder by the period is not known.

    >>> gray = F2Map((1, 3, 6))
    >>> print(gray, [gray(x) for x in range(9)], gray.inverse()(7))
    F2[3x3: 1,3,6] [0, 1, 3, 2, 6, 7, 5, 4, 8] 5
    """

    __slots__ = ("_moves", "columns")
    __match_args__ = ("columns",)
    columns: tuple[int, ...]
    _moves: tuple[tuple[int, int], ...]  # (bits, right shift) of what is XORed onto an offset

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

    @property
    def period(self) -> int:
        """The length of the aligned runs of offsets that the map acts on alike, 2**bits."""
        return 1 << self.bits

    @property
    def masks(self) -> tuple[int, int]:
        """The bits that are read, and all that take part."""
        reads = changes = 0
        for mask, shift in self._moves:
            reads |= mask
            changes |= mask >> shift if shift >= 0 else mask << -shift
        return reads, reads | changes

    def __call__(self, offset: Leaf) -> IntTuple:
        """Return the image of an integer, or of a NumPy integer array entry by entry."""
        if hasattr(offset, "dtype"):
            offset = self._widened(offset)
        elif offset.__class__ is not int:
            return self._of_leaf(offset)
        image = offset
        for mask, shift in self._moves:
            active = offset & mask
            image = image ^ (active >> shift if shift >= 0 else active << -shift)
        return image

    def _of_leaf(self, offset: Leaf) -> IntTuple:
        """Return the image of an integer or symbol: whole periods are added again."""
        offset = ints.normalize(offset, "F2Map", ", or NumPy arrays")
        inside = ints.as_int(ints.mod(offset, self.period), "F2Map")
        return ints.add(ints.sub(offset, inside), self(inside))

    def _widened(self, offset: Array) -> Array:
        """Return the array with 64 bits an entry, so that no shift loses bits."""
        if offset.dtype.kind not in "iu":
            also = ", or NumPy arrays of them"
            kind = f"array of {offset.dtype}"
            raise refusal("leaf-type", operation="F2Map", value=offset, type=kind, also=also)
        if self.bits > ARRAY_BITS:
            raise refusal("f2-wide", operation="F2Map", map=self, bits=self.bits, limit=ARRAY_BITS)
        return offset if offset.dtype.itemsize == 8 else offset.astype("int64")

    def is_bijective(self) -> bool:
        """Return whether no two offsets have the same image."""
        return not gf2.eliminate(self.columns)[1]

    def inverse(self) -> F2Map:
        """Return the inverse map: m.inverse()(m(x)) == x.

        Raises LayoutError, naming two offsets with one image, where the map is not one-to-one.
        """
        pivots, kernel = gf2.eliminate(self.columns)
        if kernel:
            raise refusal("f2-singular", operation="inverse", map=self, other=kernel[0])
        return F2Map(gf2.left_inverse(pivots, self.bits))

    def recast(self, shift: int) -> F2Map:
        """Return the map of elements 2**shift times as large (as small, if negative): its action on
        whole elements.

        Raises LayoutError where bits within a larger element would change the element.
        """
        if shift < 0:
            kept = [1 << bit for bit in range(-shift)]
            return F2Map([*kept, *[column << -shift for column in self.columns]])
        if any(column >> shift for column in self.columns[:shift]):
            untouched = next(k for k, column in enumerate(self.columns) if column >> shift)
            raise refusal(
                "upcast-swizzle",
                operation="upcast",
                swizzle=self,
                n=1 << shift,
                largest=1 << untouched,
            )
        return F2Map([column >> shift for column in self.columns[shift:]])


def images(values: Iterable[Leaf], operation: str) -> list[int]:
    """Return the images of bits as ints; refuse negative ones, whose set bits never end."""
    if (
        isinstance(values, type)
        or getattr(values, "ndim", 1) == 0
        or not hasattr(values, "__iter__")
    ):
        raise wrong_argument(operation, values, "the images of bits", "pass a tuple of integers")
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
