"""The cache folder: atomic writes, permissions, the size limit and eviction."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from glob import escape, glob
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cute_py.errors import CuteError, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
PRIVATE = 0o700  # code runs from here, so only its owner may write
OTHERS = stat.S_IWGRP | stat.S_IWOTH
KERNELS, SOURCES, TUNED = "kernels", "sources", "tuned"
PART = ".part"  # the suffix of a file that is being written
TRIES = 20  # while another process clears the cache
DEFAULT = "1G"
ENTRY = ".kernel"
LONGEST = 48  # characters of the name of a file: systems take 255 bytes
ABANDONED = 3600  # seconds after which a part is abandoned
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def is_on() -> bool:
    """Return whether the cache is on: `CUTE_PY_CACHE=0` turns it off."""
    return os.environ.get("CUTE_PY_CACHE") != "0"


def place() -> Path:
    """Return the path of the cache folder: `$CUTE_PY_CACHE_DIR`, or in the user's cache folder.

    The folder need not exist.
    """
    given = os.environ.get("CUTE_PY_CACHE_DIR")
    if given:
        return Path(given).absolute()
    try:
        return _user_caches().absolute() / "cute_py"
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir(), f"cute_py-{_user()}")


def _user_caches() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _user() -> int:
    """Return the number of this user; 0 on Windows, where folders of a user are private."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def folder(inner: str) -> Path:
    """Return a folder in the cache folder; both are created with mode 0700 if missing.

    The inner folder is made private if it is not. Raises CuteError if the cache folder belongs to
    another user, if others can write to it, and if no folder can be created.
    """
    try:
        return _until_it_stays(lambda: _folder(inner))
    except OSError as error:
        raise unusable(error.strerror) from None


def _folder(inner: str) -> Path:
    whole = place()
    whole.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    require_private(whole)
    _make_private(whole / inner)
    return whole / inner


def _until_it_stays(work: Callable[[], T]) -> T:
    """Retry work that another process interrupts by clearing the cache."""
    for _ in range(TRIES):
        try:
            return work()
        except FileNotFoundError:
            continue
    return work()


def require_private(whole: Path) -> None:
    """Refuse the cache folder if anyone else can write to it; it may hold other files too."""
    found = whole.stat()
    if found.st_uid != _user():
        raise unusable("it belongs to another user")
    if found.st_mode & OTHERS and os.name == "posix":
        raise unusable("others can write to it")


def _make_private(path: Path) -> None:
    path.mkdir(mode=PRIVATE, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != _user():
        raise unusable(f"{path.name} in it is not a folder of this user")
    if stat.S_IMODE(found.st_mode) != PRIVATE:
        path.chmod(PRIVATE)


def unusable(reason: str | None) -> CuteError:
    """Return the refusal of the cache folder."""
    return refusal("cache-folder", operation="cache", path=place(), reason=reason)


_warned: set[str] = set()


def warn_once(error: CuteError) -> None:
    """Warn that the cache is not used, once per process."""
    if error.code not in _warned:
        _warned.add(error.code)
        warnings.warn(f"the cache on disk is not used: {error}", RuntimeWarning, stacklevel=2)


# -- files


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: to a temporary file next to it, which is then renamed."""
    _until_it_stays(lambda: _write(path, data))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=PART)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_own(path: Path) -> bytes | None:
    """Return the bytes of a file; b"" unless it is a regular file that only this user can write.

    Returns None if the file is missing or cannot be read now.
    """
    try:
        handle = os.open(path, _READ)
    except OSError as error:
        return b"" if error.errno in _FOREIGN else None
    try:
        return _read(handle)
    except OSError:
        return None
    finally:
        os.close(handle)


_READ = os.O_RDONLY
for _name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):  # if the system has them
    _READ |= getattr(os, _name, 0)
_FOREIGN = (errno.ELOOP, errno.EMLINK, errno.ENXIO)  # a link, here and on BSD; a socket


def _read(handle: int) -> bytes:
    found = os.fstat(handle)
    shared = found.st_uid != _user() or (found.st_mode & OTHERS and os.name == "posix")
    if shared or not stat.S_ISREG(found.st_mode):
        return b""
    with os.fdopen(handle, "rb", closefd=False) as file:
        return file.read()


def source_file(name: str, text: str) -> Path:
    """Return the file with a kernel's source; its folder is named by the hash of the source.

    The path is the same if the file cannot be written; a warning says so once.
    """
    path, data = _of_source(name, text)
    if is_on():
        try:
            folder(SOURCES)
            _until_it_stays(lambda: _keep(path, data))
        except CuteError as error:
            warn_once(error)
        except OSError as error:
            warn_once(unusable(error.strerror))
    return path


def keep_source(name: str, text: str) -> None:
    """Write a kernel's source if it is missing, or mark it as used; ignore failures."""
    with suppress(OSError, CuteError):
        folder(SOURCES)
        _until_it_stays(lambda: _keep(*_of_source(name, text)))


def _of_source(name: str, text: str) -> tuple[Path, bytes]:
    data = text.encode()
    short = name[:LONGEST]
    return place() / SOURCES / sha256(data).hexdigest()[:16] / f"{short}.py", data


def _keep(path: Path, data: bytes) -> None:
    """Write a file, or mark it as used if it already has the data."""
    if read_own(path) == data:
        os.utime(path)
    else:
        write_whole(path, data)


# -- size limit and eviction


def limit() -> int:
    """Return the size limit of the cache (bytes): `CUTE_PY_CACHE_SIZE`, or 1G."""
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


# Nothing else is ever removed: the user may have other files in the folder.
_HEX = "[0-9a-f]"
_SOURCE = f"{SOURCES}/{_HEX * 16}"
_PATTERNS = (
    f"{KERNELS}/{_HEX * 64}{ENTRY}",
    f"{KERNELS}/.*{PART}",
    f"{TUNED}/{_HEX * 64}{ENTRY}",
    f"{TUNED}/.*{PART}",
    f"{_SOURCE}/*.py",
    f"{_SOURCE}/.*{PART}",
)


def kept() -> list[Kept]:
    """Return the files of the cache, the least recently used first; parts are among them."""
    found = []
    for path in [path for pattern in _PATTERNS for path in _found(pattern)]:
        try:
            about = path.lstat()
        except OSError:  # removed in the meantime
            continue
        found.append(Kept(about.st_mtime, path, about.st_size))
    return sorted(found)


def _found(pattern: str) -> list[Path]:
    """Return the files that exist now; Path.glob fails if one is removed during the search."""
    return [Path(name) for name in glob(f"{escape(str(place()))}/{pattern}")]


def trim(most: int) -> int:
    """Remove abandoned parts, then evict the least recently used files down to `most` bytes.

    Returns the number of removed files.
    """
    found, old = kept(), time.time() - ABANDONED
    gone = [file for file in found if file.path.suffix == PART and file.used < old]
    rest = [file for file in found if file.path.suffix != PART]
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
    """Remove all files of the cache. Returns their number and their size (bytes).

    Other files in the folder stay.
    """
    found = kept()
    for file in found:
        remove(file.path)
    for path in _found(_SOURCE):
        _remove_folder(path)
    return len(found), sum(file.size for file in found)


def remove(path: Path) -> None:
    """Remove a file, and its folder if that is empty; ignore failures."""
    try:
        path.unlink(missing_ok=True)
    except OSError:  # for example, a folder with the name of a file
        shutil.rmtree(path, ignore_errors=True)
    if path.parent.parent.name == SOURCES:
        _remove_folder(path.parent)


def _remove_folder(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:  # not empty, or gone
        return
