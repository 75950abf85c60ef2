"""Measure the rule for Hopper on random products: its choice against all configurations it has.

    python -m benchmarks.gpu.rule --out FILE [--seed 1] [--groups tn:60 gelu ...]
    python -m benchmarks.gpu.rule --dry [--groups NAME ...]       (compiles; needs no GPU)
    python -m benchmarks.gpu.rule --table FILE                    (prints the table of a result)

FILE keeps the products that the rule was fitted to, and gets those of a run as "held out": of a
seed that its fit has not seen. Those that were held out before stay so, or are "fitted" from then
on if a fit has used them ("used"). Each configuration is timed by what `cute.tune` uses, on
operands that the L2 cache does not hold, after a rest. A ratio is the least time over that of the
rule's choice: 1 is the best choice. Names of configurations have the stages, as the kernel of
another time may have others; "whole": it loaded all rows of A of a tile of 64, those outside too.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu.family import CASES, TORCH, Job, compiled, made
from cute_py.codegen.build import UNLIMITED
from cute_py.kernels.config_sm90 import WarpgroupConfig
from cute_py.kernels.epilogue import LinearCombination
from cute_py.ops import gemm_tiles_sm90
from cute_py.ops.libraries import Gpu

H200 = Gpu(232448, 132, (9, 0))
REST = 0.002  # seconds before each measurement
LEAST = 0.97


class Group(NamedTuple):
    """A kind of products, and how many of them are drawn.

    Attributes:
        kind, result: types of A and B, and of D.
        majors: which mode of A and of B is contiguous.
        terms: what follows: "gelu", with a bias; "beta", C; "" nothing.
        fast: sums of 8-bit floats in the tensor cores alone.
        unit: sizes are multiples of it.
        count: of products.
    """

    kind: str = "bf16"
    result: str = "bf16"
    majors: tuple[str, str] = ("K", "K")
    terms: str = ""
    fast: bool = False
    unit: int = 64
    count: int = 6

    @property
    def overlaps(self) -> tuple[int, ...]:
        """Values of `pdl` that are compiled: of larger units, kernels without it are compared."""
        return (0, 1) if self.unit == 8 else (0,)

    @property
    def epilogue(self) -> LinearCombination:
        """What happens to the sums."""
        compute = "s32" if self.kind == "s8" else "f32"
        gelu, beta = self.terms == "gelu", self.terms == "beta"
        return LinearCombination(compute, False, beta, gelu, "gelu" if gelu else None)


GROUPS = {
    "tn": Group(unit=8, count=40),
    "table": Group(unit=8),  # the products of 16 bits of docs/measurements.md
    "nn": Group(majors=("K", "MN")),
    "nt": Group(majors=("MN", "MN")),
    "tt": Group(majors=("MN", "K")),
    "tf32": Group("tf32", "f32"),
    "fp8": Group("e4m3", fast=True),
    "fp8-2": Group("e4m3"),
    "s8": Group("s8", "s32"),
    "f32": Group(result="f32"),
    "gelu": Group(terms="gelu"),
    "beta": Group(terms="beta"),
}


def drawn(name: str, seed: int, count: str) -> list[tuple[int, int, int]]:
    """Return the sizes of the products of a group: 128 to 9,216, those of 8 units or more."""
    if name == "table":
        usual = "bf16", ("K", "K"), "bf16", ""
        known = [(c, (c.kind, c.majors, c.result, c.epilogue)) for c in CASES if c.variants]
        return [c.shape for c, facts in known if facts == usual]
    group, generator = GROUPS[name], random.Random(f"{name} {seed}")

    def size() -> int:
        return group.unit * round(128 * 72 ** generator.random() / group.unit)

    return [(size(), size(), size()) for _ in range(int(count or group.count))]


def configurations(name: str) -> set[WarpgroupConfig]:
    """Return what may be chosen for products of a group."""
    group, found = GROUPS[name], set()
    kinds = (as_dtype(group.kind),) * 2
    pitches = (128, 16) if group.unit == 8 else (128,)  # 16: clusters too
    for pitch, size in product(pitches, (4096, 512)):  # 512: K in parts too
        problem = gemm_tiles_sm90.ProductFacts(
            (size, size, 8192), 1, kinds, group.majors, (pitch, pitch), as_dtype(group.result),
            group.epilogue, group.fast, H200, source_by_tma=True,
        )  # fmt: skip
        configs = [x.config for x in gemm_tiles_sm90.candidates(problem)]
        found |= {replace(c, pdl=pdl) for c, pdl in product(configs, group.overlaps)}
    return found


def as_dtype(name: str) -> Any:
    """Return a type by its name."""
    import cute_py as cute

    return cute.dtype(name)


def all_compiled(names: list[str]) -> dict[Job, Any]:
    """Compile all configurations of groups, on all cores; they stay in the cache of kernels."""
    jobs = {
        Job(config, (GROUPS[n].kind, GROUPS[n].result), GROUPS[n].epilogue)
        for n in names
        for config in configurations(n)
    }
    ordered = sorted(jobs, key=str)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(16, os.cpu_count() or 1), mp_context=context) as pool:
        found = pool.map(partial(compiled, spill_bytes=UNLIMITED), ordered)
        done = dict(zip(ordered, found, strict=True))
    for job, (found, why, _seconds) in done.items():
        if found is None:
            print("not compiled:", job.config, why[:200])
    return {job: found for job, (found, _why, _seconds) in done.items() if found is not None}


def label(config: WarpgroupConfig) -> str:
    """Return the name of a configuration in results, with its stages: "pp 128x176 s4", "256x152 in
    parts, cluster s4", "128x64, K in 2 parts s8".
    """
    m, n, _k = config.tile
    text = "pp " * (config.schedule == "pingpong") + f"{m}x{n}"
    if config.split > 1:
        text += f", K in {config.split} parts"
    else:
        text += " in parts" * (n > 64 and config.store == 64) + ", cluster" * (config.cluster > 1)
    return f"{text} s{config.stages}"


def measured(torch: Any, name: str, shape: tuple[int, int, int], built: Any) -> dict[str, Any]:
    """Return the record of a product: the times of all configurations, the rule's first."""
    import cute_py as cute
    from cute_py.ops.choice import all_for
    from cute_py.ops.measurement import measured as times_of
    from cute_py.ops.product import Product, Request, taken

    group, (M, N, K) = GROUPS[name], shape
    kind, result = (getattr(torch, TORCH[x]) for x in (group.kind, group.result))

    def operand(rows: int, columns: int, along: bool) -> Any:
        shape = (rows, columns) if along else (columns, rows)
        x = torch.empty(shape, dtype=kind, device="cuda")
        x = x if along else x.T
        return cute.typed(x, "tf32") if group.kind == "tf32" else x

    a, b = operand(M, K, group.majors[0] == "K"), operand(K, N, group.majors[1] != "K")
    out = torch.empty((M, N), dtype=result, device="cuda")
    terms: dict[str, Any] = {"fast_accum": group.fast}
    if group.terms == "gelu":
        terms |= {"bias": torch.empty(N, dtype=result, device="cuda"), "activation": "gelu"}
    if group.terms == "beta":
        terms |= {"c": torch.empty((M, N), dtype=result, device="cuda"), "beta": 1}
    given, library = taken(Request(a, b, out=out, **terms))
    asked = Product(given, library)
    calls = {}
    for config in all_for(asked):  # the rule's choice first
        config = replace(config, pdl=min(config.pdl, group.overlaps[-1]), reasons=())
        job = Job(config, (group.kind, group.result), asked.epilogue())
        if isinstance(config, WarpgroupConfig) and job in built:
            call = asked.call((config, asked.epilogue()))
            calls[label(config)] = replace(call, known=built[job].plan)
    if not calls:
        raise ValueError(f"no kernel of the family is compiled for {shape}")
    times = dict(zip(calls, times_of(list(calls.values()), REST), strict=True))
    return {"group": name, "shape": shape, "us": {k: round(x, 3) for k, x in times.items()}}


