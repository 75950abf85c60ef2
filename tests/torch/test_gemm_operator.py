"""`torch.ops.cute_py.gemm` on the emulator: its laws, gradients, types, graphs and threads."""

import multiprocessing
import threading

import pytest

import cute_py as cute
from tests.torch_calls import gradients_of, near_float64, operands

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402

ACTIVATIONS = (None, "relu", "gelu", "silu", "tanh", "sigmoid")
gemm = torch.ops.cute_py.gemm


def tensor(*shape, dtype=torch.float32, grad=True):
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=made, dtype=torch.float64).to(dtype).requires_grad_(grad)


# -- the laws of an operator


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "args",
    [
        (tensor(5, 7), tensor(7, 6)),
        (tensor(5, 7), tensor(7, 6), tensor(5, 6), 0.5, 2.0, tensor(6), "gelu"),
        (tensor(2, 5, 7), tensor(7, 6, grad=False), tensor(5, 6), 1.0, 1.0),
        (tensor(5, 7, dtype=torch.bfloat16), tensor(6, 7, dtype=torch.bfloat16).T),
        (tensor(5, 7, dtype=torch.float16), tensor(7, 6, dtype=torch.float16), None, 1.0, 0.0, None,
         None, torch.float32),
        (torch.ones(3, 4, dtype=torch.int8), torch.ones(4, 5, dtype=torch.int8)),
        (tensor(5, 7), tensor(7, 6), None, 1.0, 0.0, None, "relu", torch.float32, "auto", None,
         "e4m3", "", True),
        (tensor(2, 1, 5, 7), tensor(3, 7, 6), tensor(3, 5, 6), 1.0, 2.0, None, "tanh",
         torch.bfloat16),
        (tensor(7, 5, dtype=torch.float16).T, tensor(7, 6, dtype=torch.float16), None, 1.0, 0.0,
         tensor(6), "silu", torch.float32),
        (tensor(5, 7, dtype=torch.float64), tensor(7, 6, dtype=torch.float64), None, 0.5, 0.0, None,
         "sigmoid"),
        (torch.ones(3, 4, dtype=torch.int8), torch.ones(4, 5, dtype=torch.int8), tensor(3, 5), 1.0,
         1.0, None, "relu", torch.float32),
        (tensor(0, 5, 7), tensor(7, 0), None, 1.0, 0.0, tensor(0), "gelu"),
    ],
    ids=["plain", "epilogue", "batch", "bf16", "out_dtype", "integers", "fast_accum", "tanh",
         "silu", "sigmoid", "relu", "nothing"],
)  # fmt: skip
def test_opcheck_of_the_product(args):
    torch.library.opcheck(gemm.default, args)


@pytest.mark.filterwarnings("ignore")
def test_opcheck_of_the_product_into_a_tensor():
    a, b = tensor(5, 7, grad=False), tensor(7, 6, grad=False)
    torch.library.opcheck(gemm.out, (a, b), {"out": torch.empty(5, 6)})


def test_the_operator_is_the_product():
    a, b, c, bias = tensor(5, 7, grad=False), tensor(7, 6, grad=False), tensor(5, 6), tensor(6)
    c, bias = c.detach(), bias.detach()
    wanted = cute.ops.gemm(a, b, c, 0.5, 2, bias, "relu")
    assert torch.equal(gemm(a, b, c, 0.5, 2, bias, "relu"), wanted)
    out = torch.zeros(5, 6)
    version = out._version
    assert gemm.out(a, b, c, 0.5, 2, bias, "relu", out=out) is None
    assert torch.equal(out, wanted)
    assert out._version > version
    batch = tensor(2, 3, 5, 7, grad=False)
    assert torch.equal(gemm(batch, b), cute.ops.gemm(batch, b))


