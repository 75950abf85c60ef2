"""Convolutions of arrays on the emulator with all checks, exact on integers."""

import importlib.util
import inspect
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cute_py as cute
from cute_py.kernels import conv_gathered, gathered, implicit_gemm
from cute_py.kernels.config import choose_config
from cute_py.kernels.convolution import ConvProblem, reference
from cute_py.kernels.epilogue import LinearCombination
from cute_py.ops import conv2d, conv2d_dgrad, conv2d_wgrad
from tests.kernel_refusals import raised
from tests.operators import Guarded
from tests.sampling import pairwise

OF = {"fprop": conv2d, "dgrad": conv2d_dgrad, "wgrad": conv2d_wgrad}
WIDE = {"f16": "f32", "bf16": "f32", "tf32": "f32", "f32": "f32", "s8": "s32"}


def integers(rng, kind, *shape):
    """Small integers of a type, within poisoned memory."""
    held = "f32" if kind == "tf32" else kind
    return Guarded(rng.integers(-4, 5, shape).astype(cute.dtype(held).numpy), rng).array


def check(of, kind, x_shape, w_shape, config=None, **options):
    """Compute one of the three, and compare it with the reference to the bit."""
    rng = np.random.default_rng([*x_shape, *w_shape])
    x, w = integers(rng, kind, *x_shape), integers(rng, kind, *w_shape)
    shape = conv2d.operator.problem.reference(x, w, **options).shape
    dy = integers(rng, kind, *shape)
    given, more = {"fprop": ({"x": x, "w": w}, {}), "dgrad": ({"dy": dy, "w": w},
        {"x_shape": x_shape}), "wgrad": ({"dy": dy, "x": x}, {"w_shape": w_shape})}[of]  # fmt: skip
    reference = OF[of].operator.problem.reference
    wanted = reference(**{k: v.astype(float) for k, v in given.items()}, **more, **options)
    held = {k: cute.typed(v, "tf32") for k, v in given.items()} if kind == "tf32" else given
    how = {"out_dtype": WIDE[kind], "config": config, "checks": True}
    found = OF[of](**held, **more, **options, **how)
    np.testing.assert_array_equal(found, wanted)


KINDS = ("fprop", "dgrad", "wgrad")
TYPES = ("f16", "bf16", "f32", "tf32", "s8")
FILTERS = ((1, 1), (3, 3), (2, 5), (7, 7), (31, 1))
STRIDES = (1, 2, (3, 1))
PADDINGS = (0, 1, (2, 0), ((1, 3), (0, 2)), "same")
DILATIONS = (1, (1, 2))
GROUPS = (1, 2, 4)
FLIPS = ("cross_correlation", "convolution")
CHANNELS = ((8, 16), (4, 12), (16, 4), (72, 40))
SPLITS = (None, "split=stream:3", "split=serial:2")
AXES = KINDS, TYPES, FILTERS, STRIDES, PADDINGS, DILATIONS, GROUPS, FLIPS, CHANNELS, SPLITS
ROWS = pairwise(*AXES)


