"""What a launch costs on the host: three arrays of torch, the kernel known and compiled.

500 launches between two readings of the clock, without waiting for the GPU; 31 repeats in each of
some windows a second apart, the contenders taking turns; medians. Ratios are to torch's in-place
add.

The second table is the floor of our call: what it cannot do without, each by the ways there are.
The least that a call can cost is the sum of the cheapest ways, and of a call of Python.

    python benchmarks/gpu_launch.py [--out FILE] [--windows N]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from statistics import median

import cute_py as cute

LAUNCHES, REPEATS, ELEMENTS = 500, 31, 4096


@cute.kernel
def add(a, b, c):  # type: ignore[no-untyped-def]
    """C = A + B, of n elements each."""
    cute.launch(grid=cute.ceil_div(a.shape[0], 128), block=128)
    i = cute.block_idx() * 128 + cute.thread_idx()
    with cute.when(i < a.shape[0]):
        c[i] = a[i] + b[i]


def contenders(torch):
    """Return name -> (function that launches once, function that gives its result)."""
    a, b = torch.randn(ELEMENTS, device="cuda"), torch.randn(ELEMENTS, device="cuda")
    found = _ours(torch, a, b)
    target = torch.zeros_like(a)
    found["torch add_"] = lambda: target.add_(b), None
    for make in (_cupy, _triton, _numba):
        try:
            found.update(make(torch, a, b))
        except ImportError as error:
            print(f"left out: {error}", file=sys.stderr)
    for name, (launch, result) in found.items():
        launch()
        torch.cuda.synchronize()
        assert result is None or torch.equal(torch.as_tensor(result, device="cuda"), a + b), name
    return {name: launch for name, (launch, _result) in found.items()}


def _ours(torch, a, b):
    from cute_py.codegen.launch.run import prepare

    c, d, e = (torch.zeros_like(a) for _ in range(3))
    plan = cute.trace(add, a, b, c)
    launch, values = prepare(plan, [a, b, e])
    return {
        "kernel(a, b, c)": (lambda: add(a, b, c), c),
        "cute.run(plan, a, b, c)": (lambda: cute.run(plan, a, b, d), d),
        "the prepared launch alone": (lambda: launch(values), e),
    }


# -- the floor of our call


class Called:
    """What a kernel is for Python: an object that is called with any arguments."""

    def __call__(self, *args, **named):
        """Do nothing."""


def floor(torch):
    """Return name -> function for what a call is made of."""
    from cute_py.calls.arrays import library_of
    from cute_py.codegen.launch.run import prepare

    arrays = a, b, c = [torch.zeros(ELEMENTS, device="cuda") for _ in range(3)]
    add(a, b, c)
    library, called, device = library_of(a), Called(), torch.cuda.current_device()
    facts, values = library.reader(), tuple(x.data_ptr() for x in arrays)
    add(a, b, c)  # generates the replay of the call
    launch, _values = prepare(cute.trace(add, a, b, c), arrays)
    launch(values)
    (known,) = [x for signature in add.calls().kept.values() for x in signature.entries.values()]
    found = {
        "a call of Python": lambda: called(a, b, c),
        "three addresses": lambda: (a.data_ptr(), b.data_ptr(), c.data_ptr()),
        "facts and addresses, by attributes": lambda: (facts(a), facts(b), facts(c)),
        "torch's current stream": library.stream(device),
        "the same, by torch.cuda": lambda: torch.cuda.current_stream().cuda_stream,
        "torch's current device": library.current,
        "what the function refers to": known.unchanged,
        "the prepared launch as a function": lambda: launch.go(values),
        **_launches(launch, values),
    }
    if library.guard is not None:
        same = library.guard(arrays)
        assert same(a, b, c)
        found["facts, by torch's guards"] = lambda: same(a, b, c)
    return found


def _launches(launch, values):
    """Return the ways to ask the driver for a launch whose parameters are in place."""
    block, driver, pointer = launch.pool[0], launch.driver, ctypes.c_void_p
    block.write(*values)
    config, function, raw = block.config, launch.function, driver.raw
    ask = ctypes.CFUNCTYPE(ctypes.c_int)(
        driver.call("cuGetProcAddress", b"cuLaunchKernel", 12000, 0)
    )
    sizes = [config.gridDimX, 1, 1, config.blockDimX, 1, 1, config.sharedMemBytes]
    given = [pointer(int(function)), *map(ctypes.c_uint, sizes), pointer(int(config.hStream))]
    given += [pointer(block.address), pointer(None)]
    return {
        "writing the parameters": lambda: block.write(*values),
        "cuLaunchKernelEx, by its address": block.launch,
        "cuLaunchKernelEx, by cuda.bindings": lambda: raw.cuLaunchKernelEx(
            config, function, block.address, 0
        ),
        "cuLaunchKernel, by its address": lambda: ask(*given),
    }


def _cupy(torch, a, b):
    import cupy

    x, y = cupy.asarray(a), cupy.asarray(b)
    z = cupy.zeros_like(x)
    code = 'extern "C" __global__ void f(const float* a, const float* b, float* c, long long n)'
    code += "{long long i = blockIdx.x * 128LL + threadIdx.x; if (i < n) c[i] = a[i] + b[i];}"
    kernel = cupy.RawKernel(code, "f")
    grid, n = (-(-ELEMENTS // 128),), cupy.int64(ELEMENTS)
    return {"CuPy RawKernel": (lambda: kernel(grid, (128,), (x, y, z, n)), z)}


def _triton(torch, a, b):
    import triton
    from gpu_launch_triton import add as triton_add

    c = torch.zeros_like(a)
    grid = (triton.cdiv(ELEMENTS, 128),)
    return {"Triton": (lambda: triton_add[grid](a, b, c, ELEMENTS, BLOCK=128), c)}


def _numba(torch, a, b):
    from cute_py.codegen.frontend import patch_numba

    patch_numba()
    from numba import cuda

    @cuda.jit
    def kernel(x, y, z):
        i = cuda.grid(1)
        if i < z.size:
            z[i] = x[i] + y[i]

    x, y = cuda.as_cuda_array(a), cuda.as_cuda_array(b)
    z = cuda.device_array_like(x)
    configured = kernel[-(-ELEMENTS // 128), 128]
    return {"Numba dispatcher, its own arrays": (lambda: configured(x, y, z), z)}


def measure(torch, launches, windows=1):
    """Return microseconds a launch: name -> one figure a repeat."""
    times = {name: [] for name in launches}
    for window in range(windows):
        time.sleep(min(window, 1))
        for _ in range(REPEATS):
            for name, launch in launches.items():
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(LAUNCHES):
                    launch()
                times[name].append((time.perf_counter() - start) / LAUNCHES * 1e6)
    torch.cuda.synchronize()
    return times


def shown(title, times, peer):
    """Print a table, and return the medians."""
    figures = {name: round(median(each), 3) for name, each in times.items()}
    print(f"{title:<38}{'us':>8}{'least':>8}{'of torch':>10}")
    for name, figure in figures.items():
        print(f"{name:<38}{figure:8.2f}{min(times[name]):8.2f}{peer / figure:10.2f}")
    return figures


def main():
    """Measure, print both tables, and write them where that is asked for."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("--windows", type=int, default=7)
    options = parser.parse_args()
    launches, parts = contenders(torch), floor(torch)
    times = measure(torch, {**launches, **parts}, options.windows)
    add_ = median(times["torch add_"])
    whole = shown("launch", {name: times[name] for name in launches}, add_)
    steps = shown("what a call is made of", {name: times[name] for name in parts}, add_)
    if options.out:
        facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        facts |= {"python": sys.version.split()[0], "microseconds": whole, "floor": steps}
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(facts, file, indent=1)


if __name__ == "__main__":
    main()
