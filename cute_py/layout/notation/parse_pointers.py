"""The prefix that tensors print before their layout, and the part of it that a layout needs.

    C++  gmem_ptr[32b](0x7f00)   smem_ptr[16b](unset)   Sw<3,4,3>_smem_ptr[16b](0x400)
         subptr[4b](0x7f00.4)    tmem_[32b](0x0000.0010)   counting_iter(0)   ArithTuple(_0,_0)
    DSL  ptr<f16, smem, align<1024>, S<3,4,3>>   raw_ptr(0x7f00: f32, gmem, align<4>)
         tensor<ptr<...> o layout>   tensor(raw_ptr(...) o layout, data=...
         !cute.memref<f16, smem, align<1024>, S<3,4,3>, "layout">   (its IR)

A pointer is dropped unless it is swizzled: then it maps bytes, and the layout needs the swizzle.
Source: cutlass include/cute/pointer*.hpp, container/array_subbyte.hpp; outputs of CuTe DSL.
"""

from __future__ import annotations

from cute_py.layout.algebra.recast import recast_layout
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.notation.parse_tokens import Token, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.notation.parse import Notation
    from cute_py.layout.notation.parse_tokens import Value
    from cute_py.layout.types import Alike, AnyLayout

_OPENING, _CLOSING = ("(", "[", "<"), (")", "]", ">")
_NAMES = ("ArithTuple", "gmem_", "smem_", "rmem_", "tmem_", "sparse", "smem_sparse", "subptr")
_DTYPES = ("f", "bf", "tf", "i", "si", "ui", "s", "u")


class Pointer:
    """The parts of a printed pointer that a layout needs: the element's width (bits), the address
    in bits (None if the text does not give it), its known alignment (bits), and the swizzle of byte
    addresses.
    """

    __slots__ = ("address", "alignment", "bits", "swizzle", "token")

    def __init__(
        self,
        token: Token,
        bits: int | None = None,
        address: int | None = None,
        alignment: int = 1,
        swizzle: Swizzle | None = None,
    ) -> None:
        """Record the attributes in the text at `token`."""
        self.token = token
        self.bits = bits
        self.address = address
        self.alignment = alignment
        self.swizzle = swizzle


def is_pointer_name(text: str, follower: str) -> bool:
    """Return whether a name before the sign `follower` begins a pointer."""
    base = text.rsplit("_", 1)[0] if _width(text) else text
    known = base.endswith(("ptr", "iter")) or base in _NAMES
    return known and follower in _OPENING


def read_pointer(notation: Notation, swizzle: Swizzle | None = None) -> Pointer:
    """Read a pointer: names and bracketed groups without blanks between them."""
    first = notation.token
    words = _group_or_word(notation)
    while notation.adjacent() and notation.token.kind in ("name", *_OPENING):
        words += _group_or_word(notation)
    return Pointer(
        first, _bits(words), _address(words), 8 * _alignment(words), swizzle or _swizzle(words)
    )


def read_tensor(notation: Notation) -> Alike:
    """Read `tensor<pointer o layout>` or `tensor(pointer o layout, data=...`."""
    notation.tensor = True
    notation.advance()
    notation.open()
    value = notation.chain()
    if notation.opened[-1].kind == "(" and notation.token.kind == ",":
        notation.opened.pop()
        notation.token = Token("=", "=", notation.token.start, notation.token.end)  # data follows
    else:
        notation.close()
    return value


def read_ir(notation: Notation) -> Alike:
    """Read `!cute.memref<f16, smem, align<16>, S<3,4,3>, "layout">` and its like."""
    first = notation.advance()
    notation.expect("name")
    while notation.accept("."):
        notation.expect("name")
    if notation.token.kind != "<":
        raise notation.fail("'<'")
    notation.open()
    words: list[Token] = []
    while notation.token.kind not in ("'\"'", '"', "end"):
        words += _group_or_word(notation)
    value = _quoted(notation)
    while notation.accept(","):
        value = _quoted(notation)
    notation.close()
    swizzle = _swizzle(words)
    if swizzle is None:
        return value
    pointer = Pointer(first, _bits(words), None, 8 * _alignment(words), swizzle)
    return swizzled(notation, pointer, swizzle, value)


