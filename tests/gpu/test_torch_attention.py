"""torch's scaled_dot_product_attention, computed by us: its samples, graphs, gradients."""

import pytest

import cute_py as cute
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


@pytest.mark.parametrize("family", ["warpgroups", "warps"])
@pytest.mark.parametrize("size", [128, (64, 32)])
def test_block_masks(family, size):
    """A BlockMask of torch against the whole mask: causal, near, and by heads."""
    from torch.nn.attention.flex_attention import create_block_mask, create_mask

    functions = [
        lambda b, h, i, j: i >= j,
        lambda b, h, i, j: (i - j <= 200) & (j - i <= 60),
        lambda b, h, i, j: (i >= j) | (h == 1),
    ]
    q, k, v = (drawn(2, 2, n, 128) for n in (900, 1000, 1000))
    for function in functions:
        mask = create_block_mask(function, None, 2, 900, 1000, "cuda", BLOCK_SIZE=size)
        named = {"layout": "BHMK", "config": f"family={family}"}
        found = cute.ops.attention(q, k, v, mask=mask, **named)
        seen = create_mask(function, 1, 2, 900, 1000, "cuda")
        assert is_attention(found, q, k, v, attn_mask=seen)


@pytest.mark.parametrize("out", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("dim", [64, 72, 128, 256])
def test_results_of_any_type(out, dim):
    q, k, v = (drawn(2, 2, n, dim) for n in (300, 500, 500))
    found = cute.ops.attention(q, k, v, layout="BHMK", out_dtype=out.replace("loat", ""))
    assert found.dtype == getattr(torch, out)
    assert is_attention(found.bfloat16(), q, k, v)


@pytest.mark.parametrize("config", ["", ",queries=128,keys=32,warps=4", ",stages=3"])
@pytest.mark.parametrize("causal", [False, True])
def test_tiles_and_stages_of_the_family_warps(config, causal):
    """And 20 times the same bits."""
    for dim in (64, 128):
        q, k, v = (drawn(2, 4, n, dim) for n in (700, 700, 700))
        named = {"layout": "BHMK", "config": f"family=warps{config}", "causal": causal}
        found = cute.ops.attention(q, k, v, **named)
        assert is_attention(found, q, k, v, is_causal=causal)
        for _ in range(20):
            assert torch.equal(cute.ops.attention(q, k, v, **named), found)
