"""The classical layouts of CUTLASS 2.x against the formulas that define them.

Rows C01 to C07 and C15 to C19 of the requirements; their numbers are in the examples. The
models are plain functions of the coordinate; tensor-core operands are in test_tensorop.
"""

import re
from itertools import permutations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.errors import LayoutError, LeafTypeError
from cute_py.integers.symbols import sym

extents = st.integers(1, 9)
paddings = st.integers(0, 5)
interleaves = st.integers(1, 4)


def grid(*shape):
    """Return all coordinates of a flat shape."""
    return product(*map(range, shape))


def inverse(layout, offset, shape):
    """Return the coordinate with that offset, through the algebra alone."""
    return cute.idx2crd(cute.left_inverse(layout)(offset), shape)


def ceil_div(a, b):
    return -(-a // b)


# -- C02, C03, C06: matrices and pitch-linear memory


@given(extents, extents, paddings)
def test_row_major_offset_inverse_and_capacity(rows, columns, padding):
    ldm = columns + padding
    layout = cute.row_major((rows, columns), ldm)
    assert str(layout) == f"({rows},{columns}):({ldm},1)"
    for r, c in grid(rows, columns):
        offset = r * ldm + c
        assert layout(r, c) == offset
        assert inverse(layout, offset, (rows, columns)) == (offset // ldm, offset % ldm) == (r, c)
    assert cute.capacity(layout) == rows * ldm


@given(extents, extents, paddings)
def test_column_major_offset_inverse_and_capacity(rows, columns, padding):
    ldm = rows + padding
    layout = cute.column_major((rows, columns), ldm)
    assert str(layout) == f"({rows},{columns}):(1,{ldm})"
    for r, c in grid(rows, columns):
        offset = c * ldm + r
        assert layout(r, c) == offset
        assert inverse(layout, offset, (rows, columns)) == (offset % ldm, offset // ldm) == (r, c)
    assert cute.capacity(layout) == columns * ldm


@given(extents, extents, paddings)
def test_pitch_linear_offset_inverse_and_capacity(contiguous, strided, padding):
    ldm = contiguous + padding
    layout = cute.pitch_linear((contiguous, strided), ldm)
    assert str(layout) == f"({contiguous},{strided}):(1,{ldm})"
    for c, s in grid(contiguous, strided):
        offset = c + s * ldm
        assert layout(c, s) == offset
        assert inverse(layout, offset, (contiguous, strided)) == (offset % ldm, offset // ldm)
    assert cute.capacity(layout) == strided * ldm


def test_leading_dimensions():
    assert cute.column_major((32, 32), 32)(7, 23) == 743
    assert cute.row_major((32, 32), 32)(7, 23) == 247
    assert cute.row_major((3, 4), 5)(2, 3) == 13
    assert cute.column_major((16, 9))(9, 5) == 89
    assert cute.pitch_linear((8, 4), 10)(5, 3) == 35


def test_capacity_counts_the_padding_after_the_last_line_and_cosize_does_not():
    layout = cute.row_major((3, 4), 5)
    assert cute.capacity(layout) == 3 * 5 == 15
    assert cute.cosize(layout) == 1 + max(5 * r + c for r, c in grid(3, 4)) == 14


@given(extents, extents, paddings, interleaves)
def test_capacity_is_cosize_where_nothing_is_padded_and_never_less(m, n, padding, interleave):
    shape = m, n
    for build in (cute.row_major, cute.column_major, cute.pitch_linear, cute.affine_rank_2):
        assert cute.capacity(build(shape)) == cute.cosize(build(shape)) == m * n
    for layout in (
        cute.row_major(shape, n + padding),
        cute.column_major(shape, m + padding),
        cute.row_major_interleaved(shape, interleave, (n + padding) * interleave),
        cute.column_major_interleaved(shape, interleave, (m + padding) * interleave),
        cute.pitched(shape, padding),
    ):
        assert cute.capacity(layout) >= cute.cosize(layout)


def test_leading_dimension_zero_repeats_one_row():
    bias = cute.row_major((3, 4), 0)
    assert [bias(r, c) for r, c in grid(3, 4)] == [0, 1, 2, 3] * 3


# -- C04, C05: interleaved matrices


@given(extents, extents, interleaves, paddings)
def test_row_major_interleaved_offset_inverse_and_capacity(rows, columns, i, padding):
    ldm = (columns + padding) * i
    layout = cute.row_major_interleaved((rows, columns), i, ldm)
    padded = ceil_div(rows, i) * i
    for r, c in grid(padded, columns):
        offset = (r // i) * ldm + c * i + r % i
        q = offset % ldm
        assert layout(r, c) == offset
        assert (offset // ldm * i + q % i, q // i) == (r, c)
        assert inverse(layout, offset, (padded, columns)) == (r, c)
    assert cute.capacity(layout) == ceil_div(rows, i) * ldm


@given(extents, extents, interleaves, paddings)
def test_column_major_interleaved_offset_inverse_and_capacity(rows, columns, i, padding):
    ldm = (rows + padding) * i
    layout = cute.column_major_interleaved((rows, columns), i, ldm)
    padded = ceil_div(columns, i) * i
    for r, c in grid(rows, padded):
        offset = (c // i) * ldm + r * i + c % i
        q = offset % ldm
        assert layout(r, c) == offset
        assert (q // i, offset // ldm * i + q % i) == (r, c)
        assert inverse(layout, offset, (rows, padded)) == (r, c)
    assert cute.capacity(layout) == ceil_div(columns, i) * ldm


def test_row_major_interleaved_2_packed_4x8():
    layout = cute.row_major_interleaved((4, 8), 2)
    assert layout == cute.Layout(((2, 2), 8), ((1, 16), 2))
    at = {layout(r, c): (r, c) for r, c in grid(4, 8)}
    assert [at[offset] for offset in (0, 1, 2, 3, 16)] == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)]


def test_column_major_interleaved_2_prints_1_2_4_5_3_0_6_0():
    layout = cute.column_major_interleaved((2, 3), 2)
    memory = [0] * cute.capacity(layout)
    for r, c in grid(2, 3):
        memory[layout(r, c)] = 1 + 3 * r + c
    assert memory == [1, 2, 4, 5, 3, 0, 6, 0]


# -- C07: affine layouts


@given(st.lists(st.tuples(extents, st.integers(0, 20)), min_size=1, max_size=3))
def test_affine_offset_is_the_inner_product(modes):
    shape, strides = zip(*modes, strict=True)
    layout = cute.affine_rank_n(shape, strides)
    for coord in grid(*shape):
        assert layout(*coord) == sum(c * d for c, d in zip(coord, strides, strict=True))


@given(st.lists(extents, min_size=1, max_size=4))
def test_affine_packed_is_last_mode_contiguous(shape):
    layout = cute.affine_rank_n(tuple(shape))
    assert [layout(*coord) for coord in grid(*shape)] == list(range(prod(shape)))
    assert cute.capacity(layout) == prod(shape)


def test_affine_strides_5_2():
    layout = cute.affine_rank_2((4, 3), (5, 2))
    assert cute.affine_rank_n((4, 5), (5, 2))(3, 4) == 23
    assert cute.capacity(layout) == 20  # extent 4 of stride 5, the largest
    assert cute.capacity(cute.affine_rank_2((4, 3), (2, 9))) == 27


# -- C15, C16: images and filters


@given(extents, extents, extents, extents, st.tuples(paddings, paddings, paddings))
def test_nhwc_offset_inverse_and_capacity(n, h, w, c, padding):
    s0 = c + padding[0]
    s1 = w * s0 + padding[1]
    s2 = h * s1 + padding[2]
    layout = cute.tensor_nhwc(n, h, w, c, (s0, s1, s2))
    assert str(layout) == f"({n},{h},{w},{c}):({s2},{s1},{s0},1)"
    last = (n - 1, h - 1, w - 1, c - 1)
    for i, j, k, m in [(0, 0, 0, 0), last, (n // 2, h // 2, w // 2, c // 2)]:
        offset = m + s0 * k + s1 * j + s2 * i
        assert layout(i, j, k, m) == offset
        in_image, in_row = offset % s2, offset % s2 % s1
        assert (offset // s2, in_image // s1, in_row // s0, in_row % s0) == (i, j, k, m)
    assert cute.capacity(layout) == n * s2


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (cute.tensor_nhwc, (2, 3, 4, 5)),
        (cute.tensor_ndhwc, (2, 3, 4, 5, 6)),
        (cute.filter_krsc, (2, 3, 3, 4)),
    ],
)
def test_packed_tensors_are_numpy_arrays_in_c_order(build, shape):
    layout = build(*shape)
    array = np.arange(prod(shape)).reshape(shape)
    assert all(layout(*coord) == array[coord] for coord in grid(*shape))
    assert cute.capacity(layout) == array.size
    assert inverse(layout, array.size - 1, shape) == tuple(extent - 1 for extent in shape)


def test_nhwc_and_krsc():
    assert cute.tensor_nhwc(1, 2, 3, 4)(0, 1, 2, 3) == 23
    assert cute.filter_krsc(2, 3, 3, 4)(1, 2, 2, 3) == 71
    k, r, s, c, R, S, C = 1, 2, 2, 3, 3, 3, 4
    assert c + C * (s + S * (r + R * k)) == 71


# -- C17: permutations


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_permuted_store_is_numpy_transpose_of_the_plain_store(order):
    shape = 2, 3, 4
    values = np.arange(24).reshape(shape)
    permuted_shape = tuple(shape[i] for i in order)
    plain, stored = cute.affine_rank_n(permuted_shape), np.zeros(24, int)
    # D is written at its own coordinates, through the gmem layout of the permuted tensor.
    target = cute.permuted(plain, np.argsort(order).tolist())
    for coord in grid(*shape):
        stored[target(*coord)] = values[coord]
    assert (stored.reshape(permuted_shape) == np.transpose(values, order)).all()


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_permuted_is_composition_with_a_permuting_layout(order):
    layout = cute.tensor_nhwc(2, 3, 4, 1, (2, 9, 40))[:3]
    permuting = cute.select(cute.Layout(layout.shape), order)
    result, composed = cute.permuted(layout, order), cute.composition(layout, permuting)
    assert result.shape == permuting.shape
    assert [result(i) for i in range(24)] == [composed(i) for i in range(24)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_permuted_by_the_inverse_order_is_the_layout_again(order):
    layout = cute.affine_rank_n((2, 3, 4), (20, 5, 1))
    back = np.argsort(order).tolist()
    assert cute.permuted(cute.permuted(layout, order), back) == layout
    assert cute.permuted(layout, (0, 1, 2)) == layout


def test_permuted_keeps_the_swizzle():
    tile = cute.tensor_op_multiplicand(16, 32, 32, 8)
    flipped = cute.permuted(tile, (1, 0))
    assert all(flipped(s, c) == tile(c, s) for c, s in grid(32, 8))


def matrix_of(tensor, rows, columns):
    """Return a tensor as a matrix: the modes that make up a row number, and a column number."""
    row, column = (cute.make_layout(*(tensor[i] for i in modes)) for modes in (rows, columns))
    return cute.make_layout(row, column)


def test_permute_0213_row_major_is_a_permuted_matrix():
    """CUTLASS Tensor4DPermute0213RowMajor<D1, D2>: (M/D1, D1, D2, N/D2) stored as 0, 2, 1, 3."""
    M, N, d1, d2 = 12, 10, 3, 5
    d3, ldm = N // d2, N * d1 // d2
    stored = cute.affine_rank_n((M // d1, d2, d1, d3))
    matrix = matrix_of(cute.permuted(stored, (0, 2, 1, 3)), (1, 0), (3, 2))
    for row, column in grid(M, N):
        i, j, k, m = row // d1, row % d1, column // d3, column % d3
        assert matrix(row, column) == (k + i * d2) * ldm + m + j * d3


def test_permute_20314_row_major_is_a_permuted_matrix():
    """CUTLASS Tensor5DPermute20314RowMajor<T1, T2, T3>: (T0, ..., T4) stored as 2, 0, 3, 1, 4."""
    t0, t1, t2, t3, t4 = 2, 3, 2, 5, 4
    stride = t2 * t3 * t4 // t2 * t1
    stored = cute.affine_rank_n((t2, t0, t3, t1, t4))
    matrix = matrix_of(cute.permuted(stored, (1, 3, 0, 2, 4)), (1, 0), (4, 3, 2))
    for row, column in grid(t0 * t1, t2 * t3 * t4):
        i, j = row // t1, row % t1
        k, n, m = column // t4 // t3, column // t4 % t3, column % t4
        assert matrix(row, column) == (i + k * t0) * stride + m + j * t4 + n * t1 * t4


# -- C18: attention


def test_attention_offset_is_the_sum_over_its_strides():
    layout = cute.tensor_dmhb(4, 3, 2, 2, (11, 4, 100))
    for d, m, h, b in grid(4, 3, 2, 2):
        assert layout(d, m, h, b) == b * 100 + m * 11 + h * 4 + d


def test_bmhk_and_bhmk_give_equal_results():
    B, M, H, K = 2, 3, 4, 5
    queries = np.random.default_rng(0).integers(-9, 9, (B, M, H, K))
    memories = {
        cute.tensor_bmhk(B, M, H, K): queries.ravel(),
        cute.tensor_bhmk(B, H, M, K): queries.transpose(0, 2, 1, 3).ravel(),
    }
    scores = [
        [
            sum(int(memory[q(d, i, h, b)] * memory[q(d, j, h, b)]) for d in range(K))
            for b, h, i, j in grid(B, H, M, M)
        ]
        for q, memory in memories.items()
    ]
    expected = np.einsum("bihd,bjhd->bhij", queries, queries).ravel().tolist()
    assert scores == [expected, expected]


def test_bhmk_view_of_a_bmhk_buffer_is_a_choice_of_strides():
    B, M, H, K = 2, 3, 4, 5
    view = np.zeros((B, M, H, K), np.int8).transpose(0, 2, 1, 3)  # [B][H][M][K], bytes as elements
    strides = view.strides[2], view.strides[1], view.strides[0]
    assert cute.tensor_dmhb(K, M, H, B, strides) == cute.tensor_bmhk(B, M, H, K)


# -- C19: pitched memory


def test_a_store_leaves_the_padding_untouched():
    layout = cute.pitched((5, 3), padding=3)
    memory = [None] * cute.capacity(layout)
    for column, row in grid(5, 3):
        memory[layout(column, row)] = 10 * row + column
    lines = [memory[start : start + 8] for start in (0, 8, 16)]
    assert lines == [[10 * row + c for c in range(5)] + [None] * 3 for row in range(3)]


# -- symbols, and what is refused


def test_constructors_take_symbols():
    M, K = sym("M"), sym("K")
    layout = cute.row_major((M, K))
    assert (str(layout), str(cute.capacity(layout))) == ("(M,K):(K,1)", str(cute.size(layout)))
    assert str(cute.column_major((M, K), sym("ldm"))) == "(M,K):(1,ldm)"


REFUSED = {
    "classical-shape": {
        "given (3,4,5); required: one integer for each of (rows,columns); fix: give whole": (
            lambda: cute.row_major((3, 4, 5))
        ),
        "given ((2,2),4); required: one integer for each of (contiguous,strided)": (
            lambda: cute.pitch_linear(((2, 2), 4))
        ),
        "given ((2,2),4); required: one integer for each of (extent,...)": (
            lambda: cute.affine_rank_n(((2, 2), 4))
        ),
        "given (5,6); required: one integer for each of (sM,sH,sB)": (
            lambda: cute.tensor_dmhb(1, 2, 3, 4, (5, 6))
        ),
    },
    "pitch": {
        "row_major: given ldm = 3, where one step spans 4 elements": (
            lambda: cute.row_major((3, 4), ldm=3)
        ),
        "required: at least 4, so that lines do not overlap, or 0 to repeat one line; fix: leave": (
            lambda: cute.column_major((4, 3), ldm=-4)
        ),
        "ldm = 7, where one step spans 8": lambda: cute.column_major_interleaved((4, 8), 2, 7),
        "s1 = 11, where one step spans 12": lambda: cute.tensor_nhwc(1, 2, 3, 4, (4, 11, 24)),
        "columns + padding = 4, where one step spans 5": lambda: cute.pitched((5, 3), -1),
    },
    "permutation": {
        "given order (0,0) for (2,3):(1,2); required: each mode of 0 to 1 once; fix: name every": (
            lambda: cute.permuted(cute.Layout((2, 3)), (0, 0))
        ),
        "required: each mode of 0 to 2 once": lambda: cute.permuted(cute.Layout((2, 3, 4)), (0, 1)),
    },
    "capacity": {
        "given 4:-1; required: strides of 0 or more, alone or under a swizzle of whole lines": (
            lambda: cute.capacity(cute.Layout(4, -1))
        ),
        "or under a swizzle of whole lines; fix: use cosize": (
            lambda: cute.capacity(cute.make_identity_layout((2, 3)))
        ),
        "given Sw<2,0,2> o 1 o 16:1": (
            lambda: cute.capacity(cute.ComposedLayout(cute.Swizzle(2, 0, 2), 1, cute.Layout(16)))
        ),
        "given Sw<1,2,-2> o 0 o 20:1": (
            lambda: cute.capacity(cute.ComposedLayout(cute.Swizzle(1, 2, -2), 0, cute.Layout(20)))
        ),
    },
    "extent-not-positive": {
        "given extent 0 in mode 0": lambda: cute.row_major((0, 4)),
        "given extent 0 in mode interleave": lambda: cute.row_major_interleaved((4, 4), 0),
    },
    "not-congruent": {
        "stride of the same profile": lambda: cute.affine_rank_2((4, 4), (1, 2, 3)),
    },
}


@pytest.mark.parametrize(
    ("code", "text", "build"),
    [(code, *case) for code, cases in REFUSED.items() for case in cases.items()],
)
def test_refusals_teach(code, text, build):
    with pytest.raises(LayoutError, match=re.escape(text)) as refused:
        build()
    assert refused.value.code == code


@pytest.mark.parametrize("wrong", [True, 2.0, "4", None])
def test_extents_are_integers(wrong):
    with pytest.raises(LeafTypeError, match="integers"):
        cute.row_major((3, wrong))


def test_numpy_integers_are_normalised():
    layout = cute.row_major((np.int64(3), np.int32(4)), np.int16(5))
    assert layout == cute.Layout((3, 4), (5, 1))
    assert {type(leaf) for leaf in (*layout.shape, *layout.stride)} == {int}
