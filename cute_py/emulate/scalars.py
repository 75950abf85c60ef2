"""Scalars and conditions of a plan as functions of a cohort.

The text of an expression is compiled once. What stands in it of thread, block and sizes alone is
computed once for each span; only the rest is computed again where loop variables change.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.emulate.integers import ceil_div, floor, greatest, least, rest, wrapped
from cute_py.emulate.spans import Cohort, Span, Value
from cute_py.plan.conditions import Compare, Cond, Logic, Not, Reg, Scalar

if TYPE_CHECKING:
    from cute_py.emulate.spans import Array

Evaluated = Callable[[Cohort], Value]


FUNCTIONS = {"min": least, "max": greatest, "ceil_div": ceil_div, "floor": floor, "rest": rest}


class Statics:
    """Expressions in thread, block and parameters, each compiled once; values are kept by span.

    `symbols` gives a symbol's values for all threads of the batch: an int, or an array with axes
    block, warp, lane of which those may be 1 that it does not depend on.
    """

    def __init__(self, symbols: dict[str, Value]) -> None:
        """Keep the symbols."""
        self.symbols = symbols
        self.numbers: dict[str, int] = {}
        self.codes: list[Any] = []

    def number(self, text: str) -> int:
        """Return the number of an expression."""
        if text not in self.numbers:
            self.numbers[text] = len(self.codes)
            self.codes.append(compile(text, "<scalar>", "eval"))
        return self.numbers[text]

    def value(self, number: int, span: Span) -> Value:
        """Return the value of an expression for the threads of a span."""
        found = span.statics.get(number)
        if found is None:
            env = {name: span.pick(value) for name, value in self.symbols.items()}
            found = span.statics[number] = self._evaluated(number, env)
        return found

    def _evaluated(self, number: int, env: dict[str, Value]) -> Value:
        code = self.codes[number]
        return _in_words(lambda **env: eval(code, dict(FUNCTIONS), env), env)


def _in_words(call: Callable[..., Value], env: dict[str, Value]) -> Value:
    """Return a function of integers, wrapped to 64 bits; NumPy refuses to mix longer ones in."""
    try:
        return wrapped(call(**env))
    except OverflowError:
        found = call(**{name: np.asarray(value, np.int64) for name, value in env.items()})
        return found if isinstance(found, np.ndarray) else int(found)


class Expression:
    """A scalar, compiled. `names`: the symbols that change between two evaluations."""

    __slots__ = ("args", "call", "names", "numbers", "statics", "value")

    def __init__(self, statics: Statics, text: str) -> None:
        """Compile the text."""
        self.statics = statics
        self.value: int | None = None
        tree = ast.parse(text, mode="eval").body
        hoist = _Hoist(statics)
        tree = hoist.visit(_Divisions().visit(tree))
        self.names = tuple(sorted(hoist.dynamic))
        self.numbers = tuple(hoist.numbers)
        self.args = (*self.names, *(f"_{n}" for n in self.numbers))
        self.call = eval(f"lambda {', '.join(self.args)}: {ast.unparse(tree)}", dict(FUNCTIONS))

    def __call__(self, c: Cohort) -> Value:
        """Return the value."""
        env, span, value = c.env, c.span, self.statics.value
        statics = [value(n, span) for n in self.numbers]
        given = [*[env[name] for name in self.names], *statics]
        try:
            return wrapped(self.call(*given))
        except OverflowError:
            return _in_words(self.call, dict(zip(self.args, given, strict=True)))


class Number:
    """A scalar that is a number."""

    __slots__ = ("names", "value")

    def __init__(self, value: int) -> None:
        """Keep it."""
        self.value: int | None = value
        self.names: tuple[str, ...] = ()

    def __call__(self, c: Cohort) -> Value:
        """Return the value."""
        return self.value


class _Divisions(ast.NodeTransformer):
    """Write // and % as calls, which see 64 bits of what they divide."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        name = {ast.FloorDiv: "floor", ast.Mod: "rest"}.get(type(node.op))
        return ast.Call(ast.Name(name), [node.left, node.right], []) if name else node


class _Hoist(ast.NodeTransformer):
    """Replace maximal static parts by names `_n`; collect the terms of a sum first."""

    def __init__(self, statics: Statics) -> None:
        self.statics = statics
        self.dynamic: set[str] = set()
        self.numbers: list[int] = []

    def visit(self, node: ast.AST) -> Any:  # noqa: ANN401
        names = _names(node)
        if names and names <= self.statics.symbols.keys():
            return self.static(node)
        if isinstance(node, ast.Name):
            self.dynamic.add(node.id)
            return node
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            return self.sum(node)
        if isinstance(node, ast.Call):
            node.args = [self.visit(arg) for arg in node.args]
            return node
        return self.generic_visit(node)

    def static(self, node: ast.AST) -> ast.Name:
        number = self.statics.number(ast.unparse(node))
        if number not in self.numbers:
            self.numbers.append(number)
        return ast.Name(f"_{number}")

    def sum(self, node: ast.BinOp) -> ast.expr:
        terms = _terms(node, 1)
        fixed = [t for t in terms if _names(t[1]) <= self.statics.symbols.keys()]
        loose = [t for t in terms if not _names(t[1]) <= self.statics.symbols.keys()]
        result: ast.expr | None = None
        if any(_names(term) for _, term in fixed):
            total: ast.expr = ast.Constant(0)
            for sign, term in fixed:
                total = ast.BinOp(total, ast.Add() if sign > 0 else ast.Sub(), term)
            result = self.static(total)
        else:
            loose = loose + fixed
        for sign, term in loose:
            part = self.visit(term)
            if result is None:
                result = part if sign > 0 else ast.UnaryOp(ast.USub(), part)
            else:
                result = ast.BinOp(result, ast.Add() if sign > 0 else ast.Sub(), part)
        assert result is not None
        return result


def _names(node: ast.AST) -> set[str]:
    called = {n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and _named(n)}  # type: ignore[attr-defined]
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - called


def _named(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name)


def _terms(node: ast.expr, sign: int) -> list[tuple[int, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        right = sign if isinstance(node.op, ast.Add) else -sign
        return _terms(node.left, sign) + _terms(node.right, right)
    return [(sign, node)]


def scalar(statics: Statics, x: Scalar) -> Expression | Number:
    """Return a scalar as a function of a cohort."""
    if isinstance(x, int | np.integer):
        return Number(int(x))
    text = str(x)
    try:
        return Number(int(text))
    except ValueError:
        return Expression(statics, text)


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


def _fold(both: Any, values: list[Value], test: str) -> Value:  # noqa: ANN401
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
