"""The laws of the algebra, one test each, named after its law. Composition has its own file."""

import copy
import pickle
from math import prod

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout
from tests import model
from tests.strategies import (
    chain_layouts,
    compact_layouts,
    composed_layouts,
    coordinates_of,
    layouts,
    power_layouts,
    shapes,
    slices_of,
    strides,
    swizzles,
    tilers,
)

# The inputs of most complement and divide laws: about half of them are answered, half refused.
any_or_chain = st.one_of(chain_layouts(max_leaves=3, broadcast=True), layouts(max_leaves=3))
small_tilers = st.one_of(
    chain_layouts(max_leaves=2, max_size=32), layouts(max_leaves=2, max_size=32)
)


def answered(operation, *operands):
    """Return what the operation answers; drop the example where it refuses."""
    try:
        return operation(*operands)
    except cute.LayoutError:
        assume(False)


def offsets(layout):
    """Return all offsets of a layout or composed layout, by calling it."""
    return [layout(i) for i in range(cute.size(layout))]


# -- evaluation


@given(layouts())
def test_layout_is_the_sum_of_its_modes(layout):
    assert offsets(layout) == model.table(layout)


@given(layouts())
def test_layout_reads_index_and_coordinate_alike(layout):
    for i, coord in enumerate(cute.coordinates(layout.shape)):
        assert layout(coord) == layout(i) == layout(cute.idx2crd(i, layout.shape))


@given(layouts(), st.data())
def test_layout_reads_coordinates_of_any_coarser_profile_alike(layout, data):
    coord = data.draw(coordinates_of(layout.shape))
    assert layout(coord) == layout(cute.crd2idx(coord, layout.shape))


@given(layouts(), st.integers(0, 50))
def test_layout_runs_on_along_its_last_mode(layout, extra):
    index = layout.size() + extra
    assert layout(index) == model.value(model.modes(layout), index)


@given(layouts())
def test_cosize_is_one_more_than_the_largest_offset(layout):
    assert cute.cosize(layout) == max(model.table(layout)) + 1


@given(st.one_of(layouts(), composed_layouts()))
def test_layout_survives_pickle_copy_and_hash(layout):
    for twin in (pickle.loads(pickle.dumps(layout)), copy.deepcopy(layout), copy.copy(layout)):
        assert twin == layout
        assert hash(twin) == hash(layout)
        assert repr(twin) == repr(layout)


@given(st.one_of(layouts(), composed_layouts()))
def test_eval_of_repr_is_the_layout(layout):
    names = {name: getattr(cute, name) for name in ("Layout", "Swizzle", "ComposedLayout", "E")}
    assert eval(repr(layout), names) == layout


# -- modes: the function stays, its coordinates are renamed


@given(layouts(), st.data())
def test_flatten_and_group_modes_keep_the_function(layout, data):
    flat = cute.flatten(layout)
    assert model.table(flat) == model.table(layout)
    begin = data.draw(st.integers(0, len(flat) - 1))
    end = data.draw(st.integers(begin + 1, len(flat)))
    grouped = cute.group_modes(flat, begin, end)
    assert model.table(grouped) == model.table(layout)
    assert (
        cute.unflatten(cute.make_layout(*[Layout(*p) for p in model.modes(flat)]), layout.shape)
        == layout
    )


@given(layouts(), layouts())
def test_append_and_prepend_add_the_mode_at_their_end(layout, mode):
    assert list(cute.append(layout, mode))[-1] == mode
    assert list(cute.append(layout, mode))[:-1] == list(layout)
    assert next(iter(cute.prepend(layout, mode))) == mode
    assert list(cute.replace(layout, 0, mode)) == [mode, *list(layout)[1:]]


@given(layouts())
def test_make_layout_of_the_modes_is_the_layout(layout):
    assume(isinstance(layout.shape, tuple))
    assert cute.make_layout(*layout) == layout
    assert cute.select(layout, list(range(len(layout)))) == layout
    assert cute.take(layout, 0, len(layout)) == layout


@given(layouts(), st.data())
def test_slice_and_offset_law(layout, data):
    """layout(c with x for _) == sub(x) + offset."""
    coord = data.draw(slices_of(layout.shape))
    sub, offset = cute.slice_and_offset(coord, layout)
    expected = [layout(full) for full in filled(coord, layout.shape)]
    assert [offset + x for x in offsets(sub)] == expected
    assert cute.slice_(coord, layout) == sub


