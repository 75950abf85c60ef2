"""The way of accumulators to memory in the epilogues of CUTLASS 2.x: which leave in an iteration,
and where each thread puts them in shared memory.

CUTLASS's policies, fragment iterators and tile iterators are two layouts: `fragment` picks the
accumulators of an iteration, `layout_tv` places them. What is read back from shared memory, by
other threads, is a thread map of `output_maps`. Source: cutlass/epilogue/warp/simt_policy.h,
fragment_iterator_simt.h, tile_iterator_simt.h, tensor_op_policy.h, fragment_iterator_tensor_op.h,
tile_iterator_tensor_op.h; epilogue/threadblock/default_epilogue_tensor_op.h, default_epilogue_simt.h.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass, replace

from cute_py.dtypes.table import dtype as as_dtype
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.inverse import right_inverse
from cute_py.layout.basis import E
from cute_py.layout.layout import Layout, make_layout
from cute_py.layout.queries import size
from cute_py.tiled.output_maps import (
    TENSOR_OP_ROWS,
    default_thread_map_simt,
    default_thread_map_tensor_op,
)
from cute_py.tiled.thread_maps import numbers, require_divides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from cute_py.dtypes.table import DtypeLike
    from cute_py.tiled.output_maps import OutputTileThreadMap
    from cute_py.tiled.thread_maps import Pair

    Triple: TypeAlias = tuple[int, int, int]

QUAD = 4  # lanes that hold a row of an instruction's accumulators, each two columns of eight


@dataclass(frozen=True, slots=True)
class EpilogueMap:
    """What a thread stores to shared memory in an iteration of an epilogue, and where.

    Attributes:
        tile: (rows, columns) in shared memory, of all warps, without padding.
        iterations: of the epilogue.
        accesses: of a thread in an iteration.
        elements: consecutive accumulators of an access.
        padding: columns after each row that no coordinate reaches (elements).
        fragment: ((element, access), iteration) -> accumulator of the thread, in CUTLASS's order.
        layout_tv: (thread, (element, access)) -> row + rows * column of the tile.

    >>> found = tensor_op_epilogue((128, 128), (64, 64))
    >>> found.iterations, found.accesses, found.smem
    (8, 8, Layout((16, 128), (136, 1)))
    """

    tile: Pair
    iterations: int
    accesses: int
    elements: int
    padding: int
    fragment: Layout
    layout_tv: Layout

    @property
    def smem(self) -> Layout:
        """The layout of the tile in shared memory, its rows padded."""
        rows, columns = self.tile
        return Layout((rows, columns), (columns + self.padding, 1))

    @property
    def column_stride(self) -> int:
        """The accumulators from one access of an iteration to the next, also for a single one
        (CUTLASS's kAccumulatorColumnStride).
        """
        return int(self.fragment[(0, 1)].stride)


def simt_epilogue(
    block: Pair,
    warp: Pair,
    lanes: Layout | Pair = (4, 8),
    lane: Pair = (4, 4),
    partitions_k: int = 1,
) -> EpilogueMap:
    """Return the map of single threads, one row of their tiles at a time (CUTLASS's SimtPolicy,
    FragmentIteratorSimt, TileIteratorSimt).

    Args:
        block: (M, N) of a block.
        warp: (M, N) of a warp.
        lanes: (row, column) of the lanes -> lane; for a pair, columns run first.
        lane: (rows, columns) that a thread has next to each other.
        partitions_k: warps that split K, below one another in the tile.

    Accumulators are counted along the rows of a thread's tile. Raises LayoutError where block,
    warps and lanes do not divide.

    >>> found = simt_epilogue((128, 128), (32, 64))
    >>> found.iterations, found.accesses * found.elements, found.accesses, found.padding
    (8, 8, 2, 16)
    """
    name = "simt_epilogue"
    order = lanes if isinstance(lanes, Layout) else Layout(lanes, (lanes[1], 1))
    rows, columns = int(size(order, 0)), int(size(order, 1))
    high, wide = numbers(name, *lane)
    require_divides(name, rows * high, warp[0], "rows of all lanes", "the rows of a warp")
    require_divides(name, columns * wide, warp[1], "columns of all lanes", "the columns of a warp")
    accesses, iterations = warp[1] // (columns * wide), warp[0] // rows
    fragment = Layout(((wide, accesses), iterations), ((1, wide), wide * accesses))
    places = Layout((rows, columns), (E(0), wide * E(1)))
    held = composition(places, right_inverse(order))
    values = Layout((wide, accesses), (E(1), columns * wide * E(1)))
    return _map(name, (block, warp, partitions_k), rows, fragment, held, values, 4 * wide)


def tensor_op_epilogue(
    block: Pair, warp: Pair, instruction: Pair = (16, 8), partitions_k: int = 1
) -> EpilogueMap:
    """Return the map of tensor cores, eight rows of each warp at a time (CUTLASS's TensorOpPolicy,
    FragmentIteratorTensorOp, TileIteratorTensorOp).

    Args:
        block: (M, N) of a block.
        warp: (M, N) of a warp.
        instruction: (M, N) of the instruction.
        partitions_k: warps that split K, below one another in the tile.

    Accumulators are counted as in fragments (MMA,MMA_M,MMA_N). Raises LayoutError where block,
    warps and instruction do not divide.

    >>> found = tensor_op_epilogue((128, 128), (64, 64))
    >>> found.iterations, found.column_stride, found.padding
    (8, 16, 8)
    """
    name = "tensor_op_epilogue"
    m, n = numbers(name, *instruction)
    require_divides(name, TENSOR_OP_ROWS, m, "rows of an iteration", "the rows of an instruction")
    require_divides(name, n, 2 * QUAD, "columns of an instruction", "the columns of a quad")
    require_divides(name, m, warp[0], "rows of an instruction", "the rows of a warp")
    require_divides(name, n, warp[1], "columns of an instruction", "the columns of a warp")
    accesses, iterations = warp[1] // n, warp[0] // TENSOR_OP_ROWS
    fragment = Layout(((2, accesses), iterations), ((1, 2 * iterations), 2))
    held = Layout((QUAD, TENSOR_OP_ROWS), (2 * E(1), E(0)))
    values = Layout((2, accesses), (E(1), n * E(1)))
    parts = block, warp, partitions_k
    return _map(name, parts, TENSOR_OP_ROWS, fragment, held, values, 2 * QUAD)


def _map(
    name: str,
    parts: tuple[Pair, Pair, int],
    rows: int,
    fragment: Layout,
    held: Layout,
    values: Layout,
    padding: int,
) -> EpilogueMap:
    """Return the map of all warps; `held` and `values` give the (row, column) of a warp's lanes and
    of a thread's values in `rows` rows.
    """
    block, warp, over_k = parts
    require_divides(name, warp[0], block[0], "rows of a warp", "the rows of a block")
    require_divides(name, warp[1], block[1], "columns of a warp", "the columns of a block")
    over_m, over_n = block[0] // warp[0], block[1] // warp[1]
    warps = Layout((over_m, over_n, over_k), (rows * E(0), warp[1] * E(1), rows * over_m * E(0)))
    tile = rows * over_m * over_k, block[1]
    threads = make_layout(held, warps)
    layout = composition(Layout(tile), make_layout(threads, values))
    (elements, accesses), iterations = fragment.shape
    return EpilogueMap(tile, iterations, accesses, elements, padding, fragment, layout)


# -- both halves


@dataclass(frozen=True, slots=True)
class EpilogueParts:
    """What CUTLASS's default epilogues wire together.

    Attributes:
        store: from accumulators to shared memory.
        output: from the rows of the tile in shared memory, `output.compacted()`, to those of D.
        cuda_store: whether elements are stored by plain stores of C++ in place of asm.
    """

    store: EpilogueMap
    output: OutputTileThreadMap
    cuda_store: bool


def default_epilogue_tensor_op(
    block: Pair,
    warp: Pair,
    accumulator: DtypeLike,
    output: DtypeLike,
    elements: int,
    instruction: Pair = (16, 8),
    partitions_k: int = 1,
) -> EpilogueParts:
    """Return the parts of an epilogue of tensor cores (CUTLASS's DefaultEpilogueTensorOp).

    Args:
        block: (M, N) of a block.
        warp: (M, N) of a warp.
        accumulator: type of the sums.
        output: type of D.
        elements: of an access to D.
        instruction: (M, N) of the instruction.
        partitions_k: warps that split K.

    The padding is four accumulators for each 64 bits: 64 / bits * 4 elements.

    >>> parts = default_epilogue_tensor_op((128, 128), (64, 64), "f16", "f16", 8)
    >>> parts.store.padding, parts.cuda_store, parts.output.compacted().tile == parts.store.tile
    (16, False, True)
    """
    sums, stored = as_dtype(accumulator), as_dtype(output)
    require_divides("default_epilogue_tensor_op", sums.bits, 64, "bits of a sum", "64 bits")
    store = tensor_op_epilogue(block, warp, instruction, partitions_k)
    found = default_thread_map_tensor_op(block, warp, elements, stored.bits, partitions_k)
    padded = replace(store, padding=64 // sums.bits * 4)
    return EpilogueParts(padded, found, stored.name == "f64")


def default_epilogue_simt(
    block: Pair,
    warp: Pair,
    output: DtypeLike,
    lanes: Layout | Pair = (4, 8),
    lane: Pair = (4, 4),
    partitions_k: int = 1,
) -> EpilogueParts:
    """Return the parts of an epilogue of single threads, which stores single elements (CUTLASS's
    DefaultEpilogueSimt).

    Args:
        block: (M, N) of a block.
        warp: (M, N) of a warp.
        output: type of D.
        lanes: as in `simt_epilogue`.
        lane: as in `simt_epilogue`.
        partitions_k: warps that split K.

    >>> default_epilogue_simt((128, 128), (32, 64), "f32").store.padding
    17
    """
    stored = as_dtype(output)
    store = simt_epilogue(block, warp, lanes, lane, partitions_k)
    order = lanes if isinstance(lanes, Layout) else Layout(lanes)
    shape = int(size(order, 0)), int(size(order, 1))
    found = default_thread_map_simt(block, warp, 1, stored.bits, shape, lane[0], partitions_k)
    return EpilogueParts(replace(store, padding=store.padding + 1), found, stored.name == "f64")
