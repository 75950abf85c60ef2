"""The integer protocol: the only place that applies an operator or a comparison to a leaf.

A leaf of a shape or stride is a Python `int` (the fast path), or an instance of any class that
implements the protocol: symbols (`symbols.SymInt`), the tracer's run-time integers. The methods:

`cute_compute(op, a, b)`
    The result of op, one of "add", "sub", "mul", "div", "mod", "min", on the operands a and b in
    this order. Self is one of the two. Returns `NotImplemented` for an unknown operand; then the
    method of the other operand is called.
`cute_decide(question, a, b)`
    The answer to question, one of "same", "less", "divides", about a and b in this order: True or
    False only if that is the answer for every value of the operands, None if it depends on the
    value, `NotImplemented` as above.
`cute_value()`
    The value as an int if it is known, else None.
`cute_assumption(question, a, b)` (optional)
    The assumption, in words, under which question (one of the three, or "leq") is True.

`div` and `mod` are Python's floor division and its remainder, which for operands of at least 0 is
what CuTe computes too.

>>> add(3, 4), ceil_div(10, 4), divides(4, 12), less(4, 4)
(7, 3, True, False)
"""

from __future__ import annotations

from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeAlias, TypeVar

    T = TypeVar("T")

    class CuteInt(Protocol):
        """A class whose instances are leaves (module docstring)."""

        def cute_compute(self, op: str, a: Leaf, b: Leaf) -> Leaf:
            """Return `a op b`."""

        def cute_decide(self, question: str, a: Leaf, b: Leaf) -> bool | None:
            """Answer a question about a and b."""

        def cute_value(self) -> int | None:
            """Return the value if it is known."""

    Leaf: TypeAlias = int | CuteInt

    class AnyInt(int):
        """What a type checker takes for the integers that functions return: an int; a symbol and an
        integer of a kernel compute alike, and in a kernel each has `to`.
        """

        def to(self, dtype: Any, rounding: str | None = None, **named: bool) -> Any:
            """Return the integer in a register of a type; in kernels."""

        def __add__(self, other: Any) -> AnyInt: ...
        def __radd__(self, other: Any) -> AnyInt: ...
        def __sub__(self, other: Any) -> AnyInt: ...
        def __rsub__(self, other: Any) -> AnyInt: ...
        def __mul__(self, other: Any) -> AnyInt: ...
        def __rmul__(self, other: Any) -> AnyInt: ...
        def __floordiv__(self, other: Any) -> AnyInt: ...
        def __rfloordiv__(self, other: Any) -> AnyInt: ...
        def __mod__(self, other: Any) -> AnyInt: ...
        def __rmod__(self, other: Any) -> AnyInt: ...


# -- what a leaf is


def is_leaf(x: object) -> bool:
    """Return whether x can be used in a shape or stride without `normalize`."""
    return x.__class__ is int or hasattr(x.__class__, "cute_compute")


def is_static(x: Leaf) -> bool:
    """Return whether the value of the leaf x is known now."""
    return x.__class__ is int or x.cute_value() is not None  # type: ignore[union-attr]


def normalize(x: object, operation: str = "Layout", also: str = "") -> Leaf:
    """Return x as a leaf: NumPy integers and subclasses of int become `int`, leaves stay.

    Args:
        x: the user's value.
        operation: the public name that the user called, for the refusal.
        also: what else the operation accepts, for the refusal, e.g. ", or None".

    Raises:
        LeafTypeError: x is a bool, a float, text or anything else that is not an integer.

    >>> import numpy as np
    >>> normalize(np.int32(8))
    8
    """
    if x.__class__ is int or hasattr(x.__class__, "cute_compute"):
        return x  # type: ignore[return-value]
    kind = type(x).__name__
    if kind not in ("bool", "bool_") and hasattr(x, "__index__"):
        from operator import index

        try:
            return index(x)
        except TypeError:  # an array of several values, or a NumPy float array of none
            pass
    if hasattr(x, "engine"):
        x.engine.require_known(x, "a place that needs an integer (an index, cute.range, a shape)")
    if kind in ("slice", "ellipsis"):
        raise refusal("leaf-slice", operation=operation, given=_slice_text(x), also=also)
    raise refusal("leaf-type", operation=operation, value=x, type=kind, also=also)


