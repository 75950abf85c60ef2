"""From a result to the table of docs/measurements.md; rows that were lost stay in.

    python -m benchmarks.gpu.report FILE [--write docs/measurements.md]
    python -m benchmarks.gpu.report FILE --before OLD      (rows that became slower; fails if any)

FILE and OLD are results of `benchmarks.gpu.run`, or both of `benchmarks.gpu.family`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import CUTE_DSL, ROWS, Goal, Row

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
HEADER = (
    "row",
    "ours",
    "kernel",
    "against",
    "its figure",
    "burst",
    "sustained",
    "floor",
    "aim",
    "reached",
)
LEAST = 0.99  # of the figure before: below, a row has become slower
TIMES = ("us", "s")  # units in which less is better


def best(record: dict[str, Any], row: Row) -> dict[str, Any] | None:
    """Return the fastest entry of ours in burst mode, else in the other; None if there is none."""
    entries = [e for e in record.get("entries", []) if _ours(e, row)]
    timed = [e for e in entries if mode_of(e) is not None]
    return min(timed, key=lambda e: _time(e, mode_of(e)), default=None)


def _ours(entry: dict[str, Any], row: Row) -> bool:
    return entry["kernel"] == "cute_py call" if row.kind == "host" else entry["kernel"] != "torch"


def mode_of(entry: dict[str, Any]) -> str | None:
    """Return the mode that an entry is judged by."""
    return next((m for m in ("burst", "sustained") if m in entry), None)


def _time(entry: dict[str, Any], mode: Any) -> float:
    found = entry[mode]
    return float(found["us"] if "us" in found else found["s"])


def speed(record: dict[str, Any], row: Row, mode: str, peer: bool = False) -> float | None:
    """Return TFLOP/s or TB/s of the best of ours, or of torch; us or s for costs in time."""
    if peer:
        entry = next((e for e in record.get("entries", []) if e["kernel"] == "torch"), None)
    else:
        entry = best(record, row)
    if entry is None or mode not in entry:
        return None
    if row.unit in TIMES:
        return _time(entry, mode)
    return row.work / _time(entry, mode) / 1e6


def ratio(row: Row, goal: Goal, records: dict[str, Any], mode: str) -> float | None:
    """Return our speed over what the goal is against; None where either is missing.

    The goal `seconds` is an absolute time: floor and aim are limits, and the ratio is that time.
    """
    ours, other = speed(records.get(row.name, {}), row, mode), None
    if goal.against == "seconds":
        return ours
    if goal.against in ROWS:
        base = ROWS[goal.against]
        other = speed(records.get(base.name, {}), base, mode)
    elif goal.against == "peer":
        other = speed(records.get(row.name, {}), row, mode, peer=True)
    elif mode == "burst":
        other = float(CUTE_DSL[row.name][0])
    if ours is None or other is None:
        return None
    return other / ours if row.unit in TIMES else ours / other


def verdict(goal: Goal, found: float | None) -> str:
    """Return aim, floor, LOST, or a dash where there is nothing to judge."""
    if found is None:
        return "-"
    less = goal.against == "seconds"
    for word, limit in (("aim", goal.aim), ("floor", goal.floor)):
        if limit is not None and (found <= limit if less else found >= limit):
            return word
    return "LOST" if goal.floor is not None else "below the aim"


def lines(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the cells of the table: a line for each goal of each row."""
    records = {record["row"]: record for record in result["rows"]}
    found = []
    for row in ROWS.values():
        if row.name in records:
            goals = row.goals or (Goal("peer", None, None),)
            found += [_cells(row, goal, records) for goal in goals]
    return found


def _cells(row: Row, goal: Goal, records: dict[str, Any]) -> tuple[str, ...]:
    record = records[row.name]
    entry = best(record, row)
    if entry is None:
        return (row.name, record.get("failed", "none")[:60], *["-"] * (len(HEADER) - 2))
    burst, sustained = (ratio(row, goal, records, mode) for mode in ("burst", "sustained"))
    judged = verdict(goal, burst) if goal.floor is not None or goal.aim is not None else "-"
    return (
        row.name,
        _figure(speed(record, row, str(mode_of(entry))), row.unit),
        entry["kernel"],
        _against(goal),
        _other(row, goal, records),
        _number(burst),
        _number(sustained),
        _number(goal.floor),
        _number(goal.aim),
        judged,
    )


