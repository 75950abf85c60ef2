"""A memo of the calls of a function of arrays, such as an operator.

`fast_path` caches calls of kernels; a memo caches calls of a function that prepares a kernel call.
The key of a call contains

- for an array its type, its facts (see `arrays.Library`; for NumPy also whether it is writable) and
  `address % 16`;
- for a run-time number whether it equals the special value of its parameter;
- for anything else its type and value, or its identity if it can never change.

Addresses, contents and global state are not in the key: an answer checks these at every call. As
in `fast_path`, one function, generated for the types of a call, compares all arguments with the
previous call. For an array, a number with the special value 1, and text it is

    def replay(x0, x1, x2):
        if not x0.__class__ is Type0: return find(x0, x1, x2)
        if x0.is_nested: return find(x0, x1, x2)       # where torch has guards
        if not guard(x0): return find(x0, x1, x2)
        if not x1.__class__ is Type1: return find(x0, x1, x2)
        ...
        v0 = x0.data_ptr()
        if v0 % 16: return find(x0, x1, x2)
        if (x0.dtype, x0.shape, ..., x1 == 1, x2) != key: return find(x0, x1, x2)
        return answer((x0, x1, x2), (v0,), (x1,))
"""

from __future__ import annotations

from functools import reduce

from cute_py.calls.arrays import LIBRARIES, READERS, VECTOR_BYTES, unwrapped
from cute_py.calls.fast_path import Part, guard_tests, is_host, scope
from cute_py.calls.fingerprint.values import is_frozen
from cute_py.calls.torch_tensors import is_dual_level, is_in_mode
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

    from cute_py.calls.fast_path import Guard

    # (all arguments, the addresses of the arrays, the numbers) -> the result, or None to take the
    # slow path
    Answer: TypeAlias = Callable[[tuple[Any, ...], tuple[int, ...], tuple[float, ...]], Any]
    Replay: TypeAlias = Callable[..., Any]

MOST = 1024  # cached calls; when there are more, all are evicted
NUMBERS = frozenset({float, int})


class Memo:
    """The answers of a function by the facts of its positional arguments.

    `replay(*arguments)` returns the result of a cached call, or None if the call is not cached.

    Calls repeat in sequence, as the layers of a network and their gradients do. So the call that
    followed the previous one the last time is tried next.
    """

    __slots__ = ("arrays", "before", "count", "kept", "numbers", "replay")

    def __init__(self, arrays: int, numbers: Mapping[int, float]) -> None:
        """Start empty.

        Args:
            arrays: the number of leading arguments that are arrays or None.
            numbers: position of a run-time number -> its special value.

        """
        self.arrays, self.numbers = arrays, numbers
        self.clear()

    def clear(self) -> None:
        """Evict all calls."""
        self.kept: dict[tuple[type, ...], Signature] = {}
        self.count = 0
        self.replay: Replay = self.find  # for calls like the previous one; falls back to `find`
        # the previous call, or the one that is tried now, and the one before it
        self.before: tuple[CachedAnswer | None, CachedAnswer | None] = None, None

    def find(self, *args: Any) -> Any:
        """Answer a cached call that differs from the previous one."""
        before = self.before[0]
        after = None if before is None else before.after
        if after is None or after.attempt is None:
            self.before = None, before
            return self.search(*args)
        self.replay, self.before = after.replay or self.find, (after, before)
        return after.attempt(*args)

    def search(self, *args: Any) -> Any:
        """Answer a cached call that did not follow the previous one the last time.

        In a mode of torch, which the guards notice, no call is cached.
        """
        if is_dual_level() or is_in_mode(args[0]):
            return None
        signature = self.kept.get(self._types(args))
        if signature is None or not self._has_numbers(args):
            return None
        try:
            key, *values = signature.read(*args)
        except RuntimeError:  # of a tensor without memory, which the slow path refuses
            return None
        known = signature.entries.get(key)
        if known is None:
            return None
        if known.replay is None or known in self.before:  # or a false negative of its guard
            known.replay, known.attempt = signature.replays(known, args, self.find, self.search)
        before = self.before[1]
        if before is not None:
            before.after = known
        self.replay, self.before = known.replay, (known, before)
        return known.answer(args, *values)

    def keep(self, args: tuple[Any, ...], answer: Answer) -> None:
        """Cache the answer to calls like this one, unless the key would miss a dependency."""
        if not self._has_numbers(args) or not all(map(self._is_exact, range(len(args)), args)):
            return
        if self.count >= MOST:
            self.clear()
        types = self._types(args)
        signature = self.kept.get(types)
        if signature is None:
            signature = self.kept[types] = Signature(types, self.arrays, self.numbers)
        entries, key = signature.entries, signature.read(*args)[0]
        self.count += key not in entries
        entries[key] = made = CachedAnswer(answer, args[self.arrays :])
        self.replay, self.before = self.find, (made, None)

    def _types(self, args: tuple[Any, ...]) -> tuple[type, ...]:
        """Return the types that a function is generated for; every number counts as a float."""
        return tuple([float if i in self.numbers else type(x) for i, x in enumerate(args)])

    def _has_numbers(self, args: tuple[Any, ...]) -> bool:
        return all(type(args[i]) in NUMBERS for i in self.numbers)

    def _is_exact(self, place: int, x: Any) -> bool:
        if place < self.arrays and x is not None:
            return is_host(type(x)) or (type(x) in READERS and type(unwrapped(x)) in LIBRARIES)
        return place in self.numbers or is_frozen(x)


