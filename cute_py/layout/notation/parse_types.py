"""The names of C++ types as layouts: `Layout<Shape<_4,_8>, Stride<_8,_1>>`, as source code spells
them and as compilers print them, `cute::Layout<cute::tuple<cute::C<(int)4>, ...>, ...>`; and
printed maps of offsets.

Source: cutlass include/cute/layout.hpp, layout_composed.hpp, swizzle.hpp,
numeric/integral_constant.hpp, numeric/arithmetic_tuple.hpp; pycute swizzle.py `__str__`.
"""

from __future__ import annotations

from cute_py.layout.basis import ScaledBasis
from cute_py.layout.bits.f2 import F2Map
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.layout import Layout
from cute_py.layout.notation.parse_pointers import Pointer
from cute_py.layout.notation.parse_tokens import MAX_DIGITS, Token, number
from cute_py.layout.tuples import _, leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.layout.notation.parse import Notation
    from cute_py.layout.notation.parse_tokens import Value
    from cute_py.layout.types import IntTuple

_TUPLES = ("tuple", "Shape", "Stride", "Coord", "Step", "Tile", "ArithmeticTuple")
_CONSTANTS = ("C", "Int", "constant", "integral_constant")
_INTEGERS = (
    *("int", "unsigned", "signed", "long", "short", "char", "size_t", "ptrdiff_t"),
    *("int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t"),
)
_SUFFIXES = ("u", "l", "ul", "lu", "ll", "ull")
_EXPECTED = "Layout, ComposedLayout, Swizzle, tuple, Shape, Stride, C, Int, ScaledBasis, E or int"


def static_int(text: str) -> int | None:
    """Return the value of `_8`, None for any other name."""
    digits = text[1:] if text.startswith("_") and len(text) <= MAX_DIGITS else ""
    return int(digits) if digits.isascii() and digits.isdecimal() else None


def read_type(notation: Notation) -> Value:
    """Read a type: a layout, a swizzle, an int tuple or an integer, dynamic ones as new symbols."""
    value = _type(notation)
    if notation.token.kind == "{" and notation.adjacent():  # Layout<...>{}, a value of the type
        notation.open()
        notation.close()
    return value


def _type(notation: Notation) -> Value:
    name = _qualified(notation)
    if (value := static_int(name.text)) is not None:
        return value
    if name.text in ("_", "Underscore", "X"):
        return _
    if name.text in _INTEGERS:
        while notation.token.text in _INTEGERS:
            notation.advance()
        return notation.fresh()
    if name.text == "DescriptorIterator":
        notation.tensor = True
        return Pointer(name)
    build = _BUILDERS.get(name.text)
    if build is None:
        raise notation.fail(_EXPECTED, name)
    return build(notation, name)


def _qualified(notation: Notation) -> Token:
    """Read a name with its namespaces and return its last part."""
    while notation.token.text in ("struct", "class", "const"):
        notation.advance()
    name = notation.expect("name", _EXPECTED)
    while notation.accept("::"):
        name = notation.expect("name", _EXPECTED)
    return name


def _arguments(
    notation: Notation, read: Callable[[Notation], Value], first: Value = None
) -> list[Value]:
    """Read the arguments between < and >, the first one with `first` if that is given."""
    if notation.token.kind != "<":
        raise notation.fail("'<'")
    notation.open()
    values: list[Value] = []
    while notation.token.kind != ">":
        values.append((first or read)(notation))
        first = None
        if not notation.accept(","):
            break
    notation.close("',' or '>'")
    return values


def _count(notation: Notation, name: Token, values: list[Value], least: int, most: int) -> None:
    if not least <= len(values) <= most:
        counts = str(least) if least == most else f"{least} to {most}"
        raise notation.fail(f"{counts} arguments of {name.text}", name)


def _integer(notation: Notation) -> int:
    """Read `4`, `-4`, `4ul` or `(int)4`."""
    if notation.accept("("):
        while notation.token.kind == "name":
            notation.advance()
        notation.expect(")")
    negative = notation.accept("-")
    value = number(notation.expect("number", "a number"))
    if notation.adjacent() and notation.token.text.lower() in _SUFFIXES:
        notation.advance()
    return -value if negative else value


def _layout(notation: Notation, name: Token) -> Layout:
    def read(notation: Notation) -> Value:
        value = _type(notation)
        notation.least = 0  # what follows is the stride
        return value

    least = notation.least
    parts = _arguments(notation, read)
    notation.least = least
    _count(notation, name, parts, 1, 2)
    return Layout(*parts)


def _composed(notation: Notation, name: Token) -> Value:
    parts = _arguments(notation, _type)
    _count(notation, name, parts, 3, 3)
    return notation.composed(parts, name)


