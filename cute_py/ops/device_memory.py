"""Memory of a GPU without torch or CuPy: for a self-test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cute_py.codegen.driver import driver
from cute_py.errors import CuteError

if TYPE_CHECKING:
    from cute_py.dtypes.table import Array


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
