"""What the benchmarks share: versions, tables, and results as JSON."""

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def environment():
    """Return the versions that a result depends on, and the processor."""
    packages = {}
    for name in ("cute-py", "numpy", "nvidia-cutlass"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "packages": packages,
    }


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def save(name, results):
    """Write results/`name`.json with the environment; print where."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{name}.json"
    text = json.dumps({"environment": environment()} | results, indent=2)
    file.write_text(text + "\n", encoding="utf-8")
    print(f"\nwritten: benchmarks/results/{file.name}")


def table(header, rows):
    """Print rows in columns, the first one to the left."""
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        first, *others = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join([first.strip().ljust(widths[0]), *others]))
