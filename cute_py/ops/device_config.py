"""Which tile a product gets on a GPU: by its size, its types and what the GPU has.

The rules are from measurements on an H200 (docs/performance.md); a smaller GPU takes the first
option that its shared memory holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd
from operator import itemgetter

from cute_py.errors import CuteError
from cute_py.layout.tuples import ceil_div
from cute_py.ops.choose import VECTOR_BYTES, changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype
    from cute_py.kernels.gemm import GemmConfig

BANDS = (2048, 1024, 512)  # rows; those that do not divide M would leave blocks without work
FULL = 0.9  # of the multiprocessors: with fewer blocks than that a smaller tile is better
SHORT_K = 1024  # a block is done before the next one has filled its stages: two share a processor


@dataclass(frozen=True, slots=True)
class Gpu:
    """What the rules ask of a GPU.

    Attributes:
        smem: shared memory that a block can have (bytes).
        multiprocessors: how many.
        capability: of its instructions, (9, 0) for example.
    """

    smem: int
    multiprocessors: int
    capability: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the rows of `TILES` ask of a product.

    Attributes:
        M: rows of D.
        N: columns of D.
        K: length of the sums.
        batch: how many products.
        config: what `choose_config` chose.
        kind: of the operands.
        result: type of D.
        gpu: where it runs.
    """

    M: int
    N: int
    K: int
    batch: int
    config: GemmConfig
    kind: Dtype
    result: Dtype
    gpu: Gpu

    def blocks(self, m: int, n: int) -> int:
        """Return how many tiles of m x n the product has."""
        return ceil_div(self.M, m) * ceil_div(self.N, n) * self.batch  # type: ignore[no-any-return]

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
        """Whether it is a product of f16 or bf16 along K that large tiles share out well."""
        return self.bits == 16 and self.along_k and self.K > SHORT_K and self.fills(256, 128)


@dataclass(frozen=True, slots=True)
class _Timed:
    """An option among others of which the one is taken that is done first.

    Attributes:
        option: changes to the configuration.
        time: of a product of the same size, relative to the others.
    """

    option: str
    time: float


# of f16 and bf16 along K, where each multiprocessor has blocks to do (H200, K of 2,560 to 10,240)
LARGE = (
    _Timed("tile=128x256x{k},warps=2x4,stages=3,spill_bytes=128", 1.0),
    _Timed("tile=256x128x{k},warps=4x2,stages=3,spill_bytes=128", 1.007),
    _Timed("tile=160x256x{k},warps=2x4,stages=3,spill_bytes=384", 1.03),
)
# two blocks share a multiprocessor; slower where rows begin within a line of 128 bytes
SHARED = _Timed("tile=128x128x{k},warps=2x2,stages=3,min_blocks=2,spill_bytes=128", 1.045)

# (which products, their tiles, the best first); {k} are 128 bytes; with no option the tile stays.
# Of a tuple of tiles in the place of one, the one is taken that is done first. What spills is used
# outside of the main loop, but for 14 words of 160x256.
TILES: tuple[tuple[Callable[[_Asked], bool], tuple[str | tuple[_Timed, ...], ...]], ...] = (
    # tiles pass through registers
    (lambda p: not p.config.asynchronous and p.simt, ()),
    (lambda p: not p.config.asynchronous, ("tile=64x64x32,warps=2x2",)),
    # what was chosen holds them
    (lambda p: min(p.M, p.N) <= 64, ()),
    # f32 by FMA
    (
        lambda p: p.simt and p.fills(128, 128),
        ("tile=128x128x16,warps=16x16,stages=3,min_blocks=2,spill_bytes=256",),
    ),
    (lambda p: p.simt, ("tile=64x64x16,warps=8x8,stages=3,min_blocks=4,spill_bytes=256",)),
    # f64
    (
        lambda p: p.bits == 64 and p.fills(128, 128),
        ("tile=128x128x16,warps=4x2,stages=3", "tile=64x64x16,warps=2x2,stages=4"),
    ),
    (lambda p: p.bits == 64, ("tile=64x64x16,warps=2x2,stages=4",)),
    # bytes along K
    (
        lambda p: p.bits == 8 and p.fills(128, 128) and p.along_k and not p.kind.is_float,
        ("tile=128x128x128,warps=2x2,stages=3,min_blocks=2", "tile=128x128x64,warps=2x2,stages=4"),
    ),
    # bytes: those that are not along K take more registers, and so do 8-bit floats
    (lambda p: p.bits == 8 and p.fills(128, 128), ("tile=128x128x64,warps=2x4,stages=4",)),
    (lambda p: p.bits == 8 and p.along_k, ("tile=128x64x64,warps=2x2,stages=4,min_blocks=2",)),
    (lambda p: p.bits == 8, ("tile=64x64x64,warps=2x2,stages=4",)),
    # f16, bf16, tf32
    (
        lambda p: p.is_large_half and p.K % 64 == 0,
        ((*LARGE, SHARED), SHARED.option),
    ),
    (lambda p: p.is_large_half, (LARGE, SHARED.option)),
    (
        lambda p: p.K > SHORT_K and p.fills(128, 256),
        (
            "tile=128x256x{k},warps=2x4,stages=4",
            "tile=128x256x{k},warps=2x4,stages=3",
            "tile=128x128x{k},warps=2x2,stages=3,min_blocks=2",
        ),
    ),
    (lambda p: p.fills(128, 128), ("tile=128x128x{k},warps=2x2,stages=3,min_blocks=2",)),
    (lambda p: True, ("tile=64x128x{k},warps=2x2,stages=4,min_blocks=2",)),
)


