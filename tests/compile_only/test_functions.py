"""Functions of registers on a GPU: each compiles for each float type, with the bound it documents.

No GPU is needed: the polynomials of erf and gelu are computed here in f32, an operation a rounding,
and ex2.approx is given its greatest error in both directions.
"""

import math
import re

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan.functions import FUNCTIONS
from cute_py.trace.arithmetic import apply
from tests.sampling import quick

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.ops.registers import functions  # after the skip: it needs llvmlite

LOCAL = 64  # bytes of local memory: sin and cos of f64 keep a large argument there
BOUND = 2.0  # ulp
REFERENCE = np.frompyfunc(math.erf, 1, 1)
FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")


# -- erf of f32, as it is emitted


def fma(a, b, c):
    """a*b + c, rounded once but for ties of the sum in f64."""
    return (np.float64(a) * np.float64(b) + np.float64(c)).astype(np.float32)


def horner(x, coefficients):
    total = np.full_like(x, np.float32(coefficients[-1]))
    for each in coefficients[-2::-1]:
        total = fma(total, x, np.float32(each))
    return total


def erf(x, error=0):
    """The steps of functions.erf; `error` of ex2.approx in ulp."""
    a = np.abs(x)
    with np.errstate(over="ignore", invalid="ignore"):  # far out this part is not taken
        near = fma(horner(x * x, functions.P), x, x)
    power = np.exp2(np.float64(horner(np.minimum(a, np.float32(4)), functions.Q)))
    power = power.astype(np.float32)
    far = np.float32(1) - (power + np.float32(error) * np.spacing(power))
    return np.where(a < np.float32(functions.CUT), near, np.copysign(far, x))


def off_by(x, error=0):
    """The greatest distance from math.erf (ulp)."""
    want = REFERENCE(x.astype(np.float64)).astype(np.float64)
    unit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    return float((np.abs(erf(x, error) - want) / unit).max())


def sweep(low, high, count=200_000):
    """Floats of f32 between two, evenly by their bit images."""
    first, last = (int(np.float32(x).view(np.int32)) for x in (low, high))
    return np.linspace(first, last, count).astype(np.int32).view(np.float32)


@pytest.mark.parametrize("error", [-2, 0, 2])
@pytest.mark.parametrize(("low", "high"), [(2.0**-20, 0.9), (0.9, 1.0), (0.92, 4.5)])
def test_erf_is_within_its_bound(low, high, error):
    x = sweep(low, high)
    assert off_by(x, error) < BOUND
    assert (erf(-x, error) == -erf(x, error)).all()


def test_erf_of_small_large_and_special_numbers():
    assert off_by(sweep(1e-38, 2.0**-20, 10_000)) < 1
    far = np.float32([4, 5, 100, 3e38])
    assert (erf(far) == 1).all()
    assert (erf(-far) == -1).all()
    zeros = erf(np.float32([0.0, -0.0]))
    assert (zeros == 0).all()
    assert np.signbit(zeros).tolist() == [False, True]


# -- gelu of f32


def gelu(x, error=0):
    """The steps of functions.gelu; `error` of ex2.approx in ulp."""
    a = np.abs(np.minimum(x, np.float32(functions.SURE)))
    with np.errstate(over="ignore", invalid="ignore"):  # far out
        tail = np.exp2(np.float64(horner(a, functions.TAIL))).astype(np.float32)
        return fma(-a, tail + np.float32(error) * np.spacing(tail), np.maximum(x, np.float32(0)))


def exact_gelu(x):
    wide = x.astype(np.float64)
    return wide * np.frompyfunc(math.erfc, 1, 1)(-wide * 0.5**0.5).astype(np.float64) / 2


@pytest.mark.parametrize("error", [-2, 0, 2])
def test_gelu_is_within_its_bound(error):
    """3 * 2**-24 of abs(x), and where x is negative 1e-4 of itself up to -5."""
    positive = sweep(2.0**-30, 1e4)
    for x in (positive, -positive):
        exact = exact_gelu(x)
        off = np.abs(gelu(x, error) - exact)
        assert (off <= 3 * 2.0**-24 * np.abs(x)).all()
        near = np.abs(x) <= 5
        assert (off[near] <= 1.1e-4 * np.abs(exact[near])).all()


def test_gelu_of_small_large_and_special_numbers():
    tiny = sweep(1e-38, 2.0**-30, 10_000)
    assert (np.abs(gelu(tiny) - tiny / 2) <= np.spacing(tiny)).all()
    far = np.float32([16, 17, 1e5, 3e38])
    assert (gelu(far) == far).all()
    assert (gelu(-far) == 0).all()
    found = gelu(np.float32([0.0, np.inf, -np.inf, np.nan]))
    assert found[:2].tolist() == [0, np.inf]
    assert np.isnan(found[2:]).all()  # -inf * 0, as torch has it


