"""Calls of a kernel that were made before: found by exact facts, launched without looking closer.

A call is *exact* if nothing that its plan or its launch depends on is left out of its key:

- an array of a registered library by type, shape, strides, `address % 16` and device;
- a run-time number by nothing: its value is checked, and given to each launch;
- a plain value (None, bool, int, str, bytes, float) by type and value, 0.0 and -0.0 apart;
- anything else by identity, and only if it can never change (`is_frozen`); it is kept alive.

What the function takes from around it, and the code of the classes of such values, is compared by
identity at every call (`fingerprint`). Calls with keywords, lists, dicts, objects, groups of
arrays, or host arrays are never exact: they go the whole way. So a call that is found here would
have found the same plan there.

A loop over the arguments would cost more than the launch, so functions are made for the types of a
call. `again` compares a call with one before, whose key and launch it holds; `read` gives the key
and the values of a call. For an array, a run-time number and a compile-time integer `again` is

    def again(args):
        if len(args) != 3: return False
        x0, x1, x2 = args
        if not x0.__class__ is Type0: return False
        ...
        v0 = x0.data_ptr()
        v1 = number1(x1)
        if v1 is None: return None
        if (x0.dtype, x0.shape, ..., v0 % 16, x2) != key: return False
        if not holds(): return False
        go((v0, v1))
        return True

and where the arrays' library has a faster way to tell that arrays are alike (`Library.alike`), that
stands for their facts and types.
"""

from __future__ import annotations

from functools import reduce
from math import copysign, isfinite, lcm

from cute_py.calls.arguments import Spec
from cute_py.calls.arrays import LIBRARIES, LINE, READERS, bare
from cute_py.calls.fingerprint.values import is_frozen
from cute_py.dtypes.table import Dtype, b1
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
    from collections.abc import Callable, Hashable, Sequence
    from typing import Any, TypeAlias

    from cute_py.calls.arguments import Argument
    from cute_py.calls.doors import Launch
    from cute_py.calls.fingerprint.watch import Seen

    Again: TypeAlias = Callable[[tuple[Any, ...]], object]  # whether it launched the call
    Number: TypeAlias = Callable[[Any], Any]
    Read: TypeAlias = Callable[[tuple[Any, ...]], tuple[Hashable, tuple[Any, ...]] | None]
    Guard: TypeAlias = Callable[[Sequence[Any]], Callable[..., bool]]

MOST = 1024  # calls that are kept; all are dropped when there are more


def _unknown(_args: tuple[Any, ...]) -> bool:
    """Know no call."""
    return False


class Known:
    """A call that is known: how it is launched, and as long as what holds."""

    __slots__ = ("after", "again", "alive", "holds", "launch")

    def __init__(self, holds: Callable[[], bool], launch: Launch, alive: Sequence[Any]) -> None:
        """Keep what the call needs; `alive` are the values that its key knows by identity."""
        self.holds, self.launch, self.alive = holds, launch, alive
        self.again: Again = _unknown  # launches a call like this one, made when there is one
        self.after: Known | None = None  # the call that was made after this one


class Calls:
    """The exact calls of one kernel, each with its prepared launch."""

    __slots__ = ("again", "before", "count", "divisors", "kept", "numbers")

    def __init__(self, notes: Sequence[object]) -> None:
        """Keep calls of a function whose parameters (those by position) are annotated so."""
        self.numbers = [_number(x) if isinstance(x, Dtype) else None for x in notes]
        self.divisors = _divisors(notes)
        self.kept: dict[tuple[type, ...], Alike] = {}
        self.count = 0
        self.again: Again = _unknown  # launches a call like the one before; `launch` is for others
        self.before: Known | None = None  # the call before

    def launch(self, args: tuple[Any, ...]) -> bool:
        """Launch a call that is known; return whether it was.

        Calls come in turns, as layers of a network do: first that one is tried which came after the
        call before when that was made last.
        """
        before = self.before
        after = None if before is None else before.after
        if after is not None and after.again(args):
            self.again, self.before = after.again, after
            return True
        alike = self.kept.get(tuple(map(type, args)))
        read = None if alike is None else alike.read(args)
        if alike is None or read is None:
            return False
        key, values = read
        known = alike.known.get(key)
        if known is None or not known.holds():
            return False
        if known.again is _unknown or known in (before, after):  # which did not know it again
            known.again = alike.again(known, args)
        if before is not None:
            before.after = known
        self.again, self.before = known.again, known
        known.launch.go(values)
        return True

    def keep(
        self, args: tuple[Any, ...], arguments: Sequence[Argument], seen: Seen, launch: Launch
    ) -> None:
        """Keep a call that was launched, if it is exact.

        Args:
            args: as they were given, all by position.
            arguments: the same, classified, with those of default values.
            seen: what the function and these arguments referred to before the call was traced.
            launch: the prepared launch.

        """
        if not all(map(_is_exact, args, arguments)) or not seen.settled:
            return
        if any(a.kind != "static" or not is_frozen(a.value) for a in arguments[len(args) :]):
            return
        if self.count >= MOST:
            self.kept.clear()
            self.count, self.again, self.before = 0, _unknown, None
        types = tuple(map(type, args))
        if types not in self.kept:
            self.kept[types] = Alike(types, self.numbers, self.divisors)
        read = self.kept[types].read(args)
        if read is not None:
            statics = [a.value for a in arguments if a.kind == "static"]
            self.kept[types].known[read[0]] = Known(seen.checker(), launch, statics)
            self.count += 1


