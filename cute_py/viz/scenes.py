"""Scenes: pictures as JSON, for scripts that answer the pointer and the keys.

A scene is a dict of texts, numbers, lists and dicts:

    v        1, the version of this format
    title    what the scene shows
    link     what a click selects in all panels: "thread", "element" (equal indices) or "offset"
    bits     the width of an element (bits), for bytes and banks
    palette  the colours, as RRGGBB
    places   rows of places side by side: the number of a panel, or None
    panels   the grids of the picture

Each panel has `title`, `rows`, `columns`, `row_labels` and `column_labels` (None: 0, 1, ...),
`row_bounds` and `column_bounds` (the sizes of the blocks that the modes of an axis make), `shape`
(of its coordinates, nested), `start` (the index of its first cell), `across` (whether indices run
along the rows), and lists with an entry for each cell, in the order of their colexicographical
indices: `colour`, an index into the palette, or None, and what the cell shows:

    offset             of a layout
    coordinate         of a layout with coordinates as values: its text
    thread and value   of a thread-value layout: an index into `threads`, whose entries are sets of
                       threads as text such as "0-31,64", and the value; or lists of both, if the
                       cell has several sets or values; or None
    text               of any other picture, and of cells that show more: the text of the cell

Some have `notes`, what a reader of each cell is told, `marked`, the cells with a frame, and `keys`:
for each cell, what links it in place of its offset. `steps` says that the panels are shown one
after the other.
"""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from itertools import chain

from cute_py.layout.algebra.explain import Derivation
from cute_py.viz.build import picture_of
from cute_py.viz.cells import by_threads, coordinate_text, spans
from cute_py.viz.picture import RGB, mode_sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from cute_py.layout.types import IntTuple
    from cute_py.viz.build import Drawable
    from cute_py.viz.picture import Facts, Grid, Picture

VERSION = 1
FEWEST = 8  # entries of a list that is packed
NUMBER = re.compile(r"0|[1-9]\d{0,14}")


def scene(x: Drawable, *, by: str | None = None, bits: int = 16) -> dict[str, Any]:
    """Return the picture of x as a scene: JSON that a script can draw and explore.

    Args:
        x: an argument of `picture_of`, or what `layout.why()` returned.
        by: what the colours show: "offset", "bank", "thread", "value" or "tile".
        bits: the width of an element, for bytes and banks (bits).

    Law: each pair of thread and value is in the cell where the thread-value layout maps it. Raises
    what `picture_of` raises.

    >>> from cute_py import Layout
    >>> drawn = scene(Layout((2, 2), (2, 1)))
    >>> drawn["v"], drawn["link"], drawn["panels"][0]["offset"]
    (1, 'offset', [0, 2, 1, 3])
    """
    if isinstance(x, Derivation):
        from cute_py.viz.derivations import tree  # it makes scenes of its steps

        return tree(x.step)
    return scene_of(picture_of(x, by=by, bits=bits))


def scene_of(drawn: Picture) -> dict[str, Any]:
    """Return the scene of a picture."""
    panels: list[dict[str, Any]] = []
    places: list[list[int | None]] = []
    for row in drawn.grids:
        places.append([])
        for grid in row:
            places[-1].append(None if grid is None else len(panels))
            if grid is not None:
                panels.append(_panel(grid))
    return {
        "v": VERSION,
        "title": drawn.title,
        "link": drawn.link or _link(panels),
        "bits": drawn.bits,
        "palette": list(RGB),
        "places": places,
        "panels": panels,
        "steps": drawn.steps,
    }


