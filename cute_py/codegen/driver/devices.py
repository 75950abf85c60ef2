"""The version of the NVIDIA driver and its GPUs, through ctypes: needs no package."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

LIBRARIES = {"win32": ("nvcuda.dll",)}.get(sys.platform, ("libcuda.so.1", "libcuda.so"))
# Source: CUDA driver API, enum CUdevice_attribute.
MAJOR, MINOR, SHARED, MULTIPROCESSORS, MODE = 75, 76, 97, 16, 20
MODES = ("default", "exclusive", "prohibited", "exclusive process")  # enum CUcomputemode
PROHIBITED = 2
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
# compute capabilities with instructions that need the suffix `a`
SPECIFIC = {(9, 0): "sm_90a", (10, 0): "sm_100a", (12, 0): "sm_120a"}


class DriverError(Exception):
    """The driver is missing, or a call failed."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU.

    Attributes:
        name: its name in the driver; that of a GPU instance contains MIG.
        capability: (major, minor).
        memory: total memory (bytes).
        shared: the most shared memory per block, after opt-in (bytes).
        multiprocessors: the number of multiprocessors.
        mode: the compute mode: default, prohibited, ...
    """

    name: str
    capability: tuple[int, int]
    memory: int
    shared: int
    multiprocessors: int
    mode: str

    @property
    def arch(self) -> str:
        """The architecture that kernels are compiled for: sm_80, sm_90a, ..."""
        return arch_of(self.capability)


def arch_of(capability: tuple[int, int]) -> str:
    """Return the architecture that kernels for a compute capability are compiled for."""
    major, minor = capability
    return SPECIFIC.get(capability, f"sm_{major}{minor}")


def load() -> Any:  # a ctypes library
    """Return the driver's library. Raises DriverError if it is missing."""
    reasons = []
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            reasons.append(str(error))
    raise DriverError(reasons[0])


def _checked(call: str, status: int) -> None:
    if status:
        raise DriverError(f"{call} returns {status}" + (": no GPU" if status == NO_DEVICE else ""))


def cuda_version(library: Any) -> tuple[int, int]:
    """Return the CUDA version that the driver supports."""
    number = ctypes.c_int()
    _checked("cuDriverGetVersion", library.cuDriverGetVersion(ctypes.byref(number)))
    return number.value // 1000, number.value % 1000 // 10


def devices(library: Any) -> list[Device]:
    """Return the GPUs that this process may use. Raises DriverError if there is none."""
    _checked("cuInit", library.cuInit(0))
    count = ctypes.c_int()
    _checked("cuDeviceGetCount", library.cuDeviceGetCount(ctypes.byref(count)))
    return [_device(library, i) for i in range(count.value)]


def _device(library: Any, i: int) -> Device:
    handle, memory, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    _checked("cuDeviceGet", library.cuDeviceGet(ctypes.byref(handle), i))
    _checked("cuDeviceGetName", library.cuDeviceGetName(name, 256, handle))
    _checked("cuDeviceTotalMem", library.cuDeviceTotalMem_v2(ctypes.byref(memory), handle))

    def attribute(kind: int) -> int:
        value = ctypes.c_int()
        status = library.cuDeviceGetAttribute(ctypes.byref(value), kind, handle)
        _checked("cuDeviceGetAttribute", status)
        return value.value

    mode = attribute(MODE)
    return Device(
        name.value.decode(errors="replace"),
        (attribute(MAJOR), attribute(MINOR)),
        memory.value,
        attribute(SHARED),
        attribute(MULTIPROCESSORS),
        MODES[mode] if 0 <= mode < len(MODES) else str(mode),
    )
