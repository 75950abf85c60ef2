"""The current trace: its open blocks, the names that it assigns, the ops that it records.

A thread traces one kernel at a time. A `Scope` is a block during its recording: the kernel, one
trace of a loop's body, or a branch. Values hold the scope that made them, and are refused after it
has ended.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager

from cute_py.errors import is_own, kernel_line, listeners, place_text, refusal, refusal_here
from cute_py.integers import ints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any, ParamSpec, Protocol, TypeAlias

    from cute_py.dtypes.table import DtypeLike
    from cute_py.errors import CuteError
    from cute_py.integers.polynomial import Polynomial, Symbol
    from cute_py.integers.symbols import SymInt
    from cute_py.layout.types import IntTuple, Leaf
    from cute_py.plan.conditions import Reg
    from cute_py.plan.ops import Op
    from cute_py.tensor.tensor import Tensor
    from cute_py.trace.engines import KernelEngine

    P = ParamSpec("P")
    # symbols with narrower bounds, and polynomials of these that are at least 0
    Premises: TypeAlias = tuple[dict[Symbol, Polynomial], tuple[Polynomial, ...]]

    class _Recorder(Protocol):
        """What engines and integers need of a `kernel.Recorder`."""

        def apply(self, name: str, *operands: Any) -> Tensor: ...
        def apply_in_place(self, name: str, target: Tensor, other: object) -> Tensor: ...
        def assign(self, target: Tensor, value: Any) -> None: ...
        def convert(self, tensor: Tensor, dtype: DtypeLike, *how: Any) -> Tensor: ...
        def as_test(self, tensor: Tensor) -> Reg: ...
        def integer(self, value: Leaf, dtype: DtypeLike, *how: Any) -> Tensor: ...
        def load_element(self, engine: KernelEngine, offset: IntTuple) -> Tensor: ...
        def store_element(self, engine: KernelEngine, offset: IntTuple, value: object) -> None: ...
        def store_all(self, target: Tensor, value: object) -> None: ...


_local = threading.local()
_TRACE = __name__.rpartition(".")[0]
_HERE = __name__.rpartition(".")[0].partition(".")[0]  # cute_py


class Scope:
    """A block during its recording."""

    __slots__ = (
        "depth",
        "facts",
        "kind",
        "line",
        "open",
        "ops",
        "parent",
        "premises",
        "proofs",
        "root",
        "whole",
    )

    def __init__(self, kind: str, parent: Scope | None, line: tuple[str, int]) -> None:
        """Open a block: `kernel`, `loop`, `branch` ..."""
        self.kind = kind
        self.parent = parent
        self.root: Scope = self if parent is None else parent.root
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.line = line
        self.ops: list[Op] = []
        self.facts: tuple[Polynomial, ...] = ()  # polynomials that are at least 0; see `facts`
        self.premises: Premises | None = None  # the facts that are known here; see `facts.decide`
        self.proofs: dict[Any, bool | None] = {}  # what facts have decided; see `facts.decide`
        self.open = True
        self.whole = parent is None  # whether all threads are known to come

    def __repr__(self) -> str:
        return f"<{self.kind}>"

    def divide(self) -> None:
        """Note that threads may have left: not all of them come here, nor behind the block."""
        scope: Scope | None = self
        while scope is not None:
            scope.whole, scope = False, scope.parent

    def require_open(self, value: object) -> None:
        """Refuse a value of this block if the block has ended, or is part of another trace."""
        foreign = self.root is not current().root
        if foreign or not self.open:
            raise refusal_here(
                "trace-foreign" if foreign else "trace-stale",
                operation="kernel",
                value=value,
                kind=self.kind,
                made=place_text(self.root.line if foreign else self.line),
            )


class Trace:
    """The state of the trace of one kernel."""

    def __init__(self, name: str, line: tuple[str, int], record: _Recorder) -> None:
        """Start with an empty kernel, whose `def` is on the line; `record` has the functions that
        record operators.
        """
        self.name, self.record = name, record
        self.root = Scope("kernel", None, line)
        self.scope = self.root
        self.counters: dict[str, int] = {}
        self.shared: dict[str, Any] = {}
        self.registers: dict[str, Any] = {}
        self.params: dict[str, Any] = {}
        self.pointers: dict[str, Any] = {}  # the ops `MakePtr` by name
        self.taken: set[str] = set()  # names of parameters and their sizes
        self.launch: Any = None
        self.tables: dict[tuple[Any, ...], int] = {}  # the rows of `Launch.tables`, numbered
        self.of_all: Any = None  # in a formula: makes a result over all elements, see `formulas`
        self.pairs: dict[str, Any] = {}  # in a formula: what `pairs` gave, see `formulas`
        self.contract = False  # whether products and sums become fma
        self.shown: list[Any] = []  # (line, "print" or "show", values) of such calls; see `see`
        self.large = False  # whether an argument's extents may be 2**31 or more
        self.counts: dict[SymInt, None] = {}  # numbers of tiles: see `Launch.counts`
        self.profiles = (0, 0)  # the ranks of grid and block, 0 for an integer
        self.top = 0  # shared memory in use (bytes)
        self.unions: list[list[int]] = []  # [start, end of the longest member]
        self.locked: list[Any] = []  # arrays that were made read-only; see `rebinding.Entry`
        self.frame: FrameType | None = None  # the one that calls the kernel's function
        self.refusals: list[CuteError] = []
        self.poison = ""  # the block that was left by break, return or an exception
        self.blockless: dict[int, tuple[Any, str]] = {}  # statements whose blocks have not begun
        self.branch: Any = None  # the branch that a cute.otherwise would follow; see `control.when`
        self.roles: dict[str, Any] = {}  # see `roles.role`
        self.role: Any = None  # the one that is open
        self.role_chain: Any = None  # the roles that a cute.role would follow
        self.loops: list[Any] = []  # those of the open body so far; see `control._loop`
        self.known: Iterator[Any] = iter(())  # the same in the trace of the body before
        self.symbols: dict[str, SymInt] = {}  # see `runtime_integers.new_symbol`
        self.limits: dict[str, Any] = {}  # symbol -> exclusive upper limit: the grid, a loop's stop
        self.uniform: dict[str, str] = {}  # symbol -> the scope in which it is uniform
        self.every: set[str] = set()  # indices that have all values between their bounds

    def forget(self) -> None:
        """Drop what refers to frames, after the trace: they hold the caller's arrays and the trace,
        in a cycle that would live until the garbage collector finds it.
        """
        self.frame = self.branch = self.role = self.role_chain = None
        self.refusals.clear()
        self.roles.clear()
        self.locked.clear()
        self.loops.clear()
        self.blockless.clear()

    # -- allocation of shared memory

    def place(self, alignment: int) -> int:
        """Return the next free offset in shared memory (bytes); in a union, that of its members."""
        start = self.unions[-1][0] if self.unions else self.top
        return -(-start // alignment) * alignment

    def take(self, end: int) -> None:
        """Mark shared memory up to `end` (bytes) as used."""
        if self.unions:
            self.unions[-1][1] = max(self.unions[-1][1], end)
        else:
            self.top = end

    # -- names

    def name_for(self, stem: str) -> str:
        """Return a new name: stem0, stem1, ...; the second trace of a body gets the same names."""
        number = self.counters.get(stem, 0)
        while f"{stem}{number}" in self.taken:
            number += 1
        self.counters[stem] = number + 1
        return f"{stem}{number}"

    def integer_name(self) -> str:
        """Return a new name for an integer that is neither argument nor index: n0, n1 ... in loops,
        m0, m1 ... outside, where it is loop-invariant.
        """
        scope: Scope | None = self.scope
        while scope is not None and scope.kind != "loop":
            scope = scope.parent
        return self.name_for("m" if scope is None else "n")

    # -- ops

    def emit(self, op: Op) -> None:
        """Record an op at the end of the open block."""
        self.require_sound()
        self.scope.ops.append(op)

    def require_sound(self) -> None:
        """Refuse to continue after a block was left by break, return or an exception."""
        if self.poison:
            raise refusal_here("trace-left", operation="kernel", block=self.poison)

    def leave(self, kind: str, line: tuple[str, int]) -> None:
        """Mark the trace as incomplete: a block was left before its end."""
        if not self.poison:
            self.poison = f"the {kind} at {place_text(line)}"

    @contextmanager
    def block(self, kind: str, line: tuple[str, int]) -> Iterator[Scope]:
        """Open a block inside of the current one, and close it at the end."""
        outer, inner = self.scope, Scope(kind, self.scope, line)
        self.scope = inner
        try:
            yield inner
        except BaseException:
            self.leave(kind, line)
            raise
        finally:
            self.close(inner, outer)

    def close(self, inner: Scope, outer: Scope) -> None:
        """End a block and all blocks inside of it that are still open."""
        scope: Scope | None = self.scope
        while scope is not None and scope is not outer:
            scope.open = False
            scope = scope.parent
        inner.open = False
        self.scope = outer


def current() -> Trace:
    """Return the current trace; refuse a call outside of a kernel."""
    trace: Trace | None = getattr(_local, "trace", None)
    if trace is None:
        raise refusal("trace-outside", operation=_called())
    return trace


def emit(kind: Callable[P, Op], *fields: P.args, **named: P.kwargs) -> None:
    """Record an op of a kind, with its fields and the current line of the kernel; refuse one that
    no architecture can run.
    """
    named["line"] = kernel_line()
    op = kind(*fields, **named)
    lack = op.lack()
    if lack is not None:
        raise refusal_here("kernel-lack", operation=_called(), **lack._asdict())
    current().emit(op)


def _keep(error: CuteError) -> None:
    trace = tracing()
    if trace is not None and _is_of_a_kernel():
        trace.refusals.append(error)


def _is_of_a_kernel() -> bool:
    """Return whether a refusal is of the kernel's own operations: the tracer, or an access of an
    element. A kernel may try a layout and take another one.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_own(frame):
        name = frame.f_code.co_name
        module = frame.f_globals.get("__name__", "")
        if name in ("refusal_here", "__setitem__", "__getitem__") or module.startswith(_TRACE):
            return True
        frame = frame.f_back
    return False


