"""Whether the fields of a record have the types of their annotations: what a file is read by.

A traced plan has them by construction. An annotation is read once, into a function that tells
whether a value fits.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin

from cute_py.plan.op import saved_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    Fits: TypeAlias = Callable[[Any], bool]

PLAIN = (int, float, bool, str)  # of which no subclass, and no other one, is taken
LEAST, MOST = -1 << 63, (1 << 64) - 1  # the integers of a plan: numbers for s64 and u64


def problem_of(kind: type, given: dict[str, Any]) -> str:
    """Return what is wrong with values for the fields of a record, in words; "" if they fit.

    >>> from cute_py.plan.launch import Launch
    >>> problem_of(Launch, {"grid": (1, 1, 1), "block": (32, 1)})
    'block=(32, 1) in Launch, not tuple[int, int, int]'
    >>> problem_of(Launch, {"grid": (1, 1, 1)})
    'no block in Launch'
    """
    known = _checks(kind)
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        return f"{unknown!r} in {kind.__name__}"
    for name, (text, required, fits) in known.items():
        if name not in given:
            if required:
                return f"no {name} in {kind.__name__}"
        elif not fits(given[name]):
            return f"{name}={shortened(given[name])} in {kind.__name__}, not {text}"
    return ""


def shortened(x: object, most: int = 60) -> str:
    """Return a value as text of so many characters; what is deep or large is not printed."""
    try:
        text = ascii(x) if isinstance(x, (*PLAIN, type(None))) else str(x)
    except (RecursionError, ValueError):  # a number of thousands of digits
        text = f"a {type(x).__name__}"
    return text if len(text) <= most else f"{text[: most - 4]} ..."


@cache
def _checks(kind: Any) -> dict[str, tuple[str, bool, Fits]]:  # a class
    """Return (annotation, whether it has no default, the check) of the saved fields, by name."""
    known, saved = vars(sys.modules[kind.__module__]), saved_names(kind)
    return {
        f.name: (
            str(f.type),
            f.default is MISSING and f.default_factory is MISSING,
            _fits(eval(str(f.type), dict(known))),  # the annotation, a text of this package
        )
        for f in fields(kind)
        if f.name in saved
    }


def _fits(annotation: Any) -> Fits:
    """Return the function that tells whether a value has a type."""
    parts = get_args(annotation)
    if isinstance(annotation, UnionType):
        return _any_of([_fits(part) for part in parts])
    if get_origin(annotation) is tuple:
        if parts[-1] is ...:
            return _all_fit(_fits(parts[0]))
        return _each_fits([_fits(part) for part in parts])
    if annotation is int:
        return lambda x: x.__class__ is int and LEAST <= x <= MOST
    if annotation in PLAIN:
        return lambda x: x.__class__ is annotation
    if annotation is None or annotation is type(None):
        return lambda x: x is None
    return lambda x: isinstance(x, annotation)


def _any_of(rules: Iterable[Fits]) -> Fits:
    found = tuple(rules)
    return lambda x: any(fits(x) for fits in found)


def _all_fit(rule: Fits) -> Fits:
    return lambda x: x.__class__ is tuple and all(map(rule, x))


def _each_fits(rules: list[Fits]) -> Fits:
    return lambda x: (
        x.__class__ is tuple
        and len(x) == len(rules)
        and all(fits(part) for fits, part in zip(rules, x, strict=True))
    )
