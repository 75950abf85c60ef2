"""F2 maps, F2 layouts, bit matrices and linear-layout bases, against their definition by XOR."""

import pickle
from functools import reduce
from operator import xor

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import ComposedLayout, F2Layout, F2Map, Layout, Swizzle
from cute_py.errors import CoordinateError, LayoutError, LeafTypeError
from cute_py.layout.bits.swizzle import compose_swizzles
from tests import strategies

WIDE = 6
offsets_of_any_sign = st.integers(-(1 << 20), 1 << 20)


@st.composite
def maps(draw, max_bits=WIDE):
    """Draw any map, often one that is close to the identity."""
    bits = draw(st.integers(0, max_bits))
    image = st.one_of(st.sampled_from([1 << bit for bit in range(max_bits)]), st.integers(0, 63))
    return F2Map(draw(st.lists(image, min_size=bits, max_size=bits)))


maps_and_swizzles = st.one_of(maps(), strategies.swizzles())


@st.composite
def power_shapes(draw, max_bits=WIDE):
    bits = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    assume(sum(bits) <= max_bits)
    return draw(strategies.profiles([1 << count for count in bits]))


@st.composite
def f2_layouts(draw, shape=None):
    shape = draw(power_shapes() if shape is None else shape)
    bits = (cute.size(shape)).bit_length() - 1
    bases = draw(st.lists(st.integers(0, 63), min_size=bits, max_size=bits))
    return F2Layout(shape, bases, draw(st.sampled_from((0, 0, 1, 6, 32))))


@st.composite
def power_of_two_layouts(draw):
    """Draw any Layout with extents that are powers of two, linear over F2 or not."""
    shape = draw(power_shapes())
    steps = st.one_of(st.sampled_from((0, 1, 2, 4, 8, 16, 32, 64)), st.integers(0, 12))
    return Layout(shape, draw(strategies.like(shape, steps)))


def table(layout):
    return [layout(i) for i in range(layout.size())]


def xor_law_fails_first_at(values):
    """Return the first i with values[i] != XOR law, by the definition; None where it holds."""
    for i, value in enumerate(values):
        bits = [values[1 << b] ^ values[0] for b in range(i.bit_length()) if i >> b & 1]
        if value != reduce(xor, bits, values[0]):
            return i
    return None


# -- maps of offsets


@given(maps(), offsets_of_any_sign, offsets_of_any_sign)
def test_a_map_is_linear(f2_map, x, y):
    assert f2_map(x ^ y) == f2_map(x) ^ f2_map(y)


@given(maps(), st.integers(0, 1 << 20))
def test_a_map_is_the_xor_of_its_columns_and_the_identity_above(f2_map, x):
    low = [f2_map.columns[b] for b in range(f2_map.bits) if x >> b & 1]
    assert f2_map(x) == reduce(xor, low, x >> f2_map.bits << f2_map.bits)


@given(maps())
def test_bits_is_the_least_number_of_bits_that_take_part(f2_map):
    n = f2_map.bits
    assert {f2_map(x) for x in range(1 << n)} <= set(range(1 << n))
    assert F2Map([*f2_map.columns, 1 << n, 2 << n]) == f2_map
    if n:
        touched = any(f2_map(x) ^ x >= 1 << (n - 1) for x in range(1 << n))
        assert touched or f2_map(1 << (n - 1)) != 1 << (n - 1)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
@given(f2_map=maps(max_bits=12))
def test_arrays_map_entry_by_entry_whatever_their_width(dtype, f2_map):
    info = np.iinfo(dtype)
    values = np.array([0, 1, 2, 37, 63, 127, info.max, info.min], dtype=dtype)
    assert [int(x) for x in f2_map(values)] == [f2_map(int(x)) for x in values]
    assert int(f2_map(values[3])) == f2_map(37)


