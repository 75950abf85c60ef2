"""Packages whose names load on first use (PEP 562), so that importing them is fast."""

from __future__ import annotations

import builtins
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


def lazy(
    package: str,
    homes: dict[str, str],
    found: Callable[[str], object] = lambda name: None,
    listed: Callable[[], Iterable[str]] = tuple,
    unlisted: Callable[[], Iterable[str]] = tuple,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package; the former also provides `__all__`.

    Args:
        package: the `__name__` of the package.
        homes: for each module of cute_py the names that it defines, separated by spaces;
            `range=range_` is a name that the module spells differently.
        found: returns the value of any other name, or None; the value is not cached.
        listed: names of `found` that `dir` lists.
        unlisted: names of `found` that `dir` does not list, but that errors may suggest.

    An unknown name is an AttributeError, which suggests a similar name.
    """
    places = {}
    for module, defined in homes.items():
        for each in defined.split():
            name, _, there = each.partition("=")
            places[name] = (module, there or name)

    def get(name: str) -> Any:
        if name not in places:
            value = found(name)
            if value is None and name == "__all__":
                return public(places)
            if value is None:
                raise Unknown(package, name, lambda: {*places, *listed(), *unlisted()})
            return value
        module, there = places[name]
        value = getattr(__import__(f"cute_py.{module}", fromlist=[there]), there)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        special = [each for each in vars(sys.modules[package]) if each.startswith("__")]
        return sorted({*special, *places, *listed()})

    return get, names


def public(names: Iterable[str]) -> list[str]:
    """Return the public names that do not shadow a builtin under `import *`, sorted."""
    return sorted(each for each in names if each[0] != "_" and not hasattr(builtins, each))


class Unknown(AttributeError):
    """A name that a package does not have. The similar name is searched only when the error is
    shown, since an import probes packages for names of modules.
    """

    def __init__(self, package: str, name: str, known: Callable[[], Iterable[str]]) -> None:
        # without name and obj, or the interpreter would add its own suggestion to the traceback
        super().__init__(f"module {package!r} has no attribute {name!r}", name=None, obj=None)
        self._name, self._known = name, known

    def __str__(self) -> str:
        from difflib import get_close_matches

        known = () if self._name.startswith("_") else self._known()
        close = get_close_matches(self._name, known, n=1)
        return "; ".join([self.args[0], *(f"did you mean {each!r}?" for each in close)])

    def __reduce__(self) -> tuple[object, ...]:
        return AttributeError, (str(self),)