@given(composed_layouts(inner=power_layouts()), st.data())
def test_slice_and_offset_law_holds_for_swizzled_layouts(layout, data):
    coord = data.draw(slices_of(layout.shape))
    sub, offset = cute.slice_and_offset(coord, layout)
    expected = [layout(full) for full in filled(coord, layout.shape)]
    assert [offset + x for x in offsets(sub)] == expected


def filled(coord, shape):
    """Yield `coord` with every index in place of its `_`, the leftmost `_` fastest."""
    places = [part for part in _facing(coord, shape) if part is not None]
    for index in range(prod(places)):
        digits = iter(model_digits(index, places))
        yield _put(coord, digits)


def model_digits(index, extents):
    for extent in extents:
        index, digit = divmod(index, extent)
        yield digit


def _facing(coord, shape):
    if isinstance(coord, tuple):
        return [x for pair in zip(coord, shape, strict=True) for x in _facing(*pair)]
    return [prod(model.leaves(shape)) if coord is cute._ else None]


def _put(coord, digits):
    if isinstance(coord, tuple):
        return tuple(_put(part, digits) for part in coord)
    return next(digits) if coord is cute._ else coord


# -- coalesce and filter


@given(layouts())
def test_coalesce_preserves_the_function(layout):
    assert model.table(cute.coalesce(layout)) == model.table(layout)


@given(layouts())
def test_coalesce_has_the_fewest_modes(layout):
    """The only layout without mergeable modes is the greedy fit of the offsets."""
    assert model.modes(cute.coalesce(layout)) == (model.fit(model.table(layout)) or [(1, 0)])


@given(layouts())
def test_coalesce_is_idempotent(layout):
    once = cute.coalesce(layout)
    assert cute.coalesce(once) == once


@given(layouts())
def test_coalesce_with_a_profile_coalesces_each_mode(layout):
    assume(isinstance(layout.shape, tuple))
    result = cute.coalesce(layout, (1,) * len(layout))
    assert list(result) == [cute.coalesce(mode) for mode in layout]


@given(layouts())
def test_filter_preserves_the_image(layout):
    image = set(model.table(layout))
    assert set(model.table(cute.filter(layout))) == image
    assert set(model.table(cute.filter_zeros(layout))) == image


@given(layouts())
def test_filter_leaves_no_idle_mode(layout):
    filtered = cute.filter(layout)
    assert model.dense(filtered) == model.modes(filtered) or filtered == Layout(1, 0)


# -- complement


@given(any_or_chain, st.integers(1, 300))
def test_complement_is_disjoint(layout, target):
    rest = model.table(answered(cute.complement, layout, target))
    sums = [x + y for x in model.sums(model.dense(layout)) for y in rest]
    assert len(set(sums)) == len(sums)


@given(any_or_chain, st.integers(1, 300))
def test_complement_is_ordered(layout, target):
    rest = model.table(answered(cute.complement, layout, target))
    assert rest[0] == 0
    assert rest == sorted(set(rest))


def reached(layout, rest):
    """Return the cosize of (layout, rest)."""
    return max(model.sums(model.dense(layout) + model.dense(rest))) + 1


@given(any_or_chain, st.one_of(st.integers(1, 300), shapes(max_leaves=3, max_size=300)))
@example(Layout((2, 4, 2), (1, 3, 20)), 32)  # where CuTe stops at 31
def test_complement_reaches_the_target(layout, target):
    """The cosize of (layout, complement) is at least the target, whole shapes included."""
    rest = answered(cute.complement, layout, target)
    assert reached(layout, rest) >= prod(model.leaves(target))


@given(any_or_chain, st.integers(1, 300))
def test_complement_repeats_no_more_often_than_the_target_asks(layout, target):
    """With one repetition less the cosize would not reach the target."""
    rest = answered(cute.complement, layout, target)
    *gaps, (count, step) = model.modes(rest)
    if count > 1 and step > max(model.sums(model.dense(layout))):
        assert max(model.sums([*model.dense(layout), *gaps, (count - 1, step)])) + 1 < target


