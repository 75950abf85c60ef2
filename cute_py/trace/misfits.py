"""Arguments that are not of the class of their annotation, for the words of a refusal.

A class is no promise that is checked: what a kernel does with a value is all that matters. But when
it fails in the words of Python, an argument of another class is named as the reason.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any

from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import Layout
from cute_py.tensor.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cute_py.calls.arguments import Argument


def misfit(
    notes: Mapping[str, object], arguments: Mapping[str, Argument]
) -> tuple[str, object, str] | None:
    """Return (name, value, class) of the first argument that is not of its annotated class."""
    for name, argument in arguments.items():
        note = notes.get(name)
        if not _fits(argument, argument.value, note):
            return name, argument.value, getattr(note, "__name__", str(note))
    return None


def _fits(argument: Argument, value: object, note: object) -> bool:
    """Tell whether an argument, or a part of a tuple, is of an annotated class."""
    if isinstance(note, GenericAlias):
        kind, parts = note.__origin__, note.__args__
        if kind is not tuple or ... in parts or not isinstance(value, tuple):
            return not isinstance(kind, type) or isinstance(value, kind)
        if len(value) != len(parts):
            return False
        return all(_fits(argument, x, part) for x, part in zip(value, parts, strict=True))
    if note is Tensor:
        return argument.kind != "static"
    if note is Layout:
        return isinstance(value, (Layout, ComposedLayout))
    if note in (int, float):
        kind = type(value)
        return hasattr(kind, "__index__") or (note is float and hasattr(kind, "__float__"))
    return note is Any or not isinstance(note, type) or isinstance(value, note)
