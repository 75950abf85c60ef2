"""The expression language: the functions of the algebra by name, and nothing else of Python."""

import ast
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import E, Layout, ParseError, Swizzle, _, make_composed_layout, sym
from cute_py.expression import (
    BY_COORDINATES,
    BY_EXTENTS,
    CONSTANTS,
    LEFT_OUT,
    MAX_EXPRESSION,
    MAX_INTEGER,
    MAX_RANK,
    OF_ATOMS,
    evaluate,
    functions,
    show,
)
from cute_py.viz.cells import TileTV
from tests.notation import golden_cases, read, text
from tests.pure.test_public_names import HOMES
from tests.strategies import layouts, negative_layouts, tilers

PACKAGE = Path(cute.__file__).parent


def outcome(function, *operands):
    """Return (value, None), or (None, the refusal)."""
    try:
        return function(*operands), None
    except cute.CuteError as error:
        return None, error


# -- values


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(4,8):(8,1)", Layout((4, 8), (8, 1))),
        ("Layout((4,8), (8,1))", Layout((4, 8), (8, 1))),
        ("Layout((4,8), LayoutRight)", Layout((4, 8), (8, 1))),
        ("Layout<Shape<_4,_8>>", Layout((4, 8), (1, 4))),
        ("(2,(3,_))", (2, (3, _))),
        ("2*(3+4)", 14),
        ("3*E(1,0)", 3 * E(1, 0)),
        ("Sw<3,4,3>", Swizzle(3, 4, 3)),
        ("min(sym('M'), 1)", 1),
        ("true", True),
        ("sym('M', multiple_of=8, max=64)", sym("M", multiple_of=8, max=64)),
    ],
)
def test_literals(expression, value):
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        # README; Cecka, arXiv 2603.02298; cutlass media/docs/cpp/cute/02_layout_algebra.md
        ("composition((6,2):(8,2), (4,3):(3,1))", "((2,2),3):((24,2),8)"),
        ("composition(20:2, (5,4):(4,1))", "(5,4):(8,2)"),
        ("composition((10,2):(16,4), (5,4):(1,5))", "(5,(2,2)):(16,(80,4))"),
        ("coalesce((2,(1,6)):(1,(6,2)))", "12:1"),
        ("complement(4:1, 24)", "6:4"),
        ("complement((2,2):(1,6), 24)", "(3,2):(2,12)"),
        ("logical_divide((4,2,3):(2,1,8), 4:2)", "((2,2),(2,3)):((4,1),(2,8))"),
        ("logical_product((2,2):(4,1), 6:1)", "((2,2),(2,3)):((4,1),(2,8))"),
    ],
)
def test_examples_of_the_cutlass_documentation(expression, text):
    assert show(evaluate(expression)) == text


def test_tilers_in_any_brackets():
    matrix = Layout((128, 64), (64, 1))
    divided = cute.zipped_divide(matrix, (Layout(8, 1), _))
    for tiler in ("(8:1, _)", "<8:1, _>", "[8:1; _]", "(8:1,_,)"):
        assert evaluate(f"zipped_divide((128,64):(64,1), {tiler})") == divided


def test_evaluation_by_index_coordinate_and_slice():
    assert evaluate("((4,8):(8,1))(14)") == 19
    assert evaluate("((4,8):(8,1))(2,3)") == evaluate("((4,8):(8,1))((2,3))") == 19
    assert evaluate("((4,8):(8,1))(_,3)") == Layout((4,), (8,))
    assert evaluate("coalesce((2,2):(1,2))(3)") == 3
    assert evaluate("Sw<2,0,3>(9)") == Swizzle(2, 0, 3)(9)
    assert evaluate("(Sw<2,0,3> o 0 o (8,8):(8,1))(1,1)") == 8


def test_modes_by_index_and_path():
    layout = Layout((4, (2, 3)), (6, (3, 1)))
    assert evaluate("((4,(2,3)):(6,(3,1)))[1]") == layout[1]
    assert evaluate("((4,(2,3)):(6,(3,1)))[1,0]") == evaluate("flatten((4,(2,3)):(6,(3,1)))[1]")
    assert evaluate("slice_and_offset((_,3),(4,8):(8,1))[1]") == 3
    assert evaluate("(5,(6,7))[1,0]") == 6


def test_o_is_composition():
    assert evaluate("(4,8):(8,1) o (2,2):(1,2)") == Layout((2, 2), (8, 16))
    assert evaluate("20:2 o (5,4):(4,1) o (5,2):(1,5)") == evaluate(
        "composition(20:2, composition((5,4):(4,1), (5,2):(1,5)))"
    )
    tile = make_composed_layout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    assert evaluate("Sw<3,3,3> o (8,64):(64,1)") == tile
    assert evaluate("Sw<3,3,3> o 0 o (8,64):(64,1)") == tile
    assert evaluate("(Sw<1,0,1> o Sw<1,1,1>)(3)") == Swizzle(1, 0, 1)(Swizzle(1, 1, 1)(3))