@given(any_or_chain)
@example(Layout((4, 8), (1, 5)))  # 1:0, as in the CuTe paper, Table 7
def test_complement_without_target_stays_within_the_cosize(layout):
    """Only gaps are filled: all starts lie below the largest stride."""
    rest = answered(cute.complement, layout)
    steps = [step for _, step in model.dense(layout)]
    assert max(model.table(rest)) < max(steps, default=1)


@given(chain_layouts(max_leaves=3, broadcast=True), st.integers(1, 300))
def test_complement_of_a_chain_leaves_no_hole(layout, target):
    rest = cute.complement(layout, target)
    sums = sorted(x + y for x in model.sums(model.dense(layout)) for y in model.table(rest))
    assert sums == list(range(len(sums)))


overlapping = layouts(max_leaves=3).filter(lambda x: not model.is_injective(model.dense(x)))


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # most small layouts are injective
@given(overlapping, st.integers(1, 300))
@example(Layout((4, 2), (1, 2)), 16)
def test_complement_of_an_overlapping_layout_is_refused(layout, target):
    with pytest.raises(
        cute.LayoutError, match=r"modes that do not overlap|multiple of extent\*stride"
    ):
        cute.complement(layout, target)


@given(chain_layouts(max_leaves=3))
def test_complement_of_the_complement_covers_the_layout_again(layout):
    """A chain and its complement change places: both together are the whole range."""
    size = max(cute.cosize(layout), 1)
    rest = cute.complement(layout, size)
    again = cute.complement(rest, cute.cosize(cute.make_layout(layout, rest)))
    assert sorted(model.table(again)) == sorted(model.table(layout))


# -- inverses


@given(st.one_of(chain_layouts(broadcast=True), layouts()))
def test_right_inverse_law(layout):
    inverse = cute.right_inverse(layout)
    assert [layout(place) for place in model.table(inverse)] == list(range(inverse.size()))


@given(chain_layouts(broadcast=True))
def test_right_inverse_reaches_the_first_gap(layout):
    image = set(model.table(layout))
    first_gap = next(n for n in range(len(image) + 1) if n not in image)
    assert cute.right_inverse(layout).size() == first_gap


@given(st.one_of(chain_layouts(), layouts()))
def test_right_inverse_is_maximal_for_injective_layouts(layout):
    assume(model.is_injective(model.modes(layout)))
    assert cute.right_inverse(layout).size() == model.largest_right_inverse(layout)


@given(st.one_of(chain_layouts(broadcast=True), layouts()))
def test_left_inverse_law(layout):
    """layout(R(layout(i))) == layout(i)."""
    inverse = answered(cute.left_inverse, layout)
    table = model.table(layout)
    assert [layout(inverse(x)) for x in table] == table


@given(st.one_of(chain_layouts(), layouts()))
def test_left_inverse_of_an_injective_layout_is_exact(layout):
    assume(model.is_injective(model.modes(layout)))
    inverse = answered(cute.left_inverse, layout)
    assert [inverse(x) for x in model.table(layout)] == list(range(layout.size()))


def test_the_search_for_a_left_inverse_ends_soon():
    """Strides far apart have many radices; a test has 1.5 s of processor time."""
    with pytest.raises(cute.LayoutError) as caught:
        cute.left_inverse(cute.Layout((3, 17), (1 << 20, 100)))
    assert caught.value.code == "left-inverse"


@given(layouts(max_leaves=3, max_size=16, stride=st.integers(1, 12)))
@example(Layout((2, 3), (3, 2)))  # strides of which none is a multiple of the other
@example(Layout((2, 8), (16, 12)))
def test_left_inverse_is_refused_only_where_no_layout_is_one(layout):
    assume(model.is_injective(model.modes(layout)) and max(model.table(layout)) <= 48)
    try:
        inverse = cute.left_inverse(layout)
    except cute.LayoutError:
        assert not model.is_undone(layout)
    else:
        assert [inverse(x) for x in model.table(layout)] == list(range(layout.size()))


@given(compact_layouts())
def test_inverses_of_a_bijection_agree(layout):
    right, left = cute.right_inverse(layout), cute.left_inverse(layout)
    assert model.table(right) == model.table(left)
    assert cute.coalesce(cute.right_inverse(right)) == cute.coalesce(layout)


