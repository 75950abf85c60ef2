"""`Int`: an integer whose value is known only at run time.

It consists of a `SymInt`, with its divisor and bounds, and the block of the trace that made it. So
layouts accept it like a symbol. A comparison that can be proved returns a bool, any other one a
condition for `cute.when`. Uses that need a Python number, and uses outside the run-time loop or
branch that made it, are refused.
"""

from __future__ import annotations

import sys

from cute_py.errors import is_own, refusal_here
from cute_py.integers import ints
from cute_py.integers.polynomial import Symbol
from cute_py.integers.symbols import SymInt
from cute_py.layout import AbstractTensor
from cute_py.layout.basis import ScaledBasis
from cute_py.plan.conditions import (
    BITS,
    MOST,
    PROMISES,
    SCOPES,
    Compare,
    Logic,
    Not,
    Test,
    uniformity,
)
from cute_py.plan.ops.control import Let, Promise, let_bounds
from cute_py.tensor.operators import UFUNCS
from cute_py.trace import facts
from cute_py.trace.decided import decided
from cute_py.trace.numpy_words import instead_of_integers
from cute_py.trace.state import current, emit, require_choice, text_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn, TypeAlias

    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.integers.ints import Leaf
    from cute_py.plan.conditions import Cond, Scalar
    from cute_py.tensor.tensor import Tensor
    from cute_py.trace.state import Scope, Trace

    Binary: TypeAlias = Callable[["Int", object], "Int"]

_set = object.__setattr__


RUN_TIME = "<run-time"  # so begins the repr of a value that is known only at run time
_POWERS = "x * x, or 1 << n for a power of two"


class _RunTime:
    """The operations that Python cannot perform on a value known only at run time."""

    __slots__ = ()

    def _refuse(self, use: str, instead: str) -> NoReturn:
        raise refusal_here("trace-python", operation="kernel", value=self, use=use, instead=instead)

    def __bool__(self) -> bool:
        self._refuse(
            "Python's if, while, and, or, not",
            "with cute.when(condition): ... , cute.where(condition, a, b), and p&q, p|q, ~p",
        )

    def __iter__(self) -> NoReturn:
        self._refuse(
            "iteration or unpacking",
            "for k in cute.range(n); thread_idx() and block_idx() are tuples where cute.launch was "
            "given tuples",
        )

    def __getitem__(self, index: object) -> NoReturn:
        self._refuse(
            "[...]",
            "the value itself; thread_idx() and block_idx() are tuples where cute.launch was given "
            "tuples",
        )

    def __hash__(self) -> int:
        """Refuse to be looked up by the user's code; this package hashes layouts by structure."""
        if not is_own(sys._getframe(1)):
            self._refuse(
                "a set, a dict, hash() or functools.cache",
                "cute.when and ==, or cute.where(i == 3, a, b); a function that keeps no results",
            )
        return self._structure()

    def _structure(self) -> int:
        return object.__hash__(self)

    def _text(self) -> str:
        """Return the text in the plan."""
        raise NotImplementedError

    def __str__(self) -> str:
        return text_for(sys._getframe(1), self._text())

    def __format__(self, spec: str) -> str:
        return format(text_for(sys._getframe(1), self._text()), spec)

    def __array__(self, *options: object) -> NoReturn:
        self._refuse(
            "a NumPy function or index",
            "x.to(dtype), as n.to('s32') for numpy.int32(n); as an index "
            "cute.where, or an array in memory: an argument, cute.smem",
        )

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def __reduce__(self) -> NoReturn:
        self._refuse("pickle", "the plan of the kernel, which can be saved")

    def __pow__(self, other: object, modulo: object = None) -> Any:
        self._refuse("**", _POWERS)

    __rpow__ = __pow__

    def __matmul__(self, other: object) -> NoReturn:
        self._refuse("@", "cute.gemm")

    __rmatmul__ = __matmul__


_QUOTIENT = "// for integers; n.to('f32') / 2 is a float"


