"""Conversions, ties to even, against NumPy and ml_dtypes.

A01, A02 and A11 are rows of the requirements table.
"""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py.dtypes as cute
from tests.sampling import each

F16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
BF16 = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
SMALL = [cute.f16, cute.bf16, cute.e4m3, cute.e5m2, cute.e3m2, cute.e2m3, cute.e2m1]
WITH_NAN = [row for row in SMALL if row.special != "finite"]
FLOATS = [cute.f64, cute.f32, *SMALL]


def random_floats(dtype, count, seed=0):
    """Random bit patterns: every exponent, NaN, inf and subnormal turns up."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    return rng.integers(0, 1 << dtype.itemsize * 8, count, np.dtype(f"u{dtype.itemsize}")).view(
        dtype
    )


def cast(x, dtype):
    """NumPy's or ml_dtypes' own conversion, without its warnings."""
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def is_nan(x):
    """Return np.isnan(x); ml_dtypes' own warns of signaling NaNs."""
    with np.errstate(invalid="ignore"):
        return np.isnan(x)


def assert_same_bits(got, want):
    """Bit for bit, but for the payload of NaN, which cute_py makes the quiet one."""
    assert got.dtype == want.dtype
    unsigned = f"u{got.itemsize}"
    nan = is_nan(want)
    np.testing.assert_array_equal(is_nan(got), nan)
    np.testing.assert_array_equal(got.view(unsigned)[~nan], want.view(unsigned)[~nan])
    np.testing.assert_array_equal(
        np.signbit(cast(got[nan], "f4")), np.signbit(cast(want[nan], "f4"))
    )


# -- round trips


def test_a01_f16_to_f32_and_back_is_exact_for_all_patterns():
    wide = cute.convert(F16, cute.f32)
    assert_same_bits(wide, cast(F16, np.float32))
    assert_same_bits(cute.convert(wide, cute.f16), F16)


def test_a02_bf16_to_f32_and_back_is_exact_for_all_patterns():
    wide = cute.convert(BF16, cute.f32)
    finite = ~np.isnan(wide)
    images = BF16.view(np.uint16).astype(np.uint32) << 16  # the top half of f32
    np.testing.assert_array_equal(wide.view(np.uint32)[finite], images[finite])
    assert_same_bits(cute.convert(wide, cute.bf16), BF16)


def test_a02_rne_of_the_two_ties():
    ties = np.array([0x3F808000, 0x3F818000], np.uint32).view(np.float32)
    assert [hex(image) for image in cute.encode(ties, cute.bf16)] == ["0x3f80", "0x3f82"]


