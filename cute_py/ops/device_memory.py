"""Memory of a GPU without torch or CuPy: for a self-test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.errors import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.dtypes.table import Array


def _checked(answer: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """Return what a call of the driver gives; refuse a status that is no success."""
    if int(answer[0]):
        status = answer[0].name
        raise refusal("launch-failed", operation="self-test", status=status, launch="a copy")
    return answer[1] if len(answer) > 1 else None


@contextmanager
def current_device(number: int) -> Iterator[None]:
    """Make the primary context of a GPU the current one."""
    from cuda.bindings import driver

    _checked(driver.cuInit(0))
    device = _checked(driver.cuDeviceGet(number))
    _checked(driver.cuCtxPushCurrent(_checked(driver.cuDevicePrimaryCtxRetain(device))))
    try:
        yield
    finally:
        _checked(driver.cuCtxPopCurrent())
        _checked(driver.cuDevicePrimaryCtxRelease(device))


class DeviceArray:
    """A copy of a NumPy array in the memory of the current device, freed at the block's end."""

    def __init__(self, array: Array) -> None:
        """Copy the array to the device."""
        from cuda.bindings import driver

        self.driver, self.host = driver, np.ascontiguousarray(array)
        self.shape, self.dtype, self.strides = array.shape, array.dtype, self.host.strides
        self.address = int(_checked(driver.cuMemAlloc(array.nbytes)))
        _checked(driver.cuMemcpyHtoD(self.address, self.host.ctypes.data, array.nbytes))

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
        _checked(self.driver.cuCtxSynchronize())
        _checked(self.driver.cuMemcpyDtoH(found.ctypes.data, self.address, found.nbytes))
        return found

    def __enter__(self) -> DeviceArray:
        return self

    def __exit__(self, *error: object) -> None:
        self.driver.cuMemFree(self.address)
