"""Integers as code: expressions as trees (Python's `ast`), and functions compiled from trees.

An expression that is evaluated often at run time is compiled to a function once, from a tree and
never from text. Names are free: the caller binds them when it compiles the tree, so one tree works
for Python integers and for NumPy arrays.

>>> from cute_py.integers.symbols import sym
>>> from cute_py.integers.ints import ceil_div
>>> blocks = function(["M"], tree(ceil_div(sym("M"), 64)), FUNCTIONS)
>>> blocks(100)
2
"""

from __future__ import annotations

from cute_py.integers import ints
from cute_py.integers.symbol_text import Writer
from cute_py.integers.symbols import terms_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from cute_py.integers.polynomial import Symbol

    Scope = Mapping[str, object]


def called(name: str) -> str:
    """Return the name of a function in trees: it ends with a blank, so that no size has it."""
    return f"{name} "


# the functions that trees call: those that the text of an expression uses
FUNCTIONS = {called("ceil_div"): ints.ceil_div, called("min"): min}


def tree(x: object, calls: Mapping[str, str] | None = None) -> ast.expr:
    """Return the tree of an integer expression, over the names of its sizes.

    Args:
        x: an int or a SymInt.
        calls: "//" or "%" -> the name of a function to call instead of the operator; see `called`.

    The tree has `+ - * // %` and calls of `min` and `ceil_div`. A name is the declared size (8*m if
    8 divides it).

    >>> import ast
    >>> from cute_py.integers.symbols import sym
    >>> M = sym("M", multiple_of=8)
    >>> ast.unparse(tree(M // 16 * 3 - 1)), ast.unparse(tree(M % 3, {"%": "rest"}))
    ('3 * (M // 16) - 1', 'rest (M, 3)')
    """
    written: ast.expr = Writer(_Code(calls or {})).expression(terms_of(x))
    return written


def function(
    parameters: Sequence[str], body: ast.expr | list[ast.stmt], scope: Scope
) -> Callable[..., Any]:
    """Compile a function with these parameters and this body.

    Args:
        parameters: names, by position.
        body: the tree of the returned expression, or statements with their own `return`.
        scope: the values of all other names, read now: later changes have no effect.

    """
    import ast

    statements = [returned(body)] if isinstance(body, ast.expr) else body
    module = ast.fix_missing_locations(ast.Module([defined("made", parameters, statements)], []))
    found: dict[str, Any] = dict(scope)
    exec(compile(module, "<made by cute_py>", "exec"), found)
    result: Callable[..., Any] = found["made"]
    return result


# -- trees other than integers: how a function reads and compares its arguments


def variable(x: str) -> ast.expr:
    """Return the tree of a name."""
    import ast

    return ast.Name(x, ast.Load())


def constant(value: str | float | None) -> ast.expr:
    """Return the tree of a number, text, None, True or False."""
    import ast

    return ast.Constant(value)


def path(x: ast.expr | str, steps: Sequence[str]) -> ast.expr:
    """Return the tree of attribute look-ups from x; a step "()" is a call.

    >>> import ast
    >>> [ast.unparse(path("x", steps)) for steps in (("data", "ptr"), ("stride", "()"))]
    ['x.data.ptr', 'x.stride()']
    """
    import ast

    found = _named(x)
    for step in steps:
        found = call(found) if step == "()" else ast.Attribute(found, step, ast.Load())
    return found


def call(function: ast.expr | str, *arguments: ast.expr | str) -> ast.expr:
    """Return the call of a function; a text is a name."""
    import ast

    return ast.Call(_named(function), [_named(x) for x in arguments], [])


def compared(a: ast.expr | str, operator: str, b: ast.expr | str) -> ast.expr:
    """Return the comparison `a is b`, `a is not b`, `a not in b`, `a == b` or `a != b`."""
    import ast

    kinds = {"is": ast.Is, "is not": ast.IsNot, "==": ast.Eq, "!=": ast.NotEq, "not in": ast.NotIn}
    return ast.Compare(_named(a), [kinds[operator]()], [_named(b)])


