"""Accesses of global memory that nothing orders, each next to a right twin, in all orders. Reads,
writes, atomics and flags of single elements, at random: test_global_order.py.
"""

import re

import numpy as np
import pytest

import cute_py as cute

ORDERS = ("forward", "reversed", 0, 1, 2)
RACE = "emulate-global-race"
CASES = {}  # name -> (the kernel, given whether it is broken; its arguments)
f32, s32 = np.float32, np.int32


def at(x, i=0):
    return cute.local_tile(x, (1,), (i,))


def numbers(n):
    return np.arange(n, dtype=f32) + 1


def pair(threads, grid=1):
    """Make a case of a body(broken, x, out, t, b), for arrays of threads * grid elements."""

    def made(body):
        def kernel(broken):
            @cute.kernel
            def run(x, out):
                cute.launch(grid=grid, block=threads)
                body(broken, x, out, cute.thread_idx(), cute.block_idx())

            return run

        n = threads * grid
        CASES[body.__name__] = kernel, lambda: (numbers(n), np.full(n, -1, f32))
        return CASES[body.__name__]

    return made


# -- one block


@pair(64)
def two_warps_store_different_values(broken, x, out, t, b):
    out[t % 32 if broken else t] = x[t]


@pair(64)
def vectors_overlap(broken, x, out, t, b):
    with cute.when(t < 16):
        held = cute.rmem("f32", 4)
        cute.copy(cute.local_tile(x, (4,), (t,)), held)
        cute.copy(held, cute.local_tile(out, (4,), (t // 2 if broken else t,)))


@pair(64)
def through_global_memory_without_a_barrier(broken, x, out, t, b):
    out[t] = x[t]
    if not broken:
        cute.syncthreads()
    out[63 - t] = out[63 - t] + 1.0


@pair(96)
def a_named_barrier_of_other_warps(broken, x, out, t, b):
    with cute.when(t < 64):
        x[t] = x[t] + 1.0
        cute.named_barrier(1, 64)
        out[t] = x[63 - t]
    with cute.otherwise(), cute.when(t == 64):
        out[t] = x[0 if broken else 64]


@pair(64)
def a_copy_that_others_still_write(broken, x, out, t, b):
    s = cute.smem("f32", 64)
    x[t] = x[t] + 1.0
    if not broken:
        cute.syncthreads()
    cute.copy(cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<32>", "f32"), at(x, 63 - t), at(s, t))
    cute.cp_async_fence()
    cute.cp_async_wait(0)
    out[t] = s[t]


@pair(64)
def a_copy_that_still_reads(broken, x, out, t, b):
    s = cute.smem("f32", 64)
    cute.copy(cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<32>", "f32"), at(x, t), at(s, t))
    cute.cp_async_fence()
    if not broken:
        cute.cp_async_wait(0)
    x[t] = 0.0
    cute.cp_async_wait(0)
    out[t] = s[t]


@pair(64)
def bytes_of_what_others_read(broken, x, out, t, b):
    words = cute.recast(x, "u8")
    with cute.when(t < 32):
        words[4 * t] = cute.recast(out, "u8")[4 * t]
    if not broken:
        cute.syncthreads()
    with cute.when(t >= 32):
        out[t] = x[t - 32]


# -- blocks


@pair(32, grid=8)
def blocks_add_to_one_element(broken, x, out, t, b):
    with cute.when(t == 0):
        if broken:
            out[0] = out[0] + 1.0
        else:
            cute.atomic("add", at(out), 1.0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_race_is_refused_and_its_twin_runs(case, order):
    kernel, args = case
    given = args()
    cute.emulate(cute.trace(kernel(False), *given), *given, order=order)
    given = args()
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(cute.trace(kernel(True), *given), *given, order=order)
    assert caught.value.code == RACE
    text = str(caught.value)
    assert text.count("block (") >= 2  # both threads
    assert text.count("test_global_memory.py:") >= 2  # both lines


# -- blocks that communicate: a chain of blocks, each adding to what the one before left


def chain(missing, threads=64, grid=4):
    """Blocks add to `total` in turn, by a flag; one part of the protocol may be missing."""

    @cute.kernel
    def run(x, total, flag):
        cute.launch(grid=grid, block=threads)
        b, t, turn = cute.block_idx(), cute.thread_idx(), at(flag)
        sync = cute.syncwarp if threads == 32 else cute.syncthreads
        if missing != "acquire":
            with cute.when(t == 0):
                cute.wait_until(turn, "eq", b)
        if missing != "barrier after the wait":
            sync()
        total[threads - 1 - t] = total[threads - 1 - t] + x[b * threads + t]
        if missing != "barrier before the release":
            sync()
        with cute.when(t == 0):
            if missing == "release":
                flag[0] = b + 1
            else:
                cute.store_release(turn, b + 1)

    return run


MISSING = ["acquire", "barrier after the wait", "barrier before the release", "release"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize("missing", [None, *MISSING])
def test_blocks_that_add_in_turn(missing, threads, order):
    x = numbers(4 * threads)
    total, flag = np.zeros(threads, f32), np.zeros(1, s32)
    plan = cute.trace(chain(missing, threads), x, total, flag)
    if missing is None:
        cute.emulate(plan, x, total, flag, order=order)
        np.testing.assert_array_equal(total, x.reshape(4, threads).sum(0)[::-1])
        return
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, x, total, flag, order=order)
    assert caught.value.code == RACE


# -- atomics with fences


def last_block_sums(missing, scope="gpu"):
    """Each block stores a part; the one that comes last, by a ticket, adds them up."""

    @cute.kernel
    def run(x, parts, out, ticket):
        cute.launch(grid=4, block=64)
        b, t, told = cute.block_idx(), cute.thread_idx(), cute.smem("s32", 1)
        own = cute.local_tile(parts, (64,), (b,))
        own[t] = x[64 * b + t]
        if missing != "barrier":
            cute.syncthreads()
        with cute.when(t == 0):
            if missing != "fence before":
                cute.threadfence(scope)
            told[0] = cute.atomic("add", at(ticket), 1, old=True)[0]
            if missing != "fence after":
                cute.threadfence(scope)
        cute.syncthreads()
        with cute.when(cute.as_int(told[0]) == 3):
            out[t] = parts[t] + parts[64 + t] + parts[128 + t] + parts[192 + t]

    return run


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("missing", [None, "barrier", "fence before", "fence after", "scope"])
def test_the_last_block_adds_up_what_others_stored(missing, order):
    x = numbers(256)
    arrays = x, np.zeros(256, f32), np.zeros(64, f32), np.zeros(1, s32)
    kernel = last_block_sums(missing, "block" if missing == "scope" else "gpu")
    plan = cute.trace(kernel, *arrays)
    if missing is None:
        cute.emulate(plan, *arrays, order=order)
        np.testing.assert_array_equal(arrays[2], x.reshape(4, 64).sum(0))
        return
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, *arrays, order=order)
    assert caught.value.code == RACE


def locked(missing, by="blocks"):
    """Blocks, or the warps of a block, add to one element under a lock."""

    @cute.kernel
    def run(lock, out):
        cute.launch(grid=8 if by == "blocks" else 1, block=32 if by == "blocks" else 256)
        got, cell = cute.var(1), at(lock)
        with cute.when(cute.thread_idx() % 32 == 0):
            with cute.while_(lambda: got.get() != 0):
                got.set(cute.as_int(cute.atomic("exch", cell, 1, old=True)))
            if missing != "fence after":
                cute.threadfence()
            out[0] = out[0] + 1.0
            if missing != "fence before":
                cute.threadfence()
            cute.atomic("exch", cell, 0)

    return run


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("by", ["blocks", "warps"])
@pytest.mark.parametrize("missing", [None, "fence before", "fence after"])
def test_a_lock(missing, by, order):
    lock, out = np.zeros(1, s32), np.zeros(1, f32)
    plan = cute.trace(locked(missing, by), lock, out)
    if missing is None:
        cute.emulate(plan, lock, out, order=order)
        assert out[0] == 8
        return
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, lock, out, order=order)
    assert caught.value.code == RACE


def locked_in_shared_memory(missing):
    """The warps of a block add to one element of shared memory under a lock there."""

    @cute.kernel
    def run(out):
        cute.launch(grid=2, block=128)
        t, got = cute.thread_idx(), cute.var(1)
        lock, sum_ = cute.smem("s32", 1), cute.smem("f32", 1)
        with cute.when(t == 0):
            lock[0], sum_[0] = 0, 0.0
        cute.syncthreads()
        with cute.when(t % 32 == 0):
            with cute.while_(lambda: got.get() != 0):
                got.set(cute.as_int(cute.atomic("exch", lock, 1, old=True)))
            if missing != "fence after":
                cute.threadfence("block")
            sum_[0] = sum_[0] + 1.0
            if missing != "fence before":
                cute.threadfence("block")
            cute.atomic("exch", lock, 0)
        cute.syncthreads()
        with cute.when(t == 0):
            out[cute.block_idx()] = sum_[0]

    return run


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("missing", [None, "fence before", "fence after"])
def test_a_lock_in_shared_memory(missing, order):
    out = np.zeros(2, f32)
    plan = cute.trace(locked_in_shared_memory(missing), out)
    if missing is None:
        cute.emulate(plan, out, order=order)
        assert out.tolist() == [4, 4]
        return
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, out, order=order)
    assert caught.value.code == "emulate-race"


def meeting(missing, rounds=3):
    """All blocks meet at a counter, several times; each reads what another one wrote before."""

    @cute.kernel
    def run(x, counter):
        cute.launch(grid=4, block=64, resident=True)
        b, t, seen = cute.block_idx(), cute.thread_idx(), cute.var(0)
        for k in range(rounds):
            here = x[256 * k + 64 * ((b + 1) % 4) + t]
            x[256 * (k + 1) + 64 * b + t] = here + 1.0
            if missing != "barrier before":
                cute.syncthreads()
            with cute.when(t == 0):
                if missing != "fence":
                    cute.threadfence()
                cute.atomic("add", at(counter), 1)
                seen.set(0)
                with cute.while_(lambda k=k: seen.get() < 4 * (k + 1)):
                    seen.set(cute.as_int(cute.load_acquire(at(counter))))
            if missing != "barrier after":
                cute.syncthreads()

    return run


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("missing", [None, "barrier before", "fence", "barrier after"])
def test_blocks_meet_at_a_counter(missing, order):
    x, counter = np.zeros(1024, f32), np.zeros(1, s32)
    x[:256] = np.arange(256)
    plan = cute.trace(meeting(missing), x, counter)
    if missing is None:
        cute.emulate(plan, x, counter, order=order)
        wanted = np.roll(np.arange(256).reshape(4, 64), -3, axis=0).reshape(-1) + 3
        np.testing.assert_array_equal(x[768:], wanted)
        return
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, x, counter, order=order)
    assert caught.value.code == RACE


# -- a flag in global memory orders shared memory


def flag_for_shared_memory(missing):
    @cute.kernel
    def run(x, out, flag):
        cute.launch(grid=1, block=64)
        t, s = cute.thread_idx(), cute.smem("f32", 32)
        with cute.when(t < 32):
            s[t] = x[t]
            if missing != "syncwarp":
                cute.syncwarp()
            with cute.when(t == 0):
                if missing == "release":
                    cute.atomic("exch", at(flag), 1)
                else:
                    cute.store_release(at(flag), 1)
        with cute.otherwise():
            cute.wait_until(at(flag), "eq", 1)
            out[t] = s[t - 32]

    return run


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("missing", [None, "syncwarp", "release"])
def test_a_global_flag_orders_shared_memory(missing, order):
    arrays = numbers(64), np.zeros(64, f32), np.zeros(1, s32)
    plan = cute.trace(flag_for_shared_memory(missing), *arrays)
    if missing is None:
        cute.emulate(plan, *arrays, order=order)
        np.testing.assert_array_equal(arrays[1][32:], arrays[0][:32])
        return
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, *arrays, order=order)
    assert caught.value.code == "emulate-race"


# -- arrays that share memory


@cute.kernel
def copied(x, out):
    cute.launch(grid=2, block=32)
    i = 32 * cute.block_idx() + cute.thread_idx()
    out[i] = x[i]


@pytest.mark.parametrize("order", ORDERS)
def test_arrays_that_overlap_are_one(order):
    memory = numbers(129)
    cute.emulate(cute.trace(copied, memory[:64], memory[64:128]), memory[:64], memory[64:128])
    np.testing.assert_array_equal(memory[64:128], memory[:64])
    over = memory[:64], memory[1:65]
    plan = cute.trace(copied, *over)
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, *over, order=order)
    assert caught.value.code == RACE


