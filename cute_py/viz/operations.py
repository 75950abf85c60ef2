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
from typing import Any, NamedTuple

import cute_py as cute
from cute_py.errors import CuteError
from cute_py.layout import tuples
from cute_py.viz.build import named, picture_of
from cute_py.viz.cells import is_layout, value_cells, values_of
from cute_py.viz.picture import Picture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
NAMES = (*CHAINS, *PRODUCTS, *INVERSES, *OTHERS)


def operation(
    name: str, operands: Sequence[Any], result: Any, by: str | None, bits: int
) -> Picture | None:
    """Return the picture of the operands of an operation and its result, linked; None where they
    are no layouts of numbers, or large.

    Args:
        name: of a function of the algebra, such as "composition".
        operands: one or two.
        result: what the function gives.
        by: what the colours tell apart; None: the keys.
        bits: the width of an element, for banks (bits).

    >>> from cute_py import Layout, composition
    >>> a, b = Layout(8, 2), Layout(4, 2)
    >>> drawn = operation("composition", (a, b), composition(a, b), None, 16)
    >>> [grid.title for grid in drawn.grids[0]]
    ['a = 8:2', 'b = 4:2', 'composition(a, b)']
    """
    if name not in NAMES:
        return None
    try:
        if not _drawn(result):
            return None
        given = dict(zip("ab", operands, strict=False))
        layouts = {each: x for each, x in given.items() if _drawn(x)}
        count = sum(tuples.product(x.shape) for x in (*layouts.values(), result))
        if not layouts or count > MOST_CELLS:
            return None
        letters = [each if each in layouts else tuples.show(x) for each, x in given.items()]
        call = f"{name}({', '.join(letters)})"
        parts = [
            _Part(f"{each} = {x}", x, _keys(name, each, layouts, result), each == "b")
            for each, x in layouts.items()
        ]
        own = list(range(tuples.product(result.shape))) if name in INVERSES else values_of(result)
        grids = _linked([*parts, _Part(call, result, own, False)], "a" in layouts, by, bits)
    except CuteError:  # an operand that is no layout of numbers
        return None
    return Picture(str(result), (grids,), link="offset", bits=bits)


def operation_of(values: Sequence[Any]) -> str:
    """Return the name of an operation that makes the third of three layouts of the first two; ""
    if none does.

    >>> from cute_py import Layout, composition
    >>> a, b = Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))
    >>> operation_of((a, b, composition(a, b)))
    'composition'
    """
    found = [named(x) for x in values]
    if len(found) != 3 or not all(map(is_layout, found)):
        return ""
    for name in (*CHAINS, *PRODUCTS):
        try:
            if getattr(cute, name)(found[0], found[1]) == found[2]:
                return name
        except CuteError:  # not of these
            continue
    return ""


class _Part(NamedTuple):
    title: str
    layout: Any
    keys: list[int]
    visits: bool  # whether its offsets are indices of another, without banks


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


def _linked(parts: list[_Part], composed: bool, by: str | None, bits: int) -> tuple[Grid, ...]:
    """Return the grids of layouts, whose colours tell keys, banks or tiles of the result apart."""
    drawn = [picture_of(part.layout, by=by, bits=bits) for part in parts]
    colour = _colours(parts, drawn[-1], by, bits)
    grids: tuple[Grid, ...] = ()
    for part, each in zip(parts, drawn, strict=True):
        own = by == "bank" and not (part.visits and composed)
        grids += tuple(_grids(part, each, None if own else colour))
    return grids


def _colours(
    parts: list[_Part], result: Picture, by: str | None, bits: int
) -> dict[int, int | None]:
    """Return the colour of each key: of its bank, of its tile in the result, or of its place among
    the keys.
    """
    if by == "tile":
        shown = [
            colour
            for grid in _in_order(result)
            for column in zip(*grid.colours, strict=True)
            for colour in column
        ]
        return dict(zip(parts[-1].keys, shown, strict=True))
    order = sorted({key for part in parts for key in part.keys})
    numbers = order if by == "bank" else list(range(len(order)))
    return dict(zip(order, value_cells(numbers, bits if by == "bank" else 0).colours, strict=True))


def _in_order(drawn: Picture) -> list[Grid]:
    """Return the grids, each column of places from the top: the order of their indices."""
    return [grid for column in zip(*drawn.grids, strict=True) for grid in column if grid]


def _grids(part: _Part, drawn: Picture, colour: dict[int, int | None] | None) -> Iterator[Grid]:
    """Yield the grids of a layout with the keys of its cells, in their colours if given."""
    title = part.title
    for grid in _in_order(drawn):
        facts: Any = grid.facts
        own = part.keys[facts.start : facts.start + len(facts.cells)]
        shown = grid.colours
        if colour is not None:
            found = [colour.get(key) for key in own]
            shown = tuple([tuple(found[i :: grid.rows]) for i in range(grid.rows)])
        linked = facts._replace(keys=tuple(own))
        yield replace(grid, title=f"{title} {grid.title}".strip(), colours=shown, facts=linked)
        title = ""