def _forms(op: str) -> tuple[Binary, Binary]:
    """Return an operator of a run-time integer, and its reflected form."""
    return (
        lambda self, other: decided(operate(op, self, other)),
        lambda self, other: decided(operate(op, other, self)),
    )


def _bitwise_form(kind: str) -> Binary:
    return lambda self, other: decided(_bitwise(kind, self, other))


class Int(_RunTime):
    """A run-time integer: `+ - * // % & | ^ << >>`, comparisons, and a leaf of shapes and strides.

    `scope` is the block of the trace that made it.
    """

    __slots__ = ("scope", "value")
    value: SymInt
    scope: Scope

    if TYPE_CHECKING:  # where `launch` was given tuples, `thread_idx()` is a tuple

        def __iter__(self) -> Iterator[Int]: ...  # type: ignore[override]

        def __getitem__(self, mode: object) -> Int: ...  # type: ignore[override]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Answer an operator with NumPy's numbers as Python does; refuse other functions."""
        numbers = [x.item() if getattr(x, "shape", None) == () else x for x in inputs]
        known = UFUNCS.get(ufunc.__name__)
        if known is None or method != "__call__" or any(hasattr(x, "dtype") for x in numbers):
            name = ufunc.__name__
            self._refuse(f"numpy.{name}", instead_of_integers(name))
        return known[1](*numbers)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> NoReturn:
        name = function.__name__
        self._refuse(f"numpy.{name}", instead_of_integers(name))

    def __init__(self, value: SymInt, scope: Scope) -> None:
        _set(self, "value", value)
        _set(self, "scope", scope)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Int is frozen: cannot set {name}; see cute.var for variables")

    def _text(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"{RUN_TIME} integer {self.value}>"

    __hash__ = _RunTime.__hash__

    def _structure(self) -> int:
        """Return the hash of value and scope, so that no cache outlives the scope."""
        return hash((self.value, id(self.scope)))

    # -- the integer protocol

    def cute_compute(self, op: str, a: Leaf, b: Leaf) -> Leaf:
        """Return `a op b` (`ints`)."""
        scope = scope_of(a, b)
        return _wrap(_ARITHMETIC[op](_bare(a), _bare(b)), scope)

    def cute_decide(self, question: str, a: Leaf, b: Leaf) -> bool | None:
        """Answer a question about a and b (`ints`)."""
        scope_of(a, b)
        p, q = _bare(a), _bare(b)
        answer = _QUESTIONS[question](p, q)
        return facts.decide(question, p, q) if answer is None else answer

    def cute_value(self) -> int | None:
        """Return the value if the bounds determine it."""
        return self.value.cute_value()

    def cute_assumption(self, question: str, a: Leaf, b: Leaf) -> str:
        """Return an assumption that would decide a question."""
        return self.value.cute_assumption(question, _bare(a), _bare(b))

    # -- arithmetic

    __add__, __radd__ = _forms("add")
    __sub__, __rsub__ = _forms("sub")
    __mul__, __rmul__ = _forms("mul")
    __floordiv__, __rfloordiv__ = _forms("div")
    __mod__, __rmod__ = _forms("mod")

    def __divmod__(self, other: object) -> tuple[Int, Int]:
        return decided(self // other), decided(self % other)

    def __rdivmod__(self, other: object) -> tuple[Int, Int]:
        return decided(other // self), decided(other % self)

    def __neg__(self) -> Int:
        return decided(operate("sub", 0, self))  # type: ignore[no-any-return]

    def __pos__(self) -> Int:
        return self

    def __invert__(self) -> Int:
        return decided(operate("sub", -1, self))  # type: ignore[no-any-return]

    def __abs__(self) -> Int:
        return decided(operate("sub", 0, operate("min", self, -self)))  # type: ignore[no-any-return]

    def __round__(self, digits: int | None = None) -> Int:
        if digits is not None and digits < 0:
            self._refuse("round() to tens or hundreds", "// and *")
        return self

    def __trunc__(self) -> Int:
        return self

    __floor__ = __ceil__ = conjugate = __trunc__
    numerator = real = property(__trunc__)
    denominator, imag = property(lambda self: 1), property(lambda self: 0)

    def is_integer(self) -> bool:
        """Return True, as `int.is_integer` does."""
        return True

    def as_integer_ratio(self) -> tuple[Int, int]:
        """Return the integer and 1, as `int.as_integer_ratio` does."""
        return self, 1

    def bit_length(self) -> int:
        """Return the number of bits of a known value; refuse others."""
        return self._known("bit_length()", "32 - cute.clz(x.to('u32')) for x >= 0").bit_length()

    def bit_count(self) -> int:
        """Return the number of ones among the bits of a known value; refuse others."""
        return self._known("bit_count()", "cute.popc(x.to('u32')) for x >= 0").bit_count()

    def to_bytes(self, *args: Any, **named: Any) -> bytes:
        """Return the bytes of a known value; refuse others."""
        return self._known("to_bytes()", "x.to('u32'), and cute.recast").to_bytes(*args, **named)

    def _known(self, use: str, instead: str) -> int:
        value = self.cute_value()
        if value is None:
            self._refuse(use, instead)
        return value

    def __bool__(self) -> bool:
        truth = compare("ne", self, 0)
        return truth if isinstance(truth, bool) else _RunTime.__bool__(self)

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        return decided(pow(self._known("**", _POWERS), other, modulo))

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        return decided(pow(other, self._known("**", _POWERS), modulo))

    __and__, __or__, __xor__ = map(_bitwise_form, ("and", "or", "xor"))
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: object) -> Int:
        return decided(_shift("shl", "mul", self, other))  # type: ignore[no-any-return]

    def __rshift__(self, other: object) -> Int:
        return decided(_shift("shr", "div", self, other))  # type: ignore[no-any-return]

    def __rlshift__(self, other: object) -> Int:
        return decided(_shifted("shl", other, self))  # type: ignore[no-any-return]

    def __rrshift__(self, other: object) -> Int:
        return decided(_shifted("shr", other, self))  # type: ignore[no-any-return]

    def __truediv__(self, other: Any) -> Any:
        return self._known("/", _QUOTIENT) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self._known("/", _QUOTIENT)

    def to(
        self,
        dtype: DtypeLike,
        rounding: str | None = None,
        saturate: bool = False,
        wrap: bool = False,
    ) -> Tensor:
        """Return the integer in a register of a type, for arithmetic with other registers.

        An integer that an integer type does not hold is refused, by the tracer or the emulator; one
        that a float does not hold is rounded.

        Args:
            dtype: the type.
            rounding: to floats: as of registers; None: to nearest even.
            saturate: clamp to the finite range of the type.
            wrap: keep the low bits, as many as an integer type has.

        """
        return current().record.integer(self, dtype, rounding, saturate, wrap)

    def __index__(self) -> int:
        value = self.cute_value()
        if value is None:
            self._refuse(
                "a place that needs a number (range, a list index, a shape in NumPy)",
                "cute.range(n) for a run-time loop, np.array(values), passed to the kernel, for a "
                "list that is indexed, or a compile-time argument",
            )
        return value

    def __float__(self) -> float:
        value = self.cute_value()
        if value is None:
            self._refuse("float(), math.sqrt() and the like", "x.to(dtype), cute.sqrt and the like")
        return float(value)

    def __int__(self) -> int:
        """Return a constant; refuse others by an error that is no TypeError, which "%d" hides."""
        value = self.cute_value()
        if value is None:
            raise refusal_here("trace-number", operation="kernel", value=self)
        return value

    # -- comparisons

    def __lt__(self, other: object) -> Truth:
        return _compared("lt", self, other)

    def __le__(self, other: object) -> Truth:
        return _compared("le", self, other)

    def __gt__(self, other: object) -> Truth:
        return _compared("lt", other, self)

    def __ge__(self, other: object) -> Truth:
        return _compared("le", other, self)

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]
        return _compared("eq", self, other) if _is_number(other) else False

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]
        return _compared("ne", self, other) if _is_number(other) else True


