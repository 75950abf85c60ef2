"""What a launch costs on the host: three arrays of torch, the kernel known and compiled.

500 launches between two readings of the clock, without waiting for the GPU; 31 repeats, the
contenders taking turns; medians. Ratios are to torch's in-place add.

    python benchmarks/gpu_launch.py [--out FILE]
"""

from __future__ import annotations

import argparse
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


def measure(torch, launches):
    """Return microseconds a launch: name -> one figure a repeat."""
    times = {name: [] for name in launches}
    for _ in range(REPEATS):
        for name, launch in launches.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(LAUNCHES):
                launch()
            times[name].append((time.perf_counter() - start) / LAUNCHES * 1e6)
    torch.cuda.synchronize()
    return times


def main():
    """Measure, print a table, and write it where that is asked for."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    options = parser.parse_args()
    times = measure(torch, contenders(torch))
    figures = {name: round(median(each), 2) for name, each in times.items()}
    peer = figures["torch add_"]
    print(f"{'launch':<36}{'us':>8}{'least':>8}{'of torch':>10}")
    for name, figure in figures.items():
        print(f"{name:<36}{figure:8.2f}{min(times[name]):8.2f}{peer / figure:10.2f}")
    if options.out:
        facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        facts |= {"python": sys.version.split()[0], "microseconds": figures}
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(facts, file, indent=1)


if __name__ == "__main__":
    main()
