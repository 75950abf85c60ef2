"""Products in the modes of torch: forward differentiation, autocast, tracers, places of tensors."""

import pytest

import cute_py as cute
from tests.torch_calls import add

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402

gemm = torch.ops.cute_py.gemm
forward = torch.autograd.forward_ad


def tensor(*shape, **named):
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=made).to(**named)


def code_of(call):
    with pytest.raises(cute.CuteError) as caught:
        call()
    return caught.value.code


# -- forward differentiation


@pytest.mark.filterwarnings("ignore")
def test_tangents_are_refused_wherever_they_are():
    """Also by calls that were answered before."""
    a, b, out = tensor(16, 16), tensor(16, 16), torch.zeros(16, 16)
    scaled = cute_py.torch.register(
        add, outputs="y", fake=lambda x: torch.zeros_like(x), name="tests::add"
    )

    def calls(x):
        yield lambda: gemm(x, b)
        yield lambda: gemm(b, b, x, 1.0, 1.0)
        yield lambda: gemm(b.clone().requires_grad_(), x)
        yield lambda: cute.ops.gemm(x, b)
        yield lambda: cute.ops.gemm(b, x.T, out=out)
        yield lambda: cute.ops.gemm(b, b, bias=x[0])
        yield lambda: add(x[0], out[0])
        yield lambda: scaled(x[0])

    for _ in range(3):
        for call in calls(a):
            call()
    with forward.dual_level():
        x = forward.make_dual(a, b)
        for _ in range(2):
            for call in calls(x):
                assert code_of(call) == "argument-tangent"
            for call in calls(a):
                call()
    for call in calls(a):
        call()


@pytest.mark.filterwarnings("ignore")
def test_forward_derivatives_of_torch_func_are_refused():
    a, b = tensor(5, 7), tensor(7, 6)
    for take in (
        lambda f: torch.func.jvp(f, (a,), (a,)),
        lambda f: torch.func.jacfwd(f)(a),
        lambda f: torch.func.hessian(f)(a),
    ):
        code = code_of(lambda take=take: take(lambda x: gemm(x, b).sum()))
        assert code in ("argument-tangent", "argument-tensor")
    _result, tangent = torch.func.jvp(lambda x: x.sum() * gemm(a, b).sum(), (a,), (a,))
    torch.testing.assert_close(tangent, a.sum() * (a @ b).sum(), rtol=1e-4, atol=1e-4)


# -- modes that record or change calls


@pytest.mark.filterwarnings("ignore")
def test_autocast_casts_products_with_and_without_a_gradient():
    a, b, out = tensor(5, 7), tensor(7, 6), torch.zeros(5, 6)
    typed = cute.typed(a, "tf32"), cute.typed(b, "tf32")
    for _ in range(3):
        cute.ops.gemm(a, b)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(2):
            for x in (a, a.clone().requires_grad_(), a.half()):
                assert cute.ops.gemm(x, b).dtype == gemm(x, b).dtype == torch.bfloat16
            assert cute.ops.gemm(a, b, out=out) is out
            torch.testing.assert_close(out, torch.mm(a, b, out=torch.zeros(5, 6)))
            assert cute.ops.gemm(*typed).dtype == torch.float32
            assert gemm(a, b, dtype="f64").dtype == torch.float64
            assert cute.ops.gemm(a.numpy(), b.numpy()).dtype == "float32"
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert cute.ops.gemm(a, b).dtype == torch.float32
    assert cute.ops.gemm(a, b).dtype == torch.float32


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx_records_products(mode):
    """A product that was computed while it was recorded would be a constant of the graph."""
    from torch.fx.experimental.proxy_tensor import make_fx

    a, b = tensor(5, 7), tensor(7, 6)
    for _ in range(3):
        cute.ops.gemm(a, b)
    traced = make_fx(lambda a, b: cute.ops.gemm(a, b).relu() + gemm(a, b), tracing_mode=mode)(a, b)
    x, y = tensor(5, 7) + 1, tensor(7, 6) + 1
    torch.testing.assert_close(traced(x, y), (x @ y).relu() + x @ y, rtol=1e-5, atol=1e-5)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = cute_py.torch.Linear(7, 6, activation="gelu")

    def forward(self, x):
        return self.layer(cute.ops.gemm(x, torch.eye(7), alpha=0.5, activation="relu"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strict", [False, True])
def test_exported_programs_hold_products_of_any_number_of_rows(strict):
    module, rows = Scaled().eval(), {"x": {0: torch.export.Dim("rows", min=2, max=4096)}}
    held = torch.export.export(module, (tensor(5, 7),), dynamic_shapes=rows, strict=strict)
    names = [str(node.target) for node in held.graph.nodes]
    assert names.count("cute_py.gemm.default") == 2
    for M in (2, 5, 40):
        x = tensor(M, 7)
        torch.testing.assert_close(held.module()(x), module(x), rtol=1e-5, atol=1e-5)


def test_a_mode_sees_products():
    from torch.utils.flop_counter import FlopCounterMode

    a, b = tensor(5, 7), tensor(7, 6)
    seen = []

    class Seeing(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            seen.append(op)
            return op(*args, **(kwargs or {}))

    for _ in range(2):
        cute.ops.gemm(a, b)
    with Seeing():
        cute.ops.gemm(a, b)
        cute.ops.gemm(a, b, out=torch.zeros(5, 6))
    assert seen.count(gemm.default) == seen.count(gemm.out) == 1
    with FlopCounterMode(display=False):
        assert torch.equal(cute.ops.gemm(a, b), gemm(a, b))


# -- places


@pytest.mark.filterwarnings("ignore")
def test_tensors_of_several_places_are_refused():
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    a, b = tensor(5, 7), tensor(7, 6)
    none = torch.ones(7, 6, device="meta")
    for call in (
        lambda: gemm(a, none),
        lambda: gemm(none.T, a.T),
        lambda: gemm(a, b, bias=none[0]),
        lambda: gemm.out(a, b, out=none[:5]),
    ):
        assert code_of(call) == "argument-tensor"
    mode = FakeTensorMode()

    def on(device, *shape):
        return FakeTensor(mode, torch.empty(shape, device="meta"), torch.device(device))

    x, y = on("cuda:1", 5, 7), on("cuda:1", 7, 6)
    assert gemm(x, y).device == torch.device("cuda:1")
    for call in (
        lambda: gemm(x, on("cuda:0", 7, 6)),
        lambda: gemm(x, y, bias=on("cuda:0", 6)),
        lambda: gemm.out(x, y, out=on("cuda:0", 5, 6)),
        lambda: gemm(x, on("cpu", 7, 6)),
    ):
        assert code_of(call) == "ops-no-gpu"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("grad", [False, True])
def test_tensors_that_are_not_dense_are_refused_in_our_words(grad):
    x = torch.ones(4, 4)
    for made in (
        x.to_sparse(),
        x.to_sparse_csr(),
        torch.nested.nested_tensor([x, x]),
        torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    ):
        if made.dtype.is_floating_point:
            made.requires_grad_(grad)
        for call in (lambda made=made: gemm(made, x), lambda made=made: cute.ops.gemm(made, x)):
            assert code_of(call) == "argument-tensor"
