"""Text to tokens, one at a time, and refusals that point at the text.

Shared by the layout notation (`parse`) and the expression language (`cute_py.expression`). Tokens
are read on demand, so that text after a layout (the data of a printed tensor) is never read.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout.tuples import MAX_DEPTH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from cute_py.errors import CuteError

    Value: TypeAlias = Any  # the value of a text: a layout, a map, an int tuple, a tiler

MAX_TEXT = 1 << 16  # characters
MAX_NESTING = MAX_DEPTH + 8  # brackets: those of a layout, and a few calls or types around it
MAX_DIGITS = 600  # Python itself stops at 640 or more, by its settings

_DIGITS = "0123456789"
_CLOSING = {"(": ")", "[": "]", "<": ">", "{": "}"}
_PAIRS = ("//", "::")
_SHOWN = 36  # characters of the text on each side of the mark


class Token:
    """A word of the text: its kind ("number", "name", "string", "end", else the sign itself), its
    text, and where it begins and ends (0-based).
    """

    __slots__ = ("end", "kind", "start", "text")

    def __init__(self, kind: str, text: str, start: int, end: int) -> None:
        self.kind = kind
        self.text = text
        self.start = start
        self.end = end

    def __str__(self) -> str:
        return "the end of the text" if self.kind == "end" else repr(self.text)


class Reader:
    """A cursor over the tokens of `text`: `token` is the next one, `last` the one before it.

    >>> reader = Reader("(_4, 0x10)", "parse_layout")
    >>> [reader.advance().text for _ in range(5)]
    ['(', '_4', ',', '0x10', ')']
    """

    __slots__ = ("last", "opened", "operation", "text", "token")

    def __init__(self, text: str, operation: str, limit: int = MAX_TEXT) -> None:
        """Start before the first token of `text`, the argument of `operation`."""
        if not isinstance(text, str):
            raise refusal("text-type", operation=operation, value=text, type=type(text).__name__)
        if len(text) > limit:
            raise refusal("text-too-long", operation=operation, count=len(text), limit=limit)
        self.text = text
        self.operation = operation
        self.opened: list[Token] = []  # the brackets that are open
        self.last = Token("", "", 0, 0)
        self.token = self._scan(0)

    # -- moving on

    def advance(self) -> Token:
        """Return the next token and step over it."""
        self.last = self.token
        self.token = self._scan(self.last.end)
        return self.last

    def accept(self, kind: str) -> Token | None:
        """Step over the next token if it is of this kind."""
        return self.advance() if self.token.kind == kind else None

    def expect(self, kind: str, expected: str = "") -> Token:
        """Step over the next token, which must be of this kind."""
        if self.token.kind != kind:
            raise self.fail(expected or repr(kind))
        return self.advance()

    def open(self) -> Token:
        """Step over an opening bracket and count it."""
        if len(self.opened) >= MAX_NESTING:
            raise self.refuse("text-too-deep", self.token, limit=MAX_DEPTH)
        self.opened.append(self.token)
        return self.advance()

    def close(self, expected: str = "") -> Token:
        """Step over the bracket that closes the one opened last."""
        kind = _CLOSING[self.opened[-1].kind]
        closing = self.expect(kind, expected or repr(kind))
        self.opened.pop()
        return closing

    def adjacent(self) -> bool:
        """Return whether the next token follows the last one without a blank."""
        return self.token.kind != "end" and self.token.start == self.last.end

    # -- refusing

    def fail(self, expected: str, token: Token | None = None) -> CuteError:
        """Return the refusal of a token (default: the next), ready to raise."""
        token = token or self.token
        if token.kind == "end" and self.opened:
            bracket = self.opened[-1]
            return self.refuse(
                "text-unclosed",
                token,
                expected=expected,
                bracket=bracket.text,
                opened=bracket.start,
                expressions=(self.text.rstrip() + self._closing(),),
            )
        return self.refuse("text-unexpected", token, expected=expected)

    def _closing(self) -> str:
        """Return the brackets that close those that are open."""
        return "".join([_CLOSING[each.kind] for each in reversed(self.opened)])

    def refuse(self, code: str, token: Token, **facts: object) -> CuteError:
        """Return the refusal `code` with the position of `token`, ready to raise."""
        return refusal(
            code,
            operation=self.operation,
            where=None,
            found=str(token),
            position=token.start,
            marked=marked(self.text, token.start),
            **facts,
        )

    # -- scanning

    def _scan(self, at: int) -> Token:
        text = self.text
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return Token("end", "", at, at)
        sign = text[at]
        if sign in _DIGITS:
            return self._number(at)
        if sign == "_" or sign.isalpha():
            end = at + 1
            while end < len(text) and (text[end] == "_" or text[end].isalnum()):
                end += 1
            return Token("name", text[at:end], at, end)
        if sign == "∘":
            return Token("name", "o", at, at + 1)
        if sign == "'" and (end := text.find("'", at + 1)) > 0:
            return Token("string", text[at : end + 1], at, end + 1)
        pair = text[at : at + 2]
        return Token(pair, pair, at, at + 2) if pair in _PAIRS else Token(sign, sign, at, at + 1)

    def _number(self, at: int) -> Token:
        digits, end = _DIGITS, at
        if self.text[at : at + 2] == "0x":
            digits, end = _DIGITS + "abcdefABCDEF", at + 2
        while end < len(self.text) and self.text[end] in digits:
            end += 1
        token = Token("number", self.text[at:end], at, end)
        if end - at > MAX_DIGITS:
            raise self.refuse("text-number", token, count=end - at, limit=MAX_DIGITS)
        return token


def number(token: Token) -> int:
    """Return the value of a number token, decimal or hexadecimal."""
    if token.text.startswith("0x"):
        return int(token.text[2:] or "0", 16)
    return int(token.text)


def marked(text: str, position: int) -> str:
    """Return the text around `position` with a mark below it, on two lines.

    >>> print(marked("(4,8):(8,1", 10))
        (4,8):(8,1
                  ^
    """
    begin = max(0, position - _SHOWN)
    end = min(len(text), position + _SHOWN)
    before = ("..." if begin else "") + text[begin:position]
    after = text[position:end] + ("..." if end < len(text) else "")
    line = "".join([c if c.isprintable() else " " for c in before + after])
    return f"    {line}\n    {' ' * len(before)}^"
