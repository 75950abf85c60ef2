"""The operator `torch.ops.cute_py.activation` against torch's functions and their derivatives."""

import pytest

import cute_py as cute
from cute_py.kernels.activations import ACTIVATIONS
from tests.emulated.test_activations import SOFTPLUS
from tests.torch_calls import gradients_of, operands

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402

activation = torch.ops.cute_py.activation
functions = torch.nn.functional
TYPES = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}


@pytest.fixture(params=[*ACTIVATIONS, "softplus"])
def name(request, monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "softplus", SOFTPLUS)
    return request.param


def numbers(dtype):
    """All sizes, zeros, infinities and NaN; of softplus torch's is another one beyond 20."""
    sizes = torch.cat([torch.linspace(0, 20, 401), torch.logspace(-45, 38, 200)])
    more = torch.tensor([0.0, 100.0, torch.inf, torch.nan])
    x = torch.cat([sizes, more]).to(dtype)
    return torch.cat([x, -x])


@pytest.mark.parametrize("dtype", TYPES)
def test_functions_and_derivatives_are_torchs(name, dtype):
    """Also at infinities, where some are NaN, and at 0, where relu's is 0."""
    x = numbers(getattr(torch, dtype)).requires_grad_()
    g = torch.linspace(-2, 2, len(x)).to(x.dtype)
    y = getattr(functions, name)(x)
    (wanted,) = torch.autograd.grad(y, x, g)
    close = {"rtol": TYPES[dtype], "atol": TYPES[dtype], "equal_nan": True}
    some = ~x.isinf()  # torch's gelu of infinity is NaN in some types
    torch.testing.assert_close(activation(x.detach(), name)[some], y.detach()[some], **close)
    read = x.detach() if ACTIVATIONS[name].keeps_input else y.detach()
    torch.testing.assert_close(activation(read, name, g), wanted, **close)


def test_a_product_has_the_derivative_of_each_row(name):
    leaves, view = operands("cpu", torch.float32)["plain"]
    weight = torch.linspace(-1, 1, 24 * 16).view(24, 16)
    found, wanted = gradients_of(leaves, view, name, weight)
    for got, x in zip(found, wanted, strict=True):
        torch.testing.assert_close(got.double(), x, rtol=1e-4, atol=1e-4)


def test_the_rules_of_the_operator():
    x, g = torch.randn(5, 7), torch.randn(7, 5, dtype=torch.float64).T
    for args in ((x, "gelu"), (x, "silu", g), (torch.randn(0, 3), "relu")):
        torch.library.opcheck(activation.default, args)
    made = activation(x.to(torch.float8_e5m2), "tanh", g.float())
    assert (made.dtype, made.shape, made.is_contiguous()) == (torch.float32, (5, 7), True)
    wide = activation(x.T[1:].T, "gelu", g[:, 1:])
    torch.testing.assert_close(wide, activation(x, "gelu", g)[:, 1:])
    x.requires_grad_()
    functions.gelu(x).sum().backward()
    wanted, x.grad = x.grad, None
    activation(x, "gelu").sum().backward()
    torch.testing.assert_close(x.grad, wanted)
    with pytest.raises(cute.CuteError) as caught:
        activation(x, "gelu", torch.ones_like(x)).sum().backward()
    assert caught.value.code == "torch-twice"


def test_batches_of_either_argument():
    x, g = torch.randn(3, 5), torch.randn(3, 5)
    for dims in ((0, 0), (0, None), (None, 0), (1, 1)):
        args = [y if d is not None else y[0] for y, d in zip((x, g), dims, strict=True)]
        found, wanted = (
            torch.vmap(call, in_dims=dims)(*args)
            for call in (
                lambda x, g: activation(x, "sigmoid", g),
                lambda y, g: g * y * (1 - y),
            )
        )
        torch.testing.assert_close(found, wanted)
    found = torch.vmap(lambda x: activation(x, "relu"))(x)
    torch.testing.assert_close(found, torch.relu(x))
