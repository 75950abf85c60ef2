"""Kernels that measure a GPU: bandwidths, latencies by pointer chasing, and rates of instructions.

Each writes a result that tells whether it did its work, so the emulator can run it too; `cycles`
are read from the clock of a multiprocessor, and 0 on the emulator. `ops.device` times them. Counts
are arguments at run time, so that compilers neither unroll nor shorten the loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import cute_py as cute
from cute_py.kernels.arrays import require, require_count, require_kind, require_threads

if TYPE_CHECKING:
    import numpy as np

Count = Annotated[cute.s32, cute.s32(min=1, max=1 << 30)]

VECTOR = 4  # elements of f32 or u32 of 16 bytes
AHEAD = 4  # vectors that a thread loads before it uses the first
CHAINS = 8  # of instructions that do not depend on each other, in a thread
THREADS, MANY = 256, 1024  # of a block
WORDS, PARTS = 8192, 8  # of shared memory, 4 bytes each; of it, what a thread reads in a round
LINKS = 1024  # in shared memory
ATOM = "SM80_16x8x16_F32F16F16F32_TN"
WIDE = (64, 256, 64)  # M, N, K of the wgmmas of a step


def nothing_passed(x: np.ndarray) -> np.ndarray:
    """Return what the emulator has for a clock: 0, of 64 bits."""
    return x.astype("int64") * 0


def now(after: cute.Tensor) -> cute.Tensor:
    """Return the clock (cycles, s64), read when the register `after` is known."""
    text = "{ .reg .b32 t; mov.b32 t, %1; mov.u64 %0, %%clock64; }"
    return cute.inline_ptx(text, "s64", after, emulate=nothing_passed)


def mark(cycles: cute.Tensor, start: cute.Tensor, last: cute.Tensor) -> None:
    """Store the cycles from `start` until `last` is known, of the first thread of a block."""
    taken = now(last) - start
    with cute.when(cute.thread_idx() == 0):
        cycles[cute.block_idx()] = taken


def require_clocked(
    operation: str, kind: str, out: cute.Tensor, cycles: cute.Tensor, blocks: int, threads: int
) -> None:
    """Refuse a result that has no element for each thread, and cycles without one for each block.
    Launch these.
    """
    cute.assume_shapes("T B", out, cycles)
    require_kind(operation, (kind,), out=out)
    require_kind(operation, ("s64",), cycles=cycles)
    require_count(operation, blocks=blocks)
    cute.assume(out.shape[0] == blocks * threads)
    cute.assume(cycles.shape[0] == blocks)
    cute.launch(grid=blocks, block=threads)


def require_operand(operation: str, kind: str, x: cute.Tensor, extent: int) -> None:
    """Refuse an operand of another type, or with other than `extent` elements."""
    cute.assume_shapes("N", x)
    require_kind(operation, (kind,), x=x)
    cute.assume(x.shape[0] == extent)


def require_links(
    operation: str, links: cute.Tensor, out: cute.Tensor, cycles: cute.Tensor
) -> None:
    """Refuse arrays of other types than those of a chain, and results of several elements."""
    cute.assume_shapes("N O C", links, out, cycles)
    require_kind(operation, ("s32",), links=links, out=out)
    require_kind(operation, ("s64",), cycles=cycles)
    cute.assume(out.shape[0] == 1)
    cute.assume(cycles.shape[0] == 1)


# -- memory


@cute.kernel
def read_words(x: cute.Tensor, out: cute.Tensor, rounds: Count, blocks: int = 1) -> None:
    """out[t] = the XOR of the words of x (u32) that thread t of all reads, `rounds` times.

    x has whole parts of 4*4*256 words for each block. Loads pass L1 by.
    """
    cute.assume_shapes("N T", x, out)
    require_kind("read_words", ("u32",), x=x, out=out)
    require_count("read_words", blocks=blocks)
    step = blocks * THREADS
    cute.assume(x.shape[0] % (step * VECTOR * AHEAD) == 0)
    cute.assume(out.shape[0] == step)
    cute.launch(grid=blocks, block=THREADS)
    t = cute.block_idx() * THREADS + cute.thread_idx()
    found, held = cute.rmem("u32", VECTOR), [cute.rmem("u32", VECTOR) for _ in range(AHEAD)]
    found.fill(0)
    for _round in cute.range(rounds):
        for part in cute.range(x.shape[0] // (step * VECTOR * AHEAD)):
            for i, each in enumerate(held):
                place = (part * AHEAD + i) * step + t
                cute.copy(cute.local_tile(x, (VECTOR,), (place,)), each, cache="cg")
            for each in held:
                found ^= each
    out[t] = found[0] ^ found[1] ^ found[2] ^ found[3]


@cute.kernel
def write_words(x: cute.Tensor, value: cute.u32, blocks: int = 1) -> None:
    """x[i] = value + i % 4 (u32), for whole parts of 4*256 words for each block."""
    cute.assume_shapes("N", x)
    require_kind("write_words", ("u32",), x=x)
    require_count("write_words", blocks=blocks)
    step = blocks * THREADS
    cute.assume(x.shape[0] % (step * VECTOR) == 0)
    cute.launch(grid=blocks, block=THREADS)
    t, held = cute.block_idx() * THREADS + cute.thread_idx(), cute.rmem("u32", VECTOR)
    for i in range(VECTOR):
        held[i] = value + i
    for part in cute.range(x.shape[0] // (step * VECTOR)):
        cute.copy(held, cute.local_tile(x, (VECTOR,), (part * step + t,)))


@cute.kernel
def chase(
    links: cute.Tensor, out: cute.Tensor, cycles: cute.Tensor, steps: Count, cache: str = "cg"
) -> None:
    """out[0] = where `steps` links (s32) lead from 0; one load waits for the other.

    A step is a load and its address, one multiply-add of integers.
    """
    require_links("chase", links, out, cycles)
    cute.launch(grid=1, block=1)
    place = cute.rmem("s32", 1)
    place[0] = links[0]
    start = now(place[0])
    for _step in cute.range(steps):
        i = cute.as_int(place[0], 0)
        cute.assume(i < links.shape[0])
        cute.copy(cute.local_tile(links, (1,), (i,)), place, cache=cache)
    mark(cycles, start, place[0])
    out[0] = place[0]


@cute.kernel
def chase_shared(links: cute.Tensor, out: cute.Tensor, cycles: cute.Tensor, steps: Count) -> None:
    """The same in shared memory, for 1024 links."""
    require_links("chase_shared", links, out, cycles)
    cute.assume(links.shape[0] == LINKS)
    cute.launch(grid=1, block=32)
    held, place, t = cute.smem("s32", LINKS), cute.rmem("s32", 1), cute.thread_idx()
    for i in range(LINKS // 32):
        held[i * 32 + t] = links[i * 32 + t]
    cute.syncthreads()
    place[0] = held[0]
    start = now(place[0])
    for _step in cute.range(steps):
        place[0] = held[cute.as_int(place[0], 0, LINKS - 1)]
    mark(cycles, start, place[0])
    with cute.when(t == 0):
        out[0] = place[0]


@cute.kernel
def read_shared(
    out: cute.Tensor, cycles: cute.Tensor, rounds: Count, ways: int = 1, blocks: int = 1
) -> None:
    """out[t] = the sum (u32) of the words i of shared memory, each i*i, that thread t reads: 8 a
    round, `ways` words of a bank at once in each warp.
    """
    rule = "1 to 4, for which a round stays in its part"
    require(1 <= ways <= 4, "read_shared", "ways", ways, rule)
    require_clocked("read_shared", "u32", out, cycles, blocks, MANY)
    words, t = cute.smem("u32", WORDS), cute.thread_idx()
    for i in range(WORDS // MANY):
        words[i * MANY + t] = ((i * MANY + t) * (i * MANY + t)).to("u32")
    found = cute.rmem("u32", 1)
    found.fill(0)
    cute.syncthreads()
    start = now(found[0])
    for k in cute.range(rounds):
        for i in range(CHAINS):
            found[0] = (
                found[0] + words[k % PARTS * (WORDS // PARTS) + i * 32 * ways + t % 32 * ways]
            )
    cute.syncthreads()
    mark(cycles, start, found[0])
    out[cute.block_idx() * MANY + t] = found[0]


# -- instructions


@cute.kernel
def multiply_add(
    x: cute.Tensor,
    out: cute.Tensor,
    cycles: cute.Tensor,
    rounds: Count,
    blocks: int = 1,
    count: int = CHAINS,
    threads: int = MANY,
) -> None:
    """out[t] = the sum of `count` chains, of 4*rounds times y = y*x[0] + x[1] (f32), from i of
    chain i.
    """
    require_operand("multiply_add", "f32", x, 2)
    require(1 <= count <= 64, "multiply_add", "count", count, "1 to 64 chains")
    require_threads("multiply_add", threads)
    require_clocked("multiply_add", "f32", out, cycles, blocks, threads)
    a, b, t = x[0], x[1], cute.thread_idx()
    chains = [cute.rmem("f32", 1) for _ in range(count)]
    for i, each in enumerate(chains):
        each.fill(i)
    cute.syncthreads()
    start = now(a)
    for _round in cute.range(rounds):
        for _again in range(4):
            for each in chains:
                each[0] = cute.fma(each[0], a, b)
    total = sum((each[0] for each in chains[1:]), chains[0][0])
    cute.syncthreads()
    mark(cycles, start, total)
    out[cute.block_idx() * threads + t] = total


@cute.kernel
def exponentials(
    x: cute.Tensor, out: cute.Tensor, cycles: cute.Tensor, rounds: Count, blocks: int = 1
) -> None:
    """out[t] = the sum of 8 chains of `rounds` times y = 2^(y - 1) (f32) from x[i], which lead
    from below 2 to 1.
    """
    require_operand("exponentials", "f32", x, CHAINS)
    require_clocked("exponentials", "f32", out, cycles, blocks, MANY)
    chains, t = [cute.rmem("f32", 1) for _ in range(CHAINS)], cute.thread_idx()
    for i, each in enumerate(chains):
        each[0] = x[i]
    cute.syncthreads()
    start = now(chains[0][0])
    for _round in cute.range(rounds):
        for each in chains:
            each[0] = cute.exp2(each[0] - 1.0)
    total = sum((each[0] for each in chains[1:]), chains[0][0])
    cute.syncthreads()
    mark(cycles, start, total)
    out[cute.block_idx() * MANY + t] = total


@cute.kernel
def products(
    x: cute.Tensor, out: cute.Tensor, cycles: cute.Tensor, rounds: Count, blocks: int = 1
) -> None:
    """out[t] = 8 * 16 * rounds * x[0]^2, of products of f16 by mma.sync in 8 tiles of 16x8."""
    require_operand("products", "f16", x, 1)
    require_clocked("products", "f32", out, cycles, blocks, THREADS)
    mma, t = cute.make_tiled_mma(ATOM), cute.thread_idx()
    a = cute.rmem("f16", mma.partition_shape_A((16, 16)))  # (MMA,1,1)
    b = cute.rmem("f16", mma.partition_shape_B((8, 16)))  # (MMA,1,1)
    sums = [cute.rmem("f32", mma.partition_shape_C((16, 8))) for _ in range(CHAINS)]  # (MMA,1,1)
    for each in (a, b):
        each.fill(x[0])
    for each in sums:
        each.fill(0)
    cute.syncthreads()
    start = now(sums[0][0])
    for _round in cute.range(rounds):
        for each in sums:
            cute.gemm(mma, each, a, b)
    total = sum((each[0] for each in sums[1:]), sums[0][0])
    cute.syncthreads()
    mark(cycles, start, total)
    out[cute.block_idx() * THREADS + t] = total


@cute.kernel
def warpgroup_products(
    x: cute.Tensor, out: cute.Tensor, cycles: cute.Tensor, rounds: Count, blocks: int = 1
) -> None:
    """out[t] = 64 * rounds * x[0]^2, of products of f16 by wgmma: 64x256x64 a warpgroup."""
    require_operand("warpgroup_products", "f16", x, 1)
    require_clocked("warpgroup_products", "f32", out, cycles, blocks, THREADS)
    (M, N, K), t = WIDE, cute.thread_idx()
    mma = cute.make_tiled_mma(f"SM90_{M}x{N}x16_F32F16F16_SS")
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    sA = cute.smem("f16", cute.tile_to_shape(atom, (M, K)), 1024)  # (M,K)
    sB = cute.smem("f16", cute.tile_to_shape(atom, (N, K)), 1024)  # (N,K)
    for tile, rows in ((sA, M), (sB, N)):
        for i in cute.range(rows * K // THREADS):
            at = i * THREADS + t
            tile[at // K, at % K] = x[0]
    cute.fence_proxy_async()
    cute.syncthreads()
    thread = mma.get_slice(t % 128)
    tCsA, tCsB = thread.partition_A(sA), thread.partition_B(sB)  # (MMA,MMA_M or _N,MMA_K)
    sums = cute.rmem("f32", mma.partition_shape_C((M, N)))  # (MMA,MMA_M,MMA_N)
    sums.fill(0)
    start = now(sums[0])
    for _round in cute.range(rounds):
        cute.warpgroup_fence()
        cute.warpgroup_gemm(mma, sums, tCsA, tCsB)
        cute.warpgroup_commit()
        cute.warpgroup_wait(1)  # one is in flight
    cute.warpgroup_wait(0)
    cute.syncthreads()
    mark(cycles, start, sums[0])
    out[cute.block_idx() * THREADS + t] = sums[0]


@cute.kernel
def barriers(out: cute.Tensor, cycles: cute.Tensor, rounds: Count) -> None:
    """out[t] = how many barriers of 256 threads there were: `rounds`."""
    require_clocked("barriers", "s32", out, cycles, 1, THREADS)
    done = cute.rmem("s32", 1)
    done.fill(0)
    cute.syncthreads()
    start = now(done[0])
    for _round in cute.range(rounds):
        cute.syncthreads()
        done[0] = done[0] + 1
    mark(cycles, start, done[0])
    out[cute.thread_idx()] = done[0]


@cute.kernel
def one_word(out: cute.Tensor) -> None:
    """out[0] = 1 (u32): a launch and hardly more."""
    cute.assume_shapes("N", out)
    require_kind("one_word", ("u32",), out=out)
    cute.launch(grid=1, block=32)
    with cute.when(cute.thread_idx() == 0):
        out[0] = cute.rmem("u32", 1).fill(1)