ATOM = "SM80_16x8x8_F32F16F16F32_TN"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (ATOM, cute.atoms.get(ATOM)),
        ("UniversalFMA<f64>", cute.atoms.get("UniversalFMA<f64>")),
        ("UniversalCopy<128>", cute.get_copy("UniversalCopy<128>")),
        ("SM80_CP_ASYNC_CACHEGLOBAL_16B", cute.get_copy("SM80_CP_ASYNC_CACHEGLOBAL_16B")),
        (f"mma({ATOM}, (2,2,1))", cute.make_tiled_mma(ATOM, (2, 2, 1))),
        (f"mma({ATOM}, (2,2,1), (32,_,8))", cute.make_tiled_mma(ATOM, (2, 2, 1), (32, _, 8))),
        ("copy(SM75_U32x4_LDSM_N)", cute.Copy_Atom("SM75_U32x4_LDSM_N", 16)),
        (
            "copy(UniversalCopy<64>, (8,4), (1,2), bits=32)",
            cute.make_tiled_copy(cute.Copy_Atom("UniversalCopy<64>", 32), (8, 4), (1, 2)),
        ),
        ("tv(((2,2),2):((0,1),2), (2,2))", TileTV(Layout(((2, 2), 2), ((0, 1), 2)), (2, 2))),
    ],
)
def test_instructions_and_functions_of_them(expression, value):
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("mma(SM80_16x8x16)", "SM80_16x8x16_S32U8U8S32_TN"),
        ("UniversalCopy<", "inside the '<'"),
        ("UniversalCopy<(8)>", "required: '>'"),
        ("copy(SM61_DP4A)", "a copy instruction"),
        ("mma(4:1)", "an MMA_Atom"),
        ("tv(4:1, 4)", "mode 0 counts threads"),
        ("tv((2,2):(1,2), (1,2))", "inside the tile"),
        ("tv((2,2):(1,2), (10,10000000))", "cells in a picture"),
        ("SM80_16x8x8_F32F16F16F32_TNN", "did you mean"),
    ],
)
def test_instructions_that_do_not_fit_are_refused(expression, words):
    _value, error = outcome(evaluate, expression)
    assert words in str(error)


def test_declared_symbols():
    M = sym("M", multiple_of=8)
    assert evaluate("coalesce((M,8):(8,1))", {"M": M}) == Layout((M, 8), (8, 1))


# -- functions


@given(layouts(max_leaves=3), layouts(max_leaves=2, max_size=64))
def test_a_call_gives_what_python_gives(a, b):
    expected, refused = outcome(cute.composition, a, b)
    value, error = outcome(evaluate, f"composition({a}, {b})")
    assert value == expected
    assert str(error) == str(refused)
    assert outcome(evaluate, f"{a} o {b}")[0] == expected


@given(st.data(), layouts(max_leaves=3))
def test_a_call_with_a_tiler_gives_what_python_gives(data, layout):
    tiler = data.draw(tilers(layout))
    expected, refused = outcome(cute.zipped_divide, layout, tiler)
    value, error = outcome(evaluate, f"zipped_divide({layout}, {show(tiler)})")
    assert value == expected
    assert str(error) == str(refused)


def test_golden_operations_give_what_python_gives():
    asked = set(functions()) & {case["op"] for case in golden_cases("layout_algebra")}
    assert len(asked) > 40
    tried = 0
    for case in golden_cases("layout_algebra"):
        if case["op"] not in asked or case.get("inadmissible"):
            continue
        operands = [text(argument) for argument in case["args"]]
        if any("identity_shape" in str(argument) for argument in case["args"]):
            continue
        operation = getattr(cute, case["op"])
        expected, refused = outcome(operation, *[read(argument) for argument in case["args"]])
        if refused is not None:
            continue
        assert evaluate(f"{case['op']}({', '.join(operands)})") == expected
        tried += 1
    assert tried > 1_000


def test_the_functions_are_the_public_ones_of_the_layout_algebra():
    known = set(functions()) - OF_ATOMS
    assert known >= {"composition", "complement", "Layout", "Swizzle", "offsets", "filter", "E"}
    assert not known & ({*LEFT_OUT, *CONSTANTS, "_"} | {"dtype", "f16", "LayoutError", "evaluate"})
    homes = {name: module for name, (module, _there) in HOMES.items()}
    layers = {module.partition(".")[0] for name, module in homes.items() if name in known}
    layer = {name for name, home in homes.items() if home.partition(".")[0] in layers}
    assert layer == known | set(LEFT_OUT) | set(CONSTANTS) | {"_"}
    assert not BY_EXTENTS & BY_COORDINATES
    assert all(callable(getattr(cute, name)) for name in known)


