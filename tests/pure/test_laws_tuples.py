"""Laws of int tuples and coordinates."""

from math import prod

from hypothesis import assume, given
from hypothesis import strategies as st

import cute_py as cute
from tests import model
from tests.sampling import fewer
from tests.strategies import coordinates_of, extents, int_tuples, layouts, like, shapes

# -- structure


@given(int_tuples())
def test_unflatten_undoes_flatten(x):
    assert cute.unflatten(cute.flatten(x), x) == x


@given(int_tuples())
def test_size_and_product_are_the_product_of_the_leaves(x):
    total = prod(model.leaves(x))
    assert cute.product(x) == cute.size(x) == prod(model.leaves(cute.product_each(x))) == total


@given(int_tuples())
def test_depth_counts_brackets(x):
    def brackets(part):
        return 1 + max(brackets(mode) for mode in part) if isinstance(part, tuple) else 0

    assert cute.depth(x) == brackets(x)


@given(shapes())
def test_prefix_product_gives_the_compact_strides(shape):
    strides = cute.prefix_product(shape)
    assert cute.congruent(shape, strides)
    assert tuple(model.leaves(strides)) == model.compact_strides(model.leaves(shape))


@given(st.data())
def test_inner_product_sums_the_facing_products(data):
    a = data.draw(int_tuples())
    b = data.draw(like(a, extents))
    products = [x * y for x, y in zip(model.leaves(a), model.leaves(b), strict=True)]
    assert cute.inner_product(a, b) == sum(products)


# -- coordinates


@given(shapes())
def test_crd2idx_undoes_idx2crd(shape):
    for index in range(prod(model.leaves(shape))):
        coord = cute.idx2crd(index, shape)
        assert cute.congruent(coord, shape)
        assert cute.crd2idx(coord, shape) == index


@given(shapes(), st.data())
def test_crd2idx_is_the_dot_product_with_the_strides(shape, data):
    stride = data.draw(like(shape, st.integers(-20, 40)))
    for coord in cute.coordinates(shape):
        assert cute.crd2idx(coord, shape, stride) == cute.inner_product(coord, stride)


