"""Names, memory and results of functions as epilogues: what is right, and what is refused."""

from functools import partial
from inspect import signature

import numpy as np
import pytest

import cute_py as cute
from cute_py.ops.call import overlap
from cute_py.ops.epilogues import INSIDE
from cute_py.ops.product import gemm

M, N, K = 5, 7, 6


def operands(kind=np.float32):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(kind) for shape in ((M, K), (K, N)))
    return a, b, a.astype(np.int64) @ b.astype(np.int64)


def function_of(text):
    return eval(f"lambda x{text}", {"cute": cute, "np": np})


# -- names

# names in the code that is made around a function: of the caller, of kernels, of torch
NAMES = (
    *["known", "request", "answered", "traced", "is_traced", "shorten", "varied", "given"],
    *["CuteError", "OverflowError", "body", "found", "error", "self", "count", "index", "out1"],
    *[f"{x}{end}" for x in INSIDE for end in ("", "_")],
)


def test_any_plain_name_is_that_of_an_argument_and_of_a_result():
    a, b, exact = operands()
    some = len(NAMES) // 2
    for others, names in ((NAMES[:some], NAMES[some:]), (NAMES[some:], NAMES[:some])):
        terms = {x: float(i) for i, x in enumerate(names)}
        terms |= {x: np.full(N, i, np.float32) for i, x in enumerate(names[::2])}
        results = ", ".join([f"{x!r}: x * {i}" for i, x in enumerate(others)])
        read = function_of(f", {', '.join(names)}: {{'D': x + {' + '.join(names)}, {results}}}")
        found = gemm(a, b, epilogue=read, **terms)
        np.testing.assert_array_equal(found["D"], exact + sum(np.max(x) for x in terms.values()))
        for i, x in enumerate(others):
            np.testing.assert_array_equal(found[x], exact * i)


@pytest.mark.parametrize("name", ["t0", "t1", "inf", "nan", "x0"])
def test_names_that_texts_of_formulas_have_are_told_apart(name):
    a, b, exact = operands()
    number = float(name) if name in ("inf", "nan") else 5.0
    texts = ("({0} - (x + 1))", "((x + 1) - {0})", "((x + 1) - (x + 1))", "({0} - {0})")
    for text in (*texts, *[x.replace("{0}", f"float('{number}')") for x in texts[:2]]):
        code = text.format(name)
        found = gemm(a, b, epilogue=function_of(f", {name}: {code}"), **{name: 2.0})
        np.testing.assert_array_equal(found, eval(code, {"x": exact, name: 2.0}) + exact * 0.0)


def test_names_that_kernels_have_may_come_together():
    a, b, exact = operands()
    found = gemm(a, b, epilogue=lambda x, A, A_, A__: x + A * A_ - A__, A=1.0, A_=2.0, A__=4.0)
    np.testing.assert_array_equal(found, exact - 2)


@pytest.mark.parametrize("name", ["_x", "é", "λ", "", "1x", "x y", "x-y", "lambda", 3, None])
def test_other_names_are_refused(name):
    a, b, _exact = operands()
    with pytest.raises(cute.CuteError) as caught:
        gemm(a, b, epilogue=lambda x: {"D": x, name: x})
    assert caught.value.code == "epilogue-name"
    if isinstance(name, str) and name.isidentifier() and name != "lambda":
        with pytest.raises(cute.CuteError) as caught:
            gemm(a, b, epilogue=function_of(f", {name}: x * {name}"), **{name: 2.0})
        assert caught.value.code == "epilogue-name"


def test_factors_have_the_defaults_of_gemm():
    a, b, exact = operands()
    for name, usual in (("alpha", 1), ("beta", 0)):
        assert signature(gemm).parameters[name].default == usual
        np.testing.assert_array_equal(
            gemm(a, b, epilogue=function_of(f", {name}: x * {name}")), exact * usual
        )
        gemm(a, b, epilogue=function_of(f", {name}={usual}: x * {name}"))
        with pytest.raises(cute.CuteError, match=name) as caught:
            gemm(a, b, epilogue=function_of(f", {name}=2.0: x * {name}"))
        assert caught.value.code == "epilogue-name"


# -- functions that are no `def`


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


def test_objects_that_are_called_and_partial_functions():
    a, b, exact = operands()
    scaled = Scaled(2.0)
    given = partial(lambda x, s: x * s, s=2.0)
    for factor in (2.0, 3.0, 2.0):
        scaled.factor = given.keywords["s"] = factor
        for function in (scaled, scaled.__call__, given):
            np.testing.assert_array_equal(gemm(a, b, epilogue=function), exact * factor)
    np.testing.assert_array_equal(gemm(a, b, epilogue=abs), abs(exact))


