"""Run-time control flow: `cute.range`, `cute.when`, `cute.otherwise`, `cute.while_`; and
`cute.var`, the mutable integers of a kernel.

The source is not rewritten. The body of a loop is traced twice, and must record the same ops both
times; a name that a branch rebinds may not be used after it. See docs/kernels.md for the rules.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from itertools import zip_longest

from cute_py.errors import kernel_line, place_text, refusal, refusal_here
from cute_py.integers import ints
from cute_py.integers.polynomial import FloorDiv
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import bounds_of, uniformity
from cute_py.plan.ops import If, Leave, Let, Loop, Set, WaitUntil, While
from cute_py.plan.walk import every
from cute_py.tensor.tensor import require_tensor
from cute_py.trace.askers import require_for
from cute_py.trace.facts import learn
from cute_py.trace.fitting import require_fit
from cute_py.trace.liveness import in_for_statement
from cute_py.trace.lower import access, require_own
from cute_py.trace.naming import written
from cute_py.trace.rebinding import Iterations, Rebinding, Repeated
from cute_py.trace.runtime_integers import Condition, Promised, as_condition, bare, new_symbol
from cute_py.trace.state import Scope, current, emit, require_choice, text_for, tracing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import NoReturn, Self

    from cute_py.layout.types import Leaf
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.ops import Op
    from cute_py.tensor.tensor import Tensor
    from cute_py.trace.state import Trace


# -- loops


class range_:
    """`for k in cute.range(n)` or `(start, stop, step)`: a loop that runs in the kernel.

    The body is traced twice, and must record the same ops both times: a Python value that changes
    from one iteration to the next is an error. Use `cute.var` for a counter, and register tensors
    for sums. Python's own `range` unrolls the loop.
    """

    def __init__(self, start: Leaf, stop: Leaf | None = None, step: int = 1) -> None:
        """Accept the arguments of Python's `range`; the step is static."""
        if stop is None:
            start, stop = 0, start
        self.start = ints.normalize(start, "cute.range")
        self.stop = ints.normalize(stop, "cute.range")
        self.step = ints.as_int(ints.normalize(step, "cute.range"), "cute.range")
        if self.step == 0:
            raise refusal_here("kernel-step", operation="cute.range")

    def __iter__(self) -> Iterator[Leaf]:
        trace = current()
        trace.require_sound()
        if not in_for_statement(sys._getframe(1)):
            raise refusal_here("trace-iterated", operation="cute.range")
        return _loop(trace, self, kernel_line())

    def __len__(self) -> int:
        """Refuse: the trip count is known only at run time."""
        raise refusal_here("trace-iterated", operation="cute.range")

    def __getitem__(self, *index: object) -> NoReturn:
        raise refusal_here("trace-iterated", operation="cute.range")

    __contains__ = __reversed__ = __getitem__


def _loop(trace: Trace, loop: range_, line: tuple[str, int]) -> Iterator[Leaf]:
    """Trace the body twice, and record the loop. In the second trace of an enclosing body one trace
    is enough if it ends where the first ones did: below n loops a body is traced n + 1 times, the
    fewest in which each of the loops goes on once.
    """
    bounds = bare(loop.start, "cute.range"), bare(loop.stop, "cute.range"), loop.step
    scope = uniformity(trace.uniform, *bounds[:2])
    counters, outer = dict(trace.counters), (trace.loops, trace.known)
    whole = trace.scope.whole and _surely_runs(*bounds)
    names = Iterations(next(trace.known, None))
    bodies: list[list[Op]] = []
    name = ""
    while names.again():
        trace.counters, trace.loops, trace.known = dict(counters), [], iter(names.loops)
        name = trace.name_for("k")
        body = Body(trace, "loop", line)
        body.inner.whole = whole and names.ends
        with body.ending("cute.range"):
            require_for(sys._getframe(), first=not bodies)
            yield _variable(trace, name, bounds, scope)
            require_for(sys._getframe(), first=False)
        trace.require_sound()
        bodies.append(body.inner.ops)
        names.ends = not any(isinstance(op, Leave) for op in every(body.ops))
        names.record(trace.loops)
    trace.loops, trace.known = outer
    trace.loops.append(names)
    names.locked.unlock()
    _require_same(bodies[0], bodies[-1], "cute.range")
    names.check(_surely_runs(*bounds))
    trace.emit(Loop(name, *bounds, tuple(bodies[-1]), scope, line=line))


def _surely_runs(start: Leaf, stop: Leaf, step: int) -> bool:
    return ints.less(*((start, stop) if step > 0 else (stop, start))) is True


