"""Checks that a run-time block does not rebind or change Python values that are used later.

The body of `cute.when` is run once at trace time, whatever the condition will be. So after `s = 2`
inside it, `s` would be 2 for all threads. Names are compared at entry and exit. The bytecode
shows whether a name is live afterwards (no source needed); the source shows `return`, `break` and
`continue`.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections import Counter
from functools import lru_cache
from types import CodeType

from cute_py.errors import is_own, place_text, refusal
from cute_py.trace.askers import require_statement
from cute_py.trace.contents import (
    Contents,
    Locked,
    Snapshot,
    same,
    same_state,
    unreadable_in,
)
from cute_py.trace.liveness import loaded_between, loop_ends, number_at, used_after, used_from
from cute_py.trace.state import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn, TypeAlias

    Alike: TypeAlias = Callable[[object, object], bool]


MOST_NESTED = 200  # blocks, from where on functions that call themselves are refused
_RECURSION = 16  # calls of a function inside of itself, where these or Python's stack are reached


def refuse_recursion(calls: list[CodeType]) -> None:
    """Refuse functions that call themselves, maybe through each other, among nested calls."""
    names = [code.co_name for code, count in Counter(calls).items() if count >= _RECURSION]
    if names:
        raise refusal("trace-recursion", operation="kernel", names=", ".join(names))


class Entry:
    """The names of all frames of a kernel at the entry of a block. Large arrays are read-only until
    the block or the trace ends.
    """

    def __init__(self) -> None:
        self.frames = kernel_frames()
        if current().scope.depth >= MOST_NESTED:
            refuse_recursion([frame.f_code for frame in self.frames])
        self.places = [(frame.f_lineno, frame.f_lasti) for frame in self.frames]
        self.before = Snapshot(self.frames)
        self.locked = Locked(self.before.large)
        current().locked.append(self.locked)


class Rebinding(Entry):
    """The names at the entry of a block, to be compared at its exit."""

    def __init__(self, operation: str, kind: str = "branch") -> None:
        super().__init__()
        self.operation, self.kind = operation, kind

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
            require_statement(frame, entry, self.operation)
            if frame.f_lasti != entry and (i or line != frame.f_lineno):
                self._refuse_word(frame, leaves(code, line, frame.f_lineno))
            before, later = self.before.names[i], after.names[i]
            found = changed(before, later)
            used = used_after(code, frame.f_lasti, found)
            if self.kind == "loop":
                used |= used_after(code, entry, found)
            if used:
                refuse_rebound(self.operation, self.kind, used, _where(frame, line))
            names = later if body is None else {"body": after.contents(body)}
            refuse_unreadable(frame, (entry, frame.f_lasti), names, self.operation)


class Iterations(Entry):
    """The names at the entry of a run-time loop, compared after each trace of its body.

    `known`: the same of this loop, when the body of an enclosing one was traced before.
    `loops`: the same of the loops inside, in the last trace; at first, in that of `known`.
    `ends`: whether no thread leaves a body before its end, as a trace has found.
    """

    def __init__(self, known: Iterations | None) -> None:
        super().__init__()
        self.seen = [self.before]
        self.codes = [(frame.f_code, frame.f_lasti) for frame in self.frames]
        self.known = known if known is not None and known.codes == self.codes else None
        self.loops: list[Iterations] = self.known.loops if self.known else []
        self.ends: bool = self.known is not None and self.known.ends

    def record(self, loops: list[Iterations]) -> None:
        """Keep the names at the end of one trace of the body, and the loops inside."""
        self.seen.append(Snapshot(self.frames))
        self.loops = loops

    def again(self) -> bool:
        """Tell whether the body must be traced: at first, and again where one trace does not show
        what a second one would record. It does where it ended as those of `known` did: they have
        shown that nothing moves from there on.
        """
        if len(self.seen) != 2:
            return len(self.seen) < 2
        if self.known is None:
            return True
        before, after = self.known.seen[-1], self.seen[-1]
        return any(self._moving(i, before, after, same_state) for i in range(len(self.frames)))

    def _body(self, i: int) -> tuple[int, int]:
        """Return the numbers of the first instructions of an iteration, and after the loop."""
        code, entry = self.codes[i]
        start, end = loop_ends(code, entry)
        if start is None or end is None:  # it calls what has the loop
            start = end = number_at(code, entry) + 1
        return start, end

    def _moving(self, i: int, before: Snapshot, after: Snapshot, alike: Alike) -> set[str]:
        names = changed(before.names[i], after.names[i], alike)
        return used_from(self.codes[i][0], self._body(i)[0], names)

    def check(self, sure: bool) -> None:
        """Refuse loop-carried names and, in a loop that may not run (not `sure`), names that the
        body changes and the code after it uses.
        """
        first, middle, last = self.seen[0], self.seen[1], self.seen[-1]
        for i, frame in enumerate(self.frames):
            code, entry = self.codes[i]
            where, after = _where(frame, self.places[i][0]), last.names[i]
            moving = self._moving(i, middle, last, same)
            if moving:
                names = ", ".join(sorted(moving))
                raise refusal("trace-carried", operation="cute.range", names=names, where=where)
            if not sure:
                used = used_from(code, self._body(i)[1], changed(first.names[i], after))
                if used:
                    refuse_rebound("cute.range", "loop", used, where)
            refuse_unreadable(frame, (entry, entry), after, "cute.range")
        self.frames, self.known = [], None


class Repeated:
    """What a function contains that is called in each iteration of a loop, compared after each of
    its calls and after the body: a value that changes then would be that of the trace.
    """

    def __init__(
        self, function: Callable[[], object], operation: str, line: tuple[str, int]
    ) -> None:
        self.function, self.operation, self.line = function, operation, line
        self.seen: object = None
        self.locked = Locked([])

    def record(self) -> None:
        """Read what the function contains now; refuse it if that has changed."""
        reading = Snapshot([])
        before, self.seen = self.seen, reading.contents(self.function)
        names, where = sorted(_changed_parts(before, self.seen)), place_text(self.line)
        if before is not None and names:
            facts = {"names": ", ".join(names), "where": where}
            raise refusal("trace-carried", operation=self.operation, **facts)
        value = unreadable_in(self.seen)
        if value is not None:
            facts = {"name": "the condition", "type": type(value).__name__}
            raise refusal("trace-unreadable", operation=self.operation, where=where, **facts)
        self.locked.unlock()
        self.locked = Locked(reading.large)
        current().locked.append(self.locked)


def _changed_parts(a: object, b: object) -> list[str]:
    """Return the names of the parts of a value in which two readings differ, of a function its
    variables.
    """
    if same(a, b):
        return []
    if not (isinstance(a, Contents) and isinstance(b, Contents)):
        return ["the condition"]
    keys = [k for k in a.parts if k not in b.parts or not same(a.parts[k], b.parts[k])]
    return [str(key[-1] if isinstance(key, tuple) else key) for key in keys] or ["the condition"]


def kernel_frames() -> list[FrameType]:
    """Return the frames of the user's code, from the innermost one up to the kernel's function."""
    top, found = current().frame, []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not top:
        if not is_own(frame):
            found.append(frame)
        frame = frame.f_back
    return found


def changed(before: dict[str, object], after: dict[str, object], alike: Alike = same) -> list[str]:
    """Return the names that are new, deleted, or contain something else than before."""
    kept = [name for name in after if name in before and alike(before[name], after[name])]
    return list((before.keys() | after.keys()) - set(kept))


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
    used = loaded_between(frame.f_code, *between)
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


# -- return, break, continue


def leaves(code: CodeType, line: int, end: int | None = None) -> tuple[str, int] | bool | None:
    """Return the (word, line) that leaves the `with` block that begins at a line; False if there is
    no such word, None if the source is not available.

    With `end`, code up to that line may have entered and left the block by other ways than its own
    `with` statement: a class, a context manager or an ExitStack around it.
    """
    tree = _tree_of(code)
    if tree is None:
        return None
    block = _block_at(tree, line)
    if block is not None:
        statements = block.body
    else:
        statements = [] if end is None else _between(tree, line, end)
    return next(filter(None, map(_leaving, statements)), False)


def _between(tree: ast.AST, line: int, end: int) -> list[ast.stmt]:
    """Return the statements of a block that begins at a line, and has no `with` statement there."""
    around = [x for x in ast.walk(tree) if isinstance(x, ast.With) and _spans(x, line)]
    inner = max(around, key=lambda x: x.lineno, default=None)
    if inner is not None and _head(inner) >= end >= inner.lineno:  # it ends with this one
        return [x for x in inner.body if x.lineno > line]
    every = [x for x in ast.walk(tree) if isinstance(x, ast.stmt)]
    return [x for x in every if line < x.lineno <= end and _is_leaf(x)]


def _is_leaf(x: ast.stmt) -> bool:
    return isinstance(x, (ast.Return, ast.Break, ast.Continue))


def _head(block: ast.With) -> int:
    """Return the last line of the head of a `with` statement."""
    return max(item.context_expr.end_lineno or 0 for item in block.items)


def _spans(block: ast.With, line: int) -> bool:
    return block.lineno <= line <= (block.end_lineno or 0)


def _tree_of(code: CodeType) -> ast.AST | None:
    """Return the source that code is from: not another one that has the same name of a file, as
    "<string>" may have, or what the file was before.
    """
    for _known_or_read_again in range(2):
        tree = _tree(code.co_filename)
        if tree is None or code.co_name == "<module>":
            return tree
        name = "" if code.co_name.startswith("<") else code.co_name  # a lambda, a comprehension
        if (code.co_firstlineno, name) in _scopes(tree):
            return tree
        linecache.checkcache(code.co_filename)
    return None


@lru_cache(maxsize=64)
def _scopes(tree: ast.AST) -> frozenset[tuple[int, str]]:
    """Return the first line and the name of whatever may have code of its own."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add((min(x.lineno for x in (node, *node.decorator_list)), node.name))
        elif isinstance(node, ast.expr):
            found.add((node.lineno, ""))
    return frozenset(found)


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


def _leaving(node: ast.AST, loops: bool = False) -> tuple[str, int] | None:
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