REFUSED = {
    "shapes": lambda f, a, b: f(a, b.T),
    "rank": lambda f, a, b: f(a[0], b),
    "mixed types": lambda f, a, b: f(a, b.double()),
    "integers": lambda f, a, b: f(a.long(), b.long()),
    "complex": lambda f, a, b: f(a.to(torch.complex64).conj(), b),
    "c without beta": lambda f, a, b: f(a, b, None, 1.0, 1.0),
    "shape of c": lambda f, a, b: f(a, b, a, 1.0, 1.0),
    "shape of bias": lambda f, a, b: f(a, b, None, 1.0, 0.0, a[0, :2]),
    "activation": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, "gemm"),
    "backend": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, None, None, "gpu"),
    "config": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, None, None, "auto", "tile=1"),
    "out_dtype": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, None, torch.int64),
    "dtype": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, None, None, "auto", None, "s4"),
    "checks": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, None, None, "auto", None, None, "x"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_the_fake_refuses_what_the_product_refuses_in_the_same_words(why):
    from torch._subclasses.fake_tensor import FakeTensorMode

    call, a, b = REFUSED[why], tensor(5, 7, grad=False), tensor(7, 6, grad=False)
    with pytest.raises(cute.CuteError) as real:
        call(gemm, a, b)
    with FakeTensorMode() as mode, pytest.raises(cute.CuteError) as fake:
        call(gemm, mode.from_tensor(a), mode.from_tensor(b))
    assert str(real.value) == str(fake.value)
    with pytest.raises(cute.CuteError) as meta:
        call(gemm, a.to("meta"), b.to("meta"))
    assert str(real.value) == str(meta.value)


def test_the_fake_refuses_out_in_the_same_words():
    from torch._subclasses.fake_tensor import FakeTensorMode

    a, b = tensor(5, 7, grad=False), tensor(7, 6, grad=False)
    for out in (torch.zeros(6, 5), torch.zeros(5, 6).long(), torch.zeros(6).expand(5, 6)):
        with pytest.raises(cute.CuteError) as real:
            gemm.out(a, b, out=out)
        with FakeTensorMode() as mode, pytest.raises(cute.CuteError) as fake:
            gemm.out(*map(mode.from_tensor, (a, b)), out=mode.from_tensor(out))
        assert str(real.value) == str(fake.value)


# -- gradients


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradcheck(activation):
    terms = [tensor(*shape, dtype=torch.float64) for shape in ((5, 7), (7, 6), (5, 6), (6,))]

    def product(a, b, c, bias):
        return gemm(a, b, c, 0.5, 2.0, bias, activation)

    assert torch.autograd.gradcheck(product, terms)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("activation", [None, "silu"])
def test_gradients_against_float64(dtype, activation):
    near_float64("cpu", dtype, activation)


@pytest.mark.parametrize("activation", ACTIVATIONS)
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


def test_second_derivatives_are_refused():
    a, b = tensor(5, 7), tensor(7, 6)
    (first,) = torch.autograd.grad(gemm(a, b).square().sum(), a, create_graph=True)
    torch.testing.assert_close(first, 2 * (a @ b) @ b.T, rtol=1e-4, atol=1e-4)
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


# -- autocast, vmap, modes


def test_autocast_casts_as_torch_does():
    a, b, wide = tensor(5, 7), tensor(7, 6), tensor(7, 6, dtype=torch.float64)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            assert gemm(a, b.half()).dtype == (a @ b.half()).dtype == dtype
            assert cute.ops.gemm(a, b).dtype == dtype
            assert gemm(wide.T, wide).dtype == torch.float64
            gemm(a, b).float().sum().backward()
    assert a.grad.dtype == b.grad.dtype == torch.float32
    torch.testing.assert_close(a.grad, 2 * b.detach().sum(1).expand(5, 7), rtol=5e-2, atol=5e-2)


