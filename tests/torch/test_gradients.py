"""The derivative of `torch.ops.cute_py.gemm` on the emulator."""

import gc
import weakref

import pytest

import cute_py as cute
from cute_py.kernels import gemm as gemm_of_all
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.ops import product
from tests.torch_calls import gradients_of, near_float64, operands

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402

gemm = torch.ops.cute_py.gemm


def tensor(*shape, dtype=torch.float32, grad=True):
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=made, dtype=torch.float64).to(dtype).requires_grad_(grad)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_gradcheck(activation):
    terms = [tensor(*shape, dtype=torch.float64) for shape in ((5, 7), (7, 6), (5, 6), (6,))]

    def product(a, b, c, bias):
        return gemm(a, b, c, 0.5, 2.0, bias, activation)

    assert torch.autograd.gradcheck(product, terms)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("activation", [None, "silu"])
def test_gradients_against_float64(dtype, activation):
    near_float64("cpu", dtype, activation)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_gradients_of_activations_against_float64(activation):
    leaves, view = operands("cpu", torch.float32)["plain"]
    found, wanted = gradients_of(leaves, view, activation, tensor(24, 16, grad=False))
    for got, x in zip(found, wanted, strict=True):
        torch.testing.assert_close(got.double(), x, rtol=1e-4, atol=1e-4)


def test_only_the_wanted_gradients_are_computed(monkeypatch):
    """One product for the result, and one for each gradient of an operand."""
    from cute_py.ops.call import Call

    count, run = [0], Call.run

    def counted(self, **options):
        count[0] += 1
        return run(self, **options)

    monkeypatch.setattr(Call, "run", counted)
    for places, products in (((0,), 2), ((1,), 2), ((0, 1), 3), ((2,), 1), ((3,), 1), ((0, 3), 2)):
        shapes = (5, 7), (7, 6), (5, 6), (6,)
        terms = [tensor(*shape, grad=i in places) for i, shape in enumerate(shapes)]
        a, b, c, bias = terms
        count[0] = 0
        gemm(a, b, c, 1.0, 1.0, bias).sum().backward()
        assert count[0] == products, places
        assert [x.grad is not None for x in terms] == [i in places for i in range(4)]


def test_the_pre_activation_is_saved_only_where_a_gradient_is_wanted():
    saved = []
    a, b = tensor(5, 7), tensor(7, 6)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.shape), lambda x: x):
        gemm(a.detach(), b.detach(), None, 1.0, 0.0, None, "gelu")
        with torch.no_grad():
            gemm(a, b, None, 1.0, 0.0, None, "gelu")
        assert saved == []
        gemm(a, b.detach())
        assert saved == [(7, 6)]
        gemm(a, b, None, 1.0, 0.0, None, "gelu")
        assert saved[1:] == [(5, 7), (7, 6), (5, 6)]


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_gradients_keep_the_strides_of_their_operands(activation):
    a, b = tensor(8, 16).T.detach().requires_grad_(), tensor(4, 8).T.detach().requires_grad_()
    gemm(a, b, None, 1.0, 0.0, None, activation).sum().backward()
    assert (a.grad.stride(), b.grad.stride()) == (a.stride(), b.stride())
    made = torch.autograd.grad(gemm(a, b).sum(), (a, b))
    assert [x.stride() for x in made] == [a.stride(), b.stride()]


@pytest.mark.parametrize("shape", [(5, 7), (2, 5, 7), (2, 1, 0, 7)])
@pytest.mark.parametrize("activation", [None, "tanh", "silu"])
def test_gradients_come_in_batches(shape, activation):
    """`is_grads_batched`, as vectorized Jacobians have it, follows the derivative by vmap."""
    a, b = tensor(*shape), tensor(7, 6)
    gradients = torch.randn(3, *shape[:-1], 6)
    activate = getattr(torch.nn.functional, activation) if activation else lambda x: x
    found, wanted = (
        torch.autograd.grad(y, (a, b), gradients, is_grads_batched=True)
        for y in (gemm(a, b, None, 1.0, 0.0, None, activation), activate(a @ b))
    )
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)


