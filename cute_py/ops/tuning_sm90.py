"""The tile that a product gets on Hopper: the row of `ROWS` with the least estimated time.

A block computes `waves` tiles of D. For a tile of K, each takes the longer of what the tensor cores
and the loads need, and once what its schedule needs at the end. Idle multiprocessors leave
power to the others, so a wave that is not full costs a little less. The constants are fitted to
measurements on an H200 (docs/performance.md). Only ratios of estimates decide, except that
programmatic dependent launch is for products below `PDL_BELOW`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from cute_py.errors import CuteError
from cute_py.kernels.config import VECTOR_BYTES, GemmConfig, parts_of
from cute_py.kernels.config_sm90 import warpgroup_config
from cute_py.layout.tuples import ceil_div

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cute_py.dtypes.table import Dtype
    from cute_py.kernels.epilogue import Epilogue
    from cute_py.ops.libraries import Gpu

PDL_BELOW = 50.0  # microseconds; longer kernels lose 0.5 to 1.6 %
# microseconds: of a launch; for each tile of K, at least, of an element of D, and of a row of A or
# B, whose pitch is a multiple of 32 bytes, or is not: then it touches a sector of L2 more
LAUNCH, STEP, AREA, LOAD = 1.81, 0.115, 2.18e-5, (2.2e-4, 2.27e-3)
BUSY = 1.73  # L2 is the limit of such rows where more than 1 / BUSY of the multiprocessors load
END = {"cooperative": 4.9e-5, "pingpong": 3.8e-5}  # of an element of D, once
DIRECT = 2.0  # times as much where D leaves by direct stores
PARTS = (-0.3, 0.15)  # more where D leaves in parts, with a stage more: of a launch, of a tile of D
CLUSTER = (0.66, 0.97)  # of blocks that share tiles of A: more of a launch, times of a tile of K
SPARE = 0.257  # of a wave's time that idle multiprocessors save, in proportion


class Row(NamedTuple):
    """A tile of the family.

    Attributes:
        m, n: of the tile.
        warpgroups: that share it.
        schedule: as in `GemmConfig`.
        time: of an element of D, relative to others.
        in_parts: whether 128 bytes of each row of D leave at a time, which leaves room for a stage
            more; else all columns of 64 rows together.
        most: the heaviest epilogues that fit in the registers where D leaves by TMA in elements of
            2 bytes, of 4 bytes, and by direct stores, which take the most: 0 plain, 1 with a factor
            or a bias, 2 with relu or C, 3 with another activation, 4 with that and C; -1: none.
    """

    m: int
    n: int
    warpgroups: int
    schedule: str
    time: float = 1.0
    in_parts: bool = False
    most: tuple[int, int, int] = (4, 4, 4)

    def holds(self, problem: Problem) -> bool:
        """Tell whether the registers hold the epilogue of a problem."""
        way = 2 if not problem.by_tma else int(problem.result.bits == 32)
        return self.most[way] >= problem.weight


ROWS = (
    Row(64, 32, 1, "cooperative", 0.87),
    Row(64, 64, 1, "cooperative", 1.09),
    Row(64, 128, 1, "cooperative", 1.29),
    Row(128, 128, 2, "cooperative", 1.02),
    Row(128, 160, 2, "cooperative", 1.02, most=(4, 4, 1)),
    Row(128, 192, 2, "cooperative", 0.972, most=(4, 4, 0)),
    Row(128, 256, 2, "cooperative", most=(4, 4, 1)),
    Row(128, 256, 2, "cooperative", in_parts=True, most=(4, 4, 1)),
    Row(256, 128, 2, "cooperative", 1.02, in_parts=True, most=(4, 4, 0)),
    Row(192, 192, 3, "cooperative", 0.995, most=(1, 0, 0)),
    Row(256, 160, 2, "cooperative", 1.035, most=(3, 2, 0)),
    Row(256, 168, 2, "cooperative", 1.05, most=(1, 1, 0)),
    Row(256, 192, 2, "cooperative", 1.006, most=(0, 0, -1)),
    Row(128, 128, 1, "pingpong", 1.1, most=(3, 3, 1)),
    Row(128, 176, 1, "pingpong", 1.024, most=(1, 0, -1)),
    Row(128, 192, 1, "pingpong", 1.022, most=(1, 0, -1)),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What the choice of a row depends on.

    Attributes:
        shape: (M, N, K).
        batch: how many products.
        kinds: types of A and of B.
        majors: which mode of A and of B is contiguous.
        sectors: whether the pitches of A and of B are multiples of 32 bytes.
        result: type of D, whose rows are contiguous in memory.
        epilogue: what happens to the sums.
        fast_accum: whether 8-bit floats are summed in the tensor cores alone.
        gpu: where it runs.
    """

    shape: tuple[int, int, int]
    batch: int
    kinds: tuple[Dtype, Dtype]
    majors: tuple[str, str]
    sectors: tuple[bool, bool]
    result: Dtype
    epilogue: Epilogue
    fast_accum: bool
    gpu: Gpu

    @property
    def two_level(self) -> bool:
        """Whether sums of each tile of K are added to sums in f32."""
        return self.kinds[0].bits == 8 and self.kinds[0].is_float and not self.fast_accum

    @property
    def by_tma(self) -> bool:
        """Whether TMA writes D: rows of whole 16 bytes, of elements of 2 or 4 bytes."""
        bits = self.result.bits
        return bits in (16, 32) and self.shape[1] * bits % (8 * VECTOR_BYTES) == 0

    @property
    def weight(self) -> int:
        """How heavy the epilogue is, as `Row.most` counts."""
        more = self.epilogue
        if more.activation not in (None, "relu"):
            return 4 if more.source else 3
        return 2 if more.source or more.activation else int(more.alpha or more.bias)


