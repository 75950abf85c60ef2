"""Barriers and instructions of whole warps, where threads have returned or took other branches."""

import numpy as np
import pytest

import cute_py as cute
from tests.emulated.test_lanes import f32, line, verdicts

MMA = "SM80_16x8x16_F32F16F16F32_TN"


def product(mma, C, t):
    """Multiply ones by a warp: all elements of its tile of C are 16."""
    a, b = cute.rmem("f16", ((2, 2, 2), 1, 1)), cute.rmem("f16", ((2, 2), 1, 1))
    c = cute.rmem("f32", ((2, 2), 1, 1))
    a.fill(1), b.fill(1), c.fill(0)
    cute.gemm(mma, c, a, b)
    cute.copy(c, mma.get_slice(t % 32).partition_C(cute.local_tile(C, (16, 8), (0, 0))))


def multiplied(body):
    @cute.kernel
    def kernel(C):
        cute.launch(grid=1, block=64)
        body(cute.make_tiled_mma(MMA), C, cute.thread_idx())

    def arrays():
        return (np.zeros((16, 8), f32),)

    return verdicts(kernel, arrays, lambda C: (C == 16).all())


def in_a_branch(mma, C, t):
    with cute.when(t < 32):
        product(mma, C, t)


def in_the_other_branch(mma, C, t):
    with cute.when(t >= 32):
        pass
    with cute.otherwise():
        product(mma, C, t)


def after_returning(mma, C, t):
    cute.return_if(t >= 32)
    product(mma, C, t)


@pytest.mark.parametrize("body", [in_a_branch, in_the_other_branch, after_returning])
def test_a_warp_of_which_no_lane_comes_is_not_waited_for(body):
    assert multiplied(body) == {True}


def test_half_a_warp_does_not_multiply():
    def half(mma, C, t):
        with cute.when(t < 16):
            product(mma, C, t)

    def returned(mma, C, t):
        cute.return_if(t >= 48)
        with cute.when(t >= 32):
            product(mma, C, t)

    assert multiplied(half) == {"emulate-warp-divergent"}
    assert multiplied(returned) == {"emulate-warp-divergent"}


def trips(meet):
    """Warps go round a loop as often as their number says, with syncwarp or mma inside."""

    @cute.kernel
    def kernel(n, x, out):
        cute.launch(grid=1, block=96)
        t, s = cute.thread_idx(), cute.smem("f32", 96)
        s[t] = x[t]
        cute.syncwarp()
        for _k in cute.range(cute.as_int(n[t], 0, 9)):
            value = s[t // 32 * 32 + 31 - t % 32]
            meet(t)
            s[t] = value
            meet(t)
        out[t] = s[t]

    return kernel


def by_warp():
    n = np.repeat(np.arange(3, dtype=np.int32), 32)
    return n, np.arange(96, dtype=f32), np.zeros(96, f32)


def turned(n, x, out):
    x, out = x.reshape(3, 32), out.reshape(3, 32)
    return all((out[w] == (x[w][::-1] if w % 2 else x[w])).all() for w in range(3))


def test_warps_may_go_round_a_loop_as_often_as_their_number_says():
    assert verdicts(trips(lambda t: cute.syncwarp()), by_warp, turned) == {True}
    assert verdicts(trips(lambda t: None), by_warp, turned) == {"emulate-race"}


def test_lanes_that_go_round_more_often_meet_nobody():
    def by_lane():
        return np.arange(96, dtype=np.int32) % 3, *by_warp()[1:]

    kernel = trips(lambda t: cute.syncwarp())
    assert verdicts(kernel, by_lane, turned) == {"emulate-warp-divergent"}


# -- barriers and threads that have returned


def after_return(n, meet):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=2, block=128)
        t, b = cute.thread_idx(), cute.block_idx()
        cute.return_if(t >= n)
        s = cute.smem("s32", n)
        for k in cute.range(2):
            s[t] = x[t] + b + k
            meet()
            out[b, k, t] = s[n - 1 - t]
            meet()

    return kernel


@pytest.mark.parametrize("n", [20, 32, 40, 64, 100, 128])
def test_syncthreads_waits_for_those_who_have_not_returned(n):
    def arrays():
        return np.arange(128, dtype=np.int32), np.zeros((2, 2, n), np.int32)

    def right(x, out):
        k = np.arange(2)
        return (out == x[:n][::-1] + k[:, None, None] + k[:, None]).all()

    assert verdicts(after_return(n, cute.syncthreads), arrays, right) == {True}
    if n > 32:
        assert verdicts(after_return(n, cute.syncwarp), arrays, right) == {"emulate-race"}
    if n % 32 == 0:
        kernel = after_return(n, lambda: cute.named_barrier(1, n))
        assert verdicts(kernel, arrays, right) == {True}


def test_a_warp_may_return_while_others_wait():
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=96)
        t, s = cute.thread_idx(), cute.smem("f32", 64)
        cute.return_if((t >= 64) & (x[t] > 0.0))
        s[t] = x[t]
        cute.syncthreads()
        out[t] = s[63 - t]

    def right(x, out):
        return (out == x[:64][::-1]).all()

    def arrays():
        return np.arange(96, dtype=f32) + 1, np.zeros(64, f32)

    assert verdicts(kernel, arrays, right) == {True}


