"""Every rounding against its definition in exact fractions, and against CUTLASS's formulas.

A03 and A10 are rows of the requirements table.
"""

from bisect import bisect_left
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cute_py.dtypes as cute
from tests.sampling import in_turn, quick

SMALL = [cute.f16, cute.bf16, cute.e4m3, cute.e5m2, cute.e3m2, cute.e2m3, cute.e2m1]
MODES = list(cute.ROUNDINGS)


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


# -- the oracle: every value of a small type as a fraction, and the definition of each rounding


@cache
def magnitudes(row):
    """Return the finite magnitudes of a small type, from its fields; image i has value i."""
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


# -- every rounding against its definition


@pytest.mark.parametrize(("row", "mode"), quick(in_turn(SMALL, MODES), SMALL, MODES), ids=str)
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
@example(x=1 << 5000)
@example(x=-(1 << 70_000))
@example(x=(1 << 64) + (1 << 11))
@example(x=(1 << 64) + (1 << 11) + 1)
def test_integers_to_f64_as_python_rounds_them(x):
    try:
        want = float(x)
    except OverflowError:
        want = np.inf if x > 0 else -np.inf
    assert float(cute.convert(x, cute.f64)) == want


def check_wide(x, row, unit):
    """Check every rounding of the fraction x to a type too wide for a list of its values."""
    down, up = (cute.convert(x, row, mode) for mode in ("rm", "rp"))
    low, high = Fraction(float(down)), Fraction(float(up))
    assert low <= x <= high
    if low == high:
        steps = 0
    else:  # adjacent: images differ by one unit, counted through zero
        ends = [int(np.abs(end).view(unit.dtype)) * (-1 if end < 0 else 1) for end in (down, up)]
        steps = ends[1] - ends[0]
    assert steps in (0, int(unit))
    inward, outward = (down, up) if x > 0 else (up, down)
    tie, size = (abs(low) + abs(high)) / 2, abs(x)
    even = inward if int(inward.view(unit.dtype)) // int(unit) % 2 == 0 else outward
    nearest = even if size == tie else inward if size < tie else outward
    assert cute.convert(x, row, "rz") == inward
    assert cute.convert(x, row) == nearest
    assert cute.convert(x, row, "rna") == (inward if size < tie else outward)


@given(x=st.floats(-cute.tf32.max, cute.tf32.max), row=st.sampled_from([cute.f32, cute.tf32]))
@example(x=1 + 2.0**-24, row=cute.f32)
@example(x=1 + 3 * 2.0**-24 + 2.0**-52, row=cute.f32)
@example(x=1 + 2.0**-11 + 2.0**-40, row=cute.tf32)
@example(x=-(2.0**-149) / 2, row=cute.f32)
@example(x=5e-324, row=cute.tf32)
def test_any_f64_to_f32_and_tf32_is_rounded_once(x, row):
    check_wide(x, row, np.uint32(1 << 13 if row is cute.tf32 else 1))


@given(x=st.integers(-(1 << 1023), 1 << 1023))
@example(x=(1 << 53) + 1)
@example(x=-(1 << 64) - (1 << 11))
def test_any_integer_to_f64_is_rounded_once(x):
    check_wide(x, cute.f64, np.uint64(1))


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
    top, nan = 0x7E, 0x7F
    assert cute.encode(x, "e4m3").tolist() == [top, top, nan, nan, nan, nan | 0x80]
    assert cute.encode(x, "e4m3", "rz").tolist() == [top, top, top, top, nan, nan | 0x80]
    assert cute.encode(x, "e4m3", saturate=True).tolist() == [top] * 5 + [top | 0x80]


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
    subnormal_or_just_not = (random_floats(np.uint32, 10**5) % (1 << 25)).view(np.float32)
    x = np.concatenate([random_floats(np.float32, 10**6), subnormal_or_just_not])
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


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("rn", "to_nearest"),
        ("rz", "toward_zero"),
        ("rp", "toward_infinity"),
        ("rm", "toward_neg_infinity"),
        ("rna", "half_ulp_truncate"),
        *((f"round_{mode}", mode) for mode in MODES),
    ],
)
def test_roundings_answer_to_ptx_s_and_cutlass_s_names(alias, name):
    x = near_ties(cute.e4m3)
    np.testing.assert_array_equal(cute.encode(x, "e4m3", alias), cute.encode(x, "e4m3", name))


def test_there_are_the_eight_float_round_styles():
    assert len(MODES) == 8