@given(maps())
def test_maps_print_compare_and_pickle_as_values(f2_map):
    assert eval(repr(f2_map), {"F2Map": F2Map}) == f2_map
    assert pickle.loads(pickle.dumps(f2_map)) == f2_map
    assert hash(F2Map(f2_map.columns)) == hash(f2_map)
    assert str(f2_map).startswith(f"F2[{f2_map.bits}x{f2_map.bits}:")
    assert f2_map != F2Map([*f2_map.columns, 3])
    assert f2_map != f2_map.columns


def test_maps_and_layouts_are_frozen():
    for value in (F2Map((1, 3)), F2Layout(4, (1, 3))):
        with pytest.raises(AttributeError, match="frozen"):
            value.columns = ()
        with pytest.raises(AttributeError, match="frozen"):
            del value.bases


@given(maps(), offsets_of_any_sign)
def test_inverse_undoes_a_map_or_names_what_it_takes_to_zero(f2_map, x):
    if len({f2_map(low) for low in range(1 << f2_map.bits)}) == 1 << f2_map.bits:
        inverse = f2_map.inverse()
        assert inverse(f2_map(x)) == x == f2_map(inverse(x))
    else:
        with pytest.raises(LayoutError, match="takes 0 and") as caught:
            f2_map.inverse()
        assert caught.value.facts["other"] > 0
        assert f2_map(caught.value.facts["other"]) == 0


# -- composition of maps


@given(maps_and_swizzles, maps_and_swizzles, offsets_of_any_sign)
def test_composed_maps_are_applied_one_after_the_other(outer, inner, x):
    assert compose_swizzles(outer, inner)(x) == outer(inner(x))


def all_swizzles(bits):
    """Yield every swizzle of at least one bit that stays below `bits`."""
    for b in range(1, bits):
        for m in range(bits):
            for s in range(b, bits - b - m + 1):
                yield Swizzle(b, m, s)
                yield Swizzle(b, m, -s)


BY_COLUMNS = {tuple(s(1 << b) for b in range(12)): s for s in all_swizzles(12)}


@given(strategies.swizzles(max_base=2), strategies.swizzles(max_base=2))
@example(Swizzle(1, 0, 3), Swizzle(1, 1, 3))
@example(Swizzle(2, 0, 3), Swizzle(1, 0, 3))
@example(Swizzle(2, 0, -2), Swizzle(2, 0, -2))
@example(Swizzle(2, 0, 2), Swizzle(2, 1, 2))
@example(Swizzle(3, 0, 3), Swizzle(1, 1, 3))
def test_two_swizzles_compose_into_a_swizzle_exactly_if_one_fits(a, b):
    result = cute.compose_swizzles(a, b)
    columns = tuple(a(b(1 << bit)) for bit in range(12))
    if columns == tuple(1 << bit for bit in range(12)):
        assert result == Swizzle(0, 0, 0)
    else:
        assert result == BY_COLUMNS.get(columns, result)
        assert isinstance(result, Swizzle) == (columns in BY_COLUMNS)


@given(maps_and_swizzles, maps_and_swizzles, maps_and_swizzles)
def test_composition_of_maps_is_associative(a, b, c):
    left, right = (
        compose_swizzles(compose_swizzles(a, b), c),
        compose_swizzles(a, compose_swizzles(b, c)),
    )
    assert left == right


def test_a_map_composed_with_its_inverse_is_the_identity_swizzle():
    gray = F2Map((1, 3, 6, 12))
    assert compose_swizzles(gray, gray.inverse()) == Swizzle(0, 0, 0)


@given(maps(), strategies.layouts(max_size=64), st.integers(0, 64))
def test_a_map_is_an_outer_map_of_composed_layouts(f2_map, layout, offset):
    composed = ComposedLayout(f2_map, offset, layout)
    assert table(composed) == [f2_map(offset + x) for x in table(layout)]
    assert cute.offsets(composed).tolist() == table(composed)
    names = {"F2Map": F2Map, "Layout": Layout, "ComposedLayout": ComposedLayout}
    assert eval(repr(composed), names) == composed


