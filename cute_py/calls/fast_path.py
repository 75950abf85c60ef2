"""The fast path of kernel calls: a cache of prepared launches, found by exact facts.

A call is *exact* if its key contains everything that its plan and its launch depend on:

- of an array of a registered library the type, shape, strides, `address % 16` and device;
- of a run-time number nothing: its value is checked, and passed to each launch;
- of a plain value (None, bool, int, str, bytes, float) the type and value; 0.0 and -0.0 differ;
- of anything else the identity, and only if it can never change (`is_frozen`); it is kept alive.

A call with a tensor that has a gradient, which was made without grad mode, also asks whether that
is still off.

The dependencies of the function, and the code of the classes of such values, are compared by
identity at every call (`fingerprint`). Calls with keywords, lists, dicts, objects, groups of
arrays, or host arrays are never exact: they take the slow path. A call found here would have found
the same plan on the slow path.

A loop over the arguments would cost more than the launch, so functions are generated for the types
of a call. `replay` compares a call with an earlier one, whose key and launch it holds; `read`
returns the key and the values of a call. For an array, a run-time number and a compile-time integer
`replay` is

    def replay(args):
        if len(args) != 3: return False
        x0, x1, x2 = args
        if not x0.__class__ is Type0: return False
        ...
        v0 = x0.data_ptr()
        v1 = number1(x1)
        if v1 is None: return None
        if (x0.dtype, x0.shape, ..., v0 % 16, x2) != key: return False
        if not unchanged(): return False
        go((v0, v1))
        return True

If the arrays' library has a faster guard (`Library.guard`), it replaces the comparison of their
types and facts.
"""

from __future__ import annotations

import sys
from functools import reduce
from math import copysign, lcm

from cute_py.calls.arguments import Spec, is_frozen_argument, number_of
from cute_py.calls.arrays import LIBRARIES, READERS, VECTOR_BYTES, unwrapped
from cute_py.calls.fingerprint.values import is_frozen
from cute_py.calls.torch_tensors import FORWARD, is_dual_level, outside_autograd
from cute_py.dtypes.table import Dtype, Promised
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
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from typing import Any, TypeAlias

    from cute_py.calls.arguments import Argument
    from cute_py.calls.backends import Launch
    from cute_py.calls.fingerprint.dependencies import Snapshot

    Replay: TypeAlias = Callable[[tuple[Any, ...]], object]  # returns whether it launched the call
    Number: TypeAlias = Callable[[Any], Any]
    Exact: TypeAlias = tuple[Hashable, tuple[Any, ...]]  # the key and the values of a call
    Read: TypeAlias = Callable[[tuple[Any, ...]], Exact | None]
    Guard: TypeAlias = Callable[[Sequence[Any]], Callable[..., bool]]

MOST = 1024  # cached calls; when there are more, all are evicted


def _miss(_args: tuple[Any, ...]) -> bool:
    """Launch nothing: the call is not in the cache."""
    return False


class CachedLaunch:
    """A cached call: its prepared launch, and the check that its dependencies are unchanged."""

    __slots__ = ("after", "alive", "launch", "replay", "unchanged")

    def __init__(self, unchanged: Callable[[], bool], launch: Launch, alive: Sequence[Any]) -> None:
        """Keep the launch; `alive` are the values whose identity is in the key."""
        self.unchanged, self.launch, self.alive = unchanged, launch, alive
        self.replay: Replay = _miss  # launches a call like this one; generated at the first one
        self.after: CachedLaunch | None = None  # the call that followed this one the last time