# -- TMA


WAIT = "wait for it with cute.tma_store_wait, without read=True"


def boxes(broken):
    @cute.kernel
    def run(out):
        cute.launch(grid=2, block=32)
        t, b = cute.thread_idx(), cute.block_idx()
        s = cute.smem("f32", cute.Layout((8, 32), (32, 1)), 1024)
        for r in range(8):
            s[r, t] = 1.0 + r
        cute.fence_proxy_async()
        cute.syncwarp()
        with cute.when(t == 0):
            where = (0, 0) if broken == "same" else (b, 0)
            cute.tma_store(s, cute.local_tile(cute.tma_tensor(out), (8, 32), where))
            cute.tma_store_commit()
            if broken != "early":
                cute.tma_store_wait(0, read=broken == "read")
        if broken == "early":
            out[8 * b, t] = 5.0
            cute.tma_store_wait(0)
        else:
            cute.syncwarp()
            out[8 * b, t] = 5.0
        with cute.when(t == 0):
            cute.tma_store_wait(0)

    return run


@pytest.mark.parametrize("order", ORDERS)
def test_tma_stores(order):
    out = np.zeros((16, 32), f32)
    cute.emulate(cute.trace(boxes(None), out), out, order=order)
    assert (out[[0, 8]] == 5).all()
    for broken, fix in (("same", "order the blocks"), ("early", WAIT), ("read", WAIT)):
        with pytest.raises(cute.CuteError, match=fix) as caught:
            cute.emulate(cute.trace(boxes(broken), out), out, order=order)
        assert caught.value.code == RACE