# -- layouts


@given(f2_layouts(), st.data())
def test_an_f2_layout_is_linear_up_to_its_offset(layout, data):
    index = st.integers(0, layout.size() - 1)
    i, j = data.draw(index), data.draw(index)
    assert layout(i ^ j) == layout(i) ^ layout(j) ^ layout(0)
    assert layout(0) == layout.offset
    assert [layout(1 << b) for b in range(len(layout.bases))] == [
        basis ^ layout.offset for basis in layout.bases
    ]


@given(f2_layouts(), st.data())
def test_a_coordinate_is_its_colexicographical_index(layout, data):
    coord = data.draw(strategies.coordinates_of(layout.shape))
    assert layout(coord) == layout(cute.crd2idx(coord, layout.shape))


@given(f2_layouts())
def test_cosize_is_one_more_than_the_largest_offset(layout):
    assert layout.cosize() == 1 + max(table(layout))


@given(f2_layouts())
def test_f2_layouts_print_compare_and_pickle_as_values(layout):
    assert eval(repr(layout), {"F2Layout": F2Layout}) == layout
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert hash(F2Layout(layout.shape, layout.bases, layout.offset)) == hash(layout)
    assert layout != F2Layout(layout.shape, layout.bases, layout.offset ^ 64)
    assert layout != layout.bases


def test_f2_layouts_print_their_bases_leaf_by_leaf():
    assert (
        str(F2Layout((4, (1, 8)), (1, 2, 5, 10, 16), 3)) == "(4,(1,8)):F2((1,2),((),(5,10,16)))^3"
    )
    assert str(F2Layout(8, (1, 2, 4))) == "8:F2((1,2,4))"
    assert str(F2Layout(1, ())) == "1:F2(())"


@given(f2_layouts(), st.data())
def test_a_slice_keeps_what_the_coordinate_fixes(layout, data):
    coord = data.draw(strategies.slices_of(layout.shape))
    free, fixed = cute.slice_and_offset(coord, Layout(layout.shape))
    sliced = layout(coord)
    if isinstance(sliced, int):
        assert sliced == layout(fixed)
    else:
        assert table(sliced) == [layout(fixed + free(i)) for i in range(free.size())]


@given(f2_layouts())
def test_a_mode_is_the_layout_with_the_other_coordinates_at_zero(layout):
    for k, mode in enumerate(layout):
        plain = Layout(layout.shape)[k]
        assert mode.shape == plain.shape
        assert table(mode) == [layout(plain(i)) for i in range(mode.size())]
    nested = F2Layout((2, (4, 2)), (1, 2, 4, 8))
    assert nested[1, 0] == F2Layout(4, (2, 4))


# -- inverses


@given(f2_layouts())
def test_right_inverse_is_the_longest_power_of_two_of_offsets_that_are_hit(layout):
    values = table(layout)
    if 0 not in values:
        with pytest.raises(LayoutError, match="which no index takes to offset 0"):
            layout.right_inverse()
        return
    inverse = layout.right_inverse()
    assert [layout(inverse(k)) for k in range(inverse.size())] == list(range(inverse.size()))
    assert not set(range(2 * inverse.size())) <= set(values)


@given(f2_layouts())
def test_left_inverse_undoes_the_layout_or_names_two_indices_with_one_offset(layout):
    values = table(layout)
    if len(set(values)) == len(values):
        inverse = layout.left_inverse()
        assert [inverse(offset) for offset in values] == list(range(layout.size()))
    else:
        with pytest.raises(LayoutError, match="to the same offset") as caught:
            layout.left_inverse()
        assert caught.value.facts["other"] > 0
        assert layout(caught.value.facts["other"]) == layout(0)