def _slice_text(x: Any) -> str:
    """Return a slice as Python writes it."""
    if x is ...:
        return "..."
    parts = ["" if n is None else str(n) for n in (x.start, x.stop, x.step)]
    return ":".join(parts if parts[2] else parts[:2])


# -- arithmetic


def add(a: Leaf, b: Leaf) -> Leaf:
    """Return a + b."""
    if a.__class__ is int and b.__class__ is int:
        return a + b
    return _compute("add", a, b)


def sub(a: Leaf, b: Leaf) -> Leaf:
    """Return a - b."""
    if a.__class__ is int and b.__class__ is int:
        return a - b
    return _compute("sub", a, b)


def mul(a: Leaf, b: Leaf) -> Leaf:
    """Return a * b."""
    if a.__class__ is int and b.__class__ is int:
        return a * b
    return _compute("mul", a, b)


def div(a: Leaf, b: Leaf) -> Leaf:
    """Return floor(a / b)."""
    if a.__class__ is int and b.__class__ is int:
        return a // b
    return _compute("div", a, b)


def mod(a: Leaf, b: Leaf) -> Leaf:
    """Return a - b * floor(a / b)."""
    if a.__class__ is int and b.__class__ is int:
        return a % b
    return _compute("mod", a, b)


def ceil_div(a: Leaf, b: Leaf) -> Leaf:
    """Return floor((a + b - 1) / b), which for b >= 1 is a / b rounded up."""
    if a.__class__ is int and b.__class__ is int:
        return (a + b - 1) // b
    return div(add(a, sub(b, 1)), b)


def min_(a: Leaf, b: Leaf) -> AnyInt:
    """Return the smaller of a and b.

    >>> min_(3, 4)
    3
    """
    if a.__class__ is int and b.__class__ is int:
        return a if a <= b else b  # type: ignore[return-value]
    if not (is_leaf(a) and is_leaf(b)):
        return given(min_(normalize(a, "min_"), normalize(b, "min_")))
    return given(_compute("min", a, b))  # type: ignore[return-value]


def max_(a: Leaf, b: Leaf) -> AnyInt:
    """Return the larger of a and b.

    >>> max_(3, 4)
    4
    """
    if a.__class__ is int and b.__class__ is int:
        return a if a >= b else b  # type: ignore[return-value]
    if not (is_leaf(a) and is_leaf(b)):
        return given(max_(normalize(a, "max_"), normalize(b, "max_")))
    return given(neg(_compute("min", neg(a), neg(b))))  # type: ignore[return-value]


def neg(a: Leaf) -> Leaf:
    """Return -a."""
    return -a if a.__class__ is int else _compute("mul", a, -1)


def abs_(a: Leaf) -> Leaf:
    """Return the magnitude of a.

    Raises:
        UndecidedError: the sign of a depends on the value of a symbol.

    """
    if a.__class__ is int:
        return a if a >= 0 else -a
    return a if settle(leq, 0, a, "abs_") else neg(a)


def given(x: T) -> T:
    """Return a result of a public function as its caller gets it: in a kernel a number that has
    `to` (`trace.decided` puts its own function here).
    """
    return x


# -- decisions: True or False for every value that the operands can take, None for "it depends"


def same(a: Leaf, b: Leaf) -> bool | None:
    """Decide a == b."""
    if a.__class__ is int and b.__class__ is int:
        return a == b
    return True if a is b else _decide("same", a, b)


def less(a: Leaf, b: Leaf) -> bool | None:
    """Decide a < b."""
    if a.__class__ is int and b.__class__ is int:
        return a < b
    return _decide("less", a, b)


def leq(a: Leaf, b: Leaf) -> bool | None:
    """Decide a <= b."""
    if a.__class__ is int and b.__class__ is int:
        return a <= b
    greater = _decide("less", b, a)
    return None if greater is None else not greater


def divides(a: Leaf, b: Leaf) -> bool | None:
    """Decide whether b is a multiple of a; only 0 is a multiple of 0."""
    if a.__class__ is int and b.__class__ is int:
        return b % a == 0 if a else b == 0
    return _decide("divides", a, b)