# -- nothing else of Python


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "eval('1')",
        "print(1)",
        "open('/etc/passwd')",
        "getattr(4:1, 'shape')",
        "coordinates((2,2))",
        "transform_leaf(4, 2)",
        "f16",
        "dtype('f16')",
        "LayoutError('x')",
        "evaluate('1')",
    ],
)
def test_other_names_are_unknown(expression):
    with pytest.raises(ParseError, match="which the language does not have") as raised:
        evaluate(expression)
    assert raised.value.code == "expression-name"
    assert raised.value.facts["position"] == 0


@pytest.mark.parametrize(
    "expression",
    [
        "(4:1).shape",
        "(4:1).__class__",
        "size.__globals__",
        "[x for x in 4]",
        "1 if 2 else 3",
        "2**3",
    ],
)
def test_other_syntax_of_python_is_refused(expression):
    with pytest.raises(ParseError):
        evaluate(expression)


def test_texts_reach_no_function_but_sym():
    with pytest.raises(ParseError, match="layouts and integers as operands of explain"):
        evaluate("explain('append', 4:1, 1:0, 1000000)")


def test_no_source_evaluates_python():
    forbidden = {"eval", "exec", "compile", "literal_eval", "__import__"}
    files = [
        PACKAGE / "expression.py",
        *sorted((PACKAGE / "layout" / "notation").glob("parse*.py")),
    ]
    assert len(files) == 5
    for file in files:
        calls = [n.func for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call)]
        names = {getattr(call, "id", getattr(call, "attr", "")) for call in calls}
        assert not names & forbidden, file


# -- refusals


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("complemnt", "did you mean complement"),
        ("Composition", "did you mean composition"),
        ("layoutright", "did you mean LayoutRight"),
        ("qqqqqq", "see cute-py functions"),
    ],
)
def test_unknown_functions_bring_suggestions(name, hint):
    with pytest.raises(ParseError, match=hint) as raised:
        evaluate(f"size({name}(4:1))")
    assert raised.value.code == "expression-name"
    assert raised.value.facts["position"] == 5


@pytest.mark.parametrize(
    ("expression", "position", "words"),
    [
        ("composition((6,2):(1,7), (3,2):(2,3)", 36, r"',' or '\)'"),
        ("composition", 11, r"'\(' and the operands of composition"),
        ("(4,8):(8,1)(2,3)", 11, "a layout in parentheses before its coordinate"),
        ("(4,8):(8,1) o 3", 12, "a layout after it"),
        ("3 o 4:1", 2, "a layout or a map on both sides of 'o'"),
        ("size(4:1) size", 10, "the end of the text"),
    ],
)
def test_unexpected_text_is_refused_with_its_place(expression, position, words):
    with pytest.raises(ParseError, match=words) as raised:
        evaluate(expression)
    assert raised.value.facts["position"] == position


def test_arguments_are_checked_against_the_parameters():
    with pytest.raises(
        ParseError, match=r"missing a required argument.*required: size\(x, mode="
    ) as e:
        evaluate("size()")
    assert e.value.code == "text-arguments"
    with pytest.raises(ParseError, match="unexpected keyword argument 'foo'"):
        evaluate("size(4:1, foo=3)")


def test_operands_of_the_wrong_kind_are_refused_without_a_traceback():
    with pytest.raises(
        ParseError, match="compare the operands with the documentation of"
    ) as raised:
        evaluate("3 + size(min())")
    assert raised.value.code == "text-operands"
    assert raised.value.facts["position"] == 9


def test_refusals_of_the_algebra_pass_through():
    with pytest.raises(cute.LayoutError, match=r"composition: given a=\(6,2\):\(1,7\)"):
        evaluate("composition((6,2):(1,7), (3,2):(2,3))")


# -- limits


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (str(MAX_INTEGER + 1), "the integer 9223372036854775809 at position 0"),
        ("4294967296*4294967296", "the integer 18446744073709551616 at position 10"),
        ("9" * 500, "the integer of 1661 bits"),
        ("compact_col_major((9223372036854775807,9,2))", "the integer 83010348331692982263"),
        (f"append(4:1, 1:0, {MAX_RANK + 1})", "rank 1025 at position 0"),
        ("offsets((65536,65536):(1,65536))", "4294967296 elements at position 0"),
        ("is_injective((65536,65536):(1,65536))", "at most 16777216 elements"),
        (f"E({MAX_RANK})", "mode 1024 at position 0"),
        ("4:1@1024", "modes below 1024"),
        (f"make_layout({', '.join(['append(4:1,2:1,1024)'] * 3)})", "over 4096 leaves"),
    ],
)
def test_large_values_are_refused_at_once(expression, words):
    began = time.perf_counter()
    with pytest.raises(ParseError, match=words) as raised:
        evaluate(expression)
    assert raised.value.code == "expression-limit"
    assert time.perf_counter() - began < 2


