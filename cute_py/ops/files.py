"""Files of arrays: read without unpickling, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.errors import CuteError, refusal

if TYPE_CHECKING:
    from types import TracebackType

    from cute_py.dtypes.table import Array


def header(path: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type of the array in a .npy file, without reading the array."""
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0
            if version > (1, 0):
                read = np.lib.format.read_array_header_2_0
            shape, _fortran, kind = read(file)
    except OSError as error:
        raise _unread(path, error.strerror or "cannot be read") from None
    except (ValueError, EOFError):
        raise _unread(path, "not an array file") from None
    if kind.hasobject:
        raise _unread(path, "an array of Python objects, which is never unpickled")
    return shape, kind


def load(path: str) -> Array:
    """Return the array in a .npy file."""
    header(path)
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except OSError as error:
        raise _unread(path, error.strerror or "cannot be read") from None
    except (ValueError, EOFError):
        raise _unread(path, "the file is shorter than its header says") from None


def _unread(path: str, reason: str) -> CuteError:
    return refusal("cli-npy", operation="gemm", path=path, reason=reason)


class Replacement:
    """`with Replacement(path) as file: file.save(array)` puts a file in place in one step.

    The new file is made next to the old one when the block begins, so that a path that cannot be
    written is refused at once; without `save`, nothing is left behind.
    """

    def __init__(self, path: str) -> None:
        self.path, self.saved = path, False

    def __enter__(self) -> Replacement:
        if os.path.isdir(self.path):
            raise self._refused("Is a directory")
        if os.path.exists(self.path) and not os.access(self.path, os.W_OK):
            raise self._refused("Permission denied")
        try:
            folder, name = os.path.split(os.path.abspath(self.path))
            self.file, self.temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        except OSError as error:
            raise self._refused(error.strerror) from None
        return self

    def save(self, array: Array) -> None:
        """Write an array and put the file in place."""
        try:
            with os.fdopen(os.dup(self.file), "wb") as file:
                np.save(file, array, allow_pickle=False)
            os.chmod(self.temporary, 0o666 & ~_umask())
            os.replace(self.temporary, self.path)
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
