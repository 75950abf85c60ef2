"""What Python values contain, so that a run-time block cannot change one without being noticed.

A value contains what can be reached from it: elements, attributes, closure cells, the globals that
the code of a function reads. `Snapshot` reads them, and `same` compares two readings. Values of the
kernel itself, such as run-time integers and tensors, are compared by what they are: their scopes
are checked where they are used.
"""

from __future__ import annotations

import sys
import warnings
from dis import get_instructions
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)

from cute_py.calls.fingerprint.names import COMPUTED, is_foreign, names_in
from cute_py.calls.fingerprint.state import MISSING, content, contents
from cute_py.calls.fingerprint.values import (
    WRAPPERS,
    attributes,
    is_array,
    is_opaque,
    wrapped_in,
)
from cute_py.errors import CuteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

_OWN = __name__.partition(".")[0]
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
MOST_BYTES = 1 << 16  # of an array that is compared; larger ones are made read-only
_CONTAINERS = (list, tuple, dict, set, frozenset)


class Contents:
    """What a value contains: its parts by name, key or position.

    Attributes:
        value: the value.
        parts: each part, as a plain value or as its own `Contents`.
        grows: whether parts may be added: an object may keep what it has computed.
    """

    __slots__ = ("grows", "parts", "value")

    def __init__(self, value: object) -> None:
        self.value, self.grows = value, False
        self.parts: dict[Any, Any] = {}


