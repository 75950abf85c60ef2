"""Run-time control flow: `cute.range`, `cute.when`, `cute.otherwise`, `cute.var`, `cute.while_`.

Nothing is rewritten: a loop's body is run twice while it is traced, and both runs must record the
same; what a branch rebinds may not be used after it. See docs/kernels.md for the rules.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager

from cute_py.errors import refusal
from cute_py.layout import ints
from cute_py.trace.integers import Condition, as_condition, bare
from cute_py.trace.lets import bounds_of
from cute_py.trace.ops import If, Leave, Let, Loop, Set, WaitUntil, While
from cute_py.trace.rebinding import Rebinding
from cute_py.trace.state import Scope, current, kernel_line, where
from cute_py.trace.uniform import uniformity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cute_py.layout.tensor import Tensor
    from cute_py.layout.types import Leaf
    from cute_py.trace.ops import Op
    from cute_py.trace.state import Trace


# -- loops


class range_:
    """`for k in cute.range(n)` or `(start, stop, step)`: a loop that runs in the kernel.

    The body is traced twice, and must do the same both times: a Python value that changes from one
    iteration to the next is refused. Use `cute.var` for a counter, and register tensors for sums.
    Python's own `range` unrolls instead.
    """

    def __init__(self, start: Leaf, stop: Leaf | None = None, step: int = 1) -> None:
        """Take the arguments of Python's `range`; the step is static."""
        if stop is None:
            start, stop = 0, start
        self.start = ints.normalize(start, "cute.range")
        self.stop = ints.normalize(stop, "cute.range")
        self.step = ints.as_int(ints.normalize(step, "cute.range"), "cute.range")
        if self.step == 0:
            raise refusal("kernel-step", operation="cute.range", where=where())

    def __iter__(self) -> Iterator[Leaf]:
        trace = current()
        trace.require_sound()
        return _loop(trace, self, kernel_line())

    def __len__(self) -> int:
        """Refuse: the trip count is known at run time only."""
        raise refusal(
            "trace-python",
            operation="cute.range",
            value="cute.range",
            use="len(), list()",
            instead="Python's range for a loop that unrolls",
            where=where(),
        )


def _loop(trace: Trace, loop: range_, line: tuple[str, int]) -> Iterator[Leaf]:
    start, stop = bare(loop.start, "cute.range"), bare(loop.stop, "cute.range")
    outer = trace.scope
    counters = dict(trace.counters)
    scope = uniformity(trace, start, stop)
    runs: list[list[Op]] = []
    name = ""
    for _run in (1, 2):
        trace.counters = dict(counters)
        name = trace.name_for("k")
        inner = Scope("loop", outer, line)
        trace.scope = inner
        done = False
        try:
            yield _variable(trace, name, (start, stop, loop.step), scope)
            done = True
        finally:
            if not done and not trace.poison:
                trace.poison = f"{line[0].rpartition('/')[2]}:{line[1]}"
            finished = trace.scope is inner
            trace.close(inner, outer)
        if not finished:
            raise refusal("trace-interleaved", operation="cute.range", where=where())
        trace.require_sound()
        runs.append(inner.ops)
    _require_same(runs[0], runs[1])
    trace.emit(Loop(name, start, stop, loop.step, tuple(runs[1]), scope, line=line))


def _variable(trace: Trace, name: str, bounds: tuple[Leaf, Leaf, int], scope: str) -> Leaf:
    """Return the variable of a loop, with what start, stop and step say of its values."""
    start, stop, step = bounds
    (low, top), (bottom, high) = bounds_of(start), bounds_of(stop)
    if step < 0:
        low, high = (None if bottom is None else bottom + 1), None if top is None else top + 1
    last = None if high is None else high - 1
    if low is not None and last is not None and last < low:
        last = low  # a body that never runs
    unit = abs(step) if start.__class__ is int and start % abs(step) == 0 else 1
    if low == last:
        last = None if last is None else last + unit  # keep a symbol: the body names it
    return trace.symbol(name, unit, low, last, scope)


def _require_same(first: list[Op], second: list[Op]) -> None:
    """Refuse a body that did not record the same twice, naming the first line that differs."""
    for a, b in zip(first, second, strict=False):
        if a != b:
            _refuse_change(a, b)
    if len(first) != len(second):
        longer = first if len(first) > len(second) else second
        _refuse_change(longer[min(len(first), len(second))], None)


def _refuse_change(a: Op, b: Op | None) -> None:
    from cute_py.trace.text import op_text

    file, number = a.line
    raise refusal(
        "trace-changes",
        operation="cute.range",
        first=op_text(a),
        second="nothing" if b is None else op_text(b),
        where=f"{file.rpartition('/')[2]}:{number}",
    )


@contextmanager
def while_(condition: Callable[[], object]) -> Iterator[None]:
    """`with cute.while_(lambda: x.get() < n):` repeats the body while the condition holds.

    The condition is asked again before each iteration, so it must be a function, of `cute.var`s or
    of memory.
    """
    trace, line = current(), kernel_line()
    with trace.block("loop", line) as test:
        truth = as_condition(condition(), "cute.while_")
        if isinstance(truth, bool):
            raise refusal("kernel-while", operation="cute.while_", value=truth, where=where())
    guard = Rebinding(sys._getframe(2), "cute.while_")
    with trace.block("loop", line) as body:
        yield
    guard.check(sys._getframe(2))
    scope = uniformity(trace, truth.cond)
    trace.emit(While(tuple(test.ops), truth.cond, tuple(body.ops), scope, line=line))


