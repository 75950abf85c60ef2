"""`layouts`: a table of all tensors of a traced kernel, in the order of its lines."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from html import escape
from itertools import count

from cute_py.calls.arrays import extents_of
from cute_py.errors import refusal, suggestion
from cute_py.records import SWITCH, Shown
from cute_py.see.rows import MEMORIES, Row, rows_of
from cute_py.trace.kernel import Kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from cute_py.calls.arguments import Argument

SHOWN = 48  # characters of what made a value, in the text of a table


class _Table(Shown):
    """Base of tables that print themselves: lines of cells, the first of which is the header."""

    __slots__ = ()

    def title(self) -> str:
        """Return the line above the table."""
        raise NotImplementedError

    def lines(self) -> list[tuple[str, ...]]:
        """Return the cells of the header and of each row."""
        raise NotImplementedError

    def __str__(self) -> str:
        lines = self.lines()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([self.title(), *texts])

    __repr__ = __str__

    def __rich__(self) -> Any:
        """Return the table for rich: `rich.print(table)`."""
        from rich.table import Table
        from rich.text import Text

        head, *rows = self.lines()
        grid = Table(*head, title=self.title(), box=None, title_justify="left")
        for row in rows:
            grid.add_row(*map(Text, row))
        return grid

    def _repr_html_(self) -> str | None:
        """Return the table for notebooks; None, for text, with CUTE_PY_PICTURES=0."""
        return None if os.environ.get(SWITCH) == "0" else self.to_html()

    def to_html(self) -> str:
        """Return the table as an HTML element."""
        head, *rows = self.lines()
        heads = "".join([f"<th>{escape(name)}</th>" for name in head])
        cells = ["".join([f"<td>{escape(cell)}</td>" for cell in row]) for row in rows]
        body = "".join([f"<tr>{row}</tr>" for row in cells])
        title = f"<caption>{escape(self.title())}</caption>"
        return f"<table>{title}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


class Layouts(_Table):
    """The tensors, layouts, tiled operations and atoms of a kernel, in the order of its lines.

    `table["tCsA"]` is the first row of a name, `table.at(42)` has the rows of a line, and
    `table.memory("smem")` those of a memory. It is a sequence of `Row`.

    Attributes:
        name: of the kernel.
        rows: the rows.

    """

    __slots__ = ("name", "rows")

    def __init__(self, name: str, rows: Iterable[Row]) -> None:
        self.name, self.rows = name, tuple(rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Row:
        """Return the first row of a name."""
        for row in self.rows:
            if row.name == name:
                return row
        names = dict.fromkeys([row.name for row in self.rows])
        hint = suggestion(str(name), names) or "print the table"
        facts: dict[str, Any] = {"name": name, "known": ", ".join(names), "hint": hint}
        raise refusal("see-name", operation="layouts", **facts)

    def at(self, line: int) -> Layouts:
        """Return the rows of the statement at a line."""
        found = [row for row in self.rows if row.line == line]
        if not found:
            lines = sorted({row.line for row in self.rows})
            hint = "pass the number of a line"
            if type(line) is int and lines:
                hint = f"the nearest is {min(lines, key=lambda each: abs(each - line))}"
            facts: dict[str, Any] = {"line": line, "known": ", ".join(map(str, lines))}
            raise refusal("see-line", operation="layouts", hint=hint, **facts)
        return Layouts(self.name, found)

    def memory(self, memory: str) -> Layouts:
        """Return the rows of a memory: gmem, smem, rmem or coordinates."""
        if memory not in MEMORIES:
            raise refusal("see-memory", operation="layouts", memory=memory)
        return Layouts(self.name, [row for row in self.rows if row.memory == memory])

    def title(self) -> str:
        """Return the name of the kernel, and its file."""
        return f"{self.name} ({self.rows[0].where.partition(':')[0]})" if self.rows else self.name

    def lines(self) -> list[tuple[str, ...]]:
        """Return the cells; roles and stages have a column where the kernel has them."""
        columns: dict[str, Callable[[Row], str]] = {
            "line": self._lines,
            "role": lambda row: row.role,
            "name": lambda row: row.name,
            "memory": lambda row: row.memory,
            "dtype": lambda row: row.dtype,
            "stages": lambda row: str(row.stages or ""),
            "modes": lambda row: f"({','.join(row.modes)})" if row.modes else "",
            "made by": lambda row: _shortened(row.made),
            "layout": lambda row: row.described,
        }
        for name in ("role", "stages"):
            if not any(getattr(row, name) for row in self.rows):
                del columns[name]
        cells = [tuple([cell(row) for cell in columns.values()]) for row in self.rows]
        return [tuple(columns), *cells]

    def _lines(self, row: Row) -> str:
        """Return the line of a row, with its file if it is not that of the first row."""
        return str(row.line) if row.file == self.rows[0].file else row.where

    def diff(self, other: object) -> Differences:
        """Return what differs from another table; see `cute.diff`."""
        if not isinstance(other, Layouts):
            raise refusal("see-diff", operation="diff", value=other)
        return Differences(self, other)


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


@dataclass(frozen=True, eq=False, repr=False)
class Differences(_Table):
    """What differs between the tables of two kernels, or of two configurations of one: rows of one
    name, in their order, with another memory, dtype or layout, and those that one table alone has.
    """

    a: Layouts
    b: Layouts

    def pairs(self) -> list[tuple[Row | None, Row | None]]:
        """Return the rows of both tables that belong together and differ; None: there is none."""
        ours, theirs = _by_name(self.a), _by_name(self.b)
        keys = dict.fromkeys([*ours, *theirs])
        both = [(ours.get(key), theirs.get(key)) for key in keys]
        return [pair for pair in both if _cells(pair[0]) != _cells(pair[1])]

    def title(self) -> str:
        """Return how many rows differ."""
        total = len({*_by_name(self.a), *_by_name(self.b)})
        return f"{self.a.name} to {self.b.name}: {len(self.pairs())} of {total} rows differ"

    def lines(self) -> list[tuple[str, ...]]:
        """Return two lines for each pair: `-` of the first table, `+` of the second."""
        rows = [
            (sign, str(row.line), row.name, *_cells(row))
            for pair in self.pairs()
            for sign, row in zip("-+", pair, strict=True)
            if row is not None
        ]
        return [("", "line", "name", "memory", "dtype", "layout"), *rows]


def _by_name(table: Layouts) -> dict[tuple[str, int], Row]:
    """Return rows by their name and how often it was there before."""
    seen: dict[str, Iterator[int]] = {}
    return {(row.name, next(seen.setdefault(row.name, count()))): row for row in table}


def _cells(row: Row | None) -> tuple[str, ...]:
    return () if row is None else (row.memory, row.dtype, row.described)


def layouts(kernel: Kernel, *args: object, **named: object) -> Layouts:
    """Return the table of all tensors of a kernel, traced for such arguments.

    Args:
        kernel: a function under `@cute.kernel`.
        args: its arguments; of arrays only shapes, strides and types are looked at.
        named: more of them, by name.

    It has a row for each tensor, layout, tiled operation and atom that a line of the kernel gives a
    name, and for the tensors of the functions that it calls: line and text, memory, dtype, layout,
    the names of the modes in the comment of the line, and what made it. Sizes that are known only
    at run time are symbols; pictures take those of the arguments. `row.owners()` is which thread
    holds which element.

    A table is kept with the plan: asked for again, it costs no trace. Nothing is recorded by other
    traces. Raises LeafTypeError for anything but a kernel, and what tracing it raises.

    >>> import numpy as np
    >>> import cute_py as cute
    >>> from cute_py.kernels.gemm_07_multistage import flagship, gemm_multistage
    >>> a, c = np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float32)
    >>> table = cute.layouts(gemm_multistage, a, a, c, flagship())
    >>> print(table["tAsA"].made, table["tAsA"].modes, table["tAsA"].stages)
    load_a.partition_D(sA) ('CPY', 'CPY_M', 'CPY_K', 'stages') 3
    >>> print(table["tCgC"].owners().layout)
    ((4,8,2,2),((2,2),4,8)):((256,1,16,1024),((128,8),32,2048))
    """
    if not isinstance(kernel, Kernel):
        raise refusal("see-kernel", operation="layouts", type=type(kernel).__name__)
    _seen, rows = kernel.known(rows_of, *args, **named)
    sizes = sizes_of(kernel.arguments(*args, **named))
    return Layouts(kernel.__name__, [replace(row, sizes=sizes) for row in rows])


def sizes_of(arguments: Iterable[Argument]) -> dict[str, int]:
    """Return the sizes, strides and integers of arguments, by their names in a plan."""
    found: dict[str, int] = {}
    for leaf in [leaf for argument in arguments for leaf in argument.leaves()]:
        if leaf.kind == "array":
            for word, extents in zip(("shape", "stride"), extents_of(leaf.value), strict=True):
                found |= {f"{leaf.name}_{word}{k}": n for k, n in enumerate(extents)}
        elif hasattr(leaf.value, "__index__"):
            found[leaf.name] = int(leaf.value)
    return found