class Condition(_RunTime):
    """A condition that is known only at run time: for `cute.when`, `where` and `pred`.

    `&`, `|` and `~` combine conditions.
    """

    __slots__ = ("cond", "scope")
    cond: Cond
    scope: Scope

    def __init__(self, cond: Cond, scope: Scope) -> None:
        """Store a condition and the block of the trace that made it."""
        _set(self, "cond", cond)
        _set(self, "scope", scope)

    def _text(self) -> str:
        return str(self.cond)

    def __repr__(self) -> str:
        return f"{RUN_TIME} condition {self.cond}>"

    def __and__(self, other: object) -> Truth:
        return _joined("and", self, other)

    def __or__(self, other: object) -> Truth:
        return _joined("or", self, other)

    __rand__ = __and__
    __ror__ = __or__

    def to(self, dtype: DtypeLike) -> NoReturn:
        """Refuse: a condition is no number."""
        self._refuse("to()", "cute.where(condition, 1, 0)")

    def __invert__(self) -> Condition:
        return Condition(_negated(self.cond), self.scope)

    __hash__ = _RunTime.__hash__

    def __index__(self) -> NoReturn:
        self._refuse("a place that needs a number", "cute.where(condition, 1, 0)")

    def __int__(self) -> NoReturn:
        raise refusal_here("trace-number", operation="kernel", value=self)

    __float__ = __int__

    def __eq__(self, other: object) -> NoReturn:
        self._refuse("== or !=", "p&q, p|q, ~p: (p & q) | (~p & ~q) is true where both are equal")

    __ne__ = __eq__


