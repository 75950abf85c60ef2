"""Acceptance examples of the inventory that no other test shows: loads, stores and copies."""

import numpy as np
import pytest
from numpy.random import default_rng

import cute_py as cute
from cute_py import _
from tests.emulated.kernel_data import stored

WIDTHS = [8, 16, 32, 64, 128]


def refused(kernel, *args):
    with pytest.raises(cute.CuteError) as caught:
        kernel(*args)
    return caught.value.code


@pytest.mark.parametrize("cache", ["", "ca", "cg", "cs", "lu", "cv"])
def test_f06_the_cache_operator_of_a_load_changes_no_data(cache):
    @cute.kernel
    def load(A, B):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        held = cute.rmem("f32", 4)
        cute.copy(cute.local_tile(A, (4,), (tid,)), held, cache=cache)
        cute.copy(held, cute.local_tile(B, (4,), (tid,)))

    a, b = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    load(a, b)
    np.testing.assert_array_equal(a, b)
    assert cache in str(cute.trace(load, a, b))


def test_f04_a_load_whose_guard_fails_leaves_its_register_and_reads_nothing():
    @cute.kernel
    def load(A, B, n: cute.s32):
        cute.launch(grid=1, block=64)
        tid = cute.thread_idx()
        held = cute.rmem("f32", 4)
        held.fill(7)
        whole = cute.make_tensor(A.data, cute.Layout(256))  # reaches beyond the array
        cute.copy(cute.local_tile(whole, (4,), (tid,)), held, pred=tid < n)
        cute.copy(held, cute.local_tile(B, (4,), (tid,)))

    a, b = np.arange(80, dtype=np.float32), np.zeros(256, np.float32)
    load(a, b, 20)
    np.testing.assert_array_equal(b[:80], a)
    assert (b[80:] == 7).all()
    assert refused(load, a, b, 21) == "emulate-bounds"


@cute.kernel
def through_shared(A, B, C, copy):
    """B = A and C = A, from global memory to registers and through shared memory."""
    cute.launch(grid=1, block=32)
    tid = cute.thread_idx()
    part = copy.get_slice(tid)
    held = cute.make_rmem_tensor(part.partition_S(A).shape, A.dtype)
    cute.copy(copy, part.partition_S(A), held)
    cute.copy(copy, held, part.partition_D(B))
    shared = cute.smem(A.dtype, cute.Layout(cute.size(copy.tile_shape)))
    cute.copy(copy, held, part.partition_D(shared))
    cute.syncthreads()
    again = cute.make_rmem_tensor(held.shape, A.dtype)
    cute.copy(copy, part.partition_S(shared), again)
    cute.copy(copy, again, part.partition_D(C))


@pytest.mark.parametrize("width", WIDTHS)
def test_f07_f08_f09_f10_each_width_moves_a_ramp(width):
    size = 32 * width // 8
    copy = cute.make_tiled_copy(
        cute.Copy_Atom(f"UniversalCopy<{width}>", "u8"), cute.Layout(32), cute.Layout(width // 8)
    )
    a = stored(np.arange(size) % 251, "u8")

    @cute.kernel
    def run(
        A: cute.spec(shape=(size,)),
        B: cute.spec(shape=(size,)),
        C: cute.spec(shape=(size,)),
    ):
        through_shared.function(A, B, C, copy)

    b, c = np.zeros_like(a), np.zeros_like(a)
    run(a, b, c)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, c)


def test_f07_32_bytes_are_two_loads_of_16():
    @cute.kernel
    def load(A, B):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        cute.copy(cute.local_tile(A, (8,), (tid,)), cute.local_tile(B, (8,), (tid,)))

    a, b = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    load(a, b)
    np.testing.assert_array_equal(a, b)


