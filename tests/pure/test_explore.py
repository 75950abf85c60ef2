"""`explore.answer`: from any state, JSON to JSON, and never an exception."""

import json
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import viz
from cute_py.explore import answer, link_of, state_of
from tests.pure.test_viz_scenes import numbers


def asked(e, **more):
    found = answer({"v": 1, "e": e, **more})
    assert json.loads(json.dumps(found)) == found
    return found


def test_an_answer_has_the_value_its_scene_and_its_derivation():
    e = "composition(Sw<3,0,3>, (8,8):(8,1))"
    found = asked(e, by="bank", bits=16, sel="O5")
    layout = cute.composition(cute.Swizzle(3, 0, 3), cute.Layout((8, 8), (8, 1)))
    assert found["value"] == str(layout)
    assert found["scene"] == viz.scene(layout, by="bank", bits=16)
    assert found["why"]["tree"]["text"].startswith(str(layout))
    assert found["sel"] == "O5"


def test_a_value_without_a_picture_is_a_text():
    found = asked("size((2,(3,4)))")
    assert (found["value"], found["scene"], found["why"]) == ("24", None, None)


def test_colours_that_do_not_apply_are_left_out():
    assert asked("mma(SM80_16x8x8_F32F16F16F32_TN)", by="bank")["scene"]["link"] == "thread"


@pytest.mark.parametrize(
    "e",
    [
        "composition((6,2):(1,7), (3,2):(2,3))",
        "composition((4,6):(1,5), 3:3)",
        "(4,6):(1,5) o 3:3",
        "composition((6,2):(1@0,7@0), (3,2):(2,3))",
    ],
)
def test_each_repair_is_an_expression_that_has_a_value(e):
    error = asked(e)["error"]
    assert error["code"] == "composition-departs"
    assert error["repairs"]
    for repair in error["repairs"]:
        assert asked(repair)["value"], repair


def test_an_error_has_the_parts_of_the_refusal():
    error = asked("complemnt(4:2, 64)")["error"]
    assert error["code"] == "expression-name"
    assert error["given"].startswith("the name 'complemnt'")
    assert error["required"].startswith("a function")
    assert "complement" in error["fix"]


BAD = [
    "",
    "(4,8",
    "nonsense(1)",
    "zipped_divide((10,8), (4,3))",
    "logical_divide(10:1, 4)",
    "sym(M)",
    "(2,2,2,2,2,2):(1,2,4,8,16,32)",
    "(1000000,1000):(1,1000000)",
    "((" * 2000,
    "(1," * 3000,
    "9" * 8000,
    f"Sw<{'9' * 400},0,1>",
    "x" * 9000,
    "<script>alert(1)</script>",
    "\"&']]>",
    "\x00",
    "\ud800",
    "copy(UniversalCopy<999>)",
    "mma(SM80_16x8x8_F32F16F16F32_TN, (0,0,0))",
    "tv((4,4), (2,2))",
    "offsets((4096,4096))",
    "ArrayEngine((4,8):(8,1),(5,5),17)",
    "Tensor(5,(4,8))",
    "Pointer(4:1,2,3)",
    "copy(_,_,_)",
    "tv(((1000000000,8),2):((16,1),8),(8,8))",
]


@pytest.mark.parametrize("e", BAD, ids=range(len(BAD)))
def test_bad_expressions_are_answered(e):
    found = asked(e)
    assert ("error" in found) != ("value" in found)
    if "error" in found:
        assert all(found["error"][part] for part in ("code", "given", "required"))


@pytest.mark.parametrize(
    "state",
    [
        None,
        [],
        "#v1",
        {},
        {"v": 2, "e": "4:1"},
        {"v": True, "e": "4:1"},
        {"v": 1, "e": 5},
        {"v": 1, "e": "4:1", "bits": 0},
        {"v": 1, "e": "4:1", "bits": 10**9},
        {"v": 1, "e": "4:1", "bits": "16"},
        {"v": 1, "e": "4:1", "by": ["bank"]},
        {"v": 1, "e": "4:1", "sel": None},
    ],
    ids=range(12),
)
def test_bad_states_are_refused(state):
    assert answer(state)["error"]["code"] in ("explore-state", "text-unexpected")


@pytest.mark.parametrize(
    ("e", "reason"),
    [
        ("(1000000,1000):(1,1000000)", "at most 32768 cells"),
        ("copy(UniversalCopy<8>,(256,64),(1,16),bits=8)", "at most 32768 cells"),
        ("mma(SM61_DP4A,(1,1,1),(256,256,64))", "at most 32768 cells"),
        ("((256,256):(1,256),4:1)", "at most 32768 cells"),
        ("(2,2,2,2,2):(1,2,4,8,16)", "at most 4 modes"),
    ],
)
def test_what_is_too_large_to_be_drawn_says_so(e, reason):
    found = asked(e)
    assert found["scene"] is None
    assert reason in found["reason"]
    assert "required" in asked(e, **{"as": "svg"})["error"]


