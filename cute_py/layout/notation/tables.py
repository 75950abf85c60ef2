r"""Printed tables: their cells by coordinate, and the text of the layout that stands above them.

    here       print_layout, print_tv and `cute-py layout`, of up to four modes; to_latex
    CuTe C++   print_layout; the TikZ of print_latex, of layouts, thread-value maps, copies and MMAs
    others     numbers between blanks, commas and brackets: a line, or an inner bracket, is a row

Source: cutlass include/cute/util/print_tensor.hpp, print_latex.hpp.
"""

from __future__ import annotations

from re import MULTILINE, findall, finditer, fullmatch, search, split, sub
from typing import NamedTuple

from cute_py.errors import refusal
from cute_py.layout.tuples import rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from cute_py.layout.types import Alike

    # coordinate -> offset, or (thread, value)
    Cells: TypeAlias = dict[Any, Any]

_RULE = r"\+[-+]*-[-+]*"  # the line above the rows; in CuTe's tables also between them
_NODE = r"\\node(\[[^\]]*\])? at \((-?[\d.]+),(-?[\d.]+)\) \{(.*)\};"
_HELD = r"\\shortstack\{T(\d+) \\\\ V(\d+)\}"
_NUMBERS = r"(?:array\()?([\s\d,;()\[\]{}+-]*?)(?:, dtype=\w+)?\)?\s*"


class Table(NamedTuple):
    """The text above a table, "" without one, and the cells of each of its grids, none if they show
    no numbers.
    """

    title: str
    grids: list[Cells]


def is_table(text: str) -> bool:
    """Return whether a text has the rule of a printed table, or is TikZ."""
    return bool(search(rf"^ *{_RULE}", text, MULTILINE) or search(_NODE, text))


def table_of(text: str) -> Table:
    r"""Return what a printed table shows.

    >>> table_of("(2,2):(2,1)\n    0  1\n  +------\n0 | 0  1\n1 | 2  3")
    Table(title='(2,2):(2,1)', grids=[{(0, 0): 0, (0, 1): 1, (1, 0): 2, (1, 1): 3}])
    """
    return _tikz(text) if search(_NODE, text) else _printed(text.splitlines())


def offsets_of(text: str) -> Cells:
    r"""Return the offsets in a text by coordinate: those of a printed table, or numbers alone.

    Raises LayoutError for a text with other words, with several tables, or with rows of different
    lengths.

    >>> offsets_of("0 4\n1 5"), offsets_of("[0, 2, 4]")
    ({(0, 0): 0, (0, 1): 4, (1, 0): 1, (1, 1): 5}, {0: 0, 1: 2, 2: 4})
    """
    grids = table_of(text).grids if is_table(text) else _numbers(text)
    if len(grids) != 1 or not all(x.__class__ is int for x in grids[0].values()):
        raise refusal("table-offsets", operation="fit", count=len(grids), text=text.strip()[:40])
    return grids[0]


def require_same(layout: Alike, text: str) -> None:
    """Refuse a table that shows other offsets than the layout above it."""
    grids = table_of(text).grids
    for coord, got in grids[0].items() if len(grids) == 1 else ():
        wanted = layout(
            coord[-1] if coord.__class__ is tuple and rank(layout.shape) == 1 else coord
        )
        if wanted != got:
            facts = {"layout": layout, "coord": coord, "got": got, "wanted": wanted}
            raise refusal("table-title", operation="parse_layout", **facts)


# -- tables in text


def _printed(lines: list[str]) -> Table:
    first = next(n for n, line in enumerate(lines) if search(_RULE, line))
    above = [line.strip() for line in lines[: max(0, first - 1)] if line.strip()[:5] != "(_,_,"]
    title = sub(r"^layout +", "", next(filter(None, above), ""))
    spans: list[tuple[int, int]] = []
    blocks: list[tuple[str, list[list[str]]]] = []  # their coordinates behind the rows and columns
    for n, line in enumerate(lines):
        marks = [each.span() for each in finditer(_RULE, line)]
        if marks and not spans:
            names = findall(r"\(_,_,([\d,]+)\)", lines[n - 2] if n > 1 else "")
            blocks += [(name, []) for name in names or [""] * len(marks)]
            spans = marks
        elif spans and "|" in line:
            for (start, end), (_, rows) in zip(spans, blocks[-len(spans) :], strict=False):
                bars = line.rstrip().endswith("|")  # CuTe's: one between cells
                rows.append(line.split("|")[1:-1] if bars else line[start + 1 : end].split())
        elif not marks:
            spans = []
    flat = not search(r"^ *\d+ *\|", "\n".join(lines[first:]), MULTILINE)
    return Table(title, _grids(blocks, flat))


def _grids(blocks: list[tuple[str, list[list[str]]]], flat: bool) -> list[Cells]:
    """Return the cells of blocks; none if some are no numbers."""
    grids: list[Cells] = []
    for name, rows in blocks:
        block = tuple(map(int, name.split(","))) if name else ()
        numbers = [row for row in rows if not all(fullmatch(r"b\d+", x) for x in row)]  # banks
        if not all(fullmatch(r" *-?\d+ *", x) for row in numbers for x in row):
            return []
        cells = {(i, j, *block): int(x) for i, row in enumerate(numbers) for j, x in enumerate(row)}
        if not (block and grids):
            grids.append({})
        grids[-1].update({c[1]: x for c, x in cells.items()} if flat else cells)
    return grids


def _numbers(text: str) -> list[Cells]:
    """Return the cells of numbers without a rule, none if there are other words."""
    found = fullmatch(_NUMBERS, text.strip())
    if found is None:
        return []
    inside = found[1].strip().removeprefix("[").removesuffix("]")
    rows = [findall(r"[+-]?\d+", row) for row in inside.replace("]", "\n").splitlines()]
    rows = [row for row in rows if row]
    if len(rows) < 2:
        return [{j: int(x) for j, x in enumerate(rows[0])}] if rows else []
    return [{(i, j): int(x) for i, row in enumerate(rows) for j, x in enumerate(row)}]


# -- TikZ


def _tikz(text: str) -> Table:
    """Return what TikZ shows: here the title is a node, at CuTe a comment above all else."""
    if found := search(r"\\node\[anchor=west\] at \(0,0\) \{(.*)\};", text):
        return Table(sub(r"\\([_&%#${}])", r"\1", found[1]), [])
    found = search(r"% Layout: *(.*)", text)
    parts = [part for part in split(r"\\draw.*", text) if search(_NODE, part)]
    grids = [grid for part in parts if (grid := _nodes(part))]
    return Table(found[1].strip() if found else "", grids)


def _nodes(text: str) -> Cells:
    """Return the filled nodes, from the first row and column on: offsets, or thread and value."""
    filled = [each for each in findall(_NODE, text) if "fill=" in each[0]]
    top = min([int(m) for _, m, _, _ in filled], default=0)
    left = min([int(n) for _, _, n, _ in filled], default=0)
    cells: Cells = {}
    for _, m, n, shown in filled:
        held = fullmatch(_HELD, shown)
        number = int(shown) if fullmatch(r"-?\d+", shown) else shown
        cells[int(m) - top, int(n) - left] = tuple(map(int, held.groups())) if held else number
    return cells
