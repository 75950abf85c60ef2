"""The rows of the table as data: what is computed, against what, and what is to be reached.

Ratios are speed over speed: above 1 we are faster. A goal is against `peer` (torch in the same
run), `reference` (CuTe DSL's Ampere example, as measured once), or the name of another row: then
speeds are compared per FLOP or per byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

# CuTe DSL 4.8.1, examples/ampere tensorop, on an H200, burst: (TFLOP/s, cuBLAS's in that run)
CUTE_DSL = {
    "bf16-1024": (149, 336),
    "bf16-2048": (425, 700),
    "bf16-4096x4096x14336": (468, 837),
    "bf16-8192x8192x512": (364, 653),
    "bf16-5000": (284, 727),
}
COPY_SIDE = 16384  # of a matrix of f32: 1 GiB
BITS = {"bf16": 16, "f16": 16, "f32": 32, "tf32": 32, "s8": 8, "f64": 64, "s32": 32}


@dataclass(frozen=True)
class Goal:
    """What is to be reached: at least `floor`, at best `aim`, of the speed of something."""

    against: str
    floor: float | None
    aim: float | None


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: also how the command line selects it.
        group: the rows that are selected together.
        kind: gemm, copy, transpose, softmax, sum, host or compile.
        dtype: of the operands.
        shape: M, N, K of a product; M, N of a matrix; () else.
        goals: what is to be reached.
        majors: which mode of A and of B is contiguous.
    """

    name: str
    group: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    goals: tuple[Goal, ...]
    majors: tuple[str, str] = ("K", "K")

    @property
    def result(self) -> str:
        """The type of the result."""
        return {"s8": "s32", "tf32": "f32"}.get(self.dtype, self.dtype)

    @property
    def work(self) -> float:
        """FLOP of a product; bytes that must be moved by others; 1 for costs in time."""
        size = BITS.get(self.dtype, 0) // 8
        if self.kind == "gemm":
            return 2.0 * prod(self.shape)
        if self.kind == "sum":
            return float(prod(self.shape) * size)
        return 2.0 * prod(self.shape) * size if self.shape else 1.0

    @property
    def unit(self) -> str:
        """The unit of a speed, or us for costs in time."""
        return {"gemm": "TFLOP/s", "host": "us", "compile": "s"}.get(self.kind, "TB/s")


def product(name, group, dtype, shape, *goals, majors=("K", "K")):
    return Row(name, group, "gemm", dtype, shape, goals, majors)


def cube(n):
    return (n, n, n)


def _rows():
    for dtype, aim in (("bf16", 0.66), ("f16", 0.67)):
        for n in (4096, 8192):
            yield product(f"{dtype}-{n}", dtype, dtype, cube(n), Goal("peer", 0.62, aim))
    reference = Goal("reference", 1.10, 1.25)
    for shape in (cube(1024), cube(2048), (4096, 4096, 14336), (8192, 8192, 512)):
        size = str(shape[0]) if len(set(shape)) == 1 else "x".join(map(str, shape))
        yield product(f"bf16-{size}", "shapes", "bf16", shape, reference)
    for suffix, majors in {"kn": ("K", "MN"), "mk": ("MN", "K"), "mn": ("MN", "MN")}.items():
        goal = Goal("bf16-4096", 0.93, 0.98)
        yield product(f"bf16-4096-{suffix}", "majors", "bf16", cube(4096), goal, majors=majors)
    own = Goal("bf16-5120", 0.82, 0.90)
    yield product("bf16-5120", "ragged", "bf16", cube(5120))
    yield product("bf16-5000", "ragged", "bf16", cube(5000), own, Goal("reference", 1.3, None))
    yield product("bf16-4097", "ragged", "bf16", cube(4097), Goal("bf16-4096", 0.40, 0.55))
    for n in (1024, 4096, 8192):
        yield product(f"f32-{n}", "fp32", "f32", cube(n), Goal("peer", 0.90, 1.00))
    for dtype, group in (("tf32", "tf32"), ("s8", "int8")):
        for n in (4096, 8192):
            yield product(f"{dtype}-{n}", group, dtype, cube(n), Goal("peer", 0.55, 0.65))
    yield product("f64-4096", "fp64", "f64", cube(4096), Goal("peer", 0.90, 0.98))
    moved = (COPY_SIDE, COPY_SIDE)
    for kind in ("copy", "transpose"):
        yield Row(f"{kind}-1GiB", "move", kind, "f32", moved, (Goal("peer", 0.95, 1.00),))
    goals = (Goal("peer", 1.00, None), Goal("copy-1GiB", None, 0.92))
    for kind in ("softmax", "sum"):
        for dtype in ("bf16", "f32"):
            yield Row(f"{kind}-{dtype}", "rows", kind, dtype, (8192, 8192), goals)
    yield Row("host", "host", "host", "f32", (), (Goal("peer", 0.91, 1.11),))
    for how in ("mm-out", "mm"):  # cute.ops.gemm against torch.mm, with out and without
        for n in (64, 256):
            goal, majors = Goal("peer", 1.0, None), ("K", "MN")
            yield Row(f"{how}-{n}", "operator", "host", "bf16", cube(n), (goal,), majors)
    yield Row("compile", "compile", "compile", "bf16", (), (Goal("seconds", 1.0, 0.5),))


ROWS: dict[str, Row] = {row.name: row for row in _rows()}
GROUPS = tuple(dict.fromkeys(row.group for row in ROWS.values()))


def selected(names: list[str]) -> list[Row]:
    """Return rows by name or group, and the rows that they are compared with, those first.

    No names: all rows. Raises KeyError for a name that is none.
    """
    unknown = [n for n in names if n not in ROWS and n not in GROUPS]
    if unknown:
        raise KeyError(f"{unknown[0]}; known: {', '.join((*GROUPS, *ROWS))}")
    wanted = [r for r in ROWS.values() if not names or r.name in names or r.group in names]
    bases = [ROWS[g.against] for r in wanted for g in r.goals if g.against in ROWS]
    return list(dict.fromkeys([*bases, *wanted]))