def _quoted(notation: Notation) -> Value:
    notation.expect('"', "a layout in quotes")
    value = notation.chain()
    notation.expect('"')
    return value


def swizzled(notation: Notation, pointer: Pointer, outer: Value, layout: AnyLayout) -> Alike:
    """Return the swizzle of bytes at `pointer`, as a swizzle of the offsets of `layout` (elements).

    Offsets count from the last address before the pointer that is a multiple of the swizzle's
    period: address + bytes*x swizzles to that address + bytes*s(offset + x).
    """
    if outer.__class__ is not Swizzle:
        raise notation.fail("a swizzle before a pointer", pointer.token)
    if not pointer.bits:
        raise notation.refuse("text-pointer-width", pointer.token, swizzle=outer)
    period = 8 * outer.period
    start = pointer.address
    if start is None and pointer.alignment % period == 0:
        start = 0
    if start is None or start % period % pointer.bits:
        raise notation.refuse(
            "text-pointer-address", pointer.token, swizzle=outer, period=outer.period
        )
    elements = recast_layout(outer, 8, pointer.bits)
    return ComposedLayout(elements, start % period // pointer.bits, layout)


# -- the words of a pointer


def _group_or_word(notation: Notation) -> list[Token]:
    """Step over a word, or over a bracketed group, and return the words."""
    if notation.token.kind == "end":
        raise notation.fail("the rest of a pointer")
    if notation.token.kind not in _OPENING:
        return [notation.advance()]
    outside = len(notation.opened)
    words = [notation.open()]
    while len(notation.opened) > outside:
        kind = notation.token.kind
        if kind in _OPENING:
            words.append(notation.open())
        elif kind in _CLOSING or kind == "end":
            words.append(notation.close())
        else:
            words.append(notation.advance())
    return words


def _bits(words: list[Token]) -> int | None:
    """Return the width in `[16b]`, `ptr_16b`, or a dtype such as f16; sparse elements have none."""
    if any("sparse" in word.text for word in words):
        return None
    for word, after in zip(words, [*words[1:], None], strict=True):
        if word.kind == "number" and after is not None and after.text == "b":
            return number(word)
        if word.kind == "name" and (width := _width(word.text) or _dtype_width(word.text)):
            return width
    return None


def _width(name: str) -> int | None:
    """Return the width in a name such as raw_ptr_32b."""
    last = name.rsplit("_", 1)[-1]
    return int(last[:-1]) if last.endswith("b") and _short_number(last[:-1]) else None


def _dtype_width(name: str) -> int | None:
    """Return the width of f16, bf16, tf32, i8, f8E4M3FN: the digits after the first letters."""
    rest = name.lstrip("bfistu")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    known = name[: len(name) - len(rest)] in _DTYPES
    return int(digits) if known and _short_number(digits) else None


def _short_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 5


def _address(words: list[Token]) -> int | None:
    """Return the address in bits: `(0x7f00)`, `(0x7f00.4)` (and 4 bits), `(unset)`, `((nil))`."""
    for i, word in enumerate(words):
        if word.text in ("unset", "nil"):
            return 0
        if word.text.startswith("0x"):
            point, bit = words[i + 1 : i + 3] if len(words) > i + 2 else (word, word)
            within = number(bit) if point.kind == "." and bit.kind == "number" else 0
            return 8 * number(word) + within
    return None


def _alignment(words: list[Token]) -> int:
    """Return the bytes in `align<16>`."""
    for i, word in enumerate(words[:-2]):
        if word.text == "align" and words[i + 2].kind == "number":
            return number(words[i + 2])
    return 1


def _swizzle(words: list[Token]) -> Swizzle | None:
    """Return the swizzle `S<3,4,3>` among the attributes of a pointer."""
    for i, word in enumerate(words):
        if word.text in ("S", "Sw"):
            text = "".join([w.text for w in words[i + 2 : i + 9]]).split(">")[0]
            parts = [part.removeprefix("-") for part in text.split(",")]
            if len(parts) == 3 and all(_short_number(part) for part in parts):
                return Swizzle(*[int(part) for part in text.split(",")])
    return None
