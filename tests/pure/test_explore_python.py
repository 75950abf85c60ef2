"""What the explorer says beyond the value: Python with the same value, hints, and symbols."""

from contextlib import redirect_stdout
from io import StringIO

import pytest

import cute_py as cute
from cute_py.explore import answer, link_of, state_of
from cute_py.explore.controls import PRESETS, controls
from cute_py.explore.operands import value_of
from cute_py.explore.python_text import python_of
from cute_py.expression import evaluate, functions
from cute_py.viz.build import BY
from tests.pure.test_explore import LARGE
from tests.sampling import each, in_turn, quick

WITH_VALUES = [
    *[s["e"] for tab in PRESETS.values() for name, s in tab.items() if name != "a refusal"],
    "(4,8):(8,1) o 4:2",
    "Sw<3,4,3> o 0 o (8,64):(64,1)",
    "((4,8):(8,1))(2,3)",
    "coalesce((2,(1,6)):(1,(6,2)))[0]",
    "(coalesce((2,4):(1,2)),)",
    "(coalesce((2,4):(1,2)), (4:1,_))",
    "cute.composition(cute.Layout((8,8),(8,1)), 4)",
    "cute.analysis.bank_conflicts((0,128,256), bits=32)",
    "size((2,(3,4))) + 1",
    "min(3,4)",
    "1@0",
    "3@1@0",
    "copy(UniversalCopy<128>)",
    "copy(SM75_U32x4_LDSM_N, bits=16)",
    "copy(UniversalCopy<32>, bits=32, threads=(32,1))",
    "SM61_DP4A",
    "UniversalCopy<128>",
    "SM90_64x64x16_F32F16F16_SS<K,MN>",
    "mma(SM90_64x64x16_F32F16F16_SS<K,MN>)",
    "make_tiled_mma(SM61_DP4A, atom_layout_mnk=(2,2,1))",
    'make_tiled_mma("SM61_DP4A", (2,2,1))',
    "make_tiled_copy(Copy_Atom(UniversalCopy<128>, 16), (32,4):(4,1), (1,8))",
    "make_layout((4,8), LayoutRight)",
    "compact_order((4,8), (1,0))",
    "sym('M', multiple_of=8)",
    "(M,8):(8,1)",
    "substitute((M,8):(8,N), M=4, N=1)",
    "slice_((_,1),(4,8):(8,1))",
    "row_major((4,8))",
    "(?,8):(8,1)",
    "_4",
]


@each(WITH_VALUES)
def test_python_has_the_value_of_the_expression(e):
    if e.startswith("tv("):
        return
    text = python_of(e)
    assert eval(text, {"cute": cute}) == value_of(e)
    assert "evaluate(" not in text


@each([e for e in WITH_VALUES if not e.startswith(("tv(", "suggest", "SM", "Universal", "subst"))])
def test_most_of_it_is_read_back(e):
    assert value_of(python_of(e)) == value_of(e)


def test_python_is_written_as_calls():
    shown = answer({"v": 1, "e": "zipped_divide((8,8):(8,1),(4,2))", "by": "tile", "as": "python"})
    assert shown["text"] == (
        "import cute_py as cute\n\n"
        "x = cute.zipped_divide(cute.Layout((8, 8), (8, 1)), (4, 2))\n"
        "cute.show(x, by='tile', bits=16)\n"
    )


COPIED = [*WITH_VALUES, "(4,8)", "8"]


@pytest.mark.parametrize(("e", "by"), quick(in_turn(COPIED[::4], BY), COPIED, ["", *BY]))
def test_what_is_copied_runs(e, by):
    text = answer({"v": 1, "e": e, "by": by, "as": "python"})["text"]
    with redirect_stdout(StringIO()) as printed:
        exec(text, {})
    has_picture = "cute.show(" in text
    assert has_picture == bool(answer({"v": 1, "e": e})["scene"])
    assert has_picture or printed.getvalue().strip()


def test_a_shape_is_copied_as_it_is_drawn():
    state = {"v": 1, "e": "(4,8)"}
    assert answer({**state, "as": "svg"}) == answer({"v": 1, "e": "(4,8):(1,4)", "as": "svg"})
    assert "cute.show(cute.Layout(x)" in answer({**state, "as": "python"})["text"]


@each(LARGE[:4])
def test_python_of_large_values_is_a_text(e):
    found = answer({"v": 1, "e": e, "as": "python"})
    assert len(found.get("text", "")) < 1000


# -- the language, as Python spells it


@each(
    [
        ("cute.Layout((4,8),(8,1))", "(4,8):(8,1)"),
        ("cute.zipped_divide(cute.Layout((8,8),(8,1)), (4,2))", "zipped_divide((8,8):(8,1),(4,2))"),
        ("cute . size ( (4,8) )", "size((4,8))"),
        ("cute.atoms.SM61_DP4A", "SM61_DP4A"),
        ("cute.cutlass2.row_major((4,8))", "row_major((4,8))"),
        ("cute.make_tiled_mma('SM61_DP4A', (2,2,1))", "mma(SM61_DP4A,(2,2,1))"),
        ('cute.make_tiled_mma("SM61_DP4A", (2, 2, 1))', "mma(SM61_DP4A,(2,2,1))"),
        ("cute.LayoutRight", "LayoutRight"),
        ("cute._", "_"),
    ]
)
def test_cute_may_stand_before_a_name(e, plain):
    assert evaluate(e) == evaluate(plain)


