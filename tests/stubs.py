"""The stubs of the packages whose names load on first use, from their tables `_HOME`: a type checker
and an editor read these files, and see the public names alone.
"""

import inspect
from pathlib import Path

import cute_py as cute
from cute_py.atoms import registry
from cute_py.plan.functions import PUBLIC

PACKAGES = (cute, cute.ops, cute.atoms, cute.analysis, cute.viz)
# what is called like a package, and where the function is
FUNCTIONS = {
    "emulate": "emulate",
    "explore": "explore.widget",
    "math": "trace",
    "trace": "trace.kernel",
}
HEAD = (
    "from cute_py.trace.runtime_integers import Condition as _Condition, Int as _Int",
    "from cute_py.dtypes.table import Promised as _Promised",
    "class _Type(type, Dtype): ...",
)


def stub_of(package):
    """Return the path of a package's stub."""
    return Path(package.__file__).with_suffix(".pyi")


def stub_text(package):
    """Return what the stub of a package has to say: an import of every public name from the module
    that defines it.
    """
    more = {cute: _packages, cute.ops: _operators, cute.atoms: _rows, cute.viz: _extension}
    lines = [f'"""Public names of {package.__name__}, for type checkers; from `_HOME`."""', ""]
    if package is cute:
        lines += HEAD
    for table in _tables(package):
        for module, names in table.items():
            for name in sorted(names.split()):
                lines += _imported(package, module, name)
    return "\n".join([*lines, *more.get(package, list)(), ""])


def _tables(package):
    if package is not cute:
        return [package._HOME]
    functions = {"trace.math": " ".join(PUBLIC)}  # made from rows
    return [{**cute._HOME, **functions}, cute.cutlass2._HOME, cute.host._HOME]


def _imported(package, module, name):
    """Return the lines of a name."""
    public, _, there = name.partition("=")
    if module == "trace.math":  # a type checker does not see how it is made
        return [_function(name)]
    if package is cute and isinstance(getattr(cute, public, None), cute.Dtype) and public != "void":
        return _dtype(public)
    if there:
        hidden = f"_{there.strip('_')}"
        return [f"from cute_py.{module} import {there} as {hidden}", f"{public} = {hidden}"]
    return [f"from cute_py.{module} import {name} as {name}"]


def _function(name):
    """Return the declaration of a function of registers."""
    parameters = inspect.signature(getattr(cute, name)).parameters.values()
    kinds = (f"{p.annotation} = " if p.default is not p.empty else "object" for p in parameters)
    defaults = ("" if p.default is p.empty else f'"{p.default}"' for p in parameters)
    taken = ", ".join(
        f"{p.name}: {kind}{default}"
        for p, kind, default in zip(parameters, kinds, defaults, strict=True)
    )
    return f"def {name}({taken}) -> Tensor: ..."


def _dtype(name):
    """Return the declaration of a dtype: it is a value, and an annotation of a parameter, which is
    a number of the kernel then.
    """
    dtype = getattr(cute, name)
    inside = {"float": "Tensor", "bool": "_Condition"}.get(dtype.kind, "_Int")
    lines = [f"class {name}({inside}, metaclass=_Type):"]
    if not dtype.is_integer:
        return [f"{lines[0]} ..."]
    numbers = "min: int | None = None, max: int | None = None, multiple_of: int = 1"
    made = f"    def __new__(cls, {numbers}) -> _Promised: ...  # type: ignore[misc]"
    return [*lines, made]


# -- what else a package has


def _packages():
    for package in sorted(cute._PACKAGES):
        home = f"cute_py.{FUNCTIONS[package]}" if package in FUNCTIONS else "cute_py"
        yield f"from {home} import {package} as {package}"
    yield from ("", "__version__: str", "_HOME: dict[str, str]", "_loaded_at: int")


def _operators():
    return [
        "from cute_py.ops.operator import Operator as _Operator",
        "def operators() -> dict[str, _Operator]: ...",
    ]


def _rows():
    for name in sorted(set(cute.atoms._rows())):
        yield f"{name}: {'MMA_Atom' if registry.has(name) else 'Copy_Op'}"


def _extension():
    return [
        "from cute_py.viz.html import Shell as _Shell",
        "def load_ipython_extension(shell: _Shell) -> None: ...",
    ]
