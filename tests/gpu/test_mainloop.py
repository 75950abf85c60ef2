"""On the GPU: `cute.mainloop` over ranges, with named barriers, transforms and iterators."""

import numpy as np
import pytest

from tests.emulated import test_mainloop as emulated
from tests.emulated.test_mainloop import ASYNC, DEPTH

torch = pytest.importorskip("torch", reason="needs torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


def on_gpu(*arrays):
    return [torch.from_numpy(np.ascontiguousarray(x)).cuda() for x in arrays]


def require(kernel, wanted, c, *arguments):
    """Run a kernel; C, of NaN, must become what is wanted."""
    kernel(*arguments)
    torch.cuda.synchronize()
    np.testing.assert_array_equal(c.double().cpu().numpy(), wanted)


@pytest.mark.parametrize("name", [ASYNC, ASYNC.replace("_ZFILL", ""), "UniversalCopy<128>"])
@pytest.mark.parametrize(("first", "count"), [(0, 0), (0, 1), (2, 3), (0, 5)])
def test_any_range_of_tiles_is_multiplied(first, count, name):
    a, b, c = emulated.matrices(64, 64, 5 * DEPTH)
    cut = slice(first * DEPTH, (first + count) * DEPTH)
    A, B, C = on_gpu(a, b, c)
    wanted = emulated.product(a[:, cut], b[:, cut])
    require(emulated.some_tiles, wanted, C, A, B, C, first, count, name)


def test_a_named_barrier_stands_for_syncthreads():
    a, b, _c = emulated.matrices(64, 64, 4 * DEPTH)
    parts = [slice(0, 2 * DEPTH), slice(DEPTH, 3 * DEPTH)]
    wanted = np.concatenate([emulated.product(a[:, cut], b[:, cut]) for cut in parts], 1)
    A, B, C = on_gpu(a, b, np.full((64, 128), np.nan, np.float32))
    require(emulated.halves, wanted, C, A, B, C, False)


def test_fragments_are_dequantised_before_the_product():
    a, b, c = emulated.matrices(64, 64, 5 * DEPTH - 16)
    scales = np.array([1, 2, 4, 0.5, 1], np.float16)
    wanted = emulated.product(a, b * np.repeat(scales, DEPTH)[: b.shape[1]])
    A, B, C, s = on_gpu(a, b.astype(np.int8), c, scales)
    require(emulated.dequantised, wanted, C, A, B, C, s)


@pytest.mark.parametrize("kind", [emulated.Gathered, emulated.Stepping])
@pytest.mark.parametrize("depth", [8, 136])
def test_rows_are_gathered_by_index(kind, depth):
    a, b, _c = emulated.matrices(200, 64, depth)
    rows = np.random.default_rng(1).integers(0, 200, 64).astype(np.int32)
    A, B, C, R = on_gpu(a, b, np.zeros((64, 64), np.float32), rows)
    require(emulated.gathered, emulated.product(a[rows], b), C, A, B, C, R, kind)


@pytest.mark.parametrize("depth", [8, 136])
def test_the_rest_of_k_comes_first(depth):
    a, b, c = emulated.matrices(64, 64, depth)
    A, B, C = on_gpu(a, b, c)
    require(emulated.residue_first, emulated.product(a, b), C, A, B, C)


@pytest.mark.parametrize("both", [False, True])
def test_an_iterator_may_store_what_it_computed(both):
    a, b, c = emulated.matrices(64, 64, 136)
    A, B, C = on_gpu(a, b, c)
    factor = 0.25 if both else 0.5
    require(emulated.through_registers, factor * emulated.product(a, b), C, A, B, C, both)


@pytest.mark.parametrize("warps", [(2, 2, 2), (1, 2, 4), (2, 1, 4)])
def test_warps_along_k_add_their_sums(warps):
    a, b, c = emulated.matrices(64, 64, 200)
    A, B, C = on_gpu(a, b, c)
    require(emulated.shared_k, emulated.product(a, b) + 1, C, A, B, C, warps)
