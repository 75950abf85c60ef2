"""One traversal of a value and everything that it refers to, which makes its fingerprint."""

from __future__ import annotations

import builtins
import sys
from functools import partial
from operator import attrgetter
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)

from cute_py.calls.fingerprint.names import COMPUTED, OWN, WHOLE, is_foreign, is_own, names_in
from cute_py.calls.fingerprint.places import Identity, Places
from cute_py.calls.fingerprint.state import (
    CACHED,
    MISSING,
    READ,
    content,
    contents,
    is_constant,
    kept_by,
    row_of,
)
from cute_py.calls.fingerprint.values import (
    WRAPPERS,
    attributes,
    by_identity,
    digest,
    is_array,
    is_empty,
    is_fixed,
    is_frozen,
    is_of_the_user,
    is_opaque,
    is_read,
    memory_of,
    wrapped_in,
)
from cute_py.calls.fingerprint.varying import is_settled, is_varying, varying_methods
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from typing import Any

DEPTH = 64  # of nested values; what is deeper is unknown
EXACT = frozenset({bool, int, str, bytes, CodeType, type(None)})
_MRO = attrgetter("__mro__")
CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__", "__init_subclass__", "__del__"})
_OF_OBJECTS = frozenset({"hash", "id"})  # as all objects call them in their own such methods
_IN_CELLS = (FunctionType, MethodType, partial, dict)
_OF_ARRAYS = ("__dlpack__", "__cuda_array_interface__", "__array_interface__")


def is_plain(value: object) -> bool:
    """Return whether a value refers to no other objects: a number, text, layout or dtype."""
    kind = type(value)
    return kind in EXACT or kind is float or kind is complex or issubclass(kind, Value)


