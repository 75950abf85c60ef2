"""Calls with tensors of torch that do the same on the host and on a GPU."""

import pytest

import cute_py as cute

KINDS = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "uint8",
)
RECORDED = """
import torch
from cute_py.ops import gemm
f = torch.compile(lambda a, b: gemm(a * 2, b) + 1, backend="eager", fullgraph=True)
print(float(f(torch.ones(8, 16), torch.ones(16, 8))[0, 0]))
"""


@cute.kernel
def add(x, y):
    cute.launch(grid=1, block=32)
    i = cute.thread_idx()
    with cute.when(i < y.shape[0]):
        y[i] = y[i] + 1.0


def followed_by_autograd(device):
    """Check that an operand that autograd follows is differentiated in each place and each way it
    gets its gradient, that kernels and `out` refuse it, and that nothing does where autograd is
    off.
    """
    import torch

    def tensor(*shape):
        return torch.ones(*shape, device=device)

    leaf = tensor(32, 32).requires_grad_()
    plain = tensor(32, 32)
    followed = {
        "a leaf": leaf,
        "a parameter": torch.nn.Parameter(plain.clone()),
        "a result": leaf * 2,
        "a view": leaf[:],
        "a transposed view": leaf.T,
    }
    later = tensor(32, 32)
    for _ in range(3):  # of the same facts, and known
        cute.ops.gemm(later, plain)
        add(plain[0], later[0])
    followed["one that got it later"] = later.requires_grad_()

    def products(x):
        yield lambda: cute.ops.gemm(x, plain)
        yield lambda: cute.ops.gemm(plain, x)
        yield lambda: cute.ops.gemm(plain, plain, x, beta=1)
        yield lambda: cute.ops.gemm(plain, plain, bias=x[0])

    def refused(x):
        out = torch.empty_like(plain)
        yield "a", lambda: cute.ops.gemm(x, plain, out=out)
        yield "b", lambda: cute.ops.gemm(plain, x, out=out)
        yield "x", lambda: add(x[0], out[0])

    for x in followed.values():
        for _ in range(2):
            for call in products(x):
                assert call().requires_grad
            for name, call in refused(x):
                with pytest.raises(cute.CuteError) as caught:
                    call()
                assert (caught.value.code, caught.value.facts["name"]) == (
                    "argument-gradient",
                    name,
                )
                assert "cute_py.torch.register" in str(caught.value)
            with torch.no_grad():
                for call in (*products(x), *[call for _name, call in refused(x)]):
                    result = call()
                    assert result is None or not result.requires_grad
            for call in products(x.detach()):
                assert not call().requires_grad
    for out in (leaf, leaf * 2):
        with pytest.raises(cute.CuteError, match=r"pass out\.detach\(\)"):
            cute.ops.gemm(plain, plain, out=out)
    factor = torch.tensor(2.0, requires_grad=True)
    for x in (plain, leaf):
        with pytest.raises(cute.CuteError, match=r"pass alpha\.detach\(\)"):
            cute.ops.gemm(x, plain, alpha=factor)
    with torch.inference_mode():
        inside = tensor(32, 32)
        assert float(cute.ops.gemm(inside, plain)[0, 0]) == 32
    assert float(cute.ops.gemm(inside, plain)[0, 0]) == 32


def graphs_around(device):
    """Check that torch.compile calls a kernel between two graphs, and has our product in one."""
    import torch

    def product(a, b):
        return cute.ops.gemm(a * 2, b) + 1

    def written(a, b):
        out = torch.zeros(8, 8, device=device)
        return cute.ops.gemm(a, b, alpha=2, out=out) + 1

    def counted(x):
        y = torch.zeros_like(x)
        add(x, y)
        return y * 2

    a, b = torch.ones(8, 16, device=device), torch.ones(16, 8, device=device)
    for function, args, wanted in (
        (product, (a, b), 33),
        (written, (a, b), 33),
        (counted, (a[0],), 2),
    ):
        is_whole = function is not counted
        compiled = torch.compile(function, backend="aot_eager", fullgraph=is_whole)
        for _ in range(3):
            assert bool((compiled(*args) == wanted).all())
        torch._dynamo.reset()
    with pytest.raises(Exception, match=r"cute_py runs between the graphs|Kernel\.__call__"):
        torch.compile(counted, backend="eager", fullgraph=True)(a[0])


