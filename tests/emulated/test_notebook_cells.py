"""Lines of a notebook are named by their cell: in refusals, plans' sources, reports and errors."""

import linecache

import numpy as np
import pytest

import cute_py as cute
from cute_py.errors import file_text, place_text

IPython = pytest.importorskip("IPython")

CELL = """
import cute_py as cute

@cute.kernel
def kernel(x):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    x[t + offset] = x[t] + 1.0
    {last}
"""


@pytest.fixture
def shell():
    """A shell of IPython, which knows the numbers of its cells."""
    from IPython.core.interactiveshell import InteractiveShell

    found = InteractiveShell.instance()
    yield found
    InteractiveShell.clear_instance()


def kernel_of(shell, name, last="pass", number=7, offset=0):
    text = CELL.format(last=last)
    shell.compile._filename_map[name] = number
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    scope = {"offset": offset}
    exec(compile(text, name, "exec"), scope)
    return scope["kernel"]


NAMES = [
    "folder/ipykernel_123/456.py",
    "C:\\Temp\\ipykernel_123\\456.py",
    "<ipython-input-3-5f8c2b>",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_refusal_names_the_cell(shell, name):
    kernel = kernel_of(shell, name, "cute.print('{}')")
    with pytest.raises(cute.LayoutError, match=r"\(cell \[7\], line 9\)$"):
        cute.trace(kernel, np.zeros(64, np.float32))


def test_a_fault_a_report_and_a_source_name_the_cell(shell):
    kernel = kernel_of(shell, NAMES[0], offset=40)
    with pytest.raises(cute.EmulationError, match=r"\(cell \[7\], line 8\)"):
        cute.emulate(kernel, np.zeros(64, np.float32))
    kernel = kernel_of(shell, NAMES[0])
    report = cute.emulate(kernel, np.zeros(64, np.float32), report=True)
    assert "cell [7], line 8" in str(report)
    pytest.importorskip("numba")
    text = cute.source(cute.trace(kernel, np.zeros(64, np.float32)))
    assert "has the line of cell [7] and the op" in text
    assert "# line 8 " in text


def test_a_line_found_by_its_traceback_is_named_once(shell):
    kernel = kernel_of(shell, NAMES[0], "cute.Layout(4)((1, 2, 3))")
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(kernel, np.zeros(64, np.float32))
    assert str(caught.value).count("cell [7], line 9") == 1


def test_without_the_shell_the_name_tells():
    assert file_text("<ipython-input-3-5f8c2b>") == "cell [3]"
    assert place_text(("folder/ipykernel_1/2.py", 4)) == "cell [?], line 4"
    assert place_text(("folder/x/2.py", 4)) == "2.py:4"
    assert place_text(("<stdin>", 4)) == "<stdin>:4"