def is_zero(a: Leaf) -> bool | None:
    """Decide a == 0."""
    return a == 0 if a.__class__ is int else _decide("same", a, 0)


def is_one(a: Leaf) -> bool | None:
    """Decide a == 1."""
    return a == 1 if a.__class__ is int else _decide("same", a, 1)


def require(
    answer: bool | None,
    operation: str,
    question: str,
    assumption: str = "",
    where: str | None = None,
) -> bool:
    """Return the answer of a decision; refuse None.

    Args:
        answer: the answer of the decision.
        operation: the public name that the user called.
        question: the statement to decide, e.g. "M is a multiple of 16".
        assumption: what would decide it, by default the statement itself.
        where: "file.py:line" in kernels.

    Raises:
        UndecidedError: the answer is None; `facts["assumption"]` would settle it.

    """
    if answer is None:
        facts = {"question": question, "assumption": assumption or question}
        raise refusal("undecided", operation=operation, where=where, **facts)
    return answer


def settle(
    question: Callable[[Leaf, Leaf], bool | None],
    a: Leaf,
    b: Leaf,
    operation: str,
    where: str | None = None,
) -> bool:
    """Return `question(a, b)`, where question is `same`, `less`, `leq` or `divides`; refuse None.

    Like `require`, but the message is built only when it is needed.

    Raises:
        UndecidedError: the answer depends on a symbol; `facts["assumption"]` would settle it.

    >>> settle(divides, 4, 12, "composition")
    True
    """
    answer = question(a, b)
    if answer is None:
        name = question.__name__
        require(None, operation, statement(name, a, b), assumption(name, a, b), where)
    return answer is True


def as_int(x: Leaf, operation: str) -> int:
    """Return the leaf x as a Python int.

    Raises:
        UndecidedError: the value of x is not known.

    """
    if x.__class__ is int:
        return x
    value = x.cute_value()  # type: ignore[union-attr]
    if value is None:
        require(None, operation, f"{x} is one number", f"{x} is fixed")
    return value  # type: ignore[return-value]


def assumption(question: str, a: Leaf, b: Leaf) -> str:
    """Return the assumption, in words, under which the question ("same", ...) is True."""
    for leaf in (a, b):
        words = getattr(leaf, "cute_assumption", None)
        if words is not None:
            return str(words(question, a, b))
    return statement(question, a, b)


_SIGNS = {"same": "==", "less": "<", "leq": "<="}


def statement(question: str, a: object, b: object) -> str:
    """Return a question in words, as a statement."""
    if question == "divides":
        return f"{b} is a multiple of {a}"
    return f"{a} {_SIGNS[question]} {b}"


# -- dispatch


def _compute(op: str, a: Leaf, b: Leaf) -> Leaf:
    for leaf in (a, b):
        if _derives(leaf):
            found: Leaf = _ON_INTS[op](normalize(a, op), normalize(b, op))
            return found
        if leaf.__class__ is not int:
            result: Leaf = _method(leaf, "cute_compute", op)(op, a, b)
            if result is not NotImplemented:
                return result
    raise refusal("leaf-operands", operation=op, a=a, b=b)


def _decide(question: str, a: Leaf, b: Leaf) -> bool | None:
    for leaf in (a, b):
        if _derives(leaf):
            found: bool | None = _ON_INTS[question](normalize(a, question), normalize(b, question))
            return found
        if leaf.__class__ is not int:
            answer: bool | None = _method(leaf, "cute_decide", question)(question, a, b)
            if answer is not NotImplemented:
                return answer
    raise refusal("leaf-operands", operation=question, a=a, b=b)


def _derives(x: object) -> bool:
    """Tell whether x is of a class derived from int, whose numbers count as ints."""
    return x.__class__ is not int and x.__class__ is not bool and isinstance(x, int)


_ON_INTS: dict[str, Callable[[Leaf, Leaf], Any]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "mod": mod,
    "min": min_,
    "same": same,
    "less": less,
    "divides": divides,
}


def _method(x: object, name: str, operation: str) -> Callable[..., Any]:
    """Return the protocol's method of x; refuse anything but a leaf, also NumPy integers."""
    method = getattr(x, name, None)
    if method is None:
        raise refusal("leaf-type", operation=operation, value=x, also="")
    return method  # type: ignore[no-any-return]
