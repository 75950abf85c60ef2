"""Calls of a function of arrays that were answered before, found by exact facts.

A known call of a kernel is found by `quick`; this is the same for a function that prepares such a
call. What an answer may depend on is its key:

- of an array its type, its facts (see `arrays.Library`; of NumPy's also whether it may be written)
  and `address % 16`;
- of a run-time number whether it is the one that the function treats apart;
- of anything else its type and value, or its identity if it can never change.

What depends on addresses, contents or the moment is not in the key: an answer asks that each time.
As in `quick`, one function, made for the types of a call, compares all arguments with the call
before. For an array, a number that may be 1, and text it is

    def again(x0, x1, x2):
        if not guard(x0): return find(x0, x1, x2)      # or, of libraries without guards,
        if not x0.__class__ is Type0: return find(x0, x1, x2)
        if not x1.__class__ is Type1: return find(x0, x1, x2)
        ...
        v0 = x0.data_ptr()
        if v0 % 16: return find(x0, x1, x2)
        if (x0.dtype, x0.shape, ..., x1 == 1, x2) != key: return find(x0, x1, x2)
        return answer((x0, x1, x2), (v0,), (x1,))
"""

from __future__ import annotations

from functools import reduce

from cute_py.calls.arrays import LIBRARIES, LINE, READERS, bare
from cute_py.calls.fingerprint.values import is_frozen
from cute_py.calls.quick import SCOPE, Part, is_host
from cute_py.integers.code import (
    assigned,
    call,
    compared,
    constant,
    defined,
    function,
    operation,
    opposite,
    path,
    returned,
    together,
    variable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import Any, TypeAlias

    from cute_py.calls.quick import Calls, Guard, Known

    # (all arguments, the addresses of the arrays and the numbers among them) -> the result, or None
    # to look closer
    Answer: TypeAlias = Callable[[tuple[Any, ...], tuple[int, ...], tuple[float, ...]], Any]
    Again: TypeAlias = Callable[..., Any]

MOST = 1024  # calls that are kept; all are dropped when there are more
NUMBERS = frozenset({float, int})


class Memo:
    """The answers of a function by the facts of its arguments, which are given by position.

    `again(*arguments)` returns the result of a known call, None where the call is not known.
    """

    __slots__ = ("again", "arrays", "count", "kept", "numbers")

    def __init__(self, arrays: int, numbers: Mapping[int, float]) -> None:
        """Know no call.

        Args:
            arrays: so many arguments come first that are arrays, or None.
            numbers: place of a run-time number -> the one that is treated apart.

        """
        self.arrays, self.numbers = arrays, numbers
        self.clear()

    def clear(self) -> None:
        """Forget all calls."""
        self.kept: dict[tuple[type, ...], Alike] = {}
        self.count = 0
        self.again: Again = self.find  # of the call before; it asks `find` for others

    def find(self, *args: Any) -> Any:
        """Answer a known call that is not like the one before."""
        alike = self.kept.get(self._types(args))
        if alike is None or not self._has_numbers(args):
            return None
        key, *values = alike.read(*args)
        known = alike.known.get(key)
        if known is None:
            return None
        if known.again is None or known.again is self.again:  # which did not know it again
            known.again = alike.again(known, args, self.find)
        self.again = known.again
        return known.answer(args, *values)

    def keep(self, args: tuple[Any, ...], answer: Answer) -> None:
        """Keep the answer to calls like this one, unless a key leaves out what it depends on."""
        if not self._has_numbers(args) or not all(map(self._is_exact, range(len(args)), args)):
            return
        if self.count >= MOST:
            self.clear()
        types = self._types(args)
        if types not in self.kept:
            self.kept[types] = Alike(types, self.arrays, self.numbers)
        known, key = self.kept[types].known, self.kept[types].read(*args)[0]
        self.count += key not in known
        known[key] = Answered(answer, args[self.arrays :])
        self.again = self.find

    def _types(self, args: tuple[Any, ...]) -> tuple[type, ...]:
        """Return the types that a function is made for; every number counts as a float."""
        return tuple([float if i in self.numbers else type(x) for i, x in enumerate(args)])

    def _has_numbers(self, args: tuple[Any, ...]) -> bool:
        return all(type(args[i]) in NUMBERS for i in self.numbers)

    def _is_exact(self, place: int, x: Any) -> bool:
        if place < self.arrays and x is not None:
            return is_host(type(x)) or (type(x) in READERS and type(bare(x)) in LIBRARIES)
        return place in self.numbers or is_frozen(x)


class Answered:
    """A call that is known: its answer, and the values that its key knows by identity."""

    __slots__ = ("again", "alive", "answer")

    def __init__(self, answer: Answer, alive: Sequence[Any]) -> None:
        self.answer, self.alive = answer, alive
        self.again: Again | None = None


def launch_of(calls: Calls, args: tuple[Any, ...]) -> Known | None:
    """Return how a kernel launches a call, if it knows it."""
    alike = calls.kept.get(tuple(map(type, args)))
    read = None if alike is None else alike.read(args)
    return None if alike is None or read is None else alike.known.get(read[0])


def address_reader(kind: type) -> Callable[[Any], int]:
    """Return the function that gives the address of an array of a registered library."""
    return function(["x"], path("x", LIBRARIES[kind].address), {})


# -- the functions of the calls whose arguments have the same types


class Alike:
    """The known calls whose arguments have the same types, and the functions made for these.

    `read(*arguments)` gives (key, addresses, numbers).
    """

    def __init__(self, types: tuple[type, ...], arrays: int, numbers: Mapping[int, float]) -> None:
        self.known: dict[Hashable, Answered] = {}
        self.makers: dict[bool, Callable[..., Again]] = {}
        self.scope: dict[str, Any] = dict(SCOPE)
        self.names = [f"x{i}" for i in range(len(types))]
        self.guards: dict[Guard, list[int]] = {}  # the arrays that each is for
        self.parts: list[Part] = []  # of all arguments but numbers
        self.classes: list[ast.stmt] = []  # of numbers
        self.tests: list[ast.expr] = []  # that arguments have these types
        self.apart: list[ast.expr] = []  # whether numbers are those that are treated apart
        for i, (x, kind) in enumerate(zip(self.names, types, strict=True)):
            self.scope |= {f"Type{i}": kind, f"read{i}": READERS.get(kind)}
            guard = None
            if i in numbers:
                self.classes.append(assigned(f"Type{i}", path(x, ("__class__",))))
                self.apart.append(compared(x, "==", constant(numbers[i])))
            else:
                self.parts.append(Part(i, kind, None, LINE))
                guard = self.parts[-1].guard
            if guard is None:
                self.tests.append(compared(path(x, ("__class__",)), "is", f"Type{i}"))
            else:
                self.guards.setdefault(guard, []).append(i)
        self.numbers = together([variable(self.names[i]) for i in numbers])
        self.lines = [line for part in self.parts for line in part.lines]
        self.addresses = [variable(part.value) for part in self.parts if part.divisor]
        found = returned(together([together(self._key()), *self._values()]))
        self.read = function(self.names, [*self.lines, found], self.scope)

    def _key(self, guarded: bool = False, aligned: bool = False) -> list[ast.expr]:
        """Return the parts of the key; see `Part.key`."""
        return [*[x for part in self.parts for x in part.key(guarded, aligned)], *self.apart]

    def _values(self) -> list[ast.expr]:
        return [together(self.addresses), self.numbers]

    def again(self, known: Answered, args: tuple[Any, ...], find: Again) -> Again:
        """Return the function that answers a call if it is like a known one, and else asks `find`;
        `args` are those of a call like it.
        """
        aligned = all(x % LINE == 0 for x in self.read(*args)[1])
        if aligned not in self.makers:
            self.makers[aligned] = self._maker(aligned)
        guards = [make([args[i] for i in places]) for make, places in self.guards.items()]
        return self.makers[aligned](*args, find, known.answer, *guards)

    def _maker(self, aligned: bool) -> Callable[..., Again]:
        """Return the function that makes `again`; `aligned`: for addresses that are multiples of 16
        bytes.
        """
        guards = [f"guard{i}" for i in range(len(self.guards))]
        other = call("find", *self.names)
        tests = [
            call(guard, *[f"x{i}" for i in places])
            for guard, places in zip(guards, self.guards.values(), strict=True)
        ]
        steps = [returned(other, opposite(test)) for test in [*tests, *self.tests]]
        steps += self.lines
        key = self._key(True, aligned)
        if aligned and self.addresses:
            bits = reduce(lambda a, b: operation(a, "|", b), self.addresses)
            steps.append(returned(other, operation(bits, "%", constant(LINE))))
        steps.append(returned(other, compared(together(key), "!=", "key")))
        given = together([variable(x) for x in self.names])
        steps.append(returned(call("answer", given, *self._values())))
        made = [*self.lines, *self.classes, assigned("key", together(key))]
        made += [defined("again", self.names, steps), returned("again")]
        return function([*self.names, "find", "answer", *guards], made, self.scope)
