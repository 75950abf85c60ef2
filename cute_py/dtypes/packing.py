"""Packed storage: contiguous elements in words, low element first, and the resulting sizes.

Element i of a b-bit type has the bits from b*i up to b*(i + 1) of the storage, counted from bit 0
of word 0. Source: cutlass array.h, array_subbyte.h, subbyte_reference.h, aligned_buffer.h.
"""

from __future__ import annotations

from cute_py.dtypes.conversion import decode, encoded, read_values, storage
from cute_py.dtypes.rounding import padding
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex

    from numpy.typing import ArrayLike

    from cute_py.dtypes.table import Array, Dtype, DtypeLike

WORD_BITS = (8, 16, 32)
PACKED = (1, 2, 4)  # the widths of elements that fill each byte of memory without gaps


def sizeof_bits(dtype: DtypeLike) -> int:
    """Return the width of one element (bits); 0 for void.

    >>> [sizeof_bits(t) for t in ("f16", "tf32", "s4", "b1", "void")]
    [16, 32, 4, 1, 0]
    """
    return as_dtype(dtype).bits


def storage_bytes(dtype: DtypeLike, count: SupportsIndex) -> int:
    """Return the size of `count` packed elements in whole bytes, rounded up.

    This is sizeof(Array) and AlignedBuffer::kBytes of CUTLASS.

    >>> storage_bytes("s4", 8), storage_bytes("s4", 1), storage_bytes("f16", 1024)
    (4, 1, 2048)
    """
    return (as_dtype(dtype).bits * _count(count, "storage_bytes") + 7) // 8


def alignment_bytes(dtype: DtypeLike, count: SupportsIndex) -> int:
    """Return the default alignment of an AlignedArray (bytes): its size, for one vector access.

    Raises:
        DtypeError: the size is not a power of two.

    Source: cutlass array.h `AlignedArray`.

    >>> alignment_bytes("f16", 8), alignment_bytes("s4", 32)
    (16, 16)
    """
    size = storage_bytes(dtype, count)
    if size <= 0 or size & (size - 1):
        raise refusal(
            "alignment", operation="alignment_bytes", count=count, dtype=as_dtype(dtype), size=size
        )
    return size


