"""`cute.interact`: the picture of each combination is that of its expression."""

import base64
import json
import re
import zlib
from itertools import count, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import viz
from cute_py.errors import CuteError
from cute_py.explore.interactive import MOST_PICTURES
from cute_py.explore.operands import value_of
from tests.sampling import fewer


def kept(found):
    """Return the choices and the frames that a notebook keeps."""
    html = found._repr_html_()
    assert html.startswith('<div class="cute-py-choices">')
    (scene,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    scene = json.loads(scene)
    return scene["choices"], json.loads(zlib.decompress(base64.b64decode(scene["frames"])))


@fewer(3)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.lists(st.sampled_from(["(2,2)", (4, 1), "4:2"]), min_size=1, max_size=2),
    st.sampled_from([None, "bank"]),
)
def test_each_combination_has_the_picture_of_its_expression(strides, tiles, by):
    found = cute.interact("logical_divide((8,4):(k,8), t)", k=strides, t=tiles, by=by)
    choices, frames = kept(found)
    assert [each["name"] for each in choices] == ["k", "t"]
    for (k, t), frame in zip(product(strides, tiles), frames, strict=True):
        text = f"logical_divide((8,4):({k},8), {t if isinstance(t, str) else '(4,1)'})"
        assert frame["text"] == text
        assert frame["scene"] == viz.scene(value_of(text), by=by)
    assert found.first == 0


@fewer(3)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_integers_of_an_expression_get_sliders_around_them(numbers):
    text = f"({','.join(map(str, numbers))}):({','.join('1' * len(numbers))})"
    found = cute.interact(text)
    choices, frames = kept(found)
    assert len(choices) == 2 * len(numbers)
    assert frames[found.first]["text"] == text
    for choice, n in zip(choices, [*numbers, *[1] * len(numbers)], strict=True):
        assert choice["values"][choice["first"]] == str(n)
        assert len(choice["values"]) > 1
        assert len(set(choice["values"])) == len(choice["values"])
    assert len({frame["text"] for frame in frames}) == len(frames) <= MOST_PICTURES


def test_a_combination_without_a_value_shows_its_error():
    found = cute.interact("composition((n,2):(1,7), (3,2):(2,3))", n=[6, 7])
    frames = kept(found)[1]
    with pytest.raises(CuteError) as raised:
        value_of("composition((6,2):(1,7), (3,2):(2,3))")
    assert frames[0]["error"]["code"] == raised.value.code
    assert "scene" in frames[1]


def test_names_of_arguments_and_endless_choices():
    text = "copy(UniversalCopy<32>, threads=threads, values=n)"
    keyword = cute.interact(text, n=[(1, 2)], threads=[4, 8])
    assert keyword.frames[1][0] == "copy(UniversalCopy<32>, threads=8, values=(1,2))"
    with pytest.raises(CuteError) as raised:
        cute.interact("(n,8):(8,1)", n=count(1))
    assert raised.value.code == "interact-many"
    shape = cute.interact("(4,n)", n=[2])
    assert kept(shape)[1][0]["scene"] == viz.scene(cute.Layout((4, 2)))


def test_functions_tile_shapes_and_atoms_are_choices():
    def drawn(atom, tile):
        return cute.make_tiled_mma(atom, tile)

    names = ["SM80_16x8x8_F32F16F16F32_TN", "SM61_DP4A"]
    found = cute.interact(drawn, atom=names, tile=[(1, 1, 1), (2, 1, 1)])
    frames = kept(found)[1]
    assert frames[3]["text"] == "atom=SM61_DP4A, tile=(2,1,1)"
    assert frames[3]["scene"] == viz.scene(cute.make_tiled_mma("SM61_DP4A", (2, 1, 1)))
    named = cute.interact("mma(atom, tile)", atom=names, tile=[(1, 1, 1), (2, 1, 1)])
    assert [each["scene"] for each in kept(named)[1]] == [each["scene"] for each in frames]


def test_the_first_is_shown_next_to_each():
    found = cute.interact("(4,4):s", s=[(4, 1), (1, 4)], compare=True)
    for frame, stride in zip(kept(found)[1], [(4, 1), (1, 4)], strict=True):
        panels = frame["scene"]["panels"]
        assert [panel["offset"] for panel in panels] == [
            [cute.Layout((4, 4), each)(i) for i in range(16)] for each in ((4, 1), stride)
        ]


def test_the_text_is_that_of_the_first_picture():
    shown = repr(cute.interact("(2,n):(1,2)", n=[3, 4]))
    assert shown.startswith("n: 3, 4\n(2,3):(1,2)\n")
    assert shown.endswith(str(cute.to_text(cute.Layout((2, 3), (1, 2)))))


def test_what_is_raised_by_all_is_raised():
    with pytest.raises(cute.ParseError):
        cute.interact("composition((n,2", n=[1, 2])
    with pytest.raises(ZeroDivisionError):
        cute.interact(lambda n: cute.Layout(4 // n), n=[0])
    with pytest.raises(CuteError):
        cute.interact("composition((6,2):(1,7), (3,2):(2,3))", compare=True)
    with pytest.raises(CuteError) as raised:
        cute.interact("(2,2,2,2):(1,2,4,8) o ((2,2),(2,2)):((1,2),(4,8))")
    assert raised.value.code == "interact-many"


def test_a_page_keeps_little():
    found = cute.interact("(4,8):(8,1)")
    assert len(found.frames) > 400
    assert len(found._repr_html_()) < 60_000
