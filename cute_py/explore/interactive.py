"""`cute.interact`: sliders and menus for an expression in a notebook, without a kernel.

The pictures of all combinations are made beforehand and kept in the output. So it needs no package
for widgets and no network, and works in a notebook that was exported, or is only read.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from functools import partial
from itertools import islice, product
from math import prod
from pathlib import Path
from re import escape, split
from typing import Any, NamedTuple

from cute_py.errors import CuteError, refusal
from cute_py.explore.answers import error_of, hints
from cute_py.explore.operands import tokens_of, value_of
from cute_py.expression import show as text_of
from cute_py.layout.notation.parse_tokens import number
from cute_py.viz.build import picture_of
from cute_py.viz.comparisons import before_and_after
from cute_py.viz.html import elements, image
from cute_py.viz.picture import Picture
from cute_py.viz.scenes import scene_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cute_py.viz.build import Drawable

KIND = "cute-py-choices"
MOST_PICTURES = 1 << 10
MOST_CELLS = 1 << 17  # of all pictures
MOST_NEAR = 8  # values of an integer that gets a slider without being asked for


class Choice(NamedTuple):
    """A name, its values, and the number of the one that is shown first."""

    name: str
    values: list[Any]
    first: int = 0


class Interactive:
    """What `interact` returns: `choices`; `frames`, for each combination of their values, the last
    choice running fastest, its expression and its picture or error; and `first`, the number of the
    frame that is shown first.
    """

    def __init__(
        self, choices: list[Choice], frames: list[tuple[str, Picture | CuteError]], first: int
    ) -> None:
        """Record the parts."""
        self.choices = choices
        self.frames = frames
        self.first = first

    def __repr__(self) -> str:
        text, drawn = self.frames[self.first]
        lines = [f"{each.name}: {', '.join(map(text_of, each.values))}" for each in self.choices]
        return "\n".join([*lines, text, str(drawn)])

    def _repr_html_(self) -> str:
        """Return an element that needs nothing else: an image, which scripts replace."""
        shown = self.frames[self.first][1]
        frames = json.dumps([_shown(*frame) for frame in self.frames], separators=(",", ":"))
        scene = {
            "choices": [
                {**each._asdict(), "values": list(map(text_of, each.values))}
                for each in self.choices
            ],
            "frames": b64encode(zlib.compress(frames.encode(), 9)).decode(),
        }
        still = image(shown) if isinstance(shown, Picture) else ""
        script = Path(__file__).with_name("choices.js").read_text(encoding="utf-8")
        return f'<div class="{KIND}">{still}{elements(scene, KIND, "cutePyChoices", script)}</div>'


def _shown(text: str, drawn: Picture | CuteError) -> dict[str, Any]:
    if isinstance(drawn, Picture):
        return {"text": text, "scene": scene_of(drawn)}
    return {"text": text, "error": error_of(drawn)}


def interact(
    make: str | Callable[..., Drawable],
    /,
    *,
    by: str | None = None,
    bits: int = 16,
    compare: bool = False,
    **choices: Iterable[Any],
) -> Interactive:
    """Return a picture with a slider or a menu for each choice, which a notebook shows.

    Args:
        make: an expression, as for `cute-py show`, in which the names of the choices stand for
            their values; or a function of the choices that returns a layout, an atom or anything
            else that has a picture. Without choices, the integers of an expression get sliders, to
            numbers nearby.
        by: what the colours tell apart; see `picture_of`.
        bits: the width of an element, for banks (bits).
        compare: show the first picture next to each.
        choices: for each name its values, of which the first is shown first: integers get a slider,
            others, such as tile shapes and names of atoms, a menu.

    Law: the picture of a combination is that of its expression. A combination without a value shows
    the error. Raises LayoutError for names that the expression does not have, and for more than
    1024 pictures or 131072 cells; and what the first combination raises if none has a picture.

    >>> interact("zipped_divide((4,4):(4,1), tile)", tile=[(2, 2), (4, 1)])
    tile: (2,2), (4,1)
    zipped_divide((4,4):(4,1), (2,2))
    ((2,2),(2,2)):((4,1),(8,2))
         0   1   2   3
      +----------------
    0 |  0   8   2  10
    1 |  4  12   6  14
    2 |  1   9   3  11
    3 |  5  13   7  15
    """
    found = [Choice(name, _values(name, values)) for name, values in choices.items()]
    if isinstance(make, str):
        parts, found = _named(make, found) if found else _numbered(make)
        frames = _of_text(parts, found)
    elif callable(make):
        frames = _of_function(make, found)
    else:
        raise refusal("interact-values", operation="interact", name="make", value=make)
    count, first = 1, 0
    for each in found:
        count, first = count * len(each.values), first * len(each.values) + each.first
    if count > MOST_PICTURES:
        raise _too_many(f"{count} pictures")
    return Interactive(found, _drawn(list(frames), first, by, bits, compare), first)


def _values(name: str, values: Any) -> list[Any]:
    """Return the values of a choice, one more than may be at most; refuse a text, and none."""
    listed = hasattr(values, "__iter__") and not isinstance(values, str)
    found = list(islice(values, MOST_PICTURES + 1)) if listed else []
    if not found:
        raise refusal("interact-values", operation="interact", name=name, value=values)
    return found


# -- an expression as texts, between which the values of the choices with these numbers stand


def _named(text: str, found: list[Choice]) -> tuple[list[Any], list[Choice]]:
    """Return the parts of an expression with names."""
    names = [each.name for each in found]
    parts: list[Any] = split(rf"(?<![\w.])({'|'.join(map(escape, names))})(?!\w|\s*=)", text)
    missing = [name for name in names if name not in parts[1::2]]
    if missing:
        raise refusal("interact-name", operation="interact", name=missing[0], text=text)
    parts[1::2] = map(names.index, parts[1::2])
    return parts, found


def _numbered(text: str) -> tuple[list[Any], list[Choice]]:
    """Return the parts of an expression, and choices for its integers."""
    parts: list[Any] = []
    numbers: list[int] = []
    end = 0
    tokens = [token for token in tokens_of(text) if token.kind == "number"]
    for token in tokens:
        parts += [text[end : token.start], len(numbers)]
        numbers.append(number(token))
        end = token.end
    if not numbers:
        raise refusal("interact-values", operation="interact", name="make", value=text)
    cells = picture_of(_value(text)).cells
    for most in range(MOST_NEAR, 1, -1):
        values = [_near(n, most) for n in numbers]
        # as if each integer scaled the picture, which is more than it does
        scale = prod([sum(each) / max(n, 1) for n, each in zip(numbers, values, strict=True)])
        if prod(map(len, values)) <= MOST_PICTURES and cells * scale <= MOST_CELLS:
            break
    else:
        raise _too_many(f"{len(numbers)} integers of an expression with {cells} cells")
    names = [f"integer {k + 1}" for k in range(len(numbers))]
    pairs = zip(names, values, numbers, strict=True)
    return [*parts, text[end:]], [Choice(name, each, each.index(n)) for name, each, n in pairs]


def _near(n: int, most: int) -> list[int]:
    """Return n and the numbers next to it, halves and doubles first."""
    others = [n // 2, 2 * n, n + 1, n - 1, 4 * n, n // 4, n + 2, n - 2]
    least = min(n, 1)
    found = list(dict.fromkeys([n, *[m for m in others if m >= least]]))
    return sorted(found[:most])


def _value(text: str) -> Any:
    """Return what is drawn of an expression; a shape as the layout that the explorer draws."""
    return hints(text, value_of(text))[2]


def _of_text(parts: list[Any], found: list[Choice]) -> Iterator[tuple[str, Callable[[], Any]]]:
    for values in product(*[each.values for each in found]):
        text = "".join([text_of(values[x]) if isinstance(x, int) else x for x in parts])
        yield text, partial(_value, text)


def _of_function(
    make: Callable[..., Any], found: list[Choice]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    for values in product(*[each.values for each in found]):
        given = dict(zip([each.name for each in found], values, strict=True))
        text = ", ".join([f"{name}={text_of(x)}" for name, x in given.items()])
        yield text, partial(make, **given)


# -- the pictures


def _drawn(
    frames: list[tuple[str, Callable[[], Any]]],
    first: int,
    by: str | None,
    bits: int,
    compare: bool,
) -> list[tuple[str, Picture | CuteError]]:
    """Return the picture of each value, or the error of a combination that has none."""
    before = (frames[first][0], frames[first][1]()) if compare else None
    found: list[tuple[str, Picture | CuteError]] = []
    cells = 0
    for text, make in frames:
        try:
            made = make()
            drawn = picture_of(made, by, bits)
            if before is not None:
                drawn = before_and_after(before, (text, made), by, bits)
        except CuteError as error:
            found.append((text, error))
            continue
        found.append((text, drawn))
        cells += drawn.cells
        if cells > MOST_CELLS:
            raise _too_many(f"over {MOST_CELLS} cells in all pictures")
    shown = found[first][1]
    if not cells and isinstance(shown, CuteError):
        raise shown
    return found


def _too_many(given: str) -> CuteError:
    most, cells = MOST_PICTURES, MOST_CELLS
    return refusal("interact-many", operation="interact", given=given, pictures=most, cells=cells)
