"""`cute_py.torch.Linear`, and a transformer block that trains with it."""

import pickle

import pytest

import cute_py as cute
from cute_py.kernels.activations import ACTIVATIONS
from tests.torch_calls import losses_of_blocks

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402

functional = torch.nn.functional


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_torchs(activation, bias):
    torch.manual_seed(0)
    theirs = torch.nn.Linear(8, 12, bias)
    torch.manual_seed(0)
    ours = cute_py.torch.Linear(8, 12, bias, activation=activation)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert all(
        torch.equal(x, y) for x, y in zip(ours.parameters(), theirs.parameters(), strict=True)
    )
    activate = getattr(functional, activation) if activation else lambda x: x
    for shape in ((5, 8), (8,), (2, 3, 8), (0, 8)):
        x, y = (torch.randn(shape).requires_grad_() for _ in "xy")
        y = x.detach().clone().requires_grad_()
        found, wanted = ours(x), activate(theirs(y))
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        weight = torch.randn_like(wanted)
        (found * weight).sum().backward()
        (wanted * weight).sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-4)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4)
        assert p.grad.stride() == p.stride()


def test_linear_is_saved_and_shown():
    module = cute_py.torch.Linear(8, 12, activation="gelu", dtype=torch.bfloat16)
    again = pickle.loads(pickle.dumps(module))
    x = torch.ones(3, 8, dtype=torch.bfloat16)
    assert torch.equal(module(x), again(x))
    other = cute_py.torch.Linear(8, 12, dtype=torch.bfloat16)
    other.load_state_dict(torch.nn.Linear(8, 12).to(torch.bfloat16).state_dict())
    assert repr(module) == ("Linear(in_features=8, out_features=12, bias=True, activation='gelu')")
    with pytest.raises(cute.CuteError, match="activation='elu'"):
        cute_py.torch.Linear(8, 12, activation="elu")


def test_hooks_of_linear_run_once_for_a_row():
    module, x = cute_py.torch.Linear(8, 12), torch.randn(8)
    wanted = functional.linear(2 * x, module.weight, module.bias)
    module.register_forward_pre_hook(lambda _module, given: (2 * given[0],))
    torch.testing.assert_close(module(x), wanted, rtol=1e-5, atol=1e-5)


def test_linear_under_autocast():
    module, x = cute_py.torch.Linear(8, 12), torch.randn(4, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = module(x)
    assert result.dtype == torch.bfloat16
    result.float().sum().backward()
    assert module.weight.grad.dtype == x.grad.dtype == torch.float32


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_block_trains_as_with_torch(compiled):
    size = {"width": 32, "length": 8, "batch": 2, "device": "cpu", "backend": "aot_eager"}
    losses_of_blocks(compiled, **size)
