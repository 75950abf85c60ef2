"""What tests of refusals in kernels share: bodies that are refused, and how they are right.

A body is a function of arrays by name (`ARRAYS`), to be run in a kernel of one block of 32 threads;
one that calls `cute.launch` states its own. It is right without its lines `# wrong`, and with its
comments `# right: ...` as code. It is refused at the line `# here`, or at its only `# wrong`.
"""

import functools
import inspect
import linecache
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
    """Return "file:line" of the line of a body at which it is refused, "" if no line is marked."""
    lines, first = inspect.getsourcelines(body)
    here, wrong = (
        [number for number, line in enumerate(lines, first) if mark in line]
        for mark in ("# here", "# wrong")
    )
    places, file = here or wrong, inspect.getsourcefile(body).rpartition("/")[2]
    return f"{file}:{places[0]}" if len(places) == 1 else ""


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


def bodies(*modules):
    """Return code -> body: the functions of modules with a line `# wrong`, named by their codes."""
    return {
        name.replace("_", "-"): body
        for module in modules
        for name, body in vars(module).items()
        if inspect.isfunction(body) and body.__module__ == module.__name__
        if "# wrong" in inspect.getsource(body)
    }


def corrected(body):
    """Return the body that is right."""
    lines = inspect.getsource(body).splitlines(keepends=True)
    right = [line.replace("# right: ", "") for line in lines if "# wrong" not in line]
    file, names = f"<{body.__name__} corrected>", dict(body.__globals__)
    linecache.cache[file] = sum(map(len, right)), None, right, file
    exec(compile("".join(right), file, "exec"), names)
    return names[body.__name__]
