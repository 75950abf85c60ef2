"""Functions as epilogues compile for Hopper, in each family of kernels, without spills."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings

import cute_py as cute
from cute_py.epilogues import geglu, silu, swiglu
from cute_py.kernels.config import Side
from cute_py.kernels.epilogue import PairedFunction, kernel_with
from cute_py.kernels.gemm_sm90 import KERNELS
from cute_py.kernels.gemv import VectorConfig
from cute_py.kernels.sum_parts import parts_copy, sum_parts
from cute_py.ops.gemm_tiles_sm90 import ProductFacts, for_hopper
from cute_py.ops.product import GEMM
from cute_py.ops.without_gpu import gpu_of
from cute_py.plan.pairs import PAIRED, WHOLE, is_wide, split
from cute_py.trace.formulas import formula
from tests.emulated.test_epilogue_pairs import NAMES, combined, paired, terms_of
from tests.epilogue_functions import HALVES, SHAPES, SMOOTH, K, M, N, epilogues, function_of
from tests.hopper_family import CONFIGS, arguments, result_of

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

RESULTS = ("D", "z", "most")


def plan_of(a, b, function, config=None, **terms):
    """Return the plan of a product on the host."""
    ours, request = GEMM.requested(a, b, epilogue=function, out_dtype="f32", config=config, **terms)
    return ours.problem(*ours.taken(request)).call().plan()


def of_hopper(config, result, epilogue, names, outputs, numbers=()):
    """Return the plan of a family for Hopper."""
    m, n = 64, 256
    (A, B, _C, _bias, D), _exact = arguments(config, (m, n, 128), result)
    shapes = {"row": n, "column": m, "matrix": (m, n), "row of pairs": n // 2}
    shapes["matrix of pairs"] = m, n // 2
    terms = [np.zeros(shapes[x], np.float32) for x in epilogue.arrays]
    made = [np.zeros((m, n if wide else n // 2), D.dtype) for wide in epilogue.wide]
    kernel = kernel_with(KERNELS[config.schedule], names, outputs, numbers)
    factors = (2.0,) * len(numbers)
    blocks = 2 * config.cluster * config.split
    return cute.trace(kernel, A, B, *terms, *made, *factors, blocks, 2, config, epilogue)


def of_family(name):
    return of_hopper(CONFIGS[name], result_of(name), paired(), NAMES, RESULTS, ("scale",))


def of_parts():
    P, terms = np.zeros((64, 64, 3), np.float32), terms_of(np.random.default_rng(0), 64, 64)
    terms["column"] = terms["column"][:, 0]
    D, z, most = (np.zeros((64, n), np.float32) for n in (32, 64, 32))
    kernel = kernel_with(sum_parts, NAMES, RESULTS, ("scale",))
    call = P, *[terms[x] for x in NAMES], D, z, most, 2.0, 3, parts_copy(64), paired()
    return cute.trace(kernel, *call)


def of_a_row():
    side = Side("K", 8)
    atom = "UniversalFMA<f32,f16,f16,f32>"
    config = VectorConfig(atom, (1, 8, 256), (1, 8, 32), 1, side, side)
    a, b = np.zeros((1, 512), np.float16), np.zeros((64, 512), np.float16).T
    return plan_of(a, b, combined, config, scale=2.0, **terms_of(np.random.default_rng(0), 1, 64))


def of_tiles(config):
    a, b = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16)
    return plan_of(a, b, combined, config, scale=2.0, **terms_of(np.random.default_rng(0), 64, 64))


PLANS = {
    "row": of_a_row,
    "tensor cores": lambda: of_tiles("tile=64x64x32,stages=3"),
    "rows of D": lambda: of_tiles("tile=64x64x32,stages=3,store=8"),
    "parts of K": of_parts,
    **{x: partial(of_family, x) for x in ("64x32-pdl", "pp-direct", "64x128-split")},
}


@pytest.fixture
def built(name):
    """Return what a plan compiles to."""
    return cute.compile(PLANS[name](), "sm_90a")


@pytest.mark.parametrize(
    "name", [x if x == "row" else pytest.param(x, marks=pytest.mark.slow) for x in PLANS]
)
def test_pairs_of_columns_compile_without_spills(built):
    assert built.resources.spill_bytes == built.resources.stack_bytes == 0
    assert built.resources.instructions["STL"] == 0


def with_residual(x, bias, residual):
    gate, up = cute.pairs(x + bias)
    return silu(gate) * up + residual


def with_sums(x, bias):
    z = x + bias
    gate, up = cute.pairs(z)
    return {"D": silu(gate) * up, "z": z}


# (function, what it reads and how that is spread, results)
FUNCTIONS = {
    "swiglu": (swiglu, {}, ("D",)),
    "geglu": (geglu, {}, ("D",)),
    "with a residual": (with_residual, {"bias": "row", "residual": "matrix of pairs"}, ("D",)),
    "with the sums": (with_sums, {"bias": "row"}, ("D", "z")),
}
COLUMNS = {"row": WHOLE, "matrix of pairs": PAIRED}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(8192, 4096, 4096), (64, 11008, 4096)])
def test_what_the_rule_chooses_does_not_spill(name, shape):
    function, reads, outputs = FUNCTIONS[name]
    whole = formula(function, "f32", ("x", *reads))
    columns = [WHOLE, *[COLUMNS[x] for x in reads.values()]]
    epilogue = PairedFunction(split(whole, columns), tuple(reads.values()), is_wide(whole, columns))
    kinds, majors = (cute.bf16, cute.bf16), ("K", "MN")
    gpu = gpu_of("sm_90a")
    facts = ProductFacts(shape, 1, kinds, majors, (128, 128), cute.bf16, epilogue, False, gpu)
    plan = of_hopper(for_hopper(facts), "bf16", epilogue, tuple(reads), outputs)
    assert cute.compile(plan, "sm_90a").resources.spill_bytes == 0


@pytest.mark.slow
@settings(max_examples=10)
@given(epilogues(SMOOTH))
def test_random_functions_compile(made):
    function, names = function_of(made, SMOOTH)
    terms = {x: np.zeros((SHAPES | HALVES)[x], np.float32) for x in names if x != "number"}
    terms |= {"number": 1.5} if "number" in names else {}
    a, b = np.zeros((M, K), np.float16), np.zeros((K, N), np.float16)
    found = cute.compile(plan_of(a, b, function, **terms), "sm_90a")
    assert found.resources.spill_bytes == 0
