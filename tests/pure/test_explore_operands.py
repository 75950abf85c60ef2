"""Operands next to the result: cells of one key are those that the operation maps to each other."""

import pytest

from cute_py.explore import answer
from cute_py.expression import evaluate


def panels(e, **more):
    """Return the panels by letter; the one of the result, or the first of its slabs, is ""."""
    found = answer({"v": 1, "e": e, **more})["operands"]
    if found is None:
        return None
    assert found["link"] == "offset"
    named = {}
    for panel in found["panels"]:
        assert len(panel["keys"]) == len(panel["colour"])
        letter = panel["title"].partition(" = ")[0]
        named.setdefault(letter if letter in "ab" else "", panel)
    return named


def values(layout):
    return [layout(i) for i in range(layout.size())]


@pytest.mark.parametrize(
    ("a", "b"), [("(6,2):(8,2)", "(4,3):(3,1)"), ("(4,8):(0,1)", "(4,2):(1,4)"), ("8:2", "4:2")]
)
@pytest.mark.parametrize("form", ["composition({}, {})", "{} o {}", " compose({},{}) "])
def test_a_chain_links_b_through_a(a, b, form):
    found = panels(form.format(a, b))
    outer, inner, result = evaluate(a), evaluate(b), evaluate(f"composition({a},{b})")
    assert found["a"]["keys"] == found["a"]["offset"] == values(outer)
    assert found["b"]["keys"] == [outer(i) for i in values(inner)]
    assert found["b"]["offset"] == values(inner)
    assert found[""]["keys"] == found[""]["offset"] == values(result)


@pytest.mark.parametrize("kind", ["logical", "zipped", "tiled", "flat"])
def test_divides_and_products_link_the_offsets(kind):
    divided = panels(f"{kind}_divide((8,8):(8,1),4:2)")
    assert divided["b"]["keys"] == [evaluate("(8,8):(8,1)")(i) for i in (0, 2, 4, 6)]
    repeated = panels(f"{kind}_product((2,2):(1,2),(3,4):(4,1))")
    origins = repeated["b"]["keys"]
    assert origins == values(evaluate("logical_product((2,2):(1,2),(3,4):(4,1))")[1])
    assert {*origins} < {*repeated[""]["offset"]} or kind in ("tiled", "flat")


def test_an_inverse_links_its_indices_to_offsets():
    found = panels("right_inverse((4,(2,4)):(2,(1,8)))")
    offset_of = dict(enumerate(found["a"]["offset"]))
    for key, index in zip(found[""]["keys"], found[""]["offset"], strict=True):
        assert offset_of[index] == key


@pytest.mark.parametrize("by", ["", "bank", "tile"])
def test_cells_of_one_key_have_one_colour(by):
    found = panels("zipped_divide((8,8):(8,1),(4,2))", by=by)
    colours = dict(zip(found[""]["keys"], found[""]["colour"], strict=True))
    assert found["a"]["colour"] == [colours[key] for key in found["a"]["keys"]]


@pytest.mark.parametrize(
    "e",
    [
        "(4,8):(8,1)",
        "size((4,8):(8,1))",
        "composition((128,128):(128,1),(128,64))",
        "Sw<1,0,1> o 4 o (4,8):(8,1)",
        "flatten((4,8):(1@0,1@1))",
        "mma(SM61_DP4A)",
        "composition((4,8):(?,1),4:1)",
        "composition((4,?):(1,4),4:1)",
        "coalesce((4,8):(?,1))",
    ],
)
def test_what_is_no_operation_on_small_layouts_has_no_operands(e):
    found = answer({"v": 1, "e": e})
    assert "value" in found
    assert found["operands"] is None


def test_a_swizzle_is_named_in_the_result():
    found = answer({"v": 1, "e": "composition(Sw<3,0,3>,(8,8):(8,1))"})["operands"]
    titles = [panel["title"] for panel in found["panels"]]
    assert titles == ["b = (8,8):(8,1)", "composition(Sw<3,0,3>, b)"]


def test_banks_are_those_of_each_layout_of_offsets():
    before, after = answer({"v": 1, "e": "Sw<3,0,3> o (8,8):(8,1)", "by": "bank", "bits": 32})[
        "operands"
    ]["panels"]
    assert before["colour"][:8] == [0, 2, 4, 6, 0, 2, 4, 6]
    assert after["colour"] != before["colour"]
    chain = panels("composition((8,4):(4,1),(4,8):(8,1))", by="bank", bits=32)
    assert chain["b"]["colour"] == chain[""]["colour"]
