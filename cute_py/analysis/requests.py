"""The requests of a copy: for each warp instruction, the element that every lane accesses; the
widest access (`vector_width`), and the sectors that are fetched (`coalescing`).

All counts, including bank conflicts, are made over these arrays. A request is one row of 32 lanes.
Each lane accesses `bits` contiguous bits, from the start in the row.

Global memory is fetched in sectors of 32 bytes; a warp instruction requests every sector that one
of its lanes accesses once. Source: CUDA C++ Programming Guide, "Device Memory Accesses"; CUDA C++
Best Practices Guide, "Coalesced Access to Global Memory".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cute_py.analysis import plain
from cute_py.atoms.copy import value_type
from cute_py.atoms.devices import SECTOR
from cute_py.atoms.wavefronts import LANES
from cute_py.dtypes.table import Dtype
from cute_py.errors import refusal
from cute_py.layout.layout import Layout
from cute_py.layout.offsets import has_numpy, offset_grid, one_axis
from cute_py.records import Shown
from cute_py.tiled.coverage import addressing_lanes
from cute_py.tiled.tiled_copy import TiledCopy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from cute_py.atoms.copy import Copy_Op
    from cute_py.dtypes.table import DtypeLike
    from cute_py.errors import CuteError
    from cute_py.layout.types import AnyLayout

    Array: TypeAlias = Any  # a NumPy array

WIDTHS = (8, 16, 32, 64, 128)  # widths of one lane's access (bits)


@dataclass(frozen=True, slots=True)
class Access:
    """Accesses that no TiledCopy describes.

    Args:
        tv: (thread, access) -> colexicographical index in the tile of the first element of that
            access.
        bits: the width of one thread's access: 8, 16, 32, 64 or 128 contiguous bits.
        dtype: the element type, or its width in bits.

    Raises LayoutError for other widths, and if an access is not a whole number of elements.

    >>> print(Access(Layout((32, 1)), 32, "f32"))
    32-bit accesses of f32 by (32,1):(1,0)
    """

    tv: Layout
    bits: int
    dtype: Dtype

    def __post_init__(self) -> None:
        """Look up the dtype, and check the width."""
        object.__setattr__(self, "dtype", value_type(self.dtype, "Access"))
        require_width("Access", self.bits, self.dtype)

    def __str__(self) -> str:
        return f"{self.bits}-bit accesses of {self.dtype} by {self.tv}"


def require_width(operation: str, bits: int, dtype: Dtype) -> None:
    """Refuse a width that no single instruction has."""
    if bits not in WIDTHS or bits % dtype.bits:
        widths = ", ".join(str(w) for w in WIDTHS if w % dtype.bits == 0)
        raise refusal("access-width", operation=operation, bits=bits, dtype=dtype, widths=widths)


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of warps, as arrays; as lists where there is no NumPy.

    Attributes:
        name: the name of the access.
        starts: [request, lane] -> offset of the first element that the lane accesses; -1 for an
            inactive lane.
        warps: [request] -> number of the warp.
        bits: the width of one lane's access.
        unit: the width of an element (bits).
    """

    name: str
    starts: Array
    warps: Array
    bits: int
    unit: int

    @property
    def vector(self) -> int:
        """The number of elements that a lane accesses."""
        return self.bits // self.unit

    def byte_starts(self, starts: Array = None) -> Array:
        """Return the first byte of each lane's access; negative for inactive lanes."""
        starts = self.starts if starts is None else starts
        if starts.__class__ is list:
            return [[start * self.unit // 8 for start in row] for row in starts]
        return starts * self.unit // 8


def requests_of(
    operation: str, access: TiledCopy | Access, layout: AnyLayout, space: str, side: str | None
) -> Requests:
    """Return the requests of a copy or access to a tensor of that layout.

    Args:
        operation: the public name that the user called.
        access: a TiledCopy, or an Access.
        layout: the layout of the tensor (elements), whose extents the copy's tile divides.
        space: "smem" or "gmem", the memory to analyse.
        side: "S" or "D"; None: the side of the instruction that is in that memory.

    Raises LayoutError if the elements of an access are not contiguous and aligned.
    """
    if access.__class__ is Access:
        return _of_access(operation, access, layout)
    if access.__class__ is not TiledCopy:
        raise refusal("access-subject", operation=operation, value=access)
    return _of_copy(operation, access, layout, space, side)


def _of_access(operation: str, access: Access, layout: AnyLayout) -> Requests:
    unit = access.dtype.bits
    table: Any = one_axis(layout, operation)
    grid: Any = offset_grid(access.tv)
    most = max(map(max, grid)) if grid.__class__ is list else grid.max()
    if most >= len(table):
        raise refusal("access-tile", operation=operation, tv=access.tv, layout=layout)
    if grid.__class__ is list:
        found = [[[table[index]] for index in row] for row in grid]
        plain.require_aligned(operation, found, access.bits // unit, layout)
        rows = plain.by_warp(found, LANES)
        return Requests(str(access), *rows, access.bits, unit)
    starts = table[grid]
    _require_aligned(operation, starts, access.bits // unit, layout)
    return _by_warp(str(access), starts[:, :, None], access.bits, unit)


def _of_copy(
    operation: str, copy: TiledCopy, layout: AnyLayout, space: str, side: str | None
) -> Requests:
    op, unit = copy.atom.op, copy.atom.dtype.bits
    side = side or _side(operation, op, space)
    count = copy.atom.num_val_src if side == "S" else copy.atom.num_val_dst
    if not has_numpy():
        return _of_copy_in_lists(operation, copy, layout, side, count)
    grid = touched(copy, layout, side)
    if op.adapts:  # as wide as the elements allow
        starts, count = _widest(grid, min(op.alignment_bits, 128) // unit)
    else:
        vectors = grid.reshape(len(grid), -1, count, grid.shape[2])
        _require_vectors(operation, vectors, layout)
        starts = vectors[:, :, 0, :]
    require_width(operation, count * unit, copy.atom.dtype)
    return _by_warp(str(op), _without_unread(op, starts), count * unit, unit)


def _of_copy_in_lists(
    operation: str, copy: TiledCopy, layout: AnyLayout, side: str, count: int
) -> Requests:
    """Return the requests as lists; see `plain`."""
    op, unit = copy.atom.op, copy.atom.dtype.bits
    grid = plain.grid_of(copy.tidfrg_S(layout) if side == "S" else copy.tidfrg_D(layout))
    if op.adapts:
        starts, count = plain.widest(grid, min(op.alignment_bits, 128) // unit)
    else:
        apart = plain.first_apart(grid, count)
        if apart is not None:
            raise _not_together(operation, layout, count, *apart)
        starts = [row[::count] for row in grid]
        plain.require_aligned(operation, starts, count, layout)
    require_width(operation, count * unit, copy.atom.dtype)
    lanes = addressing_lanes(op)
    for thread, row in enumerate(starts):
        if thread % op.num_threads >= lanes:
            starts[thread] = [[-1] * len(each) for each in row]
    return Requests(str(op), *plain.by_warp(starts, LANES), count * unit, unit)


def _not_together(
    operation: str, layout: AnyLayout, count: int, thread: int, start: int, value: int, offset: int
) -> CuteError:
    """Return the refusal of an access whose elements are not contiguous."""
    return refusal(
        "access-vector",
        operation=operation,
        layout=layout,
        count=count,
        thread=thread,
        start=start,
        value=value,
        offset=offset,
    )


def touched(copy: TiledCopy, layout: AnyLayout, side: str) -> Array:
    """Return the offsets as an array [thread, value, tile] of one side of a copy."""
    by_thread = copy.tidfrg_S(layout) if side == "S" else copy.tidfrg_D(layout)
    grid = offset_grid(by_thread)
    return grid.reshape(grid.shape[0], grid.shape[1], -1)


def _without_unread(op: Copy_Op, starts: Array) -> Array:
    """Return the starts without the lanes whose address is not read."""
    lanes = addressing_lanes(op)
    if lanes == op.num_threads:
        return starts
    starts = starts.copy()
    starts[[t % op.num_threads >= lanes for t in range(len(starts))]] = -1
    return starts


def _side(operation: str, op: Copy_Op, space: str) -> str:
    """Return the side of the instruction that is in a memory."""
    whole_warps = op.name.startswith(("SM90_BULK", "SM90_TMA", "SM100_TMEM"))
    if not whole_warps and op.src_space in (space, "any"):
        return "S"
    if not whole_warps and op.dst_space in (space, "any"):
        return "D"
    raise refusal("access-space", operation=operation, op=op, space=space)


def _widest(grid: Array, most: int) -> tuple[Array, int]:
    """Return [thread, access, tile] starts of the widest vectors, and their elements."""
    ordered, count = in_vectors([grid], most)
    return ordered[0][:, ::count, :], count


def _require_vectors(operation: str, vectors: Array, layout: AnyLayout) -> None:
    """Refuse [thread, access, value, tile] whose values are not contiguous."""
    import numpy as np

    count = vectors.shape[2]
    apart = vectors - vectors[:, :, :1, :] != np.arange(count)[None, None, :, None]
    if apart.any():
        thread, step, value, tile = (int(i) for i in np.argwhere(apart)[0])
        found = vectors[thread, step, 0, tile], value, vectors[thread, step, value, tile]
        raise _not_together(operation, layout, count, thread, *map(int, found))
    _require_aligned(operation, vectors[:, :, 0, :], count, layout)


def _require_aligned(operation: str, starts: Array, count: int, layout: AnyLayout) -> None:
    misaligned = starts % count != 0
    if misaligned.any():
        start = int(starts[misaligned][0])
        raise refusal(
            "access-aligned", operation=operation, layout=layout, count=count, start=start
        )


def _by_warp(name: str, starts: Array, bits: int, unit: int) -> Requests:
    """Return [thread, access, tile] starts as one row for each warp, access and tile."""
    import numpy as np

    threads = len(starts)
    warps = -(-threads // LANES)
    lanes = np.full((warps * LANES, starts[0].size), -1, dtype=np.int64)
    lanes[:threads] = starts.reshape(threads, -1)
    rows = lanes.reshape(warps, LANES, -1).transpose(0, 2, 1)
    numbers = np.repeat(np.arange(warps), rows.shape[1])
    return Requests(name, rows.reshape(-1, LANES), numbers, bits, unit)


# -- the widest vector


def vector_width(
    *operands: TiledCopy | AnyLayout, dtype: DtypeLike | int | None = None, most: int = 128
) -> int:
    """Return the widest access (bits) for a copy between tensors of these layouts.

    Args:
        operands: layouts of one tensor each, of the same size (elements): one thread moves all
            elements. If the first is a TiledCopy, each of its threads moves its elements; the
            layouts are then source and destination, whose extents the copy's tile divides.
        dtype: the element type, or its width in bits; None: that of the copy.
        most: the widest access to consider (bits).

    Law: in each layout, all vectors of the result are contiguous, in the same order, and start at a
    multiple of their width from the first element. For an element wider than `most`, the result is
    its width. Raises LayoutError for layouts of different sizes.

    >>> from cute_py import Layout
    >>> vector_width(Layout((8, 4), (1, 8)), Layout((8, 4), (1, 12)), dtype="f16")
    64
    >>> vector_width(Layout((8, 4), (1, 8)), Layout((8, 4), (4, 1)), dtype="f16")
    16
    """
    copy = operands[0] if operands and operands[0].__class__ is TiledCopy else None
    layouts: Any = operands[1:] if copy is not None else operands
    if not layouts:
        raise refusal("access-layout", operation="vector_width", access=copy or "no operands")
    if copy is not None:
        sides = "SD" if len(layouts) > 1 else "S"
        grids = [touched(copy, x, side) for x, side in zip(layouts, sides, strict=True)]
        dtype = copy.atom.dtype if dtype is None else dtype
    else:
        grids = [one_axis(x, "vector_width")[None, :, None] for x in layouts]
    if any(grid.shape != grids[0].shape for grid in grids):
        raise refusal("vector-sizes", operation="vector_width", layouts=_listed(layouts))
    if dtype is None:
        raise refusal("vector-dtype", operation="vector_width", layouts=_listed(layouts))
    unit = value_type(dtype, "vector_width").bits
    return in_vectors(grids, most // unit)[1] * unit


def _listed(layouts: tuple[Any, ...]) -> str:
    return " and ".join(str(layout) for layout in layouts)


def in_vectors(grids: list[Array], most: int) -> tuple[list[Array], int]:
    """Return [thread, value, tile] grids with their values reordered so that runs of n values are
    vectors in all grids, and the largest such n (a power of two, at most `most`, at least 1).

    The order is that of the first thread's offsets in the first grid.
    """
    import numpy as np

    order = np.argsort(grids[0][0, :, 0], kind="stable")
    ordered = [grid[:, order, :] for grid in grids]
    count = 1
    while 2 * count <= most and all(_are_vectors(grid, 2 * count) for grid in ordered):
        count *= 2
    return ordered, count


def _are_vectors(grid: Array, count: int) -> bool:
    """Return whether runs of `count` values are contiguous and start aligned."""
    import numpy as np

    threads, values, tiles = grid.shape
    if values % count:
        return False
    runs = grid.reshape(threads, values // count, count, tiles)
    first = runs[:, :, :1, :]
    together = runs - first == np.arange(count)[None, None, :, None]
    return bool(together.all() and (first % count == 0).all())


# -- sectors of global memory


@dataclass(frozen=True, slots=True)
class Coalescing(Shown):
    """The sectors of all requests of an access to global memory.

    Attributes:
        access: the name of the access.
        layout: the layout of global memory, as text.
        patterns: (requests, sectors of each, bytes of each) for requests with the same counts.
        lanes: (first byte, bytes) that each lane accesses in the first request of each pattern;
            the first byte is negative for inactive lanes.
    """

    access: str
    layout: str
    patterns: tuple[tuple[int, int, int], ...]
    lanes: tuple[tuple[tuple[int, int], ...], ...] = field(default=(), compare=False, repr=False)

    @property
    def requests(self) -> int:
        """The number of warp instructions."""
        return sum(count for count, _, _ in self.patterns)

    @property
    def sectors(self) -> int:
        """The sectors of all requests."""
        return sum(count * sectors for count, sectors, _ in self.patterns)

    @property
    def sectors_per_request(self) -> float:
        """The mean number of sectors of a request."""
        return self.sectors / self.requests

    @property
    def ideal(self) -> int:
        """The sectors if the bytes of each request were contiguous and aligned."""
        return sum(count * -(-asked // SECTOR) for count, _, asked in self.patterns)

    @property
    def bytes(self) -> int:
        """The distinct bytes that are requested."""
        return sum(count * asked for count, _, asked in self.patterns)

    @property
    def efficiency(self) -> float:
        """The fraction of the fetched bytes that is used, at most 1."""
        return self.bytes / (self.sectors * SECTOR)

    def __str__(self) -> str:
        head = (
            f"{self.access} on {self.layout}: {self.requests} requests, {self.sectors} sectors "
            f"(ideal {self.ideal}), {self.efficiency:.0%} of the bytes used"
        )
        rows = [f"{n:>7}x  {sectors:>7}  {asked:>5}" for n, sectors, asked in self.patterns]
        return "\n".join([head, "requests  sectors  bytes", *rows])


def coalescing(
    access: TiledCopy | Access, gmem_layout: AnyLayout, *, side: str | None = None
) -> Coalescing:
    """Return the 32-byte sectors that each request of a copy accesses in global memory.

    Args:
        access: a TiledCopy, or an `Access`.
        gmem_layout: the tile in global memory, with the strides of the whole tensor (elements); its
            first element is aligned to 32 bytes.
        side: "S" or "D" of the copy; None: the side that is in global memory.

    Raises LayoutError if an access is not contiguous and aligned.

    >>> from cute_py import Layout
    >>> print(coalescing(Access(Layout((32, 1)), 32, "f32"), Layout(32, 2)))
    32-bit accesses of f32 by (32,1):(1,0) on 32:2: 1 requests, 8 sectors (ideal 4), 50% of the \
bytes used
    requests  sectors  bytes
          1x        8    128
    """
    requests = requests_of("coalescing", access, gmem_layout, "gmem", side)
    alike: dict[tuple[int, int], list[int]] = {}
    for k, key in enumerate(zip(*_sectors_and_bytes(requests), strict=True)):
        alike.setdefault(key, []).append(k)
    patterns = tuple((len(ks), sectors, asked) for (sectors, asked), ks in alike.items())
    width, starts = max(1, requests.bits // 8), requests.byte_starts()
    lanes = tuple(tuple((int(n), width) for n in starts[ks[0]]) for ks in alike.values())
    return Coalescing(requests.name, str(gmem_layout), patterns, lanes)


def _sectors_and_bytes(requests: Requests) -> tuple[list[int], list[int]]:
    """Return the distinct sectors and the distinct bytes of each request."""
    import numpy as np

    first = requests.starts * requests.unit // 8
    width = max(1, requests.bits // 8)
    touched = np.where(first[:, :, None] < 0, -1, first[:, :, None] + np.arange(width))
    touched = touched.reshape(len(first), -1)
    return _distinct(touched // SECTOR), _distinct(touched)


def _distinct(table: Array) -> list[int]:
    """Return the number of distinct nonnegative entries of each row."""
    import numpy as np

    rows = np.sort(table, axis=1)
    new = rows >= 0
    new[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    return [int(count) for count in new.sum(axis=1)]
