"""`cute.check_orders`: what has not been tried is named, and then nothing is proved."""

from unittest.mock import patch

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate.orders import check
from tests.order_kernels import at, counter, ticket


def test_lanes_of_one_atomic_are_named():
    @cute.kernel
    def kernel(count, out):
        cute.launch(grid=1, block=32)
        out[ticket(count)] = cute.thread_idx()

    found = cute.check_orders(kernel, np.zeros(1, np.int32), np.zeros(32, np.int32))
    assert not found.proved
    assert len(found.bounded) == 1
    assert "lanes of one operation" in found.bounded[0]
    assert found.witness is None


def test_lanes_of_a_warp_are_named_where_others_race_with_them():
    @cute.kernel
    def kernel(flags, out):
        cute.launch(grid=1, block=64)
        t = cute.thread_idx()
        with cute.when(t == 0):
            cute.store_release(at(flags, 0), 1)
        with cute.when(t == 1):
            cute.store_release(at(flags, 1), 1)
        with cute.when(t == 32):
            out[1] = cute.as_int(cute.load_acquire(at(flags, 1)))
            out[0] = cute.as_int(cute.load_acquire(at(flags, 0)))

    found = cute.check_orders(kernel, np.zeros(2, np.int32), np.zeros(2, np.int32))
    assert not found.proved
    assert any("lanes of one warp" in x for x in found.bounded)


def test_bounds_are_named():
    kernel, given = counter, (np.zeros(1, np.int32), np.zeros(8, np.int32))
    found = cute.check_orders(kernel, *given, 3, 3, most=5)  # of 27
    assert (found.proved, found.runs, found.classes) == (False, 5, 5)
    assert "5 runs" in found.bounded[0]
    found = cute.check_orders(kernel, *given, 5, 3, seconds=1e-9)
    assert (found.proved, found.runs) == (False, 1)
    assert "seconds" in found.bounded[0]
    found = cute.check_orders(kernel, *given, 1, 3, resident=2)
    assert not found.proved
    assert "2 of 3 run at once" in found.bounded[0]


def test_sums_of_floats_are_named_and_proved():
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=3, block=32)
        with cute.when(cute.thread_idx() == 0):
            held = cute.rmem("f32", 1)
            held[0] = x[cute.block_idx()]
            cute.atomic("add", at(out), held)

    given = np.array([1, 1e8, -1e8], np.float32), np.zeros(1, np.float32)
    found = cute.check_orders(kernel, *given)
    assert found.proved
    assert "rounding of sums of floats" in found.bounded[0]
    report = cute.emulate(kernel, *given, report=True)
    assert "order-dependent in their last bits" in str(report)
    assert "test_orders_not_proved.py:" in str(report).rpartition("order-dependent")[2]


def test_one_float_for_each_element_is_no_sum():
    @cute.kernel
    def kernel(out):
        cute.launch(grid=2, block=32)
        held = cute.rmem("f32", 1)
        held.fill(1)
        cute.atomic("add", at(out, 32 * cute.block_idx() + cute.thread_idx()), held)

    assert "order-dependent" not in str(cute.emulate(kernel, np.zeros(64, np.float32), report=True))