@given(f2_layouts())
def test_inverse_exists_exactly_for_permutations(layout):
    if sorted(table(layout)) == list(range(layout.size())):
        inverse = layout.inverse()
        assert [inverse(layout(i)) for i in range(layout.size())] == list(range(layout.size()))
        assert [layout(inverse(i)) for i in range(layout.size())] == list(range(layout.size()))
    else:
        with pytest.raises(LayoutError, match=r"same offset|a bijection"):
            layout.inverse()


# -- to F2


@given(power_of_two_layouts())
@example(Layout((4, 4), (1, 2)))
@example(Layout((2, 2, 2), (3, 4, 8)))
def test_to_f2_is_the_same_function_exactly_where_xor_holds(layout):
    values = table(layout)
    first = xor_law_fails_first_at(values)
    if first is None:
        f2 = cute.to_f2(layout)
        assert f2.shape == layout.shape
        assert table(f2) == values
    else:
        with pytest.raises(LayoutError, match="whose index") as caught:
            cute.to_f2(layout)
        assert caught.value.facts["index"] == first
        assert caught.value.facts["got"] == values[first]


@given(st.one_of(strategies.composed_layouts(inner=power_of_two_layouts()), f2_layouts()))
@example(ComposedLayout(Layout((4, 4), (4, 1)), 0, Layout((2, 8), (8, 1))))
@example(ComposedLayout(Swizzle(1, 0, 1), 1, Layout((2, 2), (1, 4))))
@example(ComposedLayout(F2Map((1, 3, 7)), 8, Layout(8, 1)))
def test_to_f2_of_other_layouts_is_exact_too(layout):
    values = table(layout)
    first = xor_law_fails_first_at(values)
    if first is None:
        assert table(cute.to_f2(layout)) == values
    else:
        with pytest.raises(LayoutError, match=f"whose index {first} has offset {values[first]} "):
            cute.to_f2(layout)


def test_to_f2_of_a_huge_layout_is_read_off_its_strides():
    tile = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((1 << 20, 1 << 20), (1 << 20, 1)))
    assert cute.to_f2(tile)(1, 0) == tile(1, 0)


# -- back to layouts


@given(f2_layouts())
def test_from_f2_is_the_same_function_with_a_shape_that_refines(layout):
    plain = cute.from_f2(layout)
    assert table(plain) == table(layout)
    assert cute.compatible(layout.shape, plain.shape)


@given(power_of_two_layouts(), st.sampled_from((0, 0, 3, 64)))
def test_from_f2_gives_layouts_back_as_layouts(layout, moved):
    assume(xor_law_fails_first_at(table(layout)) is None)
    f2 = cute.to_f2(layout)
    plain = cute.from_f2(F2Layout(f2.shape, f2.bases, moved))
    if moved:
        assert (plain.outer, plain.offset) == (Swizzle(0, 0, 0), moved)
    else:
        assert plain == cute.coalesce(layout, cute.repeat_like(layout.shape, 0)) or (
            table(plain) == table(layout) and isinstance(plain, Layout)
        )


@given(strategies.swizzles(), power_of_two_layouts())
def test_from_f2_finds_a_swizzle_where_one_made_the_layout(swizzle, layout):
    assume(xor_law_fails_first_at(table(layout)) is None)
    swizzled = ComposedLayout(swizzle, 0, layout)
    found = cute.from_f2(cute.to_f2(swizzled))
    assert not isinstance(found, F2Layout)
    assert table(found) == table(swizzled)
    if isinstance(found, ComposedLayout):
        assert found.outer.num_bits <= swizzle.num_bits


def test_from_f2_leaves_what_is_no_swizzled_layout():
    gray = F2Layout(8, (1, 3, 7))
    assert cute.from_f2(gray) == gray


# -- matrices


