"""Memory of a GPU by the driver alone: arrays, and the copies of host tensors there.

A host tensor's memory is copied as a whole, so that views of it share one copy, which lives as long
as that memory. Source: cutlass util/device_memory.h, util/host_tensor.h.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.calls.arrays import TypedArray, imported, unwrapped
from cute_py.codegen.driver import driver
from cute_py.errors import CuteError, refusal

if TYPE_CHECKING:
    from cute_py.dtypes.table import Array


class DeviceAllocation:
    """Bytes on the current device, or on the first one, freed by `free` or when nothing refers to
    them any more (CUTLASS's DeviceAllocation).

    Attributes:
        address: of the first byte.
        nbytes: how many.
        device: the number of the GPU.

    Raises LayoutError (`launch-status`) where the driver has no such memory.
    """

    def __init__(self, nbytes: int) -> None:
        self.driver, self.nbytes = driver(), nbytes
        self.device = self.driver.device() or 0
        with self.driver.inside(self.device):  # the driver has no memory of 0 bytes
            self.address = int(self.driver.call("cuMemAlloc", max(1, nbytes)))
        self.free = weakref.finalize(self, _free, self.driver, self.device, self.address)
        self.free.atexit = False  # the driver ends before

    def copy(self, function: str, host: int) -> None:
        """Copy all bytes from or to an address of the host, after all work is done. They are there
        for all streams then: the driver returns while it still moves the last ones to the device.
        """
        to, out = (self.address, host) if function.endswith("HtoD") else (host, self.address)
        if self.nbytes:
            with self.driver.inside(self.device):
                self.driver.call("cuCtxSynchronize")
                self.driver.call(function, to, out, self.nbytes)
                self.driver.call("cuCtxSynchronize")


def _free(by: Any, device: int, address: int) -> None:
    """Free memory, and ignore the driver's status: an earlier error says more."""
    by.raw.cuCtxPushCurrent(by.primary(device))
    by.raw.cuMemFree(address)
    by.raw.cuCtxPopCurrent()


class DeviceView:
    """Elements of device memory as an array: what kernels take; `owner` keeps the memory."""

    def __init__(self, like: Array, address: int, owner: object) -> None:
        self.shape, self.dtype, self.strides = like.shape, like.dtype, like.strides
        self.address, self.owner = address, owner

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": self.strides,
            "data": (self.address, False),
            "version": 3,
        }


class DeviceArray(DeviceView):
    """A copy of a NumPy array on the device, freed at the end of a `with` block."""

    def __init__(self, array: Array) -> None:
        self.host = np.ascontiguousarray(array)
        memory = DeviceAllocation(self.host.nbytes)
        super().__init__(self.host, memory.address, memory)
        try:
            memory.copy("cuMemcpyHtoD", self.host.ctypes.data)
        except CuteError:
            memory.free()
            raise

    def to_host(self) -> Array:
        """Return the elements as a NumPy array, after all work is done."""
        found = np.empty_like(self.host)
        self.owner.copy("cuMemcpyDtoH", found.ctypes.data)  # type: ignore[attr-defined]
        return found

    def __enter__(self) -> DeviceArray:
        return self

    def __exit__(self, *error: object) -> None:
        self.owner.free()  # type: ignore[attr-defined]


# -- the copies of host tensors, by the array that owns their memory

_copies: dict[int, DeviceAllocation] = {}


def _owner(tensor: Any, operation: str) -> Array:
    """Return the array that owns the memory of a host tensor; refuse other tensors."""
    memory = getattr(tensor.engine, "memory", None)
    if tensor.space != "host" or memory is None:
        raise refusal("host-only", operation=operation, tensor=tensor)
    owner, base = memory, memory
    while base is not None:
        if isinstance(base, np.ndarray) and (base.flags.c_contiguous or base.flags.f_contiguous):
            owner = base
        base = getattr(base, "base", None)
    return owner  # type: ignore[no-any-return]


def has_gpu() -> bool:
    """Return whether there is a GPU and its driver."""
    try:
        return driver().count > 0
    except CuteError:
        return False


def on_device(tensor: Any) -> DeviceAllocation | None:
    """Return the copy of a host tensor's memory, None if there is none."""
    return _copies.get(id(_owner(tensor, "device_backed")))


def _copied(owner: Array, again: bool) -> DeviceAllocation:
    """Return the copy of an array's memory, made if there is none, or `again`."""
    known = _copies.get(id(owner))
    found = known or DeviceAllocation(owner.nbytes)
    if again or known is None:
        found.copy("cuMemcpyHtoD", owner.ctypes.data)
    if known is None:
        _copies[id(owner)] = found
        weakref.finalize(owner, _copies.pop, id(owner)).atexit = False
    return found


def device_view(tensor: Any) -> Any:  # an array, or the tensor
    """See `Tensor.device_view`."""
    owner = _owner(tensor, "device_view")
    if not has_gpu():
        return tensor
    if tensor.host_memory() is None:
        raise refusal("device-modes", operation="device_view", layout=tensor.layout)
    array = imported(tensor)
    here = unwrapped(array)
    memory = _copied(owner, again=False)
    moved = memory.address + here.ctypes.data - owner.ctypes.data
    view = DeviceView(here, moved, (memory, owner))
    return replace(array, array=view) if isinstance(array, TypedArray) else view


def sync_device(tensor: Any) -> None:
    """See `Tensor.sync_device`."""
    owner = _owner(tensor, "sync_device")
    if has_gpu():
        _copied(owner, again=True)


def sync_host(tensor: Any) -> None:
    """See `Tensor.sync_host`."""
    owner = _owner(tensor, "sync_host")
    found = _copies.get(id(owner))
    if found is not None:
        tensor.engine.require_writeable()
        found.copy("cuMemcpyDtoH", owner.ctypes.data)
