"""Kernels whose main loop runs over a part of K, or gathers: stream-K, grouped, convolution."""

import ast
import importlib
import inspect
from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import _
from cute_py.kernels import convolution, grouped, stream_k
from cute_py.kernels.config import choose
from cute_py.kernels.convolution import ConvProblem
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.kernels.implicit_gemm import Im2col, conv2d_fprop
from cute_py.plan.ops import LdMatrix
from tests.emulated.kernel_data import operands, poisoned, reference
from tests.sampling import fewer, quick

ORDERS = ("forward", "reversed", 0)


def code_lines(*things):
    """Count the lines of code of functions, classes and modules: no docstrings, comments or blank
    lines.
    """
    found = set()
    for thing in things:
        text = dedent(inspect.getsource(getattr(thing, "function", thing)))
        tree = ast.parse(text)
        texts = [
            node.body[0]
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
            and ast.get_docstring(node)
        ]
        hidden = {n for x in texts for n in range(x.lineno, x.end_lineno + 1)}
        for n, line in enumerate(text.splitlines(), 1):
            if n not in hidden and line.strip() and not line.strip().startswith("#"):
                found.add((thing, n))
    return len(found)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("gemm_09_tma_wgmma", 60),
        ("gemm_10_warp_specialised", 80),
        ("gemm_11_persistent", 120),
        ("gemm_12_ping_pong", 120),
    ],
)
def test_lessons_for_hopper_are_short_and_stand_alone(name, most):
    """The whole file, counted as kernels are; nothing of other kernels."""
    lesson = importlib.import_module(f"cute_py.kernels.{name}")
    assert 30 < code_lines(lesson) <= most
    found = list(ast.walk(ast.parse(inspect.getsource(lesson))))
    modules = [x.module for x in found if isinstance(x, ast.ImportFrom)]
    modules += [name.name for x in found if isinstance(x, ast.Import) for name in x.names]
    assert {*modules} <= {"__future__", "typing", "numpy", "cute_py"}


@pytest.mark.parametrize(
    ("most", "things"),
    [
        (50, (stream_k.gemm_stream_k, stream_k.shares, stream_k.owned)),
        (
            60,
            (
                grouped.gemm_grouped,
                grouped._number,
                grouped._matrix,
                grouped._at_least,
                grouped._below,
            ),
        ),
        (60, (conv2d_fprop,)),
        (60, (Im2col,)),
    ],
)
def test_kernels_are_short(most, things):
    assert code_lines(*things) <= most


# -- stream-K


def streamed(shape, blocks, config=None, order="forward", launches=2):
    a, b = operands(np.random.default_rng(0), shape, "f16")
    c = poisoned(shape[:2], np.float32)
    config = config or choose(a, b, (64, 64))
    partial, flags = np.full((blocks, 64 * 64), np.nan, np.float32), np.zeros(blocks, np.int32)
    plan = cute.trace(stream_k.gemm_stream_k, a, b, c, partial, flags, config)
    for _launch in range(launches):  # the flags are zero again after the first
        c.fill(np.nan)
        cute.emulate(plan, a, b, c, partial, flags, order=order)
        np.testing.assert_array_equal(c, reference(a, b))
        assert not flags.any()


FEW = [(1, "reversed"), (5, 0), (12, "forward")]


@pytest.mark.parametrize(("blocks", "order"), quick(FEW, (1, 2, 5, 12), ORDERS))
def test_blocks_share_all_tiles_of_k_evenly(blocks, order):
    streamed((66, 40, 104), blocks, order=order, launches=1)


@pytest.mark.slow
@fewer(5)
@given(st.integers(1, 150), st.integers(1, 80), st.integers(1, 30), st.integers(1, 40))
def test_any_number_of_blocks_computes_any_product(m, n, k, blocks):
    streamed((m, n, 8 * k), blocks)


def test_the_sums_of_stream_k_are_added_in_the_order_of_k():
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(64, 128)).astype(np.float16) for _ in range(2))
    c, config = poisoned((64, 64), np.float32), choose(a, b, (64, 64))

    def of(part, blocks):
        partial, flags = np.zeros((blocks, 64 * 64), np.float32), np.zeros(blocks, np.int32)
        stream_k.gemm_stream_k(a[:, part].copy(), b[:, part].copy(), c, partial, flags, config)
        return c.copy()

    parts = [of(slice(64 * i, 64 * i + 64), 1) for i in range(2)]
    np.testing.assert_array_equal(of(slice(None), 2), parts[0] + parts[1])


