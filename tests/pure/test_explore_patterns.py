"""The gallery of the explorer: each pattern opens, and is what its explanation says."""

import re
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

import cute_py as cute
from cute_py.atoms.gmma import gmma_layout_atom
from cute_py.atoms.tma import make_tma_atom
from cute_py.explore import answer, link_of, state_of
from cute_py.explore.operands import value_of
from cute_py.explore.patterns import PATTERNS
from cute_py.explore.states import PLAIN

GLOBAL = cute.Layout((512, 256), (256, 1))  # row-major


def at(formula):
    """Return a law: the offset of (i, j)."""
    return lambda x: all(
        x((i, j)) == formula(i, j) for i, j in product(*map(range, map(cute.size, x.shape)))
    )


def banks(x, cells, bits=16, width=16):
    """Return the groups of banks, `width` bytes each, of elements."""
    return [x(cell) * bits // 8 // width % (128 // width) for cell in cells]


def free_columns(x):
    """Return whether the chunks of each column of eight rows are in different banks."""
    rows, columns = map(cute.size, x.shape)
    return all(
        len(set(banks(x, [(i, j) for i in range(rows)]))) == rows == 8 for j in range(0, columns, 8)
    )


def xor(rows):
    """Return the law of a swizzle: chunks of 8 elements, at their place XOR row//rows."""

    def law(x):
        width = cute.size(x.shape[1])
        place = at(lambda i, j: i * width + 8 * (j // 8 ^ i // rows) + j % 8)
        atom = gmma_layout_atom("K", f"SW{2 * width}", "f16")
        return place(x) and free_columns(x) and atom == x

    return law


def box(*extents):
    """Return the law of a tile in shared memory: the box of its TMA load."""

    def law(x):
        atom = make_tma_atom("SM90_TMA_LOAD", GLOBAL, x, "f16")
        return atom.box == extents

    return law


def two_boxes(x):
    first, second = ([x((i, j + k)) for i in range(16) for j in range(64)] for k in (0, 64))
    apart = [b - a for a, b in zip(first, second, strict=True)]
    return box(64, 16)(x) and sorted(first) == list(range(1024)) and set(apart) == {1024}


def congruous(x):
    """ldmatrix.trans reads eight columns of eight rows: a chunk of each."""
    return all(
        len(set(banks(x, [(i, j) for j in range(8)]))) == 8
        and [x((i + k, j)) - x((i, j)) for k in range(8)] == list(range(8))
        for i in range(0, 64, 8)
        for j in range(8)
    )


def im2col(x):
    image = cute.cutlass2.tensor_nhwc(1, 6, 6, 2)
    taken = Counter()
    for q, p, c, s, r in product(range(4), range(4), range(2), range(3), range(3)):
        offset = x(((q, p), (c, s, r)))
        if offset != image((0, p + r, q + s, c)):
            return False
        taken[offset, q, p] += 1
    rows = Counter(offset for offset, _, _ in taken)
    return max(taken.values()) == 1 and max(rows.values()) == 9


LAWS = {
    "row-major": at(lambda i, j: 8 * i + j),
    "column-major": at(lambda i, j: i + 8 * j),
    "padded rows": lambda x: all(
        len(set(banks(x, [(i, j) for i in range(8)], bits=32, width=4))) == 8 for j in range(32)
    ),
    "row-major, interleaved": at(lambda i, j: 32 * (i // 4) + 4 * j + i % 4),
    "column-major, interleaved": at(lambda i, j: 32 * (j // 4) + 4 * i + j % 4),
    "128 bytes, no swizzle": lambda x: all(
        len(set(banks(x, [(i, j) for i in range(8)], width=4))) == 1 for j in range(64)
    ),
    "swizzle of 32 bytes": xor(4),
    "swizzle of 64 bytes": xor(2),
    "swizzle of 128 bytes": xor(1),
    "TMA box": box(64, 16),
    "TMA boxes, swizzled": two_boxes,
    "multiplicand, crosswise": xor(2),
    "multiplicand, congruous": congruous,
    "im2col": im2col,
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_opens_and_is_what_it_says(name):
    state, says = PATTERNS[name]
    found = answer(state_of(link_of({"v": 1, **state})))
    assert found["scene"]["panels"]
    assert found["pattern"] == says
    assert LAWS[name](value_of(state["e"]))
    others = [value_of(each["e"]) for other, (each, _) in PATTERNS.items() if other != name]
    same = [x for x in others if x.shape == value_of(state["e"]).shape and LAWS[name](x)]
    assert len(same) <= 1  # the crosswise multiplicand is the swizzle of 64 bytes


def test_the_page_of_the_explorer_lists_the_patterns():
    page = (Path(__file__).parents[2] / "docs/explorer.md").read_text(encoding="utf-8")
    section = page.partition("\n## Patterns\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| ([^|]*) \| `([^`]*)` \|$", section, re.MULTILINE)
    assert listed == [(name, state["e"]) for name, (state, _) in PATTERNS.items()]
    assert {*LAWS} == {*PATTERNS}


def test_another_expression_has_no_explanation():
    assert answer({"v": 1, "e": "(4,8):(8,1)"})["pattern"] == ""


# -- tiles, and before and after


@pytest.mark.parametrize(
    "e",
    [
        "(4,8):(8,1)",
        "((2,4),8):((1,16),2)",
        "12:1",
        "zipped_divide((8,8):(8,1),(4,2))",
        "mma(SM80_16x8x8_F32F16F16F32_TN,(2,1,1))",
        "mma(SM61_DP4A)",
        "tv(((4,8),2):((16,1),8),(8,8))",
    ],
)
def test_each_tile_is_an_expression_with_a_value_and_that_tile(e):
    begin, shapes = answer({"v": 1, "e": e})["tiles"]
    assert len(shapes) > 1
    for shape in shapes:
        found = answer({"v": 1, "e": f"{begin}{shape})"})
        assert "value" in found, shape
        extents = tuple(map(int, shape.strip("()").split(",")))
        value = value_of(f"{begin}{shape})")
        if hasattr(value, "tile_size"):
            assert tuple(value.tile_size(mode) for mode in range(3)) == extents
        elif not hasattr(value, "tile"):
            assert cute.size(value.shape[0]) == cute.size(extents)
        assert found["tiles"] == [begin, shapes]  # another tile, not a tile of the tiles


@pytest.mark.parametrize("e", ["7", "Sw<2,0,3>", "(M,8):(8,1)", "mma(atom=SM61_DP4A)", "4", "()"])
def test_what_has_no_tiles_offers_none(e):
    assert answer({"v": 1, "e": e})["tiles"][1] == []


def test_before_and_after_are_next_to_each_other():
    state = {"v": 1, "e": "(4,8):(8,1)", "was": "(4,8):(1,4)"}
    found = answer(state)
    assert state_of(link_of(state)) == state
    before, after = cute.Layout((4, 8), (1, 4)), cute.Layout((4, 8), (8, 1))
    moved = [i for i in range(32) if before(i) != after(i)]
    panels = found["before"]["panels"]
    assert [panel["offset"] for panel in panels] == [
        [x(i) for i in range(32)] for x in (before, after)
    ]
    assert panels[0]["marked"] == panels[1]["marked"] == moved
    banks = answer({**state, "by": "bank"})["before"]["panels"]
    assert None not in banks[0]["colour"]


def test_atoms_are_compared_and_bad_expressions_say_why():
    mma = "mma(SM61_DP4A)"
    found = answer({"v": 1, "e": "mma(SM61_DP4A,(2,1,1))", "was": mma})["before"]
    assert found["title"] == f"{mma} to mma(SM61_DP4A,(2,1,1))"
    assert found["link"] == "thread"
    failed = answer({**PLAIN, "e": "4:1", "was": "nonsense"})
    assert failed["before"] is None
    assert failed["scene"]
    assert "a function" in failed["reason"]
    assert answer({"v": 1, "e": "4:1", "was": "(1000,1000)"})["before"] is None
