"""Products of one row or one column on a GPU: exact, in all orders in memory, in guarded memory."""

import random

import pytest

import cute_py as cute
from cute_py.kernels.gemv import VectorConfig
from tests.gpu.harness import require_gpu, torch

require_gpu()


def drawn(rng, *shape):
    """Return a matrix of small integers with rows or columns that are contiguous, 16 bytes."""
    *batch, rows, columns = shape
    turned = rng.random() < 0.5
    shape = (*batch, columns, rows) if turned else shape
    last = -(-shape[-1] // 8) * 8
    x = torch.randint(-3, 4, (*shape[:-1], last), device="cuda")
    x = x.to(rng.choice((torch.float16, torch.bfloat16)))[..., : shape[-1]]
    return x.mT if turned else x


@pytest.mark.parametrize("seed", range(40))
def test_random_products_are_exact(seed):
    rng = random.Random(seed)
    many, K = rng.choice((8, 100, 1000, 5003)), rng.choice((8, 72, 1000, 4096))
    batch = rng.choice(((), (), (3,)))
    M, N = rng.choice(((1, many), (many, 1)))
    a = drawn(rng, *batch, M, K)
    b = drawn(rng, *batch, K, N).to(a.dtype)
    room = torch.full((*batch, M + 2, N + 16), torch.nan, device="cuda")
    out, bias = room[..., 1:-1, 8:-8], torch.randint(-9, 9, (N,), device="cuda").float()
    more = {"bias": bias, "alpha": 0.5, "activation": "relu"}
    for _ in range(2):  # the second call is known
        out.fill_(torch.nan)
        cute.ops.gemm(a, b, out=out, **more)
        exact = torch.relu(0.5 * (a.double() @ b.double()) + bias).float()
        assert torch.equal(out, exact)
    rim = room.clone()
    rim[..., 1:-1, 8:-8] = 0
    inside = torch.isnan(rim).sum().item()
    assert inside == room.numel() - out.numel()


@pytest.mark.parametrize("along_k", [True, False])
def test_sums_repeat_to_the_bit_and_are_near(along_k):
    a = torch.randn(1, 4096, device="cuda").bfloat16()
    b = torch.randn(4096, 4096, device="cuda").bfloat16()
    b = b.mT if along_k else b
    assert isinstance(cute.ops.gemm_config(a, b), VectorConfig)
    found = [cute.ops.gemm(a, b, out_dtype="f32") for _ in range(20)]
    assert all(torch.equal(x, found[0]) for x in found)
    exact = a.double() @ b.double()
    assert ((found[0] - exact).norm() / exact.norm()).item() < 1e-6


def test_every_configuration_and_parts_agree():
    a, b = (torch.randint(-3, 4, s, device="cuda").half() for s in ((1, 4096), (4096, 1024)))
    exact = a.float() @ b.float()
    for text in ("schedule=multistage", "schedule=cooperative", "split=parallel:4"):
        assert torch.equal(cute.ops.gemm(a, b, out_dtype="f32", config=text), exact)
    assert torch.equal(cute.ops.gemm(a, b, out_dtype="f32"), exact)
