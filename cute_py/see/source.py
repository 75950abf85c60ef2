"""The source of a kernel: the statement at a line, the names that it assigns, what makes each of
them, and the shape that its comment gives; and `Source`, the functions that some lines are in.
"""

from __future__ import annotations

import ast
import linecache
import re
from functools import lru_cache
from typing import NamedTuple

from cute_py.errors import file_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from cute_py.see.rows import Row


class Statement(NamedTuple):
    """A simple statement, or the head of one with a block.

    Attributes:
        line: its first line.
        text: in one line, without comments.
        targets: the names that it assigns, with their attributes, in order.
        makers: for each target what it is assigned, as text.
        shapes: for each target the names of its modes in the comment, () where it has none.

    """

    line: int
    text: str
    targets: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    shapes: tuple[tuple[str, ...], ...] = ()

    def of(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Return what makes a target, and the names of its modes."""
        root = re.split(r"[.\[]", name)[0]
        for each in (name, root):
            if each in self.targets:
                k = self.targets.index(each)
                return self.makers[k], self.shapes[k]
        return "", ()


def statement_at(file: str, line: int) -> Statement:
    """Return the statement that a line is part of; its text is "" where there is no source."""
    lines = linecache.getlines(file)
    return _statements("".join(lines)).get(line, Statement(line, ""))


@lru_cache(maxsize=64)
def _statements(source: str) -> dict[int, Statement]:
    """Return the innermost statement of each line."""
    try:
        module = ast.parse(source)
    except SyntaxError:
        return {}
    lines, found = source.split("\n"), dict[int, Statement]()  # Python's lines: no form feeds
    for node in ast.walk(module):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            last = max(last, node.lineno)
            made = _statement(node, lines[node.lineno - 1 : last])
            first = min([x.lineno for x in getattr(node, "decorator_list", ())] + [node.lineno])
            found.update(dict.fromkeys(range(first, last + 1), made))
    return found


def _statement(node: ast.stmt, lines: list[str]) -> Statement:
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) or node.value is None:
        words = [line.partition("  #")[0].strip() for line in lines]
        return Statement(node.lineno, " ".join(words))
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    pairs = [pair for target in targets for pair in _assigned(target, node.value)]
    names = tuple([ast.unparse(target) for target, _ in pairs])
    makers = tuple([_text(value, lines, node.lineno) for _, value in pairs])
    comment = lines[-1].encode()[node.end_col_offset :].decode().partition("#")[2]
    text = _text(node, lines, node.lineno)
    return Statement(node.lineno, text, names, makers, _shapes(comment, len(names)))


def _text(node: ast.stmt | ast.expr, lines: list[str], first: int) -> str:
    """Return the text of a part of a statement whose lines begin at `first`: as it is written, if
    that is in one line.
    """
    if node.lineno != node.end_lineno:
        return ast.unparse(node)
    line = lines[node.lineno - first].encode()
    return line[node.col_offset : node.end_col_offset].decode()


def _assigned(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return the names of a target, each with what it is assigned: of a tuple its own entry."""
    if isinstance(target, (ast.Tuple, ast.List)):
        values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        if len(values) != len(target.elts):
            values = [value] * len(target.elts)
        return [p for pair in zip(target.elts, values, strict=True) for p in _assigned(*pair)]
    return [(target, value)]


# -- comments


def _shapes(comment: str, count: int) -> tuple[tuple[str, ...], ...]:
    """Return the names of modes that a comment has for each of `count` targets.

    >>> _shapes(" (CPY,CPY_M,k or stages)", 2)
    (('CPY', 'CPY_M', 'k'), ('CPY', 'CPY_M', 'stages'))
    >>> _shapes(" (MMA,MMA_M or _N,MMA_K)", 2)
    (('MMA', 'MMA_M', 'MMA_K'), ('MMA', 'MMA_N', 'MMA_K'))
    >>> _shapes(" (CPY,CPY_M,stages), no stages", 2)
    (('CPY', 'CPY_M', 'stages'), ('CPY', 'CPY_M'))
    >>> _shapes(" all threads", 1)
    ((),)
    """
    groups = [found[1] for found in re.finditer(r"\(([^()]*)\)", comment)]
    if not groups:
        return ((),) * count
    if len(groups) != count:
        groups = groups[:1] * count
    left = re.findall(r"\bno (\w+)", comment)
    shapes = []
    for k, group in enumerate(groups):
        names = [_mode(name.split(" or "), k) for name in group.split(",")]
        dropped = left if k and k == count - 1 else []
        shapes.append(tuple([name for name in names if name not in dropped]))
    return tuple(shapes)


def _mode(options: list[str], k: int) -> str:
    """Return the name of a mode for target number k; `_N` after `MMA_M` means `MMA_N`."""
    first, own = options[0].strip(), options[min(k, len(options) - 1)].strip()
    return first.rpartition("_")[0] + own if own.startswith("_") and own != first else own


# -- functions


class _Span(NamedTuple):
    """A function of a file: its name, and its first and last line."""

    name: str
    first: int
    last: int


class Source:
    """The functions that some lines are in, in the order of the files and of their lines.

    Attributes:
        functions: for each its `name`, `file` and `first` line, its `lines`, and `at`: for each
            line the number of its statement, None where there is none.
        statements: for each its file, its line, its text and the number of its function.

    """

    def __init__(self, lines: Iterable[tuple[str, int]]) -> None:
        self.functions: list[dict[str, Any]] = []
        self.statements: list[tuple[str, int, str, int]] = []
        self._numbers: dict[tuple[str, int], int] = {}
        wanted: dict[str, set[int]] = {}
        for file, line in lines:
            if line:
                wanted.setdefault(file, set()).add(line)
        for file, numbers in wanted.items():
            self._add(file, numbers)

    def _add(self, file: str, wanted: set[int]) -> None:
        """Add the functions of a file that have these lines; lines outside of any by themselves."""
        text = linecache.getlines(file)
        known = list(_functions("".join(text)))
        around = {n: next((s for s in known if s.first <= n <= s.last), None) for n in wanted}
        spans = {span or _Span("", n, n) for n, span in around.items()}
        for name, first, last in sorted(spans, key=lambda span: span.first):
            at = [self._numbered(file, n, n in wanted) for n in range(first, last + 1)]
            held = [line.rstrip("\n") for line in text[first - 1 : last]] or [""]
            facts = {"name": name, "file": file_text(file), "first": first}
            self.functions.append({**facts, "lines": held, "at": at})

    def _numbered(self, file: str, line: int, is_wanted: bool) -> int | None:
        """Return the number of the statement at a line, a new one for a new statement."""
        found = statement_at(file, line)
        if not found.text and not is_wanted:
            return None
        number = self._numbers.setdefault((file, found.line), len(self.statements))
        if number == len(self.statements):
            self.statements.append((file, found.line, found.text, len(self.functions)))
        return number

    def number(self, file: str, line: int) -> int | None:
        """Return the number of the statement at a line, None for one that is not known."""
        return self._numbers.get((file, statement_at(file, line).line)) if line else None

    def uses(self, number: int, rows: Iterable[Row]) -> list[int]:
        """Return the numbers of the rows whose names the statement with a number has: of each name
        the last row above it in its function.
        """
        _file, line, text, function = self.statements[number]
        found: dict[str, int] = {}
        for k, row in enumerate(rows):
            at: Any = self.number(*row.place)
            if self.statements[at][3] == function and row.line < line:
                name = re.escape(row.name.partition("[")[0])
                if re.search(rf"(?<![\w.]){name}(?!\w)", text):
                    found[row.name] = k
        return list(found.values())


def _functions(source: str) -> Iterator[_Span]:
    """Yield the outermost functions of a file, with decorators, and the methods of classes."""
    try:
        nodes: list[Any] = list(ast.parse(source).body)
    except SyntaxError:
        return
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            nodes += node.body  # which the loop goes on to
        elif isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *[x.lineno for x in node.decorator_list]])
            yield _Span(node.name, first, node.end_lineno or node.lineno)
