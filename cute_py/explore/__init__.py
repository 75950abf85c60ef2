"""The explorer: an expression and how to look at it, to its value, scene, derivation or refusal.

`answer` is a pure function of JSON to JSON, which a notebook calls in its kernel and a page in its
own Python.

>>> from cute_py.explore import answer
>>> answer({"v": 1, "e": "composition((4,8):(8,1), (2,2):(1,2))"})["value"]
'(2,2):(8,16)'
"""

from __future__ import annotations

import sys
from types import ModuleType

from cute_py.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# module -> the public names that it defines
_HOME = {
    "explore.answers": "answer",
    "explore.interactive": "interact",
    "explore.states": "link_of state_of",
    "explore.widget": "explore",
}

__getattr__, __dir__ = lazy(__name__, _HOME)


class _CallableModule(ModuleType):
    def __call__(self, x: object = None) -> Any:
        """Explore a layout, an atom or an expression in a notebook; see `explore`."""
        return self.explore(x)


sys.modules[__name__].__class__ = _CallableModule
