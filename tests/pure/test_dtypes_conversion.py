"""Conversions against NumPy, ml_dtypes, CUTLASS's formulas and exact rational arithmetic.

A01-A12 are rows of the requirements table.
"""

from bisect import bisect_left
from fractions import Fraction
from functools import cache
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cute_py.dtypes as cute

F16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
BF16 = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
SMALL = [cute.f16, cute.bf16, cute.e4m3, cute.e5m2, cute.e3m2, cute.e2m3, cute.e2m1]
WITH_NAN = [row for row in SMALL if row.special != "finite"]
MODES = list(cute.ROUNDINGS)
FLOATS = [cute.f64, cute.f32, *SMALL]
INTEGERS = [row for row in cute.DTYPES if row.is_integer]


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


# -- the oracle: every value of a small type as a fraction, and the definition of each rounding


@cache
def magnitudes(row):
    """Return all finite magnitudes of a small type in order, from its fields; image i has value i."""
    found = []
    for image in range(row.max_bits + 1):
        field, fraction = divmod(image, 1 << row.mantissa_bits)
        significand = Fraction(fraction, 1 << row.mantissa_bits) + (field > 0)
        found.append(significand * Fraction(2) ** (max(field, 1) - row.bias))
    assert found == sorted(set(found))
    return found


def nearest_image(x, row, mode):
    """Return the bit image of the finite fraction x rounded to row, by definition."""
    sign, size = x < 0, abs(x)
    values = magnitudes(row)
    step = values[-1] - values[-2]
    beyond = values[-1] + step  # where the next value would be, if the exponent went on
    above = bisect_left(values, size)
    if above < len(values) and values[above] == size:
        image = above
    else:
        low, high = values[above - 1], values[above] if above < len(values) else beyond
        tie = (low + high) / 2
        outward = {
            "toward_zero": False,
            "toward_infinity": not sign,
            "toward_neg_infinity": sign,
            "half_ulp_truncate": size >= tie,
            "half_ulp_trunc_dntz": size >= tie and size >= Fraction(2) ** (1 - row.bias),
        }.get(mode, size > tie or (size == tie and above % 2 == 0))
        image = above - 1 + outward
        if size >= beyond and mode not in ("toward_infinity", "toward_neg_infinity", "toward_zero"):
            image = len(values)
    if image == len(values):
        image = row.max_bits if "satfinite" in mode else row.inf_bits
    return image | sign << row.exponent_bits + row.mantissa_bits


