"""What the bytecode of a kernel tells, on each version of Python: which names code reads later, and
which loops are `for` statements. The law is plain Python: a name that a branch rebinds is refused
if and only if what follows gives something else for another value of it.
"""

import linecache
import re
from textwrap import indent

import numpy as np
import pytest

import cute_py as cute
from cute_py.errors import CuteError
from tests.sampling import each

FILE = "<test of bytecode>"

# what follows a branch that rebinds s (or t, which a comprehension does not); gives `found`
TAILS = (
    "found = s",
    "found = 1",
    "s = 5\nfound = s",
    "s += 1\nfound = s",
    "del s\nfound = 1",
    "found = [s for s in range(3)][0]",
    "found = len([s for s in range(3)]) + s",
    "[s for s in range(3)]\nfound = s",
    "[s for s in range(3)]\nfound = t",
    "s = [s for s in range(3)]\nfound = s[0]",
    "s = [s for s in range(s)]\nfound = len(s)",
    "found = [s for s in [5]][0]",
    "found = [s for s in [s]][0]",
    "found = [s for k in range(3) for s in [5]][0]",
    "found = [s for k in range(3) for s in [5]][0] + s",
    "found = [k for k in range(9) if k == s][0]",
    "found = len({s for s in range(3)}) + s",
    "found = len({s: t for s in range(3) for t in range(3)})",
    "found = len({s: t for s in range(3) for t in range(3)}) + s",
    "found = len([s for s in range(0)]) + s",
    "found = [[s for s in range(2)] for s in range(3)][0][1]",
    "found = [[s for s in range(2)] for s in range(3)][0][1] + s",
    "found = [[s for s in range(2)] for t in range(3)][0][1] + t",
    "found = [(s, t) for s in range(3) for t in range(s, 3)][0][1]",
    "found = len([(s := k) for k in range(0)]) + s",
    "found = sum(s for s in range(3))",
    "found = sum(s for s in range(3)) + s",
    "found = sum(k + s for k in range(3))",
    "found = [lambda: s for s in range(3)][0]()",
    "found = [lambda: s for s in range(3)][0]() + s",
    "found = [lambda s=s: s for _ in range(3)][0]()",
    "for s in range(0):\n    pass\nfound = s",
    "for k in range(3):\n    [s for s in range(k)]\nfound = s",
    "while True:\n    [s for s in range(2)]\n    break\nfound = s",
    "found = 1\nif found:\n    [s for s in range(2)]\nelse:\n    s = 3\nfound = s",
    "found = (lambda: s)()",
    "found = (lambda s: s)(5)",
    "found = (lambda: [s for s in range(3)][0])()",
    "box.s = 5\nfound = (lambda: s)()",
    "box.s = 5\ns = 3\nfound = (lambda: s)()",
    "found = dict(s=5)['s']",
    "found = dict(s=5)['s'] + (lambda: s)()",
    "found = len(('s', 't')) + len('s')",
    "import math as s\nfound = s.floor(1.5)",
    "import math\nfound = (lambda: math)().floor(1.5)",
    "import json as t\nfound = s",
    "class s:\n    n = 5\nfound = s.n",
    "class C:\n    n = s\nfound = C.n",
    "class C:\n    s = 5\nfound = C.s",
    "class C:\n    n = [s for s in range(3)]\nfound = C.n[0]",
    "s = t = 3\nfound = s + t",
    "k, s = s, 3\nfound = k",
    "[*range(3), 1]\nfound = s",
    "found = int(f'{s:0<{t}}')",
    "match s:\n    case 2:\n        found = 1\n    case _:\n        found = 2",
    "match 5:\n    case s:\n        found = s",
    "try:\n    found = 1\nfinally:\n    found = s",
    "with box as s:\n    found = 1\nfound = s",
)
# code reads s, though that makes no difference, or on a path that Python does not take
CAUTIOUS = (
    "s, t = t, s\nfound = s",
    "[*range(3), s]\nfound = t",
    "for s in range(3):\n    pass\nfound = s",
    "for k in range(3):\n    s = [s for s in range(k)]\nfound = len(s)",
    "found = [(s := k) for k in range(2)][0]\nfound = found + s",
)
HEAD = "box = Box()\ns = t = 1\n"
BRANCH = "with cute.when(cute.thread_idx() == 0):\n    {} = 2\n"


