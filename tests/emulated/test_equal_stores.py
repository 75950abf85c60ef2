"""Stores of several threads to one place, in no order: right if all of them store one value.

Each kernel below is judged with data of which all elements are equal, so that all bits that are
stored are equal: those of `ALIKE` must run, those of `CHANCE` and `READ` be refused, in every
order. What `ALIKE` leave for other data is the same in all orders.
"""

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate.global_memory import GlobalMemory
from tests.sampling import in_turn

f32 = np.float32
ORDERS = ("forward", "reversed", 0, 1)
ALIKE, CHANCE, READ = [], [], []
CODES = {"emulate-global-race", "emulate-lanes", "emulate-race"}


def case(kind, blocks=3, threads=64):
    """Add a kernel of x, out, the indices i, the number n, and the run-time number alpha."""

    def add(body):
        @cute.kernel
        def kernel(x, out, i, n: cute.s32, alpha: cute.f32):
            cute.launch(grid=blocks, block=threads)
            body(x, out, i, n, alpha, cute.block_idx(), cute.thread_idx())

        kind.append((body.__name__, kernel))
        return body

    return add


def arguments(equal):
    rng = np.random.default_rng(5)
    x = np.ones(256, f32) if equal else rng.integers(-9, 9, 256).astype(f32)
    i = np.zeros(8, np.int32) if equal else rng.integers(0, 8, 8).astype(np.int32)
    i[7] = 0  # a counter
    return x, np.zeros(64, f32), i, np.int32(3), f32(0.5)


def held(value, kind="f32"):
    r = cute.rmem(kind, 1)
    r[0] = value
    return r


# -- right


@case(ALIKE)
def a_number(x, out, i, n, alpha, b, t):
    out[0] = 2.0


@case(ALIKE)
def an_element(x, out, i, n, alpha, b, t):
    out[0] = x[0]


@case(ALIKE)
def an_expression(x, out, i, n, alpha, b, t):
    out[0] = 2.0 * x[0] + alpha


@case(ALIKE)
def an_integer(x, out, i, n, alpha, b, t):
    out[0] = held(cute.where(n > 0, n, 7).to("f32"))[0]


@case(ALIKE)
def an_element_of_each_block(x, out, i, n, alpha, b, t):
    out[b] = x[b] * x[b + 1]


