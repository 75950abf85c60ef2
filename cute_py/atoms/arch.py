"""GPU architectures: their names and order, and the limits of one multiprocessor (`DEVICES`) and
one GPU (`CHIPS`) of each.

Source: PTX ISA, "PTX Module Directives: .target". The suffix `a` marks features of one architecture
only; code without a suffix also runs on later architectures.
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.errors import refusal

ARCHS = (
    "sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90",
    "sm_100", "sm_103", "sm_110", "sm_120", "sm_121",
)  # fmt: skip

# CUTLASS's tags of architectures -> the least compute capability, and its names for groups of
# threads. Source: cutlass/arch/arch.h, cutlass/cutlass.h.
ARCH_TAGS = {
    "Sm50": 50, "Sm60": 60, "Sm61": 61, "Sm70": 70, "Sm72": 72,
    "Sm75": 75, "Sm80": 80, "Sm86": 86, "Sm89": 89, "Sm90": 90,
}  # fmt: skip
NumThreadsPerWarp = 32
NumThreadsPerWarpGroup = 128
NumWarpsPerWarpGroup = NumThreadsPerWarpGroup // NumThreadsPerWarp
NumThreadsPerHalfWarp = NumThreadsPerWarp // 2
NumThreadsPerQuad = 4
NumThreadsPerQuadPair = NumThreadsPerQuad * 2


def number(arch: object) -> int:
    """Return the number of an architecture: `sm_90a` is 90.

    Raises:
        LayoutError: not `sm_` and a number, with a suffix `a` or `f` or none.

    >>> number("sm_75"), number("sm_90a")
    (75, 90)
    """
    prefix, digits = (arch[:3], arch[3:].rstrip("af")) if isinstance(arch, str) else ("", "")
    if prefix != "sm_" or not digits.isdecimal():
        raise refusal("arch-name", operation="arch", arch=arch)
    return int(digits)


def since(arch: str) -> tuple[str, ...]:
    """Return `arch` and all later architectures; with a suffix, only `arch`.

    >>> since("sm_110"), since("sm_90a")
    (('sm_110', 'sm_120', 'sm_121'), ('sm_90a',))
    """
    if not arch[-1].isdecimal():
        return (arch,)
    return tuple(each for each in ARCHS if number(each) >= number(arch))


def only(*numbers: int) -> tuple[str, ...]:
    """Return the architectures of these numbers.

    >>> only(80, 86)
    ('sm_80', 'sm_86')
    """
    return tuple(f"sm_{each}" for each in numbers)


def between(first: str, last: str) -> tuple[str, ...]:
    """Return the architectures from `first` to `last`.

    >>> between("sm_86", "sm_89")
    ('sm_86', 'sm_87', 'sm_88', 'sm_89')
    """
    return tuple(arch for arch in since(first) if number(arch) <= number(last))


def holds(archs: tuple[str, ...], arch: str) -> bool:
    """Return whether code for one of `archs` runs on `arch`: `sm_90a` has all of `sm_90`.

    >>> holds(("sm_90",), "sm_90a"), holds(("sm_90a",), "sm_90")
    (True, False)
    """
    return arch in archs or f"sm_{number(arch)}" in archs


# -- limits of a GPU

KIB = 1024  # bytes


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


def _row(
    arch: str, warps: int, blocks: int, shared: int, block: int, reserved: int, unit: int
) -> DeviceLimits:
    """Return a row from kibibytes of shared memory."""
    return DeviceLimits(arch, warps, blocks, shared * KIB, block * KIB, reserved * KIB, unit)


# Sources. Warps, blocks, registers, shared memory: CCCL, cuda/__device/arch_traits.h (all rows, and
# the 1024 bytes that are reserved for each block from 8.0 on); CUDA Programming Guide 13, section
# 5.1.3 "Features and Technical Specifications" (7.5 on). Blocks, configurations of shared memory,
# units of allocation, schedulers: CUDA toolkit 13.0, cuda_occupancy.h,
# cudaOccMaxBlocksPerMultiprocessor, cudaOccAlignUpShmemSizeVoltaPlus,
# cudaOccSMemAllocationGranularity, cudaOccRegAllocationGranularity and
# cudaOccSubPartitionsPerMultiprocessor. tests/compile_only/test_occupancy.py compares with it.
DEVICES = {
    row.arch: row
    for row in (
        _row("sm_70", 64, 32, 96, 96, 0, 256),
        _row("sm_75", 32, 16, 64, 64, 0, 256),
        _row("sm_80", 64, 32, 164, 163, 1, 128),
        _row("sm_86", 48, 16, 100, 99, 1, 128),
        _row("sm_87", 48, 16, 164, 163, 1, 128),
        _row("sm_88", 48, 16, 100, 99, 1, 128),
        _row("sm_89", 48, 24, 100, 99, 1, 128),
        _row("sm_90", 64, 32, 228, 227, 1, 128),
        _row("sm_100", 64, 32, 228, 227, 1, 128),
        _row("sm_103", 64, 32, 228, 227, 1, 128),
        _row("sm_110", 48, 24, 228, 227, 1, 128),
        _row("sm_120", 48, 24, 100, 99, 1, 128),
        _row("sm_121", 48, 24, 100, 99, 1, 128),
    )
}


@dataclass(frozen=True, slots=True)
class Chip:
    """A typical GPU of an architecture.

    Attributes:
        arch: "sm_90".
        name: the names of GPUs with that many multiprocessors.
        multiprocessors: the number of multiprocessors.
    """

    arch: str
    name: str
    multiprocessors: int


# Sources, by architecture. 75: NVIDIA Turing whitepaper, T4. 80: NVIDIA A100 whitepaper. 86: A40
# data sheet, 84 RT cores, one a multiprocessor. 87: Jetson AGX Orin technical brief. 89: L40S data
# sheet, 142 RT cores. 90: NVIDIA H100 whitepaper, SXM5; the driver says so of an H200. 100: Chips
# and Cheese, "Nvidia's B200", 74 of each die. 110: forums.developer.nvidia.com, "CUDA core and
# Tensor Core counts for Jetson AGX Thor". 120: NVIDIA RTX Blackwell whitepaper. 121: DGX Spark user
# guide, 6144 cores, 128 a multiprocessor. No row: what NVIDIA says is of no single product (103),
# or nothing (88).
CHIPS = {
    chip.arch: chip
    for chip in (
        Chip("sm_75", "T4", 40),
        Chip("sm_80", "A100", 108),
        Chip("sm_86", "A40, RTX A6000", 84),
        Chip("sm_87", "Jetson AGX Orin 64GB", 16),
        Chip("sm_89", "L40S", 142),
        Chip("sm_90", "H100 SXM, H200", 132),
        Chip("sm_100", "B200", 148),
        Chip("sm_110", "Jetson AGX Thor", 20),
        Chip("sm_120", "RTX 5090", 170),
        Chip("sm_121", "DGX Spark", 48),
    )
}
