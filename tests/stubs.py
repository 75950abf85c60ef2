"""The stubs of the packages whose names load on first use, from their tables `_HOME`: type checkers
and editors read these files, and see the public names alone.
"""

import ast
import inspect
import re
from pathlib import Path

import cute_py as cute
from cute_py.atoms import registry
from cute_py.plan.functions import PUBLIC

PACKAGES = (
    *(cute, cute.ops, cute.atoms, cute.analysis, cute.analysis.model, cute.viz, cute.cutlass2),
    cute.host,
)
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


# The class of a composition follows from both operands; its module cannot name all classes.
COMPOSITION = """\
from typing import Any, TypeVar, overload
from cute_py.layout import AbstractTensor, Mapped
_Tensor = TypeVar("_Tensor", bound=AbstractTensor)
_Kind = TypeVar("_Kind", bound=Mapped)
@overload
def composition(a: Layout, b: int | tuple[Any, ...] | Layout) -> Layout:
    DOES
@overload
def composition(a: _Tensor, b: Any) -> _Tensor: ...
@overload
def composition(a: Mapped, b: F2Layout) -> F2Layout: ...
@overload
def composition(a: Layout, b: ComposedLayout | F2Map) -> ComposedLayout: ...
@overload
def composition(a: _Kind, b: Any) -> _Kind: ...
@overload
def composition(a: F2Map, b: F2Map) -> F2Map: ...
@overload
def composition(a: F2Map, b: Layout) -> ComposedLayout: ...
@overload
def composition(a: F2Map, b: ComposedLayout) -> ComposedLayout | Layout: ...
"""


def stub_of(package):
    """Return the path of a package's stub."""
    return Path(package.__file__).with_suffix(".pyi")


def stub_text(package):
    """Return what the stub of a package has to say: an import of every public name from the module
    that defines it.
    """
    more = {cute: _packages, cute.ops: _operators, cute.atoms: _rows, cute.viz: _extension}
    more[cute.analysis] = lambda: ["from cute_py.analysis import model as model"]
    more[cute.cutlass2] = lambda: ["_HOME: dict[str, str]"]
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
    if name == "composition":
        return COMPOSITION.replace("DOES", _does(cute.composition)).splitlines()
    if package is cute.ops and name in cute.ops.operators():
        return []
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


OPERATORS = """\
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, overload
from numpy.typing import NDArray
from cute_py.ops.operator import Operator
from cute_py.records import Text
from cute_py.tensor.tensor import Tensor
_Array = TypeVar("_Array")
def operators() -> dict[str, Operator]: ...
class _Operator(Protocol):
    operator: Operator
    explain: Callable[..., Text]"""


NUMPY = "NDArray[Any] | Sequence[Any]"
ONE_RESULT = "epilogue: Callable[..., Tensor] | Formula | None = ..."
SEVERAL = "epilogue: Callable[..., Any]"


def _operators():
    """Yield the operators: what NumPy reads gives an array of NumPy, and any other array one of its
    library; then what they do, which editors show.
    """
    functions = [x.public.__wrapped__ for _, x in sorted(cute.ops.operators().items())]
    yield from sorted({line for function in functions for line in _types_of(function)})
    yield from OPERATORS.splitlines()
    for function in functions:
        name = function.__name__
        first, *others = inspect.signature(function).parameters.values()
        yield f"class _{name}(_Operator, Protocol):"
        ways = [(NUMPY, "NDArray[Any]", ""), ("_Array", "_Array", "")]
        if any(p.name == "epilogue" for p in others):  # a function, which may give several results
            ways = [
                (kind, each, epilogue)
                for kind, made, _any in ways
                for each, epilogue in ((made, ONE_RESULT), (f"dict[str, {made}]", SEVERAL))
            ]
        for kind, made, epilogue in ways:
            taken = ["self", f"{first.name}: {kind}", *map(_parameter, others)]
            taken = [epilogue if x.startswith("epilogue:") else x for x in taken]
            if keyword := [k for k, p in enumerate(others) if p.kind is p.KEYWORD_ONLY]:
                taken.insert(2 + keyword[0], "*")
            yield "    @overload"
            yield f"    def __call__({', '.join(taken)}) -> {made}: ..."
        yield f"{name}: _{name}"
        yield _does(function)


def _types_of(function):
    """Yield the imports of cute_py that the annotations of a function need."""
    used = set(re.findall(r"\w+", " ".join(map(str, function.__annotations__.values()))))
    for x in ast.walk(ast.parse(inspect.getsource(inspect.getmodule(function)))):
        if isinstance(x, ast.ImportFrom) and x.module.startswith("cute_py"):
            for name in used.intersection(each.name for each in x.names):
                if name not in dir(cute.ops):
                    yield f"from {x.module} import {name}"


def _parameter(p):
    if p.kind is p.VAR_KEYWORD:
        return f"**{p.name}: {p.annotation}"
    return f"{p.name}: {p.annotation}" + (" = ..." if p.default is not p.empty else "")


def _does(function):
    """Return what a function does as a docstring; editors show the one of a stub."""
    return f'"""{" ".join(inspect.getdoc(function).split(chr(10) * 2)[0].split())}"""'


def _rows():
    for name in sorted(set(cute.atoms._rows())):
        yield f"{name}: {'MMA_Atom' if registry.has(name) else 'Copy_Op'}"


def _extension():
    return [
        "from cute_py.viz.html import Shell as _Shell",
        "def load_ipython_extension(shell: _Shell) -> None: ...",
    ]
