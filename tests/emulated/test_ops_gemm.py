"""`cute.ops.gemm` against NumPy: exact on integers, within the documented bound on random data."""

from functools import partial
from itertools import product as every

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.errors import LayoutError
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.kernels.config import choose_config
from cute_py.ops import gemm_families
from cute_py.ops.gemm_families import changed
from cute_py.ops.product import Product, Request, gemm, taken
from cute_py.ops.reference import error_of, reference
from tests.sampling import fewer, in_turn, pairwise, quick

checked = partial(gemm, checks=True)

DTYPES = ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "e4m3", "e5m2")
SIZES = (1, 7, 64, 129)
ALIGNED = ((128, 128, 64), (256, 128, 128))
MAJORS = tuple(every("KM", "KN"))
SMALL = {"e4m3": 3, "e5m2": 2}  # integers that products and sums hold exactly, whatever K


def drawn(kind, shape, rng):
    """Return integers that the type holds."""
    most = SMALL.get(kind, 4)
    low = 0 if kind == "u8" else -most
    return rng.integers(low, most + 1, shape).astype(cute.dtype(kind).numpy)


def operands(kind, sizes, majors=("K", "N"), seed=0):
    """Return a (M,K) and b (K,N), contiguous along the modes named by `majors`."""
    M, N, K = sizes
    rng = np.random.default_rng(seed)
    a, b = drawn(kind, (M, K), rng), drawn(kind, (K, N), rng)
    a = a if majors[0] == "K" else laid_out(a.T).T
    b = b if majors[1] == "N" else laid_out(b.T).T
    return a, b


def laid_out(array):
    return np.ascontiguousarray(array)


def as_kind(array, kind):
    return cute.typed(array, "tf32") if kind == "tf32" else array


def call_of(a, b, **named):
    """Return the call of the kernel that `gemm` makes for arrays of the host."""
    return Product(*taken(Request(a, b, **named))).call()


def multiplied(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def check_exact(kind, sizes, majors, **options):
    a, b = operands(kind, sizes, majors)
    wide = "s32" if kind in ("s8", "u8") else "f64" if kind == "f64" else "f32"
    call = call_of(as_kind(a, kind), as_kind(b, kind), out_dtype=wide)
    result = call.run(**{"checks": True, **options})
    assert result.shape == (sizes[0], sizes[1])
    np.testing.assert_array_equal(result, multiplied(a, b))


# -- exact on integers


@pytest.mark.parametrize(
    ("M", "N", "K", "kind", "majors"), pairwise(SIZES, SIZES, SIZES, DTYPES, MAJORS)
)
def test_products_of_integers_are_exact(M, N, K, kind, majors):
    check_exact(kind, (M, N, K), majors)


@pytest.mark.parametrize(
    ("kind", "majors"), quick(in_turn(DTYPES, MAJORS), DTYPES, MAJORS), ids=str
)
def test_aligned_products_pass_the_checks_of_the_emulator(kind, majors):
    check_exact(kind, ALIGNED[0], majors, checks=True)


@pytest.mark.parametrize("kind", DTYPES)
def test_repeated_calls_are_exact(kind):
    """They skip the choice: the same plan, on views of other arrays."""
    for seed in range(3):
        a, b = operands(kind, (7, 9, 40), ("K", "K"), seed)
        found = gemm(as_kind(a[:, ::2], kind), as_kind(b[::2], kind), out_dtype="f64")
        np.testing.assert_array_equal(found, multiplied(a[:, ::2], b[::2]))
        found = gemm(as_kind(a, kind), as_kind(b, kind), out_dtype="f64")
        np.testing.assert_array_equal(found, multiplied(a, b))


@pytest.mark.slow
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("majors", MAJORS)
def test_all_sizes_are_exact(kind, majors):
    for sizes in (*every(SIZES, SIZES, SIZES), *ALIGNED):
        check_exact(kind, sizes, majors, checks=True)


@pytest.mark.parametrize(("a", "b"), [("s8", "u8"), ("u8", "s8"), ("e4m3", "e5m2")])
def test_types_that_mix(a, b):
    x, y = operands(a, (33, 40, 70))[0], operands(b, (33, 40, 70))[1]
    np.testing.assert_array_equal(checked(x, y, out_dtype="f32"), multiplied(x, y))


@pytest.mark.parametrize("sizes", [(130, 70, 257), (33, 7, 1)])
@pytest.mark.parametrize("order", ["reversed", 3])
def test_the_order_of_warps_does_not_matter(sizes, order):
    check_exact("bf16", sizes, ("K", "N"), checks=True, order=order)


# -- within the bound on random data


@pytest.mark.parametrize(
    ("kind", "out"),
    [
        *[("f16", "f16"), ("bf16", "bf16"), ("tf32", "f32"), ("f32", "f32"), ("f64", "f64")],
        *[("e4m3", "e4m3"), ("e5m2", "f16"), ("bf16", "e5m2"), ("f32", "f64"), ("f16", "s8")],
    ],
)
def test_random_products_are_within_the_bound(kind, out):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((65, 200)), rng.standard_normal((200, 40))
    terms = {"c": rng.standard_normal((65, 40)), "bias": rng.standard_normal(40)}
    how = {"alpha": 0.5, "beta": -2, "activation": "gelu", "dtype": kind, "out_dtype": out}
    call = call_of(a, b, **terms, **how)
    result = call.run(checks=True)
    assert result.dtype == cute.dtype(out).numpy
    error = error_of(result, call, judge=True)
    assert error.within, str(error)
    assert "within the bound" in str(error)


def test_the_reference_notices_a_wrong_element():
    a, b = operands("f32", (8, 8, 8))
    call = call_of(a, b)
    result = call.run(checks=True)
    result[3, 3] += 1
    error = error_of(result, call, judge=True)
    assert (error.absolute, error.within) == (1, False)
    assert "OUTSIDE" in str(error)


# -- the epilogue


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_activations(activation):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((20, 16), (16, 24)))
    c, bias = rng.standard_normal((20, 24)).astype(np.float16), rng.standard_normal(24)
    result = checked(a, b, c, 0.5, -1.5, bias, activation)
    wanted = 0.5 * multiplied(a, b) - 1.5 * c.astype(float) + bias
    wanted = wanted if activation is None else ACTIVATIONS[activation].model(wanted)
    np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6)