class Unreadable:
    """An iterator whose position cannot be read."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class Snapshot:
    """The names of some frames with their contents.

    Attributes:
        names: for each frame, its locals and the globals that its code reads.
        large: arrays that are too large to compare.
    """

    def __init__(self, frames: list[FrameType]) -> None:
        self.large: list[Any] = []
        self.known: dict[int, Any] = {}
        self.alive: list[object] = []  # so that no id is reused
        self.read_names: set[str] = set()
        self.modules: list[tuple[Contents, ModuleType]] = []
        self.todo: list[tuple[Contents, dict[Any, Any]]] = []
        self.names = [self._names_of(frame) for frame in frames]
        self._finish()

    def contents(self, value: object) -> object:
        """Return the contents of one more value."""
        found = self.read(value)
        self._finish()
        return found

    def _finish(self) -> None:
        while self.todo or self.modules:
            while self.todo:
                node, parts = self.todo.pop()
                node.parts = {key: self.read(x) for key, x in parts.items()}
            later, self.modules = self.modules, []
            for node, module in later:
                self.todo.append((node, self._of_module(module)))

    def _names_of(self, frame: FrameType) -> dict[str, object]:
        names, outside = names_in(frame.f_code), frame.f_globals
        self.read_names |= names.attributes
        found = {n: outside[n] for n in names.globals if n in outside}
        return {name: self.read(x) for name, x in {**found, **frame.f_locals}.items()}

    def read(self, value: Any) -> object:
        """Return the contents of a value; the value itself if it cannot change."""
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return value
        if _is_own(value):
            return value
        met = self.known.get(id(value), MISSING)
        if met is not MISSING:
            return met
        self.alive.append(value)
        node = self.known[id(value)] = Contents(value)
        parts = self._parts(value, node)
        if parts is None:
            self.known[id(value)] = value
            return value
        if isinstance(parts, Unreadable):
            self.known[id(value)] = parts
            return parts
        self.todo.append((node, parts))
        return node

    def _parts(self, value: Any, node: Contents) -> dict[Any, Any] | Unreadable | None:
        """Return the parts of a value, None if it has none that may change."""
        if isinstance(value, FunctionType):
            return self._of_function(value)
        if isinstance(value, MethodType):
            return {"function": value.__func__, "self": value.__self__}
        if isinstance(value, BuiltinFunctionType):
            owner = value.__self__
            return None if isinstance(owner, (ModuleType, type, type(None))) else {"self": owner}
        if isinstance(value, ModuleType):
            self.modules.append((node, value))  # when all names that code reads are known
            return {}
        if isinstance(value, type):
            return None if is_foreign(value) else dict(_own_entries(value))
        if isinstance(value, WRAPPERS):
            return dict(enumerate(wrapped_in(value)))
        if isinstance(value, CellType):
            return {0: content(value)}
        if is_array(value):
            return self._of_array(value)
        if isinstance(value, GeneratorType):
            return _of_generator(value)
        return self._of_object(value, node)

    def _of_function(self, value: Any) -> dict[Any, Any] | None:
        if is_foreign(value):
            return {"attributes": dict(vars(value))} if vars(value) else None
        code, outside = value.__code__, value.__globals__
        names = names_in(code)
        self.read_names |= names.attributes
        cells = zip(code.co_freevars, value.__closure__ or (), strict=True)
        return {
            "defaults": (value.__defaults__, value.__kwdefaults__),
            "attributes": dict(vars(value)),
            **{("cell", name): cell for name, cell in cells},
            **{("global", n): outside[n] for n in names.globals if n in outside},
        }

    def _of_module(self, module: ModuleType) -> dict[Any, Any]:
        """Return the attributes of a module that code reads; of a foreign one, the methods of
        objects among them, such as `random.random`.
        """
        every = COMPUTED in self.read_names
        names = [n for n in vars(module) if n in self.read_names or (every and n[:2] != "__")]
        held = {name: vars(module)[name] for name in sorted(names)}
        if is_foreign(module):
            methods = (MethodType, BuiltinFunctionType)
            held = {name: x for name, x in held.items() if isinstance(x, methods)}
        return held

    def _of_array(self, value: Any) -> dict[Any, Any] | None:
        """Return the bytes of a NumPy array; a large one is remembered instead."""
        if not hasattr(value, "__setitem__"):  # a scalar
            return None
        if value.dtype.hasobject:
            return {"elements": value.tolist()}
        if value.nbytes > MOST_BYTES:
            self.large.append(value)
            return None
        return {"type": str(value.dtype), "shape": value.shape, "bytes": value.tobytes()}

    def _of_object(self, value: Any, node: Contents) -> dict[Any, Any] | Unreadable | None:
        if is_opaque(value):
            return None
        if hasattr(type(value), "__dlpack__") and hasattr(type(value), "_version"):  # of torch
            return {"version": value._version}
        plain, held = contents(value), attributes(value)
        parts: dict[Any, Any] = {}
        for i, (key, x) in enumerate(plain or ()):
            parts["key", i], parts["item", i] = key, x
        parts |= {("attribute", name): x for name, x in held.items()}
        node.grows = plain is None and hasattr(value, "__dict__")
        if not is_foreign(type(value)):
            parts["class"] = type(value)
        written_by = next(kind for kind in type(value).__mro__ if is_foreign(kind))
        if plain is not None or written_by is object:
            return parts
        state = _state_of(value)
        return {**parts, **state} if isinstance(state, dict) and parts else state or parts or None


def contents_of(value: object) -> object:
    """Return the contents of a value, without arrays that are too large to compare."""
    return Snapshot([]).contents(value)


def _own_entries(kind: type) -> Iterator[tuple[str, object]]:
    """Give the attributes of a class that its user may change."""
    for name, value in vars(kind).items():
        if name not in ("__dict__", "__weakref__", "__doc__", "__module__"):
            yield name, value
    for base in kind.__bases__:
        if not is_foreign(base):
            yield f"base {base.__qualname__}", base


def _is_own(value: object) -> bool:
    """Tell whether a value is one of this package: none of them changes, but for scopes."""
    kind: Any = type(value)
    return kind.__module__.partition(".")[0] == _OWN and kind is not type


def _of_generator(value: Any) -> dict[Any, Any] | Unreadable:
    """Return where a generator stands, and its names; a loop in it hides how far it is."""
    frame = value.gi_frame
    if frame is None:
        return {"at": None}
    if any(x.opname == "FOR_ITER" for x in get_instructions(value.gi_code)):
        return Unreadable(value)
    return {"at": frame.f_lasti, "from": value.gi_yieldfrom, **frame.f_locals}


def _state_of(value: Any) -> dict[Any, Any] | Unreadable | None:
    """Return the state of an object that is written in C: what its copy would be made of, its
    bytes, or its text.
    """
    if isinstance(value, (str, bytes, int, float)):
        return None
    try:
        with memoryview(value) as view:
            return {"bytes": view.tobytes()}
    except (TypeError, ValueError, BufferError):
        pass
    kind: Any = type(value)
    alone = kind.__reduce__ is object.__reduce__ and kind.__getstate__ is object.__getstate__
    if hasattr(value, "__dict__") and alone:
        return None  # its attributes are all
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # itertools lose their copies in Python 3.14
            made = value.__reduce_ex__(2)
    except Exception:
        made = None
    if isinstance(made, str):
        return None  # a name: a constant
    if made is not None and _is_hidden(getattr(made[1][:1] and made[1][0], "__self__", None)):
        return Unreadable(value)  # an iterator over calls of an object's method
    if made is not None:
        return {k: list(x) if k > 2 and x is not None else x for k, x in enumerate(made[1:], 1)}
    if hasattr(value, "__next__"):
        return Unreadable(value) if _is_hidden(value) else {"text": repr(value)}
    return None


def _is_hidden(value: object) -> bool:
    """Tell whether an object is written in C, and even its text says nothing of its state."""
    if value is None or hasattr(value, "__dict__") or not is_foreign(type(value)):
        return False
    return " at 0x" in object.__repr__(value) and " at 0x" in repr(value)


# -- comparison


def same(a: Any, b: Any) -> bool:
    """Tell whether two readings agree. Attributes that an object has gained do not count: it may
    keep what it computed. A container or function may be another one with the same contents.
    """
    return _same(a, b, set())


def same_state(a: Any, b: Any) -> bool:
    """Tell whether two readings cannot be told apart, but by the identity of objects: code would do
    the same with both.
    """
    return _same(a, b, {})


def _same(a: Any, b: Any, met: set[tuple[int, int]] | dict[object, int]) -> bool:
    """Compare two readings. `met`: the pairs that are compared already; or, for `same_state`, the
    partner of each part of a and of b, which stays its partner.
    """
    strict = isinstance(met, dict)
    if isinstance(a, Contents) and isinstance(b, Contents):
        known = _met(a, b, met)
        return _same_parts(a, b, met) if known is None else known
    if isinstance(a, Unreadable) and isinstance(b, Unreadable):
        return a.value is b.value
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, _PLAIN):
        return bool(a == b) or a != a
    if isinstance(a, Contents) or not _is_own(a):
        return False
    try:
        return _described(a) == _described(b)
    except CuteError:  # made of values of an iteration that has ended
        return not strict


def _described(value: Any) -> tuple[str, object]:
    """Return what tells a value of this package from others; the text of memory has no type."""
    return str(value), getattr(value, "dtype", None)


def _met(a: Contents, b: Contents, met: set[tuple[int, int]] | dict[object, int]) -> bool | None:
    """Return what is known of two parts already, and remember that they are compared."""
    if isinstance(met, dict):
        keys = ("a", id(a)), ("b", id(b))
        if any(key in met for key in keys):
            return [met.get(key) for key in keys] == [id(b), id(a)]
        met.update(zip(keys, (id(b), id(a)), strict=True))
        return None
    if (id(a), id(b)) in met:
        return True
    met.add((id(a), id(b)))
    return None


def _same_parts(a: Contents, b: Contents, met: set[tuple[int, int]] | dict[object, int]) -> bool:
    strict = isinstance(met, dict)
    grows = a.grows and not strict
    if not _alike(a.value, b.value, strict) or (len(a.parts) != len(b.parts) and not grows):
        return False
    if any(_hides(key, b.value) for key in b.parts.keys() - a.parts.keys()):
        return False
    return all(key in b.parts and _same(x, b.parts[key], met) for key, x in a.parts.items())


def _hides(key: Any, value: object) -> bool:
    """Tell whether an attribute that an object has gained hides one of its class: a number, say;
    what a property of the class has computed does not.
    """
    held = getattr(type(value), key[1], MISSING) if isinstance(key, tuple) else MISSING
    return held is not MISSING and not hasattr(type(held), "__get__")


def _alike(a: Any, b: Any, strict: bool) -> bool:
    """Tell whether two values are one, or containers, functions or iterators of one kind; `strict`:
    or any objects of one class, as all of their parts are compared, or of two from one `class`.
    """
    if a is b:
        return True
    if strict and not any(map(is_foreign, (type(a), type(b)))):
        return _twins(type(a), type(b))
    if type(a) is not type(b):
        return False
    if strict and isinstance(a, type):
        return _twins(a, b)
    if isinstance(a, FunctionType):
        return a.__code__ is b.__code__
    if isinstance(a, GeneratorType):
        return a.gi_code is b.gi_code
    if strict:
        return True
    iterates = hasattr(a, "__next__") and is_foreign(type(a))
    return isinstance(a, (*_CONTAINERS, CellType, MethodType)) or iterates


def _twins(a: type, b: type) -> bool:
    """Tell whether two classes are one, or may come from one statement; their attributes are
    compared apart.
    """
    bases = ([x for x in kind.__bases__ if is_foreign(x)] for kind in (a, b))
    return a is b or (a.__qualname__ == b.__qualname__ and next(bases) == next(bases))


def unreadable_in(reading: object) -> object:
    """Return an iterator in a reading whose position cannot be read, or None."""
    todo, met = [reading], set()
    while todo:
        node = todo.pop()
        if isinstance(node, Unreadable):
            return node.value
        if isinstance(node, Contents) and id(node) not in met:
            met.add(id(node))
            todo.extend(node.parts.values())
    return None


class Locked:
    """Large NumPy arrays, read-only until `unlock`."""

    def __init__(self, arrays: list[Any]) -> None:
        numpy = sys.modules["numpy"] if arrays else None
        self.arrays: list[Any] = []
        for array in arrays:
            while numpy is not None and isinstance(array, numpy.ndarray):
                if array.flags.writeable:
                    self.arrays.append(array)
                    array.flags.writeable = False
                array = array.base

    def unlock(self) -> None:
        """Make the arrays writable again, a base before its views."""
        for array in reversed(self.arrays):
            array.flags.writeable = True
        self.arrays = []
