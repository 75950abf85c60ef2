"""How the commands write: JSON, and text to a file or to the terminal."""

from __future__ import annotations

import json
import sys

from cute_py.errors import refusal


def as_json(data: object) -> str:
    """Return data as one line of JSON; values that JSON lacks become text."""
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
