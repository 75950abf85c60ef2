"""Expressions whose whole text is one operation, which are drawn with its operands; their values,
with symbols; and where the calls of an expression are.
"""

from __future__ import annotations

from re import findall
from typing import Any

from cute_py.errors import CuteError
from cute_py.expression import evaluate, functions
from cute_py.integers.symbols import sym
from cute_py.layout.notation.parse_tokens import Reader
from cute_py.viz.operations import NAMES, operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from cute_py.layout.notation.parse_tokens import Token
    from cute_py.viz.picture import Picture

    # the places of the name, of the arguments, and of the closing bracket
    Call: TypeAlias = tuple[int, list[tuple[int, int]], int]


def value_of(text: str) -> Any:
    """Return the value of an expression, in which capital letters that it does not have, such as M
    or K1, are symbols.

    >>> print(value_of("coalesce((M,8):(8,1))"))
    (M,8):(8,1)
    """
    letters = set(findall(r"(?<!sym\()(?<![\w'\"])[A-Z]\d?(?![\w'\"<])", text)) - {"E", "S"}
    return evaluate(text, {name: sym(name) for name in letters.difference(functions())})


def with_operands(text: str, result: Any, by: str | None, bits: int) -> Picture | None:
    """Return the picture of an operation's operands and its result, linked; None for a text that is
    no operation on layouts, and for large ones.

    >>> drawn = with_operands("composition(8:2, 4:2)", value_of("composition(8:2, 4:2)"), None, 16)
    >>> [grid.title for grid in drawn.grids[0]]
    ['a = 8:2', 'b = 4:2', 'composition(a, b)']
    """
    try:
        found = _operation(text)
    except CuteError:  # an operand that has no value
        return None
    return None if found is None else operation(*found, result, by, bits)


def _operation(text: str) -> tuple[str, list[Any]] | None:
    """Return the name and the operands of the operation that is the whole text."""
    if found := whole_call(text):
        name, places = found
        if name in NAMES:
            return name, [value_of(text[a:b]) for a, b in places if "=" not in text[a:b]]
        return None
    depth = 0
    for token in tokens_of(text):
        depth += (token.kind in "([{<") - (token.kind in ")]}>")
        if token.text == "o" and token.kind == "name" and not depth:
            parts = [value_of(text[: token.start]), value_of(text[token.end :])]
            return ("composition", parts) if not isinstance(parts[1], int) else None
    return None


# -- where the calls of an expression and their arguments are in its text


def whole_call(text: str) -> tuple[str, list[tuple[int, int]]] | None:
    """Return the function and the places of the arguments of the call that is the whole text.

    >>> whole_call("size((2,3))"), whole_call("size(2)+1")
    (('size', [(5, 10)]), None)
    """
    tokens = tokens_of(text)
    for start, places, end in calls_of(text, tokens):
        if start == tokens[0].start and end == tokens[-1].start:
            return text[start : text.index("(", start)].strip(), places
    return None


OPENING, CLOSING = frozenset("([{<"), frozenset(")]}>")


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text. Raises ParseError for a number of too many digits."""
    reader = Reader(text, "explore")
    found = []
    while reader.token.kind != "end":
        found.append(reader.advance())
    return found


def calls_of(text: str, tokens: list[Token]) -> Iterator[Call]:
    """Yield the calls of functions, the inner ones first.

    >>> text = "size(coalesce((2,4)))"
    >>> [text[a:b] for _, places, _ in calls_of(text, tokens_of(text)) for a, b in places]
    ['(2,4)', 'coalesce((2,4))']
    """
    opened: list[tuple[Token | None, int, list[tuple[int, int]]]] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.kind in OPENING:
            calls = token.kind == "(" and before is not None and before.kind == "name"
            opened.append((before if calls else None, token.end, []))
        elif opened and (token.kind == "," or token.kind in CLOSING):
            name, start, arguments = opened.pop()
            if text[start : token.start].strip():
                arguments.append((start, token.start))
            if token.kind == ",":
                opened.append((name, token.end, arguments))
            elif name is not None:
                yield name.start, arguments, token.start
