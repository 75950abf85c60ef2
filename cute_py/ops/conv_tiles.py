"""The tile that a convolution gets on Hopper: the row of `ROWS` with the least estimated time.

A block computes tile after tile of D, in waves. Its time is that of the tiles of K, each by the
area of a tile of D, more where all multiprocessors are busy, and of the end of each tile. Fitted on
129 times of 17 convolutions on an H200. Of each, a fit on the 16 others chooses tiles that take
1.02 times as long as the fastest on average, and 1.17 times at most.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cute_py.layout.tuples import ceil_div
from cute_py.ops.family import Estimate
from cute_py.ops.gemm_tiles_sm90 import PDL_BELOW, Row, fitting

if TYPE_CHECKING:
    from cute_py.kernels.config_sm90 import WarpgroupConfig
    from cute_py.ops.gemm_tiles_sm90 import ProductFacts

ROWS = (
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


def tiles(facts: ProductFacts) -> list[Estimate]:
    """Return the rows that hold an epilogue, and fit a block, with estimated times."""
    forms = facts.forms, facts.weight, int(facts.two_level), False
    found = fitting(ROWS, *forms, (1,), False)
    return [Estimate(time_of(config, facts), config) for _row, config in found]


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
