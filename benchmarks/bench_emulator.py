"""The emulator: a tensor-core GEMM with and without checks; plain ones against Numba's simulator.

Every product is checked against NumPy before it is timed. A figure is the best of some rounds;
those of Numba's simulator are of one run in an interpreter of its own, by the same kernels with
the same 256 threads a block. Without Numba these rows are left out.

    python benchmarks/bench_emulator.py [--rounds 5] [--numba PYTHON]
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1]))

import ml_dtypes
import numpy as np

import cute_py as cute
from benchmarks.report import save, table
from cute_py.kernels.config import flagship
from cute_py.kernels.gemm_01_naive import gemm_naive
from cute_py.kernels.gemm_02_shared import gemm_shared
from cute_py.kernels.gemm_07_multistage import gemm_multistage

# title -> (M, N, K, checks), limit in seconds
GEMMS = {
    "bf16 GEMM 256x256x256, checks on": ((256, 256, 256, True), 0.07),
    "bf16 GEMM 256x256x256, checks off": ((256, 256, 256, False), 0.15),
    "bf16 GEMM 1024x1024x256, checks off": ((1024, 1024, 256, False), 1.5),
    "bf16 GEMM 1024x1024x1024, checks on": ((1024, 1024, 1024, True), 2.5),
}
TRACE_LIMIT = 0.05
SIZE = 64  # M, N and K of the SIMT kernels
SIMT = {"without shared memory": gemm_naive, "16x16 tiles in shared memory": gemm_shared}
RATIO = 300  # the second one: at least as many times faster than Numba's simulator

SIMULATOR = """
import json, sys
from time import perf_counter
import numba, numpy as np
from numba import cuda

@cuda.jit
def naive(A, B, C):
    m = cuda.blockIdx.x * 8 + cuda.threadIdx.y
    n = cuda.blockIdx.y * 32 + cuda.threadIdx.x
    if m < C.shape[0] and n < C.shape[1]:
        total = np.float32(0)
        for k in range(A.shape[1]):
            total += A[m, k] * B[n, k]
        C[m, n] = total

@cuda.jit
def shared(A, B, C):
    sA = cuda.shared.array((16, 17), numba.float32)
    sB = cuda.shared.array((16, 17), numba.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    m, n = cuda.blockIdx.x * 16, cuda.blockIdx.y * 16
    total = np.float32(0)
    for tile in range(A.shape[1] // 16):
        sA[ty, tx] = A[m + ty, 16 * tile + tx]
        sB[ty, tx] = B[n + ty, 16 * tile + tx]
        cuda.syncthreads()
        for k in range(16):
            total += sA[ty, k] * sB[tx, k]
        cuda.syncthreads()
    C[m + ty, n + tx] = total

size = int(sys.argv[1])
rng = np.random.default_rng(0)
A, B = (rng.integers(-4, 5, (size, size)).astype(np.float32) for _ in range(2))
found = []
for kernel, grid, block in (
    (naive, (size // 8, size // 32), (32, 8)),
    (shared, (size // 16, size // 16), (16, 16)),
):
    C = np.full((size, size), np.nan, np.float32)
    start = perf_counter()
    kernel[grid, block](A, B, C)
    found.append(perf_counter() - start)
    assert (C == A @ B.T).all()
print(json.dumps([*found, numba.__version__]))
"""


def integers(rng, shape, dtype):
    return rng.integers(-4, 5, shape).astype(dtype)


def best(function, rounds):
    """Return the shortest of some runs in seconds."""
    times = []
    for _ in range(rounds):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return min(times)


def gemm_seconds(M, N, K, checks, rounds):
    rng = np.random.default_rng(0)
    a, b = (integers(rng, (n, K), ml_dtypes.bfloat16) for n in (M, N))
    c = np.full((M, N), np.nan, np.float32)
    plan = cute.trace(gemm_multistage, a, b, c, flagship("bf16", 4))
    cute.emulate(plan, a, b, c, checks=checks)
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()
    return best(lambda: cute.emulate(plan, a, b, c, checks=checks), rounds)


def trace_seconds(rounds):
    """Return the time of a first trace: nothing is kept from one round to the next."""
    a, c = np.zeros((256, 256), ml_dtypes.bfloat16), np.zeros((256, 256), np.float32)
    cfg = flagship("bf16", 4)
    return best(lambda: cute.trace(cute.kernel(gemm_multistage.function), a, a, c, cfg), rounds)


def simt_seconds(kernel, rounds):
    rng = np.random.default_rng(0)
    a, b = (integers(rng, (SIZE, SIZE), np.float32) for _ in range(2))
    c = np.full((SIZE, SIZE), np.nan, np.float32)
    plan = cute.trace(kernel, a, b, c)
    cute.emulate(plan, a, b, c)
    assert (c == a @ b.T).all()
    return best(lambda: cute.emulate(plan, a, b, c), rounds)


def simulator_seconds(python):
    """Return Numba's version and its seconds, a kernel each; None where it is not installed."""
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(
        [python, "-c", SIMULATOR, str(SIZE)], env=environment, capture_output=True, encoding="utf-8"
    )
    if done.returncode and "No module named 'numba'" in done.stderr:
        return None
    assert done.returncode == 0, done.stderr
    *seconds, version = json.loads(done.stdout.splitlines()[-1])
    return version, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--numba", default=sys.executable, help="an interpreter that has Numba")
    options = parser.parse_args()
    results = {"trace of the GEMM": trace_seconds(options.rounds)}
    limits = {"trace of the GEMM": TRACE_LIMIT}
    for title, (shape, limit) in GEMMS.items():
        results[title], limits[title] = gemm_seconds(*shape, options.rounds), limit
    own = {
        f"f32 GEMM {SIZE}x{SIZE}x{SIZE}, {name}, checks on": simt_seconds(kernel, options.rounds)
        for name, kernel in SIMT.items()
    }
    results |= own
    simulated = simulator_seconds(options.numba)
    table(
        ("step", "seconds", "limit"),
        [(title, f"{s:.4f}", limits.get(title, "")) for title, s in results.items()],
    )
    rows = []
    if simulated is not None:
        version, seconds = simulated
        results["numba"] = version
        for (title, ours), theirs in zip(own.items(), seconds, strict=True):
            results[f"{title}: simulator"], results[f"{title}: ratio"] = theirs, theirs / ours
            rows.append((title, f"{theirs:.2f}", f"{theirs / ours:.0f}"))
        print()
        table((f"Numba {version}, simulator", "seconds", "ratio"), rows)
        print(f"\nlimit of the second ratio: {RATIO}")
    else:
        print("\nNumba's simulator: not installed")
    save("emulator", {"unit": "seconds", "rounds": options.rounds, "rows": results})


if __name__ == "__main__":
    main()
