"""What the commands share: refusals, counts, JSON, and writing to a file or the terminal."""

from __future__ import annotations

import sys

from cute_py.errors import refusal

REFUSED = 2  # the exit code


def refuse(message: str) -> int:
    """Print a refusal to the standard error; return the exit code."""
    print(message, file=sys.stderr)
    return REFUSED


def count(text: str) -> int:
    """Return the number of rows or columns in `text`; argparse's refusal names this function."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def as_json(data: object) -> str:
    """Return data as a line of JSON; what JSON does not know as text."""
    import json

    return json.dumps(data, default=str) + "\n"


def write(text: str, path: str | None) -> None:
    """Write a text to a file, or without a path to the standard output."""
    if path is None:
        sys.stdout.write(text)
        return
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise refusal("cli-output", operation="-o", path=path, reason=error.strerror) from None