@pytest.mark.parametrize("wide", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("row", [cute.e4m3, cute.e5m2, cute.e3m2, cute.e2m3, cute.e2m1], ids=str)
def test_narrow_floats_survive_the_way_through_a_wider_type(row, wide):
    images = np.arange(1 << row.bits)
    values = cute.decode(images, row)
    there = cute.convert(values, wide)
    np.testing.assert_array_equal(cast(there, "f8"), cast(values, "f8"))
    assert_same_bits(cute.convert(there, row), values)


@pytest.mark.parametrize("row", FLOATS, ids=str)
def test_own_values_stay_as_they_are_to_the_bit(row):
    values = (
        random_floats(row.numpy, 1000)
        if row.bits >= 8
        else cute.decode(np.arange(1 << row.bits), row)
    )
    unsigned = f"u{values.itemsize}"
    np.testing.assert_array_equal(cute.convert(values, row).view(unsigned), values.view(unsigned))


# -- against NumPy and ml_dtypes, ties to even


@pytest.mark.parametrize("row", [cute.e4m3, cute.e5m2, cute.bf16, cute.f32, cute.f64], ids=str)
def test_all_f16_patterns(row):
    assert_same_bits(cute.convert(F16, row), cast(F16, row.numpy))


@pytest.mark.parametrize("row", [cute.e4m3, cute.e5m2, cute.f16], ids=str)
def test_all_bf16_patterns(row):
    assert_same_bits(cute.convert(BF16, row), cast(cast(BF16, np.float32), row.numpy))


@pytest.mark.parametrize("row", WITH_NAN, ids=str)
def test_a_million_f32_patterns(row):
    x = random_floats(np.float32, 10**6)
    assert_same_bits(cute.convert(x, row), cast(x, row.numpy))


@pytest.mark.parametrize("row", [cute.e3m2, cute.e2m3, cute.e2m1], ids=str)
def test_a_million_f32_patterns_to_types_without_nan(row):
    x = random_floats(np.float32, 10**6)
    x = x[~np.isnan(x)]  # NaN is the largest number here, as in PTX; ml_dtypes makes it -0
    assert_same_bits(cute.convert(x, row), cast(x, row.numpy))


@pytest.mark.parametrize("row", [cute.f32, cute.f16], ids=str)
def test_a_million_f64_patterns(row):
    x = np.concatenate(
        [
            random_floats(np.float64, 500_000),
            cast(random_floats(np.float32, 500_000), "f8") * 1.0000001,
        ]
    )
    assert_same_bits(cute.convert(x, row), cast(x, row.numpy))


@pytest.mark.parametrize("row", [cute.f64, cute.f32], ids=str)
@pytest.mark.parametrize("integer", [cute.s64, cute.u64, cute.s32, cute.u16, cute.s8], ids=str)
def test_integers_to_f32_and_f64_as_numpy_rounds_them(integer, row):
    x = random_floats(f"u{integer.bits // 8}", 100_000).view(integer.numpy)
    x = x >> (np.arange(x.size) % integer.bits).astype(x.dtype)
    assert_same_bits(cute.convert(x, row), x.astype(row.numpy))


def test_nan_is_the_quiet_nan_with_its_sign_or_ptx_s_largest_number():
    nan = np.array([0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
    images = {row.name: [hex(i) for i in cute.encode(nan, row)] for row in (cute.f64, *SMALL)}
    assert images == {
        "f64": ["0x7ff8000000000000", "0xfff8000000000000"],
        "f16": ["0x7e00", "0xfe00"],
        "bf16": ["0x7fc0", "0xffc0"],
        "e4m3": ["0x7f", "0xff"],
        "e5m2": ["0x7e", "0xfe"],
        "e3m2": ["0x1f", "0x1f"],  # PTX ISA, cvt: NaN results are converted to positive MAX_NORM
        "e2m3": ["0x1f", "0x1f"],
        "e2m1": ["0x7", "0x7"],
    }
    for row in WITH_NAN:
        assert np.isnan(cute.convert(nan, row, saturate=True)).all()


# -- A11: every pair of the table


def numpy_equivalent(x, source, to):
    """Return (values, NumPy's conversion of them), leaving out what NumPy or C leaves undefined."""
    if to.is_integer and source.is_float:
        wide = cast(x, np.float64)
        with np.errstate(invalid="ignore"):
            inside = (wide > float(to.min - 1)) & (wide < float(to.max + 1))  # casts truncate
        x = x[inside]
        return x, np.trunc(cast(x, np.float64)).astype(to.numpy)
    if to.is_integer or to.kind == "bool":
        return x, cast(x, to.numpy)
    if (
        not source.is_float and source.bits > 16
    ):  # the others go through f32 or f64, and round twice
        small = (x >= np.array(-256 if source.is_signed else 0, x.dtype)) & (
            x <= np.array(256, x.dtype)
        )
        x = x[small] if to not in (cute.f32, cute.f64) else x
    if source is cute.f64 and to not in (cute.f64, cute.f32, cute.f16):
        x = cast(x, np.float32)
    return x, cast(x, to.numpy)


PAIRED = [row for row in cute.DTYPES if row.bits >= 8 and row not in (cute.tf32, cute.ue8m0)] + [
    cute.b1
]


def check_pair(source, to, count):
    x = random_floats(f"u{max(source.bits, 8) // 8}", count)
    if source.is_integer:  # all magnitudes
        x = x.view(source.numpy) >> (np.arange(count) % source.bits).astype(source.numpy)
    x = x % 2 != 0 if source is cute.b1 else x.view(source.numpy)
    x, want = numpy_equivalent(x, source, to)
    got = cute.convert(x, to)
    if to.is_float:
        assert_same_bits(got, want)
    else:
        np.testing.assert_array_equal(got, want)
    return x.size


@each(PAIRED, PAIRED)
def test_a11_every_pair_equals_numpy(source, to):
    assert check_pair(source, to, 20_000) > 50


@pytest.mark.slow
@pytest.mark.parametrize("to", PAIRED, ids=str)
@pytest.mark.parametrize("source", PAIRED, ids=str)
def test_a11_every_pair_equals_numpy_on_a_million(source, to):
    assert check_pair(source, to, 10**6) > 5000


# -- arrays


def test_shape_order_and_input_are_kept():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7
    before = x.copy()
    for view in (x, x.T, x[::-1, ::2], x[:, :0], np.float32(0.3)):
        got = cute.convert(view, "f16")
        assert got.shape == view.shape
        np.testing.assert_array_equal(got, view.astype(np.float16))
    np.testing.assert_array_equal(x, before)


def test_the_result_is_never_the_argument():
    x = np.ones(4, np.float16)
    cute.convert(x, "f16")[0] = 2
    cute.decode(x.view(np.uint16), "f16")[1] = 2
    cute.encode(x, "f16")[2] = 2
    assert x.tolist() == [1, 1, 1, 1]


def test_lists_of_integers_are_read_exactly():
    assert cute.convert([0, 1 << 63], "u64").tolist() == [0, 1 << 63]
    assert cute.convert([(1 << 64) - 1, 1], "s8").tolist() == [-1, 1]
    assert cute.convert([0.5, 1 << 63], "f64").tolist() == [0.5, 2.0**63]
    assert cute.convert([], "s8").shape == (0,)


def test_scalars_give_scalars():
    assert cute.convert(1.5, "f16").dtype == np.float16
    assert np.ndim(cute.convert(3, "s4")) == np.ndim(cute.encode(3, "s4")) == 0
    assert np.ndim(cute.decode(3, "s4")) == 0


def test_blocks_do_not_show():
    x = random_floats(np.float32, (1 << 15) * 2 + 3)
    whole = cute.encode(x, "bf16")
    parts = np.concatenate([cute.encode(part, "bf16") for part in np.array_split(x, 7)])
    np.testing.assert_array_equal(whole, parts)


@given(
    image=st.integers(0, (1 << 64) - 1),
    row=st.sampled_from([r for r in cute.DTYPES if r not in (cute.void, cute.ue8m0)]),
)
def test_encode_inverts_decode(image, row):
    image &= (1 << row.bits) - 1
    if row is cute.tf32:
        image &= 0xFFFFE000
    value = cute.decode(image, row)
    if row.is_float and np.isnan(value):
        assert np.isnan(cute.decode(cute.encode(value, row), row))
    else:
        assert int(cute.encode(value, row)) == image