def _swizzle(notation: Notation, name: Token) -> Swizzle:
    parts = _arguments(notation, _integer)
    _count(notation, name, parts, 2, 3)
    return Swizzle(*parts, *parts[: 3 - len(parts)])  # the shift is B if it is left out


def _tuple(notation: Notation, name: Token) -> tuple[Value, ...]:
    return tuple(_arguments(notation, _type))


def _constant(notation: Notation, name: Token) -> int:
    """Read `C<4>`, `Int<4>` or `integral_constant<int, 4>`."""

    def value_type(notation: Notation) -> Value:
        if notation.token.kind != "name":
            return _integer(notation)
        while notation.token.kind == "name":
            notation.advance()
        return None

    values = _arguments(notation, _integer, value_type)
    _count(notation, name, values, 1, 2)
    if values[-1] is None:
        raise notation.fail("a number", name)
    return int(values[-1])


def _scaled_basis(notation: Notation, name: Token) -> ScaledBasis:
    value, *path = _arguments(notation, _integer, _type) or [None]
    _count(notation, name, path, 0 if value is None else 1, 64)
    return ScaledBasis(value, tuple(path))


def _unit_basis(notation: Notation, name: Token) -> ScaledBasis:
    return ScaledBasis(1, tuple(_arguments(notation, _integer)))


def _flag(notation: Notation, name: Token) -> Pointer:
    """Read `smem_ptr_flag_bits<16>`, the pointer to come of a swizzled layout."""
    bits = _arguments(notation, _integer) if notation.token.kind == "<" else [1]
    _count(notation, name, bits, 1, 1)
    return Pointer(name, bits=bits[0], address=0)


_BUILDERS: dict[str, Callable[[Notation, Token], Value]] = {
    "Layout": _layout,
    "ComposedLayout": _composed,
    "Swizzle": _swizzle,
    "ScaledBasis": _scaled_basis,
    "E": _unit_basis,
    "smem_ptr_flag_bits": _flag,
    "smem_ptr_flag": _flag,
    **dict.fromkeys(_TUPLES, _tuple),
    **dict.fromkeys(_CONSTANTS, _constant),
}


# -- maps of offsets: `Sw<3,4,3>` of CuTe, `SW_3_4_3` of pycute, and what this project prints of
# maps over F2, `F2[3x3: 1,3,6]` and `(2,4):F2((1),(3,6))^5`


def read_swizzle(notation: Notation) -> Swizzle:
    """Read `Sw<3,4,3>` or `S<3,4,-3>`."""
    notation.advance()
    notation.open()
    parameters = [_signed(notation)]
    while len(parameters) < 3:
        notation.expect(",")
        parameters.append(_signed(notation))
    notation.close()
    return Swizzle(*parameters)


def _signed(notation: Notation) -> int:
    negative = notation.accept("-")
    value = number(notation.expect("number", "a number"))
    return -value if negative else value


def read_pycute_swizzle(notation: Notation) -> Swizzle:
    """Read `SW_3_4_3`; a negative shift comes in pieces, `SW_3_4_` and `-3`."""
    name = notation.advance()
    *parts, last = name.text.split("_")[1:]
    sign = 1
    if not last and notation.adjacent() and notation.accept("-"):
        sign, last = -1, notation.expect("number", "a number").text
    values = [static_int("_" + part) for part in (*parts, last)]
    if len(values) != 3 or None in values:
        raise notation.fail("SW_ and three numbers, joined by '_'", name)
    bits, base, shift = [value or 0 for value in values]
    return Swizzle(bits, base, sign * shift)


def read_f2_map(notation: Notation) -> F2Map:
    """Read `F2[3x3: 1,3,6]`, the images of the bits 1, 2, 4."""
    notation.advance()
    notation.open()
    while notation.token.kind in ("number", "name"):  # 3x3 repeats the number of columns
        notation.advance()
    notation.expect(":")
    columns: list[int] = []
    while notation.token.kind == "number":
        columns.append(number(notation.advance()))
        if not notation.accept(","):
            break
    notation.close("',' or ']'")
    return F2Map(columns)


def read_f2_layout(notation: Notation, shape: IntTuple) -> F2Layout:
    """Read what follows the colon of `(2,4):F2((1),(3,6))^5`."""
    notation.advance()
    if notation.token.kind != "(":
        raise notation.fail("'(' and the images of the bits")
    bases = notation.brackets(grouped=False)
    offset = 0
    if notation.accept("^"):
        offset = number(notation.expect("number", "a number"))
    return F2Layout(shape, leaves(bases), offset)
