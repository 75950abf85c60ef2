"""Every refusal of cute_py.dtypes says what was given, what is required and how to fix it."""

from pathlib import Path

import numpy as np
import pytest

import cute_py.dtypes as cute
from cute_py.errors import CoordinateError, DtypeError, LeafTypeError

u2 = np.zeros(2, np.uint16)
read_only = np.zeros(2, np.uint16)
read_only.flags.writeable = False

REFUSED = [
    (
        lambda: cute.s32(min=9, max=15, multiple_of=8),
        DtypeError,
        "dtype-promise",
        "cute.s32: given s32(min=9, max=15, multiple_of=8)",
    ),
    (
        lambda: cute.dtype("flot16"),
        DtypeError,
        "dtype-unknown",
        "dtype: given 'flot16' (str) as a dtype; "
        "required: a cute_py dtype, its name, or a NumPy or ml_dtypes dtype; "
        "fix: say float16 or bfloat16",
    ),
    (
        lambda: cute.dtype("f4"),
        DtypeError,
        "dtype-unknown",
        "fix: say f32: NumPy's codes count bytes, these names bits",
    ),
    (
        lambda: cute.dtype("float"),
        DtypeError,
        "dtype-unknown",
        "given 'float' (str)",
    ),
    (
        lambda: cute.dtype(True),
        DtypeError,
        "dtype-unknown",
        "given True (bool) as a dtype",
    ),
    (
        lambda: cute.dtype(float),
        DtypeError,
        "dtype-unknown",
        "fix: a Python type has no width: say f32 or f64",
    ),
    (
        lambda: cute.dtype(None),
        DtypeError,
        "dtype-unknown",
        "given None (NoneType)",
    ),
    (
        lambda: cute.dtype(16),
        DtypeError,
        "dtype-unknown",
        "fix: say one of f64, f32, tf32, f16, bf16",
    ),
    (
        lambda: cute.dtype("u4b"),
        DtypeError,
        "dtype-unknown",
        "given 'u4b' (str)",
    ),
    (
        lambda: cute.convert(1, "F-16"),
        DtypeError,
        "dtype-unknown",
        "given 'F-16' (str)",
    ),
    (
        lambda: cute.from_numpy(np.complex64),
        DtypeError,
        "dtype-numpy",
        "from_numpy: given NumPy's dtype('complex64'); "
        "required: a real number type in native byte order that cute_py has; "
        "fix: convert with x.astype",
    ),
    (
        lambda: cute.from_numpy(np.dtype(np.float32).newbyteorder()),
        DtypeError,
        "dtype-numpy",
        "native byte order",
    ),
    (
        lambda: cute.from_numpy(None),
        DtypeError,
        "dtype-numpy",
        "given NumPy's None",
    ),
    (
        lambda: cute.from_numpy("nonsense"),
        DtypeError,
        "dtype-numpy",
        "given NumPy's 'nonsense'",
    ),
    (
        lambda: cute.int_type(12),
        DtypeError,
        "dtype-width",
        "int_type: given an integer type of 12 bits; "
        "required: 1 to 8, 16, 32 or 64 bits; "
        "fix: use 16 bits, the next wider one",
    ),
    (
        lambda: cute.int_type(128),
        DtypeError,
        "dtype-width",
        "fix: use one of these widths",
    ),
    (
        lambda: cute.int_type(True),
        DtypeError,
        "dtype-width",
        "an integer type of True bits",
    ),
    (
        lambda: cute.dtype("s12"),
        DtypeError,
        "dtype-width",
        "an integer type of 12 bits",
    ),
    (
        lambda: cute.void.numpy,
        DtypeError,
        "dtype-void",
        "Dtype.numpy: given void, which has no values; "
        "required: a dtype of at least 1 bit; "
        "fix: name the type of the elements",
    ),
    (
        lambda: cute.convert(1, "void"),
        DtypeError,
        "dtype-void",
        "convert: given void",
    ),
    (
        lambda: cute.decode(0, "void"),
        DtypeError,
        "dtype-void",
        "decode: given void",
    ),
    (
        lambda: cute.pack([0], "void"),
        DtypeError,
        "dtype-void",
        "pack: given void",
    ),
    (
        lambda: cute.unpack(u2, "void"),
        DtypeError,
        "dtype-void",
        "unpack: given void",
    ),
    (
        lambda: cute.convert(1.0, "ue8m0"),
        DtypeError,
        "dtype-scale",
        "convert: given ue8m0, a block scale without sign or zero; "
        "required: a dtype that converts value by value; "
        "fix: keep scales as decoded powers of two in f32",
    ),
    (
        lambda: cute.encode(cute.decode([127], "ue8m0"), "f32"),
        DtypeError,
        "dtype-scale",
        "encode: given ue8m0",
    ),
    (
        lambda: cute.convert(1.0, "f16", "toward_zer"),
        DtypeError,
        "rounding-unknown",
        "convert: given rounding 'toward_zer'; "
        "required: indeterminate, toward_zero (rz), to_nearest (rn), to_nearest_satfinite, "
        "toward_infinity (rp), toward_neg_infinity (rm), half_ulp_truncate (rna) or "
        "half_ulp_trunc_dntz; "
        "fix: say 'toward_zero'",
    ),
    (
        lambda: cute.convert(1.0, "f16", 3),
        DtypeError,
        "rounding-unknown",
        "fix: leave it out for ties to even",
    ),
    (
        lambda: cute.convert(1.0, "f16", True),
        DtypeError,
        "rounding-unknown",
        "given rounding True",
    ),
    (
        lambda: cute.convert("1.5", "f16"),
        LeafTypeError,
        "values-type",
        "convert: given values of NumPy dtype <U3; "
        "required: real numbers of a dtype that cute_py has; "
        "fix: convert with x.astype",
    ),
    (
        lambda: cute.convert(1j, "f16"),
        LeafTypeError,
        "values-type",
        "dtype complex128",
    ),
    (
        lambda: cute.convert(None, "f16"),
        LeafTypeError,
        "values-type",
        "dtype object",
    ),
    (
        lambda: cute.convert([1 << 70], "f16"),
        LeafTypeError,
        "values-type",
        "dtype object",
    ),
    (
        lambda: cute.convert([1, [2, 3]], "f16"),
        LeafTypeError,
        "values-ragged",
        "convert: given [1, [2, 3]]; "
        "required: numbers, or lists of equal length; "
        "fix: convert the parts one by one",
    ),
    (
        lambda: cute.convert([0.5, (1 << 53) + 1], "f64"),
        LeafTypeError,
        "values-mixed",
        "convert: given a list in which NumPy rounds the integer 9007199254740993 to float64; "
        "required: numbers that one NumPy dtype holds exactly; "
        "fix: pass an array of int64 or uint64, or convert the numbers one by one",
    ),
    (
        lambda: cute.convert([(1 << 63) + 1, -1], "f32"),
        LeafTypeError,
        "values-mixed",
        "the integer 9223372036854775809",
    ),
    (
        lambda: cute.pack([[1, 2], [3, 4]], "s4"),
        DtypeError,
        "values-shape",
        "pack: given values of shape (2, 2); "
        "required: one dimension, in storage order; "
        "fix: put them in order with x.reshape(-1)",
    ),
    (
        lambda: cute.SubbyteReference(u2, 0, "s4").set([1, 2]),
        DtypeError,
        "values-scalar",
        "SubbyteReference.set: given values of shape (2,) for one element; "
        "required: one number; "
        "fix: write them one by one",
    ),
    (
        lambda: cute.pack([8], "s4"),
        DtypeError,
        "values-not-of",
        "pack: given 8; "
        "required: values that s4 holds; storing neither rounds nor clamps; "
        "fix: store convert(x, cute.s4), with the rounding",
    ),
    (
        lambda: cute.pack([0.5], "f16"),
        DtypeError,
        "values-not-of",
        "given f64 values; required: values that f16 holds",
    ),
    (
        lambda: cute.pack([1.0], "s4"),
        DtypeError,
        "values-not-of",
        "given f64 values",
    ),
    (
        lambda: cute.pack(np.float32([1.0001]), "tf32"),
        DtypeError,
        "values-not-of",
        "values that tf32 holds",
    ),
    (
        lambda: cute.SubbyteReference(u2, 0, "u4").set(-1),
        DtypeError,
        "values-not-of",
        "SubbyteReference.set: given -1",
    ),
    (
        lambda: cute.pack([2], "b1"),
        DtypeError,
        "values-not-of",
        "values that b1 holds",
    ),
    (
        lambda: cute.decode([0.5], "f16"),
        LeafTypeError,
        "image-type",
        "decode: given bit images of NumPy dtype float64; "
        "required: integers; "
        "fix: pass x.view of an unsigned type, or encode values first",
    ),
    (
        lambda: cute.decode([3, 16], "s4"),
        DtypeError,
        "image-range",
        "decode: given the bit image 16; "
        "required: 0 to 15, the 4 bits of s4; "
        "fix: mask it with & 0xf",
    ),
    (
        lambda: cute.decode(-1, "f16"),
        DtypeError,
        "image-range",
        "given the bit image -1",
    ),
    (
        lambda: cute.pack([1], "s4", word_bits=12),
        DtypeError,
        "word-bits",
        "pack: given words of 12 bits; "
        "required: 8, 16 or 32 bits; "
        "fix: pack into 32-bit words and view them",
    ),
    (
        lambda: cute.unpack(np.zeros(2, np.int32), "s4"),
        DtypeError,
        "words-type",
        "unpack: given words of type int32, shape (2,); "
        "required: a one-dimensional array of uint8, uint16 or uint32; "
        "fix: use x.reshape(-1).view('uint32'), or make the words with pack",
    ),
    (
        lambda: cute.unpack(np.zeros((2, 2), np.uint32), "s4"),
        DtypeError,
        "words-type",
        "shape (2, 2)",
    ),
    (
        lambda: cute.SubbyteReference([1, 2], 0, "s4"),
        DtypeError,
        "words-type",
        "SubbyteReference: given words of type list",
    ),
    (
        lambda: cute.unpack(np.zeros(1, np.uint8), "e2m3"),
        DtypeError,
        "words-not-whole",
        "unpack: given 1 words of 8 bits; "
        "required: a whole number of e2m3 elements; "
        "fix: pass the count of elements, or add words up to a whole number of elements",
    ),
    (
        lambda: cute.unpack(np.zeros(1, np.uint16), "s4", 5),
        DtypeError,
        "words-too-few",
        "unpack: given 1 words of 16 bits, room for 4 elements of s4; "
        "required: at least 2 words for 5 elements; "
        "fix: pass count=4, or all the words",
    ),
    (
        lambda: cute.SubbyteReference(read_only, 0, "s4").set(1),
        DtypeError,
        "words-read-only",
        "SubbyteReference.set: given read-only words; "
        "required: writable words; "
        "fix: write to a copy",
    ),
    (
        lambda: cute.SubbyteReference(u2, 0, "e2m3"),
        DtypeError,
        "element-straddles",
        "SubbyteReference: given e2m3, 6 bits, in words of 16 bits; "
        "required: a width that divides the word's, so that no element straddles two words;"
        " "
        "fix: unpack, change and pack the whole array",
    ),
    (
        lambda: cute.SubbyteReference(u2, 0, "f32"),
        DtypeError,
        "element-straddles",
        "given f32, 32 bits",
    ),
    (
        lambda: cute.SubbyteReference(u2, 8, "s4"),
        CoordinateError,
        "element-index",
        "SubbyteReference: given element 8 of 8; "
        "required: an index from 0, below 8; "
        "fix: check the offset, which counts elements and not words",
    ),
    (
        lambda: cute.SubbyteReference(u2, -1, "s4"),
        CoordinateError,
        "element-index",
        "given element -1 of 8",
    ),
    (
        lambda: cute.SubbyteReference(u2, 1.0, "s4"),
        LeafTypeError,
        "count-type",
        "given 1.0 (float)",
    ),
    (
        lambda: cute.storage_bytes("s4", True),
        LeafTypeError,
        "count-type",
        "storage_bytes: given True (bool) as a number of elements; "
        "required: an int of at least 0; "
        "fix: pass len(x), or the size of the layout",
    ),
    (
        lambda: cute.storage_bytes("s4", -1),
        LeafTypeError,
        "count-type",
        "given -1 (negative)",
    ),
    (
        lambda: cute.unpack(u2, "s4", "3"),
        LeafTypeError,
        "count-type",
        "given '3' (str)",
    ),
    (
        lambda: cute.alignment_bytes("s4", 5),
        DtypeError,
        "alignment",
        "alignment_bytes: given 5 elements of s4, 3 bytes; "
        "required: a power of two of bytes, as vector accesses have; "
        "fix: split the vector into powers of two",
    ),
    (
        lambda: cute.alignment_bytes("void", 1),
        DtypeError,
        "alignment",
        "0 bytes",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "code", "text"),
    REFUSED,
    ids=[f"{row[2]}-{i}" for i, row in enumerate(REFUSED)],
)
def test_refusal_says_given_required_and_fix(call, kind, code, text):
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.code == code
    assert text in str(caught.value)


def test_every_wording_of_the_dtypes_is_tested():
    import cute_py.dtypes

    used = set()
    for file in (
        cute_py.dtypes.conversion,
        cute_py.dtypes.packing,
        cute_py.dtypes.rounding,
        cute_py.dtypes.table,
    ):
        text = Path(file.__file__).read_text()
        used |= {part.split('"')[1] for part in text.split("refusal(")[1:] if '"' in part}
    assert used == {row[2] for row in REFUSED}
