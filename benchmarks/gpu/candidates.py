"""Per row of the table, the configurations that are tried, those first that should win."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from benchmarks.gpu.cases import Row
from cute_py.kernels.config import ATOMS
from cute_py.kernels.gemm import Epilogue, GemmConfig, Side
from cute_py.kernels.transpose import PADDED, SWIZZLED

F64_ATOMS = {k: f"SM90_16x8x{k}_F64F64F64F64_TN" for k in (4, 8, 16)}
FMA = ATOMS["f32", "f32"]


@dataclass(frozen=True)
class Candidate:
    """A kernel and its compile-time values.

    Attributes:
        kernel: a name of `kernels.KERNELS`.
        values: the arguments behind the arrays.
        spill_bytes: how much may spill before it is dropped.
        note: what the name in the table says.
    """

    kernel: str
    values: tuple[Any, ...]
    note: str
    spill_bytes: int = 128

    @property
    def label(self) -> str:
        """The name in tables."""
        return f"{self.kernel} {self.note}".strip()


def candidates(row: Row) -> list[Candidate]:
    """Return what is tried for a row; empty for those that are measured otherwise."""
    if row.kind == "gemm":
        return _gemms(row)
    return {
        "copy": _copies,
        "transpose": _transposes,
        "softmax": lambda: _rows("row_softmax"),
        "sum": lambda: _rows("row_sum"),
    }.get(row.kind, list)()


# -- products


def _note(config: GemmConfig, band: int) -> str:
    tile, warps = ("x".join(map(str, x)) for x in (config.tile, config.warps))
    how = "" if config.asynchronous else " regs"
    vectors = f" v{config.a.vector},{config.b.vector}" if config.simt else ""
    k = config.mma_atom.shape_mnk[2]
    atom = f" k{k}" if config.atom in F64_ATOMS.values() else ""
    return f"{tile} s{config.stages} w{warps}{atom}{vectors}{how} b{band}"


def banded(config: GemmConfig, band: int = 0, spill: int = 128) -> Candidate:
    return Candidate("banded", (config, band), _note(config, band), spill)


def generic(config: GemmConfig, spill: int = 128) -> Candidate:
    compute = {"S32": "s32", "F64": "f64"}.get(config.atom.split("_")[-2][:3], "f32")
    epilogue = Epilogue("f32" if config.simt else compute)
    return Candidate("generic", (config, epilogue), _note(config, 0), spill)


def _gemms(row: Row) -> list[Candidate]:
    made = {"f32": _simt, "f64": _doubles, "tf32": _tf32, "s8": _bytes}
    if row.dtype in made:
        return made[row.dtype](row)
    return _unaligned(row) if row.shape[2] % 2 else _halves(row)


def _sides(row: Row, vector: int) -> tuple[Side, Side]:
    return Side(row.majors[0], vector), Side(row.majors[1], vector)


def _config(row: Row, tile, warps, stages, vector=8, atom=None, asynchronous=True) -> GemmConfig:
    name = atom or ATOMS[row.dtype, row.dtype]
    return GemmConfig(name, tile, warps, stages, *_sides(row, vector), asynchronous)


LARGE = (  # tile, warps, stages, band
    ((128, 256, 64), (2, 4), 3, 0),
    ((128, 256, 64), (2, 4), 4, 16),
    ((256, 128, 64), (4, 2), 4, 8),
    ((256, 128, 64), (4, 2), 3, 0),
    ((128, 256, 32), (2, 4), 4, 0),
    ((256, 128, 32), (4, 2), 4, 8),
    ((128, 128, 64), (2, 2), 3, 16),
    ((128, 128, 32), (2, 2), 4, 8),
)
SMALL = (  # for few tiles
    ((64, 128, 64), (2, 2), 4, 0),
    ((128, 64, 64), (2, 2), 4, 0),
    ((64, 64, 64), (2, 2), 5, 0),
    ((128, 128, 64), (2, 2), 4, 0),
    ((64, 128, 64), (1, 2), 4, 0),
    ((128, 64, 64), (2, 1), 4, 0),
    ((128, 128, 64), (2, 4), 4, 0),
)
RAGGED = (  # waves of 5000^3: 128x256 needs a seventh for 8 tiles
    ((128, 128, 64), (2, 2), 3, 8),
    ((192, 128, 64), (4, 2), 3, 0),
    ((128, 192, 64), (2, 4), 3, 0),
    ((128, 128, 32), (2, 2), 4, 8),
)


def _halves(row: Row) -> list[Candidate]:
    lists = LARGE
    if max(row.shape) <= 2048:
        lists = SMALL if row.shape[0] <= 1024 else (*LARGE[:4], *SMALL[3:4], *LARGE[6:])
    if row.name == "bf16-5000":
        lists = (*LARGE[:4], *RAGGED)
    if row.group == "majors":
        lists = LARGE[:7]
    made = [banded(_config(row, t, w, s), band) for t, w, s, band in lists]
    tile, warps, stages, _band = lists[0]
    return [*made, generic(_config(row, tile, warps, stages))]


def _unaligned(row: Row) -> list[Candidate]:
    shapes = (  # with fewer threads, or a longer K, what waits in registers spills
        ((128, 128, 32), (2, 4)),
        ((128, 64, 32), (2, 2)),
        ((64, 64, 32), (2, 2)),
        ((128, 128, 16), (2, 2)),
        ((128, 128, 16), (2, 4)),
        ((128, 256, 16), (2, 4)),
        ((256, 128, 16), (4, 2)),
        ((128, 128, 32), (4, 4)),
    )
    return [banded(_config(row, t, w, 2, 1, asynchronous=False)) for t, w in shapes]


def _simt(row: Row) -> list[Candidate]:
    """Threads of 8x8 elements; fewer for 1024^3, which has few tiles. 16x8 elements spill."""
    shapes = [
        ((128, 128, 8), (16, 16), 4),
        ((128, 128, 8), (16, 16), 5),
        ((128, 128, 16), (16, 16), 3),
        ((64, 128, 8), (8, 16), 5),
        ((128, 64, 8), (16, 8), 5),
    ]
    if row.shape[0] <= 1024:
        shapes += [
            ((64, 64, 8), (8, 8), 5),
            ((64, 64, 8), (16, 8), 5),
            ((64, 64, 16), (16, 16), 4),
            ((128, 64, 8), (16, 16), 5),
        ]
    made = [banded(_config(row, t, w, s, 1, FMA)) for t, w, s in shapes]
    return [Candidate("sgemm_04", (), "128x128x8 s2", 0), *made]


def _tf32(row: Row) -> list[Candidate]:
    shapes = (
        ((128, 256, 32), (2, 4), 3, 0),
        ((256, 128, 32), (4, 2), 3, 0),
        ((256, 128, 32), (4, 2), 4, 8),
        ((256, 128, 16), (4, 2), 4, 8),
        ((128, 256, 16), (2, 4), 4, 8),
        ((128, 128, 32), (2, 2), 3, 8),
        ((128, 128, 16), (2, 2), 4, 8),
    )
    return [banded(_config(row, t, w, s, 4), band) for t, w, s, band in shapes]


def _bytes(row: Row) -> list[Candidate]:
    shapes = (
        ((128, 256, 128), (2, 4), 3, 0),
        ((256, 128, 128), (4, 2), 3, 8),
        ((256, 128, 64), (4, 2), 4, 8),
        ((128, 256, 64), (2, 4), 4, 8),
        ((128, 256, 128), (2, 4), 4, 16),
        ((128, 128, 128), (2, 2), 3, 8),
        ((128, 128, 64), (2, 2), 4, 8),
    )
    return [banded(_config(row, t, w, s, 16), band) for t, w, s, band in shapes]


def _doubles(row: Row) -> list[Candidate]:
    shapes = (
        ((128, 128, 16), (4, 2), 3),
        ((128, 128, 16), (2, 4), 3),
        ((128, 128, 16), (2, 4), 4),
        ((128, 64, 16), (4, 1), 4),
        ((64, 64, 16), (2, 2), 4),
    )
    atoms = [F64_ATOMS[4], F64_ATOMS[8], F64_ATOMS[16], ATOMS["f64", "f64"]]
    wide = [banded(_config(row, *shapes[0], 2, atom)) for atom in atoms]
    rest = [banded(_config(row, *shape, 2, atoms[0])) for shape in shapes[1:]]
    return [*wide, *rest]


# -- memory


def _copies() -> list[Candidate]:
    vectors = (
        ((1, 4096), 256),
        ((1, 8192), 256),
        ((1, 2048), 256),
        ((1, 4096), 512),
        ((4, 512), 128),
    )
    made = [Candidate("copy_vectors", x, f"{x[0][0]}x{x[0][1]} t{x[1]}", 0) for x in vectors]
    tiles = (((4, 1024), 256), ((1, 2048), 512))
    return [*made, *[Candidate("copy_tiles", x, f"{x[0][0]}x{x[0][1]} t{x[1]}", 0) for x in tiles]]


def _transposes() -> list[Candidate]:
    made = [Candidate("transpose_vectors", (t,), f"64x64 t{t}", 0) for t in (256, 512, 128)]
    layouts = {"padded": PADDED, "swizzled": SWIZZLED}
    return [*made, *[Candidate("transpose_shared", (x,), n, 0) for n, x in layouts.items()]]


def _rows(kernel: str) -> list[Candidate]:
    return [Candidate(kernel, (8192, t), f"t{t}", 0) for t in (256, 512, 1024)]


def limited(made: list[Candidate], spill: int | None) -> list[Candidate]:
    """Return candidates with another limit for spills; None keeps their own."""
    return made if spill is None else [replace(c, spill_bytes=spill) for c in made]
