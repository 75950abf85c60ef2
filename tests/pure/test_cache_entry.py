"""A file of the cache is what was written, or it is told from it."""

from hypothesis import given
from hypothesis import strategies as st

from cute_py.codegen.cache.entry import MAGIC, pack, unpack

KEY = "0123abcd"
PARTS = {"ptx": "ret;  // \N{MICRO SIGN}", "cubin": bytes(range(40)), "resources": {"registers": 8}}

texts = st.text(st.characters(), max_size=20)
numbers = st.dictionaries(texts, st.integers(), max_size=3)
parts = st.dictionaries(texts, texts | st.binary(max_size=40) | numbers, max_size=4)


@given(texts, parts)
def test_unpack_inverts_pack(key, given_):
    assert unpack(key, pack(key, given_)) == given_


def test_each_flip_of_a_bit_is_told():
    data = pack(KEY, PARTS)
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            assert unpack(KEY, bytes(changed)) is None, (place, bit)


@given(texts, parts, st.data())
def test_each_change_of_a_byte_is_told(key, given_, data):
    packed = bytearray(pack(key, given_))
    place = data.draw(st.integers(0, len(packed) - 1))
    packed[place] ^= data.draw(st.integers(1, 255))
    assert unpack(key, bytes(packed)) is None


def test_each_truncation_is_told():
    data = pack(KEY, PARTS)
    assert [unpack(KEY, data[:size]) for size in range(len(data))] == [None] * len(data)


@given(st.binary(min_size=1, max_size=40))
def test_what_is_appended_is_told(more):
    assert unpack(KEY, pack(KEY, PARTS) + more) is None


@given(st.binary(max_size=100))
def test_other_data_is_told(data):
    assert unpack(KEY, data) is None
    assert unpack(KEY, MAGIC + data) is None


@given(st.binary(max_size=100), st.integers(0, 100))
def test_a_head_that_was_not_written_here_is_told(head, length):
    """Even where the hash is right."""
    from hashlib import sha256

    for body in (length.to_bytes(8, "big") + head, len(head).to_bytes(8, "big") + head):
        assert unpack(KEY, MAGIC + sha256(body).digest() + body) is None


@given(st.recursive(st.none() | st.integers() | texts, lambda x: st.lists(x, max_size=4)))
def test_odd_lists_of_parts_are_told(listed):
    import json
    from hashlib import sha256

    head = json.dumps({"key": KEY, "parts": listed}).encode()
    body = len(head).to_bytes(8, "big") + head + b"data"
    assert unpack(KEY, MAGIC + sha256(body).digest() + body) is None


def test_the_entry_of_another_key_is_told():
    assert unpack("another", pack(KEY, PARTS)) is None


def test_another_version_of_the_format_is_told():
    data = pack(KEY, PARTS)
    assert unpack(KEY, data.replace(b"kernel 1\n", b"kernel 2\n", 1)) is None
