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
from cute_py.layout.notation.grid import COLUMNS, ROWS, text_grid
from cute_py.layout.notation.parse import parse_layout
from cute_py.layout.properties import is_injective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from cute_py.layout.notation.parse_tokens import Value
    from cute_py.layout.types import AnyLayout, OffsetMap


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
