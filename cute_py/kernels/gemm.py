"""The GEMM behind `cute.ops.gemm`: D = activation(alpha * A B^T + beta * C + bias), any types.

One kernel for tensor cores and for plain multiply-adds, for operands that are contiguous along
either mode, and for batches. `GemmConfig` says how, `Epilogue` what happens to the sums. A is
(M,K,L), B (N,K,L), C and D (M,N,L), bias (N); L counts the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import cute_py as cute
from cute_py import _
from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.tensor import Tensor
    from cute_py.layout.types import AnyLayout

ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "sigmoid")
ROW_BYTES = 128  # of shared memory: all banks once
LDMATRIX_BYTES = 32  # of K, that four 8x8 matrices of 16 bytes a row cover


@dataclass(frozen=True, slots=True)
class Side:
    """How one operand is read.

    Attributes:
        major: the mode that is contiguous in global memory, "K", or "MN" for M of A, N of B.
        vector: elements of one load from global memory.
    """

    major: str = "K"
    vector: int = 1

    def __str__(self) -> str:
        return f"{self.major}x{self.vector}"


@dataclass(frozen=True, slots=True)
class GemmConfig:
    """How a product is computed. Raises LayoutError where the parts do not fit each other.

    Attributes:
        atom: name of the MMA atom; it also says the types.
        tile: M, N and K of a block (elements).
        warps: atoms side by side in M and N: warps, or threads of UniversalFMA.
        stages: tiles of K in shared memory at a time.
        a: how A is read.
        b: how B is read.
        asynchronous: whether cp.async brings the tiles; else they pass through registers.
        reasons: the rules that led here; not compared.
    """

    atom: str
    tile: tuple[int, int, int]
    warps: tuple[int, int]
    stages: int
    a: Side
    b: Side
    asynchronous: bool
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other."""
        for name, wrong in _conflicts(self):
            if wrong:
                raise refusal("gemm-config", operation="GemmConfig", config=self, rule=name)

    def __str__(self) -> str:
        way = "cp.async" if self.asynchronous else "through registers"
        tile, warps = ("x".join(map(str, x)) for x in (self.tile, self.warps))
        return (
            f"{self.atom} tile={tile} warps={warps} stages={self.stages} "
            f"A={self.a} B={self.b} {way}"
        )

    def explain(self) -> str:
        """Return the configuration and the rules that led to it, a line each."""
        return "\n".join([str(self), *[f"  {reason}" for reason in self.reasons]])

    # -- what follows from the parts

    @property
    def mma_atom(self) -> Any:  # noqa: ANN401  (an MMA_Atom)
        """The MMA atom."""
        from cute_py.atoms.registry import get

        return get(self.atom)

    @property
    def simt(self) -> bool:
        """Whether single threads multiply."""
        return self.atom.startswith("UniversalFMA")

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.warps[0] * self.warps[1] * (1 if self.simt else 32)

    def tiled_mma(self) -> Any:  # noqa: ANN401  (a TiledMMA)
        """Return the atom over the threads of a block."""
        atom = self.mma_atom
        if self.simt:
            permutation = tuple([_neighbours(t, w) for t, w in zip(self.tile, self.warps)])  # noqa: B905
            return cute.make_tiled_mma(atom, (*self.warps, 1), (*permutation, _))
        m, n = self.mma_tile
        return cute.make_tiled_mma(atom, (*self.warps, 1), (m, n, atom.shape_mnk[2]))

    @property
    def mma_tile(self) -> tuple[int, int]:
        """M and N that all threads compute in one pass; 16 of N a warp, for ldmatrix of B."""
        m = self.mma_atom.shape_mnk[0]
        return m * self.warps[0], 16 * self.warps[1]


