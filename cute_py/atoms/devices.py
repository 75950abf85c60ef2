"""`DeviceSpec`: all that is known of a GPU in one record: its limits, its rates, and their sources.

`atoms.arch` shows the limits (`DEVICES`) and the numbers of multiprocessors (`CHIPS`) by
architecture; the rule that chooses tiles for Hopper takes its constants of the device from `H200`;
`cute.analysis.model` computes with the rates. A rate that no source gives is None.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KIB = 1024  # bytes
SECTOR = 32  # bytes of memory and of L2 that are read together, on all architectures


def gib(bytes_per_second: float) -> float:
    """Return a bandwidth in GiB/s: data sheets count 10^9 bytes.

    >>> round(gib(4800e9))
    4470
    """
    return bytes_per_second / 2**30


def tera(flop_per_second: float) -> float:
    """Return a speed in TFLOPS of 2^40, which fit GiB/s; data sheets count 10^12.

    >>> round(tera(66.9e12), 2)
    60.85
    """
    return flop_per_second / 2**40


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """The limits of one multiprocessor of an architecture.

    Attributes:
        arch: "sm_90".
        warps: the most resident warps.
        blocks: the most resident blocks.
        shared: shared memory for all blocks together (bytes).
        shared_block: the most shared memory of one block (bytes).
        shared_reserved: shared memory that the system reserves for each block (bytes).
        shared_unit: allocation granularity of a block's shared memory (bytes).
        registers: 32-bit registers.
        register_unit: allocation granularity of a warp's registers.
        schedulers: partitions of the multiprocessor, each with its share of warps and registers.
    """

    arch: str
    warps: int
    blocks: int
    shared: int
    shared_block: int
    shared_reserved: int
    shared_unit: int
    registers: int = 65536
    register_unit: int = 256
    schedulers: int = 4


@dataclass(frozen=True, slots=True)
class Fitted:
    """What the rule for tiles takes for the device: fitted with its other constants, so that the
    estimates of all products together are near the times; none of them is a measurement.

    Attributes:
        launch: of a kernel (microseconds).
        latency: from a load to its arrival, in the ring of a product (microseconds).
        memory: read and written (bytes a microsecond).
        clusters: blocks of a cluster -> multiprocessors that such clusters can use, and how many of
            them work before both of a pair do; others: the fewest of these.
    """

    launch: float
    latency: float
    memory: float
    clusters: tuple[tuple[int, tuple[int, int]], ...]


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A GPU: limits of its architecture, and rates that are measured or published.

    Bandwidths are in GiB/s (2^30 bytes), speeds in TFLOPS of 2^40, so that TFLOPS * 1024 / (FLOP/B)
    is GiB/s. Latencies are in cycles. A number that is None is not known; `known` says so.

    Attributes:
        name: of the product; "" for an architecture without a usual one.
        limits: of a multiprocessor.
        multiprocessors: how many.
        peak_f32, peak_f16: multiply-adds of f32, and of f16 in tensor cores without sparsity.
        clock: of the multiprocessors (GHz).
        l2_bytes: size of the L2 cache.
        l2, dram_read, dram_write, dram_copy: bandwidths; of a copy, what is read and written.
        l1_latency, l2_latency, shared_latency: of a load.
        dram_latency: the same, from the least to the most.
        shared_bandwidth: of shared memory, of a multiprocessor (bytes a cycle).
        lsu_ipc, ffma_ipc: loads, and multiply-adds, of a scheduler (warp instructions a cycle).
        ffma_latency: of a multiply-add.
        ffma_rate, mma_rate, wgmma_rate: of a multiprocessor (FLOP a cycle): multiply-adds of f32,
            and products of f16 by mma.sync and by wgmma.
        ex2_rate: of a multiprocessor (ex2 a cycle).
        barrier: a __syncthreads of 256 threads (cycles).
        launch: from a launch to the next one in a CUDA graph (microseconds).
        fitted: what the rule for tiles takes.
        sources: (attributes, source) of these numbers; the names are separated by spaces.

    Raises LayoutError for a number that is not positive.

    >>> V100.l2, V100.dram_read, V100.l2_latency
    (2624, 791, 194)
    >>> dict(H200.sources)["dram_copy"]
    'benchmarks/results/gpu.json, copy-1GiB'
    """

    name: str
    limits: DeviceLimits
    multiprocessors: int | None = None
    peak_f32: float | None = None
    peak_f16: float | None = None
    clock: float | None = None
    l2_bytes: int | None = None
    l2: float | None = None
    dram_read: float | None = None
    dram_write: float | None = None
    dram_copy: float | None = None
    l1_latency: float | None = None
    l2_latency: float | None = None
    shared_latency: float | None = None
    dram_latency: tuple[float, float] | None = None
    shared_bandwidth: float | None = None
    lsu_ipc: float | None = None
    ffma_ipc: float | None = None
    ffma_latency: float | None = None
    ffma_rate: float | None = None
    mma_rate: float | None = None
    wgmma_rate: float | None = None
    ex2_rate: float | None = None
    barrier: float | None = None
    launch: float | None = None
    fitted: Fitted | None = None
    sources: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for each in RATES:
            value = getattr(self, each)
            for x in value if isinstance(value, tuple) else (value,):
                if x is not None and not x > 0:
                    raise refusal(
                        "device-rate", operation="DeviceSpec", name=self.name, what=each, value=x
                    )

    def known(self, what: str, operation: str) -> Any:
        """Return a number of this device by its name. Raises LayoutError if it is not known."""
        found = getattr(self, what)
        if found is None:
            raise refusal("device-unknown", operation=operation, name=self.name, what=what)
        return found


