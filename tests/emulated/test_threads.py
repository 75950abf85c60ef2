"""SIMT kernels: loads, stores, branches, loops, variables, shuffles, votes, atomics."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate import HANDLERS, emulate
from cute_py.errors import EmulationError
from tests.coverage import covers, refuses
from tests.emulated.plans import Maker, at, bid_x, less, ops, part, same, size, tid, var

ORDERS = ("forward", "reversed", 7)


def refused(code, plan, *args, **named):
    with pytest.raises(EmulationError) as caught:
        emulate(plan, *args, **named)
    assert caught.value.code == code, str(caught.value)
    return caught.value


def vector_add(guarded=True):
    m = Maker("vector_add", grid=((size("A") + 127) // 128, 1, 1), threads=128)
    A, B, C = (m.tensor(name, "f32") for name in "ABC")
    a, b, c = (m.reg(name, "f32") for name in "abc")
    i = bid_x * 128 + tid
    guard = (less(i, size("A")),) if guarded else ()
    return m.plan(
        m.op(ops.Load, a, at(A, i, guards=guard)),
        m.op(ops.Load, b, at(B, i, guards=guard)),
        m.op(ops.Map, "add", c, (a, b), cute.f32),
        m.op(ops.Store, at(C, i, guards=guard), c),
    )


@covers(ops.Load)
@pytest.mark.parametrize("n", [1, 7, 128, 129, 1000])
@pytest.mark.parametrize("checks", [True, False])
def test_vector_add_with_a_ragged_edge(n, checks):
    rng = np.random.default_rng(n)
    A, B = rng.standard_normal((2, n)).astype(np.float32)
    C = np.zeros(n, np.float32)
    emulate(vector_add(), A, B, C, checks=checks)
    assert np.array_equal(C, A + B)


@refuses(ops.Load)
@pytest.mark.parametrize("checks", [True, False])
def test_access_beyond_the_array_is_refused(checks):
    arrays = [np.zeros(129, np.float32) for _ in range(3)]
    error = refused("emulate-bounds", vector_add(guarded=False), *arrays, checks=checks)
    assert "element 129 of gmem storage A" in str(error)
    assert error.facts["block"] == (1, 0, 0)
    assert (error.facts["warp"], error.facts["lane"], error.facts["offset"]) == (0, 1, 129)
    assert str(error).endswith("(kernel.py:1)")


def test_blocks_run_in_batches_when_memory_is_short():
    A, B = np.arange(2000, dtype=np.float32).reshape(2, 1000)
    C = np.zeros(1000, np.float32)
    emulate(vector_add(), A, B, C, memory=20_000)
    assert np.array_equal(C, A + B)


def test_views_with_steps_are_read_and_written_in_place():
    m = Maker(threads=32)
    A = m.tensor("A", "f32")
    a = m.reg("a", "f32")
    i = tid * var("A_stride0")
    plan = m.plan(
        m.op(ops.Load, a, at(A, i)),
        m.op(ops.Map, "mul", a, (a, 2.0), cute.f32),
        m.op(ops.Store, at(A, i), a),
    )
    whole = np.arange(96, dtype=np.float32)
    expected = whole.copy()
    expected[::3] *= 2
    emulate(plan, whole[::3])
    assert np.array_equal(whole, expected)


def test_elements_between_the_rows_of_a_view_are_out_of_bounds():
    m = Maker(threads=32)
    A = m.tensor("A", "f32", 2)
    a = m.reg("a", "f32")
    broken = m.plan(m.op(ops.Load, a, at(A, tid)))
    mended = m.plan(m.op(ops.Load, a, at(A, tid % 4 + tid // 4 * var("A_stride0"))))
    rows = np.zeros((8, 6), np.float32)[:, :4]
    error = refused("emulate-padding", broken, rows)
    assert "is between two of its rows" in str(error)
    assert error.facts["lane"] == 4
    emulate(mended, rows)


def test_wide_access_must_be_aligned():
    m = Maker(threads=32)
    A = m.tensor("A", "f32")
    a = m.reg("a", "f32", 4)
    wrong = m.plan(m.op(ops.Load, a, at(A, tid * 2, width=4)))
    right = m.plan(m.op(ops.Load, a, at(A, tid * 4, width=4)))
    array = np.zeros(132, np.float32)
    assert array.ctypes.data % 16 == 0
    error = refused("emulate-alignment", wrong, array)
    assert "8 bytes past a multiple" in str(error)
    assert error.facts["lane"] == 1
    emulate(right, array)
    refused("emulate-alignment", right, array[1:])


def test_a_misaligned_array_whose_addresses_are_aligned_is_read_right():
    m = Maker(threads=32)
    A, B = m.tensor("A", "f32"), m.tensor("B", "f32")
    a = m.reg("a", "f32", 4)
    plan = m.plan(
        m.op(ops.Load, a, at(A, tid * 4 + 3, width=4)), m.op(ops.Store, at(B, tid * 4, width=4), a)
    )
    array, out = np.arange(132, dtype=np.float32), np.zeros(128, np.float32)
    emulate(plan, array[1:], out)
    assert np.array_equal(out, array[4:132])


def test_read_only_array_is_not_written():
    A = np.zeros(4, np.float32)
    A.flags.writeable = False
    refused("emulate-read-only", vector_add(), A, A, A)


@covers(ops.If)
def test_divergent_branches_run_both_ways():
    m = Maker(threads=64)
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32")
    plan = m.plan(
        m.op(
            ops.If,
            same(tid % 3, 0),
            (m.op(ops.Fill, a, 1),),
            (
                m.op(
                    ops.If,
                    less(tid, 40),
                    (m.op(ops.Fill, a, 2),),
                    (m.op(ops.Fill, a, 3),),
                    "thread",
                ),
            ),
            "thread",
        ),
        m.op(ops.Store, at(A, tid), a),
    )
    A = np.zeros(64, np.int32)
    emulate(plan, A)
    t = np.arange(64)
    assert np.array_equal(A, np.where(t % 3 == 0, 1, np.where(t < 40, 2, 3)))


def test_value_from_an_untaken_branch_is_refused():
    m = Maker(threads=32)
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32")
    inside = m.op(ops.Fill, a, 1)
    broken = m.plan(
        m.op(ops.If, less(tid, 5), (inside,), (), "thread"), m.op(ops.Store, at(A, tid), a)
    )
    mended = m.plan(m.op(ops.Fill, a, 0), *broken.body)
    error = refused("emulate-register-unwritten", broken, np.zeros(32, np.int32))
    assert "register a[0]" in str(error)
    assert error.facts["lane"] == 5
    A = np.zeros(32, np.int32)
    emulate(mended, A)
    assert A.sum() == 5


def test_undefined_registers_may_be_read_after_a_fill_with_none():
    m = Maker(threads=32)
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32")
    plan = m.plan(m.op(ops.Fill, a, None), m.op(ops.Store, at(A, tid), a))
    emulate(plan, np.zeros(32, np.int32))


def test_only_the_elements_that_were_written_may_be_read():
    m = Maker(threads=32)
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32", 4)
    plan = m.plan(
        m.op(ops.Fill, part(a, 0, 2), 1), m.op(ops.Store, at(A, tid, step=(2, 32)), part(a, 2, 3))
    )
    error = refused("emulate-register-unwritten", plan, np.zeros(64, np.int32))
    assert "register a[3]" in str(error)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scope", ["warp", "thread"])
def test_warps_and_lanes_may_count_to_different_numbers(scope, order):
    m = Maker(threads=128, grid=(2, 1, 1))
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32")
    stop = tid // 32 + bid_x if scope == "warp" else tid % 7
    plan = m.plan(
        m.op(ops.Fill, a, 0),
        m.op(ops.Loop, "k", 0, stop, 1, (m.op(ops.Map, "add", a, (a, 1), cute.s32),), scope),
        m.op(ops.Store, at(A, bid_x * 128 + tid), a),
    )
    A = np.zeros(256, np.int32)
    emulate(plan, A, order=order)
    t, b = np.arange(256) % 128, np.arange(256) // 128
    assert np.array_equal(A, t // 32 + b if scope == "warp" else t % 7)


@pytest.mark.parametrize("scope", ["warp", "thread"])
def test_leaving_a_loop_and_variables(scope):
    """Each thread adds 1, 2, 3 ... until the sum passes its own limit."""
    m = Maker(threads=64)
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32")
    limit = tid // 32 * 5 if scope == "warp" else tid
    plan = m.plan(
        m.op(ops.Set, "s", 0),
        m.op(
            ops.Loop,
            "k",
            1,
            100,
            1,
            (
                m.op(ops.Let, "now", "var", ("s",)),
                m.op(ops.Leave, less(limit, var("now")), "loop", scope),
                m.op(ops.Set, "s", var("now") + var("k")),
            ),
        ),
        m.op(ops.Let, "end", "var", ("s",)),
        m.op(ops.Map, "copy", a, (var("end"),), cute.s32),
        m.op(ops.Store, at(A, tid), a),
    )
    A = np.zeros(64, np.int32)
    emulate(plan, A)
    sums = np.cumsum(np.arange(100))
    t = np.arange(64)
    assert np.array_equal(A, [sums[sums > x][0] for x in (t // 32 * 5 if scope == "warp" else t)])


def test_threads_may_leave_the_kernel():
    m = Maker(threads=64)
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32")
    plan = m.plan(
        m.op(ops.Fill, a, 1),
        m.op(
            ops.Loop,
            "k",
            0,
            3,
            1,
            (
                m.op(ops.Leave, less(tid, var("k") * 10), "kernel", "thread"),
                m.op(ops.Store, at(A, tid), a),
                m.op(ops.Map, "add", a, (a, 1), cute.s32),
            ),
        ),
    )
    A = np.zeros(64, np.int32)
    emulate(plan, A)
    assert np.array_equal(A, np.repeat([1, 2, 3], [10, 10, 44]))


def test_while_runs_until_its_condition_fails():
    """Steps of the Collatz map, counted by thread."""
    m = Maker(threads=32)
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32")
    half = m.op(ops.Set, "x", var("now") // 2)
    more = m.op(ops.Set, "x", 3 * var("now") + 1)
    plan = m.plan(
        m.op(ops.Set, "x", tid + 1),
        m.op(ops.Fill, a, 0),
        m.op(
            ops.While,
            (m.op(ops.Let, "now", "var", ("x",)),),
            less(1, var("now")),
            (
                m.op(ops.Map, "add", a, (a, 1), cute.s32),
                m.op(ops.If, same(var("now") % 2, 0), (half,), (more,), "thread"),
            ),
            "thread",
        ),
        m.op(ops.Store, at(A, tid), a),
    )
    A = np.zeros(32, np.int32)
    emulate(plan, A)

    def steps(x):
        return 0 if x == 1 else 1 + steps(x // 2 if x % 2 == 0 else 3 * x + 1)

    assert A.tolist() == [steps(x) for x in range(1, 33)]


def test_blocks_of_partial_warps():
    m = Maker(threads=40)
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32")
    plan = m.plan(
        m.op(ops.Map, "copy", a, (tid,), cute.s32),
        m.op(ops.Barrier),
        m.op(ops.Store, at(A, tid), a),
    )
    A = np.zeros(40, np.int32)
    emulate(plan, A)
    assert np.array_equal(A, np.arange(40))


@covers(ops.Shuffle)
def test_shuffle_reduction():
    m = Maker(threads=64)
    A = m.tensor("A", "f32")
    a, b = m.reg("a", "f32"), m.reg("b", "f32")
    body = [m.op(ops.Load, a, at(A, tid))]
    for k in (16, 8, 4, 2, 1):
        body += [m.op(ops.Shuffle, "bfly", b, a, k), m.op(ops.Map, "add", a, (a, b), cute.f32)]
    body.append(m.op(ops.Store, at(A, tid), a))
    A = np.arange(64, dtype=np.float32)
    expected = np.repeat(A.reshape(2, 32).sum(1), 32)
    emulate(m.plan(*body), A)
    assert np.array_equal(A, expected)


@pytest.mark.parametrize(
    ("kind", "lane", "width", "source"),
    [
        ("idx", 3, 32, lambda t: t // 32 * 32 + 3),
        ("idx", 3, 8, lambda t: t // 8 * 8 + 3),
        ("up", 2, 16, lambda t: np.where(t % 16 < 2, t, t - 2)),
        ("down", 5, 32, lambda t: np.where(t % 32 > 26, t, t + 5)),
        ("bfly", 9, 32, lambda t: t ^ 9),
        ("bfly", 9, 8, lambda t: np.where(t % 16 < 8, t, t ^ 9)),  # groups before one's own count
    ],
)
def test_shuffles_name_the_lane_of_the_ptx_isa(kind, lane, width, source):
    m = Maker(threads=64)
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32")
    plan = m.plan(
        m.op(ops.Map, "copy", a, (tid,), cute.s32),
        m.op(ops.Shuffle, kind, a, a, lane, width),
        m.op(ops.Store, at(A, tid), a),
    )
    A = np.zeros(64, np.int32)
    emulate(plan, A)
    assert np.array_equal(A, source(np.arange(64)))


def test_shuffle_from_a_lane_in_another_branch_is_refused():
    m = Maker(threads=32)
    a = m.reg("a", "s32")
    plan = m.plan(
        m.op(ops.Fill, a, 0),
        m.op(ops.If, less(tid, 16), (m.op(ops.Shuffle, "bfly", a, a, 16),), (), "thread"),
    )
    error = refused("emulate-shuffle", plan)
    assert "from lane 16, which does not take part" in str(error)


@covers(ops.Vote)
def test_votes():
    m = Maker(threads=64)
    A = m.tensor("A", "u32", 2)
    p, any_, all_ = (m.reg(name, "b1") for name in ("p", "any", "all"))
    ballot, out = m.reg("ballot", "u32"), m.reg("out", "u32", 3)
    zero, one = m.reg("zero", "u32"), m.reg("one", "u32")
    plan = m.plan(
        m.op(ops.Map, "lt", p, (tid, 40), cute.s32),
        m.op(ops.Vote, "any", any_, p),
        m.op(ops.Vote, "all", all_, p),
        m.op(ops.Vote, "ballot", ballot, p),
        m.op(ops.Fill, zero, 0),
        m.op(ops.Fill, one, 1),
        m.op(ops.Map, "where", part(out, 0), (any_, one, zero), cute.u32),
        m.op(ops.Map, "where", part(out, 1), (all_, one, zero), cute.u32),
        m.op(ops.Map, "copy", part(out, 2), (ballot,), cute.u32),
        m.op(ops.Store, at(A, tid * 3, step=(3, 1)), out),
    )
    A = np.zeros((64, 3), np.uint32)
    emulate(plan, A)
    assert A[0].tolist() == [1, 1, 0xFFFFFFFF]
    assert A[40].tolist() == [1, 0, 0xFF]


@covers(ops.Redux)
@pytest.mark.parametrize("kind", ["s32", "u32"])
@pytest.mark.parametrize(
    ("fn", "model"),
    [
        ("add", np.add),
        ("min", np.minimum),
        ("max", np.maximum),
        ("and", np.bitwise_and),
        ("or", np.bitwise_or),
        ("xor", np.bitwise_xor),
    ],
)
def test_redux_combines_the_lanes_that_have_not_ended(fn, model, kind):
    m = Maker(threads=80)
    A, a = m.tensor("A", kind, 2), m.reg("a", kind, 2)
    plan = m.plan(
        m.op(ops.Load, a, at(A, tid * 2, step=(2, 1))),
        m.op(ops.Leave, less(tid, 5), "kernel", "thread"),
        m.op(ops.Redux, fn, part(a, 1, 0), a),
        m.op(ops.Store, at(A, tid * 2, step=(2, 1)), a),
    )
    low, high = int(cute.dtype(kind).min), int(cute.dtype(kind).max)
    A = np.random.default_rng(0).integers(low, high, (80, 2), cute.dtype(kind).numpy)
    expected = A.copy()
    for first, last in ((5, 32), (32, 64), (64, 80)):
        total = model.reduce(A[first:last], axis=0, dtype=A.dtype)
        expected[first:last] = total[::-1]
    emulate(plan, A)
    assert np.array_equal(A, expected)


def test_redux_is_of_integers_of_32_bits():
    @cute.kernel
    def total(x):
        cute.launch(grid=1, block=32)
        sum_ = cute.redux("add", x[cute.thread_idx()])
        cute.syncwarp()
        x[0] = sum_

    x = np.ones(32, np.int32)
    total(x)
    assert x[0] == 32
    with pytest.raises(cute.CuteError, match=r"cute\.redux: given registers of f32") as caught:
        total(np.ones(32, np.float32))
    assert caught.value.code == "kernel-domain"


@covers(ops.Atomic)
def test_histogram_by_atomics_in_both_memories():
    m = Maker(threads=128, grid=(4, 1, 1))
    A, H = m.tensor("A", "s32"), m.tensor("H", "s32")
    S = m.smem("S", "s32", 8)
    a, one, old = m.reg("a", "s32"), m.reg("one", "s32"), m.reg("old", "s32")
    bin_ = m.op(ops.Let, "bin", "reg", (a,))
    guard = (less(tid, 8),)
    zero = m.reg("zero", "s32")
    plan = m.plan(
        m.op(ops.Fill, one, 1),
        m.op(ops.Fill, zero, 0),
        m.op(ops.Store, at(S, tid, guards=guard), zero),
        m.op(ops.Barrier),
        m.op(ops.Load, a, at(A, bid_x * 128 + tid)),
        bin_,
        m.op(ops.Atomic, "add", at(S, var("bin")), one, old),
        m.op(ops.Barrier),
        m.op(ops.Load, a, at(S, tid, guards=guard)),
        m.op(ops.Atomic, "add", at(H, tid, guards=guard), a),
    )
    A = np.random.default_rng(0).integers(0, 8, 512).astype(np.int32)
    H = np.zeros(8, np.int32)
    emulate(plan, A, H)
    assert np.array_equal(H, np.bincount(A, minlength=8))


def test_atomics_return_what_they_found():
    m = Maker(threads=64)
    A, B = m.tensor("A", "s32"), m.tensor("B", "s32")
    one, old = m.reg("one", "s32"), m.reg("old", "s32")
    plan = m.plan(
        m.op(ops.Fill, one, 1),
        m.op(ops.Atomic, "add", at(A, 0), one, old),
        m.op(ops.Store, at(B, tid), old),
    )
    A, B = np.zeros(1, np.int32), np.zeros(64, np.int32)
    emulate(plan, A, B)
    assert A[0] == 64
    assert sorted(B) == list(range(64))


@covers(ops.WaitUntil)
@pytest.mark.parametrize("order", ORDERS)
def test_blocks_wait_for_each_other(order):
    """Each block adds to a sum once the one before it has: a semaphore."""
    m = Maker(threads=64, grid=(5, 1, 1))
    S, A = m.tensor("S", "s32"), m.tensor("A", "s32")
    a = m.reg("a", "s32")
    turn = at(S, 0)
    plan = m.plan(
        m.op(ops.If, same(tid, 0), (m.op(ops.WaitUntil, turn, "eq", bid_x),), (), "thread"),
        m.op(ops.Barrier),
        m.op(ops.Load, a, at(A, tid)),
        m.op(ops.Map, "mul", a, (a, 3), cute.s32),
        m.op(ops.Map, "add", a, (a, bid_x), cute.s32),
        m.op(ops.Store, at(A, tid), a),
        m.op(ops.Barrier),
        m.op(
            ops.If,
            same(tid, 0),
            (
                m.op(ops.Map, "copy", a, (bid_x + 1,), cute.s32),
                m.op(ops.Store, turn, a, "release"),
            ),
            (),
            "thread",
        ),
    )
    S, A = np.zeros(1, np.int32), np.ones(64, np.int32)
    emulate(plan, S, A, order=order)
    x = 1
    for b in range(5):
        x = 3 * x + b
    assert S[0] == 5
    assert (x == A).all()


@refuses(ops.WaitUntil)
def test_waiting_for_a_value_that_nobody_stores_is_a_deadlock():
    m = Maker(threads=32, grid=(2, 1, 1))
    S = m.tensor("S", "s32")
    plan = m.plan(m.op(ops.WaitUntil, at(S, 0), "ge", bid_x))
    error = refused("emulate-deadlock", plan, np.zeros(1, np.int32))
    assert "warp 0 of block (1, 0, 0): S >= " in str(error)


@covers(ops.Print, ops.Assert)
@refuses(ops.Assert)
def test_assert_and_print(capsys):
    m = Maker(threads=32)
    x = m.number("x")
    a = m.reg("a", "f32", 2)
    plan = m.plan(
        m.op(ops.Fill, a, 1.5),
        m.op(ops.If, less(tid, 2), (m.op(ops.Print, "t={} a={}", (tid, a)),), (), "thread"),
        m.op(ops.Assert, less(tid, var("x")), "x is too small"),
    )
    assert x.name == "x"
    emulate(plan, 32)
    assert capsys.readouterr().out == "t=0 a=[1.5, 1.5]\nt=1 a=[1.5, 1.5]\n"
    error = refused("emulate-assert", plan, 31)
    assert "'x is too small' (tid < x), by block (0, 0, 0), warp 0, lane 31" in str(error)


def test_float_parameters_are_values():
    m = Maker(threads=32)
    A, alpha = m.tensor("A", "f32"), m.number("alpha", "f32")
    a = m.reg("a", "f32")
    plan = m.plan(
        m.op(ops.Load, a, at(A, tid)),
        m.op(ops.Map, "mul", a, (a, var(alpha.name)), cute.f32),
        m.op(ops.Store, at(A, tid), a),
    )
    A = np.ones(32, np.float32)
    emulate(plan, A, 2.5)
    assert (A == 2.5).all()


def test_every_op_has_a_handler():
    assert set(HANDLERS) == set(ops.OPS)


def test_op_without_a_handler_is_refused_before_anything_runs():
    class Teleport(ops.Op):
        call = "a teleport"

    m = Maker(threads=32)
    A = m.tensor("A", "s32")
    a = m.reg("a", "s32")
    plan = m.plan(m.op(ops.Fill, a, 1), m.op(ops.Store, at(A, tid), a), m.op(Teleport))
    A = np.zeros(32, np.int32)
    error = refused("emulate-op", plan, A)
    assert "a teleport, which is not emulated yet" in str(error)
    assert not A.any()
