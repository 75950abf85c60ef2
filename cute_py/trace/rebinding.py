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
import sys
from bisect import bisect_right
from functools import lru_cache
from types import CodeType

from cute_py.calls.fingerprint.names import names_in
from cute_py.errors import is_own, place_text, refusal
from cute_py.trace.contents import Locked, Snapshot, same, unreadable_in
from cute_py.trace.state import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


class Rebinding:
    """The names of all frames of a kernel at the entry of a block, to be compared at its exit."""

    def __init__(self, operation: str, kind: str = "branch") -> None:
        self.operation, self.kind = operation, kind
        self.frames = kernel_frames()
        self.places = [(frame.f_lineno, frame.f_lasti) for frame in self.frames]
        self.before = Snapshot(self.frames)
        self.locked = locked(self.before)

    def refuse_leaving(self) -> None:
        """Refuse a body that leaves the block by return, break or continue."""
        frame = self.frames[0]
        leaving = leaves(frame.f_code, frame.f_lineno)
        if leaving is None:
            raise refusal(
                "trace-no-source", operation=self.operation, where=_where(frame, frame.f_lineno)
            )
        self._refuse_word(frame, leaving)

    def _refuse_word(self, frame: FrameType, leaving: tuple[str, int] | bool | None) -> None:
        if leaving and not isinstance(leaving, bool):
            word, line = leaving
            raise refusal(
                "trace-leaves", operation=self.operation, word=word, where=_where(frame, line)
            )

    def check(self, body: object = None) -> None:
        """Refuse names that were changed in the block and are used after it, or, in a loop, in its
        next iteration.
        """
        now = {id(frame) for frame in kernel_frames()}
        after = Snapshot(self.frames)
        for i, frame in enumerate(self.frames):
            if id(frame) not in now:  # it has returned
                continue
            (line, entry), code = self.places[i], frame.f_code
            if frame.f_lasti != entry and (i or line != frame.f_lineno):
                self._refuse_word(frame, leaves_later(code, line, frame.f_lineno))
            before, later = self.before.names[i], after.names[i]
            found = changed(before, later)
            used = used_after(code, frame.f_lasti, found)
            if self.kind == "loop":
                used |= used_after(code, entry, found)
            if used:
                refuse_rebound(self.operation, self.kind, used, _where(frame, line))
            names = later if body is None else {"body": after.contents(body)}
            refuse_unreadable(frame, (entry, frame.f_lasti), names, self.operation)


class Iterations:
    """The names of the frames of a run-time loop, compared after each run of its body."""

    def __init__(self) -> None:
        self.frames = kernel_frames()
        self.places = [(frame.f_lineno, frame.f_lasti) for frame in self.frames]
        self.seen = [Snapshot(self.frames)]
        self.locked = locked(self.seen[0])

    def record(self) -> None:
        """Keep the names at the end of one trace of the body."""
        self.seen.append(Snapshot(self.frames))

    def check(self, sure: bool) -> None:
        """Refuse loop-carried names and, in a loop that may not run (not `sure`), names that the
        body changes and the code after it uses.
        """
        for i, frame in enumerate(self.frames):
            (line, entry), code = self.places[i], frame.f_code
            before, middle, after = (x.names[i] for x in self.seen)
            start, end = loop_ends(code, entry)
            if start is None or end is None:  # it calls what has the loop
                start = end = _number_at(code, entry) + 1
            moving = used_from(code, start, changed(middle, after))
            if moving:
                raise refusal(
                    "trace-carried",
                    operation="cute.range",
                    names=", ".join(sorted(moving)),
                    where=_where(frame, line),
                )
            if not sure:
                used = used_from(code, end, changed(before, after))
                if used:
                    refuse_rebound("cute.range", "loop", used, _where(frame, line))
            refuse_unreadable(frame, (entry, entry), after, "cute.range")


def locked(names: Snapshot) -> Locked:
    """Make the large arrays of a reading read-only, until the block or the trace ends."""
    found = Locked(names.large)
    current().locked.append(found)
    return found


def kernel_frames() -> list[FrameType]:
    """Return the frames of the user's code, from the innermost one up to the kernel's function."""
    top, found = current().frame, []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not top:
        if not is_own(frame):
            found.append(frame)
        frame = frame.f_back
    return found


