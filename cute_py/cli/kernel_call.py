"""How commands name a kernel of a file, and what it is called with."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cute_py.calls.arguments import typed
from cute_py.cli.arguments import module_of
from cute_py.cli.gemm_command import load
from cute_py.dtypes.table import dtype, tf32
from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

ZEROS = re.compile(r"(?P<shape>\d+(x\d+)*):(?P<kind>\w+)")
BRACKETS = re.compile(r"(?P<kind>\w+)\[(?P<shape>\d+(,\s*\d+)*)\]")
NUMBER = re.compile(r"-?\d+(\.\d*)?")
WORD = re.compile(r"[^\s\[]+\[[^\]]*\]|\S+")  # blanks inside of brackets part no words


def add_call(command: ArgumentParser) -> None:
    """Add the arguments that name a kernel and what it is called with."""
    command.add_argument(
        "kernel",
        metavar="FILE.py:KERNEL",
        help="a kernel of a file, or a function of it that returns a kernel and its arguments",
    )
    command.add_argument(
        "arguments",
        metavar="ARGUMENT",
        nargs="*",
        help="of the kernel: FILE.npy, an array of zeros (64x32:f16 or f16[64,32]), or a number",
    )
    command.add_argument(
        "--args", metavar="TEXT", default="", help="more of them, with blanks between"
    )


def call_of(given: Namespace) -> tuple[Any, ...]:
    """Return the kernel that a command is given, and its arguments."""
    texts = [*given.arguments, *WORD.findall(given.args)]
    kernel, *more = _found(given, bool(texts))
    return kernel, *more, *[_argument(text, given.command) for text in texts]


def _found(given: Namespace, with_arguments: bool) -> tuple[Any, ...]:
    """Return the kernel that is named, and the arguments that come with it."""
    text = given.kernel
    path, _, name = text.rpartition(":")
    if not path or not Path(path).is_file():
        raise _refused(given, f"no file {path or text}")
    module = module_of(path)
    if module is None:
        raise _refused(given, f"{path}, which is no file of Python")
    held = getattr(module, name, None)
    if hasattr(held, "leaves"):
        return (held,)
    if with_arguments or not callable(held):
        raise _refused(given, f"{name}, which is no kernel of {path}")
    made = held()
    if not isinstance(made, tuple) or not made or not hasattr(made[0], "leaves"):
        raise _refused(given, f"{name}, which returns no kernel and its arguments")
    return made


def _argument(text: str, command: str) -> Any:
    """Return an argument that a text names."""
    zeros = ZEROS.fullmatch(text) or BRACKETS.fullmatch(text)
    if zeros is not None:
        kind, extents = dtype(zeros["kind"]), re.findall(r"\d+", zeros["shape"])
        array = np.zeros(tuple(map(int, extents)), kind.numpy)
        return typed(array, kind) if kind is tf32 else array
    if NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return load(text, command)


def _refused(given: Namespace, what: str) -> Exception:
    command = given.command
    return refusal("cli-kernel", operation=command, command=command, given=what)
