"""Timing and checking on a GPU: graphs of many launches, replayed in burst and sustained mode.

Burst: 50 ms of rest before each replay, so the clock is the highest. Sustained: all replays are
queued with no gap, so power limits the clock. In both, the kernels of a row (ours and the peer's)
take turns in a new random order each round, and medians are kept.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ROTATED_BYTES = 150 << 20
REST = 0.05  # seconds before a replay in burst mode
GRAPH_MS = 3.0  # of one replay
LAUNCHES = 500  # of one graph, at most
ROUNDS = {"burst": 10, "sustained": 30}
SCREEN_ROUNDS = 3

# type of the result, or of operands that are rounded: relative error in the Frobenius norm, and of
# one element over the root mean square of all. A term of K left out is far beyond the first, one
# wrong element beyond the second; TF32 in place of f32 gives 3e-4.
TOLERANCES = {
    "bf16": (2.5e-3, 3e-2),
    "f16": (3.5e-4, 4e-3),
    "f32": (8e-6, 5e-5),
    "tf32": (3e-4, 5e-3),  # operands are numbers of TF32; the sums of tensor cores are cut
    "f64": (1e-13, 1e-11),
    "s32": (0.0, 0.0),
    "exact": (0.0, 0.0),
    "softmax-bf16": (2.5e-3, 0.4),  # few elements are far larger than the rest
    "softmax-f32": (5e-6, 2e-4),
}


@dataclass
class Timed:
    """A kernel that is measured.

    Attributes:
        name: in the results.
        launch: called with one set of operands, launches on the current stream; the result is
            what it returns, or the last of the operands.
        facts: what is recorded beside its times.
        us: times of one launch by mode (microseconds), one a round.
        alone: whether it is launched one by one in place of a graph: torch's copy becomes a node
            of the copy engine in a graph, which is slower.
    """

    name: str
    launch: Callable[..., Any]
    facts: dict[str, Any] = field(default_factory=dict)
    us: dict[str, list[float]] = field(default_factory=dict)
    alone: bool = False
    graph: Any = None
    count: int = 0

    def median(self, mode: str) -> float:
        """Return the median time of a launch (microseconds)."""
        return statistics.median(self.us[mode])


class Launches:
    """In place of a graph: launches over the sets in turn."""

    def __init__(self, timed: Timed, sets: list[Any]) -> None:
        self.timed, self.sets = timed, sets

    def replay(self) -> None:
        for operands in itertools.islice(itertools.cycle(self.sets), self.timed.count):
            self.timed.launch(*operands)


def sets_needed(bytes_of_a_set: int) -> int:
    """Return how many sets of operands exceed 150 MB together, 2 at least."""
    return max(2, math.ceil(ROTATED_BYTES / bytes_of_a_set))


def launches(milliseconds: float, sets: int) -> int:
    """Return how many launches a graph has, given the time of one."""
    count = math.ceil(GRAPH_MS / max(milliseconds, 1e-4))
    return min(LAUNCHES, max(count, sets if milliseconds * sets < 2 * GRAPH_MS else 1))


# -- on the GPU


def capture(torch: Any, timed: Timed, sets: list[Any]) -> None:
    """Make the graph of a kernel: launches over the sets in turn, 2 to 4 ms."""
    for operands in sets[:2]:
        timed.launch(*operands)
    torch.cuda.synchronize()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for operands in itertools.islice(itertools.cycle(sets), 4):
        timed.launch(*operands)
    stop.record()
    torch.cuda.synchronize()
    timed.count = launches(start.elapsed_time(stop) / 4, len(sets))
    _record(torch, timed, sets)
    _once_more(torch, timed, sets)


def _once_more(torch: Any, timed: Timed, sets: list[Any]) -> None:
    """Capture again where the first estimate, which holds the host's time, was far too high."""
    spent = _replay(torch, timed) / 1e3  # ms a launch
    wanted = launches(spent, len(sets))
    if wanted > timed.count * 1.3:
        timed.count = wanted
        _record(torch, timed, sets)


def _record(torch: Any, timed: Timed, sets: list[Any]) -> None:
    """Record the graph, and replay it once. `torch.cuda.graph` would collect garbage each time."""
    if timed.alone:
        timed.graph = Launches(timed, sets)
        return
    timed.graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        timed.graph.capture_begin()
        try:
            for operands in itertools.islice(itertools.cycle(sets), timed.count):
                timed.launch(*operands)
        finally:
            timed.graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    timed.graph.replay()
    torch.cuda.synchronize()


def _replay(torch: Any, timed: Timed) -> float:
    """Return the time of a launch in one replay (microseconds)."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    timed.graph.replay()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / timed.count * 1e3


def burst(torch: Any, kernels: list[Timed], rounds: int) -> None:
    """Replay each graph once a round, after a rest."""
    for _round in range(rounds):
        for timed in random.sample(kernels, len(kernels)):
            time.sleep(REST)
            timed.us.setdefault("burst", []).append(_replay(torch, timed))


def sustained(torch: Any, kernels: list[Timed], rounds: int) -> dict[str, Any]:
    """Queue all replays with no gap; return the state of the device while they run."""
    events = []
    for _round in range(rounds):
        for timed in random.sample(kernels, len(kernels)):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            timed.graph.replay()
            stop.record()
            events.append((timed, start, stop))
    state = device_state()
    torch.cuda.synchronize()
    for timed, start, stop in events:
        spent = start.elapsed_time(stop) / timed.count * 1e3
        timed.us.setdefault("sustained", []).append(spent)
    return state


# -- answers


def poison(result: Any) -> None:
    """Fill a result with what no kernel writes."""
    result.fill_(float("nan") if result.dtype.is_floating_point else -(2**31) + 1)


def errors(result: Any, wanted: Any) -> tuple[float, float]:
    """Return the relative error in the Frobenius norm, and the largest of one element over the
    root mean square of all; NaN where the result has one.
    """
    if not result.dtype.is_floating_point:
        wrong = float((result != wanted).sum())
        return wrong, wrong
    difference = result.to(wanted.dtype) - wanted
    norm = wanted.norm()
    most = difference.abs().max() / (norm / wanted.numel() ** 0.5)
    return float(difference.norm() / norm), float(most)


def passes(found: tuple[float, float], kind: str) -> bool:
    """Tell whether errors are within the tolerances; NaN is not."""
    return all(x <= most for x, most in zip(found, TOLERANCES[kind], strict=True))


def checked(torch: Any, launch: Any, sets: list[Any], wanted: list[Any], kind: str) -> float:
    """Return the largest relative error over all sets; the last operands are poisoned before.

    Raises ValueError for a wrong result.
    """
    worst = 0.0
    for operands, right in zip(sets, wanted, strict=True):
        poison(operands[-1])
        result = launch(*operands)
        torch.cuda.synchronize()
        found = errors(operands[-1] if result is None else result, right)
        if not passes(found, kind):
            raise ValueError(f"wrong result: errors {found}, tolerances {TOLERANCES[kind]}")
        worst = max(worst, found[0])
    return worst


# -- the device

_QUERIES = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.max.sm",
    "temperature.gpu",
    "power.draw",
    "power.limit",
)


def device_state() -> dict[str, str]:
    """Return what nvidia-smi says of the device, by a query alone; empty where it is missing."""
    command = ["nvidia-smi", "--query-gpu=" + ",".join(_QUERIES), "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [x.strip() for x in done.stdout.splitlines()[0].split(",")]
    return dict(zip(_QUERIES, values, strict=False))
