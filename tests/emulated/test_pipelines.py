"""`pipeline` and `mainloop`: the pipelines of MmaMultistage, MmaPipelined and TMA rings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import _
from cute_py.kernels.gemm_09_tma_wgmma import gemm_tma
from cute_py.plan.ops import CpAsync, CpWait, LdMatrix, Loop, Mma
from tests.sampling import fewer


@cute.kernel
def gemm(A, B, C, stages, depth, asynchronous):
    cute.launch(grid=(cute.ceil_div(A.shape[0], 64), cute.ceil_div(B.shape[0], 64)), block=128)
    bx, by = cute.block_idx()
    mma = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    gA = cute.local_tile(A, (64, depth), (bx, _))
    gB = cute.local_tile(B, (64, depth), (by, _))
    gC = cute.local_tile(C, (64, 64), (bx, by))
    atom = cute.composition(cute.Swizzle(1, 3, 3), cute.Layout((8, 16), (16, 1)))
    sA = cute.smem("f16", cute.tile_to_shape(atom, (64, depth, stages)))
    sB = cute.smem("f16", cute.tile_to_shape(atom, (64, depth, stages)))
    name = "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>" if asynchronous else "UniversalCopy<128>"
    lanes = depth // 8
    g2s = cute.make_tiled_copy(
        cute.Copy_Atom(name, "f16"), cute.Layout((128 // lanes, lanes), (lanes, 1)), (1, 8)
    )
    ldsm = cute.Copy_Atom("SM75_U32x4_LDSM_N", "f16")
    tCgC = mma.get_slice(cute.thread_idx()).partition_C(gC)
    acc = mma.get_slice(cute.thread_idx()).make_fragment_C(tCgC)
    acc.fill(0)
    a = cute.Operand(gA, sA, g2s, cute.make_tiled_copy_A(ldsm, mma))
    b = cute.Operand(gB, sB, g2s, cute.make_tiled_copy_B(ldsm, mma))
    cute.mainloop(mma, acc, a, b)
    cute.copy(acc, tCgC)


def matrices(m, n, k, seed=0):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    return a, b, np.full((m, n), np.nan, np.float32)


def product(a, b):
    return a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize("asynchronous", [False, True])
@fewer(6)
@given(
    m=st.sampled_from([1, 64, 65]),
    n=st.sampled_from([7, 64]),
    tiles=st.integers(1, 5),
    rest=st.sampled_from([0, 8]),
    stages=st.integers(2, 5),
    depth=st.sampled_from([16, 32]),
)
def test_every_tile_is_multiplied_once(m, n, tiles, rest, stages, depth, asynchronous):
    a, b, c = matrices(m, n, max(tiles * depth - rest, 8))
    gemm(a, b, c, stages, depth, asynchronous)
    np.testing.assert_array_equal(c, product(a, b))


def loop_of(plan):
    (loop,) = [op for op in plan.ops if isinstance(op, Loop)]
    return loop


def test_fragments_of_the_next_block_are_loaded_before_this_product():
    plan = cute.trace(gemm, *matrices(64, 64, 64), 3, 32, True)
    kinds = [type(op) for op in loop_of(plan).body if isinstance(op, (LdMatrix, Mma))]
    assert kinds == [LdMatrix, LdMatrix, Mma] * 2


def test_stages_less_one_tiles_are_under_way():
    for stages in (2, 3, 4):
        plan = cute.trace(gemm, *matrices(64, 64, 64), stages, 32, True)
        before = plan.ops[: plan.ops.index(loop_of(plan))]
        assert sum(isinstance(op, CpAsync) for op in before) == 2 * (stages - 1)
        assert {op.n for op in plan.ops if isinstance(op, CpWait)} == {stages - 2, 0}


@cute.kernel
def reused(A, B, C, drained):
    """Use the shared memory of the tiles after the main loop."""
    cute.launch(grid=1, block=128)
    tid = cute.thread_idx()
    mma = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    gA, gB = (cute.local_tile(x, (64, 32), (0, _)) for x in (A, B))
    with cute.union():
        with cute.struct():
            sA, sB = (cute.smem("f16", cute.Layout((64, 32, 3), (32, 1, 2048))) for _i in range(2))
        sC = cute.smem("f32", (64, 64))
    name = f"SM80_CP_ASYNC_CACHEGLOBAL{'_ZFILL' if drained else ''}<128>"
    g2s = cute.make_tiled_copy(
        cute.Copy_Atom(name, "f16"), cute.Layout((32, 4), (4, 1)), cute.Layout((1, 8))
    )
    thr = mma.get_slice(tid)
    acc = thr.make_fragment_C(thr.partition_C(sC))
    acc.fill(0)
    cute.mainloop(mma, acc, cute.Operand(gA, sA, g2s), cute.Operand(gB, sB, g2s))
    cute.syncthreads()
    cute.copy(acc, thr.partition_C(sC))
    cute.syncthreads()
    for i in cute.range(tid, 64 * 64, 128):
        C[i % 64, i // 64] = sC[i]


@pytest.mark.parametrize("tiles", [1, 2, 5])
@pytest.mark.parametrize("zeros", [True, False])
def test_shared_memory_may_be_used_again_after_the_loop(tiles, zeros):
    a, b, c = matrices(64, 64, 32 * tiles)
    reused(a, b, c, zeros)
    np.testing.assert_array_equal(c, product(a, b))


def test_the_last_tile_is_multiplied_outside_of_the_loop():
    plan = cute.trace(gemm, *matrices(64, 64, 64), 3, 32, True)
    after = plan.body[plan.body.index(loop_of(plan)) + 1 :]
    assert sum(isinstance(op, Mma) for op in after) == 2


@cute.kernel
def ring(A, B, wrong):
    """Copy tiles of 128 numbers through a ring of three stages, each read by another thread."""
    cute.launch(grid=1, block=128)
    tid = cute.thread_idx()
    gA, gB = cute.local_tile(A, (128,), (_,)), cute.local_tile(B, (128,), (_,))
    held = cute.smem("f32", (128, 3))
    atom = cute.make_tiled_copy(cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<32>", "f32"), 128)
    part = atom.get_slice(tid)
    source, stored = part.partition_S(gA), part.partition_D(held)
    pipe = cute.pipeline(3)
    tiles = cute.ceil_div(A.shape[0], 128)
    for tile in range(2 - wrong):
        cute.copy(atom, source[_, _, tile], stored[_, _, pipe.acquire()], pred=tile < tiles)
        pipe.commit()
    for tile in cute.range(tiles):
        stage = pipe.wait()
        gB[127 - tid, tile] = held[127 - tid, stage]
        pipe.release()
        later = tile + 2 - wrong
        cute.copy(atom, source[_, _, later], stored[_, _, pipe.acquire()], pred=later < tiles)
        pipe.commit()


def test_a_ring_keeps_its_stages_apart():
    a = np.arange(128 * 7, dtype=np.float32)
    b = np.zeros_like(a)
    ring(a, b, 0)
    np.testing.assert_array_equal(a, b)


def test_a_ring_that_is_filled_too_late_is_caught():
    a = np.arange(128 * 7, dtype=np.float32)
    with pytest.raises(cute.CuteError, match=r"test_pipelines\.py:"):
        ring(a, np.zeros_like(a), 1)


@pytest.mark.parametrize("shape", [(1, 8, 8), (64, 128, 64), (130, 257, 136), (128, 128, 512)])
@pytest.mark.parametrize("stages", [2, 3])
def test_tma_gemm_is_numpys(shape, stages):
    a, b, c = matrices(*shape)
    gemm_tma(a, b, c, stages=stages)
    np.testing.assert_array_equal(c, product(a, b))


@pytest.mark.parametrize("order", ["reversed", 0, 1, 2])
def test_producer_and_consumers_may_run_in_any_order(order):
    a, b, c = matrices(130, 64, 200)
    plan = cute.trace(gemm_tma, a, b, c)
    cute.emulate(plan, a, b, c, order=order)
    np.testing.assert_array_equal(c, product(a, b))


def test_a_ring_needs_two_stages():
    a, b, c = matrices(64, 64, 64)
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(gemm, a, b, c, 1, 32, True)
    assert caught.value.code == "pipeline-stages"


@cute.kernel
def through(A, B, stages, stored, behind):
    """Copy tiles of A to B through a ring: TMA loads each, and stores it out of its stage."""
    cute.launch(grid=1, block=256)
    gA, gB = (cute.local_tile(cute.tma_tensor(x), (64, 64), (_, 0)) for x in (A, B))
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    held = cute.smem("f16", cute.tile_to_shape(atom, (64, 64, stages)), 1024)
    ring = cute.pipeline(stages, tiles=(held,))
    tiles = cute.ceil_div(A.shape[0], 64)
    with cute.role("load", warps=range(4, 8)), cute.elect("role"):
        for k in cute.range(tiles):
            ring.load(gA[_, _, k], held[_, _, ring.acquire()])
            ring.commit()
    with cute.role("store", warps=range(4)):
        store = cute.PipelineTmaStore()
        for k in cute.range(tiles):
            stage = ring.wait()
            store.commit((held[_, _, stage], gB[_, _, k]))
            ring.release(behind=behind, stored=stored)
        store.tail()


@pytest.mark.parametrize(("stages", "behind"), [(1, 0), (2, 0), (2, 1), (3, 1)])
def test_a_stage_may_be_released_when_tma_has_stored_it(stages, behind):
    """Also a ring of one stage; and what is released before the store has read it is refused."""
    a = np.random.default_rng(0).normal(size=(320, 64)).astype(np.float16)
    for order in ("forward", "reversed", 0):
        b = np.full_like(a, np.nan)
        plan = cute.trace(through, a, b, stages, True, behind)
        cute.emulate(plan, a, b, order=order)
        np.testing.assert_array_equal(a, b)
    with pytest.raises(cute.CuteError, match="which a TMA store of warp 0 uses"):
        cute.emulate(cute.trace(through, a, b, stages, False, behind), a, b)


def test_a_ring_of_one_stage_keeps_none_behind():
    a = np.zeros((64, 64), np.float16)
    with pytest.raises(cute.CuteError, match="at least 2, of a ring that keeps a stage behind"):
        cute.trace(through, a, a.copy(), 1, True, 1)


@cute.kernel
def ping_pong(A, out, stages, count, late):
    """Two consumers take turns of `count` tiles; each tile is summed by one of them, and released
    at once, or one tile later, by a copy of the pipeline. Each hands its turn over.
    """
    cute.launch(grid=1, block=96)
    warp, lane = cute.warp_idx(), cute.lane_idx()
    held = cute.smem("f32", cute.Layout((32, stages), (1, 32)))
    tiles = A.shape[0] // 32
    gA = cute.local_tile(cute.tma_tensor(A), (32,), (_,))
    ring = cute.pipeline(stages, bytes=128, consumers=32)
    sums, turns, parity = cute.rmem("f32", 1), cute.mbarriers(2), cute.var(0, 0, 1)
    sums.fill(0)
    with cute.elect("block"):
        turns.init(32)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    with cute.when(warp == 0):
        turns.arrive(0)
    with cute.when(cute.thread_idx() == 64):
        for k in cute.range(tiles):
            ring.load(gA[_, k], held[_, ring.acquire()])
            ring.commit()
    with cute.when(warp < 2):
        mine = ring.copy()
        mine.skip(warp * count)
        behind = mine.copy()
        for turn in cute.range(warp, tiles // count, 2):
            turns.wait(warp, parity.get())
            parity.set(1 - parity.get())
            for i in cute.range(count):
                stage = mine.wait()
                sums += held[lane, stage] * (turn * count + i + 1).to("f32")
                if late:
                    mine.skip(1)
                    with cute.when(i > 0):
                        behind.release()
                else:
                    mine.release()
            if late:
                behind.release()
                behind.skip(count)
            turns.arrive(1 - warp)
            mine.skip(count)
        out[warp, lane] = sums


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("stages", "count"), [(2, 1), (3, 2), (4, 3)])
def test_consumers_skip_the_tiles_of_the_others(stages, count, late):
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 10, (4 * count, 32)).astype(np.float32)
    out = np.zeros((2, 32), np.float32)
    plan = cute.trace(ping_pong, a.ravel(), out, stages, count, late)
    parts = (a * np.arange(1, 4 * count + 1, dtype=np.float32)[:, None]).reshape(2, 2, count, 32)
    for order in ("forward", "reversed", 0):
        cute.emulate(plan, a.ravel(), out, order=order)
        np.testing.assert_array_equal(out, parts.sum((0, 2)))


def test_positions_advance_and_skip_by_any_number():
    @cute.kernel
    def moved(out, n: cute.s32):
        cute.launch(grid=1, block=1)
        ring = cute.pipeline(3)
        other = ring.copy()
        ring.advance(n)
        ring.skip(2 * n)
        stages = ring.acquire(), ring.wait(), other.acquire(), ring.copy().acquire()
        for i, stage in enumerate(stages):
            out[i] = stage.to("s32")

    for n in (0, 1, 2, 7):
        out = np.zeros(4, np.int32)
        moved(out, n)
        assert list(out) == [n % 3, 2 * n % 3, 0, n % 3]
