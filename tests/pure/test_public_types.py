"""What type checkers and editors see of the public names: what functions return, what completes."""

import ast
import inspect
import pydoc
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py import Layout, Swizzle
from cute_py.atoms import registry
from tests.stubs import PACKAGES, stub_of

ROOT = Path(cute.__file__).parent
# Functions whose results say nothing to a type checker, and why.
UNTYPED = {
    "add_coordinates": "an integer, a coordinate or a nest of strides, as its operands are",
    "convert": "a scalar of a scalar, an array of an array or list",
    "coprofile": "an integer or a nest, as the strides are",
    "coshape": "an integer or a nest, as the strides are",
    "decode": "a scalar of a scalar, an array of an array or list",
    "encode": "a scalar of a scalar, an array of an array or list",
    "explore": "a widget of the package anywidget, which has no types",
    "formula": "an expression of SymPy, or a layout's own map of one",
    "get_flat_coord": "an integer or a tuple, as the shape is",
    "get_hier_coord": "an integer or a nest, as the shape is",
    "parse_layout": "whatever the text says: a layout, a swizzle, an int tuple",
    "shape": "an integer or a nest",
    "stride": "an integer or a nest",
    "transform_leaf": "what the user's function makes, nested as the operand is",
    "unwrap": "the only leaf, or the operand",
}
MOST = 0.05  # of all functions


# -- what functions return, read off the stubs and the sources


@cache
def tree_of(path):
    return ast.parse(text_of(path))


@cache
def aliases():
    """Return the names for annotations that are Any."""
    return set(re.findall(r"(\w+): TypeAlias = Any\b", text_of(ROOT / "layout" / "types.py")))


@cache
def text_of(path):
    return path.read_text(encoding="utf-8")


def results(path, name):
    """Return what a function of a module returns, each overload; none for what is no function. By
    the text: to parse all modules takes a second.
    """
    declared = rf"^(?:    )?def {re.escape(name)}\((?!self\b).*?\) -> (.*?):(?: \.\.\.|  #[^\n]*)?$"
    found = re.findall(declared, text_of(path), re.MULTILINE | re.DOTALL)
    if len(found) > 1 and path.suffix == ".py":
        found = found[:-1]  # overloads, and then what they stand for
    return found


def called(tree, name):
    """Return what the overloads of the operator of a stub return."""
    (kind,) = [x for x in tree.body if isinstance(x, ast.ClassDef) and x.name == f"_{name}"]
    return [ast.unparse(x.returns) for x in kind.body if isinstance(x, ast.FunctionDef)]


def public_functions():
    """Yield each public function once, with what it returns."""
    seen = set()
    for package in PACKAGES:
        tree = tree_of(stub_of(package))
        for statement in tree.body:
            if isinstance(statement, ast.ImportFrom):
                path = ROOT.parent / (statement.module.replace(".", "/") + ".py")
                for each_name in statement.names:
                    if each_name.asname and (path, each_name.name) not in seen and path.exists():
                        seen.add((path, each_name.name))
                        yield each_name.name, results(path, each_name.name)
            elif isinstance(statement, ast.FunctionDef) and statement.name not in seen:
                seen.add(statement.name)
                yield statement.name, results(stub_of(package), statement.name)
            elif isinstance(statement, ast.AnnAssign) and package is cute.ops:
                yield statement.target.id, called(tree, statement.target.id)


def is_untyped(result):
    """Return whether a result, or an alternative of it, may be anything."""
    return bool({"Any", "object", *aliases()} & {x.strip() for x in result.split("|")})


def untyped():
    functions = {name: found for name, found in public_functions() if found}
    return functions, {name for name, found in functions.items() if any(map(is_untyped, found))}


def test_public_functions_say_what_they_return():
    functions, found = untyped()
    assert len(functions) > 300
    assert found == set(UNTYPED)
    assert len(UNTYPED) <= MOST * len(functions)


@pytest.mark.slow  # mypy reads the package
def test_mypy_sees_the_same(tmp_path):
    api = pytest.importorskip("mypy.api")
    functions, _ = untyped()
    named = sorted(name for name in functions if hasattr(cute, name))
    file = tmp_path / "script.py"
    lines = ["import cute_py as cute", *[f"reveal_type(cute.{name})" for name in named]]
    file.write_text("\n".join(lines))
    out, errors, status = api.run(["--strict", "--no-incremental", str(file)])
    assert (status, errors) == (0, ""), out
    seen = re.findall(r'script\.py:(\d+): note: Revealed type is "(.*)"', out)
    assert len(seen) == len(named)
    found = {
        named[int(k) - 2]
        for k, text in seen
        if re.search(r"-> (Any|object)$", text) and "Overload" not in text
    }
    assert found == set(UNTYPED)