def _neighbours(tile: int, threads: int) -> AnyLayout:
    """Return the permutation that gives each thread up to 4 neighbours, one vector load."""
    width = min(4, tile // threads)
    return cute.Layout((threads, width), (width, 1))


def _conflicts(config: GemmConfig) -> list[tuple[str, bool]]:
    """Return rules, and whether each is broken."""
    (m, n, k), threads = config.tile, config.threads
    per = config.warps if config.simt else config.mma_tile
    found = [
        (
            "positive sizes, and 1 to 1024 threads",
            min(m, n, k, *per, threads) < 1 or threads > 1024,
        ),
        ("at least 2 stages, and exactly 2 without cp.async", _wrong_stages(config)),
    ]
    if any(wrong for _rule, wrong in found):
        return found
    rows = [(m, config.a), (n, config.b)]
    return [
        ("a tile that the threads' tile divides", bool(m % per[0] or n % per[1])),
        ("a K that the atom's K divides", k % config.mma_atom.shape_mnk[2] != 0),
        ("copies that cover the tile evenly", not all(_covers(x, k, s, threads) for x, s in rows)),
    ]


def _wrong_stages(config: GemmConfig) -> bool:
    return config.stages < 2 or (not config.asynchronous and config.stages != 2)


def _spread(rows: int, k: int, side: Side, threads: int) -> tuple[int, int]:
    """Return threads along the contiguous mode and across it, for a tile (rows, k)."""
    along = min((k if side.major == "K" else rows) // side.vector, threads)
    return along, threads // max(along, 1)


def _covers(rows: int, k: int, side: Side, threads: int) -> bool:
    contiguous, other = (k, rows) if side.major == "K" else (rows, k)
    along, across = _spread(rows, k, side, threads)
    return (
        along > 0
        and along * across == threads
        and contiguous % (along * side.vector) == 0
        and other % across == 0
    )


# -- memory


def shared_layout(config: GemmConfig, rows: int, dtype: Any, side: Side) -> AnyLayout:  # noqa: ANN401
    """Return where a tile (rows, bK) of each stage lies in shared memory.

    Tensor cores: in the order of global memory, swizzled so that what a warp reads at a time lies
    in different banks. Plain multiply-adds: rows contiguous, padded by one vector.
    """
    k, stages, bytes_ = config.tile[2], config.stages, dtype.bits // 8
    if config.simt:
        pitch = rows + 16 // bytes_ if side.major == "K" else rows
        return cute.Layout((rows, k, stages), (1, pitch, pitch * k))
    extent = min(k if side.major == "K" else rows, ROW_BYTES // bytes_)
    swizzle = _swizzle(extent * bytes_, bytes_, side.major)
    shape, stride = ((8, extent), (extent, 1)) if side.major == "K" else ((extent, 8), (1, extent))
    atom = cute.composition(swizzle, cute.Layout(shape, stride))
    return cute.tile_to_shape(atom, (rows, k, stages))


def _swizzle(row_bytes: int, bytes_: int, major: str) -> cute.Swizzle:
    """Return the swizzle of rows of so many bytes: by 16 bytes for ldmatrix; where lanes load
    their own elements, of 4 and 8 bytes, by 32.
    """
    if row_bytes == ROW_BYTES and (bytes_ == 8 or (bytes_ == 4 and major == "MN")):
        return cute.Swizzle(2, (32 // bytes_).bit_length() - 1, 2)
    return cute.Swizzle((row_bytes // 16).bit_length() - 1, (16 // bytes_).bit_length() - 1, 3)


def global_copy(config: GemmConfig, rows: int, dtype: Any, side: Side) -> Any:  # noqa: ANN401
    """Return the tiled copy of a tile (rows, bK) from global to shared memory."""
    bits = side.vector * dtype.bits
    if config.asynchronous:
        op = "CACHEGLOBAL" if bits == 128 else "CACHEALWAYS"
        name = f"SM80_CP_ASYNC_{op}_ZFILL<{bits}>"
    else:
        name = f"UniversalCopy<{bits}>"
    along, across = _spread(rows, config.tile[2], side, config.threads)
    if side.major == "K":
        threads, values = cute.Layout((across, along), (along, 1)), cute.Layout((1, side.vector))
    else:
        threads, values = cute.Layout((along, across), (1, along)), cute.Layout((side.vector, 1))
    return cute.make_tiled_copy(cute.Copy_Atom(name, dtype), threads, values)


def matrix_load(config: GemmConfig, dtype: Any, side: Side) -> str | None:  # noqa: ANN401
    """Return the ldmatrix that fills fragments; None where only plain loads can.

    The transposing form moves 16-bit elements, the plain one any that are contiguous along K.
    """
    if config.simt or dtype.bits == 64:
        return None
    if side.major == "K":
        return "SM75_U32x4_LDSM_N"
    return "SM75_U16x8_LDSM_T" if dtype.bits == 16 else None


# -- the epilogue


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What happens to the sums; each step rounds to `compute`.

    Attributes:
        compute: type of the steps: f32, f64 or s32.
        alpha: whether the sums are multiplied by alpha.
        source: whether beta * C is added.
        bias: whether bias is added, one number a column.
        activation: the name of a function, or None.
    """

    compute: str = "f32"
    alpha: bool = False
    source: bool = False
    bias: bool = False
    activation: str | None = None


def activated(x: Any, name: str | None) -> Any:  # noqa: ANN401  (a Tensor in registers)
    """Return an activation of x, element by element; gelu is the one with erf."""
    if name == "relu":
        return cute.where(x < 0, 0, x)  # NaN passes
    if name == "gelu":
        return x * 0.5 * (cute.erf(x * 0.7071067811865476) + 1)
    if name == "silu":
        return x / (cute.exp(-x) + 1)
    if name == "sigmoid":
        return cute.rcp(cute.exp(-x) + 1)
    return x if name is None else cute.tanh(x)


def converted(x: Tensor, dtype: Any) -> Tensor:  # noqa: ANN401
    """Return x in another type, clamped to its finite range if that has 8 bits."""
    kind = cute.dtype(dtype)
    return x if x.dtype is kind else x.to(kind, saturate=kind.bits == 8)


def loaded(part: Tensor, dtype: Any) -> Tensor:  # noqa: ANN401
    """Return elements of memory in registers, in another type."""
    held = cute.make_rmem_tensor(part.shape, part.dtype)
    cute.copy(part, held)
    return converted(held, dtype)


# -- the kernel


def _operand(config: GemmConfig, tiles: Tensor, side: Side, mma: Any, name: str) -> cute.Operand:  # noqa: ANN401
    """Return an operand of the main loop: its tiles (BLK, BLK_K, k) and how they are copied."""
    rows, dtype = config.tile["AB".index(name)], tiles.dtype
    shared = cute.smem(dtype, shared_layout(config, rows, dtype, side), name=f"s{name}")
    load = matrix_load(config, dtype, side)
    make = cute.make_tiled_copy_A if name == "A" else cute.make_tiled_copy_B
    s2r = None if load is None else make(cute.Copy_Atom(load, dtype), mma)
    return cute.Operand(tiles, shared, global_copy(config, rows, dtype, side), s2r)


@cute.kernel
def gemm(
    A: Any,  # noqa: ANN401
    B: Any,  # noqa: ANN401
    C: Any,  # noqa: ANN401
    bias: Any,  # noqa: ANN401
    D: Any,  # noqa: ANN401
    alpha: cute.f64,
    beta: cute.f64,
    config: GemmConfig,
    epilogue: Epilogue,
) -> None:
    """D = activation(alpha * A B^T + beta * C + bias), batch by batch."""
    (bM, bN, bK), (M, N, L) = config.tile, D.shape
    grid = (cute.ceil_div(M, bM), cute.ceil_div(N, bN), L)
    cute.launch(grid=grid, block=config.threads)
    bx, by, bz = cute.block_idx()
    mma = config.tiled_mma()
    thr = mma.get_slice(cute.thread_idx())

    gA = cute.local_tile(A[_, _, bz], (bM, bK), (bx, _))  # (BLK_M, BLK_K, k)
    gB = cute.local_tile(B[_, _, bz], (bN, bK), (by, _))  # (BLK_N, BLK_K, k)
    gD = cute.local_tile(D[_, _, bz], (bM, bN), (bx, by))  # (BLK_M, BLK_N)
    tCgD = thr.partition_C(gD)  # (MMA, MMA_M, MMA_N)
    acc = thr.make_fragment_C(tCgD)  # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    a = _operand(config, gA, config.a, mma, "A")
    b = _operand(config, gB, config.b, mma, "B")
    cute.mainloop(mma, acc, a, b)

    def part(matrix: Tensor) -> Any:  # noqa: ANN401  (a Tensor)
        return thr.partition_C(cute.local_tile(matrix, (bM, bN), (bx, by)))  # (MMA, MMA_M, MMA_N)

    tCgC = part(C[_, _, bz]) if epilogue.source else None
    tCgBias = part(bias.with_layout(cute.Layout((M, N), (0, 1)))) if epilogue.bias else None
    for j in range(cute.size(acc, 2)):  # few columns at a time: few registers beside acc
        x = converted(acc[_, _, j], epilogue.compute)  # (MMA, MMA_M)
        if epilogue.alpha:
            x = x * alpha.to(epilogue.compute)
        if tCgC is not None:
            x = x + loaded(tCgC[_, _, j], epilogue.compute) * beta.to(epilogue.compute)
        if tCgBias is not None:
            x = x + loaded(tCgBias[_, _, j], epilogue.compute)
        x = activated(x, epilogue.activation)
        cute.copy(converted(x, D.dtype), tCgD[_, _, j])
