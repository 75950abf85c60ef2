"""The acceptance examples of the feature inventory that no other test shows, one test a row."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from cute_py.kernels.config import choose, tile_copy
from cute_py.kernels.copy import copy_tiles
from cute_py.kernels.splitk_serial import gemm_splitk
from cute_py.trace.ops import LdMatrix, Mma
from tests.emulated.kernel_data import operands, plain, poisoned, reference, stored

WIDTHS = [8, 16, 32, 64, 128]


def random(seed=0):
    return np.random.default_rng(seed)


def refused(kernel, *args):
    with pytest.raises(cute.CuteError) as caught:
        kernel(*args)
    return caught.value.code


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

    a = random().integers(0, 256, size).astype(np.uint8)
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


# -- F: loads and stores


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

    a, b = random().integers(-128, 128, (2, 32, 16)).astype(np.int8)
    a[0], b[0] = -128, -128
    out = np.zeros(32, np.int32)
    dot(a, b, out)
    np.testing.assert_array_equal(out, (a.astype(np.int64) * b).sum(1))


# -- F: matrix instructions


@cute.kernel
def tile_products(A, B, C, D, mma):
    """D = A B^T + C, a tile (M,N,K) of the instruction for each block."""
    m, n, k = mma.tile_shape
    cute.launch(grid=D.shape[2], block=mma.size())
    b, thr = cute.block_idx(), mma.get_slice(cute.thread_idx())
    gA, gB = (
        cute.local_tile(A[_, _, b], (m, k), (0, 0)),
        cute.local_tile(B[_, _, b], (n, k), (0, 0)),
    )
    gC, gD = (cute.local_tile(x[_, _, b], (m, n), (0, 0)) for x in (C, D))
    tA, tB = thr.partition_A(gA), thr.partition_B(gB)
    a, b = thr.make_fragment_A(tA), thr.make_fragment_B(tB)
    acc = thr.make_fragment_C(thr.partition_C(gC))
    cute.copy(tA, a)
    cute.copy(tB, b)
    cute.copy(thr.partition_C(gC), acc)
    cute.gemm(mma, acc, a, b)
    cute.copy(acc, thr.partition_C(gD))


def multiplied(name, low, high, count=1000, start=0, atoms=(1, 1, 1)):
    """Return D of `count` tiles of random integers, and what NumPy says."""
    mma = cute.make_tiled_mma(name, atoms)
    (m, n, k), atom = mma.tile_shape, mma.atom
    a, b = (random(x).integers(low, high + 1, (x, k, count)) for x in (m, n))
    kinds = (atom.a_type.name, atom.b_type.name, atom.c_type.name)
    arrays = [stored(x, kind) for x, kind in zip((a, b), kinds, strict=False)]
    c = np.full((m, n, count), start, cute.dtype(kinds[2]).numpy)
    d = np.zeros_like(c)
    tile_products(*arrays, c, d, mma)
    return d, np.einsum("mkl,nkl->mnl", a, b) + start


EXACT = {
    "f21": ("SM80_16x8x16_F32F16F16F32_TN", 8),
    "f22": ("SM80_16x8x16_F16F16F16F16_TN", 3),
    "f23": ("SM75_16x8x8_F32F16F16F32_TN", 8),
    "f24": ("SM70_8x8x4_F16F16F16F16_NT", 8),
    "f25": ("SM75_8x8x32_S32S4S4S32_TN", 7),
}


@pytest.mark.parametrize("row", EXACT)
def test_f21_to_f25_a_thousand_tiles_of_integers_are_exact(row):
    name, most = EXACT[row]
    atoms = (2, 2, 1) if row == "f24" else (1, 1, 1)  # four quad pairs fill a warp
    d, wanted = multiplied(name, -most - (row == "f25"), most, atoms=atoms)
    np.testing.assert_array_equal(d, wanted)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "s32"])
def test_f20_one_product_of_one_thread(kind):
    d, wanted = multiplied(f"UniversalFMA<{kind}>", -9, 9, start=1)
    np.testing.assert_array_equal(d.astype(np.float64), wanted)


def test_f26_sums_of_int4_saturate_or_wrap():
    most = 2**31 - 1
    for name, last in (("_SATURATE", most), ("", 32 - 2**31 - 1)):
        d, _wanted = multiplied(f"SM75_8x8x32_S32S4S4S32_TN{name}", 1, 1, 3, start=most)
        assert (d == last).all()


def test_f27_xor_popc_counts_the_bits_that_differ():
    mma = cute.make_tiled_mma("SM80_8x8x128_S32U1U1S32_TN_XORPOPC")
    a, b = (random(i).integers(0, 2, (8, 128, 100)) for i in range(2))
    c = random(2).integers(-9, 9, (8, 8, 100)).astype(np.int32)
    d = np.zeros_like(c)
    tile_products(stored(a, "b1"), stored(b, "b1"), c, d, mma)
    differ = a[:, None] != b[None]
    np.testing.assert_array_equal(d, c + differ.sum(2))


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


# -- G: threads and warps


@pytest.mark.parametrize("majors", [(1, 1), (1, 0), (0, 1), (0, 0)], ids=str)
def test_g01_one_thread_multiplies_8x8x4(majors):
    mma = cute.make_tiled_mma("UniversalFMA<f32>")

    @cute.kernel
    def run(A, B, C):
        cute.launch(grid=1, block=1)
        thr = mma.get_slice(cute.thread_idx())
        gA, gB = cute.local_tile(A, (8, 4), (0, 0)), cute.local_tile(B, (8, 4), (0, 0))
        gC = cute.local_tile(C, (8, 8), (0, 0))
        a, b = thr.make_fragment_A(thr.partition_A(gA)), thr.make_fragment_B(thr.partition_B(gB))
        acc = thr.make_fragment_C(thr.partition_C(gC))
        acc.fill(0)
        cute.copy(thr.partition_A(gA), a)
        cute.copy(thr.partition_B(gB), b)
        cute.gemm(mma, acc, a, b)
        cute.copy(acc, thr.partition_C(gC))

    a, b = operands(random(), (8, 8, 4), "f32", majors)
    c = poisoned((8, 8), np.float32)
    run(a, b, c)
    np.testing.assert_array_equal(c, reference(a, b))


@pytest.mark.parametrize(("name", "most"), [("UniversalFMA<f32>", 99), ("SM61_DP4A", 127)])
def test_g06_a_warp_of_single_threads_multiplies(name, most):
    d, wanted = multiplied(name, -most - 1, most, 10, atoms=(8, 4, 1))
    np.testing.assert_array_equal(d, wanted)


@pytest.mark.parametrize("delta", [1, 2])
def test_g08_instructions_side_by_side_or_one_apart_cover_the_tile(delta):
    """OpDelta: the distance between the instructions of a warp, in instructions."""
    apart = cute.Layout((8, 2, delta), (1, 8 * delta, 8))
    mma = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (1, 2, 1), (_, apart, _))
    found = cute.coverage(mma)
    assert found.exact, str(found)


def test_g12_accumulators_of_a_warp_read_and_write_64x64():
    mma = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")

    @cute.kernel
    def run(C, D):
        cute.launch(grid=1, block=32)
        thr = mma.get_slice(cute.thread_idx())
        source = thr.partition_C(cute.local_tile(C, (64, 64), (0, 0)))
        held = thr.make_fragment_C(source)
        cute.copy(source, held)
        cute.copy(held, thr.partition_C(cute.local_tile(D, (64, 64), (0, 0))))

    c, d = np.arange(4096, dtype=np.float32).reshape(64, 64), poisoned((64, 64), np.float32)
    run(c, d)
    np.testing.assert_array_equal(c, d)


def test_g13_a_warp_multiplies_64x64x32():
    mma = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (1, 1, 1), (64, 64, 32))
    a, b = operands(random(), (64, 64, 32), "f16")
    c = np.zeros((64, 64, 1), np.float32)
    d = np.zeros_like(c)
    tile_products(a[..., None], b[..., None], c, d, mma)
    np.testing.assert_array_equal(d[..., 0], reference(a, b))
    (op,) = [
        op
        for op in cute.trace(tile_products, a[..., None], b[..., None], c, d, mma).ops
        if isinstance(op, Mma)
    ]
    order = [(d % 4, d // 4) for d, _a, _b in op.steps[:32]]
    assert order[6:10] == [(0, 6), (0, 7), (1, 7), (1, 6)]  # forth and back along N


def test_g14_f32_in_shared_memory_becomes_tf32_before_the_product():
    mma = cute.make_tiled_mma("SM80_16x8x8_F32TF32TF32F32_TN")

    @cute.kernel
    def run(A: cute.spec(shape=(16, 8)), B: cute.spec(shape=(8, 8)), C: cute.spec(shape=(16, 8))):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        sA, sB = cute.smem("f32", (16, 8)), cute.smem("f32", (8, 8))
        for i in cute.range(tid, 128, 32):
            sA[i % 16, i // 16] = A[i % 16, i // 16]
        for i in cute.range(tid, 64, 32):
            sB[i % 8, i // 8] = B[i % 8, i // 8]
        cute.syncthreads()
        thr = mma.get_slice(tid)
        tA, tB, tC = thr.partition_A(sA), thr.partition_B(sB), thr.partition_C(C)
        a, b = cute.make_rmem_tensor(tA.shape, "f32"), cute.make_rmem_tensor(tB.shape, "f32")
        cute.copy(tA, a)
        cute.copy(tB, b)
        acc = thr.make_fragment_C(tC)
        acc.fill(0)
        cute.gemm(mma, acc, a.to("tf32"), b.to("tf32"))
        cute.copy(acc, tC)

    # one product of each sum is not 0, so that the sums are those products
    a, b = np.zeros((16, 8), np.float32), random().normal(size=(8, 8)).astype(np.float32)
    a[np.arange(16), np.arange(16) % 8] = 1 + 2.0**-11 + random().integers(0, 9, 16) * 2.0**-12
    c = poisoned((16, 8), np.float32)
    run(a, b, c)
    rounded = [cute.convert(x, "tf32", "rn").astype(np.float64) for x in (a, b)]
    np.testing.assert_array_equal(c, (rounded[0] @ rounded[1].T).astype(np.float32))


@cute.kernel
def load_fragments(X, held, mma, layout, atom, side):
    """held[thread, value] = what ldmatrix gives each thread of X (rows,K), from shared memory."""
    cute.launch(grid=1, block=mma.size())
    tid = cute.thread_idx()
    shared = cute.smem(X.dtype, layout)
    rows, k = (int(cute.size(shared, i)) for i in range(2))
    vector = (8, 1) if "LDSM_T" in atom else (1, 128 // X.dtype.bits)
    across = rows // vector[0]
    for i in cute.range(tid, across * (k // vector[1]), mma.size()):
        at = i % across, i // across
        cute.copy(cute.local_tile(X, vector, at), cute.local_tile(shared, vector, at))
    cute.syncthreads()
    make = cute.make_tiled_copy_A if side == "A" else cute.make_tiled_copy_B
    copy = make(cute.Copy_Atom(atom, X.dtype), mma)
    fragment = getattr(mma.get_slice(tid), f"partition_fragment_{side}")(shared)
    part = copy.get_slice(tid)
    cute.copy(copy, part.partition_S(shared), part.retile_D(fragment))
    for v in range(int(cute.size(fragment))):
        held[tid, v] = fragment[v]


def require_fragments(name, side, layout, trans):
    """Check what the threads get by the atom's own map, and that no banks conflict."""
    mma = cute.make_tiled_mma(name)
    kind = getattr(mma.atom, f"{side.lower()}_type")
    rows, k = (int(cute.size(layout, i)) for i in range(2))
    registers = int(cute.size(getattr(mma.atom, f"{side.lower()}_tv"), 1)) * kind.bits // 32
    atom = f"SM75_U16x{2 * registers}_LDSM_T" if trans else f"SM75_U32x{registers}_LDSM_N"
    x = random().integers(-8, 8, (rows, k))
    values = cute.product(getattr(mma, f"partition_shape_{side}")((rows, k)))
    held = stored(np.zeros((32, values)), kind.name)
    arrays = stored(x, kind.name, 0 if trans else 1), held
    plan = cute.trace(load_fragments, *arrays, mma, layout, atom, side)
    report = cute.emulate(plan, *arrays, report=True)
    (load,) = {op.line for op in plan.ops if isinstance(op, LdMatrix)}
    assert report.lines[load].requests > 0
    assert report.lines[load].conflicts == 0
    for tid in range(32):
        part = getattr(mma.get_slice(tid), f"partition_{side}")
        places, offset = part(cute.Layout((rows, k)))
        at = np.array([int(places(v)) for v in range(values)]) + int(offset)
        np.testing.assert_array_equal(plain(held)[tid], x[at % rows, at // rows])


@pytest.mark.parametrize("name", ["SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x8_F32F16F16F32_TN"])
@pytest.mark.parametrize("side", ["A", "B"])
def test_g09_g10_ldmatrix_trans_of_a_congruous_tile(name, side):
    layout = cute.column_major_tensor_op_multiplicand_congruous(16, 64, 64, 32)
    require_fragments(name, side, layout, trans=True)


@pytest.mark.parametrize("name", ["SM80_16x8x16_F32F16F16F32_TN", "SM75_8x8x32_S32S4S4S32_TN"])
@pytest.mark.parametrize("side", ["A", "B"])
def test_g15_ldmatrix_of_a_crosswise_tile(name, side):
    bits, k = (16, 32) if "F16" in name else (4, 128)
    layout = cute.row_major_tensor_op_multiplicand_crosswise(bits, k, 32, k)
    require_fragments(name, side, layout, trans=False)


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
    a, b = operands(random(), (64, 64, 64), "f16")
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

    a = random().normal(size=(40, 70)).astype(np.float32)
    source, target = (random(i).permutation(40).astype(np.int32) for i in range(2))
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
    a, b = operands(random(), (3, 4, 9), "f16")
    whole = np.full(24, -1, np.float32)
    d = np.lib.stride_tricks.as_strided(whole, (3, 4), (5 * 4, 2 * 4))  # offsets 5m + 2n
    cute.ops.gemm(a, b.T, out=d)
    np.testing.assert_array_equal(d, reference(a, b))
    written = {5 * m + 2 * n for m in range(3) for n in range(4)}
    assert all(whole[i] == -1 for i in range(24) if i not in written)


@pytest.mark.parametrize("splits", range(1, 21))
def test_i09_splits_of_k_in_turn(splits):
    a, b = operands(random(), (64, 64, 400), "f16")
    cfg = choose(a, b, (64, 64), 1, ldmatrix=False, asynchronous=False)
    turns = np.zeros((1, 1), np.int32)
    for _launch in range(2):  # the second without zeroing `turns`
        c = poisoned((64, 64), np.float32)
        gemm_splitk(a, b, c, turns, splits, cfg)
        np.testing.assert_array_equal(c, reference(a, b))


# -- J: tiles in memory


def test_j07_the_residue_of_k_comes_first():
    """K of 100 in tiles of 32: 0-3, 4-35, 36-67, 68-99."""

    @cute.kernel
    def sums(A, out):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        K = A.shape[1]
        tiles = cute.ceil_div(K, 32)
        moved = cute.domain_offset((0, K - 32 * tiles), A)
        for k in cute.range(tiles):
            held = cute.rmem("f32", 32)
            cute.copy(cute.local_tile(moved, (32, 32), (0, k))[tid, _], held)
            out[tid, k] = cute.reduce("add", held)

    a = random().integers(1, 9, (32, 100)).astype(np.float32)
    out = np.zeros((32, 4), np.float32)
    sums(a, out)
    wanted = [a[:, :4].sum(1), *(a[:, i : i + 32].sum(1) for i in (4, 36, 68))]
    np.testing.assert_array_equal(out, np.stack(wanted, 1))


def test_j09_a_copy_of_96x100_leaves_what_is_around_it():
    a = random().normal(size=(96, 100)).astype(np.float32)
    whole = np.full((130, 140), -1, np.float32)
    inside = whole[8:104, 4:104]
    copy_tiles(a, inside, tile_copy((32, 32), 128, a, inside))
    np.testing.assert_array_equal(inside, a)
    inside[:] = -1
    assert (whole == -1).all()


RAKED = [
    ("f16", (128, 32), 64),
    ("f16", (256, 32), 64),
    ("f32", (128, 32), 32),
    ("s8", (128, 32), 128),
]


@cute.kernel
def store_tile(X, out, copy, layout):
    """out = shared memory as it lies, after X (contiguous, strided) went there by a thread map."""
    size = int(cute.size(layout))
    cute.launch(grid=1, block=copy.size())
    tid = cute.thread_idx()
    shared, part = cute.smem(X.dtype, layout), copy.get_slice(tid)
    source = part.partition_S(cute.local_tile(X, copy.tile_shape, (0, 0)))
    held = cute.make_rmem_tensor(source.shape, X.dtype)
    cute.copy(source, held)
    cute.copy(copy, held, part.partition_D(shared))
    cute.syncthreads()
    plain_shared = cute.make_tensor(shared.data, cute.Layout(size))
    for i in cute.range(tid, size, copy.size()):
        out[i] = plain_shared[i]


def p1(c, s, bits, crosswise, ld):
    """Return the offset of TensorOpMultiplicand: chunks of 16 bytes, XORed in lines of 128."""
    chunk, rows = 128 // bits, 8 * (128 // bits) // crosswise
    wide, y = 8 // rows, s // rows % max(8 // rows, 4)
    vector = c // chunk
    x = vector % wide + s % rows * wide
    at = 4 * (x // 4 ^ y // 4 % 2) + (x % 4 ^ y % 4)
    return (vector // wide * 8 + at) * chunk + c % chunk + s // rows * ld * rows


@pytest.mark.parametrize(("kind", "shape", "crosswise"), RAKED, ids=str)
def test_j11_j12_j13_raked_stores_lie_where_the_congruous_map_says(kind, shape, crosswise):
    bits = cute.dtype(kind).bits
    layout = cute.tensor_op_multiplicand(bits, crosswise, *shape)
    threads = cute.warp_raked_thread_map(shape, 128, (8, 4), 128 // bits)
    copy = threads.tiled_copy(cute.Copy_Atom("UniversalCopy<128>", kind))
    x = stored(np.arange(shape[0] * shape[1]).reshape(shape, order="F") % 2000 % 120, kind, 0)
    out = np.zeros(x.size, x.dtype)
    store_tile(x, out, copy, layout)
    for c in range(shape[0]):
        for s in range(shape[1]):
            assert out[p1(c, s, bits, crosswise, shape[0])] == x[c, s]


def test_j14_raked_stores_lie_where_the_crosswise_map_says():
    layout = cute.tensor_op_multiplicand_crosswise(16, 32, 32, 128)
    threads = cute.warp_raked_thread_map((32, 128), 128, (4, 8), 8)
    copy = threads.tiled_copy(cute.Copy_Atom("UniversalCopy<128>", "f16"))
    x = stored(np.arange(4096).reshape((32, 128), order="F") % 2048, "f16", 0)
    out = np.zeros(x.size, x.dtype)
    store_tile(x, out, copy, layout)
    for c in range(32):
        for s in range(128):
            assert out[p1(c, s, 16, 32, 32)] == x[c, s]


def test_j10_a_tile_is_stored_transposed_by_the_transposed_map():
    """Threads load (8,128) along the contiguous mode, and store to rows along the other."""
    load = cute.stripmined_thread_map((8, 128), 256)
    atom = cute.Copy_Atom("UniversalCopy<32>", "f32")
    g2r, r2s = load.tiled_copy(atom), cute.transposed_thread_map(load).tiled_copy(atom)

    @cute.kernel
    def transpose(A: cute.spec(shape=(8, 128)), B):
        cute.launch(grid=1, block=256)
        tid = cute.thread_idx()
        shared = cute.smem("f32", cute.Layout((128, 8), (1, 132)))
        source = g2r.get_slice(tid).partition_S(A)
        held = cute.make_rmem_tensor(source.shape, "f32")
        cute.copy(g2r, source, held)
        target = r2s.get_slice(tid).partition_D(shared)
        cute.copy(r2s, held.with_layout(cute.Layout(target.shape)), target)
        cute.syncthreads()
        for i in cute.range(tid, 1024, 256):
            B[i % 128, i // 128] = shared[i % 128, i // 128]

    a = np.arange(1024, dtype=np.float32).reshape((8, 128), order="F")
    b = poisoned((128, 8), np.float32)
    transpose(a, b)
    np.testing.assert_array_equal(b, a.T)


def test_j15_a_ragged_tile_of_50x30_is_filled_with_zeros():
    copy = cute.make_tiled_copy(cute.Copy_Atom("UniversalCopy<32>", "f32"), (4, 32), (1, 1))

    @cute.kernel
    def load(A, B):
        cute.launch(grid=1, block=128)
        tid = cute.thread_idx()
        shared, part = cute.smem("f32", cute.Layout((64, 32), (32, 1))), copy.get_slice(tid)
        cute.copy(
            copy, part.partition_S(cute.local_tile(A, (64, 32), (0, 0))), part.partition_D(shared)
        )
        cute.syncthreads()
        for i in cute.range(tid, 64 * 32, 128):
            B[i // 32, i % 32] = shared[i // 32, i % 32]

    a, b = random().normal(size=(50, 30)).astype(np.float32), poisoned((64, 32), np.float32)
    load(a, b)
    np.testing.assert_array_equal(b, np.pad(a, ((0, 14), (0, 2))))


# -- K: epilogues


def test_k01_kinds_of_scaling():
    a, b = operands(random(), (30, 20, 40), "f16")
    c, ab = random().integers(-9, 10, (30, 20)).astype(np.float32), reference(a, b)
    for alpha, beta in ((2.0, -3.0), (2.0, 1.0), (2.0, 0.0), (1.0, 0.0)):
        d = cute.ops.gemm(a, b.T, c, alpha=alpha, beta=beta, out_dtype="f32")
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


def test_k33_the_result_may_take_the_place_of_the_source():
    a, b = operands(random(), (70, 45, 40), "f16")
    c = random().integers(-9, 10, (70, 45)).astype(np.float32)
    apart = cute.ops.gemm(a, b.T, c, alpha=2, beta=3, out_dtype="f32")
    np.testing.assert_array_equal(apart, 2 * reference(a, b) + 3 * c)
    assert cute.ops.gemm(a, b.T, c, alpha=2, beta=3, out=c) is c
    np.testing.assert_array_equal(c, apart)


# -- A: types in shared memory


def test_a09_a_buffer_has_its_bytes_and_is_aligned():
    @cute.kernel
    def buffers(A):
        cute.launch(grid=1, block=32)
        cute.smem("u8", 3)
        cute.smem("f16", 1024)

    first, second = cute.trace(buffers, np.zeros(1, np.float32)).shared
    assert (first.bytes, second.bytes) == (3, 2048)
    assert second.offset % 16 == 0
