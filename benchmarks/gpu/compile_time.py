"""Seconds to trace and compile a GEMM of bf16; imports and compiler are warm, no cache.

    python -m benchmarks.gpu.compile_time [ARCH]     (the multistage GEMM; prints JSON)
    python -m benchmarks.gpu.compile_time --family   (configurations for Hopper: a table)

Neither needs a GPU. Each kernel is measured in a process of its own: nothing of it is remembered.
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
# configurations for Hopper, as `family` writes them; the last two are the largest kernels
FAMILY = ("64x128 pdl", "128x256", "256x152 c cl2", "pp 128x176", "pp 128x176 bias gelu",
          "128x256 bias gelu")  # fmt: skip


def once(arch: str, text: str = "") -> dict[str, float]:
    """Trace and compile once, after a small kernel has started the compiler; `text` names a
    configuration for Hopper.
    """
    import cute_py as cute
    from benchmarks.gpu.building import Ghost
    from benchmarks.gpu.family import made
    from benchmarks.gpu.kernels import add_one
    from cute_py.codegen.build import compile
    from cute_py.kernels.gemm_07_multistage import flagship, gemm_multistage
    from cute_py.kernels.gemm_sm90 import KERNELS

    _import_all(cute)
    x = Ghost((32,), (1,), "f32")
    compile(cute.trace(add_one, x, x, x), arch)
    n = 4096
    a, c = Ghost((n, n), (n, 1), "bf16"), Ghost((n, n), (n, 1), "f32")
    kernel, arguments = gemm_multistage, (a, a, c, flagship("bf16"))
    if text:
        variant = made(text, "bf16", ("K", "K"), "bf16")
        kernel, bias = KERNELS[variant.config.schedule], Ghost((n,), (1,), "bf16")
        terms = None, bias if variant.epilogue.bias else None
        numbers = 1.0, 1.0, 128, 8, variant.config, variant.epilogue
        arguments = (a, a, *terms, a, *numbers)
    began = time.perf_counter()
    plan = cute.trace(kernel, *arguments)
    traced = time.perf_counter()
    compile(plan, arch)
    done = time.perf_counter()
    return {"trace_s": traced - began, "compile_s": done - traced, "s": done - began}


def _import_all(package: Any) -> None:
    """Import all modules: the layers load what they need when it is needed first."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__") and found.name.partition(".torch")[1] == "":
            importlib.import_module(found.name)


def measured(arch: str, text: str = "") -> dict[str, Any]:
    """Return the record of the row `compile`: the median of fresh processes."""
    found = [_process(arch, text) for _ in range(REPEATS)]
    times = [each["s"] for each in found]
    middle = statistics.median(times)
    parts = {key: statistics.median(x[key] for x in found) for key in ("trace_s", "compile_s")}
    burst = {"s": middle, "min_s": min(times), "max_s": max(times), "rounds": REPEATS}
    return {
        "row": "compile",
        "refused": {},
        "entries": [{"kernel": "ours", **parts, "burst": burst}],
    }


def _process(*words: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.gpu.compile_time", *words],
            env={**os.environ, "CUTE_PY_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def table() -> str:
    """Return a line for each configuration of `FAMILY`: seconds of the trace, the rest and both."""
    lines = [f"{'configuration':24} trace compile   both (least to most)"]
    for text in FAMILY:
        (entry,) = measured("sm_90a", text)["entries"]
        trace, rest, both = entry["trace_s"], entry["compile_s"], entry["burst"]
        span = f"({both['min_s']:.2f} to {both['max_s']:.2f})"
        lines.append(f"{text:24} {trace:5.2f} {rest:7.2f} {both['s']:6.2f} {span}")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["--family"]:
        print(table())
    else:
        print(json.dumps(once(*(sys.argv[1:] or ["sm_90a"]))))
