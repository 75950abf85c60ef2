"""One row of the table, measured: the peer, a screen of all candidates, then the best of them."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu import harness, operands
from benchmarks.gpu.building import Built, Job, arguments
from benchmarks.gpu.candidates import Candidate
from benchmarks.gpu.cases import Row
from benchmarks.gpu.harness import Timed
from cute_py.errors import CuteError

FAILURES = (ValueError, RuntimeError, CuteError)  # of one candidate, which the others outlive


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        modes: burst, sustained or both.
        rounds: of each mode; None: the harness's own.
        keep: how many of the best are measured after the screen; 0: the screen is all.
        seconds: the screen ends after this time.
    """

    modes: tuple[str, ...]
    rounds: int | None
    keep: int
    seconds: float


def launcher(torch: Any, candidate: Candidate, row: Row, built: Built) -> Any:
    """Return a candidate as a launch on the current stream."""
    from benchmarks.gpu.kernels import KERNELS
    from cute_py.codegen.launch.launcher import Launcher

    run, kernel = Launcher(built.compiled), KERNELS[candidate.kernel]

    def launch(*given: Any) -> None:
        leaves = kept.get(id(given[0]))
        if leaves is None:
            leaves = kept[id(given[0])] = kernel.leaves(*arguments(candidate, row, list(given)))
        run(*leaves, stream=torch.cuda.current_stream().cuda_stream)

    kept: dict[int, Any] = {}  # by the first array of a set, which lives as long as the row
    return launch


def called(candidate: Candidate) -> Any:
    """Return a launch as a user's: the operator chooses, and returns a new array."""
    import cute_py as cute

    config = f"schedule={candidate.note}" if candidate.note else None
    return lambda a, b, _out: cute.ops.gemm(a, b.T, config=config)


def measured(torch: Any, row: Row, built: dict[Any, Built], made: list[Candidate], plan: Plan):
    """Return the record of a row; what is refused or wrong is listed and not timed."""
    began = time.perf_counter()
    operands.settings(torch, row)
    sets = operands.sets_of(torch, row)
    wanted = [operands.wanted(torch, row, each) for each in sets]
    kind, record = operands.tolerance_of(row), {"row": row.name, "sets": len(sets), "refused": {}}
    peer = Timed("torch", operands.peer(torch, row), alone=row.kind == "copy")
    good = []
    for timed in [peer, *_ours(torch, row, built, made, record)]:
        if time.perf_counter() - began > plan.seconds and len(good) > 2:
            record["refused"][timed.name] = "not tried: time is up"
            continue
        try:
            timed.facts["error"] = harness.checked(torch, timed.launch, sets, wanted, kind)
            harness.capture(torch, timed, sets)
            good.append(timed)
        except FAILURES as error:
            record["refused"][timed.name] = str(error)[:300]
    kept = _screened(torch, good, plan, record)
    _timed(torch, kept, plan, record)
    for timed in kept:
        timed.facts["error_after"] = harness.checked(torch, timed.launch, sets, wanted, kind)
    record["entries"] = [_entry(row, timed) for timed in kept]
    record["seconds"] = round(time.perf_counter() - began, 2)
    return record


def _ours(torch: Any, row: Row, built: Any, made: list[Candidate], record: Any):
    found = []
    for candidate in made:
        if candidate.called:
            found.append(Timed(candidate.label, called(candidate)))
            continue
        job = built[Job(candidate, row).key]
        if job.refused:
            record["refused"][candidate.label] = job.refused[:300]
            continue
        resources = job.compiled.resources
        facts = {
            "registers": resources.registers,
            "spill_bytes": resources.spill_bytes,
            "smem_bytes": resources.smem_bytes,
            "trace_s": round(job.trace_s, 3),
            "compile_s": round(job.compile_s, 3),
        }
        try:
            launch = launcher(torch, candidate, row, job)
        except FAILURES as error:
            record["refused"][candidate.label] = str(error)[:300]
            continue
        found.append(Timed(candidate.label, launch, facts))
    return found


def _screened(torch: Any, kernels: list[Timed], plan: Plan, record: Any) -> list[Timed]:
    """Return the peer and the best candidates; times of the screen are recorded, not kept."""
    peers = [t for t in kernels if t.name == "torch"]
    ours = [t for t in kernels if t.name != "torch"]
    if len(ours) <= plan.keep:
        return kernels
    harness.burst(torch, kernels, harness.SCREEN_ROUNDS)
    record["screen_us"] = {t.name: round(t.median("burst"), 3) for t in kernels}
    ours.sort(key=lambda t: t.median("burst"))
    if plan.keep == 0:
        return [*peers, *ours]
    kept = [*peers, *ours[: plan.keep]]
    for timed in kept:
        timed.us.clear()
    return kept


def _timed(torch: Any, kernels: list[Timed], plan: Plan, record: Any) -> None:
    if plan.keep == 0:
        return
    for mode in plan.modes:
        rounds = plan.rounds or harness.ROUNDS[mode]
        if mode == "burst":
            harness.burst(torch, kernels, rounds)
            record["state_after_burst"] = harness.device_state()
        else:
            record["state_in_sustained"] = harness.sustained(torch, kernels, rounds)


def _entry(row: Row, timed: Timed) -> dict[str, Any]:
    entry: dict[str, Any] = {"kernel": timed.name, "launches": timed.count, **timed.facts}
    for mode, times in timed.us.items():
        middle = statistics.median(times)
        entry[mode] = {
            "us": round(middle, 3),
            "speed": row.work / middle / 1e6,  # TFLOP/s or TB/s
            "min_us": round(min(times), 3),
            "max_us": round(max(times), 3),
            "rounds": len(times),
        }
    return entry
