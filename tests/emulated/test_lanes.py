"""Threads of one warp run apart: what orders their accesses, and whose a wait is."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from tests.emulated.plans import Maker, at, ops, tid

ORDERS = ("forward", "reversed", 0, 1, 2)
f32 = np.float32


def verdicts(kernel, arrays, right):
    """Return what the emulator says of a kernel, in each order: a code, or whether it is right."""
    seen = set()
    for order in ORDERS:
        given = arrays()
        plan = cute.trace(kernel, *given)
        try:
            cute.emulate(plan, *given, order=order)
        except cute.CuteError as error:
            seen.add(error.code)
        else:
            seen.add(bool(right(*given)))
    return seen


def line(n):
    return lambda: (np.arange(n, dtype=f32) + 1, np.full(n, -1, f32))


def reverse(x, out):
    return (out == x[::-1]).all()


def same(x, out):
    return (out == x).all()


# -- shared memory from lane to lane


def handed(meet):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=32)
        t, s = cute.thread_idx(), cute.smem("f32", 32)
        s[t] = x[t]
        meet(t)
        out[t] = s[31 - t]

    return kernel


def by_branches(meet):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=32)
        t, s = cute.thread_idx(), cute.smem("f32", 32)
        with cute.when(t < 16):
            s[t] = x[t]
        with cute.otherwise():
            s[t] = x[t]
        meet(t)
        with cute.when(t >= 16):
            out[t] = s[31 - t]
        with cute.otherwise():
            out[t] = s[31 - t]

    return kernel


def then_written(meet):
    """Each lane reads its neighbour's element, and then writes its own."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=32)
        t, s = cute.thread_idx(), cute.smem("f32", 32)
        s[t] = x[t]
        cute.syncwarp()
        value = s[31 - t]
        meet(t)
        s[t] = value
        out[t] = s[t]

    return kernel


def shuffled(meet):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=32)
        t, s = cute.thread_idx(), cute.smem("f32", 32)
        s[t] = x[t]
        r = cute.rmem("f32", 1)
        r[0] = x[t]
        cute.shuffle(r, 0)
        cute.vote("any", t > 3)
        meet(t)
        out[t] = s[31 - t]

    return kernel