class CachedAnswer:
    """A cached call: its answer, and the values whose identity is in its key."""

    __slots__ = ("after", "alive", "answer", "attempt", "replay")

    def __init__(self, answer: Answer, alive: Sequence[Any]) -> None:
        self.answer, self.alive = answer, alive
        self.replay: Replay | None = None
        self.attempt: Replay | None = None  # the same, but other calls go to `Memo.search`
        self.after: CachedAnswer | None = None  # the call that followed this one the last time


# -- the functions generated for one signature: the types of the arguments


class Signature:
    """The cached calls whose arguments have the same types, and the functions generated for them.

    `read(*arguments)` returns (key, addresses, numbers).
    """

    def __init__(self, types: tuple[type, ...], arrays: int, numbers: Mapping[int, float]) -> None:
        self.entries: dict[Hashable, CachedAnswer] = {}
        self.makers: dict[bool, Callable[..., Replay]] = {}
        self.scope = scope()
        self.names = [f"x{i}" for i in range(len(types))]
        self.guards: dict[Guard, list[int]] = {}  # the arrays that each guard checks
        self.parts: list[Part] = []  # of all arguments except numbers
        self.classes: list[ast.stmt] = []  # reads the types of numbers
        self.tests: list[ast.expr] = []  # checks the types of arguments
        self.special: list[ast.expr] = []  # compares numbers with their special values
        for i, (x, kind) in enumerate(zip(self.names, types, strict=True)):
            self.scope |= {f"Type{i}": kind, f"read{i}": READERS.get(kind)}
            guard = None
            if i in numbers:
                self.classes.append(assigned(f"Type{i}", path(x, ("__class__",))))
                self.special.append(compared(x, "==", constant(numbers[i])))
            else:
                self.parts.append(Part(i, kind, None, VECTOR_BYTES))
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
        return [*[x for part in self.parts for x in part.key(guarded, aligned)], *self.special]

    def _values(self) -> list[ast.expr]:
        return [together(self.addresses), self.numbers]

    def replays(self, known: CachedAnswer, args: tuple[Any, ...], *others: Replay) -> list[Replay]:
        """Return the functions that answer calls like a cached one, and pass others to one of
        `others` each; `args` are the arguments of such a call.
        """
        aligned = all(x % VECTOR_BYTES == 0 for x in self.read(*args)[1])
        if aligned not in self.makers:
            self.makers[aligned] = self._maker(aligned)
        guards = [make([args[i] for i in places]) for make, places in self.guards.items()]
        make = self.makers[aligned]
        return [make(*args, other, known.answer, *guards) for other in others]

    def _maker(self, aligned: bool) -> Callable[..., Replay]:
        """Return the function that creates `replay`; `aligned`: for addresses that are multiples of
        16 bytes.
        """
        guards = [f"guard{i}" for i in range(len(self.guards))]
        other = call("find", *self.names)
        tests = [*guard_tests(guards, self.guards.values()), *self.tests]
        steps = [returned(other, opposite(test)) for test in tests]
        steps += self.lines
        key = self._key(True, aligned)
        if aligned and self.addresses:
            bits = reduce(lambda a, b: operation(a, "|", b), self.addresses)
            steps.append(returned(other, operation(bits, "%", constant(VECTOR_BYTES))))
        steps.append(returned(other, compared(together(key), "!=", "key")))
        given = together([variable(x) for x in self.names])
        steps.append(returned(call("answer", given, *self._values())))
        made = [*self.lines, *self.classes, assigned("key", together(key))]
        made += [defined("replay", self.names, steps), returned("replay")]
        return function([*self.names, "find", "answer", *guards], made, self.scope)
