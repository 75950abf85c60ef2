"""Products of one row or one column, from registers: the kernel, and which products get it."""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.epilogues import swiglu
from cute_py.kernels.config import Side
from cute_py.kernels.epilogue import LinearCombination, PairedFunction
from cute_py.kernels.gemv import VectorConfig
from cute_py.kernels.splits import Split
from cute_py.ops import gemm_vectors
from cute_py.ops.gemm_tiles_sm90 import ProductFacts
from cute_py.ops.without_gpu import call_on, gpu_of
from cute_py.plan.pairs import WHOLE, split
from cute_py.trace.formulas import formula
from tests.emulated.kernel_data import poisoned
from tests.sampling import pairwise, quick

KINDS = {"f16": np.float16, "f32": np.float32}
ROWS, K, L = 24, 264, 2
H200 = gpu_of("sm_90a")
AXES = KINDS, ("K", "MN"), (True, False), range(4)


def configs(kind, major, is_row):
    """Return what the rule may choose for a matrix that is contiguous along a mode."""
    shape = (1, ROWS, K) if is_row else (ROWS, 1, K)
    majors = ("K", major) if is_row else (major, "K")
    kinds = cute.dtype(kind), cute.dtype(kind)
    plain = LinearCombination()
    facts = ProductFacts(shape, L, kinds, majors, (128, 128), kinds[0], plain, False, H200)
    return gemm_vectors.others(facts)


def operands(kind, major, is_row):
    """Return a and b of small integers, of which one has a row or a column."""
    rng = np.random.default_rng(0)
    shape = (L, ROWS, K) if major == "K" else (L, K, ROWS)
    matrix = rng.integers(-3, 4, shape).astype(KINDS[kind])
    vector = rng.integers(-3, 4, (L, 1, K)).astype(KINDS[kind])
    matrix = matrix if major == "K" else matrix.swapaxes(1, 2)
    return (vector, matrix.swapaxes(1, 2)) if is_row else (matrix, vector.swapaxes(1, 2))


@pytest.mark.parametrize(("kind", "major", "is_row", "n"), quick(pairwise(*AXES)[:9], *AXES))
def test_every_configuration_is_exact(kind, major, is_row, n):
    """With ragged rows and K, a batch, C, a bias and an activation."""
    found, (a, b) = configs(kind, major, is_row), operands(kind, major, is_row)
    rng, (M, N) = np.random.default_rng(1), (a.shape[1], b.shape[2])
    c, bias = (rng.integers(-3, 4, s).astype(np.float32) for s in ((L, M, N), (N,)))
    out = poisoned((L, M, N), np.float32)
    more = {"c": c, "beta": 2.0, "bias": bias, "activation": "relu", "out_dtype": "f32"}
    cute.ops.gemm(a, b, config=found[n % len(found)], out=out, checks=True, **more)
    exact = a.astype(np.float64) @ b.astype(np.float64) + 2 * c + bias
    np.testing.assert_array_equal(out, np.maximum(exact, 0))


@pytest.mark.parametrize("major", ["K", "MN"])
def test_pairs_of_columns_and_several_results(major):
    a, b = operands("f16", major, True)
    bias = np.arange(ROWS, dtype=np.float32)
    row, each = bias[::2], np.array([2.0, -1.0], np.float32)[:, None, None]

    def epilogue(sums, bias, row, each):
        first, second = cute.pairs(sums + bias)
        return {"D": first * each + second + row, "z": sums}

    problem = {"bias": bias, "row": row, "each": each}
    exact = a.astype(np.float64) @ b.astype(np.float64)
    z = exact + bias
    for config in configs("f16", major, True):
        named = {"epilogue": epilogue, "out_dtype": "f32", "config": config, "checks": True}
        if config.tile[1] % 2:
            with pytest.raises(cute.LayoutError, match="pairs of columns"):
                cute.ops.gemm(a, b, **named, **problem)
            continue
        found = cute.ops.gemm(a, b, **named, **problem)
        np.testing.assert_array_equal(found["D"], z[..., ::2] * each + z[..., 1::2] + row)
        np.testing.assert_array_equal(found["z"], exact)


def test_pairs_get_threads_with_both_columns():
    epilogue = PairedFunction(split(formula(swiglu), [WHOLE]), (), (False,))
    shape, kinds = (1, ROWS, K), (cute.f16, cute.f16)
    for major in ("K", "MN"):
        facts = ProductFacts(
            shape, L, kinds, ("K", major), (128, 128), cute.f16, epilogue, False, H200
        )
        found = gemm_vectors.others(facts)
        assert found
        assert all(x.tile[1] % 2 == 0 for x in found)


