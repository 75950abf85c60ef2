"""The tile that a product gets on Hopper: an estimate of the time of each row of `ROWS`.

A tile of D takes a block `k_tiles * (AREA * m * n + FEED * (m + n))` and, once, what its schedule
needs at the end. Blocks run in waves. Idle multiprocessors leave power to the others, so a wave that
is not full costs a little less. The constants are fitted to measurements on an H200
(docs/performance.md); only ratios of estimates decide, except that programmatic dependent launch is
for products below `PDL_BELOW`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from cute_py.errors import CuteError
from cute_py.kernels.config import GemmConfig, parts_of, warpgroup_config
from cute_py.layout.tuples import ceil_div

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cute_py.dtypes.table import Dtype
    from cute_py.kernels.epilogue import Epilogue
    from cute_py.ops.libraries import Gpu

K_BYTES = 128  # of a tile of K: a row of the widest swizzle
PDL_BELOW = 50.0  # microseconds; longer kernels lose 0.5 to 1.6 %
# microseconds: of a launch; of a tile of K, an element of D and a row of A or B; of a tile's end
LAUNCH, AREA, FEED = 1.6, 1.86e-5, 1.2e-4
END = {"cooperative": 7.6e-5, "pingpong": 2.8e-5}  # an element of D
DIRECT = 1.9  # times as much where D leaves by direct stores
SPARE = 0.25  # of a wave's time that idle multiprocessors save, in proportion


class Row(NamedTuple):
    """A tile of the family.

    Attributes:
        m, n: of the tile.
        warpgroups: that share it.
        schedule: as in `GemmConfig`.
        chunk: columns of D that leave at a time by TMA; 0: all of them.
        most: epilogues that fit in the registers: 0 plain, 1 with a factor, a bias or a cheap
            activation, 2 all.
    """

    m: int
    n: int
    warpgroups: int
    schedule: str
    chunk: int = 0
    most: int = 2


ROWS = (
    Row(64, 32, 1, "cooperative"),
    Row(64, 64, 1, "cooperative"),
    Row(64, 128, 1, "cooperative"),
    Row(128, 128, 2, "cooperative"),
    Row(128, 256, 2, "cooperative"),
    Row(256, 128, 2, "cooperative", 64),
    Row(192, 192, 3, "cooperative", most=0),
    Row(256, 160, 2, "cooperative"),
    Row(256, 168, 2, "cooperative"),
    Row(256, 184, 2, "cooperative", most=0),
    Row(256, 192, 2, "cooperative", most=0),
    Row(128, 128, 1, "pingpong"),
    Row(128, 192, 1, "pingpong", most=0),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What the choice of a row depends on.

    Attributes:
        shape: (M, N, K).
        batch: how many products.
        kinds: types of A and of B.
        majors: which mode of A and of B is contiguous.
        result: type of D, whose rows are contiguous in memory.
        epilogue: what happens to the sums.
        fast_accum: whether 8-bit floats are summed in the tensor cores alone.
        gpu: where it runs.
    """

    shape: tuple[int, int, int]
    batch: int
    kinds: tuple[Dtype, Dtype]
    majors: tuple[str, str]
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
        """Whether TMA writes D: rows of whole 16 bytes, of 16-bit elements, or f32 of such."""
        bits = self.result.bits
        narrow = bits == 16 or (bits == 32 and self.kinds[0].bits == 16)
        return narrow and self.shape[1] * bits % K_BYTES == 0

    @property
    def weight(self) -> int:
        """How many registers the epilogue needs, by the classes of `Row.most`."""
        more = self.epilogue
        if more.source or more.activation not in (None, "relu"):
            return 2
        return int(more.alpha or more.bias or more.activation is not None)


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
        m, n, _k = self.config.tile
        return f"{m}x{n} {self.config.schedule}, {self.waves} waves, about {self.time:.3g} us"


def for_hopper(problem: Problem) -> GemmConfig:
    """Return the configuration of the row with the least estimated time, and why."""
    found = sorted(candidates(problem), key=lambda x: x.time)
    best = found[0]
    others = "; ".join(str(x) for x in found[1:3])
    reasons = [f"tile: {best}; next: {others}" if others else f"tile: {best}"]
    pdl = best.time < PDL_BELOW
    reasons.append(
        f"programmatic dependent launch: {'on, below' if pdl else 'off, from'} {PDL_BELOW:.0f} us on"
        if not pdl
        else f"programmatic dependent launch: on, below {PDL_BELOW:.0f} us"
    )
    config = best.config
    if config.store:
        reasons.append(f"D: by TMA, {config.store} columns at a time")
    else:
        reasons.append(f"D: direct stores of {problem.result}")
    return replace(config, pdl=int(pdl), reasons=tuple(reasons))