# -- branches


class when:
    """`with cute.when(condition):` records what only those threads do for whom it holds.

    A name that is rebound inside and used after, and `return`, `break` and `continue` inside, are
    refused: the trace runs the body once, whatever the condition will be. A condition that is
    decided at trace time runs the body or leaves it out, but then use Python's `if`.
    """

    def __init__(self, condition: object, checked: bool = True) -> None:
        """Take a condition; `checked` is for this package's own use."""
        self.truth = as_condition(condition, "cute.when")
        self.checked = checked

    def __enter__(self) -> None:
        trace = current()
        trace.require_sound()
        self.line = kernel_line()
        self.condition = self.truth if isinstance(self.truth, Condition) else None
        if self.condition is not None:
            bare_condition(self.condition)
        self.outer = trace.scope
        self.inner = Scope("branch", self.outer, self.line)
        if self.checked:
            self.guard = Rebinding(sys._getframe(1), "cute.when")
        trace.scope = self.inner

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        trace = current()
        whole = trace.scope is self.inner
        trace.close(self.inner, self.outer)
        if kind is not None:
            return
        if not whole:
            raise refusal("trace-interleaved", operation="cute.when", where=where())
        if self.checked:
            self.guard.check(sys._getframe(1))
        ops = tuple(self.inner.ops)
        if self.condition is None:
            if self.truth is True:
                self.outer.ops.extend(ops)
            return
        scope = uniformity(trace, self.condition.cond)
        trace.emit(If(self.condition.cond, ops, (), scope, line=self.line))

    def __call__(self, body: Callable[[], object]) -> None:
        """`@cute.when(condition)` above a function without arguments records it as the branch."""
        with when(self.truth, checked=False):
            body()


class otherwise:
    """`with cute.otherwise():` right after a `cute.when` records what the other threads do."""

    def __enter__(self) -> None:
        trace = current()
        trace.require_sound()
        self.line = kernel_line()
        last = trace.scope.ops[-1] if trace.scope.ops else None
        if not isinstance(last, If) or last.other:
            raise refusal("kernel-otherwise", operation="cute.otherwise", where=where())
        self.outer = trace.scope
        self.inner = Scope("branch", self.outer, self.line)
        self.guard = Rebinding(sys._getframe(1), "cute.otherwise")
        trace.scope = self.inner

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        trace = current()
        trace.close(self.inner, self.outer)
        if kind is not None:
            return
        self.guard.check(sys._getframe(1))
        branch = self.outer.ops.pop()
        assert isinstance(branch, If)
        ops = tuple(self.inner.ops)
        self.outer.ops.append(
            If(branch.cond, branch.then, ops, branch.scope, line=branch.line)
        )

    def __call__(self, body: Callable[[], object]) -> None:
        """`@cute.otherwise()` above a function without arguments."""
        with self:
            body()


def bare_condition(condition: Condition) -> Condition:
    """Return a condition that may be used now; refuse one of a block that is over."""
    condition.scope.require_open(condition)
    return condition


def break_if(condition: object) -> None:
    """Leave the innermost run-time loop where the condition holds."""
    _leave(condition, "loop", "cute.break_if")


def return_if(condition: object) -> None:
    """End the kernel for the threads for which the condition holds."""
    _leave(condition, "kernel", "cute.return_if")


def _leave(condition: object, target: str, operation: str) -> None:
    trace = current()
    truth = as_condition(condition, operation)
    if target == "loop":
        scope: Scope | None = trace.scope
        while scope is not None and scope.kind != "loop":
            scope = scope.parent
        if scope is None:
            raise refusal("kernel-break", operation=operation, where=where())
    if truth is False:
        return
    if truth is True:
        raise refusal("kernel-always", operation=operation, where=where())
    bare_condition(truth)
    trace.emit(Leave(truth.cond, target, uniformity(trace, truth.cond), line=kernel_line()))


# -- variables


class Var:
    """A run-time integer variable: `x.get()` and `x.set(value)`. Every thread has its own.

    `low` and `high` bound it for proofs; the emulator checks them.
    """

    __slots__ = ("high", "low", "name")

    def __init__(self, value: Leaf, low: int | None = None, high: int | None = None) -> None:
        """Declare a variable with its first value."""
        trace = current()
        self.name = trace.name_for("v")
        self.low, self.high = low, high
        trace.emit(Set(self.name, bare(value, "cute.var"), line=kernel_line()))

    def get(self) -> Leaf:
        """Return the present value."""
        trace = current()
        name = trace.name_for("n")
        trace.emit(Let(name, "var", (self.name,), line=kernel_line()))
        return trace.symbol(name, 1, self.low, self.high, "thread")

    def set(self, value: Leaf) -> None:
        """Give it a new value."""
        current().emit(Set(self.name, bare(value, "cute.var"), line=kernel_line()))


def wait_until(element: Tensor, test: str, value: Leaf) -> None:
    """Wait until an element of memory compares `eq`, `ne`, `ge`, `gt`, `le` or `lt` to a value.

    The element is read again and again with acquire order: what was written before the release that
    made the comparison true is visible after it.
    """
    from cute_py.trace.lower import access

    tests = ("eq", "ne", "ge", "gt", "le", "lt")
    if test not in tests:
        raise refusal(
            "kernel-choice", operation="wait_until", value=test, choices=tests, where=where()
        )
    src = access(element, 1, "wait_until")
    current().emit(WaitUntil(src, test, bare(value, "wait_until"), line=kernel_line()))


