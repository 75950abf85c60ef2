"""Files of arrays, read without unpickling."""

from __future__ import annotations

import os
import stat
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.errors import CuteError, refusal

if TYPE_CHECKING:
    from cute_py.dtypes.table import Array


ODD = {  # what is at a path that is neither a plain file nor a folder
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
SHORT = "the file is shorter than its header says"


def header(path: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type of the array in a .npy file, without reading the array."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise _unread(path, error.strerror or "cannot be read") from None
    if stat.S_IFMT(found.st_mode) in ODD:
        raise _unread(path, f"{ODD[stat.S_IFMT(found.st_mode)]}, no plain file")
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
