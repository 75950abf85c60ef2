"""The tile that a product gets on a GPU, by its size and by what the GPU has.

The rules are from measurements on an H200 (docs/measurements.md); a smaller GPU takes the
first option that its shared memory holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd, prod
from operator import itemgetter
from typing import NamedTuple

from cute_py.errors import CuteError
from cute_py.kernels.config import VECTOR_BYTES, MultistageConfig
from cute_py.kernels.configuration import still_true
from cute_py.layout.tuples import ceil_div
from cute_py.ops.libraries import Gpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype

BANDS = (2048, 1024, 512)  # rows; a band that does not divide M would leave blocks without work
FULL = 0.9  # of the multiprocessors: with fewer blocks than that, a smaller tile is faster
PREFETCHED = 3  # tiles of K; more delay those that come first
SHORT_K = 1024  # a block is done before the next one has filled its stages: two share a processor


@dataclass(frozen=True, slots=True)
class Asked:
    """A product of a GPU, for the rows of `TILES`.

    Attributes:
        M: rows of D.
        N: columns of D.
        K: length of the sums.
        batch: how many products.
        config: what `choose_config` chose: the instruction and the copies.
        kind: of the operands.
        result: type of D, whose rows are contiguous in memory.
        gpu: where it runs.
    """

    M: int
    N: int
    K: int
    batch: int
    config: MultistageConfig
    kind: Dtype
    result: Dtype
    gpu: Gpu

    @property
    def problem(self) -> tuple[int, int, int, int]:
        """M, N, K and the batch."""
        return self.M, self.N, self.K, self.batch

    def blocks(self, m: int, n: int) -> int:
        """Return how many tiles of m x n the product has."""
        return ceil_div(self.M, m) * ceil_div(self.N, n) * self.batch

    def fills(self, m: int, n: int) -> bool:
        """Tell whether blocks of m x n give (nearly) all multiprocessors work."""
        return self.blocks(m, n) >= FULL * self.gpu.multiprocessors

    def longest(self, m: int, n: int) -> int:
        """Return how many elements of D the multiprocessor with the most tiles of m x n has."""
        rounds: int = ceil_div(self.blocks(m, n), self.gpu.multiprocessors)
        return rounds * m * n

    @property
    def simt(self) -> bool:
        """Whether threads multiply, without matrix instructions."""
        return self.config.simt

    @property
    def bits(self) -> int:
        """Of an operand's element."""
        return self.kind.bits

    @property
    def along_k(self) -> bool:
        """Whether both operands are contiguous along K."""
        return self.config.a.major == self.config.b.major == "K"

    @property
    def is_large_half(self) -> bool:
        """Whether it is a product of f16 or bf16 along K that large tiles divide evenly."""
        return self.bits == 16 and self.along_k and self.K > SHORT_K and self.fills(256, 128)


class Option(NamedTuple):
    """Parts of a configuration, as an option among others.

    Attributes:
        m, n: of the tile.
        warps, stages, min_blocks, spill_bytes: as in `MultistageConfig`.
        k: of the tile; 0: 128 bytes.
        time: of a product of the same size, relative to the other options of its group; the
            fastest of a group wins.
    """

    m: int
    n: int
    warps: tuple[int, int] | tuple[int, int, int]
    stages: int
    min_blocks: int = 1
    spill_bytes: int = 0
    k: int = 0
    time: float = 1.0


# of f16 and bf16 along K, where each multiprocessor has blocks to do (H200, K of 2,560 to 10,240)
LARGE = (
    Option(128, 256, (2, 4), 3, spill_bytes=128),
    Option(256, 128, (4, 2), 3, spill_bytes=128, time=1.007),
    Option(160, 256, (2, 4), 3, spill_bytes=384, time=1.03),
)
# two blocks share a multiprocessor; slower where rows begin within a line of 128 bytes
SHARED = Option(128, 128, (2, 2), 3, 2, spill_bytes=128, time=1.045)
TWO = Option(128, 128, (2, 2), 3, 2)

# (which products, their tiles, the best first); with no option the tile stays. Spilled values
# are used outside of the main loop, except 14 words of 160x256 and two of f64 along K.
TILES: tuple[tuple[Callable[[Asked], bool], tuple[Option | tuple[Option, ...], ...]], ...] = (
    # tiles pass through registers
    (lambda p: not p.config.asynchronous and p.simt, ()),
    (lambda p: not p.config.asynchronous, (Option(64, 64, (2, 2), 2, k=32),)),
    # the tile that was chosen covers them
    (lambda p: min(p.M, p.N) <= 64, ()),
    # f32 by FMA
    (lambda p: p.simt and p.fills(128, 128), (Option(128, 128, (16, 8), 6, 2, 256, 8),)),
    (lambda p: p.simt and p.fills(128, 64), (Option(128, 64, (16, 8, 2), 3, 1, 256, 16),)),
    (lambda p: p.simt, (Option(64, 64, (8, 8, 4), 3, 2, 256, 32),)),
    # f64
    (
        lambda p: p.bits == 64 and p.fills(128, 128),
        (Option(128, 128, (4, 2), 3, spill_bytes=16, k=16), Option(64, 64, (2, 2), 4, k=16)),
    ),
    (lambda p: p.bits == 64, (Option(64, 64, (2, 2), 4, k=16),)),
    # bytes along K
    (
        lambda p: p.bits == 8 and p.fills(128, 128) and p.along_k and not p.kind.is_float,
        (Option(128, 128, (2, 2), 3, 2, k=128), Option(128, 128, (2, 2), 4, k=64)),
    ),
    # bytes: those that are not along K take more registers, and so do 8-bit floats
    (lambda p: p.bits == 8 and p.fills(128, 128), (Option(128, 128, (2, 4), 4, k=64),)),
    (lambda p: p.bits == 8 and p.along_k, (Option(128, 64, (2, 2), 4, 2, k=64),)),
    (lambda p: p.bits == 8, (Option(64, 64, (2, 2), 4, k=64),)),
    # f16, bf16, tf32
    (lambda p: p.is_large_half and p.K % 64 == 0, ((*LARGE, SHARED), SHARED)),
    (lambda p: p.is_large_half, (LARGE, SHARED)),
    (
        lambda p: p.K > SHORT_K and p.fills(128, 256),
        (Option(128, 256, (2, 4), 4), Option(128, 256, (2, 4), 3), TWO),
    ),
    (lambda p: p.fills(128, 128), (TWO,)),
    (
        lambda p: p.K >= SHORT_K and p.blocks(64, 128) <= p.gpu.multiprocessors,
        (Option(64, 128, (2, 2), 5), Option(64, 128, (2, 2), 4, 2)),
    ),
    (lambda p: True, (Option(64, 128, (2, 2), 4, 2),)),
)