def test_functions_by_extents_are_quick_for_any_size():
    """So a function of their modules that goes through coordinates has to be in another module."""
    huge, plain = "(1048576,1048576):(1048576,1)", "(1099511627776,1099511627776)"
    swizzled = f"Sw<3,4,3> o 0 o {huge}"
    operands = [
        *(huge, plain, f"{huge},{huge}", f"{plain},{plain}", f"{huge},4:1", f"4:1,{huge}"),
        *(f"{huge},0", f"{huge},(2,2)", f"{huge},0,1", f"{plain},1048576", f"{plain},4:1,(8,8)"),
        *(swizzled, f"{swizzled},{huge}", f"{huge},{swizzled}"),
    ]
    for name in sorted(BY_EXTENTS - {*CONSTANTS}):
        began = time.perf_counter()
        for each in operands:
            outcome(evaluate, f"{name}({each})")
        assert time.perf_counter() - began < 1, name


def test_values_at_the_limits_are_given():
    assert evaluate(str(MAX_INTEGER)) == MAX_INTEGER
    assert cute.rank(evaluate(f"append(4:1, 1:0, {MAX_RANK})")) == MAX_RANK
    assert evaluate("composition((1048576,1048576):(1048576,1), 1048576:1048576)") == Layout(
        1 << 20, 1
    )


def test_long_expressions_are_refused():
    with pytest.raises(ParseError, match=f"required: at most {MAX_EXPRESSION}") as raised:
        evaluate("1" + "+1" * MAX_EXPRESSION)
    assert raised.value.code == "text-too-long"


def test_deep_calls_are_refused():
    assert evaluate(f"size({'wrap(' * 60}4{')' * 61}") == 4
    with pytest.raises(ParseError, match="tuples nested deeper than") as raised:
        evaluate("wrap(" * 100 + "4" + ")" * 100)
    assert raised.value.code == "text-too-deep"


# -- any text


OPERANDS = st.sampled_from(
    [
        *("4:1", "(4,8):(8,1)", "8", "(2,4)", "_", "(4:1,2:1)", "Sw<2,0,3>", "true", "0", "-3"),
        *("Sw<2,0,3> o 0 o (8,8):(8,1)", "LayoutRight", "sym('M')", "E(0)", "(4,2):(1@0,1@1)"),
        *("[0]", "None", "(2,4):F2((1),(3,6))", "F2[2x2: 1,3]", "()", "():()", "'x'"),
        "(sym('M',multiple_of=4),4):(4,1)",
    ]
)
CALLS = st.builds(
    lambda name, operands: f"{name}({', '.join(operands)})",
    st.sampled_from(functions()),
    st.lists(OPERANDS, max_size=3),
)


@given(CALLS)
def test_any_call_is_answered_or_refused(expression):
    value, error = outcome(evaluate, expression)
    assert isinstance(show(value), str) if error is None else error.code


# -- results in print


def test_show_writes_cute_notation():
    assert show(evaluate("compatible(4,(2,2))")) == "true"
    assert show(evaluate("common_refinement(6:1,(4,2):(1,4))")) == "none"
    assert show(evaluate("slice_and_offset((_,3),(4,8):(8,1))")) == "((4):(8),3)"
    assert show([Layout(4, 1), (1, (2,)), _]) == "(4:1,(1,(2)),_)"
    assert show(evaluate("offsets((2,2):(2,1))")) == "(0,2,1,3)"
    long = show(evaluate("offsets(1000:1)"))
    assert long.startswith("(0,1,2,")
    assert long.endswith(",255,...) (1000 entries)")


@given(negative_layouts())
def test_show_of_a_layout_is_its_str(layout):
    assert show(layout) == str(layout)


@pytest.mark.parametrize(
    ("short", "python"),
    [
        (
            "mma(SM80_16x8x16_F32F16F16F32_TN, (2,2,1))",
            "make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN, (2,2,1))",
        ),
        (
            "copy(UniversalCopy<128>, (32,4):(4,1), (1,8), bits=16)",
            "make_tiled_copy(Copy_Atom(UniversalCopy<128>, 16), (32,4):(4,1), (1,8))",
        ),
    ],
)
def test_tiled_operations_have_their_names_in_python(short, python):
    assert evaluate(short) == evaluate(python)
