"""Each row of `ACTIVATIONS`, and what follows from it: models, derivatives, weights, integers; and
one more row, which needs nothing else.
"""

import math

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from cute_py.cli.main import main
from cute_py.dtypes.table import from_numpy
from cute_py.emulate.numerics import function as rule_of
from cute_py.kernels.activations import ACTIVATIONS, Activation
from cute_py.kernels.elementwise import elementwise, function_of, tile_copy_of
from cute_py.kernels.epilogue import LinearCombination
from cute_py.ops.combination import compute_type
from cute_py.ops.reference import error_of
from cute_py.trace import formulas
from tests.emulated.test_ops_gemm import call_of
from tests.pure.test_gemm_tiles_sm90 import problem

ERF = np.vectorize(math.erf, "d")
TYPES = ("f2", "f4", "f8", ml_dtypes.bfloat16)
SOFTPLUS = Activation(
    lambda x: cute.maximum(x, 0) + cute.log(cute.exp(-abs(x)) + 1),
    lambda x: np.logaddexp(x, 0),
    "torch.nn.functional.softplus",
)


def of_sigmoid(x):
    return 1 / (1 + np.exp(-x))


# the derivatives, written independently
DERIVATIVES = {
    "relu": lambda x: np.where(x <= 0, 0.0, 1.0),
    "gelu": lambda x: 0.5 + ERF(x / 2**0.5) / 2 + x * np.exp(-x * x / 2) / (2 * np.pi) ** 0.5,
    "silu": lambda x: of_sigmoid(x) + x * of_sigmoid(x) * of_sigmoid(-x),
    "tanh": lambda x: 1 - np.tanh(x) ** 2,
    "sigmoid": lambda x: of_sigmoid(x) * of_sigmoid(-x),
    "softplus": of_sigmoid,
}


def derivative_of(name):
    """Return the derivative of a row, of numbers in f64; its own where none is written here."""
    row = ACTIVATIONS[name]
    own = np.vectorize(lambda x: row.derivative.number(x, row.formula.number(x), 1.0), "d")
    return DERIVATIVES.get(name, own)


@pytest.fixture
def softplus(monkeypatch):
    """A row more, as if the table had it when it was imported."""
    monkeypatch.setitem(ACTIVATIONS, "softplus", SOFTPLUS)


@pytest.fixture(params=[*ACTIVATIONS, "softplus"])
def row(request, softplus):
    return request.param, ACTIVATIONS[request.param]


def whole_range(dtype=np.float32):
    """Finite numbers of each size, subnormals and zeros among them."""
    bits = np.arange(0, 1 << 32, 1 << 22, dtype=np.uint64).astype(np.uint32) + np.uint32(12345)
    x = bits.view(np.float32)
    more = [0.0, -0.0, 1e-45, -1e-45, 88.8, -88.8, 100, -100, 3e38, -3e38]
    with np.errstate(over="ignore"):
        found = np.concatenate([x[np.isfinite(x)], np.float32(more)]).astype(dtype)
    return found[np.isfinite(found.astype("f8"))]


def computed(row, x, g=None, dtype=None):
    y = np.full((1, len(x)), 77, dtype or x.dtype)
    given = [a[None] for a in (x, g) if a is not None]
    kinds = tuple(from_numpy(a.dtype) for a in (*given, y))
    how = function_of(row, g is not None, kinds), tile_copy_of(kinds, (1,) * len(kinds), 1)
    elementwise(*given, *[None] * (2 - len(given)), y, *how)
    return y[0].astype("f8")


def test_the_function_of_arrays_is_the_model(row):
    """By the emulator's functions in f64."""
    x = np.linspace(-30, 30, 997)
    found = row[1].formula.replay(lambda fn, _kind, *given: rule_of(fn, cute.f64)(*given), x)
    np.testing.assert_allclose(found, row[1].model(x), rtol=1e-13, atol=1e-15)


