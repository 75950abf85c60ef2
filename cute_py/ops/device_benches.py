"""What `measure` measures: a `Bench` is a kernel with arrays, what it should compute, and how much
it does. They come in a size for a GPU, or for the emulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cute_py.errors import refusal
from cute_py.kernels import copy as copies
from cute_py.kernels import device_rates as rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cute_py.dtypes.table import Array
    from cute_py.trace.kernel import Kernel

OPERATION = "cute.analysis.model.measure"


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        processors: blocks of the kernels that measure instructions, one a multiprocessor.
        blocks: for each of these, of those that move memory; all of them run at once.
        dram: parts of an array in DRAM, of 16 words for each thread.
        sets: (parts, rounds) of the arrays that are read from L2; odd, as XOR leaves these alone.
        rounds: of instructions.
        steps: of the chains of loads.
        apart: words between links in DRAM; in L2 one of 64 as many, at least 32.
    """

    processors: int
    blocks: int
    dram: int
    sets: tuple[tuple[int, int], ...]
    rounds: int
    steps: int
    apart: int


SMALL = Size(1, 1, 3, ((1, 3),), 2, 50, 32)  # for the emulator
SETS = ((1, 201), (3, 67), (5, 41), (7, 29), (9, 23), (11, 19), (13, 15), (17, 13), (41, 5))


def for_gpu(processors: int) -> Size:
    """Return the size for a GPU with so many multiprocessors: 1 GiB of an H200."""
    return Size(processors, 2, 247, SETS, 2000, 4096, 8192)


@dataclass(frozen=True)
class Bench:
    """A measurement.

    Attributes:
        row: its name; `ROWS` of device.py says which number of a `DeviceSpec` it is.
        kernel: that is launched.
        args: of the kernel: arrays of the host, whose copies it gets, numbers, compile-time values.
        result: which of the arguments is the result.
        wanted: what it should be, an array, or a function that judges it.
        work: what a launch does, in units of the row; of the clock of a block: what a block does.
        clocked: which argument has the cycles; None: the time of a launch counts.
        cold: whether L2 is emptied before.
    """

    row: str
    kernel: Kernel
    args: tuple[Any, ...]
    result: int
    wanted: Any
    work: float
    clocked: int | None = None
    cold: bool = False

    def require(self, found: Array) -> None:
        """Refuse a wrong result. Raises LayoutError."""
        right = self.wanted(found) if callable(self.wanted) else np.array_equal(found, self.wanted)
        if not right:
            raise refusal("device-wrong", operation=OPERATION, row=self.row)


# -- what is measured


def benches(size: Size, capability: tuple[int, int] = (9, 0)) -> Iterator[Bench]:
    """Yield the measurements in a size, for a GPU of a compute capability."""
    yield from _of_memory(size)
    yield from _of_latency(size)
    yield from _of_shared(size)
    yield from _of_instructions(size, capability)
    one = np.zeros(1, np.uint32)
    yield Bench("launch", rates.one_word, (one,), 0, np.ones(1, np.uint32), 1)


