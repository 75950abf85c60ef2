"""Loops, branches, variables, integers and waiting: kernels whose result is the emulator's."""

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.plan import ops
from tests.coverage import covers
from tests.gpu.harness import DRY, both_kernels, drawn, require_any, torch

require_any()


def equal(kernel, *args):
    for got, wanted in both_kernels(kernel, *args):
        np.testing.assert_array_equal(got, wanted)


@cute.kernel
def loops(x, out, n: cute.s32):
    cute.launch(grid=2, block=64)
    tid = cute.block_idx() * 64 + cute.thread_idx()
    held, count = cute.rmem("s32", 2), cute.var(0)
    held.fill(0)
    for k in cute.range(n):
        held += x[k] * 3
        for j in cute.range(k, 0, -2):
            with cute.when((tid + j) % 3 == 0):
                held[1] = held[1] + x[j]
            with cute.otherwise():
                held[0] = held[0] - 1
    for k in cute.range(tid, 500, 7):
        cute.break_if(k * k > 5000 + tid)
        count.set(count.get() + k)
    with cute.while_(lambda: count.get() > 40):
        count.set(count.get() // 2)
        cute.break_if(count.get() % 17 == 5)
    out[tid, 0], out[tid, 1] = held[0], held[1]
    out[tid, 2] = count.get()
    cute.return_if(tid > 99)
    out[tid, 3] = tid


@covers(ops.Loop, ops.While, ops.If, ops.Leave, ops.Set)
def test_loops_and_branches():
    x = np.random.default_rng(0).integers(-99, 99, 40).astype(np.int32)
    out = np.zeros((128, 4), np.int32)
    equal(loops, x, out, 23)
    equal(loops, x, out, 0)


@cute.kernel
def integers(out, n: cute.s32, m: cute.s64):
    cute.launch(grid=cute.ceil_div(n, 64), block=64)
    i = cute.block_idx() * 64 + cute.thread_idx()
    values = [
        (i - 70) // 3,
        (i - 70) % 5,
        i * n - 3,
        (i - 70) // out.shape[1],
        i & 12,
        i | 3,
        i ^ 21,
        i << 3,
        (i - 70) >> 2,
        cute.min_(i, n - 40),
        cute.ceil_div(i, 7),
        m // 1000 + i,
        (i * 3 - 70) // n,
        (i * 3 - 70) % (40 - n),
        m // (n - 150),
        cute.where(i < 7, m, i) + cute.max_(i, n - 40),
    ]
    for k, value in enumerate(values):
        with cute.when(i < n):
            out[k, i] = value


def test_integers_of_the_plan():
    out = np.zeros((16, 150), np.int64)
    equal(integers, out, 150, 2**40 + 5)
    equal(integers, out, 77, -(2**40))


@cute.kernel
def scheduled(x, y, out, group: cute.s32(min=1)):
    """Blocks that find their tiles by division, and offsets of arrays of less than 2 GB."""
    cute.launch(grid=5, block=64)
    across = cute.ceil_div(y.shape[0], 8)
    for tile in cute.range(cute.block_idx(), cute.ceil_div(x.shape[0], 8) * across, 5):
        i, j, t = tile // across * 8, tile % across * 8, cute.thread_idx()
        with cute.when((i + t // 8 < x.shape[0]) & (j + t % 8 < y.shape[0])):
            out[i + t // 8, j + t % 8] = x[i + t // 8] * y[j + t % 8] + (tile // group).to("s32")


def test_tiles_found_by_division():
    x, y = np.arange(50, dtype=np.int32), np.arange(30, dtype=np.int32) - 9
    for group in (1, 3, 1000):
        equal(scheduled, x, y, np.zeros((50, 30), np.int32), group)


@cute.kernel
def indexed(x, index, out):
    cute.launch(grid=1, block=64)
    tid = cute.thread_idx()
    for _k in cute.range(cute.as_int(index[63], 0, 63, uniform="block")):
        cute.syncthreads()
    i = cute.as_int(index[tid], 0, 63)
    shared = cute.smem("f32", 64)
    shared[i] = x[tid]
    cute.syncthreads()
    out[tid] = shared[63 - tid]
    chosen = cute.where(shared[tid] > 0, shared[tid], -1.0)
    with cute.when((chosen > 0.5) & (tid < 50)):
        chosen.fill(7)
    out[64 + tid] = chosen


@covers(ops.Let, ops.Promise)
def test_registers_as_indices_and_conditions():
    index = np.random.default_rng(0).permutation(64).astype(np.int32)
    x = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    equal(indexed, x, index, np.zeros(128, np.float32))


@cute.kernel
def numbers(out, a: cute.f32, b: cute.f64, c: cute.s8, d: cute.u32, e: cute.s64, f: cute.b1):
    cute.launch(grid=1, block=32)
    tid = cute.thread_idx()
    out[0, tid] = a.to("f64") * 2.0
    out[1, tid] = b
    out[2, tid] = (c + 1).to("f64")
    out[3, tid] = d.to("f64")
    out[4, tid] = e.to("f64")
    with cute.when(f):
        out[5, tid] = 1.0


def test_run_time_numbers():
    out = np.zeros((6, 32))
    equal(numbers, out, 1.5, 0.1, -128, 2**32 - 1, -(2**50), True)
    equal(numbers, out, -0.0, -2.5, 127, 0, 2**62, False)


@cute.kernel
def barriers(x, out):
    cute.launch(grid=1, block=128)
    tid, warp = cute.thread_idx(), cute.warp_idx()
    shared = cute.smem("s32", 128)
    with cute.when(warp < 2):
        shared[tid] = x[tid]
        cute.named_barrier(1, 64)
        out[tid] = shared[63 - tid]
    with cute.otherwise():
        shared[tid] = x[tid] * 2
        cute.named_barrier(2, 64)
        out[tid] = shared[191 - tid]
    cute.syncthreads()
    with cute.when(warp == 0):
        shared[tid] = 5
        cute.threadfence("block")
        cute.named_barrier(3, 64, "arrive")
    with cute.when(warp == 1):
        cute.named_barrier(3, 64)
        out[tid] = shared[tid - 32]
    cute.syncwarp()
    cute.threadfence("system")


@covers(ops.Barrier, ops.Fence)
def test_barriers_of_parts_of_a_block():
    equal(barriers, drawn("s32", 128), np.zeros(128, np.int32))


@cute.kernel
def relay(turn, out):
    """Blocks wait for each other, the last one first; all are resident at once."""
    cute.launch(grid=16, block=32, resident=True)
    block, tid = cute.block_idx(), cute.thread_idx()
    mine = 15 - block
    with cute.when(tid == 0):
        cute.wait_until(cute.local_tile(turn, (1,), (0,)), "eq", mine)
        before = cute.load_acquire(cute.local_tile(out, (1,), (15,)))
        out[block] = before + 1
        with cute.when(mine == 0):
            out[15] = 100
        cute.store_release(cute.local_tile(turn, (1,), (0,)), mine + 1)


@covers(ops.WaitUntil)
def test_blocks_wait_for_each_other():
    for kind in (np.int32, np.uint32, np.int64):
        equal(relay, np.zeros(1, kind), np.zeros(16, np.int32))


@cute.kernel
def tiles(x, y, out):
    """Ragged tiles, predicated by themselves, with a fill."""
    cute.launch(grid=(cute.ceil_div(x.shape[0], 16), cute.ceil_div(x.shape[1], 32)), block=64)
    tid = cute.thread_idx()
    i, j = tid // 4, tid % 4
    held = cute.rmem("f32", (1, 8))
    here = cute.local_tile(x, (16, 32), cute.block_idx())
    cute.copy(cute.local_tile(here, (1, 8), (i, j)), held, fill=2.5)
    there = cute.local_tile(y, (16, 32), cute.block_idx())
    cute.copy(held, cute.local_tile(there, (1, 8), (i, j)))
    cute.atomic("add", cute.local_tile(out, (1,), (0,)), cute.reduce("add", held))


def test_ragged_tiles():
    for shape in ((16, 32), (33, 71), (1, 1), (40, 100)):
        x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
        equal(tiles, x, np.zeros_like(x), np.zeros(1, np.float32))
        wide = np.zeros((shape[0], shape[1] + 3), np.float32)[:, : shape[1]]
        if DRY:
            equal(tiles, np.asarray(x, order="F"), wide, np.zeros(1, np.float32))


@cute.kernel
def brought_near(x, out):
    """What lies past the array is prefetched by no lane."""
    cute.launch(grid=cute.ceil_div(x.shape[0], 32), block=32)
    here = cute.block_idx() * 32 + cute.thread_idx()
    cute.prefetch(cute.local_tile(x, (1,), (here,)))
    with cute.when(here < x.shape[0]):
        out[here] = x[here]


@covers(ops.Prefetch)
def test_a_prefetch_changes_nothing():
    equal(brought_near, drawn("s32", 100), np.zeros(100, np.int32))


@cute.kernel
def checked(x, out):
    cute.launch(grid=1, block=32)
    tid = cute.thread_idx()
    cute.assert_(tid < x.shape[0], "too few")  # noqa: PT009
    out[tid] = x[tid]


@covers(ops.Assert)
def test_an_assertion_that_holds_changes_nothing():
    equal(checked, drawn("s32", 32), np.zeros(32, np.int32))


@cute.kernel
def long_rows(x, out):
    """Register arrays of all sorts, cut, reduced by mode and put together again."""
    cute.launch(grid=1, block=32)
    tid = cute.thread_idx()
    flat = cute.rmem("f16", 24)
    cute.copy(cute.local_tile(x, (24,), (tid,)), flat)
    held = flat.with_layout(cute.Layout((4, 6)))
    rows, columns = cute.reduce("max", held, 1), cute.reduce("add", held, 0)
    held[_, 2] = rows
    twice = held.to("f32") + held.to("f32")
    total = cute.warp_reduce("add", cute.reduce("add", twice))
    out[tid, 0] = total
    out[tid, 1] = cute.reduce("add", columns).to("f32")
    out[tid, 2] = cute.where(cute.vote("any", total > 1e9), 1.0, 0.0)


def test_parts_of_registers():
    x = np.random.default_rng(0).integers(-9, 9, 24 * 32).astype(np.float16)
    equal(long_rows, x, np.zeros((32, 3), np.float32))


def test_the_machine_is_the_one_that_was_asked_for():
    assert DRY or torch.cuda.is_available()