@given(st.one_of(chain_layouts(broadcast=True), layouts()))
def test_nullspace_maps_to_zero_and_has_the_size_of_the_broadcast(layout):
    null = cute.nullspace(layout)
    places = model.table(null)
    assert {layout(place) for place in places} == {0}
    assert len(set(places)) == len(places)
    assert null.size() * cute.size(cute.filter_zeros(layout)) == layout.size()


# -- divides


@given(any_or_chain, small_tilers)
def test_divide_tile_is_contiguous_and_in_order(layout, tiler):
    result = answered(cute.logical_divide, layout, tiler)
    expected = [layout(place) for place in model.table(tiler)]
    assert model.table(result)[: tiler.size()] == expected
    assert model.table(result[0]) == expected


@given(any_or_chain, small_tilers)
def test_divide_rest_iterates_over_the_tiles(layout, tiler):
    result = answered(cute.logical_divide, layout, tiler)
    rest = cute.complement(tiler, cute.coalesce(layout).shape)
    for r, start in enumerate(model.table(rest)):
        for t, place in enumerate(model.table(tiler)):
            assert result(t, r) == layout(place + start)


@given(any_or_chain, small_tilers)
@example(Layout(7, 2), Layout((5, 3), (1, 6)))  # a tile that overhangs, with holes
def test_divide_covers_the_layout(layout, tiler):
    result = answered(cute.logical_divide, layout, tiler)
    assert result.size() >= layout.size()
    assert set(model.table(result)) >= set(model.table(layout))


@given(chain_layouts(max_leaves=3), st.integers(1, 16))
def test_divide_of_an_even_tile_is_a_permutation_of_the_layout(layout, n):
    assume(layout.size() % n == 0)
    result = answered(cute.logical_divide, layout, n)
    assert sorted(model.table(result)) == sorted(model.table(layout))


@given(st.data())
def test_divide_by_mode_divides_the_modes(data):
    layout = data.draw(layouts(max_leaves=3))
    tiler = data.draw(tilers(layout).filter(lambda tiler: isinstance(tiler, tuple)))
    result = answered(cute.logical_divide, layout, tiler)
    for i, part in enumerate(tiler):
        assert result[i] == cute.logical_divide(layout[i], part)
    assert list(result)[len(tiler) :] == list(layout)[len(tiler) :]


@given(st.data())
def test_zipped_divide_gathers_the_tiles_of_each_mode(data):
    """Mode 0 is composition(layout, tiler); with `_` the whole mode is the tile, its rest 1:0."""
    layout = data.draw(layouts(max_leaves=3))
    tiler = data.draw(tilers(layout))
    result = answered(cute.zipped_divide, layout, tiler)
    assert len(result) == 2
    assert cute.size(result, 0) == prod(_tile_sizes(layout, tiler))
    assert model.table(result[0]) == model.table(cute.composition(layout, tiler))
    assert sorted(model.table(result)) == sorted(model.table(cute.logical_divide(layout, tiler)))
    if isinstance(tiler, tuple):
        for i, part in enumerate(tiler):
            assert part is not cute._ or result[1][i] == Layout(1, 0)


def _tile_sizes(layout, tiler):
    for mode, part in (
        zip(layout, tiler, strict=False) if isinstance(tiler, tuple) else [(layout, tiler)]
    ):
        yield cute.size(mode) if part is cute._ else cute.size(part)


@given(st.data())
def test_tiled_and_flat_divide_are_zipped_divide_with_fewer_brackets(data):
    layout = data.draw(layouts(max_leaves=3))
    tiler = data.draw(tilers(layout))
    zipped = answered(cute.zipped_divide, layout, tiler)
    tiled, flat = cute.tiled_divide(layout, tiler), cute.flat_divide(layout, tiler)
    assert model.modes(tiled) == model.modes(flat) == model.modes(zipped)
    assert tiled[0] == zipped[0]


# -- products


@given(any_or_chain, small_tilers)
def test_product_repeats_the_block(block, tiler):
    result = answered(cute.logical_product, block, tiler)
    assert result[0] == block
    for t, move in enumerate(model.table(result[1])):
        assert [result(b, t) for b in range(block.size())] == [x + move for x in model.table(block)]


@given(any_or_chain, small_tilers)
def test_product_copies_do_not_overlap(block, tiler):
    result = answered(cute.logical_product, block, tiler)
    blocks, moves = set(model.table(block)), set(model.table(result[1]))
    assert len({x + y for x in blocks for y in moves}) == len(blocks) * len(moves)
    assert len(moves) == len(set(model.table(tiler)))


