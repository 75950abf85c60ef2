"""Conversions to integers and b1. A04 and A12 are rows of the requirements table."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cute_py.dtypes as cute
from tests.sampling import each

F16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
INTEGERS = [row for row in cute.DTYPES if row.is_integer]


def random_floats(dtype, count, seed=0):
    """Random bit patterns: every exponent, NaN, inf and subnormal turns up."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    return rng.integers(0, 1 << dtype.itemsize * 8, count, np.dtype(f"u{dtype.itemsize}")).view(
        dtype
    )


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


@each([row for row in INTEGERS if row.bits >= 8], INTEGERS)
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
