"""Loops, branches and leaving them under masks; barriers of parts of a block."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate import emulate
from tests.coverage import covers, refuses
from tests.emulated.plans import Maker, at, bid_x, less, ops, same, tid, var
from tests.emulated.test_threads import ORDERS, refused


def counted(*body, threads=64, grid=1, start=0):
    """Run a body that changes the register a of each thread, and return all of them."""
    m, a = body[0]
    A = m.tensor("A", "s32")
    store = m.op(ops.Store, at(A, bid_x * threads + tid), a)
    plan = m.plan(m.op(ops.Fill, a, start), *body[1:], store)
    A = np.zeros(threads * grid, np.int32)
    emulate(plan, A)
    return A


def maker(threads=64, grid=1):
    m = Maker(threads=threads, grid=(grid, 1, 1))
    return m, m.reg("a", "s32")


def add(m, a, value):
    return m.op(ops.Map, "add", a, (a, value), cute.s32)


def test_loops_of_lanes_nest_in_branches_of_lanes():
    m, a = maker()
    inner = m.op(ops.Loop, "j", 0, var("k"), 1, (add(m, a, 1),), "thread")
    branch = m.op(ops.If, same(tid % 2, 0), (inner,), (add(m, a, -1),), "thread")
    A = counted((m, a), m.op(ops.Loop, "k", 0, tid % 5 + 1, 1, (branch,), "thread"))
    t = np.arange(64)
    n = t % 5 + 1
    assert np.array_equal(A, np.where(t % 2 == 0, n * (n - 1) // 2, -n))


def test_lanes_leave_a_loop_from_inside_a_branch():
    m, a = maker()
    leave = m.op(ops.Leave, same(var("k"), tid % 10), "loop", "thread")
    body = (m.op(ops.If, less(tid, 40), (leave,), (), "thread"), add(m, a, 1))
    A = counted((m, a), m.op(ops.Loop, "k", 0, 10, 1, body))
    t = np.arange(64)
    assert np.array_equal(A, np.where(t < 40, t % 10, 10))


def test_all_lanes_of_a_branch_leave_the_kernel():
    m, a = maker()
    leave = m.op(ops.Leave, less(tid, 100), "kernel", "thread")
    A = counted((m, a), m.op(ops.If, less(tid, 40), (leave,), (), "thread"), start=1)
    assert A.tolist() == [0] * 40 + [1] * 24


@covers(ops.Leave)
def test_blocks_leave_before_a_barrier():
    m, a = maker(grid=3)
    leave = m.op(ops.Leave, less(1, bid_x), "kernel", "block")
    A = counted((m, a), leave, m.op(ops.Barrier), grid=3, start=1)
    assert A.tolist() == [1] * 128 + [0] * 64


@covers(ops.Loop)
@pytest.mark.parametrize(("scope", "start"), [("block", 5), ("thread", tid)])
def test_loops_count_down(scope, start):
    m, a = maker(32)
    A = counted(
        (m, a), m.op(ops.Loop, "k", start, 0, -2, (add(m, a, var("k")),), scope), threads=32
    )
    n = np.arange(32) if scope == "thread" else np.full(32, 5)
    assert A.tolist() == [sum(range(x, 0, -2)) for x in n]


@covers(ops.Barrier)
@pytest.mark.parametrize("order", [*ORDERS, 1, 2, 3])
def test_parts_of_a_block_meet_at_barriers_of_their_own(order):
    m = Maker(threads=128)
    A, S = m.tensor("A", "s32"), m.smem("S", "s32", 128)
    a = m.reg("a", "s32")
    meet = m.op(ops.Barrier, "named", "sync", tid // 64 + 1, 64)
    body = (
        m.op(ops.Store, at(S, tid), a),
        meet,
        m.op(ops.Load, a, at(S, tid // 64 * 64 + 63 - tid % 64)),
        meet,
        add(m, a, 1),
    )
    plan = m.plan(
        m.op(ops.Fill, a, 0),
        m.op(ops.Loop, "k", 0, tid // 64 * 2 + 1, 1, body, "warp"),
        m.op(ops.Barrier),
        m.op(ops.Store, at(A, tid), a),
    )
    A = np.zeros(128, np.int32)
    emulate(plan, A, order=order)
    assert np.array_equal(A, np.arange(128) // 64 * 2 + 1)


def test_nobody_needs_to_wait_where_all_arrive():
    """Also where a warp is divided: lane 0 alone has fenced."""
    m = Maker(threads=64)
    A = m.tensor("A", "s32")
    a, leads = (
        m.reg("a", "s32"),
        m.op(ops.If, same(tid, 0), (m.op(ops.Fence, "gpu"),), (), "thread"),
    )
    alone = m.op(ops.If, same(tid, 0), (m.op(ops.Fence, "proxy_async"),), (), "thread")
    for first in (leads, alone):
        arrive, meet = m.op(ops.Barrier, "named", "arrive", 1, 64), m.op(ops.Barrier)
        store = m.op(ops.Store, at(A, tid), a)
        plan = m.plan(m.op(ops.Fill, a, 5), first, arrive, meet, arrive, store)
        for order in ORDERS:
            A_ = np.zeros(64, np.int32)
            emulate(plan, A_, order=order)
            assert (A_ == 5).all()


def test_what_a_failed_guard_leaves_is_unwritten_without_a_fill():
    m = Maker(threads=32)
    A, B = m.tensor("A", "f32"), m.tensor("B", "f32")
    a = m.reg("a", "f32", 2)
    guard = (less(tid, 10),)
    load = m.op(ops.Load, a, at(A, tid * 2, width=2, guards=guard, fill=None))
    store = m.op(ops.Store, at(B, tid * 2, width=2), a)
    A, B = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert refused("emulate-register-unwritten", m.plan(load, store), A, B).facts["lane"] == 10
    emulate(m.plan(m.op(ops.Fill, a, 7), load, store), A, B)
    assert np.array_equal(B, np.where(np.arange(64) < 20, A, 7))


def test_members_of_a_union_race_without_a_barrier():
    m = Maker(threads=64)
    S, T = m.smem("S", "f32", 64), m.smem("T", "f16", 64, at=0)
    a, b = m.reg("a", "f32"), m.reg("b", "f16")
    fills = m.op(ops.Fill, a, 1), m.op(ops.Fill, b, 1)
    one, two = m.op(ops.Store, at(S, tid), a), m.op(ops.Store, at(T, tid), b)
    refused("emulate-race", m.plan(*fills, one, two))
    emulate(m.plan(*fills, one, m.op(ops.Barrier), two))


@refuses(ops.Atomic)
def test_atomics_do_not_race_with_each_other_but_with_loads():
    m = Maker(threads=64)
    S = m.smem("S", "s32", 1)
    a, b = m.reg("a", "s32"), m.reg("b", "s32")
    begin = [
        m.op(ops.Fill, a, 0),
        m.op(ops.If, same(tid, 0), (m.op(ops.Store, at(S, 0), a),), (), "thread"),
        m.op(ops.Barrier),
        *[m.op(ops.Atomic, "add", at(S, 0), a)] * 2,
    ]
    load = m.op(ops.Load, b, at(S, 0))
    error = refused("emulate-race", m.plan(*begin, load))
    assert "after an atomic of warp 1" in str(error)
    emulate(m.plan(*begin, m.op(ops.Barrier), load))


def test_offsets_below_zero_are_out_of_bounds():
    m = Maker(threads=32)
    A = m.tensor("A", "f32")
    a = m.reg("a", "f32")
    plan = m.plan(m.op(ops.Load, a, at(A, tid - 1)))
    error = refused("emulate-bounds", plan, np.zeros(32, np.float32), checks=False)
    assert error.facts["offset"] == -1
