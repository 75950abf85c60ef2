"""What CuTe C++ answers (tests/golden), replayed: the same text, or a reason why not.

- A case that CuTe admits gives the same text, or stands in docs/differences.md.
- A case that CuTe refuses, or answers against its own definition, is refused or right by the model.
"""

from itertools import pairwise
from math import prod
from pathlib import Path

import pytest

import cute_py as cute
from tests import model
from tests.notation import golden_cases, plain, read, read_call, read_text, text
from tests.sampling import each

DOCS = Path(__file__).parents[2] / "docs"
OF_ATOMS = {"gmma_layout_atom", "gmma_tile_to_shape"}

CASES = {
    name: [case for case in golden_cases(name) if case["op"] not in OF_ATOMS]
    for name in ("layout_algebra", "swizzle")
}
OPERATIONS = sorted({(name, case["op"]) for name, cases in CASES.items() for case in cases})


# -- the operations that are not functions of cute_py of the same name

SPELLED_DIFFERENTLY = {
    "call": lambda layout, coord: layout(coord),
    "get_1d_coord": lambda layout, index: layout.get_1d_coord(index),
    "get_flat_coord": lambda layout, index: layout.get_flat_coord(index),
    "get_hier_coord": lambda layout, index: layout.get_hier_coord(index),
    "make_layout": lambda shape, order: cute.make_layout(
        shape, {"left": cute.LayoutLeft, "right": cute.LayoutRight}[order]
    ),
    "make_layout_concat": lambda layouts: cute.make_layout(*layouts),
    "slice": cute.slice_,
    "swizzle_apply": lambda swizzle, n: [cute.Swizzle(*swizzle)(x) for x in range(n)],
    "swizzle_sample": lambda swizzle, xs: [cute.Swizzle(*swizzle)(x) for x in xs],
    "table": lambda layout: table(layout),
    "with_shape": lambda layout, shape: layout.with_shape(shape),
    "zip": cute.zip_,
}


def operation(name):
    return SPELLED_DIFFERENTLY.get(name) or getattr(cute, name)


def operands(case):
    if case["op"] == "make_layout":  # "left" is no notation of its own
        return [read(case["args"][0]), case["args"][1]]
    return [read(argument) for argument in case["args"]]


def answer(case):
    """Return what cute_py answers, or the refusal."""
    try:
        return operation(case["op"])(*operands(case))
    except cute.CuteError as refusal:
        return refusal


def call_text(case):
    return f"{case['op']}({', '.join(text(argument) for argument in case['args'])})"


# -- what the operations mean, for the cases where CuTe's text is no guide


def at(layout, index):
    """Return the offset of an index, by the model, of a layout, a swizzle or a composed layout."""
    if isinstance(layout, cute.ComposedLayout):
        return at(layout.outer, layout.offset + at(layout.inner, index))
    if isinstance(layout, cute.Swizzle):
        mask = (1 << layout.num_bits) - 1
        low = layout.num_base
        if layout.num_shft >= 0:
            return index ^ ((index >> (low + layout.num_shft) & mask) << low)
        return index ^ ((index >> low & mask) << (low - layout.num_shft))
    if isinstance(layout, int):
        return index
    if not isinstance(layout, cute.Layout):
        return layout(index)  # a map of bits, the form of a composition of two swizzles
    return model.value(model.modes(layout), index)


def table(layout):
    return [at(layout, i) for i in range(cute.size(layout))]


def composition_is_right(a, b, result):
    if isinstance(b, tuple):
        return all(composition_is_right(*modes) for modes in zip(a, b, result, strict=False))
    if isinstance(b, cute.Swizzle):
        count = cute.size(a) if isinstance(a, (cute.Layout, cute.ComposedLayout)) else 4096
        return all(at(result, i) == at(a, at(b, i)) for i in range(count))
    return table(result) == [at(a, at(b, i)) for i in range(cute.size(b))]


def complement_is_right(layout, *rest):
    target, result = prod(model.leaves(rest[0])) if rest[1:] else 1, rest[-1]
    moves = model.table(result)
    sums = [x + y for x in model.sums(model.dense(layout)) for y in moves]
    return len(set(sums)) == len(sums) and max(sums) >= target - 1 and moves == sorted(moves)


def ceil_div_is_right(target, tiler, result):
    """So many copies of the tile cover the target."""
    tile = prod(extent for extent, _ in model.dense(tiler))
    return prod(model.leaves(result)) * tile >= prod(model.leaves(target))


