"""Where to look: what values hold, or were made of, and whether that can change.

These are questions about one value; `keys` asks them of all that a value leads to.
"""

from __future__ import annotations

import sys
from enum import Enum
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType

from cute_py.calls.frozen import is_frozen_record
from cute_py.calls.names import is_foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MISSING = object()  # what a cell or a name stands for that has no value
WRAPPERS = (staticmethod, classmethod, property)
_UNREAD = frozenset({"__repr__", "__dict__", "__weakref__", "__doc__", "__module__"})


def content(cell: Any) -> object:  # noqa: ANN401  (a cell)
    """Return what a cell of a closure holds; MISSING before it was given a value."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def wrapped_in(value: Any) -> list[Any]:  # noqa: ANN401
    """Return the functions that something was made of."""
    if isinstance(value, property):
        return [value.fget, value.fset]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    inner = getattr(value, "__wrapped__", None)
    return [] if inner is None else [inner]


def is_read(name: str, value: object, names: frozenset[str]) -> bool:
    """Tell whether an entry of a class may count: it is named, or Python calls it by itself."""
    if name in _UNREAD or isinstance(value, (MemberDescriptorType, GetSetDescriptorType)):
        return False
    special = name.startswith("__") and isinstance(value, (FunctionType, *WRAPPERS))
    return special or name in names


def contents(value: Any) -> list[tuple[Any, Any]] | None:  # noqa: ANN401
    """Return what a container holds, by key; of a number or text with a class of its own, that."""
    from collections import deque
    from collections.abc import Mapping, MappingView

    if isinstance(value, (int, float, complex, str, bytes)):
        base = next(x for x in (int, float, complex, str, bytes) if isinstance(value, x))
        return [(base.__name__, base.__repr__(value))]
    if isinstance(value, (tuple, list)):
        return list(enumerate(value))
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (set, frozenset)):
        return sorted([(repr(x), x) for x in value], key=lambda item: item[0])
    if isinstance(value, (range, slice)):
        return [(name, getattr(value, name)) for name in ("start", "stop", "step")]
    if isinstance(value, (bytearray, memoryview, deque, MappingView)) or (
        type(value).__module__ == "array"
    ):
        return list(enumerate(value))
    return None


def is_fixed(value: Any, is_container: bool = False) -> bool:  # noqa: ANN401
    """Tell whether an object always holds the same parts; these may change."""
    kind: Any = type(value)
    if isinstance(value, Enum) or kind in (frozenset, range, slice):
        return True
    if is_frozen_record(kind):
        return True
    if hasattr(value, "__dict__"):
        return False
    made = any("__slots__" in vars(cls) for cls in kind.__mro__)  # in Python
    return issubclass(kind, tuple) or (is_foreign(kind) and not made and not is_container)


def is_opaque(value: Any) -> bool:  # noqa: ANN401
    """Tell whether what an object holds says nothing about a plan: a log."""
    logging = sys.modules.get("logging")
    return logging is not None and isinstance(value, logging.Logger)


def is_array(value: object) -> bool:
    """Tell whether a value is an array or a scalar of NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def is_empty(value: object) -> bool:
    """Tell whether an object has room for attributes, and has none: then its class is all."""
    return hasattr(value, "__dict__") and type(value).__new__ is object.__new__


def by_identity(value: object) -> bool:
    """Tell whether an object is equal to itself alone."""
    kind: Any = type(value)
    return bool(kind.__hash__ is object.__hash__)
