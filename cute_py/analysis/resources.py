"""`registers`, `occupancy` and `wave`: the registers of a thread, the resident blocks of a
multiprocessor, and the blocks of a grid that run at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.atoms.arch import DEVICES as DEVICES
from cute_py.atoms.arch import number
from cute_py.atoms.devices import DeviceLimits as DeviceLimits
from cute_py.errors import refusal
from cute_py.layout.tuples import ceil_div, product
from cute_py.tiled.tiled_mma import TiledMMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.types import IntTuple

WARP = 32  # threads


MAX_THREADS = 1024  # per block
MAX_REGISTERS = 255  # per thread


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The resident blocks of a kernel on one multiprocessor.

    Attributes:
        arch: the architecture.
        blocks: resident blocks.
        warps: resident warps.
        limiter: the limiting resource: "warps", "registers", "shared memory" or "blocks".
        limits: (resource, blocks that it allows), for each of them.
        fraction: resident warps divided by the most warps.
    """

    arch: str
    blocks: int
    warps: int
    limiter: str
    limits: tuple[tuple[str, int], ...]
    fraction: float

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {count}" for name, count in self.limits)
        return (
            f"{self.arch}: {self.blocks} blocks, {self.warps} warps ({self.fraction:.1%}), "
            f"limited by {self.limiter} (blocks by limit: {listed})"
        )


def occupancy(arch: str, threads: int, registers: int, shared: int = 0) -> Occupancy:
    """Return the number of resident blocks on one multiprocessor.

    Args:
        arch: a row of `DEVICES`, "sm_70" to "sm_121"; a suffix `a` is allowed.
        threads: threads per block.
        registers: registers per thread (32 bits each).
        shared: shared memory per block, static and dynamic (bytes).

    Law: the registers of a warp are rounded up to 256; each of 4 schedulers has a quarter of the
    registers, and a block must fit as if its warps filled them evenly. Raises LayoutError for an
    architecture without a row, and for a block that does not fit a multiprocessor.
    Source: CUDA toolkit 13.0, cuda_occupancy.h, cudaOccMaxActiveBlocksPerMultiprocessor with the
    largest carveout of shared memory.

    >>> print(occupancy("sm_80", threads=256, registers=128, shared=48 * 1024))
    sm_80: 2 blocks, 16 warps (25.0%), limited by registers (blocks by limit: warps 8, \
registers 2, shared memory 3, blocks 32)
    """
    device = _device(arch)
    _require_range("threads of a block", threads, 1, MAX_THREADS)
    _require_range("registers of a thread", registers, 1, MAX_REGISTERS)
    _require_range("bytes of shared memory of a block", shared, 0, device.shared_block)
    warps = ceil_div(threads, WARP)
    of_warp = -(-registers * WARP // device.register_unit) * device.register_unit
    checked = of_warp * -(-warps // device.schedulers) * device.schedulers
    _require_range("registers of a block, as allocated", checked, 1, device.registers)
    limits = {
        "warps": device.warps // warps,
        "registers": device.registers // device.schedulers // of_warp * device.schedulers // warps,
        "shared memory": _blocks_by_shared(device, shared),
        "blocks": device.blocks,
    }
    blocks = min(limits.values())
    limiter = min(limits, key=lambda name: limits[name])
    fraction = blocks * warps / device.warps
    return Occupancy(arch, blocks, blocks * warps, limiter, tuple(limits.items()), fraction)


def _device(arch: str) -> DeviceLimits:
    found = DEVICES.get(f"sm_{number(arch)}")
    if found is None:
        raise refusal("occupancy-arch", operation="occupancy", arch=arch, known=", ".join(DEVICES))
    return found


def _require_range(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise refusal(
            "occupancy-range", operation="occupancy", what=what, value=value, least=least, most=most
        )


def _blocks_by_shared(device: DeviceLimits, shared: int) -> int:
    of_block = -(-(shared + device.shared_reserved) // device.shared_unit) * device.shared_unit
    return device.shared // of_block if of_block else device.blocks


# -- registers of a tiled MMA


@dataclass(frozen=True, slots=True)
class Registers:
    """The 32-bit registers of one thread for its fragments.

    Attributes:
        a: registers of A; 0 if the instruction reads it from shared memory.
        b: the same for B.
        c: registers of C, the accumulators.
    """

    a: int
    b: int
    c: int

    @property
    def total(self) -> int:
        """The registers of all three."""
        return self.a + self.b + self.c

    def __str__(self) -> str:
        return f"A {self.a} + B {self.b} + C {self.c} = {self.total} registers of a thread"


def registers(tiled_mma: TiledMMA, tile: IntTuple = None) -> Registers:
    """Return the 32-bit registers per thread for the fragments of A, B and C.

    Args:
        tiled_mma: a TiledMMA.
        tile: (M, N, K), multiples of its tile; K is the part that is in registers at a time.
            None: its tile.

    Law: values of a thread times bits, in whole registers. Raises LayoutError if the tile does not
    divide.

    >>> from cute_py.tiled.tiled_mma import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> print(registers(mma, (128, 128, 16)))
    A 16 + B 16 + C 128 = 160 registers of a thread
    """
    m, n, k = tiled_mma.tile_shape if tile is None else tile
    atom = tiled_mma.atom
    counts = [
        _registers(tiled_mma.partition_shape_A((m, k)), atom.a_type.bits, atom.a_memory),
        _registers(tiled_mma.partition_shape_B((n, k)), atom.b_type.bits, atom.b_memory),
        _registers(tiled_mma.partition_shape_C((m, n)), atom.c_type.bits, atom.c_memory),
    ]
    return Registers(*counts)


def _registers(shape: IntTuple, bits: int, memory: str) -> int:
    return -(-product(shape) * bits // 32) if memory == "rmem" else 0


# -- waves


@dataclass(frozen=True, slots=True)
class Wave:
    """The blocks that run at once, in a grid whose order is along N first.

    Attributes:
        blocks: resident blocks of the whole device.
        rows: rows of the grid (along M) that they fill.
        columns: blocks along N.
        rest: blocks in one more row.
    """

    blocks: int
    rows: int
    columns: int
    rest: int


def wave(multiprocessors: int, blocks_each: int, n: int, tile_n: int) -> Wave:
    """Return the part of a grid of output tiles that runs at once.

    Args:
        multiprocessors: multiprocessors of the device.
        blocks_each: resident blocks per multiprocessor; see `occupancy`.
        n: extent of the output along N (elements).
        tile_n: extent of a block's tile along N (elements).

    Law: rows * columns + rest == multiprocessors * blocks_each.

    >>> wave(80, 2, 4096, 128)
    Wave(blocks=160, rows=5, columns=32, rest=0)
    """
    blocks, columns = multiprocessors * blocks_each, ceil_div(n, tile_n)
    return Wave(blocks, blocks // columns, columns, blocks % columns)
