"""Tensor maps of a launch: encoded once for each content, and copied into the launch's memory."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple

from cute_py.atoms.tensor_map import PITCH_UNIT, unreachable
from cute_py.codegen.driver import MAP_BYTES
from cute_py.errors import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.codegen.driver import Driver
    from cute_py.codegen.tensor_maps import TensorMap

MOST = 1024  # maps that are kept; when there are more, all are evicted
# Source: cuda.h, enum CUtensorMapDataType; tf32 as f32, which keeps all bits
_FLOATS = {"f16": 6, "bf16": 9, "f32": 7, "tf32": 7, "f64": 8}
_WORDS = {8: 0, 16: 1, 32: 2, 64: 4}
_SIGNED = {"s32": 3, "s64": 5}


class MapOf(NamedTuple):
    """A tensor map of a prepared launch.

    Attributes:
        value: the index of its array among the values of a call.
        encoded: its bytes.
    """

    value: int
    encoded: bytes


def encoded(
    driver: Driver,
    found: TensorMap,
    shape: Sequence[int],
    strides: Sequence[int],
    address: int,
    operation: str,
) -> bytes:
    """Return the tensor map of an array.

    Args:
        driver: the driver.
        found: the static part of the map.
        shape: the extents of the array (elements).
        strides: its strides (elements).
        address: the address of its first element.
        operation: the name of the kernel.

    Raises LayoutError for an array that TMA cannot address.
    """
    bytes = found.dtype.bits // 8
    extents = tuple([int(shape[i]) for i in found.modes])
    pitches = _pitches(found, extents, [int(strides[i]) * bytes for i in found.modes])
    problem = unreachable(extents, pitches, bytes, address)
    if problem:
        raise refusal("launch-map", operation=operation, name=found.tensor, found=problem)
    kind = _FLOATS.get(found.dtype.name)
    if kind is None:
        kind = _SIGNED.get(found.dtype.name, _WORDS[found.dtype.bits])
    content = kind, extents, pitches, found.box, found.swizzle, found.im2col
    known = driver.maps.get(content)  # another thread may evict it meanwhile
    if known is None:
        if len(driver.maps) >= MOST:
            driver.maps.clear()
        walk = () if found.im2col is None else (found.im2col,)
        known = driver.maps[content] = driver.encode_map(*content[:5], address, *walk)
    return known


def _pitches(found: TensorMap, extents: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return the pitches of all dimensions but the innermost (bytes). That of a dimension with one
    element is never used, and may be anything: it gets the least one that the driver accepts.
    """
    row = extents[0] * found.dtype.bits // 8
    least = max(PITCH_UNIT, -(-row // PITCH_UNIT) * PITCH_UNIT)
    sides = zip(extents[1:], strides[1:], strict=True)
    return tuple([pitch if extent > 1 else least for extent, pitch in sides])


def writer(
    write: Callable[..., None],
    maps: Sequence[MapOf],
    memory: int,
    replace: Callable[[int, int], int],
    recover: Callable[[int, int, int], None],
) -> Callable[..., None]:
    """Return a function that writes the values of a call, and the addresses of its arrays into
    their tensor maps where they differ from those of the last call.

    Args:
        write: writes the values.
        maps: the tensor maps.
        memory: the address of their memory.
        replace: the driver's function that writes an address into a map.
        recover: a function that does it again after a status of the driver, or refuses.

    """
    places = [(i, x.value, memory + i * MAP_BYTES) for i, x in enumerate(maps)]
    for (_i, _value, place), x in zip(places, maps, strict=True):
        ctypes.memmove(place, x.encoded, MAP_BYTES)
    last = [0] * len(maps)

    def write_all(*values: int) -> None:
        write(*values)
        for i, value, place in places:
            address = values[value]
            if address != last[i]:
                status = replace(place, address)
                if status:
                    recover(place, address, status)
                last[i] = address

    return write_all
