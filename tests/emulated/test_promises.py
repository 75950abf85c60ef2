"""Promises of a kernel, checked by the emulator: uniform values, divisors, conditions."""

import numpy as np
import pytest

import cute_py as cute


def run(kernel, *args, **options):
    arrays = [x for x in args if isinstance(x, np.ndarray)]
    cute.emulate(cute.trace(kernel, *args), *arrays, **options)


def refused(code, kernel, *args, **options):
    with pytest.raises(cute.EmulationError) as caught:
        run(kernel, *args, **options)
    assert caught.value.code == code
    return str(caught.value)


def i32(*values):
    return np.array(values, np.int32)


@cute.kernel
def steps(counts, out, scope, each):
    """Each thread of block b repeats a barrier as often as counts[...] says."""
    cute.launch(grid=2, block=256)
    t, b = cute.thread_idx(), cute.block_idx()
    place = {"thread": t % 4, "warp": t // 32, "warpgroup": t // 128, "block": b, "grid": 0}[each]
    for _k in cute.range(cute.as_int(counts[place], 0, 9, uniform=scope)):
        out[t + 256 * b] += 1
        if scope in ("block", "grid"):
            cute.syncthreads()


SCOPES = ("grid", "block", "warpgroup", "warp", "thread")


@pytest.mark.parametrize("scope", SCOPES[:-1])
@pytest.mark.parametrize("each", SCOPES)
@pytest.mark.parametrize("order", ["forward", "reversed", 3])
def test_a_scope_agrees_if_it_is_as_narrow_as_what_the_values_depend_on(scope, each, order):
    counts, out = i32(4, 1, 3, 2, 5, 7, 6, 8), np.zeros(512, np.int32)
    args = counts, out, scope, each
    if SCOPES.index(scope) < SCOPES.index(each):
        text = refused("emulate-uniform", steps, *args, order=order)
        assert f"in all threads of the {scope}" in text
        assert "test_promises.py:" in text
        return
    run(steps, *args, order=order)
    t = np.arange(512)
    places = {"warp": t % 256 // 32, "warpgroup": t % 256 // 128, "block": t // 256, "grid": 0 * t}
    assert (out == counts[places[each]]).all()


@cute.kernel
def apart(x, out):
    """Two parts of a block come to one promise at different times."""
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    for k in cute.range(3):
        with cute.when(t >= 32):
            cute.named_barrier(1, 32)
        n = cute.as_int(x[k, t // 32], uniform="block")
        out[t] = n.to("s32")


@pytest.mark.parametrize("order", ["forward", "reversed"])
def test_threads_that_come_one_after_the_other_are_compared_by_the_times_that_they_came(order):
    x, out = np.array([[5, 5], [6, 6], [7, 7]], np.int32), np.zeros(64, np.int32)
    run(apart, x, out, order=order)
    assert (out == 7).all()
    x[2, 1] = 8
    text = refused("emulate-uniform", apart, x, out, order=order)
    assert "8 by" in text
    assert "7 by" in text


@cute.kernel
def by_block(x, out):
    cute.launch(grid=8, block=32)
    b = cute.block_idx()
    out[b] = cute.as_int(x[b], uniform="grid").to("s32")


def test_a_value_of_the_grid_is_compared_from_batch_to_batch():
    x = np.full(8, 3, np.int32)
    plan = cute.trace(by_block, x, x)
    cute.emulate(plan, x, x.copy(), memory=1)
    x[6] = 4
    assert "by block (0, 0, 0)" in refused("emulate-uniform", by_block, x, x.copy(), memory=1)
    cute.emulate(plan, x, x.copy(), checks=False)


@cute.kernel
def in_cluster(x, out):
    cute.launch(grid=4, block=32, cluster=2)
    b = cute.block_idx()
    out[b] = cute.as_int(x[b], uniform="cluster").to("s32")


def test_a_value_of_a_cluster():
    x = i32(1, 1, 2, 2)
    run(in_cluster, x, x.copy())
    refused("emulate-uniform", in_cluster, i32(1, 1, 2, 3), x)


@cute.kernel
def counter(x, out):
    """A dynamic scheduler: one thread takes a tile, all read it from shared memory."""
    cute.launch(grid=1, block=64)
    t, taken = cute.thread_idx(), cute.smem("s32", 1)
    tile = cute.var(0, 0, 8, uniform="block")
    with cute.while_(lambda: tile.get() < x.shape[0]):
        out[tile.get(), t] = x[tile.get()]
        cute.syncthreads()
        with cute.when(t == 0):
            taken[0] = (tile.get() + 1).to("s32")
        cute.syncthreads()
        tile.set(cute.as_int(taken[0], uniform="block"))


def test_a_variable_bounds_a_loop_with_barriers():
    x, out = i32(*range(8)), np.zeros((8, 64), np.int32)
    counter(x, out)
    assert (out == x[:, None]).all()


@cute.kernel
def counted(x, out):
    cute.launch(grid=1, block=32)
    held = cute.var(cute.as_int(x[0]), multiple_of=8)
    out[0] = (held.get() % 8 + held.get() // 4).to("s32")


def test_a_multiple_is_checked_and_used():
    out = np.zeros(1, np.int32)
    assert "%" not in str(cute.trace(counted, i32(24), out))
    counted(i32(24), out)
    assert out[0] == 6
    assert "12 as m2" in refused("emulate-promise", counted, i32(12), out)


@cute.kernel
def assumed(x, out):
    cute.launch(grid=1, block=32)
    n = cute.as_int(x[0], uniform="block")
    cute.assume((n >= 0) & (n < 4))
    out[n] = 1


def test_an_assumption_is_checked():
    out = np.zeros(4, np.int32)
    assumed(i32(3), out)
    assert out.tolist() == [0, 0, 0, 1]
    assert "m0 < 4" in refused("emulate-assume", assumed, i32(4), out)
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(
            cute.kernel(lambda out: [cute.launch(grid=1, block=32), cute.assume(False)]), out
        )
    assert caught.value.code == "kernel-assert"


def test_the_refusal_of_a_barrier_names_the_promise():
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=64)
        for _k in cute.range(cute.as_int(x[0])):
            cute.syncthreads()
        out[0] = 1

    with pytest.raises(cute.CuteError) as caught:
        cute.trace(kernel, i32(3), np.zeros(1, np.int32))
    assert caught.value.code == "plan-divergent"
    assert "uniform='block'" in str(caught.value)


def tiled(states):
    """Return a kernel that copies tiles of an array of two elements, and what it may know of it."""

    def run(x, out):
        if states:
            cute.assume(x.shape[0] == 2)
        cute.launch(grid=cute.ceil_div(out.shape[0], 2), block=1)
        held = cute.make_rmem_tensor(2, x.dtype)
        cute.copy(cute.local_tile(x, (2,), cute.block_idx()), held)
        cute.copy(held, cute.local_tile(out, (2,), cute.block_idx()))

    run.__annotations__ = {} if states else {"x": cute.spec(shape=(2,))}
    return cute.kernel(run)


@pytest.mark.parametrize("states", [True, False])
def test_a_stated_extent_is_like_a_static_one(states):
    """Its only tile is known: another one is refused, as no guard is left to leave it out."""
    x, out = i32(7, 8), i32(0, 0)
    tiled(states)(x, out)
    assert out.tolist() == [7, 8]
    with pytest.raises(cute.EmulationError, match="entry 1 of mode 1"):
        tiled(states)(x, i32(0, 0, 0, 0))
