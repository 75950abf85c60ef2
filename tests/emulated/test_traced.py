"""Kernels of the DSL on the emulator: broken on purpose, and mended; all orders agree."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate import emulate
from tests.emulated.test_threads import ORDERS, refused


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_with_barriers_in_loops_of_different_length(order):
    """Block b sums b + 1 rows through shared memory."""

    @cute.kernel
    def rows(A, B):
        cute.launch(grid=B.shape[0], block=64)
        b, t = cute.block_idx(), cute.thread_idx()
        s = cute.smem("f32", 64)
        total = cute.rmem("f32", 1)
        total.fill(0)
        for k in cute.range(b + 1):
            s[t] = A[k, t]
            cute.syncthreads()
            total[0] = total[0] + s[63 - t]
            cute.syncthreads()
        B[b, t] = total[0]

    A = np.random.default_rng(0).integers(-9, 9, (6, 64)).astype(np.float32)
    B = np.zeros_like(A)
    emulate(cute.trace(rows, A, B), A, B, order=order)
    assert np.array_equal(B, np.cumsum(A, axis=0)[:, ::-1])


def gemm(wait=2, barrier=True, late=True, stages=4):
    """C = A B by cp.async in four stages of 32 x 32, one warp, written out by hand."""
    mma = cute.make_tiled_mma(cute.atoms.SM80_16x8x16_F32BF16BF16F32_TN, cute.Layout((2, 1, 1)))
    tile = cute.make_composed_layout(cute.Swizzle(2, 3, 3), 0, cute.Layout((8, 32), (32, 1)))
    shared = cute.tile_to_shape(tile, (32, 32, stages))
    atom = cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL<128>", "bf16")
    g2s = cute.make_tiled_copy(atom, cute.Layout((16, 4), (4, 1)), cute.Layout((1, 8)))

    @cute.kernel
    def kernel(A, B, C):
        cute.launch(grid=(C.shape[0] // 32, C.shape[1] // 32), block=64)
        t, (x, y) = cute.thread_idx(), cute.block_idx()
        gA, gB = cute.local_tile(A, (32, 32), (x, None)), cute.local_tile(B, (32, 32), (y, None))
        gC = cute.local_tile(C, (32, 32), (x, y))
        sA, sB = cute.smem("bf16", shared), cute.smem("bf16", shared)
        copier, thread = g2s.get_slice(t), mma.get_slice(t)
        pairs = [(copier.partition_S(g), copier.partition_D(s)) for g, s in ((gA, sA), (gB, sB))]
        acc = thread.make_fragment_C(thread.partition_C(gC))
        acc.fill(0)
        tiles = A.shape[1] // 32

        def issue(k, stage):
            for src, dst in pairs:
                cute.copy(g2s, src[None, None, None, k], dst[None, None, None, stage])

        for k in range(stages - 1):
            issue(k, k)
            cute.cp_async_fence()
        for k in cute.range(tiles):
            cute.cp_async_wait(wait)
            if barrier:
                cute.syncthreads()
            if not late:
                cute.syncthreads()
            a = thread.partition_fragment_A(sA[None, None, 0])
            b = thread.partition_fragment_B(sB[None, None, 0])
            cute.copy(thread.partition_A(sA)[None, None, None, k % stages], a)
            cute.copy(thread.partition_B(sB)[None, None, None, k % stages], b)
            cute.gemm(mma, acc, a, b)
            with cute.when(k + stages - 1 < tiles):
                issue(k + stages - 1, (k + (stages - 1 if late else 0)) % stages)
            cute.cp_async_fence()
        cute.copy(acc, thread.partition_C(gC))

    return kernel


def operands():
    rng = np.random.default_rng(0)
    A, B = (rng.integers(-4, 5, (64, 256)).astype(cute.bf16.numpy) for _ in range(2))
    return A, B, np.zeros((64, 64), np.float32)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("checks", [True, False])
def test_gemm_of_four_stages(order, checks):
    A, B, C = operands()
    emulate(cute.trace(gemm(), A, B, C), A, B, C, order=order, checks=checks)
    assert np.array_equal(C, A.astype(np.float32) @ B.astype(np.float32).T)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"wait": 3}, "emulate-copy-pending"),
        ({"barrier": False}, "emulate-copy-pending"),
        ({"late": False}, "emulate-race"),
    ],
)
def test_gemm_that_is_broken_on_purpose(changes, code):
    A, B, C = operands()
    plan = cute.trace(gemm(**changes), A, B, C)
    error = refused(code, plan, A, B, C)
    assert "test_traced.py:" in str(error)
    if "wait" in changes:
        assert "cp_async_wait(2)" in str(error)


def test_float_and_integer_arguments():
    @cute.kernel
    def scale(A, alpha: cute.f32, n: cute.s32):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        with cute.when(t < n):
            A[t] = A[t] * alpha

    A = np.ones(32, np.float32)
    alpha, n = 2.5, 7
    emulate(cute.trace(scale, A, alpha, n), A, alpha, n)
    assert A.tolist() == [2.5] * 7 + [1.0] * 25
