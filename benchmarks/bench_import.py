"""How long `import cute_py` takes over the interpreter's own start, and what it leaves unloaded.

Whole interpreters are timed, the variants taking turns, so that the difference of medians is what a
user waits; the processor time beside it does not suffer from what else the machine does. Bytecode
is cached, as after any first run.

    python benchmarks/bench_import.py [--runs 60]
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.report import save, table  # noqa: E402

FIRST_COMPOSITION = (
    "import cute_py as cute\n"
    "cute.composition(cute.Layout((6, 2), (8, 2)), cute.Layout((4, 3), (3, 1)))\n"
)
# what is run -> limit in milliseconds over the interpreter's own start
PROGRAMS = {
    "pass": None,
    "import cute_py": ("import cute_py\n", 15),
    "import and first composition": (FIRST_COMPOSITION, 30),
    "import pycute": ("import pycute\n", None),
}
HEAVY = ("numpy", "sympy", "ml_dtypes", "rich", "numba")


def start(program):
    """Run a program in a fresh interpreter; return its wall and processor time in milliseconds."""
    begin, used = perf_counter(), processor_time()
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
    return (perf_counter() - begin) * 1000, (processor_time() - used) * 1000


def processor_time():
    """Return the seconds that finished child processes have spent on a processor."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def loaded_modules(program):
    """Return the top-level modules that a program leaves loaded."""
    listing = program + "import json, sys\nprint(json.dumps(sorted(sys.modules)))\n"
    done = subprocess.run(
        [sys.executable, "-c", listing], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=60)
    runs = parser.parse_args().runs
    heavy = sorted(loaded_modules(FIRST_COMPOSITION).intersection(HEAVY))
    assert not heavy, f"loaded by import and first composition: {heavy}"
    programs = {name: spec[0] if spec else "pass\n" for name, spec in PROGRAMS.items()}
    for program in programs.values():
        start(program)  # caches bytecode
    times = {name: [] for name in programs}
    for _ in range(runs):
        for name, program in programs.items():
            times[name].append(start(program))
    wall, processor = (
        {name: statistics.median(run[k] for run in runs_) for name, runs_ in times.items()}
        for k in (0, 1)
    )
    table(
        ("program", "wall ms", "over start", "cpu over start", "limit"),
        [
            (
                name,
                f"{wall[name]:.1f}",
                f"{wall[name] - wall['pass']:.1f}",
                f"{processor[name] - processor['pass']:.1f}",
                (PROGRAMS[name] or (None, None))[1] or "-",
            )
            for name in programs
        ],
    )
    print(f"not loaded: {', '.join(HEAVY)}")
    save(
        "import",
        {
            "unit": "milliseconds, medians",
            "runs": runs,
            "wall": wall,
            "wall_over_start": {name: wall[name] - wall["pass"] for name in programs},
            "processor_over_start": {
                name: processor[name] - processor["pass"] for name in programs
            },
        },
    )


if __name__ == "__main__":
    main()
