"""The life of mbarriers and of blocks: who may use shared memory, from when, and until when.

What an arrival tells, and when a block may end, at random: test_lanes_apart.py and
test_happens_before.py.
"""

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

import cute_py as cute
from cute_py import _
from tests.emulated.test_lanes import f32, line, same, verdicts
from tests.sampling import check_each


def nothing(t=None):
    pass


def fence():
    cute.fence_mbarrier_init()


def meet(t=None):
    cute.syncthreads()


# -- a block's own mbarriers


def met(fenced, between):
    """All threads arrive at an mbarrier and wait for it."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=2, block=64)
        t, s, bar = cute.thread_idx(), cute.smem("f32", 64), cute.mbarriers(1)
        b = cute.block_idx()
        with cute.when(t == 0):
            bar.init(64)
            fenced()
        between(t)
        s[t] = x[64 * b + t]
        bar.arrive(0)
        bar.wait(0, 0)
        out[64 * b + t] = s[63 - t]

    return kernel


def halves(x, out):
    return (out.reshape(2, 64) == x.reshape(2, 64)[:, ::-1]).all()


def test_an_mbarrier_is_used_after_a_barrier_that_follows_its_init():
    for fenced in (fence, nothing):  # threads of the block need no fence
        assert verdicts(met(fenced, meet), line(128), halves) == {True}
    for between in (nothing, lambda t: cute.syncwarp()):
        assert verdicts(met(fence, between), line(128), halves) == {"emulate-mbarrier-early"}


def loaded(fenced, between, wait=None, late=False):
    """Thread 0 loads a tile with TMA, and all read it; `late`: it announces the bytes then."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=64)
        t, bar = cute.thread_idx(), cute.mbarriers(1)
        s = cute.smem("f32", cute.Layout((32, 64), (64, 1)), 1024)
        with cute.when(t == 0):
            bar.init(1)
            fenced()
        between(t)
        with cute.when(t == 0):
            if not late:
                bar.arrive_expect_tx(0, 8192)
            cute.tma_load(cute.local_tile(cute.tma_tensor(x), (32, 64), (0, 0)), s, bar, 0)
            if late:
                bar.arrive_expect_tx(0, 8192)
        (wait or (lambda bar, t: bar.wait(0, 0)))(bar, t)
        for r in range(32):
            out[r, t] = s[r, t]

    return kernel


def square():
    return np.arange(32 * 64, dtype=f32).reshape(32, 64), np.full((32, 64), -1, f32)


def test_what_tma_counts_on_is_fenced():
    assert verdicts(loaded(fence, meet), square, same) == {True}
    assert verdicts(loaded(cute.fence_proxy_async, meet), square, same) == {True}
    assert verdicts(loaded(nothing, meet), square, same) == {"emulate-mbarrier-early"}
    assert verdicts(loaded(fence, nothing), square, same) == {"emulate-mbarrier-early"}


def test_bytes_may_come_before_they_are_announced():
    """The phase has an arrival to wait for, which is by the thread that loads."""
    assert verdicts(loaded(fence, meet, late=True), square, same) == {True}


