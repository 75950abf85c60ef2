"""Mistakes of newcomers: the refusal names a fix which, followed to the letter, works."""

import math
from functools import partial

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from tests.kernel_refusals import raised
from tests.sampling import check_each, each

N = 32


def ran(body, *arrays, block=N):
    """Run the body as a kernel of one block."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=block)
        body(cute.thread_idx(), x, out)

    kernel(*arrays)


def stored(value):
    """Return the body that stores a value for each thread."""

    def body(t, x, out):
        out[t] = value(t, x)

    return body


X = np.linspace(0.5, 4, N, dtype=np.float32)
T = np.arange(N)

# what is written, a part of the message, the fix, and the right result
VALUES = {
    "np.sqrt": (lambda t, x: np.sqrt(x[t]), "cute.sqrt(x)", lambda t, x: cute.sqrt(x[t]), X**0.5),
    "np.exp": (lambda t, x: np.exp(x[t]), "cute.exp(x)", lambda t, x: cute.exp(x[t]), np.exp(X)),
    "np.log": (lambda t, x: np.log(x[t]), "cute.log(x)", lambda t, x: cute.log(x[t]), np.log(X)),
    "np.tanh": (
        lambda t, x: np.tanh(x[t]),
        "cute.tanh(x)",
        lambda t, x: cute.tanh(x[t]),
        np.tanh(X),
    ),
    "np.floor": (
        lambda t, x: np.floor(x[t]),
        "cute.floor(x)",
        lambda t, x: cute.floor(x[t]),
        np.floor(X),
    ),
    "np.abs": (lambda t, x: np.abs(x[t]), "abs(x)", lambda t, x: abs(x[t]), X),
    "np.square": (lambda t, x: np.square(x[t]), "x * x", lambda t, x: x[t] * x[t], X * X),
    "np.reciprocal": (
        lambda t, x: np.reciprocal(x[t]),
        "cute.rcp(x)",
        lambda t, x: cute.rcp(x[t]),
        1 / X,
    ),
    "np.log1p": (
        lambda t, x: np.log1p(x[t]),
        "cute.log(x + 1)",
        lambda t, x: cute.log(x[t] + 1),
        np.log1p(X),
    ),
    "np.maximum": (
        lambda t, x: np.maximum(x[t], 1.0),
        "cute.maximum(x, y)",
        lambda t, x: cute.maximum(x[t], 1.0),
        np.maximum(X, 1),
    ),
    "np.power": (
        lambda t, x: np.power(x[t], 3.0),
        "cute.exp2(y * cute.log2(x))",
        lambda t, x: cute.exp2(cute.log2(x[t]) * 3.0),
        X**3,
    ),
    "np.where": (
        lambda t, x: np.where(x[t] > 1, 1.0, 2.0),
        "cute.where(condition, a, b)",
        lambda t, x: cute.where(x[t] > 1, 1.0, 2.0),
        np.where(X > 1, 1, 2),
    ),
    "np.clip": (
        lambda t, x: np.clip(x[t], 1, 2),
        "cute.minimum(cute.maximum(x, low), high)",
        lambda t, x: cute.minimum(cute.maximum(x[t], 1.0), 2.0),
        np.clip(X, 1, 2),
    ),
    "np.sqrt of an index": (
        lambda t, x: np.sqrt(t),
        "n.to('f32'), then cute.sqrt(x)",
        lambda t, x: cute.sqrt(t.to("f32")),
        T**0.5,
    ),
    "np.minimum of an index": (
        lambda t, x: np.minimum(t, 3),
        "cute.min_(n, m)",
        lambda t, x: cute.min_(t, 3).to("f32"),
        np.minimum(T, 3),
    ),
    "a colon": (lambda t, x: x[:][t], "write _ for all of a mode", lambda t, x: x[_][t], X),
    "a slice": (
        lambda t, x: x[4:8][0],
        "cute.local_tile(x, (size,), (i,))",
        lambda t, x: cute.local_tile(x, (4,), (1,))[0],
        X[4],
    ),
    "a slice to the end": (
        lambda t, x: x[4:][0],
        "cute.domain_offset((i,), x)",
        lambda t, x: cute.domain_offset((4,), x)[0],
        X[4],
    ),
    "dots": (lambda t, x: x[...][0], "write _ for all of a mode", lambda t, x: x[_][0], X[0]),
    "the last": (
        lambda t, x: x[-1],
        "n - 1 is the last entry",
        lambda t, x: x[x.shape[0] - 1],
        X[-1],
    ),
    "the last by size": (
        lambda t, x: x[-2],
        "cute.size(x)",
        lambda t, x: x[cute.size(x) - 2],
        X[-2],
    ),
    "x.astype": (lambda t, x: x[t].astype("f16"), "x.to(dtype)", lambda t, x: x[t].to("f32"), X),
    "x.item": (lambda t, x: x[t].item(), "x itself", lambda t, x: x[t], X),
    "x.sqrt": (lambda t, x: x[t].sqrt(), "cute.sqrt(x)", lambda t, x: cute.sqrt(x[t]), X**0.5),
    "x.ndim": (lambda t, x: x.ndim, "cute.rank(x)", lambda t, x: float(cute.rank(x)), 1),
    "x.abs": (lambda t, x: x[t].abs(), "abs(x)", lambda t, x: abs(x[t]), X),
    "x.float": (lambda t, x: x[t].float(), "x.to('f32')", lambda t, x: x[t].to("f32"), X),
    "x.clamp": (
        lambda t, x: x[t].clamp(1, 2),
        "cute.minimum(cute.maximum(x, low), high)",
        lambda t, x: cute.minimum(cute.maximum(x[t], 1.0), 2.0),
        np.clip(X, 1, 2),
    ),
    "int": (lambda t, x: int(x[t]), "x.to('s32')", lambda t, x: x[t].to("s32").to("f32"), X // 1),
    "float": (lambda t, x: float(x[t]), "x.to('f32')", lambda t, x: x[t].to("f32"), X),
    "math.sqrt": (
        lambda t, x: math.sqrt(x[t]),
        "cute.sqrt(x)",
        lambda t, x: cute.sqrt(x[t]),
        X**0.5,
    ),
    "np.float32": (lambda t, x: np.float32(x[t]), "x.to('f32')", lambda t, x: x[t].to("f32"), X),
    "np.int32 of an index": (
        lambda t, x: np.int32(t),
        "n.to('s32')",
        lambda t, x: t.to("s32").to("f32"),
        T,
    ),
    "an index times a float": (
        lambda t, x: t * 0.5,
        "n.to('f32')",
        lambda t, x: t.to("f32") * 0.5,
        T / 2,
    ),
    "a float minus an index": (
        lambda t, x: 0.5 - t,
        "n.to('f32')",
        lambda t, x: 0.5 - t.to("f32"),
        0.5 - T,
    ),
    "half of an index": (
        lambda t, x: t / 2,
        "n.to('f32') / 2",
        lambda t, x: t.to("f32") / 2,
        T / 2,
    ),
    "x.reshape": (
        lambda t, x: x.reshape(4, 8)[0, 1],
        "cute.make_tensor(x.data, layout)",
        lambda t, x: cute.make_tensor(x.data, cute.Layout((4, 8), (8, 1)))[0, 1],
        X[1],
    ),
}


@each(VALUES)
def test_what_the_message_says_is_right(name):
    wrong, words, right, wanted = VALUES[name]
    refuses(stored(wrong), words)
    out = np.full(N, np.nan, np.float32)
    ran(stored(right), X, out)
    np.testing.assert_allclose(out, np.broadcast_to(wanted, N), rtol=1e-3)


def refuses(body, words, block=N):
    with pytest.raises((cute.CuteError, AttributeError)) as caught:
        ran(body, X, np.zeros(N, np.float32), block=block)
    assert words in str(caught.value)


def test_a_branch_without_with():
    def body(t, x, out):
        cute.when(t < 4)
        out[t] = x[t]

    def right(t, x, out):
        with cute.when(t < 4):
            out[t] = x[t]

    refuses(body, "write with in front of it")
    out = np.zeros(N, np.float32)
    ran(right, X, out)
    assert (out == X * (T < 4)).all()


def test_a_copy_to_a_copy_of_an_element():
    def body(t, x, out):
        cute.copy(x[t], out[t])

    def right(t, x, out):
        cute.copy(*(cute.local_tile(each, (1,), (t,)) for each in (x, out)))

    refuses(body, "cute.local_tile(x, (1,), (i,))")
    out = np.zeros(N, np.float32)
    ran(right, X, out)
    assert (out == X).all()


def test_operators_with_numbers_of_numpy_are_those_of_python():
    """Also those of a run-time integer, from both sides, and as functions."""
    cases = {
        "scalar first": (lambda t, x: np.float32(2) * x[t] - np.float64(1), 2 * X - 1),
        "function": (lambda t, x: np.add(np.multiply(x[t], 2.0), x[t]), 3 * X),
        "index": (lambda t, x: x[np.int64(N - 1) - t], X[::-1]),
        "compared": (lambda t, x: cute.where(np.int32(3) < t, 1.0, 0.0), T > 3),
    }

    def check(name):
        value, wanted = cases[name]
        out = np.full(N, np.nan, np.float32)
        ran(stored(value), X, out)
        np.testing.assert_allclose(out, wanted)

    check_each(check, cases)


def test_numpy_reads_host_tensors_as_before():
    x = cute.make_tensor(np.arange(6.0).reshape(2, 3))
    assert np.array_equal(np.sqrt(x), np.sqrt(np.asarray(x)))
    assert np.sum(x) == 15
    assert np.add(x, 1)[0, 0] == 1
    assert np.array_equal(np.where(np.asarray(x) > 2, x, 0), [[0, 0, 0], [3, 4, 5]])


def test_an_atomic_on_a_copy_of_an_element():
    def body(t, x, out):
        cute.atomic("add", out[0], 1.0)

    def right(t, x, out):
        cute.atomic("add", cute.local_tile(out, (1,), (0,)), 1.0)

    refuses(body, "pass the element itself, cute.local_tile(x, (1,), (i,))")
    out = np.zeros(N, np.float32)
    ran(right, X, out)
    assert out[0] == N


def test_a_load_outside_under_where():
    """Both values are computed: the load is what must be guarded."""

    def body(t, x, out):
        out[t] = cute.where(t + 16 < N, x[t + 16], 0.0)

    def right(t, x, out):
        with cute.when(t + 16 < N):
            out[t] = x[t + 16]

    refuses(body, "with cute.when(i < n)")
    refuses(body, "cute.where computes both of its values")
    out = np.zeros(N, np.float32)
    ran(right, X, out)
    assert (out[:16] == X[16:]).all()


def tiles_of(t, out, mma):
    thr = mma.get_slice(t)
    part = thr.partition_C(cute.local_tile(out, (16, 8), (0, 0)))
    acc = thr.make_fragment_C(part)
    acc.fill(1)
    cute.copy(acc, part)


def test_more_threads_than_a_tiled_mma_has():
    mma = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")

    def body(t, x, out):
        tiles_of(t, out, mma)

    def right(t, x, out):
        with cute.when(t < 32):
            tiles_of(t, out, mma)

    out = np.zeros((16, 8), np.float32)
    said = str(raised(lambda: ran(body, X, out, block=64)))
    assert "block=mma.size()" in said
    assert "with cute.when(tid < 32)" in said
    for given, block in ((right, 64), (body, mma.size())):
        out[...] = 0
        ran(given, X, out, block=block)
        assert (out == 1).all()


def fragment_of(A, out):
    thr = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN").get_slice(cute.thread_idx())
    part = thr.partition_A(A)
    a = thr.make_fragment_A(part)
    cute.copy(part, a)
    cute.copy(a.to("f32"), thr.partition_A(out))


STATIC = cute.spec(shape=(2, 16, 16), stride=(256, 16, 1))


@cute.kernel
def of_slice(A, out):
    cute.launch(grid=1, block=32)
    fragment_of(A[0, _, _], out[0, _, _])


@cute.kernel
def of_extents(A: cute.spec(shape=(2, 16, 16)), out: cute.spec(shape=(2, 16, 16))):
    cute.launch(grid=1, block=32)
    fragment_of(A[0, _, _], out[0, _, _])


@cute.kernel
def of_tile(A, out):
    cute.launch(grid=1, block=32)
    fragment_of(*(cute.local_tile(x[0, _, _], (16, 16), (0, 0)) for x in (A, out)))


@cute.kernel
def of_static(A: STATIC, out: STATIC):
    cute.launch(grid=1, block=32)
    fragment_of(A[0, _, _], out[0, _, _])


def test_a_fragment_of_a_slice_is_one_of_a_tile_or_of_static_strides():
    a = np.arange(512).reshape(2, 16, 16).astype(np.float16)
    for wrong in (of_slice, of_extents):
        said = str(raised(partial(wrong, a, np.zeros_like(a, np.float32))))
        assert "cute.local_tile(A, " in said
        assert "filter_zeros" not in said
    for right in (of_tile, of_static):
        out = np.zeros_like(a, np.float32)
        right(a, out)
        assert (out[0] == a[0]).all()


def test_promised_strides_are_checked():
    a = np.zeros((2, 16, 32), np.float16)[:, :, :16]
    error = raised(lambda: of_static(a, np.zeros((2, 16, 16), np.float32)))
    assert error.code == "argument-promise"
    assert "stride 512 in mode 0" in str(error)
