"""Coordinates and shapes of CUTLASS 2.x as int tuples.

Rows B01 to B11 of the requirements: what Coord, MatrixCoord, GemmShape and their kin do, done with
tuples and the functions on them. The numbers in the asserts are the rows' own.
"""

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.errors import LayoutError

coords = st.lists(st.integers(-20, 20), min_size=3, max_size=3).map(tuple)


# -- B01: Coord, its arithmetic and its partial order


@given(coords, coords)
def test_comparisons_want_every_element(a, b):
    assert cute.elem_less(a, b) == all(x < y for x, y in zip(a, b, strict=True))
    assert cute.elem_leq(a, b) == all(x <= y for x, y in zip(a, b, strict=True))


@given(coords, coords)
def test_greater_is_the_negation_of_at_most(a, b):
    """CUTLASS Coord: a > b is !(a <= b), and a >= b is !(a < b)."""
    assert cute.elem_gtr(a, b) == (not all(x <= y for x, y in zip(a, b, strict=True)))
    assert cute.elem_geq(a, b) == (not all(x < y for x, y in zip(a, b, strict=True)))


def test_the_order_is_partial():
    assert cute.elem_less((1, 5), (2, 6))
    assert cute.elem_gtr((1, 5), (2, 4))
    assert cute.elem_gtr((2, 4), (1, 5))
    assert not cute.elem_less((1, 5), (2, 4))
    assert not cute.elem_less((2, 4), (1, 5))


@given(coords, coords, coords)
def test_less_is_a_strict_partial_order(a, b, c):
    assert not cute.elem_less(a, a)
    assert not (cute.elem_less(a, b) and cute.elem_less(b, a))
    if cute.elem_less(a, b) and cute.elem_less(b, c):
        assert cute.elem_less(a, c)


def test_an_integer_does_not_compare_with_a_tuple():
    with pytest.raises(LayoutError, match="profiles that match"):
        cute.elem_less((1, 2), 3)


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        (operator.add, (11, 14, 17)),
        (operator.sub, (5, 4, 3)),
        (operator.mul, (24, 45, 70)),
        (operator.floordiv, (2, 1, 1)),
    ],
)
def test_arithmetic_is_elementwise(operation, result):
    a, b = (8, 9, 10), (3, 5, 7)
    assert cute.transform_leaf(operation, a, b) == result
    assert (a, b) == ((8, 9, 10), (3, 5, 7))  # tuples stay as they are


# -- B02: make_Coord, and scalars


def test_a_scalar_meets_every_element():
    assert cute.transform_leaf(lambda x: 12 // x, (2, 3)) == (6, 4)
    assert cute.transform_leaf(lambda x: x // 2, (7, 9)) == (3, 4)
    assert cute.transform_leaf(lambda x: 3 * x, (1, 2, 3, 4)) == (3, 6, 9, 12)
    assert cute.elem_scale((2, 3), cute.repeat_like((2, 3), 5)) == (10, 15)


# -- B03 to B07: named coordinates are the order of their modes


def test_matrix_coord_is_row_then_column():
    row, column = coord = (7, 23)
    assert (cute.get(coord, 0), cute.get(coord, 1)) == (row, column)
    assert cute.row_major((32, 32))(coord) == 32 * row + column


def test_gemm_coord_is_m_n_k():
    problem = (3, 4, 5)
    assert cute.select(problem, [0, 1]) == (3, 4)  # mn
    assert cute.select(problem, [0, 2]) == (3, 5)  # mk
    assert cute.select(problem, [1, 2]) == (4, 5)  # nk


def test_batched_gemm_coord_is_m_n_k_batch():
    problem = (3, 4, 5, 6)
    assert cute.get(problem, 3) == 6
    assert cute.take(problem, 0, 3) == (3, 4, 5)


def test_tensor_4d_coord_is_n_h_w_c():
    n, h, w, c = coord = (1, 2, 3, 4)
    assert cute.tensor_nhwc(2, 3, 4, 5)(coord) == ((n * 3 + h) * 4 + w) * 5 + c


def test_tensor_5d_coord_is_n_d_h_w_c():
    n, d, h, w, c = coord = (1, 1, 2, 3, 4)
    assert cute.tensor_ndhwc(2, 2, 3, 4, 5)(coord) == (((n * 2 + d) * 3 + h) * 4 + w) * 5 + c


# -- B08 to B10: static shapes


def test_matrix_shape_counts_its_elements():
    assert cute.size((3, 4)) == cute.product((3, 4)) == 12


def test_gemm_shape_counts_its_faces():
    tiler = (2, 3, 5)
    faces = [[0, 1], [0, 2], [1, 2], [0, 1, 2]]
    assert [cute.size(cute.select(tiler, face)) for face in faces] == [6, 10, 15, 30]


def test_gemm_shape_transpose_swaps_m_and_n():
    assert cute.select((2, 3, 5), [1, 0, 2]) == (3, 2, 5)


def test_pitch_linear_shape_is_contiguous_then_strided():
    assert cute.size((8, 4)) == 32
    assert cute.pitch_linear((8, 4)) == cute.Layout((8, 4), (1, 8))


# -- B11: the words


def test_size_counts_logical_elements_and_capacity_stored_ones():
    rows, columns = shape = (2, 3)
    layout = cute.column_major_interleaved(shape, 2)
    assert cute.rank(shape) == cute.rank(layout) == 2
    assert cute.size(shape) == 6
    assert cute.capacity(layout) == 8
    stored = {layout(r, c) for r in range(rows) for c in range(columns)}
    assert len(stored) == 6  # as many as there are logical elements
    assert stored < set(range(8))


def test_offsets_count_elements_whatever_their_width():
    layout = cute.row_major((4, 8))
    assert cute.upcast(layout, 2)(1, 0) == layout(1, 0) // 2  # in elements twice as wide
    assert [layout(0, i) for i in range(8)] == list(range(8))
