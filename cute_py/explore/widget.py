"""`cute.explore`: the explorer in a notebook, answered in its kernel."""

from __future__ import annotations

import json
from functools import cache

from cute_py.errors import refusal
from cute_py.explore.answers import PLAIN, answer
from cute_py.explore.links import link_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def explore(x: object = None) -> Any:
    """Return a widget that shows and changes a layout, an atom or any expression.

    Args:
        x: an expression, as for `cute-py show`; a link of the explorer, "#v1&e=..."; a layout or
            an atom; None: an example.

    The result's `link` is the link of what is shown. Needs the package anywidget. Raises
    LayoutError for a value that no expression gives.

    >>> _link("complement(4:2, 64)")
    '#v1&e=complement(4:2,%2064)'
    """
    link = _link(x)
    try:
        kind = _kind()
    except ImportError as error:
        raise refusal("explore-anywidget", operation="explore", reason=error) from None
    return kind(link=link)


def _link(x: object) -> str:
    """Return the link that shows a value."""
    if x is None:
        return ""
    if isinstance(x, str):
        return x if x.startswith("#") else link_of({"v": PLAIN["v"], "e": x})
    for e in (str(x), f"mma({x})", f"copy({x})"):
        if "value" in answer({**PLAIN, "e": e}):
            return link_of({"v": PLAIN["v"], "e": e})
    raise refusal("explore-value", operation="explore", value=x)


@cache
def _kind() -> Any:
    """Return the class of the widget; anywidget is imported at its first use."""
    import anywidget
    import traitlets

    from cute_py.explore.controls import controls
    from cute_py.explore.pages import front_end, own

    class Explorer(anywidget.AnyWidget):  # type: ignore[misc]
        """The explorer; messages are states, and their answers."""

        _esm = f"{front_end()}\n{own('widget.js')}"
        data = traitlets.Unicode(json.dumps(controls())).tag(sync=True)
        link = traitlets.Unicode("").tag(sync=True)

        def __init__(self, **named: Any) -> None:
            super().__init__(**named)
            self.on_msg(self._answer)

        def _answer(self, _: object, content: Any, buffers: object) -> None:
            self.send({"id": content["id"], "answer": answer(content["state"])})

    return Explorer
