"""Plans as they are lowered for an architecture: they compute the same, in cheaper steps."""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.codegen.build import lowered
from cute_py.integers.polynomial import FloorDiv
from cute_py.integers.symbols import terms_of
from cute_py.kernels.config import GemmConfig, Side
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm import gemm
from cute_py.kernels.gemm_09_tma_wgmma import gemm_tma
from cute_py.plan import ops
from cute_py.plan.verify import verify
from cute_py.plan.walk import accesses, arrays, every, mbarriers, named
from tests.coverage import covers, refuses
from tests.emulated.plans import Maker, at, box_of
from tests.sampling import pairwise, quick

ATOM = "SM80_16x8x16_F32F16F16F32_TN"


def product(stages, K, majors="KK"):
    """Return the plan of a product, its arrays, and what D must be."""
    rng = np.random.default_rng(stages * 1000 + K)
    A, B = (rng.integers(-4, 5, (64, K)).astype(np.float16) for _ in "AB")
    D = np.full((64, 64), np.nan, np.float32)
    a, b = (x if m == "K" else np.asfortranarray(x) for x, m in zip((A, B), majors, strict=True))
    sides = [Side("K" if m == "K" else "MN", 8) for m in majors]
    config = GemmConfig(ATOM, (64, 64, 32), (2, 2), stages, *sides, True, pdl=1)
    arrays = [a, b, None, None, D]
    plan = cute.trace(gemm, *arrays, 1.0, 0.0, config, LinearCombination())
    return plan, arrays, A.astype(np.float32) @ B.astype(np.float32).T


def divided(plan):
    """Return the numbers by which addresses divide the variable of a loop."""
    loops = {op.var for op in every(plan.body) if isinstance(op, ops.Loop)}
    found = set()
    for op in every(plan.body):
        for x in accesses(op):
            for scalar in (*x.bases, x.inner):
                for monomial in terms_of(scalar):
                    for atom in monomial:
                        if isinstance(atom, FloorDiv) and loops & {s.name for s in atom.symbols}:
                            found.add(str(atom.divisor))
    return found


AXES = (2, 3, 4, 5, 6), (8, 64, 96, 328), ("KK", "KM")


@pytest.mark.parametrize(("stages", "K", "majors"), quick(pairwise(*AXES), *AXES))
def test_a_lowered_product_is_the_product(stages, K, majors):
    plan, arrays, expected = product(stages, K, majors)
    for arch in ("sm_90a", "sm_80"):
        arrays[4][...] = np.nan
        given = [x for x in arrays if x is not None]
        cute.emulate(lowered(plan, arch), *given, 1.0, 0.0)
        assert np.array_equal(arrays[4], expected)


@pytest.mark.parametrize("stages", [3, 5, 6])
def test_stages_are_counted_beside_the_loop(stages):
    plan, _arrays, _expected = product(stages, 328)
    assert len(divided(plan)) == 1
    assert divided(lowered(plan)) == set()
    kept, _arrays, _expected = product(4, 328)
    assert lowered(kept) == kept  # the lowest bits


def test_a_loop_with_a_start_and_a_step_counts_from_there():
    @cute.kernel
    def pick(x, y):
        cute.launch(grid=1, block=32)
        tile = cute.smem("s32", (32, 7))
        t = cute.thread_idx()
        for i in range(7):
            tile[t, i] = x[t, i]
        for k in cute.range(5, x.shape[1], 4):
            y[t, k] = tile[t, k % 7] * 10 + tile[t, (k + 4) % 7]

    x = np.arange(32 * 90, dtype=np.int32).reshape(32, 90)
    once, again = np.zeros_like(x), np.zeros_like(x)
    plan = cute.trace(pick, x, once)
    turned = lowered(plan)
    assert turned != plan
    cute.emulate(plan, x, once)
    cute.emulate(turned, x, again)
    k = np.arange(5, 90, 4)
    assert np.array_equal(once[:, k], x[:, k % 7] * 10 + x[:, (k + 4) % 7])
    assert np.array_equal(once, again)


