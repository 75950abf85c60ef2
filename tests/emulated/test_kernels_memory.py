"""Kernels that find their memory at run time: by a table of pointers, by indices, by values."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import gemm_array, gemm_gathered, histogram
from cute_py.kernels.config import choose
from tests.emulated.kernel_data import operands, poisoned
from tests.emulated.test_kernels_ranges import ORDERS, code_lines
from tests.kernel_refusals import raised

TILE = (64, 64)


@pytest.mark.parametrize(
    ("most", "things"),
    [
        (40, (gemm_array.gemm_array,)),
        (70, (gemm_gathered.gemm_gathered, gemm_gathered.GatheredRows, gemm_gathered._index)),
        (35, (histogram.histogram,)),
    ],
)
def test_kernels_are_short(most, things):
    assert code_lines(*things) <= most


# -- products of arrays in tables

GROUPS = {
    "one": [(64, 64, 64)],
    "alike": [(64, 64, 32)] * 5,
    "several": [(70, 40, 64), (1, 100, 8), (130, 64, 136), (64, 65, 40)],
}


def grouped(sizes, kind="f16"):
    random = np.random.default_rng(0)
    pairs = [operands(random, size, kind) for size in sizes]
    a, b = ([pair[i] for pair in pairs] for i in (0, 1))
    return a, b, [poisoned(size[:2], np.float32) for size in sizes]


@pytest.mark.parametrize(("name", "kind"), [("one", "f16"), ("alike", "f32"), ("several", "f16")])
def test_products_by_a_table_of_pointers(name, kind):
    sizes = GROUPS[name]
    a, b, c = grouped(sizes, kind)
    parts = [cute.TensorArray(x) for x in (a, b, c)]
    most = [max(size[i] for size in sizes) for i in (0, 1)]
    plan = cute.trace(gemm_array.gemm_array, *parts, *most, choose(a[0], b[0], TILE))
    for order in ORDERS:
        for x in c:
            x.fill(np.nan)
        cute.emulate(plan, *parts, *most, order=order)
        for x, y, z in zip(a, b, c, strict=True):
            np.testing.assert_array_equal(z, x.astype(np.float64) @ y.T.astype(np.float64))


def test_shuffled_pointers_are_shuffled_products():
    a, b, c = grouped([(64, 64, 32)] * 6)
    order = np.random.default_rng(1).permutation(6)
    parts = [cute.TensorArray(x) for x in (a, b, c)]
    config = choose(a[0], b[0], TILE)
    gemm_array.gemm_array(*parts, 64, 64, config)
    first = [x.copy() for x in c]
    for table, arrays in zip(parts, (a, b, c), strict=True):
        table.update([arrays[k] for k in order])
    for x in c:
        x.fill(np.nan)
    gemm_array.gemm_array(*parts, 64, 64, config)
    for x, y in zip(first, c, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_group_that_writes_the_memory_of_another_is_refused():
    a, b, c = grouped([(64, 64, 32)] * 2)
    c[1] = c[0]
    a[1] = a[0] + 1
    parts = [cute.TensorArray(x) for x in (a, b, c)]
    error = raised(lambda: gemm_array.gemm_array(*parts, 64, 64, choose(a[0], b[0], TILE)))
    assert error.code == "emulate-global-race"


# -- gathered and scattered rows


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("rows", "count", "n", "k"), [(200, 130, 66, 72), (5, 64, 64, 8), (300, 1, 40, 200)]
)
def test_rows_are_gathered_and_scattered(kind, rows, count, n, k):
    """Rows of A may repeat; the others of D stay as they are."""
    random = np.random.default_rng(0)
    a, b = operands(random, (rows, n, k), kind)
    sources, targets = random.integers(0, rows, count), random.permutation(count + 20)[:count]
    wanted, d = np.full((count + 20, n), 7, np.float32), np.zeros((count + 20, n), np.float32)
    wanted[targets] = a[sources].astype(np.float64) @ b.T.astype(np.float64)
    config = choose(a, b, TILE)
    plan = cute.trace(gemm_gathered.gemm_gathered, a, b, d, sources, targets, config)
    for order in ORDERS:
        d.fill(7)
        cute.emulate(plan, a, b, d, sources, targets, order=order)
        np.testing.assert_array_equal(d, wanted)


def test_targets_that_repeat_race():
    random = np.random.default_rng(0)
    a, b = operands(random, (64, 64, 32), "f16")
    a[1] += 1
    d, sources, targets = np.zeros((64, 64), np.float32), np.arange(64), np.arange(64) // 2
    call = (a, b, d, sources, targets, choose(a, b, TILE))
    assert raised(lambda: gemm_gathered.gemm_gathered(*call)).code == "emulate-global-race"


# -- histogram


@pytest.mark.parametrize(
    ("kind", "bins", "width", "count"),
    [("u8", 256, 16, 10_000), ("u8", 10, 16, 31), ("s32", 1000, 4, 5001), ("s64", 7, 2, 4096)],
)
def test_values_are_counted(kind, bins, width, count):
    held = cute.dtype(kind).numpy
    x = np.random.default_rng(0).integers(0, bins, count).astype(held)
    counts = np.zeros(bins, np.int32)
    plan = cute.trace(histogram.histogram, x, counts, bins, width)
    for order in ORDERS:
        counts.fill(5)
        cute.emulate(plan, x, counts, order=order)
        np.testing.assert_array_equal(counts, 5 + np.bincount(x, minlength=bins))


def test_a_value_beyond_the_bins_is_refused():
    x, counts = np.full(100, 10, np.uint8), np.zeros(10, np.int32)
    error = raised(lambda: histogram.histogram(x, counts, 10, 4))
    assert error.code == "emulate-promise"
