"""Single values: whether they can change, their content, and the functions that they wrap.

`fingerprint` applies these functions to every value that it reaches.
"""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import (
    CodeType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)

from cute_py.calls.fingerprint.names import COMPUTED, OWN, is_foreign
from cute_py.calls.fingerprint.state import FIXED, is_constant, row_of
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

WRAPPERS = (staticmethod, classmethod, property)
_UNREAD = frozenset({"__repr__", "__dict__", "__weakref__", "__doc__", "__module__"})
_FORMS = frozenset({"_SpecialForm", "_BaseGenericAlias"})  # of `typing`, in all versions
DEPTH = 8  # of nested values that are examined
_EXACT = (bool, int, str, bytes, CodeType, type, ModuleType, type(None))


def is_frozen(value: Any, depth: int = DEPTH) -> bool:
    """Return whether a value is immutable to its leaves: then its key never changes while it lives,
    and neither does the code of its class.

    >>> is_frozen((1, "a", (2.0, None))), is_frozen((1, [2])), is_frozen(lambda: 1)
    (True, False, False)
    """
    kind: Any = type(value)
    if kind in _EXACT or kind in (float, complex):
        return True
    if depth == 0:
        return False
    if kind is frozenset or (issubclass(kind, tuple) and kind.__iter__ is tuple.__iter__):
        return all(is_frozen(x, depth - 1) for x in value)
    if isinstance(value, Enum):
        return is_frozen(value.value, depth - 1)
    if is_dataclass(value):
        return is_frozen_record(kind) and all(
            is_frozen(getattr(value, f.name), depth - 1) for f in fields(value)
        )
    return issubclass(kind, Value)


@lru_cache(maxsize=1024)
def is_frozen_record(kind: Any) -> bool:  # a class
    """Return whether a class is a frozen dataclass that stores its fields itself: no field is a
    property, and its objects store nothing outside of their fields and `__dict__`.
    """
    params = getattr(kind, "__dataclass_params__", None)
    if params is None:
        return False
    names = [f.name for f in fields(kind)]
    held = [vars(cls)[name] for cls in kind.__mro__ for name in names if name in vars(cls)]
    return bool(params.frozen) and not any(
        hasattr(x, "__get__") and not isinstance(x, MemberDescriptorType) for x in held
    )


# -- the content of objects


def attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object: those in its slots and in its `__dict__`."""
    found = {}
    kind: Any = type(value)
    for descriptor in slots_of(kind):
        try:
            found[descriptor.__name__] = descriptor.__get__(value)
        except AttributeError:  # not given a value yet
            continue
    return {**found, **getattr(value, "__dict__", {})}


@lru_cache(maxsize=4096)
def is_of_the_user(kind: Any) -> bool:  # a class
    """Return whether all code that knows the attributes of a class's objects is the user's."""
    made = hasattr(kind, "__dataclass_fields__")  # methods are generated, which read all fields
    return not made and all(x is object or not is_foreign(x) for x in kind.__mro__)


@lru_cache(maxsize=4096)
def slots_of(kind: Any) -> tuple[MemberDescriptorType, ...]:  # a class
    """Return the slots of a class and its bases, except special ones."""
    held = [(n, x) for cls in kind.__mro__ for n, x in vars(cls).items() if n[-2:] != "__"]
    return tuple([x for _name, x in held if isinstance(x, MemberDescriptorType)])


def arrays_in(
    value: Any, is_array: Callable[[object], bool], depth: int = DEPTH
) -> Iterator[object]:
    """Yield the arrays inside a compile-time value."""
    if depth and is_array(value):
        yield value
    elif depth and not isinstance(value, (*_EXACT, FunctionType, MethodType)):
        for part in _held(value):
            yield from arrays_in(part, is_array, depth - 1)


def _held(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (tuple, list, set, frozenset)):
        return list(value)
    if type(value).__module__.partition(".")[0] == OWN or isinstance(value, type):
        return []
    return list(attributes(value).values())


# -- where to look


def wrapped_in(value: Any) -> list[Any]:
    """Return the functions that a property, method or decorated function wraps."""
    if isinstance(value, property):
        return [value.fget, value.fset]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    inner = getattr(value, "__wrapped__", None)
    return [] if inner is None else [inner]


def is_read(name: str, value: object, names: frozenset[str]) -> bool:
    """Return whether code may read an entry of a class: by its name, or implicitly as Python does
    with special methods.
    """
    if name in _UNREAD or isinstance(value, (MemberDescriptorType, GetSetDescriptorType)):
        return False
    special = name.startswith("__") and isinstance(value, (FunctionType, *WRAPPERS))
    computed = COMPUTED in names and not name.startswith(("__", "_abc_"))
    return special or computed or name in names


def is_fixed(value: Any) -> bool:
    """Return whether an object always has the same parts, which may change themselves."""
    kind: Any = type(value)
    row = row_of(kind)
    if isinstance(value, Enum) or is_frozen_record(kind) or _is_form(kind):
        return True
    if is_constant(row) and is_foreign(kind):
        return True
    if hasattr(value, "__dict__") or any(vars(cls).get("__slots__") for cls in kind.__mro__):
        return False
    return row == "" or row in FIXED or is_constant(row)


@lru_cache(maxsize=1024)
def _is_form(kind: Any) -> bool:  # a class
    """Return whether the objects of a class are forms and aliases of types, as `Optional`, `List`,
    `Annotated[int, 1]` and `list[int]`.
    """
    if kind.__module__ == "typing":
        return not _FORMS.isdisjoint([x.__name__ for x in kind.__mro__])
    return issubclass(kind, GenericAlias) and is_foreign(kind)


def is_opaque(value: Any) -> bool:
    """Return whether the attributes of an object never affect a plan: a logger's, but its level,
    or are not its own: an alias has those of its class.
    """
    logging = sys.modules.get("logging")
    return isinstance(value, GenericAlias) or (
        logging is not None and isinstance(value, logging.Logger)
    )


def is_array(value: object) -> bool:
    """Return whether a value is a NumPy array or scalar."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def is_empty(value: object) -> bool:
    """Return whether an object can have attributes, and has none: then its class is its content."""
    return hasattr(value, "__dict__") and type(value).__new__ is object.__new__


def by_identity(value: object) -> bool:
    """Return whether an object compares by identity."""
    kind: Any = type(value)
    return bool(kind.__hash__ is object.__hash__)


# -- arrays


def digest(data: bytes) -> bytes:
    """Return bytes as they are if they are few, else a hash of them."""
    if len(data) <= 64:
        return data
    from hashlib import blake2b

    return blake2b(data).digest()


def memory_of(tensor: Any) -> bytes | None:  # of torch
    """Return what a tensor in host memory holds, b"" for one on a device; None if it has no memory
    of its own.
    """
    if tensor.device.type != "cpu":
        return b""
    try:
        data = tensor.detach().contiguous().reshape(-1).view(sys.modules["torch"].uint8).numpy()
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    return digest(data.tobytes())