@case(ALIKE)
def an_element_of_each_pair(x, out, i, n, alpha, b, t):
    out[t // 2] = x[t // 2]


@case(ALIKE)
def tiles_that_overlap(x, out, i, n, alpha, b, t):
    start = cute.min_(b * 24, 20)
    with cute.when(t < 24):
        out[start + t] = x[start + t] + 1.0


@case(ALIKE)
def sums_of_tiles_that_overlap(x, out, i, n, alpha, b, t):
    start, total = cute.min_(b * 24, 20), held(0.0)
    with cute.when(t < 24):
        for k in cute.range(n):
            total[0] = total[0] + x[start + t + k] * x[k * n + start + t]
        out[start + t] = total[0]


@case(ALIKE)
def many_elements_of_tiles_that_overlap(x, out, i, n, alpha, b, t):
    start, total = cute.min_(b * 24, 20), held(0.0)
    with cute.when(t < 24):
        for k in range(24):
            total[0] = total[0] + x[start + t + n * k]
        out[start + t] = total[0]


@case(ALIKE)
def elements_in_a_loop(x, out, i, n, alpha, b, t):
    for k in cute.range(4):
        out[k] = x[k]


@case(ALIKE)
def a_sum_in_a_loop(x, out, i, n, alpha, b, t):
    total = held(0.0)
    for k in cute.range(n):
        total[0] = total[0] + x[4 * b + k]
    out[b] = total[0]


@case(ALIKE)
def sums_of_nested_loops(x, out, i, n, alpha, b, t):
    total = held(0.0)
    for k in cute.range(3):
        for j in cute.range(k + 1):
            total[0] = total[0] + x[k + j]
        out[k] = total[0]
    out[9] = total[0]


@case(ALIKE)
def after_a_loop_that_data_end(x, out, i, n, alpha, b, t):
    last = cute.var(0)
    with cute.while_(lambda: (last.get() < 5) & (cute.as_int(i[last.get()], 0, 8) < 8)):
        last.set(last.get() + 1)
    out[0] = x[last.get()]


@case(ALIKE)
def by_a_condition_of_data(x, out, i, n, alpha, b, t):
    with cute.when(x[b] > 0.0):
        out[0] = 2.0


@case(ALIKE)
def chosen_by_what_all_read(x, out, i, n, alpha, b, t):
    r = held(x[1])
    with cute.when(x[0] > 0.0):
        r[0] = x[2]
    out[0] = r[0]
    out[1] = cute.where(x[0] > 0.0, x[3], alpha)


@case(ALIKE)
def an_index_that_all_read(x, out, i, n, alpha, b, t):
    out[0] = x[cute.as_int(i[0], 0, 8)]


@case(ALIKE)
def a_sum_of_the_warp(x, out, i, n, alpha, b, t):
    out[2 * b + t // 32] = cute.warp_reduce("add", held(x[64 * b + t]))[0]


@case(ALIKE, blocks=1)
def sums_of_groups(x, out, i, n, alpha, b, t):
    out[t // 8] = cute.warp_reduce("max", held(x[t]), 8)[0]


@case(ALIKE)
def of_one_lane(x, out, i, n, alpha, b, t):
    out[2 * b + t // 32] = cute.shuffle(held(x[64 * b + t]), 3, "idx")[0]


@case(ALIKE)
def a_vote(x, out, i, n, alpha, b, t):
    any_ = cute.vote("any", x[64 * b + t] > 5.0)
    out[2 * b + t // 32] = cute.where(any_, 1.0, 2.0)


@case(ALIKE)
def through_shared_memory(x, out, i, n, alpha, b, t):
    s = cute.smem("f32", 64)
    total = held(0.0)
    for k in cute.range(3):
        s[t] = x[64 * b + t]
        cute.syncthreads()
        total[0] = total[0] + s[k]
        cute.syncthreads()
    out[b] = total[0]


@case(ALIKE, threads=32)
def lanes_to_shared_memory(x, out, i, n, alpha, b, t):
    s = cute.smem("f32", 4)
    s[0] = x[b]
    out[32 * (b % 2) + t * 0 + b] = s[0]


@case(ALIKE)
def before_and_after_a_barrier(x, out, i, n, alpha, b, t):
    with cute.when(t == 0):
        out[b] = 1.0
    cute.syncthreads()
    out[b] = 2.0
    cute.syncthreads()
    with cute.when(t == 5):
        out[8 + b] = out[b]
    cute.syncthreads()
    out[b] = x[0]


def is_last(count, t):
    """Tell all threads whether their block is the last one to come to a counter."""
    found = cute.smem("s32", 1)
    with cute.when(t == 0):
        cute.threadfence()
        found[0] = cute.atomic("add", count, 1, old=True)
        cute.threadfence()
    cute.syncthreads()
    return cute.as_int(found[0], 0, uniform="block") == 2


@case(ALIKE)
def in_a_branch_that_a_counter_decides(x, out, i, n, alpha, b, t):
    with cute.when(is_last(cute.local_tile(i, (1,), (7,)), t)):
        out[0] = 2.0


@case(ALIKE)
def over_a_counter_that_all_have_counted(x, out, i, n, alpha, b, t):
    with cute.when(is_last(cute.local_tile(i, (1,), (7,)), t)):
        i[7] = 0


# -- equal by chance


@case(CHANCE)
def of_the_block(x, out, i, n, alpha, b, t):
    out[0] = x[b]


@case(CHANCE, blocks=1)
def of_the_warp(x, out, i, n, alpha, b, t):
    out[0] = x[t // 32]


@case(CHANCE, blocks=1, threads=32)
def of_the_lane(x, out, i, n, alpha, b, t):
    out[0] = x[t]


@case(CHANCE)
def another_element_in_each_iteration(x, out, i, n, alpha, b, t):
    for k in cute.range(4):
        out[0] = x[k]


@case(CHANCE)
def a_sum_of_the_block_in_a_loop(x, out, i, n, alpha, b, t):
    total = held(0.0)
    for k in cute.range(4):
        total[0] = total[0] + x[4 * b + k]
    out[0] = total[0]


@case(CHANCE)
def sums_that_begin_elsewhere(x, out, i, n, alpha, b, t):
    start, total = cute.min_(b * 24, 20), held(0.0)
    with cute.when(t < 24):
        for k in cute.range(n):
            total[0] = total[0] + x[t + k] * x[k * start + t]
        out[start + t] = total[0]


@case(CHANCE)
def many_elements_of_which_one_differs(x, out, i, n, alpha, b, t):
    start, total = cute.min_(b * 24, 20), held(0.0)
    with cute.when(t < 24):
        for k in range(24):
            total[0] = total[0] + x[start + t + n * k + (b if k == 20 else 0)]
        out[start + t] = total[0]


@case(CHANCE)
def as_many_as_data_say(x, out, i, n, alpha, b, t):
    total = held(0.0)
    for k in cute.range(cute.as_int(i[b], 0, 8)):
        total[0] = total[0] + x[k]
    out[0] = total[0]


@case(CHANCE)
def a_variable(x, out, i, n, alpha, b, t):
    place = cute.var(0)
    with cute.when(x[b] < 0.0):
        place.set(1)
    out[0] = x[place.get()]


@case(CHANCE)
def chosen_by_data(x, out, i, n, alpha, b, t):
    out[0] = cute.where(x[b] > 0.0, 2.0, 3.0)


@case(CHANCE)
def changed_under_a_condition(x, out, i, n, alpha, b, t):
    r = held(2.0)
    with cute.when(x[b] < 0.0):
        r[0] = 1.0
    out[0] = r[0]


@case(CHANCE)
def changed_where_a_counter_says(x, out, i, n, alpha, b, t):
    r = held(x[0])
    with cute.when(is_last(cute.local_tile(i, (1,), (7,)), t)):
        r[0] = x[1]
    out[0] = r[0]


@case(CHANCE)
def changed_in_a_loop_where_a_counter_says(x, out, i, n, alpha, b, t):
    r = held(x[0])
    for _k in cute.range(n):
        out[0] = r[0]
        with cute.when(is_last(cute.local_tile(i, (1,), (7,)), t)):
            r[0] = x[1]


@case(CHANCE)
def an_index_of_data(x, out, i, n, alpha, b, t):
    out[0] = x[cute.as_int(i[b], 0, 8)]


@case(CHANCE)
def sums_of_warps(x, out, i, n, alpha, b, t):
    out[b] = cute.warp_reduce("add", held(x[t]))[0]


@case(CHANCE, blocks=1, threads=32)
def sums_of_smaller_groups(x, out, i, n, alpha, b, t):
    out[t // 16] = cute.warp_reduce("add", held(x[t]), 8)[0]


@case(CHANCE)
def shared_memory_of_blocks(x, out, i, n, alpha, b, t):
    s = cute.smem("f32", 64)
    s[t] = x[64 * b + t]
    cute.syncthreads()
    out[0] = s[0]


@case(CHANCE, blocks=1, threads=32)
def other_values_of_lanes_to_shared_memory(x, out, i, n, alpha, b, t):
    s = cute.smem("f32", 4)
    s[0] = x[t]
    cute.syncwarp()
    with cute.when(t == 0):
        out[0] = s[0]


# -- reads, and stores of another line


@case(READ)
def read_before_all_store(x, out, i, n, alpha, b, t):
    with cute.when(b == 0):
        out[1] = x[0]
    x[0] = 1.0


@case(READ)
def read_after_the_own_store(x, out, i, n, alpha, b, t):
    x[0] = 1.0
    with cute.when((b == 1) & (t == 0)):
        out[1] = x[0]


@case(READ)
def read_by_one_that_does_not_store(x, out, i, n, alpha, b, t):
    with cute.when(b < 2):
        x[0] = 1.0
    with cute.otherwise():
        out[t] = x[0]


@case(READ, blocks=1, threads=32)
def read_by_a_lane_that_does_not_store(x, out, i, n, alpha, b, t):
    with cute.when(t < 16):
        x[0] = 1.0
    with cute.when(t == 20):
        out[1] = x[0]


@case(READ)
def one_block_stores_before(x, out, i, n, alpha, b, t):
    with cute.when((b == 0) & (t == 0)):
        out[0] = 1.0
    cute.syncthreads()
    out[0] = 1.0


@case(READ)
def an_atomic_between(x, out, i, n, alpha, b, t):
    with cute.when((b == 2) & (t == 0)):
        cute.atomic("max", cute.local_tile(i, (1,), (0,)), 0)
    i[0] = 0


@case(READ, blocks=1, threads=32)
def lanes_store_again(x, out, i, n, alpha, b, t):
    s = cute.smem("f32", 4)
    s[0] = 1.0
    with cute.when(t == 0):
        s[0] = 1.0
    cute.syncwarp()
    out[t] = s[0]


def outcome(kernel, order, equal):
    """Return what a kernel leaves in out, or the code of its refusal."""
    given = arguments(equal)
    try:
        cute.emulate(cute.trace(kernel, *given), *given, order=order)
    except cute.CuteError as error:
        return error.code
    return given[1].tolist()


PAIRS = tuple(zip(ORDERS, ORDERS[1:] + ORDERS[:1], strict=True))


def in_orders(cases, orders=PAIRS):
    """Return each case with orders in turn, and all orders for the slow run."""
    names = [
        pytest.param(k, o, id=f"{n}-{o}") for (n, k), o in in_turn(cases, orders)[: len(cases)]
    ]
    slow = pytest.mark.slow
    more = [pytest.param(k, ORDERS, id=f"{n}-all", marks=slow) for n, k in cases]
    return pytest.mark.parametrize(("kernel", "orders"), names + more)


@in_orders(ALIKE)
def test_one_value_is_stored_by_all_whatever_the_data(kernel, orders):
    results = [outcome(kernel, order, equal=False) for order in orders]
    assert all(result == results[0] for result in results)
    assert isinstance(results[0], list), results[0]
    assert isinstance(outcome(kernel, orders[0], equal=True), list)


@in_orders(CHANCE)
def test_values_that_are_equal_by_chance_are_refused(kernel, orders):
    for order in orders:
        assert outcome(kernel, order, equal=True) in CODES


@in_orders(READ)
def test_what_nothing_orders_with_stores_of_equal_bits_is_refused(kernel, orders):
    for order in orders:
        assert outcome(kernel, order, equal=True) in CODES


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("lane", [0, 31])
def test_an_arrival_of_one_lane_does_not_tell_of_what_the_others_did_at_once(lane, stores):
    """One lane of those that loaded, or stored one value, hands on what it did itself."""

    @cute.kernel
    def run(x, out):
        cute.launch(grid=1, block=64)
        t, bar = cute.thread_idx(), cute.mbarriers(1)
        with cute.when(t == 0):
            bar.init(1)
        cute.syncthreads()
        with cute.when(t < 32):
            if stores:
                x[0] = 2.0
            else:
                out[t] = x[0]
        with cute.when(t == lane):
            bar.arrive(0)
        with cute.when(t == 40):
            bar.wait(0, 0)
            x[0] = 3.0

    x, out = np.ones(2, f32), np.zeros(32, f32)
    for order in ORDERS[:2]:
        with pytest.raises(cute.EmulationError) as caught:
            cute.emulate(cute.trace(run, x, out), x, out, order=order)
        assert caught.value.code in CODES


def test_a_block_of_a_cluster_knows_nothing_of_reads_in_other_clusters():
    @cute.kernel
    def run(x, out):
        cute.launch(grid=4, block=32, cluster=2)
        b, t, r = cute.block_idx(), cute.thread_idx(), held(0.0)
        with cute.when(b < 2):
            r[0] = x[0]
        with cute.otherwise():
            r[0] = x[0]
        cute.cluster_sync()
        with cute.when((b == 0) & (t == 0)):
            x[0] = 2.0
        out[32 * b + t] = r[0]

    x, out = np.ones(2, f32), np.zeros(128, f32)
    plan = cute.trace(run, x, out)
    for order in ORDERS:
        with pytest.raises(cute.EmulationError) as caught:
            cute.emulate(plan, x, out, order=order)
        assert caught.value.code in CODES


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("stores", [False, True])
def test_what_is_kept_of_a_place_does_not_grow_with_the_blocks(monkeypatch, stores, cluster):
    """Of two clusters, the accesses are enough to refuse whatever conflicts with any of them."""

    @cute.kernel
    def run(x, out, last):
        cute.launch(grid=32, block=64, cluster=cluster)
        b, t = cute.block_idx(), cute.thread_idx()
        if stores:
            x[0] = 2.0
        else:
            out[64 * b + t] = x[0]
        if cluster > 1:
            cute.cluster_sync()
        with cute.when((b == last) & (t == 0)):
            x[0] = 3.0

    kept, keep = [], GlobalMemory._keep
    monkeypatch.setattr(GlobalMemory, "_keep", lambda *args: (kept.append(args), keep(*args)))
    x, out = np.ones(2, f32), np.zeros(2048, f32)
    cute.emulate(cute.trace(run, x, out, 32), x, out)
    assert len(kept) < 32
    for last in (0, 1, 2, 31):
        with pytest.raises(cute.EmulationError) as caught:
            cute.emulate(cute.trace(run, x, out, last), x, out)
        assert caught.value.code in CODES


def test_the_array_that_is_loaded_from_may_be_the_one_that_is_written():
    """Under two names: what is loaded may have been written before."""

    @cute.kernel
    def run(x, y):
        cute.launch(grid=1, block=64)
        with cute.when(cute.thread_idx() == 0):
            y[8] = 1.0
        cute.syncthreads()
        y[0] = x[8]

    x, y = np.ones(16, f32), np.zeros(16, f32)
    plan = cute.trace(run, x, y)
    cute.emulate(plan, x, y)
    assert (y[0], y[8]) == (1, 1)
    with pytest.raises(
        cute.EmulationError, match="the same elements of arrays that the kernel does"
    ):
        cute.emulate(plan, y, y)