@pytest.mark.parametrize("first", ["box", "vectors"])
def test_boxes_and_vectors_of_one_array(first):
    @cute.kernel
    def run(out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        s = cute.smem("f32", cute.Layout((8, 32), (32, 1)), 1024)
        for r in range(8):
            s[r, t] = 1.0 + r
        held = cute.rmem("f32", 4)
        held.fill(3)
        cute.fence_proxy_async()
        cute.syncwarp()
        for what in ("box", "vectors") if first == "box" else ("vectors", "box"):
            if what == "vectors":
                cute.copy(held, cute.local_tile(out, (1, 4), (8 + t // 8, t % 8)))
            else:
                with cute.when(t == 0):
                    tile = cute.local_tile(cute.tma_tensor(out), (8, 32), (0, 0))
                    cute.tma_store(s, tile)
                    cute.tma_store_commit()
                    cute.tma_store_wait(0)

    out = np.zeros((16, 32), f32)
    report = cute.emulate(cute.trace(run, out), out, report=True)
    assert (out[:8] == 1 + np.arange(8)[:, None]).all()
    assert (out[8:12] == 3).all()
    assert report.unwritten == {"out": 4 * 32}


# -- equal bits, and what the report counts


def test_equal_bits_by_one_op_are_counted():
    @cute.kernel
    def run(x, out):
        cute.launch(grid=3, block=64)
        out[0] = x[5]
        out[1 + cute.block_idx()] = x[cute.block_idx()]

    x, out = numbers(64), np.zeros(8, f32)
    for order in ORDERS:
        report = cute.emulate(cute.trace(run, x, out), x, out, order=order, report=True)
        lines = [report.lines[key] for key in sorted(report.lines)]
        assert [line.equal for line in lines if line.equal] == [3 * 64 - 1, 3 * 64 - 3]
        assert [line.rewritten for line in lines if line.rewritten] == [3 * 64 - 1, 3 * 64 - 3]
        assert report.unwritten == {"out": 4}
        assert "never written: 4 elements of out" in str(report)
        assert "never written" in report._repr_html_()


def test_equal_bits_by_several_ops_are_refused():
    @cute.kernel
    def run(x, out):
        cute.launch(grid=1, block=64)
        with cute.when(cute.thread_idx() < 32):
            out[0] = 1.0
        with cute.otherwise():
            out[0] = 1.0

    x, out = numbers(64), np.zeros(8, f32)
    for order in ORDERS:
        with pytest.raises(cute.CuteError) as caught:
            cute.emulate(cute.trace(run, x, out), x, out, order=order)
        assert caught.value.code == RACE


def test_what_a_block_writes_again_is_counted():
    @cute.kernel
    def run(out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        for k in range(3):
            out[t] = 1.0 * k
        cute.atomic("add", at(out, 40), 1.0)

    out = np.zeros(64, f32)
    report = cute.emulate(cute.trace(run, out), out, report=True)
    assert report.total.rewritten == 64
    assert report.total.equal == 0
    assert report.unwritten == {"out": 31}


def test_nothing_is_watched_without_checks():
    kernel, args = two_warps_store_different_values
    given = args()
    cute.emulate(cute.trace(kernel(True), *given), *given, checks=False)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", [f32, np.float64])
def test_a_flag_of_floats_is_compared_with_a_rounded_integer(kind, order):
    """As `setp` on a GPU: 2**24 + 1 is 2**24 in f32, and NaN is not equal to anything."""

    @cute.kernel
    def run(flag, out):
        cute.launch(grid=2, block=32)
        b, t = cute.block_idx(), cute.thread_idx()
        with cute.when((t == 0) & (b == 0)):
            cute.store_release(at(flag), float(2**24) if kind is f32 else float(2**24 + 1))
            cute.store_release(at(flag, 1), float("nan"))
        with cute.when((t == 0) & (b == 1)):
            cute.wait_until(at(flag), "eq", 2**24 + 1)
            cute.wait_until(at(flag, 1), "ne", 0)
            out[0] = 1.0

    flag, out = np.zeros(2, kind), np.zeros(1, kind)
    cute.emulate(cute.trace(run, flag, out), flag, out, order=order)
    assert out[0] == 1


# -- which blocks run, and loops that nobody ends


@cute.kernel
def first_waits_for_last(flag, out):
    cute.launch(grid=3, block=32, resident=True)
    b, t = cute.block_idx(), cute.thread_idx()
    with cute.when(t == 0):
        with cute.when(b == 0):
            cute.wait_until(at(flag), "eq", 1)
            out[0] = 1.0
        with cute.when(b == 2):
            cute.store_release(at(flag), 1)


@pytest.mark.parametrize("order", ORDERS)
def test_waiting_for_a_block_that_has_not_begun(order):
    plan = cute.trace(first_waits_for_last, np.zeros(1, s32), np.zeros(1, f32))
    for resident in (None, 3, 2):  # block 1 ends, and makes room
        flag, out = np.zeros(1, s32), np.zeros(1, f32)
        cute.emulate(plan, flag, out, order=order, resident=resident)
        assert out[0] == 1
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, np.zeros(1, s32), np.zeros(1, f32), order=order, resident=1)
    assert caught.value.code == "emulate-deadlock"
    assert "block (1, 0, 0) and 1 more have not begun: 1 run at once" in str(caught.value)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("resident", [1, 2, 3, None])
def test_blocks_in_turn_need_no_more_than_one_resident(order, resident):
    x, total, flag = numbers(256), np.zeros(64, f32), np.zeros(1, s32)
    plan = cute.trace(chain(None), x, total, flag)
    cute.emulate(plan, x, total, flag, order=order, resident=resident)
    np.testing.assert_array_equal(total, x.reshape(4, 64).sum(0)[::-1])


@pytest.mark.parametrize("resident", [0, -1, 1.5])
def test_a_number_of_blocks_is_at_least_one(resident):
    x = np.zeros(64, f32)
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(cute.trace(copied, x, x.copy()), x, x.copy(), resident=resident)
    assert caught.value.code == "emulate-resident"


@cute.kernel
def meets_all_blocks(counter, out):
    cute.launch(grid=4, block=64, resident=True)
    with cute.when(cute.thread_idx() == 0):
        cute.atomic("add", at(counter), 1)
        cute.wait_until(at(counter), "eq", 4)
    cute.syncthreads()
    out[64 * cute.block_idx() + cute.thread_idx()] = 1.0


@pytest.mark.parametrize("order", ORDERS)
def test_who_waits_at_a_barrier_for_a_thread_that_waits_is_in_no_branch(order):
    """The refusal is that of the flag: no barrier has to be moved."""
    arrays = np.zeros(1, np.int32), np.zeros(256, np.float32)
    plan = cute.trace(meets_all_blocks, *arrays)
    cute.emulate(plan, *arrays, order=order)
    assert arrays[1].all()
    arrays[0][:] = 0
    with pytest.raises(cute.EmulationError) as caught:
        cute.emulate(plan, *arrays, order=order, resident=2)
    assert caught.value.code == "emulate-deadlock"
    assert "counter == 4, which is 2" in str(caught.value)


@cute.kernel
def a_lock_that_nobody_opens(lock, out):
    cute.launch(grid=2, block=32)
    got = cute.var(1)
    with cute.when(cute.thread_idx() == 0):
        with cute.while_(lambda: got.get() != 0):
            got.set(cute.as_int(cute.atomic("exch", at(lock), 1, old=True)))
        out[0] = 1.0


@cute.kernel
def a_loop_over_a_plain_flag(flag, out):
    cute.launch(grid=1, block=32)
    seen = cute.var(0)
    with cute.while_(lambda: seen.get() == 0):
        seen.set(cute.as_int(flag[0]))
    out[0] = 1.0


@cute.kernel
def a_loop_that_counts(flag, out):
    cute.launch(grid=1, block=32)
    seen, count = cute.var(0), cute.var(0)
    with cute.while_(lambda: seen.get() == 0):
        seen.set(cute.as_int(cute.load_acquire(at(flag))))
        count.set(count.get() + 1)
    out[0] = 1.0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "kernel", [a_lock_that_nobody_opens, a_loop_over_a_plain_flag, a_loop_that_counts]
)
def test_a_loop_that_nothing_ends_is_refused(kernel, order, monkeypatch):
    from cute_py.emulate import machine

    monkeypatch.setattr(machine, "MOST_ROUNDS", 200)
    flag, out = np.zeros(1, s32), np.zeros(1, f32)
    plan = cute.trace(kernel, flag, out)
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, flag, out, order=order)
    assert caught.value.code == "emulate-deadlock"
    assert "a loop that" in str(caught.value)


def test_a_long_loop_is_no_deadlock():
    @cute.kernel
    def run(out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        n, steps = cute.var(t + 27), cute.var(0)
        with cute.while_(lambda: n.get() != 1):
            n.set(n.get() // 2 + (n.get() % 2) * (3 * n.get() + 1 - n.get() // 2))
            steps.set(steps.get() + 1)
        out[t] = steps.get()

    def collatz(n):
        steps = 0
        while n != 1:
            n = 3 * n + 1 if n % 2 else n // 2
            steps += 1
        return steps

    out = np.zeros(32, s32)
    run(out)
    assert out.tolist() == [collatz(n + 27) for n in range(32)]


# -- clusters


@cute.kernel
def peers(x, out, ordered: bool):
    cute.launch(grid=4, block=64, cluster=2)
    b, t = cute.block_idx(), cute.thread_idx()
    x[64 * b + t] = x[64 * b + t] + 1.0
    if ordered:
        cute.cluster_sync()
    else:
        cute.syncthreads()
    peer = b // 2 * 2 + 1 - b % 2
    out[64 * b + t] = x[64 * peer + 63 - t]


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_of_the_cluster_orders_its_blocks(order):
    x, out = numbers(256), np.zeros(256, f32)
    cute.emulate(cute.trace(peers, x, out, True), x, out, order=order)
    wanted = x.reshape(2, 2, 64)[:, ::-1, ::-1].reshape(-1)
    np.testing.assert_array_equal(out, wanted)
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(cute.trace(peers, x, out, False), x, out, order=order)
    assert caught.value.code == RACE


# -- what the tiles of a product may get wrong


def product(warps):
    """C = A B^T by warps side by side in M, N and K; those along K have a part of each sum."""
    mma = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", cute.Layout(warps))

    @cute.kernel
    def run(A, B, C):
        cute.launch(grid=1, block=cute.size(cute.Layout(warps)) * 32)
        thr = mma.get_slice(cute.thread_idx())
        pairs = zip((A, B, C), TILES, strict=True)
        tiles = [cute.local_tile(x, tile, (0, 0)) for x, tile in pairs]
        parts = thr.partition_A(tiles[0]), thr.partition_B(tiles[1]), thr.partition_C(tiles[2])
        a, b = thr.make_fragment_A(parts[0]), thr.make_fragment_B(parts[1])
        acc = thr.make_fragment_C(parts[2])
        acc.fill(0)
        cute.copy(parts[0], a)
        cute.copy(parts[1], b)
        cute.gemm(mma, acc, a, b)
        cute.copy(acc, parts[2])

    return run


TILES = ((32, 32), (16, 32), (32, 16))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("warps", [(2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 1, 2)])
def test_warps_along_k_that_store_their_parts(warps, order):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 32)).astype(np.float16) for n in (32, 16))
    c = np.zeros((32, 16), f32)
    plan = cute.trace(product(warps), a, b, c)
    if warps[2] == 1:
        cute.emulate(plan, a, b, c, order=order)
        np.testing.assert_array_equal(c, a.astype(f32) @ b.astype(f32).T)
        return
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, a, b, c, order=order)
    assert caught.value.code == RACE


