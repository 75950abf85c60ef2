"""Epilogues of pairs of columns in torch: gradients against torch's own, and graphs."""

import pytest

torch = pytest.importorskip("torch")

import cute_py as cute  # noqa: E402
from cute_py import epilogues  # noqa: E402
from cute_py.ops.product import GEMM  # noqa: E402
from tests.sampling import quick  # noqa: E402

F = torch.nn.functional
SHAPES = {"bias": (6,), "column": (9, 1), "residual": (9, 3), "row": (3,), "full": (9, 6)}


def rich(x, bias, column, residual, row, full):
    z = x * full + bias * column
    gate, up = cute.pairs(z)
    y = cute.tanh(gate) * up * row + residual * column
    return {"D": y, "z": z, "norms": cute.reduce("add", y * y, mode=1)}


def of_torch(x, bias, column, residual, row, full):
    z = x * full + bias * column
    y = torch.tanh(z[:, ::2]) * z[:, 1::2] * row + residual * column
    return {"D": y, "z": z, "norms": (y * y).sum(1)}


# name -> (the function, the same of torch)
FUNCTIONS = {
    "rich": (rich, of_torch),
    "swiglu": (epilogues.swiglu, lambda x: F.silu(x[:, ::2]) * x[:, 1::2]),
    "geglu": (
        lambda x, bias: epilogues.geglu(x + bias),
        lambda x, bias: F.gelu((x + bias)[:, ::2], approximate="tanh") * (x + bias)[:, 1::2],
    ),
    "one of both": (
        lambda x, residual: {"D": cute.pairs(x)[1] * 2, "sums": x, "more": residual * 3},
        lambda x, residual: {"D": x[:, 1::2] * 2, "sums": x, "more": residual * 3},
    ),
}


def operands(function, kind):
    made = torch.Generator().manual_seed(0)

    def tensor(*shape):
        return torch.randn(shape, generator=made, dtype=kind).requires_grad_()

    names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    return tensor(9, 7), tensor(7, 6), {x: tensor(*SHAPES[x]) for x in names if x in SHAPES}


def results(found):
    return found if isinstance(found, dict) else {"D": found}


USED = {"retain_graph": True, "allow_unused": True}


@pytest.mark.parametrize("name", quick([("rich",)], FUNCTIONS))
def test_gradients_are_those_of_torch(name):
    function, model = FUNCTIONS[name]
    a, b, terms = operands(function, torch.float64)
    found = results(cute.ops.gemm(a, b, epilogue=function, **terms))
    wanted = results(model(a @ b, **terms))
    inputs = [a, b, *terms.values()]
    gs = [torch.randn_like(x) for x in wanted.values()]
    for which in (slice(None), slice(1)):
        ours, theirs = (
            torch.autograd.grad(list(x.values())[which], inputs, gs[which], **USED)
            for x in (found, wanted)
        )
        for x, y in zip(ours, theirs, strict=True):
            y = torch.zeros_like(x) if y is None else y
            torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)
    for x, y in zip(found.values(), wanted.values(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(), (1,), (5, 1)])
def test_two_columns_are_one_pair(shape):
    """Where N/2 is 1, an array of one column has a gradient of one column."""
    draw = torch.Generator().manual_seed(0)
    a, b, term = (
        torch.randn(x, generator=draw, dtype=torch.float64).requires_grad_()
        for x in ((5, 7), (7, 2), shape)
    )

    def function(x, term):
        first, second = cute.pairs(x)
        return first * second + term

    found, x = cute.ops.gemm(a, b, epilogue=function, term=term), a @ b
    wanted = x[:, ::2] * x[:, 1::2] + term
    ours, theirs = (torch.autograd.grad((y * y).sum(), (a, b, term)) for y in (found, wanted))
    torch.testing.assert_close((found, *ours), (wanted, *theirs))


def test_the_operator_follows_the_rules_of_torch():
    function = FUNCTIONS["geglu"][0]
    a, b, terms = operands(function, torch.float32)
    cute.ops.gemm(a, b, epilogue=function, **terms)
    ours, _request = GEMM.requested(a, b, epilogue=function, **terms)
    op = getattr(torch.ops.cute_py, ours.short)
    torch.library.opcheck(op.default, (a, b, *terms.values()))


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_gives_the_same_in_one_graph():
    torch._dynamo.reset()
    a, b, terms = operands(rich, torch.float32)
    model = lambda: cute.ops.gemm(a, b, epilogue=rich, **terms)  # noqa: E731
    found, wanted = torch.compile(model, backend="aot_eager", fullgraph=True)(), model()
    for name, x in wanted.items():
        torch.testing.assert_close(found[name], x)
    torch._dynamo.reset()