class Traversal(Places):
    """One traversal of a value and everything that it refers to: its key, and the places read. If
    `stable` is True, the key is unchanged as long as they hold the same objects.
    """

    def __init__(self, names: frozenset[str]) -> None:
        """Read the attributes of these names of modules, classes and functions."""
        super().__init__()
        self.names, self.met = names, set[str]()
        self.stable = True
        self.complete = True  # whether the key tells all that code depends on
        self.reason = ""  # why it does not
        self.reads = False  # whether attributes of any value are read
        self.path: list[str] = []  # the names that lead to the value that is read
        # modules that are not the user's, each with the attributes that are read, if that is known
        self.installed: list[tuple[ModuleType, frozenset[str] | None]] = []
        self.kinds: dict[type, int] = {}  # the classes of objects
        self.unread: list[tuple[str, Any]] = []  # attributes of objects that no code names
        self.seen: dict[int, int] = {}
        self.alive: list[object] = []  # so that no id is reused
        self.depth = 0

    def roots(
        self, values: tuple[Any, ...], function: Callable[..., Any] | None, names: tuple[str, ...]
    ) -> Hashable:
        """Return the key of the values and the function that the traversal starts from."""
        if function is not None:
            self.back_reference(function)
        code = None if function is None else self.function(function, names)
        return code, tuple(map(self.key, values)), self.outside(), self.rest()

    def key(self, value: Any) -> Hashable:
        """Return the key of a value."""
        kind: Any = type(value)
        if kind is str:
            self.met.add(value)  # perhaps the name of an attribute
        if kind in EXACT:
            return kind, value
        if kind is float or kind is complex:
            return kind, repr(value)
        if issubclass(kind, Value):
            return kind, value
        if self.depth == DEPTH:
            return self.unknown(value, f"is nested more than {DEPTH} deep")
        self.depth += 1
        try:
            return self.deep(value)
        finally:
            self.depth -= 1

    def unknown(self, value: object, why: str = "", name: str = "") -> Hashable:
        """Return the key of a value whose state cannot be read, which makes this one worthless."""
        kind = type(value)
        name = name or (self.path[-1] if self.path else "a value")
        of = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        self.stable = self.complete = False
        self.reason = self.reason or f"{name} {why or f'({of}) has a state that cannot be read'}"
        return Identity(value)

    def back_reference(self, value: object) -> Hashable:
        """Return a back reference to a value that was visited before; None on the first visit."""
        number = self.seen.setdefault(id(value), len(self.seen))
        if number < len(self.alive):
            return "again", number
        self.alive.append(value)
        return None

    def deep(self, value: Any) -> Hashable:
        """Return the key of a value that refers to other values."""
        if type(value) is tuple:
            return tuple, tuple(map(self.key, value))
        met = self.back_reference(value)
        if met is not None:
            return met
        if is_varying(value):
            return self.unknown(value, "gives something else at each call")
        if isinstance(value, FunctionType):
            return self.foreign(value) if is_foreign(value) else self.function(value)
        if isinstance(value, MethodType):
            return MethodType, self.key(value.__func__), self.key(value.__self__)
        if isinstance(value, (BuiltinFunctionType, MethodWrapperType)):
            owner = value.__self__
            known = owner is None or isinstance(owner, (ModuleType, type))
            return Identity(value) if known else (value.__name__, self.key(owner))
        if isinstance(value, ModuleType):
            return self.module(value)
        if isinstance(value, type):
            return self.of_class(value)
        if isinstance(value, WRAPPERS):
            return type(value), *[self.key(x) for x in wrapped_in(value)]
        return self.object(value)

    # -- code

    def function(self, value: Any, names: tuple[str, ...] = ()) -> Hashable:
        """Return the key of a function: its code, and everything that the code refers to."""
        code, more, named = value.__code__, value.__kwdefaults__, names_in(value.__code__)
        self.functions.append((value, code, value.__defaults__, more))
        self.met |= named.attributes
        if named.by_text:  # nothing tells what else it depends on
            self.unknown(
                value, "computes the names that it reads (eval, globals ...)", value.__name__
            )
        return (
            code,
            self.key(value.__defaults__),
            more and self.values(more, tuple(more)),
            self.closure(value),
            self.values(
                value.__globals__,
                sorted({*named.globals, *names}),
                named.parts,
                _OF_OBJECTS if code.co_name in ("__hash__", "__repr__") else frozenset(),
            ),
            self.values(sys.modules, named.modules),
            self.named(vars(value)) if vars(value) else (),
        )

    def closure(self, value: Any) -> Hashable:
        """Return the key of the contents of a function's cells."""
        found = []
        names = value.__code__.co_freevars
        for name, cell in zip(names, value.__closure__ or (), strict=True):
            held = content(cell)
            self.looked.append((content, cell, held))
            found.append(None if held is MISSING else self.at(name, held))
        return tuple(found)

    def values(
        self,
        held: Mapping[str, Any],
        names: Iterable[str],
        parts: Mapping[str, frozenset[str]] = MappingProxyType({}),
        same: frozenset[str] = frozenset(),
    ) -> Hashable:
        """Return the key of the values of names in a dict, and record these places; `parts`: the
        attributes that are read of some, if they are modules; `same`: builtins that do not vary.
        """
        found = []
        for name in names:
            value = held.get(name, MISSING)
            self.items.append((held.get, name, value))
            if name in parts and isinstance(value, ModuleType) and is_foreign(value):
                found.append((name, self.of_installed(value, parts[name])))
            elif value is not MISSING:
                found.append((name, self.at(name, value)))
            elif name not in same and is_varying(vars(builtins).get(name)):
                self.at(name, vars(builtins)[name])
        return tuple(found)

    def at(self, name: str, value: Any) -> Hashable:
        """Return the key of the value of a name."""
        self.path.append(name)
        found = self.key(value)
        self.path.pop()
        return found

    def foreign(self, value: Any) -> Hashable:
        """Return the key of a foreign function, which may wrap one of the user's, or keep many."""
        cells = [content(cell) for cell in value.__closure__ or ()]
        kinds = (FunctionType, MethodType, partial) if is_own(value) else _IN_CELLS
        inner = [x for x in cells if isinstance(x, kinds)]
        return Identity(value), *[self.key(x) for x in (*inner, *wrapped_in(value))]

    def rest(self) -> Hashable:
        """Return the key of attributes that no code names: what is unknown there has no effect."""
        complete, reason, found = self.complete, self.reason, []
        for name, value in self.unread:  # which grows
            found.append((name, self.key(value)))
        self.complete, self.reason = complete, reason
        return tuple(found)

    def module(self, value: ModuleType) -> Hashable:
        """Return the key of a module: for one of the user's, the attributes that the code reads."""
        if not is_foreign(value):
            return Identity(value), self.named(vars(value))
        return self.of_installed(value, None)

    def of_installed(self, module: ModuleType, names: frozenset[str] | None) -> Hashable:
        """Return the key of an installed module; what is read of it is looked at in the end."""
        if not is_own(module):
            self.installed.append((module, names))
        return Identity(module)

    def outside(self) -> Hashable:
        """Return the key of what the code reads of installed modules, when all its names are met:
        of functions, which are not read, only those that vary.
        """
        found: list[Hashable] = []
        done = set[tuple[str, str]]()
        while True:
            names = self.names | self.met
            held = [
                (m.__name__, n, vars(m))
                for m, read in self.installed
                for n in (names if read is None else read)
                if n in vars(m)
            ]
            todo = sorted([x for x in held if x[:2] not in done], key=lambda x: x[:2])
            if not todo:
                break
            done |= {x[:2] for x in todo}
            for module, name, values in todo:
                if not is_plain(values[name]) and not is_settled(values[name]):
                    found.append((module, name, self.at(name, values[name])))
        for installed, read in self.installed:
            entries, wanted = vars(installed), names if read is None else read
            if "__getattr__" in entries and not wanted <= entries.keys():
                self.sizes.append((entries, len(entries)))  # the others may be loaded later
        return tuple(found)

    def named(self, held: Mapping[str, Any]) -> Hashable:
        """Return the key of the attributes of a module or function that the code reads."""
        self.reads = True
        self.sizes.append((held, len(held)))
        names = held.keys() & self.names
        if COMPUTED in self.names:
            names |= {name for name in held if not name.startswith("__")}
        return self.values(held, sorted(names))

    def class_of(self, kind: type) -> Hashable:
        """Return the key of the class of an object, which is not made anew: without what makes
        others, unless code asks for the class.
        """
        if not WHOLE.isdisjoint(self.names | self.met):
            return self.key(kind)
        if kind in self.kinds:
            return "class", self.kinds[kind]
        self.kinds[kind] = len(self.kinds)
        return self.of_class(kind, CONSTRUCTORS)

    def of_class(self, value: Any, without: frozenset[str] = frozenset()) -> Hashable:
        """Return the key of a class: its special methods and the attributes that the code reads."""
        if is_foreign(value) and all(map(is_foreign, value.__mro__)):
            return self.installed_class(value)
        self.reads = True
        found = [Identity(value), self.key(type(value))]
        for cls in [x for x in value.__mro__ if not is_foreign(x)]:
            held = vars(cls)
            self.looked.append((_MRO, cls, cls.__mro__))
            self.sizes.append((held, len(held)))
            names = {name for name, x in held.items() if is_read(name, x, self.names)} - without
            found.append((Identity(cls), self.values(held, sorted(names))))
        return tuple(found)

    def installed_class(self, value: type) -> Hashable:
        """Return the key of a class that is not the user's."""
        varying = varying_methods(value)
        self.reads = self.reads or bool(varying)
        for name in sorted(varying & self.names):
            self.unknown(value, "gives something else at each call", name)
        return Identity(value)

    # -- objects

    def object(self, value: Any) -> Hashable:
        """Return the key of an object: its class and its content."""
        kind: Any = type(value)
        if is_array(value):
            return self.array(value)
        if any(hasattr(kind, name) for name in _OF_ARRAYS):
            return self.array_of_another(value)
        if kind.__module__.partition(".")[0] == OWN:
            return self.own(value)
        if isinstance(value, CACHED):
            return self.cached(value)
        row = row_of(kind)
        parts = contents(value)
        if row is None or (parts is None and READ.get(row) is not None):
            return self.unknown(value)
        cls = self.class_of(kind)
        hidden = is_opaque(value) or (is_constant(row) and is_foreign(kind))
        held = {} if hidden else attributes(value)
        self.stable = self.stable and is_fixed(value)
        if is_constant(row):
            return cls, self.constant(value), self.attributes(kind, held)
        if parts is None and not held:
            return cls if is_empty(value) else (cls, Identity(value))
        found = tuple([(self.key(k), self.key(x)) for k, x in (parts or ())])
        return cls, found, self.attributes(kind, held)

    def attributes(self, kind: Any, held: Mapping[str, Any]) -> Hashable:
        """Return the key of the attributes of an object; those of the user's which no code reads
        are left for the end.
        """
        names = self.names | self.met
        if is_of_the_user(kind) and WHOLE.isdisjoint(names):
            self.unread += [(name, x) for name, x in held.items() if name not in names]
            held = {name: x for name, x in held.items() if name in names}
        return tuple([(name, self.at(name, x)) for name, x in held.items()])

    def cached(self, value: Any) -> Hashable:
        """Return the key of a function that keeps its results, and of these."""
        if isinstance(value.__wrapped__, FunctionType) and is_foreign(value.__wrapped__):
            return Identity(value)
        self.stable, found = False, kept_by(value)
        if found is None or "cache_info" in self.names | self.met:  # which counts all calls
            return self.unknown(value)
        f, pairs = found
        return self.key(f), frozenset([(self.key(k), self.key(x)) for k, x in pairs])

    def constant(self, value: Any) -> Hashable:
        """Return the key of an object that never changes; equal ones may differ, as times of two
        zones do.
        """
        return Identity(value) if by_identity(value) else (value, repr(value))

    def own(self, value: Any) -> Hashable:
        """Return the key of an object of this package: its content if it compares by content."""
        wrapped = tuple([self.key(x) for x in wrapped_in(value)])
        if by_identity(value):
            return Identity(value), wrapped
        self.stable = self.stable and is_frozen(value)
        try:
            hash(value)
        except TypeError:
            return type(value), tuple([(k, self.key(x)) for k, x in attributes(value).items()])
        return type(value), value

    def array(self, value: Any) -> Hashable:
        """Return the key of a NumPy array or scalar: its type, shape and bytes."""
        scalar = not hasattr(value, "__setitem__")
        self.stable = self.stable and scalar
        if value.dtype.hasobject:
            return type(value), value.shape, self.key(value.tolist())
        more = value.strides, value.flags.writeable, self.key(getattr(value, "__dict__", None))
        data = digest(value.tobytes())
        return type(value), repr(value.dtype), value.shape, data, more

    def array_of_another(self, value: Any) -> Hashable:
        """Return the key of an array of another library: a tensor of torch knows how often it was
        changed, but for changes in host memory that others share.
        """
        version = getattr(value, "_version", None)
        if version is None:
            return self.unknown(value)
        self.stable = False
        memory = memory_of(value)
        return self.unknown(value) if memory is None else (Identity(value), version, memory)
