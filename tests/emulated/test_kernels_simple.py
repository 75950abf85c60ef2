"""Copies, transposes, reductions and softmax equal NumPy on ragged shapes, in banks as promised."""

import importlib
import pkgutil
import runpy
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
import cute_py.kernels
from cute_py.kernels.arrays import facts_of, tile_copy
from cute_py.kernels.copy import copy_elements, copy_tiles
from cute_py.kernels.reduce import reduce_rows
from cute_py.kernels.softmax import softmax
from cute_py.kernels.transpose import (
    PADDED,
    PLAIN,
    SWIZZLED,
    transpose_naive,
    transpose_shared,
)
from tests.emulated.kernel_data import MAJORS, poisoned

SHAPES = ((1, 1), (1, 7), (33, 1), (7, 130), (64, 64), (130, 36), (257, 33))
DTYPES = (np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint16, np.int64)
HELPERS = (
    "activations",
    "arrays",
    "attention",
    "attention_heads",
    "attention_sm90",
    "attention_varlen",
    "config",
    "config_attention",
    "config_sm90",
    "configuration",
    "conv_gathered",
    "conv_sm90",
    "convolution",
    "device_rates",
    "epilogue",
    "gathered",
    "gemm",
    "gemm_sm90",
    "gemm_split",
    "gemm_split_sm90",
    "paged",
    "pairs",
    "samples",
    "scattered",
    "sequences",
    "split_k",
    "splits",
    "wordings",
)  # of the ladder, of the operators, and of the measurement of a GPU
SHOWN = [
    module.name
    for module in pkgutil.iter_modules(cute_py.kernels.__path__)
    if module.name not in HELPERS
]


@pytest.mark.parametrize("name", SHOWN)
def test_the_check_of_a_kernel_file_holds(name):
    module = importlib.import_module(f"cute_py.kernels.{name}")
    assert module.__doc__.startswith("new here: ")
    module.check()


def test_a_kernel_file_runs_as_a_program():
    file = importlib.import_module("cute_py.kernels.copy").__file__
    assert "check" in runpy.run_path(file, run_name="__main__")


@pytest.mark.parametrize("number", [5, 6, 7, 8])
def test_tensor_core_kernels_are_short(number):
    """Files of the kernels without docstrings and `check` stay under 80 lines."""
    (file,) = Path(cute_py.kernels.__file__).parent.glob(f"gemm_0{number}_*.py")
    text = file.read_text().split('"""', 2)[2]
    kernel = text.partition("\ndef check()")[0].strip()
    assert len(kernel.splitlines()) < 80


def numbers(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(-50, 50, shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_copies_equal_their_source(shape):
    for k, dtype in enumerate(DTYPES):
        a = numbers(shape, dtype)
        b, c = np.zeros_like(a), np.zeros_like(a)
        copy_tiles(a, c, tile_copy((32, 32), 128, a, c))
        np.testing.assert_array_equal(c, a)
        if k < 2:
            copy_elements(a, b)
            np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("majors", MAJORS)
def test_copies_between_arrays_of_any_major(majors):
    a = np.array(numbers((70, 44), np.float32), order="FC"[majors[0]])
    b = poisoned(a.shape, np.float32, majors[1])
    copy = tile_copy((32, 32), 64, a, b)
    assert copy.atom.op.src_bits == (
        32 if majors[0] != majors[1] else 64 if majors[0] == 0 else 128
    )
    copy_tiles(a, b, copy)
    np.testing.assert_array_equal(b, a)


def test_copies_read_and_write_slices_of_larger_arrays():
    whole = numbers((80, 90), np.float32)
    room = poisoned((80, 90), np.float32)
    a, b = whole[3:69, 5:73], room[3:69, 5:73]
    copy_tiles(a, b, tile_copy((16, 64), 128, a, b))
    np.testing.assert_array_equal(b, a)
    assert np.isnan(room).sum() == room.size - b.size


@pytest.mark.parametrize(("columns", "width"), [(44, 128), (46, 64), (45, 32)])
def test_vectors_are_as_wide_as_the_rows_allow(columns, width):
    a = np.zeros((8, columns), np.float32)
    assert facts_of(a) == (cute.f32, 1, width)
    assert facts_of(a[:, :: 2 if columns > 44 else 1])[2] == (32 if columns > 44 else 128)
    assert facts_of(a.T) == (cute.f32, 0, width)


# -- transpose


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8])
def test_transposes_equal_numpy(shape, dtype):
    a = numbers(shape, dtype)
    b = np.zeros(shape[::-1], dtype)
    transpose_naive(a, b)
    np.testing.assert_array_equal(b, a.T)
    for layout in (PLAIN, PADDED, SWIZZLED):
        b = np.zeros(shape[::-1], dtype)
        transpose_shared(a, b, layout)
        np.testing.assert_array_equal(b, a.T)


