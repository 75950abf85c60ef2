"""The public names: resolved on first use, typed in the stub, documented with an example."""

import builtins
import inspect
import pickle
import re
import runpy
import subprocess
import sys
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import cute_py as cute
from cute_py.lazy import names_elsewhere
from cute_py.plan.functions import PUBLIC
from tests.sampling import each
from tests.stubs import PACKAGES, stub_of, stub_text

# public name -> (module, name there), and which of them `dir(cute)` leaves to their packages
TABLES = {package: dict(package._HOME) for package in (cute, cute.cutlass2, cute.host)}
TABLES[cute]["trace.math"] = " ".join(PUBLIC)  # made from rows
HOMES = {
    public: (module, there or public)
    for table in TABLES.values()
    for module, names in table.items()
    for public, _, there in (name.partition("=") for name in names.split())
}
UNLISTED = {*cute.cutlass2.__all__, *cute.host.__all__}
LAZY = [*TABLES, cute.ops, cute.atoms, cute.viz, cute.analysis, cute.analysis.model]
KERNELS = Path(__file__).parents[2] / "docs" / "kernels.md"  # its code is run by test_docs


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_the_stub_lists_what_the_package_resolves(package, request):
    if request.config.getoption("--update-golden", default=False):
        stub_of(package).write_text(stub_text(package))
    assert stub_of(package).read_text() == stub_text(package)


SCRIPT = """
from typing import Annotated
import numpy as np
import cute_py as cute

@cute.kernel
def axpy(
    x: Annotated[cute.Tensor, cute.spec(alignment=4)],
    y: cute.Tensor,
    alpha: cute.f32,
    n: Annotated[cute.s32, cute.s32(min=1, multiple_of=4)],
    flag: cute.b1,
) -> None:
    cute.launch(grid=1, block=32)
    i = cute.thread_idx()
    with cute.when((i < n) & flag):
        y[i] = y[i] + alpha * x[i]

held: cute.Dtype = cute.f32
print(cute.f32.bits, held.name, cute.dtype(cute.s8))
x, y = np.arange(32, dtype=np.float32), np.ones(32, np.float32)
axpy(x, y, 2.0, 8, True)
"""


def test_a_dtype_or_a_promise_annotates_a_parameter(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    names = runpy.run_path(str(file))
    assert list(names["y"][:10]) == [*range(1, 17, 2), 1, 1]
    with pytest.raises(cute.CuteError, match="multiple"):
        names["axpy"](names["x"], names["y"], 2.0, 6, True)


def test_a_word_next_to_a_dtype_leaves_a_number_of_the_launch():
    @dataclass
    class Scale:
        by: Annotated[cute.f32, "factor"]

    @cute.kernel
    def scale(x, alpha: Annotated[cute.f32, "factor"], more: Scale):
        cute.launch(grid=1, block=32)
        x[cute.thread_idx()] = x[cute.thread_idx()] * alpha * more.by

    x = np.ones(32, np.float32)
    for factor in (2.0, 3.0):
        scale(x, factor, Scale(factor))
    assert len(scale.plans) == 1
    assert list(x[:2]) == [36, 36]


@pytest.mark.slow  # .ci/run checks the shipped kernels so
def test_a_script_of_a_user_has_types(tmp_path):
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    out, errors, status = api.run(["--strict", "--no-incremental", str(file)])
    assert (status, errors) == (0, ""), out


def test_the_docs_list_the_functions_of_registers(request):
    start, end = "| `cute.where`, ", " | functions of registers, element by element |"
    row = f"| {', '.join(f'`cute.{name}`' for name in PUBLIC)}{end}"
    lines = KERNELS.read_text().splitlines()
    (k,) = [k for k, line in enumerate(lines) if line.startswith(start)]
    if request.config.getoption("--update-golden", default=False):
        lines[k] = row
        KERNELS.write_text("\n".join([*lines, ""]))
    assert lines[k] == row


def test_star_import_hides_no_builtin():
    assert not set(cute.__all__) & set(dir(builtins))
    assert callable(cute.filter)


@pytest.mark.parametrize(
    ("package", "name", "meant"),
    [
        (cute, "compositon", "composition"),
        (cute, "row_majr", "row_major"),
        (cute, "opps", "ops"),
        (cute.ops, "gem", "gemm"),
        (cute.cutlass2, "row_majr", "row_major"),
        (cute.host, "tensor_fil", "tensor_fill"),
        (cute.atoms, "fnd", "find"),
        (cute.viz, "to_svgs", "to_svg"),
        (cute.analysis, "bank_conflict", "bank_conflicts"),
    ],
)
def test_an_unknown_name_is_an_attribute_error_that_says_what_was_meant(package, name, meant):
    with pytest.raises(AttributeError) as caught:
        getattr(package, name)
    said = f"module '{package.__name__}' has no attribute '{name}'; did you mean '{meant}'?"
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value))) == said


def test_names_of_other_libraries_are_unknown_with_what_they_are_called_here():
    names = names_elsewhere()
    assert len(names) > 100
    for name, use in names.items():
        with pytest.raises(AttributeError) as caught:
            getattr(cute, name)
        assert str(caught.value).endswith(f"'{name}'; use {use}")
        for path in re.findall(r"cute((?:\.\w+)+)", use):
            attrgetter(path[1:])(cute)  # or it is an AttributeError


@pytest.mark.parametrize("package", LAZY)
def test_a_name_like_no_other_is_only_unknown(package):
    with pytest.raises(AttributeError, match=r"has no attribute 'qqqqqq'$"):
        package.qqqqqq  # noqa: B018


def test_the_probe_of_an_import_loads_nothing_to_guess_from():
    code = (
        "import sys; from cute_py import expression; from cute_py.atoms import registry;"
        "print({'difflib', 'cute_py.atoms.sm80'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=Path(cute.__file__).parents[1],
        text=True,
        capture_output=True,
    )
    assert done.stdout.strip() == "set()"


def test_a_guess_is_made_once():
    """The interpreter adds none of its own to the traceback."""
    code = "import cute_py; cute_py.compositon"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.stderr.lower().count("did you mean") == 1


def visible(package):
    return {name for name in dir(package) if not name.startswith("__")}


def test_dir_shows_the_vocabulary_and_the_packages():
    assert visible(cute) == {*HOMES, *cute._PACKAGES} - UNLISTED
    assert {*cute.__all__} == visible(cute) - {*dir(builtins), "_"}


def test_dir_of_a_package_shows_its_names():
    assert visible(cute.cutlass2) | visible(cute.host) == UNLISTED
    more = {"Gemm", "GemmConfig", "Status", "choose_config", "gemm_config"}
    assert visible(cute.ops) == {*cute.ops.operators()} | more


@pytest.mark.parametrize("package", [cute.cutlass2, cute.host])
def test_a_name_of_a_package_is_reached_without_it(package):
    for name in package.__all__:
        assert getattr(cute, name) is getattr(package, name)


@each(sorted(HOMES))
def test_every_name_resolves_to_its_module_and_is_documented(name):
    value = getattr(cute, name)
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        return
    home = HOMES[name][0]
    assert value.__module__ == f"cute_py.{home}"
    doc = inspect.getdoc(value)
    assert doc, f"{name} has no docstring"
    assert doc.endswith(".") or ">>>" in doc
    if inspect.isfunction(value):  # what needs a kernel, or a compiler, is shown on that page
        shown = ">>>" in doc or f"cute.{name}" in KERNELS.read_text()
        assert shown, f"{name} has no doctest, and is not in docs/kernels.md"
