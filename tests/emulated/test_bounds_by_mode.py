"""A coordinate must be inside of its mode, whatever element of the storage it leads to."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, _
from cute_py.plan.serial import dumps, loads
from cute_py.plan.walk import accesses

ORDERS = ("forward", "reversed", 0)
BY_MODE = "emulate-mode"


def outcome(kernel, *arrays, order="forward"):
    """Run a kernel; return the refusal, or None."""
    try:
        cute.emulate(cute.trace(kernel, *arrays), *arrays, order=order)
    except cute.CuteError as error:
        return error
    return None


def ones(*shape):
    return np.ones(shape, np.float32)


def reads(at, space="gmem", shape=(4, 16), guard=None):
    """A kernel whose 32 threads read tensor[at(t)] of a row-major tensor, where guard(t) holds."""

    @cute.kernel
    def run(x, out):
        cute.launch(grid=1, block=32)
        t, tensor = cute.thread_idx(), x
        if space == "smem":
            tensor = cute.smem("f32", Layout(shape, (shape[1], 1)))
            for k in range(shape[0] * shape[1] // 32):
                cute.make_tensor(tensor.data, Layout(64))[t + 32 * k] = 1.0
            cute.syncthreads()
        with cute.when(t >= 0 if guard is None else guard(t)):
            out[t] = tensor[at(t)]

    return run


WRONG = [
    lambda t: (0, t),
    lambda t: (t // 8, t % 8 + 9),
    lambda t: (t % 4, 16 + t // 32),
    lambda t: (t // 8, t % 8 - 1),
    lambda t: (t % 5, 0),
    lambda t: (0, t // 2 + 1),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("space", ["gmem", "smem"])
@pytest.mark.parametrize("at", WRONG)
def test_an_entry_beyond_its_mode_is_refused(at, space, order):
    error = outcome(reads(at, space), ones(4, 16), np.zeros(32, np.float32), order=order)
    assert error is not None
    assert error.code in (BY_MODE, "emulate-bounds", "coordinate-range")
    assert "entry" in str(error)


def test_the_text_gives_coordinate_mode_and_extent():
    error = outcome(reads(lambda t: (0, t)), ones(4, 16), np.zeros(32, np.float32))
    facts = error.facts
    assert [facts[k] for k in ("entry", "mode", "extent", "thread")] == [16, "mode 1", 16, 16]
    assert "entry 16 of mode 1" in str(error)
    assert "0 <= entry < 16" in str(error)


def test_only_threads_that_take_part_are_tested():
    x, out = ones(4, 16), np.zeros(32, np.float32)
    assert outcome(reads(lambda t: (0, t), guard=lambda t: t < 16), x, out) is None
    assert outcome(reads(lambda t: (0, t), guard=lambda t: t < 17), x, out).code == BY_MODE


def swapped(right):
    @cute.kernel
    def run(x, out):
        cute.launch(grid=(2, 1), block=(8, 32))
        i, j = cute.thread_idx()
        i = i + 8 * cute.block_idx()[0]
        rows, columns = x.shape if right else x.shape[::-1]
        with cute.when((i < rows) & (j < columns)):
            out[i, j] = x[i, j]

    return run


@pytest.mark.parametrize("order", ORDERS)
def test_swapped_guards_are_refused(order):
    x = np.arange(10 * 24, dtype=np.float32).reshape(10, 24)
    assert outcome(swapped(True), x, np.zeros_like(x), order=order) is None
    assert outcome(swapped(False), x, np.zeros_like(x), order=order) is not None


# -- legal, though they look alike


def by_one_index(x, out, t):
    out[t] = x[t]


def by_an_index_of_a_nested_mode(x, out, t):
    nested = cute.smem("f32", Layout(((2, 4), 4), ((1, 8), 2)))
    nested[t % 8, t // 8] = x[t]
    cute.syncthreads()
    out[t] = nested[t]


def by_a_guarded_tile(x, out, t):
    tile = cute.local_tile(x, (3, 32), (1, 0))
    held = cute.rmem("f32", 1)
    for row in range(3):
        cute.copy(cute.local_tile(tile, (1, 1), (row, t)), held)
        out[t] = held[0]


def by_a_window(x, out, t):
    out[t] = cute.make_tensor(x.data, Layout((8, 8), (4, 1)))[t // 8, t % 8]


def by_overlapping_windows(x, out, t):
    out[t] = cute.make_tensor(x[1, _].data, Layout((4, 40), (1, 1)))[t % 4, t]


def by_a_recast(x, out, t):
    out[t] = cute.recast(cute.recast(x, "s32"), "f32")[0, t]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "body",
    [
        by_one_index,
        by_an_index_of_a_nested_mode,
        by_a_guarded_tile,
        by_a_window,
        by_overlapping_windows,
        by_a_recast,
    ],
)
def test_the_storage_bounds_what_has_no_mode_to_leave(body, order):
    @cute.kernel
    def run(x, out):
        cute.launch(grid=1, block=32)
        body(x, out, cute.thread_idx())

    assert outcome(run, ones(4, 16), np.zeros(32, np.float32), order=order) is None


def test_a_proven_bound_is_left_out_and_an_open_one_is_saved():
    @cute.kernel
    def run(x, out):
        cute.launch(grid=x.shape[0], block=32)
        t, s = cute.thread_idx(), cute.smem("f32", Layout((4, 8), (8, 1)))
        s[t // 8, t % 8] = x[cute.block_idx(), t]
        cute.syncthreads()
        out[t] = s[t // 8, (t + 1) % 8]

    plan = cute.trace(run, ones(4, 32), np.zeros(32, np.float32))
    open_ = [str(b) for op in plan.ops for a in accesses(op) for b in a.asserted]
    assert open_ == ["0 <= tid < x_shape1", "0 <= tid < out_shape0"]
    again = loads(dumps(plan))
    assert again == plan
    wrong = ones(4, 16), np.zeros(32, np.float32)
    with pytest.raises(cute.CuteError, match="entry 16 of mode 1"):
        cute.emulate(again, *wrong)


# -- the family: any shape, any coordinate


@st.composite
def entries(draw):
    """Draw an integer of a thread: (t + a) // b % c + d."""
    a, b, c = draw(st.integers(0, 31)), draw(st.integers(1, 32)), draw(st.integers(1, 9))
    d = draw(st.integers(-1, 2))
    return lambda t: (t + a) // b % c + d


