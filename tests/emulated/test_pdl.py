"""Kernels with `pdl=True` use global memory after a wait for the kernels before: of each thread, or
of one that it has learnt of. The rest is refused when it is traced, or in every order of a run.
"""

import numpy as np
import pytest

import cute_py as cute
from tests.emulated.test_roles import ORDERS
from tests.sampling import each

X = np.arange(64, dtype=np.float32)
wait = cute.griddepcontrol_wait


def verdict(body, **launch):
    """Return the codes of the refusals of a kernel of 64 threads, None where it is right."""

    @cute.kernel
    def run(x, y):
        cute.launch(**({"grid": 1, "block": 64, "pdl": True} | launch))
        body(x, y, cute.thread_idx(), cute.smem("f32", 64))

    found = set()
    for order in ORDERS:
        x, y = X.copy(), np.full(64, -1, np.float32)
        try:
            cute.emulate(cute.trace(run, x, y), x, y, order=order)
            assert np.array_equal(x, y), order
            found.add(None)
        except cute.CuteError as error:
            found.add(error.code if "griddepcontrol_wait" in str(error) else str(error))
    return found


def bars(count=1, arrivals=32):
    made = cute.mbarriers(count)
    with cute.elect("block"):
        made.init(arrivals)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    return made


def everyone(x, y, t, s):
    wait()
    y[t] = x[t]


def both_branches(x, y, t, s):
    with cute.when(t < 32):
        wait()
        y[t] = x[t]
    with cute.otherwise():
        wait()
        y[t] = x[t]


def roles(x, y, t, s):
    """Each waits for itself."""
    with cute.role("one", warps=range(1)):
        wait()
        y[t] = x[t]
    with cute.role("two", warps=range(1, 2)):
        wait()
        y[t] = x[t]


def ring(fill=wait, before=None, part=32, late=None):
    """One role loads, the other one stores what came through the ring; `fill`, `before` and `late`
    are done by the one that loads, by the other one before its ring, and by that after it.
    """

    def body(x, y, t, s):
        full, empty, rounds = bars(), bars(), x.shape[0] // part
        with cute.role("load", warps=range(1)):
            fill()
            for k in cute.range(rounds):
                empty.wait(0, 1 - k % 2)
                s[t] = x[32 * k + t]
                full.arrive(0)
        with cute.role("store", warps=range(1, 2)):
            if before:
                before(x, y, t - 32)
            for k in cute.range(rounds):
                full.wait(0, k % 2)
                y[32 * k + t - 32] = s[t - 32]
                empty.arrive(0)
            if late:
                late(x, y, t - 32)

    return body


def stores(x, y, t):
    y[t] = x[t]


def waits_and_stores(x, y, t):
    wait()
    y[t] = x[t]


def one_for_all(x, y, t, s):
    with cute.when(t == 40):
        wait()
    cute.syncthreads()
    y[t] = x[t]


def handed(first, then):
    """Warp 0 tells warp 1 by a named barrier."""

    def body(x, y, t, s):
        with cute.when(t < 32):
            first()
            cute.named_barrier(1, 64, "arrive")
            then()
            y[t] = x[t]
        with cute.otherwise():
            cute.named_barrier(1, 64)
            y[t] = x[t]

    return body


def nothing():
    pass


def in_a_cluster(meets):
    """Rank 0 waits, and rank 1 stores."""

    def body(x, y, t, s):
        with cute.when(cute.cluster_rank() == 0):
            wait()
        meets()
        with cute.when(cute.cluster_rank() == 1):
            y[t] = x[t]

    return body


RIGHT = {
    "all wait": everyone,
    "both branches wait": both_branches,
    "each role waits": roles,
    "what came through a ring": ring(),
    "after the ring": ring(late=stores),
    "before the ring, after its own wait": ring(before=waits_and_stores),
    "one waits for all": one_for_all,
    "a named barrier": handed(wait, nothing),
}
TRACED = {  # refused when they are traced
    "nobody waits": lambda x, y, t, s: stores(x, y, t),
    "nobody waits, and all meet": lambda x, y, t, s: (cute.syncthreads(), stores(x, y, t)),
    "before the wait": lambda x, y, t, s: (stores(x, y, t), wait()),
    "between a barrier and the wait": lambda x, y, t, s: (
        cute.syncthreads(),
        stores(x, y, t),
        wait(),
    ),
    "before the ring": ring(before=stores),
    "the role that loads does not wait": ring(nothing),
}
RUN = {  # only a run tells
    "told before the wait": handed(nothing, wait),
    "a ring without stages": ring(part=128, late=stores),
}


@each(RIGHT.items())
def test_global_memory_is_used_after_a_wait_that_the_thread_knows_of(name, body):
    assert verdict(body) == {None}


@each(TRACED.items())
def test_what_surely_comes_before_a_wait_is_refused_when_traced(name, body):
    assert verdict(body) == {"plan-pdl"}


@each(RUN.items())
def test_what_does_not_know_of_a_wait_is_refused_in_every_order(name, body):
    assert verdict(body) == {"emulate-pdl"}


def test_blocks_of_a_cluster_learn_of_waits_by_their_barrier():
    launch = {"grid": 2, "cluster": 2}
    assert verdict(in_a_cluster(cute.cluster_sync), **launch) == {None}
    assert verdict(in_a_cluster(cute.syncthreads), **launch) == {"emulate-pdl"}


@pytest.mark.parametrize("waits", [True, False])
def test_tma_of_one_role_is_asked_for_after_its_wait(waits):
    @cute.kernel
    def run(x, y):
        cute.launch(grid=1, block=64, pdl=True)
        t, loaded = cute.thread_idx(), bars(1, 1)
        s = cute.smem("f32", cute.make_layout((4, 32), cute.LayoutRight), 128)
        with cute.when(t < 32):
            if waits:
                wait()
            with cute.elect():
                loaded.arrive_expect_tx(0, 512)
                source = cute.local_tile(cute.tma_tensor(x), (4, 32), (0, 0))
                cute.tma_load(source, s, loaded, 0)
        with cute.otherwise():
            if not waits:
                wait()
            loaded.wait(0, 0)
            for i in range(4):
                y[i, t - 32] = s[i, t - 32]

    x, y = np.arange(128, dtype=np.float32).reshape(4, 32), np.zeros((4, 32), np.float32)
    if not waits:
        with pytest.raises(cute.CuteError) as caught:
            cute.trace(run, x, y)
        assert caught.value.code == "plan-pdl"
        return
    for order in ORDERS:
        cute.emulate(cute.trace(run, x, y), x, y, order=order)
        assert np.array_equal(x, y)