class Estimate(NamedTuple):
    """A row for a problem.

    Attributes:
        time: in microseconds, about.
        waves: how many tiles the block with the most has.
        blocks: how many blocks; the fewest with that many waves.
        config: the configuration.
    """

    time: float
    waves: int
    blocks: int
    config: GemmConfig

    def __str__(self) -> str:
        (m, n, _k), config = self.config.tile, self.config
        shared = f" clusters of {config.cluster}," if config.cluster > 1 else ""
        return f"{m}x{n} {config.schedule},{shared} {self.waves} waves, about {self.time:.3g} us"


def for_hopper(problem: Problem) -> GemmConfig:
    """Return the configuration of the row with the least estimated time, and why."""
    found = sorted(candidates(problem), key=lambda x: x.time)
    best = found[0]
    others = "; ".join(str(x) for x in found[1:3])
    reasons = [f"tile: {best}; next: {others}" if others else f"tile: {best}"]
    pdl = best.time < PDL_BELOW
    which = "on, as it is" if pdl else "off, as it is not"
    reasons.append(f"programmatic dependent launch: {which} below {PDL_BELOW:.0f} us")
    config = best.config
    if config.store:
        reasons.append(f"D: by TMA, {config.store} columns at a time")
    else:
        reasons.append(f"D: direct stores of {problem.result}")
    return replace(config, pdl=int(pdl), reasons=tuple(reasons))


def candidates(problem: Problem) -> Iterator[Estimate]:
    """Yield the rows that the kernel has for a problem, and that fit the GPU."""
    crowded = problem.batch > 1 and problem.epilogue.source  # with clusters, the registers spill
    clusters = (1,) if all(problem.sectors) or crowded else (1, 2)
    for row, cluster in product(ROWS, clusters):
        wide = row.n == 256 and not row.in_parts  # all columns at once, which take registers too
        if row.holds(problem) and not (wide and crowded):
            config = _config(row, problem, cluster=cluster)
            if config is not None:
                yield _estimate(config, problem, row)


def _config(row: Row, problem: Problem, cluster: int) -> GemmConfig | None:
    """Return the configuration of a row; None where the family has none."""
    try:
        return _made(row, problem, cluster=cluster, two_level=int(problem.two_level))
    except CuteError:
        return None


