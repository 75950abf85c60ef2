"""`cute_py.torch.Linear` on a GPU: its fast way, memory, precision, and compiled code."""

import pytest

import cute_py as cute
from tests.gpu.harness import require_gpu, torch

require_gpu()
import cute_py.torch  # noqa: E402
from cute_py.torch import modules as module_of  # noqa: E402
from cute_py.torch.gemm import ENTRY  # noqa: E402
from cute_py.torch.rows import ROWS, product  # noqa: E402

functional = torch.nn.functional
NEAR = {"rtol": 2e-2, "atol": 2e-2}


def tensor(*shape, dtype=torch.bfloat16):
    return (torch.randn(*shape, device="cuda") / shape[-1] ** 0.5).to(dtype)


def layers(activation=None, kind=torch.bfloat16, sizes=(256, 384)):
    ours = cute_py.torch.Linear(*sizes, activation=activation).to("cuda", kind)
    theirs = torch.nn.Linear(*sizes).to("cuda", kind)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


OPERANDS = {
    "matrix": lambda: tensor(96, 256),
    "batch": lambda: tensor(4, 64, 256),
    "row": lambda: tensor(256),
    "one token": lambda: tensor(1, 1, 256),
    "many rows": lambda: tensor(4, 4096, 256),
    "a slice": lambda: tensor(4, 64, 512)[..., 128:384],
    "modes exchanged": lambda: tensor(64, 4, 256).transpose(0, 1),
    "one row repeated": lambda: tensor(256).expand(4, 64, 256),
    "odd address": lambda: tensor(1 + 96 * 256)[1:].view(96, 256),
}


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
@pytest.mark.parametrize("name", OPERANDS)
def test_results_and_gradients_are_torchs(name, activation):
    """The second and the third time by known calls, with other addresses. torch's operand is
    contiguous: else it adds the bias to rounded products, and relu hides other values.
    """
    ours, theirs = layers(activation)
    activate = getattr(functional, activation or "", lambda x: x)
    for _ in range(3):
        x = OPERANDS[name]()
        y = x.clone(memory_format=torch.contiguous_format).requires_grad_()
        x.requires_grad_()
        found, wanted = ours(x), activate(theirs(y))
        g = torch.randn_like(wanted)
        found.backward(g)
        wanted.backward(g)
        torch.testing.assert_close(found, wanted, **NEAR)
        for p, q in zip((x, *ours.parameters()), (y, *theirs.parameters()), strict=True):
            scale = q.grad.abs().max().clamp(min=1)
            torch.testing.assert_close(p.grad / scale, q.grad / scale, **NEAR)
        ours.zero_grad()
        theirs.zero_grad()
        with torch.no_grad():
            torch.testing.assert_close(ours(x), wanted, **NEAR)


@pytest.mark.parametrize("form", ["nn", "nt", "tn"])
def test_known_calls_launch_without_a_view(form):
    shapes = {"nn": ((4, 64, 128), (128, 256)), "nt": ((4, 64, 128), (256, 128))}
    first, second = shapes.get(form, ((4, 64, 128), (4, 64, 256)))
    for _ in range(3):
        product(tensor(*first), tensor(*second), form)
    known = ROWS.known.before[0]
    assert known is not None
    assert "launch" in known.answer.__code__.co_freevars
    a, b = tensor(*first), tensor(*second)
    wanted = {
        "nn": lambda: a @ b,
        "nt": lambda: a @ b.T,
        "tn": lambda: a.flatten(0, 1).T @ b.flatten(0, 1),
    }[form]()
    found = product(a, b, form)
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, **NEAR)


def test_gelu_takes_no_more_memory_than_torch():
    ours, theirs = layers("gelu", sizes=(512, 2048))
    taken = []
    for layer in (ours, lambda x: functional.gelu(theirs(x))):
        x = tensor(8192, 512).requires_grad_()
        for _ in range(3):  # the first one compiles
            x.grad = None
            ours.zero_grad()
            theirs.zero_grad()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            layer(x).sum().backward()
            torch.cuda.synchronize()
        taken.append(torch.cuda.max_memory_allocated() - before)
    assert taken[0] <= taken[1]


def test_autocast_uses_the_casts_that_torch_keeps():
    ours, theirs = layers(kind=torch.float32)
    x, y = (tensor(64, 256, dtype=torch.float32).requires_grad_() for _ in "xy")
    y.data.copy_(x.data)
    with torch.autocast("cuda", torch.bfloat16):
        first, second = module_of._cached(ours.weight, torch.bfloat16), None
        second = module_of._cached(ours.weight, torch.bfloat16)
        assert first.data_ptr() == second.data_ptr()
        found, wanted = ours(x), theirs(y)
    assert found.dtype is wanted.dtype is torch.bfloat16
    found.sum().backward()
    wanted.sum().backward()
    for p, q in zip((x, *ours.parameters()), (y, *theirs.parameters()), strict=True):
        assert p.grad.dtype is torch.float32
        torch.testing.assert_close(p.grad, q.grad, rtol=2e-2, atol=0.2)


def test_f32_follows_the_precision_of_torch():
    ours, _theirs = layers(kind=torch.float32)
    x = tensor(64, 256, dtype=torch.float32)
    a, b = (cute.typed(z, "tf32") for z in (x, ours.weight.detach().T))
    try:
        with torch.no_grad():
            exact = ours(x)
            torch.set_float32_matmul_precision("high")
            rounded = ours(x)
            assert torch.equal(rounded, cute.ops.gemm(a, b, bias=ours.bias.detach()))
        assert not torch.equal(rounded, exact)
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("kind", ["s8", "u8", "f16", "bf16", "e4m3", "e5m2", "f64"])
def test_options_mean_what_they_mean_on_the_host(kind):
    a, b = torch.randint(-8, 8, (48, 64)) / 4.0, torch.randint(-8, 8, (64, 32)) / 4.0
    for named in ({"dtype": kind}, {"dtype": kind, "out_dtype": torch.float32}):
        found = cute.ops.gemm(a.cuda(), b.cuda(), **named)
        wanted = cute.ops.gemm(a, b, **named)
        assert found.dtype is wanted.dtype
        assert torch.equal(found.float().cpu(), wanted.float())


@pytest.mark.filterwarnings("ignore")
def test_compiled_layers_call_products():
    from torch._inductor.utils import run_fw_bw_and_get_code

    torch._dynamo.reset()
    model = torch.nn.Sequential(
        cute_py.torch.Linear(256, 512, activation="gelu"), cute_py.torch.Linear(512, 256)
    ).to("cuda", torch.bfloat16)
    made = torch.compile(model, fullgraph=True)
    x = tensor(4, 64, 256).requires_grad_()
    with torch._inductor.config.patch(force_disable_caches=True):
        found, code = run_fw_bw_and_get_code(lambda: made(x))
    assert "\n".join(code).count(f"torch.ops.cute_py.{ENTRY}(") == 6
    torch.testing.assert_close(found, model(x), **NEAR)