def changed(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return the names that are new, or contain something else than before."""
    return [name for name, x in after.items() if name not in before or not same(before[name], x)]


def refuse_unreadable(
    frame: FrameType, between: tuple[int, int], names: dict[str, object], operation: str
) -> None:
    """Refuse an iterator that the code of a block uses, where no one can tell how far it is.

    Args:
        frame: the frame.
        between: the offsets of the first and the last instruction of the block; equal: the loop
            that begins there.
        names: the names of the frame with their contents.
        operation: the statement.

    """
    code = frame.f_code
    first, last = (_number_at(code, offset) for offset in between)
    instructions, _position = _instructions(code)
    if first == last:
        start, end = loop_ends(code, between[0])
        first, last = (first, first) if start is None or end is None else (start, end)
    used = {word for x in instructions[first:last] if "LOAD" in x.opname for word in _words(x)}
    used |= {"body"} & names.keys()
    for name in sorted(str(word) for word in used & names.keys()):
        value = unreadable_in(names[name])
        if value is not None:
            raise refusal(
                "trace-unreadable",
                operation=operation,
                name=name,
                type=type(value).__name__,
                where=_where(frame, frame.f_lineno),
            )


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
        code: of the function.
        offset: of the instruction (bytes).
        names: candidates. A cell is read where a closure takes it; what a closure that exists
            already reads, its own contents tell.

    """
    return used_from(code, _number_at(code, offset) + 1, names)


def used_from(code: CodeType, start: int, names: list[str]) -> set[str]:
    """Return those of the names that some path from instruction number `start` on reads before it
    writes them; see `used_after`.
    """
    if not (code.co_flags & 0x1):  # a module, or text that is executed: globals stay readable
        return {n for n in names if n in code.co_names and _reads(code, start, n, "NAME")}
    cells, found = {*code.co_cellvars, *code.co_freevars}, set()
    for name in names:
        kind = "" if name in cells else "FAST" if name in code.co_varnames else "GLOBAL"
        if _reads(code, start, name, kind) or (kind == "GLOBAL" and _inner_reads(code, name)):
            found.add(name)
    return found


def _inner_reads(code: CodeType, name: str) -> bool:
    """Tell whether a function inside of another one reads a global."""
    return any(name in names_in(x).globals for x in code.co_consts if isinstance(x, CodeType))


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


def leaves_later(code: CodeType, line: int, end: int) -> tuple[str, int] | bool | None:
    """Return the (word, line) that leaves a block which code between two lines of a function
    entered and left by other ways than its own `with` statement: a class, a context manager or an
    ExitStack around it.
    """
    tree = _tree(code.co_filename)
    if tree is None:
        return None
    block = _block_at(tree, line)
    statements: list[ast.stmt] = [] if block is None else block.body
    if block is None:
        around = [x for x in ast.walk(tree) if isinstance(x, ast.With) and _spans(x, line)]
        inner = max(around, key=lambda x: x.lineno, default=None)
        if inner is not None and _head(inner) >= end >= inner.lineno:  # it ends with this one
            statements = [x for x in inner.body if x.lineno > line]
        else:
            every = [x for x in ast.walk(tree) if isinstance(x, ast.stmt)]
            statements = [x for x in every if line < x.lineno <= end and _is_leaf(x)]
    found = (_leaving(statement, loops=False) for statement in statements)
    return next((x for x in found if x), False)


def _is_leaf(x: ast.stmt) -> bool:
    return isinstance(x, (ast.Return, ast.Break, ast.Continue))


def _head(block: ast.With) -> int:
    """Return the last line of the head of a `with` statement."""
    return max(item.context_expr.end_lineno or 0 for item in block.items)


def _spans(block: ast.With, line: int) -> bool:
    return block.lineno <= line <= (block.end_lineno or 0)


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
    for node in _with_statements(tree):
        if node.lineno <= line <= _head(node):
            found = node
    return found


@lru_cache(maxsize=64)
def _with_statements(tree: ast.AST) -> tuple[ast.With, ...]:
    return tuple([node for node in ast.walk(tree) if isinstance(node, ast.With)])


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