def test_integers_have_functions_of_their_own():
    a, b, exact = operands(np.int8)
    for text in ("x // 3", "x % 3", "x & 5", "x >> 1"):
        wanted = eval(text, {"x": exact})
        np.testing.assert_array_equal(gemm(a, b, epilogue=function_of(f": {text}")), wanted)
    with pytest.raises(cute.CuteError) as caught:
        gemm(*operands()[:2], epilogue=lambda x: x // 3)
    assert caught.value.code == "kernel-domain"


def test_results_that_do_not_depend_on_the_sums():
    a, b, _exact = operands()
    for text, wanted in {"n": 3, "n * s": 6, "s": 2, "n < s": 0, "7": 7}.items():
        function = function_of(f", n, s: {text}")
        found = gemm(a, b, epilogue=function, n=3.0, s=np.array(2, np.float32))
        np.testing.assert_array_equal(found, np.full((M, N), wanted))
    found = gemm(a, b, epilogue=lambda x, n: {"D": x, "m": cute.reduce("add", n, mode=0)}, n=3.0)
    np.testing.assert_array_equal(found["m"], np.full(N, 3.0 * M))


# -- results over all elements


def test_a_result_over_all_elements_is_of_the_value_at_that_line():
    a, b, exact = operands()

    def epilogue(x):
        y = x + 1
        sums = cute.reduce("add", y, mode=0)
        y *= 100
        return {"D": y, "sums": sums}

    found = gemm(a, b, epilogue=epilogue)
    np.testing.assert_array_equal(found["sums"], (exact + 1).sum(0))
    np.testing.assert_array_equal(found["D"], (exact + 1) * 100)


@pytest.mark.parametrize("text", [
    "r ** 2", "2 ** r", "abs(r)", "+r", "-r", "r % 2", "r // 2", "r & 1", "~r", "r[0]", "float(r)",
    "r.to('f16')", "int(r)", "cute.where(r == 1, x, 0)", "cute.where(x < 0, r, 0)", "cute.exp(r)",
    "cute.maximum(x, r)", "r < 1", "1 - r", "x * r",
])  # fmt: skip
def test_nothing_is_computed_with_it(text):
    a, b, _exact = operands()
    function = eval(f"lambda x, r: {text}", {"cute": cute})
    with pytest.raises(cute.CuteError) as caught:
        gemm(a, b, epilogue=lambda x: {"D": x, "m": function(x, cute.reduce("max", x))})
    assert caught.value.code == "formula-combined"


def sums_and_most(x):
    return {
        "D": x,
        "aux": x + 1,
        "sums": cute.reduce("add", x, mode=0),
        "most": cute.reduce("max", x, mode=0),
    }


def read_only(x):
    x.flags.writeable = False
    return x


def of_one_element(x, shape=(N,)):
    return np.lib.stride_tricks.as_strided(x, shape, (0,) * len(shape))


# name -> (the code, arguments of arrays out, aux and row)
WRONG_OUTPUTS = {
    "in D": ("epilogue-overlap", lambda out, aux, row: {"sums": out[1]}),
    "in aux": ("epilogue-overlap", lambda out, aux, row: {"aux": aux, "sums": aux[1]}),
    "one for two": ("epilogue-overlap", lambda out, aux, row: {"sums": row, "most": row}),
    "shape": ("ops-shape", lambda out, aux, row: {"sums": row[1:]}),
    "text": ("ops-array", lambda out, aux, row: {"sums": "x"}),
    "a list": ("ops-array", lambda out, aux, row: {"sums": [0.0] * N}),
    "read-only": ("ops-read-only", lambda out, aux, row: {"sums": read_only(row)}),
    "one element": ("ops-overlap", lambda out, aux, row: {"sums": of_one_element(row)}),
    "integers": ("ops-out-dtype", lambda out, aux, row: {"sums": row.astype(np.int32)}),
}


@pytest.mark.parametrize("name", WRONG_OUTPUTS)
def test_arrays_for_results_over_all_elements_are_refused_before_anything_is_written(name):
    code, made = WRONG_OUTPUTS[name]
    a, b, _exact = operands()
    out, aux = (np.full((M, N), 7, np.float32) for _ in range(2))
    with pytest.raises(cute.CuteError) as caught:
        gemm(a, b, epilogue=sums_and_most, out=out, **made(out, aux, np.zeros(N, np.float32)))
    assert caught.value.code == code
    assert str(caught.value).startswith("cute.ops.gemm:")
    assert "sums" in str(caught.value)
    assert (out == 7).all()
    assert (aux == 7).all()


def test_extremes_may_be_rounded_to_integers():
    a, b, exact = operands()
    most = np.zeros(N, np.int16)
    found = gemm(a, b, epilogue=sums_and_most, most=most)
    assert found["most"] is most
    np.testing.assert_array_equal(most, exact.max(0))


# -- memory


def test_outputs_may_be_parts_of_one_array():
    a, b, exact = operands()
    both = np.zeros((M, 2 * N), np.float32)
    pairs = np.zeros((M, N, 2), np.float32)
    for first, second in ((both[:, :N], both[:, N:]), (pairs[..., 1], pairs[..., 0])):
        gemm(a, b, epilogue=lambda x: {"D": x, "aux": x + 1}, out=first, aux=second)
        np.testing.assert_array_equal(first, exact)
        np.testing.assert_array_equal(second, exact + 1)


def test_arrays_overlap_where_elements_share_memory():
    x = np.zeros((8, 12), np.float32)
    apart = [(x[:, :6], x[:, 6:]), (x[:, ::2], x[:, 1::2]), (x[:4], x[4:]), (x[::-2], x[::2])]
    assert not any(overlap(y, z) for y, z in apart)
    for y, z in ((x[:, :7], x[:, 6:]), (x[:, ::2], x[:, ::3]), (x[:5], x[4:]), (x, x.T)):
        assert overlap(y, z)
        assert overlap(z, y)
    assert not overlap(x[:, :0], x)
    wide = np.lib.stride_tricks.as_strided(x, (2,) * 6, (4, 12, 20, 28, 36, 44))
    assert overlap(wide, wide[::-1])  # or it is too much to tell


@pytest.mark.parametrize("name", ["out", "aux"])
def test_refusals_of_memory_name_the_output(name):
    a, b, _exact = operands()
    for x in (read_only(np.zeros((M, N), np.float32)), np.zeros((1, 1), np.float32)):
        given = {name: of_one_element(x, (M, N)) if x.size == 1 else x}
        with pytest.raises(cute.CuteError, match=rf"given (an array as )?{name} "):
            gemm(a, b, epilogue=lambda x: {"D": x, "aux": x}, **given)


# -- integers that s32 does not have

WIDE = {np.uint32: 2**32 - 5, np.int64: 2**33 + 3, np.uint64: 2**34 + 7}
UNLIKE = (
    ": cute.where(x + t > 0, x, 0)",
    ": cute.where(t > 0, x, -x)",
    ": (x + t) >> 1",
    ": x + t // 2",
    ': {"D": x, "row": cute.reduce("max", x + t, mode=1)}',
)


@pytest.mark.parametrize("kind", WIDE)
def test_integers_beyond_s32_may_be_added_and_multiplied(kind):
    """Modulo 2^32 that is what NumPy has."""
    a, b, sums = operands(np.int8)
    t = np.full((M, N), WIDE[kind], kind)

    def mixed(x, t):
        signed = cute.where(x > 0, t, -t)
        return {"D": 3 * t - x * t, "signed": signed, "row": cute.reduce("add", x + t, mode=1)}

    found = gemm(a, b, epilogue=mixed, t=t, out_dtype="s32")
    t = t.astype(np.int64)
    wanted = {"D": 3 * t - sums * t, "signed": np.where(sums > 0, t, -t), "row": (sums + t).sum(1)}
    for name, x in wanted.items():
        assert ((found[name].astype(np.int64).reshape(x.shape) - x) % 2**32 == 0).all(), name


@pytest.mark.parametrize("text", UNLIKE)
def test_integers_beyond_s32_are_an_error_where_wrapping_would_be_seen(text):
    (a, b, _sums), function = operands(np.int8), function_of(f", t{text}")
    for kind in WIDE:
        with pytest.raises(cute.CuteError, match=r"t of [us](32|64), which wraps") as caught:
            gemm(a, b, epilogue=function, t=np.full((M, N), 2, kind), out_dtype="s32")
        assert caught.value.code == "epilogue-wraps"


def test_a_bias_beyond_s32_is_an_error_before_an_activation():
    a, b, sums = operands(np.int8)
    bias = np.full(N, 2**33 + 3)
    with pytest.raises(cute.CuteError, match=r"bias of s64") as caught:
        gemm(a, b, bias=bias, activation="relu", out_dtype="s32")
    assert caught.value.code == "epilogue-wraps"
    found = gemm(a, b, bias=bias, out_dtype="s32").astype(np.int64)
    assert ((found - sums - bias) % 2**32 == 0).all()
