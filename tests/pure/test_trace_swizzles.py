"""What a loop moves lies outside of a swizzle's XOR, so that addresses are one addition each."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.kernels import gemm_07_multistage as multistage
from cute_py.kernels.config import GemmConfig, Side
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm import gemm
from cute_py.plan import ops
from cute_py.plan.walk import accesses, every

MAJORS = list(itertools.product(["K", "MN"], repeat=2))


def loop_variables(plan):
    return {op.var for op in every(plan.body) if isinstance(op, ops.Loop)}


def names_in(x):
    if not isinstance(x, SymInt):
        return set()
    return {s.name for monomial in terms_of(x) for atom in monomial for s in atom.symbols}


def swizzled(plan):
    """The accesses of loops that a swizzle permutes."""
    loops = [op for op in every(plan.body) if isinstance(op, ops.Loop)]
    found = [x for loop in loops for op in every(loop.body) for x in accesses(op)]
    return [x for x in found if x.swizzle is not None]


def require_outside(plan):
    variables, found = loop_variables(plan), swizzled(plan)
    assert found
    moved = [x for x in found if any(names_in(base) & variables for base in x.bases)]
    assert moved  # the stage is in the base
    assert all(not names_in(x.inner) & variables for x in found)


def test_the_stage_of_the_flagship_is_outside_of_the_swizzle():
    a, c = np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float32)
    require_outside(cute.trace(multistage.gemm_multistage, a, a, c, multistage.flagship()))


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("majors", MAJORS)
@pytest.mark.parametrize(
    ("dtype", "atom", "k", "vector"),
    [
        (ml_dtypes.bfloat16, "SM80_16x8x16_F32BF16BF16F32_TN", 64, 8),
        (np.int8, "SM80_16x8x32_S32S8S8S32_TN", 64, 16),
        (np.float64, "SM80_8x8x4_F64F64F64F64_TN", 16, 2),
    ],
)
def test_the_stage_of_the_operator_is_outside_of_the_swizzle(
    dtype, atom, k, vector, majors, stages
):
    sides = [Side(major, vector) for major in majors]
    config = GemmConfig(atom, (64, 64, k), (2, 2), stages, *sides, True)
    a, b = (
        np.zeros((256, 256), dtype) if m == "K" else np.zeros((256, 256), dtype).T for m in majors
    )
    kind = {"int8": (np.int32, "s32"), "float64": (np.float64, "f64")}
    result, compute = kind.get(np.dtype(dtype).name, (np.float32, "f32"))
    d = np.zeros((256, 256), result)
    require_outside(
        cute.trace(gemm, a, b, None, None, d, 1.0, 0.0, config, LinearCombination(compute))
    )
