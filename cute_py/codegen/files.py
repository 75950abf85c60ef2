"""The cache folder, and files in it that are whole or not there."""

from __future__ import annotations

import os
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

PRIVATE = 0o700  # what is run from here must be written by its owner alone


def folder() -> Path:
    """Return the cache folder, made with mode 0700 if it is not there.

    It is `$CUTE_PY_CACHE_DIR`, or `cute_py` in the user's folder for caches.
    """
    given = os.environ.get("CUTE_PY_CACHE_DIR")
    place = Path(given) if given else _user_caches() / "cute_py"
    place.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    return place


def _user_caches() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that no reader ever sees a part of it: beside it first, then renamed."""
    path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def source_file(name: str, text: str) -> Path:
    """Return the file that holds a kernel's source; its folder is named after what it holds."""
    data = text.encode()
    path = folder() / "sources" / sha256(data).hexdigest()[:16] / f"{name}.py"
    if not path.exists():
        write_whole(path, data)
    return path