def test_padding_and_swizzling_keep_columns_out_of_one_bank():
    a, b = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    conflicts = {}
    for name, layout in (("plain", PLAIN), ("padded", PADDED), ("swizzled", SWIZZLED)):
        plan = cute.trace(transpose_shared, a, b, layout)
        conflicts[name] = cute.emulate(plan, a, b, report=True).total.conflicts
    columns = 64 * 64 // 32  # of a warp
    assert conflicts == {"plain": 31 * columns, "padded": 0, "swizzled": 0}


def aligned(shape):
    """Zeros (f32) whose first element starts a sector."""
    room = np.zeros(np.prod(shape) + 8, np.float32)
    start = -room.ctypes.data % 32 // 4
    return room[start : start + np.prod(shape)].reshape(shape)


def test_a_transpose_through_shared_memory_reads_and_writes_whole_sectors():
    a, b = aligned((64, 64)), aligned((64, 64))
    naive = cute.emulate(cute.trace(transpose_naive, a, b), a, b, report=True).total
    plan = cute.trace(transpose_shared, a, b, SWIZZLED)
    shared = cute.emulate(plan, a, b, report=True).total
    requests = 2 * 64 * 64 // 32
    assert shared.sectors == 4 * requests
    assert naive.sectors == (4 + 32) * requests // 2


# -- reductions


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_row_sums_equal_numpy(shape):
    for dtype, total in ((np.float32, np.float32), (np.int8, np.int32), (np.float16, np.float32)):
        a = numbers(shape, dtype)
        out = poisoned(shape[0], total)
        reduce_rows(a, out)
        np.testing.assert_array_equal(out, a.astype(np.float64).sum(1))


def test_row_sums_of_random_numbers_are_within_the_bound_of_their_order():
    a = np.random.default_rng(0).normal(size=(33, 1000)).astype(np.float32)
    out = poisoned(33, np.float32)
    reduce_rows(a, out)
    exact = a.astype(np.float64)
    steps = 8 + 5 + 4  # additions on the way of an element: a thread's, a warp's, the block's
    assert (np.abs(out - exact.sum(1)) <= steps * 2.0**-24 * np.abs(exact).sum(1)).all()


def test_row_sums_propagate_nan_and_infinity():
    a = numbers((5, 200), np.float32)
    a[1, 7], a[2, 9], a[3, [1, 199]] = np.nan, -np.inf, (np.inf, -np.inf)
    out = poisoned(5, np.float32)
    reduce_rows(a, out)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, a.sum(1))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax_is_within_four_ulp_of_numpy(shape):
    a = np.random.default_rng(0).normal(0, 4, shape).astype(np.float32)
    b = poisoned(shape, np.float32)
    softmax(a, b)
    e = np.exp(a.astype(np.float64) - a.max(1, keepdims=True))
    exact = e / e.sum(1, keepdims=True)
    # the argument of exp2 is rounded twice: its error grows with its size
    bound = 2.0**-24 * (8 + 4 * np.abs(a - a.max(1, keepdims=True))) * exact
    assert (np.abs(b - exact) <= bound + 2.0**-149).all()


def test_softmax_of_a_row_with_nan_is_nan():
    a = np.zeros((3, 150), np.float32)
    a[1, 140], a[2, 3] = np.nan, -np.inf
    b = poisoned(a.shape, np.float32)
    softmax(a, b)
    assert (b[0] == np.float32(1 / 150)).all()
    assert np.isnan(b[1]).all()
    assert b[2, 3] == 0
    assert np.isfinite(b[2]).all()
