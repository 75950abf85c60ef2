"""The CUDA driver: checked calls, contexts, limits. Only this module loads `cuda.bindings`."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

from cute_py.errors import CuteError, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from cute_py.plan.ops import Im2col

INVALID_CONTEXT = 201
MAP_BYTES = 128  # of a tensor map
PROMOTION = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B
CAPTURING = range(900, 910)  # CUDA_ERROR_STREAM_CAPTURE_...
# sticky errors: every later call in the context returns them (cuda.h, "must be relaunched")
STICKY = {700, 702, 710, 713, 714, 715, 716, 717, 718, 719}


class Driver:
    """The driver API in use; `raw` is `cuda.bindings.driver`, or a fake in tests."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.contexts: dict[int, Any] = {}
        self.limits: dict[tuple[int, str], int] = {}
        self.names: dict[int, str] = {}
        self.maps: dict[Hashable, bytes] = {}  # encoded tensor maps, by content
        self.call("cuInit", 0)

    def call(self, name: str, *args: Any) -> Any:
        """Call a driver function and return its result; refuse if it fails."""
        answer = getattr(self.raw, name)(*args)
        if int(answer[0]):
            number = int(answer[0])
            status = self.status(number)
            raise refusal("launch-status", operation=name, status=status, number=number)
        return answer[1] if len(answer) > 1 else None

    def status(self, number: int) -> str:
        """Return the name of a status: CUDA_ERROR_INVALID_VALUE."""
        try:
            return str(self.raw.CUresult(number).name)
        except ValueError:  # newer than the bindings
            return str(number)

    def limit(self, device: int, name: str) -> int:
        """Return an attribute of a device by its name without prefix: MAX_GRID_DIM_X."""
        key = device, name
        if key not in self.limits:
            kind = getattr(self.raw.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            handle = self.call("cuDeviceGet", device)
            self.limits[key] = int(self.call("cuDeviceGetAttribute", kind, handle))
        return self.limits[key]

    def name(self, device: int) -> str:
        """Return the name of a device."""
        if device not in self.names:
            found = self.call("cuDeviceGetName", 256, self.call("cuDeviceGet", device)) or b""
            self.names[device] = found.split(b"\0")[0].decode(errors="replace")
        return self.names[device]

    def attribute(self, function: Any, name: str) -> int:
        """Return an attribute of a loaded kernel by its name without prefix: NUM_REGS."""
        kind = getattr(self.raw.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(self.call("cuFuncGetAttribute", kind, function))

    # -- devices

    def device(self) -> int | None:
        """Return the number of the current device, None if no context is current."""
        answer = self.raw.cuCtxGetDevice()
        return None if int(answer[0]) else int(answer[1])

    def primary(self, device: int) -> Any:
        """Return the primary context of a device, which torch, CuPy and Numba use too."""
        if device not in self.contexts:
            handle = self.call("cuDeviceGet", device)
            self.contexts[device] = self.call("cuDevicePrimaryCtxRetain", handle)
        return self.contexts[device]

    def enter(self, device: int) -> None:
        """Make a device's primary context current in this thread."""
        self.call("cuCtxSetCurrent", self.primary(device))

    @contextmanager
    def inside(self, device: int) -> Iterator[None]:
        """Make a device current inside a `with` block."""
        self.call("cuCtxPushCurrent", self.primary(device))
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent")

    @cached_property
    def count(self) -> int:
        """Return the number of devices."""
        return int(self.call("cuDeviceGetCount"))

    # -- launches

    def launch(self, config: Any, function: Any, parameters: int) -> Callable[[], int]:
        """Return the function that launches a kernel and returns the status.

        Args:
            config: a `CUlaunchConfig`, read at each launch.
            function: the loaded kernel.
            parameters: the address of the pointers to the parameter values, read at each launch.

        It calls the driver through a function pointer, in half the time of `cuda.bindings`.
        """
        places = [config.getPtr(), int(function), parameters]
        pointers = [ctypes.byref(ctypes.c_char.from_address(place)) for place in places]
        return partial(self._launch, *pointers, None)

    @cached_property
    def _launch(self) -> Callable[..., int]:
        return ctypes.CFUNCTYPE(ctypes.c_int)(self._function("cuLaunchKernelEx"))

    def _function(self, name: str) -> int:
        """Return the address of a function of the driver."""
        kinds = self.raw.CUdriverProcAddress_flags
        flags = kinds.CU_GET_PROC_ADDRESS_DEFAULT
        if os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("", "0"):
            flags = kinds.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM  # as `cuda.bindings` does
        return int(self.call("cuGetProcAddress", name.encode(), 12000, flags))

    # -- tensor maps

    def encode_map(
        self,
        kind: int,
        extents: Sequence[int],
        pitches: Sequence[int],
        box: Sequence[int],
        swizzle: int,
        address: int,
        im2col: Im2col | None = None,
    ) -> bytes:
        """Return an encoded tensor map.

        Args:
            kind: the number of the element type.
            extents: the extents of the array (elements), the innermost dimension first.
            pitches: the strides of the other dimensions (bytes).
            box: the extents of the box (elements).
            swizzle: the number of the swizzle mode.
            address: the address of the array.
            im2col: the pixels of an im2col map, whose box is (channels, pixels).

        """
        rank = len(extents)
        wide, narrow = ctypes.c_uint64 * max(rank, 1), ctypes.c_uint32 * rank
        memory = (ctypes.c_char * (2 * MAP_BYTES))()
        place = -(-ctypes.addressof(memory) // MAP_BYTES) * MAP_BYTES
        plain, filled_with_zeros = 0, 0
        array = place, kind, rank, address, wide(*extents), wide(*pitches)
        how = plain, swizzle, PROMOTION, filled_with_zeros
        if im2col is None:
            operation = "cuTensorMapEncodeTiled"
            number = self._encode_map(*array, narrow(*box), narrow(*[1] * rank), *how)
        else:
            operation, corner = "cuTensorMapEncodeIm2col", ctypes.c_int * rank
            corners = corner(*im2col.lower), corner(*im2col.upper)
            steps = narrow(1, *im2col.step, 1)
            number = self._encode_im2col(*array, *corners, box[0], box[1], steps, *how)
        if number:
            status = self.status(number)
            raise refusal("launch-status", operation=operation, status=status, number=number)
        return ctypes.string_at(place, MAP_BYTES)

    @cached_property
    def _encode_map(self) -> Callable[..., int]:
        return self._encoder("cuTensorMapEncodeTiled", "piupppppiiii")

    @cached_property
    def _encode_im2col(self) -> Callable[..., int]:
        return self._encoder("cuTensorMapEncodeIm2col", "piupppppuupiiii")

    def _encoder(self, name: str, kinds: str) -> Callable[..., int]:
        """Return a function of the driver by the kinds of its arguments: pointer, int, unsigned."""
        types = {"p": ctypes.c_void_p, "i": ctypes.c_int, "u": ctypes.c_uint32}
        form = ctypes.CFUNCTYPE(ctypes.c_int, *[types[kind] for kind in kinds])
        return form(self._function(name))

    @cached_property
    def replace_address(self) -> Callable[[int, int], int]:
        """The function that writes an array's address into the tensor map at a place."""
        form = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        return form(self._function("cuTensorMapReplaceAddress"))

    # -- memory and streams

    def device_of_address(self, address: int) -> int | None:
        """Return the device of an address (device memory, or mapped host memory), or None."""
        kind = self.raw.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        answer = self.raw.cuPointerGetAttribute(kind, address)
        if int(answer[0]) == INVALID_CONTEXT:  # of a thread that has none; any will do
            with self.inside(0):
                answer = self.raw.cuPointerGetAttribute(kind, address)
        if int(answer[0]) or int(answer[1]) < 0:
            return None
        return int(answer[1])

    def is_capturing(self, stream: int) -> bool:
        """Return whether a stream is being captured; True also if the query is not permitted."""
        answer = self.raw.cuStreamIsCapturing(stream)
        if int(answer[0]):
            return int(answer[0]) in CAPTURING
        return int(answer[1]) != 0

    def wait(self, stream: int, other: int) -> None:
        """Let a stream wait for the work in another one."""
        untimed = 2  # CU_EVENT_DISABLE_TIMING
        event = self.call("cuEventCreate", untimed)
        try:
            self.call("cuEventRecord", event, other)
            self.call("cuStreamWaitEvent", stream, event, 0)
        finally:
            self.call("cuEventDestroy", event)


@cache
def driver() -> Driver:
    """Return the driver of this machine; refuse if it is missing."""
    try:
        from cuda.bindings import driver as raw

        return Driver(raw)
    except (ImportError, OSError, RuntimeError, CuteError) as error:
        raise refusal("launch-driver", operation="cute.run", said=str(error)) from None
