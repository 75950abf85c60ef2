"""GEMM kernels: equal to NumPy exactly on integers and within bounds on random numbers, for all
types, majors and ragged shapes that they take.
"""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from cute_py.errors import EmulationError
from cute_py.kernels import gemm_04_double_buffer as gemm_04
from cute_py.kernels.config import choose, flagship
from cute_py.kernels.gemm_01_naive import gemm_naive
from cute_py.kernels.gemm_02_shared import gemm_shared
from cute_py.kernels.gemm_03_registers import gemm_registers
from cute_py.kernels.gemm_05_tensor_core import gemm_tensor_core
from cute_py.kernels.gemm_06_ldmatrix import gemm_ldmatrix
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.kernels.gemm_08_epilogue import gemm_epilogue
from cute_py.kernels.splitk_serial import gemm_splitk
from tests.emulated.kernel_data import (
    EDGES,
    KINDS,
    MAJORS,
    bits,
    integers,
    operands,
    plain,
    poisoned,
    reference,
    stored,
    sum_type,
)
from tests.sampling import in_turn, pairwise, quick

SIMT_KINDS = ("f32", "f64", "f16", "bf16", "s8", "u8")
TILE = (64, 64)


def run(kernel, a, b, c, **options):
    """C = A * B transposed by one of the kernels."""
    if kernel in (1, 2, 3):
        {1: gemm_naive, 2: gemm_shared, 3: gemm_registers}[kernel](a, b, c)
    elif kernel == 4:
        gemm_04.sgemm_128x128(a, b, c, gemm_04.choose(a, b))
    elif kernel == 5:
        cfg = choose(a, b, TILE, 2, ldmatrix=False, asynchronous=False)
        gemm_tensor_core(a, b, c, cfg)
    elif kernel == 6:
        gemm_ldmatrix(a, b, c, choose(a, b, TILE, 2, asynchronous=False))
    elif kernel == 7:
        gemm_multistage(a, b, c, choose(a, b, TILE, **options))
    elif kernel == 8:
        cfg = choose(a, b, TILE, outputs=[c], **options)
        gemm_epilogue(a, b, c, c, None, 1.0, 0.0, cfg)


