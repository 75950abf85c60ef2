"""Random epilogues: operations, inputs, outputs, reductions, pairs and types, against NumPy; and
their gradients against differences.
"""

from functools import partial

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cute_py as cute
from cute_py.ops.epilogues import Function, by_numpy
from cute_py.plan.pairs import PAIRED, WHOLE, gradients, is_wide
from tests.approximate import Approximate
from tests.epilogue_functions import (
    EXACT,
    HALVES,
    SHAPES,
    SMOOTH,
    K,
    M,
    N,
    approximate_model_of,
    columns_of,
    epilogues,
    function_of,
    model_of,
)

KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
KINDS |= {"s8": np.int8, "u8": np.uint8}
OUTPUTS = ("f32", "f64", "f16", "s32", "s8")
checked = partial(cute.ops.gemm, checks=True)
kinds = st.tuples(*[st.sampled_from([*KINDS])] * 2, st.sampled_from(OUTPUTS))


def check_values(made, seed, kinds, other, multiply):
    """Compare the results of a random function with NumPy.

    Args:
        made: as `epilogues` draws it.
        seed: of the values.
        kinds: types of operands, of what else is read, and of D.
        other: of other outputs, which are given.
        multiply: what computes them.

    """
    of_operands, of_terms, out_dtype = kinds
    rng = np.random.default_rng(seed)

    def drawn(shape, kind):
        least = 0 if kind == "u8" else -3
        return rng.integers(least, 4, shape).astype(KINDS[kind])

    a, b = drawn((M, K), of_operands), drawn((K, N), of_operands)
    function, names = function_of(made, EXACT)
    terms = {x: drawn((SHAPES | HALVES)[x], of_terms) for x in names if x != "number"}
    terms |= {"number": 1.5} if "number" in names else {}
    values = {x: y if x == "number" else y.astype(float) for x, y in terms.items()}
    wanted = model_of(made, EXACT)({"acc": a.astype(float) @ b.astype(float), **values})
    given = {}
    for name in [x for x in wanted if x != "D" and np.ndim(wanted[x]) == 2]:
        given[name] = np.zeros((M, wanted[name].shape[1]), cute.dtype(other).numpy)
    found = multiply(a, b, epilogue=function, out_dtype=out_dtype, **terms, **given)
    found = found if isinstance(found, dict) else {"D": found}
    assert found.keys() == wanted.keys()
    for name, x in found.items():
        exact = wanted[name]
        if x.dtype.kind in "iu":
            info = np.iinfo(x.dtype)
            exact = np.clip(np.rint(exact), info.min, info.max)
        exact = np.broadcast_to(exact, x.shape).astype(x.dtype)
        np.testing.assert_array_equal(x, exact, err_msg=name)


exact_functions = given(
    epilogues(EXACT), st.integers(0, 99), kinds, st.sampled_from(OUTPUTS), st.just(checked)
)
test_a_few_random_epilogues_equal_numpy = settings(max_examples=4)(exact_functions(check_values))
test_random_epilogues_equal_numpy = pytest.mark.slow(
    settings(max_examples=60)(exact_functions(check_values))
)


FLOATS = {x: KINDS[x] for x in ("f16", "bf16", "f32", "f64")}
UNITS = {"f32": 2.0**-24, "f64": 2.0**-53}  # half the distance of 1 to the next
floats = st.tuples(*[st.sampled_from([*FLOATS])] * 2, st.sampled_from(["f16", "f32", "f64"]))


def check_bounds(made, seed, kinds):
    """Compare the results of a random function of floats with NumPy's, within what rounding may do
    to them.
    """
    of_operands, of_terms, out_dtype = kinds
    rng, of_sums = np.random.default_rng(seed), UNITS["f64" if of_operands == "f64" else "f32"]
    a, b = (rng.standard_normal(s).astype(FLOATS[of_operands]) for s in ((M, K), (K, N)))
    function, names = function_of(made, SMOOTH)
    arrays, shapes = {*names} - {"number"}, SHAPES | HALVES | {"number": ()}
    in_f64 = "f64" in (of_operands, out_dtype, *[of_terms for _x in arrays])
    unit = UNITS["f64" if in_f64 else "f32"]
    terms = {x: rng.standard_normal(shapes[x]).astype(FLOATS[of_terms]) for x in names}
    terms |= {"number": 1.5} if "number" in names else {}
    exact, sizes = a.astype(float) @ b.astype(float), abs(a.astype(float)) @ abs(b.astype(float))
    values = {"acc": Approximate(exact, K * of_sums * sizes, unit)}
    values |= {x: Approximate(y, np.zeros(np.shape(y)), unit) for x, y in terms.items()}
    found = cute.ops.gemm(a, b, epilogue=function, out_dtype=out_dtype, **terms)
    found = found if isinstance(found, dict) else {"D": found}
    for name, wanted in approximate_model_of(made, SMOOTH)(values).items():
        kind = np.finfo(found[name].dtype)
        bound = wanted.error + float(kind.eps) / 2 * (abs(wanted.value) + wanted.error)
        bound += float(kind.smallest_subnormal)
        bound = np.where(abs(wanted.value) + bound < float(kind.max), bound, np.inf)
        difference = abs(found[name].astype(float) - wanted.value)
        assert (difference <= bound).all(), (name, difference, bound)


few_of = given(epilogues(SMOOTH), st.integers(0, 99), floats)
test_a_few_random_epilogues_are_within_bounds = settings(max_examples=4)(few_of(check_bounds))
test_random_epilogues_are_within_bounds = pytest.mark.slow(
    settings(max_examples=60)(few_of(check_bounds))
)


def check_gradients(made, seed):
    """Compare the gradients of a random function with central differences of its formula."""
    rng = np.random.default_rng(seed)
    function, names = function_of(made, SMOOTH)
    found = Function(function).traced(cute.f64, tuple(names))
    shapes = [(M, N), *[(SHAPES | HALVES).get(x, ()) for x in names]]
    columns = [columns_of(x) for x in shapes]
    values = [rng.standard_normal(x) for x in shapes]
    kinds = [WHOLE if x else PAIRED for x in is_wide(found, columns)]
    weights = [rng.standard_normal((M, N // kind)) for kind in kinds]
    derivative = gradients(found, columns, range(len(values)), [True] * len(weights))
    slopes = by_numpy(derivative, [*columns, *kinds], [*values, *weights])

    def total(*values):
        results = by_numpy(found, columns, values)
        return sum((x * y).sum() for x, y in zip(results, weights, strict=True))

    for n, (x, slope) in enumerate(zip(values, slopes, strict=True)):
        change, step = rng.standard_normal(x.shape), 1e-6
        moved = [total(*values[:n], x + s * change, *values[n + 1 :]) for s in (step, -step)]
        wanted = (moved[0] - moved[1]) / (2 * step)
        along = (slope * np.broadcast_to(change, slope.shape)).sum()
        assert along == pytest.approx(wanted, rel=1e-5, abs=1e-5), found


random_functions = given(epilogues(SMOOTH, 6), st.integers(0, 99))
test_gradients_of_a_few_random_epilogues = settings(max_examples=10)(
    random_functions(check_gradients)
)
test_gradients_of_random_epilogues = pytest.mark.slow(
    settings(max_examples=60)(random_functions(check_gradients))
)
