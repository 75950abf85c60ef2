"""Files of arrays: read without unpickling, written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.errors import CuteError, refusal

if TYPE_CHECKING:
    from types import TracebackType

    from cute_py.dtypes.table import Array


SHORT = "the file is shorter than its header says"


def header(path: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type of the array in a .npy file, without reading the array."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise _unread(path, error.strerror or "cannot be read") from None
    if (odd := _odd(found.st_mode)) is not None:
        raise _unread(path, f"{odd}, no plain file")
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0
            if version > (1, 0):
                read = np.lib.format.read_array_header_2_0
            shape, _fortran, kind = read(file)
            rest = found.st_size - file.tell()
    except OSError as error:
        raise _unread(path, error.strerror or "cannot be read") from None
    except Exception:  # the parser of a broken header raises what Python's tokenizer does, and more
        raise _unread(path, "not an array file") from None
    if not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise _unread(path, "not an array file")
    if kind.hasobject:
        raise _unread(path, "an array of Python objects, which is never unpickled")
    if prod(shape) * kind.itemsize > rest:
        raise _unread(path, SHORT)
    return shape, kind


def _odd(mode: int) -> str | None:
    """Return what is at a path that is neither a plain file nor a folder, else None."""
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    kinds |= dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device")
    return kinds.get(stat.S_IFMT(mode))


def load(path: str) -> Array:
    """Return the array in a .npy file."""
    header(path)
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except OSError as error:
        raise _unread(path, error.strerror or "cannot be read") from None
    except (ValueError, EOFError):
        raise _unread(path, SHORT) from None


def _unread(path: str, reason: str) -> CuteError:
    return refusal("cli-npy", operation="gemm", path=path, reason=reason)


class Replacement:
    """`with Replacement(path) as file: file.save(array)` puts a file in place in one step.

    The new file is made next to the old one when the block begins, so that a path that cannot be
    written is refused at once; without `save`, nothing is left behind. A link stays: the file that
    it leads to is replaced, and keeps its permissions. What is no plain file is refused.
    """

    def __init__(self, path: str) -> None:
        self.path, self.saved = path, False
        self.target = os.path.realpath(path)

    def __enter__(self) -> Replacement:
        self.mode = self._mode()
        try:
            folder = os.path.dirname(self.target)
            self.file, self.temporary = tempfile.mkstemp(prefix=".cute-py.", dir=folder)
        except OSError as error:
            raise self._refused(error.strerror) from None
        return self

    def _mode(self) -> int:
        """Return the permissions of the file; refuse what cannot be replaced by a plain file."""
        if not os.path.basename(self.path) or os.path.isdir(self.path):
            raise self._refused("Is a directory" if self.path else "an empty name")
        try:
            mode = os.stat(self.path).st_mode
        except FileNotFoundError:
            return 0o666 & ~_umask()
        except OSError as error:
            raise self._refused(error.strerror) from None
        if (odd := _odd(mode)) is not None:
            raise refusal("cli-odd-file", operation="-o", path=self.path, kind=odd)
        if not os.access(self.path, os.W_OK):
            raise self._refused("Permission denied")
        return stat.S_IMODE(mode)

    def save(self, array: Array) -> None:
        """Write an array and put the file in place."""
        try:
            with os.fdopen(os.dup(self.file), "wb") as file:
                np.save(file, array, allow_pickle=False)
            os.chmod(self.temporary, self.mode)
            os.replace(self.temporary, self.target)
            self.saved = True
        except OSError as error:
            raise self._refused(error.strerror) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None
    ) -> None:
        os.close(self.file)
        if not self.saved:
            os.unlink(self.temporary)

    def _refused(self, reason: str | None) -> CuteError:
        return refusal("cli-output", operation="-o", path=self.path, reason=reason)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
