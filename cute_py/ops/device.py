"""`measure`: the rates of a GPU by kernels whose answers are checked, as a `DeviceSpec`.

Bandwidths are of CUDA graphs, timed by events; latencies and rates of instructions are read from
the clock of the multiprocessors.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cute_py.atoms.arch import DEVICES
from cute_py.atoms.devices import RATES, DeviceSpec, gib, tera
from cute_py.calls.backends import gpu
from cute_py.codegen.device_memory import DeviceArray
from cute_py.codegen.driver import driver
from cute_py.ops.device_benches import OPERATION, Bench, benches, for_gpu
from cute_py.ops.libraries import gpu_at
from cute_py.ops.measurement import Ready, times_of
from cute_py.trace.kernel import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cute_py.dtypes.table import Array

RUNS = 3  # of a kernel that reads the clock, the fastest of which counts
FLUSHED = 256 << 20  # bytes that are written to empty L2


class Timing(NamedTuple):
    """What a launch gave: the result, its time (microseconds), and the cycles of a block."""

    result: Array
    us: float
    cycles: float


class Row(NamedTuple):
    """How a row becomes numbers of a `DeviceSpec`: the unit, the value of (work, timing), and the
    attributes.
    """

    unit: str
    value: Callable[[float, Timing], float]
    names: tuple[str, ...] = ()


def _bandwidth(work: float, timing: Timing) -> float:
    return gib(work / timing.us * 1e6)


def _cycles(work: float, timing: Timing) -> float:
    return timing.cycles / work


def _a_cycle(work: float, timing: Timing) -> float:
    return work / timing.cycles


ROWS = {
    "dram read": Row("GiB/s", _bandwidth, ("dram_read",)),
    "dram write": Row("GiB/s", _bandwidth, ("dram_write",)),
    "dram copy": Row("GiB/s", _bandwidth, ("dram_copy",)),
    "l2 read": Row("GiB/s", _bandwidth, ("l2",)),
    "l1 latency": Row("cycles", _cycles, ("l1_latency",)),
    "l2 latency": Row("cycles", _cycles, ("l2_latency",)),
    "dram latency": Row("cycles", _cycles, ("dram_latency",)),
    "shared latency": Row("cycles", _cycles, ("shared_latency",)),
    "shared 1-way": Row("bytes a cycle", _a_cycle, ("shared_bandwidth",)),
    "shared 2-way": Row("bytes a cycle", _a_cycle),
    "shared 4-way": Row("bytes a cycle", _a_cycle),
    "ffma": Row("FLOP a cycle", _a_cycle, ("ffma_rate",)),
    "ffma latency": Row("cycles", _cycles, ("ffma_latency",)),
    "clock": Row("GHz", lambda _work, timing: timing.cycles / timing.us / 1e3, ("clock",)),
    "mma.sync": Row("FLOP a cycle", _a_cycle, ("mma_rate",)),
    "wgmma": Row("FLOP a cycle", _a_cycle, ("wgmma_rate",)),
    "ex2": Row("a cycle", _a_cycle, ("ex2_rate",)),
    "barrier": Row("cycles", _cycles, ("barrier",)),
    "launch": Row("us", lambda work, timing: timing.us / work, ("launch",)),
}


# -- what comes of it


@dataclass(frozen=True)
class Measured:
    """A row of a measurement: its name, value, unit, and the bytes of its array, if it has one."""

    row: str
    value: float
    unit: str
    bytes: int = 0

    def __str__(self) -> str:
        size = f" of {self.bytes / 2**20:.1f} MiB" if self.bytes else ""
        return f"{self.row}{size}: {self.value:.5g} {self.unit}"


def rows_of(found: Iterable[Bench], timed: Callable[[Bench], Timing]) -> Iterator[Measured]:
    """Yield a row for each measurement. Raises LayoutError for a wrong result."""
    for bench in found:
        timing = timed(bench)
        bench.require(timing.result)
        kind = ROWS[bench.row]
        size = bench.args[0].nbytes if kind.value is _bandwidth else 0
        yield Measured(bench.row, kind.value(bench.work, timing), kind.unit, size)


def spec_of(rows: Sequence[Measured], base: DeviceSpec) -> DeviceSpec:
    """Return a device with the numbers of rows in the place of its own; of L2 the largest.

    The peak of f32 and of f16, and the instructions of a scheduler a cycle, follow from them.

    >>> from cute_py.atoms.devices import H100
    >>> found = spec_of([Measured("l2 latency", 270.5, "cycles")], H100)
    >>> found.l2_latency, found.l1_latency, found.sources[0][0]
    (270.5, None, 'l2_latency')
    """
    found: dict[str, Any] = {}
    for row in rows:
        for name in ROWS[row.row].names:
            found[name] = max(row.value, found.get(name, 0))
    schedulers, kept = base.limits.schedulers, ("multiprocessors", "l2_bytes")
    if "dram_latency" in found:
        found["dram_latency"] = (found["dram_latency"], found["dram_latency"])
    if "shared_bandwidth" in found:
        found["lsu_ipc"] = found["shared_bandwidth"] / (4 * 32 * schedulers)
    if "ffma_rate" in found:
        found["ffma_ipc"] = found["ffma_rate"] / (2 * 32 * schedulers)
    speed = (base.multiprocessors or 1) * found.get("clock", 0) * 1e9
    for peak, names in (("peak_f32", ["ffma_rate"]), ("peak_f16", ["wgmma_rate", "mma_rate"])):
        rate = max(found.get(name, 0) for name in names)
        if speed and rate:
            found[peak] = tera(rate * speed)
    sources = ((" ".join(found), f"measured by {OPERATION}"), (" ".join(kept), "the driver"))
    numbers: dict[str, Any] = dict.fromkeys(set(RATES) - set(kept)) | found
    return replace(base, fitted=None, sources=sources, **numbers)


# -- on a GPU


def measure_rows(device: int = 0) -> tuple[list[Measured], DeviceSpec]:
    """Return the rows that are measured on a GPU, and the device of them; see `measure`."""
    found, limits = gpu_at(device), driver().limit
    major, minor = found.capability
    base = DeviceSpec(
        found.name,
        DEVICES[f"sm_{major}{minor}"],
        multiprocessors=found.multiprocessors,
        l2_bytes=limits(device, "L2_CACHE_SIZE"),
    )
    size = for_gpu(found.multiprocessors)
    with driver().inside(device):
        rows = list(rows_of(benches(size, found.capability), timed_on_gpu))
    return rows, spec_of(rows, base)


def measure(device: int = 0) -> DeviceSpec:
    """Return what a GPU does, measured: bandwidths, latencies, rates of instructions.

    Args:
        device: its number.

    DRAM is read, written and copied in arrays of about 1 GiB, L2 read by working sets, of which the
    fastest counts; latencies are those of chains of loads; instructions run on all multiprocessors.
    Each kernel's result is checked. It takes some seconds, of which the GPU works less than one,
    and 2 GiB of its memory. docs/model.md shows what comes out.

    Raises LayoutError for a wrong result, and without a GPU.
    """
    return measure_rows(device)[1]


def timed_on_gpu(bench: Bench) -> Timing:
    """Return what a measurement gives on the current device."""
    with ExitStack() as held:
        args = [
            held.enter_context(DeviceArray(x)) if isinstance(x, np.ndarray) else x
            for x in bench.args
        ]
        launch, values = gpu()(trace(bench.kernel, *args), bench.kernel.leaves(*args))
        stream = driver().call("cuStreamCreate", 1)
        held.callback(lambda: driver().raw.cuStreamDestroy(stream))
        other = driver().call("cuMemAlloc", FLUSHED) if bench.cold else 0
        if bench.cold:
            held.callback(lambda: driver().raw.cuMemFree(other))
        cycles = []
        for _run in range(RUNS):
            if bench.cold:
                driver().call("cuMemsetD8", other, 0, FLUSHED)
                driver().call("cuCtxSynchronize")
            launch(values, int(stream))
            driver().call("cuStreamSynchronize", stream)
            if bench.clocked is not None:
                cycles.append(float(median(args[bench.clocked].to_host().tolist())))
        result = args[bench.result].to_host()
        by_time = bench.clocked is None or bench.row == "clock"
        us = times_of([Ready([launch], [[tuple(values)]])], stream)[0] if by_time else 0.0
        return Timing(result, us, min(cycles, default=0.0))
