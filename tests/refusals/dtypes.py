"""Refusals of dtypes, conversions and packed words."""

import numpy as np

import cute_py.dtypes as cute

u2 = np.zeros(2, np.uint16)
read_only = np.zeros(2, np.uint16)
read_only.flags.writeable = False

ROWS = """
dtype-unknown: a dtype does not exist
    - cute.dtype("flot16")
    - cute.dtype("f4")  # fix: say f32: NumPy's codes count bytes, these names bits
    - cute.dtype("float")  # given 'float' (str)
    - cute.dtype(True)  # given True (bool) as a dtype
    - cute.dtype(float)  # fix: a Python type has no width: say f32 or f64
    - cute.dtype(None)  # given None (NoneType)
    - cute.dtype(16)  # fix: say one of f64, f32, tf32, f16, bf16
    - cute.dtype("u4b")  # given 'u4b' (str)
    - cute.convert(1, "F-16")  # given 'F-16' (str)
    + cute.dtype("float16")
dtype-numpy: a NumPy dtype has no equivalent
    - cute.from_numpy(np.complex64)
    - cute.from_numpy(np.dtype(np.float32).newbyteorder())  # native byte order
    - cute.from_numpy(None)  # given NumPy's None
    - cute.from_numpy("nonsense")  # given NumPy's 'nonsense'
    + cute.from_numpy(np.float32)
dtype-width: there is no integer type of that width
    - cute.int_type(12)
    - cute.int_type(128)  # fix: use one of these widths
    - cute.int_type(True)  # an integer type of True bits
    - cute.dtype("s12")  # an integer type of 12 bits
    + cute.int_type(16)
dtype-promise: no integer satisfies the promises of an annotation, `cute.s32(min=1)`
    - cute.s32(min=9, max=15, multiple_of=8)
    + cute.s32(min=9, max=16, multiple_of=8)
dtype-void: values of type `void` are requested
    - cute.void.numpy
    - cute.convert(1, "void")  # convert: given void
    - cute.decode(0, "void")  # decode: given void
    - cute.pack([0], "void")  # pack: given void
    - cute.unpack(u2, "void")  # unpack: given void
    + cute.u8.numpy
dtype-scale: a block scale is converted like a number
    - cute.convert(1.0, "ue8m0")
    - cute.encode(cute.decode([127], "ue8m0"), "f32")  # encode: given ue8m0
    + cute.decode([127], "ue8m0")
rounding-unknown: a rounding mode does not exist
    - cute.convert(1.0, "f16", "toward_zer")
    - cute.convert(1.0, "f16", 3)  # fix: leave it out: ties to even, and toward zero
    - cute.convert(1.0, "f16", True)  # given rounding True
    + cute.convert(1.0, "f16", "toward_zero")
values-type: values to convert are not real numbers
    - cute.convert("1.5", "f16")
    - cute.convert(1j, "f16")  # dtype complex128
    - cute.convert(None, "f16")  # dtype object
    - cute.convert([1 << 70], "f16")  # dtype object
    + cute.convert(1.5, "f16")
values-ragged: lists of different lengths are nested
    - cute.convert([1, [2, 3]], "f16")
    + cute.convert([[1, 1], [2, 3]], "f16")
values-mixed: NumPy would round an integer of a mixed list
    - cute.convert([0.5, (1 << 53) + 1], "f64")
    - cute.convert([(1 << 63) + 1, -1], "f32")  # the integer 9223372036854775809
    + cute.convert([1, (1 << 53) + 1], "f64")
values-shape: packed values have more than one dimension
    - cute.pack([[1, 2], [3, 4]], "s4")
    + cute.pack([1, 2, 3, 4], "s4")
values-scalar: one element is given several values
    - cute.SubbyteReference(u2, 0, "s4").set([1, 2])
    + cute.SubbyteReference(u2, 0, "s4").set(1)
values-not-of: a value to store is not a value of the dtype
    - cute.pack([8], "s4")
    - cute.pack([0.5], "f16")  # given f64 values; required: values that f16 holds
    - cute.pack([1.0], "s4")  # given f64 values
    - cute.pack(np.float32([1.0001]), "tf32")  # values that tf32 holds
    - cute.SubbyteReference(u2, 0, "u4").set(-1)  # SubbyteReference.set: given -1
    - cute.pack([2], "b1")  # values that b1 holds
    + cute.pack([7], "s4")
image-type: bit images are not integers
    - cute.decode([0.5], "f16")
    + cute.decode([5], "f16")
image-range: a bit image has more bits than the dtype
    - cute.decode([3, 16], "s4")
    - cute.decode(-1, "f16")  # given the bit image -1
    + cute.decode([3, 15], "s4")
word-bits: there are no packed words of that width
    - cute.pack([1], "s4", word_bits=12)
    + cute.pack([1], "s4", word_bits=8)
words-type: packed words are not a one-dimensional unsigned array
    - cute.unpack(np.zeros(2, np.int32), "s4")
    - cute.unpack(np.zeros((2, 2), np.uint32), "s4")  # shape (2, 2)
    - cute.SubbyteReference([1, 2], 0, "s4")  # SubbyteReference: given words of type list
    + cute.unpack(np.zeros(2, np.uint32), "s4")
words-not-whole: words do not have a whole number of elements
    - cute.unpack(np.zeros(1, np.uint8), "e2m3")
    + cute.unpack(np.zeros(3, np.uint8), "e2m3")
words-too-few: there are too few words for the elements
    - cute.unpack(np.zeros(1, np.uint16), "s4", 5)
    + cute.unpack(np.zeros(1, np.uint16), "s4", 4)
words-read-only: packed words cannot be written
    - cute.SubbyteReference(read_only, 0, "s4").set(1)
    + cute.SubbyteReference(u2, 0, "s4").set(1)
element-straddles: elements of that width straddle words
    - cute.SubbyteReference(u2, 0, "e2m3")
    - cute.SubbyteReference(u2, 0, "f32")  # given f32, 32 bits
    + cute.SubbyteReference(u2, 0, "s4")
element-index: an index is outside the packed array
    - cute.SubbyteReference(u2, 8, "s4")
    - cute.SubbyteReference(u2, -1, "s4")  # given element -1 of 8
    + cute.SubbyteReference(u2, 7, "s4")
count-type: a number of elements is not a nonnegative int
    - cute.SubbyteReference(u2, 1.0, "s4")
    - cute.storage_bytes("s4", True)  # storage_bytes: given True (bool) as a number of elements;
        required: an int of at least 0; fix: pass len(x), or the size of the layout
    - cute.storage_bytes("s4", -1)  # given -1 (negative)
    - cute.unpack(u2, "s4", "3")  # given '3' (str)
    + cute.SubbyteReference(u2, 1, "s4")
alignment: a vector access would not be a power of two of bytes
    - cute.alignment_bytes("s4", 5)
    - cute.alignment_bytes("void", 1)  # 0 bytes
    + cute.alignment_bytes("s4", 4)
"""
