"""Calls of a kernel that were made before: found by exact facts, launched without looking closer.

A call is *exact* if nothing that its plan or its launch depends on is left out of its key:

- an array of a registered library by type, shape, strides, `address % 16` and device;
- a run-time number by nothing: its value is checked, and given to each launch;
- a plain value (None, bool, int, str, bytes, float) by type and value, 0.0 and -0.0 apart;
- anything else by identity, and only if it can never change (`is_frozen`); it is kept alive.

What the function takes from around it, and the code of the classes of such values, is compared by
identity at every call (`watch`). Calls with
keywords, lists, dicts, objects, groups of arrays, or host arrays are never exact: they go the whole
way. So a call that is found here would have found the same plan there.
"""

from __future__ import annotations

from math import isfinite, lcm

from cute_py.calls.arguments import Spec
from cute_py.calls.arrays import LIBRARIES, LINE, READERS, bare
from cute_py.calls.fingerprint.values import is_frozen
from cute_py.calls.quick_text import functions_of
from cute_py.dtypes.table import Dtype, b1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from typing import Any

    from cute_py.calls.arguments import Argument
    from cute_py.calls.fingerprint.watch import Seen
    from cute_py.calls.quick_text import Again, Number, Read

    Launch = Callable[[Sequence[Any]], None]
    Known = tuple[Callable[[], bool], Launch, tuple[object, ...]]

MOST = 1024  # calls that are kept; all are dropped when there are more


class Calls:
    """The exact calls of one kernel, each with its prepared launch.

    For the types of a call there is one function, made when such a call is first kept, that reads
    all its arguments: a loop over them would cost more than the launch.
    """

    __slots__ = ("again", "count", "divisors", "kept", "numbers")

    def __init__(self, notes: Sequence[object]) -> None:
        """Keep calls of a function whose parameters (those by position) are annotated so."""
        self.numbers = tuple([_number(x) if isinstance(x, Dtype) else None for x in notes])
        self.divisors = _divisors(notes)
        self.kept: dict[tuple[type, ...], tuple[Again, Read, dict[Hashable, Known]]] = {}
        self.count = 0
        self.again: Again = self.launch  # what the last call was found by; asks `launch` for others

    def launch(self, args: tuple[Any, ...]) -> bool:
        """Launch a call that is known; return whether it was."""
        alike = self.kept.get(tuple(map(type, args)))
        if alike is None:
            return False
        self.again = alike[0]
        return alike[0](args)

    def keep(
        self,
        args: tuple[Any, ...],
        arguments: Sequence[Argument],
        seen: Seen,
        launch: Launch,
    ) -> None:
        """Keep a call that was launched, if it is exact.

        Args:
            args: as they were given, all by position.
            arguments: the same, classified, with those of default values.
            seen: what the function and these arguments referred to before the call was traced.
            launch: the prepared launch, a function of addresses and numbers; its `go`, if it has
                one, does the same in fewer steps.

        """
        if not all(map(_is_exact, args, arguments)) or not seen.settled:
            return
        if any(a.kind != "static" or not is_frozen(a.value) for a in arguments[len(args) :]):
            return
        if self.count >= MOST:
            self.kept.clear()
            self.count, self.again = 0, self.launch
        types = tuple(map(type, args))
        if types not in self.kept:
            known: dict[Hashable, Known] = {}
            functions = functions_of(types, self.numbers, self.divisors, known, self.launch)
            self.kept[types] = *functions, known
        _again, read, known = self.kept[types]
        key = read(args)
        statics = [a.value for a in arguments if a.kind == "static"]
        known[key] = (seen.checker(), getattr(launch, "go", launch), (launch, *statics))
        self.count += 1


def _is_exact(x: Any, argument: Argument) -> bool:  # noqa: ANN401
    if argument.kind == "array":
        return argument.value is x and bare(x).__class__ in LIBRARIES and x.__class__ in READERS
    if argument.kind == "number":
        return x.__class__ in (int, float, bool)
    return argument.kind == "static" and argument.value is x and is_frozen(x)


def _number(kind: Dtype) -> Number:
    """Return the function that gives a number as a launch takes it, None where `arguments.number`
    has to look closer: it refuses, or the number is one of another library.
    """
    if kind is b1:
        return lambda x: x if x.__class__ is bool else None
    low, most = kind.min, kind.max
    if not kind.is_float:
        return lambda x: x if x.__class__ is int and low <= x <= most else None

    def real(x: Any) -> float | None:  # noqa: ANN401
        if x.__class__ is not float and x.__class__ is not int:
            return None
        return float(x) if abs(x) <= most or (x.__class__ is float and not isfinite(x)) else None

    return real


def _divisors(notes: Sequence[object]) -> tuple[int, ...]:
    """Return what addresses are to be compared by: 16 bytes, or what is promised of them."""
    return tuple([lcm(LINE, x.alignment or 1) if isinstance(x, Spec) else LINE for x in notes])
