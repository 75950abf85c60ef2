"""`cute-py show epilogues.NAME` and `cute-py show FILE.py:FUNCTION`: an epilogue as text."""

from __future__ import annotations

import re

from cute_py import epilogues
from cute_py.cli.arguments import module_of
from cute_py.errors import refusal, suggestion
from cute_py.ops.epilogues import described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMED = re.compile(r"epilogues\.(\w*)|.+\.py:(\w*)")


def text_of_epilogue(text: str, given: str | None) -> str | None:
    """Return what an epilogue computes, as text; None where a text names none.

    Args:
        text: what the command got.
        given: the parameters with defaults that are given, by name, with commas in between.

    """
    found = NAMED.fullmatch(text)
    if found is None:
        return None
    name = found[2] if found[1] is None else found[1]
    held: Any = epilogues
    if found[1] is None:
        held = module_of(text.rpartition(":")[0])
    function = getattr(held, name, None)
    if held is None or not callable(function):
        known = suggestion(name, epilogues.__all__) if found[2] is None else ""
        raise refusal("cli-epilogue", operation="show", text=text, hint=known and f"; {known}")
    return str(described(function, tuple(given.split(",")) if given else ()))
