"""The threadblocks of CUTLASS 2.x: which tile of D each computes, which part of K, of which sizes.

A `ThreadblockSwizzle` is a launch: its grid, and the tile of each block, by one and the same log.
`k_partition` and `k_partition_by_floor` divide K among slices. All take run-time integers, too.
"""

from __future__ import annotations

from cute_py.dtypes.table import Dtype
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.dtypes.table import DtypeLike
    from cute_py.layout.types import Leaf

MOST_ALONG_Z = 65535  # blocks of a grid along its third mode
LOGS = ((8, 6, 3), (4, 3, 2), (2, 2, 1))  # (N, tiles along N) from which on the log is this
VECTOR_BITS = 128


class ThreadblockSwizzle(Value):
    """How the blocks of a launch are spread over tiles: 2^log columns of tiles are neighbours in
    the first mode of the grid, so that blocks that run together share rows and columns.

    Attributes:
        tiles: how many there are along M, along N, and slices of K.
        log: of the columns that are neighbours.
        batch: how many products; each has a grid's z of its own, up to 65,535, and more than one
            where there are more.

    Law: the blocks of `grid` have every tile once; others have no tile. Source: cutlass
    include/cutlass/gemm/threadblock/threadblock_swizzle.h.

    >>> launch = identity_swizzle((5, 7, 1), 8)
    >>> launch.log, launch.grid, launch.tile(13, 0, 0), launch.tile(15, 0, 0)
    (3, (40, 1, 1), (1, 5, 0), None)
    """

    __slots__ = __match_args__ = ("tiles", "log", "batch")

    def __init__(self, tiles: tuple[Leaf, Leaf, Leaf], log: int = 0, batch: Leaf = 1) -> None:
        self.tiles, self.log, self.batch = _checked(tiles, log, batch)

    @property
    def grid(self) -> tuple[Leaf, Leaf, Leaf]:
        """How many blocks are launched."""
        m, n, k = self.tiles
        if not ints.is_one(self.batch):
            k = ints.min_(self.batch, MOST_ALONG_Z)
        return ints.mul(m, 1 << self.log), ints.ceil_div(n, 1 << self.log), k

    def place(self, x: Leaf, y: Leaf, z: Leaf = 0) -> tuple[Leaf, Leaf, Leaf]:
        """Return the tile of M, of N, and z, of a block; it may be outside of the tiles."""
        wide = 1 << self.log
        return ints.div(x, wide), ints.add(ints.mul(y, wide), ints.mod(x, wide)), z

    def tile(self, x: int, y: int, z: int = 0) -> tuple[int, int, int] | None:
        """Return the same; None for a block without a tile."""
        i, j, k = self.place(x, y, z)
        found: Any = i, j, k
        most = *self.tiles[:2], self.grid[2]
        return found if all(0 <= at < n for at, n in zip(found, most, strict=True)) else None

    def batches(self, z: int) -> range:
        """Return the products of the blocks with this z: it, and every further one by the extent of
        the grid (where CUTLASS drops those from 65,536 on).
        """
        _at_least(0, "batches", z=z)
        return range(z, ints.as_int(self.batch, "batches"), ints.as_int(self.grid[2], "batches"))


def identity_swizzle(tiles: tuple[Leaf, Leaf, Leaf], N: int = 1) -> ThreadblockSwizzle:
    """Return the launch of GemmIdentityThreadblockSwizzle<N>, and with several slices of K that of
    GemmSplitKIdentityThreadblockSwizzle<N>.

    Args:
        tiles: how many along M, along N, and slices of K.
        N: the most columns of tiles that are neighbours: 1, 2, 4 or 8.

    The log is 3, 2 or 1 where N is at least 8, 4 or 2 and D has at least 6, 3 or 2 columns of
    tiles, else 0. CUTLASS's get_tile_offset(tiled_shape) takes N in place of the log of the launch,
    and so misses tiles; here both are one. Raises LayoutError for another N.

    >>> identity_swizzle((5, 7, 3), 4).grid
    (20, 2, 3)
    """
    if N not in (1, 2, 4, 8) or isinstance(N, bool):
        raise refusal(
            "threadblock-choice", operation="identity_swizzle", given=N, known="1, 2, 4, 8"
        )
    launch = ThreadblockSwizzle(tiles)
    columns = ints.as_int(launch.tiles[1], "identity_swizzle")
    log = next((log for most, least, log in LOGS if most <= N and columns >= least), 0)
    return ThreadblockSwizzle(launch.tiles, log)


def batched_swizzle(tiles: tuple[Leaf, Leaf], batch: Leaf) -> ThreadblockSwizzle:
    """Return the launch of GemmBatchedIdentityThreadblockSwizzle: the log is 0, z is the product.

    Args:
        tiles: how many along M and N.
        batch: how many products. More than 65,535 take turns (`ThreadblockSwizzle.batches`).

    >>> launch = batched_swizzle((2, 3), 65537)
    >>> launch.grid, [*launch.batches(1)]
    ((2, 3, 65535), [1, 65536])
    """
    return ThreadblockSwizzle((*tiles, 1), 0, batch)


def _checked(tiles: Any, log: Any, batch: Leaf) -> tuple[tuple[Leaf, Leaf, Leaf], int, Leaf]:
    """Return what a launch is made of, as integers; refuse what is none."""
    where, most = "ThreadblockSwizzle", LOGS[0][2]
    if not isinstance(tiles, (tuple, list)) or len(tiles) != 3:
        rule = "tiles along M and N, and slices of K"
        raise refusal("threadblock-range", operation=where, name="tiles", value=tiles, rule=rule)
    if log not in range(most + 1) or isinstance(log, bool):
        rule = f"from 0 to {most}"
        raise refusal("threadblock-range", operation=where, name="log", value=log, rule=rule)
    m, n, k, batch = _at_least(0, where, M=tiles[0], N=tiles[1], slices=tiles[2], batch=batch)
    if ints.is_one(k) is False and ints.is_one(batch) is False:
        rule = "1 slice of K where there are several products"
        raise refusal("threadblock-range", operation=where, name="slices", value=k, rule=rule)
    return (m, n, k), log, batch


