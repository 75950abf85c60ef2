"""What tests of refusals in kernels share: a body is wrong where it says `# here`.

A body is a function of arrays by name (`ARRAYS`), to be run in a kernel of one block of 32 threads;
one that calls `cute.launch` states its own. The twin of `trace_left` is `trace_left_mended`.
"""

import functools
import inspect
import re

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute

ARRAYS = {
    "x": np.zeros(64, np.int32),
    "f": np.zeros(64, np.float32),
    "a": np.zeros((64, 48), np.float32),
    "h": np.zeros((64, 64), np.float16),
    "b": np.zeros((64, 64), ml_dtypes.bfloat16),
    "image": np.zeros((2, 8, 8, 16), np.float16),
    "odd": np.zeros((64, 33), np.float32),
    "flags": np.zeros(64, bool),
    "nibbles": cute.typed(np.zeros(64, np.uint8), "s4", packed=True),
}
PLACE = re.compile(r" \([^()]+:\d+\)$")


def traced(body):
    """Return the plan of a kernel with this body, for the arrays that its parameters name."""
    own = "launch" in body.__code__.co_names

    @functools.wraps(body)
    def run(*arrays):
        if not own:
            cute.launch(grid=1, block=32)
        body(*arrays)

    return cute.trace(cute.kernel(run), *(ARRAYS[n] for n in inspect.signature(body).parameters))


def ops_of(plan):
    """Return the ops of a plan as text, line by line, without their places."""
    lines = str(plan).splitlines()
    head = ("plan ", "  param ", "  launch ", "  shared ", "  registers ")
    return [line.partition("  # ")[0].strip() for line in lines if not line.startswith(head)]


def recorded(body):
    """Return the ops that a body records, as text."""
    return ops_of(traced(body))


def raised(call):
    """Return the error that a call raises."""
    with pytest.raises(cute.CuteError) as caught:
        call()
    return caught.value


def marked_line(body):
    """Return "file:line" of the line of a function that says `# here`, or "" if none does."""
    lines, first = inspect.getsourcelines(body)
    marked = [first + i for i, line in enumerate(lines) if "# here" in line]
    file = inspect.getsourcefile(body).rpartition("/")[2]
    return f"{file}:{marked[0]}" if marked else ""


def message_of(error):
    """Return the message of an error as docs/errors.md has it: without the place in the kernel, and
    with one name for all files.
    """
    return re.sub(r"\w+\.py:\d+", "kernel.py:7", PLACE.sub("", str(error)))


def require_teaching(error, code, place):
    """Assert that a refusal has the code, all parts of the message, and the place."""
    assert error.code == code
    parts = re.fullmatch(r"(.+): given (.+); required: (.+); fix: (.+)", message_of(error), re.S)
    assert parts, str(error)
    assert all(part.strip() for part in parts.groups())
    assert PLACE.search(str(error)), str(error)
    if place:
        assert str(error).endswith(f"({place})"), str(error)


def pairs(module, codes):
    """Return (code, wrong body, mended body) of a module's functions for the codes."""
    names = {code: code.replace("-", "_") for code in codes}
    return [(c, module[name], module[f"{name}_mended"]) for c, name in names.items()]
