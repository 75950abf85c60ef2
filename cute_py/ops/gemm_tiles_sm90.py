"""The tile that a product gets on Hopper: the row of `ROWS` with the least estimated time.

A block computes `waves` tiles of D, or a part of K of one tile, for which blocks exchange sums. For
a tile of K, each takes the longest of what the tensor cores need, what the loads need, the latency
of a load over the stages in flight, and a turn of the pipeline. Loads take longer where both of a
pair of multiprocessors have a block, and at an edge for rows of a tile that are outside A or B.
The epilogue follows; two warpgroups in ping-pong overlap it with products. With the time that
memory takes to read and to write everything once, it makes the root of the sum of both squares. The
constants are fitted to times on an H200, and tested on other products (docs/measurements.md).
Only ratios of estimates decide, except that programmatic dependent launch is for products below
`PDL_BELOW`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import NamedTuple

from cute_py.atoms.devices import HOPPER, SECTOR
from cute_py.errors import CuteError
from cute_py.kernels.config import LINE, VECTOR_BYTES
from cute_py.kernels.config_sm90 import (
    CLASSES,
    FEW_ROWS,
    HOPPER_SMEM,
    PART,
    WarpgroupConfig,
    can_load_source,
    shared_bytes,
    warpgroup_config,
)
from cute_py.kernels.configuration import given_as, parts_of, still_true
from cute_py.kernels.splits import NO_SPLIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from cute_py.dtypes.table import Dtype
    from cute_py.kernels.epilogue import Epilogue
    from cute_py.ops.libraries import Gpu

PDL_BELOW = 50.0  # microseconds; longer kernels lose up to 2 %
# what is of the device: microseconds of a launch, and from a load to its arrival; bytes a
# microsecond, read or written; multiprocessors that clusters can use, by their blocks
LAUNCH, LATENCY, MEMORY = HOPPER.launch, HOPPER.latency, HOPPER.memory
USED = dict(HOPPER.clusters)
H200, OTHERS = USED[1][0], min(USED.values())
CLUSTERED = 0.201  # more microseconds of a launch with clusters
# microseconds of the products of a tile of K (128 bytes): for each element of D; for each row of A
# or B, as much as multiprocessors are busy
AREA, SIDES = 1.64e-5, 2.14e-4
# microseconds that a tile of K takes at least; more for each column, and where blocks share A
STEP = 0.105, 3.07e-4, 0.0782
# microseconds to load a row of 128 bytes of A or B, by what divides its pitch; times as much for
# both blocks of a pair of multiprocessors
LOAD, PAIRED = {128: 6.62e-4, 64: 8.08e-4, 32: 8.31e-4, 16: 1.44e-3}, 1.53
# more microseconds for each row outside of A or B: of all blocks, and of a block
OUTSIDE = 3.04e-5, 8.37e-5
# how sharp the maximum of products and loads is, and that of both and memory
SHARP, AMONG = 7.91, 1.72
# microseconds to store an element of a warpgroup; more of the last tile, for each byte, as all
# blocks store at once
END, LAST = 2.18e-5, 3.13e-5
PARTS = 3.5, 0.537  # times as much where D leaves in parts
DIRECT = 9.0  # times as much as END where D leaves by direct stores
TURN = 0.149  # microseconds to go on to the next tile
EXCHANGE = 0.61, 7.95e-5  # microseconds to exchange sums: for each block, and for each element of
# a warpgroup
TOGETHER = 1.26  # times as much for a tile of K where blocks of a cluster share K
NARROW = 64  # rows of D, up to which memory is the limit
# waves, up to which a tile is as narrow as they allow; columns of the narrowest, and of the widest
# that leaves in one pass
FEW, NARROWEST, ONE_PASS = 3, 32, 200
FITTED = 3  # stages that hide the latency of a load; more help where K has as many tiles
DEEP = 16  # tiles of K (128 bytes), from which on it may be split
# more of an element of a warpgroup: C by loads or by TMA; a factor, a bias or a light activation
# (`Epilogue.is_light`: relu); a heavy one
LOADED, BY_TMA, LIGHT, HEAVY = 2.61e-4, 5.81e-5, 1.2e-5, 1.84e-4


class Row(NamedTuple):
    """A tile of the family.

    Attributes:
        m, n: of the tile.
        warpgroups: that share it.
        schedule: as in `WarpgroupConfig`.
        time: of a tile of K, relative to the estimate.
        in_parts: whether 64 columns of D leave at a time, which leaves room for a stage more; else
            all columns of 64 rows together.
        splits: blocks that may share K, where D leaves 64 columns at a time.
        most: the heaviest epilogues that fit in the registers where D leaves by TMA in elements of
            2 bytes, of 4 bytes, and by direct stores, which take the most: 0 plain, 1 with a
            factor, a bias or a light activation, 2 with a heavy one, 3 with C, 4 with both; -1:
            none.
    """

    m: int
    n: int
    warpgroups: int
    schedule: str
    time: float = 1.0
    in_parts: bool = False
    splits: tuple[int, ...] = ()
    most: tuple[int, int, int] = (4, 4, 4)

    def holds(self, forms: Forms, weight: int) -> bool:
        """Tell whether the registers hold an epilogue of a weight."""
        way = 2 if not forms.by_tma else int(forms.result.bits == 32)
        return self.most[way] >= weight


class Forms(NamedTuple):
    """What the configuration of a row depends on.

    Attributes:
        kinds: types of A and of B.
        majors: which mode of A and of B is contiguous.
        result: type of D.
        by_tma: whether TMA writes D.
        source_by_tma: whether TMA reads C, where a tile has room for that.
    """

    kinds: tuple[Dtype, Dtype]
    majors: tuple[str, str]
    result: Dtype
    by_tma: bool
    source_by_tma: bool


ROWS = (
    Row(64, 32, 1, "cooperative", 1.117),
    Row(64, 64, 1, "cooperative", 1.029, splits=(6,)),
    Row(64, 128, 1, "cooperative", 1.023, splits=(3,)),
    Row(64, 192, 1, "cooperative", 0.995, most=(4, 4, 2)),
    Row(64, 256, 1, "cooperative", 1.091),
    Row(128, 64, 2, "cooperative", 1.049, splits=(2,)),
    Row(128, 128, 2, "cooperative", splits=(2, 3, 6)),
    Row(128, 160, 2, "cooperative", 1.005, most=(4, 4, 1)),
    Row(128, 192, 2, "cooperative", 1.031, most=(4, 4, 0)),
    Row(128, 256, 2, "cooperative", 1.007, most=(4, 4, 1)),
    Row(256, 128, 2, "cooperative", 1.010, in_parts=True, most=(4, 4, 0)),
    Row(192, 192, 3, "cooperative", 1.004, in_parts=True, most=(1, 0, 0)),
    Row(256, 152, 2, "cooperative", 1.036, in_parts=True, most=(3, 1, 0)),
    Row(256, 192, 2, "cooperative", 1.022, most=(0, 0, -1)),
    Row(256, 200, 2, "cooperative", 1.047, most=(0, -1, -1)),
    Row(128, 128, 1, "pingpong", 0.987, most=(1, 3, 1)),
    Row(128, 176, 1, "pingpong", 1.001, most=(2, 0, -1)),
    Row(128, 192, 1, "pingpong", 1.001, most=(0, -1, -1)),
)


@dataclass(frozen=True, slots=True)
class ProductFacts:
    """What the choice of a family and its configuration depends on.

    Attributes:
        shape: (M, N, K).
        batch: how many products.
        kinds: types of A and of B.
        majors: which mode of A and of B is contiguous: "K", or "MN".
        pitches: what divides the pitches of A and of B (bytes): 16 to 128.
        result: type of D, whose rows are contiguous in memory.
        epilogue: what happens to the sums.
        fast_accum: whether 8-bit floats are summed in the tensor cores alone.
        gpu: where it runs; None: it is emulated on the host.
        source_by_tma: whether C has the type of D, and rows that TMA reads.
        addressed: what divides the address and the pitches of A and of B (bytes), at most 16; 0
            where no tensor map describes them.
        aligned: what also divides the length of each row.
    """

    shape: tuple[int, int, int]
    batch: int
    kinds: tuple[Dtype, Dtype]
    majors: tuple[str, str]
    pitches: tuple[int, int]
    result: Dtype
    epilogue: Epilogue
    fast_accum: bool
    gpu: Gpu | None
    source_by_tma: bool = False
    addressed: tuple[int, int] = (16, 16)
    aligned: tuple[int, int] = (16, 16)

    @property
    def multiprocessors(self) -> int:
        """How many the GPU has; the emulator has none, and counts as an H200."""
        return H200 if self.gpu is None else self.gpu.multiprocessors

    @property
    def unit(self) -> int:
        """What divides the columns of a tile: B along N comes in rows of 128 bytes, and wgmma has
        steps of 16 columns for integers.
        """
        bits = self.kinds[1].bits
        if self.majors[1] != "K":
            return LINE // bits
        return 8 if self.kinds[1].is_float and self.result.bits >= 16 else 16

    @property
    def two_level(self) -> bool:
        """Whether sums of each tile of K are added to sums in f32."""
        return self.kinds[0].bits == 8 and self.kinds[0].is_float and not self.fast_accum

    @property
    def by_tma(self) -> bool:
        """Whether TMA writes D: rows of whole 16 bytes, of elements of 2 or 4 bytes, none for a
        pair of columns.
        """
        bits, is_wide = self.result.bits, self.epilogue.is_wide()
        return is_wide and bits in (16, 32) and self.shape[1] * bits % (8 * VECTOR_BYTES) == 0

    @property
    def forms(self) -> Forms:
        """What configurations depend on."""
        source_by_tma = self.source_by_tma and self.epilogue.has_source and self.by_tma
        return Forms(self.kinds, self.majors, self.result, self.by_tma, source_by_tma)

    @property
    def steps(self) -> tuple[float, float]:
        """How long an element of a warpgroup takes in the epilogue next to its store
        (microseconds); and where TMA reads C.
        """
        terms = self.epilogue
        other = LOADED * (terms.matrices - terms.has_source + terms.outputs - 1)
        if not terms.is_plain and not terms.is_sum:
            other += LIGHT if terms.is_light else HEAVY
        return other + LOADED * terms.has_source, other + BY_TMA * terms.has_source

    @property
    def memory(self) -> float:
        """How long memory takes to read A, B and C, and to write D (microseconds)."""
        (M, N, K), terms = self.shape, self.epilogue
        of_d = self.result.bits * (terms.matrices + terms.outputs)
        return self.batch * ((M + N) * K * self.kinds[0].bits + M * N * of_d) / 8 / MEMORY

    @property
    def weight(self) -> int:
        """How heavy the epilogue is, as `Row.most` counts."""
        more = self.epilogue
        is_wide = more.matrices > 0 or more.outputs > 1
        if not more.is_light:
            return 4 if is_wide else 2
        return 3 if is_wide else int(not more.is_plain)


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
    config: WarpgroupConfig

    def __str__(self) -> str:
        (m, n, _k), config = self.config.tile, self.config
        shared = f" clusters of {config.cluster}," if config.cluster > 1 else ""
        shared += f" K in {config.split} parts," if config.split > 1 else ""
        return f"{m}x{n} {config.schedule},{shared} {self.waves} waves, about {self.time:.3g} us"


def for_hopper(problem: ProductFacts) -> WarpgroupConfig:
    """Return the configuration of the row with the least estimated time, and why."""
    config, why = decided(problem, sorted(candidates(problem), key=itemgetter(0)))
    return config.because(*why())


def decided(
    problem: ProductFacts, ranked: Sequence[Estimate]
) -> tuple[WarpgroupConfig, Callable[[], tuple[str, ...]]]:
    """Return the configuration of the first of the estimates, without reasons, and the function
    that returns them.
    """
    best, *others = ranked[:3]
    pdl = best.time < PDL_BELOW
    config = _launched_early(best.config) if pdl else best.config

    def why() -> tuple[str, ...]:
        more = "; next: " + "; ".join(map(str, others)) if others else ""
        which = "on, as it is" if pdl else "off, as it is not"
        return (
            f"tile: {best}{more}",
            f"programmatic dependent launch: {which} below {PDL_BELOW:.0f} us",
            *_ways(problem, config),
        )

    return config, why


def _ways(problem: ProductFacts, config: WarpgroupConfig) -> list[str]:
    """Return how C comes, if it does, and how D leaves; why, where that is not by TMA."""
    result = problem.result
    way = f"by TMA, {config.store} columns at a time"
    if not config.store:
        cause = (
            "elements of 2 or 4 bytes" if result.bits not in (16, 32) else "rows of whole 16 bytes"
        )
        way = f"direct stores of {result}: TMA writes {cause}"
    if not problem.epilogue.has_source:
        return [f"D: {way}"]
    read = "by TMA, while a tile is multiplied"
    if not config.prefetch:
        cause = "as this configuration has no room for it"
        if not problem.source_by_tma:
            cause = f"as TMA reads {result} in rows of whole 16 bytes"
        read = f"by loads of threads, {cause if config.store else 'as D leaves by direct stores'}"
    return [f"C: {read}", f"D: {way}"]


@lru_cache(maxsize=256)
def _launched_early(config: WarpgroupConfig) -> WarpgroupConfig:
    return replace(config, pdl=1)


# the last problem, the rows, and its candidates: a choice asks twice, the second time whether parts
# of K take less
_recent: list[tuple[object, object, tuple[Estimate, ...]]] = [(None, None, ())]


def candidates(problem: ProductFacts) -> tuple[Estimate, ...]:
    """Return the rows that the kernels have for a problem, and that fit the GPU."""
    p, (seen, of, known) = problem, _recent[0]
    if seen is problem and of is ROWS:
        return known
    is_batch = p.batch > 1 and p.epilogue.has_source
    clusters = (1,) if min(p.pitches) >= SECTOR or is_batch else (1, 2)
    facts = p.forms, p.weight, int(p.two_level), is_batch
    splits, same, found = _has_few_tiles(p), (p.memory, p.steps), []
    for row, ways in _tiles(p, clusters, splits):
        for config in fitting(row, *facts, ways):
            found.append(estimate(row, config, p, *same))
    made = tuple([x for x in found if _is_worth_a_try(x)])
    _recent[0] = problem, ROWS, made
    return made


def _is_worth_a_try(found: Estimate) -> bool:
    """Tell whether the warpgroups of a block have work, and nothing waits while sums are exchanged:
    the second of a ping-pong has the second tile, and no loads hide exchanges.
    """
    config = found.config
    if config.schedule == "pingpong":
        return found.waves > 1
    return config.split == 1 or found.waves == 1


def _has_few_tiles(problem: ProductFacts) -> bool:
    """Tell whether K may be split: D has more rows than a tile, but few tiles, and K has many."""
    (M, N, K), bits = problem.shape, problem.kinds[0].bits
    tiles = -(-M // 128) * -(-N // 128) * problem.batch
    return M > NARROW and tiles <= problem.multiprocessors and K * bits >= DEEP * 1024


def _tiles(
    problem: ProductFacts, clusters: tuple[int, ...], splits: bool
) -> list[tuple[Row, tuple[tuple[int, int], ...]]]:
    """Return the tiles to estimate, each with pairs of the blocks that share tiles of A, and K:
    rows, but instead the narrowest tile that has as few waves, if these are at most `FEW`.
    """
    found, known = [], set()
    shared = tuple([(cluster, 1) for cluster in clusters])
    for row in ROWS:
        tile = narrowed(row, problem)
        if (row.m, row.schedule, tile.n) not in known:  # else of a narrower row
            found.append((tile, shared))
            known.add((row.m, row.schedule, tile.n))
        if splits and row.splits:
            found.append((row, tuple([(1, split) for split in row.splits])))
    return found


def narrowed(row: Row, problem: ProductFacts) -> Row:
    """Return the narrowest tile of the height of a row that has as few waves, or the row."""
    (M, N, _K), most = problem.shape, problem.multiprocessors
    rows = -(-M // row.m) * problem.batch
    waves = -(-rows * -(-N // row.n) // most)
    if waves > FEW or not problem.by_tma:
        return row
    unit = problem.unit
    n = max(-(-N // (most * waves // rows * unit)) * unit, NARROWEST)
    return _of_columns(row, n) if n < row.n else row


@lru_cache(maxsize=256)
def _of_columns(row: Row, n: int) -> Row:
    """Return a row with fewer columns: the registers hold what its do."""
    return row._replace(n=n, in_parts=row.m > 128 or n > ONE_PASS, splits=())


def of_width(m: int, schedule: str, n: int) -> Row:
    """Return the row of a tile, or the next wider one with as many columns; any, if none is."""
    wider = [x for x in ROWS if (x.m, x.schedule) == (m, schedule) and x.n >= n]
    if not wider:
        return Row(m, n, _warpgroups(m, schedule), schedule)
    row = min(wider, key=attrgetter("n"))
    return row if row.n == n else _of_columns(row, n)


def _warpgroups(m: int, schedule: str) -> int:
    """Return how many warpgroups share a tile: one for each tile of "pingpong"; else two, one for
    64 rows, three for 192.
    """
    if schedule != "cooperative":
        return 1
    return 2 if m % 128 == 0 else m // 64


@lru_cache(maxsize=1024)
def fitting(
    row: Row,
    forms: Forms,
    weight: int,
    two_level: int,
    is_batch: bool,
    ways: tuple[tuple[int, int], ...],
) -> tuple[WarpgroupConfig, ...]:
    """Return the configurations of a row whose registers hold an epilogue of some weight.

    `is_batch`: of products with C, for which clusters and D in rows of 256 columns have too few.
    """
    wide, found = row.n == 256 and not row.in_parts, []
    if row.holds(forms, weight) and not (wide and is_batch):
        for cluster, split in ways:
            with suppress(CuteError):  # the family has none
                parts = {"cluster": cluster, "split": split, "two_level": two_level}
                found.append(_made(row, forms, **parts))
    return tuple(found)


def _made(row: Row, forms: Forms, **parts: Any) -> WarpgroupConfig:
    """Return the configuration of a row with some parts; refuse those that do not fit it."""
    if not forms.by_tma:
        parts = {"store": 0, **parts}
    shape, one_pass = (row.m, row.n), not row.in_parts and parts.get("split", 1) == 1
    how = forms.kinds, shape, row.warpgroups, row.schedule, forms.majors, forms.result
    made = warpgroup_config(*how, one_pass=one_pass, **parts)
    loads = forms.source_by_tma and "prefetch" not in parts and can_load_source(made)
    return _with_source(made, forms.result, "stages" not in parts) if loads else made


def _with_source(config: WarpgroupConfig, result: Dtype, may_shrink: bool) -> WarpgroupConfig:
    """Return a configuration that loads C by TMA, with a stage less where its mbarriers need one's
    place.
    """
    is_full = shared_bytes(config, result, loads_source=True) > HOPPER_SMEM
    stages = config.stages - 1 if is_full and may_shrink else config.stages
    return replace(config, prefetch=1, stages=stages)


def changed_for_hopper(
    config: WarpgroupConfig, text: str, problem: ProductFacts
) -> WarpgroupConfig:
    """Return a configuration with parts given as text; the number of stages and of
    warpgroups follow the tile and the schedule.
    """
    parts = parts_of(text, CLASSES)
    usual = config.schedule if not parts.get("parts", NO_SPLIT).in_memory else "cooperative"
    schedule, tile = parts.pop("schedule", usual), parts.pop("tile", config.tile)
    row = of_width(tile[0], schedule, tile[1])
    same = tile == config.tile and schedule == config.schedule
    kept = {"pdl": config.pdl, "two_level": config.two_level}
    for name, other in (("cluster", "split"), ("split", "cluster")):  # one or the other
        kept[name] = getattr(config, name) if same and parts.get(other, 1) == 1 else 1
    if parts.get("parts", NO_SPLIT).in_memory:
        kept |= {"cluster": 1, "split": 1}
    parts = kept | parts
    with given_as(text):
        warps = parts.pop("warps", (4 * row.warpgroups, 1))
        made = _made(row, problem.forms, **parts)
        made = replace(made, tile=tile, warps=warps)
    return made.because(*still_true(config, made), f"given: {text}")


def estimate(
    row: Row,
    config: WarpgroupConfig,
    problem: ProductFacts,
    memory: float,
    steps: tuple[float, float],
) -> Estimate:
    """Return the estimated time of a configuration of a row; `memory`, `steps`: as in
    `ProductFacts`, the same for all.
    """
    (m, n, k), (M, N, K), split = config.tile, problem.shape, config.split
    blocks, waves = grid_of(config, problem.shape, problem.batch, problem.multiprocessors)
    depth = -(-K // (k * split))
    inside, edge = _tile_of_k(config, problem, depth, blocks, waves)
    edges = waves if min(M - m, N - n) <= 0 else 1  # tiles of a block at an edge
    main = depth * row.time * ((waves - edges) * inside + edges * edge) + TURN * (waves - 1)
    way = DIRECT if not config.store else PARTS[0] if config.store < n else 1
    end = (END * way + steps[bool(config.prefetch)]) * m * n / row.warpgroups
    if split > 1:
        end *= max(1 / split, PART / n)  # columns are divided among the blocks
        main = main * TOGETHER + EXCHANGE[0] * split + EXCHANGE[1] * m * n / row.warpgroups
    if config.schedule == "pingpong" and waves > 1:  # all but the last epilogue are hidden
        time = max(main, (main + end * (waves - 1) + main / waves) / 2) + end
    else:
        time = main + waves * end
    last = LAST * problem.result.bits / 8 * m * n * (PARTS[1] if 0 < config.store < n else 1)
    time += LAUNCH + last + (CLUSTERED if config.cluster * split > 1 else 0)
    time = (time**AMONG + memory**AMONG) ** (1 / AMONG)
    return Estimate(float(time), waves, blocks, config)


def _tile_of_k(
    config: WarpgroupConfig, problem: ProductFacts, depth: int, blocks: int, waves: int
) -> tuple[float, float]:
    """Return how long a tile of K takes (microseconds): of a tile within D, and of one that has
    rows or columns outside of it.
    """
    (m, n, _k), (M, N, _K), cluster = config.tile, problem.shape, config.cluster
    multiprocessors, split = problem.multiprocessors, config.split
    paired = PAIRED if blocks > _multiprocessors(multiprocessors, cluster * split)[1] else 1
    few = m == NARROW and cluster == 1 and config.a.major == "K"  # rows outside are not loaded
    loaded = min(m, -(-M // FEW_ROWS) * FEW_ROWS) if few else m / cluster
    load = (LOAD[problem.pitches[0]] * loaded + LOAD[problem.pitches[1]] * n) * paired
    latency = LATENCY / min(config.stages, max(depth, FITTED))
    step = STEP[0] + STEP[1] * n + (STEP[2] if cluster > 1 else 0)
    products = AREA * m * n + SIDES * (m + n) * blocks / multiprocessors
    others = products**SHARP + latency**SHARP + step**SHARP
    inside = (others + load**SHARP) ** (1 / SHARP)
    if M % m == 0 and N % n == 0:
        return inside, inside
    rows, columns = 0 if few else -M % m, -N % n
    outside = (rows * -(-N // n) + columns * -(-M // m)) * split * problem.batch / waves
    load += OUTSIDE[0] * outside + OUTSIDE[1] * max(rows, columns) * paired
    return inside, (others + load**SHARP) ** (1 / SHARP)


def units_of(config: WarpgroupConfig, shape: tuple[int, int, int], batch: int) -> int:
    """Return how many tiles D has; those that a cluster computes together count once: two along N,
    or two of an odd last column along M.
    """
    m, n = -(-shape[0] // config.tile[0]), -(-shape[1] // config.tile[1])
    return (m * n if config.cluster == 1 else m * (n // 2) + n % 2 * (-(-m // 2))) * batch


def _multiprocessors(count: int, together: int) -> tuple[int, int]:
    """Return how many multiprocessors clusters of so many blocks can use, and how many blocks have
    a pair of multiprocessors each.
    """
    used, alone = USED.get(together, OTHERS)
    return count * used // H200, count * alone // H200


def grid_of(
    config: WarpgroupConfig, shape: tuple[int, int, int], batch: int, multiprocessors: int
) -> tuple[int, int]:
    """Return how many blocks are launched, and how many tiles the block with the most has.

    They are the fewest blocks with that many: idle multiprocessors leave power to the others. With
    few rows, memory is the limit, which takes all of them.
    """
    units, together = units_of(config, shape, batch), config.cluster * config.split
    most = _multiprocessors(multiprocessors, together)[0] // together or 1
    waves = -(-units // most)
    if config.schedule == "pingpong" or shape[0] <= NARROW:  # two warpgroups of a block take turns
        return min(units, most) * together, waves
    return -(-units // waves) * together, waves


def band_of(config: WarpgroupConfig, shape: tuple[int, int, int], waves: int) -> int:
    """Return how many tiles of M form a group; tiles of a group are computed one by one."""
    rows = -(-shape[0] // config.tile[0])
    return min(rows, 4 if waves <= 4 and config.schedule != "pingpong" else 8)