@cute.kernel
def load_matrices(A, out, name):
    """out[lane] = what ldmatrix gives a lane of A (32,8), whose row l lane l has the address of."""
    cute.launch(grid=1, block=32)
    tid = cute.thread_idx()
    shared = cute.smem("u16", cute.Layout((32, 8), (8, 1)))
    for j in range(8):
        shared[tid, j] = A[tid, j]
    cute.syncthreads()
    atom = cute.Copy_Atom(name, "u16")
    held = cute.rmem("u16", out.shape[1])
    cute.copy(atom, shared[tid, _], held)
    cute.copy(held, out[tid, _])


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_f12_f13_ldmatrix_of_a_ramp(count, trans):
    name = f"SM75_U16x{2 * count}_LDSM_T" if trans else f"SM75_U32x{count}_LDSM_N"

    @cute.kernel
    def run(A: cute.spec(shape=(32, 8)), out: cute.spec(shape=(32, 2 * count))):
        load_matrices.function(A, out, name)

    a = np.arange(256, dtype=np.uint16).reshape(32, 8)
    out = np.zeros((32, 2 * count), np.uint16)
    run(a, out)
    for lane in range(32):
        for i in range(count):
            for j in range(2):
                place = (lane // 4, 2 * (lane % 4) + j)
                row, column = place[::-1] if trans else place
                assert out[lane, 2 * i + j] == a[8 * i + row, column]


CP_ASYNC = [("CACHEALWAYS", 32), ("CACHEALWAYS", 64), ("CACHEALWAYS", 128), ("CACHEGLOBAL", 128)]


@pytest.mark.parametrize(("name", "width"), CP_ASYNC)
@pytest.mark.parametrize("zfill", [False, True])
def test_f14_f15_a_guard_leaves_or_clears_the_bytes_of_cp_async(name, width, zfill):
    n = width // 32
    atom = cute.Copy_Atom(f"SM80_CP_ASYNC_{name}{'_ZFILL' * zfill}<{width}>", "f32")
    copy = cute.make_tiled_copy(atom, cute.Layout(32), cute.Layout(n))

    @cute.kernel
    def run(A, B: cute.spec(shape=(32 * n,))):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        part, shared = copy.get_slice(tid), cute.smem("f32", 32 * n)
        for i in range(n):
            shared[n * tid + i] = 9.0
        cute.syncthreads()
        cute.copy(
            copy, part.partition_S(cute.local_tile(A, (32 * n,), (0,))), part.partition_D(shared)
        )
        cute.cp_async_fence()
        cute.cp_async_wait(0)
        cute.syncthreads()
        for i in range(n):
            B[n * tid + i] = shared[n * tid + i]

    a, b = np.arange(20 * n, dtype=np.float32), np.zeros(32 * n, np.float32)
    run(a, b)  # twelve lanes have no vector: theirs lie beyond the array, and are not read
    np.testing.assert_array_equal(b[: 20 * n], a)
    assert (b[20 * n :] == (0 if zfill else 9)).all()


@pytest.mark.parametrize("tile", range(4))
def test_f16_four_groups_wait_two(tile):
    """Of four groups the first two are there after `cp_async_wait(2)`, and no other."""
    copy = cute.make_tiled_copy(
        cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<32>", "f32"), cute.Layout(32), cute.Layout(1)
    )

    @cute.kernel
    def run(A: cute.spec(shape=(32, 4)), B):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        part, shared = copy.get_slice(tid), cute.smem("f32", (32, 4))
        for k in range(4):
            cute.copy(copy, part.partition_S(A[_, k]), part.partition_D(shared[_, k]))
            cute.cp_async_fence()
        cute.cp_async_wait(2)
        B[tid] = shared[tid, tile]

    a, b = np.arange(128, dtype=np.float32).reshape(32, 4), np.zeros(32, np.float32)
    if tile >= 2:
        assert refused(run, a, b) == "emulate-copy-pending"
        return
    run(a, b)
    np.testing.assert_array_equal(b, a[:, tile])


def test_f18_dot_of_bytes_in_s32():
    @cute.kernel
    def dot(A: cute.spec(shape=(32, 16)), B: cute.spec(shape=(32, 16)), out):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        a, b = cute.rmem("s8", 16), cute.rmem("s8", 16)
        cute.copy(A[tid, _], a)
        cute.copy(B[tid, _], b)
        out[tid] = cute.reduce("add", a.to("s32") * b.to("s32"))

    a, b = default_rng(0).integers(-128, 128, (2, 32, 16)).astype(np.int8)
    a[0], b[0] = -128, -128
    out = np.zeros(32, np.int32)
    dot(a, b, out)
    np.testing.assert_array_equal(out, (a.astype(np.int64) * b).sum(1))
