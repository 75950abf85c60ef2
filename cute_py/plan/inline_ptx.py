"""The text of `cute.inline_ptx`: PTX that computes in registers, and nothing else.

Operands are written as in CUDA's `asm`: `%0`, `%1` ... are the outputs, then the inputs, and
`%%laneid` is a special register. The text is read statement by statement; what is not known to stay
in registers is a problem: memory, labels, branches, calls, barriers, exits, directives but `.reg`.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The instructions of the PTX ISA 9.0 that read and write registers only. Those that communicate
# within a warp need all of its lanes.
_WORDS = """
abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos cvt div dp2a dp4a ex2 fma fns lg2
lop3 mad mad24 madc max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf
shl shr sin slct sqrt sub subc szext tanh testp vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2
vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vset vset2 vset4 vshl vshr vsub vsub2 vsub4 xor
"""
ALONE = frozenset(_WORDS.split())
TOGETHER = frozenset(
    ("activemask", "elect", "match", "mma", "movmatrix", "redux", "shfl", "vote", "wmma")
)

_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(?P<special>%%[A-Za-z_][\w.]*)|(?P<operand>%\d{1,4})"
    r"|(?P<number>0[fFdD][0-9a-fA-F]+|0[xX][0-9a-fA-F]+U?|\d+\.\d+(?:[eE][+-]?\d+)?|\d+U?)"
    r"|(?P<word>\.?[A-Za-z_$][\w$]*(?:(?:\.|::)\w+)*)|(?P<sign>[{}(),;|@!+<>-])|(?P<other>.)",
    re.ASCII | re.DOTALL,
)


class Problem(NamedTuple):
    """A reason why a text is refused: the token, and what is wrong with it."""

    token: str
    why: str


class _Token(NamedTuple):
    kind: str
    text: str


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        if found.lastgroup is not None:
            yield _Token(found.lastgroup, found.group())


def problem_of(text: str, outputs: int, inputs: int) -> Problem | None:
    """Return what is wrong with a text for so many operands, or None."""
    check = _Check(outputs, inputs)
    depth, statement = 0, list[_Token]()
    for token in _tokens(text):
        if token.kind == "other":
            special = "special registers are written `%%laneid`" if token.text == "%" else ""
            found = check.statement(statement) if statement else None
            return found or Problem(token.text, special or "no instruction on registers has it")
        if token.text in ("{", "}") and not statement:
            depth += 1 if token.text == "{" else -1
        elif token.text == ";":
            problem = check.statement(statement) if statement else None
            if problem is not None:
                return problem
            statement = []
        else:
            statement.append(token)
        if depth < 0:
            return Problem("}", "it closes no block")
    if statement or depth:
        last = statement[-1].text if statement else "{"
        return Problem(last, "it has no end: statements end with `;`, blocks with `}`")
    return check.unused()


def is_collective(text: str) -> bool:
    """Return whether the text communicates within the warp, so that all lanes must reach it."""
    words = (token.text.partition(".")[0] for token in _tokens(text) if token.kind == "word")
    return not TOGETHER.isdisjoint(words)


def as_llvm(text: str) -> str:
    """Return the text as an inline assembly of LLVM, in a block of its own."""

    def written(found: re.Match[str]) -> str:
        token = found.group()
        if found.lastgroup == "special":
            return token[1:]
        if found.lastgroup == "operand":
            return f"${{{token[1:]}}}"
        # a comment separates what is before and after it
        return " " if token.startswith(("//", "/*")) else token.replace("$", "$$")

    return f"{{ {' '.join(_TOKEN.sub(written, text).split())} }}"


class _Check:
    """Reads statements one after another."""

    def __init__(self, outputs: int, inputs: int) -> None:
        self.outputs, self.count = outputs, outputs + inputs
        self.registers, self.written, self.named = {"_"}, set[int](), set[int]()

    def statement(self, tokens: list[_Token]) -> Problem | None:
        """Return what is wrong with a statement, or None; keep what it declares and writes."""
        if tokens[0].text.startswith("."):
            return self._declaration(tokens)
        rest = tokens
        if tokens[0].text == "@":
            skipped = 1 + (len(tokens) > 1 and tokens[1].text == "!")
            problem = self._operand(tokens[skipped]) if len(tokens) > skipped else None
            if problem is not None:
                return problem
            rest = tokens[skipped + 1 :]
        if not rest or rest[0].kind != "word":
            return Problem((rest or tokens)[0].text, "an instruction begins with its name")
        name = rest[0].text.partition(".")[0]
        moves = name == "wmma" and not rest[0].text.startswith("wmma.mma.")
        if name not in ALONE | TOGETHER or moves:
            return Problem(rest[0].text, "it is not an instruction that uses registers alone")
        return self._operands(rest[1:], guarded=rest is not tokens)

    def _declaration(self, tokens: list[_Token]) -> Problem | None:
        if tokens[0].text != ".reg" or len(tokens) < 3:
            return Problem(tokens[0].text, "`.reg` is the only directive that is allowed")
        words = [token for token in tokens[1:] if token.text != ","]
        for before, token in pairwise(words):
            if token.kind == "word" and not token.text.startswith("."):
                self.registers.add(token.text)
            elif token.kind == "number" and before.text == "<":
                name = next(x.text for x in reversed(words[: words.index(before)]))
                if not token.text.isdecimal() or len(token.text) > 4:
                    return Problem(token.text, "it is not a number of registers below 10,000")
                self.registers.update(f"{name}{i}" for i in range(min(int(token.text), 256)))
            elif token.kind != "word" and token.text not in "<>":
                return Problem(token.text, "it is not the name of a register")
        return None

    def _operands(self, tokens: list[_Token], guarded: bool) -> Problem | None:
        """Check the operands of an instruction: the first ones are what it writes."""
        results, depth = True, 0
        written = set[int]()
        for token in tokens:
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            results = results and not (token.text == "," and depth == 0)
            if token.kind == "operand":
                number = int(token.text[1:])
                if results and self.outputs <= number < self.count:
                    return Problem(token.text, "it is an input, and inputs are not written to")
                unread = number < self.outputs and number not in self.written
                if unread and (guarded or not results):
                    return Problem(token.text, "it is an output that may not be written yet")
                written |= {number} if results else set()
            problem = self._operand(token)
            if problem is not None:
                return problem
        self.written |= written
        return None

    def _operand(self, token: _Token) -> Problem | None:
        if token.kind == "operand":
            number = int(token.text[1:])
            self.named.add(number)
            if number >= self.count:
                return Problem(token.text, f"there are {self.count} operands, from %0 on")
        elif token.kind == "word" and token.text.partition(".")[0] not in self.registers:
            return Problem(token.text, "it is not a register that the text declares")
        return None

    def unused(self) -> Problem | None:
        """Return the first operand that no instruction names."""
        missing = next((i for i in range(self.count) if i not in self.named), None)
        return None if missing is None else Problem(f"%{missing}", "no instruction names it")
