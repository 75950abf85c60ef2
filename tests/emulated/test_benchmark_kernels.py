"""Kernels of benchmarks/gpu on the emulator: what is timed must be right first."""

import math

import numpy as np
import pytest

from benchmarks.gpu import kernels
from cute_py.kernels.gemm import Epilogue, GemmConfig, Side


def integers(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize(("band", "store"), [(0, 8), (1, 0), (3, 8)])
@pytest.mark.parametrize("shape", [(192, 128, 96), (130, 70, 40)])
def test_bands_and_stores_by_rows_cover_every_tile_once(shape, band, store):
    m, n, k = shape
    a, b = integers((m, k), np.float16), integers((n, k), np.float16, 1)
    c = np.full((m, n), np.nan, np.float16)
    atom, side = "SM80_16x8x16_F32F16F16F32_TN", Side("K", 8)
    more = {"band": band, "store": store if n % 8 == 0 else 2, "min_blocks": 2}
    config = GemmConfig(atom, (64, 64, 32), (2, 2), 3, side, side, True, **more)
    kernels.KERNELS["gemm"](a, b, None, None, c, 1.0, 0.0, config, Epilogue())
    wanted = (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16)
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize("shape", [(64, 128), (70, 132)])
def test_copy_and_transpose_by_vectors(shape):
    a = integers(shape)
    b, t = np.full(shape, np.nan, np.float32), np.full(shape[::-1], np.nan, np.float32)
    kernels.copy_vectors(a, b, (2, 512), 128)
    np.testing.assert_array_equal(a, b)
    if shape[0] % 4 == 0:
        kernels.transpose_vectors(a, t, 128)
        np.testing.assert_array_equal(a.T, t)


def test_rows_that_stay_in_registers():
    a = np.random.default_rng(0).normal(0, 2, (5, 1024)).astype(np.float32)
    b, total = np.full_like(a, np.nan), np.full(5, np.nan, np.float32)
    kernels.row_softmax(a, b, 1024, 128)
    e = np.exp(a.astype(np.float64) - a.max(1, keepdims=True))
    np.testing.assert_allclose(b, e / e.sum(1, keepdims=True), rtol=1e-5)
    kernels.row_sum(a, total, 1024, 128)
    np.testing.assert_allclose(total, a.astype(np.float64).sum(1), rtol=1e-4, atol=1e-4)


def test_one_element_is_added():
    a, b, c = (np.full(4, x, np.float32) for x in (2, 3, math.nan))
    kernels.add_one(a, b, c)
    assert c[0] == 5
    assert np.isnan(c[1:]).all()
