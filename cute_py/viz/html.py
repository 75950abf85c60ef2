"""Pictures as HTML: what a notebook shows for a value, pages for a browser, and live pictures."""

from __future__ import annotations

import os
from base64 import b64encode
from functools import cache
from hashlib import sha384
from html import escape
from pathlib import Path

from cute_py.errors import CuteError
from cute_py.layout import Mapped, tuples
from cute_py.layout.algebra.explain import Derivation
from cute_py.records import SWITCH
from cute_py.viz.build import picture_of
from cute_py.viz.derivations import outline, tree
from cute_py.viz.scenes import as_json, scene_of
from cute_py.viz.svg import to_svg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from cute_py.viz.build import Drawable
    from cute_py.viz.picture import Picture

    class Formatter(Protocol):
        """IPython's formatter for one format."""

        def for_type(self, kind: type, function: Callable[..., Any]) -> object:
            """Use `function` for this type."""

    class DisplayFormatter(Protocol):
        """IPython's formatters, by MIME type."""

        formatters: dict[str, Formatter]

    class Shell(Protocol):
        """The IPython shell."""

        display_formatter: DisplayFormatter


MOST_CELLS, MOST_GRIDS = 1 << 16, 1 << 8  # of a picture that is shown without being asked for
MOST_LIVE = 1 << 15  # cells of a live one: a notebook keeps its outputs


def to_html(x: Drawable, *, by: str | None = None, bits: int = 16) -> str:
    """Return the picture of x as an HTML page that needs no other file.

    Args:
        x: an argument of `picture_of`, or a Picture.
        by: what the colours tell apart; see `picture_of`.
        bits: the bits of an element, for banks.

    >>> from cute_py import Layout
    >>> to_html(Layout((4, 8), (8, 1))).splitlines()[3]
    '<title>(4,8):(8,1)</title>'
    """
    drawn = picture_of(x, by, bits)
    return "\n".join(
        [
            "<!doctype html>",
            '<meta charset="utf-8">',
            policy({"script-src": f"'{hashed(program().encode())}'"}),
            f"<title>{escape(drawn.title)}</title>",
            '<meta name="color-scheme" content="light dark">',
            _element(drawn),
            "",
        ]
    )


def fragment(x: Drawable) -> str | None:
    """Return what a notebook shows for x: one HTML element that needs nothing else.

    It has an image of the picture, which notebooks show even where they trust neither scripts nor
    SVG, and what makes the picture live. None, for text, if x has no picture, if that is too large
    to be stored unasked (65536 cells or 256 grids), and if the environment has CUTE_PY_PICTURES=0.
    """
    if os.environ.get(SWITCH) == "0":
        return None
    if _is_too_large(x):
        return None
    if isinstance(x, Derivation):
        return f'<div class="cute-py">{outline(x.step, image)}{elements(tree(x.step))}</div>'
    try:
        drawn = picture_of(x)
    except CuteError:
        return None
    return _element(drawn) if drawn.cells <= MOST_CELLS else None


def _is_too_large(x: Drawable) -> bool:
    """Return whether a value has too many cells or grids to be drawn unasked."""
    if x.__class__ is tuple:
        return len(x) > MOST_GRIDS or any(map(_is_too_large, x))
    if not isinstance(x, Mapped) or x.size().__class__ is not int:
        return False
    grids = tuples.product(tuples.wrap(x.shape)[2:])
    return bool(x.size() > MOST_CELLS or grids > MOST_GRIDS)


def _element(drawn: Picture) -> str:
    return f'<div class="cute-py">{image(drawn)}{live(drawn)}</div>'


def image(drawn: Picture) -> str:
    """Return a picture as an image element, which notebooks show without trust in scripts."""
    data = b64encode(to_svg(drawn).encode()).decode()
    return (
        f'<img alt="{escape(drawn.title)}" style="max-width:100%;height:auto" '
        f'src="data:image/svg+xml;base64,{data}">'
    )


# -- live pictures: a scene, and the script `live.js` that draws it where scripts may run

# Each scene is drawn in place of its siblings, once. A page that runs scripts late does not say
# which one runs, so that all scenes of the page that have this kind are looked for.
START = """
const own = document.currentScript;
const all = own ? [own.previousElementSibling]
  : document.querySelectorAll(".KIND > script[type='application/json']");
for (const data of all) {
  const host = data.parentNode, old = [...host.children].filter((x) => x.tagName !== "SCRIPT");
  if (host.dataset.live) continue;
  host.dataset.live = "1";
  const box = host.insertBefore(document.createElement("div"), data);
  try {
    DRAW(box, JSON.parse(data.textContent));
    for (const x of old) x.remove();
  } catch (error) {
    box.remove();
    throw error;
  }
}
"""


@cache
def script() -> str:
    """Return the text of `live.js`, which defines the function `cutePy(host, scene, options)`."""
    return Path(__file__).with_name("live.js").read_text(encoding="utf-8")


def live(drawn: Picture) -> str:
    """Return the scene of a picture and the script that shows it in place of the elements before;
    "" for more cells than a notebook may keep.
    """
    return "" if drawn.cells > MOST_LIVE else elements(scene_of(drawn))


def elements(scene: dict[str, Any], *more: str) -> str:
    """Return the elements of a scene and of the script that shows it; `more` as in `program`."""
    data = f'<script type="application/json">{as_json(scene)}</script>'
    return f"{data}<script>{program(*more)}</script>"


def program(kind: str = "cute-py", draw: str = "cutePy", more: str = "") -> str:
    """Return the script that shows a scene in an element of the class `kind` by a function `draw`,
    which the script `more` defines.
    """
    start = START.replace("KIND", kind).replace("DRAW", draw)
    return f"(() => {{\n{script()}{more}{start}}})();"


# -- what a page may do


def policy(allowed: dict[str, str]) -> str:
    """Return the element by which a page asks the browser to run its own scripts alone, and to load
    nothing but images that it holds; `allowed`: more, by directive. Source: W3C, Content Security
    Policy.

    >>> policy({"worker-src": "blob:"}).count("default-src 'none'; worker-src blob:;")
    1
    """
    fixed = {"style-src": "'unsafe-inline'", "img-src": "data: blob:", "base-uri": "'none'"}
    rules = {"default-src": "'none'", **allowed, **fixed, "form-action": "'none'"}
    text = "; ".join(f"{name} {value}" for name, value in rules.items())
    return f'<meta http-equiv="Content-Security-Policy" content="{text}">'


def hashed(content: bytes) -> str:
    """Return a hash as pages name what they run.

    >>> hashed(b"")[:20]
    'sha384-OLBgp1GsljhM2'
    """
    return "sha384-" + b64encode(sha384(content).digest()).decode()


# -- in a notebook: `%load_ext cute_py.viz`, for types that are not ours


def register(shell: Shell) -> None:
    """Show tuples of layouts and the like as pictures in an IPython shell."""
    shell.display_formatter.formatters["text/html"].for_type(tuple, fragment)