@st.composite
def cases(draw):
    """Draw a shape, its strides, the coordinate of a thread and a number of threads."""
    inner = draw(st.lists(st.integers(1, 6), min_size=2, max_size=2))
    nested = draw(st.booleans())
    shape = ((inner[0], inner[1]), draw(st.integers(1, 6))) if nested else tuple(inner)
    whole = nested and draw(st.booleans())
    first = draw(entries()) if whole or not nested else (draw(entries()), draw(entries()))
    return shape, (first, draw(entries())), draw(st.integers(1, 32))


def evaluated(coord, t):
    if isinstance(coord, tuple):
        return tuple(evaluated(c, t) for c in coord)
    return coord(t)


def is_inside(coord, shape):
    if isinstance(coord, tuple):
        return all(is_inside(c, s) for c, s in zip(coord, shape, strict=True))
    return 0 <= coord < (np.prod(shape) if isinstance(shape, tuple) else shape)


@settings(max_examples=40)
@example(((2, 2), (lambda t: t % 2, lambda t: t % 3), 32))
@given(cases())
def test_refused_if_and_only_if_a_thread_leaves_a_mode(case):
    shape, coord, threads = case
    count = cute.size(Layout(shape))

    @cute.kernel
    def run(out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        s = cute.smem("f32", cute.make_layout(Layout(shape), Layout(2, count)))  # with room behind
        whole = cute.make_tensor(s.data, Layout(2 * count))
        for k in range(0, 2 * count, 32):
            with cute.when(t + k < 2 * count):
                whole[t + k] = 2.0
        cute.syncthreads()
        with cute.when(t < threads):
            out[t] = s[evaluated(coord, t), 0]

    right = all(is_inside(evaluated(coord, t), shape) for t in range(threads))
    error = outcome(run, np.zeros(32, np.float32))
    assert (error is None) == right


def test_coordinates_known_at_run_time_are_asserted_one_after_the_other():
    """Of a slice of a slice: whether they were asserted before is decided while tracing."""

    @cute.kernel
    def kernel(x, y, which):
        cute.launch(grid=1, block=32)
        i, j = (cute.as_int(which[k], 0) for k in range(2))
        part = x[i, _, _][j, _]
        y[cute.thread_idx()] = part[cute.thread_idx()]

    x, y = np.arange(3 * 4 * 32, dtype=np.float32).reshape(3, 4, 32), np.zeros(32, np.float32)
    kernel(x, y, np.array([2, 3], np.int32))
    assert (y == x[2, 3]).all()