SCRIPT = """
import numpy as np
import cute_py as cute
from cute_py import Layout
a, b = Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))
x = np.ones((4, 4), np.float32)
m, n = cute.ceil_div((7, 8), (2, 2))
for i in range(cute.size(a) + cute.ceil_div(7, 2)):
    print(m, n, i)

@cute.kernel
def copy(x: cute.Tensor, y: cute.Tensor, n: cute.s32) -> None:
    cute.launch(grid=cute.ceil_div(n, 256), block=256)
    i = cute.thread_idx() + 256 * cute.block_idx()
    column, row = cute.block_idx()
    with cute.when((i // 4 + 1 < n) & (row * 3 > cute.min_(n, column))):
        y[i] = cute.exp(x[i])
    for k in cute.range(0, n, 32):
        y[k + 1] = x[k]
    reveal_type(i)
    reveal_type(cute.local_tile(x, (4,), (row,)))

reveal_type(cute.composition(a, b))
reveal_type(cute.composition(a, cute.Swizzle(1, 0, 1)))
reveal_type(cute.zipped_divide(a, (2, 1)))
reveal_type(cute.analysis.bank_conflicts([0, 1], bits=32))
reveal_type(cute.atoms.get("SM61_DP4A"))
reveal_type(cute.atoms.SM61_DP4A)
reveal_type(cute.ops.gemm(x, b=x))
reveal_type(cute.ops.gemm([[1.0]], [[2.0]]))
"""
SHOWN = (
    *("Int", "Tensor", "Layout", "ComposedLayout", "Layout", "BankConflicts"),
    *("MMA_Atom", "MMA_Atom", "ndarray[tuple[Any, ...], numpy.dtype[Any]]"),
    "ndarray[tuple[Any, ...], numpy.dtype[Any]]",
)


@pytest.mark.slow
def test_the_results_of_a_users_script_have_types(tmp_path):
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    out, errors, status = api.run(["--strict", "--no-incremental", str(file)])
    assert (status, errors) == (0, ""), out
    shown = re.findall(r'Revealed type is "([^"]*)"', out)
    assert [re.sub(r"^[a-z_.]*\.", "", text) for text in shown] == list(SHOWN)


# -- and what they return


LAYOUT = Layout((4, 4), (4, 1))
OPERANDS = (
    LAYOUT,
    cute.composition(Swizzle(2, 0, 2), LAYOUT),
    cute.make_tensor(np.zeros(16, np.float32), LAYOUT),
    cute.to_f2(LAYOUT),
    Swizzle(2, 0, 2),
)
CALLS = {
    "append": lambda x: cute.append(x),
    "blocked_product": lambda x: cute.blocked_product(x, Layout((2, 1))),
    "coalesce": cute.coalesce,
    "compose": lambda x: cute.compose(x, 2, 2),
    "composition": lambda x: cute.composition(x, Layout(4, 1)),
    "dice": lambda x: cute.dice((1, None), x),
    "downcast": lambda x: cute.downcast(x, 2),
    "filter": cute.filter,
    "filter_zeros": cute.filter_zeros,
    "flat_divide": lambda x: cute.flat_divide(x, (2, 2)),
    "flat_product": lambda x: cute.flat_product(x, Layout(2)),
    "flatten": cute.flatten,
    "get": lambda x: cute.get(x, 1),
    "group_modes": lambda x: cute.group_modes(x, 0, 2),
    "left_inverse": cute.left_inverse,
    "logical_divide": lambda x: cute.logical_divide(x, (2, 2)),
    "logical_product": lambda x: cute.logical_product(x, Layout(2)),
    "permuted": lambda x: cute.permuted(x, (1, 0)),
    "prepend": lambda x: cute.prepend(x),
    "raked_product": lambda x: cute.raked_product(x, Layout((2, 1))),
    "recast_layout": lambda x: cute.recast_layout(x, 16, 8),
    "replace": lambda x: cute.replace(x, 0, Layout(2)),
    "right_inverse": cute.right_inverse,
    "select": lambda x: cute.select(x, (1, 0)),
    "slice_": lambda x: cute.slice_((1, None), x),
    "substitute": lambda x: cute.substitute(x, {"M": 1}),
    "take": lambda x: cute.take(x, 0, 1),
    "tile_to_shape": lambda x: cute.tile_to_shape(x, (8, 8)),
    "tile_unzip": lambda x: cute.tile_unzip(x, (2, 2)),
    "tiled_divide": lambda x: cute.tiled_divide(x, (2, 2)),
    "tiled_product": lambda x: cute.tiled_product(x, Layout(2)),
    "unflatten": lambda x: cute.unflatten(cute.flatten(x), (1, 1)),
    "upcast": lambda x: cute.upcast(x, 2),
    "zip_": lambda x: cute.zip_(x, x),
    "zipped_divide": lambda x: cute.zipped_divide(x, (2, 2)),
    "zipped_product": lambda x: cute.zipped_product(x, Layout(2)),
}


