"""Packed storage. A05-A09, A14 and A18 are rows of the requirements table."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py.dtypes as cute

PACKABLE = [row for row in cute.DTYPES if row not in (cute.void, cute.ue8m0)]
PACKABLE += [cute.int_type(bits, signed) for bits in (1, 3, 5, 6, 7) for signed in (True, False)]


def as_integer(words):
    """Return the words as one integer, word 0 lowest."""
    return sum(int(word) << i * words.itemsize * 8 for i, word in enumerate(words))


def values_of(row, images):
    """Return values with these images, tf32's unused bits dropped."""
    return cute.decode([image & (0xFFFFE000 if row is cute.tf32 else -1) for image in images], row)


def test_a07_array_of_8_s4_is_one_word():
    words = cute.pack(range(8), "s4", word_bits=32)
    assert [hex(word) for word in words] == ["0x76543210"]
    assert words.dtype == np.uint32
    assert cute.pack(range(8), "s4").tolist() == [0x10, 0x32, 0x54, 0x76]


def test_a07_sizeof_array_rounds_up_to_bytes():
    assert cute.storage_bytes("s4", 1) == 1
    for row in PACKABLE:
        for count in range(20):
            assert cute.storage_bytes(row, count) == -(-row.bits * count // 8)
            assert cute.pack(values_of(row, [0] * count), row).nbytes == cute.storage_bytes(
                row, count
            )


def test_a05_bit_i_of_the_word_is_element_i():
    for i in range(32):
        bits = np.zeros(32, bool)
        bits[i] = True
        assert cute.pack(bits, "b1", word_bits=32).tolist() == [1 << i]


@pytest.mark.parametrize("word_bits", [8, 16, 32])
def test_a05_4096_random_bits_survive(word_bits):
    bits = np.random.default_rng(5).integers(0, 2, 4096).astype(bool)
    words = cute.pack(bits, "b1", word_bits)
    assert words.size == 4096 // word_bits
    np.testing.assert_array_equal(cute.unpack(words, "b1"), bits)


def test_s4_and_u4_pack_as_the_low_nibbles_of_ml_dtypes():
    x = np.random.default_rng(4).integers(-8, 8, 1000).astype(np.int8)
    for row, peer in ((cute.s4, ml_dtypes.int4), (cute.u4, ml_dtypes.uint4)):
        nibbles = x.astype(peer).view(np.uint8) & 0xF
        want = nibbles[::2] | nibbles[1::2] << 4
        np.testing.assert_array_equal(cute.pack(cute.convert(x, row), row), want)


@given(data=st.data(), row=st.sampled_from(PACKABLE), word_bits=st.sampled_from([8, 16, 32]))
def test_element_i_takes_the_bits_from_i_times_its_width(data, row, word_bits):
    images = data.draw(st.lists(st.integers(0, (1 << row.bits) - 1), max_size=40))
    values = values_of(row, images)
    images = cute.encode(values, row).tolist()
    if (
        row is cute.tf32
    ):  # the one type whose NaN is not stored as it came: it has no dtype of its own
        values = cute.convert(values, row)
        images = cute.encode(values, row).tolist()
    words = cute.pack(values, row, word_bits)
    assert words.dtype == f"u{word_bits // 8}"
    assert words.size == -(-row.bits * len(images) // word_bits)
    assert as_integer(words) == sum(image << i * row.bits for i, image in enumerate(images))
    back = cute.unpack(words, row, len(images))
    assert back.dtype == values.dtype
    assert cute.encode(back, row).tolist() == images


def test_unpack_without_a_count_reads_all_that_the_words_hold():
    assert cute.unpack(np.array([0x3210, 0x7654], np.uint16), "u4").tolist() == [*range(8)]
    assert cute.unpack(np.uint32(0xF0), "s4").tolist() == [0, -1, 0, 0, 0, 0, 0, 0]
    assert cute.unpack(np.zeros(3, np.uint8), "e2m3").size == 4


def test_unpack_reads_strided_words():
    words = np.array([0x10, 0xAA, 0x32, 0xAA], np.uint8)[::2]
    assert cute.unpack(words, "s4").tolist() == [0, 1, 2, 3]


def test_packing_leaves_its_input_untouched():
    x = np.arange(8, dtype=np.int8)
    words = cute.pack(x, "s8", 32)
    words[:] = 0
    assert x.tolist() == [*range(8)]
    values = cute.unpack(words, "u8")
    values[:] = 1
    assert words.tolist() == [0, 0]


def test_a14_writing_element_5_changes_only_bits_4_to_7_of_word_1():
    for old in range(16):
        words = np.array([0xFFFF, 0xA50C | old << 4, 0x1234], np.uint16)
        before = words.copy()
        reference = cute.SubbyteReference(words, 5, "s4")
        assert (reference.word, reference.shift, reference.mask) == (1, 4, 0xF)
        reference.set(-3)
        assert ((words ^ before) & ~np.array([0, 0x00F0, 0], np.uint16)).tolist() == [0, 0, 0]
        assert (words[1] >> 4 & 0xF, reference.get()) == (0xD, -3)


@given(
    data=st.data(),
    row=st.sampled_from(
        [cute.s4, cute.u4, cute.s2, cute.u2, cute.b1, cute.s8, cute.e2m1, cute.e4m3]
    ),
    word_bits=st.sampled_from([8, 16, 32]),
)
def test_a14_get_and_set_agree_with_unpack_and_pack(data, row, word_bits):
    per_word = word_bits // row.bits
    words = data.draw(st.lists(st.integers(0, (1 << word_bits) - 1), min_size=1, max_size=4))
    words = np.array(words, f"u{word_bits // 8}")
    index = data.draw(st.integers(0, words.size * per_word - 1))
    value = values_of(row, [data.draw(st.integers(0, (1 << row.bits) - 1))])[0]
    images = [
        as_integer(words) >> i * row.bits & ((1 << row.bits) - 1)
        for i in range(words.size * per_word)
    ]
    reference = cute.SubbyteReference(words, index, row)
    np.testing.assert_equal(
        reference.get(),
        cute.unpack(words, row)[index].item()
        if not row.is_float
        else float(cute.unpack(words, row)[index]),
    )
    reference.set(value)
    images[index] = int(cute.encode(value, row))
    assert as_integer(words) == sum(image << i * row.bits for i, image in enumerate(images))


def test_a14_reads_sign_extended_python_numbers():
    words = np.array([0x8F70], np.uint16)
    got = [cute.SubbyteReference(words, i, "s4").get() for i in range(4)]
    assert got == [0, 7, -1, -8]
    assert {type(value) for value in got} == {int}
    assert cute.SubbyteReference(words, 15, "b1").get() is True
    assert cute.SubbyteReference(words, 2, "e2m1").get() == -6.0
    assert repr(cute.SubbyteReference(words, 3, "s4")) == "<s4 -8 at bit 12 of word 0>"


def test_a08_default_alignment_is_the_vector_access():
    assert cute.alignment_bytes("f16", 8) == 16
    assert cute.alignment_bytes("s4", 32) == 16
    assert cute.alignment_bytes("b1", 1) == 1


def test_a09_buffer_bytes():
    assert cute.storage_bytes("f16", 1024) == 2048


def test_a18_predicate_vector_bytes_and_words():
    assert cute.predicate_storage(17) == (5, 2)
    assert cute.predicate_storage(16) == (4, 1)
    assert cute.predicate_storage(9, per_byte=8) == (2, 1)
