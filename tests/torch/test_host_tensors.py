"""Tensors of torch in host memory: results are tensors, and kernels refuse gradients."""

import subprocess
import sys

import numpy as np
import pytest

import cute_py as cute
from tests.torch_calls import KINDS, RECORDED, add, followed_by_autograd, graphs_around

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_tensors_of_the_operands_type(kind):
    a, b = (torch.ones(shape).to(getattr(torch, kind)) for shape in ((4, 8), (8, 6)))
    result = cute.ops.gemm(a, b)
    assert type(result) is torch.Tensor
    assert result.dtype == (torch.int32 if "int" in kind else a.dtype)
    assert bool((result.double() == 8).all())
    for out in (torch.empty_like(result), torch.empty_like(result.T.contiguous()).T):
        for alpha in (1.0, 2.0, 2.0):
            version = out._version
            assert cute.ops.gemm(a, b, alpha=alpha, out=out) is out
            assert bool((out.double() == 8 * alpha).all())
            assert out._version > version
    terms = {"c": result, "beta": 1, "bias": result[0]}
    assert bool((cute.ops.gemm(a, b, **terms).double() == 24).all())


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float8_e4m3fn", "int8"])
def test_a_prepared_product_takes_tensors(kind):
    """As operands, as a workspace, in exchange, and as the result, which autograd notes."""
    a, b = (torch.ones(shape).to(getattr(torch, kind)) for shape in ((4, 64), (64, 6)))
    like = torch.int32 if kind == "int8" else torch.float32
    out = torch.zeros((4, 6), dtype=like)
    given = {"out": out, "config": "split=serial:2"}
    product = cute.ops.Gemm(a, b, **given)
    product.initialize(torch.empty(product.workspace_size(), dtype=torch.uint8))
    for factor in (1, 2):
        version = out._version
        assert product.update(a=(a.float() * factor).to(a.dtype)).run() is out
        assert bool((out == 64 * factor).all())
        assert out._version > version
    with pytest.raises(cute.CuteError, match="requires_grad"):
        product.update(b=torch.ones((64, 6), requires_grad=True))


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float8_e4m3fn", "int32", "bool"])
def test_kernels_of_the_emulator_take_tensors(kind):
    @cute.kernel
    def copy(x, y):
        cute.launch(grid=1, block=32)
        i = cute.thread_idx()
        with cute.when(i < x.shape[0]):
            y[i] = x[i]

    x = (torch.arange(10) % 2).to(getattr(torch, kind))
    y = torch.zeros_like(x)
    copy(x, y)
    assert torch.equal(x.float(), y.float())


def test_operands_that_autograd_follows():
    followed_by_autograd("cpu")


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.to_sparse(),
        lambda x: x.to("meta"),
        lambda x: torch.nested.nested_tensor([x, x]),
    ],
    ids=["sparse", "meta", "nested"],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_memory_are_refused(make):
    x = make(torch.ones(4, 4))
    for call in (lambda: cute.ops.gemm(x, torch.ones(4, 4)), lambda: add(x, torch.ones(16))):
        with pytest.raises(cute.CuteError) as caught:
            call()
        assert caught.value.code == "argument-tensor"


def test_transformed_tensors_go_to_the_operators_and_kernels_refuse_them():
    x = torch.ones(3, 4, 4)
    for transform in (torch.func.grad, torch.func.vmap):
        found = transform(lambda x: cute.ops.gemm(x, torch.ones(4, 4)).sum())(x)
        wanted = transform(lambda x: (x @ torch.ones(4, 4)).sum())(x)
        torch.testing.assert_close(found, wanted)
        with pytest.raises(cute.CuteError) as caught:
            transform(lambda x: add(x[0], x[1]))(torch.ones(3, 4, 4))
        assert caught.value.code == "argument-tensor"


def test_lists_of_tensors_with_a_gradient_are_refused():
    x = torch.ones(1, requires_grad=True)
    with pytest.raises(cute.CuteError):
        cute.ops.gemm([[x[0]]], np.ones((1, 1)))


@pytest.fixture(scope="module")
def compiled():
    """Load what torch.compile needs, which takes seconds, and the emulator."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
    cute.ops.gemm(torch.ones(8, 16), torch.ones(16, 8))
    add(torch.ones(16), torch.ones(16))


@pytest.mark.filterwarnings("ignore")
def test_a_kernel_breaks_the_graph_of_torch_compile_and_a_product_does_not(compiled):
    graphs_around("cpu")


@pytest.mark.slow
@pytest.mark.parametrize("order", ["cute_py, torch", "torch, cute_py"])
def test_a_graph_is_whole_in_whichever_order_the_packages_are_imported(order):
    """Also where the first call of all is made from a graph."""
    first, second = [f"import {name}" for name in order.split(", ")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{first}\ncute_py = None\n{second}\n{RECORDED}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "33.0\n"), done.stderr
