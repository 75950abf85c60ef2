"""Refusals teach: what was given, what is required, how to fix it; and the fix holds.

docs/errors.md shows the messages of tests/refusals, and must list every code of `WORDINGS`.
"""

import ast
import importlib
import math
import pickle
import re
import tomllib
from functools import cache
from pathlib import Path
from string import Formatter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import (
    Layout,
    composition,
    errors,
)
from cute_py.errors import WORDINGS, refusal
from cute_py.plan.ops import OPS
from tests import model
from tests.kernel_refusals import raised, traced
from tests.notation import read_text
from tests.refusals.rows import made, messages, rows
from tests.sampling import check_each, each
from tests.strategies import compact_layouts, layouts

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "cute_py"
DOCS = ROOT / "docs" / "errors.md"
CALL = r"(?:\w+\(.*\): )?"  # the call of the user, where an operation inside of it refuses


def refused(operation, *operands):
    """Return the refusal of the operation, None where it answers."""
    try:
        operation(*operands)
    except cute.LayoutError as error:
        return error
    return None


def test_refusal_survives_pickling():
    error = made()["tile-to-shape"]
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), twin.code) == (type(error), str(error), error.code)


def test_refusal_tells_the_line_of_a_kernel():
    error = refusal("not-divisible", operation="shape_div", where="gemm.py:31", a=6, b=4)
    assert str(error).endswith(" (gemm.py:31)")


# -- the fix holds


def test_composition_departs_tells_place_values_and_repairs():
    """The message for the call that style.md shows, word for word."""
    message = str(raised(lambda: composition(Layout((4, 6), (1, 5)), Layout(3, 3))))
    for words in (
        "a=(4,6):(1,5) and b=3:3",
        "reaches index 6 of a, which is 7",
        "the layout that fits all earlier coordinates gives 6",
        "shrink b from 3 to 2",
        "pad extent 4 of a to 5",
        "make_composed_layout((4,6):(1,5), 0, 3:3)",
    ):
        assert words in message
    assert model.table(composition(Layout((4, 6), (1, 5)), Layout(2, 3))) == [0, 3]
    assert composition(Layout((5, 6), (1, 5)), Layout(3, 3)) == Layout(3, 3)


@given(layouts(max_leaves=3, max_size=64), layouts(max_leaves=2, max_size=32))
def test_composition_repair_of_padding_a_holds(a, b):
    assume(isinstance(model.exists_composition(a, b), model.Departure))
    flat = model.modes(cute.coalesce(a))
    repairs = raised(lambda: composition(a, b)).facts["repairs"]
    for old, new in re.findall(r"pad extent (\d+) of a to (\d+)", repairs):
        padded = [
            [(int(new) if k == place else s, d) for k, (s, d) in enumerate(flat)]
            for place, (s, _) in enumerate(flat)
            if s == int(old)
        ]
        shapes = [Layout(*map(tuple, zip(*pairs, strict=True))) for pairs in padded]
        assert any(
            not isinstance(model.exists_composition(each, b), model.Departure) for each in shapes
        )


@given(layouts(max_leaves=3, max_size=64, stride=st.integers(1, 3)), st.integers(1, 200))
def test_complement_repair_of_the_stride_holds(layout, target):
    """The stride that the refusal offers mends that mode; a later one may be refused in turn."""
    error = refused(cute.complement, layout, target)
    assume(error is not None)
    facts, path = error.facts, error.facts["mode"]
    offered = facts["filled"] if error.code == "complement-overlap" else facts["upper"]
    mended = Layout(layout.shape, replaced(layout.stride, path, offered))
    again = refused(cute.complement, mended, target)
    assert again is None or again.facts["filled"] > facts["filled"] or again.facts["mode"] != path


def replaced(x, path, leaf):
    """Return the int tuple with the leaf at a path replaced."""
    if not path:
        return leaf
    return (*x[: path[0]], replaced(x[path[0]], path[1:], leaf), *x[path[0] + 1 :])


@given(layouts(max_leaves=3), st.sampled_from((2, 3, 4, 8)))
def test_upcast_repair_of_the_factor_holds_for_that_mode(layout, n):
    error = refused(cute.upcast, layout, n)
    assume(error is not None and error.code == "upcast-stride")
    alignment = error.facts["alignment"]
    assert alignment == math.gcd(n, error.facts["stride"])
    assert f"upcast by {alignment}," in str(error)


@given(compact_layouts(max_leaves=2, max_size=32), st.data())
def test_tile_to_shape_repair_of_the_shape_holds(block, data):
    shape = tuple(data.draw(st.integers(1, 20)) for _ in range(len(block)))
    error = refused(cute.tile_to_shape, block, shape)
    assume(error is not None)
    rounded = read_text(error.facts["rounded"])
    assert all(new >= old for new, old in zip(rounded, shape, strict=True))
    assert cute.size(cute.tile_to_shape(block, rounded)) == math.prod(rounded)


