"""The host's cost of one call: 500 calls between two readings of its clock, not waited for.

The row `host` is a kernel with three small arrays, against torch's in-place addition; those of the
group `operator` are `cute.ops.gemm` against `torch.mm`, so small that the GPU is not the limit.

A processor that is shared has slow phases of seconds, in which interpreted code loses more than
compiled code does; so the repeats are taken in several windows with pauses between them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.gpu.cases import Row

LAUNCHES, REPEATS = 500, 31  # of one window
WINDOWS, PAUSE = 7, 1.0  # seconds between two windows


Calls = dict[str, Callable[[], object]]


def measured(torch: Any, row: Row) -> dict[str, Any]:
    """Return the record of a row of kind `host`."""
    made, refused = _products(torch, row) if row.shape else _launches(torch)
    times: dict[str, list[float]] = {name: [] for name in made}
    for _window in range(WINDOWS):
        time.sleep(PAUSE)
        if row.shape:
            made, _ = _products(torch, row)  # fresh data, at other addresses
        for _repeat in range(REPEATS):
            for name, call in made.items():
                times[name].append(_microseconds(torch, call))
    entries = [_entry(name, x) for name, x in times.items()]
    return {"row": row.name, "refused": refused, "entries": entries}


def _products(torch: Any, row: Row) -> tuple[Calls, dict[str, str]]:
    """Return the product by torch and by us, as a user calls them; both are checked first."""
    import cute_py as cute

    m, n, k = row.shape
    a, b = (torch.randn(x, device="cuda").to(torch.bfloat16) for x in ((m, k), (k, n)))
    wanted = a.double() @ b.double()
    if row.name.startswith("mm-out"):
        c, d = (torch.empty_like(wanted, dtype=torch.bfloat16) for _ in "cd")
        made: Calls = {
            "torch": lambda: torch.mm(a, b, out=c),
            "cute_py call": lambda: cute.ops.gemm(a, b, out=d),
        }
    else:
        made = {"torch": lambda: torch.mm(a, b), "cute_py call": lambda: cute.ops.gemm(a, b)}
    for call in made.values():
        for _known in range(2):
            torch.testing.assert_close(call().double(), wanted, rtol=2e-2, atol=2e-2 * k**0.5)
    return made, {}


def _launches(torch: Any) -> tuple[Calls, dict[str, str]]:
    """Return the calls of small kernels: ours, torch's, and others where they are installed."""
    arrays = [torch.randn(32, device="cuda") for _ in range(3)]
    made: Calls = {"torch": lambda: arrays[0].add_(arrays[1])}
    refused: dict[str, str] = {}
    makers = (
        ("cute_py call", _call),
        ("cute_py Launcher", _launcher),
        ("Triton, empty", _triton),
        ("CuPy RawKernel, empty", _cupy),
        ("Numba dispatcher, empty", _numba),
    )
    for name, maker in makers:
        try:
            made[name] = maker(torch, arrays)
            made[name]()
        except Exception as error:
            made.pop(name, None)
            refused[name] = f"{type(error).__name__}: {error}"[:300]
    return made, refused


def _microseconds(torch: Any, launch: Callable[[], object]) -> float:
    launch()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(LAUNCHES):
        launch()
    spent = time.perf_counter() - began
    torch.cuda.synchronize()
    return spent / LAUNCHES * 1e6


def _entry(name: str, times: list[float]) -> dict[str, Any]:
    middle = statistics.median(times)
    burst = {"us": middle, "min_us": min(times), "max_us": max(times), "rounds": len(times)}
    return {"kernel": name, "burst": burst}


def _call(torch: Any, arrays: list[Any]) -> Callable[[], None]:
    """Our kernel by its name: arguments are classified, the plan and its launcher found."""
    from benchmarks.gpu.kernels import add_one

    a, b, c = arrays
    add_one(a, b, c)
    torch.cuda.synchronize()
    if not bool(c[0] == a[0] + b[0]):
        raise ValueError("wrong result")
    return lambda: add_one(a, b, c)


def _launcher(torch: Any, arrays: list[Any]) -> Callable[[], None]:
    """Our kernel compiled by hand."""
    import cute_py as cute
    from benchmarks.gpu.kernels import add_one
    from cute_py.codegen.build import compile
    from cute_py.codegen.launch.launcher import Launcher
    from cute_py.codegen.launch.run import device_arch

    run = Launcher(compile(cute.trace(add_one, *arrays), device_arch()))
    stream = torch.cuda.current_stream().cuda_stream
    a, b, c = arrays
    return lambda: run(a, b, c, stream=stream)


def _triton(torch: Any, arrays: list[Any]) -> Callable[[], None]:
    from benchmarks.gpu.triton_kernels import empty

    a, b, c = arrays
    return lambda: empty[(1,)](a, b, c, num_warps=1)


def _cupy(torch: Any, arrays: list[Any]) -> Callable[[], None]:
    import cupy

    held = tuple(cupy.asarray(x) for x in arrays)
    text = 'extern "C" __global__ void empty(float* a, float* b, float* c) {}'
    kernel = cupy.RawKernel(text, "empty")
    return lambda: kernel((1,), (32,), held)


def _numba(torch: Any, arrays: list[Any]) -> Callable[[], None]:
    from cute_py.codegen.frontend import patch_numba

    patch_numba()
    from numba import cuda

    held = [cuda.as_cuda_array(x) for x in arrays]

    def empty(a, b, c):
        pass

    kernel = cuda.jit(empty)[1, 32]
    return lambda: kernel(*held)
