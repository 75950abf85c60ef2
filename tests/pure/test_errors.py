"""Refusals teach: what was given, what is required, how to fix it; and the fix holds.

`EXAMPLES` makes each refusal of the layout algebra once, with a real call. docs/errors.md shows
their messages, and must list every code of `WORDINGS`.
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
    E,
    Layout,
    Swizzle,
    composition,
    errors,
    make_composed_layout,
    make_identity_layout,
    sym,
)
from cute_py.errors import WORDINGS, refusal
from cute_py.plan.ops import OPS
from tests import model
from tests.kernel_refusals import traced
from tests.notation import read_text
from tests.refusal_examples import RECORDED, WHEN, made_by_calls, messages
from tests.sampling import check_each, each
from tests.strategies import compact_layouts, layouts

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "cute_py"
DOCS = ROOT / "docs" / "errors.md"
CALL = r"(?:\w+\(.*\): )?"  # the call of the user, where an operation inside of it refuses
ROW = Layout((4, 8), (8, 1))
K = sym("K", multiple_of=4, min=4)


def nested(levels):
    shape = 2
    for _ in range(levels):
        shape = (shape,)
    return shape


# code -> (a call that is refused with it, what its message must say)
EXAMPLES = {
    "leaf-type": (lambda: Layout(4.0), "Layout: given 4.0 (float); required: integers"),
    "extent-not-positive": (lambda: Layout((4, 0)), "extent 0 in mode 1"),
    "not-congruent": (lambda: Layout((4, 8), (1,)), "shape (4,8) with stride (1)"),
    "too-deep": (lambda: Layout(nested(65)), "at most 64 levels"),
    "wrong-argument": (
        lambda: cute.transform_leaf(4, (1, 2)),
        "given 4 (int); required: a function of the corresponding leaves",
    ),
    "layout-text": (
        lambda: Layout("(4,8):(8,1)"),
        "the text '(4,8):(8,1)'; required: a shape, or a shape and a stride",
    ),
    "layout-list": (lambda: Layout([4, 8]), "the list [4, 8]; required: integers"),
    "not-a-layout": (lambda: cute.complement(5), "complement: given 5 (int); required: a layout"),
    "basis-path": (lambda: E(-1), "E: given path (-1,)"),
    "mixed-strides": (
        lambda: Layout((4, 8), (1, E(1)))(1, 1),
        "integer stride 1 next to coordinate strides 1@1",
    ),
    "profile-mismatch": (lambda: cute.inner_product((1, 2), 3), "given (1,2) paired with 3"),
    "not-divisible": (lambda: cute.shape_div(6, 4), "pad 6 to a multiple of 4"),
    "coordinate-profile": (lambda: ROW(1, 2, 3), "coordinate (1,2,3) for shape (4,8)"),
    "coordinate-range": (lambda: ROW(4, 0), "4 in mode 0; required: 0 <= entry < 4"),
    "mode-range": (lambda: cute.get(ROW, 2), "mode 2 of (4,8):(8,1)"),
    "mode-interval": (lambda: cute.take(ROW, 1, 1), "modes 1 to 1 of (4,8):(8,1) (rank 2)"),
    "rank-target": (
        lambda: cute.append(Layout((2, 3, 4)), Layout(1, 0), 2),
        "rank 2 for (2,3,4):(1,2,6), which has rank 3",
    ),
    "profile-rank": (lambda: cute.coalesce(ROW, (1, 1, 1)), "profile (1,1,1) for (4,8):(8,1)"),
    "tiler-rank": (
        lambda: cute.logical_divide(ROW, (2, 2, 2)),
        "a tiler of 3 modes for (4,8):(8,1) (rank 2)",
    ),
    "tiler-type": (lambda: composition(ROW, "4:1"), "given '4:1' (str); required: a layout"),
    "composition-departs": (
        lambda: composition(Layout((4, 6), (1, 5)), Layout(3, 3)),
        "given a=(4,6):(1,5) and b=3:3: at coordinate number 2",
    ),
    "composition-too-large": (
        lambda: composition(Layout((4, 4), (1, 5)), Layout((2**13, 2**13), (1, -1))),
        "whose carries may cancel or whose strides differ in sign",
    ),
    "composition-cancels": (
        lambda: composition(
            Layout((2**20, 2**20, 4), (1, 2**20 + 1, 2**40 + 2**20 - 1)), Layout(2**22, 2**20 + 1)
        ),
        "a step of 1048577 in b through digits (1048576,1048576,...) of a, whose carries cancel",
    ),
    "composition-diagonal": (
        lambda: composition(make_identity_layout((2, 2)), Layout(2, 3)),
        "one step would be 1@0 + 1@1",
    ),
    "composition-symbols": (
        lambda: composition(Layout((6, sym("M")), (1, 10)), Layout(4, 4)),
        "4 and 6, of which neither is known to divide the other",
    ),
    "composition-carry": (
        lambda: composition(Layout((K, 8), (1, 100)), Layout((2, K), (1, 1))),
        "the modes of b add up to K in a digit of a of extent K",
    ),
    "complement-overlap": (
        lambda: cute.complement(Layout((4, 2), (1, 2)), 16),
        "mode 1 (stride 2) steps within the 4 offsets",
    ),
    "complement-gap": (
        lambda: cute.logical_divide(
            Layout((2, 3, 2, 8), (2, 10, 8, 8)), Layout((2, 1, 2), (6, 12, 2))
        ),
        "mode 0 has stride 6, which is not a multiple of the 4 offsets",
    ),
    "coordinate-strides": (
        lambda: cute.max_common_vector(make_identity_layout((4, 8)), Layout(32)),
        "coordinate stride 1@0; required: integer strides",
    ),
    "left-inverse": (
        lambda: cute.left_inverse(Layout((3, 3), (2, 3))),
        "stride 3 above a mode of stride 2 that fills 6 offsets",
    ),
    "tile-to-shape": (
        lambda: cute.tile_to_shape(Layout((4, 4)), (10, 8)),
        "pad the shape to (12,8)",
    ),
    "not-compact": (
        lambda: cute.get_hier_coord(Layout((4, 2), (1, 8)), 5),
        "dividing offset 5 by the strides gives no coordinate",
    ),
    "upcast-stride": (
        lambda: cute.upcast(Layout((4, 2), (1, 6)), 4),
        "by 4: stride 6 in mode 1; required: strides that divide 4",
    ),
    "upcast-overlap": (
        lambda: cute.upcast(Layout((2, 2), (1, 1)), 2),
        "modes with strides below 2 together reach offset 2",
    ),
    "downcast-unit": (lambda: cute.downcast(Layout(4, 2), 2), "4:2 by 2: 0 modes have stride 1"),
    "swizzle-parameters": (lambda: Swizzle(3, 0, 2), "Swizzle(3, 0, 2); required: B >= 0"),
    "swizzle-masks": (lambda: cute.make_swizzle(0b101, 0b10), "Y mask 0b101 and Z mask 0b10"),
    "swizzle-factor": (lambda: cute.upcast(Swizzle(1, 3, 1), 3), "Sw<1,3,1> by 3"),
    "swizzle-through": (
        lambda: cute.logical_product(
            Layout(3), make_composed_layout(Swizzle(1, 0, 1), 0, Layout(4))
        ),
        "block 3:1 at Sw<1,0,1> o 0 o 4:1",
    ),
    "upcast-swizzle": (lambda: cute.upcast(Swizzle(3, 2, -3), 32), "a factor of at most 4"),
    "upcast-offset": (
        lambda: cute.upcast(make_composed_layout(Swizzle(1, 3, 3), 3, Layout(8)), 2),
        "offset 3 by 2",
    ),
    "composed-outer": (
        lambda: make_composed_layout("Sw", 0, Layout(4)),
        "given 'Sw' (str) as outer map",
    ),
    "no-stride": (
        lambda: make_composed_layout(Swizzle(1, 0, 1), 0, Layout(4)).stride,
        "Sw<1,0,1> o 0 o 4:1",
    ),
    "complement-swizzle": (
        lambda: cute.complement(make_composed_layout(Swizzle(1, 0, 1), 0, Layout(2, 2)), 8),
        "swizzle moves offsets into the gaps",
    ),
    "inverse-offset": (
        lambda: cute.right_inverse(make_composed_layout(Swizzle(1, 0, 1), 3, Layout(4))),
        "Sw<1,0,1> o 3 o 4:1; required: a map that is one-to-one, with offset 0",
    ),
    "tools-size": (
        lambda: cute.cosize(make_composed_layout(Swizzle(1, 0, 1), 1, Layout(2**25, -3))),
        "for which 33554432 offsets would have to be tabulated; required: at most 65536",
    ),
    "size-mismatch": (
        lambda: cute.layout_add(Layout(4), Layout(6)),
        "4:1 of size 4 and 6:1 of size 6",
    ),
    "layout-add": (
        lambda: cute.layout_add(Layout((2, 3), (1, 5)), Layout((3, 2), (1, 7))),
        "at index 3 the sum is 13, but the layout that fits before it gives 9",
    ),
    "composition-codomain": (
        lambda: composition(Layout((4, 8)), Layout(2, E(3))),
        "coordinate stride 1@3 names mode 3",
    ),
}


@each(EXAMPLES)
def test_refusal_has_its_code_class_and_words(code):
    call, words = EXAMPLES[code]
    with pytest.raises(cute.CuteError, match=re.escape(words)) as caught:
        call()
    assert caught.value.code == code
    assert type(caught.value) is WORDINGS[code][0]


@each(EXAMPLES)
def test_refusal_names_operation_given_required_and_fix(code):
    message = str(raised(EXAMPLES[code][0]))
    assert re.fullmatch(rf"{CALL}\w+: given .+; required: .+; fix: .+", message), message


@each(EXAMPLES)
def test_refusal_names_an_operation_of_cute_py(code):
    facts = raised(EXAMPLES[code][0]).facts
    assert facts["operation"] == "layout" or hasattr(cute, facts["operation"])


def raised(call):
    with pytest.raises(cute.CuteError) as caught:
        call()
    return caught.value


def refused(operation, *operands):
    """Return the refusal of the operation, None where it answers."""
    try:
        operation(*operands)
    except cute.LayoutError as error:
        return error
    return None


def test_refusal_survives_pickling():
    error = raised(EXAMPLES["tile-to-shape"][0])
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
        "the layout that fits all coordinates before gives 6",
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


@given(layouts(max_leaves=3, max_size=64), st.integers(1, 200))
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
        (cute.tile_to_shape, (Layout(2, 3), (8,))),
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
    cells = (f"`{code}`", f"`{WORDINGS[code][0].__name__}`", WHEN[code], quoted)
    return "".join(f"| {cell.replace('|', BAR)} " for cell in cells) + "|"


def test_the_page_shows_what_is_said(request, said):
    text = page(said)
    if request.config.getoption("--update-golden"):
        DOCS.write_text(text, encoding="utf-8", newline="\n")
    assert text == DOCS.read_text(encoding="utf-8"), "pytest --update-golden writes docs/errors.md"


def test_each_wording_has_one_example(said):
    assert WHEN.keys() == said.keys() == WORDINGS.keys()
    assert not RECORDED.keys() & made_by_calls().keys()


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
    made = {code: str(error) for code, error in made_by_calls().items()}
    placed = {code: text for code, text in made.items() if re.search(r"\(\S+\.py:\d+\)$", text)}
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
