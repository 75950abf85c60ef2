"""Values that cannot change, and what objects hold."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType

from cute_py.calls.names import OWN
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

DEPTH = 8  # of values in values that are looked at to tell whether they can change
_EXACT = (bool, int, str, bytes, CodeType, type, ModuleType, type(None))


def is_frozen(value: Any, depth: int = DEPTH) -> bool:  # noqa: ANN401
    """Tell whether a value can never change, to its leaves: then one key holds as long as it lives,
    and the code of its class is what it was.

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
def is_frozen_record(kind: Any) -> bool:  # noqa: ANN401  (a class)
    """Tell whether a class is a frozen dataclass that keeps its fields itself: no property is one,
    and its objects have room for nothing else but what `__dict__` holds.
    """
    params = getattr(kind, "__dataclass_params__", None)
    if params is None:
        return False
    names = [f.name for f in fields(kind)]
    held = [vars(cls)[name] for cls in kind.__mro__ for name in names if name in vars(cls)]
    return bool(params.frozen) and not any(
        hasattr(x, "__get__") and not isinstance(x, MemberDescriptorType) for x in held
    )


# -- what objects hold


def attributes(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what an object holds under names: in its slots and in its `__dict__`."""
    found = {}
    kind: Any = type(value)
    for descriptor in slots_of(kind):
        try:
            found[descriptor.__name__] = descriptor.__get__(value)
        except AttributeError:  # not given a value yet
            continue
    return {**found, **getattr(value, "__dict__", {})}


@lru_cache(maxsize=4096)
def slots_of(kind: Any) -> tuple[MemberDescriptorType, ...]:  # noqa: ANN401  (a class)
    """Return the slots of a class and of those that it is made of, but for those of Python."""
    held = [(n, x) for cls in kind.__mro__ for n, x in vars(cls).items() if n[-2:] != "__"]
    return tuple([x for _name, x in held if isinstance(x, MemberDescriptorType)])


def arrays_in(
    value: Any,  # noqa: ANN401
    is_array: Callable[[object], bool],
    depth: int = DEPTH,
) -> Iterator[object]:
    """Give the arrays that a compile-time value holds."""
    if depth and is_array(value):
        yield value
    elif depth and not isinstance(value, (*_EXACT, FunctionType, MethodType)):
        for part in _held(value):
            yield from arrays_in(part, is_array, depth - 1)


def _held(value: Any) -> list[Any]:  # noqa: ANN401
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (tuple, list, set, frozenset)):
        return list(value)
    if type(value).__module__.partition(".")[0] == OWN or isinstance(value, type):
        return []
    return list(attributes(value).values())