def _at_least(least: int, operation: str, **given: Any) -> list[Leaf]:
    """Return integers, also of run time; refuse those that are known to be less."""
    found = [ints.normalize(x, operation) for x in given.values()]
    for name, x in zip(given, found, strict=True):
        if ints.less(x, least) is True:
            rule = f"at least {least}"
            raise refusal("threadblock-range", operation=operation, name=name, value=x, rule=rule)
    return found


# -- parts of K


def _slice(K: Leaf, slices: Leaf, z: Leaf, operation: str) -> list[Leaf]:
    """Return the same as integers; refuse a slice that is none of them."""
    (K, z), (slices,) = _at_least(0, operation, K=K, z=z), _at_least(1, operation, slices=slices)
    if ints.less(z, slices) is False:
        rule = f"less than {slices} slices"
        raise refusal("threadblock-range", operation=operation, name="z", value=z, rule=rule)
    return [K, slices, z]


def k_partition(K: Leaf, depth: Leaf, slices: Leaf, z: Leaf) -> tuple[Leaf, Leaf]:
    """Return the first element of K of a slice, and its end; the last slices may be empty.

    Args:
        K: how many elements there are.
        depth: of a tile.
        slices: how many parts.
        z: which.

    Law: each slice has ceil(ceil(K / depth) / slices) tiles, the last ones what is left. Source:
    cutlass gemm/kernel/gemm.h, gemm_k_size.

    >>> sizes = [end - first for first, end in (k_partition(4096, 32, 20, z) for z in range(20))]
    >>> sizes[0], sizes[17:]
    (224, [224, 64, 0])
    """
    K, slices, z = _slice(K, slices, z, "k_partition")
    (depth,) = _at_least(1, "k_partition", depth=depth)
    each = ints.mul(ints.ceil_div(ints.ceil_div(K, depth), slices), depth)
    first = ints.mul(z, each)
    return ints.min_(first, K), ints.min_(ints.add(first, each), K)


def k_partition_by_floor(K: Leaf, slices: int, z: int) -> tuple[Leaf, Leaf]:
    """Return the same where all slices have K // slices elements, and the last one also the rest,
    as CUTLASS's text on parallel split K says.

    >>> k_partition_by_floor(4096, 20, 0), k_partition_by_floor(4096, 20, 19)
    ((0, 204), (3876, 4096))
    """
    K, slices, z = _slice(K, slices, z, "k_partition_by_floor")
    each = ints.div(K, slices)
    return ints.mul(z, each), K if z == slices - 1 else ints.mul(z + 1, each)


# -- defaults


class DefaultGemmConfiguration(Value):
    """What a GEMM of CUTLASS 2.x is made of where nothing else is said.

    Attributes:
        tile: M, N and K of a block; `warp`: of a warp; `instruction`: of an instruction.
        stages: tiles of K in shared memory.
        vector_bits: of an access to global memory; 0: one element.

    Source: cutlass gemm/device/default_gemm_configuration.h.
    """

    __slots__ = __match_args__ = ("tile", "warp", "instruction", "stages", "vector_bits")

    def __init__(
        self,
        tile: tuple[int, int, int],
        warp: tuple[int, int, int],
        instruction: tuple[int, int, int],
        stages: int,
        vector_bits: int,
    ) -> None:
        self.tile, self.warp, self.instruction = tile, warp, instruction
        self.stages, self.vector_bits = stages, vector_bits

    @property
    def warps(self) -> tuple[int, int, int]:
        """How many warps share a tile, along M, N and K."""
        m, n, k = (x // y for x, y in zip(self.tile, self.warp, strict=True))
        return m, n, k

    def alignment(self, kind: DtypeLike) -> int:
        """Return how many elements of an operand an access has, by its own type (CUTLASS takes that
        of A for B, too).
        """
        return max(self.vector_bits // as_dtype(kind).bits, 1)

    def saturates(self, kind: DtypeLike) -> bool:
        """Return whether sums of operands of this type are clamped, as those of integers of 4 and 8
        bits by tensor cores are.
        """
        found: Dtype = as_dtype(kind)
        return self.vector_bits > 0 and found.is_integer and found.bits in (4, 8)


SIMT = DefaultGemmConfiguration((128, 128, 8), (32, 64, 8), (1, 1, 1), 2, 0)
TENSOR_OP = DefaultGemmConfiguration((128, 256, 32), (64, 64, 32), (16, 8, 8), 2, VECTOR_BITS)
CLASSES = {"OpClassSimt": SIMT, "OpClassTensorOp": TENSOR_OP}


def default_gemm_configuration(op_class: str) -> DefaultGemmConfiguration:
    """Return the defaults of a GEMM by single threads, OpClassSimt, or on tensor cores of Turing,
    OpClassTensorOp; refuse other classes.

    >>> found = default_gemm_configuration("OpClassTensorOp")
    >>> found.tile, found.warps, found.alignment("f16"), found.saturates("s8")
    ((128, 256, 32), (2, 4, 1), 8, True)
    """
    if op_class not in [*CLASSES]:
        known = ", ".join(map(repr, CLASSES))
        facts = {"given": op_class, "known": known}
        raise refusal("threadblock-choice", operation="default_gemm_configuration", **facts)
    return CLASSES[op_class]
