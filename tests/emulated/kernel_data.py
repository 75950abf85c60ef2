"""Operands for the kernels: types, majors and shapes, exact data, and what a product should be."""

from itertools import product

import numpy as np

import cute_py as cute

KINDS = ("f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "s8", "u8", "s4", "u4", "b1")
MAJORS = tuple(product((1, 0), (1, 0)))  # the contiguous modes of A and B
EDGES = (1, 7, 64, 129)
TYPED = ("tf32", "s4", "u4")  # NumPy has no type of their own for these


def bits(kind):
    return cute.dtypes.dtype(kind).bits


def sum_type(kind):
    """The NumPy type in which products of a kind are added up."""
    kind = cute.dtypes.dtype(kind)
    if kind.is_float:
        return np.dtype(np.float64 if kind.bits == 64 else np.float32)
    return np.dtype(np.int32)


def stored(values, kind, mode=1):
    """Values as an array of a kind, contiguous along a mode, as a kernel takes it."""
    array = np.asarray(values).astype(cute.dtypes.dtype(kind).numpy)
    array = np.asfortranarray(array) if mode == 0 else np.ascontiguousarray(array)
    return cute.typed(array, kind) if kind in TYPED else array


def plain(x):
    """The numbers of an operand in f64; of tf32 those that the instruction reads."""
    kind = getattr(x, "dtype", None)
    x = getattr(x, "array", x)
    if kind is cute.tf32:
        x = (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return x.astype(np.float64)


def integers(rng, shape, kind):
    """Small integers that every kind holds, so that sums are exact."""
    low, high = (0, 2) if kind == "b1" else (0, 5) if kind.startswith("u") else (-4, 5)
    return rng.integers(low, high, shape)


def operands(rng, shape, kind, majors=(1, 1)):
    """A (M,K) and B (N,K) of small integers."""
    M, N, K = shape
    return tuple(
        stored(integers(rng, (mn, K), kind), kind, mode)
        for mn, mode in zip((M, N), majors, strict=True)
    )


def poisoned(shape, dtype, mode=1):
    """An array of NaN, or of a number that no test expects."""
    order = "F" if mode == 0 else "C"
    value = np.nan if np.dtype(dtype).kind == "f" else -123_456_789
    return np.full(shape, value, dtype, order)


def reference(a, b):
    return plain(a) @ plain(b).T
