"""Composition: R(c) == A(B(c)) for every c of B, or a refusal that proves itself."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import Layout, composition
from cute_py.layout.algebra.carries import first_in_window
from tests import model
from tests.strategies import (
    admissible_pairs,
    chain_layouts,
    compact_layouts,
    composed_layouts,
    coordinates_of,
    layouts,
    negative_layouts,
    shapes,
    swizzles,
)


def refusal_of(a, b):
    with pytest.raises(cute.LayoutError) as caught:
        composition(a, b)
    return caught.value


# -- the law


@given(layouts(max_leaves=3), layouts(max_leaves=3, max_size=128))
@example(Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))  # NVIDIA/cutlass issue 2955
@example(Layout((4, 6, 8), (2, 3, 5)), Layout(6, 3))  # NVIDIA/cutlass issue 3177
@example(Layout((7, 2, 1), (0, 1, 0)), Layout(6, 9))  # the rest departs before the first carry
@example(Layout((2, 2, 8), (1, 3, 5)), Layout((2, 2), (1, 3)))  # carries, and is right
def test_composition_law_or_refusal(a, b):
    """R(c) == a(b(c)); refused, with the first departing coordinate, exactly if there is no R."""
    exists = model.exists_composition(a, b)
    if isinstance(exists, model.Departure):
        facts = refusal_of(a, b).facts
        assert (facts["index"], facts["got"], facts["fitted"]) == exists
        assert facts["visited"] == model.table(b)[exists.index]
    else:
        result = composition(a, b)
        assert model.table(result) == model.composed_table(a, b)
        assert model.refines(result.shape, b.shape)


@given(negative_layouts(max_leaves=3), negative_layouts(max_leaves=3, max_size=64))
def test_composition_law_holds_for_negative_strides(a, b):
    exists = model.exists_composition(a, b)
    if isinstance(exists, model.Departure):
        facts = refusal_of(a, b).facts
        index, got = facts["index"], facts["got"]
        assert got == model.composed_table(a, b)[index] != facts["fitted"]
        assert facts["visited"] == model.table(b)[index]
    else:
        assert model.table(composition(a, b)) == model.composed_table(a, b)


@given(admissible_pairs())
def test_composition_reads_every_coordinate_alike(pair):
    """R(c) == a(b(c)) also for coordinates of b's own shape, not only for indices."""
    a, b = pair
    result = composition(a, b)
    for coord in cute.coordinates(b.shape):
        assert result(coord) == a(b(coord))


@given(admissible_pairs(), layouts(max_leaves=2, max_size=32))
def test_composition_is_associative_where_defined(pair, c):
    """(a o b) o c == a o (b o c) where c stays inside of b."""
    a, b = pair
    assume(max(model.table(c)) < b.size())
    assume(not isinstance(model.exists_composition(b, c), model.Departure))
    assume(not isinstance(model.exists_composition(a, composition(b, c)), model.Departure))
    left = composition(composition(a, b), c)
    right = composition(a, composition(b, c))
    assert model.table(left) == model.table(right)


@given(layouts())
def test_composition_with_the_identity_changes_nothing(layout):
    identity = Layout(max(model.table(layout)) + 1)
    assert model.table(composition(identity, layout)) == model.table(layout)
    assert model.table(composition(layout, Layout(layout.size()))) == model.table(layout)
    assert model.table(composition(layout, Layout(layout.shape))) == model.table(layout)


@given(layouts(), st.integers(0, 7))
def test_composition_runs_past_the_last_mode(layout, extra):
    count = layout.size() + extra
    exists = model.exists_composition(layout, Layout(count))
    assume(not isinstance(exists, model.Departure))
    assert model.table(composition(layout, Layout(count))) == [layout(i) for i in range(count)]


@given(compact_layouts())
def test_composition_with_the_inverse_is_the_identity(layout):
    inverse = cute.right_inverse(layout)
    assert cute.coalesce(composition(layout, inverse)) == cute.coalesce(Layout(layout.size()))


# -- tilers


@given(layouts(max_leaves=4), st.data())
def test_composition_by_mode_composes_the_modes(layout, data):
    count = data.draw(st.integers(1, len(layout)))
    tiler = tuple(data.draw(st.integers(1, layout[i].size())) for i in range(count))
    assume(
        not any(
            isinstance(model.exists_composition(layout[i], Layout(n)), model.Departure)
            for i, n in enumerate(tiler)
        )
    )
    result = composition(layout, tiler)
    assert len(result) == count
    for i, n in enumerate(tiler):
        assert model.table(result[i]) == model.table(layout[i])[:n]


