"""Keys of compile-time values: two values have one key if a kernel would be traced alike for both.

Numbers are told apart by type and sign (1, 1.0 and True; 0.0 and -0.0), containers and objects by
what they hold now, functions by their code and all that it takes from around it: defaults, closure,
globals; of modules, classes and functions, the attributes that the code names. So a plan is traced
anew after a list, an attribute or a helper was changed. What is none of the user's (this package,
the standard library, installed packages), and what does not say what it holds, is told apart by
identity.
"""

from __future__ import annotations

import sys
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType

from cute_py.calls.fingerprint.names import (
    OWN,
    attribute_names,
    global_names,
    imported_names,
    is_foreign,
)
from cute_py.calls.fingerprint.values import (
    MISSING,
    WRAPPERS,
    attributes,
    by_identity,
    content,
    contents,
    is_array,
    is_empty,
    is_fixed,
    is_frozen,
    is_opaque,
    is_read,
    wrapped_in,
)
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from typing import Any, TypeAlias

    Get: TypeAlias = Callable[[str, object], object]

DEPTH = 64  # of values in values; below, objects are told apart by identity
_EXACT = frozenset({bool, int, str, bytes, CodeType, type(None)})
_OF_ARRAYS = ("__dlpack__", "__cuda_array_interface__", "__array_interface__")


def static_key(value: Any) -> Hashable:
    """Return the key of a compile-time value by itself: of the classes of its objects, only what
    the value's own code names counts.

    >>> static_key(1) == static_key(True), static_key([0.0]) == static_key([-0.0])
    (False, False)
    >>> static_key({"tile": (128, 128)}) == static_key({"tile": (128, 128)})
    True
    """
    if type(value) in _EXACT:
        return type(value), value
    return look((value,))[0]


def is_plain(value: object) -> bool:
    """Tell whether a value refers to nothing: a number, text, layout or dtype."""
    kind = type(value)
    return kind in _EXACT or kind is float or kind is complex or issubclass(kind, Value)


def look(
    values: tuple[Any, ...],
    function: Callable[..., Any] | None = None,
    names: tuple[str, ...] = (),
    attributes: frozenset[str] = frozenset(),
) -> tuple[Hashable, Look]:
    """Return the key of compile-time values and of a function, and the look at them.

    Args:
        values: of a call.
        function: a kernel's, though it may be none of the user's.
        names: of globals that count for the function beside those that it loads.
        attributes: names that other code reads of the values.

    """
    found = Look(attributes)
    key = found.roots(values, function, names)
    while found.reads and not found.met <= found.names:  # code that was met later reads more
        found = Look(found.names | found.met)
        key = found.roots(values, function, names)
    return key, found