def test_a_loop_that_counts_its_rounds_is_named():
    """A loop that gives up after some rounds is run in full; one that only counts is cut."""

    @cute.kernel
    def kernel(flag, out):
        cute.launch(grid=1, block=64)
        with cute.when(cute.thread_idx() == 0):
            found, rounds = cute.var(0), cute.var(0)
            with cute.while_(lambda: found.get() == 0):
                found.set(cute.as_int(cute.load_acquire(at(flag))))
                rounds.set(rounds.get() + 1)
            out[0] = rounds.get()
        with cute.when(cute.thread_idx() == 32):
            cute.store_release(at(flag), 1)

    found = cute.check_orders(kernel, np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert not found.proved
    assert any("more rounds of the loop" in x for x in found.bounded)
    assert len(found.results) > 2


def s32(*sizes):
    return [np.zeros(n, np.int32) for n in sizes]


@cute.kernel
def rounds_that_add(flag, count, out):
    """A seventh round would store past `out`."""
    cute.launch(grid=2, block=32, resident=True)
    with cute.when(cute.thread_idx() == 0):
        with cute.when(cute.block_idx() == 0):
            cute.store_release(at(flag), 1)
        with cute.otherwise():
            found = cute.var(0)
            with cute.while_(lambda: found.get() == 0):
                found.set(cute.as_int(cute.load_acquire(at(flag))))
                cute.atomic("add", at(count), 1)
            cute.threadfence()
            out[cute.as_int(count[0]) - 1] = 1


@cute.kernel
def rounds_that_arrive(flag):
    """A phase ends after four more arrivals than there are rounds, or waits forever."""
    cute.launch(grid=1, block=64)
    bars, t = cute.mbarriers(1), cute.thread_idx()
    with cute.when(t == 0):
        bars.init(5)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    with cute.when(t == 0):
        found = cute.var(0)
        with cute.while_(lambda: found.get() == 0):
            bars.arrive(0)
            found.set(cute.as_int(cute.load_acquire(at(flag))))
        for _ in range(4):
            bars.arrive(0)
        bars.wait(0, 0)
    with cute.when(t == 32):
        cute.store_release(at(flag), 1)


@cute.kernel
def lanes_with_tickets(x, y, out):
    """Lane 2 of one warp may come before lane 0."""
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    with cute.when(t == 0):
        ticket(x)
    with cute.when(t == 1):
        ticket(y)
    with cute.when(t == 2):
        out[ticket(x) - 1] = 1


@cute.kernel
def lanes_that_wait_together(flag):
    """Lane 0 may set the flag back before the others have looked."""
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    with cute.when(t == 32):
        cute.store_release(at(flag), 1)
    with cute.when(t < 32):
        cute.wait_until(at(flag), "eq", 1)
        with cute.when(t == 0):
            cute.store_release(at(flag), 2)


@cute.kernel
def a_lane_that_does_not_wait(x, out):
    """Lane 0 waits for the other warp's ticket, lane 1 does not."""
    cute.launch(grid=1, block=64)
    bars, t = cute.mbarriers(1), cute.thread_idx()
    with cute.when(t == 0):
        bars.init(1)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    with cute.when(t == 32):
        ticket(x)
        bars.arrive(0)
    with cute.when(t == 0):
        bars.wait(0, 0)
    with cute.when(t == 1):
        out[ticket(x) - 1] = 1


@cute.kernel
def two_names(x, y, out):
    """A sum and a maximum, of one array under two names."""
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    with cute.when(t == 0):
        cute.atomic("add", at(x), 1)
    with cute.when(t == 32):
        cute.atomic("max", at(y), 5)
    cute.syncthreads()
    with cute.when(t == 0):
        out[5 - cute.as_int(x[0])] = 1


@cute.kernel
def a_reduction_by_tma(x, out):
    """An atomic finds the sum before it, or after it."""
    cute.launch(grid=2, block=32)
    s, t = cute.smem("s32", cute.Layout((8, 32), (32, 1)), 1024), cute.thread_idx()
    tile = cute.local_tile(cute.tma_tensor(x), (8, 32), (0, 0))
    with cute.when(cute.block_idx() == 0):
        for i in range(8):
            s[i, t] = 1
        cute.fence_proxy_async()
        cute.syncwarp()
        with cute.when(t == 0):
            cute.tma_store(s, tile, "add")
            cute.tma_store_commit()
            cute.tma_store_wait(0)
    with cute.when((cute.block_idx() == 1) & (t == 0)):
        out[0] = cute.as_int(cute.atomic("add", cute.local_tile(x, (1, 1), (0, 0)), 1, old=True))


FLAG = np.zeros(1, np.int32)
NAMED = (
    (rounds_that_add, s32(1, 1, 7), "more rounds of the loop"),
    (rounds_that_arrive, s32(1), "more rounds of the loop"),
    (lanes_with_tickets, s32(1, 1, 3), "lanes of one warp"),
    (lanes_that_wait_together, s32(1), "lanes of one warp"),
    (a_lane_that_does_not_wait, s32(1, 2), "lanes of one warp"),
    (two_names, [FLAG, FLAG, np.zeros(8, np.int32)], "what x and y share"),
    (a_reduction_by_tma, [np.zeros((8, 32), np.int32), FLAG], "reductions by TMA"),
)


@pytest.mark.parametrize(("kernel", "arrays", "what"), NAMED)
def test_what_no_run_has_tried_is_named(kernel, arrays, what):
    """Each has an order with an error that no run has."""
    found = cute.check_orders(kernel, *arrays)
    assert not found.proved
    assert any(what in x for x in found.bounded), found
    assert f"not tried: {found.bounded[0]}" in str(found)


def test_registers_that_a_block_of_any_batch_gets_again_are_named():
    @cute.kernel
    def kernel(out, again):
        cute.launch(grid=2, block=128)
        with cute.when(cute.block_idx() < again):
            for n in (64, 40):
                cute.setmaxnreg(n, "dec")
                cute.syncthreads()
        out[cute.block_idx(), cute.thread_idx()] = 1

    for again, proved in ((0, True), (1, False), (2, False)):
        with patch.object(check, "BATCH", 1):  # each block is a batch
            found = cute.check_orders(kernel, np.zeros((2, 128), np.int32), again)
        assert found.proved is proved, again
        assert any("get and give registers" in x for x in found.bounded) is not proved
