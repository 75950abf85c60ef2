"""The maps of offsets in print: `Sw<3,4,3>` of CuTe, `SW_3_4_3` of pycute, and what this project
prints of maps over F2, `F2[3x3: 1,3,6]` and `(2,4):F2((1),(3,6))^5`.

Source: cutlass include/cute/swizzle.hpp `print`; pycute swizzle.py `__str__`; `f2`, `f2_layout`.
"""

from __future__ import annotations

from cute_py.layout.bits.f2 import F2Map
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.notation.parse_tokens import number
from cute_py.layout.notation.parse_types import static_int
from cute_py.layout.tuples import leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.notation.parse import Notation
    from cute_py.layout.types import IntTuple


def read_swizzle(notation: Notation) -> Swizzle:
    """Read `Sw<3,4,3>` or `S<3,4,-3>`."""
    notation.advance()
    notation.open()
    parameters = [_integer(notation)]
    for _ in range(2):
        notation.expect(",")
        parameters.append(_integer(notation))
    notation.close()
    return Swizzle(*parameters)


def _integer(notation: Notation) -> int:
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
    while notation.token.kind in ("number", "name"):  # 3x3 says what the count of columns says
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