def for_gpu(
    config: GemmConfig,
    problem: tuple[int, int, int, int],
    kind: Dtype,
    result: Dtype,
    gpu: Gpu,
) -> GemmConfig:
    """Return the configuration with the tile that suits a GPU.

    Args:
        config: what `choose_config` chose: it says the instruction and the copies.
        problem: (M, N, K, batch).
        kind: of the operands.
        result: type of D, whose rows lie one behind the other.
        gpu: where it runs.

    """
    if kind.bits == 64 and not config.simt and gpu.capability == (9, 0):
        config = replace(config, atom="SM90_16x8x8_F64F64F64F64_TN")
    asked = _Asked(*problem, config, kind, result, gpu)
    for options in _options(asked):
        made = [(each.time, _made(asked, each.option)) for each in options]
        fitting = [(time * asked.longest(*x.tile[:2]), x) for time, x in made if x is not None]
        if fitting:
            return min(fitting, key=itemgetter(0))[1]
    return overlapping(config, problem, result, gpu)


def _options(asked: _Asked) -> list[list[_Timed]]:
    """Return the tiles of the first row that holds, the best first; some stand side by side."""
    found = next(options for holds, options in TILES if holds(asked))
    beside = [(_Timed(x, 1.0),) if isinstance(x, str) else x for x in found]
    k = 64 * 16 // max(asked.bits, 16)
    return [[replace(x, option=x.option.format(k=k)) for x in group] for group in beside]


def _made(asked: _Asked, option: str) -> GemmConfig | None:
    """Return the configuration with an option; None where the GPU cannot hold it, or the copies do
    not cover the tile evenly.
    """
    problem = asked.M, asked.N, asked.K, asked.batch
    try:
        made = changed(asked.config, option)
        banded = not (made.simt or _is_one_wave(made, problem, asked.gpu))
        band = _band(asked.M, made.tile[0]) if banded else 0
        made = replace(made, band=band, store=_store(asked))
        made = overlapping(made, problem, asked.result, asked.gpu)
    except CuteError:
        return None
    return made if shared_bytes(made, asked.kind, asked.result) <= asked.gpu.smem else None


def _store(asked: _Asked) -> int:
    """Return how many elements of D one store by way of shared memory takes; 0: straight."""
    if asked.simt or asked.bits == 64:  # a thread has neighbours, and stores them in vectors
        return 0
    bits = asked.result.bits
    return max(gcd(VECTOR_BYTES, asked.N * bits // 8) * 8 // bits, 1)


def _is_one_wave(config: GemmConfig, problem: tuple[int, int, int, int], gpu: Gpu) -> bool:
    """Tell whether all blocks run at the same time."""
    M, N, _K, batch = problem
    blocks: int = ceil_div(M, config.tile[0]) * ceil_div(N, config.tile[1]) * batch
    return blocks <= gpu.multiprocessors * config.min_blocks


def overlapping(
    config: GemmConfig, problem: tuple[int, int, int, int], result: Dtype, gpu: Gpu
) -> GemmConfig:
    """Return a configuration with what sm_90 has: stmatrix, and a begin beside the kernel before.

    Blocks of the first wave have time to bring their tiles near before they wait for that kernel.
    """
    if gpu.capability < (9, 0):
        return config
    first = _is_one_wave(config, problem, gpu) and not config.simt
    return replace(
        config,
        pdl=1,
        prefetch=config.stages - 1 if first else 0,
        stmatrix=int(config.store > 0 and result.bits == 16),
    )


def _band(M: int, m: int) -> int:
    """Return how many tiles of m rows blocks that run together cover, 0 for all of them."""
    tiles, bands = ceil_div(M, m), [rows // m for rows in BANDS]
    return next((band for band in bands if tiles % band == 0 and tiles > band), 0)


def shared_bytes(config: GemmConfig, kind: Dtype, result: Dtype) -> int:
    """Return about how much shared memory a block takes (bytes): the stages, or the tile of D."""
    (m, n, k), size = config.tile, kind.bits // 8
    stages = config.stages * (m + n + 8) * k * size
    padded = n + max(8, 128 // result.bits)
    return max(stages, m * padded * result.bits // 8 if config.store else 0)
