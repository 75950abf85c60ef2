"""Control flow: loops, branches, early exits, and the integers that a kernel defines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from cute_py.plan.conditions import BITS, MOST, PROMISES, SCOPES, Cond, Reg, Scalar, bounds_of
from cute_py.plan.op import NAMED, Block, Op


def _scope(scope: str) -> str:
    return "" if scope in SCOPES else f"the scope {scope}"


def _shown(scope: str) -> str:
    return "" if scope == "block" else f" ({scope})"


@dataclass(frozen=True, slots=True)
class Loop(Op):
    """Run the body for var = start, start + step, ... below stop (above it, for a negative step).

    The threads of a `scope` have the same start, stop and step.
    """

    var: str = field(metadata=NAMED)
    start: Scalar
    stop: Scalar
    step: int
    body: Block
    scope: str = "block"  # block | warpgroup | warp | thread: where the trip count is uniform

    word: ClassVar[str] = "for"
    call: ClassVar[str] = "cute.range"
    purpose: ClassVar[str] = "a loop"
    share: ClassVar[str] = "addresses"
    blocks: ClassVar[tuple[str, ...]] = ("body",)
    repeats: ClassVar[bool] = True

    def problem(self) -> str:
        """Check for a nonzero step and a known scope."""
        return "" if self.step and self.scope in SCOPES else "a step of 0, or an unknown scope"

    def __str__(self) -> str:
        step = "" if self.step == 1 else f" step {self.step}"
        return f"for {self.var} in {self.start} .. {self.stop}{step}{_shown(self.scope)}"


@dataclass(frozen=True, slots=True)
class While(Op):
    """Run `test`; while cond is true, run the body and `test` again."""

    test: Block
    cond: Cond
    body: Block
    scope: str

    word: ClassVar[str] = "while"
    call: ClassVar[str] = "cute.while_"
    purpose: ClassVar[str] = "a loop"
    share: ClassVar[str] = "addresses"
    blocks: ClassVar[tuple[str, ...]] = ("test", "body")
    repeats: ClassVar[bool] = True

    def problem(self) -> str:
        """Check for a known scope."""
        return _scope(self.scope)

    def __str__(self) -> str:
        return f"while {self.cond}"


@dataclass(frozen=True, slots=True)
class If(Op):
    """Run `then` in the threads where cond is true, and `other` in the rest. `scope`: the threads
    that are known to agree on cond: block, warpgroup, warp or thread.
    """

    cond: Cond
    then: Block
    other: Block
    scope: str

    word: ClassVar[str] = "if"
    call: ClassVar[str] = "cute.when"
    purpose: ClassVar[str] = "a branch"
    share: ClassVar[str] = "addresses"
    blocks: ClassVar[tuple[str, ...]] = ("then", "other")

    def problem(self) -> str:
        """Check for a known scope."""
        return _scope(self.scope)

    def __str__(self) -> str:
        return f"if {self.cond}{_shown(self.scope)}"


@dataclass(frozen=True, slots=True)
class Leave(Op):
    """Where cond is true, leave the innermost run-time loop, or the kernel."""

    cond: Cond
    target: str  # loop | kernel
    scope: str

    word: ClassVar[str] = "leave"
    call: ClassVar[str] = "cute.break_if or cute.return_if"
    purpose: ClassVar[str] = "leaves a loop or the kernel"
    share: ClassVar[str] = "addresses"

    def problem(self) -> str:
        """Check for a known scope and target."""
        known = self.target in ("loop", "kernel")
        return _scope(self.scope) if known else f"the target {self.target}"


OF_TWO = ("xor", "and", "or", "shl", "shr", "div")  # kinds of `Let` that two integers determine
_OPERANDS = {
    **dict.fromkeys(OF_TWO, 2),
    **{"where": 3, "reg": 1, "var": 1, "table": 2},
}


@dataclass(frozen=True, slots=True)
class Let(Op):
    """Define an integer that no polynomial describes; it is live to the end of the block.

    kind: `xor and or shl shr` of two scalars; `div`, a quotient rounded down, by a divisor of
    unknown sign, 0 for a divisor of 0; `where`, one of two scalars, by a condition; `reg`, the
    integer in a register of one element; `var`, the current value of a variable that `Set`
    assigned; `table`, the entry of a table of the launch, by the number of the table and an index.
    """

    var: str = field(metadata=NAMED)
    kind: str
    operands: tuple[Scalar | Cond | Reg | str, ...]

    word: ClassVar[str] = "let"
    call: ClassVar[str] = "an integer"
    purpose: ClassVar[str] = "an integer that no sum of products describes"
    share: ClassVar[str] = "addresses"

    def problem(self) -> str:
        """Check for a known kind, with its number of operands."""
        fits = _OPERANDS.get(self.kind) == len(self.operands)
        return "" if fits else f"{self.kind} of {len(self.operands)}"

    def __str__(self) -> str:
        return f"{self.var} = {self.kind}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, slots=True)
class Set(Op):
    """Assign an integer variable; every thread has its own."""

    var: str = field(metadata=NAMED)
    value: Scalar

    word: ClassVar[str] = "set"
    call: ClassVar[str] = "the assignment of a cute.var"
    purpose: ClassVar[str] = "gives a variable a value"
    share: ClassVar[str] = "addresses"

    def __str__(self) -> str:
        return f"{self.var} := {self.value}"


@dataclass(frozen=True, slots=True)
class Promise(Op):
    """State what the kernel's writer knows: a condition is true; or, with a `scope`, its threads
    have the same value, the n-th time that each of them gets here. The emulator checks it, and
    generated code does not.
    """

    value: Cond | Scalar
    scope: str = ""  # grid | cluster | block | warpgroup | warp

    word: ClassVar[str] = "promise"
    call: ClassVar[str] = "cute.assume"
    purpose: ClassVar[str] = "states what is true, or the same in all threads of a scope"
    share: ClassVar[str] = "addresses"

    def problem(self) -> str:
        """Check for a condition, or a scalar with a known scope."""
        fits = self.scope in PROMISES[:-1] if isinstance(self.value, Scalar) else not self.scope
        return "" if fits else f"the scope {self.scope!r} for {self.value}"

    def __str__(self) -> str:
        return f"promise {self.value}" + (f" is the same in the {self.scope}" if self.scope else "")


def let_bounds(kind: str, a: Scalar, b: Scalar) -> tuple[int | None, int | None]:
    """Return bounds of the `Let` `a kind b`; none if it may exceed 64 bits and wrap around.

    >>> let_bounds("xor", 5, 9), let_bounds("and", 12, 7), let_bounds("shl", 1, 63)
    ((0, 15), (0, 7), (None, None))
    """
    (low_a, high_a), (low_b, high_b) = bounds_of(a), bounds_of(b)
    if kind == "where":
        low = None if low_a is None or low_b is None else min(low_a, low_b)
        return low, None if high_a is None or high_b is None else max(high_a, high_b)
    if kind == "div":
        if low_a is None or high_a is None:
            return None, None
        most = max(abs(low_a), abs(high_a))
        return (0 if low_a >= 0 and low_b is not None and low_b >= 0 else -most), most
    if low_a is None or low_b is None or low_a < 0 or low_b < 0:
        return None, None
    if kind == "and":
        known = [high for high in (high_a, high_b) if high is not None]
        return 0, min(known, default=None)
    if kind == "shl":
        if high_a is None or high_b is None or high_b >= BITS or high_a << high_b > MOST:
            return None, None
        return low_a << low_b, high_a << high_b
    if high_a is None or high_b is None:
        return 0, None
    if kind == "shr":
        return low_a >> high_b, high_a >> low_b
    return 0, (1 << max(high_a, high_b).bit_length()) - 1