def taken(kind, shape, majors):
    """Shape and majors that operands can have: less than a byte fills whole bytes along K."""
    M, N, K = shape
    unit = max(8 // bits(kind), 1)
    return (M, N, -(-K // unit) * unit), majors if unit == 1 else (1, 1)


def require_exact(kernel, kind, shape, majors, out_major=1):
    shape, majors = taken(kind, shape, majors)
    a, b = operands(np.random.default_rng(0), shape, kind, majors)
    c = poisoned(shape[:2], sum_type(kind), out_major)
    run(kernel, a, b, c)
    np.testing.assert_array_equal(c, reference(a, b))


SAMPLE = [
    *pairwise((5, 6, 7, 8), KINDS, MAJORS, EDGES, EDGES, EDGES),
    *pairwise((1, 2, 3, 4), SIMT_KINDS, MAJORS, EDGES, EDGES, EDGES),
]


@pytest.mark.parametrize(("kernel", "kind", "majors", "M", "N", "K"), SAMPLE)
def test_products_of_integers_are_exact(kernel, kind, majors, M, N, K):
    require_exact(kernel, kind, (M, N, K), majors)


KERNELS = range(1, 9)
ODD = ((33, 17, 9), (130, 257, 33), (257, 33, 130), (128, 128, 64), (192, 64, 96))


@pytest.mark.parametrize(("kernel", "shape"), quick(in_turn(KERNELS, ODD), KERNELS, ODD), ids=str)
def test_ragged_and_aligned_products_of_integers_are_exact(kernel, shape):
    k = ODD.index(shape) + kernel
    kind = ("f32", "f64")[k % 2] if kernel < 5 else KINDS[k % len(KINDS)]
    require_exact(kernel, kind, shape, MAJORS[k % 4], out_major=k % 2)


ALL = [
    (kernel, kind, majors)
    for kernel, kind, majors in product(range(1, 9), KINDS, MAJORS)
    if (kernel > 4 or kind in SIMT_KINDS) and (bits(kind) >= 8 or majors == (1, 1))
]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "kind", "majors"), ALL, ids=str)
def test_products_of_all_edge_shapes_are_exact(kernel, kind, majors):
    for shape in product(EDGES, EDGES, EDGES):
        require_exact(kernel, kind, shape, majors)


MIXED = [("s8", "u8"), ("u8", "s8"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("s4", "u4")]


@pytest.mark.parametrize("kinds", MIXED, ids="-".join)
def test_products_of_two_types_are_exact(kinds):
    rng = np.random.default_rng(0)
    a, b = (stored(integers(rng, (n, 90), kind), kind) for n, kind in zip((70, 40), kinds))  # noqa: B905
    c = poisoned((70, 40), sum_type(kinds[0]))
    run(7, a, b, c)
    np.testing.assert_array_equal(c, reference(a, b))


@pytest.mark.parametrize("out", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_sums_are_rounded_once_to_the_type_of_the_result(out):
    a, b = operands(np.random.default_rng(0), (70, 40, 200), "f16")
    for kernel in (5, 6, 7, 8):
        c = np.zeros((70, 40), out)
        run(kernel, a, b, c)
        np.testing.assert_array_equal(c, reference(a, b).astype(np.float32).astype(out))


def test_the_naive_kernel_equals_three_loops():
    """H01."""
    a, b = operands(np.random.default_rng(0), (33, 17, 9), "f32")
    c, loops = poisoned((33, 17), np.float32), np.zeros((33, 17))
    for m, n, k in product(range(33), range(17), range(9)):
        loops[m, n] += a[m, k] * b[n, k]
    run(1, a, b, c)
    np.testing.assert_array_equal(c, loops)
    for kernel in (4, 8):  # CTA, warp and MMA loops
        c = poisoned((33, 17), np.float32)
        run(kernel, a, b, c)
        np.testing.assert_array_equal(c, loops)


# -- random numbers


RANDOM = [(k, x) for k in (1, 4, 7, 8) for x in ("f16", "bf16", "tf32", "f32", "f64", "e4m3")]


@pytest.mark.parametrize(("kernel", "kind"), [x for x in RANDOM if x[0] > 4 or x[1] in SIMT_KINDS])
def test_products_of_random_numbers_are_within_the_bound_of_their_length(kernel, kind):
    """|C - AB| <= K * u * |A||B| for sums of K exact products, each addition rounded to u."""
    rng = np.random.default_rng(0)
    a, b = (stored(rng.normal(size=(n, 129)), kind) for n in (70, 33))
    c = poisoned((70, 33), sum_type(kind))
    run(kernel, a, b, c)
    unit = 2.0**-53 if kind == "f64" else 2.0**-24
    bound = 129 * unit * (np.abs(plain(a)) @ np.abs(plain(b)).T)
    assert (np.abs(c - reference(a, b)) <= (2 if kind == "f64" else 1) * bound).all()


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5, 6, 7, 8])
def test_nan_and_infinity_propagate_to_their_rows_and_columns_alone(kernel):
    kind = "f32" if kernel < 5 else "bf16"
    a, b = operands(np.random.default_rng(0), (70, 40, 33), kind)
    a[3, 5], a[60, 32], b[7, 0], a[9, 1], a[9, 2] = np.nan, np.inf, -np.inf, np.inf, -np.inf
    c = poisoned((70, 40), np.float32)
    with np.errstate(invalid="ignore"):
        expected = reference(a, b).astype(np.float32)
        run(kernel, a, b, c)
    np.testing.assert_array_equal(c, expected)
    assert np.isfinite(expected).sum() == (70 - 3) * 39


@pytest.mark.parametrize("kernel", [3, 4, 5, 7, 8])
def test_nothing_is_read_or_written_around_slices_of_larger_arrays(kernel):
    a, b = operands(np.random.default_rng(0), (80, 50, 60), "f32" if kernel < 5 else "f16")
    room = poisoned((80, 60), np.float32)
    a[:], b[:] = np.nan, np.nan
    a[5:75, 4:57], b[1:44, 4:57] = 2, 3
    run(kernel, a[5:75, 4:57], b[1:44, 4:57], room[5:75, 7:50])
    assert (room[5:75, 7:50] == 2 * 3 * 53).all()
    assert np.isnan(room).sum() == room.size - 70 * 43


@pytest.mark.parametrize("order", ["reversed", 5])
@pytest.mark.parametrize("kernel", [2, 3, 4, 5, 6, 7, 8])
def test_the_order_of_warps_changes_nothing(kernel, order, monkeypatch):
    run_plan = cute.emulate.emulate
    monkeypatch.setattr(
        cute.emulate, "emulate", lambda plan, *args: run_plan(plan, *args, order=order)
    )
    require_exact(kernel, "f32" if kernel < 5 else "f16", (70, 40, 100), (1, 0))


# -- one by one


@pytest.mark.parametrize(
    ("majors", "kind"),
    quick(in_turn(MAJORS, ("f32", "f16")), MAJORS, ("f32", "f16")),
    ids=str,
)
def test_two_stages_through_registers_or_cp_async(kind, majors):
    """H03."""
    a, b = operands(np.random.default_rng(0), (130, 70, 50), kind, majors)
    for asynchronous in (False, True):
        c = poisoned((130, 70), np.float32)
        run(8, a, b, c, stages=2, asynchronous=asynchronous)
        np.testing.assert_array_equal(c, reference(a, b))


@pytest.mark.parametrize("kernel", [7, 8])
@pytest.mark.parametrize("tiles", [1, 2, 3, 7])
def test_any_number_of_stages_multiplies_each_tile_once(kernel, tiles):
    """H04, H12, H13: sums of distinct powers of two would tell a tile left out or taken twice."""
    K = 32 * tiles
    a, b = np.zeros((64, K), np.float16), np.ones((64, K), np.float16)
    a[:, ::32] = 2.0 ** np.arange(tiles)
    for stages in (2, 3, 4, 5):
        c = poisoned((64, 64), np.float32)
        run(kernel, a, b, c, stages=stages)
        assert (c == 2**tiles - 1).all()


@pytest.mark.parametrize("tiles", [1, 2, 3, 7])
@pytest.mark.parametrize("kernel", [4, 8])
def test_a_double_buffer_multiplies_each_tile_once(kernel, tiles):
    """H12."""
    step = 8 if kernel == 4 else 16
    a, b = np.zeros((64, step * tiles), np.float32), np.ones((64, step * tiles), np.float32)
    a[:, ::step] = 2.0 ** np.arange(tiles)
    c = poisoned((64, 64), np.float32)
    run(kernel, a, b, c, stages=2, asynchronous=False)
    assert (c == 2**tiles - 1).all()


@pytest.mark.parametrize("majors", MAJORS, ids=str)
def test_sgemm_128x128_is_exact(majors):
    """H16."""
    require_exact(4, "f32", (256, 256, 64) if majors[0] else (257, 130, 33), majors)


def test_sgemm_has_the_shape_of_its_sources():
    """H06: 256 threads, warps of 32x64 in 4x8 lanes of 8x8 elements, in vectors of 4."""
    mma = cute.make_tiled_mma(
        "UniversalFMA<f32>", gemm_04.LANES, (gemm_04.ROWS, gemm_04.COLUMNS, 1)
    )
    assert mma.size() == 256
    assert mma.tile_shape == (128, 128, 1)
    tv = mma.get_layoutC_TV()
    places = [[int(tv((t, v))) for v in range(64)] for t in range(32)]
    rows, columns = ({x % 128 for p in places for x in p}, {x // 128 for p in places for x in p})
    assert (rows, columns) == (set(range(32)), set(range(64)))
    assert [x % 128 for x in places[0][:8]] == [0, 1, 2, 3, 16, 17, 18, 19]


def test_sgemm_is_read_in_vectors_without_bank_conflicts():
    """H17: both fragments by 128-bit loads, and stores that padding keeps apart."""
    c = poisoned((128, 128), np.float32)
    for majors in ((0, 0), (1, 1)):
        a, b = operands(np.random.default_rng(0), (128, 128, 16), "f32", majors)
        plan = cute.trace(gemm_04.sgemm_128x128, a, b, c, gemm_04.choose(a, b))
        report = cute.emulate(plan, a, b, c, report=True)
        assert report.total.conflicts == 0
        widths = {
            line.rpartition("] x")[2][:1] for line in str(plan).splitlines() if "load s" in line
        }
        assert widths == {"4"}


def test_the_flagship_is_cutes_kernel():
    """N18, H10: 3 stages of 128x128x32 in 49152 bytes, all copies and products as promised."""
    a, b = operands(np.random.default_rng(0), (256, 128, 160), "f16")
    c = poisoned((256, 128), np.float32)
    for stages, size in ((2, 32_768), (3, 49_152), (4, 65_536)):
        plan = cute.trace(gemm_multistage, a, b, c, flagship(stages=stages))
        assert plan.smem_bytes == size
        if stages != 3:
            continue
        report = cute.emulate(plan, a, b, c, report=True)
        np.testing.assert_array_equal(c, reference(a, b))
        assert report.total.conflicts == 0
        assert report.total.mma == 256 * 128 * 160 // (16 * 8 * 16)


@cute.kernel
def fragments(A, out):
    """out[thread, value] = what the thread's fragment of A (32,16) holds."""
    cute.launch(grid=1, block=128)
    mma = flagship().tiled_mma()
    part = mma.get_slice(cute.thread_idx()).partition_A(cute.local_tile(A, (32, 16), (0, 0)))
    held = mma.get_slice(cute.thread_idx()).make_fragment_A(part)
    cute.copy(part, held)
    for v in range(8):
        out[cute.thread_idx(), v] = held[v]


def test_register_fragments_hold_what_the_atom_says():
    """N19: of a 32x16 tile of A, 8 f16 a thread."""
    a = np.arange(32 * 16, dtype=np.float16).reshape(32, 16)
    out = poisoned((128, 8), np.float16)
    fragments(a, out)
    mma = flagship().tiled_mma()
    assert mma.partition_shape_A((32, 16)) == ((2, 2, 2), 1, 1)
    tv = mma.get_layoutA_TV()
    places = np.array([[int(tv((t, v))) for v in range(8)] for t in range(128)])
    np.testing.assert_array_equal(out, a[places % 32, places // 32])


@pytest.mark.parametrize(("width", "name"), [(128, "cp.async.cg"), (64, "cp.async.ca")])
def test_cp_async_of_16_bytes_bypasses_the_first_cache(width, name):
    """H05."""
    a = np.zeros((64, 64 if width == 128 else 68), np.float16)
    op = choose(a, a).operands()[0].g2s.atom.op
    assert op.src_bits == width
    names = {field: ["r"] * operand.count for field, operand in op.operands}
    assert op.instruction(**names).startswith(name)


@pytest.mark.parametrize("kind", ["tf32", "f16"])
def test_what_lies_beyond_k_is_zero_in_shared_memory(kind):
    """H14: with zero fill of cp.async (4-byte rows) and of loads through registers (2 bytes)."""
    a, b = operands(np.random.default_rng(0), (64, 64, 33), kind)
    cfg = choose(a, b, TILE)
    assert (cfg.operands()[0].g2s.atom.op.completion == "cp_async") == (kind == "tf32")
    c = poisoned((64, 64), np.float32)
    gemm_multistage(a, b, c, cfg)
    np.testing.assert_array_equal(c, reference(a, b))


# -- epilogue


KINDS_OF_SUMS = ("f16", "f64", "s8", "f32"), (None, "relu"), (False, True)


@pytest.mark.parametrize(
    ("kind", "activation", "has_bias"), quick(pairwise(*KINDS_OF_SUMS), *KINDS_OF_SUMS)
)
def test_the_epilogue_scales_adds_and_clips(kind, activation, has_bias):
    rng = np.random.default_rng(0)
    a, b = operands(rng, (70, 40, 50), kind)
    wide = np.float64 if kind == "f64" else np.float32
    c = integers(rng, (70, 40), "f32").astype(wide)
    bias = integers(rng, 40, "f32").astype(wide) if has_bias else None
    d = poisoned((70, 40), wide)
    cfg = choose(a, b, TILE, outputs=(c, d))
    gemm_epilogue(a, b, c, d, bias, 0.5, -2.0, cfg, activation)
    expected = 0.5 * reference(a, b) - 2.0 * c + (0 if bias is None else bias)
    np.testing.assert_array_equal(d, np.maximum(expected, 0) if activation else expected)


def test_the_epilogue_reads_c_only_where_beta_is_not_zero():
    a, b = operands(np.random.default_rng(0), (64, 64, 32), "f16")
    c, d = poisoned((64, 64), np.float32), poisoned((64, 64), np.float32)
    cfg = choose(a, b, TILE, outputs=(c, d))
    gemm_epilogue(a, b, c, d, None, 1.0, 0.0, cfg)
    np.testing.assert_array_equal(d, reference(a, b))
    gemm_epilogue(a, b, c, d, None, 1.0, 1.0, cfg)
    assert np.isnan(d).all()


def test_the_epilogue_rounds_to_integers_to_nearest_even():
    a, b = np.full((64, 32), 0.25, np.float16), np.zeros((64, 32), np.float16)
    b[:, 0] = np.arange(64)
    d = np.zeros((64, 64), np.int32)
    cfg = choose(a, b, TILE, outputs=(d, d))
    gemm_epilogue(a, b, d, d, None, 2.0, 0.0, cfg)
    np.testing.assert_array_equal(d, np.tile(np.rint(np.arange(64) / 2), (64, 1)))


def test_the_epilogue_uses_the_memory_of_the_tiles_again():
    a, b = operands(np.random.default_rng(0), (128, 128, 64), "f16")
    d = poisoned((128, 128), np.float32)
    cfg = choose(a, b, (128, 128), outputs=[d])
    plan = cute.trace(gemm_epilogue, a, b, d, d, None, 1.0, 0.0, cfg)
    tiles, results = 3 * 2 * 128 * 32 * 2, (127 * 136 + 128) * 4
    assert plan.smem_bytes == max(tiles, results)


# -- serial split-K


@pytest.mark.parametrize("order", ["forward", "reversed", 3])
@pytest.mark.parametrize("splits", [1, 2, 5])
def test_blocks_add_their_parts_of_k_in_turn(splits, order):
    a, b = operands(np.random.default_rng(0), (70, 40, 200), "f16")
    cfg = choose(a, b, TILE, 2, ldmatrix=False, asynchronous=False)
    c, turns = poisoned((70, 40), np.float32), np.zeros((2, 1), np.int32)
    plan = cute.trace(gemm_splitk, a, b, c, turns, splits, cfg)
    for _launch in range(2):
        cute.emulate(plan, a, b, c, turns, order=order)
        np.testing.assert_array_equal(c, reference(a, b))
        assert not turns.any()


def test_split_k_gives_the_same_bits_in_any_order():
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(64, 300)).astype(np.float16) for _ in range(2))
    cfg = choose(a, b, TILE, 2, ldmatrix=False, asynchronous=False)
    results = []
    for order in ("forward", "reversed", 1, 2):
        c, turns = poisoned((64, 64), np.float32), np.zeros((1, 1), np.int32)
        plan = cute.trace(gemm_splitk, a, b, c, turns, 4, cfg)
        cute.emulate(plan, a, b, c, turns, order=order)
        results.append(c.tobytes())
    assert len(set(results)) == 1


def test_a_turn_that_never_comes_is_reported_with_the_line_that_waits():
    a, b = operands(np.random.default_rng(0), (64, 64, 64), "f16")
    cfg = choose(a, b, TILE, 2, ldmatrix=False, asynchronous=False)
    c, turns = poisoned((64, 64), np.float32), np.full((1, 1), 7, np.int32)
    with pytest.raises(
        EmulationError, match=r"turns == bid_z, which is 7 \(splitk_serial\.py:\d+\)"
    ):
        gemm_splitk(a, b, c, turns, 2, cfg)
