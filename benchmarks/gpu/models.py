"""What models gain or lose when `cute_py.torch.Linear` takes the place of torch's: steps a second.

    python -m benchmarks.gpu.models --out FILE [--seconds 150] [--rows gpt,llama]

The models of `examples/` run in one process with torch's products and with ours, in turns, in
windows of a quarter of a second between two readings of the clock; medians. First they must agree:
losses of training, logits of inference. Rows for which no time is left are named.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

from examples.common import seconds_each

WINDOW, WINDOWS, CHECKED = 0.25, 7, 10  # seconds; windows of each; steps that are compared
LOSS, LOGITS = 0.02, 0.03  # relative to the first loss; relative in the Frobenius norm
GRAPHED = "reduce-overhead"


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        name: of the row.
        make: (torch or cute) -> a function that makes a step.
        trains: whether it returns losses, which are compared, else logits or words.
        needs: about how many seconds it takes.
    """

    name: str
    make: Callable[[str], Callable[[], Any]]
    trains: bool
    needs: float


class Sizes(NamedTuple):
    """Arguments of the models, and where they run."""

    device: str = "cuda"
    gpt: Any = {"width": 384, "depth": 6, "length": 256, "batch": 64}  # noqa: RUF012
    vit: Any = {"width": 768, "depth": 12, "batch": 64}  # noqa: RUF012
    llama: Any = {"width": 4096, "depth": 4, "words": 128256}  # noqa: RUF012
    texts: Any = ((1, 1), (1, 128), (4, 512))
    decoded: int = 64
    modes: Any = ("eager", "compile", GRAPHED, "graphs")


TINY = Sizes(
    "cpu",
    {"width": 32, "depth": 1, "length": 8, "batch": 2},
    {"width": 64, "depth": 1, "batch": 1},
    {"width": 128, "depth": 1, "words": 64},
    ((1, 1), (1, 4)),
    3,
    ("eager",),
)


def rows(sizes: Sizes) -> list[Row]:
    """Return all rows, those first that need little time."""
    from examples import gpt, llama, vit

    device, found, models = sizes.device, list[Row](), dict[str, Any]()

    def trained(mode: str, **more: bool) -> Callable[[str], Callable[[], Any]]:
        def make(linear: str) -> Callable[[], Any]:
            ours = {"gelu": linear == "cute"} if "gelu" in more else {}
            return gpt.training(linear, mode, device, **(sizes.gpt | more | ours))

        return make

    def of_llama(make: Callable[..., Any], *args: Any) -> Callable[[str], Callable[[], Any]]:
        def made(linear: str) -> Callable[[], Any]:
            if linear not in models:
                models[linear] = llama.made(linear, device, **sizes.llama)
            return make(models[linear], "eager", *args)

        return made

    def of_vit(backward: bool) -> Callable[[str], Callable[[], Any]]:
        return lambda linear: vit.running(linear, "eager", device, **sizes.vit, backward=backward)

    found.append(Row("gpt eager", trained("eager"), True, 8))
    found.append(Row("gpt eager autocast", trained("eager", autocast=True), True, 8))
    found.append(Row("gpt eager gelu", trained("eager", gelu=True), True, 8))
    for batch, length in sizes.texts:
        make = of_llama(llama.running, batch, length)
        found.append(Row(f"llama {batch}x{length}", make, False, 6))
    make = of_llama(llama.decoding, sizes.decoded)
    found.append(Row(f"llama decoding {sizes.decoded}", make, False, 8))
    found.append(Row("vit forward", of_vit(False), False, 7))
    found.append(Row("vit forward and backward", of_vit(True), False, 9))
    if "graphs" in sizes.modes:
        found.append(Row("gpt graphs", trained("graphs"), True, 8))
    if "compile" in sizes.modes:
        found.append(Row("gpt compile", trained("compile"), True, 30))
        found.append(Row("gpt compile autocast", trained("compile", autocast=True), True, 30))
    if GRAPHED in sizes.modes:
        found.append(Row(f"gpt {GRAPHED}", trained(GRAPHED), True, 30))
    return found


