"""What `emulate` is given: arrays, numbers, order; and types narrower than a byte."""

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate import emulate
from cute_py.errors import LayoutError
from tests.emulated.plans import Maker, at, ops, read_as, tid
from tests.emulated.test_threads import vector_add


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (
            (),
            "emulate-arguments",
            "given 0 arguments; required: 3, one for each parameter: A, B, C",
        ),
        ((np.zeros(4), 1, 1), "emulate-argument", "ndarray of float64 as A"),
        ((np.zeros((2, 2), np.float32), 1, 1), "emulate-argument", "of shape (2, 2) as A"),
        ((np.zeros(4, np.float32)[::-1], 1, 1), "emulate-argument", "strides of (-4,) bytes as A"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args, code, words):
    with pytest.raises(LayoutError) as caught:
        emulate(vector_add(), *args)
    assert caught.value.code == code
    assert words in str(caught.value)


def test_unknown_order_is_refused():
    with pytest.raises(LayoutError, match='"forward", "reversed" or a seed') as caught:
        emulate(vector_add(), order="backward")
    assert caught.value.code == "emulate-order"


def test_negative_grid_is_refused():
    m = Maker(grid=(-1, 1, 1))
    with pytest.raises(LayoutError, match="-1 blocks of the grid along x") as caught:
        emulate(m.plan())
    assert caught.value.code == "plan-launch"


@pytest.mark.parametrize(("grid", "cluster"), [(3, 2), ((2, 3), (2, 2)), ((4, 1), (1, 2))])
def test_a_grid_is_of_whole_clusters(grid, cluster):
    @cute.kernel
    def clustered(n: cute.s32):
        x, y = grid if isinstance(grid, tuple) else (grid, 1)
        cute.launch(grid=(x * n, y), block=32, cluster=cluster)

    with pytest.raises(LayoutError, match="in clusters of") as caught:
        emulate(cute.trace(clustered, 1), 1)
    assert caught.value.code == "plan-clusters"


def test_an_empty_grid_runs_nothing():
    m = Maker(grid=(0, 1, 1))
    emulate(m.plan(m.op(ops.Barrier)))
    assert m.plan(m.op(ops.Barrier)).launch.grid == (0, 1, 1)