def near_ties(row):
    """Return f64 values at, just below and just above values, ties and the ends of a small type."""
    values = magnitudes(row)
    values = [*values[:40], *values[:: max(1, len(values) // 300)], *values[-20:]]
    ties = [(a + b) / 2 for a, b in pairwise(values)]
    top = [values[-1] * Fraction(n, 64) for n in range(60, 75)]
    points = np.array([float(v) for v in [*values, *ties, *top]])
    points = np.concatenate([points, np.nextafter(points, 0), np.nextafter(points, np.inf)])
    points = np.concatenate([points, points * (1 + 2.0**-40), points * (1 - 2.0**-40)])
    return np.concatenate([points, -points])


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


@pytest.mark.parametrize("row", [cute.bf16, cute.e4m3, cute.e5m2], ids=str)
def test_where_ml_dtypes_differs_from_f64_the_fractions_say_that_it_rounded_twice(row):
    x = np.concatenate([
        random_floats(np.float64, 500_000),
        cast(random_floats(np.float32, 500_000), "f8") * 1.0000001,
        near_ties(row),
    ])  # fmt: skip
    got, theirs = cute.encode(x, row), cast(x, row.numpy).view(f"u{row.bits // 8}")
    differ = (got != theirs) & ~np.isnan(x)
    assert differ.any()  # or this test compares nothing
    for value, image, other in zip(x[differ], got[differ], theirs[differ], strict=True):
        assert image == nearest_image(Fraction(float(value)), row, "to_nearest")
        with np.errstate(over="ignore"):
            assert other == cute.encode(np.float32(value), row)


# -- every rounding against its definition


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", SMALL, ids=str)
def test_every_rounding_by_its_definition(row, mode):
    x = near_ties(row)
    got = cute.encode(x, row, mode)
    want = [nearest_image(Fraction(v), row, mode) for v in x.tolist()]
    zero_signs = (x == 0) & np.signbit(x)  # a fraction has no -0
    want = np.array(want) | zero_signs.astype(int) << (row.exponent_bits + row.mantissa_bits)
    np.testing.assert_array_equal(got, want)


@given(
    x=st.floats(allow_nan=False, allow_infinity=False).filter(bool),
    row=st.sampled_from(SMALL),
    mode=st.sampled_from(MODES),
)
@example(x=464.0, row=cute.e4m3, mode="to_nearest")
@example(x=5e-324, row=cute.bf16, mode="toward_infinity")
def test_any_f64_by_the_definition(x, row, mode):
    assert int(cute.encode(x, row, mode)) == nearest_image(Fraction(x), row, mode)


@given(x=st.integers(-(1 << 80), 1 << 80), row=st.sampled_from(SMALL), mode=st.sampled_from(MODES))
@example(x=(1 << 24) + 1, row=cute.bf16, mode="to_nearest")
@example(x=(1 << 64) - 1, row=cute.bf16, mode="toward_zero")
def test_any_integer_by_the_definition(x, row, mode):
    assert int(cute.encode(x, row, mode)) == nearest_image(Fraction(x), row, mode)


@given(x=st.integers(-(1 << 2000), 1 << 2000))
@example(x=(1 << 53) + 1)
@example(x=(1 << 1024) - 1)
@example(x=(1 << 64) + (1 << 11))
@example(x=(1 << 64) + (1 << 11) + 1)
def test_integers_to_f64_as_python_rounds_them(x):
    try:
        want = float(x)
    except OverflowError:
        want = np.inf if x > 0 else -np.inf
    assert float(cute.convert(x, cute.f64)) == want


@pytest.mark.parametrize("row", [cute.f64, cute.f32], ids=str)
@pytest.mark.parametrize("integer", [cute.s64, cute.u64, cute.s32, cute.u16, cute.s8], ids=str)
def test_integers_to_f32_and_f64_as_numpy_rounds_them(integer, row):
    x = random_floats(f"u{integer.bits // 8}", 100_000).view(integer.numpy)
    x = x >> (np.arange(x.size) % integer.bits).astype(x.dtype)
    assert_same_bits(cute.convert(x, row), x.astype(row.numpy))


def test_a10_the_requirement_table_s_numbers():
    x = np.float32(65520)
    got = [float(cute.convert(x, "f16", mode)) for mode in ("rn", "to_nearest_satfinite", "rz")]
    assert got == [np.inf, 65504, 65504]
    assert float(cute.convert(x, "f16", saturate=True)) == 65504
    assert float(cute.convert(np.float32(2049), "f16")) == 2048
    assert float(cute.convert(np.float32(2049), "f16", "half_ulp_truncate")) == 2050


@pytest.mark.parametrize(
    ("mode", "positive", "negative"),
    [
        ("to_nearest", np.inf, -np.inf),
        ("indeterminate", np.inf, -np.inf),
        ("half_ulp_truncate", np.inf, -np.inf),
        ("to_nearest_satfinite", 57344, -57344),
        ("toward_zero", 57344, -57344),
        ("toward_infinity", np.inf, -57344),
        ("toward_neg_infinity", 57344, -np.inf),
    ],
)
def test_overflow_of_e5m2_goes_where_the_rounding_points(mode, positive, negative):
    assert cute.convert([1e6, -1e6], "e5m2", mode).astype(float).tolist() == [positive, negative]


def test_infinity_stays_infinite_under_every_rounding_but_satfinite():
    for mode in MODES:
        want = 65504 if mode == "to_nearest_satfinite" else np.inf
        assert cute.convert([np.inf, -np.inf], "f16", mode).tolist() == [want, -want]
        assert cute.convert(np.float16([np.inf]), "f16", mode).tolist() == [want]


def test_e4m3_has_no_infinity_so_overflow_is_nan_unless_saturated():
    x = np.array([448, 464, 465, 1e9, np.inf, -np.inf])
    assert [hex(i) for i in cute.encode(x, "e4m3")] == [
        "0x7e",
        "0x7e",
        "0x7f",
        "0x7f",
        "0x7f",
        "0xff",
    ]
    assert [hex(i) for i in cute.encode(x, "e4m3", saturate=True)] == ["0x7e"] * 5 + ["0xfe"]
    assert [hex(i) for i in cute.encode(x, "e4m3", "rz")] == ["0x7e"] * 4 + ["0x7f", "0xff"]


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


# -- tf32 and the half-ulp modes against CUTLASS's own formulas on f32 images


def test_a03_rna_and_rne_of_half_an_ulp():
    x = np.float32(1 + 2**-11)
    assert float(cute.convert(x, "tf32", "rna")) == 1 + 2**-10
    assert float(cute.convert(x, "tf32")) == 1.0


@pytest.mark.parametrize("mode", MODES)
def test_a03_tf32_leaves_the_low_13_bits_zero(mode):
    images = cute.convert(random_floats(np.float32, 100_000), "tf32", mode).view(np.uint32)
    assert not (images & 0x1FFF).any()
    dirty = np.arange(0x3F800000, 0x3F800000 + 0x4000, dtype=np.uint32)
    assert not (cute.decode(dirty, "tf32").view(np.uint32) & 0x1FFF).any()


@pytest.mark.parametrize(("row", "cut"), [(cute.tf32, 13), (cute.bf16, 16)], ids=str)
def test_half_ulp_truncate_adds_half_an_ulp_to_the_image_as_cutlass_does(row, cut):
    x = random_floats(np.float32, 10**6)
    x = x[np.isfinite(x)]
    images = (x.view(np.uint32) + np.uint32(1 << cut - 1)) >> cut
    np.testing.assert_array_equal(
        cute.encode(x, row, "half_ulp_truncate") >> (13 if cut == 13 else 0), images
    )


def test_half_ulp_trunc_dntz_of_tf32_is_cutlass_s_sum():
    x = np.concatenate(
        [random_floats(np.float32, 10**6), random_floats(np.uint32, 10**5).view("u4") % (1 << 24)],
        dtype=np.float32,
        casting="unsafe",
    )
    x[-(10**5) :] = (random_floats(np.uint32, 10**5) % (1 << 25)).view(
        np.float32
    )  # subnormal, or just not
    x = x[np.isfinite(x)]
    power = (x.view(np.uint32) & 0xFF800000).view(np.float32)
    with np.errstate(over="ignore"):
        images = (power / np.float32(2048) + x).view(np.uint32) & 0xFFFFE000
    np.testing.assert_array_equal(cute.encode(x, "tf32", "half_ulp_trunc_dntz"), images)


def test_tf32_to_nearest_is_cutlass_s_round_bit_and_sticky_bit():
    x = random_floats(np.float32, 10**6)
    x = x[np.isfinite(x)]
    image = x.view(np.uint32)
    odd, half, sticky = image & 0x2000 != 0, image & 0x1000 != 0, image & 0xFFF != 0
    image = np.where(half & (sticky | odd), image + np.uint32(0x2000), image) & 0xFFFFE000
    np.testing.assert_array_equal(cute.encode(x, "tf32"), image)


# -- integers


def test_a04_nibbles_decode_and_9_reads_minus_7():
    nibbles = np.arange(16)
    assert cute.decode(nibbles, "s4").tolist() == [*range(8), *range(-8, 0)]
    assert cute.decode(nibbles, "u4").tolist() == [*range(16)]
    assert int(cute.decode(cute.encode(9, "s4"), "s4")) == -7
    assert int(cute.convert(9, "s4", saturate=True)) == 7


@pytest.mark.parametrize(
    ("row", "peer"), [(cute.s4, "int4"), (cute.u4, "uint4"), (cute.s2, "int2"), (cute.u2, "uint2")]
)
def test_sub_byte_integers_truncate_as_ml_dtypes_does(row, peer):
    x = np.arange(-128, 128, dtype=np.int8)
    want = x.astype(getattr(ml_dtypes, peer)).astype(row.numpy)
    np.testing.assert_array_equal(cute.convert(x, row), want)
    np.testing.assert_array_equal(cute.convert(want.astype(getattr(ml_dtypes, peer)), row), want)


@pytest.mark.parametrize("source", [row for row in INTEGERS if row.bits >= 8], ids=str)
@pytest.mark.parametrize("to", INTEGERS, ids=str)
def test_integers_truncate_or_clamp(source, to):
    x = random_floats(f"u{source.bits // 8}", 2000).view(source.numpy)
    x = np.concatenate([x, np.array([source.min, source.max, 0, 1], source.numpy)])
    wrapped = [(v - to.min) % (1 << to.bits) + to.min for v in x.tolist()]
    clamped = [min(max(v, to.min), to.max) for v in x.tolist()]
    assert cute.convert(x, to).tolist() == wrapped
    assert cute.convert(x, to, saturate=True).tolist() == clamped
    if to.bits >= 8:
        np.testing.assert_array_equal(cute.convert(x, to), x.astype(to.numpy))


@given(x=st.integers(-(1 << 100), 1 << 100), to=st.sampled_from(INTEGERS))
def test_python_integers_of_any_size_truncate_or_clamp(x, to):
    assert int(cute.convert(x, to)) == (x - to.min) % (1 << to.bits) + to.min
    assert int(cute.convert(x, to, saturate=True)) == min(max(x, to.min), to.max)


ROUND = {"rn": np.rint, "rz": np.trunc, "rp": np.ceil, "rm": np.floor}


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("to", INTEGERS, ids=str)
def test_all_f16_patterns_to_integers_as_ptx_cvt_rounds_and_clamps(to, mode):
    with np.errstate(invalid="ignore"):
        wide = ROUND[mode](F16.astype(np.float64)).tolist()
    want = [
        (-(1 << 63) if to is cute.s64 else 1 << 63 if to is cute.u64 else 0) if v != v
        else to.max if v == np.inf else to.min if v == -np.inf
        else min(max(int(v), to.min), to.max)
        for v in wide
    ]  # fmt: skip
    assert cute.convert(F16, to, mode).tolist() == want


@given(x=st.floats(allow_nan=False, allow_infinity=False), to=st.sampled_from(INTEGERS))
@example(x=2.0**63, to=cute.s64)
@example(x=-(2.0**63), to=cute.s64)
@example(x=2.0**64, to=cute.u64)
@example(x=2.0**64 - 2048, to=cute.u64)
@example(x=-0.5, to=cute.u8)
@example(x=0.5 - 2.0**-54, to=cute.s32)
def test_any_f64_to_integers(x, to):
    for mode, exact in (("rn", round), ("rz", int), ("half_ulp_truncate", away)):
        assert int(cute.convert(x, to, mode)) == min(max(exact(x), to.min), to.max)


def away(x):
    """Round to nearest, ties away from zero."""
    size = int(abs(Fraction(x)) + Fraction(1, 2))
    return size if x > 0 else -size


def test_nan_to_integers_as_in_ptx():
    nan = np.array([np.nan])
    for to in (cute.s8, cute.u8, cute.s16, cute.u16, cute.s32, cute.u32):
        assert cute.encode(nan.astype(np.float32), to).tolist() == [0]
        assert cute.encode(nan, to).tolist() == [1 << to.bits - 1]
    for to in (cute.s64, cute.u64):
        assert cute.encode(nan.astype(np.float16), to).tolist() == [1 << 63]


def test_b1_is_whether_the_value_is_not_zero():
    assert cute.convert([0, -0.0, 0.25, np.nan, -3], "b1").tolist() == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert cute.convert(np.array([0, 2, 4]), "b1").tolist() == [False, True, True]
    assert cute.convert(np.array([False, True]), "f16").tolist() == [0, 1]
    assert cute.convert(np.array([False, True]), "s4").tolist() == [0, 1]
    assert bool(cute.convert(1 << 70, "b1"))


def test_a12_int_to_int8_of_16_equals_numpy_astype():
    x = np.arange(16, dtype=np.int32) * 37 - 200
    np.testing.assert_array_equal(cute.convert(x, cute.s8), x.astype(np.int8))


# -- A11: every pair of the table


def numpy_equivalent(x, source, to):
    """Return (values, NumPy's conversion of them), leaving out what NumPy or C leaves undefined."""
    if to.is_integer and source.is_float:
        wide = cast(x, np.float64)
        inside = (wide > to.min - 1) & (wide < to.max + 1)  # casts truncate
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
    got = cute.convert(x, to, "rz" if to.is_integer else "rn")
    if to.is_float:
        assert_same_bits(got, want)
    else:
        np.testing.assert_array_equal(got, want)
    return x.size


@pytest.mark.parametrize("to", PAIRED, ids=str)
@pytest.mark.parametrize("source", PAIRED, ids=str)
def test_a11_every_pair_equals_numpy(source, to):
    assert check_pair(source, to, 20_000) > 50


@pytest.mark.slow
@pytest.mark.parametrize("to", PAIRED, ids=str)
@pytest.mark.parametrize("source", PAIRED, ids=str)
def test_a11_every_pair_equals_numpy_on_a_million(source, to):
    assert check_pair(source, to, 10**6) > 5000


# -- laws


finite = st.floats(-1e6, 1e6)


@given(
    x=finite,
    y=finite,
    row=st.sampled_from([*SMALL, cute.f32, cute.tf32]),
    mode=st.sampled_from(MODES),
)
def test_rounding_is_monotone(x, y, row, mode):
    low, high = (float(cute.convert(v, row, mode, saturate=True)) for v in sorted((x, y)))
    assert low <= high


@given(x=finite, row=st.sampled_from([*SMALL, cute.f32, cute.tf32]), mode=st.sampled_from(MODES))
def test_rounding_is_idempotent(x, row, mode):
    once = cute.convert(x, row, mode, saturate=True)
    assert int(cute.encode(once, row, mode)) == int(cute.encode(x, row, mode, saturate=True))


@given(x=finite, row=st.sampled_from([*SMALL, cute.f32, cute.tf32]))
def test_directed_roundings_enclose_the_value_and_mirror_each_other(x, row):
    down, up = (float(cute.convert(x, row, mode, saturate=True)) for mode in ("rm", "rp"))
    assert down <= min(max(x, row.min), row.max) <= up
    for mode in ("rn", "rz", "rna"):
        assert float(cute.convert(x, row, mode, saturate=True)) in (down, up)
    assert float(cute.convert(-x, row, "rm", saturate=True)) == -up


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


@pytest.mark.parametrize(
    ("alias", "name"),
    [("rn", "to_nearest"), ("rz", "toward_zero"), ("rp", "toward_infinity"), ("rm", "toward_neg_infinity"),
     ("rna", "half_ulp_truncate"), *((f"round_{mode}", mode) for mode in MODES)],
)  # fmt: skip
def test_roundings_answer_to_ptx_s_and_cutlass_s_names(alias, name):
    x = near_ties(cute.e4m3)
    np.testing.assert_array_equal(cute.encode(x, "e4m3", alias), cute.encode(x, "e4m3", name))


def test_there_are_the_eight_float_round_styles():
    assert len(MODES) == 8
