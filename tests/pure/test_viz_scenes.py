"""Scenes: each cell shows what the layout says, as JSON that no title can break."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import cute_py as cute
from cute_py import Layout, analysis, sym, viz
from cute_py.atoms.copy import Copy_Atom
from cute_py.errors import CuteError, LayoutError
from cute_py.explore.operands import with_operands
from cute_py.viz.html import fragment, script
from cute_py.viz.scenes import as_json, scene_of
from tests.pure.test_viz_html import VALUES
from tests.strategies import layouts

ATOM = "SM80_16x8x16_F32BF16BF16F32_TN"
MMA = cute.make_tiled_mma(ATOM, (2, 2, 1), (32, 32, 16))
COPY = cute.make_tiled_copy(Copy_Atom("UniversalCopy<32>", 16), Layout((4, 4), (4, 1)), (1, 2))


def numbers(text):
    """Return the numbers of a text such as 0-12/4,64."""
    found = []
    for part in text.split(","):
        first, last, step = re.fullmatch(r"(\d+)(?:-(\d+)(?:/(\d+))?)?", part).groups()
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


def pairs(panel):
    """Return {(thread, value): index} of a panel."""
    found = {}
    for k, (sets, values) in enumerate(zip(panel["thread"], panel["value"], strict=True)):
        if not isinstance(sets, list):
            sets, values = ([], []) if sets is None else ([sets], [[values]])
        for number, held in zip(sets, values, strict=True):
            for t in numbers(panel["threads"][number]):
                for v in held:
                    found.setdefault((t, v), set()).add(k)
    return found


def mapped(tv):
    threads, values = cute.size(tv, 0), cute.size(tv, 1)
    return {(t, v): {tv(t, v)} for t in range(threads) for v in range(values)}


# -- laws


@pytest.mark.parametrize("operand", "ABC")
@pytest.mark.parametrize("mma", [cute.make_tiled_mma(ATOM), MMA], ids=["atom", "tiled"])
def test_each_thread_and_value_of_an_mma_is_where_its_layout_says(mma, operand):
    panels = {panel["title"][0]: panel for panel in viz.scene(mma)["panels"]}
    assert pairs(panels[operand]) == mapped(getattr(mma, f"get_layout{operand}_TV")())


def test_each_thread_and_value_of_a_copy_is_where_its_layout_says():
    source, destination = viz.scene(COPY)["panels"]
    assert pairs(source) == mapped(COPY.get_layoutS_TV())
    assert pairs(destination) == mapped(COPY.get_layoutD_TV())


def test_each_thread_and_value_of_a_map_is_where_it_says():
    tv = Layout(((2, 2), 2), ((0, 1), 2))
    (panel,) = scene_of(viz.picture_tv(tv, (2, 2)))["panels"]
    assert pairs(panel) == mapped(tv)


@given(layouts())
def test_offsets_are_those_of_the_layout(layout):
    try:
        panels = viz.scene(layout)["panels"]
    except LayoutError:  # too many modes
        assert cute.rank(layout) > 4
        return
    by_index = {panel["start"] + k: x for panel in panels for k, x in enumerate(panel["offset"])}
    assert [by_index[i] for i in range(cute.size(layout))] == [
        layout(i) for i in range(cute.size(layout))
    ]


@given(layouts(max_size=64))
def test_colours_and_places_are_those_of_the_picture(layout):
    if cute.rank(layout) > 4:
        return
    drawn = viz.picture_of(layout)
    grids = [grid for row in drawn.grids for grid in row]
    found = scene_of(drawn)
    assert found["places"] == np.arange(len(grids)).reshape(len(drawn.grids), -1).tolist()
    for grid, panel in zip(grids, found["panels"], strict=True):
        for k, colour in enumerate(panel["colour"]):
            i, j = divmod(k, grid.columns) if panel["across"] else divmod(k, grid.rows)[::-1]
            assert grid.colours[i][j] == colour


@pytest.mark.parametrize("name", VALUES)
def test_scenes_are_json(name):
    found = viz.scene(VALUES[name])
    assert json.loads(json.dumps(found)) == found
    assert found["v"] == 1
    for panel in found["panels"]:
        cells = panel["colour"]
        assert len(cells) <= panel["rows"] * panel["columns"]
        assert all(len(panel[x]) == len(cells) for x in ("offset", "thread", "value") if x in panel)


def test_boundaries_are_those_of_the_modes():
    (panel,) = viz.scene(Layout((8, (4, 2, 2))))["panels"]
    assert panel["row_bounds"] == []
    assert panel["column_bounds"] == [4, 8]
    assert panel["shape"] == [8, [4, 2, 2]]


def test_cells_of_a_tensor_show_its_elements_and_tell_their_bytes():
    values = 2 * np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = cute.make_tensor(values, Layout((2, 3), (3, 1)))
    found = viz.scene(tensor)
    (panel,) = found["panels"]
    assert panel["text"] == ["0", "6", "2", "8", "4", "10"]
    assert panel["offset"] == [0, 3, 1, 4, 2, 5]
    assert found["bits"] == 32


# -- several values


def test_a_composition_is_linked_by_its_elements():
    a, b = Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))
    found = viz.scene(cute.show(b, cute.composition(a, b)))
    assert found["link"] == "element"
    first, second = found["panels"]
    assert first["colour"] == second["colour"] == [x % 8 for x in first["offset"]]


@pytest.mark.parametrize("name", ["composition", "logical_divide", "blocked_product"])
def test_two_layouts_and_what_is_made_of_them_are_linked_as_in_the_explorer(name):
    a, b = Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)) if name == "composition" else Layout(2, 6)
    result = getattr(cute, name)(a, b)
    of_a, of_b, of_result = viz.scene(cute.show(a, b, result))["panels"]
    explored = with_operands(f"{name}({a}, {b})", result, None, 16)
    assert [x["keys"] for x in viz.scene(explored)["panels"]] == [
        x["keys"] for x in (of_a, of_b, of_result)
    ]
    if name == "composition":  # cell i of b, index b(i) of a, and cell i of the result
        for i, index in enumerate(of_b["offset"]):
            assert of_b["keys"][i] == of_result["keys"][i] == of_a["keys"][index]
            assert of_b["colour"][i] == of_result["colour"][i] == of_a["colour"][index]


def test_three_layouts_that_no_operation_makes_are_linked_by_their_elements():
    scene = viz.scene(cute.show(Layout(4), Layout(4, 2), Layout(4, 3)))
    assert scene["link"] == "element"


def test_what_has_different_sizes_is_linked_by_offsets_and_what_has_threads_by_threads():
    assert viz.scene(cute.show(Layout(4), Layout(8)))["link"] == "offset"
    assert viz.scene(cute.show(MMA, COPY))["link"] == "thread"
    assert viz.scene(cute.show(Layout(4), Layout(4), link="offset"))["link"] == "offset"


def test_by_is_what_the_colours_tell_apart():
    layout = Layout((8, 8), (8, 1))
    assert viz.scene(layout, by="bank", bits=32)["panels"][0]["colour"][:3] == [0, 2, 4]
    values = cute.show(ATOM, by="value")
    assert values.grids[1][1].colours[0][:2] == (0, 1)


@pytest.mark.parametrize("values", [(), (None,), (1, 2), ("4:1", None), ("a", "b"), (sym("M"),)])
def test_what_cannot_be_shown_together_is_refused(values):
    with pytest.raises(CuteError):
        cute.show(*values)


def test_any_pictures_can_be_shown_together():
    plain = viz.Picture("plain", (tuple(grid_without_facts(viz.picture_of(Layout(4)))),))
    for other in (*VALUES.values(), REPLAYS["some"]):
        for link in ("", "element", "offset", "thread"):
            found = viz.scene(cute.show(plain, other, Layout(4), link=link))
            assert not link or found["link"] == link


def grid_without_facts(drawn):
    return (replace(grid, facts=None) for grid in drawn.grids[0])


@given(layouts(max_size=32))
def test_diff_marks_what_moved(a):
    b = cute.make_layout(a.shape)
    if cute.rank(a) > 4:
        return
    found = viz.scene(cute.diff(a, b))
    moved = [i for i in range(cute.size(a)) if a(i) != b(i)]
    for side in range(2):
        marked = []
        for row in found["places"]:
            for at in row[side * len(row) // 2 : (side + 1) * len(row) // 2]:
                panel = found["panels"][at]
                marked += [panel["start"] + k for k in panel.get("marked", [])]
                shown = [k for k, colour in enumerate(panel["colour"]) if colour is not None]
                assert shown == panel.get("marked", [])
        assert sorted(marked) == moved
    assert f"{len(moved)} of {cute.size(a)} elements moved" in found["title"]


# -- derivations


def steps(node):
    yield node
    for operand in node["operands"]:
        yield from steps(operand)


def test_why_is_a_tree_whose_steps_draw_their_results():
    made = cute.zipped_divide(cute.flatten(Layout((8, (2, 3)))), (4, 2, 1))
    shown = fragment(made.why())
    found = json.loads(re.search(r'<script type="application/json">(.*?)</script>', shown)[1])
    assert found == viz.scene(made.why())
    nodes = list(steps(found["tree"]))
    assert [node["text"].split("(")[0] for node in nodes] == ["zipped_divide", "flatten"]
    assert nodes[0]["scene"]["panels"][0]["offset"] == [made(i) for i in range(cute.size(made))]
    lines = [line for node in nodes for line in (node["text"], *node["lines"])]
    assert lines == [line.strip() for line in made.why().splitlines()]
    assert shown.count("<details") == shown.count("<img") == 2
    assert "\\n" not in repr(made.why())


# -- replays

REPLAYS = {
    "rows": analysis.bank_conflicts([128 * lane for lane in range(32)], bits=32),
    "wide": analysis.bank_conflicts([144 * lane % 1024 for lane in range(32)], bits=128),
    "some": analysis.bank_conflicts([None, 0, 128, 4, 132], bits=32),
}


@pytest.mark.parametrize("name", REPLAYS)
def test_a_replay_shows_the_words_of_each_bank_and_names_the_lanes_that_collide(name):
    report = REPLAYS[name]
    found = viz.scene(report)
    assert found["steps"]
    phases = [phase for pattern in report.patterns for phase in pattern.phases]
    for phase, panel in zip(phases, found["panels"], strict=True):
        words = {}
        for lane, row in zip(phase.lanes, phase.words, strict=True):
            for word in row:
                words.setdefault(word % 32, {}).setdefault(word, set()).add(lane)
        assert max(map(len, words.values())) == phase.wavefronts
        named = {
            (b, lane) for c in phase.conflicts for b in c.banks for each in c.lanes for lane in each
        }
        marked = {(k % 32, phase.lanes[k // 32]) for k in panel.get("marked", [])}
        assert marked == named
        for k in panel.get("marked", []):
            lane = phase.lanes[k // 32]
            (own,) = [w for w, lanes in words[k % 32].items() if lane in lanes]
            others = set.union(*[lanes for w, lanes in words[k % 32].items() if w != own])
            said = re.search(r"in conflict with lanes ([\d,/-]+)", panel["notes"][k])[1]
            assert set(numbers(said)) == others


def test_a_replay_shows_the_sectors_of_each_lane():
    access = analysis.Access(Layout((32, 1)), 32, "f32")
    report = analysis.coalescing(access, Layout(32, 2))
    (panel,) = viz.scene(report)["panels"]
    assert panel["columns"] == report.sectors == 8
    assert sum(int(text or 0) for text in panel["text"]) == report.bytes
    assert len(panel["marked"]) == 32  # half of each sector is not used
    assert "of which 16 are used" in panel["notes"][panel["marked"][0]]


def test_what_a_replay_adds_takes_no_part_in_equality():
    one, other = (
        analysis.bank_conflicts([4 * (lane + k) for lane in range(8)], bits=32) for k in (0, 1)
    )
    assert one == other
    assert hash(one) == hash(other)


# -- the script, and bad input


def test_the_script_is_small_and_brings_nothing_from_elsewhere():
    assert len(script().encode()) <= 16_000
    assert not re.search(
        r"https?:|\bimport\b|\brequire\(|innerHTML|outerHTML|document\.write", script()
    )
    assert "</script" not in script()


BAD = "</script><script>\"&']]> <!-- \u2028"


def test_no_title_ends_the_element_of_a_scene():
    odd = viz.Picture(BAD, viz.picture_of(Layout(2)).grids)
    text = as_json(scene_of(odd))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["title"] == BAD


@pytest.mark.parametrize(
    "x",
    [
        Layout((1 << 15, 1 << 15)),
        Layout((cute.sym("M"), 4)),
        Layout((2, 2, 2, 2, 2)),
        "(4,8",
        "SM80_none",
        "]]>",
        None,
        10**9,
    ],
)
def test_what_cannot_be_drawn_is_refused_and_notebooks_show_its_text(x):
    with pytest.raises(CuteError):
        viz.scene(x)
    assert fragment(x) is None


def test_a_long_derivation_stays_small():
    layout = Layout((8, 8))
    for _ in range(200):
        layout = cute.coalesce(cute.logical_divide(layout, Layout(8)), (1, 1))
    assert len(fragment(layout.why())) <= 500_000