def as_json(found: dict[str, Any]) -> str:
    """Return a scene as JSON that may stand in the element `<script>` of a page."""
    text = json.dumps(found, separators=(",", ":"))
    for mark in "<>&":  # no title ends the element, or begins a comment
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def packed(x: Any) -> str:
    """Return JSON as base64 of gzip; `unpacked` of `see/page.js` gives it again.

    >>> len(packed(list(range(10_000)))) < 200
    True
    """
    text = json.dumps(shortened(x), separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def shortened(x: Any) -> Any:
    """Return JSON in which long lists are the differences of their integers, {"+": [...]}, or the
    text that their texts share and the numbers in it, {"#": text, "of": [numbers, ...]}.

    >>> shortened({"offset": [3, 4, 6, 8, 10, 12, 14, 16], "rows": 8})
    {'offset': {'+': [3, 1, 2, 2, 2, 2, 2, 2]}, 'rows': 8}
    >>> shortened([f"T{t}" for t in range(8)])
    {'#': 'T#', 'of': [{'+': [0, 1, 1, 1, 1, 1, 1, 1]}]}
    """
    if isinstance(x, dict):
        return {name: shortened(each) for name, each in x.items()}
    if not isinstance(x, list):
        return x
    kinds = {each.__class__ for each in x} if len(x) >= FEWEST else set()
    if kinds == {int}:
        return {"+": [b - a for a, b in zip([0, *x[:-1]], x, strict=True)]}
    forms = {NUMBER.sub("#", each) for each in x} if kinds == {str} else set()
    if len(forms) == 1 and NUMBER.search(x[0]) and not any("#" in each for each in x):
        numbers = zip(*[map(int, NUMBER.findall(each)) for each in x], strict=True)
        return {"#": forms.pop(), "of": [shortened(list(column)) for column in numbers]}
    return [shortened(each) for each in x]


def _link(panels: list[dict[str, Any]]) -> str:
    """Return what the cells of the panels have in common."""
    if any("thread" in panel for panel in panels):
        return "thread"
    together = len(panels) > 1 and all(panel["start"] == 0 for panel in panels)
    alike = len({len(panel["colour"]) for panel in panels}) == 1
    return "element" if together and alike else "offset"


def _panel(grid: Grid) -> dict[str, Any]:
    """Return the panel of a grid."""
    facts = grid.facts
    across = facts is None or facts.across
    colours = grid.colours if across else zip(*grid.colours, strict=True)
    colour = list(chain.from_iterable(colours))
    panel: dict[str, Any] = {
        "title": grid.title,
        "rows": grid.rows,
        "columns": grid.columns,
        "row_labels": _labels(grid.row_labels),
        "column_labels": _labels(grid.column_labels),
        "row_bounds": list(mode_sizes(grid.row_shape)),
        "column_bounds": list(mode_sizes(grid.column_shape)),
        "shape": _listed((grid.columns, grid.rows) if facts is None else facts.shape),
        "start": 0 if facts is None else facts.start,
        "across": across,
    }
    rows = grid.lines if across else zip(*grid.lines, strict=True)
    text = ["\n".join(lines) for lines in chain.from_iterable(rows)]
    if facts is not None:
        panel.update(_shown(facts))
        text, colour = text[: len(facts.cells)], colour[: len(facts.cells)]
    if facts is None or facts.notes or ("offset" in panel and text != list(map(str, facts.cells))):
        panel["text"] = text
    return {**panel, "colour": colour}


def _labels(labels: tuple[str, ...]) -> list[str] | None:
    return None if labels == tuple(map(str, range(len(labels)))) else list(labels)


def _listed(shape: IntTuple) -> Any:
    return [_listed(mode) for mode in shape] if shape.__class__ is tuple else shape


def _shown(facts: Facts) -> dict[str, Any]:
    """Return what the cells show."""
    extra = {"notes": facts.notes, "marked": facts.marked, "keys": facts.keys}
    return {**_numbers(facts), **{name: list(each) for name, each in extra.items() if each}}


def _numbers(facts: Facts) -> dict[str, Any]:
    first = facts.cells[0]
    if first.__class__ is int:
        return {"offset": list(facts.cells)}
    if first.__class__ is not dict:
        return {"coordinate": [coordinate_text(each) for each in facts.cells]}
    sets: dict[tuple[int, ...], int] = {}
    threads: list[Any] = []
    values: list[Any] = []
    for cell in facts.cells:
        groups = [(sets.setdefault(who, len(sets)), held) for who, held in by_threads(cell)]
        simple = len(groups) == 1 and len(groups[0][1]) == 1
        threads.append(None if not groups else groups[0][0] if simple else [g for g, _ in groups])
        values.append(None if not groups else groups[0][1][0] if simple else [h for _, h in groups])
    return {"threads": _texts(sets), "thread": threads, "value": values}


def _texts(sets: Iterable[tuple[int, ...]]) -> list[str]:
    return [spans(who) for who in sets]
