"""A layout as a table of its offsets, in plain text."""

from __future__ import annotations

from cute_py.layout.queries import is_static, size
from cute_py.layout.tuples import rank, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.types import AnyLayout

ROWS, COLUMNS = 32, 16


def text_grid(layout: AnyLayout, rows: int = ROWS, columns: int = COLUMNS) -> str:
    """Return the offsets with mode 0 downwards and mode 1 to the right, coordinates at the edges.

    Args:
        layout: a callable with a shape; rank 1 in lines of `columns` indices.
        rows: how many rows are shown at most.
        columns: how many columns are shown at most.

    Of a larger layout the corner is shown, as the last line says. Other ranks and symbolic shapes
    have no table, and the only line says why.

    >>> from cute_py import Layout
    >>> print(text_grid(Layout((2, 3), (3, 1))))
        0 1 2
      +------
     0| 0 1 2
     1| 3 4 5
    >>> print(text_grid(Layout((64, 64)), 1, 3))
        0  1   2
      +---------
     0| 0 64 128
    (row 0 of 64, columns 0 to 2 of 64)
    """
    shape = layout.shape
    if not is_static(shape):
        return f"(no table: the shape {show(shape)} is symbolic)"
    if rank(shape) > 2:
        return f"(no table: rank {rank(shape)}; group_modes to rank 2 gives one)"
    if rank(shape) == 2:
        height, width = size(shape, 0), size(shape, 1)
        labels = list(range(min(rows, height)))
        cells = [[layout(i, j) for j in range(min(columns, width))] for i in labels]
        return _lines(
            labels, cells, _corner("row", rows, height), _corner("column", columns, width)
        )
    total = size(shape)
    labels = list(range(0, total, columns))[:rows]
    cells = [[layout(i) for i in range(at, min(at + columns, total))] for at in labels]
    return _lines(labels, cells, _corner("index", rows * columns, total, "indices"), "")


def _corner(name: str, shown: int, total: int, names: str = "") -> str:
    """Return which of the rows or columns are shown, nothing if all are."""
    if shown >= total:
        return ""
    if shown == 1:
        return f"{name} 0 of {total}"
    return f"{names or name + 's'} 0 to {shown - 1} of {total}"


def _lines(labels: list[int], cells: list[list[AnyLayout]], *corner: str) -> str:
    texts = [[show(cell) for cell in row] for row in cells]
    head = [str(j) for j in range(len(texts[0]))]
    widths = [max(len(cell) for cell in column) for column in _columns([head, *texts])]
    edge = max(2, len(str(labels[-1])))
    lines = [" " * (edge + 2) + _joined(head, widths), " " * edge + "+"]
    lines[1] += "-" * (len(lines[0]) - edge - 1)
    lines += [
        f"{at:>{edge}}| {_joined(row, widths)}" for at, row in zip(labels, texts, strict=True)
    ]
    cut = ", ".join([part for part in corner if part])
    return "\n".join([*lines, f"({cut})"] if cut else lines)


def _columns(rows: list[list[str]]) -> list[list[str]]:
    return [[row[j] for row in rows if j < len(row)] for j in range(len(rows[0]))]


def _joined(row: list[str], widths: list[int]) -> str:
    return " ".join([f"{cell:>{width}}" for cell, width in zip(row, widths, strict=False)])
