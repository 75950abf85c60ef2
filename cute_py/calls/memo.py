"""Known calls of a function, such as an operator or a kernel: answered by the facts of arguments.

The key of a call contains all that its answer depends on, but what changes from call to call:

- of an array of a registered library, or of NumPy, the type, its facts (see `arrays.Library`; of
  NumPy also whether it is writable) and `address % 16`;
- of a run-time number of a kernel nothing: its value is checked, and passed on; of one of an
  operator whether it equals the special value of its parameter;
- of a plain value (None, bool, int, str, bytes, float) the type and value; 0.0 and -0.0 differ;
- of anything else the identity, and only if it can never change (`is_frozen`); it is kept alive.

Addresses, contents and global state are not in the key. A call found here would have got the same
answer on the slow path. Calls repeat in sequence, as the layers of a network and their gradients
do. So a call is compared with the previous one (`replay`), then with the one that followed that the
last time (`find`), and is looked up by its key if it is neither (`search`).

A kernel's call is one whose answer is its launch (`Launches`). A call with a tensor that has a
gradient, which was made without grad mode, also asks whether that is still off. The dependencies of
the function, and the code of the classes of frozen values, are compared by identity at every call
(`fingerprint`). Calls with keywords, lists, dicts, objects, groups of arrays, or host arrays take
the slow path.
"""

from __future__ import annotations

from math import lcm
from types import FunctionType

from cute_py.calls.arguments import Spec, is_frozen_argument, number_of
from cute_py.calls.arrays import LIBRARIES, READERS, VECTOR_BYTES, unwrapped
from cute_py.calls.fingerprint.values import is_frozen
from cute_py.calls.replay import NUMBERS, Signature, is_host
from cute_py.calls.torch_tensors import is_dual_level, is_in_mode, outside_autograd
from cute_py.dtypes.table import Dtype, Promised, is_dtype_of_torch
from cute_py.integers.code import assigned, call, opposite, returned

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias

    from cute_py.calls.arguments import Argument
    from cute_py.calls.backends import Launch
    from cute_py.calls.fingerprint.dependencies import Snapshot
    from cute_py.calls.replay import Args, Number, Replay

    # (all arguments, the addresses of the arrays and the numbers, in this order) -> the result, or
    # None to take the slow path
    Answer: TypeAlias = Callable[[Args, tuple[Any, ...]], Any]

MOST = 1024  # known calls; when there are more, all are evicted


class Known:
    """A known call: its answer, and the values whose identity is in its key."""

    __slots__ = ("after", "alive", "answer", "replay")

    def __init__(self, answer: Callable[..., Any], alive: Sequence[Any]) -> None:
        self.answer, self.alive = answer, alive
        self.replay: Replay | None = None  # answers a call like this one; see `replay.Signature`
        self.after: Known | None = None  # the call that followed this one the last time


class Memo:
    """The known calls of a function of arrays, numbers and other values, each with its answer.

    `replay(args)` returns the result of a known call, or None if the call is not known.
    """

    __slots__ = ("arrays", "before", "count", "divisors", "kept", "numbers", "replay")
    counted = False  # whether calls differ in how many arguments they have
    held: tuple[str, ...] = ("answer",)  # the attributes of a known call that `ending` names

    def __init__(
        self,
        arrays: int,
        numbers: Mapping[int, Number],
        divisors: Mapping[int, int] | None = None,
    ) -> None:
        """Start empty.

        Args:
            arrays: the number of leading arguments that are arrays or None.
            numbers: position of a run-time number -> its special value.
            divisors: position of an array -> the modulus by which its address is compared, if that
                is not 16 bytes.

        """
        self.arrays, self.numbers, self.divisors = arrays, numbers, divisors or {}
        self.clear()

    def clear(self) -> None:
        """Evict all calls."""
        self.kept: dict[tuple[type, ...], Signature] = {}
        self.count = 0
        self.replay: Replay = self.find  # for calls like the previous one; falls back to `find`
        # the previous call, or the one that is tried now, and the one before it
        self.before: tuple[Known | None, Known | None] = None, None

    def find(self, args: Args) -> Any:
        """Answer a known call that differs from the previous one."""
        before = self.before[0]
        after = None if before is None else before.after
        if after is None or after.replay is None:
            self.before = None, before
            return self.search(args)
        self.replay, self.before = after.replay, (after, before)
        return after.replay(args, self.search)

    def search(self, args: Args) -> Any:
        """Answer a known call that did not follow the previous one the last time."""
        if self.is_changed(args):
            return None
        signature = self.kept.get(self._types(args))
        try:
            read = None if signature is None else signature.read(args)
        except RuntimeError:  # of a tensor without memory, which the slow path refuses
            return None
        known = None if signature is None or read is None else signature.entries.get(read[0])
        if signature is None or read is None or known is None:
            return None
        if known.replay is None or known in self.before:  # or a false negative of its guard
            known.replay = signature.replay(known, args, read[1])
        before = self.before[1]
        if before is not None:
            before.after = known
        self.replay, self.before = known.replay, (known, before)
        return self.answered(known, args, read[1])

    def keep(self, args: Args, answer: Answer) -> None:
        """Keep the answer to calls like this one, unless the key would miss a dependency."""
        if all(map(self._is_exact, range(len(args)), args)):
            self._keep(args, Known(answer, args[self.arrays :]))

    def _keep(self, args: Args, known: Known) -> bool:
        if self.count >= MOST:
            self.clear()
        types = self._types(args)
        signature = self.kept.get(types)  # another thread may evict it meanwhile
        if signature is None:
            signature = self.kept[types] = Signature(types, self)
        entries, read = signature.entries, signature.read(args)
        if read is None:
            return False
        self.count += read[0] not in entries
        entries[read[0]] = known
        self.replay, self.before = self.find, (known, None)
        return True

    def _types(self, args: Args) -> tuple[type, ...]:
        """Return the types that functions are generated for. Every number counts as a float; the
        place of one may have an array, whose type of elements its annotation says.
        """
        pairs, numbers = enumerate(map(type, args)), self.numbers
        return tuple([float if i in numbers and x not in READERS else x for i, x in pairs])

    def _is_exact(self, place: int, x: Any) -> bool:
        if place < self.arrays and x is not None:
            return is_host(type(x)) or (type(x) in READERS and type(unwrapped(x)) in LIBRARIES)
        return type(x) in NUMBERS if place in self.numbers else is_known(x)

    # -- what a kernel's calls do in another way

    def is_changed(self, args: Args) -> bool:
        """Tell whether a mode of torch, which the guards notice, lets no call be known."""
        return is_dual_level() or is_in_mode(args[0])

    def answered(self, known: Known, args: Args, values: Args) -> Any:
        """Return the result of a known call for these arguments."""
        return known.answer(args, values)

    def ending(self, values: ast.expr) -> list[ast.stmt]:
        """Return the statements that do the same."""
        return [returned(call("answer", "args", values))]


