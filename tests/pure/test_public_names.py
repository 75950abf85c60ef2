"""The public names: resolved on first use, typed in the stub, documented with an example."""

import builtins
import inspect
from pathlib import Path

import pytest

import cute_py as cute
from tests.sampling import each

KERNELS = Path(__file__).parents[2] / "docs" / "kernels.md"  # its code is run by test_docs
STUB = Path(cute.__file__).with_suffix(".pyi")


def stub_text():
    """Return what __init__.pyi has to say: an import of every public name from the module that
    defines it."""
    lines = ['"""Public names, for type checkers; `_HOME` in __init__.py is the source."""', ""]
    for module, names in cute._HOME.items():
        for name in sorted(names.split()):
            public, _, there = name.partition("=")
            if module == "trace.math":  # made from rows, which a type checker does not see
                taken = ", ".join(
                    f"{p}: object" for p in inspect.signature(getattr(cute, name)).parameters
                )
                lines.append(f"def {name}({taken}) -> Tensor: ...")
                continue
            lines.append(f"from cute_py.{module} import {there or name} as {there or public}")
            if there:
                lines.append(f"{public} = {there}")
    functions = {"emulate": "emulate", "trace": "trace.kernel"}
    for package in sorted(cute._PACKAGES):
        home = f"cute_py.{functions[package]}" if package in functions else "cute_py"
        lines.append(f"from {home} import {package} as {package}")
    return "\n".join([*lines, "", "__version__: str", "_loaded_at: int", ""])


def test_the_stub_lists_what_the_package_resolves(request):
    if request.config.getoption("--update-golden", default=False):
        STUB.write_text(stub_text())
    assert STUB.read_text() == stub_text()


def test_star_import_hides_no_builtin():
    assert not set(cute.__all__) & set(dir(builtins))
    assert callable(cute.filter)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        cute.no_such_name  # noqa: B018


@each(sorted(cute._MODULE))
def test_every_name_resolves_to_its_module_and_is_documented(name):
    value = getattr(cute, name)
    assert name in dir(cute)
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        return
    home = cute._MODULE[name][0]
    assert value.__module__ == f"cute_py.{home}"
    doc = inspect.getdoc(value)
    assert doc, f"{name} has no docstring"
    assert doc.endswith(".") or ">>>" in doc
    if inspect.isfunction(value):  # what needs a kernel, or a compiler, is shown on that page
        shown = ">>>" in doc or f"cute.{name}" in KERNELS.read_text()
        assert shown, f"{name} has no doctest, and is not in docs/kernels.md"