def candidates(problem: Problem) -> Iterator[Estimate]:
    """Yield the rows that the kernel has for a problem, and that fit the GPU."""
    for row in ROWS:
        if row.most >= problem.weight:
            config = _config(row, problem)
            if config is not None:
                yield _estimate(config, problem)


def _config(row: Row, problem: Problem, **parts: Any) -> GemmConfig | None:
    """Return the configuration of a row; None where the family has none."""
    if not problem.by_tma:
        parts = {"store": 0, **parts}
    try:
        return warpgroup_config(
            (problem.kinds[0], problem.kinds[1]),
            (row.m, row.n),
            row.warpgroups,
            row.schedule,
            problem.majors,
            problem.result,
            one_pass=not row.chunk,
            two_level=int(problem.two_level),
            **parts,
        )
    except CuteError:
        return None


def changed_for_hopper(config: GemmConfig, text: str, problem: Problem) -> GemmConfig:
    """Return a configuration with parts given as text; the number of stages follows the tile.

    A schedule and a tile determine the warpgroups: one for each tile of "pingpong" and for 64 rows,
    else two, three for 192.
    """
    parts = parts_of(text)
    schedule = parts.pop("schedule", config.schedule)
    tile = parts.pop("tile", config.tile)
    (m, n), groups = tile[:2], 1
    if schedule == "cooperative" and tile[0] % 128 == 0:
        groups = 2
    elif schedule == "cooperative":
        groups = max(tile[0] // 64, 1)
    given = {"store": config.store and n, "pdl": config.pdl, **parts}
    try:
        made = warpgroup_config(
            (problem.kinds[0], problem.kinds[1]), (m, n), groups, schedule, problem.majors,
            problem.result, **{"two_level": config.two_level, **given},
        )  # fmt: skip
        return replace(made, tile=tile, reasons=(*config.reasons, f"given: {text}"))
    except CuteError as error:
        raise error.inside(f"config({text})") from None


def _estimate(config: GemmConfig, problem: Problem) -> Estimate:
    """Return the estimated time of a configuration (microseconds)."""
    m, n, k = config.tile
    blocks, waves = grid_of(config, problem.shape, problem.batch, problem.gpu.multiprocessors)
    steps = ceil_div(problem.shape[2], k)
    end = END[config.schedule] * m * n * (1 if config.store else DIRECT)
    one = steps * (AREA * m * n + FEED * (m + n)) + end
    tiles = tiles_of(config, problem.shape, problem.batch)
    idle = 1 - tiles / (waves * problem.gpu.multiprocessors)
    return Estimate(LAUNCH + waves * one * (1 - SPARE * idle), waves, blocks, config)


def tiles_of(config: GemmConfig, shape: tuple[int, int, int], batch: int) -> int:
    """Return how many tiles D has."""
    m, n, _k = config.tile
    return ceil_div(shape[0], m) * ceil_div(shape[1], n) * batch  # type: ignore[no-any-return]


def grid_of(
    config: GemmConfig, shape: tuple[int, int, int], batch: int, multiprocessors: int
) -> tuple[int, int]:
    """Return how many blocks are launched, and how many tiles the block with the most has.

    They are the fewest blocks with that many: idle multiprocessors leave power to the others.
    """
    tiles = tiles_of(config, shape, batch)
    waves = ceil_div(tiles, multiprocessors)
    if config.schedule == "pingpong":  # two warpgroups of each block take turns
        return min(tiles, multiprocessors), waves
    return ceil_div(tiles, waves), waves


def band_of(config: GemmConfig, shape: tuple[int, int, int], waves: int) -> int:
    """Return how many tiles of M form a group, whose tiles of D are computed one after the other."""
    rows = ceil_div(shape[0], config.tile[0])
    return min(rows, 4 if waves <= 4 and config.schedule != "pingpong" else 8)  # type: ignore[no-any-return]
