"""Packed sub-byte tensors, addressed by bit, and recast: the same bits in other elements.

The model is one big integer: the words of the memory, little-endian, bit 0 of word 0 first.
"""

from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, _, make_tensor
from tests.strategies import coordinates_of, layouts, negative_layouts, slices_of

SUBBYTE = ["s4", "u4", "s2", "u2", "b1", "e2m1"]
WORDS = [np.uint8, np.uint16, np.uint32]


def image_of(words):
    """Return the memory as one integer."""
    return int.from_bytes(words.astype(words.dtype.newbyteorder("<")).tobytes(), "little")


def field(image, index, bits):
    return image >> index * bits & (1 << bits) - 1


def random_words(seed, kind, count):
    return np.random.default_rng(seed).integers(0, np.iinfo(kind).max, count, kind, endpoint=True)


def values_of(row):
    """Return every value of a dtype, by bit image."""
    return [cute.decode(i, row) for i in range(1 << row.bits)]


packed = st.builds(
    lambda name, kind, seed, layout: (cute.dtype(name), kind, seed, layout),
    st.sampled_from(SUBBYTE),
    st.sampled_from(WORDS),
    st.integers(0, 99),
    layouts(max_size=64),
)


def packed_tensor(row, kind, seed, layout):
    """Return words at random and the tensor over them."""
    count = -(-cute.cosize(layout) * row.bits // (8 * np.dtype(kind).itemsize))
    words = random_words(seed, kind, count)
    return words, make_tensor(words, layout, row)


@given(packed, st.data())
def test_packed_element_is_the_field_of_bits_at_its_offset(case, data):
    row, layout = case[0], case[3]
    words, tensor = packed_tensor(*case)
    coord = data.draw(coordinates_of(layout.shape))
    expected = cute.decode(field(image_of(words), layout(coord), row.bits), row)
    assert tensor[coord] == expected
    assert tensor.dtype is row
    table = tensor.to_numpy()
    assert table.dtype == row.numpy
    flat = table.ravel(order="F")
    assert [float(v) for v in flat] == [float(tensor[i]) for i in range(cute.size(layout))]


@given(packed, st.data())
def test_packed_write_changes_the_bits_of_the_element_alone(case, data):
    """A14: set is read-modify-write under the mask."""
    row, layout = case[0], case[3]
    words, tensor = packed_tensor(*case)
    before = image_of(words)
    coord = data.draw(coordinates_of(layout.shape))
    image = data.draw(st.integers(0, (1 << row.bits) - 1))
    tensor[coord] = values_of(row)[image]
    at = layout(coord) * row.bits
    mask = ((1 << row.bits) - 1) << at
    assert image_of(words) == before & ~mask | image << at
    assert tensor[coord] == values_of(row)[image]


@given(packed, st.data())
def test_packed_slice_may_begin_inside_of_a_word(case, data):
    row, layout = case[0], case[3]
    words, tensor = packed_tensor(*case)
    before = image_of(words)
    coord = data.draw(slices_of(layout.shape))
    assume(cute.layout.tuples.has_underscore(coord))
    part = tensor[coord]
    sub, offset = cute.slice_and_offset(coord, layout)
    places = [offset + sub(i) for i in range(cute.size(sub))]
    assert part.to_numpy().ravel(order="F").tolist() == [
        cute.decode(field(before, place, row.bits), row) for place in places
    ]
    part.fill(1)
    one = int(cute.encode(1, row))
    for place in range(words.size * words.itemsize * 8 // row.bits):
        expected = one if place in places else field(before, place, row.bits)
        assert field(image_of(words), place, row.bits) == expected


@given(packed)
def test_packed_copy_stores_every_value(case):
    row, layout = case[0], case[3]
    assume(cute.is_injective(layout))
    words, tensor = packed_tensor(*case)
    before = image_of(words)
    shape = cute.product_each(layout.shape)
    images = np.random.default_rng(1).integers(0, 1 << row.bits, prod(shape))
    tensor.copy_(cute.decode(images, row).reshape(shape, order="F"))
    expected = dict(zip([layout(i) for i in range(cute.size(layout))], images, strict=True))
    for place in range(words.size * words.itemsize * 8 // row.bits):
        wanted = expected.get(place, field(before, place, row.bits))
        assert field(image_of(words), place, row.bits) == wanted


def test_element_5_of_s4_in_16_bit_words_is_bits_4_to_7_of_word_1():
    """The exact check of A14."""
    words = np.zeros(2, np.uint16)
    tensor = make_tensor(words, (8,), "s4")
    tensor[5] = -1
    assert [hex(word) for word in words] == ["0x0", "0xf0"]


def test_packed_words_bring_a_layout_along():
    tensor = make_tensor(np.array([0x21, 0x43], np.uint8), dtype="u4")
    assert str(tensor) == "host_ptr[4b](0) o 4:1"
    assert tensor.to_numpy().tolist() == [1, 2, 3, 4]


def test_packed_values_must_fit():
    tensor = cute.make_host_tensor((2, 3), "s4")
    for value in (8, -9, 0.5):
        with pytest.raises(cute.DtypeError, match="values that s4 holds"):
            tensor[0, 0] = value
    assert image_of(tensor.data.memory) == 0
    with pytest.raises(cute.DtypeError, match="no element straddles two words"):
        cute.make_host_tensor((2, 3), "e3m2")


@pytest.mark.parametrize(
    ("name", "capacity", "size"), [("s4", 7, 4), ("b1", 9, 2), ("u2", 5, 2), ("f32", 12288, 49152)]
)
def test_host_tensor_has_whole_bytes(name, capacity, size):
    """D03: s4 capacity 7 has 4 storage bytes; f32 128x96 has 12,288 elements."""
    assert cute.make_host_tensor(capacity, name).data.memory.nbytes == size


# -- recast


UNSIGNED = ["b1", "u2", "u4", "u8", "u16", "u32", "u64"]


def recast_or_none(tensor, row):
    """Return the recast tensor, or None where the layout does not admit it."""
    try:
        return cute.recast(tensor, row)
    except cute.LayoutError as refused:
        if refused.code in ("upcast-stride", "upcast-overlap", "downcast-unit", "recast-origin"):
            return None
        raise


@given(
    st.sampled_from(UNSIGNED),
    st.sampled_from(UNSIGNED),
    negative_layouts(max_size=32),
    st.integers(0, 99),
)
@example("u2", "b1", Layout(1, -1), 0)
@example("u8", "u4", Layout((1, 4), (1, 1)), 0)
@example("u8", "u16", Layout((3, 2), (-1, 4)), 0)
def test_recast_reads_the_same_bits(old, new, layout, seed):
    """The bits of the new elements cover those of the old ones; smaller ones cover no other."""
    old_row, new_row = cute.dtype(old), cute.dtype(new)
    octets = random_words(seed, np.uint8, 1 << 16)
    memory = np.unpackbits(octets, bitorder="little").tolist()
    start = len(memory) // 2 // old_row.bits
    tensor = cute.Tensor(cute.recast(make_tensor(octets), old_row).data.moved(start), layout)
    result = recast_or_none(tensor, new_row)
    if result is None:
        return
    bits = {
        (start + layout(i)) * old_row.bits + b
        for i in range(cute.size(layout))
        for b in range(old_row.bits)
    }
    reached = set()
    for i in range(cute.size(result)):
        at = (result.engine.offset + result.layout(i)) * new_row.bits
        reached |= set(range(at, at + new_row.bits))
        assert result[i] == sum(memory[at + b] << b for b in range(new_row.bits))
    assert bits <= reached
    if new_row.bits < old_row.bits:
        assert bits == reached


@pytest.mark.parametrize("name", ["u16", "u4", "u64"])
def test_recast_of_a_reversed_array(name):
    """A stride that runs backwards begins with the last part of the memory."""
    array = np.arange(32, dtype=np.uint32)
    tensor = cute.recast(make_tensor(array[::-1]), name)
    expected = cute.recast(make_tensor(array), name).to_numpy()[::-1]
    assert tensor.to_numpy().tolist() == expected.tolist()


def test_recast_shares_the_memory():
    array = np.zeros(4, np.uint32)
    tensor = make_tensor(array)
    cute.recast(tensor, "u8")[5] = 0xAB
    assert hex(array[1]) == "0xab00"
    cute.recast(tensor, "u4")[15] = 0xF
    assert hex(array[1]) == "0xf000ab00"
    cute.recast(cute.recast(tensor, "u4"), "f32")[2] = 1
    assert hex(array[2]) == "0x3f800000"
    assert cute.recast(tensor, "s32")[1] == -(0x10000000 - 0xAB00)


def test_recast_of_a_part_keeps_its_origin():
    array = np.arange(16, dtype=np.uint8)
    rows = make_tensor(array, Layout((4, 4), (4, 1)))
    assert cute.recast(rows[2, _], "u16").to_numpy().tolist() == [0x0908, 0x0B0A]
    assert cute.recast(rows[2, _], "u4").to_numpy().tolist() == [8, 0, 9, 0, 10, 0, 11, 0]
    with pytest.raises(cute.LayoutError, match="begin at element 9 of the memory"):
        cute.recast(make_tensor(array, (8,)).domain_offset(9), "u16")


def test_recast_of_device_memory_moves_the_address():
    tensor = make_tensor(cute.make_ptr("f16", 0x1000), Layout((64, 8), (1, 64)))[_, 2]
    assert str(cute.recast(tensor, "f32")) == "gmem_ptr[32b](0x1100) o (32):(1)"
    assert str(cute.recast(tensor, "u4")) == "subptr[4b](0x1100.0) o (256):(1)"
    memory = make_tensor(cute.Memory("sA", "f16", 64), (64,))
    assert cute.recast(memory, "u64").data == cute.Memory("sA", "u64", 16)
    assert cute.recast(memory, "f16") == memory


def test_recast_of_a_swizzled_tensor_is_the_recast_of_its_layout():
    layout = cute.make_composed_layout(cute.Swizzle(2, 3, 3), 0, Layout((8, 32), (32, 1)))
    array = np.arange(256, dtype=np.uint16).reshape(8, 32)
    tensor = cute.make_host_tensor(layout, "u16", array)
    wide = cute.recast(tensor, "u32")
    assert wide.layout == cute.recast_layout(layout, 16, 32)
    assert np.array_equal(wide.to_numpy(), array[:, ::2] + (array[:, 1::2].astype(np.uint32) << 16))


def test_unpacked_elements_are_read_and_not_recast():
    for array in (np.array([True, False]), np.array([1, -2], ml_dtypes.int4)):
        tensor = make_tensor(array)
        assert tensor.to_numpy().tolist() == array.tolist()
        with pytest.raises(cute.DtypeError, match="that take a byte each"):
            cute.recast(tensor, "u8")
