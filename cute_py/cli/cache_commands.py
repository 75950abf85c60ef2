"""`cute-py cache`: what the cache of compiled kernels holds, and how to empty it."""

from __future__ import annotations

import sys

from cute_py.errors import CuteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction

REFUSED = 2  # exit code


def add_commands(commands: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command `cache`."""
    command = commands.add_parser("cache", help="tell what the cache of compiled kernels holds")
    command.set_defaults(run=_cache)
    command.add_argument("--clear", action="store_true", help="remove all files of the cache")


def _cache(given: Namespace) -> int:
    from cute_py.codegen.cache.files import place, require_private

    try:
        if place().exists():
            require_private(place())
        for label, text in _cleared() if given.clear else _held():
            print(f"{label:<8} {text}")
    except CuteError as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


def _held() -> list[tuple[str, object]]:
    from cute_py.codegen.cache.files import ENTRY, is_on, kept, limit, place

    files = kept()
    kernels = sum(file.path.suffix == ENTRY for file in files)
    most = f"{limit()} bytes"
    return [
        ("folder", place()),
        ("entries", f"{kernels} kernels, {len(files)} files in all"),
        ("bytes", sum(file.size for file in files)),
        ("limit", most if is_on() else f"{most}; off, by CUTE_PY_CACHE=0"),
    ]


def _cleared() -> list[tuple[str, object]]:
    from cute_py.codegen.cache.files import clear, place

    count, size = clear()
    return [("folder", place()), ("removed", f"{count} files, {size} bytes")]