def case(row):
    """Check a row: images as small as its filter allows."""
    of, kind, (R, S), stride, padding, dilation, groups, mode, (C, K), split = row
    if kind == "s8" and of != "fprop":
        kind = "f16"
    if (R, S) == (31, 1) and C > 16:
        C, K = 8, 8
    (_dh, dw) = dilation if isinstance(dilation, tuple) else (1, 1)
    H, W = max(R + 1, 4), max((S - 1) * dw + 2, 5)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    plain = (R, S) == (1, 1) and stride == 1 and padding in (0, "same") and groups == 1
    config = None if plain else split
    check(of, kind, (2, H, W, C), (K, R, S, C // groups), config, mode=mode, **options)


def is_cheap(row):
    _of, kind, (R, S), *_rest, (C, K), _split = row
    return R * S <= 10 and C * K <= 128 and kind not in ("tf32", "f32")


QUICK = [x for x in ROWS if is_cheap(x)][:5]


@pytest.mark.parametrize("row", QUICK, ids=str)
def test_small_problems_equal_the_definition(row):
    case(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_two_options_meet(row):
    case(row)


def quick_first(rows, count):
    """Mark all but the first rows as slow."""
    return [
        pytest.param(x, marks=pytest.mark.slow if i >= count else ()) for i, x in enumerate(rows)
    ]


whole = st.integers


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_problem_equals_the_definition(data):
    def draw(*strategies):
        return tuple(data.draw(x) for x in strategies)

    of, kind = draw(st.sampled_from(KINDS), st.sampled_from(("f16", "bf16", "f32", "tf32")))
    R, S, sh, sw, dh, dw = draw(*[whole(1, 4)] * 2, *[whole(1, 3)] * 2, *[whole(1, 2)] * 2)
    pads = draw(*[draw_pair()] * 2)
    groups = data.draw(st.sampled_from((1, 1, 2, 3)))
    N, H, W = draw(whole(1, 2), *[whole(n, 9) for n in ((R - 1) * dh + 1, (S - 1) * dw + 1)])
    C, K = (groups * n for n in draw(*[st.sampled_from((1, 3, 4, 8, 24))] * 2))
    mode = data.draw(st.sampled_from(FLIPS))
    options = {"stride": (sh, sw), "padding": pads, "dilation": (dh, dw), "groups": groups}
    check(of, kind, (N, H, W, C), (K, R, S, C // groups), mode=mode, **options)


def draw_pair():
    return st.tuples(whole(0, 3), whole(0, 3))


# -- Hopper: TMA in im2col mode

HOPPER = [  # of, schedule, stride, padding, dilation, mode
    ("fprop", "cooperative", 1, 1, 1, "cross_correlation"),
    ("fprop", "pingpong", 2, ((1, 2), (0, 1)), 1, "convolution"),
    ("dgrad", "cooperative", 1, (1, 2), (1, 2), "cross_correlation"),
    ("dgrad", "pingpong", 1, 1, 1, "convolution"),
    ("fprop", "cooperative", (3, 1), 2, (2, 1), "cross_correlation"),
    ("fprop", "pingpong", 2, (0, 1), 1, "convolution"),
    ("dgrad", "cooperative", 1, ((0, 2), (1, 0)), 1, "cross_correlation"),
    ("fprop", "cooperative", 2, "same", 1, "cross_correlation"),
]


@pytest.mark.parametrize("row", quick_first(HOPPER, 2), ids=str)
def test_hopper_equals_the_definition(row):
    of, schedule, stride, padding, dilation, mode = row
    config = f"schedule={schedule},tile=64x64x64,stages=3"
    options = {"stride": stride, "padding": padding, "dilation": dilation, "mode": mode}
    check(of, "f16", (1, 8, 7, 72), (72, 3, 3, 72), config, **options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bf16", "tf32", "s8"])
def test_hopper_multiplies_other_types(kind):
    check("fprop", kind, (1, 6, 7, 32), (32, 3, 3, 32), "schedule=cooperative", padding=1)


REFUSED = {
    "groups": {"groups": 2},
    "a step of 9": {"stride": 9, "padding": 4},
}


@pytest.mark.parametrize("why", REFUSED)
def test_hopper_refuses_what_tma_does_not_read(why):
    groups = REFUSED[why].get("groups", 1)
    x, w = np.zeros((1, 9, 9, 16), np.float16), np.zeros((8, 3, 3, 16 // groups), np.float16)
    call = lambda: conv2d(x, w, config="schedule=cooperative", **REFUSED[why])  # noqa: E731
    assert raised(call).code == "ops-family"


# -- planted faults

CONV = ConvProblem((3, 3), (1, 1))


# each is one edit of the kernel
PLANTED = {
    "no test of columns": (
        "(a.line + b.line < H) & (a.column + b.column < W)",
        "a.line + b.line < H",
    ),
    "no test of lines": (
        "(a.line + b.line < H) & (a.column + b.column < W)",
        "a.column + b.column < W",
    ),
    "no test of images": ('n < self.X.shape[0].to("u32")', 'n < self.X.shape[0].to("u32") + 1'),
    "the other sign of padding": (
        "q * of_w.stride + of_w.start % WORD",
        "q * of_w.stride - of_w.start % WORD",
    ),
    "a place that is off by one line": ("(p_ * of_h.stride + of_h.start)", "(p_ * of_h.stride)"),
    "channels of the next tap": ("position * C, 0,", "position * C + width, 0,"),
}


def convolved(module):
    """Return what a kernel makes of 3x3 filters on images of 5x6, and what is right."""
    rng, (N, H, W, C), K = np.random.default_rng(0), (1, 5, 6, 16), 8
    x, f = integers(rng, "f16", N, H, W, C), integers(rng, "f16", K, 9 * C)
    d = np.full((N * H * W, K), np.nan, np.float32)
    config = choose_config(len(d), K, 9 * C, "f16")
    rest = 1.0, 0.0, H, W, CONV.lines(), config, LinearCombination()
    plan = cute.trace(module.planted, x, f, None, None, d, *rest)
    cute.emulate(plan, x, f, d, *rest[:4])
    return d, reference(x, f.reshape(K, 3, 3, C), CONV).reshape(d.shape)


def edited(old, new, folder, monkeypatch):
    """The module of the kernel with an edit; the kernel has another name."""
    kernel, iterator = map(inspect.getsource, (conv_gathered, gathered))
    assert old in iterator
    start = kernel.index("EACH = ")
    text = kernel[:start] + iterator.partition('"""\n\n')[2].partition("import annotations\n")[2]
    text += kernel[start:].replace("def conv_gathered(", "def planted(")
    text = text.replace(old, new)
    file = folder / "planted.py"
    file.write_text(text.replace("if __name__", "if False and __name__"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("planted", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "planted", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(name, tmp_path, monkeypatch):
    module = edited(*PLANTED[name], tmp_path, monkeypatch)
    try:
        found, wanted = convolved(module)
    except cute.CuteError:
        return  # outside of the array
    assert (found != wanted).any()


def test_without_a_fault_it_is_right(tmp_path, monkeypatch):
    np.testing.assert_array_equal(*convolved(edited("WORD", "WORD", tmp_path, monkeypatch)))


def test_groups_are_refused_by_kernels_without_them():
    x, f = np.zeros((1, 4, 4, 32), np.float16), np.zeros((8, 16), np.float16)
    y, conv = np.zeros((1, 4, 4, 8), np.float32), ConvProblem((1, 1), groups=2)
    call = lambda: implicit_gemm.conv2d_fprop(x, f, y, conv, choose_config(16, 8, 16, "f16"))  # noqa: E731
    assert raised(call).code == "kernel-argument"


# -- what a user asks for


def test_nchw_is_read_in_channels_last_and_transposed_otherwise():
    rng = np.random.default_rng(0)
    x, w = integers(rng, "f16", 2, 5, 6, 8), integers(rng, "f16", 8, 3, 3, 8)
    want = conv2d(x, w, padding=1)
    last = [y.transpose(0, 3, 1, 2) for y in (x, w)]
    found = conv2d(*last, padding=1, layout="NCHW")
    np.testing.assert_array_equal(found, want.transpose(0, 3, 1, 2))
    assert found.transpose(0, 2, 3, 1).flags.c_contiguous
    first = [np.ascontiguousarray(y) for y in last]
    np.testing.assert_array_equal(conv2d(*first, padding=1, layout="NCHW"), found)
    assert "transposed" not in conv2d.explain(*last, layout="NCHW")
    said = conv2d.explain(*first, layout="NCHW")
    assert "x: transposed first" in said
    assert "w: transposed first" in said


@pytest.mark.parametrize("split", ["", ",split=stream:4"])
def test_the_epilogue_is_that_of_gemm(split):
    rng = np.random.default_rng(0)
    x, w = integers(rng, "f16", 1, 5, 6, 8), integers(rng, "f16", 12, 3, 3, 8)
    c, bias = integers(rng, "f32", 1, 5, 6, 12), integers(rng, "f32", 12)
    named = {"padding": 1, "alpha": 2, "beta": -1, "bias": bias, "activation": "relu"}
    out = Guarded(np.zeros((1, 5, 6, 20), np.float16), rng).array[..., 4:16]
    config = f"stages=2{split}"
    assert conv2d(x, w, c, **named, out=out, config=config) is out
    wide = [y.astype(float) for y in (x, w, c)]
    wanted = conv2d.operator.problem.reference(*wide, **named)
    np.testing.assert_array_equal(out, wanted.astype(np.float16))

    def function(sums, c, bias, alpha):
        return cute.maximum(sums * alpha - c + bias, 0)

    more = {"padding": 1, "alpha": 2, "bias": bias, "epilogue": function}
    np.testing.assert_array_equal(conv2d(x, w, c, **more, config=config), out)


def test_1x1_filters_are_a_product_of_matrices():
    rng = np.random.default_rng(0)
    x, w = integers(rng, "f16", 2, 3, 4, 16), integers(rng, "f16", 8, 1, 1, 16)
    want = x.reshape(-1, 16).astype(float) @ w.reshape(8, 16).T
    np.testing.assert_array_equal(conv2d(x, w).reshape(-1, 8), want)
    assert "by cute.ops.gemm" in conv2d.explain(x, w)
    assert "by cute.ops.gemm" not in conv2d.explain(x, w, stride=2)
    rows = x[:, :, :3]  # no run of pixels
    assert "by cute.ops.gemm" not in conv2d.explain(rows, w)
    np.testing.assert_array_equal(conv2d(rows, w), conv2d(rows.copy(), w))


def test_images_of_any_strides_are_read_as_they_are():
    rng = np.random.default_rng(0)
    whole, w = integers(rng, "f16", 4, 9, 10, 24), integers(rng, "f16", 8, 3, 3, 16)
    part = whole[::2, 1::2, ::3, 8:]
    np.testing.assert_array_equal(conv2d(part, w), conv2d(part.copy(), w))
    wide = integers(rng, "f16", 8, 6, 3, 16)[:, ::2]
    np.testing.assert_array_equal(conv2d(part, wide), conv2d(part, wide.copy()))


def test_no_images_give_an_empty_result_or_zeros():
    x, w = np.zeros((0, 5, 5, 8), np.float16), np.ones((4, 3, 3, 8), np.float16)
    dy = conv2d(x, w)
    assert dy.shape == (0, 3, 3, 4)
    assert conv2d_dgrad(dy, w, x.shape).shape == x.shape
    c = np.ones(w.shape, np.float32)
    assert (conv2d_wgrad(dy, x, w.shape, c, beta=3, padding=0) == 3).all()


def test_pixels_that_no_output_reads_have_no_gradient():
    """Of 1x1 filters with stride 3, eight residue classes of nine have no tap."""
    rng = np.random.default_rng(0)
    dy, w = integers(rng, "f16", 1, 2, 3, 8), integers(rng, "f16", 8, 1, 1, 8)
    dx = conv2d_dgrad(dy, w, (1, 6, 8, 8), stride=3)
    np.testing.assert_array_equal(dx[:, ::3, ::3], conv2d_dgrad(dy, w, (1, 2, 3, 8)))
    dx[:, ::3, ::3] = 0
    assert (dx == 0).all()


def test_channels_that_are_not_contiguous_are_refused():
    x, w = np.zeros((1, 4, 4, 16), np.float16), np.zeros((4, 3, 3, 8), np.float16)
    assert raised(lambda: conv2d(x[..., ::2], w)).code == "conv-channels"


def test_a_configuration_of_products_of_their_own_is_refused():
    x, w = np.zeros((1, 4, 4, 64), np.float16), np.zeros((4, 3, 3, 64), np.float16)
    assert raised(lambda: conv2d(x, w, config="split=parallel:2")).code == "gemm-config"
