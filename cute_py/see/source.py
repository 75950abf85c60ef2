"""`Source`: the functions that the lines of a kernel are in, and their statements by number."""

from __future__ import annotations

import ast
import linecache
import re
from typing import NamedTuple

from cute_py.errors import file_text
from cute_py.see.statements import statement_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from cute_py.see.rows import Row


class _Span(NamedTuple):
    """A function of a file: its name, and its first and last line."""

    name: str
    first: int
    last: int


class Source:
    """The functions that some lines are in, in the order of the files and of their lines.

    Attributes:
        functions: for each its `name`, `file` and `first` line, its `lines`, and `at`: for each line
            the number of its statement, None where there is none.
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

    def uses(self, number: int, rows: Iterable[tuple[int, Row]]) -> list[int]:
        """Return the numbers of the rows whose names a statement has: of each name the last row
        above it in its function.

        Args:
            number: of the statement.
            rows: the rows, each with the number of its statement.

        """
        _file, line, text, function = self.statements[number]
        found: dict[str, int] = {}
        for k, (at, row) in enumerate(rows):
            if self.statements[at][3] == function and row.line < line:
                name = re.escape(row.name.partition("[")[0])
                if re.search(rf"(?<![\w.]){name}(?!\w)", text):
                    found[row.name] = k
        return list(found.values())


def _functions(source: str) -> Iterator[_Span]:
    """Yield the outermost functions of a file, with their decorators, and the methods of classes."""
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
