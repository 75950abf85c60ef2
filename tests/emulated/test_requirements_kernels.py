"""Acceptance examples of the inventory that no other test shows: blocks, kernels and epilogues."""

import numpy as np
import pytest
from numpy.random import default_rng

import cute_py as cute
from cute_py import _
from cute_py.kernels.config import choose
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm import gemm
from cute_py.kernels.splitk_serial import gemm_splitk
from tests.emulated.kernel_data import operands, poisoned, reference
from tests.sampling import quick

# -- H: blocks


@cute.kernel
def slice_k(A, B, C, mma, splits):
    """C (64,64) = A (64,64) B^T: `splits` groups of warps have their own part of K, and meet."""
    cute.launch(grid=1, block=mma.size())
    tid = cute.thread_idx()
    thr = mma.get_slice(tid)
    sums = cute.smem("f32", cute.Layout((64, 64, splits), (68, 1, 64 * 68)))
    gA, gB = cute.local_tile(A, (64, 64), (0, 0)), cute.local_tile(B, (64, 64), (0, 0))
    tA, tB = thr.partition_A(gA), thr.partition_B(gB)
    a, b = thr.make_fragment_A(tA), thr.make_fragment_B(tB)
    cute.copy(tA, a)
    cute.copy(tB, b)
    part = tid // (mma.size() // splits)
    mine = thr.partition_C(sums[_, _, part])
    acc = thr.make_fragment_C(mine)
    acc.fill(0)
    cute.gemm(mma, acc, a, b)
    cute.copy(acc, mine)
    cute.syncthreads()
    for i in cute.range(tid, 64 * 64, mma.size()):
        total = cute.rmem("f32", 1)
        total.fill(0)
        for k in range(splits):
            total += sums[i // 64, i % 64, k]
        C[i // 64, i % 64] = total


@pytest.mark.parametrize("splits", [1, 2])
def test_g11_h15_k27_warps_share_k_and_add_up_in_shared_memory(splits):
    mma = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, splits))
    a, b = operands(default_rng(0), (64, 64, 64), "f16")
    c = poisoned((64, 64), np.float32)
    slice_k(a, b, c, mma, splits)
    np.testing.assert_array_equal(c, reference(a, b))


def test_h18_rows_are_gathered_and_scattered_by_index():
    @cute.kernel
    def permute(A, source, target, B):
        cute.launch(grid=A.shape[0], block=32)
        row, tid = cute.block_idx(), cute.thread_idx()
        start, end = cute.as_int(source[row]), cute.as_int(target[row])
        for j in cute.range(tid, A.shape[1], 32):
            B[end, j] = A[start, j]

    a = default_rng(0).normal(size=(40, 70)).astype(np.float32)
    source, target = (default_rng(i).permutation(40).astype(np.int32) for i in range(2))
    b, wanted = np.zeros_like(a), np.zeros_like(a)
    permute(a, source, target, b)
    wanted[target] = a[source]
    np.testing.assert_array_equal(b, wanted)


# -- I: kernels


def test_i05_blocks_are_tiles():
    @cute.kernel
    def number(C):
        cute.launch(grid=C.shape, block=1)
        x, y = cute.block_idx()
        C[x, y] = x + 100 * y

    c = np.full((5, 7), -1, np.int32)
    number(c)
    np.testing.assert_array_equal(c, np.arange(5)[:, None] + 100 * np.arange(7))


def test_i06_k34_the_result_may_have_strides_of_both_modes():
    a, b = operands(default_rng(0), (3, 4, 9), "f16")
    whole = np.full(24, -1, np.float32)
    d = np.lib.stride_tricks.as_strided(whole, (3, 4), (5 * 4, 2 * 4))  # offsets 5m + 2n
    cute.ops.gemm(a, b.T, out=d, checks=True)
    np.testing.assert_array_equal(d, reference(a, b))
    written = {5 * m + 2 * n for m in range(3) for n in range(4)}
    assert all(whole[i] == -1 for i in range(24) if i not in written)


def gemm_kernel(a, b, c, d, beta):
    """The kernel of the operator by itself: D = A B^T + beta * C, without copies on the host."""
    config, epilogue = choose(a, b, (64, 64)), LinearCombination(source=c is not None)
    arguments = a, b, c, None, d, 1.0, beta
    plan = cute.trace(gemm, *arguments, config, epilogue)
    cute.emulate(plan, *[x for x in arguments if x is not None])