def difference(torch: Any, found: list[Any], wanted: list[Any], trains: bool) -> float:
    """Return how far ours is from torch's, over what is allowed."""
    if trains:
        far = max(abs(float(x) - float(y)) for x, y in zip(found, wanted, strict=True))
        return far / float(wanted[0]) / LOSS
    x, y = found[0], wanted[0]
    if not x.is_floating_point():  # words that are decoded: the first few, before paths part
        return 0.0 if torch.equal(x[:, :1], y[:, :1]) else 2.0
    return float((x.double() - y.double()).norm() / y.double().norm()) / LOGITS


def measured(torch: Any, row: Row, device: str) -> dict[str, Any]:
    """Return the record of a row."""
    begun = time.perf_counter()
    made, outputs, memory, first = {}, {}, {}, {}
    for who in ("torch", "cute"):
        start = time.perf_counter()
        made[who] = row.make(who)
        outputs[who] = [made[who]().clone() for _ in range(CHECKED if row.trains else 2)]
        first[who] = time.perf_counter() - start
    far = difference(torch, outputs["cute"], outputs["torch"], row.trains)
    del outputs
    for who, step in made.items():
        memory[who] = _peak(torch, step, device)
    each = {who: seconds_each(step, device, 2) for who, step in made.items()}
    steps = max(1, round(WINDOW / max(each.values())))
    times: dict[str, list[float]] = {who: [] for who in made}
    for _ in range(WINDOWS):
        for who, step in made.items():
            times[who].append(seconds_each(step, device, steps))
    ms = {who: median(x) * 1e3 for who, x in times.items()}
    ratios = [x / y for x, y in zip(times["torch"], times["cute"], strict=True)]
    return {
        "row": row.name,
        "ratio": ms["torch"] / ms["cute"],
        "ratios": [min(ratios), max(ratios)],
        "ms": ms,
        "difference": far,
        "peak bytes": memory,
        "seconds to the first steps": first,
        "seconds": time.perf_counter() - begun,
    }


def _peak(torch: Any, step: Callable[[], Any], device: str) -> int:
    """Return the bytes that a step takes at most, on top of what is held before it."""
    if device != "cuda":
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - held)


def line(record: dict[str, Any]) -> str:
    """Return the line of a record in the table."""
    if "ratio" not in record:
        return f"{record['row']:28} {record['left out']}"
    ms, (low, high) = record["ms"], record["ratios"]
    more = (record["peak bytes"]["cute"] - record["peak bytes"]["torch"]) / 1e6
    times = f"{ms['torch']:9.3f} {ms['cute']:9.3f}"
    speed = f"{record['ratio']:6.3f} ({low:.2f} to {high:.2f})"
    flag = "" if record["difference"] <= 1 else "  DIFFERS"
    return f"{record['row']:28} {times} {speed} {more:+8.1f} {record['difference']:6.2f}{flag}"


def main() -> None:
    """Measure, print a table, and write it."""
    import torch

    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--rows", default="", help="beginnings of names of rows, with commas")
    parser.add_argument("--tiny", action="store_true", help="small models, on the CPU")
    given = parser.parse_args()
    sizes, start, records = TINY if given.tiny else Sizes(), time.perf_counter(), []
    wanted = tuple(given.rows.split(","))
    for row in rows(sizes):
        if not row.name.startswith(wanted):
            continue
        if time.perf_counter() - start + row.needs > given.seconds:
            records.append({"row": row.name, "left out": "no time left"})
            continue
        try:
            records.append(measured(torch, row, sizes.device))
        except Exception as error:  # the other rows are still measured
            said = f"{type(error).__name__}: {error}"
            records.append({"row": row.name, "left out": said[:300]})
        if hasattr(torch, "_dynamo"):
            torch._dynamo.reset()
        gc.collect()
        print(line(records[-1]), flush=True)
        with open(given.out, "w", encoding="utf-8") as file:
            gpu = torch.cuda.get_device_name() if sizes.device == "cuda" else "none"
            facts = {"gpu": gpu, "torch": torch.__version__, "rows": records}
            json.dump(facts, file, indent=1)
    print("\nrow, ms of torch, ours, speed of ours over torch's, MB more at the peak, difference")
    for record in records:
        print(line(record))


if __name__ == "__main__":
    main()
