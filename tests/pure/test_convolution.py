"""The record of a convolution, which lines it reads, and its formulas, against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cute_py as cute
from cute_py.kernels.convolution import (
    ConvProblem,
    Sizes,
    reference,
    reference_dgrad,
    reference_wgrad,
)
from tests.kernel_refusals import raised


def seven_loops(x, f, conv):
    """What a convolution is: nothing but the definition."""
    (N, H, W, _C), (K, R, S, own) = x.shape, f.shape
    P, Q = conv.extents(H, W)
    (top, _bottom), (left, _right) = conv.pads
    (sh, sw), (dh, dw) = conv.stride, conv.dilation
    y = np.zeros((N, P, Q, K), np.int64)
    for n in range(N):
        for p in range(P):
            for q in range(Q):
                for k in range(K):
                    first = k // (K // conv.groups) * own
                    for r in range(R):
                        for s in range(S):
                            for c in range(own):
                                h, w = p * sh - top + r * dh, q * sw - left + s * dw
                                if 0 <= h < H and 0 <= w < W:
                                    at = (R - 1 - r, S - 1 - s) if conv.flip else (r, s)
                                    y[n, p, q, k] += x[n, h, w, first + c] * f[k, *at, c]
    return y


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
paddings = st.one_of(st.integers(0, 2), st.tuples(st.integers(0, 2), st.integers(0, 2)))


@st.composite
def problems(draw):
    """A small convolution with images and filters of integers."""
    groups = draw(st.integers(1, 2))
    conv = ConvProblem(
        draw(pairs), (draw(paddings), draw(paddings)), draw(pairs), draw(pairs), groups,
        draw(st.booleans()),
    )  # fmt: skip
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    least = [(f - 1) * d + 1 for f, d in zip(conv.filter, conv.dilation, strict=True)]
    H, W = (n + draw(st.integers(0, 2)) for n in least)
    C, K = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    x = rng.integers(-4, 5, (draw(st.integers(1, 2)), H, W, C))
    return conv, x, rng.integers(-4, 5, (K, *conv.filter, C // groups)), rng


@settings(max_examples=12)
@given(problems())
def test_the_formula_is_that_of_seven_loops(problem):
    conv, x, f, _rng = problem
    np.testing.assert_array_equal(reference(x, f, conv), seven_loops(x, f, conv))


@given(problems())
def test_gradients_are_adjoint_to_the_convolution(problem):
    """For integers, to the bit: dy * conv(x, f) adds up to what dgrad * x and wgrad * f do, with
    any x and f in the place of those that dgrad and wgrad have read.
    """
    conv, x, f, rng = problem
    y = reference(x, f, conv)
    dy = rng.integers(-4, 5, y.shape)
    assert (dy * y).sum() == (reference_dgrad(dy, f, x.shape, conv) * x).sum()
    assert (dy * y).sum() == (reference_wgrad(dy, x, conv) * f).sum()


@given(problems())
def test_lines_are_those_that_the_definition_reads(problem):
    """L05: h = p * stride - pad + r * dilation; and in dgrad each line of the input meets each
    position and line of the output that reads it, once.
    """
    conv, x, f, _rng = problem
    extents, out = x.shape[1:3], conv.extents(*x.shape[1:3])
    for i in range(2):
        n, pad, d = conv.filter[i], conv.pads[i][0], conv.dilation[i]
        wanted = {
            (p * conv.stride[i] - pad + (n - 1 - r if conv.flip else r) * d, p, r)
            for p in range(out[i])
            for r in range(n)
        }
        lines = conv.lines()[i]
        assert {
            (p * lines.stride + lines.start + t * lines.dilation, p, t)
            for p in range(out[i])
            for t in range(lines.taps)
        } == wanted
        assert conv.filter[i] == f.shape[1 + i]
        by_class = [
            (
                a + j * conv.stride[i],
                j * x.stride + x.start + t * x.dilation,
                x.first + t * x.step,
            )
            for a, x in enumerate(conv.classes()[i])
            for j in range(extents[i])
            for t in range(x.taps)
        ]
        inside = [x for x in by_class if 0 <= x[0] < extents[i] and 0 <= x[1] < out[i]]
        assert len(set(inside)) == len(inside)
        assert set(inside) == {x for x in wanted if 0 <= x[0] < extents[i]}


def test_l05_the_coordinates_of_every_row_and_tap():
    """N1 H5 W5 R3 S3, padding 1, stride 2: row i is n, p and q; column k is r, s and c."""
    conv, C = ConvProblem((3, 3), (1, 1), (2, 2)), 2
    (P, Q), (of_h, of_w) = conv.extents(5, 5), conv.lines()
    assert (P, Q) == (3, 3)
    for i in range(P * Q):
        p, q = i % (P * Q) // Q, i % Q
        for k in range(9 * C):
            r, s = k // C // 3, k // C % 3
            h, w = p * 2 - 1 + r, q * 2 - 1 + s
            assert h == p * of_h.stride + of_h.start + r * of_h.dilation
            assert w == q * of_w.stride + of_w.start + s * of_w.dilation


def test_l08_a_problem_knows_its_product():
    conv = ConvProblem((3, 3), (1, 1), sizes=Sizes(1, 56, 56, 128, 128))
    assert (conv.P, conv.Q) == (56, 56)
    assert conv.implicit() == (56 * 56, 128, 9 * 128)
    assert conv.implicit("dgrad") == (56 * 56, 128, 9 * 128)
    assert conv.implicit("wgrad") == (128, 9 * 128, 56 * 56)
    assert conv.k_iterations(128) == 9
    assert conv.k_iterations(96) == 18
    assert conv.k_iterations(64, "wgrad") == 49
    assert conv.flops == 2 * 56 * 56 * 128 * 128 * 9
    assert conv.least_bytes((4, 4, 4)) == (2 * 56 * 56 * 128 + 128 * 9 * 128) // 2
    strided = ConvProblem((3, 3), (1, (0, 2)), (2, 3), (1, 2), 4, True, Sizes(2, 9, 9, 8, 12))
    assert str(strided).splitlines() == [
        "(2,9,9,8) * (12,3,3,2) = (2,5,3,12), padding (1,(0,2)), stride (2,3), dilation (1,2), "
        "groups 4, flipped",
        "  fprop 30x3x18, dgrad 162x2x27, wgrad 3x18x30; 0.00 GFLOP",
    ]
    assert eval(repr(strided)) == strided  # of values alone


def test_c15_c16_images_and_filters_are_packed():
    """c + C * (w + W * (h + H * n)), and the same of k, r, s and c: `Layout`s of the arrays."""
    x = cute.make_tensor(np.zeros((1, 2, 3, 4), np.float16))
    f = cute.make_tensor(np.zeros((2, 3, 3, 4), np.float16))
    assert x.layout((0, 1, 2, 3)) == 23
    assert f.layout((1, 2, 2, 3)) == 71


@pytest.mark.parametrize("wrong", [{"stride": (0, 1)}, {"dilation": (1, 0)}, {"groups": 0}])
def test_numbers_that_no_convolution_has_are_refused(wrong):
    assert raised(lambda: ConvProblem((3, 3), **wrong)).code == "conv-problem"
    assert raised(lambda: ConvProblem((3, 3), (0, (1, -1)))).code == "conv-problem"
