"""The explorer: an expression and how to look at it, to its value, scene, derivation or refusal.

`answer` is a pure function of JSON to JSON, which a notebook calls in its kernel and a page in its
own Python.

>>> from cute_py.explore import answer
>>> answer({"v": 1, "e": "composition((4,8):(8,1), (2,2):(1,2))"})["value"]
'(2,2):(8,16)'
"""

from __future__ import annotations

from cute_py.lazy import lazy

# module -> the public names that it defines
_HOME = {"explore.answers": "answer", "explore.links": "link_of state_of"}

__getattr__, __dir__ = lazy(__name__, _HOME)