def _against(goal: Goal) -> str:
    names = {"peer": "torch", "reference": "CuTe DSL (Ampere example)", "seconds": "time itself"}
    return names.get(goal.against, goal.against)


def _other(row: Row, goal: Goal, records: dict[str, Any]) -> str:
    if goal.against == "peer":
        return _figure(speed(records[row.name], row, "burst", peer=True), row.unit)
    if goal.against == "reference":
        return f"{CUTE_DSL[row.name][0]} {row.unit}, {_scaled(row, records)}"
    if goal.against in ROWS:
        base = ROWS[goal.against]
        return _figure(speed(records.get(base.name, {}), base, "burst"), base.unit)
    return "-"


def _scaled(row: Row, records: dict[str, Any]) -> str:
    """Return what the reference would be here if cuBLAS kept its ratio to it."""
    reference, cublas = CUTE_DSL[row.name]
    here = speed(records[row.name], row, "burst", peer=True)
    return "-" if here is None else f"by cuBLAS {reference / cublas * here:.0f}"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    digits = 0 if unit == "TFLOP/s" and value >= 100 else 1 if unit in ("TFLOP/s", "us") else 2
    return f"{value:.{digits}f} {unit}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def table(result: dict[str, Any]) -> str:
    """Return the table as text for a terminal."""
    cells = [HEADER, *lines(result)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def markdown(result: dict[str, Any]) -> str:
    """Return the table as Markdown, with the machine and the date above."""
    device = result["device"]
    name = device.get("name", "?")
    driver = f", driver {device['driver_version']}" if "driver_version" in device else ""
    versions = ", ".join(f"{k} {v}" for k, v in result.get("versions", {}).items() if v)
    head = f"{name}{driver}, {result['date'][:10]}" + (f"; {versions}" if versions else "")
    rows = ["| " + " | ".join(line) + " |" for line in (HEADER, ("---",) * len(HEADER))]
    rows += ["| " + " | ".join(line) + " |" for line in lines(result)]
    return "\n".join([f"{head}.", "", *rows])


def merged(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the last result with the rows of earlier ones that it lacks."""
    last = dict(results[-1])
    rows = {record["row"]: record for result in results for record in result["rows"]}
    return {**last, "rows": list(rows.values())}


def write(path: Path, text: str, marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Put a table between the marks of a page."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(marks[0])
    _old, end, after = rest.partition(marks[1])
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


# -- compared with an earlier result


def figures(result: Any) -> dict[str, float]:
    """Return the figure of each row in burst mode: our speed over the peer's in the same run, which
    does not depend on the clock of a machine; without a peer our speed.
    """
    if isinstance(result, list):
        bursts = {x["case"]: dict(x["us"]["burst"]) for x in result}
        return {name: us.pop("cuBLAS") / min(us.values()) for name, us in bursts.items() if us}
    found = {}
    for record in result["rows"]:
        row = ROWS.get(record["row"])
        ours = None if row is None else speed(record, row, "burst")
        if row is None or not ours:
            continue
        other = speed(record, row, "burst", peer=True)
        ours = 1 / ours if row.unit in TIMES else ours
        other = 1.0 if other is None else 1 / other if row.unit in TIMES else other
        found[row.name] = ours / other
    return found


def slower(before: Any, after: Any) -> list[str]:
    """Return a line for each row that is below `LEAST` of an earlier result, or missing."""
    new, lines = figures(after), []
    for name, old in figures(before).items():
        if name not in new:
            lines.append(f"{name}: missing")
        elif new[name] < LEAST * old:
            lines.append(f"{name}: {old:.3f} -> {new[name]:.3f}, {new[name] / old:.3f} of before")
    return lines


def main() -> None:
    """Print the table, write it between the marks of a page, or compare two results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--write", type=Path, help="a page with the marks of a table")
    parser.add_argument("--before", type=Path, help="an earlier result to compare with")
    options = parser.parse_args()
    found = [json.loads(file.read_text(encoding="utf-8")) for file in options.files]
    if options.before is not None:
        after = found[0] if isinstance(found[0], list) else merged(found)
        lines = slower(json.loads(options.before.read_text(encoding="utf-8")), after)
        print("\n".join(lines or ["no row is slower than before"]))
        sys.exit(bool(lines))
    text = markdown(merged(found))
    if options.write is None:
        print(text)
        return
    write(options.write, text)


if __name__ == "__main__":
    main()
