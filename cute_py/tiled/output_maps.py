"""The output tiles of epilogues in CUTLASS 2.x: which thread stores which elements, and how its
pointer moves.

A tile is (rows, columns), cut into clusters, groups and rows: `OutputTileShape` counts them, once
for what all warps cover in an iteration of the epilogue, and once for how often that is repeated.
Everything is one thread-value layout; CUTLASS's increments and advances are its strides in bytes.
Source: cutlass/epilogue/threadblock/output_tile_thread_map.h, default_thread_map_simt.h,
default_thread_map_tensor_op.h, predicated_tile_iterator_params.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cute_py.errors import refusal
from cute_py.layout.layout import Layout, make_layout
from cute_py.layout.modes import get
from cute_py.tiled.thread_maps import WARP, numbers, require_divides
from cute_py.tiled.tiled_copy import TiledCopy
from cute_py.tiled.tiles import checked_atom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.atoms.copy import Copy_Atom
    from cute_py.tiled.thread_maps import Pair

TARGET_BYTES = 256  # of a row that the lanes of a warp store side by side
TENSOR_OP_ROWS = 8  # of an instruction's accumulators that leave in one iteration


class OutputTileShape(NamedTuple):
    """Counts, or steps, of the five levels of an output tile, the fastest first."""

    column: int
    row: int = 1
    group: int = 1
    cluster: int = 1
    tile: int = 1


class RowArrangement(NamedTuple):
    """How a warp's lanes lie over the rows that its warps share.

    Attributes:
        width: lanes side by side in a row.
        rows: rows of lanes.
        iterations_row: accesses of a thread down the rows.
        iterations_column: accesses of a thread along a row.
        delta_row: rows from access to access.
        delta_column: columns from access to access (elements).
    """

    width: int
    rows: int
    iterations_row: int
    iterations_column: int
    delta_row: int
    delta_column: int


def row_arrangement(row: int, column: int, warps: int, elements: int, bits: int) -> RowArrangement:
    """Return how lanes lie over `row` rows of `column` elements that `warps` warps share (CUTLASS's
    RowArrangement).

    Args:
        row: rows of the group.
        column: elements of a row.
        warps: warps that share the group.
        elements: of one access.
        bits: of an element.

    1-D, if there is at most a row for each warp: the 32 lanes are in one row. 2-D otherwise: lanes
    fill 256 bytes of a row, and then further rows. Raises LayoutError where lanes, warps and rows
    do not divide.

    >>> row_arrangement(8, 128, 2, 4, 32)
    RowArrangement(width=16, rows=2, iterations_row=2, iterations_column=2, delta_row=2, delta_column=64)
    """  # noqa: E501
    name = "row_arrangement"
    row, column, warps, elements, bits = numbers(name, row, column, warps, elements, bits)
    require_divides(name, elements, column, "elements of an access", "a row")
    across = column // elements
    if row <= warps:
        require_divides(name, warps, row, "warps of a group", "its rows")
        require_divides(name, WARP, across, "lanes of a warp", "the accesses of a row")
        return RowArrangement(WARP, 1, 1, across // WARP, 1, WARP * elements)
    require_divides(name, warps, row, "warps of a group", "its rows")
    require_divides(name, 8, bits * elements, "bits of a byte", "the bits of an access")
    require_divides(name, bits * elements, 8 * TARGET_BYTES, "bits of an access", "256 bytes")
    share, target = row // warps, 8 * TARGET_BYTES // (elements * bits)
    wide = WARP // target > share
    width = WARP // share if wide else min(across, WARP, target)
    require_divides(name, width, WARP, "lanes along a row", "the lanes of a warp")
    rows = share if wide else min(row, WARP // width)
    require_divides(name, WARP // width, rows, "rows of the other lanes", "rows of lanes")
    require_divides(name, rows, share, "rows of lanes", "the rows of a warp")
    require_divides(name, width, across, "lanes along a row", "the accesses of a row")
    return RowArrangement(width, rows, share // rows, across // width, rows, width * elements)


class OutputTileParams(NamedTuple):
    """By how many bytes the pointer moves (CUTLASS's PredicatedTileIteratorParams): the increments
    within an iteration of the epilogue, and the advances between iterations, each on top of those
    before it when its counter wraps.
    """

    increment_row: int
    increment_group: int
    increment_cluster: int
    advance_row: int
    advance_group: int
    advance_cluster: int
    advance_tile: int


@dataclass(frozen=True, slots=True)
class OutputTileThreadMap:
    """A map of threads to the accesses that they make to an output tile, iteration by iteration.

    Attributes:
        threads: the number of threads.
        elements: elements of an access, along a row.
        bits: bits of an element.
        shape: what all warps cover in an iteration: columns are elements.
        count: how often each level is repeated in later iterations of the epilogue.
        iterations: accesses of a thread in an iteration, (column, row, group, cluster).
        delta: steps between these accesses: columns in elements, the others in rows of the tile.
        layout: (thread, (element, column, row, group, cluster), (row step, group step)) ->
            row + rows * column of the tile.

    >>> found = default_thread_map_tensor_op((128, 128), (64, 64), 4, 32)
    >>> found.tile, found.iterations[:4], found.delta[:2], found.start(127)
    ((128, 128), (2, 2, 1, 1), (64, 2), (69, 60))
    """

    threads: int
    elements: int
    bits: int
    shape: OutputTileShape
    count: OutputTileShape
    iterations: OutputTileShape
    delta: OutputTileShape
    layout: Layout

    @property
    def layout_tv(self) -> Layout:
        """The thread-value layout of all iterations: (thread, value) -> row + rows * column."""
        threads, values, steps = (get(self.layout, mode) for mode in range(3))
        return make_layout(threads, make_layout(values, steps))

    @property
    def tile(self) -> Pair:
        """The (rows, columns) of the whole tile."""
        row, group, cluster = (a * b for a, b in zip(self.shape[1:4], self.count[1:4], strict=True))
        return row * group * cluster, self.shape.column

    def start(self, thread: int) -> Pair:
        """Return (row, column) of a thread's first access.

        >>> default_thread_map_simt((128, 128), (32, 64), 1, 32).start(64)
        (32, 0)
        """
        return self._place(int(self.layout(thread, 0, 0)))

    def offset(self, access: int) -> Pair:
        """Return (row, column) of an access of an iteration, counted from the first, the column
        fastest (CUTLASS's OutputTileThreadMapHelpers::iteration_offset).

        >>> default_thread_map_tensor_op((128, 128), (64, 64), 4, 32).offset(3)
        (2, 64)
        """
        return self._place(int(self.layout(0, self.elements * access, 0)))

    def _place(self, index: int) -> Pair:
        return index % self.tile[0], index // self.tile[0]

    @property
    def steps(self) -> int:
        """The iterations of the epilogue: the steps that the iterator's ++ makes in a tile."""
        return self.count.row * self.count.group

    def state(self, step: int) -> tuple[int, int, int]:
        """Return CUTLASS's (row, group, cluster) counters after `step` times ++, or one += step.

        >>> default_thread_map_simt((128, 128), (32, 64), 1, 32).state(5)
        (1, 1, 0)
        """
        row, group = self.count.row, self.count.group
        return step % row, step // row % group, 0

    def params(self, stride: int) -> OutputTileParams:
        """Return the moves of a pointer to memory of rows of `stride` bytes.

        >>> default_thread_map_simt((128, 128), (32, 64), 1, 32).params(512)[:4]
        (512, 4096, -3584, 512)
        """
        row, group, cluster = self.delta[1:4]
        rows, groups = self.iterations[1:3]
        back = row * (rows - 1)
        height = self.shape.row * self.count.row
        groups_back = group * (groups - 1)
        moves = (
            row,
            group - back,
            cluster - groups_back - back,
            self.shape.row,
            (self.shape.group - 1) * height,
            self.count.group * self.shape.group * height,
            self.shape.group * self.shape.row * self.shape.cluster * self.shape.tile,
        )
        return OutputTileParams(*[stride * each for each in moves])

    def compacted(self) -> OutputTileThreadMap:
        """Return the map over the rows of one iteration, side by side in shared memory (CUTLASS's
        CompactedThreadMap): the same accesses in the same order.

        >>> default_thread_map_tensor_op((128, 128), (64, 64), 4, 32).compacted().tile
        (16, 128)
        """
        once = OutputTileShape(1)
        return output_tile_thread_map(self.shape, once, self.threads, self.elements, self.bits)

    def tiled_copy(self, atom: Copy_Atom) -> TiledCopy:
        """Return the copy of a (rows, columns) tile by this map.

        Raises LayoutError if the atom moves values of more than an access.
        """
        name = "OutputTileThreadMap.tiled_copy"
        atom = checked_atom(atom, name)
        part, whole = "values of the atom", "the elements of an access"
        require_divides(name, atom.num_values, self.elements, part, whole)
        return TiledCopy(atom, self.layout_tv, self.tile)


def output_tile_thread_map(
    shape: tuple[int, ...], count: tuple[int, ...], threads: int, elements: int, bits: int
) -> OutputTileThreadMap:
    """Return the map of threads to an output tile (CUTLASS's OutputTileOptimalThreadMap).

    Args:
        shape: (column, row, group, cluster, tile): columns are elements; an iteration of the
            epilogue covers rows * groups * clusters rows of the tile.
        count: how often rows and groups are repeated, as in `OutputTileThreadMap`.
        threads: how many take part, whole warps.
        elements: of one access, along a row.
        bits: of an element.

    Warps are given to clusters, then to groups, then to rows; lanes as `row_arrangement` says. Law:
    each element of the tile belongs to one thread and access. Raises LayoutError where warps, lanes
    and the tile do not divide, and for more clusters than warps, of which CUTLASS's map leaves rows
    out.

    >>> print(output_tile_thread_map((128, 8, 2), (1, 8, 1), 128, 4, 32).layout)
    ((16,2,2,2,1),(4,2,2,1,1),(8,1)):((512,1,4,64,128),(128,8192,2,1,1),(8,128))
    """
    name = "output_tile_thread_map"
    shape, count = OutputTileShape(*numbers(name, *shape)), OutputTileShape(*numbers(name, *count))
    threads, elements, bits = numbers(name, threads, elements, bits)
    require_divides(name, WARP, threads, "lanes of a warp", "the threads")
    require_divides(name, count.cluster * count.column, 1, "columns and clusters of a count", "1")
    of_cluster, of_group, iterations_group = _warps(shape, threads // WARP)
    rows = row_arrangement(shape.row, shape.column, of_group, elements, bits)
    group = shape.row * count.row  # rows from group to group
    cluster = group * shape.group * count.group
    height = cluster * shape.cluster
    iterations = OutputTileShape(rows.iterations_column, rows.iterations_row, iterations_group)
    side_by_side = of_cluster // of_group
    delta = OutputTileShape(
        rows.delta_column, rows.delta_row, 1 if iterations_group == 1 else group * side_by_side
    )
    owners = (rows.width, rows.rows, of_group, side_by_side, shape.cluster)
    apart = (elements * height, 1, rows.rows * rows.iterations_row, group, cluster)
    values, between = (elements, *iterations[:4]), (height, delta.column * height, *delta[1:4])
    steps, advances = (count.row, count.group), (shape.row, group * shape.group)
    layout = Layout((owners, values, steps), (apart, between, advances))
    return OutputTileThreadMap(threads, elements, bits, shape, count, iterations, delta, layout)


def _warps(shape: OutputTileShape, warps: int) -> tuple[int, int, int]:
    """Return the warps of a cluster and of a group, and the groups that each of these has."""
    name = "output_tile_thread_map"
    require_divides(name, shape.cluster, warps, "clusters", "the warps")
    of_cluster = warps // shape.cluster
    if shape.group > of_cluster:
        require_divides(name, of_cluster, shape.group, "warps of a cluster", "its groups")
        return of_cluster, 1, shape.group // of_cluster
    require_divides(name, shape.group, of_cluster, "groups", "the warps of a cluster")
    return of_cluster, of_cluster // shape.group, 1


def default_thread_map_simt(
    block: Pair,
    warp: Pair,
    elements: int,
    bits: int,
    lanes: Pair = (4, 8),
    lane: int = 4,
    partitions_k: int = 1,
) -> OutputTileThreadMap:
    """Return the map of an epilogue of single threads (CUTLASS's DefaultThreadMapSimt).

    Args:
        block: (M, N) of a block.
        warp: (M, N) of a warp.
        elements: of one access.
        bits: of an element.
        lanes: (rows, columns) of the 32 lanes of a warp.
        lane: consecutive rows of a lane.
        partitions_k: warps that split K.

    >>> found = default_thread_map_simt((128, 128), (32, 64), 1, 32)
    >>> found.iterations[:4], found.delta.group, found.start(32), found.start(64)
    ((4, 1, 2, 1), 8, (4, 0), (32, 0))
    """
    name = "default_thread_map_simt"
    rows, columns, lane = numbers(name, *lanes, lane)
    warps_m, threads = _threads_of(name, block, warp, partitions_k)
    if rows * columns != WARP:
        raise refusal("thread-map-warps", operation=name, threads=threads, arrangement=lanes)
    require_divides(name, rows * lane, warp[0], "rows of all lanes", "the rows of a warp")
    groups = warp[0] // (rows * lane)
    shape = OutputTileShape(block[1], 1, rows, warps_m, 1)
    count = OutputTileShape(1, lane, groups, 1, lane * groups)
    return output_tile_thread_map(shape, count, threads, elements, bits)


def default_thread_map_tensor_op(
    block: Pair, warp: Pair, elements: int, bits: int, partitions_k: int = 1
) -> OutputTileThreadMap:
    """Return the map of an epilogue of tensor cores (CUTLASS's DefaultThreadMapTensorOp): the warps
    store eight rows each at a time.

    Args:
        block: (M, N) of a block.
        warp: (M, N) of a warp.
        elements: of one access.
        bits: of an element.
        partitions_k: warps that split K.

    >>> found = default_thread_map_tensor_op((128, 128), (64, 64), 4, 32)
    >>> found.iterations[:4], found.delta[:2], found.start(32)
    ((2, 2, 1, 1), (64, 2), (4, 0))
    """
    name = "default_thread_map_tensor_op"
    warps_m, threads = _threads_of(name, block, warp, partitions_k)
    require_divides(name, TENSOR_OP_ROWS, warp[0], "rows of an iteration", "the rows of a warp")
    steps = warp[0] // TENSOR_OP_ROWS
    shape = OutputTileShape(block[1], TENSOR_OP_ROWS, warps_m, 1, 1)
    count = OutputTileShape(1, steps, 1, 1, steps)
    return output_tile_thread_map(shape, count, threads, elements, bits)


def _threads_of(name: str, block: Pair, warp: Pair, partitions_k: int) -> Pair:
    """Return the warps along M, and the threads of a block."""
    require_divides(name, warp[0], block[0], "rows of a warp", "the rows of a block")
    require_divides(name, warp[1], block[1], "columns of a warp", "the columns of a block")
    warps_m = block[0] // warp[0]
    return warps_m, WARP * warps_m * (block[1] // warp[1]) * partitions_k
