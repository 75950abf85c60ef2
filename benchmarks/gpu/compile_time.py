"""Seconds to trace and compile the bf16 multistage GEMM; imports and compiler are warm, no cache.

    python -m benchmarks.gpu.compile_time    (prints JSON; needs no GPU)

Run as a script it measures once, in its own process: nothing of the kernel is remembered.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

REPEATS = 5


def once(arch: str) -> dict[str, float]:
    """Trace and compile once, after a small kernel has started the compiler."""
    import cute_py as cute
    from benchmarks.gpu.building import Ghost
    from benchmarks.gpu.kernels import add_one
    from cute_py.codegen.build import compile
    from cute_py.kernels.gemm_07_multistage import flagship, gemm_multistage

    _import_all(cute)
    x = Ghost((32,), (1,), "f32")
    compile(cute.trace(add_one, x, x, x), arch)
    n = 4096
    a, c = Ghost((n, n), (n, 1), "bf16"), Ghost((n, n), (n, 1), "f32")
    began = time.perf_counter()
    plan = cute.trace(gemm_multistage, a, a, c, flagship("bf16"))
    traced = time.perf_counter()
    compile(plan, arch)
    done = time.perf_counter()
    return {"trace_s": traced - began, "compile_s": done - traced, "s": done - began}


def _import_all(package: Any) -> None:
    """Import all modules: the layers load what they need when it is needed first."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def measured(arch: str) -> dict[str, Any]:
    """Return the record of the row `compile`: the median of fresh processes."""
    found = [_process(arch) for _ in range(REPEATS)]
    times = [each["s"] for each in found]
    middle = statistics.median(times)
    parts = {key: statistics.median(x[key] for x in found) for key in ("trace_s", "compile_s")}
    burst = {"s": middle, "min_s": min(times), "max_s": max(times), "rounds": REPEATS}
    return {
        "row": "compile",
        "refused": {},
        "entries": [{"kernel": "ours", **parts, "burst": burst}],
    }


def _process(arch: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.gpu.compile_time", arch],
            env={**os.environ, "CUTE_PY_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    print(json.dumps(once(*(sys.argv[1:] or ["sm_90a"]))))