@given(st.one_of(f2_layouts(), maps_and_swizzles))
def test_the_matrix_times_the_index_bits_is_the_offset_bits(x):
    if isinstance(x, F2Layout):
        x = F2Layout(x.shape, x.bases)
    matrix = cute.f2_matrix(x)
    assert matrix.dtype == np.uint8
    for i in range(1 << matrix.shape[1]):
        bits = np.array([i >> b & 1 for b in range(matrix.shape[1])], dtype=np.uint8)
        assert sum(int(bit) << r for r, bit in enumerate(matrix @ bits % 2)) == x(i)


@given(f2_layouts())
def test_a_layout_comes_back_from_its_matrix(layout):
    layout = F2Layout(layout.shape, layout.bases)
    matrix = cute.f2_matrix(layout)
    back = cute.from_f2_matrix(matrix, layout.shape)
    assert table(back) == table(layout)
    assert (cute.f2_matrix(back) == matrix).all()
    assert table(cute.from_f2_matrix(matrix.tolist() if matrix.size else matrix)) == table(layout)


@given(f2_layouts())
def test_rank_counts_offsets_and_kernel_the_indices_that_share_one(layout):
    assert 1 << cute.f2_rank(layout) == len(set(table(layout)))
    kernel = cute.f2_kernel(layout)
    assert cute.f2_rank(layout) + len(kernel) == len(layout.bases)
    for change in kernel:
        assert [layout(i ^ change) for i in range(layout.size())] == table(layout)
    spanned = {
        reduce(xor, [k for b, k in enumerate(kernel) if c >> b & 1], 0)
        for c in range(1 << len(kernel))
    }
    assert spanned == {i for i in range(layout.size()) if layout(i) == layout(0)}


# -- composition


@given(f2_layouts(shape=st.just(64)), f2_layouts())
def test_f2_layouts_compose(outer, inner):
    result = outer.compose(inner)
    assert result.shape == inner.shape
    assert table(result) == [outer(x) for x in table(inner)]


@given(maps_and_swizzles, f2_layouts())
def test_maps_compose_with_f2_layouts(outer, inner):
    assert table(cute.compose_f2(outer, inner)) == [outer(x) for x in table(inner)]


@given(power_of_two_layouts(), f2_layouts())
@example(Layout((2, 2), (1, 4)), F2Layout(8, (1, 2, 4)))
@example(Layout((), ()), F2Layout(2, (1,)))
def test_layouts_compose_with_f2_layouts_and_run_on(outer, inner):
    try:
        result = cute.compose_f2(outer, inner)
    except LayoutError:
        reached = [outer(x) for x in range(max(outer.size(), 2 * inner.cosize()))]
        assert xor_law_fails_first_at(reached) is not None
    else:
        assert table(result) == [outer(x) for x in table(inner)]


# -- linear-layout bases


SM80_C_ROWS_AND_COLUMNS = {  # of mma.m16n8: PTX ISA, "Matrix fragments for mma.m16n8k16", d0 .. d3
    "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
    "register": [(0, 1), (8, 0)],
}


def test_ptx_accumulator_fragment_from_linear_bases_is_cutes_thread_value_layout():
    """CuTe writes the same as ((4,8),(2,2)):((32,1),(16,8)) over (16,8), in mma_traits_sm80.hpp."""
    layout = cute.from_linear_bases(SM80_C_ROWS_AND_COLUMNS, coshape=(16, 8))
    assert layout == Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    back = cute.to_linear_bases(layout, names=("lane", "register"), coshape=(16, 8))
    assert back == SM80_C_ROWS_AND_COLUMNS


