"""docs/architecture.md names every file: its index is made from the first sentences of modules."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
HEAD = "## Every file\n"
LAYERS = (
    *("records.py", "lazy.py", "errors.py", "dtypes", "integers", "layout", "tensor", "host"),
    *("atoms", "tiled", "plan", "calls", "trace", "emulate", "codegen", "analysis", "viz"),
    *("cutlass2.py", "epilogues.py", "kernels", "ops", "torch", "expression.py", "explore"),
    *("see", "cli"),
    "__main__.py",
)


def sentence(path):
    """Return the first sentence of a module's docstring, or its part before a semicolon."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split())
    first = re.split(r"(?<!\.)[.;?](?= |$)", text, maxsplit=1)[0]
    return first.replace("|", "\\|")


def holds_code(file):
    """Tell whether a package's own file defines anything."""
    kinds = ast.FunctionDef | ast.ClassDef
    return any(isinstance(x, kinds) for x in ast.parse(file.read_text(encoding="utf-8")).body)


def index():
    """Return the index: a heading for each layer, a line for each file."""
    lines = [
        HEAD,
        "One line for each file, from the lowest layer up, taken from the files themselves.\n",
    ]
    package = ROOT / "cute_py"
    for layer in LAYERS:
        place = package / layer
        files = [place] if place.is_file() else sorted(place.rglob("*.py"))
        shown = [file for file in files if file.name != "__init__.py" or holds_code(file)]
        lines += ["", f"**{layer}**", ""] * (not place.is_file())
        lines += [f"- `{file.relative_to(package)}`: {sentence(file)}" for file in shown]
    return "\n".join(lines).rstrip() + "\n"


def test_the_index_names_every_layer():
    package = ROOT / "cute_py"
    there = {p.name for p in package.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert there == {*LAYERS, "__init__.py"}


def test_every_file_has_a_line_in_the_index(request):
    page = PAGE.read_text(encoding="utf-8")
    wanted = page.partition(HEAD)[0] + index()
    if request.config.getoption("--update-golden", default=False):
        PAGE.write_text(wanted, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == wanted, "pytest --update-golden writes it"
