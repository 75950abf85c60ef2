"""Elements and their bits: views where types are whole bytes, packing where they are not."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cute_py.dtypes.conversion import decode
from cute_py.dtypes.table import Dtype
from cute_py.emulate.spans import Array


@cache
def numpy_type(dtype: Dtype) -> np.dtype[Any]:
    """Return the NumPy type that holds one element."""
    return dtype.numpy


def item_type(nbytes: int) -> np.dtype[Any]:
    """Return a NumPy type that moves so many bytes at once."""
    codes = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
    return np.dtype(codes.get(nbytes, f"V{nbytes}"))


def to_bits(values: Array, dtype: Dtype) -> Array:
    """Return the bits (uint8 0 or 1) of elements along the last axis, low bit first."""
    image = values.view(f"u{values.dtype.itemsize}")
    shifts = np.arange(dtype.bits, dtype=image.dtype)
    bits = (image[..., None] >> shifts) & image.dtype.type(1)
    return bits.astype(np.uint8).reshape(*values.shape[:-1], -1)


def from_bits(bits: Array, dtype: Dtype) -> Array:
    """Return the elements along the last axis that have these bits."""
    held = numpy_type(dtype)
    groups = bits.reshape(*bits.shape[:-1], -1, dtype.bits)
    if dtype.bits < 8:
        image = (groups << np.arange(dtype.bits, dtype=np.uint8)).sum(-1, dtype=np.uint8)
        return np.asarray(decode(image, dtype)).view(held)
    packed = np.packbits(groups, axis=-1, bitorder="little")
    return np.ascontiguousarray(packed).view(held)[..., 0]


def to_bytes(values: Array, dtype: Dtype) -> Array:
    """Return the packed bytes (uint8) of elements along the last axis, low element first."""
    if dtype.bits >= 8:
        return np.ascontiguousarray(values).view(np.uint8)
    return np.packbits(to_bits(values, dtype), axis=-1, bitorder="little")


def from_bytes(data: Array, dtype: Dtype) -> Array:
    """Return the elements that bytes (uint8, contiguous) hold, along the last axis."""
    if dtype.bits >= 8:
        return data.view(numpy_type(dtype))
    return from_bits(np.unpackbits(data, axis=-1, bitorder="little"), dtype)


def recast(values: Array, source: Dtype, target: Dtype) -> Array:
    """Return the same bits as elements of another type, along the last axis."""
    if source is target:
        return values
    if source.bits >= 8 and target.bits >= 8:
        return np.ascontiguousarray(values).view(numpy_type(target))
    if source.bits == target.bits and source.is_integer and target.is_integer:
        return from_bits(to_bits(values, source), target)
    return from_bits(to_bits(np.ascontiguousarray(values), source), target)
