"""Checks that a run-time block does not rebind or change Python values that are used later.

The body of `cute.when` is run once at trace time, whatever the condition will be. So after `s = 2`
inside of it, `s` would be 2 for all threads. Names are compared at entry and exit. The bytecode
shows whether a name is live afterwards (no source needed); the source shows `return`, `break` and
`continue`.
"""

from __future__ import annotations

import ast
import dis
import linecache
from bisect import bisect_right
from functools import lru_cache
from types import FunctionType, ModuleType

from cute_py.errors import place_text, refusal
from cute_py.trace.runtime_integers import Condition, Int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, NoReturn


class Rebinding:
    """The names of a frame at the entry of a block, which are compared at its exit."""

    def __init__(self, frame: FrameType, operation: str, kind: str = "branch") -> None:
        self.operation, self.kind = operation, kind
        self.line = frame.f_lineno
        self.entry = frame.f_lasti
        self.before = names_of(frame)

    def refuse_leaving(self, frame: FrameType) -> None:
        """Refuse a body with a return, break or continue that leaves the block."""
        leaving = leaves(frame.f_code, frame.f_lineno)
        if leaving is None:
            raise refusal(
                "trace-no-source", operation=self.operation, where=_where(frame, frame.f_lineno)
            )
        if not isinstance(leaving, bool):
            word, line = leaving
            raise refusal(
                "trace-leaves", operation=self.operation, word=word, where=_where(frame, line)
            )

    def check(self, frame: FrameType) -> None:
        """Refuse names that change in the block and are used after it or, in a loop, in the next
        iteration.
        """
        found = changed(self.before, names_of(frame))
        used = used_after(frame.f_code, frame.f_lasti, found)
        if self.kind == "loop":
            used |= used_after(frame.f_code, self.entry, found)
        if used:
            refuse_rebound(self.operation, self.kind, used, _where(frame, self.line))


class Iterations:
    """The names of the frame of a `for` statement, compared after each trace of its body."""

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame
        self.line, self.entry = frame.f_lineno, frame.f_lasti
        self.seen = [names_of(frame)]

    def record(self) -> None:
        """Keep the names at the end of one trace of the body."""
        self.seen.append(names_of(self.frame))

    def check(self, sure: bool) -> None:
        """Refuse loop-carried names and, in a loop that may not run (not `sure`), names that the
        body changes and the code after it uses.
        """
        code = self.frame.f_code
        start, end = loop_ends(code, self.entry)
        if start is None or end is None:
            return
        before, middle, after = self.seen
        moving = used_from(code, start, changed(middle, after))
        if moving:
            raise refusal(
                "trace-carried",
                operation="cute.range",
                names=", ".join(sorted(moving)),
                where=_where(self.frame, self.line),
            )
        if not sure:
            used = used_from(code, end, changed(before, after))
            if used:
                refuse_rebound("cute.range", "loop", used, _where(self.frame, self.line))


def refuse_rebound(operation: str, kind: str, names: set[str], where: str) -> NoReturn:
    """Refuse names that a block changes and the code after it uses."""
    raise refusal(
        "trace-rebound", operation=operation, names=", ".join(sorted(names)), kind=kind, where=where
    )


def _where(frame: FrameType, line: int) -> str:
    return place_text((frame.f_code.co_filename, line))


# -- liveness of names


def used_after(code: CodeType, offset: int, names: list[str]) -> set[str]:
    """Return the names that are live after an instruction: some path reads them before writing.

    Args:
        code: the code of the function.
        offset: the offset of the instruction (bytes).
        names: the candidates; closure variables count as live if the code uses them.

    """
    return used_from(code, _number_at(code, offset) + 1, names)


def used_from(code: CodeType, start: int, names: list[str]) -> set[str]:
    """Return the names that are live before instruction number `start`; see `used_after`."""
    captured = {*code.co_cellvars, *code.co_freevars}
    if not (code.co_flags & 0x1):  # a module, or text run by exec: its names are globals
        return {n for n in names if n in code.co_names and _reads(code, start, n, "NAME")}
    found = set()
    for name in names:
        if name in captured:
            used = _touched(code, name)
        else:
            kind = "FAST" if name in code.co_varnames else "GLOBAL"
            used = _reads(code, start, name, kind)
        if used:
            found.add(name)
    return found


def loop_ends(code: CodeType, offset: int) -> tuple[int | None, int | None]:
    """Return the numbers of the first instruction of an iteration of the `for` statement at an
    offset (bytes), and of the first one after the loop; None if it is not a `for` statement.
    """
    instructions, position = _instructions(code)
    start = _number_at(code, offset)
    if instructions[start].opname != "FOR_ITER":
        return None, None
    return start, position.get(instructions[start].argval)


def in_for_statement(frame: FrameType) -> bool:
    """Return whether a frame requests an iterator for a `for` statement or `yield from`, not for a
    function (list, zip, sum ...) or a comprehension.
    """
    instructions, _position = _instructions(frame.f_code)
    start = _number_at(frame.f_code, frame.f_lasti)
    name = instructions[start].opname
    return name == "GET_YIELD_FROM_ITER" or (
        name == "GET_ITER" and not _comprehends(instructions, start)
    )