class LaunchCache:
    """The exact calls of one kernel, each with its prepared launch."""

    __slots__ = ("before", "count", "divisors", "kept", "numbers", "replay")

    def __init__(self, notes: Sequence[object]) -> None:
        """Cache the calls of a function with these annotations of its positional parameters."""
        self.numbers = [number_of(x) if isinstance(x, (Dtype, Promised)) else None for x in notes]
        self.divisors = _divisors(notes)
        self.kept: dict[tuple[type, ...], Signature] = {}
        self.count = 0
        self.replay: Replay = _miss  # launches a call like the previous one; see `launch`
        self.before: CachedLaunch | None = None  # the previous call

    def launch(self, args: tuple[Any, ...]) -> CachedLaunch | Exact | None:
        """Launch a call that is in the cache, and return what it has of it; else the key and the
        values of the call, or None where they are not known.

        Calls repeat in sequence, as the layers of a network do. So the call that followed the
        previous one the last time is tried first.
        """
        before = self.before
        after = None if before is None else before.after
        if after is not None and after.replay(args):
            self.replay, self.before = after.replay, after
            return after
        if is_dual_level():
            return None
        signature = self.kept.get(tuple(map(type, args)))
        try:
            read: Exact | None = None if signature is None else signature.read(args)
        except RuntimeError:  # of a tensor without memory, which the slow path refuses
            return None
        if signature is None or read is None:
            return None
        key, values = read
        known = signature.entries.get(key)
        if known is None or not known.unchanged():
            return read
        if known.replay is _miss or known in (before, after):  # or a false negative of its guard
            known.replay = signature.replay(known, args)
        if before is not None:
            before.after = known
        self.replay, self.before = known.replay, known
        known.launch.go(values)
        return known

    def keep(
        self,
        args: tuple[Any, ...],
        arguments: Sequence[Argument],
        seen: Snapshot,
        launch: Launch,
        read: Exact | None = None,
    ) -> CachedLaunch | None:
        """Cache a call that was launched, if it is exact, and return what is kept of it.

        Args:
            args: the positional arguments, as the caller passed them.
            arguments: the same, classified, and the default values.
            seen: the dependencies of the function and its arguments before the call was traced.
            launch: the prepared launch.
            read: the key and the values of the call, if they were read.

        """
        if not all(map(_is_exact, args, arguments)) or not seen.stable:
            return None
        if any(a.kind != "static" or not is_frozen(a.value) for a in arguments[len(args) :]):
            return None
        if self.count >= MOST:
            self.kept.clear()
            self.count, self.replay, self.before = 0, _miss, None
        types = tuple(map(type, args))
        signature = self.kept.get(types)  # another thread may evict it meanwhile
        if signature is None:
            signature = self.kept[types] = Signature(types, self.numbers, self.divisors)
        read = read or signature.read(args)
        if read is None:
            return None
        statics = [a.value for a in arguments if a.kind == "static"]
        unchanged = outside_autograd(args, seen.checker())
        known = signature.entries[read[0]] = CachedLaunch(unchanged, launch, statics)
        self.count += 1
        return known


def _is_exact(x: Any, argument: Argument) -> bool:
    if argument.kind == "array":
        return (
            argument.value is x and unwrapped(x).__class__ in LIBRARIES and x.__class__ in READERS
        )
    if argument.kind == "number":
        return x.__class__ in (int, float, bool)
    if argument.kind != "static" or argument.value is not x:
        return False
    return is_frozen_argument(argument) or is_frozen(x)


def _divisors(notes: Sequence[object]) -> list[int]:
    """Return the modulus by which each address is compared: 16 bytes, or the promised alignment."""
    return [
        lcm(VECTOR_BYTES, x.alignment or 1) if isinstance(x, Spec) else VECTOR_BYTES for x in notes
    ]


# -- the functions generated for one signature: the types of the arguments


class Part:
    """The code generated for one argument.

    Attributes:
        lines: the statements that read it.
        value: the name of the value passed to the launch, "" for none.
        facts: the parts of the key, except the address.
        divisor: the modulus by which the address is compared, 0 if it is not an array.
        guard: `Library.guard`, which can replace the comparison of type and facts.
    """

    __slots__ = ("divisor", "facts", "guard", "lines", "value")

    def __init__(self, i: int, kind: type, number: Number | None, divisor: int) -> None:
        """Generate the code for argument number i, by its type."""
        x, v = f"x{i}", f"v{i}"
        self.value, self.divisor, self.guard = v, 0, None
        if kind in LIBRARIES or is_host(kind):
            library, self.divisor = LIBRARIES.get(kind), divisor
            self.guard = None if library is None else library.guard
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
        """Return the parts of the key; `guarded`: without the facts that a guard compares;
        `aligned`: without addresses.
        """
        facts = [] if guarded and self.guard else self.facts
        if aligned or not self.divisor:
            return facts
        return [*facts, operation(self.value, "%", constant(self.divisor))]


def static(kind: type, x: str) -> ast.expr:
    """Return the key of a compile-time value as an expression: the value of a plain one, with the
    sign of a float; the identity of others.
    """
    if kind is float:
        return together([variable(x), call("copysign", constant(1.0), variable(x))])
    return variable(x) if kind in _PLAIN else call("id", x)


