"""On the GPU: kernels whose main loop runs over a part of K, or gathers, and warps along K."""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.config import choose, choose_config
from cute_py.kernels.convolution import ConvProblem
from cute_py.kernels.grouped import gemm_grouped
from cute_py.kernels.implicit_gemm import conv2d_fprop
from cute_py.kernels.stream_k import gemm_stream_k

torch = pytest.importorskip("torch", reason="needs torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


def whole(*shape, seed=0):
    """Return small integers as f16 on the GPU."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).half().cuda()


def poisoned(*shape):
    return torch.full(shape, float("nan"), device="cuda")


def tiles_of_eight_warps(a, b):
    """Return a configuration with registers to spare for a scheduler."""
    return replace(choose(a, b), warps=(2, 4))


def product(a, b):
    return a.double() @ b.double().T


@pytest.mark.parametrize("shape", [(128, 128, 64), (300, 200, 1000), (1024, 640, 4096)])
@pytest.mark.parametrize("blocks", [1, 7, 132])
def test_stream_k_is_exact_on_integers(shape, blocks):
    m, n, k = shape
    a, b = whole(m, k), whole(n, k, seed=1)
    config = tiles_of_eight_warps(a, b)
    partial = poisoned(blocks, 128 * 128)
    flags = torch.zeros(blocks, dtype=torch.int32, device="cuda")
    for _launch in range(3):  # the flags are zero again after each
        c = poisoned(m, n)
        gemm_stream_k(a, b, c, partial, flags, config)
        assert torch.equal(c.double(), product(a, b))
        assert not flags.any()


def test_stream_k_gives_the_same_bits_every_time_and_is_close():
    a, b = (torch.randn(512, 2048, device="cuda").half() for _ in range(2))
    config, wanted, results = tiles_of_eight_warps(a, b), product(a, b), []
    partial = poisoned(132, 128 * 128)
    flags = torch.zeros(132, dtype=torch.int32, device="cuda")
    for _ in range(20):
        results.append(poisoned(512, 512))
        gemm_stream_k(a, b, results[-1], partial, flags, config)
    assert all(torch.equal(results[0], c) for c in results)
    assert (results[0].double() - wanted).norm() <= 1e-6 * wanted.norm()


@pytest.mark.parametrize("blocks", [1, 132])
def test_groups_are_exact_on_integers(blocks):
    sizes = [(70, 40, 72), (1, 130, 8), (0, 8, 8), (64, 64, 0), (500, 300, 2000), (9, 3, 200)]
    areas = np.array([(m * k, n * k, m * n) for m, n, k in sizes])
    starts = np.zeros((len(sizes) + 1, 3), np.int32)
    starts[1:] = np.cumsum(areas, 0)
    in_a, in_b, in_c = map(int, starts[-1])
    a, b, c = whole(in_a), whole(in_b, seed=1), poisoned(in_c)
    config = tiles_of_eight_warps(whole(8, 8), whole(8, 8))
    given = torch.tensor(sizes, dtype=torch.int32).cuda()
    gemm_grouped(a, b, c, given, torch.tensor(starts[:-1]).cuda(), blocks, config)
    for (m, n, k), start, end in zip(sizes, starts[:-1], starts[1:], strict=True):
        x, y, z = (v[s:e] for v, s, e in zip((a, b, c), start, end, strict=True))
        assert torch.equal(z.reshape(m, n).double(), product(x.reshape(m, k), y.reshape(n, k)))


@pytest.mark.parametrize(
    ("conv", "shape", "filters"),
    [
        (ConvProblem((1, 1)), (1, 5, 7, 32), 8),
        (ConvProblem((3, 3), (1, 1)), (4, 28, 28, 128), 256),
        (ConvProblem((3, 2), (2, 0), (2, 1), (1, 3)), (3, 30, 31, 64), 72),
        (ConvProblem((5, 5), (4, 4), (1, 1), (2, 2)), (1, 16, 16, 32), 16),
    ],
)
def test_convolutions_are_exact_on_integers(conv, shape, filters):
    (N, H, W, C), (R, S) = shape, conv.filter
    x, f = whole(*shape), whole(filters, R, S, C, seed=1)
    P, Q = conv.extents(H, W)
    y, flat = poisoned(N, P, Q, filters), f.reshape(filters, -1)
    config = choose(flat, flat)
    conv2d_fprop(x, flat, y, conv, config)
    planes, filter_ = x.double().permute(0, 3, 1, 2), f.double().permute(0, 3, 1, 2)
    how = {"stride": conv.stride, "padding": conv.padding, "dilation": conv.dilation}
    wanted = torch.nn.functional.conv2d(planes, filter_, **how).permute(0, 2, 3, 1)
    assert torch.equal(y.double(), wanted)


@pytest.mark.parametrize("warps", [(2, 2, 2), (1, 2, 4), (2, 1, 2)])
@pytest.mark.parametrize("store", [0, 4])
def test_warps_along_k_are_exact_on_integers(warps, store):
    a, b = whole(300, 1000), whole(1000, 136, seed=1)
    chosen = choose_config(64, 64, 1000, "f16", ("K", "MN"))
    config = replace(chosen, tile=(64, 64, 64), warps=warps, store=store, spill_bytes=256)
    bias = torch.arange(136, device="cuda").float()
    found = cute.ops.gemm(a, b, bias=bias, activation="relu", out_dtype="f32", config=config)
    wanted = torch.relu(a.double() @ b.double() + bias.double())
    assert torch.equal(found.double(), wanted)
