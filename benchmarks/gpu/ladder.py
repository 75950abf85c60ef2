"""The kernels of the GEMM ladder at 4096^3 against cuBLAS, for docs/write_a_gemm.md.

    python -m benchmarks.gpu.ladder --out FILE [--write docs/write_a_gemm.md]
    python -m benchmarks.gpu.ladder --from FILE --write docs/write_a_gemm.md
    python -m benchmarks.gpu.ladder --dry          (needs no GPU: registers, spills, shared memory)

All kernels are checked on fresh random operands before they are timed, and again after. The kernels
of one type and cuBLAS (torch.mm) take turns in one process, in burst mode (`harness`). The time of
a call is what a user waits who calls the kernel with torch tensors on an idle GPU.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cute_py as cute
from benchmarks.gpu import harness, operands
from benchmarks.gpu.building import Ghost, shapes_of
from benchmarks.gpu.cases import ROWS, Row
from benchmarks.gpu.harness import Timed
from benchmarks.gpu.run import head
from cute_py.kernels import config
from cute_py.kernels.gemm_01_naive import gemm_naive
from cute_py.kernels.gemm_02_shared import gemm_shared
from cute_py.kernels.gemm_03_registers import gemm_registers
from cute_py.kernels.gemm_04_double_buffer import choose as choose_loads
from cute_py.kernels.gemm_04_double_buffer import sgemm_128x128
from cute_py.kernels.gemm_05_tensor_core import gemm_tensor_core
from cute_py.kernels.gemm_06_ldmatrix import gemm_ldmatrix
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.kernels.gemm_08_epilogue import gemm_epilogue
from cute_py.kernels.gemm_09_tma_wgmma import gemm_tma
from cute_py.kernels.gemm_10_warp_specialised import gemm_warp_specialised
from cute_py.kernels.gemm_11_persistent import fewest as fewest_cooperative
from cute_py.kernels.gemm_11_persistent import gemm_persistent
from cute_py.kernels.gemm_12_ping_pong import fewest as fewest_ping_pong
from cute_py.kernels.gemm_12_ping_pong import gemm_ping_pong

CALLS = 10  # of the time of a call, the median of which is kept
TILE = (128, 128)
PEER = "torch"

Arrays = tuple[Any, Any, Any]  # A (M,K), B (N,K), C (M,N)


@dataclass(frozen=True)
class Step:
    """A kernel of the ladder.

    Attributes:
        name: of its file.
        dtype: of A, B and C.
        options: what its call takes after the arrays, made of the arrays once.
        kernel: that is called with the arrays and the options.
        biased: whether a bias and relu are part of it.
    """

    name: str
    dtype: str
    kernel: cute.Kernel
    options: Callable[..., tuple[Any, ...]]
    biased: bool = False


def none(_a: Any, _b: Any, _c: Any) -> tuple[Any, ...]:
    """Return no options."""
    return ()


def loads(a: Any, b: Any, _c: Any) -> tuple[Any, ...]:
    """Return the copies of gemm_04."""
    return (choose_loads(a, b),)


def plain(a: Any, b: Any, _c: Any) -> tuple[Any, ...]:
    """Return a configuration without ldmatrix, swizzles and cp.async."""
    return (config.choose(a, b, TILE, 2, ldmatrix=False, asynchronous=False),)


def swizzled(a: Any, b: Any, _c: Any) -> tuple[Any, ...]:
    """Return a configuration with ldmatrix and swizzles."""
    return (config.choose(a, b, TILE, 2, asynchronous=False),)


def multistage(a: Any, b: Any, _c: Any) -> tuple[Any, ...]:
    """Return a configuration of three stages."""
    return (config.choose(a, b, TILE),)


def fused(a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    """Return the same with an epilogue."""
    return config.choose(a, b, TILE, outputs=(c,)), "relu"


def persistent(_a: Any, _b: Any, c: Any) -> tuple[Any, ...]:
    """Return the number of blocks of gemm_11."""
    return (fewest_cooperative(c),)


def ping_pong(_a: Any, _b: Any, c: Any) -> tuple[Any, ...]:
    """Return the number of blocks of gemm_12."""
    return (fewest_ping_pong(c),)


STEPS = (
    Step("gemm_01", "f32", gemm_naive, none),
    Step("gemm_02", "f32", gemm_shared, none),
    Step("gemm_03", "f32", gemm_registers, none),
    Step("gemm_04", "f32", sgemm_128x128, loads),
    Step("gemm_05", "f16", gemm_tensor_core, plain),
    Step("gemm_06", "f16", gemm_ldmatrix, swizzled),
    Step("gemm_07", "f16", gemm_multistage, multistage),
    Step("gemm_08", "f16", gemm_epilogue, fused, biased=True),
    Step("gemm_09", "f16", gemm_tma, none),
    Step("gemm_10", "f16", gemm_warp_specialised, none),
    Step("gemm_11", "f16", gemm_persistent, persistent),
    Step("gemm_12", "f16", gemm_ping_pong, ping_pong),
)


def row_of(dtype: str) -> Row:
    """Return the row of the table with the same product."""
    return ROWS[f"{dtype}-4096"]


def arguments(step: Step, arrays: Arrays, options: tuple[Any, ...], bias: Any) -> tuple[Any, ...]:
    """Return what a step's kernel is called with."""
    a, b, c = arrays
    if step.biased:  # C of the epilogue is not read, beta is 0
        return (a, b, c, c, bias, 1.0, 0.0, *options)
    return (*arrays, *options)


