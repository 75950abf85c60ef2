"""Gradients of random epilogues, through `cute.ops.gemm`, against torch's own."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import cute_py as cute  # noqa: E402
from cute_py.ops.epilogues import Function, by_numpy  # noqa: E402
from cute_py.plan.pairs import gradients  # noqa: E402
from tests.epilogue_functions import (  # noqa: E402
    HALVES,
    SHAPES,
    SMOOTH,
    K,
    M,
    N,
    columns_of,
    epilogues,
    function_of,
    results_of,
)

WAYS = {"add": "sum", "max": "amax", "min": "amin"}


def combined(fn, mode, x):
    x = torch.broadcast_to(x, (M, x.shape[-1] if x.dim() else N))
    return getattr(torch, WAYS[fn])(x, (0, 1) if mode is None else mode)


def tensors(seed, names):
    """Return what makes tensors, and the terms of these names."""
    drawn = torch.Generator().manual_seed(seed)

    def tensor(*shape):
        return torch.randn(shape, generator=drawn, dtype=torch.float64).requires_grad_()

    return tensor, {x: tensor(*(SHAPES | HALVES)[x]) for x in names if x != "number"}


def model_in_torch(made):
    return results_of(made, SMOOTH, torch, lambda z: (z[:, ::2], z[:, 1::2]), combined)


def slopes_of_torch(results, inputs, seed):
    """Return random gradients of results, and those of inputs that follow."""
    drawn = torch.Generator().manual_seed(seed)
    gs = [torch.randn(x.shape, generator=drawn, dtype=x.dtype) for x in results]
    return gs, torch.autograd.grad(results, inputs, gs, allow_unused=True, materialize_grads=True)


def check_formula(made, seed):
    """Compare the derivative of a random function, by NumPy, with torch's; nothing is combined."""
    made = made[0], made[1], dict.fromkeys(made[2])
    function, names = function_of(made, SMOOTH)
    tensor, terms = tensors(seed, names)
    sums, number = tensor(M, N), torch.tensor(1.5, dtype=torch.float64)
    results = model_in_torch(made)({"acc": sums, **terms, "number": number})
    gs, theirs = slopes_of_torch([*results.values()], [sums, *terms.values()], seed)
    given = {x: terms.get(x, number) for x in names}
    formula = Function(function).traced(cute.f64, tuple(names))
    values = [sums, *given.values()]
    columns = [columns_of(x.shape) for x in values]
    wanted = [0, *[1 + names.index(x) for x in terms]]
    derivative = gradients(formula, columns, wanted, [True] * len(gs))
    columns += [columns_of(x.shape) for x in gs]
    found = by_numpy(derivative, columns, [x.detach().numpy() for x in (*values, *gs)])
    for x, y in zip(found, theirs, strict=True):
        ours = torch.tensor(x).sum_to_size(y.shape)
        torch.testing.assert_close(ours, y, rtol=1e-10, atol=1e-10)


random_functions = given(epilogues(SMOOTH), st.integers(0, 99))
test_derivatives_of_a_few_random_epilogues = settings(max_examples=10)(
    random_functions(check_formula)
)
test_derivatives_of_random_epilogues = pytest.mark.slow(
    settings(max_examples=200)(random_functions(check_formula))
)


@pytest.mark.slow
@settings(max_examples=60)
@random_functions
def test_gradients_of_random_epilogues_are_those_of_torch(made, seed):
    function, names = function_of(made, SMOOTH)
    tensor, terms = tensors(seed, names)
    a, b = tensor(M, K), tensor(K, N)
    numbers = {"number": 1.5} if "number" in names else {}
    found = cute.ops.gemm(a, b, epilogue=function, **terms, **numbers)
    found = found if isinstance(found, dict) else {"D": found}
    numbers = {x: torch.tensor(y, dtype=torch.float64) for x, y in numbers.items()}
    wanted = model_in_torch(made)({"acc": a @ b, **terms, **numbers})
    spread = [torch.broadcast_to(wanted[x], y.shape) for x, y in found.items()]
    for x, y in zip(found.values(), spread, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-10)
    inputs = [a, b, *terms.values()]
    _gs, ours = slopes_of_torch([*found.values()], inputs, seed)
    _gs, theirs = slopes_of_torch(spread, inputs, seed)
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-8)
