"""What a message calls a value of a kernel: its name in the user's code, or the text there; and
which argument is not what its annotation says.
"""

from __future__ import annotations

import ast
import linecache
import sys
import textwrap
from itertools import islice
from types import GenericAlias
from typing import Any

from cute_py.errors import is_hidden
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import Layout
from cute_py.layout.tuples import show
from cute_py.tensor.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from cute_py.calls.arguments import Argument

_LONGEST = 60  # characters of a text


def written(value: object) -> str:
    """Return the name of a variable that holds a value, or else the text of the operand that the
    user's code is at; "" if there is neither.
    """
    frame = _users()
    return "" if frame is None else _variable(frame, value) or _operand(frame)


def variable(value: object) -> str:
    """Return the name of a variable that holds a value, or ""."""
    frame = _users()
    return "" if frame is None else _variable(frame, value)


def _users() -> FrameType | None:
    """Return the innermost frame of the user's code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_hidden(frame):
        frame = frame.f_back
    return frame


def _variable(frame: FrameType, value: object) -> str:
    return next((name for name, x in frame.f_locals.items() if x is value), "")


def called(tensor: Tensor) -> str:
    """Return what a message calls a tensor in registers."""
    name, one = written(tensor) or "a value", tensor.size() == 1
    where = "a register" if one else f"registers of shape {show(tensor.shape)}"
    return f"{name}, {tensor.dtype} in {where}"


def _operand(frame: FrameType) -> str:
    """Return the text of the only operand of what a frame is doing, or "": of a test, a call of one
    argument, an index, an f-string.
    """
    positions = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    first, last, start, end = next(positions)
    if first is None or first != last or start is None or end is None:
        return ""
    line = linecache.getline(frame.f_code.co_filename, first).encode()
    text = line[start:end].decode()
    try:
        node = ast.parse(textwrap.dedent(text), mode="eval").body
    except SyntaxError:
        return ""
    if isinstance(node, ast.Call):
        node = node.args[0] if len(node.args) == 1 and not node.keywords else ast.Constant("")
    elif isinstance(node, ast.Subscript):
        node = node.slice
    elif isinstance(node, ast.JoinedStr):
        held = [x.value for x in node.values if isinstance(x, ast.FormattedValue)]
        node = held[0] if len(held) == 1 else ast.Constant("")
    found = "" if isinstance(node, ast.Constant) else ast.unparse(node)
    return found if len(found) <= _LONGEST else ""


# -- arguments that are not of the class of their annotation


def misfit(
    notes: Mapping[str, object], arguments: Mapping[str, Argument]
) -> tuple[str, object, str] | None:
    """Return (name, value, class) of the first argument that is not of its annotated class. A class
    is no promise that is checked: what a kernel does with a value is all that matters. But when it
    fails in the words of Python, such an argument is named as the reason.
    """
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