@given(any_or_chain, small_tilers)
def test_product_places_copies_in_the_order_of_the_tiler(block, tiler):
    moves = model.table(answered(cute.logical_product, block, tiler)[1])
    by_tiler = sorted(zip(model.table(tiler), moves, strict=True))
    assert [move for _, move in by_tiler] == sorted(moves)


@given(compact_layouts(max_leaves=2, max_size=32), st.integers(1, 12))
def test_product_with_an_integer_is_that_many_blocks_side_by_side(block, n):
    result = cute.logical_product(block, n)
    assert sorted(model.table(result)) == list(range(block.size() * n))


@given(any_or_chain, small_tilers)
@example(Layout(2, 2), Layout(4, 1))  # one mode of copies, which jump over a gap of the block
def test_blocked_and_raked_product_arrange_the_copies_mode_by_mode(block, tiler):
    """blocked: mode i is (block_i, tiler_i); raked: (tiler_i, block_i).

    4:1 and (4):(1) do not zip, as in CuTe.
    """
    rank = max(len(block), len(tiler))
    assume(rank > 1 or isinstance(block.shape, tuple) == isinstance(tiler.shape, tuple))
    padded = [cute.append(x, None, rank) for x in (block, tiler)]
    plain = answered(cute.logical_product, *padded)
    by_mode = all(isinstance(x.shape, tuple) for x in padded)
    parts = [list(part) if by_mode else [part] for part in plain]
    blocked, raked = cute.blocked_product(block, tiler), cute.raked_product(block, tiler)
    assert len(blocked) == len(raked) == rank
    for i, (b, t) in enumerate(zip(*parts, strict=True)):
        assert list(blocked[i]) == [b, t]
        assert list(raked[i]) == [t, b]


@given(any_or_chain, small_tilers)
def test_zipped_tiled_and_flat_product_are_logical_product_with_other_brackets(block, tiler):
    leaves = model.modes(answered(cute.logical_product, block, tiler))
    for operation in (cute.zipped_product, cute.tiled_product, cute.flat_product):
        assert model.modes(operation(block, tiler)) == leaves


@given(compact_layouts(max_leaves=3, max_size=64), st.data())
def test_tile_to_shape_covers_the_shape(block, data):
    """A compact block fills the shape without holes, in any order; each mode is (block, copies)."""
    rank = data.draw(st.integers(len(block), len(block) + 1))
    padded = cute.append(block, None, rank)
    copies = [data.draw(st.integers(1, 3)) for _ in range(rank)]
    shape = tuple(n * cute.size(padded, i) for i, n in enumerate(copies))
    assume(prod(shape) <= 1024)
    order = data.draw(st.permutations(range(rank)))
    result = cute.tile_to_shape(block, shape, tuple(order))
    assert sorted(model.table(result)) == list(range(prod(shape)))
    assert cute.compatible(shape, result)
    assert [mode[0] for mode in result] == list(padded)


@given(chain_layouts(max_leaves=2, max_size=32), st.data())
def test_tile_to_shape_refuses_what_the_block_does_not_divide(block, data):
    shape = tuple(data.draw(st.integers(1, 20)) for _ in range(len(block)))
    assume(any(n % cute.size(block, i) for i, n in enumerate(shape)))
    with pytest.raises(cute.LayoutError, match="pad the shape to"):
        cute.tile_to_shape(block, shape)


# -- element sizes


