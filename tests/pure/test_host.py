"""Host utilities: the rows D01-D13 of the requirements, each with its exact check."""

from itertools import product
from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, LayoutRight, make_host_tensor, make_tensor
from cute_py.errors import CuteError
from tests.sampling import each

PITCHED = Layout((16, 8), (1, 20))  # column-major, 4 elements of padding after each column
SWIZZLED = cute.make_composed_layout(cute.Swizzle(2, 0, 3), 0, Layout((16, 8), (8, 1)))
LAYOUTS = {
    "column-major": Layout((16, 8)),
    "row-major": Layout((16, 8), LayoutRight),
    "pitched": PITCHED,
    "swizzled": SWIZZLED,
}


def integers(seed, shape=(16, 8), low=-50, high=50):
    return np.random.default_rng(seed).integers(low, high, shape)


# -- views


def test_d01_tensor_ref_is_a_pointer_and_a_layout():
    tensor = make_host_tensor(PITCHED, "s32", integers(0))
    for c in product(range(16), range(8)):
        assert cute.domain_offset(c, tensor)[0] == tensor[c]
    moved = cute.domain_offset((3, 5), tensor)
    assert cute.domain_offset((-3, -5), moved) == tensor


def test_d02_tensor_view_contains_what_is_inside_of_its_extent():
    tensor = make_tensor(np.arange(16 * 8), Layout((16, 8), (8, 1)))
    assert cute.elem_less((9, 5), tensor.shape)
    assert not cute.elem_less((16, 0), tensor.shape)
    assert (tensor[9, 5], cute.size(tensor)) == (9 * 8 + 5, 128)


def test_d03_host_tensor_counts_storage():
    assert make_host_tensor((7,), "s4").data.memory.nbytes == 4
    assert make_host_tensor((128, 96), "f32").data.memory.size == 12288


# -- text


def test_d06_text_is_the_string_of_the_demo():
    tensor = make_host_tensor(Layout((2, 3), LayoutRight), "f32", [[1, 2, 3], [4, 5, 6]])
    assert cute.tensor_text(tensor) == "1, 2, 3,\n4, 5, 6"
    assert cute.tensor_text(make_host_tensor(3, "s4", [1, -2, 3])) == "1, -2, 3"
    cube = make_host_tensor((2, 2, 2), "u8", np.arange(8).reshape(2, 2, 2))
    assert cute.tensor_text(cube) == "0, 1,\n2, 3,\n\n4, 5,\n6, 7"
    assert cute.tensor_text(cute.make_identity_tensor((1, 2))) == "(0,0), (0,1)"
    assert cute.tensor_text(make_host_tensor(2, "f64", [0.1, 1e10])) == "0.1, 1e+10"


TABLES = {
    "s32": ([1, -20], "    1\n  -20"),
    "f32": ([1.5, -0.25], "  1.50e+00\n -2.50e-01"),
    "f64": ([1.5, -0.25], "  1.500e+00\n -2.500e-01"),
    "b1": ([True, False], "  1\n  0"),
    "s4": ([7, -8], "    7\n   -8"),
}


@pytest.mark.parametrize("name", TABLES)
def test_print_tensor_has_the_widths_of_cute_pretty_print(name):
    values, text = TABLES[name]
    assert cute.tensor_table(make_host_tensor(2, name, values)) == text


def test_print_tensor_draws_slabs(capsys):
    array = np.arange(16).reshape(2, 2, 2, 2)  # (m,n,k,p)
    tensor = make_host_tensor((2, 2, 2, 2), "s32", array)
    cute.print_tensor(tensor)
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "host_ptr[32b](0) o (2,2,2,2):(1,2,4,8):"
    slab = {(k, p): [f"{a:5d}{b:5d}" for a, b in array[:, :, k, p]] for k in (0, 1) for p in (0, 1)}
    dashes, rule = "-" * 10, "=" * 10
    first, second = ([*slab[0, p], dashes, *slab[1, p]] for p in (0, 1))
    assert lines == [*first, rule, *second]
    cute.print_tensor(cute.make_identity_tensor((1, 2)), print_type=False)
    assert capsys.readouterr().out == "  (0,0)  (0,1)\n"


# -- fill


@pytest.mark.parametrize("name", LAYOUTS)
def test_d07_fill_leaves_the_padding_alone(name):
    tensor = make_host_tensor(LAYOUTS[name], "f32")
    cute.tensor_fill(tensor, 3.14159)
    assert (tensor.to_numpy() == np.float32(3.14159)).all()
    reached = set(np.asarray(LAYOUTS[name].offsets()).tolist())
    for place, value in enumerate(tensor.data.memory):
        assert value == (np.float32(3.14159) if place in reached else 0)


def test_sequential_fill_counts_in_colexicographical_order():
    tensor = cute.tensor_fill_sequential(make_host_tensor(PITCHED, "s32"), 5, 3)
    assert tensor.to_numpy().ravel(order="F").tolist() == [5 + 3 * i for i in range(128)]