@pytest.mark.parametrize("order", ORDERS)
def test_lanes_that_store_alike_may_read_that_and_not_store_other_bits(order):
    def kernel(again):
        @cute.kernel
        def run(x, out):
            cute.launch(grid=1, block=32)
            out[0] = x[5]
            if again:
                out[0] = x[6]
            else:
                out[1 + cute.thread_idx()] = out[0]

        return run

    x, out = numbers(64), np.zeros(64, f32)
    cute.emulate(cute.trace(kernel(False), x, out), x, out, order=order)
    assert (out[1:33] == 6).all()
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(cute.trace(kernel(True), x, out), x, out, order=order)
    assert caught.value.code == RACE


def test_a_loop_over_tickets_is_no_deadlock(monkeypatch):
    """Blocks take tiles by a counter, far more often than a loop may go round for nothing."""
    from cute_py.emulate import machine

    monkeypatch.setattr(machine, "MOST_ROUNDS", 20)
    monkeypatch.setattr(machine, "LOOKS", 5)

    @cute.kernel
    def run(counter, out):
        cute.launch(grid=2, block=32)
        t, tile = cute.thread_idx(), cute.var(0)
        with cute.when(t == 0):
            tile.set(cute.as_int(cute.atomic("add", at(counter), 1, old=True)))
            with cute.while_(lambda: tile.get() < 200):
                cute.atomic("add", at(out), 1.0)
                tile.set(cute.as_int(cute.atomic("add", at(counter), 1, old=True)))

    for order in ORDERS:
        counter, out = np.zeros(1, s32), np.zeros(1, f32)
        cute.emulate(cute.trace(run, counter, out), counter, out, order=order)
        assert out[0] == 200


