"""What a thread does: shared memory and registers for its multiply-adds, and the latencies that
they hide.

A thread computes (Mf, Nf) elements of f32 of the tile (Mt, Nt) of its block, Kt of K at a time. The
32 lanes of a warp are arranged as (rows, columns). Source: S1, by lines.
"""

from __future__ import annotations

from typing import NamedTuple

from cute_py.analysis.model.traffic import require_positive
from cute_py.errors import refusal
from cute_py.plan import ops
from cute_py.plan.walk import blocks_of, every

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.plan.conditions import Reg
    from cute_py.plan.plan import Plan

F32 = 4  # bytes
LANES = 32
MAX_REGISTERS = 255  # of a thread
SHARED = 128  # bytes a cycle: 32 banks of 4 bytes
VECTOR, PAIR = 16, 2  # bytes of the widest access; cycles that it takes at least
TILES = ((4, 4), (4, 8), (8, 4), (8, 8), (8, 16), (16, 8), (16, 16))  # of a thread
LATENCIES = 20, 30  # of shared memory (cycles), S1:155


# -- operands from shared memory


def inner_product_limit(peak: float = 14, bandwidth: float = SHARED, ffma: float = 64) -> float:
    """Return the speed (TFLOPS) of inner products whose operands all come from shared memory.

    Args:
        peak: of the multiply-adds (TFLOPS).
        bandwidth: of shared memory, of a multiprocessor (bytes a cycle).
        ffma: multiply-adds of a multiprocessor a cycle.

    Formula: 32 lanes read 256 bytes for 32 multiply-adds: peak * (32/ffma) / (256/bandwidth), at
    most the peak. Source: S1:75-103. (S1:101 gives TU102 64 multiply-adds a cycle, S1:172 128.)

    >>> inner_product_limit(), inner_product_limit(bandwidth=64)
    (3.5, 1.75)
    """
    require_positive("inner_product_limit", peak=peak, bandwidth=bandwidth, ffma=ffma)
    return peak * min((LANES / ffma) / (2 * F32 * LANES / bandwidth), 1.0)


def thread_tile_registers(Mf: int, Nf: int, double: bool = False) -> int:
    """Return the registers of outer products: each operand is read once for each k.

    Formula: Mf*Nf sums, and Mf+Nf operands; with `double`, twice these: the next are loaded while
    these are multiplied. Source: S1:105-139.

    >>> thread_tile_registers(8, 8), thread_tile_registers(8, 8, double=True)
    (80, 96)
    """
    require_positive("thread_tile_registers", Mf=Mf, Nf=Nf)
    return Mf * Nf + (Mf + Nf) * (2 if double else 1)


def i_ratio(Mf: int, Nf: int, alpha: float = 1.0) -> float:
    """Return multiply-adds for each element that is loaded from shared memory.

    Formula: (1/alpha) * Mf*Nf / (Mf+Nf), which is (1/(4*alpha)) * ((Mf+Nf)^2 - (Mf-Nf)^2) /
    (Mf+Nf): square tiles are best. alpha is about 1 over the elements of a load. Source:
    S1:143-158.

    >>> [round(i_ratio(8, n), 3) for n in (8, 4, 16)]
    [4.0, 2.667, 5.333]
    """
    require_positive("i_ratio", Mf=Mf, Nf=Nf, alpha=alpha)
    return Mf * Nf / (Mf + Nf) / alpha


def thread_tile_choice(registers: int = MAX_REGISTERS) -> tuple[int, int]:
    """Return the tile of a thread with the most multiply-adds for each load, and few enough
    registers, whose multiply-adds cover the latency of shared memory.

    Args:
        registers: of a thread, for operands and sums.

    Formula: the greatest `i_ratio` of the tiles of 4, 8 and 16 for which Mf*Nf cycles exceed those
    of `warp_tile_latency` at 30, the most that S1 takes, and `thread_tile_registers(double=True)`
    is at most `registers`. 8x4 has 32 cycles, too few; 16x16 has 320 registers, too many. Source:
    S1:155-158. Raises LayoutError if none fits.

    >>> thread_tile_choice(), thread_tile_choice(128)
    ((8, 16), (8, 8))
    """
    found = [
        tile
        for tile in TILES
        if tile[0] * tile[1] > warp_tile_latency(*tile, shared_latency=LATENCIES[1]).both
        and thread_tile_registers(*tile, double=True) <= registers
    ]
    if not found:
        raise refusal("model-registers", operation="thread_tile_choice", registers=registers)
    return max(found, key=lambda tile: i_ratio(*tile))


class SharedCycles(NamedTuple):
    """The cycles that a warp's fragments of A and B take from shared memory, and the multiply-adds
    for each of them.
    """

    a: int
    b: int
    ffma_per_cycle: float


