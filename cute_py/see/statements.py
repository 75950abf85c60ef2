"""Statements of a source file: the text of the one at a line, the names that it assigns, what makes
each of them, and the shape that its comment gives.
"""

from __future__ import annotations

import ast
import linecache
import re
from functools import lru_cache
from typing import NamedTuple


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
    lines, found = source.splitlines(), dict[int, Statement]()
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
    comment = lines[-1].rpartition("#")[2] if "#" in lines[-1] else ""
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
