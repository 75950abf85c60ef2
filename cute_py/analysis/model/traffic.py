"""What memory delivers: FLOP for each byte of a tile, the L2 hit rate of a wave, and the speed that
follows.

Speeds are in TFLOPS of 2^40, bandwidths in GiB/s: TFLOPS * 1024 / (FLOP/B) is GiB/s. S1 reads the
14 TFLOPS of a data sheet so. A tile is (Mt, Nt), elements of the result that a block computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple

from cute_py.analysis.resources import wave
from cute_py.errors import refusal
from cute_py.layout.tuples import ceil_div

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.atoms.devices import DeviceSpec

STEP = 32  # rows of a tile, of which `smallest_tile` takes multiples
KILO = 1024
PEAKS: dict[float, str] = {4: "peak_f32", 2: "peak_f16"}  # by the bytes of an element


def require_positive(operation: str, **numbers: float) -> None:
    """Refuse numbers that are not positive and finite."""
    for what, value in numbers.items():
        if not 0 < value < inf:
            raise refusal("model-positive", operation=operation, what=what, value=value)


# -- FLOP for each byte


def naive_ratio() -> float:
    """Return FLOP/B of a product in which a thread computes one element (f32).

    Formula: for a step of K, the 32 lanes of a warp do 32 multiply-adds, 64 FLOP, and load one
    element of A, which all share, and 32 of B: 132 bytes. Source: S1:42-48.

    >>> round(naive_ratio(), 6), round(speed_at(2624, 0.48), 2)
    (0.484848, 1.23)
    """
    return 64 / (4 + 32 * 4)


def gemm_ratio(Mt: int, Nt: int, bytes: float = 4) -> float:
    """Return FLOP/B of a tile (Mt, Nt), whose operands are loaded once.

    Formula: 2*Mt*Nt*K / ((Mt+Nt)*K*bytes) = 2 / (bytes * (1/Mt + 1/Nt)); `bytes` of an element.
    Source: S1:52-67, for 4 bytes. Raises LayoutError for numbers that are not positive.

    >>> [round(gemm_ratio(*tile), 3) for tile in ((64, 64), (128, 64), (128, 128))]
    [16.0, 21.333, 32.0]
    """
    require_positive("gemm_ratio", Mt=Mt, Nt=Nt, bytes=bytes)
    return 2 / (bytes * (1 / Mt + 1 / Nt))


def bandwidth_need(peak: float, ratio: float) -> float:
    """Return the bandwidth (GiB/s) that a speed `peak` (TFLOPS) needs, at `ratio` FLOP/B.

    Formula: peak * 1024 / ratio. Source: S1:67-69.

    >>> bandwidth_need(14, gemm_ratio(64, 64))
    896.0
    """
    require_positive("bandwidth_need", peak=peak, ratio=ratio)
    return peak * KILO / ratio


def speed_at(bandwidth: float, ratio: float) -> float:
    """Return the speed (TFLOPS) that a bandwidth (GiB/s) allows at `ratio` FLOP/B.

    Formula: bandwidth * ratio / 1024, the inverse of `bandwidth_need`. Source: S1:48.

    >>> round(speed_at(974.3, gemm_ratio(32, 32)), 2)
    7.61
    """
    require_positive("speed_at", bandwidth=bandwidth, ratio=ratio)
    return bandwidth * ratio / KILO


def load_bandwidth(device: DeviceSpec, hit: float) -> float:
    """Return the bandwidth (GiB/s) of loads of which the part `hit` is in L2.

    Formula: P_l2 * hit + P_dram * (1 - hit), P_dram of reads. Source: S1:67-69, 318-332. It adds
    bandwidths; times would add to less (docs/model.md).

    >>> from cute_py.atoms.devices import V100
    >>> round(load_bandwidth(V100, 0.1), 1)
    974.3
    """
    if not 0 <= hit <= 1:
        raise refusal("model-hit", operation="load_bandwidth", value=hit)
    l2, dram = (device.known(x, "load_bandwidth") for x in ("l2", "dram_read"))
    return float(l2 * hit + dram * (1 - hit))


def required_hit_rate(
    device: DeviceSpec, peak: float, tile: tuple[int, int], bytes: float = 4
) -> float | None:
    """Return the L2 hit rate that a tile needs for a speed `peak` (TFLOPS); None if no hit rate is
    enough, as L2 is too slow.

    Formula: (need - P_dram) / (P_l2 - P_dram), at least 0; need is that of `bandwidth_need`.
    Source: S1:67-71.

    >>> from cute_py.atoms.devices import V100
    >>> round(required_hit_rate(V100, 14, (64, 64)), 4)
    0.0573
    >>> [round(required_hit_rate(V100, 112, (n, n), 2), 4) for n in (96, 128)]
    [0.872, 0.5461]
    >>> required_hit_rate(V100, 112, (64, 64), 2)
    """
    need = bandwidth_need(peak, gemm_ratio(*tile, bytes))
    l2, dram = (device.known(x, "required_hit_rate") for x in ("l2", "dram_read"))
    hit = float((need - dram) / (l2 - dram))
    return None if hit > 1 else max(hit, 0.0)


def smallest_tile(
    device: DeviceSpec, peak: float, bytes: float = 4, *, hit: float = 1.0
) -> tuple[int, int]:
    """Return the smallest square tile, of multiples of 32, for which L2 and DRAM are no limit.

    Args:
        device: the GPU.
        peak: the speed that is wanted (TFLOPS).
        bytes: of an element.
        hit: the L2 hit rate; 1: even if all of it were in L2.

    Formula: need(tile) <= P_ldg(hit), as of `bandwidth_need` and `load_bandwidth`. Source: S1:71,
    330.

    >>> from cute_py.atoms.devices import V100
    >>> smallest_tile(V100, 112, 2), smallest_tile(V100, 14, hit=0.1)
    ((96, 96), (64, 64))
    """
    require_positive("smallest_tile", peak=peak, bytes=bytes)
    least = peak * KILO / load_bandwidth(device, hit) * bytes  # of n, as the ratio is n / bytes
    n = STEP * max(ceil(least / STEP), 1)
    return n, n


# -- the wave


class WaveTraffic(NamedTuple):
    """What a wave of blocks asks for and what of it comes from DRAM (elements)."""

    a_requested: int
    b_requested: int
    a_dram: int
    b_dram: int

    @property
    def hit_rate(self) -> float:
        """The part that L2 delivers; 0 where a form counts more than what is asked for."""
        asked = self.a_requested + self.b_requested
        return max((asked - self.a_dram - self.b_dram) / asked, 0.0)


def requests(
    shape: tuple[int, int, int],
    tile: tuple[int, int],
    blocks: int,
    *,
    literal: bool = False,
    exact: bool = False,
) -> WaveTraffic:
    """Return what a wave of blocks requests, and reads from DRAM, along all of K.

    Args:
        shape: (M, N, K) of the product.
        tile: (Mt, Nt).
        blocks: that run at once, see `wave`; their order is along N first.
        literal: Wave_x = M/Mt, as S1 prints it: the rows of all of A, not of the wave.
        exact: the rows and columns that the blocks of the wave really have.

    Formula: A_req = blocks*Mt*K; B_req = blocks*Nt*K; A_dram = (Wave_x+1)*Mt*K; B_dram = N*K, with
    Wave_y = cdiv(N, Nt), Wave_x = blocks // Wave_y; exact: A_dram = cdiv(blocks, Wave_y)*Mt*K,
    B_dram = min(blocks, Wave_y)*Nt*K. Source: S1:302-313, with Wave_x as its text has it (Err 17).
    Raises LayoutError for both forms, and for numbers that are not positive.

    >>> requests((4096, 4096, 1), (128, 128), 160)
    WaveTraffic(a_requested=20480, b_requested=20480, a_dram=768, b_dram=4096)
    """
    if literal and exact:
        raise refusal("model-forms", operation="requests")
    (M, N, K), (Mt, Nt) = shape, tile
    require_positive("requests", M=M, N=N, K=K, Mt=Mt, Nt=Nt, blocks=blocks)
    along = wave(blocks, 1, N, Nt)
    rows = along.rows + 1
    a, b = rows * Mt, N
    if literal:
        a = (ceil_div(M, Mt) + 1) * Mt
    elif exact:
        a, b = ceil_div(blocks, along.columns) * Mt, min(blocks, along.columns) * Nt
    return WaveTraffic(blocks * Mt * K, blocks * Nt * K, a * K, b * K)


def l2_hit_rate(
    M: int,
    N: int,
    tile: tuple[int, int] = (128, 128),
    blocks: int = 160,
    *,
    literal: bool = False,
    exact: bool = False,
) -> float:
    """Return the L2 hit rate of the loads of a wave, between 0 and 1.

    Formula: 1 - (A_dram + B_dram) / (A_req + B_req) of `requests`, which has the arguments; K does
    not matter. Source: S1:314-317.

    >>> def forms(M, N):
    ...     others = l2_hit_rate(M, N), l2_hit_rate(M, N, exact=True)
    ...     return " / ".join(f"{x:.4f}" for x in (l2_hit_rate(M, N, literal=True), *others))
    >>> forms(4096, 4096), forms(8192, 8192)
    ('0.7969 / 0.8812 / 0.8844', '0.5969 / 0.7906 / 0.7906')
    >>> forms(16384, 16384), forms(4096, 20480)
    ('0.1969 / 0.5938 / 0.5938', '0.3969 / 0.4938 / 0.4969')
    """
    return requests((M, N, 1), tile, blocks, literal=literal, exact=exact).hit_rate


def rectangular_wave(Wm: int, Wn: int, Mt: int, Nt: int, *, literal: bool = False) -> float:
    """Return the L2 hit rate of a wave that covers a rectangle (Wm, Wn) of the result.

    Formula: 1 - (Wm+Wn) / ((Mt+Nt) * Wave_gpu), Wave_gpu = Wm*Wn / (Mt*Nt). `literal` is without
    the factor Mt*Nt, as S1 prints it (Err 18). Source: S1:334-363.

    >>> rectangular_wave(128, 20480, 128, 128)
    0.496875
    >>> round(rectangular_wave(128, 20480, 128, 128, literal=True), 5)
    0.99997
    """
    require_positive("rectangular_wave", Wm=Wm, Wn=Wn, Mt=Mt, Nt=Nt)
    asked = (Mt + Nt) * Wm * Wn
    return (asked - (Wm + Wn) * (1 if literal else Mt * Nt)) / asked


def flat_bound(Mt: int, Nt: int) -> float:
    """Return the L2 hit rate of a wave that is one row of tiles, as long as can be.

    Formula: Mt / (Mt + Nt), the limit of `rectangular_wave(Mt, Wn, Mt, Nt)`: A is loaded once, and
    each block loads its own B. Source: S1:355-363, which measures 52 % where 50 % is the bound.

    >>> flat_bound(128, 128)
    0.5
    """
    require_positive("flat_bound", Mt=Mt, Nt=Nt)
    return Mt / (Mt + Nt)


# -- the prediction


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of a product.

    Attributes:
        tflops: the speed (TFLOPS of 2^40).
        peak: what the multiply-adds alone allow.
        hit: the L2 hit rate of loads.
        load: the bandwidth of loads (GiB/s).
        need: what of it the speed needs.
        doubts: why the model does not hold here; none: it is valid.
    """

    tflops: float
    peak: float
    hit: float
    load: float
    need: float
    doubts: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether no assumption of the model is known to be wrong."""
        return not self.doubts

    @property
    def limit(self) -> str:
        """What the speed is limited by: "loads" or "multiply-adds"."""
        return "loads" if self.tflops < self.peak else "multiply-adds"

    def __str__(self) -> str:
        return "; ".join(
            [
                f"{self.tflops:.4g} TFLOPS of {self.peak:.4g}, limited by {self.limit}",
                f"L2 hit rate {self.hit:.3f}, loads need {self.need:.0f} of {self.load:.0f} GiB/s",
                *[f"not valid: {x}" for x in self.doubts],
            ]
        )


def predict(
    device: DeviceSpec,
    shape: tuple[int, int, int],
    tile: tuple[int, int],
    *,
    blocks_each: float = 1,
    bytes: float = 4,
    peak: float | None = None,
    hit: float | None = None,
) -> Prediction:
    """Return the speed of a product by what L2 and DRAM deliver.

    Args:
        device: the GPU.
        shape: (M, N, K).
        tile: (Mt, Nt).
        blocks_each: blocks that a multiprocessor runs at once; see `occupancy`. 1/2 where two load
            one tile together, as a cluster with multicast does.
        bytes: of an element of A and B.
        peak: of the multiply-adds (TFLOPS); None: that of f32 for 4 bytes, of f16 for 2.
        hit: the L2 hit rate; None: `l2_hit_rate`, the exact form.

    Formula: P_ldg = `load_bandwidth(hit)`; P_gemm = P_ldg * ratio where that is below the peak,
    else the peak. Source: S1:318-332. It is not valid, and says so, where A and B fit into L2
    together, where there is less than one wave of tiles, and where DRAM would deliver more than it
    can. S1 finds errors below 10 % where A and B exceed L2 five times. Raises LayoutError for
    numbers of the device that are not known, the peak for other `bytes` among them.

    >>> from cute_py.atoms.devices import V100
    >>> [round(predict(V100, (8192,) * 3, (n, n), hit=0.1).tflops, 2) for n in (64, 32)]
    [14, 7.61]
    >>> predict(V100, (1024, 1024, 512), (128, 128), blocks_each=2).doubts
    ('A and B fit into L2', '64 tiles are less than a wave of 160')
    """
    (M, N, K), (Mt, Nt) = shape, tile
    require_positive("predict", M=M, N=N, K=K, Mt=Mt, Nt=Nt, blocks_each=blocks_each, bytes=bytes)
    if peak is None:
        if bytes not in PEAKS:
            raise refusal("model-peak", operation="predict", bytes=bytes)
        peak = device.known(PEAKS[bytes], "predict")
    require_positive("predict", peak=peak)
    blocks = max(int(device.known("multiprocessors", "predict") * blocks_each), 1)
    tiles, ratio = ceil_div(M, Mt) * ceil_div(N, Nt), gemm_ratio(Mt, Nt, bytes)
    if hit is None:
        hit = l2_hit_rate(M, N, tile, min(blocks, tiles), exact=True)
    load = load_bandwidth(device, hit)
    tflops = min(speed_at(load, ratio), peak)
    need = bandwidth_need(tflops, ratio)
    dram, most = need * (1 - hit), device.known("dram_read", "predict")
    wrong = {
        "A and B fit into L2": (M + N) * K * bytes <= device.known("l2_bytes", "predict"),
        f"{tiles} tiles are less than a wave of {blocks}": tiles < blocks,
        f"DRAM would deliver {dram:.0f} GiB/s of its {most:.0f}": dram > most * (1 + 1e-9),
    }
    doubts = tuple([doubt for doubt, holds in wrong.items() if holds])
    return Prediction(tflops, peak, hit, load, need, doubts)
