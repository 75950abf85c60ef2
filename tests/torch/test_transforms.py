"""torch.func of operators: derivatives at any level, batches, and per-sample gradients."""

import pytest

import cute_py as cute

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402

gemm, func = torch.ops.cute_py.gemm, torch.func
pytestmark = pytest.mark.filterwarnings("ignore")


def tensor(*shape, **named):
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=made, dtype=torch.float64).to(**named)


A, B, BIAS = tensor(3, 4), tensor(4, 5), tensor(5)


def ours(x):
    return gemm(x, B, None, 1.0, 0.0, BIAS, "gelu").square().sum()


def theirs(x):
    return torch.nn.functional.gelu(x @ B + BIAS).square().sum()


TAKEN = {
    "grad": func.grad,
    "grad of grad": lambda f: func.grad(lambda x: func.grad(f)(x).square().sum()),
    "vmap of grad": lambda f: lambda x: func.vmap(func.grad(f))(x[:, None]),
    "jacrev of jacrev": lambda f: func.jacrev(func.jacrev(f)),
    "vjp": lambda f: lambda x: func.vjp(f, x)[1](torch.ones((), dtype=x.dtype))[0],
    "vmap": lambda f: lambda x: func.vmap(f)(x[:, None]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_transforms_of_products_are_those_of_torch(name):
    take = TAKEN[name]
    torch.testing.assert_close(take(ours)(A), take(theirs)(A), rtol=1e-6, atol=1e-6)


def test_transforms_of_public_functions():
    """These were told to make the tensor dense."""
    calls = {
        "product": (lambda x: cute.ops.gemm(x, B).sum(), lambda x: (x @ B).sum()),
        "softmax": (
            lambda x: cute.ops.softmax(x).square().sum(),
            lambda x: x.softmax(-1).square().sum(),
        ),
        "reduce": (lambda x: cute.ops.reduce(x, "max"), lambda x: x.max()),
    }
    for mine, other in calls.values():
        torch.testing.assert_close(func.grad(mine)(A), func.grad(other)(A), rtol=1e-6, atol=1e-6)
    found = func.vmap(lambda x: cute.ops.gemm(x, B))(A[:, None])
    torch.testing.assert_close(found, A[:, None] @ B)
    none = cute.ops.gemm(A.to("meta"), B.to("meta"))
    assert (none.shape, none.is_meta) == ((3, 5), True)


def test_gradients_of_each_sample():
    layer = cute_py.torch.Linear(4, 5, activation="gelu").double()
    held = {name: x.detach() for name, x in layer.named_parameters()}

    def mine(held, x):
        return func.functional_call(layer, held, (x,)).square().sum()

    def other(held, x):
        z = torch.nn.functional.linear(x, held["weight"], held["bias"])
        return torch.nn.functional.gelu(z).square().sum()

    found, wanted = (func.vmap(func.grad(f), (None, 0))(held, A) for f in (mine, other))
    for name, x in wanted.items():
        torch.testing.assert_close(found[name], x, rtol=1e-6, atol=1e-6)


def test_what_has_no_derivative_is_still_refused():
    """A second one of functions, and forward mode."""
    for take in (
        lambda: func.grad(lambda x: func.grad(lambda x: cute.ops.softmax(x).pow(2).sum())(x).sum())(
            A
        ),
        lambda: func.jvp(ours, (A,), (A,)),
        lambda: func.hessian(ours)(A),  # forward mode of a derivative
        lambda: func.jvp(func.grad(ours), (A,), (A,)),
    ):
        with pytest.raises(cute.CuteError) as caught:
            take()
        assert caught.value.code in ("torch-twice", "argument-tangent")


def test_a_first_derivative_that_autograd_follows_from_outside():
    """What torch.func computes inside may depend on tensors that autograd follows outside."""
    x = A.clone().requires_grad_()
    func.grad(ours)(x).sum().backward()
    y = A.clone().requires_grad_()
    func.grad(theirs)(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-6, atol=1e-6)
    with pytest.raises(cute.CuteError) as caught:
        func.grad(lambda x: cute.ops.softmax(x).pow(2).sum())(x).sum()
    assert caught.value.code == "torch-twice"


def test_tangents_of_first_derivatives_stay():
    """Forward mode over a derivative that torch's operators compute: what depends on the tangent is
    right, or refused, never 0.
    """
    c = torch.tensor(2.0, dtype=torch.float64)

    def taken(function):
        def of(c):
            return func.grad(lambda x: (c * function(x)).sin().sum())(A)

        return func.jvp(of, (c,), (c,))[1]

    found = taken(lambda x: cute.ops.reduce(x, "add", 1))
    torch.testing.assert_close(found, taken(lambda x: x.sum(1)), rtol=1e-6, atol=1e-6)
