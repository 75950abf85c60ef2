"""K split among blocks of one kernel, in turn and by shares; products in a loop over the batch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import _
from cute_py.kernels.config import choose_config
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm_split import gemm_split
from cute_py.kernels.gemm_split_sm90 import gemm_cooperative_split
from cute_py.kernels.splits import Split, Sums, workspace_of
from cute_py.ops.without_gpu import call_on, gpu_of
from tests.emulated.kernel_data import poisoned
from tests.sampling import fewer, quick

TILE, WARPS = (8, 8, 8), (4, 8)  # one warp: many tiles cost little
ORDERS = ("forward", "reversed", 0, 1)
M, N = 37, 52  # 5x7 tiles


def split_product(split, shape, order="forward", launches=1, checks=True):
    """Multiply whole numbers by a kernel of small tiles; the memory is reused."""
    (m, n, k), rng = shape, np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float32) for rows in (m, n))
    for found in products(split, a, b, order, launches, checks):
        np.testing.assert_array_equal(found, a @ b.T)


def arguments(split, a, b):
    """Return the arguments of a product, with memory for the sums that is not cleared."""
    (m, k), n = a.shape, len(b)
    usual = choose_config(m, n, k, "f32", alignment=4)
    config = replace(usual, tile=TILE, warps=WARPS, stages=2, parts=split)
    wanted = workspace_of(split, TILE, -(-m // TILE[0]) * -(-n // TILE[1]))
    sums, locks = np.full(tuple(wanted), np.nan, np.float32), np.zeros(wanted.slots, np.int32)
    d = poisoned((m, n), np.float32)
    return (a, b, sums, locks, None, None, d, 1.0, 0.0), (config, LinearCombination())


def products(split, a, b, order="forward", launches=1, checks=True):
    """Yield the products of launches that share a workspace."""
    given, statics = arguments(split, a, b)
    plan = cute.trace(gemm_split, *given, *statics)
    given = [x for x in given if x is not None]
    locks, d = given[3:5]
    for _launch in range(launches):  # the locks are zero again after each
        d.fill(np.nan)
        cute.emulate(plan, *given, order=order, checks=checks)
        assert not locks.any()
        yield d


@pytest.mark.parametrize(
    ("split", "shape"),
    [
        (Split("serial", 3), (8, 8, 40)),
        (Split("stream", 3), (8, 16, 40)),
        (Split("stream", 4), (8, 24, 20)),
        (Split("stream", 5), (8, 8, 40)),  # blocks between the first and the last of a tile
    ],
    ids=str,
)
def test_every_order_of_the_threads_gives_the_same_bits(split, shape):
    (m, n, k), rng = shape, np.random.default_rng(0)
    a, b = (rng.normal(size=(rows, k)).astype(np.float32) for rows in (m, n))
    given, statics = arguments(split, a, b)
    found = cute.check_orders(gemm_split, *given, *statics)
    assert (found.proved, found.classes, found.bounded) == (True, 1, ())


@pytest.mark.parametrize("splits", quick([(3,), (20,)], range(1, 21)))
def test_i09_slices_of_k_add_up_in_turn(splits):
    split_product(Split("serial", splits), (12, 8, 20 * 8 - 5), launches=1 + (splits == 3))


def test_i08_empty_slices_pass_the_lock():
    """Of 7 tiles of K the first three of 5 slices have two, the fourth has one, the last none."""
    found = [cute.cutlass2.k_partition(56, 8, 5, z) for z in range(5)]
    assert found == [(0, 16), (16, 32), (32, 48), (48, 56), (56, 56)]
    split_product(Split("serial", 5), (8, 8, 56), order="reversed")


@pytest.mark.parametrize("blocks", [8, 13, 132])
def test_i19_shares_of_5x7_tiles(blocks):
    split_product(Split("stream", blocks), (M, N, 20), checks=blocks < 132)


@pytest.mark.parametrize(
    ("how", "order"), quick([("stream", "reversed"), ("serial", 0)], ("stream", "serial"), ORDERS)
)
def test_blocks_in_any_order_reuse_a_workspace(how, order):
    split_product(Split(how, 4), (16, 24, 36), order, launches=2)


@pytest.mark.slow
@fewer(10)
@given(
    st.sampled_from(["serial", "stream"]),
    st.integers(1, 12),
    *[st.integers(1, 40)] * 3,
    st.sampled_from(ORDERS),
)
def test_any_split_of_any_product_is_exact(how, count, m, n, k, order):
    split_product(Split(how, count), (m, n, k), order)


@pytest.mark.parametrize("how", ["serial", "stream"])
def test_sums_are_added_in_the_order_of_k(how):
    """Each other order gives one of the two columns another sum."""
    large = np.float32(1e8)
    a, b = np.ones((1, 24), np.float32), np.zeros((2, 24), np.float32)
    b[0, ::8], b[1, ::8] = (1, large, -large), (large, -large, 1)
    for found in products(Split(how, 3), a, b):
        assert found.tolist() == [[0, 1]]


# -- K30 to K32: the sums in memory


def test_k30_the_sums_of_a_block_of_stream_k():
    found = workspace_of(Split("stream", 132), (128, 128, 32), 35)
    fragments = 128 * 128 // 128  # of f32, of a thread of 128
    assert found.slots == 132
    assert found.elements == 2 * 128 * fragments
    assert found.elements * 4 == 131072
    assert workspace_of(Split("serial", 4), (128, 128, 32), 35) == (35, 128 * 128)
    assert workspace_of(Split("parallel", 4), (128, 128, 32), 35) is None


PEERS, VALUES = 4, 8


@cute.kernel
def exchange(own: cute.Tensor, partial: cute.Tensor, out: cute.Tensor):
    """Share the sums of three, as blocks do; add up these, and then those of the fourth."""
    cute.launch(grid=1, block=32)
    mma = cute.make_tiled_mma("UniversalFMA<f32,f32,f32,f32>", cute.Layout((4, 8, 1)))
    thr = mma.get_slice(cute.thread_idx())
    result = thr.partition_C(cute.local_tile(out, (16, 16), (0, 0)))
    acc = thr.make_fragment_C(result)
    sums = Sums(mma, partial, cute.f32)
    for peer in range(PEERS - 1):
        cute.copy(thr.partition_C(cute.local_tile(own[peer, _, _], (16, 16), (0, 0))), acc)
        sums.share(acc, peer, int(peer > 0))
    cute.syncthreads()
    cute.copy(thr.partition_C(cute.local_tile(own[PEERS - 1, _, _], (16, 16), (0, 0))), acc)
    sums.add(acc, 0, cute.block_idx() + PEERS - 1)
    cute.copy(acc, result)


def test_k31_k32_sums_are_shared_by_stripes_and_reduced_in_order():
    rng = np.random.default_rng(0)
    own = rng.normal(size=(PEERS, 16, 16)).astype(np.float32)
    partial = np.full((PEERS, 2 * 32 * VALUES), np.nan, np.float32)
    out = poisoned((16, 16), np.float32)
    exchange(own, partial, out)
    np.testing.assert_array_equal(out, ((own[0] + own[1]) + own[2]) + own[3])
    thread = np.stack([own[:, i % 4 :: 4, i // 4 :: 8].transpose(0, 2, 1) for i in range(32)], 1)
    image = thread.reshape(PEERS, 32, VALUES // 4, 4).transpose(0, 2, 1, 3)  # stripe, thread, 4
    sets = partial.reshape(PEERS, 2, *image.shape[1:])
    for peer, at in ((0, 0), (1, 1), (2, 1)):  # the first has begun the tile
        np.testing.assert_array_equal(sets[peer, at], image[peer])
        assert np.isnan(sets[peer, 1 - at]).all()


# -- by the operator


KINDS = [("s8", "serial:3")]


@pytest.mark.parametrize(
    ("kind", "text"), quick(KINDS, ("f16", "s8", "f64", "e4m3", "f32"), ("serial:3", "stream:5"))
)
def test_k06_the_epilogue_follows_the_whole_sum(kind, text):
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-3, 4, (20, 136)).astype(float),
        rng.integers(-3, 4, (136, 24)).astype(float),
    )
    c, bias = rng.integers(-3, 4, (20, 24)).astype(np.float32), np.arange(24, dtype=np.float32)
    given = {"c": c, "alpha": 2, "beta": 3, "bias": bias, "activation": "relu", "out_dtype": "f32"}
    found = cute.ops.gemm(a, b, dtype=kind, config=f"split={text}", checks=True, **given)
    np.testing.assert_array_equal(found, np.maximum(2 * (a @ b) + 3 * c + bias, 0))


def test_warps_share_tiles_of_k():
    """By either name; the sums of the warps are added before the epilogue."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((20, 72), (72, 16)))
    tile = "tile=32x32x64,warps=1x1"
    configs = [cute.ops.gemm_config(a, b, config=f"{tile}{x}") for x in (",split=slice", "x2")]
    assert [x.atoms_mnk for x in configs] == [(1, 1, 2)] * 2
    assert [x.threads for x in configs] == [64, 64]
    found = cute.ops.gemm(a, b, config=f"{tile},split=slice:2", checks=True, out_dtype="f32")
    np.testing.assert_array_equal(found, a.astype(float) @ b.astype(float))