def product_is_right(block, tiler, result):
    """A copy of the block at every position, disjoint, in the order of the tiler's offsets."""
    places = [at(tiler, t) for t in range(cute.size(tiler))]
    cells = [at(block, b) for b in range(cute.size(block))]
    moves = [at(result, t * len(cells)) for t in range(len(places))]
    repeats = table(result) == [cell + move for move in moves for cell in cells]
    ordered = sorted(set(zip(places, moves, strict=True)))
    increasing = all(x < y for (_, x), (_, y) in pairwise(ordered))
    distinct = len({cell + move for cell in cells for move in moves})
    return repeats and increasing and distinct == len(set(cells)) * len(set(moves))


def raked_product_is_right(block, tiler, result):
    """The same with the modes of positions and block paired."""
    copies, blocks = cute.zip_(result)
    return product_is_right(block, tiler, cute.make_layout(blocks, copies))


def tile_to_shape_is_right(block, shape, *rest):
    """Each mode is (the block's, copies) of the shape's size, and no two copies overlap."""
    result = rest[-1]
    targets = shape if isinstance(shape, tuple) else (shape,)
    modes = [(mode.shape, mode.stride) for mode in result]
    sizes = [prod(model.leaves(mode[0])) for mode in modes] == [
        prod(model.leaves(target)) for target in targets
    ]
    cells = len(set(model.table(block))) * prod(prod(model.leaves(s[1])) for s, _ in modes)
    same = sorted(model.sums([(s, d) for m in modes for s, d in model.modes((m[0][0], m[1][0]))]))
    whole = len(set(model.table(result))) == cells and same == sorted(model.table(block))
    return sizes and whole


def common_vector(a, b):
    """Return the largest n with a(R(k)) == b(R(k)) == k for k < n, R the right inverse of b, whose
    values are indices of both.
    """
    places, size = model.table(cute.right_inverse(b)), cute.size(a)
    ends = (k for k, x in enumerate(places) if x >= size or not at(a, x) == at(b, x) == k)
    return next(ends, len(places))


def common_layout_is_right(a, b, result):
    places = model.table(result)
    return [at(a, x) for x in places] == [at(b, x) for x in places] == list(range(len(places)))


def recast_is_right(layout, old, new, result):
    """The same bits are reached."""
    bits = {offset * old + bit for offset in table(layout) for bit in range(old)}
    return bits <= {offset * new + bit for offset in table(result) for bit in range(new)}


def slice_is_right(coord, layout, result):
    sub, offset = result
    expected = [
        at(layout, cute.crd2idx(full, layout.shape)) for full in filled(coord, layout.shape)
    ]
    return [at(sub, i) + offset for i in range(cute.size(sub))] == expected


def filled(coord, shape):
    """Return the coordinates that `coord` stands for, the leftmost `_` fastest."""
    if coord is cute._:
        return list(range(prod(model.leaves(shape))))
    if not isinstance(coord, tuple):
        return [coord]
    coords = [()]
    for part, extent in zip(coord, shape, strict=True):
        coords = [(*head, i) for i in filled(part, extent) for head in coords]
    return coords


def index_of(coord, shape):
    """Return the index of a coordinate whose parts may be indices of nested modes."""
    if not isinstance(coord, tuple):
        return coord
    index = 0
    for part, mode in reversed(list(zip(coord, shape, strict=True))):
        index = index * prod(model.leaves(mode)) + index_of(part, mode)
    return index


def packs(*call):
    """Return whether the modes that move in the result fill 0, 1, 2, ... without a hole, once."""
    *_, result = call
    return sorted(model.sums(model.dense(result))) == list(range(max(table(result)) + 1))


def inverse_is_right(layout, result):
    """layout(R(layout(i))) == layout(i)."""
    offsets = table(layout)
    return [at(layout, at(result, x)) for x in offsets] == offsets


MEANINGS = {
    "ceil_div": ceil_div_is_right,
    "complement": complement_is_right,
    "composition": composition_is_right,
    "crd2crd": lambda coord, source, target, result: (
        index_of(result, target) == index_of(coord, source)
    ),
    "left_inverse": inverse_is_right,
    "make_fragment_like": packs,
    "make_layout_like": packs,
    "make_ordered_layout": packs,
    "logical_product": product_is_right,
    "raked_product": raked_product_is_right,
    "tile_to_shape": tile_to_shape_is_right,
    "tiled_product": product_is_right,
    "zipped_product": product_is_right,
    "max_common_layout": common_layout_is_right,
    "max_common_vector": lambda a, b, result: result == common_vector(a, b),
    "recast_layout": recast_is_right,
    "right_inverse": lambda layout, result: (
        [at(layout, at(result, k)) for k in range(cute.size(result))]
        == list(range(cute.size(result)))
    ),
    "slice_and_offset": slice_is_right,
}