def _no_number(name: str) -> Any:  # a method
    def method(self: Condition, other: object = None) -> Any:
        if not isinstance(other, AbstractTensor):
            self._refuse(
                "arithmetic or comparison", "cute.where(condition, 1, 0), and p&q, p|q, ~p"
            )
        return NotImplemented  # the reflected operator of the registers refuses it

    method.__name__ = name
    return method


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "xor", "lshift", "rshift")
_OTHERS = ("neg", "pos", "abs", "lt", "le", "gt", "ge")
for _name in (*_OTHERS, *_BINARY, *[f"r{name}" for name in _BINARY]):
    setattr(Condition, f"__{_name}__", _no_number(_name))


if TYPE_CHECKING:
    Truth = bool | Condition


# -- bare values and scopes


def _bare(x: Leaf) -> Scalar:
    return x.value if isinstance(x, Int) else x  # type: ignore[return-value]


def bare(x: object, operation: str = "kernel") -> Scalar:
    """Return x as a scalar of a plan; refuse a value of a block that has ended."""
    leaf = ints.normalize(x, operation)
    scope_of(leaf)
    return _bare(leaf)


def _wrap(value: Leaf, scope: Scope) -> Leaf:
    return Int(value, scope) if isinstance(value, SymInt) else value


def scope_of(*values: object) -> Scope:
    """Return the innermost scope that made one of the values; refuse one that has ended."""
    innermost = current().root
    for value in values:
        if isinstance(value, (Int, Condition)):
            value.scope.require_open(value)
            if value.scope.depth > innermost.depth:
                innermost = value.scope
    return innermost


# -- operations

_ARITHMETIC = {
    "add": ints.add,
    "sub": ints.sub,
    "mul": ints.mul,
    "div": ints.div,
    "mod": ints.mod,
    "min": ints.min_,
}
_QUESTIONS = {"same": ints.same, "less": ints.less, "divides": ints.divides}


_REFLECTED = (AbstractTensor, ScaledBasis)  # types with reflected operators for integers


