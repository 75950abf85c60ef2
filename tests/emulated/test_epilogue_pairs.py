"""Epilogues that combine pairs of neighbouring columns: families, types, shapes and refusals."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import epilogues
from cute_py.kernels.epilogue import PairedFunction, kernel_with
from cute_py.kernels.gemm_sm90 import KERNELS
from cute_py.kernels.sum_parts import parts_copy, sum_parts
from cute_py.ops.product import gemm
from cute_py.plan.pairs import ANY, PAIRED, WHOLE, split
from cute_py.trace.formulas import formula
from tests.emulated.kernel_data import poisoned
from tests.hopper_family import CONFIGS, arguments, result_of
from tests.sampling import each, in_turn, quick


def combined(x, bias, residual, row, column, full, scale):
    """Return results of N/2 and of N columns, from arrays of all forms before and after."""
    z = x + bias * column + full
    first, second = cute.pairs(z)
    y = first * scale + second * row + residual
    return {"D": y, "z": z, "most": cute.maximum(first, second) + column}


NAMES = "bias", "residual", "row", "column", "full"
SPREADS = "row", "matrix of pairs", "row of pairs", "column", "matrix"


def terms_of(rng, m, n, batch=()):
    shapes = {"bias": (n,), "residual": (m, n // 2), "row": (n // 2,), "column": (m, 1)}
    shapes["full"] = m, n
    lead = dict.fromkeys(("residual", "column"), batch)
    return {
        x: rng.integers(-3, 4, (*lead.get(x, ()), *s)).astype(np.float32) for x, s in shapes.items()
    }


def model(sums, bias, residual, row, column, full, scale):
    z = sums + bias * column + full
    first, second = z[..., ::2], z[..., 1::2]
    y = first * scale + second * row + residual
    return {"D": y, "z": z, "most": np.maximum(first, second) + column}


KINDS = {"simt": np.float32, "halves": np.float16, "f64": np.float64, "integers": np.int8}
SIZES = ((9, 12), (35, 66), (1, 2), (33, 24))


@pytest.mark.parametrize(("kind", "size"), quick(in_turn(KINDS, SIZES)[:2], KINDS, SIZES))
def test_pairs_equal_numpy(kind, size):
    rng, (m, n) = np.random.default_rng(0), size
    a, b = (rng.integers(-3, 4, s).astype(KINDS[kind]) for s in ((m, 8), (8, n)))
    terms = terms_of(rng, m, n) | {"scale": 2.0}
    found = gemm(a, b, epilogue=combined, out_dtype="f32", checks=True, **terms)
    wanted = model(a.astype(float) @ b.astype(float), **terms)
    for name, x in wanted.items():
        np.testing.assert_array_equal(found[name], x, err_msg=name)


def test_pairs_of_integers_batches_and_outputs_that_are_given():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((3, 9, 20), (20, 12)))
    exact = a.astype(np.int64) @ b.astype(np.int64)
    out, wide = np.zeros((3, 9, 6), np.int32), np.zeros((3, 9, 12, 2), np.int32)

    def epilogue(x, each):
        first, second = cute.pairs(x)
        most = cute.reduce("max", first, mode=1)
        return {"D": first - second + each, "all": x * 2, "most": most}

    terms = {"each": np.arange(3, dtype=np.int32)[:, None, None], "all": wide[..., 1]}
    most = np.zeros((3, 9), np.int32)
    found = gemm(a, b, epilogue=epilogue, out=out, most=most, **terms)
    assert found["D"] is out
    np.testing.assert_array_equal(out, exact[..., ::2] - exact[..., 1::2] + terms["each"])
    np.testing.assert_array_equal(wide[..., 1], exact * 2)
    assert not wide[..., 0].any()
    np.testing.assert_array_equal(most, exact[..., ::2].max(-1))


GATES = {
    "swiglu": lambda x: x / (1 + np.exp(-x)),
    "geglu": lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
}


@each(GATES)
def test_gates_by_name(name):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((9, 8)), rng.standard_normal((8, 12))
    found, sums = gemm(a, b, epilogue=getattr(epilogues, name)), a @ b
    wanted = GATES[name](sums[:, ::2]) * sums[:, 1::2]
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)


def test_parts_of_pairs_keep_their_value_in_place():
    """`pairs` takes the value at that line, and its results are registers like others."""
    a, b = np.ones((3, 1), np.float32), np.arange(8, dtype=np.float32)[None]

    def epilogue(x):
        y = x + 1
        first, second = cute.pairs(y)
        y *= 100
        first += second
        return {"D": first, "y": y, "number": 7.0}

    found = gemm(a, b, epilogue=epilogue)
    np.testing.assert_array_equal(found["D"], np.tile(2 * b[:, ::2] + 3, (3, 1)))
    np.testing.assert_array_equal(found["y"], np.tile(100 * b + 100, (3, 1)))
    np.testing.assert_array_equal(found["number"], np.full((3, 8), 7))


# -- the other kernels

FAMILIES = ("64x32-pdl", "pp-direct", "128x128", "64x128-split", "f32-result", "pp-128x128")


def paired():
    kinds = {"row": WHOLE, "matrix": WHOLE, "matrix of pairs": PAIRED, "row of pairs": PAIRED}
    columns = [WHOLE, *[kinds.get(x, ANY) for x in SPREADS], ANY]
    found = split(formula(combined, "f32", ("x", *NAMES, "scale")), columns)
    return PairedFunction(found, SPREADS, (False, True, False))


@pytest.mark.parametrize("name", [
    x if x in FAMILIES[:1] else pytest.param(x, marks=pytest.mark.slow) for x in FAMILIES
])  # fmt: skip
def test_the_families_of_hopper(name):
    config, rng = CONFIGS[name], np.random.default_rng(0)
    m, n, k = config.tile
    rows, width, _depth = shape = m + 8, n + 8, k + 16
    (A, B, _C, _bias, D), exact = arguments(config, shape, result_of(name))
    terms = terms_of(rng, rows, width)
    terms["column"] = terms["column"][:, 0]
    kernel = kernel_with(KERNELS[config.schedule], NAMES, ("D", "z", "most"), ("scale",))
    D = np.ascontiguousarray(D[:, : width // 2])
    z, most = poisoned((rows, width), D.dtype), poisoned((rows, width // 2), np.float32)
    blocks = 2 * config.cluster * config.split
    call = A, B, *[terms[x] for x in NAMES], D, z, most, 2.0, blocks, 2, config, paired()
    cute.emulate(kernel, *call, checks=True)
    terms["column"] = terms["column"][:, None]
    for x, wanted in zip((D, z, most), model(exact, **terms, scale=2.0).values(), strict=True):
        np.testing.assert_array_equal(x.astype(float), wanted.astype(x.dtype).astype(float))


def test_parts_of_k():
    rng = np.random.default_rng(3)
    P = rng.integers(-9, 9, (33, 20, 3)).astype(np.float32)
    terms = terms_of(rng, 33, 20)
    terms["column"] = terms["column"][:, 0]
    D, z, most = (np.zeros((33, n), np.float32) for n in (10, 20, 10))
    kernel = kernel_with(sum_parts, NAMES, ("D", "z", "most"), ("scale",))
    call = P, *[terms[x] for x in NAMES], D, z, most, 2.0, 3, parts_copy(20), paired()
    cute.emulate(kernel, *call, checks=True)
    terms["column"] = terms["column"][:, None]
    for x, wanted in zip((D, z, most), model(P.sum(2), **terms, scale=2.0).values(), strict=True):
        np.testing.assert_array_equal(x, wanted)


def test_a_choice_of_threads_without_pairs_is_refused():
    a, b = np.ones((32, 8), np.float32), np.ones((32, 8), np.float32).T
    with pytest.raises(cute.CuteError, match="pairs of columns") as caught:
        gemm(a, b, epilogue=epilogues.swiglu, config="tile=32x32x8,warps=4x32")
    assert caught.value.code == "kernel-argument"


# -- what does not fit


@pytest.mark.parametrize(("function", "n", "terms", "code"), [
    (lambda x: cute.pairs(x)[0], 7, {}, "epilogue-pairs"),
    (lambda x: cute.pairs(x)[0] + x, 8, {}, "epilogue-pairs"),
    (lambda x: cute.pairs(cute.pairs(x)[0])[0], 8, {}, "epilogue-pairs"),
    (lambda x, y: cute.pairs(x)[0] + y, 8, {"y": np.ones(8)}, "epilogue-pairs"),
    (lambda x, y: cute.pairs(x + y)[0], 8, {"y": np.ones(4)}, "epilogue-pairs"),
    (lambda x, y: cute.pairs(x)[0] + y, 8, {"y": np.ones(5)}, "ops-shape"),
    (lambda x, y: x + y, 8, {"y": np.ones(4)}, "ops-shape"),
    (lambda x: {"D": x, "y": cute.pairs(x)[1]}, 8, {"y": np.ones((3, 8))}, "ops-shape"),
    (lambda x: cute.pairs(3)[0] + x, 8, {}, "not-a-tensor"),
])  # fmt: skip
def test_what_is_no_pair_is_refused(function, n, terms, code):
    a, b = np.ones((3, 4), np.float32), np.ones((4, n), np.float32)
    with pytest.raises(cute.CuteError) as caught:
        gemm(a, b, epilogue=function, **terms)
    assert caught.value.code == code, caught.value
