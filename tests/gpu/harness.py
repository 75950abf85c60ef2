"""One plan, twice: on the emulator and on the GPU, with the same arrays.

`CUTE_PY_GPU_DRY=sm_90a pytest -m gpu` needs no GPU: kernels are compiled for that architecture, and
the emulator's results stand in for those of the GPU. It shows that every test traces and compiles.
"""

import os

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan.functions import FUNCTIONS
from tests.emulated.plans import Maker, at, ops, read_as

DRY = os.environ.get("CUTE_PY_GPU_DRY", "")
SPILLS = 1 << 16  # bytes of a thread: as `cute.run` allows
THREADS = 128

try:
    import torch
except ImportError:
    torch = None
HAS_GPU = torch is not None and torch.cuda.is_available()


def require_gpu():
    """Skip a module whose tests cannot be run dry."""
    if torch is None:
        pytest.skip("needs torch", allow_module_level=True)
    if not HAS_GPU:
        pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


def require_any():
    """Skip a module without a GPU, but not where it runs dry."""
    if not DRY:
        require_gpu()


class OnGpu:
    """A copy of a NumPy array in the memory of the GPU, of any NumPy or ml_dtypes type, with its
    strides.
    """

    def __init__(self, array):
        self.shape, self.dtype, self.strides = array.shape, array.dtype, array.strides
        room = np.zeros(room_of(array), np.uint8)
        if array.size:
            np.ndarray(self.shape, self.dtype, room, strides=self.strides)[...] = array
        self.bytes = torch.from_numpy(room).cuda()

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.bytes.data_ptr(), False),
            "strides": self.strides,
            "version": 3,
        }

    def numpy(self):
        room = self.bytes.cpu().numpy()
        if not room.size:
            return np.zeros(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, room, strides=self.strides)


def room_of(array):
    """Return the bytes from the first to the last element of an array."""
    steps = zip(array.shape, array.strides, strict=True)
    return array.itemsize + sum((n - 1) * step for n, step in steps) if array.size else 0


def copied(array):
    """Return a copy of an array, with the same strides."""
    room = np.zeros(room_of(array), np.uint8)
    new = np.ndarray(array.shape, array.dtype, room, strides=array.strides)
    new[...] = array
    return new


def both(plan, *arrays):
    """Return (of the GPU, of the emulator) for each array, after the plan has run on it.

    Args:
        plan: what to run.
        arrays: NumPy arrays, or numbers for parameters that are numbers.

    """
    expected = [copied(x) if isinstance(x, np.ndarray) else x for x in arrays]
    cute.emulate(plan, *expected)
    if DRY:
        cute.compile(plan, DRY, SPILLS)
        return [(x, x) for x in expected]
    return list(zip(launched(plan, *arrays), expected, strict=True))


def launched(plan, *arrays):
    """Return copies of the arrays after the plan has run on them on the GPU; dry: the emulator."""
    if DRY:
        held = [copied(x) if isinstance(x, np.ndarray) else x for x in arrays]
        cute.emulate(plan, *held)
        return held
    held = [OnGpu(x) if isinstance(x, np.ndarray) else x for x in arrays]
    cute.run(plan, *held)
    torch.cuda.synchronize()
    return [x.numpy() if isinstance(x, OnGpu) else x for x in held]


def both_kernels(kernel, *args):
    """Return `both` of a kernel's plan, for arrays and run-time numbers."""
    return both(cute.trace(kernel, *args), *args)


def images(x):
    """Return the bits of an array's elements; all NaNs are one."""
    x = np.asarray(x)
    if x.dtype.kind in "biu":
        return x
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    held = x.view(f"u{x.dtype.itemsize}").astype(np.uint64)
    return np.where(np.isnan(wide), np.uint64(0x7FF8DEAD00000000), held)


def assert_same(got, wanted, name="", *inputs):
    """Fail unless all bits are equal; say where they are not, with the inputs there."""
    bad = np.flatnonzero((images(got) != images(wanted)).reshape(-1))
    if bad.size:
        rows = [
            (got.reshape(-1)[i], wanted.reshape(-1)[i], *[x.reshape(-1)[i] for x in inputs])
            for i in bad[:8]
        ]
        pytest.fail(f"{name}: {bad.size} of {got.size} differ; (gpu, emulator, inputs): {rows}")


# -- functions of registers

TESTS = tuple(f.name for f in FUNCTIONS.values() if f.compares)
DIVISIONS, SHIFTS = ("floordiv", "mod"), ("shl", "shr")


def functions(domain):
    """Return the names of the arithmetic functions of a kind of type that give the same bits."""
    rows = [f for f in FUNCTIONS.values() if f.domain in ("any", domain)]
    exact = [f for f in rows if not (f.compares or f.moves or f.approximate)]
    return [f.name for f in exact if f.name not in (*DIVISIONS, *SHIFTS)]


# -- inputs


def drawn(kind, n, seed=0):
    """Return n numbers of a type: all its corners first, then random bits."""
    kind = cute.dtype(kind)
    rng = np.random.default_rng(seed + kind.bits)
    if kind.is_float:
        size = 4 if kind.name == "tf32" else kind.bits // 8
        held = rng.integers(0, 1 << 8 * size, n, np.uint64, endpoint=False) if size < 8 else None
        held = rng.integers(0, 2**64 - 1, n, np.uint64) if held is None else held
        x = held.astype(f"u{size}").view(kind.numpy)
        near = (rng.standard_normal(n) * 2.0 ** rng.integers(-8, 18, n)).astype(np.float64)
        with np.errstate(all="ignore"):
            x = np.where(rng.random(n) < 0.7, cute.convert(near, kind).astype(x.dtype), x)
        corners = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1.0, -1.0]
        corners += [127.5, 128.0, -128.5, 255.5, 256.0, 32767.5, 65535.5, 464.0, 465.0, 61440.0]
        corners += [2.0**31, 2.0**31 - 128, -(2.0**31), 2.0**32, 2.0**63, 2.0**64, -(2.0**63)]
        corners += [float(kind.max), -float(kind.max), 65504.0, 65519.0, 65520.0, 1e300, 1e-40]
        with np.errstate(all="ignore"):
            head = np.asarray(cute.convert(np.array(corners), kind)).astype(x.dtype)
    else:
        low, high = int(kind.min), int(kind.max)
        x = rng.integers(low, high, n, kind.numpy, endpoint=True)
        small = rng.integers(max(low, -9), 9, n).astype(x.dtype)
        x = np.where(rng.random(n) < 0.4, small, x)
        head = np.array([low, low + 1, high, high - 1, 0, 1, 2], kind.numpy)
    x[: min(len(head), n)] = head[:n]
    return x


def shuffled(x, seed):
    """Return the elements in another order, so that corners meet."""
    return np.random.default_rng(seed).permutation(x)


__all__ = [
    "DIVISIONS",
    "DRY",
    "HAS_GPU",
    "SHIFTS",
    "TESTS",
    "THREADS",
    "Maker",
    "OnGpu",
    "assert_same",
    "at",
    "both",
    "both_kernels",
    "drawn",
    "functions",
    "images",
    "ops",
    "read_as",
    "require_any",
    "require_gpu",
    "shuffled",
    "torch",
]
