"""`cute-py check-orders FILE.py:KERNEL`: whether a kernel is well in every order of its threads."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cute_py.calls.arguments import typed
from cute_py.cli.arguments import count, module_of, real
from cute_py.cli.gemm_command import WRONG, load
from cute_py.dtypes.table import dtype, tf32
from cute_py.emulate.orders.check import check_orders
from cute_py.errors import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

ZEROS = re.compile(r"(\d+(?:x\d+)*):(\w+)")
NUMBER = re.compile(r"-?\d+(\.\d*)?")


def add_check_orders(command: ArgumentParser) -> None:
    """Add the arguments of `check-orders`."""
    command.add_argument(
        "kernel",
        metavar="FILE.py:KERNEL",
        help="a kernel of a file, or a function of it that returns a kernel and its arguments",
    )
    command.add_argument(
        "arguments",
        metavar="ARGUMENT",
        nargs="*",
        help="of the kernel: FILE.npy, an array of zeros (64x32:f16), or a number",
    )
    command.add_argument("--most", type=count, default=1000, help="the most runs (1000)")
    command.add_argument("--seconds", type=real, default=60, help="no run begins after them (60)")
    command.add_argument(
        "--resident", type=count, metavar="N", help="blocks that run at a time (as on an H100)"
    )
    command.set_defaults(run=_run)


def _run(given: Namespace) -> int:
    kernel, *more = _found(given.kernel, bool(given.arguments))
    arguments = [*more, *map(_argument, given.arguments)]
    found = check_orders(
        kernel, *arguments, most=given.most, seconds=given.seconds, resident=given.resident
    )
    print(found)
    return 0 if found.proved else WRONG


def _found(text: str, with_arguments: bool) -> tuple[Any, ...]:
    """Return the kernel that a text names, and the arguments that come with it."""
    path, _, name = text.rpartition(":")
    if not path or not Path(path).is_file():
        raise _refused(text, f"no file {path or text}")
    module = module_of(path)
    if module is None:
        raise _refused(text, f"{path}, which is no file of Python")
    held = getattr(module, name, None)
    if hasattr(held, "leaves"):
        return (held,)
    if with_arguments or not callable(held):
        raise _refused(text, f"{name}, which is no kernel of {path}")
    made = held()
    if not isinstance(made, tuple) or not made or not hasattr(made[0], "leaves"):
        raise _refused(text, f"{name}, which returns no kernel and its arguments")
    return made


def _argument(text: str) -> Any:
    """Return an argument that a text names."""
    zeros = ZEROS.fullmatch(text)
    if zeros is not None:
        kind = dtype(zeros[2])
        array = np.zeros(tuple(map(int, zeros[1].split("x"))), kind.numpy)
        return typed(array, kind) if kind is tf32 else array
    if NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return load(text, "check-orders")


def _refused(text: str, given: str) -> Exception:
    return refusal("cli-kernel", operation="check-orders", given=given, text=text)