def guard_tests(guards: Sequence[str], places: Iterable[Sequence[int]]) -> list[ast.expr]:
    """Return the calls of guards on the arguments at these places. The guards of torch end the
    process when they get a nested tensor (torch 2.11), so that is asked before. They do not see
    tangents of forward-mode differentiation, which is off at level -1.
    """
    tests: list[ast.expr] = []
    if FORWARD in sys.modules:
        tests.append(compared(path("forward", ("_current_level",)), "==", constant(-1)))
    for guard, numbers in zip(guards, places, strict=True):
        for i in numbers:
            tests.append(compared(path(f"x{i}", ("__class__",)), "is", f"Type{i}"))
            tests.append(opposite(path(f"x{i}", ("is_nested",))))
        tests.append(call(guard, *[f"x{i}" for i in numbers]))
    return tests


def is_host(kind: type) -> bool:
    """Return whether a type is NumPy's array type."""
    return (kind.__module__, kind.__name__) == ("numpy", "ndarray")


_PLAIN = frozenset({int, bool, str, bytes, type(None)})
# NumPy's arrays: the path of the address, and the paths of the facts
_HOST = ("ctypes", "data"), (("dtype",), ("shape",), ("strides",), ("flags", "writeable"))


def scope() -> dict[str, Any]:
    """Return the globals of the code that `static` and `guard_tests` generate."""
    return {"copysign": copysign, "forward": sys.modules.get(FORWARD)}


class Signature:
    """The cached calls whose arguments have the same types, and the functions generated for them.

    `read` returns (key, values) of such a call, or None if a number does not fit.
    """

    __slots__ = ("entries", "guards", "makers", "parts", "read", "scope")

    def __init__(
        self, types: tuple[type, ...], numbers: Sequence[Number | None], divisors: Sequence[int]
    ) -> None:
        """Generate `read`.

        Args:
            types: the types of the arguments.
            numbers: for each run-time number the function that converts it, None for others.
            divisors: for each parameter the modulus by which addresses are compared.

        """
        self.entries: dict[Hashable, CachedLaunch] = {}
        self.makers: dict[bool, Callable[..., Replay]] = {}
        self.scope = scope()
        self.parts: list[Part] = []
        self.guards: dict[Guard, list[int]] = {}  # the arrays that each guard checks
        for i, (kind, number, divisor) in enumerate(zip(types, numbers, divisors, strict=False)):
            self.scope |= {f"Type{i}": kind, f"read{i}": READERS.get(kind), f"number{i}": number}
            part = Part(i, kind, number, divisor)
            self.parts.append(part)
            if part.guard is not None:
                self.guards.setdefault(part.guard, []).append(i)
        key = together([x for part in self.parts for x in part.key()])
        found = returned(together([key, self._values()]))
        self.read = function(["args"], [self._taken(), *self._lines(), found], self.scope)

    def replay(self, known: CachedLaunch, args: tuple[Any, ...]) -> Replay:
        """Return the function that launches calls like a cached one, and returns whether it did;
        `args` are the arguments of such a call.
        """
        read = self.read(args)
        assert read is not None  # the numbers of a cached call fit
        divisors = [part.divisor for part in self.parts if part.value]
        addresses = [(x, d) for x, d in zip(read[1], divisors, strict=True) if d]
        aligned = all(d == VECTOR_BYTES and x % VECTOR_BYTES == 0 for x, d in addresses)
        if aligned not in self.makers:
            self.makers[aligned] = self._maker(aligned)
        guards = [make([args[i] for i in places]) for make, places in self.guards.items()]
        return self.makers[aligned](args, known.unchanged, known.launch.go, *guards)

    def _maker(self, aligned: bool) -> Callable[..., Replay]:
        """Return the function that creates `replay`; `aligned`: for addresses that are multiples of
        16 bytes.
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
            steps.append(returned(other, operation(bits, "%", constant(VECTOR_BYTES))))
        if key:
            steps.append(returned(other, compared(together(key), "!=", "key")))
        steps += [
            returned(other, opposite(call("unchanged"))),
            assigned("_", call("go", self._values())),
            returned(constant(True)),
        ]
        made = [self._taken(), *lines, assigned("key", together(key))]
        made += [defined("replay", ["args"], steps), returned("replay")]
        return function(["args", "unchanged", "go", *guards], made, self.scope)

    def _tests(self, guards: Sequence[str]) -> list[ast.expr]:
        """Return the checks before arguments are read: guards, and the types of unguarded ones."""
        tests = guard_tests(guards, self.guards.values())
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