# -- the table


def ratio(record: dict[str, Any]) -> float:
    """Return the least time over that of the rule's choice, which is the first."""
    times = list(record["us"].values())
    return float(min(times) / times[0])


def line(record: dict[str, Any]) -> str:
    """Return the line of a product."""
    times, shape = record["us"], "x".join(map(str, record["shape"]))
    best, rule = min(times, key=times.__getitem__), next(iter(times))
    text = f"{record['group']:6} {shape:17} {ratio(record):.3f} {rule} {times[rule]:.2f}"
    return text if best == rule else f"{text}; {best} {times[best]:.2f}"


def table(records: list[dict[str, Any]]) -> str:
    """Return a line for each group: how near the rule's choices are to the best."""
    found = [f"{'group':8} products   mean  worst  below {LEAST}"]
    for name in dict.fromkeys(x["group"] for x in records):
        ratios = [ratio(x) for x in records if x["group"] == name]
        mean, below = statistics.geometric_mean(ratios), sum(x < LEAST for x in ratios)
        found.append(f"{name:8} {len(ratios):8} {mean:6.3f} {min(ratios):6.3f} {below:6}")
    return "\n".join(found)


def updated(
    known: dict[str, Any], facts: dict[str, Any], records: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a result with more products held out; those of before are fitted if a fit used them.

    >>> updated({"fitted": [1], "held out": [2], "used": True}, {"torch": "2.11"}, [3])
    {'fitted': [1, 2], 'held out': [3], 'used': False, 'torch': '2.11'}
    >>> updated({"fitted": [1], "held out": [2], "used": False}, {}, [3])
    {'fitted': [1], 'held out': [2, 3], 'used': False}
    """
    fitted, before = known.get("fitted", []), known.get("held out", [])
    if known.get("used"):
        fitted, before = [*fitted, *before], []
    return known | {"fitted": fitted, "held out": [*before, *records], "used": False} | facts


def written(result: dict[str, Any]) -> str:
    """Return a result as JSON, a line for each product."""
    parts = {key: json.dumps(x) for key, x in result.items()}
    for name, records in result.items():
        if isinstance(records, list):
            lines = ",\n".join([json.dumps(x) for x in records])
            parts[name] = f"[\n{lines}\n]"
    return "{\n" + ",\n".join([f'"{key}": {x}' for key, x in parts.items()]) + "\n}\n"


def with_rows(texts: list[str]) -> None:
    """Let the rule choose among more rows, given as in `family`: "pp 128x160 c"."""
    more = []
    for text in texts:
        config = made(text, "bf16", ("K", "K"), "bf16").config
        m, n, _k = config.tile
        in_parts = config.store < n
        more.append(
            gemm_tiles_sm90.Row(m, n, config.warpgroups, config.schedule, in_parts=in_parts)
        )
    gemm_tiles_sm90.ROWS = (*gemm_tiles_sm90.ROWS, *more)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the table of a result")
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), help="NAME, or NAME:COUNT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--also", nargs="+", default=[], help="more rows to try: pp 128x160 c")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    if options.table:
        records = json.loads(options.table.read_text(encoding="utf-8"))["held out"]
        print(*map(line, records), table(records), sep="\n")
        return
    began, records = time.perf_counter(), []
    groups = {name: count for name, _, count in (x.partition(":") for x in options.groups)}
    with_rows(options.also)
    os.environ["CUTE_PY_CACHE_DIR"] = tempfile.mkdtemp()  # nothing is tuned there
    built = all_compiled(list(groups))
    print(f"{len(built)} compiled in {time.perf_counter() - began:.1f} s", flush=True)
    if options.dry:
        return
    import torch

    from cute_py.codegen.launch import run

    run._compiled |= {(id(x.plan), x.arch): (x.plan, x) for x in built.values()}
    for name, count in groups.items():
        for shape in drawn(name, options.seed, count):
            if time.perf_counter() - began > options.seconds:
                continue
            records.append({"seed": options.seed, **measured(torch, name, shape, built)})
            print(line(records[-1]), flush=True)
    print(table(records), f"{time.perf_counter() - began:.0f} s", sep="\n")
    if options.out:
        facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        known = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
        options.out.write_text(written(updated(known, facts, records)), encoding="utf-8")


if __name__ == "__main__":
    main()