@given(
    st.sampled_from(("s4", "u8", "s8", "s32", "s64", "u64", "b1")),
    st.integers(-3, 300)
    | st.integers(-(1 << 65), 1 << 65)
    | st.sampled_from((1 << 63, -(1 << 63))),
    st.integers(-3, 3) | st.integers(-(1 << 65), 1 << 65),
    st.integers(1, 9),
)
def test_sequential_fill_stores_the_integers_or_refuses_them(name, start, step, count):
    """As storing does: nothing wraps around and nothing is clamped."""
    dtype, wanted = cute.dtype(name), [start + step * i for i in range(count)]
    tensor = make_host_tensor(count, dtype)
    if all(dtype.min <= x <= dtype.max for x in wanted):
        found = cute.tensor_fill_sequential(tensor, start, step).to_numpy()
        assert [int(x) for x in found] == wanted
    else:
        with pytest.raises(cute.DtypeError) as caught:
            cute.tensor_fill_sequential(tensor, start, step)
        assert caught.value.code == "values-not-of"


@given(
    st.sampled_from(("e4m3", "e5m2", "f16", "bf16", "f32", "f64")),
    st.lists(st.floats(allow_nan=False), min_size=2, max_size=2, unique=True),
    st.none() | st.integers(0, 52),
)
def test_random_values_of_floats_are_finite_or_refused(name, bounds, bits):
    low, high = sorted(bounds)
    tensor, code = make_host_tensor(50, name), ""
    try:
        cute.tensor_fill_random_uniform(tensor, 7, high, low, bits)
    except CuteError as error:
        code = error.code
    inside = max(-low, high) <= min(cute.dtype(name).max, 2.0**970)
    assert code in (("", "random-bits") if inside else ("random-finite",))
    assert np.isfinite(tensor.to_numpy().astype(float)).all()


@pytest.mark.parametrize("seed", [7, np.int32(7), np.uint8(7), np.int64(7)])
def test_a_seed_is_an_integer_of_any_library(seed):
    values = cute.tensor_fill_random_uniform(make_host_tensor(4, "f32"), seed).to_numpy()
    wanted = cute.tensor_fill_random_uniform(make_host_tensor(4, "f32"), 7).to_numpy()
    assert (values == wanted).all()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_d08_uniform_values_keep_two_fractional_bits(dtype):
    tensor = make_host_tensor((64, 64), dtype)
    values = cute.tensor_fill_random_uniform(tensor, 2025, 4, -4, 2).to_numpy().astype(float)
    assert (values * 4 == np.round(values * 4)).all()
    assert (values.min(), values.max()) == (-4, 4)
    assert len(np.unique(values)) == 33


def test_d08_same_seed_gives_the_same_tensor_in_any_layout():
    tensors = [
        cute.tensor_fill_random_uniform(make_host_tensor(layout, "f32"), 7, 1, -1)
        for layout in LAYOUTS.values()
    ]
    for other in tensors[1:]:
        assert cute.tensor_equals(tensors[0], other)
    different = cute.tensor_fill_random_uniform(make_host_tensor(PITCHED, "f32"), 8, 1, -1)
    assert not cute.tensor_equals(tensors[0], different)


def test_d08_bounds_that_are_no_such_values_are_not_passed():
    values = cute.tensor_fill_random_uniform(make_host_tensor(4096, "f32"), 0, 0.9, -0.9, 1)
    assert sorted(set(values.to_numpy().tolist())) == [-0.5, 0.0, 0.5]


def test_d08_integers_are_filled_with_integers():
    values = cute.tensor_fill_random_uniform(make_host_tensor(4096, "s4"), 0, 7, -8).to_numpy()
    assert sorted(set(values.tolist())) == list(range(-8, 8))


def test_d09_gaussian_has_its_mean_and_deviation():
    tensor = make_host_tensor((1000, 1000), "f32")
    values = cute.tensor_fill_random_gaussian(tensor, 3, 0.5, 2.0, 2).to_numpy().astype(float)
    assert (values * 4 == np.round(values * 4)).all()
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(values.std() - 2.0) < 0.02


# -- compare and combine


@given(st.sampled_from(sorted(LAYOUTS)), st.sampled_from(sorted(LAYOUTS)), st.integers(0, 127))
def test_d11_one_logical_element_matters_and_padding_does_not(first, second, index):
    array = integers(1)
    a, b = (make_host_tensor(LAYOUTS[name], "s32", array) for name in (first, second))
    inside = np.zeros(a.data.memory.size, bool)
    inside[np.asarray(a.layout.offsets())] = True
    a.data.memory[~inside] += 1
    assert cute.tensor_equals(a, b)
    b[index] += 1
    assert not cute.tensor_equals(a, b)


def test_d11_shapes_must_agree():
    assert not cute.tensor_equals(make_host_tensor((2, 3), "s8"), make_host_tensor((3, 2), "s8"))
    assert cute.tensor_equals(make_host_tensor((2, (3, 2)), "s8"), make_host_tensor((2, 6), "s8"))


