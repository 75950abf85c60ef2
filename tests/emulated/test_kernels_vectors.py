"""The fastest copies, transposes, sums and softmax: right for any shape, and without conflicts."""

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import copy, reduce, softmax, transpose
from cute_py.kernels.arrays import row_copy
from tests.emulated.kernel_data import MAJORS, poisoned

SHAPES = ((1, 1), (1, 70), (130, 1), (64, 128), (128, 256), (144, 80), (130, 36), (257, 33))
SIZES = (np.uint8, np.uint16, np.uint32, np.uint64)


def bits(shape, dtype, seed=0):
    """Return random bits; none of them is all ones."""
    size = np.dtype(dtype).itemsize
    found = np.random.default_rng(seed).integers(0, 255, (*shape, size), np.uint8)
    return found.view(dtype)[..., 0]


def ones(shape, dtype, order="C"):
    return np.full(shape, np.iinfo(dtype).max, dtype, order=order)


# -- moves


@pytest.mark.parametrize("dtype", SIZES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_copies_and_transposes_keep_every_bit(shape, dtype):
    a = bits(shape, dtype)
    b, t = ones(shape, dtype), ones(shape[::-1], dtype)
    copy.copy_any(a, b)
    np.testing.assert_array_equal(b, a)
    transpose.transpose_any(a, t)
    np.testing.assert_array_equal(t, a.T)


@pytest.mark.parametrize("majors", MAJORS)
def test_any_order_of_memory_is_copied_and_transposed(majors):
    a = np.array(bits((72, 40), np.uint16), order="FC"[majors[0]])
    b, t = (ones(shape, np.uint16, "FC"[majors[1]]) for shape in ((72, 40), (40, 72)))
    copy.copy_any(a, b)
    np.testing.assert_array_equal(b, a)
    transpose.transpose_any(a, t)
    np.testing.assert_array_equal(t, a.T)


@pytest.mark.parametrize("columns", [64, 63, 2])
def test_slices_are_copied_and_nothing_beside_them(columns):
    whole, room = bits((80, 96), np.uint32), ones((80, 96), np.uint32)
    a, b = whole[3:70, 4 : 4 + columns], room[3:70, 4 : 4 + columns]
    copy.copy_any(a, b)
    np.testing.assert_array_equal(b, a)
    assert (room != ones((80, 96), np.uint32)).sum() == b.size
    room[:] = ones((80, 96), np.uint32)
    turned = room[3 : 3 + columns, 4:71]
    transpose.transpose_any(a, turned)
    np.testing.assert_array_equal(turned, a.T)
    assert (room != ones((80, 96), np.uint32)).sum() == turned.size


def aligned(shape, dtype):
    """Return zeros whose first element starts a sector."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + 32, np.uint8)
    start = -room.ctypes.data % 32
    return room[start : start + size].view(dtype).reshape(shape)


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("dtype", SIZES, ids=lambda d: d.__name__)
def test_a_transpose_by_vectors_has_no_conflict_and_moves_whole_sectors(dtype, threads):
    a, b = aligned((128, 256), dtype), aligned((256, 128), dtype)
    a[:] = bits(a.shape, dtype)
    plan = cute.trace(transpose.transpose_vectors, a, b, threads)
    total = cute.emulate(plan, a, b, report=True).total
    np.testing.assert_array_equal(b, a.T)
    assert total.conflicts == 0
    assert total.sectors == 2 * a.nbytes // 32


def test_a_copy_by_vectors_moves_whole_sectors():
    a, b = aligned((4, 8192), np.uint32), aligned((4, 8192), np.uint32)
    plan = cute.trace(copy.copy_vectors, a, b, *copy.choose(a, b))
    assert cute.emulate(plan, a, b, report=True).total.sectors == 2 * a.nbytes // 32


@pytest.mark.parametrize(
    ("shape", "tile"),
    [((9, 16384), (1, 4096)), ((9, 100), (32, 128)), ((9, 1), (4096, 1)), ((1, 5), (512, 8))],
)
def test_tiles_of_copies_are_long_along_what_is_contiguous(shape, tile):
    a = np.zeros(shape, np.float32)
    assert copy.choose(a, a)[0] == tile
    if min(shape) > 1:
        assert copy.choose(a.T, a.T)[0] == tile[::-1]


# -- rows

ROWS = ((1, 1), (3, 7), (2, 33), (2, 128), (2, 257), (1, 2056), (2, 8192))
FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16, np.float64)


def right(a):
    e = np.exp(a.astype(np.float64) - a.astype(np.float64).max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_softmax_of_rows_in_registers_is_that_of_numpy(shape, dtype):
    a = (np.random.default_rng(0).normal(0, 4, shape) - 20).astype(dtype)  # below zero
    b = poisoned(shape, np.float32)
    softmax.softmax_any(a, b)
    shift = np.abs(a.astype(np.float64) - a.astype(np.float64).max(1, keepdims=True))
    steps = 8 + 32  # roundings beside those of the argument: additions of a thread and later
    assert (np.abs(b - right(a)) <= 2.0**-24 * (steps + 4 * shift) * right(a) + 2.0**-126).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_softmax_rounds_once_to_the_type_of_its_result(dtype):
    a = np.random.default_rng(0).normal(0, 4, (2, 1000)).astype(dtype)
    wide, b = poisoned(a.shape, np.float32), poisoned(a.shape, dtype)
    softmax.softmax_any(a, wide)
    softmax.softmax_any(a, b)
    np.testing.assert_array_equal(b, wide.astype(dtype))


@pytest.mark.parametrize("columns", [150, 152])
def test_nan_and_infinity_stay_in_their_row(columns):
    a = np.zeros((6, columns), np.float32)
    a[1, 140], a[2, 3], a[3, 5], a[4, 6] = np.nan, -np.inf, np.inf, np.nan
    a[4, 7], a[5] = np.inf, -np.inf
    b, total = poisoned(a.shape, np.float32), poisoned(6, np.float32)
    softmax.softmax_any(a, b)
    assert (b[0] == np.float32(1 / columns)).all()
    assert np.isnan(b[[1, 3, 4, 5]]).all()
    assert b[2, 3] == 0
    assert np.isfinite(b[2]).all()
    reduce.sum_any(a, total)
    np.testing.assert_array_equal(total, a.sum(1))


@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_sums_of_rows_in_registers_are_exact_on_integers(shape):
    for dtype, wide in ((np.float32, np.float32), (np.int8, np.int32), (np.float16, np.float64)):
        a = np.random.default_rng(0).integers(-50, 50, shape).astype(dtype)
        out = poisoned(shape[0], wide)
        reduce.sum_any(a, out)
        np.testing.assert_array_equal(out, a.astype(np.float64).sum(1))


def test_sums_of_random_numbers_are_within_the_bound_of_their_order():
    a = np.random.default_rng(0).normal(size=(3, 8192)).astype(np.float32)
    out = poisoned(3, np.float32)
    reduce.sum_any(a, out)
    exact, steps = a.astype(np.float64), 32 + 5 + 8  # of a thread, a warp, the block
    assert (np.abs(out - exact.sum(1)) <= steps * 2.0**-24 * np.abs(exact).sum(1)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_rows_beyond_the_registers_are_read_in_a_loop(dtype):
    longest = 1024 * (16 if dtype is np.float64 else 32)
    a = np.zeros((1, longest + 1), dtype)
    a[0, [0, longest]] = 1, 2
    assert row_copy(a) is None
    assert row_copy(a[:, 1:]) is not None
    out = np.zeros(1, np.float32)
    reduce.sum_any(a, out)
    assert out[0] == 3


def test_softmax_of_integers_has_no_number_for_what_is_not_there():
    a, b = np.full((2, 37), -100, np.int8), poisoned((2, 37), np.float32)
    softmax.softmax_any(a, b)
    np.testing.assert_array_equal(b, np.full((2, 37), 1 / 37, np.float32))


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_of_any_order_of_memory(order):
    a = np.array(np.random.default_rng(0).integers(-4, 5, (5, 64)), np.float32, order=order)
    b, out = np.full_like(a, np.nan, order="C"), poisoned(5, np.float32)
    softmax.softmax_any(a, b)
    np.testing.assert_allclose(b, right(a), rtol=1e-5)
    reduce.sum_any(a, out)
    np.testing.assert_array_equal(out, a.sum(1))
