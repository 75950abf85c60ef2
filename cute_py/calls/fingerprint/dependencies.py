"""The dependencies of a kernel's plan outside its arguments, and whether they have changed.

`fingerprint` finds them: the code of the kernel and of its helpers, their defaults and closures,
and the globals and attributes that they read. A snapshot compares these places by identity, which
is cheap: if they hold the same objects, and none of these can change, the key is the same.
"""

from __future__ import annotations

import sys
import warnings

from cute_py.calls.fingerprint import fingerprint
from cute_py.calls.fingerprint.names import names_in
from cute_py.calls.fingerprint.places import Places
from cute_py.calls.fingerprint.state import MISSING
from cute_py.errors import is_own
from cute_py.integers.code import call, compared, constant, every, function, path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Hashable
    from typing import Any

    from cute_py.calls.fingerprint.traversal import Traversal


MOST = 64  # snapshots kept for the values of calls; when there are more, all are evicted
MOST_INLINE = 64  # names compared in one expression


class Key:
    """A key whose hash is computed once."""

    __slots__ = ("code", "parts")

    def __init__(self, parts: Hashable) -> None:
        self.parts, self.code = parts, hash(parts)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Key) and self.code == other.code and self.parts == other.parts

    def __hash__(self) -> int:
        return self.code


class Snapshot(Places):
    """The dependencies of a function or value at one time: its key, and the places that were read.

    `stable`: the key is unchanged as long as the places hold the same objects. `complete`: it tells
    all that code depends on. `names`: the attributes that the code reads. `reads`: whether
    attributes of any value are read. `reason`: why it is not complete, or "".
    """

    __slots__ = ("complete", "generated", "key", "names", "reads", "reason", "stable")

    def __init__(self, key: Hashable, found: Traversal, before: Snapshot | None = None) -> None:
        """Keep the result of `fingerprint`, together with the places of another snapshot."""
        super().__init__(*([] if before is None else [before]), found)
        self.key, self.names = Key(key), found.names | found.met
        self.reads = found.reads or bool(found.installed)
        self.stable: bool = found.stable and (before is None or before.stable)
        self.complete: bool = found.complete and (before is None or before.complete)
        self.reason: str = (before.reason if before else "") or found.reason
        self.generated: Callable[[], bool] | None = None  # see `checker`

    def unchanged(self) -> bool:
        """Return whether all places still hold the same objects."""
        for get, name, value in self.items:
            if get(name, MISSING) is not value:
                return False
        for f, code, defaults, more in self.functions:
            if (
                f.__code__ is not code
                or f.__defaults__ is not defaults
                or f.__kwdefaults__ is not more
            ):
                return False
        if self.looked and not all(look(x) is value for look, x, value in self.looked):
            return False
        return not self.sizes or all(len(held) == count for held, count in self.sizes)

    def is_kept(self, now: Snapshot) -> bool:
        """Return whether the same objects have the same content as these have now."""
        return self.unchanged() and self.complete and now.complete and self.key == now.key

    def checker(self) -> Callable[[], bool]:
        """Return `unchanged` specialized for these places: one expression without loops, since
        every known call evaluates it.
        """
        if self.generated is None:
            loops = self.looked or len(self.items) > MOST_INLINE
            self.generated = self.unchanged if loops else self._inlined()
        return self.generated

    def _inlined(self) -> Callable[[], bool]:
        scope: dict[str, Any] = {"MISSING": MISSING}
        tests: list[ast.expr] = []
        for i, (get, key, value) in enumerate(self.items):
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


class Dependencies:
    """The dependencies of a function and of its annotations given as text."""

    __slots__ = ("calls", "function", "last", "names")

    def __init__(self, function: Callable[..., Any]) -> None:
        notes = getattr(function, "__annotations__", {}).values()
        self.function = function
        self.names: tuple[str, ...] = sum([_names_of_text(x) for x in notes], ())
        self.last: Snapshot | None = None
        self.calls: dict[tuple[int, ...], tuple[object, Snapshot]] = {}  # the values, kept alive

    def snapshot(self) -> Snapshot:
        """Return the current dependencies of the function."""
        last = self.last
        if last is None or not last.stable or not last.unchanged():
            self.last = last = Snapshot(*fingerprint((), self.function, self.names))
        return last

    def with_values(self, seen: Snapshot, values: tuple[object, ...]) -> Snapshot:
        """Return a snapshot extended by the compile-time values of a call, which the code reads."""
        if not values:
            return seen
        ids = tuple(map(id, values))
        _values, last = self.calls.get(ids, (None, None))
        if last is None or not last.stable or not last.unchanged():
            last = self._looked(seen, values)
            if len(self.calls) >= MOST:
                self.calls.clear()
            if last.stable:
                self.calls[ids] = values, last
        return last

    def _looked(self, seen: Snapshot, values: tuple[object, ...]) -> Snapshot:
        key, found = fingerprint(values, attributes=seen.names)
        names = found.names | found.met
        if not seen.reads or names == seen.names:
            return Snapshot((seen.key, key), found, seen)
        return Snapshot(*fingerprint(values, self.function, self.names, names), seen)


_noted: set[str] = set()


def note_once(name: str, reason: str) -> None:
    """Tell once that a function is traced at each call, why, and what to do."""
    text = (
        f"{name} is traced anew at each call, which is slow: {reason}; read it before the call, "
        f"and pass the kernel the number or text that it needs"
    )
    if text not in _noted:
        _noted.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=_level())


def _level() -> int:
    """Return the level of the caller's first frame outside of this package, for `warnings`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_own(frame):
        level, frame = level + 1, frame.f_back
    return level


def _names_of_text(note: object) -> tuple[str, ...]:
    if not isinstance(note, str):
        return ()
    try:
        return names_in(compile(note, "<annotation>", "eval")).globals
    except SyntaxError:
        return ()