# -- calls of kernels


class KnownLaunch(Known):
    """A known call of a kernel: its prepared launch, and the check that its dependencies are
    unchanged.
    """

    __slots__ = ("launch", "unchanged")

    def __init__(self, launch: Launch, unchanged: Callable[[], bool], alive: Sequence[Any]) -> None:
        super().__init__(launch.go, alive)
        self.launch, self.unchanged = launch, unchanged


class Launches(Memo):
    """The known calls of a kernel; an answer launches, and returns what is kept of the call."""

    __slots__ = ()
    counted, held = True, ("unchanged", "answer")

    def __init__(self, notes: Sequence[object]) -> None:
        """Start empty, for a function with these annotations of its positional parameters."""
        numbers = {i: x for i, x in enumerate(notes) if isinstance(x, (Dtype, Promised))}
        aligned = {i: x.alignment or 1 for i, x in enumerate(notes) if isinstance(x, Spec)}
        super().__init__(
            0,
            {i: number_of(x) for i, x in numbers.items()},
            {i: lcm(VECTOR_BYTES, x) for i, x in aligned.items()},
        )

    def launched(
        self, args: Args, arguments: Sequence[Argument], seen: Snapshot, launch: Launch
    ) -> KnownLaunch | None:
        """Keep a call that was launched, if it is exact, and return what is kept of it.

        Args:
            args: the positional arguments, as the caller passed them.
            arguments: the same, classified, and the default values.
            seen: the dependencies of the function and its arguments before the call was traced.
            launch: the prepared launch.

        """
        if not all(map(_is_exact, args, arguments)) or not seen.stable:
            return None
        if any(a.kind != "static" or not is_frozen(a.value) for a in arguments[len(args) :]):
            return None
        unchanged = outside_autograd(args, seen.checker())
        known = KnownLaunch(launch, unchanged, [a.value for a in arguments if a.kind == "static"])
        return known if self._keep(args, known) else None

    def is_changed(self, _args: Args) -> bool:
        """Tell whether forward-mode differentiation is on."""
        return is_dual_level()

    def answered(self, known: Any, _args: Args, values: Args) -> Any:
        """Launch a known call unless its dependencies have changed; return what is kept of it."""
        if not known.unchanged():
            return None
        known.answer(values)
        return known

    def ending(self, values: ast.expr) -> list[ast.stmt]:
        """Return the statements that do the same."""
        return [
            returned(call("other", "args"), opposite(call("unchanged"))),
            assigned("_", call("answer", values)),
            returned("known"),
        ]


def _is_exact(x: Any, argument: Argument) -> bool:
    if argument.kind == "array":
        return (
            argument.value is x and unwrapped(x).__class__ in LIBRARIES and x.__class__ in READERS
        )
    if argument.kind == "number":
        return x.__class__ in (int, float, bool)
    if argument.kind != "static" or argument.value is not x:
        return False
    return is_frozen_argument(argument) or is_known(x)


def is_known(x: Any) -> bool:
    """Tell whether the identity of a value says what it is: it can never change, or is a function,
    whose dependencies an answer checks.
    """
    return type(x) is FunctionType or is_frozen(x) or is_dtype_of_torch(x)
