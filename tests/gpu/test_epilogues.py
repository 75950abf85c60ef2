"""Epilogues as functions on a GPU: random ones against NumPy, all families, graphs, gradients."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cute_py as cute
from tests.emulated.test_epilogues_random import OUTPUTS, check_values, kinds
from tests.epilogue_functions import EXACT, epilogues
from tests.gpu.harness import require_gpu, torch

require_gpu()
import cute_py.torch  # noqa: E402

F = torch.nn.functional


def on_gpu(x):
    x = np.array(x, order="C")
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(x).cuda()


def multiply(a, b, **named):
    """Return the product of arrays of NumPy on the GPU; twice, as the second call is known."""
    held = {x: on_gpu(y) if isinstance(y, np.ndarray) else y for x, y in named.items()}
    a, b = on_gpu(a), on_gpu(b)
    for _ in range(2):
        found = cute.ops.gemm(a, b, **held)
    if not isinstance(found, dict):
        return found.cpu().numpy()
    return {x: y.cpu().numpy() for x, y in found.items()}


@settings(max_examples=30)
@given(epilogues(EXACT), st.integers(0, 99), kinds, st.sampled_from(OUTPUTS))
def test_random_functions_equal_numpy(made, seed, kinds, other):
    check_values(made, seed, kinds, other, multiply)


PING = "schedule=pingpong,tile=128x64x64"
SIZES = ((512, 512, 512), (300, 264, 136), (8, 4096, 1024), (4096, 4096, 256), (129, 77, 65))


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("config", [None, "schedule=multistage", "schedule=cooperative", PING])
def test_families_agree(shape, config):
    m, n, k = shape
    made = torch.Generator("cuda").manual_seed(0)

    def drawn(*size):
        return torch.randint(-3, 4, size, generator=made, device="cuda").to(torch.bfloat16)

    a, b = drawn(m, k), drawn(n, k).mT
    column, row, residual = drawn(m, 1).float(), drawn(n), drawn(m, n)
    aux = torch.full((m, n), torch.nan, device="cuda")

    def epilogue(acc, column, row, residual, scale):
        return {"D": acc * scale + residual, "aux": acc * column + row}

    terms = {"column": column, "row": row, "residual": residual}
    if config and "multistage" not in config and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("a family of compute capability 9.0")
    if shape == (129, 77, 65) and config and "multistage" not in config:
        pytest.skip("TMA does not read such rows")
    found = cute.ops.gemm(
        a, b, epilogue=epilogue, scale=0.5, aux=aux, config=config, out_dtype="f32", **terms
    )
    exact = a.float() @ b.float()
    assert torch.equal(found["D"], exact * 0.5 + residual.float())
    assert torch.equal(aux, exact * column + row.float())


@pytest.mark.parametrize("shape", [x for x in SIZES if x[1] % 8 == 0] + [(1, 4096, 512)])
@pytest.mark.parametrize("config", [None, "schedule=multistage", "schedule=cooperative", PING])
def test_families_combine_pairs_of_columns(shape, config):
    m, n, k = shape
    made = torch.Generator("cuda").manual_seed(0)

    def drawn(*size):
        return torch.randint(-3, 4, size, generator=made, device="cuda").to(torch.bfloat16)

    a, b = drawn(m, k), drawn(n, k).mT
    if config and "multistage" not in config and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("a family of compute capability 9.0")
    terms = {"row": drawn(n), "residual": drawn(m, n // 2), "column": drawn(m, 1).float()}

    def epilogue(acc, row, residual, column):
        first, second = cute.pairs(acc + row)
        return {"D": first * column - second + residual, "z": acc}

    found = cute.ops.gemm(a, b, epilogue=epilogue, config=config, out_dtype="f32", **terms)
    exact = a.float() @ b.float()
    row, residual, column = (x.float() for x in terms.values())
    z = exact + row
    assert torch.equal(found["D"], z[:, ::2] * column - z[:, 1::2] + residual)
    assert torch.equal(found["z"].float(), exact)
    gated = cute.ops.gemm(a, b, epilogue=cute.epilogues.swiglu, config=config, out_dtype="f32")
    wanted = F.silu(exact[:, ::2]) * exact[:, 1::2]
    torch.testing.assert_close(gated, wanted, rtol=1e-5, atol=1e-3)


def test_a_graph_replays_with_new_values():
    a, b, bias = (torch.randn(s, device="cuda").half() for s in ((128, 64), (64, 96), (96,)))

    def call():
        return cute.ops.gemm(
            a, b, epilogue=lambda x, bias, s: {"D": x * s, "aux": x + bias}, bias=bias, s=2.0
        )

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    for _ in range(2):
        for x in (a, b, bias):
            x.copy_(torch.randn_like(x))
        graph.replay()
        exact = a.float() @ b.float()
        torch.testing.assert_close(found["D"].float(), exact * 2, rtol=2e-3, atol=2e-2)
        torch.testing.assert_close(found["aux"].float(), exact + bias.float(), rtol=2e-3, atol=2e-2)


@pytest.mark.filterwarnings("ignore")
def test_gradients_are_those_of_torch():
    def tensor(*shape):
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    given = tensor(256, 128), tensor(128, 192), tensor(192), tensor(256, 192)

    def ours(a, b, bias, residual):
        return cute.ops.gemm(
            a, b, epilogue=lambda x, bias, r: cute.gelu(x + bias) + r, bias=bias, r=residual
        )

    def theirs(a, b, bias, residual):
        return F.gelu(a.float() @ b.float() + bias.float()) + residual.float()

    g = torch.randn(256, 192, device="cuda")
    found = torch.autograd.grad(ours(*given), given, g.bfloat16())
    wanted = torch.autograd.grad(theirs(*given), given, g.bfloat16().float())
    for x, y in zip(found, wanted, strict=True):
        assert ((x.float() - y.float()).norm() / y.float().norm()).item() < 1e-2
    compiled = torch.compile(ours, fullgraph=True)
    torch.testing.assert_close(compiled(*given), ours(*given))


def test_a_hundred_calls_give_the_same_bits():
    a, b = (torch.randn(s, device="cuda").bfloat16() for s in ((1000, 512), (512, 776)))
    first = cute.ops.gemm(a, b, epilogue=lambda x: cute.tanh(x))
    for _ in range(100):
        assert torch.equal(cute.ops.gemm(a, b, epilogue=lambda x: cute.tanh(x)), first)
