"""The dtype rows and their look-up. A01-A06 are rows of the requirements table."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import cute_py.dtypes as cute

ROOT = Path(__file__).parents[2]
FLOATS = [row for row in cute.DTYPES if row.is_float]
INTEGERS = [row for row in cute.DTYPES if row.is_integer]
HELD = [row for row in cute.DTYPES if row is not cute.void]


def test_a06_sizeof_bits():
    bits = {"f16": 16, "tf32": 32, "s4": 4, "b1": 1, "void": 0, "f64": 64, "e4m3": 8, "e3m2": 6}
    assert {name: cute.dtype(name).bits for name in bits} == bits
    assert {name: cute.sizeof_bits(name) for name in bits} == bits


@pytest.mark.parametrize("row", [row for row in FLOATS if row is not cute.tf32], ids=str)
def test_float_fields_and_range_are_those_of_ml_dtypes(row):
    info = ml_dtypes.finfo(row.numpy)
    assert (row.bits, row.exponent_bits, row.mantissa_bits) == (info.bits, info.nexp, info.nmant)
    assert row.max == float(info.max)
    assert row.min == float(info.min)


def test_a03_tf32_is_f32_with_10_fraction_bits():
    fields = (cute.tf32.exponent_bits, cute.tf32.mantissa_bits, cute.tf32.bias)
    assert fields == (8, 10, 127)
    assert (cute.tf32.bits, cute.tf32.numpy, cute.tf32.ptx) == (32, np.float32, "tf32")
    assert cute.tf32.max == float(np.uint32(0x7F7FE000).view(np.float32))


@pytest.mark.parametrize("row", INTEGERS, ids=str)
def test_integer_range(row):
    info = (
        ml_dtypes.iinfo(("int" if row.is_signed else "uint") + str(row.bits))
        if row.bits > 7
        else (
            ml_dtypes.iinfo(
                getattr(ml_dtypes, ("int" if row.is_signed else "uint") + str(row.bits))
            )
        )
    )
    assert (row.bits, row.min, row.max) == (info.bits, int(info.min), int(info.max))
    assert row.numpy.itemsize == max(row.bits, 8) // 8


def test_containers_of_sub_byte_types():
    held = {row.name: row.numpy.name for row in cute.DTYPES if row.is_subbyte}
    assert held == {
        "s4": "int8", "s2": "int8", "u4": "uint8", "u2": "uint8", "b1": "bool",
        "e3m2": "float6_e3m2fn", "e2m3": "float6_e2m3fn", "e2m1": "float4_e2m1fn",
    }  # fmt: skip


@pytest.mark.parametrize("row", HELD, ids=str)
def test_numba_type_is_of_the_element_size_or_a_word(row):
    size = np.dtype(row.numba_name).itemsize * 8
    assert size == (32 if row.is_subbyte else row.bits)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_a04_generic_integers_follow_integer_subbyte(bits, signed):
    row = cute.int_type(bits, signed)
    sign_mask = signed << (bits - 1)
    values = [(x ^ sign_mask) - sign_mask for x in range(1 << min(bits, 12))]
    assert row is cute.dtype(("s" if signed else "u") + str(bits)) is cute.int_type(bits, signed)
    assert (row.min, row.max) == (-sign_mask, (1 << bits) - 1 - sign_mask)
    if bits <= 8:
        assert cute.decode(np.arange(1 << bits), row).tolist() == values


@pytest.mark.parametrize(
    ("spelling", "row"),
    [
        ("f16", cute.f16), ("float16", cute.f16), ("half_t", cute.f16), (np.float16, cute.f16),
        ("bfloat16", cute.bf16), (ml_dtypes.bfloat16, cute.bf16), ("tfloat32_t", cute.tf32),
        ("float8_e4m3fn", cute.e4m3), (np.dtype(ml_dtypes.float8_e5m2), cute.e5m2),
        ("float32", cute.f32), ("double", cute.f64), ("int8", cute.s8), ("u8", cute.u8),
        ("uint4b_t", cute.u4), (ml_dtypes.int4, cute.s4), ("bin1_t", cute.b1), (np.bool_, cute.b1),
        ("int64_t", cute.s64), (cute.e4m3, cute.e4m3), ("void", cute.void),
        ("float8_e8m0fnu", cute.ue8m0), (ml_dtypes.float6_e2m3fn, cute.e2m3),
    ],
)  # fmt: skip
def test_lookup_by_any_of_the_names(spelling, row):
    assert cute.dtype(spelling) is row


@pytest.mark.parametrize("row", HELD, ids=str)
def test_from_numpy_inverts_numpy_unless_the_type_is_held_in_another(row):
    container = {
        cute.tf32: cute.f32,
        cute.s4: cute.s8,
        cute.s2: cute.s8,
        cute.u4: cute.u8,
        cute.u2: cute.u8,
    }
    assert cute.from_numpy(row.numpy) is container.get(row, row)


@pytest.mark.parametrize("row", [*cute.DTYPES, cute.int_type(3), cute.int_type(5, False)], ids=str)
def test_identity_survives_pickle_copy_and_repr(row):
    assert pickle.loads(pickle.dumps(row)) is row
    assert copy.copy(row) is copy.deepcopy([row])[0] is row
    assert eval(repr(row), {"cute": cute}) is row
    assert cute.dtype(str(row)) is row
    assert {row: 1}[cute.dtype(row.name)] == 1


def test_rows_are_frozen():
    with pytest.raises(AttributeError, match="frozen"):
        cute.f16.bits = 8
    with pytest.raises(AttributeError, match="frozen"):
        del cute.f16.name
    with pytest.raises(AttributeError):
        cute.f16.extra = 1
    assert cute.f16.bits == 16


def test_names_are_unique():
    assert len({row.name for row in cute.DTYPES}) == len(cute.DTYPES)
    assert len({row.cutlass_name for row in cute.DTYPES}) == len(cute.DTYPES)


def test_import_loads_no_module_beyond_the_package():
    code = (
        "import __future__, sys; before = set(sys.modules); import cute_py.dtypes;"
        "print(*sorted(m for m in set(sys.modules) - before if not m.startswith('cute_py')))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
