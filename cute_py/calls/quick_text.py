"""Functions that find a call by its arguments, written as text for their types.

A loop over the arguments would cost more than the launch, so one function reads them all. The call
before is remembered beside the dictionary: to compare two keys costs a sixth of hashing one. For
the types of a call with an array, a run-time number and a compile-time integer, it is

>>> from cute_py.calls.arrays import TypedArray
>>> print(functions_text((TypedArray, float, int), (None, float, None), (16, 16, 16)))
def again(args):
    global recent
    if len(args) != 3: return launch(args)
    (x0, x1, x2) = args
    if x0.__class__ is not Type0 or x1.__class__ is not Type1 or x2.__class__ is not Type2:
        return launch(args)
    (f0, v0) = read0(x0)
    v1 = number1(x1)
    if v1 is None: return None
    key = (f0, v0 % 16, x2)
    last, found = recent
    if key != last:
        found = known.get(key)
        recent = key, found
    if found is None or not found[0]():
        recent = None, None
        return False
    found[1]((v0, v1))
    return True
<BLANKLINE>
def read(args):
    (x0, x1, x2) = args
    (f0, v0) = read0(x0)
    v1 = number1(x1)
    if v1 is None: return None
    return (f0, v0 % 16, x2)
"""

from __future__ import annotations

import re
from math import copysign

from cute_py.calls.arrays import LIBRARIES, READERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import Any, TypeAlias

    Again: TypeAlias = Callable[[tuple[Any, ...]], bool]
    Read: TypeAlias = Callable[[tuple[Any, ...]], Hashable]
    Number: TypeAlias = Callable[[Any], Any]
    Part: TypeAlias = tuple[list[str], list[str], list[str]]

_PLAIN = frozenset({int, bool, str, bytes, type(None)})


def functions_of(
    types: tuple[type, ...],
    numbers: Sequence[Number | None],
    divisors: Sequence[int],
    known: Mapping[Hashable, Any],
    launch: Again,
) -> tuple[Again, Read]:
    """Return the functions for calls of these types, which take the arguments as a tuple: one
    launches the call if it is known, one gives its key, None where a number does not fit.

    Args:
        types: of the arguments.
        numbers: for each parameter, the function that gives a run-time number, None for others.
        divisors: for each parameter, what addresses of arrays are compared by.
        known: by key: (whether it still holds, the launch, ...).
        launch: what takes calls of other types.

    """
    scope: dict[str, Any] = {"copysign": copysign, "known": known, "launch": launch}
    scope["recent"] = None, None  # the key of the call before, and what was found by it
    scope |= {f"Type{i}": kind for i, kind in enumerate(types)}
    scope |= {f"read{i}": READERS[kind] for i, kind in enumerate(types) if kind in READERS}
    scope |= {f"number{i}": number for i, number in enumerate(numbers)}
    exec(functions_text(types, numbers, divisors), scope)
    return scope["again"], scope["read"]


def functions_text(
    types: tuple[type, ...], numbers: Sequence[Number | None], divisors: Sequence[int]
) -> str:
    """Return the text of the functions `again` and `read`."""
    parts = [_part(i, *row) for i, row in enumerate(zip(types, numbers, divisors, strict=False))]
    lines, key, values = ([x for part in parts for x in part[n]] for n in range(3))
    names = _tuple([f"x{i}" for i in range(len(types))])
    other = [f"x{i}.__class__ is not Type{i}" for i in range(len(types))]
    again = [
        "global recent",
        f"if len(args) != {len(types)}: return launch(args)",
        f"{names} = args",
        f"if {' or '.join(other) or 'False'}:",
        "    return launch(args)",
        *lines,
        f"key = {_tuple(key)}",
        "last, found = recent",
        "if key != last:",
        "    found = known.get(key)",
        "    recent = key, found",
        "if found is None or not found[0]():",
        "    recent = None, None",
        "    return False",
        f"found[1]({_tuple(values)})",
        "return True",
    ]
    read = [f"{names} = args", *lines, f"return {_tuple(key)}"]
    return f"{_function('again', again)}\n\n{_function('read', read)}"


def _part(i: int, kind: type, number: Number | None, divisor: int) -> Part:
    """Return what one argument adds: lines that read it, parts of the key, values of the launch."""
    x, v = f"x{i}", f"v{i}"
    if kind in LIBRARIES:
        library = LIBRARIES[kind]
        facts = [_of(fact, x) for fact in library.facts]
        return [f"{v} = {_of(library.address, x)}"], [*facts, f"{v} % {divisor}"], [v]
    if kind in READERS:
        return [f"(f{i}, {v}) = read{i}({x})"], [f"f{i}", f"{v} % {divisor}"], [v]
    if number is not None:
        return [f"{v} = number{i}({x})", f"if {v} is None: return None"], [], [v]
    return [], [_static(kind, x)], []


def _of(expression: str, x: str) -> str:
    """Return an expression of a library for the array that has this name."""
    return re.sub(r"\bx\b", x, expression)


def _static(kind: type, x: str) -> str:
    """Return what tells a compile-time value of a type from others: plain ones by value, 0.0 and
    -0.0 apart; others by identity.
    """
    if kind is float:
        return f"({x}, copysign(1.0, {x}))"
    return x if kind in _PLAIN else f"id({x})"


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _function(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"def {name}(args):", *[f"    {line}" for line in lines]])