def test_a_result_that_is_of_an_operands_class_is_of_that_class():
    of_kind = {name for name, found in public_functions() if {"Kind", "Same"} & set(found)}
    assert of_kind == set(CALLS) - {"composition"}  # several classes: the stub says which
    for name, call in CALLS.items():
        for x in OPERANDS:
            try:
                made = call(x)
            except cute.CuteError:
                continue
            other = (name == "slice_" and isinstance(x, cute.ComposedLayout)) or (
                name == "composition" and isinstance(x, Swizzle)
            )
            assert other or type(made) is type(x), (name, x)


def test_a_composition_is_of_the_class_that_the_stub_says():
    plain, swizzled, tensor, f2, swizzle = OPERANDS
    rows = [(plain, x, Layout) for x in (2, (2, 2), plain)]
    rows += [(tensor, x, cute.Tensor) for x in (2, (2, 2), plain, swizzled, swizzle)]
    rows += [(x, f2, cute.F2Layout) for x in (plain, swizzled, f2)]
    rows += [(plain, x, cute.ComposedLayout) for x in (swizzled, swizzle)]
    rows += [(swizzled, x, cute.ComposedLayout) for x in (2, plain, swizzled, swizzle)]
    rows += [(swizzle, swizzle, cute.F2Map), (swizzle, plain, cute.ComposedLayout)]
    for a, b, made in rows:
        assert isinstance(cute.composition(a, b), made), (a, b)


# -- what completes


def names_of(package):
    """Return the names of a stub that are not private to it (PEP 484)."""
    for x in tree_of(stub_of(package)).body:
        if isinstance(x, ast.ImportFrom):
            yield from (a.name for a in x.names if a.asname == a.name)
        elif isinstance(x, ast.FunctionDef | ast.ClassDef):
            yield x.name
        elif isinstance(x, ast.Assign):
            yield x.targets[0].id
        elif isinstance(x, ast.AnnAssign):
            yield x.target.id


def public(names):
    return {name for name in names if not name.startswith("_")}


FURTHER = {  # names that are reached without their package, and that `dir` leaves to them
    cute: {*cute.cutlass2.__all__, *cute.host.__all__},
    cute.ops: {"operators"},
    cute.viz: {"load_ipython_extension"},
}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_stub_has_the_public_names_alone(package):
    assert public(names_of(package)) == public(dir(package)) | FURTHER.get(package, set())


def spelled(package):
    return package.__name__.replace("cute_py", "cute")


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_prompt_completes_the_public_names_alone(package):
    jedi = pytest.importorskip("jedi")
    found = jedi.Interpreter(f"{spelled(package)}.", [{"cute": cute}]).complete()
    assert public(x.name for x in found) == public(dir(package))


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_an_editor_with_jedi_completes_them_and_modules(package):
    """Jedi lists the modules of a package and the names of its file, whatever the stub says."""
    jedi = pytest.importorskip("jedi")
    code = f"import cute_py as cute\n{spelled(package)}."
    script = jedi.Script(code, project=jedi.Project(ROOT.parent))
    found = public(x.name for x in script.complete(2, len(code.splitlines()[1])))
    assert public(names_of(package)) <= found
    modules = {path.stem for path in Path(package.__file__).parent.iterdir()}
    own = {"annotations", "lazy", "TYPE_CHECKING"}
    assert found - set(names_of(package)) <= modules | own


def test_every_listed_name_has_a_value():
    """But rows of MMAs, of which there are thousands; each is made by a test of its own."""
    for package in PACKAGES:
        for name in dir(package):
            if package is not cute.atoms or not registry.has(name):
                getattr(package, name)


# -- help


def test_help_lists_the_operators_first():
    head, _, rest = pydoc.plain(pydoc.render_doc(cute.ops)).partition("PACKAGE CONTENTS")
    for name in cute.ops.operators():
        assert f"- `{name}`: " in head
        assert inspect.getdoc(getattr(cute.ops, name)).splitlines()[0] in rest
