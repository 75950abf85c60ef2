"""The notation of the golden data and of docs/differences.md, read and written on its own.

value   (2,(3,4))   5   -1   _   3@1@0        tuple, integer, whole mode, coordinate stride
layout  value:value   Sw<3,4,3>   Sw<3,4,3> o 0 o (8,64):(64,1)
tiler   (4:1,8,_)                             a tuple of layouts, integers and _
"""

import json
import lzma
import re
from pathlib import Path

import cute_py as cute

GOLDEN = Path(__file__).parent / "golden"
TOKEN = re.compile(r"\s*(-?\d+(?:@\d+)*|Sw<-?\d+,-?\d+,-?\d+>|[a-z_]\w*|_|.)")


def golden_cases(name):
    """Return the cases of tests/golden/`name`.json.xz."""
    with lzma.open(GOLDEN / f"{name}.json.xz", "rt", encoding="utf-8") as file:
        return json.load(file)["cases"]


# -- reading


def read(argument):
    """Return the operand that a JSON argument stands for."""
    if isinstance(argument, list):
        return tuple(read(part) for part in argument)
    if isinstance(argument, dict):
        swizzle = cute.Swizzle(*argument["swizzle"])
        if "layout" not in argument:
            return swizzle
        return cute.make_composed_layout(swizzle, argument["offset"], read(argument["layout"]))
    return read_text(argument) if isinstance(argument, str) else argument


def read_text(text):
    """Return the tuple, layout or tiler that `text` stands for."""
    (operand,) = Reader(text).operands()
    return operand


def read_call(text):
    """Return the name and the operands of `name(operand, ...)`."""
    name, _, rest = text.partition("(")
    assert rest.endswith(")"), text
    return name, Reader(rest[:-1]).operands()


class Reader:
    """A recursive-descent reader of a comma-separated list of operands."""

    def __init__(self, text):
        self.text = text
        self.tokens = TOKEN.findall(text)

    def operands(self):
        operands = [self.operand()] if self.tokens else []
        while self.tokens:
            self.expect(",")
            operands.append(self.operand())
        return operands

    def operand(self):
        """Read a value, a layout or a composed layout."""
        first = self.value()
        if self.peek() == ":":
            self.expect(":")
            return cute.Layout(first, self.value())
        if isinstance(first, cute.Swizzle) and self.peek() == "o":
            self.expect("o")
            offset = self.value()
            self.expect("o")
            return cute.make_composed_layout(first, offset, self.operand())
        return first

    def value(self):
        token = self.tokens.pop(0)
        if token == "(":
            return self.modes()
        if token == "_":
            return cute._
        if token.startswith("Sw<"):
            return cute.Swizzle(*map(int, re.findall(r"-?\d+", token)))
        if "@" in token:
            scale, *path = map(int, token.split("@"))
            return scale * cute.E(*reversed(path))
        assert re.fullmatch(r"-?\d+|[a-z]\w*", token), f"{token!r} in {self.text!r}"
        return token if token[0].isalpha() else int(token)

    def modes(self):
        modes = []
        while self.peek() != ")":
            modes.append(self.operand())
            if self.peek() == ",":
                self.expect(",")
        self.expect(")")
        return tuple(modes)

    def peek(self):
        return self.tokens[0] if self.tokens else ""

    def expect(self, token):
        assert self.peek() == token, f"expected {token!r} in {self.text!r}"
        self.tokens.pop(0)


# -- writing


def plain(result):
    """Return a result in the form in which the golden data holds it."""
    if isinstance(result, (bool, int, str)):
        return result
    if isinstance(result, list):
        return [plain(part) for part in result]
    if isinstance(result, tuple):
        if any(isinstance(part, (cute.Layout, cute.ComposedLayout)) for part in result):
            return [plain(part) for part in result]
        return text(result)
    if isinstance(result, cute.Swizzle):
        return {"swizzle": [result.num_bits, result.num_base, result.num_shft]}
    if isinstance(result, cute.ComposedLayout):
        return plain(result.outer) | {"offset": result.offset, "layout": str(result.inner)}
    return str(result)


def text(operand):
    """Return an operand, or a JSON argument, as CuTe prints it."""
    if isinstance(operand, (list, tuple)):
        return f"({','.join(text(part) for part in operand)})"
    if isinstance(operand, dict):
        return text(read(operand))
    return str(operand)