def _is_exact(x: Any, argument: Argument) -> bool:
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

    def real(x: Any) -> float | None:
        if x.__class__ is float:
            return x if -most <= x <= most or not isfinite(x) else None
        return float(x) if x.__class__ is int and -most <= x <= most else None

    return real


def _divisors(notes: Sequence[object]) -> list[int]:
    """Return what addresses are to be compared by: 16 bytes, or what is promised of them."""
    return [lcm(LINE, x.alignment or 1) if isinstance(x, Spec) else LINE for x in notes]


# -- the functions of the calls whose arguments have the same types


class Part:
    """What one argument adds to the functions.

    Attributes:
        lines: statements that read it.
        value: the name of what is given to the launch, "" for none.
        facts: parts of the key, but for the address.
        divisor: what the address is compared by, 0 for no array.
        guard: `Library.alike`, which can stand for type and facts.
    """

    __slots__ = ("divisor", "facts", "guard", "lines", "value")

    def __init__(self, i: int, kind: type, number: Number | None, divisor: int) -> None:
        """Find it for the argument of a number, by its type."""
        x, v = f"x{i}", f"v{i}"
        self.value, self.divisor, self.guard = v, 0, None
        if kind in LIBRARIES or is_host(kind):
            library, self.divisor = LIBRARIES.get(kind), divisor
            self.guard = None if library is None else library.alike
            address, facts = _HOST if library is None else (library.address, library.facts)
            self.lines = [assigned(v, path(x, address))]
            self.facts = [path(x, fact) for fact in facts]
        elif kind in READERS:
            self.divisor = divisor
            self.lines, self.facts = (
                [assigned([f"f{i}", v], call(f"read{i}", x))],
                [variable(f"f{i}")],
            )
        elif number is not None:
            fits = compared(v, "is", constant(None))
            self.lines = [assigned(v, call(f"number{i}", x)), returned(constant(None), fits)]
            self.facts = []
        else:
            self.value, self.lines, self.facts = "", [], [static(kind, x)]

    def key(self, guarded: bool = False, aligned: bool = False) -> list[ast.expr]:
        """Return the parts of the key; `guarded`: without what a guard stands for; `aligned`:
        without addresses.
        """
        facts = [] if guarded and self.guard else self.facts
        if aligned or not self.divisor:
            return facts
        return [*facts, operation(self.value, "%", constant(self.divisor))]


def static(kind: type, x: str) -> ast.expr:
    """Return what tells a compile-time value of a type from others: plain ones by value, 0.0 and
    -0.0 apart; others by identity.
    """
    if kind is float:
        return together([variable(x), call("copysign", constant(1.0), variable(x))])
    return variable(x) if kind in _PLAIN else call("id", x)


def is_host(kind: type) -> bool:
    """Tell whether a type is that of NumPy's arrays."""
    return (kind.__module__, kind.__name__) == ("numpy", "ndarray")


_PLAIN = frozenset({int, bool, str, bytes, type(None)})
# NumPy's arrays: the path of the address, and those of what else counts
_HOST = ("ctypes", "data"), (("dtype",), ("shape",), ("strides",), ("flags", "writeable"))
SCOPE = {"copysign": copysign}  # what `static` names


