"""Self-tests for `cute-py doctor`: a small kernel on the emulator, compiled, and on a GPU."""

from __future__ import annotations

import re
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.codegen.device_memory import DeviceArray
from cute_py.codegen.driver import driver

if TYPE_CHECKING:
    from cute_py.plan.plan import Plan

ROWS, COLUMNS = 33, 72  # ragged: the guards of the kernel are exercised


class SelfTestError(Exception):
    """A self-test ran, and its result is wrong."""


def emulated() -> str:
    """Copy a matrix on the emulator; return what was done. Raises if that fails."""
    from cute_py.kernels.copy import copy_elements

    start = perf_counter()
    a = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    b = np.full_like(a, np.nan)
    copy_elements(a, b)
    _require_equal(a, b)
    return f"a copy of {ROWS}x{COLUMNS}, right, {perf_counter() - start:.2f} s"


def compiled(arch: str) -> str:
    """Compile the copy for an architecture; return what came out. Raises if that fails."""
    from cute_py.codegen.build import compile

    start = perf_counter()
    found = compile(_plan(), arch)
    version = re.search(r"^\.version\s+(\S+)", found.ptx, re.MULTILINE)
    ptx = f"PTX {version.group(1)}, " if version else ""
    size = len(found.cubin)
    return f"a copy for {arch}: {ptx}cubin of {size} bytes, {perf_counter() - start:.2f} s"


def launched() -> str:
    """Copy a matrix on the first GPU and check the result. Raises if that fails."""
    from cute_py.codegen.launch.run import run

    start = perf_counter()
    a = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    with driver().inside(0), DeviceArray(a) as x, DeviceArray(np.full_like(a, np.nan)) as y:
        run(_plan(), x, y)
        _require_equal(a, y.to_host())
    return f"a copy of {ROWS}x{COLUMNS}, right, {perf_counter() - start:.2f} s"


def _plan() -> Plan:
    import cute_py as cute
    from cute_py.kernels.copy import copy_elements

    a = np.zeros((ROWS, COLUMNS), np.float32)
    return cute.trace(copy_elements, a, a.copy())


def _require_equal(a: Any, b: Any) -> None:  # arrays
    wrong = int((a != b).sum())
    if wrong:
        raise SelfTestError(f"{wrong} of {a.size} elements are wrong")