def for_gpu(asked: Asked) -> MultistageConfig:
    """Return the configuration with the tile that suits a GPU."""
    if asked.bits == 64 and not asked.simt and asked.gpu.capability == (9, 0):
        asked = replace(asked, config=replace(asked.config, atom="SM90_16x8x8_F64F64F64F64_TN"))
    found = next(options for holds, options in TILES if holds(asked))
    for group in found:
        together = (group,) if isinstance(group, Option) else group
        made = [(option, _made(asked, option)) for option in together]
        fitting = [
            (option.time * asked.longest(option.m, option.n), config)
            for option, config in made
            if config is not None
        ]
        if fitting:
            return min(fitting, key=itemgetter(0))[1]
    return overlapping(asked.config, asked.problem, asked.result, asked.gpu)


def all_for_gpu(asked: Asked) -> list[MultistageConfig]:
    """Return the configurations of all tiles that fit a GPU."""
    asked = replace(asked, config=for_gpu(asked))
    groups = [group for _holds, options in TILES for group in options]
    options = [x for group in groups for x in ((group,) if isinstance(group, Option) else group)]
    many = 64  # threads; warps of other kernels
    fitting = [x for x in dict.fromkeys(options) if (prod(x.warps) >= many) is asked.simt]
    return [made for made in (_made(asked, x) for x in fitting) if made is not None]


def _made(asked: Asked, option: Option) -> MultistageConfig | None:
    """Return the configuration with an option; None where the GPU cannot hold it, or the copies do
    not cover the tile evenly.
    """
    tile = option.m, option.n, option.k or 64 * 16 // max(asked.bits, 16)
    blocks = asked.blocks(option.m, option.n)
    banded = blocks > asked.gpu.multiprocessors * option.min_blocks and not asked.simt
    try:
        made = replace(
            asked.config,
            tile=tile,
            warps=option.warps,
            stages=option.stages,
            min_blocks=option.min_blocks,
            spill_bytes=option.spill_bytes,
            band=_band(asked.M, option.m) if banded else 0,
            store=_store(asked),
        )
        why = "tile, warps, stages: those that this GPU is fast with"
        made = made.because(*still_true(asked.config, made), why)
        made = overlapping(made, asked.problem, asked.result, asked.gpu)
    except CuteError:
        return None
    return made if shared_bytes(made, asked.kind, asked.result) <= asked.gpu.smem else None


def _store(asked: Asked) -> int:
    """Return how many elements of D one store through shared memory writes; 0: store directly."""
    if asked.simt or asked.bits == 64:  # a thread holds neighbours, and stores them in vectors
        return 0
    bits = asked.result.bits
    return max(gcd(VECTOR_BYTES, asked.N * bits // 8) * 8 // bits, 1)


def _is_one_wave(config: MultistageConfig, problem: tuple[int, int, int, int], gpu: Gpu) -> bool:
    """Tell whether all blocks run at the same time."""
    M, N, _K, batch = problem
    blocks: int = ceil_div(M, config.tile[0]) * ceil_div(N, config.tile[1]) * batch
    return blocks <= gpu.multiprocessors * config.min_blocks


def overlapping(
    config: MultistageConfig, problem: tuple[int, int, int, int], result: Dtype, gpu: Gpu
) -> MultistageConfig:
    """Return a configuration with what sm_90 adds: stmatrix, and programmatic dependent launch.

    Blocks of the first wave prefetch their tiles before they wait for the previous kernel.
    """
    if gpu.capability < (9, 0):
        return config
    first = _is_one_wave(config, problem, gpu) and not config.simt
    return replace(
        config,
        pdl=1,
        prefetch=min(config.stages - 1, PREFETCHED) if first else 0,
        stmatrix=int(config.store > 0 and result.bits == 16),
    )


def _band(M: int, m: int) -> int:
    """Return how many tiles of m rows form a band, 0 for all of them."""
    tiles, bands = ceil_div(M, m), [rows // m for rows in BANDS]
    return next((band for band in bands if tiles % band == 0 and tiles > band), 0)


def shared_bytes(config: MultistageConfig, kind: Dtype, result: Dtype) -> int:
    """Return about how much shared memory a block takes (bytes): the stages, or the tile of D."""
    (m, n, k), size = config.tile, kind.bits // 8
    stages = config.stages * (m + n + 8) * k * size
    padded = n + max(8, 128 // result.bits)
    return max(stages, m * padded * result.bits // 8 if config.store else 0)
