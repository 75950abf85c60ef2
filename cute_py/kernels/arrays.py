"""How the kernels here cut arrays into tiles, and tiles into vectors: as wide as rows allow."""

from __future__ import annotations

from math import gcd
from typing import Any, TypeAlias

import cute_py as cute
from cute_py.calls.arguments import Spec, array_facts
from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

Tile: TypeAlias = tuple[int, int]  # rows and columns
FLOATS = ("f16", "bf16", "f32", "f64")
HELD_BITS = 1024  # of a row, in the registers of a thread


def require(holds: bool, operation: str, name: str, given: object, rule: str) -> None:
    """Refuse an argument of a kernel that does not hold to the rule, by its name."""
    if not holds:
        raise refusal("kernel-argument", operation=operation, name=name, given=given, rule=rule)


def require_kind(operation: str, kinds: Sequence[str], **arrays: Any) -> None:
    """Refuse arrays, by name, whose elements are of no type of these; None is not given."""
    for name, x in arrays.items():
        kind = getattr(x, "dtype", None)
        rule = f"an array of {' or '.join(kinds)}"
        fits = x is None or (kind is not None and kind.name in kinds)
        require(fits, operation, name, f"an array of {kind}" if kind else x, rule)


def require_threads(operation: str, threads: int) -> None:
    """Refuse a number of threads that is no number of whole warps of a block."""
    rule = "a multiple of 32 from 32 to 1024"
    fits = threads % 32 == 0 and 32 <= threads <= 1024
    require(fits, operation, "threads", threads, rule)


def require_count(operation: str, **counts: int) -> None:
    """Refuse numbers of blocks, or of what they share, that are no grid."""
    for name, n in counts.items():
        require(1 <= n < 1 << 16, operation, name, n, "a number from 1 to 65535")


def require_row_copy(operation: str, tile: Any, copy: cute.TiledCopy, N: Any) -> None:
    """Refuse a tile and a copy that are not like those of `row_copy`, and state that the tile holds
    N elements of a row.
    """
    rows, columns = tile
    m, n = copy.tile_shape
    fits = m == rows and columns % n == 0 and copy.size() % 32 == 0
    fits = fits and (rows == 1 or copy.size() == 32 * rows)
    rule = "a tile of one row, or a row for each warp, and the copy that row_copy returns with it"
    given = f"{tile}, with a copy of {m}x{n} by {copy.size()} threads"
    require(fits, operation, "tile", given, rule)
    cute.assume(columns >= N)


def assume_product(
    A: Any, B: Any, arrays: dict[str, Any], outputs: dict[str, Any], epilogue: Any
) -> None:
    """State the shapes of outputs (M,N) of a product of A (M,K) and B (N,K), with the arrays that
    an `Epilogue` spreads over them; and of batches (..,L).
    """
    assume_words([("MK", A), ("NK", B)], arrays, outputs, epilogue)


def assume_words(
    first: list[tuple[str, Any]], arrays: dict[str, Any], outputs: dict[str, Any], epilogue: Any
) -> None:
    """State the shapes of outputs (M,N), and of the arrays of an epilogue: matrices (M,N), rows
    (N), columns (M) or one element; with N / 2 columns, H, where they are those of pairs. What has
    no mode L is that of all. `first`: other arrays, by the words of their modes, one of which has
    N.
    """
    for name, x in outputs.items():
        rule = "an array of a type of 8 bits or more"
        require(x.dtype.bits >= 8, "gemm", name, f"an array of {x.dtype}", rule)
    own = {"matrix": "MN", "row": "N", "column": "M", "matrix of pairs": "MH", "row of pairs": "H"}
    results = [("MN" if epilogue.is_wide(i) else "MH", x) for i, x in enumerate(outputs.values())]
    of_arrays = zip(epilogue.arrays, arrays.values(), strict=True)
    found = [*first, *results, *[(own[n], x) for n, x in of_arrays if n in own]]
    many = cute.rank(results[0][1]) > 2
    words = [word + "L" * (many and cute.rank(x) > len(word)) for word, x in found]
    cute.assume_shapes(" ".join(words), *[x for _word, x in found])
    halves = [x.shape[word.index("H")] for word, x in found if "H" in word]
    wide = next(x.shape[word.index("N")] for word, x in found if "N" in word)
    for n in halves[:1]:
        cute.assume(wide == 2 * n)