def together(parts: Sequence[ast.expr]) -> ast.expr:
    """Return the tuple of the parts."""
    import ast

    return ast.Tuple(list(parts), ast.Load())


def every(tests: Sequence[ast.expr]) -> ast.expr:
    """Return the tests joined by `and`; True for none."""
    import ast

    return ast.BoolOp(ast.And(), list(tests)) if len(tests) > 1 else [*tests, constant(True)][0]


def opposite(test: ast.expr) -> ast.expr:
    """Return `not test`."""
    import ast

    return ast.UnaryOp(ast.Not(), test)


def assigned(target: str | Sequence[str], value: ast.expr | str) -> ast.stmt:
    """Return the statement that assigns a value to a name, or its parts to several."""
    import ast

    if isinstance(target, str):
        return ast.Assign([ast.Name(target, ast.Store())], _named(value))
    names: list[ast.expr] = [ast.Name(x, ast.Store()) for x in target]
    return ast.Assign([ast.Tuple(names, ast.Store())], _named(value))


def defined(
    name: str, parameters: Sequence[str], body: list[ast.stmt], defaults: Sequence[str] = ()
) -> ast.stmt:
    """Return the definition of a function; `defaults` are names, of the last parameters' values."""
    import ast

    values = [variable(x) for x in defaults]
    given = ast.arguments([], [ast.arg(x) for x in parameters], None, [], [], None, values)
    more: Any = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}  # 3.12
    return ast.FunctionDef(name, given, body, [], None, None, **more)


def returned(result: ast.expr | str, test: ast.expr | None = None) -> ast.stmt:
    """Return the statement that returns a result; with a test, only if the test is true."""
    import ast

    statement = ast.Return(_named(result))
    return statement if test is None else ast.If(test, [statement], [])


def operation(a: ast.expr | str, operator: str, b: ast.expr | str) -> ast.expr:
    """Return `a % b` or `a | b`."""
    import ast

    return ast.BinOp(_named(a), {"%": ast.Mod, "|": ast.BitOr}[operator](), _named(b))


def _named(x: ast.expr | str) -> ast.expr:
    return variable(x) if isinstance(x, str) else x


class _Code:
    """The notation that writes trees."""

    def __init__(self, calls: Mapping[str, str]) -> None:
        import ast

        self.ast, self.calls = ast, calls
        self.operators = {"//": ast.FloorDiv(), "%": ast.Mod()}

    def number(self, n: int) -> ast.expr:
        return self.ast.Constant(n)

    def size(self, symbol: Symbol) -> ast.expr:
        return self.ast.Name(symbol.name, self.ast.Load())

    def sum(self, terms: Sequence[tuple[int, ast.expr]]) -> ast.expr:
        (sign, total), *rest = terms
        if sign < 0:
            total = self.ast.UnaryOp(self.ast.USub(), total)
        for sign, term in rest:
            total = self.ast.BinOp(total, self.ast.Add() if sign > 0 else self.ast.Sub(), term)
        return total

    def product(self, factors: Sequence[ast.expr]) -> ast.expr:
        total, *rest = factors
        for factor in rest:
            total = self.ast.BinOp(total, self.ast.Mult(), factor)
        return total

    def infix(self, a: ast.expr, operator: str, b: ast.expr) -> ast.expr:
        if operator in self.calls:
            return self.function(self.calls[operator], (a, b))
        return self.ast.BinOp(a, self.operators[operator], b)

    def function(self, name: str, arguments: Sequence[ast.expr]) -> ast.expr:
        return self.ast.Call(self.ast.Name(called(name), self.ast.Load()), list(arguments), [])

    def length(self, written: ast.expr) -> int:
        return sum(1 for _ in self.ast.walk(written))