def cleared(fenced):
    """The tile is filled with ordinary stores before TMA writes it."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=64)
        t, bar = cute.thread_idx(), cute.mbarriers(1)
        s = cute.smem("f32", cute.Layout((32, 64), (64, 1)), 1024)
        for r in range(32):
            s[r, t] = 0.0
        with cute.when(t == 0):
            bar.init(1)
            cute.fence_mbarrier_init()
        fenced(t)
        cute.syncthreads()
        with cute.when(t == 0):
            bar.arrive_expect_tx(0, 8192)
            cute.tma_load(cute.local_tile(cute.tma_tensor(x), (32, 64), (0, 0)), s, bar, 0)
        bar.wait(0, 0)
        for r in range(32):
            out[r, t] = s[r, t]

    return verdicts(kernel, square, same)


def one_fences(t):
    with cute.when(t == 0):
        cute.fence_proxy_async()


def test_tma_writes_over_ordinary_stores_that_are_fenced():
    assert cleared(lambda t: cute.fence_proxy_async()) == {True}
    assert cleared(nothing) == {"emulate-proxy-fence"}
    assert cleared(one_fences) == {"emulate-proxy-fence"}


def one_waits(then):
    def wait(bar, t):
        with cute.when(t == 0):
            bar.wait(0, 0)
        then(t)

    return wait


def one_of_each_warp_waits(bar, t):
    with cute.when(t % 32 == 0):
        bar.wait(0, 0)
    cute.syncwarp()


def test_a_thread_waits_for_itself():
    for wait in (one_waits(meet), one_of_each_warp_waits):
        assert verdicts(loaded(fence, meet, wait), square, same) == {True}
    for wait in (one_waits(nothing), one_waits(lambda t: cute.syncwarp())):
        found = verdicts(loaded(fence, meet, wait), square, same)
        assert found == {"emulate-async-pending"}


def pipelined(release_first, all_wait):
    """One thread loads tiles into two stages; two warps read them."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=96)
        t = cute.thread_idx()
        full, empty = cute.mbarriers(2), cute.mbarriers(2)
        s = cute.smem("f32", cute.Layout((8, 32, 2), (32, 1, 256)), 1024)
        with cute.when(t == 0):
            full.init(1)
            empty.init(64)
            cute.fence_mbarrier_init()
        cute.syncthreads()
        with cute.when(t < 32):
            loads = t == 0
            with cute.when(loads):
                for k in cute.range(6):
                    with cute.when(k >= 2):
                        empty.wait(k % 2, (k // 2 + 1) % 2)
                    full.arrive_expect_tx(k % 2, 1024)
                    tile = cute.local_tile(cute.tma_tensor(x), (8, 32), (k, 0))
                    cute.tma_load(tile, s[_, _, k % 2], full, k % 2)
        with cute.otherwise():
            row = (t - 32) // 32 * 4
            for k in cute.range(6):
                if all_wait:
                    full.wait(k % 2, k // 2 % 2)
                else:
                    with cute.when(t % 32 == 0):
                        full.wait(k % 2, k // 2 % 2)
                if release_first:
                    empty.arrive(k % 2)
                for r in range(4):
                    out[8 * k + row + r, t % 32] = s[row + r, t % 32, k % 2]
                if not release_first:
                    empty.arrive(k % 2)

    def arrays():
        return np.arange(48 * 32, dtype=f32).reshape(48, 32), np.zeros((48, 32), f32)

    return verdicts(kernel, arrays, same)


def test_a_stage_is_read_between_its_wait_and_its_release():
    assert pipelined(release_first=False, all_wait=True) == {True}
    assert pipelined(release_first=True, all_wait=True) == {"emulate-race"}
    assert pipelined(release_first=False, all_wait=False) == {"emulate-async-pending"}


# -- phases


def outcomes(programs, counts):
    """Return the phases that each step of each thread may be of, in any order of the threads, and
    whether some order ends in a deadlock. A step is (mbarrier, None) to arrive, or (mbarrier,
    parity) to wait.
    """
    found, stuck, seen = defaultdict(set), False, set()
    todo = [((0,) * len(programs), tuple((0, n) for n in counts))]  # places; phase, pending
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        places, bars = state
        moved = False
        for k, program in enumerate(programs):
            if places[k] == len(program):
                continue
            bar, parity = program[places[k]]
            phase, pending = bars[bar]
            if parity is not None and phase % 2 == parity:
                continue
            found[k, places[k]].add(phase if parity is None else phase - 1)
            after = list(bars)
            if parity is None:
                after[bar] = (phase, pending - 1) if pending > 1 else (phase + 1, counts[bar])
            moved = True
            next_places = (*places[:k], places[k] + 1, *places[k + 1 :])
            todo.append((next_places, tuple(after)))
        stuck |= not moved and any(n < len(p) for n, p in zip(places, programs, strict=True))
    return found, stuck


@cute.kernel
def of_warps(out, programs, counts):
    """The first lane of each warp arrives and waits as its program says."""
    cute.launch(grid=1, block=32 * len(programs))
    tid, bars = cute.thread_idx(), [cute.mbarriers(1) for _ in counts]
    with cute.when(tid == 0):
        for bar, count in zip(bars, counts, strict=True):
            bar.init(count)
    cute.syncthreads()
    for k, program in enumerate(programs):
        with cute.when(tid == 32 * k):
            for bar, parity in program:
                if parity is None:
                    bars[bar].arrive(0)
                else:
                    bars[bar].wait(0, parity)
    out[tid] = 1.0


STEPS = st.tuples(st.integers(0, 1), st.sampled_from([None, None, 0, 1]))
A, B = (0, None), (1, None)


@settings(max_examples=25)
@given(st.lists(st.lists(STEPS, max_size=4), min_size=2, max_size=3), st.integers(1, 2))
@example([[A, (1, 0), A], [(0, 0), B, (0, 1)]], 1)  # handed to and fro
@example([[A, A, A], [(0, 0)]], 1)  # three phases, of which two may pass unseen
@example([[A, (1, 0), A], [(0, 0), B], [(0, 1)]], 1)  # a wait for a phase ahead
def test_each_arrival_and_wait_is_of_one_phase_in_all_orders(programs, count):
    """Or else the kernel is refused, in every order."""
    found, stuck = outcomes(programs, (count, 1))
    right = not stuck and all(len(phases) == 1 for phases in found.values())
    event(f"right: {right}")
    out = np.zeros(32 * len(programs), f32)
    plan = cute.trace(of_warps, out, programs, (count, 1))
    for order in ("forward", "reversed", 0):
        if right:
            cute.emulate(plan, out, order=order)
            continue
        with pytest.raises(cute.CuteError) as caught:
            cute.emulate(plan, out, order=order)
        assert caught.value.code in ("emulate-mbarrier-phase", "emulate-deadlock")


def in_union(order, between):
    """Memory of an mbarrier that is that of data, or of another mbarrier, at another time."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=2, block=64)
        t, b = cute.thread_idx(), cute.block_idx()
        with cute.union():
            bar, other, s = cute.mbarriers(1), cute.mbarriers(1), cute.smem("f32", 64)
        met = 0
        out[64 * b + t] = x[64 * b + 63 - t]
        for what in order:
            if what == "data":
                s[t] = x[64 * b + t]
                cute.syncthreads()
                out[64 * b + t] = s[63 - t]
            elif what == "read":
                out[64 * b + t] = s[63 - t]
            elif what == "meet":
                bar.arrive(0)
                bar.wait(0, met % 2)
                met += 1
            else:
                name, _, which = what.partition(" ")
                with cute.when(t == 0):
                    of = other if which else bar
                    of.init(64) if name == "init" else of.inval()
                met = 0
            between(t)

    return kernel


def life(order):
    """Return the codes of which one refuses the steps; none if they are right. PTX ISA,
    mbarrier.init and mbarrier.inval: only memory without a valid mbarrier is initialised, only a
    valid one is used or ended, and nothing else may be there meanwhile.
    """
    valid, lost = set(), set()
    for what in order:
        name, _, which = what.partition(" ")
        if name in ("init", "data"):
            lost |= valid - {which if name == "init" else "all"}
        if name == "init":
            if which in valid:
                return {"emulate-mbarrier-again", "emulate-mbarrier-lost"}
            valid |= {which}
        elif name != "data":
            if which not in valid:
                return {"emulate-mbarrier-unset", "emulate-mbarrier-lost"}
            if which in lost:
                break
            valid -= {which} if name == "inval" else set()
    return {"emulate-mbarrier-lost"} if lost else set()


STEPS_OF_A_LIFE = "init", "inval", "meet", "data", "init other"
LIVES = [
    *[order for n in (1, 2, 3) for order in product(STEPS_OF_A_LIFE, repeat=n)],
    ("init", "meet", "meet", "inval", "data", "init", "meet", "inval", "init other", "inval other"),
    ("init other", "inval other", "data", "init", "meet", "inval", "data"),
    ("init", "inval", "init", "inval", "inval"),
    ("init", "meet", "inval", "data", "meet"),
]


def follows_its_life(order):
    x, out = line(128)()
    wanted, found = life(order), set()
    try:
        cute.emulate(cute.trace(in_union(order, meet), x, out), x, out)
        assert halves(x, out)
    except cute.CuteError as error:
        found = {error.code}
    assert found <= wanted
    assert bool(found) is bool(wanted)


@pytest.mark.parametrize("first", STEPS_OF_A_LIFE)
def test_memory_holds_one_mbarrier_from_its_init_to_its_inval(first):
    check_each(follows_its_life, [order for order in LIVES if order[0] == first])


def test_the_memory_of_an_mbarrier_is_its_own():
    right = (
        ("data", "init", "meet"),
        ("init", "meet", "inval", "data"),
        ("init other", "inval other", "data", "init", "meet"),
    )
    for order in right:
        assert verdicts(in_union(order, meet), line(128), halves) == {True}, order
    for last in ("data", "init other"):
        for order in (("init", last, "meet", "data"), ("init", "meet", last)):
            assert verdicts(in_union(order, meet), line(128), halves) == {"emulate-mbarrier-lost"}


def test_nobody_reads_an_mbarrier_as_data():
    """Nor what was there before it, after its end."""
    assert verdicts(in_union(("data", "read"), meet), line(128), halves) == {True}
    right = "data", "init", "inval", "data", "read"
    assert verdicts(in_union(right, meet), line(128), halves) == {True}
    for order in (("data", "init", "read"), ("data", "init", "meet", "inval", "read")):
        found = verdicts(in_union(order, meet), line(128), halves)
        assert found == {"emulate-smem-unwritten"}


def again(ended, before=meet, after=meet, by=0):
    """An mbarrier is used, and initialised again for another count."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=64)
        t, bar = cute.thread_idx(), cute.mbarriers(1)
        with cute.when(t == 0):
            bar.init(64)
        cute.syncthreads()
        bar.arrive(0)
        bar.wait(0, 0)
        before(t)
        with cute.when(t == by):
            if ended:
                bar.inval()
        after(t)
        with cute.when(t == 0):
            bar.init(1)
        cute.syncthreads()
        with cute.when(t == 0):
            bar.arrive(0)
        bar.wait(0, 0)
        out[t] = x[t]

    return kernel


def test_an_mbarrier_is_initialised_again_once_nobody_uses_it_and_it_has_ended():
    for after, by in ((meet, 0), (nothing, 0), (meet, 40)):
        assert verdicts(again(True, after=after, by=by), line(64), same) == {True}
    assert verdicts(again(False), line(64), same) == {"emulate-mbarrier-again"}
    in_use = {"emulate-mbarrier-busy", "emulate-mbarrier-unset", "emulate-mbarrier-early"}
    assert verdicts(again(True, nothing), line(64), same) <= in_use
    apart = verdicts(again(True, after=nothing, by=40), line(64), same)
    assert apart <= {"emulate-race", "emulate-mbarrier-again"}, apart


def initialised(who, times=1):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=64)
        t, bar = cute.thread_idx(), cute.mbarriers(1)
        for _i in cute.range(times):
            with cute.when(who(t)):
                bar.init(64)
        cute.syncthreads()
        bar.arrive(0)
        bar.wait(0, 0)
        out[t] = x[t]

    return kernel


def test_one_thread_initialises_an_mbarrier_once():
    def one(t):
        return t == 0

    assert verdicts(initialised(one), line(64), same) == {True}
    for who in (lambda t: t < 2, lambda t: t % 32 == 0, lambda t: t >= 0):  # a warp; warps; all
        assert verdicts(initialised(who), line(64), same) == {"emulate-mbarrier-again"}
    assert verdicts(initialised(one, times=2), line(64), same) == {"emulate-mbarrier-again"}


def test_an_mbarrier_does_not_end_under_a_load():
    def kernel_of(wait):
        @cute.kernel
        def kernel(x, out):
            cute.launch(grid=1, block=64)
            t, bar = cute.thread_idx(), cute.mbarriers(1)
            s = cute.smem("f32", cute.Layout((32, 64), (64, 1)), 1024)
            with cute.when(t == 0):
                bar.init(1)
                cute.fence_mbarrier_init()
                bar.arrive_expect_tx(0, 8192)
                tile = cute.local_tile(cute.tma_tensor(x), (32, 64), (0, 0))
                cute.tma_load(tile, s, bar, 0)
                wait(bar)
                bar.inval()
            cute.syncthreads()
            for r in range(32):
                out[r, t] = s[r, t]

        return kernel

    assert verdicts(kernel_of(lambda bar: bar.wait(0, 0)), square, same) == {True}
    assert verdicts(kernel_of(nothing), square, same) <= {
        "emulate-mbarrier-busy",
        "emulate-async-pending",
    }


# -- blocks of a cluster


def arriving(first, last, other=1):
    """Block 0 arrives at the mbarrier of block 1: test_checks.py."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=4, block=32, cluster=2)
        b, t, bar = cute.block_idx(), cute.thread_idx(), cute.mbarriers(1)
        with cute.when(t == 0):
            bar.init(1)
            cute.fence_mbarrier_init()
        first()
        with cute.when((t == 0) & (b % 2 == 0)):
            bar.arrive(0, other)
        last(bar, b)
        out[32 * b + t] = x[32 * b + t]

    return kernel


def ends(bar, b):
    pass


def arrives_there(bar, x, rank):
    bar.arrive(0, rank)


def multicasts_there(bar, x, rank):
    s = cute.smem("f32", cute.Layout((2, 32), (32, 1)), 1024)
    bar.arrive_expect_tx(0, 256)
    cute.tma_load(cute.local_tile(cute.tma_tensor(x), (2, 32), (0, 0)), s, bar, 0, 1 << rank)


def multicasts_everywhere(bar, x, rank):
    s = cute.smem("f32", cute.Layout((2, 32), (32, 1)), 1024)
    bar.arrive_expect_tx(0, 256)
    everywhere = -1 if isinstance(rank, int) else cute.min_(rank, 0) - 1
    cute.tma_load(cute.local_tile(cute.tma_tensor(x), (2, 32), (0, 0)), s, bar, 0, everywhere)


@pytest.mark.parametrize("reach", [arrives_there, multicasts_there, multicasts_everywhere])
@pytest.mark.parametrize("rank", [lambda b: b, lambda b: 2, lambda b: 5])
def test_a_rank_is_within_the_cluster(reach, rank):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=4, block=1, cluster=2)
        bar = cute.mbarriers(1)
        bar.init(1)
        cute.fence_mbarrier_init()
        cute.cluster_sync()
        reach(bar, x, rank(cute.block_idx()))
        cute.cluster_sync()

    assert verdicts(kernel, square, same) <= {"emulate-cluster-rank", "emulate-block-end"}


@pytest.mark.parametrize(("mask", "right"), [("own", True), ("static", True), ("none", False)])
def test_a_mask_of_run_time_that_is_zero_is_refused(mask, right):
    """PTX: without .multicast the tile goes to the block itself, with it to those of the mask: then
    to nobody, and the wait for it would not end.
    """

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=2, block=32, cluster=2)
        rank, tid = cute.cluster_rank(), cute.thread_idx()
        held, bar = cute.smem("f32", 32, 128), cute.mbarriers(1)
        with cute.elect("block"):
            bar.init(1)
            cute.fence_mbarrier_init()
        cute.cluster_sync()
        with cute.elect("block"):
            bar.arrive_expect_tx(0, 128)
            chosen = {"own": 1 << rank, "static": 0, "none": x.shape[0] // 99}
            tile = cute.local_tile(cute.tma_tensor(x), (32,), (0,))
            cute.tma_load(tile, held, bar, 0, multicast=chosen[mask])
        bar.wait(0, 0)
        out[rank, tid] = held[tid]
        cute.cluster_sync()

    x, out = np.arange(32, dtype=np.float32), np.zeros((2, 32), np.float32)
    plan = cute.trace(kernel, x, out)
    if right:
        cute.emulate(plan, x, out)
        assert (out == x).all()
        return
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, x, out)
    assert caught.value.code == "emulate-multicast"


def multicast(release, arrivals=64, begin=cute.cluster_sync, end=cute.cluster_sync):
    """The first block of a cluster loads tiles for both, again and again to the same place."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=4, block=64, cluster=2)
        b, t = cute.block_idx(), cute.thread_idx()
        full, empty = cute.mbarriers(1), cute.mbarriers(1)
        s = cute.smem("f32", cute.Layout((32, 32), (32, 1)), 1024)
        with cute.when(t == 0):
            full.init(1)
            empty.init(arrivals)
            cute.fence_mbarrier_init()
        begin()
        for k in cute.range(3):
            with cute.when(t == 0):
                full.arrive_expect_tx(0, 4096)
            with cute.when((t == 0) & (b % 2 == 0)):
                with cute.when(k > 0):
                    empty.wait(0, (k + 1) % 2)
                tile = cute.local_tile(cute.tma_tensor(x), (32, 32), (k, 0))
                cute.tma_load(tile, s, full, 0, 3)
            full.wait(0, k % 2)
            with cute.when(t < 32):
                for r in range(32):
                    out[b, 32 * k + r, t] = s[r, t]
                release(empty, b)
            cute.syncthreads()
        end()

    return kernel


def to_the_first(empty, b):
    empty.arrive(0, 0)


def tiles():
    return np.arange(96 * 32, dtype=f32).reshape(96, 32), np.zeros((4, 96, 32), f32)


def copied(x, out):
    return (out == x).all()


def to_the_own_block(empty, b):
    empty.arrive(0)


def to_nobody(empty, b):
    with cute.when(b % 2 == 0):
        empty.arrive(0)


def test_a_stage_that_all_have_released_is_multicast_again():
    assert verdicts(multicast(to_the_first), tiles, copied) == {True}


@pytest.mark.parametrize("release", [to_the_own_block, to_nobody])
def test_a_stage_that_some_have_not_released_is_not_multicast_again(release):
    found = verdicts(multicast(release, 32), tiles, copied)
    assert found <= {"emulate-race", "emulate-mbarrier-bytes", "emulate-async-pending"}, found


def test_a_multicast_meets_mbarriers_that_are_initialised():
    found = verdicts(multicast(to_the_first, begin=cute.syncthreads), tiles, copied)
    assert found <= {"emulate-mbarrier-early", "emulate-mbarrier-unset"}, found


def test_a_block_lives_as_long_as_others_release_stages_there():
    found = verdicts(multicast(to_the_first, end=cute.syncthreads), tiles, copied)
    assert found == {"emulate-block-end"}


def test_a_block_does_not_end_while_its_load_writes_what_nobody_reads():
    def unread(wait):
        @cute.kernel
        def kernel(x, out):
            cute.launch(grid=2, block=64)
            t, b, bar = cute.thread_idx(), cute.block_idx(), cute.mbarriers(1)
            s = cute.smem("f32", cute.Layout((16, 64), (64, 1)), 1024)
            with cute.when(t == 0):
                bar.init(1)
                cute.fence_mbarrier_init()
                bar.arrive_expect_tx(0, 4096)
                cute.tma_load(cute.local_tile(cute.tma_tensor(x), (16, 64), (b, 0)), s, bar, 0)
                wait(bar)
            for r in range(16):
                out[16 * b + r, t] = x[16 * b + r, t]

        return kernel

    assert verdicts(unread(lambda bar: bar.wait(0, 0)), square, same) == {True}
    assert verdicts(unread(nothing), square, same) == {"emulate-block-end"}
