"""`cute-py layout`: the properties of a layout, and the table of its offsets."""

from __future__ import annotations

from cute_py.cli.arguments import count
from cute_py.cli.expression_commands import add_symbols, symbols_of, text_of
from cute_py.cli.picture_commands import add_drawing, drawn
from cute_py.errors import CuteError, ParseError, refusal
from cute_py.expression import evaluate, show
from cute_py.layout import Mapped, queries
from cute_py.layout.algebra.coalesce import coalesce
from cute_py.layout.algebra.proofs import is_bijective, prove_bijective
from cute_py.layout.bits.f2 import F2Map
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import INTS, SYMBOLS
from cute_py.layout.notation.parse import parse_layout
from cute_py.layout.properties import is_injective
from cute_py.layout.queries import is_static, size
from cute_py.layout.tuples import rank
from cute_py.layout.tuples import show as shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from cute_py.layout.notation.parse_tokens import Value
    from cute_py.layout.types import AnyLayout, OffsetMap

ROWS, COLUMNS = 32, 16


def add_layout(command: ArgumentParser) -> None:
    """Add the arguments of `layout`."""
    command.set_defaults(run=_layout, value=_value, marked=True)
    command.add_argument(
        "text", metavar="TEXT", help="a layout, or an expression; - reads it from the input"
    )
    command.add_argument("--rows", type=count, default=ROWS, help="at most (%(default)s)")
    command.add_argument("--columns", type=count, default=COLUMNS, help="at most (%(default)s)")
    add_symbols(command)
    add_drawing(command)


def _layout(given: Namespace) -> None:
    if _is_drawn(given):
        drawn(given)
        return
    layout = _value(given)
    for label, text in _facts(layout):
        print(f"{label:<10} {text}")
    if isinstance(layout, Mapped):
        print()
        print(_answer(lambda: text_grid(layout, given.rows, given.columns)))


def _is_drawn(given: Namespace) -> bool:
    """Return whether a picture is wanted instead of the table."""
    return bool(given.output or given.format or given.by)


def _value(given: Namespace) -> Value:
    """Return the layout or map that a text is, or that an expression gives; for a picture any value
    of an expression.
    """
    text, symbols = text_of(given), symbols_of(given.symbol)
    try:
        return parse_layout(text, symbols)
    except ParseError as problem:
        error = problem
    try:
        value = evaluate(text, symbols)
    except ParseError as other:
        raise (error if error.code == other.code else other) from None
    if isinstance(value, (Mapped, F2Map)) or _is_drawn(given):
        return value
    raise refusal(
        "wrong-argument",
        operation="cute-py layout",
        value=value,
        type=type(value).__name__,
        wanted="a layout or a map of offsets",
        remedy="print other values with cute-py eval, and draw them with cute-py show",
    )


def _facts(layout: OffsetMap) -> Iterator[tuple[str, str]]:
    """Yield the properties of a layout or of a map of offsets as (label, text)."""
    if isinstance(layout, Mapped):
        yield from _layout_facts(layout)
        return
    yield "map", str(layout)
    if layout.__class__ is Swizzle:
        yield "reads", f"bits {layout.yyy_msk:#b}"
        yield "changes", f"bits {layout.zzz_msk:#b}"
        yield "period", str(layout.period)


def _layout_facts(layout: AnyLayout) -> Iterator[tuple[str, str]]:
    yield "layout", str(layout)
    yield "size", _answer(layout.size)
    yield "cosize", _answer(layout.cosize)
    yield "rank", _answer(lambda: queries.rank(layout.shape))
    yield "depth", _answer(lambda: queries.depth(layout.shape))
    if layout.__class__ is not F2Layout:
        yield "coalesced", _answer(lambda: coalesce(layout))
    if not _is_symbolic(layout):
        yield "injective", _answer(lambda: is_injective(layout))
        yield "bijective", _answer(lambda: is_bijective(layout))
    else:
        yield "bijective", _answer(lambda: prove_bijective(layout))


def _is_symbolic(layout: AnyLayout) -> bool:
    while layout.__class__ is ComposedLayout:
        layout = layout.inner
    return getattr(layout, "_kind", INTS) == SYMBOLS


def _answer(question: Callable[[], object]) -> str:
    """Return the answer as text, or why there is none."""
    try:
        answer = question()
    except CuteError as error:
        return f"not known: {error}"
    if answer.__class__ is bool:
        return "yes" if answer else "no"
    return show(answer)


# -- the table of offsets


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
        return f"(no table: the shape {shown(shape)} is symbolic)"
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
    texts = [[shown(cell) for cell in row] for row in cells]
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
