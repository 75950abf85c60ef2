"""Attention through shared memory: rows M01 to M27 of the inventory, with all checks."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import fused_attention as file
from cute_py.kernels.attention import LOG2_E
from cute_py.kernels.flash_attention import multiply
from cute_py.kernels.fused_attention import Attention, choose, fused_attention, reference
from tests.emulated.test_kernels_ranges import code_lines
from tests.sampling import in_turn, quick

ORDERS = ("forward", "reversed", 0)


def inputs(shape, kind="f16", seed=0):
    """Q, K and V of (batch, heads, queries, keys, dim, dim of V)."""
    b, h, m, n, d, e = shape
    rng, dtype = np.random.default_rng(seed), cute.dtype(kind).numpy
    return [rng.normal(0, 1, s).astype(dtype) for s in ((b, h, m, d), (b, h, n, d), (b, h, n, e))]


def poisoned(shape, dtype=np.float32):
    return np.full(shape, np.nan, dtype)


def run(q, k, v, scale=0.125, order="forward", longest=None, progress=None, o=None, **options):
    """Return O and the logs of sums."""
    b, h, m = q.shape[:3]
    o = poisoned((b, h, m, v.shape[3]), q.dtype) if o is None else o
    longest = m if longest is None else longest
    starts = options.get("starts", (None, None))
    sequences = b if starts[0] is None else len(starts[0]) - 1
    options["lse"] = poisoned((sequences, h, longest))
    usual = (64, 64) if max(q.shape[3], v.shape[3]) <= 64 else (32, 128)
    if v.shape[3] > options.get("tile", usual)[1]:
        options["accum"] = poisoned(o.shape)
    x = choose(q, k, v, o, **options)
    plan = cute.trace(fused_attention, x, scale, longest)
    arrays = [y for y in (q, k, v, o, x.bias, x.lse, x.accum, *starts) if y is not None]
    cute.emulate(plan, *arrays, scale, longest, order=order, progress=progress)
    return o, x.lse


def check(q, k, v, scale=0.125, order="forward", causal=False, bias=None, **options):
    o, lse = run(q, k, v, scale, order, causal=causal, bias=bias, **options)
    wanted, logs = reference(q, k, v, scale, causal, 0 if bias is None else bias)
    most = 2e-3 if q.dtype == np.float16 else 1.6e-2
    assert np.abs(o.astype(np.float64) - wanted).max() < most
    np.testing.assert_allclose(lse, logs, rtol=0, atol=1e-4)
    return o


def scored(table):
    """Q, K, V and a bias that gives the scores of a table (queries, keys); V has unit rows."""
    m, n = table.shape
    q, k = np.zeros((1, 1, m, 64), np.float16), np.zeros((1, 1, n, 64), np.float16)
    v = np.eye(n, 64, dtype=np.float16)[None, None]
    return q, k, v, table.astype(np.float32)[None, None]


# -- the formula, shapes and strides

DIMS = [(40, 24), (64, 64), (65, 100)]
ROWS = [(1, 1), (64, 64), (65, 70), (33, 130), (130, 40)]
AXES = [*ROWS, *ROWS], DIMS, (False, True), ("f16", "bf16"), ORDERS


@pytest.mark.parametrize(
    ("rows", "dims", "causal", "kind", "order"),
    quick(in_turn(*AXES), *AXES),
)
def test_m01_m03_attention_is_that_of_the_formula(rows, dims, causal, kind, order):
    check(*inputs((1, 2, *rows, *dims), kind), 0.125, order, causal)


def test_m02_blocks_are_those_of_queries_heads_and_batch():
    totals = set()
    run(*inputs((3, 2, 65, 20, 64, 64)), progress=lambda done, total: totals.add(total))
    assert totals == {2 * 2 * 3}


def test_m04_rows_may_have_any_strides():
    q, k, v = inputs((2, 2, 40, 50, 64, 64))
    wanted, logs = run(q, k, v)
    padded = [
        np.pad(x, ((0, 1), (0, 2), (0, 3), (0, 8)))[:2, :2, : x.shape[2], :64] for x in (q, k, v)
    ]
    o, lse = run(*padded)
    np.testing.assert_array_equal(o, wanted)
    np.testing.assert_array_equal(lse, logs)


TILES = [(64, 32), (32, 64), (64, 64), (32, 128), (64, 128)]


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_m05_m16_a_query_sees_the_keys_up_to_its_own(tile):
    """Also where a tile has more queries than keys, so that several tiles of keys are masked."""
    q, k, v, _bias = scored(np.zeros((60, 60)))
    o, lse = run(q, k, v, 1.0, ORDERS[TILES.index(tile) % 3], causal=True, tile=tile)
    np.testing.assert_array_equal(o[0, 0, :, :60] != 0, np.tri(60, dtype=bool))
    np.testing.assert_array_equal(np.rint(np.exp(lse[0, 0])), np.arange(1, 61))


@pytest.mark.parametrize("keys", [1, 63, 65, 127])
def test_m17_keys_beyond_the_last_have_no_weight(keys):
    _o, lse = run(*inputs((1, 1, 20, keys, 64, 64)), scale=0.0, order=ORDERS[keys % 3])
    np.testing.assert_array_equal(np.rint(np.exp(lse)), keys)


# -- the products


def test_m06_scores_are_exact():
    """Head h has a bias that leaves key h alone, so that its log of sums is the score."""
    rng, n = np.random.default_rng(0), 12
    q, k = (rng.integers(-4, 5, (1, 1, n, 64)).astype(np.float16) for _i in range(2))
    bias = np.where(np.eye(n, dtype=bool), 0, -np.inf).astype(np.float32)[None, :, None]
    bias = np.broadcast_to(bias, (1, n, n, n))
    q, k, v = (np.broadcast_to(x, (1, n, n, 64)) for x in (q, k, k))
    _o, lse = run(q, k, v, 1.0, bias=bias)
    wanted = q[0, 0].astype(np.float64) @ k[0, 0].astype(np.float64).T
    np.testing.assert_array_equal(np.rint(lse[0].T), wanted)
    assert np.abs(lse[0].T - wanted).max() < 1e-3


@pytest.mark.parametrize("order", ORDERS)
def test_m07_the_second_product_takes_the_first_in_f16(order):
    """Weights of 1 and 1/2 with the sum 64: all of O is exact."""
    rng, scale = np.random.default_rng(0), np.float32(np.log(2))
    assert scale * np.float32(LOG2_E) == 1
    halves = np.zeros((40, 64), bool)  # dims 0 to 31 are those of two keys, the others of one
    for row in halves:
        two = rng.integers(16, 33)
        row[rng.choice(32, two, replace=False)] = True
        row[32 + rng.choice(32, 64 - 2 * two, replace=False)] = True
    k = np.eye(64, dtype=np.float16)[np.arange(96) % 64]
    v = rng.integers(-8, 9, (96, 64)).astype(np.float16)
    o, _lse = run(*(x[None, None] for x in (-halves.astype(np.float16), k, v)), scale, order)
    weights = np.where(halves[:, np.arange(96) % 64], 0.5, 1)
    np.testing.assert_array_equal(o[0, 0], (weights @ v / 64).astype(np.float16))


def test_m15_one_key_has_all_the_weight():
    rng = np.random.default_rng(0)
    q, v = np.eye(64, dtype=np.float16), rng.integers(-99, 100, (64, 64)).astype(np.float16)
    chosen = rng.permutation(64)
    k = np.float16(64) * q[chosen]
    o, _lse = run(*(x[None, None] for x in (q, k, v)), 1.0)
    np.testing.assert_array_equal(o[0, 0][chosen], v)


def test_m18_values_may_be_copied_during_the_softmax():
    given = inputs((1, 1, 70, 150, 64, 64))
    early, late = (run(*given, causal=True, preload=x)[0] for x in (True, False))
    np.testing.assert_array_equal(early, late)


@pytest.mark.parametrize("dim", [64, 128, 256, 300])
def test_m19_m24_columns_of_v_beyond_a_tile_are_summed_in_memory(dim):
    check(*inputs((1, 1, 40, 150, 64, dim)), order=ORDERS[dim % 3], causal=True)


def test_m19_sums_that_do_not_fit_need_an_array():
    q, k, v = inputs((1, 1, 8, 8, 64, 129))
    with pytest.raises(cute.CuteError, match="129 columns") as caught:
        choose(q, k, v, v)
    assert caught.value.code == "attention-accum"


def test_m24_tiles_by_the_dims():
    for dim, tile in ((64, (64, 64)), (65, (32, 128))):
        q, k, v = inputs((1, 1, 8, 8, dim, 64))
        assert choose(q, k, v, v).scores.tile[:2] == tile


# -- the softmax


def test_m08_m21_softmax_and_the_log_of_sums():
    table = np.array([[0.1, 0.2, 0.3, 0.4]])
    q, k, v, bias = scored(table)
    o, lse = run(q, k, v, bias=bias)
    np.testing.assert_allclose(o[0, 0, 0, :4], np.exp(table[0]) / np.exp(table).sum(), rtol=1e-3)
    assert abs(lse[0, 0, 0] - 1.642536) < 1e-6


def test_m09_a_greater_score_rescales_what_was_summed():
    table = np.full((1, 66), -np.inf)
    table[0, [0, 1, 64, 65]] = 0.1, 0.2, 0.3, 0.4
    q, k, v, bias = scored(table)
    (_o, first), (o, both) = (
        run(q, k[:, :, :n], v[:, :, :n], bias=bias[..., :n]) for n in (64, 66)
    )
    assert abs(np.exp(first.item() - 0.2) - 1.904837) < 1e-6
    assert abs(np.exp(both.item() - 0.4) - 3.464386) < 2e-6
    assert abs(np.exp(both.item() - 0.4) - 1.904837 - 1.559549) < 2e-6
    np.testing.assert_allclose(o[0, 0, 0, :2], np.exp([-0.3, -0.2]) / 3.464386, rtol=1e-3)


@pytest.mark.parametrize("order", ORDERS)
def test_m09_m23_a_row_without_keys_is_zero(order):
    """The state starts with the maximum -infinity and the sum 0, and -inf - -inf is no NaN."""
    table = np.full((40, 70), -np.inf)
    table[::2] = np.random.default_rng(0).normal(size=(20, 70))
    q, k, v, bias = scored(table)
    o, lse = run(q, k, v, bias=bias, order=order)
    assert (o[0, 0, 1::2] == 0).all()
    assert (lse[0, 0, 1::2] == -np.inf).all()
    assert np.isfinite(lse[0, 0, ::2]).all()


@pytest.mark.parametrize("order", ORDERS)
def test_m14_m20_sums_in_registers_are_rescaled(order):
    """Scores that rise by 30 from tile to tile; with values of 1, O is 1."""
    table = np.linspace(0, 90, 200) + np.zeros((33, 1))
    q, k, _v, bias = scored(table)
    check(q, k, np.random.default_rng(0).normal(size=(1, 1, 200, 64)).astype(np.float16), bias=bias)
    o, _lse = run(q, k, np.ones((1, 1, 200, 64), np.float16), bias=bias, order=order)
    np.testing.assert_allclose(o, 1, atol=1e-3)


def test_m10_m11_rows_of_accumulators():
    """Each element of a tile is in one row of one thread; the sums of rows are exact."""

    @cute.kernel
    def visit(X, visits, sums, mma):
        cute.launch(grid=1, block=mma.size())
        thr = mma.get_slice(cute.thread_idx())
        place = thr.partition_C(cute.make_identity_tensor((64, 64)))
        acc = cute.make_rmem_tensor(mma.partition_shape_C((64, 64)), "f32")
        cute.copy(thr.partition_C(cute.local_tile(X, (64, 64), (0, 0))), acc)
        found = cute.warp_reduce("add", cute.reduce("add", mma.rows_C(acc), mode=1), width=4)
        rows = [place[(0, r), i, 0][0] for i in range(2) for r in range(2)]
        for i in range(cute.size(acc)):
            row, column = place[i]
            cute.atomic("add", cute.local_tile(visits, (1, 1), (row, column)), 1)
        with cute.when(cute.lane_idx() % 4 == 0):
            for i, row in enumerate(rows):
                sums[row, thr.thr_vmnk[2]] = found[i]

    q = np.zeros((1, 1, 64, 64), np.float16)
    x = np.random.default_rng(0).integers(-9, 10, (64, 64)).astype(np.float32)
    visits, sums = np.zeros((64, 64), np.int32), poisoned((64, 2))
    visit(x, visits, sums, choose(q, q, q, q).scores.tiled_mma())
    assert (visits == 1).all()
    np.testing.assert_array_equal(sums.sum(1), x.sum(1))


def test_m13_exp_by_exp2():
    @cute.kernel
    def exp(X, out):
        cute.launch(grid=1, block=128)
        tid = cute.thread_idx()
        out[tid] = cute.exp2(X[tid] * LOG2_E)

    x, out = np.linspace(-1, 0, 128, dtype=np.float32), poisoned(128)
    exp(x, out)
    wanted = np.exp(x.astype(np.float64))
    assert (np.abs(out - wanted) <= 2 * np.spacing(wanted.astype(np.float32))).all()


# -- options


@pytest.mark.parametrize(("causal", "order"), [(False, "forward"), (True, "reversed"), (False, 0)])
def test_m22_sequences_of_any_length_equal_runs_of_their_own(causal, order):
    lengths = np.array([[1, 64], [7, 1], [64, 130], [0, 3], [130, 7]])
    starts = np.zeros((6, 2), np.int32)
    starts[1:] = lengths.cumsum(0)
    queries, keys = starts[-1]
    q, k, v = inputs((1, 2, queries, keys, 64, 64))
    given = [np.ascontiguousarray(x) for x in starts.T]
    o, lse = run(q, k, v, 0.125, order, longest=130, causal=causal, starts=given)
    for b in range(5):
        (m, n), (i, j) = lengths[b], starts[b]
        own, logs = reference(
            q[:, :, i : i + m], k[:, :, j : j + n], v[:, :, j : j + n], 0.125, causal
        )
        assert np.abs(o[:, :, i : i + m] - own).max(initial=0) < 2e-3
        np.testing.assert_allclose(lse[b, :, :m], logs[0], atol=1e-4)
        assert np.isnan(lse[b, :, m:]).all()
    m, n = lengths[2]
    i, j = starts[2]
    alone, _lse = run(q[:, :, i : i + m], k[:, :, j : j + n], v[:, :, j : j + n], causal=causal)
    np.testing.assert_array_equal(o[:, :, i : i + m], alone)


def test_m25_misaligned_arrays_are_copied_in_narrower_vectors():
    given = inputs((1, 1, 40, 70, 64, 64))
    wanted, _lse = run(*given)
    moved = []
    for x in given:
        memory = np.zeros(x.size + 8, x.dtype)
        part = memory[1 : 1 + x.size].reshape(x.shape)
        part[...] = x
        moved.append(part)
    assert choose(*moved, wanted).scores.a.vector == 1
    np.testing.assert_array_equal(run(*moved)[0], wanted)


def test_m26_a_bias_is_added_to_the_scores():
    q, k, v = inputs((2, 2, 40, 70, 64, 64))
    zero = np.broadcast_to(np.float32(0), (2, 2, 40, 70))
    np.testing.assert_array_equal(run(q, k, v)[0], run(q, k, v, bias=zero)[0])


@pytest.mark.parametrize(("causal", "order"), [(False, "forward"), (True, "reversed"), (False, 0)])
def test_m26_a_bias_may_be_shared_by_heads(causal, order):
    """A row of a mask for each batch: strides of 0 for heads and queries."""
    q, k, v = inputs((2, 2, 40, 70, 64, 64))
    mask = np.random.default_rng(1).normal(size=(2, 1, 1, 70)).astype(np.float16)
    check(q, k, v, 0.125, order, causal, np.broadcast_to(mask, (2, 2, 40, 70)))


def test_m26_a_mask_of_bytes_says_which_keys_are_seen():
    q, k, v = inputs((1, 2, 33, 70, 40, 24))
    seen = np.random.default_rng(0).random((1, 2, 33, 70)) > 0.4
    seen[:, :, 5] = False
    o, lse = run(q, k, v, bias=seen.view(np.uint8))
    wanted, logs = run(q, k, v, bias=np.where(seen, 0, -np.inf).astype(np.float32))
    np.testing.assert_array_equal(o, wanted)
    np.testing.assert_array_equal(lse, logs)


def test_mistakes_are_errors():
    """None of them is computed as if it were something else."""
    q, k, v = inputs((1, 2, 20, 50, 24, 24))
    mask = np.ones((1, 2, 20, 50), bool)
    wrong = {
        "a mask of bool": ((q, k, v), {"bias": mask}),
        "fewer values than keys": ((q, k, v[:, :, :49]), {}),
        "other columns of keys": ((q, k[..., :16], v), {}),
        "fewer heads of keys": ((q, k[:, :1], v[:, :1]), {}),
        "floats of 32 bits": ([x.astype(np.float32) for x in (q, k, v)], {}),
        "longest below the queries": ((q, k, v), {"longest": 19}),
        "a bias of another shape": ((q, k, v), {"bias": mask[..., :49].view(np.uint8)}),
    }
    for name, (arrays, named) in wrong.items():
        with pytest.raises(cute.CuteError) as caught:
            run(*arrays, **named)
        assert "fused_attention" in str(caught.value), name


def test_m27_heads_may_come_before_or_after_rows():
    q, k, v = inputs((2, 3, 40, 50, 64, 64))
    wanted, _lse = run(q, k, v)
    rows_first = [
        np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v, poisoned(q.shape, q.dtype))
    ]
    q, k, v, o = (x.swapaxes(1, 2) for x in rows_first)
    run(q, k, v, o=o)
    np.testing.assert_array_equal(rows_first[3], wanted.swapaxes(1, 2))


def test_all_orders_give_the_same_bits():
    given = inputs((1, 1, 70, 150, 64, 64))
    found = [run(*given, order=order)[0] for order in ORDERS]
    assert all((found[0] == x).all() for x in found)


def test_the_kernel_is_short():
    parts = (fused_attention, file.rows_of, file.gather, Attention, choose)
    assert code_lines(*parts, multiply, file.mask) <= 150