@given(shapes(), st.data())
def test_crd2crd_keeps_the_index(shape, data):
    size = prod(model.leaves(shape))
    n = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    target = (n, size // n)
    coord = data.draw(st.integers(0, size - 1))
    assert cute.crd2idx(cute.crd2crd(coord, shape, target), target) == coord
    assert cute.crd2crd(cute.idx2crd(coord, shape), shape, shape) == cute.idx2crd(coord, shape)


@given(shapes())
def test_coordinates_are_in_colexicographical_order(shape):
    coords = [tuple(reversed(model.leaves(coord))) for coord in cute.coordinates(shape)]
    assert coords == sorted(set(coords))
    assert len(coords) == prod(model.leaves(shape))


@given(shapes())
def test_increment_walks_through_all_coordinates(shape):
    coords = list(cute.coordinates(shape))
    for here, there in zip(coords, [*coords[1:], coords[0]], strict=True):
        assert cute.increment(here, shape) == there


@given(layouts(), st.data())
def test_crd2idx_of_a_layout_is_the_layout(layout, data):
    coord = data.draw(coordinates_of(layout.shape))
    assert cute.crd2idx(coord, layout.shape, layout.stride) == layout(coord)


@fewer(4)
@given(st.permutations(range(4)), st.lists(extents, min_size=4, max_size=4))
def test_get_hier_coord_inverts_a_compact_layout(order, sizes):
    layout = cute.make_ordered_layout(tuple(sizes), tuple(order))
    for index in range(layout.size()):
        assert layout(layout.get_hier_coord(index)) == index
        assert layout(layout.get_flat_coord(index)) == index
        assert layout(layout.get_1d_coord(index)) == index


# -- division


@given(extents, extents)
def test_ceil_div_is_the_least_number_that_covers(a, b):
    result = cute.ceil_div(a, b)
    assert (result - 1) * b < a <= result * b


@given(st.data())
def test_ceil_div_of_tuples_divides_facing_leaves(data):
    a = data.draw(int_tuples())
    b = data.draw(like(a, extents))
    leaves = [cute.ceil_div(*pair) for pair in zip(model.leaves(a), model.leaves(b), strict=True)]
    assert model.leaves(cute.ceil_div(a, b)) == leaves


@given(shapes(), st.integers(1, 8), st.integers(1, 8))
def test_ceil_div_uses_an_integer_up_from_the_left(shape, n, m):
    """Where n covers whole leading modes, what is left of it divides the rest."""
    assert cute.ceil_div((n, shape), n * m) == (1, cute.ceil_div(shape, m))


@given(extents, extents)
def test_round_up_is_the_least_multiple_that_is_not_below(a, b):
    result = cute.round_up(a, b)
    assert result % b == 0
    assert a <= result < a + b


@given(shapes(), st.integers(1, 64))
def test_shape_div_uses_the_divisor_up_from_the_left(shape, n):
    """Where it answers, and n divides the size, size(shape) / n elements are left."""
    try:
        result = cute.shape_div(shape, n)
    except cute.LayoutError:
        assume(False)
    assert cute.congruent(result, shape)
    if prod(model.leaves(shape)) % n == 0:
        assert prod(model.leaves(result)) == prod(model.leaves(shape)) // n


@given(int_tuples(), int_tuples())
def test_evenly_divides_means_whole_tiles(shape, tiler):
    assume(not isinstance(tiler, tuple))
    assert cute.evenly_divides(shape, tiler) == _whole_tiles(shape, tiler)


def _whole_tiles(shape, n):
    tiles = prod(model.leaves(cute.ceil_div(shape, n)))
    return tiles * n == prod(model.leaves(shape))


# -- orders


@given(shapes(), shapes(), shapes())
def test_compatible_is_a_partial_order(a, b, c):
    assert cute.compatible(a, a)
    assert cute.compatible(prod(model.leaves(a)), a)
    if cute.compatible(a, b) and cute.compatible(b, c):
        assert cute.compatible(a, c)
    if cute.compatible(a, b) and cute.compatible(b, a):
        assert a == b


@given(shapes(), st.data())
def test_compatible_shapes_take_each_others_coarser_coordinates(shape, data):
    """If b refines a, every coordinate of a is one of b, with the same index."""
    coarse = data.draw(st.sampled_from([prod(model.leaves(shape)), cute.product_each(shape)]))
    assume(isinstance(shape, tuple) or not isinstance(coarse, tuple))
    assert cute.compatible(coarse, shape)
    for index, coord in enumerate(cute.coordinates(coarse)):
        assert cute.crd2idx(coord, shape) == index


@given(shapes(), shapes())
def test_compatible_implies_weakly_congruent_and_weakly_compatible(a, b):
    if cute.compatible(a, b):
        assert cute.weakly_congruent(a, b)
        assert cute.weakly_compatible(a, b)
        assert prod(model.leaves(a)) == prod(model.leaves(b))


@given(int_tuples(), int_tuples(), int_tuples())
def test_weakly_congruent_is_a_partial_order_on_profiles(a, b, c):
    assert cute.weakly_congruent(a, a)
    if cute.weakly_congruent(a, b) and cute.weakly_congruent(b, c):
        assert cute.weakly_congruent(a, c)
    both = cute.weakly_congruent(a, b) and cute.weakly_congruent(b, a)
    assert both == cute.congruent(a, b)


@given(st.data())
def test_elem_less_is_a_strict_order_of_facing_leaves(data):
    a = data.draw(int_tuples())
    b = data.draw(like(a, extents))
    pairs = list(zip(model.leaves(a), model.leaves(b), strict=True))
    assert cute.elem_less(a, b) == all(x < y for x, y in pairs)
    assert cute.elem_leq(a, b) == all(x <= y for x, y in pairs)
    assert cute.elem_gtr(a, b) == (not cute.elem_leq(a, b))
    assert cute.elem_geq(a, b) == (not cute.elem_less(a, b))