def test_gelu_is_emitted_as_it_was_computed():
    ptx = compiled("gelu", "f32").ptx
    counted = {
        name: len(re.findall(rf"\b{re.escape(name)}", ptx))
        for name in ("fma.rn.f32", "ex2.approx.ftz", "min.NaN.f32", "max.NaN.f32", "div", "mul.rn")
    }
    steps = {"fma.rn.f32": len(functions.TAIL), "ex2.approx.ftz": 1}
    assert counted == {**steps, "min.NaN.f32": 1, "max.NaN.f32": 1, "div": 0, "mul.rn": 0}


def test_polynomials_are_what_f32_holds():
    for each in (*functions.P, *functions.Q, *functions.TAIL):
        assert float(np.float32(each)) == each


def test_erf_is_emitted_as_it_was_computed():
    """One fma a coefficient, nothing contracted, NaN not dropped by a minimum."""
    ptx = compiled("erf", "f32").ptx
    counted = {
        name: len(re.findall(rf"\b{name}", ptx)) for name in ("fma.rn.f32", "ex2.approx.ftz")
    }
    assert counted == {"fma.rn.f32": len(functions.P) + len(functions.Q) - 1, "ex2.approx.ftz": 1}
    assert "min.f32" not in ptx
    assert ptx.count("mul.rn.f32") == 1
    assert ptx.count("sub.rn.f32") == 1


# -- all functions and types

ARITHMETIC = re.compile(
    r"(?<![\w.])((?!mov|ld|st)[a-z]\w*(?:\.[a-zA-Z]\w*)*\.f32|(?:and|or)\.b32)\s"
)
ROUNDED = "div.rn.f32", "sqrt.rn.f32"


@pytest.mark.parametrize(
    "name", [name for name, row in FUNCTIONS.items() if row.domain in ("any", "float")]
)
def test_the_price_of_a_function_is_that_of_its_instructions(name):
    found = ARITHMETIC.findall(compiled(name, "f32").ptx)
    price = sum(8 if ".approx" in op else 16 if op in ROUNDED else 1 for op in found)
    assert price == FUNCTIONS[name].price


@cute.kernel
def applied(x, y, names: tuple):
    """y[k] = the function names[k] of the rows x[0], x[1], x[2]."""
    cute.launch(grid=1, block=32)
    i = cute.thread_idx()
    for k, name in enumerate(names):
        values = [x[j % 3, i] for j in range(FUNCTIONS[name].arity)]
        if FUNCTIONS[name].fixed:
            values[-1] = 0xCA
        if name == "where":
            values[0] = x[0, i] == x[1, i]
        result = apply(name, *values)
        y[k, i] = cute.where(result, x[0, i], x[1, i]) if FUNCTIONS[name].compares else result


def compiled(names, kind):
    """Return the compiled kernel that applies functions to registers of a type."""
    names = (names,) if isinstance(names, str) else names
    x = np.zeros((3, 32), cute.dtype(kind).numpy)
    y = np.zeros((len(names), 32), x.dtype)
    return cute.compile(cute.trace(applied, x, y, names), "sm_80", LOCAL)


OFTEN = ("f16", "f32", "f64", "u8", "s32", "s64")  # the others compile in the slow run


@pytest.mark.parametrize("kind", quick([(x,) for x in OFTEN], [*FLOATS, *INTEGERS]))
def test_every_function_compiles_for_every_type(kind):
    domains = ["any", "float" if kind in FLOATS else "int", *["word"] * (kind in ("s32", "u32"))]
    names = tuple(name for name, row in FUNCTIONS.items() if row.domain in domains)
    assert len(names) > 18
    found = compiled(names, kind)
    assert ".extern .func" not in found.ptx  # libdevice is linked
    assert found.ptx.count("st.global") == len(names)


@pytest.mark.parametrize("fn", ["popc", "clz", "brev"])
def test_functions_of_bits_are_one_instruction(fn):
    for bits in (32, 64):
        assert f"{fn}.b{bits}" in compiled(fn, f"u{bits}").ptx


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_narrow_fma_rounds_once(kind):
    ptx = compiled("fma", kind).ptx
    assert f"fma.rn.{kind} " in ptx
    assert "fma.rn.f32" not in ptx


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        ("rcp", "rcp.rn.f64"),
        ("rsqrt", "sqrt.rn.f64"),
        ("floor", "cvt.rmi.f64.f64"),
        ("ceil", "cvt.rpi.f64.f64"),
    ],
)
def test_exact_functions_of_f64_are_rounded_instructions(fn, text):
    ptx = compiled(fn, "f64").ptx
    assert text in ptx
    assert "approx" not in ptx


@pytest.mark.parametrize("kind", ["s32", "u32", "s8"])
@pytest.mark.parametrize("fn", ["shl", "shr"])
def test_shifts_by_the_width_or_more_are_those_of_the_emulator(fn, kind):
    """PTX clamps what LLVM leaves undefined: a comparison, or a minimum, stands beside each."""
    ptx = compiled(fn, kind).ptx
    assert re.search(r"\b(setp|min)\.", ptx), ptx
