"""On the GPU: kernels of 4-bit integers, exact on integers and scales that are powers of two."""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import conv2d_s4, w4a16
from cute_py.kernels.convolution import ConvProblem, reference

torch = pytest.importorskip("torch", reason="needs torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("blocks", [1, 7, 0])
@pytest.mark.parametrize(
    ("shape", "group"),
    [
        ((16, 1024, 4096), 128),
        ((1, 200, 520), 128),
        ((300, 500, 1000), 64),
        ((128, 256, 256), 32),
    ],
)
def test_weights_of_4_bits_are_exact(shape, group, blocks, kind):
    (m, n, k), random = shape, np.random.default_rng(0)
    config, gpu = w4a16.choose_tile(m, kind), torch.cuda.get_device_properties(0)
    blocks = blocks or w4a16.choose_blocks(config, m, n, k, gpu.multi_processor_count)
    w, a = random.integers(-8, 8, (n, k)), torch.randint(-4, 5, (m, k))
    scales = (2.0 ** random.integers(-2, 3, (n, -(-k // group)))).astype(cute.dtype(kind).numpy)
    words = torch.tensor(w4a16.shuffle_weights(w, scales, group, config)).cuda()
    real = torch.tensor(w * scales.astype(float).repeat(group, 1)[:, :k])
    a = a.to({"f16": torch.float16, "bf16": torch.bfloat16}[kind]).cuda()
    partial = torch.full((blocks, config.tile[0] * config.tile[1]), float("nan"), device="cuda")
    flags = torch.zeros(blocks, dtype=torch.int32, device="cuda")
    for _launch in range(3):  # the flags are zero again after each
        d = torch.full((m, n), float("nan"), device="cuda")
        w4a16.gemm_w4a16(a, words, d, partial, flags, config)
        assert torch.equal(d.double().cpu(), a.double().cpu() @ real.T)
        assert not flags.any()


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(
    ("conv", "shape", "filters"),
    [
        (ConvProblem((1, 1)), (1, 5, 7, 32), 8),
        (ConvProblem((3, 3), (1, 1)), (2, 14, 14, 128), 256),
        (ConvProblem((3, 2), (2, 0), (2, 1), (1, 3)), (3, 30, 31, 96), 72),
    ],
)
def test_convolutions_of_nibbles_are_exact(conv, shape, filters, flip):
    random = np.random.default_rng(0)
    x, f = random.integers(-8, 8, shape), random.integers(-8, 8, (filters, *conv.filter, shape[3]))
    conv = replace(conv, flip=flip)
    exact = reference(x, f, conv)
    z = random.integers(-8, 8, exact.shape)
    packed = [torch.tensor(conv2d_s4.nibbles(v).array).cuda() for v in (x, f, z)]
    y = torch.zeros(*exact.shape[:3], filters // 2, dtype=torch.uint8, device="cuda")
    arrays = [cute.typed(v, "s4", packed=True) for v in (*packed, y)]
    conv2d_s4.conv2d_s4(*arrays, 2.0**-7, 0.5, conv, conv2d_s4.choose_s4())
    wanted = np.clip(np.rint(exact / 128 + z / 2), -8, 7)
    assert (cute.unpack(y.cpu().numpy().ravel(), "s4") == wanted.ravel()).all()
