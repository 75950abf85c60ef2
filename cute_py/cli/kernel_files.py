"""Kernels of files, and their arguments, as the commands take them."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np

from cute_py.calls.arguments import typed
from cute_py.cli.gemm_command import load
from cute_py.dtypes.table import dtype, tf32
from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KERNEL = "a kernel of a file, or a function of it that returns a kernel and its arguments"
ARGUMENTS = "FILE.npy, an array of zeros (f16[64,32] or 64x32:f16), or a number"
ZEROS = re.compile(r"(?P<shape>\d+(?:x\d+)*):(?P<kind>\w+)")
BRACKETS = re.compile(r"(?P<kind>\w+)\[(?P<shape>\d+(?:,\s*\d+)*)\]")
NUMBER = re.compile(r"-?\d+(\.\d*)?")


def kernel_of(text: str, command: str, with_arguments: bool) -> tuple[Any, ...]:
    """Return the kernel that a text names, and the arguments that come with it.

    Args:
        text: FILE.py:NAME.
        command: for errors.
        with_arguments: whether arguments follow, so that the name is that of a kernel.

    """
    path, _, name = text.rpartition(":")
    if not path or not Path(path).is_file():
        raise _refused(command, f"no file {path or text}")
    spec = spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise _refused(command, f"{path}, which is no file of Python")
    sys.path.insert(0, str(Path(path).parent))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    held = getattr(module, name, None)
    if hasattr(held, "leaves"):
        return (held,)
    if with_arguments or not callable(held):
        raise _refused(command, f"{name}, which is no kernel of {path}")
    made = held()
    if not isinstance(made, tuple) or not made or not hasattr(made[0], "leaves"):
        raise _refused(command, f"{name}, which returns no kernel and its arguments")
    return made


def argument_of(text: str, command: str) -> Any:
    """Return an argument that a text names.

    >>> argument_of("f16[4,8]", "layouts").shape, argument_of("3", "layouts")
    ((4, 8), 3)
    """
    zeros = ZEROS.fullmatch(text) or BRACKETS.fullmatch(text)
    if zeros is not None:
        kind, extents = dtype(zeros["kind"]), re.findall(r"\d+", zeros["shape"])
        array = np.zeros(tuple(map(int, extents)), kind.numpy)
        return typed(array, kind) if kind is tf32 else array
    if NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return load(text, command)


def _refused(command: str, given: str) -> Exception:
    return refusal("cli-kernel", operation=command, command=command, given=given)