def _variable(trace: Trace, name: str, bounds: tuple[Leaf, Leaf, int], scope: str) -> Leaf:
    """Return the induction variable of a loop, with its bounds and divisor."""
    start, stop, step = bounds
    (low, top), (bottom, high) = bounds_of(start), bounds_of(stop)
    if high is None or high > _COUNT:
        high = count_bound(trace, stop, high)
    if step < 0:
        low, high = (None if bottom is None else bottom + 1), None if top is None else top + 1
    last = None if high is None else high - 1
    if low is not None and last is not None and last < low:
        last = low  # the body never runs
    unit = abs(step) if start.__class__ is int and start % abs(step) == 0 else 1
    if step > 0:
        trace.limits[name] = stop
    if isinstance(start, int) and isinstance(stop, int) and unit == abs(step) and low != last:
        trace.every.add(name)
    if low == last:
        last = None if last is None else last + unit  # keep a symbol: the body names it
    return new_symbol(trace, name, unit, low, last, scope)


_COUNT = 2**31 - 1  # the greatest number of tiles


def count_bound(trace: Trace, x: Scalar, high: int | None) -> int | None:
    """Return an upper bound of an integer whose own is `high`. A number of tiles, which the host
    computes from parameters, is at most `_COUNT`: the launch checks it.
    """
    if trace.large or isinstance(x, int):
        return high
    terms = [m for m in terms_of(x) if m]
    if not all(any(isinstance(atom, FloorDiv) for atom in m) for m in terms):
        return high
    if not all(s.name in trace.taken for m in terms for atom in m for s in atom.symbols):
        return high
    trace.counts[x] = None
    return _COUNT


def _require_same(first: Sequence[Op], second: Sequence[Op], operation: str) -> None:
    """Refuse a body that recorded other ops the second time, with the first line that differs."""
    for a, b in zip_longest(first, second):
        if a != b:
            if a is not None and b is not None and str(a) == str(b):
                for block in a.blocks:
                    _require_same(getattr(a, block), getattr(b, block), operation)
            texts = ["nothing" if x is None else str(x) for x in (a, b)]
            facts = dict(zip(("first", "second"), texts, strict=True))
            where = place_text((b if a is None else a).line)
            raise refusal("trace-changes", operation=operation, where=where, **facts)


class Body:
    """The block of a `with` statement during its recording."""

    def __init__(self, trace: Trace, kind: str, line: tuple[str, int]) -> None:
        trace.require_sound()
        self.trace, self.line, self.outer = trace, line, trace.scope
        self.inner = Scope(kind, trace.scope, line)
        trace.scope = self.inner

    def learn(self, truth: bool | Condition, holds: bool = True) -> None:
        """Add a condition, or its negation, to the facts of the block."""
        if isinstance(truth, Condition):
            learn(self.inner, truth.cond, holds)

    def end(self, kind: object, operation: str) -> bool:
        """Close the block, and return whether it is complete; if not, an exception propagates."""
        whole = self.trace.scope is self.inner
        self.trace.close(self.inner, self.outer)
        if kind is not None:
            kind = self.inner.kind
            self.trace.leave("run-time loop" if kind == "loop" else kind, self.line)
            return False
        if not whole:
            raise refusal_here("trace-interleaved", operation=operation)
        return True

    @contextmanager
    def ending(self, operation: str) -> Iterator[None]:
        """Close the block at the end of a `with` statement."""
        try:
            yield
        except BaseException as error:
            self.end(error, operation)
            raise
        self.end(None, operation)

    @property
    def ops(self) -> tuple[Op, ...]:
        """The recorded ops."""
        return tuple(self.inner.ops)


class BlockStatement:
    """A statement that records the block of a `with`, or the body of the function below it."""

    operation: str
    body: Body
    guard: Rebinding  # of the names outside of the block

    def __new__(cls, *_args: object, **_named: object) -> Self:
        """Return a statement that is still to record its block."""
        new = object.__new__(cls)
        if (trace := tracing()) is not None:
            trace.blockless[id(new)] = new, place_text(kernel_line())
        return new

    def _begin(self) -> None:
        """Open the block: set `body` and `guard`."""
        raise NotImplementedError

    def _record(self) -> None:
        """Record the op that contains the ops of the block."""
        raise NotImplementedError

    def _start(self) -> None:
        current().blockless.pop(id(self), None)
        self._begin()

    def __enter__(self) -> None:
        self._start()
        self.guard.refuse_leaving()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.guard.locked.unlock()
        if self.body.end(kind, self.operation):
            self.guard.check()
            self._record()

    def __call__(self, body: Callable[[], object]) -> None:
        """`@cute.when(condition)` above a function without arguments records it as the block."""
        self._start()
        try:
            with self.body.ending(self.operation):
                body()
        finally:
            self.guard.locked.unlock()
        self.guard.check(body)
        self._record()