listeners.append(_keep)


def raise_swallowed(trace: Trace) -> None:
    """Raise a refusal that the user's code has caught: what it did before is recorded."""
    for error in trace.refusals:
        caught = error.__traceback__  # begins with the frame that caught it
        if caught is not None and not is_own(caught.tb_frame):
            raise error


def hidden_refusal(trace: Trace) -> CuteError | None:
    """Return the last refusal of a number that code written in C has caught, or None."""
    for error in reversed(trace.refusals):
        caught = error.__traceback__
        seen = caught is not None and not is_own(caught.tb_frame)
        if error.code in ("trace-python", "trace-number") and not seen:
            return error
    return None


def tracing() -> Trace | None:
    """Return the current trace, or None."""
    return getattr(_local, "trace", None)


@contextmanager
def recording(trace: Trace) -> Iterator[Trace]:
    """Make a trace the current one; refuse a kernel inside of a kernel."""
    if getattr(_local, "trace", None) is not None:
        raise refusal_here("trace-nested", operation=trace.name)
    _local.trace = trace
    try:
        yield trace
    finally:
        trace.root.open = False
        _local.trace = None


@contextmanager
def apart(trace: Trace) -> Iterator[Trace]:
    """Make a trace the current one, also while a kernel is traced, whose trace is current after."""
    outer = tracing()
    _local.trace = trace
    try:
        yield trace
    finally:
        trace.root.open = False
        _local.trace = outer


