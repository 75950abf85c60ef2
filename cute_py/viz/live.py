"""Live pictures: a scene and the script `live.js` that draws it where scripts may run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cute_py.viz.scenes import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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


def live(found: dict[str, Any]) -> str:
    """Return the elements that replace those before them in the same element by the live scene."""
    data = f'<script type="application/json">{as_json(found)}</script>'
    return f"{data}<script>(() => {{\n{script()}{START}}})();</script>"
