"""Code that torch.compile generates by Inductor: it calls products without torch's dispatcher."""

import sys

import pytest

import cute_py as cute

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402
from cute_py.torch.gemm import ENTRY, TERMS, into  # noqa: E402

gemm = torch.ops.cute_py.gemm
CALL, OPERATOR = f"torch.ops.cute_py.{ENTRY}(", "cute_py.gemm.default("


def tensor(*shape, **named):
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=made).to(**named)


@pytest.mark.parametrize("terms", TERMS)
def test_what_generated_code_calls_writes_products(terms):
    a, b, c, bias = tensor(5, 7), tensor(7, 6), tensor(5, 6), tensor(6)
    more = {"c": [c], "bias": [bias], "c bias": [c, bias], "": []}[terms]
    wanted = 0.5 * (a @ b) + 2 * c * ("c" in terms) + bias * ("bias" in terms)
    out = torch.empty(5, 6)
    for _ in range(2):
        how = {"alpha": 0.5, "beta": 2.0 * ("c" in terms), "activation": "relu"}
        how["dtype"] = None
        into(a, b, *more, out=out.zero_(), terms=terms, **how)
        torch.testing.assert_close(out, wanted.relu(), rtol=1e-5, atol=1e-5)


def compiled(function, *args, lowered=True, **how):
    """Return the result of a compiled function, and its gradients and code."""
    import torch._inductor.lowering as lowering
    from torch._inductor.utils import run_fw_bw_and_get_code

    torch._dynamo.reset()
    made = torch.compile(function, fullgraph=True, **how)
    with torch._inductor.config.patch(force_disable_caches=True), pytest.MonkeyPatch.context() as m:
        if not lowered:  # as where torch has another interface
            m.delitem(lowering.lowerings, gemm.default, raising=False)
            m.setattr(sys.modules["cute_py.torch.gemm"], "_lowered", [gemm.default])
        result, code = run_fw_bw_and_get_code(lambda: made(*args))
    return result, made, "\n".join(code)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ["lowered", "dynamic", "by the operator"])
def test_layers_and_their_gradients_call_products(how):
    model = torch.nn.Sequential(
        cute_py.torch.Linear(16, 24, activation="gelu"),
        torch.nn.Linear(24, 24),
        cute_py.torch.Linear(24, 16, activation="relu"),
    )
    lowered, more = how != "by the operator", {"dynamic": True} if how == "dynamic" else {}
    x = tensor(2, 5, 16).requires_grad_()
    _result, made, code = compiled(model, x, lowered=lowered, **more)
    assert (code.count(CALL), code.count(OPERATOR)) == ((6, 0) if lowered else (0, 6))
    for rows in (5, 9):
        x, y = (tensor(2, rows, 16).requires_grad_() for _ in "xy")
        grads = []
        for call, z in ((made, x), (model, y)):
            model.zero_grad()
            result = call(z)
            result.square().sum().backward()
            grads.append([result, z.grad, *[p.grad for p in model.parameters()]])
        for found, wanted in zip(*grads, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_the_lowering_takes_and_what_it_leaves():
    a, b, c = tensor(5, 7).requires_grad_(), tensor(7, 6), tensor(5, 6)
    taken = {
        "batch": lambda a: cute.ops.gemm(a.expand(3, 5, 7), b),
        "c": lambda a: cute.ops.gemm(a, b, c, 0.5, 2.0, c[0], "relu"),
        "operands of other nodes": lambda a: cute.ops.gemm(a + 1, (b * 2)) + 1,
    }
    left = {
        "dtype": lambda a: cute.ops.gemm(a, b, dtype="bf16", out_dtype="f32"),
        "config": lambda a: cute.ops.gemm(a, b, config="stages=2"),
    }
    for name, function in (taken | left).items():
        x, y = (a.detach().clone().requires_grad_() for _ in "xy")
        found, made, code = compiled(function, x)
        wanted = function(y)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        assert CALL in code or name in left  # gradients do not have the options of their product
        assert (OPERATOR in code) is (name in left), name
        x.grad = None
        made(x).sum().backward()
        wanted.sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-5, atol=1e-5)
