"""Integers of a kernel: what branches say of them, choices, quotients, promised arguments."""

import re

import numpy as np
import pytest

import cute_py as cute

ATOM = "SM80_16x8x16_F32F16F16F32_TN"


def i32(*shape):
    return np.zeros(shape, np.int32)


def accesses(plan, what):
    """Return the lines of a plan's loads or stores, without their source lines."""
    return [line.partition("  #")[0].strip() for line in str(plan).splitlines() if what in line]


# -- branches


@cute.kernel
def in_parts(out):
    cute.launch(grid=1, block=384)
    t, mma = cute.thread_idx(), cute.make_tiled_mma(ATOM, (2, 2, 1))
    with cute.when(t >= 256):
        mma.get_slice(t - 256)
        assert (t - 256) // 32 < 4
        assert t // 32 >= 8
        out[t] = 1
    with cute.otherwise():
        assert t < 256
        with cute.when(t < 128):
            mma.get_slice(t)
    with cute.when(~((t < 128) | (t >= 256))):
        mma.get_slice(t - 128)
        out[t] = 2


def test_a_branch_bounds_what_its_condition_compares():
    out = i32(384)
    in_parts(out)
    assert out.tolist() == [0] * 128 + [2] * 128 + [1] * 128


@cute.kernel
def out_of_range(out):
    cute.launch(grid=1, block=384)
    t, mma = cute.thread_idx(), cute.make_tiled_mma(ATOM, (2, 2, 1))
    with cute.when(t >= 256):
        out[t] = 1
    mma.get_slice(t - 256)


def test_what_a_branch_says_ends_with_it():
    with pytest.raises(cute.CuteError):
        cute.trace(out_of_range, i32(384))


@cute.kernel
def guarded(x, out):
    cute.launch(grid=cute.ceil_div(x.shape[0], 64), block=64)
    b, t = cute.block_idx(), cute.thread_idx()
    tile = cute.local_tile(x, (64,), (b,))
    with cute.when((b + 1) * 64 <= x.shape[0]):  # full
        tile[t] = 1
    with cute.otherwise():
        tile[t] = 2
    with cute.when(b * 64 + t < x.shape[0]):
        out[b * 64 + t] = 3
        tile[t] = cute.local_tile(x, (64,), (b,))[t] + 4
    cute.return_if(b * 64 + t + 1 >= x.shape[0])
    tile[t] = 5


def test_a_guard_that_is_proven_outside_is_not_tested_again():
    x, out = i32(100), i32(100)
    plan = cute.trace(guarded, x, out)
    assert ["if" in line for line in accesses(plan, "store x")] == [False, True, False, False]
    cute.emulate(plan, x, out)
    assert x.tolist() == [5] * 99 + [6]
    assert (out == 3).all()


@cute.kernel
def left(x):
    cute.launch(grid=1, block=32)
    n = cute.var(0)
    with cute.while_(lambda: n.get() < 100):
        i = n.get()
        n.set(i + 1)
        cute.break_if((i < 0) | (i >= x.shape[0]))
        assert (i >= 0) & (i < x.shape[0])
        x[i] = 1


def test_what_a_loop_does_not_leave_is_known():
    x = i32(10)
    left(x)
    assert (x == 1).all()


# -- choices and quotients


@cute.kernel
def chosen(x, out, n: cute.s32):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    out[0, cute.where(t < 3, t, 7)] = 1
    out[1, t] = (t - 16) // n
    out[2, t] = (t - 16) % n
    out[3, t] = cute.make_tensor(x.data + 8, cute.Layout(32))[t]
    out[4, t] = cute.max_(t, n) - cute.min_(t, n)
    out[5, t] = cute.where(x[t] > 7, 1, 0)
    out[6, t] = cute.warp_reduce("add", cute.where(t < 3, 1, 0))
    out[7, t] = (1 + x.data + t).offset


