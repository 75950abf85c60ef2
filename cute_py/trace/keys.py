"""Keys of compile-time values: two values have one key if a kernel would be traced alike for both.

Numbers are told apart by type and sign (1, 1.0 and True; 0.0 and -0.0), lists, dicts, dataclasses
and plain objects by what they hold now, functions by their code and what it refers to. So a plan is
traced anew after a list or an attribute was changed.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from typing import Any

DEPTH = 8  # of values in values; below, objects are told apart by identity
_OWN = __name__.partition(".")[0]
_EXACT = (bool, int, str, bytes, CodeType, type, ModuleType, type(None))


def static_key(value: Any, depth: int = DEPTH) -> Hashable:  # noqa: ANN401
    """Return the key of a compile-time value.

    >>> static_key(1) == static_key(True), static_key([0.0]) == static_key([-0.0])
    (False, False)
    >>> static_key({"tile": (128, 128)}) == static_key({"tile": (128, 128)})
    True
    """
    kind = type(value)
    if kind in _EXACT or depth == 0:
        return kind, value if kind in _EXACT else id(value)
    if isinstance(value, (float, complex)):
        return kind, repr(value)
    if isinstance(value, FunctionType):
        return function_key(value, depth - 1)
    if isinstance(value, MethodType):
        return kind, function_key(value.__func__, depth - 1), static_key(value.__self__, depth - 1)
    parts = _parts(value)
    if parts is not None:
        return kind, tuple([(static_key(k, depth - 1), static_key(x, depth - 1)) for k, x in parts])
    try:
        hash(value)
    except TypeError:
        return kind, repr(value)
    return kind, value


def _parts(value: Any) -> list[tuple[Any, Any]] | None:  # noqa: ANN401
    """Return what a container or object holds, by key; None where it is one value."""
    if isinstance(value, (tuple, list)):
        return list(enumerate(value))
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (set, frozenset)):
        return sorted([(repr(x), x) for x in value])
    if type(value).__module__.partition(".")[0] == _OWN or isinstance(value, type):
        return None
    if is_dataclass(value):
        return [(f.name, getattr(value, f.name)) for f in fields(value)]
    if hasattr(value, "__dict__") and _by_identity(value):
        return list(vars(value).items())
    return None


# -- functions


def function_key(function: Callable[..., Any], depth: int = DEPTH) -> Hashable:
    """Return the key of a Python function: its code, defaults, and the plain values (numbers, text,
    tuples, layouts, dtypes ...) that it takes from around it.
    """
    code = function.__code__
    defaults = (function.__defaults__, function.__kwdefaults__)
    return code, static_key(defaults, depth), captured_key(function, depth)


def captured_key(function: Callable[..., Any], depth: int = DEPTH) -> Hashable:
    """Return the key of the plain values that a function takes from its closure and its module."""
    code, found = function.__code__, []
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # not given a value yet
            continue
    outside = function.__globals__
    found += [(name, outside[name]) for name in global_names(code) if name in outside]
    return tuple([(name, static_key(x, min(depth, 2))) for name, x in found if is_plain(x)])


@lru_cache(maxsize=4096)
def global_names(code: CodeType) -> tuple[str, ...]:
    """Return the names that code loads as globals, and the functions inside of it; sorted."""
    from dis import get_instructions

    own = {
        step.argval
        for step in get_instructions(code)
        if step.opname == "LOAD_NAME"
        or (step.opname.startswith("LOAD") and "GLOBAL" in step.opname)
    }
    inner = [x for x in code.co_consts if isinstance(x, CodeType)]
    return tuple(sorted(own.union(*map(global_names, inner))))


def is_plain(value: object) -> bool:
    """Tell whether a value that a function takes from around it is part of its key."""
    if isinstance(value, (tuple, list)):
        return all(is_plain(x) for x in value)
    if isinstance(value, dict):
        return all(is_plain(x) for x in value.values())
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return True
    if type(value).__module__ in _VALUES:
        return True
    own = type(value).__module__.partition(".")[0] == _OWN
    return own and not _by_identity(value) and not hasattr(value, "__wrapped__")


def _by_identity(value: object) -> bool:
    kind: Any = type(value)
    return bool(kind.__hash__ is object.__hash__)


# -- values that cannot change


def is_frozen(value: Any, depth: int = DEPTH) -> bool:  # noqa: ANN401
    """Tell whether a value can never change, to its leaves: then one key holds as long as it lives.

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
        return _is_frozen_record(kind) and all(
            is_frozen(getattr(value, f.name), depth - 1) for f in fields(value)
        )
    return kind.__module__ in _VALUES


# modules of this package whose objects are values: slots that are set once, compared by content
_VALUES = {
    f"{_OWN}.{name}"
    for name in (
        "dtypes.table",
        "layout.layout",
        "layout.swizzle",
        "layout.composed",
        "layout.basis",
        "layout.tuples",
    )
}


@lru_cache(maxsize=1024)
def _is_frozen_record(kind: Any) -> bool:  # noqa: ANN401  (a dataclass)
    """Tell whether a dataclass is frozen and keeps its fields itself: no property is one."""
    names = [f.name for f in fields(kind)]
    held = [vars(cls)[name] for cls in kind.__mro__ for name in names if name in vars(cls)]
    return kind.__dataclass_params__.frozen and not any(
        hasattr(x, "__get__") and not isinstance(x, MemberDescriptorType) for x in held
    )


# -- arrays in objects


def arrays_in(
    value: Any,  # noqa: ANN401
    is_array: Callable[[object], bool],
    depth: int = DEPTH,
) -> Iterator[object]:
    """Give the arrays that a compile-time value holds."""
    if depth and is_array(value):
        yield value
    elif depth and not isinstance(value, (*_EXACT, FunctionType, MethodType)):
        for _key, part in _parts(value) or ():
            yield from arrays_in(part, is_array, depth - 1)