class Products:
    """Products of small matrices with their gradients, as a data set of preprocessed rows."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        import torch

        x = torch.full((8, 8), float(i), requires_grad=True)
        cute.ops.gemm(x, torch.eye(8)).sum().backward()
        return cute.ops.gemm(x.detach(), torch.eye(8)) + x.grad


def load_products(start):
    """Check that workers of a data loader compute products; the caches of the parent are filled."""
    import multiprocessing

    import torch

    cute.ops.gemm(torch.ones(8, 8), torch.eye(8))
    context = multiprocessing.get_context(start)
    loader = torch.utils.data.DataLoader(
        Products(), batch_size=2, num_workers=2, multiprocessing_context=context
    )
    found = torch.cat(list(loader))
    assert torch.equal(found[:, 0, 0], torch.arange(1.0, 5.0))


# -- gradients


def operands(device, dtype, seed=0):
    """Return name -> (a, b, c, bias) in each order in memory, as leaves and views of them."""
    import torch

    made = torch.Generator().manual_seed(seed)

    def tensor(*shape):
        values = torch.randn(*shape, generator=made, dtype=torch.float64)
        return values.to(dtype).to(device).requires_grad_()

    M, K, N, L = 24, 40, 16, 3
    a, b, c, bias = tensor(M, K), tensor(K, N), tensor(M, N), tensor(N)
    return {
        "plain": ((a, b, c, bias), lambda *x: x),
        "transposed": ((tensor(K, M), tensor(N, K), tensor(N, M), bias), _transposed),
        "sliced": ((tensor(M, 2 * K), tensor(2 * K, N), tensor(2 * M, N), bias), _sliced),
        "expanded": ((tensor(1, K), tensor(1, N), tensor(M, 1), tensor(1)), _expanded),
        "one b for a batch": ((tensor(L, M, K), b, c, bias), lambda *x: x),
        "one a for a batch": ((a, tensor(L, K, N), tensor(1, M, N), bias), lambda *x: x),
        "two batches": (
            (tensor(L, 1, M, K), tensor(2, K, N), tensor(L, 1, M, N), bias),
            lambda *x: x,
        ),
        "no rows": ((tensor(0, K), b, tensor(0, N), bias), lambda *x: x),
        "no sums": ((tensor(M, 0), tensor(0, N), c, bias), lambda *x: x),
        "no matrices": ((tensor(0, M, K), b, c, bias), lambda *x: x),
        "no columns": ((tensor(0, M, K), tensor(K, 0), tensor(M, 0), tensor(0)), lambda *x: x),
    }


def _transposed(a, b, c, bias):
    return a.T, b.T, c.T, bias


def _sliced(a, b, c, bias):
    return a[:, : a.shape[1] // 2], b[: b.shape[0] // 2], c[: c.shape[0] // 2], bias


def _expanded(a, b, c, bias):
    return (
        a.expand(24, -1),
        b.expand(a.shape[1], -1),
        c.expand(-1, b.shape[1]),
        bias.expand(b.shape[1]),
    )


def gradients_of(leaves, view, activation, weight):
    """Return the gradients of our product, and those of torch in float64."""
    import torch

    functions = torch.nn.functional
    activate = {None: lambda x: x}.get(activation) or getattr(functions, activation)
    wide = [x.detach().double().requires_grad_() for x in leaves]
    a, b, c, bias = view(*wide)
    result = activate(0.5 * (a @ b) + 2 * c + bias)
    weight = weight if weight is not None else torch.ones_like(result)
    wanted = torch.autograd.grad((result * weight.double()).sum(), wide)
    a, b, c, bias = view(*leaves)
    ours = cute.ops.gemm(a, b, c, 0.5, 2, bias, activation)
    assert ours.shape == result.shape
    found = torch.autograd.grad((ours * weight.to(ours.dtype)).sum(), leaves)
    return found, wanted


def near_float64(device, dtype, activation):
    """Check gradients against float64, while torch fills new memory with NaN."""
    import torch

    tolerance = {"bfloat16": 5e-2, "float16": 1e-2, "float32": 1e-4, "float64": 1e-12}[dtype]
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        for name, (leaves, view) in operands(device, getattr(torch, dtype)).items():
            found, wanted = gradients_of(leaves, view, activation, None)
            for got, x, leaf in zip(found, wanted, leaves, strict=True):
                assert (got.shape, got.dtype) == (leaf.shape, leaf.dtype), name
                largest = float(x.abs().max()) if x.numel() else 1.0
                error = (got.double() - x).abs().max() if x.numel() else torch.zeros(())
                assert float(error) <= tolerance * max(largest, 1.0), (name, float(error))
    finally:
        torch.use_deterministic_algorithms(False)


def losses_of_blocks(compiled, **size):
    """Check that a block of examples/block.py trains as well with our Linear as with torch's."""
    import importlib.util
    from pathlib import Path

    import torch

    path = Path(__file__).parents[1] / "examples" / "block.py"
    spec = importlib.util.spec_from_file_location("block", path)
    block = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(block)
    torch._dynamo.reset()
    ours, theirs = (block.losses(x, compiled and x, **size) for x in (True, False))
    assert len(ours) == 50
    assert ours[-1] < 0.7 * ours[0]
    assert max(abs(x - y) for x, y in zip(ours, theirs, strict=True)) < 0.02 * theirs[0]


# -- attention

BOUND = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5}  # of errors of attention


def is_attention(found, *given, **named):
    """Whether a result is that of torch in f64, within the bound of its type."""
    import torch

    def wide(x):
        return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    function = torch.nn.functional.scaled_dot_product_attention
    want = function(*map(wide, given), **{k: wide(x) for k, x in named.items()})
    assert found.shape == want.shape
    bound = BOUND[str(found.dtype).removeprefix("torch.")]
    return bool((found.double() - want).abs().max() <= bound * want.abs().max())


def attention_samples(device, kind):
    """Return torch's own samples of its scaled_dot_product_attention, (arguments, named ones)."""
    import torch

    pytest.importorskip("expecttest")  # torch's tests need it
    from torch.testing._internal.common_methods_invocations import op_db

    (info,) = (x for x in op_db if x.name == "nn.functional.scaled_dot_product_attention")
    samples = info.sample_inputs(device, getattr(torch, kind))
    return [((x.input, *x.args), x.kwargs) for x in samples]