def test_triton_mma_v2_16x16_is_two_accumulator_fragments():
    """From triton unittest/Dialect/TritonGPU/LinearLayoutConversionsTest.cpp, MMAv2_16x16."""
    bases = {
        "register": [[0, 1], [8, 0], [0, 8]],
        "lane": [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
        "warp": [],
        "block": [],
    }
    layout = cute.from_linear_bases(bases)
    assert layout.shape == ((2, 2, 2), (4, 8), 1, 1)
    for register in range(8):
        for lane in range(32):
            row = lane // 4 + 8 * (register // 2 % 2)
            column = 2 * (lane % 4) + register % 2 + 8 * (register // 4)
            assert layout(register, lane, 0, 0) == row + 16 * column


def test_triton_xor_example_is_a_swizzle():
    """L(t, w) = (t, w ^ t), the first example of triton include/triton/Tools/LinearLayout.h."""
    layout = cute.from_linear_bases([("t", [[1, 1], [2, 2]]), ("w", [[0, 1], [0, 2]])])
    assert layout == ComposedLayout(Swizzle(2, 0, -2), 0, Layout((4, 4), (1, 4)))
    for t, w in np.ndindex(4, 4):
        assert layout(t, w) == t + 4 * (w ^ t)


def test_triton_transpose_example_is_a_row_major_layout():
    """L(x) = 0 4 8 C 1 5 9 D ..., example 5 of LinearLayout.h."""
    layout = cute.from_linear_bases({"x": [4, 8, 1, 2]})
    assert layout == Layout((4, 4), (4, 1))


def test_triton_matrix_example():
    """| 1 2 14 12 | times 6 is 12, in the mathematical background of LinearLayout.h."""
    rows = [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    layout = cute.from_f2_matrix(rows)
    assert layout == F2Layout(16, (1, 2, 14, 12))
    assert layout(6) == 12


@given(f2_layouts())
def test_linear_bases_come_back(layout):
    layout = F2Layout(layout.shape, layout.bases)
    bases = cute.to_linear_bases(layout)
    assert list(bases) == list(range(cute.rank(layout)))
    assert [image for mode in bases.values() for image in mode] == list(layout.bases)
    assert table(cute.from_linear_bases(bases)) == table(layout)
    vectors = cute.to_linear_bases(layout, coshape=(4, (2, 8)))
    assert table(cute.from_linear_bases(vectors, coshape=(4, (2, 8)))) == table(layout)


def test_a_mode_without_bases_has_extent_one():
    assert cute.from_linear_bases({"register": [], "lane": [1, 2]}) == Layout((1, 4), (0, 1))


# -- refusals: each wording once


def test_operands_of_other_kinds_are_refused():
    no_map = r"composition: given Layout\(4, 1\) \(Layout\); required: a Swizzle or an F2Map; fix"
    with pytest.raises(LeafTypeError, match=no_map) as caught:
        compose_swizzles(Layout(4), Swizzle(1, 0, 1))
    assert caught.value.code == "f2-no-map"
    with pytest.raises(LeafTypeError, match="to_f2: given 7 "):
        cute.to_f2(7)
    with pytest.raises(LeafTypeError, match=r"F2Map: given 1\.5"):
        F2Map((1, 3))(1.5)
    with pytest.raises(LeafTypeError, match="array of float64"):
        F2Map((1, 3))(np.ones(3))
    with pytest.raises(CoordinateError, match="F2Layout: given coordinate 4 for shape 4"):
        F2Layout(4, (1, 3))(4)
    with pytest.raises(CoordinateError, match="given coordinate"):
        F2Layout((4, 2), (1, 3, 4))(4, 0)


# -- the public functions take F2 layouts


@given(f2_layouts())
def test_public_functions_agree_with_the_methods_of_an_f2_layout(f):
    assert cute.composition(f, f.size()) == f.compose(Layout(f.size()))
    assert cute.cosize(f) == int(f.offsets().max()) + 1
    assert cute.composition(Swizzle(1, 0, 1), f) == F2Layout(
        f.shape, [Swizzle(1, 0, 1)(x) for x in f.bases], Swizzle(1, 0, 1)(f.offset)
    )
    try:
        inverse = f.left_inverse()
    except LayoutError:
        with pytest.raises(LayoutError, match=r"left_inverse: given "):
            cute.left_inverse(f)
    else:
        assert cute.left_inverse(f) == inverse
