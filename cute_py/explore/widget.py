"""`cute.explore`: the explorer in a notebook, answered in its kernel."""

from __future__ import annotations

import json
from functools import cache

from cute_py.errors import CuteError, refusal
from cute_py.explore.answers import answer
from cute_py.explore.pasted import pasted
from cute_py.explore.states import PLAIN, link_of, state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def explore(x: object = None) -> Any:
    """Return a widget that shows and changes a layout, an atom or any expression.

    Args:
        x: an expression, as for `cute-py show`, or a printed layout or table; a link of the
            explorer, "#v1&e=..."; a layout or an atom; None: an example.

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
        return x if x.startswith("#") else link_of({"v": PLAIN["v"], "e": pasted(x)})
    for e in (str(x), f"mma({x})", f"copy({x})"):
        if "value" in answer({**PLAIN, "e": e}):
            return link_of({"v": PLAIN["v"], "e": e})
    raise refusal("explore-value", operation="explore", value=x)


def _image(link: str) -> dict[str, str]:
    """Return the picture of a link as the HTML of a notebook, nothing if it has none."""
    from cute_py.explore.controls import PRESETS
    from cute_py.expression import evaluate
    from cute_py.viz.html import fragment

    example = PRESETS["start here"]["layout"]
    state = {**PLAIN, **(state_of(link) if link else example)}
    try:
        drawn = fragment(evaluate(state["e"]))
    except CuteError:
        return {}
    return {"text/html": drawn} if drawn else {}


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

        def _repr_mimebundle_(self, **named: Any) -> tuple[dict[str, Any], dict[str, Any]]:
            """Return the widget, and the picture for where there is no kernel or no trust."""
            data, metadata = super()._repr_mimebundle_(**named)
            return {**data, **_image(self.link)}, metadata

        def _answer(self, _: object, content: Any, buffers: object) -> None:
            self.send({"id": content["id"], "answer": answer(content["state"])})

    return Explorer
