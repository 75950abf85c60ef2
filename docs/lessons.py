"""The cells of the lessons, run as plain Python: for the site, and for tests of the lessons."""

import ast
import json
import linecache
import sys
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "notebooks"


def cells_of(lesson):
    """Return the cells of a lesson, as its file has them."""
    return json.loads(lesson.read_text(encoding="utf-8"))["cells"]


def run_cell(code, names, name):
    """Run a cell; return what it prints, and the value of its last expression, as a notebook."""
    # kernels name their lines, so that the lines must be found under the cell's name
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(StringIO()) as printed:
        exec(compile(tree, name, "exec"), names)
        value = eval(compile(ast.Expression(last.value), name, "eval"), names) if last else None
    return printed.getvalue(), value


def shown(value):
    """Return text and HTML of a value, as a notebook asks for them."""
    page = getattr(value, "_repr_html_", lambda: None)()
    return repr(value), page or ""


@contextmanager
def checks():
    """Let cells import the checks, which are next to the lessons; leave no module behind."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield
    finally:
        sys.path.remove(str(FOLDER))
        for name in [each for each in sys.modules if each.partition(".")[0] == "checks"]:
            del sys.modules[name]


def outputs(lesson):
    """Run a lesson without answers; yield each cell, what it prints, and text and HTML of its value
    (empty where it has none).
    """
    names, number = {"__name__": "__main__"}, 0
    with checks():
        for cell in cells_of(lesson):
            printed, text, page = "", "", ""
            if cell["cell_type"] == "code":
                number += 1
                printed, value = run_cell("".join(cell["source"]), names, f"<cell {number}>")
                text, page = shown(value) if value is not None else ("", "")
            yield cell, printed, text, page
