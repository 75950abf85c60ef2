"""A refusal is at most 30 lines of a terminal or notebook, with the user's line among them.

Frames of cute_py are left out, and what led to the refusal: there is one traceback. Each scenario
is refused at the line that says `here`, in plain Python, in IPython and in pytest.
"""

import json
import linecache
import os
import re
import subprocess
import sys
import textwrap
import traceback
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.errors import FULL
from tests.sampling import each

ROOT = Path(__file__).parents[2]
MOST = 30  # lines
HEAD = """
import numpy as np
import cute_py as cute
X = np.zeros((64, 48), np.float32)
"""
# what is refused -> its code; the line of the call, or of the kernel, says `here`
SCENARIOS = {
    "in a kernel": """
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=32)
            x[cute.thread_idx(), 0] = "text"  # here
        k(X)
    """,
    "in a helper": """
        def third(x):
            x[cute.thread_idx(), 0] = "text"  # here
        def second(x):
            third(x)
        def first(x):
            second(x)
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=32)
            first(x)
        cute.trace(k, X)
    """,
    "in a deep recursion": """
        def even(x, n):
            odd(x, n - 1)
        def odd(x, n):
            if n < 0:
                x[cute.thread_idx(), 0] = "text"  # here
            even(x, n - 1)
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=32)
            even(x, 100)
        k(X)
    """,
    "in a loop and a branch": """
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=32)
            for i in cute.range(x.shape[0]):
                with cute.when(i < 3):
                    x[i, 0] = "text"  # here
        k(X)
    """,
    "at the end of a branch": """
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=32)
            n = 0
            with cute.when(cute.thread_idx() < 3):  # here
                n += 1
            x[n, 0] = 1.0
        k(X)
    """,
    "swallowed": """
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=32)
            try:
                x[cute.thread_idx(), 0] = "text"  # here
            except Exception:
                pass
        k(X)
    """,
    "while another is handled": """
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=32)
            try:
                {}["key"]
            except KeyError:
                x[cute.thread_idx(), 0] = "text"  # here
        k(X)
    """,
    "in emulation": """
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=64)
            tile = cute.smem("f32", 64)
            tile[cute.thread_idx()] = 1.0
            x[cute.thread_idx(), 0] = tile[63 - cute.thread_idx()]
        k(X)  # here
    """,
    "in cute.emulate": """
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=64)
            x[64 + cute.thread_idx(), 0] = 1.0
        plan = cute.trace(k, X)
        cute.emulate(plan, X)  # here
    """,
    "in an argument": """
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=64)
        k(X[::-1])  # here
    """,
    "at launch": """
        @cute.kernel
        def k(x):
            cute.launch(grid=1, block=64)
        cute.run(cute.trace(k, X), X)  # here
    """,
    "in cute.compile": """
        @cute.kernel
        def k(x):
            cute.launch(grid=2, block=64, cluster=2)
        cute.compile(cute.trace(k, X), "sm_80")  # here
    """,
    "in an operator": "cute.ops.gemm(X, X)  # here",
    "in the algebra": """
        a, b = cute.Layout((6, 2), (1, 7)), cute.Layout((3, 2), (2, 3))
        cute.composition(a, b)  # here
    """,
    "in a divide": "cute.zipped_divide(cute.Layout((6, 6), (6, 1)), cute.Layout(4))  # here",
    "in a tuple of 70 levels": """
        deep = 1
        for _ in range(70):
            deep = (deep,)
        cute.Layout(deep)  # here
    """,
    "in a text": "cute.parse_layout('(' * 70)  # here",
    "in a partition": """
        mma = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
        mma.get_slice(0).partition_C(cute.Layout((16, 20)))  # here
    """,
}


def script_of(name):
    return HEAD + textwrap.dedent(SCENARIOS[name]).strip() + "\n"


