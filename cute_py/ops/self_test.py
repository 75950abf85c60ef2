"""Self-tests for `cute-py doctor`: a small kernel on the emulator, compiled, and on a GPU."""

from __future__ import annotations

import re
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.codegen.driver import driver
from cute_py.errors import CuteError

if TYPE_CHECKING:
    from cute_py.dtypes.table import Array
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


# -- memory of a GPU without torch or CuPy


class DeviceArray:
    """A copy of a NumPy array in the memory of the current device, freed at the end of the block.

    Refused (`launch-status`) where the driver reports an error; nothing stays allocated then.
    """

    def __init__(self, array: Array) -> None:
        """Copy the array to the device; make one the current one by `driver().inside`."""
        self.driver, self.host = driver(), np.ascontiguousarray(array)
        self.shape, self.dtype, self.strides = self.host.shape, array.dtype, self.host.strides
        # the driver has no memory of 0 bytes
        self.address = int(self.driver.call("cuMemAlloc", max(1, self.host.nbytes)))
        try:
            self._copy("cuMemcpyHtoD", self.address, self.host.ctypes.data)
        except CuteError:
            self.free()
            raise

    def _copy(self, function: str, to: int, out: int) -> None:
        if self.host.nbytes:
            self.driver.call(function, to, out, self.host.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": self.strides,
            "data": (self.address, False),
            "version": 3,
        }

    def to_host(self) -> Array:
        """Return the elements as a NumPy array, after all work is done."""
        found = np.empty_like(self.host)
        self.driver.call("cuCtxSynchronize")
        self._copy("cuMemcpyDtoH", found.ctypes.data, self.address)
        return found

    def free(self) -> None:
        """Free the memory, and ignore the driver's status: an earlier error says more."""
        self.driver.raw.cuMemFree(self.address)

    def __enter__(self) -> DeviceArray:
        return self

    def __exit__(self, *error: object) -> None:
        self.free()
