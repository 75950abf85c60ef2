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
f = torch.compile(lambda a, b: gemm(a * 2, b) + 1, backend="eager")
print(float(f(torch.ones(8, 16), torch.ones(16, 8))[0, 0]))
"""


@cute.kernel
def add(x, y):
    cute.launch(grid=1, block=32)
    i = cute.thread_idx()
    with cute.when(i < y.shape[0]):
        y[i] = y[i] + 1.0


def refused_with_gradient(device):
    """Check that an operand that autograd follows is refused in each place and each way it gets
    its gradient, and accepted without grad mode, detached, or in inference mode.
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

    def calls(x):
        out = torch.empty_like(plain)
        yield "a", lambda: cute.ops.gemm(x, plain)
        yield "b", lambda: cute.ops.gemm(plain, x)
        yield "c", lambda: cute.ops.gemm(plain, plain, x, beta=1)
        yield "bias", lambda: cute.ops.gemm(plain, plain, bias=x[0])
        yield "a", lambda: cute.ops.gemm(x, plain, out=out)
        yield "x", lambda: add(x[0], out[0])

    for x in followed.values():
        for _ in range(2):
            for name, call in calls(x):
                with pytest.raises(cute.CuteError) as caught:
                    call()
                assert (caught.value.code, caught.value.facts["name"]) == (
                    "argument-gradient",
                    name,
                )
            with torch.no_grad():
                for _name, call in calls(x):
                    call()
            for _name, call in calls(x.detach()):
                call()
    for out in (leaf, leaf * 2):
        with pytest.raises(cute.CuteError, match=r"pass out\.detach\(\)"):
            cute.ops.gemm(plain, plain, out=out)
    factor = torch.tensor(2.0, requires_grad=True)
    with pytest.raises(cute.CuteError, match=r"pass alpha\.detach\(\)"):
        cute.ops.gemm(plain, plain, alpha=factor)
    with torch.inference_mode():
        inside = tensor(32, 32)
        assert float(cute.ops.gemm(inside, plain)[0, 0]) == 32
    assert float(cute.ops.gemm(inside, plain)[0, 0]) == 32


def graphs_around(device):
    """Check that torch.compile calls an operator and a kernel between two graphs."""
    import torch

    def product(a, b):
        return cute.ops.gemm(a * 2, b) + 1

    def counted(x):
        y = torch.zeros_like(x)
        add(x, y)
        return y * 2

    a, b = torch.ones(8, 16, device=device), torch.ones(16, 8, device=device)
    for function, args, wanted in ((product, (a, b), 33), (counted, (a[0],), 2)):
        compiled = torch.compile(function, backend="eager")
        for _ in range(3):
            assert bool((compiled(*args) == wanted).all())
        torch._dynamo.reset()
        with pytest.raises(Exception, match="cute_py runs between the graphs"):
            torch.compile(function, backend="eager", fullgraph=True)(*args)