def warp_tile_cycles(
    Mf: int = 8, Nf: int = 8, lanes: tuple[int, int] = (1, 32), bandwidth: int = SHARED
) -> SharedCycles:
    """Return what the fragments of a warp take from shared memory for one k.

    Args:
        Mf: rows of the tile of a thread.
        Nf: its columns.
        lanes: (rows, columns) of lanes; those of a row share A, those of a column B.
        bandwidth: of shared memory (bytes a cycle).

    Formula: a fragment of n different elements takes n*4/bandwidth cycles, and each of its loads of
    16 bytes two at least; multiply-adds for each cycle: Mf*Nf*32 / (a + b). Source: S1:160-176.

    >>> found = warp_tile_cycles(), warp_tile_cycles(bandwidth=64), warp_tile_cycles(lanes=(4, 8))
    >>> [(a, b, int(ratio)) for a, b, ratio in found]
    [(4, 8, 170), (4, 16, 102), (4, 4, 256)]
    """
    require_positive("warp_tile_cycles", Mf=Mf, Nf=Nf, bandwidth=bandwidth)
    rows, columns = lanes
    if rows < 1 or rows * columns != LANES:
        raise refusal("model-lanes", operation="warp_tile_cycles", lanes=lanes)
    a, b = (
        max(PAIR * -(-n * F32 // VECTOR), -(-n * count * F32 // bandwidth))
        for n, count in ((Mf, rows), (Nf, columns))
    )
    return SharedCycles(a, b, Mf * Nf * LANES / (a + b))


class Latency(NamedTuple):
    """The cycles until fragments of A, of B, and of both are there, and those of the products."""

    a: float
    b: float
    both: float
    products: float


def warp_tile_latency(
    Mf: int = 8,
    Nf: int = 8,
    lanes: tuple[int, int] = (1, 32),
    *,
    shared_latency: float = 19,
    ffma_latency: float = 4,
) -> Latency:
    """Return the latency of a warp's fragments against that of the products of one k.

    Formula: of `warp_tile_cycles` a + lat, b + lat, and a + b + lat in sum, as loads follow each
    other; against Mf*Nf + FFMA latency. Source: S1:176.

    >>> warp_tile_latency()
    Latency(a=23, b=27, both=31, products=68)
    """
    require_positive("warp_tile_latency", shared_latency=shared_latency, ffma_latency=ffma_latency)
    a, b, _ = warp_tile_cycles(Mf, Nf, lanes)
    both = a + b + shared_latency
    return Latency(a + shared_latency, b + shared_latency, both, Mf * Nf + ffma_latency)


# -- the instructions of a tile of K


class Counts(NamedTuple):
    """The instructions of a thread for a tile of K: loads from global memory and stores to shared
    memory of 4 bytes, loads from shared memory of 8 bytes (one of 16 counts as two), multiply-adds.
    """

    threads: int
    ldg: int
    sts: int
    lds: int
    ffma: int


def instruction_counts(tile: tuple[int, int, int], thread: tuple[int, int]) -> Counts:
    """Return the instructions of a thread for a tile of K.

    Args:
        tile: (Mt, Nt, Kt) of the block.
        thread: (Mf, Nf).

    Formula: threads = Mt*Nt / (Mf*Nf); ldg = sts = (Mt+Nt)*Kt / threads; lds = 2*(Mf/4+Nf/4)*Kt;
    ffma = Mf*Nf*Kt. Source: S1:365-391. Raises LayoutError for tiles that do not divide.

    >>> instruction_counts((128, 128, 8), (8, 8))
    Counts(threads=256, ldg=8, sts=8, lds=64, ffma=512)
    """
    (Mt, Nt, Kt), (Mf, Nf) = tile, thread
    require_positive("instruction_counts", Mt=Mt, Nt=Nt, Kt=Kt, Mf=Mf, Nf=Nf)
    threads = Mt * Nt // (Mf * Nf)
    if Mt % Mf or Nt % Nf or (Mt + Nt) * Kt % threads or (Mf + Nf) * Kt % 2:
        raise refusal(
            "model-tiles", operation="instruction_counts", tile=tuple(tile), thread=tuple(thread)
        )
    loads = (Mt + Nt) * Kt // threads
    return Counts(threads, loads, loads, (Mf + Nf) * Kt // 2, Mf * Nf * Kt)


def counts_of_plan(plan: Plan) -> Counts:
    """Return the same, counted in the main loop of a plan: its first loop with products.

    Law: of `gemm_04_double_buffer.sgemm_128x128` they are those of `instruction_counts` for (128,
    128, 8) and (8, 8). Raises LayoutError for a plan without multiply-adds in a loop.

    >>> import numpy as np
    >>> import cute_py as cute
    >>> from cute_py.kernels.gemm_04_double_buffer import choose, sgemm_128x128
    >>> a = np.ones((128, 128), np.float32)
    >>> counts_of_plan(cute.trace(sgemm_128x128, a, a, a, choose(a, a)))
    Counts(threads=256, ldg=8, sts=8, lds=64, ffma=512)
    """
    for loop in every(plan.body):
        inside = [op for block in blocks_of(loop) for op in every(block)] if loop.repeats else []
        ffma = sum(_products(op) for op in inside)
        if ffma:
            loads = [(op.src.space, op.dst) for op in inside if isinstance(op, ops.Load)]
            stores = [(op.dst.space, op.src) for op in inside if isinstance(op, ops.Store)]
            ldg, lds, sts = _bits(loads, "gmem"), _bits(loads, "smem"), _bits(stores, "smem")
            return Counts(plan.launch.threads, ldg // 32, sts // 32, lds // 64, ffma)
    raise refusal("model-plan", operation="counts_of_plan", name=plan.name)


def _products(op: ops.Op) -> int:
    """Return the multiply-adds of a thread in an op."""
    if isinstance(op, ops.Mma):
        return len(op.steps) if op.atom.num_threads == 1 else 0
    return len(op.dst) if isinstance(op, ops.Map) and op.fn == "fma" else 0


def _bits(moved: list[tuple[str, Reg]], space: str) -> int:
    """Return the bits of registers that are moved from or to a memory."""
    return sum(len(reg) * reg.dtype.bits for where, reg in moved if where == space)


def beta(latency: float, ffma: float, ffma_latency: float = 0) -> float:
    """Return the part of the multiply-adds that is not covered by waiting for global memory.

    Args:
        latency: of a load from global memory and a store to shared memory, L_ldg + L_sts (cycles).
        ffma: multiply-adds of a tile of K.
        ffma_latency: of one; 0: the approximation of S1.

    Formula: 1 - (L_ldg + L_sts) / (n_ffma + L_ffma). Source: S1:392-402. Raises LayoutError where
    nothing is left, see `is_valid`.

    >>> round(beta(419, 512), 6), round(beta(419, 512, 4), 6)
    (0.181641, 0.187984)
    """
    require_positive("beta", latency=latency, ffma=ffma)
    if ffma_latency:
        require_positive("beta", ffma_latency=ffma_latency)
    found = 1 - latency / (ffma + ffma_latency)
    if found <= 0:
        raise refusal("model-latency", operation="beta", latency=latency, ffma=ffma)
    return found


def partial_counts(counts: Counts, part: float) -> tuple[float, float]:
    """Return the loads and the multiply-adds of the part of a tile of K that `beta` leaves.

    Formula: n_ld_part = n_ldg + beta * n_lds; n_ffma_part = beta * n_ffma. Source: S1:402-407.
    Raises LayoutError for a part that is not from 0 to 1.

    >>> counts = instruction_counts((128, 128, 8), (8, 8))
    >>> [round(x, 3) for x in partial_counts(counts, beta(419, 512))]
    [19.625, 93.0]
    """
    if not 0 <= part <= 1:
        raise refusal("model-part", operation="partial_counts", part=part)
    return counts.ldg + part * counts.lds, part * counts.ffma


def ratio_ld_ffma(
    tile: tuple[int, int, int], thread: tuple[int, int], latency: float, ffma_latency: float = 0
) -> float:
    """Return loads for each multiply-add in that part; at most IPC_lsu / IPC_ffma, or loads limit.

    Args:
        tile: (Mt, Nt, Kt).
        thread: (Mf, Nf).
        latency: L_ldg + L_sts (cycles).
        ffma_latency: as of `beta`.

    Formula: n_ldg / (beta*n_ffma) + n_lds / n_ffma, which is without L_ffma Mf*Nf*(1/Mt+1/Nt) /
    (Mf*Nf - (L_ldg+L_sts)/Kt) + (Mf+Nf) / (2*Mf*Nf). On V100 it must be at most 0.25 / 0.5. Source:
    S1:407-423.

    >>> [round(ratio_ld_ffma((128, 128, 8), (8, 8), n), 6) for n in (419, 459)]
    [0.211022, 0.275943]
    """
    counts = instruction_counts(tile, thread)
    loads, products = partial_counts(counts, beta(latency, counts.ffma, ffma_latency))
    return loads / products


def is_valid(tile: tuple[int, int, int], thread: tuple[int, int], latency: float) -> bool:
    """Tell whether the multiply-adds of a tile of K cover L_ldg + L_sts; else other warps must.

    Formula: n_ffma > L_ldg + L_sts. Source: S1:423-435.

    >>> is_valid((128, 128, 8), (8, 8), 419), is_valid((128, 128, 8), (8, 4), 419)
    (True, False)
    """
    require_positive("is_valid", latency=latency)
    return instruction_counts(tile, thread).ffma > latency