def test_a_kernel_that_does_not_expect_warps_along_k_refuses_them():
    a, b = operands(np.random.default_rng(0), (64, 64, 64), "f16")
    config = replace(choose(a, b, (64, 64)), tile=(64, 64, 64), warps=(2, 2, 2))
    c, partial, flags = np.zeros((64, 64), np.float32), np.zeros((2, 4096)), np.zeros(2, np.int32)
    for kernel, arguments in (
        (gemm_multistage, (a, b, c)),
        (stream_k.gemm_stream_k, (a, b, c, partial.astype(np.float32), flags)),
    ):
        with pytest.raises(cute.CuteError, match="one warp along K") as caught:
            kernel(*arguments, config)
        assert caught.value.code == "gemm-config"


# -- grouped


def grouped_products(sizes, blocks, order="forward"):
    rng = np.random.default_rng(0)
    sizes = np.array(sizes, np.int32).reshape(-1, 3)
    areas = np.array([(m * k, n * k, m * n) for m, n, k in sizes])
    starts = np.zeros((len(sizes) + 1, 3), np.int32)
    starts[1:] = np.cumsum(areas, 0)
    a, b = (rng.integers(-4, 5, max(starts[-1, i], 8)).astype(np.float16) for i in range(2))
    c = np.full(max(starts[-1, 2], 1), np.nan, np.float32)
    config = choose(np.zeros((8, 8), a.dtype), np.zeros((8, 8), a.dtype), (64, 64))
    arguments = a, b, c, sizes, starts[:-1].copy()
    plan = cute.trace(grouped.gemm_grouped, *arguments, blocks, config)
    cute.emulate(plan, *arguments, order=order)
    for (m, n, k), start, end in zip(sizes, starts[:-1], starts[1:], strict=True):
        x, y, z = (v[s:e].astype(np.float32) for v, s, e in zip((a, b, c), start, end, strict=True))
        np.testing.assert_array_equal(z.reshape(m, n), x.reshape(m, k) @ y.reshape(n, k).T)


@pytest.mark.parametrize("order", ORDERS)
def test_groups_have_sizes_of_their_own(order):
    grouped_products([(70, 40, 72), (1, 130, 8), (0, 8, 8), (64, 64, 0), (9, 3, 200)], 4, order)


extents = st.sampled_from([0, 1, 7, 64, 65])


@pytest.mark.slow
@fewer(5)
@given(
    st.lists(st.tuples(extents, extents, st.sampled_from([0, 8, 32, 40])), min_size=1, max_size=5),
    st.integers(1, 6),
)
def test_any_sizes_are_multiplied_by_any_number_of_blocks(sizes, blocks):
    grouped_products(sizes, blocks)


