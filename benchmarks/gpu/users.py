"""From results to the tables of docs/performance.md and docs/attention.md: what a user gets.

    python -m benchmarks.gpu.users [--write docs/performance.md docs/attention.md]

It reads `results/hopper.json` (of `benchmarks.gpu.family --operator`), `results/operators.json` (of
`benchmarks.gpu.operators`), and `results/attention.json`, `attention_varlen.json` and `decode.json`
(of the benchmarks of these names).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.gpu import report
from benchmarks.gpu.family import CASES, title

RESULTS = Path(__file__).parents[1] / "results"
MARKS = "<!-- users: begin -->", "<!-- users: end -->"
OF_ATTENTION = "<!-- attention: begin -->", "<!-- attention: end -->"
HEAD = "operator", "type", "problem", "ours", "torch", "speed"
PRODUCTS = (  # names of cases
    *("4096", "8192", "2048", "1024", "512", "5000", "8192x8192x512", "4095x4097x4104"),
    *("1x4096x4096", "16x4096x4096", "16x14336x4096", "128x4096x14336", "1024x1024x16384"),
    *("512x512x65536", "gelu", "beta", "4096-f16", "tf32-4096", "fp8-4096", "fp8-2-4096"),
    *("s8-4096", "f32-1024", "f32-4096", "f64-4096"),
)
BF16 = (
    *("transpose (8192, 8192)", "transpose (64, 1000, 700)", "softmax (8192, 4096) along -1"),
    *("softmax (8192, 4096) along 0", "softmax (65536, 128) along -1"),
    *("softmax (1024, 50257) along -1", "softmax (16, 1000003) along -1"),
    *("add (8192, 4096) along -1", "add (8192, 4096) along 0", "add (8192, 4096) along None"),
    *("add (16, 1000003) along -1", "add (32, 256, 56, 56) along (0, 2, 3)"),
    *("max (8192, 4096) along -1", "max (8192, 4096) along 0", "max (67108864,) along None"),
    *("gelu 4096x4096", "gelu backward 4096x4096", "relu 4096x4096"),
)
F32 = (
    *("transpose (8192, 8192)", "softmax (8192, 4096) along -1", "add (8192, 4096) along -1"),
    *("add (8192, 4096) along 0", "gelu 4096x4096"),
)
KINDS = {"s8": "int8", "tf32": "TF32"}
OF_CASES = "attention.json", "attention_varlen.json", "decode.json"
PEERS = {"cuDNN": "cuDNN", "FA2": "FlashAttention-2", "efficient": "memory-efficient"}
NAMES = {"add": "reduce, sum", "max": "reduce, max"}


def lines() -> list[tuple[str, ...]]:
    """Return the cells of all rows."""
    return [*_products(), *_attention(), *_others()]


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _products() -> list[tuple[str, ...]]:
    cases = {case.name: case for case in CASES}
    us = {record["case"]: record["us"]["burst"] for record in _read("hopper.json")}
    found = []
    for name in PRODUCTS:
        kind, _, problem = title(cases[name]).partition(" ")
        found.append(_cells("gemm", kind, problem, us[name]["ops.gemm"], us[name]["cuBLAS"]))
    return found


def _attention() -> list[tuple[str, ...]]:
    """Return the rows of bf16; torch's fastest way is cuDNN there."""
    found = []
    for record in _read("attention.json")["rows"]:
        ours, theirs = (record["rows"].get(name) for name in ("ours", "cuDNN"))
        if " bf16" in record["case"] and theirs is not None:
            problem = record["case"].replace(" bf16", "")
            found.append(_cells("attention", "bf16", problem, ours["burst us"], theirs["burst us"]))
    return found


def attention_lines() -> list[tuple[str, ...]]:
    """Return the cells of all cases of attention: times in burst, and speeds in both ways."""
    found = []
    for record in [x for name in OF_CASES for x in _read(name)["rows"]]:
        rows = record["rows"]
        ours, cells = rows["ours"], [record["case"], f"{rows['ours']['burst us']:.0f} us"]
        for name in PEERS:
            if name not in rows:
                cells.append("")
                continue
            both = [rows[name][f"{way} us"] / ours[f"{way} us"] for way in ("burst", "sustained")]
            cells.append(", ".join(f"**{x:.2f}x**" if x < 1 else f"{x:.2f}x" for x in both))
        found.append(tuple(cells))
    return found


def _others() -> list[tuple[str, ...]]:
    records = {record["row"]: record for record in _read("operators.json")["rows"]}
    found = []
    for kind, full, names in (("bf16", "bfloat16", BF16), ("f32", "float32", F32)):
        for name in names:
            words, _, problem = name.partition(" (") if "(" in name else name.rpartition(" ")
            problem = f"({problem}" if "(" in name else problem
            record = records[f"{words} {full} {problem}"]
            shown = NAMES.get(words, words.replace("backward", "derivative"))
            found.append(_cells(shown, kind, problem, record["ours_us"], record["torch_us"]))
    return found


def _cells(name: str, kind: str, problem: str, ours: float, other: float) -> tuple[str, ...]:
    times = [f"{x:.1f} us" if x < 1000 else f"{x / 1000:.2f} ms" for x in (ours, other)]
    speed = f"{other / ours:.2f}x"
    return name, KINDS.get(kind, kind), problem, *times, f"**{speed}**" if ours > other else speed


def _table(*rows: tuple[str, ...]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def markdown() -> str:
    """Return the table of all operators as Markdown; losses are bold."""
    return _table(HEAD, ("---",) * len(HEAD), *lines())


def attention_markdown() -> str:
    """Return the table of attention as Markdown: how many times as fast as torch's backends."""
    head = "case", "ours", *(f"against {name}" for name in PEERS.values())
    return _table(head, ("---",) * len(head), *attention_lines())


TABLES = {MARKS: markdown, OF_ATTENTION: attention_markdown}


def main() -> None:
    """Print the tables, or write them between the marks of pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    pages = "pages with the marks of the tables"
    parser.add_argument("--write", type=Path, nargs="*", default=[], help=pages)
    options = parser.parse_args()
    for marks, table in TABLES.items():
        if not options.write:
            print(table())
        for page in options.write:
            if marks[0] in page.read_text(encoding="utf-8"):
                report.write(page, table(), marks)


if __name__ == "__main__":
    main()