def predicate_storage(count: SupportsIndex, per_byte: SupportsIndex = 4) -> tuple[int, int]:
    """Return the (bytes, 32-bit words) of a PredicateVector of `count`, `per_byte` per byte.

    >>> predicate_storage(17)
    (5, 2)
    """
    size = -(_count(count, "predicate_storage") // -max(_count(per_byte, "predicate_storage"), 1))
    return size, -(size // -4)


def pack(values: ArrayLike, dtype: DtypeLike, word_bits: int = 8) -> Array:
    """Return the words with the packed values, low element first, padded with zeros.

    Args:
        values: one-dimensional; values of dtype, as `convert` returns them. Integer types accept
            all integers in range, b1 also 0 and 1.
        dtype: the element type.
        word_bits: 8, 16 or 32: the words are uint8, uint16 or uint32.

    Law: unpack(pack(values, dtype), dtype, len(values)) == values.
    Raises DtypeError for values that are not of dtype and for other word sizes, LeafTypeError for
    anything but numbers.

    >>> hex(pack(range(8), "s4", word_bits=32)[0])
    '0x76543210'
    """
    import numpy as np

    row = as_dtype(dtype)
    if word_bits not in WORD_BITS:
        raise refusal("word-bits", operation="pack", value=word_bits)
    image = exact_image(values, row, "pack")
    if image.ndim != 1:
        raise refusal("values-shape", operation="pack", shape=image.shape)
    data = image.astype(image.dtype.newbyteorder("<")).view(np.uint8)
    if row.bits % 8:
        data = data.reshape(image.size, image.itemsize)
        bits = np.unpackbits(data, axis=1, count=row.bits, bitorder="little")
        data = np.packbits(bits.reshape(-1), bitorder="little")
    size = word_bits // 8
    filled = np.zeros(-(data.size // -size) * size, np.uint8)
    filled[: data.size] = data
    return filled.view(f"<u{size}").astype(f"u{size}")


def unpack(words: Array, dtype: DtypeLike, count: SupportsIndex | None = None) -> Array:
    """Return `count` values that are packed in words, low element first.

    Args:
        words: one-dimensional array of uint8, uint16 or uint32, or one such NumPy scalar.
        dtype: the element type.
        count: the number of elements; by default all, which must fill the words exactly.

    Raises:
        DtypeError: other words, too few words for count, or, without count, a partial element at
            the end.

    >>> import numpy as np
    >>> unpack(np.uint32(0x76543210), "s4")
    array([0, 1, 2, 3, 4, 5, 6, 7], dtype=int8)
    """
    import numpy as np

    row = as_dtype(dtype)
    words = _words(np.atleast_1d(words), "unpack")
    word_bits, capacity = words.itemsize * 8, words.size * words.itemsize * 8
    if row.kind == "void":
        raise refusal("dtype-void", operation="unpack")
    if count is None and capacity % row.bits:
        raise refusal(
            "words-not-whole", operation="unpack", words=words.size, word_bits=word_bits, to=row
        )
    n = capacity // row.bits if count is None else _count(count, "unpack")
    if n * row.bits > capacity:
        raise refusal(
            "words-too-few",
            operation="unpack",
            words=words.size,
            word_bits=word_bits,
            holds=capacity // row.bits,
            count=n,
            to=row,
            need=-(n * row.bits // -word_bits),
        )
    data = words.astype(words.dtype.newbyteorder("<")).view(np.uint8)
    if row.bits % 8:
        bits = np.unpackbits(data, count=n * row.bits, bitorder="little").reshape(n, row.bits)
        data = np.packbits(bits, axis=1, bitorder="little").reshape(-1)
    image = data[: n * storage(row).itemsize].view(storage(row).newbyteorder("<"))
    return np.asarray(decode(image, row))


class SubbyteReference:
    """A reference to an element packed in an array of words: `get` reads it, `set` writes it.

    `set` reads the word, replaces the bits under the mask and writes the word back. Two threads
    that write to one word race, so device code stores whole words only.

    Args:
        words: one-dimensional array of uint8, uint16 or uint32 (CUTLASS: uint16).
        index: the index of the element, from 0.
        dtype: the element type; its width divides the word's.

    Raises CoordinateError for an index outside the words; DtypeError for other words and widths.
    Source: cutlass subbyte_reference.h.

    >>> import numpy as np
    >>> words = np.array([0x3210, 0x7654], np.uint16)
    >>> five = SubbyteReference(words, 5, "s4")
    >>> five.get(), five.set(-1), [hex(word) for word in words], five.get()
    (5, None, ['0x3210', '0x76f4'], -1)
    """

    __slots__ = ("dtype", "index", "mask", "shift", "word", "words")

    def __init__(self, words: Array, index: SupportsIndex, dtype: DtypeLike) -> None:
        row = as_dtype(dtype)
        word_bits = _words(words, "SubbyteReference").itemsize * 8
        if not row.bits or word_bits % row.bits:
            raise refusal(
                "element-straddles",
                operation="SubbyteReference",
                to=row,
                bits=row.bits,
                word_bits=word_bits,
            )
        per_word = word_bits // row.bits
        place = _integer(index, "SubbyteReference")
        if not 0 <= place < words.size * per_word:
            raise refusal(
                "element-index",
                operation="SubbyteReference",
                index=place,
                size=words.size * per_word,
            )
        self.words = words
        self.dtype: Dtype = row
        self.index = place
        self.word = place // per_word
        self.shift = place % per_word * row.bits
        self.mask = (1 << row.bits) - 1

    def __repr__(self) -> str:
        """Return the value and its position as text."""
        return f"<{self.dtype} {self.get()!r} at bit {self.shift} of word {self.word}>"

    def get(self) -> Any:  # int, bool or float, by the dtype
        """Return the value, as a Python number."""
        value = decode((int(self.words[self.word]) >> self.shift) & self.mask, self.dtype)
        return float(value) if self.dtype.is_float else value.item()

    def set(self, value: ArrayLike) -> None:
        """Store one value of the dtype; the rest of the word does not change.

        Raises:
            DtypeError: the value is not a value of the dtype (convert it first), or the words are
                read-only.

        """
        import numpy as np

        if not self.words.flags.writeable:
            raise refusal("words-read-only", operation="SubbyteReference.set")
        image = exact_image(np.asarray(value), self.dtype, "SubbyteReference.set")
        if image.ndim:
            raise refusal("values-scalar", operation="SubbyteReference.set", shape=image.shape)
        rest = int(self.words[self.word]) & ~(self.mask << self.shift)
        self.words[self.word] = rest | int(image) << self.shift


def exact_image(values: ArrayLike, row: Dtype, operation: str) -> Array:
    """Return the bit images of values of `row`; refuse a value that would be rounded."""
    import numpy as np

    array, source = read_values(values, operation)
    if not array.size:
        return np.empty(array.shape, storage(row))
    if (array.dtype != row.numpy) if row.is_float else source.is_float:
        raise refusal("values-not-of", operation=operation, value=f"{source} values", to=row)
    for end in () if row.is_float else (array.min(), array.max()):
        if not row.min <= end <= row.max:
            raise refusal("values-not-of", operation=operation, value=int(end), to=row)
    image = np.asarray(encoded(array, row, "to_nearest", False, operation))
    if padding(row) and np.any(image != array.view(image.dtype)):
        raise refusal("values-not-of", operation=operation, value="f32 values", to=row)
    return image


def _words(words: object, operation: str) -> Array:
    import numpy as np

    if isinstance(words, np.ndarray):
        if words.ndim == 1 and words.dtype in (np.uint8, np.uint16, np.uint32):
            return words
        given = f"{words.dtype}, shape {words.shape}"
    else:
        given = type(words).__name__
    raise refusal("words-type", operation=operation, given=given)


def _integer(x: SupportsIndex, operation: str) -> int:
    """Return x as an int; refuse bool, float and text."""
    from operator import index

    if type(x).__name__ not in ("bool", "bool_") and hasattr(x, "__index__"):
        return index(x)
    raise refusal("count-type", operation=operation, value=x)


def _count(x: SupportsIndex, operation: str) -> int:
    n = _integer(x, operation)
    if n < 0:
        raise refusal("count-type", operation=operation, value=n, type="negative")
    return n