def test_k03_linear_combination_is_rounded_as_in_numpy():
    rng = np.random.default_rng(0)
    a, b = operands("f16", (40, 48, 64))
    c = rng.standard_normal((40, 48)).astype(np.float16)
    sums = multiplied(a, b).astype(np.float32)
    wanted = np.float32(1.5) * sums + np.float32(-1.25) * c.astype(np.float32)
    np.testing.assert_array_equal(checked(a, b, c, 1.5, -1.25), wanted.astype(np.float16))


def test_terms_of_integers_are_exact():
    a, b = operands("s8", (40, 24, 64))
    c = np.random.default_rng(0).integers(-(2**30), 2**30, (40, 24)).astype(np.int32)
    bias = np.arange(24, dtype=np.int32)
    result = checked(a, b, c, alpha=3, beta=-1, bias=bias, activation="relu")
    assert result.dtype == np.int32
    wanted = 3 * (a.astype(int) @ b.astype(int)) - c + bias
    np.testing.assert_array_equal(result, np.maximum(wanted, 0))


def test_narrow_integers_clamp_and_others_round_to_even():
    a, b = np.full((1, 64), 100, np.int8), np.full((64, 8), 100, np.int8)
    assert (checked(a, b, out_dtype="s8") == 127).all()
    assert (checked(a, -b, out_dtype="u8") == 0).all()
    ones = np.ones((1, 1), np.int8)
    assert checked(ones, ones, alpha=2.5).item() == 2
    assert checked(ones, ones, alpha=3.5).item() == 4


def test_c_is_not_read_where_beta_is_0():
    a, b = operands("f16", (9, 10, 11))
    c = np.full((9, 10), np.nan)
    np.testing.assert_array_equal(checked(a, b, c, beta=0, out_dtype="f32"), multiplied(a, b))


def test_nan_and_inf_propagate():
    a, b = np.ones((5, 6), np.float32), np.ones((6, 4), np.float32)
    a[1, 2], a[2, 0], a[3, 0], a[3, 1] = np.nan, np.inf, np.inf, -np.inf
    for activation in (None, "relu"):
        result = checked(a, b, activation=activation)
        assert (result[0] == 6).all()
        assert np.isnan(result[[1, 3]]).all()
        assert np.isposinf(result[2]).all()


@pytest.mark.parametrize("kind", DTYPES)
def test_the_default_type_of_the_result(kind):
    a, b = operands(kind, (4, 8, 16))
    wanted = {"tf32": "f32", "s8": "s32", "u8": "s32"}.get(kind, kind)
    assert checked(as_kind(a, kind), as_kind(b, kind)).dtype == cute.dtype(wanted).numpy


