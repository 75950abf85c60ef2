"""Pictures as HTML: what a notebook shows for a value, and pages for a browser."""

from __future__ import annotations

import os
from base64 import b64encode
from html import escape

from cute_py.errors import CuteError
from cute_py.layout.algebra.explain import Derivation
from cute_py.viz.build import picture_of
from cute_py.viz.derivations import outline, tree
from cute_py.viz.live import elements, live
from cute_py.viz.svg import to_svg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.viz.build import Drawable
    from cute_py.viz.picture import Picture

SWITCH = "CUTE_PY_PICTURES"  # 0 turns the pictures of notebooks off


def fragment(x: Drawable) -> str | None:
    """Return what a notebook shows for x: one self-contained HTML element.

    It holds an image of the picture, which also shows where scripts may not run, and after it what
    makes the picture live. None, for text, if x has no picture or `CUTE_PY_PICTURES=0`.
    """
    if os.environ.get(SWITCH) == "0":
        return None
    if isinstance(x, Derivation):
        return f'<div class="cute-py">{outline(x.step, image)}{elements(tree(x.step))}</div>'
    try:
        drawn = picture_of(x)
        return f'<div class="cute-py">{image(drawn)}{live(drawn)}</div>'
    except CuteError:
        return None


def image(picture: Picture) -> str:
    """Return the `<img>` element of a picture, its SVG in a data address.

    Notebooks that are not trusted drop SVG, but show images.
    """
    data = b64encode(to_svg(picture).encode()).decode()
    return (
        f'<img alt="{escape(picture.title)}" style="max-width:100%" '
        f'src="data:image/svg+xml;base64,{data}">'
    )

