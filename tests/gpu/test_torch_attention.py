"""torch's scaled_dot_product_attention, computed by us: its samples, graphs, gradients."""

import pytest

from tests.gpu.harness import require_gpu, torch
from tests.torch_calls import BOUND, attention_samples, is_attention

require_gpu()
from cute_py.torch import activate, deactivate, flash_attn_func  # noqa: E402

theirs = torch.nn.functional.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def restored():
    yield
    deactivate()


def drawn(*shape, kind="bfloat16"):
    return torch.randn(*shape, device="cuda").to(getattr(torch, kind))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", BOUND)
def test_samples_of_torch(kind):
    """25 of a type: 12 have dropout and are torch's, 13 are checked; those of f32 are torch's."""
    samples, checked = attention_samples("cuda", kind), 0
    for given, named in samples:
        with activate() as active:
            found = theirs(*given, **named)
        assert bool(active.said) is (kind == "float32" or bool(named["dropout_p"]))
        if not named["dropout_p"]:
            assert is_attention(found, *given, **named)
            checked += 1
    assert (checked, len(samples)) == (13, 25)


def test_masks_groups_and_long_rows():
    calls = [
        ((2, 8, 300, 64), (2, 2, 500, 64), {"enable_gqa": True}),
        ((2, 4, 300, 128), (2, 4, 500, 128), {"attn_mask": drawn(1, 300, 500)}),
        ((2, 4, 300, 96), (2, 4, 500, 96), {"attn_mask": drawn(2, 1, 300, 500) > -1}),
        ((1, 4, 2000, 128), (1, 4, 2000, 128), {"is_causal": True}),
        ((5, 128), (700, 128), {"scale": 0.3}),
    ]
    with activate() as active:
        given = [(drawn(*q), drawn(*k), drawn(*k)) for q, k, _named in calls]
        found = [theirs(*x, **named) for x, (_q, _k, named) in zip(given, calls, strict=True)]
    assert not active.said
    for o, x, (_q, _k, named) in zip(found, given, calls, strict=True):
        assert is_attention(o, *x, **named)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_graphs_call_us(mode):
    q = drawn(2, 4, 300, 64)
    with activate() as active:
        compiled = torch.compile(lambda x: theirs(x, x, x, is_causal=True) * 2, mode=mode)
        for _ in range(4):
            found = compiled(q).clone()
        assert torch.equal(found, theirs(q, q, q, is_causal=True) * 2)
    assert not active.said
    torch._dynamo.reset()


def test_gradients_are_torchs():
    q = drawn(2, 4, 300, 64).requires_grad_()
    (wanted,) = torch.autograd.grad(theirs(q, q, q).float().square().sum(), q)
    with activate(), pytest.warns(UserWarning, match="gradient"):
        (found,) = torch.autograd.grad(theirs(q, q, q).float().square().sum(), q)
    assert torch.allclose(found, wanted, rtol=1e-2, atol=1e-2)


def test_flash_attn_is_the_same_with_heads_after_rows():
    q, k, v = (drawn(2, n, 4, 128) for n in (300, 500, 500))
    found, lse, _none = flash_attn_func(q, k, v, return_attn_probs=True)
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    assert is_attention(found.transpose(1, 2), *turned)
    scores = turned[0].double() @ turned[1].double().mT * 128**-0.5
    assert torch.allclose(lse.double(), scores.logsumexp(-1), atol=1e-4)
