"""How the commands read their arguments: the parser, and the types of numbers."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from cute_py.errors import suggestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Callable
    from typing import Any, NoReturn

MOST = 2**31 - 1  # a size, as a grid of a GPU counts them


class _Lines(RawDescriptionHelpFormatter):
    """Keeps the lines of examples, and each command and its help in one line."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._action_max_length = 16


class Parser(ArgumentParser):
    """A parser that keeps the lines of its examples, and says what an unknown word may mean."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": _Lines} | options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse what is left: here, since the parser of a command knows its options."""
        given, rest = super().parse_known_args(args, namespace)
        if rest:
            known = sorted(self._option_string_actions)
            hint = suggestion(rest[0].partition("=")[0], known) or f"{self.prog} --help lists them"
            self.error(f"given {rest[0]!r}; required: an argument of {self.prog}; fix: {hint}")
        return given, rest

    def _check_value(self, action: Action, value: Any) -> None:
        """Refuse what is not among the choices; argparse calls this."""
        known = [str(each) for each in action.choices or ()]
        if action.choices is None or value in known:
            return
        hint = suggestion(str(value), known) or "choose one of these"
        name = action.metavar or "/".join(action.option_strings)
        self.error(f"{name}: given {value!r}; required: one of {', '.join(known)}; fix: {hint}")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write a message; argparse would hide that it cannot be written."""
        stream = file or sys.stderr
        if message and stream is not None:
            stream.write(message)

    def error(self, message: str) -> NoReturn:
        """Print the usage and a message in one line to the standard error; exit with 2."""
        super().error(" ".join(message.split()))


def whole(least: int, most: int | None = MOST) -> Callable[[str], int]:
    """Return the type of an option: whole numbers from `least` to `most` (None: without end).

    >>> whole(1)("12")
    12
    """
    limit = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            shown = text if len(text) <= 40 else f"{text[:40]}..."
            required = f"a whole number {limit}"
            raise ArgumentTypeError(
                f"given {shown!r}; required: {required}; fix: write {least + 8}, for example"
            )
        return value

    return read


count, extent = whole(1), whole(0)


def real(text: str) -> float:
    """Return a number; the type of an option."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(
            f"given {text!r}; required: a number; fix: write 0.5, for example"
        ) from None


def module_of(path: str) -> Any:
    """Return the module that a file of Python holds, run anew; None where it is no such file. Its
    neighbours are found first while it runs, and last afterwards: one named as a module of the
    standard library hides that from nobody else.
    """
    spec = spec_from_file_location(Path(path).stem, path) if Path(path).is_file() else None
    if spec is None or spec.loader is None:
        return None
    folder, module = str(Path(path).parent), module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
        sys.path.append(folder)
    return module