@given(st.one_of(chain_layouts(), layouts()), st.sampled_from((1, 2, 3, 4, 8)))
def test_upcast_divides_the_offsets(layout, n):
    """upcast(L, n)(c // group) == L(c) // n, where group elements of a leaf share a new one."""
    result = answered(cute.upcast, layout, n)
    groups = [-(-n // d) if 0 < d < n else 1 for _, d in model.modes(layout)]
    extents = [s for s, _ in model.modes(layout)]
    for index, offset in enumerate(model.table(layout)):
        coord = [c // group for c, group in zip(model_digits(index, extents), groups, strict=True)]
        steps = [d for _, d in model.modes(result)]
        assert sum(c * d for c, d in zip(coord, steps, strict=True)) == offset // n


@given(st.one_of(chain_layouts(), layouts()), st.sampled_from((1, 2, 3, 4, 8)))
def test_downcast_splits_every_element(layout, n):
    result = answered(cute.downcast, layout, n)
    split = sorted(n * offset + j for offset in model.table(layout) for j in range(n))
    assert sorted(model.table(result)) == split


@given(st.one_of(compact_layouts(), layouts()), st.sampled_from((2, 4, 8)))
def test_upcast_undoes_downcast(layout, n):
    assert model.table(cute.upcast(answered(cute.downcast, layout, n), n)) == model.table(layout)


@given(compact_layouts(), st.sampled_from((1, 4, 8, 16, 32)), st.sampled_from((4, 8, 16, 32)))
def test_recast_layout_keeps_the_bits(layout, old, new):
    result = answered(cute.recast_layout, layout, old, new)
    bits = {offset * old + b for offset in model.table(layout) for b in range(old)}
    assert {offset * new + b for offset in model.table(result) for b in range(new)} >= bits
    if layout.size() * old == result.size() * new:
        assert {offset * new + b for offset in model.table(result) for b in range(new)} == bits


@given(st.one_of(chain_layouts(max_leaves=3), layouts(max_leaves=3)))
@example(layout=cute.Layout((2, 2, 3), (1, 3, 2)))  # runs of 3 elements, and a stride of 2
def test_max_alignment_is_a_legal_upcast(layout):
    n = answered(cute.max_alignment, layout)
    assert n >= 1
    for offset in model.table(cute.upcast(layout, n)):
        assert offset * n in model.table(layout)


# -- two layouts


@given(
    st.one_of(chain_layouts(max_leaves=3), layouts(max_leaves=3)),
    st.one_of(chain_layouts(max_leaves=3), layouts(max_leaves=3)),
)
def test_max_common_vector_law(a, b):
    """a(R(k)) == b(R(k)) == k for k below it, where R is the right inverse of b; and not at it."""
    vector, places = cute.max_common_vector(a, b), model.table(cute.right_inverse(b))
    assert 1 <= vector <= len(places)
    for k, place in enumerate(places[:vector]):
        assert a(place) == b(place) == k
    ends = vector == len(places) or places[vector] >= a.size() or a(places[vector]) != vector
    assert ends
    assert max(places[:vector]) < a.size()


@given(
    st.one_of(chain_layouts(max_leaves=3), layouts(max_leaves=3)),
    st.one_of(chain_layouts(max_leaves=3), layouts(max_leaves=3)),
)
def test_max_common_layout_law(a, b):
    common = cute.max_common_layout(a, b)
    assert common.size() == cute.max_common_vector(a, b)
    for k, place in enumerate(model.table(common)):
        assert a(place) == b(place) == k


@given(layouts(max_leaves=3, max_size=64), st.data())
def test_layout_add_law(a, data):
    """R(i) == a(i) + b(i); refused exactly if the sum is no table of a layout."""
    n = data.draw(st.sampled_from([n for n in range(1, a.size() + 1) if a.size() % n == 0]))
    b = Layout((n, a.size() // n), data.draw(st.tuples(strides, strides)))
    sums = [x + y for x, y in zip(model.table(a), model.table(b), strict=True)]
    if isinstance(model.fit(sums), model.Departure):
        with pytest.raises(cute.LayoutError, match="the sum is"):
            cute.layout_add(a, b)
    else:
        assert model.table(cute.layout_add(a, b)) == sums


@given(power_layouts(max_bits=5), power_layouts(max_bits=3))
def test_make_layout_tv_is_a_bijection_onto_the_tile(thr, val):
    tile, tv = cute.make_layout_tv(thr, val)
    assert cute.size(tv, 0) == thr.size()
    assert cute.size(tv, 1) == val.size()
    assert sorted(model.table(tv)) == list(range(prod(tile)))


@given(shapes(), st.integers(1, 64))
def test_domain_distribute_takes_elements_evenly(shape, n):
    result = cute.domain_distribute(shape, n)
    taken = model.table(result)
    assert n % len(taken) == 0
    assert taken == sorted(set(taken))
    assert taken[-1] < prod(model.leaves(shape))


# -- builders


@given(shapes())
def test_identity_layout_maps_every_coordinate_to_itself(shape):
    identity = cute.make_identity_layout(shape)
    for coord in cute.coordinates(shape):
        assert identity(coord) == coord or sum(model.leaves(coord)) == 0


@given(shapes(), st.data())
def test_ordered_layout_is_compact_and_follows_the_order(shape, data):
    leaves = model.leaves(shape)
    order = data.draw(st.permutations(range(len(leaves))))
    layout = cute.make_ordered_layout(
        shape, cute.unflatten(tuple(order), shape) if isinstance(shape, tuple) else 0
    )
    assert sorted(model.table(layout)) == list(range(layout.size()))
    steps = [(rank, d) for rank, (s, d) in zip(order, model.modes(layout), strict=True) if s > 1]
    assert [d for _, d in sorted(steps)] == sorted(d for _, d in steps)


@given(chain_layouts(broadcast=True))
def test_layout_like_is_compact_in_the_same_order(layout):
    like = cute.make_layout_like(layout)
    assert like.shape == layout.shape
    pairs = model.dense(like)
    assert sorted(model.sums(pairs)) == list(range(prod(s for s, _ in pairs)))
    steps = [
        (d, e)
        for (_, d), (_, e) in zip(model.modes(layout), model.modes(like), strict=True)
        if d and e
    ]
    assert [e for _, e in sorted(steps)] == sorted(e for _, e in steps)


# -- swizzles


@given(swizzles(), st.integers(0, 2**20))
def test_swizzle_is_an_involution(swizzle, x):
    assert swizzle(swizzle(x)) == x


@given(swizzles())
def test_swizzle_is_a_bijection_of_its_period(swizzle):
    period = 2 ** (swizzle.num_base + swizzle.num_bits + abs(swizzle.num_shft))
    for start in (0, period, 3 * period):
        run = range(start, start + period)
        assert sorted(swizzle(x) for x in run) == list(run)


@given(swizzles(), st.integers(0, 2**16))
def test_swizzle_keeps_the_base_bits_and_changes_only_z(swizzle, x):
    changed = swizzle(x) ^ x
    assert changed & (2**swizzle.num_base - 1) == 0
    assert changed & ~swizzle.zzz_msk == 0


@given(swizzles(), st.integers(0, 2**10), st.sampled_from((1, 2, 4, 8, 16)))
def test_downcast_of_a_swizzle_swizzles_whole_elements(swizzle, x, n):
    assert cute.downcast(swizzle, n)(n * x) == n * swizzle(x)


@given(swizzles(), st.integers(0, 2**12), st.sampled_from((1, 2, 4, 8, 16)))
def test_upcast_of_a_swizzle_swizzles_whole_elements(swizzle, x, n):
    assert answered(cute.upcast, swizzle, n)(x // n) == swizzle(x) // n


@given(st.integers(0, 4), st.integers(0, 6), st.integers(0, 6))
def test_make_swizzle_reads_the_masks_back(bits, low, gap):
    y, z = ((1 << bits) - 1) << (low + bits + gap), ((1 << bits) - 1) << low
    for masks in ((y, z), (z, y)):
        swizzle = cute.make_swizzle(*masks)
        assert (swizzle.yyy_msk, swizzle.zzz_msk) == masks


@given(composed_layouts())
def test_composed_layout_is_outer_of_offset_plus_inner(layout):
    expected = [layout.outer(layout.offset + x) for x in model.table(layout.inner)]
    assert offsets(layout) == expected


@given(swizzles(), power_layouts())
def test_inverses_of_a_swizzled_layout_undo_it(swizzle, inner):
    layout, size = cute.make_composed_layout(swizzle, 0, inner), inner.size()
    inverse = answered(cute.right_inverse, layout)
    assert [layout(inverse(k)) for k in range(cute.size(inverse))] == list(
        range(cute.size(inverse))
    )
    left = answered(cute.left_inverse, layout)
    assert [left(layout(i)) for i in range(size)] == list(range(size))


@given(composed_layouts(inner=power_layouts(max_bits=6)), small_tilers)
def test_divide_of_a_swizzled_layout_divides_its_inner_layout(layout, tiler):
    result = answered(cute.logical_divide, layout, tiler)
    inner = cute.logical_divide(layout.inner, tiler)
    assert offsets(result) == [layout.outer(layout.offset + x) for x in model.table(inner)]
