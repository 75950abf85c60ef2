"""Wordings: texts: layouts and expressions."""

from __future__ import annotations

from cute_py.errors import LeafTypeError, ParseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "text-type": (
        LeafTypeError,
        "{value!r} ({type})",
        "a text",
        "pass a str; decode bytes, and leave a layout as it is",
    ),
    "text-too-long": (
        ParseError,
        "a text of {count} characters",
        "at most {limit}",
        "read one layout at a time, without the data of its tensor",
    ),
    "text-unexpected": (
        ParseError,
        "{found} at position {position}",
        "{expected}",
        "mend the text at the mark\n{marked}",
    ),
    "text-unclosed": (
        ParseError,
        "{found} at position {position}, inside of the {bracket!r} at position {opened}",
        "{expected}",
        "close the bracket, or remove it\n{marked}",
    ),
    "text-too-deep": (
        ParseError,
        "a nest deeper than {limit} levels at position {position}",
        "at most {limit} levels",
        "flatten the tuple, or group fewer modes\n{marked}",
    ),
    "text-number": (
        ParseError,
        "a number of {count} digits at position {position}",
        "at most {limit} digits",
        "shorten it: CuTe's integers have 64 bits\n{marked}",
    ),
    "text-symbol": (
        ParseError,
        "the name {name!r} at position {position}, which stands for nothing here",
        "numbers, and symbols that were declared",
        "declare it, symbols={{{name!r}: sym({name!r})}}, or remove a label that is no part of "
        "the layout\n{marked}",
    ),
    "text-arguments": (
        ParseError,
        "{name} at position {position}: {problem}",
        "{name}{form}",
        "pass these arguments, in this order\n{marked}",
    ),
    "text-operands": (
        ParseError,
        "{name} at position {position} applied to {operands}: {problem}",
        "operands of the kinds that it takes",
        "compare the operands with the documentation of {name}\n{marked}",
    ),
    "text-pointer-width": (
        ParseError,
        "a pointer at position {position} that does not tell the width of its elements, under "
        "{swizzle}",
        "the width, as in smem_ptr[16b] or ptr<f16, smem>: a swizzle of a pointer maps bytes",
        "add the width, or give the layout alone and compose it with a swizzle of "
        "elements\n{marked}",
    ),
    "text-pointer-address": (
        ParseError,
        "a pointer at position {position} whose distance from a multiple of {period} bytes, the "
        "period of {swizzle}, is unknown or no whole number of elements",
        "an address such as (0x400), (unset), or align<{period}>",
        "add it, or give the layout alone and compose it with a swizzle of elements\n{marked}",
    ),
    "expression-name": (
        ParseError,
        "the name {name!r} at position {position}, which the language does not have",
        "a function of the layout algebra, a constant such as LayoutRight, or a declared symbol",
        "{hint}\n{marked}",
    ),
    "expression-limit": (
        ParseError,
        "{given} at position {position}",
        "{limit}, so that the command line answers at once",
        "use cute_py from Python for larger ones\n{marked}",
    ),
}
