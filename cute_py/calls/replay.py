"""The functions generated for known calls, which compare arguments with those of an earlier call.

A loop over the arguments would cost more than a launch, so functions are generated for the types of
a call. `read` returns its key and the values to pass on; `replay` compares a call with an earlier
one, whose key it holds. For an array, a run-time number and a compile-time integer of a kernel the
latter is

    def replay(args, other=find):
        if len(args) != 3: return other(args)
        x0, x1, x2 = args
        if not x0.__class__ is Type0: return other(args)
        if not x2.__class__ is Type2: return other(args)
        v0 = x0.data_ptr()
        v1 = number1(x1)
        if v1 is None: return None
        if (x0.dtype, x0.shape, ..., v0 % 16, x2) != key: return other(args)
        if not unchanged(): return other(args)
        answer((v0, v1))
        return known

and its last lines are those of the memo; see `memo`. If the arrays' library has a faster guard
(`Library.guard`), it replaces the comparison of their types and facts. Where all addresses are
multiples of 16 bytes, one test of all of them replaces those in the key.
"""

from __future__ import annotations

import sys
from functools import reduce
from math import copysign

from cute_py.calls.arrays import LIBRARIES, READERS, VECTOR_BYTES
from cute_py.calls.torch_tensors import FORWARD, not_inlined
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

    from cute_py.calls.memo import Known, Memo

    Args: TypeAlias = tuple[Any, ...]
    Replay: TypeAlias = Callable[..., Any]  # (the arguments, what answers others) -> the answer
    Read: TypeAlias = Callable[[Args], tuple[Hashable, Args] | None]
    Guard: TypeAlias = Callable[[Sequence[Any]], Callable[..., bool]]
    # of a run-time number: the function that converts it, and returns None where it does not fit;
    # or its special value: it is passed on as it is, and the key tells whether it is that
    Number: TypeAlias = Callable[[Any], Any] | float

NUMBERS = frozenset({float, int})  # types of a number that is passed on as it is
_VALUES = frozenset({int, float, str, bytes})  # types of values that are compared by content
# NumPy's arrays: the path of the address, and the paths of the facts
_HOST = ("ctypes", "data"), (("dtype",), ("shape",), ("strides",), ("flags", "writeable"))


class Part:
    """The code generated for one argument.

    Attributes:
        lines: the statements that read it.
        value: the name of the value that is passed on, "" for none.
        facts: the parts of the key, except the address.
        divisor: the modulus by which the address is compared, 0 if it is not an array.
        guard: `Library.guard`, which can replace the comparison of type and facts.
        same: what it must be identical to, which replaces that comparison, too; or None.
        typed: whether its type is to be compared.
        refused: the test that a number is one that no call is known for, None for others.
    """

    __slots__ = ("divisor", "facts", "guard", "lines", "refused", "same", "typed", "value")

    def __init__(self, i: int, kind: type, number: Number | None, divisor: int) -> None:
        """Generate the code for argument number i, by its type."""
        x, v = f"x{i}", f"v{i}"
        self.value, self.divisor, self.typed = v, 0, True
        self.guard: Guard | None = None
        self.same: ast.expr | None = None
        self.refused: ast.expr | None = None
        self.lines: list[ast.stmt] = []
        self.facts: list[ast.expr] = []
        if callable(number):
            fits = compared(v, "is", constant(None))
            self.lines = [assigned(v, call(f"number{i}", x)), returned(constant(None), fits)]
            self.typed = False
        elif number is not None:
            self.value, self.facts = x, [compared(x, "==", constant(number))]
            self.refused = compared(path(x, ("__class__",)), "not in", "NUMBERS")
        elif kind in LIBRARIES or is_host(kind):
            library, self.divisor = LIBRARIES.get(kind), divisor
            self.guard = None if library is None else library.guard
            address, facts = _HOST if library is None else (library.address, library.facts)
            self.lines = [assigned(v, path(x, address))]
            self.facts = [path(x, fact) for fact in facts]
        elif kind in READERS:
            self.divisor = divisor
            self.lines = [assigned([f"f{i}", v], call(f"read{i}", x))]
            self.facts = [variable(f"f{i}")]
        else:
            self.value, self.facts = "", [static(kind, x)]
            if kind not in _VALUES:
                self.same = constant(None) if kind is type(None) else variable(f"same{i}")

    def key(self, tested: bool = False, aligned: bool = False) -> list[ast.expr]:
        """Return the parts of the key; `tested`: without the facts that are compared before;
        `aligned`: without addresses.
        """
        facts = [] if tested and (self.guard or self.same) else self.facts
        if aligned or not self.divisor:
            return facts
        return [*facts, operation(self.value, "%", constant(self.divisor))]


def static(kind: type, x: str) -> ast.expr:
    """Return the key of a compile-time value as an expression: the value of a plain one, with the
    sign of a float; the identity of others.
    """
    if kind is float:
        return together([variable(x), call("copysign", constant(1.0), variable(x))])
    return variable(x) if kind in _VALUES else call("id", x)


def is_host(kind: type) -> bool:
    """Return whether a type is NumPy's array type."""
    return (kind.__module__, kind.__name__) == ("numpy", "ndarray")