class while_(BlockStatement):
    """`with cute.while_(lambda: x.get() < n):` repeats the body while the condition is true.

    The condition is evaluated before each iteration, so it must be a function of a `cute.var` or of
    memory. Python values follow the rules of `cute.when`.
    """

    operation = "cute.while_"

    def __init__(self, condition: Callable[[], object]) -> None:
        if not callable(condition):
            raise refusal_here("kernel-while", operation="cute.while_", value=condition)
        self.condition = condition

    def _begin(self) -> None:
        trace, self.line = current(), kernel_line()
        self.state = Repeated(self.condition, "cute.while_", self.line)
        counters, first = dict(trace.counters), self._test(trace)
        trace.counters = counters
        second = self._test(trace)
        _require_same(first, second, "cute.while_")
        *test, last = second
        assert isinstance(last, While)
        self.test, self.cond = tuple(test), last.cond
        self.body = Body(trace, "loop", self.line)
        learn(self.body.inner, self.cond)
        self.guard = Rebinding("cute.while_", "loop")

    def _test(self, trace: Trace) -> list[Op]:
        """Return the ops of the condition, and last a loop without them and without a body."""
        with trace.block("loop", self.line) as test:
            truth = as_condition(self.condition(), "cute.while_")
            if isinstance(truth, bool):
                raise refusal_here("kernel-while", operation="cute.while_", value=truth)
        self.state.record()
        scope = uniformity(trace.uniform, truth.cond)
        return [*test.ops, While((), truth.cond, (), scope, line=self.line)]

    def _record(self) -> None:
        self.state.record()
        self.state.locked.unlock()
        ops, trace = self.body.ops, self.body.trace
        if not self.test and not any(isinstance(op, Leave) for op in every(ops)):
            raise refusal_here("kernel-while", operation="cute.while_", value=self.cond)
        scope = uniformity(trace.uniform, self.cond)
        trace.emit(While(self.test, self.cond, ops, scope, line=self.line))


# -- branches


class when(BlockStatement):
    """`with cute.when(condition):` records a branch for the threads where the condition is true.

    The tracer runs the body once, whatever the condition will be. So it is an error to use a name
    after the body that the body rebinds, or a list or object that it changes; and so are `return`,
    `break` and `continue` in the body. If the condition is known at trace time, the body is
    recorded without a branch, or left out.
    """

    operation = "cute.when"

    def __init__(self, condition: object) -> None:
        self.truth = as_condition(condition, "cute.when")

    def _begin(self) -> None:
        if isinstance(self.truth, Condition):
            bare_condition(self.truth)
        self.body = Body(current(), "branch", kernel_line())
        self.body.learn(self.truth)
        self.guard = Rebinding("cute.when")

    def _record(self) -> None:
        body, truth = self.body, self.truth
        record_branch(truth, body.ops, body.line)
        body.trace.branch = body.outer, len(body.outer.ops), truth


def record_branch(truth: bool | Condition, ops: tuple[Op, ...], line: tuple[str, int]) -> None:
    """Record ops under a condition; all of them or none if it is known at trace time."""
    trace = current()
    if isinstance(truth, Condition):
        trace.emit(If(truth.cond, ops, (), uniformity(trace.uniform, truth.cond), line=line))
    elif truth:
        trace.scope.ops.extend(ops)


@contextmanager
def branch(truth: bool | Condition) -> Iterator[None]:
    """Record a branch for code of this package, without the check of Python's names."""
    if isinstance(truth, Condition):
        bare_condition(truth)
    body = Body(current(), "branch", kernel_line())
    body.learn(truth)
    with body.ending("cute.when"):
        yield
    record_branch(truth, body.ops, body.line)


class otherwise(BlockStatement):
    """`with cute.otherwise():` right after a `cute.when` records a branch for the other threads."""

    operation = "cute.otherwise"

    def _begin(self) -> None:
        trace = current()
        outer, position, truth = trace.branch or (None, 0, False)
        self.truth: bool | Condition = truth
        trace.branch = None
        if outer is not trace.scope or position != len(trace.scope.ops):
            raise refusal_here("kernel-otherwise", operation="cute.otherwise")
        self.body = Body(trace, "branch", kernel_line())
        self.body.learn(self.truth, holds=False)
        self.guard = Rebinding("cute.otherwise")

    def _record(self) -> None:
        ops, outer = self.body.ops, self.body.outer
        if isinstance(self.truth, bool):
            record_branch(not self.truth, ops, self.body.line)
            return
        last = outer.ops.pop()
        assert isinstance(last, If)
        outer.ops.append(If(last.cond, last.then, ops, last.scope, line=last.line))