class Same:
    """A key that is an object: equal to itself alone. It keeps the object alive."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Look:
    """One look at a value and all that it refers to: its key, and the places that were read.

    `entries` (get, name, value), `cells`, `functions`, `classes` and `sizes` are these places:
    while they hold the same objects, and `settled` is True, the key is the same.
    """

    def __init__(self, names: frozenset[str]) -> None:
        """Look at the attributes of modules, classes and functions that have these names."""
        self.names, self.met = names, set[str]()
        self.entries: list[tuple[Get, str, object]] = []
        self.cells: list[tuple[Any, object]] = []
        self.functions: list[tuple[Any, object, object, object]] = []
        self.classes: list[tuple[Any, object]] = []
        self.sizes: list[tuple[Any, int]] = []  # a name that is new may be one that is read
        self.settled = True
        self.reads = False  # whether there is a value of which names are read
        self.seen: dict[int, int] = {}
        self.alive: list[object] = []  # so that no id comes up twice
        self.depth = 0

    def roots(
        self, values: tuple[Any, ...], function: Callable[..., Any] | None, names: tuple[str, ...]
    ) -> Hashable:
        """Return the key of what the look starts from."""
        if function is None:
            return tuple(map(self.key, values))
        self.again(function)
        return self.function(function, names), tuple(map(self.key, values))

    def key(self, value: Any) -> Hashable:
        """Return the key of a value."""
        kind: Any = type(value)
        if kind in _EXACT:
            return kind, value
        if kind is float or kind is complex:
            return kind, repr(value)
        if issubclass(kind, Value):
            return kind, value
        if self.depth == DEPTH:
            self.settled = False
            return Same(value)
        self.depth += 1
        try:
            return self.deep(value)
        finally:
            self.depth -= 1

    def again(self, value: object) -> Hashable:
        """Return the key of what was met before in this look; None at the first time."""
        number = self.seen.setdefault(id(value), len(self.seen))
        if number < len(self.alive):
            return "again", number
        self.alive.append(value)
        return None

    def deep(self, value: Any) -> Hashable:
        """Return the key of what refers to other values."""
        if type(value) is tuple:
            return tuple, tuple(map(self.key, value))
        met = self.again(value)
        if met is not None:
            return met
        if isinstance(value, FunctionType):
            return self.foreign(value) if is_foreign(value) else self.function(value)
        if isinstance(value, MethodType):
            return MethodType, self.key(value.__func__), self.key(value.__self__)
        if isinstance(value, BuiltinFunctionType):
            owner = value.__self__
            known = owner is None or isinstance(owner, (ModuleType, type))
            return Same(value) if known else (value.__name__, self.key(owner))
        if isinstance(value, ModuleType):
            return self.module(value)
        if isinstance(value, type):
            return self.of_class(value)
        if isinstance(value, WRAPPERS):
            return type(value), *[self.key(x) for x in wrapped_in(value)]
        return self.object(value)

    # -- code

    def function(self, value: Any, names: tuple[str, ...] = ()) -> Hashable:
        """Return the key of a function: its code, and what that takes from around it."""
        code, more = value.__code__, value.__kwdefaults__
        self.functions.append((value, code, value.__defaults__, more))
        self.met |= attribute_names(code)
        loaded = tuple(sorted({*global_names(code), *names}))
        modules = imported_names(code)
        return (
            code,
            self.key(value.__defaults__),
            more and self.items(more, tuple(more)),
            self.closure(value),
            self.items(value.__globals__, loaded),
            modules and self.items(sys.modules, modules),
            self.named(vars(value)) if vars(value) else (),
        )

    def closure(self, value: Any) -> Hashable:
        """Return the key of what the cells of a function hold."""
        found = []
        for cell in value.__closure__ or ():
            held = content(cell)
            self.cells.append((cell, held))
            found.append(None if held is MISSING else self.key(held))
        return tuple(found)

    def items(self, held: Mapping[str, Any], names: Iterable[str]) -> Hashable:
        """Return the key of what names stand for in a dict, which is watched for them."""
        found = []
        for name in names:
            value = held.get(name, MISSING)
            self.entries.append((held.get, name, value))
            if value is not MISSING:
                found.append((name, self.key(value)))
        return tuple(found)

    def foreign(self, value: Any) -> Hashable:
        """Return the key of a function that is none of the user's, but may wrap one that is."""
        cells = [content(cell) for cell in value.__closure__ or ()]
        inner = [x for x in cells if isinstance(x, (FunctionType, MethodType, partial))]
        return Same(value), *[self.key(x) for x in (*inner, *wrapped_in(value))]

    def module(self, value: ModuleType) -> Hashable:
        """Return the key of a module: what the code names of it, if it is one of the user's."""
        if is_foreign(value):
            return Same(value)
        return Same(value), self.named(vars(value))

    def named(self, held: Mapping[str, Any]) -> Hashable:
        """Return the key of what the code names of a module or a function."""
        self.reads = True
        self.sizes.append((held, len(held)))
        return self.items(held, sorted(self.names & held.keys()))

    def of_class(self, value: Any) -> Hashable:
        """Return the key of a class: what the code names of it and its special methods."""
        if is_foreign(value) and all(map(is_foreign, value.__mro__)):
            return Same(value)
        self.reads = True
        found = [Same(value), self.key(type(value))]
        for cls in [x for x in value.__mro__ if not is_foreign(x)]:
            held = vars(cls)
            self.classes.append((cls, cls.__mro__))
            self.sizes.append((held, len(held)))
            names = [name for name, x in held.items() if is_read(name, x, self.names)]
            found.append((Same(cls), self.items(held, sorted(names))))
        return tuple(found)

    # -- objects

    def object(self, value: Any) -> Hashable:
        """Return the key of an object: its class and what it holds."""
        kind = type(value)
        if is_array(value):
            return self.array(value)
        if any(hasattr(kind, name) for name in _OF_ARRAYS):  # of another library
            self.settled = False
            return Same(value), getattr(value, "_version", None)
        if kind.__module__.partition(".")[0] == OWN:
            return self.own(value)
        cls, plain = self.key(kind), contents(value)
        held = attributes(value) if not is_opaque(value) else {}
        if plain is None and not held:
            return self.leaf(value, cls)
        if not is_fixed(value, plain is not None):
            self.settled = False
        parts = tuple([(self.key(k), self.key(x)) for k, x in (plain or ())])
        return cls, parts, tuple([(name, self.key(x)) for name, x in held.items()])

    def own(self, value: Any) -> Hashable:
        """Return the key of an object of this package: by content where it compares so."""
        wrapped = tuple([self.key(x) for x in wrapped_in(value)])
        if by_identity(value):
            return Same(value), wrapped
        self.settled = self.settled and is_frozen(value)
        try:
            hash(value)
        except TypeError:
            return type(value), tuple([(k, self.key(x)) for k, x in attributes(value).items()])
        return type(value), value

    def leaf(self, value: Any, cls: Hashable) -> Hashable:
        """Return the key of an object that holds nothing that can be seen."""
        foreign = is_foreign(type(value))
        if not foreign or by_identity(value):
            empty = is_empty(value)
            self.settled = self.settled and (not empty or is_fixed(value))
            return (cls, ()) if empty else Same(value)
        try:
            hash(value)
        except TypeError:
            self.settled = False
            return Same(value)
        return type(value), value

    def array(self, value: Any) -> Hashable:
        """Return the key of an array or a scalar of NumPy: its type, shape and bytes."""
        scalar = not hasattr(value, "__setitem__")
        self.settled = self.settled and scalar
        if value.dtype.hasobject:
            return type(value), value.shape, self.key(value.tolist())
        data = value.tobytes()
        if len(data) > 64:
            from hashlib import blake2b

            data = blake2b(data).digest()
        return type(value), repr(value.dtype), value.shape, data