def test_operands_are_converted_to_dtype():
    a = np.full((4, 8), 1 + 2.0**-12)
    assert (checked(a, np.ones((8, 4)), dtype="tf32") == 8).all()
    assert (checked(a, np.ones((8, 4)), dtype="f32") > 8).all()
    assert checked([[1, 2]], [[3], [4]], dtype="s8").tolist() == [[11]]


# -- batches


@pytest.mark.parametrize(
    ("first", "second"),
    [((3,), (3,)), ((2, 3), (2, 3)), ((3,), ()), ((), (2, 2)), ((2, 1), (1, 3)), ((1,), (4,))],
)
def test_batch_modes_broadcast_as_in_matmul(first, second):
    rng = np.random.default_rng(0)
    a, b = drawn("f16", (*first, 9, 16), rng), drawn("f16", (*second, 16, 40), rng)
    wanted = np.matmul(a.astype(float), b.astype(float))
    c = drawn("f32", wanted.shape[-2:], rng)
    np.testing.assert_array_equal(checked(a, b, c, beta=2, out_dtype="f32"), wanted + 2 * c)


def test_a_repeated_operand_is_not_copied():
    a, b = np.ones((4, 9, 16), np.float16), np.ones((16, 8), np.float16)
    A, B, _C, _bias = call_of(a, b).reads
    assert B.strides[2] == 0
    assert np.may_share_memory(A, a)
    assert np.may_share_memory(B, b)


# -- strides


STRIDED = {
    "rows backwards": lambda x: x[0, ::-1, :30],
    "columns backwards": lambda x: x[0, :, 29::-1],
    "every second": lambda x: x[0, ::2, ::2],
    "a part": lambda x: x[0, 1:8, 3:33],
    "transposed": lambda x: x[:, :30, :].transpose(0, 2, 1),
    "one row": lambda x: np.broadcast_to(x[0, 0, :30], (5, 30)),
    "one column": lambda x: np.broadcast_to(x[0, :5, :1], (5, 30)),
    "batches backwards": lambda x: x[::-1, :, :30],
}


@pytest.mark.parametrize("view", STRIDED)
def test_strides_of_every_kind_are_handled(view):
    rng = np.random.default_rng(0)
    a = STRIDED[view](drawn("f32", (2, 40, 60), rng))
    b = drawn("f32", (30, 20), rng)
    np.testing.assert_array_equal(checked(a, b), np.matmul(a, b))


def test_addresses_of_every_alignment_are_handled():
    raw = np.zeros(8 * 32 * 2 + 64, np.uint8)
    b = np.eye(32, dtype=np.float16)
    for offset in (0, 1, 2, 4, 8):
        a = np.ndarray((8, 32), np.float16, raw, offset)
        a[...] = np.arange(256).reshape(8, 32)
        np.testing.assert_array_equal(checked(a, b), a)


def test_other_byte_orders_are_handled():
    a = np.arange(12, dtype=">f4").reshape(3, 4)
    np.testing.assert_array_equal(checked(a, np.eye(4, dtype=np.float32)), a)


def test_inputs_are_left_alone():
    a, b = operands("f32", (20, 20, 20))
    before = a.copy(), b.copy()
    a.flags.writeable = b.flags.writeable = False
    checked(a, b)
    np.testing.assert_array_equal((a, b), before)


# -- sizes of 0


@pytest.mark.parametrize("sizes", [(0, 4, 5), (4, 0, 5), (0, 0, 0), (0, 4, 0)])
def test_empty_results(sizes):
    M, N, K = sizes
    result = checked(np.ones((M, K), np.float32), np.ones((K, N), np.float32))
    assert (result.shape, result.dtype) == ((M, N), np.float32)
    batch = checked(np.ones((0, 3, 4), np.float16), np.ones((4, 5), np.float16))
    assert batch.shape == (0, 3, 5)


def test_a_product_without_k_leaves_the_epilogue():
    a, b = np.ones((3, 0), np.float32), np.ones((0, 4), np.float32)
    c, bias = np.full((3, 4), 2, np.float32), np.arange(4)
    assert (checked(a, b, alpha=np.inf) == 0).all()
    np.testing.assert_array_equal(checked(a, b, c, beta=3, bias=bias), 3 * c + bias)


# -- out


def test_the_result_can_go_to_an_array():
    a, b = operands("f32", (5, 6, 7))
    out = np.zeros((6, 10), np.float32)[:, ::2].T
    assert checked(a, b, out=out) is out
    np.testing.assert_array_equal(out, multiplied(a, b))
    square = np.ones((4, 4), np.float32)
    checked(square, square, out=square)
    assert (square == 4).all()


