"""Compiled kernels without a compiler, processes and a cache folder, for tests of the cache."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import cute_py as cute
from cute_py.codegen.build import Compiled, Resources
from cute_py.codegen.cache import cached

ROOT = Path(__file__).parents[1]
# as in pyproject.toml; a pattern can only be given in Python
THEIRS = r"""
import warnings
warnings.filterwarnings("ignore", "", DeprecationWarning, r"(numba|llvmlite|cuda)\b")
"""


@cute.kernel
def filled(x, number):
    cute.launch(grid=1, block=32)
    x[cute.thread_idx()] = number


def small_plan(number=1.0):
    return cute.trace(filled, np.zeros(64, np.float32), number)


def fake(plan, arch="sm_80", log="", cubin=b"\x7fELF"):
    """Return what a compiler would; its source tells plans apart."""
    text = f"# {plan.body}\n"
    return Compiled(plan, arch, "_Z6filled", text, "ret;", cubin, Resources(8, 0, 0, 0), log)


def code(compiled):
    """Return what is the same however often a plan is compiled: Numba numbers the names."""
    return compiled.source, re.sub(r"_Z\w+", "kernel", compiled.ptx), compiled.resources


def kept(plan, arch="sm_80", **changes):
    """Return the kernel as the cache gives it, built by `fake` where it holds none."""
    return cached(lambda: fake(plan, arch, **changes), plan, arch, spill_bytes=0)


def entries(folder):
    return sorted(Path(folder).glob("kernels/*.kernel"))


def parts(folder):
    return sorted(Path(folder).rglob("*.part"))


def python(text, *arguments, root=ROOT, **environment):
    """Start a process that runs the text with this checkout."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", THEIRS + text, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(text, *arguments, **options):
    """Return what a process prints."""
    process = python(text, *arguments, **options)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.strip()


def at_once(count, text, *arguments):
    """Return what processes print that all go on from `input()` at the same time."""
    processes = [python(text, *arguments) for _ in range(count)]
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=240) for process in processes]
    assert [process.returncode for process in processes] == [0] * count, outputs
    return [out.strip() for out, _err in outputs]
