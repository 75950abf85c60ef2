"""Ways: one element of an array in all memories that it comes to, as `cute.follow` found it."""

from __future__ import annotations

from itertools import chain

from cute_py.viz.picture import Picture
from cute_py.viz.replay import BANKS, WORD, noted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.viz.picture import Grid
    from cute_py.viz.replay import Found

    Element = dict[str, Any]

HIGH, WIDE, LANES = 16, 64, 32  # rows and columns of a window, and the lanes of a warp
LIT, UNLIT = 1, -1  # what a click selects


def way(found: Found, by: str, bits: int) -> Picture:
    """Return a grid for each array, shared tensor and register storage that the element comes to,
    or that it was made of: the part around the first of its elements, which are lit.

    Shared memory has a row for 128 bytes and a column for each bank, registers have a row for each
    lane of the warp that comes first.
    """
    data = found.as_data()
    events = data["forwards"] or data["backwards"]
    held: dict[str, list[Element]] = {}
    for move in chain.from_iterable(event["moves"] for event in events):
        for element in (*move["from"], *move["to"]):
            held.setdefault(element["name"], []).append(element)
    storages = data["storages"]
    grids = [DRAWN[x[0]["memory"]](name, x, storages.get(name)) for name, x in held.items()]
    shown = tuple([grid for grid in grids if grid is not None])
    title = str(found).partition("\n")[0]
    return Picture(title, tuple([(grid,) for grid in shown]) or ((None,),), link="offset")


def _array(name: str, lit: list[Element], storage: Any) -> Grid:
    """Return the window of the first two modes of an array; the others as in the first element."""
    rest = lit[0]["coord"][2:]
    sizes = (*storage["shape"][:2], 1)[:2]
    places = [(*x["coord"][:2], 0)[:2] for x in lit if x["coord"][2:] == rest]
    titles = [f"{name}({i},{j}{''.join(f',{x}' for x in rest)})" for i, j in places]
    return _window(name, dict(zip(places, titles, strict=True)), sizes, ("mode 0", "mode 1"))


def _shared(name: str, lit: list[Element], storage: Any) -> Grid:
    """Return the window of the words of a block's shared memory, by rows of banks."""
    block = lit[0]["block"]
    words: dict[tuple[int, int], str] = {}
    for x in lit:
        if x["block"] == block:
            place = x["byte"] // (WORD * BANKS), x["bank"]
            coord = "" if x["coord"] is None else f"({','.join(map(str, x['coord']))})"
            words[place] = f"{words.get(place, name)}{coord} byte {x['byte']}"
    rows = -(-(storage["byte"] + storage["bytes"]) // (WORD * BANKS))
    title = f"{name} of block {_tuple(block)}"
    return _window(title, words, (rows, BANKS), ("128 bytes", "bank"))


def _registers(name: str, lit: list[Element], storage: Any) -> Grid:
    """Return the elements of a register storage of all lanes of a warp."""
    block, warp = lit[0]["block"], lit[0]["warp"]
    own = [x for x in lit if (x["block"], x["warp"]) == (block, warp)]
    places = {(x["lane"], x["element"]): f"{name}[{x['element']}] of lane {x['lane']}" for x in own}
    title = f"{name} of block {_tuple(block)} warp {warp}"
    return _window(title, places, (LANES, storage["count"]), ("lane", "element"), LANES)


def _tuple(numbers: list[int]) -> str:
    return f"({','.join(map(str, numbers))})"


def _window(
    title: str,
    lit: dict[tuple[int, int], str],
    sizes: tuple[int, int],
    axes: tuple[str, str],
    high: int = HIGH,
) -> Grid:
    """Return the part of a table around its first lit cell; `lit`: a note for each."""
    first = next(iter(lit))
    top, left = first[0] // high * high, first[1] // WIDE * WIDE
    rows = range(top, min(top + high, sizes[0]))
    columns = range(left, min(left + WIDE, sizes[1]))
    cells = [
        [
            ("x", 1, lit[i, j], LIT) if (i, j) in lit else ("", None, f"{title}: not here", UNLIT)
            for j in columns
        ]
        for i in rows
    ]
    linked = tuple([key for *_, key in chain.from_iterable(cells)])
    shown = sum(key == LIT for key in linked)
    more = f", {shown} of {len(lit)} elements" if shown < len(lit) else ""
    text = f"{title}: {axes[0]} down, {axes[1]} right{more}"
    return noted(text, cells, list(map(str, rows)), list(map(str, columns)), linked)


DRAWN: dict[str, Any] = {
    "global": _array,
    "shared": _shared,
    "registers": _registers,
    "integers": lambda name, lit, storage: None,
}
