"""What a kernel's plan depends on outside of its arguments: is it the same as before?

`look` finds that: the code of the kernel and of its helpers, their defaults, closures, and the
globals and attributes that they name. Here the objects in these places are compared, which costs
little: places that hold the same objects, none of which can change, have the same key.
"""

from __future__ import annotations

from cute_py.calls.fingerprint import look
from cute_py.calls.fingerprint.names import global_names
from cute_py.calls.fingerprint.values import MISSING, content
from cute_py.integers.code import call, compared, constant, every, function, path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Hashable
    from typing import Any

    from cute_py.calls.fingerprint import Look


MOST = 64  # values of calls that are kept; all are dropped when there are more
MOST_INLINE = 64  # places that a checker compares in one expression


class Key:
    """A key whose hash is computed once."""

    __slots__ = ("code", "parts")

    def __init__(self, parts: Hashable) -> None:
        self.parts, self.code = parts, hash(parts)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Key) and self.parts == other.parts)

    def __hash__(self) -> int:
        return self.code


class Seen:
    """What a function, or a value, refers to at one time: its key, and the places looked at.

    `settled`: while the places hold the same objects, the key is the same. `names`: the attributes
    that its code reads. `reads`: whether there is a value that they count for.
    """

    __slots__ = (
        "cells",
        "classes",
        "entries",
        "functions",
        "key",
        "made",
        "names",
        "reads",
        "settled",
        "sizes",
    )

    def __init__(self, key: Hashable, look: Look, places: Seen | None = None) -> None:
        """Keep what a look found; with `places`, those of another beside them."""
        self.key, self.names, self.settled = Key(key), look.names | look.met, look.settled
        self.reads = look.reads
        self.entries, self.cells = tuple(look.entries), tuple(look.cells)
        self.functions, self.classes = tuple(look.functions), tuple(look.classes)
        self.sizes = tuple(look.sizes)
        self.made: Callable[[], bool] | None = None  # see `checker`
        if places is not None:
            self.settled = self.settled and places.settled
            self.entries, self.cells = places.entries + self.entries, places.cells + self.cells
            self.functions = places.functions + self.functions
            self.classes, self.sizes = places.classes + self.classes, places.sizes + self.sizes

    def holds(self) -> bool:
        """Tell whether the places hold the objects that were seen."""
        for get, name, value in self.entries:
            if get(name, MISSING) is not value:
                return False
        for f, code, defaults, more in self.functions:
            if (
                f.__code__ is not code
                or f.__defaults__ is not defaults
                or f.__kwdefaults__ is not more
            ):
                return False
        if self.cells and not all(content(cell) is value for cell, value in self.cells):
            return False
        if self.classes and not all(cls.__mro__ is mro for cls, mro in self.classes):
            return False
        return not self.sizes or all(len(held) == count for held, count in self.sizes)

    def checker(self) -> Callable[[], bool]:
        """Return `holds` as a function made for these places, one expression without loops: known
        calls ask it each time.
        """
        if self.made is None:
            loops = self.cells or self.classes or len(self.entries) > MOST_INLINE
            self.made = self.holds if loops else self._inlined()
        return self.made

    def _inlined(self) -> Callable[[], bool]:
        scope: dict[str, Any] = {"MISSING": MISSING}
        tests: list[ast.expr] = []
        for i, (get, key, value) in enumerate(self.entries):
            scope |= {f"get{i}": get, f"value{i}": value}
            held = call(f"get{i}", constant(key), "MISSING")
            tests.append(compared(held, "is", f"value{i}"))
        for i, (f, *parts) in enumerate(self.functions):
            scope[f"f{i}"] = f
            for part, value in zip(("code", "defaults", "kwdefaults"), parts, strict=True):
                scope[f"{part}{i}"] = value
                held = path(f"f{i}", (f"__{part}__",))
                tests.append(compared(held, "is", f"{part}{i}"))
        for i, (names, count) in enumerate(self.sizes):
            scope[f"names{i}"] = names
            tests.append(compared(call("len", f"names{i}"), "==", constant(count)))
        return function([], every(tests), scope)


class Watch:
    """A function, and the text of its annotations: what they take from around them."""

    __slots__ = ("calls", "function", "last", "names")

    def __init__(self, function: Callable[..., Any]) -> None:
        notes = getattr(function, "__annotations__", {}).values()
        self.function = function
        self.names: tuple[str, ...] = sum([_names_of_text(x) for x in notes], ())
        self.last: Seen | None = None
        self.calls: dict[tuple[int, ...], tuple[object, Seen]] = {}  # the values, kept alive

    def now(self) -> Seen:
        """Return what the function takes from around it now."""
        last = self.last
        if last is None or not last.settled or not last.holds():
            self.last = last = Seen(*look((), self.function, self.names))
        return last

    def with_values(self, seen: Seen, values: tuple[object, ...]) -> Seen:
        """Return what was seen with the compile-time values of a call, which the code reads too."""
        if not values:
            return seen
        ids = tuple(map(id, values))
        _values, last = self.calls.get(ids, (None, None))
        if last is None or not last.settled or not last.holds():
            last = self._looked(seen, values)
            if len(self.calls) >= MOST:
                self.calls.clear()
            if last.settled:
                self.calls[ids] = values, last
        return last

    def _looked(self, seen: Seen, values: tuple[object, ...]) -> Seen:
        key, found = look(values, attributes=seen.names)
        names = found.names | found.met
        if not seen.reads or names == seen.names:
            return Seen((seen.key, key), found, seen)
        return Seen(*look(values, self.function, self.names, names), seen)


def _names_of_text(note: object) -> tuple[str, ...]:
    if not isinstance(note, str):
        return ()
    try:
        return global_names(compile(note, "<annotation>", "eval"))
    except SyntaxError:
        return ()
