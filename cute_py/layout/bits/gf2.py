"""Linear algebra over F2 on Python ints: a matrix is the list of its columns, and bit r of a column
is the entry in row r.

Addition is XOR, so a matrix times the vector of x's bits is the XOR of the columns at x's set bits.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Pivots = dict[int, tuple[int, int]]  # top bit of a vector -> (vector, columns it is made of)


def apply(columns: Sequence[int], x: int) -> int:
    """Return the XOR of the columns at the set bits of x.

    >>> apply([1, 3, 6], 0b101)
    7
    """
    image = 0
    while x:
        low = x & -x
        image ^= columns[low.bit_length() - 1]
        x ^= low
    return image


def eliminate(columns: Sequence[int]) -> tuple[Pivots, list[int]]:
    """Return a basis of the columns' span, by top bit, and a basis of the kernel.

    Every vector comes with the set of columns (as bits) whose XOR it is; a kernel vector is a set
    of columns whose XOR is 0.

    >>> eliminate([1, 2, 3])
    ({0: (1, 1), 1: (2, 2)}, [7])
    """
    pivots: Pivots = {}
    kernel = []
    for k, column in enumerate(columns):
        vector, made_of = _reduced(pivots, column, 1 << k)
        if vector:
            pivots[vector.bit_length() - 1] = vector, made_of
        else:
            kernel.append(made_of)
    return pivots, kernel


def _reduced(pivots: Pivots, vector: int, made_of: int = 0) -> tuple[int, int]:
    """Cancel top bits of the vector while the basis can."""
    while vector:
        row = pivots.get(vector.bit_length() - 1)
        if row is None:
            break
        vector ^= row[0]
        made_of ^= row[1]
    return vector, made_of


def solve(pivots: Pivots, y: int) -> int | None:
    """Return the x with apply(columns, x) == y, without kernel parts, or None if y is not in the
    span.

    Linear in y: solve(y ^ z) == solve(y) ^ solve(z) wherever both are in the span.
    """
    rest, x = _reduced(pivots, y)
    return None if rest else x


def left_inverse(pivots: Pivots, rows: int) -> list[int]:
    """Return columns R, one for each of `rows` bits, with apply(R, vector) == made_of.

    Bits that are top bit of no basis vector go to 0; that fixes R.
    """
    inverse: list[int] = []
    for row in range(rows):
        vector, made_of = pivots.get(row, (0, 0))
        lower = vector ^ (1 << row) if vector else 0
        inverse.append(made_of ^ apply(inverse, lower))
    return inverse


def largest(pivots: Pivots, start: int) -> int:
    """Return the largest value of start ^ v over the span of the basis."""
    for top in sorted(pivots, reverse=True):
        start = max(start, start ^ pivots[top][0])
    return start


def union(columns: Sequence[int], bits: int) -> int:
    """Return every bit that the columns of `bits` set; beyond the columns, the bits themselves."""
    seen = bits >> len(columns) << len(columns)
    for bit, column in enumerate(columns):
        seen |= column if bits >> bit & 1 else 0
    return seen


def disjoint(columns: Iterable[int]) -> bool:
    """Return whether no two columns share a bit, that is, whether all their sums are XORs.

    Sums of two are XORs only if they share no bit, and then every sum is.
    """
    seen = 0
    for column in columns:
        if column < 0 or column & seen:
            return False
        seen |= column
    return True
