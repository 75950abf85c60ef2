"""What a GPU does, measured by `cute.analysis.model.measure`, and a product of f32 over sizes.

    python -m benchmarks.gpu.device_model --out benchmarks/results/device_model.json
    python -m benchmarks.gpu.device_model --dry          (needs no GPU: registers, shared memory)

The kernels of `cute_py/kernels/device_rates.py` are checked before they are timed. gemm_04, the
kernel that the model is of, multiplies small integers, of which torch's product in f64 must be the
same to the last bit, and is then timed on normal random numbers, in bursts as in the table of
docs/measurements.md. The GPU works for less than 10 s. The file is written before the products, and
after each of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

import cute_py as cute
from benchmarks.gpu import harness
from benchmarks.gpu.harness import Timed
from benchmarks.gpu.run import head
from cute_py.kernels.gemm_04_double_buffer import choose, sgemm_128x128

SIZES = (512, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
SECONDS = 60.0  # of wall time, after which no other size is begun
ROUNDS = 5  # of bursts


def print_resources(arch: str) -> None:
    """Print what each kernel needs of an architecture."""
    from cute_py.ops.device_benches import SMALL, benches

    number = cute.atoms.arch.number(arch)
    for bench in benches(SMALL, divmod(number, 10)):
        plan = cute.trace(bench.kernel, *bench.args)
        print(f"{bench.row:16} {plan.name:20} {cute.compile(plan, arch).resources}")


def product(torch: Any, n: int) -> dict[str, Any]:
    """Return the record of gemm_04 at n^3. Raises ValueError for a wrong result."""
    a, b = (torch.randint(-4, 5, (n, n), device="cuda").float() for _ in range(2))
    c = torch.full((n, n), float("nan"), device="cuda")
    loads = choose(a, b)
    timed = Timed("gemm_04", lambda a, b, c: sgemm_128x128(a, b, c, loads))
    wanted = (a.double() @ b.double().T).float()
    sets = [(a, b, c)]
    harness.checked(torch, timed.launch, sets, [wanted], "exact")
    a.normal_()
    b.normal_()
    harness.capture(torch, timed, sets)
    harness.burst(torch, [timed], ROUNDS)
    us = timed.median("burst")
    return {"size": n, "us": round(us, 2), "tflops": round(2 * n**3 / us / 1e6, 3)}


def measure(out: Path, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Measure, print, and write the result."""
    import torch

    if not torch.cuda.is_available():
        sys.exit("no GPU")
    began = time.perf_counter()
    torch.cuda.init()
    rows, spec = cute.analysis.model.measure_rows()
    result = head(torch, command="python -m benchmarks.gpu.device_model")
    result["rows"] = [dataclasses.asdict(row) for row in rows]
    result["spec"] = dataclasses.asdict(spec)
    result["products"] = []
    for row in rows:
        print(row, flush=True)
    save(out, result, began)
    for n in sizes:
        if time.perf_counter() - began > SECONDS:
            break
        result["products"].append(product(torch, n))
        print(result["products"][-1], flush=True)
        save(out, result, began)
    return result


def save(out: Path, result: dict[str, Any], began: float) -> None:
    """Write the result, and how long it took so far."""
    result["seconds"] = round(time.perf_counter() - began, 1)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="measure, and write the result")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="of the products")
    parser.add_argument("--dry", action="store_true", help="compile alone, print resources")
    parser.add_argument("--arch", default="sm_90a", help="with --dry")
    options = parser.parse_args()
    if options.dry:
        print_resources(options.arch)
    elif options.out is None:
        parser.error("--out or --dry is needed")
    else:
        measure(options.out, tuple(options.sizes))


if __name__ == "__main__":
    main()