@pytest.mark.parametrize("order", ["reversed", 3])
def test_sums_are_added_in_one_order(order):
    """Real numbers give the same bits in each order of the threads."""
    config = configs("f32", "MN", True)[2]
    a, b = (x[0] for x in operands("f32", "MN", True))
    a, b = a * np.float32(0.3), np.asfortranarray(b.T * np.float32(1.7)).T
    found = []
    for each in ("forward", order):
        d = poisoned((1, ROWS), np.float32)
        given = a, b.T, None, None, d, 1.0, 0.0, config, LinearCombination()
        cute.emulate(cute.kernels.gemv.gemv, *given, order=each)
        found.append(d.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("shape", "kind", "majors", "wanted"),
    [
        ((1, 10240, 8192), "bf16", "KK", (1, 4, 512)),
        ((1, 10240, 8192), "bf16", "KN", (1, 64, 256)),
        ((1, 28672, 4096), "f16", "KN", (1, 128, 256)),
        ((1, 6144, 4096), "bf16", "KN", (1, 32, 512)),
        ((1, 1024, 4096), "bf16", "KN", (1, 32, 1024)),
        ((10240, 1, 8192), "bf16", "KK", (4, 1, 512)),
        ((1, 8192, 4096), "f32", "KN", (1, 64, 128)),
        ((1, 64, 65536), "bf16", "KK", (1, 1, 2048)),
        ((1, 64, 65536), "bf16", "KN", None),  # one block could not load it
        ((2, 10240, 8192), "bf16", "KK", None),
        ((1, 10241, 8192), "bf16", "KN", None),  # rows of no whole vectors
        ((1, 4096, 4096), "e4m3", "KK", None),
        ((1, 4096, 4096), "f64", "KK", None),
    ],
)
def test_one_row_or_column_gets_the_family(shape, kind, majors, wanted):
    names = {"K": "K", "N": "MN"}
    config = call_on(H200, shape, kind, (names[majors[0]], names[majors[1]])).config
    assert (config.tile if isinstance(config, VectorConfig) else None) == wanted


def test_the_reason_of_another_family_is_given():
    config = call_on(H200, (1, 64, 65536), "bf16").config
    assert config.reasons[0] == "path: TMA and wgmma, too few blocks without parts of K"
    config = call_on(H200, (1, 4096, 4096), "bf16").config
    assert config.reasons[0] == "path: multiply-adds from registers, one row or one column"


def test_text_asks_for_tiles():
    for text in ("schedule=cooperative", "stages=3", "tile=64x128x64"):
        config = call_on(H200, (1, 4096, 4096), "bf16", config=text).config
        assert not isinstance(config, VectorConfig)


USUAL = VectorConfig(
    "UniversalFMA<f32,f16,f16,f32>", (1, 8, 256), (1, 8, 32), 1, Side("K", 8), Side("K", 8)
)


@pytest.mark.parametrize(
    ("parts", "rule"),
    [
        ({"warps": (8, 32)}, "threads along M, N and K"),
        ({"warps": (1, 3, 5)}, "whole warps"),
        ({"warps": (1, 64, 32), "tile": (1, 64, 256)}, "at most 1024 threads"),
        ({"tile": (1, 9, 256)}, "a tile that the threads divide"),
        ({"tile": (1, 512, 256)}, "a thread for each element"),
        ({"tile": (1, 8, 128)}, "whole vectors of each thread"),
        ({"b": Side("MN", 8)}, "whole vectors of each thread"),
        ({"stages": 2}, "stages of 1"),
        ({"pdl": 2}, "a pdl of 0 or 1"),
        ({"parts": Split("parallel", 0)}, "parts of K"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts, rule):
    with pytest.raises(cute.LayoutError, match=rule):
        replace(USUAL, **parts)


@pytest.mark.parametrize("change", ["kind", "major", "vector"])
def test_a_configuration_for_other_operands_is_refused(change):
    a, b = (x[0] for x in operands("f32" if change == "kind" else "f16", "K", True))
    b = np.ascontiguousarray(b) if change == "major" else b
    if change == "vector":
        a, b = a[:, :-4], b[:-4]
    with pytest.raises(cute.LayoutError, match="gemm"):
        cute.ops.gemm(a, b, config=USUAL)
