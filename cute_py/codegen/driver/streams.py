"""The device and the stream of an array, whichever library made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import READERS, TypedArray, address_of, library_of, unwrapped
from cute_py.codegen.driver import driver
from cute_py.errors import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


def read(x: Any) -> tuple[Hashable, int]:
    """Return (exact facts, address) of a device array; see `calls.arrays.Library`."""
    array = unwrapped(x)
    if library_of(array) is not None:
        return READERS[type(x)](x)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:  # a subclass of torch's tensors
        address = address_of(array)
        facts = (type(array), array.dtype, tuple(array.shape), tuple(array.stride()), address & 15)
        kind = (x.dtype, x.packed, x.modes) if isinstance(x, TypedArray) else None
        return (facts, device_of(array), kind), address
    address = int(interface["data"][0])
    kind = (x.dtype, x.packed, x.modes) if isinstance(x, TypedArray) else None
    sizes = interface["shape"], interface.get("strides"), interface["typestr"]
    usable = bool(interface["data"][1]), interface.get("mask") is None
    return (kind, *sizes, *usable, address & 15, device_of(array), interface.get("stream")), address


def device_of(array: Any) -> int:
    """Return the device of an array; for host memory, the device that maps it."""
    array = unwrapped(array)
    library = library_of(array)
    if library is not None:
        return library.device(array)
    if hasattr(array, "get_device"):
        return int(array.get_device())
    address = address_of(array)
    device = driver().device_of_address(address)
    if device is None:
        name, place = type(array).__name__, hex(address)
        raise refusal("launch-memory", operation="cute.run", name=name, address=place)
    return device


def own_stream(array: Any) -> int | None:
    """Return the stream that an array's interface says to wait for, or None."""
    if library_of(array) is not None or hasattr(array, "is_cuda"):
        return None
    stream = array.__cuda_array_interface__.get("stream")
    return None if stream is None else int(stream)


def current_stream(array: Any, device: int) -> Callable[[], int]:
    """Return a function that returns the stream to launch on: the current stream of the array's
    library, else the array's stream, else the default stream.
    """
    library = library_of(array)
    if library is not None:
        return library.stream(device)
    if hasattr(array, "is_cuda"):  # a subclass of torch's tensors
        import torch

        return lambda: int(torch.cuda.current_stream(device).cuda_stream)
    own = own_stream(array) or 0
    return lambda: own


def current_device(array: Any) -> Callable[[], int | None]:
    """Return a function that returns the number of the current device."""
    library = library_of(array)
    return driver().device if library is None else library.current


def stream_number(stream: Any) -> int:
    """Return the number of a stream of any library.

    >>> stream_number(7)
    7
    """
    if hasattr(stream, "__index__") and int(stream) >= 0:
        return int(stream)
    for name in ("cuda_stream", "ptr"):  # torch, CuPy
        if hasattr(stream, name):
            return int(getattr(stream, name))
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        kind = type(stream).__name__
        raise refusal("launch-stream", operation="cute.run", stream=stream, type=kind)
    return int((protocol() if callable(protocol) else protocol)[1])
