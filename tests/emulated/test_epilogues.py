"""Epilogues as functions: random ones against NumPy, all families, names and refusals."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.epilogue import EpilogueFunction, LinearCombination, kernel_with
from cute_py.kernels.gemm import gemm as gemm_multistage
from cute_py.kernels.gemm_sm90 import KERNELS
from cute_py.ops.epilogues import bound
from cute_py.ops.product import GEMM
from cute_py.trace.formulas import formula
from tests.emulated.kernel_data import integers, poisoned
from tests.hopper_family import CONFIGS, arguments, result_of
from tests.hopper_family import row as row_of
from tests.sampling import each

M, N, K = 33, 24, 40


def operands(seed=0, batch=(), kind=np.float16):
    rng = np.random.default_rng(seed)
    return rng, *(rng.integers(-3, 4, (*batch, *s)).astype(kind) for s in ((M, K), (K, N)))


def sums(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


# -- batches, types and outputs


def test_terms_of_a_batch_and_terms_of_all():
    rng, a, b = operands(1, (3,))
    shapes = {"full": (3, M, N), "row": (3, 1, N), "column": (M, 1), "one": (3, 1, 1), "last": (N,)}
    terms = {x: rng.integers(-3, 4, shape).astype(np.float32) for x, shape in shapes.items()}

    def epilogue(acc, full, row, column, one, last):
        return (acc + full) * one + row * column - last

    found = cute.ops.gemm(a, b, epilogue=epilogue, out_dtype="f32", checks=True, **terms)
    full, row, column, one, last = terms.values()
    np.testing.assert_array_equal(found, (sums(a, b) + full) * one + row * column - last)


def test_outputs_have_types_and_strides_of_their_own():
    _rng, a, b = operands(2)
    wide = np.full((M, 2 * N), np.nan, np.float32)
    given = {"half": poisoned((M, N), np.float16), "whole": np.zeros((M, N), np.int8)}
    out = np.full((N, M), np.nan, np.float64).T

    def epilogue(acc):
        return {"strided": acc + 1, "half": acc * 0.5, "D": acc * 2, "whole": acc}

    found = cute.ops.gemm(
        a,
        b,
        epilogue=epilogue,
        out=out,
        out_dtype="f64",
        strided=wide[:, ::2],
        **given,
        checks=True,
    )
    exact = sums(a, b)
    assert list(found) == ["D", "strided", "half", "whole"]
    assert found["D"] is out
    assert found["half"] is given["half"]
    for name, wanted in {"D": exact * 2, "strided": exact + 1, "half": exact / 2}.items():
        np.testing.assert_array_equal(found[name], wanted)
    np.testing.assert_array_equal(given["whole"], np.clip(exact, -128, 127))
    assert np.isnan(wide[:, 1::2]).all()


def test_without_sums_and_without_elements():
    """K = 0 gives the function of 0; no rows give no elements."""
    _rng, a, b = operands(3)
    column = np.arange(M, dtype=np.float32)[:, None]
    function = lambda acc, column: acc + column  # noqa: E731
    found = cute.ops.gemm(a[:, :0], b[:0], epilogue=function, column=column, out_dtype="f32")
    np.testing.assert_array_equal(found, np.broadcast_to(column, (M, N)))
    assert cute.ops.gemm(a[:0], b, epilogue=function, column=column[:0]).shape == (0, N)


def test_integers_stay_integers_where_the_function_has_them():
    rng = np.random.default_rng(4)
    a, b = rng.integers(-128, 128, (M, 96), np.int8), rng.integers(-128, 128, (96, N), np.int8)
    row = rng.integers(-(2**30), 2**30, N, np.int32)
    exact = a.astype(np.int64) @ b.astype(np.int64)

    def epilogue(acc, row, number):
        return acc * number + row

    found = cute.ops.gemm(a, b, epilogue=epilogue, row=row, number=3)
    np.testing.assert_array_equal(found, (exact * 3 + row).astype(np.int32))
    halves = cute.ops.gemm(a, b, epilogue=epilogue, row=row, number=0.5, out_dtype="f64")
    np.testing.assert_array_equal(halves, exact * 0.5 + row)


def test_a_function_in_f64_is_computed_in_f64():
    _rng, a, b = operands(5, kind=np.float64)
    found = cute.ops.gemm(a, b, epilogue=lambda acc, one: acc + one, one=2.0**-40)
    np.testing.assert_array_equal(found, a @ b + 2.0**-40)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_results_over_all_elements(batch):
    _rng, a, b = operands(7, batch)
    row = np.arange(N, dtype=np.float32)
    sums_given = np.full((*batch, N), np.nan)

    def epilogue(acc, row):
        z = acc + row
        return {
            "D": z,
            "most": cute.reduce("max", z, mode=1),
            "sums": cute.reduce("add", z, mode=0),
            "squares": cute.reduce("add", z * z),
        }

    found = cute.ops.gemm(a, b, epilogue=epilogue, row=row, sums=sums_given, out_dtype="f32")
    z = sums(a, b) + row
    wanted = {"D": z, "most": z.max(-1), "sums": z.sum(-2), "squares": (z * z).sum((-2, -1))}
    assert found["sums"] is sums_given
    for name, x in wanted.items():
        assert found[name].shape == x.shape
        np.testing.assert_array_equal(found[name], x, err_msg=name)


# -- the fields of gemm are functions, too


@pytest.mark.parametrize("activation", ["relu", "gelu", None])
def test_a_function_gives_what_the_fields_give(activation):
    rng, a, b = operands(6)
    c, bias = (rng.standard_normal(s).astype(np.float16) for s in ((M, N), (N,)))
    functions = {
        None: lambda x: x,
        "relu": lambda x: cute.where(x < 0, 0, x),
        "gelu": lambda x: cute.gelu(x),
    }
    last = functions[activation]

    def epilogue(acc, alpha, beta, c, bias):
        return last(acc * alpha + c * beta + bias)

    given = {"c": c, "bias": bias, "alpha": 0.3, "beta": -1.7}
    wanted = cute.ops.gemm(a, b, activation=activation, **given)
    np.testing.assert_array_equal(cute.ops.gemm(a, b, epilogue=epilogue, **given), wanted)


def test_the_formula_of_the_fields():
    assert str(LinearCombination(alpha=True, source=True, bias=True).formula) == (
        "(sums, C, bias, alpha, beta): f32\n"
        "t0: f32 = mul(sums, alpha)\nt1: f32 = mul(C, beta)\nt2: f32 = add(t0, t1)\n"
        "t3: f32 = add(t2, bias)\nreturn t3"
    )
    assert LinearCombination().is_plain
    assert LinearCombination(source=True).is_sum
    assert not LinearCombination(source=True, bias=True).is_sum


# -- the epilogues of CUTLASS 2.x

SCALES = {  # the six kinds of ScaleType, as functions and as NumPy has them
    "Default": (
        lambda x, alpha, beta, C: x * alpha + C * beta,
        lambda x, alpha, beta, C: x * alpha + C * beta,
    ),
    "NoBetaScaling": (lambda x, alpha, C: x * alpha + C, lambda x, alpha, C: x * alpha + C),
    "OnlyAlphaScaling": (lambda x, alpha: x * alpha, lambda x, alpha: x * alpha),
    "PerChannelScaling": (
        lambda x, of_x, of_c, C: x * of_x + C * of_c,
        lambda x, of_x, of_c, C: x * of_x + C * of_c,
    ),
    "OnlyAlphaPerChannelScaling": (lambda x, of_x: x * of_x, lambda x, of_x: x * of_x),
    "Nothing": (lambda x: x, lambda x: x),
}


@pytest.mark.parametrize("kind", SCALES)
def test_k01_kinds_of_scaling_are_functions(kind):
    rng, a, b = operands(8)
    function, model = SCALES[kind]
    names = function.__code__.co_varnames[1:]
    given = {"alpha": 2.0, "beta": -3.0}
    given |= {x: rng.integers(-3, 4, N).astype(np.float32) for x in ("of_x", "of_c")}
    given["C"] = rng.integers(-3, 4, (M, N)).astype(np.float16)
    given = {x: y for x, y in given.items() if x in names}
    found = cute.ops.gemm(a, b, epilogue=function, out_dtype="f32", **given)
    np.testing.assert_array_equal(found, model(sums(a, b), **given))


def test_k02_k07_relu_has_a_threshold_and_passes_nan():
    _rng, a, b = operands(9)
    a[0, 0] = np.nan

    def relu(x, alpha, beta, C, threshold):
        x = x * alpha + C * beta
        return cute.where(x < threshold, threshold, x)

    C = np.ones((M, N), np.float32)
    found = cute.ops.gemm(
        a, b, epilogue=relu, alpha=2.0, beta=3.0, C=C, threshold=-1.5, out_dtype="f32"
    )
    x = sums(a, b) * 2 + 3
    np.testing.assert_array_equal(found, np.where(x < -1.5, -1.5, x))
    assert np.isnan(found[0]).all()


def test_k04_factors_are_numbers_in_memory_or_one_for_each_matrix():
    _rng, a, b = operands(10, (3,))
    scaled = lambda x, alpha: x * alpha  # noqa: E731
    each = np.array([2.0, 2.0, 2.0], np.float32)
    results = [
        cute.ops.gemm(a, b, epilogue=scaled, alpha=alpha, out_dtype="f32")
        for alpha in (2.0, np.array(2.0, np.float32), each[:, None, None])
    ]
    for found in results:
        np.testing.assert_array_equal(found, sums(a, b) * 2)


def test_k08_channels_have_factors_of_their_own():
    rng, a, b = operands(11)
    of_x, of_c = (rng.integers(-3, 4, N).astype(np.float32) for _ in range(2))
    C = rng.integers(-3, 4, (M, N)).astype(np.float32)
    function = lambda x, of_x, of_c, C: x * of_x + C * of_c  # noqa: E731
    found = cute.ops.gemm(a, b, epilogue=function, of_x=of_x, of_c=of_c, C=C, out_dtype="f32")
    np.testing.assert_array_equal(found, sums(a, b) * of_x + C * of_c)


# -- the kernels of Hopper

FAMILIES = (
    *("64x32-pdl", "pp-direct", "direct", "pp-128x128"),
    *("64x128-split", "128x256-chunks", "256x160-cluster"),
)


@pytest.mark.parametrize("name", [
    x if x in FAMILIES[:3] else pytest.param(x, marks=pytest.mark.slow) for x in FAMILIES
])  # fmt: skip
def test_all_families_take_functions(name):
    config, rng = CONFIGS[name], np.random.default_rng(0)
    m, n, k = config.tile
    shape = (m + 8, n + 8, k + 16)
    (A, B, _C, _bias, D), exact = arguments(config, shape, result_of(name))
    rows, columns = shape[:2]
    column, one = integers(rng, (rows,), "s8").astype(np.float16), np.array([3.0], np.float32)
    residual, row = (
        integers(rng, s, "s8").astype(np.float32) for s in ((rows, columns), (columns,))
    )

    def epilogue(acc, column, one, residual, row, scale):
        x = acc + one + column * row
        return {"D": acc * scale + residual, "aux": x, "next": acc * 2}

    names = "column", "one", "residual", "row"
    last = EpilogueFunction(
        formula(epilogue, "f32", ("acc", *names, "scale")), ("column", "one", "matrix", "row")
    )
    kernel = kernel_with(KERNELS[config.schedule], names, ("D", "aux", "next"), ("scale",))
    aux, following = poisoned((rows, columns), np.float32), poisoned((rows, columns), D.dtype)
    blocks = 2 * config.cluster * config.split
    call = A, B, column, one, residual, row, D, aux, following, 2.0, blocks, 2, config, last
    cute.emulate(kernel, *call, checks=True)
    wanted = (exact * 2 + residual).astype(D.dtype)
    np.testing.assert_array_equal(D.astype(float), wanted.astype(float))
    np.testing.assert_array_equal(aux, exact + 3 + column[:, None].astype(float) * row)
    wanted = (exact * 2).astype(D.dtype).astype(float)
    np.testing.assert_array_equal(following.astype(float), wanted)


@pytest.mark.parametrize("tile", [(64, 64, 1), (128, 64, 2)])
def test_the_first_matrix_comes_by_tma_where_the_configuration_says_so(tile):
    config = row_of("bf16", *tile, prefetch=1)
    shape = config.tile[0] + 8, config.tile[1] + 8, 136
    (A, B, C, bias, D), exact = arguments(config, shape, "bf16", LinearCombination(source=True))
    assert bias is None
    wide = integers(np.random.default_rng(0), shape[:2], "s8").astype(np.float32)

    def epilogue(acc, C, wide):
        return {"D": acc + C * 2, "aux": acc + wide}

    last = EpilogueFunction(formula(epilogue, "f32", ("acc", "C", "wide")), ("matrix", "matrix"))
    kernel = kernel_with(KERNELS["cooperative"], ("C", "wide"), ("D", "aux"), ())
    aux = poisoned(shape[:2], D.dtype)
    cute.emulate(kernel, A, B, C, wide, D, aux, 2, 1, config, last, checks=True)
    for x, wanted in ((D, exact + C.astype(float) * 2), (aux, exact + wide)):
        np.testing.assert_array_equal(x.astype(float), wanted.astype(D.dtype).astype(float))


def test_kernels_name_parameters_as_the_function_does():
    kernel = kernel_with(gemm_multistage, ("scale_a", "residual"), ("D", "aux"), ("factor",))
    names = "A", "B", "scale_a", "residual", "D", "aux", "factor", "config", "epilogue"
    assert tuple(kernel.signature.parameters) == names


# -- known functions


def test_equal_functions_share_an_operator():
    given = {name: p.default for name, p in GEMM.parameters.items()}

    def found(function, **terms):
        _rng, a, b = operands()
        return bound(function, terms, {**given, "a": a, "b": b})[0]

    first = found(lambda acc, s: acc * s, s=2.0)
    assert found(lambda acc, s: acc * s, s=3.0) is first
    assert found(lambda acc, s: acc * s + 1, s=3.0) is not first
    assert found(lambda acc, s: acc * s, s=np.ones(N)) is not first


FACTOR = 2.0


def test_a_function_is_traced_again_where_a_global_changed(monkeypatch):
    _rng, a, b = operands()

    def epilogue(acc):
        return acc * FACTOR

    for factor in (2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        found = cute.ops.gemm(a, b, epilogue=epilogue, out_dtype="f32")
        np.testing.assert_array_equal(found, sums(a, b) * factor)


def test_explain_shows_the_function_and_its_price():
    _rng, a, b = operands()
    said = str(cute.ops.gemm.explain(a, b, epilogue=lambda acc, s: cute.exp(acc) * s, s=2.0))
    assert "instructions an element" in said
    assert "t1: f32 = mul(t0, s)" in said
    assert cute.ops.gemm_config(a, b, epilogue=lambda acc: acc + 1).tile


# -- what is refused


@pytest.mark.parametrize(("function", "named", "code", "words"), [
    (lambda acc, bias: acc + bias, {}, "epilogue-missing", "bias"),
    (lambda acc: acc, {"bias": np.ones(N)}, "epilogue-name", "bias"),
    (lambda acc: acc, {"alpha": 2.0}, "epilogue-name", "alpha"),
    (lambda acc: acc, {"activation": "relu"}, "epilogue-name", "activation"),
    (lambda acc: acc, {"other": 1.0}, "epilogue-name", "other"),
    (lambda acc, checks: acc, {}, "epilogue-name", "checks"),
    (lambda acc, out: acc, {}, "epilogue-name", "out"),
    (lambda acc: {"D": acc, "b": acc}, {}, "epilogue-name", "b"),
    (lambda acc, x: {"D": acc, "x": acc}, {"x": 1.0}, "epilogue-name", "x"),
    (lambda acc: {"E": acc}, {}, "epilogue-results", "E"),
    (lambda acc: (acc, acc), {}, "formula-result", "value"),
    (lambda acc: None, {}, "formula-result", "None"),
    (lambda acc: cute.reduce("max", acc), {}, "formula-result", "max"),
    (lambda acc: {"D": cute.reduce("max", acc)}, {}, "epilogue-results", "D"),
    (lambda acc: 1 - cute.reduce("max", acc), {}, "formula-combined", "max"),
    (lambda acc: {"D": acc, "m": cute.reduce("max", acc, mode=2)}, {}, "kernel-choice", "2"),
    (lambda acc: {"D": acc, "m": cute.reduce("add", acc)}, {"m": np.ones(3)}, "ops-shape", "m"),
    (lambda *acc: acc, {}, "epilogue-parameters", "lambda"),
    (lambda acc, **more: acc, {}, "epilogue-parameters", "lambda"),
    (lambda: 1, {}, "epilogue-parameters", "lambda"),
    (3, {}, "epilogue-parameters", "int"),
    (lambda acc: acc + cute.thread_idx(), {}, "kernel-formula", "thread_idx"),
    (lambda acc: cute.warp_reduce("add", acc), {}, "kernel-formula", "function of registers"),
    (lambda acc, x: acc + x, {"x": np.ones((M, 2))}, "ops-shape", "x"),
    (lambda acc, x: acc + x, {"x": np.ones((2, M, N))}, "ops-shape", "x"),
    (lambda acc: {"D": acc, "aux": acc}, {"aux": np.ones((M, 2))}, "ops-shape", "aux"),
    (lambda acc: {"D": acc, "aux": acc}, {"aux": 3}, "ops-array", "aux"),
    (lambda acc, x: acc + x, {"x": "text"}, "ops-array", "x"),
    (lambda acc, x: acc + x, {"x": None}, "epilogue-missing", "x"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(function, named, code, words):
    _rng, a, b = operands()
    with pytest.raises(cute.CuteError) as caught:
        cute.ops.gemm(a, b, epilogue=function, **named)
    assert caught.value.code == code, caught.value
    assert words in str(caught.value)


def test_outputs_do_not_overlap():
    _rng, a, b = operands()
    both = np.zeros((M + 1, N), np.float32)
    with pytest.raises(cute.CuteError, match="share memory") as caught:
        cute.ops.gemm(
            a, b, epilogue=lambda x: {"D": x, "aux": x}, out=both[1:], aux=both[:-1],
            out_dtype="f32",
        )  # fmt: skip
    assert caught.value.code == "epilogue-overlap"


PLACES = {  # of what is read, in the memory (M + 1, N) of an output that is its first M rows
    "the same": lambda x: x[:-1],
    "the next rows": lambda x: x[1:],
    "reversed": lambda x: x[-2::-1],
    "a row": lambda x: x[1],
    "a column": lambda x: x[:-1, 1:2],
}


@each(("out", "aux"), PLACES)
def test_an_output_may_take_the_place_of_what_is_read(output, place):
    rng, a, b = operands()
    memory = rng.integers(-3, 4, (M + 1, N)).astype(np.float32)
    residual = PLACES[place](memory)
    wanted = sums(a, b) + residual
    found = cute.ops.gemm(
        a, b, epilogue=lambda x, residual: {"D": x + residual, "aux": x + residual},
        residual=residual, out_dtype="f32", **{output: memory[:-1]},
    )  # fmt: skip
    np.testing.assert_array_equal(memory[:-1], wanted)
    for x in found.values():
        np.testing.assert_array_equal(x, wanted)


def test_terms_without_a_function_are_refused():
    _rng, a, b = operands()
    with pytest.raises(cute.CuteError, match="scale") as caught:
        cute.ops.gemm(a, b, scale=2.0)
    assert caught.value.code == "ops-argument"
    with pytest.raises(cute.CuteError, match="scale"):
        cute.ops.gemm.explain(a, b, scale=2.0)
