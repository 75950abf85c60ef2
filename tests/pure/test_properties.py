"""Whole-layout tools against Python sets: offsets, image, holes, and the questions."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import ComposedLayout, F2Layout, F2Map, Layout, Swizzle
from cute_py.errors import LeafTypeError
from cute_py.layout import properties
from tests import model, strategies

any_layouts = st.one_of(
    strategies.layouts(),
    strategies.negative_layouts(),
    strategies.chain_layouts(broadcast=True),
    strategies.power_layouts(),
)
small_layouts = st.one_of(
    strategies.layouts(max_size=64),
    strategies.negative_layouts(max_size=64),
    strategies.compact_layouts(max_size=64),
)


@st.composite
def f2_layouts(draw, max_bits=6):
    bits = draw(st.integers(0, max_bits))
    bases = draw(st.lists(st.integers(0, 63), min_size=bits, max_size=bits))
    return F2Layout(1 << bits, bases, draw(st.integers(0, 63)))


every_kind = st.one_of(
    small_layouts, strategies.composed_layouts(inner=small_layouts), f2_layouts()
)


def table(layout):
    """Return the offsets by the definition, one index at a time."""
    return [layout(i) for i in range(layout.size())]


def cosize(layout):
    """Return what CuTe calls the cosize: for mixed signs, what the strides could reach together."""
    if isinstance(layout, Layout):
        pairs = zip(model.leaves(layout.shape), model.leaves(layout.stride), strict=True)
        return 1 + sum((s - 1) * abs(d) for s, d in pairs)
    return 1 + max(abs(offset) for offset in table(layout))


# -- offsets


@given(st.one_of(any_layouts, every_kind))
def test_offsets_are_the_layout_at_every_index(layout):
    offsets = cute.offsets(layout)
    assert offsets.dtype == np.int64
    assert offsets.tolist() == table(layout)
    assert layout.offsets().tolist() == table(layout)


@pytest.mark.parametrize(
    "layout",
    [
        Layout((), ()),
        Layout(1, 7),
        Layout((2, 1 << 12), (1 << 40, -3)),
        Layout((1 << 10, 3), (5, 1)),
        Layout((3, 5, 7, 11, 2), (-1, 1000, 0, 17, 1 << 50)),
        ComposedLayout(Layout((4, 3), (2, 100)), 5, Layout((5, 7), (3, 1))),
        ComposedLayout(Layout(1, 4), 0, Layout((5, 7), (3, 1))),
        ComposedLayout(F2Layout(64, (1, 2, 4, 8, 48, 32)), 3, Layout((5, 7), (3, 1))),
        ComposedLayout(F2Map((1, 3, 7)), 3, Layout((5, 7), (3, 1))),
        ComposedLayout(Swizzle(2, 0, -3), -9, Layout((5, 7), (3, -1))),
        ComposedLayout(
            ComposedLayout(Swizzle(1, 0, 2), 3, Layout((4, 8), (8, 1))), 1, Layout(20, 1)
        ),
        ComposedLayout(lambda x: x * x, 1, Layout(9, 2)),
        ComposedLayout(Swizzle(3, 0, 3), 0, ComposedLayout(Swizzle(1, 0, 1), 2, Layout(33, 3))),
        ComposedLayout(Swizzle(2, 70, 3), 0, Layout(6, 1)),
    ],
    ids=lambda layout: str(layout).split(" at 0x")[0],
)
def test_offsets_of_every_kind_of_layout(layout):
    assert cute.offsets(layout).tolist() == table(layout)


@pytest.mark.parametrize(
    "layout",
    [
        cute.make_identity_layout((3, (2, 2))),
        Layout((4, 2), (cute.E(1), 3 * cute.E(0))),
        Layout((4, 2), (cute.E(1), 0)),
        Layout(4, cute.E(0)),
        ComposedLayout(cute.make_identity_layout((4, 4)), 1, Layout(5, 2)),
    ],
    ids=str,
)
def test_offsets_of_coordinate_strides_are_rows_of_coordinates(layout):
    rows = cute.offsets(layout).tolist()
    assert rows == [list(np.hstack([np.ravel(part) for part in c])) for c in table(layout)]


@given(st.one_of(any_layouts, every_kind))
def test_offset_grid_has_one_axis_for_each_mode(layout):
    grid = cute.offset_grid(layout)
    assert grid.shape == tuple(cute.size(layout, i) for i in range(cute.rank(layout)))
    for place in np.ndindex(grid.shape):
        coord = place if isinstance(layout.shape, tuple) else place[0]
        assert grid[place] == layout(coord)


def test_offset_grid_keeps_coordinates_on_a_last_axis():
    grid = cute.offset_grid(cute.make_identity_layout((3, 4)))
    assert grid.shape == (3, 4, 2)
    assert grid[2, 3].tolist() == [2, 3]


def test_offsets_are_a_fresh_array():
    layout = Layout(8, 1)
    cute.offsets(layout)[:] = 9
    assert cute.offsets(layout).tolist() == list(range(8))


# -- injective, onto


@given(every_kind)
@example(Layout((2, 3, 4), (6, 4, 3)))
@example(Layout((3, 3, 3), (4, 6, 9)))
@example(Layout((2, 4, 2, 2), (5, 10, 11, 12)))
@example(Layout((4, 4), (0, 1)))
def test_is_injective_is_one_offset_for_each_coordinate(layout):
    offsets = table(layout)
    assert cute.is_injective(layout) == (len(set(offsets)) == len(offsets))


@given(every_kind, st.none() | st.integers(0, 40))
@example(Layout((2, 2), (-3, 5)), 2)
@example(Layout((2, 3), (-1, 4)), 1)
@example(Layout((2, 2), (-1, 1)), None)
@example(Layout((3, 3), (-2, 3)), 5)
@example(ComposedLayout(Swizzle(1, 0, 1), 0, Layout(3)), None)
@example(F2Layout(4, (1, 4), 1), 2)
def test_is_surjective_is_every_offset_of_the_codomain_hit(layout, codomain):
    wanted = cosize(layout) if codomain is None else codomain
    assert cute.is_surjective(layout, codomain) == (set(range(wanted)) <= set(table(layout)))


@given(every_kind, st.none() | st.integers(1, 40))
def test_is_bijective_is_every_offset_of_the_codomain_hit_once_and_nothing_else(layout, codomain):
    wanted = cosize(layout) if codomain is None else codomain
    assert cute.is_bijective(layout, codomain) == (sorted(table(layout)) == list(range(wanted)))


@given(every_kind)
def test_is_permutation_is_the_indices_in_some_order(layout):
    assert cute.is_permutation(layout) == (sorted(table(layout)) == list(range(layout.size())))


@given(strategies.power_layouts(), strategies.swizzles(max_bits=2, max_base=2))
def test_a_swizzle_permutes_a_permutation_of_whole_periods(layout, swizzle):
    assume(layout.size() % swizzle.period == 0)
    assert cute.is_permutation(ComposedLayout(swizzle, 0, layout))


def test_coordinate_strides_are_judged_coordinate_by_coordinate():
    identity = cute.make_identity_layout((3, (2, 2)))
    assert cute.is_injective(identity)
    assert cute.is_surjective(identity)
    assert cute.is_bijective(identity)
    assert cute.is_permutation(identity)
    assert not cute.is_injective(Layout((3, 2), (cute.E(0), cute.E(0))))
    assert not cute.is_injective(Layout((3, 2), (cute.E(0), 0)))
    assert not cute.is_surjective(Layout((3, 2), (2 * cute.E(0), cute.E(1))))
    assert not cute.is_bijective(Layout((3, 2), (cute.E(0), cute.E(0))))


HUGE = 1 << 40
closed_forms = [
    (cute.is_injective, (Layout((HUGE, HUGE), (1, HUGE)),), True),
    (cute.is_injective, (Layout((HUGE, 3), (3, 1)),), True),
    (cute.is_injective, (Layout((HUGE, HUGE), (2, 3)),), False),
    (cute.is_injective, (Layout((HUGE, 2), (1, 0)),), False),
    (cute.is_injective, (Layout((16384, 16384, 16384), (16411, 16417, 16421)),), False),
    (cute.is_injective, (Layout((HUGE, 5, 7), (35, 7, 5)),), True),
    (cute.is_injective, (ComposedLayout(Swizzle(3, 4, 3), 1, Layout(HUGE, 2)),), True),
    (cute.is_injective, (F2Layout(HUGE, [1 << bit for bit in range(40)]),), True),
    (cute.is_surjective, (Layout((HUGE, HUGE), (HUGE, 1)),), True),
    (cute.is_surjective, (Layout((HUGE, HUGE), (HUGE + 1, 1)),), False),
    (cute.is_surjective, (Layout((HUGE, HUGE), (HUGE + 1, 1)), HUGE), True),
    (cute.is_surjective, (ComposedLayout(Swizzle(3, 4, 3), 0, Layout(HUGE, 1)),), True),
    (cute.is_surjective, (ComposedLayout(Swizzle(3, 4, 3), 0, Layout(HUGE, 1)), HUGE + 1), False),
    (cute.is_permutation, (Layout((HUGE, 3, 5), (15, 5, 1)),), True),
    (cute.is_permutation, (Layout((HUGE, 3, 5), (15, 1, 1)),), False),
    (cute.is_bijective, (Layout((HUGE, HUGE), (HUGE, 1)),), True),
    (cute.equivalent, (Layout((HUGE, 2)), Layout((2, HUGE))), True),
    (cute.equivalent, (Layout((HUGE, 2), (2, 1)), Layout((2, HUGE))), False),
    (cute.contains, (Layout(HUGE), Layout(HUGE // 2, 2)), True),
    (cute.contains, (Layout(HUGE), Layout(HUGE, 2)), False),
    (cute.overlaps, (Layout(HUGE), Layout(HUGE), HUGE - 1), True),
    (cute.overlaps, (Layout(HUGE), Layout(HUGE), HUGE), False),
    (cute.overlaps, (Layout(HUGE, 4), Layout(HUGE, 6), 1), False),
    (cute.overlaps, (Layout(HUGE, 4), Layout(HUGE, 6)), True),
]


@pytest.mark.parametrize(("question", "operands", "answer"), closed_forms)
def test_size_does_not_matter_where_strides_decide(question, operands, answer, monkeypatch):
    monkeypatch.setattr(properties, "outer_sums", None)
    assert question(*operands) is answer


# -- two layouts


@given(every_kind, every_kind)
def test_equivalent_is_the_same_table(a, b):
    assert cute.equivalent(a, b) == (table(a) == table(b))


@given(any_layouts)
def test_equivalent_survives_coalescing_and_regrouping(layout):
    assert cute.equivalent(layout, cute.coalesce(layout))
    assert cute.equivalent(cute.flatten(layout), layout)


@given(strategies.layouts(max_leaves=2, max_size=16), strategies.layouts(max_leaves=2, max_size=16))
def test_two_layouts_are_equivalent_exactly_when_they_coalesce_alike(a, b):
    assert cute.equivalent(a, b) == (table(a) == table(b))


@given(every_kind, every_kind)
def test_a_proof_has_the_answer_of_its_question(a, b):
    assert cute.prove_equal(a, b).answer is cute.equivalent(a, b)
    proof = cute.prove_bijective(a)
    assert proof.answer is cute.is_permutation(a)
    if proof.answer is False:
        offset = proof.counterexample["offset"]
        assert offset < 0 or table(a).count(offset) != 1


def test_questions_about_symbols_have_the_answer_for_every_value():
    m, n = cute.sym("M"), cute.sym("N", min=2)
    for layout, answer in (
        (Layout((m, n), (n, 1)), True),
        (Layout((m, n), (cute.E(0), cute.E(1))), True),
        (Layout((m, (4, n)), (4 * n, (n, 1))), True),
    ):
        assert cute.is_bijective(layout) is cute.is_permutation(layout) is answer
        assert cute.prove_bijective(layout).answer is answer
    for layout in (Layout((m, n), (n, 2)), Layout((m, n), (cute.E(0), 2 * cute.E(1)))):
        assert cute.prove_bijective(layout).answer is False
        with pytest.raises(cute.LayoutError, match=r"is_bijective: given .* depend on symbols"):
            cute.is_bijective(layout)
    assert cute.equivalent(Layout((m, n)), Layout((m, n + 1))) is False


def test_symbols_that_coalesce_alike_are_equivalent():
    m = cute.sym("M")
    assert cute.equivalent(Layout((m, 4)), Layout((4, m)))


def test_offsets_and_coordinates_are_never_equivalent():
    assert not cute.equivalent(Layout(4, 0), Layout(4, 0 * cute.E(0)))
    assert not cute.equivalent(Layout(4, cute.E(0)), Layout(4, cute.E(1)))
    assert cute.equivalent(cute.make_identity_layout((4, 2)), cute.make_identity_layout((4, 2)))


@given(every_kind, every_kind)
def test_contains_is_the_subset_of_images(a, b):
    assert cute.contains(a, b) == (set(table(b)) <= set(table(a)))


@given(every_kind, every_kind, st.integers(-60, 60))
@example(Layout((2, 2), (1, 4)), Layout((2, 2), (1, 4)), 2)
def test_overlaps_is_a_shared_offset(a, b, offset):
    assert cute.overlaps(a, b, offset) == bool({x + offset for x in table(b)} & set(table(a)))


@given(every_kind)
def test_image_is_the_set_of_offsets(layout):
    assert cute.image(layout).tolist() == sorted(set(table(layout)))


def test_image_of_spread_offsets_and_of_coordinates():
    assert cute.image(Layout((2, 3), (0, 1 << 40))).tolist() == [0, 1 << 40, 2 << 40]
    assert cute.image(Layout((2, 2), (0, cute.E(0)))).tolist() == [[0], [1]]


@given(every_kind)
def test_holes_are_what_is_left_below_the_cosize(layout):
    assert cute.holes(layout).tolist() == sorted(set(range(cosize(layout))) - set(table(layout)))


# -- refusals: each wording once


def test_what_is_no_layout_is_refused():
    with pytest.raises(LeafTypeError, match="offsets: given 7 "):
        cute.offsets(7)
