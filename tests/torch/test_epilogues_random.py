"""Gradients of random epilogues, through `cute.ops.gemm`, against torch's own."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import cute_py as cute  # noqa: E402
from tests.epilogue_functions import (  # noqa: E402
    HALVES,
    SHAPES,
    SMOOTH,
    K,
    M,
    N,
    epilogues,
    function_of,
    results_of,
)

WAYS = {"add": "sum", "max": "amax", "min": "amin"}


def combined(fn, mode, x):
    x = torch.broadcast_to(x, (M, x.shape[-1] if x.dim() else N))
    return getattr(torch, WAYS[fn])(x, (0, 1) if mode is None else mode)


@pytest.mark.slow
@settings(max_examples=25)
@given(epilogues(SMOOTH), st.integers(0, 99))
def test_gradients_of_random_epilogues_are_those_of_torch(made, seed):
    drawn = torch.Generator().manual_seed(seed)

    def tensor(*shape):
        return torch.randn(shape, generator=drawn, dtype=torch.float64).requires_grad_()

    function, names = function_of(made, SMOOTH)
    a, b = tensor(M, K), tensor(K, N)
    terms = {x: tensor(*(SHAPES | HALVES)[x]) for x in names if x != "number"}
    numbers = {"number": 1.5} if "number" in names else {}
    found = cute.ops.gemm(a, b, epilogue=function, **terms, **numbers)
    found = found if isinstance(found, dict) else {"D": found}
    model = results_of(made, SMOOTH, torch, lambda z: (z[:, ::2], z[:, 1::2]), combined)
    wanted = model({"acc": a @ b, **terms, **numbers})
    inputs, how = [a, b, *terms.values()], {"allow_unused": True, "materialize_grads": True}
    gs = [torch.randn_like(x) for x in found.values()]
    spread = [torch.broadcast_to(wanted[x], y.shape) for x, y in found.items()]
    for x, y in zip(found.values(), spread, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-10)
    ours = torch.autograd.grad(list(found.values()), inputs, gs, **how)
    theirs = torch.autograd.grad(spread, inputs, gs, **how)
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-8)
    assert np.isfinite(found["D"].detach().numpy()).all()