class Alike:
    """The known calls whose arguments have the same types, and the functions made for these.

    `read` gives (key, values) of such a call, None where a number does not fit.
    """

    __slots__ = ("guards", "known", "makers", "parts", "read", "scope")

    def __init__(
        self, types: tuple[type, ...], numbers: Sequence[Number | None], divisors: Sequence[int]
    ) -> None:
        """Make the function that reads.

        Args:
            types: of the arguments.
            numbers: for each parameter, the function that gives a run-time number, None for others.
            divisors: for each parameter, what addresses of arrays are compared by.

        """
        self.known: dict[Hashable, Known] = {}
        self.makers: dict[bool, Callable[..., Again]] = {}
        self.scope: dict[str, Any] = dict(SCOPE)
        self.parts: list[Part] = []
        self.guards: dict[Guard, list[int]] = {}  # the arrays that each is for
        for i, (kind, number, divisor) in enumerate(zip(types, numbers, divisors, strict=False)):
            self.scope |= {f"Type{i}": kind, f"read{i}": READERS.get(kind), f"number{i}": number}
            part = Part(i, kind, number, divisor)
            self.parts.append(part)
            if part.guard is not None:
                self.guards.setdefault(part.guard, []).append(i)
        key = together([x for part in self.parts for x in part.key()])
        found = returned(together([key, self._values()]))
        self.read = function(["args"], [self._taken(), *self._lines(), found], self.scope)

    def again(self, known: Known, args: tuple[Any, ...]) -> Again:
        """Return the function that launches a call if it is like a known one, and tells whether it
        was; `args` are those of a call like it.
        """
        read = self.read(args)
        assert read is not None  # the numbers of a known call fit
        divisors = [part.divisor for part in self.parts if part.value]
        addresses = [(x, d) for x, d in zip(read[1], divisors, strict=True) if d]
        aligned = all(d == LINE and x % LINE == 0 for x, d in addresses)
        if aligned not in self.makers:
            self.makers[aligned] = self._maker(aligned)
        guards = [make([args[i] for i in places]) for make, places in self.guards.items()]
        return self.makers[aligned](args, known.holds, known.launch.go, *guards)

    def _maker(self, aligned: bool) -> Callable[..., Again]:
        """Return the function that makes `again`; `aligned`: for addresses that are multiples of 16
        bytes.
        """
        guards = [f"guard{i}" for i in range(len(self.guards))]
        key = [x for part in self.parts for x in part.key(True, aligned)]
        other, lines = constant(False), self._lines()
        count = compared(call("len", "args"), "!=", constant(len(self.parts)))
        steps = [returned(other, count), self._taken()]
        steps += [returned(other, opposite(test)) for test in self._tests(guards)]
        steps += lines
        addresses = [variable(part.value) for part in self.parts if part.divisor]
        if aligned and addresses:
            bits = reduce(lambda a, b: operation(a, "|", b), addresses)
            steps.append(returned(other, operation(bits, "%", constant(LINE))))
        if key:
            steps.append(returned(other, compared(together(key), "!=", "key")))
        steps += [
            returned(other, opposite(call("holds"))),
            assigned("_", call("go", self._values())),
            returned(constant(True)),
        ]
        made = [self._taken(), *lines, assigned("key", together(key))]
        made += [defined("again", ["args"], steps), returned("again")]
        return function(["args", "holds", "go", *guards], made, self.scope)

    def _tests(self, guards: Sequence[str]) -> list[ast.expr]:
        """Return what must hold of the arguments before they are read: guards, types of others."""
        guarded = zip(guards, self.guards.values(), strict=True)
        tests = [call(guard, *[f"x{i}" for i in places]) for guard, places in guarded]
        for i, part in enumerate(self.parts):
            if part.guard is None:
                tests.append(compared(path(f"x{i}", ("__class__",)), "is", f"Type{i}"))
        return tests

    def _taken(self) -> ast.stmt:
        return assigned([f"x{i}" for i in range(len(self.parts))], "args")

    def _lines(self) -> list[ast.stmt]:
        return [line for part in self.parts for line in part.lines]

    def _values(self) -> ast.expr:
        return together([variable(part.value) for part in self.parts if part.value])