OPERATIONS = {
    "tensor_add": np.add,
    "tensor_sub": np.subtract,
    "tensor_mul": np.multiply,
    "tensor_div": np.floor_divide,
    "tensor_modulus": np.remainder,
}


@each(OPERATIONS, list(product(LAYOUTS, repeat=2)))
def test_d12_integers_are_numpys_for_mixed_layouts(operation, names):
    x, y = integers(2), integers(3)
    y[y == 0] = 1
    a, b = (make_host_tensor(LAYOUTS[n], "s32", v) for n, v in zip(names, (x, y), strict=True))
    out = make_host_tensor(PITCHED, "s32")
    result = getattr(cute, operation)(a, b, out)
    assert result is out
    assert np.array_equal(out.to_numpy(), OPERATIONS[operation](x, y))
    assert np.array_equal(getattr(cute, operation)(a, b).to_numpy(), out.to_numpy())


def test_d12_floats_are_rounded_once_and_integers_keep_their_low_bits():
    a, b = make_host_tensor(2, "f16", [1, 2]), make_host_tensor(2, "f16", [3, 0])
    assert np.array_equal(cute.tensor_div(a, b).to_numpy(), np.array([1 / 3, np.inf], np.float16))
    c = make_host_tensor(2, "s4", [7, -8])
    assert cute.tensor_add(c, c).to_numpy().tolist() == [-2, 0]


def test_d13_user_function_of_two_elements():
    x, y = np.abs(integers(4)), np.abs(integers(5))
    a, b = make_host_tensor(PITCHED, "s32", x), make_host_tensor(SWIZZLED, "s64", y)
    assert np.array_equal(cute.tensor_map2(gcd, a, b).to_numpy(), np.gcd(x, y))
    assert np.array_equal(cute.tensor_map2(np.gcd, a, b).to_numpy(), np.gcd(x, y))


# -- the reference product


@pytest.mark.parametrize("accumulate", ["f32", "s64", "s32", "f64"])
def test_d10_integers_are_exactly_numpys(accumulate):
    m, n, k = 64, 32, 16
    x, y, z = integers(6, (m, k)), integers(7, (n, k)), integers(8, (m, n))
    kind = "s8" if accumulate[0] == "s" else "f16"
    a = make_host_tensor(Layout((m, k), LayoutRight), kind, x)
    b = make_host_tensor(Layout((n, k)), kind, y)
    c = make_host_tensor(Layout((m, n), (1, 70)), "s32", z)
    result = cute.reference_gemm(a, b, c, 3, -2, accumulate)
    assert np.array_equal(result.to_numpy().astype(np.int64), 3 * (x @ y.T) - 2 * z)


def test_d10_demo_in_half_precision():
    """f16, 64x32x16, alpha 1.5, beta -1.25, values with two fractional bits: all sums are exact."""
    m, n, k = 64, 32, 16
    a, b, c = (make_host_tensor(shape, "f16") for shape in ((m, k), (n, k), (m, n)))
    for seed, tensor in enumerate((a, b, c)):
        cute.tensor_fill_random_uniform(tensor, seed, 4, -4, 2)
    x, y, z = (t.to_numpy().astype(np.float64) for t in (a, b, c))
    exact = 1.5 * (x @ y.T) - 1.25 * z
    out = make_host_tensor((m, n), "f16")
    assert cute.reference_gemm(a, b, c, 1.5, -1.25, out=out) is out
    assert np.array_equal(out.to_numpy(), exact.astype(np.float16))


def test_sums_are_rounded_in_the_accumulation_type():
    """2048 + 1 + 1 + ...: in f16 each 1 is lost, in f32 none."""
    a = make_host_tensor((1, 5), "f16", [[2048, 1, 1, 1, 1]])
    b = make_host_tensor((1, 5), "f16", 1)
    assert cute.reference_gemm(a, b, accumulate="f16")[0, 0] == 2048
    assert cute.reference_gemm(a, b)[0, 0] == 2052
    assert cute.reference_gemm(a, b, accumulate="bf16")[0, 0] == 2048


def test_integer_sums_keep_the_low_bits_and_results_are_clamped():
    a = make_host_tensor((1, 4), "s8", 127)
    big = 4 * 127 * 127
    assert cute.reference_gemm(a, a)[0, 0] == big
    assert cute.reference_gemm(a, a, accumulate="s16")[0, 0] == big - 65536
    assert cute.reference_gemm(a, a, out=make_host_tensor((1, 1), "s8"))[0, 0] == 127
    assert (
        cute.reference_gemm(a, a, alpha=0.5, out=make_host_tensor((1, 1), "f32"))[0, 0] == big / 2
    )


def test_c_is_not_read_where_beta_is_zero():
    a = make_host_tensor((1, 1), "f32", 2)
    nan = make_host_tensor((1, 1), "f32", np.nan)
    assert cute.reference_gemm(a, a, nan)[0, 0] == 4
    assert np.isnan(cute.reference_gemm(a, a, nan, beta=1)[0, 0])