def facts_of(array: Any) -> tuple[cute.Dtype, int, int]:  # any array
    """Return (type, contiguous mode, bits of the widest vectors) of an array of two modes.

    Every vector of a row must be whole and aligned, in every row.

    >>> import numpy as np
    >>> facts_of(np.zeros((4, 6), np.float32))
    (cute.f32, 1, 64)
    """
    facts = array_facts(array, Spec(), "array")
    modes = [i for i, (_divisor, fixed) in enumerate(facts.strides) if fixed == 1]
    if not modes:
        return facts.dtype, len(facts.strides) - 1, facts.dtype.bits
    mode = modes[-1]
    whole = gcd(facts.extents[mode][0], min(facts.alignment, 16) * 8 // facts.dtype.bits)
    for i, (divisor, _fixed) in enumerate(facts.strides):
        whole = whole if i == mode else gcd(whole, divisor)
    return facts.dtype, mode, whole * facts.dtype.bits


def tile_copy(tile: tuple[int, int], threads: int, *arrays: Any) -> cute.TiledCopy:
    """Return the copy of a tile between arrays, in vectors that all of them allow."""
    found = [facts_of(array) for array in arrays]
    dtype, mode, bits = found[0]
    if any(other != mode for _dtype, other, _bits in found):
        bits = dtype.bits
    bits = narrowed(min(bits, *[each for *_rest, each in found]), tile, dtype, threads)
    return cute.suggest_tiled_copy(tile, dtype, threads, mode, bits)


def narrowed(bits: int, tile: tuple[int, int], dtype: cute.Dtype, threads: int) -> int:
    """Return the most bits, up to `bits`, of accesses to a tile that threads can share evenly.

    >>> narrowed(128, (16, 8), cute.f16, 32)
    64
    """
    while bits > dtype.bits and tile[0] * tile[1] * dtype.bits % (bits * threads):
        bits //= 2
    return bits


def next_power(n: int) -> int:
    """Return the least power of two that is n or more.

    >>> [next_power(n) for n in (1, 33, 64)]
    [1, 64, 64]
    """
    return 1 << (n - 1).bit_length()


def row_copy(*arrays: Any, rows: int = 1) -> tuple[tuple[int, int], cute.TiledCopy] | None:
    """Return a tile (1,BN) that holds a row of arrays (M,N), and how a block shares it so that the
    row stays in registers; None where it is too long for them. Where a warp holds a row, a tile may
    have several `rows`, a warp for each.

    >>> import numpy as np
    >>> tile, copy = row_copy(np.zeros((4, 1000), np.float32))
    >>> tile, copy.size()
    ((1, 1024), 32)
    """
    found = [facts_of(array) for array in arrays]
    width = min(bits // dtype.bits if mode else 1 for dtype, mode, bits in found)
    dtype, columns = found[0][0], arrays[0].shape[1]
    most = HELD_BITS // max(dtype.bits, 32)  # elements of a thread, in f32 at least
    threads = min(max(next_power(-(-columns // most)), 32), 1024)
    step = threads * width
    rows = rows if threads == 32 else 1
    tile = (rows, -(-columns // step) * step)
    if tile[1] > threads * max(most, width):
        return None
    atom = cute.Copy_Atom(f"UniversalCopy<{width * dtype.bits}>", dtype)
    lanes = cute.Layout((rows, threads), (threads, 1)) if rows > 1 else cute.Layout((1, threads))
    return tile, cute.make_tiled_copy(atom, lanes, cute.Layout((1, width)))