def in_a_loop(meet):
    """A rotation, again and again, in place."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=64)
        t, s = cute.thread_idx(), cute.smem("f32", 64)
        lane, w = t % 32, t // 32 * 32
        s[t] = x[t]
        cute.syncwarp()
        for _k in cute.range(3):
            value = s[w + 31 - lane]
            cute.syncwarp()
            s[t] = value
            meet(t)
        out[t] = s[t]

    return kernel


def half(x, out):
    return (out[:32] == x[31::-1]).all() and (out[32:] == x[:31:-1]).all()


def never(t):
    pass


def meets(t):
    cute.syncwarp()


HANDED = [
    (handed, 32, reverse),
    (by_branches, 32, reverse),
    (then_written, 32, reverse),
    (shuffled, 32, reverse),
    (in_a_loop, 64, half),
]


@pytest.mark.parametrize(("family", "n", "right"), HANDED, ids=[f.__name__ for f, *_ in HANDED])
def test_syncwarp_alone_orders_the_lanes_of_a_warp(family, n, right):
    assert verdicts(family(meets), line(n), right) == {True}
    assert verdicts(family(lambda t: cute.syncthreads()), line(n), right) == {True}
    assert verdicts(family(never), line(n), right) == {"emulate-race"}


# -- asynchronous copies belong to threads


def copied(wait, commit=None):
    """128 threads copy, and read what others copied."""
    cp = cute.make_tiled_copy(
        cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL<128>", "f32"), cute.Layout(128), cute.Layout(4)
    )

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=2, block=128)
        t, s, b = cute.thread_idx(), cute.smem("f32", 512), cute.block_idx()
        th = cp.get_slice(t)
        cute.copy(cp, th.partition_S(cute.local_tile(x, (512,), (b,))), th.partition_D(s))
        if commit is None:
            cute.cp_async_fence()
        else:
            commit(t)
        wait(t)
        for j in range(4):
            out[512 * b + 4 * t + j] = s[511 - (4 * t + j)]

    return kernel


def backwards(x, out):
    return (out.reshape(2, 512) == x.reshape(2, 512)[:, ::-1]).all()


def all_wait(t):
    cute.cp_async_wait(0)
    cute.syncthreads()


def thread_0_waits(t):
    with cute.when(t == 0):
        cute.cp_async_wait(0)
    cute.syncthreads()


def waits_but_for_one(t):
    with cute.when(t != 77):
        cute.cp_async_wait(0)
    cute.syncthreads()


def in_both_branches(t):
    with cute.when(t % 32 < 16):
        cute.cp_async_wait(0)
    with cute.otherwise():
        cute.cp_async_wait(0)
    cute.syncthreads()


def no_barrier(t):
    cute.cp_async_wait(0)


def syncwarp_alone(t):
    cute.cp_async_wait(0)
    cute.syncwarp()


def one_commits(t):
    with cute.when(t == 0):
        cute.cp_async_fence()


def odd_ones_commit(t):
    with cute.when(t % 2 == 1):
        cute.cp_async_fence()


def both_commit(t):
    with cute.when(t % 2 == 1):
        cute.cp_async_fence()
    with cute.otherwise():
        cute.cp_async_fence()


@pytest.mark.parametrize("wait", [all_wait, in_both_branches])
@pytest.mark.parametrize("commit", [None, both_commit])
def test_each_thread_may_wait_for_its_copies(wait, commit):
    assert verdicts(copied(wait, commit), line(1024), backwards) == {True}


@pytest.mark.parametrize("wait", [thread_0_waits, waits_but_for_one, no_barrier, syncwarp_alone])
def test_a_wait_is_for_the_copies_of_a_thread(wait):
    assert verdicts(copied(wait), line(1024), backwards) == {"emulate-copy-pending"}


@pytest.mark.parametrize("commit", [one_commits, odd_ones_commit])
def test_a_commit_is_of_the_copies_of_a_thread(commit):
    assert verdicts(copied(all_wait, commit), line(1024), backwards) == {"emulate-copy-pending"}


def own_copies(meet):
    """Each thread reads what it copied itself, or, in the first half of a warp, its neighbour."""
    cp = cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<32>", "f32")
    tiled = cute.make_tiled_copy(cp, cute.Layout(64), cute.Layout(1))

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=64)
        t, s = cute.thread_idx(), cute.smem("f32", 64)
        th = tiled.get_slice(t)
        cute.copy(tiled, th.partition_S(cute.local_tile(x, (64,), (0,))), th.partition_D(s))
        cute.cp_async_fence()
        with cute.when(t % 32 < 16):
            cute.cp_async_wait(0)
        with cute.otherwise():
            cute.cp_async_wait(0)
        out[t] = s[meet(t)]

    return kernel


def test_what_a_thread_copied_it_may_read_after_its_wait():
    assert verdicts(own_copies(lambda t: t), line(64), same) == {True}
    assert verdicts(own_copies(lambda t: t // 2 * 2), line(64), same) == {"emulate-copy-pending"}


# -- proxies and TMA stores belong to threads


def stored(fence, wait):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=64)
        t = cute.thread_idx()
        s = cute.smem("f32", cute.Layout((32, 64), (64, 1)), 1024)
        for r in range(32):
            s[r, t] = x[r, t]
        fence(t)
        with cute.when(t == 0):
            cute.tma_store(s, cute.local_tile(cute.tma_tensor(out), (32, 64), (0, 0)))
            cute.tma_store_commit()
        wait(t)
        cute.syncthreads()
        for r in range(32):
            s[r, t] = 0.0

    return kernel


def square():
    return np.arange(32 * 64, dtype=f32).reshape(32, 64), np.full((32, 64), -1, f32)


def all_fence(t):
    cute.fence_proxy_async()
    cute.syncthreads()


def storing_thread_fences(t):
    cute.syncthreads()
    with cute.when(t == 0):
        cute.fence_proxy_async()


def thread_0_fences(t):
    with cute.when(t == 0):
        cute.fence_proxy_async()
    cute.syncthreads()


def storing_thread_waits(t):
    with cute.when(t == 0):
        cute.tma_store_wait(0)


def another_thread_waits(t):
    with cute.when(t == 1):
        cute.tma_store_wait(0)


def nobody_waits(t):
    pass


@pytest.mark.parametrize("fence", [all_fence, storing_thread_fences])
def test_a_tma_store_is_waited_for_by_the_thread_that_issued_it(fence):
    assert verdicts(stored(fence, storing_thread_waits), square, same) == {True}
    for wait in (another_thread_waits, nobody_waits):
        assert verdicts(stored(fence, wait), square, same) == {"emulate-async-pending"}


def test_a_proxy_fence_is_of_the_writes_of_a_thread():
    kernel = stored(thread_0_fences, storing_thread_waits)
    assert verdicts(kernel, square, same) == {"emulate-proxy-fence"}


# -- matrices


def matrices(before, between):
    """Rows go to shared memory and back, by ldmatrix and stmatrix."""
    ld, st = cute.Copy_Atom("SM75_U32x4_LDSM_N", "f16"), cute.Copy_Atom("SM90_U32x4_STSM_N", "f16")

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        s = cute.smem("f16", cute.Layout((32, 8), (8, 1)), 128)
        for j in range(8):
            s[t, j] = x[t, j]
        if before:
            cute.syncwarp()
        a = cute.rmem("f16", 8)
        cute.copy(ld, s[t, _], a)
        cute.syncwarp()
        cute.copy(st, a, s[t, _])
        if between:
            cute.syncwarp()
        for j in range(8):
            out[t, j] = s[t, j]

    return kernel


def test_matrices_are_touched_by_the_whole_warp():
    def rows():
        return np.arange(256, dtype=np.float16).reshape(32, 8), np.zeros((32, 8), np.float16)

    assert verdicts(matrices(True, True), rows, same) == {True}
    assert verdicts(matrices(False, True), rows, same) == {"emulate-race"}
    assert verdicts(matrices(True, False), rows, same) == {"emulate-race"}


# -- several lanes at one address


def histogram(add):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=32)
        t, s = cute.thread_idx(), cute.smem("s32", 8)
        with cute.when(t < 8):
            s[t] = 0
        cute.syncwarp()
        add(s, t // 4)
        cute.syncwarp()
        with cute.when(t < 8):
            out[t] = s[t].to("f32")

    return verdicts(kernel, line(32), lambda x, out: (out[:8] == 4).all())


def test_a_histogram_adds_with_atomics():
    def load_add_store(s, bin_):
        s[bin_] = s[bin_] + 1

    def atomic(s, bin_):
        cute.atomic("add", cute.local_tile(s, (1,), (bin_,)), 1)

    assert histogram(atomic) == {True}
    assert histogram(load_add_store) == {"emulate-race"}


@pytest.mark.parametrize(("kind", "each"), [("s4", 2), ("u2", 4), ("b1", 8)])
def test_lanes_that_store_at_once_have_whole_bytes(kind, each):
    def stored(n):
        m = Maker(threads=32)
        s, a = m.smem("S", kind, 32 * each), m.reg("a", kind, n)
        return m.plan(m.op(ops.Fill, a, 1), m.op(ops.Store, at(s, tid * n, width=n), a))

    for order in ORDERS:
        cute.emulate(stored(each), order=order)
        for n in (1, each // 2):
            with pytest.raises(cute.EmulationError, match="another lane's write of the same byte"):
                cute.emulate(stored(n), order=order)
