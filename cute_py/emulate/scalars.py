"""Scalars and conditions of a plan as functions of a cohort.

Integers are signed, of 64 bits, as on a GPU. Where all threads agree on a value it is a Python
integer, which has no end; else NumPy's int64. So a Python integer is wrapped around wherever a GPU
would see more than its lower 64 bits: in what is divided, compared, shifted and kept.

Subexpressions of thread, block and sizes alone are computed once per span; only the rest is
computed again when loop variables change.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.integers.code import called, function, tree
from cute_py.plan.conditions import Compare, Logic, Not

if TYPE_CHECKING:
    from collections.abc import Collection

    from cute_py.emulate.cohorts import Cohort
    from cute_py.emulate.spans import Array, Span, Value
    from cute_py.plan.conditions import Cond, Reg, Scalar

    Evaluated = Callable[[Cohort], Value]

BITS = 64
_LEAST, _END = -(1 << (BITS - 1)), 1 << (BITS - 1)


def wrapped(x: Value) -> Value:
    """Return the signed integer with the same lower 64 bits; arrays are int64 already.

    >>> wrapped(2**63), wrapped(-1)
    (-9223372036854775808, -1)
    """
    if isinstance(x, np.ndarray) or _LEAST <= x < _END:
        return x
    return (int(x) - _LEAST) % (1 << BITS) + _LEAST


def floor(a: Value, b: Value) -> Value:
    """Return a // b, rounded down."""
    return wrapped(wrapped(a) // wrapped(b))


def rest(a: Value, b: Value) -> Value:
    """Return a % b, with the sign of b."""
    return wrapped(a) % wrapped(b)


def least(*values: Value) -> Value:
    """Return the least, entry by entry."""
    held = [wrapped(value) for value in values]
    if any(isinstance(value, np.ndarray) for value in held):
        result = held[0]
        for value in held[1:]:
            result = np.minimum(result, value)
        return result
    return min(held)


def ceil_div(a: Value, b: Value) -> Value:
    """Return a / b, rounded up."""
    return floor(a + b - 1, b)


def _shl(a: Value, b: Value) -> Value:
    """Return a << b; 0 for counts outside of 0 to 63, as in registers."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.left_shift(*_arrays(a, b))
    return wrapped(a << b) if 0 <= b < BITS else 0


def _shr(a: Value, b: Value) -> Value:
    """Return a >> b with the sign of a; 0 or -1 for counts outside of 0 to 63."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.right_shift(*_arrays(a, b))
    return a >> (b if 0 <= b < BITS else BITS)


def _div(a: Value, b: Value) -> Value:
    """Return a // b, rounded down, and 0 for a divisor of 0."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        p, q = _arrays(a, b)
        return np.where(q == 0, 0, p // np.where(q == 0, 1, q))
    return floor(a, b) if wrapped(b) else 0


def _arrays(a: Value, b: Value) -> tuple[Value, Value]:
    return np.asarray(a, np.int64), np.asarray(b, np.int64)


BITWISE: dict[str, Callable[[Value, Value], Value]] = {
    "xor": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "shl": _shl,
    "shr": _shr,
    "div": _div,
}

# what the trees of expressions call
CALLS = {"//": "floor", "%": "rest"}
_RULES = {"min": least, "ceil_div": ceil_div, "floor": floor, "rest": rest}
FUNCTIONS = {called(name): rule for name, rule in _RULES.items()}


def _in_words(call: Callable[..., Value], given: list[Value]) -> Value:
    """Return a function of integers, wrapped to 64 bits; NumPy refuses to mix longer ones in."""
    try:
        return wrapped(call(*given))
    except OverflowError:
        found = call(*[np.asarray(value, np.int64) for value in given])
        return found if isinstance(found, np.ndarray) else int(found)


# -- expressions


class Statics:
    """Expressions in thread, block and parameters, each compiled once; values are kept by span."""

    def __init__(self, symbols: Collection[str]) -> None:
        self.symbols = frozenset(symbols)
        self.numbers: dict[str, int] = {}
        self.codes: list[tuple[Callable[..., Value], tuple[str, ...]]] = []

    def number(self, node: ast.expr) -> int:
        """Return the number of an expression."""
        key = ast.dump(node)
        if key not in self.numbers:
            self.numbers[key] = len(self.codes)
            names = tuple(sorted(_names(node)))
            self.codes.append((function(names, node, FUNCTIONS), names))
        return self.numbers[key]

    def value(self, number: int, span: Span) -> Value:
        """Return the value of an expression for the threads of a span."""
        found = span.statics.get(number)
        if found is None:
            call, names = self.codes[number]
            found = span.statics[number] = _in_words(call, [span.symbol(name) for name in names])
        return found


class Expression:
    """A scalar, compiled. `names`: the symbols that change between two evaluations."""

    __slots__ = ("call", "names", "numbers", "statics")

    def __init__(self, statics: Statics, written: ast.expr) -> None:
        self.statics = statics
        hoist = _Hoist(statics)
        moving = hoist.rest(written)
        self.names = tuple(sorted(hoist.dynamic))
        self.numbers = tuple(hoist.numbers)
        names = (*self.names, *map(str, self.numbers))
        self.call = function(names, moving, FUNCTIONS)

    def __call__(self, c: Cohort) -> Value:
        """Return the value."""
        env, span, value = c.env, c.span, self.statics.value
        given = [env[name] for name in self.names]
        given += [value(n, span) for n in self.numbers]
        return _in_words(self.call, given)


class Number:
    """A scalar that is a number."""

    __slots__ = ("names", "value")

    def __init__(self, value: int) -> None:
        self.value = value
        self.names: tuple[str, ...] = ()

    def __call__(self, c: Cohort) -> Value:
        """Return the value."""
        return self.value


class _Hoist:
    """Takes the largest static parts out of a tree, as names `0`, `1` ..., which no symbol has; the
    terms of a sum together.
    """

    def __init__(self, statics: Statics) -> None:
        self.statics = statics
        self.dynamic: set[str] = set()
        self.numbers: list[int] = []

    def rest(self, node: ast.expr) -> ast.expr:
        """Return a tree without its static parts; trees are shared, so that none is changed."""
        names = _names(node)
        if names and names <= self.statics.symbols:
            return self.static(node)
        if isinstance(node, ast.Name):
            self.dynamic.add(node.id)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            return self.sum(node)
        elif isinstance(node, ast.BinOp):
            return ast.BinOp(self.rest(node.left), node.op, self.rest(node.right))
        elif isinstance(node, ast.UnaryOp):
            return ast.UnaryOp(node.op, self.rest(node.operand))
        elif isinstance(node, ast.Call):
            return ast.Call(node.func, [self.rest(arg) for arg in node.args], [])
        return node

    def static(self, node: ast.expr) -> ast.Name:
        number = self.statics.number(node)
        if number not in self.numbers:
            self.numbers.append(number)
        return ast.Name(str(number), ast.Load())

    def sum(self, node: ast.BinOp) -> ast.expr:
        terms = _terms(node, 1)
        fixed = [t for t in terms if _names(t[1]) <= self.statics.symbols]
        loose = [(sign, self.rest(term)) for sign, term in terms if (sign, term) not in fixed]
        if any(_names(term) for _, term in fixed):
            return _total([(1, self.static(_total([(1, ast.Constant(0)), *fixed]))), *loose])
        return _total(loose + fixed)


def _total(terms: list[tuple[int, ast.expr]]) -> ast.expr:
    """Return the tree of a sum of terms with signs."""
    (sign, total), *rest = terms
    total = total if sign > 0 else ast.UnaryOp(ast.USub(), total)
    for sign, term in rest:
        total = ast.BinOp(total, ast.Add() if sign > 0 else ast.Sub(), term)
    return total


def _names(node: ast.expr) -> set[str]:
    """Return the names of the symbols in a tree."""
    called = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in called}


def _terms(node: ast.expr, sign: int) -> list[tuple[int, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        right = sign if isinstance(node.op, ast.Add) else -sign
        return _terms(node.left, sign) + _terms(node.right, right)
    return [(sign, node)]


def scalar(statics: Statics, x: Scalar) -> Expression | Number:
    """Return a scalar as a function of a cohort."""
    if isinstance(x, int | np.integer):
        return Number(int(x))
    return Expression(statics, tree(x, CALLS))


def of_sizes(x: Scalar) -> Callable[[dict[str, int]], int]:
    """Return an expression in sizes alone as a function of their values by name."""
    written = tree(x, CALLS)
    names = sorted(_names(written))
    call = function(names, written, FUNCTIONS)
    return lambda sizes: int(call(*[sizes[name] for name in names]))


# -- conditions

TESTS = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


class Condition:
    """A condition, compiled. `names` is None where it reads a register."""

    __slots__ = ("call", "names")

    def __init__(self, call: Evaluated, names: tuple[str, ...] | None) -> None:
        """Keep the function; what depends on thread, block and sizes alone is kept by span."""
        self.names = names
        self.call = call if names != () else self._kept(call)

    def _kept(self, call: Evaluated) -> Evaluated:
        def kept(c: Cohort) -> Value:
            found = c.span.cache.get(self)
            if found is None:
                found = c.span.cache[self] = call(c)
            return found

        return kept

    def __call__(self, c: Cohort) -> Value:
        """Return a bool, or an array."""
        return self.call(c)


def condition(statics: Statics, cond: Cond, test: Callable[[Reg], Evaluated]) -> Condition:
    """Return a condition as a function of a cohort: a bool, or an array of them.

    `test` compiles the look into a register.
    """
    if isinstance(cond, Compare):
        a, b, compare = scalar(statics, cond.a), scalar(statics, cond.b), TESTS[cond.test]
        return Condition(lambda c: compare(a(c), b(c)), tuple({*a.names, *b.names}))
    if isinstance(cond, Logic):
        terms = [condition(statics, term, test) for term in cond.terms]
        both = np.logical_and if cond.test == "and" else np.logical_or
        return Condition(lambda c: _fold(both, [t(c) for t in terms], cond.test), _union(terms))
    if isinstance(cond, Not):
        inner = condition(statics, cond.term, test)
        return Condition(lambda c: _negated(inner(c)), inner.names)
    return Condition(test(cond.reg), None)


def _union(terms: list[Condition]) -> tuple[str, ...] | None:
    names: set[str] = set()
    for term in terms:
        if term.names is None:
            return None
        names.update(term.names)
    return tuple(names)


def _fold(both: Any, values: list[Value], test: str) -> Value:
    result: Value = test == "and"
    for value in values:
        plain = isinstance(value, bool | np.bool_) or isinstance(result, bool | np.bool_)
        if plain and isinstance(value, bool | np.bool_):
            value, result = result, value
        if isinstance(result, bool | np.bool_):
            if bool(result) == (test == "and"):
                result = value
            continue
        result = both(result, value)
    return result


def _negated(value: Value) -> Value:
    return np.logical_not(value) if isinstance(value, np.ndarray) else not value


def as_lanes(value: Array | bool, mask: Array | None) -> tuple[bool, bool]:
    """Return whether a condition holds for (some, all) of the lanes that take part."""
    if not isinstance(value, np.ndarray):
        return bool(value), bool(value)
    if mask is None:
        return bool(value.any()), bool(value.all())
    return bool((mask & value).any()), not bool((mask & ~value).any())


def uniform(value: Value, mask: Array | None) -> Value:
    """Return the int that all lanes that take part agree on; the array if they do not."""
    if not isinstance(value, np.ndarray):
        return value
    seen = (
        value
        if mask is None
        else np.broadcast_to(value, np.broadcast_shapes(value.shape, mask.shape))[
            np.broadcast_to(mask, np.broadcast_shapes(value.shape, mask.shape))
        ]
    )
    if seen.size and seen.min() == seen.max():
        return int(seen.flat[0])
    return value
