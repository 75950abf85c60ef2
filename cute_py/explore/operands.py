"""The operands of an operation next to its result, cell by cell linked to it.

Each cell has a key, and cells of one key light up together:

    operation            a                 b                       result
    composition(a, b)    a(i)              a(b(i))                 its offset
    divides              a(i)              a(b(i))                 its offset
    products             a(i)              of the copy's origin    its offset
    inverses             a(i)                                      its index, an offset of a
    others               a(i)                                      its offset
"""

from __future__ import annotations

from dataclasses import replace

from cute_py.errors import CuteError
from cute_py.explore.calls import calls_of, tokens_of
from cute_py.expression import evaluate
from cute_py.layout import tuples
from cute_py.viz.build import picture_of
from cute_py.viz.cells import is_layout, value_cells, values_of
from cute_py.viz.picture import Picture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cute_py.viz.picture import Grid

MOST_CELLS = 1 << 12
CHAINS = (
    "composition",
    "compose",
    "logical_divide",
    "zipped_divide",
    "tiled_divide",
    "flat_divide",
)
PRODUCTS = (
    "logical_product",
    "zipped_product",
    "tiled_product",
    "flat_product",
    "blocked_product",
    "raked_product",
)
INVERSES = ("right_inverse", "left_inverse")
OTHERS = ("complement", "coalesce", "filter", "flatten", "select", "permuted", "group_modes")


def with_operands(text: str, result: Any, by: str | None, bits: int) -> Picture | None:
    """Return the picture of an operation's operands and its result, linked; None for a text that is
    no operation on layouts, and for large ones.

    >>> drawn = with_operands("composition(8:2, 4:2)", evaluate("composition(8:2, 4:2)"), None, 16)
    >>> [grid.title for grid in drawn.grids[0]]
    ['a = 8:2', 'b = 4:2', 'composition(a, b) = 4:4']
    """
    found = _operation(text)
    if found is None or not _drawn(result):
        return None
    name, operands = found
    try:
        layouts = {
            each: value for each, value in zip("ab", operands, strict=False) if _drawn(value)
        }
        if (
            not layouts
            or sum(tuples.product(x.shape) for x in (*layouts.values(), result)) > MOST_CELLS
        ):
            return None
        keys = {each: _keys(name, each, layouts, result) for each in layouts}
    except CuteError:  # an operand that is no layout of numbers
        return None
    letters = [
        each if each in layouts else tuples.show(x) for each, x in zip("ab", operands, strict=False)
    ]
    call = f"{name}({', '.join(letters)})"
    own = list(range(tuples.product(result.shape))) if name in INVERSES else values_of(result)
    parts = [(f"{each} = {layouts[each]}", layouts[each], keys[each]) for each in layouts]
    parts.append((f"{call} = {result}", result, own))
    drawn = [picture_of(layout, by=by, bits=bits) for _, layout, _ in parts]
    colour = _colours([linked for *_, linked in parts], drawn[-1], by, bits)
    grids: tuple[Grid, ...] = ()
    for (title, _, linked), each in zip(parts, drawn, strict=True):
        grids += tuple(_grids(title, each, linked, colour))
    return Picture(str(result), (grids,), link="offset", bits=bits)


def _operation(text: str) -> tuple[str, list[Any]] | None:
    """Return the name and the operands of the operation that is the whole text."""
    tokens = tokens_of(text)
    for start, places, end in calls_of(text, tokens):
        if start == tokens[0].start and end == tokens[-1].start:
            name = text[start : places[0][0] - 1].strip() if places else ""
            if name in (*CHAINS, *PRODUCTS, *INVERSES, *OTHERS):
                return name, [evaluate(text[a:b]) for a, b in places if "=" not in text[a:b]]
            return None
    depth = 0
    for token in tokens:
        depth += (token.kind in "([{<") - (token.kind in ")]}>")
        if token.text == "o" and token.kind == "name" and not depth:
            parts = [evaluate(text[: token.start]), evaluate(text[token.end :])]
            return ("composition", parts) if not isinstance(parts[1], int) else None
    return None


def _drawn(x: Any) -> bool:
    """Return whether x is a layout of offsets, of a rank that has a picture."""
    return is_layout(x) and 0 < tuples.rank(x.shape) < 5 and x(0).__class__ is int


def _keys(name: str, operand: str, layouts: dict[str, Any], result: Any) -> list[int]:
    """Return what links the cells of an operand."""
    if operand == "a":
        return values_of(layouts["a"])
    if name in ("composition", "compose"):
        return values_of(result)
    if name in PRODUCTS:
        from cute_py.layout.algebra.product import logical_product

        return values_of(logical_product(layouts["a"], layouts["b"])[1])
    return [layouts["a"](i) for i in values_of(layouts["b"])]


def _colours(
    keys: list[list[int]], result: Picture, by: str | None, bits: int
) -> dict[int, int | None]:
    """Return the colour of each key: of its bank, of its tile in the result, or of its place among
    the keys.
    """
    if by == "tile":
        shown = [
            c
            for grid in _in_order(result)
            for column in zip(*grid.colours, strict=True)
            for c in column
        ]
        return dict(zip(keys[-1], shown, strict=True))
    order = sorted({key for linked in keys for key in linked})
    numbers = order if by == "bank" else list(range(len(order)))
    return dict(zip(order, value_cells(numbers, bits if by == "bank" else 0).colours, strict=True))


def _in_order(drawn: Picture) -> list[Grid]:
    """Return the grids, each column of places from the top: the order of their indices."""
    return [grid for column in zip(*drawn.grids, strict=True) for grid in column if grid]


def _grids(
    title: str, drawn: Picture, keys: list[int], colour: dict[int, int | None]
) -> Iterator[Grid]:
    """Yield the grids of a layout with the keys of its cells, in the colours of the keys."""
    for grid in _in_order(drawn):
        facts: Any = grid.facts
        own = keys[facts.start : facts.start + len(facts.cells)]
        shown = [colour.get(key) for key in own]
        yield replace(
            grid,
            title=f"{title} {grid.title}".strip(),
            colours=tuple([tuple(shown[i :: grid.rows]) for i in range(grid.rows)]),
            facts=facts._replace(keys=tuple(own)),
        )
        title = ""
