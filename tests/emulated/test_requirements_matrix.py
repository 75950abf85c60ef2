"""Acceptance examples of the inventory that no other test shows: matrix instructions and warps."""

import numpy as np
import pytest
from numpy.random import default_rng

import cute_py as cute
from cute_py import _
from cute_py.plan import ops
from cute_py.plan.ops import LdMatrix, Mma
from tests.coverage import covers, refuses
from tests.emulated.kernel_data import operands, plain, poisoned, reference, stored
from tests.sampling import in_turn, quick

# -- F: matrix instructions


@cute.kernel
def wmma_products(A, B, C, D, more, w, majors):
    """D = 2 A B^T + C and more = A B^T + 3, from shared memory with rows or columns contiguous."""
    m, n, k = w.shape
    cute.launch(grid=1, block=32)
    tid, tiles = cute.thread_idx(), []
    for x, (rows, columns), by_row in zip((A, B, C), ((m, k), (n, k), (m, n)), majors, strict=True):
        stride = (columns + 8, 1) if by_row else (1, rows + 8)
        tiles.append(cute.smem(x.dtype, cute.Layout((rows, columns), stride)))
        for i in cute.range(tid, rows * columns, 32):
            tiles[-1][i % rows, i // rows] = x[i % rows, i // rows]
    cute.syncthreads()
    a, b, c = (w.load(operand, tile) for operand, tile in zip("ABC", tiles, strict=True))
    for out, found in ((D, w.mma(a, b, w.mma(a, b, c))), (more, w.mma(a, b, w.fill(3.0)))):
        cute.syncthreads()
        w.store(found, tiles[2])
        cute.syncthreads()
        for i in cute.range(tid, m * n, 32):
            out[i % m, i // m] = tiles[2][i % m, i // m]


@cute.kernel
def tile_products(A, B, C, D, mma, serpentine: str = "N"):
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
    cute.gemm(mma, acc, a, b, serpentine=serpentine)
    cute.copy(acc, thr.partition_C(gD))


def multiplied(name, low, high, count=1000, start=0, atoms=(1, 1, 1)):
    """Return D of `count` tiles of random integers, and what NumPy says."""
    mma = cute.make_tiled_mma(name, atoms)
    (m, n, k), atom = mma.tile_shape, mma.atom
    a, b = (default_rng(x).integers(low, high + 1, (x, k, count)) for x in (m, n))
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
    a, b = (default_rng(i).integers(0, 2, (8, 128, 100)) for i in range(2))
    c = default_rng(2).integers(-9, 9, (8, 8, 100)).astype(np.int32)
    d = np.zeros_like(c)
    tile_products(stored(a, "b1"), stored(b, "b1"), c, d, mma)
    differ = a[:, None] != b[None]
    np.testing.assert_array_equal(d, c + differ.sum(2))


WMMA = (
    [(16, 16, 16), (32, 8, 16), (8, 32, 16)],
    [(1, 1, 1), (0, 0, 0), (1, 0, 1)],
    ["f32", "f16"],
)


@covers(ops.WmmaLoad, ops.WmmaStore)
@pytest.mark.parametrize(("shape", "majors", "sums"), quick(in_turn(*WMMA), *WMMA), ids=str)
def test_f29_wmma_loads_multiplies_and_stores(shape, majors, sums):
    """Two products in a row, of integers."""
    (m, n, k), rng = shape, default_rng(0)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    c = rng.integers(-9, 10, (m, n)).astype(cute.dtype(sums).numpy)
    d, more = np.zeros_like(c), np.zeros_like(c)
    wmma_products(a, b, c, d, more, cute.Wmma(shape, sums), majors)
    np.testing.assert_array_equal(d, 2 * plain(a) @ plain(b).T + c)
    np.testing.assert_array_equal(more, plain(a) @ plain(b).T + 3)


@pytest.mark.parametrize("shape", [16, (16, 16), "abc", None])
def test_f29_other_shapes_are_refused(shape):
    with pytest.raises(cute.LayoutError) as caught:
        cute.Wmma(shape)
    assert caught.value.code == "wmma-fragment"
    assert cute.Wmma([16, 16, 16]) == cute.Wmma()


@refuses(ops.WmmaLoad, ops.WmmaStore)
@pytest.mark.parametrize("first", [0, 8])
def test_f29_a_tile_begins_at_a_multiple_of_32_bytes(first):
    @cute.kernel
    def run(D):
        cute.launch(grid=1, block=32)
        held, w = cute.smem("f32", 300), cute.Wmma()
        tile = cute.make_tensor(held.data, cute.Layout((16, 16), (16, 1)))
        moved = cute.make_tensor(held.data.moved(first // 2), tile.layout)
        w.store(w.fill(1.0), moved)
        cute.syncthreads()
        D[cute.thread_idx()] = moved[0, 0]
        w.load("C", moved)

    d = np.zeros(32, np.float32)
    if first:
        with pytest.raises(cute.EmulationError) as caught:
            run(d)
        assert caught.value.code == "emulate-alignment"
    else:
        run(d)
        assert (d == 1).all()


@pytest.mark.parametrize("synchronized", [True, False])
def test_f29_a_fragment_is_of_the_whole_warp(synchronized):
    """What a lane wrote may go to any other lane, and comes from any."""

    @cute.kernel
    def run(D):
        cute.launch(grid=1, block=32)
        tid, w = cute.thread_idx(), cute.Wmma()
        tile = cute.smem("f32", cute.Layout((16, 16), (16, 1)))
        for i in range(8):  # the elements that the emulator gives to the lane
            tile[tid % 16, tid // 16 * 8 + i] = 1.0
        if synchronized:
            cute.syncwarp()
        held = w.load("C", tile)
        cute.syncwarp()
        w.store(held, tile)
        cute.syncwarp()
        D[tid] = tile[tid % 16, 0]

    d = np.zeros(32, np.float32)
    if synchronized:
        run(d)
        assert (d == 1).all()
    else:
        with pytest.raises(cute.EmulationError) as caught:
            run(d)
        assert "race" in caught.value.code


# -- G: threads and warps


def order_of(rows, kernel, *arguments):
    """The (m, n) of each instruction of the one product of a kernel, which has `rows` along M."""
    (op,) = [op for op in cute.trace(kernel, *arguments).ops if isinstance(op, Mma)]
    return [(d % rows, d // rows) for d, _a, _b in op.steps]


def down_and_up(m, n):
    """CUTLASS's order: M inside of N, from the end where n is odd."""
    return [(m - 1 - i if j % 2 else i, j) for j in range(n) for i in range(m)]


@pytest.mark.parametrize("majors", [(1, 1), (1, 0), (0, 1), (0, 0)], ids=str)
def test_g01_one_thread_multiplies_8x8x4(majors):
    mma = cute.make_tiled_mma("UniversalFMA<f32>")

    @cute.kernel
    def run(A, B, C, serpentine: str):
        cute.launch(grid=1, block=1)
        thr = mma.get_slice(cute.thread_idx())
        gA, gB = cute.local_tile(A, (8, 4), (0, 0)), cute.local_tile(B, (8, 4), (0, 0))
        gC = cute.local_tile(C, (8, 8), (0, 0))
        a, b = thr.make_fragment_A(thr.partition_A(gA)), thr.make_fragment_B(thr.partition_B(gB))
        acc = thr.make_fragment_C(thr.partition_C(gC))
        acc.fill(0)
        cute.copy(thr.partition_A(gA), a)
        cute.copy(thr.partition_B(gB), b)
        cute.gemm(mma, acc, a, b, serpentine=serpentine)
        cute.copy(acc, thr.partition_C(gC))

    a, b = operands(default_rng(0), (8, 8, 4), "f32", majors)
    for serpentine in ("M", "N"):
        c = poisoned((8, 8), np.float32)
        run(a, b, c, serpentine)
        np.testing.assert_array_equal(c, reference(a, b))
    assert order_of(8, run, a, b, c, "M") == 4 * down_and_up(8, 8)
    assert order_of(8, run, a, b, c, "N") == 4 * [at[::-1] for at in down_and_up(8, 8)]


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
    a, b = operands(default_rng(0), (64, 64, 32), "f16")
    c = np.zeros((64, 64, 1), np.float32)
    d = np.zeros_like(c)
    arrays = a[..., None], b[..., None], c, d, mma
    tile_products(*arrays, serpentine="M")
    np.testing.assert_array_equal(d[..., 0], reference(a, b))
    order = order_of(4, tile_products, *arrays, "M")
    assert order[2:6] == [(2, 0), (3, 0), (3, 1), (2, 1)]
    assert order == 2 * down_and_up(4, 8)
    along_n = order_of(4, tile_products, *arrays)
    assert along_n[6:10] == [(0, 6), (0, 7), (1, 7), (1, 6)]  # forth and back along N


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
    a, b = np.zeros((16, 8), np.float32), default_rng(0).normal(size=(8, 8)).astype(np.float32)
    low = default_rng(0).integers(0, 9, 16)
    a[np.arange(16), np.arange(16) % 8] = 1 + 2.0**-11 + low * 2.0**-12
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
    x = default_rng(0).integers(-8, 8, (rows, k))
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