def bare_condition(condition: Condition) -> Condition:
    """Return a condition; refuse one that was made in a block that has ended."""
    condition.scope.require_open(condition)
    return condition


def break_if(condition: object) -> None:
    """Leave the innermost run-time loop where the condition is true."""
    _leave(condition, "loop", "cute.break_if")


def return_if(condition: object) -> None:
    """End the kernel for the threads where the condition is true."""
    _leave(condition, "kernel", "cute.return_if")


def _leave(condition: object, target: str, operation: str) -> None:
    trace = current()
    truth = as_condition(condition, operation)
    if target == "loop":
        scope: Scope | None = trace.scope
        while scope is not None and scope.kind != "loop":
            scope = scope.parent
        if scope is None:
            raise refusal_here("kernel-break", operation=operation)
    if truth is False:
        return
    if truth is True:
        raise refusal_here("kernel-always", operation=operation)
    bare_condition(truth)
    emit(Leave, truth.cond, target, uniformity(trace.uniform, truth.cond))
    learn(trace.scope, truth.cond, truth=False)
    trace.scope.divide()


# -- variables, and waiting for a value in memory


class Var:
    """A run-time integer variable: `x.get()` and `x.set(value)`. Every thread has its own.

    `low`, `high`, `multiple_of` and `uniform` are promises of each value that is read, as in
    `as_int`; the emulator checks them.
    """

    __slots__ = ("name", "promise", "scope")

    def __init__(
        self,
        value: Leaf,
        low: int | None = None,
        high: int | None = None,
        *,
        multiple_of: int = 1,
        uniform: str = "thread",
    ) -> None:
        trace = current()
        self.promise = Promised("cute.var", low, high, multiple_of, uniform)
        self.name = trace.name_for("v")
        self.scope = trace.scope
        emit(Set, self.name, bare(value, "cute.var"))

    def get(self) -> Leaf:
        """Return the current value."""
        trace = current()
        self.scope.require_open(self)
        name = trace.integer_name()
        emit(Let, name, "var", (self.name,))
        return self.promise.of(name)

    def set(self, value: Leaf) -> None:
        """Assign a new value."""
        self.scope.require_open(self)
        emit(Set, self.name, bare(value, "cute.var"))

    def __copy__(self) -> Var:
        """Return a new variable with the current value."""
        promise = self.promise
        ends = promise.low, promise.high
        return Var(self.get(), *ends, multiple_of=promise.unit, uniform=promise.uniform)

    def __deepcopy__(self, memo: dict[int, object]) -> Var:
        return self.__copy__()

    def __str__(self) -> str:
        return text_for(sys._getframe(1), f"the variable {self.name}")

    def __format__(self, spec: str) -> str:
        return text_for(sys._getframe(1), f"the variable {written(self) or self.name}")

    def __bool__(self) -> bool:
        self._refuse()

    def _refuse(self, *operands: object) -> NoReturn:
        name = written(self) or self.name
        raise refusal_here("kernel-variable", operation="cute.var", name=name)


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift")
_OTHERS = (
    *("rshift", "lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "invert", "abs", "round", "pow"),
    *("divmod", "matmul", "index", "int", "float", "hash", "len", "iter"),
)
for _name in (*_OTHERS, *[f"{side}{name}" for side in ("", "r", "i") for name in _BINARY]):
    setattr(Var, f"__{_name}__", Var._refuse)


_FLAG = "wait for an mbarrier of this block, at which the other one arrives: cute.mapa(bars, rank)"


def wait_until(element: Tensor, test: str, value: Leaf) -> None:
    """Wait until an element of memory compares `eq`, `ne`, `ge`, `gt`, `le` or `lt` to a value.

    The element is of 32 or 64 bits. The value is an integer that its type holds; for an element of
    f32 or f64 it is rounded to that type, and NaN compares `ne` alone. The element is polled with
    acquire order: writes before the release that made the comparison true are visible after the
    wait.
    """
    require_choice(test, ("eq", "ne", "ge", "gt", "le", "lt"), "wait_until")
    require_own(require_tensor(element, "wait_until"), "wait_until", _FLAG)
    src, wanted = access(element, 1, "wait_until"), bare(value, "wait_until")
    if not src.dtype.is_float:
        require_fit(wanted, src.dtype, "wait_until")
    emit(WaitUntil, src, test, wanted)
