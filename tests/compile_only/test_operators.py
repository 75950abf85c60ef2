"""All operators of `cute.ops` for GPUs that are not there: their kernels are those of outlines."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.dtypes.table import from_numpy
from cute_py.ops.without_gpu import Outline, gpu_of, outlined
from tests.operators import CASES, cases, laid_out

ARCHS = ("sm_80", "sm_90a")
LONG = {"conv2d_dgrad": 0, "conv2d_wgrad": 0, "conv2d": 1}  # to compile; others are slow tests
COUNTS = [(name, n) for name in sorted(CASES) if (n := LONG.get(name, 2))]
COUNTS += [pytest.param((name, 40), marks=pytest.mark.slow) for name in sorted(CASES)]


def outline(x):
    kind = from_numpy(x.dtype)
    return Outline(kind, x.shape, tuple(step // x.itemsize for step in x.strides))


@pytest.fixture
def calls(request):
    """Calls of random problems, their plans compiled."""
    name, count = request.param
    found, rng = cases(name, count, seed=30)
    made = []
    for i, case in enumerate(found):
        arrays = {k: outline(laid_out(rng, x, case.rows).array) for k, x in case.arrays.items()}
        asked = case.operator.bound(**arrays, **case.named, backend="gpu")
        problem = case.operator.problem
        if any(0 in x.shape for x in arrays.values()):
            continue
        call = outlined(case.operator, asked, gpu_of(ARCHS[i % 2]))
        assert isinstance(call.inputs, problem)
        made.append((call, cute.compile(call.plan(), ARCHS[i % 2])))
    return made


@pytest.mark.parametrize("calls", COUNTS, indirect=True, ids=str)
def test_problems_compile_without_a_gpu(calls):
    assert calls
    for call, compiled in calls:
        assert compiled.resources.spill_bytes == 0, call.config


def test_regrouped_outlines_are_those_of_arrays():
    """A view where NumPy has one, with its strides; else a copy."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4], rng.integers(1, 5)))
        x = np.zeros(shape, np.int16).transpose(rng.permutation(len(shape)))
        size = x.size
        into = [(size,), (1, size), (size, 1), (*x.shape, 1), (1, *x.shape)]
        if x.ndim > 1:
            into.append((int(np.prod(x.shape[:-1])), x.shape[-1]))
        for new in into:
            view, found = x.reshape(new), outline(x).reshape(new)
            assert found.shape == view.shape
            for n, step, want in zip(new, found.strides, view.strides, strict=True):
                assert n == 1 or step == want, (x.shape, x.strides, new)
