"""Lanes of one warp that wait for each other: each makes progress, and meets the others again.

Loops, locks, returns and messages; straight code at random: test_lanes_apart.py.
"""

import numpy as np
import pytest

import cute_py as cute
from tests.emulated.test_lanes import f32, line, verdicts

s32 = np.int32
CASES = {}  # name -> the kernel, its arguments, and whether they are right after it, or a code


def at(x, i=0):
    return cute.local_tile(x, (1,), (i,))


def flags(n, outputs):
    return lambda: (np.zeros(n, s32), np.zeros(outputs, f32))


def case(arguments, right):
    """Keep a kernel with what it is run on; `right`: a test of the arguments, or a code."""

    def kept(kernel):
        CASES[kernel.__name__] = kernel, arguments, right
        return kernel

    return kept


def all_two(flag, out):
    return (out == 2).all()


# -- lanes that make progress


@case(flags(2, 128), all_two)
@cute.kernel
def a_ticket_of_the_other_branch(flag, out):
    cute.launch(grid=2, block=64)
    t, b = cute.thread_idx(), cute.block_idx()
    with cute.when(t % 32 < 16):
        cute.wait_until(at(flag, b), "eq", 2)
    with cute.otherwise(), cute.when(t % 32 == 16):
        cute.atomic("add", at(flag, b), 1)
    cute.syncthreads()
    out[64 * b + t] = 2.0


@case(flags(1, 1), lambda lock, out: out[0] == 4)
@cute.kernel
def a_lock_of_each_lane(lock, out):
    cute.launch(grid=1, block=4)
    got = cute.var(1)
    with cute.while_(lambda: got.get() != 0):
        got.set(cute.as_int(cute.atomic("exch", at(lock), 1, old=True)))
    cute.threadfence()
    out[0] = out[0] + 1.0
    cute.threadfence()
    cute.atomic("exch", at(lock), 0)


@case(flags(33, 1), lambda flag, out: out[0] == 32)
@cute.kernel
def a_chain_of_lanes(flag, out):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    with cute.when(t > 0):
        cute.wait_until(at(flag, t), "eq", 1)
    out[0] = out[0] + 1.0
    cute.store_release(at(flag, t + 1), 1)


@case(flags(16, 32), all_two)
@cute.kernel
def pairs_that_take_turns(flag, out):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    mine = at(flag, t // 2)
    with cute.when(t % 2 == 0):
        for k in cute.range(3):
            cute.wait_until(mine, "eq", 2 * k + 1)
            cute.store_release(mine, 2 * k + 2)
    with cute.otherwise():
        for k in cute.range(3):
            cute.wait_until(mine, "eq", 2 * k)
            cute.store_release(mine, 2 * k + 1)
    out[t] = 2.0


# -- they meet again


@case(flags(1, 32), lambda flag, out: (out == 3 * 496).all())
@cute.kernel
def a_sum_of_the_warp_in_each_iteration(flag, out):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    for k in cute.range(3):
        with cute.when(t == 0):
            cute.wait_until(at(flag), "eq", k + 1)
        with cute.when(t == 7):
            cute.store_release(at(flag), k + 1)
        held = cute.rmem("f32", 1)
        held[0] = cute.where(t >= 0, 1.0, 0.0)
        for lane in range(5):
            held[0] = held[0] + cute.shuffle(held, 1 << lane, "bfly")[0]
        held[0] = held[0] * 15.5
        cute.syncwarp()
        out[t] = out[t] + held[0]


@case(flags(1, 64), lambda flag, out: (out[:16] == 2).all() and not out[16:].any())
@cute.kernel
def some_return_while_others_wait(flag, out):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    with cute.when(t == 0):
        cute.wait_until(at(flag), "eq", 1)
    with cute.otherwise():
        with cute.when(t == 5):
            cute.store_release(at(flag), 1)
        cute.return_if(t >= 16)
    cute.syncwarp()
    out[t] = 2.0


# -- what does not end, and what nothing orders


@case(line(32), {"emulate-warp-divergent"})
@cute.kernel
def one_syncwarp_more(x, out):
    cute.launch(grid=1, block=32)
    t, s = cute.thread_idx(), cute.smem("f32", 32)
    with cute.when(t < 16):
        s[t] = x[t]
        cute.syncwarp()
        cute.syncwarp()
        out[t] = s[t + 16]
    with cute.otherwise():
        s[t] = x[t]
        cute.syncwarp()
        out[t] = s[t - 16]


@case(flags(1, 64), {"emulate-deadlock"})
@cute.kernel
def set_after_the_meeting(flag, out):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    with cute.when(t == 0):
        cute.wait_until(at(flag), "eq", 1)
    cute.syncwarp()
    with cute.when(t == 1):
        cute.store_release(at(flag), 1)
    out[t] = 2.0


@case(flags(1, 1), {"emulate-deadlock"})
@cute.kernel
def a_lock_that_stays_closed(lock, out):
    cute.launch(grid=1, block=32)
    got = cute.var(1)
    with cute.while_(lambda: got.get() != 0):
        got.set(cute.as_int(cute.atomic("exch", at(lock), 1, old=True)))
    out[0] = 1.0


@case(flags(1, 2), {"emulate-global-race"})
@cute.kernel
def released_before_it_is_written(flag, out):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    with cute.when(t == 0):
        cute.wait_until(at(flag), "eq", 1)
        out[0] = out[1]
    with cute.when(t == 1):
        cute.store_release(at(flag), 1)
        out[1] = 5.0


@pytest.mark.parametrize("name", CASES)
def test_lanes_that_wait_for_each_other(name):
    kernel, arguments, right = CASES[name]
    if isinstance(right, set):
        assert verdicts(kernel, arguments, lambda *given: True) == right
    else:
        assert verdicts(kernel, arguments, right) == {True}


def test_a_deadlock_is_said_where_a_branch_ahead_asks_for_registers():
    """They have no value yet."""

    @cute.kernel
    def stuck(x):
        cute.launch(grid=1, block=64)
        tid = cute.thread_idx()
        cute.named_barrier(1 + cute.warp_idx(), 64)
        with cute.when(cute.vote("any", cute.rmem("f32", 1).fill(0) > x[tid])):
            cute.named_barrier(2 - cute.warp_idx(), 64)

    with pytest.raises(cute.CuteError, match="barrier 1, where 32 of 64") as caught:
        stuck(np.zeros(64, np.float32))
    assert caught.value.code == "emulate-deadlock"


def test_a_deadlock_names_the_lanes():
    flag, out = CASES["set_after_the_meeting"][1]()
    plan = cute.trace(set_after_the_meeting, flag, out)
    with pytest.raises(cute.EmulationError) as caught:
        cute.emulate(plan, flag, out)
    assert "lanes 0 of warp 0 of block (0, 0, 0): flag == 1" in str(caught.value)
    assert "lanes 1-31 of warp 0 of block (0, 0, 0): the other lanes" in str(caught.value)
