"""What a `with` block of the trace may not do to Python: rebind a name that is used later, return.

The body of `cute.when` is run once at trace time, whatever the condition will be. So `s = 2` inside
and `s` after it would be 2 for all threads. Names are compared at entry and exit; whether one is
used later is read from the bytecode (no source needed), `return`, `break` and `continue` from the
source.
"""

from __future__ import annotations

import ast
import dis
import linecache
from functools import lru_cache

from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType


class Rebinding:
    """The names of a frame at the entry of a block, to be compared at its exit."""

    def __init__(self, frame: FrameType, operation: str) -> None:
        """Keep the names; refuse a body that leaves the block by return, break or continue."""
        self.operation = operation
        self.line = frame.f_lineno
        self.before = dict(frame.f_locals)
        leaving = leaves(frame.f_code, frame.f_lineno)
        if leaving is None:
            raise refusal(
                "trace-no-source", operation=operation, where=_where(frame, frame.f_lineno)
            )
        if leaving:
            word, line = leaving
            raise refusal(
                "trace-leaves", operation=operation, word=word, where=_where(frame, line)
            )

    def check(self, frame: FrameType) -> None:
        """Refuse names that were rebound in the block and are used after it."""
        now = frame.f_locals
        rebound = [n for n, value in self.before.items() if n in now and now[n] is not value]
        made = [n for n in now if n not in self.before]
        used = used_after(frame.f_code, frame.f_lasti, [*rebound, *made])
        if used:
            raise refusal(
                "trace-rebound",
                operation=self.operation,
                names=", ".join(sorted(used)),
                where=_where(frame, self.line),
            )


def _where(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{line}"


# -- names used later


def used_after(code: CodeType, offset: int, names: list[str]) -> set[str]:
    """Return those of the names that some path after an instruction reads before it writes them.

    Args:
        code: of the function.
        offset: of the instruction (bytes).
        names: candidates; those of a closure count as used.

    """
    captured = {*code.co_cellvars, *code.co_freevars}
    instructions, position = _instructions(code)
    start = position.get(offset, 0) + 1
    if not (code.co_flags & 0x1):  # a module, or text that is executed: globals stay readable
        return {n for n in names if n in code.co_names and _reads(code, start, n, "NAME")}
    found = {n for n in names if n in captured and _touched(code, n)}
    return found | {n for n in names if n in code.co_varnames and _reads(code, start, n, "FAST")}


def _touched(code: CodeType, name: str) -> bool:
    return any(name in _words(x) for x in dis.get_instructions(code))


@lru_cache(maxsize=256)
def _instructions(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    found = list(dis.get_instructions(code))
    return found, {x.offset: k for k, x in enumerate(found)}


def _words(x: dis.Instruction) -> tuple[object, ...]:
    return x.argval if isinstance(x.argval, tuple) else (x.argval,)


def _reads(code: CodeType, start: int, name: str, kind: str) -> bool:
    """Tell whether a path from an instruction reads a name before writing it."""
    instructions, position = _instructions(code)
    seen: set[int] = set()
    todo = [start]
    while todo:
        k = todo.pop()
        if k in seen or k >= len(instructions):
            continue
        seen.add(k)
        x = instructions[k]
        access = _access(x, name, kind)
        if access == "read":
            return True
        if access == "write" or x.opname.startswith(("RETURN", "RAISE", "RERAISE")):
            continue
        jumps = isinstance(x.argval, int) and x.opcode in _JUMPS and x.argval in position
        if jumps:
            todo.append(position[x.argval])
        if not (jumps and x.opname in _ALWAYS):
            todo.append(k + 1)
    return False


_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_ALWAYS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP", "JUMP_ABSOLUTE")


def _access(x: dis.Instruction, name: str, kind: str) -> str:
    """Return what an instruction does first with a name: "read", "write" or ""."""
    words = _words(x)
    if kind not in x.opname or name not in words:
        return ""
    if "AND_CLEAR" in x.opname:
        return ""
    verbs = [v for v in x.opname.split("_") if v in ("LOAD", "STORE", "DELETE")]
    if len(verbs) < len(words):
        verbs = verbs * len(words)
    first = next(v for v, word in zip(verbs, words, strict=False) if word == name)
    return "read" if first == "LOAD" else "write"


# -- return, break, continue


def leaves(code: CodeType, line: int) -> tuple[str, int] | bool | None:
    """Return the (word, line) that leaves the `with` block which begins at a line; False if there
    is none, None where the source is not at hand.
    """
    tree = _tree(code.co_filename)
    if tree is None:
        return None
    block = _block_at(tree, line)
    if block is None:
        return False
    for statement in block.body:
        found = _leaving(statement, loops=False)
        if found:
            return found
    return False


def _tree(filename: str) -> ast.AST | None:
    lines = linecache.getlines(filename)
    return _parsed("".join(lines)) if lines else None


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.AST | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _block_at(tree: ast.AST, line: int) -> ast.With | None:
    """Return the innermost `with` statement whose head is on the line."""
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            last = max(item.context_expr.end_lineno or 0 for item in node.items)
            if node.lineno <= line <= last:
                found = node
    return found


def _leaving(node: ast.AST, loops: bool) -> tuple[str, int] | None:
    if isinstance(node, ast.Return):
        return "return", node.lineno
    if isinstance(node, (ast.Break, ast.Continue)) and not loops:
        return type(node).__name__.lower(), node.lineno
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return None
    inside = loops or isinstance(node, (ast.For, ast.While))
    for child in ast.iter_child_nodes(node):
        found = _leaving(child, inside)
        if found:
            return found
    return None
