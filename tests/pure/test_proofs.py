"""Formulas and proofs about layouts with symbols."""

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import ComposedLayout, Layout, Swizzle, sym

M, N = sym("M", multiple_of=8), sym("N")


def test_formula_of_row_major_is_the_textbook_one():
    i, j = sympy.symbols("i_0 i_1", integer=True, nonnegative=True)
    ld = sympy.Symbol("N", integer=True, positive=True)
    assert Layout((M, N), (N, 1)).formula() == i * ld + j


@given(st.data())
def test_formula_evaluates_to_the_offset(data):
    extents = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    strides = data.draw(st.lists(st.integers(0, 9), min_size=len(extents), max_size=len(extents)))
    layout = Layout(tuple(extents), tuple(strides))
    coord = tuple(data.draw(st.integers(0, s - 1)) for s in extents)
    names = {str(s): s for s in layout.formula().free_symbols}
    values = {names[f"i_{k}"]: c for k, c in enumerate(coord) if f"i_{k}" in names}
    assert layout.formula().subs(values) == layout(coord)


def test_formula_of_an_identity_layout_is_the_coordinate():
    assert str(cute.formula(cute.make_identity_layout((4, (2, 3))))) == "(i_0, (i_1_0, i_1_1))"


def test_formula_of_a_swizzled_layout_names_the_swizzle():
    tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    assert str(cute.formula(tile)) == "Sw<3,3,3>(64*i_0 + i_1)"


def test_symbolic_layouts_are_proved_equal_through_the_algebra():
    tiled = cute.logical_divide(Layout(M, 1), 8)
    assert cute.prove_equal(cute.coalesce(tiled), Layout(M, 1)).answer is True
    assert cute.prove_equal(Layout((8, M // 8)), Layout(M, 1)).answer is True
    assert cute.prove_equal((M, (N, 3)), (M // 8 * 8, (N, 3))).answer is True


def test_a_false_claim_gets_a_counterexample_that_the_declarations_admit():
    proof = cute.prove_equal(Layout((M, N)), Layout((M, N), (N, 1)))
    assert proof.answer is False
    values = dict(proof.counterexample)
    index = values.pop("index")
    assert values["M"] % 8 == 0
    a, b = (cute.substitute(x, values) for x in (Layout((M, N)), Layout((M, N), (N, 1))))
    assert a(index) != b(index)


def test_what_is_open_says_which_assumption_would_settle_it():
    proof = cute.prove_divides(16, sym("K", multiple_of=4, min=64, max=4096) * sym("L") // 3)
    assert proof.answer is not True
    with pytest.raises(cute.UndecidedError, match="is a multiple of 16"):
        cute.composition(Layout((sym("K", multiple_of=8), 4), (4, 1)), Layout(2, 16))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-2, 12)), min_size=1, max_size=3))
def test_bijectivity_of_numbers_is_decided_and_right(modes):
    layout = Layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))
    offsets = sorted(layout(i) for i in range(layout.size()))
    proof = cute.prove_bijective(layout)
    assert proof.answer is (offsets == list(range(layout.size())))
    if proof.answer is False:
        offset = proof.counterexample["offset"]
        assert offset < 0 or offsets.count(offset) != 1


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), min_size=1, max_size=3),
)
def test_equality_of_numbers_is_decided_and_right(a_modes, b_modes):
    a, b = (Layout(tuple(s for s, _ in m), tuple(d for _, d in m)) for m in (a_modes, b_modes))
    truth = a.size() == b.size() and all(a(i) == b(i) for i in range(a.size()))
    proof = cute.prove_equal(a, b)
    assert proof.answer is truth
    if a.size() == b.size() and not truth:
        index = proof.counterexample["index"]
        assert a(index) != b(index)


def test_row_major_and_column_major_are_bijective_and_a_padded_one_is_not():
    assert cute.prove_bijective(Layout((M, N))).answer is True
    assert cute.prove_bijective(Layout((M, N), (N, 1))).answer is True
    padded = cute.prove_bijective(Layout((M, N), (1, M + 8)))
    assert padded.answer is False
    assert padded.counterexample["N"] > 1
    swizzled = ComposedLayout(Swizzle(3, 0, 3), 0, Layout((8, 8)))
    assert cute.prove_bijective(swizzled).answer is True


def test_substitute_refuses_what_the_declaration_does_not_admit():
    assert cute.substitute(Layout((M, 4)), {"M": 16}) == Layout((16, 4))
    with pytest.raises(cute.LayoutError, match="a multiple of 8"):
        cute.substitute(Layout((M, 4)), {"M": 12})