RATES = tuple(
    x.name for x in fields(DeviceSpec) if x.name not in ("name", "limits", "fitted", "sources")
)


def _limits(
    arch: str, warps: int, blocks: int, shared: int, block: int, reserved: int, unit: int
) -> DeviceLimits:
    """Return limits from kibibytes of shared memory."""
    return DeviceLimits(arch, warps, blocks, shared * KIB, block * KIB, reserved * KIB, unit)


# Sources of limits. Warps, blocks, registers, shared memory: CCCL, cuda/__device/arch_traits.h (all
# rows, and the 1024 bytes that are reserved for each block from 8.0 on); CUDA Programming Guide 13,
# section 5.1.3 "Features and Technical Specifications" (7.5 on). Blocks, configurations of shared
# memory, units of allocation, schedulers: CUDA toolkit 13.0, cuda_occupancy.h,
# cudaOccMaxBlocksPerMultiprocessor, cudaOccAlignUpShmemSizeVoltaPlus,
# cudaOccSMemAllocationGranularity, cudaOccRegAllocationGranularity and
# cudaOccSubPartitionsPerMultiprocessor. tests/compile_only/test_occupancy.py compares with it.

_ZHIHU = "S1, the analysis of GEMM on V100 that docs/model.md works through"
_SASS = "Jia et al., Dissecting the NVIDIA Volta GPU Architecture, arXiv 1804.06826"
_HOPPER = "Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU, arXiv 2402.13499"
_GUIDE = "CUDA Programming Guide, Throughput of native arithmetic instructions"

