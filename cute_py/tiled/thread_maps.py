"""The thread maps of CUTLASS 2.x: strip-mined, transposed and warp-raked, as thread-value layouts.

A map is pitch-linear: coordinates are (contiguous, strided). An access moves `elements` elements
along the contiguous mode; between accesses a thread steps by `delta`, `iterations` times in each
mode. As a TiledCopy, the same map needs no iterators. Source: cutlass
include/cutlass/transform/pitch_linear_thread_map.h; conv/gemm default_mma_core.h for
`simt_transpose_padding` and the raked arrangements.
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.atoms.arch import NumThreadsPerWarp
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.algebra.composition import composition
from cute_py.layout.layout import Layout
from cute_py.layout.queries import size
from cute_py.tiled.tiled_copy import TiledCopy
from cute_py.tiled.tiles import checked_atom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from cute_py.atoms.copy import Copy_Atom

    Pair: TypeAlias = tuple[int, int]

WARP = NumThreadsPerWarp
ACCESS_BITS = 128  # the widest load and store


@dataclass(frozen=True, slots=True)
class ThreadMap:
    """A map of threads to the accesses that they make to a tile of (contiguous, strided) elements.

    Attributes:
        shape: (contiguous, strided) of the tile (elements).
        threads: the number of threads.
        elements: elements per access.
        iterations: accesses of each thread in (contiguous, strided).
        delta: step between accesses (elements), also for a single one.
        layout_tv: (thread, (element, iteration...)) -> contiguous + extent * strided of `tile`.
        tile: (contiguous, strided) that all accesses cover: more rows than `shape` has where these
            are no multiple of the rows that the threads fill at a time.

    >>> print(stripmined_thread_map((8, 128), 256).layout_tv)
    ((8,32),(1,4)):((1,8),(1,256))
    """

    shape: Pair
    threads: int
    elements: int
    iterations: Pair
    delta: Pair
    layout_tv: Layout
    tile: Pair

    def start(self, thread: int) -> Pair:
        """Return the coordinate of a thread's first access.

        >>> stripmined_thread_map((8, 128), 256).start(255)
        (7, 31)
        """
        index = int(self.layout_tv(thread, 0))
        return index % self.tile[0], index // self.tile[0]

    def tiled_copy(self, atom: Copy_Atom) -> TiledCopy:
        """Return the copy of a (contiguous, strided) tile by this map; the tile is `tile`.

        Args:
            atom: a copy atom that moves one access: `elements` values.

        Raises LayoutError if the atom moves another number of values.
        """
        atom = checked_atom(atom, "ThreadMap.tiled_copy")
        if self.elements % atom.num_values:
            raise refusal(
                "thread-map-atom",
                operation="ThreadMap.tiled_copy",
                atom=atom,
                values=atom.num_values,
                elements=self.elements,
            )
        threads, values = size(self.layout_tv, 0), size(self.layout_tv, 1)
        assert threads == self.threads
        assert values * threads == self.tile[0] * self.tile[1]
        return TiledCopy(atom, self.layout_tv, self.tile)


def stripmined_thread_map(shape: Pair, threads: int, elements: int = 1) -> ThreadMap:
    """Return the map whose threads fill the tile row by row (CUTLASS's
    PitchLinearStripminedThreadMap).

    Args:
        shape: (contiguous, strided) of the tile (elements).
        threads: how many take part.
        elements: of one access, along the contiguous mode.

    Rows that are no multiple of those that the threads fill at a time are rounded up: accesses past
    the last row must be guarded, as those of `local_tile` are. Raises LayoutError if accesses do
    not fill a row, or if threads and the accesses of a row do not divide.

    >>> stripmined_thread_map((8, 128), 256).iterations
    (1, 4)
    >>> found = stripmined_thread_map((8, 100), 256)
    >>> found.iterations, found.tile
    ((1, 4), (8, 128))
    """
    name = "stripmined_thread_map"
    shape, (threads, elements) = _pair(name, shape), numbers(name, threads, elements)
    require_divides(name, elements, shape[0], "elements of an access", "a row")
    (c, s), v = shape, shape[0] // elements
    if threads >= v:
        rows = threads // v
        require_divides(name, v, threads, "accesses of a row", "the threads")
        require_divides(name, 1, s, "a row", "the rows of the tile")
        steps = -(-s // rows)
        layout = Layout(((v, rows), (elements, steps)), ((elements, c), (1, c * rows)))
        return ThreadMap(shape, threads, elements, (1, steps), (1, rows), layout, (c, rows * steps))
    require_divides(name, threads, v, "threads", "the accesses of a row")
    step = threads * elements
    layout = Layout((threads, (elements, v // threads, s)), (elements, (1, step, c)))
    return ThreadMap(shape, threads, elements, (v // threads, s), (step, 1), layout, shape)


def transposed_thread_map(base: ThreadMap) -> ThreadMap:
    """Return the map with contiguous and strided swapped, to write a tile transposed that was read
    by `base` (CUTLASS's TransposePitchLinearThreadMapSimt).

    Args:
        base: a map of single elements.

    Raises LayoutError for accesses of several elements, which are not contiguous afterwards.

    >>> transposed_thread_map(stripmined_thread_map((8, 128), 256)).start(1)
    (0, 1)
    """
    if base.__class__ is not ThreadMap:
        raise refusal("thread-map", operation="transposed_thread_map", value=base)
    if base.elements != 1:
        raise refusal(
            "thread-map-transpose", operation="transposed_thread_map", elements=base.elements
        )
    c, s = base.tile
    swap = Layout((c, s), (s, 1))  # contiguous + c * strided -> strided + s * contiguous
    layout, shape = composition(swap, base.layout_tv), base.shape[::-1]
    steps = base.iterations[::-1], base.delta[::-1]
    return ThreadMap(shape, base.threads, 1, *steps, layout, (s, c))


def warp_raked_thread_map(
    shape: Pair, threads: int, arrangement: Pair, elements: int = 1
) -> ThreadMap:
    """Return the map in which each warp makes adjacent accesses (CUTLASS's
    PitchLinearWarpRakedThreadMap).

    Args:
        shape: (contiguous, strided) of the tile (elements).
        threads: how many take part, whole warps.
        arrangement: lanes of a warp in (contiguous, strided).
        elements: of one access, along the contiguous mode.

    Raises LayoutError if lanes, warps and tile do not divide, for example for more warps than the
    tile has accesses.

    >>> warp_raked_thread_map((128, 32), 128, (8, 4), 8).iterations
    (2, 2)
    """
    name = "warp_raked_thread_map"
    shape, (threads, elements) = _pair(name, shape), numbers(name, threads, elements)
    (c, s), (wc, ws) = shape, _pair(name, arrangement)
    if wc * ws != WARP or threads % WARP:
        raise refusal("thread-map-warps", operation=name, threads=threads, arrangement=arrangement)
    require_divides(name, wc * elements, c, "elements of a warp's row", "a row")
    require_divides(name, ws, s, "rows of a warp", "the rows")
    warps, across, down = threads // WARP, c // elements // wc, s // ws
    warps_s = min(down, warps)
    warps_c = warps // warps_s if warps > down else 1
    require_divides(name, warps_s, down, "warps along the rows", "the steps along the rows")
    require_divides(name, warps_c, across, "warps along a row", "the steps along a row")
    require_divides(name, warps_s, warps, "warps along the rows", "the warps")
    ic, is_ = across // warps_c, down // warps_s
    layout = Layout(
        ((wc, ws, warps_c, warps_s), (elements, ic, is_)),
        ((elements, c, wc * elements * ic, ws * is_ * c), (1, wc * elements, ws * c)),
    )
    return ThreadMap(shape, threads, elements, (ic, is_), (wc * elements, ws), layout, shape)


def _pair(operation: str, x: object) -> Pair:
    """Return (contiguous, strided) as two numbers."""
    if x.__class__ is not tuple or len(x) != 2:
        raise refusal("thread-map-pair", operation=operation, value=x)
    return numbers(operation, *x)  # type: ignore[return-value]


def numbers(operation: str, *values: object) -> tuple[int, ...]:
    """Return the values as integers, for `operation`."""
    return tuple([ints.as_int(ints.normalize(x, operation), operation) for x in values])


def require_divides(operation: str, part: int, whole: int, a: str, b: str) -> None:
    """Refuse a part that is larger than the whole (0 iterations), does not divide it, or is 0."""
    if part < 1 or whole < 1 or whole % part:
        raise refusal("thread-map-divides", operation=operation, part=part, whole=whole, a=a, b=b)


# -- the choices of CUTLASS 2.x


def raked_arrangement(contiguous: int, bits: int, most: int = WARP) -> Pair:
    """Return the lanes of a warp in (contiguous, strided) for 128-bit accesses.

    Args:
        contiguous: extent of the tile's contiguous mode (elements).
        bits: bits of an element.
        most: the most lanes along the contiguous mode: 8, a row of 128 bytes, for a tile that is
            contiguous in M or N (DefaultMmaCore, congruous); no limit if it is in K (crosswise).

    Raises LayoutError if accesses or lanes do not divide.

    >>> raked_arrangement(128, 16, most=8), raked_arrangement(128, 4)
    ((8, 4), (4, 8))
    """
    name = "raked_arrangement"
    contiguous, bits, most = numbers(name, contiguous, bits, most)
    require_divides(name, bits, ACCESS_BITS, "bits of an element", "the 128 bits of an access")
    elements = ACCESS_BITS // bits
    require_divides(name, elements, contiguous, "elements of an access", "a row")
    lanes = min(contiguous // elements, most)
    require_divides(name, lanes, WARP, "lanes along a row", "the lanes of a warp")
    return lanes, WARP // lanes


def simt_transpose_padding(k: int, bits: int, threads: int = WARP) -> int:
    """Return the padding (elements) of each row of a tile that is written transposed to shared
    memory, so that a warp's scalar stores hit distinct banks (CUTLASS's simt_transpose_padding).

    Args:
        k: extent of K (elements), along which the threads of a warp run first.
        bits: bits of an element.
        threads: threads of a warp.

    It is at least one element, where CUTLASS rounds a part of one down to none: 32 stores along K
    of 8 bytes would then meet in two banks. Raises LayoutError if K does not divide the warp, or
    the bits of an element an access.

    >>> [simt_transpose_padding(8, bits) for bits in (32, 64, 16, 8)]
    [4, 2, 8, 16]
    >>> simt_transpose_padding(32, 64)
    1
    """
    name = "simt_transpose_padding"
    k, bits, threads = numbers(name, k, bits, threads)
    require_divides(name, bits, ACCESS_BITS, "bits of an element", "the 128 bits of an access")
    require_divides(name, k, threads, "elements along K", "the threads of a warp")
    if bits >= 32:
        return max(1, threads // k // (bits // 32))
    return threads // k * (32 // bits)