def test_named_barrier_after_return_if():
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=128)
        t = cute.thread_idx()
        cute.return_if(t >= 64)
        s = cute.smem("f32", 64)
        s[t] = x[t]
        cute.named_barrier(1, 64)
        out[t] = s[63 - t]

    def right(x, out):
        return (out[:64] == x[:64][::-1]).all()

    assert verdicts(kernel, line(128), right) == {True}


# -- counts of barriers


def counted(first, second):
    """Half of the block arrives, the other half waits."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=128)
        t, s = cute.thread_idx(), cute.smem("f32", 64)
        with cute.when(t < 64):
            s[t] = x[t]
            cute.named_barrier(1, first, "arrive")
        with cute.otherwise():
            cute.named_barrier(1, second)
            out[t] = s[t - 64]

    def right(x, out):
        return (out[64:] == x[:64]).all()

    return verdicts(kernel, line(128), right)


def test_all_who_meet_at_a_barrier_expect_as_many():
    assert counted(128, 128) == {True}
    assert counted(128, 96) == {"emulate-barrier-count"}
    assert counted(96, 128) == {"emulate-barrier-count"}
    assert counted(160, 128) == {"emulate-barrier-count"}


def phases(third):
    """Two warps meet; the third arrives at a barrier of another count, or once more."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=96)
        t = cute.thread_idx()
        with cute.when(t < 64):
            cute.named_barrier(1, 64)
        with cute.otherwise():
            third()
        out[t] = x[t]

    return verdicts(kernel, line(96), lambda x, out: (out == x).all())


def test_who_arrives_knows_the_phase_before():
    assert phases(lambda: cute.named_barrier(2, 64, "arrive")) == {True}
    for count in (64, 96):
        found = phases(lambda n=count: cute.named_barrier(1, n, "arrive"))
        wrong = {"emulate-barrier-phase", "emulate-barrier-count", "emulate-deadlock"}
        assert set(found) <= wrong, found


@pytest.mark.parametrize("left", [32, 64, 96, 127])
def test_a_named_barrier_counts_warps_that_have_returned(left):
    """Its count is a number, not all that are left: of all 128 threads, too."""

    def meeting(threads):
        @cute.kernel
        def kernel(x, out):
            cute.launch(grid=2, block=128)
            t, b = cute.thread_idx(), cute.block_idx()
            cute.return_if(t >= left)
            cute.named_barrier(1, threads)
            out[128 * b + t] = x[t]

        def right(x, out):
            return (out.reshape(2, 128)[:, :left] == x[:left]).all()

        return verdicts(kernel, line(256), right)

    warps = -(-left // 32)
    assert meeting(32 * warps) == {True}
    if warps < 4:
        assert meeting(128) == {"emulate-deadlock"}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("order", ["forward", "reversed", 0, 1, 2])
def test_warps_wait_for_their_warpgroup(missing, order):
    """One thread of a warpgroup is delayed before its products; or a warp does not come at all."""

    @cute.kernel
    def delayed(x, missing):
        cute.launch(grid=2, block=256)
        tid, bars = cute.thread_idx(), cute.mbarriers(1)
        with cute.elect("block"):
            bars.init(1)
            cute.fence_mbarrier_init()
        cute.syncthreads()
        with cute.when(tid == 128):
            bars.arrive(0)
        with cute.when(tid < 128):
            with cute.when(tid % 128 == 32):
                bars.wait(0, 0)
                x[cute.block_idx()] = 1
            cute.syncwarp()
        with cute.when(cute.warp_idx() != (3 if missing else 8)):
            cute.warpgroup_fence()

    x = np.zeros(2, np.int32)
    plan = cute.trace(delayed, x, missing)
    if not missing:
        cute.emulate(plan, x, order=order)
        assert (x == 1).all()
        return
    with pytest.raises(cute.CuteError, match="warpgroup_fence") as caught:
        cute.emulate(plan, x, order=order)
    assert caught.value.code == "emulate-warp-divergent"


@cute.kernel
def at_barriers(x, ids, how):
    """Both warps meet at a barrier, or each at one of its own."""
    cute.launch(grid=1, block=64)
    tid = cute.thread_idx()
    alone = {"warp": 1 + cute.warp_idx(), "lane": 1 + tid % 2}
    number = alone[how] if how in alone else cute.as_int(ids[tid])
    cute.named_barrier(number, 32 if how == "warp" else 64)
    x[tid] = 1


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (("warp", 1), ("lane", 1)),
        (("memory", 3), ("memory", 0)),
        (("memory", 15), ("memory", 16)),
        (("memory", 1), ("memory", [1, 2])),
    ],
)
@pytest.mark.parametrize("order", ["forward", "reversed", 0, 1])
def test_lanes_of_a_warp_are_at_one_named_barrier(right, wrong, order):
    x = np.zeros(64, np.int32)
    for (how, ids), code in ((right, ""), (wrong, "emulate-barrier-id")):
        given = np.resize(np.array(ids, np.int32), 64)
        plan = cute.trace(at_barriers, x, given, how)
        if code:
            with pytest.raises(cute.CuteError) as caught:
                cute.emulate(plan, x, given, order=order)
            assert caught.value.code == code
        else:
            cute.emulate(plan, x, given, order=order)
            assert (x == 1).all()
