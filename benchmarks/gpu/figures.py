"""From results to the pictures of docs/figures.md: SVG, light and dark as the system of the reader.

    python -m benchmarks.gpu.figures [--write docs/figures]

Reads `results/hopper.json` and `random.json` (of `benchmarks.gpu.family`), `ladder.json`,
`operators.json` and `attention.json`, and `device_model.json` where it is; needs no GPU. Without
`--write` it prints the rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu import ladder
from benchmarks.gpu.family import CASES, title
from benchmarks.gpu.users import KINDS, NAMES, PRODUCTS, RESULTS
from cute_py.analysis import model
from cute_py.ops.without_gpu import call_on, gpu_of

GPU = "one H200, torch 2.11"
STYLE = """
svg { --ink: #1b1f24; --soft: #57606a; --line: #d3d9e0; --card: #fff; }
svg { --win: #3b76c4; --loss: #c2571a; --peer: #a3abb5; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6e9ed; --soft: #9da7b3; --line: #3b424b; --card: #14171a; }
  svg { --win: #6fa8f0; --loss: #f0914f; --peer: #5d6670; }
}
text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.soft { fill: var(--soft); } .head { font-weight: 600; font-size: 15px; } .end { text-anchor: end; }
.mid { text-anchor: middle; } .card { fill: var(--card); } .win { fill: var(--win); }
.loss { fill: var(--loss); } .peer { fill: var(--peer); } .line { stroke: var(--line); }
.one { stroke: var(--soft); stroke-dasharray: 3 3; }
"""
WIDE, LEFT, RIGHT, TOP, ROW, GAP = 760, 300, 70, 56, 20, 12  # pixels


class Bar(NamedTuple):
    """A row of a chart: what was measured, its value, the numbers behind it, and its class."""

    label: str
    value: float
    told: str
    kind: str


Group = tuple[str, list[Bar]]
Place = Callable[[float], float]
TICKS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)  # us


# -- the rows


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _speed(label: str, ours: float, other: float, peer: str) -> Bar:
    """Return the row of two times (us)."""
    told = f"{ours:,.1f} us, {peer} {other:,.1f} us"
    return Bar(label, other / ours, told, "win" if other >= ours else "loss")


def gemm() -> list[Group]:
    """Return the speed of products against cuBLAS: by size, by type, by shape."""
    cases = {case.name: case for case in CASES}
    us = {record["case"]: record["us"]["burst"] for record in _read("hopper.json")}
    groups: dict[str, list[Bar]] = {"bf16, by size": [], "4096^3, by type": [], "bf16, others": []}
    for name in PRODUCTS:
        kind, _, problem = title(cases[name]).partition(" ")
        kind = KINDS.get(kind, kind)
        problem, _, peer = problem.partition(", against ")
        bar = _speed(problem, us[name]["ops.gemm"], us[name]["cuBLAS"], peer or "cuBLAS")
        if kind == "bf16" and problem.endswith("^3"):
            groups["bf16, by size"].append(bar)
        if problem.startswith("4096^3") and not peer:
            rest = problem.removeprefix("4096^3")
            groups["4096^3, by type"].append(bar._replace(label=f"{kind}{rest}"))
        elif kind == "bf16" and not problem.endswith("^3"):
            groups["bf16, others"].append(bar)
    groups["bf16, by size"].sort(key=lambda bar: int(bar.label.removesuffix("^3")))
    return list(groups.items())


def steps() -> list[Group]:
    """Return the speeds (TFLOP/s) of the steps of docs/write_a_gemm.md, cuBLAS's last."""
    words = {
        step.name: step.kernel.function.__module__.rpartition(step.name)[2] for step in ladder.STEPS
    }
    found: dict[str, list[Bar]] = {}
    for row in _read("ladder.json")["rows"]:
        ours = row["kernel"] != "torch"
        label = f"{row['kernel']}{words[row['kernel']].replace('_', ' ')}" if ours else "cuBLAS"
        told = f"{row['tflops']:,.1f} TFLOP/s, {row['us']:,.1f} us"
        found.setdefault(f"4096^3 of {row['dtype']}, TFLOP/s", []).append(
            Bar(label, row["tflops"], told, "win" if ours else "peer")
        )
    return [(name, [*bars[1:], bars[0]]) for name, bars in found.items()]


def operators() -> list[Group]:
    """Return the speed of the other operators against torch, bf16 and f32, in their order."""
    groups: dict[str, list[Bar]] = {"bf16": [], "f32": []}
    for record in _read("operators.json")["rows"]:
        for full, short in (("bfloat16", "bf16"), ("float32", "f32")):
            words, found, problem = record["row"].partition(f" {full} ")
            if found:
                name = NAMES.get(words, words.replace("backward", "derivative"))
                label = f"{name} {problem}"
                bar = _speed(label, record["ours_us"], record["torch_us"], "torch")
                groups[short].append(bar)
    return list(groups.items())


def attention() -> list[Group]:
    """Return the speed of attention against the fastest backend of torch, by type."""
    groups: dict[str, list[Bar]] = {"f16": [], "bf16": []}
    for record in _read("attention.json")["rows"]:
        us = {name: row["burst us"] for name, row in record["rows"].items()}
        ours, words = us.pop("ours"), record["case"].split()
        if us:
            (kind,) = groups.keys() & set(words)
            peer = min(us, key=us.__getitem__)
            label = " ".join([word for word in words if word != kind])
            groups[kind].append(_speed(label, ours, us[peer], peer))
    return list(groups.items())


def products() -> list[tuple[str, float, float]]:
    """Return random products: name, the time of cuBLAS (us), and our speed against it."""
    found = []
    for record in _read("random.json"):
        us = record["us"]["burst"]
        found.append((record["case"], us["cuBLAS"], us["cuBLAS"] / us["ops.gemm"]))
    return found


def predicted(shape: tuple[int, int, int]) -> model.Prediction:
    """Return what the analytic model says of a product of bf16 on an H200, with the tile that the
    rule chooses; blocks of a cluster share one, as they load it once.
    """
    config: Any = call_on(gpu_of("sm_90a"), shape, "bf16").config
    m, n, *_ = getattr(config, "tile", (1, 1))
    shared = getattr(config, "cluster", 1)
    tile = (m * shared, n) if m <= n else (m, n * shared)
    return model.predict(model.H200, shape, tile, blocks_each=1 / shared, bytes=2)


def modelled() -> list[Group]:
    """Return speeds (TFLOP/s) by size, predicted and measured: cute.ops.gemm, and gemm_04."""
    us = {record["case"]: record["us"]["burst"]["ops.gemm"] for record in _read("hopper.json")}
    sizes = sorted(int(case) for case in us if case.isdecimal())
    large = [(n, predicted((n, n, n)), 2 * n**3 / us[str(n)] / 1e6) for n in sizes]
    small = [
        (n, model.predict(model.H200, (n, n, n), (128, 128), blocks_each=2), speed)
        for n, speed in _of_gemm_04()
    ]
    groups = {"bf16, cute.ops.gemm": large, "f32, gemm_04": small}
    return [(name, [bar for x in found for bar in _pair(*x)]) for name, found in groups.items()]


def _of_gemm_04() -> list[tuple[int, float]]:
    """Return sizes and speeds (TFLOP/s), of all sizes where these were measured."""
    if (RESULTS / "device_model.json").is_file():
        return [(x["size"], x["tflops"]) for x in _read("device_model.json")["products"]]
    rows = _read("ladder.json")["rows"]
    return [(4096, row["tflops"]) for row in rows if row["kernel"] == "gemm_04"]


def _pair(n: int, found: model.Prediction, speed: float) -> list[Bar]:
    said = found.tflops * 2**40 / 1e12
    label = f"{n}^3, predicted" + ("" if found.valid else ", not valid")
    return [
        Bar(label, said, str(found), "peer"),
        Bar(f"{n}^3, measured", speed, f"{speed / said:.2f} of it", "win"),
    ]


def judged() -> list[tuple[str, float, float]]:
    """Return random products: name, the predicted time (us), and the speed of it that we reach."""
    rows = []
    for record in _read("random.json"):
        M, N, K = map(int, record["case"].split("x"))
        found = predicted((M, N, K))
        us = 2 * M * N * K / (found.tflops * 2**40) * 1e6
        name = record["case"] + ("" if found.valid else ", not valid")
        rows.append((name, us, us / record["us"]["burst"]["ops.gemm"]))
    return rows


# -- drawing


def page(name: str, height: float, body: Iterable[str]) -> str:
    """Return an SVG of this title and height."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {height:g}" role="img">',
            f"<title>{escape(name)}</title><style>{STYLE}</style>",
            f'<rect class="card" width="{WIDE}" height="{height:g}" rx="6"/>',
            f'<text class="head" x="16" y="28">{escape(name)}</text>',
            *body,
            "</svg>",
            "",
        ]
    )


def bars(name: str, groups: list[Group], *, ratios: bool = True) -> str:
    """Return horizontal bars in groups: ratios on one logarithmic scale, both ways from 1, or else
    each group from 0.
    """
    body, y = [], float(TOP)
    values = [1.0, *[bar.value for _, each in groups for bar in each]]
    for group, each in groups:
        place = _logarithmic(values) if ratios else _linear([bar.value for bar in each])
        zero = place(1.0 if ratios else 0.0)
        body.append(f'<text class="soft" x="16" y="{y:g}">{escape(group)}</text>')
        y += GAP
        top = y
        for bar in each:
            begin, end = sorted((zero, place(bar.value)))
            shown = f"{bar.value:.2f}x" if ratios else f"{bar.value:,.1f}"
            body += [
                f"<g><title>{escape(f'{bar.label}: {shown} ({bar.told})')}</title>",
                f'<text class="end" x="{LEFT - 8}" y="{y + 14:g}">{escape(bar.label)}</text>',
                f'<rect class="{bar.kind}" x="{begin:.2f}" y="{y + 3:g}" '
                f'width="{end - begin:.2f}" height="{ROW - 6}"/>',
                f'<text x="{max(end, zero) + 6:.2f}" y="{y + 14:g}">{shown}</text></g>',
            ]
            y += ROW
        if ratios:
            body.append(_line("one", zero, zero, top, y))
        y += 2 * GAP
    return page(name, y, body)


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.2f}" x2="{x2:.2f}" y1="{y1:.2f}" y2="{y2:.2f}"/>'


def _linear(values: list[float]) -> Place:
    """Return the function from a value to its place, from 0."""
    most = max(values)
    return lambda x: LEFT + (WIDE - LEFT - RIGHT) * x / most


def _logarithmic(values: list[float], left: float = LEFT, right: float = WIDE - RIGHT) -> Place:
    """Return the function from a value to its place, of the logarithm."""
    low, high = log10(min(values)), log10(max(values))
    return lambda x: left + (right - left) * (log10(x) - low) / (high - low)


def points(name: str, found: list[tuple[str, float, float]], other: str = "cuBLAS") -> str:
    """Return our speed (up) over the time that another takes (to the right, logarithmic)."""
    high, left, right, top = 300, 60, WIDE - 24, 48
    times, speeds = [us for _, us, _ in found], [speed for *_, speed in found]
    least, most = floor(10 * min(speeds)) / 10, ceil(10 * max(speeds)) / 10
    across = _logarithmic(times, left, right)

    def up(speed: float) -> float:
        return top + high * (most - speed) / (most - least)

    body = []
    for speed in [k / 10 for k in range(round(10 * least), round(10 * most) + 1, 2)]:
        y = up(speed)
        body.append(_line("line", left, right, y, y))
        body.append(f'<text class="soft end" x="{left - 8}" y="{y + 4:.2f}">{speed:.1f}x</text>')
    for us in [us for us in TICKS if min(times) <= us <= max(times)]:
        x, y = across(us), top + high + 20
        body.append(f'<text class="soft mid" x="{x:.2f}" y="{y}">{us:,} us</text>')
    body.append(_line("one", left, right, up(1), up(1)))
    for case, us, speed in found:
        kind = "win" if speed >= 1 else "loss"
        told = escape(f"{case}: {speed:.2f}x, {other} {us:,.1f} us")
        place = f'cx="{across(us):.2f}" cy="{up(speed):.2f}"'
        body.append(f'<circle class="{kind}" {place} r="4"><title>{told}</title></circle>')
    y = top + high + 40
    body.append(f'<text class="soft end" x="{right}" y="{y}">time of {other}</text>')
    return page(name, y + 16, body)


# names of files -> their contents
FIGURES: dict[str, Callable[[], str]] = {
    "gemm.svg": lambda: bars(f"cute.ops.gemm: speed against cuBLAS ({GPU})", gemm()),
    "random.svg": lambda: points(
        f"90 random products of bf16: speed against cuBLAS ({GPU})", products()
    ),
    "ladder.svg": lambda: bars("Twelve steps to a fast product (one H200)", steps(), ratios=False),
    "model.svg": lambda: bars(
        "Predicted and measured: TFLOP/s (one H200)", modelled(), ratios=False
    ),
    "model_random.svg": lambda: points(
        "90 random products of bf16: measured speed over predicted (one H200)",
        judged(),
        "the model",
    ),
    "operators.svg": lambda: bars(f"Other operators: speed against torch ({GPU})", operators()),
    "attention.svg": lambda: bars(
        f"cute.ops.attention: speed against the fastest backend of torch ({GPU})", attention()
    ),
}


def main() -> None:
    """Print the rows, or write the pictures to a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, help="a folder for the pictures")
    options = parser.parse_args()
    if options.write is None:
        for group, each in (*gemm(), *steps(), *modelled(), *operators(), *attention()):
            print(
                group, *[f"  {bar.label}: {bar.value:.2f} ({bar.told})" for bar in each], sep="\n"
            )
        return
    options.write.mkdir(parents=True, exist_ok=True)
    for name, made in FIGURES.items():
        (options.write / name).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main()
