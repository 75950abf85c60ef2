"""Configurations of GEMM kernels: which instruction, tile, copies and shared-memory layouts.

The rules, in order: the instruction by the types (`ATOMS`); vectors as wide as the rows of the
array allow, along its contiguous mode; cp.async from 4 bytes on, else through registers; ldmatrix
for rows along K, its transposing form for 2-byte elements along M or N, else loads of single
elements. A configuration is data: `replace(config, tile=...)` changes one part, and
`explain()` shows what follows from the parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd, prod
from typing import TYPE_CHECKING, Any

import cute_py as cute
from cute_py import _
from cute_py.atoms.registry import get
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.kernels.arrays import facts_of, narrowed
from cute_py.kernels.configuration import Config, part, told
from cute_py.kernels.splits import NO_SPLIT, Split
from cute_py.layout.tuples import ceil_div
from cute_py.tiled.suggest import lanes_across

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.layout.types import AnyLayout

# types of A and B -> the instruction
ATOMS = {
    ("f16", "f16"): "SM80_16x8x16_F32F16F16F32_TN",
    ("bf16", "bf16"): "SM80_16x8x16_F32BF16BF16F32_TN",
    ("tf32", "tf32"): "SM80_16x8x8_F32TF32TF32F32_TN",
    ("f64", "f64"): "SM80_8x8x4_F64F64F64F64_TN",
    ("b1", "b1"): "SM80_16x8x256_S32U1U1S32_TN_ANDPOPC",
    **{
        (a, b): f"SM80_16x8x32_S32{a.upper()}{b.upper()}S32_TN"
        for a in ("s8", "u8")
        for b in ("s8", "u8")
    },
    **{
        (a, b): f"SM80_16x8x64_S32{a.upper()}{b.upper()}S32_TN"
        for a in ("s4", "u4")
        for b in ("s4", "u4")
    },
    **{
        (a, b): f"SM89_16x8x32_F32{a.upper()}{b.upper()}F32_TN"
        for a in ("e4m3", "e5m2")
        for b in ("e4m3", "e5m2")
    },
    ("f32", "f32"): "UniversalFMA<f32,f32,f32,f32>",
}
OF_TILES = "tile", "tile, warps, stages"  # reasons about a tile, alone and with others
FMA = "UniversalFMA"
VECTOR_BYTES = 16  # the widest load, and the chunk of a swizzle
CHUNK = VECTOR_BYTES * 8  # bits: a row of ldmatrix
LINE = 1024  # bits: all banks, once
K_BYTES = {"f64": 128, "f32": 32}  # of a tile's K: of FMA all of it is in registers; others 64
MOST_PREFETCHED = 64  # tiles: each is an instruction of the kernel
LARGEST = {8: 64}  # bytes of an accumulator -> most of M and N; others 128


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
class Operand:
    """How tiles of A or B get to the registers, as a configuration says.

    Attributes:
        smem: the layout in shared memory (BLK_MN, BLK_K, stages).
        g2s: the tiled copy of a tile from global to shared memory.
        s2r: the copy atom from shared memory to the fragments: ldmatrix, or a load of one element.
    """

    smem: AnyLayout
    g2s: cute.TiledCopy
    s2r: cute.Copy_Atom

    def __str__(self) -> str:
        return f"{self.g2s.atom.op} -> {self.smem} -> {self.s2r.op}"

    @property
    def by_matrix(self) -> bool:
        """Whether ldmatrix loads the fragments."""
        return "LDSM" in self.s2r.op.name


@dataclass(frozen=True, slots=True)
class GemmConfig(Config):
    """How a product is computed. `GemmConfig(...)` is a `MultistageConfig`, the one for all GPUs.
    Raises LayoutError where the parts do not fit each other.

    Attributes:
        atom: name of the MMA atom; it also says the types.
        tile: M, N and K of a block (elements).
        warps: atoms side by side in M, N and perhaps K: warps, or threads of UniversalFMA.
        stages: tiles of K in shared memory at a time.
        a: how A is read.
        b: how B is read.
    """

    CODE, OPERATION = "gemm-config", "GemmConfig"

    atom: str
    tile: tuple[int, int, int] = field(metadata=told(counts=(3,), about=OF_TILES))
    warps: tuple[int, int] | tuple[int, int, int] = field(
        metadata=told(counts=(2, 3), about=OF_TILES)
    )
    stages: int = field(metadata=told(about=("stages", *OF_TILES[1:])))
    a: Side
    b: Side

    def __new__(cls, *_parts: Any, **_named: Any) -> GemmConfig:
        """Return a configuration without parts, of all GPUs where no class is named."""
        return object.__new__(MultistageConfig if cls is GemmConfig else cls)

    def text(self, others: Mapping[str, Any] | None = None) -> str:
        """Return the instruction, the parts, and how A and B travel, as text."""
        tile, warps, stages, *more = self.words(others)
        sides = f"A={self.a} B={self.b} {self.way}"
        return " ".join([self.atom, tile, warps, stages, sides, *more])

    # -- what follows from the parts

    @property
    def family(self) -> str:
        """The name of the family of kernels that it is for."""
        raise NotImplementedError

    @property
    def way(self) -> str:
        """How tiles get to shared memory."""
        raise NotImplementedError

    @property
    def threads(self) -> int:
        """Threads of a block."""
        raise NotImplementedError

    @property
    def mma_atom(self) -> Any:  # an MMA_Atom
        """The MMA atom."""
        return get(self.atom)

    @property
    def emulated(self) -> bool:
        """Whether some architectures replace its instruction by several slower ones."""
        return bool(self.mma_atom.emulated)

    @property
    def block_bytes(self) -> int:
        """About what the emulator keeps of one block (bytes): registers and shared memory."""
        m, n, k = self.tile
        tiles = (m + n) * k * (self.mma_atom.a_type.bits // 8)
        fragments = 2 * tiles + 3 * m * n * 8
        return int(tiles * self.stages * 2 + fragments + 64 * self.threads)

    def tiled_mma(self, along_k: bool = False) -> Any:  # a TiledMMA
        """Return the atom over the threads of a block. Raises LayoutError for several warps along K
        unless the kernel expects them: their sums must be added, and written once.
        """
        raise NotImplementedError

    def smem_layouts(self) -> list[AnyLayout]:
        """Return the layouts of all stages of A and of B in shared memory."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class MultistageConfig(GemmConfig):
    """How the kernel of all GPUs computes a product: all warps copy and multiply. Warps along K
    share the k-blocks of each tile, and `cute.mainloop` adds their sums.

    Attributes:
        asynchronous: whether cp.async brings tiles, from vectors of 4 bytes on; else they pass
            through registers.
        reasons: why each part was chosen; not compared.
        band: tiles of M in a band of the rasterization: blocks that run together cover one band of
            D; 0: all of M.
        store: elements per store of D, through shared memory; 0: straight from the accumulators.
        min_blocks: blocks that must fit on a multiprocessor together.
        spill_bytes: how much each thread may spill to local memory.
        stmatrix: 1: stmatrix writes 16-bit elements of D to shared memory, unless the epilogue
            takes them column by column.
        pdl: 1: blocks start while the previous kernel is still running, and wait for its results
            (programmatic dependent launch).
        prefetch: tiles of K prefetched to L2 before that wait.
        parts: how K is split among blocks; in text "split=serial:4", for example.
        batches: blocks of the grid along the batch, each of which loops over every n-th product; 0:
            one for each.
        ldmatrix: 1: ldmatrix reads the tiles where it can, and shared memory is swizzled for it;
            0: threads load single elements, and rows are plain.
        flat: 1: the grid has one mode; for more than 65,535 tiles along N, or products in a batch.
    """

    asynchronous: bool = True
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)
    band: int = part(0)
    store: int = part(0)
    min_blocks: int = part(1)
    spill_bytes: int = part(0)
    stmatrix: int = part(0)
    pdl: int = part(0)
    prefetch: int = part(0)
    parts: Split = field(
        default=NO_SPLIT,
        metadata=told(text="split", reads=Split.of),
    )
    batches: int = part(0)
    ldmatrix: int = part(1, counts=())
    flat: int = part(0, counts=())

    @property
    def family(self) -> str:
        """The name of the family of kernels that it is for."""
        return "simt" if self.simt else "multistage"

    @property
    def way(self) -> str:
        """How tiles get to shared memory."""
        return "cp.async" if self.asynchronous else "through registers"

    @property
    def simt(self) -> bool:
        """Whether single threads multiply."""
        return self.atom.startswith(FMA)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return prod(self.atoms_mnk) * (1 if self.simt else 32)

    @property
    def atoms_mnk(self) -> tuple[int, int, int]:
        """Atoms side by side in M, N and K."""
        m, n, k = (*self.warps, 1)[:3]
        return m, n, k * self.parts.slices

    @property
    def stores_matrices(self) -> bool:
        """Whether stmatrix writes D to shared memory; warps along K write one by one."""
        return bool(self.store and self.stmatrix) and self.atoms_mnk[2] == 1

    def tiled_mma(self, along_k: bool = False) -> Any:  # a TiledMMA
        """Return the atom over the threads of a block; as `GemmConfig` says."""
        if self.atoms_mnk[2] > 1 and not along_k:
            rule = "one warp along K: this kernel does not add the sums of several"
            raise refusal(self.CODE, operation=self.OPERATION, config=self, rule=rule)
        atom = self.mma_atom
        if self.simt:
            permutation = tuple([_neighbours(t, w) for t, w in zip(self.tile, self.warps[:2])])  # noqa: B905
            return cute.make_tiled_mma(atom, _lanes(*self.atoms_mnk), (*permutation, _))
        return cute.make_tiled_mma(atom, self.atoms_mnk, (*self.mma_tile, _))

    @property
    def mma_tile(self) -> tuple[int, int]:
        """M and N that all threads compute at a time; a warp's part of A and of B has the four
        matrices of an ldmatrix, and 16 of N.
        """
        atom = self.mma_atom
        m, n, k = atom.shape_mnk
        if atom.a_type.bits < 64:
            m, n = (rows * max(1, 4 * LINE // (rows * k * atom.a_type.bits)) for rows in (m, n))
        return m * self.warps[0], max(n, 16) * self.warps[1]

    def rules(self, has_others: bool) -> list[tuple[str, bool]]:
        """Return what must hold of the parts, and whether it does not."""
        return _rules(self, has_others)

    def details(self) -> list[str]:
        """Return how A and B travel, a line each."""
        return [f"{name}: {x}" for name, x in zip("AB", self.operands(), strict=True)]

    def smem_layouts(self) -> list[AnyLayout]:
        """Return the layouts of all stages of A and of B in shared memory."""
        return [x.smem for x in self.operands()]

    def operands(self) -> tuple[Operand, Operand]:
        """Return how tiles of A and of B travel."""
        (m, n, _k), atom = self.tile, self.mma_atom
        return self._operand(m, atom.a_type, self.a), self._operand(n, atom.b_type, self.b)

    def _operand(self, rows: int, dtype: Dtype, side: Side) -> Operand:
        tile, bits, op = (rows, self.tile[2]), side.vector * dtype.bits, "UniversalCopy"
        if self.asynchronous and bits >= 32:
            op = f"SM80_CP_ASYNC_CACHE{'GLOBAL' if bits == 128 else 'ALWAYS'}_ZFILL"
        return Operand(
            self._smem(tile, dtype, side.major == "K"),
            cute.suggest_tiled_copy(tile, dtype, self.threads, side.major, bits, op),
            cute.Copy_Atom(self._load(dtype, side.major == "K"), dtype),
        )

    def _smem(self, tile: tuple[int, int], dtype: Dtype, along_k: bool) -> AnyLayout:
        """Return the layout of all stages. Tensor cores: in the order of global memory. Plain
        multiply-adds: rows contiguous, padded by one vector.
        """
        rows, k = tile
        if self.simt:
            pitch = rows + CHUNK // dtype.bits if along_k else rows
            return cute.Layout((rows, k, self.stages), (1, pitch, pitch * k))
        atom = smem_atom(dtype, int(along_k), tile[along_k], bool(self.ldmatrix))
        return cute.tile_to_shape(atom, (*tile, self.stages))  # type: ignore[no-any-return]

    def _load(self, dtype: Dtype, along_k: bool) -> str:
        """Return the instruction that fills fragments. The transposing ldmatrix moves 16-bit
        elements, the plain one any that are contiguous along K.
        """
        matrix = "SM75_U32x4_LDSM_N" if along_k else "SM75_U16x8_LDSM_T"
        can = not self.simt and dtype.bits <= 32 and (along_k or dtype.bits == 16)
        return matrix if self.ldmatrix and can else f"UniversalCopy<{dtype.bits}>"

    # -- a tile of D, by way of shared memory

    def store_layout(self, dtype: Dtype) -> cute.Layout:
        """Return the layout of a tile of D (BLK_M, BLK_N) in shared memory: rows, padded so that
        the pairs of neighbours that eight rows of a fragment hold are in different banks.
        """
        m, n, _k = self.tile
        return cute.Layout((m, n), (n + max(8, CHUNK // dtype.bits), 1))

    def store_copy(self, dtype: Dtype) -> cute.TiledCopy:
        """Return the tiled copy of a tile of D (BLK_M, BLK_N) along its rows."""
        m, n, _k = self.tile
        bits = self.store * dtype.bits
        return cute.suggest_tiled_copy((m, n), dtype, self.threads, "K", bits)


def _neighbours(tile: int, threads: int) -> AnyLayout:
    """Return the permutation that gives each thread up to 4 neighbours, one vector load."""
    width = min(4, tile // threads)
    return cute.Layout((threads, width), (width, 1))


def _lanes(m: int, n: int, k: int) -> cute.Layout:
    """Return the arrangement of threads that multiply: warps of 8 along M and 4 along N.

    Lanes i and i ^ 1 share rows of A, lanes i and i ^ 2 columns of B, so that shared memory may
    serve 16 lanes of a 128-bit load together (CUTLASS: RowMajorInterleaved<2>).
    """
    if m % 8 or n % 4:
        return cute.Layout((m, n, k))
    return cute.Layout(((8, m // 8), (2, 2, n // 4), k), ((2, 32), (1, 16, 4 * m), m * n))


def _rules(config: MultistageConfig, has_others: bool) -> list[tuple[str, bool]]:
    """Return rules, and whether each is broken; whether there are parts of the other schedules."""
    (m, n, k), threads = config.tile, config.threads
    per = config.warps[:2] if config.simt else config.mma_tile
    counts = (config.band, config.store, config.spill_bytes, config.prefetch, config.batches)
    found = [
        (
            "positive sizes, and 1 to 1024 threads",
            min(m, n, k, *per, *config.warps) < 1 or threads > 1024,
        ),
        (
            "a band, a store, a prefetch, batches and spilled bytes of at least 0, and at least 1 "
            "block",
            min(*counts, config.min_blocks - 1) < 0,
        ),
        (
            f"at most {MOST_PREFETCHED} prefetched tiles",
            config.prefetch > MOST_PREFETCHED,
        ),
        ("a cluster, a split and a two_level of the other schedules alone", has_others),
        config.parts.rule,
        (
            "no band, prefetch, flat and batches where blocks of one kernel split K",
            config.parts.in_memory
            and any((config.band, config.prefetch, config.flat, config.batches)),
        ),
        (
            "a stmatrix, a pdl, an ldmatrix and a flat of 0 or 1",
            not {config.stmatrix, config.pdl, config.ldmatrix, config.flat} <= {0, 1},
        ),
        (
            "at least 2 stages, and exactly 2 without cp.async",
            config.stages < 2 or (config.stages > 2 and not config.asynchronous),
        ),
    ]
    if any(broken for _rule, broken in found):
        return found
    atom_k = config.mma_atom.shape_mnk[2]
    sides = [(m, k, config.a), (n, k, config.b)]
    stores = [(m, n, Side("K", config.store))] if config.store else []
    return [
        ("a tile that the threads' tile divides", bool(m % per[0] or n % per[1])),
        ("a K that the atoms' K divides", k % (atom_k * config.atoms_mnk[2]) != 0),
        ("rows of 16 bytes in shared memory, in groups of 8", not _in_atoms(config, sides)),
        (
            "single elements along K for plain multiply-adds, which transpose them",
            config.simt and any(side.major == "K" and side.vector > 1 for *_tile, side in sides),
        ),
        ("copies that cover the tile evenly", not _cover(sides, threads)),
        ("stores that cover the tile evenly", not _cover(stores, threads)),
    ]


def _in_atoms(config: MultistageConfig, sides: Iterable[tuple[int, int, Side]]) -> bool:
    """Tell whether tiles (rows, columns) are made of whole `smem_atom`s; FMA uses none."""
    chunk = CHUNK // config.mma_atom.a_type.bits
    by_major = [(k, rows) if side.major == "K" else (rows, k) for rows, k, side in sides]
    return config.simt or all(row % chunk == 0 and count % 8 == 0 for row, count in by_major)


def _cover(sides: Iterable[tuple[int, int, Side]], threads: int) -> bool:
    """Tell whether threads share the vectors of tiles (rows, columns) evenly."""
    return all(
        lanes_across(*((k, rows) if side.major == "K" else (rows, k)), threads, side.vector, 1)
        for rows, k, side in sides
    )


def smem_atom(dtype: Dtype, mode: int, extent: int, swizzled: bool = True) -> Any:  # a layout
    """Return a layout of 8 rows that `tile_to_shape` repeats, of a tile contiguous along `mode`.

    Swizzled by as many bits as a row has chunks of 16 bytes, so that neither ldmatrix nor 16-byte
    stores have bank conflicts. Elements of 8 bytes, and of 4 bytes along mode 0, are loaded one by
    one; full rows of these are swizzled in units of 32 bytes.

    Args:
        dtype: of the elements.
        mode: that is contiguous.
        extent: of the tile along it.
        swizzled: whether it is.

    >>> from cute_py.dtypes import f16
    >>> print(smem_atom(f16, 1, 32), "|", smem_atom(f16, 1, 64))
    Sw<2,3,3> o 0 o (8,32):(32,1) | Sw<3,3,3> o 0 o (8,64):(64,1)
    """
    row = gcd(extent, LINE // dtype.bits)
    layout = cute.Layout((8, row), (row, 1)) if mode else cute.Layout((row, 8), (1, row))
    if not swizzled:
        return layout
    chunk = (CHUNK // dtype.bits).bit_length() - 1
    by_lanes = dtype.bits == 64 or (dtype.bits == 32 and mode == 0)
    if by_lanes and row * dtype.bits == LINE:
        return cute.composition(cute.Swizzle(2, chunk + 1, 2), layout)
    bits = (row * dtype.bits // CHUNK).bit_length() - 1
    return cute.composition(cute.Swizzle(bits, chunk, 3), layout)


# -- which one, by types, memory and size


def choose_config(
    M: int,
    N: int,
    K: int,
    dtype: DtypeLike | tuple[DtypeLike, DtypeLike],
    majors: tuple[str, str] = ("K", "K"),
    alignment: int | tuple[int, int] = VECTOR_BYTES,
) -> MultistageConfig:
    """Return the configuration for D (M,N) = A (M,K) B (N,K)^T; its `explain()` lists the rules.

    Args:
        M: rows of A and D.
        N: rows of B, columns of D.
        K: columns of A and B.
        dtype: of the operands, or one for each.
        majors: which mode of A and of B is contiguous: "K", or "MN".
        alignment: what divides the address of every row of A and of B (bytes), or one number for
            both.

    Raises DtypeError where no instruction multiplies these types.

    >>> print(choose_config(512, 512, 512, "bf16"))
    SM80_16x8x16_F32BF16BF16F32_TN tile=128x128x32 warps=2x2 stages=4 A=Kx8 B=Kx8 cp.async
    """
    kinds = dtype if isinstance(dtype, tuple) else (dtype, dtype)
    a, b = (as_dtype(kind) for kind in kinds)
    aligned = alignment if isinstance(alignment, tuple) else (alignment, alignment)
    atom, why_atom = _atom(a, b)
    tile, why_tile = _tile(M, N, a)
    sides = [_side(*parts, atom) for parts in zip((a, b), majors, aligned, strict=True)]
    vectors = [side.vector * kind.bits // 8 for side, kind in zip(sides, (a, b), strict=True)]
    asynchronous = min(vectors) >= 4
    stages, why_stages = _stages(ceil_div(max(K, 1), tile[2]), asynchronous)
    reasons = why_atom, why_tile, _why_copies(sides, vectors, asynchronous), why_stages
    return MultistageConfig(
        atom, tile, _warps(tile, atom), stages, sides[0], sides[1], asynchronous, reasons
    )


def _atom(a: Dtype, b: Dtype) -> tuple[str, str]:
    name = ATOMS.get((a.name, b.name))
    if name is None:
        known = ", ".join([f"{x}*{y}" for x, y in ATOMS])
        raise refusal("config-types", operation="choose_config", a=a, b=b, known=known)
    if a.name == "f32":
        return name, "f32: no matrix instruction keeps 24 bits, so FMA"
    return name, f"{a}, {b}: the largest mma.sync of these types"


def _tile(M: int, N: int, kind: Dtype) -> tuple[tuple[int, int, int], str]:
    most = LARGEST.get(kind.bits // 8, 128)
    m, n = (next(t for t in (32, 64, 128) if extent <= t or t == most) for extent in (M, N))
    k = _tile_k(kind)
    why = f"tile: M={M} and N={N} get the least of 32, 64, 128 that holds them, at most {most}"
    return (m, n, k), f"{why}; K {k * kind.bits // 8} bytes"


def _tile_k(kind: Dtype) -> int:
    return K_BYTES.get(kind.name, 64) * 8 // kind.bits


def _warps(tile: tuple[int, int, int], atom: str) -> tuple[int, int]:
    """Return 2 x 2 warps; or threads of 8 x 8 elements each, a warp at least."""
    if not atom.startswith(FMA):
        return 2, 2
    m, n, _k = tile
    return (8, 8) if m == n == 32 else (m // 8, n // 8)


def _side(kind: Dtype, major: str, alignment: int, atom: str) -> Side:
    if atom.startswith(FMA) and major == "K":
        return Side("K", 1)
    vector = gcd(alignment, VECTOR_BYTES) * 8 // kind.bits
    return Side("K" if major == "K" else "MN", max(vector, 1))


def _why_copies(sides: list[Side], vectors: list[int], asynchronous: bool) -> str:
    found = ", ".join(
        f"{name} along {s.major} by {v} bytes"
        for name, s, v in zip("AB", sides, vectors, strict=True)
    )
    how = "cp.async" if asynchronous else "through registers: cp.async moves at least 4 bytes"
    return f"copies: {found}, what alignment allows; {how}"


def _stages(tiles: int, asynchronous: bool) -> tuple[int, str]:
    if not asynchronous:
        return 2, "stages: 2, the next tile waits in registers"
    stages = 2 if tiles <= 2 else 3 if tiles < 8 else 4
    return stages, f"stages: {stages} for {tiles} tiles of K"


# -- those of the ladder, for arrays


def choose(
    A: Any,  # any array
    B: Any,
    tile: tuple[int, int] = (128, 128),
    stages: int = 3,
    ldmatrix: bool = True,
    asynchronous: bool = True,
    outputs: Iterable[Any] = (),
) -> MultistageConfig:
    """Return the configuration of a tile for arrays A (M,K) and B (N,K).

    Args:
        A: an array, contiguous along M or K.
        B: an array, contiguous along N or K.
        tile: (BM,BN).
        stages: tiles in shared memory at a time.
        ldmatrix: whether to use it, and swizzled layouts.
        asynchronous: whether to use cp.async.
        outputs: arrays (M,N) that are read or written by way of shared memory.

    Raises DtypeError where no instruction multiplies these types, and LayoutError for elements of
    less than a byte that are not along K in whole bytes.
    """
    found = facts_of(A), facts_of(B)
    atom, why = _atom(*[dtype for dtype, _mode, _bits in found])
    whole = (*tile, _tile_k(found[0][0]))
    warps = _warps(whole, atom)
    config = MultistageConfig(atom, whole, warps, stages, Side(), Side(), asynchronous, (why,))
    sides = []
    for rows, (dtype, mode, bits) in zip(tile, found, strict=True):
        if dtype.bits < 8 and (mode == 0 or bits < 8):
            raise refusal("config-bits", operation="choose", dtype=dtype, mode=mode, bits=bits)
        bits = narrowed(bits, (rows, whole[2]), dtype, config.threads)
        sides.append(_side(dtype, "K" if mode else "MN", bits // 8, atom))
    widths = [bits // dtype.bits if mode else 1 for dtype, mode, bits in map(facts_of, outputs)]
    return replace(
        config, a=sides[0], b=sides[1], store=min(widths, default=0), ldmatrix=int(ldmatrix)
    )


def flagship(dtype: str = "f16", stages: int = 3) -> MultistageConfig:
    """Return tile 128x128x32 on 2x2 warps, for 2-byte types in rows along K of whole 16 bytes."""
    atom, side = ATOMS[dtype, dtype], Side("K", 8)
    return MultistageConfig(atom, (128, 128, 32), (2, 2), stages, side, side, True)
