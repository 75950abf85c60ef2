"""The house: no large circle of imports inside of cute_py, few fragments, no long function.

Tables of what is left may only shrink: a row that is met with room to spare fails, too.
"""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.stubs import PACKAGES as LAZY

PACKAGE = Path(__file__).parents[2] / "cute_py"
FILES_OF_A_CIRCLE = 3
FILES_OF_A_CIRCLE_WITH_TYPES = 4
LINES_OF_A_FUNCTION = 60
LINES_OF_A_FRAGMENT = 140
FRAGMENTS = 14

# What a reader has to take in at once, by its module and name; a kernel may be longer.
LONG_FUNCTIONS: dict[str, int] = {}


@cache
def files():
    """Return {dotted name: file} of all modules."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def trees():
    return {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in files().items()}


@pytest.fixture(autouse=True, scope="module")
def _read_once():
    trees()


def imports(node, types=False):
    """Yield the import statements that may run, those inside of functions too; with `types`, also
    those that only a type checker follows.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from imports(child if types else ast.Module(child.orelse, []), types)
        else:
            yield from imports(child, types)


def imported(name, types=False):
    """Return the modules of cute_py that a module imports; a name of a package is the package."""
    found = set()
    for each in imports(trees()[name], types):
        if isinstance(each, ast.Import):
            wanted = [alias.name for alias in each.names]
        else:
            assert each.level == 0, f"{name}:{each.lineno}: a relative import"
            wanted = [f"{each.module}.{alias.name}" for alias in each.names]
        for path in wanted:
            while path and path not in files():
                path = path.rpartition(".")[0]
            found.add(path)
    return found - {"", name}


def circles(graph):
    """Return the sets of modules that import each other, directly or by others."""
    reached = {name: set() for name in graph}
    for name in graph:
        waiting = [name]
        while waiting:
            new = graph[waiting.pop()] - reached[name]
            reached[name] |= new
            waiting += new
    return {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in graph
        if name in reached[name]
    }


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": {"d"}, "f": {"a"}}
    assert circles(graph) == {frozenset("abc"), frozenset("de")}
    assert circles({"a": {"b"}, "b": {"f"}, "f": set()}) == set()


def test_imports_are_those_that_may_run():
    text = (
        "import a\nfrom b import c\nif TYPE_CHECKING:\n    import d\nelse:\n    import e\n"
        "def f():\n    if f:\n        from g import h\n"
    )
    found = [ast.unparse(each) for each in imports(ast.parse(text))]
    assert found == ["import a", "from b import c", "import e", "from g import h"]
    found += ["import d"]
    assert sorted(found) == sorted(map(ast.unparse, imports(ast.parse(text), types=True)))
    assert "cute_py.layout.tuples" in imported("cute_py.viz.build")
    assert "cute_py.tiled.tiled_mma" in imported("cute_py.viz.build")  # in a function


def require_small_circles(types, most):
    """Require that no circle has more files than `most`."""
    found = circles({name: imported(name, types) for name in files()})
    large = [", ".join(sorted(circle)) for circle in found if len(circle) > most]
    assert not large, "\n".join(large)


def test_no_more_than_three_files_import_each_other():
    """By the imports that may run, in functions too."""
    require_small_circles(False, FILES_OF_A_CIRCLE)


def test_no_more_than_four_files_name_each_other():
    """By all imports, in functions and for annotations too: to understand one file of a circle, a
    reader may have to understand all of them.
    """
    require_small_circles(True, FILES_OF_A_CIRCLE_WITH_TYPES)


def test_few_files_are_fragments_of_others():
    """A short file that one other imports may be a part of that one's idea; kernels, and files with
    public names, are apart.
    """
    importers = Counter(other for name in files() for other in imported(name))
    short = {
        name
        for name, file in files().items()
        if len(file.read_text(encoding="utf-8").splitlines()) < LINES_OF_A_FRAGMENT
    }
    found = [name for name in sorted(short) if importers[name] == 1]
    public = {f"cute_py.{home}" for package in LAZY for home in package._HOME}
    found = [name for name in found if not name.startswith("cute_py.kernels.")]
    found = [name for name in found if name not in public]
    assert len(found) <= FRAGMENTS, ", ".join(found)


def test_no_function_is_long():
    """From `def` to its last line, its docstring with it."""
    long = {}
    for name, tree in trees().items():
        if name.startswith("cute_py.kernels."):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = node.end_lineno - node.lineno + 1
                if lines > LINES_OF_A_FUNCTION:
                    long[f"{name}.{node.name}"] = lines
    assert long == LONG_FUNCTIONS