def test_a_race_names_both_lines_and_the_coordinate():
    @cute.kernel
    def transposed(x, y):
        cute.launch(grid=1, block=64)
        t = cute.thread_idx()
        y[t // 8, t % 8] = x[t]
        x[t] = y[7 - t // 8, t % 8]

    first = transposed.function.__code__.co_firstlineno
    for columns, element in ((8, 56), (10, 70)):
        y = np.zeros((8, columns), np.float32)[:, :8]
        with pytest.raises(cute.EmulationError) as caught:
            transposed(np.zeros(64, np.float32), y)
        said = str(caught.value)
        assert f"element {element} (7,0) of y by block" in said
        lines = [int(line) for line in re.findall(r"\(test_global_memory\.py:(\d+)\)", said)]
        assert lines == [first + 4, first + 5]


# -- what a granule takes


@pytest.mark.parametrize("agents", [3 * 32, 3 * 1024 + 40])
def test_a_granule_takes_16_bytes_and_more_once_epochs_are_large(agents):
    from cute_py.emulate.clocks import EPOCH, SEVERAL
    from cute_py.emulate.regions import Region

    region = Region(0, 800, 8, np.int32, agents)
    held = [x for each in (region.last, region.since) for x in (each.marks, each.stamps.held)]
    assert sum(x.nbytes for x in held) == 16 * 100
    rng = np.random.default_rng(0)
    last = np.zeros(100, np.int64)
    for most in (2, region.last.stamps.epochs, region.last.stamps.epochs + 1, 1 << 30):
        g = rng.permutation(100)[:40]
        stamps = rng.integers(0, most, 40) << EPOCH | rng.integers(0, agents, 40)
        stamps[0] = (most - 1) << EPOCH | SEVERAL | (agents - 1)
        last[g] = stamps
        region.last.stamps.put(g, stamps)
        assert region.last.stamps.held.itemsize == (4 if most <= region.last.stamps.epochs else 8)
        np.testing.assert_array_equal(region.last.stamps.take(np.arange(100)), last)
