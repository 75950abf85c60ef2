"""The GEMM behind `cute.ops.gemm`: D = activation(alpha * A B^T + beta * C + bias), any types.

One kernel for tensor cores and for plain multiply-adds, for operands that are contiguous along
either mode, and for batches. `GemmConfig` says how, `Epilogue` what happens to the sums. A is
(M,K,L), B (N,K,L), C and D (M,N,L), bias (N); L counts the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import cute_py as cute
from cute_py import _
from cute_py.errors import refusal
from cute_py.kernels.config import smem_atom
from cute_py.kernels.epilogue import Epilogue, activated, converted, loaded, loaded_row, row_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import AnyLayout
    from cute_py.tensor.tensor import Tensor


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
        band: tiles of M that blocks which run together cover, for each tile of N; 0: all of M.
        store: elements of one store of D, by way of shared memory; 0: straight from the
            accumulators.
        min_blocks: blocks that shall fit a multiprocessor together.
        spill_bytes: how much of a thread may go to local memory.
        stmatrix: 1: 16-bit elements of D that go through shared memory come there by stmatrix,
            where the epilogue does not take them column by column.
        pdl: 1: blocks begin while the kernel before is still at work, and wait for its results.
        prefetch: tiles of K that come to the second-level cache before that wait.
    """

    atom: str
    tile: tuple[int, int, int]
    warps: tuple[int, int]
    stages: int
    a: Side
    b: Side
    asynchronous: bool
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)
    band: int = 0
    store: int = 0
    min_blocks: int = 1
    spill_bytes: int = 0
    stmatrix: int = 0
    pdl: int = 0
    prefetch: int = 0

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other."""
        for name, wrong in _conflicts(self):
            if wrong:
                raise refusal("gemm-config", operation="GemmConfig", config=self, rule=name)

    def __str__(self) -> str:
        way = "cp.async" if self.asynchronous else "through registers"
        tile, warps = ("x".join(map(str, x)) for x in (self.tile, self.warps))
        usual = {f.name: f.default for f in fields(self) if isinstance(f.default, int)}
        more = [f" {n}={getattr(self, n)}" for n, x in usual.items() if getattr(self, n) != x]
        return (
            f"{self.atom} tile={tile} warps={warps} stages={self.stages} "
            f"A={self.a} B={self.b} {way}{''.join(more)}"
        )

    def explain(self) -> str:
        """Return the configuration and the rules that led to it, a line each."""
        return "\n".join([str(self), *[f"  {reason}" for reason in self.reasons]])

    # -- what follows from the parts

    @property
    def mma_atom(self) -> Any:  # an MMA_Atom
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

    def tiled_mma(self) -> Any:  # a TiledMMA
        """Return the atom over the threads of a block."""
        atom = self.mma_atom
        if self.simt:
            permutation = tuple([_neighbours(t, w) for t, w in zip(self.tile, self.warps)])  # noqa: B905
            return cute.make_tiled_mma(atom, (*self.warps, 1), (*permutation, _))
        m, n = self.mma_tile
        return cute.make_tiled_mma(atom, (*self.warps, 1), (m, n, atom.shape_mnk[2]))

    @property
    def block_bytes(self) -> int:
        """About what the emulator keeps of one block (bytes): registers and shared memory."""
        m, n, k = self.tile
        tiles = (m + n) * k * (self.mma_atom.a_type.bits // 8)
        fragments = 2 * tiles + 3 * m * n * 8
        return int(tiles * self.stages * 2 + fragments + 64 * self.threads)

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
        (
            "a band, a store, a prefetch and spilled bytes of at least 0, and at least 1 block",
            min(
                config.band,
                config.store,
                config.spill_bytes,
                config.min_blocks - 1,
                config.prefetch,
            )
            < 0,
        ),
        ("a stmatrix and a pdl of 0 or 1", not {config.stmatrix, config.pdl} <= {0, 1}),
        ("at least 2 stages, and exactly 2 without cp.async", _wrong_stages(config)),
    ]
    if any(wrong for _rule, wrong in found):
        return found
    rows = [(m, config.a), (n, config.b)]
    return [
        ("a tile that the threads' tile divides", bool(m % per[0] or n % per[1])),
        ("a K that the atom's K divides", k % config.mma_atom.shape_mnk[2] != 0),
        ("copies that cover the tile evenly", not all(_covers(x, k, s, threads) for x, s in rows)),
        ("stores that cover the tile evenly", not _stores(config)),
    ]


def _stores(config: GemmConfig) -> bool:
    """Tell whether the threads share the stores of a tile of D evenly."""
    (m, n, _k), side = config.tile, Side("K", config.store)
    return config.store == 0 or _covers(m, n, side, config.threads)


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


def shared_layout(config: GemmConfig, rows: int, dtype: Any, side: Side) -> AnyLayout:
    """Return where a tile (rows, bK) of each stage lies in shared memory.

    Tensor cores: in the order of global memory, swizzled so that what a warp reads at a time lies
    in different banks. Plain multiply-adds: rows contiguous, padded by one vector.
    """
    k, stages, bytes_ = config.tile[2], config.stages, dtype.bits // 8
    if config.simt:
        pitch = rows + 16 // bytes_ if side.major == "K" else rows
        return cute.Layout((rows, k, stages), (1, pitch, pitch * k))
    along_k = side.major == "K"
    atom = smem_atom(dtype, int(along_k), k if along_k else rows)
    return cute.tile_to_shape(atom, (rows, k, stages))  # type: ignore[no-any-return]


def global_copy(config: GemmConfig, rows: int, dtype: Any, side: Side) -> Any:
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


def matrix_load(config: GemmConfig, dtype: Any, side: Side) -> str | None:
    """Return the ldmatrix that fills fragments; None where only plain loads can.

    The transposing form moves 16-bit elements, the plain one any that are contiguous along K.
    """
    if config.simt or dtype.bits == 64:
        return None
    if side.major == "K":
        return "SM75_U32x4_LDSM_N"
    return "SM75_U16x8_LDSM_T" if dtype.bits == 16 else None


def stored_layout(config: GemmConfig, dtype: Any) -> cute.Layout:  # a Dtype
    """Return where a tile of D (bM, bN) lies in shared memory: rows, padded so that the pairs of
    neighbours that eight rows of a fragment hold lie in different banks.
    """
    m, n, _k = config.tile
    return cute.Layout((m, n), (n + max(8, 128 // dtype.bits), 1))


def row_copy(config: GemmConfig, dtype: Any) -> Any:  # a TiledCopy
    """Return the tiled copy that writes a tile of D (bM, bN) along its rows."""
    side = Side("K", config.store)
    along, across = _spread(config.tile[0], config.tile[1], side, config.threads)
    atom = cute.Copy_Atom(f"UniversalCopy<{config.store * dtype.bits}>", dtype)
    threads = cute.Layout((across, along), (along, 1))
    return cute.make_tiled_copy(atom, threads, cute.Layout((1, config.store)))


# -- the kernel


def _operand(config: GemmConfig, tiles: Tensor, side: Side, mma: Any, name: str) -> cute.Operand:
    """Return an operand of the main loop: its tiles (BLK, BLK_K, k) and how they are copied."""
    rows, dtype = config.tile["AB".index(name)], tiles.dtype
    shared = cute.smem(dtype, shared_layout(config, rows, dtype, side), name=f"s{name}")
    load = matrix_load(config, dtype, side)
    make = cute.make_tiled_copy_A if name == "A" else cute.make_tiled_copy_B
    s2r = None if load is None else make(cute.Copy_Atom(load, dtype), mma)
    return cute.Operand(tiles, shared, global_copy(config, rows, dtype, side), s2r)


@cute.kernel
def gemm(
    A: Any,
    B: Any,
    C: Any,
    bias: Any,
    D: Any,
    alpha: cute.f64,
    beta: cute.f64,
    config: GemmConfig,
    epilogue: Epilogue,
) -> None:
    """D = activation(alpha * A B^T + beta * C + bias), batch by batch."""
    bM, bN, bK = config.tile
    bx, by, bz = _launched(config, D)
    mma = config.tiled_mma()
    thr = mma.get_slice(cute.thread_idx())

    gA = cute.local_tile(_matrix(A, bz), (bM, bK), (bx, _))  # (BLK_M, BLK_K, k)
    gB = cute.local_tile(_matrix(B, bz), (bN, bK), (by, _))  # (BLK_N, BLK_K, k)
    gD = cute.local_tile(_matrix(D, bz), (bM, bN), (bx, by))  # (BLK_M, BLK_N)
    with cute.union():
        with cute.struct():
            a = _operand(config, gA, config.a, mma, "A")
            b = _operand(config, gB, config.b, mma, "B")
        sD = cute.smem(D.dtype, stored_layout(config, D.dtype)) if config.store else gD
    tCgD, tCsD = thr.partition_C(gD), thr.partition_C(sD)  # (MMA, MMA_M, MMA_N)
    acc = thr.make_fragment_C(tCgD)  # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    if config.pdl:
        _prefetch(config, a, b)  # while the kernel before is at work
        cute.griddepcontrol_wait()
        cute.griddepcontrol_launch_dependents()
    cute.mainloop(mma, acc, a, b)
    if config.store:
        cute.syncthreads()  # all have read the tiles that D takes the place of

    def part(matrix: Tensor) -> Any:  # a Tensor
        return thr.partition_C(cute.local_tile(matrix, (bM, bN), (bx, by)))  # (MMA, MMA_M, MMA_N)

    tCgC = part(_matrix(C, bz)) if epilogue.source else None
    shared = row_part(thr, bias, (bM, bN), by) if epilogue.bias else None
    # all at once, or a column of atoms at a time: few registers beside acc
    for j in (_,) if epilogue.is_in_place else range(cute.size(acc, 2)):
        x = converted(acc[_, _, j], epilogue.compute)  # (MMA, MMA_M)
        if epilogue.alpha:
            x = x * alpha.to(epilogue.compute)
        if tCgC is not None:
            x = x + loaded(tCgC[_, _, j], epilogue.compute) * beta.to(epilogue.compute)
        if shared is not None:
            x = x + loaded_row(shared, (_, _, j), x)
        x = activated(x, epilogue.activation)
        x = converted(x, D.dtype)
        if config.store and config.stmatrix and D.dtype.bits == 16 and j is _:
            _store_matrices(mma, x, sD)
        else:
            cute.copy(x, tCsD[_, _, j])
    if config.store:
        cute.syncthreads()
        _write_rows(config, sD, gD)


def _prefetch(config: GemmConfig, *operands: cute.Operand) -> None:
    """Bring the first tiles of K near."""
    for x in operands:
        mine = x.g2s.get_slice(cute.thread_idx()).partition_S(x.source)  # (CPY, CPY_MN, CPY_K, k)
        for k in range(config.prefetch):
            cute.prefetch(mine[_, _, _, k])


def _launched(config: GemmConfig, D: Tensor) -> tuple[Any, Any, Any]:
    """State the launch shape, and return the block's tile of M, of N, and of the batch."""
    (bM, bN, _bK), (M, N) = config.tile, D.shape[:2]
    m, n = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    L = D.shape[2] if cute.rank(D) > 2 else 1
    how: Any = {"min_blocks": config.min_blocks, "spill_bytes": config.spill_bytes}
    how["pdl"] = bool(config.pdl)
    if not config.band:
        cute.launch(grid=(m, n, L), block=config.threads, **how)
        return cute.block_idx()  # type: ignore[no-any-return]
    bands = cute.ceil_div(m, config.band)  # the last one may reach beyond M: nothing is stored
    cute.launch(grid=(config.band, n, bands * L), block=config.threads, **how)
    x, y, z = cute.block_idx()
    band, batch = (z, 0) if cute.rank(D) == 2 else (z % bands, z // bands)
    return band * config.band + x, y, batch


def _matrix(x: Tensor, batch: Any) -> Tensor:  # an integer
    """Return one matrix of a batch; what has two modes is one."""
    return x if cute.rank(x) == 2 else x[_, _, batch]


def _store_matrices(mma: Any, x: Tensor, sD: Tensor) -> None:  # a TiledMMA
    """Store accumulators (MMA, MMA_M, MMA_N) of 16 bits to a tile of D, 8x8 matrices at a time."""
    copy = cute.make_tiled_copy_C(cute.Copy_Atom("SM90_U32x4_STSM_N", x.dtype), mma)
    mine = copy.get_slice(cute.thread_idx())
    cute.copy(copy, mine.retile_S(x), mine.partition_D(sD))


def _write_rows(config: GemmConfig, sD: Tensor, gD: Tensor) -> None:
    """Copy a tile (BLK_M, BLK_N) from shared to global memory, a vector of a row at a time."""
    copy = row_copy(config, gD.dtype).get_slice(cute.thread_idx())
    tDsD, tDgD = copy.partition_S(sD), copy.partition_D(gD)  # (CPY, CPY_M, CPY_N)
    held = cute.make_rmem_tensor(tDsD.shape, gD.dtype)  # of no more registers than the sums
    cute.copy(tDsD, held)
    cute.copy(held, tDgD)