def text_for(asker: FrameType, text: str) -> str:
    """Return the text of a run-time value for this package; refuse to give it to the user's code,
    which would take it for the text of a number.
    """
    if tracing() is not None and not is_own(asker):
        raise refusal_here("trace-text", operation="kernel", text=text)
    return text


def require_choice(value: object, choices: tuple[object, ...], operation: str) -> None:
    """Refuse a word or number that is not one of the choices."""
    if getattr(value, "ndim", 0) or value not in choices:
        words = ", ".join([str(x) or "''" for x in choices])
        raise refusal_here("kernel-choice", operation=operation, value=value, choices=words)


def at_least(value: Any, low: int, operation: str) -> Any:
    """Return an integer, perhaps of run time; refuse one that is known to be too low."""
    number: Any = ints.normalize(value, operation)
    if number.__class__ is int and number < low:
        choices = f"{low}, {low + 1} ..."
        raise refusal_here("kernel-choice", operation=operation, value=value, choices=choices)
    return number


def number_within(value: object, operation: str, low: int, high: int | None = None) -> int:
    """Return a number that is known when the kernel is traced; refuse one out of bounds."""
    count = ints.as_int(ints.normalize(value, operation), operation)
    if count < low or (high is not None and count > high):
        choices = f"{low}, {low + 1} ..." + ("" if high is None else f" {high}")
        raise refusal_here("kernel-choice", operation=operation, value=value, choices=choices)
    return count


def _called() -> str:
    """Return the name of the function or class of this package that the user called."""
    frame: FrameType | None = sys._getframe(1)
    name = "kernel"
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != _HERE:
            return name
        name = frame.f_code.co_name
        if name.startswith(("__", "<lambda>")) and "self" in frame.f_locals:  # an operator
            name = type(frame.f_locals["self"]).__name__.rstrip("_")
        frame = frame.f_back
    return name
