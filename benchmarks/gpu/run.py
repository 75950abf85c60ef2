"""Measure rows of the table on a GPU, and print them.

    python -m benchmarks.gpu.run --out FILE [--rows NAME ...] [--modes burst sustained]
        [--rounds N] [--screen | --best-only [FILE]] [--seconds S]
    python -m benchmarks.gpu.run --dry [--rows NAME ...]     (needs no GPU)

Names are those of rows or groups; rows that these are compared with are measured too. FILE is
written after each row.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import sys
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import cute_py as cute
from benchmarks.gpu import cases, compile_time, harness, host, measuring, report
from benchmarks.gpu.building import Built, Job, build_all
from benchmarks.gpu.candidates import Candidate, candidates, limited
from benchmarks.gpu.cases import Row

PACKAGES = ("torch", "triton", "cupy-cuda13x", "numba", "numba-cuda", "numpy")


def main() -> None:
    """Run the command line."""
    options = _options()
    try:
        rows = cases.selected(options.rows)
    except KeyError as error:
        sys.exit(f"--rows: {error.args[0]}")
    tried = {row.name: _tried(row, options) for row in rows}
    jobs = [Job(each, row) for row in rows for each in tried[row.name] if not each.called]
    began = time.perf_counter()
    built = build_all(jobs, options.arch, options.processes)
    print(f"{len(built)} kernels built in {time.perf_counter() - began:.1f} s", flush=True)
    if options.dry:
        _print_resources(rows, tried, built)
        return
    _measure(rows, tried, built, options)


def _command(given: list[str]) -> str:
    """Return the command line; of files the name alone."""
    return " ".join(["python -m benchmarks.gpu.run", *[Path(x).name for x in given]])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--modes", nargs="+", default=["burst", "sustained"])
    parser.add_argument("--rounds", type=int, help="of each mode (10 burst, 30 sustained)")
    parser.add_argument("--screen", action="store_true", help="all candidates, 3 rounds of burst")
    parser.add_argument(
        "--best-only",
        nargs="?",
        const="",
        metavar="FILE",
        help="only the best of an earlier result, else the first candidate",
    )
    parser.add_argument("--keep", type=int, default=2, help="candidates measured after the screen")
    parser.add_argument("--row-seconds", type=float, default=20, help="of the screen of one row")
    parser.add_argument("--seconds", type=float, default=300, help="no row begins after these")
    parser.add_argument("--spill", type=int, help="bytes that may spill, instead of the own limits")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--processes", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dry", action="store_true", help="compile alone, print resources")
    options = parser.parse_args()
    if not options.dry and options.out is None:
        parser.error("--out is needed")
    return options


def _tried(row: Row, options: argparse.Namespace) -> list[Candidate]:
    made = limited(candidates(row), options.spill)
    if options.best_only is None:
        return made
    if not options.best_only:
        return made[:1]
    earlier = {x["row"]: x for x in json.loads(Path(options.best_only).read_text())["rows"]}
    best = report.best(earlier.get(row.name, {}), row)
    return [c for c in made if best is not None and c.label == best["kernel"]] or made[:1]


# -- without a GPU


def _print_resources(rows: list[Row], tried: dict[str, Any], built: dict[Any, Built]) -> None:
    """Print what each candidate needs, or why it is refused."""
    seen = set()
    for row in rows:
        for candidate in tried[row.name]:
            if candidate.called:
                print(f"{row.name:22} {candidate.label:42} chooses on the device")
                continue
            key = Job(candidate, row).key
            if key in seen:
                continue
            seen.add(key)
            job = built[key]
            shown = job.refused.split(";")[0]
            if job.compiled is not None:
                r = job.compiled.resources
                shown = f"{r.registers:4} registers {r.spill_bytes:4} spilled {r.smem_bytes:7} smem"
            print(f"{row.name:22} {candidate.label:42} {shown}")


# -- with one


def _measure(rows: list[Row], tried: Any, built: dict[Any, Built], options: Any) -> None:
    import torch

    if not torch.cuda.is_available():
        sys.exit("no GPU")
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    given = {"modes": options.modes, "seed": options.seed}
    result = head(torch, command=_command(sys.argv[1:]), **given)
    keep = 0 if options.screen else options.keep
    plan = measuring.Plan(tuple(options.modes), options.rounds, keep, options.row_seconds)
    began = time.perf_counter()
    for row in rows:
        if time.perf_counter() - began > options.seconds:
            result["rows"].append({"row": row.name, "failed": "not begun: time is up"})
            continue
        result["rows"].append(_one(torch, row, tried[row.name], built, plan))
        torch.cuda.empty_cache()
        print(_short(row, result["rows"][-1]), flush=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    result["seconds"] = round(time.perf_counter() - began, 1)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"\n{result['seconds']} s\n")
    print(report.table(result))


def _one(torch: Any, row: Row, made: Any, built: Any, plan: Any) -> dict[str, Any]:
    """Return the record of a row; a failure is recorded, and the others go on."""
    try:
        if row.kind == "host":
            return host.measured(torch, row)
        if row.kind == "compile":
            return compile_time.measured()
        return measuring.measured(torch, row, built, made, plan)
    except Exception as error:
        traceback.print_exc()
        return {"row": row.name, "failed": f"{type(error).__name__}: {error}"[:500]}


def _short(row: Row, record: dict[str, Any]) -> str:
    found = report.best(record, row)
    said = record.get("failed", "nothing measured") if found is None else found["kernel"]
    return f"{row.name:22} {said}  ({record.get('seconds', 0)} s)"


def head(torch: Any, **given: Any) -> dict[str, Any]:
    """Return what a result begins with: the device, versions, the date, and what is given."""
    return {
        "device": harness.device_state(),
        "sms": torch.cuda.get_device_properties(0).multi_processor_count,
        "cuda": torch.version.cuda,
        "versions": {"cute-py": cute.__version__, **{name: _version(name) for name in PACKAGES}},
        "python": sys.version.split()[0],
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **given,
        "rows": [],
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
