"""The access iterators of CUTLASS 2.x as data: what they cover, how their pointers move, and their
predicates, bit by bit.

A kernel here guards accesses by the extents of its tensors; these are the numbers that CUTLASS
precomputes for the same. Source: cutlass/transform/threadblock/
predicated_tile_access_iterator_params.h, predicated_tile_access_iterator.h;
cutlass/predicate_vector.h.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cute_py.dtypes.packing import predicate_storage
from cute_py.errors import refusal
from cute_py.tiled.thread_maps import ThreadMap, numbers, require_divides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from cute_py.tiled.thread_maps import Pair

WORD = 32  # bits
ALL = (1 << WORD) - 1


@dataclass(frozen=True, slots=True)
class PredicateVector:
    """Predicates in 32-bit words, a few in each byte (CUTLASS's PredicateVector).

    Attributes:
        count: the number of predicates.
        per_byte: predicates of a byte.
        first_bit: the bit of a byte with its first predicate.
        words: the words, by default all ones.

    Law: predicate i is bit i % per_byte + first_bit of byte i // per_byte.

    >>> found = PredicateVector(17).clear().set(15).set(16)
    >>> [hex(word) for word in found.words], found[15], found[14], found.place(16)
    (['0x8000000', '0x1'], True, False, (1, 0))
    """

    count: int
    per_byte: int = 4
    first_bit: int = 0
    words: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        """Fill the words; refuse predicates that do not fit a byte, and other words."""
        numbers("PredicateVector", self.count, self.per_byte, self.first_bit)
        if self.first_bit < 0 or not 0 < self.per_byte <= 8 - self.first_bit:
            given = self.per_byte, self.first_bit
            raise refusal(
                "predicate-bits", operation="PredicateVector", per_byte=given[0], first=given[1]
            )
        _bytes, words = predicate_storage(self.count, self.per_byte)
        if not self.words:
            object.__setattr__(self, "words", (ALL,) * words)
        if len(self.words) != words or not all(0 <= word <= ALL for word in self.words):
            facts: dict[str, Any] = {"given": self.words, "words": words, "count": self.count}
            raise refusal("predicate-words", operation="PredicateVector", **facts)

    def place(self, i: int) -> Pair:
        """Return the (word, bit) of a predicate.

        >>> [PredicateVector(17).place(i) for i in (0, 3, 4, 7, 15, 16)]
        [(0, 0), (0, 3), (0, 8), (0, 11), (0, 27), (1, 0)]
        """
        if not 0 <= i < self.count:
            raise refusal("predicate-index", operation="PredicateVector", i=i, last=self.count - 1)
        octet, bit = divmod(i, self.per_byte)
        return octet // 4, octet % 4 * 8 + bit + self.first_bit

    def __getitem__(self, i: int) -> bool:
        """Return a predicate."""
        word, bit = self.place(i)
        return bool(self.words[word] >> bit & 1)

    def set(self, i: int, value: bool = True) -> PredicateVector:
        """Return the vector with predicate i as given."""
        word, bit = self.place(i)
        words = list(self.words)
        words[word] = words[word] & ~(1 << bit) | bool(value) << bit
        return replace(self, words=tuple(words))

    def clear(self) -> PredicateVector:
        """Return the vector with all words 0 (CUTLASS's clear_mask)."""
        return replace(self, words=(0,) * len(self.words))

    def enable(self) -> PredicateVector:
        """Return the vector with all bits of all words set (CUTLASS's enable_mask)."""
        return replace(self, words=(ALL,) * len(self.words))


def predicate_vector(values: Iterable[object]) -> PredicateVector:
    """Return the vector of these truth values, with all other bits 0, four of a byte used.

    >>> hex(predicate_vector([True, False, True, True, True]).words[0])
    '0x10d'
    """
    given = list(values)
    found = PredicateVector(len(given)).clear()
    for i, value in enumerate(given):
        found = found.set(i, bool(value))
    return found


class TileAccessParams(NamedTuple):
    """The steps of an access iterator (CUTLASS's PredicatedTileAccessIteratorParams).

    Attributes:
        stride: from line to line (elements).
        inc_strided: from access to access across lines (bytes).
        inc_advance: from tile to tile (bytes).
        inc_next: from the last access of a tile to the first of the next (bytes).
    """

    stride: int
    inc_strided: int
    inc_advance: int
    inc_next: int


@dataclass(frozen=True, slots=True)
class TileAccessDesc:
    """What an access iterator covers, in pitch-linear terms (CUTLASS's
    PredicatedTileAccessIteratorDesc).

    Attributes:
        element_bits: bits of an element.
        advance_rank: the mode along which tiles follow each other: 0 contiguous, 1 strided.
        shape: (contiguous, strided) of the tile (elements).
        iterations: accesses of a thread in each mode.
        delta: steps between accesses (elements).
    """

    element_bits: int
    advance_rank: int
    shape: Pair
    iterations: Pair
    delta: Pair

    def params(self, stride: int) -> TileAccessParams:
        """Return the steps in memory whose lines are `stride` elements apart. Raises LayoutError
        for steps of no whole bytes.

        >>> from cute_py.tiled.thread_maps import warp_raked_thread_map
        >>> threads = warp_raked_thread_map((128, 32), 128, (8, 4), 8)
        >>> tile_access_desc(threads, 16, 1).params(256)
        TileAccessParams(stride=256, inc_strided=2048, inc_advance=16384, inc_next=14336)
        """
        (stride,) = numbers("TileAccessDesc.params", stride)
        strided = stride * self.delta[1]
        advance = self.shape[1] * stride if self.advance_rank else self.shape[0]
        steps = (strided, advance, advance - (self.iterations[1] - 1) * strided)
        for step in (strided, advance):
            if step * self.element_bits % 8:
                part, whole = "bits of a byte", "the bits of a step"
                require_divides("TileAccessDesc.params", 8, step * self.element_bits, part, whole)
        return TileAccessParams(stride, *[each * self.element_bits // 8 for each in steps])

    def predicates(
        self, start: Pair, extent: Pair, steady: bool = False, vectors: int = 1, elements: int = 1
    ) -> PredicateVector:
        """Return which accesses of a thread are inside, as `compute_predicates_` of CUTLASS does:
        access v of vector (c, s) is predicate v + vectors * (c + iterations[0] * s).

        Args:
            start: coordinate of the thread's first access, (contiguous, strided).
            extent: first coordinate outside, (contiguous, strided).
            steady: whether the mode of advance is known to be inside, as it is in all tiles but the
                first, the residue.
            vectors: accesses that make up one vector of the thread map.
            elements: of one access.

        >>> from cute_py.tiled.thread_maps import warp_raked_thread_map
        >>> threads = warp_raked_thread_map((128, 32), 128, (8, 4), 8)
        >>> desc = tile_access_desc(threads, 16, 1)
        >>> hex(desc.predicates(threads.start(0), (64, 4), elements=8).words[0])
        '0x1'
        >>> hex(desc.predicates(threads.start(0), (64, 4), True, elements=8).words[0])
        '0x5'
        """
        (c, s), (dc, ds) = self.iterations, self.delta
        places = [
            (start[0] + i * dc + v * elements, start[1] + j * ds)
            for j in range(s)
            for i in range(c)
            for v in range(vectors)
        ]
        tested = [mode for mode in (0, 1) if not (steady and mode == self.advance_rank)]
        return predicate_vector(all(at[mode] < extent[mode] for mode in tested) for at in places)


_RANK = {"pitch_linear": (0, 1), "column_major": (0, 1), "row_major": (1, 0)}


def tile_access_desc(
    threads: ThreadMap, element_bits: int, advance_rank: int, layout: str = "pitch_linear"
) -> TileAccessDesc:
    """Return the description of an access iterator (CUTLASS's
    MakePredicatedTileAccessIteratorDesc).

    Args:
        threads: the thread map, pitch-linear.
        element_bits: bits of an element.
        advance_rank: the mode of the tile along which tiles follow each other: 0 or 1; of a matrix
            0 is down its rows.
        layout: pitch_linear, column_major or row_major; of a row-major matrix, mode 1 is
            contiguous.

    >>> from cute_py.tiled.thread_maps import warp_raked_thread_map
    >>> threads = warp_raked_thread_map((32, 128), 128, (4, 8), 8)
    >>> tile_access_desc(threads, 16, 1, "row_major") == tile_access_desc(threads, 16, 0)
    True
    """
    if threads.__class__ is not ThreadMap:
        raise refusal("thread-map", operation="tile_access_desc", value=threads)
    if layout not in _RANK or advance_rank not in (0, 1):
        raise refusal(
            "iterator-layout",
            operation="tile_access_desc",
            layout=layout,
            rank=advance_rank,
            layouts=", ".join(_RANK),
        )
    (bits,) = numbers("tile_access_desc", element_bits)
    require_divides("tile_access_desc", 8, bits * threads.elements, "bits of a byte", "an access")
    rank = _RANK[layout][advance_rank]
    return TileAccessDesc(bits, rank, threads.shape, threads.iterations, threads.delta)