def test_i06_k34_the_kernel_writes_a_result_with_strides_of_both_modes():
    a, b = operands(default_rng(0), (3, 4, 16), "f16")
    whole = np.full(24, -1, np.float32)
    d = np.lib.stride_tricks.as_strided(whole, (3, 4), (5 * 4, 2 * 4))  # offsets 5m + 2n
    gemm_kernel(a, b, None, d, 0.0)
    np.testing.assert_array_equal(d, reference(a, b))
    written = {5 * m + 2 * n for m in range(3) for n in range(4)}
    assert all(whole[i] == -1 for i in range(24) if i not in written)


@pytest.mark.parametrize("splits", quick([(1,), (2,), (7,), (20,)], range(1, 21)))
def test_i09_splits_of_k_in_turn(splits):
    a, b = operands(default_rng(0), (64, 64, 400), "f16")
    cfg = choose(a, b, (64, 64), 2, ldmatrix=False, asynchronous=False)
    turns = np.zeros((1, 1), np.int32)
    for _launch in range(2):  # the second without zeroing `turns`
        c = poisoned((64, 64), np.float32)
        gemm_splitk(a, b, c, turns, splits, cfg)
        np.testing.assert_array_equal(c, reference(a, b))


# -- K: epilogues


def test_k01_kinds_of_scaling():
    a, b = operands(default_rng(0), (30, 20, 40), "f16")
    c, ab = default_rng(0).integers(-9, 10, (30, 20)).astype(np.float32), reference(a, b)
    for alpha, beta in ((2.0, -3.0), (2.0, 1.0), (2.0, 0.0), (1.0, 0.0)):
        d = cute.ops.gemm(a, b.T, c, alpha=alpha, beta=beta, out_dtype="f32", checks=True)
        np.testing.assert_array_equal(d, alpha * ab + beta * c)


def test_k29_stripes_of_a_block_are_16_bytes_a_lane():
    copy = cute.make_tiled_copy(
        cute.Copy_Atom("UniversalCopy<128>", "f32"), cute.Layout(128), cute.Layout(4)
    )

    @cute.kernel
    def stripes(A: cute.spec(shape=(2048,)), B: cute.spec(shape=(2048,))):
        cute.launch(grid=1, block=128)
        part = copy.get_slice(cute.thread_idx())
        source = part.partition_S(A)
        held = cute.make_rmem_tensor(source.shape, "f32")
        cute.copy(copy, source, held)
        cute.atomic("add", part.partition_D(B), held)

    a, b = np.arange(2048, dtype=np.float32), np.ones(2048, np.float32)
    stripes(a, b)
    np.testing.assert_array_equal(b, a + 1)
    layout, offset = copy.get_slice(5).partition_S(cute.Layout(2048))
    assert [int(layout(i)) + int(offset) for i in range(16)] == [
        512 * stripe + 20 + i for stripe in range(4) for i in range(4)
    ]


def test_k33_the_kernel_may_write_the_result_to_the_place_of_the_source():
    a, b = operands(default_rng(0), (70, 45, 40), "f16")
    c = default_rng(0).integers(-9, 10, (70, 45)).astype(np.float32)
    wanted = reference(a, b) + 3 * c
    gemm_kernel(a, b, c, c, 3.0)
    np.testing.assert_array_equal(c, wanted)


def test_k33_the_result_may_take_the_place_of_the_source():
    a, b = operands(default_rng(0), (70, 45, 40), "f16")
    c = default_rng(0).integers(-9, 10, (70, 45)).astype(np.float32)
    apart = cute.ops.gemm(a, b.T, c, alpha=2, beta=3, out_dtype="f32", checks=True)
    np.testing.assert_array_equal(apart, 2 * reference(a, b) + 3 * c)
    assert cute.ops.gemm(a, b.T, c, alpha=2, beta=3, out=c, checks=True) is c
    np.testing.assert_array_equal(c, apart)


@cute.kernel
def narrow(x: cute.Tensor, s8: cute.Tensor, s4: cute.Tensor):
    """Store integers as s8 and as s4, clamped."""
    cute.launch(grid=1, block=32)
    held, here = cute.rmem("s32", 8), cute.thread_idx()
    cute.copy(cute.local_tile(x, (8,), (here,)), held)
    for to in (s8, s4):
        cute.copy(held.to(to.dtype, saturate=True), cute.local_tile(to, (8,), (here,)))


def test_k09_integers_are_clamped_before_they_are_narrowed():
    x = np.arange(256, dtype=np.int32) * 3 - 300
    x[:2] = 300, 9
    s8, words = np.zeros(256, np.int8), np.zeros(32, np.uint32)
    narrow(x, s8, cute.typed(words, "s4", packed=True))
    s4 = cute.unpack(words, "s4")
    assert (s8[0], s4[0], s4[1]) == (127, 7, 7)
    np.testing.assert_array_equal(s8, x.clip(-128, 127))
    np.testing.assert_array_equal(s4, x.clip(-8, 7))