def test_the_first_product_of_a_kind_keeps_no_graph_alive(monkeypatch):
    """Its kernels are traced in the call. What they leave waits for no garbage collection: memory
    of a GPU, and nodes of a stream that is not the next one's.
    """

    def call():
        a = tensor(17, 19) * 2
        result = gemm(a, tensor(19, 23), None, 0.5, 0.0, tensor(23), "sigmoid")
        torch.autograd.grad(result.sum(), a)
        return weakref.ref(a), weakref.ref(result)

    monkeypatch.setattr(gemm_of_all.gemm, "plans", {})
    monkeypatch.setattr(gemm_of_all.gemm, "_calls", None)
    product.KNOWN.clear()
    gc.collect()
    gc.disable()
    try:
        assert [x() for x in call()] == [None, None]
        assert gemm_of_all.gemm.plans, "traced in the call"
    finally:
        gc.enable()


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_second_derivatives_are_torchs(activation):
    """Of all operands, also where the kept product before the activation is all that depends on
    one.
    """
    named = {} if activation is None else {"activation": activation}
    function = (lambda x: x) if activation is None else getattr(torch.nn.functional, activation)

    def theirs(a, b, c, bias):
        return function(0.5 * (a @ b) + 2 * c + bias)

    def ours(a, b, c, bias):
        return gemm(a, b, c, 0.5, 2.0, bias, **named)

    seconds = []
    for call in (ours, theirs):
        given = [
            tensor(*x).detach().double().requires_grad_() for x in ((5, 7), (7, 6), (5, 6), (6,))
        ]
        firsts = torch.autograd.grad(call(*given).square().sum(), given, create_graph=True)
        whole = sum(x.pow(3).sum() for x in firsts)
        thirds = torch.autograd.grad(whole, given, create_graph=True)
        seconds.append(thirds)
    for found, wanted in zip(*seconds, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def test_second_derivatives_of_functions_are_refused():
    x = tensor(4, 8)
    (first,) = torch.autograd.grad(cute.ops.softmax(x).square().sum(), x, create_graph=True)
    with pytest.raises(cute.CuteError) as caught:
        first.sum().backward()
    assert caught.value.code == "torch-twice"


def test_a_result_changed_in_place_before_its_gradient_is_noticed():
    a, b = tensor(5, 7), tensor(7, 6, grad=False)
    result = gemm(a, b)
    cute.ops.gemm(tensor(7, 7, grad=False), tensor(7, 6, grad=False), out=b)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_lazily_negated_operands_and_gradients_are_resolved():
    x = torch.randn(5, 7, dtype=torch.complex64).conj().imag
    y = tensor(7, 6)
    assert x.is_neg()
    torch.testing.assert_close(gemm(x, y), x.resolve_neg() @ y, rtol=1e-5, atol=1e-5)
    gemm(x.resolve_neg(), y).backward(torch.ones(5, 6, dtype=torch.complex64).conj().imag)
    assert bool((y.grad == 0).all())


def test_typed_operands_keep_their_type_with_a_gradient():
    a, b = tensor(5, 7), tensor(7, 6, grad=False)
    result = cute.ops.gemm(cute.typed(a, "tf32"), cute.typed(b, "tf32"))
    with torch.no_grad():
        wanted = cute.ops.gemm(cute.typed(a, "tf32"), cute.typed(b, "tf32"))
    assert torch.equal(result.detach(), wanted)
    result.sum().backward()
    torch.testing.assert_close(a.grad, b.sum(1).expand(5, 7), rtol=1e-2, atol=1e-2)
    with pytest.raises(cute.CuteError, match="given operands of tf32 and f32"):
        cute.ops.gemm(cute.typed(a, "tf32"), b)


def test_a_given_configuration_is_used_with_a_gradient():
    a, b = tensor(32, 32, dtype=torch.float16), tensor(32, 32, dtype=torch.float16)
    config = cute.ops.choose_config(32, 32, 32, "f16", majors=("K", "MN"))
    for given in (config, "stages=2"):
        cute.ops.gemm(a, b, config=given).sum().backward()
    with pytest.raises(cute.CuteError, match="tile"):
        cute.ops.gemm(a, b, config="tile=7")


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_gradients_of_8_bit_floats(dtype, activation):
    kind = getattr(torch, dtype)
    shapes = (16, 32), (32, 16), (16, 16), (16,)
    terms = [torch.ones(shape).to(kind).requires_grad_() for shape in shapes]
    a, b, c, bias = terms
    for out in (kind, torch.float32):
        result = gemm(a, b, c, 1.0, 1.0, bias, activation, out)
        assert result.dtype == out
        found = torch.autograd.grad(result.float().sum(), terms)
        assert all(x.dtype == kind for x in found)
        assert [float(x.float().mean()) for x in found] == [16, 16, 1, 16]


@pytest.mark.parametrize("size", [0.02, 1.0, 1e3])
@pytest.mark.parametrize("given", ["operands", "dtype"])
def test_gradients_of_any_size_pass_8_bit_floats(size, given):
    """They are not rounded to 8 bits before they are multiplied."""
    narrow = torch.float8_e4m3fn if given == "operands" else torch.float32
    a, b = tensor(16, 32, grad=False).to(narrow), tensor(32, 16, grad=False).to(narrow)
    dtype = None if given == "operands" else "e4m3"
    c, bias = tensor(16, 16), tensor(16)
    result = gemm(a.requires_grad_(), b, c, 1.0, 1.0, bias, None, torch.float32, dtype=dtype)
    weight = size * tensor(16, 16, grad=False) / 8
    found = torch.autograd.grad(result, (a, c, bias), weight)
    wanted = weight @ b.to(torch.float8_e4m3fn).float().T, weight, weight.sum(0)
    for got, x in zip(found, wanted, strict=True):
        x = x.clamp(-448, 448) if got.dtype == torch.float8_e4m3fn else x
        limit = 0.07 if got.dtype == torch.float8_e4m3fn else 0.01
        assert float((got.float() - x).abs().max() / x.abs().max()) < limit


def test_gradients_through_integers_are_refused():
    a, b, c = tensor(16, 32), tensor(32, 16, grad=False), tensor(16, 16)
    named = {"dtype": "s8", "out_dtype": torch.float32}
    for x, y in ((a, b), (b.T, a.T)):
        with pytest.raises(cute.CuteError) as caught:
            gemm(x, y, **named)
        assert caught.value.code == "torch-rounded"
    gemm(a.detach(), b, c, 1.0, 1.0, **named).sum().backward()
    assert bool((c.grad == 1).all())
    with torch.no_grad():
        gemm(a, b, **named)


def test_deterministic_algorithms():
    """The product has one order of additions."""
    a, b = tensor(40, 70), tensor(70, 30)
    torch.use_deterministic_algorithms(True)
    try:
        results = [torch.autograd.grad(gemm(a, b).square().sum(), (a, b)) for _ in range(2)]
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))
