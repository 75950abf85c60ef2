"""Tile shapes to choose from: the expression with another tile."""

from __future__ import annotations

from itertools import islice, product
from typing import Any

from cute_py.errors import CuteError
from cute_py.explore.operands import value_of, whole_call
from cute_py.layout import Mapped, tuples

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

POWERS = (2, 4, 8, 16, 32, 64, 128)
MOST = 12  # tiles that are offered
DIVIDES = ("logical_divide", "zipped_divide", "tiled_divide", "flat_divide")


def tiles(text: str, value: Any) -> tuple[str, list[str]]:
    """Return the beginning of an expression, and tile shapes that follow it, before a bracket: a
    layout divided into tiles; or another tile of a divide, of an MMA or of a thread-value map.

    Law: each of the expressions has a value.

    >>> begin, shapes = tiles("(4,4):(4,1)", value_of("(4,4):(4,1)"))
    >>> f"{begin}{shapes[0]})"
    'zipped_divide((4,4):(4,1),(2,2))'
    """
    name, places = whole_call(text) or ("", [])
    operands = [text[a:b].strip() for a, b in places if "=" not in text[a:b]]
    begin = f"zipped_divide({text},"
    if name in ("mma", "tv", *DIVIDES) and not operands:  # they have names
        return "", []
    if name == "mma":
        begin = f"mma({operands[0]},{(*operands[1:2], '(1,1,1)')[0]},"
    elif name in (*DIVIDES, "tv"):
        begin = f"{name}({operands[0]},"
    good = (tile for tile in _shapes(name, operands, value) if _has_value(f"{begin}{tile})"))
    return begin, list(islice(good, MOST))


def _has_value(text: str) -> bool:
    try:
        value_of(text)
    except CuteError:
        return False
    return True


def _shapes(name: str, operands: list[str], value: Any) -> Iterator[str]:
    """Yield the shapes to try, as text."""
    if name == "mma" and hasattr(value, "tile_size"):
        base = value_of(f"mma({','.join(operands[:2])})")
        m, n, k = (base.tile_size(mode) for mode in range(3))
        yield from (
            f"({m * i},{n * j},{k * p})" for p, i, j in product((1, 2), (1, 2, 4), (1, 2, 4))
        )
    elif name == "tv":
        size = tuples.product(value.tile) if hasattr(value, "tile") else 0
        yield from (f"({size // n},{n})" for n in (1, *POWERS) if not size % n)
    else:
        whole = value_of(operands[0]) if name in DIVIDES else value
        shape = tuples.wrap(getattr(whole, "shape", ())) if isinstance(whole, Mapped) else ()
        extents = [tuples.product(mode) for mode in shape]
        if 0 < len(extents) < 3 and all(x.__class__ is int for x in extents):
            choices = [[n for n in (1, *POWERS) if n <= x and not x % n] for x in extents]
            for tile in sorted(product(*choices), key=lambda tile: (-min(tile), sum(tile))):
                if 1 < tuples.product(tile) < tuples.product(tuple(extents)):
                    yield tuples.show(tile if len(tile) > 1 else tile[0])