@given(layouts())
def test_composition_with_underscore_keeps_the_layout(layout):
    assert composition(layout, cute._) == layout
    assert composition(layout, None) == layout
    assert composition(layout, (cute._,) * len(layout)) == cute.make_layout(*layout)


def test_composition_with_an_integer_is_the_compact_layout_of_it():
    layout = Layout((4, 8), (8, 1))
    assert composition(layout, 8) == composition(layout, Layout(8))
    assert composition(layout, np.int64(8)) == composition(layout, 8)


def test_composition_refuses_more_tiler_entries_than_modes():
    with pytest.raises(
        cute.LayoutError, match=r"a tiler of 3 modes for \(4,8\):\(1,4\) \(rank 2\)"
    ) as caught:
        composition(Layout((4, 8)), (2, 2, 2))
    assert caught.value.code == "tiler-rank"


# -- swizzled and coordinate operands


@given(composed_layouts(), layouts(max_leaves=2, max_size=32))
def test_composition_of_a_composed_layout_composes_its_inner_layout(a, b):
    assume(not isinstance(model.exists_composition(a.inner, b), model.Departure))
    result = composition(a, b)
    assert [result(i) for i in range(b.size())] == [a(b(i)) for i in range(b.size())]


@given(swizzles(), layouts())
def test_composition_after_a_swizzle_swizzles_the_offsets(swizzle, layout):
    result = composition(swizzle, layout)
    assert [result(i) for i in range(layout.size())] == [swizzle(x) for x in model.table(layout)]


@given(shapes(max_leaves=3, max_size=128), layouts(max_leaves=2, max_size=32))
def test_composition_of_identity_layout_yields_coordinates(shape, b):
    """identity o b maps c to the coordinate whose index is b(c); refused exactly if no layout does.

    Truth: coordinates as numbers of a radix that none of them reaches.
    """
    assume(max(model.table(b)) < Layout(shape).size())
    identity = cute.make_identity_layout(shape)
    packed = tuple(1000**k for k in range(len(model.leaves(shape))))
    exists = model.exists_composition((shape, packed), b)
    try:
        result = composition(identity, b)
    except cute.LayoutError as refusal:
        diagonal = refusal.code == "composition-diagonal"
        assert diagonal or isinstance(exists, model.Departure)
        return
    for i, index in enumerate(model.table(b)):
        assert _padded(result(i), shape) == cute.idx2crd(index, shape)


def _padded(coord, shape):
    """Return the coordinate with the zeros that CuTe leaves out."""
    if not isinstance(shape, tuple):
        return coord
    parts = coord if isinstance(coord, tuple) else (coord,) if coord else ()
    parts += (0,) * (len(shape) - len(parts))
    return tuple(_padded(*pair) for pair in zip(parts, shape, strict=True))


@given(shapes(max_leaves=3, max_size=128), layouts(max_leaves=2, max_size=32))
def test_composition_refusal_names_the_operands_that_were_given(shape, b):
    assume(max(model.table(b)) < Layout(shape).size())
    identity = cute.make_identity_layout(shape)
    try:
        composition(identity, b)
        message = ""
    except cute.LayoutError as refusal:
        message = str(refusal)
    assert message == "" or f"a={identity}" in message


@given(chain_layouts(max_leaves=3), st.data())
def test_composition_agrees_at_a_random_coordinate(a, data):
    b = data.draw(layouts(max_leaves=3, max_size=128))
    assume(not isinstance(model.exists_composition(a, b), model.Departure))
    coord = data.draw(coordinates_of(b.shape))
    assert composition(a, b)(coord) == a(b(coord))


# -- the sources' own examples


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        # Cecka, arXiv 2603.02298, section 3.3: legal, though a stride "apparently" does not divide
        (Layout((4, 2, 8), (3, 12, 97)), Layout(3, 3), "3:9"),
        # CuTe documentation, 02_layout_algebra: the worked examples of composition
        (Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)), "((2,2),3):((24,2),8)"),
        (Layout(20, 2), Layout((5, 4), (4, 1)), "(5,4):(8,2)"),
        (Layout((10, 2), (16, 4)), Layout((5, 4), (1, 5)), "(5,(2,2)):(16,(80,4))"),
    ],
)
def test_composition_of_published_examples(a, b, expected):
    assert str(composition(a, b)) == expected