# -- without a GPU


def print_resources(arch: str) -> None:
    """Print what each kernel needs of an architecture."""
    for step in STEPS:
        shapes = shapes_of(row_of(step.dtype))
        arrays = tuple(Ghost(*each) for each in shapes)
        bias = Ghost((shapes[-1][0][1],), (1,), step.dtype)
        made = arguments(step, arrays, step.options(*arrays), bias)
        print(step.name, cute.compile(cute.trace(step.kernel, *made), arch).resources)


# -- with one


def measured(torch: Any, dtype: str) -> list[dict[str, Any]]:
    """Return the records of the steps of a type, the peer's first."""
    row = row_of(dtype)
    operands.settings(torch, row)
    sets = operands.sets_of(torch, row)
    products = [operands.wanted(torch, row, each) for each in sets]
    bias = operands.make(torch, (row.shape[1],), (1,), dtype)
    biased = [torch.relu(each + bias.to(each.dtype)) for each in products]
    kind, wanted, timed = operands.tolerance_of(row), {PEER: products}, []
    timed.append(Timed(PEER, operands.peer(torch, row)))
    for step in (each for each in STEPS if each.dtype == dtype):
        wanted[step.name] = biased if step.biased else products
        timed.append(Timed(step.name, launcher(step, sets[0], bias)))
    for each in timed:  # a wrong result ends the run
        each.facts["error"] = harness.checked(torch, each.launch, sets, wanted[each.name], kind)
        harness.capture(torch, each, sets)
    harness.burst(torch, timed, harness.ROUNDS["burst"])
    for each in timed:
        each.facts["error_after"] = harness.checked(
            torch, each.launch, sets, wanted[each.name], kind
        )
        each.facts["call_us"] = call_time(torch, each, sets)
    return [record(row, each) for each in timed]


def launcher(step: Step, first: Any, bias: Any) -> Callable[..., Any]:
    """Return a step as a call with torch tensors, the way a user writes it."""
    options = step.options(*first)
    return lambda *arrays: step.kernel(*arguments(step, arrays, options, bias))


def call_time(torch: Any, timed: Timed, sets: list[Any]) -> float:
    """Return the time from a call on an idle GPU to its end (microseconds)."""
    found = []
    for index in range(CALLS):
        given = sets[index % len(sets)]
        torch.cuda.synchronize()
        began = time.perf_counter()
        timed.launch(*given)
        torch.cuda.synchronize()
        found.append((time.perf_counter() - began) * 1e6)
    return round(statistics.median(found), 1)


def record(row: Row, timed: Timed) -> dict[str, Any]:
    """Return what is kept of a kernel."""
    middle = timed.median("burst")
    return {
        "kernel": timed.name,
        "dtype": row.dtype,
        "us": round(middle, 1),
        "min_us": round(min(timed.us["burst"]), 1),
        "max_us": round(max(timed.us["burst"]), 1),
        "tflops": round(row.work / middle / 1e6, 2),
        **timed.facts,
    }