V100 = DeviceSpec(
    "V100",
    _limits("sm_70", 64, 32, 96, 96, 0, 256),
    multiprocessors=80,
    peak_f32=14,
    peak_f16=112,
    l2_bytes=6 << 20,
    l2=2624,
    dram_read=791,
    dram_write=836,
    dram_copy=764,
    l1_latency=28,
    l2_latency=194,
    shared_latency=19,
    dram_latency=(400, 440),
    shared_bandwidth=115.35,
    lsu_ipc=0.25,
    ffma_ipc=0.5,
    ffma_latency=4,
    sources=(
        ("peak_f32 peak_f16 l2 dram_read dram_write dram_copy", _ZHIHU),
        ("l1_latency l2_latency shared_latency dram_latency", _ZHIHU),
        ("shared_bandwidth lsu_ipc ffma_ipc", _ZHIHU),
        ("multiprocessors l2_bytes", "NVIDIA V100 whitepaper"),
        ("ffma_latency", _SASS),
    ),
)
A100 = DeviceSpec(
    "A100",
    _limits("sm_80", 64, 32, 164, 163, 1, 128),
    multiprocessors=108,
    peak_f32=tera(19.5e12),
    peak_f16=tera(312e12),
    clock=1.41,
    l2_bytes=40 << 20,
    l2=gib(5120 * 1.41e9),
    dram_read=gib(1555e9),
    l1_latency=37.9,
    l2_latency=261.5,
    shared_latency=29.0,
    dram_latency=(466.3, 466.3),
    shared_bandwidth=128,
    lsu_ipc=0.25,
    ffma_ipc=0.5,
    ffma_latency=4,
    sources=(
        ("multiprocessors peak_f32 peak_f16 clock l2_bytes", "NVIDIA A100 whitepaper"),
        ("l2", "NVIDIA A100 whitepaper: 5120 bytes a cycle, at 1.41 GHz; a peak"),
        ("dram_read", "NVIDIA A100 40GB data sheet, 1555 GB/s; a peak"),
        ("l1_latency l2_latency shared_latency dram_latency", _HOPPER),
        ("shared_bandwidth", "NVIDIA A100 whitepaper: 32 banks of 4 bytes"),
        ("lsu_ipc ffma_ipc", f"{_GUIDE}: 16 lanes of FP32, and 32 for loads of 4 schedulers"),
        ("ffma_latency", f"{_SASS}; unchanged since"),
    ),
)
H100 = DeviceSpec(
    "H100 SXM",
    _limits("sm_90", 64, 32, 228, 227, 1, 128),
    multiprocessors=132,
    peak_f32=tera(66.9e12),
    peak_f16=tera(989.5e12),
    clock=1.98,
    l2_bytes=50 << 20,
    l2=gib(39 * 132 * 1.83e9),
    dram_read=gib(3350e9),
    l1_latency=40.7,
    l2_latency=263.0,
    shared_latency=29.0,
    dram_latency=(478.8, 478.8),
    shared_bandwidth=128,
    lsu_ipc=0.25,
    ffma_ipc=1,
    ffma_latency=4,
    sources=(
        ("multiprocessors l2_bytes", "NVIDIA H100 whitepaper, SXM5"),
        ("peak_f32 peak_f16 clock", "NVIDIA H100 SXM data sheet; 1.98 GHz by nvidia-smi"),
        ("l2", f"{_HOPPER}: 39 bytes a cycle for each multiprocessor, at 1.83 GHz"),
        ("dram_read", "NVIDIA H100 SXM data sheet, 3350 GB/s; a peak"),
        ("l1_latency l2_latency shared_latency dram_latency", f"{_HOPPER}, H100 PCIe"),
        ("shared_bandwidth", "NVIDIA H100 whitepaper: 32 banks of 4 bytes"),
        ("lsu_ipc ffma_ipc", f"{_GUIDE}: 32 lanes of FP32, and 32 for loads of 4 schedulers"),
        ("ffma_latency", f"{_SASS}; unchanged since"),
    ),
)
HOPPER = Fitted(
    launch=1.44,
    latency=0.893,
    memory=4.39e6,
    clusters=((1, (132, 66)), (2, (132, 66)), (3, (117, 57)), (6, (102, 48))),
)
H200 = replace(
    H100,
    name="H200",
    l2_bytes=60 << 20,
    dram_read=gib(4.45e12),
    dram_copy=gib(4.14e12),
    dram_write=3995,
    dram_latency=(664, 664),
    ffma_rate=235.9,
    mma_rate=2219,
    wgmma_rate=4095,
    ex2_rate=15.9,
    barrier=30.6,
    launch=0.92,
    fitted=HOPPER,
    sources=(
        *[row for row in H100.sources if not row[0].startswith(("dram", "multi", "l1"))],
        ("multiprocessors l2_bytes", "the driver, of an H200"),
        ("l1_latency l2_latency shared_latency", f"{_HOPPER}, H100 PCIe: the same multiprocessors"),
        ("dram_read", "benchmarks/results/gpu.json, sum-f32"),
        ("dram_copy", "benchmarks/results/gpu.json, copy-1GiB"),
        ("dram_write dram_latency barrier launch", "benchmarks/results/device_model.json"),
        ("ffma_rate mma_rate wgmma_rate ex2_rate", "benchmarks/results/device_model.json"),
        ("fitted", "docs/measurements.md"),
    ),
)

# Sources of the others, by architecture. 75: NVIDIA Turing whitepaper, T4. 86: A40 data sheet, 84
# RT cores, one a multiprocessor. 87: Jetson AGX Orin technical brief. 89: L40S data sheet, 142 RT
# cores. 100: Chips and Cheese, "Nvidia's B200", 74 of each die. 110: forums.developer.nvidia.com,
# "CUDA core and Tensor Core counts for Jetson AGX Thor". 120: NVIDIA RTX Blackwell whitepaper. 121:
# DGX Spark user guide, 6144 cores, 128 a multiprocessor. Without a number: what NVIDIA says is of
# no single product (103), or nothing (88).
SPECS = (
    V100,
    DeviceSpec("T4", _limits("sm_75", 32, 16, 64, 64, 0, 256), 40),
    A100,
    DeviceSpec("A40, RTX A6000", _limits("sm_86", 48, 16, 100, 99, 1, 128), 84),
    DeviceSpec("Jetson AGX Orin 64GB", _limits("sm_87", 48, 16, 164, 163, 1, 128), 16),
    DeviceSpec("", _limits("sm_88", 48, 16, 100, 99, 1, 128)),
    DeviceSpec("L40S", _limits("sm_89", 48, 24, 100, 99, 1, 128), 142),
    H100,
    H200,
    DeviceSpec("B200", _limits("sm_100", 64, 32, 228, 227, 1, 128), 148),
    DeviceSpec("", _limits("sm_103", 64, 32, 228, 227, 1, 128)),
    DeviceSpec("Jetson AGX Thor", _limits("sm_110", 48, 24, 228, 227, 1, 128), 20),
    DeviceSpec("RTX 5090", _limits("sm_120", 48, 24, 100, 99, 1, 128), 170),
    DeviceSpec("DGX Spark", _limits("sm_121", 48, 24, 100, 99, 1, 128), 48),
)