def operate(op: str, a: object, b: object) -> Leaf:
    """Return the result of an operator of run-time integers: add sub mul div mod min."""
    if isinstance(a, _REFLECTED) or isinstance(b, _REFLECTED):
        return NotImplemented  # type: ignore[no-any-return]
    for x, other in ((a, b), (b, a)):
        if isinstance(x, float) and isinstance(other, Int):
            other._refuse("arithmetic with a float", "n.to('f32'), then * and the like")
    x, y = ints.normalize(a, op), ints.normalize(b, op)
    if op in ("div", "mod") and _of_any_sign(y):
        quotient = _let("div", x, y)
        return quotient if op == "div" else ints.sub(x, ints.mul(y, quotient))
    return _wrap(_ARITHMETIC[op](_bare(x), _bare(y)), scope_of(x, y))


def _of_any_sign(x: Leaf) -> bool:
    """Return whether the sign of a divisor is unknown."""
    return ints.less(0, x) is None and ints.less(x, 0) is not True


def _is_number(x: object) -> bool:
    """Return whether x is a number, so that a comparison with it is decided or refused."""
    return ints.is_leaf(x) or any(hasattr(x, name) for name in ("__index__", "__float__"))


def _compared(test: str, a: object, b: object) -> Truth:
    """Return a comparison of an Int; defer to the reflected operator of a tensor."""
    if isinstance(a, AbstractTensor) or isinstance(b, AbstractTensor):
        return NotImplemented  # type: ignore[no-any-return]
    return compare(test, a, b)


def compare(test: str, a: object, b: object) -> Truth:
    """Return a comparison of two integers: a bool if it is decided, else a Condition."""
    x, y = ints.normalize(a, "comparison"), ints.normalize(b, "comparison")
    scope = scope_of(x, y)
    p, q = _bare(x), _bare(y)
    known = {"lt": ints.less, "le": ints.leq, "eq": ints.same, "ne": ints.same}[test](p, q)
    if known is None and test == "le":
        above = facts.decide("less", q, p)
        known = None if above is None else not above
    elif known is None:
        known = facts.decide("less" if test == "lt" else "same", p, q)
    if known is not None:
        return known if test != "ne" else not known
    return Condition(Compare(test, p, q), scope)


def _joined(test: str, a: object, b: object) -> Truth:
    a, b = _decided(a), _decided(b)
    for x, y in ((a, b), (b, a)):
        if x is True or x is False:
            return y if x is (test == "and") else x  # type: ignore[return-value]
    if not isinstance(a, Condition) or not isinstance(b, Condition):
        return NotImplemented  # type: ignore[no-any-return]
    terms = [
        term
        for c in (a.cond, b.cond)
        for term in (c.terms if isinstance(c, Logic) and c.test == test else (c,))
    ]
    return Condition(Logic(test, tuple(dict.fromkeys(terms))), scope_of(a, b))


def _negated(cond: Cond) -> Cond:
    if isinstance(cond, Compare):
        if cond.test in ("eq", "ne"):
            return Compare({"eq": "ne", "ne": "eq"}[cond.test], cond.a, cond.b)
        return Compare({"lt": "le", "le": "lt"}[cond.test], cond.b, cond.a)
    return cond.term if isinstance(cond, Not) else Not(cond)


def _decided(x: object) -> object:
    """Return x, or a bool if x is Python's ~ of a decided comparison, or a NumPy bool."""
    if x.__class__ is int and x in (-1, -2):
        return x == -1
    return bool(x) if type(x).__name__ in ("bool_", "bool") else x


def as_condition(x: object, operation: str) -> Truth:
    """Return the argument of `when`, `where` or `pred` as a bool or a Condition."""
    x = _decided(x)
    if x is True or x is False or isinstance(x, Condition):
        return x
    test = getattr(getattr(x, "engine", None), "as_test", None)
    if test is not None:
        reg = test(x)
        return Condition(Test(reg), current().scope)
    raise refusal_here("trace-condition", operation=operation, value=x)


def _bitwise(kind: str, a: Int, b: object) -> Leaf:
    if isinstance(b, bool) or not (ints.is_leaf(b) or hasattr(b, "__index__")):
        return NotImplemented  # type: ignore[no-any-return]
    y = ints.normalize(b, kind)
    if kind == "and" and y.__class__ is int and 0 <= y < MOST and not y & (y + 1):
        return a % (y + 1)
    return _let(kind, a, y)