def test_a_quotient_that_stays_is_left_alone():
    @cute.kernel
    def spread(y):
        cute.launch(grid=1, block=32)
        for k in cute.range(y.shape[0]):
            y[k // 3, cute.thread_idx()] = 1

    plan = cute.trace(spread, np.zeros((9, 32), np.int32))
    assert lowered(plan) == plan


def test_names_of_the_kernel_are_not_taken():
    @cute.kernel
    def named(turn0, n0):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        ring = cute.smem("s32", (32, 3), name="n1")
        for i in range(3):
            ring[t, i] = i
        for k in cute.range(turn0.shape[0]):
            turn0[k, t] = ring[t, k % 3] + n0[t]

    turn0, n0 = np.zeros((8, 32), np.int32), np.arange(32, dtype=np.int32)
    plan = lowered(cute.trace(named, turn0, n0))
    cute.emulate(plan, turn0, n0)
    assert np.array_equal(turn0, np.arange(8)[:, None] % 3 + n0)


@covers(ops.GridDep)
def test_without_overlap_nothing_waits_for_kernels_before():
    plan, _arrays, _expected = product(3, 64)
    kinds = [op.kind for op in every(plan.body) if isinstance(op, ops.GridDep)]
    assert kinds == ["wait", "launch_dependents"]
    assert not any(isinstance(op, ops.GridDep) for op in every(lowered(plan, "sm_89").body))
    assert any(isinstance(op, ops.GridDep) for op in every(lowered(plan, "sm_90").body))


@pytest.mark.parametrize("K", [8, 40, 200])
def test_prefetched_tiles_and_matrix_stores_change_no_result(K):
    rng = np.random.default_rng(K)
    A, B = (rng.integers(-4, 5, (n, K)).astype(np.float16) for n in (100, 72))
    D = np.full((100, 72), np.nan, np.float16)
    side = Side("K", 8)
    parts = {"store": 8, "stmatrix": 1, "pdl": 1, "prefetch": 2}
    config = GemmConfig(ATOM, (64, 64, 32), (2, 2), 3, side, side, True, **parts)
    plan = cute.trace(gemm, A, B, None, None, D, 1.0, 0.0, config, LinearCombination())
    kinds = [type(op) for op in plan.ops]
    assert kinds.index(ops.Prefetch) < kinds.index(ops.GridDep) < kinds.index(ops.CpAsync)
    assert kinds.count(ops.Prefetch) == 4
    assert kinds.count(ops.StMatrix) == 1
    cute.emulate(plan, A, B, D, 1.0, 0.0)
    assert np.array_equal(D, A.astype(np.float32) @ B.astype(np.float32).T)


@pytest.mark.parametrize("activation", [None, "silu"])  # all at once, or a column at a time
def test_a_bias_is_loaded_once_a_column(activation):
    rng = np.random.default_rng(1)
    A, B = (rng.integers(-4, 5, (n, 40)).astype(np.float16) for n in (100, 72))
    bias, D = rng.integers(-9, 10, 72).astype(np.float32), np.zeros((100, 72), np.float32)
    side = Side("K", 8)
    config = GemmConfig(ATOM, (64, 64, 32), (2, 2), 3, side, side, True, store=4)
    epilogue = LinearCombination(bias=True, activation=activation)
    plan = cute.trace(gemm, A, B, None, bias, D, 1.0, 0.0, config, epilogue)
    loads = [op.src for op in plan.ops if isinstance(op, ops.Load) and op.src.storage == "bias"]
    assert sum(x.count * x.width for x in loads) == 64 // 2 // 4  # two warps, four lanes a row
    cute.emulate(plan, A, B, bias, D, 1.0, 0.0)
    wanted = A.astype(np.float32) @ B.astype(np.float32).T + bias
    assert np.allclose(
        D, wanted if activation is None else wanted / (1 + np.exp(-wanted.astype(np.float64)))
    )


@covers(ops.Prefetch)
def test_a_prefetch_leaves_out_what_is_past_the_extents():
    @cute.kernel
    def near(x, y):
        cute.launch(grid=2, block=32)
        tile = cute.local_tile(x, (64,), (cute.block_idx(),))
        mine = cute.local_tile(tile, (2,), (cute.thread_idx(),))
        cute.prefetch(mine)
        cute.copy(mine, cute.local_tile(y, (2,), (cute.block_idx() * 32 + cute.thread_idx(),)))

    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    plan = cute.trace(near, x, y)
    (prefetch,) = [op for op in plan.ops if isinstance(op, ops.Prefetch)]
    assert prefetch.src.guards
    cute.emulate(plan, x, y)
    assert np.array_equal(x, y)


def test_a_prefetch_is_of_global_memory():
    @cute.kernel
    def shared(x):
        cute.launch(grid=1, block=32)
        cute.prefetch(cute.smem("f32", 32))

    with pytest.raises(cute.CuteError) as caught:
        cute.trace(shared, np.zeros(4, np.float32))
    assert caught.value.code == "kernel-space"


def test_no_thread_ends_before_it_waits_for_the_kernels_before():
    """All might: the kernel would be over before those before it, and the next one not wait."""

    @cute.kernel
    def early(x):
        cute.launch(grid=2, block=32, pdl=True)
        cute.return_if(cute.block_idx() > 0)
        cute.griddepcontrol_wait()
        x[cute.thread_idx()] = 1

    with pytest.raises(cute.CuteError) as caught:
        cute.trace(early, np.zeros(32, np.float32))
    assert caught.value.code == "plan-pdl"


@refuses(ops.GridDep)
def test_tma_uses_memory_and_waits_for_the_kernels_before():
    m = Maker()
    m.launch = replace(m.launch, pdl=True)
    m.tensor("X", "f16", 2)
    box, bar = box_of(m.smem("S", "f16", 64), 0, 8, 8), at(m.smem("B", "u64", 1), 0)
    wait, load = m.op(ops.GridDep, "wait"), m.op(ops.TmaLoad, "X", (0, 0), box, bar)
    store = m.op(ops.TmaStore, "X", (0, 0), box)
    for use in (load, store):
        early, late = (m.plan(use, wait), m.plan(wait, use))
        verify(late)
        with pytest.raises(cute.CuteError) as caught:
            verify(early)
        assert caught.value.code == "plan-pdl"


def test_ops_say_what_they_use():
    m = Maker()
    x, bar = at(m.tensor("X", "f16", 2), 0), at(m.smem("B", "u64", 1), 0)
    smem, reg = m.smem("S", "f16", 8), m.reg("r", "f16")
    tile, box = at(smem, 0), box_of(smem, 0, 8)
    load = m.op(ops.TmaLoad, "X", (0, 0), box, bar)
    assert (arrays(load), arrays(load, written=True), mbarriers(load)) == ({"X"}, set(), [bar])
    for op in (ops.Store(x, reg), ops.Atomic("add", x, reg), ops.TmaStore("X", (0,), box)):
        assert arrays(op) == arrays(op, written=True) == {"X"}
    assert arrays(ops.Load(reg, x)) == {"X"}
    assert arrays(ops.Load(reg, x), written=True) == set()
    assert arrays(ops.Prefetch(x)) == set()
    assert arrays(ops.Load(reg, tile)) == set()
    assert named(ops.Let("n0", "var", ("v",))) == ["n0"]
    assert not named(ops.Barrier())


# -- sums of warpgroup products that start from zero


def products_of(plan):
    return [str(op.accumulate) for op in plan.ops if isinstance(op, ops.Wgmma)]


@pytest.mark.parametrize("K", [8, 136])
def test_the_first_product_of_a_loop_starts_from_zero(K):
    a, b = (np.ones((n, K), np.float16) for n in (70, 40))
    c = np.full((70, 40), np.nan, np.float32)
    plan = cute.trace(gemm_tma, a, b, c, (64, 64, 64))
    assert products_of(plan) == ["True"]
    for order in ("forward", "reversed", 5):
        c[...] = np.nan
        cute.emulate(lowered(plan), a, b, c, order=order)
        assert (c == K).all()
    assert products_of(lowered(plan)) == ["k1 != 0"]
    fills = [op for op in lowered(plan).ops if isinstance(op, ops.Fill)]
    assert [op.value for op in fills] == [0.0, None]  # the zeros of a loop of no iterations


@cute.kernel
def summed(x, value, stops, reads):
    cute.launch(grid=1, block=128)
    mma = cute.make_tiled_mma("SM90_64x8x16_F32F16F16_SS")
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    sides = [cute.smem("f16", cute.tile_to_shape(atom, (n, 64)), 1024) for n in (64, 8)]
    thr = mma.get_slice(cute.thread_idx())
    part = thr.partition_C(cute.local_tile(x, (64, 8), (0, 0)))
    acc = thr.make_fragment_C(part)
    acc.fill(value)
    if reads == "before":
        cute.copy(acc, part)
    for k in cute.range(x.shape[0]):
        if reads == "inside":
            acc += 1.0
        if stops:
            cute.break_if(k == 5)
        cute.warpgroup_fence()
        cute.warpgroup_gemm(mma, acc, thr.partition_A(sides[0]), thr.partition_B(sides[1]))
        cute.warpgroup_commit()
        cute.warpgroup_wait(0)
    cute.copy(acc, part)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((0.0, False, ""), ["k0 != 0"]),
        ((1.0, False, ""), ["True"]),
        ((-0.0, False, ""), ["True"]),
        ((0.0, True, ""), ["True"]),
        ((0.0, False, "before"), ["True"]),
        ((0.0, False, "inside"), ["True"]),
    ],
)
def test_other_sums_keep_their_fill(options, found):
    plan = cute.trace(summed, np.zeros((64, 8), np.float32), *options)
    assert products_of(lowered(plan)) == found