@cute.kernel
def halves(x, y):
    """Sizes are multiples of 4 here, and never 0."""
    cute.launch(grid=1, block=32)
    with cute.when(cute.thread_idx() < y.shape[0]):
        y[cute.thread_idx()] = (1000 // x.shape[0]).to("f32")


@pytest.mark.parametrize("size", [0, 6])
def test_arrays_unlike_the_traced_ones_are_refused_as_on_a_gpu(size):
    x = np.zeros(8, np.float32)
    plan = cute.trace(halves, x, x)
    emulate(plan, x[:4], x)
    assert x[0] == 250
    with pytest.raises(cute.LayoutError) as caught:
        emulate(plan, x[:size].copy(), x)
    assert caught.value.code == "emulate-argument"


@cute.kernel
def copied(x, y):
    cute.launch(grid=1, block=64)
    row, column = cute.thread_idx() // 8, cute.thread_idx() % 8
    y[row, column] = x[row, column]


def test_strides_unlike_the_traced_ones_are_refused_as_on_a_gpu():
    """Else the elements of another place would be read, without a word."""
    x, y = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros((8, 8), np.float32)
    wide = np.zeros((8, 16), np.float32)[:, :8]
    plan = cute.trace(copied, x, y)
    emulate(plan, wide, y)
    for wrong in (x.T, np.broadcast_to(x[:1], (8, 8)).T, x.repeat(2, 1)[:, ::2]):
        with pytest.raises(cute.LayoutError) as caught:
            emulate(plan, wrong, y)
        assert caught.value.code == "emulate-argument"
        assert "required: strides (sym('x_stride0', multiple_of=4, min=0, max=" in str(caught.value)
    emulate(plan, x, y)
    assert (y == x).all()


def test_arrays_with_a_mask_are_refused():
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    plan = cute.trace(copied, x, x.copy())
    with pytest.raises(cute.LayoutError, match="given y, an array with a mask"):
        emulate(plan, x, np.ma.array(x, mask=x > 3))


@pytest.mark.parametrize("value", [-1, 2**32, 1.5])
def test_numbers_that_the_type_cannot_hold_are_refused(value):
    m = Maker(threads=32)
    m.number("n", "u32")
    with pytest.raises(cute.CuteError) as caught:
        emulate(m.plan(m.op(ops.Barrier)), value)
    assert caught.value.code == "kernel-number"


@cute.kernel
def promised(x, y):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    with cute.when(t < 16):
        index = cute.as_int(x[t], 0, 3)
        held = cute.var(index + 1, 1, 4)
        y[t] = (12 // held.get()).to("s32")


def test_bounds_that_a_kernel_tells_are_checked():
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    x[:16] %= 4  # lanes that take no part may break the promise
    plan = cute.trace(promised, x, y)
    emulate(plan, x, y)
    assert y[:4].tolist() == [12, 6, 4, 3]
    x[4] = 4
    with pytest.raises(cute.EmulationError) as caught:
        emulate(plan, x, y)
    assert caught.value.code == "emulate-promise"
    assert "4 as m0, by block (0, 0, 0), warp 0, lane 4" in str(caught.value)
    emulate(plan, x, y, checks=False)


@pytest.mark.parametrize("kind", ["s4", "u4", "b1", "u2", "e2m1"])
@pytest.mark.parametrize("checks", [True, False])
def test_narrow_types_are_packed_in_shared_memory(kind, checks):
    """One value per element outside; inside, 32 bits of neighbours are one word."""
    dtype = cute.dtype(kind)
    n = 32 // dtype.bits
    m = Maker(threads=32)
    A, B, W = m.tensor("A", kind), m.tensor("B", kind), m.tensor("W", "u32")
    S = m.smem("S", kind, 32 * n)
    a, b, w = m.reg("a", kind, n), m.reg("b", kind, n), m.reg("w", "u32")
    words = ("S", cute.u32, "smem")
    plan = m.plan(
        m.op(ops.Load, a, at(A, tid * n, width=n)),
        m.op(ops.Store, at(S, tid * n, width=n), a),
        m.op(ops.Barrier, "warp"),
        m.op(ops.Load, b, at(S, (31 - tid) * n, width=n)),
        m.op(ops.Store, at(B, tid * n, width=n), b),
        m.op(ops.Load, w, at(words, tid)),
        m.op(ops.Store, at(W, tid), w),
        m.op(ops.Store, at(W, tid + 32), read_as(a, "u32", 1)),
    )
    values = np.random.default_rng(0).integers(0, 1 << dtype.bits, 32 * n)
    A = cute.decode(values, dtype)
    B, W = np.zeros_like(A), np.zeros(64, np.uint32)
    emulate(plan, A, B, W, checks=checks)
    assert np.array_equal(B.reshape(32, n), A.reshape(32, n)[::-1])
    assert np.array_equal(W[:32], W[32:])
    assert np.array_equal(W[:32], cute.pack(A, dtype, 32))


def test_bfloat16_and_fp8_come_as_ml_dtypes():
    m = Maker(threads=32)
    A, B = m.tensor("A", "bf16"), m.tensor("B", "e4m3")
    a, b, c = m.reg("a", "bf16"), m.reg("b", "e4m3"), m.reg("c", "f32")
    plan = m.plan(
        m.op(ops.Load, a, at(A, tid)),
        m.op(ops.Convert, c, a),
        m.op(ops.Convert, b, c),
        m.op(ops.Store, at(B, tid), b),
    )
    A = np.linspace(-500, 500, 32).astype(ml_dtypes.bfloat16)
    B = np.zeros(32, ml_dtypes.float8_e4m3fn)
    emulate(plan, A, B)
    expected = cute.convert(A, "e4m3")
    assert np.array_equal(B.view(np.uint8), expected.view(np.uint8))


class Capsule:
    """An array that tells about its memory through DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **named):
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_may_come_through_dlpack():
    @cute.kernel
    def twice(x, y):
        cute.launch(grid=cute.ceil_div(x.shape[0], 32), block=32)
        i = cute.block_idx() * 32 + cute.thread_idx()
        with cute.when(i < x.shape[0]):
            y[i] = x[i] + x[i]

    x, y = np.arange(70, dtype=np.float32), np.zeros(70, np.float32)
    twice(Capsule(x[::2]), y[:35])
    np.testing.assert_array_equal(y[:35], 2 * x[::2])
    assert not y[35:].any()


def test_an_integer_promises_the_extent_of_an_array_of_one_mode():
    @cute.kernel
    def fill(x: cute.spec(shape=8)):
        cute.launch(grid=1, block=8)
        x[cute.thread_idx()] = 1

    (param,) = cute.trace(fill, np.zeros(8, np.float32)).params
    assert param.shape == (8,)
    for shape, code in ((9, "argument-promise"), ((8, 2), "argument-spec")):
        with pytest.raises(LayoutError) as caught:
            cute.trace(fill, np.zeros(shape, np.float32))
        assert caught.value.code == code


def test_a_mode_of_one_element_has_any_stride():
    @cute.kernel
    def negated(x):
        cute.launch(grid=1, block=1)
        x[0] = -x[0]

    x = np.arange(1, 5, dtype=np.float32)
    negated(x[3:][::-1])
    assert x.tolist() == [1, 2, 3, -4]


# -- a kernel in place of its plan


@cute.kernel
def shifted(x, y, n: cute.s32 = 1, scale=2):
    cute.launch(grid=1, block=8)
    t = cute.thread_idx()
    y[t] = x[t] * scale + n.to("s32")


@pytest.mark.parametrize(
    ("args", "named"), [((), {}), ((3,), {}), ((), {"n": 3}), ((), {"scale": 5, "n": 3})]
)
def test_a_kernel_is_emulated_with_the_arguments_of_trace(args, named):
    x, y, z = np.arange(8, dtype=np.int32), np.zeros(8, np.int32), np.zeros(8, np.int32)
    report = cute.emulate(shifted, x, y, *args, **named, report=True, order="reversed")
    assert report.plan == cute.trace(shifted, x, z, *args, **named)
    shifted(x, z, *args, **named)
    np.testing.assert_array_equal(y, z)


def test_a_plan_takes_no_names_and_other_objects_are_refused():
    x = np.zeros(8, np.int32)
    plan = cute.trace(shifted, x, x)
    for wrong in (lambda: cute.emulate(plan, x, x, n=1), lambda: cute.emulate(len, x)):
        with pytest.raises(cute.LeafTypeError) as caught:
            wrong()
        assert caught.value.code == "emulate-plan"
