"""Kernels of benchmarks/gpu on the emulator: what is timed must be right first."""

import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from benchmarks.gpu import kernels
from benchmarks.gpu.building import arguments, shapes_of
from benchmarks.gpu.candidates import candidates
from benchmarks.gpu.cases import ROWS
from cute_py.kernels.config import GemmConfig, Side
from cute_py.kernels.epilogue import LinearCombination


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
    kernels.KERNELS["gemm"](a, b, None, None, c, 1.0, 0.0, config, LinearCombination())
    wanted = (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16)
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize("name", ["copy-1GiB", "transpose-1GiB", "softmax-bf16", "sum-f32"])
def test_candidates_of_memory_rows_are_right(name):
    row = replace(ROWS[name], shape=(4, 8192) if ROWS[name].group == "rows" else (68, 132))
    a = integers(row.shape, np.float32 if row.dtype == "f32" else ml_dtypes.bfloat16)
    for candidate in candidates(row):
        shape, _strides, dtype = shapes_of(row)[-1]
        out = np.full(shape, np.nan, np.float32 if dtype == "f32" else ml_dtypes.bfloat16)
        kernels.KERNELS[candidate.kernel](*arguments(candidate, row, [a, out]))
        e = np.exp(a.astype(np.float64) - a.max(1, keepdims=True).astype(np.float64))
        wanted = {"copy": a, "transpose": a.T, "sum": a.sum(1)}.get(row.kind)
        if wanted is None:
            wanted = (e / e.sum(1, keepdims=True)).astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(out, wanted)


def test_one_element_is_added():
    a, b, c = (np.full(4, x, np.float32) for x in (2, 3, math.nan))
    kernels.add_one(a, b, c)
    assert c[0] == 5
    assert np.isnan(c[1:]).all()
