"""Where the calls of an expression and their arguments are in its text."""

from __future__ import annotations

from cute_py.layout.notation.parse_tokens import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from cute_py.layout.notation.parse_tokens import Token

    # the places of the name, of the arguments, and of the closing bracket
    Call: TypeAlias = tuple[int, list[tuple[int, int]], int]

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