def is_right(case, result):
    return case["op"] in MEANINGS and MEANINGS[case["op"]](*operands(case), result)


# -- the differences that we want


def documented_differences():
    """Return the rows of docs/differences.md: call -> (CuTe's answer, our answer)."""
    rows = {}
    for line in (DOCS / "differences.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) == 4 and cells[0].startswith("`"):
            call, cute_cpp, ours, reason = cells
            assert reason, call
            rows[call.strip("`")] = (cute_cpp.strip("`"), ours.strip("`"))
    return rows


DIFFERENCES = documented_differences()
DOES_NOT_COMPILE = "does not compile"


def refused_by_cute(case):
    return bool(case.get("inadmissible"))


def verdict(case):
    """Return None where cute_py answers as it should, else what it does instead."""
    given = answer(case)
    if isinstance(given, cute.CuteError):
        wanted = refused_by_cute(case) or case.get("meets_definition") is False
        return None if wanted else f"refused: {given}"
    if refused_by_cute(case) or case.get("meets_definition") is False:
        return None if is_right(case, given) else f"wrong: {plain(given)}"
    expected = case["result"]
    if case["op"] == "slice_and_offset" and isinstance(expected, dict):
        return decayed_slice(case, given)
    return None if plain(given) == expected else f"differs: {plain(given)}"


def decayed_slice(case, given):
    """A slice of a swizzled layout may take another form: its offsets decide."""
    sub, offset = given
    offsets = [at(sub, i) + offset for i in range(cute.size(sub))]
    same = offsets == case["result"].get("table", offsets) and is_right(case, given)
    return None if same else f"differs: {plain(given)}"


@each(OPERATIONS)
def test_golden_case_is_answered_as_cute_does(file, op):
    """Every case of the operation, but for the documented differences."""
    offenders = []
    for case in CASES[file]:
        if case["op"] == op and call_text(case) not in DIFFERENCES:
            problem = verdict(case)
            if problem:
                offenders.append(f"{call_text(case)} = {case['result']}; {problem}")
    assert not offenders, f"{len(offenders)} cases, e.g.\n" + "\n".join(offenders[:5])


def test_golden_data_is_complete():
    assert {name: len(cases) for name, cases in CASES.items()} == {
        "layout_algebra": 4842,
        "swizzle": 693,
    }


# -- docs/differences.md


GOLDEN_CALLS = {call_text(case): case for cases in CASES.values() for case in cases}


def our_answer(call):
    """Return what cute_py answers to a call in the notation of the docs."""
    name, arguments = read_call(call)
    try:
        result = operation(name)(*arguments)
    except cute.CuteError as refusal:
        return f"refused: {refusal.code}"
    return text(result)


@each(DIFFERENCES)
def test_documented_difference_is_what_we_answer(call):
    assert our_answer(call) == DIFFERENCES[call][1]


@each(DIFFERENCES)
def test_documented_difference_is_one(call):
    cute_cpp, ours = DIFFERENCES[call]
    assert cute_cpp != ours, "we answer as CuTe does: strike the row"


@pytest.mark.parametrize("call", [call for call in DIFFERENCES if call in GOLDEN_CALLS])
def test_documented_difference_quotes_cute(call):
    case = GOLDEN_CALLS[call]
    quoted = DOES_NOT_COMPILE if refused_by_cute(case) else text(case["result"])
    assert DIFFERENCES[call][0] == quoted


def test_differences_where_we_answer_are_right_by_the_model():
    answered = [
        case
        for call, case in GOLDEN_CALLS.items()
        if call in DIFFERENCES and not isinstance(answer(case), cute.CuteError)
    ]
    assert answered
    for case in answered:
        assert is_right(case, answer(case)), call_text(case)


# -- the notation


@pytest.mark.parametrize("written", ["5", "-5", "()", "_", "(2,(3,4))", "(_,3)", "(4:1,8,_)"])
def test_notation_of_tuples_is_read_and_written_alike(written):
    assert text(read_text(written)) == written


@pytest.mark.parametrize(
    "written",
    [
        "4:1",
        "(4):(1)",
        "((2,4),8):((1,16),2)",
        "(4,8):(1@0,3@1@1)",
        "Sw<3,4,-3>",
        "Sw<3,4,3> o 16 o (8,64):(64,1)",
    ],
)
def test_notation_of_layouts_is_read_and_written_alike(written):
    assert text(read_text(written)) == written


def test_notation_reads_calls():
    name, (a, b) = read_call("composition((6,2):(8,2), (4,3):(3,1))")
    assert (name, a, b) == ("composition", cute.Layout((6, 2), (8, 2)), cute.Layout((4, 3), (3, 1)))
