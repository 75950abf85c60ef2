"""Calls of a kernel that were made before: found by exact facts, launched without looking closer.

A call is *exact* if nothing that its plan or its launch depends on is left out of its key:

- an array of a registered library by type, shape, strides, `address % 16` and device;
- a run-time number by nothing: its value is checked, and given to each launch;
- a plain value (None, bool, int, str, bytes, float) by type and value, 0.0 and -0.0 apart;
- anything else by identity, and only if it can never change (`keys.is_frozen`); it is kept alive.

What the function takes from around it is compared by identity at every call (`watch`). Calls with
keywords, lists, dicts, objects, groups of arrays, or host arrays are never exact: they go the whole
way. So a call that is found here would have found the same plan there.
"""

from __future__ import annotations

from math import copysign, isfinite, lcm

from cute_py.dtypes.table import Dtype, b1
from cute_py.trace.arguments import Spec
from cute_py.trace.arrays import LIBRARIES, LINE, READERS, bare
from cute_py.trace.keys import is_frozen
from cute_py.trace.watch import Watch, is_settled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from typing import Any

    from cute_py.trace.arguments import Argument
    from cute_py.trace.watch import Seen

    Launch = Callable[[list[Any]], None]
    Number = Callable[[Any], Any]

MOST = 1024  # calls that are kept; all are dropped when there are more
_PLAIN = frozenset({int, bool, str, bytes, type(None)})


class Calls:
    """The exact calls of one kernel, each with its prepared launch."""

    __slots__ = ("divisors", "kept", "numbers", "watch")

    def __init__(self, watch: Watch, notes: Sequence[object]) -> None:
        """Keep calls of a function whose parameters (those by position) are annotated so."""
        self.watch = watch
        self.numbers = tuple([_number(x) if isinstance(x, Dtype) else None for x in notes])
        self.divisors = _divisors(notes)
        self.kept: dict[Hashable, tuple[Seen, Launch, tuple[object, ...]]] = {}

    def read(self, args: tuple[Any, ...]) -> tuple[Hashable, list[Any]] | None:
        """Return (key, addresses and numbers) of a call, None if it cannot be an exact one."""
        if len(args) > len(self.numbers):
            return None
        key: list[Hashable] = []
        values: list[Any] = []
        for x, number in zip(args, self.numbers):  # noqa: B905  (strict costs a microsecond)
            kind = x.__class__
            reader = READERS.get(kind)
            if reader is not None:
                facts, address = reader(x)
                key.append(facts)
                values.append(address)
            elif number is not None:
                value = number(x)
                if value is None:
                    return None
                key.append(None)
                values.append(value)
            elif kind in _PLAIN:
                key.append((kind, x))
            elif kind is float:
                key.append((kind, x, copysign(1.0, x)))
            else:
                key.append(id(x))
        if self.divisors:
            key += self._rests(args)
        return tuple(key), values

    def _rests(self, args: tuple[Any, ...]) -> list[Hashable]:
        """Return the rests of the addresses that are promised to be multiples of more than 16."""
        given = [x for x in zip(args, self.divisors, strict=False) if x[1] != LINE]
        return [READERS[x.__class__](x)[1] % n for x, n in given if x.__class__ in READERS]

    def launch(self, args: tuple[Any, ...]) -> bool:
        """Launch a call that is known; return whether it was."""
        read = self.read(args)
        if read is None:
            return False
        found = self.kept.get(read[0])
        if found is None or not self.watch.holds(found[0]):
            return False
        found[1](read[1])
        return True

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
            seen: what the function took from around it before the call was classified.
            launch: the prepared launch, a function of addresses and numbers.

        """
        if not all(map(_is_exact, args, arguments)) or not is_settled(seen):
            return
        if any(a.kind != "static" or not is_frozen(a.value) for a in arguments[len(args) :]):
            return
        read = self.read(args)
        if read is None:
            return
        if len(self.kept) >= MOST:
            self.kept.clear()
        statics = [a.value for a in arguments if a.kind == "static"]
        self.kept[read[0]] = (seen, launch, tuple(statics))


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
    """Return what addresses are promised to be multiples of, () if 16 bytes tell enough."""
    found = tuple([lcm(LINE, x.alignment or 1) if isinstance(x, Spec) else LINE for x in notes])
    return found if any(n != LINE for n in found) else ()
