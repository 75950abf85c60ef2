"""Seconds to trace and compile a GEMM; imports and compiler are warm, no cache.

    python -m benchmarks.gpu.compile_time [KERNEL ...]       (a line each; those of KERNELS)
    python -m benchmarks.gpu.compile_time --rule [PROCESSES] (all that the rule for Hopper chooses
                                                              for types of 16 bits)

Neither needs a GPU. Each kernel is measured in a process of its own, a fork of one that has
compiled a small kernel: nothing of it is remembered.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import pkgutil
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

REPEATS = 5
LIMIT = 1.4  # seconds
# configurations for Hopper, as `family` writes them, after the type of the operands; and others
KERNELS = ("gemm_07", "f64", "64x128 pdl", "128x256", "tf32 128x256", "e4m3 128x192 2",
           "256x152 c cl2", "128x256 C", "pp 128x176", "128x256 bias gelu", "pp 128x176 bias gelu",
           "128x256 C bias gelu")  # fmt: skip
PARTS = "trace_s", "compile_s"
RESULTS = {"tf32": "f32", "s8": "s32", "e4m3": "bf16"}


def call_of(text: str) -> tuple[str, Any, tuple[Any, ...]]:
    """Return the architecture, kernel and arguments of a kernel of `KERNELS`."""
    from benchmarks.gpu.family import arguments, made
    from cute_py.ops.without_gpu import Outline, call_on, gpu_of

    n = 4096
    if text == "f64":  # what `cute.ops.gemm` chooses
        call = call_on(gpu_of("sm_80"), (n, n, n), "f64", out_dtype="f64")
        return "sm_80", call.kernel, call.arguments
    if text == "gemm_07":
        from cute_py.dtypes.table import bf16, f32
        from cute_py.kernels.gemm_07_multistage import flagship, gemm_multistage

        a, d = (Outline.compact((n, n), kind) for kind in (bf16, f32))
        return "sm_90a", gemm_multistage, (a, a, d, flagship("bf16"))
    kind, _, rest = text.partition(" ")
    kind, rest = (kind, rest) if kind in RESULTS else ("bf16", text)
    result = RESULTS.get(kind, kind)
    variant = made(rest, kind, ("K", "K"), result)
    return "sm_90a", *arguments(variant.config, (kind, result), variant.epilogue)


def chosen() -> list[tuple[Any, Any, str]]:
    """Return (configuration, epilogue, type of D) of all that the rule may choose for bf16."""
    from cute_py.kernels.config_sm90 import can_load_source, warpgroup_config
    from cute_py.kernels.epilogue import LinearCombination
    from cute_py.ops.gemm_tiles_sm90 import ROWS

    light = {"alpha": True, "bias": True}
    epilogues = (
        LinearCombination(),
        LinearCombination(**light, activation="relu"),
        LinearCombination(**light, activation="gelu"),
        LinearCombination(**light, source=True, activation="relu"),
        LinearCombination(**light, source=True, activation="gelu"),
    )
    found = []
    for row in ROWS:
        for way, most in enumerate(row.most):
            result, store = ("bf16", "f32", "bf16")[way], {"store": 0} if way == 2 else {}
            for split in (1, *row.splits):
                config = warpgroup_config(
                    ("bf16", "bf16"), (row.m, row.n), row.warpgroups, row.schedule, ("K", "K"),
                    result, one_pass=not row.in_parts and split == 1, split=split, **store,
                )  # fmt: skip
                for last in epilogues[: most + 1]:
                    loads = last.source and way < 2 and can_load_source(config)
                    made = replace(config, prefetch=1) if loads else config
                    found.append((made, last, result))
    return found


def warm() -> None:
    """Import all modules, and start the compiler by a small kernel."""
    import cute_py as cute
    from benchmarks.gpu.kernels import add_one
    from cute_py.codegen.build import compile
    from cute_py.dtypes.table import f32
    from cute_py.ops.without_gpu import Outline

    os.environ["CUTE_PY_CACHE"] = "0"  # of this process
    for found in pkgutil.walk_packages(cute.__path__, "cute_py."):
        if not found.name.endswith("__main__") and found.name.partition(".torch")[1] == "":
            importlib.import_module(found.name)
    importlib.import_module("benchmarks.gpu.family")
    x = Outline.compact((32,), f32)
    compile(cute.trace(add_one, x, x, x), "sm_90a")


def once(job: Any) -> tuple[float, float]:
    """Return the seconds to trace and to compile: a text, or a row of `chosen`."""
    import cute_py as cute
    from benchmarks.gpu.family import arguments

    if isinstance(job, str):
        arch, kernel, given = call_of(job)
    else:
        config, last, result = job
        arch, (kernel, given) = "sm_90a", arguments(config, ("bf16", result), last)
    began = time.perf_counter()
    plan = cute.trace(kernel, *given)
    traced = time.perf_counter()
    cute.compile(plan, arch)
    return traced - began, time.perf_counter() - traced


def each(jobs: Any, processes: int = 1) -> Any:
    """Yield the seconds of each job, in a process of its own."""
    warm()
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap(once, jobs, chunksize=1)


def measured() -> dict[str, Any]:
    """Return the record of the row `compile`: the multistage GEMM, the median of processes."""
    command = [sys.executable, "-m", "benchmarks.gpu.compile_time", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    times = [sum(x) for x in found]
    middle = {name: statistics.median(x[i] for x in found) for i, name in enumerate(PARTS)}
    spread = {"min_s": min(times), "max_s": max(times), "rounds": REPEATS}
    burst = {"s": statistics.median(times), **spread}
    entry = {"kernel": "ours", **middle, "burst": burst}
    return {"row": "compile", "refused": {}, "entries": [entry]}


def table(texts: tuple[str, ...]) -> str:
    """Return a line for each kernel: seconds of the trace, the rest and both, the medians."""
    found = list(each([text for text in texts for _ in range(REPEATS)]))
    lines = [f"{'kernel':24} trace compile   both (least to most)"]
    for i, text in enumerate(texts):
        runs = found[i * REPEATS : (i + 1) * REPEATS]
        both = sorted(map(sum, runs))
        trace, rest = (statistics.median(x[j] for x in runs) for j in range(2))
        span = f"({both[0]:.2f} to {both[-1]:.2f})"
        lines.append(f"{text:24} {trace:5.2f} {rest:7.2f} {statistics.median(both):6.2f} {span}")
    return "\n".join(lines)


def rule(processes: int) -> str:
    """Return how many of `chosen` are within the limit, and those that take longest."""
    jobs = chosen()
    found = sorted(zip(map(sum, each(jobs, processes)), map(str, jobs), strict=True), reverse=True)
    within = sum(seconds <= LIMIT for seconds, _job in found)
    lines = [f"{within} of {len(found)} within {LIMIT} s"]
    return "\n".join([*lines, *[f"{seconds:.2f} {job}" for seconds, job in found[:8]]])


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["--rule"]:
        print(rule(int(given[1]) if given[1:] else 1))
    elif given == ["--json"]:
        print(json.dumps(list(each(["gemm_07"] * REPEATS))))
    else:
        print(table(tuple(given) or KERNELS))
