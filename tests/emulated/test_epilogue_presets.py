"""`cute.epilogues` against NumPy: each function, in each form that its parameters have."""

import math

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from cute_py import epilogues
from cute_py.epilogues import SCALE_TYPES, linear_combination
from cute_py.ops.epilogues import bound
from cute_py.ops.product import GEMM, gemm
from tests.sampling import each

M, N, K = 9, 12, 8
ERF = np.vectorize(math.erf, "d")


def operands(kind=np.float32, batch=(), seed=0):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-3, 4, (*batch, *s)).astype(kind) for s in ((M, K), (K, N)))
    return rng, a, b, a.astype(np.float64) @ b.astype(np.float64)


def test_every_function_is_listed_and_tested():
    public = {x for x, y in vars(epilogues).items() if callable(y) and x[0] != "_" and x != "Any"}
    assert public | {"SCALE_TYPES"} == {*epilogues.__all__}
    tested = {*ACTIVATIONS, *[f.__name__ for f in SCALE_TYPES.values()]}
    assert public - tested == {"clamp", "quantized", "quantized_with_amax", "swiglu", "geglu"}


# -- linear combinations

# what each kind is given: factors of all, or one for each column
GIVEN = {
    "Default": ("alpha", "beta", "c"),
    "NoBetaScaling": ("alpha", "c"),
    "OnlyAlphaScaling": ("alpha",),
    "PerChannelScaling": ("alpha", "beta", "c"),
    "OnlyAlphaPerChannelScaling": ("alpha",),
    "Nothing": (),
}


@each(GIVEN)
def test_k01_the_kinds_of_scaling(kind):
    rng, a, b, sums = operands()
    per_channel = "PerChannel" in kind
    factors = [rng.integers(-3, 4, N).astype(np.float32) / 2 for _ in range(2)]
    given = {"alpha": factors[0] if per_channel else 1.5, "beta": factors[1] if per_channel else -1}
    given["c"] = rng.integers(-3, 4, (M, N)).astype(np.float16)
    given = {x: y for x, y in given.items() if x in GIVEN[kind]}
    found = gemm(a, b, epilogue=SCALE_TYPES[kind], checks=True, **given)
    wanted = sums * given.get("alpha", 1) + given.get("c", 0) * given.get("beta", 1)
    np.testing.assert_array_equal(found, wanted)


def test_k04_the_array_of_a_group_goes_before_a_pointer_and_that_before_a_value():
    rng, a, b, sums = operands(batch=(3,))
    c = rng.integers(-3, 4, (3, M, N)).astype(np.float32)
    of_each = [rng.integers(-3, 4, (3, 1, 1)).astype(np.float32) for _ in range(2)]
    one = [np.array(x, np.float32) for x in (2.5, -1.5)]
    for pointers, groups in ((False, False), (True, False), (True, True), (False, True)):
        given, wanted = {"alpha": 0.5, "beta": 3.0}, [0.5, 3.0]
        if pointers:
            given |= {"alpha_ptr": one[0], "beta_ptr": one[1]}
            wanted = one
        if groups:
            given |= {"alpha_ptr_array": of_each[0], "beta_ptr_array": of_each[1]}
            wanted = of_each
        found = gemm(a, b, c, epilogue=linear_combination, **given)
        np.testing.assert_array_equal(found, sums * wanted[0] + c * wanted[1])


@each([0, 0.0, -0.0, np.float32(0), "an array", "a group", "a column"])
def test_k05_c_has_no_part_where_beta_is_0(beta):
    _rng, a, b, sums = operands()
    c = np.full((M, N), np.nan, np.float32)
    arrays = {"an array": np.zeros((), np.float32), "a group": np.zeros((1, 1), np.float32)}
    given = {"beta": beta}
    if isinstance(beta, str):
        c[:, 1:] = 1
        given = {"beta_ptr": arrays.get(beta, np.arange(N, dtype=np.float32))}
    found = gemm(a, b, c, alpha=2.0, epilogue=linear_combination, **given)
    added = np.arange(N) if beta == "a column" else 0
    np.testing.assert_array_equal(found, sums * 2 + added)


def test_k05_c_is_unread_where_beta_is_the_number_0_or_left_out():
    _rng, a, b, _sums = operands()
    c = np.zeros((M, N), np.float32)
    named = {x: p.default for x, p in GEMM.parameters.items()} | {"a": a, "b": b, "c": c}
    for beta, reads in ((0, ()), (0.0, ()), (1, ("c",)), (np.zeros((), np.float32), ("c", "beta"))):
        ours, _given = bound(linear_combination, {}, named | {"beta": beta})
        assert set(ours.problem.reads) == set(reads)
    gemm(a, b, np.zeros((2, 2)), epilogue=linear_combination)  # not even its shape is looked at


