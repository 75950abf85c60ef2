"""Operations on swizzled layouts against brute force; symbols, huge extents, coordinate offsets."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import ComposedLayout, F2Map, Layout, Swizzle, parse_layout
from tests import strategies, swizzled_layouts
from tests.swizzled_layouts import LAWS, broken, table

QUICK = 80  # layouts of each law; the slow run takes 20,000


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law_holds_for_random_swizzled_layouts(law):
    found = [broken(law, seed) for seed in range(QUICK)]
    assert not any(found), "\n".join(filter(None, found))


def test_a_broken_law_is_found():
    def cosize_is_the_size(_draw, x, _values):
        return cute.cosize(x) != cute.size(x)

    assert any(broken(cosize_is_the_size, seed) for seed in range(QUICK))


# -- bugs, each with the family that it stands for


def test_left_inverse_is_right_where_indices_would_run_past_the_size():
    layout = parse_layout("Sw<2,2,-3> o 0 o (2,2,1):(2,1,0)")
    assert [cute.left_inverse(layout)(x) for x in table(layout)] == [0, 1, 2, 3]


@given(strategies.swizzles(), strategies.power_layouts(max_bits=7))
def test_inverses_of_a_bijection_are_bijections_of_its_size(swizzle, inner):
    layout = ComposedLayout(swizzle, 0, inner)
    values = table(layout)
    if sorted(values) == list(range(len(values))):
        right, left = cute.right_inverse(layout), cute.left_inverse(layout)
        assert [values[k] for k in table(right)] == list(range(len(values)))
        assert [left(value) for value in values] == list(range(len(values)))


@given(strategies.layouts(max_size=64), strategies.composed_layouts())
def test_composition_with_a_swizzled_layout_is_never_refused(a, b):
    result = cute.composition(a, b)
    assert table(result) == [a(value) for value in table(b)]


@given(strategies.layouts(max_size=64), strategies.swizzles())
def test_composition_with_a_swizzle_is_never_refused(a, swizzle):
    result = cute.composition(a, swizzle)
    assert table(result) == [a(swizzle(i)) for i in range(cute.size(a))]


@given(strategies.composed_layouts())
def test_cosize_is_one_more_than_the_largest_offset(layout):
    assert cute.cosize(layout) == 1 + max(table(layout))


@given(strategies.swizzles(), strategies.compact_layouts(max_size=200))
def test_inverses_of_swizzled_layouts_of_any_extents_obey_their_laws(swizzle, inner):
    layout = ComposedLayout(swizzle, 0, inner)
    right, left = cute.right_inverse(layout), cute.left_inverse(layout)
    assert [layout(k) for k in table(right)] == list(range(cute.size(right)))
    assert [left(value) for value in table(layout)] == list(range(cute.size(layout)))


def test_common_layout_of_equally_swizzled_layouts_is_contiguous_after_the_swizzle():
    layout = parse_layout("Sw<2,0,2> o 0 o (4,4):(1,4)")
    common = cute.max_common_layout(layout, layout)
    assert [layout(i) for i in table(common)] == list(range(16))
    with pytest.raises(cute.LayoutError, match="Sw<2,0,2> o 4 o") as caught:
        cute.max_common_layout(ComposedLayout(Swizzle(2, 0, 2), 4, Layout(4)), Layout(4))
    assert caught.value.code == "inverse-offset"


@pytest.mark.parametrize("operation", ["max_common_layout", "max_common_vector"])
def test_layouts_under_one_map_with_an_offset_have_no_run_from_zero(operation):
    layout = ComposedLayout(Swizzle(2, 0, 2), 4, Layout(4))
    with pytest.raises(cute.LayoutError, match="Sw<2,0,2> o 4 o") as caught:
        getattr(cute, operation)(layout, layout)
    assert caught.value.code == "inverse-offset"


@pytest.mark.parametrize("operation", ["zipped_product", "tiled_product", "flat_product"])
def test_products_of_a_swizzled_tiler_are_swizzled(operation):
    block, tiler = Layout((4, 2), (1, 4)), parse_layout("Sw<3,0,3> o 0 o (2,32):(1,2)")
    result = getattr(cute, operation)(block, tiler)
    assert table(result) == table(cute.logical_product(block, tiler))


@given(strategies.swizzles(), st.integers(0, 2**12), st.integers(0, 6))
def test_upcast_of_a_swizzle_is_refused_only_where_elements_mix(swizzle, x, shift):
    whole = all(swizzle(1 << bit) >> shift == 0 for bit in range(shift))
    if whole:
        assert cute.upcast(swizzle, 1 << shift)(x >> shift) == swizzle(x) >> shift
    else:
        with pytest.raises(cute.LayoutError, match="bits below an element"):
            cute.upcast(swizzle, 1 << shift)


def test_maps_of_bits_are_recast_too():
    gray = F2Map((1, 3, 6))
    wide = cute.downcast(gray, 4)
    assert [wide(4 * x + 1) for x in range(16)] == [4 * gray(x) + 1 for x in range(16)]
    assert cute.upcast(wide, 4) == gray
    with pytest.raises(cute.LayoutError, match="bits below an element"):
        cute.upcast(F2Map((3, 1)), 2)


# -- symbols: what is a multiple of the period commutes


S, STAGE = cute.sym("S", max=8), cute.sym("i", min=0, max=7)
STAGED = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((96, 64, S), (64, 1, 6144)))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda: STAGED(cute._, cute._, STAGE), "Sw<3,3,3> o 6144*i o (96,64):(64,1)"),
        (lambda: STAGED(3, cute._, STAGE), "Sw<3,3,3> o 6144*i+192 o (64):(1)"),
        (lambda: STAGED(3, 5, STAGE), "6144*i+221"),
        (lambda: cute.composition(STAGED, (32, 16)), "Sw<3,3,3> o 0 o (32,16):(64,1)"),
        (
            lambda: cute.zipped_divide(STAGED, (32, 16)),
            "Sw<3,3,3> o 0 o ((32,16),(3,4,S)):((64,1),(2048,16,6144))",
        ),
        (
            lambda: cute.recast_layout(STAGED, 16, 8),
            "Sw<3,4,3> o 0 o (96,128,S):(128,1,12288)",
        ),
        (lambda: cute.upcast(STAGED, 8), "Sw<3,0,3> o 0 o (96,8,S):(8,1,768)"),
        (
            lambda: cute.upcast(STAGED(cute._, cute._, STAGE), 8),
            "Sw<3,0,3> o 768*i o (96,8):(8,1)",
        ),
        (
            lambda: cute.logical_product(STAGED, Layout(4)),
            "Sw<3,3,3> o 0 o ((96,64,S),4):((64,1,6144),6144*S)",
        ),
        (
            lambda: cute.logical_product(Layout(8), STAGED),
            "Sw<3,6,3> o 0 o (8,(96,64,S)):(1,(512,8,49152))",
        ),
        (lambda: cute.cosize(STAGED), "6144*S"),
        (lambda: cute.complement(STAGED), "1:0"),
        (
            lambda: cute.composition(Layout((512, S), (1, 512)), Swizzle(3, 3, 3)),
            "Sw<3,3,3> o 0 o (512,S):(1,512)",
        ),
        (
            lambda: cute.right_inverse(STAGED),
            "(64,96,S):(96,1,6144) o 0 o Sw<3,3,3> o 0 o (64,96,S):(1,64,6144)",
        ),
    ],
)
def test_stages_commute_with_the_swizzle(result, text):
    assert str(result()) == text


@pytest.mark.parametrize("value", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ["right_inverse", "left_inverse"])
def test_inverses_of_a_staged_layout_are_right_for_every_number_of_stages(name, value):
    concrete = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((96, 64, value), (64, 1, 6144)))
    inverse = getattr(cute, name)(STAGED)
    parts = [inverse.outer, inverse.inner.inner]
    outer, inner = [cute.substitute(part, {"S": value}) for part in parts]
    whole = ComposedLayout(outer, 0, ComposedLayout(inverse.inner.outer, 0, inner))
    places = range(0, cute.size(concrete), 61)
    if name == "right_inverse":
        assert [concrete(whole(k)) for k in places] == list(places)
    else:
        assert [whole(concrete(i)) for i in places] == list(places)


def test_a_symbol_whose_remainder_is_not_known_is_refused():
    with pytest.raises(cute.UndecidedError):
        Swizzle(1, 0, 1)(cute.sym("k", min=0))


# -- huge extents: a closed form, or a refusal that names the size


HUGE = 1 << 40
BIG = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((HUGE, HUGE), (HUGE, 1)))
ODD = ComposedLayout(Swizzle(3, 4, 3), 5, Layout((HUGE - 87, 1000), (1000, 1)))
PLACES = cute.make_identity_layout((512, 512))
STEEP = Layout((HUGE >> 4, 32587, 64), (1, HUGE << 42, HUGE >> 4))
TOP = (HUGE - 87) * 1000 + 4  # the largest sum below the swizzle; all down to 5 are reached


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: cute.cosize(BIG), HUGE * HUGE),
        (lambda: str(cute.right_inverse(BIG)), f"Sw<3,44,3> o 0 o ({HUGE},{HUGE}):({HUGE},1)"),
        (lambda: str(cute.left_inverse(BIG)), f"Sw<3,44,3> o 0 o ({HUGE},{HUGE}):({HUGE},1)"),
        (lambda: str(cute.complement(BIG, 4 * HUGE * HUGE)), f"4:{HUGE * HUGE}"),
        (lambda: cute.to_f2(BIG).size(), HUGE * HUGE),
        (lambda: cute.cosize(ODD), 1 + max(map(ODD.outer, range(TOP - 1023, TOP + 1)))),
        (lambda: str(cute.composition(Layout(HUGE, 2), BIG.outer)), f"Sw<3,5,3> o 0 o {HUGE}:2"),
        (
            lambda: cute.size(
                cute.right_inverse(ComposedLayout(Swizzle(3, 4, 3), 0, Layout(10**9)))
            ),
            10**9,
        ),
        (
            lambda: cute.from_f2(cute.F2Layout(1 << 80, [1 << (7 * k) % 80 for k in range(80)]))(9),
            2**0 + 2**21,
        ),
        (lambda: cute.from_f2(cute.F2Layout(8, (1 << 79 | 3, 2, 1 << 79 | 4))).bases[1], 2),
        (lambda: cute.max_common_vector(BIG, BIG), cute.size(cute.max_common_layout(BIG, BIG))),
        (lambda: str(cute.max_common_layout(STEEP, Layout(HUGE - 87))), f"{HUGE >> 4}:1"),
        (lambda: cute.is_injective(ComposedLayout(Layout((512, 512)), (0, 0), PLACES)), True),
        (lambda: cute.contains(ODD, ODD) and cute.overlaps(ODD, ODD), True),
        (lambda: cute.equivalent(BIG, ComposedLayout(BIG.outer, 0, Layout(HUGE))), False),
        (lambda: cute.is_surjective(ComposedLayout(Swizzle(2, 38, 2), 0, Layout(HUGE))), True),
        (lambda: cute.size(cute.blocked_product(Layout((8, 8)), BIG)), 64 * HUGE * HUGE),
    ],
)
def test_huge_layouts_are_answered_at_once(ask, answer):
    start = time.process_time()
    assert ask() == answer
    assert time.process_time() - start < 1


def test_what_has_no_closed_form_is_refused_with_its_size():
    backwards = ComposedLayout(Swizzle(1, 0, 1), 0, Layout(1 << 20, -1))
    with pytest.raises(cute.LayoutError, match=r"1048576 offsets .* at most 65536"):
        cute.cosize(backwards)


# -- coordinates as offset


@given(
    strategies.layouts(max_leaves=2, max_size=64).filter(lambda x: len(x) == 2),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.data(),
)
def test_a_coordinate_offset_moves_the_coordinate(outer, offset, data):
    shape = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    layout = ComposedLayout(outer, offset, cute.make_identity_layout(shape))
    for i in range(cute.size(layout)):
        x, y = cute.idx2crd(i, shape)
        at = (x + offset[0], y + offset[1])
        assert layout(i) == layout(x, y) == cute.crd2idx(at, outer.shape, outer.stride)
    assert parse_layout(str(layout)) == layout
    assert table(layout(cute._, 0)) == table(layout)[: shape[0]]
    assert cute.offsets(layout).tolist() == table(layout)


def test_coordinate_offsets_print_and_slice():
    layout = parse_layout("(6,2):(1,3) o (2,1) o (2,3):(1@1,2@0)")
    assert layout(3) == 10
    assert str(layout) == "(6,2):(1,3) o (2,1) o (2,3):(1@1,2@0)"
    assert str(layout(cute._, 1)) == "(6,2):(1,3) o (4,1) o (2):(1@1)"
    assert str(cute.composition(layout, (2, 1))) == "(6,2):(1,3) o (2,1) o (2,1):(1@1,2@0)"
    with pytest.raises(cute.CuteError, match=r"given \(0, 0\) \(tuple\)"):
        ComposedLayout(Swizzle(1, 0, 1), (0, 0), Layout(4))


def test_drawn_layouts_are_of_every_kind():
    draws = [swizzled_layouts.swizzled(swizzled_layouts.seeded("kinds", k)) for k in range(300)]
    assert any(x.offset for x in draws)
    assert any(x.outer.__class__ is Swizzle and x.outer.num_shft < 0 for x in draws)
    assert any(0 in x.inner._d for x in draws)
    assert any(1 in x.inner._s for x in draws)
    assert {len(x.inner._s) for x in draws} == {1, 2, 3, 4, 5}
    assert any(cute.depth(x.inner) > 1 for x in draws)
