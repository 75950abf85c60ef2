"""Live pictures: a scene and the script `live.js` that draws it where scripts may run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cute_py.viz.scenes import as_json, scene_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.viz.picture import Picture

MOST_CELLS = 1 << 15  # a notebook keeps its outputs

# Each scene is drawn in place of its siblings, once. A page that runs scripts late does not say
# which one runs, so that all scenes of the page are looked for.
START = """
const own = document.currentScript;
const all = own ? [own.previousElementSibling]
  : document.querySelectorAll(".cute-py > script[type='application/json']");
for (const data of all) {
  const host = data.parentNode, old = [...host.children].filter((x) => x.tagName !== "SCRIPT");
  if (host.dataset.live) continue;
  host.dataset.live = "1";
  const box = host.insertBefore(document.createElement("div"), data);
  try {
    cutePy(box, JSON.parse(data.textContent));
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
    return "" if drawn.cells > MOST_CELLS else elements(scene_of(drawn))


def elements(scene: dict[str, Any]) -> str:
    """Return the elements of a scene and of the script that shows it."""
    data = f'<script type="application/json">{as_json(scene)}</script>'
    return f"{data}<script>(() => {{\n{script()}{START}}})();</script>"
