"""The operator on the host, without a GPU: what `ops.gemm` costs beside the kernel that it calls.

The driver is one that does nothing, and arrays tell their facts as quickly as torch's do; so the
figures are those of our own code. Both calls launch with the same values, which is checked first.
Exits with 1 if a figure is above its limit.

    python benchmarks/bench_operator.py [--rounds 15]
"""

import argparse
import ctypes
import statistics
import sys
from contextlib import nullcontext
from inspect import CO_VARARGS, CO_VARKEYWORDS
from pathlib import Path
from time import perf_counter
from types import FrameType, SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pytest

import cute_py as cute
from benchmarks.report import save, table
from cute_py.calls import arrays
from cute_py.trace.kernel import Kernel
from tests import fake_gpu

CALLS = 100
RATIO = 1.25  # of the kernel's call, at most
HEADER = ("of a second call", "figure", "limit")
PASSED = 30  # functions that one array passes in a second call, at most


class Matrix:
    """An array of a GPU without memory, whose views cost little."""

    __slots__ = ("address", "dtype", "shape", "strides")
    is_cuda, device, itemsize = True, nullcontext(), 2

    def __init__(self, shape, strides, address):
        self.shape, self.strides, self.address = shape, strides, address
        self.dtype = HALF

    def swapaxes(self, _first, _second):
        return Matrix(self.shape[::-1], self.strides[::-1], self.address)

    def reshape(self, *shape):
        shape = shape[0] if isinstance(shape[0], tuple) else shape
        return Matrix(shape, (0, *self.strides)[-len(shape) :], self.address)

    def __getitem__(self, _index):
        return Matrix(self.shape[1:], self.strides[1:], self.address)


HALF = np.dtype(np.float16)


def empty(shape, _kind):
    """Return a new array (..., 256, 256)."""
    return Matrix(shape, (0, 512, 2)[-len(shape) :], 1 << 20)


def installed(patch):
    """Put a machine in place whose driver does nothing; return the list of launches it keeps."""
    fake = fake_gpu.install(patch)
    facts = (("dtype",), ("shape",), ("strides",))
    library = arrays.Library("fake", ("address",), facts, lambda x: 0, lambda d: lambda: 0, int)
    patch.setitem(arrays.LIBRARIES, Matrix, library)
    patch.setitem(arrays.READERS, Matrix, library.reader())
    spread = lambda x, shape: x if x.shape == shape else x.reshape(shape)  # noqa: E731
    patch.setitem(sys.modules, "cupy", SimpleNamespace(empty=empty, broadcast_to=spread))
    patch.setitem(fake_gpu.LIMITS, "MULTIPROCESSOR_COUNT", 132)
    from cute_py.codegen.driver import streams
    from cute_py.ops import libraries

    patch.setattr(libraries, "driver", lambda: streams.driver())
    return fake.raw


def words(config, function, address, _extra):
    """Return the values that a launch would write for the kernel."""
    pointers = (ctypes.c_void_p * 5).from_address(address)
    return [ctypes.c_uint64.from_address(p).value for p in pointers]


def microseconds(call):
    began = perf_counter()
    for _ in range(CALLS):
        call()
    return (perf_counter() - began) / CALLS * 1e6


def passed(call, is_its):
    """Return the Python functions that are entered with an array, or a view of it, as an argument.

    `is_its` tells whether an object is the array or a view.
    """
    found = []

    def look(frame: FrameType, event, _arg):
        if event == "call":
            code = frame.f_code
            more = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + more]
            if any(is_its(x) for name in names for x in held(frame.f_locals.get(name))):
                found.append(f"{Path(code.co_filename).name}:{code.co_name}")

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def shares(x, y):
    return isinstance(x, np.ndarray) and np.may_share_memory(x, y)


def held(value):
    """Return a value, or what a tuple, list, dict or typed array holds."""
    parts = value.values() if type(value) is dict else value
    parts = parts if type(value) in (tuple, list, dict) else (value,)
    return [getattr(x, "array", x) if type(x) is arrays.TypedArray else x for x in parts]


def passed_on_the_host():
    """Return the functions that an array of the host passes in a second call."""
    x, y = (np.ones((32, 32), np.float16) for _ in "ab")
    cute.ops.gemm(x, y)
    return passed(lambda: cute.ops.gemm(x, y), lambda v: shares(v, x))


def main():
    """Check, count, time and print; return the number of figures above their limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--functions", action="store_true", help="print those that an array passes")
    options = parser.parse_args()
    with pytest.MonkeyPatch.context() as patch:
        raw = installed(patch)
        rows = measured(raw, patch, options)
    found = passed_on_the_host()
    rows.append(("functions that an array of the host passes", len(found), PASSED))
    if options.functions:
        print("\n".join(found))
    table(HEADER, rows)
    save("operator", {"rows": [dict(zip(HEADER, row, strict=True)) for row in rows]})
    above = [title for title, figure, limit in rows if limit is not None and figure > limit]
    print("".join([f"above its limit: {title}\n" for title in above]), end="")
    return len(above)


def measured(raw, patch, options):
    """Return the rows: the kernel's call, the operator's, and what an array passes."""
    success = (raw.CUresult.CUDA_SUCCESS,)
    launches = []
    patch.setattr(type(raw), "cuLaunchKernelEx", lambda _raw, *a: launches.append(a) or success)
    a, b, out = (empty((256, 256), None) for _ in range(3))
    a.address, b.address, out.address = 1 << 21, 1 << 22, 1 << 23
    seen, real = [], Kernel.launched
    patch.setattr(Kernel, "launched", lambda *x: (seen.append(x), real(*x))[1])
    cute.ops.gemm(a, b, out=out)
    patch.setattr(Kernel, "launched", real)
    kernel, arguments = seen[0]
    kernel(*arguments)
    cute.ops.gemm(a, b, out=out)
    kernel(*arguments)
    mine, its = [words(*x) for x in launches[-2:]]
    assert mine == its, (mine, its)
    patch.setattr(type(raw), "cuLaunchKernelEx", lambda *_a: success)
    calls = {
        "kernel": lambda: kernel(*arguments),
        "out": lambda: cute.ops.gemm(a, b, out=out),
        "new": lambda: cute.ops.gemm(a, b),
    }
    times = {name: [] for name in calls}
    for _round in range(options.rounds):
        for name, call in calls.items():
            call()
            times[name].append(microseconds(call))
    best = {name: min(x) for name, x in times.items()}
    middle = {name: statistics.median(x) for name, x in times.items()}
    found = passed(calls["out"], lambda x: getattr(x, "address", 0) == a.address)
    if options.functions:
        print("\n".join(found))
    return [
        ("the kernel's call, us", round(best["kernel"], 2), None),
        ("ops.gemm(out=), us", round(best["out"], 2), None),
        ("ops.gemm, us", round(best["new"], 2), None),
        ("ops.gemm(out=) over the kernel", round(best["out"] / best["kernel"], 2), RATIO),
        ("the same of medians", round(middle["out"] / middle["kernel"], 2), RATIO),
        ("functions that an array of a GPU passes", len(found), PASSED),
    ]


if __name__ == "__main__":
    sys.exit(min(main(), 1))
