"""`Owners`: which thread holds which element of the whole that a partition was taken from.

For each thread, the elements of a partition have places: offsets in a storage, or coordinates in an
argument. So do those of the whole, which all threads share; equal places are one element. Registers
hold the elements of the partition that they were made for, in its order; a view of registers holds
those that its indices name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.errors import LayoutError, refusal
from cute_py.layout import tuples
from cute_py.layout.algebra.fit import fit
from cute_py.layout.coords import crd2idx, idx2crd
from cute_py.layout.layout import Layout
from cute_py.layout.offsets import offsets
from cute_py.records import Shown
from cute_py.see.numbers import Numbers, places
from cute_py.tensor.tensor import Tensor
from cute_py.viz.cells import require_small

if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import Alike, IntTuple
    from cute_py.see.watch import Made, Seen

    Array = Any  # of NumPy

PARTITIONS = ("partition_fragment_A", "partition_fragment_B", "partition_fragment_C")
LIKE = (
    "make_fragment_A make_fragment_B make_fragment_C make_fragment_like make_tensor_like to"
).split()


class Lineage:
    """What each tensor of a trace was made of."""

    def __init__(self, seen: Seen, numbers: Numbers) -> None:
        self.seen, self.numbers = seen, numbers
        self.named = {id(x.value): x.name for x in reversed(seen.sightings)}

    def made(self, tensor: Tensor) -> Made | None:
        """Return the call that returned a tensor."""
        return self.seen.made.get(id(tensor))

    def whole(self, tensor: Tensor) -> Tensor:
        """Return the nearest named tensor that a tensor in memory is a part of and that is the same
        for all threads; itself if there is none.
        """
        found, part = tensor, tensor
        while (made := self.made(part)) is not None:
            same = [x for x in made.operands() if _storage(x) == _storage(tensor)]
            if not same:
                break
            part = same[0]
            if not self.numbers.depends((part.engine.offset, part.layout)):
                found = part
                if id(part) in self.named:
                    break
        return found

    def part(self, tensor: Tensor, thread: Numbers) -> tuple[Tensor, Array]:
        """Return the tensor in memory whose elements a tensor has, and the index of each there; -1
        in threads that have no part.
        """
        count = int(tuples.product(thread.of(tensor.shape)))
        if tensor.space != "rmem":
            index = np.arange(count)
            return tensor, index if self._takes_part(tensor, thread) else np.full(count, -1)
        made = self.made(tensor)
        if made is not None and made.name in PARTITIONS:
            slice_, source = made.given["self"], next(made.operands())
            root, index = self.part(source, thread)
            if not _is_thread(slice_, thread):
                return root, np.full(count, -1)
            one = slice_.tiled_mma.get_slice(thread.of(slice_.thr_idx))
            part, start = getattr(one, made.name.replace("fragment_", ""))(
                Layout(thread.of(source.shape))
            )
            return root, index[np.asarray(offsets(part)) + start]
        like = _like(made)
        if like is not None:
            return self.part(like, thread)
        return self._view(tensor, thread, count)

    def _view(self, tensor: Tensor, thread: Numbers, count: int) -> tuple[Tensor, Array]:
        """Return the same for a view of registers: by the registers of the fragment."""
        fragment = self._fragment(tensor)
        root, index = self.part(fragment, thread)
        held = np.full(max(tensor.engine.count, fragment.engine.count), -1)
        held[np.asarray(offsets(thread.of(fragment.layout))) + fragment.engine.offset] = index
        return root, held[np.asarray(offsets(thread.of(tensor.layout))) + tensor.engine.offset]

    def _fragment(self, tensor: Tensor) -> Tensor:
        """Return the fragment that registers are a view of; refuse registers of another origin."""
        for each in self.seen.kept:
            made = self.made(each)
            if _storage(each) == _storage(tensor) and made is not None:
                if made.name in PARTITIONS or _like(made) is not None:
                    return each
        raise refusal("see-registers", operation="owners", row=self.numbers.row)

    def _takes_part(self, tensor: Tensor, thread: Numbers) -> bool:
        """Return whether a thread is one of those of the tiled operation that cut a partition."""
        made = self.made(tensor)
        return made is None or _is_thread(made.given.get("self"), thread)


def _is_thread(slice_: Any, thread: Numbers) -> bool:
    index = getattr(slice_, "thr_idx", None)
    tiled = getattr(slice_, "tiled_mma", getattr(slice_, "tiled_copy", None))
    return index is None or tiled is None or 0 <= thread.of(index) < tiled.size()


def _like(made: Made | None) -> Tensor | None:
    """Return the tensor that new registers have the elements of, one for one; None if there is
    none.
    """
    return next(made.operands(), None) if made is not None and made.name in LIKE else None


def _storage(tensor: Tensor) -> tuple[str, str]:
    engine = tensor.engine
    return tensor.space, getattr(engine, "name", "")


class Owners(Shown):
    """Which thread holds which element of a whole, as which of its values.

    Attributes:
        name: of the partition.
        whole: the name of the whole.
        shape: the shape of the whole (elements).
        threads: the numbers of the threads.
        values: the shape of a thread's part (elements).
        table: [thread, value] -> index in the whole, colexicographical; -1 for what is outside.

    """

    __slots__ = ("name", "shape", "table", "threads", "values", "whole")

    def __init__(
        self,
        name: str,
        whole: str,
        shape: IntTuple,
        threads: tuple[int, ...],
        values: IntTuple,
        table: Array,
    ) -> None:
        self.name, self.whole, self.shape = name, whole, shape
        self.threads, self.values, self.table = threads, values, table

    @property
    def layout(self) -> Alike | None:
        """The layout (thread, value) -> index in the whole, None where no layout has this table."""
        if (self.table < 0).any():
            return None
        try:
            return fit(self.table.reshape(-1, order="F"), (len(self.threads), self.values))
        except LayoutError:
            return None

    def __call__(self, thread: int, value: int) -> IntTuple | None:
        """Return the coordinate of a value of a thread; None for one outside of the whole."""
        index = int(self.table[self.threads.index(thread), value])
        return None if index < 0 else idx2crd(index, self.shape)

    def holders(self, *coord: int) -> list[tuple[int, int]]:
        """Return the (thread, value) pairs that hold the element at a coordinate of the whole."""
        index = crd2idx(coord, self.shape)
        return [(self.threads[t], int(v)) for t, v in np.argwhere(self.table == index).tolist()]

    def __str__(self) -> str:
        return f"{self.name} of {self.whole} {tuples.show(self.shape)}: {self.layout or 'a table'}"


def owners(
    tensor: Tensor, name: str, lineage: Lineage, threads: tuple[int, ...]
) -> Owners:
    """Return who holds which element of the whole that a tensor of a trace was taken from."""
    numbers = lineage.numbers
    values = numbers.at(threads[0]).of(tensor.shape)
    count = len(threads) * int(tuples.product(values))
    require_small(tensor.layout, count, "pairs of thread and value")
    root, index = lineage.part(tensor, numbers.at(threads[0]))
    whole = lineage.whole(root)
    shape = numbers.of(whole.shape)
    keys = places(whole, numbers.at(threads[0]))
    rows = []
    for t in threads:
        at = numbers.at(t)
        _root, index = lineage.part(tensor, at)
        rows.append(np.where((index < 0)[:, None], OUTSIDE, places(root, at)[index]))
    table = _looked_up(keys, np.concatenate(rows)).reshape(len(threads), -1)
    return Owners(name, lineage.named.get(id(whole), "the whole"), shape, threads, values, table)


OUTSIDE = -(1 << 60)  # a place that no element has


def _looked_up(known: Array, wanted: Array) -> Array:
    """Return the first row of `known` that is equal to each row of `wanted`; -1 for none."""
    low, high = known.min(0), known.max(0)
    inside = ((wanted >= low) & (wanted <= high)).all(1)
    radix = np.cumprod([1, *(high - low + 1)[:-1]])
    keys = (known - low) @ radix
    order = np.argsort(keys, kind="stable")
    asked = np.where(inside[:, None], wanted - low, 0) @ radix
    found = order[np.minimum(np.searchsorted(keys[order], asked), len(order) - 1)]
    return np.where(inside & (keys[found] == asked), found, -1)