@pytest.mark.parametrize("n", [5, -5, 1, -1, 0, 2**31 - 1, 32 - 2**31])
def test_integers_give_integers(n):
    x, out, t = np.arange(64, dtype=np.int32), i32(8, 32), np.arange(32)
    chosen(x, out, n)
    a = (t - 16).astype(np.int64)
    quotient = a // n if n else 0 * a
    model = [
        np.isin(t, (0, 1, 2, 7)),
        quotient,
        a - quotient * n,
        t + 8,
        np.maximum(t, n) - np.minimum(t, n),
        t > 7,
        0 * t + 3,
        t + 1,
    ]
    assert (out == np.array(model).astype(np.int32)).all()


def test_the_origin_of_a_tile_is_a_coordinate():
    @cute.kernel
    def kernel(x, n: cute.s32):
        cute.launch(grid=1, block=32)
        cute.make_tensor(cute.local_tile(x, (8,), (n,)).data + 1, cute.Layout(4))

    with pytest.raises(cute.CuteError, match="arithmetic"):
        cute.trace(kernel, i32(100), 3)


# -- promises of arguments


@cute.kernel
def promised(out, n: cute.s32(min=8, max=64, multiple_of=8)):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    assert (n >= 8) & (n <= 64)
    out[t] = (t // n + n % 8 + n // 4).to("s32")


def test_promises_of_an_argument_are_used_and_checked():
    out = i32(32)
    promised(out, 16)
    assert (out == np.arange(32) // 16 + 4).all()
    plan = cute.trace(promised, out, 16)
    assert "n: s32(min=8, max=64, multiple_of=8)" in str(plan)
    for wrong in (0, 12, 72, -8):
        for call in (lambda n: promised(out, n), lambda n: cute.emulate(plan, out, n)):
            with pytest.raises(cute.CuteError) as caught:
                call(wrong)
            assert caught.value.code == "argument-number"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: cute.f32(min=1),
        lambda: cute.s32(min=9, max=15, multiple_of=8),
        lambda: cute.s32(multiple_of=0),
        lambda: cute.s8(min=1000),
        lambda: cute.s32(min=1.5),
    ],
)
def test_promises_that_no_number_satisfies_are_refused(wrong):
    with pytest.raises(cute.CuteError) as caught:
        wrong()
    assert caught.value.code == "dtype-promise"


def wide(n):
    """Return an array of n equal elements."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, np.int32), (n,), (0,))


@cute.kernel
def size_of(x, out):
    cute.launch(grid=1, block=1)
    assert x.shape[0] < 2**31
    out[0] = x.shape[0].to("s64")


@cute.kernel
def large_size_of(x: cute.spec(large=True), out):
    cute.launch(grid=1, block=1)
    out[0] = x.shape[0].to("s64")


def test_extents_are_below_2_to_the_31_unless_they_are_said_to_be_large():
    out = np.zeros(1, np.int64)
    size_of(wide(2**31 - 1), out)
    assert out[0] == 2**31 - 1
    with pytest.raises(cute.CuteError, match=re.escape("cute.spec(large=True)")) as caught:
        size_of(wide(2**31), out)
    assert caught.value.code == "argument-large"
    large_size_of(wide(2**40), out)
    assert out[0] == 2**40


@cute.kernel
def scheduled(x, y, out):
    cute.launch(grid=8, block=1)
    tiles = cute.ceil_div(x.shape[0], 64) * cute.ceil_div(y.shape[0], 64)
    for tile in cute.range(cute.block_idx(), tiles, 1 << 20):
        assert tile < 2**31
        out[tile % 8] = tile.to("s32")


def test_numbers_of_tiles_are_checked_at_the_launch():
    out = i32(8)
    scheduled(wide(640), wide(64), out)
    with pytest.raises(cute.CuteError) as caught:
        scheduled(wide(2**24), wide(2**24), out)
    assert caught.value.code == "plan-count"
