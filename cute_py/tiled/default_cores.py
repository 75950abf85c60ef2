"""The defaults of CUTLASS 2.x for a block's product: the instruction, the arrangement of warps and
lanes, the thread maps of A and B and their tiles in shared memory.

A and B are (M, K) and (N, K), as in CuTe. Source: cutlass/arch/mma.h;
cutlass/gemm/warp/default_mma_tensor_op.h; cutlass/gemm/threadblock/mma_base.h,
default_mma_core_simt.h, default_mma_core_sm75.h; device/default_gemm_configuration.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.atoms.arch import number as arch_number
from cute_py.atoms.search import find
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.dtypes.table import s32
from cute_py.errors import refusal
from cute_py.layout.cutlass2.classical import row_major_interleaved
from cute_py.layout.cutlass2.tensorop import (
    column_major_tensor_op_multiplicand_congruous,
    row_major_tensor_op_multiplicand_crosswise,
)
from cute_py.layout.layout import Layout, make_layout
from cute_py.layout.modes import get
from cute_py.tiled.thread_maps import (
    ACCESS_BITS,
    WARP,
    raked_arrangement,
    require_divides,
    simt_transpose_padding,
    stripmined_thread_map,
    warp_raked_thread_map,
)
from cute_py.tiled.tiled_mma import TiledMMA, make_tiled_mma

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from cute_py.atoms.mma import MMA_Atom
    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.layout.types import AnyLayout
    from cute_py.tiled.thread_maps import Pair, ThreadMap

    Triple: TypeAlias = tuple[int, int, int]

# tag of an operator -> (operation, saturate) of the rows that have it
OPERATORS = {
    "OpMultiplyAdd": ("fma", False),
    "OpMultiplyAddSaturate": ("fma", True),
    "OpXorPopc": ("xor.popc", False),
    "OpAndPopc": ("and.popc", False),
}
# tag of a class of instructions -> the threads that share one: a quad pair is part of a warp
OP_CLASSES = {"OpClassSimt": (1,), "OpClassTensorOp": (8, WARP)}


def default_operator(a: DtypeLike, b: DtypeLike, op_class: str = "OpClassTensorOp") -> str:
    """Return CUTLASS's default tag for operands: tensor cores saturate sums of integers of 4 and 8
    bits, and XOR single bits.

    >>> [default_operator(kind, kind) for kind in ("f16", "s8", "u4", "b1")]
    ['OpMultiplyAdd', 'OpMultiplyAddSaturate', 'OpMultiplyAddSaturate', 'OpXorPopc']
    """
    kinds = as_dtype(a), as_dtype(b)
    if op_class == "OpClassSimt" or any(kind.is_float for kind in kinds):
        return "OpMultiplyAdd"
    if all(kind.bits == 1 for kind in kinds):
        return "OpXorPopc"
    return "OpMultiplyAddSaturate" if max(k.bits for k in kinds) <= 8 else "OpMultiplyAdd"


def default_instruction(
    shape: Triple,
    a: DtypeLike,
    b: DtypeLike,
    c: DtypeLike,
    operator: str | None = None,
    op_class: str = "OpClassTensorOp",
) -> MMA_Atom:
    """Return the MMA row that CUTLASS's tags name.

    Args:
        shape: (M, N, K) of the instruction.
        a: type of A.
        b: type of B.
        c: type of the sums.
        operator: a tag of `OPERATORS`, by default that of `default_operator`.
        op_class: OpClassTensorOp, or OpClassSimt for instructions of single threads.

    Of several rows for the same instruction the oldest is returned. Raises LayoutError where none
    fits.

    >>> print(default_instruction((8, 8, 32), "s4", "s4", "s32"))
    SM75_8x8x32_S32S4S4S32_TN_SATURATE
    >>> print(default_instruction((16, 8, 16), "f16", "f16", "f32"))
    SM80_16x8x16_F32F16F16F32_TN
    """
    operator = default_operator(a, b, op_class) if operator is None else operator
    kind, threads = OPERATORS.get(operator), OP_CLASSES.get(op_class, ())
    types = as_dtype(a), as_dtype(b), as_dtype(c)
    fitting = [
        atom
        for atom in find(a=types[0], b=types[1], c=types[2], shape=shape)
        if (atom.operation, atom.saturate) == kind and atom.num_threads in threads
    ]
    if fitting:
        return min(fitting, key=lambda atom: (arch_number(atom.min_arch), str(atom)))
    facts: dict[str, Any] = {
        "shape": tuple(shape),
        "types": f"{c} += {a} * {b}",
        "tags": f"{op_class}, {operator}",
        "known": ", ".join([*OP_CLASSES, *OPERATORS]),
    }
    raise refusal("no-instruction", operation="default_instruction", **facts)


# -- policies


@dataclass(frozen=True, slots=True)
class MmaPolicy:
    """The product of a block (CUTLASS's MmaPolicy).

    Attributes:
        operator: the tiled MMA of all warps.
        padding_a: (rows, columns) added to A's tile (M, K) in shared memory.
        padding_b: (rows, columns) added to B's tile (K, N).
        partitions_k: warps that split K.

    >>> policy = MmaPolicy(make_tiled_mma("UniversalFMA<f32>", (16, 16, 1)), (4, 0), (0, 4))
    >>> policy.shared_shapes((128, 128, 8), 2)
    ((132, 16), (16, 132))
    """

    operator: TiledMMA
    padding_a: Pair = (0, 0)
    padding_b: Pair = (0, 0)
    partitions_k: int = 1

    def shared_shapes(self, block: Triple, stages: int) -> tuple[Pair, Pair]:
        """Return CUTLASS's shapes of A (M, K * stages) and B (K * stages, N) in shared memory, with
        their padding.
        """
        m, n, k = block
        (am, ak), (bk, bn) = self.padding_a, self.padding_b
        return (m + am, k * stages + ak), (k * stages + bk, n + bn)


def default_mma_tensor_op(
    block: Triple,
    warp: Triple,
    instruction: Triple,
    a: DtypeLike,
    b: DtypeLike,
    c: DtypeLike,
    operator: str | None = None,
) -> TiledMMA:
    """Return the product of a block by tensor cores (CUTLASS's DefaultMmaTensorOp): instructions
    side by side in the tile of a warp, warps side by side in that of the block, M fastest, then N,
    then K.

    Args:
        block: (M, N, K) of the block.
        warp: (M, N, K) of a warp.
        instruction: (M, N, K) of the instruction.
        a: type of A.
        b: type of B.
        c: type of the sums.
        operator: as for `default_instruction`.

    >>> mma = default_mma_tensor_op((128, 128, 32), (64, 64, 32), (16, 8, 16), "f16", "f16", "f32")
    >>> mma.size(), mma.tile_shape, mma.get_slice(32).partition_C(Layout((128, 128)))[1]
    (128, (128, 128, 16), 64)
    """
    atom = default_instruction(instruction, a, b, c, operator)
    if atom.num_threads != WARP:
        raise refusal("warp-instruction", operation="default_mma_tensor_op", atom=atom)
    warps, tiles = _side_by_side("default_mma_tensor_op", block, warp, atom.shape_mnk)
    return make_tiled_mma(atom, warps, tiles)


def _side_by_side(
    name: str, block: Triple, warp: Triple, unit: Triple
) -> tuple[Triple, tuple[Layout, Layout, int]]:
    """Return the warps in M, N and K, and the permutations that keep the tile of a warp whole."""
    for mode, (b, w, u) in enumerate(zip(block, warp, unit, strict=True)):
        letter = "MNK"[mode]
        require_divides(name, w, b, f"{letter} of a warp", f"{letter} of a block")
        require_divides(name, u, w, f"{letter} of an instruction", f"{letter} of a warp")
    m, n, k = (b // w for b, w in zip(block, warp, strict=True))
    tiles = [
        Layout((u, count, w // u), (1, w, u))
        for u, count, w in zip(unit[:2], (m, n), warp[:2], strict=True)
    ]
    return (m, n, k), (tiles[0], tiles[1], k * unit[2])


# -- cores


@dataclass(frozen=True, slots=True)
class MmaCore:
    """What CUTLASS's DefaultMmaCore derives from the tiles of block and warp.

    Attributes:
        policy: the product, and the padding of shared memory.
        threads: threads of the block.
        map_a: who loads A from global memory; the tile is (contiguous, strided).
        map_b: the same of B.
        smem_a: the tile of A in shared memory, (M, K, stages).
        smem_b: the tile of B in shared memory, (N, K, stages).
    """

    policy: MmaPolicy
    threads: int
    map_a: ThreadMap
    map_b: ThreadMap
    smem_a: AnyLayout
    smem_b: AnyLayout


@dataclass(frozen=True, slots=True)
class SimtWarp:
    """How the threads of a warp share its tile (CUTLASS's MmaSimtPolicy).

    Attributes:
        lanes: (rows, columns) of lanes.
        thread_tile: (M, N) that a thread computes.
        lane: (M, N) of it that are next to each other.
        layout: (row, column) of lanes -> lane: RowMajorInterleaved<2> where both sides of the
            thread tile are over 4, so that four neighbours are a square; row-major otherwise.

    >>> print(simt_warp((32, 64)))
    SimtWarp(lanes=(4, 8), thread_tile=(8, 8), lane=(4, 4), layout=((2,2),8):((1,16),2))
    """

    lanes: Pair
    thread_tile: Pair
    lane: Pair
    layout: Layout

    def __str__(self) -> str:
        parts = f"lanes={self.lanes}, thread_tile={self.thread_tile}, lane={self.lane}"
        return f"SimtWarp({parts}, layout={self.layout})"


def simt_warp(warp: Pair, a: DtypeLike = "f32", b: DtypeLike | None = None) -> SimtWarp:
    """Return how a warp of single threads shares a tile of (M, N).

    Args:
        warp: (M, N) of the warp.
        a: type of A.
        b: type of B, by default that of A.

    There are 8 rows of lanes where M > N, and 4 otherwise. Raises LayoutError where they do not
    divide the tile.

    >>> simt_warp((64, 32)).lanes, simt_warp((64, 32)).thread_tile
    ((8, 4), (8, 8))
    """
    rows = 8 if warp[0] > warp[1] else 4
    lanes = rows, WARP // rows
    require_divides("simt_warp", lanes[0], warp[0], "rows of lanes", "the rows of a warp")
    require_divides("simt_warp", lanes[1], warp[1], "columns of lanes", "the columns of a warp")
    tile = warp[0] // lanes[0], warp[1] // lanes[1]
    wide = [ACCESS_BITS // as_dtype(kind).bits for kind in (a, a if b is None else b)]
    lane = min(wide[0], tile[0]), min(wide[1], tile[1])
    return SimtWarp(lanes, tile, lane, row_major_interleaved(lanes, 2 if min(tile) > 4 else 1))


def default_mma_core_simt(
    block: Triple,
    warp: Triple,
    a: DtypeLike = "f32",
    b: DtypeLike | None = None,
    stages: int = 2,
    c: DtypeLike | None = None,
) -> MmaCore:
    """Return the core of single threads, A row-major and B column-major (CUTLASS's
    DefaultMmaCore for OpClassSimt): scalar loads along K, tiles transposed and padded in shared
    memory.

    Args:
        block: (M, N, K) of the block.
        warp: (M, N, K) of a warp.
        a: type of A.
        b: type of B, by default that of A.
        stages: tiles of K in shared memory.
        c: type of the sums, by default that of A; of integers below 32 bits s32.

    >>> core = default_mma_core_simt((128, 128, 8), (32, 64, 8))
    >>> core.threads, core.policy.padding_a, print(core.smem_a)
    (128,8,2):(1,132,1056)
    (256, (4, 0), None)
    """
    name = "default_mma_core_simt"
    kinds = as_dtype(a), as_dtype(a if b is None else b)
    shared = simt_warp(warp[:2], *kinds)
    (m, n, k), _tiles = _side_by_side(name, block, warp, (1, 1, 1))
    threads = WARP * m * n * k
    lanes = [get(shared.layout, mode) for mode in (0, 1)]
    atoms = make_layout(
        make_layout(lanes[0], Layout(m, WARP)),
        make_layout(lanes[1], Layout(n, WARP * m)),
        Layout(k, WARP * m * n),
    )
    places = [
        Layout((count, warps, wide, each // wide), (wide, whole, 1, count * wide))
        for count, warps, wide, each, whole in zip(
            shared.lanes, (m, n), shared.lane, shared.thread_tile, warp, strict=False
        )
    ]
    sums = _sums(kinds[0]) if c is None else as_dtype(c)
    fma = f"UniversalFMA<{sums.name},{kinds[0].name},{kinds[1].name},{sums.name}>"
    mma = make_tiled_mma(fma, atoms, (*places, k))
    pads = [simt_transpose_padding(block[2], kind.bits) for kind in kinds]
    loads = [stripmined_thread_map((block[2], extent), threads) for extent in block[:2]]
    tiles = [
        Layout((extent, block[2], stages), (1, extent + pad, (extent + pad) * block[2]))
        for extent, pad in zip(block, pads, strict=False)
    ]
    policy = MmaPolicy(mma, (pads[0], 0), (0, pads[1]), k)
    return MmaCore(policy, threads, loads[0], loads[1], tiles[0], tiles[1])


def _sums(a: Dtype) -> Dtype:
    """Return the type in which products of `a` are added, unless another is asked for."""
    return a if a.is_float or a.bits >= s32.bits else s32


def default_mma_core_tensor_op(
    block: Triple,
    warp: Triple,
    instruction: Triple,
    kind: DtypeLike,
    c: DtypeLike,
    major: str = "K",
    stages: int = 2,
) -> MmaCore:
    """Return the core of tensor cores (CUTLASS's DefaultMmaCore for OpClassTensorOp, Sm75).

    Args:
        block: (M, N, K) of the block.
        warp: (M, N, K) of a warp.
        instruction: (M, N, K) of the instruction.
        kind: type of A and B.
        c: type of the sums.
        major: "K" for A row-major and B column-major, in crosswise tiles; "MN" for A column-major
            and B row-major, in congruous ones.
        stages: tiles of K in shared memory.

    >>> core = default_mma_core_tensor_op(
    ...     (128, 128, 32), (64, 64, 32), (16, 8, 8), "f16", "f32", "MN"
    ... )
    >>> core.map_a.delta, core.map_a.iterations, print(core.smem_a)
    Sw<3,3,4> o 0 o (128,32,2):(1,128,4096)
    ((64, 4), (2, 2), None)
    """
    if major not in ("K", "MN"):
        raise refusal("core-major", operation="default_mma_core_tensor_op", major=major)
    mma = default_mma_tensor_op(block, warp, instruction, kind, kind, c)
    bits, threads, depth = as_dtype(kind).bits, int(mma.size()), block[2]
    maps, tiles = [], []
    for extent in block[:2]:
        shape = (depth, extent) if major == "K" else (extent, depth)
        lanes = raked_arrangement(shape[0], bits, WARP if major == "K" else 8)
        maps.append(warp_raked_thread_map(shape, threads, lanes, ACCESS_BITS // bits))
        tiles.append(_operand(major, bits, extent, depth, stages))
    policy = MmaPolicy(mma, partitions_k=block[2] // warp[2])
    return MmaCore(policy, threads, maps[0], maps[1], tiles[0], tiles[1])


def _operand(major: str, bits: int, extent: int, depth: int, stages: int) -> AnyLayout:
    """Return a tile (M or N, K, stages) of shared memory."""
    if major == "K":
        return row_major_tensor_op_multiplicand_crosswise(bits, depth, extent, depth, stages=stages)
    line = min(8 * ACCESS_BITS // bits, extent)  # 128 bytes
    return column_major_tensor_op_multiplicand_congruous(bits, line, extent, depth, stages=stages)
