"""`cute-py eval` and `functions`: the expressions of the layout algebra."""

from __future__ import annotations

import sys

from cute_py.errors import CuteError, refusal
from cute_py.expression import evaluate, functions, show
from cute_py.integers.symbols import sym
from cute_py.layout.algebra.explain import explain
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from cute_py.layout.notation.parse_tokens import Value
    from cute_py.layout.types import Leaf


def add_eval(command: ArgumentParser) -> None:
    """Add the arguments of `eval`."""
    command.set_defaults(run=_eval, marked=True)
    command.add_argument("text", metavar="EXPR", help="the expression; - reads it from the input")
    command.add_argument("--why", action="store_true", help="explain how the value is computed")
    add_symbols(command)


def add_functions(command: ArgumentParser) -> None:
    """Add the arguments of `functions`: none."""
    command.set_defaults(run=lambda given: print("\n".join(functions())))


def add_symbols(command: ArgumentParser) -> None:
    """Add the option that declares symbols."""
    command.add_argument(
        "--symbol",
        action="append",
        default=[],
        metavar="NAME",
        help="declare a symbolic size; M%%8 declares a multiple of 8",
    )


def symbols_of(declared: list[str]) -> dict[str, Leaf]:
    """Return the symbols that `--symbol` declares, by name."""
    symbols = {}
    for each in declared:
        name, _, multiple = each.partition("%")
        symbols[name] = sym(name, multiple_of=evaluate(multiple) if multiple else 1)
    return symbols


def text_of(given: Namespace) -> str:
    """Return the text that is given, or what the standard input holds."""
    if given.text != "-":
        return str(given.text)
    if sys.stdin is None:
        raise refusal("cli-stream", operation="cute-py", reason="an input that is closed")
    return sys.stdin.read()


def value_of(given: Namespace) -> Value:
    """Return the value of the expression that is given."""
    return evaluate(text_of(given), symbols_of(given.symbol))


# -- eval


def _eval(given: Namespace) -> None:
    if not given.why:
        print(show(value_of(given)))
        return
    try:
        value = value_of(given)
    except CuteError as error:
        raise type(error)(explain(error), error.code, error.facts) from None
    print(explain(value) if isinstance(value, Layout) else show(value))
