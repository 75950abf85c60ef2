"""`TensorArray`: several arrays as one argument of a kernel, which indexes them at run time.

It keeps a table in the memory of its arrays: for each array a row of 64-bit integers, the address
and those extents and strides that are not the same for all. The facts that all arrays share are
fixed when it is made, as a kernel is specialized for them.
"""

from __future__ import annotations

from math import gcd
from typing import cast

from cute_py.calls.arguments import ArrayFacts, Spec, array_facts
from cute_py.calls.arrays import (
    READERS,
    Table,
    address_of,
    extents_of,
    imported,
    is_array,
    library_of,
    on_device,
    unwrapped,
)
from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Any

    Fact = tuple[int, int | None]


class TensorArray(Table):
    """Arrays of one type and rank, of which a kernel takes one by a run-time index.

    Args:
        arrays: one or more arrays of NumPy, torch or CuPy, in one memory; their shapes and strides
            may differ. They are kept alive.
        divisible_by: a divisor of every extent, or one per mode, of these arrays and of those that
            `update` puts in their place; as in `spec`.
        shape: the extents that all arrays have, None for those that differ.
        alignment: the alignment of every first element (bytes).

    What is not promised is read from the arrays: the alignment up to 16 bytes, modes of stride 1,
    divisors. In the kernel `arrays[i]` is a tensor in global memory, and `arrays.count` the number
    of arrays. A call copies nothing, so that a CUDA graph can capture it. Raises LayoutError for
    arrays of several types, ranks or memories.

    >>> import numpy as np
    >>> parts = TensorArray([np.zeros((n, 8), np.float16) for n in (3, 5)])
    >>> parts.members.extents, parts.members.strides, len(parts)
    (((1, None), (8, None)), ((8, None), (1, 1)), 2)
    """

    __slots__ = ("_address", "_key", "arrays")
    arrays: list[Any]

    def __init__(
        self,
        arrays: Sequence[Any],
        divisible_by: int | tuple[int, ...] | None = None,
        shape: tuple[int | None, ...] | None = None,
        alignment: int | None = None,
    ) -> None:
        self.arrays = [_checked(x) for x in arrays]
        if not self.arrays:
            raise refusal("table-empty", operation="TensorArray")
        promise = Spec(divisible_by, shape, alignment)
        found = [array_facts(x, promise, f"arrays[{i}]") for i, x in enumerate(self.arrays)]
        self.members = _shared(found)
        self.array = self._new_table([self._row(x) for x in self.arrays])
        self._address = address_of(self.array)
        place = device(self.arrays[0])
        self._key = (self.members, tuple(self.array.shape), place, self._address % 16)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return f"<TensorArray of {len(self)} arrays of {self.members.dtype}>"

    @property
    def read_key(self) -> tuple[Hashable, int]:
        """The facts that a launch depends on, and the address of the table."""
        return self._key, self._address

    def require(self, promise: Spec) -> None:
        """Refuse a promise that the facts of the arrays do not contain."""
        promise.require_rank("arrays", len(self.members.extents))
        for mode, (divisor, fixed) in enumerate(self.members.extents):
            wanted, extent = promise.of_mode(mode, len(self.members.extents))
            known = divisor if fixed is None else fixed
            if known % wanted or (extent is not None and fixed != extent):
                self._broken(0, f"mode {mode}", wanted if extent is None else extent)
        if self.members.alignment % (promise.alignment or 1):
            self._broken(0, "the alignment", promise.alignment)

    def update(self, arrays: Sequence[Any], first: int = 0) -> None:
        """Put arrays in the place of those from index `first` on: the table is written, on the
        current stream of a GPU, and the next launch reads it.

        Raises LayoutError for arrays without the facts that the kernel may be specialized for.
        """
        if not 0 <= first <= len(self) - len(arrays):
            raise refusal(
                "table-range",
                operation="TensorArray.update",
                first=first,
                count=len(arrays),
                total=len(self),
            )
        new = [_checked(x) for x in arrays]
        for i, x in enumerate(new, first):
            self._require(i, x)
        rows = [self._row(x) for x in new]
        self.arrays[first : first + len(new)] = new
        if rows:
            _write(self.array, rows, first)

    # -- rows of the table

    def _row(self, x: Any) -> list[int]:
        """Return the row of an array: address, and what differs; whole vectors of 16 bytes."""
        shape, strides = extents_of(x)
        values = [*shape, *strides]
        fixed = [n for _m, n in (*self.members.extents, *self.members.strides)]
        varying = [v for v, n in zip(values, fixed, strict=True) if n is None]
        row = [address_of(unwrapped(x)), *varying]
        return row + [0] * (len(row) % 2)

    def _require(self, i: int, x: Any) -> None:
        """Refuse an array that lacks the facts of the table."""
        known, mine = self.members, self.arrays[0]
        found = array_facts(x, Spec(), f"arrays[{i}]")
        kinds = [(f.dtype, f.packed, len(f.extents)) for f in (found, known)]
        if kinds[0] != kinds[1]:
            self._broken(i, f"an array of {found.dtype}, {kinds[0][2]} modes", known.dtype)
        if device(x) != device(mine):
            raise refusal("table-memory", operation="TensorArray", index=i)
        if address_of(unwrapped(x)) % known.alignment:
            self._broken(i, "an address", f"a multiple of {known.alignment} bytes")
        for word, given, facts in zip(
            ("extent", "stride"), extents_of(x), (known.extents, known.strides), strict=True
        ):
            for mode, (n, (divisor, fixed)) in enumerate(zip(given, facts, strict=True)):
                alone = word == "stride" and extents_of(x)[0][mode] < 2
                if not alone and (n % divisor or (fixed is not None and n != fixed)):
                    wanted = f"a multiple of {divisor}" if fixed is None else fixed
                    self._broken(i, f"{word} {n} of mode {mode}", wanted)

    def _broken(self, i: int, found: str, wanted: object) -> None:
        raise refusal("table-facts", operation="TensorArray", index=i, found=found, wanted=wanted)

    def _new_table(self, rows: list[list[int]]) -> Any:
        """Return a new table, in the memory of the arrays, aligned to 16 bytes."""
        first = self.arrays[0]
        for i, x in enumerate(self.arrays):
            if on_device(x) != on_device(first) or device(x) != device(first):
                raise refusal("table-memory", operation="TensorArray", index=i)
        library = library_of(unwrapped(first)) if on_device(first) else None
        if library is not None and library.empty is not None:
            table = library.empty(unwrapped(first), (len(rows), len(rows[0])))
        elif on_device(first):
            kind = type(unwrapped(first)).__name__
            raise refusal("table-library", operation="TensorArray", type=kind)
        else:
            import numpy as np

            room = np.zeros(len(rows) * len(rows[0]) + 1, np.int64)
            start = -room.ctypes.data % 16 // 8
            table = room[start : start + len(rows) * len(rows[0])].reshape(len(rows), -1)
        _write(table, rows, 0)
        return table