def test_vmap_is_a_batch():
    a, b, c, bias = tensor(4, 5, 7), tensor(7, 4, 6), tensor(5, 6), tensor(4, 6)
    vmapped = torch.func.vmap(
        lambda a, b, bias: gemm(a, b, c, 0.5, 2.0, bias, "relu"), in_dims=(0, 1, 0)
    )
    wanted = torch.relu(0.5 * (a @ b.movedim(1, 0)) + 2 * c + bias[:, None])
    torch.testing.assert_close(vmapped(a, b, bias), wanted, rtol=1e-5, atol=1e-5)
    for beta, term in ((0.0, torch.full((5, 6), torch.nan)), (2.0, c.half())):  # not read; f16
        by_rows = torch.func.vmap(lambda x, row: gemm(x, b[:, 0], term, 1.0, beta, row))  # noqa: B023
        single = [gemm(x, b[:, 0], term, 1.0, beta, row) for x, row in zip(a, bias, strict=True)]
        torch.testing.assert_close(by_rows(a, bias), torch.stack(single), rtol=1e-6, atol=1e-6)
    one, other = a[0], b[:, 0]
    terms = torch.func.vmap(lambda c, row: gemm(one, other, c, 1.0, 2.0, row))
    wanted = one @ other + 2 * c + bias[:, None]
    torch.testing.assert_close(terms(c.expand(4, 5, 6), bias), wanted, rtol=1e-5, atol=1e-5)
    rows = torch.func.vmap(lambda row: gemm(a, other, None, 1.0, 0.0, row))
    torch.testing.assert_close(
        rows(bias), (a @ other)[None] + bias[:, None, None], rtol=1e-5, atol=1e-5
    )
    twice = torch.func.vmap(torch.func.vmap(gemm, in_dims=(0, None)), in_dims=(None, 0))
    x, y = tensor(3, 5, 7, grad=False), tensor(2, 7, 6, grad=False)
    torch.testing.assert_close(twice(x, y), x[None] @ y[:, None], rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_derivatives_of_torch_func_are_refused():
    y = tensor(7, 6, grad=False)
    with pytest.raises(cute.CuteError) as caught:
        torch.func.grad(lambda x: gemm(x, y).sum())(tensor(5, 7, grad=False))
    assert caught.value.code == "argument-tensor"


# -- torch.compile


@pytest.fixture
def fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield torch._dynamo.utils.counters
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
def test_dynamic_sizes_compile_once(fresh):
    """Forward and backward, and from the third size on nothing is compiled again."""
    weight, bias = tensor(7, 6), tensor(6)

    def step(x):
        return cute.ops.gemm(x * 2, weight, bias=bias, activation="silu").square().sum()

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=True)
    graphs = []
    for M in (3, 5, 8, 1000, 17, 33, 2):
        x = tensor(M, 7)
        got = torch.autograd.grad(compiled(x), (x, weight, bias))
        for found, wanted in zip(got, torch.autograd.grad(step(x), (x, weight, bias)), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        graphs.append(fresh["stats"]["unique_graphs"])
    assert len(set(graphs[2:])) == 1


@pytest.mark.filterwarnings("ignore")
def test_calls_of_the_operator_stay_whole_in_a_graph(fresh):
    a, b, c = tensor(5, 7, grad=False), tensor(7, 6, grad=False), tensor(5, 6, grad=False)
    functions = [
        lambda a, b, c: cute.ops.gemm(a, b, c, beta=1, out_dtype="bf16"),
        lambda a, b, c: cute.ops.gemm(a, b, out_dtype=cute.f64, backend="emulator"),
        lambda a, b, c: cute.ops.gemm(a.bfloat16(), b.bfloat16(), config="stages=2"),
        lambda a, b, c: cute.ops.gemm(a, b, dtype="bf16", out_dtype="f32"),
        lambda a, b, c: gemm(a, b, out_dtype=torch.float64),
    ]
    for function in functions:
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(a, b, c), function(a, b, c))


@pytest.mark.filterwarnings("ignore")
def test_calls_that_no_operator_takes_break_the_graph(fresh):
    a, b = tensor(8, 16, grad=False).half(), tensor(16, 8, grad=False).half()
    config = cute.ops.choose_config(8, 8, 16, "f16", majors=("K", "MN"))
    functions = [
        lambda a, b: cute.ops.gemm(a + 1, b, config=config) + 1,
        lambda a, b: cute.ops.gemm(a + 1, b, checks=True) + 1,
        lambda a, b: cute.ops.gemm(a + 1, b, alpha=torch.tensor(2.0)) + 1,
    ]
    for function in functions:
        compiled = torch.compile(function, backend="aot_eager")
        assert torch.equal(compiled(a, b), function(a, b))
        torch._dynamo.reset()


# -- processes and threads


class Products(torch.utils.data.Dataset):
    """Products of small matrices, as a data set of preprocessed rows."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        x = torch.full((8, 8), float(i), requires_grad=True)
        cute.ops.gemm(x, torch.eye(8)).sum().backward()
        return cute.ops.gemm(x.detach(), torch.eye(8)) + x.grad


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore")
def test_workers_of_a_data_loader(start):
    cute.ops.gemm(torch.ones(8, 8), torch.eye(8))  # the parent's caches are filled
    context = multiprocessing.get_context(start)
    loader = torch.utils.data.DataLoader(
        Products(), batch_size=2, num_workers=2, multiprocessing_context=context
    )
    found = torch.cat(list(loader))
    assert torch.equal(found[:, 0, 0], torch.arange(1.0, 5.0))


def test_threads_have_results_and_gradients_of_their_own():
    b, wrong = tensor(16, 8, grad=False), []

    def work(seed):
        for M in range(1, 9):
            a = torch.full((M, 16), float(seed), requires_grad=True)
            result = gemm(a, b)
            result.sum().backward()
            if not torch.allclose(result, a @ b, atol=1e-4) or not torch.allclose(
                a.grad, b.sum(1).expand(M, 16), atol=1e-4
            ):
                wrong.append((seed, M))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