def require_short(name, printed):
    """Require 30 lines, the marked one, and nothing of cute_py or of earlier errors."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed).strip("\n")
    lines = text.splitlines()
    (marked,) = (line for line in script_of(name).splitlines() if "# here" in line)
    assert len(lines) <= MOST, text
    assert any(marked.strip() in line for line in lines), text
    assert "given " in text, text
    assert "required: " in text, text
    assert "During handling" not in text, text
    assert "direct cause" not in text, text
    return text


def needs_compiler(name):
    return pytest.importorskip("numba", reason="needs the extra `cuda`") if "compile" in name else 0


HERE = [x for x in SCENARIOS if "compile" not in x or find_spec("numba")]


# -- plain Python


@each(HERE)
def test_plain_python_prints_a_short_traceback(name):
    text = require_short(name, formatted(name))
    if not ALGEBRA.search(SCENARIOS[name]):
        assert str(ROOT / "cute_py") not in text, text


ALGEBRA = re.compile(r"cute\.(composition|zipped_divide|Layout\(deep|parse_layout|make_tiled_mma)")


def formatted(name):
    """Return what Python prints where the script ends with the refusal."""
    lines = script_of(name)
    where = f"<{name}>"
    linecache.cache[where] = (len(lines), None, lines.splitlines(True), where)
    try:
        exec(compile(lines, where, "exec"), {"__name__": "__main__"})
    except cute.CuteError as error:
        shown = traceback.TracebackException(
            type(error), error, error.__traceback__.tb_next
        )  # without this function
        return "".join(shown.format())
    raise AssertionError("accepted")


def test_a_script_ends_with_that_traceback(tmp_path):
    """In a process of its own, in full if the variable asks for it."""
    script = tmp_path / "script.py"
    script.write_text(script_of("in emulation"), encoding="utf-8")
    printed = {}
    for full in ("", "1"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), FULL: full}
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 1
        printed[full] = done.stderr
    require_short("in emulation", printed[""])
    assert str(ROOT / "cute_py") not in printed[""]
    assert printed["1"].count(str(ROOT / "cute_py")) > 3


# -- IPython

DRIVER = """
import json, os, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config, colors="NoColor")
for name, text in json.loads(sys.stdin.read()).items():
    print(f"<<<{name}")
    shell.run_cell(text)
"""


@pytest.fixture(scope="module")
def notebook():
    """Return what IPython shows of each scenario, which is one cell."""
    pytest.importorskip("IPython", reason="needs IPython: the extra `test`")
    given = {name: script_of(name) for name in SCENARIOS}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        check=True,
    )
    return dict(part.split("\n", 1) for part in done.stdout.split("<<<")[1:])


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_notebook_shows_a_short_traceback(name, notebook):
    needs_compiler(name)
    text = require_short(name, notebook[name])
    assert str(ROOT / "cute_py") not in text, text


# -- pytest


@pytest.fixture(scope="module")
def failures(tmp_path_factory):
    """Return what pytest shows of each scenario: a test of its last line, in a file."""
    names, folder = list(SCENARIOS), tmp_path_factory.mktemp("failing")
    for i, name in enumerate(names):
        above, _, last = script_of(name).rstrip().rpartition("\n")
        text = f"{above}\n\ndef test_{i}():\n    {last}\n"
        (folder / f"test_{i}.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    shown = done.stdout.partition("= FAILURES =")[2].partition("= short test summary")[0]
    parts = re.split(r"^_+ test_(\d+) _+$", shown, flags=re.M)[1:]
    return {names[int(i)]: text for i, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("name", SCENARIOS)
def test_pytest_shows_a_short_traceback(name, failures):
    needs_compiler(name)
    text = require_short(name, failures[name])
    assert str(ROOT / "cute_py") not in text, text


# -- what is not a refusal keeps its traceback


def test_errors_of_the_kernel_itself_are_left_alone():
    @cute.kernel
    def wrong(x):
        cute.launch(grid=1, block=32)
        x.no_such_name()

    with pytest.raises(AttributeError) as caught:
        wrong(np.zeros(32, np.float32))
    assert len(caught.traceback) > 3
