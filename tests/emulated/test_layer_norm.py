"""LayerNorm against NumPy in f64, on the emulator with all checks."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.arrays import row_copy
from cute_py.kernels.layer_norm import layer_norm, layer_norm_any, layer_norm_long, reference
from cute_py.kernels.reduce import over_block
from tests.emulated.test_kernels_ranges import code_lines
from tests.sampling import pairwise

ORDERS = ("forward", "reversed", 0)
BOUNDS = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 1e-6}  # of numbers around 1, relative


def inputs(shape, kind, center=0.0):
    rng, dtype = np.random.default_rng(shape[1]), cute.dtype(kind).numpy
    a = rng.normal(center, 1, shape).astype(dtype)
    return a, *(rng.normal(1, 0.5, shape[1]).astype(dtype) for _i in range(2))


def normed(a, weight, bias, eps=1e-5, order="forward", dtype=None):
    b = np.full(a.shape, np.nan, dtype or a.dtype)
    plan = cute.trace(layer_norm, a, weight, bias, b, eps, *row_copy(a, b))
    given = [x for x in (a, weight, bias, b) if x is not None]
    cute.emulate(plan, *given, eps, order=order)
    return b


def check(a, weight, bias, kind, **options):
    b = normed(a, weight, bias, **options)
    wanted = reference(a, 1 if weight is None else weight, 0 if bias is None else bias, 1e-5)
    assert (np.abs(b - wanted) <= BOUNDS[kind] * (3 + np.abs(wanted))).all()


SHAPES = [(1, 1), (3, 7), (5, 64), (2, 257), (3, 1000), (2, 1024), (1, 4104)]


@pytest.mark.parametrize(
    ("shape", "kind", "order"), pairwise(SHAPES, tuple(BOUNDS), ORDERS), ids=str
)
def test_rows_have_mean_0_and_variance_1_before_they_are_scaled(shape, kind, order):
    check(*inputs(shape, kind), kind, order=order)


def test_the_variance_of_numbers_far_from_0_is_that_of_their_distances():
    """E(x^2) - mean^2 would lose all digits in f32."""
    a, weight, bias = inputs((2, 500), "f32", 10000)
    b = normed(a, weight, bias)
    np.testing.assert_allclose(b, reference(a, weight, bias, 1e-5), atol=2e-3)


@pytest.mark.parametrize("which", [(), (0,), (1,)])
def test_weight_and_bias_may_be_left_out(which):
    a, *vectors = inputs((3, 100), "f16")
    check(a, *[x if i in which else None for i, x in enumerate(vectors)], "f16")


def test_integers_with_a_known_variance_are_exact():
    """Rows of -3 and 3: the mean is 0, the variance 9, and with eps 7 the result is x / 4."""
    a = np.where(np.random.default_rng(0).permuted(np.tile([0, 1], (4, 128)), axis=1), 3, -3)
    b = normed(a.astype(np.float32), None, None, 7.0)
    np.testing.assert_array_equal(b, a / 4)


def test_equal_numbers_have_no_variance():
    a = np.full((2, 300), 5, np.float16)
    assert (normed(a, None, None) == 0).all()


def test_rows_may_be_slices_and_the_result_of_another_type():
    a, weight, bias = inputs((5, 128), "bf16")
    part = a[::2, 3:100]
    b = normed(part, weight[3:100], bias[3:100], dtype=np.float32)
    wanted = reference(part, weight[3:100], bias[3:100], 1e-5)
    np.testing.assert_allclose(b, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", tuple(BOUNDS))
@pytest.mark.parametrize("which", [(), (0,), (1,)])
def test_rows_of_any_length_are_read_three_times(kind, which):
    a, *vectors = inputs((2, 1000), kind, 3.0)
    weight, bias = [None if i in which else x for i, x in enumerate(vectors)]
    b = np.full(a.shape, np.nan, a.dtype)
    layer_norm_long(a, weight, bias, b, 1e-5)
    wanted = reference(a, 1 if weight is None else weight, 0 if bias is None else bias, 1e-5)
    assert (np.abs(b - wanted) <= BOUNDS[kind] * (3 + np.abs(wanted))).all()


def test_a_row_that_is_too_long_for_registers_is_normalized_too():
    a, weight, bias = inputs((1, 70000), "f32")
    b = np.full(a.shape, np.nan, np.float32)
    assert row_copy(a, b) is None
    layer_norm_any(a, weight, bias, b, 1e-5)
    np.testing.assert_allclose(b, reference(a, weight, bias, 1e-5), atol=1e-5)


def test_a_tile_that_does_not_hold_the_row_is_refused():
    a, weight, bias = inputs((2, 1000), "f32")
    with pytest.raises(cute.CuteError) as caught:
        layer_norm(a, weight, bias, a.copy(), 1e-5, *row_copy(a[:, :500]))
    assert caught.value.code == "plan-requirement"


def test_all_orders_give_the_same_bits():
    given = inputs((3, 777), "f32")
    found = [normed(*given, order=order) for order in ORDERS]
    assert all((found[0] == x).all() for x in found)


def test_the_kernel_is_short():
    assert code_lines(layer_norm, over_block) <= 35
    assert code_lines(layer_norm_long, over_block) <= 35