def _made(row: Row, problem: Problem, **parts: Any) -> GemmConfig:
    """Return the configuration of a row with some parts; refuse those that do not fit it."""
    if not problem.by_tma:
        parts = {"store": 0, **parts}
    shape, types, one_pass = (row.m, row.n), problem.kinds, not row.in_parts
    how = types, shape, row.warpgroups, row.schedule, problem.majors, problem.result
    return warpgroup_config(*how, one_pass=one_pass, **parts)


def changed_for_hopper(config: GemmConfig, text: str, problem: Problem) -> GemmConfig:
    """Return a configuration with parts given as text; the number of stages follows the tile.

    A schedule and a tile determine the warpgroups: one for each tile of "pingpong"; else two, one
    for 64 rows, three for 192.
    """
    parts = parts_of(text)
    schedule, tile = parts.pop("schedule", config.schedule), parts.pop("tile", config.tile)
    groups = 1
    if schedule == "cooperative":
        groups = 2 if tile[0] % 128 == 0 else tile[0] // 64
    known = [x for x in ROWS if (x.m, x.n, x.schedule) == (*tile[:2], schedule)]
    row = known[0] if known else Row(tile[0], tile[1], groups, schedule)
    same = tile == config.tile and schedule == config.schedule
    kept = {"pdl": config.pdl, "two_level": config.two_level, "cluster": config.cluster * same or 1}
    parts = kept | parts
    try:
        warps = parts.pop("warps", (4 * row.warpgroups, 1))
        made = _made(row, problem, **parts)
        return replace(made, tile=tile, warps=warps, reasons=(*config.reasons, f"given: {text}"))
    except CuteError as error:
        raise error.inside(f"config({text})") from None


def _estimate(config: GemmConfig, problem: Problem, row: Row) -> Estimate:
    """Return the estimated time of a configuration of a row."""
    (m, n, k), cluster = config.tile, config.cluster
    blocks, waves = grid_of(config, problem.shape, problem.batch, problem.gpu.multiprocessors)
    busy = (
        cluster
        * units_of(config, problem.shape, problem.batch)
        / (waves * problem.gpu.multiprocessors)
    )
    by_a, by_b = (LOAD[0] if whole else LOAD[1] * min(1, BUSY * busy) for whole in problem.sectors)
    multiplied = AREA * row.time * m * n * (1 - SPARE * (1 - busy))
    loaded = by_a * m / cluster + by_b * n
    step = max(STEP, (multiplied**6 + loaded**6) ** (1 / 6))  # a soft maximum
    first, each = PARTS if row.in_parts else (0.0, 0.0)
    if cluster > 1:
        first, step = first + CLUSTER[0], step * CLUSTER[1]
    end = each + END[config.schedule] * m * n * (1 if config.store else DIRECT)
    time = LAUNCH + first + waves * (ceil_div(problem.shape[2], k) * step + end)
    return Estimate(time, waves, blocks, config)


def units_of(config: GemmConfig, shape: tuple[int, int, int], batch: int) -> int:
    """Return how many tiles D has; those that a cluster computes together count once: two along N,
    or two of an odd last column along M.
    """
    m, n = (ceil_div(extent, tile) for extent, tile in zip(shape, config.tile[:2], strict=False))
    if config.cluster == 1:
        return m * n * batch  # type: ignore[no-any-return]
    return (m * (n // 2) + n % 2 * ceil_div(m, 2)) * batch  # type: ignore[no-any-return]


def grid_of(
    config: GemmConfig, shape: tuple[int, int, int], batch: int, multiprocessors: int
) -> tuple[int, int]:
    """Return how many blocks are launched, and how many tiles the block with the most has.

    They are the fewest blocks with that many: idle multiprocessors leave power to the others.
    """
    units, most = units_of(config, shape, batch), max(multiprocessors // config.cluster, 1)
    waves = ceil_div(units, most)
    if config.schedule == "pingpong":  # two warpgroups of each block take turns
        return min(units, most), waves
    return ceil_div(units, waves) * config.cluster, waves


def band_of(config: GemmConfig, shape: tuple[int, int, int], waves: int) -> int:
    """Return how many tiles of M form a group; tiles of a group are computed one by one."""
    rows = ceil_div(shape[0], config.tile[0])
    return min(rows, 4 if waves <= 4 and config.schedule != "pingpong" else 8)  # type: ignore[no-any-return]
