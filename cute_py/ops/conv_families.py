"""The families of kernels of the convolutions: what each reads, and the tiles that it gets.

A convolution is a product, so its configurations are those of `gemm`: they are chosen by the facts
of the implicit product.

The tile of Hopper is the one with the least estimated time. A block computes tile after tile of D,
in waves. Its time is that of the tiles of K, each by the area of a tile of D, more where all
multiprocessors are busy, and of the end of each tile. Fitted on 129 times of 17 convolutions on an
H200. Of each, a fit on the 16 others chooses tiles that take 1.02 times as long as the fastest on
average, and 1.17 times at most.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import VECTOR_BYTES
from cute_py.errors import refusal
from cute_py.kernels.config import GemmConfig, MultistageConfig
from cute_py.kernels.config_sm90 import WARPGROUP_ATOMS, WarpgroupConfig
from cute_py.kernels.conv_gathered import (
    conv_gathered,
    conv_gathered_split,
    conv_wgrad,
    conv_wgrad_split,
)
from cute_py.kernels.conv_sm90 import KERNELS, Box, conv_cooperative, conv_pingpong
from cute_py.kernels.convolution import WGRAD
from cute_py.kernels.splits import PRODUCTS, SHARES, Split
from cute_py.layout.tuples import ceil_div
from cute_py.ops.choice import counted
from cute_py.ops.family import (
    Estimate,
    Family,
    Reads,
    Taken,
    asked_by,
    changed_for,
    choose,
    take,
)
from cute_py.ops.gemm_families import ANY_MAJOR, COOPERATIVE, HOPPER, MULTISTAGE, SPILLED
from cute_py.ops.gemm_tiles_sm90 import PDL_BELOW, Row, changed_for_hopper, fitting
from cute_py.ops.operands import is_apart

if TYPE_CHECKING:
    from cute_py.ops.gemm_tiles_sm90 import ProductFacts
    from cute_py.trace.kernel import Kernel


def kernel_of(kind: str, config: GemmConfig) -> Kernel:
    """Return the kernel of a configuration, for fprop, dgrad or wgrad."""
    plain, split = (conv_gathered, conv_gathered_split), (conv_wgrad, conv_wgrad_split)
    parts: Any = config.parts  # type: ignore[attr-defined]  # all classes have it
    found: Kernel = (split if kind == WGRAD else plain)[parts.in_memory]
    if isinstance(config, WarpgroupConfig):
        found = KERNELS[config.schedule]
    return found


# -- Hopper: im2col by TMA

TILES = (
    Row(64, 104, 1, "cooperative"),
    Row(64, 128, 1, "cooperative"),
    Row(128, 64, 2, "cooperative"),
    Row(128, 128, 2, "cooperative"),
    Row(128, 256, 2, "cooperative", most=(4, 4, 1)),
    Row(192, 64, 3, "cooperative"),
    Row(192, 128, 3, "cooperative"),
    Row(256, 64, 2, "cooperative"),
    Row(256, 128, 2, "cooperative", in_parts=True, most=(4, 4, 0)),
    Row(64, 128, 1, "pingpong"),
    Row(128, 64, 1, "pingpong"),
    Row(128, 128, 1, "pingpong", most=(1, 3, 1)),
    Row(192, 64, 1, "pingpong"),
)
# microseconds: of a launch; of a tile of K, by 10,000 elements of D, and more where all are busy;
# of each tile of K; of the end of a tile, by 10,000 elements, and of each
LAUNCH, AREA, BUSY, STEP, END, TURN = 2.48, 0.1315, 0.0686, 0.0478, 0.2931, 0.4683
SLOWER_EARLY = ((64, 104), (64, 128), (192, 64))  # tiles of launches that are slower with PDL


def tiles_of(facts: ProductFacts) -> list[Estimate]:
    """Return the rows that hold an epilogue, and fit a block, with estimated times."""
    forms = facts.forms, facts.weight, int(facts.two_level), False
    found = [config for row in TILES for config in fitting(row, *forms, ((1, 1),))]
    return [Estimate(time_of(config, facts), config) for config in found]


def time_of(config: WarpgroupConfig, facts: ProductFacts) -> float:
    """Return about how long a convolution takes by a configuration (microseconds)."""
    (m, n, k), (M, N, K), slots = config.tile, facts.shape, facts.multiprocessors
    count, area = ceil_div(M, m) * ceil_div(N, n), m * n / 1e4
    waves = ceil_div(count, slots)
    step = (AREA + BUSY * count / (waves * slots)) * area + STEP
    ends = 1 if config.schedule == "pingpong" else waves  # all but the last are hidden
    time = LAUNCH + waves * (ceil_div(K, k) * step + TURN) + ends * END * area
    return float(max(time, facts.memory))


def decided(_problem: Any, ranked: list[Estimate]) -> tuple[WarpgroupConfig, Any]:
    """Return the configuration with the least time, and a function that says why."""
    best, *others = ranked[:3]
    tile = best.config.tile[:2]
    early = best.time < PDL_BELOW and tile not in SLOWER_EARLY
    config = replace(best.config, pdl=int(early))

    def why() -> tuple[str, ...]:
        more = "; next: " + "; ".join(map(_shown, others)) if others else ""
        cause = f"of launches below {PDL_BELOW:.0f} us, but for tiles that were slower with it"
        return (
            f"tile: {_shown(best)}{more}",
            f"programmatic dependent launch: {'on' if early else 'off'}, {cause}",
        )

    return config, why


def _shown(x: Estimate) -> str:
    (m, n, _k) = x.config.tile
    return f"{m}x{n} {x.config.schedule}, about {x.time:.3g} us"


def _by_im2col(problem: Any) -> Reads:
    """Return whether TMA reads the images, and warpgroups multiply the types."""
    takes = problem.gpu is None or problem.gpu.capability == HOPPER
    if not takes:
        return Reads(False, "no GPU of sm_90a")
    why = _unreadable(problem)
    return Reads(not why, why or "TMA reads the pixels, and all in rows of 16 bytes")


def _unreadable(problem: Any) -> str:
    """Return why no kernel of Hopper computes a convolution, "" where one does."""
    if problem.of == WGRAD:
        return "sums over pixels, which im2col of TMA does not have as columns"
    if problem.groups > 1 or problem.is_scattered:
        return "groups, or a gradient with strides"
    kinds = tuple([x.name for x in problem.kinds])
    if kinds not in WARPGROUP_ATOMS:
        return f"wgmma does not multiply {kinds[0]}"
    if "MN" in problem.product.majors and kinds[0] not in ANY_MAJOR:
        return f"the filter is not along K, as wgmma wants {kinds[0]}"
    (lines,) = problem.lines
    box, extents = Box(lines), problem.given[problem.reads[0]].shape[1:3]
    if not box.fits or tuple(box.outputs(extents)) != tuple(problem.whole[1:3]):
        return "a padding, a stride or a dilation that no box of TMA has"
    if min(problem.product.aligned) < VECTOR_BYTES or not problem.has_matrix:
        return "channels, or rows of the filter, that are not made of whole 16 bytes"
    return "" if is_apart(problem.given[problem.reads[0]]) else "images that overlap"


def _tiles(problem: Any) -> list[Estimate]:
    return tiles_of(problem.product)


def _fits_hopper(given: WarpgroupConfig, problem: Any) -> WarpgroupConfig:
    config: Any = COOPERATIVE.fits(given, problem.product)
    if not config.cluster == config.split == config.parts.products == 1 or config.prefetch:
        rule = "no cluster, no split, and C by loads of threads"
        raise refusal("gemm-config", operation=problem.operation, config=config, rule=rule)
    return config  # type: ignore[no-any-return]


def _changed_hopper(config: Any, text: str, problem: Any) -> WarpgroupConfig:
    return _fits_hopper(changed_for_hopper(config, text, problem.product), problem)


def _grid(config: WarpgroupConfig, problem: Any) -> tuple[int, ...]:
    return COOPERATIVE.numbers(config, problem.product)


# -- all GPUs


def _by_vectors(problem: Any) -> Reads:
    takes = problem.kinds[0].name != "f32"
    return Reads(takes, "" if takes else "f32, which mma.sync does not multiply")


def _by_elements(_problem: Any) -> Reads:
    return Reads()


def _configs(problem: Any) -> list[Estimate]:
    """Return the tile that a product of these sizes has; with few tiles of a long K, blocks have
    equal shares of K.
    """
    facts = problem.product
    ((_time, config),) = MULTISTAGE.configs(facts)
    if config.simt and config.tile[:2] == (128, 128):  # places of pixels take registers, too
        config = replace(config, tile=(128, 64, config.tile[2]), warps=(16, 8), spill_bytes=0)
    (m, n, k), (M, N, K) = config.tile, facts.shape
    tiles = ceil_div(M, m) * ceil_div(N, n) * facts.batch
    units, blocks = tiles * ceil_div(K, k), facts.multiprocessors
    if problem.of == WGRAD and facts.gpu is not None and tiles < blocks:
        split = Split(SHARES, min(blocks, units))
        config = replace(config, parts=split, band=0, prefetch=0, flat=0, spill_bytes=SPILLED)
    return [Estimate(1.0, _stored(config, problem))]


def _stored(config: MultistageConfig, problem: Any) -> MultistageConfig:
    """Return a configuration that writes D as its kernel can: rows anywhere, one by one."""
    return replace(config, store=0, stmatrix=0) if problem.is_scattered and config.store else config


def _fits(given: MultistageConfig, problem: Any) -> MultistageConfig:
    """Return a configuration that was given; refuse others than the kernels here have."""
    config: Any = counted(MULTISTAGE.fits(given, problem.product), problem.product)
    if config.parts.how == PRODUCTS:
        rule = "parts of K in one kernel: split=stream or split=serial"
        raise refusal("gemm-config", operation=problem.operation, config=config, rule=rule)
    return _stored(config, problem)


def _changed(config: MultistageConfig, text: str, problem: Any) -> MultistageConfig:
    assert MULTISTAGE.changed is not None
    return _fits(MULTISTAGE.changed(config, text, problem.product), problem)


def _others(problem: Any, config: MultistageConfig) -> list[MultistageConfig]:
    parts = config.parts
    found = [x for x in MULTISTAGE.others(problem.product, config) if not parts.in_memory]
    return [_stored(x, problem) for x in found]


GATHERED = Family(
    "multistage",
    conv_gathered,
    MULTISTAGE.config,
    _configs,
    _by_vectors,
    "cp.async of gathered vectors, and mma.sync",
    fits=_fits,
    changed=_changed,
    others=_others,
)
IM2COL = Family(
    "cooperative",
    conv_cooperative,
    WarpgroupConfig,
    _tiles,
    _by_im2col,
    "TMA in im2col mode and wgmma",
    numbers=_grid,
    decide=decided,
    fits=_fits_hopper,
    changed=_changed_hopper,
    others=lambda problem, _config: [x.config for x in _tiles(problem)],
)
FAMILIES = (
    IM2COL,
    replace(IM2COL, name="pingpong", kernel=conv_pingpong),
    GATHERED,
    replace(GATHERED, name="simt", reads=_by_elements, means="gathered elements, and FMA"),
)


def taken_by(problem: Any, given: Any = None) -> Taken:
    """Return the families that compute a problem, by a configuration that is given, if any."""
    families = FAMILIES
    if problem.gpu is None:  # the emulator takes longer for TMA and wgmma
        families = (*FAMILIES[2:], *FAMILIES[:2])
    taken = take(families, problem, asked_by(FAMILIES, given))
    if not taken.reads.takes:
        why = taken.reads.why
        raise refusal("ops-family", operation=problem.operation, config=given, why=why)
    return taken


def configured(problem: Any) -> Any:  # a GemmConfig
    """Return the configuration that a problem asks for, or the one of the rule."""
    given = problem.request.config
    taken = taken_by(problem, given)
    if isinstance(given, GemmConfig):
        return taken.first.fits(given, problem)
    config, reasons = choose(taken, problem)
    config = config.because(taken.reason, *reasons())
    return config if given is None else changed_for(taken, config, given, problem)


def numbers_of(config: GemmConfig, problem: Any) -> tuple[int, ...]:
    """Return what the kernel of a configuration takes after P and Q."""
    return next(x for x in FAMILIES if x.name == config.family).numbers(config, problem)