_COLLECTS = ("LIST_APPEND", "SET_ADD", "MAP_ADD")


def _comprehends(instructions: list[dis.Instruction], start: int) -> bool:
    """Return whether the iterator of GET_ITER is for a comprehension or a generator expression."""
    after = [x.opname for x in instructions[start + 1 : start + 4]]
    if any(name.startswith(("CALL", "PRECALL")) for name in after[:2]):
        return True  # compiled to a function, which is called immediately
    head = next((x for x in instructions[start:] if x.opname == "FOR_ITER"), None)
    if head is None:
        return False
    back = [
        k
        for k, x in enumerate(instructions)
        if x.opname.startswith("JUMP_BACKWARD") and x.argval == head.offset
    ]
    return any(instructions[k - 1].opname in _COLLECTS for k in back)


def _touched(code: CodeType, name: str) -> bool:
    return any(name in _words(x) for x in dis.get_instructions(code))


@lru_cache(maxsize=256)
def _instructions(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    found = list(dis.get_instructions(code))
    return found, {x.offset: k for k, x in enumerate(found)}


def _number_at(code: CodeType, offset: int) -> int:
    """Return the number of the instruction at an offset (bytes). The offset may be in its inline
    cache, if the interpreter has specialized the instruction.
    """
    instructions, _position = _instructions(code)
    return max(bisect_right(instructions, offset, key=lambda x: x.offset) - 1, 0)


def _words(x: dis.Instruction) -> tuple[object, ...]:
    return x.argval if isinstance(x.argval, tuple) else (x.argval,)


def _reads(code: CodeType, start: int, name: str, kind: str) -> bool:
    """Return whether some path from an instruction reads a name before writing it."""
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
    """Return the first access of an instruction to a name: "read", "write" or ""."""
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
    """Return the (word, line) that leaves the `with` block that begins at a line; False if there
    is no such word, None if the source is not available.
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


# -- changes between two times: rebound names, and lists, dicts and objects changed in place.
# Values of the kernel itself (run-time integers, conditions) are left out: they hold the block that
# made them

DEPTH = 3  # of nested containers that are compared
MOST = 4096  # elements of a container that is compared
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_OWN = __name__.partition(".")[0]


class Contents:
    """The contents of a container: its values by key or position, each with its own contents."""

    __slots__ = ("parts", "value")

    def __init__(self, value: object, parts: dict[Any, Any]) -> None:
        self.value, self.parts = value, parts


def names_of(frame: FrameType) -> dict[str, object]:
    """Return the local names of a frame and the globals that its code uses, with their contents."""
    code, outside = frame.f_code, frame.f_globals
    found = {n: outside[n] for n in code.co_names if n in outside and not _fixed(outside[n])}
    return {name: contents(value, DEPTH) for name, value in {**found, **frame.f_locals}.items()}


def _fixed(value: object) -> bool:
    """Return whether a global is a module, function or class, or belongs to this package."""
    return isinstance(value, (ModuleType, FunctionType, type)) or _is_own(value)


def _is_own(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == _OWN


def contents(value: Any, depth: int) -> object:
    """Return the current contents of a value for a later comparison; an immutable value itself."""
    if depth == 0 or isinstance(value, _PLAIN) or _is_own(value):
        return value
    if isinstance(value, (list, tuple)) and len(value) <= MOST:
        return Contents(value, {i: contents(x, depth - 1) for i, x in enumerate(value)})
    if isinstance(value, dict) and len(value) <= MOST:
        return Contents(value, {k: contents(x, depth - 1) for k, x in value.items()})
    if isinstance(value, (set, bytearray)) and len(value) <= MOST:
        return Contents(
            value, dict.fromkeys(value) if isinstance(value, set) else {0: bytes(value)}
        )
    if isinstance(value, type):
        local = "<locals>" in value.__qualname__
        return Contents(value, dict(vars(value))) if local else value
    if isinstance(value, (ModuleType, FunctionType)) or not hasattr(value, "__dict__"):
        return value
    return Contents(value, {k: contents(x, depth - 1) for k, x in vars(value).items()})


def changed(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return the names that are new, or whose values have changed."""
    return [name for name, x in after.items() if name not in before or not same(before[name], x)]


def same(a: Any, b: Any) -> bool:
    """Return whether a value is unchanged. New attributes of an object are ignored: they may cache
    results.
    """
    if isinstance(a, Contents) and isinstance(b, Contents):
        alike = a.value is b.value or isinstance(a.value, (list, tuple, dict, set))
        grows = not isinstance(a.value, (list, tuple, dict, set, bytearray))
        if not alike or type(a.value) is not type(b.value):
            return False
        if not (grows or len(a.parts) == len(b.parts)):
            return False
        return all(key in b.parts and same(x, b.parts[key]) for key, x in a.parts.items())
    if a is b or isinstance(b, (Int, Condition)):
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, _PLAIN):
        return bool(a == b) or a != a
    return _is_own(a) and str(a) == str(b)
