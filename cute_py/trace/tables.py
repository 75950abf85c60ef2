"""Tables of integers that the host computes from sizes and strides, indexed at run time."""

from __future__ import annotations

from math import gcd

from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.integers.polynomial import content, symbols_of
from cute_py.integers.symbols import terms_of
from cute_py.layout.tuples import show
from cute_py.plan.conditions import bounds_of, uniformity
from cute_py.plan.ops import Let
from cute_py.plan.params import MOST_TABLES, bytes_of
from cute_py.trace.runtime_integers import Int, bare, new_symbol
from cute_py.trace.state import current, emit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cute_py.layout.types import Leaf
    from cute_py.plan.conditions import Scalar


class Table:
    """The integers of `make_table`: `table[i]` is entry i, and `len(table)` their number.

    An index that Python knows gives the entry itself. A run-time index is read from the parameters
    of the kernel. The bounds and the divisor that all entries share are known of the result.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: tuple[Leaf, ...]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Leaf]:
        return iter(self._entries)

    def __repr__(self) -> str:
        return f"<table {show(tuple(map(bare, self._entries)))}>"

    def __getitem__(self, index: Leaf) -> Leaf:
        """Return an entry. Raises CoordinateError for an index outside of the table."""
        index = ints.normalize(index, "make_table")
        outside = ints.less(index, 0), ints.leq(len(self), index)
        if True in outside:
            facts = {"index": index, "count": len(self)}
            raise refusal_here("table-index", operation="make_table", **facts)
        if not isinstance(index, Int):
            return self._entries[index]
        trace, place = current(), bare(index)
        row: tuple[Scalar, ...] = tuple(map(bare, self._entries))  # of this trace
        number = trace.tables.setdefault(row, len(trace.tables))
        if (bytes := bytes_of(trace.tables)) > MOST_TABLES:
            raise refusal_here("plan-tables", operation="make_table", bytes=bytes, most=MOST_TABLES)
        name = trace.integer_name()
        emit(Let, name, "table", (number, place))
        lows, highs = zip(*map(bounds_of, row), strict=True)
        low = None if None in lows else min(lows)
        high = None if None in highs else max(highs)
        unit = gcd(*[content(terms_of(x)) for x in row]) or 1
        return new_symbol(trace, name, unit, low, high, uniformity(trace.uniform, place))


def make_table(entries: Iterable[Leaf]) -> Table:
    """Return a table of integers that the host computes for each launch, passed by value.

    Its entries take 8 bytes each, and all tables of a kernel at most 2 KB.

    Args:
        entries: numbers, and expressions of sizes, strides and integer arguments: sums, products,
            quotients, remainders and minima.

    In the kernel `table[i]` is an integer for a run-time i, from 0 to len(table) - 1: one load from
    the constant bank. Another index is an error on the emulator. On a GPU an index that is not
    known to be inside, such as a number from memory, is compared, and traps outside. Raises
    LayoutError for other entries, such as those of a thread, and for more than 2 KB.

    Source: cutlass include/cutlass/conv/threadblock/conv2d_params.h (steps of an iterator, which
    the host computes).

    >>> # in a kernel: steps = cute.make_table([r * X.stride[1] for r in range(3)])
    >>> # then, in a loop over r: x = cute.make_tensor(X.data + steps[r], row)
    """
    trace = current()
    held = tuple([ints.normalize(x, "make_table") for x in entries])
    for x in map(bare, held):
        inside = [s.name for s in symbols_of(terms_of(x)) if s.name not in trace.taken]
        if inside:
            names = ", ".join(inside)
            raise refusal_here("table-entry", operation="make_table", entry=x, names=names)
    if not held:
        raise refusal_here("table-entry", operation="make_table", entry="no entries", names="none")
    return Table(held)