def _of_memory(size: Size) -> Iterator[Bench]:
    blocks = size.processors * size.blocks
    yield _reading("dram read", blocks, size.dram, 1)
    x = np.zeros(size.dram * _part(blocks), np.uint32)
    row = np.arange(7, 7 + rates.VECTOR, dtype=np.uint32)
    wanted = np.tile(row, len(x) // rates.VECTOR)
    yield Bench("dram write", rates.write_words, (x, 7, blocks), 0, wanted, x.nbytes)
    a = np.arange(len(x), dtype=np.uint32).reshape(-1, 1024)
    b = np.zeros_like(a)
    args = a, b, *copies.choose(a, b)
    yield Bench("dram copy", copies.copy_vectors, args, 1, a, 2 * a.nbytes)
    for parts, rounds in size.sets:
        yield _reading("l2 read", blocks, parts, rounds)


def _part(blocks: int) -> int:
    """Return the words that all threads of some blocks read at once."""
    return blocks * rates.THREADS * rates.VECTOR * rates.AHEAD


def _reading(row: str, blocks: int, parts: int, rounds: int) -> Bench:
    base = np.random.default_rng(0).integers(0, 1 << 32, _part(blocks), np.uint32)
    by_thread = base.reshape(rates.AHEAD, -1, rates.VECTOR)
    wanted = np.bitwise_xor.reduce(by_thread, (0, 2))  # parts and rounds are odd
    x, out = np.tile(base, parts), np.zeros(len(wanted), np.uint32)
    args = x, out, rounds, blocks
    return Bench(row, rates.read_words, args, 1, wanted, x.nbytes * rounds)


def links(count: int, apart: int, words: int) -> tuple[Array, Array]:
    """Return a table of links (s32), and the places in the order in which they lead from 0 through
    all `count` places that are multiples of `apart`, in random order.
    """
    places = np.concatenate([[0], np.random.default_rng(0).permutation(np.arange(1, count))])
    table = np.zeros(words, np.int32)
    table[places * apart] = np.roll(places, -1) * apart
    return table, places * apart


def _chain(
    row: str, kernel: Kernel, count: int, apart: int, words: int, steps: int, *more: Any
) -> Bench:
    """Return the measurement of a chain of loads: a load leads to the first place already."""
    table, order = links(count, apart, words)
    wanted = order[(steps + 1) % count : (steps + 1) % count + 1].astype(np.int32)
    args = table, np.full(1, -1, np.int32), np.zeros(1, np.int64), steps, *more
    return Bench(row, kernel, args, 1, wanted, steps, 2, cold=row == "dram latency")


def _of_latency(size: Size) -> Iterator[Bench]:
    steps, far = size.steps, size.apart
    near = max(far // 64, 32)
    # behind those of DRAM as many words again, which L2 holds instead when they have been copied
    yield _chain("dram latency", rates.chase, steps, far, 2 * steps * far, steps - 1, "cg")
    yield _chain("l2 latency", rates.chase, steps, near, steps * near, steps, "cg")
    # L1 does not hold the links of the first round
    yield _chain("l1 latency", rates.chase, 128, 32, 128 * 32, 16 * steps, "ca")
    yield _chain("shared latency", rates.chase_shared, rates.LINKS, 1, rates.LINKS, steps)


def _clocked(
    row: str, kernel: Kernel, size: Size, x: Any, wanted: Any, work: float, *more: Any
) -> Bench:
    """Return the measurement of instructions by a block on each multiprocessor."""
    threads = rates.THREADS if kernel in (rates.products, rates.warpgroup_products) else rates.MANY
    total, cycles = size.processors * threads, np.zeros(size.processors, np.int64)
    kind = np.uint32 if kernel is rates.read_shared else np.float32
    given = () if x is None else (x,)
    args = *given, np.zeros(total, kind), cycles, size.rounds, *more, size.processors
    return Bench(row, kernel, args, len(given), wanted, work * size.rounds, len(given) + 1)


def _of_shared(size: Size) -> Iterator[Bench]:
    squares = (np.arange(rates.WORDS, dtype=np.uint64) ** 2).astype(np.uint32)
    lane = np.arange(size.processors * rates.MANY) % 32
    per_part = rates.WORDS // rates.PARTS
    for ways in (1, 2, 4):
        wanted = np.zeros(len(lane), np.uint32)
        for k in range(rates.PARTS):
            times = len(range(k, size.rounds, rates.PARTS))
            for i in range(rates.CHAINS):
                wanted += squares[k * per_part + i * 32 * ways + lane * ways] * np.uint32(times)
        work = rates.MANY * rates.CHAINS * 4
        yield _clocked(f"shared {ways}-way", rates.read_shared, size, None, wanted, work, ways)


def _of_instructions(size: Size, capability: tuple[int, int]) -> Iterator[Bench]:
    each, ones, rounds = rates.CHAINS, np.ones(2, np.float32), size.rounds

    def exactly(value: float) -> Callable[[Array], bool]:
        return lambda found: bool((found == np.float32(value)).all())

    sums = exactly(each * 4 * rounds + sum(range(each)))
    work = 2 * 4 * each * rates.MANY
    yield _clocked("ffma", rates.multiply_add, size, ones, sums, work)
    long = size._replace(rounds=50 * rounds)
    more = exactly(each * 4 * long.rounds + sum(range(each)))
    yield _clocked("clock", rates.multiply_add, long, ones, more, 1)
    alone = (ones, np.zeros(32, np.float32), np.zeros(1, np.int64), rounds, 1, 1, 32)
    latency = exactly(4 * rounds)
    yield Bench("ffma latency", rates.multiply_add, alone, 1, latency, 4 * rounds, 2)
    x = np.linspace(0.5, 1.5, each).astype(np.float32)
    y = x.astype(np.float64)
    for _ in range(rounds):
        y = np.exp2(y - 1)
    close = partial(np.allclose, y.sum(), rtol=1e-4)
    yield _clocked("ex2", rates.exponentials, size, x, close, each * rates.MANY)
    half, (M, N, K) = np.ones(1, np.float16), rates.WIDE
    warps, groups = rates.THREADS // 32, rates.THREADS // 128
    work = 2 * 16 * 8 * 16 * each * warps
    yield _clocked("mma.sync", rates.products, size, half, exactly(16 * each * rounds), work)
    if capability == (9, 0):
        work = 2 * M * N * K * groups
        yield _clocked("wgmma", rates.warpgroup_products, size, half, exactly(K * rounds), work)
    counted, cycles = np.zeros(rates.THREADS, np.int32), np.zeros(1, np.int64)
    wanted = np.full(rates.THREADS, rounds, np.int32)
    yield Bench("barrier", rates.barriers, (counted, cycles, rounds), 0, wanted, rounds, 1)