@pytest.mark.parametrize(
    ("operation", "operands"),
    [
        (cute.logical_divide, (Layout((6, 6), (6, 1)), Layout(4))),
        (cute.zipped_divide, (Layout((6, 6), (6, 1)), Layout(4))),
        (cute.flat_divide, (Layout((6, 6), (6, 1)), Layout(4))),
        (cute.logical_product, (Layout((2, 2, 2, 2), (4, 48, 24, 1)), Layout((2, 4), (4, 1)))),
        (cute.tile_to_shape, (Layout((2, 2), (3, 3)), (4, 4))),
    ],
)
def test_refusal_inside_of_an_operation_names_it_and_its_operands(operation, operands):
    """Who called a divide or product is told about that, not about the composition in it."""
    message = str(raised(lambda: operation(*operands)))
    assert operation.__name__ in message
    assert str(operands[0]) in message


# -- docs/errors.md


@pytest.fixture(scope="module")
def said():
    """Return code -> the message of its example; to make them all takes a second."""
    return messages()


def page(said):
    """Return docs/errors.md: what stands above the tables, and a row for each wording."""
    lines = [DOCS.read_text(encoding="utf-8").partition("\n## ")[0]]
    for name in errors.TABLES:
        about = importlib.import_module(f"cute_py.{name}").__doc__.partition("\n")[0]
        title = about.removeprefix("Wordings: ").removesuffix(".")
        lines += [f"## {title[0].upper()}{title[1:]}", "", HEAD, RULE]
        lines += [row(code, said[code]) for code in table_of(name)]
        lines.append("")
    return "\n".join(lines)


BAR = r"\|"  # within a cell of a table, in code too
HEAD, RULE = "| code | class | raised when | example |", "| --- | --- | --- | --- |"


def row(code, message):
    quoted = f"`` {message} ``" if "`" in message else f"`{message}`"
    cells = (f"`{code}`", f"`{WORDINGS[code][0].__name__}`", rows()[code].when, quoted)
    return "".join(f"| {cell.replace('|', BAR)} " for cell in cells) + "|"


def test_the_page_shows_what_is_said(request, said):
    text = page(said)
    if request.config.getoption("--update-golden"):
        DOCS.write_text(text, encoding="utf-8", newline="\n")
    assert text == DOCS.read_text(encoding="utf-8"), "pytest --update-golden writes docs/errors.md"


def test_each_wording_has_one_example(said):
    assert rows().keys() == said.keys() == WORDINGS.keys()
    assert all(bool(row.wrong) != bool(row.recorded) for row in rows().values())


def test_examples_have_their_wordings(said):
    """The message is the wording with its fields filled in."""

    def check(code):
        given_, required, fix = map(pattern, WORDINGS[code][1:])
        message = rf"{CALL}[\w.()<>-]+: given {given_}; required: {required}; fix: {fix} ?"
        assert re.fullmatch(message, said[code])

    check_each(check, WORDINGS)


def pattern(wording):
    """Return the pattern of a wording's first line, in which a field stands for any text."""
    parts = Formatter().parse(wording.partition("\n")[0])
    return "".join(re.escape(text) + ("(.*)" if field else "") for text, field, _, _ in parts)


# -- words that the author of a kernel knows


def test_no_text_names_a_record_of_the_plan(said):
    """A kernel says cute.cp_async_wait, not CpWait."""
    records = re.compile(rf"\b({'|'.join(kind.__name__ for kind in OPS)})\b")

    def check(code):
        for text in (*WORDINGS[code][1:], said[code]):
            assert not records.search(text), text

    check_each(check, WORDINGS)
    assert all(kind.call and not records.search(kind.call) for kind in OPS)


def test_the_words_for_an_op_are_public():
    """Where they name a function, it is there."""
    for kind in OPS:
        for name in re.findall(r"cute\.(\w+)", kind.call):
            assert hasattr(cute, name)


UNDECIDED = {
    "size": (
        lambda a: cute.composition(a.layout, cute.Layout(128)),
        "annotate a with cute.spec(",
    ),
    "thread": (lambda f: cute.Layout(cute.thread_idx()), "use % or cute.min_"),
    "number": (lambda x: cute.ceil_div(64, cute.as_int(x[0])), "cute.as_int or cute.var"),
    "variable": (lambda x: cute.ceil_div(64, cute.var(1).get()), "cute.as_int or cute.var"),
}


@each(UNDECIDED)
def test_a_question_that_a_kernel_leaves_open_says_what_it_can_promise(name):
    body, words = UNDECIDED[name]
    error = raised(lambda: traced(body))
    assert (error.code, type(error)) == ("trace-undecided", cute.UndecidedError)
    assert f"to settle that {error.facts['assumption']}, " in str(error)
    assert words in str(error)
    assert "sym(" not in str(error)