@each(
    ["cute", "cute.", "cute.5", "cute.analysis.", "cute.cute.size(4)", "cute.os", "cute.ops.gemm"]
)
def test_nothing_else_is_reached_so(e):
    with pytest.raises(cute.ParseError):
        evaluate(e)


# -- no Python of ours shows


def refused(e):
    try:
        value_of(e)
    except cute.CuteError as error:
        return str(error)
    return ""


ACCESS = "copy(UniversalCopy<32>,(8,1),(1,1),bits=32)"


@each(
    [
        "bank_conflicts((4,8):(8,1),(8,1):(32,1))",
        "bank_conflicts((4,8):(8,1))",
        "bank_conflicts((1,(2,3)), bits=32)",
        "bank_conflicts(('a','b'), bits=32)",
        "bank_conflicts((_,_), bits=32)",
        "bank_conflicts((4:1,8:1), bits=32)",
        "bank_conflicts((), bits=32)",
        f"bank_conflicts({ACCESS}, 8)",
        f"bank_conflicts({ACCESS}, (8,1))",
        f"bank_conflicts({ACCESS}, 8:1, side=7)",
        f"bank_conflicts({ACCESS}, Sw<3,0,3>)",
        f"bank_conflicts({ACCESS})",
        "bank_conflicts(sym('M'), 4:1)",
        "bank_conflicts(SM61_DP4A, 4:1)",
        "bank_conflicts(mma(SM61_DP4A), 4:1)",
        "bank_conflicts(_, _)",
        "bank_conflicts(none, none, none)",
        "bank_conflicts(1, 2, 3, 4)",
    ]
)
def test_operands_are_refused_without_an_error_of_python(e):
    said = refused(e)
    assert said
    assert "Error:" not in said, said
    assert "object" not in said, said


OPERANDS = (
    "4:1",
    "(4,8):(8,1)",
    "4",
    "(2,2)",
    "_",
    "none",
    "Sw<1,0,1>",
    "SM61_DP4A",
    "(M,8):(8,1)",
)


@pytest.mark.parametrize("name", quick([(name,) for name in functions()[::15]], functions()))
def test_no_call_shows_an_error_of_python(name):
    for k, first in enumerate(OPERANDS):
        for e in (f"{name}({first})", f"{name}({first},{OPERANDS[k - 1]})"):
            assert "Error:" not in refused(e), e


# -- hints


def test_a_shape_is_drawn_and_told_from_a_layout():
    found = answer({"v": 1, "e": "(4,8)"})
    assert found["value"] == "(4,8)"
    assert found["scene"] == answer({"v": 1, "e": "(4,8):(1,4)"})["scene"]
    assert "strides" in found["hint"]
    assert found["tries"] == ["(4,8):(1,4)", "(4,8):(8,1)"]


@each(["8", "(4,0)", "(4,-8)", "shape((4,8):(8,1))", "(4,_)", "(4:1,8)", "()", "(4,8):(8,1)"])
def test_other_values_have_no_hint(e):
    assert answer({"v": 1, "e": e})["hint"] == ""


@each(["(4,)", "((2,3),4)", "(4,(2,3))", "[4,8]", "(1,1)"])
def test_what_is_tried_has_a_value_with_a_picture(e):
    found = answer({"v": 1, "e": e})
    assert found["scene"]
    assert found["tries"]
    for each_try in found["tries"]:
        assert answer({"v": 1, "e": each_try})["scene"], each_try


@each(["(M,8):(8,1)", "coalesce((M,8):(8,M*8))", "(M,K1):(K1,1)", "(sym('M', multiple_of=16),8)"])
def test_capital_letters_are_symbols_and_get_numbers(e):
    found = answer({"v": 1, "e": e})
    assert found["value"]
    if ":" not in e:
        return
    (made,) = found["tries"]
    assert answer({"v": 1, "e": made})["scene"], made


@each(["E(0)", "Sw<1,0,1>", "S<1,0,1>", "sym('M')", "SM61_DP4A", "complement(4:2, 64)"])
def test_names_of_the_language_are_no_symbols(e):
    assert answer({"v": 1, "e": e})["value"] == answer({"v": 1, "e": e.replace(" ", "")})["value"]
    assert str(value_of(e)) == str(evaluate(e))


@pytest.mark.parametrize("name", ["M", "K1"])
def test_the_command_line_says_how_to_declare_one(name):
    with pytest.raises(cute.ParseError, match=f"--symbol {name}") as raised:
        evaluate(f"({name},8):(8,1)")
    assert evaluate(raised.value.facts["expressions"][0]) is not None


# -- links and the panel


def test_further_data_of_a_link_is_none_of_the_state():
    link = link_of({"v": 1, "e": "(4,8):(8,1)"})
    assert state_of(f"{link}&d=q1YqUbJSMtRRKlOyUkpUqgUA") == state_of(link)


def test_the_panel_has_the_notation_and_every_function_in_a_sentence():
    data = controls()
    assert [name for name, _ in data["functions"]] == functions()
    assert all(text.endswith(".") and len(text) < 300 for _, text in data["functions"])
    assert len(data["notation"]) > 8
    for e, text in data["notation"]:
        assert text
        assert "value" in answer({"v": 1, "e": e}), e
    assert cute.__version__ in data["version"]
