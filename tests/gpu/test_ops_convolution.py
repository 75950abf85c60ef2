"""`cute.ops.conv2d` and its gradients on a GPU, exact on integers against torch in float64."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.ops import conv2d, conv2d_dgrad, conv2d_wgrad
from tests.gpu.harness import require_gpu, torch

require_gpu()

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
# images, side, channels, filters, filter, stride, padding, groups
RESNET = [
    (4, 56, 64, 64, 3, 1, 1, 1), (4, 28, 128, 128, 3, 1, 1, 1), (4, 14, 256, 256, 3, 1, 1, 1),
    (4, 7, 512, 512, 3, 1, 1, 1), (4, 56, 128, 128, 3, 2, 1, 1), (4, 56, 64, 256, 1, 1, 0, 1),
    (4, 56, 256, 512, 1, 2, 0, 1), (2, 224, 3, 64, 7, 2, 3, 1), (2, 224, 4, 64, 7, 2, 3, 1),
]  # fmt: skip
CONVNEXT = [
    (2, 224, 3, 96, 4, 4, 0, 1),
    (2, 28, 192, 384, 2, 2, 0, 1),
    (1, 14, 16, 16, 7, 1, 3, 16),
]


def integers(shape, kind="f16", most=2):
    """Small integers (N,H,W,C), whose sums f32 holds."""
    return torch.randint(-most, most + 1, shape, device="cuda").to(TYPES[kind])


def torch_conv(x, w, **options):
    """Return torch's convolution of (N,H,W,C) in float64."""
    planes, filters = x.double().permute(0, 3, 1, 2), w.double().permute(0, 3, 1, 2)
    return torch.nn.functional.conv2d(planes, filters, **options).permute(0, 2, 3, 1)


def check(x, w, **options):
    """Compare the three with torch, by its derivatives."""
    x64, w64 = (y.double().requires_grad_() for y in (x, w))
    wanted = torch_conv(x64, w64, **options)
    y = conv2d(x, w, out_dtype="f32", **options)
    assert torch.equal(y.double(), wanted)
    dy = integers(wanted.shape, most=1).to(x.dtype)
    dx, dw = torch.autograd.grad(wanted, (x64, w64), dy.double())
    named = {"out_dtype": "f32", **options}
    assert torch.equal(conv2d_dgrad(dy, w, x.shape, **named).double(), dx)
    assert torch.equal(conv2d_wgrad(dy, x, w.shape, **named).double(), dw)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("layer", [*RESNET, *CONVNEXT], ids=str)
