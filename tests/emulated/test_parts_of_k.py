"""Products whose K is computed in parts, which a second kernel adds up in a fixed order."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.ops.without_gpu import call_on, gpu_of
from tests.emulated.kernel_data import poisoned

M, N, K = 40, 24, 256


def operands(seed=0, kind=np.float16):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-3, 4, shape).astype(kind) for shape in ((M, K), (K, N)))
    return rng, a, b, a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize("parts", [2, 8, 32])
def test_parts_with_all_fields_are_exact(parts):
    rng, a, b, exact = operands()
    c, bias = (rng.integers(-3, 4, s).astype(np.float16) for s in ((M, N), (N,)))
    out = poisoned((M, N), np.float32)
    given = {"c": c, "beta": 3.0, "alpha": 0.5, "bias": bias, "activation": "relu", "out": out}
    config = f"split=parallel:{parts}"
    cute.ops.gemm(a, b, config=config, out_dtype="f32", checks=True, **given)
    np.testing.assert_array_equal(out, np.maximum(exact * 0.5 + 3.0 * c + bias, 0))


@pytest.mark.parametrize("order", ["CC", "FC", "CF", "FF"])
def test_parts_with_a_function_in_any_order_in_memory(order):
    _rng, a, b, exact = operands(1)
    a, b = (np.asarray(x, order=o) for x, o in zip((a, b), order, strict=True))
    column = np.arange(M, dtype=np.float32)[:, None]
    found = cute.ops.gemm(
        a, b, epilogue=lambda x, column: {"D": x + column, "twice": x * 2}, column=column,
        config="split=parallel:4", out_dtype="f32", checks=True,
    )  # fmt: skip
    np.testing.assert_array_equal(found["D"], exact + column)
    np.testing.assert_array_equal(found["twice"], exact * 2)


@pytest.mark.parametrize(("shape", "named", "words"), [
    ((M, K, N), {"config": "split=parallel:3"}, "divide K=256"),
    ((M, K, N), {"config": "split=parallel:0"}, "parts"),
    ((M, K, N), {"config": "split=parallel:512"}, "parts"),
    ((3, M, K, N), {"config": "split=parallel:2"}, "no batch"),
    ((M, K, N), {"config": "split=parallel:2", "dtype": "s8"}, "floats"),
    ((M, K, N), {"config": "split=parallel:2", "dtype": "f64"}, "floats"),
])  # fmt: skip
def test_parts_that_cannot_be_are_refused(shape, named, words):
    *batch, m, k, n = shape
    with pytest.raises(cute.CuteError, match=words):
        cute.ops.gemm(np.ones((*batch, m, k)), np.ones((*batch, k, n)), **{"dtype": "f16", **named})


SMALL = (
    *((256, 256, 65536), (64, 64, 65536), (128, 128, 32768), (2048, 64, 8192)),
    (16, 1536, 2048),
)
LARGE = ((4096, 4096, 4096), (512, 512, 512), (8, 28672, 4096))


@pytest.mark.parametrize("shape", [*SMALL, *LARGE])
def test_the_rule_takes_parts_where_d_is_small_and_k_is_long(shape):
    gpu = gpu_of("sm_90a")
    call = call_on(gpu, shape, "bf16")
    assert (call.config.parts.products > 1) is (shape in SMALL)
    if shape in SMALL:
        assert call.config.reasons[-1].startswith(f"parts: K in {call.config.parts.products}")
        assert call.first.blocks <= 4 * gpu.multiprocessors


def test_the_kernels_of_parts_are_traced_for_a_gpu():
    call = call_on(gpu_of("sm_90a"), (64, 64, 65536), "bf16")
    assert cute.trace(call.first.kernel, *call.first.arguments).launch.threads > 128
    assert call.plan().launch.threads == 128


def test_the_rule_takes_no_parts_of_integers_and_f64():
    gpu = gpu_of("sm_90a")
    assert call_on(gpu, SMALL[0], "s8").config.parts.products == 1
    assert call_on(gpu, SMALL[0], "f64", majors=("K", "MN")).config.parts.products == 1


def test_i11_the_sums_of_16_parts_are_in_memory():
    call = call_on(gpu_of("sm_80"), (M, N, K), "f16", config="split=parallel:16")
    (made,) = call.first.outputs
    assert (made.made.shape, made.made.kind) == ((16, M, N), cute.f32)
    _rng, a, b, exact = operands()
    found = cute.ops.gemm(a, b, config="split=parallel:16", out_dtype="f32")
    np.testing.assert_array_equal(found, exact)