LARGE = [
    "(181,181):(181,1)",
    "composition(Sw<3,4,3>,(1024,1024):(1024,1))",
    "zipped_divide((1000000000,8):(8,1),(4,2))",
    "right_inverse((65536,65536):(1,65536))",
    "complement((1000003,7):(13,1000003))",
    "copy(UniversalCopy<128>,(1024,1),(1,8),bits=16)",
    "tv((1024,16):(16,1),(128,128))",
    "Sw<20,0,20>",
    "mma(SM90_64x256x16_F32BF16BF16_SS_TN)",
    "x" * 9000,
    f"size(({'+'.join('2' * 900)}))",
    f"complement({','.join(['(4,2):(1,2)'] * 300)})",
]


@pytest.mark.parametrize("e", LARGE, ids=range(len(LARGE)))
@pytest.mark.parametrize("by", ["", "tile"])
def test_large_expressions_are_answered_in_time_and_in_little_memory(e, by):
    begun = process_time()
    text = json.dumps(asked(e, by=by))
    assert process_time() - begun < 1.5
    assert len(text) < 3_000_000


def test_what_needs_too_much_memory_is_refused(monkeypatch):
    def too_much(text):
        raise MemoryError

    monkeypatch.setattr("cute_py.explore.answers.value_of", too_much)
    assert asked("(4,8)")["error"]["code"] == "explore-limit"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3),
    max_leaves=6,
)
TEXTS = st.text(alphabet="0123456789(),:_o SwEM<>@*+-[]compsitnlayu.", max_size=40)


@given(JSON | st.fixed_dictionaries({"v": st.just(1), "e": TEXTS | JSON}, optional={"by": JSON}))
def test_no_state_raises(state):
    found = answer(state)
    assert found["v"] == 1
    assert json.loads(json.dumps(found)) == found


# -- links

LINKS = (Path(__file__).parents[1] / "golden/links.txt").read_text().splitlines()


@pytest.mark.parametrize("link", LINKS)
def test_a_link_opens_for_ever(link):
    state = state_of(link)
    assert link_of(state) == link
    found = answer(state)
    assert "error" not in found
    selected = state.get("sel", "")
    if selected.startswith("T"):
        sets = [text for panel in found["scene"]["panels"] for text in panel["threads"]]
        assert any(int(selected[1:]) in numbers(text) for text in sets)


@given(st.text(), st.sampled_from(["", "offset", "bank"]), st.integers(1, 1024), st.text())
def test_a_state_returns_from_its_link(e, by, bits, sel):
    texts = (e, by, sel)
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:  # half of a pair of UTF-16 is no text
        return
    state = {"v": 1, "e": e, "by": by, "bits": bits, "sel": sel}
    assert state_of(link_of(state)) == state


@pytest.mark.parametrize(
    "link",
    ["", "#", "#v2&e=4:1", "#v1", "#v1&e=%", "#v1&e=%E4%", "#v1&e", "#v1&&=&e=4:1&x=5", "#e=4:1"],
)
def test_broken_links_are_answered(link):
    found = answer(state_of(link))
    assert ("error" in found) != ("value" in found)


@given(st.text(max_size=60))
def test_no_link_raises(text):
    answer(state_of(f"#v1&e={text}"))
    answer(state_of(text))


@pytest.mark.parametrize(
    ("e", "repair"),
    [
        ("complemnt(4:2, 64)", "complement(4:2, 64)"),
        ("size(complemnt(4:2, 64))", "size(complement(4:2, 64))"),
        ("composition((4,8):(8,1), (2,2):(1,2)", "composition((4,8):(8,1), (2,2):(1,2))"),
        ("size(((2,3),4", "size(((2,3),4))"),
        ("fit((1,2,4,8))", "fit((1,2,4,5))"),
        ("tile_to_shape((4,4):(4,1),(8,6))", "tile_to_shape((4,4):(4,1), (8,8))"),
        ("size(tile_to_shape((4,4):(4,1),(8,6)))", "size(tile_to_shape((4,4):(4,1), (8,8)))"),
        ("size(fit((0,1,2,4,9)))", "size(3:1)"),
        (
            "coalesce(composition((6,2):(1,7), (3,2):(2,3)))",
            "coalesce(composition((7,2):(1,7), (3,2):(2,3)))",
        ),
    ],
)
def test_repairs_keep_the_text_around_the_call(e, repair):
    repairs = asked(e)["error"]["repairs"]
    assert repair in repairs
    for each in repairs:
        assert "value" in asked(each)


def test_repairs_that_have_no_value_are_left_out():
    assert asked("complemnt(4:2, 64) + nonsense")["error"]["repairs"] == []
