"""Tensors of torch on the GPU: kernels refuse gradients; and arrays by one interface."""

import numpy as np
import pytest

import cute_py as cute
from tests.gpu.harness import OnGpu, require_gpu, torch
from tests.torch_calls import add, followed_by_autograd, graphs_around

require_gpu()


def test_operands_that_autograd_follows():
    followed_by_autograd("cuda")


@pytest.mark.filterwarnings("ignore")
def test_a_kernel_breaks_the_graph_of_torch_compile_and_a_product_does_not():
    graphs_around("cuda")


@pytest.mark.parametrize("make", [lambda x: x.to_sparse(), lambda x: x.to("meta")])
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_memory_are_refused(make):
    x, y = make(torch.ones(32, 32, device="cuda")), torch.ones(32, 32, device="cuda")
    cute.ops.gemm(y, y)
    for call in (lambda: cute.ops.gemm(x, y), lambda: add(x, y[0])):
        with pytest.raises(cute.CuteError):
            call()


def test_transformed_tensors_go_to_the_operators():
    """Their memory is that of another tensor, so a kernel would lose their gradient or batch."""
    x, y = torch.ones(3, 32, 32, device="cuda"), torch.ones(32, 32, device="cuda")
    cute.ops.gemm(x, y)
    for transform in (torch.func.grad, torch.func.vmap):
        found = transform(lambda x: cute.ops.gemm(x, y).sum())(x)
        torch.testing.assert_close(found, transform(lambda x: (x @ y).sum())(x))
        with pytest.raises(cute.CuteError) as caught:
            transform(lambda x: add(x[0], x[1]))(x)
        assert caught.value.code == "argument-tensor"


def test_tensors_of_the_host_give_tensors():
    a, b = torch.ones(4, 8).bfloat16(), torch.ones(8, 4).bfloat16()
    result = cute.ops.gemm(a, b)
    assert (type(result), result.dtype) == (torch.Tensor, torch.bfloat16)
    assert bool((result == 8).all())


class InterfaceAlone:
    """Has `__cuda_array_interface__` and nothing else, as Numba's views in old CuPy."""

    def __init__(self, held):
        self.held = held

    @property
    def __cuda_array_interface__(self):
        return self.held.__cuda_array_interface__


def test_objects_with_the_cuda_array_interface_alone():
    x = OnGpu(np.arange(32, dtype=np.float32))
    add(InterfaceAlone(x), InterfaceAlone(x))
    torch.cuda.synchronize()
    assert (x.numpy() == np.arange(32) + 1).all()
    a = OnGpu(np.ones((32, 32), np.float32))
    assert float(cute.ops.gemm(InterfaceAlone(a), InterfaceAlone(a))[0, 0]) == 32
