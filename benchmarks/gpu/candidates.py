"""Per row of the table, the configurations that are tried, those first that should win."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cute_py as cute
from benchmarks.gpu.cases import BITS, Row
from cute_py.kernels.config import ATOMS, MultistageConfig, Side
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.transpose import PADDED, SWIZZLED
from cute_py.ops.gemm_tiles import overlapping
from cute_py.ops.libraries import Gpu

F64_ATOMS = {k: f"SM90_16x8x{k}_F64F64F64F64_TN" for k in (4, 8, 16)}
FMA = ATOMS["f32", "f32"]
FMA_SPILLS = 512  # they win although they spill: what waits outside of the main loop
H200 = Gpu(smem=232448, multiprocessors=132, capability=(9, 0))
STORE_BYTES = 16  # of D, by way of shared memory


@dataclass(frozen=True)
class Candidate:
    """A kernel and its compile-time values.

    Attributes:
        kernel: a name of `kernels.KERNELS`, or `ops.gemm` for a call of the operator.
        values: the arguments behind the arrays; of a product its configuration and epilogue.
        note: what the name in the table says.
        spill_bytes: how much may spill before it is dropped.
    """

    kernel: str
    values: tuple[Any, ...]
    note: str = ""
    spill_bytes: int = 0

    @property
    def label(self) -> str:
        """The name in tables."""
        return f"{self.kernel} {self.note}".strip()

    @property
    def called(self) -> bool:
        """Whether it is called as a user does: nothing is compiled beforehand."""
        return self.kernel == OPERATOR


OPERATOR = "ops.gemm"


def candidates(row: Row) -> list[Candidate]:
    """Return what is tried for a row; empty for those that are measured otherwise."""
    if row.kind == "gemm":
        # the operator's choice of this kernel; on Hopper it has others for these types
        note = "" if row.dtype in ("f32", "f64") else "multistage"
        called = [] if row.dtype == "tf32" else [Candidate(OPERATOR, (), note)]
        return [*_gemms(row), *called]
    return {
        "copy": _copies,
        "transpose": _transposes,
        "softmax": lambda: _rows("row_softmax"),
        "sum": lambda: _rows("row_reduce"),
    }.get(row.kind, list)()


def limited(made: list[Candidate], spill: int | None) -> list[Candidate]:
    """Return candidates with another limit for spills; None keeps their own."""
    return made if spill is None else [replace(c, spill_bytes=spill) for c in made]


# -- products


@dataclass(frozen=True)
class Shape:
    """The parts of a configuration that are tried; `MultistageConfig` says what they are."""

    tile: tuple[int, int, int]
    warps: tuple[int, int] | tuple[int, int, int]
    stages: int
    band: int = 0
    min_blocks: int = 1
    atom: str = ""


def _note(config: MultistageConfig) -> str:
    tile, warps = ("x".join(map(str, x)) for x in (config.tile, config.warps))
    k = config.mma_atom.shape_mnk[2]
    parts = [
        f"{tile} s{config.stages} w{warps}",
        f"k{k}" if config.atom in F64_ATOMS.values() else "",
        f"b{config.band}" if config.band else "",
        f"m{config.min_blocks}" if config.min_blocks > 1 else "",
        f"v{config.store}" if config.store else "",
    ]
    return " ".join(filter(None, parts))


def product(
    row: Row,
    shape: Shape,
    vector: int,
    store: bool = True,
    asynchronous: bool = True,
    spill: int = 0,
) -> Candidate:
    """Return the operator's kernel for a row.

    Args:
        row: says the types, the majors and the result.
        shape: what is tried.
        vector: elements of one load from global memory.
        store: whether D goes through shared memory.
        asynchronous: whether cp.async brings the tiles.
        spill: bytes that may spill.

    """
    config = MultistageConfig(
        shape.atom or ATOMS[row.dtype, row.dtype],
        shape.tile,
        shape.warps,
        shape.stages,
        *[Side(major, vector) for major in row.majors],
        asynchronous,
        band=shape.band,
        store=STORE_BYTES * 8 // BITS[row.result] if store else 0,
        min_blocks=shape.min_blocks,
    )
    config = overlapping(config, (*row.shape, 1), cute.dtype(row.result), H200)
    compute = row.result if row.result in ("s32", "f64") else "f32"
    return Candidate("gemm", (config, LinearCombination(compute)), _note(config), spill)


def _gemms(row: Row) -> list[Candidate]:
    made = {"f32": _simt, "f64": _doubles, "tf32": _tf32, "s8": _bytes}
    if row.dtype in made:
        return made[row.dtype](row)
    return _unaligned(row) if row.shape[2] % 2 else _halves(row)


W24, W42, W22 = (2, 4), (4, 2), (2, 2)  # warps side by side in M and N

LARGE = (
    Shape((128, 256, 64), W24, 3),
    Shape((128, 256, 64), W24, 4, band=8),
    Shape((256, 128, 64), W42, 3, band=8),
    Shape((128, 128, 64), W22, 3, band=8, min_blocks=2),
    Shape((128, 128, 64), W22, 3, min_blocks=2),
)
FEW_TILES = {  # 1024^3 and 2048^3
    1024: (
        Shape((128, 64, 64), W22, 4, min_blocks=2),
        Shape((64, 64, 64), W22, 4, min_blocks=2),
        Shape((64, 128, 64), W22, 4, min_blocks=2),
        Shape((64, 64, 64), W22, 3, min_blocks=2),
        Shape((64, 64, 128), W22, 3, min_blocks=2),
    ),
    2048: (
        Shape((128, 256, 64), W24, 3),
        Shape((128, 128, 64), W22, 3, min_blocks=2),
        Shape((256, 128, 64), W42, 3),
        Shape((128, 128, 64), W22, 3, band=8, min_blocks=2),
        Shape((128, 256, 32), W24, 6),
        Shape((256, 128, 32), W42, 5),
    ),
}
SHORT_K = (  # much is stored for each product: two blocks, so that one stores while one multiplies
    Shape((128, 128, 64), W22, 3, min_blocks=2),
    Shape((128, 128, 64), W22, 3, band=8, min_blocks=2),
    Shape((128, 256, 64), W24, 3),
    Shape((256, 128, 64), W42, 3, band=8),
)
RAGGED = (  # waves of 5000^3: 128x256 needs a seventh for 8 tiles
    Shape((128, 128, 64), W22, 3, band=8, min_blocks=2),
    Shape((192, 128, 64), W42, 3),
    Shape((192, 128, 64), W42, 3, band=8),
)


def _halves(row: Row) -> list[Candidate]:
    shapes: tuple[Shape, ...] = FEW_TILES.get(max(row.shape), LARGE)
    if row.name == "bf16-8192x8192x512":
        shapes = SHORT_K
    if row.name == "bf16-5000":
        shapes = (*LARGE[:3], *RAGGED)
    return [product(row, shape, 8) for shape in shapes]


def _unaligned(row: Row) -> list[Candidate]:
    shapes = (  # with fewer threads, or a longer K, what waits in registers spills
        Shape((128, 128, 32), W24, 2),
        Shape((128, 64, 32), W22, 2),
        Shape((64, 64, 32), W22, 2),
        Shape((128, 128, 16), W22, 2),
        Shape((128, 256, 16), W24, 2),
        Shape((128, 128, 32), (4, 4), 2),
    )
    return [product(row, s, 1, store=False, asynchronous=False) for s in shapes]


def _simt(row: Row) -> list[Candidate]:
    """Threads of 8x8 elements, or of 8x16; blocks of few tiles split K among threads too."""
    large = (
        Shape((128, 128, 8), (16, 8), 6, min_blocks=2),
        Shape((128, 128, 16), (16, 16), 3, min_blocks=2),
        Shape((128, 256, 8), (16, 16), 4),
        Shape((128, 128, 8), (16, 16), 3, min_blocks=2),
    )
    small = (
        Shape((128, 64, 16), (16, 8, 2), 3),
        Shape((64, 64, 32), (8, 8, 4), 3, min_blocks=2),
        Shape((64, 64, 16), (8, 8), 3, min_blocks=4),
    )
    shapes = small if row.shape[0] <= 1024 else large
    made = [product(row, replace(s, atom=FMA), 1, False, spill=FMA_SPILLS) for s in shapes]
    return [*made, Candidate("sgemm_04", (), "128x128x8 s2")]


def _tf32(row: Row) -> list[Candidate]:
    shapes = (
        Shape((128, 256, 32), W24, 3),
        Shape((256, 128, 32), W42, 3, band=8),
        Shape((128, 256, 32), W24, 4, band=8),
        Shape((128, 128, 32), W22, 3, min_blocks=2),
        Shape((128, 128, 32), W22, 3, band=8, min_blocks=2),
    )
    return [product(row, shape, 4) for shape in shapes]


def _bytes(row: Row) -> list[Candidate]:
    shapes = (
        Shape((128, 256, 128), W24, 3),
        Shape((256, 128, 128), W42, 3, band=8),
        Shape((128, 256, 64), W24, 4, band=8),
        Shape((128, 128, 128), W22, 3, min_blocks=2),
        Shape((128, 128, 128), W22, 3, band=8, min_blocks=2),
        Shape((128, 128, 64), W22, 4, band=8, min_blocks=2),
    )
    return [product(row, shape, 16) for shape in shapes]


def _doubles(row: Row) -> list[Candidate]:
    wide, small = Shape((128, 128, 16), W42, 3), Shape((64, 64, 16), W22, 4)
    shapes = (
        replace(wide, atom=F64_ATOMS[8]),
        replace(wide, atom=F64_ATOMS[8], band=8),
        replace(small, atom=F64_ATOMS[8]),
        replace(wide, atom=F64_ATOMS[4]),
        replace(small, atom=F64_ATOMS[4]),
    )
    return [product(row, shape, 2, store=False) for shape in shapes]


# -- memory


def _copies() -> list[Candidate]:
    vectors = (
        ((1, 4096), 256),
        ((1, 8192), 256),
        ((1, 2048), 256),
        ((1, 4096), 512),
        ((4, 512), 128),
    )
    made = [Candidate("copy_vectors", x, f"{x[0][0]}x{x[0][1]} t{x[1]}") for x in vectors]
    return [*made, Candidate("copy_tiles", ((4, 1024), 256), "4x1024 t256")]


def _transposes() -> list[Candidate]:
    made = [Candidate("transpose_vectors", (t,), f"64x64 t{t}") for t in (256, 512, 128)]
    layouts = {"padded": PADDED, "swizzled": SWIZZLED}
    return [*made, *[Candidate("transpose_shared", (x,), n) for n, x in layouts.items()]]


def _rows(kernel: str) -> list[Candidate]:
    return [Candidate(kernel, ((1, 8192), t), f"t{t}") for t in (256, 512, 1024)]