def _shifted(kind: str, a: object, b: Int) -> Leaf:
    """Return a number shifted by a run-time integer."""
    if isinstance(a, bool) or not hasattr(a, "__index__"):
        return NotImplemented  # type: ignore[no-any-return]
    return _let(kind, ints.normalize(a, kind), b)


def _shift(kind: str, op: str, a: Int, b: object) -> Leaf:
    if isinstance(b, AbstractTensor):
        return NotImplemented  # type: ignore[no-any-return]
    y = ints.normalize(b, kind)
    if y.__class__ is int and 0 <= y < BITS - 1:  # 2**63 does not fit the integers of a plan
        return operate(op, a, 2**y)
    return _let(kind, a, y)


# -- new run-time integers


def new_symbol(
    trace: Trace,
    name: str,
    unit: int = 1,
    low: int | None = 0,
    high: int | None = None,
    uniform: str = "block",
) -> Leaf:
    """Return the run-time integer of a name: a multiple of `unit` in [low, high], uniform in the
    threads of `uniform`.
    """
    lo = None if low is None else -(-low // unit)
    hi = None if high is None else high // unit
    if lo is not None and lo == hi:
        return lo * unit
    value = SymInt({(Symbol(name, unit, lo, hi),): unit})
    trace.symbols[name] = value
    trace.uniform[name] = uniform
    return Int(value, trace.scope)


class Promised:
    """What a kernel promises of an integer that is not computed from others: `as_int`, `var`."""

    __slots__ = ("high", "low", "uniform", "unit")

    def __init__(
        self, operation: str, low: object, high: object, multiple_of: object, uniform: str
    ) -> None:
        """Check the words and numbers of a promise."""
        self.low, self.high = (
            None if x is None else ints.as_int(ints.normalize(x, operation), operation)
            for x in (low, high)
        )
        self.unit = ints.as_int(ints.normalize(multiple_of, operation), operation)
        require_choice(uniform, PROMISES, operation)
        self.uniform = uniform
        lo, hi = (self.low or 0) if self.high is None else self.low, self.high
        none = lo is not None and hi is not None and -(-lo // max(self.unit, 1)) * self.unit > hi
        if self.unit < 1 or none:
            ends = {"low": self.low, "high": self.high, "multiple_of": self.unit}
            raise refusal_here("kernel-promise", operation=operation, **ends)

    def of(self, name: str, dtype: Dtype | None = None) -> Leaf:
        """Return the run-time integer of a name, and record the promise that it is uniform. The
        values of a type of at most 32 bits are bounds, too.
        """
        trace, low, high = current(), self.low, self.high
        if dtype is not None and (dtype.bits <= 32 or dtype.kind == "uint"):
            least, most = int(dtype.min), int(dtype.max) if dtype.bits <= 32 else None
            low = least if low is None and dtype.bits <= 32 else low
            low = low if low is None else max(low, least)
            high = most if high is None else high if most is None else min(high, most)
        scope = self.uniform if self.uniform in SCOPES else "block"
        value = new_symbol(trace, name, self.unit, low, high, scope)
        if self.uniform != "thread" and isinstance(value, Int):
            emit(Promise, value.value, self.uniform)
        return value


def choose(condition: object, a: Leaf, b: Leaf) -> Leaf:
    """Return the integer a where the condition is true, b elsewhere: `cute.where` of integers."""
    truth = as_condition(condition, "where")
    if truth is True or truth is False:
        return a if truth else b
    scope_of(truth)
    return _let("where", a, b, truth.cond)


def _let(kind: str, a: Leaf, b: Leaf, *conditions: Cond) -> Leaf:
    """Record an integer that no polynomial describes, and return it."""
    trace, operands = current(), (bare(a), bare(b))
    name = trace.integer_name()
    emit(Let, name, kind, (*conditions, *operands))
    scope = uniformity(trace.uniform, *conditions, *operands)
    return new_symbol(trace, name, 1, *let_bounds(kind, *operands), scope)
