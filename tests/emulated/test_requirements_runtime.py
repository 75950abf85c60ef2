"""Acceptance examples of the inventory that no other test shows: run time, functions, buffers."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

import cute_py as cute
from cute_py import _

# -- E: run time


@cute.kernel
def append_in_turn(turn, count, out):
    """Block b waits for its turn, and appends its index at the place that `count` names."""
    cute.launch(grid=out.shape[0], block=32)
    b, tid = cute.block_idx(), cute.thread_idx()
    mine = cute.local_tile(turn, (1,), (0,))
    with cute.when(tid == 0):
        cute.wait_until(mine, "eq", b)
        at = count[0]
        out[b] = at
        count[0] = at + 1
        cute.store_release(mine, b + 1)


@pytest.mark.parametrize("order", ["forward", "reversed", 0, 1])
def test_e06_blocks_append_in_order(order):
    turn, count, out = np.zeros(1, np.int32), np.zeros(1, np.int32), np.full(64, -1, np.int32)
    cute.emulate(cute.trace(append_in_turn, turn, count, out), turn, count, out, order=order)
    np.testing.assert_array_equal(out, np.arange(64))


@cute.kernel
def append_by_semaphore(turn, out):
    """The same by a semaphore: all threads of a block write its part, in its turn."""
    cute.launch(grid=out.shape[0], block=64)
    b, tid = cute.block_idx(), cute.thread_idx()
    lock = cute.Semaphore(turn)
    lock.wait(b)
    seen = lock.fetch()
    out[b, tid] = seen
    lock.release((b + 1) % out.shape[0])


@pytest.mark.parametrize(
    ("order", "blocks", "launches"), [("forward", 24, 1), ("reversed", 12, 2), (0, 12, 2)]
)
def test_e06_f17_a_semaphore_lets_blocks_in_by_turns(order, blocks, launches):
    """Thread 0 fetches the state, the others have -1; after the last release it is 0 again."""
    turn, out = np.zeros(1, np.int32), np.full((blocks, 64), -9, np.int32)
    for _launch in range(launches):
        cute.emulate(cute.trace(append_by_semaphore, turn, out), turn, out, order=order)
        np.testing.assert_array_equal(out[:, 0], np.arange(blocks))
        assert (out[:, 1:] == -1).all()
        assert turn[0] == 0


def test_f01_the_multiprocessor_has_a_number():
    @cute.kernel
    def here(out, lanes):
        cute.launch(grid=4, block=64)
        b, tid = cute.block_idx(), cute.thread_idx()
        out[b, tid] = cute.sm_idx()
        lanes[b, tid] = cute.lane_idx()

    out, lanes = np.full((4, 64), 999, np.uint32), np.zeros((4, 64), np.int32)
    here(out, lanes)
    assert out.max() < 132
    np.testing.assert_array_equal(lanes, np.tile(np.arange(64) % 32, (4, 1)))


def test_f11_an_address_is_the_offset_in_the_window_of_shared_memory():
    @cute.kernel
    def addresses(out):
        cute.launch(grid=2, block=32)
        b, tid = cute.block_idx(), cute.thread_idx()
        first, second = cute.smem("u8", 3), cute.smem("f16", (8, 32))
        out[b, 0, tid] = cute.smem_address(first)
        out[b, 1, tid] = cute.smem_address(second[_, tid])

    out = np.zeros((2, 2, 32), np.uint32)
    plan = cute.trace(addresses, out)
    cute.emulate(plan, out)
    first, second = plan.shared
    for b in range(2):
        assert (out[b, 0] == first.offset).all()
        np.testing.assert_array_equal(out[b, 1], second.offset + 16 * np.arange(32))


@pytest.mark.parametrize("size", [49_152, 102_400])
def test_e07_more_than_48_kib_of_shared_memory(size):
    @cute.kernel
    def reverse(A, B):
        cute.launch(grid=1, block=128)
        held, tid = cute.smem("u8", size), cute.thread_idx()
        for i in cute.range(tid, size, 128):
            held[i] = A[i]
        cute.syncthreads()
        for i in cute.range(tid, size, 128):
            B[i] = held[size - 1 - i]

    a = default_rng(0).integers(0, 256, size).astype(np.uint8)
    b = np.zeros_like(a)
    assert cute.trace(reverse, a, b).smem_bytes == size
    reverse(a, b)
    np.testing.assert_array_equal(b, a[::-1])


def test_e05_what_static_integers_make_is_static():
    @cute.kernel
    def sizes(A, B: cute.spec(shape=(2, 3))):
        cute.launch(grid=1, block=32)
        static, dynamic = B.shape[0] * B.shape[1], A.shape[0] * 2
        assert static == 6
        assert cute.is_static(static)
        assert not cute.is_static(dynamic)
        cute.smem("f32", static)  # which takes no other integer

    cute.trace(sizes, np.zeros(2, np.float32), np.zeros((2, 3), np.float32))
    assert cute.is_static(cute.logical_divide(cute.Layout((8, 6)), (4, 3)))


def test_e09_warp_idx_is_the_thread_over_32():
    @cute.kernel
    def positions(warps, lanes):
        cute.launch(grid=2, block=(16, 10))
        x, y = cute.thread_idx()
        warps[cute.block_idx(), x + 16 * y] = cute.warp_idx()
        lanes[cute.block_idx(), x + 16 * y] = cute.lane_idx()

    warps, lanes = np.full((2, 160), -1, np.int32), np.full((2, 160), -1, np.int32)
    positions(warps, lanes)
    np.testing.assert_array_equal(warps, np.tile(np.arange(160) // 32, (2, 1)))
    np.testing.assert_array_equal(lanes, np.tile(np.arange(160) % 32, (2, 1)))


def test_e11_a_python_bool_makes_two_plans_and_a_run_time_one_makes_a_branch():
    @cute.kernel
    def add(A, B, negate: bool):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        B[tid] = B[tid] - A[tid] if negate else B[tid] + A[tid]

    @cute.kernel
    def add_as_told(A, B, negate: cute.s32):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        with cute.when(negate != 0):
            B[tid] = B[tid] - A[tid]
        with cute.otherwise():
            B[tid] = B[tid] + A[tid]

    a = np.arange(32, dtype=np.float32)
    texts = set()
    for negate in (False, True):
        results = [np.ones(32, np.float32) for _kernel in range(2)]
        add(a, results[0], negate)
        add_as_told(a, results[1], int(negate))
        texts.add(str(cute.trace(add, a, a, negate)))
        for result in results:
            np.testing.assert_array_equal(result, 1 - a if negate else 1 + a)
    assert len(texts) == 2
    assert not any("if " in text for text in texts)


# -- F: functions and atomics


def test_f30_exp2_of_0_minus_inf_1():
    @cute.kernel
    def powers(A, B):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        with cute.when(tid < A.shape[0]):
            B[tid] = cute.exp2(A[tid])

    a, b = np.array([0, -np.inf, 1], np.float32), np.full(3, np.nan, np.float32)
    powers(a, b)
    assert b.tolist() == [1, 0, 2]


def test_f31_atomic_add_1024_ones():
    @cute.kernel
    def count(out):
        cute.launch(grid=1, block=1024)
        total, tid = cute.smem("f32", 1), cute.thread_idx()
        with cute.when(tid == 0):
            total[0] = 0.0
        cute.syncthreads()
        cute.atomic("add", total[_], 1.0)
        cute.syncthreads()
        with cute.when(tid == 0):
            out[0] = total[0]

    out = np.zeros(1, np.float32)
    count(out)
    assert out[0] == 1024


# -- A: functors, and types in shared memory


def test_a15_functors_keep_nan_and_add_in_the_type_of_the_sums():
    """maximum(NaN, 0) is NaN and maximum(-1, 0) 0; f16 of 300 * 300 + 1 in f32 is 90001."""

    @cute.kernel
    def combine(A, B, C):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        held = cute.rmem("f32", (1, 1, 1))
        a, b = cute.rmem("f16", (1, 1, 1)), cute.rmem("f16", (1, 1, 1))
        held.fill(1)
        a.fill(300)
        b.fill(300)
        cute.gemm(cute.make_tiled_mma("UniversalFMA<f32,f16,f16,f32>"), held, a, b)
        B[tid] = cute.maximum(A[tid], 0.0, nan="propagate")
        C[tid, 0], C[tid, 1], C[tid, 2] = A[tid] + A[tid], A[tid] * A[tid], held[0]

    a = np.array([np.nan, -1.0, *range(30)], np.float32)
    b, c = np.zeros(32, np.float32), np.zeros((32, 3), np.float32)
    combine(a, b, c)
    np.testing.assert_array_equal(b, np.maximum(a, 0))
    np.testing.assert_array_equal(c, np.stack([a + a, a * a, np.full(32, 90001.0)], 1))


def test_a16_a19_static_sequences_and_scalar_functions():
    """make_index_sequence is Python's range while tracing; lcm and min are Python's functions, and
    maximum takes -inf.
    """
    seen = []

    @cute.kernel
    def least(A, B):
        cute.launch(grid=1, block=32)
        for i in range(4):
            seen.append(i)
        tid, wide = cute.thread_idx(), math.lcm(4, 8)
        B[tid, min(wide, 1)] = cute.maximum(-math.inf, A[tid])
        B[tid, 0] = cute.minimum(A[tid], wide)

    a, b = np.arange(-16, 16).astype(np.float32), np.zeros((32, 2), np.float32)
    least(a, b)
    assert tuple(seen[:4]) == (0, 1, 2, 3)
    np.testing.assert_array_equal(b, np.stack([np.minimum(a, 8), a], 1))


def test_a09_a_buffer_has_its_bytes_and_is_aligned():
    @cute.kernel
    def buffers(A):
        cute.launch(grid=1, block=32)
        cute.smem("u8", 3)
        cute.smem("f16", 1024)

    first, second = cute.trace(buffers, np.zeros(1, np.float32)).shared
    assert (first.bytes, second.bytes) == (3, 2048)
    assert second.offset % 16 == 0