class Box:
    def __enter__(self):
        return 7

    def __exit__(self, *_error):
        return None


def function_of(text):
    """Return a function f(x) with a body that linecache shows as the source."""
    text = f"def f(x):\n{indent(text, '    ')}"
    linecache.cache[FILE] = len(text), None, text.splitlines(keepends=True), FILE
    scope = {"cute": cute, "Box": Box}
    exec(compile(text, FILE, "exec"), scope)
    return scope["f"]


def refused(body):
    """Return why a kernel is refused, or None."""

    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        body(x)

    try:
        cute.trace(kernel, np.zeros(32, np.float32))
    except CuteError as error:
        return error.code
    return None


def value(tail, name, number):
    """Return what plain Python gives after a name has a number."""
    return function_of(f"{HEAD}{name} = {number}\n{tail}\nreturn found")(None)


def named(tails):
    """Return each text with each of its names."""
    return [(x, name) for x in tails for name in "st" if re.search(rf"\b{name}\b", x)]


@each(named((*TAILS, *CAUTIOUS)), name=lambda x: f"{x[1]} in {x[0]!r}")
def test_a_rebound_name_is_refused_where_what_follows_depends_on_it(tail, name):
    try:
        depends = value(tail, name, 2) != value(tail, name, 1)
    except (NameError, IndexError):
        depends = True
    depends |= tail in CAUTIOUS
    body = function_of(f"{HEAD}{BRANCH.format(name)}{tail}\nx[0] = found")

    assert refused(body) == ("trace-rebound" if depends else None)


# R: a run-time loop
COLLECTED = (
    "[x[i] for i in R]",
    "{i: 1 for i in R}",
    "{1 for i in R}",
    "[j for i in R for j in range(2)]",
    "[i for j in range(2) for i in R]",
    "[i for j in range(2) for i in R for k in range(2)]",
    "{1 for i in R for j in range(2) for k in range(2)}",
    "{j: 1 for i in R for j in range(2)}",
    "[j for i in R for j in [1]]",
    "[k for j in range(2) for i in R for j in [i] for k in range(2)]",
    "[1 for i in R if x is None]",
    "[1 for i in R if x is None for k in range(4) if k]",
    "[[i for i in R] for j in range(2)]",
    "[[j for j in range(2)] for i in R]",
    "[lambda: i for i in R]",
    "[(i, [j for j in range(3)]) for i in R]",
    f"[({'x[i] + 1, ' * 99}) for i in R]",
    "list(i for i in R)",
    "sum(1 for j in range(2) for i in R)",
    "[*R]",
    "list(R)",
)
LOOPS = (
    "for i in R:\n    x[i] = 1.0",
    "for i in R:\n    x[i] = float(len([j for j in range(2)]))",
    "for i in R:\n    x[i] = float(len([j for j in range(2) for k in range(2)]))",
    "for i in R:\n    [*range(2), 3]",
    "for i in R:\n    [j for j in range(2)]",
    "for i in R:\n    [k for j in range(2) for k in [1]]",
    "for i in R:\n    {j: k for j in range(2) for k in range(2)}",
    "for i in R:\n    for j in range(2):\n        [k for k in range(2)]",
    "for j in [k for k in range(2)]:\n    for i in R:\n        x[i] = 1.0",
    "def g():\n    yield from R\nfor i in g():\n    x[i] = 1.0",
    "def g():\n    for i in R:\n        yield i\nfor i in g():\n    x[i] = 1.0",
    f"for i in R:\n    ({'x[i] + 1, ' * 99})",
)


@each([*COLLECTED, *LOOPS], name=repr)
def test_a_run_time_loop_is_a_for_statement(text):
    body = function_of(f"R = cute.range(3)\n{text}")

    wanted = (None,) if text in LOOPS else ("trace-iterated", "trace-asked")
    assert refused(body) in wanted


@pytest.mark.parametrize("text", ["", "def g():\n    pass\n", "import sys\nx = 1\ny = 2\n" * 4])
def test_the_source_of_another_text_of_this_name_is_not_read(text, monkeypatch):
    """As of "<string>", which Python 3.13 keeps for `python -c`."""
    body = function_of("with cute.when(cute.thread_idx() == 0):\n    x[0] = 1.0\n    return")
    entry = len(text), None, text.splitlines(keepends=True), FILE
    monkeypatch.setitem(linecache.cache, FILE, entry)
    assert refused(body) == "trace-no-source"