def device(x: Any) -> int | None:
    """Return the number of the GPU that holds an array, None for the host."""
    library = library_of(unwrapped(x)) if on_device(x) else None
    return None if library is None else library.device(unwrapped(x))


def _checked(x: Any) -> Any:
    x = imported(x)
    if not is_array(x) or isinstance(x, Table):
        raise refusal("table-array", operation="TensorArray", type=type(x).__name__)
    return x


def _write(table: Any, rows: list[list[int]], first: int) -> None:
    """Write rows of a table, from row `first` on."""
    if on_device(table):
        library = library_of(table)
        assert library is not None
        assert library.write is not None
        library.write(table, first, rows)
    else:
        table[first : first + len(rows)] = rows


def _shared(found: list[ArrayFacts]) -> ArrayFacts:
    """Return the facts that all arrays share."""
    first = found[0]
    for i, facts in enumerate(found):
        alike = (facts.dtype, facts.packed) == (first.dtype, first.packed)
        if not alike or len(facts.extents) != len(first.extents):
            given = f"{facts.dtype} of {len(facts.extents)} modes"
            wanted = f"{first.dtype} of {len(first.extents)} modes, as arrays[0]"
            raise refusal(
                "table-facts", operation="TensorArray", index=i, found=given, wanted=wanted
            )
    rows = zip(*[facts.extents for facts in found], strict=True)
    steps = zip(*[facts.strides for facts in found], strict=True)
    alignment = gcd(*[facts.alignment for facts in found])
    extents, strides = tuple(map(_merged, rows)), tuple(map(_merged, steps))
    return ArrayFacts(first.dtype, extents, strides, alignment, first.packed)


def _merged(facts: tuple[Fact, ...]) -> Fact:
    """Return the fact that holds of all: the number if they have the same one, and a divisor."""
    if facts[0][1] is not None and len(set(facts)) == 1:
        return facts[0]
    return gcd(*[m if n is None else n for m, n in facts]) or 1, None


READERS[TensorArray] = lambda x: cast("TensorArray", x).read_key