@each([2.0, "an array"])
def test_another_beta_needs_c(beta):
    _rng, a, b, _sums = operands()
    given = {"beta_ptr": np.array(2.0)} if beta == "an array" else {"beta": beta}
    with pytest.raises(cute.CuteError) as caught:
        gemm(a, b, epilogue=linear_combination, **given)
    assert caught.value.code == "ops-no-c"


def test_k03_the_steps_are_rounded_as_in_numpy():
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(s).astype(np.float16) for s in ((M, 1), (1, N), (M, N)))
    found = gemm(a, b, c, 1.5, -1.25, epilogue=linear_combination)
    sums = a.astype(np.float32) @ b.astype(np.float32)
    wanted = sums * np.float32(1.5) + c.astype(np.float32) * np.float32(-1.25)
    np.testing.assert_array_equal(found, wanted.astype(np.float16))


# -- activations

# name -> (a model of arrays, arguments)
ACTIVATIONS = {
    "relu": (lambda x, threshold=0: np.where(x < threshold, threshold, x), {"threshold": -1.5}),
    "leaky_relu": (lambda x, slope=0.01: np.where(x < 0, x * slope, x), {"slope": 0.25}),
    "gelu": (lambda x: 0.5 * x * (1 + ERF(x / 2**0.5)), {}),
    "gelu_tanh": (
        lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
        {},
    ),
    "silu": (lambda x: x / (1 + np.exp(-x)), {}),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), {}),
    "tanh": (np.tanh, {}),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, {}),
}


@each(ACTIVATIONS)
def test_activations(name):
    model, given = ACTIVATIONS[name]
    function = getattr(epilogues, name)
    rng, a, b, _sums = operands(np.float64)
    a, b = a[:4] * rng.random((4, K)) / 2, b[:, :5]
    for named in ({}, given) if given else ({},):
        found = gemm(a, b, epilogue=function, **named)
        np.testing.assert_allclose(found, model(a @ b, **named), rtol=1e-13, atol=2e-14)
    a[0] = np.nan
    assert np.isnan(gemm(a, b, epilogue=function)[0]).all()


def test_they_are_called_in_functions_of_a_user():
    _rng, a, b, sums = operands()
    bias = np.arange(N, dtype=np.float32) - 5

    def epilogue(x, bias, alpha):
        return epilogues.relu(epilogues.only_alpha_scaling(x, alpha) + bias)

    found = gemm(a, b, epilogue=epilogue, bias=bias, alpha=0.5)
    np.testing.assert_array_equal(found, np.maximum(sums * 0.5 + bias, 0))


# -- ranges

INTEGERS = ("s2", "u2", "s4", "u4", "s8", "u8", "s16", "u16", "s32")


@each(INTEGERS)
def test_k09_sums_are_clamped_to_any_integer_type(name):
    kind = cute.dtype(name)
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((M, 33), (33, N)))
    a[0], b[:, 0] = -1, 1
    sums = a.astype(np.int64) @ b.astype(np.int64)
    bounds = {"low": kind.min, "high": kind.max}
    found = gemm(a, b, epilogue=epilogues.clamp, **bounds)
    np.testing.assert_array_equal(found, np.clip(sums, kind.min, kind.max))
    floats = gemm(a.astype(np.float32), b.astype(np.float32), epilogue=epilogues.clamp, **bounds)
    np.testing.assert_array_equal(floats, np.clip(sums, kind.min, kind.max))


def test_k09_the_numbers_of_the_table():
    a, b = np.full((1, 1), 3.0, np.float32), np.array([[100.0, 3.0, np.nan]], np.float32)
    for kind, wanted in ((cute.s8, [127, 9]), (cute.s4, [7, 7])):
        found = gemm(a, b, epilogue=epilogues.clamp, low=kind.min, high=kind.max)
        np.testing.assert_array_equal(found[0, :2], wanted)
        assert np.isnan(found[0, 2])


@each(["s8", "e4m3"])
def test_results_in_8_bits_with_a_scale(name):
    rng, a, b, sums = operands()
    scale = rng.integers(1, 64, (M, 1)).astype(np.float32) / 4
    kind = cute.dtype(name)
    for named in ({"scale": scale}, {"scale": 0.375}):
        z = sums * named["scale"]
        wanted = np.rint(z) if kind.is_integer else z
        wanted = np.clip(wanted, float(kind.min), float(kind.max))
        wanted = wanted if kind.is_integer else wanted.astype(ml_dtypes.float8_e4m3fn).astype(float)
        found = gemm(a, b, epilogue=epilogues.quantized, out_dtype=name, **named)
        np.testing.assert_array_equal(found.astype(float), wanted)
    both = gemm(a, b, epilogue=epilogues.quantized_with_amax, out_dtype=name, **named)
    np.testing.assert_array_equal(both["D"], found)
    np.testing.assert_array_equal(both["amax"], abs(sums).max(1))
