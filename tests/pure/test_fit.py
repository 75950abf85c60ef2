"""`fit`, the inverse problem: what it finds has the offsets of the table, or there is nothing."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import ComposedLayout, F2Layout, Layout, Swizzle
from cute_py.errors import LayoutError, LeafTypeError, UndecidedError
from tests import model, strategies

any_layouts = st.one_of(
    strategies.layouts(), strategies.negative_layouts(), strategies.power_layouts()
)
small_layouts = st.one_of(
    strategies.layouts(max_size=128),
    strategies.negative_layouts(max_size=128),
    strategies.power_layouts(),
)


def table(layout):
    """Return the offsets by the definition, one index at a time."""
    return [layout(i) for i in range(layout.size())]


def is_coalesced(layout):
    pairs = list(zip(model.leaves(layout.shape), model.leaves(layout.stride), strict=True))
    if pairs == [(1, 0)]:
        return True
    apart = all(s * d != step for (s, d), (_, step) in pairwise(pairs))
    return apart and all(s > 1 for s, _ in pairs)


# -- layouts


@given(any_layouts)
def test_fit_of_the_offsets_is_the_coalesced_layout(layout):
    fitted = cute.fit(cute.offsets(layout))
    assert fitted == cute.coalesce(layout)
    assert table(fitted) == table(layout)
    assert is_coalesced(fitted)


@given(any_layouts)
def test_fit_with_the_shape_keeps_its_modes(layout):
    fitted = cute.fit(table(layout), shape=layout.shape)
    assert fitted.shape == layout.shape
    assert table(fitted) == table(layout)


@given(strategies.layouts(max_leaves=3), st.data())
def test_fit_nests_where_a_mode_of_the_table_is_several(layout, data):
    coarse = tuple(cute.size(layout, i) for i in range(cute.rank(layout)))
    fitted = cute.fit(cute.offset_grid(layout))
    profile = coarse[0] if len(coarse) == 1 else coarse
    assert cute.compatible(profile, fitted.shape)
    assert table(fitted) == table(layout)
    for mode in fitted if len(coarse) > 1 else [fitted]:
        assert is_coalesced(mode)


upward_layouts = st.one_of(strategies.layouts(max_size=128), strategies.power_layouts())


@given(st.one_of(small_layouts, strategies.composed_layouts(inner=upward_layouts)))
def test_layouts_are_fitted_like_their_offsets(layout):
    fitted = cute.fit(layout)
    assert table(fitted) == table(layout)
    assert cute.compatible(layout.shape, fitted.shape)
    assert Layout.fit(table(layout)) == cute.fit(table(layout))


@given(small_layouts, st.integers(-50, 50).filter(bool))
def test_a_first_entry_becomes_the_offset(layout, offset):
    fitted = cute.fit([offset + x for x in table(layout)])
    assert (fitted.outer, fitted.offset) == (Swizzle(0, 0, 0), offset)
    assert fitted.inner == cute.coalesce(layout)


def test_one_entry_is_a_constant():
    assert cute.fit([0]) == Layout(1, 0)
    assert cute.fit([5]) == ComposedLayout(Swizzle(0, 0, 0), 5, Layout(1, 0))


# -- swizzles and F2


@given(strategies.swizzles(), st.integers(0, 40), strategies.layouts(max_size=128))
@example(Swizzle(2, 0, -2), 0, Layout((3, 5), (5, 1)))
@example(Swizzle(1, 2, 2), 24, Layout(7, 3))
def test_fit_recovers_what_a_swizzle_made_of_a_layout(swizzle, offset, layout):
    made = ComposedLayout(swizzle, offset, layout)
    for shape in (None, layout.shape):
        fitted = cute.fit(table(made), shape=shape)
        assert table(fitted) == table(made)
        assert not isinstance(fitted, F2Layout)
        outer = fitted.outer if isinstance(fitted, ComposedLayout) else Swizzle(0, 0, 0)
        assert outer.num_bits <= swizzle.num_bits


@given(strategies.swizzles(), st.integers(-40, 40), strategies.negative_layouts(max_size=128))
@example(Swizzle(1, 0, 1), 0, Layout(3, -1))
def test_fit_recovers_swizzled_negative_offsets(swizzle, offset, layout):
    made = ComposedLayout(swizzle, offset, layout)
    reach = max(max(x, ~x) for x in table(made))
    assume(swizzle.swizzle_code <= 2 * reach + 1)
    assert table(cute.fit(table(made))) == table(made)


@pytest.mark.parametrize("swizzle", [Swizzle(3, 3, 3), Swizzle(2, 3, 3), Swizzle(3, 4, 3)], ids=str)
def test_fit_names_the_swizzle_of_a_shared_memory_tile(swizzle):
    tile = ComposedLayout(swizzle, 0, Layout((64, 128), (128, 1)))
    assert cute.fit(cute.offset_grid(tile)) == tile


@given(st.integers(0, 6), st.data())
def test_fit_recovers_every_table_that_is_linear_over_f2(bits, data):
    bases = data.draw(st.lists(st.integers(0, 255), min_size=bits, max_size=bits))
    made = F2Layout(1 << bits, bases, data.draw(st.integers(0, 255)))
    fitted = cute.fit(table(made))
    assert table(fitted) == table(made)
    if isinstance(fitted, F2Layout):
        assert fitted == made


def test_fit_of_a_gray_code_of_codes_is_an_f2_layout():
    gray = [i ^ i >> 1 for i in range(8)]
    assert cute.fit([gray[i] for i in gray]) == ComposedLayout(Swizzle(1, 0, 2), 0, Layout(8, 1))
    cubed = [gray[gray[i]] for i in gray]
    assert isinstance(cute.fit(cubed), F2Layout)
    assert table(cute.fit(cubed)) == cubed


# -- tables


def test_axis_0_of_an_array_is_mode_0():
    grid = np.array([[0, 1, 2], [3, 4, 5]])
    assert cute.fit(grid) == cute.fit(grid.tolist()) == Layout((2, 3), (3, 1))
    assert cute.fit(grid.T) == Layout((3, 2), (1, 3))
    assert cute.fit(grid.reshape(-1), shape=6) == Layout(6, 1)


@given(strategies.layouts(max_size=64), st.randoms())
def test_a_dict_is_read_by_its_coordinates_in_any_order(layout, random):
    coords = list(cute.coordinates(layout.shape))
    random.shuffle(coords)
    fitted = cute.fit({coord: layout(coord) for coord in coords})
    assert fitted == cute.fit(table(layout), shape=layout.shape)


@given(strategies.layouts(max_size=64))
def test_a_function_gets_one_argument_for_each_mode(layout):
    wrapped = isinstance(layout.shape, tuple)
    fitted = cute.fit(lambda *coord: layout(coord if wrapped else coord[0]), shape=layout.shape)
    assert table(fitted) == table(layout)
    assert fitted.shape == layout.shape


def test_a_thread_value_map_of_coordinates_is_cutes_accumulator_layout():
    """PTX ISA, m16n8k16: row = lane/4 (+8 for c2, c3), column = lane%4*2 + (i & 1)."""

    def place(lane, value):
        return lane // 4 + 8 * (value // 2), lane % 4 * 2 + value % 2

    expected = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    assert cute.fit(place, shape=(32, 4), coshape=(16, 8)) == expected
    by_coord = {(lane, v): place(lane, v) for lane in range(32) for v in range(4)}
    assert cute.fit(by_coord, coshape=(16, 8)) == expected
    rows = [[place(lane, v) for v in range(4)] for lane in range(32)]
    assert cute.fit(rows, coshape=(16, 8)) == expected
    assert cute.fit(np.array(rows), coshape=(16, 8)) == expected


def test_coordinates_of_a_nested_coshape_are_read_leaf_by_leaf():
    identity = cute.make_identity_layout((4, (2, 3)))
    assert cute.fit(identity, coshape=(4, (2, 3))) == Layout((4, (2, 3)), (1, (4, 8)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", ">i4", object])
def test_arrays_of_every_integer_type_are_read(dtype):
    assert cute.fit(np.arange(0, 24, 2).astype(dtype)) == Layout(12, 2)


def test_the_table_is_left_untouched():
    values = np.arange(12).reshape(3, 4) + 1
    cute.fit(values)
    assert (values == np.arange(12).reshape(3, 4) + 1).all()


# -- where there is no form


@st.composite
def nearly_layouts(draw):
    """Draw the table of a layout, with an entry or two changed."""
    values = table(draw(small_layouts))
    for _ in range(draw(st.integers(1, 2))):
        values[draw(st.integers(0, len(values) - 1))] += draw(st.sampled_from((1, -1, 7, 64)))
    return values


@given(st.one_of(nearly_layouts(), st.lists(st.integers(-4, 20), min_size=1, max_size=24)))
@example([0, 1, 2, 3, 8, 9])
@example([0, 1, 2, 4, 5, 6, 9])
def test_fit_is_exact_or_names_the_first_index_where_no_layout_goes_on(values):
    try:
        fitted = cute.fit(values)
    except LayoutError as error:
        check_witness(values, error)
    else:
        assert table(fitted) == values


def check_witness(values, error):
    """Compare with a search through the entries: they go like a layout up to the index, not on."""
    index, got = error.facts["index"], error.facts["got"]
    assert got == values[index] != error.facts["fitted"]
    moved = [value - values[0] for value in values]
    assert longest_run_on(moved) == index


def longest_run_on(moved):
    """Return how many entries go like the layout that is read off, its last mode running on."""
    count, hop, modes = len(moved), 1, []
    while hop < count:
        run = next(
            (k for k in range(2, count // hop) if moved[k * hop] != k * moved[hop]), count // hop
        )
        modes.append((run, moved[hop], hop))
        if count // hop % run:
            break
        hop *= run

    def value(i):
        parts = [i // h % s * d for s, d, h in modes[:-1]]
        return sum(parts) + i // modes[-1][2] * modes[-1][1]

    return next(i for i in range(count) if moved[i] != value(i))


@given(st.lists(st.integers(0, 15), min_size=2, max_size=12))
def test_fit_refuses_only_what_no_swizzle_of_the_offset_bits_makes_a_layout(values):
    try:
        cute.fit(values)
    except LayoutError:
        pass
    else:
        assume(False)
    for bits in range(1, 4):
        for base in range(6):
            for shift in (*range(bits, 6), *range(-5, 1 - bits)):
                swizzle = Swizzle(bits, base, shift)
                if swizzle.swizzle_code.bit_length() <= max(values).bit_length():
                    unswizzled = [swizzle(value) for value in values]
                    assert not is_layout([x - unswizzled[0] for x in unswizzled])


def is_layout(values):
    """Decide by the definition, mode by mode: peel off every extent that divides."""
    if len(values) == 1:
        return values[0] == 0
    if all(x == i * values[1] for i, x in enumerate(values)):
        return True
    for extent in range(2, len(values)):
        if len(values) % extent == 0:
            rows = [values[i : i + extent] for i in range(0, len(values), extent)]
            linear = all(x - row[0] == i * values[1] for row in rows for i, x in enumerate(row))
            if linear and is_layout([row[0] for row in rows]):
                return True
    return False


# -- refusals: each wording once


@pytest.mark.parametrize(
    "values", [[0.0, 1.0], np.ones(3), ["a"], [True, False], [0, True], [[0, 1], [2, True]], [None]]
)
def test_entries_that_are_no_integers_are_refused(values):
    with pytest.raises(LeafTypeError, match=r"fit: given .*; required: integers"):
        cute.fit(values)


def test_a_symbolic_shape_is_refused():
    with pytest.raises(UndecidedError, match=r"fit: .* M is one number"):
        cute.fit([0, 1], shape=(cute.sym("M"),))


# -- size


def test_a_million_entries_are_fitted_like_a_few():
    layout = Layout(((10, 100), (50, 20)), ((1, 5000), (10, 1000000)))
    assert cute.fit(cute.offset_grid(layout)) == layout
    changed = cute.offsets(layout)
    changed[777_777] += 1
    with pytest.raises(LayoutError, match=r"up to index 777777, .* only that entry differs"):
        cute.fit(changed)