# -- configurations


def test_configurations_are_explained():
    config = choose_config(512, 512, 512, "bf16")
    lines = config.explain().splitlines()
    assert lines[0] == str(config)
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "bf16, bf16",
        "tile",
        "copies",
        "stages",
        "A",
        "B",
    ]


@pytest.mark.parametrize(
    ("alignment", "text"),
    [
        (16, "A=Kx8 B=Kx8 cp.async"),
        (8, "A=Kx4 B=Kx4 cp.async"),
        (4, "A=Kx2 B=Kx2 cp.async"),
        ((16, 2), "A=Kx8 B=Kx1 through registers"),
    ],
)
def test_vectors_follow_the_alignment(alignment, text):
    assert str(choose_config(64, 64, 64, "f16", alignment=alignment)).endswith(text)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("alignment", [1, 2, 4, 8, 16])
def test_every_choice_is_consistent(kind, alignment):
    for M, N, K in every((1, 40, 100), (1, 40, 100), (1, 1000)):
        for majors in every(("K", "MN"), ("K", "MN")):
            config = choose_config(
                M, N, K, kind, majors, max(alignment, cute.dtype(kind).bits // 8)
            )
            assert "\n" not in str(config)


TILES = st.tuples(*[st.sampled_from([32, 64, 96, 128])] * 2, st.sampled_from([16, 32, 64]))


@fewer(16)
@given(
    tile=TILES,
    warps=st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 2), (4, 2), (2, 4)]),
    stages=st.integers(2, 5),
    sizes=st.tuples(*[st.integers(1, 150)] * 3),
    majors=st.sampled_from(MAJORS),
)
def test_every_configuration_that_is_accepted_is_right(tile, warps, stages, sizes, majors):
    a, b = operands("bf16", sizes, majors)
    chosen = call_of(a, b).config
    text = "tile={}x{}x{},warps={}x{},stages={}".format(*tile, *warps, stages)
    try:
        config = changed(chosen, text)
    except LayoutError as error:
        assert error.code == "gemm-config"  # noqa: PT017
        return
    np.testing.assert_array_equal(checked(a, b, config=config, out_dtype="f32"), multiplied(a, b))


@pytest.mark.parametrize("band", [0, 1, 2])
def test_a_grid_of_one_mode_has_the_same_tiles(monkeypatch, band):
    """As for more tiles along N, or products in a batch, than the other modes of a grid have."""
    monkeypatch.setattr(gemm_families, "MOST_ALONG_YZ", 2)
    rng = np.random.default_rng(0)
    a, b = drawn("f16", (2, 2, 100, 24), rng), drawn("f16", (2, 1, 24, 200), rng)
    config = cute.ops.gemm_config(a, b, config=f"tile=32x64x32,band={band}")
    assert (config.band, config.flat) == (band, 1)
    found = checked(a, b, config=config, out_dtype="f32")
    np.testing.assert_array_equal(found, multiplied(a, b))


def test_the_public_names_are_what_they_say():
    """No module of the package hides the function, whatever was imported before."""
    import pkgutil

    assert not {m.name for m in pkgutil.iter_modules(cute.ops.__path__)} & set(cute.ops.__all__)
    assert cute.ops.gemm is gemm
    assert cute.ops.choose_config is choose_config


def test_plans_are_kept():
    from cute_py.kernels.gemm import gemm as kernel

    a, b = operands("f16", (48, 48, 48))
    checked(a, b)
    count = len(kernel.plans)
    checked(a, b, alpha=1.0)
    checked(*operands("f16", (40, 56, 48)))
    assert len(kernel.plans) == count


def test_reference_of_tf32_ignores_the_low_bits():
    a = np.full((1, 1), 1 + 2.0**-12, np.float32)
    call = call_of(cute.typed(a, "tf32"), cute.typed(a, "tf32"))
    assert reference(call.inputs).item() == call.run(checks=True).item() == 1


FREE = ("f16", "bf16", "tf32", "f64")


@pytest.mark.parametrize(("kind", "majors"), quick(in_turn(FREE, MAJORS), FREE, MAJORS), ids=str)
def test_shared_memory_is_free_of_conflicts(kind, majors):
    a, b = operands(kind, (128, 128, 64), majors)
    call = call_of(as_kind(a, kind), as_kind(b, kind), out_dtype="f32")
    call.run(checks=True, report=True)
    assert call.report.total.wavefronts > 0
    assert call.report.total.conflicts == 0