def test_sizes_that_differ_between_threads_are_found():
    """The promise that all threads of a block read the same size is checked."""

    @cute.kernel
    def broken(sizes, out):
        cute.launch(grid=1, block=64)
        count = cute.as_int(sizes[cute.thread_idx() // 32], 0, uniform="block")
        for _k in cute.range(count):
            cute.syncthreads()
        out[cute.thread_idx()] = 1.0

    out = np.zeros(64, np.float32)
    broken(np.array([3, 3], np.int32), out)
    with pytest.raises(cute.CuteError):
        broken(np.array([3, 2], np.int32), out)


# -- convolution


class Analytic(Im2col):
    """The same tiles without a table: the filter position is computed from the number of a tile."""

    def __init__(self, X, Y, conv, g2s, shared, block):
        super().__init__(X, Y, conv, g2s, shared, block)
        self.conv = conv

    step = None

    def begin(self, tile):
        (_R, S), (dh, dw) = self.conv.filter, [x.dilation for x in self.conv.lines()]
        position, c = tile % self.positions, tile // self.positions * self.depth
        r, s = position // S, position % S
        _by_n, by_h, by_w, _unit = self.X.stride
        self.at = r * dh * by_h + s * dw * by_w + c
        self.bit = cute.where(c + self.column < self.X.shape[3], 1 << position, 0)

    def fill(self, stage):
        for i, place in enumerate(self.places):
            row = cute.make_tensor(self.X.data.moved(place + self.at), cute.Layout(self.width))
            there = (cute.as_int(self.inside[i]) & self.bit) != 0
            cute.copy(self.g2s, row, self.stored[_, i, 0, stage], pred=(there,))


PROBLEMS = [
    (ConvProblem((1, 1)), (1, 1, 1, 32), 8),
    (ConvProblem((3, 3), (1, 1)), (2, 7, 9, 32), 40),
    (ConvProblem((3, 2), (2, 0), (2, 1), (1, 3)), (1, 10, 11, 64), 70),
    (ConvProblem((1, 7), (0, 3), (3, 2)), (3, 5, 8, 32), 8),
    (ConvProblem((5, 5), (4, 4), (1, 1), (2, 2)), (1, 6, 6, 32), 16),
    (ConvProblem((3, 2), ((0, 2), 1), (1, 2), (2, 1), flip=True), (1, 7, 6, 32), 16),
]


def convolved(conv, shape, filters, order, iterator=Im2col):
    rng = np.random.default_rng(0)
    (N, H, W, C), (R, S) = shape, conv.filter
    x = rng.integers(-4, 5, shape).astype(np.float16)
    f = rng.integers(-4, 5, (filters, R, S, C)).astype(np.float16)
    P, Q = conv.extents(H, W)
    y, flat = poisoned((N, P, Q, filters), np.float32), f.reshape(filters, -1)
    config = choose(flat, flat, (64, 64))
    arrays = x, flat, y
    plan = cute.trace(conv2d_fprop, *arrays, conv, config, iterator)
    cute.emulate(plan, *arrays, order=order)
    wanted = convolution.reference(x, f, conv)
    np.testing.assert_array_equal(y, wanted)
    return plan


@pytest.mark.parametrize("iterator", [Im2col, Analytic])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_a_convolution_is_a_product_of_gathered_tiles(problem, iterator):
    order = ORDERS[PROBLEMS.index(problem) % 3]
    plan = convolved(*problem, order, iterator)
    assert any(isinstance(op, LdMatrix) for op in plan.ops)


def test_a_convolution_of_bytes_has_wider_vectors():
    conv, rng = ConvProblem((3, 3), (1, 1)), np.random.default_rng(0)
    x = rng.integers(-4, 5, (1, 6, 5, 64)).astype(np.int8)
    f = rng.integers(-4, 5, (24, 3, 3, 64)).astype(np.int8)
    y, flat = np.full((1, 6, 5, 24), -1, np.int32), f.reshape(24, -1)
    config = choose(flat, flat, (64, 64))
    assert config.a.vector == 16
    conv2d_fprop(x, flat, y, conv, config)
    np.testing.assert_array_equal(y, convolution.reference(x, f, conv))


@pytest.mark.parametrize("channels", [8, 40, 72])
def test_channels_need_not_fill_whole_tiles(channels):
    convolved(ConvProblem((2, 3), (1, 1), (2, 1)), (2, 5, 7, channels), 12, "forward")


def test_a_filter_of_other_channels_is_refused():
    x, y = np.zeros((1, 4, 4, 8), np.float16), np.zeros((1, 4, 4, 8), np.float32)
    flat = np.zeros((8, 64), np.float16)
    with pytest.raises(cute.CuteError) as caught:
        conv2d_fprop(x, flat, y, ConvProblem((3, 3), (1, 1)), choose(flat, flat, (64, 64)))
    assert caught.value.code == "plan-requirement"


def test_a_convolution_reads_a_slice_of_the_activations():
    conv, rng = ConvProblem((3, 3)), np.random.default_rng(0)
    whole = rng.integers(-4, 5, (2, 9, 8, 96)).astype(np.float16)
    x, f = whole[:, 1:8, 2:8, 32:64], rng.integers(-4, 5, (8, 3, 3, 32)).astype(np.float16)
    y, flat = poisoned((2, 5, 4, 8), np.float32), f.reshape(8, -1)
    config = choose(flat, flat, (64, 64))
    conv2d_fprop(x, flat, y, conv, config)
    np.testing.assert_array_equal(y, convolution.reference(x, f, conv))


@pytest.mark.parametrize("order", ORDERS)
def test_a_convolution_is_exact_in_any_order(order):
    convolved(ConvProblem((3, 3), (1, 1)), (1, 8, 9, 64), 72, order)
