"""Kernels of 4-bit integers: shuffled weights under 16-bit activations, and a convolution."""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import conv2d_s4, w4a16
from cute_py.kernels.conv2d_s4 import nibbles
from cute_py.kernels.convolution import ConvProblem, reference
from cute_py.plan.ops import CpAsync, Load
from tests.emulated.kernel_data import poisoned
from tests.emulated.test_kernels_ranges import ORDERS, code_lines
from tests.kernel_refusals import raised
from tests.sampling import in_turn, quick


@pytest.mark.parametrize(
    ("most", "things"),
    [
        (60, (w4a16.gemm_w4a16, w4a16.fragment_order, w4a16.shuffle_weights, w4a16.choose_tile)),
        (90, (conv2d_s4.conv2d_s4, conv2d_s4.Vectors, conv2d_s4.choose_s4, conv2d_s4.nibbles)),
    ],
)
def test_kernels_are_short(most, things):
    assert code_lines(*things) <= most


# -- w4a16


def weights(n, k, group, kind="f16", seed=0):
    """Random nibbles, and scales that are powers of two, so that products are exact."""
    random = np.random.default_rng(seed)
    scales = 2.0 ** random.integers(-2, 3, (n, -(-k // group)))
    return random.integers(-8, 8, (n, k)), scales.astype(cute.dtype(kind).numpy)


def dequantized(w, scales, group):
    return w * scales.astype(np.float64).repeat(group, 1)[:, : w.shape[1]]


CONFIGS = {
    "rows": w4a16.choose_tile(16, "f16"),
    "tiles": w4a16.choose_tile(128, "f16"),
    "one warp": replace(w4a16.choose_tile(16, "f16"), tile=(16, 64, 32), warps=(1, 1)),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("n", "k", "group"), [(256, 256, 128), (70, 200, 128), (1, 40, 256)])
def test_shuffled_weights_are_found_again(name, n, k, group):
    """The inverse: where each weight and each scale is, element by element."""
    config = CONFIGS[name]
    (_m, bN, bK), (by_weight, by_scale) = config.tile, w4a16.fragment_order(config)
    w, scales = weights(n, k, group)
    words = w4a16.shuffle_weights(w, scales, group, config)
    assert words.shape == (-(-n // bN), -(-k // bK), bN * bK // 8 + bN // 2)
    cut = bN * bK // 8
    parts = cute.unpack(words[..., :cut].ravel().view(np.uint32), "s4").reshape(
        *words.shape[:2], -1
    )
    halves = words[..., cut:].copy().view(scales.dtype)
    for i in range(0, words.shape[0] * bN, 7):
        row, place = divmod(i, bN)
        for j in range(words.shape[1] * bK):
            inside = i < n and j < k
            found = parts[row, j // bK, by_weight((place, j % bK))]
            assert found == (w[i, j] if inside else 0)
        for tile in range(words.shape[1]):
            scale = halves[row, tile, by_scale(place)]
            assert scale == (scales[i, tile * bK // group] if i < n else 0)


@pytest.mark.parametrize("name", ["rows", "tiles"])
def test_every_place_is_used_once(name):
    (_m, bN, bK), orders = CONFIGS[name].tile, w4a16.fragment_order(CONFIGS[name])
    for order, size in zip(orders, (bN * bK, bN), strict=True):
        assert sorted(order(i) for i in range(size)) == list(range(size))


def multiplied(shape, group, blocks, config, kind, order):
    (m, n, k), random = shape, np.random.default_rng(1)
    a = random.integers(-4, 5, (m, k)).astype(cute.dtype(kind).numpy)
    w, scales = weights(n, k, group, kind)
    d = poisoned((m, n), np.float32)
    partial = poisoned((blocks, config.tile[0] * config.tile[1]), np.float32)
    flags = np.zeros(blocks, np.int32)
    arrays = a, w4a16.shuffle_weights(w, scales, group, config), d, partial, flags
    plan = cute.trace(w4a16.gemm_w4a16, *arrays, config)
    cute.emulate(plan, *arrays, order=order)
    np.testing.assert_array_equal(d, a.astype(np.float64) @ dequantized(w, scales, group).T)
    assert not flags.any()
    return plan


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("shape", "group", "blocks", "kind"),
    [
        ((16, 256, 256), 128, 3, "bf16"),
        ((10, 200, 520), 128, 5, "f16"),
        ((1, 7, 8), 128, 1, "bf16"),
        ((16, 128, 256), 256, 7, "f16"),
    ],
)
def test_a_few_rows_times_weights_of_4_bits(shape, group, blocks, kind, order):
    multiplied(shape, group, blocks, w4a16.choose_tile(shape[0], kind), kind, order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("shape", "group", "blocks", "kind"),
    [((130, 100, 136), 32, 3, "f16"), ((70, 128, 64), 64, 1, "bf16")],
)
def test_many_rows_times_weights_of_4_bits(shape, group, blocks, kind, order):
    multiplied(shape, group, blocks, w4a16.choose_tile(shape[0], kind), kind, order)


def test_weights_move_16_bytes_at_a_time():
    plan = multiplied((16, 128, 128), 128, 1, CONFIGS["rows"], "f16", "forward")
    copies = [op.src.vector_bits for op in plan.ops if isinstance(op, CpAsync)]
    reads = [op for op in plan.ops if isinstance(op, Load) and op.src.dtype.name == "s4"]
    assert set(copies) == {128}
    assert {op.src.vector_bits for op in reads} == {128}


def test_scaled_weights_are_rounded_to_the_type_of_a():
    config, random = w4a16.choose_tile(16), np.random.default_rng(0)
    kind = cute.dtype("bf16").numpy
    w, scales = random.integers(-8, 8, (128, 128)), random.random((128, 1)).astype(kind)
    a, d = np.eye(16, 128).astype(kind), poisoned((16, 128), np.float32)
    partial, flags = np.zeros((1, 16 * 128), np.float32), np.zeros(1, np.int32)
    words = w4a16.shuffle_weights(w, scales, 128, config)
    w4a16.gemm_w4a16(a, words, d, partial, flags, config)
    np.testing.assert_array_equal(d, (w * scales.astype(float)).astype(kind).astype(float).T[:16])


def test_what_does_not_fit_the_order_of_the_weights_is_refused():
    w, scales = weights(128, 128, 64)
    config = CONFIGS["rows"]
    group = raised(lambda: w4a16.shuffle_weights(w, scales, 64, config))
    tile = raised(lambda: w4a16.fragment_order(replace(config, warps=(1, 4))))
    wide = raised(lambda: w4a16.shuffle_weights(w, scales.astype(np.float32), 128, config))
    other = raised(lambda: w4a16.shuffle_weights(w, scales, 128, w4a16.choose_tile(16, "bf16")))
    assert "scales of bf16" in str(other)
    assert {error.code for error in (group, tile, wide, other)} == {"gemm-config"}


def test_activations_of_another_type_than_the_weights_are_for_are_refused():
    w, scales = weights(128, 128, 128)
    words = w4a16.shuffle_weights(w, scales, 128, CONFIGS["rows"])
    a, d, partial = (np.zeros(n, np.float32) for n in ((16, 128), (16, 128), (1, 2048)))
    arrays = a.astype(cute.dtype("bf16").numpy), words, d, partial, np.zeros(1, np.int32)
    error = raised(lambda: w4a16.gemm_w4a16(*arrays, CONFIGS["rows"]))
    assert "bf16" in str(error)


@pytest.mark.parametrize(("kind", "other"), [("f16", "bf16"), ("bf16", "f16")])
def test_words_with_scales_of_another_type_are_refused(kind, other):
    """Scales of 16 bits: read as the other type they would be wrong numbers."""
    config = w4a16.choose_tile(16, kind)
    w, scales = np.ones((128, 128), int), np.ones((128, 1), cute.dtype(kind).numpy)
    words = w4a16.shuffle_weights(w, scales, 128, config)
    d, partial = (np.zeros(n, np.float32) for n in ((16, 128), (1, 2048)))
    a, flags = np.ones((16, 128), np.float32), np.zeros(1, np.int32)
    config = w4a16.choose_tile(16, other)
    of_other = a.astype(cute.dtype(other).numpy)
    error = raised(lambda: w4a16.gemm_w4a16(of_other, words, d, partial, flags, config))
    assert error.code == "gemm-config"
    assert f"those of shuffle_weights for {other}" in str(error)


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [((16, 14336, 4096), 132), ((16, 4096, 14336), 132), ((1, 130, 520), 10), ((17, 128, 128), 2)],
)
def test_each_multiprocessor_has_a_block_where_there_are_tiles(shape, blocks):
    assert w4a16.choose_blocks(CONFIGS["rows"], *shape, 132) == blocks


def test_words_for_another_tile_are_refused():
    w, scales = weights(128, 128, 128)
    words = w4a16.shuffle_weights(w, scales, 128, CONFIGS["tiles"])
    a, d, partial = (np.zeros(shape, np.float32) for shape in ((16, 128), (16, 128), (1, 2048)))
    arrays = a.astype(np.float16), words, d, partial, np.zeros(1, np.int32)
    error = raised(lambda: w4a16.gemm_w4a16(*arrays, CONFIGS["rows"]))
    assert error.code == "plan-requirement"


# -- convolution of nibbles

TILE = (64, 64, 128)
PROBLEMS = [
    (ConvProblem((1, 1)), (1, 3, 5, 32), 8),
    (ConvProblem((3, 3), (1, 1), (2, 2)), (1, 5, 5, 32), 16),
    (ConvProblem((3, 2), (2, 0), (2, 1), (1, 3)), (2, 7, 8, 160), 70),
    (ConvProblem((1, 7), (0, 3), (3, 2)), (3, 5, 8, 128), 2),
    (ConvProblem((6, 6), (5, 5), (1, 1), (1, 1)), (1, 3, 4, 64), 10),
]


def convolved(conv, shape, filters, order="forward", alpha=2.0**-5, beta=None):
    random = np.random.default_rng(0)
    x, f = random.integers(-8, 8, shape), random.integers(-8, 8, (filters, *conv.filter, shape[3]))
    y = np.full((shape[0], *conv.extents(*shape[1:3]), filters // 2), 0x77, np.uint8)
    z = random.integers(-8, 8, (*y.shape[:3], filters))
    source = None if beta is None else nibbles(z)
    arrays = nibbles(x), nibbles(f), source, cute.typed(y, "s4", packed=True)
    scales, config = (alpha, beta or 0.0), conv2d_s4.choose_s4(TILE)
    plan = cute.trace(conv2d_s4.conv2d_s4, *arrays, *scales, conv, config)
    cute.emulate(plan, *[x for x in arrays if x is not None], *scales, order=order)
    exact = reference(x, f, conv)
    wanted = np.clip(np.rint(exact * alpha + z * scales[1]), -8, 7)
    np.testing.assert_array_equal(cute.unpack(y.ravel(), "s4"), wanted.ravel())
    return wanted, plan


@pytest.mark.parametrize(
    ("problem", "flip"),
    quick(in_turn(PROBLEMS, (False, True)), PROBLEMS, (False, True)),
    ids=str,
)
def test_a_convolution_of_nibbles_is_exact(problem, flip):
    conv, *sizes = problem
    order = ORDERS[PROBLEMS.index(problem) % 3]
    convolved(replace(conv, flip=flip), *sizes, order)


@pytest.mark.parametrize("order", ORDERS)
def test_a_convolution_of_nibbles_is_exact_in_any_order(order):
    convolved(ConvProblem((3, 3), (1, 1)), (1, 6, 7, 96), 72, order)


def test_a_source_is_added():
    convolved(ConvProblem((3, 3), (1, 1)), (1, 5, 6, 32), 72, 0, alpha=2.0**-6, beta=-0.5)


def test_sums_are_saturated():
    wanted, _plan = convolved(ConvProblem((3, 3), (1, 1)), (1, 5, 5, 64), 16, alpha=1.0)
    assert {-8, 7} <= set(wanted.ravel())


def test_nibbles_go_through_all_memories_unchanged():
    """A filter of one position that is the identity returns 100,000 activations."""
    x = np.random.default_rng(0).integers(-8, 8, (1, 33, 32, 96))
    given, y = nibbles(x), np.zeros((1, 33, 32, 48), np.uint8)
    one = nibbles(np.eye(96, dtype=int).reshape(96, 1, 1, 96))
    out, config = cute.typed(y, "s4", packed=True), conv2d_s4.choose_s4(TILE)
    conv2d_s4.conv2d_s4(given, one, None, out, 1.0, 0.0, ConvProblem((1, 1)), config)
    np.testing.assert_array_equal(y, given.array)


def test_host_tensors_are_filled_element_by_element_and_convolved():
    random, shape = np.random.default_rng(0), (1, 3, 4, 32)
    values = random.integers(-8, 8, shape), random.integers(-8, 8, (4, 1, 1, 32))
    held = []
    for x in (*values, np.zeros((1, 3, 4, 4), int)):
        tensor = cute.make_host_tensor(cute.Layout(x.shape, cute.LayoutRight), "s4")
        for coord in np.ndindex(x.shape):
            tensor[coord] = int(x[coord])
        assert all(tensor[coord] == x[coord] for coord in np.ndindex(x.shape))
        held.append(tensor)
    conv, config = ConvProblem((1, 1)), conv2d_s4.choose_s4(TILE)
    x, f, y = held
    conv2d_s4.conv2d_s4(x, f, None, y, 2.0**-3, 0.0, conv, config)
    wanted = np.clip(np.rint(reference(*values, conv) / 8), -8, 7)
    assert all(held[2][coord] == wanted[coord] for coord in np.ndindex(wanted.shape))


def test_the_tiles_of_k_are_those_of_the_implicit_product():
    """9 tiles for 3x3 positions and 128 channels, and the output has the size of the input."""
    conv = ConvProblem((3, 3), (1, 1))
    assert conv.extents(56, 56) == (56, 56)
    _wanted, plan = convolved(conv, (1, 3, 3, 128), 8)
    assert "for k0 in 0 .. 9*ceil_div(X_shape3,128)-1" in str(plan)


def test_channels_that_are_no_whole_vectors_are_refused():
    error = raised(lambda: convolved(ConvProblem((1, 1)), (1, 3, 3, 48), 8))
    assert error.code == "gemm-config"
    assert "channels in whole vectors of 32" in str(error)
