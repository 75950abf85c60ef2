"""How much the cache may hold, how much it holds, and what goes first."""

from __future__ import annotations

import os
import re
import shutil
import time
from glob import escape, glob
from pathlib import Path
from typing import NamedTuple

from cute_py.codegen.files import KERNELS, PART, SOURCES, place
from cute_py.errors import refusal

DEFAULT = "1G"
ENTRY = ".kernel"
ABANDONED = 3600  # seconds after which nobody still writes a part
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def limit() -> int:
    """Return how much the cache may hold (bytes): `CUTE_PY_CACHE_SIZE`, or 1G."""
    text = os.environ.get("CUTE_PY_CACHE_SIZE") or DEFAULT
    found = re.fullmatch(r"([0-9]+)([KMG]?)", text.strip().upper())
    if found is None:
        raise refusal("cache-size", operation="cache", text=text)
    return int(found.group(1)) * _FACTORS[found.group(2)]


class Kept(NamedTuple):
    """A file of the cache; the least recently used sorts first."""

    used: float  # seconds since 1970
    path: Path
    size: int  # bytes


# Nothing else is ever removed: the folder may be one that the user keeps other files in.
_HEX = "[0-9a-f]"
_SOURCE = f"{SOURCES}/{_HEX * 16}"
_PATTERNS = (
    f"{KERNELS}/{_HEX * 64}{ENTRY}",
    f"{KERNELS}/.*{PART}",
    f"{_SOURCE}/*.py",
    f"{_SOURCE}/.*{PART}",
)


def kept() -> list[Kept]:
    """Return the files of the cache, the least recently used first; parts are among them."""
    found = []
    for path in [path for pattern in _PATTERNS for path in _found(pattern)]:
        try:
            about = path.lstat()
        except OSError:  # gone in between
            continue
        found.append(Kept(about.st_mtime, path, about.st_size))
    return sorted(found)


def _found(pattern: str) -> list[Path]:
    """Return what is there now; Path.glob stumbles over what goes meanwhile."""
    return [Path(name) for name in glob(f"{escape(str(place()))}/{pattern}")]


def trim(most: int) -> int:
    """Remove abandoned parts, then what was least recently used until `most` bytes are left.

    Returns how many files were removed.
    """
    files, old = kept(), time.time() - ABANDONED
    gone = [file for file in files if file.path.suffix == PART and file.used < old]
    rest = [file for file in files if file.path.suffix != PART]
    total = sum(file.size for file in rest)
    for file in rest:
        if total <= most:
            break
        total -= file.size
        gone.append(file)
    for file in gone:
        remove(file.path)
    return len(gone)


def clear() -> tuple[int, int]:
    """Remove all files of the cache; returns how many, and their size (bytes).

    What else lies in the folder is left alone.
    """
    files = kept()
    for file in files:
        remove(file.path)
    for path in _found(_SOURCE):
        _remove_folder(path)
    return len(files), sum(file.size for file in files)


def remove(path: Path) -> None:
    """Remove a file, and its folder if it has one to itself; what cannot be removed stays."""
    try:
        path.unlink(missing_ok=True)
    except OSError:  # a folder in place of a file, for one
        shutil.rmtree(path, ignore_errors=True)
    if path.parent.parent.name == SOURCES:
        _remove_folder(path.parent)


def _remove_folder(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:  # not empty, or gone
        return