@pytest.mark.parametrize(
    ("a", "b", "witness"),
    [
        (Layout((4, 2, 8), (3, 12, 97)), Layout(4, 3), (3, 97 + 3, 27)),
        (Layout((4, 2, 8), (3, 15, 97)), Layout(3, 3), (2, 21, 18)),
        (Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)), (5, 8, 7)),  # cutlass issue 2955
        (Layout((4, 6, 8), (2, 3, 5)), Layout(6, 3), (3, 8, 13)),  # cutlass issue 3177
        (Layout((4, 6), (1, 5)), Layout(3, 3), (2, 7, 6)),
    ],
)
def test_composition_refuses_what_no_layout_computes(a, b, witness):
    assert model.exists_composition(a, b) == witness
    facts = refusal_of(a, b).facts
    assert (facts["index"], facts["got"], facts["fitted"]) == witness


@given(layouts(max_leaves=3), layouts(max_leaves=3, max_size=64))
def test_composition_refusal_offers_repairs_that_hold(a, b):
    """The repairs that change an extent of b are tried by the model: with that extent R exists."""
    assume(isinstance(model.exists_composition(a, b), model.Departure))
    refusal = refusal_of(a, b)
    assert f"make_composed_layout({a}, 0, {b})" in str(refusal)
    for word, _, size in _changes(refusal.facts["repairs"], "mode"):
        leaf = _leaf(b, refusal.facts["mode"])
        changed = [size if k == leaf else s for k, (s, _) in enumerate(model.modes(b))]
        repaired = Layout(cute.unflatten(tuple(changed), b.shape), b.stride)
        assert word in ("shrink", "pad")
        assert not isinstance(model.exists_composition(a, repaired), model.Departure)


def _changes(repairs, what):
    """Return (word, old, new) of the repairs "shrink mode 0 of b from 4 to 3"."""
    for repair in repairs.split(", or "):
        words = repair.split()
        if "from" in words and (words[1] == what or words[1] == "b"):
            yield words[0], int(words[-3]), int(words[-1])


def _leaf(layout, path):
    """Return which leaf of the layout stands at a mode path."""
    numbers = cute.unflatten(tuple(range(len(model.modes(layout)))), layout.shape)
    for step in path:
        numbers = numbers[step]
    return numbers


# -- sizes that no table could hold


def test_composition_of_a_million_values_takes_the_closed_form():
    """(2^20, 2^20):(1, 2^20 + 3) o 2^20:2^10 walks both modes: 2^10 values in each."""
    a = Layout((2**20, 2**20), (1, 2**20 + 3))
    result = composition(a, Layout(2**20, 2**10))
    assert model.modes(result) == [(2**10, 2**10), (2**10, 2**20 + 3)]


@given(st.integers(1, 2**30), st.integers(0, 2**30), st.integers(0, 2**30))
def test_composition_of_a_single_mode_multiplies_strides(extent, step, stride):
    result = composition(Layout(2**40, stride), Layout(extent, step))
    assert model.modes(result) == [(extent, step * stride)]


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 19), st.integers(0, 20), st.data())
def test_composition_of_powers_of_two_has_the_bitwise_formula(m, n, shift, bits, data):
    """a = (2^m, 2^n):(2^n, 1) is a rotation of bits; b picks `bits` of them from `shift` on."""
    a = Layout((2**m, 2**n), (2**n, 1))
    result = composition(a, Layout(2**bits, 2**shift))
    index = data.draw(st.integers(0, 2**bits - 1))
    x = index << shift
    assert result(index) == ((x % 2**m) << n) + (x >> m)


def test_composition_refuses_large_carries_with_their_first_coordinate():
    """Both modes of b climb the first digit of a: they meet its end at a coordinate to be found."""
    a = Layout((2**20, 2**20), (1, 2**21))
    b = Layout((2**10, 2**12), (2**10, 3 * 2**9))
    facts = refusal_of(a, b).facts
    i, j = facts["index"] % 2**10, facts["index"] // 2**10
    offset = i * 2**10 + j * 3 * 2**9
    assert facts["visited"] == offset
    assert facts["got"] == offset % 2**20 + (offset // 2**20) * 2**21 != facts["fitted"]


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_the_first_index_in_a_window_is_the_least(step, modulus, data):
    low = data.draw(st.integers(0, modulus - 1))
    high = data.draw(st.integers(low, modulus - 1))
    hits = (i for i in range(modulus) if low <= i * step % modulus <= high)
    assert first_in_window(step, modulus, low, high) == next(hits, None)


@pytest.mark.parametrize("extent", [2000, 10**9 + 7, 2**40 - 1])
def test_the_search_for_the_first_departure_is_logarithmic(extent):
    """A step just below the modulus once cost one level of recursion an index."""
    a = Layout((extent, extent - 1), (extent - 1, 2))
    assert refusal_of(a, a).facts["index"] > 0
    assert first_in_window(extent - 1, extent, extent // 2, extent // 2) == extent - extent // 2