def test_a_batch_is_split_with_a_function_as_epilogue():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((2, 9, 72), (72, 16)))
    found = cute.ops.gemm(
        a, b, epilogue=lambda x, s: x * s, s=2.0, config="split=stream:3", out_dtype="f32"
    )
    np.testing.assert_array_equal(found, 2 * (a.astype(float) @ b.astype(float)))


@pytest.mark.parametrize("blocks", quick([(2,)], (1, 2, 5, 7)))
def test_i12_a_block_loops_over_products(blocks):
    """The race check sees whether shared memory is read before it is written again."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((5, 9, 40), (5, 40, 16)))
    config = f"batches={blocks},tile=32x32x32"
    found = cute.ops.gemm(a, b, config=config, checks=True, out_dtype="f32")
    np.testing.assert_array_equal(found, a.astype(float) @ b.astype(float))


# -- which split


A100, H200 = gpu_of("sm_80"), gpu_of("sm_90a")
PROBLEM = 128, 128, 4096


def test_i20_few_tiles_and_a_long_k_are_split():
    config = call_on(A100, PROBLEM, "bf16").config
    assert str(config.parts) == "parallel:16"
    assert "K in 16, as D has too few tiles" in config.reasons[-1]
    assert str(call_on(H200, PROBLEM, "bf16").config.parts) == "parallel:16"
    for shape in ((4096, 4096, 4096), (128, 128, 512), (2048, 2048, 8192)):
        assert str(call_on(A100, shape, "bf16").config.parts) == "none"
    assert str(call_on(A100, (1, 128, 4096), "bf16").config.parts) == "none"  # by registers
    for kind in ("s8", "f64"):
        majors = ("K", "K") if kind == "s8" else ("K", "MN")
        assert str(call_on(A100, PROBLEM, kind, majors).config.parts) == "none"


@pytest.mark.parametrize(
    ("text", "a100", "h200"),
    [
        ("split=parallel", "parallel:16", "parallel:16"),
        ("split=parallel:8", "parallel:8", "parallel:8"),
        ("split=serial", "serial:54", "serial:33"),
        ("split=serial:5", "serial:5", "serial:5"),
        ("split=stream", "stream:108", "stream:132"),
        ("split=stream:7,tile=64x64x64", "stream:7", "stream:7"),
        ("split=slice:2", "slice:2", "slice:2"),
        ("split=none", "none", "none"),
    ],
)
def test_text_says_how_k_is_split(text, a100, h200):
    for gpu, wanted in ((A100, a100), (H200, h200)):
        config = call_on(gpu, PROBLEM, "bf16", config=text).config
        assert str(config.parts) == wanted
        assert (f"split={wanted}" in str(config)) is (wanted != "none")
        again = call_on(gpu, PROBLEM, "bf16", config=config).config
        assert again == config


def test_a_number_alone_is_a_cluster():
    for text in ("split=2", "split=cluster:2"):
        config = call_on(H200, PROBLEM, "bf16", config=text).config
        assert (config.split, str(config.parts), config.family) == (2, "none", "cooperative")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("split=serial:0", "from 1 to 256 parts"),
        ("split=serial:257", "from 1 to 256 parts"),
        ("split=slice:3", "a K that the atoms' K divides"),
        ("split=stream:0", "from 1 to 65535 parts"),
        ("split=parallel:0", "from 1 to 256 parts"),
        ("split=parallel:3", "divide K=4096"),
        ("split=serial:2,band=4", "no band, prefetch, flat and batches"),
        ("split=serial:2,batches=1", "no band, prefetch, flat and batches"),
        ("split=serial:2,split=stream:2", "each once"),
        ("split=other:2", "parts like"),
        ("split=serial:x", "parts like"),
        ("split=-1", "parts like"),
        ("batches=-1", "parts like"),
    ],
)
def test_splits_that_cannot_be_are_refused(text, words):
    for gpu in (A100, H200):
        with pytest.raises(cute.LayoutError, match=words):
            call_on(gpu, PROBLEM, "bf16", config=text)


@pytest.mark.parametrize("how", ["serial:33", "stream:132"])
@pytest.mark.parametrize("schedule", ["multistage", "cooperative"])
def test_a_gpu_gets_the_kernel_and_a_workspace(how, schedule):
    config = f"split={how},tile=64x128x64,schedule={schedule}"
    call = call_on(H200, PROBLEM, "bf16", config=config)
    sums, locks = call.reads[2:4]
    assert (
        call.kernel is {"multistage": gemm_split, "cooperative": gemm_cooperative_split}[schedule]
    )
    tiles = 2  # of 64x128
    assert sums.shape == ((tiles, 64 * 128) if how == "serial:33" else (132, 2 * 64 * 128))
    assert (sums.kind, locks.kind, locks.shape) == (cute.f32, cute.s32, sums.shape[:1])
    assert call.plan().launch.pdl