def test_an_argument_that_is_a_number_can_be_passed_at_compile_time():
    @cute.kernel
    def divided(x, n: cute.s32):
        cute.launch(grid=1, block=32)
        cute.ceil_div(64, n)

    @cute.kernel
    def static(x, n):
        cute.launch(grid=1, block=32)
        cute.ceil_div(64, n)

    x = np.zeros(32, np.int32)
    assert "pass n as a compile-time number" in str(raised(lambda: cute.trace(divided, x, 4)))
    cute.trace(static, x, 4)


def test_no_refusal_of_a_kernel_offers_what_a_kernel_cannot_do():
    """No symbol can be declared in a kernel; what has a place in a kernel offers none."""
    said = {code: str(error) for code, error in made().items()}
    placed = {code: text for code, text in said.items() if re.search(r"\(\S+\.py:\d+\)$", text)}
    assert len(placed) > 60
    assert {code for code, text in placed.items() if "sym(" in text} == set()


# -- the tables


def table_of(name):
    """Return the wordings of one of `errors.TABLES`."""
    return importlib.import_module(f"cute_py.{name}").WORDINGS


@cache
def layer_of(name):
    """Return the place of a module's folder in the import contract, 0 for the lowest."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (each["layers"] for each in contract["contracts"] if each["id"] == "layers")
    places = [{word.strip(" ()") for word in layer.split("|")} for layer in reversed(layers)]
    (place,) = (i for i, words in enumerate(places) if name.partition(".")[0] in words)
    return place


@pytest.fixture(scope="module")
def modules():
    """Return the syntax tree of each module of the package."""
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")}


def codes_in(module):
    """Return the codes that a module names: a text with a hyphen, or the first operand of a call,
    that is a code."""
    named, keys = {}, set()
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and node.args:
            inside = ast.walk(node.args[0])
            named |= {each: each.value for each in inside if isinstance(each, ast.Constant)}
        elif isinstance(node, ast.Constant) and "-" in str(node.value):
            named[node] = node.value
        elif isinstance(node, ast.Dict):  # a table of wordings raises nothing
            keys |= {*node.keys}
    return {code for node, code in named.items() if node not in keys and code in WORDINGS}


def test_each_code_stands_in_one_table_and_each_table_is_read():
    files = {f"{file.parent.name}.wordings" for file in PACKAGE.glob("*/wordings.py")}
    assert sorted(errors.TABLES) == sorted({*files, "expression"})
    assert sum(len(table_of(name)) for name in errors.TABLES) == len(WORDINGS)


def test_a_row_has_an_error_and_three_parts():
    """What follows its message is a text with a mark, or the log of a compiler."""
    below = {fix.partition("\n")[2] for _, _, _, fix in WORDINGS.values()}
    assert below == {"", "{marked}", "{log}"}
    assert all(issubclass(kind, cute.CuteError) for kind, *_ in WORDINGS.values())


def test_a_code_that_is_raised_has_a_wording(modules):
    """Those that stand in the call of `refusal` itself, or of `refusal_here`."""
    makers, unknown = {"refusal", "refusal_here"}, set()
    for file, module in modules.items():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in makers:
                codes = {
                    each.value for each in ast.walk(node.args[0]) if type(each) is ast.Constant
                }
                unknown |= {(file.name, code) for code in codes if code not in WORDINGS}
    assert unknown == set()


def test_a_wording_stands_with_the_lowest_layer_that_raises_it(modules):
    """So each is where its reader looks first, and none is left that nobody raises."""
    raised_in = {code: set() for code in WORDINGS}
    for file, module in modules.items():
        if file.name != "wordings.py":
            folder = file.relative_to(PACKAGE).with_suffix("").parts[0]
            for code in codes_in(module):
                raised_in[code].add(folder)
    wrong = {}
    for name in errors.TABLES:
        owner = name.partition(".")[0]
        for code in table_of(name):
            users = raised_in[code]
            if owner not in users or min(map(layer_of, users)) != layer_of(owner):
                wrong[code] = (owner, users)
    assert wrong == {}


def test_witness_of_opposite_strides_is_the_first_coordinate_that_departs():
    """Modes of b with strides -24 and 24: the first of them departs, not its mirror image."""
    a, b = Layout((5, 4, 2), (0, 16, 24)), Layout((3, 3), (-24, 24))
    departure = model.exists_composition(a, b)
    with pytest.raises(cute.LayoutError) as caught:
        composition(a, b)
    facts = caught.value.facts
    assert (facts["index"], facts["got"], facts["fitted"]) == (2, -64, -48)
    assert (departure.index, departure.got, departure.fitted) == (2, -64, -48)