def measure(out: Path, seed: int | None) -> dict[str, Any]:
    """Measure all steps, write the result and print it."""
    import torch

    if not torch.cuda.is_available():
        sys.exit("no GPU")
    began, seed = time.perf_counter(), random.randrange(1 << 31) if seed is None else seed
    torch.manual_seed(seed)
    random.seed(seed)
    result = head(torch, command="python -m benchmarks.gpu.ladder", seed=seed)
    result["size"] = list(row_of("f32").shape)
    for dtype in ("f32", "f16"):
        result["rows"] += measured(torch, dtype)
        torch.cuda.empty_cache()
    result["seconds"] = round(time.perf_counter() - began, 1)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{result['seconds']} s\n\n{table(result)}")
    return result


# -- the page

BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->"
HEADER = (
    "| kernel | types | time | speed | of cuBLAS | a call |\n| --- | --- | --- | --- | --- | --- |"
)
PENDING = "Not measured yet."


def rows_of(result: dict[str, Any]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return each step's record with that of its peer."""
    peers = {each["dtype"]: each for each in result["rows"] if each["kernel"] == PEER}
    steps = [each for each in result["rows"] if each["kernel"] != PEER]
    return {each["kernel"]: (each, peers[each["dtype"]]) for each in steps}


def milliseconds(us: float) -> str:
    """Return a time with three digits."""
    return f"{us / 1e3:.3g} ms"


def table(result: dict[str, Any]) -> str:
    """Return the table of all steps, those of a type followed by cuBLAS."""
    lines, found = [HEADER], rows_of(result)
    for name, (own, peer) in found.items():
        ratio = f"{own['tflops'] / peer['tflops']:.2f}"
        lines.append(_line(name, own, ratio))
        if [each for each, (x, _) in found.items() if x["dtype"] == own["dtype"]][-1] == name:
            lines.append(_line("cuBLAS", peer, "1"))
    return "\n".join(lines)


def _line(name: str, own: dict[str, Any], ratio: str) -> str:
    cells = (
        name,
        own["dtype"],
        milliseconds(own["us"]),
        f"{own['tflops']:.3g} TFLOP/s",
        ratio,
        milliseconds(own["call_us"]),
    )
    return f"| {' | '.join(cells)} |"


def page_with(page: str, result: dict[str, Any] | None) -> str:
    """Return a page with the speeds of a result; None: none are measured.

    The table goes between its marks, and each step's speed into the line that ends with its mark,
    `<!-- gemm_01 -->`.
    """
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    shown = PENDING if result is None else f"{_where(result)}\n\n{table(result)}"
    found, last = {} if result is None else rows_of(result), None
    page = f"{before}{BEGIN}{shown}\n{END}{after}"
    for step in STEPS:
        said = PENDING
        if step.name in found:
            said = _speed(*found[step.name], found[last][0] if last in found else None)
        mark = f"<!-- {step.name} -->"
        page, count = re.subn(rf"^.*{mark}$", f"{said} {mark}", page, flags=re.MULTILINE)
        assert count == 1, step.name
        last = step.name
    return page


def _where(result: dict[str, Any]) -> str:
    device, day = result["device"].get("name", "a GPU"), result["date"][:10]
    m, n, k = result["size"]
    return f"{device}, {day}, M, N, K = {m}, {n}, {k}; the command took {result['seconds']:.0f} s."


def _speed(own: dict[str, Any], peer: dict[str, Any], before: dict[str, Any] | None) -> str:
    said = f"**Speed:** {own['tflops']:.3g} TFLOP/s, {own['tflops'] / peer['tflops']:.2f} of cuBLAS"
    if before is None:
        return f"{said}."
    return f"{said}; {own['tflops'] / before['tflops']:.2g} times {before['kernel']}."


# -- the command line


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="measure, and write the result")
    parser.add_argument("--from", dest="earlier", type=Path, help="a result that was written")
    parser.add_argument("--write", type=Path, help="the page to write the speeds into")
    parser.add_argument("--seed", type=int, help="of the operands; fresh if left out")
    parser.add_argument("--dry", action="store_true", help="compile alone, print resources")
    parser.add_argument("--arch", default="sm_90a", help="with --dry")
    options = parser.parse_args()
    if options.dry:
        print_resources(options.arch)
        return
    if options.out is None and options.earlier is None:
        parser.error("--out, --from or --dry is needed")
    if options.out is not None:
        result = measure(options.out, options.seed)
    else:
        result = json.loads(options.earlier.read_text(encoding="utf-8"))
        print(table(result))
    if options.write is not None:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(page_with(page, result), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