class Signature:
    """The known calls of a memo whose arguments have the same types, and the functions generated
    for them.

    `read(args)` returns (key, values) of such a call, or None if a number does not fit.
    """

    __slots__ = ("entries", "guards", "makers", "memo", "parts", "read", "scope")

    def __init__(self, types: tuple[type, ...], memo: Memo) -> None:
        """Generate `read`; `types` are those of the arguments, float for any number."""
        self.entries: dict[Hashable, Known] = {}
        self.makers: dict[bool, Callable[..., Replay]] = {}
        self.scope: dict[str, Any] = {"copysign": copysign, "forward": sys.modules.get(FORWARD)}
        self.scope["NUMBERS"], self.memo = NUMBERS, memo
        self.parts: list[Part] = []
        self.guards: dict[Guard, list[int]] = {}  # the arrays that each guard checks
        for i, kind in enumerate(types):
            number = memo.numbers.get(i) if kind is float else None
            self.scope |= {f"Type{i}": kind, f"read{i}": READERS.get(kind), f"number{i}": number}
            part = Part(i, kind, number, memo.divisors.get(i, VECTOR_BYTES))
            self.parts.append(part)
            if part.guard is not None:
                self.guards.setdefault(part.guard, []).append(i)
        others = [returned(constant(None), x.refused) for x in self.parts if x.refused]
        found = returned(together([together(self._key()), self._values()]))
        self.read: Read = function(
            ["args"], [self._taken(), *others, *self._lines(), found], self.scope
        )

    def replay(self, known: Known, args: Args, values: Args) -> Replay:
        """Return the function that answers calls like a known one, and passes others on; `args` and
        `values` are those of such a call.
        """
        divisors = [part.divisor for part in self.parts if part.value]
        addresses = [(x, d) for x, d in zip(values, divisors, strict=True) if d]
        aligned = all(d == VECTOR_BYTES and x % VECTOR_BYTES == 0 for x, d in addresses)
        if aligned not in self.makers:
            self.makers[aligned] = self._maker(aligned)
        guards = [make([args[i] for i in places]) for make, places in self.guards.items()]
        made: Replay = self.makers[aligned](args, known, self.memo.find, *guards)
        not_inlined(made)  # it reads addresses
        return made

    def _maker(self, aligned: bool) -> Callable[..., Replay]:
        """Return the function that creates `replay`; `aligned`: for addresses that are multiples of
        16 bytes.
        """
        guards = [f"guard{i}" for i in range(len(self.guards))]
        key, other = self._key(True, aligned), call("other", "args")
        count = compared(call("len", "args"), "!=", constant(len(self.parts)))
        steps = [returned(other, count)] if self.memo.counted else []
        steps += [self._taken()]
        steps += [returned(other, opposite(test)) for test in self._tests(guards)]
        steps += self._lines()
        addresses = [variable(part.value) for part in self.parts if part.divisor]
        if aligned and addresses:
            bits = reduce(lambda a, b: operation(a, "|", b), addresses)
            steps.append(returned(other, operation(bits, "%", constant(VECTOR_BYTES))))
        if key:
            steps.append(returned(other, compared(together(key), "!=", "key")))
        steps += self.memo.ending(self._values())
        made = [self._taken(), *self._lines(), assigned("key", together(key))]
        for i, part in enumerate(self.parts):
            if part.refused:  # a number, whose type is not that of the signature
                made.append(assigned(f"Type{i}", path(f"x{i}", ("__class__",))))
            elif part.same:
                made.append(assigned(f"same{i}", f"x{i}"))
        made += [assigned(name, path("known", (name,))) for name in self.memo.held]
        made += [defined("replay", ["args", "other"], steps, ["find"]), returned("replay")]
        return function(["args", "known", "find", *guards], made, self.scope)

    def _tests(self, guards: Sequence[str]) -> list[ast.expr]:
        """Return the checks before arguments are read: guards, and the types of unguarded ones.

        The guards of torch end the process when they get a nested tensor (torch 2.11), so that is
        asked before. They do not see tangents of forward-mode differentiation, which is off at
        level -1.
        """
        tests: list[ast.expr] = []
        if FORWARD in sys.modules:
            tests.append(compared(path("forward", ("_current_level",)), "==", constant(-1)))
        for guard, places in zip(guards, self.guards.values(), strict=True):
            for i in places:
                tests.append(compared(path(f"x{i}", ("__class__",)), "is", f"Type{i}"))
                tests.append(opposite(path(f"x{i}", ("is_nested",))))
            tests.append(call(guard, *[f"x{i}" for i in places]))
        for i, part in enumerate(self.parts):
            if part.same:
                tests.append(compared(f"x{i}", "is", part.same))
            elif part.typed and part.guard is None:
                tests.append(compared(path(f"x{i}", ("__class__",)), "is", f"Type{i}"))
        return tests

    def _key(self, tested: bool = False, aligned: bool = False) -> list[ast.expr]:
        return [x for part in self.parts for x in part.key(tested, aligned)]

    def _values(self) -> ast.expr:
        return together([variable(part.value) for part in self.parts if part.value])

    def _taken(self) -> ast.stmt:
        return assigned([f"x{i}" for i in range(len(self.parts))], "args")

    def _lines(self) -> list[ast.stmt]:
        return [line for part in self.parts for line in part.lines]
