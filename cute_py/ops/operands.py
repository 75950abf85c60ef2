"""Matrices made ready for a kernel: batched, and copied where their strides require it."""

from __future__ import annotations

from itertools import zip_longest
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cute_py.atoms.tensor_map import MOST_PITCH
from cute_py.calls.arrays import (
    VECTOR_BYTES,
    TypedArray,
    address_of,
    imported,
    strides_of,
    unwrapped,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.dtypes.table import Dtype
    from cute_py.ops.libraries import Library

LINE = 128  # bytes of the L2 cache that are kept together


def ready(library: Library, x: Any, batch: tuple[int, ...], kind: Dtype | None = None) -> Any:
    """Return (..., rows, columns) as [L, rows, columns] that a kernel can read; L counts the batch.

    One of the last two modes must be contiguous, the other must not overlap it, and no stride may
    be negative: a view where that holds, else a copy. With the type of its elements, the rows of a
    copy on a GPU begin at multiples of 16 bytes, so that TMA reads them.
    """
    rows, columns = x.shape[-2:]
    whole = prod(batch), rows, columns
    if prod(x.shape[:-2]) == 1:
        x = library.spread(x.reshape((rows, columns)) if len(x.shape) > 2 else x, whole)
    else:
        x = library.spread(x, (*batch, rows, columns)).reshape(whole)
    steps = library.steps(x)
    if steps is not None:
        by_batch, by_row, by_column = steps
        row_major = by_column == 1 and (by_row >= columns or rows == 1)
        column_major = by_row == 1 and (by_column >= rows or columns == 1)
        if row_major or column_major:
            return x
        if by_batch == 0:  # one matrix for the whole batch
            return library.spread(_copied(library, x[:1], kind), x.shape)
    return _copied(library, x, kind)


def _copied(library: Library, x: Any, kind: Dtype | None) -> Any:
    """Return a copy of [L, rows, columns] with contiguous rows."""
    *more, columns = x.shape
    each = VECTOR_BYTES // bytes_each(x)
    if kind is None or library.on_host or columns % each == 0:
        return library.contiguous(x)
    made = library.empty((*more, -(-columns // each) * each), kind)
    made[..., :columns] = x
    return made[..., :columns]


def ready_row(library: Library, x: Any) -> Any:
    """Return a contiguous row."""
    return x if library.steps(x) == (1,) else library.contiguous(x)


def aligned(library: Library, x: Any, kind: Any, major: str, whole: bool) -> Any:
    """Return [L, rows, K] in new memory, in rows that begin at multiples of 128 bytes.

    Args:
        library: of the array.
        x: the array; one matrix for the whole batch stays one.
        kind: type of its elements.
        major: the mode that is contiguous in the copy, "K" or "MN".
        whole: for copies along K, whether K is rounded up to whole vectors, by zeros, and rows
            begin at multiples of 16 bytes.

    """
    batch = x.shape[0]
    if strides_of(x)[0] == 0:
        x = x[:1]
    source = x if major == "K" else x.swapaxes(-1, -2)
    count, rows, columns = source.shape
    each = (VECTOR_BYTES if whole else LINE) * 8 // kind.bits
    made = library.empty((count, rows, -(-columns // each) * each), kind)
    library.assign(made[..., :columns], source)
    if whole:
        made[..., columns:] = 0
    else:
        made = made[..., :columns]
    made = made if major == "K" else made.swapaxes(-1, -2)
    return library.spread(made, (batch, *made.shape[1:]))


# -- facts


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the modes that two batches broadcast to, also those of torch with symbolic sizes.

    Raises ValueError where they do not.

    >>> broadcast((5, 1), (7,)), broadcast((), (2, 3))
    ((5, 7), (2, 3))
    """
    found = []
    for m, n in zip_longest(reversed(a), reversed(b), fillvalue=1):
        if m != n and m != 1 and n != 1:
            raise ValueError
        found.append(n if m == 1 else m)
    return tuple(reversed(found))


class Rows(NamedTuple):
    """How [L, rows, K] is in memory.

    Attributes:
        major: which of rows and K is contiguous: "K" or "MN".
        pitch: what divides the address and the pitches (bytes), at most 16; 0 where no tensor map
            describes it: matrices of the batch share rows, or a pitch is too large.
        alignment: what divides the address of every run of contiguous elements, and its length
            (bytes), at most 16.
        apart: what divides the distance of rows in memory (bytes), at most a line of the L2 cache:
            128 bytes.
        is_one: whether the whole batch shares one matrix.
    """

    major: str
    pitch: int
    alignment: int
    apart: int
    is_one: bool


def rows_of(x: Any) -> Rows:
    """Return how [L, rows, K] is in memory."""
    size, address = bytes_each(x), address_of(x)
    (count, across, along), (by_batch, step, last) = x.shape, strides_of(x)
    major = "K"
    if last != 1:
        major, across, along, step = "MN", along, across, last
    pitch, known, most = gcd(VECTOR_BYTES, address), True, MOST_PITCH // size
    if across > 1:
        pitch, known = gcd(pitch, step * size), along <= step < most
    if count > 1 and by_batch:
        pitch, known = gcd(pitch, by_batch * size), known and along <= by_batch < most
    alignment = gcd(VECTOR_BYTES, address, along * size, step * size, by_batch * size)
    apart = LINE if across == 1 else gcd(LINE, step * size)
    return Rows(major, pitch if known else 0, alignment, apart, by_batch == 0)


def bytes_each(x: Any) -> int:
    """Return the size of an element (bytes)."""
    return int(x.itemsize if hasattr(x, "itemsize") else x.element_size())


def is_rows(x: Any) -> bool:
    """Tell whether [L, rows, columns] has contiguous rows, none of which overlap."""
    (count, rows, columns), (by_batch, by_row, by_column) = x.shape, strides_of(x)
    apart = rows == 1 or by_row >= columns
    alone = count == 1 or by_batch >= (rows - 1) * by_row + columns
    return by_column == 1 and apart and alone


def is_apart(x: Any) -> bool:
    """Tell whether no two elements share memory."""
    steps = sorted((abs(s), n) for n, s in zip(x.shape, strides_of(x), strict=True) if n > 1)
    end = 1
    for step, n in steps:
        if step < end:  # between the elements of another mode: count the offsets
            last = sum([(n - 1) * step for step, n in steps])
            few = prod(x.shape) <= last + 1
            return 0 in x.shape or (few and len(np.unique(_offsets(steps))) == prod(x.shape))
        end += (n - 1) * step
    return True


def _offsets(steps: list[tuple[int, int]]) -> Any:  # an array
    """Return the offsets of all elements, of (stride, extent) of each mode."""
    offsets = np.zeros(1, np.int64)
    for step, n in steps:
        offsets = np.add.outer(offsets, step * np.arange(n)).ravel()
    return offsets


def span(x: Any) -> tuple[int, int]:
    """Return where an array begins and ends, from the address of its first element on (bytes)."""
    steps = [(n - 1) * step for n, step in zip(x.shape, strides_of(x), strict=True)]
    size = bytes_each(x)
    low, high = sum([min(0, s) for s in steps]), sum([max(0, s) for s in steps])
    return low * size, (high + 1) * size


def shown(x: Any) -> str:  # a shape
    """Return a shape as text.

    >>> shown((3, 4)), shown((5,))
    ('(3,4)', '(5)')
    """
    return "(" + ",".join(map(str, x)) + ")"


# -- operands of one mode, as numpy.matmul takes them

ROW, COLUMN = (Ellipsis, None, slice(None)), (Ellipsis, None)


def as_matrices(given: Any) -> tuple[Any, Callable[[Any], Any]] | None:
    """Return the request of a product whose operands are matrices, and the function that takes the
    modes from its result which they did not have; None where they have all.

    >>> from collections import namedtuple
    >>> given = namedtuple("Given", "a b c out")([1.0, 2.0], [[3.0], [4.0]], None, None)
    >>> request, without = as_matrices(given)
    >>> request.a.shape, without(np.ones((1, 1))).shape
    ((1, 2), (1,))
    """
    is_row, is_column = (_modes(x) == 1 for x in (given.a, given.b))
    if not is_row and not is_column:
        return None
    terms = {x: getattr(given, x) for x in ("c", "out")}
    made = {name: x for name, x in terms.items() if x is not None and (_modes(x) or name == "out")}
    if is_column:
        made = {"b": given.b} | made
        made = {name: _viewed(x, COLUMN) for name, x in made.items()}
    if is_row:
        made = {"a": given.a} | made
        rows = {name: x for name, x in made.items() if name != "b"}
        made |= {name: _viewed(x, ROW) for name, x in rows.items()}

    def without(result: Any) -> Any:
        if given.out is not None:
            return given.out
        result = result[..., 0] if is_column else result
        return (result[..., 0] if is_column else result[..., 0, :]) if is_row else result

    return given._replace(**made), without


def _modes(x: Any) -> int:
    """Return how many modes an operand has; 2 of what is no array, which is refused later."""
    count = 0
    while isinstance(x, (list, tuple)):
        count, x = count + 1, x[0] if x else None
    try:
        return count + len(unwrapped(x).shape)
    except (AttributeError, RuntimeError, TypeError):  # a number; a nested tensor; a class
        return count or 2


def _viewed(x: Any, index: Any) -> Any:
    """Return a view with another mode of one element."""
    if isinstance(x, TypedArray):
        return TypedArray(x.array[index], x.dtype)
    if hasattr(x, "shape") and hasattr(x, "__getitem__"):
        return x[index]
    x = imported(x)
    return (x if hasattr(x, "shape") else np.asarray(x))[index]