def test_the_derivative_is_that_of_the_model(row):
    name, activation = row
    x = np.linspace(-12, 12, 1001)
    found = [activation.derivative.number(a, activation.formula.number(a), 1.0) for a in x]
    np.testing.assert_allclose(found, derivative_of(name)(x), rtol=1e-12, atol=1e-14)
    away = np.abs(x) > 1e-3
    slope = (activation.model(x + 1e-6) - activation.model(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(np.array(found)[away], slope[away], rtol=1e-7, atol=1e-8)
    assert activation.slope - 0.01 <= max(map(abs, found)) <= activation.slope


@pytest.mark.parametrize("dtype", TYPES)
def test_the_kernel_computes_function_and_derivative_of_all_numbers(row, dtype):
    """No finite number gives NaN; g is not read as a factor of infinity."""
    name, activation = row
    x = whole_range(dtype)
    wide = x.astype("f8")
    unit = {"f2": 1e-3, ml_dtypes.bfloat16: 8e-3}.get(dtype, 2e-6 if dtype == "f4" else 1e-14)
    with np.errstate(all="ignore"):
        wanted = activation.model(wide).astype(dtype)
        slope = derivative_of(name)(wide)
    result = computed(activation, x)
    np.testing.assert_allclose(result, wanted.astype("f8"), rtol=4 * unit, atol=unit)
    read = x if activation.keeps_input else wanted
    found = computed(activation, read, np.full_like(x, 0.5))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, slope / 2, rtol=4 * unit, atol=2 * unit)


def test_nan_and_infinities(row):
    name, activation = row
    x = np.float32([np.nan, np.inf, -np.inf])
    with np.errstate(all="ignore"):
        y = activation.model(x.astype("f8")).astype(np.float32)
    found = computed(activation, x if activation.keeps_input else y, np.ones_like(x))
    wanted = {"relu": [1, 1, 0], "gelu": [np.nan] * 3, "silu": [np.nan] * 3, "softplus": [0, 1, 0]}
    wanted |= {"tanh": [0, 0, 0], "sigmoid": [0, 0, 0]}
    np.testing.assert_array_equal(found[1:], wanted.get(name, found)[1:])
    assert np.isnan(found[0]) or name == "relu"


@pytest.mark.parametrize("count", [1, 7, 36, 2050])
def test_types_that_differ(count):
    """8-bit floats are read with gradients in f32; vectors are as long as the count allows."""
    rng = np.random.default_rng(count)
    x = rng.normal(0, 2, count).astype(ml_dtypes.float8_e4m3fn)
    g = rng.normal(0, 1, count).astype(np.float32)
    found = computed(ACTIVATIONS["silu"], x, g, "f4")
    wanted = g * DERIVATIVES["silu"](x.astype("f8"))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    found = computed(ACTIVATIONS["relu"], np.float32(1e6) * abs(g), None, ml_dtypes.float8_e5m2)
    assert (found <= 57344).all(), "clamped"


def test_a_thread_loads_vectors_of_16_bytes():
    x = np.zeros((1, 4096), np.float16)
    how = (
        function_of(ACTIVATIONS["gelu"], True, (cute.f16,)),
        tile_copy_of((cute.f16,), (16,), 4096),
    )
    plan = str(cute.trace(elementwise, x, x, x, *how))
    assert plan.count("load") == 2
    assert plan.count(" x8 if") == 3


# -- what follows from a row


TUNED = ("relu", "gelu", "silu", "tanh", "sigmoid")


def test_weights_registers_and_integers():
    """As the rule for tiles was fitted, and kernels were tuned."""
    rows = {name: ACTIVATIONS[name] for name in TUNED}.items()
    assert [name for name, row in rows if row.is_light] == ["relu"]
    assert [name for name, row in rows if row.keeps_integers] == ["relu"]
    assert [name for name, row in rows if row.keeps_input] == ["gelu", "silu"]
    assert [name for name, row in rows if row.formula.held > 1] == ["silu"]
    assert max(row.slope for _name, row in rows) == 1.13
    for name in (None, *TUNED):
        few = {
            kind: LinearCombination(kind, activation=name).is_in_place for kind in ("f32", "f64")
        }
        assert few == {"f32": name != "silu", "f64": name in (None, "relu")}
        assert not LinearCombination(source=True, activation=name).is_in_place
        weight = 2 if name not in (None, "relu") else int(name == "relu")
        assert (
            problem((512, 512, 512), epilogue=LinearCombination(activation=name)).weight == weight
        )
        kind = compute_type(cute.s8, (1, 0), name, integers=True)
        assert kind is (cute.s32 if name in (None, "relu") else cute.f32)


def test_a_row_is_traced_once_for_a_type(monkeypatch):
    count, traced = [], formulas._traced
    monkeypatch.setattr(formulas, "_traced", lambda *given: count.append(given) or traced(*given))
    row = Activation(lambda x: cute.tanh(x) * 1.5, lambda x: np.tanh(x) * 1.5, "")
    x = np.linspace(-1, 1, 33)
    for _ in range(3):
        computed(row, x.astype("f4"), x.astype("f4"))
        computed(row, x)
        assert not row.is_light
        assert not row.keeps_integers
        assert row.slope == 1.5
    assert [kind.name for _function, kind, _inputs in count] == ["f32", "f64", "s32"]


def test_a_new_row_is_all_that_an_activation_needs(softplus, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((20, 16), (16, 24)))
    result = cute.ops.gemm(a, b, bias=b[0], activation="softplus", checks=True)
    exact = a.astype("f8") @ b.astype("f8") + b[0]
    np.testing.assert_allclose(result, np.logaddexp(exact, 0), rtol=1e-5, atol=1e-6)
    call = call_of(a, b, bias=b[0], activation="softplus")
    assert error_of(call.run(), call, judge=True).within
    with pytest.raises(cute.CuteError, match="'sigmoid', 'softplus'; f"):
        cute.ops.gemm(a, b, activation="softmax")
    heavy = problem((512, 512, 512), epilogue=LinearCombination(activation="softplus"))
    assert heavy.weight == 2
    np.save("a.npy", a)
    np.save("b.npy", b)
    assert main(["gemm", "a.npy", "b.npy", "-o", "d.npy", "--activation", "softplus"]) == 0
    wanted = np.logaddexp(exact - b[0], 0)
    np.testing.assert_allclose(np.load("d.npy"), wanted, rtol=1e-5, atol=1e-6)
    capsys.readouterr()
    assert main(["gemm", "--help"]) == 0
    assert "relu, gelu, silu, tanh, sigmoid or softplus" in capsys.readouterr().out