def test_layers_are_exact_on_integers(layer, kind):
    N, H, C, K, R, stride, padding, groups = layer
    x, w = integers((N, H, H, C), kind), integers((K, R, R, C // groups), kind)
    check(x, w, stride=stride, padding=padding, groups=groups)


@pytest.mark.parametrize("seed", range(20))
def test_random_problems_are_exact(seed):
    """300 in all."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    for _ in range(15):
        R, S = (int(n) for n in rng.choice((1, 2, 3, 5, 7), 2))
        stride, dilation = (tuple(int(n) for n in rng.integers(1, m, 2)) for m in (4, 3))
        padding = tuple(int(n) for n in rng.integers(0, 4, 2))
        groups = int(rng.choice((1, 1, 1, 2, 4)))
        C, K = (groups * int(n) for n in rng.choice((1, 3, 4, 8, 16, 40, 64), 2))
        least = [(f - 1) * d + 1 for f, d in zip((R, S), dilation, strict=True)]
        H, W = (int(n + rng.integers(0, 20)) for n in least)
        kind = str(rng.choice(["f16", "f16", "bf16", "f32"]))
        x, w = (
            integers((int(rng.integers(1, 5)), H, W, C), kind),
            integers((K, R, S, C // groups), kind),
        )
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        check(x, w, **options)


@pytest.mark.parametrize("sides", [((0, 1), (1, 2)), ((2, 0), (0, 2))])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_may_differ_on_each_side(sides, stride):
    """As a convolution of images that are padded first."""
    x, w = integers((2, 13, 14, 64)), integers((64, 3, 3, 64))
    (top, bottom), (left, right) = sides
    padded = torch.nn.functional.pad(x, (0, 0, left, right, top, bottom))
    wanted = torch_conv(padded, w, stride=stride)
    assert torch.equal(conv2d(x, w, padding=sides, stride=stride).double(), wanted)
    dy = integers(wanted.shape)
    whole = conv2d_dgrad(dy, w, padded.shape, stride=stride)
    found = conv2d_dgrad(dy, w, x.shape, padding=sides, stride=stride)
    assert torch.equal(found, whole[:, top : top + 13, left : left + 14])


def test_bytes_are_exact():
    x = torch.randint(-128, 128, (2, 14, 14, 64), device="cuda").to(torch.int8)
    w = torch.randint(-128, 128, (40, 3, 3, 64), device="cuda").to(torch.int8)
    wanted = torch_conv(x, w, padding=1)
    found = conv2d(x, w, padding=1)
    assert found.dtype is torch.int32
    assert torch.equal(found.double(), wanted)


def test_tf32_is_exact_on_integers():
    x, w = integers((2, 14, 14, 32), "f32"), integers((24, 3, 3, 32), "f32")
    wanted = torch_conv(x, w, padding=1)
    x, w = (cute.typed(y, "tf32") for y in (x, w))
    assert torch.equal(conv2d(x, w, padding=1).double(), wanted)


def test_equal_calls_give_equal_bits():
    """Also those whose blocks have parts of the pixels."""
    x = torch.randn((8, 28, 28, 128), device="cuda").half()
    dy = torch.randn((8, 28, 28, 128), device="cuda").half()
    w = torch.randn((128, 3, 3, 128), device="cuda").half()
    for run in (
        lambda: conv2d(x, w, padding=1),
        lambda: conv2d_dgrad(dy, w, x.shape, padding=1),
        lambda: conv2d_dgrad(dy[:, :14, :14], w, x.shape, padding=1, stride=2),
        lambda: conv2d_wgrad(dy, x, w.shape, padding=1),
    ):
        first = run()
        assert all(torch.equal(run(), first) for _ in range(100))


def test_nothing_is_read_outside_of_images_or_written_outside_of_the_result():
    """Around both is NaN."""
    memory = torch.full((4, 20, 20, 48), float("nan"), device="cuda", dtype=torch.float16)
    x = memory[1:3, 2:16, 3:18, 8:40]
    x.copy_(integers(x.shape))
    w = integers((24, 3, 3, 32))
    whole = torch.full((2, 14, 15, 40), float("nan"), device="cuda", dtype=torch.float16)
    out = whole[..., 8:32]
    assert conv2d(x, w, padding=1, out=out) is out
    assert torch.equal(out.double(), torch_conv(x, w, padding=1))
    out.fill_(float("nan"))
    assert whole.isnan().all()


def test_tensors_of_torch_in_both_orders():
    """channels_last is read as it is, planes are transposed; known calls do the same."""
    x = integers((2, 10, 11, 16)).permute(0, 3, 1, 2)
    w = integers((24, 3, 3, 16)).permute(0, 3, 1, 2)
    wanted = torch.nn.functional.conv2d(x.double(), w.double(), padding=1)
    for _ in range(3):
        for images, filters in ((x, w), (x.contiguous(), w.contiguous())):
            found = conv2d(images, filters, padding=1, layout="NCHW")
            assert found.is_contiguous(memory_format=torch.channels_last)
            assert torch.equal(found.double(), wanted)


def test_a_block_of_resnet_trains_as_with_torch():
    import cute_py.torch as ours

    def block(kind):
        torch.manual_seed(0)
        conv = {"ours": ours.Conv2d, "torch": torch.nn.Conv2d}[kind]
        layers = [
            conv(32, 32, 3, padding=1, bias=False), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
            conv(32, 64, 3, stride=2, padding=1), torch.nn.ReLU(), conv(64, 32, 1),
        ]  # fmt: skip
        return torch.nn.Sequential(*layers).cuda().to(memory_format=torch.channels_last)

    torch.manual_seed(1)
    x = torch.randn((4, 32, 16, 16), device="cuda").to(memory_format=torch.channels_last)
    losses = {}
    for kind in ("ours", "torch"):
        made = block(kind)
        steps = torch.optim.SGD(made.parameters(), 0.05)
        losses[kind] = []
        for _ in range(10):
            steps.zero_grad()
            with torch.autocast("cuda", torch.float16):
                loss = made(x).float().square().mean()
            loss.backward()
            steps.step()
            losses[kind].append(float(loss.detach()))
    assert losses["ours"][-1] < losses["ours"][0]
    np.testing.assert_allclose(losses["ours"], losses["torch"], rtol=2e-2)


@pytest.mark.slow
def test_tensors_above_2_31_elements():
    x = torch.zeros((34, 1024, 1024, 64), device="cuda", dtype=torch.float16)  # 2.3e9
    x[-1, -2:, -2:] = integers((2, 2, 64))
    w = integers((16, 2, 2, 64))
    found = conv2d(x, w, stride=2)
    assert torch.equal(found[-1, -1, -1].double(), torch_conv(x[-1:, -2:, -2:], w)[0, 0, 0])
    assert not found[:-1].any()
