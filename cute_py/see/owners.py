"""`Owners`: which thread holds which element of the whole that a partition was taken from.

For each thread, the elements of a partition have places: offsets in a storage, or coordinates in an
argument. So do those of the whole, which is the same for all threads; equal places are one element.
Registers hold the elements of the partition that they were made for or filled from, in its order; a
view of registers holds those that its indices name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cute_py.errors import LayoutError, ranges, refusal
from cute_py.layout import tuples
from cute_py.layout.algebra.fit import fit
from cute_py.layout.coords import idx2crd
from cute_py.layout.layout import Layout, make_layout
from cute_py.layout.modes import slice_and_offset
from cute_py.layout.offsets import offsets
from cute_py.records import Shown
from cute_py.see.numbers import OUTSIDE, Numbers, places
from cute_py.tensor.tensor import Tensor
from cute_py.viz.cells import MOST_PAIRS
from cute_py.viz.picture import MOST_TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cute_py.layout.types import Alike, IntTuple
    from cute_py.see.watch import Made, Seen

    Array = Any  # of NumPy

# what makes registers for a partition of a tensor, and for the elements of a tensor, or fills them
FRAGMENTS = tuple([f"partition_fragment_{operand}" for operand in "ABC"])
LIKE = (
    *[f"make_fragment_{operand}" for operand in "ABC"],
    *("make_fragment_like", "make_tensor_like", "to", "copy"),
)


@dataclass(frozen=True, eq=False)
class Owners(Shown):
    """Which thread holds which element of a whole, as which of its values.

    `owners(thread, value)` is the coordinate of an element of the whole, and `owners[_, _, 0]` are
    the owners of a slice of it.

    Attributes:
        name: of the partition.
        whole: the name of the whole.
        shape: of the whole (elements).
        threads: their numbers.
        values: the shape of a thread's part (elements).
        numbers: the index in the thread's part of each value of the table.
        table: [thread, value] -> index in the whole, colexicographical; -1 for none, as for what is
            beyond the extents of an argument.

    """

    name: str
    whole: str
    shape: IntTuple
    threads: tuple[int, ...]
    values: IntTuple
    numbers: tuple[int, ...]
    table: Array

    @property
    def layout(self) -> Alike | None:
        """The layout (thread, value) -> index in the whole; None if there is none: where a value
        has no element, or no layout has the table.
        """
        if (self.table < 0).any():
            return None
        count = len(self.threads)
        try:
            if self.table.strides[0] == 0:  # all threads have the same
                one = fit(self.table[0], (self.values,))
                return make_layout(Layout(count, 0), one[0]) if one.__class__ is Layout else None
            return fit(self.table.reshape(-1, order="F"), (count, self.values))
        except LayoutError:
            return None

    def __call__(self, thread: int, value: int) -> IntTuple | None:
        """Return the coordinate of a value of a thread, an integer for each mode of the whole; None
        for a value that has no element.
        """
        if thread not in self.threads or value not in self.numbers:
            facts: dict[str, Any] = {"name": self.name, "thread": thread, "value": value}
            known = {"threads": ranges(self.threads), "values": ranges(self.numbers)}
            raise refusal("see-value", operation="owners", **facts, **known)
        index = int(self.table[self.threads.index(thread), self.numbers.index(value)])
        return None if index < 0 else idx2crd(index, tuples.product_each(tuples.wrap(self.shape)))

    def holders(self, *coord: IntTuple) -> list[tuple[int, int]]:
        """Return (thread, value) of all that hold the element at a coordinate of the whole. Raises
        CoordinateError for one outside of it.
        """
        found = np.argwhere(self.table == self._index(coord)).tolist()
        return [(self.threads[t], self.numbers[v]) for t, v in found]

    def __getitem__(self, coord: IntTuple) -> Owners:
        """Return the owners of a slice of the whole: `_` keeps a mode. Raises CoordinateError for a
        slice outside of it.
        """
        every = tuples.is_underscore
        self._index(tuples.transform_leaf(lambda x: 0 if every(x) else x, tuples.wrap(coord)))
        part, start = slice_and_offset(coord, Layout(self.shape))
        index = np.full(int(tuples.product(self.shape)) + 1, -1)
        index[np.asarray(offsets(part)) + start] = np.arange(part.size())
        table = index[self.table]
        kept = np.flatnonzero((table >= 0).any(0))
        numbers = tuple([self.numbers[k] for k in kept])
        whole = f"{self.whole}[{tuples.show(coord).strip('()')}]"
        values: Any = self.values if len(kept) == table.shape[1] else len(kept)
        return Owners(self.name, whole, part.shape, self.threads, values, numbers, table[:, kept])

    def _index(self, coord: tuple[Any, ...]) -> int:
        """Return the index of a coordinate of the whole; refuse one outside of it."""
        index = Layout(self.shape)(*coord)
        if not 0 <= index < tuples.product(self.shape):
            facts: dict[str, Any] = {"name": self.whole, "coord": coord, "shape": self.shape}
            raise refusal("see-coordinate", operation="owners", **facts)
        return int(index)

    @property
    def title(self) -> str:
        """What the picture shows, and the layout if there is one."""
        tv = self.layout
        how = "" if tv is None else f": {tv}"
        return f"{self.name} of {self.whole} {tuples.show(self.shape)}{how}"

    def __str__(self) -> str:
        from cute_py.viz.text import to_text

        count = int(tuples.product(self.shape))
        if count > MOST_TEXTS or tuples.rank(self.shape) > 4:
            free = "_," * (tuples.rank(self.shape) - 1) + "0"
            return f"{self.title}\n{count} elements; a slice has a picture: owners[{free}]"
        return str(to_text(self))

    __repr__ = __str__


# -- what tensors are made of


class Lineage:
    """What each tensor of a trace was made of, and where its elements are."""

    def __init__(self, seen: Seen, numbers: Numbers) -> None:
        self.seen, self.numbers = seen, numbers
        self.named = {id(x.value): x.name for x in reversed(seen.sightings)}

    def made(self, tensor: Tensor) -> Made | None:
        """Return the call that returned a tensor."""
        return self.seen.made.get(id(tensor))

    def differs(self, tensor: Tensor, threads: tuple[int, ...]) -> bool:
        """Return whether threads have different parts."""
        if tensor.space == "rmem":
            made = self._origin(tensor)[1]
            return made.name in FRAGMENTS or self.differs(next(made.operands()), threads)
        own = _slice(self.made(tensor))
        return self.numbers.depends((tensor.engine.offset, tensor.layout)) or not all(
            _takes_part(own, self.numbers.at(thread)) for thread in threads
        )

    def whole(self, tensor: Tensor) -> Tensor:
        """Return the nearest tensor with a name that a tensor in memory is a part of and that is
        the same for all threads; itself if there is none.
        """
        found = tensor
        for part in self._parents(tensor):
            if not self.numbers.depends((part.engine.offset, part.layout)):
                found = part
                if id(part) in self.named:
                    break
        return found

    def _parents(self, tensor: Tensor) -> Iterator[Tensor]:
        """Yield the tensors of the same storage that a tensor was taken from, nearest first."""
        made = self.made(tensor)
        while made is not None:
            same = [x for x in made.operands() if _storage(x) == _storage(tensor)]
            if not same:
                return
            yield same[0]
            made = self.made(same[0])

    def part(self, tensor: Tensor, thread: Numbers) -> tuple[Tensor, Array]:
        """Return the tensor in memory whose elements a tensor has, and the index of each there; -1
        in threads that take no part.
        """
        count = int(tuples.product(thread.of(tensor.shape)))
        if tensor.space != "rmem":
            takes = _takes_part(_slice(self.made(tensor)), thread)
            return tensor, np.arange(count) if takes else np.full(count, -1)
        fragment, made = self._origin(tensor)
        source = next(made.operands())
        root, index = self.part(source, thread)
        if made.name in FRAGMENTS:
            index = index[_indices(made, Layout(thread.of(source.shape)), thread)]
        count = max([int(_registers(x, thread).max()) for x in (tensor, fragment)]) + 1
        held = np.full(count, -1)
        held[_registers(fragment, thread)] = index
        return root, held[_registers(tensor, thread)]

    def has_origin(self, tensor: Tensor) -> bool:
        """Return whether it is known what a tensor holds elements of."""
        if tensor.space != "rmem":
            return True
        found = self._origins(tensor)
        return bool(found) and self.has_origin(next(found[0][1].operands()))

    def _origin(self, tensor: Tensor) -> tuple[Tensor, Made]:
        """Return the largest of `_origins`, the first of them; refuse registers without one."""
        found = self._origins(tensor)
        if not found:
            raise refusal("see-registers", operation="owners", row=self.numbers.row)
        return found[0]

    def _origins(self, tensor: Tensor) -> list[tuple[Tensor, Made]]:
        """Return the registers that were made for, or filled from, elements of another tensor, one
        for one, and that a tensor is a view of, and the calls; the largest first.
        """
        own = self.made(tensor)
        if own is not None and (own.name in FRAGMENTS or _is_like(tensor, own)):
            return [(tensor, own)]
        found = [
            (each, made)
            for each, made in self.seen.filled
            if _storage(each) == _storage(tensor)
            and (made.name in FRAGMENTS or _is_like(each, made))
        ]
        return sorted(found, key=lambda pair: -int(pair[0].size()))


def _is_like(tensor: Tensor, made: Made) -> bool:
    """Return whether a call made, or filled, registers with the elements of another tensor."""
    source = next(made.operands(), None)
    count = None if made.name not in LIKE or source is None else source.size()
    return count.__class__ is int and count == tensor.size()


def _registers(tensor: Tensor, thread: Numbers) -> Array:
    """Return the numbers of the registers of a tensor in its storage."""
    return np.asarray(offsets(thread.of(tensor.layout))) + tensor.engine.offset


def _indices(made: Made, source: Layout, thread: Numbers) -> Array:
    """Return the indices in the source of a thread's partition, for the call that made a fragment
    of it; 0 in threads that take no part.
    """
    own = _slice(made)
    index = thread.of(own.thr_idx) if _takes_part(own, thread) else 0
    cut = getattr(own.tiled_mma.get_slice(index), made.name.replace("fragment_", ""))
    part, start = cut(source)
    return np.asarray(offsets(part)) + start


def _slice(made: Made | None) -> Any:
    """Return the thread of a tiled operation that made a tensor, None if none did."""
    return None if made is None else made.given.get("self")


def _takes_part(own: Any, thread: Numbers) -> bool:
    """Return whether a thread is one of those of the tiled operation that cut a partition."""
    tiled = getattr(own, "tiled_mma", None) or getattr(own, "tiled_copy", None)
    return tiled is None or 0 <= thread.of(own.thr_idx) < tiled.size()


def _storage(tensor: Tensor) -> tuple[str, str]:
    return tensor.space, getattr(tensor.engine, "name", "")


# -- the table


def owners_of(tensor: Tensor, lineage: Lineage, threads: tuple[int, ...]) -> Owners:
    """Return who holds which element of the whole that a tensor of a trace was taken from."""
    numbers, first = lineage.numbers, lineage.numbers.at(threads[0])
    asked = threads if lineage.differs(tensor, threads) else threads[:1]
    values = first.of(tensor.shape)
    count = int(tuples.product(values))
    root, _index = lineage.part(tensor, first)
    whole = lineage.whole(root)
    used = [(x.engine.offset, x.layout) for x in (root, whole)]
    numbers.require(numbers.names(tuple(used)))
    shape = first.of(whole.shape)
    largest = max(len(asked) * count, int(tuples.product(shape)))
    if largest > MOST_PAIRS:
        facts: dict[str, Any] = {"row": numbers.row, "count": largest, "most": MOST_PAIRS}
        raise refusal("see-size", operation="owners", **facts)
    linear = whole.engine.offset.__class__ is not tuple
    rows = []
    for thread in asked:
        at = numbers.at(thread)
        root, index = lineage.part(tensor, at)
        rows.append(np.where((index < 0)[:, None], OUTSIDE, places(root, at, linear)[index]))
    found = looked_up(places(whole, first, linear), np.concatenate(rows))
    table = np.broadcast_to(found.reshape(len(asked), -1), (len(threads), count))
    name = lineage.named.get(id(whole), "its storage")
    return Owners(numbers.row, name, shape, threads, values, tuple(range(count)), table)


def looked_up(known: Array, wanted: Array) -> Array:
    """Return the first row of `known` that is equal to each row of `wanted`; -1 for none.

    >>> looked_up(np.array([[0, 1], [2, 3], [0, 1]]), np.array([[2, 3], [0, 1], [1, 1]])).tolist()
    [1, 0, -1]
    """
    low, high = known.min(0), known.max(0)
    inside = ((wanted >= low) & (wanted <= high)).all(1)
    radix = np.cumprod([1, *(high - low + 1)[:-1]])
    keys = (known - low) @ radix
    order = np.argsort(keys, kind="stable")
    asked = np.where(inside[:, None], wanted - low, 0) @ radix
    found = order[np.minimum(np.searchsorted(keys[order], asked), len(order) - 1)]
    return np.where(inside & (keys[found] == asked), found, -1)
